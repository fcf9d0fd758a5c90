//! Concurrency limit, rate limit and timeouts for passthrough requests.

use std::{
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    task::{Context, Poll, ready},
    time::Duration,
};

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::combinators::UnsyncBoxBody;
use settings_derive::Section;
use tokio::{
    sync::watch,
    time::{Instant, Sleep, sleep, timeout},
};

use super::concurrency::ConcurrencySlot;
use super::{ConcurrencyLimit, OverLimit, PolicySettings, UpstreamPolicies, status_class};
use crate::route::{Scopes, UpstreamName};
use crate::upstream::http::{HttpUpstream, RequestBody, StreamedBody};
use crate::upstream::{ClientIdentity, Failure, UpstreamError};
use crate::wire::{MapPoll, PolledFrame};

type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// Response body of a passthrough request. It fails if the upstream pauses for longer than the idle timeout.
pub type PassthroughBody = UnsyncBoxBody<Bytes, BoxError>;

/// Minimum upload rate of a passthrough client in bytes per second: this number of bytes extends
/// `body_timeout` by a second.
const UPLOAD_RATE: u64 = 1 << 10;

/// Policies of passthrough requests to one upstream. The length of bodies is not limited, nor the duration of
/// a response while its body makes progress.
#[derive(Debug, Clone)]
pub struct Passthrough {
    upstream: HttpUpstream,
    policies: Arc<UpstreamPolicies>,
    /// Concurrency limit of passthrough: a part of the upstream's slots, so that slow clients leave the other
    /// slots to calls. One client can't occupy the whole part.
    slots: Arc<ConcurrencyLimit>,
    pub(crate) settings: PassthroughSettings,
}

/// Settings of passthrough requests.
#[derive(Debug, Clone, PartialEq, Eq, Section)]
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
    /// Scopes that a client needs for passthrough; required if there are `clients`.
    pub scopes: Scopes,
    /// Timeout of the response headers, from the last part of the request.
    #[key(skip)]
    pub timeout: Duration,
    /// Timeout of the request body. Each KiB received extends it by a second.
    #[key(skip)]
    pub body_timeout: Duration,
}

impl Passthrough {
    /// Creates the policies of passthrough requests, which share the concurrency and rate limits of the
    /// upstream's calls. `None` if the upstream is not an HTTP server.
    pub fn new(policies: Arc<UpstreamPolicies>, settings: PassthroughSettings) -> Option<Self> {
        let upstream = policies.upstream.http()?.clone();
        let limit = policies.settings.max_in_flight();
        let limit = settings.max_in_flight.unwrap_or_else(|| limit.div_ceil(2)).min(limit);
        let per_client = settings.max_in_flight_per_client.unwrap_or_else(|| limit.div_ceil(2));
        let per_client = Some(per_client).filter(|count| *count < limit);
        let (wait, events) = (PolicySettings::QUEUE_TIMEOUT, policies.events.clone());
        let slots = Arc::new(ConcurrencyLimit::new(limit, per_client, wait, events));
        Some(Self { upstream, policies, slots, settings })
    }

    /// Name of the upstream.
    pub fn name(&self) -> &UpstreamName {
        self.upstream.name()
    }

    /// Forwards a passthrough request ([`HttpUpstream::stream`]). Its slots are held until the response body
    /// has ended or is dropped.
    ///
    /// # Errors
    ///
    /// [`UpstreamError`] if no response headers arrive. A later failure truncates the body.
    pub async fn stream(
        &self,
        request: Request<RequestBody>,
        client: &ClientIdentity,
    ) -> Result<Response<PassthroughBody>, UpstreamError> {
        let (progress, is_late) = (watch::Sender::new(false), Arc::new(AtomicBool::new(false)));
        let timeout = self.settings.body_timeout;
        let request =
            request.map(|body| with_upload_timeout(body, progress.clone(), timeout, is_late.clone()));
        let response = self.try_stream(request, client, progress.subscribe()).await.map_err(|failure| {
            if is_late.load(Ordering::Relaxed) { Failure::SlowUpload(timeout) } else { failure }
        });
        self.policies.passthrough.add(match &response {
            Ok(response) => status_class(response.status()),
            Err(failure) => failure.properties().label,
        });
        response.map_err(|failure| failure.into_error(self.name()))
    }

