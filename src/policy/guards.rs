//! The guards of an upstream and of its routes, put together.

use std::sync::Arc;

use tower::{ServiceBuilder, layer::layer_fn};

use super::{
    Attempt, Breaker, BreakerView, Budget, Cache, Circuit, Coalesce, Count, Deadline, Gate, Guarded,
    GuardsView, Hedge, InFlight, Measured, Over, Passthrough, PassthroughSettings, PolicySettings, Rate,
    RateLimitLayer, Retries, Retry, RouteCounts, RoutePolicySettings, SameAtOnce, Store, UpstreamCounts,
    cache,
    coalesce::Flights,
    hedge::{Hedging, Times},
    key::Whom,
    spans::Whereto,
    view,
};
use crate::{
    shared_state::SharedStore,
    tool::ToolName,
    upstream::{Upstream, Whose, http::HttpUpstream},
};

/// What other replicas count and keep with us, of one upstream.
#[derive(Debug, Clone)]
pub struct Sharing {
    /// Where.
    pub store: SharedStore,
    /// What tells this upstream from one that is configured in another way: replies of the one are none of the other.
    pub identity: Arc<str>,
}

/// What all that ask one upstream share: its limits, and what is known of it. Clones share it, too.
#[derive(Debug, Clone)]
pub struct Guards {
    upstream: Upstream,
    settings: PolicySettings,
    sharing: Option<Sharing>,
    counts: UpstreamCounts,
    to: Arc<Whereto>,
    whom: Whom,
    caller_rate: Option<Arc<Rate>>,
    budget: Arc<Budget>,
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
    cache: Option<Arc<cache::Shared>>,
    flights: Option<Arc<Flights>>,
    rate: Option<Arc<Rate>>,
    hedging: Option<Arc<Hedging>>,
    retries: Arc<Retries>,
    circuit: Arc<Circuit>,
    keeps: bool,
}

impl RouteGuards {
    /// For a route with this tool, that asks the upstream of `guards` and keeps replies in `store`.
    pub fn new(guards: &Guards, tool: &ToolName, settings: RoutePolicySettings, store: &Store) -> Self {
        let (counts, upstream, whom) = (RouteCounts::default(), guards.upstream.name(), guards.whom);
        let rate = |whose, settings: Option<_>, count: &Count| {
            settings.map(|settings| {
                let rate = Rate::new(upstream.clone(), whose, settings, count.clone());
                Sharing::counting(guards.sharing.as_ref(), rate, tool.as_str())
            })
        };
        let flights = match settings.same_at_once {
            SameAtOnce::AskedByEach => None,
            SameAtOnce::AskedOnce => Some(Flights::new(upstream.clone(), whom, counts.joined.clone())),
        };
        let flights = flights.map(Arc::new);
        let cache = settings.cache.map(|settings| {
            let away = guards.sharing.clone().map(cache::Away::new);
            let (store, flights, counts) = (store.clone(), flights.clone(), counts.clone());
            Arc::new(cache::Shared { settings, whom, store, away, flights, counts })
        });
        let breaker = settings.breaker.over(guards.settings.breaker);
        let circuit = Circuit::new(upstream.clone(), breaker, counts.opened.clone(), counts.rested.clone());
        let circuit = Arc::new(circuit.of_route(tool.clone()));
        let retries = match settings.retry.over(guards.settings.retry) {
            own if own == guards.settings.retry => guards.retries.clone(),
            own => {
                let (budget, again) = (guards.budget.clone(), guards.counts.again.clone());
                Arc::new(Retries::new(upstream.clone(), own, budget, again))
            }
        };
        let hedging = settings.hedge.map(|settings| {
            let (budget, circuits) = (guards.budget.clone(), [guards.circuit.clone(), circuit.clone()]);
            let times = Times::default();
            Arc::new(Hedging { settings, budget, circuits, counts: counts.clone(), times })
        });
        Self {
            caller_rate: rate(Whose::CallerOfRoute, settings.caller_rate, &counts.caller_too_often),
            keeps: cache.is_some(),
            cache,
            flights,
            rate: rate(Whose::Route, settings.rate, &counts.too_often),
            hedging,
            retries,
            circuit,
            counts,
        }
    }

    /// How often each of them did something.
    pub fn counts(&self) -> &RouteCounts {
        &self.counts
    }

    /// How its circuit breaker stands.
    pub fn breaker(&self) -> BreakerView {
        self.circuit.view()
    }
}

impl Sharing {
    /// A limit of something of this name, which all count together where they share.
    fn counting(sharing: Option<&Self>, rate: Rate, name: &str) -> Arc<Rate> {
        Arc::new(match sharing {
            Some(sharing) => rate.counted_in(sharing.store.clone(), name),
            None => rate,
        })
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
        Self::sharing(upstream, settings, None)
    }

