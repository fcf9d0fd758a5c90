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
    let only_reads = about.request.effect().is_none() || hint == Some(&Value::Bool(true));
    let coalesces = section.entry("coalesce").filter(|_| policy.coalesces());
    for entry in [section.entry("cache"), coalesces].into_iter().flatten() {
        let name = &entry.key.text;
        if section.entry("async_operation").is_some() {
            let message = format!(
                "`{name}` can't be combined with `async_operation`: each call starts its own operation"
            );
            report.error(
                Code::ConflictsWithAsyncOperation.at_span(entry.key.span),
                message,
                format!("remove `{name}`"),
            );
        } else if !only_reads {
            let what = about.request.describe();
            let message = format!("`{name}` requires a request that only reads, and this is a {what}");
            let help =
                "write `annotations: { readOnlyHint: true }` if the tool changes nothing, or remove it";
            report.error(Code::PolicyNeedsSafeRequest.at_span(entry.key.span), message, help);
        }
    }
    if let (Some(entry), None, Some(false)) =
        (section.entry("coalesce"), section.entry("cache"), policy.coalesce)
    {
        let help = "remove it: without `cache` each call sends its own request";
        report.warning(
            Code::RequiresKey.at_span(entry.key.span),
            "`coalesce: false` has no effect without `cache`",
            help,
        );
    }
    let Some(entry) = section.entry("hedge") else { return };
    if section.entry("async_operation").is_some() {
        let message = "`hedge` can't be combined with `async_operation`: the operation would start twice";
        report.error(Code::ConflictsWithAsyncOperation.at_span(entry.key.span), message, "remove `hedge`");
    } else if !about.idempotent {
        let message = format!(
            "`hedge` requires a request that is safe to repeat, and this is a {}",
            about.request.describe()
        );
        let help = "write `idempotent: true` if that is safe, or remove `hedge`";
        report.error(Code::PolicyNeedsSafeRequest.at_span(entry.key.span), message, help);
    }
    if matches!(policy.hedge, Some(HedgeSettings::After(time)) if time >= about.timeout) {
        let help = "write a shorter time, such as the 95th percentile of the response time";
        report.warning(
            Code::HedgeAfterTimeout.at_span(entry.key.span),
            "`hedge` has no effect: `timeout` ends the call first",
            help,
        );
    }
}
