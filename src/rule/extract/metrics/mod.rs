//! `metrics`: the text formats of Prometheus and OpenMetrics.

use std::{borrow::Cow, collections::HashMap};

use serde_json::{Map, Value};

use super::{Finds, RECORD_LIMIT};
use crate::rule::convert::to_number;

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

    fn holds(&self, name: &str) -> bool {
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

/// A value as JSON, and its word where JSON has no number for it.
struct Number {
    value: Value,
    word: Option<&'static str>,
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

    /// What fields may be taken from.
    pub(super) fn finds(&self) -> Finds<'_> {
        match self.shape {
            MetricsShape::Samples => Finds::Names(Self::MEMBERS.to_vec()),
            MetricsShape::Rows => Finds::AnyNames,
            MetricsShape::Object => {
                let exact = self.names.iter().map(NamePattern::exact).collect::<Option<Vec<_>>>();
                exact.filter(|names| !names.is_empty()).map_or(Finds::AnyNames, Finds::Names)
            }
        }
    }

    pub(super) fn extract(&self, text: &str) -> Result<Value, String> {
        let mut families: HashMap<&str, Family<'_>> = HashMap::new();
        let mut gathered =
            Gathered { metrics: self, rows: Vec::new(), object: Map::new(), repeated_bytes: 0 };
        let (mut seen, mut taken, mut labels, mut ended) = (0_usize, 0_usize, 0_usize, false);
        for (index, line) in text.lines().enumerate() {
            let at_line = |error: String| format!("line {}: {error}", index + 1);
            let line = line.trim_matches([' ', '\t']);
            if line.is_empty() {
                continue;
            }
            if ended {
                return Err(at_line(format!("expected nothing after `# EOF`, found `{}`", shown(line))));
            }
            if let Some(comment) = line.strip_prefix('#') {
                ended = comment.trim() == "EOF";
                read_comment(comment, &mut families);
                if families.len() > RECORD_LIMIT {
                    return Err(at_line(format!("expected at most {RECORD_LIMIT} metrics, found more")));
                }
                continue;
            }
            seen += 1;
            let Some(sample) = self.sample(line).map_err(at_line)? else { continue };
            taken += 1;
            labels += sample.labels.len();
            if taken > RECORD_LIMIT {
                return Err(at_line(format!("expected at most {RECORD_LIMIT} samples, found more")));
            }
            if labels > Self::LABELS_LIMIT {
                return Err(at_line(format!("expected at most {} labels, found more", Self::LABELS_LIMIT)));
            }
            gathered.add(sample, &families).map_err(at_line)?;
        }
        gathered.finish(seen)
    }

    /// The sample of a line; `None` when the rule does not ask for it.
    fn sample<'t>(&self, line: &'t str) -> Result<Option<Sample<'t>>, String> {
        let mut rest = Scanner(line);
        let mut name = Cow::Borrowed(rest.take_name());
        if name.is_empty() && !line.starts_with('{') {
            return Err(format!("expected the name of a metric, found `{}`", shown(line)));
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
                    return Err(format!("expected one name, found `{name}` and `{inner}`"));
                }
                (None, true) => return Err("expected the name of a metric, found none".to_owned()),
                (None, false) => {}
            }
            if !self.wants(&name) {
                return Ok(None);
            }
        }
        let value = rest.number(&format!("a value of `{}`", shown(&name)))?;
        let time = rest.time()?;
        let exemplar = rest.exemplar()?;
        if !rest.0.is_empty() {
            return Err(format!("expected the end of the line, found `{}`", shown(rest.0)));
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
    fn add(&mut self, sample: Sample<'_>, families: &HashMap<&str, Family<'_>>) -> Result<(), String> {
        match self.metrics.shape {
            MetricsShape::Samples => {
                let family = family_of(&sample.name, families);
                let help = family.help.filter(|_| self.metrics.help);
                self.repeated_bytes += family.kind.map_or(0, str::len) + help.map_or(0, str::len);
                if self.repeated_bytes > Metrics::REPEATED_LIMIT_BYTES {
                    return Err(format!(
                        "expected at most {} bytes of types and help in all samples, found more",
                        Metrics::REPEATED_LIMIT_BYTES
                    ));
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
                    return Err(format!(
                        "expected no label `{label}` beside a row's own, found one of `{}`; `as: samples` keeps them apart",
                        shown(&sample.name)
                    ));
                }
                let mut members = Map::new();
                members.insert("metric".into(), sample.name.as_ref().into());
                members.extend(sample.labels);
                members.insert("value".into(), sample.value.value);
                self.rows.push(Value::Object(members));
            }
            MetricsShape::Object if sample.labels.is_empty() => {
                if self.object.contains_key(sample.name.as_ref()) {
                    return Err(format!("expected `{}` once, found it again", shown(&sample.name)));
                }
                self.object.insert(sample.name.into_owned(), sample.value.value);
            }
            MetricsShape::Object => {}
        }
        Ok(())
    }

    /// The result; `seen` is how many samples the reply has.
    fn finish(self, seen: usize) -> Result<Value, String> {
        let is_object = self.metrics.shape == MetricsShape::Object;
        if self.rows.is_empty() && self.object.is_empty() && !self.metrics.allow_empty {
            let names: Vec<_> = self.metrics.names.iter().map(|name| format!("`{}`", name.0)).collect();
            let named = if names.is_empty() { String::new() } else { format!(" of {}", names.join(" or ")) };
            let plain = if is_object { " without labels" } else { "" };
            return Err(format!("expected samples{named}{plain}, found none among {seen}"));
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

/// A text without its escapes: `\\`, `\"` and `\n`. Others are left as they stand.
fn unescaped(text: &str) -> String {
    let mut plain = String::with_capacity(text.len());
    let mut rest = text.chars();
    while let Some(character) = rest.next() {
        match character {
            '\\' => match rest.next() {
                Some('n') => plain.push('\n'),
                Some(escaped @ ('"' | '\\')) => plain.push(escaped),
                other => plain.extend(std::iter::once('\\').chain(other)),
            },
            other => plain.push(other),
        }
    }
    plain
}

/// What is left of a line.
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

    fn take_until(&mut self, ends: impl Fn(char) -> bool) -> &'t str {
        let (taken, rest) = self.0.split_at(self.0.find(ends).unwrap_or(self.0.len()));
        self.0 = rest;
        taken
    }

    /// A name; `.` and `-`, which are not in the format, are in names that servers print.
    fn take_name(&mut self) -> &'t str {
        if !self.0.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_' || c == ':') {
            return "";
        }
        self.take_until(|c| !(c.is_ascii_alphanumeric() || matches!(c, '_' | ':' | '.' | '-')))
    }

    /// A word up to the next blank.
    fn take_word(&mut self) -> &'t str {
        self.skip_blanks();
        let word = self.take_until(|c| matches!(c, ' ' | '\t'));
        self.skip_blanks();
        word
    }

    /// The labels up to the `}`, and the name of the metric where it stands among them, in quotes.
    fn labels(&mut self, labels: &mut Map<String, Value>) -> Result<Option<String>, String> {
        let mut metric = None;
        loop {
            self.skip_blanks();
            if self.take('}') {
                return Ok(metric);
            }
            let quoted = self.0.starts_with('"');
            let name = if quoted { self.quoted()? } else { self.take_name().to_owned() };
            if name.is_empty() {
                return Err(format!("expected a label or `}}`, found `{}`", shown(self.0)));
            }
            self.skip_blanks();
            if quoted && metric.is_none() && labels.is_empty() && !self.0.starts_with('=') {
                metric = Some(name);
            } else {
                if !self.take('=') {
                    return Err(format!(
                        "expected `=` after label `{}`, found `{}`",
                        shown(&name),
                        shown(self.0)
                    ));
                }
                self.skip_blanks();
                let value = self.quoted()?;
                if labels.contains_key(&name) {
                    return Err(format!("expected label `{}` once, found it again", shown(&name)));
                }
                if labels.len() >= Metrics::LABELS_OF_ONE_LIMIT {
                    return Err(format!(
                        "expected at most {} labels, found more",
                        Metrics::LABELS_OF_ONE_LIMIT
                    ));
                }
                labels.insert(name, value.into());
            }
            self.skip_blanks();
            if !self.take(',') && !self.0.starts_with('}') {
                return Err(format!("expected `,` or `}}` after a label, found `{}`", shown(self.0)));
            }
        }
    }

    /// A text in quotes, without its escapes.
    fn quoted(&mut self) -> Result<String, String> {
        if !self.take('"') {
            return Err(format!("expected a text in quotes, found `{}`", shown(self.0)));
        }
        let mut escaped = false;
        let end = self.0.bytes().position(|byte| {
            let ends = byte == b'"' && !escaped;
            escaped = byte == b'\\' && !escaped;
            ends
        });
        let Some(end) = end else {
            return Err(format!("expected `\"` at the end of `{}`, found none", shown(self.0)));
        };
        let text = unescaped(&self.0[..end]);
        self.0 = &self.0[end + 1..];
        Ok(text)
    }

    fn number(&mut self, what: &str) -> Result<Number, String> {
        let word = self.take_word();
        if let Some(value) = to_number(word.strip_suffix('.').unwrap_or(word)) {
            return Ok(Number { value, word: None });
        }
        let word = match word.to_ascii_lowercase().as_str() {
            "nan" => "NaN",
            "inf" | "+inf" | "infinity" | "+infinity" => "+Inf",
            "-inf" | "-infinity" => "-Inf",
            "" => return Err(format!("expected {what}, found none")),
            _ => return Err(format!("expected {what}, found `{}`", shown(word))),
        };
        Ok(Number { value: Value::Null, word: Some(word) })
    }

    /// When a sample was taken, as the server writes it.
    fn time(&mut self) -> Result<Option<Value>, String> {
        if self.0.is_empty() || self.0.starts_with('#') {
            return Ok(None);
        }
        let word = self.take_word();
        let time = to_number(word);
        time.map(Some).ok_or_else(|| format!("expected a time after the value, found `{}`", shown(word)))
    }

    /// What OpenMetrics has behind a bucket: `# {trace_id="…"} 0.67 1520879607.789`.
    fn exemplar(&mut self) -> Result<Option<Value>, String> {
        if !self.take('#') {
            return Ok(None);
        }
        self.skip_blanks();
        if !self.take('{') {
            return Err(format!("expected the labels of an exemplar, found `{}`", shown(self.0)));
        }
        let mut labels = Map::new();
        if self.labels(&mut labels)?.is_some() {
            return Err("expected the labels of an exemplar, found a name".to_owned());
        }
        let mut exemplar = Map::new();
        exemplar.insert("labels".into(), Value::Object(labels));
        exemplar.insert("value".into(), self.number("the value of an exemplar")?.value);
        exemplar.extend(self.time()?.map(|time| ("timestamp".to_owned(), time)));
        Ok(Some(Value::Object(exemplar)))
    }
}

