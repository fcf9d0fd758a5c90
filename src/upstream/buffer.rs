//! Memory limit for upstream responses, shared by all calls (`server.upstream_buffer_limit`).
//!
//! A call needs more memory than the length of the body: the text made from it, the trees that rules build,
//! and the result until the client has read it. So a body is charged at a multiple of its length. The charge
//! lasts from before the body is read until its last byte is dropped.
//!
//! A call that finds no free memory queues, first in, first out, for at most 10 s. Results that clients have
//! not read yet are charged as well ([`UpstreamBuffer::charge`]), so slow clients delay new responses
//! (back pressure) instead of filling the memory.

use std::{
    collections::VecDeque,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, AtomicUsize, Ordering},
    },
    time::Duration,
};

use bytes::Bytes;
use http::header;
use tokio::{
    sync::oneshot,
    time::{Instant, timeout_at},
};

use super::UpstreamError;
use crate::{model::UpstreamResponse, route::UpstreamName};

/// Part of each body that is not charged. Most responses are shorter and cost nothing here.
const FREE_BYTES: usize = 16 << 10;

/// Longest time that a call queues for memory.
const QUEUE_TIMEOUT: Duration = Duration::from_secs(10);

/// Reservation sizes for a body of unknown length, in order. After the last one, the rest of the route's
/// limit is reserved at once. With more steps, partly read bodies that all wait for more could deadlock.
const STEPS_BYTES: [usize; 2] = [64 << 10, 256 << 10];

/// Budget of bytes for upstream responses. Clones share it.
#[derive(Debug, Clone)]
pub struct UpstreamBuffer(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    state: Mutex<State>,
    queued: AtomicUsize,
    rejected: AtomicU64,
}

#[derive(Debug)]
struct State {
    limit_bytes: usize,
    used_bytes: usize,
    /// Whether one call exceeds the limit, so that it can finish and free its memory.
    is_overdrawn: bool,
    /// Calls that hold a part of their body. They are served first, as they free memory soonest.
    growing: VecDeque<Waiter>,
    /// Calls that hold no memory yet.
    beginning: VecDeque<Waiter>,
}

#[derive(Debug)]
struct Waiter {
    bytes: usize,
    grant: oneshot::Sender<Reservation>,
}

/// Reserved memory, freed on drop.
#[derive(Debug)]
struct Reservation {
    buffer: UpstreamBuffer,
    bytes: usize,
    is_overdraft: bool,
}

/// No memory was free before the timeout.
#[derive(Debug, Clone, Copy)]
pub(super) struct BufferFull {
    limit_bytes: usize,
}

impl BufferFull {
    /// Error for a response of this upstream.
    pub(super) fn into_error(self, upstream: &UpstreamName) -> UpstreamError {
        UpstreamError::BufferFull { upstream: upstream.clone(), limit_bytes: self.limit_bytes }
    }
}

/// Buffer and factor for the bodies of one call.
#[derive(Debug, Clone)]
pub struct BodyCharge {
    /// Buffer that is charged.
    pub buffer: UpstreamBuffer,
    /// Bytes charged for each byte of body.
    pub factor: usize,
}

/// Charge for one body while it is read.
#[derive(Debug)]
pub(super) struct BodyAccount<'a> {
    charge: Option<&'a BodyCharge>,
    limit_bytes: usize,
    until: Instant,
    /// Body length that is reserved so far.
    covered_bytes: usize,
    reservations: Vec<Reservation>,
}

/// Body that is charged until its last slice is dropped.
struct Charged {
    bytes: Bytes,
    _reservations: Vec<Reservation>,
}

impl AsRef<[u8]> for Charged {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

impl UpstreamBuffer {
    /// Default limit. Together with the limits of request bodies and of the cache, and the memory of
    /// connections, it fits into a container of 512 MiB.
    pub const LIMIT_BYTES_DEFAULT: usize = 128 << 20;

    /// Creates a buffer of this size.
    pub fn new(limit_bytes: usize) -> Self {
        let state = State {
            limit_bytes,
            used_bytes: 0,
            is_overdrawn: false,
            growing: VecDeque::new(),
            beginning: VecDeque::new(),
        };
        let (state, queued, rejected) = (Mutex::new(state), AtomicUsize::new(0), AtomicU64::new(0));
        Self(Arc::new(Shared { state, queued, rejected }))
    }

    /// Changes the limit, effective at once.
    pub fn set_limit(&self, limit_bytes: usize) {
        self.state().limit_bytes = limit_bytes;
        self.grant();
    }

    /// Limit in bytes.
    pub fn limit_bytes(&self) -> usize {
        self.state().limit_bytes
    }

    /// Bytes charged now.
    pub fn used_bytes(&self) -> usize {
        self.state().used_bytes
    }

