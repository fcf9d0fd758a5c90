//! A snapshot of all metrics, and histograms of durations.

use std::{
    collections::HashMap,
    sync::atomic::{AtomicU64, Ordering},
    time::Duration,
};

/// A snapshot of all metrics: families in the order in which they were first added.
#[derive(Debug, Default)]
pub struct MetricsSnapshot(pub(in crate::telemetry) Vec<MetricFamily>);

/// The points of one metric name.
#[derive(Debug)]
pub struct MetricFamily {
    /// The name, without the `_total` of a counter.
    pub name: &'static str,
    /// The description for people.
    pub help: &'static str,
    /// The kind of metric.
    pub kind: MetricKind,
    pub(in crate::telemetry) points: Vec<(Labels, MetricValue)>,
    /// Indexes in `points`.
    indexes: HashMap<Labels, usize>,
}

/// The kind of a metric.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MetricKind {
    /// The values only grow, as long as the process lives.
    Counter,
    /// The values go up and down.
    Gauge,
    /// The values are durations, counted in buckets.
    Histogram,
}

/// The labels of a point, which identify it in its family.
pub type Labels = Vec<(&'static str, String)>;

/// The value of a point.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum MetricValue {
    /// An integer.
    Integer(u64),
    /// A floating-point number.
    Float(f64),
    /// A histogram of durations.
    Durations(Durations),
}

impl MetricsSnapshot {
    /// The family of a counter; `name` is without `_total`.
    pub fn counter(&mut self, name: &'static str, help: &'static str) -> &mut MetricFamily {
        self.family(name, help, MetricKind::Counter)
    }

    /// The family of a gauge.
    pub fn gauge(&mut self, name: &'static str, help: &'static str) -> &mut MetricFamily {
        self.family(name, help, MetricKind::Gauge)
    }

    /// The family of a histogram.
    pub fn histogram(&mut self, name: &'static str, help: &'static str) -> &mut MetricFamily {
        self.family(name, help, MetricKind::Histogram)
    }

    fn family(&mut self, name: &'static str, help: &'static str, kind: MetricKind) -> &mut MetricFamily {
        let place = self.0.iter().position(|family| family.name == name).unwrap_or_else(|| {
            self.0.push(MetricFamily { name, help, kind, points: Vec::new(), indexes: HashMap::new() });
            self.0.len() - 1
        });
        &mut self.0[place]
    }
}

impl MetricFamily {
    /// Adds a point. If there is one with the same labels, the values are added up.
    pub fn add(&mut self, labels: &[(&'static str, &str)], value: impl Into<MetricValue>) {
        let labels: Labels = labels.iter().map(|(label, text)| (*label, (*text).to_owned())).collect();
        let value = value.into();
        match self.indexes.get(&labels) {
            Some(index) => self.points[*index].1.add(value),
            None => {
                self.indexes.insert(labels.clone(), self.points.len());
                self.points.push((labels, value));
            }
        }
    }

    /// Adds a point for each value of one more label.
    pub fn add_each<V: Into<MetricValue>>(
        &mut self,
        labels: &[(&'static str, &str)],
        label: &'static str,
        values: impl IntoIterator<Item = (&'static str, V)>,
    ) {
        for (text, value) in values {
            self.add(&[labels, &[(label, text)][..]].concat(), value);
        }
    }

    /// Adds the only point, without labels.
    pub fn set(&mut self, value: impl Into<MetricValue>) {
        self.add(&[], value);
    }
}

impl MetricValue {
    fn add(&mut self, other: Self) {
        match (&mut *self, other) {
            (Self::Integer(one), Self::Integer(other)) => *one += other,
            (Self::Float(one), Self::Float(other)) => *one += other,
            (Self::Durations(one), Self::Durations(other)) => one.add(&other),
            (Self::Integer(_) | Self::Float(_) | Self::Durations(_), _) => *self = other,
        }
    }
}

impl From<u64> for MetricValue {
    fn from(number: u64) -> Self {
        Self::Integer(number)
    }
}

impl From<usize> for MetricValue {
    fn from(number: usize) -> Self {
        Self::Integer(number as u64)
    }
}

impl From<f64> for MetricValue {
    fn from(number: f64) -> Self {
        Self::Float(number)
    }
}

impl From<Durations> for MetricValue {
    fn from(durations: Durations) -> Self {
        Self::Durations(durations)
    }
}

/// The upper bounds of the buckets, in seconds: from the overhead of a proxy to the longest call that a
/// client waits for. Longer durations have a bucket of their own.
pub const BOUNDS: [f64; 13] = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0, 30.0];

/// Histogram of durations, without a lock.
#[derive(Debug, Default)]
pub(super) struct Histogram {
    ranges: [AtomicU64; BOUNDS.len() + 1],
    micros: AtomicU64,
}

/// The values of a histogram.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Durations {
    /// The number of durations in each bucket; the last is for those above all bounds.
    pub ranges: [u64; BOUNDS.len() + 1],
    /// Their sum, in microseconds.
    pub micros: u64,
}

impl Histogram {
    pub(super) fn observe(&self, took: Duration) {
        let micros = u64::try_from(took.as_micros()).unwrap_or(u64::MAX);
        let seconds = Duration::from_micros(micros).as_secs_f64();
        let range = BOUNDS.iter().position(|bound| seconds <= *bound).unwrap_or(BOUNDS.len());
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
    /// The number of durations.
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

    /// The increase since an earlier snapshot; 0 where counting was restarted.
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
        for (range, bound) in BOUNDS.into_iter().enumerate() {
            let histogram = Histogram::default();
            histogram.observe(Duration::from_secs_f64(bound));
            assert_eq!(histogram.read().ranges[range], 1);
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
