//! Call statistics of the last hour, by route, and the last failed calls, for the admin API.
//!
//! Calls do no work for these statistics. Instead, the metrics are sampled at an interval, and the difference
//! from the previous sample is stored as one [slot](HistorySlot).

use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    sync::Arc,
    time::{Duration, SystemTime},
};

use parking_lot::Mutex;

use super::RequestId;
use super::metrics::{BUCKET_BOUNDS, HistogramSnapshot, Meters};

/// Interval at which the metrics are sampled.
pub const SAMPLE_INTERVAL: Duration = Duration::from_secs(15);

/// Maximum number of stored slots: one hour.
pub const SLOTS: usize = 240;

/// Maximum number of routes with statistics of their own. The calls of further routes are counted only in the
/// total.
pub const HISTORY_ROUTES_LIMIT: usize = 256;

/// Call statistics of the last hour. Clones share them.
#[derive(Debug, Clone, Default)]
pub struct History(Arc<Mutex<Slots>>);

#[derive(Debug, Default)]
struct Slots {
    /// The complete slots, oldest first.
    past: VecDeque<HistorySlot>,
    /// The counts of the last sample.
    last_sample: SampleCounts,
}

/// The counts of a sample, by the id of the route's metrics. If a route has changed, its tool name may
/// occur more than once.
type SampleCounts = BTreeMap<u64, (Arc<str>, CallCounts)>;

/// Call statistics between two samples.
#[derive(Debug, Clone)]
pub struct HistorySlot {
    /// Start and end.
    pub time: (SystemTime, SystemTime),
    /// The calls of all routes.
    pub all: CallCounts,
    /// The calls of each route that was called and is tracked.
    pub routes: BTreeMap<Arc<str>, CallCounts>,
    /// Number of routes that were called, but are not tracked because of [`HISTORY_ROUTES_LIMIT`].
    pub omitted_routes: usize,
}

/// Call counts of an interval.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct CallCounts {
    /// Completed calls.
    pub calls: u64,
    /// Number of completed calls that were errors.
    pub errors: u64,
    pub(super) took: HistogramSnapshot,
}

impl History {
    /// Samples the metrics: completes the current slot and starts the next one.
    pub fn sample(&self, meters: &Meters, now: SystemTime) {
        let counts = sample_counts(meters);
        let mut slots = self.0.lock();
        if slots.past.len() == SLOTS {
            slots.past.pop_front();
        }
        let slot = slots.current_slot(&counts, now);
        slots.past.push_back(slot);
        slots.last_sample = counts;
    }

    /// The slots of the last hour, oldest first. The last slot ends now and is incomplete.
    pub fn read(&self, meters: &Meters, now: SystemTime) -> Vec<HistorySlot> {
        let counts = sample_counts(meters);
        let slots = self.0.lock();
        let current = slots.current_slot(&counts, now);
        slots.past.iter().cloned().chain([current]).collect()
    }
}

impl Slots {
    /// Builds the slot from the last sample until now.
    fn current_slot(&self, counts: &SampleCounts, now: SystemTime) -> HistorySlot {
        let known_tools: BTreeSet<&Arc<str>> = self.past.iter().flat_map(|slot| slot.routes.keys()).collect();
        let mut free_routes = HISTORY_ROUTES_LIMIT.saturating_sub(known_tools.len());
        let mut routes = calls_between(&self.last_sample, counts);
        let (all, called) = (CallCounts::sum(routes.values()), routes.len());
        routes.retain(|tool, _| {
            let is_known = known_tools.contains(tool);
            let is_tracked = is_known || free_routes > 0;
            free_routes -= usize::from(is_tracked && !is_known);
            is_tracked
        });
        // If the clock was set back, this slot has no duration, and the next one begins at the current time.
        let start = self.past.back().map_or(now, |last| last.time.1).min(now);
        HistorySlot { time: (start, now), all, omitted_routes: called - routes.len(), routes }
    }
}

fn sample_counts(meters: &Meters) -> SampleCounts {
    let routes = meters.routes().into_iter();
    routes.map(|route| (route.id, (Arc::clone(&route.tool), route.totals()))).collect()
}

