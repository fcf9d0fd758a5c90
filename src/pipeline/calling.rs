//! A call from its arguments to its result; [`Snapshot::call`] reads like a table of contents.

use std::{sync::Arc, time::Duration};

use http::{HeaderMap, HeaderValue, StatusCode, header};
use serde_json::{Map, Value};
use tracing::debug;

use super::{
    AGE_META, Asker, BoundRoute, Call, OpenJob, REQUEST_ID_META, Snapshot, ask_first,
    asking::Asking,
    audience::{LINE_LIMIT_BYTES, Telling},
    handed,
    job::{Ended, Following},
    patience,
    questions::{self, Nobody},
    reading::ReplyHead,
    record::Record,
    sentences::{self, Effect},
    worker_pool::WorkError,
};
use crate::{
    model::{Arguments, Fault, Outcome, Reply, ToolResult},
    policy::{CacheEntry, Response},
    route::{LogLevel, Route, TraceContext, UpstreamRequest},
    telemetry::RequestId,
    translate::{Facts, STATUS_META_KEY, Stop, Trace, Translation, line_names, translate},
    upstream::Due,
};

impl Snapshot {
    /// Calls the tool of a route of this snapshot. Every failure is a tool result. Dropping the future cancels the
    /// upstream request.
    pub async fn call(&self, route: &Arc<BoundRoute>, mut call: Call<'_>) -> ToolResult {
        self.call_seeing(route, &mut call, &mut Nobody, None).await
    }

    /// The same for a client that can be asked. What it is asked, and what it answers, is no part of the deadline.
    pub async fn call_asking(
        &self,
        route: &Arc<BoundRoute>,
        mut call: Call<'_>,
        asker: &mut dyn Asker,
    ) -> ToolResult {
        self.call_seeing(route, &mut call, asker, None).await
    }

    /// The same, and the head of the reply, where there was one and somebody wants it.
    pub(super) async fn call_seeing(
        &self,
        route: &Arc<BoundRoute>,
        call: &mut Call<'_>,
        asker: &mut dyn Asker,
        head: Option<&mut Option<ReplyHead>>,
    ) -> ToolResult {
        let request_id = call.request_id.clone();
        let mut record = Record::begin(self, route, call, &request_id);
        let result = match self.answer(route, call, asker, &mut record, None, head).await {
            Ok(Answered::Result(result)) => Ok(result),
            // A job is handed over only to those who ask for it.
            Ok(Answered::Job(_)) => Err(Box::new(sentences::job_not_done(route.deadline, false))),
            Err(error) => Err(error),
        };
        finished(route, result, &request_id, record)
    }

    /// Arguments that are right, with the defaults of those that are not there.
    ///
    /// # Errors
    ///
    /// A sentence for the model that says what is wrong with them.
    pub async fn check_arguments(
        &self,
        route: &Arc<BoundRoute>,
        arguments: Arguments,
    ) -> Result<Arguments, String> {
        let due = Due::after(route.deadline);
        match self.workers.check(route, arguments, due.at).await {
            Ok(checked) => checked,
            Err(WorkError::DeadlineExceeded) => Err(sentences::ARGUMENTS_TOO_LATE.to_owned()),
            Err(WorkError::Panicked) => Err(sentences::ARGUMENTS_UNCHECKED.to_owned()),
        }
    }

    async fn checked(&self, route: &Arc<BoundRoute>, arguments: Arguments) -> Result<Arguments, Box<ToolResult>> {
        let checked = self.check_arguments(route, arguments).await;
        checked.map_err(|sentence| Box::new(argument_error(route, sentence)))
    }

