//! From a configuration to something that serves, and from the next one to what it serves then.

use std::{collections::HashMap, sync::Arc};

use axum::Router;

use super::router;
use crate::{
    config::{AdminFile, ListenerSettings, Loaded, RouteFile, UpstreamFile},
    face::{
        door::Door,
        mcp::{Mcp, McpSettings},
        rest::Rest,
    },
    gateway::{Gateway, Snapshot},
    observe::{Meters, log::LogSettings},
    policy::{Guarded, Guards, PolicyCounts, RouteGuards, RoutePolicySettings, Store},
    prompt::PromptTable,
    route::{Conflict, RouteTable, UpstreamName},
    tool::ToolName,
    upstream::Upstream,
};

/// What a server runs with, made of a configuration.
#[derive(Debug)]
pub struct Assembled {
    /// How clients are treated.
    pub settings: ListenerSettings,
    /// Every path and its face.
    pub router: Router,
    /// The MCP face, for a client that has a way of its own to it.
    pub mcp: Mcp,
    /// The way to the tools.
    pub gateway: Gateway,
    /// What is counted.
    pub meters: Meters,
    /// What puts another configuration in force.
    pub swap: Swap,
}

/// Puts another configuration in force while serving.
#[derive(Debug)]
pub struct Swap {
    gateway: Gateway,
    meters: Meters,
    door: Door,
    upstreams: HashMap<UpstreamName, Asked>,
    store: Store,
    fixed: Fixed,
}

/// What holds until the process ends.
#[derive(Debug)]
struct Fixed {
    admin: AdminFile,
    listener: ListenerSettings,
    mcp: McpSettings,
    log: LogSettings,
}

/// One legacy server as it is asked now.
#[derive(Debug, Clone)]
struct Asked {
    file: UpstreamFile,
    guards: Guards,
    /// For what follows from calls.
    following: Guarded,
    /// For calls, of each of its routes: those that ask for guards of their own, and all where it has some for calls.
    ways: HashMap<ToolName, Way>,
}

/// One route as it is called now.
#[derive(Debug, Clone)]
struct Way {
    settings: RoutePolicySettings,
    guards: RouteGuards,
    guarded: Guarded,
}

/// Puts the parts together. Nothing is bound or connected yet.
///
/// # Errors
///
/// [`Conflict`] when one request would fit two routes; a loaded configuration was checked for that.
pub fn assemble(loaded: &Loaded) -> Result<Assembled, Conflict> {
    let store = Store::new(loaded.cache_limit_bytes);
    let upstreams = ask(loaded, &HashMap::new(), &store);
    let meters = Meters::default();
    let gateway = Gateway::new(snapshot(loaded, &upstreams)?.counted_by(meters.clone()));
    let door = Door::new(&loaded.door);
    let mcp = Mcp::new(gateway.clone(), loaded.mcp.clone(), door.clone());
    let router = router(Rest::new(gateway.clone(), door.clone()), mcp.clone());
    let fixed = Fixed {
        admin: loaded.admin.clone(),
        listener: loaded.listener,
        mcp: loaded.mcp.clone(),
        log: loaded.log.clone(),
    };
    let swap = Swap { gateway: gateway.clone(), meters: meters.clone(), door, upstreams, store, fixed };
    Ok(Assembled { settings: loaded.listener, router, mcp, gateway, meters, swap })
}

impl Swap {
    /// Puts a configuration in force, for requests that begin from now on. An upstream that it leaves as it is keeps
    /// its connections, and what its guards know of it; one with TLS is made anew, with its certificates read again.
    ///
    /// Gives the settings that are other ones now, and hold only from the next start.
    ///
    /// # Errors
    ///
    /// As [`assemble`]; then nothing has changed.
    pub fn to(&mut self, loaded: &Loaded) -> Result<Vec<&'static str>, Conflict> {
        let upstreams = ask(loaded, &self.upstreams, &self.store);
        let snapshot = snapshot(loaded, &upstreams)?.counted_by(self.meters.clone());
        self.upstreams = upstreams;
        self.store.set_limit(loaded.cache_limit_bytes);
        self.door.replace(&loaded.door);
        self.gateway.replace(snapshot);
        Ok(self.fixed.differences(loaded))
    }
}

