//! JSON-RPC errors: reason, code, HTTP status by revision, message and data; and counters of errors.

use std::borrow::Cow;

use http::{HeaderValue, StatusCode};
use rmcp::model::{ErrorCode, ErrorData};
use serde_json::{Value, json};

use super::protocol::MethodRow;
use super::{Rejection, Revision, tasks};
use crate::model::cut_characters;
use crate::route::ClientCapability;
use crate::telemetry::{LabelCounter, MetricsSnapshot};

/// A JSON-RPC error in response to a message.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[error("{text}")]
pub(super) struct RpcError {
    pub(super) kind: ErrorKind,
    /// The `message` of the error.
    pub(super) text: Cow<'static, str>,
    /// The `data` of the error.
    pub(super) data: Option<Box<Value>>,
    /// The value of `WWW-Authenticate`, which names the missing scopes.
    pub(super) challenge: Option<Box<HeaderValue>>,
}

/// A row in the table of errors: reason in the log, JSON-RPC code, HTTP status in legacy revisions, and HTTP
/// status since 2026-07-28. The status in legacy revisions is 200, because with another status legacy clients
/// lose the error, or their connection. Exceptions: invalid messages and headers, scopes, sessions, streams,
/// and requests that legacy clients never send.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct ErrorKind(&'static str, ErrorCode, StatusCode, StatusCode);

const OK: StatusCode = StatusCode::OK;
const BAD_REQUEST: StatusCode = StatusCode::BAD_REQUEST;
const NOT_FOUND: StatusCode = StatusCode::NOT_FOUND;
const FORBIDDEN: StatusCode = StatusCode::FORBIDDEN;
const TOO_MANY: StatusCode = StatusCode::TOO_MANY_REQUESTS;
const UNAVAILABLE: StatusCode = StatusCode::SERVICE_UNAVAILABLE;
const INVALID: ErrorCode = ErrorCode::INVALID_PARAMS;
const INTERNAL: ErrorCode = ErrorCode::INTERNAL_ERROR;
const NO_CAPABILITY: ErrorCode = ErrorCode::MISSING_REQUIRED_CLIENT_CAPABILITY;
const UNSUPPORTED_VERSION: ErrorCode = ErrorCode::UNSUPPORTED_PROTOCOL_VERSION;

