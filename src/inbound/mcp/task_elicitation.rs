//! Tasks with input requests: their state until the upstream runs the operation.
//!
//! Input responses arrive one by one, in requests that return nothing (`tasks/update`), so the client can't
//! carry the state. The replica that received the call stores them, and a task's id names that replica,
//! encrypted.

use std::{collections::HashMap, sync::Arc, time::Duration};

use parking_lot::Mutex;
use serde_json::{Map, Value};
use tokio::{
    sync::{OwnedSemaphorePermit, Semaphore, oneshot},
    time::Instant,
};

use super::elicitation::ElicitationRound;
use super::tasks::written_result;
use super::{ErrorKind, Revision, RpcContext};
use crate::crypto::random_id;
use crate::model::ToolResult;
use crate::pipeline::{BoundRoute, Call, CallOutcome, OpenOperation, Snapshot, elicit_first};
use crate::route::ClientCapability;

/// Limit of such tasks. A call beyond it elicits input itself.
const TASKS_LIMIT: usize = 1024;

/// Limit of the input responses of one task, in bytes.
const RESPONSES_LIMIT_BYTES: usize = 64 << 10;

/// Limit of all stored results together, in bytes: those of operations that finished before they were polled.
const RESULTS_LIMIT_BYTES: usize = 32 << 20;

/// The tasks of this replica with input requests.
#[derive(Debug)]
pub(super) struct ElicitingTasks {
    tasks: Mutex<HashMap<String, (Instant, Arc<ElicitingTask>)>>,
    /// A permit for each byte of results that may be stored.
    result_bytes: Arc<Semaphore>,
}

impl Default for ElicitingTasks {
    fn default() -> Self {
        Self { tasks: Mutex::default(), result_bytes: Arc::new(Semaphore::new(RESULTS_LIMIT_BYTES)) }
    }
}

/// One such task.
#[derive(Debug)]
pub(super) struct ElicitingTask {
    capabilities: Vec<ClientCapability>,
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
    /// It has ended, with this result as a client gets it. Its bytes are counted until it is dropped.
    Completed { written: Vec<u8>, _permit: OwnedSemaphorePermit },
    /// It has ended, and its result is too long to be stored.
    Discarded,
    /// It was cancelled.
    Cancelled,
}

impl ElicitingTasks {
    /// Stores a new task that waits for its first input responses, and returns its name at this replica.
    /// `None` when there are too many.
    pub(super) fn begin(&self, task: ElicitingTask, ttl: Duration) -> Option<String> {
        let now = Instant::now();
        let mut tasks = self.tasks.lock();
        if tasks.len() >= TASKS_LIMIT {
            tasks.retain(|_, (until, _)| *until > now);
        }
        if tasks.len() >= TASKS_LIMIT {
            return None;
        }
        let name = random_id();
        tasks.insert(name.clone(), (now + ttl, Arc::new(task)));
        Some(name)
    }

    pub(super) fn find(&self, name: &str) -> Option<Arc<ElicitingTask>> {
        let mut tasks = self.tasks.lock();
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
        let bytes = u32::try_from(written.len()).unwrap_or(u32::MAX);
        match Arc::clone(&self.result_bytes).try_acquire_many_owned(bytes) {
            Ok(permit) => ElicitingState::Completed { written, _permit: permit },
            Err(_) => ElicitingState::Discarded,
        }
    }
}

impl ElicitingTask {
    /// A task that waits for its first input responses, for a client with these capabilities.
    pub(super) fn new(capabilities: Vec<ClientCapability>) -> Self {
        Self { capabilities, state: tokio::sync::Mutex::new(ElicitingState::InputRequired(Map::new())) }
    }

    /// Matches these responses, and the earlier ones, to the input requests of this task. If one was
    /// declined, the task ends with the result beside the round.
    pub(super) async fn round(
        &self,
        snapshot: &Snapshot,
        route: &Arc<BoundRoute>,
        arguments: &Map<String, Value>,
        earlier_responses: &Map<String, Value>,
        responses: Map<String, Value>,
    ) -> (ElicitationRound<'static>, Option<Box<ToolResult>>) {
        let mut round =
            ElicitationRound::new(self.capabilities.clone(), earlier_responses.clone(), responses);
        let declined = match snapshot.check_arguments(route, arguments.clone().into()).await {
            Ok(arguments) => elicit_first(&route.input_requests, arguments, &mut round).await.err(),
            Err(sentence) => {
                round.outcome = Err(ErrorKind::PARAMS.error(sentence));
                None
            }
        };
        let written = serde_json::to_vec(&round.input_responses);
        if !written.is_ok_and(|json| json.len() <= RESPONSES_LIMIT_BYTES) {
            round.outcome = Err(ErrorKind::PARAMS.error(format!(
                "the input responses of a task may have at most {RESPONSES_LIMIT_BYTES} bytes together"
            )));
        }
        (round, declined)
    }

    /// Starts the work at the upstream, once all input is there. Nothing awaits it: the call that started the
    /// task is over. `rpc` is the request with the last input response.
    pub(super) fn begin(
        self: Arc<Self>,
        rpc: &RpcContext<'_>,
        snapshot: Arc<Snapshot>,
        route: Arc<BoundRoute>,
        arguments: Map<String, Value>,
        input_responses: Map<String, Value>,
    ) -> ElicitingState {
        let Call { headers, request_id, api, client, trace, .. } = rpc.call(Map::new());
        let (headers, revision) = (headers.clone(), rpc.revision);
        let tasks = Arc::clone(&rpc.dispatcher.eliciting_tasks);
        let (ends, mut ended) = oneshot::channel();
        tokio::spawn(async move {
            let call = |arguments| {
                let call = Call::new(arguments, &headers, request_id.clone(), api, client.clone());
                Call { trace: trace.clone(), mcp_version: revision.as_str(), ..call }
            };
            let mut round = ElicitationRound::new(self.capabilities.clone(), input_responses, Map::new());
            let called = tokio::select! {
                called = snapshot.call_as_task(&route, call(arguments), &mut round) => called,
                _ = &mut ended => return,
            };
            let mut state = self.state.lock().await;
            match (&*state, called) {
                (ElicitingState::Starting { .. }, CallOutcome::Operation(operation)) => {
                    *state = ElicitingState::Running(operation)
                }
                (ElicitingState::Starting { .. }, CallOutcome::Result(result)) => {
                    *state = tasks.store(result, revision)
                }
                // It was cancelled at the last moment.
                (_, CallOutcome::Operation(operation)) => {
                    drop(state);
                    let OpenOperation { arguments, input_responses, location, .. } = *operation;
                    let call = call(arguments);
                    snapshot.cancel_operation(&route, call, input_responses, &location).await;
                }
                (_, CallOutcome::Result(_)) => {}
            }
        });
        ElicitingState::Starting { _ends: ends }
    }
}
