//! `async_operation`: how work is followed that is not done with the first reply.

use http::{Method, Uri, uri::PathAndQuery};

use super::{
    code::Code,
    extract,
    keys::{JOB, ROUTE},
    node::{Entry, Kind, Node},
    renamed,
    report::Report,
    request::{self, METHODS, Upstreams},
    response::{self, whole},
    schemas::UsedArguments,
    section::Section,
    source::Span,
    upstreams::UpstreamFile,
    when,
};
use crate::{
    route::{
        AsyncOperationRule, CancelRule, HttpTemplate, OperationLocationRule, RequestTemplate, TaskRule,
        TaskSupport, UpstreamName,
    },
    translate::{Jq, Matcher},
};

/// What a job is read with.
pub(super) struct Context<'a> {
    /// Every name that is written.
    pub(super) names: &'a [(UpstreamName, Span)],
    pub(super) upstreams: &'a [UpstreamFile],
    /// Whom the route asks.
    pub(super) upstream: Option<&'a UpstreamName>,
}

/// Reads `async_operation`. `None` when something is wrong with it; that has been reported then.
pub(super) fn read(
    report: &Report<'_>,
    entry: &Entry,
    context: &Context<'_>,
    asked: &mut UsedArguments,
    used: &mut UsedArguments,
) -> Option<AsyncOperationRule> {
    let file = context.upstreams.iter().find(|file| Some(file.settings.name()) == context.upstream);
    if let Some(file) = file.filter(|file| file.settings.http().is_none()) {
        let name = file.settings.name();
        let message =
            format!("`async_operation` is followed by requests over HTTP, and `{name}` has no `url`");
        report.error(
            Code::WrongUpstreamKind.at(entry.key.span),
            message,
            "leave it out; `timeout` says how long a call may take",
        );
        return None;
    }
    let base = base(context);
    if renamed::report_word(report, &entry.value, ROUTE.id, "async_operation") {
        return None;
    }
    if entry.value.as_text() == Some("follow_location") {
        return Some(by_location(base?));
    }
    if let Kind::Text(_) = &entry.value.kind {
        let message =
            format!("`async_operation` is `follow_location` or a map, found {}", entry.value.found());
        report.error(
            Code::WrongType.at(entry.value.span),
            message,
            "`follow_location` asks at the `Location` of a 202 until it is another status",
        );
        return None;
    }
    let section = Section::open(report, entry.key.span, &entry.value, &JOB)?;
    let extract = section.entry("extract").map(|entry| extract::read(report, entry));
    let filter = |name: &'static str, what: &str, used: &mut UsedArguments| {
        section.get(name).map(|node| response::jq(report, node, what, &[], used))
    };
    let id = filter("id", "`id`", used);
    let named = section.get("id").is_some() || section.get("status").is_some();
    if let Some(argument) =
        asked.arguments.iter().find(|argument| named && argument.name == AsyncOperationRule::ARGUMENT)
    {
        let help = "give the argument another name";
        report.error(
            Code::ReservedName.at(argument.span),
            "`job` is the name of the job in its requests, and can't be an argument too",
            help,
        );
        return None;
    }
    let (progress, total) = (filter("progress", "`progress`", used), filter("total", "`total`", used));
    let message = filter("message", "`message`", used);
    let done = section.entry("done").map(|entry| condition(report, entry, used));
    let failed = section.entry("failed").map(|entry| condition(report, entry, used));
    let cancelled = section.entry("cancelled").map(|entry| condition(report, entry, used));
    let task = task(&section);
    let mut reader = Requests { report, context, named, asked };
    let status = section.entry("status").map(|entry| reader.read(entry));
    let result = section.entry("result").map(|entry| reader.read(entry));
    let cancel = section.entry("cancel").map(|entry| match method(&entry.value) {
        Some(method) => Some(CancelRule::Method(method)),
        None => reader.read(entry).map(CancelRule::Request),
    });
    let poll = section.duration("poll_interval");
    match (section.entry("id"), section.entry("status")) {
        (Some(entry), None) => {
            let help = "write `status: GET UPSTREAM/jobs/{job}`, or leave `id` out to ask at the `Location`";
            section.missing_at(entry.key.span, "`id` names a job, and no `status` asks for it", help);
            return None;
        }
        (None, Some(entry)) => {
            let help = "write `id: .id`, a jq filter that finds the job's name in the first reply";
            section.missing_at(entry.key.span, "`status` asks for a job, and no `id` names it", help);
            return None;
        }
        (None, None) | (Some(_), Some(_)) => {}
    }
    let place = match (whole(id)?, whole(status)?) {
        (Some(id), Some(status)) => OperationLocationRule::Named { id, status: Box::new(status) },
        _ => OperationLocationRule::Location,
    };
    Some(AsyncOperationRule {
        place,
        extract: whole(extract)?.map(|compiled| compiled.extract),
        done: whole(done)?,
        failed: whole(failed)?,
        cancelled: whole(cancelled)?,
        task,
        result: whole(result)?,
        cancel: whole(cancel)?,
        poll: poll.unwrap_or(AsyncOperationRule::POLL_DEFAULT),
        progress: whole(progress)?,
        total: whole(total)?,
        message: whole(message)?,
        base: base?,
    })
}

