//! A reading of all metrics at one time, and histograms of durations.

use std::{
    borrow::Cow,
    collections::HashMap,
    sync::atomic::{AtomicU64, Ordering},
    time::Duration,
};

/// What is told by name: families in the order in which they were first named.
#[derive(Debug, Default)]
pub struct Reading(Vec<Family>);

/// Points of one name.
#[derive(Debug)]
pub struct Family {
    /// Its name, without the `_total` of a counter.
    pub name: &'static str,
    /// What it is, for people.
    pub help: &'static str,
    /// Whether it only grows.
    pub kind: Kind,
    points: Vec<(Labels, Value)>,
    known: HashMap<Labels, usize>,
}

/// How the points of a family change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// They only grow, as long as the process lives.
    Counter,
    /// They go up and down.
    Gauge,
    /// They are durations, counted in ranges.
    Histogram,
}

/// What tells a point from others of its family.
pub type Labels = Vec<(&'static str, Cow<'static, str>)>;

/// What a point shows.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Value {
    /// A whole number.
    Whole(u64),
    /// A number.
    Real(f64),
    /// Durations.
    Durations(Durations),
}

impl Reading {
    /// All that was told.
    pub fn families(&self) -> &[Family] {
        &self.0
    }

    /// A counter; `name` is without `_total`.
    pub fn counter(&mut self, name: &'static str, help: &'static str) -> &mut Family {
        self.family(name, help, Kind::Counter)
    }

    /// A gauge.
    pub fn gauge(&mut self, name: &'static str, help: &'static str) -> &mut Family {
        self.family(name, help, Kind::Gauge)
    }

    /// Durations.
    pub fn histogram(&mut self, name: &'static str, help: &'static str) -> &mut Family {
        self.family(name, help, Kind::Histogram)
    }

    fn family(&mut self, name: &'static str, help: &'static str, kind: Kind) -> &mut Family {
        let place = self.0.iter().position(|family| family.name == name).unwrap_or_else(|| {
            self.0.push(Family { name, help, kind, points: Vec::new(), known: HashMap::new() });
            self.0.len() - 1
        });
        &mut self.0[place]
    }
}

impl Family {
    /// Its points.
    pub fn points(&self) -> &[(Labels, Value)] {
        &self.points
    }

    /// Tells of a point. One with the same labels as another is added to that.
    pub fn add(&mut self, labels: Labels, value: impl Into<Value>) {
        let value = value.into();
        match self.known.get(&labels) {
            Some(place) => self.points[*place].1.add(value),
            None => {
                self.known.insert(labels.clone(), self.points.len());
                self.points.push((labels, value));
            }
        }
    }

    /// Tells of the only point that there is.
    pub fn set(&mut self, value: impl Into<Value>) {
        self.add(Vec::new(), value);
    }
}

impl Value {
    fn add(&mut self, other: Self) {
        match (&mut *self, other) {
            (Self::Whole(one), Self::Whole(other)) => *one += other,
            (Self::Real(one), Self::Real(other)) => *one += other,
            (Self::Durations(one), Self::Durations(other)) => one.add(&other),
            (Self::Whole(_) | Self::Real(_) | Self::Durations(_), _) => *self = other,
        }
    }
}

impl From<u64> for Value {
    fn from(number: u64) -> Self {
        Self::Whole(number)
    }
}

impl From<usize> for Value {
    fn from(number: usize) -> Self {
        Self::Whole(number as u64)
    }
}

impl From<bool> for Value {
    fn from(flag: bool) -> Self {
        Self::Whole(flag.into())
    }
}

impl From<f64> for Value {
    fn from(number: f64) -> Self {
        Self::Real(number)
    }
}

impl From<Durations> for Value {
    fn from(durations: Durations) -> Self {
        Self::Durations(durations)
    }
}

/// The upper bounds of the buckets, in seconds: from the overhead of a proxy to the longest call that a
/// client waits for. Longer durations have a bucket of their own.
pub const BOUNDS: [f64; 13] = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0, 30.0];

/// The same in microseconds.
const BOUNDS_MICROS: [u64; 13] = [
    1_000, 2_500, 5_000, 10_000, 25_000, 50_000, 100_000, 250_000, 500_000, 1_000_000, 2_500_000, 10_000_000,
    30_000_000,
];

/// Durations, counted without a lock.
#[derive(Debug, Default)]
pub(super) struct Histogram {
    ranges: [AtomicU64; BOUNDS.len() + 1],
    micros: AtomicU64,
}

/// The values of a histogram.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Durations {
    /// How many fell in each range; the last is beyond all bounds.
    pub ranges: [u64; BOUNDS.len() + 1],
    /// Their sum, in microseconds.
    pub micros: u64,
}

impl Histogram {
    pub(super) fn observe(&self, took: Duration) {
        let micros = u64::try_from(took.as_micros()).unwrap_or(u64::MAX);
        let range = BOUNDS_MICROS.iter().position(|bound| micros <= *bound).unwrap_or(BOUNDS.len());
        self.ranges[range].fetch_add(1, Ordering::Relaxed);
        self.micros.fetch_add(micros, Ordering::Relaxed);
    }

    pub(super) fn read(&self) -> Durations {
        Durations {
            ranges: std::array::from_fn(|range| self.ranges[range].load(Ordering::Relaxed)),
            micros: self.micros.load(Ordering::Relaxed),
        }
    }
}

impl Durations {
    /// How many there are.
    pub fn count(&self) -> u64 {
        self.ranges.iter().sum()
    }

    /// Their sum, in seconds.
    pub fn seconds(&self) -> f64 {
        Duration::from_micros(self.micros).as_secs_f64()
    }

    pub(in crate::telemetry) fn add(&mut self, other: &Self) {
        for (range, more) in self.ranges.iter_mut().zip(other.ranges) {
            *range += more;
        }
        self.micros += other.micros;
    }

    /// The increase since an earlier reading; none where counting was restarted.
    pub(in crate::telemetry) fn since(&self, before: &Self) -> Self {
        let since = |range: usize| self.ranges[range].saturating_sub(before.ranges[range]);
        Self { ranges: std::array::from_fn(since), micros: self.micros.saturating_sub(before.micros) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bound_belongs_to_the_range_below_it() {
        for (bound, micros) in BOUNDS.into_iter().zip(BOUNDS_MICROS) {
            assert_eq!(Duration::from_secs_f64(bound), Duration::from_micros(micros));
        }
        let histogram = Histogram::default();
        for micros in [0, 1_000, 1_001, 30_000_000, 30_000_001] {
            histogram.observe(Duration::from_micros(micros));
        }
        let read = histogram.read();
        assert_eq!((read.ranges[0], read.ranges[1], read.ranges[12], read.ranges[13]), (2, 1, 1, 1));
        assert_eq!((read.count(), read.micros), (5, 60_002_002));
    }
}
