//! View of a response for the rules: body, text, JSON, headers and the extracted value, each computed on
//! first use.

use std::cell::OnceCell;

use bytes::Bytes;
use bytestring::ByteString;
use http::header::CONTENT_ENCODING;
use serde_json::{Map, Value};

use super::charset::{DecodedText, decode, decode_lossy};
use super::content_encoding::decompress;
use super::extract::{
    Binary, Extract, ExtractPart, Extracted, Extractor, ExtractorKind, Json, MCP_MEDIA_TYPE, Mcp, McpResult,
    ResultKind, Text as TextExtractor, ValueCount,
};
use super::pattern::Captures;
use super::read_error::ReadError;
use super::translator::MAX_TRACED;
use super::variables::jq_variables;
use super::{CallInput, Charset, Jq, Matcher, Trace, TranslationLimits};
use crate::model::{JsonText, TooManyValues, UpstreamResponse, count_tree_values, cut_bytes};

/// Decompressed body of a response, computed on first use.
pub(super) type DecompressedBody = OnceCell<Result<Bytes, ReadError>>;

/// Response as the rules of its route see it, decoded with one charset.
pub(crate) struct ResponseView<'a> {
    pub(super) response: &'a UpstreamResponse,
    body: &'a DecompressedBody,
    pub(super) input: CallInput<'a>,
    charset: Option<Charset>,
    text: OnceCell<Result<DecodedText, ReadError>>,
    json: OnceCell<Option<Value>>,
    headers: OnceCell<Value>,
    pub(super) limits: TranslationLimits,
    /// Reason why a part of the response was not parsed: it has more values than the route's `max_values`.
    too_many_values: OnceCell<String>,
}

impl<'a> ResponseView<'a> {
    /// Creates a view of a response. Several views may share the decompressed body.
    pub(super) fn new(
        response: &'a UpstreamResponse,
        body: &'a DecompressedBody,
        input: CallInput<'a>,
        limits: TranslationLimits,
    ) -> Self {
        let (charset, text, json, headers, too_many_values) = Default::default();
        Self { response, body, input, charset, text, json, headers, limits, too_many_values }
    }

    /// View of the same response, decoded with another charset.
    pub(super) fn with_charset(&self, charset: Charset) -> Self {
        Self { charset: Some(charset), ..Self::new(self.response, self.body, self.input, self.limits) }
    }

    /// View of the same response whose text is `text`, a part of the response.
    pub(super) fn with_text(&self, text: ByteString) -> Self {
        let (charset, source) = ("UTF-8", "what was found");
        let text = OnceCell::from(Ok(DecodedText { text, charset, source }));
        Self { text, ..Self::new(self.response, self.body, self.input, self.limits) }
    }

    /// Returns the decompressed body.
    pub(crate) fn body(&self) -> Result<&'a Bytes, ReadError> {
        self.body
            .get_or_init(|| decompress(self.response, self.limits.response_bytes))
            .as_ref()
            .map_err(Clone::clone)
    }

    /// Describes the decompression for the trace: the sizes, or why it failed. `None` without a
    /// `Content-Encoding`.
    pub(super) fn decompression_summary(&self) -> Option<String> {
        let encoding = self.response.headers.get(CONTENT_ENCODING)?.to_str().ok()?;
        let compressed = self.response.body.len();
        Some(match self.body() {
            Ok(body) => format!("{encoding}: {compressed} bytes to {} bytes", body.len()),
            Err(error) => error.to_string(),
        })
    }

    pub(super) fn decoded(&self) -> Result<&DecodedText, ReadError> {
        // Decoding errors quote charset names only, nothing of the response.
        let read = || decode(self.response, self.body()?, self.charset).map_err(ReadError::unquoted);
        self.text.get_or_init(read).as_ref().map_err(Clone::clone)
    }

    /// The text with `�` for invalid bytes; empty if the body can't be decompressed. For error messages only.
    pub(super) fn lossy_text(&self) -> String {
        self.body().map(|body| decode_lossy(self.response, body)).unwrap_or_default()
    }

    pub(crate) fn text(&self) -> Result<&ByteString, ReadError> {
        self.decoded().map(|decoded| &decoded.text)
    }

    pub(crate) fn checked_json(&self) -> Result<JsonText, ReadError> {
        // The error message of the parser names the expected token, and quotes nothing of the response.
        JsonText::check_text(self.text()?).map_err(|error| ReadError::unquoted(error.to_string()))
    }

    /// The response as JSON, regardless of its media type; `None` if it is not JSON or has too many values.
    pub(crate) fn json(&self) -> Option<&Value> {
        self.json.get_or_init(|| self.checked_json().ok().and_then(|json| self.tree_of(&json).ok())).as_ref()
    }

    /// Parses JSON into a tree.
    ///
    /// # Errors
    ///
    /// A message, if the JSON has too many values.
    pub(crate) fn tree_of(&self, json: &JsonText) -> Result<Value, ReadError> {
        self.check_value_count(json).map(|()| json.parse())
    }

    /// Checks that JSON has at most `max_values` values, because a parsed tree needs several times the memory
    /// of its text.
    ///
    /// # Errors
    ///
    /// If the JSON has more values. The message contains the position of the first one over the limit.
    pub(super) fn check_value_count(&self, json: &JsonText) -> Result<(), ReadError> {
        json.check_value_count(self.limits.values).map_err(|TooManyValues { limit, line, column }| {
            self.too_many_values_error(format!(
                "expected at most {limit} values (`max_values`), found more at line {line}, column {column}"
            ))
        })
    }

    /// Checks that a tree extracted from the response is not too large. `value_count` is the number of values
    /// in earlier trees of the same value; the values of `tree` are added to it.
    ///
    /// # Errors
    ///
    /// A message, if there are too many values.
    pub(crate) fn check_tree_value_count(
        &self,
        tree: &Value,
        value_count: &mut usize,
    ) -> Result<(), ReadError> {
        *value_count += count_tree_values(tree);
        let limit = self.limits.values;
        if *value_count <= limit {
            return Ok(());
        }
        Err(self.too_many_values_error(format!("expected at most {limit} values (`max_values`), found more")))
    }

    fn too_many_values_error(&self, reason: String) -> ReadError {
        self.too_many_values.get_or_init(|| reason.clone());
        ReadError::unquoted(reason)
    }

    /// Reason why a part of the response was not parsed, if a part had too many values.
    pub(super) fn too_many_values(&self) -> Option<&str> {
        self.too_many_values.get().map(String::as_str)
    }

    /// The headers as an object with lower-case names; repeated headers are joined by a comma.
    pub(crate) fn headers(&self) -> &Value {
        self.headers.get_or_init(|| {
            let mut headers = Map::new();
            for name in self.response.headers.keys() {
                let values = self.response.headers.get_all(name).iter();
                let values: Vec<_> = values.map(|value| String::from_utf8_lossy(value.as_bytes())).collect();
                headers.insert(name.as_str().to_owned(), values.join(", ").into());
            }
            Value::Object(headers)
        })
    }
}

