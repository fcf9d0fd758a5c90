//! Activity of one connection: its open requests, and the responses that its client has not read yet.
//!
//! Detects clients that occupy a connection without using it:
//!
//! - A client opens a connection and leaves it idle, or sends the headers of a request slowly (slowloris).
//! - A client sends requests over HTTP/2 and does not read the responses, although the connection is alive.
//! - A client does not read a long response. It is disconnected when other clients need the memory.

use std::collections::HashMap;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use axum::body::Body;
use bytes::Bytes;
use http::Response;
use http_body::{Body as _, Frame, SizeHint};
use hyper::body::Incoming;
use parking_lot::{Mutex, MutexGuard};
use tokio::sync::Notify;
use tokio::time::{Instant, sleep_until};

use super::connection_limiter::ResponseBuffer;
use crate::inbound::StreamedPassthrough;
use crate::wire::{MapPoll, PolledFrame};

/// Maximum length of a response, or of a frame of a response of unknown length, that is not counted in the
/// response buffer: the socket buffer accepts it whole.
pub(super) const SHORT_BYTES: usize = StreamedPassthrough::SHORT_BYTES;

/// Maximum size of the parts that the HTTP library gets of a longer response. Written bytes are released from
/// the response buffer in steps of this size.
const PART_BYTES: usize = 16 << 10;

/// Activity of one connection. Clones share it.
#[derive(Debug, Clone)]
pub(super) struct Activity {
    state: Arc<Mutex<State>>,
    buffer: Arc<ResponseBuffer>,
    /// Notified when the connection is to be closed.
    pub(super) close: Arc<Notify>,
}

#[derive(Debug)]
pub(super) struct State {
    /// Number of requests so far.
    requests: u64,
    /// Number of open requests ([`ActiveRequest`]).
    pub(super) open: usize,
    /// Number of open requests that wait for the next part of their body.
    incomplete: usize,
    /// Time at which the connection became idle: no request is open, or all open ones wait for their bodies.
    /// The keep-alive timeout starts at this time.
    idle_since: Instant,
    /// Time at which the headers of the next HTTP/1.1 request began; `None` if none are being read.
    headers_since: Option<Instant>,
    /// Responses with a part that waits to be written: number of the request, and start of the wait.
    pub(super) waiting: HashMap<u64, Instant>,
    /// Bytes of long responses that are not written yet.
    pub(super) buffered_bytes: usize,
    /// Whether the connection is to be closed, even with open requests.
    pub(super) must_close: bool,
}

/// Timeout that a connection exceeded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ConnectionTimeout {
    /// The time without a request, or with a response that the client does not read.
    Idle,
    /// The time with incomplete headers of an HTTP/1.1 request.
    Headers,
}

impl Activity {
    pub(super) fn new(buffer: &Arc<ResponseBuffer>) -> Self {
        let state = State {
            requests: 0,
            open: 0,
            incomplete: 0,
            idle_since: Instant::now(),
            headers_since: None,
            waiting: HashMap::new(),
            buffered_bytes: 0,
            must_close: false,
        };
        Self { state: Arc::new(Mutex::new(state)), buffer: Arc::clone(buffer), close: Arc::default() }
    }

    /// Begins a request. It ends when the returned value and the response are dropped.
    pub(super) fn begin_request(&self) -> ActiveRequest {
        let mut state = self.state();
        state.open += 1;
        state.requests += 1;
        ActiveRequest { activity: self.clone(), number: state.requests }
    }

    /// Whether the connection has had no request yet.
    pub(super) fn is_unused(&self) -> bool {
        self.state().requests == 0
    }

    /// Time at which the connection became idle. `None` while a request with a complete body is open.
    pub(super) fn idle_since(&self) -> Option<Instant> {
        let state = self.state();
        (state.open <= state.incomplete).then_some(state.idle_since)
    }

    /// Records that the headers of an HTTP/1.1 request have begun, or are complete.
    pub(super) fn set_reading_headers(&self, is_reading: bool) {
        self.state().headers_since = is_reading.then(Instant::now);
    }

