//! Tasks and futures that may end early: a spawned task whose result any number of callers can await, and
//! the action of a future that is dropped.

use tokio::{sync::watch, task::AbortHandle};

/// Task that continues even if nothing awaits its result. Clones refer to the same task.
#[derive(Debug, Clone)]
pub(crate) struct SharedTask<T> {
    result: watch::Receiver<Option<T>>,
    task: AbortHandle,
}

impl<T: Clone + Send + Sync + 'static> SharedTask<T> {
    /// Starts a task.
    pub(crate) fn spawn(work: impl Future<Output = T> + Send + 'static) -> Self {
        let (sender, result) = watch::channel(None);
        let task = tokio::spawn(async move {
            sender.send_replace(Some(work.await));
        });
        Self { result, task: task.abort_handle() }
    }

    /// Whether the result is pending. A task that panicked has no result.
    pub(crate) fn is_running(&self) -> bool {
        self.result.has_changed().is_ok() && self.result.borrow().is_none()
    }

    /// Waits for the result. `None` if the task panicked or the process ends.
    pub(crate) async fn result(&self) -> Option<T> {
        let mut result = self.result.clone();
        result.wait_for(Option::is_some).await.ok().and_then(|result| result.clone())
    }

    /// Cancels the task.
    pub(crate) fn abort(&self) {
        self.task.abort();
    }
}

/// Action that runs on drop, such as when the future that holds it is cancelled.
pub(crate) struct OnDrop<F: FnOnce()>(Option<F>);

impl<F: FnOnce()> OnDrop<F> {
    /// Sets the action.
    pub(crate) fn new(action: F) -> Self {
        Self(Some(action))
    }

    /// Drops the action without running it.
    pub(crate) fn disarm(mut self) {
        self.0 = None;
    }
}

impl<F: FnOnce()> Drop for OnDrop<F> {
    fn drop(&mut self) {
        if let Some(action) = self.0.take() {
            action();
        }
    }
}
