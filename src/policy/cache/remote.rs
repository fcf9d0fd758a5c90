//! Remote cache tier: cached responses in the state that replicas share.
//!
//! An entry is encoded as a version, status, age, lifetime in the store, headers and body. Its age when read
//! follows from its remaining lifetime, so the clocks of replicas need not agree. Invalid entries are
//! ignored.

use std::time::Duration;

use bytes::{Buf, BufMut, Bytes};
use http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use tokio::time::Instant;

use super::CacheSettings;
use super::entry::CachedResponse;
use crate::model::UpstreamResponse;
use crate::policy::ReplicaSharing;
use crate::policy::retry::millis;
use crate::shared_state::StoredValue;

/// Format version, the first byte of an entry.
const VERSION: u8 = 1;

/// Cached responses of one upstream that all replicas share.
#[derive(Debug)]
pub(in crate::policy) struct RemoteCache(pub(in crate::policy) ReplicaSharing);

impl RemoteCache {
    fn name(&self, request: &[u8]) -> String {
        self.0.store.name("page", &[self.0.identity.as_bytes(), request])
    }

    /// Response to a request. `None` if there is none, or the store is unreachable.
    pub(super) async fn get(&self, request: &[u8]) -> Option<CachedResponse> {
        let stored = self.0.store.get(&self.name(request)).await.ok()??;
        read(&stored)
    }

    /// Stores a response for as long as it may be used, in the background. Responses of programs are not
    /// stored, as the encoding has no exit status.
    pub(super) fn store(&self, request: &[u8], entry: &CachedResponse, settings: CacheSettings) {
        let lifetime = entry.usable_for(settings);
        let is_too_long = entry.response.body.len() >= self.0.store.entry_limit_bytes();
        if entry.response.exit.is_some() || lifetime.is_zero() || is_too_long {
            return;
        }
        if let Some(bytes) = encode(entry, lifetime) {
            self.0.store.put(&self.name(request), &bytes, lifetime);
        }
    }

    /// Removes the response to a request.
    pub(super) fn remove(&self, request: &[u8]) {
        self.0.store.remove(&self.name(request));
    }
}

/// Encodes an entry. `None` if a header is longer than any that is read.
fn encode(entry: &CachedResponse, lifetime: Duration) -> Option<Vec<u8>> {
    let UpstreamResponse { status, headers, body, exit: _, cgi_exit: _, rejects_session: _ } =
        &entry.response;
    let mut out = Vec::with_capacity(body.len() + 1024);
    out.put_u8(VERSION);
    out.put_u16(status.as_u16());
    out.put_u64(millis(entry.received_at.elapsed()));
    out.put_u64(millis(lifetime));
    out.put_u16(u16::try_from(headers.len()).ok()?);
    for (name, value) in headers {
        out.put_u16(u16::try_from(name.as_str().len()).ok()?);
        out.put_slice(name.as_str().as_bytes());
        out.put_u32(u32::try_from(value.len()).ok()?);
        out.put_slice(value.as_bytes());
    }
    out.put_slice(body);
    Some(out)
}

fn read(stored: &StoredValue) -> Option<CachedResponse> {
    let mut rest = stored.content.as_slice();
    if rest.try_get_u8().ok()? != VERSION {
        return None;
    }
    let status = StatusCode::from_u16(rest.try_get_u16().ok()?).ok()?;
    let age = Duration::from_millis(rest.try_get_u64().ok()?);
    let lifetime = Duration::from_millis(rest.try_get_u64().ok()?);
    let mut headers = HeaderMap::new();
    for _ in 0..rest.try_get_u16().ok()? {
        let length = usize::from(rest.try_get_u16().ok()?);
        let name = HeaderName::from_bytes(rest.split_off(..length)?).ok()?;
        let length = usize::try_from(rest.try_get_u32().ok()?).ok()?;
        let value = HeaderValue::from_bytes(rest.split_off(..length)?).ok()?;
        headers.try_append(name, value).ok()?;
    }
    let age = age.checked_add(lifetime.saturating_sub(stored.remaining_ttl))?;
    let response = UpstreamResponse::new(status, headers, Bytes::copy_from_slice(rest));
    let received_at = Instant::now().checked_sub(age)?;
    Some(CachedResponse { received_at, ..CachedResponse::new(response) })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn entry() -> CachedResponse {
        let headers = [("etag", "\"7\""), ("x-a", "1"), ("x-a", "2")];
        let headers = headers.iter().map(|(name, value)| {
            (name.parse::<HeaderName>().unwrap(), value.parse::<HeaderValue>().unwrap())
        });
        CachedResponse::new(UpstreamResponse::new(
            StatusCode::OK,
            headers.collect(),
            Bytes::from_static(b"body"),
        ))
    }

    #[tokio::test(start_paused = true)]
    async fn an_entry_is_read_as_it_was_written_and_as_old_as_it_is() {
        let entry = entry();
        tokio::time::advance(3 * SECOND).await;
        let content = encode(&entry, 60 * SECOND).unwrap();
        let read = read(&StoredValue { content, remaining_ttl: 50 * SECOND }).unwrap();
        assert_eq!(read.received_at.elapsed(), 13 * SECOND);
        assert_eq!(
            (read.response.status, &read.response.headers),
            (entry.response.status, &entry.response.headers)
        );
        assert_eq!((read.response.body, read.control), (entry.response.body, entry.control));
    }

    proptest! {
        #[test]
        fn an_invalid_entry_is_ignored(content in prop::collection::vec(any::<u8>(), 0..80), at in 0..60_usize, byte: u8) {
            let is_readable = |content| read(&StoredValue { content, remaining_ttl: SECOND }).is_some();
            let mut other = content.clone();
            other.insert(0, VERSION);
            let _ = is_readable(other);
            prop_assert!(content.first() == Some(&VERSION) || !is_readable(content));
            let mut changed = encode(&entry(), SECOND).unwrap();
            let at = at % changed.len();
            changed[at] = byte;
            let _ = is_readable(changed);
            let mut cut = encode(&entry(), SECOND).unwrap();
            // The body has no length field.
            cut.truncate(at.min(cut.len() - 5));
            prop_assert!(!is_readable(cut));
        }
    }
}