/// Result of a rule's extractor for one response. The extractor runs once, when a condition or the action
/// first needs the value.
pub(super) struct LazyExtraction<'a> {
    /// The rule's extractor.
    extract: Option<&'a Extract>,
    /// Default extractor for the media type, if the rule has no extractor.
    default: OnceCell<Extract>,
    pub(super) view: &'a ResponseView<'a>,
    result: OnceCell<Result<Extracted, ReadError>>,
    value: OnceCell<Result<Value, ReadError>>,
}

impl<'a> LazyExtraction<'a> {
    /// Creates an extraction with `extract`, or with the default for the media type if the rule has no
    /// extractor.
    pub(super) fn new(extract: Option<&'a Extract>, view: &'a ResponseView<'a>) -> Self {
        Self { extract, default: OnceCell::new(), view, result: OnceCell::new(), value: OnceCell::new() }
    }

    /// Returns the extracted result, or the reason why extraction failed.
    pub(super) fn extracted(&self) -> Result<&Extracted, ReadError> {
        self.result.get_or_init(|| self.run()).as_ref().map_err(Clone::clone)
    }

    /// Returns the extracted result as a tree.
    pub(super) fn value(&self) -> Result<&Value, ReadError> {
        match self.extracted()? {
            Extracted::Value(value) => Ok(value),
            extracted => {
                self.value.get_or_init(|| extracted.to_value(self.view)).as_ref().map_err(Clone::clone)
            }
        }
    }

    /// Returns the result, and the tree if it has been built already. Records the extraction in the trace.
    pub(super) fn into_extracted(
        mut self,
        trace: &mut Trace,
    ) -> Result<(Extracted, Option<Value>), ReadError> {
        // Run the extractor first, so that the trace also records its error.
        let _ = self.extracted();
        self.trace(trace);
        let extracted = self.result.take().unwrap_or(Ok(Extracted::Nothing))?;
        Ok((extracted, self.value.take().and_then(Result::ok)))
    }

    /// Returns the extractor to run. `None` if the rule has no extractor and the response is empty: old
    /// servers declare a media type and then send no body.
    fn extract(&self) -> Option<&Extract> {
        let default_extract =
            || Extract::One(Box::new(Extractor::untyped(extractor_for_media_type(self.view))));
        match self.extract {
            None if self.view.body().is_ok_and(Bytes::is_empty) => None,
            None => Some(self.default.get_or_init(default_extract)),
            configured => configured,
        }
    }

    /// Whether the extractor returns the body as a content block.
    pub(super) fn returns_bytes(&self) -> bool {
        self.extract().is_some_and(|extract| extract.value_count() == ValueCount::Block)
    }

    fn run(&self) -> Result<Extracted, ReadError> {
        if self.extract.is_none() {
            self.view.body()?;
        }
        let Some(extract) = self.extract() else { return Ok(Extracted::Nothing) };
        if extract.reads_text() {
            self.view.decoded()?;
        }
        extract.extract(self.view)
    }

