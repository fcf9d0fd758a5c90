//! JSON-RPC messages of MCP, to and from a server. Messages from a server preserve their text: only the
//! outermost members are parsed.

use std::{borrow::Cow, fmt};

use bytes::Bytes;
use serde::{
    Deserialize, Deserializer,
    de::{IgnoredAny, MapAccess, Visitor},
};
use serde_json::{Map, Value, json, value::RawValue};
use tracing::debug;

use crate::route::UpstreamName;
use crate::upstream::error::QuotedSource;
use crate::upstream::{ProgressEvent, ProgressSender};

/// Message from a server. With a method it is a request, or a notification if it has no id. Without one it
/// is a response.
#[derive(Deserialize)]
pub(super) struct ServerMessage<'a> {
    jsonrpc: Option<IgnoredAny>,
    #[serde(borrow)]
    id: Option<&'a RawValue>,
    #[serde(borrow)]
    method: Option<Cow<'a, str>>,
    #[serde(borrow)]
    params: Option<&'a RawValue>,
    #[serde(borrow, default, deserialize_with = "even_null")]
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
    /// Invalid parameters.
    pub(super) const INVALID_PARAMS: i64 = -32602;
    /// Headers that differ from the body (MCP 2026-07-28, `HeaderMismatchError`).
    pub(super) const HEADER_MISMATCH: i64 = -32020;
    /// Unsupported revision (MCP 2026-07-28, `UnsupportedProtocolVersionError`).
    pub(super) const UNSUPPORTED_REVISION: i64 = -32022;
}

/// Deserializes a member that is present, even if it is `null`.
fn even_null<'de: 'a, 'a, D: Deserializer<'de>>(member: D) -> Result<Option<&'a RawValue>, D::Error> {
    <&RawValue>::deserialize(member).map(Some)
}

/// Parses the messages in a string: one, or an array of them, which revision 2025-03-26 allows. Invalid
/// messages are skipped. The list is empty if the string is not JSON.
pub(super) fn messages(text: &str) -> Vec<ServerMessage<'_>> {
    messages_if(|_| true, text)
}

/// Parses the messages in a line of a program's standard output. The line may also be one of a log, so a
/// message must have `jsonrpc`, and a `method`, a `result` or an `error`.
pub(super) fn messages_of_line(text: &str) -> Vec<ServerMessage<'_>> {
    messages_if(
        |message| {
            message.jsonrpc.is_some()
                && (message.method.is_some() || message.result.is_some() || message.error.is_some())
        },
        text,
    )
}

