//! Tasks (extension `io.modelcontextprotocol/tasks` of 2026-07-28): calls whose result the client polls.
//!
//! A task is an asynchronous operation of the upstream. The task id is an encrypted token with the status URL
//! or id of the operation, and the arguments of the call ([`Task`]). So any replica can handle the task, and
//! no replica stores it.
//!
//! The exception is a task with input requests (`task_elicitation`): the replica where it began stores it,
//! and other replicas forward its requests ([`TaskRequest`]).

use std::{
    sync::Arc,
    time::{Duration, SystemTime},
};

use jiff::Timestamp;
use rmcp::model::{self, ErrorData, JsonObject, TaskStatus};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json, value::RawValue};

use super::response::{raw_json, write_tool_result};
use super::task_elicitation::{ElicitingState, ElicitingTask, TaskRound, start_operation};
use super::{ErrorKind, Revision, RpcContext, RpcError, RpcResponse, RpcResult, elicitation};
use crate::crypto::Purpose;
use crate::model::{Arguments, ToolResult};
use crate::pipeline::{BoundRoute, OpenOperation, OperationState, Snapshot};
use crate::route::{AsyncOperationRule, OperationLocation, Route, TaskSupport};
use crate::settings::units::milliseconds;

/// Name of the extension, in the capabilities of client and server.
pub(super) const EXTENSION: &str = "io.modelcontextprotocol/tasks";

/// Maximum length of the arguments (as JSON) in a task id, in bytes. Clients repeat the id in a header. A
/// call with longer arguments does not become a task: the client waits for its result.
const ARGUMENTS_LIMIT_BYTES: usize = 2048;

const TASK_NOT_FOUND: &str = "unknown task: it was not created here, its TTL has expired, its tool has \
                              changed since then, or the replica that stores it can't be reached";

const TOO_LONG: &str = "The task is completed, but its result could not be stored: it is too long, or too \
                        many results are stored.";

/// Whether a call may become a task.
///
/// # Errors
///
/// When the tool requires tasks, and the client does not support them.
pub(super) fn may_be_task(route: &Route, rpc: &RpcContext<'_>, arguments: &JsonObject) -> RpcResult<bool> {
    let Some(rule) = &route.async_operation else { return Ok(false) };
    match (rule.task.support, supports_tasks(rpc)) {
        (TaskSupport::Forbidden, _) | (TaskSupport::Optional, false) => Ok(false),
        (TaskSupport::Required, false) => Err(RpcError::needs_tasks()),
        (TaskSupport::Optional | TaskSupport::Required, true) => {
            Ok(serde_json::to_vec(arguments).is_ok_and(|json| json.len() <= ARGUMENTS_LIMIT_BYTES))
        }
    }
}

/// Whether the calls of any tool may become tasks.
pub(super) fn has_task_tools(snapshot: &Snapshot) -> bool {
    let mut rules = snapshot.table.in_order().iter().filter_map(|route| route.async_operation.as_ref());
    rules.any(|rule| rule.task.support != TaskSupport::Forbidden)
}

/// Builds the response to a call that has become a task.
pub(super) fn created(rpc: &RpcContext<'_>, tool: &str, operation: OpenOperation) -> RpcResponse {
    let OpenOperation { arguments, location, message, wait, ttl } = operation;
    let Arguments { values, input_responses } = arguments;
    let location = TaskLocation::Upstream { location: location.to_string(), input_responses };
    let task = Task::new(rpc, tool, values, location, ttl);
    let state = OperationState::Running { message, wait };
    rpc.result_of_type("task", &task.operation_result(state, rpc.revision))
}

/// Creates a task that sends the input requests of a call, and builds the response to the call. Returns
/// `None`, and the call continues without such a task, if no input request is open, the route does not allow
/// input requests in tasks, the arguments are invalid, the client lacks a capability, or too many tasks are
/// stored.
pub(super) async fn create_with_input(
    rpc: &RpcContext<'_>,
    snapshot: &Snapshot,
    route: &Arc<BoundRoute>,
    arguments: &Map<String, Value>,
) -> Option<RpcResponse> {
    let rule = route.async_operation.as_ref().filter(|rule| rule.task.requests_input)?;
    let round = TaskRound::new(rpc, snapshot, route, arguments, &Map::new(), Map::new()).await.ok()?;
    if round.open.is_empty() {
        return None;
    }
    let name = rpc.dispatcher.eliciting_tasks.begin(rule.task.ttl)?;
    let address = rpc.dispatcher.open_requests.replicas.own_url.as_ref().map(ToString::to_string);
    let (tool, location) = (route.definition.name.as_str(), TaskLocation::Replica { name, address });
    let task = Task::new(rpc, tool, arguments.clone(), location, rule.task.ttl);
    let mut result = task.input_required(&round, rpc.revision);
    result.task.poll_interval_ms = Some(milliseconds(rule.poll_interval));
    Some(rpc.result_of_type("task", &result))
}

