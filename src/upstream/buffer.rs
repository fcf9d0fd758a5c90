//! Memory limit for upstream responses, shared by all calls (`server.upstream_buffer_limit`).
//!
//! A call needs more memory than the length of the body: the text made from it, the trees that rules build,
//! and the result until the client has read it. So a body is charged at a multiple of its length. The charge
//! lasts from before the body is read until its last byte is dropped.
//!
//! A call that finds no free memory queues, first in, first out, for at most 10 s. Results that clients have
//! not read yet are charged as well ([`UpstreamBuffer::charge`]), so slow clients delay new responses
//! (back pressure) instead of filling the memory.

use std::{sync::Arc, time::Duration};

use bytes::Bytes;
use http::header;
use parking_lot::Mutex;
use tokio::{
    sync::Notify,
    time::{Instant, timeout_at},
};

use super::{Failure, OnDrop, UpstreamResult};
use crate::model::UpstreamResponse;

/// Maximum length of a body that is not charged, in bytes. Most bodies are shorter.
const FREE_BYTES: usize = 16 << 10;

/// Maximum time that a call queues for memory.
const QUEUE_TIMEOUT: Duration = Duration::from_secs(10);

/// Reservation sizes for a body of unknown length, in bytes, in order. After the last step, the rest of the
/// route's limit is reserved at once. With more steps, partly read bodies that all wait for more could
/// deadlock.
const STEPS_BYTES: [usize; 2] = [64 << 10, 256 << 10];

/// Budget of bytes for upstream responses. Clones share it.
#[derive(Debug, Clone)]
pub struct UpstreamBuffer(Arc<Shared>);

#[derive(Debug, Default)]
struct Shared {
    state: Mutex<BufferState>,
    /// Wakes the first call of each queue, after memory was freed or a call has left its queue.
    freed: Notify,
    queues: [tokio::sync::Mutex<()>; 2],
}

/// State of a buffer.
#[derive(Debug, Clone, Copy, Default)]
pub struct BufferState {
    /// Limit in bytes.
    pub limit_bytes: usize,
    /// Bytes charged now.
    pub used_bytes: usize,
    /// Whether one call exceeds the limit, so that it can finish and free its memory.
    is_overdrawn: bool,
    /// Calls in each queue that wait for memory now.
    pub queued: [usize; 2],
    /// Calls rejected because no memory was free.
    pub rejected: u64,
}

/// Queue of calls that hold a part of their body. They are served first, because they free memory soonest.
const GROWING: usize = 0;
/// Queue of calls that hold no memory yet.
const BEGINNING: usize = 1;

/// Memory reserved by one call, freed on drop.
#[derive(Debug)]
struct Reservation {
    charge: BodyCharge,
    bytes: usize,
    is_overdraft: bool,
}

/// Buffer and charge factor for the response bodies of one call.
#[derive(Debug, Clone)]
pub struct BodyCharge {
    /// Buffer that is charged.
    pub buffer: UpstreamBuffer,
    /// Bytes charged for each byte of body.
    pub factor: usize,
}

/// Charge for one body while it is read.
#[derive(Debug)]
pub(super) struct BodyAccount {
    reservation: Option<Reservation>,
    limit_bytes: usize,
    deadline: Instant,
    /// Body length that is reserved so far.
    covered_bytes: usize,
}

/// Body that is charged until its last slice is dropped.
#[derive(derive_more::AsRef)]
struct Charged {
    #[as_ref([u8])]
    bytes: Bytes,
    _reservation: Reservation,
}

impl UpstreamBuffer {
    /// Default limit. Together with the limits of request bodies and of the cache, and the memory of
    /// connections, it fits into a container of 512 MiB.
    pub const LIMIT_BYTES_DEFAULT: usize = 128 << 20;

    /// Creates a buffer with this limit.
    pub fn new(limit_bytes: usize) -> Self {
        let state = BufferState { limit_bytes, ..BufferState::default() };
        Self(Arc::new(Shared { state: Mutex::new(state), ..Shared::default() }))
    }

    /// Changes the limit, effective at once.
    pub fn set_limit(&self, limit_bytes: usize) {
        self.0.state.lock().limit_bytes = limit_bytes;
        self.0.freed.notify_waiters();
    }

