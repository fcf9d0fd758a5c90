//! JSON-RPC errors: reason, code, HTTP status per revision, data; and their counts.

use std::{
    borrow::Cow,
    collections::BTreeMap,
    fmt,
    sync::{Arc, Mutex, PoisonError},
};

use http::StatusCode;
use rmcp::model::{ErrorCode, ErrorData};
use serde_json::{Value, json};

use super::{
    revision::{Lifecycle, MethodRow, Revision},
    tasks,
};
use crate::{
    inbound::context::Rejection,
    pipeline::{PromptError, REQUEST_ID_META},
    route::{ClientCapability, MissingCapability, Scopes},
    telemetry::{MeterSource, MetricsSnapshot},
};

/// Why a message gets a JSON-RPC error. The text reaches the client.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(super) enum RpcError {
    /// The body is not JSON.
    #[error("the body is not JSON: {0}")]
    NotJson(String),
    /// The body is JSON, but not one JSON-RPC message.
    #[error("{0}")]
    NotAMessage(Cow<'static, str>),
    /// A method that does not exist, or not in this revision.
    #[error("method `{}` is not supported in revision {revision}", TruncatedText(method))]
    UnknownMethod { method: String, revision: Revision },
    /// Invalid parameters.
    #[error("{0}")]
    Params(Cow<'static, str>),
    /// An unknown tool in a well-formed request.
    #[error("unknown tool `{}`; `tools/list` lists the available ones", TruncatedText(tool))]
    UnknownTool { tool: String },
    /// An unknown prompt in a well-formed request.
    #[error("unknown prompt `{}`; `prompts/list` lists the available ones", TruncatedText(prompt))]
    UnknownPrompt { prompt: String },
    /// A completion for an unknown resource template.
    #[error(
        "unknown resource template `{}`; `resources/templates/list` lists the available ones",
        TruncatedText(uri)
    )]
    UnknownTemplate { uri: String },
    /// Invalid arguments of a prompt.
    #[error("{0}")]
    Prompt(Cow<'static, str>),
    /// A prompt or a completion that failed, through no fault of the client.
    #[error("{0}")]
    Failed(String),
    /// An unknown resource.
    #[error("{reason}")]
    NoResource { uri: String, reason: String },
    /// A URI that matches a template, but has invalid arguments.
    #[error("{reason}")]
    ResourceArguments { uri: String, reason: String },
    /// A resource that can't be read now.
    #[error("{reason}")]
    ResourceFailed { uri: String, reason: String, request_id: String },
    /// An unknown cursor.
    #[error("unknown cursor; request the list again without one")]
    UnknownCursor,
    /// Too many requests of one connection are in flight.
    #[error(
        "{limit} requests are in flight on this connection, which is the limit; retry when one has ended"
    )]
    TooManyRequests { limit: usize },
    /// HTTP headers and body disagree, or a header that repeats the body is missing.
    #[error("{0}")]
    Headers(String),
    /// A tool that requires tasks, which the client does not declare.
    #[error("this needs the extension `{}`, which the client does not declare", tasks::EXTENSION)]
    NeedsTasks,
    /// Input is needed for which the client has declared no capability (revision 2026-07-28).
    #[error(
        "this needs capabilities that the client does not declare in `io.modelcontextprotocol/clientCapabilities`: {}",
        names_of(missing)
    )]
    Capability { missing: Vec<MissingCapability> },
    /// An unsupported revision.
    #[error("protocol version `{}` is not supported", TruncatedText(requested))]
    Version { requested: String },
    /// The client lacks a scope.
    #[error("permission denied; required scope: `{needed}`")]
    Forbidden { needed: Scopes },
    /// An unknown or ended session.
    #[error("this session has ended or is unknown; start another with `initialize`")]
    NoSession,
    /// Too many notification streams are open.
    #[error("too many notification streams are open; retry later")]
    TooManyStreams,
    /// Too many notification streams of one client are open.
    #[error("you have {limit} notification streams open, which is the limit per client; close one first")]
    TooManyStreamsOfClient { limit: usize },
    /// The shutdown of the server cuts the request off.
    #[error("{}", crate::inbound::CUT_OFF_BY_SHUTDOWN)]
    ShuttingDown,
}

