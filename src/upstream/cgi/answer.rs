//! What a CGI program wrote, as a reply (RFC 3875, section 6).

use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header};

use super::super::http::{HEAD_LIMIT_BYTES, HEADER_COUNT_LIMIT, remove_hop_by_hop};
use crate::model::{Exit, Reply};

/// Why it is none. May quote a line, so it is for a log at `debug`.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(super) enum AnswerError {
    #[error("it wrote nothing and ended with {0}")]
    Nothing(String),
    #[error("it writes the status line itself, as NPH programs do, which are not offered; found `{0}`")]
    StatusLine(String),
    #[error("line {line}: expected a header such as `Content-Type: text/plain`, found `{found}`")]
    NoHeader { line: usize, found: String },
    #[error("its headers have no empty line behind them")]
    NoEnd,
    #[error("it has neither `Content-Type` nor `Location` nor `Status` among its headers")]
    NoField,
    #[error("expected a `Status` such as `404 Not Found`, once, found `{0}`")]
    Status(String),
    #[error("its `Content-Length` is {said}, and its body has {found} bytes")]
    Length { said: String, found: usize },
    #[error("its headers are too long, or too many")]
    HeadTooLong,
}

impl AnswerError {
    /// The same without a word of the program's.
    pub(super) fn plain(&self) -> String {
        match self {
            Self::StatusLine(_) => {
                "it writes the status line itself, as NPH programs do, which are not offered".to_owned()
            }
            Self::NoHeader { line, found } => format!(
                "line {line}: expected a header such as `Content-Type: text/plain`, found text of {} bytes",
                found.len()
            ),
            Self::Status(found) => format!(
                "expected a `Status` such as `404 Not Found`, once, found text of {} bytes",
                found.len()
            ),
            Self::Length { found, .. } => {
                format!("its `Content-Length` is not the length of its body, which has {found} bytes")
            }
            Self::Nothing(_) | Self::NoEnd | Self::NoField | Self::HeadTooLong => self.to_string(),
        }
    }
}

/// Reads a whole answer. Lines of the head may end in LF or CR LF.
pub(super) fn read(output: &Bytes, exit: &Exit) -> Result<Reply, AnswerError> {
    if output.is_empty() {
        return Err(AnswerError::Nothing(exit.end.in_words()));
    }
    let (mut headers, mut rest, mut line) = (HeaderMap::new(), output.clone(), 0);
    let mut status = None;
    loop {
        line += 1;
        let Some(end) = rest.iter().take(HEAD_LIMIT_BYTES).position(|byte| *byte == b'\n') else {
            return Err(match rest.len() > HEAD_LIMIT_BYTES {
                true => AnswerError::HeadTooLong,
                false if rest.is_empty() => AnswerError::NoEnd,
                false => header_of(&rest, line).err().unwrap_or(AnswerError::NoEnd),
            });
        };
        let text = rest.split_to(end + 1);
        if output.len() - rest.len() > HEAD_LIMIT_BYTES || headers.len() > HEADER_COUNT_LIMIT {
            return Err(AnswerError::HeadTooLong);
        }
        let text = text[..end].strip_suffix(b"\r").unwrap_or(&text[..end]);
        if text.is_empty() {
            break;
        }
        let (name, value) = header_of(text, line)?;
        if name == "status" {
            let told = String::from_utf8_lossy(value.as_bytes()).into_owned();
            let code = told.split_whitespace().next().and_then(|code| code.parse::<u16>().ok());
            let code = code.filter(|code| (200..=599).contains(code) && status.is_none());
            let code = code.and_then(|code| StatusCode::from_u16(code).ok());
            status = Some(code.ok_or(AnswerError::Status(told))?);
            continue;
        }
        headers.append(name, value);
    }
    let is_redirect = headers.contains_key(header::LOCATION);
    if status.is_none() && !is_redirect && !headers.contains_key(header::CONTENT_TYPE) {
        return Err(AnswerError::NoField);
    }
    if let Some(said) = headers.remove(header::CONTENT_LENGTH)
        && said.to_str().ok().and_then(|said| said.parse().ok()) != Some(rest.len())
    {
        let said = String::from_utf8_lossy(said.as_bytes()).into_owned();
        return Err(AnswerError::Length { said, found: rest.len() });
    }
    remove_hop_by_hop(&mut headers);
    // A program that points elsewhere is not followed, be it within the server that it takes us for or beyond.
    let otherwise = if is_redirect { StatusCode::FOUND } else { StatusCode::OK };
    Ok(Reply::new(status.unwrap_or(otherwise), headers, rest))
}