    /// Limit, charged bytes, queued calls and rejected calls at this moment.
    pub fn state(&self) -> BufferState {
        *self.0.state.lock()
    }

    /// Charges bytes that are in memory already, even above the limit.
    pub fn charge(&self, bytes: usize) {
        self.0.state.lock().used_bytes += bytes;
    }

    /// Frees bytes that [`charge`](Self::charge) counted.
    pub fn discharge(&self, bytes: usize) {
        let mut state = self.0.state.lock();
        state.used_bytes = state.used_bytes.saturating_sub(bytes);
        drop(state);
        self.0.freed.notify_waiters();
    }
}

impl Reservation {
    /// Reserves more bytes, waiting if necessary.
    async fn grow(&mut self, bytes: usize, deadline: Instant) -> Result<(), Failure> {
        if self.try_grow(bytes, false) {
            return Ok(());
        }
        let buffer = self.charge.buffer.clone();
        let queue = if self.bytes > 0 { GROWING } else { BEGINNING };
        buffer.0.state.lock().queued[queue] += 1;
        // When this call leaves the queue, a smaller one behind it may fit.
        let _queued = OnDrop::new(|| {
            buffer.0.state.lock().queued[queue] -= 1;
            buffer.0.freed.notify_waiters();
        });
        let granted = async {
            let _turn = buffer.0.queues[queue].lock().await;
            loop {
                let freed = buffer.0.freed.notified();
                if self.try_grow(bytes, true) {
                    return;
                }
                freed.await;
            }
        };
        timeout_at(deadline.min(Instant::now() + QUEUE_TIMEOUT), granted).await.map_err(|_| {
            let mut state = buffer.0.state.lock();
            state.rejected += 1;
            Failure::BufferFull(state.limit_bytes)
        })
    }

    /// Reserves more bytes if they are free and it is the turn of this call.
    fn try_grow(&mut self, bytes: usize, is_first_in_queue: bool) -> bool {
        let mut state = self.charge.buffer.0.state.lock();
        // The call that exceeds the limit gets all bytes: if it waited, calls that wait for its memory would
        // never finish. Any other reservation is reduced to the limit, because a larger one would never fit.
        let bytes = if self.is_overdraft { bytes } else { bytes.min(state.limit_bytes) };
        let is_growing = self.bytes > 0;
        let is_turn = match state.queued {
            _ if is_first_in_queue && is_growing => true,
            [0, beginning] => is_growing || is_first_in_queue || beginning == 0,
            _ => false,
        };
        let fits = is_turn && state.used_bytes.saturating_add(bytes) <= state.limit_bytes;
        if !fits && !self.is_overdraft {
            if !is_growing || state.is_overdrawn {
                return false;
            }
            (state.is_overdrawn, self.is_overdraft) = (true, true);
        }
        state.used_bytes += bytes;
        self.bytes += bytes;
        true
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        if self.is_overdraft {
            self.charge.buffer.0.state.lock().is_overdrawn = false;
        }
        if self.is_overdraft || self.bytes > 0 {
            self.charge.buffer.discharge(self.bytes);
        }
    }
}

/// Length that a body is charged at. For a compressed body it is the largest permitted decompressed length.
fn charged_length(response: &UpstreamResponse, limit_bytes: usize) -> usize {
    let is_compressed = response.headers.contains_key(header::CONTENT_ENCODING) && !response.body.is_empty();
    if is_compressed { limit_bytes.max(response.body.len()) } else { response.body.len() }
}

impl BodyAccount {
    /// Opens an account for a body of at most `limit_bytes`. Its call waits no longer than `deadline`.
    /// Without a `charge`, nothing is charged.
    pub(super) fn new(charge: Option<&BodyCharge>, limit_bytes: usize, deadline: Instant) -> Self {
        let reservation =
            charge.map(|charge| Reservation { charge: charge.clone(), bytes: 0, is_overdraft: false });
        Self { reservation, limit_bytes, deadline, covered_bytes: FREE_BYTES }
    }

    /// Opens an account that charges nothing.
    pub(super) fn none() -> Self {
        Self::new(None, 0, Instant::now())
    }

