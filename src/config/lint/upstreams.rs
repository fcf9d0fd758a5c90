//! Checks of upstreams: those in `admin.readiness_upstreams` exist, each is used, and the limit of
//! `passthrough` is within that of its upstream.

use crate::{
    config::{
        code::Code, problem::Problem, report::Report, routes::RouteFile, source::SourceSpan, suggest,
        tree::Node, upstreams::UpstreamFile,
    },
    policy::PassthroughSettings,
    route::UpstreamName,
};

/// Checks that each upstream in `admin.readiness_upstreams` exists, whether it comes from a file, a variable
/// or a flag.
pub(in crate::config) fn check_readiness(
    report: &Report<'_>,
    known: &[(UpstreamName, SourceSpan)],
    needs: &[String],
    place: Option<SourceSpan>,
) {
    for name in needs.iter().filter(|name| *name != "*") {
        if known.iter().any(|(known, _)| known.as_str() == name) {
            continue;
        }
        let message = format!("unknown upstream `{name}`");
        let help = suggest::help(name, "known upstreams", known.iter().map(|(name, _)| name.as_str()));
        match place {
            Some(span) => report.error(Code::UnknownUpstream.at_span(span), message, help),
            None => report.add(Problem::without_span(
                Code::UnknownUpstream,
                "admin.readiness_upstreams",
                message,
                help,
            )),
        }
    }
}

/// Warns of upstreams that nothing uses.
pub(in crate::config) fn warn_of_unused(
    report: &Report<'_>,
    names: &[(UpstreamName, SourceSpan)],
    upstreams: &[UpstreamFile],
    routes: &[RouteFile],
    passthrough: Option<&UpstreamName>,
) {
    // It may be used by a part with errors.
    if report.errors() > 0 {
        return;
    }
    for (name, span) in names {
        let lists_tools = upstreams.iter().any(|file| file.settings.name() == name && file.tools.is_some());
        if passthrough != Some(name)
            && !lists_tools
            && !routes.iter().any(|file| &file.route.upstream == name)
        {
            report.warning(
                Code::UnusedUpstream.at_span(*span),
                format!("no route uses the upstream `{name}`"),
                "remove it, or write a route for it",
            );
        }
    }
}

/// Warns of a limit that is never reached: passthrough requests are among those of the upstream.
pub(in crate::config) fn warn_of_passthrough_limit(
    report: &Report<'_>,
    node: &Node,
    upstreams: &[UpstreamFile],
    name: &UpstreamName,
    settings: &PassthroughSettings,
) {
    let file = upstreams.iter().find(|file| file.settings.name() == name);
    let of_upstream = file.map_or(usize::MAX, |file| file.policy.max_in_flight);
    if settings.max_in_flight.is_some_and(|max| max > of_upstream)
        && let Some(entry) = node.entry("max_in_flight")
    {
        let message =
            format!("`max_in_flight` has no effect: the limit of the upstream `{name}` is {of_upstream}");
        let help = "write a lower limit, or raise `max_in_flight` of the upstream";
        report.warning(Code::LimitNeverReached.at_span(entry.key.span), message, help);
    }
}
