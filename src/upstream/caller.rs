//! Who a request is sent for.

use std::net::{IpAddr, Ipv6Addr};

/// Who asks, as far as limits tell callers apart.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Caller {
    /// Whoever is at this address.
    Address(IpAddr),
    /// The one at our own pipes, or who started this process: there is no other.
    Only,
}

impl Caller {
    /// Where it is, as far as callers are told apart by that.
    pub fn address(&self) -> Option<IpAddr> {
        match self {
            Self::Address(address) => Some(*address),
            Self::Only => None,
        }
    }

    /// The one at an address. Of an IPv6 address the first half counts: the other half is for its owner to choose, anew
    /// for every request if they like (RFC 8981).
    pub fn at(address: IpAddr) -> Self {
        const NETWORK: u128 = u128::MAX << 64;
        Self::Address(match address.to_canonical() {
            IpAddr::V6(address) => Ipv6Addr::from_bits(address.to_bits() & NETWORK).into(),
            address @ IpAddr::V4(_) => address,
        })
    }
}

impl Caller {
    /// What tells this one from all others, at every replica.
    pub fn to_bytes(&self) -> Vec<u8> {
        match self {
            Self::Address(address) => format!("address {address}").into_bytes(),
            Self::Only => b"only".to_vec(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(one: &str, other: &str, same: bool) {
        let at = |text: &str| Caller::at(text.parse().unwrap());
        assert_eq!(at(one) == at(other), same);
    }

    #[test]
    fn addresses_of_one_owner_are_one_caller() {
        check("192.0.2.1", "192.0.2.1", true);
        check("192.0.2.1", "192.0.2.2", false);
        check("192.0.2.1", "::ffff:192.0.2.1", true);
        check("2001:db8::1", "2001:db8::ffff:1:2:3", true);
        check("2001:db8::1", "2001:db8:0:1::1", false);
    }
}
