//! All trees to one configuration: sections merged, every part read, the parts held against each other.

use std::{cell::RefCell, collections::HashMap, sync::Arc, time::Duration};

use super::{
    Loaded,
    calls::Routes,
    clients,
    import::Importer,
    keys::{ADMIN, DEFAULTS, FILE, LOG, PASSTHROUGH, SERVER, TELEMETRY},
    node::{Entry, Kind, Node},
    problem::Problem,
    process::{self, Flag, ProcessSettings},
    prompts::{self, PromptFile},
    reply,
    report::Report,
    request::find_upstream,
    routes::{self, RouteDefaults, RouteFile, Surroundings},
    rules::RuleSets,
    schemas::Asked,
    secret::Environment,
    section::{self, Section},
    server_tls, shared, shown,
    source::Span,
    suggest, telemetry,
    upstreams::{self, UpstreamDefaults, UpstreamFile},
    version,
};
use crate::{
    face::mcp::McpSettings,
    policy::{PassthroughSettings, PolicySettings},
    route::{Conflict, RouteTable, Scopes, UpstreamName},
};

/// Compiles the files' trees. `None` when something is wrong; that has been reported then.
pub(super) fn compile(
    report: &Report<'_>,
    environment: &Environment,
    flags: &[Flag],
    trees: Vec<Node>,
    presets: Option<&Node>,
) -> Option<Loaded> {
    version::check(report, &trees)?;
    let root = merge(report, trees)?;
    let file = Section::open(report, root.span, &root, &FILE)?;
    // It has been looked at in every file.
    let _ = file.get(version::KEY);
    let server = file.section("server", &SERVER);
    let admin = file.section("admin", &ADMIN);
    let log = file.section("log", &LOG);
    let telemetry = telemetry::read(report, environment, file.section("telemetry", &TELEMETRY).as_ref());
    let needs_place = admin.as_ref().and_then(|admin| admin.get("ready_needs")).map(|node| node.span);
    let sections = [server.as_ref(), admin.as_ref(), log.as_ref()];
    let process = process::settings(report, environment, flags, sections);
    let peer = process.as_ref().and_then(|process| process.mcp.peer.as_ref());
    let secret = process.as_ref().and_then(|process| process.mcp.secret.as_ref());
    // Where the process settings have a mistake, whether there is a secret is not known.
    let shared = process.as_ref().and_then(|_| shared::read(&file, environment, secret));
    if file.entry("shared").is_none() {
        shared::warn_of_directions(report, &root);
    }
    let (tls, peer_tls) = server_tls::read(report, environment, server.as_ref(), peer);
    let default_section = file.section("defaults", &DEFAULTS);
    let (route_defaults, upstream_defaults) = default_section.as_ref().map(defaults).unwrap_or_default();
    let default_scopes = route_defaults.scopes.clone();
    let default_reply = default_section.as_ref().and_then(|section| section.entry("reply"));
    let preset_entries =
        presets.and_then(|root| root.get("rules")).and_then(Node::as_map).unwrap_or_default();
    let rules = RuleSets::read(report, file.map("rules").unwrap_or_default(), preset_entries);
    let entries = file.map("upstreams").unwrap_or_default();
    let upstreams: Vec<UpstreamFile> = entries
        .iter()
        .filter_map(|entry| upstreams::read(report, environment, upstream_defaults, entry))
        .collect();
    let names: Vec<(UpstreamName, Span)> =
        entries.iter().filter_map(|entry| Some((entry.key.text.parse().ok()?, entry.key.span))).collect();
    let clients = clients::read(report, environment, &file, server.as_ref(), &default_scopes);
    let (passthrough, passthrough_idle, passthrough_scopes) =
        read_passthrough(report, &file, &names, &upstreams, &clients);
    let calls = RefCell::default();
    let around = Surroundings {
        defaults: &route_defaults,
        rules: &rules,
        default_reply,
        names: &names,
        upstreams: &upstreams,
        calls: &calls,
    };
    let written = file.map("routes").unwrap_or_default();
    let routes: Vec<RouteFile> =
        written.iter().filter_map(|entry| routes::read(report, &around, entry)).collect();
    let known = Routes { written, read: &routes };
    for call in calls.borrow().iter() {
        call.check(report, known);
    }
    let prompt_entries = file.map("prompts").unwrap_or_default();
    let prompts: Vec<PromptFile> = prompt_entries
        .iter()
        .filter_map(|entry| prompts::read(report, known, &default_scopes, entry))
        .collect();
    let lists_tools = upstreams.iter().any(|file| file.tools.is_some());
    let nothing =
        written.is_empty() && prompt_entries.is_empty() && file.get("passthrough").is_none() && !lists_tools;
    if nothing && report.errors() == 0 {
        let place = file
            .entry("routes")
            .map_or_else(|| report.files().beginning(root.span.file), |entry| entry.key.span);
        let help = "write `routes: { NAME: { request: GET UPSTREAM/path } }`, or `passthrough: UPSTREAM`";
        report.error(place, "there are no routes", help);
    }
    read_unused(report, &rules, default_reply.filter(|_| written.is_empty()));
    warn_unused(report, &names, &upstreams, &routes, passthrough.as_ref());
    refuse_conflicts(report, &routes);
    let passthrough = passthrough.map(|name| {
        let upstream = upstreams.iter().find(|file| *file.settings.name() == name);
        let settings = PassthroughSettings {
            deadline: upstream.and_then(|file| file.deadline).unwrap_or(route_defaults.deadline),
            idle_timeout: passthrough_idle.unwrap_or(PassthroughSettings::IDLE_TIMEOUT_DEFAULT),
        };
        (name, settings)
    });
    clients.check(report, &all_scopes(&file, default_section.as_ref(), written, prompt_entries));
    let ProcessSettings { listener, admin, door, mcp, log, cache_limit_bytes } = process?;
    let place = server.as_ref().and_then(|server| server.get("listen")).or_else(|| file.get("clients"));
    let is_behind = tls.is_some() || !door.trusted_proxies.is_empty();
    clients.warn_of_open_port(report, place.map_or(root.span, |node| node.span), &listener, is_behind);
    let telemetry = telemetry?;
    check_needs(report, &names, &admin.settings.ready_needs, needs_place);
    (report.errors() == 0).then(|| Loaded {
        importer: Importer::new(root.clone(), presets, &upstreams),
        listener,
        admin,
        tls,
        door,
        access: clients.access,
        mcp: McpSettings { peer_tls, ..mcp },
        log,
        telemetry,
        cache_limit_bytes,
        shared,
        upstreams,
        passthrough,
        passthrough_scopes,
        routes,
        prompts,
        shown: Arc::new(shown::shown(&root)),
        named_files: Vec::new(),
        warnings: Vec::new(),
    })
}

