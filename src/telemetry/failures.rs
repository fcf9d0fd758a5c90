//! Ring buffer of the last failed calls, for the admin API.

use std::{
    collections::VecDeque,
    fmt,
    sync::Arc,
    time::{Duration, SystemTime},
};

use parking_lot::Mutex;

use super::RequestId;
use crate::model::floor_char_boundary;

/// Limit of the stored failures; the oldest is dropped first.
pub const FAILURES_LIMIT: usize = 500;

/// Limit of the stored reason of a failure, in bytes.
const REASON_LIMIT_BYTES: usize = 600;

/// A failed call, without its arguments and without the body of the response.
#[derive(Debug, Clone)]
pub struct FailedCall {
    /// The time at which the call ended.
    pub at: SystemTime,
    /// The tool.
    pub tool: Arc<str>,
    /// The upstream.
    pub upstream: Arc<str>,
    /// The API.
    pub api: &'static str,
    /// The request id of the call.
    pub request_id: RequestId,
    /// The outcome: `error`, or `cancelled`.
    pub outcome: &'static str,
    /// The error type; empty if there was none.
    pub error_type: &'static str,
    /// The status of the upstream's response, if there was one.
    pub upstream_status: Option<u16>,
    /// The rule that matched, if there was a response to match.
    pub matched_rule: Option<MatchedRule>,
    /// The error text in the log, if there is one.
    pub reason: Option<Box<str>>,
    /// The duration of the call.
    pub took: Duration,
}

/// The rule that determined the result.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MatchedRule {
    /// A rule of the route, from 0.
    Rule(usize),
    /// No rule of the route: the default rules.
    Default,
}

impl fmt::Display for MatchedRule {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Rule(index) => write!(formatter, "{}", index + 1),
            Self::Default => formatter.write_str("default"),
        }
    }
}

impl From<Option<usize>> for MatchedRule {
    fn from(rule: Option<usize>) -> Self {
        rule.map_or(Self::Default, Self::Rule)
    }
}

/// The last failed calls. Clones share them.
///
/// Only a failed call takes the lock, and only while its entry is added.
#[derive(Debug, Clone, Default)]
pub struct FailedCalls(Arc<Mutex<Ring>>);

#[derive(Debug, Default)]
struct Ring {
    last: VecDeque<FailedCall>,
    all: u64,
}

impl FailedCalls {
    /// Adds a failure.
    pub fn add(&self, mut failure: FailedCall) {
        if let Some(reason) = failure.reason.as_mut().filter(|reason| reason.len() > REASON_LIMIT_BYTES) {
            let end = floor_char_boundary(reason, REASON_LIMIT_BYTES - '…'.len_utf8());
            *reason = format!("{}…", &reason[..end]).into();
        }
        let mut stored = self.0.lock();
        stored.all += 1;
        if stored.last.len() >= FAILURES_LIMIT {
            stored.last.pop_front();
        }
        stored.last.push_back(failure);
    }

    /// The stored failures that match, the newest first and at most `limit`, and the number of all failures
    /// so far.
    pub fn last(&self, limit: usize, is_wanted: impl Fn(&FailedCall) -> bool) -> (Vec<FailedCall>, u64) {
        let stored = self.0.lock();
        let wanted = stored.last.iter().rev().filter(|failure| is_wanted(failure));
        (wanted.take(limit).cloned().collect(), stored.all)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn failure(tool: &str, reason: &str) -> FailedCall {
        FailedCall {
            at: SystemTime::UNIX_EPOCH,
            tool: tool.into(),
            upstream: "old".into(),
            api: "rest",
            request_id: RequestId::next(),
            outcome: "error",
            error_type: "unreadable",
            upstream_status: Some(200),
            matched_rule: Some(MatchedRule::Rule(0)),
            reason: Some(reason.into()),
            took: Duration::ZERO,
        }
    }

    #[test]
    fn the_last_failures_are_stored_and_the_first_evicted() {
        let failures = FailedCalls::default();
        for number in 0..=FAILURES_LIMIT {
            failures.add(failure(&format!("t{number}"), "why"));
        }
        let (last, all) = failures.last(usize::MAX, |_| true);
        assert_eq!((last.len(), all), (FAILURES_LIMIT, FAILURES_LIMIT as u64 + 1));
        assert_eq!((&*last[0].tool, &*last[FAILURES_LIMIT - 1].tool), ("t500", "t1"));
        let (wanted, _) = failures.last(1, |failure| &*failure.tool == "t7");
        assert_eq!(wanted.len(), 1);
    }

    #[test]
    fn a_long_reason_is_cut_between_characters() {
        let failures = FailedCalls::default();
        failures.add(failure("t", &"ü".repeat(REASON_LIMIT_BYTES)));
        let (last, _) = failures.last(1, |_| true);
        let reason = last[0].reason.as_deref().unwrap();
        assert!(reason.len() <= REASON_LIMIT_BYTES && reason.ends_with("ü…"), "{reason}");
    }
}