    /// Opens an account for another body under the same conditions.
    pub(super) fn another(&self) -> Self {
        Self::new(
            self.reservation.as_ref().map(|reservation| &reservation.charge),
            self.limit_bytes,
            self.deadline,
        )
    }

    /// Reserves memory for a body of known length.
    ///
    /// # Errors
    ///
    /// [`Failure::BufferFull`].
    pub(super) async fn cover(&mut self, length: usize) -> Result<(), Failure> {
        let Some(reservation) = self.reservation.as_mut().filter(|_| length > self.covered_bytes) else {
            return Ok(());
        };
        let reserved_length = if reservation.bytes == 0 { 0 } else { self.covered_bytes };
        let bytes = (length - reserved_length).saturating_mul(reservation.charge.factor);
        // Boxed, because short bodies, the common case, never need this future.
        Box::pin(reservation.grow(bytes, self.deadline)).await?;
        self.covered_bytes = length;
        Ok(())
    }

    /// Reserves memory for a body that has this length so far and may grow.
    ///
    /// # Errors
    ///
    /// [`Failure::BufferFull`].
    pub(super) async fn grow(&mut self, length: usize) -> Result<(), Failure> {
        if length <= self.covered_bytes {
            return Ok(());
        }
        let step = STEPS_BYTES.into_iter().find(|step| length <= *step);
        self.cover(step.unwrap_or(self.limit_bytes).max(length)).await
    }

    /// Returns the body, charged at its own length from here on.
    pub(super) fn finish(mut self, bytes: Bytes) -> Bytes {
        self.shrink(bytes.len());
        self.wrap(bytes)
    }

    /// Returns the response, its body charged from here on.
    ///
    /// # Errors
    ///
    /// [`Failure::BufferFull`] if a response needs more memory than is reserved and free. Only a compressed
    /// response, or one that was read for another call, can need more than is reserved.
    pub(super) async fn finish_response(mut self, response: UpstreamResponse) -> UpstreamResult {
        let length = charged_length(&response, self.limit_bytes);
        self.cover(length).await?;
        self.shrink(length);
        Ok(UpstreamResponse { body: self.wrap(response.body), ..response })
    }

    /// Frees reserved memory that a body of this length does not need.
    fn shrink(&mut self, length: usize) {
        let Some(Reservation { charge, bytes, .. }) = &mut self.reservation else { return };
        let length = if length <= FREE_BYTES { 0 } else { length };
        let needed_bytes = length.saturating_mul(charge.factor);
        if needed_bytes < *bytes {
            charge.buffer.discharge(*bytes - needed_bytes);
            *bytes = needed_bytes;
        }
    }

