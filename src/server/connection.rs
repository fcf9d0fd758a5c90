//! Serves a client connection until it is closed or the server stops: HTTP/1.1, or HTTP/2 if TLS negotiated
//! it. [`HttpHandler`] passes the requests to the APIs, and counts and traces them.

use std::convert::Infallible;
use std::future::{Future, ready};
use std::net::SocketAddr;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::time::{Duration, Instant};

use arc_swap::ArcSwap;
use axum::body::Body;
use futures_util::future::BoxFuture;
use http::{HeaderValue, Request, Response, Version, header};
use http_body::Body as _;
use hyper::body::Incoming;
use hyper::server::conn::{http1, http2};
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::graceful::GracefulConnection;
#[cfg(target_os = "linux")]
use socket2::SockRef;
use tokio::io::{AsyncRead, AsyncWrite, join, split};
use tokio::net::TcpStream;
use tokio::time::{sleep, timeout};
use tokio_io_timeout::TimeoutStream;
use tracing::debug;

use super::connection_activity::{Activity, ConnectionTimeout, SHORT_BYTES};
use super::line_ends::LineEnds;
use super::listener::HandshakeFailures;
use crate::config::ListenerSettings;
use crate::inbound::filter::{ends_ambiguously, reject_ambiguous_end};
use crate::inbound::mcp::McpEndpoint;
use crate::inbound::rest::RestApi;
use crate::inbound::{self, MCP_PATHS, RequestInfo, Shutdown, ShutdownSignal};
use crate::telemetry::{ErrorChain, Meters, RequestId, Tracer};
use crate::tls::ServerTls;
use crate::wire::yield_before_write;

/// Maximum size of a request's headers, and of the read buffer, in bytes. Longer headers get a 431. So do
/// more than 100 headers, which is the default limit of `hyper`: with an explicit limit, `hyper` would
/// allocate memory for the headers of every request.
pub(super) const HEAD_LIMIT_BYTES: usize = 64 << 10;

/// Maximum timeout of a TLS handshake, and of flushing written bytes before a connection is closed. Shorter
/// timeouts in the settings apply.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(10);

/// Maximum number of unsent bytes of a response in the socket buffer. Otherwise the kernel accepts megabytes,
/// and for seconds a slow client can't be distinguished from one that reads nothing.
#[cfg(target_os = "linux")]
const UNSENT_BYTES: u32 = 128 << 10;

/// Time for which a new connection without a request stays open during the graceful shutdown: its first
/// request may already be under way.
const FIRST_REQUEST_TIMEOUT: Duration = Duration::from_secs(1);

/// Maximum number of open requests of one HTTP/2 connection; further ones wait.
const STREAM_LIMIT: u32 = 128;

/// Settings, certificate and handler of a listener's connections. Each connection is served by a clone.
#[derive(Clone)]
pub(super) struct ConnectionServer {
    pub(super) settings: ListenerSettings,
    pub(super) tls: Option<Arc<ArcSwap<ServerTls>>>,
    pub(super) handler: HttpHandler,
    pub(super) shutdown: ShutdownSignal,
    pub(super) handshakes: HandshakeFailures,
}

impl ConnectionServer {
    /// Serves one connection to its end. When a client disconnects, the futures of its requests are dropped,
    /// which cancels their upstream requests.
    pub(super) async fn serve(self, stream: TcpStream, peer: SocketAddr, activity: Activity) {
        // Responses are written whole; Nagle's algorithm would only delay their last part.
        if let Err(error) = stream.set_nodelay(true) {
            debug!(%peer, %error, "setting TCP_NODELAY failed");
        }
        #[cfg(target_os = "linux")]
        if let Err(error) = SockRef::from(&stream).set_tcp_notsent_lowat(UNSENT_BYTES) {
            debug!(%peer, %error, "setting TCP_NOTSENT_LOWAT failed");
        }
        let shutdown = self.shutdown.clone();
        let connection = inbound::Connection { peer: Some(peer), is_tls: false, certificate: None, shutdown };
        match self.tls.as_ref().map(|tls| tls.load_full()) {
            None => self.http(stream, connection, Version::HTTP_11, activity).await,
            // Boxed, so that a connection without TLS needs no memory for the handshake.
            Some(tls) => Box::pin(self.tls(tls, stream, peer, connection, activity)).await,
        }
    }