    /// A result either way; an `Err` is one that ended the call early, boxed because it is the seldom one. Takes what it
    /// needs out of `call`.
    pub(super) async fn answer(
        &self,
        route: &Arc<BoundRoute>,
        call: &mut Call<'_>,
        asker: &mut dyn Asker,
        record: &mut Record<'_>,
        hand_over: Option<Duration>,
        head: Option<&mut Option<ReplyHead>>,
    ) -> Result<Answered, Box<ToolResult>> {
        allowed(route, call)?;
        let mut arguments = self.checked(route, std::mem::take(&mut call.arguments).into()).await?;
        if !route.asking.is_empty() {
            arguments = Box::pin(ask_first(&route.asking, arguments, asker)).await?;
            // What was asked for is held to the schema as well.
            arguments = self.checked(route, arguments).await?;
        }
        let patience = patience::of(call.headers);
        let patience = patience.map_err(|why| Box::new(ToolResult::error(Fault::Arguments, why)))?;
        let due = Due::after(route.deadline).within(patience);
        let told =
            |answers: &Map<String, Value>| serde_json::to_vec(answers).map_or(usize::MAX, |json| json.len());
        let hand_over = hand_over
            .filter(|_| told(arguments.answers()) <= OpenJob::ANSWERS_LIMIT_BYTES)
            .map(|after| Due::after(after).at);
        let mut telling = Telling::new(call.audience, route.definition.name.as_str());
        let trace = call.trace.take().or_else(|| TraceContext::of_headers(call.headers));
        let request = self.build(route, &arguments, call, due).await?;
        let (headers, caller, trace) = (call.headers, &call.caller, trace.as_ref());
        let ticket = &record.ticket();
        let asking =
            Asking { snapshot: self, route, arguments: &arguments, headers, caller, trace, ticket, due };
        tell_lines(route, &arguments, None, &mut telling);
        // Who says that it may be repeated need not be told to look first.
        let is_safe = route.repeatable.unwrap_or_else(|| request.is_safe());
        let asked = match (&route.job, &request) {
            (Some(_), UpstreamRequest::Http(request)) => Some(request.clone()),
            _ => None,
        };
        let repeatable = route.repeatable.unwrap_or_else(|| request.is_idempotent());
        let response = asking.call(request, repeatable, record, &mut telling).await;
        let Response { reply, age, entry } = response.map_err(|error| {
            let effect = match (is_safe, ticket.was_sent()) {
                (true, _) => Effect::Harmless,
                (false, false) => Effect::Unsent,
                (false, true) => Effect::Possible,
            };
            Box::new(sentences::of(&error, effect))
        })?;
        let ended = match (&route.job, asked) {
            (Some(job), Some(asked)) => {
                let following = Following { asking, job };
                Box::pin(following.to_the_end(asked, reply, hand_over, record, &mut telling)).await?
            }
            _ => Ended::Reply(reply),
        };
        let ended = match (ended, &route.job) {
            (Ended::HandedOver { stand, place, wait }, Some(job)) => {
                let (message, life) = (stand.in_words(), job.task.life);
                let (arguments, answers) = (arguments.as_map().clone(), arguments.answers().clone());
                return Ok(Answered::Job(Box::new(OpenJob {
                    arguments,
                    answers,
                    place,
                    message,
                    wait,
                    life,
                })));
            }
            (ended, _) => ended,
        };
        if let (Some(head), Ended::Reply(last) | Ended::Failed(last, _)) = (head, &ended) {
            *head = Some(ReplyHead::of(last));
        }
        let beside = Beside { asker, record, telling: &mut telling };
        let result = self.translated(route, arguments, due, ended, beside).await;
        kept_or_forgotten(result, age, entry).map(Answered::Result)
    }

    /// The upstream's request for these arguments.
    async fn build(
        &self,
        route: &Arc<BoundRoute>,
        arguments: &Arguments,
        call: &Call<'_>,
        due: Due,
    ) -> Result<UpstreamRequest, Box<ToolResult>> {
        let build = |route: &Route, arguments: &Arguments, headers: &HeaderMap, stop: &Stop| {
            route.request.build(arguments, headers, Some(stop))
        };
        let built = self.workers.build(route, arguments, call.headers, due.at, build).await;
        built.map_err(|why| Box::new(sentences::unmade(why)))?.map_err(|error| {
            if let Some(detail) = error.detail() {
                let (tool, request_id) = (&route.definition.name, &call.request_id);
                debug!(%tool, %request_id, detail, "a template of the request can't be filled in");
            }
            Box::new(ToolResult::error(Fault::Arguments, error.to_string()))
        })
    }

    /// What the rules make of the last reply.
    pub(super) async fn translated(
        &self,
        route: &Arc<BoundRoute>,
        arguments: Arguments,
        due: Due,
        ended: Ended,
        beside: Beside<'_, '_, '_>,
    ) -> Result<ToolResult, Box<ToolResult>> {
        let (reply, failed) = match ended {
            Ended::Reply(reply) => (reply, None),
            Ended::Failed(reply, stand) => (reply, Some(stand)),
            Ended::Cancelled => return Err(Box::new(handed::cancelled())),
            Ended::HandedOver { .. } => return Err(Box::new(sentences::job_not_done(due.after, false))),
        };
        let Beside { asker, record, telling } = beside;
        tell_lines(route, &arguments, Some(reply.status), telling);
        // Nobody is asked about work that failed.
        let asker = (failed.is_none() && route.asking.sampled.is_some()).then_some(asker);
        let translation = match asker {
            None => self.translate(route, arguments, reply, due, record).await?,
            Some(asker) => {
                Box::pin(self.translate_asking(route, arguments, reply, due, (asker, record))).await?
            }
        };
        record.notes(&translation.notes, translation.result.outcome);
        record.decided(translation.rule);
        telling.line(LogLevel::Debug, || match translation.rule {
            Some(rule) => format!("rule {} of the route decides", rule + 1),
            None => "no rule of the route decides: the default rules do".to_owned(),
        });
        match (failed, translation.result.outcome) {
            // The rules may know better words for the failure.
            (Some(stand), Outcome::Success | Outcome::Error(Fault::Unanswered)) => {
                Err(Box::new(sentences::job_failed(stand.message.as_deref())))
            }
            (Some(_), Outcome::Error(_)) | (None, _) => Ok(translation.result),
        }
    }

