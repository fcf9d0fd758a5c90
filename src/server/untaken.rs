//! What is held of long answers that clients have not taken yet: for each connection, and for all together.
//!
//! A short answer counts for nothing and costs nothing here: the system takes it as a whole.

use std::{
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    task::{Context, Poll},
};

use axum::body::Body;
use bytes::Bytes;
use http::Response;
use http_body::{Body as _, Frame, SizeHint};
use tokio::sync::Notify;

use super::activity::Activity;
use crate::{inbound::HandedThrough, upstream::UpstreamBuffer};

/// The longest answer, and the longest part of one without a known length, that counts for nothing.
pub(super) const SHORT_BYTES: usize = HandedThrough::SHORT_BYTES;

/// What is held for all connections of a port, and how much it should be. Clones count together.
#[derive(Debug, Clone)]
pub(super) struct Answers(Arc<Held>);

#[derive(Debug)]
struct Held {
    bytes: AtomicUsize,
    limit_bytes: usize,
    more: Notify,
    /// The memory for responses of upstreams, which these were made of.
    buffer: Option<UpstreamBuffer>,
}

/// What is held for one connection; given back when this is dropped.
#[derive(Debug)]
pub(super) struct Untaken {
    answers: Answers,
    bytes: AtomicUsize,
}

impl Answers {
    /// Room for so much. Where `buffer` is charged with it, it is no more than half of that, so that clients who take
    /// nothing leave the other half to those who do.
    pub(super) fn of(limit_bytes: usize, buffer: Option<UpstreamBuffer>) -> Self {
        Self(Arc::new(Held { bytes: AtomicUsize::new(0), limit_bytes, more: Notify::new(), buffer }))
    }

    /// How much there is beyond the limit.
    pub(super) fn over_bytes(&self) -> usize {
        self.0.bytes.load(Ordering::Relaxed).saturating_sub(self.limit_bytes())
    }

    /// Waits until there is more than that.
    pub(super) async fn over(&self) {
        while self.over_bytes() == 0 {
            self.0.more.notified().await;
        }
    }

    /// How much is held, and how much should be at most.
    pub(super) fn measures(&self) -> (usize, usize) {
        (self.0.bytes.load(Ordering::Relaxed), self.limit_bytes())
    }

    fn limit_bytes(&self) -> usize {
        let Held { limit_bytes, buffer, .. } = &*self.0;
        buffer.as_ref().map_or(*limit_bytes, |buffer| (*limit_bytes).min(buffer.limit_bytes() / 2))
    }
}

impl Untaken {
    pub(super) fn of(answers: &Answers) -> Self {
        Self { answers: answers.clone(), bytes: AtomicUsize::new(0) }
    }

    pub(super) fn bytes(&self) -> usize {
        self.bytes.load(Ordering::Relaxed)
    }

    fn hold(&self, more: usize) {
        let Held { bytes, more: told, buffer, .. } = &*self.answers.0;
        if let Some(buffer) = buffer.as_ref().filter(|_| more > 0) {
            buffer.charge(more);
        }
        self.bytes.fetch_add(more, Ordering::Relaxed);
        if bytes.fetch_add(more, Ordering::Relaxed).saturating_add(more) > self.answers.limit_bytes() {
            told.notify_one();
        }
    }

    /// So much was taken. Heads of answers are taken too, and do not count.
    pub(super) fn release(&self, taken: usize) {
        let less = |held: usize| Some(held.saturating_sub(taken));
        // It always gives something.
        let held = self.bytes.fetch_update(Ordering::Relaxed, Ordering::Relaxed, less).unwrap_or(0);
        let freed = held.min(taken);
        self.answers.0.bytes.fetch_sub(freed, Ordering::Relaxed);
        if let Some(buffer) = self.answers.0.buffer.as_ref().filter(|_| freed > 0) {
            buffer.discharge(freed);
        }
    }
}

impl Drop for Untaken {
    fn drop(&mut self) {
        self.release(self.bytes());
    }
}

/// When a part of an answer is taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Way {
    /// Over HTTP/1.1 a part waits in the connection, which says how much of it was written.
    Whole,
    /// Over HTTP/2 the next part is asked for when the client has room for it, so parts are short.
    InParts,
}

/// The answer, with a body that counts for as long as it is held, where it is long.
pub(super) fn counted(answer: Response<Body>, activity: &Activity, way: Way) -> Response<Body> {
    let length = answer.body().size_hint().exact();
    if length.is_some_and(|length| length <= SHORT_BYTES as u64) {
        return answer;
    }
    let is_here = answer.extensions().get::<HandedThrough>().is_none();
    let ahead = length.filter(|_| is_here).map_or(0, |length| usize::try_from(length).unwrap_or(usize::MAX));
    activity.untaken().hold(ahead);
    answer.map(|body| Body::new(Counted { body, activity: activity.clone(), way, ahead, rest: Bytes::new() }))
}

/// A body that may be long.
struct Counted {
    body: Body,
    activity: Activity,
    way: Way,
    /// What counts of it already and has not come out of the body.
    ahead: usize,
    /// What has, and was not asked for.
    rest: Bytes,
}

impl Counted {
    /// Counts what came out.
    fn has_come(&mut self, length: usize) {
        let uncounted = length.saturating_sub(self.ahead);
        self.ahead -= length.min(self.ahead);
        if uncounted > SHORT_BYTES {
            self.activity.untaken().hold(uncounted);
        }
    }