/// The calls between two samples, by tool.
fn calls_between(before: &SampleCounts, after: &SampleCounts) -> BTreeMap<Arc<str>, CallCounts> {
    let mut calls = BTreeMap::<Arc<str>, CallCounts>::new();
    for (id, (tool, after)) in after {
        let tally = before.get(id).map_or_else(|| after.clone(), |(_, before)| after.since(before));
        if tally.calls > 0 {
            calls.entry(Arc::clone(tool)).or_default().add(&tally);
        }
    }
    calls
}

impl CallCounts {
    /// Adds up counts.
    pub fn sum<'c>(all: impl IntoIterator<Item = &'c Self>) -> Self {
        let mut sum = Self::default();
        all.into_iter().for_each(|counts| sum.add(counts));
        sum
    }

    fn add(&mut self, other: &Self) {
        self.calls += other.calls;
        self.errors += other.errors;
        self.took.add(&other.took);
    }

    fn since(&self, before: &Self) -> Self {
        Self {
            calls: self.calls.saturating_sub(before.calls),
            errors: self.errors.saturating_sub(before.errors),
            took: self.took.since(&before.took),
        }
    }

    /// Estimates the duration within which this share of the calls (0 to 1) completed, by interpolation
    /// within a bucket. `None` without calls. If the duration is above all bounds, the largest bound is
    /// returned.
    #[expect(clippy::cast_precision_loss, reason = "an estimate; counts of an hour are far below 2^53")]
    pub fn quantile(&self, share: f64) -> Option<Duration> {
        let rank = share * self.took.count() as f64;
        let (mut cumulative, mut lower) = (0.0, 0.0);
        for (index, count) in self.took.buckets.iter().enumerate().filter(|(_, count)| **count > 0) {
            let count = *count as f64;
            lower = index.checked_sub(1).map_or(0.0, |previous| BUCKET_BOUNDS[previous]).max(lower);
            let upper = BUCKET_BOUNDS.get(index).copied().unwrap_or(lower);
            if cumulative + count >= rank {
                let fraction = ((rank - cumulative) / count).clamp(0.0, 1.0);
                return Some(Duration::from_secs_f64(lower + (upper - lower) * fraction));
            }
            cumulative += count;
        }
        None
    }
}

/// Maximum number of stored failures. The oldest one is dropped first.
pub const FAILURES_LIMIT: usize = 500;

/// Maximum length of the stored reason of a failure, in bytes.
const REASON_LIMIT_BYTES: usize = 600;

/// A failed call, without its arguments and without the body of the response.
#[derive(Debug, Clone)]
pub struct FailedCall {
    /// Time at which the call ended.
    pub at: SystemTime,
    /// The tool.
    pub tool: Arc<str>,
    /// The upstream.
    pub upstream: Arc<str>,
    /// The API.
    pub api: &'static str,
    /// The request id of the call.
    pub request_id: RequestId,
    /// The outcome: `error`, or `cancelled`.
    pub outcome: &'static str,
    /// The error type; empty if there is none.
    pub error_type: &'static str,
    /// HTTP status of the upstream response, if there was one.
    pub upstream_status: Option<u16>,
    /// The rule that matched, if there was a response.
    pub matched_rule: Option<MatchedRule>,
    /// The error message of the log line, if there is one, truncated to 600 bytes.
    pub reason: Option<Box<str>>,
    /// The duration of the call.
    pub took: Duration,
}

/// The rule that determined the result.
#[derive(Debug, Clone, Copy, PartialEq, Eq, derive_more::Display)]
pub enum MatchedRule {
    /// A rule of the route, by its index. `Display` counts from 1.
    #[display("{}", _0 + 1)]
    Rule(usize),
    /// One of the default rules, because no rule of the route matched.
    #[display("default")]
    Default,
}

/// The last failed calls. Clones share them.
///
/// Successful calls do not lock the mutex; a failed call locks it to add its entry.
#[derive(Debug, Clone, Default)]
pub struct FailedCalls(Arc<Mutex<Ring>>);

#[derive(Debug, Default)]
struct Ring {
    failures: VecDeque<FailedCall>,
    total: u64,
}

