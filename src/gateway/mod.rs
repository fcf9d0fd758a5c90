//! From a call to a tool result.
//!
//! [`Snapshot::call`] reads like a table of contents. In reading order: [`Call`] is what a face asks, free of
//! any wire; [`Gateway`] holds the [`Snapshot`] that is in force; `sentences` says of a failure what a model can
//! do about it; `job` follows work that outlasts the first reply; `record` writes the one log line of a call;
//! [`Catalog`] is what can be called, [`Page`] some of a list, and [`Changes`] tells that it is another one now.

mod catalog;
mod changes;
mod job;
mod pages;
mod record;
mod sentences;
mod translating;

use std::{
    collections::HashMap,
    sync::{Arc, OnceLock},
};

use arc_swap::ArcSwap;
use bytes::Bytes;
use http::HeaderMap;
use serde_json::{Map, Value};
use tower::ServiceExt;

use crate::{
    observe::RequestId,
    policy::{Guarded, Passthrough},
    reply::Reply,
    route::{Route, RouteTable, UpstreamName, UpstreamRequest},
    tool::{Arguments, Fault, ToolResult},
    upstream::{Ask, Due, UpstreamError},
};

pub use catalog::{Catalog, CatalogEntry};
pub use changes::{Change, Changes, Heard, Listener};
use job::{Ended, Following};
pub use pages::{BadCursor, Keyed, Listed, Listing, Page};
use record::Record;
use translating::{Translating, Untranslated};

/// The key in `_meta` of a tool error under which the request id stands.
pub const REQUEST_ID_META: &str = "glossator/requestId";

/// One tool invocation, free of wire details.
#[derive(Debug)]
pub struct Call<'a> {
    /// The arguments, not yet checked.
    pub arguments: Map<String, Value>,
    /// The caller's headers; only those that a route allows by name go on.
    pub headers: &'a HeaderMap,
    /// What this call is named in the log and in errors.
    pub request_id: RequestId,
    /// By which way the call came in.
    pub face: Face,
}

/// A way in, as the log names it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Face {
    /// Plain HTTP.
    Rest,
    /// The Model Context Protocol over HTTP.
    Mcp,
    /// The same over the pipes of this process.
    Stdio,
    /// REST or MCP, through a web server that starts the program.
    Cgi,
}

impl Face {
    /// Such as `rest`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Rest => "rest",
            Self::Mcp => "mcp",
            Self::Stdio => "stdio",
            Self::Cgi => "cgi",
        }
    }
}

/// Everything that calls need, compiled and whole. A call ends with the snapshot it began with.
#[derive(Debug)]
pub struct Snapshot {
    /// Which tool is bound to what.
    pub table: RouteTable,
    /// Whom to ask; every route's upstream is here.
    pub upstreams: HashMap<UpstreamName, Guarded>,
    /// Who gets every path that is not ours, unread.
    pub passthrough: Option<Passthrough>,
    /// What can be called, as clients read it.
    pub catalog: Catalog,
    written: OnceLock<Bytes>,
    translating: Translating,
}

/// The way in for every face. Clones share one snapshot, and one place where changes are told.
#[derive(Debug, Clone)]
pub struct Gateway {
    snapshot: Arc<ArcSwap<Snapshot>>,
    changes: Changes,
}

impl Gateway {
    /// Begins with a snapshot.
    pub fn new(snapshot: Snapshot) -> Self {
        Self { snapshot: Arc::new(ArcSwap::from_pointee(snapshot)), changes: Changes::new() }
    }

    /// What is in force now.
    pub fn snapshot(&self) -> Arc<Snapshot> {
        self.snapshot.load_full()
    }

    /// Where it is told that something changed.
    pub fn changes(&self) -> &Changes {
        &self.changes
    }

    /// Puts another snapshot in force, for calls that begin from now on.
    pub fn replace(&self, snapshot: Snapshot) {
        self.snapshot.store(Arc::new(snapshot));
    }
}

impl Snapshot {
    /// A snapshot over a table; the catalog is made of it.
    pub fn new(
        table: RouteTable,
        upstreams: HashMap<UpstreamName, Guarded>,
        passthrough: Option<Passthrough>,
    ) -> Self {
        let catalog = Catalog::of(&table);
        let (written, translating) = (OnceLock::new(), Translating::new());
        Self { table, upstreams, passthrough, catalog, written, translating }
    }

