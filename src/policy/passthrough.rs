//! Concurrency limit, rate limit and timeouts for passthrough requests.

use std::{
    collections::HashMap,
    future::Future,
    pin::Pin,
    sync::{
        Arc, Mutex, PoisonError, Weak,
        atomic::{AtomicBool, Ordering},
    },
    task::{Context, Poll, ready},
    time::Duration,
};

use bytes::Bytes;
use http::{Request, Response};
use http_body::Body;
use http_body_util::combinators::UnsyncBoxBody;
use settings_derive::Section;
use tokio::{
    sync::{OwnedSemaphorePermit, Semaphore},
    time::{Instant, Sleep, sleep, sleep_until, timeout},
};

use super::{
    ConcurrencyLimit, Counter, OverLimit, PolicySettings, UpstreamPolicies, attempt::status_class,
    concurrency::ConcurrencySlot,
};
use crate::{
    route::UpstreamName,
    upstream::{
        ClientIdentity, UpstreamError,
        http::{self as upstream, HttpUpstream},
    },
    wire::{MapPoll, PolledFrame},
};

type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// Response body of a passthrough request. It fails if the upstream pauses for longer than the idle timeout.
pub type PassthroughBody = UnsyncBoxBody<Bytes, BoxError>;

/// Minimum upload rate of a client in bytes per second, once the timeout for a short body is over.
const UPLOAD_RATE: u64 = 1 << 10;

/// Policies of passthrough requests to one upstream. The length of bodies is not limited, nor the duration of
/// a response while its body makes progress.
#[derive(Debug, Clone)]
pub struct Passthrough {
    upstream: HttpUpstream,
    policies: Arc<UpstreamPolicies>,
    slots: Arc<Slots>,
    settings: PassthroughSettings,
}

/// Settings of passthrough requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Section)]
pub struct PassthroughSettings {
    /// Idle timeout of a response body.
    // Event streams are usually kept alive by a line every 15 to 30 s.
    #[key(range = 1..=24 * 3_600_000, default = Duration::from_secs(60))]
    pub idle_timeout: Duration,
    /// Maximum number of concurrent passthrough requests, within the `max_in_flight` of the upstream.
    #[key(range = 1..=1_000_000, shown = "half of that, which leaves the other half to calls")]
    pub max_in_flight: Option<usize>,
    /// Maximum per client; further requests are queued for up to 2 s.
    #[key(range = 1..=1_000_000, shown = "half of `max_in_flight`")]
    pub max_in_flight_per_client: Option<usize>,
    /// Timeout of the response headers, from the last part of the request.
    #[key(skip)]
    pub timeout: Duration,
    /// Timeout of the request body. Each KiB received extends it by a second.
    #[key(skip)]
    pub body_timeout: Duration,
}

impl Passthrough {
    /// Applies the concurrency and rate limits of the upstream's calls to its passthrough requests.
    pub(super) fn new(
        policies: Arc<UpstreamPolicies>,
        upstream: HttpUpstream,
        settings: PassthroughSettings,
    ) -> Self {
        let queue_rejected = policies.counts.queue_rejected.clone();
        let slots =
            Arc::new(Slots::new(upstream.name().clone(), settings, policies.settings, queue_rejected));
        Self { upstream, policies, slots, settings }
    }

    /// Name of the upstream.
    pub fn name(&self) -> &UpstreamName {
        self.upstream.name()
    }

    /// Forwards a request ([`HttpUpstream::stream`]). Its slots are held until the response body has ended or
    /// is dropped.
    ///
    /// # Errors
    ///
    /// [`UpstreamError`] if no response headers arrive. A later failure truncates the body.
    pub async fn stream<B>(
        &self,
        request: Request<B>,
        client: &ClientIdentity,
    ) -> Result<Response<PassthroughBody>, UpstreamError>
    where
        B: Body<Data = Bytes> + Send + Unpin + 'static,
        B::Error: Into<BoxError>,
    {
        let response = self.try_stream(request, client).await;
        self.policies.counts.passthrough.add(match &response {
            Ok(response) => status_class(response.status()),
            Err(error) => error.properties().label,
        });
        response
    }

