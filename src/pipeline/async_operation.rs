//! Asynchronous operations: a first response (such as 202) starts work that is polled until it is done.
//!
//! A call polls the operation itself ([`CallRun::poll_until_done`]), or returns it as a task to a client that
//! supports tasks ([`OpenOperation`]). In the second case each request of the client polls it once, or
//! cancels it.

use std::{future::Future, sync::Arc, time::Duration};

use http::{HeaderMap, StatusCode};
use serde_json::{Map, Value};
use tokio::time::{Instant, sleep_until};
use tracing::{debug, warn};

use super::{
    BoundRoute, Call, NoElicitor, Snapshot, error_text,
    run::{CallRun, UpstreamExchange, check_scopes},
    worker_pool::WorkError,
};
use crate::{
    model::{Arguments, ErrorType, ToolResult, UpstreamResponse},
    route::{
        AsyncOperationRule, HttpRequest, InitialResponse, McpLogLevel, OperationContext, OperationLocation,
        OperationStatus, RequestError, Route, StatusResponse,
    },
    telemetry::{CallContext, ErrorChain},
    translate::{CallInput, WorkBudget},
    upstream::{Deadline, UpstreamError},
};

/// Timeout of the request that cancels an operation.
const CANCEL_TIMEOUT: Duration = Duration::from_secs(10);

/// Operation that was returned to a client as a task.
#[derive(Debug)]
pub struct OpenOperation {
    /// Validated arguments of the call.
    pub arguments: Map<String, Value>,
    /// Input responses of the client before the operation started.
    pub input_responses: Map<String, Value>,
    /// Status URL of the operation, or its id.
    pub location: OperationLocation,
    /// Status message.
    pub message: Option<String>,
    /// Time until the next poll.
    pub wait: Duration,
    /// Lifetime of the task.
    pub ttl: Duration,
}

/// State of an operation that its client polls.
#[derive(Debug)]
pub enum OperationState {
    /// In progress.
    Running {
        /// Status message.
        message: Option<String>,
        /// Time until the next poll.
        wait: Duration,
    },
    /// Done, with this result, which may be a tool error.
    Done(ToolResult),
    /// Cancelled.
    Cancelled,
    /// It can no longer be polled.
    Lost {
        /// Reason, for the client.
        reason: String,
    },
}

/// State of an operation after a response.
pub(super) enum PollOutcome {
    Running {
        status: OperationStatus,
        location: OperationLocation,
        wait: Duration,
    },
    /// Response that the route's rules apply to.
    Done(UpstreamResponse),
    /// Response that reports the failure.
    Failed(UpstreamResponse, OperationStatus),
    Cancelled,
}

/// Poll without a usable response.
pub(super) struct PollError {
    /// Whether another poll may succeed.
    is_transient: bool,
    result: Box<ToolResult>,
}

impl OpenOperation {
    /// Limit of the input responses, as JSON in bytes. With more, an operation is not returned as a task.
    const INPUT_RESPONSES_LIMIT_BYTES: usize = 1 << 10;

    /// Whether the input responses are within the limit.
    pub(super) fn fits(input_responses: &Map<String, Value>) -> bool {
        serde_json::to_vec(input_responses).is_ok_and(|json| json.len() <= Self::INPUT_RESPONSES_LIMIT_BYTES)
    }
}

impl Snapshot {
    /// Polls an operation once. `call` has the arguments of the call that started it.
    pub async fn poll_operation(
        &self,
        route: &Arc<BoundRoute>,
        call: Call<'_>,
        input_responses: Map<String, Value>,
        location: &OperationLocation,
    ) -> OperationState {
        let Some(rule) = &route.async_operation else {
            return OperationState::Lost { reason: error_text::OPERATION_LOST.to_owned() };
        };
        if let Err(forbidden) = check_scopes(route, &call.client) {
            return OperationState::Done(*forbidden);
        }
        let mut no_elicitor = NoElicitor;
        let mut run = CallRun::new(self, route, call, &mut no_elicitor);
        run.exchange.arguments =
            std::mem::take(&mut run.exchange.arguments).with_input_responses(input_responses);
        let (response, failure) = match run.poll(rule, location).await {
            Ok(PollOutcome::Running { status, wait, .. }) => {
                run.log.end_open();
                return OperationState::Running { message: status.describe(), wait };
            }
            Ok(PollOutcome::Cancelled) => {
                run.log.end_open();
                return OperationState::Cancelled;
            }
            Ok(PollOutcome::Done(response)) => (response, None),
            Ok(PollOutcome::Failed(response, status)) => (response, Some(status)),
            Err(error) => {
                run.log.end(error.result.outcome);
                return match error.is_transient {
                    true => OperationState::Running {
                        message: Some("the service can't be polled at the moment".to_owned()),
                        wait: rule.poll_interval,
                    },
                    false => OperationState::Lost { reason: error.result.message() },
                };
            }
        };
        let result = run.translate_last(response, failure).await;
        OperationState::Done(run.finish(result))
    }

