//! Tasks (the extension `io.modelcontextprotocol/tasks` of 2026-07-28): calls whose result the client polls.
//!
//! A task is an asynchronous operation of the upstream. Its id is an encrypted token with the location to
//! poll and the arguments of the call ([`Task`]). So any replica can handle it, and none stores anything.
//!
//! A task with input requests to its client (`task_elicitation`) is the exception. The replica where it began
//! stores it, and the others forward requests for it ([`TaskRequest`]).

use std::{
    sync::Arc,
    time::{Duration, SystemTime},
};

use bytes::Bytes;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json, value::RawValue};

use super::{
    context::RpcContext,
    elicitation,
    protocol::MessageDispatcher,
    replicas::Replicas,
    response::{RpcResponse, raw_json, write_tool_result},
    revision::Revision,
    rpc_error::RpcError,
    task_elicitation::{self, ElicitingState, ElicitingTask, RemainingInput, TaskWork},
};
use crate::{
    crypto::Purpose,
    model::ToolResult,
    pipeline::{BoundRoute, Call, OpenOperation, OperationState, Snapshot},
    route::{AsyncOperationRule, InputRequest, OperationLocation, Route, TaskSupport},
};

/// The extension's name, among the capabilities of both sides.
pub(super) const EXTENSION: &str = "io.modelcontextprotocol/tasks";

/// Limit of a call's arguments in a task's id, in bytes: the id is sent in a header. A longer call waits for
/// its result instead.
const LIMIT_BYTES: usize = 2048;

const TASK_NOT_FOUND: &str = "unknown task: it was not created here, or its TTL has expired";

const TOO_LONG: &str = "The task is completed, but its result could not be stored: it is too long, or too \
                        many results are stored.";

/// Whether a call may become a task.
///
/// # Errors
///
/// [`RpcError::NeedsTasks`] when it can only be one, and the client does not support tasks.
pub(super) fn may_become_task(
    route: &Route,
    rpc: &RpcContext<'_>,
    arguments: &Map<String, Value>,
) -> Result<bool, RpcError> {
    let Some(rule) = &route.async_operation else { return Ok(false) };
    match (rule.task.support, supports_tasks(rpc)) {
        (TaskSupport::Forbidden, _) | (TaskSupport::Optional, false) => Ok(false),
        (TaskSupport::Required, false) => Err(RpcError::NeedsTasks),
        (TaskSupport::Optional | TaskSupport::Required, true) => {
            Ok(serde_json::to_vec(arguments).is_ok_and(|json| json.len() <= LIMIT_BYTES))
        }
    }
}

/// Whether any tool may return a task.
pub(super) fn any_offered(snapshot: &Snapshot) -> bool {
    let rules = snapshot.table.in_order().iter().filter_map(|route| route.async_operation.as_ref());
    rules.into_iter().any(|rule| rule.task.support != TaskSupport::Forbidden)
}

/// The response to a call that has become a task.
pub(super) fn created(
    dispatcher: &MessageDispatcher,
    rpc: &RpcContext<'_>,
    tool: &str,
    operation: OpenOperation,
) -> RpcResponse {
    let location = TaskLocation::Upstream {
        location: operation.location.to_text(),
        input_responses: operation.input_responses,
    };
    let (id, task) = Task::new((dispatcher, rpc), tool, operation.arguments, location, operation.ttl);
    let mut members = task.members_of(&id, "working", operation.message.as_deref());
    members.insert("pollIntervalMs".into(), milliseconds(operation.wait).into());
    RpcResponse::result(rpc.request.id, Some("task"), &members, rpc.meta)
}

