//! Translation of an upstream response into an MCP tool result, by the compiled rules of a route.
//!
//! Parts, in reading order:
//!
//! - A [`Translator`] has a route's rules ([`Rule`]); [`translate`] applies them to a
//!   [`UpstreamResponse`](crate::model::UpstreamResponse).
//! - A `response_view` decompresses the body (`content_encoding`), decodes its `charset` and runs extractors
//!   ([`extract`]: bytes to a value, typed by [`Fields`]).
//! - Each rule has a [`Matcher`] with its conditions. An [`ExitPattern`] is a condition on the exit status of
//!   a program.
//! - `success` builds the structured content ([`Jq`]), checks it against the [`OutputSchema`], shortens it
//!   ([`Limit`]) and renders content blocks ([`ContentTemplate`]).
//! - `tool_error` builds the tool error of an error rule, or of a response that no rule matches. The
//!   `leak_filter` removes internals of the upstream, and [`Redaction`] replaces secrets in every error.
//! - `variables` has the variables of a [`Template`]. [`inspect()`] evaluates conditions on a response that
//!   is not translated yet. A [`WorkBudget`] limits the work of a translation and cancels it.
//! - `expressions` compiles the filters and templates of the configuration. The scope of an expression has
//!   the names that it may use, and records the arguments that it uses. A [`Pattern`] is a regular expression
//!   of the configuration.
//!
//! The module is pure: bytes and values in, values and notes out. Notes for the log are returned.

#[macro_use]
mod read_error;
mod charset;
mod content;
mod content_encoding;
mod convert;
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
mod success;
mod template;
mod tool_error;
mod translator;
mod variables;
mod work_budget;
#[cfg(test)]
mod tests;

pub use charset::Charset;
pub use content::{
    AnnotationsTemplate, BLOCK_LIMIT, BlockPayload, BlockTemplate, ContentTemplate, EmbeddedTemplate,
    LinkTemplate,
};
pub(crate) use convert::without_exponent;
pub use fields::{
    DurationForm, Enumeration, Field, FieldKind, FieldPath, FieldType, Fields, Multiplicity, NumberForm,
    OnMissing, SizeForm, TimeFormat, TimeOptions, TimeZoneSetting,
};
pub(crate) use fields::{FieldSetting, TYPE_NAMES};
pub use jq::{
    JQ_FOLD_STEPS, JQ_MEMORY_LIMIT_BYTES, JQ_ROUND_STEPS, JQ_WORK_LIMIT, Jq, JqError, JqVariables,
    with_deep_stack,
};
pub use limit::{LIMIT_META_KEY, Limit, ListPath, PagingArguments};
pub use matcher::{ExitPattern, HeaderPatterns, Matcher, MediaPattern, Outcome, StatusPattern};
pub use output_schema::{OutputSchema, WrapNonObjects};
pub use pattern::Pattern;
pub use read_error::LogNote;
pub use redaction::{Redaction, SecretPattern};
pub use response_view::{Inspection, inspect};
pub use success::{SuccessRule, empty_success_text};
pub(crate) use template::{ITEM, TemplateBudget};
pub use template::{OutputContext, Template, TemplateError, message_variables, request_variables};
pub use tool_error::{CODE_META_KEY, CodeTemplate, ErrorRule, RETRY_AFTER_META_KEY, STATUS_META_KEY};
pub use translator::{
    CallInput, OnNoMatch, Rule, RuleAction, Trace, TraceStep, Translation, TranslationLimits, Translator,
    translate,
};
pub use variables::{
    MessageRole, SAMPLE, SamplingOptions, SamplingRequest, SamplingRequestTemplate, TEMPLATE_VARIABLES,
};
pub use work_budget::WorkBudget;
