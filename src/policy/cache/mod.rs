//! Response cache (RFC 9111) with request coalescing.
//!
//! - [`Entry`]: a cached response.
//! - [`Store`]: the cached responses of all routes, limited in bytes.
//! - [`RemoteCache`]: the cached responses that replicas share.
//! - [`ResponseCache`]: the cache of one route, and its requests in flight.

mod entry;
mod remote;

use std::{
    collections::HashMap,
    future::Future,
    sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak},
    time::Duration,
};

use http::{HeaderName, StatusCode, header};
use quick_cache::{OptionsBuilder, Weighter, sync::Cache};
use tokio::time::timeout_at;

use self::entry::Entry;
use super::{Response, RouteCounts};
use crate::{
    model::UpstreamResponse,
    route::UpstreamName,
    telemetry::CallContext,
    upstream::{SharedTask, UpstreamCall, UpstreamError},
};

pub(super) use self::remote::RemoteCache;

/// Which replies are kept, and for how long.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CacheSettings {
    /// How long a reply is good.
    pub lasts: Lasts,
    /// How much longer an old one is given where the upstream fails.
    pub stale_if_error: Duration,
    /// Whether responses are cached although their `Cache-Control` forbids it.
    pub forbidden: Forbidden,
}

/// How long a reply is good.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Lasts {
    /// So long.
    For(Duration),
    /// As long as the upstream says of it; where it says nothing, it is asked each time whether it is still
    /// good.
    AsTheUpstreamSays,
}

/// What is done with replies that the upstream says must not be kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Forbidden {
    /// They are not.
    Heeded,
    /// They are all the same.
    Kept,
}

/// The response cache of one route, with one upstream request for equal requests at the same time.
///
/// Only 200, 203 and 204 are cached. A stale response with an `ETag` or a `Last-Modified` is revalidated.
#[derive(Debug)]
pub(super) struct ResponseCache {
    pub(super) upstream: UpstreamName,
    /// A number that no other upstream has, nor the same one once it is configured in another way.
    pub(super) upstream_id: u64,
    /// Which responses are cached; none where calls only share what is under way.
    pub(super) settings: Option<CacheSettings>,
    pub(super) store: Store,
    pub(super) remote: Option<RemoteCache>,
    /// The requests under way, where calls share them. There are never more than there are calls.
    pub(super) under_way: Option<Mutex<HashMap<Key, Weak<Flight>>>>,
    pub(super) counts: RouteCounts,
}

/// Everything that a response depends on: the upstream, how long a response may be, and all that is sent
/// ([`UpstreamRequest::to_bytes`](crate::route::UpstreamRequest::to_bytes)). Whatever of a client goes into a
/// request, its credentials for instance, is a part of it; so nobody gets a response to a request that was
/// not theirs, word for word. Keys are compared as a whole, not by a hash.
type Key = Arc<[u8]>;

/// How many bytes of a key are the upstream's number. Other replicas have another one.
const UPSTREAM_ID_BYTES: usize = size_of::<u64>();

/// One request, for all who hold it. It begins when the first of them asks, goes on as long as one of them
/// waits, whoever began it, and ends with the last; each has the deadline that is its own.
#[derive(Debug)]
pub(super) struct Flight {
    key: Key,
    cache: Arc<ResponseCache>,
    begun: OnceLock<Begun>,
}

/// A request that is under way.
#[derive(Debug)]
struct Begun {
    response: SharedTask<Result<Response, UpstreamError>>,
    /// The call that it was begun for.
    context: CallContext,
}

impl Drop for Flight {
    fn drop(&mut self) {
        if let Some(begun) = self.begun.get() {
            begun.response.abort();
        }
        // Another one may have begun since.
        if let Some(mut under_way) = self.cache.under_way()
            && under_way.get(&self.key).is_some_and(|flight| flight.strong_count() == 0)
        {
            under_way.remove(&self.key);
        }
    }
}

/// The part of a caller's time after which an old reply is better than none.
const LATE: f64 = 0.9;

