//! Asks once for all who ask for the same at the same time.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak},
};

use super::{
    Count,
    key::{Key, Whom},
};
use crate::{
    observe::Ticket,
    reply::Reply,
    route::UpstreamName,
    upstream::{Answers, Ask, Coming, UpstreamError},
};

/// Gives all who ask for the same, while it is being asked for, one reply. The request goes on as long as one of them
/// waits, whoever began it, and ends with the last; each has the deadline that is its own.
#[derive(Debug)]
pub struct Coalesce<S> {
    inner: Arc<S>,
    flights: Arc<Flights>,
}

/// What is being asked for. There are never more than there are calls.
#[derive(Debug)]
pub struct Flights {
    upstream: UpstreamName,
    whom: Whom,
    under_way: Mutex<HashMap<Arc<Key>, Weak<Flight>>>,
    joined: Count,
}

/// One request, for all who hold it. It begins when the first of them asks.
#[derive(Debug)]
pub(super) struct Flight {
    key: Arc<Key>,
    flights: Arc<Flights>,
    begun: OnceLock<Begun>,
}

/// A request that is under way.
#[derive(Debug)]
struct Begun {
    reply: Coming<Result<Reply, UpstreamError>>,
    /// The call that it was begun for.
    ticket: Ticket,
}

impl Drop for Flight {
    fn drop(&mut self) {
        if let Some(begun) = self.begun.get() {
            begun.reply.abort();
        }
        self.flights.remove_if_over(&self.key);
    }
}

impl Flights {
    /// None yet. `joined` counts the calls that had no request of their own.
    pub(super) fn new(upstream: UpstreamName, whom: Whom, joined: Count) -> Self {
        Self { upstream, whom, under_way: Mutex::default(), joined }
    }

    /// The request of these words: the one under way, or one that is to begin. As long as it is held, all who ask for the
    /// same have its reply. Who looks for a kept reply holds it from the last look until theirs is kept: who looks in
    /// vain then finds the request, and who comes too late for it finds what was kept.
    pub(super) fn flight(self: &Arc<Self>, key: &Arc<Key>) -> Arc<Flight> {
        let mut under_way = self.under_way();
        if let Some(flight) = under_way.get(key).and_then(Weak::upgrade) {
            return flight;
        }
        let flight = Arc::new(Flight { key: key.clone(), flights: self.clone(), begun: OnceLock::new() });
        under_way.insert(key.clone(), Arc::downgrade(&flight));
        flight
    }

    fn under_way(&self) -> MutexGuard<'_, HashMap<Arc<Key>, Weak<Flight>>> {
        self.under_way.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn remove_if_over(&self, key: &Key) {
        let mut under_way = self.under_way();
        // Another one may have begun since.
        if under_way.get(key).is_some_and(|flight| flight.strong_count() == 0) {
            under_way.remove(key);
        }
    }
}

impl<S> Coalesce<S> {
    /// Puts the layer round what asks.
    pub fn new(inner: S, flights: Arc<Flights>) -> Self {
        Self { inner: Arc::new(inner), flights }
    }
}

impl<S: Answers + 'static> Coalesce<S> {
    /// Asks, in a task of its own.
    fn begin(&self, ask: &Ask) -> Coming<Result<Reply, UpstreamError>> {
        // Others may wait for longer than the one who begins.
        let ask = Ask { due: ask.due.for_everybody(), ..ask.clone() };
        let inner = self.inner.clone();
        Coming::of(async move { inner.answer(&ask).await })
    }
}

