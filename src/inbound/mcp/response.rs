//! Messages to clients: JSON-RPC responses, as JSON or as server-sent events (SSE), and the messages before
//! them.
//!
//! - [`RpcResponse`]: a JSON-RPC response.
//! - [`ResponseForm`]: the representation that an HTTP client accepts.
//! - [`event_stream`]: a stream of messages that ends with the result, with keep-alive comments.
//! - [`MessageSender`]: queue of messages that are sent before the result.
//! - [`OpenRequests`]: open requests from glossator to legacy clients, which send each response as
//!   a separate message.

use std::{
    collections::HashMap,
    convert::Infallible,
    future::{Future, ready},
    pin::{Pin, pin},
    sync::Arc,
    time::Duration,
};

use axum::{body::Body, response::IntoResponse};
use bytes::Bytes;
use futures_util::{
    FutureExt, StreamExt,
    future::FusedFuture,
    stream::{once, unfold},
};
use http::{HeaderMap, HeaderValue, Response, StatusCode, header};
use parking_lot::Mutex;
use rmcp::model::ErrorData;
use serde::Serialize;
use serde_json::{Map, Value, json, value::RawValue};
use tokio::{
    sync::{mpsc, oneshot},
    time::{sleep, timeout},
};

use super::{ErrorKind, LoggedRequest, Rejection, Replicas, Revision, RpcError, RpcId, SESSION_ID};
use crate::inbound::{accepts, media_ranges};
use crate::model::{ToolResult, media_type, write_result_fields};
use crate::upstream::OnDrop;

/// A JSON-RPC response, with its HTTP status and headers.
#[derive(Debug, Default)]
pub(super) struct RpcResponse {
    pub(super) status: StatusCode,
    /// The JSON-RPC message.
    pub(super) body: Vec<u8>,
    /// The id of the session that the response opens, if any.
    pub(super) session: Option<String>,
    /// The value of `WWW-Authenticate`, if any.
    pub(super) challenge: Option<HeaderValue>,
}

