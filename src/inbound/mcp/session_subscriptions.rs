//! Legacy sessions: their streams, the resources that they subscribe to, and their log levels.
//!
//! A session gets notifications on its stream, which may be open at another replica than the replica that
//! received `resources/subscribe`. With shared state, the subscriptions are stored in it, and each replica
//! reads them again when another replica has changed them. Without shared state, or while it is unreachable,
//! a replica knows only the subscriptions that it received itself. Resources are polled only for sessions
//! that have a stream.
//!
//! Log levels (`logging/setLevel`) are stored in the replica that got the request, and in the replicas that
//! it notifies. Other replicas send no log messages to the session.

use std::{
    collections::{BTreeMap, HashMap},
    sync::Arc,
    time::Duration,
};

use parking_lot::Mutex;
use tokio::sync::Notify;
use tracing::{debug, warn};

use super::{McpEndpoint, MessageDispatcher};
use crate::pipeline::{Gateway, ResourceWatch, WatchError};
use crate::route::McpLogLevel;
use crate::shared_state::{ReplicaMessage, SharedStore};
use crate::telemetry::Untrusted;

/// Maximum number of sessions with a stream, subscriptions or a log level. Beyond it, the oldest session
/// without a stream is removed, if there is one.
const SESSION_LIMIT: usize = 10_000;

/// Maximum number of open streams of one session. The oldest stream is closed for a new one. A client has one
/// stream, and two for a while if a lost connection has not been noticed yet.
const STREAM_LIMIT: usize = 4;

/// Maximum number of subscriptions of one session.
pub(super) const SUBSCRIPTION_LIMIT: usize = 100;

/// Maximum length of all subscribed URIs of one session together, in bytes.
const SUBSCRIBED_LIMIT_BYTES: usize = 32 << 10;

/// The subscriptions and log levels of all sessions.
#[derive(Debug, Default)]
pub(super) struct SessionSubscriptions(Mutex<SubscribedSessions>);

#[derive(Debug, Default)]
struct SubscribedSessions {
    by_id: HashMap<Box<str>, SubscribedSession>,
    /// Number of accesses to sessions so far, from which a new session gets its sequence number.
    access_count: u64,
}

#[derive(Debug, Default)]
struct SubscribedSession {
    /// Sequence number of the session, in the order of creation.
    number: u64,
    /// Whether the session began when the session limit was reached and every session had a stream. Such a
    /// session gets no notifications about resources.
    is_over_limit: bool,
    /// The streams of the session at this replica, oldest first.
    streams: Vec<Arc<Notify>>,
    /// The resources that the session has subscribed to.
    resources: BTreeMap<Arc<str>, SubscribedResource>,
    /// The log level that the client has set.
    level: Option<McpLogLevel>,
}

/// A resource that a session subscribes to.
#[derive(Debug)]
struct SubscribedResource {
    /// The watch of the resource, while the session has a stream at this replica.
    watch: Option<ResourceWatch>,
    /// Whether the subscription is in the shared state.
    is_stored: bool,
}

/// A stream of a session, until it is dropped.
#[derive(Debug)]
#[must_use]
pub(super) struct SessionStream {
    session: Box<str>,
    /// Notified when the stream must be closed: a newer stream replaces it, or its session has ended.
    pub(super) closing: Arc<Notify>,
    subscribed: Arc<SessionSubscriptions>,
}

impl SessionSubscriptions {
    /// Adds a subscription.
    ///
    /// # Errors
    ///
    /// [`WatchError`] if the resource can't be watched, or a limit is reached.
    pub(super) fn add(&self, gateway: &Gateway, session: &str, uri: &str) -> Result<(), WatchError> {
        // Checked first, so that an invalid subscription creates no entry for the session.
        gateway.can_watch(uri)?;
        self.0.lock().session(session).add(gateway, uri, false)
    }

    /// Marks a subscription as stored in the shared state.
    pub(super) fn mark_stored(&self, session: &str, uri: &str) {
        let mut sessions = self.0.lock();
        let resource = sessions.by_id.get_mut(session).and_then(|entry| entry.resources.get_mut(uri));
        if let Some(resource) = resource {
            resource.is_stored = true;
        }
    }

