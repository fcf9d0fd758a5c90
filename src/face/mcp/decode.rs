//! From an HTTP request to one JSON-RPC message, borrowed from the body's bytes.
//!
//! Nothing here becomes a tree: ids and parameters stay raw text, so that an id is echoed as it came and the
//! arguments of a call are parsed once, by the call.

use std::borrow::Cow;

use http::{HeaderMap, StatusCode, header};
use serde::{Deserialize, Deserializer};
use serde_json::{error::Category, value::RawValue};

use super::{refusal::Refusal, revision::missing_meta};
use crate::route::LogLevel;

/// How long a token for progress may be, in bytes: it is repeated in every message.
const TOKEN_LIMIT_BYTES: usize = 1024;

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
    pub(super) meta: Meta<'a>,
}

/// A request's id as the client wrote it: a JSON string or an integer of any size.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Id<'a>(&'a str);

/// Why a body is no message, and its id if that could be read.
#[derive(Debug)]
pub(super) struct Rejected<'a> {
    pub(super) id: Option<Id<'a>>,
    pub(super) refusal: Refusal,
}

/// The form in which a client wants its answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Form {
    /// One JSON document.
    Json,
    /// One JSON document, or a stream where something is to be said before the result.
    Either,
    /// A stream of one event, for clients that accept nothing else.
    EventStream,
}

/// What a request may have in `params`.
#[derive(Debug, Default, Deserialize)]
pub(super) struct Params<'a> {
    #[serde(borrow, default, deserialize_with = "present")]
    _meta: Option<&'a RawValue>,
    #[serde(borrow, default, deserialize_with = "present")]
    name: Option<&'a RawValue>,
    #[serde(borrow, default, deserialize_with = "present")]
    arguments: Option<&'a RawValue>,
    #[serde(borrow, default, deserialize_with = "present")]
    cursor: Option<&'a RawValue>,
    #[serde(borrow, default, deserialize_with = "present", rename = "protocolVersion")]
    protocol_version: Option<&'a RawValue>,
    #[serde(borrow, default, deserialize_with = "present")]
    capabilities: Option<&'a RawValue>,
    #[serde(borrow, default, deserialize_with = "present")]
    level: Option<&'a RawValue>,
    #[serde(borrow, default, deserialize_with = "present")]
    notifications: Option<&'a RawValue>,
    #[serde(borrow, default, deserialize_with = "present", rename = "taskId")]
    task_id: Option<&'a RawValue>,
    #[serde(borrow, default, deserialize_with = "present")]
    uri: Option<&'a RawValue>,
    #[serde(borrow, default, deserialize_with = "present", rename = "ref")]
    reference: Option<&'a RawValue>,
    #[serde(borrow, default, deserialize_with = "present")]
    argument: Option<&'a RawValue>,
    #[serde(borrow, default, deserialize_with = "present")]
    context: Option<&'a RawValue>,
    #[serde(borrow, default, deserialize_with = "present", rename = "inputResponses")]
    input_responses: Option<&'a RawValue>,
    #[serde(borrow, default, deserialize_with = "present", rename = "requestState")]
    request_state: Option<&'a RawValue>,
}

/// What an argument is completed of.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Reference<'a> {
    /// A prompt, by its name.
    Prompt(Cow<'a, str>),
    /// A resource template, or a resource, by its URI.
    Resource(Cow<'a, str>),
}

#[derive(Deserialize)]
struct WrittenReference<'a> {
    #[serde(borrow, rename = "type")]
    kind: Cow<'a, str>,
    #[serde(borrow, default)]
    name: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    uri: Option<Cow<'a, str>>,
}

#[derive(Deserialize)]
struct WrittenArgument<'a> {
    #[serde(borrow)]
    name: Cow<'a, str>,
    #[serde(borrow)]
    value: Cow<'a, str>,
}

#[derive(Deserialize)]
struct WrittenContext {
    #[serde(default)]
    arguments: Option<serde_json::Map<String, serde_json::Value>>,
}

