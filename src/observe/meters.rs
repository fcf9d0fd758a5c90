//! What is counted and timed, for Prometheus and whoever reads its format (OpenMetrics 1.0).

use std::{
    fmt,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use super::Failures;
use prometheus_client::{
    collector::Collector,
    encoding::{EncodeLabelSet, EncodeLabelValue, LabelValueEncoder, text::encode},
    metrics::{counter::Counter, family::Family, gauge::Gauge, histogram::Histogram},
    registry::Registry,
};

/// The bounds of durations, in seconds: from what a proxy costs to what nobody waits for.
pub(super) const DURATION_BOUNDS: [f64; 13] =
    [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0, 30.0];

/// As many as there are bounds, and one for what is longer than all.
pub(super) const BUCKETS: usize = DURATION_BOUNDS.len() + 1;

/// What calls are read by that are over.
const CALLS: &str = "calls";
const DURATIONS: &str = "durations";

/// One number of what is counted for a tool; the same kind may come several times, for more labels than it tells.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Reading<'t> {
    /// So many calls ended so.
    Calls { outcome: &'t str, count: u64 },
    /// So many took longer than the bucket before has, and not longer than this one.
    Took { bucket: usize, count: u64 },
}

/// All that this process counts. Clones count the same.
#[derive(Clone, Default)]
pub struct Meters(Arc<Counted>);

struct Counted {
    registry: Mutex<Registry>,
    /// Calls and how long they took, which are read apart from everything else.
    of_calls: Registry,
    calls: Family<CallLabels, Counter>,
    durations: Family<DurationLabels, Histogram, fn() -> Histogram>,
    in_flight: Family<FaceLabels, Gauge>,
    rules: Family<RuleLabels, Counter>,
    replies: Family<ReplyLabels, Counter>,
    upstream_durations: Family<UpstreamLabels, Histogram, fn() -> Histogram>,
    failures: Failures,
}

/// A name that many series share.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Label(Arc<str>);

/// What is told of one call that is over.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct CallLabels {
    /// The tool.
    pub tool: Label,
    /// Whom it asks.
    pub upstream: Label,
    /// The way in.
    pub face: &'static str,
    /// The revision of MCP; empty for other ways in.
    pub protocol: &'static str,
    /// How it ended: `success`, `error`, `task` or `cancelled`.
    pub outcome: &'static str,
    /// Why there was an error; empty where there was none.
    pub fault: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct DurationLabels {
    tool: Label,
    face: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct FaceLabels {
    face: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct RuleLabels {
    tool: Label,
    rule: Rule,
}

/// Which rule of a route decided, counted from 1; none where the default rules did.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct Rule(Option<usize>);

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ReplyLabels {
    upstream: Label,
    result: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct UpstreamLabels {
    upstream: Label,
}

impl Default for Counted {
    fn default() -> Self {
        let durations: fn() -> Histogram = || Histogram::new(DURATION_BOUNDS);
        let mut counted = Self {
            registry: Mutex::new(Registry::with_prefix("glossator")),
            of_calls: Registry::default(),
            calls: Family::default(),
            durations: Family::new_with_constructor(durations),
            in_flight: Family::default(),
            rules: Family::default(),
            replies: Family::default(),
            upstream_durations: Family::new_with_constructor(durations),
            failures: Failures::default(),
        };
        let mut registry = counted.registry.lock().unwrap_or_else(PoisonError::into_inner);
        registry.register("calls", "Calls that are over", counted.calls.clone());
        registry.register("call_duration_seconds", "How long calls took", counted.durations.clone());
        registry.register("calls_in_flight", "Calls that are not over", counted.in_flight.clone());
        registry.register("rules", "Replies by the rule of the route that decided", counted.rules.clone());
        registry.register(
            "upstream_replies",
            "Requests to upstreams by what came of them, repetitions counted once",
            counted.replies.clone(),
        );
        registry.register(
            "upstream_duration_seconds",
            "How long upstreams took, waits and repetitions included",
            counted.upstream_durations.clone(),
        );
        drop(registry);
        counted.of_calls.register(CALLS, "", counted.calls.clone());
        counted.of_calls.register(DURATIONS, "", counted.durations.clone());
        counted
    }
}

impl Meters {
    /// The last calls that failed.
    pub fn failures(&self) -> &Failures {
        &self.0.failures
    }

    /// Counts what somebody else knows, whenever it is asked for.
    pub fn register(&self, collector: impl Collector + 'static) {
        let mut registry = self.0.registry.lock().unwrap_or_else(PoisonError::into_inner);
        registry.register_collector(Box::new(collector));
    }

    /// A call has begun.
    pub fn call_began(&self, face: &'static str) {
        self.0.in_flight.get_or_create(&FaceLabels { face }).inc();
    }

    /// It is over.
    pub fn call_ended(&self, labels: &CallLabels, took: Duration) {
        let face = labels.face;
        self.0.in_flight.get_or_create(&FaceLabels { face }).dec();
        self.0.calls.get_or_create(labels).inc();
        let labels = DurationLabels { tool: labels.tool.clone(), face };
        self.0.durations.get_or_create(&labels).observe(took.as_secs_f64());
    }

    /// A rule of a route has decided what a reply means; the default rules where there is none.
    pub fn rule_decided(&self, tool: &Label, rule: Option<usize>) {
        let labels = RuleLabels { tool: tool.clone(), rule: Rule(rule) };
        self.0.rules.get_or_create(&labels).inc();
    }

    /// An upstream has replied, or not: `2xx`, or a word for what went wrong.
    pub fn upstream_replied(&self, upstream: &Label, result: &'static str, took: Duration) {
        let labels = ReplyLabels { upstream: upstream.clone(), result };
        self.0.replies.get_or_create(&labels).inc();
        let labels = UpstreamLabels { upstream: upstream.clone() };
        self.0.upstream_durations.get_or_create(&labels).observe(took.as_secs_f64());
    }

    /// Tells of each tool what is counted of its calls.
    ///
    /// The numbers are read from their text, since a family gives its members to nobody else.
    pub(super) fn read(&self, mut tell: impl FnMut(&str, Reading<'_>)) {
        let mut text = String::new();
        encode(&mut text, &self.0.of_calls).expect("a String takes everything");
        // Buckets come in order, and count all that are below them, too.
        let (mut bucket, mut below) = (0, 0);
        for line in text.lines() {
            let Some((name, rest)) = line.split_once('{') else { continue };
            let Some((labels, value)) = rest.split_once("} ") else { continue };
            let Some(tool) = label(labels, "tool=\"") else { continue };
            let Some(count) = value.split(' ').next().and_then(|count| count.parse::<u64>().ok()) else {
                continue;
            };
            match name.split_once('_') {
                Some((CALLS, "total")) => {
                    let outcome = label(labels, "outcome=\"").unwrap_or_default();
                    tell(tool, Reading::Calls { outcome, count });
                }
                Some((DURATIONS, "bucket")) => {
                    tell(tool, Reading::Took { bucket, count: count.saturating_sub(below) });
                    (bucket, below) = if bucket + 1 == BUCKETS { (0, 0) } else { (bucket + 1, count) };
                }
                Some(_) | None => {}
            }
        }
    }

    /// All of it, as text of the media type [`MEDIA_TYPE`](Self::MEDIA_TYPE).
    pub fn to_text(&self) -> String {
        let mut text = String::new();
        let registry = self.0.registry.lock().unwrap_or_else(PoisonError::into_inner);
        encode(&mut text, &registry).expect("a String takes everything");
        text
    }

    /// Of [`to_text`](Self::to_text).
    pub const MEDIA_TYPE: &'static str = "application/openmetrics-text; version=1.0.0; charset=utf-8";
}

impl fmt::Debug for Meters {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Meters")
    }
}

/// The value of a label. Names of tools have neither quotes nor backslashes.
fn label<'t>(labels: &'t str, beginning: &str) -> Option<&'t str> {
    let at = labels.match_indices(beginning).find(|(at, _)| *at == 0 || labels.as_bytes()[at - 1] == b',')?.0;
    labels[at + beginning.len()..].split('"').next()
}

impl From<Arc<str>> for Label {
    fn from(name: Arc<str>) -> Self {
        Self(name)
    }
}

impl EncodeLabelValue for Label {
    fn encode(&self, encoder: &mut LabelValueEncoder<'_>) -> fmt::Result {
        (&*self.0).encode(encoder)
    }
}

impl EncodeLabelValue for Rule {
    fn encode(&self, encoder: &mut LabelValueEncoder<'_>) -> fmt::Result {
        match self.0 {
            Some(index) => (index + 1).encode(encoder),
            None => "default".encode(encoder),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_counted_is_told_in_the_format_of_prometheus() {
        let meters = Meters::default();
        let labels = CallLabels {
            tool: Label("get_\"x\"".into()),
            upstream: Label("old".into()),
            face: "mcp",
            protocol: "2025-11-25",
            outcome: "error",
            fault: "upstream",
        };
        meters.call_began("mcp");
        meters.call_began("mcp");
        meters.call_ended(&labels, Duration::from_millis(3));
        meters.rule_decided(&labels.tool, Some(0));
        meters.rule_decided(&labels.tool, None);
        meters.upstream_replied(&labels.upstream, "2xx", Duration::from_millis(2));
        let text = meters.to_text();
        for line in [
            r#"glossator_calls_total{tool="get_\"x\"",upstream="old",face="mcp",protocol="2025-11-25",outcome="error",fault="upstream"} 1"#,
            r#"glossator_calls_in_flight{face="mcp"} 1"#,
            r#"glossator_call_duration_seconds_bucket{le="0.005",tool="get_\"x\"",face="mcp"} 1"#,
            r#"glossator_rules_total{tool="get_\"x\"",rule="1"} 1"#,
            r#"glossator_rules_total{tool="get_\"x\"",rule="default"} 1"#,
            r#"glossator_upstream_replies_total{upstream="old",result="2xx"} 1"#,
            "# TYPE glossator_call_duration_seconds histogram",
        ] {
            assert!(text.contains(line), "no {line} in\n{text}");
        }
        assert!(text.ends_with("# EOF\n"));
    }
}
