//! What every replica should know of a session of the older era: what it wants to hear of, and that it has ended.
//!
//! Where replicas share no store, each knows what it was told itself.

use std::time::Duration;

use super::{Mcp, protocol::Protocol, subscribed::SUBSCRIPTION_LIMIT};
use crate::{
    gateway::WatchError,
    route::LogLevel,
    shared_state::{Message, SharedStore},
};

/// How long subscriptions are kept after the last one of their session.
const SUBSCRIPTION_LIFE: Duration = Duration::from_secs(7 * 24 * 3600);

impl Protocol {
    /// Notes that a session wants to hear of a resource, wherever it listens.
    ///
    /// # Errors
    ///
    /// [`WatchError`] when it can't be told of it.
    pub(super) async fn subscribe(&self, session: &str, uri: &str) -> Result<(), WatchError> {
        self.subscribed.add(&self.gateway, session, uri)?;
        let Some(shared) = self.gateway.shared() else { return Ok(()) };
        match save(shared, session, uri).await {
            // Not known to the others: they are told when the store is back.
            None => Ok(()),
            Some(true) => {
                self.subscribed.known(session, uri);
                shared.tell(&Message::Subscribed { session: session.into() });
                Ok(())
            }
            Some(false) => {
                self.subscribed.remove(session, uri);
                Err(WatchError::Enough)
            }
        }
    }

    /// Notes that it does not any more.
    pub(super) async fn unsubscribe(&self, session: &str, uri: &str) {
        self.subscribed.remove(session, uri);
        if let Some(shared) = self.gateway.shared()
            && shared.drop_member(&group(shared, session), uri.as_bytes()).await.is_ok()
        {
            shared.tell(&Message::Subscribed { session: session.into() });
        }
    }

    /// Reads what a session has subscribed to at other replicas.
    pub(super) async fn read_subscriptions(&self, session: &str) {
        let Some(shared) = self.gateway.shared() else { return };
        if let Ok(members) = shared.members(&group(shared, session)).await {
            let uris: Vec<String> =
                members.into_iter().filter_map(|member| String::from_utf8(member).ok()).collect();
            self.subscribed.replace(&self.gateway, session, &uris);
        }
    }

    /// Notes from which level on a session wants to be told log lines, by whichever replica it calls.
    pub(super) fn set_level(&self, session: &str, level: LogLevel) {
        self.levels.set(session, level);
        if let Some(shared) = self.gateway.shared() {
            shared.tell(&Message::Level { session: session.into(), level: level.as_str().into() });
        }
    }

    /// Forgets a session that its client has ended.
    pub(super) fn forget(&self, session: &str) {
        self.streams.end_of(session);
        self.resumables.end_of(session);
        self.subscribed.end(session);
    }

    /// Tells the other replicas that a session was ended here.
    pub(super) fn tell_ended(&self, session: &str) {
        if let Some(shared) = self.gateway.shared() {
            shared.remove(&group(shared, session));
            shared.tell(&Message::Ended { session: session.into() });
        }
    }
}

impl Mcp {
    /// A session wants to hear of other resources than before, said another replica.
    pub async fn hear_subscribed(&self, session: &str) {
        if self.protocol.subscribed.listens(session) {
            self.protocol.read_subscriptions(session).await;
        }
    }

    /// A session wants to be told log lines from this level on, said another replica.
    pub fn hear_level(&self, session: &str, level: &str) {
        // One that is none here may be one of another version.
        if let Ok(level) = level.parse() {
            self.protocol.levels.set(session, level);
        }
    }

    /// A session was ended at another replica.
    pub fn hear_ended(&self, session: &str) {
        // It may be ended here as well, or have expired meanwhile.
        if self.protocol.sessions.end_as_told(session) {
            self.protocol.forget(session);
        }
    }

    /// The store can be reached again: tells the others what only this replica knows, and hears what they do.
    pub async fn catch_up(&self) {
        let Some(shared) = self.protocol.gateway.shared() else { return };
        for (session, uri) in self.protocol.subscribed.unknown() {
            if save(shared, &session, &uri).await == Some(true) {
                self.protocol.subscribed.known(&session, &uri);
                shared.tell(&Message::Subscribed { session });
            }
        }
        for session in self.protocol.subscribed.listening() {
            self.protocol.read_subscriptions(&session).await;
        }
    }
}

/// Whether there was room for it; `None` where the store can't be reached.
async fn save(shared: &SharedStore, session: &str, uri: &str) -> Option<bool> {
    let group = group(shared, session);
    shared.add(&group, uri.as_bytes(), SUBSCRIPTION_LIMIT, SUBSCRIPTION_LIFE).await.ok()
}

fn group(shared: &SharedStore, session: &str) -> String {
    shared.name("subscriptions", &[session.as_bytes()])
}
