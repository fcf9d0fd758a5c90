//! Work that an upstream begins with its first reply and ends later: what each reply says of it, and what to
//! ask next.
//!
//! Two forms are supported. In the first, the response is a `202 Accepted` with a `Location`, which returns
//! 202 until the operation is done (RFC 9110, section 15.3.3). In the second, the response has the id of the
//! operation, and a request of its own polls its status. This module sends no requests and does not wait: the
//! pipeline does.
//!
//! In reading order: a [`JobRule`] describes the requests and the meaning of their responses; a [`JobPlace`]
//! is the URL of one operation; [`Begun`], [`Turn`] and [`Stand`] are the meanings of responses.

#[cfg(test)]
mod tests;

use std::time::Duration;

use http::{HeaderMap, Method, StatusCode, Uri, header, uri::PathAndQuery};
use serde_json::Value;

use super::{HttpRequest, HttpTemplate, PathBase, RequestError, resolve_location, same_origin};
use crate::{
    model::{Arguments, UpstreamResponse},
    translate::{
        CallInput, Inspection, Jq, Matcher, Redaction, TranslationLimits, WorkBudget, extract::Extract, look,
    },
};

/// How a route's jobs are followed.
#[derive(Debug)]
pub struct JobRule {
    /// Where a job is asked about.
    pub place: JobPlaceRule,
    /// What reads a value from the first reply and from those that tell how the job stands.
    pub extract: Option<Extract>,
    /// When the work is done; without it, when the status is no longer 202.
    pub done: Option<Matcher>,
    /// When it has failed.
    pub failed: Option<Matcher>,
    /// When it was ended before it was done.
    pub cancelled: Option<Matcher>,
    /// What is asked for the result; without it, the reply that said that the job is done is it.
    pub result: Option<HttpTemplate>,
    /// What ends a job that nobody waits for.
    pub cancel: Option<CancelRule>,
    /// How long to wait between two questions, where the upstream does not say it.
    pub poll: Duration,
    /// How far the job is.
    pub progress: Option<Jq>,
    /// Of how much.
    pub total: Option<Jq>,
    /// What it is doing, in words.
    pub message: Option<Jq>,
    /// Who gets a task in place of a result that takes long.
    pub task: TaskRule,
    /// The upstream's address with a `/` behind it: what a `Location` is resolved against.
    pub base: Uri,
}

/// Which clients get a task, that they ask for themselves, in place of a result that takes long.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TaskRule {
    /// For whom.
    pub offer: TaskOffer,
    /// How long a call waits before it becomes a task.
    pub after: Duration,
    /// How long a task can be asked for.
    pub life: Duration,
    /// Whether the task asks what is to be asked before the work begins; else the call does.
    pub asks: bool,
}

/// For whom there are tasks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TaskOffer {
    /// No client gets a task.
    Forbidden,
    /// Clients that support tasks get one; others wait.
    Optional,
    /// Clients that support tasks get one; other MCP clients are rejected.
    Required,
}

impl Default for TaskRule {
    fn default() -> Self {
        Self {
            offer: TaskOffer::Optional,
            after: Duration::from_secs(2),
            life: Duration::from_secs(60 * 60),
            asks: false,
        }
    }
}

/// Where a job is asked about.
#[derive(Debug)]
pub enum JobPlaceRule {
    /// At the `Location` of its first reply.
    Location,
    /// By a request in which the argument `job` is what the filter finds in the first reply.
    Named {
        /// Finds a text or a number.
        id: Jq,
        /// Asks how the job stands.
        status: Box<HttpTemplate>,
    },
}

/// What ends a job.
#[derive(Debug)]
pub enum CancelRule {
    /// A method, such as `DELETE`, at the place where it is asked about.
    Method(Method),
    /// A request in which the argument `job` is its name.
    Request(HttpTemplate),
}

