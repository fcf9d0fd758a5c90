//! `GET /routes` and `GET /upstreams`: the active routes, and the upstreams with the state of their policies.

use std::sync::Arc;

use axum::{Json, extract::State};
use serde_json::{Map, Value, json};

use super::{Api, milliseconds, without_null};
use crate::pipeline::Snapshot;
use crate::policy::{CircuitBreakerView, PolicySettings, UpstreamPolicies};
use crate::route::{Route, UpstreamName};
use crate::upstream::http::{AddressView, EndpointState as AddressState};
use crate::upstream::mcp::ProgramState;

pub(super) async fn routes(State(api): State<Arc<Api>>) -> Json<Value> {
    let snapshot = api.gateway.snapshot();
    let routes: Vec<Value> = snapshot.table.in_order().iter().map(|route| describe_route(route)).collect();
    Json(json!({ "routes": routes }))
}

fn describe_route(route: &Route) -> Value {
    let endpoints = route.endpoints().map(|endpoint| format!("{} {}", endpoint.method, endpoint.path));
    without_null(json!({
        "name": route.definition.name.as_str(),
        "upstream": route.upstream.as_str(),
        "tool": route.is_tool(),
        "endpoints": endpoints.collect::<Vec<_>>(),
        "rules": route.translator.rules.len(),
        "timeout_ms": milliseconds(route.timeout),
        "async_operation": route.async_operation.is_some(),
        "input_requests": !route.input_requests.is_empty(),
        "resource": route.resource.as_ref().map(|resource| resource.uri.as_str()),
    }))
}

pub(super) async fn upstreams(State(api): State<Arc<Api>>) -> Json<Value> {
    let snapshot = api.gateway.snapshot();
    let upstreams = snapshot.policies.upstreams.iter();
    let upstreams: Vec<Value> =
        upstreams.map(|(name, policies)| describe_upstream(&snapshot, name, policies)).collect();
    Json(json!({ "upstreams": upstreams }))
}

fn describe_upstream(snapshot: &Snapshot, name: &UpstreamName, policies: &UpstreamPolicies) -> Value {
    let view = policies.view();
    let mut breaker = json!({ "state": view.breaker.as_str() });
    match view.breaker {
        CircuitBreakerView::Off | CircuitBreakerView::HalfOpen => {}
        CircuitBreakerView::Closed { failures } => breaker["consecutive_failures"] = failures.into(),
        CircuitBreakerView::Open { remaining } => breaker["half_open_in_ms"] = milliseconds(remaining).into(),
    }
    let events = policies.events.read().map(|(event, count)| (event.to_owned(), count.into()));
    let proxied = |kind: &str| {
        let standing = format!("{name}.{kind}");
        snapshot.proxied.all().filter(|entry| entry.route.definition.name.as_str() == standing).count()
    };
    let mut value = json!({
        "name": name.as_str(),
        "kind": view.kind,
        "routes": snapshot.table.in_order().iter().filter(|route| route.upstream == *name).count(),
        "prompts": proxied("prompts"),
        "resources": proxied("resources"),
        "circuit_breaker": breaker,
        "in_flight": view.in_flight,
        "max_in_flight": view.in_flight_limit,
        "queued": view.queued,
        "max_queued": PolicySettings::MAX_QUEUED,
        "endpoints": view.addresses.iter().map(describe_address).collect::<Vec<_>>(),
        "policy_events": Map::from_iter(events),
    });
    if let Some(program) = view.program {
        value["program"] = describe_program(program);
    }
    value
}

fn describe_program(program: ProgramState) -> Value {
    let mut value = json!({ "state": program.as_str() });
    if let ProgramState::Restarting { starts_in } = program {
        value["starts_in_ms"] = milliseconds(starts_in).into();
    }
    value
}

fn describe_address(view: &AddressView) -> Value {
    let mut value = json!({
        "address": view.address,
        "state": view.state.as_str(),
        "in_flight": view.in_flight,
    });
    if let AddressState::Ejected { remaining } = view.state {
        value["ejected_for_ms"] = milliseconds(remaining).into();
    }
    value
}
