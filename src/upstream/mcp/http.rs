//! MCP server over Streamable HTTP.
//!
//! An [`HttpLink`] has one session and sends requests in it. The file has these sections: opening a session,
//! messages to the server, messages from the server, and the stream of notifications.

use std::sync::{
    Arc, OnceLock, Weak,
    atomic::{AtomicU64, Ordering},
};

use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, header, uri::PathAndQuery};
use http_body_util::BodyExt;
use serde_json::{Map, Value, value::RawValue};
use tokio::{
    runtime::Handle,
    sync::watch,
    time::{Duration, Instant, sleep, timeout},
};
use tokio_util::task::AbortOnDropHandle;
use tracing::{debug, info};

use super::jsonrpc::{self, JsonRpcError};
use super::lifecycle::{self, NegotiatedSession, SESSIONLESS_REVISION, ServerCapabilities};
use super::param_headers::ParamHeaders;
use super::sse::{EventStream, is_event_stream};
use super::{McpRequest, McpUpstream, NO_RESPONSE, message_response, whole_response};
use crate::model::{UpstreamResponse, encode_header_text};
use crate::route::{HttpRequest, PathBase};
use crate::telemetry::{CallContext, ErrorChain};
use crate::upstream::buffer::BodyAccount;
use crate::upstream::error::QuotedSource;
use crate::upstream::http::{HttpSettings, HttpUpstream, IncomingResponse, discard_body};
use crate::upstream::{Failure, OnDrop, ProgressSender, UpstreamResult};

/// Maximum length of a message that opens a session, and of an event that is not for a request, in bytes.
const MESSAGE_LIMIT_BYTES: usize = 1 << 20;
/// Timeout for reading the rest of a stream after the response, so that the connection can be reused.
const END_TIMEOUT: Duration = Duration::from_secs(1);
/// Timeout for sending a notification, and for ending a session.
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
    pub(super) http: HttpUpstream,
    session: tokio::sync::Mutex<Option<Arc<Session>>>,
    ids: AtomicU64,
    changed: watch::Sender<()>,
    pub(super) param_headers: ParamHeaders,
}

/// Session with the server. The server may forget it at any time.
#[derive(Debug)]
struct Session {
    agreed: NegotiatedSession,
    id: Option<HeaderValue>,
    /// Task that reads notifications.
    listener: OnceLock<AbortOnDropHandle<()>>,
}

/// Reason why no session could be opened.
#[derive(derive_more::From)]
enum SessionFailure {
    /// The server rejects the session with an HTTP status.
    Rejected(UpstreamResponse),
    /// Any other failure.
    #[from]
    Other(Failure),
}

impl Session {
    fn new(agreed: NegotiatedSession, id: Option<HeaderValue>) -> Self {
        Self { agreed, id, listener: OnceLock::new() }
    }

    /// Headers of every message of the session.
    fn headers(&self) -> HeaderMap {
        let mut headers = HeaderMap::new();
        headers.insert(PROTOCOL_VERSION, HeaderValue::from_static(self.agreed.revision));
        headers.extend(self.id.clone().map(|id| (SESSION_ID, id)));
        headers
    }
}

impl Drop for HttpLink {
    /// Ends the session in the background. [`close`](Self::close) also waits for the end.
    fn drop(&mut self) {
        if let Ok(runtime) = Handle::try_current() {
            runtime.spawn(end_session(self.http.clone(), self.session.get_mut().take()));
        }
    }
}

impl HttpLink {
    pub(super) fn new(settings: HttpSettings, changed: watch::Sender<()>) -> Arc<Self> {
        let (http, session) = (HttpUpstream::new(settings), tokio::sync::Mutex::default());
        let param_headers = ParamHeaders::default();
        Arc::new(Self { http, session, ids: AtomicU64::new(1), changed, param_headers })
    }

