//! Which addresses were asked for one call.

use std::sync::{Mutex, MutexGuard, PoisonError};

/// Addresses that a request was sent to. The attempts of one call share it, those that go on at the same time
/// too.
#[derive(Debug, Default)]
pub struct Tried(Mutex<Vec<u64>>);

impl Tried {
    /// Whether one of them is this.
    pub fn has(&self, id: u64) -> bool {
        self.list().contains(&id)
    }

    /// One more.
    pub fn add(&self, id: u64) {
        let mut list = self.list();
        if !list.contains(&id) {
            list.push(id);
        }
    }

    fn list(&self) -> MutexGuard<'_, Vec<u64>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
