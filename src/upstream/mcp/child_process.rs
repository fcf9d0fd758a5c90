//! Actor that owns one child process, an MCP server over stdio: its pending calls, its process group, and the
//! watchdog that stops it when it hangs. The actor reads standard output in lines up to a limit, and copies
//! standard error to the log.

use std::{
    collections::HashMap,
    io,
    pin::pin,
    process::{ExitStatus, Stdio},
    sync::{
        Arc, OnceLock,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Duration,
};

use bytes::Bytes;
use regex::Regex;
use serde_json::Map;
use tokio::{
    io::{AsyncBufReadExt, AsyncRead, AsyncReadExt, AsyncWriteExt, BufReader},
    process::{ChildStderr, ChildStdin},
    sync::{mpsc, oneshot, watch},
    task::JoinHandle,
    time::{Instant, sleep_until, timeout},
};
use tracing::{debug, info, warn};

use super::{McpRequest, jsonrpc, lifecycle};
use crate::route::UpstreamName;
use crate::telemetry::{ErrorChain, Untrusted};
use crate::upstream::buffer::BodyAccount;
use crate::upstream::http::{EVERYTHING, REDACTED};
use crate::upstream::program::{ProcessGroup, Program};
use crate::upstream::{Failure, OnDrop, ProgressSender};

/// Maximum length of a message from a child, in bytes. A higher response limit of a route has no effect.
const MESSAGE_LIMIT_BYTES: usize = 64 << 20;
/// Maximum length of a message that is not the response to a call, in bytes: a notification, a request, or
/// the handshake.
pub(super) const CONTROL_MESSAGE_LIMIT_BYTES: usize = 1 << 20;
/// Maximum length of a line whose memory is not charged, in bytes.
const UNCHARGED_BYTES: usize = 16 << 10;
/// Reason why a line with an id is not a valid response.
const NOT_UTF8: &str = "its response is not UTF-8";
/// Maximum number of messages queued for a child that does not read.
const WRITE_QUEUE_LIMIT: usize = 64;
/// Maximum time that a child has to exit after its input is closed, and that orphaned processes have to close
/// its output.
const END_TIMEOUT: Duration = Duration::from_secs(1);
/// Time after an abandoned call until a child without any output, not even a response to the ping, counts as
/// hung. A single-threaded child responds late, so any output proves that the child does not hang.
const HANG_TIMEOUT: Duration = Duration::from_secs(30);
/// Id of the ping. Ids of calls start at 1.
const PING_ID: u64 = 0;
/// Maximum number of lines per child that are logged because they are not messages.
const NON_MESSAGES_LOGGED: u32 = 5;

/// Handle that sends calls to the actor of a child. Dropping the handle stops the child.
#[derive(Debug)]
pub(super) struct ChildHandle {
    ids: AtomicU64,
    commands: mpsc::UnboundedSender<ChildCommand>,
    out: mpsc::Sender<Bytes>,
    /// Whether the handshake is complete, so that calls are served.
    pub(super) is_serving: Arc<AtomicBool>,
    /// Time at which the child exited, or its stop began.
    pub(super) ended_at: Arc<OnceLock<Instant>>,
}

enum ChildCommand {
    /// Registers a call whose request is about to be sent.
    Call(u64, PendingCall),
    /// Cancels a call.
    Abandon(u64),
    /// Stops the child. The sender is dropped once the child has exited.
    Stop(oneshot::Sender<()>),
}

/// Call that waits for its response.
struct PendingCall {
    response_sender: oneshot::Sender<Result<Bytes, Failure>>,
    limit_bytes: usize,
    /// Memory account for the response.
    account: BodyAccount,
    progress: Option<ProgressSender>,
}

impl ChildHandle {
    /// Starts a child, and spawns the actor that owns it. The actor ends once the child has exited and no
    /// process of its group is left.
    pub(super) fn start(program: &Program, changed: watch::Sender<()>) -> Result<Self, Failure> {
        let mut command = program.command(&[], &[]);
        let (group, input, output, errors) = ProcessGroup::start(command.stdin(Stdio::piped()))
            .map_err(|error| Failure::NotStarted(error.into()))?;
        let input = input.ok_or_else(|| Failure::NotStarted("the child has no pipe".into()))?;
        let (name, secrets) = (program.name.clone(), secrets_regex(program.secrets_pattern()));
        let is_serving = Arc::<AtomicBool>::default();
        tokio::spawn(log_stderr(name.clone(), errors, secrets.clone(), is_serving.clone()));
        let (out, messages) = mpsc::channel(WRITE_QUEUE_LIMIT);
        let (commands, receiver) = mpsc::unbounded_channel();
        let writer = tokio::spawn(write_messages(input, messages));
        let actor = Actor {
            name,
            changed,
            secrets,
            commands: receiver,
            out: out.clone(),
            output: LineReader::new(output, UNCHARGED_BYTES),
            line_account: None,
            cut_reason: None,
            pending: HashMap::new(),
            hung_at: None,
            non_messages: 0,
            stopping: None,
            ended_at: Arc::default(),
        };
        let ended_at = actor.ended_at.clone();
        tokio::spawn(actor.run(group, writer));
        Ok(Self { ids: AtomicU64::new(PING_ID + 1), commands, out, is_serving, ended_at })
    }

    /// Whether the child has exited or is being stopped.
    pub(super) fn is_closed(&self) -> bool {
        self.commands.is_closed()
    }

    /// Sends a request and waits for the response. Cancels the call when the future is dropped.
    pub(super) async fn call(
        &self,
        outgoing: &McpRequest<'_>,
        is_sessionless: bool,
    ) -> Result<Bytes, Failure> {
        let id = self.ids.fetch_add(1, Ordering::Relaxed);
        let message = jsonrpc::request(id, outgoing.method, lifecycle::params(outgoing, id, is_sessionless));
        let (response_sender, response) = oneshot::channel();
        let (limit_bytes, progress) = (outgoing.limit_bytes, outgoing.progress().cloned());
        let call = PendingCall { response_sender, limit_bytes, account: outgoing.account(), progress };
        self.commands.send(ChildCommand::Call(id, call)).map_err(|_| exit_failure())?;
        let guard = OnDrop::new(|| drop(self.commands.send(ChildCommand::Abandon(id))));
        let response = match self.send(message).await {
            Ok(()) => {
                outgoing.context().request_sent();
                response.await.unwrap_or_else(|_| Err(exit_failure()))
            }
            Err(failure) => Err(failure),
        };
        guard.disarm();
        response
    }

    /// Sends a message, without waiting for a response.
    pub(super) async fn send(&self, message: Bytes) -> Result<(), Failure> {
        self.out.send(message).await.map_err(|_| exit_failure())
    }

    /// Stops the child and waits for its exit.
    pub(super) async fn stop(&self) {
        let (exit_sender, exit_receiver) = oneshot::channel();
        if self.commands.send(ChildCommand::Stop(exit_sender)).is_ok() {
            let _ = exit_receiver.await;
        }
    }
}

fn exit_failure() -> Failure {
    Failure::CutOff("MCP program exited".into())
}

impl PendingCall {
    /// Sends the response to the waiting call. While a long response waits for memory, nothing else is read
    /// from the child, so that a child can't fill the memory.
    async fn respond(mut self, text: &[u8]) {
        if text.len() > self.limit_bytes {
            return drop(self.response_sender.send(Err(Failure::TooLong(self.limit_bytes))));
        }
        let covered = tokio::select! {
            covered = self.account.cover(text.len()) => covered,
            () = self.response_sender.closed() => return,
        };
        let response = covered.map(|()| self.account.finish(Bytes::copy_from_slice(text)));
        let _ = self.response_sender.send(response);
    }
}

/// Actor that owns one child, with the state of the child.
struct Actor<R> {
    name: UpstreamName,
    changed: watch::Sender<()>,
    /// Secrets that are removed from logged lines.
    secrets: Option<Regex>,
    commands: mpsc::UnboundedReceiver<ChildCommand>,
    out: mpsc::Sender<Bytes>,
    output: LineReader<R>,
    /// Memory account of the line that is being read, and the id of the call that the line responds to, if
    /// the id is known yet.
    line_account: Option<(Option<u64>, BodyAccount)>,
    /// Why the line that is being read was cut.
    cut_reason: Option<Failure>,
    pending: HashMap<u64, PendingCall>,
    /// Time at which the child counts as hung, unless it writes output before.
    hung_at: Option<Instant>,
    non_messages: u32,
    /// Sender of the [`ChildCommand::Stop`], if one was received. Dropping it reports the child's exit.
    stopping: Option<oneshot::Sender<()>>,
    ended_at: Arc<OnceLock<Instant>>,
}

impl<R: AsyncRead + Unpin> Actor<R> {
    /// Serves calls until the child exits or is stopped. Afterwards no process of its group is left.
    async fn run(mut self, mut group: ProcessGroup, writer: JoinHandle<()>) {
        let is_stopped = self.serve(group.wait()).await;
        let _ = self.ended_at.set(Instant::now());
        self.commands.close();
        // Closing the input asks the child to exit (MCP, stdio, "Shutdown").
        writer.abort();
        let status = match timeout(END_TIMEOUT, self.read_until(group.wait())).await {
            Ok(status) => {
                group.kill_orphans();
                status.map_or_else(|error| error.to_string(), |status| status.to_string())
            }
            Err(_) => {
                group.terminate().await;
                "terminated".to_owned()
            }
        };
        // Responses that the child has already written still count.
        let _ = timeout(END_TIMEOUT, async {
            while let Ok(Some(line)) = self.output.next().await {
                self.handle_line(line).await;
            }
        })
        .await;
        self.fail_pending();
        if is_stopped {
            debug!(upstream = %self.name, status, "MCP program exited");
        } else {
            warn!(upstream = %self.name, status, "MCP program exited, restarting it");
            self.changed.send_replace(());
        }
    }

    /// Serves calls until the child is stopped, exits, closes its output or hangs. Returns whether it was
    /// stopped.
    async fn serve(&mut self, exit: impl Future<Output = io::Result<ExitStatus>>) -> bool {
        let mut exit = pin!(exit);
        while self.stopping.is_none() {
            let hung_at = self.hung_at;
            tokio::select! {
                line = self.output.next() => match line {
                    Ok(Some(line)) => self.handle_line(line).await,
                    // The child may run on, but no more responses will arrive.
                    Ok(None) | Err(_) => {
                        self.fail_pending();
                        return false;
                    }
                },
                command = self.commands.recv() => match command {
                    Some(command) => self.handle_command(command),
                    None => return true,
                },
                _ = &mut exit => return false,
                () = sleep_until(hung_at.unwrap_or_else(Instant::now)), if hung_at.is_some() => {
                    let (upstream, after) = (&self.name, HANG_TIMEOUT);
                    warn!(%upstream, ?after, "MCP program does not respond, killing it");
                    return false;
                }
            }
        }
        true
    }

    fn handle_command(&mut self, command: ChildCommand) {
        match command {
            ChildCommand::Call(id, call) => drop(self.pending.insert(id, call)),
            ChildCommand::Abandon(id) => self.abandon(id),
            ChildCommand::Stop(exit_sender) => self.stopping = Some(exit_sender),
        }
    }

    /// Fails all pending calls, because no more responses will arrive.
    fn fail_pending(&mut self) {
        while self.commands.try_recv().is_ok() {}
        self.pending.clear();
    }

    /// Processes further output of the child until `other` completes.
    async fn read_until<T>(&mut self, other: impl Future<Output = T>) -> T {
        let mut other = pin!(other);
        loop {
            tokio::select! {
                Ok(Some(line)) = self.output.next() => self.handle_line(line).await,
                ended = &mut other => return ended,
            }
        }
    }

    /// Cancels a call, and starts the watchdog: a ping detects whether the child hangs. A child whose queue
    /// is full gets neither the cancellation nor the ping.
    fn abandon(&mut self, id: u64) {
        if self.pending.remove(&id).is_some() {
            let _ = self.out.try_send(jsonrpc::cancelled(id));
            if self.hung_at.is_none() {
                self.hung_at = Some(Instant::now() + HANG_TIMEOUT);
                let _ = self.out.try_send(jsonrpc::request(PING_ID, "ping", Map::new()));
            }
        }
    }

    async fn handle_line(&mut self, line: OutputLine) {
        self.hung_at = None;
        // The command of a call is sent before its request, so a call is always registered before its
        // response is read.
        while let Ok(command) = self.commands.try_recv() {
            self.handle_command(command);
        }
        match line {
            OutputLine::Cut(beginning) => {
                let id = jsonrpc::id_of_long_message(&beginning, b"");
                let failure = match self.reserve(id, beginning.len()).await {
                    Ok(limit_bytes) => return self.output.resume(beginning, limit_bytes),
                    Err(failure) => failure,
                };
                warn!(upstream = %self.name, error = %ErrorChain(&failure), "MCP message not read");
                self.cut_reason = Some(failure);
                // If the id is known already, the call fails without waiting for the rest of the response.
                self.fail_cut(id);
            }
            OutputLine::Whole(line) => self.handle_whole_line(&line).await,
            OutputLine::Rest(end) => self.fail_cut(jsonrpc::id_of_long_message(b"", &end)),
        }
        (self.line_account, self.output.limit_bytes) = (None, UNCHARGED_BYTES);
    }

    /// Reserves memory for a line that is longer than its buffer, and returns the new size of the buffer:
    /// twice `length`, the bytes read so far, at most the limit of the pending call. A line that does not
    /// begin with an id may be the response to any pending call.
    ///
    /// # Errors
    ///
    /// [`Failure::TooLong`] if the line reaches the limit, or an error if no memory for the line is free in
    /// time.
    async fn reserve(&mut self, id: Option<u64>, length: usize) -> Result<usize, Failure> {
        let mut call = match id {
            // `None` if the call was abandoned.
            Some(id) => self.pending.get_mut(&id),
            None => self.pending.values_mut().max_by_key(|call| call.limit_bytes),
        };
        let limit_bytes = call
            .as_ref()
            .map_or(0, |call| call.limit_bytes)
            .clamp(CONTROL_MESSAGE_LIMIT_BYTES, MESSAGE_LIMIT_BYTES);
        let next_bytes = (2 * length).min(limit_bytes);
        if next_bytes <= length {
            return Err(Failure::TooLong(limit_bytes));
        }
        let account = self.line_account.take();
        self.line_account = account.or_else(|| call.as_ref().map(|call| (id, call.account.another())));
        if let (Some((_, account)), Some(call)) = (&mut self.line_account, &mut call) {
            tokio::select! {
                grown = account.grow(next_bytes) => grown?,
                () = call.response_sender.closed(), if id.is_some() => {
                    return Err(Failure::TooLong(limit_bytes));
                }
            }
        }
        Ok(next_bytes)
    }

    async fn handle_whole_line(&mut self, line: &[u8]) {
        let mut line_account = self.line_account.take();
        let Ok(text) = std::str::from_utf8(line) else {
            let id = jsonrpc::id_of_long_message(line, line);
            return match id.and_then(|id| self.pending.remove(&id)) {
                Some(call) => drop(call.response_sender.send(Err(Failure::NotMcp(NOT_UTF8.into())))),
                None => self.log_non_message(line),
            };
        };
        let messages = jsonrpc::messages_of_line(text);
        if messages.is_empty() && !line.trim_ascii().is_empty() {
            return self.log_non_message(line);
        }
        for message in messages {
            let id = message.request_id();
            if let Some(mut call) = id.and_then(|id| self.pending.remove(&id)) {
                if let Some((_, account)) =
                    line_account.take_if(|(account_id, _)| account_id.is_some() && *account_id == id)
                {
                    call.account = account;
                }
                call.respond(message.text.as_bytes()).await;
                continue;
            }
            let client_of = |id| self.pending.get(&id)?.progress.as_ref();
            if let Some(response) = jsonrpc::handle(&self.name, &message, &self.changed, client_of) {
                // A full queue means that the child does not read its input, so it gets no response.
                let _ = self.out.try_send(response);
            }
        }
    }

    /// Fails the call with this id because its response was cut.
    fn fail_cut(&mut self, id: Option<u64>) {
        let Some(call) = id.and_then(|id| self.pending.remove(&id)) else { return };
        let buffer_full = self.cut_reason.take().filter(|failure| matches!(failure, Failure::BufferFull(_)));
        let too_long = Failure::TooLong(call.limit_bytes.min(MESSAGE_LIMIT_BYTES));
        let _ = call.response_sender.send(Err(buffer_full.unwrap_or(too_long)));
    }

    /// Logs a line that is not a message. Some programs print text for humans to standard output.
    fn log_non_message(&mut self, line: &[u8]) {
        self.non_messages = self.non_messages.saturating_add(1);
        if self.non_messages <= NON_MESSAGES_LOGGED {
            let bytes = line.len();
            warn!(upstream = %self.name, bytes, "skipped a line of the MCP program that is not a message");
            let line = redacted_line(line, self.secrets.as_ref());
            debug!(upstream = %self.name, line = %Untrusted(&line), "skipped output line");
        }
    }
}

/// Writes one line per message, until the channel closes or the child closes its input. It is a separate
/// task, so that glossator still reads the output of a child that does not read its input.
async fn write_messages(mut input: ChildStdin, mut messages: mpsc::Receiver<Bytes>) {
    while let Some(message) = messages.recv().await {
        let line = [&message[..], b"\n"].concat();
        if input.write_all(&line).await.is_err() || input.flush().await.is_err() {
            return;
        }
    }
}

// Output of a child.

/// Maximum length of a line of standard error in the log, in bytes.
const LOGGED_BYTES: usize = 1000;
/// Maximum number of lines logged in [`LOGGED_INTERVAL`].
const LOGGED_LINES: u32 = 50;
const LOGGED_INTERVAL: Duration = Duration::from_secs(10);

/// Line of output.
#[derive(Debug, PartialEq, Eq)]
enum OutputLine {
    /// Complete line, without its line break.
    Whole(Vec<u8>),
    /// Beginning of a line that is over the limit. Its [`Rest`](Self::Rest) follows.
    Cut(Vec<u8>),
    /// Last bytes of a line that was cut, at most [`REST_LIMIT_BYTES`]; the bytes between are dropped. It may
    /// contain the `id` of the message, after a long result.
    Rest(Vec<u8>),
}

/// Maximum number of bytes that are kept of the end of a cut line.
const REST_LIMIT_BYTES: usize = 1024;

/// Line reader with a length limit.
struct LineReader<R> {
    input: BufReader<R>,
    limit_bytes: usize,
    line: Vec<u8>,
    is_cut: bool,
}

impl<R: AsyncRead + Unpin> LineReader<R> {
    fn new(input: R, limit_bytes: usize) -> Self {
        let input = BufReader::with_capacity(64 << 10, input);
        Self { input, limit_bytes, line: Vec::new(), is_cut: false }
    }

    /// Continues a line that was cut, up to a higher limit.
    fn resume(&mut self, mut beginning: Vec<u8>, limit_bytes: usize) {
        beginning.append(&mut self.line);
        (self.line, self.limit_bytes, self.is_cut) = (beginning, limit_bytes, false);
    }

    /// Reads the next line; `None` at the end. Cancel-safe: a partly read line is preserved when the future
    /// is dropped.
    async fn next(&mut self) -> io::Result<Option<OutputLine>> {
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
/// Until the child serves calls, it has received no request, and its lines explain why it does not start.
/// Afterwards the lines may contain text of requests and responses, so they are only logged at `debug`.
async fn log_stderr(
    upstream: UpstreamName,
    errors: ChildStderr,
    secrets: Option<Regex>,
    is_serving: Arc<AtomicBool>,
) {
    let mut errors = LineReader::new(errors, LOGGED_BYTES);
    let (mut interval_start, mut lines) = (Instant::now(), 0_u32);
    while let Ok(Some(line)) = errors.next().await {
        let (OutputLine::Whole(line) | OutputLine::Cut(line)) = line else { continue };
        if interval_start.elapsed() > LOGGED_INTERVAL {
            if lines > LOGGED_LINES {
                warn!(
                    %upstream, omitted_lines = lines - LOGGED_LINES, interval = ?LOGGED_INTERVAL,
                    "standard error of the MCP program: too many lines in this interval"
                );
            }
            (interval_start, lines) = (Instant::now(), 0);
        }
        lines = lines.saturating_add(1);
        let line = redacted_line(&line, secrets.as_ref());
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

/// Compiles the regex of secrets. If it is too long, returns a regex that matches everything.
fn secrets_regex(pattern: Option<String>) -> Option<Regex> {
    let everything = |_| Regex::new(EVERYTHING).expect("the pattern is fixed and tested");
    pattern.map(|pattern| Regex::new(&pattern).unwrap_or_else(everything))
}

/// Line for the log: secrets redacted, control characters replaced.
fn redacted_line(line: &[u8], secrets: Option<&Regex>) -> String {
    let text = String::from_utf8_lossy(line);
    let visible = |c: char| if c.is_control() && c != '\t' { '\u{fffd}' } else { c };
    let line: String = text.trim_end().chars().map(visible).collect();
    match secrets {
        Some(secrets) => secrets.replace_all(&line, REDACTED).into_owned(),
        None => line,
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;
    use tokio::{
        io::{DuplexStream, duplex},
        time::{advance, sleep},
    };

    use super::*;
    use crate::upstream::buffer::{BodyCharge, UpstreamBuffer};

    struct Child {
        commands: mpsc::UnboundedSender<ChildCommand>,
        sent: mpsc::Receiver<Bytes>,
        output: DuplexStream,
        serving: JoinHandle<bool>,
        next_id: u64,
    }

    impl Child {
        fn new() -> Self {
            let (commands, receiver) = mpsc::unbounded_channel();
            let ((out, sent), (output, read)) = (mpsc::channel(4), duplex(1000));
            let mut actor = Actor {
                name: "old".parse().unwrap(),
                changed: watch::Sender::new(()),
                secrets: None,
                commands: receiver,
                out,
                output: LineReader::new(read, UNCHARGED_BYTES),
                line_account: None,
                cut_reason: None,
                pending: HashMap::new(),
                hung_at: None,
                non_messages: 0,
                stopping: None,
                ended_at: Arc::default(),
            };
            let serving = tokio::spawn(async move { actor.serve(std::future::pending()).await });
            Self { commands, sent, output, serving, next_id: 1 }
        }

        /// Abandons a call, and returns the messages that the child receives for it.
        async fn abandon_call(&mut self) -> [String; 2] {
            let id = self.next_id;
            self.next_id += 1;
            let response_sender = oneshot::channel().0;
            let call = PendingCall {
                response_sender,
                limit_bytes: 100,
                account: BodyAccount::none(),
                progress: None,
            };
            assert!(self.commands.send(ChildCommand::Call(id, call)).is_ok());
            assert!(self.commands.send(ChildCommand::Abandon(id)).is_ok());
            let (cancelled, ping) = (self.sent.recv().await.unwrap(), self.sent.recv().await.unwrap());
            [cancelled, ping].map(|message| String::from_utf8(message.to_vec()).unwrap())
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_silent_child_is_killed_after_a_cancelled_call() {
        let mut child = Child::new();
        let started_at = Instant::now();
        let [cancelled, ping] = child.abandon_call().await;
        assert!(cancelled.contains(r#""requestId":1"#), "{cancelled}");
        assert!(ping.contains(r#""method":"ping""#), "{ping}");
        assert!(!child.serving.await.unwrap());
        assert_eq!(started_at.elapsed(), HANG_TIMEOUT);
    }

    #[tokio::test(start_paused = true)]
    async fn a_child_that_writes_anything_is_not_killed() {
        let mut child = Child::new();
        for _ in 0..3 {
            child.abandon_call().await;
            sleep(HANG_TIMEOUT - Duration::from_secs(1)).await;
            child.output.write_all(b"a line\n").await.unwrap();
            sleep(HANG_TIMEOUT * 2).await;
        }
        assert!(!child.serving.is_finished());
    }

    #[tokio::test(start_paused = true)]
    async fn an_idle_child_may_be_silent() {
        let child = Child::new();
        advance(HANG_TIMEOUT * 100).await;
        sleep(Duration::from_secs(1)).await;
        assert!(!child.serving.is_finished() && child.sent.is_empty());
    }

    /// Calls with ids from 1 on, with these limits of their responses.
    fn send_calls(child: &Child, limits_bytes: &[usize], charge: &BodyCharge) -> Vec<CallResponse> {
        let calls = limits_bytes.iter().enumerate().map(|(index, limit_bytes)| {
            let (limit_bytes, deadline) = (*limit_bytes, Instant::now() + Duration::from_secs(60));
            let (response_sender, response) = oneshot::channel();
            let account = BodyAccount::new(Some(charge), limit_bytes, deadline);
            let call = PendingCall { response_sender, limit_bytes, account, progress: None };
            assert!(child.commands.send(ChildCommand::Call(index as u64 + 1, call)).is_ok());
            response
        });
        calls.collect()
    }

    type CallResponse = oneshot::Receiver<Result<Bytes, Failure>>;

    fn charge(limit_bytes: usize) -> BodyCharge {
        BodyCharge { buffer: UpstreamBuffer::new(limit_bytes), factor: 3 }
    }

    /// Response with this id, at the beginning or at the end.
    fn long_response(id: u64, length: usize, is_id_first: bool) -> String {
        let text = "x".repeat(length);
        match is_id_first {
            true => format!("{{\"jsonrpc\":\"2.0\",\"id\":{id},\"result\":\"{text}\"}}\n"),
            false => format!("{{\"result\":\"{text}\",\"jsonrpc\":\"2.0\",\"id\":{id}}}\n"),
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_line_is_charged_and_read_up_to_the_limit_of_its_call() {
        const KIB: usize = 1 << 10;
        for is_id_first in [true, false] {
            let (mut child, charge) = (Child::new(), charge(100 << 20));
            let mut responses = send_calls(&child, &[100 * KIB, 3 * KIB * KIB], &charge);
            child.output.write_all(long_response(1, 200 * KIB, is_id_first).as_bytes()).await.unwrap();
            let failure = responses.remove(0).await.unwrap().unwrap_err();
            assert!(matches!(failure, Failure::TooLong(limit) if limit == 100 * KIB), "{failure}");
            let line = long_response(2, 2 * KIB * KIB, is_id_first);
            let (beginning, end) = line.as_bytes().split_at(line.len() - 100);
            child.output.write_all(beginning).await.unwrap();
            let charged = async {
                while charge.buffer.state().used_bytes < 6 * KIB * KIB {
                    sleep(Duration::from_millis(1)).await;
                }
            };
            timeout(Duration::from_secs(60), charged).await.expect("the line is charged while it is read");
            child.output.write_all(end).await.unwrap();
            let response = responses.remove(0).await.unwrap().unwrap();
            assert_eq!(
                (response.len(), charge.buffer.state().used_bytes),
                (line.len() - 1, 3 * response.len())
            );
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_line_without_memory_fails_its_call() {
        for is_id_first in [true, false] {
            let (mut child, charge) = (Child::new(), charge(1000));
            charge.buffer.charge(1000);
            let responses = send_calls(&child, &[1 << 20], &charge);
            child.output.write_all(long_response(1, 100_000, is_id_first).as_bytes()).await.unwrap();
            for response in responses {
                let failure = response.await.unwrap().unwrap_err();
                assert!(matches!(failure, Failure::BufferFull(1000)), "{failure}");
            }
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_line_for_an_abandoned_call_does_not_wait_for_memory() {
        let (mut child, charge) = (Child::new(), charge(1000));
        charge.buffer.charge(1000);
        let mut responses = send_calls(&child, &[1 << 20, 1000], &charge);
        drop(responses.remove(0));
        let started_at = Instant::now();
        let lines = [long_response(1, 100_000, true), long_response(2, 100, true)].concat();
        child.output.write_all(lines.as_bytes()).await.unwrap();
        responses.remove(0).await.unwrap().unwrap();
        assert_eq!(started_at.elapsed(), Duration::ZERO);
    }

    #[tokio::test(start_paused = true)]
    async fn a_response_that_is_not_utf8_fails_its_call() {
        for (before, after) in [("\"id\":1,", ""), ("", ",\"id\":1")] {
            let mut child = Child::new();
            let mut responses = send_calls(&child, &[1000], &charge(1000));
            let line = [
                &b"{\"jsonrpc\":\"2.0\","[..],
                before.as_bytes(),
                b"\"result\":\"\xff\xfe\"",
                after.as_bytes(),
                b"}\n",
            ];
            child.output.write_all(&line.concat()).await.unwrap();
            let failure = responses.remove(0).await.unwrap().unwrap_err();
            assert!(matches!(failure, Failure::NotMcp(_)), "{failure}");
        }
    }

    #[test]
    fn secrets_that_are_too_long_to_search_for_are_not_logged() {
        let redact =
            |pattern: &str| redacted_line(b"it is s3cret", secrets_regex(Some(pattern.to_owned())).as_ref());
        assert_eq!(redact("s3cret"), format!("it is {REDACTED}"));
        assert_eq!(redact("(?:s{1000}){1000}"), REDACTED);
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
            let [beginning, rest] = cut;
            assert_eq!(
                found,
                [whole("a"), whole(""), whole("12345"), beginning, rest, whole("last")],
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
        let (mut writer, reader) = duplex(100);
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
