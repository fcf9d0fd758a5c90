//! JWKS of an issuer: the keys that verify its tokens, from a file or a server.
//!
//! The JWKS of a server is refreshed at intervals, and when a token names an unknown key. One refresh serves
//! all waiting requests, and there is at most one every few seconds, whatever tokens arrive. While the server
//! is unreachable, the last good JWKS is used for a day.

use std::{
    fmt,
    future::Future,
    pin::Pin,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use arc_swap::ArcSwapOption;
use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Method, header, uri::PathAndQuery};
use tokio::time::{Instant, timeout};
use tracing::{info, warn};

use super::{
    AuthError, RequestIdOf,
    jws::{Jwks, Jws},
};
use crate::{
    route::{HttpRequest, PathBase},
    settings::{
        code::Code,
        keys::ValueKind,
        secret,
        section::{Checked, Cursor, Invalid, ReadContext, Setting},
        value::text_of,
    },
    telemetry::{CallContext, ErrorChain, Span},
    upstream::{
        Deadline, SharedTask, UpstreamCall,
        http::{HttpSettings, HttpUpstream, TokenUrl},
    },
};

/// Maximum length of a JWKS, in bytes.
const LIST_LIMIT_BYTES: usize = 256 << 10;
/// Timeout of a refresh.
const REFRESH_TIMEOUT: Duration = Duration::from_secs(5);
/// Age of a JWKS after which it is refreshed.
const REFRESHED_AFTER: Duration = Duration::from_secs(300);
/// Age up to which the last good JWKS is used, if refreshes fail.
const MAX_STALE_AGE: Duration = Duration::from_secs(24 * 3600);
/// Minimum time between two attempts to refresh.
const REFRESH_BACKOFF: Duration = Duration::from_secs(10);

/// The source of a JWKS.
#[derive(Debug, Clone, PartialEq)]
pub enum KeySource {
    /// A document in the configuration or in a file.
    Document(Jwks),
    /// A server.
    Server {
        /// The address and connection settings.
        server: Box<HttpSettings>,
        /// The path and query of the document.
        path_and_query: PathAndQuery,
    },
}

/// Reads a document, `file:` with a document, or the URL of a server.
impl Setting for KeySource {
    const KIND: ValueKind = ValueKind::Text;

    fn read(value: &Cursor<'_>) -> Checked<Self> {
        let (written, ReadContext { report, environment, .. }) = (text_of(value)?.trim(), value.context);
        let is_file = written.starts_with("file:");
        let contents = is_file.then(|| secret::expand_secret(report, environment, value.node.span, written));
        let contents = contents.map(|contents| value.checked(contents)).transpose()?;
        let text = contents.as_ref().map_or(written, |contents| contents.text.trim());
        if is_file || text.starts_with('{') {
            return Jwks::read(text.as_bytes()).map(Self::Document).or_else(|error| {
                let help = "name a JWK set: `{\"keys\": [{\"kty\": \"RSA\", …}]}`";
                value.reject(Invalid::without_value(format!("`jwks` can't be used: {error}"), help))
            });
        }
        let Ok(TokenUrl { address, path_and_query }) = text.parse() else {
            let message = "`jwks` is not a URL that keys can be asked for at";
            return value
                .reject(Invalid::without_value(message, "write `https://HOST/PATH`, or `file:/path`"));
        };
        if !address.is_tls() && !address.is_near() {
            let message = "the keys come from another machine without TLS: who is between can sign tokens";
            let help = "write an `https://` address, or `file:/path`";
            return value
                .reject(Invalid::without_value(message, help).with_code(Code::CredentialsWithoutTls));
        }
        let name = "jwks".parse().expect("a word is a name");
        Ok(Self::Server { server: Box::new(HttpSettings::new(name, address)), path_and_query })
    }
}

/// The active keys of an issuer. Clones share them.
#[derive(Clone)]
pub(super) struct KeySet(Arc<Shared>);

struct Shared {
    /// Requests the JWKS; `None` if the keys come from a document.
    server: Option<Box<JwksFetcher>>,
    held: ArcSwapOption<CachedJwks>,
    asking: Mutex<RefreshState>,
}

/// Function that requests a JWKS, with the context of the call that causes it.
type JwksFetcher = dyn Fn(CallContext) -> JwksFuture + Send + Sync;

/// The future of a requested JWKS.
type JwksFuture = Pin<Box<dyn Future<Output = Result<Jwks, String>> + Send>>;

/// A JWKS, with the time when it was received.
#[derive(Debug)]
pub(super) struct CachedJwks {
    pub(super) keys: Jwks,
    /// The version: a different JWKS has another number.
    pub(super) number: u64,
    since: Instant,
}

#[derive(Default)]
struct RefreshState {
    /// The last refresh.
    coming: Option<SharedTask<()>>,
    asked: Option<Instant>,
}

