//! Caches of expiring bearer tokens. Tokens of a token server are renewed before they expire, and requested
//! once for all waiting calls, with backoff after failures. Tokens in a file are reread.

use std::{
    path::{Path, PathBuf},
    pin::Pin,
    sync::Arc,
    time::Duration,
};

use parking_lot::Mutex;
use tokio::time::{Instant, timeout};
use tracing::{debug, warn};

use super::{BearerToken, Credential, CredentialError};
use crate::route::UpstreamName;
use crate::settings::{secret::Hidden, source_text};
use crate::telemetry::{CallContext, ErrorChain};
use crate::upstream::SharedTask;

/// Timeout of a token request.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(10);
/// Backoff after the first failed token request. It doubles with each further failure.
const INITIAL_BACKOFF: Duration = Duration::from_secs(1);
/// Maximum backoff after failed token requests to a server.
pub(super) const MAX_BACKOFF: Duration = Duration::from_secs(60);
/// Time before the expiry of a token during which it is not sent, because the clocks of two servers differ;
/// at most a tenth of its lifetime.
const CLOCK_SKEW: Duration = Duration::from_secs(30);
/// Time before the expiry of a token at which it is renewed; at most a quarter of its lifetime.
const RENEWED_BEFORE: Duration = Duration::from_secs(300);
/// Minimum age at which a rejected token is replaced even though the upstream never accepted it: a new token
/// may be accepted by then. A younger token is not replaced, because an upstream that rejects every token
/// would cause a token request for each call.
const MIN_REPLACED_AGE: Duration = Duration::from_secs(30);

/// Token that a server issued.
pub(super) struct IssuedToken {
    pub(super) token: BearerToken,
    pub(super) lifetime: Duration,
}

/// Token request in flight.
pub(super) type TokenRequest = Pin<Box<dyn Future<Output = Result<IssuedToken, CredentialError>> + Send>>;

type TokenResult = Result<Credential, Arc<CredentialError>>;

/// Cache of one token.
#[derive(Debug)]
pub(in crate::upstream::http) struct TokenCache {
    upstream: UpstreamName,
    max_backoff: Duration,
    new_request: Hidden<Box<dyn Fn() -> TokenRequest + Send + Sync>>,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    cached: Option<CachedToken>,
    /// Request in flight.
    in_flight: Option<SharedTask<TokenResult>>,
    /// Failures since the last token was received: their number, the end of the backoff, and the last error.
    failures: Option<(u32, Instant, Arc<CredentialError>)>,
}

#[derive(Debug)]
struct CachedToken {
    credential: Credential,
    received_at: Instant,
    renew_at: Instant,
    usable_until: Instant,
    /// Whether the upstream has accepted the token.
    was_accepted: bool,
}

impl TokenCache {
    pub(super) fn new(
        upstream: &UpstreamName,
        max_backoff: Duration,
        new_request: impl Fn() -> TokenRequest + Send + Sync + 'static,
    ) -> Arc<Self> {
        let (upstream, new_request) = (upstream.clone(), Hidden(Box::new(new_request) as _));
        Arc::new(Self { upstream, max_backoff, new_request, state: Mutex::default() })
    }

    /// Returns the cached token. If no valid token is cached, requests a new token and waits for it.
    pub(super) async fn credential(self: &Arc<Self>, context: &CallContext) -> TokenResult {
        let in_flight = {
            let mut state = self.state.lock();
            let now = Instant::now();
            if let Some(cached) = state.cached.as_ref().filter(|cached| now < cached.usable_until) {
                let (credential, is_renewal_due) = (cached.credential.clone(), now >= cached.renew_at);
                if is_renewal_due {
                    // While the cached token is valid, no call waits for the next token or fails without it.
                    let _ = self.request_token(&mut state, context);
                }
                return Ok(credential);
            }
            self.request_token(&mut state, context)?
        };
        in_flight.result().await.unwrap_or_else(|| Err(Arc::new(CredentialError::Lost)))
    }

