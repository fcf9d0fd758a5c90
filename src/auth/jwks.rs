//! JWKS of an issuer: the keys that verify its tokens, from the configuration, a file or a server.
//!
//! The JWKS of a server is refreshed when a request finds that it is older than 5 min, and when a token names
//! an unknown key. One refresh serves all waiting requests, and there is at most one refresh every 10 s, no
//! matter which tokens arrive. While refreshes fail, the last JWKS is used until it is a day old.

use std::{sync::Arc, time::Duration};

use arc_swap::ArcSwapOption;
use base64::{Engine, engine::general_purpose::URL_SAFE_NO_PAD};
use futures_util::{FutureExt, future::BoxFuture};
use http::{HeaderValue, header, uri::PathAndQuery};
use parking_lot::Mutex;
use ring::signature::{RsaPublicKeyComponents, UnparsedPublicKey};
use serde_json::Value;
use tokio::time::{Instant, timeout};
use tracing::{info, warn};

use super::AuthError;
use super::jws::{Algorithm, Jws, VERIFICATIONS, Verification};
use crate::route::{HttpRequest, PathBase};
use crate::settings::{Checked, Code, Cursor, FromText, Invalid, Setting, expansion, text_of};
use crate::telemetry::{CallContext, ErrorChain, RequestId, Span};
use crate::upstream::http::{EndpointUrl, HttpSettings, HttpUpstream};
use crate::upstream::{Deadline, SharedTask, UpstreamCall};

/// Maximum length of a JWKS, in bytes.
const JWKS_LIMIT_BYTES: usize = 256 << 10;
/// Timeout of a refresh.
const REFRESH_TIMEOUT: Duration = Duration::from_secs(5);
/// Age at which a JWKS is refreshed.
const REFRESHED_AFTER: Duration = Duration::from_secs(300);
/// Maximum age of a JWKS that is still used while refreshes fail.
const MAX_STALE_AGE: Duration = Duration::from_secs(24 * 3600);
/// Minimum time between two attempts to refresh.
const REFRESH_COOLDOWN: Duration = Duration::from_secs(10);

/// The source of a JWKS.
#[derive(Debug, Clone, PartialEq)]
pub enum KeySource {
    /// A document in the configuration or in a file.
    Document(Jwks),
    /// A server that publishes the JWKS.
    Server {
        /// The address and connection settings.
        server: Box<HttpSettings>,
        /// The path and query of the document.
        path_and_query: PathAndQuery,
    },
}

/// Reads a JWKS document in the configuration, the `file:` path of a document, or the URL of a server.
impl Setting for KeySource {
    fn read(value: &Cursor<'_>) -> Checked<Self> {
        let configured = text_of(value)?.trim();
        let is_file = configured.starts_with("file:");
        let contents = is_file.then(|| expansion::expand_secret(value.context, value.node.span, configured));
        let contents = contents.transpose()?;
        let text = contents.as_ref().map_or(configured, |contents| contents.text.trim());
        if is_file || text.starts_with('{') {
            return Jwks::read(text.as_bytes()).map(Self::Document).or_else(|error| {
                let help = "name a file with a JWK set: `{\"keys\": [{\"kty\": \"RSA\", …}]}`";
                value.reject(Invalid::without_value(format!("`jwks` can't be used: {error}"), help))
            });
        }
        let Ok(EndpointUrl { address, path_and_query }) = EndpointUrl::from_text(text) else {
            let help = "write `https://HOST/PATH`, or `file:/path`";
            return value.reject(Invalid::without_value("`jwks` is not a valid URL", help));
        };
        if !address.is_tls() && !address.is_local() {
            let message = "`jwks` is fetched over plain HTTP: an attacker on the network could forge tokens";
            let invalid = Invalid::without_value(message, "write an `https://` address, or `file:/path`");
            return value.reject(invalid.with_code(Code::CredentialsWithoutTls));
        }
        let name = "jwks".parse().expect("`jwks` is a valid upstream name");
        Ok(Self::Server { server: Box::new(HttpSettings::new(name, address)), path_and_query })
    }
}

