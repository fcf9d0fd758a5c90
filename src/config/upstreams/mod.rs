//! `upstreams`: where the legacy servers are, and how each is asked.
//!
//! What holds for every kind of upstream is read here, with its `policies`; `http` reads what one is that
//! speaks HTTP, with its `addresses` and its `credentials`; `program` what is started, for commands and CGI;
//! `mcp` what is an MCP server, with its `tools`, prompts and resources.

mod addresses;
pub(super) mod auth;
pub(super) mod http;
mod mcp;
pub(super) mod route_policies;
pub(super) mod policies;
mod program;
pub(super) mod tools;

use std::{sync::Arc, time::Duration};

use ::http::HeaderName;

use super::{
    code::Code,
    keys::UPSTREAM,
    node::{Entry, Kind, Node},
    report::Report,
    secret::Environment,
    section::Section,
    source::Span,
};
use crate::{
    crypto::fingerprint,
    policy::PolicySettings,
    route::UpstreamName,
    translate::{Pattern, SecretPattern},
    upstream::{UpstreamSettings, mcp::WantedLists, program::ProgramSettings},
};

pub use tools::{NameRules, ToolRules};

/// One legacy server, and how carefully it is asked.
#[derive(Debug, Clone)]
pub struct UpstreamFile {
    /// What it is, and how it is reached.
    pub settings: UpstreamSettings,
    /// The guards round it.
    pub policy: PolicySettings,
    /// Fingerprint of the configuration of an upstream: the same at every replica with the same
    /// configuration.
    pub identity: Arc<str>,
    /// Matches the secrets of these settings, which no error may show; `None` where there are none. Compiled
    /// once: its routes share it.
    pub(super) secrets: Option<SecretPattern>,
    /// Which of its tools are listed, and as what; of an MCP server only.
    pub tools: Option<ToolRules>,
    /// Which of its prompts are offered; of an MCP server only.
    pub prompts: Option<NameRules>,
    /// Which of its resources are; of an MCP server only.
    pub resources: Option<NameRules>,
    /// What its routes take where they say nothing.
    pub(super) timeout: Option<Duration>,
    pub(super) response_limit_bytes: Option<usize>,
    pub(super) max_values: Option<usize>,
    pub(super) error_text_bytes: Option<usize>,
}

impl UpstreamFile {
    /// Which lists an MCP server is asked for.
    pub fn wanted_lists(&self) -> WantedLists {
        WantedLists { prompts: self.prompts.is_some(), resources: self.resources.is_some() }
    }
}

/// What upstreams take where they say nothing.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct UpstreamDefaults {
    pub(super) connect_timeout: Option<Duration>,
    pub(super) policy: PolicySettings,
    /// How many calls one gets at once, where somebody said it.
    pub(super) max_in_flight: Option<usize>,
}

/// Headers that belong to the message or the connection, not to whoever writes a file.
pub(super) const OWN_HEADERS: [&str; 9] = [
    "connection",
    "content-length",
    "host",
    "keep-alive",
    "proxy-connection",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
];

/// Reads one upstream. `None` when something is wrong with it; that has been reported then.
pub(super) fn read(
    report: &Report<'_>,
    environment: &Environment,
    defaults: UpstreamDefaults,
    entry: &Entry,
) -> Option<UpstreamFile> {
    let name = match entry.key.text.parse::<UpstreamName>() {
        Ok(name) => Some(name),
        Err(error) => {
            report.error(
                Code::InvalidName.at(entry.key.span),
                error.to_string(),
                "the name is yours to choose: `weather`, `billing-v1`",
            );
            None
        }
    };
    if let Some(text) = entry.value.as_text() {
        let settings = http::line(report, environment, defaults, &entry.value, text)?;
        let settings = UpstreamSettings::Http(Box::new(settings(name?)));
        return Some(UpstreamFile {
            secrets: secrets(report, entry, &settings)?,
            settings,
            identity: identity(environment, entry),
            policy: defaults.policy,
            tools: None,
            prompts: None,
            resources: None,
            timeout: None,
            response_limit_bytes: None,
            max_values: None,
            error_text_bytes: None,
        });
    }
    if !matches!(entry.value.kind, Kind::Map(_)) {
        let message = format!("an upstream is a URL or a map, found {}", entry.value.found());
        report.error(Code::WrongType.at(entry.value.span), message, "write `NAME: http://127.0.0.1:9000`");
        return None;
    }
    let section = Section::open(report, entry.key.span, &entry.value, &UPSTREAM)?;
    let kind = UpstreamKind::of(&section)?;
    let mut base = defaults.policy;
    if matches!(kind, UpstreamKind::Command | UpstreamKind::Cgi) {
        base.max_in_flight = defaults.max_in_flight.unwrap_or(PolicySettings::MAX_IN_FLIGHT_OF_PROGRAMS);
    }
    let policy = policies::read(&section, base);
    let (timeout, response_limit_bytes) = (section.duration("timeout"), section.size("response_limit"));
    let max_values = section.count("max_values").and_then(|count| usize::try_from(count).ok());
    let settings = match kind {
        UpstreamKind::Http => {
            let settings = http::read(&section, environment, defaults, &policy)?;
            UpstreamSettings::Http(Box::new(settings(name?)))
        }
        UpstreamKind::Command => {
            let program = program::command(&section, environment)?;
            UpstreamSettings::Command(ProgramSettings { name: name?, program })
        }
        UpstreamKind::Cgi => {
            let program = program::cgi(&section, environment)?;
            UpstreamSettings::Cgi(ProgramSettings { name: name?, program })
        }
        UpstreamKind::Mcp => {
            UpstreamSettings::Mcp(mcp::read(&section, name, environment, defaults, &policy)?)
        }
    };
    let (mut tools, mut prompts, mut resources) = (None, None, None);
    if kind == UpstreamKind::Mcp {
        let read = tools::read(&section);
        let is_default = read.as_ref().is_none_or(Option::is_some);
        let offered = |name| tools::read_offered(&section, name, is_default);
        let (of_prompts, of_resources) = (offered("prompts"), offered("resources"));
        (tools, prompts, resources) = (read?, of_prompts?, of_resources?);
    }
    let identity = identity(environment, entry);
    let error_text_bytes = section.size("error_text_limit");
    Some(UpstreamFile {
        secrets: secrets(report, entry, &settings)?,
        settings,
        policy,
        identity,
        tools,
        prompts,
        resources,
        timeout,
        response_limit_bytes,
        max_values,
        error_text_bytes,
    })
}

