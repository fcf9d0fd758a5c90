//! Circuit breakers, which temporarily reject calls that would most likely fail.
//!
//! - The circuit breaker of an upstream counts connection failures and timeouts of all its routes. A response
//!   of any status proves that the upstream is reachable.
//! - The circuit breaker of a route counts responses that show that the request could not be served: 502,
//!   503, 504, and invalid responses. Such a response is no evidence about other routes.

use std::{pin::Pin, sync::Arc, time::Duration};

use parking_lot::Mutex;
use settings_derive::Section;
use tokio::time::Instant;
use tracing::{info, warn};

use super::CircuitBreakerView;
use crate::model::ToolName;
use crate::route::UpstreamName;
use crate::settings::OrOff;
use crate::telemetry::{CallContext, LabelCounter};
use crate::upstream::{Evidence, Failure, OnDrop, RequestEvidence, UpstreamCall, UpstreamResult};

/// Settings of a circuit breaker.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Section)]
#[section(id = "circuit_breaker", default)]
pub struct CircuitBreakerSettings {
    /// Number of consecutive failures after which it opens.
    #[key(range = 1..=1_000_000, default = 10)]
    pub consecutive_failures: u32,
    /// How long it stays open before it is half-open and admits one call.
    #[key(range = 1..=3_600_000, default = Duration::from_secs(5))]
    pub open_for: Duration,
}

/// Circuit breaker. It opens after N consecutive failures and rejects calls at once. After `open_for` it is
/// half-open and admits one probe, whose outcome closes or reopens it.
#[derive(Debug)]
pub(super) struct CircuitBreaker {
    upstream: UpstreamName,
    /// Route, if the circuit breaker belongs to a route.
    route: Option<ToolName>,
    /// Settings; with `Off`, the circuit breaker stays closed.
    settings: OrOff<CircuitBreakerSettings>,
    state: Mutex<State>,
    events: LabelCounter,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    /// Admits calls. Counts consecutive failures.
    Closed { failures: u32 },
    /// Rejects calls until this time.
    Open { until: Instant },
    /// One call probes the upstream, at most until this time, which also identifies the probe.
    HalfOpen { until: Instant },
}

impl CircuitBreaker {
    /// Whether all calls are admitted.
    pub(super) fn is_closed(&self) -> bool {
        matches!(*self.state.lock(), State::Closed { .. })
    }

    /// Creates a closed circuit breaker of an upstream, or of one route. `events` counts how often the
    /// circuit opens, and the rejected calls.
    pub(super) fn new(
        upstream: UpstreamName,
        route: Option<ToolName>,
        settings: OrOff<CircuitBreakerSettings>,
        events: LabelCounter,
    ) -> Arc<Self> {
        let state = Mutex::new(State::Closed { failures: 0 });
        Arc::new(Self { upstream, route, settings, state, events })
    }

    /// Closes the circuit after a successful health check.
    pub(super) fn on_health_check_passed(&self) {
        let mut state = self.state.lock();
        if !matches!(*state, State::Closed { .. }) {
            *state = State::Closed { failures: 0 };
            drop(state);
            info!(upstream = %self.upstream, reason = "health check", "circuit breaker closed");
        }
    }

    /// State for metrics and the admin API.
    pub(super) fn view(&self) -> CircuitBreakerView {
        let now = Instant::now();
        match *self.state.lock() {
            State::Closed { .. } if self.settings == OrOff::Off => CircuitBreakerView::Off,
            State::Closed { failures } => CircuitBreakerView::Closed { failures },
            State::Open { until } if now < until => CircuitBreakerView::Open { remaining: until - now },
            // `open_for` is over, so the next call is the probe.
            State::Open { .. } | State::HalfOpen { .. } => CircuitBreakerView::HalfOpen,
        }
    }

