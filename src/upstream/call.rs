//! Request to an upstream with its limits, progress events, and the endpoints that were tried.

use std::{sync::Arc, time::Duration};

use parking_lot::Mutex;
use tokio::{sync::mpsc, time::Instant};

use super::buffer::BodyAccount;
use super::{BodyCharge, ClientIdentity, UpstreamResult};
use crate::model::UpstreamResponse;
use crate::route::UpstreamRequest;
use crate::telemetry::CallContext;

/// Request to an upstream, with its deadline, its client and the limits of its response.
#[derive(Debug, Clone)]
pub struct UpstreamCall {
    /// The request to send.
    pub request: UpstreamRequest,
    /// Longest body that is read.
    pub response_limit_bytes: usize,
    /// Deadline for the whole call, waits and retries included. `policy` enforces it, not this module.
    pub deadline: Deadline,
    /// Whether the request may be sent twice without harm.
    pub idempotent: bool,
    /// Client that the call is for. Only `policy` uses it, as it does `deadline` and `idempotent`; it is not
    /// sent.
    pub client: ClientIdentity,
    /// Channel for progress before the response.
    pub progress: Option<ProgressSender>,
    /// Log and trace context of the call.
    pub context: CallContext,
    /// Memory charge for the response body. `None`: not charged.
    pub charge: Option<BodyCharge>,
    /// Whether the trace context is propagated if no setting decides.
    pub traced: bool,
    /// Endpoints that its attempts were sent to.
    pub tried: AttemptedEndpoints,
}

impl UpstreamCall {
    /// Creates a request of this process itself, without client and progress.
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
            progress: None,
            context: CallContext::default(),
            charge: None,
            traced: false,
            tried: AttemptedEndpoints::default(),
        }
    }

    /// Charges a response that was read for another call to this one.
    ///
    /// # Errors
    ///
    /// [`Failure::BufferFull`](super::Failure::BufferFull).
    pub(crate) async fn charged(&self, response: UpstreamResponse) -> UpstreamResult {
        self.account(self.response_limit_bytes).finish_response(response).await
    }

    /// Memory account for the body of its response.
    pub(super) fn account(&self, limit_bytes: usize) -> BodyAccount {
        BodyAccount::new(self.charge.as_ref(), limit_bytes, self.deadline.at)
    }
}

/// Deadline of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Deadline {
    /// End of the call.
    pub at: Instant,
    /// Timeout that the deadline was computed from, for error messages.
    pub after: Duration,
    /// Deadline without a shorter timeout of the client. Only an upstream that misses this one counts as
    /// failed.
    pub latest: Instant,
}

impl Deadline {
    /// Deadline of a timeout that starts now.
    pub fn after(after: Duration) -> Self {
        let at = Instant::now() + after;
        Self { at, after, latest: at }
    }

    /// Deadline with a shorter timeout of the client, if it has one.
    #[must_use]
    pub fn within(self, client_timeout: Option<Duration>) -> Self {
        match client_timeout.filter(|client_timeout| *client_timeout < self.after) {
            Some(client_timeout) => Self { latest: self.latest, ..Self::after(client_timeout) },
            None => self,
        }
    }

    /// Deadline after this share of the remaining time.
    #[must_use]
    pub fn share(self, share: f64) -> Self {
        let now = Instant::now();
        let part = |end: Instant| now + end.saturating_duration_since(now).mul_f64(share);
        Self { at: part(self.at), latest: part(self.latest), ..self }
    }

    /// Deadline for all clients of a coalesced request, ignoring their own timeouts.
    #[must_use]
    pub fn for_everybody(self) -> Self {
        Self { at: self.latest, ..self }
    }
}

/// Capacity of the event channel. Further events are dropped, as newer ones follow.
const EVENT_QUEUE_LIMIT: usize = 32;

/// Progress of a call before its response is complete.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum ProgressEvent {
    /// A part of the body has arrived.
    Received {
        /// Bytes so far.
        bytes: u64,
        /// The length of the body, if the upstream announced it.
        of: Option<u64>,
    },
    /// The request is sent again.
    Retry {
        /// Number of the attempt, from 2.
        attempt: u32,
    },
    /// The upstream reports progress.
    Progress {
        /// Progress so far.
        done: f64,
        /// Total amount of work, if the upstream reports one.
        total: Option<f64>,
    },
}

/// Sending half of the progress channel of a call. Clones share the channel.
#[derive(Debug, Clone)]
pub struct ProgressSender(mpsc::Sender<ProgressEvent>);

/// Receiving half of the progress channel of a call.
pub type ProgressReceiver = mpsc::Receiver<ProgressEvent>;

impl ProgressSender {
    /// Creates a channel.
    pub fn new() -> (Self, ProgressReceiver) {
        let (sender, receiver) = mpsc::channel(EVENT_QUEUE_LIMIT);
        (Self(sender), receiver)
    }

    /// Sends an event, or drops it when the channel is full.
    pub fn send(&self, event: ProgressEvent) {
        let _ = self.0.try_send(event);
    }
}

/// Endpoints that the attempts of one call were sent to, hedged attempts included. Clones share the list.
#[derive(Debug, Clone, Default)]
pub struct AttemptedEndpoints(Arc<Mutex<Vec<u64>>>);

impl AttemptedEndpoints {
    /// Whether this endpoint was tried.
    pub fn has(&self, id: u64) -> bool {
        self.0.lock().contains(&id)
    }

    /// Records an endpoint.
    pub fn add(&self, id: u64) {
        let mut list = self.0.lock();
        if !list.contains(&id) {
            list.push(id);
        }
    }
}
