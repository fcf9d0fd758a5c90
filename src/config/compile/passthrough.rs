//! `passthrough`: the upstream that requests outside all routes are proxied to unmodified.

use std::time::Duration;

use crate::{
    config::{
        clients,
        code::Code,
        keys::PASSTHROUGH,
        node::{Kind, Node},
        report::Report,
        request::find_upstream,
        section::{self, Section},
        source::Span,
        upstreams::UpstreamFile,
    },
    route::{Scopes, UpstreamName},
};

/// What is written of it.
#[derive(Default)]
pub(super) struct Written {
    pub(super) upstream: Option<UpstreamName>,
    pub(super) idle_timeout: Option<Duration>,
    pub(super) max_in_flight: Option<usize>,
    pub(super) max_in_flight_per_client: Option<usize>,
    pub(super) scopes: Scopes,
}

/// `passthrough`: the name of an upstream, or a map with how patiently.
pub(super) fn read(
    report: &Report<'_>,
    file: &Section<'_, '_>,
    names: &[(UpstreamName, Span)],
    upstreams: &[UpstreamFile],
    clients: &clients::Clients,
) -> Written {
    let Some(node) = file.get("passthrough") else { return Written::default() };
    let section = match &node.kind {
        Kind::Map(_) => file.section("passthrough", &PASSTHROUGH),
        _ => None,
    };
    let name = match &section {
        None => Some(node),
        Some(section) => section.required("upstream", "write `upstream: NAME`"),
    };
    let count = |name| section.as_ref()?.count(name).and_then(|count| usize::try_from(count).ok());
    let (max_in_flight, max_in_flight_per_client) =
        (count("max_in_flight"), count("max_in_flight_per_client"));
    let idle_timeout = section.as_ref().and_then(|section| section.duration("idle_timeout"));
    let text = name.and_then(|node| Some((node, section::text_of(report, node, "`passthrough`")?)));
    let scopes = section.as_ref().and_then(clients::scopes);
    let says_scopes = section.as_ref().is_some_and(|section| section.get("scopes").is_some());
    if clients.are_told_apart && !says_scopes {
        let message = "`passthrough` does not say which clients may use it";
        let help = "write `passthrough: { upstream: NAME, scopes: [legacy] }`, or `scopes: []` for all that are known";
        report.error(Code::PassthroughWithoutScopes.at(node.span), message, help);
    }
    let upstream = text.and_then(|(node, name)| somebody(report, names, upstreams, node, name));
    if let (Some(name), Some(max), Some(section)) = (&upstream, max_in_flight, &section) {
        warn_of_limit(section, upstreams, name, max);
    }
    let scopes = scopes.unwrap_or_default();
    Written { upstream, idle_timeout, max_in_flight, max_in_flight_per_client, scopes }
}

/// Warns of a limit that is never reached: requests that are passed through are among those of the upstream.
fn warn_of_limit(section: &Section<'_, '_>, upstreams: &[UpstreamFile], name: &UpstreamName, max: usize) {
    let file = upstreams.iter().find(|file| file.settings.name() == name);
    let of_upstream = file.map_or(usize::MAX, |file| file.policy.max_in_flight);
    if max > of_upstream
        && let Some(entry) = section.entry("max_in_flight")
    {
        let message = format!(
            "`max_in_flight` has no effect: the upstream `{name}` gets {of_upstream} calls at once at most"
        );
        let help = "write less, or raise the `max_in_flight` of the upstream";
        section.report.warning(Code::LimitNeverReached.at(entry.key.span), message, help);
    }
}

/// Who gets every path that is no route: somebody that speaks HTTP.
fn somebody(
    report: &Report<'_>,
    names: &[(UpstreamName, Span)],
    upstreams: &[UpstreamFile],
    node: &Node,
    name: &str,
) -> Option<UpstreamName> {
    let found = find_upstream(report, names, node.span, name)?;
    let file = upstreams.iter().find(|file| *file.settings.name() == found);
    if file.is_some_and(|file| file.settings.http().is_none()) {
        let message = format!("nothing can be passed through to `{name}`: it has no `url`");
        report.error(
            Code::WrongUpstreamKind.at(node.span),
            message,
            "name an upstream with a `url`, or write routes for it",
        );
        return None;
    }
    Some(found)
}