    fn next_part(&mut self) -> Bytes {
        let part = self.rest.split_to(self.rest.len().min(SHORT_BYTES));
        self.activity.untaken().release(part.len());
        part
    }
}

impl http_body::Body for Counted {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        if !self.rest.is_empty() {
            return Poll::Ready(Some(Ok(Frame::data(self.next_part()))));
        }
        let polled = Pin::new(&mut self.body).poll_frame(context);
        let Poll::Ready(Some(Ok(frame))) = polled else { return polled };
        let data = match frame.into_data() {
            Ok(data) => data,
            Err(trailers) => return Poll::Ready(Some(Ok(trailers))),
        };
        self.has_come(data.len());
        let part = match self.way {
            Way::Whole => data,
            Way::InParts => {
                self.rest = data;
                self.next_part()
            }
        };
        Poll::Ready(Some(Ok(Frame::data(part))))
    }

    fn is_end_stream(&self) -> bool {
        self.rest.is_empty() && self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        let (hint, rest) = (self.body.size_hint(), self.rest.len() as u64);
        let mut whole = SizeHint::new();
        whole.set_lower(hint.lower() + rest);
        if let Some(upper) = hint.upper() {
            whole.set_upper(upper + rest);
        }
        whole
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        // Of an answer to `HEAD` nothing is asked for.
        self.activity.untaken().release(self.ahead + self.rest.len());
    }
}

#[cfg(test)]
mod tests {
    use http_body_util::{BodyExt, Empty};

    use super::*;

    const LONG: usize = 3 * SHORT_BYTES + 1;

    /// A body of no known length: its parts, from the last to the first.
    struct Events(Vec<Bytes>);

    impl http_body::Body for Events {
        type Data = Bytes;
        type Error = std::convert::Infallible;

        fn poll_frame(
            mut self: Pin<&mut Self>,
            _: &mut Context<'_>,
        ) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
            Poll::Ready(self.0.pop().map(|part| Ok(Frame::data(part))))
        }
    }

    fn long() -> Bytes {
        vec![b'a'; LONG].into()
    }

    fn held(answers: &Answers) -> usize {
        answers.measures().0
    }

    fn setup() -> (Answers, Activity) {
        let answers = Answers::of(LONG, None);
        (answers.clone(), Activity::new(&answers))
    }

    #[tokio::test]
    async fn a_long_answer_counts_until_it_is_written() {
        let (answers, activity) = setup();
        let mut body = counted(Response::new(Body::from(long())), &activity, Way::Whole).into_body();
        assert_eq!((held(&answers), body.size_hint().exact()), (LONG, Some(LONG as u64)));
        let part = body.frame().await.unwrap().unwrap().into_data().unwrap();
        assert!(part.len() == LONG && body.is_end_stream());
        drop(body);
        assert_eq!(held(&answers), LONG, "the connection has it");
        activity.untaken().release(LONG - 1);
        assert_eq!(held(&answers), 1);
        activity.untaken().release(99);
        assert_eq!(held(&answers), 0);
        activity.untaken().hold(5);
        drop(activity);
        assert_eq!(held(&answers), 0, "the connection is gone");
    }

    #[tokio::test]
    async fn over_http_2_it_comes_in_short_parts() {
        let (answers, activity) = setup();
        let mut body = counted(Response::new(Body::from(long())), &activity, Way::InParts).into_body();
        for left in [2 * SHORT_BYTES + 1, SHORT_BYTES + 1, 1, 0] {
            assert!(!body.is_end_stream());
            let part = body.frame().await.unwrap().unwrap().into_data().unwrap();
            assert!(part.len() <= SHORT_BYTES);
            assert_eq!((held(&answers), body.size_hint().exact()), (left, Some(left as u64)));
        }
        assert!(body.is_end_stream() && body.frame().await.is_none());
    }

    #[tokio::test]
    async fn what_is_not_asked_for_does_not_count_on() {
        for way in [Way::Whole, Way::InParts] {
            let (answers, activity) = setup();
            drop(counted(Response::new(Body::from(long())), &activity, way));
            assert_eq!(held(&answers), 0, "as for `HEAD`");
            let mut body = counted(Response::new(Body::from(long())), &activity, Way::InParts).into_body();
            body.frame().await.unwrap().unwrap();
            drop(body);
            assert_eq!(held(&answers), 0, "as when it is broken off");
        }
    }

    #[tokio::test]
    async fn short_answers_and_what_is_handed_through_do_not_count() {
        let (answers, activity) = setup();
        let short = Body::from(vec![b'a'; SHORT_BYTES]);
        let _short = counted(Response::new(short), &activity, Way::Whole);
        let mut far = Response::new(Body::from(long()));
        HandedThrough::mark(&mut far);
        let mut far = counted(far, &activity, Way::Whole).into_body();
        assert_eq!(held(&answers), 0);
        far.frame().await.unwrap().unwrap();
        assert_eq!(held(&answers), LONG, "but what has come of it");
    }

    #[tokio::test]
    async fn of_a_stream_long_events_count() {
        let (answers, activity) = setup();
        let events = Body::new(Events(vec![long(), Bytes::from_static(b"short")]));
        let mut body = counted(Response::new(events), &activity, Way::Whole).into_body();
        body.frame().await.unwrap().unwrap();
        assert_eq!(held(&answers), 0);
        body.frame().await.unwrap().unwrap();
        assert_eq!(held(&answers), LONG);
        let empty = counted(Response::new(Body::new(Empty::new())), &activity, Way::Whole).into_body();
        assert!(empty.is_end_stream());
    }
}
