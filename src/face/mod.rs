//! The ways in: each turns its own wire into a call and the tool result into its own answer.
//!
//! [`accept`] reads which media types a client takes, [`door`] holds what all HTTP faces ask before they listen, [`guard`] asks who calls, and `standing` whether a stream may stay open; `proxies` knows whose word is taken for who asks; [`mcp`] speaks the Model Context Protocol, [`rest`]
//! plain HTTP; over [`cgi`] both are asked through a web server.

pub mod accept;
pub mod cgi;
pub mod door;
pub mod guard;
pub mod mcp;
mod proxies;
pub mod rest;
mod standing;

use std::{
    fmt::{self, Display},
    net::{IpAddr, SocketAddr},
    sync::Arc,
};

use axum::body::Body;
use http::{Extensions, HeaderMap, HeaderValue, Request, Response, StatusCode, header, request::Parts};
use http_body::Body as _;
use tokio::sync::watch;
use tracing::{debug, info};

use crate::{
    gateway::Face,
    observe::{Foreign, RequestId, Span, method_word},
    tls::ClientCertificate,
    upstream::Caller,
};

pub use proxies::{Network, NotANetwork};

/// The paths of the MCP endpoint.
pub const MCP_PATHS: [&str; 2] = ["/mcp", "/message"];

/// By which connection a request came. `serve` puts it into the extensions of each, one for all of a connection; what is
/// not there is not known.
#[derive(Debug, Default)]
pub struct Arrival {
    /// Who is at the other end.
    pub peer: Option<SocketAddr>,
    /// Whether it came through TLS.
    pub is_tls: bool,
    /// The certificate that was shown, which is one that the listener trusts.
    pub certificate: Option<Arc<ClientCertificate>>,
    /// That the server is about to end.
    pub ending: Option<Ending>,
}

impl Arrival {
    /// That of a request.
    pub fn of(extensions: &Extensions) -> &Self {
        static UNKNOWN: Arrival = Arrival { peer: None, is_tls: false, certificate: None, ending: None };
        extensions.get::<Arc<Self>>().map_or(&UNKNOWN, Arc::as_ref)
    }
}

/// Who sends a request, as [`door`] has found; the one place that says so to calls. Where nobody has said it, the caller is
/// unknown and has no rights.
fn caller_of(parts: &Parts) -> Caller {
    parts.extensions.get().cloned().unwrap_or(Caller::Unknown)
}

/// What is told of a request, where traces are on; `serve` puts it into its extensions.
fn span_of(parts: &Parts) -> Span {
    parts.extensions.get().cloned().unwrap_or_default()
}

/// By which way a request came in that this face answers.
fn came_by(parts: &Parts, own: Face) -> Face {
    parts.extensions.get().copied().unwrap_or(own)
}

/// How far the end of the server has come, for what waits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Shutdown {
    /// It serves.
    Serving,
    /// It serves one request, and then ends.
    OneRequest,
    /// It finishes what is in flight. What would never end by itself ends.
    Begun,
    /// The shutdown timeout is over: what is in flight is answered with an error.
    Overdue,
}

/// That the server is about to end. What would never end by itself ends then.
#[derive(Debug, Clone)]
pub struct Ending(watch::Receiver<Shutdown>);

impl Ending {
    /// As is sent, or, when nothing can be any more, at its end.
    pub fn new(shutdown: watch::Receiver<Shutdown>) -> Self {
        Self(shutdown)
    }

    /// For what serves one request, and then ends: nothing is worth waiting for.
    pub fn at_once() -> Self {
        Self(watch::channel(Shutdown::OneRequest).1)
    }

    /// How far it has come.
    pub fn now(&self) -> Shutdown {
        *self.0.borrow()
    }

    /// Waits for the end to begin.
    pub async fn come(mut self) {
        let _ = self.0.wait_for(|shutdown| *shutdown > Shutdown::Serving).await;
    }

    /// Waits until requests in flight are answered with an error. A server that is gone can't say so.
    pub async fn overdue(mut self) {
        if self.0.wait_for(|shutdown| *shutdown == Shutdown::Overdue).await.is_err() {
            std::future::pending().await
        }
    }
}

/// What a client reads of a request that the end of the server cut off.
const SHUTTING_DOWN: &str = "the server is shutting down and could not finish this request in time; whether it took effect \
                             is not known: check, then send it again";

