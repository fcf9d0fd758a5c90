//! Complete response of an upstream: status, headers, and body up to its limit. The response of a program
//! also has its exit status or signal ([`ProgramExit`]).

use std::borrow::Cow;

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, StatusCode, header};

use super::{param_headers::is_tchar, program_exit::ProgramExit};

/// Complete response of an upstream.
///
/// The body contains the bytes as transferred, without chunked encoding; [`translate`](crate::translate)
/// decodes its content encoding and charset.
#[derive(Debug, Clone)]
pub struct UpstreamResponse {
    /// HTTP status code.
    pub status: StatusCode,
    /// All end-to-end headers; clients get only the headers that a rule includes.
    pub headers: HeaderMap,
    /// Bytes of the body.
    pub body: Bytes,
    /// Exit of the program that wrote the output; `None` for the response of a server.
    pub exit: Option<Box<ProgramExit>>,
    /// Exit and standard error of the CGI program that sent the response, for the log only.
    pub cgi_exit: Option<Box<ProgramExit>>,
    /// Whether the response of an MCP server rejects the session, so that the server has not processed the
    /// request.
    pub rejects_session: bool,
    /// Whether `status` is meaningful. A message of an MCP server over stdio has no HTTP status.
    pub has_status: bool,
}

impl UpstreamResponse {
    /// Creates the response of a server.
    pub fn new(status: StatusCode, headers: HeaderMap, body: Bytes) -> Self {
        Self { status, headers, body, exit: None, cgi_exit: None, rejects_session: false, has_status: true }
    }

    /// Creates a response from the output and exit of a program.
    pub fn from_program(output: Bytes, exit: ProgramExit) -> Self {
        let response = Self::new(exit.end.http_status(), HeaderMap::new(), output);
        Self { exit: Some(Box::new(exit)), ..response }
    }

    /// Returns the media type without parameters, in lower case: `text/plain` for `Text/Plain;
    /// charset=utf-8`. `None` if `Content-Type` is missing or invalid (RFC 9110, section 8.3.1).
    pub fn media_type(&self) -> Option<Cow<'_, str>> {
        self.headers.get(header::CONTENT_TYPE).and_then(media_type)
    }

    /// Returns `Retry-After` in seconds; `None` if it is a date or missing.
    pub fn retry_after_seconds(&self) -> Option<u32> {
        self.headers.get(header::RETRY_AFTER)?.to_str().ok()?.trim().parse().ok()
    }

    /// Returns the `charset` parameter of `Content-Type`, without quotes.
    pub fn charset(&self) -> Option<&str> {
        let value = self.headers.get(header::CONTENT_TYPE)?;
        value.to_str().ok()?.split(';').skip(1).find_map(|parameter| {
            let (name, value) = parameter.split_once('=')?;
            name.trim().eq_ignore_ascii_case("charset").then(|| value.trim().trim_matches('"'))
        })
    }
}

/// Returns the media type in a `Content-Type`, like [`UpstreamResponse::media_type`].
pub fn media_type(content_type: &HeaderValue) -> Option<Cow<'_, str>> {
    /// Maximum length of a media type; registered media types are shorter (RFC 6838, section 4.2).
    const MAX_BYTES: usize = 255;
    let is_token = |part: &[u8]| !part.is_empty() && part.iter().copied().all(is_tchar);
    let essence = content_type.as_bytes().split(|byte| *byte == b';').next()?.trim_ascii();
    let slash = essence.iter().position(|byte| *byte == b'/')?;
    if essence.len() > MAX_BYTES || !is_token(&essence[..slash]) || !is_token(&essence[slash + 1..]) {
        return None;
    }
    let essence = str::from_utf8(essence).ok()?;
    Some(match essence.bytes().any(|byte| byte.is_ascii_uppercase()) {
        true => essence.to_ascii_lowercase().into(),
        false => essence.into(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::ProgramEnd;

    #[test]
    fn a_program_response_has_an_http_status() {
        let response =
            |end| UpstreamResponse::from_program(Bytes::new(), ProgramExit { end, stderr: Bytes::new() });
        assert_eq!(response(ProgramEnd::Code(0)).status, 200);
        assert_eq!(response(ProgramEnd::Code(1)).status, 500);
        assert_eq!(response(ProgramEnd::Signal(9)).status, 500);
    }
}