/// `tasks/get`: the state of a task, with its result if it is completed.
pub(super) async fn get(rpc: &RpcContext<'_>) -> RpcResult {
    let task_request = TaskRequest::read(rpc)?;
    let TaskRequest { task, route, snapshot } = &task_request;
    let result = match &task.location {
        TaskLocation::Upstream { location, input_responses } => {
            let location = OperationLocation::from_text(location);
            let location = location.ok_or_else(|| ErrorKind::PARAMS.error(TASK_NOT_FOUND))?;
            let (values, input_responses) = (task.arguments.clone(), input_responses.clone());
            let call = rpc.call(Arguments { values, input_responses });
            task.operation_result(snapshot.poll_operation(route, call, &location).await, rpc.revision)
        }
        TaskLocation::Replica { name, address } => match rpc.dispatcher.eliciting_tasks.find(name) {
            Some(task) => task_request.local_result(rpc, &task).await?,
            None => return forward(rpc, address.as_deref()).await,
        },
    };
    Ok(rpc.result(&result))
}

/// `tasks/update`: responses to the input requests of a task. An operation at the upstream has no input
/// requests, so responses for it are ignored, as the specification requires.
pub(super) async fn update(rpc: &RpcContext<'_>) -> RpcResult {
    let acknowledge = || Ok(rpc.result(&json!({})));
    let TaskRequest { task: Task { arguments, location, .. }, route, snapshot, .. } = TaskRequest::read(rpc)?;
    let TaskLocation::Replica { name, address } = location else { return acknowledge() };
    let tasks = &rpc.dispatcher.eliciting_tasks;
    let Some(task) = tasks.find(&name) else { return forward(rpc, address.as_deref()).await };
    let responses = rpc.request.params.input_responses.object("params.inputResponses")?;
    let responses = responses.unwrap_or_default();
    let mut state = task.lock().await;
    let ElicitingState::InputRequired(earlier_responses) = &mut *state else { return acknowledge() };
    match TaskRound::new(rpc, &snapshot, &route, &arguments, earlier_responses, responses).await? {
        TaskRound { open, input_responses, .. } if !open.is_empty() => *earlier_responses = input_responses,
        TaskRound { declined: Some(result), .. } => *state = tasks.store(*result, rpc.revision),
        TaskRound { input_responses, .. } => {
            *state = start_operation(Arc::clone(&task), rpc, snapshot, route, arguments, input_responses);
        }
    }
    acknowledge()
}

/// `tasks/cancel`: cancels a task whose operation has not started. A running operation is cancelled at the
/// upstream, if the route defines a request for it. The next `tasks/get` reports the outcome.
pub(super) async fn cancel(rpc: &RpcContext<'_>) -> RpcResult {
    let TaskRequest { task: Task { arguments, location, .. }, route, snapshot } = &TaskRequest::read(rpc)?;
    match location {
        TaskLocation::Upstream { location, input_responses } => {
            if let Some(location) = OperationLocation::from_text(location) {
                let (values, input_responses) = (arguments.clone(), input_responses.clone());
                let call = rpc.call(Arguments { values, input_responses });
                snapshot.cancel_operation(route, call, &location).await;
            }
        }
        TaskLocation::Replica { name, address } => {
            let Some(task) = rpc.dispatcher.eliciting_tasks.find(name) else {
                return forward(rpc, address.as_deref()).await;
            };
            let mut state = task.lock().await;
            match &*state {
                ElicitingState::InputRequired(_) | ElicitingState::Starting { .. } => {
                    *state = ElicitingState::Cancelled
                }
                ElicitingState::Running(operation) => {
                    let call = rpc.call(operation.arguments.clone());
                    snapshot.cancel_operation(route, call, &operation.location).await;
                }
                ElicitingState::Completed { .. } | ElicitingState::Discarded | ElicitingState::Cancelled => {}
            }
        }
    }
    Ok(rpc.result(&json!({})))
}

