//! Tasks with input requests: their state until the upstream runs the operation.
//!
//! Input responses arrive one by one, in requests that return nothing (`tasks/update`), so the client can't
//! carry the state. The replica that received the call stores them, and a task's id names that replica,
//! encrypted.

use std::{
    collections::HashMap,
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use bytes::Bytes;
use http::HeaderMap;
use serde_json::{Map, Value};
use tokio::{sync::oneshot, time::Instant};

use super::{
    elicitation::{ElicitationRound, RoundOutcome},
    lock,
    revision::Revision,
    tasks::written_result,
};
use crate::{
    crypto::random_id,
    model::ToolResult,
    pipeline::{ApiKind, BoundRoute, Call, CallOutcome, OpenOperation, Snapshot, elicit_first},
    route::{ClientCapabilities, InputRequest, TraceContext},
    telemetry::RequestId,
    upstream::ClientIdentity,
};

/// Limit of such tasks. A call beyond it elicits input itself.
const TASKS_LIMIT: usize = 1024;

/// Limit of the input responses of one task, in bytes.
const RESPONSES_LIMIT_BYTES: usize = 64 << 10;

/// Limit of all stored results together, in bytes: those of operations that finished before they were polled.
const RESULTS_LIMIT_BYTES: usize = 32 << 20;

/// The tasks of this replica with input requests.
#[derive(Debug, Default)]
pub(super) struct ElicitingTasks {
    tasks: Mutex<HashMap<String, (Instant, Arc<ElicitingTask>)>>,
    stored_bytes: Arc<AtomicUsize>,
}

/// One such task.
#[derive(Debug)]
pub(super) struct ElicitingTask {
    capabilities: ClientCapabilities,
    /// Locked by one request at a time.
    pub(super) state: tokio::sync::Mutex<ElicitingState>,
}

/// The state of such a task.
#[derive(Debug)]
pub(super) enum ElicitingState {
    /// It waits for input responses; these have arrived.
    InputRequired(Map<String, Value>),
    /// The upstream request is in flight. Dropping the sender cancels it.
    Starting { _ends: oneshot::Sender<()> },
    /// The upstream runs the operation.
    Running(Box<OpenOperation>),
    /// It has ended, with this result as a client gets it.
    Completed(StoredResult),
    /// It has ended, and its result is too long to be stored.
    Discarded,
    /// It was cancelled.
    Cancelled,
}

/// A stored result; its bytes are counted until it is dropped.
#[derive(Debug)]
pub(super) struct StoredResult {
    pub(super) written: Bytes,
    all_bytes: Arc<AtomicUsize>,
}

impl Drop for StoredResult {
    fn drop(&mut self) {
        self.all_bytes.fetch_sub(self.written.len(), Ordering::Relaxed);
    }
}

/// The call of a task, for when all its input is there.
pub(super) struct TaskWork {
    /// Where the result is stored.
    pub(super) tasks: Arc<ElicitingTasks>,
    pub(super) snapshot: Arc<Snapshot>,
    pub(super) route: Arc<BoundRoute>,
    pub(super) arguments: Map<String, Value>,
    /// The headers of the request with the last input response.
    pub(super) headers: HeaderMap,
    pub(super) request_id: RequestId,
    pub(super) api: ApiKind,
    pub(super) client: ClientIdentity,
    pub(super) trace: Option<TraceContext>,
    pub(super) revision: Revision,
}

impl ElicitingTasks {
    /// Stores a new task that waits for its first input responses, and returns its name at this replica.
    /// `None` when there are too many.
    pub(super) fn begin(&self, capabilities: ClientCapabilities, ttl: Duration) -> Option<String> {
        let now = Instant::now();
        let mut tasks = lock(&self.tasks);
        if tasks.len() >= TASKS_LIMIT {
            tasks.retain(|_, (until, _)| *until > now);
        }
        if tasks.len() >= TASKS_LIMIT {
            return None;
        }
        let name = random_id();
        let state = tokio::sync::Mutex::new(ElicitingState::InputRequired(Map::new()));
        tasks.insert(name.clone(), (now + ttl, Arc::new(ElicitingTask { capabilities, state })));
        Some(name)
    }

    pub(super) fn find(&self, name: &str) -> Option<Arc<ElicitingTask>> {
        let mut tasks = lock(&self.tasks);
        let (until, task) = tasks.get(name)?;
        if *until > Instant::now() {
            return Some(Arc::clone(task));
        }
        tasks.remove(name);
        None
    }

    /// Stores a result, if the limit of all results allows it.
    pub(super) fn store(&self, result: ToolResult, revision: Revision) -> ElicitingState {
        let written = written_result(result, revision);
        let (all_bytes, more) = (Arc::clone(&self.stored_bytes), written.len());
        let add = |bytes: usize| bytes.checked_add(more).filter(|bytes| *bytes <= RESULTS_LIMIT_BYTES);
        match all_bytes.fetch_update(Ordering::Relaxed, Ordering::Relaxed, add) {
            Ok(_) => ElicitingState::Completed(StoredResult { written: written.into(), all_bytes }),
            Err(_) => ElicitingState::Discarded,
        }
    }
}

impl ElicitingTask {
    /// Matches these responses, and the earlier ones, to the input requests of this task. If one was declined,
    /// the task ends with the result beside the round.
    pub(super) async fn round(
        &self,
        snapshot: &Snapshot,
        route: &Arc<BoundRoute>,
        arguments: &Map<String, Value>,
        earlier_responses: &Map<String, Value>,
        responses: Map<String, Value>,
    ) -> (ElicitationRound, Option<Box<ToolResult>>) {
        let round = ElicitationRound::new(self.capabilities, earlier_responses.clone(), responses);
        let (mut round, declined) = run(round, snapshot, route, arguments).await;
        let written = serde_json::to_vec(&round.input_responses);
        if !written.is_ok_and(|json| json.len() <= RESPONSES_LIMIT_BYTES) {
            round.outcome = RoundOutcome::Invalid(format!(
                "the input responses of a task may have at most {RESPONSES_LIMIT_BYTES} bytes together"
            ));
        }
        (round, declined)
    }

    /// Starts the work at the upstream, once all input is there. Nothing awaits it: the call that started the
    /// task is over.
    pub(super) fn begin(
        self: Arc<Self>,
        input_responses: Map<String, Value>,
        work: TaskWork,
    ) -> ElicitingState {
        let (ends, mut ended) = oneshot::channel();
        tokio::spawn(async move {
            let mut round = ElicitationRound::new(self.capabilities, input_responses, Map::new());
            let call = work.call(work.arguments.clone());
            let called = tokio::select! {
                called = work.snapshot.call_as_task(&work.route, call, &mut round) => called,
                _ = &mut ended => return,
            };
            let mut state = self.state.lock().await;
            match (&*state, called) {
                (ElicitingState::Starting { .. }, CallOutcome::Operation(operation)) => {
                    *state = ElicitingState::Running(operation)
                }
                (ElicitingState::Starting { .. }, CallOutcome::Result(result)) => {
                    *state = work.tasks.store(result, work.revision)
                }
                // It was cancelled at the last moment.
                (_, CallOutcome::Operation(operation)) => {
                    drop(state);
                    let call = work.call(operation.arguments);
                    work.snapshot
                        .cancel_operation(&work.route, call, operation.input_responses, &operation.location)
                        .await;
                }
                (_, CallOutcome::Result(_)) => {}
            }
        });
        ElicitingState::Starting { _ends: ends }
    }
}

impl TaskWork {
    fn call(&self, arguments: Map<String, Value>) -> Call<'_> {
        let (trace, client, mcp_version) = (self.trace.clone(), self.client.clone(), self.revision.as_str());
        let call = Call::new(arguments, &self.headers, self.request_id.clone(), self.api, client);
        Call { trace, mcp_version, ..call }
    }
}

/// The first input requests for a client with these abilities; `None` for a call without any.
pub(super) async fn first_input_requests(
    snapshot: &Snapshot,
    route: &Arc<BoundRoute>,
    arguments: &Map<String, Value>,
    capabilities: ClientCapabilities,
) -> Option<Vec<InputRequest>> {
    let round = ElicitationRound::new(capabilities, Map::new(), Map::new());
    match run(round, snapshot, route, arguments).await.0.outcome {
        RoundOutcome::InputRequired(input_requests) => Some(input_requests),
        RoundOutcome::Complete | RoundOutcome::Invalid(_) | RoundOutcome::Unsupported(_) => None,
    }
}

async fn run(
    mut round: ElicitationRound,
    snapshot: &Snapshot,
    route: &Arc<BoundRoute>,
    arguments: &Map<String, Value>,
) -> (ElicitationRound, Option<Box<ToolResult>>) {
    let mut declined = None;
    match snapshot.check_arguments(route, arguments.clone().into()).await {
        Ok(arguments) => {
            declined = elicit_first(&route.input_requests, arguments, &mut round).await.err();
        }
        Err(sentence) => round.outcome = RoundOutcome::Invalid(sentence),
    }
    (round, declined)
}