    /// Replaces the subscriptions of a session with `uris`, the subscriptions in the shared state.
    /// Subscriptions that are not yet stored there remain.
    pub(super) fn replace(&self, gateway: &Gateway, session: &str, uris: &[String]) {
        let mut sessions = self.0.lock();
        let Some(entry) = sessions.by_id.get_mut(session) else { return };
        entry
            .resources
            .retain(|uri, resource| !resource.is_stored || uris.iter().any(|other| **other == **uri));
        for uri in uris.iter().take(SUBSCRIPTION_LIMIT) {
            // A URI that is unknown at this replica may belong to another configuration.
            let _ = entry.add(gateway, uri, true);
        }
    }

    /// Stores the log level that a client has set for its session.
    pub(super) fn set_level(&self, session: &str, level: McpLogLevel) {
        self.0.lock().session(session).level = Some(level);
    }

    /// The log level of a session, if this replica has stored it.
    pub(super) fn level(&self, session: &str) -> Option<McpLogLevel> {
        self.0.lock().by_id.get(session)?.level
    }

    /// The sessions that have an open stream at this replica.
    pub(super) fn listening(&self) -> Vec<Box<str>> {
        let sessions = self.0.lock();
        let listening = sessions.by_id.iter().filter(|(_, session)| session.has_stream());
        listening.map(|(id, _)| id.clone()).collect()
    }

    /// The subscriptions that are not stored in the shared state yet, each with its session.
    pub(super) fn unstored(&self) -> Vec<(Box<str>, Arc<str>)> {
        let mut unstored = Vec::new();
        for (id, session) in &self.0.lock().by_id {
            let uris = session.resources.iter().filter(|(_, resource)| !resource.is_stored);
            unstored.extend(uris.map(|(uri, _)| (id.clone(), uri.clone())));
        }
        unstored
    }

    /// Removes a subscription, and the entry of the session if nothing else needs it.
    pub(super) fn remove(&self, session: &str, uri: &str) {
        let mut sessions = self.0.lock();
        let Some(entry) = sessions.by_id.get_mut(session) else { return };
        entry.resources.remove(uri);
        sessions.remove_if_idle(session);
    }

    /// Removes a session that has ended, and closes its streams.
    pub(super) fn remove_session(&self, session: &str) {
        let ended = self.0.lock().by_id.remove(session);
        ended.iter().flat_map(|session| &session.streams).for_each(|stream| stream.notify_one());
    }

    /// Adds a stream to a session. The resources of the session are watched from now on.
    pub(super) fn listen(self: &Arc<Self>, gateway: &Gateway, session: &str) -> SessionStream {
        let closing = Arc::new(Notify::new());
        let mut sessions = self.0.lock();
        let entry = sessions.session(session);
        if entry.streams.len() >= STREAM_LIMIT {
            entry.streams.remove(0).notify_one();
        }
        entry.streams.push(Arc::clone(&closing));
        for (uri, resource) in entry.resources.iter_mut().filter(|(_, resource)| resource.watch.is_none()) {
            match gateway.watch(uri) {
                Ok(watch) => resource.watch = Some(watch),
                Err(error) => {
                    // The URI may contain arguments of a client, so it is logged at `debug` only.
                    warn!(%error, "resource watch failed; its subscribers get no updates");
                    debug!(uri = %Untrusted(uri), "URI of the resource that is not watched");
                }
            }
        }
        SessionStream { session: session.into(), closing, subscribed: Arc::clone(self) }
    }
}

impl SubscribedSession {
    /// Whether the session has a stream at this replica.
    fn has_stream(&self) -> bool {
        !self.streams.is_empty()
    }

