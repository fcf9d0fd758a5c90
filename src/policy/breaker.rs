//! Leaves an upstream that only fails alone for a while.

use std::{
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use http::StatusCode;
use tokio::time::Instant;
use tracing::{info, warn};

use super::{BreakerView, Count};
use crate::{
    observe::Ticket,
    reply::Reply,
    route::UpstreamName,
    upstream::{Answers, Ask, UpstreamError},
};

/// A circuit breaker. After a number of failures with no success between, calls are turned away at once for a while;
/// then one is let through to see, and its outcome decides for the others.
///
/// A failure is no connection, a reply that breaks off or does not come, and 502, 503 and 504. Anything else that the
/// upstream answers, a 500 too, shows that it is there.
#[derive(Debug)]
pub struct Breaker<S> {
    inner: S,
    circuit: Arc<Circuit>,
}

/// When it opens, and for how long.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BreakerSettings {
    /// After how many failures in a row it opens; `None` never opens it.
    pub failures: Option<u32>,
    /// How long it stays open before one call is let through.
    pub rest: Duration,
}

impl Default for BreakerSettings {
    fn default() -> Self {
        Self { failures: Some(10), rest: Duration::from_secs(5) }
    }
}

/// What is known of one upstream, by all that ask it.
#[derive(Debug)]
pub struct Circuit {
    upstream: UpstreamName,
    settings: BreakerSettings,
    state: Mutex<State>,
    opened: Count,
    rested: Count,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    /// Calls pass; so many have failed since the last success.
    Closed { failures: u32 },
    /// Calls are turned away until then.
    Open { until: Instant },
    /// One call is on its way to see, and is waited for until then.
    HalfOpen { until: Instant },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Outcome {
    Success,
    Failure,
    /// Nothing was learnt of the upstream.
    Unknown,
}

impl<S> Breaker<S> {
    /// Puts the layer round what asks the circuit's upstream.
    pub fn new(inner: S, circuit: Arc<Circuit>) -> Self {
        Self { inner, circuit }
    }
}

impl Circuit {
    /// Whether all calls pass.
    pub(super) fn is_closed(&self) -> bool {
        matches!(*self.state(), State::Closed { .. })
    }

    /// Closed. `opened` counts how often it opens, `rested` the calls that are turned away.
    pub fn new(upstream: UpstreamName, settings: BreakerSettings, opened: Count, rested: Count) -> Self {
        let state = Mutex::new(State::Closed { failures: 0 });
        Self { upstream, settings, state, opened, rested }
    }

    /// What is known now.
    pub(super) fn view(&self) -> BreakerView {
        let now = Instant::now();
        match *self.state() {
            State::Closed { .. } if self.settings.failures.is_none() => BreakerView::Off,
            State::Closed { failures } => BreakerView::Closed { failures },
            State::Open { until } => BreakerView::Open { rest: until.saturating_duration_since(now) },
            State::HalfOpen { .. } => BreakerView::HalfOpen,
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Lets a call through, or says how long to stay away.
    fn enter<'a>(&'a self, due: Instant, ticket: &'a Ticket) -> Result<Watch<'a>, UpstreamError> {
        let mut state = self.state();
        if let State::Open { until } | State::HalfOpen { until } = *state {
            let now = Instant::now();
            if now < until {
                self.rested.add();
                return Err(UpstreamError::Resting { upstream: self.upstream.clone(), rest: until - now });
            }
            // Should the one that is on its way never come back, another is sent after the same while.
            *state = State::HalfOpen { until: now + self.settings.rest };
        }
        Ok(Watch { circuit: self, due, ticket, told: false })
    }

    fn learn(&self, outcome: Outcome, ticket: &Ticket) {
        let Some(limit) = self.settings.failures else { return };
        let mut state = self.state();
        let next = match (*state, outcome) {
            (State::Closed { .. }, Outcome::Success) => State::Closed { failures: 0 },
            (State::Closed { failures }, Outcome::Failure) if failures + 1 < limit => {
                State::Closed { failures: failures + 1 }
            }
            (State::Closed { .. } | State::HalfOpen { .. }, Outcome::Failure) => {
                let (upstream, request_id, rest) = (&self.upstream, ticket.request_id(), self.settings.rest);
                warn!(%upstream, request_id, ?rest, "upstream fails and is left alone");
                self.opened.add();
                State::Open { until: Instant::now() + self.settings.rest }
            }
            (State::HalfOpen { .. }, Outcome::Success) => {
                info!(upstream = %self.upstream, request_id = ticket.request_id(), "upstream answers again");
                State::Closed { failures: 0 }
            }
            // Whoever was sent to see has seen nothing: the next one goes.
            (State::HalfOpen { .. }, Outcome::Unknown) => State::Open { until: Instant::now() },
            // A call from before; the one that is sent to see decides.
            (state @ State::Open { .. }, _) | (state @ State::Closed { .. }, Outcome::Unknown) => state,
        };
        *state = next;
    }
}

/// A call that was let through; what is learnt of it counts also when nobody waits for it any more.
#[derive(Debug)]
struct Watch<'a> {
    circuit: &'a Circuit,
    due: Instant,
    ticket: &'a Ticket,
    told: bool,
}

impl Watch<'_> {
    fn tell(mut self, outcome: Outcome) {
        self.told = true;
        self.circuit.learn(outcome, self.ticket);
    }
}

impl Drop for Watch<'_> {
    fn drop(&mut self) {
        if !self.told {
            // Dropped at its deadline: no answer came in time. Dropped before: its caller left, or would not wait.
            let late = Instant::now() >= self.due;
            self.circuit.learn(if late { Outcome::Failure } else { Outcome::Unknown }, self.ticket);
        }
    }
}

