//! Checks of process settings and upstreams: `on_store_failure` without `shared_state`, timeouts that are
//! never reached or exceed `server.shutdown_timeout`, and unused upstreams.

use std::time::Duration;

use crate::config::routes::CompiledRoute;
use crate::config::upstreams::ParsedUpstream;
use crate::route::UpstreamName;
use crate::settings::{Code, Node, Report, SourceSpan, units};

/// Warns of `on_store_failure` without `shared_state`.
pub(crate) fn warn_of_on_store_failure(report: &Report<'_>, root: &Node) {
    let named_sections = ["upstreams", "routes"].into_iter().filter_map(|name| root.get(name));
    for node in root.get("defaults").into_iter().chain(named_sections.flat_map(Node::children)) {
        for limit in ["rate_limit", "rate_limit_per_client"].into_iter().filter_map(|name| node.get(name)) {
            if let Some(entry) = limit.entry("on_store_failure") {
                let message = "`on_store_failure` has no effect without `shared_state`: each process has its own limits";
                let help = "write `shared_state: redis://…`, or remove it";
                report.warning(Code::OnStoreFailureWithoutStore.at_span(entry.key.span), message, help);
            }
        }
    }
}

/// Warns of calls that may take longer than `shutdown_timeout`, after which a shutdown ends them with an
/// error.
pub(crate) fn warn_of_long_timeouts(
    report: &Report<'_>,
    root: &Node,
    shutdown_timeout: Duration,
    routes: &[CompiledRoute],
) {
    let mut reported: Vec<SourceSpan> = Vec::new();
    for CompiledRoute { route, .. } in
        routes.iter().filter(|compiled| compiled.route.timeout > shutdown_timeout)
    {
        let paths: [&[&str]; 4] = [
            &["routes", route.definition.name.as_str(), "timeout"],
            &["upstreams", route.upstream.as_str(), "timeout"],
            &["defaults", "timeout"],
            &["server", "shutdown_timeout"],
        ];
        let span = paths.into_iter().find_map(|path| root.at_path(path)).map_or(root.span, |node| node.span);
        if reported.contains(&span) {
            continue;
        }
        reported.push(span);
        let [timeout, limit] =
            [route.timeout, shutdown_timeout].map(|time| units::format_duration(units::milliseconds(time)));
        let message = format!(
            "a call may take {timeout}, but `server.shutdown_timeout` is {limit}: a restart would end such \
             a call with an error"
        );
        let help = format!("write `shutdown_timeout: {timeout}` under `server`, or a shorter `timeout`");
        report.warning(Code::TimeoutBeyondShutdown.at_span(span), message, help);
    }
}

/// Warns of an `attempt_timeout` that has no effect because the `timeout` of every call is shorter.
pub(crate) fn warn_of_attempt_timeouts(
    report: &Report<'_>,
    root: &Node,
    upstreams: &[ParsedUpstream],
    routes: &[CompiledRoute],
) {
    for ParsedUpstream { settings, policy, limits, .. } in upstreams {
        let section = root.at_path(&["upstreams", settings.name().as_str()]);
        let entry = section.and_then(|section| section.entry("attempt_timeout"));
        let own_routes = routes.iter().filter(|compiled| compiled.route.upstream == *settings.name());
        let longest = own_routes.map(|compiled| compiled.route.timeout).chain([limits.timeout]).max();
        if let Some(entry) = entry.filter(|_| policy.attempt_timeout >= longest) {
            let message = "`attempt_timeout` is never reached: `timeout` ends the call first";
            let help = "write a shorter `attempt_timeout`, or a longer `timeout`";
            report.warning(Code::LimitNeverReached.at_span(entry.key.span), message, help);
        }
    }
}

/// Warns of upstreams that are used by no route, import or passthrough.
pub(crate) fn warn_of_unused(
    report: &Report<'_>,
    names: &[(UpstreamName, SourceSpan)],
    upstreams: &[ParsedUpstream],
    routes: &[CompiledRoute],
    passthrough: Option<&UpstreamName>,
) {
    for (name, span) in names {
        let is_imported =
            upstreams.iter().any(|parsed| parsed.settings.name() == name && parsed.imports_entries());
        let has_route = routes.iter().any(|compiled| &compiled.route.upstream == name);
        if passthrough != Some(name) && !is_imported && !has_route {
            let message = format!("no route uses the upstream `{name}`");
            let help = "remove it, or write a route for it";
            report.warning(Code::UnusedUpstream.at_span(*span), message, help);
        }
    }
}