impl Fixed {
    fn differences(&self, loaded: &Loaded) -> Vec<&'static str> {
        let (now, then) = (&self.listener, &loaded.listener);
        let found = [
            ("server.listen", now.listen != then.listen),
            ("server.connections", now.connection_limit != then.connection_limit),
            ("server.watch", now.watch != then.watch),
            ("admin", self.admin != loaded.admin),
            ("server.header_timeout", now.header_timeout != then.header_timeout),
            ("server.drain", now.drain != then.drain),
            ("server.name", self.mcp.server_name != loaded.mcp.server_name),
            ("server.title", self.mcp.server_title != loaded.mcp.server_title),
            ("server.instructions", self.mcp.instructions != loaded.mcp.instructions),
            ("server.page_size", self.mcp.page_size != loaded.mcp.page_size),
            ("server.list_ttl", self.mcp.list_ttl != loaded.mcp.list_ttl),
            ("server.secret", self.mcp.secret != loaded.mcp.secret),
            ("server.peer", self.mcp.peer != loaded.mcp.peer),
            ("server.streams", self.mcp.stream_limit != loaded.mcp.stream_limit),
            ("server.resume", self.mcp.resume.patience != loaded.mcp.resume.patience),
            ("server.stream_life", self.mcp.resume.connection_life != loaded.mcp.resume.connection_life),
            ("log.level", self.log.filter != loaded.log.filter),
            ("log.format", self.log.format != loaded.log.format),
        ];
        found.into_iter().filter(|(_, differs)| *differs).map(|(name, _)| name).collect()
    }
}

/// The upstreams of a configuration: those of `now` where they are the same.
fn ask(loaded: &Loaded, now: &HashMap<UpstreamName, Asked>, store: &Store) -> HashMap<UpstreamName, Asked> {
    let asked = loaded.upstreams.iter().map(|file| {
        let name = file.settings.name().clone();
        let kept = now.get(&name).filter(|asked| {
            asked.file.policy == file.policy && asked.file.settings.is_certainly(&file.settings)
        });
        let before = kept.cloned().unwrap_or_else(|| Asked::new(file));
        let routes = loaded.routes.iter().filter(|route| route.route.upstream == name);
        (name.clone(), before.with_ways(routes, store))
    });
    asked.collect()
}

impl Asked {
    fn new(file: &UpstreamFile) -> Self {
        let guards = Guards::new(Upstream::new(file.settings.clone()), file.policy);
        let following = guards.for_what_follows();
        Self { file: file.clone(), guards, following, ways: HashMap::new() }
    }

    /// The same with these routes; one that asks for the same guards as before keeps them.
    fn with_ways<'r>(self, routes: impl Iterator<Item = &'r RouteFile>, store: &Store) -> Self {
        let has_own = self.guards.are_for_calls();
        let ways =
            routes.filter(|file| has_own || file.policy != RoutePolicySettings::default()).map(|file| {
                let name = file.route.definition.name.clone();
                let before = self.ways.get(&name).filter(|way| way.settings == file.policy).cloned();
                let way = before.unwrap_or_else(|| {
                    let guards = RouteGuards::new(&self.guards, file.policy, store);
                    Way { settings: file.policy, guarded: self.guards.for_calls(&guards), guards }
                });
                (name, way)
            });
        let ways = ways.collect();
        Self { ways, ..self }
    }
}

fn snapshot(loaded: &Loaded, upstreams: &HashMap<UpstreamName, Asked>) -> Result<Snapshot, Conflict> {
    let table = RouteTable::new(loaded.routes.iter().map(|file| Arc::clone(&file.route)).collect())?;
    let following = upstreams.iter().map(|(name, asked)| (name.clone(), asked.following.clone())).collect();
    let written = || upstreams.values().flat_map(|asked| &asked.ways);
    let ways = written().map(|(name, way)| (name.clone(), way.guarded.clone())).collect();
    let counts = PolicyCounts {
        upstreams: upstreams
            .iter()
            .map(|(name, asked)| (name.clone(), asked.guards.counts().clone()))
            .collect(),
        routes: written().map(|(name, way)| (name.clone(), way.guards.counts().clone())).collect(),
    };
    let passthrough = loaded.passthrough.as_ref();
    let passthrough =
        passthrough.and_then(|(name, settings)| upstreams.get(name)?.guards.passthrough(*settings));
    let prompts = loaded.prompts.iter().map(|file| Arc::clone(&file.prompt)).collect();
    let snapshot = Snapshot::new(table, following, passthrough).with_ways(ways, counts);
    Ok(snapshot.with_prompts(PromptTable::new(prompts)))
}