    /// Adds a subscription. `is_stored`: whether it is stored in the shared state.
    fn add(&mut self, gateway: &Gateway, uri: &str, is_stored: bool) -> Result<(), WatchError> {
        gateway.can_watch(uri)?;
        if self.resources.contains_key(uri) {
            return Ok(());
        }
        let bytes: usize = self.resources.keys().map(|uri| uri.len()).sum();
        if self.is_over_limit {
            return Err(WatchError::TooManySessions);
        }
        if self.resources.len() >= SUBSCRIPTION_LIMIT || bytes + uri.len() > SUBSCRIBED_LIMIT_BYTES {
            return Err(WatchError::SessionLimit);
        }
        let watch = if self.has_stream() { Some(gateway.watch(uri)?) } else { None };
        self.resources.insert(uri.into(), SubscribedResource { watch, is_stored });
        Ok(())
    }
}

impl SubscribedSessions {
    /// Returns the entry of a session, and adds it if it is new. A session with an open stream is not
    /// removed, because the number of streams has its own limit.
    fn session(&mut self, id: &str) -> &mut SubscribedSession {
        if !self.by_id.contains_key(id) && self.by_id.len() >= SESSION_LIMIT {
            let idle = self.by_id.iter().filter(|(_, session)| !session.has_stream());
            let oldest = idle.min_by_key(|(_, session)| session.number).map(|(id, _)| id.clone());
            oldest.map(|oldest| self.by_id.remove(&oldest));
        }
        self.access_count += 1;
        let (number, is_over_limit) = (self.access_count, self.by_id.len() >= SESSION_LIMIT);
        let new_session = || SubscribedSession { number, is_over_limit, ..SubscribedSession::default() };
        self.by_id.entry(id.into()).or_insert_with(new_session)
    }

    fn remove_if_idle(&mut self, id: &str) {
        let is_idle = |session: &SubscribedSession| {
            !session.has_stream() && session.resources.is_empty() && session.level.is_none()
        };
        if self.by_id.get(id).is_some_and(is_idle) {
            self.by_id.remove(id);
        }
    }
}

impl SessionStream {
    /// Reads a property of the session; the default if the session has ended.
    fn read<T: Default>(&self, property: impl FnOnce(&SubscribedSession) -> T) -> T {
        self.subscribed.0.lock().by_id.get(&self.session).map(property).unwrap_or_default()
    }

    /// The resources that the session subscribes to and that `is_wanted` accepts.
    pub(super) fn resources(&self, is_wanted: impl Fn(&&Arc<str>) -> bool) -> Vec<Arc<str>> {
        self.read(|session| session.resources.keys().filter(is_wanted).cloned().collect())
    }

    /// Whether this stream is the newest of its session.
    pub(super) fn is_newest(&self) -> bool {
        let is_this = |newest: &Arc<Notify>| Arc::ptr_eq(newest, &self.closing);
        self.read(|session| session.streams.last().is_some_and(is_this))
    }
}

impl Drop for SessionStream {
    fn drop(&mut self) {
        let mut sessions = self.subscribed.0.lock();
        let Some(entry) = sessions.by_id.get_mut(&self.session) else { return };
        entry.streams.retain(|stream| !Arc::ptr_eq(stream, &self.closing));
        if !entry.has_stream() {
            entry.resources.values_mut().for_each(|resource| resource.watch = None);
        }
        sessions.remove_if_idle(&self.session);
    }
}

/// Lifetime of the subscriptions of a session in the shared state.
const SUBSCRIPTION_TTL: Duration = Duration::from_secs(7 * 24 * 3600);

impl MessageDispatcher {
    /// Adds a subscription to a session, for the streams of the session at any replica.
    ///
    /// # Errors
    ///
    /// [`WatchError`] if the resource can't be watched, or a limit is reached.
    pub(super) async fn subscribe(&self, session: &str, uri: &str) -> Result<(), WatchError> {
        self.subscribed.add(&self.gateway, session, uri)?;
        match self.store(session, uri).await {
            Some(false) => {
                self.subscribed.remove(session, uri);
                Err(WatchError::SessionLimit)
            }
            // If the store does not respond, the subscription is not stored yet: `catch_up` stores it later.
            Some(true) | None => Ok(()),
        }
    }