/// Forwards the request to the replica that stores the task.
async fn forward(rpc: &RpcContext<'_>, address: Option<&str>) -> RpcResult {
    let replicas = &rpc.dispatcher.open_requests.replicas;
    if let Some(address) = address
        && let Some((status, body)) =
            replicas.forward_request(address, rpc.message, rpc.request.message).await
    {
        return Ok(RpcResponse { status, body: body.into(), ..RpcResponse::default() });
    }
    Err(ErrorKind::PARAMS.error(TASK_NOT_FOUND))
}

/// Checks that the client of a request declares the tasks extension.
pub(super) fn check_support(rpc: &RpcContext<'_>) -> Result<(), RpcError> {
    if supports_tasks(rpc) { Ok(()) } else { Err(RpcError::needs_tasks()) }
}

/// Whether the client of a request declares the tasks extension.
fn supports_tasks(rpc: &RpcContext<'_>) -> bool {
    let capabilities = rpc.capabilities();
    let extension = capabilities.get("extensions").and_then(|extensions| extensions.get(EXTENSION));
    extension.is_some_and(Value::is_object)
}

/// Serializes a result in the format of the client's revision.
pub(super) fn serialize_result(result: ToolResult, revision: Revision) -> Vec<u8> {
    let mut out = Vec::new();
    write_tool_result(revision, result, &Map::new(), &mut out);
    out
}

/// Content of a task id. Replicas of other versions must be able to read it.
#[derive(Debug, Serialize, Deserialize)]
struct Task {
    #[serde(skip)]
    id: String,
    tool: String,
    arguments: Map<String, Value>,
    location: TaskLocation,
    /// The client that owns the task, if clients have identities.
    owner: Option<String>,
    /// Creation time, in milliseconds since 1970.
    created: i64,
    ttl_ms: u64,
}

/// Location of the state of a task.
#[derive(Debug, Serialize, Deserialize)]
enum TaskLocation {
    /// At the upstream: the status URL or id of the operation, and the input responses that the client sent
    /// before the operation started.
    Upstream { location: String, input_responses: Map<String, Value> },
    /// At a replica: the name of the task there, and the URL of the replica.
    Replica { name: String, address: Option<String> },
}

/// A task and its state, as a client gets it: from `tasks/get`, or as the result of a `tools/call` that
/// became a task.
#[derive(Serialize)]
struct TaskResult {
    #[serde(flatten)]
    task: model::Task,
    #[serde(flatten)]
    payload: Option<TaskPayload>,
}

/// Member of a task that is present only in some states. The name of the variant is the name of the member.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
enum TaskPayload {
    InputRequests(Map<String, Value>),
    Error(ErrorData),
    Result(Box<RawValue>),
}

impl Task {
    /// Creates a task that begins now.
    fn new(
        rpc: &RpcContext<'_>,
        tool: &str,
        arguments: Map<String, Value>,
        location: TaskLocation,
        ttl: Duration,
    ) -> Self {
        let now = SystemTime::now();
        let mut task = Self {
            id: String::new(),
            tool: tool.to_owned(),
            arguments,
            location,
            owner: rpc.message.owner().map(str::to_owned),
            created: Timestamp::try_from(now).map_or(0, Timestamp::as_millisecond),
            ttl_ms: milliseconds(ttl),
        };
        let content = serde_json::to_vec(&task).expect("its keys are strings");
        task.id = rpc.dispatcher.cipher.issue(Purpose::Task, &content, now + ttl);
        task
    }

    /// The task in this state.
    fn result(&self, status: TaskStatus, payload: Option<TaskPayload>) -> TaskResult {
        let created = Timestamp::from_millisecond(self.created).unwrap_or(Timestamp::UNIX_EPOCH);
        // No earlier state is stored, so the time of the last update is the current time.
        let (created, updated) = (format!("{created:.3}"), format!("{:.3}", Timestamp::now()));
        let task = model::Task::new(&self.id, status, created, updated).with_ttl_ms(self.ttl_ms);
        TaskResult { task, payload }
    }

    /// The task in the state `input_required`, with the open input requests of a round.
    fn input_required(&self, round: &TaskRound, revision: Revision) -> TaskResult {
        let input_requests = TaskPayload::InputRequests(elicitation::requests(&round.open, revision));
        self.result(TaskStatus::InputRequired, Some(input_requests))
    }

