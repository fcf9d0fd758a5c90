//! Ends a call that takes too long.

use tokio::time::timeout_at;

use super::Count;
use crate::{
    reply::Reply,
    route::UpstreamName,
    upstream::{Answers, Ask, UpstreamError},
};

/// Gives each call the time that its [`Ask`] says, then drops it, which closes the upstream connection.
#[derive(Debug)]
pub struct Deadline<S> {
    inner: S,
    upstream: UpstreamName,
    late: Count,
}

impl<S> Deadline<S> {
    /// Puts the layer round what asks `upstream`; `late` counts the calls that are ended.
    pub fn new(inner: S, upstream: UpstreamName, late: Count) -> Self {
        Self { inner, upstream, late }
    }
}

impl<S: Answers> Answers for Deadline<S> {
    async fn answer(&self, ask: &Ask) -> Result<Reply, UpstreamError> {
        match timeout_at(ask.due.at, self.inner.answer(ask)).await {
            Ok(reply) => reply,
            Err(_) => {
                self.late.add();
                Err(UpstreamError::Deadline { upstream: self.upstream.clone(), after: ask.due.after })
            }
        }
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
