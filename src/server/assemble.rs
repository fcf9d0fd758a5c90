//! From a configuration to something that serves, and from the next one to what it serves then.

use std::{
    collections::HashMap,
    sync::Arc,
    time::{Duration, SystemTime},
};

use arc_swap::ArcSwap;
use tokio::{sync::mpsc, task::JoinSet, time::timeout};

use super::{
    Answerer, Certificate, Telemetry,
    discover::{Discovery, Found},
    fixed::Fixed,
    others::Hearing,
    tools::Lists,
    ways::{Asked, ask},
};
use crate::{
    auth::Access,
    config::{
        CertificateExpiry, Importer, ListenerSettings, Loaded, NameRules, PromptFile, RouteFile, ToolRules,
    },
    inbound::{filter::Filter, mcp::Mcp, rest::Rest},
    pipeline::{AwaitedLists, Change, Gateway, Snapshot, SnapshotParts},
    policy::{PassthroughSettings, Policies, Store},
    prompt::PromptTable,
    route::{Conflict, Scopes, UpstreamName},
    shared_state::SharedStore,
    telemetry::{MeterSource, Meters, Reading, Tracing},
    upstream::{
        UpstreamBuffer,
        mcp::{McpUpstream, WantedLists},
    },
};

/// What a server runs with, made of a configuration.
#[derive(Debug)]
pub struct Assembled {
    /// How clients are treated.
    pub settings: ListenerSettings,
    /// Every path and its face.
    pub answerer: Answerer,
    /// The MCP face, for a client that has a way of its own to it.
    pub mcp: Mcp,
    /// The way to the tools.
    pub gateway: Gateway,
    /// What is counted.
    pub meters: Meters,
    /// The memory that responses of upstreams share.
    pub upstream_buffer: UpstreamBuffer,
    /// Who we are to clients that connect through TLS, where they do.
    pub certificate: Option<Certificate>,
    /// What is to be told to a collector, and nobody sends yet.
    pub telemetry: Telemetry,
    /// What puts another configuration in force.
    pub swap: Swap,
}

/// Puts another configuration in force while serving.
#[derive(Debug)]
pub struct Swap {
    gateway: Gateway,
    meters: Meters,
    tracing: Tracing,
    door: Filter,
    upstreams: HashMap<UpstreamName, Asked>,
    store: Store,
    upstream_buffer: UpstreamBuffer,
    shared: Option<SharedStore>,
    hearing: Option<Hearing>,
    mcp: Mcp,
    written: Written,
    lists: Lists,
    found: (mpsc::Sender<Found>, mpsc::Receiver<Found>),
    certificate: Option<Certificate>,
    expiries: Expiries,
    fixed: Fixed,
}

/// When the certificates of the configuration in force expire. Clones are the same.
#[derive(Debug, Clone)]
struct Expiries(Arc<ArcSwap<Vec<CertificateExpiry>>>);

impl MeterSource for Expiries {
    fn tell(&self, reading: &mut Reading) {
        let help = "When a certificate of the configuration expires, in seconds since 1970";
        let family = reading.gauge("glossator_certificate_expiry_timestamp_seconds", help);
        for CertificateExpiry { setting, at } in self.0.load().iter() {
            let since = at.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
            family.add(vec![("setting", setting.clone().into())], since.as_secs());
        }
    }
}

/// What a configuration says of calls, kept for when MCP servers have other tools.
#[derive(Debug)]
struct Written {
    routes: Arc<[RouteFile]>,
    prompts: Vec<PromptFile>,
    passthrough: Option<(UpstreamName, PassthroughSettings)>,
    passthrough_scopes: Scopes,
    importer: Importer,
}

/// How many lists of servers may wait to be put in force.
const FOUND_LIMIT: usize = 16;

