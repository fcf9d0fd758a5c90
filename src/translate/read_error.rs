//! Reason why a response could not be read, and notes for the log: each with and without quotes of the
//! response.

use crate::model::cut_characters;
use crate::settings::suggest::quoted;

/// Builds a reason, formatted as by `format!`, that quotes nothing of the response.
macro_rules! read_error {
    ($($sentence:tt)*) => {
        $crate::translate::read_error::ReadError::unquoted(format!($($sentence)*))
    };
}

/// Reason in two wordings: one that may quote the response, for the client and for logs at `debug`, and one
/// without quotes, for logs at every level.
#[derive(Debug, Clone, PartialEq, Eq, derive_more::Display)]
#[display("{quoting}")]
pub(crate) struct ReadError {
    quoting: String,
    /// The wording for the log, which quotes nothing of the response but types and lengths.
    pub(super) plain: String,
}

impl ReadError {
    /// Both wordings. `plain` may contain the rule's own names, types and lengths, and nothing else of the
    /// response.
    pub(crate) fn new(quoting: impl Into<String>, plain: impl Into<String>) -> Self {
        Self { quoting: quoting.into(), plain: plain.into() }
    }

    /// One wording for both: it quotes nothing.
    pub(crate) fn unquoted(sentence: impl Into<String>) -> Self {
        let sentence = sentence.into();
        Self::new(sentence.clone(), sentence)
    }

    /// Builds both wordings from one closure, whose argument formats a quote of the response: the text, cut
    /// to `longest` characters, or its length in bytes for the log.
    pub(crate) fn with_quotes(longest: usize, sentence: impl Fn(&dyn Fn(&str) -> String) -> String) -> Self {
        let words = |text: &str| quoted(&cut_characters(text, longest));
        let length = |text: &str| format!("text of {} bytes", text.len());
        Self::new(sentence(&words), sentence(&length))
    }

    /// Builds both wordings from words of the rule's own and a quote of the response after them, as
    /// [`Self::with_quotes`] does.
    pub(crate) fn with_quote(longest: usize, before: &str, text: &str) -> Self {
        Self::with_quotes(longest, |quoted| format!("{before}{}", quoted(text)))
    }

    /// Prefixes the reason with a part of the response, named in the rule's own words.
    #[must_use]
    pub(crate) fn in_part(self, place: &str) -> Self {
        self.in_quoted_part(place, place)
    }

    /// Prefixes the reason with a part of the response. `place` may quote the response, `plain` must not.
    #[must_use]
    pub(crate) fn in_quoted_part(self, place: &str, plain: &str) -> Self {
        Self::new(format!("{place}: {}", self.quoting), format!("{plain}: {}", self.plain))
    }

    /// Names the place of "the value" that the reason is about, or the place around it. `place` may quote the
    /// response, `plain` must not.
    #[must_use]
    pub(crate) fn under(self, place: &str, plain: &str) -> Self {
        let name = |place: &str, inner: &str| match inner.strip_prefix("the value ") {
            Some(reason) => format!("{place} {reason}"),
            None => format!("{place}, {inner}"),
        };
        Self::new(name(place, &self.quoting), name(plain, &self.plain))
    }

    /// Appends words of the rule's own.
    #[must_use]
    pub(crate) fn with_suffix(self, words: &str) -> Self {
        Self::new(self.quoting + words, self.plain + words)
    }
}

/// A note for the log, with the reason for the result.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogNote {
    /// Wording without quotes of the response or the arguments.
    pub plain: Option<String>,
    /// Wording with quotes of them, or the beginning of the response: for `debug` only.
    pub quoting: Option<String>,
    /// Whether a template of the rule failed to render, which its author must see.
    pub is_template_error: bool,
}

/// A fixed sentence quotes nothing of the response.
impl From<&'static str> for ReadError {
    fn from(fixed: &'static str) -> Self {
        Self::unquoted(fixed)
    }
}

/// Fails if there are more than `limit` of something, named in the plural.
pub(crate) fn at_most(limit: usize, count: usize, what: &str) -> Result<(), ReadError> {
    if count > limit { Err(read_error!("expected at most {limit} {what}, found more")) } else { Ok(()) }
}
