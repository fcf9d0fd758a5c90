//! Response cache (RFC 9111) with request coalescing.
//!
//! - [`CachedResponse`]: a cached response.
//! - [`CacheStore`]: the cached responses of all routes, limited in bytes.
//! - [`RemoteCache`]: the cached responses that replicas share.
//! - [`ResponseCache`]: the cache of one route, and its requests in flight.
//! - [`CoalescedRequest`]: request coalescing (singleflight) of equal calls.

mod cacheable;

use std::{
    collections::HashMap,
    sync::{Arc, OnceLock, Weak},
    time::Duration,
};

use http::{HeaderName, StatusCode, header};
use parking_lot::Mutex;
use quick_cache::{OptionsBuilder, Weighter, sync::Cache};
use settings_derive::Section;
use tokio::time::timeout_at;

use super::CallResponse;
use crate::route::UpstreamName;
use crate::settings::value::duration_or_enum;
use crate::settings::{Checked, Cursor, Setting, ValueKind};
use crate::telemetry::{CallContext, LabelCounter};
use crate::upstream::{Deadline, Failure, SharedTask, UpstreamCall, UpstreamResult};

use self::cacheable::CachedResponse;
pub(super) use self::cacheable::RemoteCache;
pub use self::cacheable::{CacheControl, conditional_headers};

/// Settings of the response cache.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Section)]
#[section(id = "cache", text = "ttl")]
pub struct CacheSettings {
    /// Time for which a response is fresh: a duration, or `upstream` for its `Cache-Control`.
    #[key(default = CacheTtl::Upstream, example = "ttl: 5m")]
    pub ttl: CacheTtl,
    /// Further time in which a stale response is served if the upstream fails.
    #[key(range = 1..=MAX_TTL, shown = "the upstream's `stale-if-error`, else none")]
    pub stale_if_error: Option<Duration>,
    /// Whether responses are cached even if their `Cache-Control` forbids it.
    pub ignore_cache_control: bool,
}

/// Maximum time for which a response is cached, in milliseconds.
const MAX_TTL: u64 = 30 * 24 * 3_600_000;

/// Freshness lifetime of cached responses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CacheTtl {
    /// The same for every response.
    For(Duration),
    /// As `Cache-Control` and `Expires` of the response specify. Without these headers, each use revalidates
    /// the response.
    Upstream,
}

impl Setting for CacheTtl {
    const KIND: ValueKind =
        ValueKind::Either(&[ValueKind::Duration(1, MAX_TTL), ValueKind::Enum(&["upstream"])]);

    fn read(value: &Cursor<'_>) -> Checked<Self> {
        let name = value.name.trim_matches('`');
        let other = format!("`{name}: upstream` for as long as the upstream says");
        Ok(duration_or_enum(value, &other)?.map_or(Self::Upstream, Self::For))
    }

    fn shown(&self, _kind: ValueKind) -> Option<String> {
        matches!(self, Self::Upstream).then(|| "`upstream`".to_owned())
    }
}

/// Response cache of one route, with coalescing of equal requests.
///
/// Only 200, 203 and 204 are cached. A stale response with an `ETag` or a `Last-Modified` is revalidated.
#[derive(Debug)]
pub(super) struct ResponseCache {
    pub(super) upstream: UpstreamName,
    /// Unique id of the upstream and its settings: another configuration has another id.
    pub(super) upstream_id: u64,
    /// Cache settings. `None` if calls are only coalesced.
    pub(super) settings: Option<CacheSettings>,
    pub(super) store: CacheStore,
    pub(super) remote: Option<RemoteCache>,
    /// Requests in flight, if calls are coalesced. Their number is bounded by the number of calls.
    pub(super) in_flight: Option<Mutex<HashMap<CacheKey, Weak<CoalescedRequest>>>>,
    pub(super) events: LabelCounter,
}

/// Cache key: everything that a response depends on. It contains the upstream, the response limit, and all
/// that is sent ([`UpstreamRequest::to_bytes`](crate::route::UpstreamRequest::to_bytes)). A client's data in
/// the request, such as its credentials, is part of the key, so a client only gets a response to a byte for
/// byte equal request. Keys are compared as a whole, not by a hash.
pub(super) type CacheKey = Arc<[u8]>;

/// Length of the upstream id at the start of a key, in bytes. Keys of the remote cache omit it, because
/// other replicas have other ids.
const UPSTREAM_ID_BYTES: usize = size_of::<u64>();

