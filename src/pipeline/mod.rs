//! The pipeline: from a call to a tool result.
//!
//! - [`Call`] is the input from an API. [`Gateway`] has the active [`Snapshot`], in which every route is a
//!   [`BoundRoute`].
//! - `run`: the steps of a call.
//! - `elicitation`: input requests to the client.
//! - `async_operation`: operations that are polled after the first response.
//! - `progress`: notifications to the client.
//! - `access_log`: log line, metrics and span. `error_text`: messages of tool errors.
//! - `resources`, `prompts`: resources, prompts and completions of the configuration.
//!   `proxied_prompts_and_resources`: prompts and resources of MCP upstreams.
//! - `paginated_lists`: lists of tools, prompts and resources, as clients see them. `resource_polling`:
//!   changes of lists and resources.
//! - `worker_pool`: threads for CPU work that may take long.

mod access_log;
mod async_operation;
mod elicitation;
mod error_text;
mod paginated_lists;
mod progress;
mod prompts;
mod proxied_prompts_and_resources;
mod resource_polling;
mod resources;
mod run;
mod snapshot;
mod worker_pool;

use std::{net::IpAddr, sync::Arc};

use arc_swap::ArcSwap;
use http::HeaderMap;
use settings_derive::EnumSetting;
use tokio::sync::broadcast;

use crate::model::Arguments;
use crate::route::TraceContext;
use crate::shared_state::SharedStore;
use crate::telemetry::{RequestId, Span};
use crate::upstream::ClientIdentity;

pub use async_operation::{OpenOperation, OperationState};
pub use elicitation::{Elicitor, InputResponsesFuture, elicit_first};
pub use paginated_lists::{DefinitionList, DefinitionLists, ListEntry, ListPage};
pub use progress::Subscriber;
pub use prompts::TypedArgument;
pub use proxied_prompts_and_resources::{Members, ProxiedEntry, ProxiedKind, ProxiedTable, UriPattern};
use resource_polling::ResourceWatches;
pub use resource_polling::{ChangeEvent, ResourceWatch, WATCHED_LIMIT, WATCHED_URI_LIMIT_BYTES, WatchError};
pub use resources::{FetchError, ReadResource};
pub use run::CallOutcome;
pub use snapshot::{AwaitedLists, AwaitedServer, BoundRoute, Snapshot, SnapshotParts};
pub use worker_pool::{WorkError, run_blocking};

/// Key in `_meta` of a tool error for the seconds until a retry, if they can be estimated.
pub use crate::translate::RETRY_AFTER_META_KEY as RETRY_AFTER_META;

/// Key of the request id in `_meta` of a tool error.
pub const REQUEST_ID_META: &str = "glossator/requestId";

/// Key in `_meta` of a result for the age of a cached response, in seconds.
pub const AGE_META: &str = "glossator/age";

/// Entry point for every API. Clones share the active snapshot and the change channel.
#[derive(Debug, Clone)]
pub struct Gateway {
    snapshot: Arc<ArcSwap<Snapshot>>,
    /// Broadcast of the changes that clients are notified of.
    pub changes: broadcast::Sender<ChangeEvent>,
    watches: ResourceWatches,
    /// State that replicas share, if there is one.
    pub shared: Option<SharedStore>,
    /// Whether the first lists of MCP servers are being fetched. Requests that need these lists wait for a
    /// change. A new snapshot also counts as a change.
    pub fetching_lists: tokio::sync::watch::Sender<bool>,
}

impl Gateway {
    /// Creates a gateway with its first snapshot.
    pub fn new(snapshot: Snapshot) -> Self {
        Self {
            snapshot: Arc::new(ArcSwap::from_pointee(snapshot)),
            changes: broadcast::Sender::new(resource_polling::CHANNEL_CAPACITY),
            watches: ResourceWatches::default(),
            shared: None,
            fetching_lists: tokio::sync::watch::Sender::new(false),
        }
    }