impl ErrorKind {
    /// The body is not JSON.
    pub(super) const NOT_JSON: Self = Self("invalid JSON", ErrorCode::PARSE_ERROR, BAD_REQUEST, BAD_REQUEST);
    /// The body is JSON, but not one JSON-RPC message.
    pub(super) const NOT_A_MESSAGE: Self =
        Self("invalid message", ErrorCode::INVALID_REQUEST, BAD_REQUEST, BAD_REQUEST);
    /// The method does not exist, or not in this revision.
    pub(super) const UNKNOWN_METHOD: Self =
        Self("unknown method", ErrorCode::METHOD_NOT_FOUND, OK, NOT_FOUND);
    /// Invalid parameters.
    pub(super) const PARAMS: Self = Self("invalid parameters", INVALID, OK, BAD_REQUEST);
    /// The tool of a well-formed request is unknown.
    pub(super) const UNKNOWN_TOOL: Self = Self("unknown tool", INVALID, OK, OK);
    /// The prompt of a well-formed request is unknown.
    pub(super) const UNKNOWN_PROMPT: Self = Self("unknown prompt", INVALID, OK, OK);
    /// The resource template of a completion request is unknown.
    pub(super) const UNKNOWN_TEMPLATE: Self = Self("unknown resource template", INVALID, OK, OK);
    /// The arguments of a prompt are invalid.
    pub(super) const PROMPT_ARGUMENTS: Self = Self("invalid prompt arguments", INVALID, OK, OK);
    /// Building a prompt or a completion failed, but not because of the client.
    pub(super) const PROMPT_FAILED: Self = Self("prompt or completion failed", INTERNAL, OK, OK);
    /// The resource is unknown. According to SEP-2164, that is an invalid parameter.
    pub(super) const UNKNOWN_RESOURCE: Self = Self("unknown resource", INVALID, OK, OK);
    /// The URI matches a resource template, but the arguments in it are invalid.
    pub(super) const RESOURCE_ARGUMENTS: Self = Self("invalid resource arguments", INVALID, OK, OK);
    /// The resource can't be read at present.
    pub(super) const RESOURCE_FAILED: Self = Self("resource can't be read", INTERNAL, OK, OK);
    /// The cursor of a list is unknown.
    pub(super) const UNKNOWN_CURSOR: Self = Self("unknown cursor", INVALID, OK, OK);
    /// Too many requests are in flight on one connection.
    pub(super) const TOO_MANY_REQUESTS: Self = Self("too many requests on one connection", INTERNAL, OK, OK);
    /// HTTP headers and body disagree, or a header that repeats the body is missing.
    pub(super) const HEADER_MISMATCH: Self =
        Self("headers and body differ", ErrorCode::HEADER_MISMATCH, BAD_REQUEST, BAD_REQUEST);
    /// The tool requires tasks, which the client does not declare.
    const NEEDS_TASKS: Self = Self("client does not declare tasks", NO_CAPABILITY, BAD_REQUEST, BAD_REQUEST);
    /// The client does not declare the capability for a needed input request (revision 2026-07-28).
    const CAPABILITY: Self = Self("client lacks a capability", NO_CAPABILITY, BAD_REQUEST, BAD_REQUEST);
    /// An unsupported revision.
    const VERSION: Self = Self("unsupported protocol version", UNSUPPORTED_VERSION, BAD_REQUEST, BAD_REQUEST);
    /// The client lacks a scope.
    pub(super) const FORBIDDEN: Self =
        Self("scope is missing", ErrorCode::INVALID_REQUEST, FORBIDDEN, FORBIDDEN);
    /// The session is unknown or has ended. A legacy client then starts a new session.
    const UNKNOWN_SESSION: Self = Self("unknown session", ErrorCode::INVALID_REQUEST, NOT_FOUND, NOT_FOUND);
    /// Too many notification streams are open. Legacy clients open such streams with `GET`.
    pub(super) const TOO_MANY_STREAMS: Self = Self("too many streams", INTERNAL, UNAVAILABLE, UNAVAILABLE);
    /// Too many notification streams of one client are open.
    pub(super) const TOO_MANY_OF_CLIENT: Self =
        Self("too many streams of one client", INTERNAL, TOO_MANY, TOO_MANY);
    /// The shutdown of the server cut off the request.
    pub(super) const SHUTTING_DOWN: Self = Self("shutting down", INTERNAL, OK, OK);

    pub(super) fn error(self, message: impl Into<Cow<'static, str>>) -> RpcError {
        RpcError { kind: self, text: message.into(), data: None, challenge: None }
    }

    /// Error for an unknown name. `list_method` is the method that lists the known names.
    pub(super) fn unknown(self, name: &str, list_method: &str) -> RpcError {
        self.error(format!("{} `{}`; `{list_method}` lists the available ones", self.0, truncated(name)))
    }
}

impl RpcError {
    pub(super) fn with_data(self, data: Value) -> Self {
        Self { data: Some(Box::new(data)), ..self }
    }

    pub(super) fn no_session() -> Self {
        let message = "this session has ended or is unknown; start another with `initialize`";
        ErrorKind::UNKNOWN_SESSION.error(message)
    }

    pub(super) fn version(requested: &str) -> Self {
        let requested = truncated(requested);
        let message = format!("protocol version `{requested}` is not supported");
        let supported = Revision::ALL.map(Revision::as_str);
        ErrorKind::VERSION.error(message).with_data(json!({ "supported": supported, "requested": requested }))
    }

