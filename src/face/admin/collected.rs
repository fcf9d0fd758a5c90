//! What is counted when somebody asks: how the configuration stands, and what the process takes.

use std::{fmt, fs, time::SystemTime};

use prometheus_client::{
    collector::Collector,
    encoding::{DescriptorEncoder, EncodeMetric},
    metrics::{MetricType, counter::ConstCounter, gauge::ConstGauge},
    registry::Unit,
};

use super::Operations;
use crate::gateway::Gateway;

/// Tells of the configuration in force, and of the process.
#[derive(Debug)]
pub(super) struct Collected {
    pub(super) operations: Operations,
    pub(super) gateway: Gateway,
}

impl Collector for Collected {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
        let standing = self.operations.standing();
        let since = standing.since.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        let mut tell = |name: &str, help: &str, unit: Option<Unit>, kind, metric: &dyn Encoded| {
            metric.encode(encoder.encode_descriptor(name, help, unit.as_ref(), kind)?)
        };
        let counter = MetricType::Counter;
        let gauge = MetricType::Gauge;
        let (generation, good) = (ConstCounter::new(standing.generation), standing.failure.is_none());
        tell("configurations", "Configurations that have been in force", None, counter, &generation)?;
        let good = ConstGauge::new(i64::from(good));
        tell(
            "configuration_good",
            "Whether the last configuration that was read is in force",
            None,
            gauge,
            &good,
        )?;
        let since = ConstGauge::new(since.as_secs_f64());
        let help = "Since when the configuration in force is";
        tell("configuration_timestamp", help, Some(Unit::Seconds), gauge, &since)?;
        if let Some(resident) = resident_bytes() {
            let resident = ConstGauge::new(i64::try_from(resident).unwrap_or(i64::MAX));
            tell("process_resident", "Memory of this process", Some(Unit::Bytes), gauge, &resident)?;
        }
        if let Some(open) = open_files() {
            let open = ConstGauge::new(i64::try_from(open).unwrap_or(i64::MAX));
            tell("process_open_files", "Files and sockets of this process", None, gauge, &open)?;
        }
        self.guards(encoder)
    }
}

impl Collected {
    /// What the guards of upstreams and routes did since they are in force.
    fn guards(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
        let counts = self.gateway.snapshot().counts.clone();
        let kind = MetricType::Counter;
        let help = "How often a guard of an upstream did something";
        let mut descriptor = encoder.encode_descriptor("upstream_guards", help, None, kind)?;
        for (upstream, counts) in &counts.upstreams {
            let told = [
                ("deadline", &counts.late),
                ("attempt_deadline", &counts.attempts_late),
                ("retry", &counts.again),
                ("breaker_opened", &counts.opened),
                ("breaker_rejected", &counts.rested),
                ("queue_rejected", &counts.busy),
                ("rate_rejected", &counts.too_often),
                ("caller_rate_rejected", &counts.caller_too_often),
            ];
            for (action, count) in told {
                let labels = [("upstream", upstream.as_str()), ("action", action)];
                EncodeMetric::encode(&ConstCounter::new(count.get()), descriptor.encode_family(&labels)?)?;
            }
        }
        let help = "How often a guard of a route did something";
        let mut descriptor = encoder.encode_descriptor("route_guards", help, None, kind)?;
        for (tool, counts) in &counts.routes {
            let told = [
                ("rate_rejected", &counts.too_often),
                ("caller_rate_rejected", &counts.caller_too_often),
                ("cache_hit", &counts.kept),
                ("cache_miss", &counts.fetched),
                ("cache_revalidated", &counts.still_good),
                ("cache_stale", &counts.old),
                ("coalesced", &counts.joined),
                ("hedged", &counts.hedged),
                ("hedge_won", &counts.hedges_won),
            ];
            for (action, count) in told {
                let labels = [("tool", tool.as_str()), ("action", action)];
                EncodeMetric::encode(&ConstCounter::new(count.get()), descriptor.encode_family(&labels)?)?;
            }
        }
        Ok(())
    }
}

/// A metric whose kind does not matter here.
trait Encoded {
    fn encode(&self, encoder: prometheus_client::encoding::MetricEncoder<'_>) -> fmt::Result;
}

impl<M: EncodeMetric> Encoded for M {
    fn encode(&self, encoder: prometheus_client::encoding::MetricEncoder<'_>) -> fmt::Result {
        EncodeMetric::encode(self, encoder)
    }
}

/// Memory that is really there, in bytes. `None` where the system does not say it this way.
fn resident_bytes() -> Option<u64> {
    let status = fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    line.trim().strip_suffix(" kB")?.trim().parse::<u64>().ok()?.checked_mul(1024)
}

fn open_files() -> Option<u64> {
    u64::try_from(fs::read_dir("/proc/self/fd").ok()?.count()).ok()
}
