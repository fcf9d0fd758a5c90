//! Metrics of the calls of a route, and of the requests to an upstream.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, AtomicUsize, Ordering},
    },
    time::Duration,
};

use settings_derive::EnumSetting;

use super::histogram::Histogram;
use super::snapshot::MetricsSnapshot;
use super::{ByLabel, RouteKey};
use crate::settings::EnumSetting as _;
use crate::telemetry::{CallCounts, FailedCalls};

/// The metrics of the calls of one route. They are looked up once, when a configuration becomes active, not
/// for each call.
#[derive(Debug)]
pub struct RouteMeters {
    /// Identifier that is unique among all route metrics of this process, including earlier ones of the same
    /// route.
    pub(in crate::telemetry) id: u64,
    pub(in crate::telemetry) tool: Arc<str>,
    upstream: Arc<str>,
    apis: ByLabel<ApiMeters>,
    /// Counters of responses by the rule of the route that matched. The last counter is for the default
    /// rules.
    rules: Box<[AtomicU64]>,
    mismatches: LabelCounter,
    upstream_meters: Arc<UpstreamMeters>,
    /// The last failed calls of all routes.
    pub(crate) failures: FailedCalls,
}

#[derive(Debug, Default)]
struct ApiMeters {
    in_flight: AtomicUsize,
    /// Counters of completed calls, by MCP revision, and by outcome or error type.
    ended: LabelCounter<(&'static str, &'static str)>,
    durations: ByLabel<Histogram>,
}

/// Labels for the end of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CallEnd {
    /// The API.
    pub api: &'static str,
    /// The MCP revision; empty for other APIs.
    pub mcp_version: &'static str,
    /// The outcome: `success`, `error`, `task` or `cancelled`.
    pub outcome: &'static str,
    /// The error type, if the outcome is an error.
    pub error_type: Option<&'static str>,
}

/// Why a response counts as unmatched or unparseable.
#[derive(Debug, Clone, Copy, PartialEq, Eq, EnumSetting)]
pub enum ResponseMismatch {
    /// The route has rules, and none of them matched.
    NoRule,
    /// The matching rule could not parse the response.
    Unparseable,
}

/// The metrics of the requests to one upstream.
#[derive(Debug, Default)]
pub struct UpstreamMeters {
    responses: LabelCounter,
    durations: Histogram,
}

impl RouteMeters {
    pub(super) fn new(
        (tool, upstream, rules): RouteKey,
        upstream_meters: Arc<UpstreamMeters>,
        failures: FailedCalls,
    ) -> Self {
        static NEXT_ID: AtomicU64 = AtomicU64::new(0);
        let id = NEXT_ID.fetch_add(1, Ordering::Relaxed);
        // These counters exist before the first event, so that their first increase is visible in a rate.
        let mismatches = LabelCounter::default();
        if rules > 0 {
            mismatches.initialize([ResponseMismatch::NoRule.as_str()]);
        }
        mismatches.initialize([ResponseMismatch::Unparseable.as_str()]);
        let rules = (0..=rules).map(|_| AtomicU64::new(0)).collect();
        Self { id, tool, upstream, apis: ByLabel::default(), rules, mismatches, upstream_meters, failures }
    }

    /// Records the start of a call. It counts as in flight until [`call_ended`](Self::call_ended).
    pub fn call_started(&self, api: &'static str) {
        self.apis.get(api).in_flight.fetch_add(1, Ordering::Relaxed);
    }

    /// Counts a call that ends.
    pub fn call_ended(&self, end: CallEnd, duration: Duration) {
        let CallEnd { api, mcp_version, outcome, error_type } = end;
        let api = self.apis.get(api);
        api.in_flight.fetch_sub(1, Ordering::Relaxed);
        api.ended.add((mcp_version, error_type.unwrap_or(outcome)));
        api.durations.get(outcome).observe(duration);
    }

    /// Counts a response by the index of the rule that matched; `None` for the default rules.
    pub fn rule_matched(&self, rule: Option<usize>) {
        let last = self.rules.len() - 1;
        self.rules[rule.unwrap_or(last).min(last)].fetch_add(1, Ordering::Relaxed);
    }

    /// Number of rules of the route.
    pub fn rules(&self) -> usize {
        self.rules.len() - 1
    }

    /// Counts a response that is unmatched or unparseable.
    pub fn unmatched(&self, mismatch: ResponseMismatch) {
        self.mismatches.add(mismatch.as_str());
    }

    /// Counts an upstream request that has ended. `result` is a status class such as `2xx`, or an error
    /// label.
    pub fn upstream_responded(&self, result: &'static str, duration: Duration) {
        self.upstream_meters.responses.add(result);
        self.upstream_meters.durations.observe(duration);
    }

