//! Identity of the client that a request is sent for, and limits per client.

use std::{
    collections::HashMap,
    fmt,
    hash::{Hash, Hasher},
    net::{IpAddr, Ipv6Addr},
    sync::{Arc, Mutex, PoisonError, Weak},
    time::Duration,
};

use tokio::{
    sync::{OwnedSemaphorePermit, Semaphore},
    time::timeout,
};

use crate::{route::Scopes, telemetry::Untrusted};

/// Identity of a client, as the limits per client distinguish it.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum ClientIdentity {
    /// An anonymous client at this address.
    Address(IpAddr),
    /// The only client: over standard input, or the process that started this one.
    Only,
    /// An authenticated client.
    Client(Arc<Client>),
    /// Unidentified client: no part of the program has authenticated the sender. It has no rights.
    Unknown,
}

/// An authenticated client.
#[derive(Clone)]
pub struct Client {
    id: Box<str>,
    name: Box<str>,
    scopes: Scopes,
}

impl Client {
    /// `id` is the stable identity; `name` is for operators.
    pub fn new(id: &str, name: &str, scopes: Scopes) -> Self {
        Self { id: id.into(), name: name.into(), scopes }
    }

    /// Stable identity.
    pub fn id(&self) -> &str {
        &self.id
    }

    /// Name for operators.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Granted scopes.
    pub fn scopes(&self) -> &Scopes {
        &self.scopes
    }
}

/// Clients are equal by id, even when their scopes change.
impl PartialEq for Client {
    fn eq(&self, other: &Self) -> bool {
        self.id == other.id
    }
}

impl Eq for Client {}

impl Hash for Client {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.id.hash(state);
    }
}

impl fmt::Debug for Client {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_tuple("Client").field(&self.name).finish()
    }
}

impl ClientIdentity {
    /// Address for the log, if there is one.
    pub fn address_in_log(&self, address: Option<IpAddr>) -> Option<IpAddr> {
        address.or(match self {
            Self::Address(address) => Some(*address),
            Self::Only | Self::Client(_) | Self::Unknown => None,
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

    /// Whether it has these scopes. An anonymous client has none; the only client has all.
    pub fn may(&self, needed: &Scopes) -> bool {
        match self {
            Self::Only => true,
            Self::Address(_) | Self::Unknown => needed.is_empty(),
            Self::Client(client) => client.scopes.contains_all(needed),
        }
    }

    /// Authenticated client, if it is one.
    pub fn client(&self) -> Option<&Arc<Client>> {
        let Self::Client(client) = self else { return None };
        Some(client)
    }

    /// Owner of its sessions, tasks and input requests. `None` where clients are not distinguished.
    pub fn owner(&self) -> Option<&str> {
        self.client().map(|client| client.id())
    }

    /// Encoding that is the same at every replica.
    pub fn to_bytes(&self) -> Vec<u8> {
        match self {
            Self::Address(address) => format!("address {address}").into_bytes(),
            Self::Only => b"only".to_vec(),
            Self::Unknown => b"unknown".to_vec(),
            Self::Client(client) => format!("known {}", client.id).into_bytes(),
        }
    }
}

/// Limit per client, for example on open streams. Clones share the counts.
#[derive(Debug, Clone)]
pub struct PerClientLimit {
    limit: usize,
    /// Permits of the clients that have any, and of some that had.
    clients: Arc<Mutex<HashMap<ClientIdentity, Weak<Semaphore>>>>,
}

/// Permit of one client, released on drop.
pub type PerClientPermit = OwnedSemaphorePermit;

impl PerClientLimit {
    /// Creates a limit of `limit` permits for each client.
    pub fn new(limit: usize) -> Self {
        Self { limit: limit.min(Semaphore::MAX_PERMITS), clients: Arc::default() }
    }

    /// Acquires a permit for a client. The only client has no limit.
    ///
    /// # Errors
    ///
    /// The limit, if the client has reached it.
    pub fn take(&self, client: &ClientIdentity) -> Result<Option<PerClientPermit>, usize> {
        if matches!(client, ClientIdentity::Only) {
            return Ok(None);
        }
        self.permits(client).try_acquire_owned().map(Some).map_err(|_| self.limit)
    }

    /// Acquires a permit as [`take`](Self::take) does. A client at its limit waits for one, but no longer
    /// than `wait`.
    ///
    /// # Errors
    ///
    /// The limit, if the client has reached it.
    pub(crate) async fn take_within(
        &self,
        wait: Duration,
        client: &ClientIdentity,
    ) -> Result<Option<PerClientPermit>, usize> {
        if wait.is_zero() || matches!(client, ClientIdentity::Only) {
            return self.take(client);
        }
        let permit = timeout(wait, self.permits(client).acquire_owned()).await.map_err(|_| self.limit)?;
        Ok(Some(permit.expect("the semaphore is never closed")))
    }

    fn permits(&self, client: &ClientIdentity) -> Arc<Semaphore> {
        let mut clients = self.clients.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(permits) = clients.get(client).and_then(Weak::upgrade) {
            return permits;
        }
        // Instead of growing, the map first drops clients without a permit.
        if clients.len() == clients.capacity() {
            clients.retain(|_, permits| permits.strong_count() > 0);
        }
        let permits = Arc::new(Semaphore::new(self.limit));
        clients.insert(client.clone(), Arc::downgrade(&permits));
        permits
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(one: &str, other: &str, same: bool) {
        let at = |text: &str| ClientIdentity::from_address(text.parse().unwrap());
        assert_eq!(at(one) == at(other), same);
    }

    #[test]
    fn addresses_of_one_network_are_one_client() {
        check("192.0.2.1", "192.0.2.1", true);
        check("192.0.2.1", "192.0.2.2", false);
        check("192.0.2.1", "::ffff:192.0.2.1", true);
        check("2001:db8::1", "2001:db8::ffff:1:2:3", true);
        check("2001:db8::1", "2001:db8:0:1::1", false);
    }

    #[test]
    fn each_client_has_its_share_and_idle_ones_are_dropped() {
        let limit = PerClientLimit::new(1);
        let (one, other) = (
            ClientIdentity::from_address([10, 0, 0, 1].into()),
            ClientIdentity::from_address([10, 0, 0, 2].into()),
        );
        let first = limit.take(&one).unwrap();
        assert_eq!(limit.take(&one).map(drop), Err(1));
        let others = limit.take(&other).unwrap();
        assert!(limit.take(&ClientIdentity::Only).unwrap().is_none());
        drop((first, others));
        assert!(limit.take(&one).is_ok());
        for last in 0..=255 {
            assert!(limit.take(&ClientIdentity::from_address([10, 0, 1, last].into())).is_ok());
        }
        assert!(limit.clients.lock().unwrap().len() < 10);
    }
}
