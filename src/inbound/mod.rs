//! APIs for clients: each decodes requests into calls, and encodes the results of tools.
//!
//! - [`request_context`]: connection and client of a request, and its rejection.
//! - [`filter`]: the request filter (trusted proxies, limits of bodies), with `host_origin` and `cors`.
//! - [`authenticate`]: identification of the client; [`media_ranges`]: content negotiation.
//! - [`mcp`], [`rest`], and [`cgi`], which serves both behind a web server.

pub mod authenticate;
pub mod cgi;
mod cors;
pub mod filter;
mod host_origin;
pub mod mcp;
pub mod request_context;
pub mod rest;

use axum::body::Body;
use http::{HeaderMap, Response, header};
use http_body::Body as _;
use serde_json::Value;

use self::authenticate::{AuthenticatedClient, Authenticator};
use self::cors::CrossOriginPage;
use self::filter::{Filter, ProtectedPort};
use self::request_context::{LoggedRequest, Rejection, RequestContext};

pub use filter::parse_network;
pub use host_origin::{HostPattern, OriginPattern};
pub use request_context::{CANCEL_TIMEOUT, Connection, RequestInfo, Shutdown, ShutdownSignal};

/// The paths of the MCP endpoint.
pub const MCP_PATHS: [&str; 2] = ["/mcp", "/message"];

/// Error message for a request that is not served because of a shutdown.
const SHUTTING_DOWN: &str =
    "the server is shutting down and did not serve this request; retry in a few seconds";

/// Error message for a request that was cut off by a shutdown.
fn cut_off_by_shutdown(may_have_effect: bool) -> &'static str {
    match may_have_effect {
        true => {
            "the server is shutting down and did not finish this request in time. It may have taken effect: \
             check before you retry"
        }
        false => SHUTTING_DOWN,
    }
}

/// Removes the members of a JSON object that are `null`.
pub fn without_nulls(mut object: Value) -> Value {
    object.as_object_mut().into_iter().for_each(|members| members.retain(|_, value| !value.is_null()));
    object
}

/// Response extension that marks a long response streamed from an upstream. Only the part in transit is in
/// memory.
#[derive(Debug, Clone, Copy)]
pub struct StreamedPassthrough;

impl StreamedPassthrough {
    /// Maximum length of a response that may be in memory as a whole, in bytes. Longer responses are
    /// streamed.
    pub const SHORT_BYTES: usize = 64 << 10;

    /// Marks a response whose length is known, if it is longer than [`Self::SHORT_BYTES`].
    pub fn mark(response: &mut Response<Body>) {
        if response.body().size_hint().exact().is_some_and(|length| length > Self::SHORT_BYTES as u64) {
            response.extensions_mut().insert(Self);
        }
    }
}

/// A media range with its weight.
#[derive(Debug, Clone, Copy)]
pub struct MediaRange<'a> {
    /// The range without parameters, such as `text/*`.
    essence: &'a [u8],
    /// The weight (`q`), from 0 (not acceptable) to 1. An unparseable weight is 0.
    pub weight: f32,
}

/// Parses the media ranges of all `Accept` headers (RFC 9110, section 12.5.1).
pub fn media_ranges(headers: &HeaderMap) -> impl Iterator<Item = MediaRange<'_>> {
    let values = headers.get_all(header::ACCEPT).iter();
    let ranges = values.flat_map(|value| value.as_bytes().split(|byte| *byte == b','));
    ranges.map(<[u8]>::trim_ascii).filter(|range| !range.is_empty()).map(MediaRange::parse)
}

/// Whether the `Accept` headers of a client allow a media type; `false` without these headers. The most
/// specific matching range decides: `text/plain;q=0, */*` accepts everything except `text/plain`.
pub fn accepts(headers: &HeaderMap, media_type: &str) -> bool {
    let ranges = media_ranges(headers).filter_map(|range| Some((range.specificity(media_type)?, range)));
    ranges.max_by_key(|(specificity, _)| *specificity).is_some_and(|(_, range)| range.weight > 0.0)
}

impl<'a> MediaRange<'a> {
    fn parse(range: &'a [u8]) -> Self {
        let mut parts = range.split(|byte| *byte == b';').map(<[u8]>::trim_ascii);
        let essence = parts.next().unwrap_or_default();
        let weight = parts.find_map(|parameter| {
            let (name, value) = str::from_utf8(parameter).ok()?.split_once('=')?;
            name.trim().eq_ignore_ascii_case("q").then(|| value.trim().parse().unwrap_or(0.0))
        });
        Self { essence, weight: weight.unwrap_or(1.0) }
    }

    /// Whether the range is exactly this media type, without wildcards.
    pub fn is_exactly(&self, media_type: &str) -> bool {
        self.essence.eq_ignore_ascii_case(media_type.as_bytes())
    }

    /// Specificity with which the range matches a media type: 2 for the type itself, 1 for `type/*`, 0 for
    /// `*/*`. `None` if it does not match.
    fn specificity(&self, media_type: &str) -> Option<u8> {
        if self.is_exactly(media_type) {
            return Some(2);
        }
        let (range, (kind, _)) = (self.essence.strip_suffix(b"/*")?, media_type.split_once('/')?);
        if range.eq_ignore_ascii_case(kind.as_bytes()) { Some(1) } else { (range == b"*").then_some(0) }
    }
}
