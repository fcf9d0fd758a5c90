//! Which log lines the sessions of the older era want (`logging/setLevel`).
//!
//! An id of a session is sealed and can't be written to, so what its client says later is kept by the replica that heard
//! it, and by those that it tells (`others`). Another replica tells that client no lines, which it must bear with anyway.

use std::{
    collections::{HashMap, VecDeque},
    sync::{Mutex, PoisonError},
};

use crate::route::LogLevel;

/// How many sessions' levels are kept; the oldest makes room for a new one.
const LIMIT: usize = 10_000;

/// How much of an id tells it from every other: its salt.
const KEY_LENGTH: usize = 32;

/// The levels of sessions.
#[derive(Debug, Default)]
pub(super) struct Levels(Mutex<Kept>);

#[derive(Debug, Default)]
struct Kept {
    levels: HashMap<Box<str>, LogLevel>,
    /// The keys, the oldest first.
    order: VecDeque<Box<str>>,
}

impl Levels {
    /// Keeps what the client of a session wants.
    pub(super) fn set(&self, session: &str, level: LogLevel) {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let key = key(session);
        if kept.levels.insert(key.into(), level).is_none() {
            kept.order.push_back(key.into());
        }
        while kept.order.len() > LIMIT {
            if let Some(oldest) = kept.order.pop_front() {
                kept.levels.remove(&oldest);
            }
        }
    }

    /// What it wants, as far as was heard here.
    pub(super) fn of(&self, session: &str) -> Option<LogLevel> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).levels.get(key(session)).copied()
    }
}

fn key(session: &str) -> &str {
    session.get(..KEY_LENGTH).unwrap_or(session)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_session_makes_room() {
        let levels = Levels::default();
        levels.set("first", LogLevel::Debug);
        levels.set("first", LogLevel::Error);
        assert_eq!(levels.of("first"), Some(LogLevel::Error));
        for number in 0..LIMIT {
            levels.set(&format!("session {number}"), LogLevel::Info);
        }
        assert_eq!((levels.of("first"), levels.of("session 0")), (None, Some(LogLevel::Info)));
    }
}
