//! An answer that is on its way to all who wait for it.

use std::future::Future;

use tokio::{sync::watch, task::AbortHandle};

/// One question, asked once for whoever wants its answer; it goes on when nobody waits any more. Clones are of the same.
#[derive(Debug, Clone)]
pub(crate) struct Coming<T> {
    answer: watch::Receiver<Option<T>>,
    task: AbortHandle,
}

impl<T: Clone + Send + Sync + 'static> Coming<T> {
    /// Asks it.
    pub(crate) fn of(question: impl Future<Output = T> + Send + 'static) -> Self {
        let (teller, answer) = watch::channel(None);
        let task = tokio::spawn(async move {
            teller.send_replace(Some(question.await));
        });
        Self { answer, task: task.abort_handle() }
    }

    /// Whether its answer is still to come. One that panicked brings none.
    pub(crate) fn is_under_way(&self) -> bool {
        self.answer.has_changed().is_ok() && self.answer.borrow().is_none()
    }

    /// Its answer; `None` when it ended without one: it panicked, or the process ends.
    pub(crate) async fn answer(&self) -> Option<T> {
        let mut answer = self.answer.clone();
        answer.wait_for(Option::is_some).await.ok().and_then(|answer| answer.clone())
    }

    /// Ends it: nobody wants its answer.
    pub(crate) fn abort(&self) {
        self.task.abort();
    }
}
