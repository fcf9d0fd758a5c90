//! The rules of a route, compiled: when each holds, and what it does.

use super::{
    decode::Charset,
    extract::Extract,
    failure::ErrorRule,
    matcher::Matcher,
    output::{OutputSchema, Wrap},
    redaction::Redaction,
    success::SuccessRule,
};

/// The rules of one route, compiled.
#[derive(Debug)]
pub struct Translator {
    /// Tried in order; the first that holds decides. The default rules decide where there are none.
    pub rules: Vec<Rule>,
    /// What becomes of a success that no rule was written for.
    pub otherwise: Otherwise,
    /// What every success must meet.
    pub output: Option<OutputSchema>,
    /// Which clients get a value that is no object as `{"result": …}`, where there is no schema.
    pub wrap: Wrap,
    /// What no error may tell.
    pub redaction: Redaction,
    /// Bounds.
    pub limits: TranslationLimits,
}

/// Bounds of a translation.
#[derive(Debug, Clone, Copy)]
pub struct TranslationLimits {
    /// How long the text of a tool error may be, in bytes.
    pub error_text_bytes: usize,
    /// How long a compressed reply may be once it is expanded, in bytes: the route's `reply_limit`.
    pub reply_bytes: usize,
    /// How many values may be read of a reply into one tree, lists and objects among them: the route's `value_limit`.
    pub values: usize,
}

impl Default for TranslationLimits {
    fn default() -> Self {
        Self {
            error_text_bytes: Self::DEFAULT_ERROR_TEXT_BYTES,
            reply_bytes: Self::DEFAULT_REPLY_BYTES,
            values: Self::DEFAULT_VALUES,
        }
    }
}

impl TranslationLimits {
    /// 2 KiB: an error is for reading.
    pub const DEFAULT_ERROR_TEXT_BYTES: usize = 2048;
    /// 8 MiB.
    pub const DEFAULT_REPLY_BYTES: usize = 8 << 20;
    /// A table of 100,000 rows and ten columns, and some more.
    pub const DEFAULT_VALUES: usize = 1_200_000;
}

/// One rule.
#[derive(Debug)]
pub struct Rule {
    /// When it holds. A success rule that says nothing of the status holds for 2xx only, so that the text of
    /// a failure is never read as data; an error rule that says nothing of it does not hold for 5xx, so that
    /// nothing of a crash is passed on unmeant.
    pub matcher: Matcher,
    /// The charset of the reply, where its headers are wrong or silent.
    pub charset: Option<Charset>,
    /// What it does.
    pub action: Action,
}

/// What a rule does with a reply.
#[derive(Debug)]
pub enum Action {
    /// Makes a tool error of it.
    Error(ErrorRule),
    /// Makes a result of it.
    Success(SuccessRule),
}

impl Action {
    /// What reads a value from the reply; by media type where there is none.
    pub fn extract(&self) -> Option<&Extract> {
        match self {
            Self::Error(rule) => rule.extract.as_ref(),
            Self::Success(rule) => rule.extract.as_ref(),
        }
    }
}

/// What becomes of a success that fits none of the rules.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Otherwise {
    /// A tool error, so that a drifting upstream shows.
    #[default]
    Error,
    /// The default rules.
    Text,
}
