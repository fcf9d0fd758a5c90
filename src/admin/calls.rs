//! `GET /history` and `GET /failures`: statistics of the calls of the last hour, and the last failed calls.

use std::{
    collections::BTreeSet,
    sync::Arc,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use axum::{
    Json,
    extract::{Path, RawQuery, State, rejection::PathRejection},
};
use http::StatusCode;
use serde_json::{Map, Value, json};

use super::{Api, ProblemResponse, seconds};
use crate::inbound::without_nulls;
use crate::settings::units::milliseconds;
use crate::telemetry::{CallCounts, FailedCall, HistorySlot, MatchedRule};

/// Number of history slots that are summed into one point of a route's sparkline: 90 s.
const SLOTS_PER_POINT: usize = 6;

/// Number of the latest slots, including the incomplete one, that determine the current call rate.
const RECENT_SLOTS: usize = 5;

/// Number of failures in a response if the query has no `limit`.
const FAILURES_DEFAULT: usize = 100;

/// `GET /history`: all calls of the last hour by slot, and a summary for each route.
pub(super) async fn history(State(api): State<Arc<Api>>) -> Json<Value> {
    let slots = api.history.read(&api.meters, SystemTime::now());
    let called_routes: BTreeSet<&Arc<str>> = slots.iter().flat_map(|slot| slot.routes.keys()).collect();
    let summary = |route: &Arc<str>| (route.to_string(), summary(&counts_of(&slots, route), &slots));
    let all: Vec<CallCounts> = slots.iter().map(|slot| slot.all.clone()).collect();
    Json(json!({
        "now": slots.last().map(|slot| seconds(slot.time.1)),
        "all": series(&all, &slots),
        "point_slots": SLOTS_PER_POINT,
        "routes": called_routes.into_iter().map(summary).collect::<Map<_, _>>(),
        "omitted_routes": slots.iter().map(|slot| slot.omitted_routes).max(),
    }))
}

/// `GET /history/ROUTE`: the calls of one route in the last hour, by slot.
pub(super) async fn history_of_route(
    State(api): State<Arc<Api>>,
    route: Result<Path<String>, PathRejection>,
) -> Result<Json<Value>, ProblemResponse> {
    let slots = api.history.read(&api.meters, SystemTime::now());
    let is_called = |route: &Path<String>| slots.iter().any(|slot| slot.routes.contains_key(route.as_str()));
    let Some(Path(route)) = route.ok().filter(is_called) else {
        let message = "no calls of a route of that name were recorded during the last hour";
        return Err(ProblemResponse::new(StatusCode::NOT_FOUND, message));
    };
    let mut value = series(&counts_of(&slots, &route), &slots);
    value["route"] = route.into();
    Ok(Json(value))
}

/// Returns the call counts of a route in each slot.
fn counts_of(slots: &[HistorySlot], route: &str) -> Vec<CallCounts> {
    slots.iter().map(|slot| slot.routes.get(route).cloned().unwrap_or_default()).collect()
}

fn series(counts: &[CallCounts], slots: &[HistorySlot]) -> Value {
    let quantile = |share: f64| -> Value { counts.iter().map(|counts| quantile_ms(counts, share)).collect() };
    json!({
        "ended": slots.iter().map(|slot| seconds(slot.time.1)).collect::<Vec<_>>(),
        "seconds": slots.iter().map(|slot| rounded(length(slot).as_secs_f64())).collect::<Vec<_>>(),
        "calls": counts.iter().map(|counts| counts.calls).collect::<Vec<_>>(),
        "errors": counts.iter().map(|counts| counts.errors).collect::<Vec<_>>(),
        "p50_ms": quantile(0.5),
        "p95_ms": quantile(0.95),
        "p99_ms": quantile(0.99),
        "hour": totals(&CallCounts::sum(counts)),
    })
}

fn summary(counts: &[CallCounts], slots: &[HistorySlot]) -> Value {
    let mut value = totals(&CallCounts::sum(counts));
    let first = slots.len().saturating_sub(RECENT_SLOTS);
    let recent = CallCounts::sum(&counts[first..]);
    let recent_seconds: f64 = slots[first..].iter().map(|slot| length(slot).as_secs_f64()).sum();
    #[expect(clippy::cast_precision_loss, reason = "a rate, rounded anyway")]
    let rate = if recent_seconds > 0.0 { recent.calls as f64 / recent_seconds } else { 0.0 };
    value["per_second"] = rounded(rate);
    // Slots are grouped from the end, so that the points do not shift while the last slot fills.
    let points = || counts.rchunks(SLOTS_PER_POINT).rev().map(CallCounts::sum);
    value["calls_by_point"] = points().map(|point| point.calls).collect();
    value["errors_by_point"] = points().map(|point| point.errors).collect();
    value
}

fn totals(tally: &CallCounts) -> Value {
    json!({
        "calls": tally.calls,
        "errors": tally.errors,
        "p50_ms": quantile_ms(tally, 0.5),
        "p95_ms": quantile_ms(tally, 0.95),
        "p99_ms": quantile_ms(tally, 0.99),
    })
}

fn length(slot: &HistorySlot) -> Duration {
    slot.time.1.duration_since(slot.time.0).unwrap_or_default()
}

fn quantile_ms(tally: &CallCounts, share: f64) -> Value {
    tally.quantile(share).map_or(Value::Null, |duration| rounded(duration.as_secs_f64() * 1000.0))
}

/// Rounds to two decimal places.
fn rounded(number: f64) -> Value {
    json!((number * 100.0).round() / 100.0)
}

/// `GET /failures`: the failed calls that the query selects, newest first.
pub(super) async fn failures(
    State(api): State<Arc<Api>>,
    RawQuery(query): RawQuery,
) -> Result<Json<Value>, ProblemResponse> {
    let query = query.unwrap_or_default();
    let (mut route, mut request_id, mut limit) = (None, None, FAILURES_DEFAULT);
    for (name, value) in form_urlencoded::parse(query.as_bytes()) {
        let invalid = |message: &str| ProblemResponse::new(StatusCode::BAD_REQUEST, message);
        match &*name {
            "route" => route = Some(value),
            "request_id" => request_id = Some(value),
            "limit" => {
                let excerpt: String = value.chars().take(40).collect();
                let message = format!("`limit` takes a whole number from 0, found {excerpt:?}");
                limit = value.parse().map_err(|_| invalid(&message))?;
            }
            _ => return Err(invalid("known parameters are `route`, `request_id` and `limit`")),
        }
    }
    let is_requested = |failure: &FailedCall| {
        route.as_ref().is_none_or(|route| **route == *failure.tool)
            && request_id.as_ref().is_none_or(|id| **id == *failure.request_id.as_str())
    };
    let (last, total) = api.meters.failures().last(limit, is_requested);
    let failures: Vec<Value> = last.iter().map(describe_failure).collect();
    Ok(Json(json!({ "failures": failures, "since_start": total })))
}

fn describe_failure(failure: &FailedCall) -> Value {
    without_nulls(json!({
        "at": milliseconds(failure.at.duration_since(UNIX_EPOCH).unwrap_or_default()),
        "route": &*failure.tool,
        "upstream": &*failure.upstream,
        "api": failure.api,
        "request_id": failure.request_id.as_str(),
        "outcome": failure.outcome,
        "reason": failure.reason.as_deref().unwrap_or_else(|| describe_error_type(failure.error_type)),
        "duration_ms": rounded(failure.took.as_secs_f64() * 1000.0),
        "error_type": Some(failure.error_type).filter(|error_type| !error_type.is_empty()),
        "upstream_status": failure.upstream_status,
        "rule": failure.matched_rule.map(|rule| match rule {
            MatchedRule::Rule(index) => json!(index + 1),
            MatchedRule::Default => json!("default"),
        }),
    }))
}

/// Describes an error type, for failures whose log line has no error text.
fn describe_error_type(error_type: &str) -> &'static str {
    match error_type {
        "" => "the client disconnected before the result",
        "invalid_arguments" => "the arguments are invalid for the route",
        "input_missing" => "the client did not respond to an input request",
        "upstream_error" => "the upstream returned an error status",
        "reported_error" => "a rule found an error in the response",
        "unparseable_response" => {
            "the response is too long, could not be parsed, or violates the output schema"
        }
        "upstream_unreachable" => "the upstream could not be reached, or closed the connection early",
        "timeout" => "the call timed out",
        "unavailable" => "the concurrency limit was reached, or a circuit breaker is open",
        "rate_limited" => "a rate limit was exceeded",
        _ => "the call failed",
    }
}
