//! Health (liveness), readiness, status and reloads of the process.

use std::{sync::Arc, time::SystemTime};

use axum::{Json, extract::State};
use http::{HeaderMap, StatusCode};
use serde_json::{Map, Value, json};
use tokio::sync::{mpsc, oneshot, watch};

use super::{Api, ProblemResponse, require_json, seconds};
use crate::config::Loaded;
use crate::inbound::without_nulls;

/// Maximum number of requests that wait for a reload. All of them get the result of the next reload.
const WAITING_LIMIT: usize = 16;

/// The status of the process.
#[derive(Debug, Clone)]
pub struct ProcessStatus {
    /// Whether the graceful shutdown has begun.
    pub is_ending: bool,
    /// Number of configurations that have been active, including the current one.
    pub generation: u64,
    /// Time at which the current configuration became active.
    pub since: SystemTime,
    /// The failure of the last reload; `None` if it succeeded.
    pub failure: Option<ReloadFailure>,
    /// Number of failed reloads since the start.
    pub failures: u64,
    /// The current configuration, for `GET /config` and the playground.
    pub loaded: Arc<Loaded>,
    /// Changed settings that take effect only after a restart.
    pub restart_pending: Vec<String>,
}

/// A failed reload, or several in a row: the time of the first one and the problems of the last one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReloadFailure {
    /// Time of the first of the consecutive failed reloads.
    pub at: SystemTime,
    /// The problems, as `check` reports them.
    pub report: String,
}

/// A request to reload the configuration: the sender that returns the process status after the reload.
pub type ReloadRequest = oneshot::Sender<ProcessStatus>;

/// Handle of the process for the admin API. All clones refer to the same process.
#[derive(Debug, Clone)]
pub struct Process {
    status: watch::Receiver<ProcessStatus>,
    reloads: mpsc::Sender<ReloadRequest>,
}

/// The counterpart of a [`Process`], for the code that runs the process.
#[derive(Debug)]
pub struct ProcessControl {
    /// Publishes the process status.
    pub status: watch::Sender<ProcessStatus>,
    /// Receives the reload requests.
    pub reloads: mpsc::Receiver<ReloadRequest>,
}

impl Process {
    /// Creates the handle of a process that starts now with its first configuration, and its counterpart.
    pub fn new(loaded: Loaded) -> (Self, ProcessControl) {
        let (status, published) = watch::channel(ProcessStatus {
            is_ending: false,
            generation: 1,
            since: SystemTime::now(),
            failure: None,
            failures: 0,
            loaded: Arc::new(loaded),
            restart_pending: Vec::new(),
        });
        let (request, reloads) = mpsc::channel(WAITING_LIMIT);
        (Self { status: published, reloads: request }, ProcessControl { status, reloads })
    }

    pub(super) fn status(&self) -> ProcessStatus {
        self.status.borrow().clone()
    }

    /// Reloads the configuration. `None` if too many requests wait for a reload, or if this process can't
    /// reload.
    async fn reload(&self) -> Option<ProcessStatus> {
        let (request, outcome) = oneshot::channel();
        self.reloads.try_send(request).ok()?;
        outcome.await.ok()
    }
}

/// `GET /healthz`: liveness probe.
pub(super) async fn healthz() -> Json<Value> {
    Json(json!({ "status": "ok" }))
}

/// `GET /readyz`: readiness probe. Probes send no token, so the response omits the problems of the
/// configuration.
pub(super) async fn readyz(State(api): State<Arc<Api>>) -> (StatusCode, Json<Value>) {
    let status = api.describe(&api.process.status(), None);
    let code = if status["ready"] == true { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
    (code, Json(status))
}

pub(super) async fn status(State(api): State<Arc<Api>>) -> Json<Value> {
    let current = api.process.status();
    let mut status = api.describe(&current, current.failure.as_ref());
    status["version"] = env!("CARGO_PKG_VERSION").into();
    status["started"] = seconds(api.meters.began()).into();
    status["now"] = seconds(SystemTime::now()).into();
    Json(status)
}

pub(super) async fn reload(
    State(api): State<Arc<Api>>,
    headers: HeaderMap,
) -> Result<(StatusCode, Json<Value>), ProblemResponse> {
    require_json(&headers)?;
    let status = api.process.reload().await.ok_or_else(|| {
        ProblemResponse::new(
            StatusCode::SERVICE_UNAVAILABLE,
            "this process can't reload, or too many reloads are waiting; retry later",
        )
    })?;
    let code = if status.failure.is_none() { StatusCode::OK } else { StatusCode::UNPROCESSABLE_ENTITY };
    Ok((code, Json(api.describe(&status, status.failure.as_ref()))))
}

impl Api {
    /// Describes the status as JSON. `reported_failure` is the failed reload whose problems are included.
    fn describe(&self, status: &ProcessStatus, reported_failure: Option<&ReloadFailure>) -> Value {
        let upstreams = self.readiness_upstreams();
        let are_reachable = upstreams.values().all(|upstream| upstream["reachable"] == true);
        let shared = self.gateway.shared.as_ref().map(|shared| shared.state());
        without_nulls(json!({
            "ready": !status.is_ending && are_reachable,
            "configuration": without_nulls(json!({
                "generation": status.generation,
                "since": seconds(status.since),
                "restart_pending": status.restart_pending,
                "failed_since": status.failure.as_ref().map(|failure| seconds(failure.at)),
            })),
            "upstreams": Some(upstreams).filter(|upstreams| !upstreams.is_empty()),
            // The shared state does not affect readiness: each policy defines its behaviour without the
            // store.
            "shared_state": shared.map(|state| {
                json!({ "reachable": state.is_up, "since": seconds(state.since) })
            }),
            "problems": reported_failure.map(|failure| &failure.report),
        }))
    }

    /// Lists the upstreams that readiness depends on, and whether they are reachable according to their
    /// policies and health checks. Sends no requests.
    fn readiness_upstreams(&self) -> Map<String, Value> {
        let snapshot = self.gateway.snapshot();
        let configured = &self.settings.readiness_upstreams;
        let is_listed = |name: &str| configured.iter().any(|entry| entry == "*" || entry == name);
        let upstreams = snapshot.policies.upstreams.iter().filter(|(name, _)| is_listed(name.as_str()));
        let state = |reachable: bool| json!({ "reachable": reachable });
        upstreams.map(|(name, policies)| (name.to_string(), state(policies.view().is_reachable()))).collect()
    }
}
