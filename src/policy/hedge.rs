//! Hedging: a second request is sent if the first takes longer than a delay.

use std::{collections::VecDeque, pin::pin, sync::Arc, time::Duration};

use parking_lot::Mutex;
use tokio::time::{Instant, sleep};

use super::CircuitBreaker;
use super::retry::RetryBudget;
use crate::settings::value::duration_or_enum;
use crate::settings::{Checked, Cursor, Setting, ValueKind};
use crate::telemetry::LabelCounter;
use crate::upstream::{UpstreamCall, UpstreamResult};

/// Hedging: sends a second request if there is no response after a delay, and returns the first good
/// response. The other request is cancelled.
///
/// It hedges only idempotent requests (`UpstreamCall::idempotent`), only while the circuit breakers are
/// closed, and only within the retry budget of the upstream: an upstream that is slow for all calls must not
/// get twice the load. The second request is not retried.
#[derive(Debug)]
pub(super) struct Hedge {
    pub(super) settings: HedgeSettings,
    pub(super) budget: Arc<RetryBudget>,
    /// Circuit breakers of the upstream and of the route.
    pub(super) breakers: [Arc<CircuitBreaker>; 2],
    pub(super) events: LabelCounter,
    pub(super) times: Latencies,
}

/// Delay before the second request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HedgeSettings {
    /// Fixed delay.
    After(Duration),
    /// 95th percentile of recent response times.
    P95,
}

impl Setting for HedgeSettings {
    const KIND: ValueKind =
        ValueKind::Either(&[ValueKind::Duration(1, 3_600_000), ValueKind::Enum(&["p95"])]);

    fn read(value: &Cursor<'_>) -> Checked<Self> {
        Ok(duration_or_enum(value, "`p95`")?.map_or(Self::P95, Self::After))
    }
}

/// Times of recent responses, as a sliding window.
#[derive(Debug, Default)]
pub(super) struct Latencies(Mutex<VecDeque<Duration>>);

impl Latencies {
    /// Number of response times in the window.
    const LIMIT: usize = 128;
    /// Minimum number of samples. Fewer samples have no meaningful percentile.
    const MIN_SAMPLES: usize = 20;

    fn add(&self, time: Duration) {
        let mut times = self.0.lock();
        if times.len() == Self::LIMIT {
            times.pop_front();
        }
        times.push_back(time);
    }

    /// 95th percentile. `None` with fewer than [`Self::MIN_SAMPLES`] samples.
    fn p95(&self) -> Option<Duration> {
        let times = self.0.lock().clone();
        let mut times = Some(Vec::from(times)).filter(|times| times.len() >= Self::MIN_SAMPLES)?;
        let index = times.len() * 95 / 100;
        Some(*times.select_nth_unstable(index).1)
    }
}

impl Hedge {
    fn delay(&self) -> Option<Duration> {
        match self.settings {
            HedgeSettings::After(time) => Some(time),
            HedgeSettings::P95 => self.times.p95(),
        }
    }

    /// Waits for the response to `first`. After the delay, also sends `second` and returns the first good
    /// response.
    pub(super) async fn race(
        &self,
        upstream_call: &UpstreamCall,
        first: impl Future<Output = UpstreamResult>,
        second: impl AsyncFnOnce(UpstreamCall) -> UpstreamResult,
    ) -> UpstreamResult {
        let mut first = pin!(first);
        if !upstream_call.idempotent {
            return first.await;
        }
        let started = Instant::now();
        let record_win = |result| {
            self.events.add("hedge_won");
            self.record_latency(started, result)
        };
        let Some(delay) = self.delay() else { return self.record_latency(started, first.await) };
        tokio::select! {
            biased;
            result = &mut first => return self.record_latency(started, result),
            () = sleep(delay) => {}
        }
        if !self.breakers.iter().all(|breaker| breaker.is_closed()) || !self.budget.try_take() {
            return self.record_latency(started, first.await);
        }
        self.events.add("hedged");
        // The second request reports no progress, because its bytes would be added to the bytes of the first.
        let mut second = pin!(second(UpstreamCall { progress: None, ..upstream_call.clone() }));
        tokio::select! {
            biased;
            result = &mut first => {
                // If the first request failed, the second may still succeed.
                if is_good(&result) { return self.record_latency(started, result) }
                let other = second.await;
                if is_good(&other) { record_win(other) } else { result }
            }
            other = &mut second => {
                if is_good(&other) { record_win(other) } else { self.record_latency(started, first.await) }
            }
        }
    }

    /// Records the latency of a good response, and returns the result.
    fn record_latency(&self, started_at: Instant, result: UpstreamResult) -> UpstreamResult {
        if self.settings == HedgeSettings::P95 && is_good(&result) {
            self.times.add(started_at.elapsed());
        }
        result
    }
}

