//! Tasks that ask their client while they go on: what they are made of until the upstream has the work.
//!
//! Answers come one by one, by requests that give nothing back (`tasks/update`), so there is nothing that
//! could travel with the client. They are kept by the replica that the call came to, and a task's id says,
//! sealed, which one that is.

use std::{
    collections::HashMap,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use bytes::Bytes;
use http::HeaderMap;
use serde_json::{Map, Value};
use tokio::{sync::oneshot, time::Instant};

use super::elicitation::{ElicitationRound, RoundOutcome};
use crate::{
    crypto::random_id,
    model::ToolResult,
    pipeline::{BoundRoute, Call, CallOutcome, Face, OpenOperation, Snapshot, elicit_first},
    route::{Abilities, Question, TraceContext},
    telemetry::RequestId,
    upstream::Caller,
};

/// Limit of such tasks. A call beyond it elicits input itself.
const TASKS_LIMIT: usize = 1024;

/// Limit of the answers of one task, in bytes.
const ANSWERS_LIMIT_BYTES: usize = 64 << 10;

/// How long the results are together that are kept, in bytes: those of work that was done before it could be
/// asked about.
const RESULTS_LIMIT_BYTES: usize = 32 << 20;

/// The tasks of this replica that ask.
#[derive(Debug, Default)]
pub(super) struct ElicitingTasks {
    tasks: Mutex<HashMap<String, (Instant, Arc<ElicitingTask>)>>,
    kept_bytes: Arc<AtomicUsize>,
}

/// One of them.
#[derive(Debug)]
pub(super) struct ElicitingTask {
    abilities: Abilities,
    /// For one request at a time.
    stand: tokio::sync::Mutex<ElicitingState>,
}

/// The state of such a task.
#[derive(Debug)]
pub(super) enum ElicitingState {
    /// It waits for answers; these are there.
    Asking(Map<String, Value>),
    /// The upstream is being asked. Dropping the end cancels that.
    Beginning { _ends: oneshot::Sender<()> },
    /// The upstream has it.
    Job(Box<OpenOperation>),
    /// It is over, with this result as a client gets it.
    Ended(KeptResult),
    /// It is over, and its result is too long to keep.
    Lost,
    /// It was ended before it was done.
    Cancelled,
}

/// A result that is kept; it counts until it is dropped.
#[derive(Debug)]
pub(super) struct KeptResult {
    pub(super) written: Bytes,
    all_bytes: Arc<AtomicUsize>,
}

impl Drop for KeptResult {
    fn drop(&mut self) {
        self.all_bytes.fetch_sub(self.written.len(), Ordering::Relaxed);
    }
}

/// The call of a task once its input is there.
pub(super) struct TaskWork {
    pub(super) snapshot: Arc<Snapshot>,
    pub(super) route: Arc<BoundRoute>,
    pub(super) arguments: Map<String, Value>,
    /// Those of the request that brought the last answer.
    pub(super) headers: HeaderMap,
    pub(super) request_id: RequestId,
    pub(super) face: Face,
    pub(super) caller: Caller,
    pub(super) trace: Option<TraceContext>,
    pub(super) protocol: &'static str,
    /// Keeps the result.
    pub(super) keep: Box<dyn FnOnce(ToolResult) -> ElicitingState + Send>,
}

/// The remaining input of a task, or its outcome.
pub(super) enum Remaining {
    /// These questions.
    Questions(Vec<Question>),
    /// Nothing.
    Nothing,
    /// Somebody said no: the task ends with this.
    Result(Box<ToolResult>),
    /// One of the answers is none; nothing has changed.
    Wrong(String),
}

impl ElicitingTasks {
    /// Keeps a new task that waits for its first answers, and gives its name here. `None` where there are too
    /// many.
    pub(super) fn begin(&self, abilities: Abilities, life: Duration) -> Option<String> {
        let now = Instant::now();
        let mut tasks = self.tasks();
        if tasks.len() >= TASKS_LIMIT {
            tasks.retain(|_, (until, _)| *until > now);
        }
        if tasks.len() >= TASKS_LIMIT {
            return None;
        }
        let name = random_id();
        let stand = tokio::sync::Mutex::new(ElicitingState::Asking(Map::new()));
        tasks.insert(name.clone(), (now + life, Arc::new(ElicitingTask { abilities, stand })));
        Some(name)
    }

    pub(super) fn find(&self, name: &str) -> Option<Arc<ElicitingTask>> {
        let mut tasks = self.tasks();
        let (until, task) = tasks.get(name)?;
        if *until > Instant::now() {
            return Some(Arc::clone(task));
        }
        tasks.remove(name);
        None
    }

    /// Keeps a result, as far as there is room.
    pub(super) fn keep(&self, written: Vec<u8>) -> ElicitingState {
        let (all_bytes, more) = (Arc::clone(&self.kept_bytes), written.len());
        let room = |bytes: usize| bytes.checked_add(more).filter(|bytes| *bytes <= RESULTS_LIMIT_BYTES);
        match all_bytes.fetch_update(Ordering::Relaxed, Ordering::Relaxed, room) {
            Ok(_) => ElicitingState::Ended(KeptResult { written: written.into(), all_bytes }),
            Err(_) => ElicitingState::Lost,
        }
    }

    fn tasks(&self) -> MutexGuard<'_, HashMap<String, (Instant, Arc<ElicitingTask>)>> {
        self.tasks.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl ElicitingTask {
    pub(super) async fn stand(&self) -> tokio::sync::MutexGuard<'_, ElicitingState> {
        self.stand.lock().await
    }

    /// The remaining input of this task, and all answers after these responses.
    pub(super) async fn left(
        &self,
        (snapshot, route): (&Snapshot, &Arc<BoundRoute>),
        arguments: &Map<String, Value>,
        answered: &Map<String, Value>,
        responses: Map<String, Value>,
    ) -> (Remaining, Map<String, Value>) {
        let (left, answers) = left(
            (snapshot, route),
            arguments,
            ElicitationRound::new(self.abilities, answered.clone(), responses),
        )
        .await;
        if serde_json::to_vec(&answers).is_ok_and(|json| json.len() <= ANSWERS_LIMIT_BYTES) {
            return (left, answers);
        }
        let why = format!("the answers to a task may have {ANSWERS_LIMIT_BYTES} bytes together");
        (Remaining::Wrong(why), answers)
    }

    /// Has the upstream begin the work, now that everything is answered. Nobody waits for it: the call that
    /// this is part of is over.
    pub(super) fn begin(self: Arc<Self>, stand: &mut ElicitingState, work: TaskWork) {
        let (ends, mut ended) = oneshot::channel();
        let answers = match std::mem::replace(stand, ElicitingState::Beginning { _ends: ends }) {
            ElicitingState::Asking(answers) => answers,
            other => {
                *stand = other;
                return;
            }
        };
        let abilities = self.abilities;
        tokio::spawn(async move {
            let mut round = ElicitationRound::new(abilities, answers, Map::new());
            let call = work.call(work.arguments.clone());
            let called = tokio::select! {
                called = work.snapshot.call_as_task(&work.route, call, &mut round) => called,
                _ = &mut ended => return,
            };
            let mut stand = self.stand.lock().await;
            match (&*stand, called) {
                (ElicitingState::Beginning { .. }, CallOutcome::Operation(job)) => {
                    *stand = ElicitingState::Job(job)
                }
                (ElicitingState::Beginning { .. }, CallOutcome::Result(result)) => {
                    *stand = (work.keep)(result)
                }
                // It was cancelled at the last moment.
                (_, CallOutcome::Operation(job)) => {
                    drop(stand);
                    let call = work.call(job.arguments);
                    work.snapshot.cancel_operation(&work.route, call, job.answers, &job.place).await;
                }
                (_, CallOutcome::Result(_)) => {}
            }
        });
    }
}

impl TaskWork {
    fn call(&self, arguments: Map<String, Value>) -> Call<'_> {
        let (trace, caller, protocol) = (self.trace.clone(), self.caller.clone(), self.protocol);
        let call = Call::new(arguments, &self.headers, self.request_id.clone(), self.face, caller);
        Call { trace, protocol, ..call }
    }
}