    /// The same of one among several replicas, which share what is to be shared.
    pub fn sharing(upstream: Upstream, settings: PolicySettings, sharing: Option<Sharing>) -> Self {
        let counts = UpstreamCounts::default();
        let name = || upstream.name().clone();
        let rate = |whose, settings: Option<_>, count: &Count| {
            settings.map(|settings| {
                let rate = Rate::new(name(), whose, settings, count.clone());
                Sharing::counting(sharing.as_ref(), rate, upstream.name().as_str())
            })
        };
        let budget = Arc::<Budget>::default();
        let circuit = Circuit::new(name(), settings.breaker, counts.opened.clone(), counts.rested.clone());
        let circuit = Arc::new(circuit);
        if let Some(http) = upstream.http() {
            let circuit = Arc::downgrade(&circuit);
            http.when_healthy(move || {
                if let Some(circuit) = circuit.upgrade() {
                    circuit.proved_healthy();
                }
            });
        }
        Self {
            caller_rate: rate(Whose::CallerOfUpstream, settings.caller_rate, &counts.caller_too_often),
            whom: Whom::new(),
            retries: Arc::new(Retries::new(name(), settings.retry, budget.clone(), counts.again.clone())),
            budget,
            circuit,
            rate: rate(Whose::Upstream, settings.rate, &counts.too_often),
            gate: Arc::new(Gate::new(name(), settings, counts.busy.clone())),
            to: Arc::new(Whereto::of(&upstream)),
            upstream,
            settings,
            sharing,
            counts,
        }
    }

    /// How often each of them did something.
    pub fn counts(&self) -> &UpstreamCounts {
        &self.counts
    }

    /// What they know of their upstream now.
    pub fn view(&self) -> GuardsView {
        let (in_flight, waiting) = self.gate.taken();
        GuardsView {
            kind: view::kind_of(&self.upstream),
            breaker: self.circuit.view(),
            in_flight,
            in_flight_limit: self.settings.in_flight_limit,
            waiting,
            waiting_limit: self.settings.waiting_limit,
            addresses: self.upstream.http().map(HttpUpstream::addresses).unwrap_or_default(),
        }
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
        let counted = self.counts.handed_through.clone();
        let settings = (settings, self.settings, self.counts.busy.clone());
        Some(Passthrough::new(upstream, self.gate.clone(), self.rate.clone(), settings, counted))
    }

    /// The guards in their order (see the room's own words).
    fn stack(&self, asking: Asking<'_>) -> Guarded {
        let Self { upstream, settings, counts, retries, circuit, rate, gate, .. } = self.clone();
        let over = match asking {
            Asking::Call(_) => Over::TurnedAway,
            Asking::Following => Over::Waits,
        };
        let limit = |rate: Option<Arc<Rate>>| rate.map(|rate| RateLimitLayer::new(rate, over));
        let name = upstream.name().clone();
        let (called, attempted) = (name.clone(), name);
        let (attempts, to) = (counts.attempts.clone(), self.to.clone());
        let attempt = settings.attempt_timeout.map(|after| {
            let late = counts.attempts_late.clone();
            layer_fn(move |service| Attempt::new(service, attempted.clone(), after, late.clone()))
        });
        let once = ServiceBuilder::new()
            .layer_fn(move |service| Breaker::new(service, circuit.clone()))
            .option_layer(limit(rate))
            .layer_fn(move |service| InFlight::new(service, gate.clone(), over))
            .option_layer(attempt)
            .layer_fn(move |service| Measured::new(service, to.clone(), attempts.clone()))
            .service(upstream);
        let Asking::Call(route) = asking else {
            return Guarded::new(Deadline::new(Retry::new(once, retries), called, counts.late));
        };
        let RouteGuards { counts: _, caller_rate, cache, flights, rate, hedging, retries, circuit, keeps } =
            route.clone();
        let once = Arc::new(Breaker::new(once, circuit));
        let second = once.clone();
        let hedge = hedging
            .map(|hedging| layer_fn(move |service| Hedge::new(service, second.clone(), hedging.clone())));
        let coalesce =
            flights.map(|flights| layer_fn(move |service| Coalesce::new(service, flights.clone())));
        let cache = cache.map(|cache| layer_fn(move |service| Cache::new(service, cache.clone())));
        let guarded = ServiceBuilder::new()
            .layer_fn(move |service| Deadline::new(service, called.clone(), counts.late.clone()))
            .option_layer(limit(self.caller_rate.clone()))
            .option_layer(limit(caller_rate))
            .option_layer(cache)
            .option_layer(coalesce)
            .option_layer(limit(rate))
            .option_layer(hedge)
            // What is repeated is earned by every call, the hedged ones too.
            .layer_fn(move |service| Retry::new(service, retries.clone()))
            .service(once);
        Guarded::new(guarded).keeping(keeps)
    }
}
