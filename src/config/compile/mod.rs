//! All trees to one configuration: sections merged, every part read, the parts held against each other.
//!
//! In reading order: [`compile`] reads every part of what `merge` makes of the files; `passthrough` is who
//! gets the rest. Checks that need several parts are in `lint`.

mod merge;
mod passthrough;

use std::cell::RefCell;

pub(in crate::config) use self::merge::merge;
use super::{
    AdminSettings, Loaded, certificates, clients,
    code::Code,
    import::{self, Importer},
    keys::{DEFAULTS, FILE},
    lint,
    node::{Entry, Node},
    problem::Problem,
    prompts::{self, PromptFile},
    renamed::{self, renamed_variable, report_word},
    report::Report,
    response,
    route_calls::Routes,
    routes::{self, RouteDefaults, RouteFile, Surroundings},
    rules::RuleSets,
    schemas::UsedArguments,
    secret::Environment,
    section::{Section, report_unknown_key},
    server::ServerSettings,
    source::Span,
    telemetry::TelemetrySettings,
    upstreams::{self, UpstreamDefaults, UpstreamFile},
    version,
};
use crate::{
    inbound::{filter::FilterSettings, mcp::McpApiSettings},
    policy::{PassthroughSettings, PolicySettings},
    route::UpstreamName,
    settings::{
        layers::{self, Given},
        section::{Context, Section as _, read_section},
    },
    shared_state::StoreSettings,
    telemetry::log::LogSettings,
};

/// Compiles the files' trees. `None` when something is wrong; that has been reported then.
pub(in crate::config) fn compile(
    report: &Report<'_>,
    environment: &Environment,
    given: &Given,
    trees: Vec<Node>,
    presets: Option<&Node>,
) -> Option<Loaded> {
    version::check(report, &trees)?;
    let root = merge(report, trees)?;
    let process_tables = [
        ServerSettings::keys(),
        AdminSettings::keys(),
        LogSettings::keys(),
        TelemetrySettings::keys(),
        StoreSettings::keys(),
    ];
    let root = layers::merge(report, environment, root, &process_tables, given, renamed_variable);
    let file = Section::open(report, root.span, &root, &FILE)?;
    // It has been looked at in every file.
    let _ = file.get(version::KEY);
    let context = Context {
        report,
        environment,
        report_unknown_key,
        report_renamed_word: report_word,
        renamed_variables: renamed::variables(),
        scope: None,
    };
    let (server, admin, log) = (
        read_section::<ServerSettings>(context, file.entry("server"), root.span, "`server`"),
        read_section::<AdminSettings>(context, file.entry("admin"), root.span, "`admin`"),
        read_section::<LogSettings>(context, file.entry("log"), root.span, "`log`"),
    );
    let node_at = |section: &str, key: &str| root.get(section).and_then(|section| section.get(key));
    let telemetry =
        read_section::<TelemetrySettings>(context, file.entry("telemetry"), root.span, "`telemetry`");
    let mcp = server.as_ref().ok().map(|server| &server.mcp);
    let shared_entry = file.entry("shared_state");
    let shared = shared_entry
        .map(|entry| read_section::<StoreSettings>(context, Some(entry), root.span, "`shared_state`"))
        .transpose();
    match (shared_entry, mcp) {
        (None, _) => lint::shared_state::warn_of_on_store_failure(report, &root),
        (Some(entry), Some(McpApiSettings { secret_key: None, .. })) if shared.is_ok() => {
            lint::shared_state::report_missing_secret_key(report, entry);
        }
        // Where the settings of the server have a mistake, whether there is a secret is not known.
        (Some(_), _) => {}
    }
    let default_section = file.section("defaults", &DEFAULTS);
    let (route_defaults, upstream_defaults) = default_section.as_ref().map(defaults).unwrap_or_default();
    let default_scopes = route_defaults.scopes.clone();
    let default_response = default_section.as_ref().and_then(|section| section.entry("response"));
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
    let auth = server.as_ref().ok().map(|server| server.auth.clone());
    let clients = clients::read(context, &file, auth, &default_scopes);
    let through = passthrough::read(report, &file, &names, &upstreams, &clients);
    let calls = RefCell::default();
    let around = Surroundings {
        defaults: &route_defaults,
        rules: &rules,
        default_response,
        names: &names,
        upstreams: &upstreams,
        calls: &calls,
    };
    let written = file.map("routes").unwrap_or_default();
    let mut routes: Vec<RouteFile> = Vec::with_capacity(written.len());
    routes.extend(written.iter().filter_map(|entry| routes::read(report, &around, entry)));
    import::check_tools(report, &root, &around, &upstreams);
    let known = Routes { written, read: &routes };
    for call in calls.borrow().iter() {
        call.check(report, known);
    }
    let prompt_entries = file.map("prompts").unwrap_or_default();
    let prompts: Vec<PromptFile> = prompt_entries
        .iter()
        .filter_map(|entry| prompts::read(report, known, &default_scopes, entry))
        .collect();
    let offers =
        |file: &UpstreamFile| file.tools.is_some() || file.prompts.is_some() || file.resources.is_some();
    let lists_tools = upstreams.iter().any(offers);
    let nothing =
        written.is_empty() && prompt_entries.is_empty() && file.get("passthrough").is_none() && !lists_tools;
    if nothing && report.errors() == 0 {
        let place = file
            .entry("routes")
            .map_or_else(|| report.files().beginning(root.span.file), |entry| entry.key.span);
        let help = "write `routes: { NAME: { request: GET UPSTREAM/path } }`, or `passthrough: UPSTREAM`";
        report.error(Code::NoRoutes.at(place), "there are no routes", help);
    }
    read_unused(report, &rules, default_response.filter(|_| written.is_empty()));
    lint::upstreams::warn_of_unused(report, &names, &upstreams, &routes, through.upstream.as_ref());
    lint::conflicts::check(report, &routes);
    let body_timeout = server.as_ref().map(|server| server.filter.body_timeout);
    let passthrough = through.upstream.map(|name| {
        let upstream = upstreams.iter().find(|file| *file.settings.name() == name);
        let settings = PassthroughSettings {
            timeout: upstream.and_then(|file| file.timeout).unwrap_or(route_defaults.timeout),
            idle_timeout: through.idle_timeout.unwrap_or(PassthroughSettings::IDLE_TIMEOUT_DEFAULT),
            body_timeout: body_timeout.unwrap_or(FilterSettings::BODY_TIMEOUT_DEFAULT),
            max_in_flight: through.max_in_flight,
            max_in_flight_per_client: through.max_in_flight_per_client,
        };
        (name, settings)
    });
    lint::clients::check_scopes(
        &clients,
        report,
        &all_scopes(&file, default_section.as_ref(), &[written, prompt_entries], entries),
    );
    let (server, admin, log, telemetry) = (server.ok()?, admin.ok()?, log.ok()?, telemetry.ok()?);
    let shared = shared.ok()?;
    let ServerSettings { listener, filter, mcp, tls, .. } = server;
    let place = node_at("server", "listen").or_else(|| file.get("clients"));
    let is_behind = tls.is_some() || !filter.trusted_proxies.is_empty();
    lint::clients::warn_of_open_port(
        &clients,
        report,
        place.map_or(root.span, |node| node.span),
        &listener,
        is_behind,
    );
    let shutdown_timeout = node_at("server", "shutdown_timeout");
    let default_timeout = default_section.as_ref().and_then(|section| section.get("timeout"));
    let elsewhere = default_timeout.or(shutdown_timeout).map_or(root.span, |node| node.span);
    lint::shutdown::warn_of_long_timeouts(
        report,
        listener.shutdown_timeout,
        &routes,
        (written, entries),
        elsewhere,
    );
    let certificates = certificates::read(report, &root);
    let needs_place = node_at("admin", "readiness_upstreams").map(|node| node.span);
    lint::upstreams::check_readiness(report, &names, &admin.readiness_upstreams, needs_place);
    (report.errors() == 0).then(|| Loaded {
        importer: Importer::new(&upstreams),
        listener,
        admin,
        tls,
        door: filter,
        access: clients.access,
        mcp,
        log,
        telemetry: Box::new(telemetry),
        cache_limit_bytes: server.cache_limit_bytes,
        upstream_buffer_limit_bytes: server.upstream_buffer_limit_bytes,
        shared,
        upstreams,
        passthrough,
        passthrough_scopes: through.scopes,
        routes: routes.into(),
        prompts,
        named_files: Vec::new(),
        certificates,
        warnings: Vec::new(),
        notes: Vec::new(),
    })
}

