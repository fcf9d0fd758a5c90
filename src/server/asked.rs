//! One request that is being answered: counted, and told of in traces by the semantic conventions for HTTP servers.

use std::{net::SocketAddr, sync::Arc, time::Instant};

use axum::body::Body;
use http::{HeaderValue, Method, Request, Response, Version, header, uri::Authority};

use crate::{
    inbound::Arrival,
    route::TraceContext,
    telemetry::{Meters, Span, SpanKind, Tracing, method_word},
};

/// How much of what a client calls itself is told, in characters.
const USER_AGENT_LIMIT: usize = 200;

/// A request that is being answered. One whose client leaves is not counted; its span ends.
pub(super) struct Asked<'a> {
    meters: &'a Meters,
    span: Span,
    method: Method,
    scheme: &'static str,
    begun: Instant,
}

impl<'a> Asked<'a> {
    /// Begins with a request, and leaves its span in it.
    pub(super) fn of(request: &mut Request<Body>, (meters, tracing): &'a (Meters, Tracing)) -> Self {
        let connection = Arc::clone(&Arrival::of(request).connection);
        let scheme = if connection.is_tls { "https" } else { "http" };
        let mut span = Span::default();
        if tracing.is_on() {
            let parent = TraceContext::of_headers(request.headers());
            span = tracing.begin(SpanKind::Server, method_word(request.method()), parent.as_ref());
            if span.is_recorded() {
                tell(&span, request, scheme, connection.peer);
            }
            Arrival::of(request).span = span.clone();
        }
        Self { meters, span, method: request.method().clone(), scheme, begun: Instant::now() }
    }

    pub(super) fn answered(self, response: Response<Body>) -> Response<Body> {
        let status = response.status();
        self.meters.http_answered(self.scheme, &self.method, status, self.begun.elapsed());
        self.span.number("http.response.status_code", status.as_u16());
        if status.is_server_error() {
            self.span.failed(status.as_str().to_owned());
        }
        response
    }
}

/// The query is left out: arguments may be in it.
fn tell(span: &Span, request: &Request<Body>, scheme: &'static str, peer: Option<SocketAddr>) {
    span.text("http.request.method", method_word(request.method()));
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
