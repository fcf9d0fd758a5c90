//! `passthrough`: its scopes against `clients`, its limit against that of its upstream.

use crate::{
    config::{clients::Clients, code::Code, report::Report, tree::Node, upstreams::UpstreamFile},
    policy::PassthroughSettings,
    route::UpstreamName,
};

/// Checks that `passthrough` has `scopes` if there are clients.
pub(in crate::config) fn check_scopes(report: &Report<'_>, node: &Node, clients: &Clients) {
    if clients.are_authenticated && node.get("scopes").is_none() {
        let message = "`passthrough` needs `scopes`, because there are `clients`";
        let help = "write `passthrough: { upstream: NAME, scopes: [legacy] }`, or `scopes: []` for every authenticated client";
        report.error(Code::PassthroughWithoutScopes.at_span(node.span), message, help);
    }
}

/// Warns of a limit that is never reached: passthrough requests are among those of the upstream.
pub(in crate::config) fn warn_of_limit(
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
