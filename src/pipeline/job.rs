//! Follows a job to its end: waits, asks how it stands, and ends it when nobody waits any more.

use std::{sync::Arc, time::Duration};

use http::{HeaderMap, StatusCode};
use tokio::time::{Instant, sleep_until};
use tracing::{debug, warn};

use super::{asking::Asking, audience::Telling, record::Record, sentences, worker_pool::WorkError};
use crate::{
    model::{Arguments, Fault, Reply, ToolResult},
    route::{Begun, HttpRequest, JobFacts, JobPlace, JobRule, LogLevel, RequestError, Route, Stand, Turn},
    telemetry::Chain,
    translate::{Facts, Stop},
    upstream::{Due, UpstreamError},
};

/// How long an upstream may take to hear that a job is to end.
const END_DEADLINE: Duration = Duration::from_secs(10);

/// A call whose job is followed.
#[derive(Clone, Copy)]
pub(super) struct Following<'a> {
    pub(super) asking: Asking<'a>,
    pub(super) job: &'a JobRule,
}

/// What a job came to.
#[derive(Debug)]
pub(super) enum Ended {
    /// The reply that the route's rules are for.
    Reply(Reply),
    /// The reply that told of its failure.
    Failed(Reply, Stand),
    /// It was ended before it was done.
    Cancelled,
    /// It goes on, and its caller asks about it from now on.
    HandedOver {
        /// How it stood when it was asked last.
        stand: Stand,
        /// Where it is asked about.
        place: JobPlace,
        /// After how long.
        wait: Duration,
    },
}

/// Why nothing is known of a job.
#[derive(Debug)]
pub(super) struct Lost {
    /// Whether another question may go better.
    pub(super) in_passing: bool,
    /// A sentence for the client.
    pub(super) why: String,
    /// The same as the result of the call.
    pub(super) result: Box<ToolResult>,
}

/// What one question about a job found.
#[derive(Debug)]
pub(super) enum Step {
    /// It goes on.
    Running { stand: Stand, place: JobPlace, wait: Duration },
    /// It is over.
    Ended(Ended),
}