/// What a request of the newer era says of itself.
#[derive(Debug, Default, Deserialize)]
pub(super) struct Meta<'a> {
    #[serde(
        borrow,
        default,
        deserialize_with = "present",
        rename = "io.modelcontextprotocol/protocolVersion"
    )]
    protocol_version: Option<&'a RawValue>,
    #[serde(
        borrow,
        default,
        deserialize_with = "present",
        rename = "io.modelcontextprotocol/clientCapabilities"
    )]
    client_capabilities: Option<&'a RawValue>,
    #[serde(borrow, default, deserialize_with = "present", rename = "io.modelcontextprotocol/logLevel")]
    log_level: Option<&'a RawValue>,
    #[serde(borrow, default, deserialize_with = "present", rename = "progressToken")]
    progress_token: Option<&'a RawValue>,
    #[serde(borrow, default, deserialize_with = "present")]
    traceparent: Option<&'a RawValue>,
    #[serde(borrow, default, deserialize_with = "present")]
    tracestate: Option<&'a RawValue>,
}

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

/// Tells a member that is `null` from one that is not there.
fn present<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<&'de RawValue>, D::Error> {
    <&RawValue>::deserialize(deserializer).map(Some)
}

#[derive(Deserialize)]
struct Text<'a>(#[serde(borrow)] Cow<'a, str>);

fn text(raw: &RawValue) -> Option<Cow<'_, str>> {
    serde_json::from_str(raw.get()).ok().map(|Text(text)| text)
}

/// What the client sends and what it takes.
///
/// # Errors
///
/// [`Unfit`], to be answered with HTTP 415 or 406.
pub(super) fn form(headers: &HeaderMap) -> Result<Form, Unfit> {
    if !is_json(headers) {
        return Err(Unfit::ContentType);
    }
    let (mut json, mut stream, mut anything_said) = (false, false, false);
    for range in
        headers.get_all(header::ACCEPT).iter().flat_map(|value| value.as_bytes().split(|b| *b == b','))
    {
        let Some(range) = std::str::from_utf8(range).ok().map(str::trim).filter(|range| !range.is_empty())
        else {
            continue;
        };
        anything_said = true;
        let accepted = Accepted::of(range);
        json |= accepted.json;
        stream |= accepted.stream;
    }
    match (json, stream) {
        (true, true) => Ok(Form::Either),
        (true, false) => Ok(Form::Json),
        (false, true) => Ok(Form::EventStream),
        (false, false) if anything_said => Err(Unfit::Accept),
        (false, false) => Ok(Form::Json),
    }
}

/// Whether the client takes a stream of events, and says so by name.
pub(super) fn takes_stream(headers: &HeaderMap) -> bool {
    let values = headers.get_all(header::ACCEPT).iter();
    let mut ranges = values.filter_map(|value| value.to_str().ok()).flat_map(|value| value.split(','));
    ranges.any(|range| !range.contains("*/*") && Accepted::of(range.trim()).stream)
}

/// A request that says it is not for us. The text reaches the client.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(super) enum Unfit {
    #[error("the body of a message must be JSON: send `Content-Type: application/json`")]
    ContentType,
    #[error("answers are `application/json` or `text/event-stream`; `Accept` allows neither")]
    Accept,
}

impl Unfit {
    pub(super) fn status(self) -> StatusCode {
        match self {
            Self::ContentType => StatusCode::UNSUPPORTED_MEDIA_TYPE,
            Self::Accept => StatusCode::NOT_ACCEPTABLE,
        }
    }
}

fn is_json(headers: &HeaderMap) -> bool {
    let mut values = headers.get_all(header::CONTENT_TYPE).iter().peekable();
    let one_at_least = values.peek().is_some();
    one_at_least
        && values.all(|value| {
            let essence = value.to_str().ok().and_then(|text| text.split(';').next());
            essence.is_some_and(|essence| essence.trim().eq_ignore_ascii_case("application/json"))
        })
}

/// What one media range of `Accept` lets us send (RFC 9110, section 12.5.1).
struct Accepted {
    json: bool,
    stream: bool,
}

impl Accepted {
    fn of(range: &str) -> Self {
        let mut parts = range.split(';').map(str::trim);
        let essence = parts.next().unwrap_or_default();
        let refused = parts.any(|parameter| match parameter.split_once('=') {
            Some((name, value)) => name.trim().eq_ignore_ascii_case("q") && value.trim().parse() == Ok(0.0),
            None => false,
        });
        let is_one_of =
            |names: [&str; 3]| !refused && names.iter().any(|name| essence.eq_ignore_ascii_case(name));
        Self {
            json: is_one_of(["application/json", "application/*", "*/*"]),
            stream: is_one_of(["text/event-stream", "text/*", "*/*"]),
        }
    }
}

