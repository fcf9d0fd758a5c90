//! `metrics`: the text formats of Prometheus and OpenMetrics.

mod line;

use std::{borrow::Cow, collections::HashMap};

use serde_json::{Map, Value};

use self::line::{LONGEST_SHOWN, Number, Scanner, unescaped};
use super::{Extracted, Extraction, Finds, Gives, RECORD_LIMIT, Typing};
use crate::translate::{response_view::ResponseView, why::Why};

/// Reads the samples of metrics.
///
/// Of each line, what the format says is read: name, labels, value, time and exemplar, and `# TYPE` and `# HELP`
/// of its metric. Lines of metrics that the rule does not name are not looked into any further. A value of `NaN`,
/// `+Inf` or `-Inf`, which JSON has no number for, is null.
#[derive(Debug, Default)]
pub struct Metrics {
    /// Which metrics, by the names of their samples; all of them where there is none.
    pub names: Vec<NamePattern>,
    /// What samples become.
    pub shape: MetricsShape,
    /// Whether samples have the help text of their metric.
    pub help: bool,
    /// Whether an empty list, or an empty object, is right where no sample is found; an error otherwise.
    pub allow_empty: bool,
}

/// What samples become.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum MetricsShape {
    /// A list of objects of `name`, `type`, `labels`, `value` and what else a sample has.
    #[default]
    Samples,
    /// A list of objects of `metric`, each label by its name, and `value`.
    Rows,
    /// One object of the values by the names of their samples; those with labels are passed over.
    Object,
}

/// The name of a metric; each `*` stands for any characters.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NamePattern(String);

impl NamePattern {
    /// A name with `*` or without.
    pub fn new(text: &str) -> Self {
        Self(text.to_owned())
    }

    /// The name, where it is one.
    pub fn exact(&self) -> Option<&str> {
        (!self.0.contains('*')).then_some(&self.0)
    }

    /// Whether it is the name of this one.
    pub fn holds(&self, name: &str) -> bool {
        let Some((first, rest)) = self.0.split_once('*') else { return self.0 == name };
        let Some(mut left) = name.strip_prefix(first) else { return false };
        let (middle, last) = rest.rsplit_once('*').unwrap_or(("", rest));
        for part in middle.split('*') {
            match left.find(part) {
                Some(at) => left = &left[at + part.len()..],
                None => return false,
            }
        }
        left.ends_with(last)
    }
}

/// What the comments say of a metric.
#[derive(Debug, Clone, Copy, Default)]
struct Family<'t> {
    kind: Option<&'t str>,
    help: Option<&'t str>,
}

/// One line with a value.
struct Sample<'t> {
    name: Cow<'t, str>,
    labels: Map<String, Value>,
    value: Number,
    time: Option<Value>,
    exemplar: Option<Value>,
}

impl Extraction for Metrics {
    fn gives(&self) -> Gives {
        match self.shape {
            MetricsShape::Object => Gives::One,
            MetricsShape::Samples | MetricsShape::Rows => Gives::Many,
        }
    }

    fn finds(&self) -> Finds<'_> {
        match self.shape {
            MetricsShape::Samples => Finds::Names(Self::MEMBERS.to_vec()),
            MetricsShape::Rows => Finds::AnyNames,
            MetricsShape::Object => {
                let exact = self.names.iter().map(NamePattern::exact).collect::<Option<Vec<_>>>();
                exact.filter(|names| !names.is_empty()).map_or(Finds::AnyNames, Finds::Names)
            }
        }
    }

    fn find(&self, view: &ResponseView<'_>, _: &Typing) -> Result<Extracted, Why> {
        self.extract(view.text()?).map(Extracted::Value)
    }
}

impl Metrics {
    /// The names that members of [`MetricsShape::Samples`] have.
    const MEMBERS: [&str; 8] =
        ["name", "type", "help", "labels", "value", "not_a_number", "timestamp", "exemplar"];

    /// How many labels all samples may have together.
    const LABELS_LIMIT: usize = 10 * RECORD_LIMIT;

    /// How many labels one sample may have.
    const LABELS_OF_ONE_LIMIT: usize = 1_000;

    /// How long types and help texts may be in all samples together, in bytes: each sample repeats those of its
    /// metric, so that one long text would be there a hundred thousand times.
    const REPEATED_LIMIT_BYTES: usize = 32 << 20;

