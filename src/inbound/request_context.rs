//! Context of a request: its connection, its client, and its log line if it is rejected. Also the stages of a
//! shutdown.

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
use crate::settings::EnumSetting as _;
use crate::telemetry::{RequestId, Span, Untrusted, method_label};
use crate::tls::ClientCertificate;
use crate::upstream::{ClientIdentity, RETRY_WHEN_BUSY};

/// A client connection.
#[derive(Debug, Default)]
pub struct Connection {
    /// Address of the peer; `None` if unknown.
    pub peer: Option<SocketAddr>,
    /// Whether the connection uses TLS.
    pub is_tls: bool,
    /// The client certificate, verified by the listener; `None` if the client sent none.
    pub certificate: Option<Arc<ClientCertificate>>,
    /// The state of a graceful shutdown.
    pub shutdown: ShutdownSignal,
}

/// Information about a request before its client is authenticated. It grants no rights: a call needs an
/// authenticated client, which only a `RequestContext` has.
///
/// The server adds it to the extensions of the request, and the API removes it.
#[derive(Debug, Clone)]
pub struct RequestInfo {
    /// The connection, which all of its requests share.
    pub connection: Arc<Connection>,
    /// The request id for log lines and errors.
    pub request_id: RequestId,
    /// The trace span of the request, if traces are enabled.
    pub span: Span,
    /// For CGI, the path below which the web server serves this program (`SCRIPT_NAME`), without a trailing
    /// slash. It is the prefix of the endpoint paths that clients see.
    pub mount: Option<Box<str>>,
    pub(super) api: ApiKind,
    /// Address of the client. Until the filter has read `X-Forwarded-For` of trusted proxies, it is the
    /// address of the peer.
    pub(super) address: Option<IpAddr>,
}

/// Context of a request that the filter has admitted.
#[derive(Debug)]
pub(super) struct RequestContext {
    pub(super) info: RequestInfo,
    pub(super) identity: AuthenticatedClient,
}

impl RequestInfo {
    /// Creates the information about a request with these headers, which may include a request id.
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

    /// Creates the information about a message from standard input.
    pub(super) fn from_stdio(connection: &Arc<Connection>) -> Self {
        Self { api: ApiKind::Stdio, ..Self::new(Arc::clone(connection), &HeaderMap::new()) }
    }

    /// Returns the information in the extensions of a request. If the listener added none, adds it with an
    /// unknown connection.
    pub fn from_request<B>(request: &mut Request<B>) -> &mut Self {
        if request.extensions().get::<Self>().is_none() {
            let info = Self::new(Arc::default(), request.headers());
            request.extensions_mut().insert(info);
        }
        request.extensions_mut().get_mut().expect("it is there by now")
    }

    /// Takes the information out of the extensions of a request, for the API that handles the request.
    pub fn take(head: &mut Parts, api: ApiKind) -> Self {
        let info = head.extensions.remove::<Self>();
        let info = info.unwrap_or_else(|| Self::new(Arc::default(), &head.headers));
        let api = if info.mount.is_some() { ApiKind::Cgi } else { api };
        Self { api, ..info }
    }

    /// The request as it appears in the log before its client is identified.
    pub(super) fn logged<'a>(&'a self, head: &'a Parts) -> LoggedRequest<'a> {
        LoggedRequest { info: self, head: Some(head), client: None }
    }
}

impl RequestContext {
    pub(super) fn client(&self) -> &ClientIdentity {
        &self.identity.client
    }

    /// The request as it appears in the log. `head` is `None` over stdio.
    pub(super) fn logged<'a>(&'a self, head: Option<&'a Parts>) -> LoggedRequest<'a> {
        LoggedRequest { info: &self.info, head, client: Some(self.client()) }
    }
}

/// A request as it appears in the log.
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
            api = info.api.as_str(),
            %request_id,
            "request rejected"
        );
        debug!(error = %Untrusted(&rejection.to_string()), %request_id, "request rejection detail");
    }
}

/// Rejection of a request before any call. Each API formats it in its own way.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{text}{}", .detail.as_ref().map_or_else(String::new, |detail| format!(": {detail}")))]
pub struct Rejection {
    /// The HTTP status.
    pub status: StatusCode,
    /// The reason in the log. It is constant, because the message may quote the request; the message is
    /// logged at `debug` only.
    pub reason: &'static str,
    /// The message for the client.
    pub text: Cow<'static, str>,
    /// Message of the JSON parser. REST clients get it as `details.reason`.
    pub detail: Option<String>,
    pub(super) header: Option<Box<(HeaderName, HeaderValue)>>,
}

