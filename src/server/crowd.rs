//! Who is connected: so many at once and no more. When all places are taken, those make room who have asked nothing for
//! the longest; so a crowd that only holds connections open keeps nobody out. And when more is held of long answers than
//! should be, those make room who have taken nothing for the longest; so a crowd that asks for much and takes none of it
//! leaves memory for the others.

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
    time::{Instant, sleep, timeout},
};
use tracing::warn;

use super::{
    activity::{Activity, Left},
    untaken::Answers,
};

/// How long to wait for a place before it is looked again who might make room.
const PATIENCE: Duration = Duration::from_millis(100);

/// Every which part of a crowd makes room at once: it is gone through as a whole to find them.
const PART: usize = 64;

/// How often it is looked who takes nothing, while more is held of answers than should be.
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// How often it is told that the places are taken, or that answers are not.
const TOLD_EVERY: Duration = Duration::from_secs(60);

/// The places of one port. Clones are the same.
#[derive(Debug, Clone)]
pub(super) struct Crowd {
    limit: u32,
    places: Arc<Semaphore>,
    answers: Answers,
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
    /// Places for so many, for whom so much is held of long answers.
    pub(super) fn of(limit: usize, answers: Answers) -> Self {
        let limit = u32::try_from(limit.clamp(1, Semaphore::MAX_PERMITS)).unwrap_or(u32::MAX);
        Self {
            limit,
            places: Arc::new(Semaphore::new(limit as usize)),
            answers,
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
        let (activity, leave) = (Activity::new(&self.answers), Arc::new(Notify::new()));
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

    /// Has those leave who take nothing of long answers while too much is held of them, after `patience` at the earliest.
    pub(super) async fn keep_room(&self, patience: Duration) {
        let mut told: Option<Instant> = None;
        loop {
            self.answers.over().await;
            let connections = self.make_room_for_answers(patience);
            if connections > 0 && told.is_none_or(|last| last.elapsed() >= TOLD_EVERY) {
                told = Some(Instant::now());
                let (held_bytes, limit_bytes) = self.answers.measures();
                warn!(
                    connections,
                    held_bytes,
                    limit_bytes,
                    "long answers are not taken: who took nothing for longest is cut off"
                );
            }
            sleep(LOOK_EVERY).await;
        }
    }

    /// Has as many leave as is needed, and tells how many. One answer alone is let be, however long it is.
    fn make_room_for_answers(&self, patience: Duration) -> usize {
        let members = self.members();
        let held: Vec<(Left, &Member)> =
            members.values().filter_map(|member| Some((member.activity.left()?, member))).collect();
        if held.iter().map(|(left, _)| left.requests).sum::<usize>() < 2 {
            return 0;
        }
        let mut stalled: Vec<(Instant, usize, &Member)> = held
            .into_iter()
            .filter_map(|(left, member)| Some((left.since?, left.bytes, member)))
            .filter(|(since, ..)| since.elapsed() >= patience)
            .collect();
        stalled.sort_unstable_by_key(|(since, ..)| *since);
        let (mut over_bytes, mut gone) = (self.answers.over_bytes(), 0);
        for (_, bytes, member) in stalled {
            if over_bytes == 0 {
                break;
            }
            member.activity.is_not_wanted();
            member.leave.notify_one();
            over_bytes = over_bytes.saturating_sub(bytes);
            gone += 1;
        }
        gone
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
    /// Waits until it is to be left, and tells why.
    pub(super) async fn is_wanted(&self) -> &'static str {
        loop {
            self.leave.notified().await;
            if !self.activity.is_wanted() {
                return "takes nothing of a long answer";
            }
            // A request may have come meanwhile.
            if self.activity.unasked_since().is_some() {
                return "asks nothing";
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
    use super::{super::untaken, *};

    #[tokio::test(start_paused = true)]
    async fn who_has_asked_nothing_for_the_longest_makes_room() {
        let crowd = Crowd::of(3, Answers::of(1, None));
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
        let crowd = Crowd::of(1, Answers::of(1, None));
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

    /// The body of an answer that this client leaves.
    fn leaving(place: &Place, bytes: usize) -> axum::body::Body {
        place.activity.asked();
        place.activity.stalls();
        let answer = http::Response::new(axum::body::Body::from(vec![b'a'; bytes]));
        untaken::counted(answer, &place.activity, untaken::Way::Whole).into_body()
    }

    #[tokio::test(start_paused = true)]
    async fn who_takes_nothing_of_long_answers_for_the_longest_makes_room() {
        const LONG: usize = 1 << 20;
        let crowd = Crowd::of(9, Answers::of(2 * LONG, None));
        let mut told = None;
        let places =
            [crowd.place(&mut told).await, crowd.place(&mut told).await, crowd.place(&mut told).await];
        let [old, reader, young] = &places;
        let _room = tokio::spawn({
            let crowd = crowd.clone();
            async move { crowd.keep_room(Duration::from_secs(1)).await }
        });
        let untouched = leaving(old, LONG);
        let _read = leaving(reader, LONG);
        timeout(Duration::from_secs(9), old.is_wanted()).await.expect_err("there is room for both");
        reader.activity.goes_on();
        let _late = leaving(young, LONG);
        let begun = Instant::now();
        assert_eq!(
            timeout(Duration::from_secs(9), old.is_wanted()).await,
            Ok("takes nothing of a long answer")
        );
        assert!(begun.elapsed() < Duration::from_millis(200), "it has taken nothing for long enough");
        drop(untouched);
        for stays in [reader, young] {
            timeout(Duration::from_secs(9), stays.is_wanted()).await.unwrap_err();
        }
        let _more = leaving(young, LONG);
        assert!(
            timeout(Duration::from_millis(900), young.is_wanted()).await.is_err(),
            "it has not been given time"
        );
        timeout(Duration::from_secs(1), young.is_wanted()).await.unwrap();
        timeout(Duration::from_secs(9), reader.is_wanted()).await.expect_err("it reads");
    }

    #[tokio::test(start_paused = true)]
    async fn one_long_answer_is_let_be_and_many_over_one_connection_are_not() {
        let (crowd, mut told) = (Crowd::of(9, Answers::of(1, None)), None);
        let place = crowd.place(&mut told).await;
        let _room = tokio::spawn({
            let crowd = crowd.clone();
            async move { crowd.keep_room(Duration::from_secs(1)).await }
        });
        let _first = leaving(&place, 1 << 20);
        timeout(Duration::from_secs(9), place.is_wanted()).await.unwrap_err();
        let _requests = [place.activity.request(), place.activity.request()];
        timeout(Duration::from_secs(9), place.is_wanted()).await.unwrap();
    }
}
