//! An MCP server that is a child of this process.
//!
//! In reading order: a [`ChildLink`] starts the child, and starts it again; `calls` are what it is asked and who waits,
//! and a `reader` hears what it writes; `silence` finds out whether it hangs.

mod calls;
mod reader;
mod silence;

use std::{
    sync::{
        Arc, Weak,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Duration,
};

use bytes::Bytes;
use http::HeaderMap;
use serde_json::Map;
use tokio::{
    sync::{Notify, mpsc, watch},
    time::{Instant, sleep_until, timeout},
};
use tracing::{debug, info, warn};

use self::{
    calls::{Over, Pipe, Unanswered, Waiting, write},
    reader::Reader,
    silence::Watchman,
};
use super::{
    Answer, Changed, McpUpstream, Outgoing, message, not_mcp, pipe,
    process::Process,
    revision::{self, Agreed},
};
use crate::{
    route::UpstreamName,
    upstream::{UpstreamError, error::Withheld, program::Program},
};

/// The longest message of a child that is read: replies of routes have limits of their own, which are lower.
const MESSAGE_LIMIT_BYTES: usize = 64 << 20;
/// How many messages may wait to be written to a child that does not read.
const OUT_LIMIT: usize = 64;
/// How long to wait before a child that ended is started again, at first and at most. The first time it is at once.
const AGAIN: (Duration, Duration) = (Duration::from_millis(500), Duration::from_secs(60));
/// A child that lived so long has not failed to start.
const LIVED: Duration = Duration::from_secs(60);
/// How long ending a child may take all in all.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(3);

/// One child for all calls, started when it is first needed and again when it has ended.
#[derive(Debug)]
pub(in crate::upstream::mcp) struct ChildLink {
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

impl ChildLink {
    pub(in crate::upstream::mcp) fn new(name: UpstreamName, program: Program, changed: Changed) -> Arc<Self> {
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
    pub(in crate::upstream::mcp) async fn request(
        &self,
        outgoing: &Outgoing<'_>,
    ) -> Result<Answer, UpstreamError> {
        let running = self.running().await?;
        self.ask(&running.pipe, outgoing, running.agreed.is_per_request()).await.map(Answer::Message)
    }

    /// What was agreed on with the child, which is started where there is none.
    pub(in crate::upstream::mcp) async fn agreed(&self) -> Result<Agreed, UpstreamError> {
        self.running().await.map(|running| running.agreed)
    }

    async fn ask(
        &self,
        pipe: &Pipe,
        outgoing: &Outgoing<'_>,
        is_per_request: bool,
    ) -> Result<Bytes, UpstreamError> {
        let id = self.ids.fetch_add(1, Ordering::Relaxed);
        let message = message::request(id, outgoing.method, revision::params(outgoing, id, is_per_request));
        let answer = pipe.ask(id, message, outgoing).await;
        answer.map_err(|why| match why {
            Unanswered::Ended => self.cut_off(),
            Unanswered::TooLong { limit_bytes } => {
                UpstreamError::TooLong { upstream: self.name.clone(), limit_bytes }
            }
            Unanswered::Full(full) => full.of(&self.name),
        })
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
                return Err(UpstreamError::Resting { upstream: self.name.clone(), of_route: false, rest });
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
        let waiting = Arc::new(Waiting::new());
        let (doubt, heard) = <(Arc<Notify>, Arc<Notify>)>::default();
        let pipe = Pipe {
            out: out.clone(),
            waiting: waiting.clone(),
            over,
            gone: gone.subscribe(),
            doubt: doubt.clone(),
        };
        let (name, mut told) = (self.name.clone(), is_over.subscribe());
        tokio::spawn(write(pipes.input, messages, is_over.subscribe()));
        let (introduced, secrets) =
            (Arc::new(AtomicBool::new(false)), pipe::looking_for(self.program.secrets_pattern()));
        let (is_serving, of_errors) = (introduced.clone(), secrets.clone());
        tokio::spawn(pipe::log_errors(name.clone(), pipes.errors, of_errors, is_serving));
        let watchman = Watchman {
            name: name.clone(),
            doubt,
            heard: heard.clone(),
            out: out.clone(),
            over: is_over.clone(),
            ended_first: ended_first.clone(),
        };
        tokio::spawn(watchman.watch());
        let reader = Reader {
            name: name.clone(),
            out,
            heard,
            waiting,
            changed: self.changed.clone(),
            garbage: 0,
            secrets,
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
        let agreed = timeout(McpUpstream::START_TIMEOUT, self.introduce(&pipe)).await;
        let after = McpUpstream::START_TIMEOUT;
        let agreed = agreed.map_err(|_| UpstreamError::Deadline { upstream: self.name.clone(), after })??;
        introduced.store(true, Ordering::Relaxed);
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
            ask: None,
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
            Err(_) => Err(not_mcp(&self.name, Withheld::from(refused))),
        }
    }

    /// Ends the child and waits for that.
    pub(in crate::upstream::mcp) async fn close(&self) {
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
