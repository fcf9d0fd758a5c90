//! MCP server over Streamable HTTP.
//!
//! An [`HttpLink`] has one session and sends requests in it. The sections below are: opening a session,
//! messages to the server, messages from the server, and the stream of notifications.

use std::sync::{
    Arc, Mutex, PoisonError, Weak,
    atomic::{AtomicU64, Ordering},
};

use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, header, uri::PathAndQuery};
use http_body_util::BodyExt;
use serde_json::{Map, Value, value::RawValue};
use tokio::{
    runtime::Handle,
    sync::watch,
    task::AbortHandle,
    time::{Duration, Instant, sleep, timeout},
};
use tracing::{debug, info};

use super::{
    McpRequest, McpResponse, McpUpstream,
    jsonrpc::{self, JsonRpcError, RequiredAction},
    lifecycle::{self, NegotiatedSession, PER_REQUEST, ServerCapabilities},
    not_mcp,
    param_headers::ParamHeaders,
    sse::{EventParser, is_event_stream},
    whole_response,
};
use crate::{
    model::{UpstreamResponse, encode_header_text},
    route::{HttpRequest, PathBase, UpstreamName},
    upstream::{
        ProgressSender, UpstreamError,
        buffer::BodyAccount,
        error::QuotedSource,
        http::{HttpSettings, HttpUpstream, IncomingResponse, ResponseBody, ResponseScrubber},
    },
};

/// Longest message that opens a session, and longest event that is not for a request.
const MESSAGE_LIMIT_BYTES: usize = 1 << 20;
/// Longest time for a server to end a stream after the response, so that its connection can be reused.
const END_TIMEOUT: Duration = Duration::from_secs(1);
/// Timeout of a notification, and of ending a session.
const NOTIFY_TIMEOUT: Duration = Duration::from_secs(1);
/// Backoff before a stream that ended is reopened: initial and maximum.
const BACKOFF: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(60));

const PROTOCOL_VERSION: HeaderName = HeaderName::from_static("mcp-protocol-version");
const SESSION_ID: HeaderName = HeaderName::from_static("mcp-session-id");
const METHOD: HeaderName = HeaderName::from_static("mcp-method");
const NAME: HeaderName = HeaderName::from_static("mcp-name");

/// HTTP client of one server, and the session with it.
#[derive(Debug)]
pub(super) struct HttpLink {
    http: HttpUpstream,
    session: tokio::sync::Mutex<Option<Arc<Session>>>,
    ids: AtomicU64,
    changed: watch::Sender<()>,
    pub(super) param_headers: ParamHeaders,
}

/// Session with the server, until the server forgets it.
#[derive(Debug)]
struct Session {
    agreed: NegotiatedSession,
    id: Option<HeaderValue>,
    /// Task that reads notifications.
    listener: Mutex<Option<AbortHandle>>,
}

/// Reason why a request has no response.
enum Failure {
    /// The server does not know the session, and has not processed the request.
    SessionLost,
    /// The server opens no session and refuses with an HTTP status.
    Refused(UpstreamResponse),
    /// Any other error.
    Error(UpstreamError),
}

impl From<UpstreamError> for Failure {
    fn from(error: UpstreamError) -> Self {
        Self::Error(error)
    }
}

impl Session {
    fn new(agreed: NegotiatedSession, id: Option<HeaderValue>) -> Self {
        Self { agreed, id, listener: Mutex::default() }
    }

    /// Headers of every message of the session.
    fn headers(&self) -> HeaderMap {
        let mut headers = HeaderMap::new();
        headers.insert(PROTOCOL_VERSION, HeaderValue::from_static(self.agreed.revision));
        headers.extend(self.id.clone().map(|id| (SESSION_ID, id)));
        headers
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        let listener = self.listener.get_mut().unwrap_or_else(PoisonError::into_inner);
        listener.take().inspect(AbortHandle::abort);
    }
}

impl Drop for HttpLink {
    /// Ends the session in the background. [`close`](Self::close) also waits for it.
    fn drop(&mut self) {
        if let Some(session) = self.session.get_mut().take().filter(|session| session.id.is_some())
            && let Ok(runtime) = Handle::try_current()
        {
            let (http, request) =
                (self.http.clone(), request(Method::DELETE, session.headers(), Bytes::new()));
            runtime.spawn(timeout(NOTIFY_TIMEOUT, async move { http.open(request, deadline()).await }));
        }
    }
}

