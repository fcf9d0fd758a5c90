//! `async_operation`: polling of a long-running operation, which continues after its first response (202).

use std::time::Duration;

use super::renamed;
use super::request::{self, USUAL_METHODS, Upstreams};
use super::schemas::{ArgumentUse, UsedArguments};
use super::section::{ReadElsewhere, read_in_scope};
use super::upstreams::ParsedUpstream;
use crate::route::{AsyncOperationRule, CancelRule, OperationLocationRule, RequestTemplate, TaskRule};
use crate::settings::{Checked, Code, Cursor, Entry, Report, Section, Setting, ValueKind};
use crate::translate::extract::Extract;
use crate::translate::{Jq, Matcher, expressions};
use http::uri::PathAndQuery;

/// Kinds of values that `async_operation` accepts.
pub(super) const KIND: ValueKind =
    ValueKind::Either(&[ValueKind::Enum(&["follow_location"]), AsyncOperationSettings::KIND]);

/// Kinds of values for a condition: jq on the extracted value, or a map as in `when`.
const CONDITION: ValueKind = ValueKind::Either(&[ValueKind::Text, Matcher::KIND]);

/// The section `async_operation`.
#[derive(Section)]
#[section(id = "async_operation", default)]
struct AsyncOperationSettings {
    /// Extractor for the responses about the operation. Default: they are JSON.
    #[key(public)]
    extract: Option<Extract>,
    /// jq: the id of the operation in the first response. Without it, the `Location` of the first response is
    /// polled.
    #[key(
        requires = "status",
        help = "write `status: GET UPSTREAM/jobs/{job}`, or remove `id` to poll the `Location`"
    )]
    id: Option<Jq>,
    /// Polling request, with `{job}` for the id: `GET office/jobs/{job}`. Requires `id`.
    #[key(kind = request::KIND, requires = "id",
        help = "write `id: .id`, a jq filter for the operation's id in the first response")]
    status: ReadElsewhere,
    /// Condition for an operation that is done: jq, or a map as in `when`.
    #[key(kind = CONDITION, with = read_condition, shown = "when the status is not 202")]
    done: Option<Matcher>,
    /// Condition for an operation that has failed: jq, or a map as in `when`. Rules can report the reason; a
    /// success of theirs is still a tool error.
    #[key(kind = CONDITION, with = read_condition)]
    failed: Option<Matcher>,
    /// Condition for an operation that was cancelled: jq, or a map as in `when`.
    #[key(kind = CONDITION, with = read_condition)]
    cancelled: Option<Matcher>,
    /// Request for the result. Default: the response in which the operation is done.
    #[key(kind = request::KIND)]
    result: ReadElsewhere,
    /// Request that cancels the operation when no client waits; a method alone (`DELETE`) uses the polled
    /// location.
    #[key(kind = request::KIND)]
    cancel: ReadElsewhere,
    /// Polling interval, if the response has no `Retry-After`.
    #[key(range = 20..=3_600_000, default = AsyncOperationRule::POLL_DEFAULT)]
    poll_interval: Duration,
    /// jq: progress, as a number.
    #[key(shown = "the number of polls")]
    progress: Option<Jq>,
    /// jq: the value of `progress` at the end.
    total: Option<Jq>,
    /// jq: status message for users.
    message: Option<Jq>,
    #[key(part)]
    task: TaskRule,
}

/// Parses a condition: jq on the extracted value, or a map as in `when`.
fn read_condition(value: &Cursor<'_>) -> Checked<Option<Matcher>> {
    if value.node.as_text().is_some() {
        return Ok(Some(Matcher { value: expressions::read_condition(value)?, ..Matcher::default() }));
    }
    let matcher = Matcher::read(value)?;
    if matcher.is_empty() {
        let message = format!("{} has no condition, so it would always match", value.name);
        let help = "write a jq condition, such as `.state == \"done\"`";
        return value.reject_coded(Code::EmptyValue.at_span(value.key_span), message, help);
    }
    Ok(Some(matcher))
}

