//! `tools/call`, and the progress notifications and log messages of a call.

use serde_json::{Value, json};

use super::elicitation::RequestElicitor;
use super::{ErrorKind, MessageSender, RpcContext, RpcError, RpcResult, tasks};
use crate::inbound::without_nulls;
use crate::pipeline::{Call, CallOutcome, Snapshot, Subscriber};
use crate::route::McpLogLevel;

/// Handles `tools/call`. JSON of the upstream is copied into the result byte for byte.
pub(super) async fn call_tool(rpc: &RpcContext<'_>) -> RpcResult {
    let tool = rpc.request.name()?.into_owned();
    let arguments = rpc.request.arguments()?;
    // The whole call uses one snapshot, so that headers and arguments are checked against the same schema.
    let is_complete = |snapshot: &Snapshot| match snapshot.table.by_tool(&tool) {
        Some(route) => !snapshot.awaits_lists_for(route),
        None => !snapshot.may_list_tool(&tool),
    };
    let snapshot = rpc.dispatcher.gateway.complete_snapshot(is_complete).await;
    let route = snapshot.table.by_tool(&tool);
    if let Some(route) = route {
        // The pipeline checks the scopes for every API, but reports missing scopes as a tool error. This
        // check responds with a `WWW-Authenticate` challenge, so that the client can request a token with the
        // missing scopes.
        rpc.may(&route.scopes)?;
    }
    rpc.check_name(&tool)?;
    let Some(route) = route else {
        let unknown = || ErrorKind::UNKNOWN_TOOL.unknown(&tool, "tools/list");
        return snapshot.not_ready(&tool).map(|result| rpc.tool_result(result)).ok_or_else(unknown);
    };
    let mut may_be_task = false;
    if !rpc.revision.has_handshake() {
        rpc.message.check_param_headers(&route.definition.input_schema, &arguments)?;
        may_be_task = tasks::may_be_task(route, rpc, &arguments)?;
    }
    if may_be_task
        && let Some(response) = Box::pin(tasks::create_with_input(rpc, &snapshot, route, &arguments)).await
    {
        return Ok(response);
    }
    let mut elicitor = RequestElicitor::new(rpc, &route.input_requests, &tool, &arguments)?;
    let subscriber = CallSubscriber::new(rpc)?;
    let call = Call { subscriber: Some(&subscriber), ..rpc.call(arguments) };
    // The future is dropped with the client's connection, which cancels the upstream request.
    let result = if may_be_task {
        match Box::pin(snapshot.call_as_task(route, call, &mut elicitor.round)).await {
            CallOutcome::Result(result) => result,
            CallOutcome::Operation(operation) => return Ok(tasks::created(rpc, &tool, *operation)),
        }
    } else {
        snapshot.call(route, call, Some(&mut elicitor.round)).await
    };
    Ok(elicitor.end()?.unwrap_or_else(|| rpc.tool_result(result)))
}

/// Sends the progress notifications and log messages of a call to the client of a request.
#[derive(Debug)]
pub(super) struct CallSubscriber<'a> {
    sender: &'a MessageSender,
    /// The progress token; without it, no progress notifications are sent.
    token: Option<Value>,
    level: Option<McpLogLevel>,
}

impl<'a> CallSubscriber<'a> {
    /// Creates a subscriber for the notifications that the client has requested.
    ///
    /// # Errors
    ///
    /// When the requested log level does not exist.
    pub(super) fn new(rpc: &'a RpcContext<'_>) -> Result<Self, RpcError> {
        let meta = &rpc.request.meta;
        let level = match rpc.revision.has_handshake() {
            true => rpc.message.session().and_then(|session| rpc.dispatcher.subscribed.level(session)),
            false => meta.log_level()?,
        };
        Ok(Self { sender: rpc.sender, token: meta.progress_token(), level })
    }
}

impl Subscriber for CallSubscriber<'_> {
    fn wants_progress(&self) -> bool {
        self.token.is_some() && self.sender.0.is_some()
    }

    fn level(&self) -> Option<McpLogLevel> {
        self.level.filter(|_| self.sender.0.is_some())
    }

    fn progress(&self, done: f64, total: Option<f64>, message: Option<&str>) {
        let Some(token) = &self.token else { return };
        let params = without_nulls(json!({
            "progressToken": token,
            "progress": json_number(done),
            "total": total.map(json_number),
            "message": message,
        }));
        self.sender.notify("notifications/progress", &params);
    }

    fn log(&self, level: McpLogLevel, logger: &str, text: &str) {
        let params = json!({ "level": level, "logger": logger, "data": text });
        self.sender.notify("notifications/message", &params);
    }
}

/// Converts a number to JSON: to an integer if it has no fraction.
fn json_number(number: f64) -> Value {
    /// 2^53: all integers below it are exact in an `f64`.
    const EXACT: f64 = 9_007_199_254_740_992.0;
    #[expect(clippy::cast_possible_truncation, reason = "it is whole, and in the range")]
    match number.fract() == 0.0 && number.abs() < EXACT {
        true => (number as i64).into(),
        false => number.into(),
    }
}
