//! Clients of legacy servers. A client sends a request and reads the whole response. Only passthrough streams
//! responses, through [`http`].
//!
//! - [`Upstream`] sends an [`UpstreamCall`] and returns the whole response, or a [`Failure`]: an
//!   [`UpstreamError`] without the upstream's name.
//! - [`ProgressSender`] reports progress before the response; [`ClientIdentity`] is the client of the call.
//! - [`http`] is for HTTP servers, [`program`] runs a command for each call, and `cgi` a CGI program.
//! - [`mcp`] is for MCP servers, whose tools are called.
//! - [`UpstreamBuffer`] limits the memory of the responses of all upstreams.

mod buffer;
mod call;
mod cgi;
mod error;
pub mod http;
pub mod mcp;
pub mod program;

use std::sync::Arc;

use tokio::{sync::watch, task::AbortHandle};

use self::http::{HttpSettings, HttpUpstream};
use self::mcp::{McpTransport, McpUpstream};
use self::program::Program;
use crate::route::UpstreamName;

pub use buffer::{BodyCharge, BufferState, UpstreamBuffer};
pub use call::{
    AttemptedEndpoints, Client, ClientIdentity, Deadline, ProgressEvent, ProgressReceiver, ProgressSender,
    UpstreamCall,
};
pub(crate) use error::{Evidence, QuotedSource, RequestEvidence, whole_seconds};
pub use error::{Failure, FailureStage, RETRY_WHEN_BUSY, RateLimitScope, UpstreamError, UpstreamResult};

/// Client of one legacy server, of any kind. Clones share its connections.
///
/// The client has timeouts only for single steps: connecting, a token request, the wait for memory, the start
/// of an MCP server. It sends a request again only if the upstream has probably not processed it, as on a
/// closed connection. Other timeouts and retries are in `policy`. Dropping the future of a call cancels the
/// request.
#[derive(Debug, Clone, strum::IntoStaticStr)]
#[strum(serialize_all = "lowercase")]
pub enum Upstream {
    /// HTTP server.
    Http(HttpUpstream),
    /// Program that is started for each call, with the arguments of the call in its command line.
    Command(Arc<Program>),
    /// CGI program (RFC 3875), started for each request.
    Cgi(Arc<Program>),
    /// MCP server.
    Mcp(McpUpstream),
}

/// Settings of one legacy server, of any kind.
#[derive(Debug, Clone, PartialEq)]
pub enum UpstreamSettings {
    /// HTTP server.
    Http(Box<HttpSettings>),
    /// Program that is started for each call, with the arguments of the call in its command line.
    Command(Program),
    /// CGI program (RFC 3875), started for each request.
    Cgi(Program),
    /// MCP server.
    Mcp(McpTransport),
}

impl Upstream {
    /// Creates the client, without connecting or starting a program.
    pub fn new(settings: UpstreamSettings) -> Self {
        match settings {
            UpstreamSettings::Http(settings) => Self::Http(HttpUpstream::new(*settings)),
            UpstreamSettings::Command(program) => Self::Command(Arc::new(program)),
            UpstreamSettings::Cgi(program) => Self::Cgi(Arc::new(program)),
            UpstreamSettings::Mcp(transport) => Self::Mcp(McpUpstream::new(transport)),
        }
    }

    /// Name that routes use.
    pub fn name(&self) -> &UpstreamName {
        match self {
            Self::Http(upstream) => upstream.name(),
            Self::Command(program) | Self::Cgi(program) => &program.name,
            Self::Mcp(upstream) => upstream.name(),
        }
    }

    /// HTTP client, if the upstream is an HTTP server.
    pub fn http(&self) -> Option<&HttpUpstream> {
        let Self::Http(upstream) = self else { return None };
        Some(upstream)
    }

    /// MCP client, if the upstream is an MCP server.
    pub fn mcp(&self) -> Option<&McpUpstream> {
        let Self::Mcp(upstream) = self else { return None };
        Some(upstream)
    }

