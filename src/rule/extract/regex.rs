//! `regex`: named captures of a regular expression.

use regex::Captures;
use serde_json::{Map, Value};

use super::RECORD_LIMIT;
use crate::rule::matcher::Pattern;

/// Reads the named captures of a pattern into an object of strings, or an array of such objects. A capture
/// that took no part in the match is left out.
#[derive(Debug)]
pub struct Regex {
    /// A pattern with at least one named capture, `(?<name>…)`.
    pub pattern: Pattern,
    /// How often.
    pub each: Each,
}

/// How often a pattern is looked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Each {
    /// Once: its first match gives an object.
    #[default]
    First,
    /// As often as it is there: each match gives an object of an array.
    Match,
    /// Once a line: each line that matches gives an object of an array; the others are passed over.
    Line,
}

impl Regex {
    pub(super) fn extract(&self, text: &str) -> Result<Value, String> {
        let regex = self.pattern.regex();
        let object = |captures: &Captures<'_>| Value::Object(self.object(captures));
        match self.each {
            Each::First => match regex.captures(text) {
                Some(captures) => Ok(object(&captures)),
                None => Err(format!("expected text that matches `{}`, found none", self.pattern)),
            },
            Each::Match => self.gather(regex.captures_iter(text).map(|captures| object(&captures))),
            Each::Line => self.gather(
                text.lines().filter_map(|line| regex.captures(line)).map(|captures| object(&captures)),
            ),
        }
    }

    fn gather(&self, found: impl Iterator<Item = Value>) -> Result<Value, String> {
        let records: Vec<Value> = found.take(RECORD_LIMIT + 1).collect();
        match records.len() {
            0 => Err(format!("expected text that matches `{}`, found none", self.pattern)),
            count if count > RECORD_LIMIT => {
                Err(format!("expected at most {RECORD_LIMIT} matches, found more"))
            }
            _ => Ok(Value::Array(records)),
        }
    }

    fn object(&self, captures: &Captures<'_>) -> Map<String, Value> {
        let names = self.pattern.names().iter();
        names.filter_map(|name| Some((name.clone(), captures.name(name)?.as_str().into()))).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(pattern: &str, each: Each, text: &str, expected: Result<&str, &str>) {
        let regex = Regex { pattern: Pattern::compile(pattern).unwrap(), each };
        match (regex.extract(text), expected) {
            (Ok(value), Ok(expected)) => assert_eq!(value.to_string(), expected),
            (Err(error), Err(part)) => assert!(error.contains(part), "{error}"),
            (found, _) => panic!("found {found:?}"),
        }
    }

    #[test]
    fn the_first_match_gives_an_object() {
        check(
            r"Active connections: (?<active>\d+)",
            Each::First,
            "Active connections: 291 \n",
            Ok(r#"{"active":"291"}"#),
        );
        check(
            r"up (?<days>\d+) days(?:, (?<hours>\d+) hours)?",
            Each::First,
            "up 3 days",
            Ok(r#"{"days":"3"}"#),
        );
        check(r"(?<x>\d+)", Each::First, "none", Err("expected text that matches"));
    }

    #[test]
    fn each_match_or_each_line_gives_an_array() {
        check(r"(?<k>\w)=(?<v>\d)", Each::Match, "a=1 b=2", Ok(r#"[{"k":"a","v":"1"},{"k":"b","v":"2"}]"#));
        check(
            r"^(?<k>\w)=(?<v>\d)$",
            Each::Line,
            "# head\na=1\r\nb=2\n",
            Ok(r#"[{"k":"a","v":"1"},{"k":"b","v":"2"}]"#),
        );
        check(r"^(?<k>z)$", Each::Line, "a\nb", Err("found none"));
    }
}
