//! A task that a request is about, and how it stands.

use std::{
    sync::Arc,
    time::{Duration, SystemTime},
};

use bytes::Bytes;
use serde::Deserialize;
use serde_json::{Map, Value};

use super::{
    GONE, TOO_LONG,
    asking::{AskingTask, Left, Stand},
    knows,
    task::{Task, milliseconds},
};
use crate::{
    crypto::Purpose,
    face::mcp::{
        ask, client::Client, message::Member, protocol::Protocol, refusal::Refusal, revision::Revision,
    },
    gateway::{JobState, Snapshot},
    route::{JobPlace, JobRule, Question, Route},
    tool::ToolResult,
};

/// The parameters of `tasks/…`.
#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct TaskParams<'a> {
    #[serde(borrow)]
    task_id: Member<'a>,
    /// Answers to what the task has asked, for `tasks/update`.
    #[serde(borrow)]
    pub(super) input_responses: Member<'a>,
}

/// A task that a request is about.
pub(super) struct Asked {
    id: String,
    pub(super) task: Task,
    pub(super) route: Arc<Route>,
    pub(super) snapshot: Arc<Snapshot>,
}

/// How a task stands.
pub(super) enum Standing {
    Working {
        message: Option<String>,
        wait: Duration,
    },
    Asking(Vec<Question>),
    Done(ToolResult),
    /// The same, as it is written to clients.
    Written(Bytes),
    Cancelled,
    Failed {
        why: String,
    },
}

impl Asked {
    pub(super) fn by(protocol: &Protocol, client: &Client<'_>) -> Result<Self, Refusal> {
        if !knows(client) {
            return Err(Refusal::NeedsTasks);
        }
        let TaskParams { task_id, .. } = client.request.params()?;
        let id = task_id.required_text("params.taskId")?.into_owned();
        client.carrier.check_name(&id)?;
        let content = protocol.seal.open(Purpose::Task, &id, SystemTime::now());
        let content = content.map_err(|_| Refusal::Params(GONE.into()))?;
        let task: Option<Task> = serde_json::from_slice(&content).ok();
        // To anybody else it is not there.
        if task.as_ref().is_some_and(|task| task.owner.as_deref() != client.carrier.owner()) {
            return Err(Refusal::Params(GONE.into()));
        }
        let snapshot = protocol.gateway.snapshot();
        let found = task.and_then(|task| {
            let route = snapshot.table.by_tool(&task.tool).filter(|route| route.job.is_some())?.clone();
            Some((task, route))
        });
        let (task, route) =
            found.ok_or_else(|| Refusal::Params("unknown task: its tool is no longer what it was".into()))?;
        client.may(&route.scopes)?;
        Ok(Self { id, task, route, snapshot })
    }

    pub(super) async fn at_upstream(
        &self,
        client: &Client<'_>,
        place: &str,
        answers: &Map<String, Value>,
    ) -> Result<Standing, Refusal> {
        let place = JobPlace::of_text(place).ok_or_else(|| Refusal::Params(GONE.into()))?;
        Ok(self.of_job(client, &place, self.task.arguments.clone(), answers.clone()).await)
    }

    /// How a task stands that is kept here.
    pub(super) async fn here(&self, client: &Client<'_>, task: &AskingTask) -> Result<Standing, Refusal> {
        let poll = self.route.job.as_ref().map_or(JobRule::POLL_DEFAULT, |job| job.poll);
        let stand = task.stand().await;
        let (place, arguments, answers) = match &*stand {
            Stand::Asking(answered) => {
                let (left, _) = task
                    .left((&self.snapshot, &self.route), &self.task.arguments, answered, Map::new())
                    .await;
                return Ok(match left {
                    Left::Questions(questions) => Standing::Asking(questions),
                    Left::Result(result) => Standing::Done(*result),
                    Left::Wrong(why) => Standing::Failed { why },
                    // The route asks less than it did: the next answer, whatever it is, begins the work.
                    Left::Nothing => Standing::Working { message: None, wait: poll },
                });
            }
            Stand::Beginning { .. } => return Ok(Standing::Working { message: None, wait: poll }),
            Stand::Ended(kept) => return Ok(Standing::Written(kept.written.clone())),
            Stand::Lost => return Ok(Standing::Failed { why: TOO_LONG.to_owned() }),
            Stand::Cancelled => return Ok(Standing::Cancelled),
            Stand::Job(job) => (job.place.clone(), job.arguments.clone(), job.answers.clone()),
        };
        // Others may ask about it while the upstream answers.
        drop(stand);
        Ok(self.of_job(client, &place, arguments, answers).await)
    }

    async fn of_job(
        &self,
        client: &Client<'_>,
        place: &JobPlace,
        arguments: Map<String, Value>,
        answers: Map<String, Value>,
    ) -> Standing {
        match self.snapshot.ask_job(&self.route, client.call(arguments), answers, place).await {
            JobState::Running { message, wait } => Standing::Working { message, wait },
            JobState::Done(result) => Standing::Done(result),
            JobState::Cancelled => Standing::Cancelled,
            JobState::Lost { why } => Standing::Failed { why },
        }
    }

    pub(super) async fn end(&self, client: &Client<'_>, answers: Map<String, Value>, place: &JobPlace) {
        let call = client.call(self.task.arguments.clone());
        self.snapshot.end_job(&self.route, call, answers, place).await;
    }

    /// What a client is told of it, its result aside.
    pub(super) fn told(&self, standing: &Standing, revision: Revision) -> Map<String, Value> {
        let (status, message) = match standing {
            Standing::Working { message, .. } => ("working", message.as_deref()),
            Standing::Asking(_) => ("input_required", None),
            Standing::Done(_) | Standing::Written(_) => ("completed", None),
            Standing::Cancelled => ("cancelled", None),
            Standing::Failed { why } => ("failed", Some(why.as_str())),
        };
        let mut members = self.task.told(&self.id, status, message);
        match standing {
            Standing::Working { wait, .. } => {
                members.insert("pollIntervalMs".into(), milliseconds(*wait).into());
            }
            Standing::Asking(questions) => {
                members.insert("inputRequests".into(), ask::requests(questions, revision).into());
            }
            Standing::Done(_) | Standing::Written(_) | Standing::Cancelled | Standing::Failed { .. } => {}
        }
        members
    }
}