impl HttpLink {
    pub(super) fn new(settings: HttpSettings, changed: watch::Sender<()>) -> Arc<Self> {
        let (http, session) = (HttpUpstream::new(settings), tokio::sync::Mutex::default());
        let param_headers = ParamHeaders::default();
        Arc::new(Self { http, session, ids: AtomicU64::new(1), changed, param_headers })
    }

    fn name(&self) -> &UpstreamName {
        self.http.name()
    }

    /// Sends a request and waits for its response. If the server has forgotten the session, opens a new one,
    /// once.
    pub(super) async fn request(
        self: &Arc<Self>,
        outgoing: &McpRequest<'_>,
    ) -> Result<McpResponse, UpstreamError> {
        match self.try_request(outgoing).await {
            Ok(response) => Ok(response),
            Err(Failure::Refused(response)) => {
                Ok(McpResponse::HttpError(UpstreamResponse { rejects_session: true, ..response }))
            }
            Err(Failure::Error(error)) => Err(error),
            Err(Failure::SessionLost) => Err(not_mcp(self.name(), "it forgets every session immediately")),
        }
    }

    async fn try_request(self: &Arc<Self>, outgoing: &McpRequest<'_>) -> Result<McpResponse, Failure> {
        let session = self.session().await?;
        match self.request_in_session(&session, outgoing).await {
            Err(Failure::SessionLost) => {}
            result => return result,
        }
        info!(upstream = %self.name(), "MCP session lost, opening another");
        self.drop_session(&session).await;
        let session = self.session().await?;
        // A server that lost its sessions may have restarted with other tools.
        if !outgoing.method.ends_with("/list") {
            self.changed.send_replace(());
        }
        self.request_in_session(&session, outgoing).await
    }

    async fn request_in_session(
        self: &Arc<Self>,
        session: &Arc<Session>,
        outgoing: &McpRequest<'_>,
    ) -> Result<McpResponse, Failure> {
        let id = self.ids.fetch_add(1, Ordering::Relaxed);
        let params = lifecycle::params(outgoing, id, session.agreed.is_per_request());
        let body = jsonrpc::request(id, outgoing.method, params);
        let mut guard = CancelOnDrop { link: self, session, id, is_over: false };
        let headers = self.param_headers.headers_of(outgoing);
        let post = post_request(Some(session), &headers, body, outgoing.method, outgoing.name);
        let response = self.http.open_for(&outgoing.context(), post, deadline()).await;
        let result = match response {
            Ok(response) => self.read_response(session, response, id, outgoing).await,
            Err(error) => Err(error.into()),
        };
        guard.is_over = true;
        result
    }

    /// Returns what was negotiated with the server, opening a session if necessary.
    pub(super) async fn agreed(self: &Arc<Self>) -> Result<NegotiatedSession, UpstreamError> {
        match self.session().await {
            Ok(session) => Ok(session.agreed),
            Err(Failure::Error(error)) => Err(error),
            Err(Failure::Refused(_) | Failure::SessionLost) => {
                Err(not_mcp(self.name(), "it starts no session"))
            }
        }
    }

    /// Returns the session, opening one if necessary.
    async fn session(self: &Arc<Self>) -> Result<Arc<Session>, Failure> {
        let mut open = self.session.lock().await;
        if let Some(session) = &*open {
            return Ok(session.clone());
        }
        let after = McpUpstream::START_TIMEOUT;
        let begun = timeout(after, self.open_session()).await;
        let begun = begun.map_err(|_| UpstreamError::Deadline { upstream: self.name().clone(), after })??;
        let session = Arc::new(begun);
        if !session.agreed.declared.changes().is_empty() {
            let task = tokio::spawn(listen(Arc::downgrade(self), Arc::downgrade(&session)));
            *session.listener.lock().unwrap_or_else(PoisonError::into_inner) = Some(task.abort_handle());
        }
        info!(upstream = %self.name(), revision = session.agreed.revision, "MCP server initialized");
        *open = Some(session.clone());
        Ok(session)
    }

    /// Drops a session, unless another was opened already.
    async fn drop_session(&self, session: &Arc<Session>) {
        let mut open = self.session.lock().await;
        if open.as_ref().is_some_and(|now| Arc::ptr_eq(now, session)) {
            *open = None;
        }
    }