impl<S: Answers + 'static> Answers for Coalesce<S> {
    async fn answer(&self, ask: &Ask) -> Result<Reply, UpstreamError> {
        let flight = self.flights.flight(&Arc::new(Key::of(self.flights.whom, ask)));
        let mut is_first = false;
        let begun = flight.begun.get_or_init(|| {
            is_first = true;
            Begun { reply: self.begin(ask), ticket: ask.ticket.clone() }
        });
        if !is_first {
            self.flights.joined.add();
            ask.ticket.join(&begun.ticket);
        }
        let reply = begun.reply.answer().await.unwrap_or_else(|| {
            Err(UpstreamError::CutOff {
                upstream: self.flights.upstream.clone(),
                source: "the task that asked ended early".into(),
            })
        })?;
        if is_first { Ok(reply) } else { ask.charged(reply, &self.flights.upstream).await }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use http::HeaderValue;
    use tokio::time::{Instant, timeout};

    use super::*;
    use crate::policy::mock::{Inside, answering_after, ask, call, failed, name};

    const SECOND: Duration = Duration::from_secs(1);

    fn coalesce<S>(inner: S) -> Coalesce<S> {
        Coalesce::new(inner, Arc::new(Flights::new(name(), Whom::new(), Count::default())))
    }

    #[tokio::test(start_paused = true)]
    async fn those_who_ask_for_the_same_at_the_same_time_share_one_request() {
        let inside = Inside::default();
        let service = coalesce(answering_after(SECOND, &inside));
        let other = || {
            let mut ask = ask(SECOND);
            ask.request.headers_mut().unwrap().insert("authorization", HeaderValue::from_static("another"));
            ask
        };
        let calls = async {
            let (a, b, c) = tokio::join!(
                call(&service, ask(SECOND)),
                call(&service, ask(SECOND)),
                call(&service, other())
            );
            assert!(a.is_ok() && b.is_ok() && c.is_ok());
        };
        let looks = async {
            tokio::time::sleep(SECOND / 2).await;
            assert_eq!(inside.count(), 2, "one for two, and one for who sends something else");
        };
        tokio::join!(calls, looks);
        assert_eq!(service.flights.joined.get(), 1);
        assert!(service.flights.under_way().is_empty());
    }

    #[tokio::test(start_paused = true)]
    async fn who_began_may_leave_and_the_others_get_their_reply() {
        let inside = Inside::default();
        let service = coalesce(answering_after(3 * SECOND, &inside));
        let begun = Instant::now();
        let leaving = timeout(SECOND, call(&service, ask(SECOND)));
        let staying = async {
            tokio::time::sleep(SECOND / 2).await;
            call(&service, ask(10 * SECOND)).await
        };
        let (left, stayed) = tokio::join!(leaving, staying);
        left.unwrap_err();
        stayed.unwrap();
        assert_eq!(begun.elapsed(), 3 * SECOND, "the request was not begun anew");
    }

    #[tokio::test(start_paused = true)]
    async fn a_request_that_nobody_waits_for_any_more_is_dropped() {
        let inside = Inside::default();
        let service = coalesce(answering_after(60 * SECOND, &inside));
        let one = timeout(SECOND, call(&service, ask(SECOND)));
        let other = timeout(2 * SECOND, call(&service, ask(SECOND)));
        let (one, other) = tokio::join!(one, other);
        assert!(one.is_err() && other.is_err());
        tokio::task::yield_now().await;
        assert_eq!(inside.count(), 0);
        assert!(service.flights.under_way().is_empty());
    }

    #[tokio::test(start_paused = true)]
    async fn a_reply_that_has_come_and_was_not_taken_yet_is_for_who_comes_then() {
        let script = crate::policy::mock::Script::new([failed(), failed()]);
        let service = coalesce(script.clone());
        let mut first = std::pin::pin!(call(&service, ask(SECOND)));
        timeout(Duration::ZERO, first.as_mut()).await.unwrap_err();
        while script.asked() == 0 {
            tokio::task::yield_now().await;
        }
        tokio::task::yield_now().await;
        call(&service, ask(SECOND)).await.unwrap_err();
        assert_eq!((script.asked(), service.flights.joined.get()), (1, 1));
        first.await.unwrap_err();
        assert!(service.flights.under_way().is_empty());
    }

    #[tokio::test(start_paused = true)]
    async fn all_who_wait_are_told_of_a_failure_and_the_next_asks_anew() {
        let script = crate::policy::mock::Script::new([failed(), failed()]);
        let service = coalesce(script.clone());
        let (one, other) = tokio::join!(call(&service, ask(SECOND)), call(&service, ask(SECOND)));
        assert!(matches!(one, Err(UpstreamError::Connect { .. })), "{one:?}");
        assert!(matches!(other, Err(UpstreamError::Connect { .. })), "{other:?}");
        assert_eq!(script.asked(), 1);
        call(&service, ask(SECOND)).await.unwrap_err();
        assert_eq!(script.asked(), 2);
    }
}
