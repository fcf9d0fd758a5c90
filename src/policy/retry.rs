//! Retries with exponential backoff and jitter, and the retry budget.

use std::{
    sync::Arc,
    time::{Duration, SystemTime},
};

use http::{HeaderMap, HeaderName, header};
use parking_lot::Mutex;
use settings_derive::Section;
use tokio::time::{Instant, sleep_until};
use tracing::{field::display, warn};

use crate::model::UpstreamResponse;
use crate::route::UpstreamName;
use crate::settings::{Checked, Code, OpenSection, OrOff};
use crate::telemetry::{CallContext, ErrorChain, LabelCounter};
use crate::upstream::{Failure, FailureStage, OnDrop, ProgressEvent, UpstreamCall, UpstreamResult};

/// Retries a request after a transient failure, with exponential backoff and full jitter, so that calls that
/// failed together are not retried together.
///
/// A request that never reached the upstream may always be retried; any other request only if it is
/// idempotent (`UpstreamCall::idempotent`). `Retry-After` of the upstream takes precedence over the backoff.
/// If the wait would pass the call's deadline, the last result is returned. Clones share the budget and the
/// counter.
#[derive(Debug, Clone)]
pub(super) struct Retry {
    pub(super) upstream: UpstreamName,
    pub(super) settings: OrOff<RetrySettings>,
    pub(super) budget: Arc<RetryBudget>,
    pub(super) events: LabelCounter,
}

/// Settings of retries.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Section)]
#[section(id = "retry", default, check = Self::check)]
pub struct RetrySettings {
    /// Maximum number of attempts of a call, the first included.
    #[key(range = 1..=10, default = 3)]
    pub max_attempts: u32,
    /// Maximum backoff before the second attempt; it doubles with each attempt, with full jitter.
    #[key(range = 1..=3_600_000, default = Duration::from_millis(100))]
    pub initial_backoff: Duration,
    /// Maximum backoff between two attempts.
    #[key(range = 1..=3_600_000, default = Duration::from_secs(2))]
    pub max_backoff: Duration,
}

impl Retry {
    /// Creates the retry policy of `upstream`, with its own retry budget.
    pub(super) fn new(upstream: UpstreamName, settings: OrOff<RetrySettings>, events: LabelCounter) -> Self {
        Self { upstream, settings, budget: Arc::default(), events }
    }

    /// Sends attempts until one succeeds or no further one is allowed.
    pub(super) async fn run<F>(
        &self,
        upstream_call: &UpstreamCall,
        mut attempt_once: impl FnMut() -> F,
    ) -> UpstreamResult
    where
        F: Future<Output = UpstreamResult>,
    {
        // Every call adds to the budget, even if retries are off: hedging uses the budget, too.
        self.budget.deposit();
        let mut result = None;
        for attempt in 1.. {
            // A retry is counted when it ends, also if the call's timeout cancels it, but not if glossator
            // rejects it.
            let retry = (attempt > 1).then(|| OnDrop::new(|| self.events.add("retry")));
            let next_result = attempt_once().await;
            if let Some(retry) = retry
                && next_result
                    .as_ref()
                    .is_err_and(|failure| failure.properties().stage == FailureStage::Rejected)
            {
                // glossator has rejected the retry. The upstream got no request, so the result of the
                // previous attempt is returned.
                retry.disarm();
                break;
            }
            let outcome = result.insert(next_result);
            let Some(retry_at) = self.next_attempt_at(outcome, attempt, upstream_call) else { break };
            self.log(outcome, attempt, retry_at, &upstream_call.context);
            sleep_until(retry_at).await;
            if let Some(progress) = &upstream_call.progress {
                progress.send(ProgressEvent::Retry { attempt: attempt + 1 });
            }
        }
        result.expect("at least one attempt was made")
    }

    fn log(&self, outcome: &UpstreamResult, attempt: u32, retry_at: Instant, context: &CallContext) {
        let (upstream, request_id) = (&self.upstream, context.request_id());
        let wait_ms = retry_at.saturating_duration_since(Instant::now()).as_millis() as u64;
        let status = outcome.as_ref().ok().map(|response| response.status.as_u16());
        let error = outcome.as_ref().err().map(|failure| failure.clone().into_error(upstream));
        let error = error.as_ref().map(|error| display(ErrorChain(error)));
        warn!(%upstream, request_id, attempt, status, error, wait_ms, "retrying upstream request");
    }

