//! From a call to a tool result.
//!
//! [`Snapshot::call`] reads like a table of contents. In reading order: [`Call`] is what a face asks, free of
//! any wire; [`Gateway`] holds the [`Snapshot`] that is in force; an [`Asker`] takes questions to the client;
//! `patience` is how long its caller waits, `sentences` says of a failure what a model can do about it; `job` follows work that outlasts the first reply; [`Audience`] is who is told of it
//! meanwhile, [`OpenJob`] one that its caller asks about;
//! `record` writes the one log line of a call; [`Catalog`] is what can be called, a [`View`] what one caller sees of all lists, [`Page`] some of one, and
//! [`Changes`] tells that it is another one now.

mod asking;
mod audience;
mod catalog;
mod changes;
mod completing;
mod handed;
mod job;
mod pages;
mod patience;
mod prompting;
mod questions;
mod reading;
mod record;
mod sentences;
mod spans;
mod translating;
mod views;
mod watch;

use std::{
    collections::{BTreeMap, HashMap},
    sync::{Arc, OnceLock},
    time::Duration,
};

use arc_swap::ArcSwap;
use http::{HeaderMap, StatusCode};
use serde_json::{Map, Value};

use crate::{
    observe::{Meters, RequestId, RouteMeters, Span, Tracing},
    policy::{Guarded, Guards, Passthrough, PolicyCounts},
    prompt::PromptTable,
    reply::Reply,
    route::{LogLevel, Route, RouteTable, Scopes, TraceContext, UpstreamName, UpstreamRequest},
    rule::{RETRY_AFTER_META_KEY, Translation, line_names},
    shared::SharedStore,
    tool::{Arguments, Fault, Outcome, ToolName, ToolResult},
    upstream::{Caller, Due, Kept},
};

use asking::Asking;
pub use audience::{Audience, Progress};
use audience::{LINE_LIMIT_BYTES, Telling};
pub use catalog::{Catalog, CatalogEntry};
pub use changes::{Change, Changes, Heard, Listener};
pub use completing::Typed;
pub use handed::{Called, JobState, OpenJob};
use job::{Ended, Following};
pub use pages::{BadCursor, Keyed, Listed, Listing, Page};
pub use prompting::{CallOf, PromptError};
use questions::Nobody;
pub use questions::{Answering, Asker, ask_first};
use reading::ReplyHead;
pub use reading::{CacheScope, Freshness, ReadError, ReadResource};
use record::Record;
use translating::{Translating, Untranslated};
use views::Views;
pub use views::{Seen, View};
use watch::Watches;
pub use watch::{WATCHED_LIMIT, WatchError, Watching};

/// The key in `_meta` of a tool error under which the request id stands.
pub const REQUEST_ID_META: &str = "glossator/requestId";

/// The key in `_meta` of a tool error under which stands after how many seconds to try again, where that is known.
pub const RETRY_AFTER_META: &str = RETRY_AFTER_META_KEY;

/// The key in `_meta` of a result under which stands how many seconds ago the upstream gave it, where it was kept since.
pub const AGE_META: &str = "glossator/age";

/// One tool invocation, free of wire details.
#[derive(Debug)]
pub struct Call<'a> {
    /// The arguments, not yet checked.
    pub arguments: Map<String, Value>,
    /// The caller's headers; only those that a route allows by name go on.
    pub headers: &'a HeaderMap,
    /// What this call is named in the log and in errors.
    pub request_id: RequestId,
    /// By which way the call came in.
    pub face: Face,
    /// Who calls, as far as limits tell callers apart.
    pub caller: Caller,
    /// Who is told how it goes on; nobody where there is none.
    pub audience: Option<&'a dyn Audience>,
    /// The trace that it belongs to, where that is not for its headers to say.
    pub trace: Option<TraceContext>,
    /// The revision of MCP that its client speaks; empty for other ways in.
    pub protocol: &'static str,
    /// What is told of the request that it came with, where traces are on.
    pub span: Span,
    /// The message of MCP that it came in, for whoever reads traces.
    pub message: Option<Message<'a>>,
}

/// A message of MCP, as a trace tells of it.
#[derive(Debug, Clone, Copy)]
pub struct Message<'a> {
    /// Such as `tools/call`.
    pub method: &'a str,
    /// As it came.
    pub id: &'a str,
    /// The session that it is of, where there is one. What knows it is in that session, so it is not told as it is.
    pub session: Option<&'a str>,
}

