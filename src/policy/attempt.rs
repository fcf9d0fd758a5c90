//! Ends an attempt that takes too long, so that there is time for another.

use std::time::Duration;

use tokio::time::timeout;

use super::Count;
use crate::{
    reply::Reply,
    route::UpstreamName,
    upstream::{Answers, Ask, Due, UpstreamError},
};

/// Gives each attempt a time of its own, within that of the call.
#[derive(Debug)]
pub struct Attempt<S> {
    inner: S,
    upstream: UpstreamName,
    after: Duration,
    late: Count,
}

impl<S> Attempt<S> {
    /// Puts the layer round what asks `upstream`; `late` counts the attempts that are ended.
    pub fn new(inner: S, upstream: UpstreamName, after: Duration, late: Count) -> Self {
        Self { inner, upstream, after, late }
    }
}

impl<S: Answers> Answers for Attempt<S> {
    async fn answer(&self, ask: &Ask) -> Result<Reply, UpstreamError> {
        // Who is given up then shall know that it was for this.
        let due = Due::after(self.after);
        let sooner = (due.at < ask.due.at).then(|| Ask { due, ..ask.clone() });
        let reply = timeout(self.after, self.inner.answer(sooner.as_ref().unwrap_or(ask)));
        reply.await.unwrap_or_else(|_| {
            self.late.add();
            Err(UpstreamError::AttemptDeadline { upstream: self.upstream.clone(), after: self.after })
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::mock::{Inside, answering_after, ask, call, name};

    const SECOND: Duration = Duration::from_secs(1);

    #[tokio::test(start_paused = true)]
    async fn an_attempt_ends_before_its_call_does() {
        let inside = Inside::default();
        let late = Count::default();
        let service = Attempt::new(answering_after(3 * SECOND, &inside), name(), SECOND, late.clone());
        let error = call(&service, ask(10 * SECOND)).await.unwrap_err();
        assert!(matches!(error, UpstreamError::AttemptDeadline { after: SECOND, .. }), "{error}");
        assert_eq!((inside.count(), late.get()), (0, 1));
    }
}
