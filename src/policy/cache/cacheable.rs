//! Cached responses: freshness, validators (`ETag`, `Last-Modified`) and headers (RFC 9111). Also the cache
//! that replicas share.

use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header};
use serde::{Deserialize, Serialize};
use tokio::time::Instant;

use super::{CacheSettings, CacheTtl};
use crate::model::UpstreamResponse;
use crate::policy::ReplicaSharing;
use crate::policy::retry::date_ahead;
use crate::shared_state::StoredValue;

/// Time for which the remote cache stores a stale response with a validator, so that it can be revalidated.
const REVALIDATION_TTL: Duration = Duration::from_secs(3600);

/// Validators, each with the conditional header that repeats its value.
const VALIDATORS: [(HeaderName, HeaderName); 2] =
    [(header::ETAG, header::IF_NONE_MATCH), (header::LAST_MODIFIED, header::IF_MODIFIED_SINCE)];

/// Cached response, or a candidate for the cache.
#[derive(Debug)]
pub(in crate::policy) struct CachedResponse {
    pub(super) response: UpstreamResponse,
    pub(super) control: CacheControl,
    /// Time at which the response was received.
    pub(super) received_at: Instant,
}

impl CachedResponse {
    pub(super) fn new(response: UpstreamResponse) -> Self {
        Self { control: CacheControl::from_headers(&response.headers), response, received_at: Instant::now() }
    }

    /// Whether the response may be stored, according to its status, its headers and the settings.
    pub(super) fn is_cacheable(&self, settings: CacheSettings) -> bool {
        let Self { response, control, .. } = self;
        let has_cacheable_status = matches!(
            response.status,
            StatusCode::OK | StatusCode::NON_AUTHORITATIVE_INFORMATION | StatusCode::NO_CONTENT
        );
        let may_store = !(control.no_store || control.private) || settings.ignore_cache_control;
        let is_reusable = match settings.ttl {
            CacheTtl::For(_) => true,
            CacheTtl::Upstream => {
                let is_fresh = control.freshness_lifetime.is_some_and(|time| time > control.age);
                self.has_validator() || (is_fresh && !control.no_cache)
            }
        };
        has_cacheable_status && may_store && is_reusable && !control.uncacheable_vary
    }

    /// Whether the response has a validator, so that it can be revalidated.
    pub(super) fn has_validator(&self) -> bool {
        VALIDATORS.iter().any(|(name, _)| self.response.headers.contains_key(name))
    }

    /// Copies the response into its own memory. Buffers read from a connection are slices of larger buffers,
    /// and would keep the larger ones allocated.
    pub(super) fn compact(mut self) -> Self {
        self.response.body = Bytes::copy_from_slice(&self.response.body);
        for value in self.response.headers.values_mut() {
            if let Ok(mut copy) = HeaderValue::from_bytes(value.as_bytes()) {
                copy.set_sensitive(value.is_sensitive());
                *value = copy;
            }
        }
        self
    }

    pub(super) fn age(&self) -> Duration {
        self.received_at.elapsed() + self.control.age
    }

    pub(super) fn bytes(&self) -> usize {
        let headers = self.response.headers.iter();
        let headers: usize = headers.map(|(name, value)| name.as_str().len() + value.len() + 64).sum();
        size_of::<Self>() + headers + self.response.body.len()
    }

    /// Age of the response, the freshness lifetime, and the additional lifetime if the upstream fails.
    fn lifetimes(&self, settings: CacheSettings) -> (Duration, Duration, Duration) {
        let CacheControl { no_cache, freshness_lifetime, stale_if_error, .. } = self.control;
        let stale_lifetime = settings.stale_if_error.unwrap_or(stale_if_error);
        match settings.ttl {
            CacheTtl::For(time) => (self.received_at.elapsed(), time, stale_lifetime),
            CacheTtl::Upstream => {
                let lifetime = freshness_lifetime.filter(|_| !no_cache).unwrap_or_default();
                (self.age(), lifetime, stale_lifetime)
            }
        }
    }

