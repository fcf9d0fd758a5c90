//! One line of the formats, piece by piece.

use serde_json::{Map, Value};

use super::Metrics;
use crate::translate::{convert::to_number, why::Why};

/// How much of a line an error shows, in characters.
pub(super) const LONGEST_SHOWN: usize = 60;

/// What is left of a line.
pub(super) struct Scanner<'t>(pub(super) &'t str);

impl<'t> Scanner<'t> {
    pub(super) fn skip_blanks(&mut self) {
        self.0 = self.0.trim_start_matches([' ', '\t']);
    }

    pub(super) fn take(&mut self, mark: char) -> bool {
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
    pub(super) fn take_name(&mut self) -> &'t str {
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
    pub(super) fn labels(&mut self, labels: &mut Map<String, Value>) -> Result<Option<String>, Why> {
        let mut metric = None;
        loop {
            self.skip_blanks();
            if self.take('}') {
                return Ok(metric);
            }
            let quoted = self.0.starts_with('"');
            let name = if quoted { self.quoted()? } else { self.take_name().to_owned() };
            if name.is_empty() {
                return Err(self.refuse("a label or `}`"));
            }
            self.skip_blanks();
            if quoted && metric.is_none() && labels.is_empty() && !self.0.starts_with('=') {
                metric = Some(name);
            } else {
                if !self.take('=') {
                    return Err(Why::quoting(LONGEST_SHOWN, |quoted| {
                        format!("expected `=` after label {}, found {}", quoted(&name), quoted(self.0))
                    }));
                }
                self.skip_blanks();
                let value = self.quoted()?;
                if labels.contains_key(&name) {
                    return Err(Why::quoting(LONGEST_SHOWN, |quoted| {
                        format!("expected label {} once, found it again", quoted(&name))
                    }));
                }
                if labels.len() >= Metrics::LABELS_OF_ONE_LIMIT {
                    return Err(Why::plainly(format!(
                        "expected at most {} labels, found more",
                        Metrics::LABELS_OF_ONE_LIMIT
                    )));
                }
                labels.insert(name, value.into());
            }
            self.skip_blanks();
            if !self.take(',') && !self.0.starts_with('}') {
                return Err(self.refuse("`,` or `}` after a label"));
            }
        }
    }

    /// A text in quotes, without its escapes.
    fn quoted(&mut self) -> Result<String, Why> {
        if !self.take('"') {
            return Err(self.refuse("a text in quotes"));
        }
        let mut escaped = false;
        let end = self.0.bytes().position(|byte| {
            let ends = byte == b'"' && !escaped;
            escaped = byte == b'\\' && !escaped;
            ends
        });
        let Some(end) = end else {
            return Err(Why::quoting(LONGEST_SHOWN, |quoted| {
                format!("expected `\"` at the end of {}, found none", quoted(self.0))
            }));
        };
        let text = unescaped(&self.0[..end]);
        self.0 = &self.0[end + 1..];
        Ok(text)
    }

    /// The value of the metric of this name, or of an exemplar.
    pub(super) fn number(&mut self, metric: Option<&str>) -> Result<Number, Why> {
        let word = self.take_word();
        if let Some(value) = to_number(word.strip_suffix('.').unwrap_or(word)) {
            return Ok(Number { value, word: None });
        }
        let word = match word.to_ascii_lowercase().as_str() {
            "nan" => "NaN",
            "inf" | "+inf" | "infinity" | "+infinity" => "+Inf",
            "-inf" | "-infinity" => "-Inf",
            lower => {
                return Err(Why::quoting(LONGEST_SHOWN, |quoted| {
                    let found = if lower.is_empty() { "none".to_owned() } else { quoted(word) };
                    match metric {
                        Some(name) => format!("expected a value of {}, found {found}", quoted(name)),
                        None => format!("expected the value of an exemplar, found {found}"),
                    }
                }));
            }
        };
        Ok(Number { value: Value::Null, word: Some(word) })
    }

    /// Says that something else was expected than what is left.
    fn refuse(&self, expected: &str) -> Why {
        Why::quoting(LONGEST_SHOWN, |quoted| format!("expected {expected}, found {}", quoted(self.0)))
    }

    /// When a sample was taken, as the server writes it.
    pub(super) fn time(&mut self) -> Result<Option<Value>, Why> {
        if self.0.is_empty() || self.0.starts_with('#') {
            return Ok(None);
        }
        let word = self.take_word();
        let time = to_number(word);
        time.map(Some).ok_or_else(|| Scanner(word).refuse("a time after the value"))
    }

    /// What OpenMetrics has behind a bucket: `# {trace_id="…"} 0.67 1520879607.789`.
    pub(super) fn exemplar(&mut self) -> Result<Option<Value>, Why> {
        if !self.take('#') {
            return Ok(None);
        }
        self.skip_blanks();
        if !self.take('{') {
            return Err(self.refuse("the labels of an exemplar"));
        }
        let mut labels = Map::new();
        if self.labels(&mut labels)?.is_some() {
            return Err("expected the labels of an exemplar, found a name".into());
        }
        let mut exemplar = Map::new();
        exemplar.insert("labels".into(), Value::Object(labels));
        exemplar.insert("value".into(), self.number(None)?.value);
        exemplar.extend(self.time()?.map(|time| ("timestamp".to_owned(), time)));
        Ok(Some(Value::Object(exemplar)))
    }
}

/// A value as JSON, and its word where JSON has no number for it.
pub(super) struct Number {
    pub(super) value: Value,
    pub(super) word: Option<&'static str>,
}

/// A text without its escapes: `\\`, `\"` and `\n`. Others are left as they stand.
pub(super) fn unescaped(text: &str) -> String {
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