    pub(super) fn needs_tasks() -> Self {
        let extension = tasks::EXTENSION;
        let message = format!("this needs the extension `{extension}`, which the client does not declare");
        ErrorKind::NEEDS_TASKS
            .error(message)
            .with_data(json!({ "requiredCapabilities": { "extensions": { extension: {} } } }))
    }

    /// Error for missing capabilities. Its data lists them in the form in which a client declares them.
    pub(super) fn capability(missing: &[ClientCapability]) -> Self {
        let mut capabilities = json!({});
        for capability in missing {
            match capability {
                ClientCapability::Form | ClientCapability::FormWithMultiSelect => {
                    capabilities["elicitation"]["form"] = json!({})
                }
                ClientCapability::Url => capabilities["elicitation"]["url"] = json!({}),
                ClientCapability::Sampling => capabilities["sampling"] = json!({}),
                ClientCapability::Roots => capabilities["roots"] = json!({}),
            }
        }
        let names = capabilities.as_object().into_iter().flatten().map(|(name, _)| format!("`{name}`"));
        let message = format!(
            "this needs capabilities that the client does not declare in \
             `io.modelcontextprotocol/clientCapabilities`: {}",
            names.collect::<Vec<_>>().join(", ")
        );
        ErrorKind::CAPABILITY.error(message).with_data(json!({ "requiredCapabilities": capabilities }))
    }

    fn code(&self, revision: Revision) -> ErrorCode {
        match revision.has_handshake() && self.kind == ErrorKind::UNKNOWN_RESOURCE {
            true => ErrorCode::RESOURCE_NOT_FOUND,
            false => self.kind.1,
        }
    }

    /// HTTP status of the error for a client of `revision`.
    pub(super) fn status(&self, revision: Revision) -> StatusCode {
        if revision.has_handshake() { self.kind.2 } else { self.kind.3 }
    }

    /// The error as a rejection, for the log and for requests without a message.
    pub(super) fn rejection(&self, revision: Revision) -> Rejection {
        Rejection::new(self.status(revision), self.kind.0, self.text.clone())
    }

    /// The error as JSON-RPC for a client of `revision`.
    pub(super) fn to_error(&self, revision: Revision) -> ErrorData {
        ErrorData::new(self.code(revision), self.text.clone(), self.data.as_deref().cloned())
    }
}

/// Counters of JSON-RPC errors, by method and code. Clones share the counters.
#[derive(Debug, Clone)]
pub(super) struct ErrorCounts(LabelCounter<(&'static str, i32)>);

impl ErrorCounts {
    /// Counts an error in response to a message with this method. An unknown or unreadable method counts as
    /// `other`, because clients can send any name.
    pub(super) fn count(&self, method: Option<&str>, error: &RpcError, revision: Revision) {
        let method = method.and_then(MethodRow::by_name).map_or(Self::OTHER, |row| row.0);
        self.0.add((method, error.code(revision).0));
    }

    const OTHER: &str = "other";

    /// Adds the counters to a metrics snapshot.
    pub(super) fn report(&self, reading: &mut MetricsSnapshot) {
        let help = "JSON-RPC errors returned to MCP clients, by method and code";
        let errors = reading.counter("glossator_mcp_errors", help);
        for ((method, code), count) in self.0.read() {
            errors.add(&[("method", method), ("code", &*code.to_string())], count);
        }
    }
}

impl Default for ErrorCounts {
    fn default() -> Self {
        // Common errors have a counter from the start, so that their first increase is visible in a rate.
        let common_errors =
            [("tools/call", ErrorCode::INVALID_PARAMS), (Self::OTHER, ErrorCode::METHOD_NOT_FOUND)];
        Self(LabelCounter::new(common_errors.map(|(method, code)| (method, code.0))))
    }
}

/// Truncates a string from a client to 100 characters, for an error message.
pub(super) fn truncated(text: &str) -> String {
    cut_characters(text, 100)
}