/// Puts the parts together. Nothing is bound or connected yet.
///
/// # Errors
///
/// [`Conflict`] when one request would fit two routes; a loaded configuration was checked for that.
pub fn assemble(loaded: &Loaded) -> Result<Assembled, Conflict> {
    let store = Store::new(loaded.cache_limit_bytes);
    let upstream_buffer = UpstreamBuffer::new(loaded.upstream_buffer_limit_bytes);
    let shared = loaded.shared.clone().map(SharedStore::new);
    let mut upstreams = ask(loaded, &HashMap::new(), shared.as_ref());
    let meters = Meters::default();
    let (written, mut lists) = (Written::of(loaded), Lists::default());
    let (tracing, telemetry) = Telemetry::of(&loaded.telemetry, &meters);
    let parts = written.parts(&mut upstreams, &mut lists, &store)?;
    let snapshot = Snapshot::new(SnapshotParts {
        meters: meters.clone(),
        tracing: tracing.clone(),
        upstream_buffer: Some(upstream_buffer.clone()),
        ..parts
    });
    let gateway = Gateway::new(snapshot).sharing(shared.clone());
    let door = Filter::new(&loaded.door);
    door.guard.replace(access(loaded));
    meters.register(door.clone());
    let mcp = Mcp::new(gateway.clone(), loaded.mcp.clone(), door.clone());
    meters.register(mcp.error_counts());
    let rest = Rest::new(gateway.clone(), door.clone());
    let answerer = Answerer::of_faces(rest, mcp.clone(), &meters, &tracing);
    let fixed = Fixed::of(loaded);
    let found = mpsc::channel(FOUND_LIMIT);
    let certificate = loaded.tls.clone().map(Certificate::new);
    let expiries = Expiries(Arc::new(ArcSwap::from_pointee(loaded.certificates.clone())));
    meters.register(expiries.clone());
    let swap = Swap {
        gateway: gateway.clone(),
        meters: meters.clone(),
        tracing,
        door,
        upstreams,
        store,
        upstream_buffer: upstream_buffer.clone(),
        shared,
        hearing: None,
        mcp: mcp.clone(),
        written,
        lists,
        found,
        certificate: certificate.clone(),
        expiries,
        fixed,
    };
    Ok(Assembled {
        settings: loaded.listener,
        answerer,
        mcp,
        gateway,
        meters,
        upstream_buffer,
        certificate,
        telemetry,
        swap,
    })
}

/// Who may call, where that matters.
fn access(loaded: &Loaded) -> Option<Arc<Access>> {
    loaded.access.clone().map(|settings| Arc::new(Access::new(settings, loaded.tls.clone())))
}

impl Swap {
    /// Puts a configuration in force, for requests that begin from now on. An upstream that it leaves as it is keeps
    /// its connections, and what its guards know of it; one whose certificates have changed is made anew.
    ///
    /// Gives the settings that are other ones now, and hold only from the next start.
    ///
    /// # Errors
    ///
    /// As [`assemble`]; then nothing has changed.
    pub fn to(&mut self, loaded: &Loaded) -> Result<Vec<&'static str>, Conflict> {
        let mut upstreams = ask(loaded, &self.upstreams, self.shared.as_ref());
        let written = Written::of(loaded);
        self.lists.retain(|name| upstreams.get(name).is_some_and(|asked| asked.upstream.mcp().is_some()));
        let parts = written.parts(&mut upstreams, &mut self.lists, &self.store)?;
        let snapshot = self.observed(parts);
        (self.upstreams, self.written) = (upstreams, written);
        self.store.set_limit(loaded.cache_limit_bytes);
        self.upstream_buffer.set_limit(loaded.upstream_buffer_limit_bytes);
        self.door.replace(&loaded.door);
        // Before what they may call: nobody is let in for a moment who is not to be.
        let others_may_call = self.let_in(loaded);
        if let (Some(certificate), Some(tls)) = (&self.certificate, &loaded.tls) {
            certificate.replace(tls);
        }
        self.expiries.0.store(Arc::new(loaded.certificates.clone()));
        self.gateway.replace(snapshot);
        if others_may_call {
            // What each of them sees may be something else now.
            for change in [Change::Tools, Change::Prompts, Change::Resources] {
                self.gateway.changes().tell(change);
            }
        }
        let mut later = self.fixed.differences(loaded);
        if self.certificate.is_some() != loaded.tls.is_some() {
            later.push("server.tls");
        }
        Ok(later)
    }

    /// Connects to what replicas share, where there is such a thing, and tells clients from now on what other replicas see
    /// change. Does not wait for longer than one answer may take.
    pub async fn join_others(&mut self) {
        let Some(shared) = &self.shared else { return };
        self.hearing = Some(Hearing::begin(shared, self.gateway.clone(), self.mcp.clone()));
        shared.begin().await;
    }

    /// Lets other callers in from now on; whether they are other ones.
    fn let_in(&self, loaded: &Loaded) -> bool {
        let now = self.door.guard.access();
        let is_same = match (now.as_deref(), &loaded.access) {
            (None, None) => true,
            (Some(now), Some(then)) => now.has(then, loaded.tls.as_ref()),
            (Some(_), None) | (None, Some(_)) => false,
        };
        if is_same {
            return false;
        }
        self.door.guard.replace(access(loaded));
        true
    }

    /// Asks MCP servers for what they have, all at once and not longer than `patience`, so that the first
    /// clients find them. Those that do not answer are asked again later.
    pub async fn discover_first(&mut self, patience: Duration) {
        let servers = self.servers();
        if servers.is_empty() {
            return;
        }
        let mut asking = JoinSet::new();
        for (upstream, wanted) in servers {
            asking.spawn(async move {
                let lists = upstream.list(wanted, None).await;
                lists.ok().map(|(lists, _)| Found { upstream: upstream.name().clone(), lists })
            });
        }
        let _ = timeout(patience, async {
            while let Some(answered) = asking.join_next().await {
                if let Ok(Some(found)) = answered {
                    self.lists.set(found.upstream, found.lists);
                }
            }
        })
        .await;
        self.relist();
    }

    /// Goes on to ask them: when they say that something changed, when they come back, and now and then.
    pub(super) fn discover(&mut self) {
        for (name, asked) in &mut self.upstreams {
            if let (Some(upstream), None) = (asked.upstream.mcp(), &asked.discovery) {
                let rules = asked.file.tools.clone().unwrap_or_default();
                let known = self.lists.get(name).cloned();
                let how = (asked.file.wanted_lists(), rules.refresh);
                let discovery = Discovery::begin(upstream.clone(), how, known, self.found.0.clone());
                asked.discovery = Some(Arc::new(discovery));
            }
        }
    }

    /// Waits for the next lists of a server and puts them in force. May be dropped while it waits.
    pub(super) async fn next_list(&mut self) {
        let Some(found) = self.found.1.recv().await else { return };
        if self.upstreams.contains_key(&found.upstream) {
            self.lists.set(found.upstream, found.lists);
            self.relist();
        }
    }

    /// Ends sessions with MCP servers, and those of them that are children.
    pub async fn close(self) {
        let mut closing = JoinSet::new();
        for (upstream, _) in self.servers() {
            closing.spawn(async move { upstream.close().await });
        }
        drop(self.upstreams);
        while closing.join_next().await.is_some() {}
    }

    /// Counted and told of as all before it.
    fn observed(&self, parts: SnapshotParts) -> Snapshot {
        Snapshot::new(SnapshotParts {
            meters: self.meters.clone(),
            tracing: self.tracing.clone(),
            upstream_buffer: Some(self.upstream_buffer.clone()),
            ..parts
        })
    }

    /// The MCP servers, and what each is asked for.
    fn servers(&self) -> Vec<(McpUpstream, WantedLists)> {
        let server = |asked: &Asked| Some((asked.upstream.mcp()?.clone(), asked.file.wanted_lists()));
        self.upstreams.values().filter_map(server).collect()
    }

    fn relist(&mut self) {
        match self.written.parts(&mut self.upstreams, &mut self.lists, &self.store) {
            Ok(parts) => self.gateway.replace(self.observed(parts)),
            // What is written was checked when it was put in force.
            Err(conflict) => tracing::error!(error = %conflict, "what MCP servers list can't be offered"),
        }
    }
}