    async fn tls(
        self,
        tls: Arc<ServerTls>,
        stream: TcpStream,
        peer: SocketAddr,
        connection: inbound::Connection,
        activity: Activity,
    ) {
        let max_wait = self.settings.header_timeout.min(HANDSHAKE_TIMEOUT);
        let handshake = tokio::select! {
            handshake = timeout(max_wait, tls.accept(stream)) => handshake,
            () = self.wait_until_draining(&activity) => return,
        };
        let stream = match handshake {
            Ok(Ok(stream)) => stream,
            Ok(Err(error)) => return self.handshakes.add(peer, error.to_string()),
            Err(_) => return self.handshakes.add(peer, "it was not complete in time".to_owned()),
        };
        let is_h2 = stream.get_ref().1.alpn_protocol() == Some(b"h2");
        let version = if is_h2 { Version::HTTP_2 } else { Version::HTTP_11 };
        let certificate = tls.client_certificate(&stream).map(Arc::new);
        let connection = inbound::Connection { is_tls: true, certificate, ..connection };
        self.http(stream, connection, version, activity).await;
    }

    async fn http<S>(self, stream: S, connection: inbound::Connection, version: Version, activity: Activity)
    where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let mut stream = TimeoutStream::new(stream);
        stream.set_write_timeout(Some(self.settings.write_timeout));
        let stream = Box::pin(stream);
        let peer = connection.peer;
        let connection = Arc::new(connection);
        let service = service_fn(|request| self.serve_request(request, &connection, &activity));
        if version == Version::HTTP_2 {
            let http_connection = http2::Builder::new(TokioExecutor::new())
                .timer(TokioTimer::new())
                .max_header_list_size(HEAD_LIMIT_BYTES as u32)
                .max_concurrent_streams(STREAM_LIMIT)
                .serve_connection(TokioIo::new(stream), service);
            self.drive(pin!(http_connection), Some(self.settings.write_timeout), peer, &activity).await;
        } else {
            let (reader, writer) = split(stream);
            let stream = join(LineEnds::new(reader, activity.clone()), writer);
            let http_connection = http1::Builder::new()
                // The header timeout of the HTTP library does not distinguish an idle connection from one
                // with incomplete headers.
                .header_read_timeout(None)
                .max_header_size(HEAD_LIMIT_BYTES)
                .max_buf_size(HEAD_LIMIT_BYTES)
                .serve_connection(TokioIo::new(stream), service);
            // No timeout per part: with one response at a time, the write timeout of the stream suffices. The
            // library also polls the next part while several parts are unwritten, and a slow client may need
            // longer than the timeout to read all of them.
            self.drive(pin!(http_connection), None, peer, &activity).await;
        }
    }

    /// Drives a connection until it is closed, a timeout is exceeded, or the server stops. `part_timeout` is
    /// the write timeout of each part of a response.
    async fn drive<C>(
        &self,
        mut connection: Pin<&mut C>,
        part_timeout: Option<Duration>,
        peer: Option<SocketAddr>,
        activity: &Activity,
    ) where
        C: GracefulConnection<Error = hyper::Error>,
    {
        let ListenerSettings { header_timeout, keepalive_timeout, write_timeout, shutdown_timeout, .. } =
            self.settings;
        let is_idle = tokio::select! {
            biased;
            result = connection.as_mut() => return log_end(result, peer),
            timed_out = activity.timed_out(header_timeout, keepalive_timeout, part_timeout) => {
                if timed_out == ConnectionTimeout::Headers {
                    return debug!(peer = peer.map(display), "closing a connection with incomplete headers");
                }
                true
            }
            () = self.wait_until_draining(activity) => false,
        };
        connection.as_mut().graceful_shutdown();
        // Written bytes are still sent. A client that reads none of them is disconnected.
        let flush_timeout = write_timeout.min(HANDSHAKE_TIMEOUT);
        let abandoned = async {
            if is_idle {
                debug!(
                    peer = peer.map(display),
                    "closing a connection that is idle or does not read its response"
                );
                return sleep(flush_timeout).await;
            }
            sleep(FIRST_REQUEST_TIMEOUT).await;
            if !activity.is_unused() {
                // HTTP/2 ends when the client has acknowledged a PING, which a client that has disappeared
                // never does.
                activity.timed_out(header_timeout, flush_timeout, Some(shutdown_timeout)).await;
            }
        };
        tokio::select! {
            biased;
            result = connection => log_end(result, peer),
            () = abandoned => {}
            () = self.shutdown.reached(Shutdown::Closed) => {}
        }
    }

    /// Waits until the shutdown has begun to close connections; on a connection without a request so far,
    /// [`FIRST_REQUEST_TIMEOUT`] longer.
    async fn wait_until_draining(&self, activity: &Activity) {
        self.shutdown.draining().await;
        // The first request of the connection may be under way.
        if activity.is_unused() {
            sleep(FIRST_REQUEST_TIMEOUT).await;
        }
    }

    /// Handles one request of a connection. During a shutdown, an HTTP/1.1 connection is closed after the
    /// response.
    fn serve_request(
        &self,
        request: Request<Incoming>,
        connection: &Arc<inbound::Connection>,
        activity: &Activity,
    ) -> impl Future<Output = Result<Response<Body>, Infallible>> + use<> {
        let active_request = activity.begin_request();
        let is_http2 = request.version() == Version::HTTP_2;
        let mut request = request.map(|body| activity.watch_request_body(body));
        set_host_header(&mut request);
        let info = RequestInfo::new(Arc::clone(connection), request.headers());
        request.extensions_mut().insert(info);
        let (responding, shutdown) = (self.handler.handle(request), self.shutdown.clone());
        async move {
            let mut response = responding.await;
            if is_http2 {
                return Ok(active_request.watch_response_body(response));
            }
            if shutdown.stage() > Shutdown::Serving {
                // The client or load balancer then opens a new connection for its next request, to the
                // process that replaces this one.
                response.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
            }
            if response.body().size_hint().exact().is_some_and(|length| length <= SHORT_BYTES as u64) {
                yield_before_write().await;
                return Ok(response);
            }
            Ok(active_request.watch_response_body(response))
        }
    }
}