    /// Runs an attempt of a call and records its result, or rejects the attempt with the remaining time for
    /// which the circuit is open. If the future is dropped first, records whether the upstream exceeded the
    /// deadline.
    pub(super) async fn run(
        &self,
        upstream_call: &UpstreamCall,
        attempt: Pin<&mut impl Future<Output = UpstreamResult>>,
    ) -> UpstreamResult {
        let probe_end = self.admit()?;
        let drop_guard = OnDrop::new(|| {
            // If the attempt is dropped after its deadline, the upstream sent no response in time. If it is
            // dropped earlier, the client has disconnected or has a shorter timeout.
            let is_late = Instant::now() >= upstream_call.deadline.latest && self.route.is_none();
            let evidence = if is_late { Evidence::Failure } else { Evidence::None };
            self.record(evidence, probe_end, &upstream_call.context);
        });
        let result = attempt.await;
        drop_guard.disarm();
        let evidence = RequestEvidence::new(result.as_ref().map(|response| response.status));
        let evidence = if self.route.is_some() { evidence.route } else { evidence.upstream };
        self.record(evidence, probe_end, &upstream_call.context);
        result
    }

    /// Admits a call. If the call is a probe, returns the time at which the probe ends.
    fn admit(&self) -> Result<Option<Instant>, Failure> {
        let OrOff::On(settings) = self.settings else { return Ok(None) };
        let mut state = self.state.lock();
        let (State::Open { until } | State::HalfOpen { until }) = *state else { return Ok(None) };
        let now = Instant::now();
        if now < until {
            self.events.add("circuit_breaker_rejected");
            return Err(Failure::CircuitOpen { of_route: self.route.is_some(), retry_after: until - now });
        }
        // If the probe has no result by then, another call is admitted as a probe.
        let until = now + settings.open_for;
        *state = State::HalfOpen { until };
        Ok(Some(until))
    }

    fn record(&self, evidence: Evidence, probe_end: Option<Instant>, context: &CallContext) {
        let OrOff::On(CircuitBreakerSettings { consecutive_failures: limit, open_for }) = self.settings
        else {
            return;
        };
        let (upstream, route) = (&self.upstream, self.route.as_ref().map(tracing::field::display));
        let request_id = context.request_id();
        let mut state = self.state.lock();
        *state = match (*state, evidence) {
            // The call began before the probe, or is an earlier probe that took too long. The current probe
            // decides.
            (state @ State::HalfOpen { until }, _) if probe_end != Some(until) => state,
            (State::Closed { .. }, Evidence::Success) => State::Closed { failures: 0 },
            (State::Closed { failures }, Evidence::Failure) if failures + 1 < limit => {
                State::Closed { failures: failures + 1 }
            }
            (State::Closed { .. } | State::HalfOpen { .. }, Evidence::Failure) => {
                warn!(%upstream, route, request_id, ?open_for, "circuit breaker opened");
                self.events.add("circuit_breaker_opened");
                State::Open { until: Instant::now() + open_for }
            }
            (State::HalfOpen { .. }, Evidence::Success) => {
                info!(%upstream, route, request_id, "circuit breaker closed");
                State::Closed { failures: 0 }
            }
            // The result of the probe says nothing about the upstream, so the next call is the next probe.
            (State::HalfOpen { .. }, Evidence::None) => State::Open { until: Instant::now() },
            // The call began before the circuit opened, so the probe decides.
            (state @ State::Open { .. }, _) | (state @ State::Closed { .. }, Evidence::None) => state,
        };
    }
}

#[cfg(test)]
mod tests {
    use std::pin::pin;

    use super::*;
    use crate::{
        policy::metrics::route_events,
        policy::tests::{InFlightCount, Script, answering_after, failed, name, status, upstream_call},
        upstream::Deadline,
    };

    const SECOND: Duration = Duration::from_secs(1);
    const OPENS_AFTER_TWO: OrOff<CircuitBreakerSettings> =
        OrOff::On(CircuitBreakerSettings { consecutive_failures: 2, open_for: Duration::from_secs(5) });

