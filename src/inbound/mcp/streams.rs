//! The streams on which clients wait for changes: how many there are, and which of a session's is spoken on.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use tokio::sync::oneshot;

use super::refusal::Refusal;
use crate::upstream::{Caller, CallerPart, CallerParts};

/// How many streams one session may have open; the oldest ends for another. Clients have one, and for a while
/// two when a connection broke that nobody has noticed yet.
const SESSION_LIMIT: usize = 4;

/// All open streams of this process.
#[derive(Debug)]
pub(super) struct Streams {
    limit: usize,
    /// How many of each caller, where that has a limit.
    callers: Option<CallerParts>,
    open: Mutex<Open>,
}

#[derive(Debug, Default)]
struct Open {
    count: usize,
    /// How many there have ever been.
    begun: u64,
    /// Of each session by its id, the oldest first.
    of_sessions: HashMap<Arc<str>, Vec<Member>>,
}

#[derive(Debug)]
struct Member {
    number: u64,
    /// Its stream ends when this is dropped.
    _end: oneshot::Sender<()>,
}

/// A place for one stream, given back when it is dropped.
#[derive(Debug)]
pub(super) struct Place {
    session: Option<Arc<str>>,
    number: u64,
    streams: Arc<Streams>,
    _of_caller: Option<CallerPart>,
}

/// Ready when a stream has to make room for another, or its session is over.
pub(super) type Closed = oneshot::Receiver<()>;

impl Streams {
    /// Room for so many, and for so many of one caller.
    pub(super) fn new(limit: usize, caller_limit: Option<usize>) -> Arc<Self> {
        Arc::new(Self { limit, callers: caller_limit.map(CallerParts::of), open: Mutex::default() })
    }

    /// A place for a stream that belongs to no session.
    ///
    /// # Errors
    ///
    /// When all are taken, or as many as a caller may have.
    pub(super) fn place(self: &Arc<Self>, caller: &Caller) -> Result<Place, Refusal> {
        self.enter(&mut self.open(), caller, None)
    }

    fn enter(
        self: &Arc<Self>,
        open: &mut Open,
        caller: &Caller,
        session: Option<Arc<str>>,
    ) -> Result<Place, Refusal> {
        if open.count >= self.limit {
            return Err(Refusal::TooManyStreams);
        }
        let of_caller = self.callers.as_ref().map(|callers| callers.take(caller)).transpose();
        let of_caller = of_caller.map_err(|limit| Refusal::TooManyStreamsOfCaller { limit })?.flatten();
        open.count += 1;
        open.begun += 1;
        Ok(Place { session, number: open.begun, streams: Arc::clone(self), _of_caller: of_caller })
    }

    /// A place for a stream of a session.
    ///
    /// # Errors
    ///
    /// As for one of none.
    pub(super) fn place_of(
        self: &Arc<Self>,
        session: &str,
        caller: &Caller,
    ) -> Result<(Place, Closed), Refusal> {
        let mut open = self.open();
        let session: Arc<str> = session.into();
        let place = self.enter(&mut open, caller, Some(Arc::clone(&session)))?;
        let (end, closed) = oneshot::channel();
        let members = open.of_sessions.entry(session).or_default();
        if members.len() >= SESSION_LIMIT {
            members.remove(0);
        }
        members.push(Member { number: place.number, _end: end });
        Ok((place, closed))
    }

    /// Ends all streams of a session.
    pub(super) fn end_of(&self, session: &str) {
        self.open().of_sessions.remove(session);
    }

    fn open(&self) -> MutexGuard<'_, Open> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Place {
    /// Whether messages for the session go out here: on its newest stream, and on no other (MCP 2025-11-25,
    /// Transports, "Multiple Connections").
    pub(super) fn is_spoken_on(&self) -> bool {
        let Some(session) = &self.session else { return true };
        let open = self.streams.open();
        let newest = open.of_sessions.get(session).and_then(|members| members.last());
        newest.is_some_and(|newest| newest.number == self.number)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut open = self.streams.open();
        open.count -= 1;
        let Some(session) = &self.session else { return };
        if let Some(members) = open.of_sessions.get_mut(session) {
            members.retain(|member| member.number != self.number);
            if members.is_empty() {
                open.of_sessions.remove(session);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_closed(closed: &mut Closed) -> bool {
        closed.try_recv() == Err(oneshot::error::TryRecvError::Closed)
    }

    #[test]
    fn there_are_so_many_places_and_each_comes_back() {
        let streams = Streams::new(2, None);
        let one = streams.place(&Caller::Only).unwrap();
        let other = streams.place_of("session", &Caller::Only).unwrap();
        assert!(streams.place(&Caller::Only).is_err() && streams.place_of("session", &Caller::Only).is_err());
        drop(other);
        assert!(streams.open().of_sessions.is_empty());
        let _again = streams.place(&Caller::Only).unwrap();
        drop(one);
        assert!(streams.place(&Caller::Only).is_ok());
    }

    #[test]
    fn the_newest_stream_of_a_session_is_spoken_on() {
        let streams = Streams::new(10, None);
        let (first, mut first_closed) = streams.place_of("a", &Caller::Only).unwrap();
        let (second, _keep) = streams.place_of("a", &Caller::Only).unwrap();
        let (another, mut another_closed) = streams.place_of("b", &Caller::Only).unwrap();
        assert!(!first.is_spoken_on() && second.is_spoken_on() && another.is_spoken_on());
        assert!(!is_closed(&mut first_closed), "it may go on listening");
        drop(second);
        assert!(first.is_spoken_on());
        streams.end_of("a");
        assert!(is_closed(&mut first_closed) && !is_closed(&mut another_closed));
        assert!(!first.is_spoken_on() && another.is_spoken_on());
    }

    #[test]
    fn a_session_that_opens_many_loses_its_oldest() {
        let streams = Streams::new(10, None);
        let mut all: Vec<_> =
            (0..=SESSION_LIMIT).map(|_| streams.place_of("a", &Caller::Only).unwrap()).collect();
        let closed: Vec<bool> = all.iter_mut().map(|(_, closed)| is_closed(closed)).collect();
        assert_eq!(closed.iter().filter(|closed| **closed).count(), 1);
        assert!(closed[0]);
    }

    #[test]
    fn one_caller_has_its_part_of_them() {
        let streams = Streams::new(9, Some(2));
        let (one, other) = (Caller::at([10, 0, 0, 1].into()), Caller::at([10, 0, 0, 2].into()));
        let first = streams.place(&one).unwrap();
        let _second = streams.place_of("session", &one).unwrap();
        for refused in [streams.place(&one).map(drop), streams.place_of("another", &one).map(drop)] {
            assert!(matches!(refused, Err(Refusal::TooManyStreamsOfCaller { limit: 2 })));
        }
        let _others = streams.place(&other).unwrap();
        drop(first);
        let _again = streams.place(&one).unwrap();
    }
}
