//! Asynchronous operations: a first response (such as 202) starts work that is polled until it is done.
//!
//! A call polls the operation itself ([`CallRun::poll_until_done`]), or returns it as a task to a client that
//! supports tasks ([`OpenOperation`]). In the second case, each request of the client polls or cancels the
//! operation once.

use std::{future::Future, sync::Arc, time::Duration};

use http::{HeaderMap, StatusCode};
use tokio::time::{Instant, sleep_until};
use tracing::{debug, warn};

use super::error_text::{STATUS_UNREAD, error_type_of, failure, operation_lost};
use super::run::{CallRun, PolicyStack, UpstreamExchange, check_scopes};
use super::worker_pool::{LARGE_FOR_RULES_BYTES, WorkError, is_shorter};
use super::{BoundRoute, Call, Snapshot, error_text};
use crate::model::{Arguments, ErrorType, ToolResult, UpstreamResponse};
use crate::route::{
    AsyncOperationRule, HttpRequest, InitialResponse, McpLogLevel, OperationLocation, OperationRequest,
    OperationStatus, Route, RunningOperation, StatusResponse,
};
use crate::telemetry::{CallContext, ErrorChain};
use crate::translate::{CallInput, Translator, WorkBudget};
use crate::upstream::{Deadline, Failure};

/// Timeout of the request that cancels an operation.
const CANCEL_TIMEOUT: Duration = Duration::from_secs(10);

/// Operation that was returned to a client as a task.
#[derive(Debug)]
pub struct OpenOperation {
    /// Validated arguments of the call, with the input responses of the client before the operation started.
    pub arguments: Arguments,
    /// Status URL of the operation, or its id.
    pub location: OperationLocation,
    /// Status message for the client, if the upstream sent one.
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
        /// Status message for the client, if the upstream sent one.
        message: Option<String>,
        /// Time until the next poll.
        wait: Duration,
    },
    /// Done, with this result, which may be a tool error.
    Done(ToolResult),
    /// Cancelled.
    Cancelled,
    /// The operation can no longer be polled.
    Lost {
        /// Reason, for the client.
        reason: String,
    },
}

/// State of an operation according to a response.
pub(super) enum PollOutcome {
    Running(RunningOperation),
    /// The operation has ended. The route's rules apply to this response. The status is present if the
    /// operation has failed.
    Ended(UpstreamResponse, Option<OperationStatus>),
    Cancelled,
}

/// Error of a poll that returned no usable response.
pub(super) struct PollError {
    /// Whether another poll may succeed.
    is_transient: bool,
    result: Box<ToolResult>,
}

impl OpenOperation {
    /// Maximum length of the input responses as JSON, in bytes, because the task id contains them. If they
    /// are longer, the operation is not returned as a task.
    const INPUT_RESPONSES_LIMIT_BYTES: usize = 1 << 10;

    /// Whether the input responses are within the limit.
    pub(super) fn fits(arguments: &Arguments) -> bool {
        let json = serde_json::to_vec(&arguments.input_responses);
        json.is_ok_and(|json| json.len() <= Self::INPUT_RESPONSES_LIMIT_BYTES)
    }
}

