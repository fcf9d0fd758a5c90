//! Replies that are kept where all replicas find them.
//!
//! A page is written as bytes: a version, its status, how old it was and how long it is kept there, its headers, and its
//! body. How old it is when it is read follows from how much of that time is left, so that the clocks of replicas need not agree.
//! What can't be read is none.

use std::time::Duration;

use bytes::{Buf, BufMut, Bytes};
use http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header};
use tokio::time::Instant;

use super::{super::key::Key, CacheSettings, Lasts, Page, Word};
use crate::{
    policy::Sharing,
    reply::Reply,
    shared_state::{KeptBytes, SharedStore},
};

/// What a page begins with; another form of it has another one.
const VERSION: u8 = 1;

/// How long an old page is kept that the upstream can be asked about.
const ASKED_ABOUT_FOR: Duration = Duration::from_secs(3600);

/// The pages of one upstream, as far as others see them.
#[derive(Debug)]
pub(in crate::policy) struct Away {
    sharing: Sharing,
}

impl Away {
    pub(in crate::policy) fn new(sharing: Sharing) -> Self {
        Self { sharing }
    }

    fn store(&self) -> &SharedStore {
        &self.sharing.store
    }

    /// What a request's page is called.
    fn name(&self, key: &Key) -> String {
        let [limit, request] = key.parts();
        self.store().name("page", &[self.sharing.identity.as_bytes(), &limit, &request])
    }

    /// The page of a request; `None` where there is none, or the store can't be reached.
    pub(super) async fn get(&self, key: &Key) -> Option<Page> {
        let kept = self.store().get(&self.name(key)).await.ok()??;
        read(&kept)
    }

    /// Keeps a page as long as it may be of use. Nobody waits for that. That of a program stays here, as there is more
    /// to it than a reply.
    pub(super) fn put(&self, key: &Key, page: &Page, settings: CacheSettings) {
        let life = page.of_use(settings);
        let is_too_long = page.reply.body.len() >= self.store().entry_limit_bytes();
        if page.reply.exit.is_some() || life.is_zero() || is_too_long {
            return;
        }
        if let Some(bytes) = written(page, life) {
            self.store().put(&self.name(key), &bytes, life);
        }
    }

    /// Has nobody find it any more.
    pub(super) fn remove(&self, key: &Key) {
        self.store().remove(&self.name(key));
    }
}

impl Page {
    /// For how long it may be of use from now on, good or old.
    fn of_use(&self, settings: CacheSettings) -> Duration {
        let in_place_of_errors = match settings.lasts {
            Lasts::For(_) => settings.stale_if_error,
            Lasts::AsTheUpstreamSays => settings.stale_if_error.max(self.word.if_error),
        };
        let can_be_asked_about =
            [header::ETAG, header::LAST_MODIFIED].iter().any(|name| self.reply.headers.contains_key(name));
        let asked_about = if can_be_asked_about { ASKED_ABOUT_FOR } else { Duration::ZERO };
        self.left(settings) + in_place_of_errors.max(asked_about)
    }
}

/// `None` where a header is longer than any that is read.
fn written(page: &Page, life: Duration) -> Option<Vec<u8>> {
    let Reply { status, headers, body, exit: _, beside: _ } = &page.reply;
    let mut out = Vec::with_capacity(body.len() + 1024);
    out.put_u8(VERSION);
    out.put_u16(status.as_u16());
    out.put_u64(millis(page.came.elapsed()));
    out.put_u64(millis(life));
    out.put_u16(u16::try_from(headers.len()).ok()?);
    for (name, value) in headers {
        out.put_u16(u16::try_from(name.as_str().len()).ok()?);
        out.put_slice(name.as_str().as_bytes());
        out.put_u32(u32::try_from(value.len()).ok()?);
        out.put_slice(value.as_bytes());
    }
    out.put_slice(body);
    Some(out)
}

fn read(kept: &KeptBytes) -> Option<Page> {
    let mut rest = kept.content.as_slice();
    if rest.try_get_u8().ok()? != VERSION {
        return None;
    }
    let status = StatusCode::from_u16(rest.try_get_u16().ok()?).ok()?;
    let age = Duration::from_millis(rest.try_get_u64().ok()?);
    let life = Duration::from_millis(rest.try_get_u64().ok()?);
    let mut headers = HeaderMap::new();
    for _ in 0..rest.try_get_u16().ok()? {
        let length = usize::from(rest.try_get_u16().ok()?);
        let name = HeaderName::from_bytes(rest.split_off(..length)?).ok()?;
        let length = usize::try_from(rest.try_get_u32().ok()?).ok()?;
        let value = HeaderValue::from_bytes(rest.split_off(..length)?).ok()?;
        headers.try_append(name, value).ok()?;
    }
    let age = age.checked_add(life.saturating_sub(kept.left))?;
    let reply = Reply::new(status, headers, Bytes::copy_from_slice(rest));
    Some(Page { word: Word::of(&reply.headers), reply, came: Instant::now().checked_sub(age)? })
}

fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn page() -> Page {
        let headers = [("etag", "\"7\""), ("x-a", "1"), ("x-a", "2")];
        let headers = headers.iter().map(|(name, value)| {
            (name.parse::<HeaderName>().unwrap(), value.parse::<HeaderValue>().unwrap())
        });
        Page::new(Reply::new(StatusCode::OK, headers.collect(), Bytes::from_static(b"body")))
    }

    #[tokio::test(start_paused = true)]
    async fn a_page_is_read_as_it_was_written_and_as_old_as_it_is() {
        let page = page();
        tokio::time::advance(3 * SECOND).await;
        let content = written(&page, 60 * SECOND).unwrap();
        let read = read(&KeptBytes { content, left: 50 * SECOND }).unwrap();
        assert_eq!(read.came.elapsed(), 13 * SECOND);
        assert_eq!((read.reply.status, &read.reply.headers), (page.reply.status, &page.reply.headers));
        assert_eq!((read.reply.body, read.word), (page.reply.body, page.word));
    }

    proptest! {
        #[test]
        fn what_is_no_page_is_none(content in prop::collection::vec(any::<u8>(), 0..80), at in 0..60_usize, byte: u8) {
            let kept = |content| read(&KeptBytes { content, left: SECOND }).is_some();
            let mut other = content.clone();
            other.insert(0, VERSION);
            let _ = kept(other);
            prop_assert!(content.first() == Some(&VERSION) || !kept(content));
            let mut changed = written(&page(), SECOND).unwrap();
            let at = at % changed.len();
            changed[at] = byte;
            let _ = kept(changed);
            let mut cut = written(&page(), SECOND).unwrap();
            // The body has no length of its own.
            cut.truncate(at.min(cut.len() - 5));
            prop_assert!(!kept(cut));
        }
    }
}
