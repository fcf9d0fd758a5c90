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

/// Line of output.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum OutputLine {
    /// Complete line, without its line break.
    Whole(Vec<u8>),
    /// Beginning of a line that is over the limit. Its [`Rest`](Self::Rest) follows.
    Cut(Vec<u8>),
    /// End of a line that was cut, at most [`REST_LIMIT_BYTES`].
    Rest(Vec<u8>),
}

/// Longest end of a cut line that is returned.
const REST_LIMIT_BYTES: usize = 1024;

/// Line reader with a length limit.
pub(super) struct LineReader<R> {
    input: BufReader<R>,
    limit_bytes: usize,
    line: Vec<u8>,
    is_cut: bool,
}

impl<R: AsyncRead + Unpin> LineReader<R> {
    pub(super) fn new(input: R, limit_bytes: usize) -> Self {
        let input = BufReader::with_capacity(64 << 10, input);
        Self { input, limit_bytes, line: Vec::new(), is_cut: false }
    }

    /// Reads the next line; `None` at the end. Cancel-safe: a partly read line is preserved when the future
    /// is dropped.
    pub(super) async fn next(&mut self) -> io::Result<Option<OutputLine>> {
        loop {
            // A line of exactly the limit is whole if its line break follows.
            let buffer_bytes = if self.is_cut { 2 * REST_LIMIT_BYTES } else { self.limit_bytes + 1 };
            let mut input = (&mut self.input).take((buffer_bytes - self.line.len()) as u64);
            input.read_until(b'\n', &mut self.line).await?;
            let has_break = self.line.pop_if(|last| *last == b'\n').is_some();
            let is_full = !has_break && self.line.len() == buffer_bytes;
            if is_full && self.is_cut {
                self.line.drain(..REST_LIMIT_BYTES);
                continue;
            }
            if is_full {
                self.is_cut = true;
                let rest = self.line.split_off(self.limit_bytes);
                return Ok(Some(OutputLine::Cut(std::mem::replace(&mut self.line, rest))));
            }
            let mut line = std::mem::take(&mut self.line);
            if std::mem::take(&mut self.is_cut) {
                line.drain(..line.len().saturating_sub(REST_LIMIT_BYTES));
                return Ok(Some(OutputLine::Rest(line)));
            }
            let is_line = has_break || !line.is_empty();
            return Ok(is_line.then_some(OutputLine::Whole(line)));
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
        let (OutputLine::Whole(line) | OutputLine::Cut(line)) = line else { continue };
        if since.elapsed() > LOGGED_INTERVAL {
            if lines > LOGGED_LINES {
                warn!(%upstream, lines = lines - LOGGED_LINES, "standard error of the MCP program: too many lines, the rest is not logged");
            }
            (since, lines) = (Instant::now(), 0);
        }
        lines = lines.saturating_add(1);
        let line = shown(&line, secrets.as_ref());
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

    #[tokio::test]
    async fn lines_are_whole_or_cut() {
        for capacity in [1, 3, 100] {
            let mut lines = LineReader::new(&b"a\n\n12345\n1234567\r\nlast"[..], 5);
            lines.input = BufReader::with_capacity(capacity, lines.input.into_inner());
            let mut found = Vec::new();
            while let Some(line) = lines.next().await.unwrap() {
                found.push(line);
            }
            let whole = |text: &str| OutputLine::Whole(text.into());
            let cut = [OutputLine::Cut(b"12345".to_vec()), OutputLine::Rest(b"67\r".to_vec())];
            let [begin, rest] = cut;
            assert_eq!(
                found,
                [whole("a"), whole(""), whole("12345"), begin, rest, whole("last")],
                "{capacity}"
            );
        }
    }

    #[tokio::test]
    async fn a_cut_line_ends_with_its_last_bytes() {
        for length in [1, REST_LIMIT_BYTES - 1, REST_LIMIT_BYTES, 2 * REST_LIMIT_BYTES, 100_000] {
            let rest: Vec<u8> = (b'a'..=b'z').cycle().take(length).collect();
            let end = rest[length.saturating_sub(REST_LIMIT_BYTES)..].to_vec();
            for line_break in ["\n", ""] {
                let text = [&b"12345"[..], &rest, line_break.as_bytes()].concat();
                let mut lines = LineReader::new(&*text, 5);
                assert_eq!(lines.next().await.unwrap(), Some(OutputLine::Cut(b"12345".to_vec())));
                assert_eq!(lines.next().await.unwrap(), Some(OutputLine::Rest(end.clone())), "{length}");
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
            while let Some(line) = lines.next().now_or_never() {
                assert_eq!(line.unwrap(), Some(OutputLine::Cut(b"12345".to_vec())));
            }
        }
        writer.write_all(b"9\n").await.unwrap();
        assert_eq!(lines.next().await.unwrap(), Some(OutputLine::Rest(b"6789".to_vec())));
    }
}