    async fn try_stream(
        &self,
        request: Request<RequestBody>,
        client: &ClientIdentity,
        mut progress: watch::Receiver<bool>,
    ) -> Result<Response<PassthroughBody>, Failure> {
        if let Some(rate) = &self.policies.rate {
            rate.admit(client, OverLimit::Rejected).await?;
        }
        // Both slots are held until the response body has ended. A client at its passthrough limit waits up
        // to 2 s for one of its own slots.
        let slots =
            [self.slots.acquire(Some(client)).await?, self.policies.concurrency.acquire(Some(client)).await?];
        let header_timeout = self.settings.timeout;
        let stalled = async {
            // While glossator waits for the client, only `body_timeout` applies.
            loop {
                let waits_for_client = *progress.borrow_and_update();
                if waits_for_client {
                    let _ = progress.changed().await;
                } else if timeout(header_timeout, progress.changed()).await.is_err() {
                    return;
                }
            }
        };
        let response = tokio::select! {
            response = self.upstream.stream(request, Instant::now() + header_timeout) => response?,
            () = stalled => return Err(Failure::Timeout(header_timeout)),
        };
        Ok(response.map(|body| with_idle_timeout(body, self.settings.idle_timeout, slots)))
    }
}

/// Request body of a passthrough request. It sends `true` to `progress` when it begins to wait for the
/// client, and `false` after each frame. It fails, and sets `is_late`, if the client is too slow. Only the
/// time spent waiting for the client counts: while the upstream does not read, no data is requested from the
/// client.
fn with_upload_timeout(
    body: RequestBody,
    progress: watch::Sender<bool>,
    timeout: Duration,
    is_late: Arc<AtomicBool>,
) -> RequestBody {
    let (mut received_bytes, mut total_wait) = (0, Duration::ZERO);
    // Start of the current wait for the client, and the timer that ends it.
    let mut current_wait: Option<(Instant, Pin<Box<Sleep>>)> = None;
    UnsyncBoxBody::new(MapPoll::new(body, move |polled: PolledFrame<_>, context: &mut Context<'_>| {
        let Poll::Ready(frame) = polled else {
            let allowed_wait = timeout + Duration::from_secs(received_bytes / UPLOAD_RATE);
            let remaining = allowed_wait.saturating_sub(total_wait);
            let (_, timer) = current_wait.get_or_insert_with(|| {
                progress.send_replace(true);
                (Instant::now(), Box::pin(sleep(remaining)))
            });
            ready!(timer.as_mut().poll(context));
            is_late.store(true, Ordering::Relaxed);
            return Poll::Ready(Some(Err("the client sends its request body too slowly".into())));
        };
        if let Some((wait_started_at, _)) = current_wait.take() {
            total_wait += wait_started_at.elapsed();
        }
        let data = frame.as_ref().and_then(|frame| frame.as_ref().ok()?.data_ref());
        received_bytes += data.map_or(0, Bytes::len) as u64;
        progress.send_replace(false);
        Poll::Ready(frame)
    }))
}

