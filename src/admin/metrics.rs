//! What is told when somebody asks: how the configuration stands, what guards and upstreams do at the moment, and
//! whether the store of several replicas is there.

use std::{borrow::Cow, time::SystemTime};

use super::Operations;
use crate::{
    gateway::Gateway,
    observe::{Family, MeterSource, Reading},
    policy::{BreakerView, Guards, PolicyCounts},
    route::UpstreamName,
    upstream::http::State,
};

/// Tells of the configuration in force, and of the guards of its upstreams and routes.
#[derive(Debug)]
pub(super) struct Collected {
    pub(super) operations: Operations,
    pub(super) gateway: Gateway,
}

impl MeterSource for Collected {
    fn tell(&self, reading: &mut Reading) {
        self.configuration(reading);
        let snapshot = self.gateway.snapshot();
        for (name, guards) in &snapshot.guards {
            upstream(reading, name, guards);
        }
        routes(reading, &snapshot.counts);
        if let Some(buffer) = &snapshot.upstream_buffer {
            let help = "Memory charged for upstream responses, in bytes";
            reading.gauge("glossator_upstream_buffer_bytes", help).set(buffer.used_bytes());
            let help = "Limit of the memory for upstream responses, in bytes";
            reading.gauge("glossator_upstream_buffer_limit_bytes", help).set(buffer.limit_bytes());
            let help = "Calls that wait for memory for their upstream response";
            reading.gauge("glossator_upstream_buffer_queued", help).set(buffer.queued());
            let help = "Calls rejected because no memory was free for their upstream response";
            reading.counter("glossator_upstream_buffer_rejected", help).set(buffer.rejected());
        }
        if let Some(store) = &snapshot.counts.store {
            reading.gauge("glossator_cache_entries", "Replies that are kept").set(store.entries());
            reading.gauge("glossator_cache_bytes", "How many bytes they take").set(store.bytes());
            let help = "How many bytes they may take";
            reading.gauge("glossator_cache_limit_bytes", help).set(store.limit_bytes());
        }
        if let Some(shared) = self.gateway.shared() {
            let help = "Whether the shared store can be reached";
            reading.gauge("glossator_shared_store_up", help).set(shared.is_reachable());
            let counts = shared.counts();
            let help = "What was asked of the shared store, and what was of no use";
            let family = reading.counter("glossator_shared_store_operations", help);
            for (outcome, count) in [
                ("asked", counts.asked()),
                ("failed", counts.failed()),
                ("not_written", counts.not_written()),
                ("foreign", counts.foreign()),
            ] {
                family.add(vec![("outcome", outcome.into())], count);
            }
        }
    }
}

impl Collected {
    fn configuration(&self, reading: &mut Reading) {
        let standing = self.operations.standing();
        let since = standing.since.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        let version = vec![("version", env!("CARGO_PKG_VERSION").into())];
        reading.gauge("glossator_build_info", "Which program this is").add(version, 1_u64);
        let help = "Configurations that have been in force";
        reading.counter("glossator_configurations", help).set(standing.generation);
        let help = "Configurations that were read and not put in force";
        reading.counter("glossator_configuration_failures", help).set(standing.failures);
        let help = "Whether the last configuration that was read is in force";
        reading.gauge("glossator_configuration_good", help).set(standing.failure.is_none());
        let help = "Whether a changed setting takes effect only after a restart";
        reading.gauge("glossator_config_restart_pending", help).set(!standing.later.is_empty());
        let help = "Since when the configuration in force is";
        reading.gauge("glossator_configuration_timestamp_seconds", help).set(since.as_secs_f64());
    }
}

/// What the guards of an upstream did since it is in force, and how it stands.
fn upstream(reading: &mut Reading, name: &UpstreamName, guards: &Guards) {
    let label = || ("upstream", Cow::<'static, str>::Owned(name.as_str().to_owned()));
    let counts = guards.counts();
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
    let help = "How often a guard of an upstream did something";
    let family = reading.counter("glossator_upstream_guards", help);
    for (action, count) in told {
        family.add(vec![label(), ("action", action.into())], count.get());
    }
    let help = "Attempts to ask an upstream by what came of them, each of a call's own";
    let family = reading.counter("glossator_upstream_attempts", help);
    for (result, count) in counts.attempts.read() {
        family.add(vec![label(), ("result", result.into())], count);
    }
    let help = "Requests that were handed through unread, by what came of them";
    let family = reading.counter("glossator_passthrough_replies", help);
    for (result, count) in counts.handed_through.read() {
        family.add(vec![label(), ("result", result.into())], count);
    }
    let view = guards.view();
    let help = "Requests that an upstream has now";
    reading.gauge("glossator_upstream_in_flight", help).add(vec![label()], view.in_flight);
    let help = "How many requests it may have at a time";
    reading.gauge("glossator_upstream_in_flight_limit", help).add(vec![label()], view.in_flight_limit);
    let help = "Requests that wait for a place";
    reading.gauge("glossator_upstream_waiting", help).add(vec![label()], view.waiting);
    let help = "1 for the state that the circuit breaker of an upstream is in";
    breaker(reading.gauge("glossator_upstream_breaker_state", help), label, view.breaker);
    if view.kind == "http" {
        let addresses = &view.addresses;
        let help = "Addresses of an upstream by how they do";
        let family = reading.gauge("glossator_upstream_addresses", help);
        for state in ["up", "left_out", "to_be_tried", "unhealthy"] {
            let count = addresses.iter().filter(|address| word(address.state) == state).count();
            family.add(vec![label(), ("state", state.into())], count);
        }
    }
}

fn word(state: State) -> &'static str {
    match state {
        State::Up => "up",
        State::LeftOut { .. } => "left_out",
        State::ToBeTried => "to_be_tried",
        State::Unhealthy => "unhealthy",
    }
}

/// What the guards of routes did since they are in force.
fn routes(reading: &mut Reading, counts: &PolicyCounts) {
    let help = "How often a guard of a route did something";
    let family = reading.counter("glossator_route_guards", help);
    let mut routes: Vec<_> = counts.routes.iter().collect();
    routes.sort_by_key(|(tool, _)| tool.as_str());
    for (tool, guards) in &routes {
        let counts = guards.counts();
        let told = [
            ("rate_rejected", &counts.too_often),
            ("caller_rate_rejected", &counts.caller_too_often),
            ("cache_hit", &counts.kept),
            ("cache_hit_of_others", &counts.kept_by_others),
            ("cache_miss", &counts.fetched),
            ("cache_revalidated", &counts.still_good),
            ("cache_stale", &counts.old),
            ("coalesced", &counts.joined),
            ("hedged", &counts.hedged),
            ("hedge_won", &counts.hedges_won),
            ("breaker_opened", &counts.opened),
            ("breaker_rejected", &counts.rested),
        ];
        for (action, count) in told {
            let labels = vec![("tool", tool.as_str().to_owned().into()), ("action", action.into())];
            family.add(labels, count.get());
        }
    }
    for (tool, guards) in routes {
        breaker(
            reading.gauge(
                "glossator_route_circuit_breaker_state",
                "1 for the state of a route's circuit breaker",
            ),
            || ("route", tool.as_str().to_owned().into()),
            guards.breaker(),
        );
    }
}

/// The state of a circuit breaker; nothing where it is off.
fn breaker(family: &mut Family, label: impl Fn() -> (&'static str, Cow<'static, str>), view: BreakerView) {
    if view == BreakerView::Off {
        return;
    }
    for state in ["closed", "open", "half_open"] {
        family.add(vec![label(), ("state", state.into())], state == view.as_word());
    }
}
