//! Extractors `json`, `ndjson`, `form` and `text`, which parse the body, and `binary` and `header`, which
//! return the body or headers as the upstream sent them.

use std::borrow::Cow;

use base64::{Engine, prelude::BASE64_STANDARD};
use encoding_rs::{Encoding, UTF_8};
use http::HeaderName;
use percent_encoding::percent_decode;
use serde_json::{Map, Value};
use settings_derive::{EnumSetting, Section};

use super::records::{add, lines};
use super::{Extracted, FormatParser, MemberNames, RECORD_LIMIT, Typing, ValueCount};
use crate::model::{Content, ContentBlock, JsonText, ResourceBody, ResourceContents};
use crate::settings::{
    Checked, Code, Cursor, EnumSetting as _, Invalid, Kind, Node, ValueKind, suggest, text_of,
};
use crate::translate::MediaPattern;
use crate::translate::charset::is_html;
use crate::translate::read_error::{ReadError, at_most};
use crate::translate::response_view::ResponseView;

/// Parses a JSON document, nested at most [`JSON_DEPTH_LIMIT`](crate::model::JSON_DEPTH_LIMIT) deep.
#[derive(Debug, Clone, Copy, Default, Section)]
pub struct Json;

impl FormatParser for Json {
    fn find(&self, view: &ResponseView<'_>, _: &Typing) -> Result<Extracted, ReadError> {
        if view.text()?.trim().is_empty() {
            return Err("expected JSON, found an empty response".into());
        }
        view.checked_json().map(Extracted::Raw)
    }
}

/// Parses one JSON document per line into a list; keys stay in order, and numbers keep their text.
///
/// Blank lines and the record separators of RFC 7464 are skipped. An empty response is an error, unless the
/// rule allows it.
#[derive(Debug, Clone, Copy, Section)]
#[section(default)]
pub struct NdJson {
    /// Whether an empty response is valid and gives an empty list. Otherwise it is an error.
    pub allow_empty: bool,
}

impl FormatParser for NdJson {
    fn result_shape(&self) -> (ValueCount, MemberNames<'_>) {
        (ValueCount::Many, MemberNames::AnyNames)
    }

    fn find(&self, view: &ResponseView<'_>, _: &Typing) -> Result<Extracted, ReadError> {
        let text = view.text()?;
        let mut documents = Vec::new();
        for line in lines(text) {
            let document = line.text.trim_matches(|c: char| c.is_whitespace() || c == '\u{1e}');
            if document.is_empty() {
                continue;
            }
            at_most(RECORD_LIMIT, documents.len() + 1, "documents")?;
            JsonText::check_text(&text.slice_ref(document))
                .map_err(|error| line.locate(read_error!("invalid JSON: {}", error.message)))?;
            documents.push(document);
        }
        if documents.is_empty() && !self.allow_empty {
            return Err("expected one JSON document per line, found an empty response".into());
        }
        // The list nests one level deeper than its documents, so check it as a whole.
        let list = JsonText::check_text(&format!("[{}]", documents.join(",")).into());
        list.map(Extracted::Raw).map_err(|error| ReadError::unquoted(error.message))
    }
}

/// Parses `name=value&name=value` (`application/x-www-form-urlencoded`) into an object of strings.
///
/// `+` is a space, and percent-encoded bytes are in the charset of the response. A name without `=` has an
/// empty value; the values of a repeated name become a list, in order. Surrounding white space is ignored.
#[derive(Debug, Clone, Copy, Default, Section)]
pub struct Form;

impl FormatParser for Form {
    fn find(&self, view: &ResponseView<'_>, _: &Typing) -> Result<Extracted, ReadError> {
        let charset = view.decoded()?.charset;
        let encoding = Encoding::for_label(charset.as_bytes()).unwrap_or(UTF_8);
        read_form(view.text()?, encoding).map(Extracted::Value)
    }
}