    async fn try_stream<B>(
        &self,
        request: Request<B>,
        client: &ClientIdentity,
    ) -> Result<Response<PassthroughBody>, UpstreamError>
    where
        B: Body<Data = Bytes> + Send + Unpin + 'static,
        B::Error: Into<BoxError>,
    {
        if let Some(rate) = &self.policies.rate {
            rate.admit(client, OverLimit::Rejected).await?;
        }
        let slot = self.slots.acquire(client).await?;
        let in_flight = self.policies.concurrency.acquire(Some(client)).await?;
        let (moved, upload) = (LastProgress::default(), Upload::new(self.settings.body_timeout));
        let is_late = upload.is_late.clone();
        let request = request.map(|body| watched(body, moved.clone(), upload));
        let after = self.settings.timeout;
        let deadline = Instant::now() + after;
        let response = tokio::select! {
            response = self.upstream.stream(request, deadline) => response.map_err(|error| {
                let (upstream, after) = (self.name().clone(), self.settings.body_timeout);
                if is_late.load(Ordering::Relaxed) { UpstreamError::SlowUpload { upstream, after } } else { error }
            })?,
            () = moved.stalled_for(after) => {
                return Err(UpstreamError::Deadline { upstream: self.name().clone(), after });
            }
        };
        let idle_timeout = self.settings.idle_timeout;
        Ok(response.map(|body| with_idle_timeout(body, idle_timeout, (slot, in_flight))))
    }
}

/// Concurrency slots of passthrough requests. They are a part of the upstream's slots, so that slow clients
/// leave the others to calls; and one client can't take all of them.
#[derive(Debug)]
struct Slots {
    concurrency: ConcurrencyLimit,
    /// Limit per client. `None` if it equals the total limit.
    per_client: Option<usize>,
    queue_timeout: Duration,
    clients: Mutex<HashMap<ClientIdentity, Weak<Semaphore>>>,
    queue_rejected: Counter,
}

/// Slot, released on drop.
#[derive(Debug)]
struct Slot {
    _of_client: Option<OwnedSemaphorePermit>,
    _slot: ConcurrencySlot,
}

impl Slots {
    /// Number of clients at which those without a slot are dropped from the map.
    const TRACKED_CLIENTS_LIMIT: usize = 1024;

    fn new(
        upstream: UpstreamName,
        settings: PassthroughSettings,
        policy: PolicySettings,
        queue_rejected: Counter,
    ) -> Self {
        let limit = policy.max_in_flight;
        let limit = settings.max_in_flight.unwrap_or_else(|| limit.div_ceil(2)).min(limit);
        let per_client = settings.max_in_flight_per_client.unwrap_or_else(|| limit.div_ceil(2));
        let own = PolicySettings { max_in_flight: limit, max_in_flight_per_client: None, ..policy };
        Self {
            concurrency: ConcurrencyLimit::new(upstream, own, queue_rejected.clone()),
            per_client: Some(per_client).filter(|count| *count < limit),
            queue_timeout: policy.queue_timeout,
            clients: Mutex::default(),
            queue_rejected,
        }
    }

    /// Acquires a slot for a client. A client at its limit waits until one of its slots is released.
    async fn acquire(&self, client: &ClientIdentity) -> Result<Slot, UpstreamError> {
        let of_client = match self.per_client {
            None => None,
            Some(limit) => {
                let slots = self.client_semaphore(client, limit);
                let slot = timeout(self.queue_timeout, slots.acquire_owned()).await;
                Some(slot.map_err(|_| {
                    self.queue_rejected.add();
                    UpstreamError::ClientBusy {
                        upstream: self.concurrency.upstream().clone(),
                        in_flight_limit: limit,
                    }
                })?)
            }
        };
        let of_client = of_client.map(|slot| slot.expect("the semaphore is never closed"));
        Ok(Slot { _of_client: of_client, _slot: self.concurrency.acquire(None).await? })
    }