impl Rejection {
    /// Creates a rejection without additional headers.
    pub fn new(status: StatusCode, reason: &'static str, text: impl Into<Cow<'static, str>>) -> Self {
        Self { status, reason, text: text.into(), detail: None, header: None }
    }

    /// Sets the additional header of the response. A second call replaces the header; `None` removes it.
    #[must_use]
    pub fn with_header(self, name: HeaderName, value: Option<HeaderValue>) -> Self {
        Self { header: value.map(|value| Box::new((name, value))), ..self }
    }

    /// Sets `Retry-After` as the additional header, like [`with_header`](Self::with_header). `None` means
    /// that the time is unknown.
    #[must_use]
    pub fn with_retry_after(self, seconds: impl Into<Option<u64>>) -> Self {
        self.with_header(header::RETRY_AFTER, seconds.into().map(HeaderValue::from))
    }

    /// Copies the additional header of the rejection, if there is one, to the headers of the response.
    pub fn add_header(&self, headers: &mut HeaderMap) {
        if let Some((name, value)) = self.header.as_deref() {
            headers.insert(name, value.clone());
        }
    }

    /// Creates the rejection of a request because of the shutdown.
    pub(super) fn for_shutdown(text: &'static str) -> Self {
        Self::new(StatusCode::SERVICE_UNAVAILABLE, "shutting down", text)
            .with_retry_after(RETRY_WHEN_BUSY.as_secs())
    }
}

/// Maximum time for cut-off requests to send their error responses, and then again for their connections to
/// close.
pub const CANCEL_TIMEOUT: Duration = Duration::from_secs(1);

/// The stages of a graceful shutdown, in order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Shutdown {
    /// Requests are served, and connections stay open.
    Serving,
    /// The shutdown delay: requests are served. Each connection is closed with its next response, so that
    /// clients open new ones.
    Delay,
    /// The process serves one request and then exits (CGI).
    OneRequest,
    /// After the shutdown delay. Requests in flight are finished; endless streams and connections without a
    /// request are closed.
    Draining,
    /// The shutdown timeout has expired: requests in flight get an error.
    Overdue,
    /// All connections are closed at once.
    Closed,
}

/// Receiver of the shutdown stage, which tells open streams when to end. The default remains at
/// [`Shutdown::Serving`].
#[derive(Debug, Clone)]
pub struct ShutdownSignal(pub watch::Receiver<Shutdown>);

impl Default for ShutdownSignal {
    fn default() -> Self {
        static NEVER: LazyLock<watch::Sender<Shutdown>> =
            LazyLock::new(|| watch::Sender::new(Shutdown::Serving));
        Self(NEVER.subscribe())
    }
}

impl ShutdownSignal {
    /// Creates the signal of a process that serves one request and then exits. Streams that wait for events
    /// end at once.
    pub fn one_request() -> Self {
        Self(watch::channel(Shutdown::OneRequest).1)
    }

    /// The current stage.
    pub fn stage(&self) -> Shutdown {
        *self.0.borrow()
    }

    /// Waits until draining begins. For a process that serves one request, it returns at once: the process
    /// exits after its response, so nothing may wait for events.
    pub async fn draining(&self) {
        self.reached(Shutdown::OneRequest).await;
    }

    /// Waits for a stage, or a later one. Returns at once if the server no longer exists.
    pub async fn reached(&self, min_stage: Shutdown) {
        let _ = self.0.clone().wait_for(|stage| *stage >= min_stage).await;
    }

    /// Returns the result of `work`, or `None` if the shutdown timeout expires first. `work` is pinned by the
    /// calling function, because a future that is passed by value occupies twice its size.
    pub async fn unless_overdue<T>(&self, work: Pin<&mut impl Future<Output = T>>) -> Option<T> {
        let mut shutdown = self.0.clone();
        tokio::select! {
            biased;
            result = work => Some(result),
            Ok(_) = shutdown.wait_for(|stage| *stage >= Shutdown::Overdue) => None,
        }
    }
}
