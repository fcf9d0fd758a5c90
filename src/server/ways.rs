//! The upstreams as they are asked now, and the policies of each, and of each of its routes.

use std::{collections::HashMap, sync::Arc};

use super::discover::Discovery;
use crate::{
    config::{Loaded, RouteFile, UpstreamFile},
    model::ToolName,
    policy::{RoutePolicies, Sharing, Store, UpstreamPolicies},
    route::UpstreamName,
    shared_state::SharedStore,
    upstream::Upstream,
};

/// One legacy server as it is asked now.
#[derive(Debug, Clone)]
pub(super) struct Asked {
    pub(super) file: UpstreamFile,
    pub(super) upstream: Upstream,
    pub(super) policies: Arc<UpstreamPolicies>,
    /// The policies of each of its routes.
    pub(super) routes: HashMap<ToolName, Arc<RoutePolicies>>,
    /// What goes on to ask for its tools, where it is an MCP server.
    pub(super) discovery: Option<Arc<Discovery>>,
}

/// The upstreams of a configuration: those of `now` where they are the same.
pub(super) fn ask(
    loaded: &Loaded,
    now: &HashMap<UpstreamName, Asked>,
    shared: Option<&SharedStore>,
) -> HashMap<UpstreamName, Asked> {
    let asked = loaded.upstreams.iter().map(|file| {
        let name = file.settings.name().clone();
        let kept = now
            .get(&name)
            .filter(|asked| asked.file.policy == file.policy && asked.file.settings == file.settings);
        let asked = match kept {
            // Asked for its tools at other times, perhaps.
            Some(kept)
                if kept.file.tools != file.tools || kept.file.wanted_lists() != file.wanted_lists() =>
            {
                Asked { file: file.clone(), discovery: None, ..kept.clone() }
            }
            Some(kept) => Asked { file: file.clone(), ..kept.clone() },
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
        let policies = UpstreamPolicies::new(upstream.clone(), file.policy, sharing);
        Self { file: file.clone(), upstream, policies, routes: HashMap::new(), discovery: None }
    }

    /// Takes these routes in the place of others; one with the same policies as before keeps them.
    pub(super) fn set_routes<'r>(&mut self, routes: impl Iterator<Item = &'r RouteFile>, store: &Store) {
        let routes = routes.map(|file| {
            let name = file.route.definition.name.clone();
            let before = self.routes.get(&name).filter(|route| *route.settings() == file.policy).cloned();
            let policies = before
                .unwrap_or_else(|| RoutePolicies::new(self.policies.clone(), &name, file.policy, store));
            (name, policies)
        });
        self.routes = routes.collect();
    }
}