impl KeySet {
    pub(super) fn new(source: &KeySource) -> Self {
        match source {
            KeySource::Document(keys) => {
                let held = CachedJwks { keys: keys.clone(), number: 0, since: Instant::now() };
                let held = ArcSwapOption::from_pointee(held);
                Self(Arc::new(Shared { server: None, held, asking: Mutex::default() }))
            }
            KeySource::Server { server, path_and_query } => {
                let (server, path) = (HttpUpstream::new((**server).clone()), path_and_query.clone());
                Self::with_fetcher(move |context| Box::pin(fetch_jwks(server.clone(), path.clone(), context)))
            }
        }
    }

    fn with_fetcher(server: impl Fn(CallContext) -> JwksFuture + Send + Sync + 'static) -> Self {
        Self(Arc::new(Shared {
            server: Some(Box::new(server)),
            held: ArcSwapOption::empty(),
            asking: Mutex::default(),
        }))
    }

    /// The active JWKS, if there is one. If it is due for a refresh, that starts in the background.
    pub(super) fn current(&self, asked_for: RequestIdOf<'_>) -> Option<Arc<CachedJwks>> {
        let held = self.0.held.load_full()?;
        if self.0.server.is_none() {
            return Some(held);
        }
        let age = held.since.elapsed();
        if age >= REFRESHED_AFTER {
            let _ = self.0.fetch(asked_for);
        }
        (age < MAX_STALE_AGE).then_some(held)
    }

    /// The active JWKS for a token. If it has no key that the token names, it is refreshed first.
    ///
    /// # Errors
    ///
    /// [`AuthError::KeysUnavailable`] if there is no JWKS.
    pub(super) async fn for_token(
        &self,
        token: &Jws<'_>,
        asked_for: RequestIdOf<'_>,
    ) -> Result<Arc<CachedJwks>, AuthError> {
        let held = self.current(asked_for);
        if let Some(held) = &held
            && held.keys.has_key_for(token)
        {
            return Ok(Arc::clone(held));
        }
        if let Some(coming) = self.0.fetch(asked_for) {
            // The result is seen below.
            let _ = coming.result().await;
        }
        self.current(asked_for).ok_or(AuthError::KeysUnavailable)
    }
}

impl Shared {
    fn with_fetcher(&self) -> MutexGuard<'_, RefreshState> {
        self.asking.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Refreshes the JWKS, unless the last attempt was too recent. The refresh continues when no request
    /// waits for it. Its log lines have the request id of the first request that caused it.
    fn fetch(self: &Arc<Self>, asked_for: RequestIdOf<'_>) -> Option<SharedTask<()>> {
        let server = self.server.as_ref()?;
        let mut asking = self.with_fetcher();
        if let Some(coming) = asking.coming.as_ref().filter(|coming| coming.is_running()) {
            return Some(coming.clone());
        }
        if asking.asked.is_some_and(|asked| asked.elapsed() < REFRESH_BACKOFF) {
            return None;
        }
        asking.asked = Some(Instant::now());
        let context = CallContext::new(asked_for(), Span::default());
        let (shared, listing) = (Arc::clone(self), server(context.clone()));
        let coming = SharedTask::spawn(async move {
            match timeout(REFRESH_TIMEOUT, listing).await {
                Ok(Ok(keys)) => shared.hold(keys, &context),
                Ok(Err(why)) => {
                    warn!(request_id = context.request_id(), %why, "JWKS refresh failed")
                }
                Err(_) => {
                    warn!(request_id = context.request_id(), after = ?REFRESH_TIMEOUT, "JWKS refresh timed out")
                }
            }
        });
        asking.coming = Some(coming.clone());
        Some(coming)
    }

    fn hold(&self, keys: Jwks, context: &CallContext) {
        let before = self.held.load_full();
        let is_same = before.as_ref().is_some_and(|before| before.keys == keys);
        let number = before.map_or(0, |before| before.number) + u64::from(!is_same);
        if !is_same {
            info!(request_id = context.request_id(), ?keys, "JWKS refreshed: the keys have changed");
        }
        self.held.store(Some(Arc::new(CachedJwks { keys, number, since: Instant::now() })));
    }
}

async fn fetch_jwks(
    server: HttpUpstream,
    path_and_query: PathAndQuery,
    context: CallContext,
) -> Result<Jwks, String> {
    let mut headers = HeaderMap::new();
    headers.insert(header::ACCEPT, HeaderValue::from_static("application/json"));
    let request = HttpRequest {
        under: PathBase::Origin,
        method: Method::GET,
        path_and_query,
        headers,
        body: Bytes::new(),
    };
    let mut upstream_call =
        UpstreamCall::new(request.into(), LIST_LIMIT_BYTES, Deadline::after(REFRESH_TIMEOUT), true);
    upstream_call.context = context;
    let response = server.answer(&upstream_call).await.map_err(|error| ErrorChain(&error).to_string())?;
    if !response.status.is_success() {
        return Err(format!("the server responded with {}", response.status));
    }
    Jwks::read(&response.body).map_err(|error| error.to_string())
}

