//! JSON-RPC messages and their parameters, borrowed from the bytes of a body.
//!
//! A message is deserialized once, and so are its parameters. Ids and members stay raw JSON: an id is
//! returned byte for byte, and the arguments of a call are parsed once.

use std::borrow::Cow;

use serde::{Deserialize, Deserializer};
use serde_json::{Map, Value, value::RawValue};

use super::revision::missing_meta;
use super::{ErrorKind, RpcError};
use crate::model::{ARGUMENT_VALUE_LIMIT, values_within};
use crate::route::McpLogLevel;
use crate::settings::EnumSetting as _;

/// Maximum number of messages in a batch.
const BATCH_LIMIT: usize = 100;

/// Maximum length of a progress token, in bytes: every notification repeats the token.
const TOKEN_LIMIT_BYTES: usize = 1024;

#[derive(Debug)]
pub(super) enum ClientMessage<'a> {
    Request(RpcRequest<'a>),
    Notification(RpcNotification<'a>),
    /// A response to a request that glossator sent to the client: its result or its error.
    Response {
        id: RpcId<'a>,
        result: Result<&'a RawValue, &'a RawValue>,
    },
}

/// A request, which needs a response.
#[derive(Debug)]
pub(super) struct RpcRequest<'a> {
    pub(super) id: RpcId<'a>,
    pub(super) method: Cow<'a, str>,
    /// `_meta` of the parameters.
    pub(super) meta: RequestMeta<'a>,
    pub(super) params: Box<Params<'a>>,
    /// The whole message as it was received.
    pub(super) message: &'a [u8],
}

#[derive(Debug)]
pub(super) struct RpcNotification<'a> {
    /// The method; `None` if it is not a string.
    pub(super) method: Option<Cow<'a, str>>,
    params: Member<'a>,
}

/// A request's id as the client wrote it: a JSON string or an integer of any size.
#[derive(Debug, Clone, Copy)]
pub(super) struct RpcId<'a>(pub(super) &'a RawValue);

/// Error for a body that is not a message, with its id and method if these could be read.
#[derive(Debug)]
pub(super) struct RejectedMessage<'a> {
    pub(super) id: Option<RpcId<'a>>,
    pub(super) method: Option<Cow<'a, str>>,
    pub(super) error: RpcError,
}

/// An optional member of an object, as raw JSON. `null` counts as present.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Member<'a>(Option<&'a RawValue>);

impl<'de: 'a, 'a> Deserialize<'de> for Member<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        <&RawValue>::deserialize(deserializer).map(|raw| Self(Some(raw)))
    }
}

/// A JSON string, borrowed where it has no escapes.
#[derive(Deserialize)]
struct JsonString<'a>(#[serde(borrow)] Cow<'a, str>);

/// The parameters of all methods. A duplicate member is an error: a proxy in front of glossator may have read
/// the other value. Other members are ignored.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase", bound(deserialize = "'de: 'a"))]
pub(super) struct Params<'a> {
    name: Member<'a>,
    arguments: Member<'a>,
    pub(super) uri: Member<'a>,
    pub(super) cursor: Member<'a>,
    pub(super) request_state: Member<'a>,
    pub(super) input_responses: Member<'a>,
    pub(super) task_id: Member<'a>,
    pub(super) notifications: Member<'a>,
    pub(super) level: Member<'a>,
    pub(super) protocol_version: Member<'a>,
    pub(super) capabilities: Member<'a>,
    #[serde(rename = "ref")]
    pub(super) reference: Member<'a>,
    pub(super) argument: Member<'a>,
    pub(super) context: Member<'a>,
    request_id: Member<'a>,
    reason: Member<'a>,
    #[serde(rename = "_meta")]
    meta: Member<'a>,
}

