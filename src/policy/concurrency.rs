//! Concurrency limits (bulkheads): slots of an upstream, with a queue, and slots of each client.

use std::{
    collections::HashMap,
    hash::Hash,
    sync::{Arc, Weak},
    time::Duration,
};

use parking_lot::Mutex;
use tokio::{
    sync::{OwnedSemaphorePermit, Semaphore},
    time::timeout,
};

use super::PolicySettings;
use crate::telemetry::LabelCounter;
use crate::upstream::{ClientIdentity, Failure};

/// Semaphore of one upstream, for calls and passthrough requests. Requests over the limit wait in a short
/// FIFO queue with a timeout. If the queue is full, requests are rejected at once. So a slow upstream builds
/// up no queue of requests whose clients have disconnected.
#[derive(Debug)]
pub(super) struct ConcurrencyLimit {
    limit: usize,
    slots: Arc<Semaphore>,
    queue: Semaphore,
    events: LabelCounter,
    /// Limit per client, if there is one.
    per_client: Option<PerClientLimit>,
    /// Maximum time that a request waits for a slot of its client. If it is zero, the request is rejected at
    /// once.
    client_wait: Duration,
}

/// Concurrency slot, and the permit of its client if it needs one. Both are released on drop.
pub(super) type ConcurrencySlot = (OwnedSemaphorePermit, Option<OwnedSemaphorePermit>);

impl ConcurrencyLimit {
    /// Creates the limit with all slots free. `events` counts rejected calls.
    pub(super) fn new(
        limit: usize,
        limit_per_client: Option<usize>,
        client_wait: Duration,
        events: LabelCounter,
    ) -> Self {
        let (slots, queue) = (Semaphore::new(limit).into(), Semaphore::new(PolicySettings::MAX_QUEUED));
        let per_client = limit_per_client.map(PerClientLimit::new);
        Self { limit, slots, queue, events, per_client, client_wait }
    }

    /// Number of requests in flight, and number of requests in the queue.
    pub(super) fn usage(&self) -> (usize, usize) {
        let queued = PolicySettings::MAX_QUEUED - self.queue.available_permits();
        (self.limit - self.slots.available_permits(), queued)
    }

    /// Acquires a slot, waiting in the queue if necessary. With a `client`, the limit per client applies as
    /// well; follow-up requests have no `client`. Dropping the future leaves the queue.
    pub(super) async fn acquire(&self, client: Option<&ClientIdentity>) -> Result<ConcurrencySlot, Failure> {
        self.acquire_slot(client).await.inspect_err(|_| self.events.add("queue_rejected"))
    }

    async fn acquire_slot(&self, client: Option<&ClientIdentity>) -> Result<ConcurrencySlot, Failure> {
        let client_permit = match self.per_client.as_ref().zip(client) {
            None => None,
            Some((per_client, client)) => match per_client.try_acquire(client) {
                Err(limit) if !self.client_wait.is_zero() => {
                    let waiting = timeout(self.client_wait, per_client.semaphore(client).acquire_owned());
                    let permit = waiting.await.map_err(|_| Failure::ClientBusy(limit))?;
                    Some(permit.expect("the semaphore is never closed"))
                }
                result => result.map_err(Failure::ClientBusy)?,
            },
        };
        let permit = match self.slots.clone().try_acquire_owned() {
            Ok(permit) => permit,
            Err(_) => {
                let busy = Failure::Busy(self.limit);
                let Ok(_queue_permit) = self.queue.try_acquire() else { return Err(busy) };
                let waiting = timeout(PolicySettings::QUEUE_TIMEOUT, self.slots.clone().acquire_owned());
                waiting.await.map_err(|_| busy)?.expect("the semaphore is never closed")
            }
        };
        Ok((permit, client_permit))
    }
}

/// One semaphore per key, all with the same number of permits. Clones share the semaphores.
#[derive(Debug, Clone)]
pub struct KeyedSemaphore<K> {
    permits: usize,
    /// Semaphores of the keys that are in use. Entries of unused keys are removed later.
    semaphores: Arc<Mutex<HashMap<K, Weak<Semaphore>>>>,
}

/// Limit per client, for example on open streams.
pub type PerClientLimit = KeyedSemaphore<ClientIdentity>;

impl<K: Clone + Eq + Hash> KeyedSemaphore<K> {
    /// Creates semaphores of `permits` permits each.
    pub fn new(permits: usize) -> Self {
        Self { permits: permits.min(Semaphore::MAX_PERMITS), semaphores: Arc::default() }
    }

