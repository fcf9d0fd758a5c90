//! Snapshot: the active configuration in compiled form, and its differences from the previous one.

use std::{borrow::Borrow, collections::HashMap, sync::Arc};

use super::worker_pool::WorkerPool;
use super::{ChangeEvent, DefinitionLists, ProxiedTable, error_text};
use crate::model::{ToolName, ToolResult};
use crate::policy::{Passthrough, Policies, RoutePolicies};
use crate::prompt::PromptTable;
use crate::route::{Route, RouteTable, UpstreamName};
use crate::telemetry::{Meters, RouteMeters, Tracer};
use crate::upstream::{BodyCharge, UpstreamBuffer};

/// Compiled configuration with everything that calls need. A call uses the same snapshot from start to end.
#[derive(Debug, derive_more::Deref)]
pub struct Snapshot {
    /// Routes, each with its runtime state.
    pub table: RouteTable<BoundRoute>,
    /// Lists as clients see them.
    pub lists: DefinitionLists,
    pub(super) workers: WorkerPool,
    /// Routes that forward requests for prompts and resources. These routes are in no route table.
    pub(super) forwarding: HashMap<ToolName, Arc<BoundRoute>>,
    #[deref]
    parts: SnapshotParts,
}

/// Compiled parts of a configuration, besides its routes.
#[derive(Debug, Default)]
pub struct SnapshotParts {
    /// Policies of every route and upstream.
    pub policies: Policies,
    /// Prompts of the configuration.
    pub prompts: PromptTable,
    /// Prompts and resources of MCP upstreams.
    pub proxied: ProxiedTable,
    /// Lists that upstreams have not sent yet.
    pub awaited: AwaitedLists,
    /// Upstream of all paths that glossator does not serve itself.
    pub passthrough: Option<Passthrough>,
    /// Metrics of calls.
    pub meters: Meters,
    /// Tracer of calls.
    pub tracing: Tracer,
    /// Memory limit of upstream responses, if there is one.
    pub upstream_buffer: Option<UpstreamBuffer>,
}

/// Route with the runtime state of its calls, bound when the configuration is loaded.
#[derive(Debug, derive_more::Deref)]
pub struct BoundRoute {
    #[deref(forward)]
    pub(super) route: Arc<Route>,
    pub(super) policies: Arc<RoutePolicies>,
    pub(super) meters: Arc<RouteMeters>,
    /// Memory charge of its responses.
    pub(super) charge: Option<BodyCharge>,
}

impl Borrow<Route> for BoundRoute {
    fn borrow(&self) -> &Route {
        &self.route
    }
}

/// Memory of a response that no rule parses, as a multiple of its length: the received bytes, the decoded
/// text, and the result, which contains them as text and as structured content.
const UNPARSED_FACTOR: usize = 3;

/// Memory of a response that rules or a schema parse, as a multiple of its length: the trees are several
/// times as large.
const PARSED_FACTOR: usize = 10;

/// Lists that MCP upstreams have not sent yet.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct AwaitedLists {
    /// Servers that have sent no lists.
    pub servers: Vec<UpstreamName>,
    /// Servers that have not listed their tools yet.
    pub tools: Vec<AwaitedServer>,
    /// Servers that have not listed their prompts yet.
    pub prompts: Vec<AwaitedServer>,
    /// Whether any server has not listed its resources yet.
    pub resources: bool,
}

/// Server whose tools or prompts are not known yet, with the names that they may have.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AwaitedServer {
    /// Prefix of all names except those in `names`.
    pub prefix: String,
    /// Explicitly configured names.
    pub names: Vec<String>,
}

impl AwaitedServer {
    fn may_list(&self, name: &str) -> bool {
        name.starts_with(&self.prefix) || self.names.iter().any(|configured| configured == name)
    }
}