    /// Ends the session, so that the server releases its resources.
    pub(super) async fn close(&self) {
        let Some(session) = self.session.lock().await.take() else { return };
        if session.id.is_some() {
            let sent = self.http.open(request(Method::DELETE, session.headers(), Bytes::new()), deadline());
            if !matches!(timeout(NOTIFY_TIMEOUT, sent).await, Ok(Ok(_))) {
                debug!(upstream = %self.name(), "ending the MCP session failed");
            }
        }
    }
}

/// Cancels a request when its future is dropped before the response. In revision 2026-07-28, closing the
/// stream cancels, and no notification is sent.
struct CancelOnDrop<'a> {
    link: &'a Arc<HttpLink>,
    session: &'a Arc<Session>,
    id: u64,
    is_over: bool,
}

impl Drop for CancelOnDrop<'_> {
    fn drop(&mut self) {
        if !self.is_over && !self.session.agreed.is_per_request() && Handle::try_current().is_ok() {
            self.link.notify(self.session, jsonrpc::cancelled(self.id));
        }
    }
}

// Opening a session.

/// Result of `server/discover` or `initialize`, and the session id.
type Handshake = (Box<RawValue>, Option<HeaderValue>);

impl HttpLink {
    /// Opens a session with the newest revision. If the server does not support it, falls back to
    /// `initialize` (MCP 2026-07-28, Streamable HTTP, "Backward Compatibility").
    async fn open_session(self: &Arc<Self>) -> Result<Session, Failure> {
        let discovered = self.introduce("server/discover", Map::new(), true).await?;
        if let Ok((result, _)) = &discovered
            && let Ok(agreed) = NegotiatedSession::from_discover(result)
        {
            return Ok(Session::new(agreed, None));
        }
        let newer = discovered.err().filter(|refused| refused.code == JsonRpcError::UNSUPPORTED_REVISION);
        let initialized = self.introduce("initialize", lifecycle::initialize(), false).await?;
        let (result, id) = initialized
            .map_err(|refused| not_mcp(self.name(), QuotedSource::from(newer.unwrap_or(refused))))?;
        let agreed = NegotiatedSession::from_initialize(&result).map_err(|why| not_mcp(self.name(), why))?;
        let (session, method) = (Session::new(agreed, id), "notifications/initialized");
        let message = jsonrpc::notification(method, Map::new());
        let response = self.post(Some(&session), &HeaderMap::new(), message, method, None).await?;
        let _ = response.read_whole(MESSAGE_LIMIT_BYTES, BodyAccount::none(), None).await;
        Ok(session)
    }

    /// Sends a request that opens a session. The inner error is the server's refusal.
    async fn introduce(
        self: &Arc<Self>,
        method: &'static str,
        params: Map<String, Value>,
        is_per_request: bool,
    ) -> Result<Result<Handshake, JsonRpcError>, Failure> {
        let (id, headers) = (self.ids.fetch_add(1, Ordering::Relaxed), HeaderMap::new());
        let limit_bytes = MESSAGE_LIMIT_BYTES;
        let outgoing =
            McpRequest { method, params, name: None, headers: &headers, limit_bytes, upstream_call: None };
        let agreed = NegotiatedSession { revision: PER_REQUEST, declared: ServerCapabilities::default() };
        let session = Arc::new(Session::new(agreed, None));
        let body = jsonrpc::request(id, method, lifecycle::params(&outgoing, id, is_per_request));
        let own = is_per_request.then_some(&*session);
        let response = self.post(own, &headers, body, method, None).await?;
        let session_id = response.headers().get(&SESSION_ID).cloned();
        match self.read_response(&session, response, id, &outgoing).await {
            Ok(McpResponse::Message(text)) => {
                let outcome = whole_response(self.name(), &text)?.outcome;
                Ok(outcome.map(|result| (result.to_owned(), session_id)))
            }
            Ok(McpResponse::HttpError(upstream_response)) if is_final(upstream_response.status) => {
                Err(Failure::Refused(upstream_response))
            }
            Ok(McpResponse::HttpError(upstream_response)) => {
                let message = format!("it responded to `{method}` with status {}", upstream_response.status);
                let text = std::str::from_utf8(&upstream_response.body).unwrap_or_default();
                Ok(Err(jsonrpc::error_in(text).unwrap_or(JsonRpcError {
                    code: 0,
                    message,
                    is_synthetic: true,
                })))
            }
            Err(Failure::Error(error @ UpstreamError::NotMcp { .. })) if is_per_request => {
                Ok(Err(JsonRpcError { code: 0, message: error.to_string(), is_synthetic: true }))
            }
            Err(failure) => Err(failure),
        }
    }
}

