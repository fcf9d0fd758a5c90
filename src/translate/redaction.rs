//! Redaction: replaces secrets in tool errors, by the patterns of a route.
//!
//! A [`Redaction`] replaces matches of its [`SecretPattern`]s in texts, in values and their member names, and
//! in all parts of a tool error.

use std::{borrow::Cow, collections::HashMap, ops::Range, sync::LazyLock};

use regex::{Regex, RegexBuilder};
use serde_json::{Map, Value};

use super::expressions::span_of_name;
use super::leak_filter::{ClientStrings, redact_error_text};
use super::{CODE_META_KEY, Pattern, TranslationLimits, Translator};
use crate::model::{
    BlockText, Content, ContentBlock, ForeignBlock, JsonText, TooManyValues, ToolResult, cut_bytes,
};
use crate::settings::credential_forms::{merged, replaced};
use crate::settings::{Checked, Code, Cursor, Setting, fixed_regex, text_of};

/// Text that replaces a secret.
const MARK: &str = "[redacted]";

/// Number of bytes after the end of the shown text that are still searched, so that a secret across the end
/// is found as a whole. Also the length of the parts in which a text is searched.
///
/// A longer string in the structured content of an error is replaced as a whole, because some patterns would
/// take quadratic time to search it.
const REACH_BYTES: usize = 64 << 10;

/// Patterns of text that no tool error may contain.
#[derive(Debug, Clone, Default)]
pub struct Redaction(pub Vec<SecretPattern>);

impl Redaction {
    /// Maximum number of bytes of a status message that are searched.
    const STATUS_MESSAGE_SEARCH_BYTES: usize = 4096;