/// The pattern of the secrets of an upstream's settings: `Some(None)` where there are none, `None` where it
/// would be too large, which is reported.
fn secrets(report: &Report<'_>, entry: &Entry, settings: &UpstreamSettings) -> Option<Option<SecretPattern>> {
    let Some(source) = settings.secrets_pattern() else { return Some(None) };
    let pattern = Pattern::from_literals(&source).ok().and_then(|pattern| SecretPattern::new(&pattern).ok());
    if pattern.is_none() {
        report.error(
            Code::SecretTooLong.at(entry.key.span),
            "a secret of this upstream is too long to be kept out of errors",
            "look at the files and variables that it comes from: it is text of some hundred characters",
        );
    }
    pattern.map(Some)
}

/// A fingerprint of what is written of an upstream, with the variables that it names put beside it. What is
/// in a file that it names may be another thing tomorrow, and it is the same upstream.
fn identity(environment: &Environment, entry: &Entry) -> Arc<str> {
    let written = serde_json::json!([entry.key.text, entry.value.to_json()]).to_string();
    let named = written.split("${").skip(1).filter_map(|rest| {
        let name = rest.split(|c: char| !(c.is_ascii_alphanumeric() || c == '_')).next()?;
        Some(environment.get(name).unwrap_or_default())
    });
    let all = std::iter::once(written.as_str()).chain(named).collect::<Vec<_>>().join("\n");
    fingerprint(all.as_bytes()).into()
}

/// Keys that are for an address.
pub(super) const OF_ADDRESSES: [&str; 9] = [
    "outlier_detection",
    "health_check",
    "dns_refresh_interval",
    "protocol",
    "tls",
    "connect_timeout",
    "headers",
    "credentials",
    "max_redirects",
];

/// Those for a program.
const OF_PROGRAMS: [&str; 2] = ["cwd", "env"];

/// What kinds of upstream there are, each with a key of its own that says what it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum UpstreamKind {
    Http,
    Command,
    Cgi,
    Mcp,
}

impl UpstreamKind {
    /// The key that makes an upstream one of this kind, and those that it may have beside it.
    const KEYS: [(Self, &'static str, &'static [&'static [&'static str]]); 4] = [
        (Self::Http, "url", &[&OF_ADDRESSES]),
        (Self::Command, "command", &[&OF_PROGRAMS]),
        (Self::Cgi, "cgi", &[&OF_PROGRAMS]),
        // It may be at an address, too.
        (Self::Mcp, "mcp", &[&["tools", "prompts", "resources"], &OF_ADDRESSES]),
    ];

    /// The kind of an upstream; that of HTTP where nothing says it. Keys that are for another kind are
    /// refused.
    fn of(section: &Section<'_, '_>) -> Option<Self> {
        let before = section.report.errors();
        let mut kinds = Self::KEYS.into_iter().filter(|(_, key, _)| section.get(key).is_some());
        let (kind, key, own) = kinds.next().unwrap_or(Self::KEYS[0]);
        let others = Self::KEYS.into_iter().filter(|(other, ..)| *other != kind);
        let mut refused: Vec<&'static str> =
            others.flat_map(|(_, key, beside)| std::iter::once(key).chain(beside.concat())).collect();
        refused.retain(|name| !own.concat().contains(name));
        refused.sort_unstable();
        refused.dedup();
        section.refuse_beside(&refused, key);
        (section.report.errors() == before).then_some(kind)
    }
}

/// The name of a header that a file may set or let through.
pub(super) fn header_name(report: &Report<'_>, text: &str, span: Span) -> Option<HeaderName> {
    let Ok(name) = text.parse::<HeaderName>() else {
        report.error(
            Code::InvalidName.at(span),
            format!("`{text}` is not a header name"),
            "write letters, digits and `-`: `X-Request-Id`",
        );
        return None;
    };
    if OWN_HEADERS.contains(&name.as_str()) {
        let message =
            format!("the header `{name}` belongs to the connection and is written by the proxy itself");
        report.error(Code::ReservedHeader.at(span), message, "leave it out");
        return None;
    }
    Some(name)
}

/// A text, number or flag, as text.
pub(super) fn scalar(report: &Report<'_>, node: &Node, what: &str) -> Option<String> {
    let text = node.scalar();
    if text.is_none() {
        report.error(
            Code::WrongType.at(node.span),
            format!("{what} takes a text, found {}", node.found()),
            None,
        );
    }
    text
}
