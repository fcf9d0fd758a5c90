//! The application: all parts of the server, built from a configuration. Activates reloaded configurations.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use arc_swap::ArcSwap;
use futures_util::future::{OptionFuture, join_all};
use tokio::net::TcpListener;
use tokio::sync::broadcast::Receiver;
use tokio::sync::broadcast::error::RecvError;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio::time::timeout;
use tokio_util::{sync::CancellationToken, task::AbortOnDropHandle};
use tracing::{error, warn};

use super::mcp_discovery::{Discovered, DiscoveredLists, poll};
use super::otlp_exporter::Exporter;
use super::reload::{Reloader, restart_differences};
use super::{HttpHandler, Listener};
use crate::auth::Access;
use crate::config::{
    CertificateExpiry, CompiledRoute, ListenerSettings, Loaded, NameRules, ParsedUpstream, ToolRules,
};
use crate::inbound::filter::Filter;
use crate::inbound::mcp::McpEndpoint;
use crate::inbound::rest::RestApi;
use crate::pipeline::{AwaitedLists, ChangeEvent, Gateway, Snapshot, SnapshotParts};
use crate::policy::{CacheStore, Passthrough, Policies, ReplicaSharing, RoutePolicies, UpstreamPolicies};
use crate::route::{Conflict, UpstreamName};
use crate::shared_state::{ReplicaEvent, SharedStore};
use crate::telemetry::{Meters, SpanQueue, Tracer};
use crate::tls::ServerTls;
use crate::upstream::mcp::{McpLists, McpUpstream};
use crate::upstream::{Upstream, UpstreamBuffer};

/// All parts of the server, built from a configuration.
pub struct App {
    /// Settings of client connections.
    pub settings: ListenerSettings,
    /// Handles the requests of clients.
    pub handler: HttpHandler,
    /// The MCP API, also for a client that uses standard input and output.
    pub mcp: McpEndpoint,
    /// The pipeline of calls, with the active routes.
    pub gateway: Gateway,
    /// The metrics of the process.
    pub meters: Meters,
    filter: Filter,
    tls: Option<Arc<ArcSwap<ServerTls>>>,
    /// Expiry times of the certificates in the active configuration.
    expiries: Arc<ArcSwap<Vec<CertificateExpiry>>>,
    replica_events: Option<AbortOnDropHandle<()>>,
    /// The spans to export, until the exporter is started.
    spans: Option<SpanQueue>,
    active: Active,
    lists: DiscoveredLists,
    discovered: (mpsc::Sender<Discovered>, mpsc::Receiver<Discovered>),
    /// The configuration at startup, without its routes. Settings that need a restart are compared with it.
    startup: Loaded,
}

/// Maximum number of fetched MCP lists that wait to become active.
const DISCOVERED_LIMIT: usize = 16;

/// Time to wait for the first lists of MCP servers. Then requests that need missing lists are served without
/// them.
const DISCOVERY_TIMEOUT: Duration = Duration::from_secs(5);

/// Timeout for ending the sessions and child processes of upstreams.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(5);

impl App {
    /// Assembles the application. Nothing is bound or connected yet.
    ///
    /// # Errors
    ///
    /// [`Conflict`] if two routes match the same request. A loaded configuration has been checked for that.
    pub fn new(loaded: &Loaded) -> Result<Self, Conflict> {
        let meters = Meters::default();
        let traces = loaded.telemetry.traces.as_ref();
        let (tracing, spans) = traces.map(|traces| Tracer::new(traces.sampling)).unzip();
        let tracing = tracing.unwrap_or_default();
        let store = CacheStore::new(loaded.server.cache_limit_bytes);
        let parts = SnapshotParts {
            policies: Policies { store, ..Policies::default() },
            meters: meters.clone(),
            tracing: tracing.clone(),
            upstream_buffer: Some(UpstreamBuffer::new(loaded.server.upstream_buffer_limit_bytes)),
            ..SnapshotParts::default()
        };
        let shared = loaded.shared.clone().zip(loaded.server.mcp.secret_key.as_ref());
        let shared = shared.map(|(settings, secret)| SharedStore::new(settings, secret));
        let (active, mut lists) = (Active::new(loaded, None, shared.as_ref()), DiscoveredLists::default());
        let snapshot = active.snapshot(&mut lists, &parts)?;
        let mut gateway = Gateway::new(snapshot);
        gateway.shared = shared;
        let filter = Filter::new(&loaded.server.filter);
        filter.authenticator.replace(access(loaded));
        let mcp = McpEndpoint::new(gateway.clone(), loaded.server.mcp.clone(), filter.clone());
        let rest = RestApi::new(gateway.clone(), filter.clone());
        let expiries = Arc::new(ArcSwap::from_pointee(loaded.certificates.clone()));
        filter.register(&meters);
        mcp.register(&meters);
        let current = Arc::clone(&expiries);
        meters.register(move |reading| {
            let help = "Expiry of a certificate of the configuration, in seconds since 1970";
            let family = reading.gauge("glossator_certificate_expiry_timestamp_seconds", help);
            for CertificateExpiry { setting, at } in &**current.load() {
                let since_epoch = at.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
                family.add(&[("setting", setting.as_str())], since_epoch.as_secs());
            }
        });
        Ok(Self {
            settings: loaded.server.listener,
            handler: HttpHandler::for_clients(rest, mcp.clone(), meters.clone(), tracing),
            mcp,
            gateway,
            meters,
            filter,
            tls: loaded.server.tls.clone().map(|tls| Arc::new(ArcSwap::from_pointee(tls))),
            expiries,
            replica_events: None,
            spans,
            active,
            lists,
            discovered: mpsc::channel(DISCOVERED_LIMIT),
            startup: Loaded { routes: Arc::default(), ..loaded.clone() },
        })
    }

