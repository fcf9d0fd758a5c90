//! Health (liveness), readiness, status and reloads of the process, and its metrics in the Prometheus
//! formats. Gauges of configuration, policies, upstream buffer and shared state are read at scrape time.

use std::{sync::Arc, time::SystemTime};

use axum::{Json, extract::State, response::IntoResponse};
use http::{HeaderMap, StatusCode, header};
use serde_json::{Map, Value, json};
use tokio::sync::{mpsc, oneshot, watch};

use super::{Api, Problem, require_json, seconds};
use crate::config::Loaded;
use crate::inbound::{MediaRange, media_ranges, without_nulls};
use crate::pipeline::Gateway;
use crate::policy;
use crate::telemetry::{MetricsSnapshot, TextFormat};

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
    /// Number of rejected configurations.
    pub failures: u64,
    /// The current configuration, for `GET /config` and the playground.
    pub loaded: Arc<Loaded>,
    /// Changed settings that take effect only after a restart.
    pub restart_pending: Vec<String>,
}

/// The failure of a reload.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReloadFailure {
    /// Time of the first of the consecutive failed reloads.
    pub at: SystemTime,
    /// The problems, as `check` reports them.
    pub report: String,
}

/// A request to reload the configuration: the sender that returns the process status after the reload.
pub type ReloadRequest = oneshot::Sender<ProcessStatus>;

/// Handle of the process for the admin API. Clones share it.
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
) -> Result<(StatusCode, Json<Value>), Problem> {
    require_json(&headers)?;
    let status = api.process.reload().await.ok_or_else(|| {
        Problem::new(StatusCode::SERVICE_UNAVAILABLE, "no reload is possible right now; retry")
    })?;
    let code = if status.failure.is_none() { StatusCode::OK } else { StatusCode::UNPROCESSABLE_ENTITY };
    Ok((code, Json(api.describe(&status, status.failure.as_ref()))))
}

impl Api {
    /// Describes the status as JSON. `shown` is the failed reload whose problems are included.
    fn describe(&self, status: &ProcessStatus, shown: Option<&ReloadFailure>) -> Value {
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
            "problems": shown.map(|failure| &failure.report),
        }))
    }

    /// Lists the upstreams that readiness depends on, and whether they are reachable according to their
    /// policies and health checks. Sends no requests.
    fn readiness_upstreams(&self) -> Map<String, Value> {
        let snapshot = self.gateway.snapshot();
        let listed = &self.settings.readiness_upstreams;
        let is_listed = |name: &str| listed.iter().any(|listed| listed == "*" || listed == name);
        let upstreams = snapshot.policies.upstreams.iter().filter(|(name, _)| is_listed(name.as_str()));
        let state = |reachable: bool| json!({ "reachable": reachable });
        upstreams.map(|(name, policies)| (name.to_string(), state(policies.view().is_reachable()))).collect()
    }
}

pub(super) async fn scrape(State(api): State<Arc<Api>>, headers: HeaderMap) -> impl IntoResponse {
    let format = accepted_format(&headers);
    ([(header::CONTENT_TYPE, format.media_type())], format.write(&api.meters.read()))
}

/// Selects the metrics format: OpenMetrics for clients whose `Accept` names it, otherwise Prometheus.
fn accepted_format(headers: &HeaderMap) -> TextFormat {
    let is_requested =
        |range: MediaRange<'_>| range.weight > 0.0 && range.is_exactly("application/openmetrics-text");
    if media_ranges(headers).any(is_requested) { TextFormat::OpenMetrics } else { TextFormat::Prometheus }
}

/// Adds the metrics that have no counters of their own: they are read from the active configuration and the
/// state of its parts.
pub(super) fn report_metrics(reading: &mut MetricsSnapshot, process: &Process, gateway: &Gateway) {
    configuration(reading, process);
    let snapshot = gateway.snapshot();
    policy::metrics::read(reading, &snapshot.policies);
    if let Some(buffer) = &snapshot.upstream_buffer {
        let buffer = buffer.state();
        let help = "Memory charged for upstream responses, in bytes";
        reading.gauge("glossator_upstream_buffer_bytes", help).set(buffer.used_bytes);
        let help = "Limit of the memory for upstream responses, in bytes";
        reading.gauge("glossator_upstream_buffer_limit_bytes", help).set(buffer.limit_bytes);
        let help = "Calls that wait for memory for their upstream response";
        reading.gauge("glossator_upstream_buffer_queued", help).set(buffer.queued.iter().sum::<usize>());
        let help = "Calls rejected because no memory was free for their upstream response";
        reading.counter("glossator_upstream_buffer_rejected", help).set(buffer.rejected);
    }
    if let Some(shared) = &gateway.shared {
        let help = "Whether the store of shared state is reachable";
        reading.gauge("glossator_shared_state_up", help).set(u64::from(shared.is_reachable()));
        let help = "Operations of the shared state, and those of them that failed";
        let operations = reading.counter("glossator_shared_state_operations", help);
        operations.add_each(&[], "result", shared.counts().read());
    }
}

fn configuration(reading: &mut MetricsSnapshot, process: &Process) {
    let status = process.status();
    let since = status.since.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    let version = [("version", env!("CARGO_PKG_VERSION"))];
    reading.gauge("glossator_build_info", "Version of the program").add(&version, 1_u64);
    let reloads = reading.counter("glossator_config_reloads", "Reloads of the configuration by result");
    // The first generation was loaded at startup, not by a reload.
    let counts = [("success", status.generation.saturating_sub(1)), ("failure", status.failures)];
    reloads.add_each(&[], "result", counts);
    let help = "Whether the last reload of the configuration was successful";
    reading.gauge("glossator_config_last_reload_successful", help).set(u64::from(status.failure.is_none()));
    let help = "Whether a changed setting takes effect only after a restart";
    reading
        .gauge("glossator_config_restart_pending", help)
        .set(u64::from(!status.restart_pending.is_empty()));
    let help = "Time of the last successful reload, or of the start";
    reading.gauge("glossator_config_last_reload_success_timestamp_seconds", help).set(since.as_secs_f64());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_scraper_gets_the_format_that_it_accepts() {
        let accepted = |accept: &str| {
            accepted_format(&[(header::ACCEPT, accept.parse().unwrap())].into_iter().collect())
        };
        let prometheus =
            "application/openmetrics-text;version=1.0.0;q=0.5,text/plain;version=0.0.4;q=0.3,*/*;q=0.2";
        assert_eq!(accepted(prometheus), TextFormat::OpenMetrics);
        assert_eq!(accepted("text/html,*/*"), TextFormat::Prometheus);
        assert_eq!(accepted_format(&HeaderMap::new()), TextFormat::Prometheus);
    }
}