/// What a route's jobs are read with.
#[derive(Debug, Clone, Copy)]
pub struct JobFacts<'a> {
    /// The call.
    pub facts: CallInput<'a>,
    /// Bounds of what is read.
    pub limits: &'a TranslationLimits,
    /// What clients must not see.
    pub redaction: &'a Redaction,
}

impl JobRule {
    /// The argument under which requests about a job have its name.
    pub const ARGUMENT: &'static str = "job";
    /// For [`poll`](Self::poll).
    pub const POLL_DEFAULT: Duration = Duration::from_secs(1);
    /// How often one job is asked about, whatever the deadline.
    pub const MOST_POLLS: u32 = 10_000;
    /// How long the name of a job may be, in bytes.
    const LONGEST_NAME: usize = 1024;
    /// How long a message about a job may be, in bytes.
    const LONGEST_MESSAGE: usize = 300;

    /// What the first reply to a call says; `asked` is what was asked.
    pub fn begun(&self, asked: &HttpRequest, facts: JobFacts<'_>, response: &UpstreamResponse) -> Begun {
        let wait = retry_after(response).unwrap_or(self.poll);
        match &self.place {
            JobPlaceRule::Location => {
                // Where another condition says that a job is done, 200 and 201 may begin one as well.
                let begins = response.status == StatusCode::ACCEPTED
                    || (self.done.is_some() && response.status.is_success());
                if !begins || !response.headers.contains_key(header::LOCATION) {
                    return Begun::Answer;
                }
                let place = self.whole_path(asked).and_then(|from| self.located(&from, response));
                place.map_or(Begun::Elsewhere, |place| Begun::Job { place, wait })
            }
            JobPlaceRule::Named { id, .. } => {
                if !response.status.is_success() {
                    return Begun::Answer;
                }
                let name =
                    look(self.extract.as_ref(), facts.facts, facts.limits, response, |look| look.value(id));
                match name.and_then(|name| text_of(&name)) {
                    Some(name) if !name.is_empty() && name.len() <= Self::LONGEST_NAME => {
                        Begun::Job { place: JobPlace::Named(name), wait }
                    }
                    Some(_) | None => Begun::Answer,
                }
            }
        }
    }

    /// The request that asks how a job stands; `stop` ends the making of it early.
    ///
    /// # Errors
    ///
    /// [`RequestError`], when its name, or an argument of the call, can't be written where it belongs.
    pub fn status_request(
        &self,
        place: &JobPlace,
        arguments: &Arguments,
        client: &HeaderMap,
        stop: Option<&WorkBudget>,
    ) -> Result<HttpRequest, RequestError> {
        match (place, &self.place) {
            (JobPlace::Named(_), JobPlaceRule::Named { status, .. }) => {
                status.build(&place.add_to(arguments), client, stop)
            }
            (JobPlace::Path(path), _) => Ok(at(Method::GET, path.clone())),
            (JobPlace::Named(_), JobPlaceRule::Location) => Err(RequestError::new(NO_LONGER)),
        }
    }

    /// The request for the result of a job that is done, where the reply that said so is not it.
    ///
    /// # Errors
    ///
    /// As [`ask`](Self::ask).
    pub fn ask_result(
        &self,
        place: &JobPlace,
        arguments: &Arguments,
        client: &HeaderMap,
        stop: Option<&WorkBudget>,
    ) -> Result<Option<HttpRequest>, RequestError> {
        let Some(result) = &self.result else { return Ok(None) };
        result.build(&place.add_to(arguments), client, stop).map(Some)
    }

    /// The request that ends a job, where there is one.
    pub fn ask_end(
        &self,
        place: &JobPlace,
        arguments: &Arguments,
        client: &HeaderMap,
        stop: Option<&WorkBudget>,
    ) -> Option<HttpRequest> {
        match self.cancel.as_ref()? {
            CancelRule::Method(method) => {
                let asked = self.status_request(place, arguments, client, stop).ok()?;
                Some(HttpRequest { method: method.clone(), ..asked })
            }
            CancelRule::Request(request) => request.build(&place.add_to(arguments), client, stop).ok(),
        }
    }

