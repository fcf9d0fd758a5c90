//! How much may be asked again.

use std::sync::{Mutex, PoisonError};

/// What all calls of one upstream together may ask a second time: a fifth of them, and a few more. An upstream that
/// fails as a whole is not asked three times as much for it.
#[derive(Debug)]
pub(super) struct Budget(Mutex<f64>);

impl Budget {
    /// What each call adds.
    const EARNED: f64 = 0.2;
    /// What is there to begin with, so that the first calls may repeat too.
    const BEGINNING: f64 = 10.0;
    /// What can be saved.
    const MOST: f64 = 100.0;

    pub(super) fn earn(&self) {
        let mut tokens = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        *tokens = (*tokens + Self::EARNED).min(Self::MOST);
    }

    /// Whether there is enough for one more.
    pub(super) fn spend(&self) -> bool {
        let mut tokens = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let enough = *tokens >= 1.0;
        if enough {
            *tokens -= 1.0;
        }
        enough
    }
}

impl Default for Budget {
    fn default() -> Self {
        Self(Mutex::new(Self::BEGINNING))
    }
}