/// Cache hints of a result: the TTL, and the cache scope.
pub(super) type CacheHints = (Duration, &'static str);

/// Response or intermediate value, or else an error that becomes a JSON-RPC error.
pub(super) type RpcResult<T = RpcResponse> = Result<T, RpcError>;

impl RpcResponse {
    /// Builds a message with an id, which is raw JSON, and one other member.
    pub(super) fn new(id: Option<&str>, member: &str, value: &impl Serialize) -> Self {
        let id = id.map_or_else(String::new, |id| format!("\"id\":{id},"));
        let value = serde_json::to_string(value).expect("a message has string keys only");
        let body = format!("{{\"jsonrpc\":\"2.0\",{id}\"{member}\":{value}}}").into_bytes();
        Self { body, ..Self::default() }
    }

    /// Builds the response with a JSON-RPC error.
    pub(super) fn error(id: Option<RpcId<'_>>, revision: Revision, error: &RpcError) -> Self {
        let id = id.map(RpcId::as_json).or_else(|| revision.has_null_id().then_some("null"));
        let (status, challenge) = (error.status(revision), error.challenge.as_deref().cloned());
        Self { status, challenge, ..Self::new(id, "error", &error.to_error(revision)) }
    }

    /// Combines the responses of a batch, at least one, into one message.
    pub(super) fn batch(responses: Vec<Self>) -> Self {
        let bodies: Vec<Vec<u8>> = responses.into_iter().map(|response| response.body).collect();
        let body = [b"[".as_slice(), &bodies.join(b",".as_slice()), b"]"].concat();
        Self { body, ..Self::default() }
    }

    /// Converts the response to HTTP.
    pub(super) fn into_response(self, form: ResponseForm) -> Response<Body> {
        // Only a response with status 200 is sent as a stream: clients parse the body of any other as JSON.
        let mut response = if form == ResponseForm::EventStream && self.status == StatusCode::OK {
            as_stream(Body::from(as_event(None, &self.body)))
        } else {
            ([(header::CONTENT_TYPE, JSON)], Body::from(self.body)).into_response()
        };
        *response.status_mut() = self.status;
        if let Some(challenge) = self.challenge {
            response.headers_mut().insert(header::WWW_AUTHENTICATE, challenge);
        }
        if let Some(session) = self.session {
            let id = HeaderValue::from_str(&session).expect("a token is letters, digits, `-` and `_`");
            response.headers_mut().insert(SESSION_ID, id);
        }
        response
    }
}

/// Converts serialized JSON to a raw value.
pub(super) fn raw_json(json: Vec<u8>) -> Box<RawValue> {
    let value = String::from_utf8(json).ok().and_then(|text| RawValue::from_string(text).ok());
    value.expect("what is written here is JSON")
}

/// Writes the result of a call as a JSON object, with the content blocks of the client's revision.
pub(super) fn write_tool_result(
    revision: Revision,
    mut result: ToolResult,
    meta: &Map<String, Value>,
    out: &mut Vec<u8>,
) {
    result.content.iter_mut().for_each(|content| revision.adapt_content(content));
    out.push(b'{');
    if let Some(result_type) = revision.result_type() {
        out.extend_from_slice(format!("\"resultType\":\"{result_type}\",").as_bytes());
    }
    write_result_fields(&result, revision.structured_content_support(), meta, out);
    out.push(b'}');
}

/// Builds the response to a request that is rejected before its message is read: a JSON-RPC error without an
/// id, which MCP allows.
pub(super) fn rejected(request: LoggedRequest<'_>, rejection: &Rejection) -> Response<Body> {
    request.log_rejection(rejection);
    let error = ErrorKind::NOT_A_MESSAGE.error(rejection.to_string());
    let response = RpcResponse::error(None, Revision::R2026_07_28, &error);
    let response = RpcResponse { status: rejection.status, ..response };
    let mut response = response.into_response(ResponseForm::Json);
    rejection.add_header(response.headers_mut());
    response
}

/// Builds a 405 for an unsupported method. The body explains the endpoint to a user with a browser.
pub(super) fn wrong_method(methods: &'static str) -> Response<Body> {
    const EXPLANATION: &str = "This is an MCP endpoint (Streamable HTTP): it accepts JSON-RPC messages by \
                               POST. Configure this URL in an MCP client.\n";
    let headers = [(header::ALLOW, methods), (header::CONTENT_TYPE, "text/plain; charset=utf-8")];
    (StatusCode::METHOD_NOT_ALLOWED, headers, Body::from(EXPLANATION)).into_response()
}

/// Representation of a response, selected by `Accept`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ResponseForm {
    /// One JSON document.
    Json,
    /// One JSON document, or a stream if messages precede the result.
    Either,
    /// A stream even if no messages precede the result, for clients that accept nothing else.
    EventStream,
}

const JSON: &str = "application/json";
const EVENT_STREAM: &str = "text/event-stream";

/// Checks the media type of the body, and selects the form of the response by `Accept` (content negotiation).
///
/// # Errors
///
/// [`Rejection`] if the body is not JSON, or if the client accepts neither representation.
pub(super) fn form(headers: &HeaderMap) -> Result<ResponseForm, Rejection> {
    let mut types = headers.get_all(header::CONTENT_TYPE).iter();
    let is_json = |value: &HeaderValue| media_type(value).as_deref() == Some(JSON);
    if !headers.contains_key(header::CONTENT_TYPE) || !types.all(is_json) {
        let message = "the body of a message must be JSON: send `Content-Type: application/json`";
        return Err(Rejection::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, "media type of the body", message));
    }
    match (accepts(headers, JSON), accepts(headers, EVENT_STREAM)) {
        (true, true) => Ok(ResponseForm::Either),
        (true, false) => Ok(ResponseForm::Json),
        (false, true) => Ok(ResponseForm::EventStream),
        (false, false) if media_ranges(headers).next().is_none() => Ok(ResponseForm::Json),
        (false, false) => {
            let message = "responses are `application/json` or `text/event-stream`; `Accept` allows neither";
            Err(Rejection::new(StatusCode::NOT_ACCEPTABLE, "accepted media types", message))
        }
    }
}

/// Checks that the client accepts an event stream, the only representation of a response to `GET`.
///
/// # Errors
///
/// [`Rejection`] if `Accept` excludes event streams.
pub(super) fn check_stream_accepted(headers: &HeaderMap) -> Result<(), Rejection> {
    if accepts(headers, EVENT_STREAM) || media_ranges(headers).next().is_none() {
        return Ok(());
    }
    let message = "the response is `text/event-stream`, which `Accept` does not allow";
    Err(Rejection::new(StatusCode::NOT_ACCEPTABLE, "accepted media types", message))
}