    /// Time for which the response is still fresh. Zero if it is stale.
    pub(super) fn remaining_freshness(&self, settings: CacheSettings) -> Duration {
        let (age, lifetime, _) = self.lifetimes(settings);
        lifetime.saturating_sub(age)
    }

    /// Whether the response may be used stale if the upstream fails.
    pub(super) fn may_serve_stale(&self, settings: CacheSettings) -> bool {
        let (age, lifetime, stale_lifetime) = self.lifetimes(settings);
        // With `ttl: upstream`, or without `stale_if_error`, the upstream may forbid the use of a stale
        // response.
        let upstream_decides = settings.ttl == CacheTtl::Upstream || settings.stale_if_error.is_none();
        let must_revalidate = upstream_decides && (self.control.no_cache || self.control.must_revalidate);
        !must_revalidate && !stale_lifetime.is_zero() && age < lifetime + stale_lifetime
    }

    /// Time for which the response may still be used, fresh, stale or after a revalidation.
    pub(super) fn usable_for(&self, settings: CacheSettings) -> Duration {
        let (age, lifetime, stale_lifetime) = self.lifetimes(settings);
        let revalidation_ttl = if self.has_validator() { REVALIDATION_TTL } else { Duration::ZERO };
        lifetime.saturating_sub(age) + stale_lifetime.max(revalidation_ttl)
    }

    /// The cached response, updated by the headers of a 304 response.
    pub(super) fn renewed(&self, headers: &HeaderMap) -> Self {
        let mut response = self.response.clone();
        // `Age` of the old response does not apply to the new one.
        response.headers.remove(header::AGE);
        for name in headers.keys() {
            // These headers describe the 304 itself, or the body that a 304 does not have (RFC 9111, section
            // 3.2).
            if [header::CONTENT_LENGTH, header::CONTENT_ENCODING, header::CONTENT_TYPE].contains(name) {
                continue;
            }
            response.headers.remove(name);
            for value in headers.get_all(name) {
                response.headers.append(name.clone(), value.clone());
            }
        }
        Self::new(response)
    }

    /// The response for a call, with its current age in the header `Age`.
    pub(super) fn to_client_response(&self) -> UpstreamResponse {
        let mut response = self.response.clone();
        response.headers.insert(header::AGE, HeaderValue::from(self.age().as_secs()));
        response
    }
}

/// Conditional headers for the revalidation of a response with these headers (RFC 9110, section 13.1). Empty
/// if the response has no validator.
pub fn conditional_headers(response: &HeaderMap) -> HeaderMap {
    let conditions = VALIDATORS.into_iter().map(|(name, condition)| (condition, response.get(name).cloned()));
    conditions.filter_map(|(condition, value)| Some((condition, value?))).collect()
}

/// Caching headers of a response: `Cache-Control` (RFC 9111, section 5.2.2), `Pragma`, `Expires`, `Age`,
/// `Vary`, and whether there is a `Set-Cookie`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct CacheControl {
    /// The response must not be stored: `no-store`.
    pub no_store: bool,
    /// The response must not be stored in a shared cache: `private`, or it sets a cookie.
    pub private: bool,
    /// The response may be stored in any cache: `public`.
    pub public: bool,
    /// The response must be revalidated before each use: `no-cache`.
    pub no_cache: bool,
    /// The response must not be used stale: `must-revalidate`, `proxy-revalidate` or `s-maxage`.
    pub(super) must_revalidate: bool,
    /// `max-age`: freshness lifetime in any cache.
    pub max_age: Option<Duration>,
    /// Freshness lifetime in a shared cache: `s-maxage`, `max-age` or `Expires`. `None` without these.
    pub(super) freshness_lifetime: Option<Duration>,
    /// `stale-if-error`: additional lifetime if the upstream fails.
    pub(super) stale_if_error: Duration,
    /// `Age` of the response when it was received.
    pub age: Duration,
    /// `Vary` names something that is not part of the cache key.
    pub(super) uncacheable_vary: bool,
}

