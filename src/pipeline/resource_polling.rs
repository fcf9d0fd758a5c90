//! Polling of watched resources, and change detection for lists and resources: upstreams don't announce
//! changes.
//!
//! [`Gateway::publish`] sends changes to subscribers. A resource is polled once for all its watchers, until
//! the last watcher is gone. An upstream that supports validators (`ETag`, `Last-Modified`) responds without
//! a body if nothing changed. Otherwise the contents, as clients would read them, are compared with the
//! contents at the last poll.
//!
//! If replicas share a store, each replica polls for its own clients and publishes changes to the other
//! replicas. So all clients are notified once, when the first replica detects a change.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;
use std::time::Duration;

use http::{HeaderMap, Method, StatusCode};
use parking_lot::Mutex;
use serde_json::{Map, Value};
use tokio::{task::AbortHandle, time::sleep};
use tracing::{debug, warn};

use super::resources::resource_from_result;
use super::{BoundRoute, FetchError, Gateway, Snapshot};
use crate::model::{Arguments, ResourceContents};
use crate::policy::conditional_headers;
use crate::route::{Route, UpstreamRequest};
use crate::shared_state::ReplicaMessage;
use crate::telemetry::{ErrorChain, Untrusted};
use crate::translate::WorkBudget;
use crate::upstream::http::jitter;
use crate::upstream::{Deadline, QuotedSource, UpstreamCall};

/// Maximum number of watched resources.
pub const WATCHED_LIMIT: usize = 1000;

/// Maximum length of the URI of a watched resource, in bytes.
pub const WATCHED_URI_LIMIT_BYTES: usize = 8 << 10;

/// Poll interval of a watched resource that has no route with a `poll_interval` since a reload. The next
/// reload may add such a route again.
const UNROUTED_INTERVAL: Duration = Duration::from_secs(60);

/// Capacity of the change channel. A listener that falls further behind misses changes, so neither a slow
/// listener nor a busy upstream makes the queue grow.
pub(super) const CHANNEL_CAPACITY: usize = 256;

/// Change of something that a client may have read before.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum ChangeEvent {
    /// The list of tools.
    Tools,
    /// The list of prompts.
    Prompts,
    /// The lists of resources and of resource templates.
    Resources,
    /// The contents of this URI.
    Resource(Arc<str>),
    /// A listener has missed some changes, so anything may have changed.
    Missed,
}

/// Reason why a resource is not watched. The message is for clients.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum WatchError {
    /// No route has a resource with this URI.
    #[error("unknown resource; `resources/list` and `resources/templates/list` list the available ones")]
    Unknown,
    /// The route of the resource has no `poll_interval`.
    #[error("this resource does not support subscriptions; read it again to see changes")]
    Unwatched,
    /// The URI is longer than [`WATCHED_URI_LIMIT_BYTES`].
    #[error("the URI of a subscription may have at most {WATCHED_URI_LIMIT_BYTES} bytes")]
    TooLong,
    /// [`WATCHED_LIMIT`] resources are watched already.
    #[error("the limit of {WATCHED_LIMIT} watched resources is reached; retry later")]
    ServerLimit,
    /// The client has reached its limit of subscriptions.
    #[error("this session has reached its limit of subscriptions; unsubscribe from some first")]
    SessionLimit,
    /// The session began when the number of sessions with a stream had reached its limit.
    #[error("too many sessions have a stream, so this one gets no updates; retry later in a new session")]
    TooManySessions,
}

/// Subscription to a resource until dropped. Changes are published as [`ChangeEvent::Resource`].
#[derive(Debug)]
#[must_use]
pub struct ResourceWatch {
    /// Watched URI.
    pub uri: Arc<str>,
    watches: ResourceWatches,
}

/// Watched resources, by URI.
#[derive(Debug, Clone, Default)]
pub(super) struct ResourceWatches(Arc<Mutex<HashMap<Arc<str>, Watched>>>);

#[derive(Debug)]
struct Watched {
    /// Number of watchers.
    watchers: usize,
    /// Task that polls the upstream.
    task: AbortHandle,
    /// Fingerprint of the latest contents: of the last poll, or of a later change that another replica has
    /// published.
    last_fingerprint: Option<u64>,
}

/// State of a resource at its last poll.
#[derive(Debug)]
struct PolledResource {
    /// Fingerprint of the contents.
    fingerprint: u64,
    /// Route that read the resource. Another route may translate the same response to other contents.
    route: Option<Arc<Route>>,
    /// Conditional headers of the next request.
    conditions: HeaderMap,
}

