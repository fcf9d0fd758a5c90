//! Keeps calls to a number in a time: of an upstream, of a route, or of each caller.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
    task::{Context, Poll},
    time::Duration,
};

use tokio::time::{Instant, sleep};
use tower::{Layer, Service};

use super::{Answers, Count};
use crate::{
    reply::Reply,
    route::UpstreamName,
    upstream::{Ask, Caller, PendingReply, UpstreamError, Whose},
};

/// How many calls in how long.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RateSettings {
    /// So many.
    pub count: u32,
    /// In this time.
    pub per: Duration,
    /// How many of them may come at once, after a time without any.
    pub burst: u32,
}

/// A limit, and how much of it is used.
///
/// Each call moves a point in time ahead by the gap between two calls; one that would be too far ahead is turned away
/// (the "generic cell rate algorithm"). So that point is all there is to remember, one for all or one for each caller,
/// and a point that has passed is no different from none.
#[derive(Debug)]
pub struct Rate {
    upstream: UpstreamName,
    whose: Whose,
    settings: RateSettings,
    used: Mutex<Used>,
    turned_away: Count,
}

#[derive(Debug)]
struct Used {
    /// By all together, or by those who have no place of their own.
    all: Instant,
    each: HashMap<Caller, Instant>,
    swept: Instant,
}

impl Rate {
    /// How many callers are told apart. Those beyond share what one of them may ask, until others have been silent for
    /// long enough to be forgotten: whoever comes under ever other addresses gains nothing by it.
    pub const CALLERS_LIMIT: usize = 65_536;
    /// How often it is looked for callers to forget, at most.
    const SWEEP_EVERY: Duration = Duration::from_secs(1);

    /// A limit of which nothing is used. `turned_away` counts those who come too often.
    pub fn new(upstream: UpstreamName, whose: Whose, settings: RateSettings, turned_away: Count) -> Self {
        let now = Instant::now();
        let used = Mutex::new(Used { all: now, each: HashMap::new(), swept: now });
        Self { upstream, whose, settings, used, turned_away }
    }

    /// Uses some of it, or says how long there is nothing left.
    fn take(&self, caller: &Caller) -> Result<(), Duration> {
        let now = Instant::now();
        let mut used = self.used.lock().unwrap_or_else(PoisonError::into_inner);
        let point = match self.whose {
            Whose::CallerOfRoute | Whose::CallerOfUpstream => used.of(caller, now),
            Whose::Route | Whose::Upstream => &mut used.all,
        };
        let gap = self.settings.per / self.settings.count.max(1);
        let slack = gap * self.settings.burst.saturating_sub(1);
        let ahead = point.saturating_duration_since(now);
        match ahead.checked_sub(slack) {
            Some(wait) if !wait.is_zero() => Err(wait),
            _ => {
                *point = now + ahead + gap;
                Ok(())
            }
        }
    }

    /// Uses some of it.
    ///
    /// # Errors
    ///
    /// [`UpstreamError::TooOften`] when nothing is left; that is counted.
    pub(super) fn enter(&self, caller: &Caller) -> Result<(), UpstreamError> {
        self.take(caller).map_err(|rest| {
            self.turned_away.add();
            let RateSettings { count, per, .. } = self.settings;
            UpstreamError::TooOften { upstream: self.upstream.clone(), whose: self.whose, count, per, rest }
        })
    }

    /// Uses some of it, as soon as there is some.
    async fn wait(&self, caller: &Caller) {
        while let Err(wait) = self.take(caller) {
            sleep(wait).await;
        }
    }
}

impl Used {
    fn of(&mut self, caller: &Caller, now: Instant) -> &mut Instant {
        if self.each.len() >= Rate::CALLERS_LIMIT && !self.each.contains_key(caller) {
            if now.saturating_duration_since(self.swept) >= Rate::SWEEP_EVERY {
                self.swept = now;
                self.each.retain(|_, point| *point > now);
            }
            if self.each.len() >= Rate::CALLERS_LIMIT {
                return &mut self.all;
            }
        }
        self.each.entry(caller.clone()).or_insert(now)
    }
}

/// What is done with a call that is over a limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Over {
    /// It is turned away, and told when to come again.
    TurnedAway,
    /// It waits, to its deadline: for what has begun, and would be lost.
    Waits,
}

/// Lets calls through as a [`Rate`] has them.
#[derive(Debug, Clone)]
pub struct RateLimit<S> {
    inner: S,
    rate: Arc<Rate>,
    over: Over,
}

/// Puts [`RateLimit`] round a service.
#[derive(Debug, Clone)]
pub struct RateLimitLayer {
    rate: Arc<Rate>,
    over: Over,
}

impl RateLimitLayer {
    /// A layer of calls that are held against `rate`.
    pub fn new(rate: Arc<Rate>, over: Over) -> Self {
        Self { rate, over }
    }
}

impl<S> Layer<S> for RateLimitLayer {
    type Service = RateLimit<S>;

    fn layer(&self, inner: S) -> RateLimit<S> {
        RateLimit { inner, rate: self.rate.clone(), over: self.over }
    }
}