    /// Records that the upstream accepted a token.
    pub(in crate::upstream::http) fn accepted(&self, credential: &Credential) {
        if let Some(cached) = &mut self.state.lock().cached {
            cached.was_accepted |= cached.credential.value == credential.value;
        }
    }

    /// Replaces a rejected token. Only the first call whose token was rejected requests the next token.
    /// `None` if the next token is the same, or the rejected token is new and was never accepted.
    pub(in crate::upstream::http) async fn replace_rejected(
        self: &Arc<Self>,
        rejected: &Credential,
        context: &CallContext,
    ) -> Result<Option<Credential>, Arc<CredentialError>> {
        {
            let mut state = self.state.lock();
            if let Some(cached) = &state.cached
                && cached.credential.value == rejected.value
            {
                if !cached.was_accepted && cached.received_at.elapsed() < MIN_REPLACED_AGE {
                    return Ok(None);
                }
                state.cached = None;
            }
        }
        let next = self.credential(context).await?;
        Ok((next.value != rejected.value).then_some(next))
    }

    /// Returns the token request in flight, or starts one unless the backoff forbids it. The request
    /// continues for the next call even if nothing awaits it.
    fn request_token(
        self: &Arc<Self>,
        state: &mut State,
        context: &CallContext,
    ) -> Result<SharedTask<TokenResult>, Arc<CredentialError>> {
        if let Some(in_flight) = state.in_flight.as_ref().filter(|in_flight| in_flight.is_running()) {
            return Ok(in_flight.clone());
        }
        let now = Instant::now();
        if let Some((failures, retry_at, source)) =
            state.failures.clone().filter(|(_, retry_at, _)| now < *retry_at)
        {
            return Err(Arc::new(CredentialError::Backoff { retry_after: retry_at - now, failures, source }));
        }
        let (cache, request, context) = (self.clone(), (self.new_request.0)(), context.clone());
        let in_flight = SharedTask::spawn(async move {
            let issued = timeout(REQUEST_TIMEOUT, request).await;
            let issued = issued.unwrap_or(Err(CredentialError::Timeout(REQUEST_TIMEOUT)));
            cache.record_outcome(issued, now, &context)
        });
        state.in_flight = Some(in_flight.clone());
        Ok(in_flight)
    }

    fn record_outcome(
        &self,
        issued: Result<IssuedToken, CredentialError>,
        requested_at: Instant,
        context: &CallContext,
    ) -> TokenResult {
        let (upstream, request_id) = (&self.upstream, context.request_id());
        let mut state = self.state.lock();
        state.in_flight = None;
        match issued {
            Ok(IssuedToken { token, lifetime }) => {
                state.failures = None;
                let credential = token.credential();
                // A file has the same token until another program replaces it.
                let same_token =
                    state.cached.take().filter(|cached| cached.credential.value == credential.value);
                // Lifetimes are counted from the token request, because the token may have been issued at any
                // time since then.
                state.cached = Some(CachedToken {
                    credential: credential.clone(),
                    received_at: Instant::now(),
                    renew_at: requested_at + lifetime - RENEWED_BEFORE.min(lifetime / 4),
                    usable_until: requested_at + lifetime - CLOCK_SKEW.min(lifetime / 10),
                    was_accepted: same_token.is_some_and(|cached| cached.was_accepted),
                });
                debug!(%upstream, request_id, ?lifetime, "access token received");
                Ok(credential)
            }
            Err(error) => {
                let failures = state.failures.as_ref().map_or(0, |(failures, ..)| *failures) + 1;
                let retry_in = (INITIAL_BACKOFF * (1 << (failures - 1).min(10))).min(self.max_backoff);
                warn!(
                    %upstream, request_id, failures, ?retry_in, error = %ErrorChain(&error),
                    "access token request failed"
                );
                let shared_error = Arc::new(error);
                state.failures = Some((failures, Instant::now() + retry_in, shared_error.clone()));
                Err(shared_error)
            }
        }
    }
}

