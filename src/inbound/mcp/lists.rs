//! `tools/list`, `prompts/list`, `resources/list` and `resources/templates/list`, one page at a time.

use std::{collections::BTreeMap, time::Duration};

use serde::Serialize;
use serde_json::value::RawValue;

use super::{
    context::RpcContext, protocol::MessageDispatcher, response::RpcResponse, rpc_error::RpcError,
    server_info::WithHints,
};
use crate::pipeline::{DefinitionList, Snapshot};

/// `tools/list`.
pub(super) async fn list_tools(
    dispatcher: &MessageDispatcher,
    rpc: &RpcContext<'_>,
) -> Result<RpcResponse, RpcError> {
    let is_complete = |snapshot: &Snapshot| snapshot.awaited.tools.is_empty();
    let snapshot = dispatcher.gateway.complete_snapshot(is_complete).await;
    list_page(dispatcher, rpc, &snapshot.lists.tools, is_complete(&snapshot))
}

/// `prompts/list`.
pub(super) async fn list_prompts(
    dispatcher: &MessageDispatcher,
    rpc: &RpcContext<'_>,
) -> Result<RpcResponse, RpcError> {
    let is_complete = |snapshot: &Snapshot| snapshot.awaited.prompts.is_empty();
    let snapshot = dispatcher.gateway.complete_snapshot(is_complete).await;
    list_page(dispatcher, rpc, &snapshot.lists.prompts, is_complete(&snapshot))
}

/// `resources/list`.
pub(super) async fn list_resources(
    dispatcher: &MessageDispatcher,
    rpc: &RpcContext<'_>,
) -> Result<RpcResponse, RpcError> {
    let is_complete = |snapshot: &Snapshot| !snapshot.awaited.resources;
    let snapshot = dispatcher.gateway.complete_snapshot(is_complete).await;
    list_page(dispatcher, rpc, &snapshot.lists.resources, is_complete(&snapshot))
}

/// `resources/templates/list`.
pub(super) async fn list_resource_templates(
    dispatcher: &MessageDispatcher,
    rpc: &RpcContext<'_>,
) -> Result<RpcResponse, RpcError> {
    let is_complete = |snapshot: &Snapshot| !snapshot.awaited.resources;
    let snapshot = dispatcher.gateway.complete_snapshot(is_complete).await;
    list_page(dispatcher, rpc, &snapshot.lists.resource_templates, is_complete(&snapshot))
}

/// One page of a list. It is not cacheable while entries of an upstream are missing (`is_complete`).
fn list_page(
    dispatcher: &MessageDispatcher,
    rpc: &RpcContext<'_>,
    list: &DefinitionList,
    is_complete: bool,
) -> Result<RpcResponse, RpcError> {
    #[derive(Serialize)]
    #[serde(rename_all = "camelCase")]
    struct ListResult<'a> {
        #[serde(flatten)]
        entries: BTreeMap<&'a str, Vec<&'a RawValue>>,
        #[serde(skip_serializing_if = "Option::is_none")]
        next_cursor: Option<String>,
    }
    let server_info = &dispatcher.server_info;
    let cursor = rpc.request.param("cursor").unless_null().optional_text("params.cursor")?;
    let page = list.page(cursor.as_deref(), server_info.page_size, rpc.message_context.client());
    let page = page.map_err(|_| RpcError::UnknownCursor)?;
    let entries = page.entries.iter().map(|entry| entry.json(rpc.revision.shapes())).collect();
    let entries = BTreeMap::from([(list.name, entries)]);
    let members = ListResult { entries, next_cursor: page.next_cursor };
    let ttl = if is_complete { server_info.list_ttl } else { Duration::ZERO };
    let hints = rpc.cache_hints(ttl, rpc.cache_scope());
    Ok(rpc.result(&WithHints { members, hints }))
}
