//! `regex`: named captures of regular expressions. Also runs `grok`, whose patterns are converted to regular
//! expressions.

use serde_json::{Map, Value};
use settings_derive::{EnumSetting, Section};

use super::records::{LineBlock, Records, add, gather, lines, with_plain_line_ends};
use super::{Extracted, FormatParser, MemberNames, Typing, ValueCount};
use crate::settings::{
    Checked, Code, Cursor, Invalid, KeySpec, Node, Setting, ValueKind, read_each, suggest,
};
use crate::translate::fields::FieldType;
use crate::translate::pattern::Pattern;
use crate::translate::read_error::ReadError;
use crate::translate::response_view::ResponseView;
use crate::translate::work_budget::WorkBudget;

/// Extracts the named captures of patterns into an object, or a list of objects.
///
/// Each pattern is searched separately and their captures are merged, so the parts of a record may occur in
/// any order. A capture without a match is omitted, and so are all captures of a pattern without a match if
/// another one matches. A name captured several times becomes a list. Lines may end in CR LF, or all in CR;
/// patterns see `\n`.
#[derive(Debug, Section)]
pub struct Regex {
    /// Regular expression with named captures, `(?<name>…)`, or a list of them.
    #[key(name = "pattern", example = "pattern: '(?<name>…)'")]
    pub patterns: CapturePatterns,
    /// Scope of the search: the first match, every match, every matching line, or every matching block of
    /// lines.
    #[key(default = SearchScope::First)]
    pub each: SearchScope,
    /// How records are separated.
    #[key(part)]
    pub records: Records,
}

/// Scope of the search.
#[derive(Debug, Clone, Copy, PartialEq, Eq, EnumSetting)]
pub enum SearchScope {
    /// The first match becomes an object.
    First,
    /// Each match becomes an object of a list.
    Match,
    /// Each matching line becomes an object of a list; other lines are skipped.
    Line,
    /// Each matching block of lines becomes an object of a list; other blocks are skipped.
    Block,
}

/// Patterns of a rule: at least one, and exactly one with [`SearchScope::Match`].
#[derive(Debug)]
pub struct CapturePatterns(pub Vec<CapturePattern>);

impl Setting for CapturePatterns {
    const KIND: ValueKind = ValueKind::OneOrMore(&ValueKind::Text);

    fn read(value: &Cursor<'_>) -> Checked<Self> {
        Self::read_with(value, |pattern| {
            let is_in_blocks = pattern.sibling("each").and_then(Node::as_text) == Some("block");
            let captures = CapturePattern::plain(Pattern::read_with(pattern, is_in_blocks)?);
            captures.check_names(pattern, "`(?<temperature>\\d+)`")
        })
    }
}

impl CapturePatterns {
    /// Reads one pattern or a list of patterns, each with `read`.
    pub(super) fn read_with(
        value: &Cursor<'_>,
        read: impl Fn(&Cursor<'_>) -> Checked<CapturePattern>,
    ) -> Checked<Self> {
        let patterns = value.node.one_or_more();
        if patterns.is_empty() {
            let help = format!("write `{}`", value.key.map_or("", |key: &KeySpec| key.example));
            return value.reject(Invalid::new("`pattern` is empty", help).with_code(Code::EmptyValue));
        }
        let part = |node| value.part(node, "the pattern", ValueKind::Text);
        let compiled = read_each(patterns.iter().map(|node| read(&part(node))))?;
        if patterns.len() > 1 && value.sibling("each").and_then(Node::as_text) == Some("match") {
            let help = "write `each: line` or `each: block`, which join the captures of several patterns";
            let invalid = Invalid::new("`each: match` requires one pattern, found several", help);
            return value.reject_at(patterns[1].span, invalid.with_code(Code::ConflictingKeys));
        }
        Ok(Self(compiled))
    }
}

/// Pattern with the names and types of its captures.
#[derive(Debug)]
pub struct CapturePattern {
    pub(super) pattern: Pattern,
    /// The pattern as configured, which may be in grok syntax.
    pub(super) source: String,
    /// Captures, in the order of the pattern.
    pub(super) captures: Vec<Capture>,
}

/// Capture of a pattern.
#[derive(Debug, Clone, PartialEq)]
pub struct Capture {
    /// Name of the group in the pattern.
    pub group: String,
    /// Name in the result.
    pub name: String,
    /// Type of the value; `None` for a string that is not converted.
    pub kind: Option<FieldType>,
}

impl CapturePattern {
    /// Creates a pattern whose captures keep their names and are strings.
    pub fn plain(pattern: Pattern) -> Self {
        let string_capture =
            |name: &str| Capture { group: name.to_owned(), name: name.to_owned(), kind: None };
        let captures = pattern.names().map(string_capture).collect();
        Self { source: pattern.to_string(), captures, pattern }
    }

