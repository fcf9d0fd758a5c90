//! Sends requests to legacy servers and reads their responses, whole or streamed.
//!
//! In reading order: an [`Upstream`] sends an [`UpstreamCall`] and returns the whole response, or an
//! [`UpstreamError`]; [`ProgressSender`] reports progress before, and a [`ClientIdentity`] is the client that
//! it is for. [`http`] is the kind for HTTP servers; `command` runs a [`program`] for each call, and `cgi`
//! one that expects a web server; [`mcp`] is an MCP server, whose tools are called. An [`UpstreamBuffer`]
//! limits the memory of all their responses.

mod buffer;
mod call;
mod client;
mod cgi;
mod command;
mod error;
pub mod http;
pub mod mcp;
pub mod program;
mod shared_task;

use std::sync::Arc;

use self::{
    http::{HttpSettings, HttpUpstream},
    mcp::{McpSettings, McpTransport, McpUpstream},
    program::ProgramSettings,
};
use crate::{model::UpstreamResponse, route::UpstreamName};

pub use buffer::{BodyCharge, UpstreamBuffer};
pub use call::{AttemptedEndpoints, Deadline, ProgressEvent, ProgressReceiver, ProgressSender, UpstreamCall};
pub use client::{Client, ClientIdentity, PerClientLimit, PerClientPermit};
pub use error::{Cause, ErrorProperties, RateLimitScope, Repeat, Stage, UpstreamError};
pub(crate) use shared_task::SharedTask;

/// One legacy server, of one kind or another. Clones share its connections.
///
/// It has no timeout but the one of connecting, and tries once: everything else is `policy`. Dropping the
/// future ends the request.
#[derive(Debug, Clone)]
pub enum Upstream {
    /// A server that speaks HTTP.
    Http(HttpUpstream),
    /// A command.
    Command(Arc<ProgramSettings>),
    /// A CGI program.
    Cgi(Arc<ProgramSettings>),
    /// An MCP server.
    Mcp(McpUpstream),
}

/// What one legacy server is, and how it is reached.
#[derive(Debug, Clone, PartialEq)]
pub enum UpstreamSettings {
    /// A server that speaks HTTP.
    Http(Box<HttpSettings>),
    /// A command.
    Command(ProgramSettings),
    /// A CGI program.
    Cgi(ProgramSettings),
    /// An MCP server.
    Mcp(McpSettings),
}

impl Upstream {
    /// Makes the client; nothing is connected or started yet.
    pub fn new(settings: UpstreamSettings) -> Self {
        match settings {
            UpstreamSettings::Http(settings) => Self::Http(HttpUpstream::new(*settings)),
            UpstreamSettings::Command(settings) => Self::Command(Arc::new(settings)),
            UpstreamSettings::Cgi(settings) => Self::Cgi(Arc::new(settings)),
            UpstreamSettings::Mcp(settings) => Self::Mcp(McpUpstream::new(settings)),
        }
    }

    /// What routes call it.
    pub fn name(&self) -> &UpstreamName {
        match self {
            Self::Http(upstream) => upstream.name(),
            Self::Command(settings) | Self::Cgi(settings) => &settings.name,
            Self::Mcp(upstream) => upstream.name(),
        }
    }

    /// The client, where it speaks HTTP.
    pub fn http(&self) -> Option<&HttpUpstream> {
        match self {
            Self::Http(upstream) => Some(upstream),
            Self::Command(_) | Self::Cgi(_) | Self::Mcp(_) => None,
        }
    }

    /// The client, where it is an MCP server.
    pub fn mcp(&self) -> Option<&McpUpstream> {
        match self {
            Self::Mcp(upstream) => Some(upstream),
            Self::Http(_) | Self::Command(_) | Self::Cgi(_) => None,
        }
    }

    /// Sends a request and returns the whole response. An attempt is sent to another endpoint than those that
    /// were `tried` before for the same call. Dropping the future ends the request.
    ///
    /// # Errors
    ///
    /// [`UpstreamError`], where there is none.
    pub async fn answer(
        &self,
        upstream_call: &UpstreamCall,
        tried: &AttemptedEndpoints,
    ) -> Result<UpstreamResponse, UpstreamError> {
        match self {
            Self::Http(upstream) => upstream.attempt(upstream_call, tried).await,
            // Boxed, or calls of HTTP would be as large as these.
            Self::Command(settings) => Box::pin(command::answer(settings, upstream_call)).await,
            Self::Cgi(settings) => Box::pin(cgi::answer(settings, upstream_call)).await,
            Self::Mcp(upstream) => Box::pin(upstream.answer(upstream_call)).await,
        }
    }
}

impl UpstreamSettings {
    /// What routes call it.
    pub fn name(&self) -> &UpstreamName {
        match self {
            Self::Http(settings) => &settings.name,
            Self::Command(settings) | Self::Cgi(settings) => &settings.name,
            Self::Mcp(settings) => &settings.name,
        }
    }

    /// How an HTTP server is reached.
    pub fn http(&self) -> Option<&HttpSettings> {
        match self {
            Self::Http(settings) => Some(settings),
            Self::Command(_) | Self::Cgi(_) | Self::Mcp(_) => None,
        }
    }

    /// What is run, where it is a command.
    pub fn command(&self) -> Option<&ProgramSettings> {
        match self {
            Self::Command(settings) => Some(settings),
            Self::Http(_) | Self::Cgi(_) | Self::Mcp(_) => None,
        }
    }

    /// What MCP server it is, where it is one.
    pub fn mcp(&self) -> Option<&McpSettings> {
        match self {
            Self::Mcp(settings) => Some(settings),
            Self::Http(_) | Self::Command(_) | Self::Cgi(_) => None,
        }
    }

    /// A pattern for what no error may show of these settings; nothing where there are no secrets. It is
    /// itself not to be shown.
    pub fn secrets_pattern(&self) -> Option<String> {
        match self {
            Self::Http(settings) => settings.secrets_pattern(),
            Self::Command(settings) | Self::Cgi(settings) => settings.program.secrets_pattern(),
            Self::Mcp(settings) => match &settings.transport {
                McpTransport::Http(settings) => settings.secrets_pattern(),
                McpTransport::Child(program) => program.secrets_pattern(),
            },
        }
    }
}
