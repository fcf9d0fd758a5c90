//! Tasks (the extension `io.modelcontextprotocol/tasks` of 2026-07-28): work that a client asks about itself.
//!
//! A task is a job that the upstream keeps. Its id is sealed and holds where the job is asked about, and what the call
//! was; so any replica answers for it, and none keeps anything.

use std::{
    sync::Arc,
    time::{Duration, SystemTime},
};

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use super::{answer::Answer, client::Client, protocol::Protocol, refusal::Refusal};
use crate::{
    gateway::{JobState, OpenJob, Snapshot},
    route::{JobPlace, Route, TaskOffer},
    seal::Purpose,
    tool::write_result_fields,
};

/// The extension's name, among the capabilities of both sides.
pub(super) const EXTENSION: &str = "io.modelcontextprotocol/tasks";

/// How long what is kept of a call may be, in bytes: a task's id goes into a header. A call that has more to keep waits
/// for its result instead.
const LIMIT_BYTES: usize = 2048;

/// What a task's id holds.
#[derive(Debug, Serialize, Deserialize)]
struct Task {
    tool: String,
    arguments: Map<String, Value>,
    answers: Map<String, Value>,
    place: String,
    /// Milliseconds since 1970.
    created: i64,
    life: u64,
}

/// A task that a request is about.
struct Asked {
    id: String,
    task: Task,
    place: JobPlace,
    route: Arc<Route>,
    snapshot: Arc<Snapshot>,
}

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
    let (now, life) = (SystemTime::now(), job.life);
    let task = Task {
        tool: tool.to_owned(),
        arguments: job.arguments,
        answers: job.answers,
        place: job.place.to_text(),
        created: Timestamp::try_from(now).map_or(0, Timestamp::as_millisecond),
        life: milliseconds(life),
    };
    let content = serde_json::to_vec(&task).expect("its keys are strings");
    let id = protocol.seal.seal(Purpose::Task, &content, now + life);
    let mut members = task.told(&id, "working", job.message.as_deref());
    members.insert("pollIntervalMs".into(), milliseconds(job.wait).into());
    members.insert("_meta".into(), protocol.about.result_meta(client.revision).clone().into());
    Answer::task(client.request.id, &members)
}

/// `tasks/get`: how a task stands, and its result once there is one.
pub(super) async fn get(protocol: &Protocol, client: &Client<'_>) -> Result<Answer, Refusal> {
    let Asked { id, task, place, route, snapshot } = Asked::by(protocol, client)?;
    let (mut result, members) = match snapshot
        .ask_job(&route, client.call(task.arguments.clone()), task.answers.clone(), &place)
        .await
    {
        JobState::Running { message, wait } => {
            let mut members = task.told(&id, "working", message.as_deref());
            members.insert("pollIntervalMs".into(), milliseconds(wait).into());
            (None, members)
        }
        JobState::Cancelled => (None, task.told(&id, "cancelled", None)),
        JobState::Lost { why } => {
            let mut members = task.told(&id, "failed", Some(&why));
            members.insert("error".into(), json!({ "code": -32603, "message": why }));
            (None, members)
        }
        JobState::Done(result) => (Some(result), task.told(&id, "completed", None)),
    };
    let revision = client.revision;
    if let Some(result) = &mut result {
        revision.adapt(result);
    }
    Answer::result(client.request.id, revision, |out| {
        write_members(&members, out);
        if let Some(result) = &result {
            out.extend_from_slice(b",\"result\":{\"resultType\":\"complete\",");
            write_result_fields(result, revision.shapes(), &Map::new(), out);
            out.push(b'}');
        }
        out.push(b',');
        write_meta(protocol, client, out);
        Ok(())
    })
}

/// `tasks/update`: answers to what a task has asked. A job that an upstream keeps asks nothing, so they are for nothing
/// that waits, and such are to be ignored.
pub(super) fn update(protocol: &Protocol, client: &Client<'_>) -> Result<Answer, Refusal> {
    Asked::by(protocol, client)?;
    acknowledged(protocol, client)
}

/// `tasks/cancel`: the upstream is told, where the route says how; what comes of it the next `tasks/get` tells.
pub(super) async fn cancel(protocol: &Protocol, client: &Client<'_>) -> Result<Answer, Refusal> {
    let Asked { task, place, route, snapshot, .. } = Asked::by(protocol, client)?;
    snapshot.end_job(&route, client.call(task.arguments), task.answers, &place).await;
    acknowledged(protocol, client)
}

impl Asked {
    fn by(protocol: &Protocol, client: &Client<'_>) -> Result<Self, Refusal> {
        if !knows(client) {
            return Err(Refusal::NeedsTasks);
        }
        let id = client.request.params.task_id()?.into_owned();
        client.carrier.check_name(&id)?;
        let unknown = |why: &'static str| Refusal::Params(why.into());
        let content = protocol.seal.open(Purpose::Task, &id, SystemTime::now());
        let content =
            content.map_err(|_| unknown("unknown task: it was not begun here, or its time is over"))?;
        let task: Option<Task> = serde_json::from_slice(&content).ok();
        let snapshot = protocol.gateway.snapshot();
        let found = task.and_then(|task| {
            let place = JobPlace::of_text(&task.place)?;
            let route = snapshot.table.by_tool(&task.tool).filter(|route| route.job.is_some())?.clone();
            Some((task, place, route))
        });
        let (task, place, route) =
            found.ok_or_else(|| unknown("unknown task: its tool is no longer what it was"))?;
        Ok(Self { id, task, place, route, snapshot })
    }
}

impl Task {
    /// What every answer tells of it.
    fn told(&self, id: &str, status: &str, message: Option<&str>) -> Map<String, Value> {
        let created = Timestamp::from_millisecond(self.created).unwrap_or(Timestamp::UNIX_EPOCH);
        let mut members = Map::new();
        members.insert("taskId".into(), id.into());
        members.insert("status".into(), status.into());
        if let Some(message) = message {
            members.insert("statusMessage".into(), message.into());
        }
        members.insert("createdAt".into(), format!("{created:.3}").into());
        // Nothing is kept, so what is known of it was found just now.
        members.insert("lastUpdatedAt".into(), format!("{:.3}", Timestamp::now()).into());
        members.insert("ttlMs".into(), self.life.into());
        members
    }
}

/// Whether the client of a request knows tasks.
fn knows(client: &Client<'_>) -> bool {
    let capabilities = client.capabilities();
    capabilities
        .get("extensions")
        .and_then(|extensions| extensions.get(EXTENSION))
        .is_some_and(Value::is_object)
}

fn acknowledged(protocol: &Protocol, client: &Client<'_>) -> Result<Answer, Refusal> {
    Answer::result(client.request.id, client.revision, |out| {
        write_meta(protocol, client, out);
        Ok(())
    })
}

fn write_members(members: &Map<String, Value>, out: &mut Vec<u8>) {
    let json = serde_json::to_vec(members).expect("a JSON object has string keys only");
    out.extend_from_slice(&json[1..json.len() - 1]);
}

fn write_meta(protocol: &Protocol, client: &Client<'_>, out: &mut Vec<u8>) {
    out.extend_from_slice(b"\"_meta\":");
    let meta = protocol.about.result_meta(client.revision);
    serde_json::to_writer(out, meta).expect("a JSON object has string keys only");
}

fn milliseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}
