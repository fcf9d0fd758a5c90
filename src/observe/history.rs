//! How calls went during the last hour, route by route.
//!
//! The path of a call knows nothing of it: now and then somebody reads what is counted anyway, and the differences are
//! kept.

use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    fmt,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, SystemTime},
};

use super::meters::{BOUNDS, Meters};

/// One for each range of durations.
const BUCKETS: usize = BOUNDS.len() + 1;

/// How often is to be read what is counted.
pub const SAMPLE_INTERVAL: Duration = Duration::from_secs(15);

/// How many such times are kept: an hour of them.
pub const SLOTS: usize = 240;

/// How many routes are told apart, about 16 kB each; further ones count in the sum of all only.
pub const HISTORY_ROUTES_LIMIT: usize = 256;

/// The last hour. Clones are the same one.
#[derive(Clone, Default)]
pub struct History(Arc<Mutex<Kept>>);

#[derive(Default)]
struct Kept {
    /// When each slot began and ended, the oldest first.
    times: VecDeque<(SystemTime, SystemTime)>,
    /// When was read last, and what.
    read: Option<SystemTime>,
    counted: Counted,
    all: Slots,
    routes: BTreeMap<Arc<str>, Slots>,
    /// Those that there was no room for, since there was some last.
    left_out: BTreeSet<Arc<str>>,
}

/// One for each time.
type Slots = VecDeque<Tally>;

/// All that is counted, at one time, by the numbers of the routes' meters. A tool whose route has changed may be there
/// more than once.
#[derive(Default)]
struct Counted(BTreeMap<u64, (Arc<str>, Tally)>);

/// What was counted in some time.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Tally {
    /// Calls that are over.
    pub calls: u64,
    /// Those of them that gave an error.
    pub errors: u64,
    /// How many took how long: up to each of the bounds of durations, and longer than all.
    took: [u32; BUCKETS],
}

/// The last hour.
#[derive(Debug, Clone)]
pub struct Past {
    /// When each of the slots began and ended, the oldest first; the last one is not over yet.
    pub times: Vec<(SystemTime, SystemTime)>,
    /// What was counted in each, of all calls.
    pub all: Vec<Tally>,
    /// The same of each route that was called.
    pub routes: BTreeMap<Arc<str>, Vec<Tally>>,
    /// How many more routes were called, for which there was no room.
    pub left_out: usize,
}

impl History {
    /// Reads what is counted now, and begins another slot.
    pub fn sample(&self, meters: &Meters, now: SystemTime) {
        let counted = Counted::read(meters);
        let mut kept = self.kept();
        let since = counted.since(&kept.counted);
        kept.advance(&since, now);
        (kept.counted, kept.read) = (counted, Some(now));
    }

    /// The last hour, up to now.
    pub fn read(&self, meters: &Meters, now: SystemTime) -> Past {
        let counted = Counted::read(meters);
        let kept = self.kept();
        let since = counted.since(&kept.counted);
        let begun = kept.read.unwrap_or(now);
        let times = kept.times.iter().copied().chain([(begun, now.max(begun))]).collect();
        let all = kept.all.iter().cloned().chain([sum(&since)]).collect();
        let with = |slots: &Slots, tool: &str| {
            slots.iter().cloned().chain([since.get(tool).cloned().unwrap_or_default()]).collect()
        };
        let mut routes: BTreeMap<_, Vec<_>> =
            kept.routes.iter().map(|(tool, slots)| (Arc::clone(tool), with(slots, tool))).collect();
        let (empty, mut left_out) = (vec![Tally::default(); kept.times.len()].into(), kept.left_out.clone());
        for tool in since.keys().filter(|tool| !kept.routes.contains_key(*tool)) {
            if routes.len() >= HISTORY_ROUTES_LIMIT {
                left_out.insert(Arc::clone(tool));
            } else {
                routes.insert(Arc::clone(tool), with(&empty, tool));
            }
        }
        Past { times, all, routes, left_out: left_out.len() }
    }