    /// Waits until a timeout is exceeded: the connection has had no request for `idle_timeout`, the headers
    /// of an HTTP/1.1 request are incomplete after `header_timeout`, or a part of a response could not be
    /// written for `write_timeout` (`None`: no such timeout).
    pub(super) async fn timed_out(
        &self,
        header_timeout: Duration,
        idle_timeout: Duration,
        write_timeout: Option<Duration>,
    ) -> ConnectionTimeout {
        let poll_interval = write_timeout.map_or(header_timeout, |timeout| timeout.min(header_timeout));
        loop {
            let now = Instant::now();
            let (deadline, timed_out) = {
                let state = self.state();
                let idle_since = if state.open == 0 { state.idle_since } else { now };
                let stalled_since = state.waiting.values().min().zip(write_timeout);
                let stalled_at = stalled_since.map(|(since, write_timeout)| *since + write_timeout);
                let (idle_at, timed_out) = match state.headers_since {
                    // Headers may arrive while the previous request is open; they are not read before that
                    // request ends.
                    Some(since) => (since.max(idle_since) + header_timeout, ConnectionTimeout::Headers),
                    None => (idle_since + idle_timeout, ConnectionTimeout::Idle),
                };
                match stalled_at.filter(|time| *time < idle_at) {
                    Some(stalled_at) => (stalled_at, ConnectionTimeout::Idle),
                    None => (idle_at, timed_out),
                }
            };
            // Headers or parts that begin to wait during the sleep do not time out before `next_check`.
            let next_check = deadline.min(now + poll_interval);
            if next_check <= now {
                return timed_out;
            }
            sleep_until(next_check).await;
        }
    }

    /// Wraps the body of a request. While its next part is awaited, the connection counts as idle for the
    /// limiter. Otherwise a client that sends only the beginning of a body would occupy a connection slot
    /// until the timeout of the body.
    pub(super) fn watch_request_body(&self, body: Incoming) -> Body {
        if body.is_end_stream() {
            return Body::empty();
        }
        let mut waiting = WaitingForBody { activity: self.clone(), is_waiting: false };
        Body::new(MapPoll::new(body, move |polled: PolledFrame<hyper::Error>, _: &mut Context<'_>| {
            waiting.set(polled.is_pending());
            polled
        }))
    }

    fn charge(&self, bytes: usize) {
        self.state().buffered_bytes += bytes;
        self.buffer.charge(bytes);
    }

    fn release(&self, bytes: usize) {
        self.state().buffered_bytes -= bytes;
        self.buffer.release(bytes);
    }

    pub(super) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock()
    }
}

struct WaitingForBody {
    activity: Activity,
    is_waiting: bool,
}

impl WaitingForBody {
    /// Locks the state only for a change: a body that arrives with its headers needs no lock.
    fn set(&mut self, is_waiting: bool) {
        if self.is_waiting == is_waiting {
            return;
        }
        self.is_waiting = is_waiting;
        let mut state = self.activity.state();
        if is_waiting {
            state.incomplete += 1;
            state.idle_since = Instant::now();
        } else {
            state.incomplete -= 1;
        }
    }
}

/// When the body is dropped before its end, no one waits for the rest.
impl Drop for WaitingForBody {
    fn drop(&mut self) {
        self.set(false);
    }
}

/// One open request, until its response is written, or handed to the HTTP library if it is short (HTTP/1.1).
#[derive(Debug)]
pub(super) struct ActiveRequest {
    activity: Activity,
    number: u64,
}

impl ActiveRequest {
    /// Wraps the response. A long body, unless it is streamed, is counted in the response buffer until it is
    /// written.
    pub(super) fn watch_response_body(self, response: Response<Body>) -> Response<Body> {
        let is_in_memory = response.extensions().get::<StreamedPassthrough>().is_none();
        let length =
            response.body().size_hint().exact().filter(|length| is_in_memory && *length > SHORT_BYTES as u64);
        let counted_bytes = length.map_or(0, |length| usize::try_from(length).unwrap_or(usize::MAX));
        self.activity.charge(counted_bytes);
        self.set_waiting(true);
        response.map(|body| {
            Body::new(TrackedBody { body, request: Arc::new(self), counted_bytes, rest: Bytes::new() })
        })
    }

    /// Records whether a part of the response waits to be written.
    fn set_waiting(&self, is_waiting: bool) {
        let waiting = &mut self.activity.state().waiting;
        match is_waiting {
            true => waiting.insert(self.number, Instant::now()),
            false => waiting.remove(&self.number),
        };
    }
}

impl Drop for ActiveRequest {
    fn drop(&mut self) {
        let mut state = self.activity.state();
        state.open -= 1;
        state.idle_since = Instant::now();
        state.waiting.remove(&self.number);
    }
}

/// The body of a response, in parts. The HTTP library polls the next part only while its write buffer has
/// room.
struct TrackedBody {
    body: Body,
    request: Arc<ActiveRequest>,
    /// Bytes that are counted in the response buffer, and that the HTTP library has not polled yet.
    counted_bytes: usize,
    /// The rest of the frame that is being split into parts.
    rest: Bytes,
}