/// Reads the one message of a body.
///
/// # Errors
///
/// [`Rejected`] when it is not JSON, not one JSON-RPC 2.0 message, or has parameters that no method takes.
pub(super) fn message(body: &[u8]) -> Result<Message<'_>, Rejected<'_>> {
    let envelope = envelope(body).map_err(|refusal| Rejected { id: None, refusal })?;
    // The id first: whatever else is wrong, the client then learns which of its requests was meant.
    let id = envelope.id.map(Id::of).transpose().map_err(|refusal| Rejected { id: None, refusal })?;
    let reject = |refusal| Rejected { id, refusal };
    if envelope.jsonrpc.and_then(text).as_deref() != Some("2.0") {
        return Err(reject(Refusal::NotAMessage("`jsonrpc` must be \"2.0\"".into())));
    }
    match (envelope.method, id) {
        (Some(method), Some(id)) => {
            let method = text(method)
                .ok_or_else(|| reject(Refusal::NotAMessage("`method` must be a string".into())))?;
            let params = Params::of(envelope.params).map_err(reject)?;
            let meta = params.meta().map_err(reject)?;
            Ok(Message::Request(Request { id, method, params, meta }))
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
fn without_place(error: &serde_json::Error) -> String {
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

impl<'a> Params<'a> {
    fn of(raw: Option<&'a RawValue>) -> Result<Self, Refusal> {
        match raw.map(RawValue::get) {
            None | Some("null") => Ok(Self::default()),
            Some(object) if object.starts_with('{') => serde_json::from_str(object)
                .map_err(|error| Refusal::Params(format!("`params`: {}", without_place(&error)).into())),
            Some(_) => Err(Refusal::Params("`params` must be an object".into())),
        }
    }

    fn meta(&self) -> Result<Meta<'a>, Refusal> {
        match self._meta.map(RawValue::get) {
            None | Some("null") => Ok(Meta::default()),
            Some(object) if object.starts_with('{') => serde_json::from_str(object).map_err(|error| {
                Refusal::Params(format!("`params._meta`: {}", without_place(&error)).into())
            }),
            Some(_) => Err(Refusal::Params("`params._meta` must be an object".into())),
        }
    }

    /// `tools/call`: which tool.
    pub(super) fn name(&self) -> Result<Cow<'a, str>, Refusal> {
        required_text(self.name, "name")
    }

    /// `tools/call`: with what. None at all is the same as none in an object.
    pub(super) fn arguments(&self) -> Result<serde_json::Map<String, serde_json::Value>, Refusal> {
        match self.arguments.map(RawValue::get) {
            None | Some("null") => Ok(serde_json::Map::new()),
            Some(object) if object.starts_with('{') => serde_json::from_str(object).map_err(|error| {
                Refusal::Params(format!("`params.arguments`: {}", without_place(&error)).into())
            }),
            Some(_) => Err(Refusal::Params("`params.arguments` must be an object".into())),
        }
    }

    /// `resources/read` and the like: which resource.
    pub(super) fn uri(&self) -> Result<Cow<'a, str>, Refusal> {
        required_text(self.uri, "uri")
    }

    /// A request that was answered with questions: the answers to them.
    pub(super) fn input_responses(
        &self,
    ) -> Result<Option<serde_json::Map<String, serde_json::Value>>, Refusal> {
        match self.input_responses.map(RawValue::get) {
            None => Ok(None),
            Some(object) if object.starts_with('{') => {
                serde_json::from_str(object).map(Some).map_err(|error| {
                    Refusal::Params(format!("`params.inputResponses`: {}", without_place(&error)).into())
                })
            }
            Some(_) => Err(Refusal::Params("`params.inputResponses` must be an object".into())),
        }
    }

    /// The same: the state that was given out with the questions.
    pub(super) fn request_state(&self) -> Result<Option<Cow<'a, str>>, Refusal> {
        self.request_state.map(|state| required_text(Some(state), "requestState")).transpose()
    }

    /// `tools/list`: where to go on.
    pub(super) fn cursor(&self) -> Result<Option<Cow<'a, str>>, Refusal> {
        match self.cursor.map(RawValue::get) {
            None | Some("null") => Ok(None),
            Some(_) => required_text(self.cursor, "cursor").map(Some),
        }
    }

    /// `completion/complete`: of what an argument is completed.
    pub(super) fn reference(&self) -> Result<Reference<'a>, Refusal> {
        const HELP: &str = "`params.ref` must be `{\"type\": \"ref/prompt\", \"name\": …}` or \
                            `{\"type\": \"ref/resource\", \"uri\": …}`";
        let written = self.reference.and_then(object_of);
        match written {
            Some(WrittenReference { kind, name: Some(name), .. }) if kind == "ref/prompt" => {
                Ok(Reference::Prompt(name))
            }
            Some(WrittenReference { kind, uri: Some(uri), .. }) if kind == "ref/resource" => {
                Ok(Reference::Resource(uri))
            }
            Some(_) | None => Err(Refusal::Params(HELP.into())),
        }
    }

    /// `completion/complete`: the argument's name, and what of it has been typed.
    pub(super) fn typed_argument(&self) -> Result<(Cow<'a, str>, Cow<'a, str>), Refusal> {
        let written = self.argument.and_then(object_of);
        let WrittenArgument { name, value } = written.ok_or_else(|| {
            Refusal::Params("`params.argument` must be `{\"name\": …, \"value\": …}`, both strings".into())
        })?;
        Ok((name, value))
    }

    /// `completion/complete`: the arguments that are there already (since 2025-06-18).
    pub(super) fn context_arguments(&self) -> Result<serde_json::Map<String, serde_json::Value>, Refusal> {
        let Some(raw) = self.context.filter(|raw| raw.get() != "null") else { return Ok(Default::default()) };
        let written = object_of::<WrittenContext>(raw);
        match written.map(|context| context.arguments.unwrap_or_default()) {
            Some(arguments) if arguments.values().all(serde_json::Value::is_string) => Ok(arguments),
            _ => Err(Refusal::Params("`params.context.arguments` must be an object of strings".into())),
        }
    }

    /// `initialize`: what the client is capable of. What is no object is taken for nothing: no client depends on it.
    pub(super) fn capabilities(&self) -> serde_json::Map<String, serde_json::Value> {
        object(self.capabilities)
    }

    /// `tasks/…`: which task.
    pub(super) fn task_id(&self) -> Result<Cow<'a, str>, Refusal> {
        required_text(self.task_id, "taskId")
    }

    /// `logging/setLevel`: which lines.
    pub(super) fn level(&self) -> Result<LogLevel, Refusal> {
        level_of(self.level, "params.level")
    }

    /// `subscriptions/listen`: of what.
    pub(super) fn notifications<T: Deserialize<'a>>(&self) -> Result<T, Refusal> {
        let raw = self.notifications.map_or("null", RawValue::get);
        if !raw.starts_with('{') {
            return Err(Refusal::Params("`params.notifications` must be an object".into()));
        }
        serde_json::from_str(raw).map_err(|error| {
            Refusal::Params(format!("`params.notifications`: {}", without_place(&error)).into())
        })
    }

    /// `initialize`: what the client would speak.
    pub(super) fn protocol_version(&self) -> Result<Cow<'a, str>, Refusal> {
        required_text(self.protocol_version, "protocolVersion")
    }
}