impl<S: Answers + Clone + Send + 'static> Service<Ask> for RateLimit<S> {
    type Response = Reply;
    type Error = UpstreamError;
    type Future = PendingReply;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), UpstreamError>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, ask: Ask) -> Self::Future {
        match (self.rate.enter(&ask.caller), self.over) {
            (Ok(()), _) => Box::pin(self.inner.call(ask)),
            (Err(error), Over::TurnedAway) => Box::pin(std::future::ready(Err(error))),
            (Err(_), Over::Waits) => {
                // The service that was polled ready is the one to call; its clone waits for the next call.
                let next = self.inner.clone();
                let mut inner = std::mem::replace(&mut self.inner, next);
                let rate = self.rate.clone();
                Box::pin(async move {
                    rate.wait(&ask.caller).await;
                    inner.call(ask).await
                })
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::net::{IpAddr, Ipv4Addr};

    use super::*;
    use crate::policy::mock::{Inside, answering_after, ask, call, name};

    const SECOND: Duration = Duration::from_secs(1);
    const TEN_A_SECOND: RateSettings = RateSettings { count: 10, per: SECOND, burst: 10 };

    fn rate(whose: Whose, settings: RateSettings) -> Rate {
        Rate::new(name(), whose, settings, Count::default())
    }

    fn caller(number: u32) -> Caller {
        Caller::Address(IpAddr::V4(Ipv4Addr::from_bits(number)))
    }

    /// How many of a hundred calls at once are let through.
    fn at_once(rate: &Rate, caller: &Caller) -> usize {
        (0..100).filter(|_| rate.take(caller).is_ok()).count()
    }

    #[tokio::test(start_paused = true)]
    async fn a_burst_is_let_through_and_then_as_many_as_there_may_be_in_a_time() {
        let rate = rate(Whose::Upstream, TEN_A_SECOND);
        assert_eq!(at_once(&rate, &Caller::Only), 10);
        assert_eq!(rate.take(&Caller::Only), Err(SECOND / 10));
        tokio::time::advance(SECOND / 4).await;
        assert_eq!(at_once(&rate, &Caller::Only), 2);
        assert_eq!(rate.take(&Caller::Only), Err(SECOND / 20));
        tokio::time::advance(100 * SECOND).await;
        assert_eq!(at_once(&rate, &Caller::Only), 10, "what was not used is not saved for ever");
    }

    #[tokio::test(start_paused = true)]
    async fn over_a_long_time_no_more_are_let_through_than_is_said() {
        let settings = RateSettings { count: 7, per: SECOND, burst: 1 };
        let rate = rate(Whose::Route, settings);
        let mut let_through = 0;
        for _ in 0..10_000 {
            let_through += usize::from(rate.take(&Caller::Only).is_ok());
            tokio::time::advance(Duration::from_millis(1)).await;
        }
        assert!((69..=71).contains(&let_through), "{let_through} in ten seconds");
    }

    #[tokio::test(start_paused = true)]
    async fn callers_do_not_use_up_what_others_may_ask() {
        let rate = rate(Whose::CallerOfRoute, TEN_A_SECOND);
        assert_eq!(at_once(&rate, &caller(1)), 10);
        assert_eq!(at_once(&rate, &caller(2)), 10);
        assert_eq!(at_once(&rate, &caller(1)), 0);
    }

    #[tokio::test(start_paused = true)]
    async fn callers_beyond_the_limit_share_until_others_are_forgotten() {
        let rate = rate(Whose::CallerOfRoute, TEN_A_SECOND);
        let most = u32::try_from(Rate::CALLERS_LIMIT).unwrap();
        assert!((0..most).all(|number| rate.take(&caller(number)).is_ok()));
        let more = (most..most + 50).filter(|number| rate.take(&caller(*number)).is_ok()).count();
        assert_eq!(more, 10, "fifty who are not told apart have what one has");
        assert_eq!(at_once(&rate, &caller(0)), 9, "who was there before is not forgotten for them");
        tokio::time::advance(2 * SECOND).await;
        assert_eq!(at_once(&rate, &caller(most)), 10);
        assert_eq!(rate.used.lock().unwrap().each.len(), 1);
    }

    #[tokio::test(start_paused = true)]
    async fn who_comes_too_often_is_told_when_to_come_again() {
        let counted = Count::default();
        let settings = RateSettings { count: 1, per: 60 * SECOND, burst: 1 };
        let rate = Arc::new(Rate::new(name(), Whose::CallerOfRoute, settings, counted.clone()));
        let inside = Inside::default();
        let service = RateLimitLayer::new(rate, Over::TurnedAway).layer(answering_after(SECOND, &inside));
        call(&service, ask(SECOND)).await.unwrap();
        let error = call(&service, ask(SECOND)).await.unwrap_err();
        let told = matches!(error, UpstreamError::TooOften { rest, whose: Whose::CallerOfRoute, .. } if rest == 59 * SECOND);
        assert!(told, "{error}");
        assert_eq!(counted.get(), 1);
        tokio::time::advance(59 * SECOND).await;
        call(&service, ask(SECOND)).await.unwrap();
    }

    #[tokio::test(start_paused = true)]
    async fn what_has_begun_waits_for_its_turn() {
        let settings = RateSettings { count: 1, per: SECOND, burst: 1 };
        let rate = Arc::new(rate(Whose::Upstream, settings));
        let service =
            RateLimitLayer::new(rate, Over::Waits).layer(answering_after(Duration::ZERO, &Inside::default()));
        let begun = Instant::now();
        let (first, second, third) = tokio::join!(
            call(&service, ask(SECOND)),
            call(&service, ask(SECOND)),
            call(&service, ask(SECOND))
        );
        assert!(first.is_ok() && second.is_ok() && third.is_ok());
        assert_eq!(begun.elapsed(), 2 * SECOND);
    }
}