impl TrackedBody {
    fn next_part(&mut self) -> Bytes {
        let bytes = self.rest.split_to(self.rest.len().min(PART_BYTES));
        let counted_bytes = self.counted_bytes.min(bytes.len());
        if counted_bytes == 0 {
            return bytes;
        }
        self.counted_bytes -= counted_bytes;
        Bytes::from_owner(BufferedPart { bytes, counted_bytes, request: Arc::clone(&self.request) })
    }

    fn poll_part(&mut self, context: &mut Context<'_>) -> PolledFrame<axum::Error> {
        if self.rest.is_empty() {
            let polled = Pin::new(&mut self.body).poll_frame(context);
            let Poll::Ready(Some(Ok(frame))) = polled else { return polled };
            self.rest = match frame.into_data() {
                Ok(data) => data,
                Err(trailers) => return Poll::Ready(Some(Ok(trailers))),
            };
            let uncounted = self.rest.len().saturating_sub(self.counted_bytes);
            if uncounted > SHORT_BYTES {
                self.counted_bytes += uncounted;
                self.request.activity.charge(uncounted);
            }
        }
        Poll::Ready(Some(Ok(Frame::data(self.next_part()))))
    }
}

impl http_body::Body for TrackedBody {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> PolledFrame<axum::Error> {
        let polled = self.poll_part(context);
        // If the body is pending or at its end, the response has no bytes that the client could read.
        self.request.set_waiting(matches!(polled, Poll::Ready(Some(_))));
        polled
    }

    fn is_end_stream(&self) -> bool {
        self.rest.is_empty() && self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        let exact = self.body.size_hint().exact();
        exact.map_or_else(SizeHint::default, |length| SizeHint::with_exact(length + self.rest.len() as u64))
    }
}

impl Drop for TrackedBody {
    fn drop(&mut self) {
        // The HTTP library does not poll the body of a response to `HEAD`.
        self.request.activity.release(self.counted_bytes);
    }
}

/// A part of a long response. It is counted, and its request stays open, until the HTTP library has written
/// the part.
#[derive(derive_more::AsRef)]
struct BufferedPart {
    #[as_ref([u8])]
    bytes: Bytes,
    counted_bytes: usize,
    request: Arc<ActiveRequest>,
}

impl Drop for BufferedPart {
    fn drop(&mut self) {
        self.request.activity.release(self.counted_bytes);
    }
}

#[cfg(test)]
mod tests {
    use http_body_util::{BodyExt, Empty};

    use super::*;

    const SECOND: Duration = Duration::from_secs(1);
    const LONG_BYTES: usize = 5 * PART_BYTES + 1;

    /// A body of unknown length: its parts, from the last to the first. Without any, it never ends.
    struct Events(Option<Vec<Bytes>>);

    impl http_body::Body for Events {
        type Data = Bytes;
        type Error = std::convert::Infallible;

        fn poll_frame(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> PolledFrame<Self::Error> {
            match &mut self.0 {
                Some(parts) => Poll::Ready(parts.pop().map(|part| Ok(Frame::data(part)))),
                None => Poll::Pending,
            }
        }
    }

    fn long_body() -> Bytes {
        vec![b'a'; LONG_BYTES].into()
    }

    fn setup() -> (Arc<ResponseBuffer>, Activity) {
        let buffer = ResponseBuffer::new(LONG_BYTES, None);
        (buffer.clone(), Activity::new(&buffer))
    }

    fn respond(activity: &Activity, body: Body) -> Body {
        activity.begin_request().watch_response_body(Response::new(body)).into_body()
    }

    async fn ends_after(activity: &Activity) -> Duration {
        let started = Instant::now();
        activity.timed_out(10 * SECOND, 60 * SECOND, Some(30 * SECOND)).await;
        started.elapsed()
    }

    #[tokio::test(start_paused = true)]
    async fn an_idle_connection_is_closed() {
        assert_eq!(ends_after(&setup().1).await, 60 * SECOND);
    }

    #[tokio::test(start_paused = true)]
    async fn headers_that_have_begun_have_a_timeout_of_their_own() {
        let (_, activity) = setup();
        let wait_for_timeout = async || {
            let started = Instant::now();
            (activity.timed_out(10 * SECOND, 60 * SECOND, None).await, started.elapsed())
        };
        assert_eq!(wait_for_timeout().await, (ConnectionTimeout::Idle, 60 * SECOND));
        activity.set_reading_headers(true);
        assert_eq!(wait_for_timeout().await, (ConnectionTimeout::Headers, 10 * SECOND));
        activity.set_reading_headers(false);
        let request = activity.begin_request();
        tokio::time::timeout(1000 * SECOND, wait_for_timeout()).await.unwrap_err();
        // The headers of the next request, whose time begins when they are read.
        activity.set_reading_headers(true);
        tokio::time::timeout(1000 * SECOND, wait_for_timeout()).await.unwrap_err();
        drop(request);
        assert_eq!(wait_for_timeout().await, (ConnectionTimeout::Headers, 10 * SECOND));
        activity.set_reading_headers(false);
        drop(activity.begin_request());
        let beginning = async {
            tokio::time::sleep(55 * SECOND).await;
            activity.set_reading_headers(true);
        };
        assert_eq!(tokio::join!(wait_for_timeout(), beginning).0, (ConnectionTimeout::Headers, 65 * SECOND));
    }