impl BoundRoute {
    fn new(route: Arc<Route>, parts: &SnapshotParts) -> Arc<Self> {
        let name = &route.definition.name;
        let policies = parts.policies.routes.get(name).expect("every route has policies").clone();
        let rules = route.translator.rules.len();
        let meters = parts.meters.route(name.shared(), route.upstream.shared(), rules);
        let is_unparsed = rules == 0 && route.translator.output.is_none();
        let factor = if is_unparsed { UNPARSED_FACTOR } else { PARSED_FACTOR };
        let charge = parts.upstream_buffer.clone().map(|buffer| BodyCharge { buffer, factor });
        Arc::new(Self { route, policies, meters, charge })
    }
}

impl Snapshot {
    /// Builds a snapshot, and binds each route to its policies, metrics and memory charge.
    ///
    /// # Panics
    ///
    /// If a route has no policies.
    pub fn new(table: RouteTable, parts: SnapshotParts) -> Self {
        let lists = DefinitionLists::new(&table, &parts.prompts, &parts.proxied);
        let bind = |route| BoundRoute::new(route, &parts);
        let forwarding = parts.proxied.all().map(|entry| &entry.route);
        let forwarding = forwarding.map(|route| (route.definition.name.clone(), bind(Arc::clone(route))));
        let (forwarding, table) = (forwarding.collect(), table.map(bind));
        Self { table, lists, workers: WorkerPool::new(), forwarding, parts }
    }

    /// Tool error for an unknown name that may belong to a tool which is not listed yet.
    pub fn not_ready(&self, name: &str) -> Option<ToolResult> {
        self.may_list_tool(name).then(error_text::not_ready)
    }

    /// Whether a server may list a tool of this name later.
    pub fn may_list_tool(&self, name: &str) -> bool {
        self.awaited.tools.iter().any(|server| server.may_list(name))
    }

    /// Whether the upstream of a route is an MCP server that has sent no lists yet. These lists may complete
    /// the definition of the route.
    pub fn awaits_lists_for(&self, route: &Route) -> bool {
        self.awaited.servers.contains(&route.upstream)
    }

    /// Error message for an unknown name that may belong to a prompt which is not listed yet.
    pub fn prompt_not_ready(&self, name: &str) -> Option<&'static str> {
        self.awaited.prompts.iter().any(|server| server.may_list(name)).then_some(error_text::NOT_READY)
    }

    /// Whether any server may list prompts (first value) or resources (second value) later: a server that
    /// declares them, or that has not responded yet.
    pub fn may_list_more(&self) -> [bool; 2] {
        let (proxied, awaited) = (&self.proxied, &self.awaited);
        [proxied.has_prompts || !awaited.prompts.is_empty(), proxied.has_resources || awaited.resources]
    }

    /// Whether there are prompts, or may be later.
    pub fn has_prompts(&self) -> bool {
        !self.lists.prompts.is_empty() || self.may_list_more()[0]
    }

    /// Compares the lists of the snapshot `previous` with this one. Returns the changes that clients are
    /// notified of.
    pub(super) fn differences(&self, previous: &Self) -> Vec<ChangeEvent> {
        let (current, previous) = (&self.lists, &previous.lists);
        let resources = current.resources != previous.resources
            || current.resource_templates != previous.resource_templates;
        let changes = [
            (current.tools != previous.tools, ChangeEvent::Tools),
            (current.prompts != previous.prompts, ChangeEvent::Prompts),
            (resources, ChangeEvent::Resources),
        ];
        changes.into_iter().filter_map(|(has_changed, event)| has_changed.then_some(event)).collect()
    }

    /// Whether there are resources, or may be later.
    pub fn has_resources(&self) -> bool {
        let lists = &self.lists;
        !lists.resources.is_empty() || !lists.resource_templates.is_empty() || self.may_list_more()[1]
    }

    /// Whether clients can subscribe to changes of any resource.
    pub fn watches_resources(&self) -> bool {
        let mut resources = self.table.in_order().iter().filter_map(|route| route.resource.as_ref());
        resources.any(|resource| resource.poll_interval.is_some())
    }
}
