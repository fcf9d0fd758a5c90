//! Connection limiter of a listener: limits the number of connections, and the bytes of responses that
//! clients have not read.
//!
//! - When all slots are occupied, the longest-idle connections are closed. Clients that only keep connections
//!   open do not block others.
//! - When responses exceed the response buffer, the connections that have read nothing for the longest time
//!   are closed. Clients that do not read long responses do not use up the memory of others.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore};
use tokio::time::{Instant, sleep, timeout};
use tracing::warn;

use super::connection_activity::Activity;
use crate::upstream::UpstreamBuffer;

/// Time to wait for a slot before more connections are closed.
const SLOT_TIMEOUT: Duration = Duration::from_millis(100);

/// Share of all connections that is closed at once (1 / 64), because finding the idle ones iterates over all.
const CLOSED_SHARE: usize = 64;

/// Interval of checks of the response buffer while it exceeds its limit.
const CHECK_INTERVAL: Duration = Duration::from_millis(50);

/// Interval of log lines about occupied slots, or a full response buffer.
const LOG_INTERVAL: Duration = Duration::from_secs(60);

/// Number of bytes of long responses that the clients of a listener have not read, and its limit.
#[derive(Debug)]
pub(super) struct ResponseBuffer {
    buffered_bytes: AtomicUsize,
    limit_bytes: usize,
    over_limit: Notify,
    /// The buffer of the upstream responses. The bytes that clients have not read are charged to it as well.
    upstream_buffer: Option<UpstreamBuffer>,
}

impl ResponseBuffer {
    /// Creates a buffer of `limit_bytes`, but of at most half of the upstream buffer, if there is one. The
    /// other half remains for clients that read their responses.
    pub(super) fn new(limit_bytes: usize, upstream_buffer: Option<UpstreamBuffer>) -> Arc<Self> {
        let (buffered_bytes, over_limit) = (AtomicUsize::new(0), Notify::new());
        Arc::new(Self { buffered_bytes, limit_bytes, over_limit, upstream_buffer })
    }

    pub(super) fn charge(&self, bytes: usize) {
        if let Some(buffer) = &self.upstream_buffer {
            buffer.charge(bytes);
        }
        self.buffered_bytes.fetch_add(bytes, Ordering::Relaxed);
        if self.excess_bytes() > 0 {
            self.over_limit.notify_one();
        }
    }

    pub(super) fn release(&self, bytes: usize) {
        self.buffered_bytes.fetch_sub(bytes, Ordering::Relaxed);
        if let Some(buffer) = &self.upstream_buffer {
            buffer.discharge(bytes);
        }
    }

    pub(super) fn buffered_bytes(&self) -> usize {
        self.buffered_bytes.load(Ordering::Relaxed)
    }

    fn limit_bytes(&self) -> usize {
        let half = self.upstream_buffer.as_ref().map(|buffer| buffer.state().limit_bytes / 2);
        half.map_or(self.limit_bytes, |half| self.limit_bytes.min(half))
    }

    fn excess_bytes(&self) -> usize {
        self.buffered_bytes().saturating_sub(self.limit_bytes())
    }
}

/// Limiter of the connections of one listener. Clones share its state.
#[derive(Debug, Clone)]
pub(super) struct ConnectionLimiter {
    limit: usize,
    slots: Arc<Semaphore>,
    buffer: Arc<ResponseBuffer>,
    connections: Arc<Mutex<HashMap<u64, Activity>>>,
    last_number: Arc<AtomicU64>,
}

/// The slot of one connection, released on drop.
#[derive(Debug)]
pub(super) struct ConnectionSlot {
    pub(super) activity: Activity,
    limiter: ConnectionLimiter,
    number: u64,
    _permit: OwnedSemaphorePermit,
}

impl ConnectionLimiter {
    pub(super) fn new(limit: usize, buffer: Arc<ResponseBuffer>) -> Self {
        let limit = limit.clamp(1, Semaphore::MAX_PERMITS);
        let slots = Arc::new(Semaphore::new(limit));
        Self { limit, slots, buffer, connections: Arc::default(), last_number: Arc::default() }
    }

