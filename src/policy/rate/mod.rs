//! Keeps calls to a number in a time: of an upstream, of a route, or of each caller.

use std::{
    collections::HashMap,
    sync::{Mutex, PoisonError},
    time::Duration,
};

use tokio::time::{Instant, sleep};

use super::{Count, Sharing};
use crate::{
    route::UpstreamName,
    shared_state::{SharedStore, Unreachable},
    upstream::{Caller, UpstreamError, Whose},
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
    /// What holds while what is used of it is counted in a store that can't be reached.
    pub without_store: WithoutStore,
}

/// What a limit does that several replicas count together, while they can't.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum WithoutStore {
    /// Each counts for itself.
    #[default]
    Local,
    /// Nobody is let through.
    Refuse,
    /// Everybody is.
    Allow,
}

/// A limit, and how much of it is used.
///
/// Each call moves a point in time ahead by the gap between two calls; one that would be too far ahead is turned away
/// (the "generic cell rate algorithm"). So that point is all there is to remember, one for all or one for each caller,
/// and a point that has passed is no different from none.
#[derive(Debug)]
pub(super) struct Rate {
    upstream: UpstreamName,
    whose: Whose,
    settings: RateSettings,
    used: Mutex<Used>,
    turned_away: Count,
    counted: Option<Counted>,
}

/// Where all replicas count together.
#[derive(Debug)]
struct Counted {
    store: SharedStore,
    /// What it is the limit of.
    of: Box<[u8]>,
}

/// Why a call is not let through.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stopped {
    /// Nothing is left for so long.
    For(Duration),
    /// What is left can't be told.
    Uncounted,
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
    pub(super) const CALLERS_LIMIT: usize = 65_536;
    /// How often it is looked for callers to forget, at most.
    const SWEEP_EVERY: Duration = Duration::from_secs(1);
    /// How often it is looked whether the store is back, by who has begun and would be lost.
    const UNCOUNTED_PAUSE: Duration = Duration::from_secs(1);

    /// A limit of which nothing is used. `turned_away` counts those who come too often.
    pub(super) fn new(
        upstream: UpstreamName,
        whose: Whose,
        settings: RateSettings,
        turned_away: Count,
    ) -> Self {
        let now = Instant::now();
        let used = Mutex::new(Used { all: now, each: HashMap::new(), swept: now });
        Self { upstream, whose, settings, used, turned_away, counted: None }
    }

    /// The same, counted together with other replicas, where there are any; `of` is what it is the limit of.
    pub(super) fn shared_by(self, sharing: Option<&Sharing>, of: &str) -> Self {
        match sharing {
            Some(sharing) => self.counted_in(sharing.store.clone(), of),
            None => self,
        }
    }

    fn counted_in(self, store: SharedStore, of: &str) -> Self {
        let RateSettings { count, per, burst, without_store: _ } = self.settings;
        // Another limit begins anew: points of the old one may be far ahead.
        let of = format!("{} {of} {count} {} {burst}", self.whose.as_word(), per.as_micros());
        Self { counted: Some(Counted { store, of: of.into_bytes().into() }), ..self }
    }

    /// Uses some of it, or says how long there is nothing left.
    fn take(&self, caller: &Caller) -> Result<(), Duration> {
        let now = Instant::now();
        let mut used = self.used.lock().unwrap_or_else(PoisonError::into_inner);
        let point = used.point(self.whose, caller, now);
        let (gap, slack) = self.settings.gap_and_slack();
        let ahead = point.saturating_duration_since(now);
        match ahead.checked_sub(slack) {
            Some(wait) if !wait.is_zero() => Err(wait),
            _ => {
                *point = now + ahead + gap;
                Ok(())
            }
        }
    }

    /// The same of what all replicas use, where they count together.
    async fn take_of_all(&self, caller: &Caller) -> Result<(), Stopped> {
        let here = self.take(caller);
        let Some(Counted { store, of }) = &self.counted else { return here.map_err(Stopped::For) };
        let without = self.settings.without_store;
        // What is too much of this replica alone is too much of all, and nobody need be asked for it.
        if let Err(wait) = here
            && (without != WithoutStore::Allow || store.is_reachable())
        {
            return Err(Stopped::For(wait));
        }
        let whose = match self.whose {
            Whose::CallerOfRoute | Whose::CallerOfUpstream => caller.to_bytes(),
            Whose::Route | Whose::Upstream => Vec::new(),
        };
        let (gap, slack) = self.settings.gap_and_slack();
        match (store.take(&store.name("rate", &[of, &whose]), gap, slack).await, without) {
            (Ok(Duration::ZERO), _) => Ok(()),
            (Ok(wait), _) => {
                self.put_off(caller, wait);
                Err(Stopped::For(wait))
            }
            (Err(Unreachable), WithoutStore::Local | WithoutStore::Allow) => Ok(()),
            (Err(Unreachable), WithoutStore::Refuse) => Err(Stopped::Uncounted),
        }
    }

    /// Lets nobody through here for so long: the others have used what there was.
    fn put_off(&self, caller: &Caller, wait: Duration) {
        let now = Instant::now();
        let mut used = self.used.lock().unwrap_or_else(PoisonError::into_inner);
        let (_, slack) = self.settings.gap_and_slack();
        let point = used.point(self.whose, caller, now);
        *point = now + slack + wait;
    }

    /// Uses some of it, now or as soon as there is some.
    ///
    /// # Errors
    ///
    /// [`UpstreamError::TooOften`] when nothing is left and the call does not wait; that is counted.
    /// [`UpstreamError::Uncounted`] when that can't be told.
    pub(super) async fn admit(&self, caller: &Caller, over: Over) -> Result<(), UpstreamError> {
        loop {
            let Err(stopped) = self.take_of_all(caller).await else { return Ok(()) };
            match (over, stopped) {
                (Over::TurnedAway, stopped) => return Err(self.turned_away(stopped)),
                (Over::Waits, Stopped::For(wait)) => sleep(wait).await,
                (Over::Waits, Stopped::Uncounted) => sleep(Self::UNCOUNTED_PAUSE).await,
            }
        }
    }

    fn turned_away(&self, stopped: Stopped) -> UpstreamError {
        self.turned_away.add();
        let (upstream, RateSettings { count, per, .. }) = (self.upstream.clone(), self.settings);
        match stopped {
            Stopped::For(rest) => UpstreamError::TooOften { upstream, whose: self.whose, count, per, rest },
            Stopped::Uncounted => UpstreamError::Uncounted { upstream },
        }
    }
}

impl RateSettings {
    /// How far each call moves the point, and how far ahead it may be.
    fn gap_and_slack(self) -> (Duration, Duration) {
        let gap = self.per / self.count.max(1);
        (gap, gap * self.burst.saturating_sub(1))
    }
}

impl Used {
    fn point(&mut self, whose: Whose, caller: &Caller, now: Instant) -> &mut Instant {
        match whose {
            Whose::CallerOfRoute | Whose::CallerOfUpstream => self.of(caller, now),
            Whose::Route | Whose::Upstream => &mut self.all,
        }
    }

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
pub(super) enum Over {
    /// It is turned away, and told when to come again.
    TurnedAway,
    /// It waits, to its deadline: for what has begun, and would be lost.
    Waits,
}

#[cfg(test)]
mod tests;