impl<'a> Call<'a> {
    /// A call of which nobody hears before its result, and whose trace its headers tell.
    pub fn new(
        arguments: Map<String, Value>,
        headers: &'a HeaderMap,
        request_id: RequestId,
        face: Face,
        caller: Caller,
    ) -> Self {
        let (span, message) = (Span::default(), None);
        Self {
            arguments,
            headers,
            request_id,
            face,
            caller,
            audience: None,
            trace: None,
            protocol: "",
            span,
            message,
        }
    }
}

/// A way in, as the log names it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Face {
    /// Plain HTTP.
    Rest,
    /// The Model Context Protocol over HTTP.
    Mcp,
    /// The same over the pipes of this process.
    Stdio,
    /// REST or MCP, through a web server that starts the program.
    Cgi,
}

impl Face {
    /// Such as `rest`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Rest => "rest",
            Self::Mcp => "mcp",
            Self::Stdio => "stdio",
            Self::Cgi => "cgi",
        }
    }
}

/// Everything that calls need, compiled and whole. A call ends with the snapshot it began with.
#[derive(Debug)]
pub struct Snapshot {
    /// Which tool is bound to what.
    pub table: RouteTable,
    /// Whom to ask; every route's upstream is here.
    pub upstreams: HashMap<UpstreamName, Guarded>,
    /// The way that calls of a route take to its upstream, where it is another one.
    pub ways: HashMap<ToolName, Guarded>,
    /// How often the guards on all these ways did something.
    pub counts: PolicyCounts,
    /// What stands before each upstream, for who asks how it is.
    pub guards: BTreeMap<UpstreamName, Guards>,
    /// Who gets every path that is not ours, unread.
    pub passthrough: Option<Passthrough>,
    /// What a caller has to be allowed for that.
    pub passthrough_scopes: Scopes,
    /// What prompts there are.
    pub prompts: PromptTable,
    /// All of it, as clients read it.
    pub all: View,
    views: Views,
    completes: OnceLock<bool>,
    translating: Translating,
    measured: HashMap<ToolName, Arc<RouteMeters>>,
    tracing: Tracing,
    meters: Meters,
}

/// The way in for every face. Clones share one snapshot, and one place where changes are told.
#[derive(Debug, Clone)]
pub struct Gateway {
    snapshot: Arc<ArcSwap<Snapshot>>,
    changes: Changes,
    watches: Watches,
    shared: Option<SharedStore>,
}

impl Gateway {
    /// Begins with a snapshot.
    pub fn new(snapshot: Snapshot) -> Self {
        Self {
            snapshot: Arc::new(ArcSwap::from_pointee(snapshot)),
            changes: Changes::new(),
            watches: Watches::default(),
            shared: None,
        }
    }

    /// The same of one among several replicas, where they share something.
    #[must_use]
    pub fn sharing(self, shared: Option<SharedStore>) -> Self {
        Self { shared, ..self }
    }

    /// What it shares with other replicas.
    pub fn shared(&self) -> Option<&SharedStore> {
        self.shared.as_ref()
    }

    /// What is in force now.
    pub fn snapshot(&self) -> Arc<Snapshot> {
        self.snapshot.load_full()
    }

    /// Where it is told that something changed.
    pub fn changes(&self) -> &Changes {
        &self.changes
    }

    /// Puts another snapshot in force, for calls that begin from now on, and tells what clients see of it.
    pub fn replace(&self, snapshot: Snapshot) {
        let now = Arc::new(snapshot);
        let before = self.snapshot.swap(Arc::clone(&now));
        for change in now.differences(&before) {
            self.changes.tell(change);
        }
    }
}

impl Snapshot {
    /// A snapshot over a table; the catalog is made of it.
    pub fn new(
        table: RouteTable,
        upstreams: HashMap<UpstreamName, Guarded>,
        passthrough: Option<Passthrough>,
    ) -> Self {
        let prompts = PromptTable::default();
        Self {
            all: View::of(&table, &prompts, |_| true),
            views: Views::of(&table, &prompts),
            table,
            upstreams,
            ways: HashMap::new(),
            counts: PolicyCounts::default(),
            guards: BTreeMap::new(),
            passthrough,
            passthrough_scopes: Scopes::default(),
            prompts,
            completes: OnceLock::new(),
            translating: Translating::new(),
            measured: HashMap::new(),
            tracing: Tracing::off(),
            meters: Meters::default(),
        }
        .counted_by(Meters::default())
    }

