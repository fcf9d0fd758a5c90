//! Headers `Mcp-Param-…` of tool calls. A server over HTTP marks arguments with `x-mcp-header` in the input
//! schema of a tool. The client repeats these arguments in headers, for load balancers that do not read
//! bodies (MCP 2026-07-28, Streamable HTTP, "Custom Headers from Tool Parameters").

use std::{borrow::Cow, collections::HashMap, sync::Arc};

use http::{HeaderMap, HeaderName};
use parking_lot::Mutex;
use serde::Deserialize;
use serde_json::{Map, Value};
use tokio::time::Instant;
use tracing::warn;

use super::{McpList, McpRequest};
use crate::model::{
    cut_characters, encode_header_text, invalid_param_headers, param_header_text, param_headers,
};
use crate::route::{McpMethod, UpstreamName};

/// Tools of one server whose arguments are repeated in headers, according to the server's last list of tools.
#[derive(Debug, Default)]
pub(super) struct ParamHeaders {
    /// Input schemas by the name of the tool, or the reasons why tools are omitted.
    tools: Mutex<HashMap<String, Result<MarkedSchema, String>>>,
    /// Time at which the list was last read again because of a rejected call. Locked during the read, so that
    /// calls that are rejected together read the list once.
    pub(super) refreshed_at: tokio::sync::Mutex<Option<Instant>>,
}

/// Input schema with an `x-mcp-header`.
pub(super) type MarkedSchema = Arc<Map<String, Value>>;

/// Tool in the list of a server.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ToolEntry {
    name: String,
    input_schema: Map<String, Value>,
}

impl ParamHeaders {
    /// Reads the headers from a list of tools. Removes tools with an invalid `x-mcp-header` from the list,
    /// because a client must reject them.
    pub(super) fn update(&self, upstream: &UpstreamName, list: &mut McpList) {
        let mut tools = HashMap::new();
        list.retain(|entry| {
            // Other entries are reported when they are imported.
            let Ok(ToolEntry { name, input_schema }) = serde_json::from_str(entry) else { return true };
            if let Some(invalid) = invalid_param_headers(&input_schema).first() {
                let reason = cut_characters(&invalid.to_string(), 256);
                let omitted = Err(reason.clone());
                // Lists are read repeatedly, so each reason is logged only once.
                if self.tools.lock().get(&name) != Some(&omitted) {
                    let tool = cut_characters(&name, 256);
                    warn!(%upstream, tool, reason, "tool of an MCP server omitted");
                }
                tools.insert(name, omitted);
                return false;
            }
            if !param_headers(&input_schema, None).is_empty() {
                tools.insert(name, Ok(Arc::new(input_schema)));
            }
            true
        });
        *self.tools.lock() = tools;
    }

    /// Input schema of a tool, if it has an `x-mcp-header`.
    pub(super) fn schema_of(&self, tool: &str) -> Option<MarkedSchema> {
        self.tools.lock().get(tool)?.as_ref().ok().cloned()
    }

    /// Headers of a request: its own headers, and the headers that repeat arguments of a tool call.
    pub(super) fn headers_of<'a>(&self, outgoing: &McpRequest<'a>) -> Cow<'a, HeaderMap> {
        let tool = outgoing.name.filter(|_| outgoing.method == <&str>::from(McpMethod::CallTool));
        let mut headers = outgoing.headers.clone();
        let Some(schema) = tool.and_then(|tool| self.schema_of(tool)) else { return headers };
        let arguments = outgoing.params.get("arguments").and_then(Value::as_object);
        for (suffix, argument) in param_headers(&schema, arguments) {
            let Ok(name) = format!("mcp-param-{suffix}").parse::<HeaderName>() else { continue };
            match argument.and_then(param_header_text) {
                // Headers beyond the capacity of a header map are omitted.
                Some(text) => headers.to_mut().try_insert(name, encode_header_text(&text)).ok().flatten(),
                // A forwarded header of the client would repeat the arguments of the client's own call, so it
                // is removed.
                None => headers.to_mut().remove(&name),
            };
        }
        headers
    }
}
