//! Work budget of a translation: its steps are counted, and it can be cancelled.

use std::sync::{
    Arc,
    atomic::{AtomicBool, AtomicU64, Ordering},
};

use super::read_error::Why;

/// Ends a translation when it is cancelled, or after a number of steps: between two matches of a pattern, two
/// rounds of a filter, or before a check whose cost is known. Those are the only work whose time may grow
/// faster than the reply. What comes of it then is an error that nobody reads. Clones are the same one.
#[derive(Debug, Clone, Default)]
pub struct WorkBudget(Arc<State>);

#[derive(Debug, Default)]
struct State {
    asked: AtomicBool,
    steps_left: Option<AtomicU64>,
}

/// What an extractor or a filter says of itself then.
pub(crate) const STOPPED: &str = "the call had ended before its reply was read";

impl WorkBudget {
    /// How many steps of a check against a schema are as long as one of a rule.
    pub const CHECK_STEPS: u64 = 10;

    /// How many steps the templates of a prompt, a question or a line may take together, which are written where other calls
    /// are served: about ten milliseconds. What they look up counts, so it is 6.4 MB; a client may send 4 MiB.
    pub const TEXT_STEPS: u64 = 100_000;

    /// One that asks by itself after so many steps: whoever began the work does it again elsewhere, from the beginning.
    pub fn after(steps: u64) -> Self {
        Self(Arc::new(State { asked: AtomicBool::new(false), steps_left: Some(AtomicU64::new(steps)) }))
    }

    /// Cancels the translation.
    pub fn cancel(&self) {
        self.0.asked.store(true, Ordering::Relaxed);
    }

    /// Whether it is used up or cancelled. Each check is a step.
    pub(crate) fn is_exhausted(&self) -> bool {
        !self.allows(1)
    }

    /// Whether so many steps may be taken. They count as taken; where they may not, nothing may be done any more.
    pub(crate) fn allows(&self, steps: u64) -> bool {
        if let Some(steps_left) = &self.0.steps_left {
            // One thread counts: the work is done where it was begun.
            match steps_left.load(Ordering::Relaxed).checked_sub(steps) {
                Some(left) => steps_left.store(left, Ordering::Relaxed),
                None => self.cancel(),
            }
        }
        !self.0.asked.load(Ordering::Relaxed)
    }

    /// Rejects a search through so many bytes if it needs more steps than are left.
    pub(crate) fn check_search(stop: Option<&Self>, bytes: usize) -> Result<(), Why> {
        let may_search = stop.is_none_or(|stop| stop.allows(Self::of_search(bytes)));
        if may_search { Ok(()) } else { Err(STOPPED.into()) }
    }

    /// How many steps a search through so many bytes takes.
    pub(crate) fn of_search(bytes: usize) -> u64 {
        const STEP_BYTES: u64 = 256;
        1 + bytes as u64 / STEP_BYTES
    }

    /// How many steps may be taken; `None` where they are not counted.
    pub(crate) fn steps_left(&self) -> Option<u64> {
        self.0.steps_left.as_ref().map(|left| left.load(Ordering::Relaxed))
    }

    /// Whether it asked by itself, as there were more steps to take than it allows.
    pub fn has_run_out(&self) -> bool {
        self.0.steps_left.is_some() && self.0.asked.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_are_counted_where_they_are_limited() {
        let stop = WorkBudget::default();
        assert!(stop.allows(u64::MAX) && !stop.is_exhausted() && !stop.has_run_out());
        stop.cancel();
        assert!(stop.is_exhausted() && !stop.has_run_out());

        let stop = WorkBudget::after(10);
        assert!(stop.allows(9) && !stop.is_exhausted() && !stop.has_run_out(), "ten");
        assert!(stop.is_exhausted() && stop.has_run_out(), "eleven");

        let stop = WorkBudget::after(10);
        assert!(!stop.allows(11) && stop.has_run_out());
        assert!(stop.is_exhausted(), "nothing is done any more");
    }
}
