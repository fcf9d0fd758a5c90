//! Extractors, the parsers of a rule's `extract`: they read a value from a response. A new extractor needs a
//! file in this module, a line in `extractors!`, and its name in the `extractors!` of `config::extract`.

mod columns;
mod csv;
mod documents;
mod grok;
mod html;
mod mcp;
mod metrics;
mod pairs;
mod records;
mod regex;
mod xml;

use bytestring::ByteString;
use serde_json::{Map, Value, json};

pub(super) use self::html::error_page_message as message_of_page;
pub use self::{
    columns::Columns,
    csv::Csv,
    documents::{Binary, BinaryKind, Form, Header, HeaderShape, Json, NdJson, Text},
    grok::{Grok, GrokError, GrokPatterns},
    html::{CssSelector, Html, Selected, TableForm},
    mcp::{MCP_MEDIA_TYPE, Mcp},
    metrics::{Metrics, MetricsShape, matches_wildcard},
    pairs::{EachPairs, Indented, Pairs},
    records::{RaggedRows, Records},
    regex::{Capture, CapturePattern, CapturePatterns, Regex, SearchScope},
    xml::{Attributes, ElementPath, Prefixes, Xml},
};
pub(crate) use self::{
    columns::has_frame,
    documents::read_media_type,
    mcp::{McpResult, ResultKind, is_from_mcp_server, is_mcp_error, replace_server_value},
};
use super::fields::{FieldPath, FieldType, Fields, Multiplicity, each_record, list_of, object_of};
use super::read_error::ReadError;
use super::response_view::ResponseView;
use crate::model::{Content, JsonText, kind_of};
use crate::settings::{Checked, Code, Cursor, suggest};

/// Maximum number of records or keys of one response. Without it, a response of many short lines could take a
/// hundred times its size in memory.
pub const RECORD_LIMIT: usize = 100_000;

/// Error for an invalid selector or path.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct SyntaxError {
    /// The expected and the found syntax.
    pub message: String,
    /// Position of the mistake in characters, from 0. It may be shortly before the mistake.
    pub at: usize,
}

impl SyntaxError {
    /// Reports an invalid setting, such as a path, at the position of the mistake. `syntax` is its noun.
    fn reject<T>(&self, value: &Cursor<'_>, code: Code, syntax: &str, help: &str) -> Checked<T> {
        let text = value.node.as_text().unwrap_or_default();
        let span = value.context.report.character_in(value.node, text, self.at);
        let message = format!("{} is not a {syntax}: {self}", value.name);
        value.reject_coded(code.at_span(span), message, help)
    }
}

/// Extraction of a rule: by one extractor, or by several whose values become one object.
#[derive(Debug)]
pub enum Extract {
    /// One extractor returns the value.
    One(Box<Extractor>),
    /// The value is an object with one member per extractor.
    Parts(Vec<ExtractPart>),
}

/// One of several extractors.
#[derive(Debug)]
pub struct ExtractPart {
    /// Name of the member.
    pub name: String,
    /// Extractor of the member.
    pub extractor: Extractor,
    /// Whether the member may be missing if nothing is found.
    pub optional: bool,
}

impl Extract {
    /// Number of values per response.
    pub fn value_count(&self) -> ValueCount {
        match self {
            Self::One(extractor) => extractor.kind.value_count(),
            Self::Parts(_) => ValueCount::One,
        }
    }

    /// JSON Schema of the value; `None` if no types are configured.
    pub fn schema(&self) -> Option<Map<String, Value>> {
        match self {
            Self::One(extractor) => extractor.schema(),
            Self::Parts(parts) => {
                parts.iter().find_map(|part| part.extractor.schema())?;
                let properties = parts.iter().map(|part| (part.name.clone(), part.schema()));
                let required = parts.iter().filter(|part| !part.optional).map(|part| part.name.as_str());
                Some(object_of(properties.collect(), required.collect()))
            }
        }
    }

    /// JSON Schema of the value; for an `html` extractor without types, the schema of the selected members.
    ///
    /// Use it only to derive an output schema: a configured output schema may convert the value.
    pub fn found_schema(&self) -> Option<Map<String, Value>> {
        self.schema().or_else(|| {
            let Self::One(extractor) = self else { return None };
            let ExtractorKind::Html(html) = &extractor.kind else { return None };
            html.schema()
        })
    }

