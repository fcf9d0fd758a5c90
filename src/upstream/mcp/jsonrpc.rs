//! JSON-RPC messages of MCP, to and from a server. Messages from a server preserve their text: only the
//! outermost members are parsed.

use std::{borrow::Cow, sync::LazyLock};

use bytes::Bytes;
use regex::bytes::Regex;
use serde::{Deserialize, Deserializer, de::IgnoredAny};
use serde_json::{Map, Value, json, value::RawValue};
use tokio::sync::watch;
use tracing::debug;

use crate::route::UpstreamName;
use crate::upstream::error::QuotedSource;
use crate::upstream::{ProgressEvent, ProgressSender};

/// Message from a server. A message with a method is a request, or a notification if it has no id. A message
/// without a method is a response.
#[derive(Deserialize)]
pub(super) struct ServerMessage<'a> {
    jsonrpc: Option<IgnoredAny>,
    #[serde(borrow)]
    id: Option<&'a RawValue>,
    #[serde(borrow)]
    method: Option<Cow<'a, str>>,
    #[serde(borrow)]
    params: Option<&'a RawValue>,
    #[serde(borrow, default, deserialize_with = "present_or_null")]
    result: Option<&'a RawValue>,
    #[serde(borrow)]
    error: Option<&'a RawValue>,
    /// Complete text of the message.
    #[serde(skip)]
    pub(super) text: &'a str,
}

/// JSON-RPC error.
#[derive(Debug, Clone, Deserialize)]
pub(super) struct JsonRpcError {
    #[serde(default)]
    pub(super) code: i64,
    #[serde(default)]
    pub(super) message: String,
    /// Whether glossator wrote the message, because the server sent no valid error.
    #[serde(skip)]
    pub(super) is_synthetic: bool,
}

impl From<JsonRpcError> for QuotedSource {
    fn from(error: JsonRpcError) -> Self {
        let JsonRpcError { code, message, is_synthetic } = error;
        match is_synthetic {
            true => Self::new(message.clone(), message),
            false => {
                let plain = format!("error {code}, with a message of {} bytes", message.len());
                Self::new(plain, format!("error {code}: {message}"))
            }
        }
    }
}

impl JsonRpcError {
    /// Internal error of the server (JSON-RPC 2.0, section 5.1).
    const INTERNAL: i64 = -32603;
    /// Unknown method (JSON-RPC 2.0, section 5.1).
    pub(super) const METHOD_NOT_FOUND: i64 = -32601;
    /// Invalid parameters (JSON-RPC 2.0, section 5.1).
    const INVALID_PARAMS: i64 = -32602;
    /// Headers that differ from the body (MCP 2026-07-28, `HeaderMismatchError`).
    pub(super) const HEADER_MISMATCH: i64 = -32020;
    /// Unsupported revision (MCP 2026-07-28, `UnsupportedProtocolVersionError`).
    pub(super) const UNSUPPORTED_REVISION: i64 = -32022;

    /// Whether the error means that the server does not know the called tool, so its list has changed. MCP
    /// requires the code for invalid parameters, which servers also use for other errors, so the message
    /// decides.
    pub(super) fn is_of_unknown_tool(&self) -> bool {
        let message_contains = |words: &str| self.message.to_ascii_lowercase().contains(words);
        self.code == Self::METHOD_NOT_FOUND
            || (self.code == Self::INVALID_PARAMS
                && (message_contains("unknown tool") || message_contains("not found")))
    }
}

/// Deserializes a member that is present, even if it is `null`.
fn present_or_null<'de: 'a, 'a, D: Deserializer<'de>>(member: D) -> Result<Option<&'a RawValue>, D::Error> {
    <&RawValue>::deserialize(member).map(Some)
}

/// Parses the messages in a string: one message, or an array of messages (a batch), which revision 2025-03-26
/// allows. Invalid messages are skipped. The list is empty if the string is not JSON.
pub(super) fn messages(text: &str) -> Vec<ServerMessage<'_>> {
    let text = text.trim();
    let texts = match text.starts_with('[') {
        true => {
            let parts: Vec<&RawValue> = serde_json::from_str(text).unwrap_or_default();
            parts.into_iter().map(RawValue::get).collect()
        }
        false => vec![text],
    };
    let parse = |text| serde_json::from_str(text).ok().map(|message| ServerMessage { text, ..message });
    texts.into_iter().filter_map(parse).filter(ServerMessage::is_valid).collect()
}

/// Parses the messages in a line of a program's standard output. The line may also belong to a log, so a
/// message must have `jsonrpc`, and a `method`, a `result` or an `error`.
pub(super) fn messages_of_line(text: &str) -> Vec<ServerMessage<'_>> {
    let mut messages = messages(text);
    messages.retain(|ServerMessage { jsonrpc, method, result, error, .. }| {
        jsonrpc.is_some() && (method.is_some() || result.is_some() || error.is_some())
    });
    messages
}