fn messages_if(is_message: impl Fn(&ServerMessage<'_>) -> bool, text: &str) -> Vec<ServerMessage<'_>> {
    let text = text.trim();
    let texts = match text.starts_with('[') {
        true => {
            let parts: Vec<&RawValue> = serde_json::from_str(text).unwrap_or_default();
            parts.into_iter().map(RawValue::get).collect()
        }
        false => vec![text],
    };
    let parsed = |text| serde_json::from_str(text).ok().map(|message| ServerMessage { text, ..message });
    let messages = texts.into_iter().filter_map(parsed);
    messages.filter(|message| message.is_valid() && is_message(message)).collect()
}

impl<'a> ServerMessage<'a> {
    /// Whether it is a request, a notification or a response. An error without an id is a response to a
    /// request that the server could not read.
    fn is_valid(&self) -> bool {
        self.method.is_some() || self.id.is_some() || self.error.is_some() || self.result().is_some()
    }

    /// Whether it is a response to a request of glossator.
    pub(super) fn is_response(&self) -> bool {
        self.method.is_none()
    }

    /// Id of the request that it is the response to. `None` if the server could not read it.
    pub(super) fn request_id(&self) -> Option<u64> {
        self.id.filter(|_| self.is_response()).and_then(own_id)
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
pub(super) fn response_to(text: &str, wanted: u64) -> Option<ServerMessage<'_>> {
    messages(text).into_iter().find(|message| message.request_id() == Some(wanted))
}

/// Finds the first error, for any request.
pub(super) fn error_in(text: &str) -> Option<JsonRpcError> {
    messages(text).iter().find(|message| message.is_response())?.outcome().err()
}

/// Action that a message requires.
pub(super) enum RequiredAction {
    None,
    /// Read the server's lists again.
    ListsChanged,
    /// Send this response.
    Respond(Bytes),
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ProgressParams<'a> {
    #[serde(borrow)]
    progress_token: &'a RawValue,
    progress: f64,
    total: Option<f64>,
}

/// Action for a message that is not a response to a pending call. Progress is reported to the client of its
/// call: `client_of` has the clients by the id of the call.
pub(super) fn required_action<'c>(
    upstream: &UpstreamName,
    message: &ServerMessage<'_>,
    client_of: impl FnOnce(u64) -> Option<&'c ProgressSender>,
) -> RequiredAction {
    // A response to a call that was abandoned requires nothing.
    let Some(method) = &message.method else { return RequiredAction::None };
    match message.id {
        Some(id) => {
            if method != "ping" {
                debug!(%upstream, %method, "unsupported request of the server");
            }
            RequiredAction::Respond(answer_to(id, method))
        }
        None => match &**method {
            "notifications/tools/list_changed"
            | "notifications/prompts/list_changed"
            | "notifications/resources/list_changed" => RequiredAction::ListsChanged,
            "notifications/progress" => {
                let params = message.params.map_or("", RawValue::get);
                if let Ok(ProgressParams { progress_token, progress, total }) = serde_json::from_str(params)
                    && let Some(client) = own_id(progress_token).and_then(client_of)
                {
                    client.send(ProgressEvent::Progress { done: progress, total });
                }
                RequiredAction::None
            }
            _ => RequiredAction::None,
        },
    }
}

/// Finds the id at the beginning of a line that is too long to parse.
pub(super) fn id_at_beginning(line: &[u8]) -> Option<u64> {
    struct Outermost<'i>(&'i mut Option<u64>);
    impl<'de> Visitor<'de> for Outermost<'_> {
        type Value = ();

        fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
            formatter.write_str("a message")
        }

        fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<(), A::Error> {
            while let Some(name) = members.next_key::<Cow<'de, str>>()? {
                if name == "id" {
                    *self.0 = own_id(members.next_value::<&RawValue>()?);
                    return Ok(());
                }
                members.next_value::<IgnoredAny>()?;
            }
            Ok(())
        }
    }
    let mut found = None;
    let line = &line[..line.len().min(SEARCHED_BYTES)];
    // The input ends in the middle of a message, so an error only means that the id does not come before.
    let _ = serde_json::Deserializer::from_slice(line).deserialize_map(Outermost(&mut found));
    found
}

/// Finds the id at the end of such a line, for servers that write it last.
pub(super) fn id_at_end(line: &[u8]) -> Option<u64> {
    let line = &line[line.len().saturating_sub(SEARCHED_BYTES)..];
    let text = String::from_utf8_lossy(line);
    // After two closing braces, the id would belong to a nested object.
    let (_, last) = text.trim_end().strip_suffix('}')?.rsplit_once("\"id\"")?;
    let last = last.trim_start().strip_prefix(':')?.trim();
    let (id, rest) = last.split_once(',').unwrap_or((last, ""));
    let rest: String = rest.split_whitespace().collect();
    let is_all = rest.is_empty() || rest == r#""jsonrpc":"2.0""#;
    is_all.then(|| id.trim().trim_matches('"').parse().ok()).flatten()
}

/// Part of a line that is searched for an id.
const SEARCHED_BYTES: usize = 1024;

/// Parses an id of glossator. It is a number, but some servers return it as a string.
fn own_id(id: &RawValue) -> Option<u64> {
    id.get().trim_matches('"').parse().ok()
}

/// Request to the server.
pub(super) fn request(id: u64, method: &str, params: Map<String, Value>) -> Bytes {
    written(&json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params }))
}

/// Notification to the server that it is initialized.
pub(super) fn initialized() -> Bytes {
    written(&json!({ "jsonrpc": "2.0", "method": INITIALIZED }))
}

/// Method of that notification.
pub(super) const INITIALIZED: &str = "notifications/initialized";

