//! What a route keeps from clients: the words of its errors that match its patterns.
//!
//! In reading order: a [`Redaction`] hides what its patterns match in texts; `pattern` is one of them, `value` hides it
//! in values and their names, and `result` in all parts of a tool error.

mod pattern;
mod result;
#[cfg(test)]
mod tests;
mod value;

use std::{borrow::Cow, sync::LazyLock};

use regex::Regex;

use crate::tool::{cut_bytes, floor_char_boundary};

pub use self::pattern::{SecretPattern, SecretPatternError};

/// What stands in the place of words that are kept from clients.
const MARK: &str = "[redacted]";

/// How far behind the end of what is shown a match may reach, in bytes. A string of more than that in the structure
/// of an error is replaced as a whole: a search in it would take the square of its length, with some patterns.
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

    /// A text of any length with what matches replaced, looked through a part at a time: a match may be as long as a part
    /// at least.
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

    /// The first `end` bytes of a text with what matches replaced; what begins there is replaced as a whole, wherever
    /// it ends.
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

    /// At most `limit_bytes` of a text, what matches replaced before the text is cut: half a secret matches no pattern.
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

    /// A text of an upstream that clients are told beside a result: one line, without what no error shows, cut where it is
    /// longer.
    pub fn told(&self, text: &str, limit_bytes: usize) -> String {
        let hidden = self.capped(text, Self::LONGEST_TOLD);
        let line = hidden.split_whitespace().collect::<Vec<_>>().join(" ");
        cut_bytes(&super::insides::safe_words(&line), limit_bytes)
    }

    /// At most about so many bytes of a text, what matches replaced, and cut at white space so that no address in it is
    /// cut in two.
    pub(super) fn beginning(&self, text: &str, most_bytes: usize) -> String {
        let begun = self.hide_until(text, most_bytes);
        if text.len() <= most_bytes {
            return begun.into_owned();
        }
        begun.rfind(char::is_whitespace).map_or_else(String::new, |end| begun[..end].to_owned())
    }

    /// A sentence without the words that it quotes of a reply and has cut short, which may end in half a secret.
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
