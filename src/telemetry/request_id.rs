//! Request ids: from the header `X-Request-Id` of the client, or generated.

use std::{
    hash::{BuildHasher, RandomState},
    sync::{
        Arc, LazyLock,
        atomic::{AtomicU64, Ordering},
    },
};

use http::{HeaderMap, HeaderName, HeaderValue};

/// Id of a request in the log, in tool errors and in `X-Request-Id`.
///
/// 1 to 128 visible ASCII characters. Generated ids are short: eight characters that identify the process,
/// and a counter.
#[derive(Debug, Clone, PartialEq, Eq, Hash, derive_more::Display)]
pub struct RequestId(Arc<str>);

impl RequestId {
    /// Header with the request id, in requests and responses.
    pub const HEADER: HeaderName = HeaderName::from_static("x-request-id");

    /// Maximum length of an id from a client, in bytes.
    pub const MAX_BYTES: usize = 128;

    /// Generates an id.
    pub fn next() -> Self {
        // The seeds of `RandomState` are random, so the prefixes of replicas differ.
        static PROCESS: LazyLock<u32> = LazyLock::new(|| RandomState::new().hash_one(0_u8) as u32);
        static COUNT: AtomicU64 = AtomicU64::new(1);
        Self(format!("{:08x}-{:x}", *PROCESS, COUNT.fetch_add(1, Ordering::Relaxed)).into())
    }

    /// Returns the id in the header of the client if it is safe to log, or else generates one.
    pub fn from_headers(headers: &HeaderMap) -> Self {
        let client_id = headers.get(Self::HEADER).and_then(|value| value.to_str().ok());
        let is_valid = |text: &&str| {
            (1..=Self::MAX_BYTES).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_graphic())
        };
        client_id.filter(is_valid).map_or_else(Self::next, |text| Self(text.into()))
    }

    /// The id as a string.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The id as the value of [`HEADER`](Self::HEADER).
    pub fn header_value(&self) -> HeaderValue {
        HeaderValue::from_str(&self.0).expect("a request id has visible ASCII characters only")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_differ_and_fit_a_header() {
        let (first, second) = (RequestId::next(), RequestId::next());
        assert_ne!(first, second);
        assert_eq!(first.header_value(), first.as_str());
        let headers = [(RequestId::HEADER, first.header_value())].into_iter().collect();
        assert_eq!(RequestId::from_headers(&headers), first);
        let (process, count) = first.as_str().split_once('-').unwrap();
        assert_eq!(process.len(), 8);
        assert_eq!(second.as_str().split_once('-').unwrap().0, process);
        assert_ne!(count.as_bytes()[0], b'0', "{first:?}");
        assert!(u64::from_str_radix(process, 16).is_ok() && u64::from_str_radix(count, 16).is_ok());
    }

    #[test]
    fn a_clients_id_is_taken_only_when_it_is_fit_for_a_log() {
        let id_from = |value: &[u8]| {
            let mut headers = HeaderMap::new();
            headers.insert(RequestId::HEADER, HeaderValue::from_bytes(value).unwrap());
            RequestId::from_headers(&headers)
        };
        assert_eq!(id_from(b"trace/7").as_str(), "trace/7");
        for invalid in [&b""[..], b"two words", b"caf\xc3\xa9", &[b'x'; 129]] {
            assert_ne!(id_from(invalid).as_str().as_bytes(), invalid);
        }
    }
}
