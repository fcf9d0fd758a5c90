//! Context of a request: its connection, its client, and its log line when it is rejected.

use std::{
    borrow::Cow,
    future::Future,
    net::{IpAddr, SocketAddr},
    pin::Pin,
    sync::{Arc, LazyLock},
    time::Duration,
};

use http::{HeaderMap, HeaderName, HeaderValue, Request, StatusCode, header, request::Parts};
use tokio::sync::watch;
use tracing::{debug, info};

use super::AuthenticatedClient;
use crate::pipeline::ApiKind;
use crate::settings::Word as _;
use crate::telemetry::{RequestId, Span, Untrusted, method_label};
use crate::tls::ClientCertificate;
use crate::upstream::{ClientIdentity, RETRY_WHEN_BUSY};

/// A client connection. `None` is unknown.
#[derive(Debug, Default)]
pub struct Connection {
    /// The peer's address.
    pub peer: Option<SocketAddr>,
    /// Whether the connection uses TLS.
    pub is_tls: bool,
    /// The client certificate, verified by the listener.
    pub certificate: Option<Arc<ClientCertificate>>,
    /// The state of a graceful shutdown.
    pub ending: ShutdownSignal,
}

/// Information about a request that is known before its client is authenticated. It grants no rights: a call
/// needs an authenticated client, which only a `RequestContext` has.
///
/// The server adds it to the request's extensions, and the API removes it.
#[derive(Debug, Clone)]
pub struct RequestInfo {
    /// The connection, shared by all of its requests.
    pub connection: Arc<Connection>,
    /// Request id in log lines and errors.
    pub request_id: RequestId,
    /// The trace span of the request, where traces are on.
    pub span: Span,
    /// The path below which a web server serves us over CGI (`SCRIPT_NAME`), without a trailing slash.
    /// Published paths of endpoints begin with it.
    pub mount: Option<Box<str>>,
    pub(super) api: ApiKind,
    /// The client's address: the peer's, until the filter has read `X-Forwarded-For` of trusted proxies.
    pub(super) address: Option<IpAddr>,
}

/// Context of a request that the filter has admitted.
#[derive(Debug)]
pub(super) struct RequestContext {
    pub(super) info: RequestInfo,
    pub(super) identity: AuthenticatedClient,
}

impl RequestInfo {
    /// Information about a request with these headers, which may contain its id.
    pub fn new(connection: Arc<Connection>, headers: &HeaderMap) -> Self {
        Self {
            address: connection.peer.map(|peer| peer.ip().to_canonical()),
            connection,
            request_id: RequestId::from_headers(headers),
            span: Span::default(),
            mount: None,
            api: ApiKind::Rest,
        }
    }

    /// Information about a message on our own stdin.
    pub(super) fn from_stdio(connection: &Arc<Connection>) -> Self {
        Self { api: ApiKind::Stdio, ..Self::new(Arc::clone(connection), &HeaderMap::new()) }
    }

    /// The information in a request's extensions. Where the listener added none, it is added with an unknown
    /// connection.
    pub fn from_request<B>(request: &mut Request<B>) -> &mut Self {
        if request.extensions().get::<Self>().is_none() {
            let unknown = Self::new(Arc::default(), request.headers());
            request.extensions_mut().insert(unknown);
        }
        request.extensions_mut().get_mut().expect("it is there by now")
    }

    /// Removes the information from a request's extensions, for an API.
    pub fn take(head: &mut Parts, api: ApiKind) -> Self {
        let unauthenticated = head.extensions.remove::<Self>();
        let unauthenticated = unauthenticated.unwrap_or_else(|| Self::new(Arc::default(), &head.headers));
        let api = if unauthenticated.mount.is_some() { ApiKind::Cgi } else { api };
        Self { api, ..unauthenticated }
    }

    /// The request as the log describes it, before its client is identified.
    pub(super) fn logged<'a>(&'a self, head: &'a Parts) -> LoggedRequest<'a> {
        LoggedRequest { info: self, head: Some(head), client: None }
    }
}

impl RequestContext {
    pub(super) fn client(&self) -> &ClientIdentity {
        &self.identity.client
    }

    /// The request as the log describes it. `head` is `None` over stdio.
    pub(super) fn logged<'a>(&'a self, head: Option<&'a Parts>) -> LoggedRequest<'a> {
        LoggedRequest { info: &self.info, head, client: Some(self.client()) }
    }
}

/// A request as the log describes it.
#[derive(Debug, Clone, Copy)]
pub(super) struct LoggedRequest<'a> {
    info: &'a RequestInfo,
    head: Option<&'a Parts>,
    client: Option<&'a ClientIdentity>,
}

