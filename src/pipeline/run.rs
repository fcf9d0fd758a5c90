//! Steps of a call, from its arguments to its result. [`CallRun::outcome`] runs them in order.

use std::{sync::Arc, time::Duration};

use http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header};
use serde_json::{Map, Value};
use tokio::time::Instant;
use tracing::debug;

use super::access_log::AccessLog;
use super::async_operation::PollOutcome;
use super::elicitation::{elicit_first, elicit_for_rule};
use super::error_text::{self, PossibleEffect, failure};
use super::progress::{LOG_MESSAGE_LIMIT_BYTES, Reporter};
use super::worker_pool::WorkError;
use super::{AGE_META, BoundRoute, Call, Elicitor, OpenOperation, REQUEST_ID_META, Snapshot};
use crate::model::{Arguments, ErrorType, ToolOutcome, ToolResult, UpstreamResponse};
use crate::policy::CallResponse;
use crate::route::{McpLogLevel, OperationStatus, Route, RunningOperation, TraceContext, UpstreamRequest};
use crate::telemetry::CallContext;
use crate::translate::{
    CallInput, STATUS_META_KEY, Trace, Translation, WorkBudget, message_variables, translate,
};
use crate::upstream::{ClientIdentity, Deadline, UpstreamCall, UpstreamError};

/// Outcome of a call whose client can poll an asynchronous operation itself.
#[derive(Debug)]
pub enum CallOutcome {
    /// Result of the call.
    Result(ToolResult),
    /// Operation in progress.
    Operation(Box<OpenOperation>),
}

impl Snapshot {
    /// Calls a tool. Every failure is a tool result. Dropping the future cancels the upstream request. The
    /// timeout does not include the time that the client takes for input requests. `elicitor` is `None` if
    /// the client supports no input requests.
    pub async fn call<'a>(
        &'a self,
        route: &'a Arc<BoundRoute>,
        call: Call<'a>,
        elicitor: Option<&'a mut dyn Elicitor>,
    ) -> ToolResult {
        let mut run = CallRun::new(self, route, call, elicitor);
        let result = run.result().await;
        run.finish(result)
    }

    /// Calls a tool for a client that supports tasks. An asynchronous operation that takes longer than its
    /// rule allows is returned as a task.
    pub async fn call_as_task(
        &self,
        route: &Arc<BoundRoute>,
        call: Call<'_>,
        elicitor: &mut dyn Elicitor,
    ) -> CallOutcome {
        let mut run = CallRun::new(self, route, call, Some(elicitor));
        let hand_over_after = route.async_operation.as_ref().map(|rule| rule.task.after);
        let result = match run.outcome(hand_over_after).await {
            Ok(operation @ CallOutcome::Operation(_)) => {
                run.log.end_as_task();
                return operation;
            }
            Ok(CallOutcome::Result(result)) => Ok(result),
            Err(failed) => Err(failed),
        };
        CallOutcome::Result(run.finish(result))
    }

    /// Validates arguments, and adds the defaults of missing ones.
    ///
    /// # Errors
    ///
    /// A message for the model about the invalid arguments.
    pub async fn check_arguments(
        &self,
        route: &Arc<BoundRoute>,
        arguments: Arguments,
    ) -> Result<Arguments, String> {
        let deadline = Deadline::after(route.timeout);
        let checked = self.workers.check(route, arguments, deadline.at).await;
        checked.unwrap_or_else(|error| Err(error_text::arguments_not_processed(error).message()))
    }
}

/// Policy stack that a request passes through.
#[derive(Debug, Clone, Copy)]
pub(super) enum PolicyStack {
    /// Policies of the route and its upstream, for the request of a call.
    Route,
    /// Policies of the upstream only, for requests that follow from a call.
    Upstream,
}

/// State of one running call.
pub(super) struct CallRun<'a> {
    pub(super) snapshot: &'a Snapshot,
    pub(super) exchange: UpstreamExchange<'a>,
    pub(super) deadline: Deadline,
    pub(super) log: AccessLog<'a>,
    pub(super) progress: Reporter<'a>,
    elicitor: Option<&'a mut dyn Elicitor>,
    /// The response that was translated, if the route has a resource.
    pub(super) response: Option<UpstreamResponse>,
}

