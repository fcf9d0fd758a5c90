//! Lines that a child writes, each up to a limit, and its standard error in the log.

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
    io::{AsyncBufReadExt, AsyncRead, BufReader},
    process::ChildStderr,
    time::Instant,
};
use tracing::{debug, info, warn};

use crate::{
    route::UpstreamName,
    telemetry::Quoted,
    upstream::http::{EVERYTHING, MARK},
};

/// How much of a line of its standard error is logged.
const LOGGED_BYTES: usize = 1000;
/// How many such lines are logged in [`LOGGED_INTERVAL`].
const LOGGED_LINES: u32 = 50;
const LOGGED_INTERVAL: Duration = Duration::from_secs(10);

/// A line of a pipe.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Line {
    /// All of it, without its end.
    Whole(Vec<u8>),
    /// It is longer than the limit; this is its beginning. Its [`Rest`](Self::Rest) follows.
    Cut(Vec<u8>),
    /// The end of a line that was cut, at most [`REST_LIMIT_BYTES`] of it.
    Rest(Vec<u8>),
}

/// How much of the end of a line is kept that is longer than the limit.
const REST_LIMIT_BYTES: usize = 1024;

/// Reads lines up to a limit.
pub(super) struct LineReader<R> {
    input: BufReader<R>,
    limit_bytes: usize,
    line: Vec<u8>,
    /// Whether a part of the next line was read, be it empty.
    has_begun: bool,
    is_cut: bool,
}

impl<R: AsyncRead + Unpin> LineReader<R> {
    pub(super) fn new(input: R, limit_bytes: usize) -> Self {
        let input = BufReader::with_capacity(64 << 10, input);
        Self { input, limit_bytes, line: Vec::new(), has_begun: false, is_cut: false }
    }

    /// The next line; `None` when there are no more. A partly read line is preserved when the future is
    /// dropped.
    pub(super) async fn next(&mut self) -> io::Result<Option<Line>> {
        loop {
            let piece = self.input.fill_buf().await?;
            let end = piece.iter().position(|byte| *byte == b'\n');
            let taken = &piece[..end.unwrap_or(piece.len())];
            let (used, is_last) = (end.map_or(piece.len(), |end| end + 1), piece.is_empty());
            if self.is_cut {
                self.line.extend_from_slice(&taken[taken.len().saturating_sub(REST_LIMIT_BYTES)..]);
                self.line.drain(..self.line.len().saturating_sub(REST_LIMIT_BYTES));
            } else {
                self.has_begun |= !is_last;
                let room = self.limit_bytes - self.line.len();
                if taken.len() > room {
                    self.line.extend_from_slice(&taken[..room]);
                    self.input.consume(room);
                    self.is_cut = true;
                    return Ok(Some(Line::Cut(std::mem::take(&mut self.line))));
                }
                self.line.extend_from_slice(taken);
            }
            self.input.consume(used);
            if end.is_some() || is_last {
                let line = std::mem::take(&mut self.line);
                let (is_cut, has_begun) =
                    (std::mem::take(&mut self.is_cut), std::mem::take(&mut self.has_begun));
                return Ok(match is_cut {
                    true => Some(Line::Rest(line)),
                    false => has_begun.then_some(Line::Whole(line)),
                });
            }
        }
    }
}

/// Logs the standard error of a child, until it ends; without the secrets that the child was given.
///
/// Until it serves, it has received nothing of any call, and its lines explain why it does not start. From
/// then on its text may contain that of requests and responses, which are for a log at `debug`.
pub(super) async fn log_errors(
    upstream: UpstreamName,
    errors: ChildStderr,
    secrets: Option<Regex>,
    is_serving: Arc<AtomicBool>,
) {
    let mut errors = LineReader::new(errors, LOGGED_BYTES);
    let (mut since, mut lines) = (Instant::now(), 0_u32);
    while let Ok(Some(line)) = errors.next().await {
        let (Line::Whole(line) | Line::Cut(line)) = line else { continue };
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
            debug!(%upstream, line = %Quoted(&line), "standard error of the MCP program");
        } else {
            info!(%upstream, line, "standard error of the MCP program");
        }
    }
}

/// Finds secrets; everything where they are too long for that.
pub(super) fn secrets_regex(pattern: Option<String>) -> Option<Regex> {
    let everything = |_| Regex::new(EVERYTHING).expect("the pattern is fixed and tested");
    pattern.map(|pattern| Regex::new(&pattern).unwrap_or_else(everything))
}

/// A line without secrets, and without what would move the cursor of a terminal.
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
    use super::*;

    #[test]
    fn secrets_that_are_too_long_to_be_looked_for_are_not_shown() {
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
            let whole = |text: &str| Line::Whole(text.into());
            let cut = [Line::Cut(b"12345".to_vec()), Line::Rest(b"67\r".to_vec())];
            let [begin, rest] = cut;
            assert_eq!(
                found,
                [whole("a"), whole(""), whole("12345"), begin, rest, whole("last")],
                "{capacity}"
            );
        }
    }
}