    /// The same with routes whose calls take a way of their own.
    #[must_use]
    pub fn with_ways(self, ways: HashMap<ToolName, Guarded>, counts: PolicyCounts) -> Self {
        Self { ways, counts, ..self }
    }

    /// The same with what stands before each upstream.
    #[must_use]
    pub fn guarded_by(self, guards: BTreeMap<UpstreamName, Guards>) -> Self {
        Self { guards, ..self }
    }

    /// The same with what a caller has to be allowed for what is handed through.
    #[must_use]
    pub fn with_passthrough_scopes(self, passthrough_scopes: Scopes) -> Self {
        Self { passthrough_scopes, ..self }
    }

    /// The same with prompts.
    #[must_use]
    pub fn with_prompts(self, prompts: PromptTable) -> Self {
        let all = View::of(&self.table, &prompts, |_| true);
        let views = Views::of(&self.table, &prompts);
        Self { prompts, all, views, completes: OnceLock::new(), ..self }
    }

    /// The same, counted by these.
    #[must_use]
    pub fn counted_by(self, meters: Meters) -> Self {
        let routes = self.table.in_order().iter();
        let measured =
            routes.map(|route| (route.definition.name.clone(), meters_of(&meters, route))).collect();
        Self { meters, measured, ..self }
    }

    /// The same, and told of in traces by this.
    #[must_use]
    pub fn traced_by(self, tracing: Tracing) -> Self {
        Self { tracing, ..self }
    }

    /// What counts the calls of a route.
    fn meters_of(&self, route: &Route) -> Arc<RouteMeters> {
        let known = self.measured.get(&route.definition.name);
        known.map_or_else(|| meters_of(&self.meters, route), Arc::clone)
    }

    /// What a client that has read the lists of another one would read again.
    fn differences(&self, before: &Self) -> Vec<Change> {
        let mut differences = Vec::new();
        let (now, before) = (&self.all, &before.all);
        if now.catalog != before.catalog {
            differences.push(Change::Tools);
        }
        if now.prompts != before.prompts {
            differences.push(Change::Prompts);
        }
        if now.resources != before.resources || now.resource_templates != before.resource_templates {
            differences.push(Change::Resources);
        }
        differences
    }

    /// Whether there is anything to read.
    pub fn has_resources(&self) -> bool {
        !self.all.resources.is_empty() || !self.all.resource_templates.is_empty()
    }

    /// Whether somebody can be told when one of them changes.
    pub fn watches_resources(&self) -> bool {
        let mut resources = self.table.in_order().iter().filter_map(|route| route.resource.as_ref());
        resources.any(|resource| resource.watch.is_some())
    }

    /// Calls the tool of a route of this snapshot. Every failure is a tool result. Dropping the future cancels the
    /// upstream request.
    pub async fn call(&self, route: &Arc<Route>, call: Call<'_>) -> ToolResult {
        self.call_seeing(route, call, &mut Nobody, None).await
    }

    /// The same for a client that can be asked. What it is asked, and what it answers, is no part of the deadline.
    pub async fn call_asking(&self, route: &Arc<Route>, call: Call<'_>, asker: &mut dyn Asker) -> ToolResult {
        self.call_seeing(route, call, asker, None).await
    }

    /// The same, and the head of the reply, where there was one and somebody wants it.
    async fn call_seeing(
        &self,
        route: &Arc<Route>,
        call: Call<'_>,
        asker: &mut dyn Asker,
        head: Option<&mut Option<ReplyHead>>,
    ) -> ToolResult {
        let request_id = call.request_id.clone();
        let mut record = Record::begin(self, route, &call, &request_id);
        let result = match self.answer(route, call, asker, &mut record, None, head).await {
            Ok(Answered::Result(result)) => Ok(result),
            // A job is handed over only to those who ask for it.
            Ok(Answered::Job(_)) => Err(Box::new(sentences::job_not_done(route.deadline, false))),
            Err(error) => Err(error),
        };
        finished(route, result, &request_id, record)
    }

