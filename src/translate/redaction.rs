//! What a route keeps from clients: the words of its errors that match its patterns.
//!
//! In reading order: a [`Redaction`] hides what its [`SecretPattern`]s match in texts, in values and their
//! names, and in all parts of a tool error.

use std::{borrow::Cow, collections::HashMap, fmt, ops::Range, sync::LazyLock};

use regex::Regex;
use serde_json::{Map, Value};

use super::{
    default_error::CODE_META_KEY,
    pattern::Pattern,
    translator::{TranslationLimits, Translator},
};
use crate::model::{
    Block, Content, JsonText, ResourceBody, SentBlock, Text, TooManyValues, ToolResult, cut_bytes,
    floor_char_boundary,
};

/// What stands in the place of words that are kept from clients.
const MARK: &str = "[redacted]";

/// How far behind the end of what is shown a match may reach, in bytes. A string of more than that in the
/// structure of an error is replaced as a whole: a search in it would take the square of its length, with
/// some patterns.
const REACH_BYTES: usize = 64 << 10;

/// Patterns of words that no error may tell.
#[derive(Debug, Clone, Default)]
pub struct Redaction {
    patterns: Vec<SecretPattern>,
}

impl Redaction {
    /// Of these patterns.
    pub fn new(patterns: Vec<SecretPattern>) -> Self {
        Self { patterns }
    }

    /// The same with the patterns of another behind.
    #[must_use]
    pub fn and(mut self, other: Self) -> Self {
        self.patterns.extend(other.patterns);
        self
    }

    /// How much of a text that clients are told is looked at.
    const LONGEST_TOLD: usize = 4096;

    /// Whether there is nothing to keep.
    pub(super) fn is_empty(&self) -> bool {
        self.patterns.is_empty()
    }