/// Notification that cancels a request.
pub(super) fn cancelled(id: u64) -> Bytes {
    let params = json!({ "requestId": id, "reason": "the call was cancelled" });
    written(&json!({ "jsonrpc": "2.0", "method": "notifications/cancelled", "params": params }))
}

/// Response to a request of the server: a result for `ping`, an error for everything else.
pub(super) fn answer_to(id: &RawValue, method: &str) -> Bytes {
    let id: Value = serde_json::from_str(id.get()).unwrap_or_default();
    written(&match method {
        "ping" => json!({ "jsonrpc": "2.0", "id": id, "result": {} }),
        _ => {
            let (code, message) = (JsonRpcError::METHOD_NOT_FOUND, "this client does not support that");
            json!({ "jsonrpc": "2.0", "id": id, "error": { "code": code, "message": message } })
        }
    })
}

fn written(message: &Value) -> Bytes {
    serde_json::to_vec(message).expect("keys are strings").into()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kinds(text: &str) -> String {
        let word = |message: ServerMessage<'_>| match (&message.method, message.id, message.outcome()) {
            (None, _, Ok(result)) => format!("{:?}={}", message.request_id(), result.get()),
            (None, _, Err(error)) => {
                format!("{:?}!error {}: {}", message.request_id(), error.code, error.message)
            }
            (Some(method), Some(id), _) => format!("{}?{method}", id.get()),
            (Some(method), None, _) => format!("{method}({})", message.params.map_or("", RawValue::get)),
        };
        messages(text).into_iter().map(word).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn message_kinds_are_distinguished_and_keep_their_text() {
        assert_eq!(kinds(r#"{"jsonrpc":"2.0","id":7,"result":{"n":1.0}}"#), r#"Some(7)={"n":1.0}"#);
        assert_eq!(kinds(r#" {"id":"7","result":{}} "#), "Some(7)={}");
        assert_eq!(
            kinds(r#"{"id":7,"error":{"code":-32602,"message":"no","data":[1]}}"#),
            "Some(7)!error -32602: no"
        );
        assert_eq!(kinds(r#"{"id":null,"error":"down"}"#), r#"None!error 0: "down""#);
        assert_eq!(
            kinds(r#"{"id":7,"result":null}"#),
            "Some(7)!error -32603: its response has neither a result nor an error"
        );
        assert_eq!(kinds(r#"{"id":"a","method":"ping"}"#), r#""a"?ping"#);
        assert_eq!(kinds(r#"{"method":"notifications/x","params":{"a":1}}"#), r#"notifications/x({"a":1})"#);
        assert_eq!(kinds(r#"[{"id":1,"result":{}},5,{"method":"m"}]"#), "Some(1)={} m()");
        assert_eq!(kinds("Server running on stdio"), "");
        assert_eq!(kinds("{}"), "");
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
        let begins = |text: &str| id_at_beginning(text.as_bytes());
        assert_eq!(begins(r#"{"jsonrpc":"2.0","id":3,"result":{"content":[{"te"#), Some(3));
        assert_eq!(begins(r#"{"id" : "3" , "result":{"#), Some(3));
        assert_eq!(begins(r#"{"result":{"id":4},"id":3,"#), Some(3));
        assert_eq!(begins(r#"{"result":{"id":4,"text":"aaaa"#), None);
        assert_eq!(begins("a line for people"), None);
        let ends = |text: &str| id_at_end(text.as_bytes());
        assert_eq!(ends(r#"aaa"}]},"jsonrpc":"2.0","id":10}"#), Some(10));
        assert_eq!(ends("aaa\"}]}, \"id\": \"10\", \"jsonrpc\": \"2.0\" }\r"), Some(10));
        assert_eq!(ends(r#""text":"a","id":4}}"#), None);
        assert_eq!(ends(r#""id":4,"text":"a"}"#), None);
    }

    #[test]
    fn requests_of_the_server_get_a_response() {
        let of = |method: &str| {
            let id = RawValue::from_string(r#""x-1""#.to_owned()).unwrap();
            String::from_utf8(answer_to(&id, method).to_vec()).unwrap()
        };
        assert_eq!(of("ping"), r#"{"jsonrpc":"2.0","id":"x-1","result":{}}"#);
        assert!(of("sampling/createMessage").contains("-32601"));
    }
}