    /// A result either way; an `Err` is one that ended the call early, boxed because it is the seldom one.
    async fn answer(
        &self,
        route: &Arc<Route>,
        call: Call<'_>,
        asker: &mut dyn Asker,
        record: &mut Record<'_>,
        hand_over: Option<Duration>,
        head: Option<&mut Option<ReplyHead>>,
    ) -> Result<Answered, Box<ToolResult>> {
        allowed(route, &call)?;
        let mut arguments = check(route, call.arguments)?;
        if !route.asking.is_empty() {
            arguments = Box::pin(ask_first(&route.asking, arguments, asker)).await?;
            // What was asked for is held to the schema as well.
            arguments = checked(route, arguments)?;
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
        let trace = call.trace.or_else(|| TraceContext::of_headers(call.headers));
        let request = build(route, &arguments, call.headers)?;
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
        let kept = self.ways.contains_key(&route.definition.name).then(Kept::default);
        let reply = asking.call(request, repeatable, kept.clone(), (record, &mut telling)).await;
        let reply = reply.map_err(|error| Box::new(sentences::of(&error, is_safe)))?;
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
        kept_or_forgotten(result, kept.as_ref()).map(Answered::Result)
    }

    /// What the rules make of the last reply.
    async fn translated(
        &self,
        route: &Arc<Route>,
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
        route: &Arc<Route>,
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

    async fn translate(
        &self,
        route: &Arc<Route>,
        arguments: Arguments,
        reply: Reply,
        due: Due,
        record: &mut Record<'_>,
    ) -> Result<Translation, Box<ToolResult>> {
        let translated = self.translating.translate(route, arguments, reply, due.at).await;
        translated.map_err(|why| match why {
            Untranslated::Panicked => {
                record.panicked();
                Box::new(ToolResult::error(Fault::Unreadable, sentences::UNREADABLE))
            }
            Untranslated::TooLate => Box::new(sentences::too_late(due.after)),
        })
    }
}

/// Of a reply that was kept, says how old it is; one that tells of an error after all is not kept any longer.
fn kept_or_forgotten(
    result: Result<ToolResult, Box<ToolResult>>,
    kept: Option<&Kept>,
) -> Result<ToolResult, Box<ToolResult>> {
    let Some(kept) = kept else { return result };
    match result {
        Ok(result) if !result.is_error() => Ok(match kept.age() {
            Some(age) => result.with_meta(AGE_META, age.as_secs()),
            None => result,
        }),
        failed => {
            kept.forget();
            failed
        }
    }
}

/// A result as clients get it, and the end of its call's record.
fn finished(
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
struct Beside<'c, 'r, 't> {
    asker: &'c mut dyn Asker,
    record: &'c mut Record<'r>,
    telling: &'c mut Telling<'t>,
}

/// What a call came to, where its caller may ask about a job itself.
enum Answered {
    Result(ToolResult),
    Job(Box<OpenJob>),
}

/// Tells the lines that the route has for the time before the reply, or for the reply.
fn tell_lines(route: &Route, arguments: &Arguments, status: Option<StatusCode>, telling: &mut Telling<'_>) {
    let due = route.log.iter().filter(|line| line.is_about_the_reply() == status.is_some());
    for line in due {
        let text = || {
            let names = line_names(arguments, status.map(|status| status.as_u16()));
            // A line that can't be written is told all the same: somebody wrote it, and will wonder.
            let text = line.text.render(&names).unwrap_or_else(|_| "(the line can't be written)".to_owned());
            route.translator.redaction.capped(&text, LINE_LIMIT_BYTES)
        };
        telling.line(line.level, text);
    }
}

fn meters_of(meters: &Meters, route: &Route) -> Arc<RouteMeters> {
    meters.route(route.definition.name.shared(), route.upstream.shared(), route.translator.rules.len())
}

/// Whoever asks, and on whose behalf: a call that its caller may not make is not made.
fn allowed(route: &Route, call: &Call<'_>) -> Result<(), Box<ToolResult>> {
    match call.caller.may(&route.scopes) {
        true => Ok(()),
        false => Err(Box::new(sentences::forbidden(&route.scopes))),
    }
}

fn check(route: &Route, arguments: Map<String, Value>) -> Result<Arguments, Box<ToolResult>> {
    checked(route, arguments.into())
}

fn checked(route: &Route, arguments: Arguments) -> Result<Arguments, Box<ToolResult>> {
    let checked = route.input.check(arguments);
    checked.map_err(|sentence| Box::new(ToolResult::error(Fault::Arguments, sentence)))
}

fn build(
    route: &Route,
    arguments: &Arguments,
    headers: &HeaderMap,
) -> Result<UpstreamRequest, Box<ToolResult>> {
    let request = route.request.build(arguments, headers);
    request.map_err(|error| Box::new(ToolResult::error(Fault::Arguments, error.to_string())))
}