    /// Whether there are no patterns.
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Replaces all matches in a text.
    pub fn redact<'t>(&self, text: &'t str) -> Cow<'t, str> {
        self.redact_beginning(text, text.len())
    }

    /// Replaces all secrets in the first `end` bytes of a text, and drops the rest. A secret that begins in
    /// these bytes is replaced as a whole, even if it ends after them.
    fn redact_beginning<'t>(&self, text: &'t str, end: usize) -> Cow<'t, str> {
        let end = text.floor_char_boundary(end);
        let mut found: Vec<_> = self.0.iter().flat_map(|pattern| pattern.secrets_in(text, end)).collect();
        found.retain(|range| range.start < end && !range.is_empty());
        if found.is_empty() {
            return Cow::Borrowed(&text[..end]);
        }
        // Marks from an earlier redaction stay as they are, even if a pattern matches them.
        let searched = &text[..text.floor_char_boundary(end.saturating_add(MARK.len()))];
        let marks = searched.match_indices(MARK).map(|(at, mark)| at..at + mark.len());
        found.extend(marks.take_while(|mark| mark.start < end));
        let found = merged(found);
        let end = found.last().map_or(end, |last| end.max(last.end));
        Cow::Owned(replaced(&text[..end], &found, MARK))
    }

    /// Replaces all matches in a text, then truncates it to `limit_bytes`: half a secret would match no
    /// pattern.
    pub fn capped(&self, text: &str, limit_bytes: usize) -> String {
        if self.is_empty() {
            return cut_bytes(text, limit_bytes);
        }
        // A match may be longer than the mark, so search more than the limit.
        let end = limit_bytes.saturating_mul(2);
        let mut redacted = self.redact_beginning(text, end).into_owned();
        if end < text.len() {
            redacted.push_str(" […]");
        }
        cut_bytes(&redacted, limit_bytes)
    }

    /// Prepares a text of an upstream for a status message to clients: one line, without internals, truncated
    /// to `limit_bytes`.
    pub fn status_message(&self, text: &str, limit_bytes: usize) -> String {
        let redacted = self.capped(text, Self::STATUS_MESSAGE_SEARCH_BYTES);
        let line = redacted.split_whitespace().collect::<Vec<_>>().join(" ");
        cut_bytes(&redact_error_text(&line, &ClientStrings::default()), limit_bytes)
    }

    /// Returns about the first `max_bytes` bytes of a text, with all matches replaced. The text is cut at
    /// white space, so that no address is cut in two.
    pub(super) fn beginning(&self, text: &str, max_bytes: usize) -> String {
        let beginning = self.redact_beginning(text, max_bytes);
        if text.len() <= max_bytes {
            return beginning.into_owned();
        }
        beginning.rfind(char::is_whitespace).map_or_else(String::new, |end| beginning[..end].to_owned())
    }

    /// Replaces truncated quotes of the response in a sentence, because a quote may end in half a secret.
    pub(super) fn without_cut_quotes<'t>(&self, message: &'t str) -> Cow<'t, str> {
        static CUT: LazyLock<Regex> = LazyLock::new(|| fixed_regex(r#"…\]?[`"]"#));
        let mut message = Cow::Borrowed(message);
        if self.is_empty() {
            return message;
        }
        while let Some(cut) = CUT.find(&message) {
            let before = &message[..cut.start()];
            // A quote may contain quotation marks, so take the first one.
            let quote_start =
                ["found `", "found \""].iter().find_map(|words| Some(before.find(words)? + words.len() - 1));
            let start = quote_start.or_else(|| before.find(['`', '"'])).unwrap_or(0);
            let end = cut.end();
            message.to_mut().replace_range(start..end, MARK);
        }
        message
    }

    /// Replaces all matches in the strings, member names and numbers of a value.
    pub(in crate::translate) fn redact_in(&self, value: Value) -> Value {
        match value {
            Value::String(text) => self.redact_short(&text).into(),
            // A secret, such as a card number, may be a JSON number.
            Value::Number(number) => match self.redact_short(number.as_str()) {
                unchanged if unchanged == number.as_str() => Value::Number(number),
                redacted => redacted.into(),
            },
            Value::Array(items) => items.into_iter().map(|item| self.redact_in(item)).collect(),
            Value::Object(members) => {
                let mut redacted = Map::with_capacity(members.len());
                let mut duplicates: HashMap<String, usize> = HashMap::new();
                for (name, value) in members {
                    let mut name = self.redact_short(&name).into_owned();
                    // After the redaction, two names may be equal, but no member may be lost.
                    while redacted.contains_key(&name) {
                        let count = duplicates.entry(name.clone()).or_default();
                        *count += 1;
                        name.push('+');
                        if *count > 1 {
                            name.push_str(&count.to_string());
                        }
                    }
                    redacted.insert(name, self.redact_in(value));
                }
                Value::Object(redacted)
            }
            Value::Null | Value::Bool(_) => value,
        }
    }

    /// Replaces all matches in a text, or the whole text if it is too long to search.
    fn redact_short<'t>(&self, text: &'t str) -> Cow<'t, str> {
        if text.len() > REACH_BYTES { Cow::Borrowed(MARK) } else { self.redact(text) }
    }

    /// Redacts a content block of an error. A block without matches and within the limits is unchanged.
    fn redact_block(&self, content: Content, limits: &TranslationLimits) -> Content {
        let limit_bytes = limits.error_text_bytes;
        let Content { block, annotations } = content;
        let block = match block {
            ContentBlock::Text(text) => ContentBlock::Text(match text {
                BlockText::Plain(text) => BlockText::Plain(self.capped(&text, limit_bytes)),
                BlockText::Shared(text) => BlockText::Plain(self.capped(&text, limit_bytes)),
                BlockText::Error(text) => BlockText::Error(self.capped(&text, limit_bytes)),
                // The structured content is redacted separately.
                BlockText::StructuredContent => BlockText::StructuredContent,
            }),
            ContentBlock::Foreign(foreign) => self.redact_foreign_block(foreign, limits),
            // Only success rules build blocks of these kinds.
            ContentBlock::ResourceLink { .. }
            | ContentBlock::Resource { .. }
            | ContentBlock::Image { .. }
            | ContentBlock::Audio { .. } => {
                ContentBlock::Text(BlockText::Plain("A block of the error is omitted.".to_owned()))
            }
        };
        Content { block, annotations }
    }

    fn redact_foreign_block(&self, foreign: ForeignBlock, limits: &TranslationLimits) -> ContentBlock {
        let limit_bytes = limits.error_text_bytes;
        if let Some(text) = &foreign.text {
            let redacted = self.capped(text, limit_bytes);
            if redacted != *text {
                return ContentBlock::Text(BlockText::Plain(redacted));
            }
        }
        if self.is_empty() {
            return ContentBlock::Foreign(foreign);
        }
        if let Err(TooManyValues { limit, .. }) = foreign.json.check_value_count(limits.values) {
            return ContentBlock::Text(BlockText::Plain(format!(
                "A block of the response is omitted, because it has more than {limit} values (`max_values`)."
            )));
        }
        let json = foreign.json.parse();
        let mut redacted = self.redact_in(json.clone());
        // Base64 data stays, because matches in it would be coincidences.
        for pointer in ["/data", "/resource/blob"] {
            if let (Some(target), Some(bytes)) = (redacted.pointer_mut(pointer), json.pointer(pointer)) {
                *target = bytes.clone();
            }
        }
        if redacted == json {
            return ContentBlock::Foreign(foreign);
        }
        ContentBlock::Foreign(ForeignBlock {
            json: JsonText::from_value(&redacted),
            text: foreign.text,
            link: foreign.link.map(|link| self.redact(&link).into_owned()),
        })
    }

    /// Names of the parts of a tool error in which a secret was replaced; `None` if none was.
    pub(in crate::translate) fn redacted_parts(&self, result: &ToolResult) -> Option<String> {
        let code = result.meta.get(CODE_META_KEY).map(Value::to_string).unwrap_or_default();
        let structured = result.structured.as_ref().map_or("", |structured| structured.json.as_str());
        let parts =
            [(&*result.message(), "the text"), (&code, "the code"), (structured, "the structured content")];
        let replaced = parts.into_iter().filter(|(part, _)| part.contains(MARK)).map(|(_, name)| name);
        let part_names = replaced.collect::<Vec<_>>().join(" and ");
        (result.is_error() && !self.is_empty() && !part_names.is_empty()).then_some(part_names)
    }
}

