//! A snapshot of all metrics, and the text formats for Prometheus.

use std::{
    collections::BTreeMap,
    fmt::{self, Write},
};

use super::histogram::{BUCKET_BOUNDS, HistogramSnapshot};

/// A snapshot of all metrics: metric families, in the order in which they were added.
#[derive(Debug, Default)]
pub struct MetricsSnapshot(pub(in crate::telemetry) Vec<MetricFamily>);

/// A metric family: the series of one metric name.
#[derive(Debug)]
pub struct MetricFamily {
    /// The name; for a counter, without `_total`.
    pub name: &'static str,
    /// The `HELP` text.
    pub help: &'static str,
    /// The kind of metric.
    pub kind: MetricKind,
    pub(in crate::telemetry) points: BTreeMap<Labels, MetricValue>,
}

/// The kind of a metric.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MetricKind {
    /// The values only increase until the process ends.
    Counter,
    /// The values can increase and decrease.
    Gauge,
    /// The values are durations, counted in buckets.
    Histogram,
}

/// The labels of a series, which identify it in its family.
pub type Labels = Vec<(&'static str, String)>;

/// The value of a series.
#[derive(Debug, Clone, Copy, PartialEq, derive_more::From)]
pub enum MetricValue {
    /// An integer.
    Integer(u64),
    /// A floating-point number.
    Float(f64),
    /// A histogram of durations.
    Histogram(HistogramSnapshot),
}

impl MetricsSnapshot {
    /// Returns the family of a counter, and adds it if it is new. `name` is without `_total`.
    pub fn counter(&mut self, name: &'static str, help: &'static str) -> &mut MetricFamily {
        self.family(name, help, MetricKind::Counter)
    }

    /// Returns the family of a gauge, and adds it if it is new.
    pub fn gauge(&mut self, name: &'static str, help: &'static str) -> &mut MetricFamily {
        self.family(name, help, MetricKind::Gauge)
    }

    /// Returns the family of a histogram, and adds it if it is new.
    pub fn histogram(&mut self, name: &'static str, help: &'static str) -> &mut MetricFamily {
        self.family(name, help, MetricKind::Histogram)
    }

    fn family(&mut self, name: &'static str, help: &'static str, kind: MetricKind) -> &mut MetricFamily {
        let index = self.0.iter().position(|family| family.name == name).unwrap_or_else(|| {
            self.0.push(MetricFamily { name, help, kind, points: BTreeMap::new() });
            self.0.len() - 1
        });
        &mut self.0[index]
    }
}

impl MetricFamily {
    /// Adds a value. If there is one with the same labels, the two are added up.
    pub fn add(&mut self, labels: &[(&'static str, &str)], value: impl Into<MetricValue>) {
        let labels: Labels = labels.iter().map(|(label, text)| (*label, (*text).to_owned())).collect();
        let value = value.into();
        self.points.entry(labels).and_modify(|sum| sum.add(value)).or_insert(value);
    }

    /// Adds a value for each value of one further label.
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

    /// Sets the only value, which has no labels.
    pub fn set(&mut self, value: impl Into<MetricValue>) {
        self.points.insert(Labels::new(), value.into());
    }
}

impl MetricValue {
    fn add(&mut self, added: Self) {
        match (&mut *self, added) {
            (Self::Integer(sum), Self::Integer(added)) => *sum += added,
            (Self::Float(sum), Self::Float(added)) => *sum += added,
            (Self::Histogram(sum), Self::Histogram(added)) => sum.add(&added),
            (Self::Integer(_) | Self::Float(_) | Self::Histogram(_), _) => *self = added,
        }
    }
}

impl From<usize> for MetricValue {
    fn from(number: usize) -> Self {
        Self::Integer(number as u64)
    }
}

/// A text exposition format of Prometheus.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TextFormat {
    /// OpenMetrics 1.0.
    OpenMetrics,
    /// The older Prometheus format, which every tool supports, and which browsers display as text.
    Prometheus,
}

impl TextFormat {
    /// Media type of the format.
    pub fn media_type(self) -> &'static str {
        match self {
            Self::OpenMetrics => "application/openmetrics-text; version=1.0.0; charset=utf-8",
            Self::Prometheus => "text/plain; version=0.0.4; charset=utf-8",
        }
    }

    /// Formats a snapshot.
    pub fn write(self, snapshot: &MetricsSnapshot) -> String {
        let mut text = String::new();
        for family in &snapshot.0 {
            self.family(&mut text, family).expect("writing to a String cannot fail");
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
        // In these lines, OpenMetrics uses the name of a counter without `_total`.
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
                MetricValue::Histogram(durations) => histogram(text, name, labels, durations)?,
            }
        }
        Ok(())
    }
}

fn histogram(text: &mut String, name: &str, labels: &Labels, durations: &HistogramSnapshot) -> fmt::Result {
    let mut cumulative = 0;
    for (bound, count) in BUCKET_BOUNDS.iter().zip(durations.buckets) {
        cumulative += count;
        sample(text, (name, "_bucket"), labels, Some(&format!("{bound:?}")), &cumulative)?;
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
    let all_labels =
        labels.iter().map(|(name, value)| (*name, &**value)).chain(bound.map(|bound| ("le", bound)));
    let mut separator = '{';
    for (name, value) in all_labels {
        let value = value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n");
        write!(text, "{separator}{name}=\"{value}\"")?;
        separator = ',';
    }
    if separator == ',' {
        text.push('}');
    }
    // `{:?}` formats a float with a decimal point.
    writeln!(text, " {value:?}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_have_the_names_of_each_format() {
        let mut snapshot = MetricsSnapshot::default();
        let calls = snapshot.counter("x_calls", "Calls");
        calls.add(&[("tool", "get_\"x\"\n\\")], 2_u64);
        calls.add(&[("tool", "get_\"x\"\n\\")], 1_u64);
        snapshot.gauge("x_since_seconds", "Since when").set(1.0);
        snapshot.gauge("x_since_seconds", "Since when").set(1.5);
        assert_eq!(
            TextFormat::OpenMetrics.write(&snapshot),
            "# HELP x_calls Calls\n# TYPE x_calls counter\nx_calls_total{tool=\"get_\\\"x\\\"\\n\\\\\"} 3\n\
             # HELP x_since_seconds Since when\n# TYPE x_since_seconds gauge\n# UNIT x_since_seconds seconds\n\
             x_since_seconds 1.5\n# EOF\n"
        );
        let text = TextFormat::Prometheus.write(&snapshot);
        assert!(text.contains("# TYPE x_calls_total counter\n") && !text.contains('\u{0}'), "{text}");
        assert!(!text.contains("# UNIT") && !text.contains("# EOF"), "{text}");
    }
}
