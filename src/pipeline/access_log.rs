//! Access log entry of a call: log line, metrics and span.

use std::time::{Duration, SystemTime};

use http::{HeaderValue, StatusCode, header};
use tokio::time::Instant;
use tracing::{debug, error, info, warn};

use super::{ApiKind, BoundRoute, Call};
use crate::crypto;
use crate::model::{ErrorType, ProgramEnd, ToolOutcome, UpstreamResponse, media_type};
use crate::policy::{CallResponse, result_label, status_class};
use crate::route::TraceContext;
use crate::settings::{EnumSetting as _, units::milliseconds};
use crate::telemetry::{
    CallContext, CallEnd, ErrorChain, FailedCall, MatchedRule, ResponseMismatch, Span, SpanKind, Tracer,
    Untrusted,
};
use crate::translate::LogNote;
use crate::upstream::{FailureStage, UpstreamError};

/// Access log entry of one call. The entry is written on drop, however the call ends. If the client has
/// disconnected, the outcome is `cancelled`.
#[derive(Debug)]
pub(super) struct AccessLog<'a> {
    route: &'a BoundRoute,
    /// The call, without its arguments.
    pub(super) call: Call<'a>,
    pub(super) context: CallContext,
    started: Instant,
    outcome: &'static str,
    recorded: CallRecord,
}

/// Data about a call that is recorded while the call runs.
#[derive(Debug, Default)]
struct CallRecord {
    /// Limit of glossator that rejected the call.
    rejected_by: Option<&'static str>,
    /// Number of bytes of all response bodies, cached responses included.
    received_bytes: usize,
    /// HTTP status of the last response that the upstream sent for this call.
    upstream_status: Option<StatusCode>,
    /// HTTP status of the last response, which may be cached. Rules see this status.
    response_status: Option<StatusCode>,
    /// `Content-Type` of the last response.
    content_type: Option<HeaderValue>,
    /// Exit status of the program that ran.
    exit: Option<ProgramEnd>,
    /// Whether the last upstream request failed, so that no rule saw a response.
    upstream_failed: bool,
    /// Age of a cached response.
    age: Option<Duration>,
    error_type: Option<ErrorType>,
    matched_rule: Option<MatchedRule>,
    /// The reason of a failure, for the log.
    reason: Option<String>,
}

impl<'a> AccessLog<'a> {
    pub(super) fn begin(tracer: &Tracer, route: &'a BoundRoute, call: Call<'a>) -> Self {
        route.meters.call_started(call.api.as_str());
        let context = CallContext::new(call.request_id.clone(), begin_span(tracer, route, &call));
        let (started, recorded) = (Instant::now(), CallRecord::default());
        Self { route, call, context, started, outcome: "cancelled", recorded }
    }

    /// Records a response, which may be a cached one, or a failure of the upstream.
    pub(super) fn record_response(
        &mut self,
        response: &Result<CallResponse, UpstreamError>,
        elapsed: Duration,
    ) {
        self.recorded.upstream_failed = response.is_err();
        let meters = &self.route.meters;
        let CallResponse { response, age, upstream_result, .. } = match response {
            Ok(response) => response,
            Err(error) => {
                self.report_upstream_error(error, elapsed);
                self.recorded.rejected_by = error.failure.properties().rejected_by;
                self.recorded.reason = Some(ErrorChain(error).to_string());
                return;
            }
        };
        match (age, upstream_result) {
            (None, _) => {
                self.log_program_end(response);
                meters.upstream_responded(result_label(response), elapsed);
                if response.exit.is_none() {
                    self.recorded.upstream_status = Some(response.status);
                }
            }
            (Some(_), None) => {}
            (Some(_), Some(Ok(status))) => {
                meters.upstream_responded(status_class(*status), elapsed);
                self.recorded.upstream_status = Some(*status);
            }
            (Some(_), Some(Err(error))) => self.report_upstream_error(error, elapsed),
        }
        self.recorded.age = age.or(self.recorded.age);
        self.recorded.received_bytes += response.body.len();
        self.recorded.content_type = response.headers.get(header::CONTENT_TYPE).cloned();
        match &response.exit {
            None => self.recorded.response_status = Some(response.status),
            Some(exit) => self.recorded.exit = Some(exit.end),
        }
    }

