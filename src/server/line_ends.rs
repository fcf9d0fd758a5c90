//! Checks line ends in HTTP/1 requests: rejects a line that ends in a bare LF (line feed) instead of CRLF.
//!
//! A recipient may accept a bare line feed as the end of a line (RFC 9112, section 2.2), and the HTTP library
//! does. If a proxy in front of glossator does not, it reads one header where glossator would read two, and
//! the second can be another request (request smuggling). So all bytes are parsed as they are read: headers,
//! bodies and chunks. A bare line feed in headers or trailers is replaced by a zero byte, for which the
//! library responds with 400 and closes the connection. In a chunk size line, the library rejects the line
//! feed itself, but not a zero byte in a chunk extension.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use memchr::memchr;
use tokio::io::{AsyncRead, ReadBuf};

use super::connection_activity::Activity;

/// The read half of an HTTP/1 connection, which checks the lines as they are read.
pub(super) struct LineEnds<R> {
    reader: R,
    lines: LineChecker,
    activity: Activity,
}

impl<R> LineEnds<R> {
    pub(super) fn new(reader: R, activity: Activity) -> Self {
        Self { reader, lines: LineChecker::default(), activity }
    }
}

/// Parser state of the bytes from a client.
#[derive(Debug, Default)]
struct LineChecker {
    state: ParserState,
    /// The beginning of a line whose end has not been read yet.
    partial: Vec<u8>,
    head: HeadersState,
}

#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
enum ParserState {
    #[default]
    Headers,
    /// In a body with `Content-Length`, or in a chunk of a chunked body.
    Bytes {
        /// Number of remaining bytes; for a chunk, including the line end after it.
        remaining: u64,
        is_chunk: bool,
    },
    ChunkSize,
    Trailers,
    /// The request is malformed, and the library closes the connection: nothing more is checked.
    Unknown,
}

/// Properties of the headers that are being read.
#[derive(Debug, Default)]
struct HeadersState {
    /// Whether the request line was read; empty lines may precede it.
    has_begun: bool,
    length: Option<u64>,
    is_chunked: bool,
}

impl LineChecker {
    /// Maximum length of a line; the library rejects a longer one.
    const LIMIT_BYTES: usize = super::connection::HEAD_LIMIT_BYTES;

    /// Whether the headers of a request have begun and are not complete.
    fn has_incomplete_headers(&self) -> bool {
        self.state == ParserState::Headers && (self.head.has_begun || !self.partial.is_empty())
    }

    /// Checks the next bytes. Replaces a bare line feed with a zero byte, except in a chunk size line.
    fn check(&mut self, mut rest: &mut [u8]) {
        while !rest.is_empty() {
            match self.state {
                ParserState::Unknown => return,
                ParserState::Bytes { remaining, is_chunk } => {
                    let length = usize::try_from(remaining).unwrap_or(usize::MAX).min(rest.len());
                    self.state = match (remaining - length as u64, is_chunk) {
                        (0, true) => ParserState::ChunkSize,
                        (0, false) => ParserState::Headers,
                        (remaining, _) => ParserState::Bytes { remaining, is_chunk },
                    };
                    rest = &mut rest[length..];
                }
                ParserState::Headers | ParserState::ChunkSize | ParserState::Trailers => {
                    let Some(end) = memchr(b'\n', rest) else {
                        self.partial.extend_from_slice(rest);
                        if self.partial.len() > Self::LIMIT_BYTES {
                            (self.state, self.partial) = (ParserState::Unknown, Vec::new());
                        }
                        return;
                    };
                    let previous = if end == 0 { self.partial.last() } else { rest.get(end - 1) };
                    if previous != Some(&b'\r') {
                        if self.state != ParserState::ChunkSize {
                            rest[end] = 0;
                        }
                        self.state = ParserState::Unknown;
                        return;
                    }
                    let (line, after) = rest.split_at_mut(end + 1);
                    if self.partial.is_empty() {
                        self.read(line.trim_ascii_end());
                    } else {
                        self.partial.extend_from_slice(line);
                        let line = std::mem::take(&mut self.partial);
                        self.read(line.trim_ascii_end());
                    }
                    rest = after;
                }
            }
        }
    }

    /// Parses a complete line, without its line end.
    fn read(&mut self, line: &[u8]) {
        self.state = match self.state {
            ParserState::Headers if line.is_empty() && self.head.has_begun => {
                std::mem::take(&mut self.head).end()
            }
            ParserState::Headers if line.is_empty() => ParserState::Headers,
            ParserState::Headers => self.head.read(line),
            ParserState::Trailers if line.is_empty() => ParserState::Headers,
            ParserState::Trailers => ParserState::Trailers,
            ParserState::ChunkSize => match chunk_size(line) {
                Some(0) => ParserState::Trailers,
                Some(size) => ParserState::Bytes { remaining: size.saturating_add(2), is_chunk: true },
                None => ParserState::Unknown,
            },
            state @ (ParserState::Bytes { .. } | ParserState::Unknown) => state,
        };
    }
}

impl HeadersState {
    /// Parses one header line.
    fn read(&mut self, line: &[u8]) -> ParserState {
        let is_first = !std::mem::replace(&mut self.has_begun, true);
        let colon = if is_first { None } else { memchr(b':', line) };
        let Some((name, value)) = colon.map(|colon| (&line[..colon], line[colon + 1..].trim_ascii())) else {
            return ParserState::Headers;
        };
        if name.eq_ignore_ascii_case(b"transfer-encoding") {
            self.is_chunked = true;
        } else if name.eq_ignore_ascii_case(b"content-length") {
            let length = str::from_utf8(value).ok().and_then(|text| text.parse().ok());
            if length.is_none() || self.length.is_some_and(|previous| Some(previous) != length) {
                return ParserState::Unknown;
            }
            self.length = length;
        }
        ParserState::Headers
    }