    /// Time of the next attempt, for which a token of the budget is taken; `None` if the call is not retried.
    fn next_attempt_at(
        &self,
        outcome: &UpstreamResult,
        attempt: u32,
        upstream_call: &UpstreamCall,
    ) -> Option<Instant> {
        let settings = self.settings.on()?;
        if attempt >= settings.max_attempts || !is_retryable(outcome, upstream_call.idempotent) {
            return None;
        }
        let retry_after = outcome.as_ref().ok().and_then(retry_after);
        let wait = retry_after.unwrap_or_else(|| settings.backoff_with_jitter(attempt));
        let retry_at =
            Instant::now().checked_add(wait).filter(|retry_at| *retry_at < upstream_call.deadline.at)?;
        self.budget.try_take().then_some(retry_at)
    }
}

impl RetrySettings {
    /// Warns of an `initial_backoff` that is never reached.
    fn check(self, section: &OpenSection<'_>) -> Checked<Self> {
        section.check_valid(&["initial_backoff", "max_backoff"])?;
        let entry = section.entry("initial_backoff").or_else(|| section.entry("max_backoff"));
        if let Some(entry) = entry.filter(|_| self.initial_backoff > self.max_backoff) {
            let message = "`initial_backoff` is never reached: `max_backoff` is shorter";
            let help = "write a shorter `initial_backoff`, or a longer `max_backoff`";
            section.report().warning(Code::LimitNeverReached.at_span(entry.key.span), message, help);
        }
        Ok(self)
    }

    /// Random wait up to the exponential backoff of this attempt ("full jitter").
    fn backoff_with_jitter(&self, attempt: u32) -> Duration {
        let backoff = self.initial_backoff.saturating_mul(1 << (attempt - 1).min(16));
        backoff.min(self.max_backoff).mul_f64(fastrand::f64())
    }
}

/// Whether another attempt may succeed and is safe. It is safe if the last attempt can't have had an effect,
/// or if the request is idempotent.
fn is_retryable(outcome: &UpstreamResult, is_idempotent: bool) -> bool {
    match outcome {
        Err(Failure::Timeout(_)) => false,
        Err(failure) => match failure.properties().stage {
            FailureStage::NotReached => true,
            stage => is_idempotent && stage == FailureStage::NoResponse,
        },
        Ok(response) => is_idempotent && matches!(response.status.as_u16(), 429 | 502 | 503 | 504),
    }
}

/// Value of `Retry-After` (RFC 9110, section 10.2.3): seconds, or a date relative to the response's `Date`.
fn retry_after(response: &UpstreamResponse) -> Option<Duration> {
    let seconds = response.retry_after_seconds().map(|seconds| Duration::from_secs(seconds.into()));
    seconds.or_else(|| date_ahead(&response.headers, header::RETRY_AFTER))
}

/// Retry budget of one upstream: a token bucket that limits retries and hedged requests together to a fifth
/// of all calls, plus the tokens at the start. So an upstream that fails as a whole does not get a multiple
/// of the requests.
#[derive(Debug)]
pub(super) struct RetryBudget(Mutex<f64>);

impl RetryBudget {
    /// Tokens that each call adds.
    const TOKENS_PER_CALL: f64 = 0.2;
    /// Tokens at the start, so that the first calls can be retried too.
    const INITIAL_TOKENS: f64 = 10.0;
    /// Capacity of the bucket: maximum number of retries in a burst.
    const MAX_TOKENS: f64 = 100.0;

    /// Adds the tokens of one call.
    pub(super) fn deposit(&self) {
        let mut tokens = self.0.lock();
        *tokens = (*tokens + Self::TOKENS_PER_CALL).min(Self::MAX_TOKENS);
    }

    /// Takes a token for a retry or a hedged request. Returns whether a token was left.
    pub(super) fn try_take(&self) -> bool {
        let mut tokens = self.0.lock();
        let has_token = *tokens >= 1.0;
        if has_token {
            *tokens -= 1.0;
        }
        has_token
    }
}

