//! Tasks with input requests: their state, from the creation of the task until its TTL expires.
//!
//! Input responses arrive in `tasks/update`, whose result is empty: it has no `requestState` that the client
//! could return. The replica that received the call stores the state, and the encrypted task id contains the
//! URL of that replica.

use std::{collections::HashMap, sync::Arc, time::Duration};

use parking_lot::Mutex;
use serde_json::{Map, Value};
use tokio::{
    sync::{OwnedSemaphorePermit, Semaphore, oneshot},
    time::Instant,
};

use super::elicitation::{ElicitationRound, capabilities};
use super::tasks::serialize_result;
use super::{ErrorKind, Revision, RpcContext, RpcResult};
use crate::crypto::random_id;
use crate::model::{Arguments, ToolResult};
use crate::pipeline::{BoundRoute, Call, CallOutcome, OpenOperation, Snapshot, elicit_first};
use crate::route::InputRequest;

/// Maximum number of tasks with input requests at one replica. Further calls request the input in their own
/// result (`input_required`), before they become a task.
const TASKS_LIMIT: usize = 1024;

/// Maximum length of the input responses of one task, in bytes.
const RESPONSES_LIMIT_BYTES: usize = 64 << 10;

/// Maximum length of all stored results together, in bytes. Results are stored if the operation completes
/// before it is polled.
const RESULTS_LIMIT_BYTES: usize = 32 << 20;

/// The tasks with input requests at this replica.
#[derive(Debug)]
pub(super) struct ElicitingTasks {
    tasks: Mutex<HashMap<String, (Instant, ElicitingTask)>>,
    /// Has one permit for each byte of results that may be stored.
    result_bytes: Arc<Semaphore>,
}

impl Default for ElicitingTasks {
    fn default() -> Self {
        Self { tasks: Mutex::default(), result_bytes: Arc::new(Semaphore::new(RESULTS_LIMIT_BYTES)) }
    }
}

/// State of a task with input requests, locked by one request at a time.
pub(super) type ElicitingTask = Arc<tokio::sync::Mutex<ElicitingState>>;

/// State of a task with input requests.
#[derive(Debug)]
pub(super) enum ElicitingState {
    /// The task waits for input responses. Contains the responses so far.
    InputRequired(Map<String, Value>),
    /// The upstream request is in flight. Dropping the sender cancels the request.
    Starting { _cancel_guard: oneshot::Sender<()> },
    /// The upstream executes the operation.
    Running(Box<OpenOperation>),
    /// The task has ended with this result, in the format for the client. The permit counts the bytes of the
    /// result until it is dropped.
    Completed { written: Vec<u8>, _permit: OwnedSemaphorePermit },
    /// The task has ended, but its result was discarded: the stored results would have exceeded their limit.
    Discarded,
    /// The task was cancelled.
    Cancelled,
}

impl ElicitingTasks {
    /// Stores a new task that waits for its first input responses, and returns its name at this replica.
    /// `None` if there are too many tasks.
    pub(super) fn begin(&self, ttl: Duration) -> Option<String> {
        let now = Instant::now();
        let mut tasks = self.tasks.lock();
        if tasks.len() >= TASKS_LIMIT {
            tasks.retain(|_, (expires_at, _)| *expires_at > now);
        }
        if tasks.len() >= TASKS_LIMIT {
            return None;
        }
        let (name, state) = (random_id(), ElicitingState::InputRequired(Map::new()));
        tasks.insert(name.clone(), (now + ttl, Arc::new(state.into())));
        Some(name)
    }

    /// Returns the state of the task with this name, unless its TTL has expired.
    pub(super) fn find(&self, name: &str) -> Option<ElicitingTask> {
        let mut tasks = self.tasks.lock();
        let (expires_at, task) = tasks.get(name)?;
        if *expires_at > Instant::now() {
            return Some(Arc::clone(task));
        }
        tasks.remove(name);
        None
    }

    /// Stores the result of a task, or discards it if the total size of stored results would exceed its
    /// limit. Returns the final state of the task.
    pub(super) fn store(&self, result: ToolResult, revision: Revision) -> ElicitingState {
        // Expired tasks are removed, so that their results no longer count.
        self.tasks.lock().retain(|_, (expires_at, _)| *expires_at > Instant::now());
        let serialized = serialize_result(result, revision);
        let bytes = u32::try_from(serialized.len()).unwrap_or(u32::MAX);
        match Arc::clone(&self.result_bytes).try_acquire_many_owned(bytes) {
            Ok(permit) => ElicitingState::Completed { written: serialized, _permit: permit },
            Err(_) => ElicitingState::Discarded,
        }
    }
}

