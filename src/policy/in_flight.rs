//! Keeps the number of calls at a time to what an upstream can bear, and those of one caller to its part of them.

use std::sync::Arc;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::{Count, Over, PolicySettings};
use crate::{
    reply::Reply,
    route::UpstreamName,
    upstream::{Answers, Ask, Caller, CallerPart, CallerParts, UpstreamError},
};

/// Lets a number of calls through at a time. A few more wait for a place, in order and not for long; the rest
/// are turned away at once, so that a slow upstream makes no queue that nobody waits in any more.
#[derive(Debug)]
pub struct InFlight<S> {
    inner: S,
    gate: Arc<Gate>,
    over: Over,
}

/// The places of one upstream, for whatever is asked of it: calls and what is passed through.
#[derive(Debug)]
pub struct Gate {
    upstream: UpstreamName,
    settings: PolicySettings,
    places: Arc<Semaphore>,
    seats: Arc<Semaphore>,
    busy: Count,
    /// The places and seats of each caller, where they are counted.
    callers: Option<CallerParts>,
}

/// A place of one caller, given back when it is dropped.
#[derive(Debug)]
pub(super) struct Place {
    _permit: OwnedSemaphorePermit,
    _of_caller: Option<CallerPart>,
}

impl<S> InFlight<S> {
    /// Puts the layer round what asks the gate's upstream. What has begun is not turned away for what else its
    /// caller does.
    pub fn new(inner: S, gate: Arc<Gate>, over: Over) -> Self {
        Self { inner, gate, over }
    }
}

impl Gate {
    /// A gate before `upstream`, with all its places free; `busy` counts those who find none.
    pub fn new(upstream: UpstreamName, settings: PolicySettings, busy: Count) -> Self {
        let semaphore = |count: usize| Arc::new(Semaphore::new(count.min(Semaphore::MAX_PERMITS)));
        let (places, seats) = (semaphore(settings.in_flight_limit), semaphore(settings.waiting_limit));
        let callers = settings.caller_in_flight_limit.map(CallerParts::of);
        Self { upstream, settings, places, seats, busy, callers }
    }

    /// Whose they are.
    pub(super) fn upstream(&self) -> &UpstreamName {
        &self.upstream
    }

    /// How many are inside, and how many wait.
    pub(super) fn taken(&self) -> (usize, usize) {
        let taken = |semaphore: &Semaphore, limit: usize| {
            limit.min(Semaphore::MAX_PERMITS).saturating_sub(semaphore.available_permits())
        };
        let PolicySettings { in_flight_limit, waiting_limit, .. } = self.settings;
        (taken(&self.places, in_flight_limit), taken(&self.seats, waiting_limit))
    }

    /// Finds a place, or waits for one; of a caller only where it has not as many as it may, of work that has begun in any
    /// case. Dropping the future leaves the queue.
    pub(super) async fn enter(&self, caller: Option<&Caller>) -> Result<Place, UpstreamError> {
        let of_caller = match self.callers.as_ref().zip(caller) {
            None => None,
            Some((callers, caller)) => callers.take(caller).map_err(|in_flight_limit| {
                self.busy.add();
                UpstreamError::CallerBusy { upstream: self.upstream.clone(), in_flight_limit }
            })?,
        };
        Ok(Place { _permit: self.place().await?, _of_caller: of_caller })
    }

    async fn place(&self) -> Result<OwnedSemaphorePermit, UpstreamError> {
        if let Ok(place) = self.places.clone().try_acquire_owned() {
            return Ok(place);
        }
        let busy = || {
            self.busy.add();
            UpstreamError::Busy {
                upstream: self.upstream.clone(),
                in_flight_limit: self.settings.in_flight_limit,
            }
        };
        let _seat = self.seats.try_acquire().map_err(|_| busy())?;
        match tokio::time::timeout(self.settings.waiting_timeout, self.places.clone().acquire_owned()).await {
            Ok(place) => Ok(place.expect("the semaphore is never closed")),
            Err(_) => Err(busy()),
        }
    }
}

