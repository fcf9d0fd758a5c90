//! From a body to one JSON-RPC message, borrowed from its bytes.
//!
//! Nothing here becomes a tree: ids and parameters stay raw text, so that an id is echoed as it came and the
//! arguments of a call are parsed once, by the call.

use std::{borrow::Cow, fmt, marker::PhantomData};

use serde::{
    Deserialize, Deserializer,
    de::{self, MapAccess, Visitor, value::MapAccessDeserializer},
};
use serde_json::{error::Category, value::RawValue};

use super::{params::Params, refusal::Refusal};
use crate::tool::{ARGUMENT_VALUE_LIMIT, values_within};

/// One message of a client.
#[derive(Debug)]
#[expect(clippy::large_enum_variant, reason = "nearly all of them are requests, and none is kept")]
pub(super) enum Message<'a> {
    Request(Request<'a>),
    /// Nobody waits for an answer.
    Notification,
    /// An answer to a question of ours: its result or its error.
    Response {
        id: Id<'a>,
        answered: Result<&'a RawValue, &'a RawValue>,
    },
}

/// A request that waits for an answer.
#[derive(Debug)]
pub(super) struct Request<'a> {
    pub(super) id: Id<'a>,
    pub(super) method: Cow<'a, str>,
    pub(super) params: Params<'a>,
    /// All of it, as it came.
    pub(super) message: &'a [u8],
}

/// A request's id as the client wrote it: a JSON string or an integer of any size.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Id<'a>(&'a str);

/// Why a body is no message, and its id and method if those could be read.
#[derive(Debug)]
pub(super) struct Rejected<'a> {
    pub(super) id: Option<Id<'a>>,
    pub(super) method: Option<Cow<'a, str>>,
    pub(super) refusal: Refusal,
}

/// A request as all well-made ones are, found in one pass.
#[derive(Deserialize)]
struct WellMade<'a> {
    #[serde(borrow)]
    jsonrpc: Cow<'a, str>,
    #[serde(borrow)]
    id: &'a RawValue,
    #[serde(borrow)]
    method: Cow<'a, str>,
    #[serde(borrow, default, deserialize_with = "object")]
    params: Params<'a>,
}

/// Any message, or what may be wrong with it.
#[derive(Deserialize)]
struct Envelope<'a> {
    #[serde(borrow, default, deserialize_with = "present")]
    jsonrpc: Option<&'a RawValue>,
    #[serde(borrow, default, deserialize_with = "present")]
    id: Option<&'a RawValue>,
    #[serde(borrow, default, deserialize_with = "present")]
    method: Option<&'a RawValue>,
    #[serde(borrow, default, deserialize_with = "present")]
    params: Option<&'a RawValue>,
    #[serde(borrow, default, deserialize_with = "present")]
    result: Option<&'a RawValue>,
    #[serde(borrow, default, deserialize_with = "present")]
    error: Option<&'a RawValue>,
}

/// Reads an object, and nothing else, in the pass in which what is round it is read; `null` is the same as none.
///
/// What is derived by `serde` would also take a list of the members' values.
pub(super) fn object<'de, D, T>(deserializer: D) -> Result<T, D::Error>
where
    D: Deserializer<'de>,
    T: Deserialize<'de> + Default,
{
    struct Object<T>(PhantomData<T>);

    impl<'de, T: Deserialize<'de> + Default> Visitor<'de> for Object<T> {
        type Value = T;

        fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
            formatter.write_str("an object")
        }

        fn visit_none<E: de::Error>(self) -> Result<T, E> {
            Ok(T::default())
        }

        fn visit_some<D: Deserializer<'de>>(self, deserializer: D) -> Result<T, D::Error> {
            deserializer.deserialize_map(self)
        }

        fn visit_map<A: MapAccess<'de>>(self, members: A) -> Result<T, A::Error> {
            T::deserialize(MapAccessDeserializer::new(members))
        }
    }

    deserializer.deserialize_option(Object(PhantomData))
}

/// Tells a member that is `null` from one that is not there.
pub(super) fn present<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<&'de RawValue>, D::Error> {
    <&RawValue>::deserialize(deserializer).map(Some)
}

#[derive(Deserialize)]
struct Text<'a>(#[serde(borrow)] Cow<'a, str>);

pub(super) fn text(raw: &RawValue) -> Option<Cow<'_, str>> {
    serde_json::from_str(raw.get()).ok().map(|Text(text)| text)
}

/// Reads the one message of a body.
///
/// # Errors
///
/// [`Rejected`] when it is not JSON, not one JSON-RPC 2.0 message, or has parameters that no method takes.
pub(super) fn message(body: &[u8]) -> Result<Message<'_>, Rejected<'_>> {
    match well_made(body) {
        Some(request) => Ok(Message::Request(request)),
        None => any_message(body),
    }
}

