//! The handler of all requests of a port: routes them to their APIs, counts and traces them.

use std::{
    future::{Future, ready},
    net::SocketAddr,
    sync::Arc,
    time::Instant,
};

use axum::body::Body;
use futures_util::future::BoxFuture;
use http::{HeaderValue, Request, Response, Version, header, uri::Authority};

use crate::inbound::filter::{ends_ambiguously, reject_ambiguous_end};
use crate::inbound::mcp::McpEndpoint;
use crate::inbound::rest::RestApi;
use crate::inbound::{MCP_PATHS, RequestInfo};
use crate::route::TraceContext;
use crate::telemetry::{Meters, RequestId, Span, SpanKind, Tracer, method_label};

/// Handler of every request of a port, on any path. Cheap to clone.
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

    /// Creates the handler of the APIs for clients: [`MCP_PATHS`] lead to MCP, all others to REST. Requests
    /// are counted and traced.
    pub fn for_clients(rest: RestApi, mcp: McpEndpoint, meters: Meters, tracing: Tracer) -> Self {
        Self::new(move |mut request| {
            let connection = Arc::clone(&RequestInfo::from_request(&mut request).connection);
            let scheme = if connection.is_tls { "https" } else { "http" };
            let span = begin_span(&mut request, &tracing, scheme, connection.peer);
            let (method, started) = (request.method().clone(), Instant::now());
            let path = request.uri().path();
            // Clients may be configured with a slash at the end of the URL.
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

    /// Handles a request, and sets the request id in its response, unless a passthrough response has one. A
    /// request whose end is ambiguous is rejected.
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

/// Maximum length of `User-Agent` in a span, in characters.
const USER_AGENT_LIMIT: usize = 200;

/// Starts the span of a request (semantic conventions for HTTP servers), and puts it into the request. The
/// query is omitted, as it may contain arguments.
fn begin_span(
    request: &mut Request<Body>,
    tracing: &Tracer,
    scheme: &'static str,
    peer: Option<SocketAddr>,
) -> Span {
    if !tracing.is_on() {
        return Span::default();
    }
    let parent = TraceContext::from_headers(request.headers());
    let span = tracing.begin(SpanKind::Server, method_label(request.method()), parent.as_ref());
    RequestInfo::from_request(request).span = span.clone();
    if !span.is_recorded() {
        return span;
    }
    span.text("http.request.method", method_label(request.method()));
    span.text("url.scheme", scheme);
    span.text("url.path", request.uri().path().to_owned());
    let text = |name| request.headers().get(name).map(HeaderValue::to_str).and_then(Result::ok);
    if let Some(host) = text(header::HOST).and_then(|host| host.parse::<Authority>().ok()) {
        span.text("server.address", host.host().to_owned());
        if let Some(port) = host.port_u16() {
            span.number("server.port", port);
        }
    }
    if let Some(agent) = text(header::USER_AGENT) {
        span.text("user_agent.original", agent.chars().take(USER_AGENT_LIMIT).collect::<String>());
    }
    if let Some(peer) = peer {
        span.text("network.peer.address", peer.ip().to_canonical().to_string());
    }
    let version = match request.version() {
        Version::HTTP_10 => "1.0",
        Version::HTTP_2 => "2",
        _ => "1.1",
    };
    span.text("network.protocol.version", version);
    span
}