/// Maximum of each duration in headers; a longer duration is reduced to it.
const MAX_HEADER_DURATION: Duration = Duration::from_secs(365 * 24 * 3600);

impl CacheControl {
    /// Reads the headers of a response.
    pub fn from_headers(headers: &HeaderMap) -> Self {
        let mut control = Self { private: headers.contains_key(header::SET_COOKIE), ..Self::default() };
        let (mut s_maxage, mut has_cache_control) = (None, false);
        let values = headers.get_all(header::CACHE_CONTROL).into_iter();
        let directives = values.filter_map(|value| value.to_str().ok()).flat_map(|value| value.split(','));
        for directive in directives {
            has_cache_control = true;
            let (name, value) = directive.split_once('=').unwrap_or((directive, ""));
            match name.trim().to_ascii_lowercase().as_str() {
                "no-store" => control.no_store = true,
                "private" => control.private = true,
                "public" => control.public = true,
                "no-cache" => control.no_cache = true,
                "must-revalidate" | "proxy-revalidate" => control.must_revalidate = true,
                "max-age" => control.max_age = Some(seconds(value)),
                "s-maxage" => (s_maxage, control.must_revalidate) = (Some(seconds(value)), true),
                "stale-if-error" => control.stale_if_error = seconds(value),
                _ => {}
            }
        }
        // `Pragma` of HTTP/1.0 counts only without `Cache-Control`.
        let contains = |name, token: &str| {
            headers.get(name).and_then(|value| value.to_str().ok()).is_some_and(|value| value.contains(token))
        };
        control.no_cache |= !has_cache_control && contains(header::PRAGMA, "no-cache");
        // An invalid date, such as `0`, counts as expired.
        let expires = || headers.get(header::EXPIRES).map(|_| date_ahead(headers, header::EXPIRES));
        control.freshness_lifetime =
            s_maxage.or(control.max_age).or_else(|| expires().map(Option::unwrap_or_default));
        let age = headers.get(header::AGE).and_then(|value| value.to_str().ok());
        control.age = age.map(seconds).unwrap_or_default();
        control.uncacheable_vary =
            headers.get_all(header::VARY).iter().any(|value| is_uncacheable_vary(value.as_bytes()));
        control
    }
}

/// Whether `Vary` names something that is not part of the cache key. The key contains everything that is
/// sent, except the trace context.
fn is_uncacheable_vary(value: &[u8]) -> bool {
    let uncacheable_names: [&[u8]; 3] = [b"*", b"traceparent", b"tracestate"];
    let mut names = value.split(|byte| *byte == b',').map(<[u8]>::trim_ascii);
    names.any(|name| uncacheable_names.iter().any(|other| name.eq_ignore_ascii_case(other)))
}

/// Parses seconds. An invalid value is zero.
fn seconds(text: &str) -> Duration {
    let text = text.trim().trim_matches('"');
    let is_number = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    match text.parse() {
        Ok(seconds) => Duration::from_secs(seconds).min(MAX_HEADER_DURATION),
        Err(_) if is_number => MAX_HEADER_DURATION,
        Err(_) => Duration::ZERO,
    }
}

/// Cached responses of one upstream that all replicas share.
#[derive(Debug)]
pub(in crate::policy) struct RemoteCache(pub(in crate::policy) ReplicaSharing);

impl RemoteCache {
    fn entry_name(&self, request: &[u8]) -> String {
        self.0.store.name("response", &[self.0.identity.as_bytes(), request])
    }

    /// Looks up the response to a request. `None` if it is not stored, or the store is unreachable.
    pub(super) async fn get(&self, request: &[u8]) -> Option<CachedResponse> {
        let stored = self.0.store.get(&self.entry_name(request)).await.ok()??;
        decode(&stored)
    }