/// Response body with an idle timeout. The slots are released when the body is dropped.
///
/// The timer runs only while waiting for the upstream, not while the client is slow to read.
fn with_idle_timeout(
    body: StreamedBody,
    idle_timeout: Duration,
    slots: [ConcurrencySlot; 2],
) -> PassthroughBody {
    let mut timer: Option<Pin<Box<Sleep>>> = None;
    UnsyncBoxBody::new(MapPoll::new(body, move |polled: PolledFrame<_>, context: &mut Context<'_>| {
        let _ = &slots;
        if let Poll::Ready(frame) = polled {
            timer = None;
            return Poll::Ready(frame.map(|frame| frame.map_err(BoxError::from)));
        }
        ready!(timer.get_or_insert_with(|| Box::pin(sleep(idle_timeout))).as_mut().poll(context));
        Poll::Ready(Some(Err(format!("the upstream paused for more than {idle_timeout:?}").into())))
    }))
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;

    use http_body::{Body, Frame};

    use super::*;
    use crate::{
        policy::tests::name,
        upstream::{Upstream, UpstreamSettings, http::HttpSettings},
    };

    const SECOND: Duration = Duration::from_secs(1);

    /// Endless body that yields a frame of `bytes` bytes at each interval.
    struct Client {
        bytes: usize,
        interval: Duration,
        next: Pin<Box<Sleep>>,
    }

    impl Body for Client {
        type Data = Bytes;
        type Error = BoxError;

        fn poll_frame(
            mut self: Pin<&mut Self>,
            context: &mut Context<'_>,
        ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
            ready!(self.next.as_mut().poll(context));
            self.next = Box::pin(sleep(self.interval));
            Poll::Ready(Some(Ok(Frame::data(vec![b'a'; self.bytes].into()))))
        }
    }

    /// Number of frames within a minute, and when the body failed.
    async fn upload(bytes: usize, interval: Duration, upstream_pause: Duration) -> (usize, Option<Duration>) {
        let started = Instant::now();
        let body = Client { bytes, interval, next: Box::pin(sleep(interval)) };
        let body = UnsyncBoxBody::new(body);
        let mut body = with_upload_timeout(body, watch::Sender::new(false), 5 * SECOND, Arc::default());
        let mut frames = 0;
        while started.elapsed() < 60 * SECOND {
            match poll_fn(|context| Pin::new(&mut body).poll_frame(context)).await {
                Some(Ok(_)) => frames += 1,
                Some(Err(_)) => return (frames, Some(started.elapsed())),
                None => unreachable!("it has no end"),
            }
            sleep(upstream_pause).await;
        }
        (frames, None)
    }

    #[tokio::test(start_paused = true)]
    async fn a_trickled_body_times_out_like_a_missing_one() {
        let no_pause = Duration::ZERO;
        assert_eq!(upload(1, 9 * SECOND, no_pause).await, (0, Some(5 * SECOND)));
        let (frames, failed_after) = upload(1, SECOND, no_pause).await;
        assert_eq!((frames, failed_after.map(|time| time.as_secs())), (5, Some(5)));
        assert_eq!(upload(2 << 10, SECOND, no_pause).await, (60, None), "it is fast enough");
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
            scopes: Scopes::default(),
        };
        let policy = PolicySettings { max_in_flight: Some(8), ..PolicySettings::default() };
        let upstream = HttpSettings::new(name(), "http://10.0.0.1".parse().unwrap());
        let upstream = Upstream::new(UpstreamSettings::Http(Box::new(upstream)));
        let passthrough = Passthrough::new(UpstreamPolicies::new(upstream, policy, None), settings).unwrap();
        let acquire = async |last: u8| {
            let client = ClientIdentity::from_address([10, 0, 0, last].into());
            passthrough.slots.acquire(Some(&client)).await
        };
        let (first, _second) = (acquire(1).await.unwrap(), acquire(1).await.unwrap());
        let started = Instant::now();
        let third = acquire(1).await.unwrap_err();
        assert!(matches!(third, Failure::ClientBusy(2)), "{third:?}");
        assert_eq!(started.elapsed(), PolicySettings::QUEUE_TIMEOUT);
        let _others = (acquire(2).await.unwrap(), acquire(3).await.unwrap());
        let fifth = acquire(4).await.unwrap_err();
        assert!(matches!(fifth, Failure::Busy(4)), "{fifth:?}");
        drop(first);
        drop(acquire(1).await.unwrap());
    }
}
