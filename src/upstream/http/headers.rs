//! Headers that belong to one connection and never cross to another.

use http::{
    HeaderMap, HeaderName, HeaderValue,
    header::{self, Entry},
};

/// Whether a header is one of a single hop (RFC 9110, section 7.6.1; `Keep-Alive` and `Proxy-Connection` are older).
/// `Trailer` is not among them: it describes the message.
fn is_of_one_hop(name: &HeaderName) -> bool {
    matches!(
        name.as_str(),
        "connection"
            | "te"
            | "transfer-encoding"
            | "upgrade"
            | "proxy-authenticate"
            | "proxy-authorization"
            | "keep-alive"
            | "proxy-connection"
    )
}

/// Drops the headers of one hop, and those that `Connection` names.
pub fn remove_hop_by_hop(headers: &mut HeaderMap) {
    if let Entry::Occupied(connection) = headers.entry(header::CONNECTION) {
        let (_, values) = connection.remove_entry_mult();
        // What most messages say names no header that is not dropped anyhow.
        let values = values.filter(|value| value != "keep-alive" && value != "close");
        for value in values.collect::<Vec<_>>() {
            remove_named(headers, &value);
        }
    }
    // Looking is quicker than removing.
    let present: Vec<HeaderName> = headers.keys().filter(|name| is_of_one_hop(name)).cloned().collect();
    for name in present {
        headers.remove(name);
    }
}

/// Drops the headers that a value of `Connection` names.
fn remove_named(headers: &mut HeaderMap, value: &HeaderValue) {
    let names = value.to_str().unwrap_or_default().split(',');
    let names = names.filter_map(|name| name.trim().parse::<HeaderName>().ok());
    // A peer that names the framing or the host would change what the message is.
    for name in names.filter(|name| name != header::CONTENT_LENGTH && name != header::HOST) {
        headers.remove(name);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_connection_names_goes_and_the_rest_stays() {
        let mut headers = HeaderMap::new();
        headers.append(header::CONNECTION, "close, X-Secret-Of-One-Hop".parse().unwrap());
        headers.append(header::CONNECTION, "x-other, content-length".parse().unwrap());
        for name in ["x-secret-of-one-hop", "x-other", "keep-alive", "content-length", "x-end-to-end"] {
            headers.insert(name, "1".parse().unwrap());
        }
        remove_hop_by_hop(&mut headers);
        let mut left: Vec<_> = headers.keys().map(HeaderName::as_str).collect();
        left.sort_unstable();
        assert_eq!(left, ["content-length", "x-end-to-end"]);
    }
}
