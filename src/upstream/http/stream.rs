//! Hands a request through to an upstream, and its reply back, unread.

use std::{
    pin::Pin,
    sync::{Arc, Mutex, PoisonError},
    task::{Context, Poll, ready},
};

use bytes::Bytes;
use http::{HeaderValue, Request, Response, header, request::Parts, uri::PathAndQuery};
use http_body::{Body, Frame, SizeHint};
use http_body_util::{BodyExt, combinators::UnsyncBoxBody};
use tokio::time::Instant;

use super::{
    HttpUpstream, ReplyBody, UpstreamError,
    outgoing::{BoxError, Outgoing},
    remove_hop_by_hop,
    targets::{Load, Outcome, Target},
};
use crate::{
    telemetry::Ticket,
    upstream::{Stage, Tried},
};

/// A reply that is passed through: its headers read, its body not.
pub type Streamed = Response<StreamedBody>;

impl HttpUpstream {
    /// Sends a request as it is and gives the reply as it comes: nothing is buffered, limited or understood.
    ///
    /// Method, path, query, body and end-to-end headers cross unchanged; headers of one hop do not, nor does
    /// `Expect`, which this program has answered itself. `Host` becomes the upstream's, as an old server knows
    /// itself by that name only. The upstream's own `headers` setting is not added: a credential that belongs
    /// to routes is not lent to whoever asks. When an address can't be reached, another is asked.
    ///
    /// Who stops waiting after `due` has given the address up for its silence.
    ///
    /// # Errors
    ///
    /// [`UpstreamError`], when no head of a reply comes. What goes wrong later breaks the body off.
    pub async fn stream<B>(&self, request: Request<B>, due: Instant) -> Result<Streamed, UpstreamError>
    where
        B: Body<Data = Bytes> + Send + 'static,
        B::Error: Into<BoxError>,
    {
        let (mut head, body) = request.into_parts();
        head.version = self.version();
        head.extensions.clear();
        remove_hop_by_hop(&mut head.headers);
        head.headers.remove(header::EXPECT);
        let tried = Tried::default();
        let mut load = self.targets().pick(&tried, due).await?;
        let home = Home::default();
        let mut body = Some(UnsyncBoxBody::new(body.map_err(Into::into)));
        loop {
            let Some(untouched) = body.take() else { unreachable!("the loop goes on with a body only") };
            let lent = UnsyncBoxBody::new(Lent { body: Some(untouched), home: home.clone(), touched: false });
            let request = self.request_at(load.target(), &head, Outgoing::Passed(lent))?;
            let result = self.send(load.target(), request).await;
            let outcome = match &result {
                Ok(reply) => Outcome::of_status(reply.status()),
                Err(error) => Outcome::of_error(error),
            };
            load.tell(outcome, &Ticket::default());
            match result {
                Ok(mut reply) => {
                    remove_hop_by_hop(reply.headers_mut());
                    return Ok(reply.map(|body| StreamedBody { body, broken_off: None, _load: load }));
                }
                Err(error) if error.facts().stage == Stage::NotReached => {
                    body = home.take();
                    match self.targets().pick_other(&tried, due).filter(|_| body.is_some()) {
                        Some(other) => load = other,
                        None => return Err(error),
                    }
                }
                Err(error) => return Err(error),
            }
        }
    }

    fn request_at(
        &self,
        target: &Target,
        head: &Parts,
        body: Outgoing,
    ) -> Result<Request<Outgoing>, UpstreamError> {
        let mut head = head.clone();
        let root = PathAndQuery::from_static("/");
        let path = head.uri.path_and_query().unwrap_or(&root);
        head.uri = target.address().join(path).map_err(|source| self.unsendable(source))?;
        let host = HeaderValue::from_str(target.address().authority().as_str())
            .expect("an authority has visible ASCII characters only");
        head.headers.insert(header::HOST, host);
        Ok(Request::from_parts(head, body))
    }
}

/// The body of a reply that is passed through, as it comes in. Its address is busy with it until it is dropped.
#[derive(Debug)]
pub struct StreamedBody {
    body: ReplyBody,
    /// Why it is broken off, until that is told.
    broken_off: Option<hyper::Error>,
    _load: Load,
}

impl Body for StreamedBody {
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        if let Some(error) = self.broken_off.take() {
            return Poll::Ready(Some(Err(error)));
        }
        match ready!(Pin::new(&mut self.body).poll_frame(context)) {
            // Who is told of it writes no more: what came before is written first.
            Some(Err(error)) => {
                self.broken_off = Some(error);
                context.waker().wake_by_ref();
                Poll::Pending
            }
            frame => Poll::Ready(frame),
        }
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream() && self.broken_off.is_none()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

type AnyBody = UnsyncBoxBody<Bytes, BoxError>;

/// Where a body goes that nobody has read from.
#[derive(Debug, Clone, Default)]
struct Home(Arc<Mutex<Option<AnyBody>>>);

impl Home {
    fn take(&self) -> Option<AnyBody> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

/// A body that is lent to one attempt. Where that could not even connect it comes back, to be sent elsewhere.
#[derive(Debug)]
struct Lent {
    body: Option<AnyBody>,
    home: Home,
    touched: bool,
}

impl Body for Lent {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        self.touched = true;
        match &mut self.body {
            Some(body) => Pin::new(body).poll_frame(context),
            None => Poll::Ready(None),
        }
    }

    fn is_end_stream(&self) -> bool {
        self.body.as_ref().is_none_or(AnyBody::is_end_stream)
    }

    fn size_hint(&self) -> SizeHint {
        self.body.as_ref().map_or_else(SizeHint::default, AnyBody::size_hint)
    }
}

impl Drop for Lent {
    fn drop(&mut self) {
        if !self.touched {
            *self.home.0.lock().unwrap_or_else(PoisonError::into_inner) = self.body.take();
        }
    }
}
