//! Checks of a route's policies against its request.

use std::time::Duration;

use serde_json::{Map, Value};

use crate::{
    policy::{HedgeSettings, RoutePolicySettings},
    route::RequestTemplate,
    settings::{code::Code, section::OpenSection},
};

/// Properties of a route that its policies are checked against.
pub(in crate::config) struct RoutePolicyContext<'a> {
    pub(in crate::config) request: &'a RequestTemplate,
    pub(in crate::config) annotations: Option<&'a Map<String, Value>>,
    pub(in crate::config) idempotent: bool,
    pub(in crate::config) timeout: Duration,
}

/// Rejects harmful policies, and warns of those without effect.
pub(in crate::config) fn check(
    section: &OpenSection<'_>,
    policy: &RoutePolicySettings,
    about: &RoutePolicyContext<'_>,
) {
    let report = section.value.context.report;
    let hint = about.annotations.and_then(|annotations| annotations.get("readOnlyHint"));
    let only_reads = about.request.is_safe() || hint == Some(&Value::Bool(true));
    let coalesces = section.entry("coalesce").filter(|_| policy.coalesces());
    for entry in [section.entry("cache"), coalesces].into_iter().flatten() {
        let name = &entry.key.text;
        if section.entry("async_operation").is_some() {
            let message =
                format!("`{name}` can't stand beside `async_operation`: each call begins work of its own");
            report.error(
                Code::ConflictsWithAsyncOperation.at_span(entry.key.span),
                message,
                format!("leave `{name}` out"),
            );
        } else if !only_reads {
            let what = about.request.describe();
            let message = format!("`{name}` is for requests that only read, and this is a {what}");
            let help =
                "write `annotations: { readOnlyHint: true }` if the tool changes nothing, else leave it out";
            report.error(Code::PolicyNeedsSafeRequest.at_span(entry.key.span), message, help);
        }
    }
    if let (Some(entry), None, Some(false)) =
        (section.entry("coalesce"), section.entry("cache"), policy.coalesce)
    {
        let help = "leave it out: without `cache` each call asks for itself";
        report.warning(
            Code::RequiresKey.at_span(entry.key.span),
            "`coalesce: false` has no effect without `cache`",
            help,
        );
    }
    let Some(entry) = section.entry("hedge") else { return };
    if section.entry("async_operation").is_some() {
        let message = "`hedge` can't stand beside `async_operation`: the work would be begun twice";
        report.error(Code::ConflictsWithAsyncOperation.at_span(entry.key.span), message, "leave `hedge` out");
    } else if !about.idempotent {
        let message =
            format!("`hedge` sends a request twice, and this {} may not be", about.request.describe());
        let help = "write `idempotent: true` if that does no harm, else leave `hedge` out";
        report.error(Code::PolicyNeedsSafeRequest.at_span(entry.key.span), message, help);
    }
    if matches!(policy.hedge, Some(HedgeSettings::After(time)) if time >= about.timeout) {
        let help = "write a shorter time: about what a reply takes that is slower than most";
        report.warning(
            Code::HedgeAfterTimeout.at_span(entry.key.span),
            "`hedge` has no effect: `timeout` comes first",
            help,
        );
    }
}