    /// Stores a response for as long as it may be used, in the background. Responses of programs are not
    /// stored, because the encoding has no exit status.
    pub(super) fn store(&self, request: &[u8], entry: &CachedResponse, settings: CacheSettings) {
        let lifetime = entry.usable_for(settings);
        let is_too_long = entry.response.body.len() >= self.0.store.entry_limit_bytes();
        if entry.response.exit.is_some() || lifetime.is_zero() || is_too_long {
            return;
        }
        if let Some(bytes) = encode(entry, lifetime) {
            self.0.store.put(&self.entry_name(request), &bytes, lifetime);
        }
    }

    /// Removes the response to a request.
    pub(super) fn remove(&self, request: &[u8]) {
        self.0.store.remove(&self.entry_name(request));
    }
}

/// Head of an encoded entry: JSON in one line. The body follows.
#[derive(Serialize, Deserialize)]
struct EntryHead {
    status: u16,
    has_status: bool,
    age: Duration,
    /// Lifetime in the store.
    lifetime: Duration,
    headers: Vec<(String, String)>,
}

/// Encodes an entry. `None` if a header is not ASCII text.
fn encode(entry: &CachedResponse, lifetime: Duration) -> Option<Vec<u8>> {
    let UpstreamResponse { status, headers, body, has_status, .. } = &entry.response;
    let text = |value: &HeaderValue| value.to_str().ok().map(str::to_owned);
    let headers = headers.iter().map(|(name, value)| Some((name.to_string(), text(value)?)));
    let (status, age) = (status.as_u16(), entry.received_at.elapsed());
    let headers = headers.collect::<Option<_>>()?;
    let head = EntryHead { status, has_status: *has_status, age, lifetime, headers };
    Some([&serde_json::to_vec(&head).ok()?, &b"\n"[..], body].concat())
}