    /// A text with what matches replaced.
    pub(super) fn hide<'t>(&self, text: &'t str) -> Cow<'t, str> {
        self.hide_until(text, text.len())
    }

    /// A text of any length with what matches replaced, looked through a part at a time: a match may be as
    /// long as a part at least.
    pub fn hide_long<'t>(&self, text: &'t str) -> Cow<'t, str> {
        if self.is_empty() || text.len() <= REACH_BYTES {
            return self.hide(text);
        }
        let (mut hidden, mut done) = (String::with_capacity(text.len()), 0);
        while done < text.len() {
            let (part, length) = self.hide_part(&text[done..], REACH_BYTES);
            hidden.push_str(&part);
            done += length;
        }
        Cow::Owned(hidden)
    }

    /// The first `end` bytes of a text with what matches replaced; what begins there is replaced as a whole,
    /// wherever it ends.
    fn hide_until<'t>(&self, text: &'t str, end: usize) -> Cow<'t, str> {
        self.hide_part(text, end).0
    }

    /// The same, and how much of the text that is.
    fn hide_part<'t>(&self, text: &'t str, end: usize) -> (Cow<'t, str>, usize) {
        let (end, reach) =
            (floor_char_boundary(text, end), floor_char_boundary(text, end.saturating_add(REACH_BYTES)));
        let window = &text[..reach];
        let mut found: Vec<_> =
            self.patterns.iter().flat_map(|pattern| pattern.found_in(window, end)).collect();
        found.retain(|range| !range.is_empty());
        if found.is_empty() {
            return (Cow::Borrowed(&text[..end]), end);
        }
        // What was replaced before stays as it is, so that a pattern may match the mark.
        found.extend(window.match_indices(MARK).map(|(at, mark)| at..at + mark.len()));
        found.sort_by_key(|range| range.start);
        let (mut hidden, mut done) = (String::with_capacity(end), 0);
        let mut found = found.into_iter().take_while(|range| range.start < end).peekable();
        while let Some(mut range) = found.next() {
            while let Some(next) = found.next_if(|next| next.start <= range.end) {
                range.end = range.end.max(next.end);
            }
            hidden.push_str(&text[done..range.start]);
            hidden.push_str(MARK);
            done = range.end;
        }
        hidden.push_str(text.get(done..end).unwrap_or_default());
        (Cow::Owned(hidden), done.max(end))
    }

    /// At most `limit_bytes` of a text, what matches replaced before the text is cut: half a secret matches
    /// no pattern.
    pub fn capped(&self, text: &str, limit_bytes: usize) -> String {
        if self.is_empty() {
            return cut_bytes(text, limit_bytes);
        }
        // What is replaced may be longer than the mark, so more than the limit is looked at.
        let end = limit_bytes.saturating_mul(2);
        let mut hidden = self.hide_until(text, end).into_owned();
        if end < text.len() {
            hidden.push_str(" […]");
        }
        cut_bytes(&hidden, limit_bytes)
    }

    /// A text of an upstream that clients are told beside a result: one line, without what no error shows,
    /// cut where it is longer.
    pub fn told(&self, text: &str, limit_bytes: usize) -> String {
        let hidden = self.capped(text, Self::LONGEST_TOLD);
        let line = hidden.split_whitespace().collect::<Vec<_>>().join(" ");
        cut_bytes(&super::leak_filter::safe_words(&line), limit_bytes)
    }

    /// At most about so many bytes of a text, what matches replaced, and cut at white space so that no
    /// address in it is cut in two.
    pub(super) fn beginning(&self, text: &str, most_bytes: usize) -> String {
        let begun = self.hide_until(text, most_bytes);
        if text.len() <= most_bytes {
            return begun.into_owned();
        }
        begun.rfind(char::is_whitespace).map_or_else(String::new, |end| begun[..end].to_owned())
    }

    /// A sentence without the words that it quotes of a reply and has cut short, which may end in half a
    /// secret.
    pub(super) fn without_cut_quotes<'t>(&self, sentence: &'t str) -> Cow<'t, str> {
        static CUT: LazyLock<Regex> =
            LazyLock::new(|| Regex::new(r#"…\]?[`"]"#).expect("the pattern is fixed and tested"));
        let mut sentence = Cow::Borrowed(sentence);
        if self.is_empty() {
            return sentence;
        }
        while let Some(cut) = CUT.find(&sentence) {
            let before = &sentence[..cut.start()];
            const FOUND: &str = "found ";
            let begins = |quote: char| before.find(&format!("{FOUND}{quote}")).map(|at| at + FOUND.len());
            // A quote may have quotes in it, so the first that opens is taken.
            let start = begins('`').or_else(|| begins('"')).or_else(|| before.find(['`', '"']));
            let (start, end) = (start.unwrap_or(0), cut.end());
            sentence.to_mut().replace_range(start..end, MARK);
        }
        sentence
    }
}

/// The name of the capture that is replaced alone.
const PART: &str = "secret";

/// One of them. All that matches is replaced, or the capture `secret` alone where the pattern has one.
#[derive(Clone)]
pub struct SecretPattern {
    regex: Regex,
    has_part: bool,
}

/// A pattern of one secret says what it is.
impl fmt::Debug for SecretPattern {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("SecretPattern(…)")
    }
}

/// Why a pattern can't say what is to be replaced.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SecretPatternError {
    /// It matches the empty text, and so everywhere.
    #[error("it matches the empty text")]
    MatchesNothing,
    /// It has a capture of another name.
    #[error("its capture `{0}` has no meaning here")]
    Capture(String),
}

impl SecretPattern {
    /// Of a pattern.
    ///
    /// # Errors
    ///
    /// [`SecretPatternError`] when it matches the empty text, or has a named capture that is not `secret`.
    pub fn new(pattern: &Pattern) -> Result<Self, SecretPatternError> {
        let regex = pattern.regex().clone();
        if regex.is_match("") {
            return Err(SecretPatternError::MatchesNothing);
        }
        match pattern.names().iter().find(|name| *name != PART) {
            Some(other) => Err(SecretPatternError::Capture(other.clone())),
            None => Ok(Self { has_part: !pattern.names().is_empty(), regex }),
        }
    }

