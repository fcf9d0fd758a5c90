//! What is told of one call, in the words of the semantic conventions for MCP.

use super::{Call, Face, Snapshot};
use crate::{
    crypto,
    route::{Route, TraceContext},
    telemetry::{Span, SpanKind},
};

/// What a message is called that nobody has named: the work of a task, when its answers are there.
const CALL: &str = "tools/call";

/// Begins what is told of a call: a message of MCP has a span of its own, as several may come with one request, and is a
/// part of the trace that it names itself. Otherwise a request is its call, and one span tells of both.
pub(super) fn begun(snapshot: &Snapshot, route: &Route, call: &Call<'_>) -> Span {
    if !snapshot.tracing.is_on() {
        return Span::default();
    }
    let tool = route.definition.name.as_str();
    let span = if call.protocol.is_empty() {
        call.span.clone()
    } else {
        let span = match call.span.is_on() {
            true => call.span.child_or_linked(SpanKind::Server, CALL, call.trace.as_ref()),
            false => {
                let ours = call.trace.clone().or_else(|| TraceContext::of_headers(call.headers));
                snapshot.tracing.begin(SpanKind::Server, CALL, ours.as_ref())
            }
        };
        of_message(&span, tool, call);
        span
    };
    if span.is_recorded() {
        span.text("gen_ai.operation.name", "execute_tool");
        span.text("gen_ai.tool.name", tool.to_owned());
        span.text("glossator.upstream", route.upstream.as_str().to_owned());
        span.text("glossator.request_id", call.request_id.as_str().to_owned());
    }
    span
}

fn of_message(span: &Span, tool: &str, call: &Call<'_>) {
    if !span.is_recorded() {
        return;
    }
    let method = call.message.map_or(CALL, |message| message.method);
    match method {
        CALL => span.rename(|| format!("{method} {tool}")),
        method => span.rename(|| method.to_owned()),
    }
    span.text("mcp.method.name", method.to_owned());
    span.text("mcp.protocol.version", call.protocol);
    span.text("network.transport", if call.face == Face::Stdio { "pipe" } else { "tcp" });
    if let Some(message) = call.message {
        // A text without its quotes, a number as it is.
        span.text("jsonrpc.request.id", message.id.trim_matches('"').to_owned());
        if let Some(session) = message.session {
            span.text("mcp.session.id", session_name(session));
        }
    }
}

/// A session by a name that opens nothing.
fn session_name(session: &str) -> String {
    crypto::fingerprint(session.as_bytes()).chars().take(16).collect()
}

/// How it ended.
pub(super) fn ended(span: &Span, is_message: bool, outcome: &'static str, fault: Option<&'static str>) {
    if !span.is_recorded() {
        return;
    }
    span.text("glossator.outcome", outcome);
    if let Some(fault) = fault {
        span.text("glossator.fault", fault);
    }
    match (outcome, is_message) {
        ("error", true) => span.failed("tool_error"),
        // The status of the answer says whether that is one.
        ("error", false) => {}
        ("cancelled", _) => span.failed("cancelled"),
        _ => {}
    }
}
