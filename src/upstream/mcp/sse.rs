//! Incremental parser of the server-sent events (SSE) that MCP servers behind glossator send.

use bytes::{Buf, BytesMut};
use http::{header, response::Parts};
use http_body_util::BodyExt;

use crate::model::media_type;
use crate::upstream::Failure;
use crate::upstream::buffer::BodyAccount;
use crate::upstream::http::ResponseBody;

/// Whether a response is an SSE stream, by its status and media type.
pub(super) fn is_event_stream(head: &Parts) -> bool {
    let media_type = head.headers.get(header::CONTENT_TYPE).and_then(media_type);
    head.status.is_success() && media_type.as_deref() == Some("text/event-stream")
}

/// Response body that is an SSE stream. Unread events are charged to the account.
pub(super) struct EventStream {
    pub(super) body: ResponseBody,
    pub(super) account: BodyAccount,
    events: EventParser,
}

impl EventStream {
    /// Reads events whose data has at most `limit_bytes` bytes.
    pub(super) fn new(body: ResponseBody, limit_bytes: usize, account: BodyAccount) -> Self {
        Self { body, account, events: EventParser::new(limit_bytes) }
    }

    /// Returns the data of the next event, and `None` at the end of the stream.
    pub(super) async fn next(&mut self) -> Result<Option<String>, Failure> {
        loop {
            if let Some(data) = self.events.next()? {
                return Ok(Some(data));
            }
            let Some(frame) = self.body.frame().await else { return Ok(None) };
            let frame = frame.map_err(|error| Failure::CutOff(error.into()))?;
            let Ok(piece) = frame.into_data() else { continue };
            let pending_bytes = self.events.buffer.len() + self.events.data_bytes();
            self.account.grow(pending_bytes + piece.len()).await?;
            self.events.buffer.extend_from_slice(&piece);
        }
    }
}

/// Parser of an SSE stream (HTML, section 9.2.6), chunk by chunk.
struct EventParser {
    limit_bytes: usize,
    buffer: BytesMut,
    searched_bytes: usize,
    /// Whether the last line ended with CR, and nothing has arrived since.
    follows_cr: bool,
    /// Data of the event so far.
    data: Option<String>,
}

impl EventParser {
    /// Creates a parser for SSE events whose data has at most `limit_bytes` bytes.
    fn new(limit_bytes: usize) -> Self {
        Self { limit_bytes, buffer: BytesMut::new(), searched_bytes: 0, follows_cr: false, data: None }
    }

    /// Returns the data of the next complete event.
    fn next(&mut self) -> Result<Option<String>, Failure> {
        while let Some(line) = self.next_line() {
            if line.is_empty() {
                match self.data.take() {
                    None => continue,
                    event => return Ok(event),
                }
            }
            self.parse_line(&String::from_utf8_lossy(&line));
            if self.data_bytes() > self.limit_bytes {
                return Err(Failure::TooLong(self.limit_bytes));
            }
        }
        self.searched_bytes = self.buffer.len();
        // The buffer may also contain a few bytes of a field name.
        match self.data_bytes() + self.buffer.len() > self.limit_bytes.saturating_add(64) {
            true => Err(Failure::TooLong(self.limit_bytes)),
            false => Ok(None),
        }
    }

    /// Returns the next complete line. A line ends with LF, CR or CR LF. A CR ends it at once, and an LF that
    /// follows is skipped when it arrives.
    fn next_line(&mut self) -> Option<BytesMut> {
        if self.follows_cr && !self.buffer.is_empty() {
            self.buffer.advance(usize::from(self.buffer.starts_with(b"\n")));
            self.follows_cr = false;
        }
        let offset =
            self.buffer[self.searched_bytes..].iter().position(|byte| matches!(byte, b'\n' | b'\r'))?;
        let line = self.buffer.split_to(self.searched_bytes + offset);
        self.follows_cr = self.buffer.get_u8() == b'\r';
        self.searched_bytes = 0;
        Some(line)
    }

    fn parse_line(&mut self, line: &str) {
        let line = line.strip_prefix('\u{feff}').unwrap_or(line);
        let Some(data) = line.strip_prefix("data").filter(|rest| rest.is_empty() || rest.starts_with(':'))
        else {
            return;
        };
        let data = data.strip_prefix(':').unwrap_or(data);
        let data = data.strip_prefix(' ').unwrap_or(data);
        match &mut self.data {
            Some(event_data) => event_data.extend(["\n", data]),
            None => self.data = Some(data.to_owned()),
        }
    }

    fn data_bytes(&self) -> usize {
        self.data.as_ref().map_or(0, String::len)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(stream: &str, expected: &[&str]) {
        for size in [1, 2, 5, 1000] {
            let (mut events, mut found) = (EventParser::new(20), Vec::new());
            for piece in stream.as_bytes().chunks(size) {
                events.buffer.extend_from_slice(piece);
                while let Some(data) = events.next().unwrap() {
                    found.push(data);
                }
            }
            assert_eq!(found, expected, "{stream:?} by {size}");
        }
    }

    #[test]
    fn events_are_whole_however_they_come() {
        check("data: a\n\ndata:b\n\n", &["a", "b"]);
        check("event: message\r\nid: 1\r\ndata: {\r\ndata: }\r\n\r\n: comment\r\n\r\n", &["{\n}"]);
        check("\u{feff}data: a\r\rdata: b\r\rx", &["a", "b"]);
        check("data: a\r\r", &["a"]);
        check("data: a\r\n\n", &["a"]);
        check("data: a\r\n\r\ndata: b\r\n\r", &["a", "b"]);
        check("data\n\nid: 7\n\nretry: 5\n\ndata: left over", &[""]);
    }

    #[test]
    fn an_event_has_an_end() {
        for text in ["data: ".to_owned() + &"x".repeat(100), "data: 12345678901\n".repeat(2)] {
            let mut events = EventParser::new(20);
            events.buffer.extend_from_slice(text.as_bytes());
            assert!(matches!(events.next(), Err(Failure::TooLong(20))));
        }
    }
}