/// A line as a header, or why it is none.
fn header_of(text: &[u8], line: usize) -> Result<(HeaderName, HeaderValue), AnswerError> {
    const LONGEST_QUOTED: usize = 100;
    let found = || {
        let text = &text[..text.len().min(LONGEST_QUOTED)];
        String::from_utf8_lossy(text).trim_end().to_owned()
    };
    if line == 1 && text.starts_with(b"HTTP/") {
        return Err(AnswerError::StatusLine(found()));
    }
    let no_header = || AnswerError::NoHeader { line, found: found() };
    let colon = text.iter().position(|byte| *byte == b':').ok_or_else(no_header)?;
    let name = HeaderName::from_bytes(&text[..colon]).map_err(|_| no_header())?;
    let value = HeaderValue::from_bytes(text[colon + 1..].trim_ascii()).map_err(|_| no_header())?;
    Ok((name, value))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::End;

    fn answer(output: &str) -> Result<Reply, AnswerError> {
        let exit = Exit { end: End::Code(1), stderr: Bytes::new() };
        read(&Bytes::copy_from_slice(output.as_bytes()), &exit)
    }

    #[track_caller]
    fn check(output: &str, status: u16, body: &str) -> Reply {
        let reply = answer(output).unwrap();
        assert_eq!((reply.status.as_u16(), &reply.body[..]), (status, body.as_bytes()));
        reply
    }

    #[test]
    fn an_answer_has_a_head_and_a_body() {
        let reply = check(
            "Content-type: text/plain; charset=latin1\nX-A: 1\nX-A: 2\n\nbody\n\nmore",
            200,
            "body\n\nmore",
        );
        assert_eq!((reply.charset(), reply.headers.get_all("x-a").iter().count()), (Some("latin1"), 2));
        check("Status: 404 Not Found\r\nContent-Type: text/html\r\n\r\nno\r\n", 404, "no\r\n");
        check("Status: 204\n\n", 204, "");
        check("Content-Type: text/plain\nContent-Length: 2\n\nok", 200, "ok");
    }

    #[test]
    fn what_points_elsewhere_is_a_redirect_that_is_not_followed() {
        assert_eq!(check("Location: /other\n\n", 302, "").headers["location"], "/other");
        check("Location: http://example.com/\nStatus: 301 Moved\nContent-Type: text/html\n\nx", 301, "x");
    }

    #[test]
    fn headers_of_a_connection_stay_there() {
        let reply =
            check("Content-Type: text/plain\nConnection: close\nTransfer-Encoding: chunked\n\nx", 200, "x");
        assert_eq!(reply.headers.len(), 1);
    }

    #[test]
    fn what_is_no_answer_is_told() {
        let told = |output: &str| answer(output).unwrap_err().to_string();
        assert_eq!(told(""), "it wrote nothing and ended with exit status 1");
        assert!(told("HTTP/1.1 200 OK\nContent-Type: text/plain\n\nx").contains("NPH"));
        assert!(told("hello\n\n").contains("line 1") && told("hello").contains("found `hello`"));
        assert!(told("Content-Type: text/plain\nnot a header\n\nx").contains("line 2"));
        assert_eq!(answer("Content-Type: text/plain\n").unwrap_err(), AnswerError::NoEnd);
        assert_eq!(answer("Content-Type: text/plain").unwrap_err(), AnswerError::NoEnd);
        assert_eq!(answer("Temp: 5\n\nSky: x").unwrap_err(), AnswerError::NoField);
        assert_eq!(answer("\nhello").unwrap_err(), AnswerError::NoField);
        for status in
            ["Status: no\n\n", "Status: 100 Continue\n\n", "Status: 200\nStatus: 404\n\n", "Status:\n\n"]
        {
            assert!(matches!(answer(status), Err(AnswerError::Status(_))), "{status}");
        }
        assert!(told("Content-Type: a/b\nContent-Length: 9\n\nx").contains("`Content-Length` is 9"));
        assert_eq!(
            answer(&format!("X: {}\n\n", "x".repeat(200 << 10))).unwrap_err(),
            AnswerError::HeadTooLong
        );
        assert_eq!(answer(&format!("{}\n", "X: y\n".repeat(300))).unwrap_err(), AnswerError::HeadTooLong);
    }
}