    /// Cancels an operation, if its route has a request for that, and waits for the upstream's response.
    pub async fn cancel_operation(
        &self,
        route: &Arc<BoundRoute>,
        call: Call<'_>,
        input_responses: Map<String, Value>,
        location: &OperationLocation,
    ) {
        let is_allowed = check_scopes(route, &call.client).is_ok();
        let Some(rule) = route.async_operation.as_ref().filter(|_| is_allowed) else { return };
        let context = CallContext::new(call.request_id.clone(), call.span.clone());
        let mut exchange = UpstreamExchange::new(route, context, call);
        exchange.arguments = exchange.arguments.with_input_responses(input_responses);
        if let Some(cancelled) = exchange.cancel(rule, location) {
            cancelled.await;
        }
    }
}

impl CallRun<'_> {
    /// Polls the operation that the first response may have started. Dropping the future cancels it, if the
    /// route has a request for that. From `hand_over_at` on, the operation is returned to the client as a
    /// task instead of being polled again.
    pub(super) async fn poll_until_done(
        &mut self,
        rule: &AsyncOperationRule,
        request: HttpRequest,
        response: UpstreamResponse,
        hand_over_at: Option<Instant>,
    ) -> Result<PollOutcome, Box<ToolResult>> {
        let interpret =
            move |rule: &AsyncOperationRule, context: OperationContext<'_>, response: &UpstreamResponse| {
                rule.interpret_initial(&request, context, response)
            };
        let (meaning, response) = self.evaluate(response, interpret).await.map_err(|error| error.result)?;
        let (mut location, mut wait) = match meaning {
            InitialResponse::Result => return Ok(PollOutcome::Done(response)),
            InitialResponse::Elsewhere => {
                self.log.log_operation_elsewhere();
                return Err(Box::new(ToolResult::error(
                    ErrorType::UnparseableResponse,
                    error_text::OPERATION_ELSEWHERE,
                )));
            }
            InitialResponse::Operation { location, wait } => (location, wait),
        };
        self.progress.line(McpLogLevel::Debug, || "the service has started an operation".to_owned());
        let mut status = OperationStatus::default();
        let mut guard = CancelOnDrop { run: self, rule, location: Some(location.clone()) };
        for polls in 1..=AsyncOperationRule::MAX_POLLS {
            let deadline = guard.run.deadline.at;
            // Returns a task before the timeout rather than an error at the timeout.
            let hand_over_at = hand_over_at.filter(|_| location.is_short()).map(|at| at.min(deadline));
            let next = Instant::now().checked_add(wait);
            if hand_over_at.is_some_and(|at| next.is_none_or(|next| next > at)) {
                guard.location = None;
                return Ok(PollOutcome::Running { status, location, wait });
            }
            let next = next.filter(|next| *next < deadline);
            sleep_until(next.unwrap_or(deadline)).await;
            if next.is_none() {
                return Err(guard.run.operation_not_done(rule));
            }
            match guard.run.poll(rule, &location).await {
                Ok(PollOutcome::Running { status: now, location: next, wait: until }) => {
                    guard.run.progress.operation(&now, rule.progress.is_some(), polls);
                    (status, location, wait) = (now, next, until);
                    guard.location = Some(location.clone());
                }
                Ok(step @ (PollOutcome::Done(_) | PollOutcome::Failed(..) | PollOutcome::Cancelled)) => {
                    guard.location = None;
                    return Ok(step);
                }
                // Only the status response was slow; the operation continues.
                Err(error) if error.is_transient && hand_over_at.is_some() && Instant::now() >= deadline => {
                    guard.location = None;
                    return Ok(PollOutcome::Running { status, location, wait });
                }
                Err(error) => return Err(error.result),
            }
        }
        Err(guard.run.operation_not_done(rule))
    }

    /// Polls an operation once, and fetches its result when it is done.
    async fn poll(
        &mut self,
        rule: &AsyncOperationRule,
        location: &OperationLocation,
    ) -> Result<PollOutcome, PollError> {
        let request = self.poll_request(location).await?;
        let response = self.poll_response(rule, request.clone()).await?;
        let at = location.clone();
        let interpret =
            move |rule: &AsyncOperationRule, context: OperationContext<'_>, response: &UpstreamResponse| {
                rule.interpret_status(&at, &request, context, response)
            };
        let (meaning, response) = self.evaluate(response, interpret).await?;
        Ok(match meaning {
            StatusResponse::Running { status, location, wait } => {
                PollOutcome::Running { status, location, wait }
            }
            StatusResponse::Failed(status) => PollOutcome::Failed(response, status),
            StatusResponse::Cancelled => PollOutcome::Cancelled,
            StatusResponse::Result => PollOutcome::Done(response),
            StatusResponse::Done => {
                self.progress.operation_done();
                let at = location.clone();
                let request = self
                    .build(move |rule, arguments, headers, stop| {
                        rule.result_request(&at, arguments, headers, stop)
                    })
                    .await?;
                match request {
                    None => PollOutcome::Done(response),
                    Some(request) => PollOutcome::Done(self.poll_response(rule, request).await?),
                }
            }
            StatusResponse::Moved(location) => {
                let request = self.poll_request(&location).await?;
                let response = self.poll_response(rule, request).await?;
                if response.status == StatusCode::ACCEPTED {
                    return Ok(PollOutcome::Running {
                        status: OperationStatus::default(),
                        location,
                        wait: rule.poll_interval,
                    });
                }
                self.progress.operation_done();
                PollOutcome::Done(response)
            }
        })
    }

    async fn poll_request(&self, location: &OperationLocation) -> Result<HttpRequest, PollError> {
        let location = location.clone();
        self.build(move |rule, arguments, headers, stop| {
            rule.status_request(&location, arguments, headers, stop)
        })
        .await
    }

    async fn poll_response(
        &mut self,
        rule: &AsyncOperationRule,
        request: HttpRequest,
    ) -> Result<UpstreamResponse, PollError> {
        let response = self.poll_operation(request).await;
        response.map_err(|error| PollError {
            is_transient: matches!(
                error,
                UpstreamError::Connect { .. }
                    | UpstreamError::ConnectDeadline { .. }
                    | UpstreamError::Deadline { .. }
                    | UpstreamError::AttemptDeadline { .. }
                    | UpstreamError::Busy { .. }
                    | UpstreamError::ClientBusy { .. }
                    | UpstreamError::CircuitOpen { .. }
                    | UpstreamError::Restarting { .. }
                    | UpstreamError::RateLimited { .. }
                    | UpstreamError::RateLimitUnavailable { .. }
                    | UpstreamError::BufferFull { .. }
            ),
            result: match error {
                UpstreamError::Deadline { .. } => self.operation_not_done(rule),
                error => Box::new(error_text::operation_lost(&error)),
            },
        })
    }

    /// Builds a request about the operation in the worker pool.
    async fn build<T: Send + 'static>(
        &self,
        request: impl Fn(
            &AsyncOperationRule,
            &Arguments,
            &HeaderMap,
            Option<&WorkBudget>,
        ) -> Result<T, RequestError>
        + Send
        + 'static,
    ) -> Result<T, PollError> {
        let UpstreamExchange { route, arguments, headers, .. } = &self.exchange;
        let build = move |route: &Route, arguments: &Arguments, headers: &HeaderMap, stop: &WorkBudget| {
            let rule = route
                .async_operation
                .as_ref()
                .expect("only a route with an asynchronous operation is polled");
            request(rule, arguments, headers, Some(stop))
        };
        let built = self.snapshot.workers.build(route, arguments, headers, self.deadline.at, build).await;
        let lost = |error_type, text: &str| {
            let result = Box::new(ToolResult::error(error_type, text));
            PollError { is_transient: false, result }
        };
        let built = built.map_err(|error| match error {
            WorkError::Panicked => lost(ErrorType::Unreachable, error_text::OPERATION_LOST),
            WorkError::DeadlineExceeded => lost(ErrorType::Timeout, error_text::OPERATION_LOST),
        })?;
        built.map_err(|error| {
            lost(ErrorType::UnparseableResponse, &error_text::operation_unnamed(&error.to_string()))
        })
    }

    /// Applies the route's polling rules to a response in the worker pool.
    async fn evaluate<T: Send + 'static>(
        &self,
        response: UpstreamResponse,
        interpret: impl Fn(&AsyncOperationRule, OperationContext<'_>, &UpstreamResponse) -> T + Send + 'static,
    ) -> Result<(T, UpstreamResponse), PollError> {
        let route = Arc::clone(self.exchange.route);
        let (args, input_responses) = self.exchange.arguments.clone().into_values();
        let evaluate = move |response: &UpstreamResponse, stop: &WorkBudget| {
            let input = CallInput {
                stop: Some(stop),
                input_responses: &input_responses,
                ..CallInput::new(&route.definition.name, &args)
            };
            let (limits, redaction) = (&route.translator.limits, &route.translator.redaction);
            let rule = route
                .async_operation
                .as_ref()
                .expect("only a route with an asynchronous operation is polled");
            interpret(rule, OperationContext { input, limits, redaction }, response)
        };
        let (name, workers) = (&self.exchange.route.definition.name, &self.snapshot.workers);
        let evaluated = workers.evaluate(name, response, self.deadline.at, evaluate).await;
        evaluated.map_err(|error| PollError {
            is_transient: error == WorkError::DeadlineExceeded,
            result: Box::new(match error {
                WorkError::Panicked => {
                    ToolResult::error(ErrorType::UnparseableResponse, error_text::UNREADABLE)
                }
                WorkError::DeadlineExceeded => error_text::too_late(self.deadline.after),
            }),
        })
    }

    fn operation_not_done(&self, rule: &AsyncOperationRule) -> Box<ToolResult> {
        Box::new(error_text::operation_not_done(self.deadline.after, rule.cancel.is_some()))
    }
}

