//! How a reply becomes a tool result: the declared rules of a route, compiled once, applied to every reply.
//!
//! In reading order: [`Translator`] holds a route's [`rules`](Rule); [`translate`] applies them to a
//! [`Reply`](crate::reply::Reply). A `response_view` undoes its `content_encoding` and decodes its charset,
//! which it may have `declared` itself, and runs extractors ([`extract`]: bytes to a value, typed by
//! [`Fields`]). Each rule has a [`Matcher`] (when it holds; of a program's end an [`ExitPattern`]). `success`
//! makes the structure ([`Jq`]), holds it to the [`OutputSchema`], shortens it ([`Limit`]) and shows it
//! ([`ContentTemplate`]); `failure` makes a tool error, of what an MCP server calls one `told` does, and
//! `verdict` of what no rule looked for, without the upstream's `insides`. [`Redaction`] is the one way out
//! for the words of errors. `names` are what [`Template`]s see. [`look()`] asks questions of a reply that is
//! no result yet. A [`Stop`] ends what nobody waits for.
//!
//! Pure: bytes and values in, values and notes out. What would have been logged is returned as a note.

mod content;
mod content_encoding;
mod convert;
mod credentials;
mod declared;
mod decode;
mod exit;
pub mod extract;
mod failure;
mod fields;
mod filters;
mod insides;
mod jq;
mod limit;
mod look;
mod markdown;
mod matcher;
mod names;
mod output;
mod redaction;
mod stop;
mod success;
mod template;
mod told;
#[cfg(test)]
mod tests;
mod trace;
mod response_view;
mod rules;
mod sample;
mod translation;
mod verdict;
mod why;

pub use content::{BLOCK_LIMIT, BlockTemplate, BodyTemplate, ContentTemplate, Payload, is_moment};
pub use convert::Booleans;
pub(crate) use convert::without_exponent;
pub use decode::{Charset, CharsetError};
pub use exit::ExitPattern;
pub use failure::{CodeTemplate, ErrorRule};
pub use fields::{
    Count, DurationForm, Field, FieldKind, FieldType, Fields, Kilo, Missing, NumberForm, Path, PathError,
    ShortClock, SizeForm, SizeUnit, TimeForm, TimeFormat, TimeUnit, Values, Zone,
};
pub use jq::{
    JQ_FOLD_STEPS, JQ_MEMORY_LIMIT_BYTES, JQ_ROUND_STEPS, JQ_WORK_LIMIT, Jq, JqError, JqNames,
    on_a_deep_stack,
};
pub use limit::{LIMIT_META_KEY, Limit, ListPath, ListPathError, More};
pub use look::{Look, look};
pub use matcher::{Matcher, MediaPattern, Pattern, PatternError, StatusPattern};
pub use names::TEMPLATE_NAMES;
pub use output::{OutputSchema, OutputSchemaError, Wrap};
pub use redaction::{Redaction, SecretPattern, SecretPatternError};
pub use rules::{Action, Otherwise, Rule, TranslationLimits, Translator};
pub use sample::{SAMPLE, Sample, SampleTemplate, Speaker};
pub use stop::Stop;
pub use success::{SuccessRule, words_of_nothing};
pub(crate) use template::Budget as TemplateBudget;
pub use template::{Template, TemplateError, line_names, template_names};
pub use trace::{Step, Trace};
pub use translation::{Facts, Note, Translation, translate};
pub use verdict::{CODE_META_KEY, EXIT_META_KEY, RETRY_AFTER_META_KEY, STATUS_META_KEY};