    /// Logs the failure of a program, and its standard error, which clients don't receive. Standard error may
    /// repeat arguments of the call, so it is logged at `debug` only; the other levels log its length.
    fn log_program_end(&self, response: &UpstreamResponse) {
        let Some(exit) = response.exit.as_ref().or(response.cgi_exit.as_ref()) else { return };
        let (route, upstream) = (&self.route.definition.name, &self.route.upstream);
        let request_id = &self.call.request_id;
        let (stderr, stderr_bytes, exit_status) = (exit.stderr_text(), exit.stderr.len(), &exit.end);
        match exit.end {
            end if end.is_success() => {}
            // The CGI response itself reports the failure.
            ProgramEnd::Code(_) if response.exit.is_none() && response.status.as_u16() >= 400 => {
                debug!(%route, %request_id, %upstream, %exit_status, stderr_bytes, "command failed");
            }
            _ => warn!(%route, %request_id, %upstream, %exit_status, stderr_bytes, "command failed"),
        }
        if tracing::enabled!(tracing::Level::DEBUG) && !stderr.trim().is_empty() {
            let stderr = self.route.translator.redaction.redact(&stderr);
            let stderr = Untrusted(stderr.trim_end());
            debug!(%route, %request_id, %upstream, %exit_status, %stderr, "standard error of the command");
        }
    }

    /// Records the rule that matched. `None` means the default rules.
    pub(super) fn record_rule(&mut self, rule: Option<usize>) {
        self.route.meters.rule_matched(rule);
        if let (Some(span), Some(rule)) = (self.context.span(), rule) {
            span.number("glossator.rule", rule + 1);
        }
        self.recorded.matched_rule = Some(rule.map_or(MatchedRule::Default, MatchedRule::Rule));
    }

    /// Counts a failure of the upstream, and logs it. A request that glossator rejected, or for which it has
    /// no credential, is not counted. A rejection by a limit of glossator is only in the log line of the
    /// call.
    fn report_upstream_error(&self, error: &UpstreamError, elapsed: Duration) {
        let properties = error.failure.properties();
        if properties.stage != FailureStage::Rejected {
            self.route.meters.upstream_responded(properties.label, elapsed);
        }
        if properties.rejected_by.is_some() {
            return;
        }
        let (route, request_id) = (&self.route.definition.name, &self.call.request_id);
        let upstream = &error.upstream;
        warn!(%route, %request_id, %upstream, error = %ErrorChain(error), "upstream request failed");
        if let Some(quoted) = error.quoted_text().filter(|_| tracing::enabled!(tracing::Level::DEBUG)) {
            let quoted = self.route.translator.redaction.redact(quoted);
            let text = Untrusted(&quoted);
            debug!(%route, %request_id, %upstream, %text, "error text of the upstream");
        }
    }

    /// Logs the notes of the rule about the response. If the response was unparseable or a template failed,
    /// the operator must see the reason at `warn`. Notes that quote the response are for `debug` only.
    pub(super) fn log_notes(&mut self, notes: &[LogNote], outcome: ToolOutcome) {
        let is_unparseable = outcome == ToolOutcome::Error(ErrorType::UnparseableResponse);
        let wordings = notes.iter().flat_map(|note| {
            [(&note.plain, is_unparseable || note.is_template_error), (&note.quoting, false)]
        });
        for (note, is_warning) in wordings.filter_map(|(text, warns)| Some((text.as_ref()?, warns))) {
            let (route, request_id) = (&self.route.definition.name, &self.call.request_id);
            if !is_warning {
                debug!(%route, %request_id, note = %Untrusted(note), "rule evaluation note");
                continue;
            }
            if is_unparseable {
                let response_bytes = self.recorded.received_bytes;
                let media_type = self.recorded.content_type.as_ref().and_then(media_type);
                let media_type = media_type.as_deref().map(|name| name.get(..100).unwrap_or(name));
                warn!(
                    %route, %request_id, %note, media_type, response_bytes,
                    "unparseable upstream response"
                );
            } else {
                warn!(%route, %request_id, error = %note, "template rendering failed");
            }
            self.recorded.reason = Some(match self.recorded.reason.take() {
                Some(earlier) => format!("{earlier}; {note}"),
                None => note.clone(),
            });
        }
    }

    pub(super) fn log_panic(&mut self) {
        self.recorded.reason = Some("bug: processing the response panicked".to_owned());
        let route = &self.route.definition.name;
        error!(%route, request_id = %self.call.request_id, "bug: processing the response panicked");
    }

    /// Ends the entry of a call whose operation is a task, which continues or was cancelled.
    pub(super) fn end_as_task(mut self) {
        self.outcome = "task";
    }

    pub(super) fn end(mut self, outcome: ToolOutcome) {
        (self.outcome, self.recorded.error_type) = match outcome {
            ToolOutcome::Success => ("success", None),
            ToolOutcome::Error(error_type) => ("error", Some(error_type)),
        };
    }
}