    /// Acquires a slot for a client that is already connected, and closes idle connections if all slots are
    /// occupied. `logged_at` is the time of the last log line about occupied slots.
    pub(super) async fn slot(&self, logged_at: &mut Option<Instant>) -> ConnectionSlot {
        let permit = loop {
            if let Ok(permit) = self.slots.clone().try_acquire_owned() {
                break permit;
            }
            if take_log_turn(logged_at, LOG_INTERVAL) {
                let connections = self.limit;
                warn!(connections, "connection limit reached: closing idle connections");
            }
            self.close_idle();
            if let Ok(Ok(permit)) = timeout(SLOT_TIMEOUT, self.slots.clone().acquire_owned()).await {
                break permit;
            }
        };
        let number = self.last_number.fetch_add(1, Ordering::Relaxed);
        let activity = Activity::new(&self.buffer);
        self.connections.lock().insert(number, activity.clone());
        ConnectionSlot { activity, limiter: self.clone(), number, _permit: permit }
    }

    /// Closes the connections that have been idle for the longest time: at most one in [`CLOSED_SHARE`].
    pub(super) fn close_idle(&self) {
        let connections = self.connections.lock();
        let idle = connections.values().filter_map(|activity| Some((activity.idle_since()?, activity)));
        let mut idle: Vec<(Instant, &Activity)> = idle.collect();
        idle.sort_unstable_by_key(|(since, _)| *since);
        for (_, activity) in idle.iter().take(self.limit.div_ceil(CLOSED_SHARE)) {
            activity.close.notify_one();
        }
    }

    /// Enforces the limit of the response buffer: closes connections that have read nothing for at least
    /// `stalled_for`.
    pub(super) async fn limit_responses(self, stalled_for: Duration) {
        let mut logged_at: Option<Instant> = None;
        loop {
            while self.buffer.excess_bytes() == 0 {
                self.buffer.over_limit.notified().await;
            }
            let connections = self.close_slow_readers(stalled_for);
            if connections > 0 && take_log_turn(&mut logged_at, LOG_INTERVAL) {
                let (buffered_bytes, limit_bytes) = (self.buffer.buffered_bytes(), self.buffer.limit_bytes());
                warn!(
                    connections,
                    buffered_bytes,
                    limit_bytes,
                    "response buffer full: closing the connections that have read nothing for the longest \
                     time"
                );
            }
            sleep(CHECK_INTERVAL).await;
        }
    }

    /// Closes as many connections as needed, and returns their number. Closes none while the connections with
    /// long responses have only one open request: a single response may exceed the limit.
    fn close_slow_readers(&self, stalled_for: Duration) -> usize {
        let connections = self.connections.lock();
        let (mut requests, mut stalled) = (0, Vec::new());
        for activity in connections.values() {
            let state = activity.state();
            if state.buffered_bytes > 0 {
                requests += state.open;
                // If several responses of a connection wait, the longest wait counts.
                let since = state.waiting.values().min().filter(|since| since.elapsed() >= stalled_for);
                stalled.extend(since.map(|since| (*since, state.buffered_bytes, activity)));
            }
        }
        if requests < 2 {
            return 0;
        }
        stalled.sort_unstable_by_key(|(since, ..)| *since);
        let (mut excess_bytes, mut closed) = (self.buffer.excess_bytes(), 0);
        for (_, bytes, activity) in stalled {
            if excess_bytes == 0 {
                break;
            }
            activity.state().must_close = true;
            activity.close.notify_one();
            excess_bytes = excess_bytes.saturating_sub(bytes);
            closed += 1;
        }
        closed
    }
}

/// Whether to log again: the first time, and then every `interval`. If so, stores the current time in
/// `logged_at`.
pub(super) fn take_log_turn(logged_at: &mut Option<Instant>, interval: Duration) -> bool {
    let is_due = logged_at.is_none_or(|last| last.elapsed() >= interval);
    if is_due {
        *logged_at = Some(Instant::now());
    }
    is_due
}

impl ConnectionSlot {
    /// Waits until the connection must be closed, and returns the reason.
    pub(super) async fn close_requested(&self) -> &'static str {
        loop {
            self.activity.close.notified().await;
            if self.activity.state().must_close {
                return "does not read a long response";
            }
            // A request may have arrived since the limiter chose this connection.
            if self.activity.idle_since().is_some() {
                return "idle";
            }
        }
    }
}

impl Drop for ConnectionSlot {
    fn drop(&mut self) {
        self.limiter.connections.lock().remove(&self.number);
    }
}

#[cfg(test)]
mod tests {
    use axum::body::Body;
    use http_body_util::BodyExt;

    use super::*;

