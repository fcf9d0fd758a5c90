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
    /// All headers but those of one hop; nothing here crosses to a client unless a rule says so.
    pub headers: HeaderMap,
    /// The body's bytes.
    pub body: Bytes,
}

impl Reply {
    /// The media type without parameters, lower case: `text/plain` of `Text/Plain; charset=utf-8`. `None` when
    /// there is none, or what stands there is none (RFC 9110, section 8.3.1).
    pub fn media_type(&self) -> Option<String> {
        /// Longer than any that is registered (RFC 6838, section 4.2).
        const LONGEST_BYTES: usize = 255;
        let value = self.headers.get(header::CONTENT_TYPE)?.to_str().ok()?;
        let essence = value.split(';').next()?.trim();
        let is_token = |part: &str| {
            let is_token_byte = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
            !part.is_empty() && part.bytes().all(is_token_byte)
        };
        let (kind, subtype) = essence.split_once('/')?;
        let good = is_token(kind) && is_token(subtype) && essence.len() <= LONGEST_BYTES;
        good.then(|| essence.to_ascii_lowercase())
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

/// Why a recording is no reply.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RecordingError {
    /// The first line is not `HTTP/1.1 200 OK` or the like.
    #[error("expected a status line such as `HTTP/1.1 200 OK`, found `{0}`")]
    StatusLine(String),
    /// A line of the head is no header.
    #[error("line {line}: expected a header such as `Content-Type: text/plain`, found `{found}`")]
    Header {
        /// Which line, from 1.
        line: usize,
        /// What it is.
        found: String,
    },
    /// The head has no end.
    #[error("expected an empty line between headers and body, found none")]
    NoEnd,
}

impl Reply {
    /// Reads a recorded reply, as `curl -i` prints it: status line, headers, an empty line, the body.
    ///
    /// Lines of the head may end in LF or CR LF. Where several heads follow each other (redirects, `100
    /// Continue`), the last counts. Bytes that do not begin with `HTTP/` are a body alone, of status 200.
    ///
    /// # Errors
    ///
    /// [`RecordingError`] when the head can't be read.
    pub fn from_recording(recording: &Bytes) -> Result<Self, RecordingError> {
        let mut rest = recording.clone();
        let mut reply = Self { status: StatusCode::OK, headers: HeaderMap::new(), body: rest.clone() };
        while rest.starts_with(b"HTTP/") {
            reply = Self::read_head(&mut rest)?;
            reply.body = rest.clone();
        }
        Ok(reply)
    }

    fn read_head(rest: &mut Bytes) -> Result<Self, RecordingError> {
        let status_line = take_line(rest).unwrap_or_default();
        let code = status_line.split_ascii_whitespace().nth(1).and_then(|code| code.parse::<u16>().ok());
        let status = code.and_then(|code| StatusCode::from_u16(code).ok());
        let status = status.ok_or_else(|| RecordingError::StatusLine(status_line.clone()))?;
        let mut headers = HeaderMap::new();
        for number in 2.. {
            let line = take_line(rest).ok_or(RecordingError::NoEnd)?;
            if line.is_empty() {
                break;
            }
            let header = line.split_once(':').and_then(|(name, value)| {
                let name = name.parse::<header::HeaderName>().ok()?;
                Some((name, value.trim().parse::<header::HeaderValue>().ok()?))
            });
            let Some((name, value)) = header else {
                return Err(RecordingError::Header { line: number, found: line });
            };
            headers.append(name, value);
        }
        Ok(Self { status, headers, body: Bytes::new() })
    }
}

/// The next line of a head, without its end; `None` where there is no whole line left.
fn take_line(rest: &mut Bytes) -> Option<String> {
    let end = rest.iter().position(|byte| *byte == b'\n')?;
    let line = rest.split_to(end + 1);
    let line = line.strip_suffix(b"\n").unwrap_or(&line);
    let line = line.strip_suffix(b"\r").unwrap_or(line);
    Some(String::from_utf8_lossy(line).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_recording_is_read_as_curl_prints_it() {
        let recording = b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 404 Not Found\r\nContent-Type: Text/Plain; charset=\"latin1\"\nX: a:b\r\n\r\nno\r\n\r\nsuch";
        let reply = Reply::from_recording(&Bytes::from_static(recording)).unwrap();
        assert_eq!(reply.status, 404);
        assert_eq!(reply.headers["x"], "a:b");
        assert_eq!(reply.media_type().as_deref(), Some("text/plain"));
        assert_eq!(reply.charset(), Some("latin1"));
        assert_eq!(reply.body, "no\r\n\r\nsuch");
    }

    #[test]
    fn a_body_alone_is_a_success_and_a_broken_head_is_told() {
        assert_eq!(Reply::from_recording(&Bytes::from_static(b"temp: 5\n")).unwrap().body, "temp: 5\n");
        let error =
            |recording: &'static [u8]| Reply::from_recording(&Bytes::from_static(recording)).unwrap_err();
        assert_eq!(error(b"HTTP/1.1 abc\r\n\r\n"), RecordingError::StatusLine("HTTP/1.1 abc".into()));
        assert_eq!(error(b"HTTP/1.1 200\nA: b\n"), RecordingError::NoEnd);
        assert_eq!(
            error(b"HTTP/1.1 200\noops\n\n"),
            RecordingError::Header { line: 2, found: "oops".into() }
        );
    }
}
