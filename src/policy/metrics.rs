//! Counters and states of the policies, for metrics and the admin API.

use std::time::Duration;

use serde::Serialize;
use strum::VariantNames;

use super::{CacheStore, Policies, UpstreamPolicies};
use crate::route::UpstreamName;
use crate::settings::units;
use crate::telemetry::{LabelCounter, MetricFamily, MetricsSnapshot};
use crate::upstream::http::{AddressView, EndpointState};
use crate::upstream::mcp::ProgramState;

/// Counters of the events of one upstream's policies, by their names in metrics and the admin API.
pub(super) fn upstream_events() -> LabelCounter {
    LabelCounter::new([
        // Calls that were not complete within `timeout`.
        "timeout",
        // Attempts that were not complete within `attempt_timeout`.
        "attempt_timeout",
        // Retries: attempts that were sent after a failed attempt. Hedged requests are counted for the route.
        "retry",
        // Times the circuit breaker opened.
        "circuit_breaker_opened",
        // Calls that the open circuit breaker rejected.
        "circuit_breaker_rejected",
        // Calls and passthrough requests rejected by the concurrency limit, or by the limit per client.
        "queue_rejected",
        // Requests rejected by the rate limit of the upstream.
        "rate_limited",
        // Calls rejected by the rate limit per client of the upstream.
        "client_rate_limited",
    ])
}

/// Counters of the events of one route's policies.
pub(super) fn route_events() -> LabelCounter {
    LabelCounter::new([
        // Calls rejected by the rate limit of the route.
        "rate_limited",
        // Calls rejected by the rate limit per client of the route.
        "client_rate_limited",
        // Calls with a fresh cached response, even if another replica cached it.
        "cache_hit",
        // Cache hits whose response was cached by another replica.
        "cache_hit_from_replica",
        // Calls without a fresh cached response; there may be a stale one.
        "cache_miss",
        // Stale responses that were revalidated.
        "cache_revalidated",
        // Stale responses used in place of an error or a late response.
        "cache_stale",
        // Calls that joined the request of another call.
        "coalesced",
        // Second requests, sent because the first took longer than `hedge`.
        "hedged",
        // Second requests whose response was the result.
        "hedge_won",
        // Times the circuit breaker opened.
        "circuit_breaker_opened",
        // Calls that the open circuit breaker rejected.
        "circuit_breaker_rejected",
    ])
}

/// Adds the metrics of all policies.
pub fn read(reading: &mut MetricsSnapshot, policies: &Policies) {
    for (name, upstream) in &policies.upstreams {
        read_upstream(reading, name, upstream);
    }
    read_routes(reading, policies);
    let CacheStore(store) = &policies.store;
    reading.gauge("glossator_cache_entries", "Cached responses").set(store.len());
    reading.gauge("glossator_cache_bytes", "Memory of cached responses, in bytes").set(store.weight());
    let help = "Limit of the memory of cached responses, in bytes";
    reading.gauge("glossator_cache_limit_bytes", help).set(store.capacity());
}

