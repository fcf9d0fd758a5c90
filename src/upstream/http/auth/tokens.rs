//! A token that a server gives for some time: kept, renewed before its end, asked for once for all who wait.

use std::{
    fmt,
    future::Future,
    pin::Pin,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use tokio::time::{Instant, timeout};
use tracing::{debug, warn};

use super::{BearerToken, Credential, CredentialError};
use crate::{
    route::UpstreamName,
    telemetry::{Chain, Ticket},
    upstream::Coming,
};

/// How long a token server may take.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(10);
/// How long it is left alone after a failure; twice as long after each that follows, …
const FIRST_REST: Duration = Duration::from_secs(1);
/// … and at most that long.
const LONGEST_REST: Duration = Duration::from_secs(60);
/// How long before its end a token is no longer sent, at most: the clocks of two servers differ.
const SPARED: Duration = Duration::from_secs(30);
/// How long before its end the next one is asked for, at most.
const RENEWED_BEFORE: Duration = Duration::from_secs(300);
/// A token of this age that is refused is replaced, though it was never taken: what it is refused for may have
/// been mended meanwhile.
const OLD: Duration = Duration::from_secs(30);

/// What a token server gave.
pub(super) struct Granted {
    pub(super) token: BearerToken,
    pub(super) life: Duration,
}

/// What is on its way from it.
pub(super) type Granting = Pin<Box<dyn Future<Output = Result<Granted, CredentialError>> + Send>>;

type Outcome = Result<Credential, Arc<CredentialError>>;

/// Keeps the token. Clones share it.
#[derive(Clone)]
pub(in crate::upstream::http) struct Tokens {
    shared: Arc<Shared>,
}

struct Shared {
    upstream: UpstreamName,
    ask: Box<dyn Fn() -> Granting + Send + Sync>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    held: Option<Held>,
    /// What comes of the question that is on its way.
    coming: Option<Coming<Outcome>>,
    trouble: Option<Trouble>,
    /// How many tokens there have been.
    count: u64,
}

struct Held {
    credential: Credential,
    since: Instant,
    renewed_from: Instant,
    sent_until: Instant,
    /// Whether the upstream has taken it.
    taken: bool,
}

/// What went wrong since the last token came.
struct Trouble {
    failures: u32,
    until: Instant,
    last: Arc<CredentialError>,
}

impl Tokens {
    pub(super) fn new(upstream: UpstreamName, ask: impl Fn() -> Granting + Send + Sync + 'static) -> Self {
        Self { shared: Arc::new(Shared { upstream, ask: Box::new(ask), state: Mutex::default() }) }
    }

    /// The token that is there; where there is none that can be sent, the next, asked for by this call.
    pub(super) async fn credential(&self, ticket: &Ticket) -> Outcome {
        let coming = {
            let mut state = self.shared.state();
            let now = Instant::now();
            if let Some(held) = state.held.as_ref().filter(|held| now < held.sent_until) {
                let (credential, renewed) = (held.credential.clone(), now >= held.renewed_from);
                if renewed {
                    // While the old one is good nobody waits for the next, nor minds that it does not come.
                    let _ = self.shared.coming(&mut state, ticket);
                }
                return Ok(credential);
            }
            self.shared.coming(&mut state, ticket)?
        };
        coming.answer().await.unwrap_or_else(|| Err(Arc::new(CredentialError::Lost)))
    }

    /// Learns that the upstream took a token.
    pub(super) fn taken(&self, credential: &Credential) {
        let mut state = self.shared.state();
        if let Some(held) = state.held.as_mut().filter(|held| held.credential.number == credential.number) {
            held.taken = true;
        }
    }

    /// A token in the place of one that was refused. Of all who were refused with one, the first asks for the next.
    /// `None` where the next would be refused as well: one that just came was.
    pub(super) async fn another(
        &self,
        refused: &Credential,
        ticket: &Ticket,
    ) -> Result<Option<Credential>, Arc<CredentialError>> {
        {
            let mut state = self.shared.state();
            if let Some(held) = &state.held
                && held.credential.number == refused.number
            {
                if !held.taken && held.since.elapsed() < OLD {
                    return Ok(None);
                }
                state.held = None;
            }
        }
        self.credential(ticket).await.map(Some)
    }
}

impl fmt::Debug for Tokens {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Tokens(…)")
    }
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What comes of the question that is on its way; one is sent where none is, unless it is too early for that.
    /// The next call has use for what it brings when nobody waits any more.
    fn coming(
        self: &Arc<Self>,
        state: &mut State,
        ticket: &Ticket,
    ) -> Result<Coming<Outcome>, Arc<CredentialError>> {
        if let Some(coming) = state.coming.as_ref().filter(|coming| coming.is_under_way()) {
            return Ok(coming.clone());
        }
        let now = Instant::now();
        if let Some(Trouble { failures, until, last }) = &state.trouble
            && now < *until
        {
            let (failures, source) = (*failures, last.clone());
            return Err(Arc::new(CredentialError::Resting { rest: *until - now, failures, source }));
        }
        let (shared, asked, ticket) = (self.clone(), (self.ask)(), ticket.clone());
        let coming = Coming::of(async move {
            let answer = timeout(ANSWER_TIMEOUT, asked).await;
            let answer = answer.unwrap_or(Err(CredentialError::Deadline { after: ANSWER_TIMEOUT }));
            shared.learn(answer, now, &ticket)
        });
        state.coming = Some(coming.clone());
        Ok(coming)
    }

    fn learn(&self, answer: Result<Granted, CredentialError>, asked_at: Instant, ticket: &Ticket) -> Outcome {
        let (upstream, request_id) = (&self.upstream, ticket.request_id());
        let mut state = self.state();
        state.coming = None;
        match answer {
            Ok(Granted { token, life }) => {
                state.count += 1;
                state.trouble = None;
                let credential = Credential { number: state.count, ..token.credential() };
                // Counted from the question on: how long the answer took, nobody knows here.
                state.held = Some(Held {
                    credential: credential.clone(),
                    since: Instant::now(),
                    renewed_from: asked_at + life - RENEWED_BEFORE.min(life / 4),
                    sent_until: asked_at + life - SPARED.min(life / 10),
                    taken: false,
                });
                debug!(%upstream, request_id, life = ?life, "a token has come for an upstream");
                Ok(credential)
            }
            Err(error) => {
                let failures = state.trouble.as_ref().map_or(0, |trouble| trouble.failures) + 1;
                let rest = (FIRST_REST * (1 << (failures - 1).min(10))).min(LONGEST_REST);
                warn!(%upstream, request_id, failures, ?rest, error = %Chain(&error), "no token has come for an upstream");
                let last = Arc::new(error);
                state.trouble = Some(Trouble { failures, until: Instant::now() + rest, last: last.clone() });
                Err(last)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    /// A token server that takes a second and gives `token-1`, `token-2`, … for a hundred seconds, or fails.
    struct Server {
        tokens: Tokens,
        asked: Arc<AtomicUsize>,
        failing: Arc<Mutex<bool>>,
    }

    impl Server {
        fn new() -> Self {
            let (asked, failing) = (Arc::new(AtomicUsize::new(0)), Arc::new(Mutex::new(false)));
            let (count, fails) = (asked.clone(), failing.clone());
            let tokens = Tokens::new("legacy".parse().unwrap(), move || {
                let number = count.fetch_add(1, Ordering::SeqCst) + 1;
                let fails = *fails.lock().unwrap();
                Box::pin(async move {
                    tokio::time::sleep(SECOND).await;
                    match fails {
                        true => Err(CredentialError::NoToken { found: "nothing" }),
                        false => Ok(Granted {
                            token: BearerToken::new(&format!("token-{number}")).unwrap(),
                            life: 100 * SECOND,
                        }),
                    }
                })
            });
            Self { tokens, asked, failing }
        }

        fn asked(&self) -> usize {
            self.asked.load(Ordering::SeqCst)
        }

        fn fails(&self, fails: bool) {
            *self.failing.lock().unwrap() = fails;
        }

        async fn told(&self) -> String {
            shown(self.tokens.credential(&Ticket::default()).await)
        }
    }

    fn shown(outcome: Outcome) -> String {
        match outcome {
            Ok(credential) => credential.value.to_str().unwrap().replace("Bearer ", ""),
            Err(error) => error.to_string(),
        }
    }

    #[tokio::test(start_paused = true)]
    async fn many_who_wait_ask_once() {
        let server = Server::new();
        let (one, two, three) = tokio::join!(server.told(), server.told(), server.told());
        assert_eq!([one, two, three], ["token-1", "token-1", "token-1"]);
        assert_eq!((server.told().await.as_str(), server.asked()), ("token-1", 1));
    }

    #[tokio::test(start_paused = true)]
    async fn one_who_leaves_does_not_take_the_question_along() {
        let server = Server::new();
        timeout(SECOND / 2, server.told()).await.unwrap_err();
        assert_eq!((server.told().await.as_str(), server.asked()), ("token-1", 1));
    }

    #[tokio::test(start_paused = true)]
    async fn the_next_token_is_there_before_the_last_one_ends() {
        let server = Server::new();
        server.told().await;
        tokio::time::advance(80 * SECOND).await;
        assert_eq!(server.told().await, "token-1", "nobody waits while the old one is good");
        tokio::time::sleep(2 * SECOND).await;
        assert_eq!((server.told().await.as_str(), server.asked()), ("token-2", 2));
    }

    #[tokio::test(start_paused = true)]
    async fn a_token_that_nobody_renewed_is_not_sent_at_its_end() {
        let server = Server::new();
        server.told().await;
        tokio::time::advance(91 * SECOND).await;
        assert_eq!((server.told().await.as_str(), server.asked()), ("token-2", 2));
    }

    #[tokio::test(start_paused = true)]
    async fn a_good_token_is_used_while_its_server_fails() {
        let server = Server::new();
        server.told().await;
        server.fails(true);
        tokio::time::advance(80 * SECOND).await;
        for _ in 0..3 {
            assert_eq!(server.told().await, "token-1");
            tokio::time::sleep(SECOND).await;
        }
        tokio::time::advance(20 * SECOND).await;
        assert!(server.tokens.credential(&Ticket::default()).await.is_err());
    }

    #[tokio::test(start_paused = true)]
    async fn a_server_that_fails_is_left_alone_for_longer_and_longer() {
        let server = Server::new();
        server.fails(true);
        assert!(server.told().await.contains("answered nothing"));
        let resting = server.told().await;
        assert!(resting.contains("asked again in 1s, after 1 failures"), "{resting}");
        for _ in 0..1000 {
            tokio::time::sleep(SECOND).await;
            server.told().await;
        }
        // 1, 2, 4, … 32 seconds, and then about one a minute.
        assert!((15..25).contains(&server.asked()), "{}", server.asked());
        server.fails(false);
        tokio::time::sleep(LONGEST_REST).await;
        assert!(server.told().await.starts_with("token-"));
    }

    #[tokio::test(start_paused = true)]
    async fn a_token_that_is_refused_is_replaced_once_for_all() {
        let server = Server::new();
        let first = server.tokens.credential(&Ticket::default()).await.unwrap();
        server.tokens.taken(&first);
        let ticket = Ticket::default();
        let (one, two) =
            tokio::join!(server.tokens.another(&first, &ticket), server.tokens.another(&first, &ticket));
        for other in [one, two, server.tokens.another(&first, &Ticket::default()).await] {
            assert_eq!(shown(other.map(Option::unwrap)), "token-2");
        }
        assert_eq!(server.asked(), 2);
    }

    #[tokio::test(start_paused = true)]
    async fn a_token_that_was_never_good_is_not_replaced_at_once() {
        let server = Server::new();
        let first = server.tokens.credential(&Ticket::default()).await.unwrap();
        assert!(server.tokens.another(&first, &Ticket::default()).await.unwrap().is_none());
        tokio::time::advance(OLD).await;
        assert!(server.tokens.another(&first, &Ticket::default()).await.unwrap().is_some());
        assert_eq!(server.asked(), 2);
    }

    #[tokio::test(start_paused = true)]
    async fn a_silent_server_is_not_waited_for() {
        let tokens = Tokens::new("legacy".parse().unwrap(), || Box::pin(std::future::pending()));
        assert!(shown(tokens.credential(&Ticket::default()).await).contains("within 10s"));
    }

    #[tokio::test(start_paused = true)]
    async fn a_question_that_panics_is_asked_again() {
        let panics = Mutex::new(true);
        let tokens = Tokens::new("legacy".parse().unwrap(), move || {
            let panics = std::mem::take(&mut *panics.lock().unwrap());
            Box::pin(async move {
                assert!(!panics, "as the test wants it");
                Ok(Granted { token: BearerToken::new("token").unwrap(), life: SECOND })
            })
        });
        assert!(shown(tokens.credential(&Ticket::default()).await).contains("ended without one"));
        assert_eq!(shown(tokens.credential(&Ticket::default()).await), "token");
    }
}
