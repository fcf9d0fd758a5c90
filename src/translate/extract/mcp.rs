//! `mcp`: parser of MCP tool results, JSON inside text blocks included.

use std::collections::{HashMap, HashSet};

use base64::{
    Engine, alphabet,
    engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig},
};
use bytes::Bytes;
use bytestring::ByteString;
use serde::{Deserialize, de::IgnoredAny};
use serde_json::{Value, value::RawValue};
use settings_derive::Section;

use super::records::with_plain_line_ends;
use super::{Extracted, FormatParser, RECORD_LIMIT, Typing};
use crate::model::{
    BlockText, Content, ContentBlock, ForeignBlock, JsonText, ResourceBody, ResourceContents,
    UpstreamResponse,
};
use crate::translate::read_error::{ReadError, at_most};
use crate::translate::response_view::ResponseView;

/// Parses an MCP tool result, bare or in a JSON-RPC response, as JSON or as a server-sent event.
///
/// The value is `structuredContent` if there is one, else the JSON in the first text block, else that text as
/// a string. Without both, there is no value. Content blocks are unchanged, but if a rule returns another
/// value, it replaces the texts that are the server's value as JSON. The text of one of several blocks
/// becomes structured content only where a rule or the output schema requires a value.
#[derive(Debug, Clone, Copy, Default, Section)]
pub struct Mcp;

/// Media type of responses from an upstream that is an MCP server; selects this extractor by default.
pub const MCP_MEDIA_TYPE: &str = "application/vnd.mcp+json";

/// Whether a response is from an upstream that is an MCP server. The HTTP status and the headers of such a
/// response are placeholders.
pub(crate) fn is_from_mcp_server(response: &UpstreamResponse) -> bool {
    response.media_type().is_some_and(|media_type| media_type == MCP_MEDIA_TYPE)
}

/// Whether a response is an error of an upstream that is an MCP server: a JSON-RPC error, or `isError: true`,
/// even with content that is malformed. A message with two members `isError` is an error, too: extractors
/// would read only one of them.
pub(crate) fn is_mcp_error(view: &ResponseView<'_>) -> bool {
    let is_success = |text: &str| {
        let message = read::<Message<'_>>(text).ok().filter(|message| message.error.is_none())?;
        let flag = match message.result {
            Some(result) => read::<Message<'_>>(result.get()).ok()?.is_error,
            None => message.is_error,
        };
        Some(flag.is_none_or(|flag| flag.get() == "false"))
    };
    let text = view.text().ok().filter(|_| is_from_mcp_server(view.response));
    text.is_some_and(|text| is_success(text) != Some(true))
}

/// Response of an MCP server.
#[derive(Debug)]
pub(crate) struct McpResult {
    /// Content blocks, in order; may be empty.
    pub(crate) content: Vec<Content>,
    /// The value; for a protocol error, the error object.
    pub(crate) value: Option<Box<Extracted>>,
    /// The value as the server sent it, if it is JSON.
    pub(crate) json: Option<JsonText>,
    /// Whether the value is the text of one of several blocks, and so not the whole result.
    pub(crate) is_partial: bool,
    /// Success or kind of error.
    pub(crate) kind: ResultKind,
}

/// Replaces the text blocks that contain the server's value with one block for the rule's value, if the two
/// values differ: the text blocks would show clients what the rule has removed. Some servers return a list as
/// `result`, and one text block for each item.
pub(crate) fn replace_server_value(
    content: Vec<Content>,
    server_value: &JsonText,
    rule_value: &JsonText,
    view: &ResponseView<'_>,
) -> Vec<Content> {
    // Compare the strings first, which is cheaper than parsing: most results are unchanged.
    if server_value.as_str() == rule_value.as_str() {
        return content;
    }
    let value = server_value.parse();
    if value == rule_value.parse() {
        return content;
    }
    let parse = |text: &str| {
        let json = JsonText::check_text(&text.into()).ok()?;
        json.check_value_count(view.limits.values).is_ok().then(|| json.parse())
    };
    let result = value.get("result").unwrap_or(&value);
    let items = result.as_array().into_iter().flatten();
    let values: HashSet<&Value> = [&value, result].into_iter().chain(items).collect();
    let has_server_value = |content: &Content| {
        content.block.text(None).is_some_and(|text| {
            values.contains(&Value::from(&*text)) || parse(&text).is_some_and(|json| values.contains(&json))
        })
    };
    let mut replacement = Some(ContentBlock::Text(BlockText::StructuredContent).into());
    let content = content.into_iter();
    content
        .filter_map(|block| if has_server_value(&block) { replacement.take() } else { Some(block) })
        .collect()
}