fn read_upstream(reading: &mut MetricsSnapshot, name: &UpstreamName, upstream: &UpstreamPolicies) {
    let labels = [("upstream", name.as_str())];
    let help = "Events of the policies of an upstream";
    let family = reading.counter("glossator_upstream_policy_events", help);
    family.add_each(&labels, "event", upstream.events.read());
    let help = "Attempts of upstream requests by result; each retry is an attempt";
    let family = reading.counter("glossator_upstream_attempts", help);
    family.add_each(&labels, "result", upstream.attempts.read());
    let help = "Requests proxied unmodified, by result";
    let family = reading.counter("glossator_passthrough_requests", help);
    family.add_each(&labels, "result", upstream.passthrough.read());
    let view = upstream.view();
    let help = "Requests in flight at an upstream";
    reading.gauge("glossator_upstream_in_flight_requests", help).add(&labels, view.in_flight);
    let help = "Limit of requests in flight at an upstream";
    reading.gauge("glossator_upstream_max_in_flight_requests", help).add(&labels, view.in_flight_limit);
    let help = "Requests queued for a concurrency slot of an upstream";
    reading.gauge("glossator_upstream_queued_requests", help).add(&labels, view.queued);
    let help = "State of the circuit breaker of an upstream: 1 for its current state, 0 for the others";
    let family = reading.gauge("glossator_upstream_circuit_breaker_state", help);
    read_circuit_breaker(family, &labels, view.breaker);
    if view.kind == "http" {
        let help = "Endpoints of an upstream by state";
        let counts = EndpointState::VARIANTS.iter().map(|state| {
            let is_present = |address: &&AddressView| <&str>::from(address.state) == *state;
            (*state, view.addresses.iter().filter(is_present).count())
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
        family.add_each(&[("route", tool.as_str())], "event", route.events.read());
    }
    for (tool, route) in routes {
        let help = "State of the circuit breaker of a route: 1 for its current state, 0 for the others";
        let family = reading.gauge("glossator_route_circuit_breaker_state", help);
        read_circuit_breaker(family, &[("route", tool.as_str())], route.circuit_breaker());
    }
}

/// Adds the state of a circuit breaker, unless it is off.
fn read_circuit_breaker(
    family: &mut MetricFamily,
    labels: &[(&'static str, &str)],
    breaker: CircuitBreakerView,
) {
    if breaker != CircuitBreakerView::Off {
        let states = ["closed", "open", "half_open"];
        let current: &str = breaker.into();
        family.add_each(labels, "state", states.map(|state| (state, u64::from(state == current))));
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
    /// Requests in the queue.
    pub queued: usize,
    /// Endpoints that are known. Empty for other kinds than `http`.
    pub addresses: Vec<AddressView>,
    /// State of the program of an MCP server. `None` for other upstreams.
    pub program: Option<ProgramState>,
}

impl UpstreamView {
    /// Whether a call may reach the upstream. Untried endpoints, and endpoints that the next call probes,
    /// count as reachable: otherwise nothing would ever probe them. For the same reason, a program that the
    /// next call starts counts as reachable.
    pub fn is_reachable(&self) -> bool {
        let is_restarting = matches!(self.program, Some(ProgramState::Restarting { .. }));
        let is_open = matches!(self.breaker, CircuitBreakerView::Open { .. });
        let may_be_used =
            |view: &AddressView| matches!(view.state, EndpointState::Healthy | EndpointState::Probing);
        !is_open && !is_restarting && (self.addresses.is_empty() || self.addresses.iter().any(may_be_used))
    }
}

/// State of a circuit breaker. The names are labels in metrics.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, strum::IntoStaticStr)]
#[serde(tag = "state", rename_all = "snake_case")]
#[strum(serialize_all = "snake_case")]
pub enum CircuitBreakerView {
    /// Off: admits all calls.
    Off,
    /// Admits calls.
    Closed {
        /// Consecutive failures.
        #[serde(rename = "consecutive_failures")]
        failures: u32,
    },
    /// Rejects calls.
    Open {
        /// Time until the circuit is half-open.
        #[serde(rename = "half_open_in_ms", serialize_with = "units::serialize_milliseconds")]
        remaining: Duration,
    },
    /// Admits one call as a probe.
    HalfOpen,
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
            addresses: states.iter().map(address).collect(),
            program: None,
        }
    }

    #[test]
    fn an_upstream_is_reachable_unless_its_circuit_is_open_or_no_endpoint_may_be_used() {
        let (remaining, closed) = (Duration::from_secs(1), CircuitBreakerView::Closed { failures: 3 });
        assert!(view(closed, &[]).is_reachable(), "no endpoint is known yet");
        assert!(view(closed, &[EndpointState::Unhealthy, EndpointState::Healthy]).is_reachable());
        assert!(view(closed, &[EndpointState::Probing]).is_reachable());
        assert!(
            !view(closed, &[EndpointState::Unhealthy, EndpointState::Ejected { remaining }]).is_reachable()
        );
        assert!(!view(CircuitBreakerView::Open { remaining }, &[EndpointState::Healthy]).is_reachable());
        assert!(view(CircuitBreakerView::HalfOpen, &[EndpointState::Healthy]).is_reachable());
    }
}