/// Parts that all upstream requests of one call share.
pub(super) struct UpstreamExchange<'a> {
    pub(super) route: &'a Arc<BoundRoute>,
    pub(super) arguments: Arguments,
    /// Headers of the client.
    pub(super) headers: &'a HeaderMap,
    pub(super) client: ClientIdentity,
    trace: Option<TraceContext>,
    /// Request id, span and attempt counter.
    pub(super) context: CallContext,
}

impl<'a> CallRun<'a> {
    pub(super) fn new(
        snapshot: &'a Snapshot,
        route: &'a Arc<BoundRoute>,
        mut call: Call<'a>,
        elicitor: Option<&'a mut dyn Elicitor>,
    ) -> Self {
        let arguments = std::mem::take(&mut call.arguments);
        let progress = Reporter::new(call.subscriber, route.definition.name.as_str());
        let log = AccessLog::begin(&snapshot.tracing, route, call);
        let exchange = UpstreamExchange::new(route, log.context.clone(), arguments, &log.call);
        let deadline = Deadline::after(route.timeout);
        Self { snapshot, exchange, deadline, log, progress, elicitor, response: None }
    }

    /// Runs the call for a client that waits until an asynchronous operation is done.
    pub(super) async fn result(&mut self) -> Result<ToolResult, Box<ToolResult>> {
        match self.outcome(None).await? {
            CallOutcome::Result(result) => Ok(result),
            CallOutcome::Operation(_) => Err(error_text::operation_not_done(self.deadline.after, false)),
        }
    }

    /// Runs the steps of a call. After `hand_over_after`, an operation in progress is returned; without it,
    /// the call waits until the operation is done. An `Err` is the result of a call that ended early, boxed
    /// because it is rare.
    async fn outcome(&mut self, hand_over_after: Option<Duration>) -> Result<CallOutcome, Box<ToolResult>> {
        let route = self.exchange.route;
        check_scopes(route, &self.exchange.client)?;
        self.check_arguments().await?;
        let client_timeout = client_timeout(self.exchange.headers)?;
        if !route.input_requests.is_empty() {
            let arguments = std::mem::take(&mut self.exchange.arguments);
            self.exchange.arguments =
                Box::pin(elicit_first(&route.input_requests, arguments, self.elicitor.as_deref_mut()))
                    .await?;
            // Values that a person entered must match the schema, too.
            self.check_arguments().await?;
        }
        self.deadline = Deadline::after(route.timeout).within(client_timeout);
        let hand_over_at = hand_over_after
            .filter(|_| OpenOperation::fits(&self.exchange.arguments))
            .map(|after| Deadline::after(after).at);
        let request = self.build_request().await?;
        let operation = match (&route.async_operation, &request) {
            (Some(_), UpstreamRequest::Http(request)) => Some(request.clone()),
            _ => None,
        };
        self.send_log_messages(None);
        let CallResponse { response, age, entry, upstream_result: _ } = self.send_or_error(request).await?;
        let poll_outcome = match operation {
            Some(request) => Box::pin(self.poll_until_done(request, response, hand_over_at)).await?,
            None => PollOutcome::Ended(response, None),
        };
        let result = match poll_outcome {
            PollOutcome::Running(RunningOperation { status, location, wait }) => {
                return Ok(CallOutcome::Operation(Box::new(OpenOperation {
                    arguments: std::mem::take(&mut self.exchange.arguments),
                    location,
                    message: status.describe(),
                    wait,
                    ttl: route.async_operation.as_ref().map_or(Duration::ZERO, |rule| rule.task.ttl),
                })));
            }
            PollOutcome::Ended(response, failed) => self.translate_last(response, failed).await,
            PollOutcome::Cancelled => Err(error_text::operation_cancelled()),
        };
        match (result, age) {
            (Ok(result), age) if !result.is_error() => Ok(CallOutcome::Result(match age {
                Some(age) => result.with_meta(AGE_META, age.as_secs()),
                None => result,
            })),
            (failed, _) => {
                // A cached response whose translation is an error is not used again.
                if let Some(entry) = entry {
                    entry.invalidate();
                }
                failed.map(CallOutcome::Result)
            }
        }
    }

    async fn check_arguments(&mut self) -> Result<(), Box<ToolResult>> {
        let (route, arguments) = (self.exchange.route, std::mem::take(&mut self.exchange.arguments));
        let checked = self.snapshot.check_arguments(route, arguments).await;
        self.exchange.arguments = checked.map_err(|message| Box::new(argument_error(route, message)))?;
        Ok(())
    }

