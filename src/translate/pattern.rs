//! Regular expressions of the configuration.

use std::{cell::RefCell, collections::HashMap, hash::Hash};

use regex::{Regex, RegexBuilder};

use crate::settings::{Checked, Code, Cursor, Report, Setting, text_of};

/// Named captures of a match.
pub(crate) type Captures = Vec<(String, String)>;

/// Compiled regular expression, with linear search time and limited size. Clones share the compiled form.
#[derive(Debug, Clone, derive_more::Deref, derive_more::Display)]
pub struct Pattern(Regex);

/// Two patterns are equal if their sources are equal.
impl PartialEq for Pattern {
    fn eq(&self, other: &Self) -> bool {
        self.as_str() == other.as_str()
    }
}

impl Pattern {
    /// Maximum memory of a compiled pattern, in bytes.
    const SIZE_LIMIT_BYTES: usize = 1 << 20;

    /// Compiles a pattern.
    ///
    /// # Errors
    ///
    /// A message, on a syntax error, or for a pattern that would be too large.
    pub fn compile(source: &str) -> Result<Self, String> {
        Self::build(&mut RegexBuilder::new(source), Self::SIZE_LIMIT_BYTES)
    }

    /// Compiles a pattern in which `^` and `$` match at line ends.
    ///
    /// # Errors
    ///
    /// As [`Self::compile`].
    pub fn multi_line(source: &str) -> Result<Self, String> {
        Self::build(RegexBuilder::new(source).multi_line(true), Self::SIZE_LIMIT_BYTES)
    }

    pub(super) fn build(builder: &mut RegexBuilder, limit_bytes: usize) -> Result<Self, String> {
        builder.size_limit(limit_bytes).build().map(Self).map_err(|error| pattern_message(&error))
    }

    /// Names of the captures.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.capture_names().flatten()
    }

    /// Returns the named captures of the first match, or `None` if nothing matches. A capture that takes no
    /// part in the match is empty.
    pub(super) fn named_captures(&self, text: &str) -> Option<Captures> {
        // A search without captures is faster.
        if self.names().next().is_none() {
            return self.is_match(text).then(Captures::new);
        }
        let found = self.captures(text)?;
        let value = |name| found.name(name).map_or("", |text| text.as_str()).to_owned();
        Some(self.names().map(|name| (name.to_owned(), value(name))).collect())
    }

    /// Reads a pattern. With `multi_line`, `^` and `$` match at line ends.
    pub(super) fn read_with(value: &Cursor<'_>, multi_line: bool) -> Checked<Self> {
        let text = text_of(value)?;
        value.check_cancelled()?;
        let report = value.context.report;
        let compile = || if multi_line { Self::multi_line(text) } else { Self::compile(text) };
        compile_once(report, (multi_line, text.to_owned()), compile).or_else(|error| {
            let help = if ["(?=", "(?!", "(?<=", "(?<!"].iter().any(|group| text.contains(group)) {
                "patterns run in linear time, so look-around is not supported: match the surrounding \
                 text, too, and capture the wanted part with `(?<name>…)`"
            } else {
                "use the syntax of the Rust `regex` crate; in YAML, single quotes preserve backslashes"
            };
            let span = error_position(text).map(|at| report.character_in(value.node, text, at));
            let message = format!("{} is not a regular expression: {error}", value.name);
            value.reject_coded(Code::InvalidPattern.at_span(span.unwrap_or(value.node.span)), message, help)
        })
    }
}

/// Compiles an expression once for each load of the configuration, however many routes use it. Compiling
/// takes a millisecond and more, which is too long for a program that serves one request and exits.
pub(super) fn compile_once<K: Eq + Hash + 'static, T: Clone + 'static, E>(
    report: &Report<'_>,
    key: K,
    compile: impl FnOnce() -> Result<T, E>,
) -> Result<T, E> {
    let cache = report.cache::<RefCell<HashMap<K, T>>>();
    if let Some(cached) = cache.borrow().get(&key) {
        return Ok(cached.clone());
    }
    let compiled = compile()?;
    cache.borrow_mut().insert(key, compiled.clone());
    Ok(compiled)
}

impl Setting for Pattern {
    fn read(value: &Cursor<'_>) -> Checked<Self> {
        Self::read_with(value, false)
    }
}

/// Position of the character that the regex engine marks with `^` in its error message.
fn error_position(pattern: &str) -> Option<usize> {
    const MARGIN: usize = 4;
    let error = Regex::new(pattern).err()?.to_string();
    let marker_line =
        error.lines().find(|line| line.contains('^') && line.trim_matches([' ', '^']).is_empty())?;
    (!pattern.contains('\n')).then(|| marker_line.find('^').map(|at| at.saturating_sub(MARGIN)))?
}

/// Reason of a syntax error: the last line of the engine's message, such as `error: unclosed group`.
fn pattern_message(error: &regex::Error) -> String {
    let text = error.to_string();
    let last = text.lines().last().unwrap_or_default();
    last.trim_start_matches("error: ").to_owned()
}