    /// Calls that wait for memory now.
    pub fn queued(&self) -> usize {
        self.0.queued.load(Ordering::Relaxed)
    }

    /// Calls rejected because no memory was free.
    pub fn rejected(&self) -> u64 {
        self.0.rejected.load(Ordering::Relaxed)
    }

    /// Charges bytes that are in memory already, even above the limit.
    pub fn charge(&self, bytes: usize) {
        self.state().used_bytes += bytes;
    }

    /// Frees bytes that [`charge`](Self::charge) counted.
    pub fn discharge(&self, bytes: usize) {
        let mut state = self.state();
        state.used_bytes = state.used_bytes.saturating_sub(bytes);
        drop(state);
        self.grant();
    }

    /// Reserves bytes for a call that already has the reservations in `held`, waiting if necessary.
    async fn reserve(
        &self,
        bytes: usize,
        held: &[Reservation],
        until: Instant,
    ) -> Result<Reservation, BufferFull> {
        let is_growing = !held.is_empty();
        let granted = {
            let mut state = self.state();
            if held.iter().any(|held| held.is_overdraft) {
                // This call is the one that exceeds the limit, and no other call could free memory for it.
                state.used_bytes += bytes;
                return Ok(Reservation { buffer: self.clone(), bytes, is_overdraft: false });
            }
            // A request for more than the limit would never be granted.
            let bytes = bytes.min(state.limit_bytes);
            if let Some(is_overdraft) = state.take(bytes, is_growing) {
                return Ok(Reservation { buffer: self.clone(), bytes, is_overdraft });
            }
            let (grant, granted) = oneshot::channel();
            let queue = if is_growing { &mut state.growing } else { &mut state.beginning };
            queue.push_back(Waiter { bytes, grant });
            granted
        };
        let queued = Queued::new(self);
        let until = until.min(Instant::now() + QUEUE_TIMEOUT);
        let granted = timeout_at(until, granted).await;
        drop(queued);
        match granted {
            Ok(Ok(reservation)) => Ok(reservation),
            Ok(Err(_)) | Err(_) => {
                self.0.rejected.fetch_add(1, Ordering::Relaxed);
                Err(BufferFull { limit_bytes: self.limit_bytes() })
            }
        }
    }

    /// Grants queued requests that fit now.
    fn grant(&self) {
        // Dropped after the lock is released, because dropping a reservation takes the lock.
        let mut unwanted = Vec::new();
        let mut state = self.state();
        while let Some((waiter, is_overdraft)) = state.next() {
            let reservation = Reservation { buffer: self.clone(), bytes: waiter.bytes, is_overdraft };
            if let Err(reservation) = waiter.grant.send(reservation) {
                unwanted.push(reservation);
            }
        }
        drop(state);
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// Reserves bytes without waiting, unless another call is first in the queue. Returns whether they exceed
    /// the limit.
    fn take(&mut self, bytes: usize, is_growing: bool) -> Option<bool> {
        let is_first = self.growing.is_empty() && (is_growing || self.beginning.is_empty());
        if is_first && self.used_bytes.saturating_add(bytes) <= self.limit_bytes {
            self.used_bytes += bytes;
            return Some(false);
        }
        if is_growing && !self.is_overdrawn {
            self.is_overdrawn = true;
            self.used_bytes += bytes;
            return Some(true);
        }
        None
    }

    /// Next call to grant, and whether its bytes exceed the limit.
    fn next(&mut self) -> Option<(Waiter, bool)> {
        for queue in [&mut self.growing, &mut self.beginning] {
            while queue.front().is_some_and(|waiter| waiter.grant.is_closed()) {
                queue.pop_front();
            }
        }
        let (queue, is_growing) = match self.growing.is_empty() {
            true => (&mut self.beginning, false),
            false => (&mut self.growing, true),
        };
        let bytes = queue.front()?.bytes;
        let fits = self.used_bytes.saturating_add(bytes) <= self.limit_bytes;
        if !fits && (!is_growing || self.is_overdrawn) {
            return None;
        }
        self.is_overdrawn |= !fits;
        self.used_bytes += bytes;
        Some((queue.pop_front()?, !fits))
    }
}

impl Reservation {
    fn free(&mut self, bytes: usize) {
        let bytes = bytes.min(self.bytes);
        self.bytes -= bytes;
        let mut state = self.buffer.state();
        state.used_bytes = state.used_bytes.saturating_sub(bytes);
        drop(state);
        self.buffer.grant();
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        if self.is_overdraft {
            self.buffer.state().is_overdrawn = false;
        }
        self.free(self.bytes);
    }
}

/// Counts one queued call until it is dropped.
struct Queued<'a>(&'a UpstreamBuffer);

impl<'a> Queued<'a> {
    fn new(buffer: &'a UpstreamBuffer) -> Self {
        buffer.0.queued.fetch_add(1, Ordering::Relaxed);
        Self(buffer)
    }
}

impl Drop for Queued<'_> {
    /// A smaller request behind this one may fit where it did not.
    fn drop(&mut self) {
        self.0.0.queued.fetch_sub(1, Ordering::Relaxed);
        self.0.grant();
    }
}

