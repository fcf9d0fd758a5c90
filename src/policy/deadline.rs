//! Ends a call that takes too long.

use std::task::{Context, Poll};

use tower::Service;

use super::{Answers, Count};
use crate::{
    reply::Reply,
    route::UpstreamName,
    upstream::{Ask, PendingReply, UpstreamError},
};

/// Gives each call the time that its [`Ask`] says, then drops it, which closes the upstream connection.
#[derive(Debug, Clone)]
pub struct Deadline<S> {
    inner: S,
    upstream: UpstreamName,
    late: Count,
}

impl<S> Deadline<S> {
    /// Puts the layer round a service that asks `upstream`; `late` counts the calls that are ended.
    pub fn new(inner: S, upstream: UpstreamName, late: Count) -> Self {
        Self { inner, upstream, late }
    }
}

impl<S: Answers> Service<Ask> for Deadline<S> {
    type Response = Reply;
    type Error = UpstreamError;
    type Future = PendingReply;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), UpstreamError>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, ask: Ask) -> Self::Future {
        let (due, upstream, late) = (ask.due, self.upstream.clone(), self.late.clone());
        let reply = tokio::time::timeout_at(due.at, self.inner.call(ask));
        Box::pin(async move {
            match reply.await {
                Ok(reply) => reply,
                Err(_) => {
                    late.add();
                    Err(UpstreamError::Deadline { upstream, after: due.after })
                }
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::policy::mock::{Inside, answering_after, ask, call, name};

    const SECOND: Duration = Duration::from_secs(1);

    #[tokio::test(start_paused = true)]
    async fn a_call_within_its_deadline_is_left_alone() {
        let service = Deadline::new(answering_after(SECOND, &Inside::default()), name(), Count::default());
        call(&service, ask(2 * SECOND)).await.unwrap();
    }

    #[tokio::test(start_paused = true)]
    async fn a_call_past_its_deadline_is_dropped() {
        let inside = Inside::default();
        let late = Count::default();
        let service = Deadline::new(answering_after(3 * SECOND, &inside), name(), late.clone());
        let error = call(&service, ask(2 * SECOND)).await.unwrap_err();
        assert!(matches!(error, UpstreamError::Deadline { after, .. } if after == 2 * SECOND), "{error}");
        assert_eq!(late.get(), 1);
        assert_eq!(inside.count(), 0, "the call went on behind its caller's back");
    }
}
