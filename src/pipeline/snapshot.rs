//! The state that is in force, compiled and whole, and how it differs from the one before.

use std::{
    collections::HashMap,
    sync::{Arc, OnceLock},
};

use super::{Change, Lists, ProxiedTable, sentences, worker_pool::WorkerPool};
use crate::{
    model::{ToolName, ToolResult},
    policy::{Passthrough, Policies, RoutePolicies, UpstreamPolicies},
    prompt::PromptTable,
    route::{Route, RouteTable, Scopes},
    telemetry::{Meters, RouteMeters, Tracing},
    upstream::{BodyCharge, UpstreamBuffer},
};

/// Everything that calls need, compiled and whole. A call ends with the snapshot it began with.
#[derive(Debug)]
pub struct Snapshot {
    /// Which tool is bound to what.
    pub table: RouteTable,
    /// The policies of every route, and of every upstream.
    pub policies: Policies,
    /// Who gets every path that is not ours, unread.
    pub passthrough: Option<Passthrough>,
    /// What a caller has to be allowed for that.
    pub passthrough_scopes: Scopes,
    /// What prompts there are.
    pub prompts: PromptTable,
    /// What prompts and resources there are of MCP servers.
    pub proxied: ProxiedTable,
    /// What is to be listed of servers and is not known yet.
    pub awaited: AwaitedLists,
    /// All of it, as clients read it.
    pub lists: Lists,
    pub(super) completes: OnceLock<bool>,
    pub(super) workers: WorkerPool,
    pub(super) measured: HashMap<ToolName, Arc<RouteMeters>>,
    pub(super) tracing: Tracing,
    pub(super) meters: Meters,
    /// The memory that responses of upstreams share, where it has a limit.
    pub upstream_buffer: Option<UpstreamBuffer>,
}

/// How many times its length a response counts that is only passed on: the bytes that came, their text, and the result,
/// which has it once as text and once as structure.
const PASSED_ON_FACTOR: usize = 3;

/// The same where rules or a schema look into it: the trees that they make are several times as long.
const LOOKED_INTO_FACTOR: usize = 10;

/// What is to be listed of servers that have not said yet what they have.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct AwaitedLists {
    /// Tools of these.
    pub tools: Vec<Awaited>,
    /// Prompts of these.
    pub prompts: Vec<Awaited>,
    /// Resources.
    pub resources: bool,
}

/// A server whose tools or prompts are to be listed and are not known yet: what they will be called.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Awaited {
    /// What every name begins with, but those that were given.
    pub prefix: String,
    /// The names that were given.
    pub given: Vec<String>,
}

impl Awaited {
    fn may_name(&self, name: &str) -> bool {
        name.starts_with(&self.prefix) || self.given.iter().any(|given| given == name)
    }
}

impl Snapshot {
    /// A snapshot over a table, without prompts.
    pub fn new(table: RouteTable, policies: Policies, passthrough: Option<Passthrough>) -> Self {
        Self::with_prompts(table, PromptTable::default(), policies, passthrough)
    }

    /// A snapshot over tables.
    pub fn with_prompts(
        table: RouteTable,
        prompts: PromptTable,
        policies: Policies,
        passthrough: Option<Passthrough>,
    ) -> Self {
        Self {
            lists: Lists::new(&table, &prompts, &ProxiedTable::default()),
            table,
            policies,
            passthrough,
            passthrough_scopes: Scopes::default(),
            prompts,
            proxied: ProxiedTable::default(),
            awaited: AwaitedLists::default(),
            completes: OnceLock::new(),
            workers: WorkerPool::new(),
            measured: HashMap::new(),
            tracing: Tracing::off(),
            meters: Meters::default(),
            upstream_buffer: None,
        }
        .counted_by(Meters::default())
    }

    /// The same with what a caller has to be allowed for what is handed through.
    #[must_use]
    pub fn with_passthrough_scopes(self, passthrough_scopes: Scopes) -> Self {
        Self { passthrough_scopes, ..self }
    }

    /// The same with a limit of the memory that responses of upstreams share.
    #[must_use]
    pub fn buffered_by(self, upstream_buffer: UpstreamBuffer) -> Self {
        Self { upstream_buffer: Some(upstream_buffer), ..self }
    }

