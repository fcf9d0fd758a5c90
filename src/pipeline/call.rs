//! What a face asks, free of any wire.

use std::net::IpAddr;

use http::HeaderMap;
use serde_json::{Map, Value};

use super::Audience;
use crate::{
    route::TraceContext,
    telemetry::{RequestId, Span},
    upstream::Caller,
};

/// One tool invocation, free of wire details.
#[derive(Debug)]
pub struct Call<'a> {
    /// The arguments, not yet checked.
    pub arguments: Map<String, Value>,
    /// The caller's headers; only those that a route allows by name go on.
    pub headers: &'a HeaderMap,
    /// What this call is named in the log and in errors.
    pub request_id: RequestId,
    /// By which way the call came in.
    pub face: Face,
    /// Who calls, as far as limits tell callers apart.
    pub caller: Caller,
    /// From where it was sent, for the log.
    pub address: Option<IpAddr>,
    /// Who is told how it goes on; nobody where there is none.
    pub audience: Option<&'a dyn Audience>,
    /// The trace that it belongs to, where that is not for its headers to say.
    pub trace: Option<TraceContext>,
    /// The revision of MCP that its client speaks; empty for other ways in.
    pub protocol: &'static str,
    /// What is told of the request that it came with, where traces are on.
    pub span: Span,
    /// The message of MCP that it came in, for whoever reads traces.
    pub message: Option<Message<'a>>,
}

/// A message of MCP, as a trace tells of it.
#[derive(Debug, Clone, Copy)]
pub struct Message<'a> {
    /// Such as `tools/call`.
    pub method: &'a str,
    /// As it came.
    pub id: &'a str,
    /// The session that it is of, where there is one. What knows it is in that session, so it is not told as it is.
    pub session: Option<&'a str>,
}

impl<'a> Call<'a> {
    /// A call of which nobody hears before its result, and whose trace its headers tell.
    pub fn new(
        arguments: Map<String, Value>,
        headers: &'a HeaderMap,
        request_id: RequestId,
        face: Face,
        caller: Caller,
    ) -> Self {
        let (span, message) = (Span::default(), None);
        Self {
            arguments,
            headers,
            request_id,
            face,
            address: None,
            caller,
            audience: None,
            trace: None,
            protocol: "",
            span,
            message,
        }
    }
}

/// A way in, as the log names it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Face {
    /// Plain HTTP.
    Rest,
    /// The Model Context Protocol over HTTP.
    Mcp,
    /// The same over the pipes of this process.
    Stdio,
    /// REST or MCP, through a web server that starts the program.
    Cgi,
}

impl Face {
    /// Such as `rest`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Rest => "rest",
            Self::Mcp => "mcp",
            Self::Stdio => "stdio",
            Self::Cgi => "cgi",
        }
    }
}