    /// Records the extraction in the trace, if it has run.
    pub(super) fn trace(&self, trace: &mut Trace) {
        let Some(result) = self.result.get().filter(|_| trace.is_on()) else { return };
        let Some(extract) = self.extract() else {
            return trace.step("extract", || "nothing: the response is empty".into());
        };
        if extract.reads_text()
            && let Ok(DecodedText { text, charset, source }) = self.view.decoded()
        {
            let source = match *source {
                "default" => "the default without a declared charset".to_owned(),
                source => format!("declared by {source}"),
            };
            trace.step("decode", || format!("{} characters of {charset}, {source}", text.chars().count()));
        }
        if let (Extract::Parts(parts), Ok(Extracted::Value(value))) = (extract, result) {
            for ExtractPart { name, extractor, .. } in parts {
                let member = value.get(name).map(|value| cut_bytes(&value.to_string(), MAX_TRACED));
                trace.step(format_args!("extract {name} {}", extractor.display_name()), || {
                    member.unwrap_or_else(|| "nothing: omitted".to_owned())
                });
            }
            return;
        }
        let description = result.as_ref().map_or_else(|error| format!("failed: {error}"), describe_extracted);
        let name = match extract {
            Extract::One(extractor) => format!(" {}", extractor.display_name()),
            Extract::Parts(_) => String::new(),
        };
        trace.step(format_args!("extract{name}"), || description);
    }
}

/// Description of an extracted result, for the trace.
fn describe_extracted(extracted: &Extracted) -> String {
    match extracted {
        Extracted::Raw(json) => cut_bytes(json.as_str(), MAX_TRACED),
        Extracted::Value(value) => cut_bytes(&value.to_string(), MAX_TRACED),
        Extracted::Text(text) => format!("{:?}", cut_bytes(text, MAX_TRACED)),
        Extracted::Block(_) => "a content block".to_owned(),
        Extracted::Mcp(McpResult { content, value, kind, .. }) => {
            let kind = match kind {
                ResultKind::Success => "a result",
                ResultKind::ToolError => "a tool error",
                ResultKind::ProtocolError { .. } => "a protocol error",
            };
            let value = value.as_deref().map_or_else(|| "no value".to_owned(), describe_extracted);
            format!("{kind}, blocks: {}; {value}", content.len())
        }
        Extracted::Nothing => "nothing".to_owned(),
    }
}

/// Selects the default extractor by media type.
pub(super) fn extractor_for_media_type(view: &ResponseView<'_>) -> ExtractorKind {
    const TEXTS: &str = "xml yaml x-yaml javascript x-www-form-urlencoded x-ndjson toml mpegurl x-mpegurl";
    let media_type = view.response.media_type();
    let (kind, subtype) = media_type.as_deref().and_then(|found| found.split_once('/')).unwrap_or_default();
    // `application/vnd.ogc.se_xml` and the like are older than `+xml`.
    let is_xml = subtype.ends_with("+xml") || subtype.ends_with("_xml");
    let is_structure = |json: JsonText| json.as_str().starts_with(['{', '[']);
    let (is_json, is_text) = match &media_type {
        Some(media_type) if media_type == MCP_MEDIA_TYPE => return ExtractorKind::Mcp(Mcp),
        // RFC 9110, section 8.3: without `Content-Type`, the recipient may examine the data.
        None => (view.checked_json().is_ok_and(is_structure), view.text().is_ok()),
        Some(_) => (
            subtype == "json" || subtype.ends_with("+json"),
            kind == "text" || is_xml || TEXTS.split(' ').any(|text| text == subtype),
        ),
    };
    match (is_json, is_text) {
        (true, _) => ExtractorKind::Json(Json),
        (false, true) => ExtractorKind::Text(TextExtractor::default()),
        (false, false) => ExtractorKind::Binary(Binary { kind: None, media_type: None }),
    }
}

/// View of a response for several conditions and filters, which share one extraction.
pub struct Inspection<'a>(LazyExtraction<'a>);

/// Evaluates conditions and filters on a response. Without an extractor, the value is the response as JSON if
/// it parses; otherwise the media type selects the extractor.
pub fn inspect<T>(
    extract: Option<&Extract>,
    input: CallInput<'_>,
    limits: &TranslationLimits,
    response: &UpstreamResponse,
    evaluate: impl FnOnce(&Inspection<'_>) -> T,
) -> T {
    let body = DecompressedBody::new();
    let view = ResponseView::new(response, &body, input, *limits);
    let json;
    let extract = match extract {
        None if view.json().is_some() => {
            json = Extract::One(Box::new(Extractor::untyped(ExtractorKind::Json(Json))));
            Some(&json)
        }
        extract => extract,
    };
    evaluate(&Inspection(LazyExtraction::new(extract, &view)))
}

impl Inspection<'_> {
    /// Whether all conditions match.
    pub fn is_true(&self, matcher: &Matcher) -> bool {
        matcher.matches(&self.0).is_ok()
    }

    /// Applies a filter to the value; `None` if it fails or there is no value.
    pub fn value(&self, filter: &Jq) -> Option<Value> {
        let captures = Captures::new();
        filter.apply(self.0.value().ok()?, jq_variables(self.0.view, &captures)).ok()
    }
}