    /// What a reply to [`ask`](Self::ask) says; `asked` is what was asked.
    pub fn turn(
        &self,
        place: &JobPlace,
        asked: &HttpRequest,
        facts: JobFacts<'_>,
        response: &UpstreamResponse,
    ) -> Turn {
        let wait = retry_after(response);
        if response.status.is_redirection() && response.headers.contains_key(header::LOCATION) {
            let place = self.whole_path(asked).and_then(|from| self.located(&from, response));
            return place.map_or(Turn::Answer, Turn::Moved);
        }
        look(self.extract.as_ref(), facts.facts, facts.limits, response, |look| {
            if self.cancelled.as_ref().is_some_and(|cancelled| look.holds(cancelled)) {
                return Turn::Cancelled;
            }
            if self.failed.as_ref().is_some_and(|failed| look.holds(failed)) {
                return Turn::Failed(self.stand(look, facts.redaction));
            }
            let status = response.status;
            let later = status == StatusCode::TOO_MANY_REQUESTS || status == StatusCode::SERVICE_UNAVAILABLE;
            let running = match &self.done {
                Some(done) if look.holds(done) => return Turn::Done,
                Some(_) => status.is_success(),
                None if status == StatusCode::ACCEPTED => true,
                None if status.is_success() => return Turn::Done,
                None => false,
            };
            // An upstream that asks to be left alone for a while has not lost the job.
            let goes_on = running || (later && wait.is_some());
            if !goes_on {
                return Turn::Answer;
            }
            let moved = match (&self.place, self.whole_path(asked)) {
                (JobPlaceRule::Location, Some(from)) if running => self.located(&from, response),
                _ => None,
            };
            let stand = if running { self.stand(look, facts.redaction) } else { Stand::default() };
            let place = moved.unwrap_or_else(|| place.clone());
            Turn::Running { stand, place, wait: wait.unwrap_or(self.poll) }
        })
    }

    fn stand(&self, look: &Inspection<'_>, redaction: &Redaction) -> Stand {
        let number = |filter: &Option<Jq>| {
            let value = look.value(filter.as_ref()?)?;
            let number = match &value {
                Value::String(text) => text.trim().trim_end_matches('%').trim_end().parse().ok(),
                value => value.as_f64(),
            };
            number.filter(|number: &f64| number.is_finite() && *number >= 0.0)
        };
        let message = self.message.as_ref().and_then(|filter| look.value(filter));
        let message = message.and_then(|value| text_of(&value)).filter(|text| !text.trim().is_empty());
        let message = message.map(|text| redaction.told(&text, Self::LONGEST_MESSAGE));
        Stand { progress: number(&self.progress), total: number(&self.total), message }
    }

    /// Where a `Location` points to, when that is the same server.
    fn located(&self, from: &Uri, response: &UpstreamResponse) -> Option<JobPlace> {
        let target = resolve_location(from, response.headers.get(header::LOCATION)?.to_str().ok()?)?;
        let same = same_origin(&self.base, &target);
        same.then(|| {
            JobPlace::Path(target.path_and_query().cloned().unwrap_or(PathAndQuery::from_static("/")))
        })
    }

    /// The URI of a request.
    fn whole_path(&self, asked: &HttpRequest) -> Option<Uri> {
        let base = match asked.under {
            PathBase::UpstreamUrl => self.base.path().trim_end_matches('/'),
            PathBase::Origin | PathBase::UrlItself => "",
        };
        let (scheme, authority) = (self.base.scheme_str()?, self.base.authority()?);
        format!("{scheme}://{authority}{base}{}", asked.path_and_query).parse().ok()
    }
}

const NO_LONGER: &str = "the job was begun when this tool was another";