impl<'a> ServerMessage<'a> {
    /// Whether the message is a request, a notification or a response. An error without an id is a response
    /// to a request that the server could not read.
    fn is_valid(&self) -> bool {
        self.method.is_some() || self.id.is_some() || self.error.is_some() || self.result().is_some()
    }

    /// Whether the message is a response to a request of glossator.
    pub(super) fn is_response(&self) -> bool {
        self.method.is_none()
    }

    /// Id of the request that the message responds to. `None` for other messages, or if the server could not
    /// read the id.
    pub(super) fn request_id(&self) -> Option<u64> {
        self.id.filter(|_| self.is_response()).and_then(parse_own_id)
    }

    /// Result of a response, or its error.
    pub(super) fn outcome(&self) -> Result<&'a RawValue, JsonRpcError> {
        let Some(error) = self.error else {
            let message = "its response has neither a result nor an error".to_owned();
            let missing = JsonRpcError { code: JsonRpcError::INTERNAL, message, is_synthetic: true };
            return self.result().ok_or(missing);
        };
        Err(serde_json::from_str(error.get()).unwrap_or_else(|_| JsonRpcError {
            code: 0,
            message: error.get().chars().take(200).collect(),
            is_synthetic: false,
        }))
    }

    fn result(&self) -> Option<&'a RawValue> {
        self.result.filter(|result| result.get() != "null")
    }
}

/// Finds the response to one request.
pub(super) fn response_to(text: &str, id: u64) -> Option<ServerMessage<'_>> {
    messages(text).into_iter().find(|message| message.request_id() == Some(id))
}

/// Finds the first error, for any request.
pub(super) fn error_in(text: &str) -> Option<JsonRpcError> {
    messages(text).iter().find(|message| message.is_response())?.outcome().err()
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ProgressParams<'a> {
    #[serde(borrow)]
    progress_token: &'a RawValue,
    progress: f64,
    total: Option<f64>,
}

/// Handles a message that is not a response to a pending call. If the message is a request, returns the
/// response to it. Progress is reported to the client of a call: `client_of` returns the client by the id of
/// the call.
pub(super) fn handle<'c>(
    upstream: &UpstreamName,
    message: &ServerMessage<'_>,
    lists_changed: &watch::Sender<()>,
    client_of: impl FnOnce(u64) -> Option<&'c ProgressSender>,
) -> Option<Bytes> {
    // A message without a method is the response to an abandoned call, and is ignored.
    let method = message.method.as_deref()?;
    if let Some(id) = message.id {
        if method != "ping" {
            debug!(%upstream, %method, "unsupported request of the server");
        }
        return Some(response_to_request(id, method));
    }
    match method {
        "notifications/tools/list_changed"
        | "notifications/prompts/list_changed"
        | "notifications/resources/list_changed" => lists_changed.send_replace(()),
        "notifications/progress" => {
            let params = message.params.map_or("", RawValue::get);
            if let Ok(ProgressParams { progress_token, progress, total }) = serde_json::from_str(params)
                && let Some(client) = parse_own_id(progress_token).and_then(client_of)
            {
                client.send(ProgressEvent::Progress { done: progress, total });
            }
        }
        _ => {}
    }
    None
}

/// Finds the id in a message that is too long to parse: the id may precede or follow the result.
pub(super) fn id_of_long_message(beginning: &[u8], end: &[u8]) -> Option<u64> {
    const ID_FIRST: &str = r#"^\s*\{\s*("jsonrpc"\s*:\s*"2\.0"\s*,\s*)?"id"\s*:\s*"?(?<id>[0-9]+)"?\s*,"#;
    // If two closing braces followed the id, it would belong to a nested object.
    const ID_LAST: &str = r#""id"\s*:\s*"?(?<id>[0-9]+)"?\s*(,\s*"jsonrpc"\s*:\s*"2\.0"\s*)?\}\s*$"#;
    static REGEXES: LazyLock<[Regex; 2]> = LazyLock::new(|| {
        [ID_FIRST, ID_LAST].map(|pattern| Regex::new(pattern).expect("the pattern is fixed and tested"))
    });
    let mut parts = REGEXES.iter().zip([beginning, end]);
    parts.find_map(|(regex, text)| std::str::from_utf8(&regex.captures(text)?["id"]).ok()?.parse().ok())
}

/// Parses a request id or progress token that glossator issued and the server sent back. Both are numbers,
/// but some servers send them back as strings.
fn parse_own_id(id: &RawValue) -> Option<u64> {
    id.get().trim_matches('"').parse().ok()
}

/// Request to the server.
pub(super) fn request(id: u64, method: &str, params: Map<String, Value>) -> Bytes {
    serialize(&json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params }))
}

/// Notification that the client is ready, which ends the initialization.
pub(super) fn initialized() -> Bytes {
    serialize(&json!({ "jsonrpc": "2.0", "method": INITIALIZED }))
}

/// Method of the notification that ends the initialization.
pub(super) const INITIALIZED: &str = "notifications/initialized";

/// Notification that cancels a request.
pub(super) fn cancelled(id: u64) -> Bytes {
    let params = json!({ "requestId": id, "reason": "the call was cancelled" });
    serialize(&json!({ "jsonrpc": "2.0", "method": "notifications/cancelled", "params": params }))
}

