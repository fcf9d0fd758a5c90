//! What a legacy server answered: status, headers, body. Plain data, already read to its limit.

use bytes::Bytes;
use http::{HeaderMap, StatusCode, header};

/// One reply of an upstream, whole.
///
/// The body is as it came over the wire, transfer framing removed; charset and meaning are the business of
/// [`rule`](crate::rule).
#[derive(Debug, Clone)]
pub struct Reply {
    /// The status line's code.
    pub status: StatusCode,
    /// All headers, hop-by-hop ones included; nothing here crosses to a client unless a rule says so.
    pub headers: HeaderMap,
    /// The body's bytes.
    pub body: Bytes,
}

impl Reply {
    /// The media type without parameters, lower case: `text/plain` of `Text/Plain; charset=utf-8`.
    pub fn media_type(&self) -> Option<String> {
        let value = self.headers.get(header::CONTENT_TYPE)?.to_str().ok()?;
        let essence = value.split(';').next()?.trim();
        (!essence.is_empty()).then(|| essence.to_ascii_lowercase())
    }

    /// The `charset` parameter of `Content-Type`, without quotes.
    pub fn charset(&self) -> Option<&str> {
        let value = self.headers.get(header::CONTENT_TYPE)?.to_str().ok()?;
        value.split(';').skip(1).find_map(|parameter| {
            let (name, value) = parameter.split_once('=')?;
            name.trim().eq_ignore_ascii_case("charset").then(|| value.trim().trim_matches('"'))
        })
    }
}