    /// What is to be replaced of a text, as far as it begins before `end`.
    pub(super) fn found_in(&self, text: &str, end: usize) -> Vec<Range<usize>> {
        if self.has_part {
            let found = self.regex.captures_iter(text).map(|captures| {
                let whole = captures.get(0).map(|found| found.range()).unwrap_or_default();
                captures.name(PART).map_or(whole, |part| part.range())
            });
            found.take_while(|range| range.start < end).collect()
        } else {
            let found = self.regex.find_iter(text).map(|found| found.range());
            found.take_while(|range| range.start < end).collect()
        }
    }
}

impl Redaction {
    /// A value with what matches replaced in its strings, in the names of its members, and in its numbers.
    pub(in crate::translate) fn hide_in(&self, value: Value) -> Value {
        let hide = |text: String| match self.hide_short(&text) {
            Cow::Borrowed(shown) if shown.len() == text.len() => text,
            shown => shown.into_owned(),
        };
        match value {
            Value::String(text) => Value::String(hide(text)),
            // The number of a card is one, too.
            Value::Number(number) => match self.hide_short(number.as_str()) {
                Cow::Borrowed(MARK) => MARK.into(),
                Cow::Borrowed(_) => Value::Number(number),
                Cow::Owned(hidden) => Value::String(hidden),
            },
            Value::Array(items) => items.into_iter().map(|item| self.hide_in(item)).collect(),
            Value::Object(members) => {
                let mut hidden = Map::with_capacity(members.len());
                let mut again: HashMap<String, usize> = HashMap::new();
                for (name, value) in members {
                    let mut name = hide(name);
                    // Two names may be one now, and neither member may be lost.
                    while hidden.contains_key(&name) {
                        let count = again.entry(name.clone()).or_default();
                        *count += 1;
                        name.push('+');
                        if *count > 1 {
                            name.push_str(&count.to_string());
                        }
                    }
                    hidden.insert(name, self.hide_in(value));
                }
                Value::Object(hidden)
            }
            Value::Null | Value::Bool(_) => value,
        }
    }

    /// A text with what matches replaced; one that is too long to look through is replaced as a whole.
    fn hide_short<'t>(&self, text: &'t str) -> Cow<'t, str> {
        if text.len() > REACH_BYTES { Cow::Borrowed(MARK) } else { self.hide(text) }
    }
}

impl Translator {
    /// A tool error as clients may see it: what the route keeps to itself is replaced in its text, its code
    /// and its structure, and its texts have their limit. A success stays as it is.
    #[must_use]
    pub fn for_clients(&self, mut result: ToolResult) -> ToolResult {
        if !result.is_error() {
            return result;
        }
        result.content =
            result.content.into_iter().map(|content| self.redaction.content(content, &self.limits)).collect();
        if self.redaction.is_empty() {
            return result;
        }
        if let Some(code) = result.meta.get_mut(CODE_META_KEY) {
            *code = self.redaction.hide_in(code.take());
        }
        // What is too large to be looked through may say anything.
        let structured =
            result.structured.filter(|structured| structured.json().has_at_most(self.limits.values).is_ok());
        result.structured = structured.map(|structured| {
            let hidden = self.redaction.hide_in(structured.json().parse());
            structured.with_json(JsonText::of(&hidden))
        });
        result
    }
}

impl Redaction {
    /// A block of an error; one in which there is nothing to hide or to cut stays as it came.
    fn content(&self, content: Content, limits: &TranslationLimits) -> Content {
        let limit_bytes = limits.error_text_bytes;
        let Content { block, annotations } = content;
        let hide = |text: String| self.hide(&text).into_owned();
        let block = match block {
            Block::Text(Text::Plain(text)) => Block::Text(Text::Plain(self.capped(&text, limit_bytes))),
            Block::Text(Text::Error(text)) => Block::Text(Text::Error(self.capped(&text, limit_bytes))),
            Block::Text(Text::Shared(text)) => Block::Text(Text::Plain(self.capped(&text, limit_bytes))),
            Block::AsSent(sent) => self.sent(sent, limits),
            Block::ResourceLink { uri, name, description, mime_type } => Block::ResourceLink {
                uri: hide(uri),
                name: hide(name),
                description: description.map(hide),
                mime_type,
            },
            Block::Resource { uri, mime_type, body } => {
                let body = match body {
                    ResourceBody::Text(text) => ResourceBody::Text(hide(text)),
                    ResourceBody::Blob(bytes) => ResourceBody::Blob(bytes),
                };
                Block::Resource { uri: hide(uri), mime_type, body }
            }
            // The structure is looked through on its own; in bytes nothing is looked for.
            block @ (Block::Text(Text::OfStructure) | Block::Image { .. } | Block::Audio { .. }) => block,
        };
        Content { block, annotations }
    }

