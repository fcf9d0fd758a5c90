//! What is kept, of all routes together, and never more than a number of bytes.

use std::{
    collections::{BTreeMap, HashMap},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use super::{super::key::Key, Page};

/// What is kept. What was used least lately goes first. Clones are the same one.
#[derive(Debug, Clone)]
pub struct Store(Arc<Mutex<Kept>>);

#[derive(Debug)]
struct Kept {
    limit_bytes: usize,
    bytes: usize,
    pages: HashMap<Arc<Key>, Place>,
    /// Each by when it was used last.
    order: BTreeMap<u64, Arc<Key>>,
    /// Counts uses.
    now: u64,
}

#[derive(Debug)]
struct Place {
    page: Arc<Page>,
    bytes: usize,
    used: u64,
}

/// What one place takes beside its page and its key, about: its share of the two maps.
const PLACE_BYTES: usize = 256;

impl Store {
    /// For the bytes that are kept in all.
    pub const LIMIT_BYTES_DEFAULT: usize = 64 << 20;

    /// An empty one.
    pub fn new(limit_bytes: usize) -> Self {
        let (pages, order) = (HashMap::new(), BTreeMap::new());
        Self(Arc::new(Mutex::new(Kept { limit_bytes, bytes: 0, pages, order, now: 0 })))
    }

    /// Keeps at most so much from now on.
    pub fn set_limit(&self, limit_bytes: usize) {
        let mut kept = self.kept();
        kept.limit_bytes = limit_bytes;
        kept.make_room(0);
    }

    /// How many bytes are kept.
    pub fn bytes(&self) -> usize {
        self.kept().bytes
    }

    /// How many replies are kept.
    pub fn entries(&self) -> usize {
        self.kept().pages.len()
    }

    /// How many bytes may be.
    pub fn limit_bytes(&self) -> usize {
        self.kept().limit_bytes
    }

    pub(super) fn get(&self, key: &Key) -> Option<Arc<Page>> {
        let mut kept = self.kept();
        let Kept { pages, order, now, .. } = &mut *kept;
        let (key, place) = (pages.get_key_value(key)?.0.clone(), pages.get_mut(key)?);
        *now += 1;
        order.remove(&place.used);
        place.used = *now;
        order.insert(*now, key);
        Some(place.page.clone())
    }

    /// Keeps a page in the place of the one that was there. One that is larger than all that may be kept is not.
    pub(super) fn put(&self, key: &Key, page: Arc<Page>) {
        let key = Arc::new(key.compact());
        let bytes = PLACE_BYTES + key.bytes() + page.bytes();
        let mut kept = self.kept();
        kept.remove(&key);
        if bytes > kept.limit_bytes {
            return;
        }
        kept.make_room(bytes);
        kept.now += 1;
        let used = kept.now;
        kept.bytes += bytes;
        kept.order.insert(used, key.clone());
        kept.pages.insert(key, Place { page, bytes, used });
    }

    /// Drops a page, unless another is in its place by now.
    pub(super) fn forget(&self, key: &Key, page: &Arc<Page>) {
        let mut kept = self.kept();
        if kept.pages.get(key).is_some_and(|place| Arc::ptr_eq(&place.page, page)) {
            kept.remove(key);
        }
    }

    fn kept(&self) -> MutexGuard<'_, Kept> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Kept {
    fn remove(&mut self, key: &Key) {
        if let Some(place) = self.pages.remove(key) {
            self.order.remove(&place.used);
            self.bytes -= place.bytes;
        }
    }

    fn make_room(&mut self, bytes: usize) {
        while self.bytes + bytes > self.limit_bytes {
            let Some((_, oldest)) = self.order.pop_first() else { return };
            self.remove(&oldest);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::policy::{
        key::Whom,
        mock::{ask, status},
    };

    fn key(whom: Whom, path: &str) -> Arc<Key> {
        let mut ask = ask(Duration::from_secs(1));
        let crate::route::UpstreamRequest::Http(request) = &mut ask.request else { panic!("it is by HTTP") };
        request.path_and_query = path.parse().unwrap();
        Arc::new(Key::of(whom, &ask))
    }

    fn page(bytes: usize) -> Arc<Page> {
        let mut reply = status(200).unwrap();
        reply.body = vec![0; bytes].into();
        Arc::new(Page::new(reply))
    }

    #[tokio::test]
    async fn what_was_used_least_lately_goes_first_and_there_is_never_too_much() {
        let (store, whom) = (Store::new(10_000), Whom::new());
        let [a, b, c, d] = ["/a", "/b", "/c", "/d"].map(|path| key(whom, path));
        for key in [&a, &b, &c] {
            store.put(key, page(2_000));
        }
        assert!(store.get(&a).is_some());
        store.put(&d, page(2_000));
        assert!(store.bytes() <= 10_000);
        assert_eq!([&a, &b, &c, &d].map(|key| store.get(key).is_some()), [true, false, true, true]);
        store.put(&a, page(20_000));
        assert!(store.get(&a).is_none(), "it is too large, and what was there is old");
        store.set_limit(0);
        assert_eq!(store.bytes(), 0);
        assert!(store.kept().order.is_empty() && store.kept().pages.is_empty());
    }

    #[tokio::test]
    async fn a_page_is_forgotten_and_another_in_its_place_is_not() {
        let (store, whom) = (Store::new(10_000), Whom::new());
        let (key, first, second) = (key(whom, "/a"), page(1), page(2));
        store.put(&key, first.clone());
        store.put(&key, second.clone());
        store.forget(&key, &first);
        assert!(store.get(&key).is_some());
        store.forget(&key, &second);
        assert!(store.get(&key).is_none());
        assert_eq!(store.bytes(), 0);
    }

    #[test]
    fn another_upstream_of_the_same_name_is_another_one() {
        assert_ne!(key(Whom::new(), "/a"), key(Whom::new(), "/a"));
    }
}