impl Drop for AccessLog<'_> {
    fn drop(&mut self) {
        let (outcome, error_type) = (self.outcome, self.recorded.error_type.map(<&str>::from));
        let elapsed = self.started.elapsed();
        let (api, mcp_version) = (self.call.api.as_str(), self.call.mcp_version);
        self.route.meters.call_ended(CallEnd { api, mcp_version, outcome, error_type }, elapsed);
        // A response with an error status needs no rule, so it does not count as unmatched.
        let has_success_status = self.recorded.response_status.is_none_or(|status| status.is_success());
        let is_default =
            self.recorded.matched_rule == Some(MatchedRule::Default) && self.route.meters.rules() > 0;
        if is_default && has_success_status {
            self.route.meters.unmatched(ResponseMismatch::NoRule);
        } else if self.recorded.error_type == Some(ErrorType::UnparseableResponse)
            && !self.recorded.upstream_failed
        {
            self.route.meters.unmatched(ResponseMismatch::Unparseable);
        }
        if let Some(span) = self.context.span() {
            span.text("glossator.outcome", outcome);
            if let Some(error_type) = error_type {
                span.text("glossator.error_type", error_type);
            }
            match outcome {
                // For other APIs, the status of the HTTP response decides.
                "error" if !mcp_version.is_empty() => span.failed("tool_error"),
                "cancelled" => span.failed("cancelled"),
                _ => {}
            }
        }
        if matches!(outcome, "error" | "cancelled") {
            self.route.meters.failures.add(FailedCall {
                at: SystemTime::now(),
                tool: self.route.definition.name.shared(),
                upstream: self.route.upstream.shared(),
                api,
                request_id: self.call.request_id.clone(),
                outcome,
                error_type: error_type.unwrap_or_default(),
                upstream_status: self.recorded.upstream_status.map(|status| status.as_u16()),
                matched_rule: self.recorded.matched_rule,
                reason: self.recorded.reason.take().map(Into::into),
                took: elapsed,
            });
        }
        info!(
            route = %self.route.definition.name,
            outcome,
            error_type,
            rule = self.recorded.matched_rule.map(tracing::field::display),
            upstream_status = self.recorded.upstream_status.map(|status| status.as_u16()),
            response_age_s = self.recorded.age.map(|age| age.as_secs()),
            exit_status = self.recorded.exit.map(tracing::field::display),
            duration_ms = milliseconds(elapsed),
            upstream_ms = self.context.upstream_time().map(|time| milliseconds(time.min(elapsed))),
            attempts = self.context.attempts(),
            response_bytes = self.recorded.received_bytes,
            request_id = %self.call.request_id,
            rejected_by = self.recorded.rejected_by,
            client = self.call.client.address_in_log(self.call.address).map(tracing::field::display),
            client_name = self.call.client.name_in_log().map(tracing::field::display),
            api,
            mcp_version = Some(mcp_version).filter(|mcp_version| !mcp_version.is_empty()),
            trace_id = self.context.span().and_then(Span::trace_id).map(tracing::field::display),
            "call"
        );
    }
}

/// Method in the span of a call without an MCP message, such as the call of a task after its input has
/// arrived.
const CALL_METHOD: &str = "tools/call";

/// Starts the span of a call (OpenTelemetry's conventions for MCP). An MCP message has its own span, in the
/// trace that its `_meta` carries, because one HTTP request may contain several messages. For other APIs, the
/// span of the HTTP request is used.
fn begin_span(tracer: &Tracer, route: &BoundRoute, call: &Call<'_>) -> Span {
    if !tracer.is_on() {
        return Span::default();
    }
    let tool = route.definition.name.as_str();
    let is_message = !call.mcp_version.is_empty();
    let span = match (is_message, call.span.is_on()) {
        (false, _) => call.span.clone(),
        (true, true) => call.span.child_or_linked(SpanKind::Server, CALL_METHOD, call.trace.as_ref()),
        (true, false) => {
            let parent = call.trace.clone().or_else(|| TraceContext::from_headers(call.headers));
            tracer.begin(SpanKind::Server, CALL_METHOD, parent.as_ref())
        }
    };
    if span.is_recorded() {
        if is_message {
            describe_message(&span, tool, call);
        }
        span.text("gen_ai.operation.name", "execute_tool");
        span.text("gen_ai.tool.name", tool.to_owned());
        span.text("glossator.upstream", route.upstream.as_str().to_owned());
        span.text("glossator.request_id", call.request_id.as_str().to_owned());
    }
    span
}

fn describe_message(span: &Span, tool: &str, call: &Call<'_>) {
    let method = call.message.map_or(CALL_METHOD, |message| message.method);
    span.rename(|| if method == CALL_METHOD { format!("{method} {tool}") } else { method.to_owned() });
    span.text("mcp.method.name", method.to_owned());
    span.text("mcp.protocol.version", call.mcp_version);
    span.text("network.transport", if call.api == ApiKind::Stdio { "pipe" } else { "tcp" });
    let Some(message) = call.message else { return };
    // A string id is recorded without its quotes.
    span.text("jsonrpc.request.id", message.id.trim_matches('"').to_owned());
    if let Some(session) = message.session {
        // A session id is a secret.
        let session: String = crypto::fingerprint(session.as_bytes()).chars().take(16).collect();
        span.text("mcp.session.id", session);
    }
}