/// Parses a form whose percent-encoded text is in `encoding`.
fn read_form(text: &str, encoding: &'static Encoding) -> Result<Value, ReadError> {
    let text = text.trim();
    if text.is_empty() {
        return Err("expected `name=value&name=value`, found an empty response".into());
    }
    if !text.contains('=') {
        return Err("expected `name=value&name=value`, found text without `=`".into());
    }
    if let Some(at) = text.find(['\n', '\r']) {
        let pairs = text[..at].split('&').count();
        let unit = if pairs == 1 { "pair" } else { "pairs" };
        return Err(read_error!(
            "expected `name=value&name=value` in one line, found a line break after {pairs} {unit}"
        ));
    }
    // Percent-encoded text of a UTF-16 document is in UTF-8 (Encoding, section 4.3).
    let encoding = encoding.output_encoding();
    let mut pairs = Map::new();
    for (index, pair) in text.split('&').filter(|pair| !pair.is_empty()).enumerate() {
        at_most(RECORD_LIMIT, index + 1, "pairs")?;
        let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
        let position = || format!("pair {}", index + 1);
        let name = unescape(name, encoding).map_err(|error| error.in_part(&position()))?;
        let value = unescape(value, encoding)
            .map_err(|error| error.in_quoted_part(&format!("{}, `{name}`", position()), &position()))?;
        add(&mut pairs, name, Value::String(value));
    }
    Ok(Value::Object(pairs))
}

/// Decodes `+` and percent-encoding.
fn unescape(text: &str, encoding: &'static Encoding) -> Result<String, ReadError> {
    let text = text.replace('+', " ");
    for (at, _) in text.match_indices('%') {
        let digits = text.get(at + 1..at + 3);
        if !digits.is_some_and(|digits| digits.bytes().all(|byte| byte.is_ascii_hexdigit())) {
            let found: String = text[at + 1..].chars().take(2).collect();
            let expected = "expected two hexadecimal digits after `%`, found ";
            return Err(ReadError::with_quote(2, expected, &found));
        }
    }
    if !text.contains('%') {
        return Ok(text);
    }
    // A character may be percent-encoded in part: `%83A` is one character in Shift_JIS. Some charsets have
    // characters that can't be encoded again: they would become `&#30000;`.
    let (bytes, _, is_lossy) = encoding.encode(&text);
    let bytes: Vec<u8> = percent_decode(&bytes).collect();
    let decoded = encoding.decode_without_bom_handling_and_without_replacement(&bytes);
    decoded.filter(|_| !is_lossy).map(Cow::into_owned).ok_or_else(|| {
        read_error!("expected percent-encoded text in {}, found invalid bytes", encoding.name())
    })
}

/// Returns the whole text as a string.
#[derive(Debug, Clone, Copy, Section)]
#[section(bare, default)]
pub struct Text {
    /// Whether to remove white space at both ends.
    pub trim: bool,
}

impl FormatParser for Text {
    fn result_shape(&self) -> (ValueCount, MemberNames<'_>) {
        (ValueCount::One, MemberNames::NoFields)
    }

    fn find(&self, view: &ResponseView<'_>, _: &Typing) -> Result<Extracted, ReadError> {
        let text = view.text()?;
        Ok(Extracted::Text(if self.trim { text.slice_ref(text.trim()) } else { text.clone() }))
    }
}

/// Returns the body as a content block.
#[derive(Debug, Clone, Section)]
#[section(bare)]
pub struct Binary {
    /// Type of content block. Default: by the media type.
    #[key(name = "as")]
    pub kind: Option<BinaryKind>,
    /// Media type of the block. Default: that of the response.
    #[key(with = read_media_type)]
    pub media_type: Option<String>,
}

/// Parses a media type, with or without parameters.
pub(crate) fn read_media_type(value: &Cursor<'_>) -> Checked<Option<String>> {
    let text = text_of(value)?;
    let bare = text.split(';').next().unwrap_or_default().trim();
    if bare.parse::<MediaPattern>().is_ok() && !bare.contains('*') {
        return Ok(Some(text.to_owned()));
    }
    let message = format!("expected a media type, found {}", value.node.describe());
    value.reject(Invalid::new(message, "write `image/png`, or `text/csv`"))
}

