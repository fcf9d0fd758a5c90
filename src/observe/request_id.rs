//! The name of one request.

use std::{
    fmt,
    hash::{BuildHasher, RandomState},
    str::FromStr,
    sync::{
        Arc, LazyLock,
        atomic::{AtomicU64, Ordering},
    },
};

use http::{HeaderMap, HeaderName, HeaderValue};

/// What one request is called in the log, in a tool error and in `X-Request-Id`.
///
/// 1 to 128 visible ASCII characters. One of our own making is short: eight characters that tell this process
/// from others, and a count.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct RequestId(Arc<str>);

/// A text that is no request id.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a request id has 1 to {} visible ASCII characters", RequestId::MAX_BYTES)]
pub struct RequestIdError;

impl RequestId {
    /// The header that carries it, both ways.
    pub const HEADER: HeaderName = HeaderName::from_static("x-request-id");

    /// The longest id that is taken from a client, in bytes.
    pub const MAX_BYTES: usize = 128;

    /// A new one.
    pub fn next() -> Self {
        // The seeds of `RandomState` are random, so two replicas count under different names.
        static PROCESS: LazyLock<u32> = LazyLock::new(|| RandomState::new().hash_one(0_u8) as u32);
        static COUNT: AtomicU64 = AtomicU64::new(1);
        Self(format!("{:08x}-{:x}", *PROCESS, COUNT.fetch_add(1, Ordering::Relaxed)).into())
    }

    /// The client's own, when its header holds one that is fit for a log, or else a new one.
    pub fn of_headers(headers: &HeaderMap) -> Self {
        headers
            .get(Self::HEADER)
            .and_then(|value| value.to_str().ok())
            .and_then(|text| text.parse().ok())
            .unwrap_or_else(Self::next)
    }

    /// The id as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The id as the value of [`HEADER`](Self::HEADER).
    pub fn header_value(&self) -> HeaderValue {
        HeaderValue::from_str(&self.0).expect("a request id has visible ASCII characters only")
    }
}

impl FromStr for RequestId {
    type Err = RequestIdError;

    fn from_str(text: &str) -> Result<Self, RequestIdError> {
        let fits = (1..=Self::MAX_BYTES).contains(&text.len()) && text.bytes().all(|b| b.is_ascii_graphic());
        if fits { Ok(Self(text.into())) } else { Err(RequestIdError) }
    }
}

impl fmt::Display for RequestId {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0)
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
        assert_eq!(first.as_str().parse(), Ok(first.clone()));
        let (process, count) = first.as_str().split_once('-').unwrap();
        assert_eq!(process.len(), 8);
        assert_eq!(second.as_str().split_once('-').unwrap().0, process);
        assert_ne!(count.as_bytes()[0], b'0', "{first:?}");
        assert!(u64::from_str_radix(process, 16).is_ok() && u64::from_str_radix(count, 16).is_ok());
    }

    #[test]
    fn a_clients_id_is_taken_only_when_it_is_fit_for_a_log() {
        let of = |value: &[u8]| {
            let mut headers = HeaderMap::new();
            headers.insert(RequestId::HEADER, HeaderValue::from_bytes(value).unwrap());
            RequestId::of_headers(&headers)
        };
        assert_eq!(of(b"trace/7").as_str(), "trace/7");
        for unfit in [&b""[..], b"two words", b"caf\xc3\xa9", &[b'x'; 129]] {
            assert_ne!(of(unfit).as_str().as_bytes(), unfit);
        }
    }
}
