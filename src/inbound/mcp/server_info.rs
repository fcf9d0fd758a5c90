//! `initialize`, `server/discover`, the capabilities of the server, and its lists, with pagination by cursor.

use std::{
    collections::BTreeMap,
    time::{Duration, SystemTime},
};

use rmcp::model::Implementation;
use serde::Serialize;
use serde_json::{Map, Value, json, value::RawValue};

use super::sessions::{DeclaredLists, Session};
use super::{ErrorKind, McpServerSettings, Revision, RpcContext, RpcResponse, RpcResult, tasks};
use crate::inbound::without_nulls;
use crate::pipeline::{DefinitionList, Snapshot};

/// The parts of results that are equal for all requests.
#[derive(Debug)]
pub(super) struct ServerInfo {
    server: Implementation,
    settings: McpServerSettings,
    /// `_meta` of every result since 2026-07-28.
    pub(super) meta: Map<String, Value>,
    pub(super) empty_meta: Map<String, Value>,
}

impl ServerInfo {
    pub(super) fn new(settings: McpServerSettings) -> Self {
        let mut server = Implementation::new(settings.name.clone(), env!("CARGO_PKG_VERSION"));
        server.title = settings.title.clone();
        let info = serde_json::to_value(&server).expect("a name and a version have string keys only");
        let meta = Map::from_iter([("io.modelcontextprotocol/serverInfo".to_owned(), info)]);
        Self { server, settings, meta, empty_meta: Map::new() }
    }
}

/// `initialize`. The server stores no state: the encrypted session id contains the negotiated revision.
pub(super) async fn initialize(rpc: &RpcContext<'_>) -> RpcResult {
    let ServerInfo { server, settings, .. } = &rpc.dispatcher.server_info;
    let requested = rpc.request.params.protocol_version.required_text("params.protocolVersion")?;
    let negotiated = Revision::negotiated(&requested);
    let snapshot = rpc.dispatcher.snapshot_for_capabilities().await;
    let result = without_nulls(json!({
        "protocolVersion": negotiated.as_str(),
        "capabilities": capabilities(&snapshot, rpc, negotiated),
        "serverInfo": server,
        "instructions": settings.instructions,
    }));
    // A value that is not an object counts as an object without capabilities: no client depends on an error.
    let capabilities = rpc.request.params.capabilities.object_or_empty();
    let session = Session::new(negotiated, capabilities, rpc.message.client());
    let session = Session { declared: declared_lists(&snapshot, rpc), ..session };
    let id = session.encrypt(&rpc.dispatcher.cipher, SystemTime::now());
    Ok(RpcResponse { session: Some(id), ..rpc.result(&result) })
}

/// `server/discover`.
pub(super) async fn discover(rpc: &RpcContext<'_>) -> RpcResult {
    let settings = &rpc.dispatcher.server_info.settings;
    let snapshot = rpc.dispatcher.snapshot_for_capabilities().await;
    let mut capabilities = capabilities(&snapshot, rpc, Revision::R2026_07_28);
    if tasks::has_task_tools(&snapshot) {
        capabilities["extensions"] = json!({ tasks::EXTENSION: {} });
    }
    let result = without_nulls(json!({
        "supportedVersions": Revision::ALL.map(Revision::as_str),
        "capabilities": capabilities,
        "instructions": settings.instructions,
    }));
    Ok(rpc.cacheable(&result, (settings.list_ttl, rpc.cache_scope())))
}

/// The list capabilities (`prompts`, `resources`) that are declared to a client: those with an entry that the
/// client may see, and those to which an MCP upstream may still add entries.
fn declared_lists(snapshot: &Snapshot, rpc: &RpcContext<'_>) -> DeclaredLists {
    let has_visible = |list: &DefinitionList| list.seen_by(rpc.message.client()).next().is_some();
    let (lists, [prompts, resources]) = (&snapshot.lists, snapshot.may_list_more());
    DeclaredLists {
        prompts: prompts || has_visible(&lists.prompts),
        resources: resources || has_visible(&lists.resources) || has_visible(&lists.resource_templates),
    }
}

/// The capabilities of the server: tools and logging always, others if they exist. `listChanged` is declared
/// for every list.
fn capabilities(snapshot: &Snapshot, rpc: &RpcContext<'_>, revision: Revision) -> Value {
    let declared = declared_lists(snapshot, rpc);
    // The first revision has completions, but no capability for them.
    let supports_completions = snapshot.completes() && revision > Revision::R2024_11_05;
    let subscribe = snapshot.watches_resources().then_some(true);
    let resources = || without_nulls(json!({ "subscribe": subscribe, "listChanged": true }));
    without_nulls(json!({
        "logging": {},
        "completions": supports_completions.then(|| json!({})),
        "prompts": declared.prompts.then(|| json!({ "listChanged": true })),
        "resources": declared.resources.then(resources),
        "tools": { "listChanged": true },
    }))
}

/// Returns the list for a method, and whether the list is complete.
fn list_in<'s>(snapshot: &'s Snapshot, method: &str) -> (&'s DefinitionList, bool) {
    let (lists, awaited) = (&snapshot.lists, &snapshot.awaited);
    match method {
        "tools/list" => (&lists.tools, awaited.tools.is_empty()),
        "prompts/list" => (&lists.prompts, awaited.prompts.is_empty()),
        "resources/list" => (&lists.resources, !awaited.resources),
        _ => (&lists.resource_templates, !awaited.resources),
    }
}

/// Returns one page of `tools/list`, `prompts/list`, `resources/list` or `resources/templates/list`. A list
/// is not cacheable while entries of an upstream are missing.
pub(super) async fn list_page(rpc: &RpcContext<'_>) -> RpcResult {
    #[derive(Serialize)]
    #[serde(rename_all = "camelCase")]
    struct ListResult<'a> {
        #[serde(flatten)]
        entries: BTreeMap<&'a str, Vec<&'a RawValue>>,
        #[serde(skip_serializing_if = "Option::is_none")]
        next_cursor: Option<String>,
    }
    let settings = &rpc.dispatcher.server_info.settings;
    let method = &rpc.request.method;
    let snapshot = rpc.dispatcher.gateway.complete_snapshot(|snapshot| list_in(snapshot, method).1).await;
    let (list, is_complete) = list_in(&snapshot, method);
    let cursor = rpc.request.params.cursor.unless_null().optional_text("params.cursor")?;
    let page = list.page(cursor.as_deref(), settings.page_size.max(1), rpc.message.client());
    let message = "unknown cursor; request the list again without one";
    let page = page.ok_or_else(|| ErrorKind::UNKNOWN_CURSOR.error(message))?;
    let entries =
        page.entries.iter().map(|entry| entry.json(rpc.revision.structured_content_support())).collect();
    let entries = BTreeMap::from([(list.name, entries)]);
    let members = ListResult { entries, next_cursor: page.next_cursor };
    let ttl = if is_complete { settings.list_ttl } else { Duration::ZERO };
    Ok(rpc.cacheable(&members, (ttl, rpc.cache_scope())))
}