/// Type of a binary content block.
#[derive(Debug, Clone, Copy, PartialEq, Eq, EnumSetting)]
pub enum BinaryKind {
    /// Image.
    Image,
    /// Audio.
    Audio,
    /// Embedded resource.
    Resource,
}

impl FormatParser for Binary {
    fn result_shape(&self) -> (ValueCount, MemberNames<'_>) {
        (ValueCount::Block, MemberNames::NoFields)
    }

    fn find(&self, view: &ResponseView<'_>, _: &Typing) -> Result<Extracted, ReadError> {
        self.block(view).map(|block| Extracted::Block(Content::from(block)))
    }
}

impl Binary {
    /// Builds the content block from the body.
    ///
    /// # Errors
    ///
    /// A message, if the media type does not fit the block, or if the body is text in place of an image or
    /// audio.
    pub(crate) fn block(&self, view: &ResponseView<'_>) -> Result<ContentBlock, ReadError> {
        let response = view.response;
        let mime_type = self
            .media_type
            .clone()
            .or_else(|| response.media_type().map(Into::into))
            .unwrap_or_else(|| "application/octet-stream".to_owned());
        let default_kind = mime_type.split('/').next().and_then(BinaryKind::from_name);
        let default_kind = default_kind.unwrap_or(BinaryKind::Resource);
        let kind = self.kind.unwrap_or(default_kind);
        if kind != default_kind && kind != BinaryKind::Resource {
            let expected = format!("expected {} data, found ", kind.as_str());
            let error = ReadError::with_quote(usize::MAX, &expected, &mime_type);
            return Err(error.with_suffix("; `media_type` overrides the type of the response"));
        }
        let body = view.body()?;
        if kind != BinaryKind::Resource && is_text_instead(view, &mime_type, body) {
            let found = if body.is_empty() { "an empty response" } else { "text" };
            return Err(read_error!("expected {} data, found {found}", kind.as_str()));
        }
        let data = BASE64_STANDARD.encode(body);
        Ok(match kind {
            BinaryKind::Image => ContentBlock::Image { data, mime_type },
            BinaryKind::Audio => ContentBlock::Audio { data, mime_type },
            BinaryKind::Resource => {
                let uri = format!("response://{}", view.input.tool);
                let (media_type, body) = (Some(mime_type), ResourceBody::Blob(data));
                ContentBlock::Resource { resource: ResourceContents { uri, media_type, body } }
            }
        })
    }
}

/// Whether a body is text, such as an error page, in place of an image or audio. The declared media type may
/// be wrong, but binary data contains NUL bytes or is invalid as text. SVG and other XML types are accepted;
/// rules return other formats in text, such as XPM, as a `resource`.
fn is_text_instead(view: &ResponseView<'_>, mime_type: &str, body: &[u8]) -> bool {
    let is_text = !body.contains(&0) && view.text().is_ok();
    let essence = mime_type.split(';').next().unwrap_or_default();
    is_text && (!essence.trim_end().ends_with("+xml") || is_html(None, body))
}

/// Extracts the named headers into an object, or one of them as a value. A header that occurs several times
/// becomes an array; a missing one has no key. The name `status` is the HTTP status as a number.
#[derive(Debug, Clone, Section)]
pub struct Header {
    /// Names of headers to read. `status` is the HTTP status.
    #[key(with = header_names, example = "names: [Location, status]")]
    pub names: Vec<String>,
    /// The shape of the value.
    #[key(skip)]
    pub shape: HeaderShape,
}

fn header_names(value: &Cursor<'_>) -> Checked<Vec<String>> {
    let Some(items) = value.node.as_list() else { return value.reject_kind("a list", None) };
    if items.is_empty() {
        let invalid = Invalid::new("`header` is empty", "write `header: [Location]`");
        return value.reject_at(value.key_span, invalid.with_code(Code::EmptyValue));
    }
    items.iter().map(|item| header_name(value, item)).collect()
}

