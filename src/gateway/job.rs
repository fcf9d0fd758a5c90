//! Follows a job to its end: waits, asks how it stands, and ends it when nobody waits any more.

use std::sync::Arc;

use http::{HeaderMap, StatusCode};
use serde_json::Value;
use tokio::time::{Instant, sleep_until};
use tower::ServiceExt;
use tracing::{debug, warn};

use super::{Snapshot, record::Record, sentences, translating::Untranslated};
use crate::{
    observe::Chain,
    policy::Guarded,
    reply::Reply,
    route::{Begun, JobFacts, JobPlace, JobRule, Route, Stand, Turn, UpstreamRequest},
    rule::{Facts, Stop},
    tool::{Arguments, Fault, ToolResult},
    upstream::{Ask, Due, UpstreamError},
};

/// How long an upstream may take to hear that a job is to end.
const END_DEADLINE: std::time::Duration = std::time::Duration::from_secs(10);

/// A call whose job is followed.
#[derive(Clone, Copy)]
pub(super) struct Following<'a> {
    pub(super) snapshot: &'a Snapshot,
    pub(super) route: &'a Arc<Route>,
    pub(super) job: &'a JobRule,
    pub(super) arguments: &'a Arguments,
    pub(super) headers: &'a HeaderMap,
    pub(super) due: Due,
}

/// What a job came to.
#[derive(Debug)]
pub(super) enum Ended {
    /// The reply that the route's rules are for.
    Reply(Reply),
    /// The reply that told of its failure.
    Failed(Reply, Stand),
}

