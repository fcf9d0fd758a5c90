//! Jobs that a caller asks about itself: handed over by a call, and then one question at a time.

use std::{sync::Arc, time::Duration};

use serde_json::{Map, Value};

use super::{
    BoundRoute, Call, Snapshot,
    asking::Asking,
    audience::Telling,
    calling::{Answered, Beside, allowed, finished},
    job::{Ended, Following, Step},
    questions::{Asker, Nobody},
    record::Record,
    sentences,
};
use crate::{
    model::{Arguments, Fault, ToolResult},
    route::{JobPlace, TraceContext},
    telemetry::Ticket,
    upstream::Due,
};

/// What a call came to, whose caller may ask about a job itself.
#[derive(Debug)]
pub enum Called {
    /// A result.
    Result(ToolResult),
    /// A job that goes on.
    Job(OpenJob),
}

/// A job that nobody follows.
#[derive(Debug)]
pub struct OpenJob {
    /// The call's arguments, as they were checked.
    pub arguments: Map<String, Value>,
    /// What its client was asked before the job began, and has answered.
    pub answers: Map<String, Value>,
    /// Where it is asked about.
    pub place: JobPlace,
    /// What it is doing.
    pub message: Option<String>,
    /// How long to wait before the next question.
    pub wait: Duration,
    /// How long it can be asked about.
    pub life: Duration,
}

/// How a job stands.
#[derive(Debug)]
pub enum JobState {
    /// It goes on.
    Running {
        /// What it is doing.
        message: Option<String>,
        /// How long to wait before the next question.
        wait: Duration,
    },
    /// It is over; this came of it, which may be a tool error.
    Done(ToolResult),
    /// It was ended before it was done.
    Cancelled,
    /// It can't be asked about, and that will not change.
    Lost {
        /// A sentence for the client.
        why: String,
    },
}

impl OpenJob {
    /// How long the answers of a job may be that is handed over, in bytes; one with longer answers is followed here.
    pub(super) const ANSWERS_LIMIT_BYTES: usize = 1 << 10;
}

impl Snapshot {
    /// Calls the tool of a route. A job that takes longer than its rule says is handed over to the caller.
    pub async fn call_or_hand_over(
        &self,
        route: &Arc<BoundRoute>,
        mut call: Call<'_>,
        asker: &mut dyn Asker,
    ) -> Called {
        let request_id = call.request_id.clone();
        let mut record = Record::begin(self, route, &call, &request_id);
        let after = route.job.as_ref().map(|job| job.task.after);
        match self.answer(route, &mut call, asker, &mut record, after, None).await {
            Ok(Answered::Job(job)) => {
                record.end_open();
                Called::Job(*job)
            }
            Ok(Answered::Result(result)) => Called::Result(finished(route, Ok(result), &request_id, record)),
            Err(error) => Called::Result(finished(route, Err(error), &request_id, record)),
        }
    }

    /// Asks once about a job that was handed over. `call` has the arguments that came with it.
    pub async fn ask_job(
        &self,
        route: &Arc<BoundRoute>,
        call: Call<'_>,
        answers: Map<String, Value>,
        place: &JobPlace,
    ) -> JobState {
        let Some(job) = &route.job else { return JobState::Lost { why: sentences::JOB_LOST.to_owned() } };
        if let Err(forbidden) = allowed(route, &call) {
            return JobState::Done(*forbidden);
        }
        let request_id = call.request_id.clone();
        let mut record = Record::begin(self, route, &call, &request_id);
        let mut telling = Telling::new(None, route.definition.name.as_str());
        let trace = call.trace.or_else(|| TraceContext::of_headers(call.headers));
        let arguments = Arguments::from(call.arguments).with_answers(answers);
        let (headers, caller) = (call.headers, &call.caller);
        let (trace, ticket, due) = (trace.as_ref(), &record.ticket(), Due::after(route.deadline));
        let asking =
            Asking { snapshot: self, route, arguments: &arguments, headers, caller, trace, ticket, due };
        let ended = match (Following { asking, job }).step(place, &mut record, &mut telling).await {
            Ok(Step::Running { stand, wait, .. }) => {
                record.end_open();
                return JobState::Running { message: stand.in_words(), wait };
            }
            Ok(Step::Ended(Ended::Cancelled)) => {
                record.end_open();
                return JobState::Cancelled;
            }
            Ok(Step::Ended(ended)) => ended,
            Err(lost) if lost.in_passing => {
                record.end(lost.result.outcome);
                let message = Some("the service can't be asked at the moment".to_owned());
                return JobState::Running { message, wait: job.poll };
            }
            Err(lost) => {
                record.end(lost.result.outcome);
                return JobState::Lost { why: lost.why };
            }
        };
        let beside = Beside { asker: &mut Nobody, record: &mut record, telling: &mut telling };
        let result = self.translated(route, arguments, due, ended, beside).await;
        JobState::Done(finished(route, result, &request_id, record))
    }

    /// Tells the upstream to end a job that was handed over, where its route says how, and waits until it has heard.
    pub async fn end_job(
        &self,
        route: &Arc<BoundRoute>,
        call: Call<'_>,
        answers: Map<String, Value>,
        place: &JobPlace,
    ) {
        let Some(job) = route.job.as_ref().filter(|_| allowed(route, &call).is_ok()) else { return };
        let trace = call.trace.or_else(|| TraceContext::of_headers(call.headers));
        let arguments = Arguments::from(call.arguments).with_answers(answers);
        let (headers, caller) = (call.headers, &call.caller);
        let ticket = &Ticket::new(call.request_id, call.span);
        let (trace, due) = (trace.as_ref(), Due::after(route.deadline));
        let asking =
            Asking { snapshot: self, route, arguments: &arguments, headers, caller, trace, ticket, due };
        if let Some(ending) = (Following { asking, job }).ending(place) {
            ending.await;
        }
    }
}

/// The tool error of a job that was ended before it was done.
pub(super) fn cancelled() -> ToolResult {
    ToolResult::error(Fault::Reported { status: None }, sentences::JOB_CANCELLED)
}