/// The response to a call that becomes a task before any input request, so that the task has them. `None` if
/// the route does not enable that, if there are no input requests, or if there are too many such tasks.
pub(super) async fn create_with_input(
    dispatcher: &MessageDispatcher,
    rpc: &RpcContext<'_>,
    (snapshot, route): (&Snapshot, &Arc<BoundRoute>),
    arguments: &Map<String, Value>,
) -> Option<RpcResponse> {
    let rule = route.async_operation.as_ref().filter(|rule| rule.task.requests_input)?;
    let capabilities = elicitation::capabilities(rpc.revision, &rpc.capabilities());
    let input_requests =
        task_elicitation::first_input_requests((snapshot, route), arguments, capabilities).await?;
    let name = dispatcher.eliciting_tasks.begin(capabilities, rule.task.ttl)?;
    let address = dispatcher.open_requests.replicas().and_then(Replicas::advertised_url).map(str::to_owned);
    let (tool, location) = (route.definition.name.as_str(), TaskLocation::Replica { name, address });
    let (id, task) = Task::new((dispatcher, rpc), tool, arguments.clone(), location, rule.task.ttl);
    let mut members = task.members_of(&id, "input_required", None);
    members.insert("inputRequests".into(), elicitation::requests(&input_requests, rpc.revision).into());
    members.insert("pollIntervalMs".into(), milliseconds(rule.poll_interval).into());
    Some(RpcResponse::result(rpc.request.id, Some("task"), &members, rpc.meta))
}

/// `tasks/get`: the state of a task, and its result once there is one.
pub(super) async fn get(
    dispatcher: &MessageDispatcher,
    rpc: &RpcContext<'_>,
) -> Result<RpcResponse, RpcError> {
    let task_request = TaskRequest::read(dispatcher, rpc)?;
    let state = match &task_request.task.location {
        TaskLocation::Upstream { location, input_responses } => {
            task_request.upstream_state(rpc, location, input_responses).await?
        }
        TaskLocation::Replica { name, address } => match dispatcher.eliciting_tasks.find(name) {
            Some(task) => task_request.local_state(rpc, &task).await?,
            None => return forward(dispatcher, rpc, address.as_deref()).await,
        },
    };
    #[derive(Serialize)]
    struct TaskResult {
        #[serde(flatten)]
        members: Map<String, Value>,
        #[serde(skip_serializing_if = "Option::is_none")]
        result: Option<Box<RawValue>>,
    }
    let revision = rpc.revision;
    let mut members = task_request.members(&state, revision);
    let written = match state {
        TaskState::Operation(OperationState::Done(result)) => Some(written_result(result, revision)),
        TaskState::Prepared(bytes) => Some(bytes.to_vec()),
        TaskState::Operation(OperationState::Lost { reason }) => {
            members.insert("error".into(), json!({ "code": -32603, "message": reason }));
            None
        }
        TaskState::Operation(OperationState::Running { .. } | OperationState::Cancelled)
        | TaskState::InputRequired(_) => None,
    };
    Ok(rpc.result(&TaskResult { members, result: written.map(raw_json) }))
}

/// `tasks/update`: responses to a task's input requests. An operation at the upstream has none, so responses
/// for it are ignored, as they must be.
pub(super) async fn update(
    dispatcher: &MessageDispatcher,
    rpc: &RpcContext<'_>,
) -> Result<RpcResponse, RpcError> {
    let task_request = TaskRequest::read(dispatcher, rpc)?;
    let TaskLocation::Replica { name, address } = &task_request.task.location else {
        return Ok(acknowledged(rpc));
    };
    let Some(task) = dispatcher.eliciting_tasks.find(name) else {
        return forward(dispatcher, rpc, address.as_deref()).await;
    };
    let responses = rpc.request.param("inputResponses").object("params.inputResponses")?;
    let responses = responses.unwrap_or_default();
    let mut state = task.state().await;
    let ElicitingState::InputRequired(answered) = &mut *state else { return Ok(acknowledged(rpc)) };
    let (remaining, input_responses) = task
        .remaining(
            (&task_request.snapshot, &task_request.route),
            &task_request.task.arguments,
            answered,
            responses,
        )
        .await;
    match remaining {
        RemainingInput::InputRequests(_) => *answered = input_responses,
        RemainingInput::Invalid(why) => return Err(RpcError::Params(why.into())),
        RemainingInput::Result(result) => {
            *state = dispatcher.eliciting_tasks.store(written_result(*result, rpc.revision));
        }
        RemainingInput::Nothing => {
            *answered = input_responses;
            let (tasks, revision) = (Arc::clone(&dispatcher.eliciting_tasks), rpc.revision);
            let Call {
                arguments, headers, request_id, api, client: client_identity, trace, mcp_version, ..
            } = rpc.call(task_request.task.arguments.clone());
            let work = TaskWork {
                snapshot: Arc::clone(&task_request.snapshot),
                route: Arc::clone(&task_request.route),
                arguments,
                headers: headers.clone(),
                request_id,
                api,
                client: client_identity,
                trace,
                mcp_version,
                store: Box::new(move |result| tasks.store(written_result(result, revision))),
            };
            Arc::clone(&task).begin(&mut state, work);
        }
    }
    Ok(acknowledged(rpc))
}