    async fn build_request(&self) -> Result<UpstreamRequest, Box<ToolResult>> {
        let UpstreamExchange { route, arguments, headers, .. } = &self.exchange;
        let build = |route: &Route, arguments: &Arguments, headers: &HeaderMap, work_budget: &WorkBudget| {
            route.request.build(arguments, headers, Some(work_budget))
        };
        let built = self.snapshot.workers.build(route, arguments, headers, self.deadline.at, build).await;
        built.map_err(error_text::arguments_not_processed)?.map_err(|error| {
            if let Some(detail) = error.detail() {
                let (route, request_id) = (&route.definition.name, self.exchange.context.request_id());
                debug!(%route, request_id, detail, "request template failed");
            }
            failure(ErrorType::Arguments, error.to_string())
        })
    }

    /// Sends the request of the call. A failure becomes a tool error.
    async fn send_or_error(&mut self, request: UpstreamRequest) -> Result<CallResponse, Box<ToolResult>> {
        let route = self.exchange.route;
        self.send(request, route.idempotent, PolicyStack::Route).await.map_err(|error| {
            let effect = match (route.translator.has_effect, self.exchange.context.was_sent()) {
                (false, _) => PossibleEffect::Harmless,
                (true, false) => PossibleEffect::Unsent,
                (true, true) => PossibleEffect::Possible,
            };
            error_text::error_result(&error, effect)
        })
    }

    /// Sends a request, and reports progress until the response.
    pub(super) async fn send(
        &mut self,
        request: UpstreamRequest,
        is_idempotent: bool,
        policies: PolicyStack,
    ) -> Result<CallResponse, UpstreamError> {
        let route = self.exchange.route;
        let (progress, events) = self.progress.events();
        let upstream_call =
            UpstreamCall { progress, ..self.exchange.upstream_call(request, is_idempotent, self.deadline) };
        let response = async {
            match policies {
                PolicyStack::Route => route.policies.call(&upstream_call).await,
                PolicyStack::Upstream => {
                    let response = route.policies.upstream.call(&upstream_call).await;
                    response.map(CallResponse::from_upstream)
                }
            }
        };
        let started = Instant::now();
        let response = self.progress.report_until(response, events, route.async_operation.is_none()).await;
        self.log.record_response(&response, started.elapsed());
        let received = response?;
        if received.age.is_none() {
            return Ok(received);
        }
        // The memory of a cached response was charged to the call that fetched it, so charge this call, too.
        let charged = Box::pin(upstream_call.charged(received.response)).await;
        let response = charged.map_err(|failure| failure.into_error(&route.upstream))?;
        Ok(CallResponse { response, ..received })
    }

    /// Translates the last response. `failure` is the status of a failed asynchronous operation, for which
    /// the rules may have a better error message.
    pub(super) async fn translate_last(
        &mut self,
        response: UpstreamResponse,
        failure: Option<OperationStatus>,
    ) -> Result<ToolResult, Box<ToolResult>> {
        let route = self.exchange.route;
        if route.resource.is_some() {
            self.response = Some(response.clone());
        }
        self.send_log_messages(Some(response.status));
        let translation = if failure.is_none() && route.input_requests.sampled.is_some() {
            Box::pin(self.translate_with_sampling(response)).await?
        } else {
            let arguments = std::mem::take(&mut self.exchange.arguments);
            self.translate(arguments, response).await?
        };
        self.log.log_notes(&translation.notes, translation.result.outcome);
        self.log.record_rule(translation.rule);
        self.progress.log_message(McpLogLevel::Debug, || match translation.rule {
            Some(rule) => format!("rule {} of the route matches", rule + 1),
            None => "no rule of the route matches: the default rules apply".to_owned(),
        });
        match (failure, translation.result.outcome) {
            (Some(status), ToolOutcome::Success | ToolOutcome::Error(ErrorType::InputMissing)) => {
                Err(error_text::operation_failed(status.message.as_deref()))
            }
            (Some(_), ToolOutcome::Error(_)) | (None, _) => Ok(translation.result),
        }
    }

    /// Translates a response with a rule that may send a sampling request. After the client has responded,
    /// the upstream's response is translated again.
    async fn translate_with_sampling(
        &mut self,
        response: UpstreamResponse,
    ) -> Result<Translation, Box<ToolResult>> {
        let mut translation = self.translate(self.exchange.arguments.clone(), response.clone()).await?;
        let Some(sample) = translation.sampling.take() else { return Ok(translation) };
        let mut arguments = std::mem::take(&mut self.exchange.arguments);
        arguments.input_responses =
            elicit_for_rule(*sample, &arguments, self.elicitor.as_deref_mut()).await?;
        self.deadline = Deadline::after(self.exchange.route.timeout);
        self.translate(arguments, response).await
    }

