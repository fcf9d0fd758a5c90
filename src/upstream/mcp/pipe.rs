//! What a child writes, line by line and never more than a limit of it.

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
    io::{AsyncBufRead, AsyncBufReadExt, BufReader},
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
/// How many such lines are logged in a while.
const LOGGED_LINES: u32 = 50;
/// That while.
const LOGGED_WHILE: Duration = Duration::from_secs(10);

/// A line of a pipe.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Line {
    /// All of it, without its end.
    Whole(Vec<u8>),
    /// It is longer than the limit; this is its beginning. The [`rest_of_line`] is to be read next.
    Cut(Vec<u8>),
}

/// How much of the end of a line is kept that is longer than the limit.
const ENDS_BYTES: usize = 1024;

/// The next line; `None` when there are no more. May not be dropped while it waits, or a part of a line is lost.
pub(super) async fn next_line(
    input: &mut (impl AsyncBufRead + Unpin),
    limit_bytes: usize,
) -> io::Result<Option<Line>> {
    let (mut line, mut is_there) = (Vec::new(), false);
    loop {
        let piece = input.fill_buf().await?;
        let end = piece.iter().position(|byte| *byte == b'\n');
        let taken = &piece[..end.unwrap_or(piece.len())];
        is_there |= !piece.is_empty();
        let room = limit_bytes - line.len();
        if taken.len() > room {
            line.extend_from_slice(&taken[..room]);
            input.consume(room);
            return Ok(Some(Line::Cut(line)));
        }
        line.extend_from_slice(taken);
        let (used, is_last) = (end.map_or(piece.len(), |end| end + 1), piece.is_empty());
        input.consume(used);
        if end.is_some() || is_last {
            return Ok(is_there.then_some(Line::Whole(line)));
        }
    }
}

/// Reads on to the end of a line that was cut, and gives the last [`ENDS_BYTES`] of it.
pub(super) async fn rest_of_line(input: &mut (impl AsyncBufRead + Unpin)) -> io::Result<Vec<u8>> {
    let mut ends = Vec::new();
    loop {
        let piece = input.fill_buf().await?;
        let end = piece.iter().position(|byte| *byte == b'\n');
        let taken = &piece[..end.unwrap_or(piece.len())];
        ends.extend_from_slice(&taken[taken.len().saturating_sub(ENDS_BYTES)..]);
        ends.drain(..ends.len().saturating_sub(ENDS_BYTES));
        let (used, is_last) = (end.map_or(piece.len(), |end| end + 1), piece.is_empty());
        input.consume(used);
        if end.is_some() || is_last {
            return Ok(ends);
        }
    }
}

/// Logs what a child writes to its standard error, until it writes no more; without the secrets that it was given.
///
/// Until it serves, it has been sent nothing of any call, and what it says is why it does not start. From then on its
/// words may be those of requests and responses, which are for a log at `debug`.
pub(super) async fn log_errors(
    upstream: UpstreamName,
    errors: ChildStderr,
    secrets: Option<Regex>,
    is_serving: Arc<AtomicBool>,
) {
    let mut errors = BufReader::new(errors);
    let (mut since, mut lines) = (Instant::now(), 0_u32);
    while let Ok(Some(line)) = next_line(&mut errors, LOGGED_BYTES).await {
        let line = match line {
            Line::Whole(line) => line,
            Line::Cut(line) => {
                if rest_of_line(&mut errors).await.is_err() {
                    return;
                }
                line
            }
        };
        if since.elapsed() > LOGGED_WHILE {
            if lines > LOGGED_LINES {
                warn!(%upstream, lines = lines - LOGGED_LINES, "the server wrote more lines than are logged");
            }
            (since, lines) = (Instant::now(), 0);
        }
        lines = lines.saturating_add(1);
        let line = shown(&line, secrets.as_ref());
        if lines > LOGGED_LINES || line.is_empty() {
            continue;
        }
        if is_serving.load(Ordering::Relaxed) {
            debug!(%upstream, line = %Quoted(&line), "the server wrote to its standard error");
        } else {
            info!(%upstream, line, "the server wrote to its standard error");
        }
    }
}

/// Looks for secrets; for all there is where they are too long for that.
pub(super) fn looking_for(pattern: Option<String>) -> Option<Regex> {
    let everything = |_| Regex::new(EVERYTHING).expect("the pattern is fixed and tested");
    pattern.map(|pattern| Regex::new(&pattern).unwrap_or_else(everything))
}

/// A line without secrets, and without what would move the cursor of a terminal.
pub(super) fn shown(line: &[u8], secrets: Option<&Regex>) -> String {
    let line = plain(line);
    match secrets {
        Some(secrets) => secrets.replace_all(&line, MARK).into_owned(),
        None => line,
    }
}

/// A line without what would move the cursor of a terminal.
fn plain(line: &[u8]) -> String {
    let text = String::from_utf8_lossy(line);
    text.trim_end().chars().map(|c| if c.is_control() && c != '\t' { '\u{fffd}' } else { c }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_that_are_too_long_to_be_looked_for_are_not_shown() {
        let hidden = |pattern: &str| shown(b"it is s3cret", looking_for(Some(pattern.to_owned())).as_ref());
        assert_eq!(hidden("s3cret"), format!("it is {MARK}"));
        assert_eq!(hidden("(?:s{1000}){1000}"), MARK);
    }

    #[tokio::test]
    async fn lines_are_whole_or_cut() {
        for capacity in [1, 3, 100] {
            let mut input = BufReader::with_capacity(capacity, &b"a\n\n12345\n1234567\r\nlast"[..]);
            let mut found = Vec::new();
            while let Some(line) = next_line(&mut input, 5).await.unwrap() {
                if let Line::Cut(_) = &line {
                    assert_eq!(rest_of_line(&mut input).await.unwrap(), b"67\r");
                }
                found.push(line);
            }
            let whole = |text: &str| Line::Whole(text.into());
            assert_eq!(
                found,
                [whole("a"), whole(""), whole("12345"), Line::Cut(b"12345".to_vec()), whole("last")],
                "{capacity}"
            );
        }
    }
}