    fn kept(&self) -> MutexGuard<'_, Kept> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Kept {
    /// Ends a slot in which so much was counted.
    fn advance(&mut self, since: &BTreeMap<Arc<str>, Tally>, now: SystemTime) {
        self.times.push_back((self.read.unwrap_or(now), now));
        self.all.push_back(sum(since));
        if self.times.len() > SLOTS {
            self.times.pop_front();
            self.all.pop_front();
        }
        let length = self.times.len();
        for (tool, slots) in &mut self.routes {
            slots.push_back(since.get(tool).cloned().unwrap_or_default());
            if slots.len() > length {
                slots.pop_front();
            }
        }
        // What is not called for an hour leaves its place to others.
        self.routes.retain(|_, slots| slots.iter().any(|slot| *slot != Tally::default()));
        if self.routes.len() < HISTORY_ROUTES_LIMIT {
            self.left_out.clear();
        }
        for (tool, slot) in since {
            if self.routes.contains_key(tool) {
                continue;
            }
            if self.routes.len() >= HISTORY_ROUTES_LIMIT {
                self.left_out.insert(Arc::clone(tool));
                continue;
            }
            let mut slots: Slots = vec![Tally::default(); length - 1].into();
            slots.push_back(slot.clone());
            self.routes.insert(Arc::clone(tool), slots);
        }
    }
}

impl Counted {
    fn read(meters: &Meters) -> Self {
        let called = meters.routes().into_iter().filter_map(|route| {
            let (calls, errors, took) = route.over();
            let took = took.ranges.map(|count| u32::try_from(count).unwrap_or(u32::MAX));
            (calls > 0).then(|| (route.number(), (Arc::clone(route.tool()), Tally { calls, errors, took })))
        });
        Self(called.collect())
    }

    /// What was counted since, by tool; those that were not called are left out.
    fn since(&self, before: &Self) -> BTreeMap<Arc<str>, Tally> {
        let mut since = BTreeMap::<Arc<str>, Tally>::new();
        for (number, (tool, now)) in &self.0 {
            let before = before.0.get(number);
            let tally = before.map_or_else(|| now.clone(), |(_, before)| now.since(before));
            if tally.calls > 0 {
                since.entry(Arc::clone(tool)).or_default().add(&tally);
            }
        }
        since
    }
}

fn sum(routes: &BTreeMap<Arc<str>, Tally>) -> Tally {
    let mut all = Tally::default();
    routes.values().for_each(|tally| all.add(tally));
    all
}

impl Tally {
    /// Counts these, too.
    pub fn add(&mut self, other: &Self) {
        self.calls += other.calls;
        self.errors += other.errors;
        for (own, more) in self.took.iter_mut().zip(&other.took) {
            *own = own.wrapping_add(*more);
        }
    }

    fn since(&self, before: &Self) -> Self {
        let mut took = self.took;
        for (own, before) in took.iter_mut().zip(&before.took) {
            *own = own.wrapping_sub(*before);
        }
        Self {
            calls: self.calls.saturating_sub(before.calls),
            errors: self.errors.saturating_sub(before.errors),
            took,
        }
    }