    /// The type of a metric that has none.
    const UNTYPED: &str = "untyped";

    fn extract(&self, text: &str) -> Result<Value, Why> {
        let mut families: HashMap<&str, Family<'_>> = HashMap::new();
        let mut gathered =
            Gathered { metrics: self, rows: Vec::new(), object: Map::new(), repeated_bytes: 0 };
        let (mut seen, mut taken, mut labels, mut ended) = (0_usize, 0_usize, 0_usize, false);
        for (index, line) in text.lines().enumerate() {
            let at_line = |why: Why| why.under(&format!("line {}", index + 1));
            let line = line.trim_matches([' ', '\t']);
            if line.is_empty() {
                continue;
            }
            if ended {
                return Err(at_line(Why::quoting(LONGEST_SHOWN, |quoted| {
                    format!("expected nothing after `# EOF`, found {}", quoted(line))
                })));
            }
            if let Some(comment) = line.strip_prefix('#') {
                ended = comment.trim() == "EOF";
                read_comment(comment, &mut families);
                if families.len() > RECORD_LIMIT {
                    return Err(at_line(Why::plainly(format!(
                        "expected at most {RECORD_LIMIT} metrics, found more"
                    ))));
                }
                continue;
            }
            seen += 1;
            let Some(sample) = self.sample(line).map_err(at_line)? else { continue };
            taken += 1;
            labels += sample.labels.len();
            if taken > RECORD_LIMIT {
                return Err(at_line(Why::plainly(format!(
                    "expected at most {RECORD_LIMIT} samples, found more"
                ))));
            }
            if labels > Self::LABELS_LIMIT {
                return Err(at_line(Why::plainly(format!(
                    "expected at most {} labels, found more",
                    Self::LABELS_LIMIT
                ))));
            }
            gathered.add(sample, &families).map_err(at_line)?;
        }
        gathered.finish(seen)
    }

    /// The sample of a line; `None` when the rule does not ask for it.
    fn sample<'t>(&self, line: &'t str) -> Result<Option<Sample<'t>>, Why> {
        let mut rest = Scanner(line);
        let mut name = Cow::Borrowed(rest.take_name());
        if name.is_empty() && !line.starts_with('{') {
            return Err(Why::quoting(LONGEST_SHOWN, |quoted| {
                format!("expected the name of a metric, found {}", quoted(line))
            }));
        }
        if !name.is_empty() && !self.wants(&name) {
            return Ok(None);
        }
        rest.skip_blanks();
        let mut labels = Map::new();
        if rest.take('{') {
            let inner = rest.labels(&mut labels)?;
            match (inner, name.is_empty()) {
                (Some(inner), true) => name = Cow::Owned(inner),
                (Some(inner), false) => {
                    return Err(Why::quoting(usize::MAX, |quoted| {
                        format!("expected one name, found {} and {}", quoted(&name), quoted(&inner))
                    }));
                }
                (None, true) => return Err("expected the name of a metric, found none".into()),
                (None, false) => {}
            }
            if !self.wants(&name) {
                return Ok(None);
            }
        }
        let value = rest.number(Some(&name))?;
        let time = rest.time()?;
        let exemplar = rest.exemplar()?;
        if !rest.0.is_empty() {
            return Err(Why::quoting(LONGEST_SHOWN, |quoted| {
                format!("expected the end of the line, found {}", quoted(rest.0))
            }));
        }
        Ok(Some(Sample { name, labels, value, time, exemplar }))
    }

    fn wants(&self, name: &str) -> bool {
        self.names.is_empty() || self.names.iter().any(|pattern| pattern.holds(name))
    }
}

/// The result as far as it was read.
struct Gathered<'m> {
    metrics: &'m Metrics,
    rows: Vec<Value>,
    object: Map<String, Value>,
    repeated_bytes: usize,
}