fn object(raw: Option<&RawValue>) -> serde_json::Map<String, serde_json::Value> {
    raw.and_then(|raw| serde_json::from_str(raw.get()).ok()).unwrap_or_default()
}

/// What an object says; an array is none, even where its items are in the right order.
fn object_of<'a, T: Deserialize<'a>>(raw: &'a RawValue) -> Option<T> {
    if raw.get().starts_with('{') { serde_json::from_str(raw.get()).ok() } else { None }
}

fn required_text<'a>(raw: Option<&'a RawValue>, key: &str) -> Result<Cow<'a, str>, Refusal> {
    raw.and_then(text).ok_or_else(|| Refusal::Params(format!("`params.{key}` must be a string").into()))
}

fn level_of(raw: Option<&RawValue>, key: &str) -> Result<LogLevel, Refusal> {
    let wrong = || Refusal::Params(format!("`{key}` must be one of {}", LogLevel::NAMES.join(", ")).into());
    raw.and_then(text).and_then(|text| text.parse().ok()).ok_or_else(wrong)
}

impl<'a> Meta<'a> {
    /// Which log lines the client wants of this request.
    pub(super) fn log_level(&self) -> Result<Option<LogLevel>, Refusal> {
        self.log_level.map(|raw| level_of(Some(raw), "io.modelcontextprotocol/logLevel")).transpose()
    }