impl Snapshot {
    /// Polls an operation once. `call` has the arguments of the call that started it.
    pub async fn poll_operation(
        &self,
        route: &Arc<BoundRoute>,
        call: Call<'_>,
        location: &OperationLocation,
    ) -> OperationState {
        let Some(rule) = &route.async_operation else {
            return OperationState::Lost { reason: operation_lost(STATUS_UNREAD) };
        };
        if let Err(forbidden) = check_scopes(route, &call.client) {
            return OperationState::Done(*forbidden);
        }
        let mut run = CallRun::new(self, route, call, None);
        let (response, failed_status) = match run.poll(location).await {
            Ok(PollOutcome::Running(RunningOperation { status, wait, .. })) => {
                run.log.end_as_task();
                return OperationState::Running { message: status.describe(), wait };
            }
            Ok(PollOutcome::Cancelled) => {
                run.log.end_as_task();
                return OperationState::Cancelled;
            }
            Ok(PollOutcome::Ended(response, failed_status)) => (response, failed_status),
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
        let result = run.translate_last(response, failed_status).await;
        OperationState::Done(run.finish(result))
    }

    /// Cancels an operation, if its route configures a cancellation request, and waits for the upstream's
    /// response. `call` has the arguments of the call that started it.
    pub async fn cancel_operation(
        &self,
        route: &Arc<BoundRoute>,
        mut call: Call<'_>,
        location: &OperationLocation,
    ) {
        if route.async_operation.is_none() || check_scopes(route, &call.client).is_err() {
            return;
        }
        let context = CallContext::new(call.request_id.clone(), call.span.clone());
        let arguments = std::mem::take(&mut call.arguments);
        let exchange = UpstreamExchange::new(route, context, arguments, &call);
        if let Some(cancellation) = exchange.cancel(location) {
            cancellation.await;
        }
    }
}

impl CallRun<'_> {
    /// Polls the operation that the first response may have started. Dropping the future cancels the
    /// operation, if the route configures a cancellation request. From `hand_over_at` on, the operation is
    /// returned to the client as a task instead of being polled again.
    pub(super) async fn poll_until_done(
        &mut self,
        request: HttpRequest,
        response: UpstreamResponse,
        hand_over_at: Option<Instant>,
    ) -> Result<PollOutcome, Box<ToolResult>> {
        let evaluated = self.evaluate(response, move |rule, input, translator, response| {
            rule.interpret_initial(&request, input, translator, response)
        });
        let (meaning, response) = evaluated.await.map_err(|error| error.result)?;
        let mut running = match meaning {
            InitialResponse::Result => return Ok(PollOutcome::Ended(response, None)),
            InitialResponse::Elsewhere => {
                let (route, request_id) =
                    (&self.exchange.route.definition.name, self.exchange.context.request_id());
                warn!(
                    %route, request_id,
                    "asynchronous operation not polled: its status URL is on another server or invalid"
                );
                let message = operation_lost("its status is on another server, which is not polled");
                return Err(failure(ErrorType::UnparseableResponse, message));
            }
            InitialResponse::Operation(running) => running,
        };
        self.progress.log_message(McpLogLevel::Debug, || "the service has started an operation".to_owned());
        let has_progress = rule_of(self.exchange.route).progress.is_some();
        let mut guard = CancelOnDrop { run: self, location: Some(running.location.clone()) };
        for poll_count in 1..=AsyncOperationRule::MAX_POLLS {
            let deadline = guard.run.deadline.at;
            // Returns a task before the timeout rather than an error at the timeout.
            let is_short = running.location.is_short();
            let hand_over_at = hand_over_at.filter(|_| is_short).map(|at| at.min(deadline));
            let next_poll = Instant::now().checked_add(running.wait);
            if hand_over_at.is_some_and(|at| next_poll.is_none_or(|next_poll| next_poll > at)) {
                guard.location = None;
                return Ok(PollOutcome::Running(running));
            }
            let next_poll = next_poll.filter(|next_poll| *next_poll < deadline);
            sleep_until(next_poll.unwrap_or(deadline)).await;
            if next_poll.is_none() {
                return Err(guard.run.operation_not_done());
            }
            match guard.run.poll(&running.location).await {
                Ok(PollOutcome::Running(latest)) => {
                    guard.run.progress.operation(&latest.status, has_progress, poll_count);
                    guard.location = Some(latest.location.clone());
                    running = latest;
                }
                Ok(outcome @ (PollOutcome::Ended(..) | PollOutcome::Cancelled)) => {
                    guard.location = None;
                    return Ok(outcome);
                }
                // Only the status response was slow; the operation continues.
                Err(error) if error.is_transient && hand_over_at.is_some() && Instant::now() >= deadline => {
                    guard.location = None;
                    return Ok(PollOutcome::Running(running));
                }
                Err(error) => return Err(error.result),
            }
        }
        Err(guard.run.operation_not_done())
    }