/// The active keys of an issuer.
pub(super) struct KeySet {
    /// Requests the JWKS; `None` if the keys come from a document.
    fetcher: Option<Box<JwksFetcher>>,
    cached: ArcSwapOption<CachedJwks>,
    /// The last refresh, and when it began.
    refresh: Mutex<Option<(SharedTask<()>, Instant)>>,
}

/// Function that requests a JWKS. Its parameter is the context of the call that causes the request.
type JwksFetcher = dyn Fn(CallContext) -> BoxFuture<'static, Result<Jwks, String>> + Send + Sync;

/// A JWKS, with the time when it was received.
#[derive(Debug)]
pub(super) struct CachedJwks {
    pub(super) keys: Jwks,
    /// The version, which increases when a refresh returns a different JWKS.
    pub(super) version: u64,
    received_at: Instant,
}

impl KeySet {
    pub(super) fn new(source: &KeySource) -> Arc<Self> {
        match source {
            KeySource::Document(keys) => {
                let cached = CachedJwks { keys: keys.clone(), version: 0, received_at: Instant::now() };
                let cached = ArcSwapOption::from_pointee(cached);
                Arc::new(Self { fetcher: None, cached, refresh: Mutex::default() })
            }
            KeySource::Server { server, path_and_query } => {
                let (server, path) = (HttpUpstream::new((**server).clone()), path_and_query.clone());
                let fetch = move |context| fetch_jwks(server.clone(), path.clone(), context).boxed();
                Self::with_fetcher(Box::new(fetch))
            }
        }
    }

    fn with_fetcher(fetcher: Box<JwksFetcher>) -> Arc<Self> {
        Arc::new(Self { fetcher: Some(fetcher), cached: ArcSwapOption::empty(), refresh: Mutex::default() })
    }

    /// The active JWKS; `None` if none was received yet, or if the last one is older than [`MAX_STALE_AGE`].
    /// If the JWKS is due for a refresh, the refresh starts in the background.
    pub(super) fn current(self: &Arc<Self>, request_id: &RequestId) -> Option<Arc<CachedJwks>> {
        let cached = self.cached.load_full()?;
        if self.fetcher.is_none() {
            return Some(cached);
        }
        let age = cached.received_at.elapsed();
        if age >= REFRESHED_AFTER {
            let _ = self.fetch(request_id);
        }
        (age < MAX_STALE_AGE).then_some(cached)
    }

    /// The active JWKS for a token. If the JWKS lacks the key that the token names, it is refreshed first.
    ///
    /// # Errors
    ///
    /// [`AuthError::KeysUnavailable`] if no JWKS was received, or if the last one is too old.
    pub(super) async fn for_token(
        self: &Arc<Self>,
        token: &Jws<'_>,
        request_id: &RequestId,
    ) -> Result<Arc<CachedJwks>, AuthError> {
        let cached = self.current(request_id);
        if let Some(cached) = cached.filter(|cached| cached.keys.has_key_for(token)) {
            return Ok(cached);
        }
        if let Some(in_flight) = self.fetch(request_id) {
            // If the refresh succeeded, it has stored the new JWKS, which is returned below.
            let _ = in_flight.result().await;
        }
        self.current(request_id).ok_or(AuthError::KeysUnavailable)
    }

    /// Starts a refresh of the JWKS, or returns the running one; `None` within [`REFRESH_COOLDOWN`] of the
    /// last attempt, or if the keys come from a document. The refresh continues even if no request waits for
    /// it. Its log lines have the id of the request that started it.
    fn fetch(self: &Arc<Self>, request_id: &RequestId) -> Option<SharedTask<()>> {
        let fetcher = self.fetcher.as_ref()?;
        let mut last = self.refresh.lock();
        match &*last {
            Some((refresh, _)) if refresh.is_running() => return Some(refresh.clone()),
            Some((_, started_at)) if started_at.elapsed() < REFRESH_COOLDOWN => return None,
            Some(_) | None => {}
        }
        let context = CallContext::new(request_id.clone(), Span::default());
        let (key_set, fetching) = (Arc::clone(self), fetcher(context.clone()));
        let refresh = SharedTask::spawn(async move {
            let timed_out = |_| Err(format!("no response within {REFRESH_TIMEOUT:?}"));
            match timeout(REFRESH_TIMEOUT, fetching).await.unwrap_or_else(timed_out) {
                Ok(keys) => key_set.store(keys, &context),
                Err(error) => warn!(request_id = context.request_id(), %error, "JWKS refresh failed"),
            }
        });
        *last = Some((refresh.clone(), Instant::now()));
        Some(refresh)
    }

