//! An MCP server that is a child of this process.

use std::{
    collections::HashMap,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError, Weak,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Duration,
};

use bytes::Bytes;
use http::HeaderMap;
use serde_json::Map;
use tokio::{
    io::{AsyncWriteExt, BufReader},
    process::{ChildStdin, ChildStdout},
    sync::{mpsc, oneshot, watch},
    time::{Instant, sleep_until, timeout},
};
use tracing::{debug, info, warn};

use super::{
    Answer, Changed, McpUpstream, Outgoing,
    listening::{self, Heard},
    message::{self, Message},
    not_mcp,
    pipe::{self, Line, next_line},
    process::Process,
    revision::{self, Agreed},
};
use crate::{
    route::UpstreamName,
    upstream::{Meanwhile, UpstreamError, program::Program},
};

/// The longest message of a child that is read: replies of routes have limits of their own, which are lower.
const MESSAGE_LIMIT_BYTES: usize = 64 << 20;
/// How many messages may wait to be written to a child that does not read.
const OUT_LIMIT: usize = 64;
/// How long to wait before a child that ended is started again, at first and at most. The first time it is at once.
const AGAIN: (Duration, Duration) = (Duration::from_millis(500), Duration::from_secs(60));
/// A child that lived so long has not failed to start.
const LIVED: Duration = Duration::from_secs(60);
/// How many lines that are no messages are logged of one child.
const GARBAGE_LOGGED: u32 = 5;
/// How long ending a child may take all in all.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(3);

/// One child for all calls, started when it is first needed and again when it has ended.
#[derive(Debug)]
pub(super) struct ChildLink {
    name: UpstreamName,
    program: Program,
    state: tokio::sync::Mutex<State>,
    ids: AtomicU64,
    changed: Changed,
    own: Weak<Self>,
}

#[derive(Debug, Default)]
struct State {
    running: Option<Arc<Running>>,
    /// How often it has ended soon, one after the other.
    failures: u32,
    not_before: Option<Instant>,
}

/// A child that has introduced itself.
#[derive(Debug)]
struct Running {
    pipe: Pipe,
    agreed: Agreed,
    since: Instant,
}

/// The two ways to and from a child. Clones are the same child; when the last but those of its own tasks is dropped, it
/// is ended.
#[derive(Debug, Clone)]
struct Pipe {
    out: mpsc::Sender<Bytes>,
    waiting: Arc<Waiting>,
    over: Arc<Over>,
    gone: watch::Receiver<bool>,
}

/// Whether a child is to end, or has; the last one to hold this ends it.
#[derive(Debug)]
struct Over(watch::Sender<bool>);

impl Drop for Over {
    fn drop(&mut self) {
        self.0.send_replace(true);
    }
}

/// Calls whose answers are waited for; `None` when there will be no more answers.
#[derive(Debug)]
struct Waiting(Mutex<Option<HashMap<u64, Caller>>>);

#[derive(Debug)]
struct Caller {
    tell: oneshot::Sender<Result<Bytes, usize>>,
    limit_bytes: usize,
    meanwhile: Option<Meanwhile>,
}

impl Waiting {
    fn callers(&self) -> MutexGuard<'_, Option<HashMap<u64, Caller>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn take(&self, id: u64) -> Option<Caller> {
        self.callers().as_mut()?.remove(&id)
    }
}

impl ChildLink {
    pub(super) fn new(name: UpstreamName, program: Program, changed: Changed) -> Arc<Self> {
        Arc::new_cyclic(|own| Self {
            name,
            program,
            state: tokio::sync::Mutex::default(),
            ids: AtomicU64::new(1),
            changed,
            own: own.clone(),
        })
    }

    /// Sends a request and waits for its answer.
    pub(super) async fn request(&self, outgoing: &Outgoing<'_>) -> Result<Answer, UpstreamError> {
        let running = self.running().await?;
        self.ask(&running.pipe, outgoing, running.agreed.is_per_request()).await.map(Answer::Message)
    }

