//! Notifications of changes, and their streams.
//!
//! A stream is opened by `subscriptions/listen` since 2026-07-28, and before that by `GET` of a session. The
//! number of streams is limited, and only the newest one of a session gets notifications.

use std::{
    collections::{BTreeMap, HashMap},
    convert::Infallible,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use rmcp::model::SubscriptionFilter;
use serde::{Deserialize, de::IgnoredAny};
use serde_json::{Value, json};
use tokio::sync::oneshot;

use super::{
    client_channel::{ClientRequestError, Outbox},
    context::RpcContext,
    protocol::MessageDispatcher,
    response::RpcResponse,
    rpc_error::RpcError,
    session_subscriptions::SessionListener,
    sessions::DeclaredLists,
    tasks,
};
use crate::{
    pipeline::{ChangeEvent, ChangeReceiver, Gateway, ReceivedChange, ResourceWatch},
    upstream::{ClientIdentity, PerClientLimit, PerClientPermit},
};

/// The key in `_meta` of all notifications of a subscription.
const SUBSCRIPTION_ID: &str = "io.modelcontextprotocol/subscriptionId";

/// Limit of the resources of one stream; further ones are omitted from the acknowledgement.
const RESOURCE_LIMIT: usize = 100;

/// The member of a filter that the extension for tasks defines (SEP-2663, "Task Status Notifications"). Such
/// notifications are optional, and not sent.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct TaskFilter {
    #[serde(rename = "taskIds")]
    task_ids: Option<IgnoredAny>,
}

/// The notifications that a client has requested.
#[derive(Debug)]
pub(super) struct Subscription {
    filter: SubscriptionFilter,
    of: Resources,
}

/// The resources about whose changes a client is notified.
#[derive(Debug)]
enum Resources {
    /// These, which are polled for it.
    Watched(BTreeMap<Arc<str>, ResourceWatch>),
    /// The resources that its session subscribes to.
    Session(SessionListener),
}

/// A client that gets notifications.
pub(super) struct Recipient<'a> {
    pub(super) gateway: &'a Gateway,
    pub(super) client: ClientIdentity,
}

/// `subscriptions/listen`: sends the requested notifications until the client disconnects or is no longer
/// authorized, or the server shuts down.
pub(super) async fn listen(
    dispatcher: &MessageDispatcher,
    rpc: &RpcContext<'_>,
) -> Result<RpcResponse, RpcError> {
    let requested = rpc.request.param("notifications");
    let filter = requested.object("params.notifications")?;
    let filter = filter.ok_or_else(|| RpcError::Params("`params.notifications` must be an object".into()))?;
    let TaskFilter { task_ids } = requested.optional_object("params.notifications")?;
    if task_ids.is_some() && tasks::any_offered(&dispatcher.gateway.snapshot()) {
        tasks::check_support(rpc)?;
    }
    let _slot = dispatcher.streams.slot(rpc.message_context.client())?;
    // Before the acknowledgement, so that no change after it is missed.
    let listener = dispatcher.gateway.changes().listen();
    let recipient = Recipient { gateway: &dispatcher.gateway, client: rpc.message_context.client().clone() };
    let subscription = Subscription::new(filter, &recipient);
    let meta = json!({ SUBSCRIPTION_ID: rpc.request.id.to_value() });
    let acknowledged = json!({ "_meta": meta, "notifications": subscription.filter });
    let sent = rpc.outbox.send("notifications/subscriptions/acknowledged", &acknowledged).await;
    sent.map_err(|_| {
        RpcError::Params(
            "the response of this method is a stream: send `Accept: text/event-stream`, too".into(),
        )
    })?;
    let subscription = || Some(&subscription);
    tokio::select! {
        _ = notify(listener, rpc.outbox, &recipient, Some(&meta), subscription) => {}
        () = dispatcher.revoked(rpc.message_context) => {}
        () = rpc.message_context.shutdown_begun() => {}
    }
    if rpc.message_context.is_stdio() {
        // Required where no stream ends with it (2026-07-28, Cancellation), before the result: a request that
        // has one can't be cancelled any more.
        let params = json!({ "_meta": meta, "requestId": rpc.request.id.to_value() });
        // Nobody reads any more: the connection is about to end.
        let _ = rpc.outbox.send("notifications/cancelled", &params).await;
    }
    let mut meta = rpc.meta.clone();
    meta.insert(SUBSCRIPTION_ID.to_owned(), rpc.request.id.to_value());
    Ok(RpcResponse::result(rpc.request.id, rpc.revision.result_type(), &json!({}), &meta))
}