    /// The policies of calls of a route.
    pub(super) fn policies_of(&self, route: &Route) -> &Arc<RoutePolicies> {
        let policies = self.policies.routes.get(&route.definition.name);
        policies.expect("a snapshot has the policies of every route")
    }

    /// The policies of what follows from such calls.
    pub(super) fn upstream_of(&self, route: &Route) -> &Arc<UpstreamPolicies> {
        let policies = self.policies.upstreams.get(&route.upstream);
        policies.expect("a snapshot has the upstream of every route")
    }

    /// How a response for a route is charged.
    pub(super) fn charge(&self, route: &Route) -> Option<BodyCharge> {
        let buffer = self.upstream_buffer.clone()?;
        let is_passed_on = route.translator.rules.is_empty() && route.translator.output.is_none();
        let factor = if is_passed_on { PASSED_ON_FACTOR } else { LOOKED_INTO_FACTOR };
        Some(BodyCharge { buffer, factor })
    }

    /// The same with prompts and resources of MCP servers.
    #[must_use]
    pub fn with_proxied(self, proxied: ProxiedTable) -> Self {
        Self { lists: Lists::new(&self.table, &self.prompts, &proxied), proxied, ..self }
    }

    /// The same with what is not known yet.
    #[must_use]
    pub fn awaiting(self, awaited: AwaitedLists) -> Self {
        Self { awaited, ..self }
    }

    /// The tool error for a name that no tool has, where it may be that of a tool which is not listed yet.
    pub fn not_ready(&self, name: &str) -> Option<ToolResult> {
        self.awaited.tools.iter().any(|server| server.may_name(name)).then(sentences::not_ready)
    }

    /// A sentence for a name that no prompt has, where it may be that of one which is not listed yet.
    pub fn prompt_not_ready(&self, name: &str) -> Option<&'static str> {
        self.awaited.prompts.iter().any(|server| server.may_name(name)).then_some(sentences::NOT_READY)
    }

    /// Whether servers may have other prompts and other resources another time: those that have some at
    /// times, or have not said it yet.
    pub fn may_have_more(&self) -> [bool; 2] {
        let (proxied, awaited) = (&self.proxied, &self.awaited);
        [proxied.has_prompts || !awaited.prompts.is_empty(), proxied.has_resources || awaited.resources]
    }

    /// Whether there are prompts, or may be another time.
    pub fn has_prompts(&self) -> bool {
        !self.lists.prompts.is_empty() || self.may_have_more()[0]
    }

    /// The same, counted by these.
    #[must_use]
    pub fn counted_by(self, meters: Meters) -> Self {
        let routes = self.table.in_order().iter();
        let measured =
            routes.map(|route| (route.definition.name.clone(), meters_of(&meters, route))).collect();
        Self { meters, measured, ..self }
    }

    /// The same, and told of in traces by this.
    #[must_use]
    pub fn traced_by(self, tracing: Tracing) -> Self {
        Self { tracing, ..self }
    }

    /// What counts the calls of a route.
    pub(super) fn meters_of(&self, route: &Route) -> Arc<RouteMeters> {
        let known = self.measured.get(&route.definition.name);
        known.map_or_else(|| meters_of(&self.meters, route), Arc::clone)
    }

    /// What a client that has read the lists of another one would read again.
    pub(super) fn differences(&self, before: &Self) -> Vec<Change> {
        let mut differences = Vec::new();
        let (now, before) = (&self.lists, &before.lists);
        if now.tools != before.tools {
            differences.push(Change::Tools);
        }
        if now.prompts != before.prompts {
            differences.push(Change::Prompts);
        }
        if now.resources != before.resources || now.resource_templates != before.resource_templates {
            differences.push(Change::Resources);
        }
        differences
    }

    /// Whether there is anything to read, or may be another time.
    pub fn has_resources(&self) -> bool {
        let lists = &self.lists;
        !lists.resources.is_empty() || !lists.resource_templates.is_empty() || self.may_have_more()[1]
    }

    /// Whether somebody can be told when one of them changes.
    pub fn watches_resources(&self) -> bool {
        let mut resources = self.table.in_order().iter().filter_map(|route| route.resource.as_ref());
        resources.any(|resource| resource.watch.is_some())
    }
}

fn meters_of(meters: &Meters, route: &Route) -> Arc<RouteMeters> {
    meters.route(route.definition.name.shared(), route.upstream.shared(), route.translator.rules.len())
}