    /// Creates a listener with the server certificate and the upstream buffer of this application.
    pub fn listener(&self, port: TcpListener) -> Listener {
        let buffer = self.gateway.snapshot().upstream_buffer.clone();
        Listener { tls: self.tls.clone(), buffer, ..Listener::from(port) }
    }

    /// Connects to the shared state. From now on, requests that need the lists of MCP servers wait for
    /// [`fetch_mcp_lists`](Self::fetch_mcp_lists), so that the first clients get complete lists.
    pub async fn start(&mut self) {
        self.join_replicas().await;
        self.gateway.fetching_lists.send_replace(true);
    }

    /// Fetches the first lists of MCP servers, for which requests wait since [`start`](Self::start). Without
    /// that call, does nothing.
    pub async fn fetch_mcp_lists(&mut self) {
        if *self.gateway.fetching_lists.borrow() {
            self.discover(DISCOVERY_TIMEOUT).await;
            self.gateway.fetching_lists.send_replace(false);
        }
    }

    /// Connects to the shared state, if configured, and handles the events of replicas from now on. Waits for
    /// the connection no longer than for one response of the store.
    pub async fn join_replicas(&mut self) {
        let Some(shared) = &self.gateway.shared else { return };
        let events = handle_replica_events(shared.subscribe(), self.mcp.clone());
        self.replica_events = Some(AbortOnDropHandle::new(tokio::spawn(events)));
        shared.begin().await;
    }

    /// Begins to poll the lists of MCP servers. Waits until each server has sent its lists or failed, for at
    /// most `max_wait`.
    pub async fn discover(&mut self, max_wait: Duration) {
        self.active.poll_lists(&self.lists, &self.discovered.0);
        let mut missing = self.active.mcp_servers();
        let _ = timeout(max_wait, async {
            while !missing.is_empty()
                && let Some((upstream, lists)) = self.discovered.1.recv().await
            {
                missing.retain(|server| *server.name() != upstream);
                self.activate_lists(upstream, lists);
            }
        })
        .await;
    }

    /// Activates the lists of an MCP server, unless `lists` is `None` (not fetched) or the server is no
    /// longer configured.
    fn activate_lists(&mut self, upstream: UpstreamName, lists: Option<McpLists>) {
        let Some(lists) = lists.filter(|_| self.active.upstreams.contains_key(&upstream)) else { return };
        self.lists.by_upstream.insert(upstream, lists);
        match self.active.snapshot(&mut self.lists, &self.gateway.snapshot()) {
            Ok(snapshot) => self.gateway.replace(snapshot),
            // Not expected: the routes of the configuration were checked when it became active.
            Err(conflict) => error!(error = %conflict, "applying the lists of MCP servers failed"),
        }
    }

