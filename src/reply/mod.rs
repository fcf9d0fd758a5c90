//! What a legacy server answered: status, headers, body. Plain data, already read to its limit. Of a program also how it
//! ended: [`Exit`].
//!
//! `recording` reads replies that were kept in files: as `curl -i` prints them, or a body alone; `har` those that a
//! browser kept.

mod exit;
mod har;
mod recording;

use std::borrow::Cow;

use bytes::Bytes;
use http::{HeaderMap, StatusCode, header};

pub use self::{
    exit::{End, EndError, Exit},
    har::{Exchange, HarError},
    recording::{Choice, Recording, RecordingError},
};

/// One reply of an upstream, whole.
///
/// The body is as it came over the wire, transfer framing removed; charset and meaning are the business of
/// [`rule`](crate::translate).
#[derive(Debug, Clone)]
pub struct Reply {
    /// The status line's code.
    pub status: StatusCode,
    /// All headers but those of one hop; nothing here crosses to a client unless a rule says so.
    pub headers: HeaderMap,
    /// The body's bytes.
    pub body: Bytes,
    /// How the program ended whose output this is; `None` of what a server answered.
    pub exit: Option<Box<Exit>>,
    /// How the CGI program ended that answered, and what it said beside its answer. For the log only.
    pub beside: Option<Box<Exit>>,
}

impl Reply {
    /// What a server answered.
    pub fn new(status: StatusCode, headers: HeaderMap, body: Bytes) -> Self {
        Self { status, headers, body, exit: None, beside: None }
    }

    /// The media type without parameters, lower case: `text/plain` of `Text/Plain; charset=utf-8`. `None` when
    /// there is none, or what stands there is none (RFC 9110, section 8.3.1).
    pub fn media_type(&self) -> Option<Cow<'_, str>> {
        /// Longer than any that is registered (RFC 6838, section 4.2).
        const LONGEST_BYTES: usize = 255;
        let value = self.headers.get(header::CONTENT_TYPE)?;
        let value = value.to_str().ok()?;
        let essence = value.split(';').next()?.trim();
        // RFC 9110, section 5.6.2.
        let is_of_token = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
        let is_token = |part: &str| !part.is_empty() && part.bytes().all(is_of_token);
        let (kind, subtype) = essence.split_once('/')?;
        let good = is_token(kind) && is_token(subtype) && essence.len() <= LONGEST_BYTES;
        good.then(|| match essence.bytes().any(|byte| byte.is_ascii_uppercase()) {
            true => essence.to_ascii_lowercase().into(),
            false => essence.into(),
        })
    }

    /// The `charset` parameter of `Content-Type`, without quotes.
    pub fn charset(&self) -> Option<&str> {
        let value = self.headers.get(header::CONTENT_TYPE)?;
        if !value.as_bytes().contains(&b';') {
            return None;
        }
        value.to_str().ok()?.split(';').skip(1).find_map(|parameter| {
            let (name, value) = parameter.split_once('=')?;
            name.trim().eq_ignore_ascii_case("charset").then(|| value.trim().trim_matches('"'))
        })
    }
}