    /// Polls an operation once, and fetches its result when it is done.
    async fn poll(&mut self, location: &OperationLocation) -> Result<PollOutcome, PollError> {
        let (request, response) = self.follow_up(OperationRequest::Status, location).await?;
        let polled_location = location.clone();
        let evaluated = self.evaluate(response, move |rule, input, translator, response| {
            rule.interpret_status(&polled_location, &request, input, translator, response)
        });
        let (meaning, response) = evaluated.await?;
        Ok(match meaning {
            StatusResponse::Running(running) => PollOutcome::Running(running),
            StatusResponse::Failed(status) => PollOutcome::Ended(response, Some(status)),
            StatusResponse::Cancelled => PollOutcome::Cancelled,
            StatusResponse::Result => PollOutcome::Ended(response, None),
            StatusResponse::Done => {
                self.progress.operation_done();
                let response = match rule_of(self.exchange.route).result {
                    None => response,
                    Some(_) => self.follow_up(OperationRequest::Result, location).await?.1,
                };
                PollOutcome::Ended(response, None)
            }
            StatusResponse::Moved(location) => {
                let (_, response) = self.follow_up(OperationRequest::Status, &location).await?;
                if response.status == StatusCode::ACCEPTED {
                    let (status, wait) =
                        (OperationStatus::default(), rule_of(self.exchange.route).poll_interval);
                    return Ok(PollOutcome::Running(RunningOperation { status, location, wait }));
                }
                self.progress.operation_done();
                PollOutcome::Ended(response, None)
            }
        })
    }

    /// Sends a request about the operation. Returns the request together with the response.
    async fn follow_up(
        &mut self,
        kind: OperationRequest,
        location: &OperationLocation,
    ) -> Result<(HttpRequest, UpstreamResponse), PollError> {
        let UpstreamExchange { route, arguments, headers, .. } = &self.exchange;
        let target = location.clone();
        let build =
            move |route: &Route, arguments: &Arguments, headers: &HeaderMap, work_budget: &WorkBudget| {
                rule_of(route).request(kind, &target, arguments, headers, Some(work_budget))
            };
        let lost_error = |error_type, reason: &str| PollError {
            is_transient: false,
            result: failure(error_type, operation_lost(reason)),
        };
        let built = self.snapshot.workers.build(route, arguments, headers, self.deadline.at, build).await;
        let built = built.map_err(|error| match error {
            WorkError::Panicked => lost_error(ErrorType::Unreachable, STATUS_UNREAD),
            WorkError::DeadlineExceeded => lost_error(ErrorType::Timeout, STATUS_UNREAD),
        })?;
        let request = built.map_err(|error| {
            lost_error(ErrorType::UnparseableResponse, &format!("its status can't be requested: {error}"))
        })?;
        let is_idempotent = request.method.is_idempotent();
        let response = self.send(request.clone().into(), is_idempotent, PolicyStack::Upstream).await;
        response.map(|response| (request, response.response)).map_err(|error| {
            use ErrorType::{RateLimited, Timeout, Unavailable};
            let error_type = match error_type_of(&error) {
                // The client can't correct a follow-up request, so an invalid request is not reported as an
                // argument error.
                ErrorType::Arguments => ErrorType::Unreachable,
                error_type => error_type,
            };
            PollError {
                is_transient: matches!(error.failure, Failure::Connect(_))
                    || matches!(error_type, Timeout | Unavailable | RateLimited),
                result: match error.failure {
                    Failure::Timeout(_) => self.operation_not_done(),
                    _ => failure(error_type, operation_lost(STATUS_UNREAD)),
                },
            }
        })
    }