impl BodyCharge {
    /// Charges a response to another call than the one that read it.
    ///
    /// # Errors
    ///
    /// [`UpstreamError::BufferFull`].
    pub(crate) async fn share(
        &self,
        response: UpstreamResponse,
        upstream: &UpstreamName,
        limit_bytes: usize,
        until: Instant,
    ) -> Result<UpstreamResponse, UpstreamError> {
        let mut account = BodyAccount::new(Some(self), limit_bytes, until);
        let length = charged_length(&response, limit_bytes);
        account.cover(length).await.map_err(|full| full.into_error(upstream))?;
        Ok(UpstreamResponse { body: account.finish(response.body), ..response })
    }
}

/// Length that a body is charged at. For a compressed body it is the largest permitted decompressed length.
fn charged_length(response: &UpstreamResponse, limit_bytes: usize) -> usize {
    let is_compressed = response.headers.contains_key(header::CONTENT_ENCODING) && !response.body.is_empty();
    if is_compressed { limit_bytes.max(response.body.len()) } else { response.body.len() }
}

impl<'a> BodyAccount<'a> {
    /// Opens an account for a body of at most `limit_bytes`. Its call waits no longer than `until`. Without a
    /// `charge`, nothing is charged.
    pub(super) fn new(charge: Option<&'a BodyCharge>, limit_bytes: usize, until: Instant) -> Self {
        Self { charge, limit_bytes, until, covered_bytes: FREE_BYTES, reservations: Vec::new() }
    }