/// The members of a message that JSON-RPC 2.0 defines. Other members are ignored.
#[derive(Debug, Default, Deserialize)]
#[serde(default, bound(deserialize = "'de: 'a"))]
struct JsonRpcMessage<'a> {
    jsonrpc: Member<'a>,
    id: Member<'a>,
    method: Member<'a>,
    params: Member<'a>,
    result: Member<'a>,
    error: Member<'a>,
}

/// Members of `_meta` in a request that glossator reads.
#[derive(Debug, Default, Deserialize)]
#[serde(default, bound(deserialize = "'de: 'a"))]
pub(super) struct RequestMeta<'a> {
    #[serde(rename = "io.modelcontextprotocol/protocolVersion")]
    protocol_version: Member<'a>,
    #[serde(rename = "io.modelcontextprotocol/clientCapabilities")]
    client_capabilities: Member<'a>,
    #[serde(rename = "io.modelcontextprotocol/logLevel")]
    log_level: Member<'a>,
    #[serde(rename = "progressToken")]
    progress_token: Member<'a>,
    traceparent: Member<'a>,
    tracestate: Member<'a>,
}

/// Parses a body that is a single message.
///
/// # Errors
///
/// [`RejectedMessage`] if the body is not JSON, is not one JSON-RPC 2.0 message, or has parameters that no
/// method accepts.
pub(super) fn message(body: &[u8]) -> Result<ClientMessage<'_>, RejectedMessage<'_>> {
    let message = parse_members(body).map_err(|error| RejectedMessage { id: None, method: None, error })?;
    let method = message.method.text();
    // The id is parsed first, so that the error for any later problem has the id of the request.
    let id = message.id.0.map(RpcId::parse).transpose();
    let id = id.map_err(|error| RejectedMessage { id: None, method: method.clone(), error })?;
    let reject = |error| RejectedMessage { id, method: method.clone(), error };
    let no_message = |reason: &'static str| reject(ErrorKind::NOT_A_MESSAGE.error(reason));
    if message.jsonrpc.text().as_deref() != Some("2.0") {
        return Err(no_message("`jsonrpc` must be \"2.0\""));
    }
    values_within(body, ARGUMENT_VALUE_LIMIT)
        .map_err(|error| reject(ErrorKind::PARAMS.error(error.to_string())))?;
    let (result, error) = (message.result.0, message.error.0);
    // A proxy in front of glossator may have taken the message for a response.
    if message.method.0.is_some() && (result.is_some() || error.is_some()) {
        return Err(no_message("a message with a `method` has neither `result` nor `error`"));
    }
    match (message.method.0, id, result, error) {
        (Some(_), Some(id), ..) => {
            let method = method.clone().ok_or_else(|| no_message("`method` must be a string"))?;
            let params: Box<Params<'_>> = message.params.optional_object("params").map_err(reject)?;
            let meta: RequestMeta<'_> = params.meta.optional_object("params._meta").map_err(reject)?;
            // Progress tokens have these types in every revision (Progress, "Progress Flow").
            if !meta.progress_token.0.is_none_or(is_text_or_integer) {
                let reason = "`params._meta.progressToken` must be a string or an integer";
                return Err(reject(ErrorKind::PARAMS.error(reason)));
            }
            Ok(ClientMessage::Request(RpcRequest { id, method, meta, params, message: body }))
        }
        (Some(_), None, ..) => Ok(ClientMessage::Notification(RpcNotification {
            method: method.clone(),
            params: message.params,
        })),
        (None, Some(_), Some(_), Some(_)) => Err(no_message("a response has either `result` or `error`")),
        (None, Some(id), None, Some(error)) => Ok(ClientMessage::Response { id, result: Err(error) }),
        (None, Some(id), Some(result), None) => Ok(ClientMessage::Response { id, result: Ok(result) }),
        (None, Some(_), None, None) | (None, None, ..) => {
            Err(no_message("a request needs a `method`, and a response an `id` with `result` or `error`"))
        }
    }
}

