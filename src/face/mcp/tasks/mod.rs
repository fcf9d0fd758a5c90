//! Tasks (the extension `io.modelcontextprotocol/tasks` of 2026-07-28): work that a client asks about itself.
//!
//! A task is a job that the upstream keeps. Its id is sealed and holds where the job is asked about, and what the call
//! was (`task`); so any replica answers for it, and none keeps anything. Only a task that asks its client (`asking`) is
//! kept by the replica where it began, to which the others hand on what they are `asked` about it.

mod asked;
mod asking;
mod task;

use std::sync::Arc;

use serde::Serialize;
use serde_json::{Map, Value, json, value::RawValue};

use super::{
    answer::{Answer, raw_json, write_tool_result},
    ask,
    client::Client,
    peer::Peers,
    protocol::Protocol,
    refusal::Refusal,
    revision::Revision,
};
use crate::{
    gateway::{Call, OpenJob, Snapshot},
    route::{JobPlace, Route, TaskOffer},
    tool::ToolResult,
};

pub(super) use self::asking::AskingTasks;
use self::{
    asked::{Asked, Standing, TaskParams},
    asking::{Left, Stand, Work},
    task::{At, Task, milliseconds},
};

/// The extension's name, among the capabilities of both sides.
pub(super) const EXTENSION: &str = "io.modelcontextprotocol/tasks";

/// How long what is kept of a call may be, in bytes: a task's id goes into a header. A call that has more to keep waits
/// for its result instead.
const LIMIT_BYTES: usize = 2048;

const GONE: &str = "unknown task: it was not begun here, or its time is over";

const TOO_LONG: &str = "The work is done, but its result could not be kept: it is too long, or too many are.";

/// Whether a call may become a task.
///
/// # Errors
///
/// [`Refusal::NeedsTasks`] when it can only be one, and the client knows none.
pub(super) fn may_be(
    route: &Route,
    client: &Client<'_>,
    arguments: &Map<String, Value>,
) -> Result<bool, Refusal> {
    let Some(job) = &route.job else { return Ok(false) };
    match (job.task.offer, knows(client)) {
        (TaskOffer::Off, _) | (TaskOffer::Offered, false) => Ok(false),
        (TaskOffer::Required, false) => Err(Refusal::NeedsTasks),
        (TaskOffer::Offered | TaskOffer::Required, true) => {
            Ok(serde_json::to_vec(arguments).is_ok_and(|json| json.len() <= LIMIT_BYTES))
        }
    }
}

/// Whether some tool may give a task.
pub(super) fn are_offered(snapshot: &Snapshot) -> bool {
    let jobs = snapshot.table.in_order().iter().filter_map(|route| route.job.as_ref());
    jobs.into_iter().any(|job| job.task.offer != TaskOffer::Off)
}

/// The answer to a call that has become a task.
pub(super) fn created(protocol: &Protocol, client: &Client<'_>, tool: &str, job: OpenJob) -> Answer {
    let at = At::Job { place: job.place.to_text(), answers: job.answers };
    let (id, task) = Task::new((protocol, client), tool, job.arguments, at, job.life);
    let mut members = task.told(&id, "working", job.message.as_deref());
    members.insert("pollIntervalMs".into(), milliseconds(job.wait).into());
    Answer::result(client.request.id, Some("task"), &members, client.meta)
}

/// The answer to a call that becomes a task before anything is asked, so that the task asks it. `None` where its route
/// says nothing of that, where there is nothing to ask, or too many such tasks are there.
pub(super) async fn asking(
    protocol: &Protocol,
    client: &Client<'_>,
    (snapshot, route): (&Snapshot, &Arc<Route>),
    arguments: &Map<String, Value>,
) -> Option<Answer> {
    let job = route.job.as_ref().filter(|job| job.task.asks)?;
    let abilities = client.revision.abilities(&client.capabilities());
    let questions = asking::first_questions((snapshot, route), arguments, abilities).await?;
    let name = protocol.asking_tasks.begin(abilities, job.task.life)?;
    let address = protocol.questions.peers().and_then(Peers::own).map(str::to_owned);
    let (tool, at) = (route.definition.name.as_str(), At::Replica { name, address });
    let (id, task) = Task::new((protocol, client), tool, arguments.clone(), at, job.task.life);
    let mut members = task.told(&id, "input_required", None);
    members.insert("inputRequests".into(), ask::requests(&questions, client.revision).into());
    members.insert("pollIntervalMs".into(), milliseconds(job.poll).into());
    Some(Answer::result(client.request.id, Some("task"), &members, client.meta))
}

