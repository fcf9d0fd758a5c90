//! The streams on which clients wait for changes: how many there are, and which of a session's is spoken on.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use tokio::sync::oneshot;

/// How many streams one session may have open; the oldest ends for another. Clients have one, and for a while two
/// when a connection broke that nobody has noticed yet.
const SESSION_LIMIT: usize = 4;

/// All open streams of this process.
#[derive(Debug)]
pub(super) struct Streams {
    limit: usize,
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
}

/// Ready when a stream has to make room for another, or its session is over.
pub(super) type Closed = oneshot::Receiver<()>;

impl Streams {
    /// Room for so many.
    pub(super) fn new(limit: usize) -> Arc<Self> {
        Arc::new(Self { limit, open: Mutex::default() })
    }

    /// A place for a stream that belongs to no session. `None` when all are taken.
    pub(super) fn place(self: &Arc<Self>) -> Option<Place> {
        let number = self.open().enter(self.limit)?;
        Some(Place { session: None, number, streams: Arc::clone(self) })
    }

    /// A place for a stream of a session.
    pub(super) fn place_of(self: &Arc<Self>, session: &str) -> Option<(Place, Closed)> {
        let mut open = self.open();
        let number = open.enter(self.limit)?;
        let session: Arc<str> = session.into();
        let (end, closed) = oneshot::channel();
        let members = open.of_sessions.entry(Arc::clone(&session)).or_default();
        if members.len() >= SESSION_LIMIT {
            members.remove(0);
        }
        members.push(Member { number, _end: end });
        Some((Place { session: Some(session), number, streams: Arc::clone(self) }, closed))
    }

    /// Ends all streams of a session.
    pub(super) fn end_of(&self, session: &str) {
        self.open().of_sessions.remove(session);
    }

    fn open(&self) -> MutexGuard<'_, Open> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Open {
    fn enter(&mut self, limit: usize) -> Option<u64> {
        if self.count >= limit {
            return None;
        }
        self.count += 1;
        self.begun += 1;
        Some(self.begun)
    }
}

impl Place {
    /// Whether messages for the session go out here: on its newest stream, and on no other (MCP 2025-11-25, Transports,
    /// "Multiple Connections").
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
        let streams = Streams::new(2);
        let one = streams.place().unwrap();
        let other = streams.place_of("session").unwrap();
        assert!(streams.place().is_none() && streams.place_of("session").is_none());
        drop(other);
        assert!(streams.open().of_sessions.is_empty());
        let _again = streams.place().unwrap();
        drop(one);
        assert!(streams.place().is_some());
    }

    #[test]
    fn the_newest_stream_of_a_session_is_spoken_on() {
        let streams = Streams::new(10);
        let (first, mut first_closed) = streams.place_of("a").unwrap();
        let (second, _keep) = streams.place_of("a").unwrap();
        let (another, mut another_closed) = streams.place_of("b").unwrap();
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
        let streams = Streams::new(10);
        let mut all: Vec<_> = (0..=SESSION_LIMIT).map(|_| streams.place_of("a").unwrap()).collect();
        let closed: Vec<bool> = all.iter_mut().map(|(_, closed)| is_closed(closed)).collect();
        assert_eq!(closed.iter().filter(|closed| **closed).count(), 1);
        assert!(closed[0]);
    }
}
