//! Extractors: parsers from a response to a value. A new extractor is a file and a line of `extractors!`.

mod columns;
mod csv;
mod documents;
mod form;
mod grok;
mod html;
mod mcp;
mod metrics;
mod pairs;
mod parts;
mod records;
mod regex;
mod xml;

use bytestring::ByteString;
use serde_json::Value;

pub(super) use self::html::error_page_message as message_of_page;
pub use self::{
    columns::Columns,
    csv::Csv,
    documents::{Binary, BinaryKind, Header, HeaderShape, Json, NdJson, Text},
    form::Form,
    grok::{Grok, GrokError, GrokPatterns},
    html::{CssSelector, Html, Selected, TableForm},
    mcp::{MCP_MEDIA_TYPE, Mcp},
    metrics::{Metrics, MetricsShape, matches_wildcard},
    pairs::{EachPairs, Indented, Pairs},
    parts::{Extract, ExtractPart, Typing},
    records::{ColumnNames, RaggedRows, Records},
    regex::{Capture, CaptureKind, CapturePattern, CapturePatterns, Regex, SearchScope},
    xml::{Attributes, ElementPath, Prefixes, Xml},
};
pub(crate) use self::{
    columns::has_frame,
    documents::read_media_type,
    mcp::{McpResult, ResultKind},
};
use super::read_error::ReadError;
use super::response_view::ResponseView;
use crate::model::{Content, JsonText, kind_of};
use crate::settings::{Checked, Code, Cursor, suggest};

/// Limit of the records or keys of one response. Without it, a response of many short lines could take a
/// hundred times its size in memory.
pub const RECORD_LIMIT: usize = 100_000;

/// Error for an invalid selector or path.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct SyntaxError {
    /// The expected and the found syntax.
    pub message: String,
    /// Position of the mistake in characters, from 0, or shortly before it.
    pub at: usize,
}

impl SyntaxError {
    /// Reports the text of a setting, which is not a `what`, at the position of the mistake.
    fn reject<T>(&self, value: &Cursor<'_>, code: Code, what: &str, help: &str) -> Checked<T> {
        let text = value.node.as_text().unwrap_or_default();
        let place = value.context.report.character_in(value.node, text, self.at);
        let message = format!("{} is not a {what}: {self}", value.name);
        value.reject_coded(code.at_span(place), message, help)
    }
}

/// Extractor with its source and the types of its result.
#[derive(Debug)]
pub struct Extractor {
    /// Extractor of the text to parse; the response itself if there is none.
    pub source: Option<Box<Self>>,
    /// Parser and its options.
    pub kind: ExtractorKind,
    /// Types of the result.
    pub typing: Typing,
}

/// Parser of one kind, with the options of a rule.
pub(crate) trait Extraction {
    /// Number of values per response, and the names that fields may use.
    fn finds(&self) -> (ValueCount, MemberNames<'_>) {
        (ValueCount::One, MemberNames::AnyNames)
    }

    /// Whether it reads the response as text, so that the charset matters.
    fn reads_text(&self) -> bool {
        true
    }

