//! Counts every single attempt by what came of it.

use std::sync::Arc;

use http::StatusCode;

use super::spans::{self, Whereto, traced};
use crate::{
    observe::{Span, SpanKind, Words},
    reply::Reply,
    upstream::{Answers, Ask, UpstreamError},
};

/// Counts what came of each request that really goes out. One that is dropped, for its time was over or nobody waits any
/// more, counts as `dropped`.
#[derive(Debug)]
pub struct Measured<S> {
    inner: S,
    to: Arc<Whereto>,
    counted: Words,
}

impl<S> Measured<S> {
    /// Puts the layer round what asks.
    pub fn new(inner: S, to: Arc<Whereto>, counted: Words) -> Self {
        Self { inner, to, counted }
    }
}

impl<S: Answers> Answers for Measured<S> {
    async fn answer(&self, ask: &Ask) -> Result<Reply, UpstreamError> {
        let before = ask.ticket.attempt();
        let Some(call) = ask.ticket.span() else {
            let mut attempt = Attempted { counted: &self.counted, span: Span::default(), is_over: false };
            return attempt.over(self.inner.answer(ask).await);
        };
        let (ask, span) = traced(call.child(SpanKind::Client, "upstream"), ask.clone(), before, &self.to);
        let mut attempt = Attempted { counted: &self.counted, span, is_over: false };
        attempt.over(Box::pin(self.inner.answer(&ask)).await)
    }
}

/// One attempt, and what is told of it.
struct Attempted<'a> {
    counted: &'a Words,
    span: Span,
    is_over: bool,
}

impl Attempted<'_> {
    fn over(&mut self, outcome: Result<Reply, UpstreamError>) -> Result<Reply, UpstreamError> {
        self.is_over = true;
        self.counted.add(match &outcome {
            Ok(reply) => result_word(reply),
            Err(error) => error.as_word(),
        });
        if self.span.is_recorded() {
            spans::ended(&self.span, &outcome);
        }
        outcome
    }
}

impl Drop for Attempted<'_> {
    fn drop(&mut self) {
        if !self.is_over {
            self.counted.add("dropped");
            self.span.failed("dropped");
        }
    }
}

/// What came of a request, in a word: `2xx`, or `exit_success`.
pub fn result_word(reply: &Reply) -> &'static str {
    match &reply.exit {
        None => status_word(reply.status),
        Some(exit) if exit.end.is_success() => "exit_success",
        Some(_) => "exit_failure",
    }
}

/// The first digit of a status.
pub(super) fn status_word(status: StatusCode) -> &'static str {
    match status.as_u16() / 100 {
        1 => "1xx",
        2 => "2xx",
        3 => "3xx",
        4 => "4xx",
        _ => "5xx",
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::policy::mock::{Inside, answering_after, ask, call};

    #[tokio::test(start_paused = true)]
    async fn an_attempt_counts_once_and_one_that_is_dropped_as_that() {
        let counted = Words::default();
        let inner = answering_after(Duration::from_secs(2), &Inside::default());
        let service = Measured::new(inner, Arc::default(), counted.clone());
        call(&service, ask(Duration::from_secs(9))).await.unwrap();
        let late = call(&service, ask(Duration::from_secs(9)));
        tokio::time::timeout(Duration::from_secs(1), late).await.unwrap_err();
        assert_eq!(counted.read().collect::<Vec<_>>(), [("2xx", 1), ("dropped", 1)]);
    }
}