    /// Sends a request and returns the whole response. If possible, the request goes to an endpoint that no
    /// earlier attempt of the same call has used. Dropping the future cancels the request.
    ///
    /// # Errors
    ///
    /// [`Failure`] if there is no response.
    pub async fn send(&self, upstream_call: &UpstreamCall) -> UpstreamResult {
        match self {
            Self::Http(upstream) => upstream.send_unnamed(upstream_call).await,
            // Boxed, because otherwise the futures of HTTP calls would be as large as those of the other
            // kinds.
            Self::Command(program) => Box::pin(program::run_command(program, upstream_call)).await,
            Self::Cgi(program) => Box::pin(cgi::run_cgi(program, upstream_call)).await,
            Self::Mcp(upstream) => Box::pin(upstream.call(upstream_call)).await,
        }
    }
}

impl UpstreamSettings {
    /// Name that routes use.
    pub fn name(&self) -> &UpstreamName {
        match self {
            Self::Http(settings) | Self::Mcp(McpTransport::Http(settings)) => &settings.name,
            Self::Command(program) | Self::Cgi(program) | Self::Mcp(McpTransport::Child(program)) => {
                &program.name
            }
        }
    }

    /// Settings of the HTTP server, if the upstream is one.
    pub fn http(&self) -> Option<&HttpSettings> {
        let Self::Http(settings) = self else { return None };
        Some(settings)
    }

    /// Settings of the command, if the upstream is one.
    pub fn command(&self) -> Option<&Program> {
        let Self::Command(program) = self else { return None };
        Some(program)
    }

    /// Regex that matches the secrets in these settings, which must not occur in errors. `None` if the
    /// settings have no secrets. The regex itself is a secret.
    pub fn secrets_pattern(&self) -> Option<String> {
        match self {
            Self::Http(settings) | Self::Mcp(McpTransport::Http(settings)) => settings.secrets_pattern(),
            Self::Command(program) | Self::Cgi(program) | Self::Mcp(McpTransport::Child(program)) => {
                program.secrets_pattern()
            }
        }
    }
}

/// Task that continues even if nothing awaits its result. Clones refer to the same task.
#[derive(Debug, Clone)]
pub(crate) struct SharedTask<T> {
    result: watch::Receiver<Option<T>>,
    task: AbortHandle,
}

impl<T: Clone + Send + Sync + 'static> SharedTask<T> {
    /// Starts a task.
    pub(crate) fn spawn(work: impl Future<Output = T> + Send + 'static) -> Self {
        let (sender, result) = watch::channel(None);
        let task = tokio::spawn(async move {
            sender.send_replace(Some(work.await));
        });
        Self { result, task: task.abort_handle() }
    }

    /// Whether the result is pending. A task that panicked has no result.
    pub(crate) fn is_running(&self) -> bool {
        self.result.has_changed().is_ok() && self.result.borrow().is_none()
    }

    /// Waits for the result. `None` if the task panicked or was aborted, or the process ends.
    pub(crate) async fn result(&self) -> Option<T> {
        let mut result = self.result.clone();
        result.wait_for(Option::is_some).await.ok().and_then(|result| result.clone())
    }

    /// Cancels the task.
    pub(crate) fn abort(&self) {
        self.task.abort();
    }
}

/// Action that runs on drop, such as when the future that holds it is cancelled.
pub(crate) struct OnDrop<F: FnOnce()>(Option<F>);

impl<F: FnOnce()> OnDrop<F> {
    /// Creates a guard that runs `action` on drop.
    pub(crate) fn new(action: F) -> Self {
        Self(Some(action))
    }

    /// Drops the action without running it.
    pub(crate) fn disarm(mut self) {
        self.0 = None;
    }
}

impl<F: FnOnce()> Drop for OnDrop<F> {
    fn drop(&mut self) {
        if let Some(action) = self.0.take() {
            action();
        }
    }
}
