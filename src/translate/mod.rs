//! Translation of an upstream response into an MCP tool result, by the compiled rules of a route.
//!
//! Parts, in reading order:
//!
//! - A [`Translator`] has a route's rules ([`Rule`]); [`translate`] applies them to a
//!   [`UpstreamResponse`](crate::model::UpstreamResponse).
//! - A `response_view` decompresses it (`content_encoding`), decodes its `charset` and runs extractors
//!   ([`extract`]: bytes to a value, typed by [`Fields`]).
//! - Each rule has a [`Matcher`], with an [`ExitPattern`] for the exit of a program.
//! - `success` builds the structured content ([`Jq`]), checks it against the [`OutputSchema`], shortens it
//!   ([`Limit`]) and renders it ([`ContentTemplate`]).
//! - `error` builds a tool error by a rule, or that of a response that no rule matches, after the
//!   `leak_filter` has removed internals of the upstream. Every text of an error passes [`Redaction`].
//! - `variables` are the variables of a [`Template`]. [`inspect()`] evaluates conditions on a response that
//!   is not yet a result. A [`WorkBudget`] limits the work of a translation and cancels it.
//! - `expressions` compiles filters and templates of the configuration, each in its scope: the names that it
//!   may use, and the arguments that it uses. A [`Pattern`] is a regular expression of the configuration.
//!
//! Pure: bytes and values in, values and notes out. What would have been logged is returned as a note.

#[macro_use]
mod read_error;
mod charset;
mod content;
mod content_encoding;
mod convert;
mod error;
pub(crate) mod expressions;
pub mod extract;
mod fields;
mod jq;
mod leak_filter;
mod limit;
mod matcher;
mod output_schema;
mod pattern;
mod redaction;
mod response_view;
mod work_budget;
mod success;
mod template;
mod translator;
mod variables;
#[cfg(test)]
mod tests;

pub use charset::Charset;
pub use content::{
    AnnotationsTemplate, BLOCK_LIMIT, BlockPayload, BlockTemplate, ContentTemplate, LinkTemplate,
    ResourceTemplate,
};
pub(crate) use convert::without_exponent;
pub use error::{CODE_META_KEY, CodeTemplate, ErrorRule, RETRY_AFTER_META_KEY, STATUS_META_KEY};
pub use fields::{
    Cardinality, DurationForm, Enumeration, Field, FieldKind, FieldPath, FieldType, Fields, NumberForm,
    OnMissing, SizeForm, TimeForm, TimeFormat, TimeZoneSetting,
};
pub(crate) use fields::{FieldSetting, TYPE_NAMES};
pub use jq::{
    JQ_FOLD_STEPS, JQ_MEMORY_LIMIT_BYTES, JQ_ROUND_STEPS, JQ_WORK_LIMIT, Jq, JqError, JqNames,
    with_deep_stack,
};
pub use limit::{LIMIT_META_KEY, Limit, ListPath, PagingArguments};
pub use matcher::{ExitPattern, HeaderPatterns, Matcher, MediaPattern, StatusPattern};
pub use output_schema::{OutputSchema, WrapNonObjects};
pub use pattern::Pattern;
pub use read_error::LogNote;
pub use redaction::{Redaction, SecretPattern};
pub use response_view::{Inspection, inspect};
pub use success::{SuccessRule, empty_success_text};
pub(crate) use template::TemplateBudget;
pub use template::{OutputContext, Template, TemplateError, message_variables, request_variables};
pub use translator::{
    CallInput, OnNoMatch, Rule, RuleAction, Trace, TraceStep, Translation, TranslationLimits, Translator,
    translate,
};
pub use variables::{
    MessageRole, SAMPLE, SamplingOptions, SamplingRequest, SamplingRequestTemplate, TEMPLATE_NAMES,
};
pub use work_budget::WorkBudget;
