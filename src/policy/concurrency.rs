//! Concurrency limit of an upstream, and of each of its clients: concurrency slots, and a queue for them.

use std::{sync::Arc, time::Duration};

use tokio::{
    sync::{OwnedSemaphorePermit, Semaphore},
    time::timeout,
};

use super::{EventCounts, PolicySettings};
use crate::upstream::{ClientIdentity, Failure, PerClientLimit, PerClientPermit};

/// Semaphore of one upstream, for calls and passthrough requests. Requests over the limit wait in a short
/// FIFO queue with a timeout. Further ones are rejected at once, so that a slow upstream builds up no queue
/// of requests whose clients have left.
#[derive(Debug)]
pub(super) struct ConcurrencyLimit {
    settings: PolicySettings,
    slots: Arc<Semaphore>,
    queue: Arc<Semaphore>,
    events: EventCounts,
    /// Limit per client, if there is one.
    per_client: Option<PerClientLimit>,
    /// Time that a client at its limit waits.
    client_wait: Duration,
}

/// Concurrency slot, and the permit of its client if it needs one. Both are released on drop.
pub(super) type ConcurrencySlot = (OwnedSemaphorePermit, Option<PerClientPermit>);

impl ConcurrencyLimit {
    /// Creates the limit with all slots free. `events` counts rejected calls.
    pub(super) fn new(settings: PolicySettings, client_wait: Duration, events: EventCounts) -> Self {
        let semaphore = |count: usize| Arc::new(Semaphore::new(count.min(Semaphore::MAX_PERMITS)));
        let (slots, queue) = (semaphore(settings.max_in_flight), semaphore(settings.max_queued));
        let per_client = settings.max_in_flight_per_client.map(PerClientLimit::new);
        Self { settings, slots, queue, events, per_client, client_wait }
    }

    /// Requests in flight, and requests in the queue.
    pub(super) fn usage(&self) -> (usize, usize) {
        let usage = |semaphore: &Semaphore, limit: usize| {
            limit.min(Semaphore::MAX_PERMITS).saturating_sub(semaphore.available_permits())
        };
        let PolicySettings { max_in_flight, max_queued, .. } = self.settings;
        (usage(&self.slots, max_in_flight), usage(&self.queue, max_queued))
    }

    /// Acquires a slot, waiting in the queue if necessary. With a `client`, its own limit applies as well;
    /// follow-up requests have none. Dropping the future leaves the queue.
    pub(super) async fn acquire(&self, client: Option<&ClientIdentity>) -> Result<ConcurrencySlot, Failure> {
        let result = self.slot(client).await;
        if result.is_err() {
            self.events.add("queue_rejected");
        }
        result
    }

    async fn slot(&self, client: Option<&ClientIdentity>) -> Result<ConcurrencySlot, Failure> {
        let client_permit = match self.per_client.as_ref().zip(client) {
            None => None,
            Some((per_client, client)) => {
                per_client.take_within(self.client_wait, client).await.map_err(Failure::ClientBusy)?
            }
        };
        let permit = match self.slots.clone().try_acquire_owned() {
            Ok(permit) => permit,
            Err(_) => {
                let busy = Failure::Busy(self.settings.max_in_flight);
                let Ok(_queued) = self.queue.try_acquire() else { return Err(busy) };
                let queued = timeout(self.settings.queue_timeout, self.slots.clone().acquire_owned());
                queued.await.map_err(|_| busy)?.expect("the semaphore is never closed")
            }
        };
        Ok((permit, client_permit))
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::{Instant, sleep};

    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn one_slot() -> ConcurrencyLimit {
        let settings = PolicySettings {
            max_in_flight: 1,
            max_queued: 1,
            queue_timeout: 2 * SECOND,
            ..PolicySettings::default()
        };
        ConcurrencyLimit::new(settings, Duration::ZERO, EventCounts::of_upstream())
    }

    /// Call that takes this long.
    async fn call(limit: &ConcurrencyLimit, time: Duration) -> Result<(), Failure> {
        let _slot = limit.acquire(Some(&ClientIdentity::Only)).await?;
        sleep(time).await;
        Ok(())
    }

    fn is_busy(result: &Result<(), Failure>) -> bool {
        matches!(result, Err(Failure::Busy(1)))
    }

    #[tokio::test(start_paused = true)]
    async fn one_is_admitted_one_waits_and_the_next_is_rejected_at_once() {
        let limit = one_slot();
        let started = Instant::now();
        let (first, second, third) = tokio::join!(call(&limit, SECOND), call(&limit, SECOND), async {
            assert_eq!(limit.usage(), (1, 1));
            let third = call(&limit, SECOND).await;
            (third, started.elapsed())
        });
        assert!(first.is_ok() && second.is_ok());
        assert!(is_busy(&third.0), "{third:?}");
        assert_eq!(limit.queue_rejected.get(), 1);
        assert_eq!(third.1, Duration::ZERO);
        assert_eq!(started.elapsed(), 2 * SECOND);
    }

    #[tokio::test(start_paused = true)]
    async fn a_call_is_rejected_after_the_queue_timeout() {
        let limit = one_slot();
        let (first, second) = tokio::join!(call(&limit, 10 * SECOND), call(&limit, 10 * SECOND));
        first.unwrap();
        assert!(is_busy(&second), "{second:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn a_dropped_call_releases_its_slot() {
        let limit = one_slot();
        timeout(SECOND, call(&limit, 10 * SECOND)).await.unwrap_err();
        assert_eq!(limit.usage(), (0, 0));
        call(&limit, SECOND).await.unwrap();
    }

    #[tokio::test(start_paused = true)]
    async fn a_client_has_its_share_and_leaves_slots_to_others() {
        let settings = PolicySettings {
            max_in_flight: 9,
            max_in_flight_per_client: Some(2),
            ..PolicySettings::default()
        };
        let limit = ConcurrencyLimit::new(settings, Duration::ZERO, EventCounts::of_upstream());
        let by = async |last: u8| {
            limit.acquire(Some(&ClientIdentity::from_address([10, 0, 0, last].into()))).await
        };
        let held = (by(1).await.unwrap(), by(1).await.unwrap());
        let third = by(1).await.unwrap_err();
        assert!(matches!(third, Failure::ClientBusy(2)), "{third:?}");
        drop(by(2).await.unwrap());
        drop(limit.acquire(None).await.expect("what has begun is not rejected"));
        drop(held);
        drop(by(1).await.unwrap());
    }
}
