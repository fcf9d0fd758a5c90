//! `metrics`: parser of the Prometheus and OpenMetrics text formats.

#[cfg(test)]
mod tests;

use std::collections::HashMap;

use serde_json::{Map, Value};
use settings_derive::{EnumSetting, Section};

use super::records::{lines, quoted_length, unescaped};
use super::{Extracted, FormatParser, MemberNames, RECORD_LIMIT, Typing, ValueCount};
use crate::model::object_without_nones;
use crate::settings::{Checked, Cursor, Invalid, OpenSection, Setting, suggest};
use crate::translate::convert::to_number;
use crate::translate::read_error::{ReadError, at_most};
use crate::translate::response_view::ResponseView;

/// Parses the samples of metrics.
///
/// Reads the name, labels, value, timestamp and exemplar of each line, and `# TYPE` and `# HELP` of its
/// metric. Lines of metrics that the rule does not select are not parsed further. The values `NaN`, `+Inf`
/// and `-Inf`, which are not JSON numbers, become null.
#[derive(Debug, Section)]
#[section(default, check = Self::check)]
pub struct Metrics {
    /// Names of samples to read; `*` matches any characters.
    #[key(with = read_names, shown = "all of them")]
    pub names: Vec<String>,
    /// Shape of the result: `samples` gives a list of samples, `rows` a list of rows with the labels as
    /// members, `object` one object of values by name for samples without labels.
    #[key(name = "as", default = MetricsShape::Samples)]
    pub shape: MetricsShape,
    /// Whether to add the help text of its metric to each sample.
    pub help: bool,
    /// Whether a response without matching samples is valid and gives an empty list or object. Otherwise it
    /// is an error.
    pub allow_empty: bool,
}

/// Shape of the extracted samples.
#[derive(Debug, Clone, Copy, PartialEq, Eq, EnumSetting)]
pub enum MetricsShape {
    /// List of objects with `name`, `type`, `labels`, `value` and the optional parts of a sample.
    Samples,
    /// List of objects with `metric`, each label by name, and `value`.
    Rows,
    /// One object of values by sample name; samples with labels are skipped.
    Object,
}

fn read_names(value: &Cursor<'_>) -> Checked<Vec<String>> {
    let names = Vec::<String>::read(value)?;
    if names.is_empty() {
        return value.reject_empty("write `names: [node_load1, \"node_memory_*\"]`");
    }
    let mut checked = Ok(());
    for (name, node) in names.iter().zip(value.node.as_list().unwrap_or_default()) {
        if name.is_empty() || name.contains(['{', ' ']) {
            let message = format!("expected the name of a metric, found {}", node.describe());
            let help = "write a name, with `*` for any characters; use `structured` to select by labels";
            checked = value.reject_at(node.span, Invalid::new(message, help));
        }
    }
    checked.map(|()| names)
}

/// Whether a name matches one of the patterns. `*` in a pattern matches any characters.
pub fn matches_wildcard(patterns: &[String], name: &str) -> bool {
    patterns.iter().any(|pattern| {
        let Some((first, rest)) = pattern.split_once('*') else { return pattern == name };
        let Some(mut remaining) = name.strip_prefix(first) else { return false };
        let (middle, last) = rest.rsplit_once('*').unwrap_or(("", rest));
        for part in middle.split('*') {
            match remaining.find(part) {
                Some(at) => remaining = &remaining[at + part.len()..],
                None => return false,
            }
        }
        remaining.ends_with(last)
    })
}

/// Metadata of a metric, from `# TYPE` and `# HELP`.
#[derive(Debug, Clone, Copy, Default)]
struct Family<'t> {
    /// Type from `# TYPE`: `counter`, `gauge` and others.
    kind: Option<&'t str>,
    /// Text of `# HELP`, with escapes.
    help: Option<&'t str>,
}

type NameAndLabels = (String, Map<String, Value>);

impl FormatParser for Metrics {
    fn result_shape(&self) -> (ValueCount, MemberNames<'_>) {
        match self.shape {
            MetricsShape::Samples => (ValueCount::Many, MemberNames::Names(Self::MEMBERS.to_vec())),
            MetricsShape::Rows => (ValueCount::Many, MemberNames::AnyNames),
            MetricsShape::Object => {
                let names: Vec<_> = self.names.iter().map(String::as_str).collect();
                let is_exact = !names.is_empty() && names.iter().all(|name| !name.contains('*'));
                (ValueCount::One, if is_exact { MemberNames::Names(names) } else { MemberNames::AnyNames })
            }
        }
    }

