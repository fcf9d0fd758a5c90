//! Notifications of changes, and the streams that carry them.
//!
//! Since 2026-07-28, `subscriptions/listen` opens a stream; before that, `GET` of a session or the handshake
//! over stdio does. The number of streams is limited.

use std::{collections::BTreeMap, convert::Infallible, future::Future, sync::Arc};

use rmcp::model::SubscriptionFilter;
use serde_json::{Value, json};
use tokio::sync::{
    OwnedSemaphorePermit, Semaphore,
    broadcast::{Receiver, error::RecvError},
};

use super::session_subscriptions::SessionStream;
use super::sessions::NamedSession;
use super::{
    ClientRequestError, ErrorKind, MessageDispatcher, MessageReceiver, MessageSender, RpcContext, RpcError,
    RpcResult, tasks,
};
use crate::inbound::without_nulls;
use crate::pipeline::{ChangeEvent, Gateway, ResourceWatch};
use crate::policy::PerClientLimit;
use crate::upstream::ClientIdentity;

/// Key in `_meta` of all notifications of a subscription: the id of the `subscriptions/listen` request.
const SUBSCRIPTION_ID: &str = "io.modelcontextprotocol/subscriptionId";

/// Maximum number of resources of one stream. Further resources are omitted from the acknowledgement.
const RESOURCE_LIMIT: usize = 100;

/// The notifications that a client has requested.
#[derive(Debug)]
pub(super) struct Subscription {
    filter: SubscriptionFilter,
    resources: Resources,
    gateway: Gateway,
    /// The client that gets the notifications.
    client: ClientIdentity,
}

/// The resources whose changes a client is notified of.
#[derive(Debug)]
enum Resources {
    /// Resources that are watched for this stream.
    Watched(BTreeMap<Arc<str>, ResourceWatch>),
    /// The resources that the session of the stream subscribes to.
    Session(SessionStream),
}

/// `subscriptions/listen`: sends the requested notifications until the client disconnects or is no longer
/// authorized, or the server shuts down.
pub(super) async fn listen(rpc: &RpcContext<'_>) -> RpcResult {
    let (dispatcher, message, id) = (rpc.dispatcher, rpc.message, rpc.request.id.to_value());
    let requested = rpc.request.params.notifications;
    let filter = requested.object("params.notifications")?;
    let filter = filter.ok_or_else(|| ErrorKind::PARAMS.error("`params.notifications` must be an object"))?;
    // Notifications of tasks are optional, and not sent (SEP-2663, "Task Status Notifications").
    let requests_tasks = requested.object_or_empty().get("taskIds").is_some_and(|ids| !ids.is_null());
    if requests_tasks && tasks::has_task_tools(&dispatcher.gateway.snapshot()) {
        tasks::check_support(rpc)?;
    }
    let _slot = dispatcher.streams.slot(message.client())?;
    // Subscribed before the acknowledgement is sent, so that no later change is missed.
    let listener = dispatcher.gateway.changes.subscribe();
    let subscription = Subscription::new(filter, &dispatcher.gateway, message.client());
    let meta = json!({ SUBSCRIPTION_ID: id });
    let acknowledged = json!({ "_meta": meta, "notifications": subscription.filter });
    let sent = rpc.sender.send("notifications/subscriptions/acknowledged", &acknowledged).await;
    sent.map_err(|_| {
        let error_message = "the response of this method is a stream: send `Accept: text/event-stream`, too";
        ErrorKind::PARAMS.error(error_message)
    })?;
    tokio::select! {
        _ = notify(listener, rpc.sender, Some(&meta), &subscription) => {}
        () = dispatcher.filter.authenticator.revoked(&message.context), if !message.is_stdio() => {}
        () = message.context.info.connection.shutdown.draining() => {}
    }
    if message.is_stdio() {
        // Over stdio, the end of the stream must be signalled, because the connection continues (2026-07-28,
        // Cancellation). The signal precedes the result, because a request with a result can no longer be
        // cancelled.
        let params = json!({ "_meta": meta, "requestId": id });
        // Sending fails if the connection is about to end, so that no one reads the message.
        let _ = rpc.sender.send("notifications/cancelled", &params).await;
    }
    let mut meta = rpc.meta().clone();
    meta.insert(SUBSCRIPTION_ID.to_owned(), id);
    Ok(rpc.result_with(rpc.revision.result_type(), &json!({}), None, &meta))
}