    /// Sends a request and waits for its response. If the server has forgotten the session, opens a new
    /// session and repeats the request once.
    pub(super) async fn request(self: &Arc<Self>, outgoing: &McpRequest<'_>) -> UpstreamResult {
        let mut is_repeated = false;
        loop {
            let session = match self.session().await {
                Ok(session) => session,
                Err(SessionFailure::Other(failure)) => return Err(failure),
                Err(SessionFailure::Rejected(response)) => {
                    return Ok(UpstreamResponse { rejects_session: true, ..response });
                }
            };
            // A server that has lost its sessions may have restarted with other tools.
            if is_repeated && !outgoing.method.ends_with("/list") {
                self.changed.send_replace(());
            }
            match self.request_in_session(&session, outgoing).await? {
                // The server may not know the session: for an unknown session, servers of legacy revisions
                // respond 404, and many respond 400.
                UpstreamResponse { status: StatusCode::NOT_FOUND | StatusCode::BAD_REQUEST, .. }
                    if session.id.is_some() && !is_repeated => {}
                // In a new session, the status is about the request itself.
                response => return Ok(response),
            }
            info!(upstream = %self.http.name(), "MCP session rejected by the server, opening another");
            // Another call may have opened a new session already, which stays.
            self.session.lock().await.take_if(|current| Arc::ptr_eq(current, &session));
            is_repeated = true;
        }
    }

    /// Sends a request in a session. Cancels the request if the future is dropped before the response. In
    /// revision 2026-07-28, closing the stream cancels a request, and no notification is sent.
    async fn request_in_session(
        self: &Arc<Self>,
        session: &Arc<Session>,
        outgoing: &McpRequest<'_>,
    ) -> UpstreamResult {
        let id = self.ids.fetch_add(1, Ordering::Relaxed);
        let is_sessionless = session.agreed.is_sessionless();
        let body = jsonrpc::request(id, outgoing.method, lifecycle::params(outgoing, id, is_sessionless));
        let guard = OnDrop::new(|| {
            if !is_sessionless && Handle::try_current().is_ok() {
                self.notify(session, jsonrpc::cancelled(id));
            }
        });
        let headers = self.param_headers.headers_of(outgoing).into_owned();
        let post = post_request(Some(session), headers, body, outgoing.method, outgoing.name);
        let result = match self.http.open(&outgoing.context(), post, deadline()).await {
            Ok(response) => self.read_response(session, response, id, outgoing).await,
            Err(failure) => Err(failure),
        };
        guard.disarm();
        result
    }

    /// Returns the negotiated revision and capabilities, opening a session if necessary.
    pub(super) async fn agreed(self: &Arc<Self>) -> Result<NegotiatedSession, Failure> {
        match self.session().await {
            Ok(session) => Ok(session.agreed.clone()),
            Err(SessionFailure::Other(failure)) => Err(failure),
            Err(SessionFailure::Rejected(_)) => Err(Failure::NotMcp("it starts no session".into())),
        }
    }

    /// Returns the session, opening one if necessary.
    async fn session(self: &Arc<Self>) -> Result<Arc<Session>, SessionFailure> {
        let mut current = self.session.lock().await;
        if let Some(session) = &*current {
            return Ok(session.clone());
        }
        let start_timeout = McpUpstream::START_TIMEOUT;
        let opened =
            timeout(start_timeout, self.open_session()).await.map_err(|_| Failure::Timeout(start_timeout))?;
        let session = Arc::new(opened?);
        if !session.agreed.declared.changes.is_empty() {
            let task = tokio::spawn(listen(Arc::downgrade(self), Arc::downgrade(&session)));
            let _ = session.listener.set(AbortOnDropHandle::new(task));
        }
        info!(upstream = %self.http.name(), revision = session.agreed.revision, "MCP server initialized");
        *current = Some(session.clone());
        Ok(session)
    }

    /// Ends the session, so that the server releases its resources.
    pub(super) async fn close(&self) {
        // This statement releases the lock, so that other calls need not wait for the server.
        let session = self.session.lock().await.take();
        end_session(self.http.clone(), session).await;
    }
}

/// Ends a session, if the server has given it an id.
async fn end_session(http: HttpUpstream, session: Option<Arc<Session>>) {
    let Some(session) = session.filter(|session| session.id.is_some()) else { return };
    let request = request(Method::DELETE, session.headers(), Bytes::new());
    if !matches!(timeout(NOTIFY_TIMEOUT, send(&http, request)).await, Ok(Ok(_))) {
        debug!(upstream = %http.name(), "ending the MCP session failed");
    }
}

// Opening a session.

