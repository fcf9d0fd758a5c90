//! Ends an attempt that takes too long, so that there is time for another.

use std::{
    task::{Context, Poll},
    time::Duration,
};

use tower::Service;

use super::{Answers, Count};
use crate::{
    reply::Reply,
    route::UpstreamName,
    upstream::{Ask, Due, PendingReply, UpstreamError},
};

/// Gives each attempt a time of its own, within that of the call.
#[derive(Debug, Clone)]
pub struct Attempt<S> {
    inner: S,
    upstream: UpstreamName,
    after: Duration,
    late: Count,
}

impl<S> Attempt<S> {
    /// Puts the layer round a service that asks `upstream`; `late` counts the attempts that are ended.
    pub fn new(inner: S, upstream: UpstreamName, after: Duration, late: Count) -> Self {
        Self { inner, upstream, after, late }
    }
}

impl<S: Answers> Service<Ask> for Attempt<S> {
    type Response = Reply;
    type Error = UpstreamError;
    type Future = PendingReply;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), UpstreamError>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, mut ask: Ask) -> Self::Future {
        let (upstream, after, late) = (self.upstream.clone(), self.after, self.late.clone());
        // Who is given up then shall know that it was for this.
        let due = Due::after(after);
        if due.at < ask.due.at {
            ask.due = due;
        }
        let reply = tokio::time::timeout(after, self.inner.call(ask));
        Box::pin(async move {
            reply.await.unwrap_or_else(|_| {
                late.add();
                Err(UpstreamError::AttemptDeadline { upstream, after })
            })
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