impl RpcError {
    /// The reason in the log, the JSON-RPC code, and the HTTP status in legacy revisions and since
    /// 2026-07-28. Legacy clients lose the error, or their connection, with a status other than 200, so they
    /// get one only for requests that they never send.
    fn properties(&self) -> (&'static str, ErrorCode, StatusCode, StatusCode) {
        const OK: StatusCode = StatusCode::OK;
        const BAD: StatusCode = StatusCode::BAD_REQUEST;
        const MISSING: StatusCode = StatusCode::NOT_FOUND;
        const CAPABILITY: ErrorCode = ErrorCode::MISSING_REQUIRED_CLIENT_CAPABILITY;
        match self {
            Self::NotJson(_) => ("invalid JSON", ErrorCode::PARSE_ERROR, BAD, BAD),
            Self::NotAMessage(_) => ("invalid message", ErrorCode::INVALID_REQUEST, BAD, BAD),
            Self::UnknownMethod { .. } => ("unknown method", ErrorCode::METHOD_NOT_FOUND, OK, MISSING),
            Self::Params(_) => ("invalid parameters", ErrorCode::INVALID_PARAMS, OK, BAD),
            Self::UnknownTool { .. } => ("unknown tool", ErrorCode::INVALID_PARAMS, OK, OK),
            Self::UnknownPrompt { .. } => ("unknown prompt", ErrorCode::INVALID_PARAMS, OK, OK),
            Self::UnknownTemplate { .. } => ("unknown resource template", ErrorCode::INVALID_PARAMS, OK, OK),
            Self::Prompt(_) => ("invalid prompt arguments", ErrorCode::INVALID_PARAMS, OK, OK),
            Self::Failed(_) => ("prompt or completion failed", ErrorCode::INTERNAL_ERROR, OK, OK),
            // SEP-2164 made it an invalid parameter.
            Self::NoResource { .. } => ("unknown resource", ErrorCode::INVALID_PARAMS, OK, OK),
            Self::ResourceArguments { .. } => {
                ("invalid resource arguments", ErrorCode::INVALID_PARAMS, OK, OK)
            }
            Self::ResourceFailed { .. } => ("resource can't be read", ErrorCode::INTERNAL_ERROR, OK, OK),
            Self::UnknownCursor => ("unknown cursor", ErrorCode::INVALID_PARAMS, OK, OK),
            Self::TooManyRequests { .. } => {
                ("too many requests on one connection", ErrorCode::INTERNAL_ERROR, OK, OK)
            }
            Self::Headers(_) => ("headers and body differ", ErrorCode::HEADER_MISMATCH, BAD, BAD),
            Self::NeedsTasks => ("client does not declare tasks", CAPABILITY, BAD, BAD),
            Self::Capability { .. } => ("client lacks a capability", CAPABILITY, BAD, BAD),
            Self::Version { .. } => {
                ("unsupported protocol version", ErrorCode::UNSUPPORTED_PROTOCOL_VERSION, BAD, BAD)
            }
            Self::Forbidden { .. } => {
                let forbidden = StatusCode::FORBIDDEN;
                ("scope is missing", ErrorCode::INVALID_REQUEST, forbidden, forbidden)
            }
            // Makes a client up to 2025-11-25 begin another session.
            Self::NoSession => ("unknown session", ErrorCode::INVALID_REQUEST, MISSING, MISSING),
            // Only for streams, which legacy clients open with `GET`.
            Self::TooManyStreams => {
                let status = StatusCode::SERVICE_UNAVAILABLE;
                ("too many streams", ErrorCode::INTERNAL_ERROR, status, status)
            }
            Self::TooManyStreamsOfClient { .. } => {
                let status = StatusCode::TOO_MANY_REQUESTS;
                ("too many streams", ErrorCode::INTERNAL_ERROR, status, status)
            }
            Self::ShuttingDown => ("shutting down", ErrorCode::INTERNAL_ERROR, OK, OK),
        }
    }

    fn code(&self, revision: Revision) -> ErrorCode {
        match (self, revision.lifecycle()) {
            (Self::NoResource { .. }, Lifecycle::Handshake) => ErrorCode::RESOURCE_NOT_FOUND,
            _ => self.properties().1,
        }
    }

    /// The HTTP status of the error, for a client of `revision`.
    pub(super) fn status(&self, revision: Revision) -> StatusCode {
        let (_, _, handshake, per_request) = self.properties();
        match revision.lifecycle() {
            Lifecycle::Handshake => handshake,
            Lifecycle::PerRequest => per_request,
        }
    }

