//! Compilation of the trees of all files to one configuration: [`merge`] merges the sections of the files,
//! [`compile`] parses every part. Checks that involve several parts are in `lint`.

use std::{cell::RefCell, collections::HashMap, time::Duration};

use super::mcp_import::Importer;
use super::prompts::{self, PromptSettings};
use super::renamed::renamed_variable;
use super::request::{Upstreams, upstream_names};
use super::response::RuleSettings;
use super::route_calls::RoutesOfFile;
use super::routes::{self, CompiledRoute, DefaultSettings, RouteContext, RouteSettings};
use super::rules::{RuleSetSettings, RuleSets, UseSettings};
use super::schemas::UsedArguments;
use super::section::{ReadElsewhere, context, open_section};
use super::server::ServerSettings;
use super::telemetry::TelemetrySettings;
use super::upstreams::{self, ParsedUpstream, UpstreamSection};
use super::{AdminSettings, Loaded, certificate_expiry, clients, lint, mcp_import, response};
use crate::auth::ClientSettings;
use crate::inbound::mcp::McpApiSettings;
use crate::policy::PassthroughSettings;
use crate::prompt::PromptTable;
use crate::route::UpstreamName;
use crate::settings::layers::ExternalSettings;
use crate::settings::{
    Checked, Code, Cursor, Entry, Environment, Kind, Named, Node, OpenSection, ReadContext, Report, Section,
    Setting, SourceSpan, ValueKind, layers, read_section,
};
use crate::shared_state::StoreSettings;
use crate::telemetry::log::LogSettings;

/// Key for the version of the configuration language.
pub(super) const VERSION_KEY: &str = "version";
/// Supported version. It is incremented when the meaning of existing files changes.
pub(super) const VERSION: u64 = 1;

/// Kinds of values that `response` accepts.
pub(super) const RESPONSE_KIND: ValueKind =
    ValueKind::OneOrMore(&ValueKind::Either(&[RuleSettings::KIND, UseSettings::KIND]));

/// Kinds of values that an entry of `rules` accepts.
pub(super) static RULES_KIND: ValueKind = ValueKind::Either(&[RESPONSE_KIND, RuleSetSettings::KIND]);

/// Top-level keys of the file. Each section is parsed by its module.
#[derive(Section)]
#[section(name = "the file", id = "file")]
pub(super) struct FileSettings {
    /// Version of the configuration language.
    #[key(kind = ValueKind::Count(VERSION, VERSION), shown = "that of the program")]
    version: ReadElsewhere,
    /// Listener for clients, and limits of the process.
    server: ReadElsewhere<ServerSettings>,
    /// Admin API: probes, metrics and the active configuration.
    admin: ReadElsewhere<AdminSettings>,
    /// Level and format of the log.
    log: ReadElsewhere<LogSettings>,
    /// Redis or Valkey in which replicas share limits, cached responses and subscriptions: its address, or a
    /// map.
    shared_state: ReadElsewhere<StoreSettings>,
    /// Export of traces and metrics (OpenTelemetry).
    telemetry: ReadElsewhere<TelemetrySettings>,
    /// Clients that may call, by name. By default, without `auth` of `server`, every client may.
    clients: ReadElsewhere<Named<ClientSettings>>,
    /// Defaults of all routes and upstreams.
    defaults: ReadElsewhere<DefaultSettings>,
    /// Named rules, which routes can use: as `response` of a route, or a map.
    #[key(kind = ValueKind::Map(&RULES_KIND))]
    rules: Named<ReadElsewhere>,
    /// Upstream servers, by name: a URL, or a map.
    upstreams: Named<ReadElsewhere<UpstreamSection>>,
    /// Upstream that gets every request that is not for a route, unmodified.
    passthrough: ReadElsewhere<PassthroughSection>,
    /// Routes, by name: each binds an MCP tool to an upstream request and its rules.
    routes: Named<ReadElsewhere<RouteSettings>>,
    /// MCP prompts, by name.
    prompts: Named<ReadElsewhere<PromptSettings>>,
}

