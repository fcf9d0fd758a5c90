//! What the policies count, and their states, for metrics and the admin API.

use std::{
    borrow::Cow,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use super::{Policies, UpstreamPolicies};
use crate::{
    route::UpstreamName,
    telemetry::{Family, Reading, Words},
    upstream::{
        Upstream,
        http::{AddressView, State},
    },
};

/// A number that only grows. Clones are the same one.
#[derive(Debug, Clone, Default)]
pub struct Count(Arc<AtomicU64>);

impl Count {
    pub(super) fn add(&self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }

    /// Until now.
    pub fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// What the policies of one upstream did. Clones are the same numbers.
#[derive(Debug, Clone, Default)]
pub struct UpstreamCounts {
    /// Calls that took longer than they may.
    pub late: Count,
    /// Attempts that did.
    pub attempts_late: Count,
    /// Attempts after the first of a call.
    pub again: Count,
    /// How often it was found to do nothing but fail.
    pub opened: Count,
    /// Calls that were rejected for that.
    pub rested: Count,
    /// Calls that found no concurrency slot.
    pub busy: Count,
    /// Requests over what it may be asked.
    pub too_often: Count,
    /// Calls over what one caller may ask of it.
    pub caller_too_often: Count,
    /// What came of every single attempt: `2xx`, or a word for what went wrong.
    pub attempts: Words,
    /// What came of requests that were handed through, in the same words.
    pub handed_through: Words,
}

/// What the policies of one route did. Clones are the same numbers.
#[derive(Debug, Clone, Default)]
pub struct RouteCounts {
    /// Calls over what all may make.
    pub too_often: Count,
    /// Calls over what one caller may make.
    pub caller_too_often: Count,
    /// Calls that got a cached response.
    pub kept: Count,
    /// Those of them whose response another replica cached.
    pub kept_by_others: Count,
    /// Calls that found none, or one that was too old.
    pub fetched: Count,
    /// Stale responses that were revalidated.
    pub still_good: Count,
    /// Stale responses that were given in place of an error.
    pub old: Count,
    /// Calls that shared the request of another.
    pub joined: Count,
    /// How often its circuit breaker has opened.
    pub opened: Count,
    /// Calls that it rejected.
    pub rested: Count,
    /// Requests that were sent once more for being slow.
    pub hedged: Count,
    /// Those of them that were answered first.
    pub hedges_won: Count,
}

impl UpstreamCounts {
    /// The events of the policies, by the names that metrics and the admin API have for them.
    pub fn events(&self) -> [(&'static str, u64); 8] {
        [
            ("timeout", self.late.get()),
            ("attempt_timeout", self.attempts_late.get()),
            ("retry", self.again.get()),
            ("circuit_breaker_opened", self.opened.get()),
            ("circuit_breaker_rejected", self.rested.get()),
            ("queue_rejected", self.busy.get()),
            ("rate_limited", self.too_often.get()),
            ("client_rate_limited", self.caller_too_often.get()),
        ]
    }
}

impl RouteCounts {
    /// The events of the policies, by the names that metrics have for them.
    pub fn events(&self) -> [(&'static str, u64); 12] {
        [
            ("rate_limited", self.too_often.get()),
            ("client_rate_limited", self.caller_too_often.get()),
            ("cache_hit", self.kept.get()),
            ("cache_hit_from_replica", self.kept_by_others.get()),
            ("cache_miss", self.fetched.get()),
            ("cache_revalidated", self.still_good.get()),
            ("cache_stale", self.old.get()),
            ("coalesced", self.joined.get()),
            ("hedged", self.hedged.get()),
            ("hedge_won", self.hedges_won.get()),
            ("circuit_breaker_opened", self.opened.get()),
            ("circuit_breaker_rejected", self.rested.get()),
        ]
    }
}

/// Adds the metrics of all policies to a reading.
pub fn read(reading: &mut Reading, policies: &Policies) {
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

fn read_upstream(reading: &mut Reading, name: &UpstreamName, upstream: &UpstreamPolicies) {
    let label = || ("upstream", Cow::<'static, str>::Owned(name.as_str().to_owned()));
    let counts = upstream.counts();
    let help = "Events of the policies of an upstream";
    let family = reading.counter("glossator_upstream_policy_events", help);
    for (event, count) in counts.events() {
        family.add(vec![label(), ("event", event.into())], count);
    }
    let help = "Attempts of upstream requests by result, retries counted separately";
    let family = reading.counter("glossator_upstream_attempts", help);
    for (result, count) in counts.attempts.read() {
        family.add(vec![label(), ("result", result.into())], count);
    }
    let help = "Requests proxied unmodified, by result";
    let family = reading.counter("glossator_passthrough_requests", help);
    for (result, count) in counts.handed_through.read() {
        family.add(vec![label(), ("result", result.into())], count);
    }
    let view = upstream.view();
    let help = "Requests in flight at an upstream";
    reading.gauge("glossator_upstream_in_flight_requests", help).add(vec![label()], view.in_flight);
    let help = "Limit of requests in flight at an upstream";
    reading.gauge("glossator_upstream_max_in_flight_requests", help).add(vec![label()], view.in_flight_limit);
    let help = "Requests queued for a concurrency slot of an upstream";
    reading.gauge("glossator_upstream_queued_requests", help).add(vec![label()], view.waiting);
    let help = "State of the circuit breaker of an upstream: 1 for its present state, 0 for the others";
    read_breaker(reading.gauge("glossator_upstream_circuit_breaker_state", help), label, view.breaker);
    if view.kind == "http" {
        let help = "Endpoints of an upstream by state";
        let family = reading.gauge("glossator_upstream_endpoints", help);
        for state in State::WORDS {
            let count = view.addresses.iter().filter(|address| address.state.as_word() == state).count();
            family.add(vec![label(), ("state", state.into())], count);
        }
    }
}

fn read_routes(reading: &mut Reading, policies: &Policies) {
    let mut routes: Vec<_> = policies.routes.iter().collect();
    routes.sort_by_key(|(tool, _)| tool.as_str());
    let help = "Events of the policies of a route";
    let family = reading.counter("glossator_route_policy_events", help);
    for (tool, route) in &routes {
        for (event, count) in route.counts().events() {
            let labels = vec![("route", tool.as_str().to_owned().into()), ("event", event.into())];
            family.add(labels, count);
        }
    }
    for (tool, route) in routes {
        let help = "State of the circuit breaker of a route: 1 for its present state, 0 for the others";
        let family = reading.gauge("glossator_route_circuit_breaker_state", help);
        read_breaker(family, || ("route", tool.as_str().to_owned().into()), route.breaker());
    }
}

/// The state of a circuit breaker; nothing where it is off.
fn read_breaker(
    family: &mut Family,
    label: impl Fn() -> (&'static str, Cow<'static, str>),
    breaker: BreakerView,
) {
    if breaker == BreakerView::Off {
        return;
    }
    for state in ["closed", "open", "half_open"] {
        family.add(vec![label(), ("state", state.into())], state == breaker.as_word());
    }
}

/// An upstream and its policies as they are now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UpstreamView {
    /// What it is: `http`, `command`, `cgi` or `mcp`.
    pub kind: &'static str,
    /// Whether calls pass.
    pub breaker: BreakerView,
    /// How many requests are there.
    pub in_flight: usize,
    /// How many may be.
    pub in_flight_limit: usize,
    /// How many wait for a slot.
    pub waiting: usize,
    /// How many may.
    pub waiting_limit: usize,
    /// Where it is, as far as that is known; of what speaks no HTTP there is nothing.
    pub addresses: Vec<AddressView>,
}

impl UpstreamView {
    /// Whether a call may come through, as far as is known: what nobody has asked yet is taken for well, and
    /// so is what the next call is to try, or nobody would ever find out.
    pub fn is_reachable(&self) -> bool {
        let rests = matches!(self.breaker, BreakerView::Open { rest } if !rest.is_zero());
        let is_open = |view: &AddressView| matches!(view.state, State::Up | State::Probing);
        !rests && (self.addresses.is_empty() || self.addresses.iter().any(is_open))
    }
}

/// A circuit breaker as it is now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BreakerView {
    /// It is off: all calls pass.
    Off,
    /// Calls pass.
    Closed {
        /// How many have failed since the last success.
        failures: u32,
    },
    /// Calls are rejected.
    Open {
        /// For how long yet; zero where the next call is a probe.
        rest: Duration,
    },
    /// One call probes the upstream.
    HalfOpen,
}

impl BreakerView {
    /// In a word.
    pub fn as_word(self) -> &'static str {
        match self {
            Self::Off => "off",
            Self::Closed { .. } => "closed",
            Self::Open { .. } => "open",
            Self::HalfOpen => "half_open",
        }
    }
}

/// What an upstream is, in a word.
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

    fn view(breaker: BreakerView, states: &[State]) -> UpstreamView {
        let address = |state: &State| AddressView { address: "a".into(), state: *state, in_flight: 0 };
        UpstreamView {
            kind: "http",
            breaker,
            in_flight: 0,
            in_flight_limit: 1,
            waiting: 0,
            waiting_limit: 1,
            addresses: states.iter().map(address).collect(),
        }
    }

    #[test]
    fn what_the_next_call_is_to_try_is_not_given_up() {
        let (rest, closed) = (Duration::from_secs(1), BreakerView::Closed { failures: 3 });
        assert!(view(closed, &[]).is_reachable(), "nobody has asked yet");
        assert!(view(closed, &[State::Unhealthy, State::Up]).is_reachable());
        assert!(view(closed, &[State::Probing]).is_reachable());
        assert!(!view(closed, &[State::Unhealthy, State::Ejected { rest }]).is_reachable());
        assert!(!view(BreakerView::Open { rest }, &[State::Up]).is_reachable());
        assert!(view(BreakerView::Open { rest: Duration::ZERO }, &[State::Up]).is_reachable());
        assert!(view(BreakerView::HalfOpen, &[State::Up]).is_reachable());
    }
}
