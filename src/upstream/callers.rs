//! How many of something each caller has, of what they have together.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use super::Caller;

/// What each caller may have a part of. Clones count together.
#[derive(Debug, Clone)]
pub struct CallerParts {
    limit: usize,
    /// Of those that have any.
    had: Arc<Mutex<HashMap<Caller, usize>>>,
}

/// One of what a caller has, given back when it is dropped.
#[derive(Debug)]
pub struct CallerPart {
    parts: CallerParts,
    caller: Caller,
}

impl CallerParts {
    /// So many for each.
    pub fn of(limit: usize) -> Self {
        Self { limit, had: Arc::default() }
    }

    /// Another one of a caller. Who is the only one has no others to leave room for.
    ///
    /// # Errors
    ///
    /// When the caller has as many as it may: how many that are.
    pub fn take(&self, caller: &Caller) -> Result<Option<CallerPart>, usize> {
        if matches!(caller, Caller::Only) {
            return Ok(None);
        }
        let mut had = self.had();
        let count = had.entry(caller.clone()).or_default();
        if *count >= self.limit {
            return Err(self.limit);
        }
        *count += 1;
        Ok(Some(CallerPart { parts: self.clone(), caller: caller.clone() }))
    }

    fn had(&self) -> MutexGuard<'_, HashMap<Caller, usize>> {
        self.had.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for CallerPart {
    fn drop(&mut self) {
        let mut had = self.parts.had();
        if let Some(count) = had.get_mut(&self.caller) {
            *count -= 1;
            if *count == 0 {
                had.remove(&self.caller);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_has_its_part_and_who_has_none_is_forgotten() {
        let parts = CallerParts::of(1);
        let (one, other) = (Caller::at([10, 0, 0, 1].into()), Caller::at([10, 0, 0, 2].into()));
        let first = parts.take(&one).unwrap();
        assert_eq!(parts.take(&one).map(drop), Err(1));
        let others = parts.take(&other).unwrap();
        assert!(parts.take(&Caller::Only).unwrap().is_none());
        drop((first, others));
        assert!(parts.had().is_empty());
        assert!(parts.take(&one).is_ok());
    }
}