/// Compiles the trees of the files. Returns `None` after reporting the problems.
pub(in crate::config) fn compile(
    report: &Report<'_>,
    environment: &Environment,
    external: &ExternalSettings,
    trees: Vec<Node>,
    presets: Option<&Node>,
) -> Option<Loaded> {
    check_version(report, &trees)?;
    let root = merge(report, trees)?;
    let process_tables = [
        ServerSettings::keys(),
        AdminSettings::keys(),
        LogSettings::keys(),
        TelemetrySettings::keys(),
        StoreSettings::keys(),
    ];
    let root = layers::merge(report, environment, root, &process_tables, external, renamed_variable);
    let file = open_section::<FileSettings>(report, root.span, &root)?;
    // A section that is not a map is reported by this call, and parsed below as if it were empty.
    let _ = FileSettings::read_fields(&file, None);
    let entries_of = |name: &str| file.get(name).and_then(Node::as_map).unwrap_or_default();
    let context = context(report, environment);
    let server: Checked<ServerSettings> = section(context, &file);
    let admin: Checked<AdminSettings> = section(context, &file);
    let log: Checked<LogSettings> = section(context, &file);
    let telemetry: Checked<TelemetrySettings> = section(context, &file);
    let mcp = server.as_ref().ok().map(|server| &server.mcp);
    let shared_entry = file.entry("shared_state");
    let shared = shared_entry.map(|_| section::<StoreSettings>(context, &file)).transpose();
    match (shared_entry, mcp) {
        (None, _) => lint::upstreams::warn_of_on_store_failure(report, &root),
        (Some(entry), Some(McpApiSettings { secret_key: None, .. })) if shared.is_ok() => {
            let message = "`shared_state` needs `server.secret_key`, which encrypts the stored data";
            let help = "write `server: { secret_key: \"${NAME}\" }`, the same on every replica; create \
                        one with `openssl rand -base64 32`";
            report.error(Code::SharedStateWithoutSecretKey.at_span(entry.key.span), message, help);
        }
        // If `server` has errors, whether `secret_key` is set is not known.
        (Some(_), _) => {}
    }
    let defaults: DefaultSettings = section(context, &file).unwrap_or_default();
    let defaults_node = file.get("defaults").unwrap_or(&root);
    upstreams::warn_of_client_limit(report, defaults_node, &defaults.policies);
    let default_response = file.get("defaults").and_then(|defaults| defaults.entry("response"));
    let rules = RuleSets::read(report, entries_of("rules"), presets);
    let entries = entries_of("upstreams");
    let upstreams: Vec<ParsedUpstream> =
        entries.iter().filter_map(|entry| upstreams::read(context, &defaults, entry)).collect();
    let names = upstream_names(entries);
    let upstreams_of_file = Upstreams { names: &names, files: &upstreams };
    let auth = server.as_ref().ok().map(|server| server.auth.clone());
    let clients = clients::read(context, &root, auth, &defaults.scopes);
    let body_timeout = server.as_ref().map_or(Duration::ZERO, |server| server.filter.body_timeout);
    let passthrough = file
        .entry("passthrough")
        .and_then(|entry| read_passthrough(context, entry, upstreams_of_file, &clients, body_timeout));
    let calls = RefCell::default();
    let route_context = RouteContext {
        defaults: &defaults,
        rules: &rules,
        default_response,
        upstreams: upstreams_of_file,
        calls: &calls,
    };
    let route_entries = entries_of("routes");
    let routes: Vec<CompiledRoute> =
        route_entries.iter().filter_map(|entry| routes::read(report, &route_context, entry)).collect();
    mcp_import::check_tools(report, &root, &route_context);
    let routes_of_file = RoutesOfFile { entries: route_entries, parsed: &routes };
    for call in calls.borrow().iter() {
        call.check(report, routes_of_file);
    }
    let prompt_entries = entries_of("prompts");
    let prompts = prompt_entries
        .iter()
        .filter_map(|entry| prompts::read(report, routes_of_file, &defaults.scopes, entry));
    let prompts: PromptTable = prompts.map(|prompt| (prompt.name.clone(), prompt.into())).collect();
    let imports_entries = upstreams.iter().any(ParsedUpstream::imports_entries);
    let has_no_routes = route_entries.is_empty()
        && prompt_entries.is_empty()
        && file.get("passthrough").is_none()
        && !imports_entries;
    if has_no_routes && report.errors() == 0 {
        let beginning = || report.files().beginning(root.span.file);
        let span = file.entry("routes").map_or_else(beginning, |entry| entry.key.span);
        let help = "write `routes: { NAME: { request: GET UPSTREAM/path } }`, or `passthrough: UPSTREAM`";
        report.error(Code::NoRoutes.at_span(span), "there are no routes", help);
    }
    // If there are errors, a route that could not be parsed may use what seems unused, or have the longest
    // timeout.
    if report.errors() == 0 {
        let passthrough_upstream = passthrough.as_ref().map(|(name, _)| name);
        lint::upstreams::warn_of_unused(report, &names, &upstreams, &routes, passthrough_upstream);
        lint::upstreams::warn_of_attempt_timeouts(report, &root, &upstreams, &routes);
        read_unused(report, &rules, default_response.filter(|_| route_entries.is_empty()));
    }
    lint::check_conflicts(report, &routes, file.get("routes").unwrap_or(&root));
    clients.check_scopes(report, &root);
    let (server, admin, log, telemetry) = (server.ok()?, admin.ok()?, log.ok()?, telemetry.ok()?);
    let shared = shared.ok()?;
    clients.warn_of_missing_tls(report, &root, &server);
    lint::upstreams::warn_of_long_timeouts(report, &root, server.listener.shutdown_timeout, &routes);
    let certificates = certificate_expiry::read(report, &root);
    let readiness = root.at_path(&["admin", "readiness_upstreams"]).unwrap_or(&root);
    for name in admin.readiness_upstreams.iter().filter(|name| *name != "*") {
        let _ = upstreams_of_file.find(report, readiness.span, name);
    }
    (report.errors() == 0).then(|| Loaded {
        importer: Importer::default(),
        server,
        admin,
        access: clients.access,
        log,
        telemetry: Box::new(telemetry),
        shared,
        upstreams,
        passthrough,
        routes: routes.into(),
        prompts,
        referenced_files: report.referenced_files(),
        certificates,
        warnings: Vec::new(),
    })
}