/// One upstream request shared by equal calls: request coalescing (singleflight). The request starts with the
/// first call, and is cancelled when no call waits for it any more. Each call has its own deadline.
#[derive(Debug)]
pub(super) struct CoalescedRequest {
    key: CacheKey,
    cache: Arc<ResponseCache>,
    /// Task that sends the request, and the call that started it.
    started: OnceLock<(SharedTask<Result<CallResponse, Failure>>, CallContext)>,
}

impl Drop for CoalescedRequest {
    fn drop(&mut self) {
        if let Some((task, _)) = self.started.get() {
            task.abort();
        }
        // Another request with this key may have started since.
        if let Some(mut in_flight) = self.cache.in_flight.as_ref().map(Mutex::lock)
            && in_flight.get(&self.key).is_some_and(|flight| flight.strong_count() == 0)
        {
            in_flight.remove(&self.key);
        }
    }
}

/// Fraction of a call's timeout after which a stale response is used.
const STALE_AFTER: f64 = 0.9;

/// Conditional and range headers: a request with one of them bypasses the cache.
const CONDITIONS: [HeaderName; 6] = [
    header::IF_MATCH,
    header::IF_NONE_MATCH,
    header::IF_MODIFIED_SINCE,
    header::IF_UNMODIFIED_SINCE,
    header::IF_RANGE,
    header::RANGE,
];

impl ResponseCache {
    /// Returns a cached response, joins a request in flight, or fetches a response with `send`.
    pub(super) async fn get_or_fetch<F>(
        self: &Arc<Self>,
        upstream_call: &UpstreamCall,
        send: impl FnOnce(UpstreamCall) -> F + Send + 'static,
    ) -> Result<CallResponse, Failure>
    where
        F: Future<Output = UpstreamResult> + Send + 'static,
    {
        let key = self.key(upstream_call);
        let is_conditional = upstream_call
            .request
            .headers()
            .is_some_and(|headers| CONDITIONS.iter().any(|name| headers.contains_key(name)));
        let Some(settings) = self.settings.filter(|_| !is_conditional) else {
            let fetch = async move |upstream_call: UpstreamCall| {
                send(upstream_call).await.map(CallResponse::from_upstream)
            };
            return self.flight(&key).fetch(upstream_call, fetch).await;
        };
        let stored = self.store.0.get(&key);
        if let Some(response) = self.fresh_response(settings, &key, stored.as_ref()) {
            return Ok(response);
        }
        let stored = self.newer_entry(settings, &key, stored).await;
        // The request is in flight from now on until its response is cached. A call that misses the cache
        // finds the request in flight; a call that comes after the request finds the cached response.
        let flight = self.flight(&key);
        if let Some(response) =
            self.fresh_response(settings, &key, self.store.0.get(&key).or_else(|| stored.clone()).as_ref())
        {
            return Ok(response);
        }
        self.events.add("cache_miss");
        let stale = stored.clone().filter(|stored| stored.may_serve_stale(settings));
        let cache = self.clone();
        // The request gets the earlier deadline: an upstream that misses it counts as late for the circuit
        // breakers.
        let shortened_call = stale.as_ref().map(|_| UpstreamCall {
            deadline: upstream_call.deadline.share(STALE_AFTER),
            ..upstream_call.clone()
        });
        let upstream_call = shortened_call.as_ref().unwrap_or(upstream_call);
        let fetched = flight.fetch(upstream_call, |upstream_call| {
            cache.fetch_and_store(settings, key.clone(), upstream_call, stored, send)
        });
        let Some(stale) = stale else { return fetched.await };
        let upstream_result = match timeout_at(upstream_call.deadline.at, fetched).await {
            Ok(Ok(response)) if !response.response.status.is_server_error() => return Ok(response),
            Ok(Ok(response)) => response.upstream_result,
            Ok(Err(failure)) => Some(Err(failure.into_error(&self.upstream))),
            Err(_) => Some(Err(Failure::Timeout(upstream_call.deadline.after).into_error(&self.upstream))),
        };
        self.events.add("cache_stale");
        Ok(CallResponse { upstream_result, ..self.to_response(&key, &stale) })
    }

    fn key(&self, upstream_call: &UpstreamCall) -> CacheKey {
        // The ignored fields are not sent. The pattern names each of them, so that a new field is not
        // forgotten here.
        let UpstreamCall {
            request,
            response_limit_bytes,
            deadline: _,
            idempotent: _,
            client: _,
            progress: _,
            context: _,
            charge: _,
            traced: _,
            attempted_endpoints: _,
        } = upstream_call;
        // A response over the limit is an error, so the result depends on the limit.
        let limit = (*response_limit_bytes as u64).to_be_bytes();
        [&self.upstream_id.to_be_bytes()[..], &limit, &request.to_bytes()].concat().into()
    }