fn log_end(result: hyper::Result<()>, peer: Option<SocketAddr>) {
    if let Err(error) = result {
        debug!(peer = peer.map(display), error = %ErrorChain(&error), "connection ended early");
    }
}

/// Copies the host of the URI to the header `Host`, where the rest of the program reads it. HTTP/2 has the
/// host in the URI, and HTTP/1.1 may (RFC 9112, section 3.2.2). A request with two different hosts gets two
/// values of `Host`, and the request filter rejects it.
fn set_host_header(request: &mut Request<Body>) {
    let Some(authority) = request.uri().authority() else { return };
    if request.method() == http::Method::CONNECT {
        // The authority of a `CONNECT` request is the target of a tunnel.
        return;
    }
    let is_named = |value: &HeaderValue| value.as_bytes().eq_ignore_ascii_case(authority.as_str().as_bytes());
    let headers = request.headers();
    let is_known = headers.contains_key(header::HOST) && headers.get_all(header::HOST).iter().all(is_named);
    if !is_known && let Ok(host) = HeaderValue::from_str(authority.as_str()) {
        request.headers_mut().append(header::HOST, host);
    }
    let path = request.uri().path_and_query().cloned();
    if let Some(path) = path {
        *request.uri_mut() = path.into();
    }
}

/// Handler of all requests of a listener, on any path. Cheap to clone.
#[derive(Clone)]
pub struct HttpHandler(Arc<dyn Fn(Request<Body>) -> BoxFuture<'static, Response<Body>> + Send + Sync>);

impl HttpHandler {
    /// Creates a handler from a function. Dropping the future of a response cancels the request.
    pub fn new<F>(respond: impl Fn(Request<Body>) -> F + Send + Sync + 'static) -> Self
    where
        F: Future<Output = Response<Body>> + Send + 'static,
    {
        Self(Arc::new(move |request| Box::pin(respond(request))))
    }

    /// Creates the handler of the APIs for clients: requests to [`MCP_PATHS`] go to MCP, all others to REST.
    /// Requests are counted and traced.
    pub fn for_clients(rest: RestApi, mcp: McpEndpoint, meters: Meters, tracing: Tracer) -> Self {
        Self::new(move |mut request| {
            let connection = &RequestInfo::from_request(&mut request).connection;
            let scheme = if connection.is_tls { "https" } else { "http" };
            let peer = connection.peer;
            let span = tracing.begin_http_request(&request, scheme, peer);
            RequestInfo::from_request(&mut request).span = span.clone();
            let (method, started) = (request.method().clone(), Instant::now());
            let path = request.uri().path();
            // Clients may be configured with a URL that ends in a slash.
            let is_mcp = MCP_PATHS.contains(&path.strip_suffix('/').unwrap_or(path));
            let (rest, mcp, meters) = (rest.clone(), mcp.clone(), meters.clone());
            async move {
                let response = if is_mcp { mcp.handle(request).await } else { rest.handle(request).await };
                // A request whose client disconnects is not counted; its span ends.
                let status = response.status();
                meters.http_answered(scheme, &method, status, started.elapsed());
                span.number("http.response.status_code", status.as_u16());
                if status.is_server_error() {
                    span.failed(status.as_str().to_owned());
                }
                response
            }
        })
    }

    /// Handles a request, and sets the request id in its response, unless a passthrough response already has
    /// one. Rejects a request whose body length is ambiguous.
    pub fn handle(&self, mut request: Request<Body>) -> impl Future<Output = Response<Body>> + Send + use<> {
        let request_id = RequestInfo::from_request(&mut request).request_id.clone();
        let responding: BoxFuture<'static, _> = match ends_ambiguously(request.headers()) {
            true => Box::pin(ready(reject_ambiguous_end(request))),
            false => (self.0)(request),
        };
        async move {
            let mut response = responding.await;
            response.headers_mut().entry(RequestId::HEADER).or_insert_with(|| request_id.header_value());
            response
        }
    }
}
