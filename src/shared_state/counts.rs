//! What is asked of the store, and what comes of it.

use std::sync::atomic::{AtomicU64, Ordering};

/// What was asked of the store.
#[derive(Debug, Default)]
pub struct StoreCounts {
    pub(super) asked: AtomicU64,
    pub(super) failed: AtomicU64,
    pub(super) not_written: AtomicU64,
    pub(super) foreign: AtomicU64,
}

impl StoreCounts {
    /// Operations that were tried.
    pub fn asked(&self) -> u64 {
        self.asked.load(Ordering::Relaxed)
    }

    /// Operations without a good answer in time, and those that were not tried as there was no connection.
    pub fn failed(&self) -> u64 {
        self.failed.load(Ordering::Relaxed)
    }

    /// What was not written: it was too long, or too much was being written.
    pub fn not_written(&self) -> u64 {
        self.not_written.load(Ordering::Relaxed)
    }

    /// Values that were not written by a replica with our secret, or were changed since.
    pub fn foreign(&self) -> u64 {
        self.foreign.load(Ordering::Relaxed)
    }
}