/// Every `scopes` that says what a caller needs.
fn all_scopes<'n>(
    file: &Section<'n, '_>,
    defaults: Option<&Section<'n, '_>>,
    named: &[&'n [Entry]],
    upstreams: &'n [Entry],
) -> Vec<&'n Node> {
    let of_section = defaults.and_then(|section| section.get("scopes"));
    let of_passthrough = file.get("passthrough").and_then(|node| node.get("scopes"));
    let written = named.iter().copied().flatten().filter_map(|entry| entry.value.get("scopes"));
    let offered = upstreams.iter().flat_map(|entry| {
        ["prompts", "resources"].into_iter().filter_map(|key| entry.value.get(key)?.get("scopes"))
    });
    of_section.into_iter().chain(of_passthrough).chain(written).chain(offered).collect()
}

/// What `defaults` says of routes and of upstreams.
pub(in crate::config) fn defaults(section: &Section<'_, '_>) -> (RouteDefaults, UpstreamDefaults) {
    let upstreams = UpstreamDefaults {
        connect_timeout: section.duration("connect_timeout"),
        policy: upstreams::policies::read(section, PolicySettings::default()),
        max_in_flight: section.count("max_in_flight").and_then(|count| usize::try_from(count).ok()),
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
        timeout: section.duration("timeout").unwrap_or(own.timeout),
        response_limit_bytes: section.size("response_limit").unwrap_or(own.response_limit_bytes),
        max_values: section
            .count("max_values")
            .and_then(|count| usize::try_from(count).ok())
            .unwrap_or(own.max_values),
        error_text_bytes: section.size("error_text_limit").unwrap_or(own.error_text_bytes),
        envelope: routes::envelope(section).unwrap_or(own.envelope),
        error_status: routes::error_status(section).unwrap_or(own.error_status),
        error_format: routes::error_format(section).unwrap_or(own.error_format),
        redaction: routes::redaction(section),
        forward_headers: routes::headers(section, "forward_headers"),
        scopes: clients::scopes(section).unwrap_or_default(),
    }
}

/// Reads rules that no route uses, so that their problems are reported, too.
fn read_unused(report: &Report<'_>, rules: &RuleSets<'_>, default_response: Option<&Entry>) {
    // What could not be read may be what uses them.
    if report.errors() > 0 {
        return;
    }
    if let Some(written) =
        default_response.and_then(|entry| rules.expand(report, "`defaults.response`", entry))
    {
        response::read(report, written, &mut UsedArguments::default());
    }
    rules.check_unused(report, |report, written| {
        response::read(report, written, &mut UsedArguments::default());
    });
}

/// Adds problems that were found before there was a report.
pub(in crate::config) fn add_all(report: &Report<'_>, problems: Vec<Problem>) {
    problems.into_iter().for_each(|problem| report.add(problem));
}
