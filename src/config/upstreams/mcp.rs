//! An upstream that is an MCP server: its address, or the program that is started.

use super::{OF_ADDRESSES, UpstreamDefaults, http, program};
use crate::settings::code::Code;
use crate::{
    config::{
        keys::MCP_CHILD,
        node::{Entry, Kind},
        secret::Environment,
        section::Section,
    },
    policy::PolicySettings,
    route::UpstreamName,
    upstream::{
        http::HttpSettings,
        mcp::{McpTransport, McpUpstreamSettings},
        program::Program,
    },
};

/// Redirects that are followed where nothing is said: many servers send `/mcp` to `/mcp/`.
const REDIRECTS: u8 = 2;

/// Reads an MCP server. `None` when something is wrong with it; that has been reported then.
pub(super) fn read(
    section: &Section<'_, '_>,
    name: Option<UpstreamName>,
    environment: &Environment,
    defaults: UpstreamDefaults,
    policy: &PolicySettings,
) -> Option<McpUpstreamSettings> {
    let entry = section.entry("mcp")?;
    if matches!(entry.value.kind, Kind::Map(_)) {
        section.refuse_beside(&OF_ADDRESSES, "mcp: { command: … }");
        let child = child(section, entry, environment)?;
        return Some(McpUpstreamSettings { name: name?, transport: McpTransport::Child(child) });
    }
    if entry.value.as_text().is_none() {
        let message = format!("`mcp` is an address or a map, found {}", entry.value.found());
        let help = "write `mcp: http://127.0.0.1:3000/mcp`, or `mcp: { command: [npx, -y, NAME] }`";
        section.report.error(Code::WrongType.at(entry.value.span), message, help);
        return None;
    }
    let says_redirects = section.get("max_redirects").is_some();
    let settings = http::read(section, environment, defaults, policy)?;
    let mut settings: HttpSettings = settings(name?);
    if !says_redirects {
        settings.max_redirects = REDIRECTS;
    }
    Some(McpUpstreamSettings {
        name: settings.name.clone(),
        transport: McpTransport::Http(Box::new(settings)),
    })
}

/// A program as commands have it. Where one is at home it sees as well: those that fetch themselves keep
/// things there.
fn child(upstream: &Section<'_, '_>, entry: &Entry, environment: &Environment) -> Option<Program> {
    const HOME: &str = "HOME";
    let section = Section::open(upstream.report, entry.key.span, &entry.value, &MCP_CHILD)?;
    section.required("command", "write `command: [npx, -y, NAME]`")?;
    let mut program = program::command(&section, environment)?;
    if let Some(home) = environment.get(HOME)
        && !program.environment.iter().any(|(name, _)| name == HOME)
    {
        program.environment.push((HOME.to_owned(), home.to_owned()));
    }
    Some(program)
}