/// Opens a stream of notifications for a legacy session. Returns the receiver of the messages, and the future
/// that sends them until the stream is closed or the client disconnects. No change after this call is missed.
///
/// # Errors
///
/// As for [`OpenStreams::slot`].
pub(super) fn open_session_stream(
    dispatcher: &Arc<MessageDispatcher>,
    session: &NamedSession,
    client: &ClientIdentity,
) -> Result<(MessageReceiver, impl Future<Output = ()> + Send + use<>), RpcError> {
    let slot = dispatcher.streams.slot(client)?;
    let listener = dispatcher.gateway.changes.subscribe();
    let declared = session.declared_lists();
    let mut filter = SubscriptionFilter::builder().tools_list_changed().build();
    filter.prompts_list_changed = declared.prompts.then_some(true);
    filter.resources_list_changed = declared.resources.then_some(true);
    let stream = dispatcher.subscribed.listen(&dispatcher.gateway, &session.id);
    let closing = Arc::clone(&stream.closing);
    let (resources, gateway, client) =
        (Resources::Session(stream), dispatcher.gateway.clone(), client.clone());
    let subscription = Subscription { filter, resources, gateway, client };
    let (sender, receiver) = MessageSender::new();
    let notifying = async move {
        let _slot = slot;
        tokio::select! {
            _ = notify(listener, &sender, None, &subscription) => {}
            () = closing.notified() => {}
        }
    };
    Ok((receiver, notifying))
}

/// Sends the notifications of a subscription until the client disconnects.
async fn notify(
    mut listener: Receiver<ChangeEvent>,
    sender: &MessageSender,
    meta: Option<&Value>,
    subscription: &Subscription,
) -> Result<Infallible, ClientRequestError> {
    loop {
        let change = match listener.recv().await {
            Ok(change) => change,
            Err(RecvError::Lagged(_)) => ChangeEvent::Missed,
            Err(RecvError::Closed) => return Err(ClientRequestError::NoChannel),
        };
        for (method, uri) in subscription.messages(&change) {
            if uri.as_deref().is_some_and(|uri| !may_read(&subscription.gateway, &subscription.client, uri)) {
                continue;
            }
            let params = without_nulls(json!({ "_meta": meta, "uri": uri.as_deref() }));
            sender.send(method, &params).await?;
        }
    }
}

impl Subscription {
    /// Starts to watch the requested resources that the client may read. The other resources are missing in
    /// the acknowledgement, so that the client polls them.
    fn new(mut filter: SubscriptionFilter, gateway: &Gateway, client: &ClientIdentity) -> Self {
        let mut uris = filter.resource_subscriptions.take().unwrap_or_default();
        uris.retain(|uri| may_read(gateway, client, uri));
        let watched = uris.iter().take(RESOURCE_LIMIT).filter_map(|uri| gateway.watch(uri).ok());
        let watched: BTreeMap<_, _> = watched.map(|watch| (Arc::clone(&watch.uri), watch)).collect();
        let watched_uris = watched.keys().map(|uri| uri.to_string()).collect::<Vec<_>>();
        filter.resource_subscriptions = Some(watched_uris).filter(|watched_uris| !watched_uris.is_empty());
        let omit_false = |flag: &mut Option<bool>| *flag = flag.filter(|flag| *flag);
        omit_false(&mut filter.tools_list_changed);
        omit_false(&mut filter.prompts_list_changed);
        omit_false(&mut filter.resources_list_changed);
        let resources = Resources::Watched(watched);
        Self { filter, resources, gateway: gateway.clone(), client: client.clone() }
    }

    /// Returns the notifications for a change: the method, and the URI if it is about a resource. A session
    /// is notified only on its newest stream (MCP 2025-11-25, Transports, "Multiple Connections").
    fn messages(&self, received: &ChangeEvent) -> Vec<(&'static str, Option<Arc<str>>)> {
        if matches!(&self.resources, Resources::Session(stream) if !stream.is_newest()) {
            return Vec::new();
        }
        let filter = &self.filter;
        let lists = [
            (ChangeEvent::Tools, filter.tools_list_changed, "notifications/tools/list_changed"),
            (ChangeEvent::Prompts, filter.prompts_list_changed, "notifications/prompts/list_changed"),
            (ChangeEvent::Resources, filter.resources_list_changed, "notifications/resources/list_changed"),
        ];
        // If changes were missed, every list and resource may have changed.
        let has_changed = |change: &ChangeEvent| received == change || *received == ChangeEvent::Missed;
        let lists = lists.into_iter().filter(|(change, flag, _)| flag.is_some() && has_changed(change));
        let is_updated = |uri: &&Arc<str>| match received {
            ChangeEvent::Resource(changed) => changed == *uri,
            other => *other == ChangeEvent::Missed,
        };
        let uris: Vec<Arc<str>> = match &self.resources {
            Resources::Watched(watched) => watched.keys().filter(is_updated).cloned().collect(),
            Resources::Session(stream) => stream.resources(is_updated),
        };
        let updated = uris.into_iter().map(|uri| ("notifications/resources/updated", Some(uri)));
        lists.map(|(_, _, method)| (method, None)).chain(updated).collect()
    }
}

/// Whether a client may read a resource, and gets notifications about it. Checked for each notification,
/// because the permissions may change at any time.
fn may_read(gateway: &Gateway, client: &ClientIdentity, uri: &str) -> bool {
    gateway.snapshot().scopes_of_uri(uri).is_none_or(|needed| client.may(needed))
}

