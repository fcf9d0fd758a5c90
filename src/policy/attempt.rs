//! Metrics and span of one attempt. The span follows the semantic conventions for HTTP clients.

use http::{StatusCode, Uri, uri::PathAndQuery};

use crate::{
    model::{ProgramEnd, UpstreamResponse},
    route::{HttpRequest, McpMethod, UpstreamRequest},
    telemetry::{CallContext, LabelCounter, Span, SpanKind, method_label},
    upstream::{
        FailureStage, Upstream, UpstreamCall, UpstreamError,
        http::{Address, HttpUpstream},
    },
};

/// Metrics and span of one upstream request. If it is dropped (timeout, client gone), it counts as `dropped`.
pub(super) struct Attempt<'a> {
    counted: &'a LabelCounter,
    context: CallContext,
    span: Span,
    is_over: bool,
}

impl<'a> Attempt<'a> {
    /// Starts an attempt. With tracing, returns the request with the new trace context.
    pub(super) fn begin(
        counted: &'a LabelCounter,
        upstream_call: &UpstreamCall,
        upstream: &Upstream,
    ) -> (Self, Option<Box<UpstreamCall>>) {
        let context = upstream_call.context.clone();
        let before = context.attempt_started();
        let Some(call) = upstream_call.context.span() else {
            return (Self { counted, context, span: Span::default(), is_over: false }, None);
        };
        let (upstream_call, span) =
            traced(call.child(SpanKind::Client, "upstream"), upstream_call.clone(), before, upstream);
        (Self { counted, context, span, is_over: false }, Some(Box::new(upstream_call)))
    }

    /// Ends the attempt with its result.
    pub(super) fn end(
        mut self,
        outcome: Result<UpstreamResponse, UpstreamError>,
    ) -> Result<UpstreamResponse, UpstreamError> {
        self.is_over = true;
        let failed = outcome.as_ref().err().map(UpstreamError::properties);
        match failed {
            // Such as an MCP program that is not yet restarted, or a missing credential.
            Some(failed) if failed.stage == FailureStage::Rejected => self.context.attempt_rejected(),
            Some(_) | None => self.context.attempt_ended(),
        }
        self.counted.add(match &outcome {
            Ok(response) => result_label(response),
            Err(error) => error.properties().label,
        });
        if self.span.is_recorded() {
            record_result(&self.span, &outcome);
        }
        outcome
    }
}

impl Drop for Attempt<'_> {
    fn drop(&mut self) {
        if !self.is_over {
            self.context.attempt_ended();
            self.counted.add("dropped");
            self.span.failed("dropped");
        }
    }
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
    match status.as_u16() / 100 {
        1 => "1xx",
        2 => "2xx",
        3 => "3xx",
        4 => "4xx",
        _ => "5xx",
    }
}

/// Adds the trace context to the request if it is propagated, and fills the span if it is recorded.
fn traced(
    span: Span,
    mut upstream_call: UpstreamCall,
    before: u32,
    upstream: &Upstream,
) -> (UpstreamCall, Span) {
    if upstream_call.traced
        && let (Some(context), Some(headers)) = (span.context(), upstream_call.request.headers_mut())
    {
        context.write(headers);
    }
    if span.is_recorded() {
        describe_request(&span, &upstream_call.request, before, upstream);
    }
    (upstream_call, span)
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
            if let Some(url) = address.and_then(|address| url_of(address, request)) {
                span.text("url.full", url);
            }
            if before > 0 {
                span.number("http.request.resend_count", before);
            }
        }
        UpstreamRequest::Tool(request) => {
            let method = request.method.as_str();
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
    if let Some(address) = address {
        match (address.socket(), address.name(), address.ip()) {
            (Some(socket), _, _) => span.text("server.address", socket.display().to_string()),
            (None, Some((host, port)), _) => {
                span.text("server.address", host.to_owned());
                span.number("server.port", port);
            }
            (None, None, Some(at)) => {
                span.text("server.address", at.ip().to_string());
                span.number("server.port", at.port());
            }
            (None, None, None) => {}
        }
    }
}

/// URL without the query, which may contain a credential.
fn url_of(address: &Address, request: &HttpRequest) -> Option<String> {
    let path: PathAndQuery = request.path_and_query.path().parse().ok()?;
    let url: Uri = address.join(&path).ok()?;
    Some(url.to_string())
}

/// Records the result in the span.
fn record_result(span: &Span, outcome: &Result<UpstreamResponse, UpstreamError>) {
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
        Err(error) => span.failed(error.properties().label),
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::{
        policy::mock::{Inside, answering_after, name, upstream_call},
        upstream::{UpstreamSettings, http::HttpSettings},
    };

    #[tokio::test(start_paused = true)]
    async fn an_attempt_counts_once_and_a_dropped_one_as_dropped() {
        let counted = LabelCounter::default();
        let to = HttpSettings::new(name(), "http://127.0.0.1:9".parse().unwrap());
        let to = Upstream::new(UpstreamSettings::Http(Box::new(to)));
        let upstream = answering_after(Duration::from_secs(2), &Inside::default());
        let one = async || {
            let upstream_call = upstream_call(Duration::from_secs(9));
            let (attempt, _) = Attempt::begin(&counted, &upstream_call, &to);
            attempt.end(upstream.send(&upstream_call).await)
        };
        one().await.unwrap();
        tokio::time::timeout(Duration::from_secs(1), one()).await.unwrap_err();
        assert_eq!(counted.read().collect::<Vec<_>>(), [("2xx", 1), ("dropped", 1)]);
    }
}