    /// By what the client knows the progress of this request: a text or a whole number; anything else is none.
    pub(super) fn progress_token(&self) -> Option<serde_json::Value> {
        let token: serde_json::Value = serde_json::from_str(self.progress_token?.get()).ok()?;
        let whole = |number: &serde_json::Number| {
            let text = number.to_string();
            text.len() <= TOKEN_LIMIT_BYTES && !text.contains(['.', 'e', 'E'])
        };
        let fits = match &token {
            serde_json::Value::String(text) => text.len() <= TOKEN_LIMIT_BYTES,
            serde_json::Value::Number(number) => whole(number),
            _ => false,
        };
        fits.then_some(token)
    }

    /// The trace that the request belongs to: `traceparent` and `tracestate`, not yet checked.
    pub(super) fn trace(&self) -> (Option<Cow<'a, str>>, Option<Cow<'a, str>>) {
        (self.traceparent.and_then(text), self.tracestate.and_then(text))
    }

    pub(super) fn protocol_version(&self) -> Result<Option<Cow<'a, str>>, Refusal> {
        let wrong = || Refusal::Params("`io.modelcontextprotocol/protocolVersion` must be a string".into());
        self.protocol_version.map(|raw| text(raw).ok_or_else(wrong)).transpose()
    }

    /// What the client is capable of, as it says with each request of the newer era.
    pub(super) fn capabilities(&self) -> serde_json::Map<String, serde_json::Value> {
        object(self.client_capabilities)
    }

    /// Whether the client says what it is capable of, as the newer era requires.
    pub(super) fn check_capabilities(&self) -> Result<(), Refusal> {
        match self.client_capabilities.map(RawValue::get) {
            Some(object) if object.starts_with('{') => Ok(()),
            Some(_) => {
                Err(Refusal::Params("`io.modelcontextprotocol/clientCapabilities` must be an object".into()))
            }
            None => Err(missing_meta("clientCapabilities")),
        }
    }
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;
    use proptest::prelude::*;

    use super::{super::revision::Revision, *};

    #[track_caller]
    fn check_form(accept: &[&'static str], expected: Result<Form, Unfit>) {
        let mut headers = HeaderMap::new();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("Application/JSON; charset=utf-8"));
        for value in accept {
            headers.append(header::ACCEPT, HeaderValue::from_static(value));
        }
        assert_eq!(form(&headers), expected, "{accept:?}");
    }

    #[test]
    fn json_is_preferred_and_a_stream_given_to_those_who_take_nothing_else() {
        check_form(&["application/json, text/event-stream"], Ok(Form::Either));
        check_form(&["text/event-stream", "application/json"], Ok(Form::Either));
        check_form(&["*/*"], Ok(Form::Either));
        check_form(&["application/json"], Ok(Form::Json));
        check_form(&["text/html, application/*;q=0.8"], Ok(Form::Json));
        check_form(&[], Ok(Form::Json));
        check_form(&[""], Ok(Form::Json));
        check_form(&["text/event-stream"], Ok(Form::EventStream));
        check_form(&["text/event-stream, application/json;q=0"], Ok(Form::EventStream));
        check_form(&["text/html"], Err(Unfit::Accept));
        check_form(&["application/json; Q=0.000"], Err(Unfit::Accept));
    }

    #[test]
    fn a_body_of_another_type_is_not_read() {
        for value in ["text/plain", "application/jsonp", "application/x-www-form-urlencoded", ""] {
            let headers = HeaderMap::from_iter([(header::CONTENT_TYPE, HeaderValue::from_static(value))]);
            assert_eq!(form(&headers), Err(Unfit::ContentType), "{value}");
        }
        assert_eq!(form(&HeaderMap::new()), Err(Unfit::ContentType));
    }

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