    fn store(&self, keys: Jwks, context: &CallContext) {
        let previous = self.cached.load_full();
        let is_same = previous.as_ref().is_some_and(|previous| previous.keys == keys);
        let version = previous.map_or(0, |previous| previous.version) + u64::from(!is_same);
        if !is_same {
            info!(request_id = context.request_id(), ?keys, "JWKS refreshed: the keys have changed");
        }
        self.cached.store(Some(Arc::new(CachedJwks { keys, version, received_at: Instant::now() })));
    }
}

async fn fetch_jwks(
    server: HttpUpstream,
    path_and_query: PathAndQuery,
    context: CallContext,
) -> Result<Jwks, String> {
    let mut request = HttpRequest::get(PathBase::Origin, path_and_query);
    request.headers.insert(header::ACCEPT, HeaderValue::from_static("application/json"));
    let deadline = Deadline::after(REFRESH_TIMEOUT);
    let mut upstream_call = UpstreamCall::new(request.into(), JWKS_LIMIT_BYTES, deadline, true);
    upstream_call.context = context;
    let response = server.send(&upstream_call).await.map_err(|error| ErrorChain(&error).to_string())?;
    if !response.status.is_success() {
        return Err(format!("the server responded with {}", response.status));
    }
    Jwks::read(&response.body)
}

/// A set of public keys (JWKS).
#[derive(derive_more::Debug, Clone, PartialEq, Eq)]
#[debug("Jwks({} keys)", _0.len())]
pub struct Jwks(Vec<Jwk>);

/// A key, with its id and algorithm.
#[derive(Clone, PartialEq, Eq)]
struct Jwk {
    id: Option<String>,
    algorithm: Option<Algorithm>,
    /// The kind of the key: `RSA`, or the name of a curve.
    kind: &'static str,
    /// The modulus of an RSA key, or a public key of the curve: for ECDSA, an uncompressed point.
    key: Vec<u8>,
    /// The exponent of an RSA key; empty for a curve.
    exponent: Vec<u8>,
}

pub(super) const NOT_JSON: &str = "it is not a JSON object with a list `keys`";
pub(super) const NONE_USABLE: &str = "it lists no key that can verify a signature";

impl Jwks {
    /// Maximum number of keys.
    pub const LIMIT: usize = 100;

    /// Maximum number of keys that are tried for one token, because a token without a key id fits many keys.
    const TRIED_LIMIT: usize = 8;

    /// Parses a JWKS document. Keys for other purposes, or of unsupported types, are omitted.
    ///
    /// # Errors
    ///
    /// A message if the document is malformed, lists more than [`Self::LIMIT`] keys, or has no usable key.
    pub fn read(document: &[u8]) -> Result<Self, String> {
        let document: Value = serde_json::from_slice(document).map_err(|_| NOT_JSON)?;
        let entries = document.get("keys").and_then(Value::as_array).ok_or(NOT_JSON)?;
        if entries.len() > Self::LIMIT {
            return Err(format!("it lists more than {} keys", Self::LIMIT));
        }
        let keys: Vec<Jwk> = entries.iter().filter_map(Jwk::read).collect();
        if keys.is_empty() { Err(NONE_USABLE.to_owned()) } else { Ok(Self(keys)) }
    }

    /// Whether a key matches the token's key id and algorithm.
    pub(super) fn has_key_for(&self, token: &Jws<'_>) -> bool {
        self.candidates(token).next().is_some()
    }

    /// Whether one of the keys verifies the token's signature.
    pub(super) fn verify(&self, token: &Jws<'_>) -> bool {
        self.candidates(token).take(Self::TRIED_LIMIT).any(|key| key.verify(token))
    }

