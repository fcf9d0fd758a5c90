//! A call to an upstream: the request with its limits, progress, and the endpoints that were tried.

use std::{
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use tokio::{sync::mpsc, time::Instant};

use super::{BodyCharge, Caller, UpstreamError, buffer::BodyAccount};
use crate::{
    model::Reply,
    route::{UpstreamName, UpstreamRequest},
    telemetry::Ticket,
};

/// A request, and the limits of its response.
#[derive(Debug, Clone)]
pub struct Ask {
    /// The request to send.
    pub request: UpstreamRequest,
    /// How many bytes of body are read.
    pub reply_limit_bytes: usize,
    /// When it must be over, waits and retries included. Enforced by `policy`, not here.
    pub due: Due,
    /// Whether it does no harm to send the request again.
    pub idempotent: bool,
    /// The client that it is sent for. For `policy`, as `due` and `idempotent` are: nothing of it is sent.
    pub caller: Caller,
    /// The channel for progress before the response.
    pub meanwhile: Option<Meanwhile>,
    /// The call that it is sent for.
    pub ticket: Ticket,
    /// How the body of its response is charged to the memory that all responses share; not at all where there
    /// is none.
    pub charge: Option<BodyCharge>,
    /// Whether the trace is propagated to the upstream, where no setting decides.
    pub traced: bool,
}

impl Ask {
    /// A request of this process, without progress.
    pub fn new(request: UpstreamRequest, reply_limit_bytes: usize, due: Due, idempotent: bool) -> Self {
        Self {
            request,
            reply_limit_bytes,
            due,
            idempotent,
            caller: Caller::Only,
            meanwhile: None,
            ticket: Ticket::default(),
            charge: None,
            traced: false,
        }
    }

    /// A response that was read for another call, charged to this one.
    ///
    /// # Errors
    ///
    /// [`UpstreamError::BufferFull`].
    pub(crate) async fn charged(
        &self,
        reply: Reply,
        upstream: &UpstreamName,
    ) -> Result<Reply, UpstreamError> {
        match &self.charge {
            None => Ok(reply),
            Some(charge) => charge.share(reply, upstream, self.reply_limit_bytes, self.due.at).await,
        }
    }

    /// The account of its response's body.
    pub(super) fn account(&self, limit_bytes: usize) -> BodyAccount<'_> {
        BodyAccount::new(self.charge.as_ref(), limit_bytes, self.due.at)
    }
}

/// The end of a call's time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Due {
    /// The end.
    pub at: Instant,
    /// How long it was from the beginning on, for messages.
    pub after: Duration,
    /// When it would end for a client that waits as long as it may. An upstream that has not responded by
    /// then is late; before, it may be the client that is impatient.
    pub latest: Instant,
}

impl Due {
    /// The end of a time that begins now.
    pub fn after(after: Duration) -> Self {
        let at = Instant::now() + after;
        Self { at, after, latest: at }
    }

    /// The same for a client that waits no longer than this.
    #[must_use]
    pub fn within(self, patience: Option<Duration>) -> Self {
        match patience.filter(|patience| *patience < self.after) {
            Some(patience) => Self { at: Instant::now() + patience, after: patience, latest: self.latest },
            None => self,
        }
    }

    /// The end of this share of the time that is left.
    #[must_use]
    pub fn share(self, share: f64) -> Self {
        let now = Instant::now();
        let part = |end: Instant| now + end.saturating_duration_since(now).mul_f64(share);
        Self { at: part(self.at), latest: part(self.latest), ..self }
    }

    /// The same for all clients that may wait for one response, however long each of them waits.
    #[must_use]
    pub fn for_everybody(self) -> Self {
        Self { at: self.latest, ..self }
    }
}

/// How many events may wait to be received; others are lost, as newer ones follow.
const EVENT_QUEUE_LIMIT: usize = 32;

/// An event before the response is whole.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Happened {
    /// A part of the body has arrived.
    Received {
        /// Bytes until now.
        bytes: u64,
        /// The length of the body, if the upstream announced it.
        of: Option<u64>,
    },
    /// The request is sent again.
    Again {
        /// The number of the attempt, from 2.
        attempt: u32,
    },
    /// The upstream reports progress.
    Progress {
        /// So far.
        done: f64,
        /// The total, if there is one.
        total: Option<f64>,
    },
}

/// Sends events. Clones are the same one.
#[derive(Debug, Clone)]
pub struct Meanwhile(mpsc::Sender<Happened>);

/// Receives events.
pub type Hearing = mpsc::Receiver<Happened>;

impl Meanwhile {
    /// Both ends.
    pub fn new() -> (Self, Hearing) {
        let (sender, hearing) = mpsc::channel(EVENT_QUEUE_LIMIT);
        (Self(sender), hearing)
    }

    /// Sends an event.
    pub fn tell(&self, happened: Happened) {
        let _ = self.0.try_send(happened);
    }
}

/// The endpoints that the attempts of one call were sent to, hedged ones too.
#[derive(Debug, Default)]
pub struct Tried(Mutex<Vec<u64>>);

impl Tried {
    /// Whether one of them is this.
    pub fn has(&self, id: u64) -> bool {
        self.list().contains(&id)
    }

    /// One more.
    pub fn add(&self, id: u64) {
        let mut list = self.list();
        if !list.contains(&id) {
            list.push(id);
        }
    }

    fn list(&self) -> MutexGuard<'_, Vec<u64>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