    /// Extracts the value from a response.
    ///
    /// # Errors
    ///
    /// A message with the name of the extractor, and the expected and the found form.
    pub(crate) fn extract(&self, view: &ResponseView<'_>) -> Result<Extracted, ReadError> {
        let parts = match self {
            Self::One(extractor) => {
                let found = extractor.extract(view).and_then(|found| {
                    if let Extracted::Value(tree) = &found {
                        view.check_tree_value_count(tree, &mut 0)?;
                    }
                    Ok(found)
                });
                return found.map_err(|error| error.in_part(extractor.kind.name()));
            }
            Self::Parts(parts) => parts,
        };
        let (mut value, mut value_count) = (Map::with_capacity(parts.len()), 0);
        for part in parts {
            let found = part.extract(view).and_then(|found| {
                let tree = found.map(|found| found.into_value(view)).transpose()?;
                tree.iter().try_for_each(|tree| view.check_tree_value_count(tree, &mut value_count))?;
                Ok(tree)
            });
            let found = found
                .map_err(|error| error.in_part(&format!("{} {}", part.name, part.extractor.kind.name())))?;
            value.extend(found.map(|tree| (part.name.clone(), tree)));
        }
        Ok(Extracted::Value(Value::Object(value)))
    }

    /// Whether an extractor of the rule reads the response as text.
    pub(crate) fn reads_text(&self) -> bool {
        match self {
            Self::One(extractor) => extractor.kind.reads_text(),
            Self::Parts(parts) => parts.iter().any(|part| part.extractor.kind.reads_text()),
        }
    }
}

impl ExtractPart {
    /// JSON Schema of the part; without types, the schema of what its extractor returns.
    fn schema(&self) -> Value {
        match (self.extractor.schema(), &self.extractor.kind) {
            (Some(schema), _) => Value::Object(schema),
            (None, ExtractorKind::Text(_)) => json!({ "type": "string" }),
            (None, kind) if kind.value_count() == ValueCount::Many => json!({ "type": "array" }),
            (None, _) => json!({}),
        }
    }

    /// Extracts the part. `None` if the part is optional and absent: its pattern has no match, its header is
    /// missing, or the text is empty. A part that is present but invalid is an error.
    fn extract(&self, view: &ResponseView<'_>) -> Result<Option<Extracted>, ReadError> {
        let found = match self.extractor.find(view) {
            Err(_) if self.optional && self.finds_nothing(view) => return Ok(None),
            found => found?,
        };
        self.extractor.apply_types(found, view)?.into_success().map(Some)
    }

    fn finds_nothing(&self, view: &ResponseView<'_>) -> bool {
        let view_of_source = |source: &Extractor| source.text(view).map(|text| view.with_text(text));
        let Ok(inner) = self.extractor.source.as_deref().map(view_of_source).transpose() else {
            return false;
        };
        let view = inner.as_ref().unwrap_or(view);
        match &self.extractor.kind {
            ExtractorKind::Header(_) => true,
            // The error may also be about a match: a capture of the wrong type, or too many matches.
            ExtractorKind::Regex(regex) | ExtractorKind::Grok(regex) => {
                view.text().is_ok_and(|text| !regex.matches(text))
            }
            kind => kind.reads_text() && view.text().is_ok_and(|text| text.trim().is_empty()),
        }
    }
}

/// Extractor with its source and the types of its result.
#[derive(Debug)]
pub struct Extractor {
    /// Extractor that returns the text to parse; `None` to parse the response itself.
    pub source: Option<Box<Self>>,
    /// Parser and its options.
    pub kind: ExtractorKind,
    /// Types of the result.
    pub typing: Typing,
}

impl Extractor {
    /// Extractor without types, whose result is not converted.
    pub fn untyped(kind: ExtractorKind) -> Self {
        Self { source: None, kind, typing: Typing::Untyped }
    }

    /// JSON Schema of the value, or of the list if there are records; `None` without types.
    pub fn schema(&self) -> Option<Map<String, Value>> {
        let record = self.typing.schema()?;
        // A content block has no types, so [`ValueCount::Block`] does not get here.
        Some(if self.kind.value_count() == ValueCount::Many { list_of(record) } else { record })
    }

    /// Names of the extractor and its sources, for error messages.
    pub(crate) fn display_name(&self) -> String {
        match &self.source {
            Some(source) => format!("{} of {}", self.kind.name(), source.display_name()),
            None => self.kind.name().to_owned(),
        }
    }