impl Recipient<'_> {
    /// Whether the client may read a resource; it gets no notifications about others. Its permissions may
    /// change at any time.
    fn may_read(&self, uri: &str) -> bool {
        self.gateway.snapshot().scopes_of_uri(uri).is_none_or(|needed| self.client.may(needed))
    }
}

/// Notifies a legacy session until its stream is closed, or its client disconnects.
pub(super) async fn notify_session(
    listener: ChangeReceiver,
    outbox: &Outbox,
    recipient: &Recipient<'_>,
    slot: &StreamSlot,
    (declared, subscribed): (DeclaredLists, SessionListener),
    closed: StreamClosed,
) {
    let mut filter = SubscriptionFilter::builder().tools_list_changed().build();
    filter.prompts_list_changed = declared.prompts.then_some(true);
    filter.resources_list_changed = declared.resources.then_some(true);
    let subscription = Subscription { filter, of: Resources::Session(subscribed) };
    let subscription = || slot.is_active().then_some(&subscription);
    tokio::select! {
        _ = notify(listener, outbox, recipient, None, subscription) => {}
        _ = closed => {}
    }
}

/// Sends notifications until the client disconnects; `subscription` is called for each change.
async fn notify<'w>(
    mut listener: ChangeReceiver,
    outbox: &Outbox,
    recipient: &Recipient<'_>,
    meta: Option<&Value>,
    subscription: impl Fn() -> Option<&'w Subscription>,
) -> Result<Infallible, ClientRequestError> {
    loop {
        let change = listener.next().await.ok_or(ClientRequestError::NoChannel)?;
        let Some(subscription) = subscription() else { continue };
        for (method, uri) in subscription.messages(&change) {
            if uri.as_deref().is_some_and(|uri| !recipient.may_read(uri)) {
                continue;
            }
            let mut params = json!({});
            if let Some(meta) = meta {
                params["_meta"] = meta.clone();
            }
            if let Some(uri) = uri {
                params["uri"] = (*uri).into();
            }
            outbox.send(method, &params).await?;
        }
    }
}

impl Subscription {
    /// Starts to watch the resources of a filter that the client may read. The others are missing in the
    /// acknowledgement, so that the client polls them.
    fn new(mut filter: SubscriptionFilter, recipient: &Recipient<'_>) -> Self {
        let mut uris = filter.resource_subscriptions.take().unwrap_or_default();
        uris.retain(|uri| recipient.may_read(uri));
        let watched = uris.iter().take(RESOURCE_LIMIT).filter_map(|uri| recipient.gateway.watch(uri).ok());
        let watched: BTreeMap<_, _> = watched.map(|watching| (Arc::clone(&watching.uri), watching)).collect();
        let known = watched.keys().map(|uri| uri.to_string()).collect::<Vec<_>>();
        filter.resource_subscriptions = Some(known).filter(|known| !known.is_empty());
        for wanted in [
            &mut filter.tools_list_changed,
            &mut filter.prompts_list_changed,
            &mut filter.resources_list_changed,
        ] {
            *wanted = wanted.filter(|wanted| *wanted);
        }
        Self { filter, of: Resources::Watched(watched) }
    }

    /// The notifications for a change, each with its resource if it is about one.
    fn messages(&self, received: &ReceivedChange) -> Vec<(&'static str, Option<Arc<str>>)> {
        let lists = [
            (ChangeEvent::Tools, self.filter.tools_list_changed, "notifications/tools/list_changed"),
            (ChangeEvent::Prompts, self.filter.prompts_list_changed, "notifications/prompts/list_changed"),
            (
                ChangeEvent::Resources,
                self.filter.resources_list_changed,
                "notifications/resources/list_changed",
            ),
        ];
        // After missed changes, anything may be different.
        let has_changed = |change: &ChangeEvent| match received {
            ReceivedChange::Change(found) => found == change,
            ReceivedChange::Missed => true,
        };
        let lists =
            lists.into_iter().filter(|(change, is_wanted, _)| is_wanted.is_some() && has_changed(change));
        let uris = match received {
            ReceivedChange::Change(ChangeEvent::Resource(uri)) if self.of.has(uri) => vec![Arc::clone(uri)],
            ReceivedChange::Change(_) => Vec::new(),
            ReceivedChange::Missed => self.of.all(),
        };
        let updated = uris.into_iter().map(|uri| ("notifications/resources/updated", Some(uri)));
        lists.map(|(_, _, method)| (method, None)).chain(updated).collect()
    }
}

impl Resources {
    fn has(&self, uri: &str) -> bool {
        match self {
            Self::Watched(watched) => watched.contains_key(uri),
            Self::Session(listening) => listening.wants(uri),
        }
    }