/// Interval at which a token file is reread, because another program may replace it, and maximum backoff
/// after the file could not be read. Kubernetes writes the next token long before the previous one expires.
const FILE_LIFETIME: Duration = Duration::from_secs(5);

/// Maximum length of a token file, in bytes.
const FILE_LIMIT_BYTES: usize = 16 << 10;

/// Creates the cache of the token in a file.
pub(super) fn token_file(path: PathBuf, upstream: &UpstreamName) -> Arc<TokenCache> {
    TokenCache::new(upstream, FILE_LIFETIME, move || {
        let path = path.clone();
        // Reading may block for long, because the file may be on a network file system.
        let reading = tokio::task::spawn_blocking(move || read_token(&path));
        Box::pin(async move { reading.await.unwrap_or(Err(CredentialError::Lost)) })
    })
}

fn read_token(path: &Path) -> Result<IssuedToken, CredentialError> {
    let displayed_path = path.to_string_lossy();
    let file_error = |problem: &str| CredentialError::File(format!("the file `{displayed_path}` {problem}"));
    // Reading anything but a regular file might never end.
    if std::fs::metadata(path).is_ok_and(|metadata| !metadata.is_file()) {
        return Err(file_error("is not a file"));
    }
    let bytes = source_text::read_file(path, FILE_LIMIT_BYTES as u64).map_err(|error| file_error(&error))?;
    let token = str::from_utf8(&bytes).ok().and_then(|text| BearerToken::new(text.trim()));
    let no_token = "has no token: it is empty, or contains white space or invalid characters";
    Ok(IssuedToken { token: token.ok_or_else(|| file_error(no_token))?, lifetime: FILE_LIFETIME })
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    /// Token server that responds after a second with `token-1`, `token-2`, … valid for 100 s, or fails.
    struct Server {
        tokens: Arc<TokenCache>,
        requests: Arc<AtomicUsize>,
        failing: Arc<Mutex<bool>>,
    }

    impl Server {
        fn new() -> Self {
            let (requests, failing) = (Arc::new(AtomicUsize::new(0)), Arc::new(Mutex::new(false)));
            let (count, is_failing) = (requests.clone(), failing.clone());
            let tokens = TokenCache::new(&"legacy".parse().unwrap(), MAX_BACKOFF, move || {
                let number = count.fetch_add(1, Ordering::SeqCst) + 1;
                let is_failing = *is_failing.lock();
                Box::pin(async move {
                    tokio::time::sleep(SECOND).await;
                    match is_failing {
                        true => Err(CredentialError::NoToken("nothing")),
                        false => Ok(IssuedToken {
                            token: BearerToken::new(&format!("token-{number}")).unwrap(),
                            lifetime: 100 * SECOND,
                        }),
                    }
                })
            });
            Self { tokens, requests, failing }
        }

        fn token_requests(&self) -> usize {
            self.requests.load(Ordering::SeqCst)
        }

        fn set_failing(&self, is_failing: bool) {
            *self.failing.lock() = is_failing;
        }

        async fn credential_text(&self) -> String {
            describe(self.tokens.credential(&CallContext::default()).await)
        }
    }

    fn describe(outcome: TokenResult) -> String {
        match outcome {
            Ok(credential) => credential.value.to_str().unwrap().replace("Bearer ", ""),
            Err(error) => error.to_string(),
        }
    }

    #[tokio::test(start_paused = true)]
    async fn many_waiting_calls_send_one_token_request() {
        let server = Server::new();
        let (one, two, three) =
            tokio::join!(server.credential_text(), server.credential_text(), server.credential_text());
        assert_eq!([one, two, three], ["token-1", "token-1", "token-1"]);
        assert_eq!((server.credential_text().await.as_str(), server.token_requests()), ("token-1", 1));
    }

    #[tokio::test(start_paused = true)]
    async fn a_cancelled_call_does_not_cancel_the_token_request() {
        let server = Server::new();
        timeout(SECOND / 2, server.credential_text()).await.unwrap_err();
        assert_eq!((server.credential_text().await.as_str(), server.token_requests()), ("token-1", 1));
    }

    #[tokio::test(start_paused = true)]
    async fn the_next_token_is_there_before_the_last_one_ends() {
        let server = Server::new();
        server.credential_text().await;
        tokio::time::advance(80 * SECOND).await;
        assert_eq!(server.credential_text().await, "token-1", "nobody waits while the old one is good");
        tokio::time::sleep(2 * SECOND).await;
        assert_eq!((server.credential_text().await.as_str(), server.token_requests()), ("token-2", 2));
    }

    #[tokio::test(start_paused = true)]
    async fn an_expiring_token_is_not_sent() {
        let server = Server::new();
        server.credential_text().await;
        tokio::time::advance(91 * SECOND).await;
        assert_eq!((server.credential_text().await.as_str(), server.token_requests()), ("token-2", 2));
    }

    #[tokio::test(start_paused = true)]
    async fn a_good_token_is_used_while_its_server_fails() {
        let server = Server::new();
        server.credential_text().await;
        server.set_failing(true);
        tokio::time::advance(80 * SECOND).await;
        for _ in 0..3 {
            assert_eq!(server.credential_text().await, "token-1");
            tokio::time::sleep(SECOND).await;
        }
        tokio::time::advance(20 * SECOND).await;
        assert!(server.tokens.credential(&CallContext::default()).await.is_err());
    }

    #[tokio::test(start_paused = true)]
    async fn a_failing_token_server_gets_fewer_and_fewer_requests() {
        let server = Server::new();
        server.set_failing(true);
        assert!(server.credential_text().await.contains("responded nothing"));
        let message = server.credential_text().await;
        assert!(message.contains("sent in 1s, after 1 failures"), "{message}");
        for _ in 0..1000 {
            tokio::time::sleep(SECOND).await;
            server.credential_text().await;
        }
        // 1, 2, 4, … 32 seconds, and then about one a minute.
        assert!((15..25).contains(&server.token_requests()), "{}", server.token_requests());
        server.set_failing(false);
        tokio::time::sleep(MAX_BACKOFF).await;
        assert!(server.credential_text().await.starts_with("token-"));
    }

    #[tokio::test(start_paused = true)]
    async fn a_rejected_token_is_replaced_once_for_all_calls() {
        let server = Server::new();
        let first = server.tokens.credential(&CallContext::default()).await.unwrap();
        server.tokens.accepted(&first);
        let context = CallContext::default();
        let (one, two) = tokio::join!(
            server.tokens.replace_rejected(&first, &context),
            server.tokens.replace_rejected(&first, &context)
        );
        for other in [one, two, server.tokens.replace_rejected(&first, &CallContext::default()).await] {
            assert_eq!(describe(other.map(Option::unwrap)), "token-2");
        }
        assert_eq!(server.token_requests(), 2);
    }

    #[tokio::test(start_paused = true)]
    async fn a_token_that_was_never_good_is_not_replaced_at_once() {
        let server = Server::new();
        let first = server.tokens.credential(&CallContext::default()).await.unwrap();
        assert!(server.tokens.replace_rejected(&first, &CallContext::default()).await.unwrap().is_none());
        tokio::time::advance(MIN_REPLACED_AGE).await;
        assert!(server.tokens.replace_rejected(&first, &CallContext::default()).await.unwrap().is_some());
        assert_eq!(server.token_requests(), 2);
    }

    #[tokio::test(start_paused = true)]
    async fn a_silent_server_times_out() {
        let tokens =
            TokenCache::new(&"legacy".parse().unwrap(), MAX_BACKOFF, || Box::pin(std::future::pending()));
        assert!(describe(tokens.credential(&CallContext::default()).await).contains("within 10s"));
    }

    #[tokio::test(start_paused = true)]
    async fn a_token_request_that_panics_is_repeated() {
        let should_panic = Mutex::new(true);
        let tokens = TokenCache::new(&"legacy".parse().unwrap(), MAX_BACKOFF, move || {
            let should_panic = std::mem::take(&mut *should_panic.lock());
            Box::pin(async move {
                assert!(!should_panic, "as the test wants it");
                Ok(IssuedToken { token: BearerToken::new("token").unwrap(), lifetime: SECOND })
            })
        });
        assert!(describe(tokens.credential(&CallContext::default()).await).contains("ended without a token"));
        assert_eq!(describe(tokens.credential(&CallContext::default()).await), "token");
    }

    struct TokenFile(PathBuf);

    impl TokenFile {
        fn new(name: &str) -> Self {
            let path = std::env::temp_dir().join(format!("glossator-token-{name}-{}", std::process::id()));
            Self(path)
        }

        fn write(&self, text: &str) {
            std::fs::write(&self.0, text).unwrap();
        }
    }

    impl Drop for TokenFile {
        fn drop(&mut self) {
            let _ = std::fs::remove_file(&self.0);
        }
    }

    fn token_file(file: &TokenFile) -> Arc<TokenCache> {
        super::token_file(file.0.clone(), &"legacy".parse().unwrap())
    }

    async fn token(cache: &Arc<TokenCache>) -> String {
        describe(cache.credential(&CallContext::default()).await)
    }

    #[tokio::test(start_paused = true)]
    async fn a_token_file_is_read_again_after_a_change() {
        let file = TokenFile::new("anew");
        let cache = token_file(&file);
        file.write(" first\n");
        assert_eq!(token(&cache).await, "first");
        file.write("second");
        assert_eq!(token(&cache).await, "first");
        tokio::time::advance(FILE_LIFETIME).await;
        assert_eq!(token(&cache).await, "second");
        std::fs::remove_file(&file.0).unwrap();
        assert_eq!(token(&cache).await, "second");
        tokio::time::advance(FILE_LIFETIME).await;
        let found = token(&cache).await;
        assert!(found.contains("does not exist"), "{found}: an old token is not used for want of a new one");
    }

    #[tokio::test(start_paused = true)]
    async fn a_rejected_token_is_replaced_at_once_by_another() {
        let (file, context) = (TokenFile::new("refused"), CallContext::default());
        let cache = token_file(&file);
        file.write("first");
        let first = cache.credential(&context).await.unwrap();
        cache.accepted(&first);
        assert!(
            cache.replace_rejected(&first, &context).await.unwrap().is_none(),
            "it is the same as before"
        );
        cache.accepted(&first);
        file.write("second");
        assert_eq!(cache.replace_rejected(&first, &context).await.unwrap().unwrap().value, "Bearer second");
        assert_eq!(token(&cache).await, "second");
    }

    #[tokio::test(start_paused = true)]
    async fn a_token_file_that_appears_late_is_read_soon() {
        let file = TokenFile::new("late");
        let cache = token_file(&file);
        for _ in 0..100 {
            assert!(!token(&cache).await.contains("late-token"));
            tokio::time::advance(SECOND).await;
        }
        file.write("late-token");
        tokio::time::advance(FILE_LIFETIME).await;
        assert_eq!(token(&cache).await, "late-token");
    }

    #[tokio::test(start_paused = true)]
    async fn an_invalid_token_is_not_sent() {
        let file = TokenFile::new("none");
        for text in ["", " \n", "two words", "a\nb"] {
            file.write(text);
            let found = token(&token_file(&file)).await;
            assert!(found.contains("has no token") && !found.contains("two words"), "{found}");
        }
        file.write(&"x".repeat(20_000));
        assert!(token(&token_file(&file)).await.contains("is longer than 16KiB"));
        let folder = super::token_file(std::env::temp_dir(), &"legacy".parse().unwrap());
        assert!(token(&folder).await.contains("is not a file"));
    }
}