    /// Extracts the value from a response.
    ///
    /// # Errors
    ///
    /// A message with the expected and the found form.
    pub(crate) fn extract(&self, view: &ResponseView<'_>) -> Result<Extracted, ReadError> {
        if let Some(extracted) = self.extract_used_keys(view) {
            return Ok(extracted);
        }
        let typed = self.apply_types(self.find(view)?, view);
        typed.map_err(|error| self.with_missing_patterns(error, view))
    }

    /// Extracts with `pairs`, but skips the keys that no field uses. `None` if the extractor is not `pairs`,
    /// if the rule needs all keys, or on errors, because an error message lists all keys.
    ///
    /// A status page has many keys, and a route uses few of them. Without this function, a call with 2 KB of
    /// text takes twice the instructions.
    fn extract_used_keys(&self, view: &ResponseView<'_>) -> Option<Extracted> {
        let ExtractorKind::Pairs(pairs @ Pairs { each: EachPairs::Text, .. }) = &self.kind else {
            return None;
        };
        let Typing::Fields(fields) = &self.typing else { return None };
        let used_fields = Some(fields).filter(|fields| self.source.is_none() && fields.others.is_none())?;
        let found = pairs.extract(view.text().ok()?, Some(used_fields), view.input.work_budget).ok()?;
        self.apply_types(Extracted::Value(found), view).ok()
    }

    /// If several patterns are configured, adds the patterns without a match to the error, because their
    /// captures are missing.
    fn with_missing_patterns(&self, error: ReadError, view: &ResponseView<'_>) -> ReadError {
        let (ExtractorKind::Regex(regex) | ExtractorKind::Grok(regex)) = &self.kind else { return error };
        if self.source.is_some() || regex.patterns.0.len() < 2 {
            return error;
        }
        let Ok(text) = view.text() else { return error };
        match suggest::quoted_list(regex.missing_in(text)) {
            missing if missing.is_empty() => error,
            missing => error.with_suffix(&format!("; nothing matches {missing}")),
        }
    }

    /// Returns the result before types are applied.
    fn find(&self, view: &ResponseView<'_>) -> Result<Extracted, ReadError> {
        let Some(source) = &self.source else { return self.kind.parser().find(view, &self.typing) };
        let inner =
            source.text(view).map_err(|error| error.in_part(&format!("`source` {}", source.kind.name())))?;
        self.kind.parser().find(&view.with_text(inner), &self.typing)
    }

    /// Returns the result as text. A result that is not a string is an error.
    fn text(&self, view: &ResponseView<'_>) -> Result<ByteString, ReadError> {
        match self.extract(view)?.into_success()? {
            Extracted::Text(text) => Ok(text),
            found => match found.into_value(view)? {
                Value::String(text) => Ok(text.into()),
                other => Err(read_error!("expected a string to parse, found {}", kind_of(&other))),
            },
        }
    }

    fn apply_types(&self, found: Extracted, view: &ResponseView<'_>) -> Result<Extracted, ReadError> {
        match found {
            found if matches!(self.typing, Typing::Untyped) => Ok(found),
            // The value of an error is unchanged.
            Extracted::Mcp(result) if result.kind != ResultKind::Success => Ok(Extracted::Mcp(result)),
            Extracted::Mcp(result) => {
                let value = result.value.ok_or("expected JSON in a text block, found no text block")?;
                let value = Some(Box::new(self.apply_types(*value, view)?));
                Ok(Extracted::Mcp(McpResult { value, is_partial: false, ..result }))
            }
            found => {
                let found = found.into_value(view)?;
                // The advertised schema has the type of one record, so a list is an error.
                if let (ValueCount::One, Value::Array(items)) = (self.kind.value_count(), &found)
                    && !matches!(self.typing, Typing::Value { from: None, .. })
                {
                    return Err(read_error!(
                        "expected one object, found a list of {}; a list of objects is `type: object[]` with \
                         `fields` beside it",
                        items.len()
                    ));
                }
                self.typing.apply(found).map(Extracted::Value)
            }
        }
    }
}

/// Parser of one format, with the options of a rule.
pub(crate) trait FormatParser {
    /// Number of values per response, and the member names that fields may refer to.
    fn result_shape(&self) -> (ValueCount, MemberNames<'_>) {
        (ValueCount::One, MemberNames::AnyNames)
    }

