//! MCP server as a child process over stdio: started on demand, and restarted after it has exited.

use std::{
    io,
    process::Stdio,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Duration,
};

use bytes::Bytes;
use http::HeaderMap;
use serde_json::Map;
use tokio::{
    process::{ChildStderr, ChildStdin, ChildStdout},
    sync::watch,
    time::{Instant, sleep_until, timeout},
};
use tracing::info;

use super::{
    McpRequest, McpResponse, McpUpstream,
    child_actor::{self, ChildHandle, MESSAGE_LIMIT_BYTES},
    child_output::{log_errors, secrets_regex},
    jsonrpc,
    lifecycle::{self, NegotiatedSession},
    not_mcp,
};
use crate::{
    route::UpstreamName,
    upstream::{
        UpstreamError,
        error::QuotedSource,
        program::{ProcessGroup, Program},
    },
};

/// Backoff before a child that exited early is restarted: initial and maximum. The first restart is
/// immediate.
const BACKOFF: (Duration, Duration) = (Duration::from_millis(500), Duration::from_secs(60));
/// A child that ran this long has started successfully.
const STABLE_AFTER: Duration = Duration::from_secs(60);
/// Longest time that [`ChildLink::close`] waits for the child to exit.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(3);

/// One child process for all calls, started on demand and restarted after it has exited.
#[derive(Debug)]
pub(super) struct ChildLink {
    name: UpstreamName,
    program: Program,
    state: tokio::sync::Mutex<State>,
    ids: AtomicU64,
    changed: watch::Sender<()>,
}

#[derive(Debug, Default)]
struct State {
    running: Option<Arc<Running>>,
    /// Consecutive early exits.
    failures: u32,
    not_before: Option<Instant>,
}

/// State of the program of an MCP server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ProgramState {
    /// Not running. The next request starts it.
    Stopped,
    /// Being started: it has not completed the MCP handshake.
    Starting,
    /// Running.
    Running,
    /// It has exited or did not start, and calls are rejected until it is started again.
    Restarting {
        /// Time until then.
        starts_in: Duration,
    },
}

impl ProgramState {
    /// Label in the admin API.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Stopped => "stopped",
            Self::Starting => "starting",
            Self::Running => "running",
            Self::Restarting { .. } => "restarting",
        }
    }
}

/// Child that has completed the MCP handshake.
#[derive(Debug)]
struct Running {
    handle: ChildHandle,
    agreed: NegotiatedSession,
    since: Instant,
}

impl ChildLink {
    pub(super) fn new(name: UpstreamName, program: Program, changed: watch::Sender<()>) -> Arc<Self> {
        let (state, ids) = (tokio::sync::Mutex::default(), AtomicU64::new(1));
        Arc::new(Self { name, program, state, ids, changed })
    }

    /// Sends a request and waits for the response.
    pub(super) async fn request(
        self: &Arc<Self>,
        outgoing: &McpRequest<'_>,
    ) -> Result<McpResponse, UpstreamError> {
        let running = self.running().await?;
        self.call(&running.handle, outgoing, running.agreed.is_per_request()).await.map(McpResponse::Message)
    }

    /// Returns what was negotiated with the child, starting it if necessary.
    pub(super) async fn agreed(self: &Arc<Self>) -> Result<NegotiatedSession, UpstreamError> {
        self.running().await.map(|running| running.agreed)
    }

    async fn call(
        &self,
        handle: &ChildHandle,
        outgoing: &McpRequest<'_>,
        is_per_request: bool,
    ) -> Result<Bytes, UpstreamError> {
        let id = self.ids.fetch_add(1, Ordering::Relaxed);
        let message = jsonrpc::request(id, outgoing.method, lifecycle::params(outgoing, id, is_per_request));
        handle.call(id, message, outgoing).await
    }

    /// Returns the child, starting it if necessary. The start continues even if the call that needs it is
    /// dropped: programs that download themselves first take longer than most calls wait.
    async fn running(self: &Arc<Self>) -> Result<Arc<Running>, UpstreamError> {
        if let Ok(state) = self.state.try_lock()
            && let Some(running) = state.running.as_ref().filter(|running| !running.handle.is_closed())
        {
            return Ok(running.clone());
        }
        let link = self.clone();
        let started = tokio::spawn(async move { link.started().await });
        started.await.unwrap_or_else(|error| {
            Err(UpstreamError::Connect { upstream: self.name.clone(), source: error.into() })
        })
    }

    async fn started(&self) -> Result<Arc<Running>, UpstreamError> {
        let mut state = self.state.lock().await;
        match &state.running {
            Some(running) if !running.handle.is_closed() => return Ok(running.clone()),
            Some(running) => {
                let ran_for = running.since.elapsed();
                state.running = None;
                state.failed(ran_for);
            }
            None => {}
        }
        if let Some(at) = state.not_before {
            let retry_after = at.saturating_duration_since(Instant::now());
            if retry_after > BACKOFF.0 * 2 {
                return Err(UpstreamError::Restarting { upstream: self.name.clone(), retry_after });
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
                state.failed(began.elapsed().min(STABLE_AFTER / 2));
                Err(error)
            }
        }
    }