/// Whether a result is good: a response other than 5xx and 429.
fn is_good(result: &UpstreamResult) -> bool {
    result
        .as_ref()
        .is_ok_and(|response| !response.status.is_server_error() && response.status.as_u16() != 429)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::{
        CircuitBreakerSettings, OrOff,
        metrics::route_events,
        tests::{InFlightCount, Script, failed, name, slow, status, upstream_call},
    };

    const SECOND: Duration = Duration::from_secs(1);

    fn hedge(settings: HedgeSettings) -> Hedge {
        let breaker_settings = CircuitBreakerSettings { consecutive_failures: 1, open_for: 60 * SECOND };
        let breaker = || CircuitBreaker::new(name(), None, OrOff::On(breaker_settings), route_events());
        let breakers = [breaker(), breaker()];
        let (budget, times) = (Arc::default(), Latencies::default());
        Hedge { settings, budget, breakers, events: route_events(), times }
    }

    const AFTER_ONE: HedgeSettings = HedgeSettings::After(SECOND);

    /// Upstream that responds with this status after a delay.
    fn after(delay: Duration, code: u16) -> Script {
        slow(code, delay, &InFlightCount::default())
    }

    async fn race(hedge: &Hedge, first: &Script, second: &Script) -> UpstreamResult {
        race_of(hedge, first, second, upstream_call(30 * SECOND)).await
    }

    async fn race_of(
        hedge: &Hedge,
        first: &Script,
        second: &Script,
        upstream_call: UpstreamCall,
    ) -> UpstreamResult {
        hedge
            .race(&upstream_call, first.send(&upstream_call), async |upstream_call: UpstreamCall| {
                second.send(&upstream_call).await
            })
            .await
    }

    #[tokio::test(start_paused = true)]
    async fn a_slow_request_is_hedged_and_the_first_success_wins() {
        let (first, second) = (InFlightCount::default(), InFlightCount::default());
        let hedge = hedge(AFTER_ONE);
        let started = Instant::now();
        let response =
            race(&hedge, &slow(200, 10 * SECOND, &first), &slow(204, SECOND, &second)).await.unwrap();
        assert_eq!((response.status.as_u16(), started.elapsed()), (204, 2 * SECOND));
        assert_eq!((first.count(), second.count()), (0, 0), "the other request was not cancelled");
        assert_eq!((hedge.events.get("hedged"), hedge.events.get("hedge_won")), (1, 1));
    }

    #[tokio::test(start_paused = true)]
    async fn a_quick_request_and_one_that_may_not_be_repeated_are_sent_once() {
        let (hedge, second) = (hedge(AFTER_ONE), Script::new([]));
        race(&hedge, &after(SECOND / 2, 200), &second).await.unwrap();
        let upstream_call = UpstreamCall { idempotent: false, ..upstream_call(30 * SECOND) };
        race_of(&hedge, &after(10 * SECOND, 200), &second, upstream_call).await.unwrap();
        assert_eq!(second.upstream_calls(), 0);
    }

    #[tokio::test(start_paused = true)]
    async fn a_failure_of_one_waits_for_the_other() {
        let (hedge, second) = (hedge(AFTER_ONE), Script::new([failed(), status(503)]));
        let status = async |first: &Script, second: &Script| {
            race(&hedge, first, second).await.unwrap().status.as_u16()
        };
        for _ in 0..2 {
            assert_eq!(status(&after(10 * SECOND, 200), &second).await, 200);
        }
        assert_eq!(status(&after(2 * SECOND, 503), &after(9 * SECOND, 200)).await, 200);
        assert_eq!(status(&after(2 * SECOND, 503), &Script::new([failed()])).await, 503);
    }

    #[tokio::test(start_paused = true)]
    async fn hedging_stops_at_the_budget_or_an_open_circuit() {
        let second = Script::new((0..100).map(|_| failed()));
        let spent = hedge(AFTER_ONE);
        for _ in 0..50 {
            race(&spent, &after(2 * SECOND, 200), &second).await.unwrap();
        }
        assert_eq!(second.upstream_calls(), 10, "the initial retry budget");
        let hedge = hedge(AFTER_ONE);
        hedge.breakers[0].run(&upstream_call(SECOND), pin!(async { failed() })).await.unwrap_err();
        race(&hedge, &after(2 * SECOND, 200), &Script::new([])).await.unwrap();
    }

    #[tokio::test(start_paused = true)]
    async fn the_hedging_delay_follows_recent_latencies() {
        let hedge = hedge(HedgeSettings::P95);
        let (usual, unusual) = (after(SECOND, 200), after(20 * SECOND, 200));
        for _ in 0..Latencies::MIN_SAMPLES - 1 {
            race(&hedge, &usual, &Script::new([])).await.unwrap();
        }
        assert_eq!(hedge.delay(), None, "too few to tell");
        race(&hedge, &usual, &Script::new([])).await.unwrap();
        assert_eq!(hedge.delay(), Some(SECOND));
        let started = Instant::now();
        race(&hedge, &unusual, &usual).await.unwrap();
        assert_eq!(started.elapsed(), 2 * SECOND);
    }
}
