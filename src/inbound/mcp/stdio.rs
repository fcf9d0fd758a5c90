//! MCP over stdin and stdout: one message per line in both directions, with concurrent requests (2026-07-28
//! and 2025-11-25, Transports, "stdio").
//!
//! A legacy client declares its revision and capabilities with `initialize`; the server stores them for the
//! connection. Since 2026-07-28, every request declares them, without a handshake.

use std::{
    future::{Future, poll_fn},
    io::{self, BufRead, BufReader, Read, Write},
    pin::pin,
    sync::Arc,
    task::Poll,
    thread,
    time::Duration,
};

use bytes::Bytes;
use futures_util::FutureExt;
use tokio::{
    sync::{mpsc, oneshot, watch},
    task::{AbortHandle, JoinSet},
    time::timeout,
};
use tracing::{debug, info, warn};

use super::message_parser::ClientMessage;
use super::response::forward_messages;
use super::sessions::NamedSession;
use super::{
    AuthenticatedClient, ErrorKind, McpEndpoint, MessageContext, MessageDispatcher, MessageSender,
    RequestContext, RequestInfo, Revision, RpcError, RpcRequest, Shutdown, message_parser, subscriptions,
};
use crate::inbound::{CANCEL_TIMEOUT, Connection, ShutdownSignal};
use crate::upstream::ClientIdentity;

/// Maximum number of requests in flight. Further requests are rejected, so that the server still reads
/// cancellations and responses.
const IN_FLIGHT_LIMIT: usize = 256;

/// Maximum number of messages in the queue to standard output.
const OUT_LIMIT: usize = 16;

#[derive(Debug, Clone, PartialEq, Eq)]
enum ClientLine {
    /// A complete line, without the line break.
    Whole(Vec<u8>),
    /// The line is longer than the maximum length of a message; the rest of it was skipped.
    TooLong { limit_bytes: usize },
}

impl McpEndpoint {
    /// Serves the client on standard input and output until the client closes standard input, stops reading,
    /// or `stop` completes. Messages have at most `limit_bytes`. After the end of the input, requests in
    /// flight have `shutdown_timeout` to complete.
    ///
    /// # Errors
    ///
    /// When the system can't create threads.
    pub async fn serve_stdio(
        &self,
        limit_bytes: usize,
        shutdown_timeout: Duration,
        stop: impl Future<Output = ()>,
    ) -> io::Result<()> {
        // Not every system can wait for pipes asynchronously, so each pipe has a thread. The reading thread
        // is not joined, because only the client can end it.
        let (line_sender, lines) = mpsc::channel(1);
        let reader = thread::Builder::new().name("input".to_owned());
        reader.spawn(move || read(io::stdin(), limit_bytes, &line_sender))?;
        let (out, messages) = mpsc::channel(OUT_LIMIT);
        let (done_sender, done_receiver) = oneshot::channel();
        thread::Builder::new().name("output".to_owned()).spawn(move || {
            // Nothing but messages may be written to standard output.
            write(io::stdout(), messages);
            // Fails if the wait below has timed out, because the client does not read.
            let _ = done_sender.send(());
        })?;
        info!("serving MCP on standard input and output");
        let cut_off = self.serve_lines(lines, out, shutdown_timeout, stop).await;
        if timeout(CANCEL_TIMEOUT, done_receiver).await.is_err() {
            debug!("client did not read its last messages");
        }
        if cut_off > 0 {
            let (requests, after) = (cut_off, shutdown_timeout);
            warn!(requests, ?after, "shutdown timeout: cancelling requests in flight");
        }
        Ok(())
    }