/// What `admin.ready_needs` names has to be there, whoever said it.
fn check_needs(report: &Report<'_>, known: &[(UpstreamName, Span)], needs: &[String], place: Option<Span>) {
    for name in needs.iter().filter(|name| *name != "*") {
        if known.iter().any(|(known, _)| known.as_str() == name) {
            continue;
        }
        let message = format!("unknown upstream `{name}`");
        let help = suggest::help(name, "known upstreams", known.iter().map(|(name, _)| name.as_str()));
        match place {
            Some(span) => report.error(span, message, help),
            None => report.add(Problem::of_whole("admin.ready_needs", message, help)),
        }
    }
}

/// `passthrough`: the name of an upstream, or a map with how patiently.
fn read_passthrough(
    report: &Report<'_>,
    file: &Section<'_, '_>,
    names: &[(UpstreamName, Span)],
    upstreams: &[UpstreamFile],
    clients: &clients::Written,
) -> (Option<UpstreamName>, Option<Duration>, Scopes) {
    let Some(node) = file.get("passthrough") else { return (None, None, Scopes::default()) };
    let section = match &node.kind {
        Kind::Map(_) => file.section("passthrough", &PASSTHROUGH),
        _ => None,
    };
    let (name, idle) = match &section {
        None => (Some(node), None),
        Some(section) => {
            (section.required("upstream", "write `upstream: NAME`"), section.duration("idle_timeout"))
        }
    };
    let text = name.and_then(|node| Some((node, section::text_of(report, node, "`passthrough`")?)));
    let scopes = section.as_ref().and_then(clients::scopes);
    let says_scopes = section.as_ref().is_some_and(|section| section.get("scopes").is_some());
    if clients.access.is_some() && !says_scopes {
        let message = "`passthrough` does not say which clients may use it";
        let help = "write `passthrough: { upstream: NAME, scopes: [legacy] }`, or `scopes: []` for all that are known";
        report.error(node.span, message, help);
    }
    let upstream = text.and_then(|(node, name)| passthrough_of(report, names, upstreams, node, name));
    (upstream, idle, scopes.unwrap_or_default())
}

/// Every `scopes` that says what a caller needs.
fn all_scopes<'n>(
    file: &Section<'n, '_>,
    defaults: Option<&Section<'n, '_>>,
    routes: &'n [Entry],
    prompts: &'n [Entry],
) -> Vec<&'n Node> {
    let of_section = defaults.and_then(|section| section.get("scopes"));
    let of_passthrough = file.get("passthrough").and_then(|node| node.get("scopes"));
    let written = routes.iter().chain(prompts).filter_map(|entry| entry.value.get("scopes"));
    of_section.into_iter().chain(of_passthrough).chain(written).collect()
}

/// Who gets every path that is no route: somebody that speaks HTTP.
fn passthrough_of(
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
        report.error(node.span, message, "name an upstream with a `url`, or write routes for it");
        return None;
    }
    Some(found)
}

