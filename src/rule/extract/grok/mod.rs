//! `grok`: patterns with other patterns in them by name, `%{IP:client}`. What is here turns one into a regular
//! expression; it is looked for as those of [`Regex`](super::Regex) are.

mod library;

use std::fmt::Write;

use self::library::LIBRARY;
use super::{Capture, CaptureKind, CapturePattern};
use crate::rule::matcher::{Pattern, PatternError};

/// The patterns that may be named: those of a rule, and those of the library. One of a rule stands for one of the
/// library that has its name.
#[derive(Debug, Clone, Default)]
pub struct GrokPatterns {
    own: Vec<(String, String)>,
}

/// Why a text is not a pattern of `grok`.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum GrokError {
    /// A name that no pattern has.
    #[error("no pattern is called `{0}`")]
    UnknownName(String),
    /// What stands between `%{` and `}` is something else.
    #[error("expected `%{{NAME}}`, `%{{NAME:capture}}` or `%{{NAME:capture:type}}`, found `%{{{0}`")]
    Malformed(String),
    /// A name that captures can't have.
    #[error("`{0}` can't be the name of a capture")]
    CaptureName(String),
    /// A type that there is none of.
    #[error("`{0}` is not a type of capture")]
    UnknownType(String),
    /// A pattern that has itself in it.
    #[error("pattern `{0}` has itself in it")]
    Circular(String),
    /// A pattern that is longer than the limit, once those that it names are put in.
    #[error("the pattern is longer than {limit} bytes once those that it names are put in", limit = GrokPatterns::LENGTH_LIMIT_BYTES)]
    TooLong,
    /// The whole is no regular expression.
    #[error("once those that it names are put in, the pattern is not a regular expression: {0}")]
    Pattern(#[from] PatternError),
}

impl GrokPatterns {
    /// How long a pattern may be once those that it names are put in.
    pub const LENGTH_LIMIT_BYTES: usize = 64 << 10;

    /// The types of a capture: `%{NUMBER:bytes:int}`.
    pub const TYPES: [&str; 4] = ["int", "float", "boolean", "string"];

    /// How deep patterns may be in others.
    const DEPTH_LIMIT: usize = 64;

    /// Patterns of a rule: name and text.
    pub fn new(own: Vec<(String, String)>) -> Self {
        Self { own }
    }

    /// Every name that a pattern has, those of the rule first.
    pub fn names(&self) -> impl Iterator<Item = &str> + Clone {
        self.own.iter().map(|(name, _)| name.as_str()).chain(LIBRARY.iter().map(|(name, _)| *name))
    }

    /// Name and text of the patterns of the library.
    pub fn library() -> &'static [(&'static str, &'static str)] {
        LIBRARY
    }

    /// Compiles a pattern; in it `^` and `$` are the ends of a line.
    ///
    /// # Errors
    ///
    /// [`GrokError`], with what is wrong where.
    pub fn compile(&self, written: &str) -> Result<CapturePattern, GrokError> {
        let mut expansion =
            Expansion { patterns: self, text: String::new(), captures: Vec::new(), inside: Vec::new() };
        expansion.put(written)?;
        let Expansion { text, captures: ours, .. } = expansion;
        let pattern = Pattern::of_lines(&text)?;
        // What the text captures by a name of its own stays; all in the order of the pattern.
        let captures = pattern.names().iter().map(|group| {
            let named = || Capture { group: group.clone(), name: group.clone(), kind: CaptureKind::Text };
            ours.iter().find(|capture| capture.group == *group).cloned().unwrap_or_else(named)
        });
        let captures = captures.collect();
        Ok(CapturePattern::renamed(pattern, written, captures))
    }

    fn get(&self, name: &str) -> Option<&str> {
        let own = self.own.iter().find(|(own, _)| own == name).map(|(_, text)| text.as_str());
        own.or_else(|| LIBRARY.iter().find(|(known, _)| *known == name).map(|(_, text)| *text))
    }
}

/// A pattern while those that it names are put in.
struct Expansion<'p> {
    patterns: &'p GrokPatterns,
    text: String,
    captures: Vec<Capture>,
    /// The names of the patterns that this one is in.
    inside: Vec<&'p str>,
}

impl<'p> Expansion<'p> {
    fn put(&mut self, written: &'p str) -> Result<(), GrokError> {
        let mut rest = written;
        while let Some((before, after)) = rest.split_once("%{") {
            self.push(before)?;
            let Some((reference, after)) = after.split_once('}') else {
                return Err(GrokError::Malformed(after.to_owned()));
            };
            self.put_named(reference)?;
            rest = after;
        }
        self.push(rest)
    }

    fn put_named(&mut self, reference: &str) -> Result<(), GrokError> {
        let malformed = || GrokError::Malformed(format!("{reference}}}"));
        let mut parts = reference.split(':');
        let (name, capture, kind) = (parts.next().unwrap_or_default(), parts.next(), parts.next());
        let is_name =
            |name: &str| !name.is_empty() && name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_');
        if !is_name(name) || parts.next().is_some() {
            return Err(malformed());
        }
        let patterns = self.patterns;
        let Some((known, text)) = patterns.names().find(|known| *known == name).zip(patterns.get(name))
        else {
            return Err(GrokError::UnknownName(name.to_owned()));
        };
        if self.inside.contains(&known) || self.inside.len() >= GrokPatterns::DEPTH_LIMIT {
            return Err(GrokError::Circular(name.to_owned()));
        }
        match capture {
            Some(capture) => {
                let group = self.capture(capture, kind)?;
                self.push(&format!("(?<{group}>"))?;
            }
            None => self.push("(?:")?,
        }
        self.inside.push(known);
        self.put(text)?;
        self.inside.pop();
        self.push(")")
    }

    /// Notes a capture, and gives the name of its group: one name may be captured in several places, which the
    /// engine does not allow to groups.
    fn capture(&mut self, name: &str, kind: Option<&str>) -> Result<String, GrokError> {
        let good = |c: char| c.is_alphanumeric() || matches!(c, '_' | '-' | '.' | '@');
        if name.is_empty() || !name.chars().all(good) {
            return Err(GrokError::CaptureName(name.to_owned()));
        }
        let kind = match kind {
            None | Some("string") => CaptureKind::Text,
            Some("int" | "integer" | "long") => CaptureKind::Integer,
            Some("float" | "number" | "double") => CaptureKind::Number,
            Some("boolean" | "bool") => CaptureKind::Boolean,
            Some(other) => return Err(GrokError::UnknownType(other.to_owned())),
        };
        let mut group = String::new();
        let _ = write!(group, "grok_{}", self.captures.len());
        self.captures.push(Capture { group: group.clone(), name: name.to_owned(), kind });
        Ok(group)
    }

    fn push(&mut self, text: &str) -> Result<(), GrokError> {
        if self.text.len() + text.len() > GrokPatterns::LENGTH_LIMIT_BYTES {
            return Err(GrokError::TooLong);
        }
        self.text.push_str(text);
        Ok(())
    }
}

#[cfg(test)]
mod tests;
