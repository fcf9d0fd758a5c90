//! Gives a reply again that was given before.
//!
//! `word` reads what an upstream says of how long its reply may be kept, a `page` is a reply that is; [`Store`] keeps replies of all routes, to a number
//! of bytes; `away` keeps them where other replicas find them; [`Cache`] is what the calls of one route have in common.

mod away;
mod page;
mod store;
mod word;

use std::{borrow::Cow, future::Future, sync::Arc, time::Duration};

use http::{HeaderName, StatusCode, header};
use tokio::time::{Instant, timeout_at};

use self::{page::Page, word::Word};
use super::{
    Response, RouteCounts,
    coalesce::Flights,
    key::{Key, Whom},
};
use crate::{
    reply::Reply,
    upstream::{Ask, UpstreamError},
};

pub(super) use away::Away;
pub(super) use page::compact;
pub use store::Store;

/// Which replies are kept, and for how long.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CacheSettings {
    /// How long a reply is good.
    pub lasts: Lasts,
    /// How much longer an old one is given where the upstream fails.
    pub stale_if_error: Duration,
    /// Whether replies are kept of which the upstream says that they must not be.
    pub forbidden: Forbidden,
}

/// How long a reply is good.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Lasts {
    /// So long.
    For(Duration),
    /// As long as the upstream says of it; where it says nothing, it is asked each time whether it is still good.
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

/// The cached responses of one route. Gives them to requests of the same words.
///
/// Only good replies are kept (200, 203, 204). An old one with an `ETag` or a `Last-Modified` is asked about, and given
/// again when it has not changed.
#[derive(Debug)]
pub(super) struct Cache {
    pub(super) settings: CacheSettings,
    pub(super) whom: Whom,
    pub(super) store: Store,
    pub(super) away: Option<Away>,
    /// What is being asked for, where calls for the same share a request.
    pub(super) flights: Option<Arc<Flights>>,
    pub(super) counts: RouteCounts,
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

impl CacheSettings {
    /// Whether a reply is kept at all.
    fn keeps(&self, reply: &Reply, word: &Word) -> bool {
        let is_good = matches!(
            reply.status,
            StatusCode::OK | StatusCode::NON_AUTHORITATIVE_INFORMATION | StatusCode::NO_CONTENT
        );
        let may_be = !word.forbids || self.forbidden == Forbidden::Kept;
        let is_of_use = match self.lasts {
            Lasts::For(_) => true,
            Lasts::AsTheUpstreamSays => {
                let can_be_asked_about =
                    [header::ETAG, header::LAST_MODIFIED].iter().any(|name| reply.headers.contains_key(name));
                can_be_asked_about || (word.lasts.is_some_and(|time| time > word.age) && !word.asks_each_time)
            }
        };
        is_good && may_be && is_of_use && !word.varies
    }
}

impl Cache {
    /// A cached response, or the one that `send` brings.
    pub(super) async fn get_or_fetch<'a, F>(
        self: &Arc<Self>,
        ask: &'a Ask,
        send: impl FnOnce(Cow<'a, Ask>) -> F,
    ) -> Result<Response, UpstreamError>
    where
        F: Future<Output = Result<Reply, UpstreamError>>,
    {
        let is_conditional = ask
            .request
            .headers()
            .is_some_and(|headers| CONDITIONS.iter().any(|name| headers.contains_key(name)));
        if is_conditional {
            return send(Cow::Borrowed(ask)).await.map(Response::of_upstream);
        }
        let key = Arc::new(Key::of(self.whom, ask));
        let mut page = self.store.get(&key);
        if let Some(page) = self.good(page.clone()) {
            return Ok(self.give(&key, &page));
        }
        page = self.newer(&key, page).await;
        if let Some(page) = self.good(page.clone()) {
            return Ok(self.give(&key, &page));
        }
        self.fetch(ask, key, page, send).await
    }

    /// Keeps a reply, where it may be.
    fn keep(self: &Arc<Self>, key: &Arc<Key>, page: Page) -> Option<CacheEntry> {
        if !self.settings.keeps(&page.reply, &page.word) {
            return None;
        }
        let page = Arc::new(page.compact());
        self.store.put(key, page.clone());
        if let Some(away) = &self.away {
            away.put(key, &page, self.settings);
        }
        Some(self.entry(key, &page))
    }

    fn entry(self: &Arc<Self>, key: &Arc<Key>, page: &Arc<Page>) -> CacheEntry {
        CacheEntry { cache: self.clone(), key: key.clone(), page: page.clone() }
    }