impl FailedCalls {
    /// Adds a failure, with a truncated reason. Drops the oldest failure if the limit is reached.
    pub fn add(&self, mut failure: FailedCall) {
        if let Some(reason) = failure.reason.as_mut().filter(|reason| reason.len() > REASON_LIMIT_BYTES) {
            let end = reason.floor_char_boundary(REASON_LIMIT_BYTES - '…'.len_utf8());
            *reason = format!("{}…", &reason[..end]).into();
        }
        let mut stored = self.0.lock();
        stored.total += 1;
        if stored.failures.len() >= FAILURES_LIMIT {
            stored.failures.pop_front();
        }
        stored.failures.push_back(failure);
    }

    /// Returns the stored failures that match, newest first and at most `limit`, and the total number of
    /// failures so far.
    pub fn last(&self, limit: usize, is_match: impl Fn(&FailedCall) -> bool) -> (Vec<FailedCall>, u64) {
        let stored = self.0.lock();
        let matching = stored.failures.iter().rev().filter(|failure| is_match(failure));
        (matching.take(limit).cloned().collect(), stored.total)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::telemetry::CallEnd;

    fn call(meters: &Meters, tool: &str, outcome: &'static str, milliseconds: u64) {
        let route = meters.route(tool.into(), "old".into(), 0);
        route.call_started("rest");
        let error_type = (outcome == "error").then_some("unreadable");
        let end = CallEnd { api: "rest", mcp_version: "", outcome, error_type };
        route.call_ended(end, Duration::from_millis(milliseconds));
    }

    fn times(slots: &[HistorySlot]) -> Vec<(SystemTime, SystemTime)> {
        slots.iter().map(|slot| slot.time).collect()
    }

    fn counts(slots: &[HistorySlot]) -> Vec<(u64, u64)> {
        slots.iter().map(|slot| (slot.all.calls, slot.all.errors)).collect()
    }

    fn counts_of(slots: &[HistorySlot], route: &str) -> Vec<(u64, u64)> {
        let counts = |counts: &CallCounts| (counts.calls, counts.errors);
        slots.iter().map(|slot| slot.routes.get(route).map_or((0, 0), counts)).collect()
    }

    fn end_of_slot(slot: usize) -> SystemTime {
        SystemTime::UNIX_EPOCH + SAMPLE_INTERVAL * u32::try_from(slot).unwrap()
    }

    #[test]
    fn each_slot_has_its_own_counts_and_the_last_one_continues() {
        let (meters, history) = (Meters::default(), History::default());
        call(&meters, "a", "success", 2);
        history.sample(&meters, end_of_slot(1));
        call(&meters, "a", "error", 2);
        call(&meters, "b", "success", 2);
        history.sample(&meters, end_of_slot(2));
        call(&meters, "b", "success", 2);
        let past = history.read(&meters, end_of_slot(3));
        assert_eq!(counts(&past), [(1, 0), (2, 1), (1, 0)]);
        assert_eq!(counts_of(&past, "a"), [(1, 0), (1, 1), (0, 0)]);
        assert_eq!(counts_of(&past, "b"), [(0, 0), (1, 0), (1, 0)]);
        assert_eq!(
            times(&past),
            [
                (end_of_slot(1), end_of_slot(1)),
                (end_of_slot(1), end_of_slot(2)),
                (end_of_slot(2), end_of_slot(3))
            ]
        );
    }

    #[test]
    fn slots_have_a_duration_again_after_the_clock_was_set_back() {
        let (meters, history) = (Meters::default(), History::default());
        for slot in [241, 1, 2] {
            history.sample(&meters, end_of_slot(slot));
        }
        let slot = |from, to| (end_of_slot(from), end_of_slot(to));
        let past = history.read(&meters, end_of_slot(3));
        assert_eq!(times(&past), [slot(241, 241), slot(1, 1), slot(1, 2), slot(2, 3)]);
    }

    #[test]
    fn a_removed_route_keeps_its_history_and_restarts_its_counters() {
        let (meters, history) = (Meters::default(), History::default());
        for tool in ["a", "a", "a", "b"] {
            call(&meters, tool, "success", 2);
        }
        history.sample(&meters, end_of_slot(1));
        // No configuration has these routes any more.
        meters.read();
        call(&meters, "b", "error", 2);
        let past = history.read(&meters, end_of_slot(2));
        assert_eq!(counts(&past), [(4, 0), (1, 1)]);
        assert_eq!(counts_of(&past, "a"), [(3, 0), (0, 0)]);
        history.sample(&meters, end_of_slot(2));
        call(&meters, "a", "success", 2);
        let past = history.read(&meters, end_of_slot(3));
        assert_eq!(counts_of(&past, "a"), [(3, 0), (0, 0), (1, 0)]);
        assert_eq!(past[2].all.quantile(1.0), Some(Duration::from_micros(2500)));
    }

    #[test]
    fn routes_without_calls_in_the_last_hour_are_dropped_except_their_counter() {
        let (meters, history) = (Meters::default(), History::default());
        call(&meters, "a", "success", 2);
        for slot in 0..=SLOTS {
            history.sample(&meters, end_of_slot(slot));
        }
        let past = history.read(&meters, end_of_slot(SLOTS + 1));
        assert!(past.len() == SLOTS + 1 && past.iter().all(|slot| slot.routes.is_empty()));
        call(&meters, "a", "success", 2);
        let past = history.read(&meters, end_of_slot(SLOTS + 1));
        assert_eq!(counts_of(&past, "a").iter().map(|(calls, _)| calls).sum::<u64>(), 1);
    }

    #[test]
    fn the_number_of_routes_is_limited_and_the_others_count_in_the_total() {
        let (meters, history) = (Meters::default(), History::default());
        for number in 0..HISTORY_ROUTES_LIMIT + 3 {
            call(&meters, &format!("t{number}"), "success", 2);
        }
        for _ in 0..2 {
            let past = history.read(&meters, end_of_slot(2));
            let slot = past.iter().find(|slot| !slot.routes.is_empty()).unwrap();
            assert_eq!((slot.routes.len(), slot.omitted_routes), (HISTORY_ROUTES_LIMIT, 3));
            history.sample(&meters, end_of_slot(1));
        }
        let past = history.read(&meters, end_of_slot(2));
        let total: u64 = past.iter().map(|slot| slot.all.calls).sum();
        assert_eq!(total, HISTORY_ROUTES_LIMIT as u64 + 3);
    }

    #[test]
    fn quantiles_lie_in_the_bucket_that_has_them() {
        let meters = Meters::default();
        for _ in 0..98 {
            call(&meters, "a", "success", 2);
        }
        call(&meters, "a", "success", 200);
        call(&meters, "a", "success", 60_000);
        let tally = calls_between(&SampleCounts::default(), &sample_counts(&meters));
        let tally = CallCounts::sum(tally.values());
        let millis = |share| tally.quantile(share).unwrap().as_millis();
        assert_eq!(millis(0.5), 1);
        assert!((100..=250).contains(&millis(0.99)), "{}", millis(0.99));
        assert_eq!(millis(1.0), 30_000);
        assert_eq!(CallCounts::default().quantile(0.5), None);
    }

    fn failure(tool: &str, reason: &str) -> FailedCall {
        FailedCall {
            at: SystemTime::UNIX_EPOCH,
            tool: tool.into(),
            upstream: "old".into(),
            api: "rest",
            request_id: RequestId::next(),
            outcome: "error",
            error_type: "unreadable",
            upstream_status: Some(200),
            matched_rule: Some(MatchedRule::Rule(0)),
            reason: Some(reason.into()),
            took: Duration::ZERO,
        }
    }

    #[test]
    fn the_last_failures_are_stored_and_the_first_evicted() {
        let failures = FailedCalls::default();
        for number in 0..=FAILURES_LIMIT {
            failures.add(failure(&format!("t{number}"), "why"));
        }
        let (last, total) = failures.last(usize::MAX, |_| true);
        assert_eq!((last.len(), total), (FAILURES_LIMIT, FAILURES_LIMIT as u64 + 1));
        assert_eq!((&*last[0].tool, &*last[FAILURES_LIMIT - 1].tool), ("t500", "t1"));
        let (matching, _) = failures.last(1, |failure| &*failure.tool == "t7");
        assert_eq!(matching.len(), 1);
    }

    #[test]
    fn a_long_reason_is_cut_between_characters() {
        let failures = FailedCalls::default();
        failures.add(failure("t", &"ü".repeat(REASON_LIMIT_BYTES)));
        let (last, _) = failures.last(1, |_| true);
        let reason = last[0].reason.as_deref().unwrap();
        assert!(reason.len() <= REASON_LIMIT_BYTES && reason.ends_with("ü…"), "{reason}");
    }
}