    pub(super) async fn translate(
        &mut self,
        arguments: Arguments,
        response: UpstreamResponse,
    ) -> Result<Translation, Box<ToolResult>> {
        let workers = &self.snapshot.workers;
        let translated = workers.translate(self.exchange.route, arguments, response, self.deadline.at).await;
        translated.map_err(|error| {
            if error == WorkError::Panicked {
                self.log.log_panic();
            }
            error_text::not_processed(error, self.deadline.after)
        })
    }

    /// Sends the log notifications of the route: before the upstream request (without `status`), or about the
    /// response with this status.
    fn send_log_messages(&mut self, status: Option<StatusCode>) {
        let (route, arguments) = (self.exchange.route, &self.exchange.arguments);
        let work_budget = WorkBudget::with_steps(WorkBudget::TEXT_STEPS);
        for message in route.log.iter().filter(|message| message.depends_on_response() == status.is_some()) {
            self.progress.log_message(message.level, || {
                let variables = message_variables(arguments, status.map(|status| status.as_u16()));
                // Rendering errors are shown, so that the author of the route notices them.
                let text = message.text.render_until(&variables, &work_budget);
                let text = text.unwrap_or_else(|_| "(the log message can't be rendered)".to_owned());
                route.translator.redaction.capped(&text, LOG_MESSAGE_LIMIT_BYTES)
            });
        }
    }

    /// Writes the access log, and returns the result for the client.
    pub(super) fn finish(self, result: Result<ToolResult, Box<ToolResult>>) -> ToolResult {
        let route = self.exchange.route;
        // An error that ended the call early may quote arguments, so it is redacted like a translated error.
        let mut result = result.unwrap_or_else(|error| route.translator.for_clients(*error));
        if result.is_error() {
            let request_id = self.log.call.request_id.as_str();
            result = result.with_errors_as(route.error_format).with_meta(REQUEST_ID_META, request_id);
        }
        self.log.end(result.outcome);
        result
    }
}

impl<'a> UpstreamExchange<'a> {
    pub(super) fn new(
        route: &'a Arc<BoundRoute>,
        context: CallContext,
        arguments: Arguments,
        call: &Call<'a>,
    ) -> Self {
        let trace = call.trace.clone().or_else(|| TraceContext::from_headers(call.headers));
        Self { route, context, arguments, headers: call.headers, client: call.client.clone(), trace }
    }

    /// Creates the call for the policies of an upstream.
    pub(super) fn upstream_call(
        &self,
        mut request: UpstreamRequest,
        is_idempotent: bool,
        deadline: Deadline,
    ) -> UpstreamCall {
        let route = self.route;
        let traced = route.propagates_trace_context;
        // With tracing, each attempt writes the trace context of its own span.
        if let (Some(trace), true, None) = (&self.trace, traced, self.context.span())
            && let Some(headers) = request.headers_mut()
        {
            trace.write(headers);
        }
        let upstream_call = UpstreamCall::new(request, route.response_limit_bytes, deadline, is_idempotent);
        let (client, context) = (self.client.clone(), self.context.clone());
        UpstreamCall { client, context, charge: route.charge.clone(), traced, ..upstream_call }
    }
}

/// Checks that the client has the scopes of the route. All APIs share this check. The MCP API also checks
/// earlier, to respond with a challenge that names the missing scopes.
pub(super) fn check_scopes(route: &Route, client: &ClientIdentity) -> Result<(), Box<ToolResult>> {
    client.may(&route.scopes).then_some(()).ok_or_else(|| {
        failure(ErrorType::Forbidden, format!("Permission denied. Required scope: `{}`.", route.scopes))
    })
}

/// Argument error, in the route's error format.
fn argument_error(route: &Route, message: String) -> ToolResult {
    let Some(translator) = &route.argument_error else {
        return ToolResult::error(ErrorType::Arguments, message);
    };
    let body = serde_json::json!({ "message": message }).to_string();
    let mut headers = HeaderMap::new();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    let response = UpstreamResponse::new(StatusCode::BAD_REQUEST, headers, body.into());
    let no_arguments = Value::Object(Map::new());
    let input = CallInput::new(&route.definition.name, &no_arguments);
    let mut result = translate(translator, input, &response, &mut Trace::off()).result;
    // No upstream sent the status of this response, so it must not appear in the result.
    result.meta.remove(STATUS_META_KEY);
    if let ToolOutcome::Error(ErrorType::Upstream { .. }) = result.outcome {
        result.outcome = ToolOutcome::Error(ErrorType::Arguments);
    }
    result
}