fn shown(text: &str) -> String {
    const LONGEST_SHOWN: usize = 60;
    match text.char_indices().nth(LONGEST_SHOWN) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn metrics(names: &[&str], shape: MetricsShape) -> Metrics {
        let names = names.iter().map(|name| NamePattern::new(name)).collect();
        Metrics { names, shape, help: false, allow_empty: false }
    }

    #[track_caller]
    fn check(metrics: &Metrics, text: &str, expected: Result<&str, &str>) {
        match (metrics.extract(text), expected) {
            (Ok(value), Ok(expected)) => assert_eq!(value.to_string(), expected),
            (Err(error), Err(part)) => assert!(error.contains(part), "{error}"),
            (found, _) => panic!("found {:.400}", format!("{found:?}")),
        }
    }

    #[track_caller]
    fn sample(line: &str, expected: Result<&str, &str>) {
        let whole = expected.map(|expected| format!("[{expected}]"));
        check(&metrics(&[], MetricsShape::Samples), line, whole.as_deref().map_err(|error| *error));
    }

    #[test]
    fn a_sample_has_name_type_labels_and_value() {
        sample("up 1", Ok(r#"{"name":"up","type":"untyped","labels":{},"value":1}"#));
        sample(
            "# HELP rpc_seconds Time \\\\ of\\ncalls\n# TYPE rpc_seconds histogram\r\nrpc_seconds_bucket{le=\"0.5\",} 1.445961e+06 1395066363000\r\n",
            Ok(concat!(
                r#"{"name":"rpc_seconds_bucket","type":"histogram","labels":{"le":"0.5"},"#,
                r#""value":1.445961e+06,"timestamp":1395066363000}"#
            )),
        );
        sample(
            "a { x = \"C:\\\\D\" , y=\"\\\"q\\\"\\n\\z}\" }\t-.5",
            Ok(r#"{"name":"a","type":"untyped","labels":{"x":"C:\\D","y":"\"q\"\n\\z}"},"value":-0.5}"#),
        );
        sample(
            "{\"jvm.memory\",\"area.of\"=\"heap\"} 5.",
            Ok(r#"{"name":"jvm.memory","type":"untyped","labels":{"area.of":"heap"},"value":5}"#),
        );
    }

    #[test]
    fn help_is_there_where_it_is_asked_for() {
        let metrics = Metrics { help: true, ..metrics(&[], MetricsShape::Samples) };
        let expected = r#"[{"name":"a","type":"untyped","help":"x\ny","labels":{},"value":1}]"#;
        check(&metrics, "# HELP a x\\ny\na 1\n", Ok(expected));
    }

    #[test]
    fn what_is_no_number_in_json_is_null_and_says_what_it_is() {
        for (written, word) in [("NaN", "NaN"), ("+Inf", "+Inf"), ("Inf", "+Inf"), ("-Inf", "-Inf")] {
            let expected = format!(
                r#"{{"name":"a","type":"untyped","labels":{{}},"value":null,"not_a_number":"{word}"}}"#
            );
            sample(&format!("a {written}"), Ok(&expected));
        }
    }

    #[test]
    fn openmetrics_has_exemplars_and_an_end() {
        let text = "# TYPE a counter\n# UNIT a seconds\na_total 17.0 1520879607.7 # {trace=\"k\"} 0.67 1520879606\n\
            a_created 1520430000\n# EOF\n";
        check(
            &metrics(&[], MetricsShape::Samples),
            text,
            Ok(concat!(
                r#"[{"name":"a_total","type":"counter","labels":{},"value":17.0,"timestamp":1520879607.7,"#,
                r#""exemplar":{"labels":{"trace":"k"},"value":0.67,"timestamp":1520879606}},"#,
                r#"{"name":"a_created","type":"counter","labels":{},"value":1520430000}]"#
            )),
        );
        sample("a 1\n# EOF\nb 2", Err("line 3: expected nothing after `# EOF`, found `b 2`"));
    }

    #[test]
    fn names_choose_and_the_lines_of_others_are_not_looked_into() {
        let text = "node_load1 0.5\nnode_load15 0.2\nbroken {{{\nother 1\nother{x=\"y\"} 2\n";
        let object = |names: &[&str]| metrics(names, MetricsShape::Object);
        check(&object(&["node_load1", "other"]), text, Ok(r#"{"node_load1":0.5,"other":1}"#));
        check(&object(&["node_*"]), text, Ok(r#"{"node_load1":0.5,"node_load15":0.2}"#));
        check(
            &object(&["gone", "n*z"]),
            text,
            Err("expected samples of `gone` or `n*z` without labels, found none among 5"),
        );
        let rows = r#"[{"metric":"other","value":1},{"metric":"other","x":"y","value":2}]"#;
        check(&metrics(&["other"], MetricsShape::Rows), text, Ok(rows));
    }

    #[test]
    fn a_star_stands_for_any_characters() {
        let holds = |pattern: &str, name| NamePattern::new(pattern).holds(name);
        for pattern in ["*", "abc", "a*", "*c", "a*c", "*b*", "a**c", "*a*b*c*", "abc*"] {
            assert!(holds(pattern, "abc"), "{pattern}");
        }
        for pattern in ["ab", "b*", "*b", "abc*c", "*a*a*", "abcd*", ""] {
            assert!(!holds(pattern, "abc"), "{pattern}");
        }
    }

    #[test]
    fn what_is_no_metric_is_an_error_with_its_line() {
        sample("up 1\n<html>", Err("line 2: expected the name of a metric, found `<html>`"));
        sample("Service restarting", Err("line 1: expected a value of `Service`, found `restarting`"));
        sample("up", Err("expected a value of `up`, found none"));
        sample("up 1 soon", Err("expected a time after the value, found `soon`"));
        sample("up 1 2 3", Err("expected the end of the line, found `3`"));
        sample("up{a=1} 1", Err("expected a text in quotes, found `1} 1`"));
        sample("up{a=\"1} 1", Err("expected `\"` at the end"));
        sample("up{a=\"1\" b=\"2\"} 1", Err("expected `,` or `}` after a label, found `b=\"2\"} 1`"));
        sample("up{a=\"1\",a=\"2\"} 1", Err("expected label `a` once"));
        sample("up{\"a\"} 1", Err("expected one name, found `up` and `a`"));
        sample("{} 1", Err("expected the name of a metric, found none"));
        sample("# only comments", Err("expected samples, found none among 0"));
        check(&metrics(&[], MetricsShape::Object), "a 1\na 2", Err("line 2: expected `a` once"));
        check(
            &metrics(&[], MetricsShape::Rows),
            "a{value=\"x\"} 1",
            Err("line 1: expected no label `value`"),
        );
    }

    #[test]
    fn an_empty_result_is_right_where_the_rule_says_so() {
        let empty = |shape| Metrics { allow_empty: true, ..metrics(&["x"], shape) };
        check(&empty(MetricsShape::Samples), "a 1", Ok("[]"));
        check(&empty(MetricsShape::Object), "", Ok("{}"));
    }

    #[test]
    fn hostile_replies_take_linear_time_and_bounded_memory() {
        let all = || metrics(&[], MetricsShape::Samples);
        check(&all(), &"a 1\n".repeat(110_000), Err("line 100001: expected at most 100000 samples"));
        check(&metrics(&["b"], MetricsShape::Samples), &"a 1\n".repeat(110_000), Err("none among 110000"));
        let types: String = (0..120_000).map(|index| format!("# TYPE m{index} gauge\n")).collect();
        check(&all(), &types, Err("expected at most 100000 metrics"));
        let labels: String = (0..400).map(|index| format!("l{index}=\"\",")).collect();
        check(&all(), &format!("a{{{labels}}} 1\n").repeat(3_000), Err("expected at most 1000000 labels"));
        let many: String = (0..2_000).map(|index| format!("l{index}=\"\",")).collect();
        sample(&format!("a{{{many}}} 1"), Err("expected at most 1000 labels"));
        let long = "h".repeat(100 << 10);
        let repeated = format!("# HELP a {long}\n# TYPE a {long}\n{}", "a 1\n".repeat(90_000));
        check(&all(), &repeated, Err("line 330: expected at most 33554432 bytes of types and help"));
        let helped = Metrics { help: true, ..all() };
        check(&helped, &repeated, Err("line 166: expected at most 33554432 bytes of types and help"));
        for long in ["a", "a{", "a{b=\"", "{\"", "\\", "a{x=\"\\"] {
            let text = format!("{long}{}", long.repeat((256 << 10) / long.len()));
            assert!(all().extract(&text).is_err());
        }
        assert!(all().extract(&format!("a {}", "1".repeat(256 << 10))).is_ok());
        assert!(metrics(&["*a*a*a*a*b"], MetricsShape::Samples).extract(&"a".repeat(256 << 10)).is_err());
    }
}
