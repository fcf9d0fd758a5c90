//! Counts every single attempt by what came of it.

use std::{
    future::Future,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
};

use http::StatusCode;
use tower::Service;

use super::{
    Answers,
    spans::{self, Whereto, traced},
};
use crate::{
    observe::{Span, SpanKind, Words},
    reply::Reply,
    upstream::{Ask, UpstreamError},
};

/// Counts what came of each request that really goes out. One that is dropped, for its time was over or nobody waits any
/// more, counts as `dropped`.
#[derive(Debug, Clone)]
pub struct Measured<S> {
    inner: S,
    to: Arc<Whereto>,
    counted: Words,
}

impl<S> Measured<S> {
    /// Puts the layer round the service that asks.
    pub fn new(inner: S, to: Arc<Whereto>, counted: Words) -> Self {
        Self { inner, to, counted }
    }
}

impl<S: Answers<Future: Unpin>> Service<Ask> for Measured<S> {
    type Response = Reply;
    type Error = UpstreamError;
    type Future = Measuring<S::Future>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), UpstreamError>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, ask: Ask) -> Self::Future {
        let before = ask.ticket.attempt();
        let (ask, span) = match ask.ticket.span() {
            None => (ask, Span::default()),
            Some(call) => traced(call.child(SpanKind::Client, "upstream"), ask, before, &self.to),
        };
        Measuring { attempt: self.inner.call(ask), counted: Some(self.counted.clone()), span }
    }
}

/// One attempt.
#[derive(Debug)]
pub struct Measuring<F> {
    attempt: F,
    span: Span,
    /// Until it is known what came of it.
    counted: Option<Words>,
}

impl<F: Future<Output = Result<Reply, UpstreamError>> + Unpin> Future for Measuring<F> {
    type Output = F::Output;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<F::Output> {
        let outcome = ready!(Pin::new(&mut self.attempt).poll(context));
        if let Some(counted) = self.counted.take() {
            counted.add(match &outcome {
                Ok(reply) => result_word(reply),
                Err(error) => error.as_word(),
            });
        }
        if self.span.is_recorded() {
            spans::ended(&self.span, &outcome);
        }
        Poll::Ready(outcome)
    }
}

impl<F> Drop for Measuring<F> {
    fn drop(&mut self) {
        if let Some(counted) = &self.counted {
            counted.add("dropped");
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
