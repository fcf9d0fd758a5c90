//! Wakes whoever waits for a connection now.

use std::{
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    task::{Wake, Waker},
};

/// What a connection wakes, as long as it is there: for one call after another, and for none in between.
///
/// The parts of a connection wake each other, too, while it moves on. A call that moves it itself need not be woken for
/// that: it looks at [`wait_for`](Bell::wait_for) whether there is more to be done.
#[derive(Debug)]
pub(super) struct Bell {
    hung: Arc<Hung>,
    /// The same, as the connection knows it.
    waker: Waker,
}

#[derive(Debug, Default)]
struct Hung(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    waiting: Option<Waker>,
    has_rung: bool,
}

impl Bell {
    pub(super) fn new() -> Self {
        let hung = Arc::<Hung>::default();
        Self { waker: hung.clone().into(), hung }
    }

    pub(super) fn waker(&self) -> &Waker {
        &self.waker
    }

    /// From now on nobody is woken.
    pub(super) fn hush(&self) {
        *self.hung.state() = State::default();
    }

    /// From now on this one is woken, unless there was a reason to since it was [hushed](Bell::hush): then says so.
    pub(super) fn wait_for(&self, waker: &Waker) -> bool {
        let mut state = self.hung.state();
        if !state.has_rung {
            state.waiting = Some(waker.clone());
        }
        state.has_rung
    }
}

impl Hung {
    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Wake for Hung {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        let mut state = self.state();
        state.has_rung = true;
        let waiting = state.waiting.take();
        drop(state);
        if let Some(waiting) = waiting {
            waiting.wake();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};

    use super::*;

    #[derive(Default)]
    struct Woken(AtomicU32);

    impl Wake for Woken {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    #[test]
    fn who_waits_is_woken_once_and_who_does_not_wait_yet_is_told() {
        let (bell, woken) = (Bell::new(), Arc::<Woken>::default());
        let waker = Waker::from(woken.clone());
        let times = || woken.0.load(Ordering::Relaxed);
        bell.hush();
        bell.waker().wake_by_ref();
        assert_eq!((bell.wait_for(&waker), times()), (true, 0));
        bell.hush();
        assert!(!bell.wait_for(&waker));
        bell.waker().wake_by_ref();
        bell.waker().wake_by_ref();
        assert_eq!(times(), 1);
        bell.hush();
        assert!(!bell.wait_for(&waker));
        bell.hush();
        bell.waker().wake_by_ref();
        assert_eq!(times(), 1, "nobody waits any more");
    }
}
