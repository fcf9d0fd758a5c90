//! Keeps what is handed through unread from waiting, or being many, without end.

use std::{
    future::Future,
    pin::Pin,
    sync::{Arc, Mutex, PoisonError},
    task::{Context, Poll, ready},
    time::Duration,
};

use bytes::Bytes;
use http::{Request, Response};
use http_body::{Body, Frame, SizeHint};
use tokio::time::{Instant, Sleep, sleep, sleep_until};

use super::{Gate, Rate, in_flight::Place, measured::status_word};
use crate::{
    observe::Words,
    route::UpstreamName,
    upstream::{
        Caller, UpstreamError,
        http::{self as upstream, HttpUpstream},
    },
};

type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// An upstream that requests are handed through to, with its guards. It has no limit on how long a body is, or
/// on how long it takes as long as some of it comes.
#[derive(Debug, Clone)]
pub struct Passthrough {
    upstream: HttpUpstream,
    gate: Arc<Gate>,
    rate: Option<Arc<Rate>>,
    settings: PassthroughSettings,
    counted: Words,
}

/// How patiently requests are handed through.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PassthroughSettings {
    /// How long the head of a reply may take, from the last part of the request on.
    pub deadline: Duration,
    /// How long a reply's body may pause.
    pub idle_timeout: Duration,
}

impl PassthroughSettings {
    /// For [`idle_timeout`](Self::idle_timeout): streams of events are kept alive by a line every 15 to 30 s.
    pub const IDLE_TIMEOUT_DEFAULT: Duration = Duration::from_secs(60);
}

impl Passthrough {
    /// Puts the guards round an upstream: those that its calls have, too.
    pub(super) fn new(
        upstream: HttpUpstream,
        gate: Arc<Gate>,
        rate: Option<Arc<Rate>>,
        settings: PassthroughSettings,
        counted: Words,
    ) -> Self {
        Self { upstream, gate, rate, settings, counted }
    }

    /// Who gets the requests.
    pub fn name(&self) -> &UpstreamName {
        self.upstream.name()
    }

    /// Hands a request through ([`HttpUpstream::stream`]). Its place is taken until the reply's body has ended or is
    /// dropped.
    ///
    /// # Errors
    ///
    /// [`UpstreamError`], when no head of a reply comes. What goes wrong later breaks the body off.
    pub async fn stream<B>(
        &self,
        request: Request<B>,
        caller: &Caller,
    ) -> Result<Response<StreamedBody>, UpstreamError>
    where
        B: Body<Data = Bytes> + Send + Unpin + 'static,
        B::Error: Into<BoxError>,
    {
        let reply = self.try_stream(request, caller).await;
        self.counted.add(match &reply {
            Ok(reply) => status_word(reply.status()),
            Err(error) => error.as_word(),
        });
        reply
    }

    async fn try_stream<B>(
        &self,
        request: Request<B>,
        caller: &Caller,
    ) -> Result<Response<StreamedBody>, UpstreamError>
    where
        B: Body<Data = Bytes> + Send + Unpin + 'static,
        B::Error: Into<BoxError>,
    {
        if let Some(rate) = &self.rate {
            rate.enter(&Caller::Only).await?;
        }
        let place = self.gate.enter(caller).await?;
        let moved = Moved::default();
        let request = request.map(|body| Watched { body, moved: moved.clone() });
        let after = self.settings.deadline;
        let due = Instant::now() + after;
        let reply = tokio::select! {
            reply = self.upstream.stream(request, due) => reply?,
            () = moved.stood_still_for(after) => {
                return Err(UpstreamError::Deadline { upstream: self.name().clone(), after });
            }
        };
        let idle_timeout = self.settings.idle_timeout;
        Ok(reply.map(|body| StreamedBody { body, idle_timeout, pause: None, _place: place }))
    }
}

/// When something of the request went last.
#[derive(Debug, Clone)]
struct Moved(Arc<Mutex<Instant>>);

impl Default for Moved {
    fn default() -> Self {
        Self(Arc::new(Mutex::new(Instant::now())))
    }
}

impl Moved {
    fn last(&self) -> Instant {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn now(&self) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Instant::now();
    }

    async fn stood_still_for(&self, patience: Duration) {
        loop {
            let last = self.last();
            sleep_until(last + patience).await;
            if self.last() == last {
                return;
            }
        }
    }
}

/// The body of a request, which says when some of it goes.
struct Watched<B> {
    body: B,
    moved: Moved,
}

impl<B: Body + Unpin> Body for Watched<B> {
    type Data = B::Data;
    type Error = B::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<B::Data>, B::Error>>> {
        let frame = ready!(Pin::new(&mut self.body).poll_frame(context));
        self.moved.now();
        Poll::Ready(frame)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

/// The body of a reply that is handed through. It breaks off when the upstream pauses for too long.
#[derive(Debug)]
pub struct StreamedBody {
    body: upstream::StreamedBody,
    idle_timeout: Duration,
    /// Runs while the upstream is waited for, not while the client is.
    pause: Option<Pin<Box<Sleep>>>,
    _place: Place,
}

/// Why a body was broken off.
#[derive(Debug, thiserror::Error)]
#[error("the upstream paused for more than {after:?}")]
struct Paused {
    after: Duration,
}

impl Body for StreamedBody {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        if let Poll::Ready(frame) = Pin::new(&mut self.body).poll_frame(context) {
            self.pause = None;
            return Poll::Ready(frame.map(|frame| frame.map_err(Into::into)));
        }
        let after = self.idle_timeout;
        let pause = self.pause.get_or_insert_with(|| Box::pin(sleep(after)));
        ready!(pause.as_mut().poll(context));
        Poll::Ready(Some(Err(Paused { after }.into())))
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