    /// Semaphore of a key.
    pub fn semaphore(&self, key: &K) -> Arc<Semaphore> {
        let mut semaphores = self.semaphores.lock();
        if let Some(semaphore) = semaphores.get(key).and_then(Weak::upgrade) {
            return semaphore;
        }
        // Instead of growing, the map first drops the semaphores that are not in use.
        if semaphores.len() == semaphores.capacity() {
            semaphores.retain(|_, semaphore| semaphore.strong_count() > 0);
        }
        let semaphore = Arc::new(Semaphore::new(self.permits));
        semaphores.insert(key.clone(), Arc::downgrade(&semaphore));
        semaphore
    }
}

impl PerClientLimit {
    /// Acquires a permit for a client, which is released on drop. `ClientIdentity::Local` has no limit.
    ///
    /// # Errors
    ///
    /// The number of permits per client, if the client has acquired all of them.
    pub fn try_acquire(&self, client: &ClientIdentity) -> Result<Option<OwnedSemaphorePermit>, usize> {
        if matches!(client, ClientIdentity::Local) {
            return Ok(None);
        }
        self.semaphore(client).try_acquire_owned().map(Some).map_err(|_| self.permits)
    }
}

#[cfg(test)]
mod tests {
    use futures_util::future::join_all;
    use tokio::time::{Instant, sleep};

    use super::*;
    use crate::policy::metrics::upstream_events;

    const SECOND: Duration = Duration::from_secs(1);

    fn one_slot() -> ConcurrencyLimit {
        ConcurrencyLimit::new(1, None, Duration::ZERO, upstream_events())
    }

    /// Call that takes this long.
    async fn call(limit: &ConcurrencyLimit, time: Duration) -> Result<(), Failure> {
        let _slot = limit.acquire(Some(&ClientIdentity::Local)).await?;
        sleep(time).await;
        Ok(())
    }

    fn is_busy(result: &Result<(), Failure>) -> bool {
        matches!(result, Err(Failure::Busy(1)))
    }

    #[tokio::test(start_paused = true)]
    async fn one_is_admitted_some_wait_and_the_next_is_rejected_at_once() {
        let limit = one_slot();
        let started = Instant::now();
        let short = Duration::from_millis(1);
        let queued = join_all((0..=PolicySettings::MAX_QUEUED).map(|_| call(&limit, short)));
        let (queued, (last, rejected_after)) = tokio::join!(queued, async {
            assert_eq!(limit.usage(), (1, PolicySettings::MAX_QUEUED));
            let last = call(&limit, short).await;
            (last, started.elapsed())
        });
        assert!(queued.iter().all(Result::is_ok));
        assert!(is_busy(&last), "{last:?}");
        assert_eq!(limit.events.get("queue_rejected"), 1);
        assert_eq!(rejected_after, Duration::ZERO);
        assert_eq!(limit.usage(), (0, 0));
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
    async fn a_client_at_its_limit_is_rejected_and_others_still_get_slots() {
        let limit = ConcurrencyLimit::new(9, Some(2), Duration::ZERO, upstream_events());
        let acquire_for = async |last: u8| {
            limit.acquire(Some(&ClientIdentity::from_address([10, 0, 0, last].into()))).await
        };
        let slots = (acquire_for(1).await.unwrap(), acquire_for(1).await.unwrap());
        let third = acquire_for(1).await.unwrap_err();
        assert!(matches!(third, Failure::ClientBusy(2)), "{third:?}");
        drop(acquire_for(2).await.unwrap());
        drop(limit.acquire(None).await.expect("follow-up requests have no limit per client"));
        drop(slots);
        drop(acquire_for(1).await.unwrap());
    }

    #[test]
    fn each_client_has_its_share_and_idle_ones_are_dropped() {
        let limit = PerClientLimit::new(1);
        let (one, other) = (
            ClientIdentity::from_address([10, 0, 0, 1].into()),
            ClientIdentity::from_address([10, 0, 0, 2].into()),
        );
        let first = limit.try_acquire(&one).unwrap();
        assert_eq!(limit.try_acquire(&one).map(drop), Err(1));
        let others = limit.try_acquire(&other).unwrap();
        assert!(limit.try_acquire(&ClientIdentity::Local).unwrap().is_none());
        drop((first, others));
        assert!(limit.try_acquire(&one).is_ok());
        for last in 0..=255 {
            assert!(limit.try_acquire(&ClientIdentity::from_address([10, 0, 1, last].into())).is_ok());
        }
        assert!(limit.semaphores.lock().len() < 10);
    }
}