    /// Returns the parser state after the headers.
    fn end(self) -> ParserState {
        match self.length {
            _ if self.is_chunked => ParserState::ChunkSize,
            Some(remaining) if remaining > 0 => ParserState::Bytes { remaining, is_chunk: false },
            Some(_) | None => ParserState::Headers,
        }
    }
}

/// Parses the size of a chunk. Ignores chunk extensions after it.
fn chunk_size(line: &[u8]) -> Option<u64> {
    let digits = line.split(|byte| *byte == b';').next()?.trim_ascii();
    u64::from_str_radix(str::from_utf8(digits).ok()?, 16).ok()
}

impl<R: AsyncRead + Unpin> AsyncRead for LineEnds<R> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let filled_bytes = buffer.filled().len();
        ready!(Pin::new(&mut self.reader).poll_read(context, buffer))?;
        let were_incomplete = self.lines.has_incomplete_headers();
        self.lines.check(&mut buffer.filled_mut()[filled_bytes..]);
        let are_incomplete = self.lines.has_incomplete_headers();
        // Most headers arrive whole, in one read, and need no lock.
        if were_incomplete != are_incomplete {
            self.activity.set_reading_headers(are_incomplete);
        }
        Poll::Ready(Ok(()))
    }
}

#[cfg(test)]
mod tests {
    use proptest::{collection::vec, prelude::*};

    use super::*;

    /// Checks bytes that are read in pieces of this length, and returns the result.
    fn read(bytes: &[u8], piece_length: usize) -> Vec<u8> {
        let (mut lines, mut checked) = (LineChecker::default(), bytes.to_vec());
        checked.chunks_mut(piece_length).for_each(|piece| lines.check(piece));
        checked
    }

    #[track_caller]
    fn check(bytes: &str, expected: &str) {
        for piece_length in 1..=bytes.len() {
            let found = String::from_utf8(read(bytes.as_bytes(), piece_length)).unwrap();
            assert_eq!(found, expected, "in pieces of {piece_length}");
        }
    }

    #[test]
    fn a_bare_line_feed_is_detected() {
        check("GET / HTTP/1.1\nA: b\r\n\r\n", "GET / HTTP/1.1\0A: b\r\n\r\n");
        check("GET / HTTP/1.1\r\nA: b\nC: d\r\n\r\n", "GET / HTTP/1.1\r\nA: b\0C: d\r\n\r\n");
        check("GET / HTTP/1.1\r\nA: b\r\n\n", "GET / HTTP/1.1\r\nA: b\r\n\0");
        check("\nGET / HTTP/1.1\r\n\r\n", "\0GET / HTTP/1.1\r\n\r\n");
        let first = "POST / HTTP/1.1\r\ncontent-LENGTH: 3\r\n\r\na\nb";
        check(&format!("{first}GET / HTTP/1.1\n"), &format!("{first}GET / HTTP/1.1\0"));
        let chunks = "POST / HTTP/1.1\r\nTransfer-Encoding:chunked\r\n\r\n3;a\r\na\nb\r\n";
        let sizes = ["3\nabc\r\n", "3;a\nbcd\r\nxyz\r\n"].map(|rest| format!("{chunks}{rest}"));
        sizes.iter().for_each(|unchanged| check(unchanged, unchanged));
        let last_chunk = format!("{chunks}0\r\n");
        check(&format!("{last_chunk}A: b\n\r\n"), &format!("{last_chunk}A: b\0\r\n"));
        check(
            &format!("{last_chunk}A: b\r\n\r\n\r\nGET /\n"),
            &format!("{last_chunk}A: b\r\n\r\n\r\nGET /\0"),
        );
    }

    #[test]
    fn errors_that_the_library_detects_are_not_checked() {
        let lengths = "POST / HTTP/1.1\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n\n\n";
        check(lengths, lengths);
        let size = "POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\nxx\r\n\n";
        check(size, size);
        let endless = format!("GET /{}", "a".repeat(2 * LineChecker::LIMIT_BYTES));
        let mut lines = LineChecker::default();
        lines.check(&mut endless.clone().into_bytes());
        assert_eq!((lines.state, lines.partial.capacity()), (ParserState::Unknown, 0));
    }

    proptest! {
        /// Nothing is changed in well-formed requests, whatever their bodies contain and however they are
        /// split.
        #[test]
        fn bodies_stay_as_they_are(
            requests in vec((any::<bool>(), vec("[\n\r0a:]{1,9}", 0..4)), 1..5),
            piece_length in 1_usize..40,
        ) {
            let mut bytes = Vec::new();
            for (is_chunked, parts) in requests {
                bytes.extend_from_slice(b"POST /a HTTP/1.1\r\nHost: b\r\n");
                if is_chunked {
                    bytes.extend_from_slice(b"Transfer-Encoding: chunked\r\n\r\n");
                    for part in parts {
                        bytes.extend_from_slice(format!("{:x}\r\n", part.len()).as_bytes());
                        bytes.extend_from_slice(part.as_bytes());
                        bytes.extend_from_slice(b"\r\n");
                    }
                    bytes.extend_from_slice(b"0\r\n\r\n");
                } else {
                    let body = parts.concat();
                    bytes.extend_from_slice(format!("Content-Length: {}\r\n\r\n", body.len()).as_bytes());
                    bytes.extend_from_slice(body.as_bytes());
                }
            }
            prop_assert_eq!(read(&bytes, piece_length), bytes);
        }
    }
}
