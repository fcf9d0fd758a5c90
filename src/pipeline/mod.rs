//! From a call to a tool result.
//!
//! In reading order: [`Call`] is what a face asks; [`Gateway`] holds the [`Snapshot`] that is in force;
//! `calling` is a call's way to its result, in which an [`Asker`] takes questions to the client, `patience`
//! is how long its caller waits, and `sentences` says of a failure what a model can do about it. `job`
//! follows work that outlasts the first reply: [`Audience`] is who is told of it meanwhile, [`OpenJob`] one
//! that its caller asks about. `record` writes the one log line of a call. [`Lists`] are the tools, prompts
//! and resources as clients read them, [`Changes`] tells that one is another now, and a
//! [`ProxiedTable`] has the prompts and resources that are an MCP server's own.

mod asking;
mod audience;
mod call;
mod calling;
mod changes;
mod completing;
mod handed;
mod job;
mod lists;
mod patience;
mod prompting;
mod proxied;
mod questions;
mod reading;
mod record;
mod sentences;
mod snapshot;
mod spans;
mod translating;
mod watch;
mod worker_pool;

use std::sync::Arc;

use arc_swap::ArcSwap;

use crate::{shared_state::SharedStore, translate::RETRY_AFTER_META_KEY};

pub use audience::{Audience, Progress};
pub use call::{Call, Face, Message};
pub use changes::{Change, Changes, Heard, Listener};
pub use completing::Typed;
pub use handed::{Called, JobState, OpenJob};
pub use lists::{BadCursor, Entry, List, Lists, Page};
pub use prompting::{CallOf, PromptError};
pub use proxied::{ForwardError, Members, Proxied, ProxiedTable, UriPattern};
pub use questions::{Answering, Asker, ask_first};
pub use reading::{CacheScope, Freshness, ReadError, ReadResource};
pub use snapshot::{Awaited, AwaitedLists, BoundRoute, Snapshot, SnapshotParts};
use watch::Watches;
pub use watch::{WATCHED_LIMIT, WATCHED_URI_LIMIT_BYTES, WatchError, Watching};
pub use worker_pool::{WorkError, run_blocking};

/// The key in `_meta` of a tool error under which the request id stands.
pub const REQUEST_ID_META: &str = "glossator/requestId";

/// The key in `_meta` of a tool error under which stands after how many seconds to try again, where that is
/// known.
pub const RETRY_AFTER_META: &str = RETRY_AFTER_META_KEY;

/// The key in `_meta` of a result under which stands how many seconds ago the upstream gave it, where it was
/// kept since.
pub const AGE_META: &str = "glossator/age";

/// The way in for every face. Clones share one snapshot, and one place where changes are told.
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

    /// What it shares with other replicas.
    pub fn shared(&self) -> Option<&SharedStore> {
        self.shared.as_ref()
    }

    /// What is in force now.
    pub fn snapshot(&self) -> Arc<Snapshot> {
        self.snapshot.load_full()
    }

    /// Where it is told that something changed.
    pub fn changes(&self) -> &Changes {
        &self.changes
    }

    /// Puts another snapshot in force, for calls that begin from now on, and tells what clients see of it.
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