impl Following<'_> {
    /// Follows what a first reply may have begun. Dropping the future ends the job, where the route says how.
    pub(super) async fn to_the_end(
        self,
        asked: UpstreamRequest,
        reply: Reply,
        record: &mut Record<'_>,
    ) -> Result<Ended, Box<ToolResult>> {
        let begun = move |job: &JobRule, facts: JobFacts<'_>, reply: &Reply| job.begun(&asked, facts, reply);
        let (begun, reply) = self.look(reply, begun).await?;
        match begun {
            Begun::Answer => Ok(Ended::Reply(reply)),
            Begun::Elsewhere => {
                record.job_elsewhere();
                Err(Box::new(ToolResult::error(Fault::Unreadable, sentences::JOB_ELSEWHERE)))
            }
            Begun::Job { place, wait } => self.poll(place, wait, record).await,
        }
    }

    async fn poll(
        self,
        place: JobPlace,
        mut wait: std::time::Duration,
        record: &mut Record<'_>,
    ) -> Result<Ended, Box<ToolResult>> {
        let mut unwatched = Unwatched { following: self, place: Some(place.clone()) };
        let mut place = place;
        for _ in 0..JobRule::MOST_POLLS {
            self.wait(wait).await?;
            let asked = self.job.ask(&place, self.arguments, self.headers).map_err(|error| {
                Box::new(ToolResult::error(Fault::Unreadable, sentences::job_unnamed(&error.to_string())))
            })?;
            let reply = self.ask(asked.clone(), record).await?;
            let turn = {
                let place = place.clone();
                move |job: &JobRule, facts: JobFacts<'_>, reply: &Reply| {
                    job.turn(&place, &asked, facts, reply)
                }
            };
            let (turn, reply) = self.look(reply, turn).await?;
            match turn {
                Turn::Running { stand: _, place: next, wait: until } => {
                    (place, wait) = (next, until);
                    unwatched.place = Some(place.clone());
                }
                Turn::Done => {
                    unwatched.place = None;
                    return self.result(&place, reply, record).await.map(Ended::Reply);
                }
                Turn::Moved(result) => {
                    let asked = self.job.ask(&result, self.arguments, self.headers);
                    let asked =
                        asked.map_err(|_| Box::new(sentences::job_not_done(self.due.after, self.ends())))?;
                    let reply = self.ask(asked, record).await?;
                    if reply.status != StatusCode::ACCEPTED {
                        unwatched.place = None;
                        return Ok(Ended::Reply(reply));
                    }
                    (place, wait) = (result, self.job.poll);
                    unwatched.place = Some(place.clone());
                }
                Turn::Failed(stand) => {
                    unwatched.place = None;
                    return Ok(Ended::Failed(reply, stand));
                }
                Turn::Answer => {
                    unwatched.place = None;
                    return Ok(Ended::Reply(reply));
                }
            }
        }
        Err(Box::new(sentences::job_not_done(self.due.after, self.ends())))
    }

    /// The reply that a job that is done has its result in.
    async fn result(
        self,
        place: &JobPlace,
        reply: Reply,
        record: &mut Record<'_>,
    ) -> Result<Reply, Box<ToolResult>> {
        match self.job.ask_result(place, self.arguments, self.headers) {
            Ok(None) => Ok(reply),
            Ok(Some(asked)) => self.ask(asked, record).await,
            Err(error) => Err(Box::new(ToolResult::error(
                Fault::Unreadable,
                sentences::job_unnamed(&error.to_string()),
            ))),
        }
    }

    async fn wait(self, wait: std::time::Duration) -> Result<(), Box<ToolResult>> {
        let until = Instant::now().checked_add(wait).filter(|until| *until < self.due.at);
        sleep_until(until.unwrap_or(self.due.at)).await;
        match until {
            Some(_) => Ok(()),
            None => Err(Box::new(sentences::job_not_done(self.due.after, self.ends()))),
        }
    }

    async fn ask(self, request: UpstreamRequest, record: &mut Record<'_>) -> Result<Reply, Box<ToolResult>> {
        let repeatable = request.method.is_idempotent();
        let ask = Ask { request, reply_limit_bytes: self.route.reply_limit_bytes, due: self.due, repeatable };
        let reply = self.upstream().oneshot(ask).await.map_err(|error: UpstreamError| {
            record.upstream_failed(&error);
            Box::new(match error {
                UpstreamError::Deadline { .. } => sentences::job_not_done(self.due.after, self.ends()),
                error => sentences::job_lost(&error),
            })
        })?;
        record.replied(reply.status);
        Ok(reply)
    }

    async fn look<T: Send + 'static>(
        self,
        reply: Reply,
        question: impl FnOnce(&JobRule, JobFacts<'_>, &Reply) -> T + Send + 'static,
    ) -> Result<(T, Reply), Box<ToolResult>> {
        let (route, args) = (Arc::clone(self.route), Value::Object(self.arguments.as_map().clone()));
        let ask = move |reply: &Reply, stop: Option<&Stop>| {
            let facts = Facts { stop, ..Facts::new(&route.definition.name, &args) };
            let (limits, redaction) = (&route.translator.limits, &route.translator.redaction);
            let job = route.job.as_ref().expect("only a route with a job is followed");
            question(job, JobFacts { facts, limits, redaction }, reply)
        };
        let looked = self.snapshot.translating.look(reply, self.due.at, ask).await;
        looked.map_err(|why| {
            Box::new(match why {
                Untranslated::Panicked => ToolResult::error(Fault::Unreadable, sentences::UNREADABLE),
                Untranslated::TooLate => sentences::too_late(self.due.after),
            })
        })
    }

    fn upstream(self) -> Guarded {
        let upstream = self.snapshot.upstreams.get(&self.route.upstream);
        upstream.expect("a snapshot has the upstream of every route").clone()
    }

    /// Whether a job that is given up is told to end.
    fn ends(self) -> bool {
        self.job.cancel.is_some()
    }
}

/// A job that is told to end when its caller has left, or time is up.
struct Unwatched<'a> {
    following: Following<'a>,
    place: Option<JobPlace>,
}

impl Drop for Unwatched<'_> {
    fn drop(&mut self) {
        let Some(place) = self.place.take() else { return };
        end(self.following, &place);
    }
}

/// Tells the upstream to end a job, and does not wait for its answer.
fn end(following: Following<'_>, place: &JobPlace) {
    let Following { route, job, arguments, headers, .. } = following;
    let Some(request) = job.ask_end(place, arguments, headers) else { return };
    let Ok(runtime) = tokio::runtime::Handle::try_current() else { return };
    let (upstream, tool) = (following.upstream(), route.definition.name.clone());
    let ask = Ask {
        repeatable: request.method.is_idempotent(),
        request,
        reply_limit_bytes: route.reply_limit_bytes,
        due: Due::after(END_DEADLINE),
    };
    runtime.spawn(async move {
        match upstream.oneshot(ask).await {
            Ok(reply) => {
                debug!(%tool, status = reply.status.as_u16(), "a job that nobody waits for was ended")
            }
            Err(error) => {
                let error: UpstreamError = error;
                warn!(%tool, error = %Chain(&error), "a job that nobody waits for could not be ended");
            }
        }
    });
}