/// Name of the capture that is replaced instead of the whole match.
const SECRET_CAPTURE: &str = "secret";

/// One pattern of a [`Redaction`]. The whole match is replaced, or only the capture `secret` if there is one.
/// `Debug` does not print the pattern, because the pattern of a single secret reveals the secret.
#[derive(derive_more::Debug, Clone)]
#[debug("SecretPattern(…)")]
pub struct SecretPattern(Pattern);

impl Setting for SecretPattern {
    fn read(value: &Cursor<'_>) -> Checked<Self> {
        text_of(value)?;
        let pattern = Pattern::read(&value.part(value.node, "a pattern of `redact`", value.kind))?;
        let other_capture = pattern.names().find(|name| *name != SECRET_CAPTURE);
        let (span, reason, help) = match other_capture {
            _ if pattern.is_match("") => {
                (value.node.span, "it matches the empty text".to_owned(), "write `+` in place of `*`")
            }
            Some(name) => (
                span_of_name(value.context.report, value.node.span, name),
                format!("its capture `{name}` has no meaning here"),
                "use only the capture `(?<secret>…)`, for the part that is replaced",
            ),
            None => return Ok(Self(pattern)),
        };
        let message = format!("`redact` can't use this pattern: {reason}");
        value.reject_coded(Code::InvalidPattern.at_span(span), message, help)
    }
}

impl SecretPattern {
    /// Limit of the memory of a compiled alternation of literal texts, in bytes. It has no repetition that
    /// multiplies its size.
    const LITERALS_LIMIT_BYTES: usize = 16 << 20;

    /// Compiles an alternation of literal texts, which are not empty; `None` if it would be too large.
    pub fn from_literals(source: &str) -> Option<Self> {
        Pattern::build(&mut RegexBuilder::new(source), Self::LITERALS_LIMIT_BYTES).ok().map(Self)
    }

    /// Ranges of the secrets in all matches that begin before `end`. A long text is searched in parts; a
    /// match may still be as long as a part.
    fn secrets_in(&self, text: &str, end: usize) -> Vec<Range<usize>> {
        let (mut found, mut start) = (Vec::new(), 0);
        while start < end {
            let part_end = text.floor_char_boundary(end.min(start + REACH_BYTES));
            let window = &text[start..text.floor_char_boundary(part_end + REACH_BYTES)];
            let mut next = part_end;
            for captures in self.0.captures_iter(window) {
                let full_match = captures.get_match();
                if start + full_match.start() >= part_end {
                    break;
                }
                let secret = captures.name(SECRET_CAPTURE).unwrap_or(full_match);
                found.push(start + secret.start()..start + secret.end());
                next = next.max(start + full_match.end());
            }
            start = next;
        }
        found
    }
}

