//! APIs for clients: each decodes its requests into calls and encodes tool results.
//!
//! - [`context`]: a request's connection and client, and its rejection.
//! - [`filter`]: the request filter (proxies, CORS, bodies), with the rules of `host_origin`.
//! - [`authenticate`]: identification of the client; [`accept`]: content negotiation.
//! - [`mcp`], [`rest`], and [`cgi`] for both behind a web server.

pub mod accept;
pub mod authenticate;
pub mod cgi;
pub mod context;
pub mod filter;
mod host_origin;
pub mod mcp;
pub mod rest;

use axum::body::Body;
use http::Response;
use http_body::Body as _;
use serde_json::Value;

use self::authenticate::{AuthenticatedClient, Authenticator};
use self::context::{LoggedRequest, Rejection, RequestContext};
use self::filter::{CrossOriginPage, Filter, ProtectedPort};

pub use context::{Connection, Shutdown, ShutdownSignal, UnauthenticatedRequest};
pub use filter::parse_network;

/// The paths of the MCP endpoint.
pub const MCP_PATHS: [&str; 2] = ["/mcp", "/message"];

/// The text for a client whose request was cut off by a shutdown.
fn cut_off_by_shutdown(may_have_effect: bool) -> &'static str {
    match may_have_effect {
        true => {
            "the server is shutting down and did not finish this request in time. It may have taken effect: \
             check before you retry"
        }
        false => {
            "the server is shutting down and did not finish this request in time; retry in a few seconds"
        }
    }
}

/// The text for a client whose request is not served because of a shutdown.
const SHUTTING_DOWN: &str = "the server is shutting down and does not serve this request; retry in a few \
                             seconds";

/// A JSON object without the members that are `null`.
fn without_nulls(mut object: Value) -> Value {
    object.as_object_mut().into_iter().for_each(|members| members.retain(|_, value| !value.is_null()));
    object
}

/// Marks a long response that is streamed from an upstream: only the part of it in transit is in memory.
#[derive(Debug, Clone, Copy)]
pub struct StreamedPassthrough;

impl StreamedPassthrough {
    /// Limit of responses that are not marked: all of one may be in memory.
    pub const SHORT_BYTES: usize = 64 << 10;

    /// Marks a response, if it is long.
    pub fn mark(response: &mut Response<Body>) {
        if response.body().size_hint().exact().is_some_and(|length| length > Self::SHORT_BYTES as u64) {
            response.extensions_mut().insert(Self);
        }
    }
}
