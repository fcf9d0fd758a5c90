//! One pattern of what no error may tell.

use std::{fmt, ops::Range};

use regex::Regex;

use crate::rule::matcher::Pattern;

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
