//! Metrics and span of one attempt. The span follows the semantic conventions for HTTP clients.

use http::{StatusCode, uri::PathAndQuery};

use crate::model::{ProgramEnd, UpstreamResponse};
use crate::route::{McpMethod, UpstreamRequest};
use crate::telemetry::{LabelCounter, Span, SpanKind, method_label};
use crate::upstream::http::HttpUpstream;
use crate::upstream::{FailureStage, OnDrop, Upstream, UpstreamCall, UpstreamResult};

/// Sends one upstream request, with metrics and a span. With tracing, the request has the new trace context.
/// If the future is dropped (timeout, client gone), the request counts as `dropped`.
pub(super) async fn send(
    upstream: &Upstream,
    upstream_call: &UpstreamCall,
    counted: &LabelCounter,
) -> UpstreamResult {
    let context = &upstream_call.context;
    let before = context.attempt_started();
    let span = context.span().map(|call| call.child(SpanKind::Client, "upstream"));
    let traced = span.as_ref().map(|span| Box::new(traced(span, upstream_call.clone(), before, upstream)));
    let span = span.unwrap_or_default();
    let dropped = OnDrop::new(|| {
        context.attempt_ended();
        counted.add("dropped");
        span.failed("dropped");
    });
    let outcome = upstream.send(traced.as_deref().unwrap_or(upstream_call)).await;
    dropped.disarm();
    let failed = outcome.as_ref().map_err(|failure| failure.properties());
    match failed {
        // Such as an MCP program that is not yet restarted, or a missing credential.
        Err(failed) if failed.stage == FailureStage::Rejected => context.attempt_rejected(),
        _ => context.attempt_ended(),
    }
    counted.add(failed.map_or_else(|failed| failed.label, result_label));
    if span.is_recorded() {
        record_result(&span, &outcome);
    }
    outcome
}

/// Label for a response: its status class such as `2xx`, or `exit_success`.
pub fn result_label(response: &UpstreamResponse) -> &'static str {
    match &response.exit {
        None => status_class(response.status),
        Some(exit) if exit.end.is_success() => "exit_success",
        Some(_) => "exit_failure",
    }
}

/// Label for the class of a status, such as `2xx`.
pub fn status_class(status: StatusCode) -> &'static str {
    const CLASSES: [&str; 6] = ["", "1xx", "2xx", "3xx", "4xx", "5xx"];
    CLASSES[usize::from(status.as_u16() / 100).min(5)]
}

/// Adds the trace context to the request if it is propagated, and fills the span if it is recorded.
fn traced(span: &Span, mut upstream_call: UpstreamCall, before: u32, upstream: &Upstream) -> UpstreamCall {
    if upstream_call.traced
        && let (Some(context), Some(headers)) = (span.context(), upstream_call.request.headers_mut())
    {
        context.write(headers);
    }
    if span.is_recorded() {
        describe_request(span, &upstream_call.request, before, upstream);
    }
    upstream_call
}

fn describe_request(span: &Span, request: &UpstreamRequest, before: u32, upstream: &Upstream) {
    let name = upstream.name().as_str();
    // The server's address, if there is only one.
    let address = upstream.http().and_then(HttpUpstream::sole_address);
    span.text("glossator.upstream", name.to_owned());
    match request {
        UpstreamRequest::Http(request) => {
            let method = method_label(&request.method);
            span.rename(|| method.to_owned());
            span.text("http.request.method", method);
            // Without the query, which may contain a credential.
            let path = request.path_and_query.path().parse::<PathAndQuery>().ok();
            if let Some(url) = address.zip(path).and_then(|(address, path)| address.join(&path).ok()) {
                span.text("url.full", url.to_string());
            }
            if before > 0 {
                span.number("http.request.resend_count", before);
            }
        }
        UpstreamRequest::Tool(request) => {
            let method: &'static str = request.method.into();
            span.text("mcp.method.name", method);
            match request.method {
                McpMethod::CallTool => {
                    span.rename(|| format!("{method} {}", request.tool));
                    span.text("gen_ai.operation.name", "execute_tool");
                    span.text("gen_ai.tool.name", request.tool.to_string());
                }
                McpMethod::GetPrompt => span.rename(|| format!("{method} {}", request.tool)),
                // A URI is not part of a span's name, because it contains values of the client.
                McpMethod::ReadResource | McpMethod::Complete => span.rename(|| method.to_owned()),
            }
        }
        UpstreamRequest::Command(_) => span.rename(|| format!("run {name}")),
    }
    let Some(address) = address else { return };
    if let Some(socket) = address.socket() {
        span.text("server.address", socket.display().to_string());
        return;
    }
    if let Some((host, port)) = address.host() {
        span.text("server.address", host.to_owned());
        span.number("server.port", port);
    }
}

/// Records the result in the span.
fn record_result(span: &Span, outcome: &UpstreamResult) {
    match outcome {
        Ok(UpstreamResponse { exit: Some(exit), .. }) => {
            if let ProgramEnd::Code(code) = exit.end {
                span.number("process.exit.code", code);
            }
            if !exit.end.is_success() {
                span.failed(exit.end.to_string());
            }
        }
        Ok(response) => {
            span.number("http.response.status_code", response.status.as_u16());
            // For a client span, 4xx is an error, too (semantic conventions for HTTP, "Status").
            if response.status.is_client_error() || response.status.is_server_error() {
                span.failed(response.status.as_str().to_owned());
            }
        }
        Err(failure) => span.failed(failure.properties().label),
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::{
        io::{AsyncReadExt, AsyncWriteExt},
        net::TcpListener,
        time::timeout,
    };

    use super::*;
    use crate::{
        policy::tests::{name, upstream_call},
        upstream::{UpstreamSettings, http::HttpSettings},
    };

    #[tokio::test]
    async fn an_attempt_counts_once_and_a_dropped_one_as_dropped() {
        let (counted, listener) = (LabelCounter::default(), TcpListener::bind("127.0.0.1:0").await.unwrap());
        let to = format!("http://{}", listener.local_addr().unwrap()).parse().unwrap();
        let to = Upstream::new(UpstreamSettings::Http(Box::new(HttpSettings::new(name(), to))));
        let upstream_call = upstream_call(Duration::from_secs(9));
        let served = async {
            let (mut stream, _) = listener.accept().await.unwrap();
            assert_ne!(stream.read(&mut [0; 4096]).await.unwrap(), 0);
            stream.write_all(b"HTTP/1.1 204 No Content\r\nConnection: close\r\n\r\n").await.unwrap();
        };
        let (sent, ()) = tokio::join!(send(&to, &upstream_call, &counted), served);
        sent.unwrap();
        let silent = timeout(Duration::from_millis(20), send(&to, &upstream_call, &counted));
        silent.await.unwrap_err();
        assert_eq!(counted.read().collect::<Vec<_>>(), [("2xx", 1), ("dropped", 1)]);
    }
}