    /// Adds up the completed calls of all APIs: their number, the number of errors, and the durations.
    pub(in crate::telemetry) fn totals(&self) -> CallCounts {
        let mut totals = CallCounts::default();
        for (_, api_meters) in self.apis.all() {
            for ((_, label), count) in api_meters.ended.read() {
                totals.calls += count;
                if is_error_type(label) {
                    totals.errors += count;
                }
            }
            api_meters.durations.all().iter().for_each(|(_, histogram)| totals.took.add(&histogram.read()));
        }
        totals
    }

    pub(super) fn report(&self, snapshot: &mut MetricsSnapshot) {
        let route = ("route", &*self.tool);
        for (api, api_meters) in self.apis.all() {
            let labels = [route, ("api", api)];
            let in_flight = snapshot.gauge("glossator_calls_in_flight", "Tool calls in flight");
            in_flight.add(&labels, api_meters.in_flight.load(Ordering::Relaxed));
            let durations = api_meters.durations.all().into_iter();
            snapshot.histogram("glossator_call_duration_seconds", "Duration of tool calls").add_each(
                &labels,
                "outcome",
                durations.map(|(outcome, histogram)| (outcome, histogram.read())),
            );
            let calls = snapshot.counter("glossator_calls", "Tool calls completed");
            for ((mcp_version, label), count) in api_meters.ended.read() {
                let (outcome, error_type) = if is_error_type(label) { ("error", label) } else { (label, "") };
                let labels = [
                    route,
                    ("upstream", &*self.upstream),
                    ("api", api),
                    ("mcp_version", mcp_version),
                    ("outcome", outcome),
                    ("error_type", error_type),
                ];
                calls.add(&labels, count);
            }
        }
        let rules = snapshot.counter("glossator_rule_matches", "Upstream responses by the rule that matched");
        for (index, count) in self.rules.iter().enumerate() {
            let number = (index + 1).to_string();
            let rule = if index < self.rules() { number.as_str() } else { "default" };
            rules.add(&[route, ("rule", rule)], count.load(Ordering::Relaxed));
        }
        let help =
            "Upstream responses that matched no rule of the route, or that the matching rule could not parse";
        let mismatches = snapshot.counter("glossator_unmatched_responses", help);
        mismatches.add_each(&[route], "reason", self.mismatches.read());
    }
}

impl UpstreamMeters {
    pub(super) fn report(&self, name: &str, snapshot: &mut MetricsSnapshot) {
        let labels = [("upstream", name)];
        let help = "Upstream requests by result, retries not counted separately";
        let requests = snapshot.counter("glossator_upstream_requests", help);
        requests.add_each(&labels, "result", self.responses.read());
        let help = "Duration of upstream requests, with queueing and retries";
        let durations = snapshot.histogram("glossator_upstream_request_duration_seconds", help);
        durations.add(&labels, self.durations.read());
    }
}

/// Whether a label is an error type, not an outcome without an error.
fn is_error_type(label: &str) -> bool {
    !matches!(label, "success" | "task" | "cancelled")
}

/// Counters by the value of a label, or by the values of several labels. All values are constants. Clones
/// share the counters.
#[derive(Debug, Clone, Default)]
pub struct LabelCounter<K = &'static str>(Arc<ByLabel<AtomicU64, K>>);

impl<K: Copy + Default + Ord> LabelCounter<K> {
    /// Creates counters with the value 0 for these labels, so that their first increase is visible in a rate.
    pub fn new<const N: usize>(labels: [K; N]) -> Self {
        let counter = Self::default();
        counter.initialize(labels);
        counter
    }

    /// Returns the count of a label.
    pub fn get(&self, label: K) -> u64 {
        self.0.get(label).load(Ordering::Relaxed)
    }

    /// Adds 1 to the count of a label.
    pub fn add(&self, label: K) {
        self.0.get(label).fetch_add(1, Ordering::Relaxed);
    }

    /// Adds a number to the count of a label.
    pub fn add_many(&self, label: K, count: u64) {
        self.0.get(label).fetch_add(count, Ordering::Relaxed);
    }

    /// Creates counters with the value 0 before their first event, so that their first increase is visible in
    /// a rate.
    pub fn initialize<const N: usize>(&self, labels: [K; N]) {
        for label in labels {
            let _ = self.0.get(label);
        }
    }

    /// Returns all counters with their current values.
    pub fn read(&self) -> impl Iterator<Item = (K, u64)> + use<K> {
        self.0.all().into_iter().map(|(label, count)| (label, count.load(Ordering::Relaxed)))
    }
}
