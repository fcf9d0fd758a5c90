//! Asks a second time when the first takes unusually long.

use std::{
    future::Future,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use tokio::time::{Instant, sleep};

use super::{Budget, Circuit, RouteCounts};
use crate::{
    reply::Reply,
    upstream::{Answers, Ask, UpstreamError},
};

/// Sends a request once more when there is no reply after a while, and takes the good reply that comes first; the other
/// request is dropped. Only what may be sent twice (`Ask::repeatable`), only to an upstream that does not fail, and only
/// within what all its calls may repeat: one that is slow for everybody is not asked twice as much for it.
///
/// The second is sent once, without attempts after it.
#[derive(Debug)]
pub struct Hedge<R, O> {
    /// With repetitions.
    first: R,
    /// Without.
    second: O,
    shared: Arc<Hedging>,
}

/// After how long a request is sent once more.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HedgeSettings {
    /// After this.
    After(Duration),
    /// After the time within which 95 of 100 replies came lately.
    AfterMost,
}

/// What the hedged calls of one route have in common.
#[derive(Debug)]
pub(super) struct Hedging {
    pub(super) settings: HedgeSettings,
    pub(super) budget: Arc<Budget>,
    /// Those of the upstream and of the route.
    pub(super) circuits: [Arc<Circuit>; 2],
    pub(super) counts: RouteCounts,
    pub(super) times: Times,
}

/// How long the last replies took.
#[derive(Debug, Default)]
pub(super) struct Times(Mutex<Lately>);

#[derive(Debug, Default)]
struct Lately {
    times: Vec<Duration>,
    next: usize,
    /// Within which most came, as it was worked out last.
    most: Option<Duration>,
}

impl Times {
    /// How many are remembered.
    const LIMIT: usize = 128;
    /// With fewer there is no telling what is unusual.
    const LEAST: usize = 20;
    /// After how many more it is worked out anew.
    const EVERY: usize = 8;

    fn add(&self, time: Duration) {
        let mut lately = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let next = lately.next;
        match lately.times.get_mut(next % Self::LIMIT) {
            Some(oldest) => *oldest = time,
            None => lately.times.push(time),
        }
        lately.next += 1;
        if lately.times.len() >= Self::LEAST
            && (lately.most.is_none() || lately.next.is_multiple_of(Self::EVERY))
        {
            let mut sorted = lately.times.clone();
            sorted.sort_unstable();
            lately.most = sorted.get(sorted.len() * 95 / 100).copied();
        }
    }

    fn most(&self) -> Option<Duration> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).most
    }
}

impl<R, O> Hedge<R, O> {
    /// Puts the layer round what repeats what fails, and the same without that.
    pub(super) fn new(first: R, second: O, shared: Arc<Hedging>) -> Self {
        Self { first, second, shared }
    }
}

impl Hedging {
    fn after(&self) -> Option<Duration> {
        match self.settings {
            HedgeSettings::After(time) => Some(time),
            HedgeSettings::AfterMost => self.times.most(),
        }
    }

    /// Waits for the reply to one request, and after a while for that to a second, too.
    async fn first_good<S>(
        &self,
        first: impl Future<Output = Result<Reply, UpstreamError>>,
        second: impl FnOnce() -> S,
    ) -> Result<Reply, UpstreamError>
    where
        S: Future<Output = Result<Reply, UpstreamError>>,
    {
        let mut first = std::pin::pin!(first);
        let begun = Instant::now();
        let Some(after) = self.after() else { return self.timed(begun, first.await) };
        tokio::select! {
            biased;
            result = &mut first => return self.timed(begun, result),
            () = sleep(after) => {}
        }
        if !self.circuits.iter().all(|circuit| circuit.is_closed()) || !self.budget.spend() {
            return self.timed(begun, first.await);
        }
        self.counts.hedged.add();
        let mut second = std::pin::pin!(second());
        tokio::select! {
            biased;
            result = &mut first => {
                // What failed may yet be answered.
                if is_good(&result) { return self.timed(begun, result) }
                let other = second.await;
                if is_good(&other) { self.won(begun, other) } else { result }
            }
            other = &mut second => {
                if is_good(&other) { self.won(begun, other) } else { self.timed(begun, first.await) }
            }
        }
    }

    fn won(&self, begun: Instant, result: Result<Reply, UpstreamError>) -> Result<Reply, UpstreamError> {
        self.counts.hedges_won.add();
        self.timed(begun, result)
    }

    fn timed(&self, begun: Instant, result: Result<Reply, UpstreamError>) -> Result<Reply, UpstreamError> {
        if self.settings == HedgeSettings::AfterMost && is_good(&result) {
            self.times.add(begun.elapsed());
        }
        result
    }
}

/// Whether it is an answer, whatever it says.
fn is_good(result: &Result<Reply, UpstreamError>) -> bool {
    result.as_ref().is_ok_and(|reply| !reply.status.is_server_error() && reply.status.as_u16() != 429)
}