impl Following<'_> {
    /// Follows what a first reply may have begun. Dropping the future ends the job, where the route says how.
    pub(super) async fn to_the_end(
        self,
        asked: HttpRequest,
        reply: Reply,
        hand_over: Option<Instant>,
        record: &mut Record<'_>,
        telling: &mut Telling<'_>,
    ) -> Result<Ended, Box<ToolResult>> {
        let begun = move |job: &JobRule, facts: JobFacts<'_>, reply: &Reply| job.begun(&asked, facts, reply);
        let (begun, reply) = self.look(reply, begun).await.map_err(|lost| lost.result)?;
        match begun {
            Begun::Answer => Ok(Ended::Reply(reply)),
            Begun::Elsewhere => {
                record.job_elsewhere();
                Err(Box::new(ToolResult::error(Fault::Unreadable, sentences::JOB_ELSEWHERE)))
            }
            Begun::Job { place, wait } => self.poll(place, wait, hand_over, record, telling).await,
        }
    }

    async fn poll(
        self,
        mut place: JobPlace,
        mut wait: Duration,
        hand_over: Option<Instant>,
        record: &mut Record<'_>,
        telling: &mut Telling<'_>,
    ) -> Result<Ended, Box<ToolResult>> {
        telling.line(LogLevel::Debug, || "the service has begun a job".to_owned());
        let mut unwatched = Unwatched { following: self, place: Some(place.clone()) };
        let mut stand = Stand::default();
        for asked in 1..=JobRule::MOST_POLLS {
            // Handed over rather than lost at the deadline.
            let hand_over = hand_over.filter(|_| place.is_short()).map(|at| at.min(self.asking.due.at));
            if hand_over.is_some_and(|at| Instant::now().checked_add(wait).is_none_or(|next| next > at)) {
                unwatched.place = None;
                return Ok(Ended::HandedOver { stand, place, wait });
            }
            self.wait(wait).await?;
            let step = match self.step(&place, record, telling).await {
                // The service was slow to say how it stands; the job goes on all the same.
                Err(lost)
                    if lost.in_passing && hand_over.is_some() && Instant::now() >= self.asking.due.at =>
                {
                    unwatched.place = None;
                    return Ok(Ended::HandedOver { stand, place, wait });
                }
                step => step.map_err(|lost| lost.result)?,
            };
            match step {
                Step::Running { stand: now, place: next, wait: until } => {
                    telling.job(&now, self.job.progress.is_some(), asked);
                    (stand, place, wait) = (now, next, until);
                    unwatched.place = Some(place.clone());
                }
                Step::Ended(ended) => {
                    unwatched.place = None;
                    return Ok(ended);
                }
            }
        }
        Err(self.not_done())
    }

    /// Asks once how a job stands, and for its result when it is done.
    pub(super) async fn step(
        self,
        place: &JobPlace,
        record: &mut Record<'_>,
        telling: &mut Telling<'_>,
    ) -> Result<Step, Lost> {
        let asked = self.request_about(place).await?;
        let reply = self.ask(asked.clone(), record, telling).await?;
        let turn = {
            let place = place.clone();
            move |job: &JobRule, facts: JobFacts<'_>, reply: &Reply| job.turn(&place, &asked, facts, reply)
        };
        let (turn, reply) = self.look(reply, turn).await?;
        let ended = match turn {
            Turn::Running { stand, place, wait } => return Ok(Step::Running { stand, place, wait }),
            Turn::Failed(stand) => Ended::Failed(reply, stand),
            Turn::Cancelled => Ended::Cancelled,
            Turn::Answer => Ended::Reply(reply),
            Turn::Done => {
                telling.job_done();
                let about = place.clone();
                match self
                    .build(move |job, of, headers, stop| job.ask_result(&about, of, headers, stop))
                    .await?
                {
                    None => Ended::Reply(reply),
                    Some(asked) => Ended::Reply(self.ask(asked, record, telling).await?),
                }
            }
            Turn::Moved(place) => {
                let asked = self.request_about(&place).await?;
                let reply = self.ask(asked, record, telling).await?;
                if reply.status == StatusCode::ACCEPTED {
                    return Ok(Step::Running { stand: Stand::default(), place, wait: self.job.poll });
                }
                telling.job_done();
                Ended::Reply(reply)
            }
        };
        Ok(Step::Ended(ended))
    }

    async fn request_about(self, place: &JobPlace) -> Result<HttpRequest, Lost> {
        let place = place.clone();
        self.build(move |job, arguments, headers, stop| job.ask(&place, arguments, headers, stop)).await
    }

    /// Makes a request about the job.
    async fn build<T: Send + 'static>(
        self,
        request: impl Fn(&JobRule, &Arguments, &HeaderMap, Option<&Stop>) -> Result<T, RequestError>
        + Send
        + 'static,
    ) -> Result<T, Lost> {
        let Asking { snapshot, route, arguments, headers, due, .. } = self.asking;
        let build = move |route: &Route, arguments: &Arguments, headers: &HeaderMap, stop: &Stop| {
            let job = route.job.as_ref().expect("only a route with a job is followed");
            request(job, arguments, headers, Some(stop))
        };
        let built = snapshot.workers.build(route, arguments, headers, due.at, build).await;
        let lost = |why| {
            let result = Box::new(sentences::unmade(why));
            Lost { in_passing: false, why: sentences::JOB_LOST.to_owned(), result }
        };
        built.map_err(lost)?.map_err(unnamed)
    }

    async fn wait(self, wait: Duration) -> Result<(), Box<ToolResult>> {
        let due = self.asking.due.at;
        let until = Instant::now().checked_add(wait).filter(|until| *until < due);
        sleep_until(until.unwrap_or(due)).await;
        until.map(|_| ()).ok_or_else(|| self.not_done())
    }

    async fn ask(
        self,
        request: HttpRequest,
        record: &mut Record<'_>,
        telling: &mut Telling<'_>,
    ) -> Result<Reply, Lost> {
        let repeatable = request.method.is_idempotent();
        let reply = self.asking.ask(request.into(), repeatable, record, telling).await;
        reply.map_err(|error| Lost {
            in_passing: matches!(
                error,
                UpstreamError::Connect { .. }
                    | UpstreamError::ConnectDeadline { .. }
                    | UpstreamError::Deadline { .. }
                    | UpstreamError::AttemptDeadline { .. }
                    | UpstreamError::Busy { .. }
                    | UpstreamError::CallerBusy { .. }
                    | UpstreamError::Resting { .. }
                    | UpstreamError::TooOften { .. }
                    | UpstreamError::Uncounted { .. }
            ),
            why: sentences::JOB_LOST.to_owned(),
            result: match error {
                UpstreamError::Deadline { .. } => self.not_done(),
                error => Box::new(sentences::job_lost(&error)),
            },
        })
    }

    async fn look<T: Send + 'static>(
        self,
        reply: Reply,
        question: impl Fn(&JobRule, JobFacts<'_>, &Reply) -> T + Send + 'static,
    ) -> Result<(T, Reply), Lost> {
        let Asking { snapshot, route, arguments, due, .. } = self.asking;
        let (route, (args, answers)) = (Arc::clone(route), arguments.clone().into_values());
        let ask = move |reply: &Reply, stop: &Stop| {
            let facts =
                Facts { stop: Some(stop), answers: &answers, ..Facts::new(&route.definition.name, &args) };
            let (limits, redaction) = (&route.translator.limits, &route.translator.redaction);
            let job = route.job.as_ref().expect("only a route with a job is followed");
            question(job, JobFacts { facts, limits, redaction }, reply)
        };
        let looked = snapshot.workers.look(&self.asking.route.definition.name, reply, due.at, ask).await;
        looked.map_err(|why| {
            let result = Box::new(match why {
                WorkError::Panicked => ToolResult::error(Fault::Unreadable, sentences::UNREADABLE),
                WorkError::DeadlineExceeded => sentences::too_late(due.after),
            });
            Lost {
                in_passing: why == WorkError::DeadlineExceeded,
                why: sentences::JOB_LOST.to_owned(),
                result,
            }
        })
    }

    fn not_done(self) -> Box<ToolResult> {
        Box::new(sentences::job_not_done(self.asking.due.after, self.job.cancel.is_some()))
    }

    /// Tells the upstream to end a job, and does not wait for its answer.
    fn end(self, place: &JobPlace) {
        if let (Some(ending), Ok(runtime)) = (self.ending(place), tokio::runtime::Handle::try_current()) {
            runtime.spawn(ending);
        }
    }

    /// Tells the upstream to end a job, where the route says how.
    pub(super) fn ending(self, place: &JobPlace) -> Option<impl Future<Output = ()> + Send + use<>> {
        let Asking { route, arguments, headers, .. } = self.asking;
        // Its caller may be gone, so nobody waits for it to be made elsewhere.
        let stop = Stop::after(Stop::TEXT_STEPS);
        let request = self.job.ask_end(place, arguments, headers, Some(&stop))?;
        let (upstream, tool) = (Arc::clone(route.policies.upstream()), route.definition.name.clone());
        let repeatable = request.method.is_idempotent();
        let ask = self.asking.ask_of(request.into(), repeatable, Due::after(END_DEADLINE));
        let ticket = ask.ticket.clone();
        Some(async move {
            match upstream.follow_up(&ask).await {
                Ok(reply) => {
                    let (request_id, status) = (ticket.request_id(), reply.status.as_u16());
                    debug!(%tool, request_id, status, "a job that nobody waits for was ended")
                }
                Err(error) => {
                    let request_id = ticket.request_id();
                    warn!(%tool, request_id, error = %Chain(&error), "a job that nobody waits for could not be ended");
                }
            }
        })
    }
}

fn unnamed(error: RequestError) -> Lost {
    let why = sentences::job_unnamed(&error.to_string());
    Lost { in_passing: false, result: Box::new(ToolResult::error(Fault::Unreadable, why.clone())), why }
}

/// A job that is told to end when its caller has left, or time is up.
struct Unwatched<'a> {
    following: Following<'a>,
    place: Option<JobPlace>,
}

impl Drop for Unwatched<'_> {
    fn drop(&mut self) {
        let Some(place) = self.place.take() else { return };
        self.following.end(&place);
    }
}