/// Result of `server/discover` or `initialize`, and the session id.
type Handshake = (Box<RawValue>, Option<HeaderValue>);

impl HttpLink {
    /// Opens a session with the newest revision. If the server does not support it, falls back to
    /// `initialize` (MCP 2026-07-28, Streamable HTTP, "Backward Compatibility").
    async fn open_session(self: &Arc<Self>) -> Result<Session, SessionFailure> {
        let not_mcp = |source: QuotedSource| Failure::NotMcp(source.into());
        let discovered = self.handshake("server/discover", Map::new(), true).await?;
        if let Ok((result, _)) = &discovered
            && let Ok(agreed) = NegotiatedSession::from_discover(result)
        {
            return Ok(Session::new(agreed, None));
        }
        let revision_error =
            discovered.err().filter(|error| error.code == JsonRpcError::UNSUPPORTED_REVISION);
        let initialized = self.handshake("initialize", lifecycle::initialize(), false).await?;
        let (result, id) = initialized.map_err(|error| not_mcp(revision_error.unwrap_or(error).into()))?;
        let agreed = NegotiatedSession::from_initialize(&result).map_err(not_mcp)?;
        let (session, method) = (Session::new(agreed, id), jsonrpc::INITIALIZED);
        let post = post_request(Some(&session), HeaderMap::new(), jsonrpc::initialized(), method, None);
        discard_body(send(&self.http, post).await?.body).await;
        Ok(session)
    }

    /// Sends a request that opens a session. The inner error is the JSON-RPC error of a server that rejects
    /// the request.
    async fn handshake(
        self: &Arc<Self>,
        method: &'static str,
        params: Map<String, Value>,
        is_sessionless: bool,
    ) -> Result<Result<Handshake, JsonRpcError>, SessionFailure> {
        let id = self.ids.fetch_add(1, Ordering::Relaxed);
        let outgoing = McpRequest::new(method, params, MESSAGE_LIMIT_BYTES);
        let agreed =
            NegotiatedSession { revision: SESSIONLESS_REVISION, declared: ServerCapabilities::default() };
        let session = Arc::new(Session::new(agreed, None));
        let body = jsonrpc::request(id, method, lifecycle::params(&outgoing, id, is_sessionless));
        let headers_session = is_sessionless.then_some(&*session);
        let response =
            send(&self.http, post_request(headers_session, HeaderMap::new(), body, method, None)).await?;
        let session_id = response.head.headers.get(&SESSION_ID).cloned();
        let rejection = |message| JsonRpcError { code: 0, message, is_synthetic: true };
        match self.read_response(&session, response, id, &outgoing).await {
            Ok(response) if response.status.is_success() => {
                let outcome = whole_response(&response.body)?.outcome();
                Ok(outcome.map(|result| (result.to_owned(), session_id)))
            }
            Ok(response) if is_final(response.status) => Err(SessionFailure::Rejected(response)),
            Ok(response) => {
                let text = std::str::from_utf8(&response.body).unwrap_or_default();
                Ok(Err(jsonrpc::error_in(text).unwrap_or_else(|| {
                    rejection(format!("it responded to `{method}` with status {}", response.status))
                })))
            }
            Err(failure @ Failure::NotMcp(_)) if is_sessionless => Ok(Err(rejection(failure.to_string()))),
            Err(failure) => Err(failure.into()),
        }
    }
}

/// Whether a status has the same meaning in all revisions: the client is not authorized (401, 403, 407), the
/// client sends too many requests (429), or the server fails (5xx).
fn is_final(status: StatusCode) -> bool {
    status.is_server_error() || matches!(status.as_u16(), 401 | 403 | 407 | 429)
}

// Messages to the server.

impl HttpLink {
    /// Sends a notification, or the response to a request of the server, in the background.
    fn notify(&self, session: &Session, body: Bytes) {
        let http = self.http.clone();
        let post = post_request(Some(session), HeaderMap::new(), body, "notifications/cancelled", None);
        tokio::spawn(async move {
            if let Ok(Ok(response)) = timeout(NOTIFY_TIMEOUT, send(&http, post)).await {
                let _ = timeout(END_TIMEOUT, discard_body(response.body)).await;
            }
        });
    }
}

