//! Asks a legacy server and reads what it answers, whole or streamed.
//!
//! In reading order: an [`Upstream`] takes an [`Ask`] and gives the whole reply; [`UpstreamError`] says why
//! there is none; [`Meanwhile`] tells what happens before there is one, [`Caller`] for whom it is
//! ([`CallerParts`] how many of something each of them has), and [`Tried`] which addresses were asked for it;
//! a `Coming` is one question of many who wait. [`http`] is the kind that speaks HTTP; [`command`] is a
//! [`program`] that is started for each call, and [`cgi`] one that takes it for HTTP; [`mcp`] is an MCP
//! server, whose tools are called. An [`UpstreamBuffer`] limits the memory that all their responses take.

mod buffer;
mod caller;
mod callers;
pub mod cgi;
mod coming;
pub mod command;
mod error;
pub mod http;
pub mod mcp;
mod meanwhile;
pub mod program;
mod tried;

use std::time::Duration;

use tokio::time::Instant;

use self::{
    buffer::BodyAccount,
    cgi::{CgiSettings, CgiUpstream},
    command::{CommandSettings, CommandUpstream},
    http::{HttpSettings, HttpUpstream},
    mcp::{McpSettings, McpTransport, McpUpstream},
};
use crate::{
    model::Reply,
    route::{UpstreamName, UpstreamRequest},
    telemetry::Ticket,
};

pub use buffer::{BodyCharge, UpstreamBuffer};
pub use caller::{Caller, Client};
pub use callers::{CallerPart, CallerParts};
pub(crate) use coming::Coming;
pub use error::{Cause, Facts, Repeat, Stage, UpstreamError, Whose};
pub use meanwhile::{Happened, Hearing, Meanwhile};
pub use tried::Tried;

/// One legacy server, of one kind or another. Clones share its connections.
///
/// It keeps no deadline but the one of connecting, and tries once: everything else is `policy`. Dropping the future ends
/// what was asked for.
#[derive(Debug, Clone)]
pub enum Upstream {
    /// A server that speaks HTTP.
    Http(HttpUpstream),
    /// A program that is given words.
    Command(CommandUpstream),
    /// A program that is asked as a web server asks it.
    Cgi(CgiUpstream),
    /// An MCP server.
    Mcp(McpUpstream),
}

/// What one legacy server is, and how it is reached.
#[derive(Debug, Clone, PartialEq)]
pub enum UpstreamSettings {
    /// A server that speaks HTTP.
    Http(Box<HttpSettings>),
    /// A program that is given words.
    Command(CommandSettings),
    /// A program that is asked as a web server asks it.
    Cgi(CgiSettings),
    /// An MCP server.
    Mcp(McpSettings),
}

impl Upstream {
    /// Makes the client; nothing is connected or started yet.
    pub fn new(settings: UpstreamSettings) -> Self {
        match settings {
            UpstreamSettings::Http(settings) => Self::Http(HttpUpstream::new(*settings)),
            UpstreamSettings::Command(settings) => Self::Command(CommandUpstream::new(settings)),
            UpstreamSettings::Cgi(settings) => Self::Cgi(CgiUpstream::new(settings)),
            UpstreamSettings::Mcp(settings) => Self::Mcp(McpUpstream::new(settings)),
        }
    }

