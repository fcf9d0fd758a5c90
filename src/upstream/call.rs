//! A call to an upstream: the request with its limits, progress, and the endpoints that were tried.

use std::{
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use tokio::{sync::mpsc, time::Instant};

use super::{BodyCharge, ClientIdentity, UpstreamError, buffer::BodyAccount};
use crate::{
    model::UpstreamResponse,
    route::{UpstreamName, UpstreamRequest},
    telemetry::CallContext,
};

/// A request to an upstream, with its deadline, its client and the limits of its response.
#[derive(Debug, Clone)]
pub struct UpstreamCall {
    /// The request to send.
    pub request: UpstreamRequest,
    /// How many bytes of body are read.
    pub response_limit_bytes: usize,
    /// When it must be over, waits and retries included. Enforced by `policy`, not here.
    pub deadline: Deadline,
    /// Whether it does no harm to send the request again.
    pub idempotent: bool,
    /// The client that it is sent for. For `policy`, as `deadline` and `idempotent` are: nothing of it is sent.
    pub client: ClientIdentity,
    /// The channel for progress before the response.
    pub meanwhile: Option<ProgressSender>,
    /// The call that it is sent for.
    pub context: CallContext,
    /// How the body of its response is charged to the memory that all responses share; not at all where there
    /// is none.
    pub charge: Option<BodyCharge>,
    /// Whether the trace is propagated to the upstream, where no setting decides.
    pub traced: bool,
}

impl UpstreamCall {
    /// A request of this process, without progress.
    pub fn new(
        request: UpstreamRequest,
        response_limit_bytes: usize,
        deadline: Deadline,
        idempotent: bool,
    ) -> Self {
        Self {
            request,
            response_limit_bytes,
            deadline,
            idempotent,
            client: ClientIdentity::Only,
            meanwhile: None,
            context: CallContext::default(),
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
        response: UpstreamResponse,
        upstream: &UpstreamName,
    ) -> Result<UpstreamResponse, UpstreamError> {
        match &self.charge {
            None => Ok(response),
            Some(charge) => {
                charge.share(response, upstream, self.response_limit_bytes, self.deadline.at).await
            }
        }
    }

    /// The account of its response's body.
    pub(super) fn account(&self, limit_bytes: usize) -> BodyAccount<'_> {
        BodyAccount::new(self.charge.as_ref(), limit_bytes, self.deadline.at)
    }
}

/// Deadline of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Deadline {
    /// The end.
    pub at: Instant,
    /// The timeout that it comes from, for messages.
    pub after: Duration,
    /// The deadline without a shorter timeout of the client. An upstream that has not responded by then
    /// counts as failed; before, only the client gave up.
    pub latest: Instant,
}

impl Deadline {
    /// Deadline of a timeout that begins now.
    pub fn after(after: Duration) -> Self {
        let at = Instant::now() + after;
        Self { at, after, latest: at }
    }

    /// The same with a shorter timeout of the client, if it has one.
    #[must_use]
    pub fn within(self, patience: Option<Duration>) -> Self {
        match patience.filter(|patience| *patience < self.after) {
            Some(patience) => Self { at: Instant::now() + patience, after: patience, latest: self.latest },
            None => self,
        }
    }

    /// Deadline of this share of the remaining time.
    #[must_use]
    pub fn share(self, share: f64) -> Self {
        let now = Instant::now();
        let part = |end: Instant| now + end.saturating_duration_since(now).mul_f64(share);
        Self { at: part(self.at), latest: part(self.latest), ..self }
    }

    /// The same for all clients of a coalesced request, whatever their own timeouts.
    #[must_use]
    pub fn for_everybody(self) -> Self {
        Self { at: self.latest, ..self }
    }
}

/// How many events may wait to be received; others are lost, as newer ones follow.
const EVENT_QUEUE_LIMIT: usize = 32;

/// Progress of a call before its response is complete.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum ProgressEvent {
    /// A part of the body has arrived.
    Received {
        /// Bytes until now.
        bytes: u64,
        /// The length of the body, if the upstream announced it.
        of: Option<u64>,
    },
    /// The request is sent again.
    Retry {
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

/// Sends the progress of a call to its client. Clones are the same one.
#[derive(Debug, Clone)]
pub struct ProgressSender(mpsc::Sender<ProgressEvent>);

/// Receives the progress of a call.
pub type ProgressReceiver = mpsc::Receiver<ProgressEvent>;

impl ProgressSender {
    /// Both ends.
    pub fn new() -> (Self, ProgressReceiver) {
        let (sender, hearing) = mpsc::channel(EVENT_QUEUE_LIMIT);
        (Self(sender), hearing)
    }

    /// Sends an event.
    pub fn send(&self, event: ProgressEvent) {
        let _ = self.0.try_send(event);
    }
}

/// The endpoints that the attempts of one call were sent to, hedged ones too.
#[derive(Debug, Default)]
pub struct AttemptedEndpoints(Mutex<Vec<u64>>);

impl AttemptedEndpoints {
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