/// Requests with one of these ask for something else than the whole reply.
const CONDITIONS: [HeaderName; 6] = [
    header::IF_MATCH,
    header::IF_NONE_MATCH,
    header::IF_MODIFIED_SINCE,
    header::IF_UNMODIFIED_SINCE,
    header::IF_RANGE,
    header::RANGE,
];

impl ResponseCache {
    /// A cached response, that of the request under way, or the one that `send` brings.
    pub(super) async fn get_or_fetch<F>(
        self: &Arc<Self>,
        upstream_call: &UpstreamCall,
        send: impl FnOnce(UpstreamCall) -> F + Send + 'static,
    ) -> Result<Response, UpstreamError>
    where
        F: Future<Output = Result<UpstreamResponse, UpstreamError>> + Send + 'static,
    {
        let key = self.key(upstream_call);
        let is_conditional = upstream_call
            .request
            .headers()
            .is_some_and(|headers| CONDITIONS.iter().any(|name| headers.contains_key(name)));
        let Some(settings) = self.settings.filter(|_| !is_conditional) else {
            let fetch =
                async move |upstream_call: UpstreamCall| send(upstream_call).await.map(Response::of_upstream);
            return self.flight(&key).fetch(upstream_call, fetch).await;
        };
        let mut old = self.store.get(&key);
        if let Some(response) = self.fresh(settings, &key, old.as_ref()) {
            return Ok(response);
        }
        old = self.newer(settings, &key, old).await;
        if let Some(response) = self.fresh(settings, &key, old.as_ref()) {
            return Ok(response);
        }
        // From here on the request is under way until its response is cached: who looks for that in vain
        // finds the request, and who comes too late for the request finds what was cached.
        let flight = self.flight(&key);
        if let Some(response) = self.fresh(settings, &key, self.store.get(&key).as_ref()) {
            return Ok(response);
        }
        self.counts.fetched.add();
        let spare = old.clone().filter(|old| old.is_better_than_nothing(settings));
        let cache = self.clone();
        // The request has the sooner end: an upstream that has not responded by then is late for the circuit
        // breakers.
        let sooner = spare
            .as_ref()
            .map(|_| UpstreamCall { deadline: upstream_call.deadline.share(LATE), ..upstream_call.clone() });
        let upstream_call = sooner.as_ref().unwrap_or(upstream_call);
        let fetched = flight.fetch(upstream_call, |upstream_call| {
            cache.fetch_and_store(settings, key.clone(), upstream_call, old, send)
        });
        let Some(spare) = spare else { return fetched.await };
        match timeout_at(upstream_call.deadline.at, fetched).await {
            Ok(Ok(response)) if !response.response.status.is_server_error() => Ok(response),
            Ok(_) | Err(_) => {
                self.counts.old.add();
                Ok(self.give(&key, &spare))
            }
        }
    }

    fn key(&self, upstream_call: &UpstreamCall) -> Key {
        // Whatever an `UpstreamCall` has besides is no part of what is sent.
        let UpstreamCall {
            request,
            response_limit_bytes,
            deadline: _,
            idempotent: _,
            client: _,
            meanwhile: _,
            context: _,
            charge: _,
            traced: _,
        } = upstream_call;
        // A longer response is an error, so the limit is a part of what comes of a request.
        let limit = (*response_limit_bytes as u64).to_be_bytes();
        [&self.upstream_id.to_be_bytes()[..], &limit, &request.to_bytes()].concat().into()
    }

    /// A response that needs no asking.
    fn fresh(
        self: &Arc<Self>,
        settings: CacheSettings,
        key: &Key,
        entry: Option<&Arc<Entry>>,
    ) -> Option<Response> {
        let entry = entry.filter(|entry| !entry.left(settings).is_zero())?;
        self.counts.kept.add();
        Some(self.give(key, entry))
    }

    fn give(self: &Arc<Self>, key: &Key, entry: &Arc<Entry>) -> Response {
        let place = CacheEntry { cache: self.clone(), key: key.clone(), entry: entry.clone() };
        Response { response: entry.told(), age: Some(entry.age()), entry: Some(place) }
    }