    fn all(&self) -> Vec<Arc<str>> {
        match self {
            Self::Watched(watched) => watched.keys().cloned().collect(),
            Self::Session(listening) => listening.all(),
        }
    }
}

/// Limit of the open streams of one session; the oldest is closed for another one. Clients have one, and two
/// for a while when a broken connection has not been noticed yet.
const SESSION_LIMIT: usize = 4;

/// All open streams of this process.
#[derive(Debug)]
pub(super) struct OpenStreams {
    limit: usize,
    /// Limit of the streams of each client, if any.
    clients: Option<PerClientLimit>,
    open: Mutex<StreamTable>,
}

#[derive(Debug, Default)]
struct StreamTable {
    count: usize,
    /// The number of streams since the start.
    begun: u64,
    /// The streams of each session by its id, the oldest first.
    of_sessions: HashMap<Arc<str>, Vec<SessionStream>>,
}

#[derive(Debug)]
struct SessionStream {
    number: u64,
    /// The stream ends when this is dropped.
    _end: oneshot::Sender<()>,
}

/// A stream slot, released when it is dropped.
#[derive(Debug)]
pub(super) struct StreamSlot {
    session: Option<Arc<str>>,
    number: u64,
    streams: Arc<OpenStreams>,
    _client_permit: Option<PerClientPermit>,
}

/// Completes when a stream is closed for another one, or its session ends.
pub(super) type StreamClosed = oneshot::Receiver<()>;

impl OpenStreams {
    /// Creates the limits of all streams, and of those of one client.
    pub(super) fn new(limit: usize, client_limit: Option<usize>) -> Arc<Self> {
        Arc::new(Self { limit, clients: client_limit.map(PerClientLimit::new), open: Mutex::default() })
    }

    /// Takes a slot for a stream without a session.
    ///
    /// # Errors
    ///
    /// When all slots are occupied, or as many as one client may have.
    pub(super) fn slot(self: &Arc<Self>, client: &ClientIdentity) -> Result<StreamSlot, RpcError> {
        self.take_slot(&mut self.open(), client, None)
    }

    fn take_slot(
        self: &Arc<Self>,
        open: &mut StreamTable,
        client: &ClientIdentity,
        session: Option<Arc<str>>,
    ) -> Result<StreamSlot, RpcError> {
        if open.count >= self.limit {
            return Err(RpcError::TooManyStreams);
        }
        let client_permit = self.clients.as_ref().map(|clients| clients.take(client)).transpose();
        let client_permit =
            client_permit.map_err(|limit| RpcError::TooManyStreamsOfClient { limit })?.flatten();
        open.count += 1;
        open.begun += 1;
        Ok(StreamSlot {
            session,
            number: open.begun,
            streams: Arc::clone(self),
            _client_permit: client_permit,
        })
    }

    /// Takes a slot for a stream of a session.
    ///
    /// # Errors
    ///
    /// As for a stream without a session.
    pub(super) fn session_slot(
        self: &Arc<Self>,
        session: &str,
        client: &ClientIdentity,
    ) -> Result<(StreamSlot, StreamClosed), RpcError> {
        let mut open = self.open();
        let session: Arc<str> = session.into();
        let slot = self.take_slot(&mut open, client, Some(Arc::clone(&session)))?;
        let (end, closed) = oneshot::channel();
        let members = open.of_sessions.entry(session).or_default();
        if members.len() >= SESSION_LIMIT {
            members.remove(0);
        }
        members.push(SessionStream { number: slot.number, _end: end });
        Ok((slot, closed))
    }

    /// Ends all streams of a session.
    pub(super) fn close_session(&self, session: &str) {
        self.open().of_sessions.remove(session);
    }

    fn open(&self) -> MutexGuard<'_, StreamTable> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl StreamSlot {
    /// Whether messages for the session are sent on this stream: only on its newest one (MCP 2025-11-25,
    /// Transports, "Multiple Connections").
    pub(super) fn is_active(&self) -> bool {
        let Some(session) = &self.session else { return true };
        let open = self.streams.open();
        let newest = open.of_sessions.get(session).and_then(|members| members.last());
        newest.is_some_and(|newest| newest.number == self.number)
    }
}

impl Drop for StreamSlot {
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
    use crate::inbound::mcp::session_subscriptions::tests::gateway;

    #[track_caller]
    fn check(
        requested: Value,
        acknowledged: Value,
        change: &ReceivedChange,
        expected: &[(&str, Option<&str>)],
    ) {
        let recipient = Recipient { gateway: &gateway(), client: ClientIdentity::Only };
        let subscription = Subscription::new(serde_json::from_value(requested).unwrap(), &recipient);
        assert_eq!(serde_json::to_value(&subscription.filter).unwrap(), acknowledged);
        let messages = subscription.messages(change);
        let messages: Vec<_> = messages.iter().map(|(method, uri)| (*method, uri.as_deref())).collect();
        assert_eq!(messages, expected);
    }