impl Translator {
    /// Redacts a tool error for clients: replaces secrets in its text, code and structured content, and
    /// limits its texts. A success is unchanged.
    #[must_use]
    pub fn for_clients(&self, mut result: ToolResult) -> ToolResult {
        if !result.is_error() {
            return result;
        }
        result.content = result
            .content
            .into_iter()
            .map(|content| self.redaction.redact_block(content, &self.limits))
            .collect();
        if self.redaction.is_empty() {
            return result;
        }
        if let Some(code) = result.meta.get_mut(CODE_META_KEY) {
            *code = self.redaction.redact_in(code.take());
        }
        // Structured content that is too large to search may contain a secret, so it is removed.
        result.structured = result.structured.and_then(|structured| {
            structured.json.check_value_count(self.limits.values).ok()?;
            let redacted = self.redaction.redact_in(structured.json.parse());
            Some(structured.with_json(JsonText::from_value(&redacted)))
        });
        result
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Map, Value, json};

    use super::*;
    use crate::translate::pattern::Pattern;

    fn redaction(patterns: &[&str]) -> Redaction {
        let secret = |source: &&str| SecretPattern(Pattern::compile(source).unwrap());
        Redaction(patterns.iter().map(secret).collect())
    }

    #[track_caller]
    fn check(patterns: &[&str], text: &str, expected: &str) {
        let redaction = redaction(patterns);
        let redacted = redaction.redact(text).into_owned();
        assert_eq!(redacted, expected);
        assert_eq!(redaction.redact(&redacted), expected, "what is hidden stays as it is");
    }

    #[test]
    fn matches_are_replaced() {
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
        let capped = redaction.capped(&long, 100);
        assert!(capped.len() <= 100 && capped.ends_with(" […]") && !capped.contains(['K', 'y']), "{capped}");
        let many = format!("{} tail", "KEYyEND ".repeat(40));
        let capped = redaction.capped(&many, 64);
        assert!(capped.len() <= 64 && capped.ends_with("[…]") && !capped.contains('y'), "{capped}");
        let beginning = redaction.beginning(&format!("why {long}"), 100);
        assert_eq!(beginning, "why");
    }

    #[test]
    fn a_quote_that_was_cut_is_not_shown() {
        let redaction = redaction(&["secret"]);
        let check = |message: &str, expected: &str| {
            assert_eq!(redaction.without_cut_quotes(message), expected);
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
    fn every_part_of_a_value_is_searched() {
        let redaction = redaction(&[r"\d{6,}", "bo@x"]);
        let value =
            json!({"card": 1234567, "n": 5, "bo@x": [{"to": "bo@x!"}, true], "1234567": 1, "12345678": 2});
        assert_eq!(
            redaction.redact_in(value),
            json!({"card": "[redacted]", "n": 5, "[redacted]": [{"to": "[redacted]!"}, true], "[redacted]+": 1,
            "[redacted]+2": 2})
        );
        assert_eq!(redaction.redact_in(json!("x".repeat(REACH_BYTES + 1))), json!("[redacted]"));
    }

    #[test]
    fn a_long_text_is_searched_in_linear_time() {
        // Each `KEY` begins a match that does not end: far more of them than are shown.
        let redaction = redaction(&["(?s)KEY.*END|token"]);
        let text = "KEYtoken".repeat(1 << 15);
        assert!(!redaction.capped(&text, 2048).contains("token"));
    }

    #[test]
    fn a_text_of_any_length_is_searched() {
        let redaction = redaction(&["se+cret"]);
        for before in [0, REACH_BYTES - 3, REACH_BYTES, 3 * REACH_BYTES - 1] {
            let (before, secret) = ("é".repeat(before / 2), "s".to_owned() + &"e".repeat(1000) + "cret");
            let text = format!("{before}{secret} and {before}{secret}");
            assert_eq!(redaction.redact(&text), format!("{before}[redacted] and {before}[redacted]"));
        }
        assert_eq!(Redaction::default().redact("secret"), "secret");
        let redaction = self::redaction(&[r"user=(?<secret>\w+)", "bo"]);
        for before in REACH_BYTES - 10..REACH_BYTES + 10 {
            let before = " ".repeat(before);
            let redacted = redaction.redact(&format!("{before}user=al bo user=al")).into_owned();
            assert_eq!(redacted, format!("{before}user=[redacted] [redacted] user=[redacted]"));
        }
    }

    #[test]
    fn many_names_that_become_one_stay_distinct_in_linear_time() {
        let members: Map<String, Value> =
            (0..20_000).map(|number| (format!("secret{number}"), number.into())).collect();
        let Value::Object(redacted) = redaction(&[r"secret\d+"]).redact_in(Value::Object(members)) else {
            panic!("an object stays one")
        };
        assert_eq!((redacted.len(), redacted.get("[redacted]+19999")), (20_000, Some(&Value::from(19_999))));
    }
}