impl Gathered<'_> {
    fn add(&mut self, sample: Sample<'_>, families: &HashMap<&str, Family<'_>>) -> Result<(), Why> {
        match self.metrics.shape {
            MetricsShape::Samples => {
                let family = family_of(&sample.name, families);
                let help = family.help.filter(|_| self.metrics.help);
                self.repeated_bytes += family.kind.map_or(0, str::len) + help.map_or(0, str::len);
                if self.repeated_bytes > Metrics::REPEATED_LIMIT_BYTES {
                    return Err(Why::plainly(format!(
                        "expected at most {} bytes of types and help in all samples, found more",
                        Metrics::REPEATED_LIMIT_BYTES
                    )));
                }
                let mut members = Map::new();
                members.insert("name".into(), sample.name.as_ref().into());
                members.insert("type".into(), family.kind.unwrap_or(Metrics::UNTYPED).into());
                if let Some(help) = help {
                    members.insert("help".into(), unescaped(help).into());
                }
                members.insert("labels".into(), Value::Object(sample.labels));
                members.insert("value".into(), sample.value.value);
                members.extend(sample.value.word.map(|word| ("not_a_number".to_owned(), word.into())));
                members.extend(sample.time.map(|time| ("timestamp".to_owned(), time)));
                members.extend(sample.exemplar.map(|exemplar| ("exemplar".to_owned(), exemplar)));
                self.rows.push(Value::Object(members));
            }
            MetricsShape::Rows => {
                if let Some(label) =
                    ["metric", "value"].iter().find(|name| sample.labels.contains_key(**name))
                {
                    return Err(Why::quoting(LONGEST_SHOWN, |quoted| {
                        let name = quoted(&sample.name);
                        format!(
                            "expected no label `{label}` beside a row's own, found one of {name}; `as: samples` keeps them \
                             apart"
                        )
                    }));
                }
                let mut members = Map::new();
                members.insert("metric".into(), sample.name.as_ref().into());
                members.extend(sample.labels);
                members.insert("value".into(), sample.value.value);
                self.rows.push(Value::Object(members));
            }
            MetricsShape::Object if sample.labels.is_empty() => {
                if self.object.contains_key(sample.name.as_ref()) {
                    return Err(Why::quoting(LONGEST_SHOWN, |quoted| {
                        format!("expected {} once, found it again", quoted(&sample.name))
                    }));
                }
                self.object.insert(sample.name.into_owned(), sample.value.value);
            }
            MetricsShape::Object => {}
        }
        Ok(())
    }

    /// The result; `seen` is how many samples the reply has.
    fn finish(self, seen: usize) -> Result<Value, Why> {
        let is_object = self.metrics.shape == MetricsShape::Object;
        if self.rows.is_empty() && self.object.is_empty() && !self.metrics.allow_empty {
            let names: Vec<_> = self.metrics.names.iter().map(|name| format!("`{}`", name.0)).collect();
            let named = if names.is_empty() { String::new() } else { format!(" of {}", names.join(" or ")) };
            let plain = if is_object { " without labels" } else { "" };
            return Err(Why::plainly(format!("expected samples{named}{plain}, found none among {seen}")));
        }
        Ok(if is_object { Value::Object(self.object) } else { Value::Array(self.rows) })
    }
}

/// Notes what `# TYPE name counter` and `# HELP name text` say.
fn read_comment<'t>(comment: &'t str, families: &mut HashMap<&'t str, Family<'t>>) {
    let word = |text: &'t str| {
        let text = text.trim_start_matches([' ', '\t']);
        text.split_once([' ', '\t']).unwrap_or((text, ""))
    };
    let (keyword, rest) = word(comment);
    let (name, rest) = word(rest);
    let name = name.strip_prefix('"').and_then(|name| name.strip_suffix('"')).unwrap_or(name);
    match keyword {
        "TYPE" if !name.is_empty() => families.entry(name).or_default().kind = Some(rest.trim()),
        "HELP" if !name.is_empty() => families.entry(name).or_default().help = Some(rest.trim()),
        _ => {}
    }
}

/// What is known of the metric that a sample is part of: a histogram `x` has samples `x_bucket`.
fn family_of<'t>(name: &str, families: &HashMap<&str, Family<'t>>) -> Family<'t> {
    const PARTS: [&str; 8] = ["_bucket", "_count", "_sum", "_total", "_created", "_info", "_gcount", "_gsum"];
    let of_part = || PARTS.iter().find_map(|part| families.get(name.strip_suffix(part)?));
    families.get(name).or_else(of_part).copied().unwrap_or_default()
}

#[cfg(test)]
mod tests;