/// Header with the client's timeout in seconds.
const REQUEST_TIMEOUT: HeaderName = HeaderName::from_static("x-request-timeout");
/// Header that may contain the client's timeout as `wait=SECONDS` (RFC 7240, section 4.3).
const PREFER: HeaderName = HeaderName::from_static("prefer");

/// Upper bound of the timeout in `X-Request-Timeout`. No call has a longer timeout.
const CLIENT_TIMEOUT_LIMIT: Duration = Duration::from_secs(24 * 3600);

/// Timeout that the client sends in its headers, if any.
///
/// # Errors
///
/// A tool error for an invalid `X-Request-Timeout`. An invalid `Prefer: wait=…` is ignored, and so is
/// `wait=0`, because no call could meet it.
pub(super) fn client_timeout(headers: &HeaderMap) -> Result<Option<Duration>, Box<ToolResult>> {
    let preferred = headers.get_all(PREFER).iter().filter_map(|value| value.to_str().ok());
    let preferred = preferred.flat_map(|value| value.split(',')).find_map(|preference| {
        let (name, value) = preference.split(';').next()?.split_once('=')?;
        let value = value.trim().trim_matches('"');
        let is_wait = name.trim().eq_ignore_ascii_case("wait");
        is_wait.then(|| value.parse().ok().filter(|time| *time > 0).map(Duration::from_secs)).flatten()
    });
    let mut timeouts = headers.get_all(REQUEST_TIMEOUT).iter();
    let timeout = match (timeouts.next(), timeouts.next()) {
        (None, _) => return Ok(preferred),
        (Some(value), None) => value.to_str().ok().and_then(parse_seconds),
        (Some(_), Some(_)) => None,
    };
    let timeout = timeout.ok_or_else(|| {
        let message = format!("header `{REQUEST_TIMEOUT}` must be one number of seconds, such as `2.5`");
        failure(ErrorType::Arguments, message)
    })?;
    Ok(Some(preferred.map_or(timeout, |preferred| timeout.min(preferred))))
}

fn parse_seconds(text: &str) -> Option<Duration> {
    let seconds: f64 = text.trim().parse().ok()?;
    let time = Duration::try_from_secs_f64(seconds).unwrap_or(CLIENT_TIMEOUT_LIMIT);
    (seconds.is_finite() && seconds > 0.0 && !time.is_zero()).then_some(time.min(CLIENT_TIMEOUT_LIMIT))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(pairs: &[(HeaderName, &str)], expected: Result<Option<u64>, ()>) {
        let headers: HeaderMap =
            pairs.iter().map(|(name, value)| (name.clone(), value.parse().unwrap())).collect();
        let found = client_timeout(&headers);
        let found = found.map(|found| found.map(|time| u64::try_from(time.as_millis()).unwrap()));
        assert_eq!(found.map_err(|_| ()), expected, "{pairs:?}");
    }

    #[test]
    fn a_client_may_set_a_timeout() {
        check(&[], Ok(None));
        check(&[(REQUEST_TIMEOUT, "2.5")], Ok(Some(2_500)));
        check(&[(REQUEST_TIMEOUT, " 3 ")], Ok(Some(3_000)));
        check(&[(REQUEST_TIMEOUT, "1e300")], Ok(Some(86_400_000)));
        check(&[(PREFER, "respond-async, Wait=\"10\"; x=1")], Ok(Some(10_000)));
        check(&[(PREFER, "wait=10"), (REQUEST_TIMEOUT, "4")], Ok(Some(4_000)));
    }

    #[test]
    fn an_invalid_timeout_is_rejected_and_an_invalid_preference_ignored() {
        for value in ["", "soon", "-1", "0", "1e-12", "NaN", "inf", "5s", "1,2"] {
            check(&[(REQUEST_TIMEOUT, value)], Err(()));
        }
        for value in ["wait", "wait=soon", "wait=-1", "wait=0", "waits=3"] {
            check(&[(PREFER, value)], Ok(None));
        }
    }
}