    fn sent(&self, sent: SentBlock, limits: &TranslationLimits) -> Block {
        let limit_bytes = limits.error_text_bytes;
        if let Some(text) = &sent.text {
            let shown = self.capped(text, limit_bytes);
            if shown != *text {
                return Block::Text(Text::Plain(shown));
            }
        }
        if self.is_empty() {
            return Block::AsSent(sent);
        }
        if let Err(TooManyValues { most, .. }) = sent.json.has_at_most(limits.values) {
            return Block::Text(Text::Plain(format!(
                "A block of the reply is left out, as it has more than {most} values, which is the `max_values`."
            )));
        }
        let json = sent.json.parse();
        // Base64, in which words would be found by chance alone.
        let bytes = |pointer: &str| json.pointer(pointer).cloned();
        let kept: Vec<_> =
            ["/data", "/resource/blob"].into_iter().filter_map(|at| Some((at, bytes(at)?))).collect();
        let mut hidden = self.hide_in(json.clone());
        for (pointer, bytes) in kept {
            if let Some(place) = hidden.pointer_mut(pointer) {
                *place = bytes;
            }
        }
        if hidden == json {
            return Block::AsSent(sent);
        }
        Block::AsSent(SentBlock {
            json: JsonText::of(&hidden),
            text: sent.text,
            link: sent.link.map(|link| self.hide(&link).into_owned()),
        })
    }

    /// Where in an error something was replaced, in words; `None` when nowhere.
    pub(in crate::translate) fn found_in(&self, result: &ToolResult) -> Option<String> {
        if self.is_empty() || !result.is_error() {
            return None;
        }
        let in_text = result.content.iter().any(|content| match &content.block {
            Block::AsSent(sent) => sent.json.as_str().contains(MARK),
            block => block.text(None).is_some_and(|text| text.contains(MARK)),
        });
        let in_code = result.meta.get(CODE_META_KEY).is_some_and(|code| code.to_string().contains(MARK));
        let in_structure =
            result.structured.as_ref().is_some_and(|structured| structured.json().as_str().contains(MARK));
        let places = [(in_text, "the text"), (in_code, "the code"), (in_structure, "the structure")];
        let places: Vec<_> =
            places.into_iter().filter_map(|(is_there, name)| is_there.then_some(name)).collect();
        (!places.is_empty()).then(|| format!("words were replaced in {}", places.join(" and ")))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Map, Value, json};

    use super::*;
    use crate::translate::pattern::Pattern;

    fn redaction(patterns: &[&str]) -> Redaction {
        let secret = |source: &&str| SecretPattern::new(&Pattern::compile(source).unwrap()).unwrap();
        Redaction::new(patterns.iter().map(secret).collect())
    }

    #[track_caller]
    fn check(patterns: &[&str], text: &str, expected: &str) {
        let redaction = redaction(patterns);
        let hidden = redaction.hide(text).into_owned();
        assert_eq!(hidden, expected);
        assert_eq!(redaction.hide(&hidden), expected, "what is hidden stays as it is");
    }

    #[test]
    fn what_matches_is_replaced() {
        check(&[r"\b\d{4}-\d{4}\b"], "card 1234-5678 of Bo", "card [redacted] of Bo");
        check(&[r"card \d+", r"\d+ of \w+"], "card 12 of Bo", "[redacted]");
        check(&[r"\d"], "1234 x 5", "[redacted] x [redacted]");
        check(&[r"\w+"], "a b", "[redacted] [redacted]");
        check(&[r"(?i)user=(?<secret>\w+)"], "user=bo, USER=al", "user=[redacted], USER=[redacted]");
        check(&[r"user=(?<secret>\w+)|anna"], "user=bo, anna", "user=[redacted], [redacted]");
        check(&["søn"], "person: søn!", "person: [redacted]!");
        check(&[], "as it is", "as it is");
    }

