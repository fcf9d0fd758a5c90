//! A request and its reply over a connection of HTTP/1, which moves on only while its call waits for it.
//!
//! Elsewhere a connection has a task of its own, and a call talks to it through channels: two wake-ups and two switches
//! more for every reply. Here whoever waits for the reply moves the connection, and a [`Bell`] wakes it. In between
//! nobody does, so that a server has closed it is found out when it is taken for the next request, or when it has waited
//! long enough.

use std::{
    future::{Future, poll_fn},
    pin::{Pin, pin},
    sync::Arc,
    task::{Context, Poll, Waker},
};

use bytes::Bytes;
use http::{Request, Response};
use http_body::{Body, Frame, SizeHint};
use hyper::{
    body::Incoming,
    client::conn::{TrySendError, http1},
};
use tokio::task::unconstrained;

use super::{bell::Bell, connector::Wire, outgoing::Outgoing, pool::Pool};

/// The longest status line and headers of a reply that are read.
pub(in crate::upstream) const HEAD_LIMIT_BYTES: usize = 128 << 10;

/// The largest number of headers of a reply that are read: `hyper`'s own. Told to keep another one, or the same, it
/// would make room for them anew for every reply.
pub(in crate::upstream) const HEADER_COUNT_LIMIT: usize = 100;

/// How often a connection is moved on in one go, where there is more to be done each time.
const ROUND_LIMIT: u32 = 4;

/// A connection that serves one request after another.
pub(super) struct Http1 {
    sender: http1::SendRequest<Outgoing>,
    connection: http1::Connection<Wire, Outgoing>,
    bell: Bell,
    has_answered: bool,
}

impl Http1 {
    pub(super) async fn over(wire: Wire) -> Result<Box<Self>, hyper::Error> {
        let handshake = http1::Builder::new()
            .max_buf_size(HEAD_LIMIT_BYTES)
            // What old servers do and every browser bears with.
            .allow_spaces_after_header_name_in_responses(true)
            .allow_obsolete_multiline_headers_in_responses(true)
            .ignore_invalid_headers_in_responses(true)
            .handshake(wire);
        let (sender, connection) = handshake.await?;
        Ok(Box::new(Self { sender, connection, bell: Bell::new(), has_answered: false }))
    }

    /// Whether it has served others before.
    pub(super) fn has_answered(&self) -> bool {
        self.has_answered
    }

    /// Whether it is open and takes a request.
    pub(super) fn is_free(&mut self) -> bool {
        let mut moving = unconstrained(&mut self.connection);
        let is_open = Pin::new(&mut moving).poll(&mut Context::from_waker(self.bell.waker())).is_pending();
        is_open && self.sender.is_ready()
    }

    /// Sends a request. When it fails before anything was sent, the request comes back.
    pub(super) async fn send(
        mut self: Box<Self>,
        request: Request<Outgoing>,
        home: Arc<Pool>,
    ) -> Result<Response<ReplyBody>, TrySendError<Request<Outgoing>>> {
        let mut answer = pin!(unconstrained(self.sender.try_send_request(request)));
        let mut moving = Moving(Some(self));
        let answered = poll_fn(|context| moving.until(context, |unwoken| answer.as_mut().poll(unwoken)));
        let response = answered.await?;
        if let Some(connection) = &mut moving.0 {
            connection.has_answered = true;
        }
        Ok(response.map(|incoming| ReplyBody { incoming, moving, home: Some(home) }))
    }
}

/// A connection as long as it is there.
struct Moving(Option<Box<Http1>>);

impl Moving {
    /// Moves it on until there is what comes by it. Whoever asks for that need not be woken by anything else.
    fn until<T>(
        &mut self,
        context: &mut Context<'_>,
        mut ask: impl FnMut(&mut Context<'_>) -> Poll<T>,
    ) -> Poll<T> {
        let unwoken = &mut Context::from_waker(Waker::noop());
        for _ in 0..ROUND_LIMIT {
            let Some(connection) = &mut self.0 else { return ask(context) };
            connection.bell.hush();
            if let Poll::Ready(there) = ask(unwoken) {
                return Poll::Ready(there);
            }
            let moving = Pin::new(&mut connection.connection);
            if moving.poll(&mut Context::from_waker(connection.bell.waker())).is_ready() {
                // What is wrong with it is told to who asks.
                self.0 = None;
                continue;
            }
            if let Poll::Ready(there) = ask(unwoken) {
                return Poll::Ready(there);
            }
            if !connection.bell.wait_for(context.waker()) {
                return Poll::Pending;
            }
        }
        // Others want to have their turn.
        context.waker().wake_by_ref();
        Poll::Pending
    }
}

/// The body of a reply as it comes in. Its connection waits for a next request once it was read to its end; when it is
/// dropped before, the connection closes.
pub(in crate::upstream) struct ReplyBody {
    incoming: Incoming,
    moving: Moving,
    /// Where the connection goes in the end; nowhere where it is shared.
    home: Option<Arc<Pool>>,
}

impl ReplyBody {
    /// One that comes over a connection which others use too.
    pub(super) fn of_shared(incoming: Incoming) -> Self {
        Self { incoming, moving: Moving(None), home: None }
    }

    /// Closes the connection: what else comes over it can't be relied on.
    pub(super) fn close(&mut self) {
        self.home = None;
        self.moving = Moving(None);
    }

    fn give_back(&mut self) {
        if let (Some(mut connection), Some(home)) = (self.moving.0.take(), self.home.take())
            && (connection.sender.is_ready() || connection.is_free())
        {
            home.keep(connection);
        }
    }
}

impl Body for ReplyBody {
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        let this = self.get_mut();
        let mut incoming = Pin::new(&mut this.incoming);
        let polled = this.moving.until(context, |context| incoming.as_mut().poll_frame(context));
        if let Poll::Ready(None) = polled {
            this.give_back();
        }
        polled
    }

    fn is_end_stream(&self) -> bool {
        self.incoming.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.incoming.size_hint()
    }
}

impl Drop for ReplyBody {
    fn drop(&mut self) {
        if self.incoming.is_end_stream() {
            self.give_back();
        }
    }
}

impl std::fmt::Debug for ReplyBody {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_tuple("ReplyBody").field(&self.incoming).finish()
    }
}