fn header_name(value: &Cursor<'_>, node: &Node) -> Checked<String> {
    let value = value.part(node, "a name of a header", ValueKind::Text);
    match text_of(&value)? {
        name if name != "status" && name.parse::<HeaderName>().is_err() => {
            let help = "write letters, digits and `-`: `X-Request-Id`";
            let invalid = Invalid::new(format!("`{name}` is not a header name"), help);
            value.reject(invalid.with_code(Code::InvalidName))
        }
        name => Ok(name.to_owned()),
    }
}

impl Header {
    /// Reads the short form, a list of names or one name; `None` for a map.
    pub(crate) fn read_short(value: &Cursor<'_>) -> Option<Checked<Self>> {
        let (names, shape) = match value.node.kind {
            Kind::List(_) => (header_names(value), HeaderShape::Object),
            Kind::Text(_) => (header_name(value, value.node).map(|name| vec![name]), HeaderShape::Value),
            Kind::Null | Kind::Boolean(_) | Kind::Number(_) | Kind::Map(_) => return None,
        };
        Some(names.map(|names| Self { names, shape }))
    }
}

/// Shape of the extracted headers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum HeaderShape {
    /// An object with all headers.
    #[default]
    Object,
    /// The value of the only header.
    Value,
}

impl FormatParser for Header {
    fn result_shape(&self) -> (ValueCount, MemberNames<'_>) {
        let names = match self.shape {
            HeaderShape::Value => MemberNames::NoFields,
            HeaderShape::Object => MemberNames::Names(self.names.iter().map(String::as_str).collect()),
        };
        (ValueCount::One, names)
    }

