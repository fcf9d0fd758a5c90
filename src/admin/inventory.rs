//! `GET /upstreams`: the legacy servers, and what stands before them.

use std::time::Duration;

use serde_json::{Map, Value, json};

use crate::{
    gateway::Snapshot,
    policy::{BreakerView, GuardsView},
    route::UpstreamName,
    upstream::http::{AddressView, State},
};

/// All upstreams, by name.
pub(super) fn of(snapshot: &Snapshot) -> Value {
    let upstreams: Vec<Value> =
        snapshot.guards.iter().map(|(name, guards)| told(snapshot, name, &guards.view())).collect();
    json!({ "upstreams": upstreams })
}

fn told(snapshot: &Snapshot, name: &UpstreamName, view: &GuardsView) -> Value {
    let mut breaker = Map::new();
    breaker.insert("state".into(), view.breaker.as_word().into());
    match view.breaker {
        BreakerView::Off | BreakerView::HalfOpen => {}
        BreakerView::Closed { failures } => drop(breaker.insert("failures".into(), failures.into())),
        BreakerView::Open { rest } => drop(breaker.insert("rest_ms".into(), milliseconds(rest))),
    }
    let routes = snapshot.table.in_order().iter().filter(|route| route.upstream == *name).count();
    let mut members = Map::new();
    members.insert("name".into(), name.as_str().into());
    members.insert("kind".into(), view.kind.into());
    members.insert("routes".into(), routes.into());
    members.insert("breaker".into(), breaker.into());
    members.insert("in_flight".into(), view.in_flight.into());
    members.insert("in_flight_limit".into(), view.in_flight_limit.into());
    members.insert("waiting".into(), view.waiting.into());
    members.insert("waiting_limit".into(), view.waiting_limit.into());
    members.insert("addresses".into(), view.addresses.iter().map(address).collect());
    if let Some(counts) = snapshot.counts.upstreams.get(name) {
        let told = json!({
            "retry": counts.again.get(),
            "deadline": counts.late.get(),
            "attempt_deadline": counts.attempts_late.get(),
            "breaker_opened": counts.opened.get(),
            "breaker_rejected": counts.rested.get(),
            "queue_rejected": counts.busy.get(),
            "rate_rejected": counts.too_often.get(),
            "caller_rate_rejected": counts.caller_too_often.get(),
        });
        members.insert("guards".into(), told);
    }
    members.into()
}

fn address(view: &AddressView) -> Value {
    let mut members = Map::new();
    members.insert("address".into(), view.address.as_str().into());
    let state = match view.state {
        State::Up => "up",
        State::LeftOut { .. } => "left_out",
        State::ToBeTried => "to_be_tried",
        State::Unhealthy => "unhealthy",
    };
    members.insert("state".into(), state.into());
    if let State::LeftOut { rest } = view.state {
        members.insert("rest_ms".into(), milliseconds(rest));
    }
    members.insert("in_flight".into(), view.in_flight.into());
    members.into()
}

fn milliseconds(duration: Duration) -> Value {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX).into()
}
