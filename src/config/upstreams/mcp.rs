//! MCP upstreams: a server with an address, or one that is started as a child process.

use crate::settings::code::Code;
use settings_derive::Section as DeriveSection;

use super::{
    addresses::Addresses,
    program::{self, CommandLine, Directory, EnvSettings},
};
use crate::{
    config::tree::Kind,
    settings::{
        keys::ValueKind,
        section::{Checked, Cursor, Invalid, ReadContext, Setting},
    },
    upstream::program::Program,
};

/// Location of an MCP server.
pub(super) enum McpServer {
    At(Addresses),
    Child(McpChild),
}

/// MCP server that is started as a child process.
#[derive(DeriveSection)]
#[section(name = "`mcp`", id = "mcp_child")]
pub(super) struct McpChild {
    /// Program with its arguments, started without a shell.
    #[key(example = "command: [npx, -y, NAME]")]
    command: CommandLine,
    /// Working directory of the program. Default `/`.
    cwd: Option<Directory>,
    /// Environment variables of the program, in addition to `PATH`, `HOME` and a locale.
    #[key(default = EnvSettings::default())]
    env: EnvSettings,
}

impl Setting for McpServer {
    const KIND: ValueKind = ValueKind::Either(&[ValueKind::Text, McpChild::KIND]);

    fn read(value: &Cursor<'_>) -> Checked<Self> {
        match &value.node.kind {
            Kind::Map(_) => McpChild::read(value).map(Self::Child),
            Kind::Text(_) => Addresses::read(value).map(Self::At),
            _ => {
                let message = format!("`mcp` must be a URL or a map, found {}", value.node.found());
                let help = "write `mcp: http://127.0.0.1:3000/mcp`, or `mcp: { command: [npx, -y, NAME] }`";
                value.reject(Invalid::new(message, help).with_code(Code::WrongType))
            }
        }
    }
}

impl McpChild {
    /// Creates the program, with `HOME` in its environment: servers that download themselves (such as by
    /// `npx`) use it as their cache.
    pub(super) fn program(self, context: ReadContext<'_>) -> Option<Program> {
        const HOME: &str = "HOME";
        let mut program = program::command(context, self.command, self.cwd, self.env)?;
        if let Some(home) = context.environment.get(HOME)
            && !program.environment.iter().any(|(name, _)| name == HOME)
        {
            program.environment.push((HOME.to_owned(), home.to_owned()));
        }
        Some(program)
    }
}