    /// Snapshot that new calls use.
    pub fn snapshot(&self) -> Arc<Snapshot> {
        self.snapshot.load_full()
    }

    /// Active snapshot. While the first lists of MCP servers are being fetched, waits for a snapshot that
    /// `is_complete` accepts.
    pub async fn complete_snapshot(&self, is_complete: impl Fn(&Snapshot) -> bool) -> Arc<Snapshot> {
        let mut fetching = self.fetching_lists.subscribe();
        loop {
            let is_fetching = *fetching.borrow_and_update();
            let snapshot = self.snapshot();
            if !is_fetching || is_complete(&snapshot) || fetching.changed().await.is_err() {
                return snapshot;
            }
        }
    }

    /// Publishes a change. Without listeners, the change is dropped.
    pub fn publish(&self, change: ChangeEvent) {
        let _ = self.changes.send(change);
    }

    /// Activates another snapshot for new calls, and publishes the changes.
    pub fn replace(&self, mut snapshot: Snapshot) {
        // Calls of the old snapshot still run, and both snapshots share one worker pool.
        snapshot.workers = self.snapshot.load().workers.clone();
        let new_snapshot = Arc::new(snapshot);
        let old_snapshot = self.snapshot.swap(Arc::clone(&new_snapshot));
        self.fetching_lists.send_if_modified(|is_fetching| *is_fetching);
        for change in new_snapshot.differences(&old_snapshot) {
            self.publish(change);
        }
    }
}

/// Call of a client, without wire details: the arguments of a tool, and the context of the call.
#[derive(Debug, Clone)]
pub struct Call<'a> {
    /// Arguments, not checked yet; with input responses if the call is about an operation.
    pub arguments: Arguments,
    /// Headers of the client's request. Only headers in the allow list of the route are forwarded.
    pub headers: &'a HeaderMap,
    /// Id of the request in the log and in errors.
    pub request_id: RequestId,
    /// API that received the call.
    pub api: ApiKind,
    /// Identity of the client according to its authentication.
    pub client: ClientIdentity,
    /// Address of the client, for the log.
    pub address: Option<IpAddr>,
    /// Receiver of progress and log notifications, if the client requested them.
    pub subscriber: Option<&'a dyn Subscriber>,
    /// Trace context of the call. If it is `None`, the trace context in the headers applies, if any.
    pub trace: Option<TraceContext>,
    /// MCP revision of the client. Empty for other APIs.
    pub mcp_version: &'static str,
    /// Span of the client's request, if tracing is on.
    pub span: Span,
    /// Message that the call came in; `None` for other APIs.
    pub message: Option<McpMessage<'a>>,
}

/// Parts of an MCP message that its span records.
#[derive(Debug, Clone, Copy)]
pub struct McpMessage<'a> {
    /// Method, such as `tools/call`.
    pub method: &'a str,
    /// JSON-RPC id, as the client sent it.
    pub id: &'a str,
    /// Session id, if there is one. It is a secret, so a trace only has its fingerprint.
    pub session: Option<&'a str>,
}

impl<'a> Call<'a> {
    /// Creates a call without notifications, in the trace of its headers.
    pub fn new(
        arguments: impl Into<Arguments>,
        headers: &'a HeaderMap,
        request_id: RequestId,
        api: ApiKind,
        client: ClientIdentity,
    ) -> Self {
        Self {
            arguments: arguments.into(),
            headers,
            request_id,
            api,
            address: None,
            client,
            subscriber: None,
            trace: None,
            mcp_version: "",
            span: Span::default(),
            message: None,
        }
    }
}

/// API that received a call, with its name in the log and metrics, such as `rest`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, EnumSetting)]
pub enum ApiKind {
    /// REST over HTTP.
    Rest,
    /// MCP over HTTP.
    Mcp,
    /// MCP over stdio.
    Stdio,
    /// REST or MCP, through a web server that runs this program as CGI.
    Cgi,
}