    /// Handles the lines of a client, and sends messages for the client to `out`, each without a line break.
    ///
    /// After the last line, requests in flight have `shutdown_timeout` to complete. They are cancelled when
    /// `stop` completes, or when the receiver of `out` is dropped. Returns the number of requests that were
    /// cut off by the timeout.
    async fn serve_lines(
        &self,
        mut lines: mpsc::Receiver<ClientLine>,
        out: mpsc::Sender<Bytes>,
        shutdown_timeout: Duration,
        stop: impl Future<Output = ()>,
    ) -> usize {
        let output = out.clone();
        let mut cancelled = pin!(async {
            tokio::select! {
                () = stop => {}
                () = output.closed() => {}
            }
        });
        let mut connection = StdioConnection::new(Arc::clone(&self.0), out);
        loop {
            // The next line may depend on a handshake that is still in progress.
            let is_ready = connection.slow_handshake.as_ref().is_none_or(AbortHandle::is_finished);
            let line = tokio::select! {
                biased;
                () = &mut cancelled => return 0,
                // Ended requests are removed, which frees slots for further requests.
                Some(_) = connection.running.join_next() => {
                    connection.notify_changes();
                    continue;
                }
                line = lines.recv(), if is_ready => line,
            };
            match line {
                None => break,
                Some(ClientLine::Whole(message)) if message.trim_ascii().is_empty() => {}
                Some(ClientLine::Whole(message)) => {
                    connection.handle_line(message).await;
                    connection.notify_changes();
                }
                Some(ClientLine::TooLong { limit_bytes }) => {
                    let message =
                        format!("a message may have at most {limit_bytes} bytes; this one has more");
                    connection.reject(None, ErrorKind::NOT_A_MESSAGE.error(message)).await;
                }
            }
        }
        connection.shutdown.send_replace(Shutdown::Draining);
        let all_responded = async { while connection.running.join_next().await.is_some() {} };
        let ended = tokio::select! {
            biased;
            () = &mut cancelled => Ok(()),
            ended = timeout(shutdown_timeout, all_responded) => ended,
        };
        ended.map_or_else(|_| connection.running.len(), |()| 0)
    }
}

/// Sends each line of the input to `lines`, until the end of the input, or until the receiver is dropped.
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

/// Reads the next line, without its line feed; `None` at the end of the input. The last line may have no line
/// feed.
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
        // The input ends without a line feed.
        Some(last_byte) => {
            line.push(last_byte);
            Some(ClientLine::Whole(line))
        }
    })
}

/// Writes each message as a line, until the queue is closed, or the client has closed its end.
fn write(mut output: impl Write, mut messages: mpsc::Receiver<Bytes>) {
    while let Some(message) = messages.blocking_recv() {
        let result =
            output.write_all(&message).and_then(|()| output.write_all(b"\n")).and_then(|()| output.flush());
        if let Err(error) = result {
            debug!(%error, "writing to standard output failed, closing the connection");
            return;
        }
    }
}

/// Connection of a client over stdio. Dropping it cancels its requests.
struct StdioConnection {
    dispatcher: Arc<MessageDispatcher>,
    out: mpsc::Sender<Bytes>,
    /// The session of the latest handshake.
    handshake: watch::Sender<Option<Arc<NamedSession>>>,
    /// Signals a new handshake, after which the notification tasks are restarted.
    new_handshake: watch::Receiver<Option<Arc<NamedSession>>>,
    connection: Arc<Connection>,
    /// Signals that the client has closed the input, so that endless streams end.
    shutdown: watch::Sender<Shutdown>,
    running: JoinSet<()>,
    /// A handshake that waits for the lists of MCP servers.
    slow_handshake: Option<AbortHandle>,
    /// The tasks that send notifications to a legacy client.
    notification_tasks: JoinSet<()>,
}

impl StdioConnection {
    fn new(dispatcher: Arc<MessageDispatcher>, out: mpsc::Sender<Bytes>) -> Self {
        let (shutdown, signal) = watch::channel(Shutdown::Serving);
        let (handshake, new_handshake) = watch::channel(None);
        let connection = Connection { shutdown: ShutdownSignal(signal), ..Connection::default() };
        Self {
            dispatcher,
            out,
            handshake,
            new_handshake,
            connection: Arc::new(connection),
            shutdown,
            running: JoinSet::new(),
            slow_handshake: None,
            notification_tasks: JoinSet::new(),
        }
    }

