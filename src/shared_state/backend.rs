//! What can be done with a store.

use std::{future::Future, pin::Pin, time::Duration};

use bytes::Bytes;

use super::link::LinkState;

/// One thing to do, in one step.
#[derive(Debug)]
pub(super) enum Operation<'a> {
    /// Moves the point of a limit ahead by `gap`, unless it is ahead by more than `slack` already (see `policy`).
    Take { name: &'a str, gap: Duration, slack: Duration },
    /// Reads a value of at most so many bytes.
    Get { name: &'a str, limit_bytes: usize },
    /// Adds a member to a group, unless there are `limit` others, and keeps the group for a time from now on.
    Add { group: &'a str, member: &'a str, value: &'a [u8], limit: usize, life: Duration },
    /// Removes a member.
    Drop { group: &'a str, member: &'a str },
    /// The values of all members.
    All { group: &'a str },
}

/// One thing to do for which nobody waits. What is posted first is done first.
#[derive(Debug)]
pub(super) enum Posting<'a> {
    /// Writes a value, for a time.
    Put { name: &'a str, value: &'a [u8], life: Duration },
    /// Removes one.
    Remove { name: &'a str },
    /// Tells all replicas something.
    Tell { message: &'a [u8] },
}

/// What came of it.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    /// It is done.
    Done,
    /// Of a limit: how long there is nothing left; zero where there was, and it is taken.
    Wait(Duration),
    /// The value, where there is one, and for how much longer it is there.
    Value(Option<(Bytes, Duration)>),
    /// Whether there was room.
    Added(bool),
    /// The values.
    Values(Vec<Bytes>),
}

/// Why nothing came of it.
#[derive(Debug, thiserror::Error)]
pub(super) enum Failure {
    /// There is no connection, and nothing was tried.
    #[error("there is no connection")]
    NoConnection,
    /// The connection ended.
    #[error("the connection ended")]
    CutOff,
    /// No answer in time.
    #[error("there was no answer within {after:?}")]
    TooLate { after: Duration },
    /// It said no.
    #[error("it answered `{0}`")]
    Refused(String),
    /// It said something else than what it was asked.
    #[error("it answered something else than it was asked")]
    Strange,
}

/// What is being done.
pub(super) type Doing<'a> = Pin<Box<dyn Future<Output = Result<Outcome, Failure>> + Send + 'a>>;

/// Does operations.
pub(super) trait Backend: Send + Sync {
    fn run<'a>(&'a self, operation: Operation<'a>) -> Doing<'a>;

    /// Sends it now; the future says what came of it.
    fn post(&self, posting: Posting<'_>) -> Doing<'static>;

    /// Whether it can be reached, as far as is known.
    fn state(&self) -> LinkState;
}