    fn candidates<'k>(&'k self, token: &'k Jws<'_>) -> impl Iterator<Item = &'k Jwk> {
        let is_named = move |key: &&Jwk| token.key_id.is_none() || token.key_id == key.id;
        self.0.iter().filter(is_named).filter(|key| key.can_verify(token.algorithm))
    }
}

impl Jwk {
    fn read(value: &Value) -> Option<Self> {
        let text = |name: &str| value.get(name).and_then(Value::as_str);
        let bytes = |name: &str| URL_SAFE_NO_PAD.decode(text(name)?).ok();
        if text("use").is_some_and(|purpose| purpose != "sig") {
            return None;
        }
        if let Some(operations) = value.get("key_ops").and_then(Value::as_array)
            && !operations.iter().any(|operation| operation == "verify")
        {
            return None;
        }
        let algorithm = match value.get("alg") {
            None => None,
            Some(name) => Some(name.as_str()?.parse().ok()?),
        };
        let point = |length: usize| {
            let (x, y) = (bytes("x")?, bytes("y")?);
            (x.len() == length && y.len() == length).then(|| [&[4][..], &x, &y].concat())
        };
        let (kind, key, exponent) = match (text("kty")?, text("crv")) {
            ("RSA", _) => {
                let number =
                    |name| Some(bytes(name)?.into_iter().skip_while(|byte| *byte == 0).collect::<Vec<u8>>());
                let (modulus, exponent) = (number("n")?, number("e")?);
                // A modulus of 2048 to 8192 bits.
                if !(256..=1024).contains(&modulus.len()) || !(1..=8).contains(&exponent.len()) {
                    return None;
                }
                ("RSA", modulus, exponent)
            }
            ("EC", Some("P-256")) => ("P-256", point(32)?, Vec::new()),
            ("EC", Some("P-384")) => ("P-384", point(48)?, Vec::new()),
            ("OKP", Some("Ed25519")) => ("Ed25519", bytes("x").filter(|x| x.len() == 32)?, Vec::new()),
            _ => return None,
        };
        let key = Self { id: text("kid").map(str::to_owned), algorithm, kind, key, exponent };
        // A key that contradicts its own `alg` is ignored.
        algorithm.is_none_or(|algorithm| key.can_verify(algorithm)).then_some(key)
    }

    /// Whether the key can verify a signature of this algorithm. The type of the key decides, not the
    /// algorithm that the token names.
    fn can_verify(&self, algorithm: Algorithm) -> bool {
        let kind = match VERIFICATIONS[algorithm as usize].1 {
            Verification::Rsa(_) => "RSA",
            Verification::Curve(curve, _) => curve,
        };
        kind == self.kind && self.algorithm.is_none_or(|declared| declared == algorithm)
    }

    /// Whether the key verifies the signature of a token. The key must be one that
    /// [can verify](Self::can_verify) the algorithm of the token.
    fn verify(&self, token: &Jws<'_>) -> bool {
        let Self { key, exponent, .. } = self;
        let verified = match &VERIFICATIONS[token.algorithm as usize].1 {
            Verification::Rsa(parameters) => RsaPublicKeyComponents { n: key, e: exponent }.verify(
                parameters,
                token.signing_input,
                &token.signature,
            ),
            Verification::Curve(_, algorithm) => {
                UnparsedPublicKey::new(*algorithm, key).verify(token.signing_input, &token.signature)
            }
        };
        verified.is_ok()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use serde_json::json;

    use super::*;
    use crate::auth::jws::Algorithm;

    fn keys(id: &str) -> Jwks {
        let x = "11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo";
        let list = json!({ "keys": [{ "kty": "OKP", "crv": "Ed25519", "kid": id, "x": x }] });
        Jwks::read(list.to_string().as_bytes()).unwrap()
    }

    fn token(id: &str) -> Jws<'static> {
        Jws {
            algorithm: Algorithm::EdDsa,
            kind: None,
            key_id: Some(id.to_owned()),
            claims: serde_json::Map::new(),
            signing_input: b"",
            signature: Vec::new(),
        }
    }