    /// Stores a subscription in the shared state. Returns whether the limit allows it; `None` if there is no
    /// shared state, or if it is unreachable.
    async fn store(&self, session: &str, uri: &str) -> Option<bool> {
        let shared = self.gateway.shared.as_ref()?;
        let key = subscriptions_key(shared, session);
        let is_added = shared.add(&key, uri.as_bytes(), SUBSCRIPTION_LIMIT, SUBSCRIPTION_TTL).await.ok()?;
        if is_added {
            self.subscribed.mark_stored(session, uri);
            shared.publish(&ReplicaMessage::Subscribed { session: session.into() });
        }
        Some(is_added)
    }

    /// Removes a subscription from a session, at every replica.
    pub(super) async fn unsubscribe(&self, session: &str, uri: &str) {
        self.subscribed.remove(session, uri);
        if let Some(shared) = &self.gateway.shared
            && shared.remove_member(&subscriptions_key(shared, session), uri.as_bytes()).await.is_ok()
        {
            shared.publish(&ReplicaMessage::Subscribed { session: session.into() });
        }
    }

    /// Reads the subscriptions of a session from the shared state, where other replicas may have changed
    /// them.
    pub(super) async fn read_subscriptions(&self, session: &str) {
        let Some(shared) = &self.gateway.shared else { return };
        if let Ok(members) = shared.members(&subscriptions_key(shared, session)).await {
            let uris = members.into_iter().filter_map(|member| String::from_utf8(member).ok());
            self.subscribed.replace(&self.gateway, session, &uris.collect::<Vec<_>>());
        }
    }

    /// Sets the log level of a session, at every replica.
    pub(super) fn set_level(&self, session: &str, level: McpLogLevel) {
        self.subscribed.set_level(session, level);
        if let Some(shared) = &self.gateway.shared {
            shared.publish(&ReplicaMessage::Level { session: session.into(), level });
        }
    }

    /// Removes a session that the client has ended, at this replica.
    pub(super) fn remove_session(&self, session: &str) {
        self.resumables.close_session(session);
        self.subscribed.remove_session(session);
    }

    /// Removes the subscriptions of an ended session from the shared state, and notifies the other replicas.
    pub(super) fn publish_ended(&self, session: &str) {
        if let Some(shared) = &self.gateway.shared {
            shared.remove(&subscriptions_key(shared, session));
            shared.publish(&ReplicaMessage::Ended { session: session.into() });
        }
    }
}

impl McpEndpoint {
    /// Handles a message of another replica.
    pub async fn on_replica_message(&self, message: ReplicaMessage) {
        let MessageDispatcher { gateway, sessions, subscribed, .. } = &*self.0;
        match message {
            ReplicaMessage::Changed { uri, fingerprint } => gateway.on_remote_change(&uri, fingerprint),
            ReplicaMessage::Subscribed { session } => {
                let has_stream =
                    subscribed.0.lock().by_id.get(&session).is_some_and(SubscribedSession::has_stream);
                if has_stream {
                    self.0.read_subscriptions(&session).await;
                }
            }
            ReplicaMessage::Level { session, level } => subscribed.set_level(&session, level),
            ReplicaMessage::Ended { session } => {
                // `false` for an id that has expired, or that another secret key has encrypted.
                if sessions.end(&sessions.open(&session)) {
                    self.0.remove_session(&session);
                }
            }
        }
    }

    /// Synchronizes when the shared state is reachable again: stores the subscriptions that only this replica
    /// knows, and reads the subscriptions of other replicas.
    pub async fn catch_up(&self) {
        for (session, uri) in self.0.subscribed.unstored() {
            self.0.store(&session, &uri).await;
        }
        for session in self.0.subscribed.listening() {
            self.0.read_subscriptions(&session).await;
        }
    }
}

fn subscriptions_key(shared: &SharedStore, session: &str) -> String {
    shared.name("subscriptions", &[session.as_bytes()])
}

#[cfg(test)]
pub(super) mod tests {
    use futures_util::FutureExt;

