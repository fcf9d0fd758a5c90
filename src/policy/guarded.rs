//! An upstream with whatever guards it has.

use std::{fmt, future::Future, pin::Pin, sync::Arc};

use tower::util::Either;

use crate::{
    boxed::boxed,
    reply::Reply,
    upstream::{Answers, Ask, UpstreamError},
};

/// The reply to an [`Ask`], or why there is none, once it is known.
pub type PendingReply<'a> = Pin<Box<dyn Future<Output = Result<Reply, UpstreamError>> + Send + 'a>>;

/// An upstream with its guards. Clones are the same one.
#[derive(Clone)]
pub struct Guarded {
    answers: Arc<dyn AnyAnswers>,
    keeps: bool,
}

/// [`Answers`] of any kind.
trait AnyAnswers: Send + Sync {
    fn answer<'a>(&'a self, ask: &'a Ask) -> PendingReply<'a>;
}

impl<A: Answers> AnyAnswers for A {
    fn answer<'a>(&'a self, ask: &'a Ask) -> PendingReply<'a> {
        boxed(|| Answers::answer(self, ask))
    }
}

impl Guarded {
    /// Whatever answers.
    pub fn new(answers: impl Answers + 'static) -> Self {
        Self { answers: Arc::new(answers), keeps: false }
    }

    /// The same, which may give replies that were kept.
    #[must_use]
    pub(super) fn keeping(self, keeps: bool) -> Self {
        Self { keeps, ..self }
    }

    /// Whether it may.
    pub fn keeps(&self) -> bool {
        self.keeps
    }

    /// Gives the whole reply. Dropping the future ends what was asked for.
    pub fn answer<'a>(&'a self, ask: &'a Ask) -> PendingReply<'a> {
        self.answers.answer(ask)
    }
}

impl fmt::Debug for Guarded {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Guarded").finish_non_exhaustive()
    }
}

/// A guard that is on, or what is within it.
impl<A: Answers, B: Answers> Answers for Either<A, B> {
    async fn answer(&self, ask: &Ask) -> Result<Reply, UpstreamError> {
        match self {
            // Calls without such a guard have no room for what it remembers of theirs.
            Self::Left(guard) => boxed(|| guard.answer(ask)).await,
            Self::Right(within) => within.answer(ask).await,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::time::timeout;

    use super::*;
    use crate::policy::mock::{Inside, Slow, answering_after, ask};

    #[tokio::test(start_paused = true)]
    async fn a_guard_that_is_on_or_off_lets_go_of_a_call_that_is_dropped() {
        let (on, off) = (Inside::default(), Inside::default());
        let slow = |inside| answering_after(Duration::from_secs(9), inside);
        for (either, inside) in
            [(Either::<Slow, Slow>::Left(slow(&on)), &on), (Either::Right(slow(&off)), &off)]
        {
            let guarded = Guarded::new(either);
            let ask = ask(Duration::from_secs(20));
            timeout(Duration::from_secs(1), guarded.answer(&ask)).await.unwrap_err();
            assert_eq!(inside.count(), 0);
            assert!(guarded.answer(&ask).await.is_ok());
        }
    }
}
