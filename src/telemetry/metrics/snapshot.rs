//! A snapshot of all metrics, histograms of durations, and the text formats for Prometheus.

use std::{
    collections::BTreeMap,
    fmt::{self, Write},
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
    pub(in crate::telemetry) points: BTreeMap<Labels, MetricValue>,
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
#[derive(Debug, Clone, Copy, PartialEq, derive_more::From)]
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
            self.0.push(MetricFamily { name, help, kind, points: BTreeMap::new() });
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
        self.points.entry(labels).and_modify(|sum| sum.add(value)).or_insert(value);
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

impl From<usize> for MetricValue {
    fn from(number: usize) -> Self {
        Self::Integer(number as u64)
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

/// A text format.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TextFormat {
    /// OpenMetrics 1.0.
    OpenMetrics,
    /// The older format, which every tool supports, and people in browsers can read.
    Prometheus,
}

impl TextFormat {
    /// The media type.
    pub fn media_type(self) -> &'static str {
        match self {
            Self::OpenMetrics => "application/openmetrics-text; version=1.0.0; charset=utf-8",
            Self::Prometheus => "text/plain; version=0.0.4; charset=utf-8",
        }
    }

    /// Writes a snapshot in this format.
    pub fn write(self, reading: &MetricsSnapshot) -> String {
        let mut text = String::new();
        for family in &reading.0 {
            self.family(&mut text, family).expect("a String takes everything");
        }
        if self == Self::OpenMetrics {
            text.push_str("# EOF\n");
        }
        text
    }

    fn family(self, text: &mut String, family: &MetricFamily) -> fmt::Result {
        let MetricFamily { name, help, kind, .. } = family;
        let (kind, suffix) = match kind {
            MetricKind::Counter => ("counter", "_total"),
            MetricKind::Gauge => ("gauge", ""),
            MetricKind::Histogram => ("histogram", ""),
        };
        // OpenMetrics names a counter without its suffix here.
        let ending = if self == Self::Prometheus { suffix } else { "" };
        writeln!(text, "# HELP {name}{ending} {help}")?;
        writeln!(text, "# TYPE {name}{ending} {kind}")?;
        if self == Self::OpenMetrics
            && let Some(unit) = ["seconds", "bytes"].into_iter().find(|unit| name.ends_with(unit))
        {
            writeln!(text, "# UNIT {name} {unit}")?;
        }
        for (labels, value) in &family.points {
            match value {
                MetricValue::Integer(number) => sample(text, (name, suffix), labels, None, number)?,
                MetricValue::Float(number) => sample(text, (name, suffix), labels, None, number)?,
                MetricValue::Durations(durations) => histogram(text, name, labels, durations)?,
            }
        }
        Ok(())
    }
}

fn histogram(text: &mut String, name: &str, labels: &Labels, durations: &Durations) -> fmt::Result {
    let mut below = 0;
    for (bound, count) in BOUNDS.iter().zip(durations.ranges) {
        below += count;
        sample(text, (name, "_bucket"), labels, Some(&format!("{bound:?}")), &below)?;
    }
    let count = durations.count();
    sample(text, (name, "_bucket"), labels, Some("+Inf"), &count)?;
    sample(text, (name, "_sum"), labels, None, &durations.seconds())?;
    sample(text, (name, "_count"), labels, None, &count)
}

fn sample(
    text: &mut String,
    (name, suffix): (&str, &str),
    labels: &Labels,
    bound: Option<&str>,
    value: &dyn fmt::Debug,
) -> fmt::Result {
    write!(text, "{name}{suffix}")?;
    let all = labels.iter().map(|(name, value)| (*name, &**value)).chain(bound.map(|bound| ("le", bound)));
    let mut before = '{';
    for (name, value) in all {
        let value = value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n");
        write!(text, "{before}{name}=\"{value}\"")?;
        before = ',';
    }
    if before == ',' {
        text.push('}');
    }
    // A float has a decimal point.
    writeln!(text, " {value:?}")
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

    #[test]
    fn counters_have_the_names_of_each_format() {
        let mut reading = MetricsSnapshot::default();
        let calls = reading.counter("x_calls", "Calls");
        calls.add(&[("tool", "get_\"x\"\n\\")], 2_u64);
        calls.add(&[("tool", "get_\"x\"\n\\")], 1_u64);
        reading.gauge("x_since_seconds", "Since when").set(1.5);
        assert_eq!(
            TextFormat::OpenMetrics.write(&reading),
            "# HELP x_calls Calls\n# TYPE x_calls counter\nx_calls_total{tool=\"get_\\\"x\\\"\\n\\\\\"} 3\n\
             # HELP x_since_seconds Since when\n# TYPE x_since_seconds gauge\n# UNIT x_since_seconds seconds\n\
             x_since_seconds 1.5\n# EOF\n"
        );
        let text = TextFormat::Prometheus.write(&reading);
        assert!(text.contains("# TYPE x_calls_total counter\n") && !text.contains('\u{0}'), "{text}");
        assert!(!text.contains("# UNIT") && !text.contains("# EOF"), "{text}");
    }
}