impl Gateway {
    /// Checks whether subscribers can be notified of changes of this resource.
    ///
    /// # Errors
    ///
    /// [`WatchError::Unknown`], [`WatchError::Unwatched`] or [`WatchError::TooLong`].
    pub fn can_watch(&self, uri: &str) -> Result<(), WatchError> {
        if uri.len() > WATCHED_URI_LIMIT_BYTES {
            return Err(WatchError::TooLong);
        }
        let snapshot = self.snapshot();
        let unknown = || match snapshot.proxied.resource(uri) {
            Some(_) => WatchError::Unwatched,
            None => WatchError::Unknown,
        };
        let (route, _) = snapshot.table.by_uri(uri).ok_or_else(unknown)?;
        let interval = route.resource.as_ref().and_then(|resource| resource.poll_interval);
        interval.map(|_| ()).ok_or(WatchError::Unwatched)
    }

    /// Watches a resource until the returned value is dropped. Requires a Tokio runtime.
    ///
    /// # Errors
    ///
    /// Like [`can_watch`](Self::can_watch), or [`WatchError::ServerLimit`].
    pub fn watch(&self, uri: &str) -> Result<ResourceWatch, WatchError> {
        self.can_watch(uri)?;
        let uri: Arc<str> = uri.into();
        let mut watched = self.watches.0.lock();
        let is_full = watched.len() >= WATCHED_LIMIT;
        match watched.entry(Arc::clone(&uri)) {
            Entry::Occupied(mut entry) => entry.get_mut().watchers += 1,
            Entry::Vacant(_) if is_full => return Err(WatchError::ServerLimit),
            Entry::Vacant(entry) => {
                let task = tokio::spawn(poll_forever(self.clone(), Arc::clone(&uri))).abort_handle();
                entry.insert(Watched { watchers: 1, task, last_fingerprint: None });
            }
        }
        Ok(ResourceWatch { uri, watches: self.watches.clone() })
    }

    /// Handles a change that another replica has detected. Publishes the change to subscribers, unless it was
    /// published before.
    pub fn on_remote_change(&self, uri: &str, fingerprint: u64) {
        let Some(last_fingerprint) = self.watches.replace_fingerprint(uri, fingerprint) else { return };
        if last_fingerprint != Some(fingerprint) {
            debug!(%uri, "resource changed, reported by another replica");
            self.publish(ChangeEvent::Resource(uri.into()));
        }
    }

    /// Number of watched resources.
    pub fn watched(&self) -> usize {
        self.watches.0.lock().len()
    }
}

impl ResourceWatches {
    /// Replaces the fingerprint of a watched resource, and returns the previous one. `None` if the resource
    /// is not watched.
    fn replace_fingerprint(&self, uri: &str, fingerprint: u64) -> Option<Option<u64>> {
        Some(self.0.lock().get_mut(uri)?.last_fingerprint.replace(fingerprint))
    }
}

impl Drop for ResourceWatch {
    fn drop(&mut self) {
        let mut watched = self.watches.0.lock();
        let Some(entry) = watched.get_mut(&self.uri) else { return };
        entry.watchers -= 1;
        if entry.watchers == 0 {
            entry.task.abort();
            watched.remove(&self.uri);
        }
    }
}

/// Polls a resource at its interval and publishes its changes, until it is aborted.
async fn poll_forever(gateway: Gateway, uri: Arc<str>) {
    let mut last_poll: Option<PolledResource> = None;
    let mut is_failing = false;
    loop {
        // The task holds no snapshot while it sleeps, so that an old snapshot is freed after a reload.
        let (polled, interval) =
            gateway.snapshot().poll_resource(&uri, last_poll.as_ref(), &mut is_failing).await;
        if let Some(resource) = polled {
            let fingerprint = resource.fingerprint;
            // Another replica may have published the change before this poll.
            let last_fingerprint = gateway.watches.replace_fingerprint(&uri, fingerprint).flatten();
            let is_new = last_fingerprint.is_some_and(|previous| previous != fingerprint);
            if is_new {
                debug!(%uri, "resource changed");
                gateway.publish(ChangeEvent::Resource(Arc::clone(&uri)));
            }
            let has_changed = last_poll.as_ref().is_some_and(|previous| previous.fingerprint != fingerprint);
            // Publish only what has changed since this replica's last poll. Two replicas that merely see
            // different contents would notify each other endlessly.
            if let Some(shared) = gateway.shared.as_ref().filter(|_| is_new && has_changed) {
                shared.publish(&ReplicaMessage::Changed { uri: Arc::clone(&uri), fingerprint });
            }
            last_poll = Some(resource);
        }
        sleep(jitter(interval)).await;
    }
}