/// Parses `async_operation` of a route. `upstream` is the upstream of the route's request, or `None` if the
/// request or the upstream has errors. Returns `None` after reporting the problems.
pub(super) fn read(
    report: &Report<'_>,
    entry: &Entry,
    upstreams: Upstreams<'_>,
    upstream: Option<&ParsedUpstream>,
    request_arguments: &mut UsedArguments,
    operation_arguments: &mut UsedArguments,
) -> Option<AsyncOperationRule> {
    let node = &entry.value;
    let name = upstream.map(|parsed| parsed.settings.name());
    if let (Some(name), None) = (name, upstream.and_then(|parsed| parsed.settings.http())) {
        let message = format!("`async_operation` requires an HTTP upstream, and `{name}` has no `url`");
        let help = "remove it; a call may take up to `timeout`";
        return report.reject(Code::WrongUpstreamKind.at_span(entry.key.span), message, help);
    }
    if renamed::report_value(report, node, "route", "async_operation") {
        return None;
    }
    let polls_by_id = ["id", "status"].iter().any(|name| node.get(name).is_some());
    let is_reserved = |argument: &&ArgumentUse| polls_by_id && argument.name == AsyncOperationRule::ARGUMENT;
    if let Some(argument) = request_arguments.arguments.iter().find(is_reserved) {
        let message = "`job` is reserved for the operation's id, and can't be an argument";
        return report.reject(Code::ReservedName.at_span(argument.span), message, "rename the argument");
    }
    let settings = match node.as_text() {
        Some("follow_location") => Some(AsyncOperationSettings::default()),
        Some(_) => {
            let help = "`follow_location` polls the `Location` of a 202 until the status is another one";
            return report.reject_type(node, "`async_operation` must be `follow_location` or a map", help);
        }
        None => read_in_scope(report, entry, &[], operation_arguments),
    };
    // Parses a request about the operation, and adds its arguments to the arguments of the route.
    let mut read_request = |entry: &Entry| {
        let mut used = UsedArguments::default();
        let compiled = request::read(report, upstreams, entry, &mut used)?;
        if name.is_some_and(|name| *name != compiled.upstream) {
            let message = format!("`{}` uses another upstream than the request of the route", entry.key.text);
            let help = "an operation is polled at the upstream that started it";
            return report.reject(Code::AsyncOperationUpstream.at_span(entry.value.span), message, help);
        }
        let id =
            used.arguments.extract_if(.., |argument| argument.name == AsyncOperationRule::ARGUMENT).next();
        let has_id = id.is_some();
        if let Some(id) = id.filter(|_| !polls_by_id) {
            let message = "`{job}` needs `id`, the id of the operation";
            let help = "write `id: .id`, and the polling request as `status`";
            return report.reject(Code::UndeclaredArgument.at_span(id.span), message, help);
        }
        let other_argument = used.arguments.iter().find(|argument| !request_arguments.has(&argument.name));
        if let Some(ArgumentUse { name, span, .. }) = other_argument.filter(|_| polls_by_id && !has_id) {
            let message = format!("`{{{name}}}` is an argument of the tool, not the id of the operation");
            report.warning(Code::UndeclaredArgument.at_span(*span), message, "write `{job}` for the id");
        }
        request_arguments.merge(&used);
        match compiled.template {
            RequestTemplate::Http(template) => Some(template),
            // A request of another kind has a different upstream, which has already been reported.
            RequestTemplate::Command(_) | RequestTemplate::Tool(_) => None,
        }
    };
    let status = node.entry("status").and_then(&mut read_request);
    let result = node.entry("result").and_then(&mut read_request);
    let cancel = node.entry("cancel").and_then(|entry| {
        let method = entry.value.as_text().filter(|text| USUAL_METHODS.contains(text));
        match method.and_then(|method| method.parse().ok()) {
            Some(method) => Some(CancelRule::Method(method)),
            None => read_request(entry).map(CancelRule::Request),
        }
    });
    let settings = settings?;
    let location = match (settings.id, status) {
        (Some(id), Some(status)) => OperationLocationRule::Id { id, status: Box::new(status) },
        _ => OperationLocationRule::Location,
    };
    Some(AsyncOperationRule {
        location,
        extract: settings.extract,
        done: settings.done,
        failed: settings.failed,
        cancelled: settings.cancelled,
        task: settings.task,
        result,
        cancel,
        poll_interval: settings.poll_interval,
        progress: settings.progress,
        total: settings.total,
        message: settings.message,
        // A `Location` is resolved against the URI of the route's upstream.
        base: upstream?.settings.http()?.address.join(&PathAndQuery::from_static("/")).ok()?,
    })
}