/// Success or kind of error of a tool call.
#[derive(Debug, PartialEq)]
pub(crate) enum ResultKind {
    /// Success.
    Success,
    /// `isError: true`; the content blocks describe the error.
    ToolError,
    /// A JSON-RPC error.
    ProtocolError { code: Option<Value>, message: String },
}

/// JSON-RPC response, or a bare tool result.
#[derive(Deserialize)]
struct Message<'a> {
    #[serde(borrow)]
    result: Option<&'a RawValue>,
    #[serde(borrow)]
    error: Option<&'a RawValue>,
    #[serde(borrow)]
    content: Option<&'a RawValue>,
    #[serde(borrow, rename = "structuredContent")]
    structured: Option<&'a RawValue>,
    #[serde(borrow, rename = "isError")]
    is_error: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct ProtocolError {
    code: Option<Value>,
    message: Option<String>,
}

/// Type of a content block, and its text.
#[derive(Deserialize)]
struct BlockMembers {
    #[serde(rename = "type")]
    kind: String,
    text: Option<String>,
}

impl FormatParser for Mcp {
    fn find(&self, view: &ResponseView<'_>, _: &Typing) -> Result<Extracted, ReadError> {
        let is_stream =
            view.response.media_type().is_some_and(|media_type| media_type == "text/event-stream");
        let message = if is_stream { response_in_events(view.text()?)? } else { view.checked_json()? };
        parse_result(&message).map(Extracted::Mcp)
    }
}

fn parse_result(message: &JsonText) -> Result<McpResult, ReadError> {
    if !message.is_object() {
        return Err("expected an MCP tool result, found JSON that is not an object".into());
    }
    let outer: Message<'_> = read(message.as_str())?;
    let Message { content, structured, is_error, .. } = match outer {
        Message { content: Some(_), .. } | Message { structured: Some(_), .. } => outer,
        Message { error: Some(error), .. } => return protocol_error(message, error),
        Message { result: Some(result), .. } => read(result.get())?,
        Message { error: None, .. } => {
            return Err(
                "expected an MCP tool result, found JSON without `content`, `result` or `error`".into()
            );
        }
    };
    // Every revision requires `content`; a server that sends only `structuredContent` is accepted all the
    // same.
    let content = content.map(RawValue::get).or_else(|| structured.map(|_| "[]"));
    let content = content.ok_or("expected an MCP tool result, found a result without `content`")?;
    let content: Vec<&RawValue> = read(content)?;
    at_most(RECORD_LIMIT, content.len(), "content blocks")?;
    let content: Vec<Content> = content
        .into_iter()
        .filter_map(|block| parse_block(message, block).transpose())
        .collect::<Result<_, _>>()?;
    let value = match structured {
        Some(structured) => Some(Extracted::Raw(part(message, structured)?)),
        None => content.iter().find_map(|content| content.block.text(None)).map(|text| value_of_text(&text)),
    };
    let is_error = is_error.is_some_and(|flag| flag.get() != "false");
    let kind = if is_error { ResultKind::ToolError } else { ResultKind::Success };
    let is_partial = structured.is_none() && content.len() > 1;
    let json = if let Some(Extracted::Raw(json)) = &value { Some(json.clone()) } else { None };
    Ok(McpResult { content, value: value.map(Box::new), json, is_partial, kind })
}

