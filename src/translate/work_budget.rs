//! Work budget of a translation: it counts steps, and it can be cancelled.

use std::sync::{
    Arc,
    atomic::{AtomicBool, AtomicU64, Ordering},
};

use super::read_error::ReadError;

/// Step counter and cancellation flag of a translation. Clones share one budget.
///
/// A step is counted between two matches of a pattern, between two iterations of a filter, and before a check
/// whose cost is known. No other work takes time that grows faster than the response. A stopped translation
/// returns an error that no client receives.
#[derive(Debug, Clone, Default)]
pub struct WorkBudget(Arc<State>);

#[derive(Debug, Default)]
struct State {
    cancelled: AtomicBool,
    steps_left: Option<AtomicU64>,
}

/// Error of an extractor or a filter whose work budget was cancelled or used up.
pub(crate) const STOPPED: &str = "the call ended before its response was processed";

impl WorkBudget {
    /// Number of steps of a schema check that take as long as one step of a rule; they count as one.
    pub const CHECK_STEPS: u64 = 10;

    /// Maximum number of steps for all templates of a prompt, an input request or a message together, about
    /// 10 ms. These templates are rendered on threads that serve other calls. Reading 64 bytes counts as a
    /// step, so the templates may read 6.4 MB: more than the 4 MiB that a client may send.
    pub const TEXT_STEPS: u64 = 100_000;

    /// Creates a budget that cancels itself after this many steps. The caller can then repeat the work on
    /// another thread.
    pub fn with_steps(steps: u64) -> Self {
        Self(Arc::new(State { cancelled: AtomicBool::new(false), steps_left: Some(AtomicU64::new(steps)) }))
    }

    /// Cancels the translation.
    pub fn cancel(&self) {
        self.0.cancelled.store(true, Ordering::Relaxed);
    }

    /// Spends this many steps, and returns whether the work may continue.
    pub(crate) fn spend(&self, steps: u64) -> bool {
        if let Some(steps_left) = &self.0.steps_left {
            // Separate loads and stores suffice, because only the thread that does the work spends steps.
            match steps_left.load(Ordering::Relaxed).checked_sub(steps) {
                Some(left) => steps_left.store(left, Ordering::Relaxed),
                None => self.cancel(),
            }
        }
        !self.0.cancelled.load(Ordering::Relaxed)
    }

    /// Spends the steps of a search through `bytes` bytes. Fails if fewer steps are left, or after
    /// cancellation.
    pub(crate) fn check_search(budget: Option<&Self>, bytes: usize) -> Result<(), ReadError> {
        let may_search = budget.is_none_or(|budget| budget.spend(Self::steps_of_search(bytes)));
        if may_search { Ok(()) } else { Err(STOPPED.into()) }
    }

    /// Number of steps of a search through this many bytes.
    pub(crate) fn steps_of_search(bytes: usize) -> u64 {
        const STEP_BYTES: u64 = 256;
        1 + bytes as u64 / STEP_BYTES
    }

    /// Number of steps left; `None` if they are not counted.
    pub(crate) fn steps_left(&self) -> Option<u64> {
        self.0.steps_left.as_ref().map(|left| left.load(Ordering::Relaxed))
    }

    /// Whether a budget with a limit of steps is used up or cancelled.
    pub fn is_used_up(&self) -> bool {
        self.0.steps_left.is_some() && self.0.cancelled.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_are_counted_where_they_are_limited() {
        let budget = WorkBudget::default();
        assert!(budget.spend(u64::MAX) && budget.spend(1) && !budget.is_used_up());
        budget.cancel();
        assert!(!budget.spend(1) && !budget.is_used_up());

        let budget = WorkBudget::with_steps(10);
        assert!(budget.spend(9) && budget.spend(1) && !budget.is_used_up(), "ten");
        assert!(!budget.spend(1) && budget.is_used_up(), "eleven");

        let budget = WorkBudget::with_steps(10);
        assert!(!budget.spend(11) && budget.is_used_up());
        assert!(!budget.spend(1), "nothing is done any more");
    }
}