    fn wrap(self, bytes: Bytes) -> Bytes {
        match self.reservation {
            Some(reservation) if reservation.bytes > 0 => {
                Bytes::from_owner(Charged { bytes, _reservation: reservation })
            }
            Some(_) | None => bytes,
        }
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::timeout;

    use super::*;

    const SECOND: Duration = Duration::from_secs(1);
    const BODY_BYTES: usize = 100 << 10;

    fn charge(limit_bytes: usize) -> BodyCharge {
        BodyCharge { buffer: UpstreamBuffer::new(limit_bytes), factor: 2 }
    }

    fn queued(charge: &BodyCharge) -> usize {
        charge.buffer.state().queued.iter().sum()
    }

    fn account(charge: &BodyCharge) -> BodyAccount {
        BodyAccount::new(Some(charge), 10 * BODY_BYTES, Instant::now() + 60 * SECOND)
    }

    async fn read(charge: &BodyCharge, length: usize) -> Result<Bytes, Failure> {
        let mut account = account(charge);
        account.cover(length).await?;
        Ok(account.finish(vec![7; length].into()))
    }

    #[tokio::test(start_paused = true)]
    async fn a_body_is_charged_until_the_last_part_of_it_is_dropped() {
        let charge = charge(4 * BODY_BYTES);
        let body = read(&charge, BODY_BYTES).await.unwrap();
        assert_eq!(charge.buffer.state().used_bytes, 2 * BODY_BYTES);
        let part = body.slice(5..6);
        drop(body);
        assert_eq!(charge.buffer.state().used_bytes, 2 * BODY_BYTES);
        drop(part);
        assert_eq!(charge.buffer.state().used_bytes, 0);
        let short = read(&charge, FREE_BYTES).await.unwrap();
        assert_eq!((charge.buffer.state().used_bytes, short.len()), (0, FREE_BYTES));
    }

    #[tokio::test(start_paused = true)]
    async fn calls_without_memory_queue_in_order_until_a_timeout() {
        let charge = charge(4 * BODY_BYTES);
        let (first, second) =
            (read(&charge, BODY_BYTES).await.unwrap(), read(&charge, BODY_BYTES).await.unwrap());
        let started = Instant::now();
        read(&charge, BODY_BYTES).await.unwrap_err();
        assert_eq!((started.elapsed(), charge.buffer.state().rejected), (QUEUE_TIMEOUT, 1));
        let long = async {
            let body = read(&charge, 2 * BODY_BYTES).await.unwrap();
            assert_eq!((charge.buffer.state().used_bytes, queued(&charge)), (4 * BODY_BYTES, 1));
            drop(body);
        };
        let short = async { read(&charge, BODY_BYTES).await.unwrap() };
        let freeing = async {
            tokio::task::yield_now().await;
            assert_eq!(queued(&charge), 2);
            drop(first);
            tokio::task::yield_now().await;
            assert_eq!(queued(&charge), 2, "the short one is not let past the long one");
            drop(second);
        };
        let (_, body, _) = tokio::join!(long, short, freeing);
        assert_eq!(charge.buffer.state().used_bytes, 2 * BODY_BYTES);
        drop(body);
        assert_eq!((charge.buffer.state().used_bytes, queued(&charge)), (0, 0));
    }

    #[tokio::test(start_paused = true)]
    async fn a_call_that_leaves_the_queue_lets_others_pass() {
        let charge = charge(4 * BODY_BYTES);
        let _first = read(&charge, BODY_BYTES).await.unwrap();
        let long = timeout(SECOND, read(&charge, 2 * BODY_BYTES));
        let (timed_out, waited) = tokio::join!(long, async {
            tokio::task::yield_now().await;
            let started = Instant::now();
            read(&charge, BODY_BYTES).await.unwrap();
            started.elapsed()
        });
        assert!(timed_out.is_err());
        assert_eq!(waited, SECOND);
    }

    #[tokio::test(start_paused = true)]
    async fn bodies_that_were_read_in_part_do_not_wait_for_each_other() {
        let charge = charge(260 << 10);
        let (mut one, mut other) = (account(&charge), account(&charge));
        one.grow(60 << 10).await.unwrap();
        other.grow(60 << 10).await.unwrap();
        assert_eq!(charge.buffer.state().used_bytes, 256 << 10);
        one.grow(65 << 10).await.expect("one goes over the limit");
        one.grow(300 << 10).await.expect("and goes on to do so");
        let finish_one = async {
            tokio::task::yield_now().await;
            assert_eq!(queued(&charge), 1);
            drop(one.finish(vec![7; 65 << 10].into()));
        };
        let (grown, ()) = tokio::join!(other.grow(65 << 10), finish_one);
        grown.unwrap();
        assert_eq!(other.finish(vec![7; 90 << 10].into()).len(), 90 << 10);
        assert_eq!((charge.buffer.state().used_bytes, charge.buffer.state().rejected), (0, 0));
    }

    #[tokio::test(start_paused = true)]
    async fn a_body_over_the_whole_limit_is_read_alone() {
        let charge = charge(BODY_BYTES);
        let body = read(&charge, 9 * BODY_BYTES).await.unwrap();
        assert_eq!(charge.buffer.state().used_bytes, BODY_BYTES);
        read(&charge, BODY_BYTES).await.unwrap_err();
        drop(body);
        read(&charge, BODY_BYTES).await.unwrap();
    }

    #[tokio::test(start_paused = true)]
    async fn unread_responses_delay_the_next_body() {
        let charge = charge(2 * BODY_BYTES);
        charge.buffer.charge(BODY_BYTES);
        read(&charge, BODY_BYTES).await.unwrap_err();
        charge.buffer.discharge(BODY_BYTES);
        read(&charge, BODY_BYTES).await.unwrap();
    }
}
