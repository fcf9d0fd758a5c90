//! Histograms of durations, and the bounds of their buckets.

use std::{
    sync::atomic::{AtomicU64, Ordering},
    time::Duration,
};

/// Upper bounds of the buckets, in seconds: from the overhead of a proxy to the longest call that a client
/// waits for. Longer durations have a bucket of their own.
pub const BUCKET_BOUNDS: [f64; 13] =
    [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0, 30.0];

/// Lock-free histogram of durations.
#[derive(Debug, Default)]
pub(super) struct Histogram {
    buckets: [AtomicU64; BUCKET_BOUNDS.len() + 1],
    micros: AtomicU64,
}

/// The counts of a histogram at one point in time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct HistogramSnapshot {
    /// Number of durations in each bucket. The last bucket counts the durations above all bounds.
    pub buckets: [u64; BUCKET_BOUNDS.len() + 1],
    /// Sum of all durations, in microseconds.
    pub micros: u64,
}

impl Histogram {
    pub(super) fn observe(&self, duration: Duration) {
        let micros = u64::try_from(duration.as_micros()).unwrap_or(u64::MAX);
        let seconds = Duration::from_micros(micros).as_secs_f64();
        let bucket = BUCKET_BOUNDS.iter().position(|bound| seconds <= *bound).unwrap_or(BUCKET_BOUNDS.len());
        self.buckets[bucket].fetch_add(1, Ordering::Relaxed);
        self.micros.fetch_add(micros, Ordering::Relaxed);
    }

    pub(super) fn read(&self) -> HistogramSnapshot {
        HistogramSnapshot {
            buckets: std::array::from_fn(|bucket| self.buckets[bucket].load(Ordering::Relaxed)),
            micros: self.micros.load(Ordering::Relaxed),
        }
    }
}

impl HistogramSnapshot {
    /// Number of durations.
    pub fn count(&self) -> u64 {
        self.buckets.iter().sum()
    }

    /// Sum of all durations, in seconds.
    pub fn seconds(&self) -> f64 {
        Duration::from_micros(self.micros).as_secs_f64()
    }

    pub(in crate::telemetry) fn add(&mut self, other: &Self) {
        for (bucket, added) in self.buckets.iter_mut().zip(other.buckets) {
            *bucket += added;
        }
        self.micros += other.micros;
    }

    /// The increase since an earlier snapshot; 0 if counting has restarted since.
    pub(in crate::telemetry) fn since(&self, before: &Self) -> Self {
        let increase = |bucket: usize| self.buckets[bucket].saturating_sub(before.buckets[bucket]);
        Self { buckets: std::array::from_fn(increase), micros: self.micros.saturating_sub(before.micros) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bound_belongs_to_the_bucket_below_it() {
        for (bucket, bound) in BUCKET_BOUNDS.into_iter().enumerate() {
            let histogram = Histogram::default();
            histogram.observe(Duration::from_secs_f64(bound));
            assert_eq!(histogram.read().buckets[bucket], 1);
        }
        let histogram = Histogram::default();
        for micros in [0, 1_000, 1_001, 30_000_000, 30_000_001] {
            histogram.observe(Duration::from_micros(micros));
        }
        let snapshot = histogram.read();
        assert_eq!(
            (snapshot.buckets[0], snapshot.buckets[1], snapshot.buckets[12], snapshot.buckets[13]),
            (2, 1, 1, 1)
        );
        assert_eq!((snapshot.count(), snapshot.micros), (5, 60_002_002));
    }
}