impl LoggedRequest<'_> {
    /// Logs a request that is rejected before any call.
    pub(super) fn log_rejection(self, rejection: &Rejection) {
        let Self { info, head, client } = self;
        let request_id = &info.request_id;
        let path = head.map(|head| Untrusted(head.uri.path()));
        info!(
            status = rejection.status.as_u16(),
            method = head.map(|head| method_label(&head.method)),
            path = path.map(display),
            reason = rejection.reason,
            client = info.address.map(display),
            client_name = client.and_then(ClientIdentity::name_in_log).map(display),
            api = info.api.word(),
            %request_id,
            "request rejected"
        );
        debug!(error = %Untrusted(&rejection.to_string()), %request_id, "request rejection detail");
    }
}

/// A request that is rejected before any call is made. Each API writes it in its own format.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{text}{}", .detail.as_ref().map_or_else(String::new, |detail| format!(": {detail}")))]
pub struct Rejection {
    /// The HTTP status.
    pub status: StatusCode,
    /// The reason in the log: constant, as the full text is logged at `debug` only.
    pub reason: &'static str,
    /// The text for the client.
    pub text: Cow<'static, str>,
    /// Details from a parser, appended to the text.
    pub detail: Option<String>,
    pub(super) header: Option<Box<(HeaderName, HeaderValue)>>,
}

impl Rejection {
    /// A rejection without headers of its own.
    pub fn new(status: StatusCode, reason: &'static str, text: impl Into<Cow<'static, str>>) -> Self {
        Self { status, reason, text: text.into(), detail: None, header: None }
    }

    /// Adds a header to the response, if it has a value.
    #[must_use]
    pub fn with_header(self, name: HeaderName, value: Option<HeaderValue>) -> Self {
        Self { header: value.map(|value| Box::new((name, value))), ..self }
    }

    /// Adds `Retry-After` to the response, if it is known.
    #[must_use]
    pub fn with_retry_after(self, seconds: impl Into<Option<u64>>) -> Self {
        self.with_header(header::RETRY_AFTER, seconds.into().map(HeaderValue::from))
    }

    /// Adds the rejection's header, if it has one, to the response.
    pub fn add_header(&self, headers: &mut HeaderMap) {
        if let Some((name, value)) = self.header.as_deref() {
            headers.insert(name, value.clone());
        }
    }

    /// Rejects a request because of the shutdown.
    pub(super) fn for_shutdown(text: &'static str) -> Self {
        Self::new(StatusCode::SERVICE_UNAVAILABLE, "shutting down", text)
            .with_retry_after(RETRY_WHEN_BUSY.as_secs())
    }
}

/// Timeout for cut-off requests to write their errors, and then for their connections to close.
pub const CANCEL_TIMEOUT: Duration = Duration::from_secs(1);

/// The stages of a graceful shutdown.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Shutdown {
    /// Requests are served, and connections stay open.
    Serving,
    /// Requests are served, and each connection is closed with its next response, so that clients open new
    /// ones.
    Closing,
    /// The process serves one request, and then exits (CGI).
    OneRequest,
    /// The shutdown has begun: requests in flight are finished, and endless streams are closed, as well as
    /// connections without a request.
    Begun,
    /// The shutdown timeout is over: requests in flight get an error.
    Overdue,
    /// Connections are closed at once.
    Closed,
}

/// Receiver of the shutdown's stages, by which open streams end. The default never shuts down.
#[derive(Debug, Clone)]
pub struct ShutdownSignal(watch::Receiver<Shutdown>);

impl Default for ShutdownSignal {
    fn default() -> Self {
        static NEVER: LazyLock<watch::Sender<Shutdown>> =
            LazyLock::new(|| watch::Sender::new(Shutdown::Serving));
        Self(NEVER.subscribe())
    }
}

impl ShutdownSignal {
    /// Signal of a server, with the last stage that was sent.
    pub fn new(shutdown: watch::Receiver<Shutdown>) -> Self {
        Self(shutdown)
    }

    /// Signal of a process that serves one request and then exits, so that nothing waits for events.
    pub fn one_request() -> Self {
        Self(watch::channel(Shutdown::OneRequest).1)
    }

    /// The current stage.
    pub fn stage(&self) -> Shutdown {
        *self.0.borrow()
    }

    /// Waits until the shutdown begins. A process that serves one request counts as shutting down from its
    /// start: it exits with its response, so nothing waits for events.
    pub async fn begun(&self) {
        self.reached(Shutdown::OneRequest).await;
    }

    /// Waits for a stage, or a later one. If the server is gone, all stages are reached.
    pub async fn reached(&self, sought: Shutdown) {
        let _ = self.0.clone().wait_for(|stage| *stage >= sought).await;
    }

    /// The result of some work, unless the shutdown timeout ends first. The calling function pins the work: a
    /// future that is passed by value occupies twice its size.
    pub async fn unless_overdue<T>(&self, work: Pin<&mut impl Future<Output = T>>) -> Option<T> {
        let mut shutdown = self.0.clone();
        tokio::select! {
            biased;
            done = work => Some(done),
            Ok(_) = shutdown.wait_for(|stage| *stage >= Shutdown::Overdue) => None,
        }
    }
}