    fn find(&self, view: &ResponseView<'_>, _: &Typing) -> Result<Extracted, ReadError> {
        self.extract(view.text()?).map(Extracted::Value)
    }
}

impl Metrics {
    fn check(self, section: &OpenSection<'_>) -> Checked<Self> {
        let has_conflict = self.help && self.shape != MetricsShape::Samples;
        if has_conflict { Err(section.conflict("help", "as")) } else { Ok(self) }
    }

    /// Members of an object in [`MetricsShape::Samples`].
    const MEMBERS: [&str; 8] =
        ["name", "type", "help", "labels", "value", "not_a_number", "timestamp", "exemplar"];

    /// Maximum number of labels of all samples together.
    const LABELS_LIMIT: usize = 10 * RECORD_LIMIT;

    /// Maximum number of labels of one sample.
    const LABELS_OF_ONE_LIMIT: usize = 1_000;

    /// Maximum length of the types and help texts of all samples together, in bytes. Each sample repeats the
    /// texts of its metric, so one long text could occur 100,000 times.
    const REPEATED_LIMIT_BYTES: usize = 32 << 20;

    /// Type of a metric without `# TYPE`.
    const UNTYPED: &str = "untyped";

    fn extract(&self, text: &str) -> Result<Value, ReadError> {
        let mut builder = ResultBuilder::default();
        for line in lines(text) {
            let added = builder.add_line(self, line.text.trim_matches([' ', '\t']));
            added.map_err(|error| line.locate(error))?;
        }
        builder.finish(self)
    }

    /// Reads the full name of a sample (in a histogram, with `_bucket`, `_sum` or `_count`) and its labels;
    /// `None` if the rule does not select the sample.
    fn name_and_labels(&self, scanner: &mut Scanner<'_>) -> Result<Option<NameAndLabels>, ReadError> {
        let mut name = scanner.take_name().to_owned();
        if name.is_empty() && !scanner.0.starts_with('{') {
            return Err(scanner.error("the name of a metric"));
        }
        if !name.is_empty() && !self.selects(&name) {
            return Ok(None);
        }
        scanner.skip_blanks();
        let mut labels = Map::new();
        if scanner.take('{') {
            match scanner.take_labels(&mut labels)? {
                None if name.is_empty() => return Err("expected the name of a metric, found none".into()),
                None => {}
                Some(inner) if name.is_empty() => name = inner,
                Some(_) => return Err("expected one name of a metric, found two".into()),
            }
            if !self.selects(&name) {
                return Ok(None);
            }
        }
        Ok(Some((name, labels)))
    }

    fn selects(&self, name: &str) -> bool {
        self.names.is_empty() || matches_wildcard(&self.names, name)
    }
}

/// Builds the result line by line, and counts what the limits apply to.
#[derive(Default)]
struct ResultBuilder<'t> {
    families: HashMap<&'t str, Family<'t>>,
    rows: Vec<Value>,
    object: Map<String, Value>,
    /// Number of samples in the response, and number of labels of the extracted samples.
    sample_count: usize,
    label_count: usize,
    repeated_bytes: usize,
    /// Whether `# EOF` was read.
    has_ended: bool,
}