    fn client_semaphore(&self, client: &ClientIdentity, limit: usize) -> Arc<Semaphore> {
        let mut clients = self.clients.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(slots) = clients.get(client).and_then(Weak::upgrade) {
            return slots;
        }
        if clients.len() >= Self::TRACKED_CLIENTS_LIMIT {
            clients.retain(|_, slots| slots.strong_count() > 0);
        }
        let slots = Arc::new(Semaphore::new(limit.min(Semaphore::MAX_PERMITS)));
        clients.insert(client.clone(), Arc::downgrade(&slots));
        slots
    }
}

/// Upload rate check of one request body. Only the time spent waiting for the client counts: while the
/// upstream does not read, no data is requested from the client.
#[derive(Debug)]
struct Upload {
    timeout: Duration,
    received_bytes: u64,
    /// Time spent waiting for the client so far.
    waited: Duration,
    /// Start of the current wait, and its timer.
    waiting: Option<(Instant, Pin<Box<Sleep>>)>,
    is_late: Arc<AtomicBool>,
}

/// Error of a body that is too slow.
#[derive(Debug, thiserror::Error)]
#[error("the client sends its request body too slowly")]
struct UploadTooSlow;

impl Upload {
    fn new(timeout: Duration) -> Self {
        let is_late = Arc::default();
        Self { timeout, received_bytes: 0, waited: Duration::ZERO, waiting: None, is_late }
    }

    fn received(&mut self, bytes: usize) {
        self.received_bytes += bytes as u64;
        if let Some((since, _)) = self.waiting.take() {
            self.waited += since.elapsed();
        }
    }

    /// Ready once the client's time is over.
    fn poll_late(&mut self, context: &mut Context<'_>) -> Poll<()> {
        let allowed = self.timeout + Duration::from_secs(self.received_bytes / UPLOAD_RATE);
        let left = allowed.saturating_sub(self.waited);
        let (_, late) = self.waiting.get_or_insert_with(|| (Instant::now(), Box::pin(sleep(left))));
        ready!(late.as_mut().poll(context));
        self.is_late.store(true, Ordering::Relaxed);
        Poll::Ready(())
    }
}

/// Time of the last progress of the request.
#[derive(Debug, Clone)]
struct LastProgress(Arc<Mutex<Instant>>);

impl Default for LastProgress {
    fn default() -> Self {
        Self(Arc::new(Mutex::new(Instant::now())))
    }
}

impl LastProgress {
    fn last_at(&self) -> Instant {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn record_now(&self) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Instant::now();
    }

    async fn stalled_for(&self, idle_timeout: Duration) {
        loop {
            let last = self.last_at();
            sleep_until(last + idle_timeout).await;
            if self.last_at() == last {
                return;
            }
        }
    }
}

/// Request body that records the progress of its frames in `moved`, and fails if the client is too slow.
fn watched<B>(
    body: B,
    moved: LastProgress,
    mut upload: Upload,
) -> impl Body<Data = Bytes, Error = BoxError> + Unpin
where
    B: Body<Data = Bytes> + Unpin,
    B::Error: Into<BoxError>,
{
    MapPoll::new(body, move |polled: PolledFrame<B::Error>, context: &mut Context<'_>| {
        let Poll::Ready(frame) = polled else {
            ready!(upload.poll_late(context));
            return Poll::Ready(Some(Err(UploadTooSlow.into())));
        };
        let data = frame.as_ref().and_then(|frame| frame.as_ref().ok()?.data_ref());
        upload.received(data.map_or(0, Bytes::len));
        moved.record_now();
        Poll::Ready(frame.map(|frame| frame.map_err(Into::into)))
    })
}

/// Error of a response body whose upstream paused for too long.
#[derive(Debug, thiserror::Error)]
#[error("the upstream paused for more than {after:?}")]
struct StalledResponse {
    after: Duration,
}

/// Response body with an idle timeout. `held` is dropped with it.
///
/// The timer runs only while waiting for the upstream, not while the client is slow to read.
fn with_idle_timeout<H>(body: upstream::StreamedBody, after: Duration, held: H) -> PassthroughBody
where
    H: Send + Unpin + 'static,
{
    let mut pause: Option<Pin<Box<Sleep>>> = None;
    UnsyncBoxBody::new(MapPoll::new(body, move |polled: PolledFrame<_>, context: &mut Context<'_>| {
        let _ = &held;
        if let Poll::Ready(frame) = polled {
            pause = None;
            return Poll::Ready(frame.map(|frame| frame.map_err(BoxError::from)));
        }
        ready!(pause.get_or_insert_with(|| Box::pin(sleep(after))).as_mut().poll(context));
        Poll::Ready(Some(Err(StalledResponse { after }.into())))
    }))
}