/// Interval and bytes of the keep-alive comments in a stream of server-sent events (SSE). Without them,
/// proxies close idle connections.
pub(super) const KEEP_ALIVE: (Duration, &[u8]) = (Duration::from_secs(15), b": keep-alive\n\n");

/// The future response to a message; `None` if the message gets no response.
pub(super) type PendingResponse = Pin<Box<dyn Future<Output = Option<RpcResponse>> + Send>>;

/// Builds a response that is a stream of server-sent events (SSE): the message `first`, the queued messages,
/// and then the result of `call`. If `first` is `None`, the stream begins with a comment, which shows proxies
/// that it is open. Dropping the stream cancels the call.
pub(super) fn event_stream(
    first: Option<Bytes>,
    receiver: MessageReceiver,
    call: PendingResponse,
) -> Response<Body> {
    let first = first.map_or(Bytes::from_static(b": open\n\n"), |first| as_event(None, &first).into());
    let events = (receiver, call.fuse(), None);
    let events = unfold(events, |(mut receiver, mut pending, mut last)| async move {
        let event = loop {
            let is_pending = !pending.is_terminated();
            tokio::select! {
                biased;
                response = &mut pending, if is_pending => {
                    // The queue is closed, but the messages in it are sent before the response.
                    receiver.close();
                    last = response.map(|response| as_event(None, &response.body).into());
                }
                Some(message) = receiver.recv() => break as_event(None, &message).into(),
                () = sleep(KEEP_ALIVE.0), if is_pending => break Bytes::from_static(KEEP_ALIVE.1),
                else => break last.take()?,
            }
        };
        Some((event, (receiver, pending, last)))
    });
    as_stream(Body::from_stream(once(ready(first)).chain(events).map(Ok::<_, Infallible>)))
}

/// Runs `work`, and forwards the messages that it adds to the queue. All messages are forwarded before this
/// function returns. `None` if `send` fails, or if `work` has no result: no further messages of a cancelled
/// request are sent (2026-07-28, stdio, "Cancellation").
pub(super) async fn forward_messages<T, S: Future<Output = Option<()>>>(
    work: impl Future<Output = Option<T>>,
    mut receiver: MessageReceiver,
    send: impl Fn(Bytes) -> S,
) -> Option<T> {
    let mut work = pin!(work);
    let result = loop {
        tokio::select! {
            biased;
            result = &mut work => break result?,
            Some(message) = receiver.recv() => send(message).await?,
        }
    };
    while let Ok(message) = receiver.try_recv() {
        send(message).await?;
    }
    Some(result)
}

/// Builds a response with a stream of server-sent events, which proxies must not buffer (MCP 2026-07-28,
/// Streamable HTTP, "Receiving Messages").
pub(super) fn as_stream(events: Body) -> Response<Body> {
    ([("content-type", EVENT_STREAM), ("x-accel-buffering", "no")], events).into_response()
}

/// Formats a server-sent event (SSE). JSON may contain line breaks, and each line needs its own `data:`;
/// clients join the lines again.
pub(super) fn as_event(id: Option<&str>, json: &[u8]) -> Vec<u8> {
    let mut event = Vec::with_capacity(json.len() + id.map_or(64, |id| 64 + id.len()));
    if let Some(id) = id {
        event.extend_from_slice(format!("id: {id}\n").as_bytes());
    }
    event.extend_from_slice(b"event: message\n");
    for line in json.split(|byte| matches!(byte, b'\n' | b'\r')) {
        event.extend_from_slice(b"data: ");
        event.extend_from_slice(line);
        event.push(b'\n');
    }
    event.push(b'\n');
    event
}

/// Capacity of a [`MessageSender`], in messages.
const QUEUED_MESSAGES_LIMIT: usize = 64;

/// Queue of messages to a client that precede the result of its request. Clones share the queue. `None` if
/// the client accepts only the result.
#[derive(Debug, Clone)]
pub(super) struct MessageSender(pub(super) Option<mpsc::Sender<Bytes>>);