impl<'t> ResultBuilder<'t> {
    fn add_line(&mut self, metrics: &Metrics, line: &'t str) -> Result<(), ReadError> {
        if line.is_empty() {
            return Ok(());
        }
        if self.has_ended {
            return Err(Scanner(line).error("nothing after `# EOF`"));
        }
        if let Some(comment) = line.strip_prefix('#') {
            self.has_ended = comment.trim() == "EOF";
            read_comment(comment, &mut self.families);
            return at_most(RECORD_LIMIT, self.families.len(), "metrics");
        }
        self.sample_count += 1;
        let mut scanner = Scanner(line);
        let Some((name, labels)) = metrics.name_and_labels(&mut scanner)? else { return Ok(()) };
        let (value, not_a_number) = scanner.take_number()?;
        let (time, exemplar) = (scanner.take_time()?, scanner.take_exemplar()?);
        if !scanner.0.is_empty() {
            return Err(scanner.error("the end of the line"));
        }
        self.label_count += labels.len();
        at_most(RECORD_LIMIT, self.rows.len().max(self.object.len()) + 1, "samples")?;
        at_most(Metrics::LABELS_LIMIT, self.label_count, "labels")?;
        match metrics.shape {
            MetricsShape::Samples => {
                let family = family_of(&name, &self.families);
                let help = family.help.filter(|_| metrics.help);
                self.repeated_bytes += family.kind.map_or(0, str::len) + help.map_or(0, str::len);
                let noun = "bytes of types and help in all samples";
                at_most(Metrics::REPEATED_LIMIT_BYTES, self.repeated_bytes, noun)?;
                self.rows.push(Value::Object(object_without_nones([
                    ("name", Some(name.into())),
                    ("type", Some(family.kind.unwrap_or(Metrics::UNTYPED).into())),
                    ("help", help.map(|help| unescaped(help, ESCAPES).into())),
                    ("labels", Some(Value::Object(labels))),
                    ("value", Some(value)),
                    ("not_a_number", not_a_number.map(Value::from)),
                    ("timestamp", time),
                    ("exemplar", exemplar),
                ])));
            }
            MetricsShape::Rows => {
                if let Some(label) = ["metric", "value"].iter().find(|name| labels.contains_key(**name)) {
                    let expected = format!(
                        "expected no label `{label}`, a name that each row uses itself, found it in "
                    );
                    let error = ReadError::with_quote(QUOTE_LIMIT_CHARACTERS, &expected, &name);
                    return Err(error.with_suffix("; use `as: samples`"));
                }
                let mut members = Map::new();
                members.insert("metric".into(), name.into());
                members.extend(labels);
                members.insert("value".into(), value);
                self.rows.push(Value::Object(members));
            }
            MetricsShape::Object if labels.is_empty() => {
                if self.object.contains_key(&name) {
                    return Err(Scanner(&name).error("each name once"));
                }
                self.object.insert(name, value);
            }
            MetricsShape::Object => {}
        }
        Ok(())
    }

    fn finish(self, metrics: &Metrics) -> Result<Value, ReadError> {
        let is_object = metrics.shape == MetricsShape::Object;
        if self.rows.is_empty() && self.object.is_empty() && !metrics.allow_empty {
            let names = suggest::quoted_list(metrics.names.iter().map(String::as_str));
            let named = if names.is_empty() { String::new() } else { format!(" of {names}") };
            let plain = if is_object { " without labels" } else { "" };
            let among =
                if self.sample_count == 0 { String::new() } else { format!(" among {}", self.sample_count) };
            return Err(read_error!("expected samples{named}{plain}, found none{among}"));
        }
        Ok(if is_object { Value::Object(self.object) } else { Value::Array(self.rows) })
    }
}

/// Records `# TYPE name counter` and `# HELP name text`.
fn read_comment<'t>(comment: &'t str, families: &mut HashMap<&'t str, Family<'t>>) {
    let split_word = |text: &'t str| {
        let text = text.trim_start_matches([' ', '\t']);
        text.split_once([' ', '\t']).unwrap_or((text, ""))
    };
    let (keyword, rest) = split_word(comment);
    let (name, rest) = split_word(rest);
    let name = name.strip_prefix('"').and_then(|name| name.strip_suffix('"')).unwrap_or(name);
    match keyword {
        "TYPE" if !name.is_empty() => families.entry(name).or_default().kind = Some(rest.trim()),
        "HELP" if !name.is_empty() => families.entry(name).or_default().help = Some(rest.trim()),
        _ => {}
    }
}

/// Metadata of the metric that a sample belongs to: a histogram `x` has samples `x_bucket`.
fn family_of<'t>(name: &str, families: &HashMap<&str, Family<'t>>) -> Family<'t> {
    const PARTS: [&str; 8] = ["_bucket", "_count", "_sum", "_total", "_created", "_info", "_gcount", "_gsum"];
    let family_of_part = || PARTS.iter().find_map(|part| families.get(name.strip_suffix(part)?));
    families.get(name).or_else(family_of_part).copied().unwrap_or_default()
}

/// Maximum length of a quoted part of a line in an error, in characters.
const QUOTE_LIMIT_CHARACTERS: usize = 60;

/// Unread rest of a line.
struct Scanner<'t>(&'t str);

impl<'t> Scanner<'t> {
    fn skip_blanks(&mut self) {
        self.0 = self.0.trim_start_matches([' ', '\t']);
    }

    fn take(&mut self, mark: char) -> bool {
        let rest = self.0.strip_prefix(mark);
        self.0 = rest.unwrap_or(self.0);
        rest.is_some()
    }

