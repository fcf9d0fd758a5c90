//! `GET /history`: how the calls of the last hour went, of all routes in short, and of one slot by slot.

use std::{
    sync::Arc,
    time::{Duration, SystemTime},
};

use serde_json::{Map, Value, json};

use super::seconds;
use crate::observe::{Past, Tally};

/// How many slots are put together to one point of the short picture of a route.
const SLOTS_PER_POINT: usize = 6;

/// All routes: the hour in numbers, and a short picture.
pub(super) fn of_all(past: &Past) -> Value {
    let routes: Map<String, Value> =
        past.routes.iter().map(|(tool, slots)| (tool.to_string(), in_short(slots, &past.times))).collect();
    json!({
        "now": past.times.last().map(|(_, ended)| seconds(*ended)),
        "all": slot_by_slot(&past.all, &past.times),
        "point_slots": SLOTS_PER_POINT,
        "routes": routes,
        "routes_left_out": past.left_out,
    })
}

/// One route, or all where none is named. `None` for one that was not called.
pub(super) fn of_one(past: &Past, tool: &str) -> Option<Value> {
    let slots = past.routes.get(&Arc::from(tool))?;
    let Value::Object(mut told) = slot_by_slot(slots, &past.times) else { return None };
    told.insert("route".into(), tool.into());
    Some(told.into())
}

fn slot_by_slot(slots: &[Tally], times: &[(SystemTime, SystemTime)]) -> Value {
    let quantile = |share: f64| -> Value { slots.iter().map(|slot| milliseconds(slot, share)).collect() };
    json!({
        "ended": times.iter().map(|(_, ended)| seconds(*ended)).collect::<Vec<_>>(),
        "seconds": times.iter().map(|time| rounded(span(*time).as_secs_f64())).collect::<Vec<_>>(),
        "calls": slots.iter().map(|slot| slot.calls).collect::<Vec<_>>(),
        "errors": slots.iter().map(|slot| slot.errors).collect::<Vec<_>>(),
        "p50_ms": quantile(0.5),
        "p95_ms": quantile(0.95),
        "p99_ms": quantile(0.99),
        "hour": in_numbers(&sum(slots)),
    })
}

fn in_short(slots: &[Tally], times: &[(SystemTime, SystemTime)]) -> Value {
    let Value::Object(mut told) = in_numbers(&sum(slots)) else { return Value::Null };
    // What is recent is what matters: the last minute or so, the slot that goes on included.
    const RECENT: usize = 5;
    let first = slots.len().saturating_sub(RECENT);
    let recent = sum(&slots[first..]);
    let took: f64 = times[first..].iter().map(|time| span(*time).as_secs_f64()).sum();
    #[expect(clippy::cast_precision_loss, reason = "a rate, rounded anyway")]
    let rate = if took > 0.0 { recent.calls as f64 / took } else { 0.0 };
    told.insert("per_second".into(), rounded(rate));
    // Chunks from the end, so that the points do not shift while a slot fills.
    let points = || slots.rchunks(SLOTS_PER_POINT).rev();
    told.insert("calls_by_point".into(), points().map(|slots| sum(slots).calls).collect());
    told.insert("errors_by_point".into(), points().map(|slots| sum(slots).errors).collect());
    told.into()
}

fn in_numbers(tally: &Tally) -> Value {
    json!({
        "calls": tally.calls,
        "errors": tally.errors,
        "p50_ms": milliseconds(tally, 0.5),
        "p95_ms": milliseconds(tally, 0.95),
        "p99_ms": milliseconds(tally, 0.99),
    })
}

fn sum(slots: &[Tally]) -> Tally {
    let mut sum = Tally::default();
    slots.iter().for_each(|slot| sum.add(slot));
    sum
}

fn span((begun, ended): (SystemTime, SystemTime)) -> Duration {
    ended.duration_since(begun).unwrap_or_default()
}

fn milliseconds(tally: &Tally, share: f64) -> Value {
    tally.quantile(share).map_or(Value::Null, |took| rounded(took.as_secs_f64() * 1000.0))
}

/// With two digits after the point.
fn rounded(number: f64) -> Value {
    json!((number * 100.0).round() / 100.0)
}