    /// The error for the log, and for requests without a message.
    pub(super) fn rejection(&self, revision: Revision) -> Rejection {
        Rejection::new(self.status(revision), self.properties().0, self.to_string())
    }

    /// The JSON-RPC error, for a client of `revision`.
    pub(super) fn to_error(&self, revision: Revision) -> ErrorData {
        let supported = || Revision::ALL.map(Revision::as_str);
        let data = match self {
            Self::Version { requested } => {
                Some(json!({ "supported": supported(), "requested": TruncatedText(requested).to_string() }))
            }
            Self::NoResource { uri, .. } | Self::ResourceArguments { uri, .. } => Some(json!({ "uri": uri })),
            Self::ResourceFailed { uri, request_id, .. } => {
                Some(json!({ "uri": uri, REQUEST_ID_META: request_id }))
            }
            Self::NeedsTasks => {
                Some(json!({ "requiredCapabilities": { "extensions": { tasks::EXTENSION: {} } } }))
            }
            Self::Capability { missing } => Some(json!({ "requiredCapabilities": capabilities(missing) })),
            _ => None,
        };
        ErrorData::new(self.code(revision), self.to_string(), data)
    }
}

impl From<PromptError> for RpcError {
    fn from(error: PromptError) -> Self {
        match error {
            PromptError::Arguments(_) => Self::Prompt(error.to_string().into()),
            PromptError::Failed(_) => Self::Failed(error.to_string()),
        }
    }
}

/// Counter of JSON-RPC errors, by method and code. Clones share it.
#[derive(Debug, Clone)]
pub(super) struct ErrorCounts(Arc<Mutex<BTreeMap<(&'static str, i32), u64>>>);

impl ErrorCounts {
    /// Counts an error for a message of this method. Clients can name any, so an unknown method counts as
    /// `other`, as does a message whose method could not be read.
    pub(super) fn count(&self, method: Option<&str>, error: &RpcError, revision: Revision) {
        let method = method.and_then(MethodRow::by_name).map_or(Self::OTHER, |row| row.name);
        let code = error.code(revision).0;
        *self.0.lock().unwrap_or_else(PoisonError::into_inner).entry((method, code)).or_default() += 1;
    }

    const OTHER: &str = "other";
}

impl Default for ErrorCounts {
    fn default() -> Self {
        // The usual ones exist from the start, so that their first increase is visible.
        let usual = [("tools/call", ErrorCode::INVALID_PARAMS), (Self::OTHER, ErrorCode::METHOD_NOT_FOUND)];
        Self(Arc::new(Mutex::new(usual.map(|(method, code)| ((method, code.0), 0)).into())))
    }
}

impl MeterSource for ErrorCounts {
    fn report(&self, reading: &mut MetricsSnapshot) {
        let help = "JSON-RPC errors returned to MCP clients, by method and code";
        let errors = reading.counter("glossator_mcp_errors", help);
        for ((method, code), count) in self.0.lock().unwrap_or_else(PoisonError::into_inner).iter() {
            errors.add(vec![("method", (*method).into()), ("code", code.to_string().into())], *count);
        }
    }
}

/// The missing capabilities in the form of a declaration.
fn capabilities(missing: &[MissingCapability]) -> Value {
    let mut capabilities = json!({});
    for missing in missing {
        match missing.capability {
            ClientCapability::Form | ClientCapability::FormWithLists => {
                capabilities["elicitation"]["form"] = json!({})
            }
            ClientCapability::Link => capabilities["elicitation"]["url"] = json!({}),
            ClientCapability::Sample => capabilities["sampling"] = json!({}),
            ClientCapability::Roots => capabilities["roots"] = json!({}),
        }
    }
    capabilities
}

fn names_of(missing: &[MissingCapability]) -> String {
    let capabilities = capabilities(missing);
    let names: Vec<_> =
        capabilities.as_object().into_iter().flatten().map(|(name, _)| format!("`{name}`")).collect();
    names.join(", ")
}

/// Client-supplied text quoted in an error, truncated to 100 characters.
pub(super) struct TruncatedText<'a>(pub(super) &'a str);

impl fmt::Display for TruncatedText<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0.char_indices().nth(100) {
            Some((end, _)) => write!(formatter, "{}…", &self.0[..end]),
            None => formatter.write_str(self.0),
        }
    }
}