    /// Applies the route's polling rules to a response in the worker pool.
    async fn evaluate<T: Send + 'static>(
        &self,
        response: UpstreamResponse,
        interpret: impl Fn(&AsyncOperationRule, CallInput<'_>, &Translator, &UpstreamResponse) -> T
        + Send
        + 'static,
    ) -> Result<(T, UpstreamResponse), PollError> {
        let route = Arc::clone(self.exchange.route);
        let (args, input_responses) = self.exchange.arguments.clone().into_values();
        let is_short = is_shorter(&response, LARGE_FOR_RULES_BYTES);
        let work = move |work_budget: &WorkBudget| {
            let (tool, args, input_responses) = (&route.definition.name, &args, &input_responses);
            let input = CallInput { tool, args, input_responses, work_budget: Some(work_budget) };
            (interpret(rule_of(&route), input, &route.translator, &response), response.clone())
        };
        let (name, workers) = (&self.exchange.route.definition.name, &self.snapshot.workers);
        let evaluated = workers.run_inline_first(name, self.deadline.at, is_short, work).await;
        evaluated.map_err(|error| PollError {
            is_transient: error == WorkError::DeadlineExceeded,
            result: error_text::not_processed(error, self.deadline.after),
        })
    }

    fn operation_not_done(&self) -> Box<ToolResult> {
        let is_cancelled = rule_of(self.exchange.route).cancel.is_some();
        error_text::operation_not_done(self.deadline.after, is_cancelled)
    }
}

fn rule_of(route: &Route) -> &AsyncOperationRule {
    route.async_operation.as_ref().expect("only a route with an asynchronous operation is polled")
}

impl UpstreamExchange<'_> {
    /// Returns a future that sends the cancellation request of an operation. `None` if the route configures
    /// none, or the request can't be built.
    fn cancel(&self, location: &OperationLocation) -> Option<impl Future<Output = ()> + Send + use<>> {
        // The request is built on this thread: the client may have disconnected, so nothing would await work
        // in the pool.
        let work_budget = WorkBudget::with_steps(WorkBudget::TEXT_STEPS);
        let rule = rule_of(self.route);
        rule.cancel.as_ref()?;
        let kind = OperationRequest::Cancellation;
        let request = rule.request(kind, location, &self.arguments, self.headers, Some(&work_budget)).ok()?;
        let route = Arc::clone(self.route);
        let is_idempotent = request.method.is_idempotent();
        let upstream_call =
            self.upstream_call(request.into(), is_idempotent, Deadline::after(CANCEL_TIMEOUT));
        Some(async move {
            let response = route.policies.upstream.call(&upstream_call).await;
            let (tool, request_id) = (&route.definition.name, upstream_call.context.request_id());
            match response {
                Ok(response) => {
                    let status = response.status.as_u16();
                    debug!(
                        route = %tool, request_id, status,
                        "cancellation request of an asynchronous operation answered"
                    );
                }
                Err(error) => {
                    let error = ErrorChain(&error);
                    warn!(
                        route = %tool, request_id, %error,
                        "cancellation request of an asynchronous operation failed"
                    );
                }
            }
        })
    }
}

/// Guard that cancels an operation on drop: when the client has disconnected, the timeout has expired, or a
/// poll has failed.
struct CancelOnDrop<'r, 'a> {
    run: &'r mut CallRun<'a>,
    /// Operation to cancel. `None` if it must not be cancelled.
    location: Option<OperationLocation>,
}

impl Drop for CancelOnDrop<'_, '_> {
    fn drop(&mut self) {
        let Some(location) = self.location.take() else { return };
        let cancellation = self.run.exchange.cancel(&location);
        if let (Some(cancellation), Ok(runtime)) = (cancellation, tokio::runtime::Handle::try_current()) {
            runtime.spawn(cancellation);
        }
    }
}