    /// Reports a pattern without named captures.
    pub(super) fn check_names(self, value: &Cursor<'_>, example: &str) -> Checked<Self> {
        if self.captures.is_empty() {
            let help = format!("add a named capture: {example}");
            let invalid = Invalid::new("the pattern has no named capture", help);
            return value.reject(invalid.with_code(Code::NoCaptures));
        }
        Ok(self)
    }

    /// Adds the captures of the match `found` in a block to a record.
    fn add_captures(
        &self,
        found: &regex::Captures<'_>,
        block: LineBlock<'_>,
        record: &mut Map<String, Value>,
    ) -> Result<(), ReadError> {
        for Capture { group, name, kind } in &self.captures {
            let Some(captured) = found.name(group) else { continue };
            let mut value = Value::from(captured.as_str());
            if let Some(kind) = kind {
                value = kind.apply(&value).map_err(|error| {
                    let subject = format!("line {}: `{name}`", block.line_of(captured.start()));
                    error.with_subject(&subject, &subject)
                })?;
            }
            add(record, name, value);
        }
        Ok(())
    }
}

impl FormatParser for Regex {
    fn result_shape(&self) -> (ValueCount, MemberNames<'_>) {
        let count = match self.each {
            SearchScope::First => ValueCount::One,
            SearchScope::Match | SearchScope::Line | SearchScope::Block => ValueCount::Many,
        };
        let captures = self.patterns.0.iter().flat_map(|pattern| &pattern.captures);
        (count, MemberNames::Names(captures.map(|capture| capture.name.as_str()).collect()))
    }

    fn find(&self, view: &ResponseView<'_>, _: &Typing) -> Result<Extracted, ReadError> {
        self.extract(view.text()?, view.input.work_budget).map(Extracted::Value)
    }
}

impl Regex {
    /// Extracts the records. Checks `stop` between two matches: one search takes linear time, but many
    /// searches may take quadratic time.
    pub(super) fn extract(&self, text: &str, work_budget: Option<&WorkBudget>) -> Result<Value, ReadError> {
        let text = &*with_plain_line_ends(text);
        let whole_text = LineBlock { text, line: 1 };
        let (records, subject) = match self.each {
            SearchScope::First => {
                return self.record(whole_text).unwrap_or_else(|| Err(self.no_match_error("text")));
            }
            SearchScope::Match => {
                let matches = self.patterns.0.iter().take(1).flat_map(|pattern| {
                    pattern.pattern.captures_iter(text).map(move |found| {
                        // The search for the next match may read the whole rest of the text.
                        let remaining = text.len() - found.get(0).map_or(0, |whole| whole.start());
                        WorkBudget::check_search(work_budget, remaining)?;
                        let mut record = Map::new();
                        pattern.add_captures(&found, whole_text, &mut record).map(|()| Value::Object(record))
                    })
                });
                (gather(matches, "matches")?, "text")
            }
            SearchScope::Line => {
                (gather(lines(text).filter_map(|line| self.record(line)), "lines that match")?, "a line")
            }
            SearchScope::Block => {
                let records = self.records.blocks(text).filter_map(|block| self.record(block));
                (gather(records, "blocks that match")?, "a block")
            }
        };
        if records.is_empty() && !self.records.allow_empty {
            return Err(self.no_match_error(subject));
        }
        Ok(Value::Array(records))
    }

    /// Returns the captures of all patterns in one block; `None` if no pattern matches.
    fn record(&self, block: LineBlock<'_>) -> Option<Result<Value, ReadError>> {
        let mut record = None;
        for pattern in &self.patterns.0 {
            let Some(found) = pattern.pattern.captures(block.text) else { continue };
            if let Err(error) = pattern.add_captures(&found, block, record.get_or_insert_with(Map::new)) {
                return Some(Err(error));
            }
        }
        record.map(|record| Ok(Value::Object(record)))
    }

