//! Text formats of metrics for Prometheus.

use std::fmt::{self, Write};

use super::snapshot::{BOUNDS, Durations, Labels, MetricFamily, MetricKind, MetricValue, MetricsSnapshot};

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
