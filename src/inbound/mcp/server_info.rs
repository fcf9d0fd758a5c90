//! `initialize`, `server/discover`, and capabilities.

use std::time::Duration;

use rmcp::model::{
    Implementation, InitializeResult, JsonObject, PromptsCapability, ResourcesCapability, ServerCapabilities,
    ToolsCapability,
};
use serde::Serialize;
use serde_json::{Map, Value, json};

use super::{
    McpServerSettings,
    context::{CacheHints, RpcContext},
    response::RpcResponse,
    revision::{Lifecycle, Revision},
    sessions::DeclaredLists,
    tasks,
};
use crate::pipeline::{DefinitionList, Snapshot};

/// The parts of results that are the same for all requests.
#[derive(Debug)]
pub(super) struct ServerInfo {
    server: Implementation,
    instructions: Option<String>,
    pub(super) page_size: usize,
    pub(super) list_ttl: Duration,
    /// `_meta` of every result since 2026-07-28.
    meta: Map<String, Value>,
    no_meta: Map<String, Value>,
}

impl ServerInfo {
    pub(super) fn new(settings: McpServerSettings) -> Self {
        let mut server = Implementation::new(settings.name, settings.version);
        server.title = settings.title;
        let info = serde_json::to_value(&server).expect("a name and a version have string keys only");
        let meta = Map::from_iter([("io.modelcontextprotocol/serverInfo".to_owned(), info)]);
        let page_size = settings.page_size.max(1);
        let (instructions, list_ttl) = (settings.instructions, settings.list_ttl);
        Self { server, instructions, page_size, list_ttl, meta, no_meta: Map::new() }
    }

    /// `_meta` of every result.
    pub(super) fn result_meta(&self, revision: Revision) -> &Map<String, Value> {
        match revision.lifecycle() {
            Lifecycle::Handshake => &self.no_meta,
            Lifecycle::PerRequest => &self.meta,
        }
    }

    /// `initialize`. No state is stored: each later request declares its revision.
    pub(super) fn initialize(
        &self,
        snapshot: &Snapshot,
        rpc: &RpcContext<'_>,
        revision: Revision,
    ) -> RpcResponse {
        let mut result = InitializeResult::new(capabilities(snapshot, rpc, revision))
            .with_protocol_version(revision.version())
            .with_server_info(self.server.clone());
        result.instructions.clone_from(&self.instructions);
        rpc.result(&result)
    }

    /// `server/discover`.
    pub(super) fn discover(&self, snapshot: &Snapshot, rpc: &RpcContext<'_>) -> RpcResponse {
        let capabilities = capabilities(snapshot, rpc, Revision::R2026_07_28);
        let versions = Revision::ALL.map(Revision::as_str);
        let mut result = json!({ "supportedVersions": versions, "capabilities": capabilities });
        if tasks::any_offered(snapshot) {
            result["capabilities"]["extensions"] = json!({ tasks::EXTENSION: {} });
        }
        if let Some(instructions) = &self.instructions {
            result["instructions"] = instructions.as_str().into();
        }
        let hints = rpc.cache_hints(self.list_ttl, rpc.cache_scope());
        rpc.result(&WithHints { members: result, hints })
    }
}

/// A result with cache hints (MCP 2026-07-28).
#[derive(Debug, Serialize)]
pub(super) struct WithHints<T: Serialize> {
    #[serde(flatten)]
    pub(super) members: T,
    #[serde(flatten)]
    pub(super) hints: Option<CacheHints>,
}

/// The lists that a client is offered: those with entries, or that may have some later.
pub(super) fn declared_lists(snapshot: &Snapshot, rpc: &RpcContext<'_>) -> DeclaredLists {
    let has = |list: &DefinitionList| list.seen_by(rpc.message_context.client()).next().is_some();
    let (lists, [prompts, resources]) = (&snapshot.lists, snapshot.may_have_more());
    DeclaredLists {
        prompts: prompts || has(&lists.prompts),
        resources: resources || has(&lists.resources) || has(&lists.resource_templates),
    }
}

/// The capabilities of the server: tools always, the others if there are any. `listChanged` is declared for
/// every list.
fn capabilities(snapshot: &Snapshot, rpc: &RpcContext<'_>, revision: Revision) -> ServerCapabilities {
    let declared = declared_lists(snapshot, rpc);
    let mut capabilities = ServerCapabilities::default();
    let mut tools = ToolsCapability::default();
    tools.list_changed = Some(true);
    capabilities.tools = Some(tools);
    capabilities.logging = Some(Map::new());
    if declared.prompts {
        let mut prompts = PromptsCapability::default();
        prompts.list_changed = Some(true);
        capabilities.prompts = Some(prompts);
    }
    // The first revision has the method, but no capability for it.
    if snapshot.completes() && revision > Revision::R2024_11_05 {
        capabilities.completions = Some(JsonObject::new());
    }
    if declared.resources {
        let mut resources = ResourcesCapability::default();
        resources.list_changed = Some(true);
        resources.subscribe = snapshot.watches_resources().then_some(true);
        capabilities.resources = Some(resources);
    }
    capabilities
}
