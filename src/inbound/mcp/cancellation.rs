//! Cancellation of requests of a session by `notifications/cancelled` (MCP, Cancellation).
//!
//! Used for legacy sessions and for stdio. Since MCP 2026-07-28, a client over HTTP cancels its request by
//! closing the connection.

use std::{collections::HashMap, sync::Arc};

use parking_lot::Mutex;
use serde_json::Value;
use tokio::sync::Notify;

use crate::upstream::OnDrop;

/// Maximum length of the id of a request that can be cancelled, in bytes.
const ID_LIMIT_BYTES: usize = 256;

/// A session id, and the JSON id of a request in the session.
type RequestKey = (Box<str>, Box<str>);

/// The requests of sessions that are in flight in this process, so that they can be cancelled. The limits of
/// connections also limit the number of these requests.
#[derive(Debug, Default)]
pub(super) struct InFlightRequests(Mutex<HashMap<RequestKey, Arc<Notify>>>);

impl InFlightRequests {
    /// Adds a request until the guard is dropped. Returns the guard, and the `Notify` that signals the
    /// cancellation. `None` if the id is too long, or already in flight: two requests with one id could not
    /// be distinguished.
    pub(super) fn add(&self, session: &str, id: &str) -> Option<(Arc<Notify>, OnDrop<impl FnOnce()>)> {
        if id.len() > ID_LIMIT_BYTES {
            return None;
        }
        let key: RequestKey = (session.into(), canonical(id).into());
        let cancelled = Arc::new(Notify::new());
        let mut requests = self.0.lock();
        if requests.contains_key(&key) {
            return None;
        }
        requests.insert(key.clone(), Arc::clone(&cancelled));
        Some((cancelled, OnDrop::new(move || drop(self.0.lock().remove(&key)))))
    }

    /// Cancels a request. Returns whether this process has it in flight.
    pub(super) fn cancel(&self, session: &str, id: &str) -> bool {
        let request = self.0.lock().get(&(session.into(), canonical(id).into())).cloned();
        request.inspect(|request| request.notify_one()).is_some()
    }
}

/// Normalizes the JSON of an id, because one value can be written in several ways.
fn canonical(id: &str) -> String {
    serde_json::from_str::<Value>(id).map_or_else(|_| id.to_owned(), |id| id.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_request_is_cancelled_in_its_session_only() {
        let requests = InFlightRequests::default();
        let (mine, other) =
            (requests.add("mine", r#""a""#).unwrap(), requests.add("other", r#""a""#).unwrap());
        assert!(requests.add("mine", r#""\u0061""#).is_none(), "the same id");
        assert!(requests.add("mine", "1").is_some());
        assert!(requests.cancel("mine", r#""\u0061""#));
        mine.0.notified().await;
        drop(mine);
        assert!(!requests.cancel("mine", r#""a""#));
        assert!(requests.add("mine", &format!("{:0300}", 1)).is_none());
        drop(other);
        assert!(requests.0.lock().is_empty());
    }
}
