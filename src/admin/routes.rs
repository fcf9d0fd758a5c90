//! `GET /routes`: what is bound to what.

use serde_json::{Map, Value, json};

use crate::{gateway::Snapshot, route::Route};

/// All routes, in their order.
pub(super) fn of(snapshot: &Snapshot) -> Value {
    let routes: Vec<Value> = snapshot.table.in_order().iter().map(|route| told(route)).collect();
    json!({ "routes": routes })
}

fn told(route: &Route) -> Value {
    let endpoints: Vec<String> =
        route.endpoints().map(|endpoint| format!("{} {}", endpoint.method, endpoint.path)).collect();
    let mut members = Map::new();
    members.insert("name".into(), route.definition.name.as_str().into());
    members.insert("upstream".into(), route.upstream.as_str().into());
    members.insert("tool".into(), route.is_tool().into());
    members.insert("endpoints".into(), endpoints.into());
    if let Some(resource) = &route.resource {
        members.insert("resource".into(), resource.uri.as_str().into());
    }
    members.insert("rules".into(), route.translator.rules.len().into());
    members
        .insert("deadline_ms".into(), u64::try_from(route.deadline.as_millis()).unwrap_or(u64::MAX).into());
    members.insert("job".into(), route.job.is_some().into());
    members.insert("asks".into(), (!route.asking.is_empty()).into());
    members.into()
}