    /// Opens an account that charges nothing.
    pub(super) fn none() -> BodyAccount<'static> {
        BodyAccount::new(None, 0, Instant::now())
    }

    /// Reserves memory for a body of known length.
    ///
    /// # Errors
    ///
    /// [`BufferFull`].
    pub(super) async fn cover(&mut self, length: usize) -> Result<(), BufferFull> {
        if length <= self.covered_bytes {
            return Ok(());
        }
        let Some(charge) = self.charge else { return Ok(()) };
        let paid = if self.reservations.is_empty() { 0 } else { self.covered_bytes };
        let bytes = (length - paid).saturating_mul(charge.factor);
        // Boxed, because short bodies, the common case, never need this future.
        let reserving = Box::pin(charge.buffer.reserve(bytes, &self.reservations, self.until));
        let reservation = reserving.await?;
        self.reservations.push(reservation);
        self.covered_bytes = length;
        Ok(())
    }

    /// Reserves memory for a body that has this length so far and may grow.
    ///
    /// # Errors
    ///
    /// [`BufferFull`].
    pub(super) async fn grow(&mut self, length: usize) -> Result<(), BufferFull> {
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
    /// [`BufferFull`] for a compressed response, which is charged at more than the bytes received.
    pub(super) async fn finish_response(
        mut self,
        response: UpstreamResponse,
    ) -> Result<UpstreamResponse, BufferFull> {
        let length = charged_length(&response, self.limit_bytes);
        if length > response.body.len() {
            self.cover(length).await?;
        } else {
            self.shrink(length);
        }
        Ok(UpstreamResponse { body: self.wrap(response.body), ..response })
    }

    fn shrink(&mut self, length: usize) {
        let Some(charge) = self.charge.filter(|_| !self.reservations.is_empty()) else { return };
        if length <= FREE_BYTES {
            return self.reservations.clear();
        }
        let reserved: usize = self.reservations.iter().map(|reservation| reservation.bytes).sum();
        let mut surplus = reserved.saturating_sub(length.saturating_mul(charge.factor));
        for reservation in self.reservations.iter_mut().rev() {
            let less = surplus.min(reservation.bytes);
            if less > 0 {
                reservation.free(less);
            }
            surplus -= less;
        }
    }

    fn wrap(self, bytes: Bytes) -> Bytes {
        if self.reservations.is_empty() {
            return bytes;
        }
        Bytes::from_owner(Charged { bytes, _reservations: self.reservations })
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::timeout;

    use super::*;

    const SECOND: Duration = Duration::from_secs(1);
    const BODY: usize = 100 << 10;

    fn charge(limit_bytes: usize) -> BodyCharge {
        BodyCharge { buffer: UpstreamBuffer::new(limit_bytes), factor: 2 }
    }

    fn account(charge: &BodyCharge) -> BodyAccount<'_> {
        BodyAccount::new(Some(charge), 10 * BODY, Instant::now() + 60 * SECOND)
    }

    async fn read(charge: &BodyCharge, length: usize) -> Result<Bytes, BufferFull> {
        let mut account = account(charge);
        account.cover(length).await?;
        Ok(account.finish(vec![7; length].into()))
    }

    #[tokio::test(start_paused = true)]
    async fn a_body_is_charged_until_the_last_part_of_it_is_dropped() {
        let charge = charge(4 * BODY);
        let body = read(&charge, BODY).await.unwrap();
        assert_eq!(charge.buffer.used_bytes(), 2 * BODY);
        let part = body.slice(5..6);
        drop(body);
        assert_eq!(charge.buffer.used_bytes(), 2 * BODY);
        drop(part);
        assert_eq!(charge.buffer.used_bytes(), 0);
        let short = read(&charge, FREE_BYTES).await.unwrap();
        assert_eq!((charge.buffer.used_bytes(), short.len()), (0, FREE_BYTES));
    }

    #[tokio::test(start_paused = true)]
    async fn calls_without_memory_queue_in_order_until_a_timeout() {
        let charge = charge(4 * BODY);
        let (first, second) = (read(&charge, BODY).await.unwrap(), read(&charge, BODY).await.unwrap());
        let started = Instant::now();
        read(&charge, BODY).await.unwrap_err();
        assert_eq!((started.elapsed(), charge.buffer.rejected()), (QUEUE_TIMEOUT, 1));
        let long = async {
            let body = read(&charge, 2 * BODY).await.unwrap();
            assert_eq!((charge.buffer.used_bytes(), charge.buffer.queued()), (4 * BODY, 1));
            drop(body);
        };
        let short = async { read(&charge, BODY).await.unwrap() };
        let freeing = async {
            tokio::task::yield_now().await;
            assert_eq!(charge.buffer.queued(), 2);
            drop(first);
            tokio::task::yield_now().await;
            assert_eq!(charge.buffer.queued(), 2, "the short one is not let past the long one");
            drop(second);
        };
        let (_, body, _) = tokio::join!(long, short, freeing);
        assert_eq!(charge.buffer.used_bytes(), 2 * BODY);
        drop(body);
        assert_eq!((charge.buffer.used_bytes(), charge.buffer.queued()), (0, 0));
    }

    #[tokio::test(start_paused = true)]
    async fn a_call_that_leaves_the_queue_lets_others_pass() {
        let charge = charge(4 * BODY);
        let _first = read(&charge, BODY).await.unwrap();
        let long = timeout(SECOND, read(&charge, 2 * BODY));
        let (left, passed) = tokio::join!(long, async {
            tokio::task::yield_now().await;
            let started = Instant::now();
            read(&charge, BODY).await.unwrap();
            started.elapsed()
        });
        assert!(left.is_err());
        assert_eq!(passed, SECOND);
    }

    #[tokio::test(start_paused = true)]
    async fn bodies_that_were_read_in_part_do_not_wait_for_each_other() {
        let charge = charge(260 << 10);
        let (mut one, mut other) = (account(&charge), account(&charge));
        one.grow(60 << 10).await.unwrap();
        other.grow(60 << 10).await.unwrap();
        assert_eq!(charge.buffer.used_bytes(), 256 << 10);
        one.grow(65 << 10).await.expect("one goes over the limit");
        one.grow(300 << 10).await.expect("and goes on to do so");
        let one_done = async {
            tokio::task::yield_now().await;
            assert_eq!(charge.buffer.queued(), 1);
            drop(one.finish(vec![7; 65 << 10].into()));
        };
        let (grown, ()) = tokio::join!(other.grow(65 << 10), one_done);
        grown.unwrap();
        assert_eq!(other.finish(vec![7; 90 << 10].into()).len(), 90 << 10);
        assert_eq!((charge.buffer.used_bytes(), charge.buffer.rejected()), (0, 0));
    }

    #[tokio::test(start_paused = true)]
    async fn a_body_over_the_whole_limit_is_read_alone() {
        let charge = charge(BODY);
        let body = read(&charge, 9 * BODY).await.unwrap();
        assert_eq!(charge.buffer.used_bytes(), BODY);
        read(&charge, BODY).await.unwrap_err();
        drop(body);
        read(&charge, BODY).await.unwrap();
    }

    #[tokio::test(start_paused = true)]
    async fn unread_responses_delay_the_next_body() {
        let charge = charge(2 * BODY);
        charge.buffer.charge(BODY);
        read(&charge, BODY).await.unwrap_err();
        charge.buffer.discharge(BODY);
        read(&charge, BODY).await.unwrap();
    }
}