    use super::*;
    use crate::{
        config::{self, Sources},
        pipeline::WATCHED_URI_LIMIT_BYTES,
        server,
    };

    /// A gateway whose upstream can't be reached.
    pub(in crate::inbound::mcp) fn gateway() -> Gateway {
        let text = "upstreams: { none: http://127.0.0.1:1 }
routes:
  each: { description: x, request: \"GET none/{x}\", resource: { uri: \"t://{x}\", poll_interval: 1d } }
  once: { description: x, request: GET none/once, resource: once:x }
";
        let loaded = config::load(&Sources::from_text("config.yaml", text)).unwrap();
        server::App::new(&loaded).unwrap().gateway
    }

    fn subscribes(stream: &SessionStream, uri: &str) -> bool {
        !stream.resources(|resource| ***resource == *uri).is_empty()
    }

    #[tokio::test]
    async fn upstreams_are_polled_for_sessions_with_a_stream() {
        let (gateway, subscribed) = (gateway(), Arc::new(SessionSubscriptions::default()));
        subscribed.add(&gateway, "s", "t://a").unwrap();
        assert_eq!(subscribed.add(&gateway, "s", "none:x"), Err(WatchError::Unknown));
        assert_eq!(subscribed.add(&gateway, "s", "once:x"), Err(WatchError::Unwatched));
        let long = format!("t://{}", "x".repeat(WATCHED_URI_LIMIT_BYTES));
        assert_eq!(subscribed.add(&gateway, "s", &long), Err(WatchError::TooLong));
        assert_eq!(gateway.watched(), 0);
        let first = subscribed.listen(&gateway, "s");
        let second = subscribed.listen(&gateway, "s");
        assert!(subscribes(&first, "t://a") && !subscribes(&first, "t://b"));
        assert_eq!(gateway.watched(), 1);
        subscribed.add(&gateway, "s", "t://b").unwrap();
        subscribed.add(&gateway, "other", "t://c").unwrap();
        assert!(subscribes(&second, "t://b") && !subscribes(&second, "t://c"));
        assert_eq!(gateway.watched(), 2);
        subscribed.remove("s", "t://a");
        drop(first);
        assert_eq!(gateway.watched(), 1);
        drop(second);
        assert_eq!(gateway.watched(), 0);
        let third = subscribed.listen(&gateway, "s");
        assert!(subscribes(&third, "t://b"));
        subscribed.remove_session("s");
        assert!(!subscribes(&third, "t://b"));
        assert_eq!(gateway.watched(), 0);
        drop(third);
        subscribed.remove("other", "t://c");
        assert!(subscribed.0.lock().by_id.is_empty());
    }

    #[tokio::test]
    async fn subscriptions_of_other_replicas_replace_older_ones() {
        let (gateway, subscribed) = (gateway(), Arc::new(SessionSubscriptions::default()));
        let uris = |uris: &[&str]| uris.iter().map(|uri| (*uri).to_owned()).collect::<Vec<_>>();
        subscribed.replace(&gateway, "s", &uris(&["t://a"]));
        assert!(subscribed.0.lock().by_id.is_empty(), "nobody listens here");
        let stream = subscribed.listen(&gateway, "s");
        subscribed.replace(&gateway, "s", &uris(&["t://a", "t://b", "none:x"]));
        subscribed.add(&gateway, "s", "t://own").unwrap();
        assert_eq!(subscribed.unstored(), [("s".into(), "t://own".into())]);
        subscribed.replace(&gateway, "s", &uris(&["t://b", "t://c"]));
        assert_eq!(stream.resources(|_| true).len(), 3);
        assert!(["t://b", "t://c", "t://own"].iter().all(|uri| subscribes(&stream, uri)));
        assert_eq!(gateway.watched(), 3);
        subscribed.mark_stored("s", "t://own");
        subscribed.replace(&gateway, "s", &[]);
        assert_eq!((stream.resources(|_| true).len(), gateway.watched()), (0, 0));
        assert_eq!(subscribed.listening(), [Box::<str>::from("s")]);
    }

    #[tokio::test]
    async fn sessions_and_subscriptions_have_limits() {
        let (gateway, subscribed) = (gateway(), Arc::new(SessionSubscriptions::default()));
        for number in 0..SUBSCRIPTION_LIMIT {
            subscribed.add(&gateway, "listens", &format!("t://{number}")).unwrap();
        }
        assert_eq!(subscribed.add(&gateway, "listens", "t://more"), Err(WatchError::SessionLimit));
        let long = |number: usize| format!("t://{number}{}", "x".repeat(WATCHED_URI_LIMIT_BYTES / 2));
        let added =
            (0..SUBSCRIPTION_LIMIT).filter(|number| subscribed.add(&gateway, "long", &long(*number)).is_ok());
        assert_eq!(added.count(), 7, "their URIs are long");
        let stream = subscribed.listen(&gateway, "listens");
        for number in 0..=SESSION_LIMIT {
            subscribed.add(&gateway, &format!("s{number}"), "t://a").unwrap();
        }
        assert_eq!(subscribed.0.lock().by_id.len(), SESSION_LIMIT);
        assert!(subscribes(&stream, "t://1"), "who listens is not forgotten");
        assert!(!subscribed.0.lock().by_id.contains_key("s0"), "the oldest is");
    }

    #[tokio::test]
    async fn a_session_beyond_the_limit_of_sessions_gets_no_subscriptions() {
        let (gateway, subscribed) = (gateway(), Arc::new(SessionSubscriptions::default()));
        let listen = |number: usize| subscribed.listen(&gateway, &format!("s{number}"));
        let _streams: Vec<_> = (0..SESSION_LIMIT).map(listen).collect();
        assert_eq!(subscribed.add(&gateway, "late", "t://a"), Err(WatchError::TooManySessions));
        subscribed.add(&gateway, "s0", "t://a").unwrap();
    }

    #[test]
    fn log_levels_are_stored_for_the_last_sessions() {
        let subscribed = SessionSubscriptions::default();
        subscribed.set_level("first", McpLogLevel::Debug);
        subscribed.set_level("first", McpLogLevel::Error);
        assert_eq!(subscribed.level("first"), Some(McpLogLevel::Error));
        for number in 0..SESSION_LIMIT {
            subscribed.set_level(&format!("s{number}"), McpLogLevel::Info);
        }
        assert_eq!((subscribed.level("first"), subscribed.level("s0")), (None, Some(McpLogLevel::Info)));
        subscribed.remove("s0", "t://a");
        assert_eq!(subscribed.level("s0"), Some(McpLogLevel::Info));
        subscribed.remove_session("s0");
        assert_eq!(subscribed.level("s0"), None);
    }

    fn is_closed(stream: &SessionStream) -> bool {
        stream.closing.notified().now_or_never().is_some()
    }

    #[tokio::test]
    async fn notifications_use_the_newest_stream_of_a_session() {
        let (gateway, subscribed) = (gateway(), Arc::new(SessionSubscriptions::default()));
        let listen = |session: &str| subscribed.listen(&gateway, session);
        let (first, second, another) = (listen("a"), listen("a"), listen("b"));
        assert!(!first.is_newest() && second.is_newest() && another.is_newest());
        assert!(!is_closed(&first), "it may go on listening");
        drop(second);
        assert!(first.is_newest());
        subscribed.remove_session("a");
        assert!(is_closed(&first) && !is_closed(&another));
        assert!(!first.is_newest() && another.is_newest());
        drop(another);
        assert!(subscribed.0.lock().by_id.is_empty());
    }

    #[tokio::test]
    async fn the_oldest_of_too_many_streams_of_a_session_is_closed() {
        let (gateway, subscribed) = (gateway(), Arc::new(SessionSubscriptions::default()));
        let streams: Vec<_> = (0..=STREAM_LIMIT).map(|_| subscribed.listen(&gateway, "a")).collect();
        let closed: Vec<bool> = streams.iter().map(is_closed).collect();
        assert_eq!(closed.iter().filter(|closed| **closed).count(), 1);
        assert!(closed[0]);
    }
}
