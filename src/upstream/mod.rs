//! Clients of legacy servers: send a request and read the response, whole or streamed.
//!
//! - [`Upstream`] sends an [`UpstreamCall`] and returns the whole response, or a [`Failure`]: an
//!   [`UpstreamError`] without the upstream's name.
//! - [`ProgressSender`] reports progress before the response; [`ClientIdentity`] is the client of the call.
//! - [`http`] is for HTTP servers, `command` runs a [`program`] for each call, and `cgi` runs a CGI program.
//! - [`mcp`] is for MCP servers, whose tools are called.
//! - [`UpstreamBuffer`] limits the memory of all their responses.

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

use self::http::{HttpSettings, HttpUpstream};
use self::mcp::{McpTransport, McpUpstream, McpUpstreamSettings};
use self::program::ProgramSettings;
use crate::route::UpstreamName;

pub use buffer::{BodyCharge, UpstreamBuffer};
pub use call::{AttemptedEndpoints, Deadline, ProgressEvent, ProgressReceiver, ProgressSender, UpstreamCall};
pub use client::{Client, ClientIdentity};
pub use error::{
    ErrorProperties, ErrorSource, Failure, FailureStage, RETRY_WHEN_BUSY, RateLimitScope, UpstreamError,
    UpstreamResult,
};
pub(crate) use error::{Evidence, RequestEvidence};
pub(crate) use shared_task::{OnDrop, SharedTask};

/// Client of one legacy server, of any kind. Clones share its connections.
///
/// It has no timeout except that of connecting, and sends a request once. All else is in `policy`. Dropping
/// the future cancels the request.
#[derive(Debug, Clone)]
pub enum Upstream {
    /// HTTP server.
    Http(HttpUpstream),
    /// Command.
    Command(Arc<ProgramSettings>),
    /// CGI program.
    Cgi(Arc<ProgramSettings>),
    /// MCP server.
    Mcp(McpUpstream),
}

/// Settings of one legacy server, of any kind.
#[derive(Debug, Clone, PartialEq)]
pub enum UpstreamSettings {
    /// HTTP server.
    Http(Box<HttpSettings>),
    /// Command.
    Command(ProgramSettings),
    /// CGI program.
    Cgi(ProgramSettings),
    /// MCP server.
    Mcp(McpUpstreamSettings),
}

impl Upstream {
    /// Creates the client. It connects or starts nothing yet.
    pub fn new(settings: UpstreamSettings) -> Self {
        match settings {
            UpstreamSettings::Http(settings) => Self::Http(HttpUpstream::new(*settings)),
            UpstreamSettings::Command(settings) => Self::Command(Arc::new(settings)),
            UpstreamSettings::Cgi(settings) => Self::Cgi(Arc::new(settings)),
            UpstreamSettings::Mcp(settings) => Self::Mcp(McpUpstream::new(settings)),
        }
    }

    /// Name that routes use.
    pub fn name(&self) -> &UpstreamName {
        match self {
            Self::Http(upstream) => upstream.name(),
            Self::Command(settings) | Self::Cgi(settings) => &settings.name,
            Self::Mcp(upstream) => upstream.name(),
        }
    }

    /// HTTP client, if this is an HTTP server.
    pub fn http(&self) -> Option<&HttpUpstream> {
        let Self::Http(upstream) = self else { return None };
        Some(upstream)
    }

    /// MCP client, if this is an MCP server.
    pub fn mcp(&self) -> Option<&McpUpstream> {
        let Self::Mcp(upstream) = self else { return None };
        Some(upstream)
    }

    /// Sends a request and returns the whole response. The request goes to another endpoint than earlier
    /// attempts of the same call. Dropping the future cancels the request.
    ///
    /// # Errors
    ///
    /// [`Failure`] if there is no response.
    pub async fn send(&self, upstream_call: &UpstreamCall) -> UpstreamResult {
        match self {
            Self::Http(upstream) => upstream.attempt(upstream_call).await,
            // Boxed, or the futures of HTTP calls would be as large as these.
            Self::Command(settings) => Box::pin(command::run_command(settings, upstream_call)).await,
            Self::Cgi(settings) => Box::pin(cgi::run_cgi(settings, upstream_call)).await,
            Self::Mcp(upstream) => Box::pin(upstream.call(upstream_call)).await,
        }
    }
}

impl UpstreamSettings {
    /// Name that routes use.
    pub fn name(&self) -> &UpstreamName {
        match self {
            Self::Http(settings) => &settings.name,
            Self::Command(settings) | Self::Cgi(settings) => &settings.name,
            Self::Mcp(settings) => &settings.name,
        }
    }

    /// Settings of an HTTP server.
    pub fn http(&self) -> Option<&HttpSettings> {
        let Self::Http(settings) = self else { return None };
        Some(settings)
    }

    /// Settings of a command.
    pub fn command(&self) -> Option<&ProgramSettings> {
        let Self::Command(settings) = self else { return None };
        Some(settings)
    }

    /// Pattern of the secrets in these settings, which no error may show. `None` if there are none. The
    /// pattern itself is a secret.
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