/// Receiving end of a [`MessageSender`]. A transport sends the messages to the client in order.
pub(super) type MessageReceiver = mpsc::Receiver<Bytes>;

/// Reason why a message to a client was not sent, or a request to it has no result.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub(super) enum ClientRequestError {
    /// The client can't receive requests.
    #[error("the client can't receive requests on this connection")]
    NoChannel,
    /// The client does not read its stream, or too many requests are open.
    #[error("too many requests to clients are open, or this client does not read its stream")]
    TooManyOpen,
    /// The client did not respond in time.
    #[error("no response came within {0:?}")]
    Timeout(Duration),
    /// The client responded with a JSON-RPC error.
    #[error("the client responded with an error: {} ({})", .0.message, .0.code.0)]
    ClientError(ErrorData),
}

impl MessageSender {
    /// Creates a queue for a client that reads a stream, and the receiving end.
    pub(super) fn new() -> (Self, MessageReceiver) {
        let (sender, receiver) = mpsc::channel(QUEUED_MESSAGES_LIMIT);
        (Self(Some(sender)), receiver)
    }

    /// Sends a notification. The notification is lost if there is no stream, or if the client reads too
    /// slowly: no result depends on it.
    pub(super) fn notify(&self, method: &str, params: &Value) {
        if let Some(sender) = &self.0 {
            // An error means that the queue is full or closed.
            let _ = sender.try_send(notification(method, params));
        }
    }

    /// Sends a notification as soon as the queue has capacity.
    ///
    /// # Errors
    ///
    /// [`ClientRequestError::NoChannel`] if the client no longer reads, or accepts no stream.
    pub(super) async fn send(&self, method: &str, params: &Value) -> Result<(), ClientRequestError> {
        let sender = self.0.as_ref().ok_or(ClientRequestError::NoChannel)?;
        sender.send(notification(method, params)).await.map_err(|_| ClientRequestError::NoChannel)
    }
}

fn notification(method: &str, params: &Value) -> Bytes {
    json!({ "jsonrpc": "2.0", "method": method, "params": params }).to_string().into()
}

/// Maximum number of open requests to clients. Each occupies the memory of a call until the user responds.
const OPEN_REQUESTS_LIMIT: usize = 2048;

/// Response of a client to a request from glossator: its result or its error.
pub(super) type ClientResult = Result<Box<RawValue>, ErrorData>;

/// The open requests of this process to clients.
#[derive(Debug)]
pub(super) struct OpenRequests {
    /// The other replicas, which can decrypt the ids of these requests.
    pub(super) replicas: Arc<Replicas>,
    /// Requests by id: the client whose response is accepted, if clients have identities, and the sender of
    /// the response to the waiting call.
    waiting: Mutex<HashMap<String, WaitingRequest>>,
}

type WaitingRequest = (Option<Box<str>>, oneshot::Sender<ClientResult>);

impl OpenRequests {
    pub(super) fn new(replicas: Arc<Replicas>) -> Self {
        Self { replicas, waiting: Mutex::default() }
    }

