//! `tools/call`.

use super::{
    client_channel::CallSubscriber, context::RpcContext, elicitation::RequestElicitor,
    protocol::MessageDispatcher, response::RpcResponse, revision::Lifecycle, rpc_error::RpcError, tasks,
};
use crate::pipeline::{Call, CallOutcome, Snapshot};

/// `tools/call`. Raw JSON in the result is copied into the response, not rebuilt.
pub(super) async fn call(
    dispatcher: &MessageDispatcher,
    rpc: &RpcContext<'_>,
) -> Result<RpcResponse, RpcError> {
    let (request, revision) = (rpc.request, rpc.revision);
    let tool = request.name()?.into_owned();
    let arguments = request.arguments()?;
    // One snapshot for the whole call: its headers and its arguments are checked against the same schema.
    let is_complete = |snapshot: &Snapshot| match snapshot.table.by_tool(&tool) {
        Some(route) => !snapshot.awaits_lists_for(route),
        None => !snapshot.may_list_tool(&tool),
    };
    let snapshot = dispatcher.gateway.complete_snapshot(is_complete).await;
    let route = snapshot.table.by_tool(&tool);
    if let Some(route) = route {
        rpc.may(&route.scopes)?;
    }
    match revision.lifecycle() {
        Lifecycle::Handshake => {}
        Lifecycle::PerRequest => {
            rpc.message_context.check_name(&tool)?;
            if let Some(route) = route {
                rpc.message_context.check_param_headers(&route.definition.input_schema, &arguments)?;
            }
        }
    }
    let Some(route) = route else {
        let result = snapshot.not_ready(&tool).ok_or(RpcError::UnknownTool { tool })?;
        return Ok(rpc.tool_result(result));
    };
    let may_be_task = match revision.lifecycle() {
        Lifecycle::Handshake => false,
        Lifecycle::PerRequest => tasks::may_become_task(route, rpc, &arguments)?,
    };
    if may_be_task
        && let Some(response) =
            Box::pin(tasks::create_with_input(dispatcher, rpc, (&snapshot, route), &arguments)).await
    {
        return Ok(response);
    }
    let mut elicitor = RequestElicitor::new(rpc, &route.input_requests, &tool, &arguments)?;
    let subscriber = CallSubscriber::new(dispatcher, rpc)?;
    let call = Call { subscriber: Some(&subscriber), ..rpc.call(arguments) };
    // Dropped with the connection, which cancels the upstream request.
    let result = if may_be_task {
        match Box::pin(snapshot.call_as_task(route, call, &mut elicitor)).await {
            CallOutcome::Result(result) => result,
            CallOutcome::Operation(operation) => {
                return Ok(tasks::created(dispatcher, rpc, &tool, *operation));
            }
        }
    } else {
        snapshot.call(route, call, &mut elicitor).await
    };
    if let Some(response) = elicitor.end()? {
        return Ok(response);
    }
    Ok(rpc.tool_result(result))
}