/// The request that nearly all bodies are. `None` where it is another message, or something is wrong with it.
fn well_made(body: &[u8]) -> Option<Request<'_>> {
    if !body.trim_ascii_start().starts_with(b"{") {
        return None;
    }
    let WellMade { jsonrpc, id, method, params } = serde_json::from_slice(body).ok()?;
    let id = Id::of(id).ok()?;
    let is_taken = jsonrpc == "2.0" && values_within(body, ARGUMENT_VALUE_LIMIT).is_ok();
    is_taken.then_some(Request { id, method, params, message: body })
}

/// The same for every message; slower, and in words where it is none.
fn any_message(body: &[u8]) -> Result<Message<'_>, Rejected<'_>> {
    let envelope = envelope(body).map_err(|refusal| Rejected { id: None, method: None, refusal })?;
    let method = envelope.method.and_then(text);
    // The id first: whatever else is wrong, the client then learns which of its requests was meant.
    let id = envelope.id.map(Id::of).transpose();
    let id = id.map_err(|refusal| Rejected { id: None, method: method.clone(), refusal })?;
    let reject = |refusal| Rejected { id, method: method.clone(), refusal };
    if envelope.jsonrpc.and_then(text).as_deref() != Some("2.0") {
        return Err(reject(Refusal::NotAMessage("`jsonrpc` must be \"2.0\"".into())));
    }
    values_within(body, ARGUMENT_VALUE_LIMIT)
        .map_err(|many| reject(Refusal::Params(many.to_string().into())))?;
    match (envelope.method, id) {
        (Some(_), Some(id)) => {
            let refusal = || reject(Refusal::NotAMessage("`method` must be a string".into()));
            let method = method.clone().ok_or_else(refusal)?;
            let params = Params::of(envelope.params).map_err(reject)?;
            Ok(Message::Request(Request { id, method, params, message: body }))
        }
        (Some(_), None) => Ok(Message::Notification),
        (None, Some(id)) => match (envelope.result, envelope.error) {
            (_, Some(error)) => Ok(Message::Response { id, answered: Err(error) }),
            (Some(result), None) => Ok(Message::Response { id, answered: Ok(result) }),
            (None, None) => Err(reject(Refusal::NotAMessage("a message needs a `method`".into()))),
        },
        (None, None) => Err(reject(Refusal::NotAMessage("a message needs a `method`".into()))),
    }
}

/// Whether a client waits for an answer to this.
pub(super) fn wants_answer(body: &[u8]) -> bool {
    match message(body) {
        Ok(Message::Request(_)) | Err(_) => true,
        Ok(Message::Notification | Message::Response { .. }) => false,
    }
}

/// What a notification tells of; `None` when that is no text.
pub(super) fn notified(notification: &[u8]) -> Option<Cow<'_, str>> {
    envelope(notification).ok()?.method.and_then(text)
}

/// The request that a notification cancels; `None` when it is another one, or says none.
pub(super) fn cancelled(notification: &[u8]) -> Option<Id<'_>> {
    #[derive(Deserialize)]
    struct Cancelled<'a> {
        #[serde(borrow, rename = "requestId")]
        request: &'a RawValue,
    }
    let envelope = envelope(notification).ok()?;
    envelope.method.and_then(text).filter(|method| method == "notifications/cancelled")?;
    let params: Cancelled<'_> = serde_json::from_str(envelope.params?.get()).ok()?;
    Id::of(params.request).ok()
}

fn envelope(body: &[u8]) -> Result<Envelope<'_>, Refusal> {
    let not_json = |error: &serde_json::Error| Refusal::NotJson(error.to_string());
    match body.trim_ascii_start().first() {
        Some(b'{') => serde_json::from_slice(body).map_err(|error| {
            // A member that is there twice is noticed before the end: is the rest JSON at all?
            match serde_json::from_slice::<&RawValue>(body) {
                Err(error) => not_json(&error),
                Ok(_) if error.classify() == Category::Data => {
                    Refusal::NotAMessage(without_place(&error).into())
                }
                Ok(_) => not_json(&error),
            }
        }),
        _ => Err(match serde_json::from_slice::<&RawValue>(body) {
            Err(error) => not_json(&error),
            Ok(raw) if raw.get().starts_with('[') => Refusal::NotAMessage(
                "batches are taken in revision 2025-03-26 only: send each message in a request of its own"
                    .into(),
            ),
            Ok(_) => Refusal::NotAMessage("a message is a JSON object".into()),
        }),
    }
}

