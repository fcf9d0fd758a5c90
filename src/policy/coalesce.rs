//! Asks once for all who ask for the same at the same time.

use std::{
    collections::HashMap,
    future::Future,
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
    upstream::{Ask, Coming, UpstreamError},
};

/// What is being asked for. Gives all who ask for the same, while it is being asked for, one reply. The request goes on as
/// long as one of them waits, whoever began it, and ends with the last; each has the deadline that is its own.
#[derive(Debug)]
pub(super) struct Flights {
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

    /// The reply to the request that is under way, or that `send` begins, in a task of its own.
    pub(super) async fn join<F>(
        self: &Arc<Self>,
        ask: &Ask,
        send: impl FnOnce(Ask) -> F,
    ) -> Result<Reply, UpstreamError>
    where
        F: Future<Output = Result<Reply, UpstreamError>> + Send + 'static,
    {
        let flight = self.flight(&Arc::new(Key::of(self.whom, ask)));
        let mut is_first = false;
        let begun = flight.begun.get_or_init(|| {
            is_first = true;
            // Others may wait for longer than the one who begins.
            let for_all = Ask { due: ask.due.for_everybody(), ..ask.clone() };
            Begun { reply: Coming::of(send(for_all)), ticket: ask.ticket.clone() }
        });
        if !is_first {
            self.joined.add();
            ask.ticket.join(&begun.ticket);
        }
        let reply = begun.reply.answer().await.unwrap_or_else(|| {
            Err(UpstreamError::CutOff {
                upstream: self.upstream.clone(),
                source: "the task that asked ended early".into(),
            })
        })?;
        if is_first { Ok(reply) } else { ask.charged(reply, &self.upstream).await }
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

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use http::HeaderValue;
    use tokio::time::{Instant, timeout};

    use super::*;
    use crate::policy::mock::{Inside, Script, answering_after, ask, failed, name};

    const SECOND: Duration = Duration::from_secs(1);

    fn flights() -> Arc<Flights> {
        Arc::new(Flights::new(name(), Whom::new(), Count::default()))
    }

    async fn call(flights: &Arc<Flights>, upstream: &Script, ask: Ask) -> Result<Reply, UpstreamError> {
        let upstream = upstream.clone();
        flights.join(&ask, |ask| async move { upstream.answer(&ask).await }).await
    }

    #[tokio::test(start_paused = true)]
    async fn those_who_ask_for_the_same_at_the_same_time_share_one_request() {
        let inside = Inside::default();
        let (flights, upstream) = (flights(), answering_after(SECOND, &inside));
        let other = || {
            let mut ask = ask(SECOND);
            ask.request.headers_mut().unwrap().insert("authorization", HeaderValue::from_static("another"));
            ask
        };
        let calls = async {
            let (a, b, c) = tokio::join!(
                call(&flights, &upstream, ask(SECOND)),
                call(&flights, &upstream, ask(SECOND)),
                call(&flights, &upstream, other())
            );
            assert!(a.is_ok() && b.is_ok() && c.is_ok());
        };
        let looks = async {
            tokio::time::sleep(SECOND / 2).await;
            assert_eq!(inside.count(), 2, "one for two, and one for who sends something else");
        };
        tokio::join!(calls, looks);
        assert_eq!(flights.joined.get(), 1);
        assert!(flights.under_way().is_empty());
    }

    #[tokio::test(start_paused = true)]
    async fn who_began_may_leave_and_the_others_get_their_reply() {
        let inside = Inside::default();
        let (flights, upstream) = (flights(), answering_after(3 * SECOND, &inside));
        let begun = Instant::now();
        let leaving = timeout(SECOND, call(&flights, &upstream, ask(SECOND)));
        let staying = async {
            tokio::time::sleep(SECOND / 2).await;
            call(&flights, &upstream, ask(10 * SECOND)).await
        };
        let (left, stayed) = tokio::join!(leaving, staying);
        left.unwrap_err();
        stayed.unwrap();
        assert_eq!(begun.elapsed(), 3 * SECOND, "the request was not begun anew");
    }

    #[tokio::test(start_paused = true)]
    async fn a_request_that_nobody_waits_for_any_more_is_dropped() {
        let inside = Inside::default();
        let (flights, upstream) = (flights(), answering_after(60 * SECOND, &inside));
        let one = timeout(SECOND, call(&flights, &upstream, ask(SECOND)));
        let other = timeout(2 * SECOND, call(&flights, &upstream, ask(SECOND)));
        let (one, other) = tokio::join!(one, other);
        assert!(one.is_err() && other.is_err());
        tokio::task::yield_now().await;
        assert_eq!(inside.count(), 0);
        assert!(flights.under_way().is_empty());
    }

    #[tokio::test(start_paused = true)]
    async fn a_reply_that_has_come_and_was_not_taken_yet_is_for_who_comes_then() {
        let script = Script::new([failed(), failed()]);
        let (flights, upstream) = (flights(), script.clone());
        let mut first = std::pin::pin!(call(&flights, &upstream, ask(SECOND)));
        timeout(Duration::ZERO, first.as_mut()).await.unwrap_err();
        while script.asked() == 0 {
            tokio::task::yield_now().await;
        }
        tokio::task::yield_now().await;
        call(&flights, &upstream, ask(SECOND)).await.unwrap_err();
        assert_eq!((script.asked(), flights.joined.get()), (1, 1));
        first.await.unwrap_err();
        assert!(flights.under_way().is_empty());
    }

    #[tokio::test(start_paused = true)]
    async fn all_who_wait_are_told_of_a_failure_and_the_next_asks_anew() {
        let script = Script::new([failed(), failed()]);
        let (flights, upstream) = (flights(), script.clone());
        let (one, other) =
            tokio::join!(call(&flights, &upstream, ask(SECOND)), call(&flights, &upstream, ask(SECOND)));
        assert!(matches!(one, Err(UpstreamError::Connect { .. })), "{one:?}");
        assert!(matches!(other, Err(UpstreamError::Connect { .. })), "{other:?}");
        assert_eq!(script.asked(), 1);
        call(&flights, &upstream, ask(SECOND)).await.unwrap_err();
        assert_eq!(script.asked(), 2);
    }
}