    #[tokio::test(start_paused = true)]
    async fn a_connection_with_a_request_stays_open_unless_its_response_is_not_read() {
        let (_, activity) = setup();
        let request = activity.begin_request();
        let result = tokio::time::timeout(1000 * SECOND, ends_after(&activity)).await;
        result.unwrap_err();
        let response = request.watch_response_body(Response::new(Body::from("answer")));
        assert_eq!(ends_after(&activity).await, 30 * SECOND);
        let over_http1 = activity.timed_out(10 * SECOND, 60 * SECOND, None);
        tokio::time::timeout(1000 * SECOND, over_http1).await.expect_err("its stream has the write timeout");
        drop(response);
        assert_eq!(ends_after(&activity).await, 60 * SECOND);
    }

    #[tokio::test(start_paused = true)]
    async fn a_client_that_awaits_a_response_is_not_closed() {
        let (_, activity) = setup();
        let mut body = respond(&activity, Body::new(Events(None)));
        tokio::time::timeout(SECOND, body.frame()).await.unwrap_err();
        tokio::time::timeout(1000 * SECOND, ends_after(&activity)).await.unwrap_err();
    }

    #[tokio::test]
    async fn a_long_answer_counts_until_it_is_written() {
        let (buffer, activity) = setup();
        let mut body = respond(&activity, Body::from(long_body()));
        assert_eq!(
            (buffer.buffered_bytes(), body.size_hint().exact()),
            (LONG_BYTES, Some(LONG_BYTES as u64))
        );
        let mut parts = Vec::new();
        while !body.is_end_stream() {
            let part = body.frame().await.unwrap().unwrap().into_data().unwrap();
            assert!(part.len() <= PART_BYTES);
            parts.push(part);
            let remaining = LONG_BYTES - parts.iter().map(Bytes::len).sum::<usize>();
            assert_eq!(body.size_hint().exact(), Some(remaining as u64));
        }
        assert_eq!(parts.len(), 6);
        assert!(body.frame().await.is_none());
        drop(body);
        assert_eq!(buffer.buffered_bytes(), LONG_BYTES, "the connection has it");
        assert_eq!(activity.idle_since(), None, "the request is not over");
        parts.remove(0);
        assert_eq!(buffer.buffered_bytes(), LONG_BYTES - PART_BYTES);
        drop(parts);
        assert!(buffer.buffered_bytes() == 0 && activity.idle_since().is_some());
    }

    #[tokio::test]
    async fn bytes_of_a_dropped_response_are_released() {
        let (buffer, activity) = setup();
        drop(respond(&activity, Body::from(long_body())));
        assert_eq!(buffer.buffered_bytes(), 0, "as for `HEAD`");
        let mut body = respond(&activity, Body::from(long_body()));
        body.frame().await.unwrap().unwrap();
        drop(body);
        assert_eq!(buffer.buffered_bytes(), 0, "as when it is broken off");
    }

    #[tokio::test]
    async fn short_and_streamed_responses_are_not_counted() {
        let (buffer, activity) = setup();
        let _short = respond(&activity, Body::from(vec![b'a'; SHORT_BYTES]));
        let mut streamed = Response::new(Body::from(long_body()));
        StreamedPassthrough::mark(&mut streamed);
        let mut streamed = activity.begin_request().watch_response_body(streamed).into_body();
        assert_eq!(buffer.buffered_bytes(), 0);
        let _part = streamed.frame().await.unwrap().unwrap();
        assert_eq!(buffer.buffered_bytes(), LONG_BYTES, "but a part that has arrived is counted");
    }

    #[tokio::test]
    async fn long_events_of_a_stream_are_counted() {
        let (buffer, activity) = setup();
        let events = Body::new(Events(Some(vec![long_body(), Bytes::from_static(b"short")])));
        let mut body = respond(&activity, events);
        body.frame().await.unwrap().unwrap();
        assert_eq!(buffer.buffered_bytes(), 0);
        let _part = body.frame().await.unwrap().unwrap();
        assert_eq!(buffer.buffered_bytes(), LONG_BYTES);
        assert!(respond(&activity, Body::new(Empty::new())).is_end_stream());
    }
}