    /// Extracts the value. `typing` has the types that are applied afterwards.
    ///
    /// # Errors
    ///
    /// A sentence with the expected and the found form.
    fn find(&self, view: &ResponseView<'_>, typing: &Typing) -> Result<Extracted, ReadError>;
}

/// Declares the extractors: the name in a rule, the variant, and the type of its options.
macro_rules! extractors {
    ($($(#[$doc:meta])* $name:literal => $kind:ident($options:ty),)*) => {
        /// Parser of a response, with its options.
        #[derive(Debug)]
        pub enum ExtractorKind {
            $($(#[$doc])* $kind($options),)*
        }

        impl ExtractorKind {
            /// Name in a rule.
            pub fn name(&self) -> &'static str {
                match self {
                    $(Self::$kind(_) => $name,)*
                }
            }

            fn extraction(&self) -> &dyn Extraction {
                match self {
                    $(Self::$kind(options) => options,)*
                }
            }
        }
    };
}

extractors! {
    /// Any bytes, as a content block.
    "binary" => Binary(Binary),
    /// Table with aligned columns.
    "columns" => Columns(Columns),
    /// CSV and its variants.
    "csv" => Csv(Csv),
    /// Form-encoded fields.
    "form" => Form(Form),
    /// Named captures of grok patterns.
    "grok" => Grok(Regex),
    /// Headers and HTTP status.
    "header" => Header(Header),
    /// HTML page.
    "html" => Html(Html),
    /// JSON document.
    "json" => Json(Json),
    /// Response of an MCP server.
    "mcp" => Mcp(Mcp),
    /// Samples of Prometheus metrics.
    "metrics" => Metrics(Metrics),
    /// One JSON document per line.
    "ndjson" => NdJson(NdJson),
    /// `key: value` lines.
    "pairs" => Pairs(Pairs),
    /// Named captures of regular expressions.
    "regex" => Regex(Regex),
    /// The whole text.
    "text" => Text(Text),
    /// XML document.
    "xml" => Xml(Xml),
}

impl ExtractorKind {
    /// Number of values per response.
    pub fn value_count(&self) -> ValueCount {
        self.extraction().finds().0
    }

    /// Names that fields may use.
    pub fn finds(&self) -> MemberNames<'_> {
        self.extraction().finds().1
    }
}

/// Number of values that an extractor returns per response.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ValueCount {
    /// A content block, and no value.
    Block,
    /// One value.
    One,
    /// A list of values.
    Many,
}

/// Names of the members that an extractor returns.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum MemberNames<'a> {
    /// Any names: those in the response.
    AnyNames,
    /// Exactly these names.
    Names(Vec<&'a str>),
    /// None: the value is not an object.
    NoFields,
}

/// Result of an extractor.
#[derive(Debug)]
pub(crate) enum Extracted {
    /// JSON document, validated and unchanged.
    Raw(JsonText),
    /// A value.
    Value(Value),
    /// The whole text; a string value is built only when needed.
    Text(ByteString),
    /// Content block without a value.
    Block(Content),
    /// Response of an MCP server: content blocks, and their value.
    Mcp(McpResult),
    /// No value; the response is empty.
    Nothing,
}

impl Extractor {
    /// Extractor without types, whose result stays as it is.
    pub fn whole(kind: ExtractorKind) -> Self {
        Self { source: None, kind, typing: Typing::Untyped }
    }

    /// Names of the extractor and its sources, for messages.
    pub(crate) fn display_name(&self) -> String {
        match &self.source {
            Some(source) => format!("{} of {}", self.kind.name(), source.display_name()),
            None => self.kind.name().to_owned(),
        }
    }

    /// Extracts from a response.
    ///
    /// # Errors
    ///
    /// A sentence with the expected and the found form.
    pub(crate) fn extract(&self, view: &ResponseView<'_>) -> Result<Extracted, ReadError> {
        if let Some(extracted) = self.extract_used_keys(view) {
            return Ok(extracted);
        }
        let typed = self.typed(self.find(view)?, view);
        typed.map_err(|why| self.with_missing_patterns(why, view))
    }

    /// Extracts with `pairs`, without the keys that no field uses. `None` if all keys are used, and on
    /// errors, whose text lists all keys.
    ///
    /// A status page has many keys, and a route uses few of them. Without this, a call with 2 KB of text
    /// takes twice the instructions.
    fn extract_used_keys(&self, view: &ResponseView<'_>) -> Option<Extracted> {
        let ExtractorKind::Pairs(pairs @ Pairs { each: EachPairs::Text, .. }) = &self.kind else {
            return None;
        };
        let Typing::Fields(fields) = &self.typing else { return None };
        let wanted = Some(fields).filter(|fields| self.source.is_none() && fields.others.is_none())?;
        let found = pairs.extract(view.text().ok()?, Some(wanted), view.input.stop).ok()?;
        self.typed(Extracted::Value(found), view).ok()
    }

    /// If several patterns are configured, adds those without a match to the error: their captures are
    /// missing.
    fn with_missing_patterns(&self, why: ReadError, view: &ResponseView<'_>) -> ReadError {
        let (ExtractorKind::Regex(regex) | ExtractorKind::Grok(regex)) = &self.kind else { return why };
        if self.source.is_some() || regex.patterns.0.len() < 2 {
            return why;
        }
        let Ok(text) = view.text() else { return why };
        match suggest::quoted_list(regex.missing_in(text)) {
            missing if missing.is_empty() => why,
            missing => why.with_suffix(&format!("; nothing matches {missing}")),
        }
    }

    /// The result before typing.
    fn find(&self, view: &ResponseView<'_>) -> Result<Extracted, ReadError> {
        let Some(source) = &self.source else { return self.kind.extraction().find(view, &self.typing) };
        let inner =
            source.text(view).map_err(|error| error.in_part(&format!("`source` {}", source.kind.name())))?;
        self.kind.extraction().find(&view.with_text(inner), &self.typing)
    }

    /// The result, which must be a string.
    fn text(&self, view: &ResponseView<'_>) -> Result<ByteString, ReadError> {
        match self.extract(view)?.into_success()? {
            Extracted::Text(text) => Ok(text),
            found => match found.into_value(view)? {
                Value::String(text) => Ok(text.into()),
                other => Err(read_error!("expected a string to parse, found {}", kind_of(&other))),
            },
        }
    }

    fn typed(&self, found: Extracted, view: &ResponseView<'_>) -> Result<Extracted, ReadError> {
        match found {
            found if matches!(self.typing, Typing::Untyped) => Ok(found),
            Extracted::Mcp(answered) => answered.typed(&self.typing, view).map(Extracted::Mcp),
            found => {
                let found = found.into_value(view)?;
                if self.kind.value_count() == ValueCount::One {
                    self.typing.check_single(&found)?;
                }
                self.typing.apply(found).map(Extracted::Value)
            }
        }
    }
}

impl Extracted {
    /// The result as a part of a value, or as the source of another extractor. An error of an MCP server is
    /// neither, because its value has another type.
    fn into_success(self) -> Result<Self, ReadError> {
        let is_error = matches!(&self, Self::Mcp(answered) if !answered.is_success());
        if is_error { Err("the server returned an error and no value".into()) } else { Ok(self) }
    }

    /// The value as a tree.
    ///
    /// # Errors
    ///
    /// A sentence, if there is none, or if it has too many values.
    pub(crate) fn to_value(&self, view: &ResponseView<'_>) -> Result<Value, ReadError> {
        match self {
            Self::Raw(json) => view.tree_of(json),
            Self::Value(value) => Ok(value.clone()),
            Self::Text(text) => Ok(Value::String(text.to_string())),
            Self::Mcp(McpResult { value: Some(value), .. }) => value.to_value(view),
            Self::Block(_) | Self::Mcp(_) => Err("expected a value, found binary data".into()),
            Self::Nothing => Ok(Value::Null),
        }
    }

    /// Converts to a tree without a copy.
    ///
    /// # Errors
    ///
    /// As [`Self::to_value`].
    pub(crate) fn into_value(self, view: &ResponseView<'_>) -> Result<Value, ReadError> {
        match self {
            Self::Value(value) => Ok(value),
            found => found.to_value(view),
        }
    }
}
