//! Identity of the client that a request is sent for.

use std::{
    fmt,
    hash::{Hash, Hasher},
    net::{IpAddr, Ipv6Addr},
    sync::Arc,
};

use crate::route::Scopes;
use crate::telemetry::Untrusted;

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
    /// Stable identity.
    pub id: String,
    /// Name for operators.
    pub name: String,
    /// Granted scopes.
    pub scopes: Scopes,
}

impl Client {
    /// `id` is the stable identity; `name` is for operators.
    pub fn new(id: &str, name: &str, scopes: Scopes) -> Self {
        Self { id: id.into(), name: name.into(), scopes }
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
        self.client().map(|client| client.id.as_str())
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
}