    /// A document about this snapshot, written when it is first asked for.
    pub fn written_once(&self, write: impl FnOnce(&Self) -> Bytes) -> &Bytes {
        self.written.get_or_init(|| write(self))
    }

    /// Calls the tool of a route of this snapshot. Every failure is a tool result. Dropping the future cancels the
    /// upstream request.
    pub async fn call(&self, route: &Arc<Route>, call: Call<'_>) -> ToolResult {
        let mut record = Record::begin(&route.definition.name, call.face, &call.request_id);
        let mut result = match self.answer(route, call.arguments, call.headers, &mut record).await {
            Ok(result) => result,
            // Whatever such an error quotes, a caller's arguments too, it keeps what a translated one does.
            Err(ended_early) => route.translator.for_clients(*ended_early),
        };
        if result.is_error() {
            result = result
                .with_errors_as(route.error_format)
                .with_meta(REQUEST_ID_META, call.request_id.as_str());
        }
        record.end(result.outcome);
        result
    }

    /// A result either way; an `Err` is one that ended the call early, boxed because it is the seldom one.
    async fn answer(
        &self,
        route: &Arc<Route>,
        arguments: Map<String, Value>,
        callers_headers: &HeaderMap,
        record: &mut Record<'_>,
    ) -> Result<ToolResult, Box<ToolResult>> {
        let due = Due::after(route.deadline);
        let arguments = check(route, arguments)?;
        let request = build(route, &arguments, callers_headers)?;
        let mut failed = None;
        let reply = match &route.job {
            None => self.ask(route, request, due, record).await?,
            Some(job) => {
                let reply = self.ask(route, request.clone(), due, record).await?;
                let (arguments, headers) = (&arguments, callers_headers);
                let following = Following { snapshot: self, route, job, arguments, headers, due };
                match following.to_the_end(request, reply, record).await? {
                    Ended::Reply(reply) => reply,
                    Ended::Failed(reply, stand) => {
                        failed = Some(stand);
                        reply
                    }
                }
            }
        };
        match self.translating.translate(route, arguments, reply, due.at).await {
            Ok(translation) => {
                record.notes(&translation.notes, translation.result.outcome);
                match failed {
                    // The rules may know better words for the failure.
                    Some(stand) if !translation.result.is_error() => {
                        Err(Box::new(sentences::job_failed(stand.message.as_deref())))
                    }
                    Some(_) | None => Ok(translation.result),
                }
            }
            Err(Untranslated::Panicked) => {
                record.panicked();
                Err(Box::new(ToolResult::error(Fault::Unreadable, sentences::UNREADABLE)))
            }
            Err(Untranslated::TooLate) => Err(Box::new(sentences::too_late(route.deadline))),
        }
    }

    async fn ask(
        &self,
        route: &Route,
        request: UpstreamRequest,
        due: Due,
        record: &mut Record<'_>,
    ) -> Result<Reply, Box<ToolResult>> {
        let upstream =
            self.upstreams.get(&route.upstream).expect("a snapshot has the upstream of every route").clone();
        let method = request.method.clone();
        let repeatable = route.repeatable.unwrap_or_else(|| method.is_idempotent());
        let ask = Ask { request, reply_limit_bytes: route.reply_limit_bytes, due, repeatable };
        let reply = upstream.oneshot(ask).await.map_err(|error: UpstreamError| {
            record.upstream_failed(&error);
            Box::new(sentences::of(&error, &method))
        })?;
        record.replied(reply.status);
        Ok(reply)
    }
}

fn check(route: &Route, arguments: Map<String, Value>) -> Result<Arguments, Box<ToolResult>> {
    let checked = route.input.check(arguments.into());
    checked.map_err(|sentence| Box::new(ToolResult::error(Fault::Arguments, sentence)))
}

fn build(
    route: &Route,
    arguments: &Arguments,
    headers: &HeaderMap,
) -> Result<UpstreamRequest, Box<ToolResult>> {
    let request = route.request.build(arguments, headers);
    request.map_err(|error| Box::new(ToolResult::error(Fault::Arguments, error.to_string())))
}