/// serde_json's words without its "at line 1 column 7", which counts from the start of a part.
pub(super) fn without_place(error: &serde_json::Error) -> String {
    let text = error.to_string();
    text.split(" at line ").next().unwrap_or(&text).to_owned()
}

impl<'a> Id<'a> {
    fn of(raw: &'a RawValue) -> Result<Self, Refusal> {
        let token = raw.get();
        let is_integer = {
            let digits = token.strip_prefix('-').unwrap_or(token);
            !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit())
        };
        if token.starts_with('"') || is_integer {
            Ok(Self(token))
        } else {
            Err(Refusal::NotAMessage("`id` must be a string or an integer".into()))
        }
    }

    /// The same as a value, digit by digit.
    pub(super) fn to_value(self) -> serde_json::Value {
        serde_json::from_str(self.0).expect("an id was read as JSON")
    }

    /// The JSON token.
    pub(super) fn as_json(self) -> &'a str {
        self.0
    }

    /// The text, if it is one.
    pub(super) fn as_text(self) -> Option<String> {
        serde_json::from_str(self.0).ok()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::{super::revision::Revision, *};

    #[track_caller]
    fn check_rejected(body: &str, id: Option<&str>, expected: &str) {
        let rejected = message(body.as_bytes()).unwrap_err();
        assert_eq!(rejected.id.map(Id::as_json), id, "{body}");
        let found =
            format!("{} {}", rejected.refusal.to_error(Revision::R2025_11_25).code.0, rejected.refusal);
        assert!(found.starts_with(expected), "{body}: {found}");
    }

    #[test]
    fn what_is_not_json_is_a_parse_error() {
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
    fn what_is_json_but_no_message_is_an_invalid_request() {
        check_rejected("[]", None, "-32600 batches");
        check_rejected(r#"[{"jsonrpc":"2.0","id":1,"method":"ping"}]"#, None, "-32600 batches");
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
        check_rejected(r#"{"jsonrpc":"2.0","id":1}"#, Some("1"), "-32600 a message needs");
    }

    #[test]
    fn parameters_that_no_method_takes_are_told_with_the_id() {
        let with =
            |params: &str| format!(r#"{{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{params}}}"#);
        check_rejected(&with("[]"), Some("1"), "-32602 `params` must");
        check_rejected(&with("7"), Some("1"), "-32602 `params` must");
        check_rejected(
            &with(r#"{"name":"a","name":"b"}"#),
            Some("1"),
            "-32602 `params`: duplicate field `name`",
        );
        check_rejected(&with(r#"{"_meta":[]}"#), Some("1"), "-32602 `params._meta` must");
    }

    #[test]
    fn an_id_is_kept_as_it_was_written() {
        for id in ["0", "-7", "123456789012345678901234567890", r#""""#, r#""a\u0041\"b""#] {
            let body = format!(r#" {{"id" : {id} , "jsonrpc":"2.0","method":"pi\u006eg","params":null}} "#);
            match message(body.as_bytes()).unwrap() {
                Message::Request(request) => {
                    assert_eq!((request.id.as_json(), request.method.as_ref()), (id, "ping"));
                }
                other => panic!("{other:?}"),
            }
        }
    }

    #[test]
    fn notifications_and_answers_are_told_from_requests() {
        let notification = br#"{"jsonrpc":"2.0","method":"notifications/initialized","params":7}"#;
        assert!(matches!(message(notification), Ok(Message::Notification)));
        assert!(matches!(
            message(br#"{"jsonrpc":"2.0","id":1,"result":{}}"#),
            Ok(Message::Response { answered: Ok(_), .. })
        ));
        let refused = br#"{"jsonrpc":"2.0","id":"a","error":{"code":1,"message":"no"}}"#;
        assert!(matches!(message(refused), Ok(Message::Response { answered: Err(_), .. })));
    }

    proptest! {
        #[test]
        fn any_bytes_are_a_message_or_an_error(body in proptest::collection::vec(any::<u8>(), 0..200)) {
            let _ = message(&body);
        }

        #[test]
        fn any_text_in_any_place_is_a_message_or_an_error(
            id in "\\PC{0,8}|[0-9]{1,40}|\"[a-z\\\\]{0,4}\"",
            params in "\\PC{0,8}|\\{\"(name|_meta|arguments|cursor)\":[\\[\\]{}0-9a\"]{0,8}\\}",
        ) {
            let body = format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"tools/call","params":{params}}}"#);
            if let Ok(Message::Request(request)) = message(body.as_bytes()) {
                let _ = (request.params.name(), request.params.arguments(), request.params.cursor());
                prop_assert!(serde_json::from_str::<serde_json::Value>(request.id.as_json()).is_ok());
            }
        }
    }
}