    /// A server that returns these lists one after the other, each after a while, and then fails.
    fn server(responses: Vec<Option<Jwks>>) -> (Arc<KeySet>, Arc<AtomicUsize>) {
        let fetches = Arc::new(AtomicUsize::new(0));
        let count = Arc::clone(&fetches);
        let set = KeySet::with_fetcher(Box::new(move |_| {
            let response = responses.get(count.fetch_add(1, Ordering::Relaxed)).cloned().flatten();
            Box::pin(async move {
                tokio::time::sleep(Duration::from_secs(1)).await;
                response.ok_or_else(|| "it is down".to_owned())
            })
        }));
        (set, fetches)
    }

    async fn has_key_for_token(set: &Arc<KeySet>, id: &str) -> Result<bool, AuthError> {
        set.for_token(&token(id), &RequestId::next()).await.map(|cached| cached.keys.has_key_for(&token(id)))
    }

    #[tokio::test(start_paused = true)]
    async fn an_unknown_key_is_fetched_once_and_not_too_often() {
        let (set, fetches) = server(vec![Some(keys("old")), Some(keys("new"))]);
        let (one, other) = tokio::join!(has_key_for_token(&set, "old"), has_key_for_token(&set, "old"));
        assert_eq!((one, other, fetches.load(Ordering::Relaxed)), (Ok(true), Ok(true), 1));
        for _ in 0..100 {
            assert_eq!(has_key_for_token(&set, "made up").await, Ok(false));
        }
        assert_eq!(fetches.load(Ordering::Relaxed), 1, "it was asked a moment ago");
        tokio::time::advance(REFRESH_COOLDOWN).await;
        let started = Instant::now();
        assert_eq!((has_key_for_token(&set, "old").await, started.elapsed()), (Ok(true), Duration::ZERO));
        assert_eq!((has_key_for_token(&set, "new").await, fetches.load(Ordering::Relaxed)), (Ok(true), 2));
        assert_eq!(has_key_for_token(&set, "old").await, Ok(false), "it was taken away");
    }

    #[tokio::test(start_paused = true)]
    async fn the_last_jwks_is_used_for_a_limited_time_if_refreshing_fails() {
        let (set, fetches) = server(vec![None, Some(keys("a"))]);
        assert_eq!(has_key_for_token(&set, "a").await, Err(AuthError::KeysUnavailable));
        assert_eq!(has_key_for_token(&set, "a").await, Err(AuthError::KeysUnavailable));
        tokio::time::advance(REFRESH_COOLDOWN).await;
        assert_eq!(has_key_for_token(&set, "a").await, Ok(true));
        for _ in 0..100 {
            tokio::time::advance(MAX_STALE_AGE / 101).await;
            assert_eq!(has_key_for_token(&set, "a").await, Ok(true));
            tokio::time::sleep(Duration::from_secs(2)).await;
        }
        assert!(fetches.load(Ordering::Relaxed) > 50, "it is asked again and again");
        tokio::time::advance(MAX_STALE_AGE / 50).await;
        assert_eq!(has_key_for_token(&set, "a").await, Err(AuthError::KeysUnavailable));
    }

    #[tokio::test(start_paused = true)]
    async fn an_old_jwks_is_refreshed_in_the_background() {
        let (set, fetches) = server(vec![Some(keys("a")), Some(keys("b"))]);
        assert_eq!(has_key_for_token(&set, "a").await, Ok(true));
        tokio::time::advance(REFRESHED_AFTER).await;
        let started = Instant::now();
        assert_eq!((has_key_for_token(&set, "a").await, started.elapsed()), (Ok(true), Duration::ZERO));
        tokio::time::sleep(Duration::from_secs(2)).await;
        assert_eq!(fetches.load(Ordering::Relaxed), 2);
        assert_eq!(
            (has_key_for_token(&set, "a").await, has_key_for_token(&set, "b").await),
            (Ok(false), Ok(true))
        );
    }

    #[tokio::test(start_paused = true)]
    async fn fetching_from_a_silent_server_times_out() {
        let set = KeySet::with_fetcher(Box::new(|_| Box::pin(std::future::pending())));
        let started = Instant::now();
        assert_eq!(has_key_for_token(&set, "a").await, Err(AuthError::KeysUnavailable));
        assert_eq!(started.elapsed(), REFRESH_TIMEOUT);
    }
}
