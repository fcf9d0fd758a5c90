//! `resources/read`, `resources/subscribe` and `resources/unsubscribe`. Those of MCP upstreams are forwarded.

use std::time::SystemTime;

use serde::Serialize;
use serde_json::{Map, json};

use super::{
    client_channel::CallSubscriber, context::RpcContext, message::RpcRequest, protocol::MessageDispatcher,
    response::RpcResponse, revision::Lifecycle, rpc_error::RpcError, server_info::WithHints,
    sessions::Session,
};
use crate::{
    model::ResourceContents,
    pipeline::{CacheScope, Call, ForwardError, ProxiedEntry, ResourceReadError, Snapshot, WatchError},
    route::McpMethod,
};

fn uri_of(request: &RpcRequest<'_>) -> Result<String, RpcError> {
    Ok(request.param("uri").required_text("params.uri")?.into_owned())
}

/// `resources/read`.
pub(super) async fn read(
    dispatcher: &MessageDispatcher,
    rpc: &RpcContext<'_>,
) -> Result<RpcResponse, RpcError> {
    let (request, revision) = (rpc.request, rpc.revision);
    let uri = uri_of(request)?;
    match revision.lifecycle() {
        Lifecycle::Handshake => {}
        Lifecycle::PerRequest => rpc.message_context.check_name(&uri)?,
    }
    let is_complete =
        |snapshot: &Snapshot| !snapshot.awaited.resources || snapshot.scopes_of_uri(&uri).is_some();
    let snapshot = dispatcher.gateway.complete_snapshot(is_complete).await;
    if let Some(needed) = snapshot.scopes_of_uri(&uri) {
        rpc.may(needed)?;
    }
    if let (None, Some(resource)) = (snapshot.table.by_uri(&uri), snapshot.proxied.resource(&uri)) {
        let read = Box::pin(forward(rpc, &snapshot, resource, &uri)).await;
        return read.map_err(|error| read_error(uri, &error, rpc));
    }
    let subscriber = CallSubscriber::new(dispatcher, rpc)?;
    let call = Call { subscriber: Some(&subscriber), ..rpc.call(Map::new()) };
    // Dropped with the connection, which cancels the upstream request.
    let read = snapshot.read(&uri, call).await;
    let read = read.map_err(|error| read_error(uri, &error, rpc))?;
    let scope = match read.freshness.scope {
        CacheScope::Public => rpc.cache_scope(),
        CacheScope::Private => "private",
    };
    let hints = rpc.cache_hints(read.freshness.ttl, scope);
    Ok(rpc.result(&WithHints { members: ReadResult { contents: &read.contents }, hints }))
}

/// `resources/read`, forwarded. The calling function has checked the client's scopes.
async fn forward(
    rpc: &RpcContext<'_>,
    snapshot: &Snapshot,
    resource: &ProxiedEntry,
    uri: &str,
) -> Result<RpcResponse, ResourceReadError> {
    let to = (McpMethod::ReadResource, uri);
    match snapshot.forward(resource, to, rpc.call(Map::new())).await {
        Ok(members) => Ok(rpc.forwarded(&members, Some(resource))),
        Err(ForwardError::Unknown(text)) => Err(ResourceReadError::Missing(text)),
        Err(ForwardError::Arguments(text) | ForwardError::Failed(text)) => {
            Err(ResourceReadError::Failed(text))
        }
    }
}

#[derive(Serialize)]
struct ReadResult<'a> {
    contents: &'a [ResourceContents],
}

fn read_error(uri: String, error: &ResourceReadError, rpc: &RpcContext<'_>) -> RpcError {
    let reason = error.to_string();
    match error {
        ResourceReadError::Unknown | ResourceReadError::Missing(_) => RpcError::NoResource { uri, reason },
        ResourceReadError::Arguments(_) => RpcError::ResourceArguments { uri, reason },
        ResourceReadError::Failed(_) => {
            RpcError::ResourceFailed { uri, reason, request_id: rpc.request_id.as_str().to_owned() }
        }
    }
}

/// `resources/subscribe`, of legacy revisions.
pub(super) async fn subscribe(
    dispatcher: &MessageDispatcher,
    rpc: &RpcContext<'_>,
) -> Result<RpcResponse, RpcError> {
    let (session, uri) = subscription(rpc)?;
    if let Some(needed) = dispatcher.gateway.snapshot().scopes_of_uri(&uri) {
        rpc.may(needed)?;
    }
    dispatcher.subscribe(session, &uri).await.map_err(|error| match error {
        WatchError::Unknown => RpcError::NoResource { uri: uri.clone(), reason: error.to_string() },
        WatchError::Unwatched | WatchError::TooLong | WatchError::TooMany | WatchError::Enough => {
            RpcError::Params(error.to_string().into())
        }
    })?;
    Ok(rpc.result(&json!({})))
}

/// `resources/unsubscribe`. It is no error if there was no subscription.
pub(super) async fn unsubscribe(
    dispatcher: &MessageDispatcher,
    rpc: &RpcContext<'_>,
) -> Result<RpcResponse, RpcError> {
    let (session, uri) = subscription(rpc)?;
    dispatcher.unsubscribe(session, &uri).await;
    Ok(rpc.result(&json!({})))
}

fn subscription<'a>(rpc: &RpcContext<'a>) -> Result<(&'a str, String), RpcError> {
    let uri = uri_of(rpc.request)?;
    let is_synthetic = |id: &&str| Session::open(rpc.cipher, id, SystemTime::now()).is_ok();
    let session = rpc.message_context.session().filter(is_synthetic).ok_or_else(|| {
        RpcError::Params(
            "a subscription needs a session, and this request names none that exists: send the \
             `Mcp-Session-Id` that `initialize` returned"
                .into(),
        )
    })?;
    Ok((session, uri))
}