fn at(method: Method, path_and_query: PathAndQuery) -> HttpRequest {
    let (headers, body) = Default::default();
    HttpRequest { method, under: PathBase::Origin, path_and_query, headers, body }
}

fn text_of(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.clone()),
        Value::Number(number) => Some(number.to_string()),
        Value::Null | Value::Bool(_) | Value::Array(_) | Value::Object(_) => None,
    }
}

/// The seconds of `Retry-After`; none at all are for the route's own `poll` to say.
fn retry_after(response: &UpstreamResponse) -> Option<Duration> {
    let seconds: u32 = response.headers.get(header::RETRY_AFTER)?.to_str().ok()?.trim().parse().ok()?;
    (seconds > 0).then(|| Duration::from_secs(seconds.into()))
}

/// What a first reply says.
#[derive(Debug, Clone, PartialEq)]
pub enum Begun {
    /// It is the answer.
    Answer,
    /// A job has begun.
    Job {
        /// Where it is asked about.
        place: JobPlace,
        /// How long the upstream wants to be left alone.
        wait: Duration,
    },
    /// A job has begun that can only be asked about at another server, which is not done.
    Elsewhere,
}

/// What a later reply says.
#[derive(Debug, Clone, PartialEq)]
pub enum Turn {
    /// The job goes on.
    Running {
        /// How it stands.
        stand: Stand,
        /// Where to ask next.
        place: JobPlace,
        /// After how long.
        wait: Duration,
    },
    /// The job is done, and this reply is its result, or the one that [`JobRule::result`](JobRule::result)
    /// asks for.
    Done,
    /// The result is at another place of the same server.
    Moved(JobPlace),
    /// This reply tells that the job failed.
    Failed(Stand),
    /// This reply tells that the job was ended before it was done.
    Cancelled,
    /// The reply is no word about the job: the upstream failed, or points to another server.
    Answer,
}

/// How a job stands, as far as the upstream tells.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Stand {
    /// How far it is.
    pub progress: Option<f64>,
    /// Of how much.
    pub total: Option<f64>,
    /// What it is doing: for clients, shortened, and without what they must not see.
    pub message: Option<String>,
}

impl Stand {
    /// The same for people.
    pub fn in_words(&self) -> Option<String> {
        let far = match (self.progress, self.total) {
            (Some(progress), Some(total)) => Some(format!("{progress} of {total}")),
            (Some(progress), None) => Some(progress.to_string()),
            (None, _) => None,
        };
        match (&self.message, far) {
            (Some(message), Some(far)) => Some(format!("{message} ({far})")),
            (Some(message), None) => Some(message.clone()),
            (None, far) => far,
        }
    }
}

/// Where one job is asked about.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum JobPlace {
    /// A path of the upstream, from the root of its host on.
    Path(PathAndQuery),
    /// By its name.
    Named(String),
}

impl JobPlace {
    /// How long the text of a place may be that a caller is given to keep, in bytes.
    const SHORT_BYTES: usize = 2048;

    /// Whether its text is short enough to be given away.
    pub fn is_short(&self) -> bool {
        self.to_text().len() <= Self::SHORT_BYTES
    }

    /// The arguments of a call, with the name of the job where it has one.
    fn add_to(&self, arguments: &Arguments) -> Arguments {
        let mut arguments = arguments.clone();
        if let Self::Named(name) = self {
            arguments.insert(JobRule::ARGUMENT, name.as_str().into());
        }
        arguments
    }

    /// One text of it, to be kept for later.
    pub fn to_text(&self) -> String {
        match self {
            Self::Path(path) => path.to_string(),
            Self::Named(name) => format!("={name}"),
        }
    }

    /// The place that such a text is of.
    pub fn of_text(text: &str) -> Option<Self> {
        match text.strip_prefix('=') {
            Some(name) => Some(Self::Named(name.to_owned())),
            None => text.parse().ok().map(Self::Path),
        }
    }
}