/// Whether a status has the same meaning in all revisions: the client is not allowed (401, 403, 407), sends
/// too many requests (429), or the server fails.
fn is_final(status: StatusCode) -> bool {
    status.is_server_error() || matches!(status.as_u16(), 401 | 403 | 407 | 429)
}

// Messages to the server.

impl HttpLink {
    /// Sends a message that is not the request of a call.
    async fn post(
        &self,
        session: Option<&Session>,
        more: &HeaderMap,
        body: Bytes,
        method: &str,
        name: Option<&str>,
    ) -> Result<IncomingResponse, UpstreamError> {
        self.http.open(post_request(session, more, body, method, name), deadline()).await
    }

    /// Sends a message that has no response, in the background.
    fn notify(self: &Arc<Self>, session: &Arc<Session>, body: Bytes) {
        let (link, session) = (self.clone(), session.clone());
        tokio::spawn(async move {
            let headers = HeaderMap::new();
            let sent = link.post(Some(&session), &headers, body, "notifications/cancelled", None);
            if let Ok(Ok(response)) = timeout(NOTIFY_TIMEOUT, sent).await {
                let read = response.read_whole(MESSAGE_LIMIT_BYTES, BodyAccount::none(), None);
                let _ = timeout(END_TIMEOUT, read).await;
            }
        });
    }
}

/// Deadline for selecting an endpoint. Calls have their own timeouts for the response.
fn deadline() -> Instant {
    Instant::now() + McpUpstream::START_TIMEOUT
}

/// HTTP request with one message.
fn post_request(
    session: Option<&Session>,
    more: &HeaderMap,
    body: Bytes,
    method: &str,
    name: Option<&str>,
) -> HttpRequest {
    let mut headers = more.clone();
    headers.insert(header::ACCEPT, HeaderValue::from_static("application/json, text/event-stream"));
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    if session.is_some_and(|session| session.agreed.is_per_request()) {
        headers.insert(METHOD, encode_header_text(method));
        headers.extend(name.map(|name| (NAME, encode_header_text(name))));
    }
    headers.extend(session.map(Session::headers).unwrap_or_default());
    request(Method::POST, headers, body)
}

fn request(method: Method, headers: HeaderMap, body: Bytes) -> HttpRequest {
    let (under, path_and_query) = (PathBase::UrlItself, PathAndQuery::from_static("/"));
    HttpRequest { method, under, path_and_query, headers, body }
}

// Messages from the server.

impl HttpLink {
    /// Reads the response to a request: a JSON document, or an event stream.
    async fn read_response(
        self: &Arc<Self>,
        session: &Arc<Session>,
        response: IncomingResponse,
        id: u64,
        outgoing: &McpRequest<'_>,
    ) -> Result<McpResponse, Failure> {
        let status = response.status();
        if status.is_success() && is_event_stream(response.headers()) {
            let (body, scrubber) = response.into_body();
            return Ok(self.read_event_stream(session, body, &scrubber, id, outgoing).await?);
        }
        let upstream_response =
            response.read_whole(outgoing.limit_bytes, outgoing.account(), outgoing.progress()).await?;
        let text = std::str::from_utf8(&upstream_response.body).unwrap_or_default();
        if let Some(response) = jsonrpc::response_to(text, id) {
            return Ok(McpResponse::Message(upstream_response.body.slice_ref(response.text.as_bytes())));
        }
        if status.is_success() {
            return Err(
                not_mcp(self.name(), "its response body has no JSON-RPC response to the request").into()
            );
        }
        // An error without an id concerns the whole message. For an unknown session, servers of legacy
        // revisions respond 404, and many 400.
        if session.id.is_some() && matches!(status, StatusCode::NOT_FOUND | StatusCode::BAD_REQUEST) {
            return Err(Failure::SessionLost);
        }
        Ok(McpResponse::HttpError(upstream_response))
    }

