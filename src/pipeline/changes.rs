//! What changed, told to whoever listens.

use std::sync::Arc;

use tokio::sync::broadcast::{self, error::RecvError};

/// How many changes a listener may be behind. One that is further behind is told [`Heard::Missed`] in their
/// place, so neither a slow listener nor a busy upstream makes anything grow.
const BEHIND_LIMIT: usize = 256;

/// Something that a client may have read before and would read again.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Change {
    /// The list of tools.
    Tools,
    /// The list of prompts.
    Prompts,
    /// The lists of resources and of their templates.
    Resources,
    /// What is read under this URI.
    Resource(Arc<str>),
}

/// What a listener hears.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Heard {
    /// This changed.
    Change(Change),
    /// So much changed that some of it is lost: anything may have changed.
    Missed,
}

/// The place where changes are told. Clones are the same place.
#[derive(Debug, Clone)]
pub struct Changes(broadcast::Sender<Change>);

/// Hears every change from the moment it was made.
#[derive(Debug)]
pub struct Listener(broadcast::Receiver<Change>);

impl Changes {
    /// A place where nothing was told yet.
    pub fn new() -> Self {
        Self(broadcast::Sender::new(BEHIND_LIMIT))
    }

    /// Tells those who listen; without any it is lost, as nobody waits for it.
    pub fn tell(&self, change: Change) {
        let _ = self.0.send(change);
    }

    /// How many listen.
    pub fn listeners(&self) -> usize {
        self.0.receiver_count()
    }

    /// Listens from now on.
    pub fn listen(&self) -> Listener {
        Listener(self.0.subscribe())
    }
}

impl Default for Changes {
    fn default() -> Self {
        Self::new()
    }
}

impl Listener {
    /// Waits for the next change; `None` when there can be none any more. May be dropped while it waits, and
    /// nothing is lost.
    pub async fn next(&mut self) -> Option<Heard> {
        match self.0.recv().await {
            Ok(change) => Some(Heard::Change(change)),
            Err(RecvError::Lagged(_)) => Some(Heard::Missed),
            Err(RecvError::Closed) => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn every_listener_hears_what_was_told_since_it_listens() {
        let changes = Changes::new();
        changes.tell(Change::Prompts);
        let (mut one, mut other) = (changes.listen(), changes.listen());
        changes.tell(Change::Resource("test://a".into()));
        changes.clone().tell(Change::Tools);
        drop(changes);
        for listener in [&mut one, &mut other] {
            assert_eq!(listener.next().await, Some(Heard::Change(Change::Resource("test://a".into()))));
            assert_eq!(listener.next().await, Some(Heard::Change(Change::Tools)));
            assert_eq!(listener.next().await, None);
        }
    }

    #[tokio::test]
    async fn who_is_too_far_behind_is_told_so_and_goes_on() {
        let changes = Changes::new();
        let mut listener = changes.listen();
        for _ in 0..BEHIND_LIMIT * 2 {
            changes.tell(Change::Tools);
        }
        assert_eq!(listener.next().await, Some(Heard::Missed));
        assert_eq!(listener.next().await, Some(Heard::Change(Change::Tools)));
    }
}