    fn limiter(connections: usize, buffer_bytes: usize) -> ConnectionLimiter {
        ConnectionLimiter::new(connections, ResponseBuffer::new(buffer_bytes, None))
    }

    #[tokio::test(start_paused = true)]
    async fn the_longest_idle_connection_is_closed() {
        let limiter = limiter(3, 1);
        let mut logged_at = None;
        let busy = limiter.slot(&mut logged_at).await;
        let request = busy.activity.begin_request();
        tokio::time::advance(Duration::from_secs(1)).await;
        let old = limiter.slot(&mut logged_at).await;
        tokio::time::advance(Duration::from_secs(1)).await;
        let young = limiter.slot(&mut logged_at).await;
        assert_eq!((limiter.slots.available_permits(), logged_at), (0, None));
        let leaving = async {
            old.close_requested().await;
            drop(old);
        };
        let (slot, ()) = tokio::join!(limiter.slot(&mut logged_at), leaving);
        assert!(logged_at.is_some());
        for connection in [&busy, &young] {
            timeout(Duration::from_secs(9), connection.close_requested()).await.unwrap_err();
        }
        drop((request, busy, young, slot));
        assert!(limiter.connections.lock().is_empty() && limiter.slots.available_permits() == 3);
    }

    #[tokio::test(start_paused = true)]
    async fn a_new_connection_waits_while_all_others_are_active() {
        let limiter = limiter(1, 1);
        let mut logged_at = None;
        let slot = limiter.slot(&mut logged_at).await;
        let request = slot.activity.begin_request();
        timeout(Duration::from_secs(9), limiter.slot(&mut logged_at)).await.unwrap_err();
        drop(request);
        let leaving = async {
            slot.close_requested().await;
            drop(slot);
        };
        tokio::join!(limiter.slot(&mut logged_at), leaving);
    }

    /// Body of a response that the client does not read.
    fn unread(slot: &ConnectionSlot, bytes: usize) -> Body {
        let response = http::Response::new(Body::from(vec![b'a'; bytes]));
        slot.activity.begin_request().watch_response_body(response).into_body()
    }

    #[tokio::test(start_paused = true)]
    async fn the_slowest_reader_of_long_responses_is_disconnected() {
        const LONG: usize = 1 << 20;
        let limiter = limiter(9, 5 * LONG);
        let mut logged_at = None;
        let slots = [
            limiter.slot(&mut logged_at).await,
            limiter.slot(&mut logged_at).await,
            limiter.slot(&mut logged_at).await,
        ];
        let [old, reader, young] = &slots;
        let _limit = tokio::spawn({
            let limiter = limiter.clone();
            async move { limiter.limit_responses(Duration::from_secs(1)).await }
        });
        let untouched = unread(old, LONG);
        let mut read_body = unread(reader, 4 * LONG);
        let _reading = tokio::spawn(async move {
            while read_body.frame().await.is_some() {
                sleep(Duration::from_millis(500)).await;
            }
        });
        timeout(Duration::from_secs(9), old.close_requested()).await.expect_err("there is room for both");
        let late = unread(young, LONG);
        let started = Instant::now();
        assert_eq!(
            timeout(Duration::from_secs(9), old.close_requested()).await,
            Ok("does not read a long response")
        );
        assert!(started.elapsed() < Duration::from_millis(200), "it has taken nothing for long enough");
        drop((untouched, late));
        let _more = [unread(young, LONG), unread(young, LONG)];
        assert!(
            timeout(Duration::from_millis(900), young.close_requested()).await.is_err(),
            "it has not been given time"
        );
        timeout(Duration::from_secs(1), young.close_requested()).await.unwrap();
        timeout(Duration::from_secs(9), reader.close_requested()).await.expect_err("it reads");
    }

    #[tokio::test(start_paused = true)]
    async fn one_long_response_is_allowed_and_many_on_one_connection_are_not() {
        let (limiter, mut logged_at) = (limiter(9, 1), None);
        let slot = limiter.slot(&mut logged_at).await;
        let _limit = tokio::spawn({
            let limiter = limiter.clone();
            async move { limiter.limit_responses(Duration::from_secs(1)).await }
        });
        let _first = unread(&slot, 1 << 20);
        timeout(Duration::from_secs(9), slot.close_requested()).await.unwrap_err();
        let _requests = [slot.activity.begin_request(), slot.activity.begin_request()];
        timeout(Duration::from_secs(9), slot.close_requested()).await.unwrap();
    }
}