/// `tasks/get`: how a task stands, and its result once there is one.
pub(super) async fn get(protocol: &Protocol, client: &Client<'_>) -> Result<Answer, Refusal> {
    let asked = Asked::by(protocol, client)?;
    let standing = match &asked.task.at {
        At::Job { place, answers } => asked.at_upstream(client, place, answers).await?,
        At::Replica { name, address } => match protocol.asking_tasks.find(name) {
            Some(task) => asked.here(client, &task).await?,
            None => return hand_on(protocol, client, address.as_deref()).await,
        },
    };
    #[derive(Serialize)]
    struct TaskResult {
        #[serde(flatten)]
        members: Map<String, Value>,
        #[serde(skip_serializing_if = "Option::is_none")]
        result: Option<Box<RawValue>>,
    }
    let revision = client.revision;
    let mut members = asked.told(&standing, revision);
    let written = match standing {
        Standing::Done(result) => Some(written_result(result, revision)),
        Standing::Written(bytes) => Some(bytes.to_vec()),
        Standing::Failed { why } => {
            members.insert("error".into(), json!({ "code": -32603, "message": why }));
            None
        }
        Standing::Working { .. } | Standing::Asking(_) | Standing::Cancelled => None,
    };
    Ok(client.result(&TaskResult { members, result: written.map(raw_json) }))
}

/// `tasks/update`: answers to what a task has asked. A job that an upstream keeps asks nothing, so they are for nothing
/// that waits, and such are to be ignored.
pub(super) async fn update(protocol: &Protocol, client: &Client<'_>) -> Result<Answer, Refusal> {
    let asked = Asked::by(protocol, client)?;
    let At::Replica { name, address } = &asked.task.at else { return Ok(acknowledged(client)) };
    let Some(task) = protocol.asking_tasks.find(name) else {
        return hand_on(protocol, client, address.as_deref()).await;
    };
    let TaskParams { input_responses, .. } = client.request.params()?;
    let responses = input_responses.object("params.inputResponses")?.unwrap_or_default();
    let mut stand = task.stand().await;
    let Stand::Asking(answered) = &mut *stand else { return Ok(acknowledged(client)) };
    let (left, answers) =
        task.left((&asked.snapshot, &asked.route), &asked.task.arguments, answered, responses).await;
    match left {
        Left::Questions(_) => *answered = answers,
        Left::Wrong(why) => return Err(Refusal::Params(why.into())),
        Left::Result(result) => {
            *stand = protocol.asking_tasks.keep(written_result(*result, client.revision));
        }
        Left::Nothing => {
            *answered = answers;
            let (tasks, revision) = (Arc::clone(&protocol.asking_tasks), client.revision);
            let Call { arguments, headers, request_id, face, caller, trace, protocol, .. } =
                client.call(asked.task.arguments.clone());
            let work = Work {
                snapshot: Arc::clone(&asked.snapshot),
                route: Arc::clone(&asked.route),
                arguments,
                headers: headers.clone(),
                request_id,
                face,
                caller,
                trace,
                protocol,
                keep: Box::new(move |result| tasks.keep(written_result(result, revision))),
            };
            Arc::clone(&task).begin(&mut stand, work);
        }
    }
    Ok(acknowledged(client))
}

/// `tasks/cancel`: the upstream is told, where the route says how; what comes of it the next `tasks/get` tells.
pub(super) async fn cancel(protocol: &Protocol, client: &Client<'_>) -> Result<Answer, Refusal> {
    let asked = Asked::by(protocol, client)?;
    match &asked.task.at {
        At::Job { place, answers } => {
            if let Some(place) = JobPlace::of_text(place) {
                asked.end(client, answers.clone(), &place).await;
            }
        }
        At::Replica { name, address } => {
            let Some(task) = protocol.asking_tasks.find(name) else {
                return hand_on(protocol, client, address.as_deref()).await;
            };
            let mut stand = task.stand().await;
            match &*stand {
                Stand::Asking(_) | Stand::Beginning { .. } => *stand = Stand::Cancelled,
                Stand::Job(job) => asked.end(client, job.answers.clone(), &job.place).await,
                Stand::Ended(_) | Stand::Lost | Stand::Cancelled => {}
            }
        }
    }
    Ok(acknowledged(client))
}

/// Lets the replica answer that keeps the task.
async fn hand_on(protocol: &Protocol, client: &Client<'_>, address: Option<&str>) -> Result<Answer, Refusal> {
    let peers = protocol.questions.peers();
    if let (Some(peers), Some(address)) = (peers, address)
        && let Some(reply) = peers.pass(address, client.carrier, client.request.message).await
    {
        return Ok(Answer::of_peer(reply.status, reply.body));
    }
    Err(Refusal::Params(GONE.into()))
}

/// Whether the client of a request knows tasks.
fn knows(client: &Client<'_>) -> bool {
    let capabilities = client.capabilities();
    capabilities
        .get("extensions")
        .and_then(|extensions| extensions.get(EXTENSION))
        .is_some_and(Value::is_object)
}

fn acknowledged(client: &Client<'_>) -> Answer {
    client.result(&json!({}))
}

/// A result as a client of this revision reads it.
fn written_result(mut result: ToolResult, revision: Revision) -> Vec<u8> {
    revision.adapt(&mut result);
    let mut out = Vec::new();
    write_tool_result(revision, &result, &Map::new(), &mut out);
    out
}