/// Sends a message that does not belong to a call.
async fn send(http: &HttpUpstream, request: HttpRequest) -> Result<IncomingResponse, Failure> {
    http.open(&CallContext::default(), request, deadline()).await
}

/// Deadline for selecting an endpoint. Calls have their own timeouts for the response.
fn deadline() -> Instant {
    Instant::now() + McpUpstream::START_TIMEOUT
}

/// HTTP request with one message.
fn post_request(
    session: Option<&Session>,
    mut headers: HeaderMap,
    body: Bytes,
    method: &str,
    name: Option<&str>,
) -> HttpRequest {
    headers.insert(header::ACCEPT, HeaderValue::from_static("application/json, text/event-stream"));
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    if session.is_some_and(|session| session.agreed.is_sessionless()) {
        headers.insert(METHOD, encode_header_text(method));
        headers.extend(name.map(|name| (NAME, encode_header_text(name))));
    }
    headers.extend(session.map(Session::headers).unwrap_or_default());
    request(Method::POST, headers, body)
}

fn request(method: Method, headers: HeaderMap, body: Bytes) -> HttpRequest {
    let (base, path_and_query) = (PathBase::UrlItself, PathAndQuery::from_static("/"));
    HttpRequest { method, base, path_and_query, headers, body }
}

// Messages from the server.

impl HttpLink {
    /// Reads the response to a request from a JSON document or an event stream. An HTTP error response that
    /// contains no JSON-RPC response is returned unchanged.
    async fn read_response(
        self: &Arc<Self>,
        session: &Arc<Session>,
        response: IncomingResponse,
        id: u64,
        outgoing: &McpRequest<'_>,
    ) -> UpstreamResult {
        let status = response.head.status;
        if is_event_stream(&response.head) {
            return self.read_event_stream(session, response, id, outgoing).await;
        }
        let upstream_response =
            response.read_whole(outgoing.limit_bytes, outgoing.account(), outgoing.progress()).await?;
        let text = std::str::from_utf8(&upstream_response.body).unwrap_or_default();
        if let Some(response) = jsonrpc::response_to(text, id) {
            return Ok(message_response(upstream_response.body.slice_ref(response.text.as_bytes())));
        }
        if status.is_success() {
            return Err(Failure::NotMcp(NO_RESPONSE.into()));
        }
        Ok(upstream_response)
    }

    /// Reads an event stream until the response to the request.
    async fn read_event_stream(
        &self,
        session: &Session,
        response: IncomingResponse,
        id: u64,
        outgoing: &McpRequest<'_>,
    ) -> UpstreamResult {
        let mut stream = EventStream::new(response.body, outgoing.limit_bytes, outgoing.account());
        while let Some(data) = stream.next().await? {
            if let Some(message) = jsonrpc::response_to(&data, id) {
                let text = Bytes::copy_from_slice(message.text.as_bytes());
                let EventStream { mut body, account, .. } = stream;
                // Read and discard the rest of the stream, so that the connection can be reused.
                tokio::spawn(timeout(
                    END_TIMEOUT,
                    async move { while let Some(Ok(_)) = body.frame().await {} },
                ));
                let unscrubbed = UpstreamResponse::new(StatusCode::OK, HeaderMap::new(), text);
                return Ok(message_response(account.finish(response.scrubber.scrub(unscrubbed).body)));
            }
            self.handle(session, &data, |token| outgoing.progress().filter(|_| token == id));
        }
        Err(Failure::CutOff("the stream ended before the response".into()))
    }

    /// Handles messages that are not responses: notifications, and requests of the server.
    fn handle<'c>(
        &self,
        session: &Session,
        text: &str,
        client_of: impl Fn(u64) -> Option<&'c ProgressSender>,
    ) {
        for message in jsonrpc::messages(text) {
            let response = jsonrpc::handle(self.http.name(), &message, &self.changed, &client_of);
            response.into_iter().for_each(|response| self.notify(session, response));
        }
    }

    /// Request that opens the stream of notifications.
    fn listen_request(&self, session: &Session) -> HttpRequest {
        if !session.agreed.is_sessionless() {
            let mut headers = session.headers();
            headers.insert(header::ACCEPT, HeaderValue::from_static("text/event-stream"));
            return request(Method::GET, headers, Bytes::new());
        }
        let (id, method) = (self.ids.fetch_add(1, Ordering::Relaxed), "subscriptions/listen");
        let params = [("notifications".to_owned(), session.agreed.declared.changes.clone().into())];
        let outgoing = McpRequest::new(method, params.into_iter().collect(), MESSAGE_LIMIT_BYTES);
        let body = jsonrpc::request(id, method, lifecycle::params(&outgoing, id, true));
        post_request(Some(session), HeaderMap::new(), body, method, None)
    }
}

