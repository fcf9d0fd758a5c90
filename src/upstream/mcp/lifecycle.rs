//! MCP lifecycle towards an upstream: negotiates revision and capabilities (`initialize` or
//! `server/discover`), and builds the parameters and `_meta` of each request.

use serde::Deserialize;
use serde_json::{Map, Value, json, value::RawValue};

use super::McpRequest;
use crate::upstream::error::QuotedSource;

/// Revision without sessions: each request contains what `initialize` negotiates in earlier revisions.
pub(super) const SESSIONLESS_REVISION: &str = "2026-07-28";

/// Revisions that start with `initialize`, newest first. The last revision is older than the first published
/// one, but some servers still negotiate it.
const INITIALIZE_REVISIONS: [&str; 5] =
    ["2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05", "2024-10-07"];

/// Negotiated revision and capabilities.
#[derive(Debug, Clone)]
pub(super) struct NegotiatedSession {
    pub(super) revision: &'static str,
    /// Capabilities of the server.
    pub(super) declared: ServerCapabilities,
}

/// Capabilities of a server, as far as glossator uses them.
#[derive(Debug, Clone, Default)]
pub(super) struct ServerCapabilities {
    pub(super) prompts: bool,
    pub(super) resources: bool,
    /// Completions for arguments of prompts and resource templates.
    pub(super) completions: bool,
    /// Change notifications that the server declares for its lists, in the format of `subscriptions/listen`.
    pub(super) changes: Map<String, Value>,
}

/// Result of `initialize` or `server/discover`.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct HandshakeResult {
    protocol_version: Option<String>,
    #[serde(default)]
    supported_versions: Vec<String>,
    #[serde(default)]
    capabilities: Value,
}

impl NegotiatedSession {
    /// Parses the result of `initialize`.
    pub(super) fn from_initialize(result: &RawValue) -> Result<Self, QuotedSource> {
        let handshake_result = HandshakeResult::read(result)?;
        let found = handshake_result.protocol_version.as_deref().unwrap_or_default();
        let Some(revision) = INITIALIZE_REVISIONS.iter().find(|supported| **supported == found) else {
            let found: String = found.chars().take(40).collect();
            let quoted = format!("it uses revision `{found}`, which is not supported");
            return Err(QuotedSource::new("it uses a revision that is not supported", quoted));
        };
        Ok(Self { revision, declared: handshake_result.server_capabilities() })
    }

    /// Parses the result of `server/discover`.
    pub(super) fn from_discover(result: &RawValue) -> Result<Self, QuotedSource> {
        let handshake_result = HandshakeResult::read(result)?;
        if handshake_result.supported_versions.iter().any(|version| version == SESSIONLESS_REVISION) {
            return Ok(Self {
                revision: SESSIONLESS_REVISION,
                declared: handshake_result.server_capabilities(),
            });
        }
        let message = format!("it does not support revision {SESSIONLESS_REVISION}");
        Err(QuotedSource::new(message.clone(), message))
    }

    /// Whether the revision has no sessions.
    pub(super) fn is_sessionless(&self) -> bool {
        self.revision == SESSIONLESS_REVISION
    }
}

impl HandshakeResult {
    fn read(result: &RawValue) -> Result<Self, QuotedSource> {
        serde_json::from_str(result.get()).map_err(|error| QuotedSource::from_json(&error))
    }

    fn server_capabilities(&self) -> ServerCapabilities {
        let capabilities = &self.capabilities;
        let has = |name: &str| !capabilities[name].is_null();
        let changes = ["tools", "prompts", "resources"];
        let changes = changes.into_iter().filter(|name| capabilities[*name]["listChanged"] == true);
        ServerCapabilities {
            prompts: has("prompts"),
            resources: has("resources"),
            completions: has("completions"),
            // `toolsListChanged` and so on.
            changes: changes.map(|name| (format!("{name}ListChanged"), true.into())).collect(),
        }
    }
}

/// Parameters of `initialize`. They declare no capabilities, because glossator does not serve requests of the
/// server.
pub(super) fn initialize() -> Map<String, Value> {
    let newest = INITIALIZE_REVISIONS[0];
    let params = json!({ "protocolVersion": newest, "capabilities": {}, "clientInfo": client_info() });
    params.as_object().cloned().unwrap_or_default()
}

/// Parameters of a request, with `_meta` as the negotiated revision requires.
pub(super) fn params(outgoing: &McpRequest<'_>, id: u64, is_sessionless: bool) -> Map<String, Value> {
    let mut meta = Map::new();
    if is_sessionless {
        meta.insert("io.modelcontextprotocol/protocolVersion".into(), SESSIONLESS_REVISION.into());
        meta.insert("io.modelcontextprotocol/clientInfo".into(), client_info());
        meta.insert("io.modelcontextprotocol/clientCapabilities".into(), json!({}));
    }
    if outgoing.progress().is_some() {
        meta.insert("progressToken".into(), id.into());
    }
    // Trace context (SEP-414), because stdio has no headers.
    for name in ["traceparent", "tracestate"] {
        if let Some(value) = outgoing.headers.get(name).and_then(|value| value.to_str().ok()) {
            meta.insert(name.into(), value.into());
        }
    }
    let mut params = outgoing.params.clone();
    if !meta.is_empty() {
        params.insert("_meta".into(), meta.into());
    }
    params
}

fn client_info() -> Value {
    json!({ "name": env!("CARGO_PKG_NAME"), "version": env!("CARGO_PKG_VERSION") })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn raw(text: &str) -> Box<RawValue> {
        RawValue::from_string(text.to_owned()).unwrap()
    }

    #[test]
    fn a_revision_is_negotiated_or_the_error_names_the_reason() {
        let old = r#"{"protocolVersion":"2024-11-05","capabilities":{"tools":{"listChanged":true}},"serverInfo":{}}"#;
        let agreed = NegotiatedSession::from_initialize(&raw(old)).unwrap();
        assert_eq!((agreed.revision, agreed.is_sessionless()), ("2024-11-05", false));
        assert_eq!(json!(agreed.declared.changes), json!({ "toolsListChanged": true }));
        let odd = r#"{"protocolVersion":"1.0","capabilities":{"tools":[]}}"#;
        assert!(NegotiatedSession::from_initialize(&raw(odd)).unwrap_err().quoted.contains("`1.0`"));
        let new = r#"{"supportedVersions":["2026-07-28","2027-01-01"],"capabilities":{"tools":{},"prompts":{},"resources":null}}"#;
        let agreed = NegotiatedSession::from_discover(&raw(new)).unwrap();
        assert!(agreed.is_sessionless() && agreed.declared.changes.is_empty());
        assert!(agreed.declared.prompts && !agreed.declared.resources && !agreed.declared.completions);
        assert!(NegotiatedSession::from_discover(&raw(r#"{"supportedVersions":["2027-01-01"]}"#)).is_err());
        assert!(NegotiatedSession::from_discover(&raw("[]")).is_err());
    }
}
