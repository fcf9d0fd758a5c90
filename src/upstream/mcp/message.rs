//! JSON-RPC, as far as a client of MCP needs it. What a server writes keeps its text: only its outermost members are
//! looked at.

use std::borrow::Cow;

use bytes::Bytes;
use serde::Deserialize;
use serde_json::{Map, Value, json, value::RawValue};

use crate::upstream::error::Withheld;

/// One message of a server.
pub(super) enum Message<'a> {
    /// The answer to a request of ours.
    Response(Response<'a>),
    /// A request of its own.
    Request {
        /// Its id, to be given back as it is.
        id: &'a RawValue,
        /// What it asks for.
        method: Cow<'a, str>,
    },
    /// Something that wants no answer.
    Notification {
        /// What happened.
        method: Cow<'a, str>,
        /// More about it.
        params: Option<&'a RawValue>,
    },
}

/// The answer to a request of ours.
pub(super) struct Response<'a> {
    /// Which request; nothing where the server could not tell.
    pub(super) id: Option<u64>,
    /// The whole message.
    pub(super) text: &'a str,
    /// What was asked for, or why it is not there.
    pub(super) outcome: Result<&'a RawValue, RpcError>,
}

/// A JSON-RPC error.
#[derive(Debug, Clone, Deserialize)]
pub(super) struct RpcError {
    #[serde(default)]
    pub(super) code: i64,
    #[serde(default)]
    pub(super) message: String,
    /// Whether the message is ours: the server has sent no error that can be read.
    #[serde(skip)]
    pub(super) is_ours: bool,
}

impl From<RpcError> for Withheld {
    fn from(error: RpcError) -> Self {
        let RpcError { code, message, is_ours } = error;
        match is_ours {
            true => Self::new(message.clone(), message),
            false => {
                let plain = format!("error {code}, with a message of {} bytes", message.len());
                Self::new(plain, format!("error {code}: {message}"))
            }
        }
    }
}

impl RpcError {
    /// The server itself is at fault (JSON-RPC 2.0, section 5.1).
    const INTERNAL: i64 = -32603;
    /// No such method (JSON-RPC 2.0, section 5.1).
    pub(super) const METHOD_NOT_FOUND: i64 = -32601;
    /// The parameters are wrong.
    pub(super) const INVALID_PARAMS: i64 = -32602;
    /// A revision that the server does not speak (MCP 2026-07-28, `UnsupportedProtocolVersionError`).
    pub(super) const UNSUPPORTED_REVISION: i64 = -32022;
}

#[derive(Deserialize)]
struct Members<'a> {
    #[serde(borrow)]
    id: Option<&'a RawValue>,
    #[serde(borrow)]
    method: Option<Cow<'a, str>>,
    #[serde(borrow)]
    params: Option<&'a RawValue>,
    #[serde(borrow)]
    result: Option<&'a RawValue>,
    #[serde(borrow)]
    error: Option<&'a RawValue>,
}

/// The messages in a text: one, or several in an array, which revision 2025-03-26 allows. Those that are none are
/// left out; nothing is there when it is no JSON at all.
pub(super) fn messages(text: &str) -> Vec<Message<'_>> {
    let text = text.trim();
    if text.starts_with('[') {
        let parts: Vec<&RawValue> = serde_json::from_str(text).unwrap_or_default();
        return parts.into_iter().filter_map(|part| message(part.get())).collect();
    }
    message(text).into_iter().collect()
}

fn message(text: &str) -> Option<Message<'_>> {
    let Members { id, method, params, result, error } = serde_json::from_str(text).ok()?;
    match (method, id, error, result) {
        (Some(method), Some(id), ..) => Some(Message::Request { id, method }),
        (Some(method), None, ..) => Some(Message::Notification { method, params }),
        (None, id, Some(error), _) => {
            let told =
                |_| RpcError { code: 0, message: error.get().chars().take(200).collect(), is_ours: false };
            let error = serde_json::from_str(error.get()).unwrap_or_else(told);
            Some(Message::Response(Response { id: id.and_then(own_id), text, outcome: Err(error) }))
        }
        (None, id, None, Some(result)) => {
            Some(Message::Response(Response { id: id.and_then(own_id), text, outcome: Ok(result) }))
        }
        (None, Some(id), None, None) => {
            let told = "its answer has neither a result nor an error".to_owned();
            let error = RpcError { code: RpcError::INTERNAL, message: told, is_ours: true };
            Some(Message::Response(Response { id: own_id(id), text, outcome: Err(error) }))
        }
        (None, None, None, None) => None,
    }
}

