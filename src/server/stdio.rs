//! Standard input and output: an MCP client, or one CGI request of a web server.

use std::future::Future;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::thread;
use std::time::Duration;

use axum::body::Body;
use bytes::Bytes;
use http::{Method, Request};
use http_body::Body as _;
use http_body_util::BodyExt;
use tokio::sync::{mpsc, oneshot};
use tokio::time::timeout;
use tracing::{debug, info, warn};

use super::{CANCEL_TIMEOUT, HttpHandler};
use crate::inbound::cgi;
use crate::inbound::mcp::{ClientLine, McpEndpoint};

/// Limit of the messages that wait to be written, beside those that wait to enter this queue.
const OUT_LIMIT: usize = 16;

/// Serves the client on standard input and output until it closes its input, stops reading, or `stop`
/// completes. Its messages have at most `limit_bytes`; requests in flight after the end of the input have
/// the time of `shutdown_timeout`.
///
/// # Errors
///
/// When the system creates no threads.
pub async fn serve_stdio(
    mcp: &McpEndpoint,
    limit_bytes: usize,
    shutdown_timeout: Duration,
    stop: impl Future<Output = ()>,
) -> io::Result<()> {
    // Not every system can wait for pipes asynchronously, so each has a thread. The reading one is not
    // joined: only the client can end it.
    let (line, lines) = mpsc::channel(1);
    thread::Builder::new().name("input".to_owned()).spawn(move || read(io::stdin(), limit_bytes, &line))?;
    let (out, messages) = mpsc::channel(OUT_LIMIT);
    let (done, written) = oneshot::channel();
    thread::Builder::new().name("output".to_owned()).spawn(move || {
        // Nothing but messages is written there.
        write(io::stdout(), messages);
        // Fails if nobody waits any more for a client that does not read.
        let _ = done.send(());
    })?;
    info!("serving MCP on standard input and output");
    let cut_off = mcp.serve_stdio(lines, out, shutdown_timeout, stop).await;
    if timeout(CANCEL_TIMEOUT, written).await.is_err() {
        debug!("client does not read the last message");
    }
    if cut_off > 0 {
        let (requests, after) = (cut_off, shutdown_timeout);
        warn!(requests, ?after, "shutdown timeout: cancelling requests in flight");
    }
    Ok(())
}

/// Sends each line, until the end of the input or until the receiver is dropped.
fn read(input: impl Read, limit_bytes: usize, lines: &mpsc::Sender<ClientLine>) {
    let mut input = BufReader::with_capacity(64 << 10, input);
    loop {
        let line = match next_line(&mut input, limit_bytes) {
            Ok(Some(line)) => line,
            Ok(None) => return,
            Err(error) => return warn!(%error, "reading standard input failed"),
        };
        if lines.blocking_send(line).is_err() {
            return;
        }
    }
}

/// The next line without its line feed; `None` at the end. The last line may lack a line feed.
fn next_line(input: &mut impl BufRead, limit_bytes: usize) -> io::Result<Option<ClientLine>> {
    let mut line = Vec::new();
    input.by_ref().take(limit_bytes as u64 + 1).read_until(b'\n', &mut line)?;
    Ok(match line.pop() {
        None => None,
        Some(b'\n') => Some(ClientLine::Whole(line)),
        Some(_) if line.len() == limit_bytes => {
            input.skip_until(b'\n')?;
            Some(ClientLine::TooLong { limit_bytes })
        }
        // The end of the input.
        Some(last) => {
            line.push(last);
            Some(ClientLine::Whole(line))
        }
    })
}

/// Writes a line for each message, until there are no more or the client is gone.
fn write(mut output: impl Write, mut messages: mpsc::Receiver<Bytes>) {
    while let Some(message) = messages.blocking_recv() {
        let written =
            output.write_all(&message).and_then(|()| output.write_all(b"\n")).and_then(|()| output.flush());
        if let Err(error) = written {
            debug!(%error, "client closed standard output");
            return;
        }
    }
}

/// Handles one request, and writes the response part by part.
///
/// # Errors
///
/// When the web server does not read any more, as its client has disconnected, or the response is cut off,
/// for example by the upstream of a passthrough request.
pub async fn handle_cgi(
    handler: &HttpHandler,
    request: Request<Body>,
    out: &mut impl Write,
) -> Result<(), axum::Error> {
    let head_only = request.method() == Method::HEAD;
    let (head, mut body) = handler.handle(request).await.into_parts();
    let has_body = !head_only && !body.is_end_stream();
    let mut write = |bytes: &[u8]| out.write_all(bytes).and_then(|()| out.flush()).map_err(axum::Error::new);
    write(&cgi::write_headers(head, has_body))?;
    if !has_body {
        return Ok(());
    }
    while let Some(frame) = body.frame().await {
        // CGI has no trailers.
        if let Ok(data) = frame?.into_data() {
            write(&data)?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, expected: &[ClientLine]) {
        for capacity in [1, 3, 100] {
            let mut input = BufReader::with_capacity(capacity, text.as_bytes());
            let mut found = Vec::new();
            while let Some(line) = next_line(&mut input, 5).unwrap() {
                found.push(line);
            }
            assert_eq!(found, expected, "{text:?} by {capacity}");
        }
    }

    #[test]
    fn lines_are_split_and_a_long_one_is_skipped() {
        let whole = |text: &str| ClientLine::Whole(text.into());
        let too_long = ClientLine::TooLong { limit_bytes: 5 };
        check("", &[]);
        check("\n", &[whole("")]);
        check("a\n\r\nb", &[whole("a"), whole("\r"), whole("b")]);
        check("12345\n123456\n12\n", &[whole("12345"), too_long.clone(), whole("12")]);
        check("1234567890", &[too_long]);
    }
}