impl UpstreamExchange<'_> {
    /// Cancels an operation, if the route has a request for that.
    fn cancel(
        &self,
        rule: &AsyncOperationRule,
        location: &OperationLocation,
    ) -> Option<impl Future<Output = ()> + Send + use<>> {
        // The client may have disconnected, so nothing would await work in the pool.
        let stop = WorkBudget::with_steps(WorkBudget::TEXT_STEPS);
        let request = rule.cancel_request(location, &self.arguments, self.headers, Some(&stop))?;
        let (upstream, tool) =
            (Arc::clone(self.route.policies.upstream()), self.route.definition.name.clone());
        let is_idempotent = request.method.is_idempotent();
        let upstream_call =
            self.upstream_call(request.into(), is_idempotent, Deadline::after(CANCEL_TIMEOUT));
        Some(async move {
            let (response, request_id) =
                (upstream.poll_stack(&upstream_call).await, upstream_call.context.request_id());
            match response {
                Ok(upstream_response) => {
                    let status = upstream_response.status.as_u16();
                    debug!(route = %tool, request_id, status, "abandoned asynchronous operation cancelled");
                }
                Err(error) => {
                    let error = ErrorChain(&error);
                    warn!(route = %tool, request_id, %error, "cancelling an abandoned asynchronous operation failed");
                }
            }
        })
    }
}

/// Cancels an operation when it is dropped: the client has left, or the timeout has passed.
struct CancelOnDrop<'r, 'a> {
    run: &'r mut CallRun<'a>,
    rule: &'r AsyncOperationRule,
    /// Operation to cancel. `None` if it must not be cancelled.
    location: Option<OperationLocation>,
}

impl Drop for CancelOnDrop<'_, '_> {
    fn drop(&mut self) {
        let Some(location) = self.location.take() else { return };
        let cancelled = self.run.exchange.cancel(self.rule, &location);
        if let (Some(cancelled), Ok(runtime)) = (cancelled, tokio::runtime::Handle::try_current()) {
            runtime.spawn(cancelled);
        }
    }
}