    /// Activates a configuration for requests that begin from now on. An unchanged upstream keeps its
    /// connections and the state of its policies; an upstream whose certificates have changed is recreated.
    ///
    /// Returns the changed settings that take effect only after a restart.
    ///
    /// # Errors
    ///
    /// [`Conflict`], as for [`App::new`]. The active configuration is then unchanged.
    pub fn apply(&mut self, loaded: &Loaded) -> Result<Vec<String>, Conflict> {
        let active = Active::new(loaded, Some(&self.active), self.gateway.shared.as_ref());
        self.lists.retain(|name| {
            active.upstreams.get(name).is_some_and(|bound| bound.policies.upstream.mcp().is_some())
        });
        let snapshot = active.snapshot(&mut self.lists, &self.gateway.snapshot())?;
        self.active = active;
        snapshot.policies.store.set_limit(loaded.server.cache_limit_bytes);
        if let Some(buffer) = &snapshot.upstream_buffer {
            buffer.set_limit(loaded.server.upstream_buffer_limit_bytes);
        }
        self.filter.replace(&loaded.server.filter);
        // The access rules are replaced before the routes, so that no client that the new configuration
        // rejects is admitted in between.
        let authenticator = &self.filter.authenticator;
        let has_new_access = match (authenticator.access(), &loaded.access) {
            (Some(old), Some(new)) => !old.has_settings(new, loaded.server.tls.as_ref()),
            (old, new) => old.is_some() || new.is_some(),
        };
        if has_new_access {
            authenticator.replace(access(loaded));
        }
        if let (Some(current_tls), Some(tls)) = (&self.tls, &loaded.server.tls)
            && **current_tls.load() != *tls
        {
            current_tls.store(Arc::new(tls.clone()));
        }
        self.expiries.store(Arc::new(loaded.certificates.clone()));
        self.gateway.replace(snapshot);
        if has_new_access {
            // Each client may now have access to other tools, prompts and resources.
            for change in [ChangeEvent::Tools, ChangeEvent::Prompts, ChangeEvent::Resources] {
                self.gateway.publish(change);
            }
        }
        Ok(restart_differences(&self.startup, loaded))
    }

    /// Runs the application. One task fetches the first lists of MCP servers, and keeps the configuration and
    /// the lists current; other tasks export telemetry.
    pub fn run(mut self, reloader: Option<Reloader>) -> RunningApp {
        let exporter = Exporter::start(&self.startup.telemetry, self.spans.take(), &self.meters);
        let stop = CancellationToken::new();
        RunningApp { task: tokio::spawn(self.keep_current(reloader, stop.clone())), stop, exporter }
    }

    async fn keep_current(mut self, mut reloader: Option<Reloader>, stop: CancellationToken) {
        // Clients are served meanwhile: a server that does not respond delays only the requests that need its
        // lists.
        if stop.run_until_cancelled(self.fetch_mcp_lists()).await.is_none() {
            self.gateway.fetching_lists.send_replace(false);
        }
        loop {
            self.active.poll_lists(&self.lists, &self.discovered.0);
            // Without a reloader, `reload` returns `None` at once, which disables its branch.
            let reload = OptionFuture::from(reloader.as_mut().map(Reloader::next));
            tokio::select! {
                () = stop.cancelled() => break,
                Some((upstream, lists)) = self.discovered.1.recv() => self.activate_lists(upstream, lists),
                Some((reloader, requests)) = reload => reloader.reload(&mut self, requests).await,
            }
        }
        self.close().await;
    }

    /// Closes the sessions with MCP servers, and ends the MCP servers that are child processes.
    pub async fn close(self) {
        let servers = self.active.mcp_servers();
        drop(self.active);
        join_all(servers.iter().map(McpUpstream::close)).await;
    }
}

/// A running application, until [`RunningApp::end`].
#[derive(Debug)]
pub struct RunningApp {
    stop: CancellationToken,
    task: JoinHandle<()>,
    exporter: Exporter,
}

impl RunningApp {
    /// Stops the tasks, ends the sessions and child processes of upstreams, and exports the last telemetry.
    pub async fn end(self) {
        self.stop.cancel();
        if timeout(CLOSE_TIMEOUT, self.task).await.is_err() {
            warn!(after = ?CLOSE_TIMEOUT, "not all upstream programs and connections have ended");
        }
        self.exporter.end().await;
    }
}

/// Builds the access rules; `None` if clients are not authenticated.
fn access(loaded: &Loaded) -> Option<Arc<Access>> {
    loaded.access.clone().map(|settings| Arc::new(Access::new(settings, loaded.server.tls.clone())))
}