/// `tasks/cancel`: cancels the upstream's operation, if the route has a request for that. The next
/// `tasks/get` reports the outcome.
pub(super) async fn cancel(
    dispatcher: &MessageDispatcher,
    rpc: &RpcContext<'_>,
) -> Result<RpcResponse, RpcError> {
    let task_request = TaskRequest::read(dispatcher, rpc)?;
    match &task_request.task.location {
        TaskLocation::Upstream { location, input_responses } => {
            if let Some(location) = OperationLocation::from_text(location) {
                task_request.cancel_operation(rpc, input_responses.clone(), &location).await;
            }
        }
        TaskLocation::Replica { name, address } => {
            let Some(task) = dispatcher.eliciting_tasks.find(name) else {
                return forward(dispatcher, rpc, address.as_deref()).await;
            };
            let mut state = task.state().await;
            match &*state {
                ElicitingState::InputRequired(_) | ElicitingState::Starting { .. } => {
                    *state = ElicitingState::Cancelled
                }
                ElicitingState::Running(operation) => {
                    task_request
                        .cancel_operation(rpc, operation.input_responses.clone(), &operation.location)
                        .await
                }
                ElicitingState::Completed(_) | ElicitingState::Discarded | ElicitingState::Cancelled => {}
            }
        }
    }
    Ok(acknowledged(rpc))
}

/// Forwards the request to the replica that stores the task.
async fn forward(
    dispatcher: &MessageDispatcher,
    rpc: &RpcContext<'_>,
    address: Option<&str>,
) -> Result<RpcResponse, RpcError> {
    let peers = dispatcher.open_requests.replicas();
    if let (Some(peers), Some(address)) = (peers, address)
        && let Some(response) = peers.forward_request(address, rpc.message_context, rpc.request.message).await
    {
        return Ok(RpcResponse::from_replica(response.status, response.body));
    }
    Err(RpcError::Params(TASK_NOT_FOUND.into()))
}

/// Checks that the client of a request declares the extension.
///
/// # Errors
///
/// [`RpcError::NeedsTasks`] when it does not.
pub(super) fn check_support(rpc: &RpcContext<'_>) -> Result<(), RpcError> {
    if supports_tasks(rpc) { Ok(()) } else { Err(RpcError::NeedsTasks) }
}

/// Whether the client of a request declares the extension.
fn supports_tasks(rpc: &RpcContext<'_>) -> bool {
    let capabilities = rpc.capabilities();
    capabilities
        .get("extensions")
        .and_then(|extensions| extensions.get(EXTENSION))
        .is_some_and(Value::is_object)
}

fn acknowledged(rpc: &RpcContext<'_>) -> RpcResponse {
    rpc.result(&json!({}))
}

/// A result in the format of the client's revision.
fn written_result(mut result: ToolResult, revision: Revision) -> Vec<u8> {
    revision.adapt(&mut result);
    let mut out = Vec::new();
    write_tool_result(revision, &result, &Map::new(), &mut out);
    out
}