    async fn start(&self) -> Result<Running, UpstreamError> {
        let (group, input, output, errors) = self
            .spawn()
            .map_err(|error| UpstreamError::Connect { upstream: self.name.clone(), source: error.into() })?;
        let is_serving = Arc::new(AtomicBool::new(false));
        let secrets = secrets_regex(self.program.secrets_pattern());
        tokio::spawn(log_errors(self.name.clone(), errors, secrets.clone(), is_serving.clone()));
        let (name, changed) = (self.name.clone(), self.changed.clone());
        let handle = child_actor::spawn(name, changed, secrets, group, input, output);
        let agreed = timeout(McpUpstream::START_TIMEOUT, self.introduce(&handle)).await;
        let after = McpUpstream::START_TIMEOUT;
        let agreed = agreed.map_err(|_| UpstreamError::Deadline { upstream: self.name.clone(), after })??;
        is_serving.store(true, Ordering::Relaxed);
        info!(upstream = %self.name, revision = agreed.revision, "MCP program initialized");
        Ok(Running { handle, agreed, since: Instant::now() })
    }

    /// Starts the program in its own process group.
    fn spawn(&self) -> io::Result<(ProcessGroup, ChildStdin, ChildStdout, ChildStderr)> {
        let mut command = self.program.command(&[], []);
        let mut group = ProcessGroup::start(command.stdin(Stdio::piped()))?;
        let missing = || io::Error::other("the child has no pipe");
        let child = group.child().ok_or_else(missing)?;
        let pipes = (child.stdin.take(), child.stdout.take(), child.stderr.take());
        let (Some(input), Some(output), Some(errors)) = pipes else { return Err(missing()) };
        Ok((group, input, output, errors))
    }

    /// Negotiates with `initialize` first, and `server/discover` only if that is refused. That costs nothing
    /// with a local child, and some old servers exit if they receive anything before `initialize`.
    async fn introduce(&self, handle: &ChildHandle) -> Result<NegotiatedSession, UpstreamError> {
        let headers = HeaderMap::new();
        let outgoing = |method, params| McpRequest {
            method,
            params,
            name: None,
            headers: &headers,
            limit_bytes: MESSAGE_LIMIT_BYTES,
            upstream_call: None,
        };
        let text = self.call(handle, &outgoing("initialize", lifecycle::initialize()), false).await?;
        let refused = match super::whole_response(&self.name, &text)?.outcome {
            Ok(result) => {
                let agreed =
                    NegotiatedSession::from_initialize(result).map_err(|error| not_mcp(&self.name, error))?;
                let initialized = jsonrpc::notification("notifications/initialized", Map::new());
                handle.send(initialized).await?;
                return Ok(agreed);
            }
            Err(refused) => refused,
        };
        let text = self.call(handle, &outgoing("server/discover", Map::new()), true).await?;
        match super::whole_response(&self.name, &text)?.outcome {
            Ok(result) => {
                NegotiatedSession::from_discover(result).map_err(|error| not_mcp(&self.name, error))
            }
            Err(_) => Err(not_mcp(&self.name, QuotedSource::from(refused))),
        }
    }

    /// Current state of the program.
    pub(super) fn program_state(&self) -> ProgramState {
        // Only a start holds the lock for longer than an instant.
        let Ok(state) = self.state.try_lock() else { return ProgramState::Starting };
        if state.running.as_ref().is_some_and(|running| !running.handle.is_closed()) {
            return ProgramState::Running;
        }
        let starts_in = state.not_before.map(|at| at.saturating_duration_since(Instant::now()));
        match starts_in.filter(|starts_in| !starts_in.is_zero()) {
            Some(starts_in) => ProgramState::Restarting { starts_in },
            None => ProgramState::Stopped,
        }
    }

    /// Stops the child and waits for its exit.
    pub(super) async fn close(&self) {
        let Some(running) = self.state.lock().await.running.take() else { return };
        let _ = timeout(CLOSE_TIMEOUT, running.handle.stop()).await;
    }
}

impl State {
    /// Records an exit, and the earliest time of the next start.
    fn failed(&mut self, ran_for: Duration) {
        self.failures = if ran_for > STABLE_AFTER { 0 } else { self.failures + 1 };
        let wait = match self.failures {
            0 => Duration::ZERO,
            failures => (BACKOFF.0 * (1 << (failures - 1).min(16))).min(BACKOFF.1),
        };
        self.not_before = Some(Instant::now() + wait);
    }
}