    /// What routes call it.
    pub fn name(&self) -> &UpstreamName {
        match self {
            Self::Http(upstream) => upstream.name(),
            Self::Command(upstream) => upstream.name(),
            Self::Cgi(upstream) => upstream.name(),
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
}

impl Upstream {
    /// Gives the whole reply. An attempt goes to another address than those that were `tried` before for the
    /// same call. Dropping the future ends what was asked for.
    ///
    /// # Errors
    ///
    /// [`UpstreamError`], where there is none.
    pub async fn answer(&self, ask: &Ask, tried: &Tried) -> Result<Reply, UpstreamError> {
        match self {
            Self::Http(upstream) => upstream.attempt(ask, tried).await,
            // Beside a program, or a session, a place of its own is nothing; all calls of HTTP would have room for it.
            Self::Command(upstream) => Box::pin(upstream.answer(ask)).await,
            Self::Cgi(upstream) => Box::pin(upstream.answer(ask)).await,
            Self::Mcp(upstream) => Box::pin(upstream.answer(ask)).await,
        }
    }
}

impl UpstreamSettings {
    /// What routes call it.
    pub fn name(&self) -> &UpstreamName {
        match self {
            Self::Http(settings) => &settings.name,
            Self::Command(settings) => &settings.name,
            Self::Cgi(settings) => &settings.name,
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
    pub fn command(&self) -> Option<&CommandSettings> {
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

    /// A pattern for what no error may tell of these settings; nothing where there is nothing to keep. It is itself not to
    /// be shown.
    pub fn secrets_pattern(&self) -> Option<String> {
        match self {
            Self::Http(settings) => settings.secrets_pattern(),
            Self::Command(settings) => settings.program.secrets_pattern(),
            Self::Cgi(settings) => settings.program.secrets_pattern(),
            Self::Mcp(settings) => match &settings.transport {
                McpTransport::Http(settings) => settings.secrets_pattern(),
                McpTransport::Child(program) => program.secrets_pattern(),
            },
        }
    }
}

/// A request, and how much time and room its reply may take.
#[derive(Debug, Clone)]
pub struct Ask {
    /// What is sent.
    pub request: UpstreamRequest,
    /// How many bytes of body are read.
    pub reply_limit_bytes: usize,
    /// When it must be over, waits and repetitions included. Kept by `policy`, not here.
    pub due: Due,
    /// Whether it does no harm to send the request a second time.
    pub repeatable: bool,
    /// Who it is sent for. For `policy`, as `due` and `repeatable` are: nothing of it is sent.
    pub caller: Caller,
    /// Who hears what happens before the reply is there; nobody where there is none.
    pub meanwhile: Option<Meanwhile>,
    /// The call that it is sent for, by its name.
    pub ticket: Ticket,
    /// How the body of its response is charged to the memory that all responses share; not at all where there is none.
    pub charge: Option<BodyCharge>,
    /// Whether the upstream is told of the trace that it is a part of, where nothing else says so.
    pub traced: bool,
}

impl Ask {
    /// A request that nobody in particular asks for, and of which nobody hears before its reply.
    pub fn new(request: UpstreamRequest, reply_limit_bytes: usize, due: Due, repeatable: bool) -> Self {
        Self {
            request,
            reply_limit_bytes,
            due,
            repeatable,
            caller: Caller::Only,
            meanwhile: None,
            ticket: Ticket::default(),
            charge: None,
            traced: false,
        }
    }

    /// A response that was read for another call, charged to this one.
    ///
    /// # Errors
    ///
    /// [`UpstreamError::BufferFull`].
    pub(crate) async fn charged(
        &self,
        reply: Reply,
        upstream: &UpstreamName,
    ) -> Result<Reply, UpstreamError> {
        match &self.charge {
            None => Ok(reply),
            Some(charge) => charge.share(reply, upstream, self.reply_limit_bytes, self.due.at).await,
        }
    }

    /// The account of its response's body.
    fn account(&self, limit_bytes: usize) -> BodyAccount<'_> {
        BodyAccount::new(self.charge.as_ref(), limit_bytes, self.due.at)
    }
}

/// The end of a call's time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Due {
    /// The end.
    pub at: Instant,
    /// How long it was from the beginning on, for whoever is told of it.
    pub after: Duration,
    /// When it would end for a caller that waits as long as it may. What is not there by then is late; before, it may be
    /// the caller that was impatient.
    pub latest: Instant,
}

impl Due {
    /// The end of a time that begins now.
    pub fn after(after: Duration) -> Self {
        let at = Instant::now() + after;
        Self { at, after, latest: at }
    }

    /// The same for a caller that waits no longer than this.
    #[must_use]
    pub fn within(self, patience: Option<Duration>) -> Self {
        match patience.filter(|patience| *patience < self.after) {
            Some(patience) => Self { at: Instant::now() + patience, after: patience, latest: self.latest },
            None => self,
        }
    }

    /// The same for all who may wait for one reply, however patient each of them is.
    #[must_use]
    pub fn for_everybody(self) -> Self {
        Self { at: self.latest, ..self }
    }
}