/// Parses the messages of a batch; `None` if the body is not a batch.
///
/// # Errors
///
/// When the body is not JSON, is an empty batch, or exceeds the limit of messages or of values.
pub(super) fn batch(body: &[u8]) -> Option<Result<Vec<&RawValue>, RpcError>> {
    if !body.trim_ascii_start().starts_with(b"[") {
        return None;
    }
    // The limit of values comes first: it limits the memory of the list, too.
    let messages = values_within(body, ARGUMENT_VALUE_LIMIT)
        .map_err(|error| ErrorKind::PARAMS.error(error.to_string()))
        .and_then(|()| serde_json::from_slice::<Vec<&RawValue>>(body).map_err(not_json));
    Some(messages.and_then(|messages| match messages.len() {
        0 => Err(ErrorKind::NOT_A_MESSAGE.error("a batch needs a message")),
        1..=BATCH_LIMIT => Ok(messages),
        _ => Err(ErrorKind::NOT_A_MESSAGE.error(format!("a batch has at most {BATCH_LIMIT} messages"))),
    }))
}

impl<'a> RpcRequest<'a> {
    /// Reads `params.name`: the name of a tool or a prompt.
    pub(super) fn name(&self) -> Result<Cow<'a, str>, RpcError> {
        self.params.name.required_text("params.name")
    }

    /// Reads `params.arguments`. Missing arguments are the same as an empty object.
    pub(super) fn arguments(&self) -> Result<Map<String, Value>, RpcError> {
        self.params.arguments.optional_object("params.arguments")
    }
}

impl<'a> RpcNotification<'a> {
    /// The id of the request that the client cancels, and the reason; `None` for other notifications.
    pub(super) fn cancelled(&self) -> Option<(RpcId<'a>, Option<Cow<'a, str>>)> {
        self.method.as_deref().filter(|method| *method == "notifications/cancelled")?;
        let params: Params<'a> = self.params.object("params").ok()??;
        Some((RpcId::parse(params.request_id.0?).ok()?, params.reason.text()))
    }
}

impl<'a> Member<'a> {
    /// The member, where `null` counts as missing.
    pub(super) fn unless_null(self) -> Self {
        Self(self.0.filter(|raw| raw.get() != "null"))
    }

    /// The member as a string; `None` if it is missing or of another type.
    pub(super) fn text(self) -> Option<Cow<'a, str>> {
        serde_json::from_str(self.0?.get()).ok().map(|JsonString(text)| text)
    }

    /// The member as a string, which is required. `path` is its position in the message, such as
    /// `params.name`, for the error.
    pub(super) fn required_text(self, path: &str) -> Result<Cow<'a, str>, RpcError> {
        self.text().ok_or_else(|| ErrorKind::PARAMS.error(format!("`{path}` must be a string")))
    }

    /// The member as a string; `None` if it is missing. Another type is an error.
    pub(super) fn optional_text(self, path: &str) -> Result<Option<Cow<'a, str>>, RpcError> {
        self.0.map(|_| self.required_text(path)).transpose()
    }

    /// The member as an object; `None` if it is missing. The check for `{` is needed because a derived
    /// `Deserialize` also accepts an array with the members' values.
    pub(super) fn object<T: Deserialize<'a>>(self, path: &str) -> Result<Option<T>, RpcError> {
        let Some(raw) = self.0.map(RawValue::get) else { return Ok(None) };
        if !raw.starts_with('{') {
            return Err(ErrorKind::PARAMS.error(format!("`{path}` must be an object")));
        }
        let object = serde_json::from_str(raw);
        object.map_err(|error| ErrorKind::PARAMS.error(format!("`{path}`: {}", without_position(&error))))
    }

    /// The member as an object, which is required. `message` is the error if the member is missing or of
    /// another type.
    pub(super) fn required_object<T: Deserialize<'a>>(self, message: &'static str) -> Result<T, RpcError> {
        self.object("").ok().flatten().ok_or_else(|| ErrorKind::PARAMS.error(message))
    }

    /// The member as an object; empty if it is missing or `null`.
    pub(super) fn optional_object<T: Deserialize<'a> + Default>(self, path: &str) -> Result<T, RpcError> {
        Ok(self.unless_null().object(path)?.unwrap_or_default())
    }

    /// The member as an object; empty if it is missing or of another type.
    pub(super) fn object_or_empty(self) -> Map<String, Value> {
        self.object("").ok().flatten().unwrap_or_default()
    }

    /// The member as a log level.
    pub(super) fn level(self, path: &str) -> Result<McpLogLevel, RpcError> {
        let level = self.text().and_then(|text| McpLogLevel::from_name(&text));
        let names = || McpLogLevel::VALUES.iter().map(|(name, _)| *name).collect::<Vec<_>>().join(", ");
        level.ok_or_else(|| ErrorKind::PARAMS.error(format!("`{path}` must be one of {}", names())))
    }
}

