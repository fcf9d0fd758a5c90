//! Compiles the trees of all files to one configuration: merges the sections, parses every part, and
//! cross-checks the parts.
//!
//! `merge` joins the files, [`compile`] parses every part, `passthrough` is the section of that name. Checks
//! that need several parts are in `lint`.

mod merge;
mod passthrough;

use std::cell::RefCell;

pub(in crate::config) use self::{merge::merge, passthrough::PassthroughSection};
use super::{
    AdminSettings, Loaded, certificates, clients,
    code::Code,
    import::{self, Importer},
    keys::FileSettings,
    lint,
    prompts::{self, PromptFile},
    renamed::renamed_variable,
    report::Report,
    request::Upstreams,
    response,
    route_calls::RoutesOfFile,
    routes::{self, DefaultSettings, RouteContext, RouteFile},
    rules::RuleSets,
    schemas::UsedArguments,
    secret::Environment,
    section::{context, open},
    server::ServerSettings,
    source::SourceSpan,
    telemetry::TelemetrySettings,
    tree::{Entry, Node},
    upstreams::{self, UpstreamFile},
    version,
};
use crate::{
    inbound::{filter::FilterSettings, mcp::McpApiSettings},
    policy::{PassthroughSettings, PolicySettings},
    route::UpstreamName,
    settings::{
        layers::{self, ExternalSettings},
        section::{Section as _, read_section},
    },
    shared_state::StoreSettings,
    telemetry::log::LogSettings,
};

/// Compiles the trees of the files. Returns `None` after reporting the problems.
pub(in crate::config) fn compile(
    report: &Report<'_>,
    environment: &Environment,
    external: &ExternalSettings,
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
    let root = layers::merge(report, environment, root, &process_tables, external, renamed_variable);
    let file = open::<FileSettings>(report, root.span, &root)?;
    // A section that is not a map is reported here, and parsed as an empty one below.
    let _ = FileSettings::read_fields(&file, None);
    let entries_of = |name: &str| file.get(name).and_then(Node::as_map).unwrap_or_default();
    let context = context(report, environment);
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
        (None, _) => lint::process_settings::warn_of_on_store_failure(report, &root),
        (Some(entry), Some(McpApiSettings { secret_key: None, .. })) if shared.is_ok() => {
            lint::process_settings::report_missing_secret_key(report, entry);
        }
        // If `server` has errors, it is unknown whether `secret_key` is set.
        (Some(_), _) => {}
    }
    let defaults: DefaultSettings =
        read_section(context, file.entry("defaults"), root.span, "`defaults`").unwrap_or_default();
    let written_defaults = file.get("defaults").unwrap_or(&root);
    upstreams::warn_of_client_limit(report, written_defaults, &defaults.policies, PolicySettings::default());
    let default_response = node_at("defaults", "response").and_then(|_| written_defaults.entry("response"));
    let preset_entries =
        presets.and_then(|root| root.get("rules")).and_then(Node::as_map).unwrap_or_default();
    let rules = RuleSets::read(report, entries_of("rules"), preset_entries);
    let entries = entries_of("upstreams");
    let upstreams: Vec<UpstreamFile> =
        entries.iter().filter_map(|entry| upstreams::read(context, &defaults, entry)).collect();
    let names: Vec<(UpstreamName, SourceSpan)> =
        entries.iter().filter_map(|entry| Some((entry.key.text.parse().ok()?, entry.key.span))).collect();
    let auth = server.as_ref().ok().map(|server| server.auth.clone());
    let clients = clients::read(context, &root, auth, &defaults.scopes);
    let passthrough = file
        .entry("passthrough")
        .and_then(|entry| passthrough::read(context, entry, &names, &upstreams, &clients));
    let calls = RefCell::default();
    let route_context = RouteContext {
        defaults: &defaults,
        rules: &rules,
        default_response,
        upstreams: Upstreams { names: &names, files: &upstreams },
        calls: &calls,
    };
    let written = entries_of("routes");
    let mut routes: Vec<RouteFile> = Vec::with_capacity(written.len());
    routes.extend(written.iter().filter_map(|entry| routes::read(report, &route_context, entry)));
    import::check_tools(report, &root, &route_context, &upstreams);
    let known = RoutesOfFile { entries: written, parsed: &routes };
    for call in calls.borrow().iter() {
        call.check(report, known);
    }
    let prompt_entries = entries_of("prompts");
    let prompts: Vec<PromptFile> = prompt_entries
        .iter()
        .filter_map(|entry| prompts::read(report, known, &defaults.scopes, entry))
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
        report.error(Code::NoRoutes.at_span(place), "there are no routes", help);
    }
    read_unused(report, &rules, default_response.filter(|_| written.is_empty()));
    lint::upstreams::warn_of_unused(
        report,
        &names,
        &upstreams,
        &routes,
        passthrough.as_ref().map(|(name, ..)| name),
    );
    lint::conflicts::check(report, &routes);
    let body_timeout = server.as_ref().map(|server| server.filter.body_timeout);
    let passthrough_scopes = passthrough.as_ref().map(|(.., scopes)| scopes.clone()).unwrap_or_default();
    let passthrough = passthrough.map(|(name, settings, _)| {
        let upstream = upstreams.iter().find(|file| *file.settings.name() == name);
        let timeout = upstream.map_or(defaults.limits, |file| file.limits).timeout;
        let body_timeout = body_timeout.unwrap_or(FilterSettings::BODY_TIMEOUT_DEFAULT);
        (name, PassthroughSettings { timeout, body_timeout, ..settings })
    });
    lint::clients::check_scopes(&clients, report, &all_scopes(&root, &[written, prompt_entries], entries));
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
    let elsewhere = node_at("defaults", "timeout").or(shutdown_timeout).map_or(root.span, |node| node.span);
    lint::process_settings::warn_of_long_timeouts(
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
        filter,
        access: clients.access,
        mcp,
        log,
        telemetry: Box::new(telemetry),
        cache_limit_bytes: server.cache_limit_bytes,
        upstream_buffer_limit_bytes: server.upstream_buffer_limit_bytes,
        shared,
        upstreams,
        passthrough,
        passthrough_scopes,
        routes: routes.into(),
        prompts,
        named_files: Vec::new(),
        certificates,
        warnings: Vec::new(),
    })
}

/// All `scopes` that clients need, not those that they have.
fn all_scopes<'n>(root: &'n Node, named: &[&'n [Entry]], upstreams: &'n [Entry]) -> Vec<&'n Node> {
    let sections = ["defaults", "passthrough"].into_iter().filter_map(|name| root.get(name)?.get("scopes"));
    let written = named.iter().copied().flatten().filter_map(|entry| entry.value.get("scopes"));
    let offered = upstreams.iter().flat_map(|entry| {
        ["prompts", "resources"].into_iter().filter_map(|key| entry.value.get(key)?.get("scopes"))
    });
    sections.chain(written).chain(offered).collect()
}

/// Parses rules that no route uses, so that their problems are reported as well.
fn read_unused(report: &Report<'_>, rules: &RuleSets<'_>, default_response: Option<&Entry>) {
    // They may be used by a part with errors.
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