    async fn handle_line(&mut self, message: Vec<u8>) {
        let is_full = self.running.len() >= IN_FLIGHT_LIMIT;
        let too_many = || {
            ErrorKind::TOO_MANY_REQUESTS.error(format!(
                "{IN_FLIGHT_LIMIT} requests are in flight on this connection, which is the limit; retry when \
                 one has ended"
            ))
        };
        let is_parsed = is_full || *self.dispatcher.gateway.fetching_lists.borrow();
        let may_be_slow = match is_parsed.then(|| message_parser::message(&message)) {
            Some(Ok(ClientMessage::Request(request))) if is_full => {
                return self.reject(Some(request), too_many()).await;
            }
            Some(Err(_)) if is_full => return self.reject(None, too_many()).await,
            Some(Ok(ClientMessage::Request(request))) => request.method == "initialize",
            Some(Ok(_) | Err(_)) | None => false,
        };
        let (out, handshake) = (self.out.clone(), self.handshake.clone());
        let mut pending = Box::pin(respond(self.context(), message, out, handshake));
        // Polled once before the next line is read, because the messages after a handshake depend on it.
        if poll_fn(|context| Poll::Ready(pending.as_mut().poll(context))).await.is_pending() {
            let task = self.running.spawn(pending);
            if may_be_slow {
                self.slow_handshake = Some(task);
            }
        }
    }

    /// Context of a message from the client, which is the process that started this program.
    fn context(&self) -> MessageContext {
        let info = RequestInfo::from_stdio(&self.connection);
        let context = RequestContext { info, identity: AuthenticatedClient::local() };
        let session = self.handshake.borrow().clone();
        MessageContext { dispatcher: Arc::clone(&self.dispatcher), context, head: None, session }
    }

    /// Starts the notifications for a legacy client after its handshake. Over HTTP, the client opens a stream
    /// for them.
    fn notify_changes(&mut self) {
        if !self.new_handshake.has_changed().unwrap_or(false) {
            return;
        }
        self.notification_tasks.abort_all();
        let Some(session) = self.new_handshake.borrow_and_update().clone() else { return };
        // The stream is opened before the next response, so that no change after that response is missed.
        let stream = subscriptions::open_session_stream(&self.dispatcher, &session, &ClientIdentity::Local);
        let (Ok((receiver, notifying)), out) = (stream, self.out.clone()) else { return };
        self.notification_tasks.spawn(async move {
            let send = |message: Bytes| out.send(to_one_line(message.into())).map(Result::ok);
            forward_messages(notifying.map(Some), receiver, send).await;
        });
    }

    /// Responds with an error to a request that is not executed.
    async fn reject(&self, request: Option<RpcRequest<'_>>, error: RpcError) {
        let context = self.context();
        let (id, method) = request.map(|request| (request.id, request.method)).unzip();
        let revision = context.revision().unwrap_or(Revision::R2026_07_28);
        let response = context.error_response(id, method.as_deref(), revision, &error);
        // Sending fails if the connection is about to end, so that no one reads the response.
        let _ = self.out.send(to_one_line(response.body)).await;
    }
}

/// Handles a message: sends the messages that precede its response, and then the response.
async fn respond(
    context: MessageContext,
    message: Vec<u8>,
    out: mpsc::Sender<Bytes>,
    handshake: watch::Sender<Option<Arc<NamedSession>>>,
) {
    let (sender, receiver) = MessageSender::new();
    let pending = context.handle(&message, &sender);
    let send = |message: Bytes| out.send(to_one_line(message.into())).map(Result::ok);
    // There may be no response to the message, or the client may have stopped reading.
    let Some(response) = forward_messages(pending, receiver, send).await else { return };
    if let Some(id) = &response.session {
        handshake.send_replace(Some(Arc::new(context.dispatcher.sessions.open(id))));
    }
    // Sending fails if the connection is about to end, so that no one reads the response.
    let _ = out.send(to_one_line(response.body)).await;
}

/// Replaces line breaks in JSON with spaces. JSON of an upstream in a result may contain line breaks, but not
/// inside strings.
fn to_one_line(mut json: Vec<u8>) -> Bytes {
    json.iter_mut().filter(|byte| matches!(byte, b'\n' | b'\r')).for_each(|byte| *byte = b' ');
    json.into()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

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

    #[tokio::test]
    async fn a_cancelled_request_sends_no_further_message() {
        for (result, expected) in [(Some(()), 1), (None, 0)] {
            let (sender, receiver) = MessageSender::new();
            let (out, mut messages) = mpsc::channel(4);
            sender.notify("notifications/progress", &json!({}));
            let send = |message| out.send(message).map(Result::ok);
            assert_eq!(forward_messages(async { result }, receiver, send).await, result);
            drop(out);
            let mut count = 0;
            while messages.recv().await.is_some() {
                count += 1;
            }
            assert_eq!(count, expected);
        }
    }
}