fn not_json(error: serde_json::Error) -> RpcError {
    ErrorKind::NOT_JSON.error(format!("the body is not JSON: {error}"))
}

fn parse_members(body: &[u8]) -> Result<JsonRpcMessage<'_>, RpcError> {
    let raw = || serde_json::from_slice::<&RawValue>(body).map_err(not_json);
    if body.trim_ascii_start().starts_with(b"{") {
        // Parsing ends at a duplicate member, so `raw` checks whether the rest of the body is JSON.
        return serde_json::from_slice(body).map_err(|error| match raw() {
            Err(error) => error,
            Ok(_) if error.is_data() => ErrorKind::NOT_A_MESSAGE.error(without_position(&error)),
            Ok(_) => not_json(error),
        });
    }
    Err(ErrorKind::NOT_A_MESSAGE.error(match raw()?.get().starts_with('[') {
        true => {
            "a batch can't be nested, and only revision 2025-03-26 has batches: send each message in its own \
             request"
        }
        false => "a message is a JSON object",
    }))
}

/// The message of a serde_json error without "at line 1 column 7", which counts from the start of the parsed
/// part.
pub(super) fn without_position(error: &serde_json::Error) -> String {
    let message = error.to_string();
    message.split(" at line ").next().unwrap_or(&message).to_owned()
}

/// Whether a value is a string or an integer, as ids and progress tokens must be. A number with a fraction or
/// an exponent is rejected: other parsers may read `7.0` in another way.
fn is_text_or_integer(raw: &RawValue) -> bool {
    let json = raw.get();
    let digits = json.strip_prefix('-').unwrap_or(json);
    let is_integer = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
    is_integer || json.starts_with('"')
}

impl<'a> RpcId<'a> {
    fn parse(raw: &'a RawValue) -> Result<Self, RpcError> {
        let error = || ErrorKind::NOT_A_MESSAGE.error("`id` must be a string or an integer");
        is_text_or_integer(raw).then_some(Self(raw)).ok_or_else(error)
    }

    /// The id as a JSON value, with all its digits.
    pub(super) fn to_value(self) -> Value {
        serde_json::from_str(self.0.get()).expect("an id was read as JSON")
    }

    /// The id as raw JSON.
    pub(super) fn as_json(self) -> &'a str {
        self.0.get()
    }
}

