//! Call statistics of the last hour, by route.
//!
//! The path of a call is not involved: the metrics are read periodically, and the difference to the previous
//! reading becomes a slot.

use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    sync::Arc,
    time::{Duration, SystemTime},
};

use parking_lot::Mutex;

use super::metrics::{BOUNDS, Durations, Meters};

/// Interval at which the metrics are read.
pub const SAMPLE_INTERVAL: Duration = Duration::from_secs(15);

/// Maximum number of slots: one hour.
pub const SLOTS: usize = 240;

/// Maximum number of routes that are tracked separately; further ones are counted only in the sum of all.
pub const HISTORY_ROUTES_LIMIT: usize = 256;

/// Call statistics of the last hour. Clones share them.
#[derive(Debug, Clone, Default)]
pub struct History(Arc<Mutex<Slots>>);

#[derive(Debug, Default)]
struct Slots {
    /// The oldest first.
    past: VecDeque<HistorySlot>,
    /// The counts of the last reading.
    counted: ReadingCounts,
}

/// The counts of a reading, by the number of the route's metrics. A tool whose route has changed may occur
/// more than once.
type ReadingCounts = BTreeMap<u64, (Arc<str>, CallCounts)>;

/// The interval between two readings.
#[derive(Debug)]
struct HistorySlot {
    time: (SystemTime, SystemTime),
    all: CallCounts,
    /// Only routes that were called.
    routes: BTreeMap<Arc<str>, CallCounts>,
    /// Number of routes that were called, but not tracked because of the limit.
    omitted_routes: usize,
}

/// The counts of an interval.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct CallCounts {
    /// Completed calls.
    pub calls: u64,
    /// The number of those that were errors.
    pub errors: u64,
    pub(super) took: Durations,
}

/// A report of the last hour.
#[derive(Debug, Clone)]
pub struct HistoryReport {
    /// Start and end of each slot, the oldest first; the last one is not complete.
    pub times: Vec<(SystemTime, SystemTime)>,
    /// The calls of all routes, by slot.
    pub all: Vec<CallCounts>,
    /// The calls of each route that was called, by slot.
    pub routes: BTreeMap<Arc<str>, Vec<CallCounts>>,
    /// The maximum number of routes in a slot that were called, but not tracked because of the limit.
    pub omitted_routes: usize,
}

impl History {
    /// Reads the metrics, and starts another slot.
    pub fn sample(&self, meters: &Meters, now: SystemTime) {
        let counted = read_counts(meters);
        let mut slots = self.0.lock();
        if slots.past.len() == SLOTS {
            slots.past.pop_front();
        }
        let slot = slots.current(&counted, now);
        slots.past.push_back(slot);
        slots.counted = counted;
    }

    /// The report of the last hour, up to now.
    pub fn read(&self, meters: &Meters, now: SystemTime) -> HistoryReport {
        let counted = read_counts(meters);
        let slots = self.0.lock();
        let current = slots.current(&counted, now);
        let all = || slots.past.iter().chain([&current]);
        let mut routes = BTreeMap::new();
        for (index, slot) in all().enumerate() {
            for (tool, tally) in &slot.routes {
                let tallies = routes
                    .entry(Arc::clone(tool))
                    .or_insert_with(|| vec![CallCounts::default(); slots.past.len() + 1]);
                tallies[index] = tally.clone();
            }
        }
        HistoryReport {
            times: all().map(|slot| slot.time).collect(),
            all: all().map(|slot| slot.all.clone()).collect(),
            routes,
            omitted_routes: all().map(|slot| slot.omitted_routes).max().unwrap_or_default(),
        }
    }
}

impl Slots {
    /// The slot since the last reading.
    fn current(&self, counted: &ReadingCounts, now: SystemTime) -> HistorySlot {
        let known: BTreeSet<&Arc<str>> = self.past.iter().flat_map(|slot| slot.routes.keys()).collect();
        let mut free_slots = HISTORY_ROUTES_LIMIT.saturating_sub(known.len());
        let mut routes = calls_between(&self.counted, counted);
        let (all, called) = (CallCounts::sum(routes.values()), routes.len());
        routes.retain(|tool, _| {
            let is_known = known.contains(tool);
            let is_tracked = is_known || free_slots > 0;
            free_slots -= usize::from(is_tracked && !is_known);
            is_tracked
        });
        // If the clock was set back, this slot has no duration, and the next one begins at the new time.
        let begin = self.past.back().map_or(now, |last| last.time.1).min(now);
        HistorySlot { time: (begin, now), all, omitted_routes: called - routes.len(), routes }
    }
}

fn read_counts(meters: &Meters) -> ReadingCounts {
    let routes = meters.routes().into_iter();
    routes.map(|route| (route.number, (Arc::clone(&route.tool), route.totals()))).collect()
}