    /// The response that another replica has cached, where it is a better one than ours; then it is ours,
    /// too.
    async fn newer(&self, settings: CacheSettings, key: &Key, own: Option<Arc<Entry>>) -> Option<Arc<Entry>> {
        let Some(remote) = &self.remote else { return own };
        let found = remote.get(&key[UPSTREAM_ID_BYTES..]).await;
        // Another call may have stored one while the store was asked.
        let own = self.store.get(key).or(own);
        let Some(entry) = found else { return own };
        // What may be cached here is for this route to say, whoever wrote it there.
        if !entry.is_cacheable(settings) || own.as_ref().is_some_and(|own| own.came >= entry.came) {
            return own;
        }
        let entry = Arc::new(entry);
        self.store.put(key, entry.clone());
        if !entry.left(settings).is_zero() {
            self.counts.kept_by_others.add();
        }
        Some(entry)
    }

    /// Asks for what is not there, or about what is stale, and stores what comes.
    async fn fetch_and_store<F>(
        self: Arc<Self>,
        settings: CacheSettings,
        key: Key,
        mut upstream_call: UpstreamCall,
        old: Option<Arc<Entry>>,
        send: impl FnOnce(UpstreamCall) -> F,
    ) -> Result<Response, UpstreamError>
    where
        F: Future<Output = Result<UpstreamResponse, UpstreamError>>,
    {
        let is_about_old = match (&old, upstream_call.request.headers_mut()) {
            (Some(old), Some(headers)) => old.ask_whether_it_is_good(headers),
            _ => false,
        };
        let upstream_response = send(upstream_call).await?;
        let (response, entry) = match &old {
            Some(old) if is_about_old && upstream_response.status == StatusCode::NOT_MODIFIED => {
                self.counts.still_good.add();
                let renewed = old.renewed(upstream_response.headers);
                (Response { response: renewed.told(), age: Some(renewed.age()), entry: None }, renewed)
            }
            _ => (Response::of_upstream(upstream_response.clone()), Entry::new(upstream_response)),
        };
        if !entry.is_cacheable(settings) {
            if let Some(old) = old
                && !response.response.status.is_server_error()
            {
                self.forget(&key, &old);
            }
            return Ok(response);
        }
        let entry = Arc::new(entry.compact());
        self.store.put(&key, entry.clone());
        if let Some(remote) = &self.remote {
            remote.put(&key[UPSTREAM_ID_BYTES..], &entry, settings);
        }
        Ok(Response { entry: Some(CacheEntry { cache: self, key, entry }), ..response })
    }

    /// Removes a response, here and where other replicas would find it.
    fn forget(&self, key: &Key, entry: &Arc<Entry>) {
        self.store.forget(key, entry);
        if let Some(remote) = &self.remote {
            remote.remove(&key[UPSTREAM_ID_BYTES..]);
        }
    }

    /// The request of these words: the one under way, or one that is to begin.
    fn flight(self: &Arc<Self>, key: &Key) -> Arc<Flight> {
        let new = || Arc::new(Flight { key: key.clone(), cache: self.clone(), begun: OnceLock::new() });
        let Some(mut under_way) = self.under_way() else { return new() };
        if let Some(flight) = under_way.get(key).and_then(Weak::upgrade) {
            return flight;
        }
        let flight = new();
        under_way.insert(key.clone(), Arc::downgrade(&flight));
        flight
    }