    /// Reads an event stream until the response to the request.
    async fn read_event_stream(
        self: &Arc<Self>,
        session: &Arc<Session>,
        mut body: ResponseBody,
        scrubber: &ResponseScrubber,
        id: u64,
        outgoing: &McpRequest<'_>,
    ) -> Result<McpResponse, UpstreamError> {
        let limit_bytes = outgoing.limit_bytes;
        let (mut events, mut account) = (EventParser::new(limit_bytes), outgoing.account());
        loop {
            let too_long = |_| UpstreamError::TooLong { upstream: self.name().clone(), limit_bytes };
            while let Some(data) = events.next().map_err(too_long)? {
                if let Some(response) = jsonrpc::response_to(&data, id) {
                    let text = Bytes::copy_from_slice(response.text.as_bytes());
                    // Reads the rest of the stream and discards it, so that the connection can be reused.
                    tokio::spawn(timeout(END_TIMEOUT, async move {
                        while let Some(Ok(_)) = body.frame().await {}
                    }));
                    let unscrubbed = UpstreamResponse::new(StatusCode::OK, HeaderMap::new(), text);
                    return Ok(McpResponse::Message(account.finish(scrubber.scrub(unscrubbed).body)));
                }
                self.handle(session, &data, outgoing.progress().map(|progress| (id, progress)));
            }
            let cut_off = |source| UpstreamError::CutOff { upstream: self.name().clone(), source };
            match body.frame().await {
                Some(Ok(frame)) => {
                    let Ok(piece) = frame.into_data() else { continue };
                    let length = events.pending_bytes() + piece.len();
                    account.grow(length).await.map_err(|full| full.into_error(self.name()))?;
                    events.push(&piece);
                }
                Some(Err(error)) => return Err(cut_off(error.into())),
                None => return Err(cut_off("the stream ended before the response".into())),
            }
        }
    }

    /// Handles messages other than responses: notifications, and requests of the server.
    fn handle(self: &Arc<Self>, session: &Arc<Session>, text: &str, call: Option<(u64, &ProgressSender)>) {
        for message in jsonrpc::messages(text) {
            match jsonrpc::required_action(self.name(), &message, call) {
                RequiredAction::None => {}
                RequiredAction::ListsChanged => self.changed.send_replace(()),
                RequiredAction::Respond(response) => self.notify(session, response),
            }
        }
    }

    /// Request that opens the stream of notifications.
    fn listen_request(&self, session: &Session) -> HttpRequest {
        if !session.agreed.is_per_request() {
            let mut headers = session.headers();
            headers.insert(header::ACCEPT, HeaderValue::from_static("text/event-stream"));
            return request(Method::GET, headers, Bytes::new());
        }
        let (headers, limit_bytes) = (HeaderMap::new(), MESSAGE_LIMIT_BYTES);
        let (id, method) = (self.ids.fetch_add(1, Ordering::Relaxed), "subscriptions/listen");
        let params = [("notifications".to_owned(), session.agreed.declared.changes().into())];
        let params = params.into_iter().collect();
        let outgoing =
            McpRequest { method, params, name: None, headers: &headers, limit_bytes, upstream_call: None };
        let body = jsonrpc::request(id, method, lifecycle::params(&outgoing, id, true));
        post_request(Some(session), &headers, body, method, None)
    }
}

/// Reads the notifications of a server for the life of the session.
async fn listen(link: Weak<HttpLink>, session: Weak<Session>) {
    let mut wait = BACKOFF.0;
    loop {
        let (http, request) = {
            let (Some(link), Some(session)) = (link.upgrade(), session.upgrade()) else { return };
            (link.http.clone(), link.listen_request(&session))
        };
        // Holds neither link nor session while it waits: some servers send no headers before the first
        // notification, and the end of the session must end this task.
        let opened = http.open(request, deadline()).await;
        let began = Instant::now();
        match opened {
            Ok(response) if response.status().is_success() && is_event_stream(response.headers()) => {
                read_notifications(&link, &session, response.into_body().0).await;
            }
            // The server offers no such stream.
            Ok(_) => return,
            Err(error) => debug!(upstream = %error.upstream(), "the notification stream can't be read: \
             {error}"),
        }
        if began.elapsed() > BACKOFF.1 {
            wait = BACKOFF.0;
        }
        sleep(wait).await;
        wait = (wait * 2).min(BACKOFF.1);
        // Notifications may have been missed meanwhile, so the lists are read again.
        let Some(link) = link.upgrade() else { return };
        link.changed.send_replace(());
    }
}

async fn read_notifications(link: &Weak<HttpLink>, session: &Weak<Session>, mut body: ResponseBody) {
    let mut events = EventParser::new(MESSAGE_LIMIT_BYTES);
    while let Some(Ok(frame)) = body.frame().await {
        frame.into_data().iter().for_each(|piece| events.push(piece));
        loop {
            let Ok(next) = events.next() else { return };
            let Some(data) = next else { break };
            let (Some(link), Some(session)) = (link.upgrade(), session.upgrade()) else { return };
            link.handle(&session, &data, None);
        }
    }
}