impl<R: Answers, O: Answers> Answers for Hedge<R, O> {
    async fn answer(&self, ask: &Ask) -> Result<Reply, UpstreamError> {
        if !ask.repeatable {
            return self.first.answer(ask).await;
        }
        // Nobody is told of the second: its bytes would be counted with those of the first.
        let again = async || self.second.answer(&Ask { meanwhile: None, ..ask.clone() }).await;
        self.shared.first_good(self.first.answer(ask), again).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::{
        BreakerSettings, Count,
        mock::{Inside, Script, Slow, ask, call, failed, name, status},
    };

    const SECOND: Duration = Duration::from_secs(1);

    fn hedging(settings: HedgeSettings) -> Arc<Hedging> {
        let breaker = BreakerSettings { failures: Some(1), rest: 60 * SECOND };
        Arc::new(Hedging {
            settings,
            budget: Arc::default(),
            circuits: [(); 2]
                .map(|()| Arc::new(Circuit::new(name(), breaker, Count::default(), Count::default()))),
            counts: RouteCounts::default(),
            times: Times::default(),
        })
    }

    fn hedge<O>(first: Slow, second: O, settings: HedgeSettings) -> Hedge<Slow, O> {
        Hedge::new(first, second, hedging(settings))
    }

    const AFTER_ONE: HedgeSettings = HedgeSettings::After(SECOND);

    /// What gives this reply after a while.
    fn after(delay: Duration, code: u16, inside: &Inside) -> Slow {
        Slow { code, delay, inside: inside.clone() }
    }

    #[tokio::test(start_paused = true)]
    async fn a_slow_request_is_sent_once_more_and_the_first_good_reply_is_taken() {
        let (slow, quick) = (Inside::default(), Inside::default());
        let service = hedge(after(10 * SECOND, 200, &slow), after(SECOND, 204, &quick), AFTER_ONE);
        let begun = Instant::now();
        let reply = call(&service, ask(30 * SECOND)).await.unwrap();
        assert_eq!((reply.status.as_u16(), begun.elapsed()), (204, 2 * SECOND));
        assert_eq!((slow.count(), quick.count()), (0, 0), "the other one goes on behind its caller's back");
        let counts = &service.shared.counts;
        assert_eq!((counts.hedged.get(), counts.hedges_won.get()), (1, 1));
    }

    #[tokio::test(start_paused = true)]
    async fn a_quick_request_and_one_that_may_not_be_repeated_are_sent_once() {
        let script = Script::new([]);
        let service = hedge(after(SECOND / 2, 200, &Inside::default()), script.clone(), AFTER_ONE);
        call(&service, ask(30 * SECOND)).await.unwrap();
        let service = hedge(after(10 * SECOND, 200, &Inside::default()), script.clone(), AFTER_ONE);
        call(&service, Ask { repeatable: false, ..ask(30 * SECOND) }).await.unwrap();
        assert_eq!(script.asked(), 0);
    }

    #[tokio::test(start_paused = true)]
    async fn a_failure_of_one_waits_for_the_other() {
        let script = Script::new([failed(), status(503)]);
        let service = hedge(after(10 * SECOND, 200, &Inside::default()), script.clone(), AFTER_ONE);
        for _ in 0..2 {
            assert_eq!(call(&service, ask(30 * SECOND)).await.unwrap().status.as_u16(), 200);
        }
        let second = after(9 * SECOND, 200, &Inside::default());
        let service = hedge(after(2 * SECOND, 503, &Inside::default()), second, AFTER_ONE);
        assert_eq!(call(&service, ask(30 * SECOND)).await.unwrap().status.as_u16(), 200);
        let service = hedge(after(2 * SECOND, 503, &Inside::default()), Script::new([failed()]), AFTER_ONE);
        assert_eq!(call(&service, ask(30 * SECOND)).await.unwrap().status.as_u16(), 503);
    }

    #[tokio::test(start_paused = true)]
    async fn nothing_is_sent_twice_beyond_the_budget_or_to_an_upstream_that_fails() {
        let script = Script::new((0..100).map(|_| failed()));
        let service = hedge(after(2 * SECOND, 200, &Inside::default()), script.clone(), AFTER_ONE);
        for _ in 0..50 {
            call(&service, ask(30 * SECOND)).await.unwrap();
        }
        assert_eq!(script.asked(), 10, "what there is to begin with");
        let shared = hedging(AFTER_ONE);
        let failing = crate::policy::Breaker::new(Script::new([failed()]), shared.circuits[0].clone());
        call(&failing, ask(SECOND)).await.unwrap_err();
        let service = Hedge::new(after(2 * SECOND, 200, &Inside::default()), Script::new([]), shared);
        call(&service, ask(30 * SECOND)).await.unwrap();
    }

    #[tokio::test(start_paused = true)]
    async fn what_is_unusual_is_learnt_from_the_last_replies() {
        let inside = Inside::default();
        let shared = hedging(HedgeSettings::AfterMost);
        let usual = Hedge::new(after(SECOND, 200, &inside), Script::new([]), shared.clone());
        for _ in 0..Times::LEAST - 1 {
            call(&usual, ask(30 * SECOND)).await.unwrap();
        }
        assert_eq!(shared.after(), None, "too few to tell");
        call(&usual, ask(30 * SECOND)).await.unwrap();
        assert_eq!(shared.after(), Some(SECOND));
        let unusual = Hedge::new(after(20 * SECOND, 200, &inside), after(SECOND, 200, &inside), shared);
        let begun = Instant::now();
        call(&unusual, ask(30 * SECOND)).await.unwrap();
        assert_eq!(begun.elapsed(), 2 * SECOND);
    }
}