    #[test]
    fn a_secret_at_the_cut_is_replaced_as_a_whole() {
        let redaction = redaction(&["(?s)KEY.*?END"]);
        let long = format!("{}KEY{}END and more", "x".repeat(90), "y".repeat(5000));
        let shown = redaction.capped(&long, 100);
        assert!(shown.len() <= 100 && shown.ends_with(" […]") && !shown.contains(['K', 'y']), "{shown}");
        let many = format!("{} tail", "KEYyEND ".repeat(40));
        let shown = redaction.capped(&many, 64);
        assert!(shown.len() <= 64 && shown.ends_with("[…]") && !shown.contains('y'), "{shown}");
        let begun = redaction.beginning(&format!("why {long}"), 100);
        assert_eq!(begun, "why");
    }

    #[test]
    fn a_quote_that_was_cut_is_not_shown() {
        let redaction = redaction(&["secret"]);
        let check = |sentence: &str, expected: &str| {
            assert_eq!(redaction.without_cut_quotes(sentence), expected);
        };
        check(
            "line 3: expected `key: value`, found `a `b` sec…`",
            "line 3: expected `key: value`, found [redacted]",
        );
        check("a value of `sec…` expected", "a value of [redacted] expected");
        check("expected XML, found \"<sec…\"", "expected XML, found [redacted]");
        check("found `sec […]`, not gzip", "found [redacted], not gzip");
        check("expected `a`, found `b`", "expected `a`, found `b`");
    }

    #[test]
    fn every_part_of_a_value_is_looked_through() {
        let redaction = redaction(&[r"\d{6,}", "bo@x"]);
        let value =
            json!({"card": 1234567, "n": 5, "bo@x": [{"to": "bo@x!"}, true], "1234567": 1, "12345678": 2});
        assert_eq!(
            redaction.hide_in(value),
            json!({"card": "[redacted]", "n": 5, "[redacted]": [{"to": "[redacted]!"}, true], "[redacted]+": 1,
            "[redacted]+2": 2})
        );
        assert_eq!(redaction.hide_in(json!("x".repeat(REACH_BYTES + 1))), json!("[redacted]"));
    }

    #[test]
    fn a_pattern_says_what_is_to_be_replaced() {
        let refused = |source| SecretPattern::new(&Pattern::compile(source).unwrap()).unwrap_err();
        assert_eq!(refused(r"\d*"), SecretPatternError::MatchesNothing);
        assert_eq!(refused("(?<card>x)"), SecretPatternError::Capture("card".into()));
    }

    #[test]
    fn a_long_text_is_looked_through_in_linear_time() {
        // Each `KEY` begins a match that has no end: far more of them than are shown.
        let redaction = redaction(&["(?s)KEY.*END|token"]);
        let text = "KEYtoken".repeat(1 << 15);
        assert!(!redaction.capped(&text, 2048).contains("token"));
    }

    #[test]
    fn a_text_of_any_length_is_looked_through() {
        let redaction = redaction(&["se+cret"]);
        for before in [0, REACH_BYTES - 3, REACH_BYTES, 3 * REACH_BYTES - 1] {
            let (before, secret) = ("é".repeat(before / 2), "s".to_owned() + &"e".repeat(1000) + "cret");
            let text = format!("{before}{secret} and {before}{secret}");
            assert_eq!(redaction.hide_long(&text), format!("{before}[redacted] and {before}[redacted]"));
        }
        assert_eq!(Redaction::default().hide_long("secret"), "secret");
    }

    #[test]
    fn many_names_that_become_one_are_told_apart_in_linear_time() {
        let members: Map<String, Value> =
            (0..20_000).map(|number| (format!("secret{number}"), number.into())).collect();
        let Value::Object(hidden) = redaction(&[r"secret\d+"]).hide_in(Value::Object(members)) else {
            panic!("an object stays one")
        };
        assert_eq!((hidden.len(), hidden.get("[redacted]+19999")), (20_000, Some(&Value::from(19_999))));
    }
}