    /// Returns the response of a cache entry, if it is still fresh.
    fn fresh_response(
        self: &Arc<Self>,
        settings: CacheSettings,
        key: &CacheKey,
        entry: Option<&Arc<CachedResponse>>,
    ) -> Option<CallResponse> {
        let entry = entry.filter(|entry| !entry.remaining_freshness(settings).is_zero())?;
        self.events.add("cache_hit");
        Some(self.to_response(key, entry))
    }

    fn to_response(self: &Arc<Self>, key: &CacheKey, entry: &Arc<CachedResponse>) -> CallResponse {
        let handle = CacheEntry { cache: self.clone(), key: key.clone(), entry: entry.clone() };
        CallResponse {
            response: entry.to_client_response(),
            age: Some(entry.age()),
            entry: Some(handle),
            upstream_result: None,
        }
    }

    /// Looks for a response that another replica has cached. If it is newer than `local`, the response in the
    /// local cache, stores it locally. Returns the newer of the two.
    async fn newer_entry(
        &self,
        settings: CacheSettings,
        key: &CacheKey,
        local: Option<Arc<CachedResponse>>,
    ) -> Option<Arc<CachedResponse>> {
        let Some(remote) = &self.remote else { return local };
        let remote_entry = remote.get(&key[UPSTREAM_ID_BYTES..]).await;
        // Another call may have stored a response locally meanwhile.
        let local = self.store.0.get(key).or(local);
        let Some(entry) = remote_entry else { return local };
        // The settings of this route decide, even if another replica stored the response.
        if !entry.is_cacheable(settings)
            || local.as_ref().is_some_and(|local| local.received_at >= entry.received_at)
        {
            return local;
        }
        let entry = Arc::new(entry);
        self.store.0.insert(key.clone(), entry.clone());
        if !entry.remaining_freshness(settings).is_zero() {
            self.events.add("cache_hit_from_replica");
        }
        Some(entry)
    }

    /// Fetches a response, or revalidates the stale response `stored`, and stores the result.
    async fn fetch_and_store<F>(
        self: Arc<Self>,
        settings: CacheSettings,
        key: CacheKey,
        mut upstream_call: UpstreamCall,
        stored: Option<Arc<CachedResponse>>,
        send: impl FnOnce(UpstreamCall) -> F,
    ) -> Result<CallResponse, Failure>
    where
        F: Future<Output = UpstreamResult>,
    {
        if let (Some(stored), Some(headers)) = (&stored, upstream_call.request.headers_mut()) {
            headers.extend(conditional_headers(&stored.response.headers));
        }
        let upstream_response = send(upstream_call).await?;
        let renewed = stored
            .as_ref()
            .filter(|stored| stored.has_validator() && upstream_response.status == StatusCode::NOT_MODIFIED)
            .map(|stored| stored.renewed(&upstream_response.headers));
        let mut response = CallResponse::from_upstream(upstream_response);
        if let Some(renewed) = &renewed {
            self.events.add("cache_revalidated");
            (response.response, response.age) = (renewed.to_client_response(), Some(renewed.age()));
        }
        let entry = renewed.unwrap_or_else(|| CachedResponse::new(response.response.clone()));
        if !entry.is_cacheable(settings) {
            if let Some(stored) = stored
                && !response.response.status.is_server_error()
            {
                self.invalidate(&key, &stored);
            }
            return Ok(response);
        }
        let entry = Arc::new(entry.compact());
        self.store.0.insert(key.clone(), entry.clone());
        if let Some(remote) = &self.remote {
            remote.store(&key[UPSTREAM_ID_BYTES..], &entry, settings);
        }
        Ok(CallResponse { entry: Some(CacheEntry { cache: self, key, entry }), ..response })
    }

    /// Removes a response from the local cache and the remote one.
    fn invalidate(&self, key: &CacheKey, entry: &Arc<CachedResponse>) {
        self.store.invalidate(key, entry);
        if let Some(remote) = &self.remote {
            remote.remove(&key[UPSTREAM_ID_BYTES..]);
        }
    }

    /// Returns the request in flight with this key, or creates one.
    fn flight(self: &Arc<Self>, key: &CacheKey) -> Arc<CoalescedRequest> {
        let create =
            || Arc::new(CoalescedRequest { key: key.clone(), cache: self.clone(), started: OnceLock::new() });
        let Some(mut in_flight) = self.in_flight.as_ref().map(Mutex::lock) else { return create() };
        let flight = in_flight.get(key).and_then(Weak::upgrade).unwrap_or_else(create);
        in_flight.insert(key.clone(), Arc::downgrade(&flight));
        flight
    }
}