    /// A translation of which a rule may ask the client's model: then there are two.
    async fn translate_asking(
        &self,
        route: &Arc<BoundRoute>,
        arguments: Arguments,
        reply: Reply,
        due: Due,
        (asker, record): (&mut dyn Asker, &mut Record<'_>),
    ) -> Result<Translation, Box<ToolResult>> {
        let mut translation = self.translate(route, arguments.clone(), reply.clone(), due, record).await?;
        let Some(sample) = translation.asks.take() else { return Ok(translation) };
        let answers = questions::ask_of_rule(*sample, &arguments, asker).await?;
        let (arguments, due) = (arguments.with_answers(answers), Due::after(route.deadline));
        self.translate(route, arguments, reply, due, record).await
    }

    pub(super) async fn translate(
        &self,
        route: &Arc<BoundRoute>,
        arguments: Arguments,
        reply: Reply,
        due: Due,
        record: &mut Record<'_>,
    ) -> Result<Translation, Box<ToolResult>> {
        let translated = self.workers.translate(route, arguments, reply, due.at).await;
        translated.map_err(|why| match why {
            WorkError::Panicked => {
                record.panicked();
                Box::new(ToolResult::error(Fault::Unreadable, sentences::UNREADABLE))
            }
            WorkError::DeadlineExceeded => Box::new(sentences::too_late(due.after)),
        })
    }
}

/// Of a reply that was kept, says how old it is; one that tells of an error after all is not kept any longer.
fn kept_or_forgotten(
    result: Result<ToolResult, Box<ToolResult>>,
    age: Option<Duration>,
    entry: Option<CacheEntry>,
) -> Result<ToolResult, Box<ToolResult>> {
    match result {
        Ok(result) if !result.is_error() => Ok(match age {
            Some(age) => result.with_meta(AGE_META, age.as_secs()),
            None => result,
        }),
        failed => {
            if let Some(entry) = entry {
                entry.forget();
            }
            failed
        }
    }
}

/// A result as clients get it, and the end of its call's record.
pub(super) fn finished(
    route: &Route,
    result: Result<ToolResult, Box<ToolResult>>,
    request_id: &RequestId,
    record: Record<'_>,
) -> ToolResult {
    // Whatever such an error quotes, a caller's arguments too, it keeps what a translated one does.
    let mut result = result.unwrap_or_else(|ended_early| route.translator.for_clients(*ended_early));
    if result.is_error() {
        result = result.with_errors_as(route.error_format).with_meta(REQUEST_ID_META, request_id.as_str());
    }
    record.end(result.outcome);
    result
}

/// Who is asked, and who is told, while a call goes on.
pub(super) struct Beside<'c, 'r, 't> {
    pub(super) asker: &'c mut dyn Asker,
    pub(super) record: &'c mut Record<'r>,
    pub(super) telling: &'c mut Telling<'t>,
}

/// What a call came to, where its caller may ask about a job itself.
pub(super) enum Answered {
    Result(ToolResult),
    Job(Box<OpenJob>),
}

/// Tells the lines that the route has for the time before the reply, or for the reply.
fn tell_lines(route: &Route, arguments: &Arguments, status: Option<StatusCode>, telling: &mut Telling<'_>) {
    let due = route.log.iter().filter(|line| line.is_about_the_reply() == status.is_some());
    let stop = Stop::after(Stop::TEXT_STEPS);
    for line in due {
        let text = || {
            let names = line_names(arguments, status.map(|status| status.as_u16()));
            // A line that can't be written is told all the same: somebody wrote it, and will wonder.
            let text = line.text.render_until(&names, &stop);
            let text = text.unwrap_or_else(|_| "(the line can't be written)".to_owned());
            route.translator.redaction.capped(&text, LINE_LIMIT_BYTES)
        };
        telling.line(line.level, text);
    }
}

/// Whoever asks, and on whose behalf: a call that its caller may not make is not made.
pub(super) fn allowed(route: &Route, call: &Call<'_>) -> Result<(), Box<ToolResult>> {
    match call.caller.may(&route.scopes) {
        true => Ok(()),
        false => Err(Box::new(sentences::forbidden(&route.scopes))),
    }
}

/// An error about arguments, in the form that the route gives it.
fn argument_error(route: &Route, sentence: String) -> ToolResult {
    let Some(form) = &route.argument_error else { return ToolResult::error(Fault::Arguments, sentence) };
    let body = serde_json::json!({ "message": sentence }).to_string();
    let mut headers = HeaderMap::new();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    let reply = Reply::new(StatusCode::BAD_REQUEST, headers, body.into());
    let none = Value::Object(Map::new());
    let facts = Facts::new(&route.definition.name, &none);
    let mut result = translate(form, facts, &reply, &mut Trace::off()).result;
    // No upstream has said anything. A status of the rule's own stays.
    result.meta.remove(STATUS_META_KEY);
    if let Outcome::Error(Fault::Upstream { .. }) = result.outcome {
        result.outcome = Outcome::Error(Fault::Arguments);
    }
    result
}