    #[tokio::test]
    async fn only_requested_notifications_are_sent() {
        let changed = |change| ReceivedChange::Change(change);
        let tools = json!({ "toolsListChanged": true });
        let notified = [("notifications/tools/list_changed", None)];
        check(tools.clone(), tools.clone(), &changed(ChangeEvent::Tools), &notified);
        check(tools.clone(), tools.clone(), &changed(ChangeEvent::Prompts), &[]);
        check(tools.clone(), tools, &ReceivedChange::Missed, &notified);
        let requested =
            json!({ "promptsListChanged": true, "toolsListChanged": false, "resourcesListChanged": null });
        let prompts = json!({ "promptsListChanged": true });
        check(
            requested,
            prompts,
            &changed(ChangeEvent::Prompts),
            &[("notifications/prompts/list_changed", None)],
        );
        check(json!({}), json!({}), &ReceivedChange::Missed, &[]);
        let resource = json!({ "resourceSubscriptions": ["t://a"] });
        let notified = [("notifications/resources/updated", Some("t://a"))];
        check(resource.clone(), resource.clone(), &changed(ChangeEvent::Resource("t://a".into())), &notified);
        check(resource.clone(), resource.clone(), &changed(ChangeEvent::Resource("t://b".into())), &[]);
        check(resource.clone(), resource.clone(), &ReceivedChange::Missed, &notified);
        let too_much = json!({ "resourceSubscriptions": ["t://a", "once:x", "none:x", "t://a"] });
        check(too_much, resource, &ReceivedChange::Missed, &notified);
    }

    fn is_closed(closed: &mut StreamClosed) -> bool {
        closed.try_recv() == Err(oneshot::error::TryRecvError::Closed)
    }

    #[test]
    fn stream_slots_are_limited_and_released() {
        let streams = OpenStreams::new(2, None);
        let one = streams.slot(&ClientIdentity::Only).unwrap();
        let other = streams.session_slot("session", &ClientIdentity::Only).unwrap();
        assert!(
            streams.slot(&ClientIdentity::Only).is_err()
                && streams.session_slot("session", &ClientIdentity::Only).is_err()
        );
        drop(other);
        assert!(streams.open().of_sessions.is_empty());
        let _again = streams.slot(&ClientIdentity::Only).unwrap();
        drop(one);
        assert!(streams.slot(&ClientIdentity::Only).is_ok());
    }

    #[test]
    fn the_newest_stream_of_a_session_is_spoken_on() {
        let streams = OpenStreams::new(10, None);
        let (first, mut first_closed) = streams.session_slot("a", &ClientIdentity::Only).unwrap();
        let (second, _keep) = streams.session_slot("a", &ClientIdentity::Only).unwrap();
        let (another, mut another_closed) = streams.session_slot("b", &ClientIdentity::Only).unwrap();
        assert!(!first.is_active() && second.is_active() && another.is_active());
        assert!(!is_closed(&mut first_closed), "it may go on listening");
        drop(second);
        assert!(first.is_active());
        streams.close_session("a");
        assert!(is_closed(&mut first_closed) && !is_closed(&mut another_closed));
        assert!(!first.is_active() && another.is_active());
    }

    #[test]
    fn a_session_that_opens_many_loses_its_oldest() {
        let streams = OpenStreams::new(10, None);
        let mut all: Vec<_> =
            (0..=SESSION_LIMIT).map(|_| streams.session_slot("a", &ClientIdentity::Only).unwrap()).collect();
        let closed: Vec<bool> = all.iter_mut().map(|(_, closed)| is_closed(closed)).collect();
        assert_eq!(closed.iter().filter(|closed| **closed).count(), 1);
        assert!(closed[0]);
    }

    #[test]
    fn a_client_has_its_share_of_the_slots() {
        let streams = OpenStreams::new(9, Some(2));
        let (one, other) = (
            ClientIdentity::from_address([10, 0, 0, 1].into()),
            ClientIdentity::from_address([10, 0, 0, 2].into()),
        );
        let first = streams.slot(&one).unwrap();
        let _second = streams.session_slot("session", &one).unwrap();
        for refused in [streams.slot(&one).map(drop), streams.session_slot("another", &one).map(drop)] {
            assert!(matches!(refused, Err(RpcError::TooManyStreamsOfClient { limit: 2 })));
        }
        let _others = streams.slot(&other).unwrap();
        drop(first);
        let _again = streams.slot(&one).unwrap();
    }
}
