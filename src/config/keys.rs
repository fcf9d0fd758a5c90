//! Top-level sections of the file, and the value kinds of rules.

use settings_derive::Section as DeriveSection;

use super::{
    AdminSettings, TelemetrySettings,
    compile::PassthroughSection,
    prompts::PromptSettings,
    response::RuleSettings,
    routes::{DefaultSettings, RouteSettings},
    rules::{RuleSetSettings, UseSettings},
    section::ReadElsewhere,
    server::ServerSettings,
    upstreams::UpstreamSection,
    version::VERSION,
};
use crate::{
    auth::ClientSettings,
    settings::{keys::ValueKind, section::Setting, value::Named},
    shared_state::StoreSettings,
    telemetry::log::LogSettings,
};

/// Kinds of values that `response` accepts.
pub(super) const RESPONSE: ValueKind =
    ValueKind::OneOrMore(&ValueKind::Either(&[RuleSettings::KIND, UseSettings::KIND]));

/// Kinds of values that an entry of `rules` accepts.
pub(super) static RULES_FORM: ValueKind = ValueKind::Either(&[RESPONSE, RuleSetSettings::KIND]);

/// Top-level keys of the file. Each section is parsed by its module.
#[derive(DeriveSection)]
#[section(name = "the file", id = "file")]
pub(super) struct FileSettings {
    /// Version of the configuration language.
    #[key(kind = ValueKind::Count(VERSION, VERSION), shown = "that of the program")]
    version: ReadElsewhere,
    /// Listener for clients, and limits of the process.
    #[key(kind = ServerSettings::KIND)]
    server: ReadElsewhere,
    /// Admin API: probes, metrics and the active configuration.
    #[key(kind = AdminSettings::KIND)]
    admin: ReadElsewhere,
    /// Level and format of the log.
    #[key(kind = LogSettings::KIND)]
    log: ReadElsewhere,
    /// Redis or Valkey in which replicas share limits, cached responses and subscriptions: its address, or a
    /// map.
    #[key(kind = StoreSettings::KIND)]
    shared_state: ReadElsewhere,
    /// Export of traces and metrics (OpenTelemetry).
    #[key(kind = TelemetrySettings::KIND)]
    telemetry: ReadElsewhere,
    /// Clients that may call, by name. By default, without `auth` of `server`, every client may.
    #[key(kind = <Named<ClientSettings>>::KIND)]
    clients: ReadElsewhere,
    /// Defaults of all routes and upstreams.
    #[key(kind = DefaultSettings::KIND)]
    defaults: ReadElsewhere,
    /// Named rules, which routes can use: as `response` of a route, or a map.
    #[key(kind = ValueKind::Map(&RULES_FORM))]
    rules: Named<ReadElsewhere>,
    /// Upstream servers, by name: a URL, or a map.
    #[key(kind = ValueKind::Map(&UpstreamSection::KIND))]
    upstreams: Named<ReadElsewhere>,
    /// Upstream that requests outside all routes are proxied to, unmodified.
    #[key(kind = PassthroughSection::KIND)]
    passthrough: ReadElsewhere,
    /// Routes, by name: each binds an MCP tool to an upstream request and its rules.
    #[key(kind = ValueKind::Map(&RouteSettings::KIND))]
    routes: Named<ReadElsewhere>,
    /// MCP prompts, by name.
    #[key(kind = ValueKind::Map(&PromptSettings::KIND))]
    prompts: Named<ReadElsewhere>,
}