/// Response to a request of the server: a result for `ping`, an error for everything else.
pub(super) fn response_to_request(id: &RawValue, method: &str) -> Bytes {
    let id: Value = serde_json::from_str(id.get()).unwrap_or_default();
    serialize(&match method {
        "ping" => json!({ "jsonrpc": "2.0", "id": id, "result": {} }),
        _ => {
            let (code, message) = (JsonRpcError::METHOD_NOT_FOUND, "this client does not support that");
            json!({ "jsonrpc": "2.0", "id": id, "error": { "code": code, "message": message } })
        }
    })
}

fn serialize(message: &Value) -> Bytes {
    serde_json::to_vec(message).expect("keys are strings").into()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn describe(text: &str) -> String {
        let description = |message: ServerMessage<'_>| match (&message.method, message.id, message.outcome())
        {
            (None, _, Ok(result)) => format!("{:?}={}", message.request_id(), result.get()),
            (None, _, Err(error)) => {
                format!("{:?}!error {}: {}", message.request_id(), error.code, error.message)
            }
            (Some(method), Some(id), _) => format!("{}?{method}", id.get()),
            (Some(method), None, _) => format!("{method}({})", message.params.map_or("", RawValue::get)),
        };
        messages(text).into_iter().map(description).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn message_kinds_are_distinguished_and_keep_their_text() {
        assert_eq!(describe(r#"{"jsonrpc":"2.0","id":7,"result":{"n":1.0}}"#), r#"Some(7)={"n":1.0}"#);
        assert_eq!(describe(r#" {"id":"7","result":{}} "#), "Some(7)={}");
        assert_eq!(
            describe(r#"{"id":7,"error":{"code":-32602,"message":"no","data":[1]}}"#),
            "Some(7)!error -32602: no"
        );
        assert_eq!(describe(r#"{"id":null,"error":"down"}"#), r#"None!error 0: "down""#);
        assert_eq!(
            describe(r#"{"id":7,"result":null}"#),
            "Some(7)!error -32603: its response has neither a result nor an error"
        );
        assert_eq!(describe(r#"{"id":"a","method":"ping"}"#), r#""a"?ping"#);
        assert_eq!(
            describe(r#"{"method":"notifications/x","params":{"a":1}}"#),
            r#"notifications/x({"a":1})"#
        );
        assert_eq!(describe(r#"[{"id":1,"result":{}},5,{"method":"m"}]"#), "Some(1)={} m()");
        assert_eq!(describe("Server running on stdio"), "");
        assert_eq!(describe("{}"), "");
    }

    #[test]
    fn a_line_of_a_log_is_no_message() {
        for line in [
            r#"{"id":7,"level":"info","msg":"request done"}"#,
            r#"{"id":7,"result":{"rows":3}}"#,
            r#"{"id":7,"error":"disk full"}"#,
            r#"{"jsonrpc":"2.0","id":7,"time":5}"#,
            "Server running on stdio",
        ] {
            assert!(messages_of_line(line).is_empty(), "{line}");
        }
        for line in [
            r#"{"jsonrpc":"2.0","id":7,"result":null}"#,
            r#"{"jsonrpc":"2.0","id":7,"result":{}}"#,
            r#"{"jsonrpc":"2.0","method":"notifications/x"}"#,
        ] {
            assert_eq!(messages_of_line(line).len(), 1, "{line}");
        }
    }

    #[test]
    fn the_id_of_a_message_that_is_too_long_is_found_before_it_or_behind_it() {
        let id_at_start = |text: &str| id_of_long_message(text.as_bytes(), b"");
        assert_eq!(id_at_start(r#"{"jsonrpc":"2.0","id":3,"result":{"content":[{"te"#), Some(3));
        assert_eq!(id_at_start(r#"{"id" : "3" , "result":{"#), Some(3));
        assert_eq!(id_at_start(r#"{"result":{"id":4,"text":"aaaa"#), None);
        assert_eq!(id_at_start("a line for people"), None);
        let id_at_end = |text: &str| id_of_long_message(b"", text.as_bytes());
        assert_eq!(id_at_end(r#"aaa"}]},"jsonrpc":"2.0","id":10}"#), Some(10));
        assert_eq!(id_at_end("aaa\"}]}, \"id\": \"10\", \"jsonrpc\": \"2.0\" }\r"), Some(10));
        assert_eq!(id_at_end(r#""text":"a","id":4}}"#), None);
        assert_eq!(id_at_end(r#""id":4,"text":"a"}"#), None);
    }

    #[test]
    fn requests_of_the_server_get_a_response() {
        let response = |method: &str| {
            let id = RawValue::from_string(r#""x-1""#.to_owned()).unwrap();
            String::from_utf8(response_to_request(&id, method).to_vec()).unwrap()
        };
        assert_eq!(response("ping"), r#"{"jsonrpc":"2.0","id":"x-1","result":{}}"#);
        assert!(response("sampling/createMessage").contains("-32601"));
    }
}