    fn take_until(&mut self, is_end: impl Fn(char) -> bool) -> &'t str {
        let (taken, rest) = self.0.split_at(self.0.find(is_end).unwrap_or(self.0.len()));
        self.0 = rest;
        taken
    }

    /// Consumes a name. Servers also print `.` and `-` in names, which the format does not allow.
    fn take_name(&mut self) -> &'t str {
        if !self.0.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_' || c == ':') {
            return "";
        }
        self.take_until(|c| !(c.is_ascii_alphanumeric() || matches!(c, '_' | ':' | '.' | '-')))
    }

    /// Consumes the text up to the next space or tab.
    fn take_word(&mut self) -> &'t str {
        self.skip_blanks();
        let word = self.take_until(|c| matches!(c, ' ' | '\t'));
        self.skip_blanks();
        word
    }

    /// Consumes the labels up to `}`, and returns the quoted name of the metric if it is among the labels.
    fn take_labels(&mut self, labels: &mut Map<String, Value>) -> Result<Option<String>, ReadError> {
        let mut metric = None;
        loop {
            self.skip_blanks();
            if self.take('}') {
                return Ok(metric);
            }
            let is_quoted = self.0.starts_with('"');
            let name = if is_quoted { self.take_quoted()? } else { self.take_name().to_owned() };
            if name.is_empty() {
                return Err(self.error("a label or `}`"));
            }
            self.skip_blanks();
            if is_quoted && metric.is_none() && labels.is_empty() && !self.0.starts_with('=') {
                metric = Some(name);
            } else {
                if !self.take('=') {
                    return Err(self.error("`=` after a label"));
                }
                self.skip_blanks();
                let value = self.take_quoted()?;
                if labels.contains_key(&name) {
                    return Err(Scanner(&name).error("each label once"));
                }
                labels.insert(name, value.into());
                at_most(Metrics::LABELS_OF_ONE_LIMIT, labels.len(), "labels")?;
            }
            self.skip_blanks();
            if !self.take(',') && !self.0.starts_with('}') {
                return Err(self.error("`,` or `}` after a label"));
            }
        }
    }

    /// Consumes a quoted text, and resolves its escapes.
    fn take_quoted(&mut self) -> Result<String, ReadError> {
        if !self.take('"') {
            return Err(self.error("a quoted string"));
        }
        let Some(end) = quoted_length(self.0) else {
            let error = ReadError::with_quote(QUOTE_LIMIT_CHARACTERS, "expected `\"` at the end of ", self.0);
            return Err(error.with_suffix(", found none"));
        };
        let text = unescaped(&self.0[..end], ESCAPES);
        self.0 = &self.0[end + 1..];
        Ok(text)
    }

    /// Consumes the value of a sample or an exemplar. Also returns `NaN`, `+Inf` or `-Inf` for such a value,
    /// which is null in JSON.
    fn take_number(&mut self) -> Result<(Value, Option<&'static str>), ReadError> {
        let word = self.take_word();
        if let Some(value) = to_number(word.strip_suffix('.').unwrap_or(word)) {
            return Ok((value, None));
        }
        let word = match word.to_ascii_lowercase().as_str() {
            "nan" => "NaN",
            "inf" | "+inf" | "infinity" | "+infinity" => "+Inf",
            "-inf" | "-infinity" => "-Inf",
            _ => return Err(Scanner(word).error("a value")),
        };
        Ok((Value::Null, Some(word)))
    }

    /// Error for unexpected text in the rest of the line.
    fn error(&self, expected: &str) -> ReadError {
        ReadError::with_quote(QUOTE_LIMIT_CHARACTERS, &format!("expected {expected}, found "), self.0)
    }

    /// Consumes the timestamp of a sample, in the server's unit.
    fn take_time(&mut self) -> Result<Option<Value>, ReadError> {
        if self.0.is_empty() || self.0.starts_with('#') {
            return Ok(None);
        }
        let word = self.take_word();
        to_number(word).map(Some).ok_or_else(|| Scanner(word).error("a time after the value"))
    }

    /// Consumes the OpenMetrics exemplar of a sample: `# {trace_id="…"} 0.67 1520879607.789`.
    fn take_exemplar(&mut self) -> Result<Option<Value>, ReadError> {
        if !self.take('#') {
            return Ok(None);
        }
        self.skip_blanks();
        if !self.take('{') {
            return Err(self.error("the labels of an exemplar"));
        }
        let mut labels = Map::new();
        self.take_labels(&mut labels)?;
        Ok(Some(Value::Object(object_without_nones([
            ("labels", Some(Value::Object(labels))),
            ("value", Some(self.take_number()?.0)),
            ("timestamp", self.take_time()?),
        ]))))
    }
}

/// Escape sequences other than `\"` and `\\`, as pairs of the letter and the character it stands for.
const ESCAPES: &[(char, char)] = &[('n', '\n')];