    /// Whether a pattern matches in a part of the text that the rule searches.
    pub(super) fn matches(&self, text: &str) -> bool {
        let text = &*with_plain_line_ends(text);
        let matches = |text: &str| self.patterns.0.iter().any(|pattern| pattern.pattern.is_match(text));
        match self.each {
            SearchScope::First | SearchScope::Match => matches(text),
            SearchScope::Line => lines(text).any(|line| matches(line.text)),
            SearchScope::Block => self.records.blocks(text).any(|block| matches(block.text)),
        }
    }

    /// Returns the patterns without a match in a text, as configured.
    pub(super) fn missing_in(&self, text: &str) -> impl Iterator<Item = &str> {
        let text = with_plain_line_ends(text);
        let missing = move |pattern: &&CapturePattern| !pattern.pattern.is_match(&text);
        self.patterns.0.iter().filter(missing).map(|pattern| pattern.source.as_str())
    }

    fn no_match_error(&self, subject: &str) -> ReadError {
        let patterns = suggest::quoted_list(self.patterns.0.iter().map(|pattern| pattern.source.as_str()));
        read_error!("expected {subject} that matches {patterns}, found none")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::translate::fields::{FieldKind, NumberForm};
    use crate::translate::work_budget::STOPPED;

    #[track_caller]
    fn check(patterns: &[&str], each: SearchScope, text: &str, expected: Result<&str, &str>) {
        check_records(patterns, each, Records::default(), text, expected);
    }

    #[track_caller]
    fn check_records(
        patterns: &[&str],
        each: SearchScope,
        records: Records,
        text: &str,
        expected: Result<&str, &str>,
    ) {
        let is_multi_line = each == SearchScope::Block;
        let compiled = |source: &&str| {
            let pattern = if is_multi_line { Pattern::multi_line(source) } else { Pattern::compile(source) };
            CapturePattern::plain(pattern.unwrap())
        };
        let regex =
            Regex { patterns: CapturePatterns(patterns.iter().map(compiled).collect()), each, records };
        match (regex.extract(text, None), expected) {
            (Ok(value), Ok(expected)) => assert_eq!(value.to_string(), expected),
            (Err(error), Err(part)) => assert!(error.to_string().contains(part), "{error}"),
            (found, _) => panic!("found {found:?}"),
        }
    }

    #[test]
    fn the_first_match_gives_an_object() {
        check(
            &[r"Active connections: (?<active>\d+)"],
            SearchScope::First,
            "Active connections: 291 \n",
            Ok(r#"{"active":"291"}"#),
        );
        check(
            &[r"up (?<days>\d+) days(?:, (?<hours>\d+) hours)?"],
            SearchScope::First,
            "up 3 days",
            Ok(r#"{"days":"3"}"#),
        );
        check(&[r"(?<x>\d+)"], SearchScope::First, "none", Err("expected text that matches"));
    }

    #[test]
    fn each_match_or_each_line_gives_an_array() {
        check(
            &[r"(?<k>\w)=(?<v>\d)"],
            SearchScope::Match,
            "a=1 b=2",
            Ok(r#"[{"k":"a","v":"1"},{"k":"b","v":"2"}]"#),
        );
        check(
            &[r"^(?<k>\w)=(?<v>\d)$"],
            SearchScope::Line,
            "# head\na=1\r\nb=2\n",
            Ok(r#"[{"k":"a","v":"1"},{"k":"b","v":"2"}]"#),
        );
        check(&[r"^(?<k>\w)=1$"], SearchScope::Line, "# head\ra=1\rb=2\r", Ok(r#"[{"k":"a"}]"#));
        check(
            &[r"^(?<k>z)$"],
            SearchScope::Line,
            "a\nb",
            Err("expected a line that matches `^(?<k>z)$`, found none"),
        );
    }

    #[test]
    fn several_patterns_find_the_parts_of_a_record_in_any_order() {
        let patterns = [r"cpu (?<cpu>\d+)%", r"mem (?<mem>\d+)", r"load (?<load>\S+)"];
        check(&patterns, SearchScope::First, "mem 5\r\ncpu 7%", Ok(r#"{"cpu":"7","mem":"5"}"#));
        check(
            &patterns,
            SearchScope::Line,
            "cpu 1%\nidle\nmem 2 cpu 3%",
            Ok(r#"[{"cpu":"1"},{"cpu":"3","mem":"2"}]"#),
        );
        check(&patterns, SearchScope::First, "idle", Err("matches `cpu (?<cpu>\\d+)%`, `mem"));
        check(&["a (?<x>.)", "b (?<x>.)"], SearchScope::First, "b 1 a 2", Ok(r#"{"x":["2","1"]}"#));
    }

    #[test]
    fn blocks_are_records_of_several_lines() {
        let status = "Package: bash\nStatus: ok\n\nPackage: dash\nVersion: 5\nStatus: half\n\n\n# end\n";
        let patterns = ["^Status: (?<status>.*)$", "^Package: (?<package>.*)$"];
        let expected = r#"[{"status":"ok","package":"bash"},{"status":"half","package":"dash"}]"#;
        check(&patterns, SearchScope::Block, status, Ok(expected));
        check(&patterns, SearchScope::Block, &status.replace('\n', "\r\n"), Ok(expected));
        check(&patterns, SearchScope::Block, "x\n\ny", Err("expected a block that matches"));
        let addresses = "1: lo: <UP> mtu 65536\n    inet 127.0.0.1/8 scope host lo\n2: eth0: <UP> mtu 1400\n    \
            link/ether 02:fc:00:00:00:01 brd ff\n    inet 192.0.2.2/24 brd 192.0.2.255\n";
        let block_start = Some(Pattern::compile(r"^\d+: ").unwrap());
        check_records(
            &[r"^\d+: (?<name>\S+): .* mtu (?<mtu>\d+)", r"link/ether (?<mac>\S+)", r"inet (?<address>\S+)"],
            SearchScope::Block,
            Records { block_start, ..Records::default() },
            addresses,
            Ok(concat!(
                r#"[{"name":"lo","mtu":"65536","address":"127.0.0.1/8"},"#,
                r#"{"name":"eth0","mtu":"1400","mac":"02:fc:00:00:00:01","address":"192.0.2.2/24"}]"#
            )),
        );
    }

    #[test]
    fn an_empty_list_is_valid_if_configured() {
        let patterns = vec![CapturePattern::plain(Pattern::compile("^(?<job>\\d+)$").unwrap())];
        let records = Records { allow_empty: true, ..Records::default() };
        let regex = Regex { patterns: CapturePatterns(patterns), each: SearchScope::Line, records };
        assert_eq!(regex.extract("Queue is empty\n", None).unwrap().to_string(), "[]");
    }

    #[test]
    fn a_capture_of_the_wrong_type_is_an_error_with_its_line() {
        let pattern = Pattern::compile("(?<g>\\w+) bytes").unwrap();
        let kind = Some(FieldType::from(FieldKind::Integer(NumberForm::default())));
        let capture = Capture { group: "g".into(), name: "size".into(), kind };
        let pattern = CapturePattern { captures: vec![capture], ..CapturePattern::plain(pattern) };
        let regex = Regex {
            patterns: CapturePatterns(vec![pattern]),
            each: SearchScope::Match,
            records: Records::default(),
        };
        assert_eq!(regex.extract("5 bytes\r\n", None).unwrap().to_string(), r#"[{"size":5}]"#);
        let error = regex.extract("5 bytes\r\n\r\nno bytes", None).unwrap_err();
        assert_eq!(error.to_string(), "line 3: `size` must be an integer; found `no`");
    }

    #[test]
    fn hostile_responses_take_linear_time_and_bounded_memory() {
        let many = "a\n".repeat(150_000);
        check(&["(?<a>a)"], SearchScope::Match, &many, Err("at most 100000 matches"));
        check(&["(?<a>a)"], SearchScope::Line, &many, Err("at most 100000 lines that match"));
        check(&["(?<a>b)"], SearchScope::Line, &many, Err("found none"));
        let block_separator = Some(Pattern::compile("^-$").unwrap());
        check_records(
            &["(?<a>a+)$"],
            SearchScope::Block,
            Records { block_separator, ..Records::default() },
            &many,
            Ok(r#"[{"a":"a"}]"#),
        );
        check(&["(?<a>(x+x+)+y)"], SearchScope::First, &"x".repeat(1 << 20), Err("found none"));
    }

    #[test]
    fn matching_stops_when_the_call_is_cancelled() {
        let pattern = CapturePattern::plain(Pattern::compile("(?<x>a+b|a)").unwrap());
        let patterns = CapturePatterns(vec![pattern]);
        let regex = Regex { patterns, each: SearchScope::Match, records: Records::default() };
        let work_budget = WorkBudget::default();
        assert!(regex.extract("aaa", Some(&work_budget)).is_ok());
        work_budget.cancel();
        assert_eq!(regex.extract("aaa", Some(&work_budget)).unwrap_err().to_string(), STOPPED);
    }
}