    /// The requests under way, where calls share them.
    fn under_way(&self) -> Option<MutexGuard<'_, HashMap<Key, Weak<Flight>>>> {
        Some(self.under_way.as_ref()?.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Flight {
    /// The response to this request, which `fetch` begins where nobody has: in a task of its own, where
    /// others may join.
    async fn fetch<F>(
        &self,
        upstream_call: &UpstreamCall,
        fetch: impl FnOnce(UpstreamCall) -> F,
    ) -> Result<Response, UpstreamError>
    where
        F: Future<Output = Result<Response, UpstreamError>> + Send + 'static,
    {
        if self.cache.under_way.is_none() {
            return fetch(upstream_call.clone()).await;
        }
        let mut own_fetch = Some(fetch);
        let begun = self.begun.get_or_init(|| {
            let fetch = own_fetch.take().expect("a cell is initialized once");
            // Others may wait for longer than the one who begins.
            let for_all =
                UpstreamCall { deadline: upstream_call.deadline.for_everybody(), ..upstream_call.clone() };
            Begun { response: SharedTask::spawn(fetch(for_all)), context: upstream_call.context.clone() }
        });
        let is_first = own_fetch.is_none();
        if !is_first {
            self.cache.counts.joined.add();
            upstream_call.context.join(&begun.context);
        }
        let upstream = &self.cache.upstream;
        let response = begun.response.result().await.unwrap_or_else(|| {
            let source = "the task that asked ended early".into();
            Err(UpstreamError::CutOff { upstream: upstream.clone(), source })
        });
        let response = match (response, own_fetch) {
            // The limit is one of the client that sent it, and says nothing of this one.
            (Err(UpstreamError::ClientBusy { .. }), Some(fetch)) => {
                return fetch(upstream_call.clone()).await;
            }
            (response, _) => response?,
        };
        // A cached one is charged by whoever gets it.
        if is_first || response.age.is_some() {
            return Ok(response);
        }
        Ok(Response { response: upstream_call.charged(response.response, upstream).await?, ..response })
    }
}

/// Where a response is cached.
#[derive(Debug, Clone)]
pub struct CacheEntry {
    cache: Arc<ResponseCache>,
    key: Key,
    entry: Arc<Entry>,
}

impl CacheEntry {
    /// Removes it from the cache, unless there is another by now: its words are an error after all.
    pub fn forget(&self) {
        self.cache.forget(&self.key, &self.entry);
    }
}

/// The cached responses of all routes together, never more than a number of bytes. What is used seldom goes
/// first. Clones are the same one.
#[derive(Debug, Clone)]
pub struct Store(Arc<Cache<Key, Arc<Entry>, Weight>>);

/// How many bytes an entry takes.
#[derive(Debug, Clone)]
struct Weight;

impl Weighter<Key, Arc<Entry>> for Weight {
    fn weight(&self, key: &Key, entry: &Arc<Entry>) -> u64 {
        // With its share of the table, about.
        (256 + key.len() + entry.bytes()) as u64
    }
}

impl Store {
    /// For the bytes that are cached in all.
    pub const LIMIT_BYTES_DEFAULT: usize = 64 << 20;

    /// An empty one.
    pub fn new(limit_bytes: usize) -> Self {
        let mut options = OptionsBuilder::new();
        // One shard: the largest response that can be cached is a part of what one shard may take.
        options.shards(1).estimated_items_capacity(1024).weight_capacity(limit_bytes as u64);
        let options = options.build().expect("all that it needs is set");
        Self(Arc::new(Cache::with_options(options, Weight, Default::default(), Default::default())))
    }

    /// Keeps at most so much from now on.
    pub fn set_limit(&self, limit_bytes: usize) {
        self.0.set_capacity(limit_bytes as u64);
    }

    /// How many bytes are cached.
    pub fn bytes(&self) -> u64 {
        self.0.weight()
    }

    /// How many responses are cached.
    pub fn entries(&self) -> usize {
        self.0.len()
    }

    /// How many bytes may be.
    pub fn limit_bytes(&self) -> u64 {
        self.0.capacity()
    }

    fn get(&self, key: &Key) -> Option<Arc<Entry>> {
        self.0.get(key)
    }

    /// Stores a response in the place of the one that was there. One that is larger than all that may be
    /// cached is not.
    fn put(&self, key: &Key, entry: Arc<Entry>) {
        self.0.insert(key.clone(), entry);
    }

    /// Removes a response, unless another is in its place by now.
    fn forget(&self, key: &Key, entry: &Arc<Entry>) {
        self.0.remove_if(key, |now| Arc::ptr_eq(now, entry));
    }
}

#[cfg(test)]
mod tests;