/// Outcome of matching input responses to the input requests of a task.
pub(super) struct TaskRound {
    /// The input requests that are still open.
    pub(super) open: Vec<InputRequest>,
    /// All input responses so far.
    pub(super) input_responses: Map<String, Value>,
    /// The result that ends the task because an input request was declined. Ignored if `open` is not empty.
    pub(super) declined: Option<Box<ToolResult>>,
}

impl TaskRound {
    /// Matches the responses of this request and earlier ones to the input requests of a task. `rpc` is the
    /// request about the task; its client must have the needed capabilities.
    ///
    /// # Errors
    ///
    /// When the arguments or a response are invalid, or the client lacks a capability.
    pub(super) async fn new(
        rpc: &RpcContext<'_>,
        snapshot: &Snapshot,
        route: &Arc<BoundRoute>,
        arguments: &Map<String, Value>,
        earlier_responses: &Map<String, Value>,
        responses: Map<String, Value>,
    ) -> RpcResult<Self> {
        let arguments = snapshot.check_arguments(route, arguments.clone().into()).await;
        let arguments = arguments.map_err(|message| ErrorKind::PARAMS.error(message))?;
        let capabilities = capabilities(rpc.revision, &rpc.capabilities());
        let mut round = ElicitationRound::new(capabilities, earlier_responses.clone(), responses);
        let declined = elicit_first(&route.input_requests, arguments, Some(&mut round)).await.err();
        let (open, input_responses) = (round.outcome?, round.input_responses);
        let serialized = serde_json::to_vec(&input_responses);
        if !serialized.is_ok_and(|json| json.len() <= RESPONSES_LIMIT_BYTES) {
            return Err(ErrorKind::PARAMS.error(format!(
                "the input responses of a task may have at most {RESPONSES_LIMIT_BYTES} bytes together"
            )));
        }
        Ok(Self { open, input_responses, declined })
    }
}

/// Starts the operation of a task at the upstream, once all input responses have arrived. It runs in the
/// background, because the call that created the task has ended. `rpc` is the request with the last input
/// response.
pub(super) fn start_operation(
    task: ElicitingTask,
    rpc: &RpcContext<'_>,
    snapshot: Arc<Snapshot>,
    route: Arc<BoundRoute>,
    arguments: Map<String, Value>,
    input_responses: Map<String, Value>,
) -> ElicitingState {
    let Call { headers, request_id, api, client, trace, .. } = rpc.call(Map::new());
    let (headers, revision) = (headers.clone(), rpc.revision);
    let capabilities = capabilities(rpc.revision, &rpc.capabilities());
    let mut round = ElicitationRound::new(capabilities, input_responses, Map::new());
    let tasks = Arc::clone(&rpc.dispatcher.eliciting_tasks);
    let (cancel_guard, mut cancelled) = oneshot::channel();
    tokio::spawn(async move {
        let call = |arguments: Arguments| {
            let call = Call::new(arguments, &headers, request_id.clone(), api, client.clone());
            Call { trace: trace.clone(), mcp_version: revision.as_str(), ..call }
        };
        let outcome = tokio::select! {
            outcome = snapshot.call_as_task(&route, call(arguments.into()), &mut round) => outcome,
            _ = &mut cancelled => return,
        };
        let mut state = task.lock().await;
        match (&*state, outcome) {
            (ElicitingState::Starting { .. }, CallOutcome::Operation(operation)) => {
                *state = ElicitingState::Running(operation)
            }
            (ElicitingState::Starting { .. }, CallOutcome::Result(result)) => {
                *state = tasks.store(result, revision)
            }
            // The task was cancelled while the upstream started the operation.
            (_, CallOutcome::Operation(operation)) => {
                drop(state);
                let call = call(operation.arguments);
                snapshot.cancel_operation(&route, call, &operation.location).await;
            }
            (_, CallOutcome::Result(_)) => {}
        }
    });
    ElicitingState::Starting { _cancel_guard: cancel_guard }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn results_of_expired_tasks_do_not_count_toward_the_limit() {
        let (tasks, ttl) = (ElicitingTasks::default(), Duration::from_secs(60));
        let task = tasks.begin(ttl).and_then(|name| tasks.find(&name)).unwrap();
        let all_permits = Arc::clone(&tasks.result_bytes).try_acquire_many_owned(RESULTS_LIMIT_BYTES as u32);
        *task.lock().await = ElicitingState::Completed { written: Vec::new(), _permit: all_permits.unwrap() };
        drop(task);
        let store = || tasks.store(ToolResult::text("done"), Revision::R2026_07_28);
        assert!(matches!(store(), ElicitingState::Discarded));
        tokio::time::advance(ttl).await;
        assert!(matches!(store(), ElicitingState::Completed { .. }));
    }
}
