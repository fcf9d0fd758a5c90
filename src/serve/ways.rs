//! The upstreams as they are asked now, and the ways to them: of each, and of each of its routes.

use std::{collections::HashMap, sync::Arc};

use super::discover::Discovery;
use crate::{
    config::{Loaded, RouteFile, UpstreamFile},
    policy::{Guarded, Guards, RouteGuards, RoutePolicySettings, Sharing, Store},
    route::UpstreamName,
    shared_state::SharedStore,
    tool::ToolName,
    upstream::Upstream,
};

/// One legacy server as it is asked now.
#[derive(Debug, Clone)]
pub(super) struct Asked {
    pub(super) file: UpstreamFile,
    pub(super) upstream: Upstream,
    pub(super) guards: Guards,
    /// For what follows from calls.
    pub(super) following: Guarded,
    /// For calls, of each of its routes.
    pub(super) ways: HashMap<ToolName, Way>,
    /// What goes on to ask for its tools, where it is an MCP server.
    pub(super) discovery: Option<Arc<Discovery>>,
}

/// One route as it is called now.
#[derive(Debug, Clone)]
pub(super) struct Way {
    settings: RoutePolicySettings,
    pub(super) guards: RouteGuards,
    pub(super) guarded: Guarded,
}

/// The upstreams of a configuration: those of `now` where they are the same.
pub(super) fn ask(
    loaded: &Loaded,
    now: &HashMap<UpstreamName, Asked>,
    shared: Option<&SharedStore>,
) -> HashMap<UpstreamName, Asked> {
    let asked = loaded.upstreams.iter().map(|file| {
        let name = file.settings.name().clone();
        let kept = now.get(&name).filter(|asked| {
            asked.file.policy == file.policy && asked.file.settings.is_certainly(&file.settings)
        });
        let asked = match kept {
            // Asked for its tools at other times, perhaps.
            Some(kept) if kept.file.tools != file.tools => {
                Asked { file: file.clone(), discovery: None, ..kept.clone() }
            }
            Some(kept) => kept.clone(),
            None => Asked::new(file, shared),
        };
        (name, asked)
    });
    asked.collect()
}

impl Asked {
    fn new(file: &UpstreamFile, shared: Option<&SharedStore>) -> Self {
        let upstream = Upstream::new(file.settings.clone());
        let sharing = shared.map(|store| Sharing { store: store.clone(), identity: file.identity.clone() });
        let guards = Guards::sharing(upstream.clone(), file.policy, sharing);
        let following = guards.for_what_follows();
        Self { file: file.clone(), upstream, guards, following, ways: HashMap::new(), discovery: None }
    }

    /// Takes these routes in the place of others; one that asks for the same guards as before keeps them.
    pub(super) fn set_ways<'r>(&mut self, routes: impl Iterator<Item = &'r RouteFile>, store: &Store) {
        let ways = routes.map(|file| {
            let name = file.route.definition.name.clone();
            let before = self.ways.get(&name).filter(|way| way.settings == file.policy).cloned();
            let way = before.unwrap_or_else(|| {
                let guards = RouteGuards::new(&self.guards, &name, file.policy, store);
                Way { settings: file.policy, guarded: self.guards.for_calls(&guards), guards }
            });
            (name, way)
        });
        self.ways = ways.collect();
    }
}