#[cfg(test)]
mod tests {
    use std::{convert::Infallible, future::poll_fn};

    use http_body::Frame;

    use super::*;
    use crate::policy::mock::name;

    const SECOND: Duration = Duration::from_secs(1);

    /// Endless body that yields so many bytes at an interval.
    struct Client {
        bytes: usize,
        every: Duration,
        next: Pin<Box<Sleep>>,
    }

    impl Body for Client {
        type Data = Bytes;
        type Error = Infallible;

        fn poll_frame(
            mut self: Pin<&mut Self>,
            context: &mut Context<'_>,
        ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
            ready!(self.next.as_mut().poll(context));
            self.next = Box::pin(sleep(self.every));
            Poll::Ready(Some(Ok(Frame::data(vec![b'a'; self.bytes].into()))))
        }
    }

    /// Number of frames within a minute, and when the body failed.
    async fn upload(bytes: usize, every: Duration, queue_rejected: Duration) -> (usize, Option<Duration>) {
        let started = Instant::now();
        let body = Client { bytes, every, next: Box::pin(sleep(every)) };
        let upload = Upload::new(5 * SECOND);
        let mut watched = watched(body, LastProgress::default(), upload);
        let mut frames = 0;
        while started.elapsed() < 60 * SECOND {
            match poll_fn(|context| Pin::new(&mut watched).poll_frame(context)).await {
                Some(Ok(_)) => frames += 1,
                Some(Err(_)) => return (frames, Some(started.elapsed())),
                None => unreachable!("it has no end"),
            }
            sleep(queue_rejected).await;
        }
        (frames, None)
    }

    #[tokio::test(start_paused = true)]
    async fn a_trickled_body_times_out_like_a_missing_one() {
        let idle = Duration::ZERO;
        assert_eq!(upload(1, 9 * SECOND, idle).await, (0, Some(5 * SECOND)));
        let (frames, broken_off) = upload(1, SECOND, idle).await;
        assert_eq!((frames, broken_off.map(|after| after.as_secs())), (5, Some(5)));
        assert_eq!(upload(2 << 10, SECOND, idle).await, (60, None), "it is fast enough");
        assert_eq!(upload(1, SECOND / 10, 9 * SECOND).await.1, None, "the upstream is slow, not the client");
    }

    #[tokio::test(start_paused = true)]
    async fn passthrough_has_half_of_the_slots_and_one_client_half_of_these() {
        let settings = PassthroughSettings {
            timeout: SECOND,
            idle_timeout: SECOND,
            body_timeout: SECOND,
            max_in_flight: None,
            max_in_flight_per_client: None,
        };
        let policy = PolicySettings { max_in_flight: 8, max_queued: 0, ..PolicySettings::default() };
        let slots = Slots::new(name(), settings, policy, Counter::default());
        let client = |last: u8| ClientIdentity::from_address([10, 0, 0, last].into());
        let (first, _second) =
            (slots.acquire(&client(1)).await.unwrap(), slots.acquire(&client(1)).await.unwrap());
        let started = Instant::now();
        let third = slots.acquire(&client(1)).await.unwrap_err();
        assert!(matches!(third, UpstreamError::ClientBusy { in_flight_limit: 2, .. }), "{third}");
        assert_eq!(started.elapsed(), policy.queue_timeout);
        let _others = (slots.acquire(&client(2)).await.unwrap(), slots.acquire(&client(3)).await.unwrap());
        let fifth = slots.acquire(&client(4)).await.unwrap_err();
        assert!(matches!(fifth, UpstreamError::Busy { in_flight_limit: 4, .. }), "{fifth}");
        drop(first);
        slots.acquire(&client(1)).await.unwrap();
    }
}
