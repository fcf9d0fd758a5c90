//! `GET /routes` and `GET /upstreams`: the active routes, and the upstreams with the state of their policies.

use std::sync::Arc;

use axum::{Json, extract::State};
use serde_json::{Map, Value, json};

use super::Api;
use crate::inbound::without_nulls;
use crate::pipeline::Snapshot;
use crate::policy::{PolicySettings, UpstreamPolicies};
use crate::route::{Route, UpstreamName};
use crate::settings::units::milliseconds;

pub(super) async fn routes(State(api): State<Arc<Api>>) -> Json<Value> {
    let snapshot = api.gateway.snapshot();
    let routes: Vec<Value> = snapshot.table.in_order().iter().map(|route| describe_route(route)).collect();
    Json(json!({ "routes": routes }))
}

fn describe_route(route: &Route) -> Value {
    let endpoints = route.endpoints().map(|endpoint| format!("{} {}", endpoint.method, endpoint.path));
    without_nulls(json!({
        "name": route.definition.name.as_str(),
        "upstream": route.upstream.as_str(),
        "tool": route.is_tool,
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
    let events = policies.events.read().map(|(event, count)| (event.to_owned(), count.into()));
    let proxied = |kind: &str| {
        let route_name = format!("{name}.{kind}");
        snapshot.proxied.all().filter(|entry| entry.route.definition.name.as_str() == route_name).count()
    };
    without_nulls(json!({
        "name": name.as_str(),
        "kind": view.kind,
        "routes": snapshot.table.in_order().iter().filter(|route| route.upstream == *name).count(),
        "prompts": proxied("prompts"),
        "resources": proxied("resources"),
        "circuit_breaker": view.breaker,
        "in_flight": view.in_flight,
        "max_in_flight": view.in_flight_limit,
        "queued": view.queued,
        "max_queued": PolicySettings::MAX_QUEUED,
        "endpoints": view.addresses,
        "policy_events": Map::from_iter(events),
        "program": view.program,
    }))
}