/// Semaphores that limit the number of open streams of the process, and of each client.
#[derive(Debug)]
pub(super) struct OpenStreams {
    slots: Arc<Semaphore>,
    clients: Option<PerClientLimit>,
}

/// The slot of a stream. Dropping it releases the slot.
pub(super) type StreamSlot = (OwnedSemaphorePermit, Option<OwnedSemaphorePermit>);

impl OpenStreams {
    pub(super) fn new(limit: usize, client_limit: Option<usize>) -> Self {
        Self { slots: Arc::new(Semaphore::new(limit)), clients: client_limit.map(PerClientLimit::new) }
    }

    /// Acquires a slot for a stream of a client.
    ///
    /// # Errors
    ///
    /// When the limit of the process or of the client is reached.
    pub(super) fn slot(&self, client: &ClientIdentity) -> Result<StreamSlot, RpcError> {
        let slot = Arc::clone(&self.slots).try_acquire_owned().map_err(|_| {
            ErrorKind::TOO_MANY_STREAMS.error("too many notification streams are open; retry later")
        })?;
        let client_permit = self.clients.as_ref().map(|clients| clients.try_acquire(client)).transpose();
        let client_permit = client_permit.map_err(|limit| {
            ErrorKind::TOO_MANY_OF_CLIENT.error(format!(
                "you have {limit} notification streams open, which is the limit per client; close one first"
            ))
        })?;
        Ok((slot, client_permit.flatten()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::inbound::mcp::session_subscriptions::tests::gateway;

    #[track_caller]
    fn check(requested: Value, acknowledged: Value, change: &ChangeEvent, expected: &[(&str, Option<&str>)]) {
        let filter = serde_json::from_value(requested).unwrap();
        let subscription = Subscription::new(filter, &gateway(), &ClientIdentity::Local);
        assert_eq!(serde_json::to_value(&subscription.filter).unwrap(), acknowledged);
        let messages = subscription.messages(change);
        let messages: Vec<_> = messages.iter().map(|(method, uri)| (*method, uri.as_deref())).collect();
        assert_eq!(messages, expected);
    }

    #[tokio::test]
    async fn only_requested_notifications_are_sent() {
        let tools = json!({ "toolsListChanged": true });
        let notified = [("notifications/tools/list_changed", None)];
        check(tools.clone(), tools.clone(), &ChangeEvent::Tools, &notified);
        check(tools.clone(), tools.clone(), &ChangeEvent::Prompts, &[]);
        check(tools.clone(), tools, &ChangeEvent::Missed, &notified);
        let requested =
            json!({ "promptsListChanged": true, "toolsListChanged": false, "resourcesListChanged": null });
        let prompts = json!({ "promptsListChanged": true });
        check(requested, prompts, &ChangeEvent::Prompts, &[("notifications/prompts/list_changed", None)]);
        check(json!({}), json!({}), &ChangeEvent::Missed, &[]);
        let resource = json!({ "resourceSubscriptions": ["t://a"] });
        let notified = [("notifications/resources/updated", Some("t://a"))];
        check(resource.clone(), resource.clone(), &ChangeEvent::Resource("t://a".into()), &notified);
        check(resource.clone(), resource.clone(), &ChangeEvent::Resource("t://b".into()), &[]);
        check(resource.clone(), resource.clone(), &ChangeEvent::Missed, &notified);
        let with_unwatched = json!({ "resourceSubscriptions": ["t://a", "once:x", "none:x", "t://a"] });
        check(with_unwatched, resource, &ChangeEvent::Missed, &notified);
    }

    #[test]
    fn stream_slots_are_limited_and_released() {
        let streams = OpenStreams::new(2, None);
        let one = streams.slot(&ClientIdentity::Local).unwrap();
        let other = streams.slot(&ClientIdentity::Local).unwrap();
        assert!(streams.slot(&ClientIdentity::Local).is_err());
        drop(other);
        let _again = streams.slot(&ClientIdentity::Local).unwrap();
        drop(one);
        assert!(streams.slot(&ClientIdentity::Local).is_ok());
    }

    #[test]
    fn a_client_has_its_share_of_the_slots() {
        let streams = OpenStreams::new(9, Some(2));
        let (one, other) = (
            ClientIdentity::from_address([10, 0, 0, 1].into()),
            ClientIdentity::from_address([10, 0, 0, 2].into()),
        );
        let first = streams.slot(&one).unwrap();
        let _second = streams.slot(&one).unwrap();
        let error = streams.slot(&one).unwrap_err();
        assert!(error.text.starts_with("you have 2 notification streams open"), "{error}");
        let _others = streams.slot(&other).unwrap();
        drop(first);
        let _again = streams.slot(&one).unwrap();
    }
}
