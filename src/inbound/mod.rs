//! APIs for clients: each decodes its requests into calls and encodes tool results.
//!
//! - [`context`]: the context of a request.
//! - [`door`]: the request filter: Host, Origin, sizes, CORS.
//! - [`authenticate`]: identification of the client; `proxies`: trusted proxies; [`accept`]: content
//!   negotiation.
//! - [`mcp`], [`rest`], and [`cgi`] for both behind a web server.

pub mod accept;
pub mod authenticate;
pub mod cgi;
pub mod context;
pub mod door;
pub mod mcp;
mod proxies;
pub mod rest;

use std::fmt::{self, Display};

use axum::body::Body;
use http::{HeaderMap, HeaderValue, Request, Response, StatusCode, header};
use http_body::Body as _;

use crate::{pipeline::Face, telemetry::RequestId};

use context::Reason;
pub use context::{Arrival, Connection, Ending, Shutdown};
pub use proxies::parse_network;

/// The paths of the MCP endpoint.
pub const MCP_PATHS: [&str; 2] = ["/mcp", "/message"];

/// What a client reads of a request that the end of the server cut off.
const SHUTTING_DOWN: &str = "the server is shutting down and could not finish this request in time; whether it took effect \
                             is not known: check, then send it again";

/// Says of an answer that it is long and comes in parts, from somewhere else: no more is held of it than is
/// on its way.
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
    let arrival = Arrival::take(&mut parts, Face::Rest);
    let status = StatusCode::BAD_REQUEST;
    arrival.logged(&parts).rejected(status, &UnclearEnd);
    let mut response = Response::new(Body::from(format!(r#"{{"error":"{UnclearEnd}"}}"#)));
    *response.status_mut() = status;
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    headers.insert(header::CONNECTION, HeaderValue::from_static("close"));
    headers.insert(RequestId::HEADER, arrival.request_id.header_value());
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