/// Handles the events that other replicas publish in the shared state.
async fn handle_replica_events(mut events: Receiver<ReplicaEvent>, mcp: McpEndpoint) {
    loop {
        match events.recv().await {
            Ok(ReplicaEvent::Message(message)) => mcp.on_replica_message(message).await,
            // After a reconnect, messages may be missing. Changes of lists are then noticed later; the
            // subscriptions of sessions are read again.
            Ok(ReplicaEvent::Reconnected) | Err(RecvError::Lagged(_)) => mcp.catch_up().await,
            Err(RecvError::Closed) => return,
        }
    }
}

/// The routes and upstreams of the active configuration.
#[derive(Debug)]
struct Active {
    loaded: Loaded,
    upstreams: HashMap<UpstreamName, BoundUpstream>,
}

/// An upstream with its runtime state.
#[derive(Debug, Clone)]
struct BoundUpstream {
    parsed: ParsedUpstream,
    policies: Arc<UpstreamPolicies>,
    /// The task that polls the lists of an MCP server; `None` for other upstreams, and before it starts.
    discovery: Option<Arc<AbortOnDropHandle<()>>>,
}

impl Active {
    /// Binds the routes and upstreams of a configuration. Upstreams that are unchanged since `previous` are
    /// reused.
    fn new(loaded: &Loaded, previous: Option<&Self>, shared: Option<&SharedStore>) -> Self {
        let bind = |parsed: &ParsedUpstream| {
            let name = parsed.settings.name().clone();
            let existing = previous.and_then(|previous| previous.upstreams.get(&name)).filter(|bound| {
                bound.parsed.policy == parsed.policy && bound.parsed.settings == parsed.settings
            });
            let bound = existing
                .map_or_else(|| BoundUpstream::new(parsed, shared), |existing| existing.with_lists(parsed));
            (name, bound)
        };
        Self { loaded: loaded.clone(), upstreams: loaded.upstreams.iter().map(bind).collect() }
    }

    /// Returns the upstreams that are MCP servers.
    fn mcp_servers(&self) -> Vec<McpUpstream> {
        self.upstreams.values().filter_map(|bound| bound.policies.upstream.mcp().cloned()).collect()
    }

    /// Starts to poll the MCP servers that are not polled yet.
    fn poll_lists(&mut self, lists: &DiscoveredLists, discovered: &mpsc::Sender<Discovered>) {
        for (name, bound) in &mut self.upstreams {
            if let (Some(upstream), None) = (bound.policies.upstream.mcp(), &bound.discovery) {
                let interval = bound.parsed.tools.clone().unwrap_or_default().refresh_interval;
                let requested = (bound.parsed.requested_lists(), interval);
                // The known lists may come from an earlier server of that name: `poll` fetches them again at
                // once.
                let known_lists = lists.by_upstream.get(name).cloned();
                let polling =
                    tokio::spawn(poll(upstream.clone(), requested, known_lists, discovered.clone()));
                bound.discovery = Some(Arc::new(AbortOnDropHandle::new(polling)));
            }
        }
    }

    /// Creates a snapshot of this configuration with the lists of MCP servers. It shares metrics and caches
    /// with the snapshot before it, and the policy state of each route whose upstream and settings are the
    /// same.
    fn snapshot(&self, lists: &mut DiscoveredLists, previous: &SnapshotParts) -> Result<Snapshot, Conflict> {
        let Loaded { importer, prompts, passthrough, .. } = &self.loaded;
        let (table, routes) = lists.table(importer, &self.loaded.routes)?;
        let (proxied, proxy_routes) = lists.proxied(importer, &table, prompts);
        let (upstreams, store) = (&self.upstreams, &previous.policies.store);
        let route_policies = |compiled: &CompiledRoute| {
            let name = &compiled.route.definition.name;
            let upstream = &upstreams.get(&compiled.route.upstream)?.policies;
            let is_same = |old: &&Arc<RoutePolicies>| {
                Arc::ptr_eq(&old.upstream, upstream) && old.settings == compiled.policy
            };
            let existing = previous.policies.routes.get(name).filter(is_same).cloned();
            let create = || RoutePolicies::new(upstream.clone(), name, compiled.policy, store);
            Some((name.clone(), existing.unwrap_or_else(create)))
        };
        let policies = Policies {
            upstreams: upstreams.iter().map(|(name, bound)| (name.clone(), bound.policies.clone())).collect(),
            routes: routes.iter().chain(&proxy_routes).filter_map(route_policies).collect(),
            store: store.clone(),
        };
        let is_awaited = |name, bound: &BoundUpstream| {
            bound.policies.upstream.mcp().is_some() && !lists.by_upstream.contains_key(name)
        };
        let awaited: Vec<_> = upstreams.iter().filter(|(name, bound)| is_awaited(*name, bound)).collect();
        let parsed_upstreams = || awaited.iter().map(|(_, bound)| &bound.parsed);
        let awaited = AwaitedLists {
            servers: awaited.iter().map(|(name, _)| UpstreamName::clone(name)).collect(),
            tools: parsed_upstreams()
                .filter_map(|parsed| parsed.tools.as_ref())
                .map(ToolRules::possible_names)
                .collect(),
            prompts: parsed_upstreams()
                .filter_map(|parsed| parsed.prompts.as_ref())
                .map(NameRules::possible_names)
                .collect(),
            resources: parsed_upstreams().any(|parsed| parsed.resources.is_some()),
        };
        let passthrough = passthrough.as_ref().and_then(|(name, settings)| {
            Passthrough::new(upstreams.get(name)?.policies.clone(), settings.clone())
        });
        let parts = SnapshotParts {
            policies,
            prompts: prompts.clone(),
            proxied,
            awaited,
            passthrough,
            meters: previous.meters.clone(),
            tracing: previous.tracing.clone(),
            upstream_buffer: previous.upstream_buffer.clone(),
        };
        Ok(Snapshot::new(table, parts))
    }
}

