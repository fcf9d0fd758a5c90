//! Why a response could not be read.

use std::fmt;

use crate::model::cut_characters;

/// A sentence, formatted as by `format!`, that quotes nothing of the response.
macro_rules! why {
    ($($sentence:tt)*) => {
        $crate::translate::read_error::Why::plainly(format!($($sentence)*))
    };
}

/// A sentence that may quote the response, for the client and for a log at `debug`, and one that quotes nothing, for the
/// log at every level.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Why {
    quoting: String,
    plain: String,
}

impl Why {
    /// Both sentences. `plain` has words of the rule, types and lengths, and nothing else of the response.
    pub(crate) fn new(quoting: impl Into<String>, plain: impl Into<String>) -> Self {
        Self { quoting: quoting.into(), plain: plain.into() }
    }

    /// One sentence for both: it quotes nothing.
    pub(crate) fn plainly(sentence: impl Into<String>) -> Self {
        let sentence = sentence.into();
        Self::new(sentence.clone(), sentence)
    }

    /// Both sentences at once. What is given to `sentence` writes words of the response: at most `longest` characters of
    /// them, or for the log how long they are.
    pub(crate) fn quoting(longest: usize, sentence: impl Fn(&dyn Fn(&str) -> String) -> String) -> Self {
        let words = |text: &str| format!("`{}`", cut_characters(text, longest));
        let length = |text: &str| format!("text of {} bytes", text.len());
        Self::new(sentence(&words), sentence(&length))
    }

    /// The same of a part, whose name is one of the rule's own words.
    #[must_use]
    pub(crate) fn under(self, place: &str) -> Self {
        self.under_either(place, place)
    }

    /// The same of a part whose place has words of the response in it; `plain` has none.
    #[must_use]
    pub(crate) fn under_either(self, place: &str, plain: &str) -> Self {
        Self { quoting: format!("{place}: {}", self.quoting), plain: format!("{plain}: {}", self.plain) }
    }

    /// The same with more words of the rule's own behind it.
    #[must_use]
    pub(crate) fn followed_by(self, words: &str) -> Self {
        Self { quoting: format!("{}{words}", self.quoting), plain: format!("{}{words}", self.plain) }
    }

    /// The sentence for the log: nothing of the response is in it but types and lengths.
    pub(crate) fn plain(&self) -> &str {
        &self.plain
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

/// Refuses more than `limit` of something, named in the plural.
pub(crate) fn at_most(limit: usize, count: usize, what: &str) -> Result<(), Why> {
    if count > limit { Err(why!("expected at most {limit} {what}, found more")) } else { Ok(()) }
}
