//! The handler of all requests of a port: routes them to their APIs, counts and traces them.

use std::{fmt, future::Future, net::SocketAddr, pin::Pin, sync::Arc, time::Instant};

use axum::body::Body;
use http::{HeaderValue, Method, Request, Response, Version, header, uri::Authority};

use crate::{
    inbound::{MCP_PATHS, UnauthenticatedRequest, mcp::McpEndpoint, rest::RestApi},
    route::TraceContext,
    telemetry::{Meters, Span, SpanKind, Tracer, method_label},
};

type ResponseFuture = Pin<Box<dyn Future<Output = Response<Body>> + Send>>;

/// Handler of every request of a port, on any path. Cheap to clone.
#[derive(Clone)]
pub struct HttpHandler(Arc<dyn Fn(Request<Body>) -> ResponseFuture + Send + Sync>);

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
        let apis = Arc::new(ClientApis { rest, mcp, meters, tracing });
        Self(Arc::new(move |request| Arc::clone(&apis).route(request)))
    }

    /// Handles a request.
    pub fn handle(&self, request: Request<Body>) -> impl Future<Output = Response<Body>> + Send + use<> {
        (self.0)(request)
    }
}

impl fmt::Debug for HttpHandler {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("HttpHandler")
    }
}

/// The APIs for clients, with the metrics and traces of their requests.
struct ClientApis {
    rest: RestApi,
    mcp: McpEndpoint,
    meters: Meters,
    tracing: Tracer,
}

impl ClientApis {
    fn route(self: Arc<Self>, mut request: Request<Body>) -> ResponseFuture {
        let observed = ObservedRequest::begin(&mut request, &self.tracing);
        let path = request.uri().path();
        // Clients may be configured with a slash at the end of the URL.
        let is_mcp = MCP_PATHS.contains(&path.strip_suffix('/').unwrap_or(path));
        pin_in_box!(async move {
            let response =
                if is_mcp { self.mcp.handle(request).await } else { self.rest.handle(request).await };
            observed.end(response, &self.meters)
        })
    }
}

/// Maximum length of `User-Agent` in a span, in characters.
const USER_AGENT_LIMIT: usize = 200;

/// Metrics and span of a request (semantic conventions for HTTP servers). A request whose client disconnects
/// is not counted; its span ends.
struct ObservedRequest {
    span: Span,
    method: Method,
    scheme: &'static str,
    started: Instant,
}

impl ObservedRequest {
    /// Starts the measurement, and puts the span into the request.
    fn begin(request: &mut Request<Body>, tracing: &Tracer) -> Self {
        let connection = Arc::clone(&UnauthenticatedRequest::from_request(request).connection);
        let scheme = if connection.is_tls { "https" } else { "http" };
        let mut span = Span::default();
        if tracing.is_on() {
            let parent = TraceContext::from_headers(request.headers());
            span = tracing.begin(SpanKind::Server, method_label(request.method()), parent.as_ref());
            if span.is_recorded() {
                describe(&span, request, scheme, connection.peer);
            }
            UnauthenticatedRequest::from_request(request).span = span.clone();
        }
        Self { span, method: request.method().clone(), scheme, started: Instant::now() }
    }

    fn end(self, response: Response<Body>, meters: &Meters) -> Response<Body> {
        let status = response.status();
        meters.http_answered(self.scheme, &self.method, status, self.started.elapsed());
        self.span.number("http.response.status_code", status.as_u16());
        if status.is_server_error() {
            self.span.failed(status.as_str().to_owned());
        }
        response
    }
}

/// Sets the attributes of a span. The query is omitted, as it may contain arguments.
fn describe(span: &Span, request: &Request<Body>, scheme: &'static str, peer: Option<SocketAddr>) {
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
}
