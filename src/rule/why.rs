//! Why a response could not be read.

use std::fmt;

/// A sentence that may quote the response, for the client and for a log at `debug`, and one that quotes nothing, for the
/// log at every level.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Why {
    quoting: String,
    plain: Option<String>,
}

impl Why {
    /// The log's words for what nothing better is known of.
    const UNKNOWN: &str = "it is not of the form that the rule expects";

    /// Both sentences. `plain` has words of the rule, types and lengths, and nothing else of the response.
    pub(crate) fn new(quoting: impl Into<String>, plain: impl Into<String>) -> Self {
        Self { quoting: quoting.into(), plain: Some(plain.into()) }
    }

    /// One sentence for both: it quotes nothing.
    pub(crate) fn plainly(sentence: impl Into<String>) -> Self {
        let sentence = sentence.into();
        Self::new(sentence.clone(), sentence)
    }

    /// The same of a part, whose name is one of the rule's own words.
    #[must_use]
    pub(crate) fn under(self, place: &str) -> Self {
        Self {
            quoting: format!("{place}: {}", self.quoting),
            plain: Some(format!("{place}: {}", self.plain())),
        }
    }

    /// The same with more words of the rule's own behind it.
    #[must_use]
    pub(crate) fn followed_by(self, words: &str) -> Self {
        Self { quoting: format!("{}{words}", self.quoting), plain: Some(format!("{}{words}", self.plain())) }
    }

    /// The sentence for the log: nothing of the response is in it but types and lengths.
    pub(crate) fn plain(&self) -> &str {
        self.plain.as_deref().unwrap_or(Self::UNKNOWN)
    }
}

/// A sentence of which nobody knows whether it quotes the response: the log gets none of it.
impl From<String> for Why {
    fn from(quoting: String) -> Self {
        Self { quoting, plain: None }
    }
}

/// A fixed sentence quotes nothing.
impl From<&'static str> for Why {
    fn from(fixed: &'static str) -> Self {
        Self::plainly(fixed)
    }
}

impl fmt::Display for Why {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.quoting)
    }
}