/// One tree of all files: sections are joined, and a name in two files is a problem.
fn merge(report: &Report<'_>, trees: Vec<Node>) -> Option<Node> {
    let mut merged: Option<(Span, Vec<Entry>)> = None;
    for tree in trees {
        let Kind::Map(entries) = tree.kind else {
            let help = "the file begins with keys: `upstreams:`, `routes:`";
            report.error(
                tree.span,
                format!("expected a map with the keys of the file, found {}", tree.found()),
                help,
            );
            continue;
        };
        match &mut merged {
            None => merged = Some((tree.span, entries)),
            Some((_, known)) => join(report, known, entries, true),
        }
    }
    merged.map(|(span, entries)| Node { span, kind: Kind::Map(entries), secret: false })
}

fn join(report: &Report<'_>, known: &mut Vec<Entry>, more: Vec<Entry>, sections: bool) {
    let mut places: HashMap<String, usize> =
        known.iter().enumerate().map(|(index, entry)| (entry.key.text.clone(), index)).collect();
    for entry in more {
        let Some(&index) = places.get(&entry.key.text) else {
            places.insert(entry.key.text.clone(), known.len());
            known.push(entry);
            continue;
        };
        let first = &mut known[index];
        match (&mut first.value.kind, entry.value.kind) {
            (Kind::Map(known), Kind::Map(more)) if sections => join(report, known, more, false),
            // Each file says for itself what it is written in.
            _ if sections && first.key.text == version::KEY => {}
            _ => {
                let message = format!(
                    "`{}` is in two files; the other is {}",
                    entry.key.text,
                    report.place(first.key.span)
                );
                report.error(entry.key.span, message, "keep one of them, or give one another name");
            }
        }
    }
}

/// What `defaults` says of routes and of upstreams.
pub(super) fn defaults(section: &Section<'_, '_>) -> (RouteDefaults, UpstreamDefaults) {
    let upstreams = UpstreamDefaults {
        connect_timeout: section.duration("connect_timeout"),
        policy: upstreams::policies::read(section, PolicySettings::default()),
        in_flight: section.count("in_flight").and_then(|count| usize::try_from(count).ok()),
    };
    (route_defaults(section), upstreams)
}

fn route_defaults(section: &Section<'_, '_>) -> RouteDefaults {
    let own = RouteDefaults::default();
    for (node, text) in section.texts("forward_headers").unwrap_or_default() {
        if text.eq_ignore_ascii_case("authorization") {
            upstreams::auth::warn_of_passing_on(section.report, node);
        }
    }
    RouteDefaults {
        deadline: section.duration("deadline").unwrap_or(own.deadline),
        reply_limit_bytes: section.size("reply_limit").unwrap_or(own.reply_limit_bytes),
        value_limit: section
            .count("value_limit")
            .and_then(|count| usize::try_from(count).ok())
            .unwrap_or(own.value_limit),
        error_text_bytes: section.size("error_text_limit").unwrap_or(own.error_text_bytes),
        envelope: routes::envelope(section).unwrap_or(own.envelope),
        error_status: routes::error_status(section).unwrap_or(own.error_status),
        error_format: routes::error_format(section).unwrap_or(own.error_format),
        redaction: routes::redaction(section),
        forward_headers: routes::headers(section, "forward_headers"),
        scopes: clients::scopes(section).unwrap_or_default(),
    }
}

/// Looks at rules that no route asked for, so that what is wrong with them is told all the same.
fn read_unused(report: &Report<'_>, rules: &RuleSets<'_>, default_reply: Option<&Entry>) {
    // What could not be read may be what uses them.
    if report.errors() > 0 {
        return;
    }
    if let Some(written) = default_reply.and_then(|entry| rules.expand(report, "`defaults.reply`", entry)) {
        reply::read(report, written, &mut Asked::default());
    }
    rules.check_unused(report, |report, written| {
        reply::read(report, written, &mut Asked::default());
    });
}

fn warn_unused(
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
                *span,
                format!("the upstream `{name}` is used by no route"),
                "remove it, or write a route for it",
            );
        }
    }
}

/// Routes that one request would fit, told at the later of the two.
fn refuse_conflicts(report: &Report<'_>, routes: &[RouteFile]) {
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
            report.error(span, message, "give one of them another URI");
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
        report.error(span, message, help);
    }
}

/// The path of a route's own endpoint, whatever its arguments are called.
fn shape(file: &RouteFile) -> Option<String> {
    let path = &file.route.rest.as_ref()?.path;
    let segments: Vec<&str> =
        path.split('/').map(|segment| if segment.contains('{') { "{}" } else { segment }).collect();
    Some(segments.join("/"))
}

/// Adds problems that were found before there was a report.
pub(super) fn add_all(report: &Report<'_>, problems: Vec<Problem>) {
    problems.into_iter().for_each(|problem| report.add(problem));
}