/// The answer to one request among some messages.
pub(super) fn response_to(text: &str, wanted: u64) -> Option<Response<'_>> {
    let mut responses = messages(text).into_iter().filter_map(Message::into_response);
    responses.find(|response| response.id == Some(wanted))
}

/// The first error among some messages, whomever it is for.
pub(super) fn error_in(text: &str) -> Option<RpcError> {
    messages(text).into_iter().find_map(Message::into_response)?.outcome.err()
}

impl<'a> Message<'a> {
    /// The answer that it is, if it is one.
    pub(super) fn into_response(self) -> Option<Response<'a>> {
        match self {
            Self::Response(response) => Some(response),
            Self::Request { .. } | Self::Notification { .. } => None,
        }
    }
}

/// Our ids are numbers; some servers give them back as texts.
fn own_id(id: &RawValue) -> Option<u64> {
    id.get().trim_matches('"').parse().ok()
}

/// A request of ours.
pub(super) fn request(id: u64, method: &str, params: Map<String, Value>) -> Bytes {
    written(&json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params }))
}

/// Something that the server is told.
pub(super) fn notification(method: &str, params: Map<String, Value>) -> Bytes {
    let mut message = json!({ "jsonrpc": "2.0", "method": method });
    if !params.is_empty() {
        message["params"] = params.into();
    }
    written(&message)
}

/// That nobody waits for an answer any more.
pub(super) fn cancelled(id: u64) -> Bytes {
    let mut params = Map::new();
    params.insert("requestId".into(), id.into());
    params.insert("reason".into(), "the caller does not wait any more".into());
    notification("notifications/cancelled", params)
}

/// The answer to a request of the server: `ping` is answered, for everything else we have no ability.
pub(super) fn answer_to(id: &RawValue, method: &str) -> Bytes {
    let id: Value = serde_json::from_str(id.get()).unwrap_or_default();
    written(&match method {
        "ping" => json!({ "jsonrpc": "2.0", "id": id, "result": {} }),
        _ => {
            let error = json!({ "code": RpcError::METHOD_NOT_FOUND, "message": "this client can't do that" });
            json!({ "jsonrpc": "2.0", "id": id, "error": error })
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
        let word = |message: Message<'_>| match message {
            Message::Response(Response { id, outcome: Ok(result), .. }) => {
                format!("{id:?}={}", result.get())
            }
            Message::Response(Response { id, outcome: Err(error), .. }) => {
                format!("{id:?}!error {}: {}", error.code, error.message)
            }
            Message::Request { id, method } => format!("{}?{method}", id.get()),
            Message::Notification { method, params } => {
                format!("{method}({})", params.map_or("", RawValue::get))
            }
        };
        messages(text).into_iter().map(word).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn messages_are_told_apart_and_keep_their_text() {
        assert_eq!(kinds(r#"{"jsonrpc":"2.0","id":7,"result":{"n":1.0}}"#), r#"Some(7)={"n":1.0}"#);
        assert_eq!(kinds(r#" {"id":"7","result":{}} "#), "Some(7)={}");
        assert_eq!(
            kinds(r#"{"id":7,"error":{"code":-32602,"message":"no","data":[1]}}"#),
            "Some(7)!error -32602: no"
        );
        assert_eq!(kinds(r#"{"id":null,"error":"down"}"#), r#"None!error 0: "down""#);
        assert_eq!(
            kinds(r#"{"id":7,"result":null}"#),
            "Some(7)!error -32603: its answer has neither a result nor an error"
        );
        assert_eq!(kinds(r#"{"id":"a","method":"ping"}"#), r#""a"?ping"#);
        assert_eq!(kinds(r#"{"method":"notifications/x","params":{"a":1}}"#), r#"notifications/x({"a":1})"#);
        assert_eq!(kinds(r#"[{"id":1,"result":{}},5,{"method":"m"}]"#), "Some(1)={} m()");
        assert_eq!(kinds("Server running on stdio"), "");
        assert_eq!(kinds("{}"), "");
    }

    #[test]
    fn what_the_server_asks_is_answered() {
        let of = |method: &str| {
            let id = RawValue::from_string(r#""x-1""#.to_owned()).unwrap();
            String::from_utf8(answer_to(&id, method).to_vec()).unwrap()
        };
        assert_eq!(of("ping"), r#"{"jsonrpc":"2.0","id":"x-1","result":{}}"#);
        assert!(of("sampling/createMessage").contains("-32601"));
    }
}
