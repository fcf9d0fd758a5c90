//! Keeps the number of calls at a time to what an upstream can bear, and those of one caller to its part of them.

use std::sync::Arc;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::{Count, PolicySettings};
use crate::{
    route::UpstreamName,
    upstream::{Caller, CallerPart, CallerParts, UpstreamError},
};

/// The places of one upstream, for whatever is asked of it: calls and what is passed through. It lets a number of
/// requests through at a time. A few more wait for a place, in order and not for long; the rest are turned away at once,
/// so that a slow upstream makes no queue that nobody waits in any more.
#[derive(Debug)]
pub(super) struct Gate {
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

impl Gate {
    /// A gate before `upstream`, with all its places free; `busy` counts those who find none.
    pub(super) fn new(upstream: UpstreamName, settings: PolicySettings, busy: Count) -> Self {
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

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::time::{Instant, sleep, timeout};

    use super::*;
    use crate::policy::mock::name;

    const SECOND: Duration = Duration::from_secs(1);

    fn gate() -> Gate {
        let settings = PolicySettings {
            in_flight_limit: 1,
            waiting_limit: 1,
            waiting_timeout: 2 * SECOND,
            ..PolicySettings::default()
        };
        Gate::new(name(), settings, Count::default())
    }

    /// A call that takes so long.
    async fn call(gate: &Gate, time: Duration) -> Result<(), UpstreamError> {
        let _place = gate.enter(Some(&Caller::Only)).await?;
        sleep(time).await;
        Ok(())
    }

    fn is_busy(result: &Result<(), UpstreamError>) -> bool {
        matches!(result, Err(UpstreamError::Busy { in_flight_limit: 1, .. }))
    }

    #[tokio::test(start_paused = true)]
    async fn one_is_let_in_one_waits_and_the_next_is_turned_away_at_once() {
        let gate = gate();
        let begun = Instant::now();
        let (first, second, third) = tokio::join!(call(&gate, SECOND), call(&gate, SECOND), async {
            assert_eq!(gate.taken(), (1, 1));
            let third = call(&gate, SECOND).await;
            (third, begun.elapsed())
        });
        assert!(first.is_ok() && second.is_ok());
        assert!(is_busy(&third.0), "{third:?}");
        assert_eq!(gate.busy.get(), 1);
        assert_eq!(third.1, Duration::ZERO);
        assert_eq!(begun.elapsed(), 2 * SECOND);
    }

    #[tokio::test(start_paused = true)]
    async fn who_waits_too_long_is_turned_away() {
        let gate = gate();
        let (first, second) = tokio::join!(call(&gate, 10 * SECOND), call(&gate, 10 * SECOND));
        first.unwrap();
        assert!(is_busy(&second), "{second:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn a_call_that_is_dropped_gives_its_place_back() {
        let gate = gate();
        timeout(SECOND, call(&gate, 10 * SECOND)).await.unwrap_err();
        assert_eq!(gate.taken(), (0, 0));
        call(&gate, SECOND).await.unwrap();
    }

    #[tokio::test(start_paused = true)]
    async fn one_caller_has_its_part_and_leaves_the_rest_to_others() {
        let settings = PolicySettings {
            in_flight_limit: 9,
            caller_in_flight_limit: Some(2),
            ..PolicySettings::default()
        };
        let gate = Gate::new(name(), settings, Count::default());
        let by = async |last: u8| gate.enter(Some(&Caller::at([10, 0, 0, last].into()))).await;
        let held = (by(1).await.unwrap(), by(1).await.unwrap());
        let third = by(1).await.unwrap_err();
        assert!(matches!(third, UpstreamError::CallerBusy { in_flight_limit: 2, .. }), "{third:?}");
        by(2).await.unwrap();
        gate.enter(None).await.expect("what has begun is not turned away");
        drop(held);
        by(1).await.unwrap();
    }
}
