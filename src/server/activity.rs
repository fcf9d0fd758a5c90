//! What goes on over one connection, to end one on which nothing does.
//!
//! HTTP/1.1 has one request at a time, and the HTTP library watches its head. Over HTTP/2 a client may open a connection
//! and leave it, or ask for much and take none of it while the connection itself is well. Whoever takes none of a long
//! answer makes room when others need it.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    task::{Context, Poll},
    time::Duration,
};

use axum::body::Body;
use hyper::body::Incoming;
use tokio::time::{Instant, sleep_until};

use super::untaken::{Answers, Untaken};
use crate::wire::{MapPoll, PolledFrame};

/// What goes on over one connection. Clones are the same.
#[derive(Debug, Clone)]
pub(super) struct Activity(Arc<Connection>);

#[derive(Debug)]
struct Connection {
    going: Mutex<Going>,
    untaken: Untaken,
}

#[derive(Debug)]
struct Going {
    /// When bytes came or went.
    moved: Instant,
    /// Requests that were not answered to the end.
    open: usize,
    /// Those of them whose bodies are waited for.
    unfinished: usize,
    /// Since when there is none, or none that has come as a whole.
    unasked: Instant,
    next: u64,
    /// Since when parts of answers wait to be taken, by the number of their request.
    waiting: HashMap<u64, Instant>,
    /// Since when what is written is not taken.
    stalled: Option<Instant>,
    /// Others need the room.
    is_unwanted: bool,
}

/// What is held of a client's long answers.
#[derive(Debug, Clone, Copy)]
pub(super) struct Left {
    /// Since when it takes nothing, where it does not; of several answers, the one for the longest.
    pub(super) since: Option<Instant>,
    /// How much is held of all of them.
    pub(super) bytes: usize,
    /// How many requests it has open.
    pub(super) requests: usize,
}

impl Activity {
    pub(super) fn new(answers: &Answers) -> Self {
        let now = Instant::now();
        let going = Going {
            moved: now,
            open: 0,
            unfinished: 0,
            unasked: now,
            next: 0,
            waiting: HashMap::new(),
            stalled: None,
            is_unwanted: false,
        };
        Self(Arc::new(Connection { going: Mutex::new(going), untaken: Untaken::of(answers) }))
    }

    /// What is held of its long answers.
    pub(super) fn untaken(&self) -> &Untaken {
        &self.0.untaken
    }

    /// What is written is not taken from now on.
    pub(super) fn stalls(&self) {
        self.going().stalled = Some(Instant::now());
    }

    /// And now it was.
    pub(super) fn goes_on(&self) {
        self.going().stalled = None;
    }

    /// What is held of its client's long answers, where there are any.
    pub(super) fn left(&self) -> Option<Left> {
        let bytes = self.0.untaken.bytes();
        if bytes == 0 {
            return None;
        }
        let going = self.going();
        let since = going.waiting.values().copied().chain(going.stalled).min();
        Some(Left { since, bytes, requests: going.open })
    }

    /// It is to end, whatever is asked.
    pub(super) fn is_not_wanted(&self) {
        self.going().is_unwanted = true;
    }

    pub(super) fn is_wanted(&self) -> bool {
        !self.going().is_unwanted
    }

    /// Bytes came or went.
    pub(super) fn moved(&self) {
        self.going().moved = Instant::now();
    }

    /// A request begins; it ends when this is dropped.
    pub(super) fn request(&self) -> Request {
        let mut going = self.going();
        going.open += 1;
        going.next += 1;
        Request { activity: self.clone(), number: going.next }
    }

    /// Over HTTP/1.1, the one request that there may be has come.
    pub(super) fn asked(&self) {
        self.going().open = 1;
    }

    /// And its answer is short enough to be on its way at once.
    pub(super) fn answered_shortly(&self) {
        let mut going = self.going();
        going.open = 0;
        going.unasked = Instant::now();
    }

    /// The next part of a request's body is waited for, or no more.
    fn waits_for_more(&self, waits: bool) {
        let mut going = self.going();
        if waits {
            going.unfinished += 1;
            going.unasked = Instant::now();
        } else {
            going.unfinished -= 1;
        }
    }

    /// Since when nothing is asked; nothing while something is, and all of it has come.
    pub(super) fn unasked_since(&self) -> Option<Instant> {
        let going = self.going();
        (going.open <= going.unfinished).then_some(going.unasked)
    }