fn outcome_of(result: &Result<Reply, UpstreamError>) -> Outcome {
    match result {
        Ok(reply) => match reply.status {
            StatusCode::BAD_GATEWAY | StatusCode::SERVICE_UNAVAILABLE | StatusCode::GATEWAY_TIMEOUT => {
                Outcome::Failure
            }
            _ => Outcome::Success,
        },
        Err(
            UpstreamError::Connect { .. }
            | UpstreamError::ConnectDeadline { .. }
            | UpstreamError::NotStarted { .. }
            | UpstreamError::CutOff { .. }
            | UpstreamError::NotHttp { .. }
            | UpstreamError::NotCgi { .. }
            | UpstreamError::NotMcp { .. }
            | UpstreamError::Deadline { .. }
            | UpstreamError::AttemptDeadline { .. },
        ) => Outcome::Failure,
        // It answered, only too much.
        Err(UpstreamError::HeadTooLong { .. } | UpstreamError::TooLong { .. }) => Outcome::Success,
        // It was not asked. Were a token server's failure its own, it would be left alone when it could be asked again.
        Err(
            UpstreamError::Busy { .. }
            | UpstreamError::CallerBusy { .. }
            | UpstreamError::Resting { .. }
            | UpstreamError::Credential { .. }
            | UpstreamError::TooOften { .. }
            | UpstreamError::Uncounted { .. }
            | UpstreamError::Unsendable { .. },
        ) => Outcome::Unknown,
    }
}

impl<S: Answers> Answers for Breaker<S> {
    async fn answer(&self, ask: &Ask) -> Result<Reply, UpstreamError> {
        let watch = self.circuit.enter(ask.due.latest, &ask.ticket)?;
        let result = self.inner.answer(ask).await;
        watch.tell(outcome_of(&result));
        result
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        policy::mock::{Inside, Script, answering_after, ask, call, failed, name, status},
        upstream::Due,
    };

    const SECOND: Duration = Duration::from_secs(1);
    const AFTER_TWO: BreakerSettings = BreakerSettings { failures: Some(2), rest: Duration::from_secs(5) };

    fn circuit() -> Arc<Circuit> {
        Arc::new(Circuit::new(name(), AFTER_TWO, Count::default(), Count::default()))
    }

    fn breaker(script: &Script) -> Breaker<Script> {
        Breaker::new(script.clone(), circuit())
    }

    fn rest(result: &Result<Reply, UpstreamError>) -> Option<Duration> {
        match result {
            Err(UpstreamError::Resting { rest, .. }) => Some(*rest),
            _ => None,
        }
    }

    #[tokio::test(start_paused = true)]
    async fn an_upstream_that_only_fails_is_left_alone_and_then_tried_by_one() {
        let script = Script::new([failed(), status(503), failed(), status(200), status(200)]);
        let service = breaker(&script);
        let one = || call(&service, ask(SECOND));
        one().await.unwrap_err();
        one().await.unwrap();
        assert_eq!(rest(&one().await), Some(5 * SECOND));
        tokio::time::advance(4 * SECOND).await;
        assert_eq!(service.circuit.view(), BreakerView::Open { rest: SECOND });
        assert_eq!((rest(&one().await), script.asked()), (Some(SECOND), 2));
        tokio::time::advance(SECOND).await;
        one().await.unwrap_err();
        assert_eq!(rest(&one().await), Some(5 * SECOND), "the one that went to see failed too");
        tokio::time::advance(5 * SECOND).await;
        one().await.unwrap();
        one().await.unwrap();
        assert_eq!(script.asked(), 5);
        assert_eq!(service.circuit.view(), BreakerView::Closed { failures: 0 });
        assert_eq!((service.circuit.opened.get(), service.circuit.rested.get()), (2, 3));
    }

    #[tokio::test(start_paused = true)]
    async fn failures_count_in_a_row_only() {
        let script = Script::new([failed(), status(500), failed(), status(200), failed(), status(404)]);
        let service = breaker(&script);
        for _ in 0..6 {
            assert_eq!(rest(&call(&service, ask(SECOND)).await), None);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn one_call_goes_to_see_and_the_others_wait_for_what_it_finds() {
        let script = Script::new([failed(), failed()]);
        let service = breaker(&script);
        for _ in 0..2 {
            call(&service, ask(SECOND)).await.unwrap_err();
        }
        tokio::time::advance(5 * SECOND).await;
        let slow = Breaker::new(answering_after(SECOND, &Inside::default()), service.circuit.clone());
        let (first, second) = tokio::join!(call(&slow, ask(2 * SECOND)), call(&slow, ask(2 * SECOND)));
        first.unwrap();
        assert!(rest(&second).is_some(), "{second:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn a_caller_that_leaves_says_nothing_of_the_upstream_but_a_deadline_does() {
        let inside = Inside::default();
        let service = Breaker::new(answering_after(60 * SECOND, &inside), circuit());
        for _ in 0..5 {
            tokio::time::timeout(SECOND, call(&service, ask(30 * SECOND))).await.unwrap_err();
        }
        assert_eq!(*service.circuit.state(), State::Closed { failures: 0 });
        for _ in 0..5 {
            let due = Due::after(30 * SECOND).within(Some(SECOND));
            let impatient = Ask { due, ..ask(SECOND) };
            tokio::time::timeout(2 * SECOND, call(&service, impatient)).await.unwrap_err();
        }
        assert_eq!(*service.circuit.state(), State::Closed { failures: 0 });
        for _ in 0..2 {
            tokio::time::timeout(2 * SECOND, call(&service, ask(SECOND))).await.unwrap_err();
        }
        assert!(rest(&call(&service, ask(SECOND)).await).is_some());
    }
}