    fn find(&self, view: &ResponseView<'_>, _: &Typing) -> Result<Extracted, ReadError> {
        let response = view.response;
        let mut found = Map::new();
        for name in &self.names {
            if name == "status" {
                found.insert(name.clone(), response.status.as_u16().into());
            } else if !found.contains_key(name) {
                for value in response.headers.get_all(name) {
                    add(&mut found, name, String::from_utf8_lossy(value.as_bytes()).into());
                }
            }
        }
        if found.is_empty() {
            let names = suggest::quoted_list(self.names.iter().map(String::as_str));
            return Err(read_error!("expected a header {names}, found none of them"));
        }
        Ok(Extracted::Value(match (self.shape, found.values_mut().next()) {
            (HeaderShape::Value, Some(value)) => value.take(),
            _ => Value::Object(found),
        }))
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use encoding_rs::{EUC_JP, SHIFT_JIS, UTF_16LE, WINDOWS_1252};
    use http::{HeaderMap, StatusCode};
    use serde_json::json;

    use super::*;
    use crate::{
        model::UpstreamResponse,
        translate::{CallInput, TranslationLimits, response_view::DecompressedBody},
    };

    #[track_caller]
    fn check(text: &str, expected: Result<&str, &str>) {
        check_with(NdJson::default(), text, expected);
    }

    #[track_caller]
    fn check_with(ndjson: NdJson, text: &str, expected: Result<&str, &str>) {
        let body = Bytes::copy_from_slice(text.as_bytes());
        let response = UpstreamResponse::new(StatusCode::OK, HeaderMap::new(), body);
        let (tool, args, body) = ("tool".parse().unwrap(), json!({}), DecompressedBody::new());
        let view =
            ResponseView::new(&response, &body, CallInput::new(&tool, &args), TranslationLimits::default());
        match (ndjson.find(&view, &Typing::Untyped), expected) {
            (Ok(Extracted::Raw(json)), Ok(expected)) => assert_eq!(json.as_str(), expected),
            (Err(error), Err(part)) => assert!(error.to_string().contains(part), "{error}"),
            (found, _) => panic!("found {found:?}"),
        }
    }

    #[test]
    fn a_document_a_line_keeps_its_text() {
        check(
            "{\"b\": 1.0, \"a\": 12345678901234567890}\r\n\n [1]\n\"x\"",
            Ok(r#"[{"b": 1.0, "a": 12345678901234567890},[1],"x"]"#),
        );
        check("{\"a\":1}\r{\"a\":2}\r", Ok(r#"[{"a":1},{"a":2}]"#));
        check("\u{1e}{\"a\":1}\n\u{1e}{\"a\":2}\n", Ok(r#"[{"a":1},{"a":2}]"#));
    }

    #[test]
    fn an_invalid_document_is_an_error_with_its_line() {
        check("{}\n\n{\"a\": }\n", Err("line 3: invalid JSON"));
        check("{} {}\n", Err("line 1"));
        check("{\n}\n", Err("line 1"));
        check(&format!("{}{}", "[".repeat(200), "]".repeat(200)), Err("line 1"));
        check(&format!("{}{}", "[".repeat(127), "]".repeat(127)), Err(""));
        check(" \n", Err("found an empty response"));
        let lenient = NdJson { allow_empty: true };
        check_with(lenient, " \n", Ok("[]"));
        check_with(lenient, "", Ok("[]"));
        check_with(lenient, "none\n", Err("line 1: invalid JSON"));
        check(&"1\n".repeat(100_001), Err("at most 100000 documents"));
    }

    #[track_caller]
    fn check_form_in(encoding: &'static Encoding, text: &str, expected: Result<&str, &str>) {
        match (read_form(text, encoding), expected) {
            (Ok(value), Ok(expected)) => assert_eq!(value.to_string(), expected),
            (Err(error), Err(part)) => assert!(error.to_string().contains(part), "{error}"),
            (found, _) => panic!("found {found:?}"),
        }
    }

    #[track_caller]
    fn check_form(text: &str, expected: Result<&str, &str>) {
        check_form_in(UTF_8, text, expected);
    }

    #[test]
    fn pairs_are_unescaped_and_repeated_names_gather() {
        check_form(
            "TIMESTAMP=2026%2d11%2d21T09%3a30%3a00Z&ACK=Success&&L_NAME=a+b&L_NAME=c%2Bd&L_NAME=&FLAG\r\n",
            Ok(r#"{"TIMESTAMP":"2026-11-21T09:30:00Z","ACK":"Success","L_NAME":["a b","c+d",""],"FLAG":""}"#),
        );
        check_form("a=b=c&%C3%B8=Troms%c3%b8+ø", Ok(r#"{"a":"b=c","ø":"Tromsø ø"}"#));
    }

    #[test]
    fn escapes_are_in_the_charset_of_the_response() {
        check_form_in(WINDOWS_1252, "city=Troms%F8", Ok(r#"{"city":"Tromsø"}"#));
        check_form_in(SHIFT_JIS, "a=%83A", Ok(r#"{"a":"ア"}"#));
        check_form_in(EUC_JP, "a=丂", Ok(r#"{"a":"丂"}"#));
        check_form_in(EUC_JP, "a=丂%20", Err("expected percent-encoded text in EUC-JP"));
        check_form_in(UTF_16LE, "a=%C3%B8", Ok(r#"{"a":"ø"}"#));
    }

    #[test]
    fn a_malformed_pair_is_an_error_with_its_number() {
        let message = "pair 2, `b`: expected two hexadecimal digits after `%`, found an empty string";
        check_form("a=1&b=100%", Err(message));
        check_form("a=%+1", Err("found ` 1`"));
        check_form("a=%zø", Err("found `zø`"));
        check_form("a=%F8", Err("pair 1, `a`: expected percent-encoded text in UTF-8"));
        check_form("%x=1", Err("pair 1: expected two"));
        check_form("", Err("an empty response"));
        check_form("Service restarting", Err("text without `=`"));
        check_form("<a href=x>\n</a>", Err("in one line, found a line break after 1 pair"));
        check_form("a=1&b=2\nc=3", Err("found a line break after 2 pairs"));
        check_form("\na=1\r\n", Ok(r#"{"a":"1"}"#));
        check_form(&"a=1&".repeat(100_001), Err("at most 100000 pairs"));
    }
}
