//! Who is connected: so many at once and no more. When all places are taken, those make room who have asked nothing for
//! the longest; so a crowd that only holds connections open keeps nobody out.

use std::{
    collections::HashMap,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use tokio::{
    sync::{Notify, OwnedSemaphorePermit, Semaphore},
    time::{Instant, timeout},
};
use tracing::warn;

use super::activity::Activity;

/// How long to wait for a place before it is looked again who might make room.
const PATIENCE: Duration = Duration::from_millis(100);

/// Every which part of a crowd makes room at once: it is gone through as a whole to find them.
const PART: usize = 64;

/// How often it is told that the places are taken.
const TOLD_EVERY: Duration = Duration::from_secs(60);

/// The places of one port. Clones are the same.
#[derive(Debug, Clone)]
pub(super) struct Crowd {
    limit: u32,
    places: Arc<Semaphore>,
    members: Arc<Mutex<HashMap<u64, Member>>>,
    numbers: Arc<AtomicU64>,
}

#[derive(Debug)]
struct Member {
    activity: Activity,
    leave: Arc<Notify>,
}

/// A place that was taken; it is free again when this is dropped.
#[derive(Debug)]
pub(super) struct Place {
    pub(super) activity: Activity,
    crowd: Crowd,
    number: u64,
    leave: Arc<Notify>,
    _permit: OwnedSemaphorePermit,
}

impl Crowd {
    pub(super) fn of(limit: usize) -> Self {
        let limit = u32::try_from(limit.clamp(1, Semaphore::MAX_PERMITS)).unwrap_or(u32::MAX);
        Self {
            limit,
            places: Arc::new(Semaphore::new(limit as usize)),
            members: Arc::default(),
            numbers: Arc::default(),
        }
    }

    /// A place for a client that is there already; others make room for it.
    pub(super) async fn place(&self, told: &mut Option<Instant>) -> Place {
        let permit = loop {
            if let Ok(permit) = self.places.clone().try_acquire_owned() {
                break permit;
            }
            if told.is_none_or(|last| last.elapsed() >= TOLD_EVERY) {
                *told = Some(Instant::now());
                let connections = self.limit;
                warn!(connections, "all places are taken: connections without a request make room");
            }
            self.make_room();
            if let Ok(Ok(permit)) = timeout(PATIENCE, self.places.clone().acquire_owned()).await {
                break permit;
            }
        };
        let number = self.numbers.fetch_add(1, Ordering::Relaxed);
        let (activity, leave) = (Activity::new(), Arc::new(Notify::new()));
        self.members().insert(number, Member { activity: activity.clone(), leave: leave.clone() });
        Place { activity, crowd: self.clone(), number, leave, _permit: permit }
    }

    /// Asks some to leave who are without a request, the longest first.
    pub(super) fn make_room(&self) {
        let members = self.members();
        let mut idle: Vec<(Instant, &Member)> =
            members.values().filter_map(|member| Some((member.activity.unasked_since()?, member))).collect();
        idle.sort_unstable_by_key(|(since, _)| *since);
        for (_, member) in idle.iter().take((self.limit as usize).div_ceil(PART)) {
            member.leave.notify_one();
        }
    }

    /// How many are connected.
    pub(super) fn open(&self) -> usize {
        self.limit as usize - self.places.available_permits()
    }

    /// Waits until nobody is.
    pub(super) async fn gone(&self) {
        // The semaphore is never closed.
        let _ = self.places.acquire_many(self.limit).await;
    }

    fn members(&self) -> MutexGuard<'_, HashMap<u64, Member>> {
        self.members.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Place {
    /// Waits until it is to be left, while nothing is asked.
    pub(super) async fn is_wanted(&self) {
        loop {
            self.leave.notified().await;
            // A request may have come meanwhile.
            if self.activity.unasked_since().is_some() {
                return;
            }
        }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.crowd.members().remove(&self.number);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn who_has_asked_nothing_for_the_longest_makes_room() {
        let crowd = Crowd::of(3);
        let mut told = None;
        let busy = crowd.place(&mut told).await;
        busy.activity.asked();
        tokio::time::advance(Duration::from_secs(1)).await;
        let old = crowd.place(&mut told).await;
        tokio::time::advance(Duration::from_secs(1)).await;
        let young = crowd.place(&mut told).await;
        assert_eq!((crowd.open(), told), (3, None));
        let leaving = async {
            old.is_wanted().await;
            drop(old);
        };
        let (place, ()) = tokio::join!(crowd.place(&mut told), leaving);
        assert!(told.is_some());
        for stays in [&busy, &young] {
            timeout(Duration::from_secs(9), stays.is_wanted()).await.unwrap_err();
        }
        drop((busy, young, place));
        crowd.gone().await;
        assert!(crowd.members().is_empty());
    }

    #[tokio::test(start_paused = true)]
    async fn where_all_have_asked_the_next_waits() {
        let crowd = Crowd::of(1);
        let mut told = None;
        let place = crowd.place(&mut told).await;
        place.activity.asked();
        timeout(Duration::from_secs(9), crowd.place(&mut told)).await.unwrap_err();
        place.activity.answered_shortly();
        let leaving = async {
            place.is_wanted().await;
            drop(place);
        };
        tokio::join!(crowd.place(&mut told), leaving);
    }
}
