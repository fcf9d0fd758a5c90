//! Reasons why a response could not be read, and notes for the log. Each has two texts: one that may quote
//! the response, and one without quotes.

use crate::model::cut_characters;
use crate::settings::suggest::quoted;

/// Creates a `ReadError`, with arguments as for `format!`. The text must quote nothing of the response.
macro_rules! read_error {
    ($($message:tt)*) => {
        $crate::translate::read_error::ReadError::unquoted(format!($($message)*))
    };
}

/// Reason in two texts: one that may quote the response, for the client and for logs at `debug`, and one
/// without quotes, for logs at every level.
#[derive(Debug, Clone, PartialEq, Eq, derive_more::Display)]
#[display("{quoting}")]
pub(crate) struct ReadError {
    quoting: String,
    /// Text for the log. It contains types and lengths of the response, but no quotes.
    pub(super) plain: String,
}

impl ReadError {
    /// Creates a reason from both texts. `plain` may contain names from the rule, and types and lengths of
    /// the response, but nothing else of the response.
    pub(crate) fn new(quoting: impl Into<String>, plain: impl Into<String>) -> Self {
        Self { quoting: quoting.into(), plain: plain.into() }
    }

    /// Creates a reason from a text that quotes nothing of the response.
    pub(crate) fn unquoted(message: impl Into<String>) -> Self {
        let message = message.into();
        Self::new(message.clone(), message)
    }

    /// Builds both texts with one closure. The argument of the closure is a function that formats a quote of
    /// the response: the quoted text, cut to `max_characters`, or only its length in bytes for the log.
    pub(crate) fn with_quotes(
        max_characters: usize,
        message: impl Fn(&dyn Fn(&str) -> String) -> String,
    ) -> Self {
        let quote = |text: &str| quoted(&cut_characters(text, max_characters));
        let describe_length = |text: &str| format!("text of {} bytes", text.len());
        Self::new(message(&quote), message(&describe_length))
    }

    /// Builds both texts from `before`, which quotes nothing, and a quote of the response after it, as
    /// [`Self::with_quotes`] does.
    pub(crate) fn with_quote(max_characters: usize, before: &str, text: &str) -> Self {
        Self::with_quotes(max_characters, |quoted| format!("{before}{}", quoted(text)))
    }

    /// Prefixes the reason with the place of the problem. `part` must not quote the response.
    #[must_use]
    pub(crate) fn in_part(self, part: &str) -> Self {
        self.in_quoted_part(part, part)
    }

    /// Prefixes the reason with the place of the problem. `part` may quote the response, `plain` must not.
    #[must_use]
    pub(crate) fn in_quoted_part(self, part: &str, plain: &str) -> Self {
        Self::new(format!("{part}: {}", self.quoting), format!("{plain}: {}", self.plain))
    }

    /// Adds the place of the problem to the reason: in place of "the value" at its beginning, or else before
    /// the reason. `subject` may quote the response, `plain` must not.
    #[must_use]
    pub(crate) fn with_subject(self, subject: &str, plain: &str) -> Self {
        let name = |subject: &str, text: &str| match text.strip_prefix("the value ") {
            Some(reason) => format!("{subject} {reason}"),
            None => format!("{subject}, {text}"),
        };
        Self::new(name(subject, &self.quoting), name(plain, &self.plain))
    }

    /// Appends a text that quotes nothing of the response.
    #[must_use]
    pub(crate) fn with_suffix(self, suffix: &str) -> Self {
        Self::new(self.quoting + suffix, self.plain + suffix)
    }
}

/// Note for the log that explains a result.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogNote {
    /// Text without quotes of the response or the arguments.
    pub plain: Option<String>,
    /// Text that quotes the response or the arguments; logged at `debug` only.
    pub quoting: Option<String>,
    /// Whether a template of the rule failed to render, which its author must see.
    pub is_template_error: bool,
}

/// A fixed sentence quotes nothing of the response.
impl From<&'static str> for ReadError {
    fn from(message: &'static str) -> Self {
        Self::unquoted(message)
    }
}

/// Fails if `count` exceeds `limit`. `noun` names the counted things in the plural.
pub(crate) fn at_most(limit: usize, count: usize, noun: &str) -> Result<(), ReadError> {
    if count > limit { Err(read_error!("expected at most {limit} {noun}, found more")) } else { Ok(()) }
}