impl fmt::Debug for KeySet {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("KeySet(…)")
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use serde_json::json;

    use super::*;
    use crate::{auth::jws::Algorithm, telemetry::RequestId};

    fn keys(id: &str) -> Jwks {
        let x = "11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo";
        let list = json!({ "keys": [{ "kty": "OKP", "crv": "Ed25519", "kid": id, "x": x }] });
        Jwks::read(list.to_string().as_bytes()).unwrap()
    }

    fn token(id: &str) -> Jws<'static> {
        Jws {
            algorithm: Algorithm::EdDsa,
            key_id: Some(id.to_owned()),
            claims: serde_json::Map::new(),
            message: b"",
            signature: Vec::new(),
        }
    }

    /// A server that returns these lists one after the other, each after a while, and then fails.
    fn server(answers: Vec<Option<Jwks>>) -> (KeySet, Arc<AtomicUsize>) {
        let asked = Arc::new(AtomicUsize::new(0));
        let count = Arc::clone(&asked);
        let set = KeySet::with_fetcher(move |_| {
            let answer = answers.get(count.fetch_add(1, Ordering::Relaxed)).cloned().flatten();
            Box::pin(async move {
                tokio::time::sleep(Duration::from_secs(1)).await;
                answer.ok_or_else(|| "it is down".to_owned())
            })
        });
        (set, asked)
    }

    async fn knows(set: &KeySet, id: &str) -> Result<bool, AuthError> {
        set.for_token(&token(id), &RequestId::next).await.map(|held| held.keys.has_key_for(&token(id)))
    }

    #[tokio::test(start_paused = true)]
    async fn an_unknown_key_is_fetched_once_and_not_too_often() {
        let (set, asked) = server(vec![Some(keys("old")), Some(keys("new"))]);
        let (one, other) = tokio::join!(knows(&set, "old"), knows(&set, "old"));
        assert_eq!((one, other, asked.load(Ordering::Relaxed)), (Ok(true), Ok(true), 1));
        for _ in 0..100 {
            assert_eq!(knows(&set, "made up").await, Ok(false));
        }
        assert_eq!(asked.load(Ordering::Relaxed), 1, "it was asked a moment ago");
        tokio::time::advance(REFRESH_BACKOFF).await;
        let begun = Instant::now();
        assert_eq!((knows(&set, "old").await, begun.elapsed()), (Ok(true), Duration::ZERO));
        assert_eq!((knows(&set, "new").await, asked.load(Ordering::Relaxed)), (Ok(true), 2));
        assert_eq!(knows(&set, "old").await, Ok(false), "it was taken away");
    }

    #[tokio::test(start_paused = true)]
    async fn the_last_jwks_is_used_for_a_limited_time_if_refreshing_fails() {
        let (set, asked) = server(vec![None, Some(keys("a"))]);
        assert_eq!(knows(&set, "a").await, Err(AuthError::KeysUnavailable));
        assert_eq!(knows(&set, "a").await, Err(AuthError::KeysUnavailable));
        tokio::time::advance(REFRESH_BACKOFF).await;
        assert_eq!(knows(&set, "a").await, Ok(true));
        for _ in 0..100 {
            tokio::time::advance(MAX_STALE_AGE / 101).await;
            assert_eq!(knows(&set, "a").await, Ok(true));
            tokio::time::sleep(Duration::from_secs(2)).await;
        }
        assert!(asked.load(Ordering::Relaxed) > 50, "it is asked again and again");
        tokio::time::advance(MAX_STALE_AGE / 50).await;
        assert_eq!(knows(&set, "a").await, Err(AuthError::KeysUnavailable));
    }

    #[tokio::test(start_paused = true)]
    async fn an_old_jwks_is_refreshed_in_the_background() {
        let (set, asked) = server(vec![Some(keys("a")), Some(keys("b"))]);
        assert_eq!(knows(&set, "a").await, Ok(true));
        tokio::time::advance(REFRESHED_AFTER).await;
        let begun = Instant::now();
        assert_eq!((knows(&set, "a").await, begun.elapsed()), (Ok(true), Duration::ZERO));
        tokio::time::sleep(Duration::from_secs(2)).await;
        assert_eq!(asked.load(Ordering::Relaxed), 2);
        assert_eq!((knows(&set, "a").await, knows(&set, "b").await), (Ok(false), Ok(true)));
    }

    #[tokio::test(start_paused = true)]
    async fn fetching_from_a_silent_server_times_out() {
        let set = KeySet::with_fetcher(|_| Box::pin(std::future::pending()));
        let begun = Instant::now();
        assert_eq!(knows(&set, "a").await, Err(AuthError::KeysUnavailable));
        assert_eq!(begun.elapsed(), REFRESH_TIMEOUT);
    }
}
