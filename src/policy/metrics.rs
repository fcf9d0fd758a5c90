//! Counters and states of the policies, for metrics and the admin API.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use super::{Policies, UpstreamPolicies};
use crate::{
    route::UpstreamName,
    telemetry::{LabelCounter, MetricFamily, MetricsSnapshot},
    upstream::{
        Upstream,
        http::{AddressView, EndpointState},
        mcp::ProgramState,
    },
};

/// Counter. Clones share it.
#[derive(Debug, Clone, Default)]
pub struct Counter(Arc<AtomicU64>);

impl Counter {
    pub(super) fn add(&self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }

    /// Current value.
    pub fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// Policy events of one upstream. Clones share the counters.
#[derive(Debug, Clone, Default)]
pub struct UpstreamCounts {
    /// Calls that were not complete within `timeout`.
    pub timeouts: Counter,
    /// Attempts that were not complete within `attempt_timeout`.
    pub attempt_timeouts: Counter,
    /// Attempts after a failed one that were sent. Hedged requests are counted for the route.
    pub retries: Counter,
    /// Times the circuit breaker opened.
    pub opened: Counter,
    /// Calls that the open circuit breaker rejected.
    pub circuit_rejected: Counter,
    /// Calls rejected by the concurrency limit.
    pub queue_rejected: Counter,
    /// Requests rejected by the rate limit of the upstream.
    pub rate_limited: Counter,
    /// Calls rejected by the rate limit per client of the upstream.
    pub client_rate_limited: Counter,
    /// Attempts by result: `2xx`, or an error label.
    pub attempts: LabelCounter,
    /// Passthrough requests by result, with the same labels.
    pub passthrough: LabelCounter,
}

/// Policy events of one route. Clones share the counters.
#[derive(Debug, Clone, Default)]
pub struct RouteCounts {
    /// Calls rejected by the rate limit of the route.
    pub rate_limited: Counter,
    /// Calls rejected by the rate limit per client of the route.
    pub client_rate_limited: Counter,
    /// Calls with a fresh cached response, even if another replica cached it.
    pub cache_hits: Counter,
    /// The cache hits on a response that another replica cached.
    pub replica_cache_hits: Counter,
    /// Calls without a fresh cached response; there may be a stale one.
    pub cache_misses: Counter,
    /// Stale responses that were revalidated.
    pub revalidated: Counter,
    /// Stale responses used in place of an error.
    pub stale_served: Counter,
    /// Calls that joined the request of another.
    pub coalesced: Counter,
    /// Times the circuit breaker opened.
    pub opened: Counter,
    /// Calls that the open circuit breaker rejected.
    pub circuit_rejected: Counter,
    /// Second requests, sent because the first took longer than `hedge`.
    pub hedged: Counter,
    /// Second requests whose response was the result.
    pub hedges_won: Counter,
}

impl UpstreamCounts {
    /// Events by their names in metrics and the admin API.
    pub fn events(&self) -> [(&'static str, u64); 8] {
        [
            ("timeout", self.timeouts.get()),
            ("attempt_timeout", self.attempt_timeouts.get()),
            ("retry", self.retries.get()),
            ("circuit_breaker_opened", self.opened.get()),
            ("circuit_breaker_rejected", self.circuit_rejected.get()),
            ("queue_rejected", self.queue_rejected.get()),
            ("rate_limited", self.rate_limited.get()),
            ("client_rate_limited", self.client_rate_limited.get()),
        ]
    }
}

impl RouteCounts {
    /// Events by their names in metrics.
    pub fn events(&self) -> [(&'static str, u64); 12] {
        [
            ("rate_limited", self.rate_limited.get()),
            ("client_rate_limited", self.client_rate_limited.get()),
            ("cache_hit", self.cache_hits.get()),
            ("cache_hit_from_replica", self.replica_cache_hits.get()),
            ("cache_miss", self.cache_misses.get()),
            ("cache_revalidated", self.revalidated.get()),
            ("cache_stale", self.stale_served.get()),
            ("coalesced", self.coalesced.get()),
            ("hedged", self.hedged.get()),
            ("hedge_won", self.hedges_won.get()),
            ("circuit_breaker_opened", self.opened.get()),
            ("circuit_breaker_rejected", self.circuit_rejected.get()),
        ]
    }
}

/// Adds the metrics of all policies.
pub fn read(reading: &mut MetricsSnapshot, policies: &Policies) {
    for (name, upstream) in &policies.upstreams {
        read_upstream(reading, name, upstream);
    }
    read_routes(reading, policies);
    if let Some(store) = &policies.store {
        reading.gauge("glossator_cache_entries", "Cached responses").set(store.entries());
        reading.gauge("glossator_cache_bytes", "Memory of cached responses, in bytes").set(store.bytes());
        let help = "Limit of the memory of cached responses, in bytes";
        reading.gauge("glossator_cache_limit_bytes", help).set(store.limit_bytes());
    }
}

fn read_upstream(reading: &mut MetricsSnapshot, name: &UpstreamName, upstream: &UpstreamPolicies) {
    let labels = [("upstream", name.as_str())];
    let counts = upstream.counts();
    let help = "Events of the policies of an upstream";
    reading.counter("glossator_upstream_policy_events", help).add_each(&labels, "event", counts.events());
    let help = "Attempts of upstream requests by result, retries counted separately";
    reading.counter("glossator_upstream_attempts", help).add_each(&labels, "result", counts.attempts.read());
    let help = "Requests proxied unmodified, by result";
    let family = reading.counter("glossator_passthrough_requests", help);
    family.add_each(&labels, "result", counts.passthrough.read());
    let view = upstream.view();
    let help = "Requests in flight at an upstream";
    reading.gauge("glossator_upstream_in_flight_requests", help).add(&labels, view.in_flight);
    let help = "Limit of requests in flight at an upstream";
    reading.gauge("glossator_upstream_max_in_flight_requests", help).add(&labels, view.in_flight_limit);
    let help = "Requests queued for a concurrency slot of an upstream";
    reading.gauge("glossator_upstream_queued_requests", help).add(&labels, view.queued);
    let help = "State of the circuit breaker of an upstream: 1 for its present state, 0 for the others";
    let family = reading.gauge("glossator_upstream_circuit_breaker_state", help);
    circuit_breaker_view(family, &labels, view.breaker);
    if view.kind == "http" {
        let help = "Endpoints of an upstream by state";
        let counts = EndpointState::LABELS.into_iter().map(|state| {
            (state, view.addresses.iter().filter(|address| address.state.as_str() == state).count())
        });
        reading.gauge("glossator_upstream_endpoints", help).add_each(&labels, "state", counts);
    }
}

fn read_routes(reading: &mut MetricsSnapshot, policies: &Policies) {
    let mut routes: Vec<_> = policies.routes.iter().collect();
    routes.sort_by_key(|(tool, _)| tool.as_str());
    let help = "Events of the policies of a route";
    let family = reading.counter("glossator_route_policy_events", help);
    for (tool, route) in &routes {
        family.add_each(&[("route", tool.as_str())], "event", route.counts().events());
    }
    for (tool, route) in routes {
        let help = "State of the circuit breaker of a route: 1 for its present state, 0 for the others";
        let family = reading.gauge("glossator_route_circuit_breaker_state", help);
        circuit_breaker_view(family, &[("route", tool.as_str())], route.circuit_breaker());
    }
}

/// Adds the state of a circuit breaker, unless it is off.
fn circuit_breaker_view(
    family: &mut MetricFamily,
    labels: &[(&'static str, &str)],
    breaker: CircuitBreakerView,
) {
    if breaker != CircuitBreakerView::Off {
        let states = ["closed", "open", "half_open"];
        family.add_each(labels, "state", states.map(|state| (state, u64::from(state == breaker.as_str()))));
    }
}

/// Current state of an upstream and its policies.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UpstreamView {
    /// Kind: `http`, `command`, `cgi` or `mcp`.
    pub kind: &'static str,
    /// Circuit breaker.
    pub breaker: CircuitBreakerView,
    /// Requests in flight.
    pub in_flight: usize,
    /// Concurrency limit.
    pub in_flight_limit: usize,
    /// Calls in the queue.
    pub queued: usize,
    /// Queue limit.
    pub max_queued: usize,
    /// Endpoints that are known. Empty for other kinds than `http`.
    pub addresses: Vec<AddressView>,
    /// State of the program of an MCP server. `None` for other upstreams.
    pub program: Option<ProgramState>,
}

impl UpstreamView {
    /// Whether a call may reach the upstream. Untried endpoints count as reachable, and so do those to be
    /// probed by the next call: otherwise nothing would ever probe them.
    pub fn is_reachable(&self) -> bool {
        let is_open = matches!(self.breaker, CircuitBreakerView::Open { remaining } if !remaining.is_zero());
        let may_be_used =
            |view: &AddressView| matches!(view.state, EndpointState::Healthy | EndpointState::Probing);
        !is_open && (self.addresses.is_empty() || self.addresses.iter().any(may_be_used))
    }
}

/// State of a circuit breaker.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CircuitBreakerView {
    /// Off: admits all calls.
    Off,
    /// Admits calls.
    Closed {
        /// Consecutive failures.
        failures: u32,
    },
    /// Rejects calls.
    Open {
        /// Remaining time. Zero if the next call is a probe.
        remaining: Duration,
    },
    /// Admits one call as a probe.
    HalfOpen,
}

impl CircuitBreakerView {
    /// Label in metrics and the admin API.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Off => "off",
            Self::Closed { .. } => "closed",
            Self::Open { .. } => "open",
            Self::HalfOpen => "half_open",
        }
    }
}

/// Label of the kind of an upstream.
pub(super) fn kind_of(upstream: &Upstream) -> &'static str {
    match upstream {
        Upstream::Http(_) => "http",
        Upstream::Command(_) => "command",
        Upstream::Cgi(_) => "cgi",
        Upstream::Mcp(_) => "mcp",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn view(breaker: CircuitBreakerView, states: &[EndpointState]) -> UpstreamView {
        let address =
            |state: &EndpointState| AddressView { address: "a".into(), state: *state, in_flight: 0 };
        UpstreamView {
            kind: "http",
            breaker,
            in_flight: 0,
            in_flight_limit: 1,
            queued: 0,
            max_queued: 1,
            addresses: states.iter().map(address).collect(),
            program: None,
        }
    }

    #[test]
    fn an_open_circuit_whose_time_is_over_counts_as_half_open() {
        let (remaining, closed) = (Duration::from_secs(1), CircuitBreakerView::Closed { failures: 3 });
        assert!(view(closed, &[]).is_reachable(), "nobody has asked yet");
        assert!(view(closed, &[EndpointState::Unhealthy, EndpointState::Healthy]).is_reachable());
        assert!(view(closed, &[EndpointState::Probing]).is_reachable());
        assert!(
            !view(closed, &[EndpointState::Unhealthy, EndpointState::Ejected { remaining }]).is_reachable()
        );
        assert!(!view(CircuitBreakerView::Open { remaining }, &[EndpointState::Healthy]).is_reachable());
        assert!(
            view(CircuitBreakerView::Open { remaining: Duration::ZERO }, &[EndpointState::Healthy])
                .is_reachable()
        );
        assert!(view(CircuitBreakerView::HalfOpen, &[EndpointState::Healthy]).is_reachable());
    }
}