impl Snapshot {
    /// Polls a resource once, and returns the time until the next poll. The state is `None` if the resource
    /// is unchanged or the poll failed.
    async fn poll_resource(
        &self,
        uri: &str,
        last_poll: Option<&PolledResource>,
        is_failing: &mut bool,
    ) -> (Option<PolledResource>, Duration) {
        let found = self.table.by_uri(uri).and_then(|(route, arguments)| {
            let interval = route.resource.as_ref()?.poll_interval?;
            Some((route, arguments, interval))
        });
        // After a reload, no route reads or polls the resource any more.
        let Some((route, arguments, interval)) = found else {
            return (Some(PolledResource::missing(None)), UNROUTED_INTERVAL);
        };
        let polled = self.poll_route(route, uri, arguments, last_poll).await;
        let was_failing = std::mem::replace(is_failing, polled.is_err());
        if let (Err(error), false) = (&polled, was_failing) {
            // Only the first of a series of failures is logged, because the others mostly have the same
            // reason.
            let (redaction, route) = (&route.translator.redaction, &route.definition.name);
            warn!(%route, %error, "polling a resource failed");
            let quoted = redaction.redact(&error.quoted);
            debug!(%route, uri = %Untrusted(uri), error = %Untrusted(&quoted), "resource poll error text");
        }
        (polled.ok().flatten(), interval)
    }

    /// Polls a resource through its route. `None` if the resource is unchanged. The error may quote the URI
    /// or the response.
    async fn poll_route(
        &self,
        route: &Arc<BoundRoute>,
        uri: &str,
        arguments: Map<String, Value>,
        last_poll: Option<&PolledResource>,
    ) -> Result<Option<PolledResource>, QuotedSource> {
        let deadline = Deadline::after(route.timeout);
        let invalid = |quoted| QuotedSource::new("the arguments in its URI are invalid", quoted);
        let arguments = self.check_arguments(route, arguments.into()).await.map_err(invalid)?;
        let build = |route: &Route, arguments: &Arguments, headers: &HeaderMap, work_budget: &WorkBudget| {
            route.request.build(arguments, headers, Some(work_budget))
        };
        let request = self.workers.build(route, &arguments, &HeaderMap::new(), deadline.at, build).await;
        let request = request.map_err(|_| QuotedSource::new("its request can't be built in time", ""))?;
        let mut request = request.map_err(|error| invalid(error.to_string()))?;
        let last_poll = last_poll.filter(|last_poll| {
            last_poll.route.as_ref().is_some_and(|other| Arc::ptr_eq(other, &route.route))
        });
        if let (Some(last_poll), UpstreamRequest::Http(request)) = (last_poll, &mut request)
            && request.method == Method::GET
        {
            // Headers that the route itself sets take precedence.
            for (name, value) in &last_poll.conditions {
                request.headers.entry(name).or_insert_with(|| value.clone());
            }
        }
        let upstream_call =
            UpstreamCall::new(request, route.response_limit_bytes, deadline, route.idempotent);
        let upstream_call = UpstreamCall { charge: route.charge.clone(), ..upstream_call };
        let response = route.policies.upstream.call(&upstream_call).await;
        let response = response.map_err(|error| {
            QuotedSource::new(ErrorChain(&error).to_string(), error.quoted_text().unwrap_or_default())
        })?;
        if response.status == StatusCode::NOT_MODIFIED && last_poll.is_some() {
            return Ok(None);
        }
        let translation = self.workers.translate(route, arguments, response.clone(), deadline.at).await;
        let translation =
            translation.map_err(|_| QuotedSource::new("its response can't be translated", ""))?;
        match resource_from_result(route, uri, &translation.result, Some(&response)) {
            Ok(resource) => Ok(Some(PolledResource {
                fingerprint: fingerprint(&resource.contents),
                route: Some(Arc::clone(&route.route)),
                conditions: conditional_headers(&response.headers),
            })),
            Err(FetchError::Missing(_)) => Ok(Some(PolledResource::missing(Some(Arc::clone(&route.route))))),
            Err(error) => Err(QuotedSource::new("it can't be read", error.to_string())),
        }
    }
}

impl PolledResource {
    /// State of a missing resource.
    fn missing(route: Option<Arc<Route>>) -> Self {
        Self { fingerprint: fingerprint(&[]), route, conditions: HeaderMap::new() }
    }
}

fn fingerprint(contents: &[ResourceContents]) -> u64 {
    let mut hasher = DefaultHasher::new();
    contents.hash(&mut hasher);
    hasher.finish()
}
