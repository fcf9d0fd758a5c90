//! Context of a call. It is passed through every module, so that all log lines of the call have its request
//! id.

use std::{
    sync::{
        Arc, OnceLock,
        atomic::{AtomicU32, Ordering},
    },
    time::Duration,
};

use parking_lot::Mutex;
use tokio::time::Instant;
use tracing::field::{DisplayValue, display};

use super::{RequestId, Span};

/// Context of a call: its request id and span, and the state of its upstream requests. Clones share it.
#[derive(Debug, Clone, Default)]
pub struct CallContext(Arc<CallState>);

#[derive(Debug, Default)]
struct CallState {
    /// The request id; `None` for health checks and other requests without a client.
    request_id: Option<RequestId>,
    span: Span,
    attempts: AtomicU32,
    /// Number of requests that may have reached an upstream.
    sent_requests: AtomicU32,
    upstream_time: Mutex<UpstreamTime>,
    /// The call whose upstream request this call waits for (request coalescing), if it sends none itself.
    joined_call: OnceLock<CallContext>,
}

/// Total time in which at least one attempt was in flight. Hedged attempts overlap, so their durations are
/// not added up.
#[derive(Debug, Default)]
struct UpstreamTime {
    /// Number of attempts in flight.
    in_flight: u32,
    /// Start of the current period with attempts in flight; `None` if no attempt is in flight.
    in_flight_since: Option<Instant>,
    /// Total duration of the earlier periods.
    completed: Duration,
}

impl UpstreamTime {
    fn start(&mut self) {
        self.in_flight += 1;
        self.in_flight_since.get_or_insert_with(Instant::now);
    }

    fn end(&mut self) {
        self.in_flight = self.in_flight.saturating_sub(1);
        if self.in_flight == 0 {
            self.completed = self.total();
            self.in_flight_since = None;
        }
    }

    fn total(&self) -> Duration {
        self.completed + self.in_flight_since.map_or(Duration::ZERO, |start| start.elapsed())
    }
}

impl CallContext {
    /// Creates the context of a call.
    pub fn new(request_id: RequestId, span: Span) -> Self {
        Self(Arc::new(CallState { request_id: Some(request_id), span, ..CallState::default() }))
    }

    /// Value of the field `request_id` in a log line; `None` for requests without a client.
    pub fn request_id(&self) -> Option<DisplayValue<&RequestId>> {
        self.0.request_id.as_ref().map(display)
    }

    /// The span of the call, if traces are on.
    pub fn span(&self) -> Option<&Span> {
        Some(&self.0.span).filter(|span| span.is_on())
    }

    /// Counts an attempt that starts. Returns the number of earlier attempts.
    pub fn attempt_started(&self) -> u32 {
        self.0.upstream_time.lock().start();
        self.0.attempts.fetch_add(1, Ordering::Relaxed)
    }

    /// Records the end of an attempt.
    pub fn attempt_ended(&self) {
        self.0.upstream_time.lock().end();
    }

    /// Records the end of an attempt that was rejected before it reached the upstream, and no longer counts
    /// it.
    pub fn attempt_rejected(&self) {
        self.attempt_ended();
        self.0.attempts.fetch_sub(1, Ordering::Relaxed);
    }

    /// Number of attempts.
    pub fn attempts(&self) -> u32 {
        self.0.attempts.load(Ordering::Relaxed)
    }

    /// Records that this call waits for the upstream request of the call `other`.
    pub fn join(&self, other: &Self) {
        // A call waits for one request at most, so a second `set` would have the same value.
        let _ = self.0.joined_call.set(other.clone());
    }

    /// Records that a request is passed to an open connection or a running program. From then on, the
    /// upstream may have received the request.
    pub fn request_sent(&self) {
        self.0.sent_requests.fetch_add(1, Ordering::Relaxed);
    }

    /// Undoes [`request_sent`](Self::request_sent): certainly no part of the request was written.
    pub fn request_unsent(&self) {
        self.0.sent_requests.fetch_sub(1, Ordering::Relaxed);
    }

    /// Whether an upstream may have received a request of this call, or of the call that it joined.
    pub fn was_sent(&self) -> bool {
        let has_sent = |call: &Self| call.0.sent_requests.load(Ordering::Relaxed) > 0;
        has_sent(self) || self.0.joined_call.get().is_some_and(has_sent)
    }

    /// Time with an attempt in flight: of this call, or else of the call that it joined. `None` if there was
    /// no attempt.
    pub fn upstream_time(&self) -> Option<Duration> {
        let time = |call: &Self| (call.attempts() > 0).then(|| call.0.upstream_time.lock().total());
        time(self).or_else(|| time(self.0.joined_call.get()?))
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::sleep;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn upstream_time_is_that_of_attempts_and_not_of_the_waits_between_them() {
        let second = Duration::from_secs(1);
        let call = CallContext::new(RequestId::next(), Span::default());
        sleep(second).await;
        assert_eq!((call.attempts(), call.upstream_time()), (0, None), "it was queued");
        call.attempt_started();
        sleep(second).await;
        // A hedged one.
        call.attempt_started();
        assert_eq!(call.upstream_time(), Some(second));
        sleep(second).await;
        call.attempt_ended();
        call.attempt_ended();
        sleep(second).await;
        assert_eq!((call.attempts(), call.upstream_time()), (2, Some(2 * second)));
        let joined = CallContext::new(RequestId::next(), Span::default());
        joined.join(&call);
        assert_eq!((joined.attempts(), joined.upstream_time()), (0, Some(2 * second)));
    }

    #[test]
    fn a_request_is_sent_once_it_is_handed_to_a_connection() {
        let call = CallContext::new(RequestId::next(), Span::default());
        call.attempt_started();
        assert!(!call.was_sent(), "it is connecting");
        call.request_sent();
        call.request_unsent();
        assert!(!call.was_sent(), "the connection was closed before");
        call.request_sent();
        let joined = CallContext::new(RequestId::next(), Span::default());
        joined.join(&call);
        assert!(call.was_sent() && joined.was_sent());
    }

    #[test]
    fn an_attempt_that_was_rejected_does_not_count() {
        let call = CallContext::new(RequestId::next(), Span::default());
        assert_eq!(call.attempt_started(), 0);
        call.attempt_rejected();
        assert_eq!((call.attempts(), call.upstream_time()), (0, None));
    }
}