fn protocol_error(message: &JsonText, error: &RawValue) -> Result<McpResult, ReadError> {
    let ProtocolError { code, message: description } = read(error.get())?;
    let code = code.filter(Value::is_number);
    let description = description.filter(|description| !description.trim().is_empty());
    let description =
        description.unwrap_or_else(|| "The server rejected the call and gave no reason.".to_owned());
    Ok(McpResult {
        content: Vec::new(),
        value: Some(Box::new(Extracted::Raw(part(message, error)?))),
        json: None,
        is_partial: false,
        kind: ResultKind::ProtocolError { code, message: description },
    })
}

/// Value of a text: parsed as JSON if possible, else the string.
fn value_of_text(text: &str) -> Extracted {
    let text = ByteString::from(text);
    JsonText::check_text(&text).map_or(Extracted::Text(text), Extracted::Raw)
}

/// Base64 decoder that ignores padding, as clients do.
const BASE64: GeneralPurpose = GeneralPurpose::new(
    &alphabet::STANDARD,
    GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent),
);

/// Validates Base64 data: invalid data would break the client's whole result.
fn check_base64(kind: &str, data: &str) -> Result<(), ReadError> {
    BASE64.decode(data).map(|_| ()).map_err(|error| {
        let message = format!("expected Base64 data in a block `{kind}`, found invalid Base64");
        ReadError::new(format!("{message} ({error})"), message)
    })
}

/// Parses one content block. Blocks of known types are unchanged. A text block without `text` is skipped,
/// because the call has been executed and the other blocks are valid.
fn parse_block(message: &JsonText, block: &RawValue) -> Result<Option<Content>, ReadError> {
    let BlockMembers { kind, text } = read(block.get())?;
    let foreign_block = |text, link| -> Result<_, ReadError> {
        let json = part(message, block)?;
        Ok(Some(ContentBlock::Foreign(ForeignBlock { json, text, link }).into()))
    };
    let required = match (kind.as_str(), text) {
        ("text", None) => return Ok(None),
        ("text", Some(text)) => {
            let members: HashMap<String, IgnoredAny> = read(block.get())?;
            let has_text_only = members.len() == ["type", "text"].len();
            return if has_text_only {
                Ok(Some(Content::text(text)))
            } else {
                foreign_block(Some(text), None)
            };
        }
        ("image" | "audio", _) => "`data` and `mimeType`",
        ("resource_link", _) => "`uri` and `name`",
        ("resource", _) => "a `resource` with `uri` and `text` or `blob`",
        // A block of unknown type would make clients reject the whole result. As a text block, its content is
        // still readable.
        _ => return Ok(Some(Content::text(block.get()))),
    };
    match serde_json::from_str(block.get()) {
        Ok(ContentBlock::ResourceLink { uri, name, .. }) => {
            foreign_block(None, Some(format!("{name}: {uri}")))
        }
        Ok(
            ContentBlock::Image { data, .. }
            | ContentBlock::Audio { data, .. }
            | ContentBlock::Resource { resource: ResourceContents { body: ResourceBody::Blob(data), .. } },
        ) => check_base64(&kind, &data).and_then(|()| foreign_block(None, None)),
        Ok(_) => foreign_block(None, None),
        Err(_) => {
            let expected =
                format!("expected {required} in a content block, found a malformed block of type ");
            Err(ReadError::with_quote(usize::MAX, &expected, &kind))
        }
    }
}

/// Returns a part of a document as a document that shares its buffer.
fn part(document: &JsonText, part: &RawValue) -> Result<JsonText, ReadError> {
    JsonText::check(&document.bytes().slice_ref(part.get().as_bytes()))
        .map_err(|error| ReadError::unquoted(error.to_string()))
}

fn read<'a, T: Deserialize<'a>>(json: &'a str) -> Result<T, ReadError> {
    serde_json::from_str(json).map_err(|_| "expected an MCP tool result, found JSON of another kind".into())
}

