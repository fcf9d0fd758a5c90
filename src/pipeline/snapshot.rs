//! The state that is in force, compiled and whole, and how it differs from the one before.

use std::{
    borrow::Borrow,
    collections::HashMap,
    ops::Deref,
    sync::{Arc, OnceLock},
};

use super::{Change, Lists, ProxiedTable, error_text, worker_pool::WorkerPool};
use crate::{
    model::{ToolName, ToolResult},
    policy::{Passthrough, Policies, RoutePolicies},
    prompt::PromptTable,
    route::{Route, RouteTable, Scopes},
    telemetry::{Meters, RouteMeters, Tracing},
    upstream::{BodyCharge, UpstreamBuffer},
};

/// Everything that calls need, compiled and whole. A call ends with the snapshot it began with.
#[derive(Debug)]
pub struct Snapshot {
    /// The routes, each with what its calls use.
    pub table: RouteTable<BoundRoute>,
    /// The policies of every route, and of every upstream.
    pub policies: Policies,
    /// The upstream of all paths that are not ours.
    pub passthrough: Option<Passthrough>,
    /// The scopes that it needs.
    pub passthrough_scopes: Scopes,
    /// The prompts of the configuration.
    pub prompts: PromptTable,
    /// The prompts and resources of MCP upstreams.
    pub proxied: ProxiedTable,
    /// The lists that upstreams have not sent yet.
    pub awaited: AwaitedLists,
    /// All of it, as clients read it.
    pub lists: Lists,
    /// The memory that responses of upstreams share, where it has a limit.
    pub upstream_buffer: Option<UpstreamBuffer>,
    pub(super) completes: OnceLock<bool>,
    pub(super) workers: WorkerPool,
    pub(super) tracing: Tracing,
    /// The routes by which requests for prompts and resources are forwarded; they are in no table.
    pub(super) forwarding: HashMap<ToolName, Arc<BoundRoute>>,
}

/// The compiled parts of a configuration.
#[derive(Debug, Default)]
pub struct SnapshotParts {
    /// The routes.
    pub table: RouteTable,
    /// The policies of every route and of every upstream.
    pub policies: Policies,
    /// The prompts of the configuration.
    pub prompts: PromptTable,
    /// The prompts and resources of MCP upstreams.
    pub proxied: ProxiedTable,
    /// The lists that upstreams have not sent yet.
    pub awaited: AwaitedLists,
    /// The upstream of all paths that are not ours.
    pub passthrough: Option<Passthrough>,
    /// The scopes that it needs.
    pub passthrough_scopes: Scopes,
    /// The metrics of calls.
    pub meters: Meters,
    /// The spans of calls.
    pub tracing: Tracing,
    /// The memory that responses of upstreams share, where it has a limit.
    pub upstream_buffer: Option<UpstreamBuffer>,
}

/// A route and what its calls use, bound when the configuration is loaded.
#[derive(Debug)]
pub struct BoundRoute {
    pub(super) route: Arc<Route>,
    pub(super) policies: Arc<RoutePolicies>,
    pub(super) meters: Arc<RouteMeters>,
    /// The account of the memory of its responses.
    pub(super) charge: Option<BodyCharge>,
}

impl Deref for BoundRoute {
    type Target = Route;

    fn deref(&self) -> &Route {
        &self.route
    }
}

impl Borrow<Route> for BoundRoute {
    fn borrow(&self) -> &Route {
        &self.route
    }
}

/// How many times its length a response counts that is only passed on: the bytes that came, their text, and
/// the result, which has it once as text and once as structure.
const PASSED_ON_FACTOR: usize = 3;

/// The same where rules or a schema look into it: the trees that they make are several times as long.
const LOOKED_INTO_FACTOR: usize = 10;

/// The lists that MCP upstreams have not sent yet.
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
    /// The prefix of every name but these.
    pub prefix: String,
    /// The names that were given.
    pub given: Vec<String>,
}

impl Awaited {
    fn may_name(&self, name: &str) -> bool {
        name.starts_with(&self.prefix) || self.given.iter().any(|given| given == name)
    }
}

impl BoundRoute {
    fn new(
        route: Arc<Route>,
        policies: &Policies,
        meters: &Meters,
        buffer: Option<&UpstreamBuffer>,
    ) -> Arc<Self> {
        let name = &route.definition.name;
        let policies = policies.routes.get(name).expect("every route has policies").clone();
        let rules = route.translator.rules.len();
        let meters = meters.route(name.shared(), route.upstream.shared(), rules);
        let is_passed_on = rules == 0 && route.translator.output.is_none();
        let factor = if is_passed_on { PASSED_ON_FACTOR } else { LOOKED_INTO_FACTOR };
        let charge = buffer.map(|buffer| BodyCharge { buffer: buffer.clone(), factor });
        Arc::new(Self { route, policies, meters, charge })
    }
}

impl Snapshot {
    /// Builds a snapshot of its parts, and binds each route to the resources of its calls.
    ///
    /// # Panics
    ///
    /// When a route has no policies.
    pub fn new(parts: SnapshotParts) -> Self {
        let SnapshotParts { table, policies, prompts, proxied, awaited, meters, .. } = parts;
        let lists = Lists::new(&table, &prompts, &proxied);
        let bind = |route| BoundRoute::new(route, &policies, &meters, parts.upstream_buffer.as_ref());
        let forwarding = proxied.all().map(|entry| &entry.route);
        let forwarding = forwarding.map(|route| (route.definition.name.clone(), bind(Arc::clone(route))));
        Self {
            forwarding: forwarding.collect(),
            table: table.map(bind),
            policies,
            passthrough: parts.passthrough,
            passthrough_scopes: parts.passthrough_scopes,
            prompts,
            proxied,
            awaited,
            lists,
            upstream_buffer: parts.upstream_buffer,
            completes: OnceLock::new(),
            workers: WorkerPool::new(),
            tracing: parts.tracing,
        }
    }

    /// The tool error for a name that no tool has, where it may be that of a tool which is not listed yet.
    pub fn not_ready(&self, name: &str) -> Option<ToolResult> {
        self.awaited.tools.iter().any(|server| server.may_name(name)).then(error_text::not_ready)
    }

    /// A sentence for a name that no prompt has, where it may be that of one which is not listed yet.
    pub fn prompt_not_ready(&self, name: &str) -> Option<&'static str> {
        self.awaited.prompts.iter().any(|server| server.may_name(name)).then_some(error_text::NOT_READY)
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

    /// The changes for clients that have read the lists of the snapshot before.
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
