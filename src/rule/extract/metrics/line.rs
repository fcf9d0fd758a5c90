//! One line of the formats, piece by piece.

use serde_json::{Map, Value};

use super::Metrics;
use crate::rule::convert::to_number;

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
    pub(super) fn labels(&mut self, labels: &mut Map<String, Value>) -> Result<Option<String>, String> {
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

    pub(super) fn number(&mut self, what: &str) -> Result<Number, String> {
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
    pub(super) fn time(&mut self) -> Result<Option<Value>, String> {
        if self.0.is_empty() || self.0.starts_with('#') {
            return Ok(None);
        }
        let word = self.take_word();
        let time = to_number(word);
        time.map(Some).ok_or_else(|| format!("expected a time after the value, found `{}`", shown(word)))
    }

    /// What OpenMetrics has behind a bucket: `# {trace_id="…"} 0.67 1520879607.789`.
    pub(super) fn exemplar(&mut self) -> Result<Option<Value>, String> {
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

/// The beginning of a text, for an error.
pub(super) fn shown(text: &str) -> String {
    const LONGEST_SHOWN: usize = 60;
    match text.char_indices().nth(LONGEST_SHOWN) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}
