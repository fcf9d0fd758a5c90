//! Output of a child process: lines up to a limit, and standard error in the log.

use std::{
    io,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use regex::Regex;
use tokio::{
    io::{AsyncBufReadExt, AsyncRead, AsyncReadExt, BufReader},
    process::ChildStderr,
    time::Instant,
};
use tracing::{debug, info, warn};

use crate::route::UpstreamName;
use crate::telemetry::Untrusted;
use crate::upstream::http::{EVERYTHING, MARK};

/// Longest part of a line of standard error that is logged.
const LOGGED_BYTES: usize = 1000;
/// Maximum number of lines logged in [`LOGGED_INTERVAL`].
const LOGGED_LINES: u32 = 50;
const LOGGED_INTERVAL: Duration = Duration::from_secs(10);

/// Line of output, without its line break.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct OutputLine {
    /// The line, or the beginning of one that is over the limit.
    pub(super) text: Vec<u8>,
    /// Last bytes of a line that is over the limit, at most [`END_LIMIT_BYTES`].
    pub(super) cut_end: Option<Vec<u8>>,
}

/// Longest end of a cut line that is returned.
const END_LIMIT_BYTES: usize = 1024;

/// Line reader with a length limit.
pub(super) struct LineReader<R> {
    input: BufReader<R>,
    limit_bytes: usize,
    line: Vec<u8>,
}

impl<R: AsyncRead + Unpin> LineReader<R> {
    pub(super) fn new(input: R, limit_bytes: usize) -> Self {
        Self { input: BufReader::with_capacity(64 << 10, input), limit_bytes, line: Vec::new() }
    }

    /// Reads the next line; `None` at the end. Cancel-safe: a partly read line is preserved when the future
    /// is dropped.
    pub(super) async fn next(&mut self) -> io::Result<Option<OutputLine>> {
        let limit_bytes = self.limit_bytes;
        let buffer_bytes = limit_bytes + 2 * END_LIMIT_BYTES;
        loop {
            let mut input = (&mut self.input).take((buffer_bytes - self.line.len()) as u64);
            input.read_until(b'\n', &mut self.line).await?;
            let has_break = self.line.pop_if(|last| *last == b'\n').is_some();
            if !has_break && self.line.len() == buffer_bytes {
                self.line.drain(limit_bytes..limit_bytes + END_LIMIT_BYTES);
                continue;
            }
            let is_line = has_break || !self.line.is_empty();
            let mut text = std::mem::take(&mut self.line);
            let end_at = text.len().saturating_sub(END_LIMIT_BYTES).max(limit_bytes);
            let cut_end = (text.len() > limit_bytes).then(|| text.split_off(end_at));
            text.truncate(limit_bytes);
            return Ok(is_line.then_some(OutputLine { text, cut_end }));
        }
    }
}

/// Logs the standard error of a child until it closes, with the child's secrets redacted.
///
/// Until the child serves, it has received no request, and its lines explain why it does not start.
/// Afterwards they may contain text of requests and responses, so they are only logged at `debug`.
pub(super) async fn log_errors(
    upstream: UpstreamName,
    errors: ChildStderr,
    secrets: Option<Regex>,
    is_serving: Arc<AtomicBool>,
) {
    let mut errors = LineReader::new(errors, LOGGED_BYTES);
    let (mut since, mut lines) = (Instant::now(), 0_u32);
    while let Ok(Some(line)) = errors.next().await {
        if since.elapsed() > LOGGED_INTERVAL {
            if lines > LOGGED_LINES {
                warn!(%upstream, lines = lines - LOGGED_LINES, "standard error of the MCP program: too many lines, the rest is not logged");
            }
            (since, lines) = (Instant::now(), 0);
        }
        lines = lines.saturating_add(1);
        let line = shown(&line.text, secrets.as_ref());
        if lines > LOGGED_LINES || line.is_empty() {
            continue;
        }
        if is_serving.load(Ordering::Relaxed) {
            debug!(%upstream, line = %Untrusted(&line), "standard error of the MCP program");
        } else {
            info!(%upstream, line, "standard error of the MCP program");
        }
    }
}

/// Compiles the pattern of secrets. If it is too long, the pattern matches everything.
pub(super) fn secrets_regex(pattern: Option<String>) -> Option<Regex> {
    let everything = |_| Regex::new(EVERYTHING).expect("the pattern is fixed and tested");
    pattern.map(|pattern| Regex::new(&pattern).unwrap_or_else(everything))
}

/// Line for the log: secrets redacted, control characters replaced.
pub(super) fn shown(line: &[u8], secrets: Option<&Regex>) -> String {
    let text = String::from_utf8_lossy(line);
    let visible = |c: char| if c.is_control() && c != '\t' { '\u{fffd}' } else { c };
    let line: String = text.trim_end().chars().map(visible).collect();
    match secrets {
        Some(secrets) => secrets.replace_all(&line, MARK).into_owned(),
        None => line,
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;
    use tokio::io::AsyncWriteExt;

    use super::*;

    #[test]
    fn secrets_that_are_too_long_to_search_for_are_not_logged() {
        let hidden = |pattern: &str| shown(b"it is s3cret", secrets_regex(Some(pattern.to_owned())).as_ref());
        assert_eq!(hidden("s3cret"), format!("it is {MARK}"));
        assert_eq!(hidden("(?:s{1000}){1000}"), MARK);
    }

    fn whole(text: &str) -> OutputLine {
        OutputLine { text: text.into(), cut_end: None }
    }

    fn cut(text: &str, end: impl Into<Vec<u8>>) -> OutputLine {
        OutputLine { text: text.into(), cut_end: Some(end.into()) }
    }

    #[tokio::test]
    async fn lines_are_whole_or_cut() {
        for capacity in [1, 3, 100] {
            let mut lines = LineReader::new(&b"a\n\n12345\n1234567\r\nlast"[..], 5);
            lines.input = BufReader::with_capacity(capacity, lines.input.into_inner());
            let mut found = Vec::new();
            while let Some(line) = lines.next().await.unwrap() {
                found.push(line);
            }
            let expected = [whole("a"), whole(""), whole("12345"), cut("12345", "67\r"), whole("last")];
            assert_eq!(found, expected, "{capacity}");
        }
    }

    #[tokio::test]
    async fn a_cut_line_ends_with_its_last_bytes() {
        for length in [1, END_LIMIT_BYTES - 1, END_LIMIT_BYTES, 2 * END_LIMIT_BYTES, 100_000] {
            let rest: Vec<u8> = (b'a'..=b'z').cycle().take(length).collect();
            let end = &rest[length.saturating_sub(END_LIMIT_BYTES)..];
            for line_break in ["\n", ""] {
                let text = [&b"12345"[..], &rest, line_break.as_bytes()].concat();
                let mut lines = LineReader::new(&*text, 5);
                assert_eq!(lines.next().await.unwrap(), Some(cut("12345", end)), "{length}");
                assert_eq!(lines.next().await.unwrap(), None);
            }
        }
    }

    #[tokio::test]
    async fn a_line_is_preserved_when_reading_is_cancelled() {
        let (mut writer, reader) = tokio::io::duplex(100);
        let mut lines = LineReader::new(reader, 5);
        for piece in ["12", "345", "67", "8"] {
            writer.write_all(piece.as_bytes()).await.unwrap();
            assert!(lines.next().now_or_never().is_none());
        }
        writer.write_all(b"9\n").await.unwrap();
        assert_eq!(lines.next().await.unwrap(), Some(cut("12345", "6789")));
    }
}