impl CoalescedRequest {
    /// Returns the response to this request. The first call starts `fetch` in a separate task, so that other
    /// calls can join the request.
    async fn fetch<F>(
        &self,
        upstream_call: &UpstreamCall,
        fetch: impl FnOnce(UpstreamCall) -> F,
    ) -> Result<CallResponse, Failure>
    where
        F: Future<Output = Result<CallResponse, Failure>> + Send + 'static,
    {
        if self.cache.in_flight.is_none() {
            return fetch(upstream_call.clone()).await;
        }
        let mut unused_fetch = Some(fetch);
        let (task, first_context) = self.started.get_or_init(|| {
            let fetch = unused_fetch.take().expect("a cell is initialized once");
            // Calls that join later may have later deadlines than the first call.
            let deadline = Deadline { at: upstream_call.deadline.latest, ..upstream_call.deadline };
            let shared_call = UpstreamCall { deadline, ..upstream_call.clone() };
            (SharedTask::spawn(fetch(shared_call)), upstream_call.context.clone())
        });
        let is_first = unused_fetch.is_none();
        if !is_first {
            self.cache.events.add("coalesced");
            upstream_call.context.join(first_context);
        }
        let ended_early = || Err(Failure::CutOff("the task of the coalesced request ended early".into()));
        let response = match (task.result().await.unwrap_or_else(ended_early), unused_fetch) {
            // The limit per client concerns the client of the first call, not the client of this call.
            (Err(Failure::ClientBusy(_)), Some(fetch)) => return fetch(upstream_call.clone()).await,
            (response, _) => response?,
        };
        // The pipeline charges the memory of a cached response to this call.
        if is_first || response.age.is_some() {
            return Ok(response);
        }
        Ok(CallResponse { response: upstream_call.charged(response.response).await?, ..response })
    }
}

/// Handle of a cached response, with which the pipeline can invalidate it.
#[derive(Debug, Clone)]
pub struct CacheEntry {
    cache: Arc<ResponseCache>,
    key: CacheKey,
    entry: Arc<CachedResponse>,
}

impl CacheEntry {
    /// Invalidates the cached response, unless it was replaced since. The pipeline calls this method if the
    /// translation of the response is an error.
    pub fn invalidate(&self) {
        self.cache.invalidate(&self.key, &self.entry);
    }
}

/// Cached responses of all routes, limited in bytes. Rarely used entries are evicted first (the eviction
/// policy of `quick_cache` is a variant of Clock-PRO). A response larger than the whole cache is not stored.
/// Clones share the responses.
#[derive(Debug, Clone)]
pub struct CacheStore(pub(super) Arc<Cache<CacheKey, Arc<CachedResponse>, Weight>>);

/// Weight of an entry: its size in bytes.
#[derive(Debug, Clone)]
pub(super) struct Weight;

impl Weighter<CacheKey, Arc<CachedResponse>> for Weight {
    fn weight(&self, key: &CacheKey, entry: &Arc<CachedResponse>) -> u64 {
        // Includes 256 bytes, the estimated share of an entry in the hash table.
        (256 + key.len() + entry.bytes()) as u64
    }
}

impl Default for CacheStore {
    fn default() -> Self {
        Self::new(Self::LIMIT_BYTES_DEFAULT)
    }
}

impl CacheStore {
    /// Default of the maximum size of all cached responses together, in bytes.
    pub const LIMIT_BYTES_DEFAULT: usize = 64 << 20;

    /// Creates an empty store.
    pub fn new(limit_bytes: usize) -> Self {
        let mut options = OptionsBuilder::new();
        // One shard, because a response can be no larger than the capacity of its shard.
        options.shards(1).estimated_items_capacity(1024).weight_capacity(limit_bytes as u64);
        let options = options.build().expect("all required options are set");
        Self(Arc::new(Cache::with_options(options, Weight, Default::default(), Default::default())))
    }

    /// Changes the maximum size, and evicts the responses over it.
    pub fn set_limit(&self, limit_bytes: usize) {
        self.0.set_capacity(limit_bytes as u64);
    }

    /// Removes a response, unless it was replaced since.
    fn invalidate(&self, key: &CacheKey, entry: &Arc<CachedResponse>) {
        self.0.remove_if(key, |current| Arc::ptr_eq(current, entry));
    }
}

#[cfg(test)]
mod tests;