/// Parses a section of the file; the key is the section's identifier.
fn section<T: Section>(context: ReadContext<'_>, file: &OpenSection<'_>) -> Checked<T> {
    let keys = T::keys();
    read_section(context, file.entry(keys.id), file.value.key_span, keys.section)
}

/// Parses rules that no route uses, so that their problems are reported too.
fn read_unused(report: &Report<'_>, rules: &RuleSets<'_>, default_response: Option<&Entry>) {
    let read = |rules| response::read(report, rules, &mut UsedArguments::default());
    rules.expand(report, "`defaults.response`", default_response).map(read);
    rules.check_unused(report, |rules| drop(read(rules)));
}

/// Merges the trees of all files: sections are merged, and a name that two files define is an error.
pub(in crate::config) fn merge(report: &Report<'_>, trees: Vec<Node>) -> Option<Node> {
    let mut merged: Option<(SourceSpan, Vec<Entry>)> = None;
    for tree in trees {
        let Kind::Map(entries) = tree.kind else {
            let message = format!("expected a map with the keys of the file, found {}", tree.describe());
            let help = "write the keys of sections: `upstreams:`, `routes:`";
            report.error(Code::WrongType.at_span(tree.span), message, help);
            continue;
        };
        match &mut merged {
            None => merged = Some((tree.span, entries)),
            Some((_, merged_entries)) => join(report, merged_entries, entries, true),
        }
    }
    merged.map(|(span, entries)| Node::new(Kind::Map(entries), span))
}

fn join(report: &Report<'_>, merged: &mut Vec<Entry>, added: Vec<Entry>, are_sections: bool) {
    let mut indices: HashMap<String, usize> =
        merged.iter().enumerate().map(|(index, entry)| (entry.key.text.clone(), index)).collect();
    for entry in added {
        let Some(&index) = indices.get(&entry.key.text) else {
            indices.insert(entry.key.text.clone(), merged.len());
            merged.push(entry);
            continue;
        };
        let first = &mut merged[index];
        match (&mut first.value.kind, entry.value.kind) {
            (Kind::Map(merged), Kind::Map(added)) if are_sections => join(report, merged, added, false),
            // Every file may have its own `version`.
            _ if are_sections && first.key.text == VERSION_KEY => {}
            _ => {
                let (name, first) = (&entry.key.text, report.file_and_line(first.key.span));
                let message = format!("`{name}` is defined in two files; the other definition is at {first}");
                let help = "remove one of the two, or rename one";
                report.error(Code::DuplicateKey.at_span(entry.key.span), message, help);
            }
        }
    }
}

