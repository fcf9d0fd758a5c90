//! Checks of a route's settings: settings without effect, and policies that the request does not allow.

use std::time::Duration;

use serde_json::{Map, Value};

use crate::config::route_tests::Example;
use crate::config::schemas::{ArgumentKind, ArgumentUse};
use crate::policy::{HedgeSettings, RoutePolicySettings};
use crate::route::{InputSchema, RequestTemplate};
use crate::settings::{Code, Node, OpenSection, Report};

/// Rejects `async_operation` on a route that calls an MCP tool: the call ends when the tool has finished.
pub(crate) fn reject_async_operation(section: &OpenSection<'_>) -> Option<()> {
    let Some(entry) = section.entry("async_operation") else { return Some(()) };
    let message = "`async_operation` has no effect on a call of an MCP tool";
    let help = "remove it: a call of an MCP tool ends when its work is done";
    section.reject_at(Code::WrongUpstreamKind.at_span(entry.key.span), message, help);
    None
}

/// Warns about `on_no_match` without `response`: without rules, the default rules always apply.
pub(crate) fn warn_of_unused_on_no_match(section: &OpenSection<'_>) {
    if let Some(entry) = section.entry("on_no_match") {
        let message = "`on_no_match` has no effect without `response`";
        let help = "remove it: without rules the default rules apply";
        section.report().warning(Code::RequiresKey.at_span(entry.key.span), message, help);
    }
}

/// Warns of arguments in a REST path or a resource URI that the request does not use, and of arguments in
/// `limit.more` that do not select the rows: every page would be the first one.
pub(crate) fn warn_of_unused_arguments<'a>(
    report: &Report<'_>,
    unused: impl Iterator<Item = &'a ArgumentUse>,
) {
    for ArgumentUse { name, kind, span, context, .. } in unused {
        let (problem, help) = match kind {
            ArgumentKind::Text | ArgumentKind::PathPart => {
                ("is unused", format!("add `{{{name}}}` to the request, or remove it here"))
            }
            ArgumentKind::Count => (
                "selects no rows",
                format!("add it to the request, or select the rows with `$args.{name}` in `structured`"),
            ),
        };
        let message = format!("argument `{name}` {problem}: the request does not contain it");
        let coded_span = Code::UnusedArgument.at_span(*span);
        report.in_context(context.clone(), || report.warning(coded_span, message, help));
    }
}

/// Rejects header settings of a route that runs a command.
pub(crate) fn reject_headers(section: &OpenSection<'_>) {
    let names = ["forward_headers", "propagate_trace_context"];
    for entry in names.into_iter().filter_map(|name| section.entry(name)) {
        let message = format!("`{}` has no effect: a command has no headers", entry.key.text);
        section.reject_at(Code::WrongUpstreamKind.at_span(entry.key.span), &message, "remove it");
    }
}

/// Warns of tests whose arguments violate the input schema.
pub(crate) fn warn_of_impossible_tests(section: &OpenSection<'_>, input: &InputSchema, tests: &[Example]) {
    let items = section.get("tests").and_then(Node::as_list).unwrap_or_default();
    for (test, item) in tests.iter().zip(items) {
        let Some(args) = item.get("args") else { continue };
        if let Err(reason) = input.check(test.args.clone().into()) {
            let message = format!("`args` violates the input schema: {reason}");
            let help = "write arguments that match `input`";
            section.report().warning(Code::ImpossibleTest.at_span(args.span), message, help);
        }
    }
}

/// Rejects policies that could cause harm, and warns of policies without effect.
pub(crate) fn check_policies(
    section: &OpenSection<'_>,
    policy: &RoutePolicySettings,
    request: &RequestTemplate,
    annotations: Option<&Map<String, Value>>,
    is_idempotent: bool,
    timeout: Duration,
) {
    let report = section.report();
    let is_async = section.entry("async_operation").is_some();
    let hint = annotations.and_then(|annotations| annotations.get("readOnlyHint"));
    let only_reads = request.effect().is_read_only || hint == Some(&Value::Bool(true));
    let request_kind = request.describe();
    let coalesces = section.entry("coalesce").filter(|_| policy.coalesces());
    for entry in [section.entry("cache"), coalesces].into_iter().flatten() {
        let (name, span) = (&entry.key.text, entry.key.span);
        if is_async {
            let message = format!(
                "`{name}` can't be combined with `async_operation`: each call starts its own operation"
            );
            let coded_span = Code::ConflictsWithAsyncOperation.at_span(span);
            report.error(coded_span, message, format!("remove `{name}`"));
        } else if !only_reads {
            let message =
                format!("`{name}` requires a request that only reads, and this is a {request_kind}");
            let help =
                "write `annotations: { readOnlyHint: true }` if the tool changes nothing, or remove it";
            report.error(Code::PolicyNeedsSafeRequest.at_span(span), message, help);
        }
    }
    let unused = section.entry("coalesce").filter(|_| policy.coalesce == Some(false));
    if let (Some(entry), None) = (unused, section.entry("cache")) {
        let message = "`coalesce: false` has no effect without `cache`";
        let help = "remove it: without `cache` each call sends its own request";
        report.warning(Code::RequiresKey.at_span(entry.key.span), message, help);
    }
    let Some(span) = section.entry("hedge").map(|entry| entry.key.span) else { return };
    if is_async {
        let message = "`hedge` can't be combined with `async_operation`: the operation would start twice";
        report.error(Code::ConflictsWithAsyncOperation.at_span(span), message, "remove `hedge`");
    } else if !is_idempotent {
        let message =
            format!("`hedge` requires a request that is safe to repeat, and this is a {request_kind}");
        let help = "write `idempotent: true` if that is safe, or remove `hedge`";
        report.error(Code::PolicyNeedsSafeRequest.at_span(span), message, help);
    }
    if matches!(policy.hedge, Some(HedgeSettings::After(time)) if time >= timeout) {
        let message = "`hedge` has no effect: `timeout` ends the call first";
        let help = "write a shorter time, such as the 95th percentile of the response time";
        report.warning(Code::HedgeAfterTimeout.at_span(span), message, help);
    }
}