/// Reads the notifications of a server until the session ends.
async fn listen(link: Weak<HttpLink>, session: Weak<Session>) {
    let mut wait = BACKOFF.0;
    loop {
        let (http, request) = {
            let (Some(link), Some(session)) = (link.upgrade(), session.upgrade()) else { return };
            (link.http.clone(), link.listen_request(&session))
        };
        // The task holds neither link nor session while it waits: some servers send no headers before the
        // first notification, and the end of the session must end this task.
        let opened = send(&http, request).await;
        let started_at = Instant::now();
        match opened {
            Ok(response) if is_event_stream(&response.head) => {
                let mut stream = EventStream::new(response.body, MESSAGE_LIMIT_BYTES, BodyAccount::none());
                while let Ok(Some(data)) = stream.next().await {
                    let (Some(link), Some(session)) = (link.upgrade(), session.upgrade()) else { return };
                    link.handle(&session, &data, |_| None);
                }
            }
            // The server offers no stream of notifications.
            Ok(_) => return,
            Err(failure) => {
                let error = ErrorChain(&failure);
                debug!(upstream = %http.name(), %error, "the notification stream can't be read");
            }
        }
        if started_at.elapsed() > BACKOFF.1 {
            wait = BACKOFF.0;
        }
        sleep(wait).await;
        wait = (wait * 2).min(BACKOFF.1);
        // Notifications may have been missed while the stream was closed, so the lists are read again.
        let Some(link) = link.upgrade() else { return };
        link.changed.send_replace(());
    }
}

#[cfg(test)]
mod tests {
    use tokio::{
        io::{AsyncReadExt, AsyncWriteExt},
        net::TcpListener,
    };

    use super::*;

    /// Response of a server with sessions that rejects every request in a session with status 400.
    fn respond(request: &str) -> String {
        let (head, body) = request.split_once("\r\n\r\n").unwrap_or_default();
        let message: Value = serde_json::from_str(body).unwrap_or_default();
        let result = serde_json::json!({ "protocolVersion": "2025-06-18", "capabilities": {} });
        let (status, body) = match message["method"].as_str() {
            Some("initialize") => (
                "200 OK",
                serde_json::json!({ "jsonrpc": "2.0", "id": message["id"], "result": result }).to_string(),
            ),
            Some(jsonrpc::INITIALIZED) => ("202 Accepted", String::new()),
            _ if head.contains("mcp-session-id") => ("400 Bad Request", "unknown unit".to_owned()),
            _ => ("400 Bad Request", String::new()),
        };
        format!(
            "HTTP/1.1 {status}\r\nContent-Type: application/json\r\nMcp-Session-Id: a\r\n\
             Connection: close\r\nContent-Length: {}\r\n\r\n{body}",
            body.len()
        )
    }

    #[tokio::test]
    async fn a_request_that_is_rejected_in_a_new_session_has_its_own_response() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = format!("http://{}/mcp", listener.local_addr().unwrap()).parse().unwrap();
        tokio::spawn(async move {
            while let Ok((mut stream, _)) = listener.accept().await {
                let mut buffer = [0; 8192];
                let count = stream.read(&mut buffer).await.unwrap();
                let response = respond(&String::from_utf8_lossy(&buffer[..count]));
                stream.write_all(response.as_bytes()).await.unwrap();
            }
        });
        let settings = HttpSettings::new("old".parse().unwrap(), address);
        let link = HttpLink::new(settings, watch::Sender::new(()));
        let response = link.request(&McpRequest::new("tools/call", Map::new(), 1000)).await.unwrap();
        assert_eq!((response.status, &response.body[..]), (StatusCode::BAD_REQUEST, &b"unknown unit"[..]));
    }
}