/// The first input requests for a client with these abilities; `None` for a call without any.
pub(super) async fn first_questions(
    of: (&Snapshot, &Arc<BoundRoute>),
    arguments: &Map<String, Value>,
    abilities: Abilities,
) -> Option<Vec<Question>> {
    match left(of, arguments, ElicitationRound::new(abilities, Map::new(), Map::new())).await.0 {
        Remaining::Questions(questions) => Some(questions),
        Remaining::Nothing | Remaining::Result(_) | Remaining::Wrong(_) => None,
    }
}

async fn left(
    (snapshot, route): (&Snapshot, &Arc<BoundRoute>),
    arguments: &Map<String, Value>,
    mut round: ElicitationRound,
) -> (Remaining, Map<String, Value>) {
    let arguments = match snapshot.check_arguments(route, arguments.clone().into()).await {
        Ok(arguments) => arguments,
        Err(sentence) => return (Remaining::Wrong(sentence), round.answered),
    };
    let done = elicit_first(&route.asking, arguments, &mut round).await;
    let left = match (round.outcome, done) {
        (RoundOutcome::Open(questions), _) => Remaining::Questions(questions),
        (RoundOutcome::Wrong(why), _) => Remaining::Wrong(why),
        (RoundOutcome::Settled | RoundOutcome::Unable(_), Ok(_)) => Remaining::Nothing,
        (RoundOutcome::Settled | RoundOutcome::Unable(_), Err(result)) => Remaining::Result(result),
    };
    (left, round.answered)
}