    async fn ask(
        &self,
        pipe: &Pipe,
        outgoing: &Outgoing<'_>,
        is_per_request: bool,
    ) -> Result<Bytes, UpstreamError> {
        let id = self.ids.fetch_add(1, Ordering::Relaxed);
        let (tell, told) = oneshot::channel();
        let caller =
            Caller { tell, limit_bytes: outgoing.limit_bytes, meanwhile: outgoing.meanwhile.cloned() };
        match pipe.waiting.callers().as_mut() {
            Some(callers) => callers.insert(id, caller),
            None => return Err(self.cut_off()),
        };
        let mut call = InFlight { pipe, id, is_over: false };
        let message = message::request(id, outgoing.method, revision::params(outgoing, id, is_per_request));
        if pipe.out.send(message).await.is_err() {
            return Err(self.cut_off());
        }
        let answer = told.await;
        call.is_over = true;
        match answer {
            Ok(Ok(text)) => Ok(text),
            Ok(Err(limit_bytes)) => Err(UpstreamError::TooLong { upstream: self.name.clone(), limit_bytes }),
            Err(_) => Err(self.cut_off()),
        }
    }

    fn cut_off(&self) -> UpstreamError {
        UpstreamError::CutOff { upstream: self.name.clone(), source: "the program has ended".into() }
    }

    /// The child, started where there is none. It goes on to start when whoever asked for it leaves: programs that
    /// fetch themselves first take longer than most calls wait.
    async fn running(&self) -> Result<Arc<Running>, UpstreamError> {
        if let Ok(state) = self.state.try_lock()
            && let Some(running) = state.running.as_ref().filter(|running| !running.pipe.is_over())
        {
            return Ok(running.clone());
        }
        let Some(link) = self.own.upgrade() else { return Err(self.cut_off()) };
        let started = tokio::spawn(async move { link.started().await });
        started.await.unwrap_or_else(|error| {
            Err(UpstreamError::Connect { upstream: self.name.clone(), source: error.into() })
        })
    }

    async fn started(&self) -> Result<Arc<Running>, UpstreamError> {
        let mut state = self.state.lock().await;
        match &state.running {
            Some(running) if !running.pipe.is_over() => return Ok(running.clone()),
            Some(running) => {
                let lived = running.since.elapsed();
                state.running = None;
                state.failed(lived);
            }
            None => {}
        }
        if let Some(at) = state.not_before {
            let rest = at.saturating_duration_since(Instant::now());
            if rest > AGAIN.0 * 2 {
                return Err(UpstreamError::Resting { upstream: self.name.clone(), rest });
            }
            sleep_until(at).await;
        }
        let began = Instant::now();
        match self.start().await {
            Ok(running) => {
                let running = Arc::new(running);
                state.running = Some(running.clone());
                Ok(running)
            }
            Err(error) => {
                state.failed(began.elapsed().min(LIVED / 2));
                Err(error)
            }
        }
    }

