//! Counts every single attempt by what came of it.

use http::StatusCode;

use super::spans::{self, Whereto, traced};
use crate::{
    observe::{Span, SpanKind, Words},
    reply::Reply,
    upstream::{Ask, UpstreamError},
};

/// A request that really goes out: counts what came of it, and tells of it where there are traces. One that is dropped,
/// for its time was over or nobody waits any more, counts as `dropped`.
pub(super) struct Attempt<'a> {
    counted: &'a Words,
    span: Span,
    is_over: bool,
}

impl<'a> Attempt<'a> {
    /// Begins one; where it has a place of its own in a trace, gives what is to be sent in the place of `ask`.
    pub(super) fn begin(counted: &'a Words, ask: &Ask, to: &Whereto) -> (Self, Option<Ask>) {
        let before = ask.ticket.attempt();
        let Some(call) = ask.ticket.span() else {
            return (Self { counted, span: Span::default(), is_over: false }, None);
        };
        let (ask, span) = traced(call.child(SpanKind::Client, "upstream"), ask.clone(), before, to);
        (Self { counted, span, is_over: false }, Some(ask))
    }

    /// Ends it with what came of it.
    pub(super) fn end(mut self, outcome: Result<Reply, UpstreamError>) -> Result<Reply, UpstreamError> {
        self.is_over = true;
        self.counted.add(match &outcome {
            Ok(reply) => result_word(reply),
            Err(error) => error.facts().label,
        });
        if self.span.is_recorded() {
            spans::ended(&self.span, &outcome);
        }
        outcome
    }
}

impl Drop for Attempt<'_> {
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
    use crate::policy::mock::{Inside, answering_after, ask};

    #[tokio::test(start_paused = true)]
    async fn an_attempt_counts_once_and_one_that_is_dropped_as_that() {
        let counted = Words::default();
        let upstream = answering_after(Duration::from_secs(2), &Inside::default());
        let one = async || {
            let ask = ask(Duration::from_secs(9));
            let (attempt, _) = Attempt::begin(&counted, &ask, &Whereto::default());
            attempt.end(upstream.answer(&ask).await)
        };
        one().await.unwrap();
        tokio::time::timeout(Duration::from_secs(1), one()).await.unwrap_err();
        assert_eq!(counted.read().collect::<Vec<_>>(), [("2xx", 1), ("dropped", 1)]);
    }
}