    /// Waits until nothing has gone on for `idle`, or a part of an answer was not taken for `untaken`.
    pub(super) async fn ended(&self, idle: Duration, untaken: Duration) {
        loop {
            let now = Instant::now();
            let (unasked, untaken_at) = {
                let going = self.going();
                let unasked = if going.open == 0 { going.moved + idle } else { now + idle };
                (unasked, going.waiting.values().min().map(|since| *since + untaken))
            };
            // What begins to wait meanwhile is not over before this.
            let next = unasked.min(untaken_at.unwrap_or(now + untaken));
            if next <= now {
                return;
            }
            sleep_until(next).await;
        }
    }

    fn going(&self) -> MutexGuard<'_, Going> {
        self.0.going.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// One request and its answer.
#[derive(Debug)]
pub(super) struct Request {
    activity: Activity,
    number: u64,
}

impl Request {
    /// Its answer, which ends the request when it has been taken.
    pub(super) fn answered(self, body: Body) -> Body {
        self.waits();
        Body::new(MapPoll::new(body, move |polled: PolledFrame<axum::Error>, _: &mut Context<'_>| {
            match &polled {
                Poll::Ready(Some(_)) => self.waits(),
                // The client has room for the next part, which is not there yet.
                Poll::Ready(None) | Poll::Pending => self.is_taken(),
            }
            polled
        }))
    }

    fn waits(&self) {
        self.activity.going().waiting.insert(self.number, Instant::now());
    }

    fn is_taken(&self) {
        self.activity.going().waiting.remove(&self.number);
    }
}

impl Drop for Request {
    fn drop(&mut self) {
        let mut going = self.activity.going();
        going.open -= 1;
        going.moved = Instant::now();
        going.unasked = going.moved;
        going.waiting.remove(&self.number);
    }
}

/// The body of a request. While its next part is waited for the request counts as not made: the beginning of a body and
/// then nothing would hold a place as long as a body may take.
struct Asking {
    activity: Activity,
    waits: bool,
}

impl Asking {
    /// Reports a change only: a body that has come with its head costs nothing here.
    fn set_waits(&mut self, waits: bool) {
        if self.waits != waits {
            self.waits = waits;
            self.activity.waits_for_more(waits);
        }
    }
}

/// The body of a request, whose client is expected to send the next part while it is pending.
pub(super) fn asking(body: Incoming, activity: Activity) -> Body {
    let mut asking = Asking { activity, waits: false };
    Body::new(MapPoll::new(body, move |polled: PolledFrame<hyper::Error>, _: &mut Context<'_>| {
        asking.set_waits(polled.is_pending());
        polled
    }))
}

/// What is not read to its end is not waited for.
impl Drop for Asking {
    fn drop(&mut self) {
        self.set_waits(false);
    }
}

#[cfg(test)]
mod tests {
    use std::pin::Pin;

    use bytes::Bytes;
    use http_body::Frame;
    use http_body_util::BodyExt;

    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    /// A body of which nothing comes.
    struct Never;

    impl http_body::Body for Never {
        type Data = Bytes;
        type Error = std::convert::Infallible;

        fn poll_frame(
            self: Pin<&mut Self>,
            _: &mut Context<'_>,
        ) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
            Poll::Pending
        }
    }

    async fn ends_after(activity: &Activity) -> Duration {
        let begun = Instant::now();
        activity.ended(60 * SECOND, 30 * SECOND).await;
        begun.elapsed()
    }

    #[tokio::test(start_paused = true)]
    async fn a_connection_ends_when_nothing_is_asked() {
        assert_eq!(ends_after(&Activity::new(&Answers::of(1 << 20, None))).await, 60 * SECOND);
    }

    #[tokio::test(start_paused = true)]
    async fn one_with_a_request_stays_and_one_whose_answer_is_not_taken_does_not() {
        let activity = Activity::new(&Answers::of(1 << 20, None));
        let request = activity.request();
        let waits = tokio::time::timeout(1000 * SECOND, ends_after(&activity)).await;
        waits.unwrap_err();
        let body = request.answered(Body::from("answer"));
        assert_eq!(ends_after(&activity).await, 30 * SECOND);
        drop(body);
        assert_eq!(ends_after(&activity).await, 60 * SECOND);
    }

    #[tokio::test(start_paused = true)]
    async fn who_waits_for_us_is_not_ended() {
        let activity = Activity::new(&Answers::of(1 << 20, None));
        let mut body = activity.request().answered(Body::new(Never));
        tokio::time::timeout(SECOND, body.frame()).await.unwrap_err();
        tokio::time::timeout(1000 * SECOND, ends_after(&activity)).await.unwrap_err();
    }
}