/// Ready when a request that came by this connection is to be answered with an error, since the server ends.
async fn overdue(extensions: &Extensions) {
    match Arrival::of(extensions).ending.clone() {
        Some(ending) => ending.overdue().await,
        None => std::future::pending().await,
    }
}

/// Says of an answer that it is long and comes in parts, from somewhere else: no more is held of it than is on its way.
#[derive(Debug, Clone, Copy)]
pub struct HandedThrough;

impl HandedThrough {
    /// The longest answer of which that need not be said: all of it may be held.
    pub const SHORT_BYTES: usize = 64 << 10;

    /// Says it of an answer, where it is long.
    pub fn mark(response: &mut Response<Body>) {
        if response.body().size_hint().exact().is_some_and(|length| length > Self::SHORT_BYTES as u64) {
            response.extensions_mut().insert(Self);
        }
    }
}

/// From which address a request was sent, as [`door`] has found.
#[derive(Debug, Clone, Copy)]
struct ClientAddress(IpAddr);

/// The address of the client that sends a request, for the log: where nobody has looked yet, that of the connection.
fn address_of(parts: &Parts) -> Option<IpAddr> {
    let found = parts.extensions.get().map(|ClientAddress(address)| *address);
    found.or_else(|| Arrival::of(&parts.extensions).peer.map(|peer| peer.ip().to_canonical()))
}

/// Why a request was rejected, in words that are the same for every request: what it said itself is for a log at `debug`.
trait Reason: Display {
    fn reason(&self) -> &'static str;
}

/// The log line of a request that no call came of.
fn log_rejection(parts: &Parts, own: Face, status: StatusCode, why: &dyn Reason) {
    let (face, request_id) = (came_by(parts, own).as_str(), RequestId::of_request(parts));
    let name = parts.extensions.get().and_then(Caller::client).map(|client| client.name());
    info!(
        status = status.as_u16(),
        method = method_word(&parts.method),
        path = %Foreign(parts.uri.path()),
        reason = why.reason(),
        client = address_of(parts).map(display),
        client_name = name.map(|name| display(Foreign(name))),
        face,
        %request_id,
        "request rejected"
    );
    if tracing::enabled!(tracing::Level::DEBUG) {
        let error = why.to_string();
        debug!(error = %Foreign(&error), %request_id, "why the request was rejected");
    }
}

/// Whether it can't be said for certain where a request of HTTP/1 ends: it is cut into chunks more than once.
pub fn ends_unclearly(headers: &HeaderMap) -> bool {
    let codings = headers.get_all(header::TRANSFER_ENCODING).iter();
    let is_chunked = |coding: &&[u8]| coding.trim_ascii().eq_ignore_ascii_case(b"chunked");
    let chunked =
        |value: &HeaderValue| value.as_bytes().split(|byte| *byte == b',').filter(is_chunked).count();
    codings.map(chunked).sum::<usize>() > 1
}

/// The answer to such a request (RFC 9112, section 6.1): nothing more is read from its connection.
pub fn refuse_unclear_end(request: Request<Body>) -> Response<Body> {
    let (mut parts, _) = request.into_parts();
    let request_id = RequestId::of_headers(&parts.headers);
    parts.extensions.insert(request_id.clone());
    let status = StatusCode::BAD_REQUEST;
    log_rejection(&parts, Face::Rest, status, &UnclearEnd);
    let mut response = Response::new(Body::from(format!(r#"{{"error":"{UnclearEnd}"}}"#)));
    *response.status_mut() = status;
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    headers.insert(header::CONNECTION, HeaderValue::from_static("close"));
    headers.insert(RequestId::HEADER, request_id.header_value());
    response
}

/// Why such a request is rejected.
struct UnclearEnd;

impl Reason for UnclearEnd {
    fn reason(&self) -> &'static str {
        "more than one `chunked`"
    }
}

impl Display for UnclearEnd {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("the request's `Transfer-Encoding` says `chunked` more than once")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::route::Scopes;

    #[test]
    fn a_request_without_an_identity_has_no_rights() {
        let (mut head, ()) = Request::get("/").body(()).unwrap().into_parts();
        let write = Scopes::new(["write"]).unwrap();
        assert!(!caller_of(&head).may(&write) && caller_of(&head).may(&Scopes::default()));
        head.extensions.insert(Caller::Only);
        assert!(caller_of(&head).may(&write), "who started the process may do everything in it");
    }
}
