//! The pipeline: from a call to a tool result.
//!
//! In reading order:
//! - [`Call`] is the input of an API, [`Gateway`] has the active [`Snapshot`], in which every route is a
//!   [`BoundRoute`].
//! - `run`: the steps of a call. `elicit`: input requests to the client. `async_operation`: work that is
//!   polled after the first response. `progress`: notifications to the client. `access_log`: log line,
//!   metrics and span. `error_text`: texts of tool errors.
//! - `resources`, `prompts` (with completions) and `proxied`, the prompts and resources of MCP upstreams.
//! - `lists`: tools, prompts and resources as clients see them. `watch`: their changes.
//! - `worker_pool`: threads for CPU work that may take long.

mod access_log;
mod async_operation;
mod elicit;
mod error_text;
mod lists;
mod progress;
mod prompts;
mod proxied;
mod resources;
mod run;
mod snapshot;
mod watch;
mod worker_pool;

use std::{net::IpAddr, sync::Arc};

use arc_swap::ArcSwap;
use http::HeaderMap;
use serde_json::{Map, Value};

use crate::{
    route::TraceContext,
    shared_state::SharedStore,
    telemetry::{RequestId, Span},
    translate::RETRY_AFTER_META_KEY,
    upstream::ClientIdentity,
};

pub use async_operation::{OpenOperation, OperationState};
pub use elicit::{Answering, Elicitor, NoElicitor, elicit_first};
pub use lists::{BadCursor, Entry, List, Lists, Page};
pub use progress::{Progress, Subscriber};
pub use prompts::{PromptError, Typed};
pub use proxied::{ForwardError, Members, Proxied, ProxiedTable, UriPattern};
pub use resources::{CacheScope, Freshness, ReadError, ReadResource};
pub use run::CallOutcome;
pub use snapshot::{Awaited, AwaitedLists, BoundRoute, Snapshot, SnapshotParts};
use watch::Watches;
pub use watch::{
    Change, Changes, Heard, Listener, WATCHED_LIMIT, WATCHED_URI_LIMIT_BYTES, WatchError, Watching,
};
pub use worker_pool::{WorkError, run_blocking};

/// The key of the request id in `_meta` of a tool error.
pub const REQUEST_ID_META: &str = "glossator/requestId";

/// The key in `_meta` of a tool error for the seconds after which to retry, if they can be estimated.
pub const RETRY_AFTER_META: &str = RETRY_AFTER_META_KEY;

/// The key in `_meta` of a result for the age of a cached response, in seconds.
pub const AGE_META: &str = "glossator/age";

/// The entry for every API. Clones share the active snapshot and the channel of changes.
#[derive(Debug, Clone)]
pub struct Gateway {
    snapshot: Arc<ArcSwap<Snapshot>>,
    changes: Changes,
    watches: Watches,
    shared: Option<SharedStore>,
}

impl Gateway {
    /// Begins with a snapshot.
    pub fn new(snapshot: Snapshot) -> Self {
        Self {
            snapshot: Arc::new(ArcSwap::from_pointee(snapshot)),
            changes: Changes::new(),
            watches: Watches::default(),
            shared: None,
        }
    }

    /// The same of one among several replicas, where they share something.
    #[must_use]
    pub fn sharing(self, shared: Option<SharedStore>) -> Self {
        Self { shared, ..self }
    }

    /// The state that replicas share.
    pub fn shared(&self) -> Option<&SharedStore> {
        self.shared.as_ref()
    }

    /// The active snapshot.
    pub fn snapshot(&self) -> Arc<Snapshot> {
        self.snapshot.load_full()
    }

    /// The channel of changes.
    pub fn changes(&self) -> &Changes {
        &self.changes
    }

    /// Activates another snapshot, for calls that begin from now on, and publishes its changes.
    pub fn replace(&self, mut snapshot: Snapshot) {
        // Work of calls that began before goes on, and counts.
        snapshot.workers = self.snapshot.load().workers.clone();
        let now = Arc::new(snapshot);
        let before = self.snapshot.swap(Arc::clone(&now));
        for change in now.differences(&before) {
            self.changes.tell(change);
        }
    }
}

/// A request of a client to the pipeline, without wire details: the arguments of a tool, and the context of
/// the call.
#[derive(Debug, Clone)]
pub struct Call<'a> {
    /// The arguments, not yet checked.
    pub arguments: Map<String, Value>,
    /// The client's headers; only those that a route allows by name are forwarded.
    pub headers: &'a HeaderMap,
    /// Its name in the log and in errors.
    pub request_id: RequestId,
    /// The API that received it.
    pub api: ApiKind,
    /// The client.
    pub client: ClientIdentity,
    /// The client's address, for the log.
    pub address: Option<IpAddr>,
    /// Receives progress and log notifications, if the client has requested them.
    pub subscriber: Option<&'a dyn Subscriber>,
    /// The trace that it belongs to, unless its headers name one.
    pub trace: Option<TraceContext>,
    /// The MCP revision of the client; empty for other APIs.
    pub protocol: &'static str,
    /// The span of its request, if traces are enabled.
    pub span: Span,
    /// Its MCP message, for traces.
    pub message: Option<Message<'a>>,
}

/// An MCP message, for its span.
#[derive(Debug, Clone, Copy)]
pub struct Message<'a> {
    /// The method, such as `tools/call`.
    pub method: &'a str,
    /// The id, as the client sent it.
    pub id: &'a str,
    /// Its session, where there is one. The id is a secret, so a trace gets a fingerprint.
    pub session: Option<&'a str>,
}

impl<'a> Call<'a> {
    /// A call without notifications, in the trace that its headers name.
    pub fn new(
        arguments: Map<String, Value>,
        headers: &'a HeaderMap,
        request_id: RequestId,
        api: ApiKind,
        client: ClientIdentity,
    ) -> Self {
        let (span, message) = (Span::default(), None);
        Self {
            arguments,
            headers,
            request_id,
            api,
            address: None,
            client,
            subscriber: None,
            trace: None,
            protocol: "",
            span,
            message,
        }
    }
}

/// An API, as the log names it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ApiKind {
    /// Plain HTTP.
    Rest,
    /// The Model Context Protocol over HTTP.
    Mcp,
    /// The same over the pipes of this process.
    Stdio,
    /// REST or MCP, by a web server that runs the program as CGI.
    Cgi,
}

impl ApiKind {
    /// The name, such as `rest`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Rest => "rest",
            Self::Mcp => "mcp",
            Self::Stdio => "stdio",
            Self::Cgi => "cgi",
        }
    }
}