impl<S: Answers> Answers for InFlight<S> {
    async fn answer(&self, ask: &Ask) -> Result<Reply, UpstreamError> {
        let caller = match self.over {
            Over::TurnedAway => Some(&ask.caller),
            Over::Waits => None,
        };
        let _place = self.gate.enter(caller).await?;
        self.inner.answer(ask).await
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::policy::mock::{Inside, answering_after, ask, call, name};

    const SECOND: Duration = Duration::from_secs(1);

    fn gate() -> Arc<Gate> {
        let settings = PolicySettings {
            in_flight_limit: 1,
            waiting_limit: 1,
            waiting_timeout: 2 * SECOND,
            ..PolicySettings::default()
        };
        Arc::new(Gate::new(name(), settings, Count::default()))
    }

    fn is_busy(result: &Result<Reply, UpstreamError>) -> bool {
        matches!(result, Err(UpstreamError::Busy { in_flight_limit: 1, .. }))
    }

    #[tokio::test(start_paused = true)]
    async fn one_is_let_in_one_waits_and_the_next_is_turned_away_at_once() {
        let service = InFlight::new(answering_after(SECOND, &Inside::default()), gate(), Over::TurnedAway);
        let begun = tokio::time::Instant::now();
        let (first, second, third) =
            tokio::join!(call(&service, ask(SECOND)), call(&service, ask(SECOND)), async {
                assert_eq!(service.gate.taken(), (1, 1));
                let third = call(&service, ask(SECOND)).await;
                (third, begun.elapsed())
            },);
        first.unwrap();
        second.unwrap();
        assert!(is_busy(&third.0), "{third:?}");
        assert_eq!(service.gate.busy.get(), 1);
        assert_eq!(third.1, Duration::ZERO);
        assert_eq!(begun.elapsed(), 2 * SECOND);
    }

    #[tokio::test(start_paused = true)]
    async fn who_waits_too_long_is_turned_away() {
        let service =
            InFlight::new(answering_after(10 * SECOND, &Inside::default()), gate(), Over::TurnedAway);
        let (first, second) = tokio::join!(call(&service, ask(SECOND)), call(&service, ask(SECOND)));
        first.unwrap();
        assert!(is_busy(&second), "{second:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn a_call_that_is_dropped_gives_its_place_back() {
        let inside = Inside::default();
        let service = InFlight::new(answering_after(10 * SECOND, &inside), gate(), Over::TurnedAway);
        let dropped = tokio::time::timeout(SECOND, call(&service, ask(SECOND))).await;
        dropped.unwrap_err();
        assert_eq!(inside.count(), 0);
        call(&service, ask(SECOND)).await.unwrap();
    }

    #[tokio::test(start_paused = true)]
    async fn one_caller_has_its_part_and_leaves_the_rest_to_others() {
        let settings = PolicySettings {
            in_flight_limit: 9,
            caller_in_flight_limit: Some(2),
            ..PolicySettings::default()
        };
        let gate = Arc::new(Gate::new(name(), settings, Count::default()));
        let by = |last: u8, over| {
            let service = InFlight::new(answering_after(SECOND, &Inside::default()), gate.clone(), over);
            let mut ask = ask(SECOND);
            ask.caller = Caller::at([10, 0, 0, last].into());
            async move { call(&service, ask).await }
        };
        let own = || by(1, Over::TurnedAway);
        let (first, second, third, other) = tokio::join!(own(), own(), own(), by(2, Over::TurnedAway));
        assert!(first.is_ok() && second.is_ok() && other.is_ok());
        assert!(matches!(third, Err(UpstreamError::CallerBusy { in_flight_limit: 2, .. })), "{third:?}");
        let (first, second, follows) = tokio::join!(own(), own(), by(1, Over::Waits));
        assert!(first.is_ok() && second.is_ok() && follows.is_ok());
    }
}