    /// Extracts the value, without applying `typing`, the types of the result.
    ///
    /// # Errors
    ///
    /// A message with the expected and the found form.
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

            fn parser(&self) -> &dyn FormatParser {
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
        self.parser().result_shape().0
    }

    /// Member names of the objects that the extractor returns. A field's `from` must begin with one of them.
    pub fn member_names(&self) -> MemberNames<'_> {
        self.parser().result_shape().1
    }

    /// Whether the extractor reads the response as text, so that the charset matters.
    fn reads_text(&self) -> bool {
        !matches!(self, Self::Binary(_) | Self::Header(_))
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
    /// Any names: the response decides.
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
    /// Value that the extractor built.
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

impl Extracted {
    /// Returns the result for use as a part of a value, or as the source of another extractor. An error of an
    /// MCP server is rejected, because its value has another type.
    fn into_success(self) -> Result<Self, ReadError> {
        let is_error = matches!(&self, Self::Mcp(result) if result.kind != ResultKind::Success);
        if is_error { Err("the server returned an error and no value".into()) } else { Ok(self) }
    }

    /// Returns the value as a tree.
    ///
    /// # Errors
    ///
    /// A message, if there is no value, or if it consists of too many values.
    pub(crate) fn to_value(&self, view: &ResponseView<'_>) -> Result<Value, ReadError> {
        match self {
            Self::Raw(json) => view.tree_of(json),
            Self::Value(value) => Ok(value.clone()),
            Self::Text(text) => Ok(Value::String(text.to_string())),
            Self::Mcp(McpResult { value: Some(value), .. }) => value.to_value(view),
            Self::Mcp(_) => Err("expected structured content or a text block, found neither".into()),
            Self::Block(_) => Err("expected a value, found binary data".into()),
            Self::Nothing => Ok(Value::Null),
        }
    }

    /// Like [`Self::to_value`], but does not copy a value that is a tree already.
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

/// Types of the result of an extractor.
#[derive(Debug)]
pub enum Typing {
    /// The result is not converted.
    Untyped,
    /// An object with these fields, or a list of such objects.
    Fields(Fields),
    /// A single value, or a list of such values.
    Value {
        /// Path of the value in an object; `None` for the result itself.
        from: Option<FieldPath>,
        /// Type of the value.
        kind: Box<FieldType>,
    },
}

impl Typing {
    /// JSON Schema of one record; `None` without types.
    pub fn schema(&self) -> Option<Map<String, Value>> {
        match self {
            Self::Untyped => None,
            Self::Fields(fields) => Some(fields.schema()),
            Self::Value { kind, .. } => Some(kind.schema()),
        }
    }

    /// Paths of the typed values.
    fn paths(&self) -> Vec<&FieldPath> {
        match self {
            Self::Untyped | Self::Value { from: None, .. } => Vec::new(),
            Self::Fields(fields) => fields.list.iter().map(|field| &field.from).collect(),
            Self::Value { from: Some(path), .. } => vec![path],
        }
    }

    /// Checks that records with these member names have the required fields. Used if there are no records to
    /// convert.
    ///
    /// # Errors
    ///
    /// A message with the missing path and the found names.
    fn check_names(&self, found: &Map<String, Value>) -> Result<(), ReadError> {
        match self {
            Self::Untyped | Self::Value { from: None, .. } => Ok(()),
            Self::Fields(fields) => fields.check_names(found),
            Self::Value { from: Some(path), .. } => value_at(path, Some(found)).map(|_| ()),
        }
    }

    /// Converts a result to the configured types.
    ///
    /// # Errors
    ///
    /// A message with the position, and the expected and the found form.
    fn apply(&self, found: Value) -> Result<Value, ReadError> {
        match self {
            Self::Untyped => Ok(found),
            Self::Fields(fields) => fields.apply(&found),
            Self::Value { from: None, kind } if kind.count == Multiplicity::List => kind.apply(&found),
            Self::Value { from: None, kind } => each_record(&found, |found| kind.apply(found)),
            // A list at this path is one value, not several records.
            Self::Value { from: Some(path), kind } => {
                each_record(&found, |found| kind.apply(value_at(path, found.as_object())?))
            }
        }
    }
}

fn value_at<'v>(path: &FieldPath, found: Option<&'v Map<String, Value>>) -> Result<&'v Value, ReadError> {
    let value = found.and_then(|members| path.find(members));
    value.ok_or_else(|| read_error!("expected `{path}` in the response, found none"))
}