fn by_location(base: Uri) -> AsyncOperationRule {
    let nothing: Option<Jq> = None;
    let (extract, result, cancel) = (None, None, None);
    let (done, failed, cancelled, progress, total) = (None, None, None, None, None);
    let task = TaskRule::default();
    let (place, poll) = (OperationLocationRule::Location, AsyncOperationRule::POLL_DEFAULT);
    AsyncOperationRule {
        place,
        extract,
        done,
        failed,
        cancelled,
        task,
        result,
        cancel,
        poll,
        progress,
        total,
        message: nothing,
        base,
    }
}

/// `task` and what belongs to it.
fn task(section: &Section<'_, '_>) -> TaskRule {
    let default = TaskRule::default();
    let offer = match section.word("task") {
        Some("forbidden") => TaskSupport::Forbidden,
        Some("required") => TaskSupport::Required,
        Some(_) | None => default.offer,
    };
    let (after, life) = (section.duration("task_after"), section.duration("task_ttl"));
    let asks = section.flag("task_requests_input");
    for name in ["task_after", "task_ttl", "task_requests_input"] {
        if let Some(entry) = section.entry(name).filter(|_| offer == TaskSupport::Forbidden) {
            section.report.warning(
                Code::ConflictingKeys.at(entry.key.span),
                format!("`{name}` has no effect beside `task: forbidden`"),
                "leave it out",
            );
        }
    }
    TaskRule {
        offer,
        after: after.unwrap_or(default.after),
        life: life.unwrap_or(default.life),
        asks: asks.unwrap_or(default.asks),
    }
}

/// What a `Location` of the route's upstream is resolved against.
fn base(context: &Context<'_>) -> Option<Uri> {
    let upstream = context.upstreams.iter().find(|file| Some(file.settings.name()) == context.upstream)?;
    upstream.settings.http()?.address.join(&PathAndQuery::from_static("/")).ok()
}

/// jq over the value, or a map of conditions.
fn condition(report: &Report<'_>, entry: &Entry, used: &mut UsedArguments) -> Option<Matcher> {
    if let Kind::Text(_) = &entry.value.kind {
        let filter = response::jq(report, &entry.value, &format!("`{}`", entry.key.text), &[], used)?;
        return Some(Matcher { value: Some(filter), ..Matcher::default() });
    }
    let matcher = when::read(report, entry, used)?;
    if matcher.is_empty() {
        let message = format!("`{}` says nothing, so it would always hold", entry.key.text);
        report.error(
            Code::EmptyValue.at(entry.key.span),
            message,
            "write a jq condition, such as `.state == \"done\"`",
        );
        return None;
    }
    Some(matcher)
}

/// A method alone.
fn method(node: &Node) -> Option<Method> {
    let text = node.as_text()?;
    METHODS.contains(&text).then(|| text.parse().ok())?
}

/// Reads the requests about a job.
struct Requests<'a, 'r, 'f> {
    report: &'r Report<'f>,
    context: &'a Context<'a>,
    named: bool,
    asked: &'a mut UsedArguments,
}

impl Requests<'_, '_, '_> {
    fn read(&mut self, entry: &Entry) -> Option<HttpTemplate> {
        let mut asked = UsedArguments::default();
        let upstreams = Upstreams { names: self.context.names, files: self.context.upstreams };
        let compiled = request::read(self.report, upstreams, &entry.value, entry.key.span, &mut asked)?;
        if self.context.upstream.is_some_and(|upstream| *upstream != compiled.upstream) {
            let message = format!("`{}` asks another upstream than the route does", entry.key.text);
            let help = "a job is followed at the server that began it";
            self.report.error(Code::AsyncOperationUpstream.at(entry.value.span), message, help);
            return None;
        }
        for argument in &asked.arguments {
            if argument.name != AsyncOperationRule::ARGUMENT {
                self.asked.add_for(argument, None);
            } else if !self.named {
                let help = "write `id: .id`, a jq filter that finds the job's name in the first reply";
                self.report.error(
                    Code::UndeclaredArgument.at(argument.span),
                    "the job has no name to put here",
                    help,
                );
                return None;
            }
        }
        self.asked.answers.extend(asked.answers);
        match compiled.template {
            RequestTemplate::Http(template) => Some(template),
            // The route asks another upstream, then, which has been told.
            RequestTemplate::Command(_) | RequestTemplate::Tool(_) => None,
        }
    }
}