impl Written {
    fn of(loaded: &Loaded) -> Self {
        Self {
            routes: loaded.routes.clone(),
            prompts: loaded.prompts.clone(),
            passthrough: loaded.passthrough.clone(),
            passthrough_scopes: loaded.passthrough_scopes.clone(),
            importer: loaded.importer.clone(),
        }
    }

    fn parts(
        &self,
        upstreams: &mut HashMap<UpstreamName, Asked>,
        lists: &mut Lists,
        store: &Store,
    ) -> Result<SnapshotParts, Conflict> {
        let (table, routes) = lists.table(&self.importer, &self.routes)?;
        let prompts = self.prompts.iter().map(|file| (file.prompt.name.clone(), Arc::clone(&file.prompt)));
        let prompts: PromptTable = prompts.collect();
        let (proxied, standing) = lists.proxied(&self.importer, &table, &prompts);
        for (name, asked) in upstreams.iter_mut() {
            let all = routes.iter().chain(&standing);
            asked.set_routes(all.filter(|file| file.route.upstream == *name), store);
        }
        let routes = upstreams.values().flat_map(|asked| &asked.routes);
        let policies = Policies {
            upstreams: upstreams.iter().map(|(name, asked)| (name.clone(), asked.policies.clone())).collect(),
            routes: routes.map(|(name, policies)| (name.clone(), policies.clone())).collect(),
            store: Some(store.clone()),
        };
        let awaited = upstreams.iter().filter(|(name, _)| lists.get(name).is_none());
        let awaited: Vec<_> = awaited.map(|(_, asked)| &asked.file).collect();
        let awaited = AwaitedLists {
            tools: awaited.iter().filter_map(|file| file.tools.as_ref().map(ToolRules::awaited)).collect(),
            prompts: awaited
                .iter()
                .filter_map(|file| file.prompts.as_ref().map(NameRules::awaited))
                .collect(),
            resources: awaited.iter().any(|file| file.resources.is_some()),
        };
        let passthrough = self.passthrough.as_ref();
        let passthrough =
            passthrough.and_then(|(name, settings)| upstreams.get(name)?.policies.passthrough(*settings));
        Ok(SnapshotParts {
            table,
            policies,
            prompts,
            proxied,
            awaited,
            passthrough,
            passthrough_scopes: self.passthrough_scopes.clone(),
            ..SnapshotParts::default()
        })
    }
}