    /// Sends a request to a legacy client, and waits for the response. Only a response from `owner` is
    /// accepted.
    ///
    /// # Errors
    ///
    /// [`ClientRequestError`] if the client sends no result.
    pub(super) async fn send_request(
        &self,
        sender: &MessageSender,
        owner: Option<&str>,
        method: &str,
        params: &Value,
        timeout_after: Duration,
    ) -> Result<Box<RawValue>, ClientRequestError> {
        let queue = sender.0.as_ref().ok_or(ClientRequestError::NoChannel)?;
        let id = self.replicas.issue_id();
        let (response_sender, response_receiver) = oneshot::channel();
        {
            let mut waiting = self.waiting.lock();
            if waiting.len() >= OPEN_REQUESTS_LIMIT {
                return Err(ClientRequestError::TooManyOpen);
            }
            waiting.insert(id.clone(), (owner.map(Box::from), response_sender));
        }
        let _withdrawal = OnDrop::new(|| drop(self.waiting.lock().remove(&id)));
        let message = json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params });
        queue.try_send(message.to_string().into()).map_err(|error| match error {
            mpsc::error::TrySendError::Full(_) => ClientRequestError::TooManyOpen,
            mpsc::error::TrySendError::Closed(_) => ClientRequestError::NoChannel,
        })?;
        match timeout(timeout_after, response_receiver).await {
            Ok(Ok(result)) => result.map_err(ClientRequestError::ClientError),
            Ok(Err(_)) => Err(ClientRequestError::NoChannel),
            Err(_) => {
                let error = ClientRequestError::Timeout(timeout_after);
                // The request is cancelled, so that the client can close its form (2025-11-25, Lifecycle,
                // "Timeouts").
                let params = json!({ "requestId": id, "reason": error.to_string() });
                sender.notify("notifications/cancelled", &params);
                Err(error)
            }
        }
    }

    /// Passes a response to the call that waits for it. Returns `false` if no call of this client waits for a
    /// response with this id.
    pub(super) fn complete(&self, id: &str, owner: Option<&str>, result: ClientResult) -> bool {
        let mut waiting = self.waiting.lock();
        if waiting.get(id).is_none_or(|(expected, _)| expected.as_deref() != owner) {
            return false;
        }
        waiting.remove(id).is_some_and(|(_, sender)| sender.send(result).is_ok())
    }
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    #[track_caller]
    fn check_form(accept: &[&'static str], expected: Result<ResponseForm, u16>) {
        let mut headers = HeaderMap::new();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("Application/JSON; charset=utf-8"));
        for value in accept {
            headers.append(header::ACCEPT, HeaderValue::from_static(value));
        }
        assert_eq!(form(&headers).map_err(|rejection| rejection.status.as_u16()), expected, "{accept:?}");
    }

    #[test]
    fn json_is_preferred_and_a_stream_is_sent_if_only_that_is_accepted() {
        check_form(&["application/json, text/event-stream"], Ok(ResponseForm::Either));
        check_form(&["text/event-stream", "application/json"], Ok(ResponseForm::Either));
        check_form(&["*/*"], Ok(ResponseForm::Either));
        check_form(&["application/json"], Ok(ResponseForm::Json));
        check_form(&["text/html, application/*;q=0.8"], Ok(ResponseForm::Json));
        check_form(&[], Ok(ResponseForm::Json));
        check_form(&[""], Ok(ResponseForm::Json));
        check_form(&["text/event-stream"], Ok(ResponseForm::EventStream));
        check_form(&["text/event-stream, application/json;q=0"], Ok(ResponseForm::EventStream));
        check_form(&["application/json;q=0, */*"], Ok(ResponseForm::EventStream));
        check_form(&["*/*, text/*;q=0"], Ok(ResponseForm::Json));
        check_form(&["text/event-stream, text/*;q=0"], Ok(ResponseForm::EventStream));
        check_form(&["text/html"], Err(406));
        check_form(&["application/json; Q=0.000"], Err(406));
    }

    #[test]
    fn a_body_of_another_type_is_not_read() {
        for value in ["text/plain", "application/jsonp", "application/x-www-form-urlencoded", ""] {
            let headers = HeaderMap::from_iter([(header::CONTENT_TYPE, HeaderValue::from_static(value))]);
            assert_eq!(form(&headers).unwrap_err().status, 415, "{value}");
        }
        assert_eq!(form(&HeaderMap::new()).unwrap_err().status, 415);
    }
}

#[cfg(test)]
mod stream_tests {
    use http_body_util::BodyExt;

    use super::*;
    use crate::inbound::mcp::message_parser::{ClientMessage, message};

    async fn text_of(response: Response<Body>) -> String {
        let bytes = response.into_body().collect().await.unwrap().to_bytes();
        String::from_utf8(bytes.to_vec()).unwrap()
    }

    fn response() -> Option<RpcResponse> {
        let body = br#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#;
        let Ok(ClientMessage::Request(request)) = message(body) else { unreachable!() };
        Some(RpcResponse::new(Some(request.id.as_json()), "result", &json!({})))
    }