impl Default for RetryBudget {
    fn default() -> Self {
        Self(Mutex::new(Self::INITIAL_TOKENS))
    }
}

/// Time from the response's `Date` to the date in the header `name`. Both dates come from the upstream's
/// clock, so clock skew has no effect. `None` if one of the headers is missing or invalid; zero if `name` is
/// earlier.
pub(super) fn date_ahead(headers: &HeaderMap, name: HeaderName) -> Option<Duration> {
    let sent_at = date(headers, header::DATE)?;
    Some(date(headers, name)?.duration_since(sent_at).unwrap_or_default())
}

fn date(headers: &HeaderMap, name: HeaderName) -> Option<SystemTime> {
    httpdate::parse_http_date(headers.get(name)?.to_str().ok()?).ok()
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use http::HeaderValue;
    use tokio::time::{sleep, timeout};

    use super::*;
    use crate::{
        policy::metrics::upstream_events,
        policy::tests::{Script, failed, name, status, upstream_call},
        upstream::ProgressSender,
    };

    const SECOND: Duration = Duration::from_secs(1);

    fn cut_off() -> UpstreamResult {
        Err(Failure::CutOff("reset".into()))
    }

    fn with_retry_after(code: u16, seconds: &'static str) -> UpstreamResult {
        let mut response = status(code)?;
        response.headers.insert(header::RETRY_AFTER, HeaderValue::from_static(seconds));
        Ok(response)
    }

    fn retry() -> Retry {
        Retry::new(name(), OrOff::On(RetrySettings::default()), upstream_events())
    }

    async fn call(retry: &Retry, script: &Script, upstream_call: UpstreamCall) -> UpstreamResult {
        retry.run(&upstream_call, || script.send(&upstream_call)).await
    }

    #[tokio::test(start_paused = true)]
    async fn a_transient_failure_is_hidden_by_a_retry() {
        let script = Script::new([failed(), status(503), status(200)]);
        let response = call(&retry(), &script, upstream_call(30 * SECOND)).await.unwrap();
        assert_eq!((response.status.as_u16(), script.upstream_calls()), (200, 3));
    }

    #[tokio::test(start_paused = true)]
    async fn requests_without_retries_fill_the_budget_for_hedges() {
        let retry = Retry::new(name(), OrOff::Off, upstream_events());
        let budget = retry.budget.clone();
        while budget.try_take() {}
        let script = Script::new((0..5).map(|_| status(503)));
        for _ in 0..5 {
            assert_eq!(call(&retry, &script, upstream_call(30 * SECOND)).await.unwrap().status.as_u16(), 503);
        }
        assert_eq!((script.upstream_calls(), budget.try_take(), budget.try_take()), (5, true, false));
    }

    #[tokio::test(start_paused = true)]
    async fn every_further_attempt_is_reported_as_progress() {
        let script = Script::new([failed(), status(503), status(200)]);
        let (progress, mut receiver) = ProgressSender::new();
        let upstream_call = UpstreamCall { progress: Some(progress), ..upstream_call(30 * SECOND) };
        call(&retry(), &script, upstream_call).await.unwrap();
        let mut events = Vec::new();
        while let Ok(event) = receiver.try_recv() {
            events.push(event);
        }
        assert_eq!(events, [ProgressEvent::Retry { attempt: 2 }, ProgressEvent::Retry { attempt: 3 }]);
    }

    #[tokio::test(start_paused = true)]
    async fn the_last_result_is_returned_after_all_attempts() {
        let script = Script::new([status(503), status(502), status(504), status(200)]);
        let retry = retry();
        let response = call(&retry, &script, upstream_call(30 * SECOND)).await.unwrap();
        assert_eq!(
            (response.status.as_u16(), script.upstream_calls(), retry.events.get("retry")),
            (504, 3, 2)
        );
    }

    #[tokio::test(start_paused = true)]
    async fn a_request_that_is_not_idempotent_is_retried_only_if_it_was_not_sent() {
        for outcome in [cut_off(), status(503)] {
            let script = Script::new([outcome, status(200)]);
            let _ = call(&retry(), &script, UpstreamCall { idempotent: false, ..upstream_call(30 * SECOND) })
                .await;
            assert_eq!(script.upstream_calls(), 1);
        }
        let script = Script::new([failed(), status(200)]);
        call(&retry(), &script, UpstreamCall { idempotent: false, ..upstream_call(30 * SECOND) })
            .await
            .unwrap();
        assert_eq!(script.upstream_calls(), 2, "what was never sent may be repeated");
    }

    #[tokio::test(start_paused = true)]
    async fn permanent_failures_of_idempotent_requests_are_not_retried() {
        for code in [200, 404, 500, 501] {
            let script = Script::new([status(code), status(200)]);
            assert_eq!(
                call(&retry(), &script, upstream_call(30 * SECOND)).await.unwrap().status.as_u16(),
                code
            );
            assert_eq!(script.upstream_calls(), 1, "{code}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn retry_after_sets_the_time_of_the_retry() {
        let started = Instant::now();
        let script = Script::new([with_retry_after(429, "7"), status(200)]);
        call(&retry(), &script, upstream_call(30 * SECOND)).await.unwrap();
        assert_eq!(started.elapsed(), 7 * SECOND);
    }

    #[tokio::test(start_paused = true)]
    async fn a_date_is_relative_to_the_clock_of_its_upstream() {
        let started = Instant::now();
        let mut response = with_retry_after(503, "Sun, 06 Nov 1994 08:49:42 GMT").unwrap();
        response.headers.insert(header::DATE, HeaderValue::from_static("Sun, 06 Nov 1994 08:49:37 GMT"));
        let script = Script::new([Ok(response), status(200)]);
        call(&retry(), &script, upstream_call(30 * SECOND)).await.unwrap();
        assert_eq!(started.elapsed(), 5 * SECOND);
    }

    #[tokio::test(start_paused = true)]
    async fn the_upstream_error_is_returned_if_the_retry_is_rejected() {
        let circuit_open = Err(Failure::CircuitOpen { of_route: false, retry_after: SECOND });
        let script = Script::new([status(503), circuit_open]);
        let response = call(&retry(), &script, upstream_call(30 * SECOND)).await.unwrap();
        assert_eq!(response.status.as_u16(), 503);
    }

    #[tokio::test(start_paused = true)]
    async fn a_retry_that_the_timeout_cuts_off_counts_and_a_rejected_one_does_not() {
        let retry = retry();
        let (calls, upstream_call) = (Cell::new(0), upstream_call(30 * SECOND));
        let fails_then_hangs = || async {
            if calls.replace(calls.get() + 1) > 0 {
                sleep(60 * SECOND).await;
            }
            status(503)
        };
        timeout(10 * SECOND, retry.run(&upstream_call, fails_then_hangs)).await.unwrap_err();
        assert_eq!((calls.get(), retry.events.get("retry")), (2, 1));
        let circuit_open = Err(Failure::CircuitOpen { of_route: false, retry_after: SECOND });
        call(&retry, &Script::new([status(503), circuit_open]), upstream_call).await.unwrap();
        assert_eq!(retry.events.get("retry"), 1);
    }

    #[tokio::test(start_paused = true)]
    async fn no_retry_waits_past_the_deadline() {
        let started = Instant::now();
        let script = Script::new([with_retry_after(503, "60"), status(200)]);
        let response = call(&retry(), &script, upstream_call(30 * SECOND)).await.unwrap();
        assert_eq!((response.status.as_u16(), started.elapsed()), (503, Duration::ZERO));
    }

    #[tokio::test(start_paused = true)]
    async fn the_retry_budget_limits_the_load_on_a_failing_upstream() {
        let script = Script::new((0..400).map(|_| failed()));
        let retry = retry();
        for _ in 0..100 {
            call(&retry, &script, upstream_call(30 * SECOND)).await.unwrap_err();
        }
        // A hundred calls, the ten initial tokens, and a fifth of the calls.
        assert!((100..=130).contains(&script.upstream_calls()), "{}", script.upstream_calls());
    }
}
