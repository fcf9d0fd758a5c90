//! Checks across sections: unknown names, unused upstreams and rules, routes that conflict with each other.

use std::{sync::Arc, time::Duration};

use crate::{
    config::{
        code::Code,
        node::{Entry, Node},
        problem::Problem,
        report::Report,
        response,
        routes::RouteFile,
        rules::RuleSets,
        schemas::Asked,
        source::Span,
        suggest, units,
        upstreams::UpstreamFile,
    },
    route::{Conflict, RouteTable, UpstreamName},
};

/// Checks that each upstream in `admin.readiness_upstreams` exists, whether it comes from a file, a variable
/// or a flag.
pub(super) fn check_needs(
    report: &Report<'_>,
    known: &[(UpstreamName, Span)],
    needs: &[String],
    place: Option<Span>,
) {
    for name in needs.iter().filter(|name| *name != "*") {
        if known.iter().any(|(known, _)| known.as_str() == name) {
            continue;
        }
        let message = format!("unknown upstream `{name}`");
        let help = suggest::help(name, "known upstreams", known.iter().map(|(name, _)| name.as_str()));
        match place {
            Some(span) => report.error(Code::UnknownUpstream.at(span), message, help),
            None => report.add(Problem::of_whole(
                Code::UnknownUpstream,
                "admin.readiness_upstreams",
                message,
                help,
            )),
        }
    }
}

/// Calls that may take longer than the process waits for them when it stops.
pub(super) fn warn_of_calls_cut_off(
    report: &Report<'_>,
    shutdown_timeout: Duration,
    routes: &[RouteFile],
    (written, upstreams): (&[Entry], &[Entry]),
    elsewhere: Span,
) {
    let deadline_of = |entries: &[Entry], name: &str| {
        let entry = entries.iter().find(|entry| entry.key.text == name);
        entry.and_then(|entry| entry.value.get("timeout")).map(|node| node.span)
    };
    let mut told: Vec<Span> = Vec::new();
    for RouteFile { route, .. } in routes.iter().filter(|file| file.route.timeout > shutdown_timeout) {
        let place = deadline_of(written, route.definition.name.as_str())
            .or_else(|| deadline_of(upstreams, route.upstream.as_str()))
            .unwrap_or(elsewhere);
        if told.contains(&place) {
            continue;
        }
        told.push(place);
        let [timeout, waits] = [route.timeout, shutdown_timeout]
            .map(|time| units::show_duration(u64::try_from(time.as_millis()).unwrap_or(u64::MAX)));
        let message = format!(
            "a call may take {timeout}, and `server.shutdown_timeout` waits {waits}: a restart cuts it off with an error"
        );
        let help = format!("write `shutdown_timeout: {timeout}` under `server`, or a shorter `timeout`");
        report.warning(Code::TimeoutBeyondShutdown.at(place), message, help);
    }
}

/// Looks at rules that no route asked for, so that what is wrong with them is told all the same.
pub(super) fn read_unused(report: &Report<'_>, rules: &RuleSets<'_>, default_response: Option<&Entry>) {
    // What could not be read may be what uses them.
    if report.errors() > 0 {
        return;
    }
    if let Some(written) =
        default_response.and_then(|entry| rules.expand(report, "`defaults.response`", entry))
    {
        response::read(report, written, &mut Asked::default());
    }
    rules.check_unused(report, |report, written| {
        response::read(report, written, &mut Asked::default());
    });
}

pub(super) fn warn_unused(
    report: &Report<'_>,
    names: &[(UpstreamName, Span)],
    upstreams: &[UpstreamFile],
    routes: &[RouteFile],
    passthrough: Option<&UpstreamName>,
) {
    // What could not be read may be what uses it.
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
                Code::UnusedUpstream.at(*span),
                format!("the upstream `{name}` is used by no route"),
                "remove it, or write a route for it",
            );
        }
    }
}

/// Routes that one request would fit, told at the later of the two.
pub(super) fn refuse_conflicts(report: &Report<'_>, routes: &[RouteFile]) {
    let mut left: Vec<&RouteFile> = routes.iter().collect();
    loop {
        let table = RouteTable::new(left.iter().map(|file| Arc::clone(&file.route)).collect());
        let Err(conflict) = table else { return };
        let (Conflict::Tool { tool } | Conflict::Endpoint { tool, .. } | Conflict::Resource { tool, .. }) =
            &conflict;
        let Some(index) = left.iter().position(|file| file.route.definition.name == *tool) else { return };
        let file = left.remove(index);
        if let Conflict::Resource { uri, with, .. } = &conflict {
            let other = left.iter().find(|other| other.route.definition.name == *with);
            let place = other.map(|other| report.place(other.resource_span.unwrap_or(other.name_span)));
            let message = format!(
                "`{uri}` is what the resource of the route `{with}` is read by, too, at {}",
                place.unwrap_or_default()
            );
            let span = file.resource_span.unwrap_or(file.name_span);
            report.error(Code::ConflictingRoutes.at(span), message, "give one of them another URI");
            continue;
        }
        let span = file.rest_span.unwrap_or(file.name_span);
        let place = |file: &RouteFile| (file.name_span.file, file.name_span.start);
        let other = left.iter().filter(|other| shape(other) == shape(file)).min_by_key(|other| place(other));
        let (message, help) = match (&conflict, other) {
            (Conflict::Endpoint { method, path, .. }, Some(other)) => {
                let same = other.route.rest.as_ref().is_some_and(|rest| rest.method == *method);
                let whose = format!(
                    "the route `{}`, at {}",
                    other.route.definition.name,
                    report.place(other.rest_span.unwrap_or(other.name_span))
                );
                if same {
                    (
                        format!("`{method} {path}` is also the endpoint of {whose}"),
                        "give one of them another path or method",
                    )
                } else {
                    (
                        format!("`{path}` names its arguments otherwise than {whose}"),
                        "give the arguments of one path the same names",
                    )
                }
            }
            _ => (conflict.to_string(), "give one of them another name or path"),
        };
        report.error(Code::ConflictingRoutes.at(span), message, help);
    }
}

/// The path of a route's own endpoint, whatever its arguments are called.
fn shape(file: &RouteFile) -> Option<String> {
    let path = &file.route.rest.as_ref()?.path;
    let segments: Vec<&str> =
        path.split('/').map(|segment| if segment.contains('{') { "{}" } else { segment }).collect();
    Some(segments.join("/"))
}

/// Warns of limits that say what holds without a store where there is none.
pub(super) fn warn_of_directions(report: &Report<'_>, root: &Node) {
    let Some(entries) = root.as_map() else { return };
    for entry in entries {
        if matches!(entry.key.text.as_str(), "rate_limit" | "rate_limit_per_client")
            && let Some(limit) = entry.value.as_map()
            && let Some(direction) = limit.iter().find(|key| key.key.text == "on_store_failure")
        {
            let message =
                "`on_store_failure` has no effect without `shared_state`: every process counts for itself";
            report.warning(
                Code::OnStoreFailureWithoutStore.at(direction.key.span),
                message,
                "write `shared_state: redis://…`, or leave it out",
            );
        }
    }
    for section in ["defaults", "upstreams", "routes"] {
        let Some(named) = root.get(section) else { continue };
        if section == "defaults" {
            warn_of_directions(report, named);
        } else {
            named
                .as_map()
                .unwrap_or_default()
                .iter()
                .for_each(|entry| warn_of_directions(report, &entry.value));
        }
    }
}
