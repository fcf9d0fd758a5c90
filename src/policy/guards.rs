//! The guards of an upstream and of its routes, put together.

use std::sync::Arc;

use tower::{ServiceBuilder, layer::layer_fn};

use super::{
    Attempt, Breaker, Budget, Circuit, Deadline, Gate, Guarded, InFlight, Over, Passthrough,
    PassthroughSettings, PolicySettings, Rate, RateLimitLayer, Retries, Retry, RouteCounts,
    RoutePolicySettings, UpstreamCounts,
};
use crate::{
    route::UpstreamName,
    upstream::{Upstream, Whose},
};

/// What all that ask one upstream share: its limits, and what is known of it. Clones share it, too.
#[derive(Debug, Clone)]
pub struct Guards {
    upstream: Upstream,
    settings: PolicySettings,
    counts: UpstreamCounts,
    caller_rate: Option<Arc<Rate>>,
    retries: Arc<Retries>,
    circuit: Arc<Circuit>,
    rate: Option<Arc<Rate>>,
    gate: Arc<Gate>,
}

/// What all calls of one route share. Clones share it, too.
#[derive(Debug, Clone)]
pub struct RouteGuards {
    counts: RouteCounts,
    caller_rate: Option<Arc<Rate>>,
    rate: Option<Arc<Rate>>,
}

impl RouteGuards {
    /// For a route that asks `upstream`.
    pub fn new(upstream: &UpstreamName, settings: RoutePolicySettings) -> Self {
        let counts = RouteCounts::default();
        let rate = |whose, settings: Option<_>, count: &super::Count| {
            settings.map(|settings| Arc::new(Rate::new(upstream.clone(), whose, settings, count.clone())))
        };
        Self {
            caller_rate: rate(Whose::Caller, settings.caller_rate, &counts.caller_too_often),
            rate: rate(Whose::Route, settings.rate, &counts.too_often),
            counts,
        }
    }

    /// How often each of them did something.
    pub fn counts(&self) -> &RouteCounts {
        &self.counts
    }
}

/// What a request is.
#[derive(Debug, Clone, Copy)]
enum Asking<'a> {
    /// The call of a route.
    Call(&'a RouteGuards),
    /// What follows from one, or what no caller asked for.
    Following,
}

impl Guards {
    /// Guards of which nothing is used yet.
    pub fn new(upstream: Upstream, settings: PolicySettings) -> Self {
        let counts = UpstreamCounts::default();
        let name = || upstream.name().clone();
        let rate = |whose, settings: Option<_>, count: &super::Count| {
            settings.map(|settings| Arc::new(Rate::new(name(), whose, settings, count.clone())))
        };
        let budget = Arc::<Budget>::default();
        let circuit = Circuit::new(name(), settings.breaker, counts.opened.clone(), counts.rested.clone());
        Self {
            caller_rate: rate(Whose::Caller, settings.caller_rate, &counts.caller_too_often),
            retries: Arc::new(Retries::new(name(), settings.retry, budget, counts.again.clone())),
            circuit: Arc::new(circuit),
            rate: rate(Whose::Upstream, settings.rate, &counts.too_often),
            gate: Arc::new(Gate::new(name(), settings, counts.busy.clone())),
            upstream,
            settings,
            counts,
        }
    }

    /// Whether some are for calls only: then calls take another way than what follows from them.
    pub fn are_for_calls(&self) -> bool {
        self.caller_rate.is_some() || self.rate.is_some()
    }

    /// How often each of them did something.
    pub fn counts(&self) -> &UpstreamCounts {
        &self.counts
    }

    /// The way for calls of a route.
    pub fn for_calls(&self, route: &RouteGuards) -> Guarded {
        self.stack(Asking::Call(route))
    }

    /// The way for what follows from a call, and for what no caller asked for.
    pub fn for_what_follows(&self) -> Guarded {
        self.stack(Asking::Following)
    }

    /// The way for requests that are handed through; `None` where the upstream does not speak HTTP.
    pub fn passthrough(&self, settings: PassthroughSettings) -> Option<Passthrough> {
        let upstream = self.upstream.http()?.clone();
        Some(Passthrough::new(upstream, self.gate.clone(), self.rate.clone(), settings))
    }

    /// The guards in their order (see the room's own words), without those that are off.
    fn stack(&self, asking: Asking<'_>) -> Guarded {
        let Self { upstream, settings, counts, caller_rate, retries, circuit, rate, gate } = self.clone();
        let (route, over) = match asking {
            Asking::Call(route) => (Some(route.clone()), Over::TurnedAway),
            Asking::Following => (None, Over::Waits),
        };
        let (route_caller_rate, route_rate) = route.map(|route| (route.caller_rate, route.rate)).unzip();
        let caller_rate = caller_rate.filter(|_| route_rate.is_some());
        let limit = |rate: Option<Arc<Rate>>, over| rate.map(|rate| RateLimitLayer::new(rate, over));
        let name = upstream.name().clone();
        let (called, attempted) = (name.clone(), name);
        let retry = (settings.retry.attempts > 1)
            .then(|| layer_fn(move |service| Retry::new(service, retries.clone())));
        let breaker = (settings.breaker.failures.is_some())
            .then(|| layer_fn(move |service| Breaker::new(service, circuit.clone())));
        let attempt = settings.attempt_timeout.map(|after| {
            let late = counts.attempts_late.clone();
            layer_fn(move |service| Attempt::new(service, attempted.clone(), after, late.clone()))
        });
        let guarded = ServiceBuilder::new()
            .layer_fn(move |service| Deadline::new(service, called.clone(), counts.late.clone()))
            .option_layer(limit(caller_rate, Over::TurnedAway))
            .option_layer(limit(route_caller_rate.flatten(), Over::TurnedAway))
            .option_layer(limit(route_rate.flatten(), Over::TurnedAway))
            .option_layer(retry)
            .option_layer(breaker)
            .option_layer(limit(rate, over))
            .layer_fn(move |service| InFlight::new(service, gate.clone()))
            .option_layer(attempt)
            .service(upstream);
        Guarded::new(guarded)
    }
}
