//! The end of a translation that nobody waits for any more.

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

/// Ends a translation from outside, between two matches of a pattern or two rounds of a filter: the only work whose
/// time may grow faster than the reply. What comes of it then is an error that nobody reads. Clones are the same one.
#[derive(Debug, Clone, Default)]
pub struct Stop(Arc<AtomicBool>);

/// What an extractor or a filter says of itself then.
pub(crate) const STOPPED: &str = "the call had ended before its reply was read";

impl Stop {
    /// Asks the translation to end.
    pub fn now(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    /// Whether it has been asked to.
    pub(crate) fn is_asked(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}