    /// In what time this share of the calls was over, as well as can be told from the buckets that they are counted in.
    /// `None` where there were no calls. Of what took longer than all bounds nothing is known but that.
    pub fn quantile(&self, share: f64) -> Option<Duration> {
        let all: u64 = self.took.iter().map(|count| u64::from(*count)).sum();
        #[expect(
            clippy::cast_precision_loss,
            reason = "counts of an hour, and no more than a picture of them"
        )]
        let wanted = share * all as f64;
        let (mut below, mut lower) = (0.0, 0.0);
        for (index, count) in self.took.iter().enumerate().filter(|(_, count)| **count > 0) {
            let count = f64::from(*count);
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

impl fmt::Debug for History {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("History")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::observe::CallEnd;

    fn call(meters: &Meters, tool: &str, outcome: &'static str, milliseconds: u64) {
        let route = meters.route(tool.into(), "old".into(), 0);
        route.began("rest");
        let fault = (outcome == "error").then_some("unreadable");
        let end = CallEnd { face: "rest", protocol: "", outcome, fault };
        route.ended(end, Duration::from_millis(milliseconds));
    }

    fn at(slot: usize) -> SystemTime {
        SystemTime::UNIX_EPOCH + SAMPLE_INTERVAL * u32::try_from(slot).unwrap()
    }

    #[test]
    fn each_slot_has_what_was_counted_in_it_and_the_last_one_goes_on() {
        let (meters, history) = (Meters::default(), History::default());
        call(&meters, "a", "success", 2);
        history.sample(&meters, at(1));
        call(&meters, "a", "error", 2);
        call(&meters, "b", "success", 2);
        history.sample(&meters, at(2));
        call(&meters, "b", "success", 2);
        let past = history.read(&meters, at(3));
        let counts = |slots: &[Tally]| -> Vec<(u64, u64)> {
            slots.iter().map(|slot| (slot.calls, slot.errors)).collect()
        };
        assert_eq!(counts(&past.all), [(1, 0), (2, 1), (1, 0)]);
        assert_eq!(counts(&past.routes["a"]), [(1, 0), (1, 1), (0, 0)]);
        assert_eq!(counts(&past.routes["b"]), [(0, 0), (1, 0), (1, 0)]);
        assert_eq!(past.times, [(at(1), at(1)), (at(1), at(2)), (at(2), at(3))]);
    }

    #[test]
    fn a_route_that_is_removed_keeps_its_hour_and_counts_anew_when_it_comes_back() {
        let (meters, history) = (Meters::default(), History::default());
        for tool in ["a", "a", "a", "b"] {
            call(&meters, tool, "success", 2);
        }
        history.sample(&meters, at(1));
        // Nobody has these routes any more.
        meters.read();
        call(&meters, "b", "error", 2);
        let past = history.read(&meters, at(2));
        let counts = |slots: &[Tally]| -> Vec<(u64, u64)> {
            slots.iter().map(|slot| (slot.calls, slot.errors)).collect()
        };
        assert_eq!(counts(&past.all), [(4, 0), (1, 1)]);
        assert_eq!(counts(&past.routes["a"]), [(3, 0), (0, 0)]);
        history.sample(&meters, at(2));
        call(&meters, "a", "success", 2);
        let past = history.read(&meters, at(3));
        assert_eq!(counts(&past.routes["a"]), [(3, 0), (0, 0), (1, 0)]);
        assert_eq!(past.all[2].quantile(1.0), Some(Duration::from_micros(2500)));
    }

    #[test]
    fn an_hour_is_kept_and_what_was_not_called_in_it_is_forgotten_but_its_count() {
        let (meters, history) = (Meters::default(), History::default());
        call(&meters, "a", "success", 2);
        for slot in 0..=SLOTS {
            history.sample(&meters, at(slot));
        }
        let past = history.read(&meters, at(SLOTS + 1));
        assert_eq!((past.times.len(), past.all.len(), past.routes.len()), (SLOTS + 1, SLOTS + 1, 0));
        call(&meters, "a", "success", 2);
        let past = history.read(&meters, at(SLOTS + 1));
        assert_eq!(past.routes["a"].iter().map(|slot| slot.calls).sum::<u64>(), 1);
        assert_eq!(past.routes["a"].len(), SLOTS + 1);
    }

    #[test]
    fn there_is_room_for_so_many_routes_and_the_others_count_in_the_sum() {
        let (meters, history) = (Meters::default(), History::default());
        for number in 0..HISTORY_ROUTES_LIMIT + 3 {
            call(&meters, &format!("t{number}"), "success", 2);
        }
        for _ in 0..2 {
            let past = history.read(&meters, at(2));
            assert_eq!((past.routes.len(), past.left_out), (HISTORY_ROUTES_LIMIT, 3));
            history.sample(&meters, at(1));
        }
        let past = history.read(&meters, at(2));
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
        let tally = sum(&Counted::read(&meters).since(&Counted::default()));
        let millis = |share| tally.quantile(share).unwrap().as_millis();
        assert_eq!(millis(0.5), 1);
        assert!((100..=250).contains(&millis(0.99)), "{}", millis(0.99));
        assert_eq!(millis(1.0), 30_000);
        assert_eq!(Tally::default().quantile(0.5), None);
    }
}