    async fn start(&self) -> Result<Running, UpstreamError> {
        let (process, pipes) = Process::start(&self.program)
            .map_err(|error| UpstreamError::Connect { upstream: self.name.clone(), source: error.into() })?;
        let (out, messages) = mpsc::channel(OUT_LIMIT);
        let over = Arc::new(Over(watch::Sender::new(false)));
        let (is_over, gone) = (over.0.clone(), watch::Sender::new(false));
        let ended_first = Arc::new(AtomicBool::new(false));
        let waiting = Arc::new(Waiting(Mutex::new(Some(HashMap::new()))));
        let pipe = Pipe { out: out.clone(), waiting: waiting.clone(), over, gone: gone.subscribe() };
        let (name, mut told) = (self.name.clone(), is_over.subscribe());
        tokio::spawn(write(pipes.input, messages, is_over.subscribe()));
        tokio::spawn(pipe::log_errors(name.clone(), pipes.errors));
        let reader = Reader {
            name: name.clone(),
            out,
            waiting,
            changed: self.changed.clone(),
            garbage: 0,
            over: is_over.clone(),
            ended_first: ended_first.clone(),
        };
        tokio::spawn(reader.read(pipes.output));
        let changed = self.changed.clone();
        tokio::spawn(async move {
            let mut by_us = false;
            let over = async {
                let _ = told.wait_for(|over| *over).await;
                by_us = true;
            };
            let status = process.ended(over).await;
            is_over.send_replace(true);
            gone.send_replace(true);
            if by_us && !ended_first.load(Ordering::Relaxed) {
                debug!(upstream = %name, status, "the program has ended");
            } else {
                warn!(upstream = %name, status, "the program has ended, and is started again");
                changed.tell();
            }
        });
        let introduced = timeout(McpUpstream::START_TIMEOUT, self.introduce(&pipe)).await;
        let after = McpUpstream::START_TIMEOUT;
        let agreed =
            introduced.map_err(|_| UpstreamError::Deadline { upstream: self.name.clone(), after })??;
        info!(upstream = %self.name, revision = agreed.revision, "speaking MCP with the program");
        Ok(Running { pipe, agreed, since: Instant::now() })
    }

    /// Asks in the words of the older eras first: a child is ours alone and loses nothing by it, and old servers have
    /// been seen to end when anything comes before `initialize`.
    async fn introduce(&self, pipe: &Pipe) -> Result<Agreed, UpstreamError> {
        let headers = HeaderMap::new();
        let outgoing = |method, params| Outgoing {
            method,
            params,
            name: None,
            headers: &headers,
            limit_bytes: MESSAGE_LIMIT_BYTES,
            meanwhile: None,
        };
        let text = self.ask(pipe, &outgoing("initialize", revision::initialize()), false).await?;
        let refused = match super::whole_response(&self.name, &text)?.outcome {
            Ok(result) => {
                let agreed = Agreed::of_initialize(result).map_err(|why| not_mcp(&self.name, why))?;
                let told = message::notification("notifications/initialized", Map::new());
                pipe.out.send(told).await.map_err(|_| self.cut_off())?;
                return Ok(agreed);
            }
            Err(refused) => refused,
        };
        let text = self.ask(pipe, &outgoing("server/discover", Map::new()), true).await?;
        match super::whole_response(&self.name, &text)?.outcome {
            Ok(result) => Agreed::of_discover(result).map_err(|why| not_mcp(&self.name, why)),
            Err(_) => Err(not_mcp(&self.name, refused)),
        }
    }

    /// Ends the child and waits for that.
    pub(super) async fn close(&self) {
        let Some(running) = self.state.lock().await.running.take() else { return };
        let mut gone = running.pipe.gone.clone();
        running.pipe.over.0.send_replace(true);
        drop(running);
        let _ = timeout(CLOSE_TIMEOUT, gone.wait_for(|gone| *gone)).await;
    }
}

impl State {
    /// Notes the end of a child, and when the next may be started.
    fn failed(&mut self, lived: Duration) {
        self.failures = if lived > LIVED { 0 } else { self.failures + 1 };
        let wait = match self.failures {
            0 => Duration::ZERO,
            failures => (AGAIN.0 * (1 << (failures - 1).min(16))).min(AGAIN.1),
        };
        self.not_before = Some(Instant::now() + wait);
    }
}

impl Pipe {
    fn is_over(&self) -> bool {
        *self.over.0.borrow()
    }
}

/// A call whose answer is waited for. Where that ends early, the server is told.
struct InFlight<'a> {
    pipe: &'a Pipe,
    id: u64,
    is_over: bool,
}

impl Drop for InFlight<'_> {
    fn drop(&mut self) {
        if !self.is_over && self.pipe.waiting.take(self.id).is_some() {
            // A child that does not read is not told, either.
            let _ = self.pipe.out.try_send(message::cancelled(self.id));
        }
    }
}