/// The calls between two readings, by tool.
fn calls_between(before: &ReadingCounts, after: &ReadingCounts) -> BTreeMap<Arc<str>, CallCounts> {
    let mut calls = BTreeMap::<Arc<str>, CallCounts>::new();
    for (number, (tool, after)) in after {
        let tally = before.get(number).map_or_else(|| after.clone(), |(_, before)| after.since(before));
        if tally.calls > 0 {
            calls.entry(Arc::clone(tool)).or_default().add(&tally);
        }
    }
    calls
}

impl CallCounts {
    /// The sum of counts.
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

    /// The duration within which this share of the calls completed, interpolated in its bucket. `None` if
    /// there were no calls. For durations above all bounds, only the largest bound is known.
    #[expect(clippy::cast_precision_loss, reason = "counts of an hour, and no more than a picture of them")]
    pub fn quantile(&self, share: f64) -> Option<Duration> {
        let wanted = share * self.took.count() as f64;
        let (mut below, mut lower) = (0.0, 0.0);
        for (index, count) in self.took.ranges.iter().enumerate().filter(|(_, count)| **count > 0) {
            let count = *count as f64;
            lower = index.checked_sub(1).map_or(0.0, |before| BOUNDS[before]).max(lower);
            let upper = BOUNDS.get(index).copied().unwrap_or(lower);
            if below + count >= wanted {
                let inside = ((wanted - below) / count).clamp(0.0, 1.0);
                return Some(Duration::from_secs_f64(lower + (upper - lower) * inside));
            }
            below += count;
        }
        None
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
        let counts = |slots: &[CallCounts]| -> Vec<(u64, u64)> {
            slots.iter().map(|slot| (slot.calls, slot.errors)).collect()
        };
        assert_eq!(counts(&past.all), [(1, 0), (2, 1), (1, 0)]);
        assert_eq!(counts(&past.routes["a"]), [(1, 0), (1, 1), (0, 0)]);
        assert_eq!(counts(&past.routes["b"]), [(0, 0), (1, 0), (1, 0)]);
        assert_eq!(
            past.times,
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
        assert_eq!(past.times, [slot(241, 241), slot(1, 1), slot(1, 2), slot(2, 3)]);
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
        let counts = |slots: &[CallCounts]| -> Vec<(u64, u64)> {
            slots.iter().map(|slot| (slot.calls, slot.errors)).collect()
        };
        assert_eq!(counts(&past.all), [(4, 0), (1, 1)]);
        assert_eq!(counts(&past.routes["a"]), [(3, 0), (0, 0)]);
        history.sample(&meters, end_of_slot(2));
        call(&meters, "a", "success", 2);
        let past = history.read(&meters, end_of_slot(3));
        assert_eq!(counts(&past.routes["a"]), [(3, 0), (0, 0), (1, 0)]);
        assert_eq!(past.all[2].quantile(1.0), Some(Duration::from_micros(2500)));
    }

    #[test]
    fn routes_without_calls_in_the_last_hour_are_dropped_except_their_counter() {
        let (meters, history) = (Meters::default(), History::default());
        call(&meters, "a", "success", 2);
        for slot in 0..=SLOTS {
            history.sample(&meters, end_of_slot(slot));
        }
        let past = history.read(&meters, end_of_slot(SLOTS + 1));
        assert_eq!((past.times.len(), past.all.len(), past.routes.len()), (SLOTS + 1, SLOTS + 1, 0));
        call(&meters, "a", "success", 2);
        let past = history.read(&meters, end_of_slot(SLOTS + 1));
        assert_eq!(past.routes["a"].iter().map(|slot| slot.calls).sum::<u64>(), 1);
        assert_eq!(past.routes["a"].len(), SLOTS + 1);
    }

    #[test]
    fn the_number_of_routes_is_limited_and_the_others_count_in_the_total() {
        let (meters, history) = (Meters::default(), History::default());
        for number in 0..HISTORY_ROUTES_LIMIT + 3 {
            call(&meters, &format!("t{number}"), "success", 2);
        }
        for _ in 0..2 {
            let past = history.read(&meters, end_of_slot(2));
            assert_eq!((past.routes.len(), past.omitted_routes), (HISTORY_ROUTES_LIMIT, 3));
            history.sample(&meters, end_of_slot(1));
        }
        let past = history.read(&meters, end_of_slot(2));
        let all: u64 = past.all.iter().map(|slot| slot.calls).sum();
        assert_eq!(all, HISTORY_ROUTES_LIMIT as u64 + 3);
    }

    #[test]
    fn quantiles_lie_in_the_bucket_that_has_them() {
        let meters = Meters::default();
        for _ in 0..98 {
            call(&meters, "a", "success", 2);
        }
        call(&meters, "a", "success", 200);
        call(&meters, "a", "success", 60_000);
        let tally = calls_between(&ReadingCounts::default(), &read_counts(&meters));
        let tally = CallCounts::sum(tally.values());
        let millis = |share| tally.quantile(share).unwrap().as_millis();
        assert_eq!(millis(0.5), 1);
        assert!((100..=250).contains(&millis(0.99)), "{}", millis(0.99));
        assert_eq!(millis(1.0), 30_000);
        assert_eq!(CallCounts::default().quantile(0.5), None);
    }
}
