//! Supervisor of an MCP server over stdio: starts its process on demand, and restarts it after it has exited.

use std::{
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use serde::Serialize;
use serde_json::Map;
use tokio::{
    sync::watch,
    time::{Instant, sleep_until, timeout},
};
use tracing::info;

use super::child_process::{CONTROL_MESSAGE_LIMIT_BYTES, ChildHandle};
use super::lifecycle::NegotiatedSession;
use super::{McpRequest, McpUpstream, jsonrpc, lifecycle, message_response, whole_response};
use crate::model::UpstreamResponse;
use crate::settings::units;
use crate::upstream::error::QuotedSource;
use crate::upstream::program::Program;
use crate::upstream::{Failure, UpstreamResult};

/// Backoff before a child that exited early is restarted: initial and maximum. A child that has run for
/// longer than [`STABLE_AFTER`] is restarted at once.
const BACKOFF: (Duration, Duration) = (Duration::from_millis(500), Duration::from_secs(60));
/// Time after which a running child counts as started successfully.
const STABLE_AFTER: Duration = Duration::from_secs(60);
/// Maximum time that [`ChildLink::close`] waits for the child to exit.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(3);

/// One child process for all calls, started on demand and restarted after it has exited.
#[derive(Debug)]
pub(super) struct ChildLink {
    pub(super) program: Program,
    state: tokio::sync::Mutex<State>,
    changed: watch::Sender<()>,
}

#[derive(Debug, Default)]
struct State {
    /// Child of the last start. It may have exited since.
    running: Option<Arc<Running>>,
    /// Consecutive early exits.
    failures: u32,
    not_before: Option<Instant>,
}

/// State of the program of an MCP server.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(tag = "state", rename_all = "lowercase")]
pub enum ProgramState {
    /// The program is not running. The next request starts it.
    Stopped,
    /// The program was started and has not completed the MCP handshake.
    Starting,
    /// Running.
    Running,
    /// The program has exited or did not start, and calls are rejected until it is started again.
    Restarting {
        /// Time until the next start.
        #[serde(rename = "starts_in_ms", serialize_with = "units::serialize_milliseconds")]
        starts_in: Duration,
    },
}

/// Child that has completed the MCP handshake.
#[derive(Debug)]
struct Running {
    handle: ChildHandle,
    agreed: NegotiatedSession,
    since: Instant,
}

impl ChildLink {
    pub(super) fn new(program: Program, changed: watch::Sender<()>) -> Arc<Self> {
        Arc::new(Self { program, state: tokio::sync::Mutex::default(), changed })
    }

    /// Sends a request and waits for the response.
    pub(super) async fn request(self: &Arc<Self>, outgoing: &McpRequest<'_>) -> UpstreamResult {
        let running = self.running().await?;
        let text = running.handle.call(outgoing, running.agreed.is_sessionless()).await?;
        Ok(UpstreamResponse { has_status: false, ..message_response(text) })
    }

    /// Returns the negotiated revision and capabilities, starting the child if necessary.
    pub(super) async fn agreed(self: &Arc<Self>) -> Result<NegotiatedSession, Failure> {
        self.running().await.map(|running| running.agreed.clone())
    }

    /// Returns the child, starting it if necessary. The start continues even if the call that needs the child
    /// is dropped: programs that are downloaded first take longer than most calls wait.
    async fn running(self: &Arc<Self>) -> Result<Arc<Running>, Failure> {
        if let Ok(state) = self.state.try_lock()
            && let Some(running) = state.running()
        {
            return Ok(running.clone());
        }
        let link = self.clone();
        let task = tokio::spawn(async move { link.ensure_running().await });
        task.await.unwrap_or_else(|error| Err(Failure::NotStarted(error.into())))
    }

    async fn ensure_running(&self) -> Result<Arc<Running>, Failure> {
        let mut state = self.state.lock().await;
        if let Some(running) = state.running() {
            return Ok(running.clone());
        }
        if let Some(exited) = state.running.take() {
            // The backoff began with the exit, which may be long before the call that needs the child.
            let ended_at = exited.handle.ended_at.get().copied().unwrap_or_else(Instant::now);
            state.record_failure(ended_at.saturating_duration_since(exited.since), ended_at);
        }
        if let Some(start_at) = state.not_before {
            let retry_after = start_at.saturating_duration_since(Instant::now());
            if retry_after > BACKOFF.0 * 2 {
                return Err(Failure::Restarting(retry_after));
            }
            sleep_until(start_at).await;
        }
        let result = self.start().await.map(Arc::new);
        match &result {
            Ok(running) => state.running = Some(running.clone()),
            Err(_) => state.record_failure(Duration::ZERO, Instant::now()),
        }
        result
    }

    async fn start(&self) -> Result<Running, Failure> {
        let handle = ChildHandle::start(&self.program, self.changed.clone())?;
        let start_timeout = McpUpstream::START_TIMEOUT;
        let agreed = timeout(start_timeout, negotiate(&handle))
            .await
            .map_err(|_| Failure::Timeout(start_timeout))??;
        handle.is_serving.store(true, Ordering::Relaxed);
        info!(upstream = %self.program.name, revision = agreed.revision, "MCP program initialized");
        Ok(Running { handle, agreed, since: Instant::now() })
    }

    /// Current state of the program.
    pub(super) fn program_state(&self) -> ProgramState {
        // Only the start of a child holds the lock for long, so a locked state means that the child is
        // starting.
        let Ok(state) = self.state.try_lock() else { return ProgramState::Starting };
        if state.running().is_some() {
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

/// Negotiates with `initialize` first, and with `server/discover` only if `initialize` is rejected. The
/// additional request costs nothing with a local child, and some old servers exit if they receive anything
/// before `initialize`.
async fn negotiate(handle: &ChildHandle) -> Result<NegotiatedSession, Failure> {
    let initialize = McpRequest::new("initialize", lifecycle::initialize(), CONTROL_MESSAGE_LIMIT_BYTES);
    let text = handle.call(&initialize, false).await?;
    let rejected = match whole_response(&text)?.outcome() {
        Ok(result) => {
            let agreed = NegotiatedSession::from_initialize(result);
            let agreed = agreed.map_err(|error| Failure::NotMcp(error.into()))?;
            handle.send(jsonrpc::initialized()).await?;
            return Ok(agreed);
        }
        Err(rejected) => QuotedSource::from(rejected),
    };
    let discover = McpRequest::new("server/discover", Map::new(), CONTROL_MESSAGE_LIMIT_BYTES);
    let text = handle.call(&discover, true).await?;
    let discovered = whole_response(&text)?.outcome().map_err(|_| rejected);
    discovered.and_then(NegotiatedSession::from_discover).map_err(|error| Failure::NotMcp(error.into()))
}

impl State {
    /// Running child. `None` if it was not started, has exited or is being stopped.
    fn running(&self) -> Option<&Arc<Running>> {
        self.running.as_ref().filter(|running| !running.handle.is_closed())
    }

    /// Records an exit or a failed start at `ended_at`, and the earliest time of the next start.
    fn record_failure(&mut self, ran_for: Duration, ended_at: Instant) {
        self.failures = if ran_for > STABLE_AFTER { 0 } else { self.failures + 1 };
        let wait = match self.failures {
            0 => Duration::ZERO,
            failures => (BACKOFF.0 * (1 << (failures - 1).min(16))).min(BACKOFF.1),
        };
        self.not_before = Some(ended_at + wait);
    }
}
