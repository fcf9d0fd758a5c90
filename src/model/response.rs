//! Complete response of an upstream: status, headers, and body up to its limit. The response of a program
//! also has its exit status or signal ([`ProgramExit`]).

use std::{borrow::Cow, fmt, str::FromStr};

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, StatusCode, header};

use super::param_headers::is_tchar;

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
    /// Whether the response had an HTTP status. A message of an MCP server over stdio has none.
    pub has_status: bool,
}

impl UpstreamResponse {
    /// Creates the response of a server.
    pub fn new(status: StatusCode, headers: HeaderMap, body: Bytes) -> Self {
        Self { status, headers, body, exit: None, cgi_exit: None, rejects_session: false, has_status: true }
    }

    /// Creates a response from the output and exit of a program. The HTTP status is 200 for exit status 0,
    /// else 500.
    pub fn from_program(output: Bytes, exit: ProgramExit) -> Self {
        let is_success = exit.end.is_success();
        let status = if is_success { StatusCode::OK } else { StatusCode::INTERNAL_SERVER_ERROR };
        Self { exit: Some(Box::new(exit)), ..Self::new(status, HeaderMap::new(), output) }
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

/// Exit of a program: status or signal, and standard error.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProgramExit {
    /// Exit status, or the signal that terminated the program.
    pub end: ProgramEnd,
    /// Last part of standard error, up to a limit.
    pub stderr: Bytes,
}

/// How a program ended: exit status or signal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ProgramEnd {
    /// The program exited with this status.
    Code(i32),
    /// The program was terminated by the signal with this number.
    Signal(i32),
}

/// Error for a string that is not a valid [`ProgramEnd`].
const EXPECTED_END: &str = "expected an exit status from 0 to 255, or the name of a signal such as `SIGKILL`";

/// Names of the signals that have the same number on every Unix, by number; empty for other numbers.
const SIGNALS: [&str; 16] = [
    "", "HUP", "INT", "QUIT", "ILL", "TRAP", "ABRT", "", "FPE", "KILL", "", "SEGV", "", "PIPE", "ALRM",
    "TERM",
];

impl ProgramExit {
    /// Returns standard error as text, with `�` in place of invalid UTF-8.
    pub fn stderr_text(&self) -> Cow<'_, str> {
        String::from_utf8_lossy(&self.stderr)
    }
}

impl ProgramEnd {
    /// Whether the exit status is 0.
    pub fn is_success(self) -> bool {
        self == Self::Code(0)
    }

    /// Returns the exit status as a number, or the name of the signal.
    pub fn to_json(self) -> serde_json::Value {
        match self {
            Self::Code(code) => code.into(),
            Self::Signal(_) => self.to_string().into(),
        }
    }

    /// Describes the end as a phrase for a sentence: `exit status 2`, `signal SIGKILL`.
    pub fn describe(self) -> String {
        match self {
            Self::Code(_) => format!("exit status {self}"),
            Self::Signal(_) => format!("signal {self}"),
        }
    }
}

/// Formats `2` or `SIGKILL`; `SIG34` for a signal whose name depends on the system.
impl fmt::Display for ProgramEnd {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Code(code) => write!(formatter, "{code}"),
            Self::Signal(number) => {
                let name = usize::try_from(*number).ok().and_then(|number| SIGNALS.get(number));
                match name.filter(|name| !name.is_empty()) {
                    Some(name) => write!(formatter, "SIG{name}"),
                    None => write!(formatter, "SIG{number}"),
                }
            }
        }
    }
}

impl FromStr for ProgramEnd {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, &'static str> {
        let Some(name) = text.strip_prefix("SIG") else {
            return text.parse::<u8>().map(|code| Self::Code(code.into())).map_err(|_| EXPECTED_END);
        };
        let known = (1..).zip(&SIGNALS[1..]).find(|(_, known)| !name.is_empty() && **known == name);
        let number = known.map(|(number, _)| number).or_else(|| name.parse().ok());
        number.filter(|number| (1..=64).contains(number)).map(Self::Signal).ok_or(EXPECTED_END)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ends_are_written_as_they_are_read() {
        for text in ["0", "2", "255", "SIGKILL", "SIGTERM", "SIG34"] {
            assert_eq!(text.parse::<ProgramEnd>().unwrap().to_string(), text);
        }
        assert_eq!("SIG9".parse(), Ok(ProgramEnd::Signal(9)));
        for text in ["", "256", "-1", "KILL", "SIG", "SIGNONE", "SIG0", "two"] {
            assert_eq!(text.parse::<ProgramEnd>(), Err(EXPECTED_END), "{text}");
        }
    }

    #[test]
    fn a_program_response_has_an_http_status() {
        let response =
            |end| UpstreamResponse::from_program(Bytes::new(), ProgramExit { end, stderr: Bytes::new() });
        assert_eq!(response(ProgramEnd::Code(0)).status, 200);
        assert_eq!(response(ProgramEnd::Code(1)).status, 500);
        assert_eq!(response(ProgramEnd::Signal(9)).status, 500);
    }
}