/// The content of a task's id.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Task {
    pub(super) tool: String,
    pub(super) arguments: Map<String, Value>,
    pub(super) location: TaskLocation,
    /// The client that owns it, if clients have identities.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) owner: Option<String>,
    /// Milliseconds since 1970.
    created: i64,
    ttl_ms: u64,
}

/// Where the state of a task is stored.
#[derive(Debug, Serialize, Deserialize)]
pub(super) enum TaskLocation {
    /// At the upstream.
    Upstream { location: String, input_responses: Map<String, Value> },
    /// At a replica, under this name.
    Replica { name: String, address: Option<String> },
}

impl Task {
    /// A task that begins now, and its id.
    pub(super) fn new(
        (dispatcher, rpc): (&MessageDispatcher, &RpcContext<'_>),
        tool: &str,
        arguments: Map<String, Value>,
        location: TaskLocation,
        ttl: Duration,
    ) -> (String, Self) {
        let now = SystemTime::now();
        let task = Self {
            tool: tool.to_owned(),
            arguments,
            location,
            owner: rpc.message_context.owner().map(str::to_owned),
            created: Timestamp::try_from(now).map_or(0, Timestamp::as_millisecond),
            ttl_ms: milliseconds(ttl),
        };
        let content = serde_json::to_vec(&task).expect("its keys are strings");
        (dispatcher.cipher.issue(Purpose::Task, &content, now + ttl), task)
    }

    /// The members of every response about the task.
    pub(super) fn members_of(&self, id: &str, status: &str, message: Option<&str>) -> Map<String, Value> {
        let created = Timestamp::from_millisecond(self.created).unwrap_or(Timestamp::UNIX_EPOCH);
        let mut members = Map::new();
        members.insert("taskId".into(), id.into());
        members.insert("status".into(), status.into());
        if let Some(message) = message {
            members.insert("statusMessage".into(), message.into());
        }
        members.insert("createdAt".into(), format!("{created:.3}").into());
        // No state is stored, so it was determined just now.
        members.insert("lastUpdatedAt".into(), format!("{:.3}", Timestamp::now()).into());
        members.insert("ttlMs".into(), self.ttl_ms.into());
        members
    }
}

pub(super) fn milliseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

/// A request about a task.
struct TaskRequest {
    id: String,
    pub(super) task: Task,
    pub(super) route: Arc<BoundRoute>,
    pub(super) snapshot: Arc<Snapshot>,
}

/// The state of a task.
enum TaskState {
    Operation(OperationState),
    /// It needs input.
    InputRequired(Vec<InputRequest>),
    /// The result, as serialized for clients.
    Prepared(Bytes),
}

impl TaskRequest {
    fn read(dispatcher: &MessageDispatcher, rpc: &RpcContext<'_>) -> Result<Self, RpcError> {
        check_support(rpc)?;
        let id = rpc.request.param("taskId").required_text("params.taskId")?.into_owned();
        rpc.message_context.check_name(&id)?;
        let content = dispatcher.cipher.open(Purpose::Task, &id, SystemTime::now());
        let content = content.map_err(|_| RpcError::Params(TASK_NOT_FOUND.into()))?;
        let task: Option<Task> = serde_json::from_slice(&content).ok();
        // For other clients it is an unknown task.
        if task.as_ref().is_some_and(|task| task.owner.as_deref() != rpc.message_context.owner()) {
            return Err(RpcError::Params(TASK_NOT_FOUND.into()));
        }
        let snapshot = dispatcher.gateway.snapshot();
        let found = task.and_then(|task| {
            let route =
                snapshot.table.by_tool(&task.tool).filter(|route| route.async_operation.is_some())?.clone();
            Some((task, route))
        });
        let (task, route) = found.ok_or_else(|| {
            RpcError::Params("unknown task: its tool has changed since it was created".into())
        })?;
        rpc.may(&route.scopes)?;
        Ok(Self { id, task, route, snapshot })
    }