/// Writes a line for each message, until the child is to end or reads no more.
async fn write(mut input: ChildStdin, mut messages: mpsc::Receiver<Bytes>, mut over: watch::Receiver<bool>) {
    let lines = async {
        while let Some(message) = messages.recv().await {
            let mut line = Vec::with_capacity(message.len() + 1);
            line.extend_from_slice(&message);
            line.push(b'\n');
            if input.write_all(&line).await.is_err() || input.flush().await.is_err() {
                return;
            }
        }
    };
    tokio::select! {
        () = lines => {}
        _ = over.wait_for(|over| *over) => {}
    }
}

/// Reads what a child writes.
struct Reader {
    name: UpstreamName,
    out: mpsc::Sender<Bytes>,
    waiting: Arc<Waiting>,
    changed: Changed,
    garbage: u32,
    over: watch::Sender<bool>,
    /// Set where the child's output ended before we wanted its end.
    ended_first: Arc<AtomicBool>,
}

impl Reader {
    async fn read(mut self, output: ChildStdout) {
        let mut output = BufReader::with_capacity(64 << 10, output);
        loop {
            match next_line(&mut output, MESSAGE_LIMIT_BYTES).await {
                Ok(Some(Line::Whole(line))) => self.line(&line),
                Ok(Some(Line::Cut(_))) => self.too_long(),
                Ok(None) | Err(_) => break,
            }
        }
        // Nothing more will come: whoever waits is told by the end of the channel.
        self.waiting.callers().take();
        self.over.send_if_modified(|over| {
            if !*over {
                self.ended_first.store(true, Ordering::Relaxed);
            }
            !std::mem::replace(over, true)
        });
    }

    fn line(&mut self, line: &[u8]) {
        let text = std::str::from_utf8(line).unwrap_or_default();
        let messages = message::messages(text);
        if messages.is_empty() && !line.trim_ascii().is_empty() {
            return self.garbage(line);
        }
        for message in messages {
            if let Message::Response(response) = &message
                && let Some(caller) = response.id.and_then(|id| self.waiting.take(id))
            {
                let text = response.text.as_bytes();
                let answer = match text.len() <= caller.limit_bytes {
                    true => Ok(Bytes::copy_from_slice(text)),
                    false => Err(caller.limit_bytes),
                };
                let _ = caller.tell.send(answer);
                continue;
            }
            let caller = listening::progress_of(&message).and_then(|id| {
                let callers = self.waiting.callers();
                Some((id, callers.as_ref()?.get(&id)?.meanwhile.clone()?))
            });
            let call = caller.as_ref().map(|(id, meanwhile)| (*id, meanwhile));
            match listening::heard(&self.name, &message, call) {
                Heard::Nothing => {}
                Heard::ToolsChanged => self.changed.tell(),
                // A child that asks and does not read gets no answer.
                Heard::Asked(answer) => drop(self.out.try_send(answer)),
            }
        }
    }

    /// A program that prints what is for people to where only messages belong.
    fn garbage(&mut self, line: &[u8]) {
        self.garbage = self.garbage.saturating_add(1);
        if self.garbage <= GARBAGE_LOGGED {
            let line = pipe::plain(&line[..line.len().min(200)]);
            warn!(upstream = %self.name, line, "the program wrote a line that is no message: it is passed over");
        }
    }

    /// Whose answer it would have been can't be told, unless only one waits.
    fn too_long(&self) {
        warn!(upstream = %self.name, limit_bytes = MESSAGE_LIMIT_BYTES, "a message of the program is too long");
        let mut callers = self.waiting.callers();
        let only = callers.as_mut().filter(|callers| callers.len() == 1).and_then(|callers| {
            let id = *callers.keys().next()?;
            callers.remove(&id)
        });
        if let Some(caller) = only {
            let _ = caller.tell.send(Err(caller.limit_bytes));
        }
    }
}