/// Returns the first result or error in an event stream. Notifications may come before it.
fn response_in_events(text: &str) -> Result<JsonText, ReadError> {
    let mut data = String::new();
    // Lines may end in CR alone. A blank line ends an event, and the end of the stream ends the last event.
    for line in with_plain_line_ends(text).split(['\n', '\r']).chain([""]) {
        if line.is_empty() {
            if let Ok(json) = JsonText::check(&Bytes::from(std::mem::take(&mut data)))
                && let Ok(Message { result, error, .. }) = serde_json::from_str(json.as_str())
                && (result.is_some() || error.is_some())
            {
                return Ok(json);
            }
        } else if let Some(payload) = line.strip_prefix("data:") {
            if !data.is_empty() {
                data.push('\n');
            }
            data.push_str(payload.strip_prefix(' ').unwrap_or(payload));
        }
    }
    Err("expected an event with a JSON-RPC response, found none".into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn parse(json: &str) -> Result<McpResult, ReadError> {
        parse_result(&JsonText::check(&Bytes::from(json.to_owned())).unwrap())
    }

    /// The value of a response, or a part of the error.
    #[track_caller]
    fn check(json: &str, expected: Result<&str, &str>) {
        let value = parse(json).map(|result| match result.value {
            Some(value) => match *value {
                Extracted::Raw(json) => json.parse().to_string(),
                Extracted::Text(text) => Value::from(&*text).to_string(),
                other => panic!("found {other:?}"),
            },
            None => "none".to_owned(),
        });
        match (value, expected) {
            (Ok(value), Ok(expected)) => assert_eq!(value, expected),
            (Err(error), Err(part)) => assert!(error.to_string().contains(part), "{error}"),
            (found, _) => panic!("found {found:?}"),
        }
    }

    #[test]
    fn json_in_the_first_text_is_lifted() {
        check(r#"{"content": [{"type": "text", "text": "{\"a\": 1.0}"}]}"#, Ok(r#"{"a":1.0}"#));
        let in_response = r#"{"jsonrpc": "2.0", "id": 1, "result": {"content": [
            {"type": "image", "data": "AA==", "mimeType": "image/png"},
            {"type": "text", "text": " [10] \n", "annotations": {"priority": 1}},
            {"type": "text", "text": "2"}]}}"#;
        check(in_response, Ok("[10]"));
        check(r#"{"content": [{"type": "text", "text": "no JSON"}]}"#, Ok(r#""no JSON""#));
        check(r#"{"content": []}"#, Ok("none"));
    }

    #[test]
    fn structured_content_takes_precedence() {
        let both = r#"{"content": [{"type": "text", "text": "{\"a\": 1}"}], "structuredContent": {"a": 2}}"#;
        check(both, Ok(r#"{"a":2}"#));
        let neither = r#"{"content": [{"type": "text", "text": "1"}], "structuredContent": null}"#;
        check(neither, Ok("1"));
        check(r#"{"structuredContent": {"a": 2}}"#, Ok(r#"{"a":2}"#));
        check(r#"{"jsonrpc": "2.0", "id": 1, "result": {"structuredContent": {"a": 2}}}"#, Ok(r#"{"a":2}"#));
        check(
            r#"{"jsonrpc": "2.0", "id": 1, "result": {"structuredContent": null}}"#,
            Err("without `content`"),
        );
    }

    #[test]
    fn blocks_stay_as_they_came() {
        let link = r#"{ "type":"resource_link","uri":"file:///a","name":"a","size":5,"_meta":{"x":1.0} }"#;
        let json = format!(r#"{{"content": [{link}, {{"text": "x", "type": "text"}}]}}"#);
        let content = parse(&json).unwrap().content;
        let ContentBlock::Foreign(block) = &content[0].block else { panic!("{content:?}") };
        assert_eq!((block.json.as_str(), block.link.as_deref()), (link, Some("a: file:///a")));
        assert_eq!(content[1].block, ContentBlock::Text(BlockText::Plain("x".into())));
    }

    #[test]
    fn a_block_that_clients_do_not_know_becomes_text() {
        let block = r#"{"type": "hologram", "depth": 1.0, "data": {"x": 1}}"#;
        let content = parse(&format!(r#"{{"content": [{block}]}}"#)).unwrap().content;
        assert_eq!(content[0].block, ContentBlock::Text(BlockText::Plain(block.into())));
    }

    #[test]
    fn a_text_block_without_text_is_skipped() {
        check(r#"{"content": [{"type": "text"}, {"type": "text", "text": "1"}]}"#, Ok("1"));
        check(r#"{"content": [{"type": "text", "text": null}]}"#, Ok("none"));
    }

    #[test]
    fn error_kinds_are_distinguished() {
        let failed = parse(r#"{"content": [{"type": "text", "text": "gone"}], "isError": true}"#).unwrap();
        assert!(matches!(failed.kind, ResultKind::ToolError));
        let error = r#"{"jsonrpc":"2.0","id":3,"error":{"code":-32602,"message":"Unknown tool: x"}}"#;
        let ResultKind::ProtocolError { code, message } = parse(error).unwrap().kind else { panic!() };
        assert_eq!((code.unwrap().to_string().as_str(), message.as_str()), ("-32602", "Unknown tool: x"));
    }

    #[test]
    fn a_response_with_a_result_and_an_error_is_an_error() {
        let result = r#""result": {"content": [{"type": "text", "text": "1"}]}"#;
        for (error, is_success) in [(r#"{"code": -32603}"#, false), ("{}", false), ("null", true)] {
            let both = parse(&format!(r#"{{{result}, "error": {error}}}"#)).unwrap();
            assert_eq!(both.kind == ResultKind::Success, is_success, "{error}");
        }
        check(&format!(r#"{{{result}, "error": "text"}}"#), Err("JSON of another kind"));
    }

    #[test]
    fn other_json_is_an_error() {
        check("[1]", Err("found JSON that is not an object"));
        check(r#"{"tools": []}"#, Err("found JSON without `content`"));
        check(r#"{"result": {"tools": []}}"#, Err("a result without `content`"));
        check(r#"{"content": [5, {"type": "text", "text": "1"}]}"#, Err("JSON of another kind"));
        check(r#"{"content": [{"type": "image", "data": 5}]}"#, Err("expected `data` and `mimeType`"));
        let image = |data: &str| {
            format!(r#"{{"content": [{{"type": "image", "mimeType": "image/png", "data": "{data}"}}]}}"#)
        };
        check(&image("AAA=AAA="), Err("expected Base64 data in a block `image`"));
        check(&image("AAA"), Ok("none"));
        let blob = r#"{"content": [{"type": "resource", "resource": {"uri": "a:b", "blob": "%"}}]}"#;
        check(blob, Err("expected Base64 data in a block `resource`"));
        check(r#"{"content": [{"type": "resource", "resource": {"uri": "x"}}]}"#, Err("`text` or `blob`"));
        check(r#"{"content": [5]}"#, Err("JSON of another kind"));
    }

    #[test]
    fn a_response_is_found_among_events() {
        let stream = "event: message\r\ndata: {\"jsonrpc\":\"2.0\",\"method\":\"notifications/progress\"}\r\n\r\n\
                      : comment\r\nid: 7\r\ndata: {\"jsonrpc\":\"2.0\",\"id\":1,\r\ndata: \"result\":{\"content\":[]}}";
        let expected = "{\"jsonrpc\":\"2.0\",\"id\":1,\n\"result\":{\"content\":[]}}";
        assert_eq!(response_in_events(stream).unwrap().as_str(), expected);
        let stream = stream.replace("\r\n", "\r");
        assert_eq!(response_in_events(&stream).unwrap().as_str(), expected);
        assert!(response_in_events("data: [DONE]\n\n").unwrap_err().to_string().contains("found none"));
        assert!(response_in_events("").is_err());
    }
}