    async fn upstream_state(
        &self,
        rpc: &RpcContext<'_>,
        location: &str,
        input_responses: &Map<String, Value>,
    ) -> Result<TaskState, RpcError> {
        let location =
            OperationLocation::from_text(location).ok_or_else(|| RpcError::Params(TASK_NOT_FOUND.into()))?;
        Ok(self
            .status_of_operation(rpc, &location, self.task.arguments.clone(), input_responses.clone())
            .await)
    }

    /// The state of a task that this replica stores.
    async fn local_state(&self, rpc: &RpcContext<'_>, task: &ElicitingTask) -> Result<TaskState, RpcError> {
        let wait = self
            .route
            .async_operation
            .as_ref()
            .map_or(AsyncOperationRule::POLL_DEFAULT, |rule| rule.poll_interval);
        let state = task.state().await;
        let (location, arguments, input_responses) = match &*state {
            ElicitingState::InputRequired(input_responses) => {
                let (remaining, _) = task
                    .remaining(
                        (&self.snapshot, &self.route),
                        &self.task.arguments,
                        input_responses,
                        Map::new(),
                    )
                    .await;
                let state = match remaining {
                    RemainingInput::InputRequests(input_requests) => {
                        return Ok(TaskState::InputRequired(input_requests));
                    }
                    RemainingInput::Result(result) => OperationState::Done(*result),
                    RemainingInput::Invalid(reason) => OperationState::Lost { reason },
                    // The route requires less input than before: the next `tasks/update`, with any content,
                    // starts the work.
                    RemainingInput::Nothing => OperationState::Running { message: None, wait },
                };
                return Ok(TaskState::Operation(state));
            }
            ElicitingState::Starting { .. } => {
                return Ok(TaskState::Operation(OperationState::Running { message: None, wait }));
            }
            ElicitingState::Completed(stored) => return Ok(TaskState::Prepared(stored.written.clone())),
            ElicitingState::Discarded => {
                return Ok(TaskState::Operation(OperationState::Lost { reason: TOO_LONG.to_owned() }));
            }
            ElicitingState::Cancelled => return Ok(TaskState::Operation(OperationState::Cancelled)),
            ElicitingState::Running(operation) => {
                (operation.location.clone(), operation.arguments.clone(), operation.input_responses.clone())
            }
        };
        // Other requests may read the state while the upstream responds.
        drop(state);
        Ok(self.status_of_operation(rpc, &location, arguments, input_responses).await)
    }

    async fn status_of_operation(
        &self,
        rpc: &RpcContext<'_>,
        location: &OperationLocation,
        arguments: Map<String, Value>,
        input_responses: Map<String, Value>,
    ) -> TaskState {
        let call = rpc.call(arguments);
        TaskState::Operation(self.snapshot.poll_operation(&self.route, call, input_responses, location).await)
    }

    async fn cancel_operation(
        &self,
        rpc: &RpcContext<'_>,
        input_responses: Map<String, Value>,
        location: &OperationLocation,
    ) {
        let call = rpc.call(self.task.arguments.clone());
        self.snapshot.cancel_operation(&self.route, call, input_responses, location).await;
    }

    /// The members of every response about the task, without its result.
    fn members(&self, state: &TaskState, revision: Revision) -> Map<String, Value> {
        let (status, message) = match state {
            TaskState::Operation(OperationState::Running { message, .. }) => ("working", message.as_deref()),
            TaskState::InputRequired(_) => ("input_required", None),
            TaskState::Operation(OperationState::Done(_)) | TaskState::Prepared(_) => ("completed", None),
            TaskState::Operation(OperationState::Cancelled) => ("cancelled", None),
            TaskState::Operation(OperationState::Lost { reason }) => ("failed", Some(reason.as_str())),
        };
        let mut members = self.task.members_of(&self.id, status, message);
        if let TaskState::Operation(OperationState::Running { wait, .. }) = state {
            members.insert("pollIntervalMs".into(), milliseconds(*wait).into());
        }
        if let TaskState::InputRequired(input_requests) = state {
            members.insert("inputRequests".into(), elicitation::requests(input_requests, revision).into());
        }
        members
    }
}
