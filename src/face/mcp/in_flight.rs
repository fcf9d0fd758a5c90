//! Requests in flight by session and id, so that another message can end them (`notifications/cancelled` of the older
//! era; over HTTP it comes by a POST of its own).

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use tokio::sync::Notify;

/// How long an id may be that a request can be cancelled by, in bytes.
const ID_LIMIT_BYTES: usize = 256;

/// A session, and the id of a request in it as JSON.
type Key = (Box<str>, Box<str>);

/// The requests of sessions that are being answered by this process. As many as there are connections at most.
#[derive(Debug, Default)]
pub(super) struct InFlight(Mutex<HashMap<Key, Arc<Notify>>>);

/// One of them; it leaves when this is dropped.
#[derive(Debug)]
pub(super) struct Flight<'a> {
    all: &'a InFlight,
    key: Key,
    ended: Arc<Notify>,
}

impl InFlight {
    /// Notes a request. `None` where one of that id is in flight already: nobody could tell them apart.
    pub(super) fn enter(&self, session: &str, id: &str) -> Option<Flight<'_>> {
        if id.len() > ID_LIMIT_BYTES {
            return None;
        }
        let key: Key = (session.into(), canonical(id).into());
        let ended = Arc::new(Notify::new());
        let mut requests = self.requests();
        if requests.contains_key(&key) {
            return None;
        }
        requests.insert(key.clone(), Arc::clone(&ended));
        Some(Flight { all: self, key, ended })
    }

    /// Ends a request that nobody waits for any more; whether it was in flight here.
    pub(super) fn cancel(&self, session: &str, id: &str) -> bool {
        let request = self.requests().get(&(session.into(), canonical(id).into())).cloned();
        request.inspect(|request| request.notify_one()).is_some()
    }

    fn requests(&self) -> MutexGuard<'_, HashMap<Key, Arc<Notify>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Flight<'_> {
    /// Waits until the request is cancelled.
    pub(super) async fn cancelled(&self) {
        self.ended.notified().await;
    }
}

impl Drop for Flight<'_> {
    fn drop(&mut self) {
        self.all.requests().remove(&self.key);
    }
}

/// Two writings of one id are the same id.
fn canonical(id: &str) -> String {
    serde_json::from_str::<serde_json::Value>(id).map_or_else(|_| id.to_owned(), |id| id.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_request_is_cancelled_in_its_session_only() {
        let all = InFlight::default();
        let (mine, other) = (all.enter("mine", r#""a""#).unwrap(), all.enter("other", r#""a""#).unwrap());
        assert!(all.enter("mine", r#""\u0061""#).is_none(), "the same id");
        assert!(all.enter("mine", "1").is_some());
        assert!(all.cancel("mine", r#""\u0061""#));
        mine.cancelled().await;
        drop(mine);
        assert!(!all.cancel("mine", r#""a""#));
        assert!(all.enter("mine", &format!("{:0300}", 1)).is_none());
        drop(other);
        assert!(all.requests().is_empty());
    }
}