/// Decodes an entry. The age of the response is computed from the remaining lifetime, so the clocks of
/// replicas need not agree.
fn decode(stored: &StoredValue) -> Option<CachedResponse> {
    let end = stored.content.iter().position(|byte| *byte == b'\n')?;
    let (head, body) = (&stored.content[..end], &stored.content[end + 1..]);
    let EntryHead { status, has_status, age, lifetime, headers } = serde_json::from_slice(head).ok()?;
    let (status, mut header_map) = (StatusCode::from_u16(status).ok()?, HeaderMap::new());
    for (name, value) in headers {
        // Fails if there are more headers than a map can hold; `append` would panic.
        header_map.try_append(name.parse::<HeaderName>().ok()?, value.parse().ok()?).ok()?;
    }
    let age = age.checked_add(lifetime.saturating_sub(stored.remaining_ttl))?;
    let received_at = Instant::now().checked_sub(age)?;
    let response = UpstreamResponse::new(status, header_map, Bytes::copy_from_slice(body));
    let response = UpstreamResponse { has_status, ..response };
    Some(CachedResponse { received_at, ..CachedResponse::new(response) })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[track_caller]
    fn control(lines: &[(&str, &str)]) -> CacheControl {
        let name = |name: &str| name.parse::<HeaderName>().unwrap();
        CacheControl::from_headers(
            &lines.iter().map(|(key, value)| (name(key), value.parse().unwrap())).collect(),
        )
    }

    fn freshness_lifetime(seconds: u64) -> CacheControl {
        CacheControl { freshness_lifetime: Some(Duration::from_secs(seconds)), ..CacheControl::default() }
    }

    fn max_age(seconds: u64) -> CacheControl {
        CacheControl { max_age: Some(Duration::from_secs(seconds)), ..freshness_lifetime(seconds) }
    }

    #[test]
    fn max_age_sets_the_freshness_lifetime() {
        assert_eq!(control(&[]), CacheControl::default());
        assert_eq!(
            control(&[("cache-control", "public, Max-Age=\"60\"")]),
            CacheControl { public: true, ..max_age(60) }
        );
        assert_eq!(control(&[("cache-control", "max-age=60"), ("expires", "0")]), max_age(60));
        assert_eq!(
            control(&[("cache-control", "max-age=60, s-maxage=9")]),
            CacheControl { must_revalidate: true, freshness_lifetime: Some(9 * SECOND), ..max_age(60) }
        );
        assert_eq!(control(&[("cache-control", "max-age=soon")]), max_age(0));
        assert_eq!(
            control(&[("cache-control", "max-age=99999999999999999999999")]),
            max_age(MAX_HEADER_DURATION.as_secs())
        );
        let dates = [("date", "Sun, 06 Nov 1994 08:49:37 GMT"), ("expires", "Sun, 06 Nov 1994 08:50:37 GMT")];
        assert_eq!(control(&dates), freshness_lifetime(60));
        assert_eq!(control(&[("expires", "0")]), freshness_lifetime(0));
        let aged = control(&[("cache-control", "max-age=60, stale-if-error=5"), ("age", "20")]);
        let (age, stale_if_error) = (Duration::from_secs(20), Duration::from_secs(5));
        assert_eq!(aged, CacheControl { age, stale_if_error, ..max_age(60) });
    }

    #[test]
    fn private_responses_and_cookies_are_not_cached() {
        let (ttl, stale_if_error) = (CacheTtl::For(SECOND), None);
        let settings = CacheSettings { ttl, stale_if_error, ignore_cache_control: false };
        for (name, value) in [
            ("cache-control", "no-store"),
            ("cache-control", "private, max-age=60"),
            ("cache-control", "max-age=60, private=\"x-a, x-b\""),
            ("cache-control", "public, private"),
            ("set-cookie", "session=1"),
        ] {
            let entry = CachedResponse { control: control(&[(name, value)]), ..entry() };
            assert!(!entry.is_cacheable(settings), "{name}: {value}");
            assert!(entry.is_cacheable(CacheSettings { ignore_cache_control: true, ..settings }));
        }
    }

    #[test]
    fn no_cache_requires_revalidation() {
        assert!(control(&[("cache-control", "no-cache")]).no_cache);
        assert!(control(&[("pragma", "no-cache")]).no_cache);
        assert!(!control(&[("pragma", "no-cache"), ("cache-control", "max-age=1")]).no_cache);
        assert!(
            control(&[("vary", "accept, *")]).uncacheable_vary
                && control(&[("vary", "TraceParent")]).uncacheable_vary
        );
        assert!(!control(&[("vary", "accept, authorization")]).uncacheable_vary);
    }

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
        let mut entry = entry();
        entry.response.has_status = false;
        tokio::time::advance(3 * SECOND).await;
        let content = encode(&entry, 60 * SECOND).unwrap();
        let decoded = decode(&StoredValue { content, remaining_ttl: 50 * SECOND }).unwrap();
        assert_eq!(decoded.received_at.elapsed(), 13 * SECOND);
        assert_eq!(
            (decoded.response.status, &decoded.response.headers),
            (entry.response.status, &entry.response.headers)
        );
        assert_eq!((decoded.response.body, decoded.control), (entry.response.body, entry.control));
        assert!(!decoded.response.has_status);
    }

    proptest! {
        #[test]
        fn an_invalid_entry_is_ignored(
            content in prop::collection::vec(any::<u8>(), 0..80),
            index in 0..60_usize,
            byte: u8,
        ) {
            let is_readable = |content| decode(&StoredValue { content, remaining_ttl: SECOND }).is_some();
            prop_assert!(!is_readable(content));
            let mut changed = encode(&entry(), SECOND).unwrap();
            let index = index % changed.len();
            changed[index] = byte;
            let _ = is_readable(changed);
            let mut truncated = encode(&entry(), SECOND).unwrap();
            // The body has no length field.
            truncated.truncate(index.min(truncated.len() - 5));
            prop_assert!(!is_readable(truncated));
        }
    }
}
