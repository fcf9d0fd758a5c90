//! `tools/list` and `tools/call`.

use super::{
    client_channel::CallSubscriber, context::RpcContext, elicitation::RequestElicitor, protocol::Protocol,
    response::RpcResponse, revision::Era, rpc_error::RpcError, tasks,
};
use crate::pipeline::{Call, CallOutcome};

/// `tools/list`.
pub(super) fn list(protocol: &Protocol, client: &RpcContext<'_>) -> Result<RpcResponse, RpcError> {
    let snapshot = protocol.gateway.snapshot();
    protocol.server_info.list(&snapshot.lists.tools, snapshot.awaited.tools.is_empty(), client)
}

/// `tools/call`. Raw JSON in the result is copied into the response, not rebuilt.
pub(super) async fn call(protocol: &Protocol, client: &RpcContext<'_>) -> Result<RpcResponse, RpcError> {
    let (request, revision) = (client.request, client.revision);
    let tool = request.name()?.into_owned();
    let arguments = request.arguments()?;
    // One snapshot for the whole call: its headers and its arguments are checked against the same schema.
    let snapshot = protocol.gateway.snapshot();
    let route = snapshot.table.by_tool(&tool);
    if let Some(route) = route {
        client.may(&route.scopes)?;
    }
    match revision.era() {
        Era::Handshake => {}
        Era::PerRequest => {
            client.carrier.check_name(&tool)?;
            if let Some(route) = route {
                client.carrier.check_arguments(&route.definition.input_schema, &arguments)?;
            }
        }
    }
    let Some(route) = route else {
        let result = snapshot.not_ready(&tool).ok_or(RpcError::UnknownTool { tool })?;
        return Ok(client.tool_result(result));
    };
    let may_be_task = match revision.era() {
        Era::Handshake => false,
        Era::PerRequest => tasks::may_be(route, client, &arguments)?,
    };
    if may_be_task
        && let Some(answer) = Box::pin(tasks::asking(protocol, client, (&snapshot, route), &arguments)).await
    {
        return Ok(answer);
    }
    let mut elicitor = RequestElicitor::new(client, &route.asking, &tool, &arguments)?;
    let listening = CallSubscriber::of(protocol, client)?;
    let call = Call { subscriber: Some(&listening), ..client.call(arguments) };
    // Dropped with the connection, which cancels the upstream request.
    let result = if may_be_task {
        match Box::pin(snapshot.call_as_task(route, call, &mut elicitor)).await {
            CallOutcome::Result(result) => result,
            CallOutcome::Operation(operation) => {
                return Ok(tasks::created(protocol, client, &tool, *operation));
            }
        }
    } else {
        snapshot.call(route, call, &mut elicitor).await
    };
    if let Some(answer) = elicitor.end()? {
        return Ok(answer);
    }
    Ok(client.tool_result(result))
}
