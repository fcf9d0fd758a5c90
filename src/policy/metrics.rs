//! How often each guard did something, for whoever measures.

use std::{
    collections::HashMap,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use super::{RouteGuards, Store};
use crate::{observe::Words, route::UpstreamName, tool::ToolName};

/// A number that only grows. Clones are the same one.
#[derive(Debug, Clone, Default)]
pub struct Count(Arc<AtomicU64>);

impl Count {
    pub(super) fn add(&self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }

    /// Until now.
    pub fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// What all guards did that calls go through now.
#[derive(Debug, Clone, Default)]
pub struct PolicyCounts {
    /// Those of each upstream.
    pub upstreams: HashMap<UpstreamName, UpstreamCounts>,
    /// Those of each route.
    pub routes: HashMap<ToolName, RouteGuards>,
    /// What is kept of replies; nothing where nobody can keep any.
    pub store: Option<Store>,
}

/// What the guards of one upstream did. Clones are the same numbers.
#[derive(Debug, Clone, Default)]
pub struct UpstreamCounts {
    /// Calls that took longer than they may.
    pub late: Count,
    /// Attempts that did.
    pub attempts_late: Count,
    /// Attempts after the first of a call.
    pub again: Count,
    /// How often it was found to do nothing but fail.
    pub opened: Count,
    /// Calls that were turned away for that.
    pub rested: Count,
    /// Calls that found no place.
    pub busy: Count,
    /// Requests over what it may be asked.
    pub too_often: Count,
    /// Calls over what one caller may ask of it.
    pub caller_too_often: Count,
    /// What came of every single attempt: `2xx`, or a word for what went wrong.
    pub attempts: Words,
    /// What came of requests that were handed through, in the same words.
    pub handed_through: Words,
}

/// What the guards of one route did. Clones are the same numbers.
#[derive(Debug, Clone, Default)]
pub struct RouteCounts {
    /// Calls over what all may make.
    pub too_often: Count,
    /// Calls over what one caller may make.
    pub caller_too_often: Count,
    /// Calls that got a kept reply.
    pub kept: Count,
    /// Those of them whose reply another replica kept.
    pub kept_by_others: Count,
    /// Calls that found none, or one that was too old.
    pub fetched: Count,
    /// Kept replies that had become old, and were still good.
    pub still_good: Count,
    /// Kept replies that were given though they were old, in place of an error.
    pub old: Count,
    /// Calls that got the reply to the request of another.
    pub joined: Count,
    /// How often its circuit breaker has opened.
    pub opened: Count,
    /// Calls that it rejected.
    pub rested: Count,
    /// Requests that were sent once more for being slow.
    pub hedged: Count,
    /// Those of them that were answered first.
    pub hedges_won: Count,
}