/// Section `passthrough`.
#[derive(Section)]
#[section(id = "passthrough", text = "upstream")]
pub(in crate::config) struct PassthroughSection {
    /// Upstream that gets every request that is not for a route.
    #[key(example = "upstream: NAME")]
    upstream: String,
    #[key(part)]
    settings: PassthroughSettings,
}

/// Parses `passthrough`. Returns `None` after reporting the problems.
fn read_passthrough(
    context: ReadContext<'_>,
    entry: &Entry,
    upstreams: Upstreams<'_>,
    clients: &clients::Clients,
    body_timeout: Duration,
) -> Option<(UpstreamName, PassthroughSettings)> {
    let (report, node) = (context.report, &entry.value);
    let value = Cursor::new(context, entry.key.span, node, "`passthrough`", PassthroughSection::KIND);
    let read = PassthroughSection::read(&value);
    if clients.are_authenticated && node.get("scopes").is_none() {
        let message = "`passthrough` needs `scopes`, because there are `clients`";
        let help = "write `passthrough: { upstream: NAME, scopes: [legacy] }`, or `scopes: []` for every \
                    authenticated client";
        report.error(Code::PassthroughWithoutScopes.at_span(node.span), message, help);
    }
    let name_node = node.get("upstream").unwrap_or(node);
    let upstream = name_node.as_text().and_then(|name| {
        let found = upstreams.find(report, name_node.span, name)?;
        let parsed = upstreams.file(&found);
        if parsed.is_some_and(|parsed| parsed.settings.http().is_none()) {
            let message = format!("`passthrough` requires an HTTP upstream, and `{name}` has no `url`");
            let help = "name an upstream with `url`, or write routes for this one";
            return report.reject(Code::WrongUpstreamKind.at_span(name_node.span), message, help);
        }
        Some(found)
    });
    let (PassthroughSection { settings, .. }, name) = (read.ok()?, upstream?);
    let ParsedUpstream { policy, limits, .. } = upstreams.file(&name)?;
    // Passthrough requests count towards the limit of the upstream.
    let limit = policy.max_in_flight();
    if let Some(entry) = node.entry("max_in_flight")
        && settings.max_in_flight.is_some_and(|max| max > limit)
    {
        let message = format!("`max_in_flight` has no effect: the limit of the upstream `{name}` is {limit}");
        let help = "write a lower limit, or raise `max_in_flight` of the upstream";
        report.warning(Code::LimitNeverReached.at_span(entry.key.span), message, help);
    }
    let settings = PassthroughSettings { timeout: limits.timeout, body_timeout, ..settings };
    Some((name, settings))
}

/// Rejects files of another version. This check comes before all others, because keys that are unknown in
/// this version may be valid in the other one. Returns `None` after reporting a problem.
fn check_version(report: &Report<'_>, trees: &[Node]) -> Option<()> {
    let errors_before = report.errors();
    for node in trees.iter().filter_map(|tree| tree.get(VERSION_KEY)) {
        let (message, help) = match &node.kind {
            Kind::Number(text) if text.parse() == Ok(VERSION) => continue,
            Kind::Number(text) if text.parse::<u64>().is_ok_and(|version| version > VERSION) => (
                format!("version {text} is not supported; this program supports version {VERSION}"),
                "install a newer glossator; the rest of this file has not been checked".to_owned(),
            ),
            _ => (
                format!("`version` must be {VERSION}, found {}", node.describe()),
                format!("write `version: {VERSION}`, or remove it"),
            ),
        };
        report.error(Code::UnsupportedVersion.at_span(node.span), message, help);
    }
    (report.errors() == errors_before).then_some(())
}