impl<'a> RequestMeta<'a> {
    /// The protocol revision that the request declares.
    pub(super) fn protocol_version(&self) -> Result<Option<Cow<'a, str>>, RpcError> {
        self.protocol_version.optional_text("io.modelcontextprotocol/protocolVersion")
    }

    /// The client's capabilities, which each request declares since 2026-07-28.
    pub(super) fn capabilities(&self) -> Map<String, Value> {
        self.client_capabilities.object_or_empty()
    }

    /// Checks that the client declares its capabilities, as revision 2026-07-28 requires.
    pub(super) fn check_capabilities(&self) -> Result<(), RpcError> {
        let path = "io.modelcontextprotocol/clientCapabilities";
        match self.client_capabilities.0.map(|raw| raw.get().starts_with('{')) {
            Some(true) => Ok(()),
            Some(false) => Err(ErrorKind::PARAMS.error(format!("`{path}` must be an object"))),
            None => Err(missing_meta("clientCapabilities")),
        }
    }

    /// The log level for the log messages of this request.
    pub(super) fn log_level(&self) -> Result<Option<McpLogLevel>, RpcError> {
        let level = self.log_level;
        level.0.map(|_| level.level("io.modelcontextprotocol/logLevel")).transpose()
    }

    /// The progress token. A token that is too long is ignored: progress notifications are optional.
    pub(super) fn progress_token(&self) -> Option<Value> {
        let token = self.progress_token.0.filter(|token| token.get().len() <= TOKEN_LIMIT_BYTES)?;
        serde_json::from_str(token.get()).ok()
    }

    /// The trace context, not yet checked: `traceparent` and `tracestate`.
    pub(super) fn trace(&self) -> (Option<Cow<'a, str>>, Option<Cow<'a, str>>) {
        (self.traceparent.text(), self.tracestate.text())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::{super::revision::Revision, *};

    #[track_caller]
    fn check_rejected(body: &str, id: Option<&str>, expected: &str) {
        let rejected = message(body.as_bytes()).unwrap_err();
        assert_eq!(rejected.id.map(RpcId::as_json), id, "{body}");
        let found = format!("{} {}", rejected.error.to_error(Revision::R2025_11_25).code.0, rejected.error);
        assert!(found.starts_with(expected), "{body}: {found}");
    }

    #[test]
    fn invalid_json_is_a_parse_error() {
        for body in [
            "",
            "   ",
            "{",
            "nonsense",
            r#"{"jsonrpc":"2.0","id":1,"method":"ping"} x"#,
            r#"{"id":1,"id":2,,}"#,
        ] {
            check_rejected(body, None, "-32700");
        }
        message(b"\xff\xfe").unwrap_err();
        message(b"{\"jsonrpc\":\"2.0\",\"id\":\"\xff\",\"method\":\"ping\"}").unwrap_err();
    }

    #[test]
    fn json_that_is_no_message_is_an_invalid_request() {
        check_rejected("[]", None, "-32600 a batch can't be nested");
        check_rejected(
            r#"[{"jsonrpc":"2.0","id":1,"method":"ping"}]"#,
            None,
            "-32600 a batch can't be nested",
        );
        check_rejected("7", None, "-32600 a message is");
        check_rejected("{}", None, "-32600 `jsonrpc`");
        check_rejected(r#"{"jsonrpc":"1.0","id":7,"method":"ping"}"#, Some("7"), "-32600 `jsonrpc`");
        check_rejected(r#"{"jsonrpc":"2.0","id":null,"method":"ping"}"#, None, "-32600 `id`");
        check_rejected(r#"{"jsonrpc":"2.0","id":1.5,"method":"ping"}"#, None, "-32600 `id`");
        check_rejected(r#"{"jsonrpc":"2.0","id":1e3,"method":"ping"}"#, None, "-32600 `id`");
        check_rejected(r#"{"jsonrpc":"2.0","id":{},"method":"ping"}"#, None, "-32600 `id`");
        check_rejected(
            r#"{"jsonrpc":"2.0","id":1,"id":2,"method":"ping"}"#,
            None,
            "-32600 duplicate field `id`",
        );
        check_rejected(r#"{"jsonrpc":"2.0","id":"a","method":7}"#, Some(r#""a""#), "-32600 `method`");
        check_rejected(r#"{"jsonrpc":"2.0","id":1}"#, Some("1"), "-32600 a request needs");
    }

    #[test]
    fn a_message_is_either_a_request_or_a_response() {
        for extra_member in [r#""result":{}"#, r#""error":{"code":1,"message":"no"}"#, r#""result":null"#] {
            let request = format!(r#"{{"jsonrpc":"2.0","id":1,"method":"ping",{extra_member}}}"#);
            check_rejected(&request, Some("1"), "-32600 a message with a `method`");
            let notification =
                format!(r#"{{"jsonrpc":"2.0","method":"notifications/initialized",{extra_member}}}"#);
            check_rejected(&notification, None, "-32600 a message with a `method`");
        }
        let both = r#"{"jsonrpc":"2.0","id":"a","result":{},"error":{"code":1,"message":"no"}}"#;
        check_rejected(both, Some(r#""a""#), "-32600 a response has either");
    }

    #[test]
    fn a_progress_token_is_a_string_or_an_integer() {
        let request_with = |token: &str| {
            let params = format!(r#"{{"_meta":{{"progressToken":{token}}}}}"#);
            format!(r#"{{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{params}}}"#)
        };
        for token in ["true", "1.5", "1e3", "null", "{}", "[]"] {
            check_rejected(&request_with(token), Some("1"), "-32602 `params._meta.progressToken` must");
        }
        let found = |token: &str| match message(request_with(token).as_bytes()).unwrap() {
            ClientMessage::Request(request) => request.meta.progress_token(),
            other => panic!("{other:?}"),
        };
        for token in ["0", "-7", "12345678901234567890123", r#""""#, r#""a\u0041""#] {
            assert_eq!(found(token), Some(serde_json::from_str::<Value>(token).unwrap()), "{token}");
        }
        assert_eq!(found(&format!("\"{}\"", "x".repeat(TOKEN_LIMIT_BYTES))), None, "it is too long");
    }

    #[test]
    fn invalid_parameters_are_reported_with_the_id() {
        let request_with =
            |params: &str| format!(r#"{{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{params}}}"#);
        check_rejected(&request_with("[]"), Some("1"), "-32602 `params` must");
        check_rejected(&request_with("7"), Some("1"), "-32602 `params` must");
        check_rejected(&request_with(r#"{"_meta":[]}"#), Some("1"), "-32602 `params._meta` must");
        let duplicate = request_with(r#"{"_meta":{"progressToken":1,"progressToken":2}}"#);
        check_rejected(&duplicate, Some("1"), "-32602 `params._meta`: duplicate field `progressToken`");
        let duplicate = request_with(r#"{"name":"a","n\u0061me":"b"}"#);
        check_rejected(&duplicate, Some("1"), "-32602 `params`: duplicate field `name`");
    }

    #[test]
    fn arguments_are_limited_regardless_of_the_rest_of_a_message() {
        let list = "1,".repeat(ARGUMENT_VALUE_LIMIT);
        let params = format!(r#"{{"name":"a","arguments":{{"list":[{list}1]}}}}"#);
        for before in
            ["", r#""more":"\ud800","#, &format!("\"more\":{}{},", "[".repeat(200), "]".repeat(200))]
        {
            let body =
                format!(r#"{{"jsonrpc":"2.0","id":1,{before}"method":"tools/call","params":{params}}}"#);
            check_rejected(&body, Some("1"), "-32602 expected at most 100000 values");
        }
    }

    #[test]
    fn an_id_is_returned_as_it_was_written() {
        for id in ["0", "-7", "123456789012345678901234567890", r#""""#, r#""a\u0041\"b""#] {
            let body = format!(r#" {{"id" : {id} , "jsonrpc":"2.0","method":"pi\u006eg","params":null}} "#);
            match message(body.as_bytes()).unwrap() {
                ClientMessage::Request(request) => {
                    assert_eq!((request.id.as_json(), request.method.as_ref()), (id, "ping"));
                }
                other => panic!("{other:?}"),
            }
        }
    }

    #[test]
    fn notifications_and_responses_are_distinguished_from_requests() {
        let notification = br#"{"jsonrpc":"2.0","method":"notifications/initialized","params":7}"#;
        assert!(matches!(message(notification), Ok(ClientMessage::Notification(_))));
        assert!(matches!(
            message(br#"{"jsonrpc":"2.0","id":1,"result":{}}"#),
            Ok(ClientMessage::Response { result: Ok(_), .. })
        ));
        let error_response = br#"{"jsonrpc":"2.0","id":"a","error":{"code":1,"message":"no"}}"#;
        assert!(matches!(message(error_response), Ok(ClientMessage::Response { result: Err(_), .. })));
    }

    #[test]
    fn a_cancellation_has_an_id_and_perhaps_a_reason() {
        for (params, expected) in [
            (r#"{"requestId":7,"reason":"enough"}"#, Some(("7", Some("enough")))),
            (r#"{"requestId":"a","reason":7}"#, Some((r#""a""#, None))),
            (r#"{"reason":"enough"}"#, None),
            ("[]", None),
        ] {
            let body = format!(r#"{{"jsonrpc":"2.0","method":"notifications/cancelled","params":{params}}}"#);
            let Ok(ClientMessage::Notification(notification)) = message(body.as_bytes()) else {
                panic!("{body}")
            };
            let found = notification.cancelled();
            let found = found.as_ref().map(|(id, reason)| (id.as_json(), reason.as_deref()));
            assert_eq!(found, expected, "{body}");
        }
    }

    #[track_caller]
    fn check(body: &str, expected: Result<&[&str], &str>) {
        let found = batch(body.as_bytes()).unwrap();
        let found = found.map(|members| members.into_iter().map(RawValue::get).collect::<Vec<_>>());
        match (found, expected) {
            (Ok(found), Ok(expected)) => assert_eq!(found, expected),
            (Err(found), Err(expected)) => assert!(found.to_string().contains(expected), "{found}"),
            (found, _) => panic!("{found:?}"),
        }
    }

    #[test]
    fn a_batch_is_split_into_messages() {
        assert!(batch(b"{}").is_none() && batch(b"").is_none() && batch(b" 7").is_none());
        check(r#" [ {"a": 1 }, 7 , [] ]"#, Ok(&[r#"{"a": 1 }"#, "7", "[]"]));
        check("[]", Err("needs a message"));
        check("[{}", Err("not JSON"));
        check("[{}] x", Err("not JSON"));
        let batch_of = |count: usize| format!("[{}]", vec!["{}"; count].join(","));
        check(&batch_of(BATCH_LIMIT), Ok(&vec!["{}"; BATCH_LIMIT]));
        check(&batch_of(BATCH_LIMIT + 1), Err("at most 100"));
        // The limit of values applies to all messages together: the request buffer counts no more.
        let long = format!("[{}0]", "0,".repeat(ARGUMENT_VALUE_LIMIT / 2));
        check(&format!("[{long}]"), Ok(&[&long]));
        check(&format!("[{long},{long}]"), Err("at most 100000 values"));
    }

    proptest! {
        #[test]
        fn any_bytes_are_a_message_or_an_error(body in proptest::collection::vec(any::<u8>(), 0..200)) {
            let _ = message(&body);
        }

        #[test]
        fn any_text_is_a_message_or_an_error(
            id in "\\PC{0,8}|[0-9]{1,40}|\"[a-z\\\\]{0,4}\"",
            params in "\\PC{0,8}|\\{\"(name|_meta|arguments|cursor)\":[\\[\\]{}0-9a\"]{0,8}\\}",
        ) {
            let body = format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"tools/call","params":{params}}}"#);
            if let Ok(ClientMessage::Request(request)) = message(body.as_bytes()) {
                let _ = (request.name(), request.arguments());
                prop_assert!(serde_json::from_str::<Value>(request.id.as_json()).is_ok());
            }
        }
    }
}