impl BoundUpstream {
    fn new(parsed: &ParsedUpstream, shared: Option<&SharedStore>) -> Self {
        let upstream = Upstream::new(parsed.settings.clone());
        let sharing =
            shared.map(|store| ReplicaSharing { store: store.clone(), identity: parsed.fingerprint.clone() });
        let policies = UpstreamPolicies::new(upstream, parsed.policy, sharing);
        Self { parsed: parsed.clone(), policies, discovery: None }
    }

    /// Copies the upstream with new list rules. If these or the poll interval have changed, polling starts
    /// again.
    fn with_lists(&self, parsed: &ParsedUpstream) -> Self {
        let is_same =
            self.parsed.tools == parsed.tools && self.parsed.requested_lists() == parsed.requested_lists();
        let discovery = self.discovery.clone().filter(|_| is_same);
        Self { parsed: parsed.clone(), discovery, ..self.clone() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        config::{self, Sources},
        inbound::mcp::McpApiSettings,
        pipeline::ChangeEvent,
        shared_state::{MemoryStore, ReplicaMessage},
    };

    /// One of several replicas. Nothing reads its notifications, or responds to its requests.
    fn replica(memory: &MemoryStore) -> (Gateway, SharedStore, AbortOnDropHandle<()>) {
        let text = "upstreams: { none: http://127.0.0.1:1 }
routes:
  each: { description: x, request: \"GET none/{x}\", resource: { uri: \"t://{x}\", poll_interval: 1d } }
";
        let loaded = config::load(&Sources::from_text("config.yaml", text)).unwrap();
        let shared = SharedStore::in_memory(memory);
        let mut gateway = App::new(&loaded).unwrap().gateway;
        gateway.shared = Some(shared.clone());
        let mcp =
            McpEndpoint::new(gateway.clone(), McpApiSettings::default(), Filter::new(&loaded.server.filter));
        let events = tokio::spawn(handle_replica_events(shared.subscribe(), mcp));
        (gateway, shared, AbortOnDropHandle::new(events))
    }

    #[tokio::test]
    async fn a_change_seen_by_one_replica_is_notified_once_by_another() {
        let memory = MemoryStore::default();
        let ((_, shared, _own_events), (gateway, _, _events)) = (replica(&memory), replica(&memory));
        let watching = gateway.watch("t://a").unwrap();
        let mut listener = gateway.changes.subscribe();
        let changed = |uri: &str, fingerprint| ReplicaMessage::Changed { uri: uri.into(), fingerprint };
        for message in [changed("t://b", 1), changed("t://a", 1), changed("t://a", 1), changed("t://a", 2)] {
            shared.publish(&message);
        }
        let change = ChangeEvent::Resource(watching.uri.clone());
        assert_eq!(listener.recv().await, Ok(change.clone()));
        assert_eq!(listener.recv().await, Ok(change));
        gateway.publish(ChangeEvent::Tools);
        assert_eq!(listener.recv().await, Ok(ChangeEvent::Tools), "and no more than that");
    }
}