    /// The completed task with the result of its call, as JSON.
    fn completed(&self, json: Vec<u8>) -> TaskResult {
        self.result(TaskStatus::Completed, Some(TaskPayload::Result(raw_json(json))))
    }

    /// The task whose operation is in this state.
    fn operation_result(&self, state: OperationState, revision: Revision) -> TaskResult {
        match state {
            OperationState::Running { message, wait } => {
                let mut result = self.result(TaskStatus::Working, None);
                result.task.status_message = message;
                result.task.poll_interval_ms = Some(milliseconds(wait));
                result
            }
            OperationState::Done(result) => self.completed(serialize_result(result, revision)),
            OperationState::Cancelled => self.result(TaskStatus::Cancelled, None),
            OperationState::Lost { reason } => {
                let error = TaskPayload::Error(ErrorData::internal_error(reason.clone(), None));
                let mut result = self.result(TaskStatus::Failed, Some(error));
                result.task.status_message = Some(reason);
                result
            }
        }
    }
}

/// Request about a task: the decrypted task, and its route in the current snapshot.
struct TaskRequest {
    task: Task,
    route: Arc<BoundRoute>,
    snapshot: Arc<Snapshot>,
}

impl TaskRequest {
    fn read(rpc: &RpcContext<'_>) -> Result<Self, RpcError> {
        check_support(rpc)?;
        let id = rpc.request.params.task_id.required_text("params.taskId")?.into_owned();
        rpc.check_name(&id)?;
        let unknown_task = || ErrorKind::PARAMS.error(TASK_NOT_FOUND);
        let content = rpc.dispatcher.cipher.open(Purpose::Task, &id, SystemTime::now());
        let task: Task =
            serde_json::from_slice(&content.map_err(|_| unknown_task())?).map_err(|_| unknown_task())?;
        let snapshot = rpc.dispatcher.gateway.snapshot();
        // A task of another client is reported as unknown.
        let is_owner = task.owner.as_deref() == rpc.message.owner();
        let route =
            snapshot.table.by_tool(&task.tool).filter(|route| is_owner && route.async_operation.is_some());
        let route = route.ok_or_else(unknown_task)?.clone();
        rpc.may(&route.scopes)?;
        Ok(Self { task: Task { id, ..task }, route, snapshot })
    }

    /// Determines the state of a task that this replica stores.
    async fn local_result(&self, rpc: &RpcContext<'_>, task: &ElicitingTask) -> RpcResult<TaskResult> {
        let rule = self.route.async_operation.as_ref();
        let wait = rule.map_or(AsyncOperationRule::POLL_DEFAULT, |rule| rule.poll_interval);
        let state = task.lock().await;
        let state = match &*state {
            ElicitingState::InputRequired(responses) => {
                let (snapshot, arguments) = (&self.snapshot, &self.task.arguments);
                let round =
                    TaskRound::new(rpc, snapshot, &self.route, arguments, responses, Map::new()).await?;
                match round.declined {
                    _ if !round.open.is_empty() => return Ok(self.task.input_required(&round, rpc.revision)),
                    Some(result) => OperationState::Done(*result),
                    // The route now needs less input than before: the next `tasks/update`, with any content,
                    // starts the operation.
                    None => OperationState::Running { message: None, wait },
                }
            }
            ElicitingState::Starting { .. } => OperationState::Running { message: None, wait },
            ElicitingState::Completed { written, .. } => return Ok(self.task.completed(written.clone())),
            ElicitingState::Discarded => OperationState::Lost { reason: TOO_LONG.to_owned() },
            ElicitingState::Cancelled => OperationState::Cancelled,
            ElicitingState::Running(operation) => {
                let (location, arguments) = (operation.location.clone(), operation.arguments.clone());
                // The lock is released, so that other requests can read the state while the upstream
                // responds.
                drop(state);
                self.snapshot.poll_operation(&self.route, rpc.call(arguments), &location).await
            }
        };
        Ok(self.task.operation_result(state, rpc.revision))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_content_of_an_id_is_the_same_in_all_versions() {
        let at_upstream = json!({ "Upstream": { "location": "=7", "input_responses": { "person": "Ada" } } });
        for location in [at_upstream, json!({ "Replica": { "name": "x", "address": null } })] {
            let content = json!({
                "tool": "make_report", "arguments": { "year": "2026" }, "location": location,
                "owner": null, "created": 1, "ttl_ms": 2,
            });
            let task: Task = serde_json::from_value(content.clone()).unwrap();
            assert_eq!(json!(task), content);
        }
    }
}
