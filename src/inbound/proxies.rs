//! Whose word is taken for who asks.

use std::net::{IpAddr, SocketAddr};

use http::{HeaderMap, HeaderName};
use ipnet::IpNet;

const FORWARDED_FOR: HeaderName = HeaderName::from_static("x-forwarded-for");

/// Reads a network such as `10.0.0.0/8`, or a single address.
pub fn parse_network(text: &str) -> Option<IpNet> {
    text.parse().ok().or_else(|| text.parse::<IpAddr>().ok().map(IpNet::from))
}

/// Whether the peer of a connection is a proxy whose word counts.
pub(super) fn is_trusted(peer: IpAddr, trusted: &[IpNet]) -> bool {
    trusted.iter().any(|network| network.contains(&peer.to_canonical()))
}

/// Who asks: the peer of the connection, or the one that trusted proxies say they ask for. Each proxy adds its own peer
/// at the end of `X-Forwarded-For`, so the list is read from there, as far as whoever wrote it is trusted; what stands
/// before may be anybody's invention.
pub(super) fn address_of_client(peer: IpAddr, headers: &HeaderMap, trusted: &[IpNet]) -> IpAddr {
    let is_trusted = |address: IpAddr| is_trusted(address, trusted);
    let mut asking = peer.to_canonical();
    if !is_trusted(asking) {
        return asking;
    }
    let lines: Vec<&str> =
        headers.get_all(FORWARDED_FOR).iter().map(|value| value.to_str().unwrap_or_default()).collect();
    for written in lines.iter().rev().flat_map(|line| line.rsplit(',')) {
        let Some(address) = address(written.trim()) else { break };
        asking = address;
        if !is_trusted(asking) {
            break;
        }
    }
    asking
}

/// An address, with a port or without.
fn address(text: &str) -> Option<IpAddr> {
    let bare = text.strip_prefix('[').and_then(|text| text.strip_suffix(']')).unwrap_or(text);
    let address = bare.parse::<IpAddr>().ok();
    let address = address.or_else(|| text.parse::<SocketAddr>().ok().map(|socket| socket.ip()));
    address.map(|address| address.to_canonical())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::upstream::Caller;

    #[track_caller]
    fn check(peer: &str, forwarded: &[&str], expected: &str) {
        let trusted = ["10.0.0.0/8", "192.0.2.7", "2001:db8::/32"].map(|text| parse_network(text).unwrap());
        let headers = forwarded.iter().map(|value| (FORWARDED_FOR, value.parse().unwrap())).collect();
        let found = Caller::at(address_of_client(peer.parse().unwrap(), &headers, &trusted));
        assert_eq!(found, Caller::at(expected.parse().unwrap()), "{peer} {forwarded:?}");
    }

    #[test]
    fn only_a_trusted_proxy_is_believed() {
        check("198.51.100.1", &[], "198.51.100.1");
        check("198.51.100.1", &["203.0.113.9"], "198.51.100.1");
        check("10.1.2.3", &["203.0.113.9"], "203.0.113.9");
        check("::ffff:10.1.2.3", &["203.0.113.9"], "203.0.113.9");
        check("2001:db8::1", &["203.0.113.9:4711"], "203.0.113.9");
        check("10.1.2.3", &[], "10.1.2.3");
    }

    #[test]
    fn what_a_client_wrote_itself_is_not_believed() {
        check("10.1.2.3", &["1.1.1.1, 203.0.113.9"], "203.0.113.9");
        check("10.1.2.3", &["1.1.1.1, 203.0.113.9, 192.0.2.7"], "203.0.113.9");
        check("10.1.2.3", &["1.1.1.1", "203.0.113.9"], "203.0.113.9");
        check("10.1.2.3", &["203.0.113.9, unknown"], "10.1.2.3");
        check("10.1.2.3", &["10.9.9.9, 10.8.8.8"], "10.9.9.9");
        check("10.1.2.3", &["[2001:db9::1]:80"], "2001:db9::1");
    }

    #[test]
    fn networks_are_read_or_refused() {
        for wrong in ["", "10.0.0.0/33", "10.0.0/8", "10.0.0.0/-1", "host", "::/129", "10.0.0.0/"] {
            assert_eq!(parse_network(wrong), None, "{wrong}");
        }
        let trusts =
            |network, peer: &str| is_trusted(peer.parse().unwrap(), &[parse_network(network).unwrap()]);
        assert!(trusts("0.0.0.0/0", "203.0.113.9") && !trusts("0.0.0.0/0", "::1"));
        assert!(trusts("::/0", "::1") && trusts("10.1.2.3/8", "::ffff:10.9.9.9"));
    }
}
