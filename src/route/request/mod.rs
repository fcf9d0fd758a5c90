//! Arguments to what an upstream is asked, in the words of its kind.
//!
//! `http` for those that speak HTTP, `command` for programs, `tool` for MCP servers; `filling` puts the arguments of one
//! call in.

mod command;
mod filling;
mod http;
mod tool;

use ::http::HeaderMap;

use crate::tool::Arguments;

pub use self::{
    command::{CommandRequest, CommandTemplate, WordTemplate},
    http::{BodyTemplate, HttpRequest, HttpTemplate, JsonTemplate, Under, ValueTemplate},
    tool::{Effect, ToolRequest, ToolTemplate},
};

/// How what the upstream is asked is made of a call's arguments.
#[derive(Debug)]
pub enum RequestTemplate {
    /// By HTTP, or by a CGI program that takes it for HTTP.
    Http(HttpTemplate),
    /// As the words of a command.
    Command(CommandTemplate),
    /// By a call of an MCP server's tool.
    Tool(ToolTemplate),
}

/// What an upstream is asked. Two are equal when all that is sent is the same.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum UpstreamRequest {
    /// By HTTP, or by a CGI program that takes it for HTTP.
    Http(HttpRequest),
    /// As the words of a command.
    Command(CommandRequest),
    /// By a call of an MCP server's tool.
    Tool(ToolRequest),
}

/// Why arguments can't be put into a request. The text is for the model.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct RequestError(String);

impl RequestError {
    pub(super) fn new(sentence: &str) -> Self {
        Self(sentence.to_owned())
    }
}

impl RequestTemplate {
    /// Makes the request of a call; `caller` are the headers that the client sent.
    ///
    /// # Errors
    ///
    /// [`RequestError`] when an argument is missing or can't be written where it belongs.
    pub fn build(&self, arguments: &Arguments, caller: &HeaderMap) -> Result<UpstreamRequest, RequestError> {
        match self {
            Self::Http(template) => template.build(arguments, caller).map(UpstreamRequest::Http),
            Self::Command(template) => template.build(arguments).map(UpstreamRequest::Command),
            Self::Tool(template) => template.build(arguments, caller).map(UpstreamRequest::Tool),
        }
    }

    /// Whether it only reads (RFC 9110, section 9.2.1).
    pub fn is_safe(&self) -> bool {
        match self {
            Self::Http(template) => template.method.is_safe(),
            // What a command does, only its author knows.
            Self::Command(_) => false,
            Self::Tool(template) => template.effect == Effect::ReadOnly,
        }
    }

    /// Whether asking twice does what asking once does (RFC 9110, section 9.2.2).
    pub fn is_idempotent(&self) -> bool {
        match self {
            Self::Http(template) => template.method.is_idempotent(),
            Self::Command(_) => false,
            Self::Tool(template) => template.effect >= Effect::Idempotent,
        }
    }

    /// Such as `` `POST` request``.
    pub fn in_words(&self) -> String {
        match self {
            Self::Http(template) => format!("`{}` request", template.method),
            Self::Command(_) => "command".to_owned(),
            Self::Tool(template) => format!("call of `{}`", template.tool),
        }
    }

    /// The tool that it calls, where it calls one.
    pub fn tool(&self) -> Option<&ToolTemplate> {
        match self {
            Self::Tool(template) => Some(template),
            Self::Http(_) | Self::Command(_) => None,
        }
    }

    /// Whether headers of the caller are in it.
    pub fn forwards_headers(&self) -> bool {
        match self {
            Self::Http(template) => !template.forwarded.is_empty(),
            Self::Command(_) => false,
            Self::Tool(template) => !template.forwarded.is_empty(),
        }
    }
}

impl UpstreamRequest {
    /// Whether it only reads (RFC 9110, section 9.2.1).
    pub fn is_safe(&self) -> bool {
        match self {
            Self::Http(request) => request.method.is_safe(),
            Self::Command(_) => false,
            Self::Tool(request) => request.effect == Effect::ReadOnly,
        }
    }

    /// Whether asking twice does what asking once does (RFC 9110, section 9.2.2).
    pub fn is_idempotent(&self) -> bool {
        match self {
            Self::Http(request) => request.method.is_idempotent(),
            Self::Command(_) => false,
            Self::Tool(request) => request.effect >= Effect::Idempotent,
        }
    }

    /// About how many bytes of memory it takes, beside its own size.
    pub fn bytes(&self) -> usize {
        match self {
            Self::Http(request) => request.bytes(),
            Self::Command(request) => request.bytes(),
            Self::Tool(request) => request.bytes(),
        }
    }

    /// Where a header can be added, for what has any.
    pub fn headers_mut(&mut self) -> Option<&mut HeaderMap> {
        match self {
            Self::Http(request) => Some(&mut request.headers),
            Self::Command(_) => None,
            Self::Tool(request) => Some(&mut request.headers),
        }
    }
}

impl From<HttpRequest> for UpstreamRequest {
    fn from(request: HttpRequest) -> Self {
        Self::Http(request)
    }
}

impl From<ToolRequest> for UpstreamRequest {
    fn from(request: ToolRequest) -> Self {
        Self::Tool(request)
    }
}

impl From<HttpTemplate> for RequestTemplate {
    fn from(template: HttpTemplate) -> Self {
        Self::Http(template)
    }
}