    fn circuit_breaker() -> Arc<CircuitBreaker> {
        CircuitBreaker::new(name(), None, OPENS_AFTER_TWO, route_events())
    }

    async fn call(
        breaker: &CircuitBreaker,
        upstream: &Script,
        upstream_call: UpstreamCall,
    ) -> UpstreamResult {
        breaker.run(&upstream_call, pin!(upstream.send(&upstream_call))).await
    }

    fn retry_after(result: &UpstreamResult) -> Option<Duration> {
        match result {
            Err(Failure::CircuitOpen { retry_after, .. }) => Some(*retry_after),
            _ => None,
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_failing_upstream_opens_the_circuit_and_one_call_probes_it() {
        let script = Script::new([failed(), failed(), failed(), status(200), status(200)]);
        let breaker = circuit_breaker();
        let one = || call(&breaker, &script, upstream_call(SECOND));
        one().await.unwrap_err();
        one().await.unwrap_err();
        assert_eq!(retry_after(&one().await), Some(5 * SECOND));
        tokio::time::advance(4 * SECOND).await;
        assert_eq!(breaker.view(), CircuitBreakerView::Open { remaining: SECOND });
        assert_eq!((retry_after(&one().await), script.upstream_calls()), (Some(SECOND), 2));
        tokio::time::advance(SECOND).await;
        one().await.unwrap_err();
        assert_eq!(retry_after(&one().await), Some(5 * SECOND), "the probe failed too");
        tokio::time::advance(5 * SECOND).await;
        one().await.unwrap();
        one().await.unwrap();
        assert_eq!(script.upstream_calls(), 5);
        assert_eq!(breaker.view(), CircuitBreakerView::Closed { failures: 0 });
        let (opened, rejected) = ("circuit_breaker_opened", "circuit_breaker_rejected");
        assert_eq!((breaker.events.get(opened), breaker.events.get(rejected)), (2, 3));
    }

    #[test]
    fn the_time_until_half_open_is_reported_in_whole_seconds() {
        let retry_after = Duration::new(599, 999_033_551);
        let failure = Failure::CircuitOpen { of_route: true, retry_after };
        assert_eq!(failure.to_string(), "the route circuit breaker is open for 600 s");
    }

    #[tokio::test(start_paused = true)]
    async fn a_response_closes_the_circuit_of_the_upstream_but_not_of_the_route() {
        let script = Script::new([failed(), status(503), failed(), status(502), failed(), status(504)]);
        let breaker = circuit_breaker();
        for _ in 0..6 {
            assert_eq!(retry_after(&call(&breaker, &script, upstream_call(SECOND)).await), None);
        }
        let script = Script::new([status(503), failed(), status(502), status(200)]);
        let route = Some("t".parse().unwrap());
        let breaker = CircuitBreaker::new(name(), route, OPENS_AFTER_TWO, route_events());
        for _ in 0..3 {
            assert_eq!(retry_after(&call(&breaker, &script, upstream_call(SECOND)).await), None);
        }
        let rejected = call(&breaker, &script, upstream_call(SECOND)).await;
        assert!(matches!(rejected, Err(Failure::CircuitOpen { of_route: true, .. })), "{rejected:?}");
        tokio::time::advance(5 * SECOND).await;
        assert_eq!(breaker.view(), CircuitBreakerView::HalfOpen);
        call(&breaker, &script, upstream_call(SECOND)).await.unwrap();
        assert_eq!(breaker.view(), CircuitBreakerView::Closed { failures: 0 });
    }

    #[tokio::test(start_paused = true)]
    async fn a_circuit_is_not_open_when_its_time_is_over_or_the_upstream_is_healthy() {
        let script = Script::new([failed(), failed()]);
        let breaker = circuit_breaker();
        for _ in 0..2 {
            call(&breaker, &script, upstream_call(SECOND)).await.unwrap_err();
        }
        assert_eq!(breaker.view(), CircuitBreakerView::Open { remaining: 5 * SECOND });
        tokio::time::advance(5 * SECOND).await;
        assert_eq!(breaker.view(), CircuitBreakerView::HalfOpen);
        breaker.on_health_check_passed();
        assert_eq!(breaker.view(), CircuitBreakerView::Closed { failures: 0 });
        breaker.record(Evidence::Failure, None, &CallContext::default());
        breaker.on_health_check_passed();
        assert_eq!(
            breaker.view(),
            CircuitBreakerView::Closed { failures: 1 },
            "a health check resets no failures"
        );
    }

    #[tokio::test(start_paused = true)]
    async fn failures_count_in_a_row_only() {
        let script = Script::new([failed(), status(500), failed(), status(200), failed(), status(404)]);
        let breaker = circuit_breaker();
        for _ in 0..6 {
            assert_eq!(retry_after(&call(&breaker, &script, upstream_call(SECOND)).await), None);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn one_call_probes_while_the_others_are_rejected() {
        let script = Script::new([failed(), failed()]);
        let breaker = circuit_breaker();
        for _ in 0..2 {
            call(&breaker, &script, upstream_call(SECOND)).await.unwrap_err();
        }
        tokio::time::advance(5 * SECOND).await;
        let slow = answering_after(SECOND, &InFlightCount::default());
        let one = || call(&breaker, &slow, upstream_call(2 * SECOND));
        let (first, second) = tokio::join!(one(), one());
        first.unwrap();
        assert!(retry_after(&second).is_some(), "{second:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn an_older_call_does_not_affect_the_state_while_another_probes() {
        let leaving = async |breaker: &CircuitBreaker, time: Duration| {
            let slow = answering_after(60 * SECOND, &InFlightCount::default());
            tokio::time::timeout(time, call(breaker, &slow, upstream_call(7 * SECOND))).await.unwrap_err();
        };
        // One call is dropped before its deadline, and the other after it.
        for remaining in [6 * SECOND, 7 * SECOND] {
            let (breaker, script) = (circuit_breaker(), Script::new([failed(), failed()]));
            let others = async {
                for _ in 0..2 {
                    call(&breaker, &script, upstream_call(SECOND)).await.unwrap_err();
                }
                tokio::time::sleep(5 * SECOND).await;
                let slow = answering_after(3 * SECOND, &InFlightCount::default());
                let one = || call(&breaker, &slow, upstream_call(9 * SECOND));
                let second = async {
                    tokio::time::sleep(5 * SECOND / 2).await;
                    one().await
                };
                let (first, second) = tokio::join!(one(), second);
                first.unwrap();
                assert!(retry_after(&second).is_some(), "{second:?}");
            };
            tokio::join!(leaving(&breaker, remaining), others);
            assert_eq!(breaker.view(), CircuitBreakerView::Closed { failures: 0 });
            assert_eq!(breaker.events.get("circuit_breaker_opened"), 1);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_cancelled_call_is_no_evidence_but_a_timeout_is() {
        let in_flight = InFlightCount::default();
        let (breaker, slow) = (circuit_breaker(), answering_after(60 * SECOND, &in_flight));
        for _ in 0..5 {
            tokio::time::timeout(SECOND, call(&breaker, &slow, upstream_call(30 * SECOND)))
                .await
                .unwrap_err();
        }
        assert_eq!(*breaker.state.lock(), State::Closed { failures: 0 });
        for _ in 0..5 {
            let deadline = Deadline::after(30 * SECOND).within(Some(SECOND));
            let impatient = UpstreamCall { deadline, ..upstream_call(SECOND) };
            tokio::time::timeout(2 * SECOND, call(&breaker, &slow, impatient)).await.unwrap_err();
        }
        assert_eq!(*breaker.state.lock(), State::Closed { failures: 0 });
        for _ in 0..2 {
            tokio::time::timeout(2 * SECOND, call(&breaker, &slow, upstream_call(SECOND))).await.unwrap_err();
        }
        assert!(retry_after(&call(&breaker, &slow, upstream_call(SECOND)).await).is_some());
    }
}