    /// Drops a page, here and where other replicas would find it.
    fn forget(&self, key: &Arc<Key>, page: &Arc<Page>) {
        self.store.forget(key, page);
        if let Some(away) = &self.away {
            away.remove(key);
        }
    }

    /// The page that another replica has kept, where it is a better one than ours; then it is ours, too.
    async fn newer(&self, key: &Arc<Key>, own: Option<Arc<Page>>) -> Option<Arc<Page>> {
        let Some(away) = &self.away else { return own };
        let found = away.get(key).await;
        // Another call may have kept one while the store was asked.
        let own = self.store.get(key).or(own);
        let Some(page) = found else { return own };
        // What may be kept here is for this route to say, whoever wrote it there.
        if !self.settings.keeps(&page.reply, &page.word)
            || own.as_ref().is_some_and(|own| own.came >= page.came)
        {
            return own;
        }
        let page = Arc::new(page);
        self.store.put(key, page.clone());
        if !page.left(self.settings).is_zero() {
            self.counts.kept_by_others.add();
        }
        Some(page)
    }

    /// A page that needs no asking.
    fn good(&self, page: Option<Arc<Page>>) -> Option<Arc<Page>> {
        let page = page.filter(|page| !page.left(self.settings).is_zero())?;
        self.counts.kept.add();
        Some(page)
    }

    /// Gives a kept reply.
    fn give(self: &Arc<Self>, key: &Arc<Key>, page: &Arc<Page>) -> Response {
        Response { reply: page.told(), age: Some(page.age()), entry: Some(self.entry(key, page)) }
    }

    /// Asks for what is not there, or is old. It may have come since `old` was looked for.
    async fn fetch<'a, F>(
        self: &Arc<Self>,
        ask: &'a Ask,
        key: Arc<Key>,
        old: Option<Arc<Page>>,
        send: impl FnOnce(Cow<'a, Ask>) -> F,
    ) -> Result<Response, UpstreamError>
    where
        F: Future<Output = Result<Reply, UpstreamError>>,
    {
        let about_old = old.as_ref().and_then(|old| {
            let mut ask = ask.clone();
            let asks = old.ask_whether_it_is_good(ask.request.headers_mut()?);
            asks.then_some(ask)
        });
        let is_about_old = about_old.is_some();
        // Held until the reply is kept.
        let _flight = self.flights.as_ref().map(|flights| match &about_old {
            None => flights.flight(&key),
            Some(ask) => flights.flight(&Arc::new(Key::of(self.whom, ask))),
        });
        if let Some(page) = self.good(self.store.get(&key)) {
            return Ok(self.give(&key, &page));
        }
        self.counts.fetched.add();
        let spare = old.as_ref().filter(|old| old.is_better_than_nothing(self.settings));
        let due = ask.due.at;
        let asked = send(about_old.map_or(Cow::Borrowed(ask), Cow::Owned));
        let result = match spare {
            None => asked.await,
            Some(old) => {
                let left = due.saturating_duration_since(Instant::now());
                match timeout_at(Instant::now() + left.mul_f64(LATE), asked).await {
                    Ok(Err(_)) | Err(_) => return Ok(self.give_old(&key, old)),
                    Ok(Ok(reply)) if reply.status.is_server_error() => {
                        return Ok(self.give_old(&key, old));
                    }
                    Ok(result) => result,
                }
            }
        };
        let reply = result?;
        match old {
            Some(old) if is_about_old && reply.status == StatusCode::NOT_MODIFIED => {
                self.counts.still_good.add();
                let renewed = old.renewed(reply.headers);
                let (reply, age) = (renewed.told(), Some(renewed.age()));
                let entry = self.keep(&key, renewed);
                if entry.is_none() {
                    self.forget(&key, &old);
                }
                Ok(Response { reply, age, entry })
            }
            old => {
                let entry = self.keep(&key, Page::new(reply.clone()));
                if entry.is_none()
                    && let Some(old) = old
                    && !reply.status.is_server_error()
                {
                    self.forget(&key, &old);
                }
                Ok(Response { reply, age: None, entry })
            }
        }
    }

    fn give_old(self: &Arc<Self>, key: &Arc<Key>, old: &Arc<Page>) -> Response {
        self.counts.old.add();
        self.give(key, old)
    }
}

/// A cached response.
#[derive(Debug)]
pub struct CacheEntry {
    cache: Arc<Cache>,
    key: Arc<Key>,
    page: Arc<Page>,
}

impl CacheEntry {
    /// Removes it from the cache, unless there is another by now: its words are an error after all.
    pub fn forget(&self) {
        self.cache.forget(&self.key, &self.page);
    }
}

#[cfg(test)]
mod tests;
