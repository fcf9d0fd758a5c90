//! `resources/read`, `resources/subscribe` and `resources/unsubscribe`. Those of MCP upstreams are forwarded.

use std::collections::BTreeMap;

use serde_json::{Map, json};

use super::tools::CallSubscriber;
use super::{ErrorKind, RpcContext, RpcError, RpcResult};
use crate::pipeline::{CacheScope, Call, FetchError, REQUEST_ID_META, Snapshot, WatchError};
use crate::route::McpMethod;

pub(super) fn uri_of(rpc: &RpcContext<'_>) -> Result<String, RpcError> {
    Ok(rpc.request.param("uri").required_text("params.uri")?.into_owned())
}

/// `resources/read`.
pub(super) async fn read(rpc: &RpcContext<'_>) -> RpcResult {
    let uri = uri_of(rpc)?;
    rpc.check_name(&uri)?;
    let is_complete =
        |snapshot: &Snapshot| !snapshot.awaited.resources || snapshot.scopes_of_uri(&uri).is_some();
    let snapshot = rpc.dispatcher.gateway.complete_snapshot(is_complete).await;
    if let Some(needed) = snapshot.scopes_of_uri(&uri) {
        rpc.may(needed)?;
    }
    if let (None, Some(resource)) = (snapshot.table.by_uri(&uri), snapshot.proxied.resource(&uri)) {
        let to = (McpMethod::ReadResource, uri.as_str());
        let members = Box::pin(snapshot.forward(resource, to, rpc.call(Map::new()))).await;
        let members = members.map_err(|error| read_error(rpc, &uri, &error))?;
        return Ok(rpc.forwarded(members, Some(resource)));
    }
    let subscriber = CallSubscriber::new(rpc)?;
    let call = Call { subscriber: Some(&subscriber), ..rpc.call(Map::new()) };
    // Dropped with the connection, which cancels the upstream request.
    let read = snapshot.read(&uri, call).await.map_err(|error| read_error(rpc, &uri, &error))?;
    let scope = match read.freshness.scope {
        CacheScope::Public => rpc.cache_scope(),
        CacheScope::Private => "private",
    };
    let members = BTreeMap::from([("contents", &read.contents)]);
    Ok(rpc.result(&rpc.with_hints(members, Some((read.freshness.ttl, scope)))))
}

fn read_error(rpc: &RpcContext<'_>, uri: &str, error: &FetchError) -> RpcError {
    let (kind, data) = match error {
        FetchError::Unknown | FetchError::Missing(_) => (ErrorKind::NO_RESOURCE, json!({ "uri": uri })),
        FetchError::Arguments(_) => (ErrorKind::RESOURCE_ARGUMENTS, json!({ "uri": uri })),
        FetchError::Failed(_) => {
            let request_id = rpc.message.context.request.request_id.as_str();
            (ErrorKind::RESOURCE_FAILED, json!({ "uri": uri, REQUEST_ID_META: request_id }))
        }
    };
    kind.error(error.to_string()).with_data(data)
}

/// `resources/subscribe`, of legacy revisions.
pub(super) async fn subscribe(rpc: &RpcContext<'_>) -> RpcResult {
    let (session, uri) = subscription(rpc)?;
    if let Some(needed) = rpc.dispatcher.gateway.snapshot().scopes_of_uri(&uri) {
        rpc.may(needed)?;
    }
    rpc.dispatcher.subscribe(session, &uri).await.map_err(|error| match error {
        WatchError::Unknown => {
            ErrorKind::NO_RESOURCE.error(error.to_string()).with_data(json!({ "uri": uri }))
        }
        WatchError::Unwatched | WatchError::TooLong | WatchError::TooMany | WatchError::Enough => {
            ErrorKind::PARAMS.error(error.to_string())
        }
    })?;
    Ok(rpc.result(&json!({})))
}

/// `resources/unsubscribe`. It is no error if there was no subscription.
pub(super) async fn unsubscribe(rpc: &RpcContext<'_>) -> RpcResult {
    let (session, uri) = subscription(rpc)?;
    rpc.dispatcher.unsubscribe(session, &uri).await;
    Ok(rpc.result(&json!({})))
}

fn subscription<'a>(rpc: &RpcContext<'a>) -> Result<(&'a str, String), RpcError> {
    let uri = uri_of(rpc)?;
    let session = rpc.message.session.as_ref().filter(|session| session.content.is_ok());
    let text = "a subscription needs a session, and this request names none that exists: send the \
                `Mcp-Session-Id` that `initialize` returned";
    let session = session.ok_or_else(|| ErrorKind::PARAMS.error(text))?;
    Ok((&session.id, uri))
}