    #[tokio::test]
    async fn notifications_precede_the_result_in_order() {
        let (sender, receiver) = MessageSender::new();
        sender.notify("notifications/one", &json!({ "n": 1 }));
        let response = event_stream(
            Some("{}".into()),
            receiver,
            Box::pin(async move {
                sender.notify("notifications/two", &json!({}));
                response()
            }),
        );
        assert_eq!(response.headers()["content-type"], "text/event-stream");
        assert_eq!(response.headers()["x-accel-buffering"], "no");
        let text = text_of(response).await;
        let methods = text.lines().filter_map(|line| line.strip_prefix("data: "));
        let methods: Vec<&str> = methods
            .map(|data| ["one", "two", "result", "{}"].into_iter().find(|word| data.contains(word)).unwrap())
            .collect();
        assert_eq!(methods, ["{}", "one", "two", "result"], "{text}");
        assert!(text.ends_with("\n\n") && text.contains(r#""result":{}"#), "{text}");
    }

    #[tokio::test(start_paused = true)]
    async fn a_stream_on_which_nothing_happens_is_kept_alive() {
        let (sender, receiver) = MessageSender::new();
        let response = event_stream(
            Some("{}".into()),
            receiver,
            Box::pin(async move {
                sleep(3 * KEEP_ALIVE.0 - Duration::from_secs(1)).await;
                drop(sender);
                response()
            }),
        );
        assert_eq!(text_of(response).await.matches(": keep-alive\n\n").count(), 2);
    }
}

#[cfg(test)]
mod client_request_tests {
    use super::*;
    use crate::crypto::TokenCipher;

    const TEST_TIMEOUT: Duration = Duration::from_secs(5);

    #[tokio::test(start_paused = true)]
    async fn a_request_to_the_client_is_sent_and_its_response_awaited() {
        let replicas = Replicas { cipher: TokenCipher::random(), own_url: None, tls: None };
        let open_requests = Arc::new(OpenRequests::new(Arc::new(replicas)));
        let (sender, mut receiver) = MessageSender::new();
        let requests = Arc::clone(&open_requests);
        let request = tokio::spawn(async move {
            let result = requests.send_request(&sender, None, "roots/list", &json!({}), TEST_TIMEOUT).await;
            (result.map(|result| result.get().to_owned()), sender)
        });
        let sent: Value = serde_json::from_slice(&receiver.recv().await.unwrap()).unwrap();
        assert_eq!(sent["method"], "roots/list");
        let id = sent["id"].as_str().unwrap();
        assert!(!open_requests.complete("another", None, Ok(RawValue::NULL.to_owned())));
        assert!(open_requests.complete(
            id,
            None,
            serde_json::from_str(r#"{"roots": [ ]}"#).map_err(|_| unreachable!())
        ));
        assert!(!open_requests.complete(id, None, Ok(RawValue::NULL.to_owned())), "one answer to a question");
        let (result, sender) = request.await.unwrap();
        assert_eq!(result.unwrap(), r#"{"roots": [ ]}"#);

        let client_error = ErrorData::invalid_request("no", None);
        let no_params = json!({});
        let (result, ()) = tokio::join!(
            open_requests.send_request(&sender, None, "roots/list", &no_params, TEST_TIMEOUT),
            async {
                let sent: Value = serde_json::from_slice(&receiver.recv().await.unwrap()).unwrap();
                open_requests.complete(sent["id"].as_str().unwrap(), None, Err(client_error));
            }
        );
        assert_eq!(
            result.unwrap_err(),
            ClientRequestError::ClientError(ErrorData::invalid_request("no", None))
        );

        assert_eq!(
            open_requests
                .send_request(&sender, None, "roots/list", &json!({}), TEST_TIMEOUT)
                .await
                .unwrap_err(),
            ClientRequestError::Timeout(TEST_TIMEOUT)
        );
        let [sent, cancelled]: [Value; 2] = [receiver.recv().await, receiver.recv().await]
            .map(|sent| serde_json::from_slice(&sent.unwrap()).unwrap());
        assert_eq!(cancelled["method"], "notifications/cancelled");
        assert_eq!(cancelled["params"]["requestId"], sent["id"]);
        drop(receiver);
        assert_eq!(
            open_requests.send_request(&sender, None, "x", &json!({}), TEST_TIMEOUT).await.unwrap_err(),
            ClientRequestError::NoChannel
        );
        let closed = MessageSender(None);
        assert_eq!(
            open_requests.send_request(&closed, None, "x", &json!({}), TEST_TIMEOUT).await.unwrap_err(),
            ClientRequestError::NoChannel
        );
    }
}
