//! Request to an upstream with its limits, the identity of its client, progress events, and the endpoints
//! that were tried.

use std::{
    collections::BTreeSet,
    fmt,
    hash::{Hash, Hasher},
    net::{IpAddr, Ipv6Addr},
    sync::Arc,
    time::Duration,
};

use parking_lot::Mutex;
use tokio::{sync::mpsc, time::Instant};

use super::buffer::BodyAccount;
use super::{BodyCharge, UpstreamResult};
use crate::model::UpstreamResponse;
use crate::route::{Scopes, UpstreamRequest};
use crate::telemetry::{CallContext, Untrusted};

/// Request to an upstream, with its deadline, its client and the limits of its response.
#[derive(Debug, Clone)]
pub struct UpstreamCall {
    /// The request to send.
    pub request: UpstreamRequest,
    /// Maximum length of the response body, in bytes.
    pub response_limit_bytes: usize,
    /// Deadline for the whole call, waits and retries included. `policy` enforces it, not this module.
    pub deadline: Deadline,
    /// Whether the request may be sent twice without harm.
    pub idempotent: bool,
    /// Client that the call is for. Only `policy` uses it; it is not sent to the upstream.
    pub client: ClientIdentity,
    /// Channel for progress before the response.
    pub progress: Option<ProgressSender>,
    /// Log and trace context of the call.
    pub context: CallContext,
    /// Memory charge for the response body. `None`: not charged.
    pub charge: Option<BodyCharge>,
    /// Whether the trace context is propagated to the upstream.
    pub traced: bool,
    /// Endpoints that attempts of the call were sent to.
    pub attempted_endpoints: AttemptedEndpoints,
}

impl UpstreamCall {
    /// Creates a call for a request of glossator itself, without client and progress.
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
            client: ClientIdentity::Local,
            progress: None,
            context: CallContext::default(),
            charge: None,
            traced: false,
            attempted_endpoints: AttemptedEndpoints::default(),
        }
    }

    /// Charges this call for the memory of a response that was read for another call.
    ///
    /// # Errors
    ///
    /// [`Failure::BufferFull`](super::Failure::BufferFull).
    pub(crate) async fn charged(&self, response: UpstreamResponse) -> UpstreamResult {
        self.account(self.response_limit_bytes).finish_response(response).await
    }

    /// Memory account for the body of the response to the call.
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
    /// Deadline that would apply without the client's own timeout. Only an upstream that misses this deadline
    /// counts as failed.
    pub latest: Instant,
}

impl Deadline {
    /// Deadline of a timeout that starts now.
    pub fn after(after: Duration) -> Self {
        let at = Instant::now() + after;
        Self { at, after, latest: at }
    }

    /// Shortens the deadline to the client's own timeout, if that is shorter.
    #[must_use]
    pub fn within(self, client_timeout: Option<Duration>) -> Self {
        match client_timeout.filter(|client_timeout| *client_timeout < self.after) {
            Some(client_timeout) => Self { latest: self.latest, ..Self::after(client_timeout) },
            None => self,
        }
    }

    /// Deadline after this fraction of the remaining time.
    #[must_use]
    pub fn share(self, share: f64) -> Self {
        let now = Instant::now();
        let part = |end: Instant| now + end.saturating_duration_since(now).mul_f64(share);
        Self { at: part(self.at), latest: part(self.latest), ..self }
    }
}

/// Capacity of the event channel. While it is full, events are dropped, because newer ones follow.
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
pub struct AttemptedEndpoints(Arc<Mutex<BTreeSet<u64>>>);

impl AttemptedEndpoints {
    /// Whether this endpoint was tried.
    pub fn has(&self, id: u64) -> bool {
        self.0.lock().contains(&id)
    }

    /// Records an endpoint.
    pub fn add(&self, id: u64) {
        self.0.lock().insert(id);
    }
}

/// Identity of a client. Limits per client use it to distinguish clients.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum ClientIdentity {
    /// An anonymous client at this address.
    Address(IpAddr),
    /// The only client of this process: it is connected over stdio, or has started this process.
    Local,
    /// An authenticated client.
    Client(Arc<Client>),
    /// Unidentified client: no part of the program has authenticated the sender. It has no rights.
    Unknown,
}

/// An authenticated client. Clients with the same id are equal, even if their scopes differ.
#[derive(Debug, Clone, derive_more::Eq, derive_more::PartialEq)]
pub struct Client {
    /// Stable identity.
    pub id: String,
    /// Name for operators.
    #[eq(skip)]
    pub name: String,
    /// Granted scopes.
    #[eq(skip)]
    pub scopes: Scopes,
}

impl Client {
    /// Creates a client. `id` is the stable identity; `name` is for operators.
    pub fn new(id: &str, name: &str, scopes: Scopes) -> Self {
        Self { id: id.into(), name: name.into(), scopes }
    }
}

impl Hash for Client {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.id.hash(state);
    }
}

impl ClientIdentity {
    /// Client address for the log: `address`, or else the address that identifies an anonymous client.
    pub fn address_in_log(&self, address: Option<IpAddr>) -> Option<IpAddr> {
        address.or(match self {
            Self::Address(address) => Some(*address),
            Self::Local | Self::Client(_) | Self::Unknown => None,
        })
    }

    /// Name for the log, if the client is authenticated.
    pub fn name_in_log(&self) -> Option<impl fmt::Display + '_> {
        // The name may come from another server, such as a token issuer.
        self.client().map(|client| Untrusted(&client.name))
    }

    /// Identity of an anonymous client. Only the first 64 bits of an IPv6 address count: its owner may change
    /// the rest for every request (RFC 8981).
    pub fn from_address(address: IpAddr) -> Self {
        const NETWORK: u128 = u128::MAX << 64;
        Self::Address(match address.to_canonical() {
            IpAddr::V6(address) => Ipv6Addr::from_bits(address.to_bits() & NETWORK).into(),
            address @ IpAddr::V4(_) => address,
        })
    }

    /// Whether the client has these scopes. An anonymous client has none; [`Local`](Self::Local) has all.
    pub fn may(&self, needed: &Scopes) -> bool {
        match self {
            Self::Local => true,
            Self::Address(_) | Self::Unknown => needed.is_empty(),
            Self::Client(client) => client.scopes.contains_all(needed),
        }
    }

    /// The client, if it is authenticated.
    pub fn client(&self) -> Option<&Arc<Client>> {
        let Self::Client(client) = self else { return None };
        Some(client)
    }

    /// Id of the client as the owner of sessions, tasks and input requests. `None` if the client is not
    /// authenticated.
    pub fn owner(&self) -> Option<&str> {
        self.client().map(|client| client.id.as_str())
    }

    /// Encodes the identity as bytes, which are the same on every replica.
    pub fn to_bytes(&self) -> Vec<u8> {
        match self {
            Self::Address(address) => format!("address {address}").into_bytes(),
            Self::Local => b"only".to_vec(),
            Self::Unknown => b"unknown".to_vec(),
            Self::Client(client) => format!("known {}", client.id).into_bytes(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(one: &str, other: &str, is_same: bool) {
        let identity = |text: &str| ClientIdentity::from_address(text.parse().unwrap());
        assert_eq!(identity(one) == identity(other), is_same);
    }

    #[test]
    fn addresses_of_one_network_are_one_client() {
        check("192.0.2.1", "192.0.2.1", true);
        check("192.0.2.1", "192.0.2.2", false);
        check("192.0.2.1", "::ffff:192.0.2.1", true);
        check("2001:db8::1", "2001:db8::ffff:1:2:3", true);
        check("2001:db8::1", "2001:db8:0:1::1", false);
    }
}
