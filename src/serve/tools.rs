//! The tools of MCP servers, beside the routes that are written.

use std::{
    borrow::Cow,
    collections::{BTreeMap, HashMap},
    sync::Arc,
};

use tracing::{info, warn};

use crate::{
    config::{ImportNote, Importer, RouteFile},
    route::{Conflict, Route, RouteTable, UpstreamName},
    tool::ToolName,
    upstream::mcp::ToolList,
};

/// What each MCP server has listed last.
#[derive(Debug, Default)]
pub(super) struct Lists {
    lists: BTreeMap<UpstreamName, ToolList>,
    /// What was said of each, so that it is said once.
    told: HashMap<UpstreamName, Vec<ImportNote>>,
}

impl Lists {
    /// Takes a list in the place of the one before.
    pub(super) fn set(&mut self, upstream: UpstreamName, tools: ToolList) {
        self.lists.insert(upstream, tools);
    }

    /// The list of a server, where it has given one.
    pub(super) fn get(&self, upstream: &UpstreamName) -> Option<&ToolList> {
        self.lists.get(upstream)
    }

    /// Forgets servers that are there no more.
    pub(super) fn retain(&mut self, keeps: impl Fn(&UpstreamName) -> bool) {
        self.lists.retain(|name, _| keeps(name));
        self.told.retain(|name, _| keeps(name));
    }

    /// The table of all routes, and the routes in it. Where a tool can't be told apart from a route that is written, or from a tool of a
    /// server before, it is left out.
    ///
    /// # Errors
    ///
    /// [`Conflict`] between routes that are written; a loaded configuration was checked for that.
    pub(super) fn table<'w>(
        &mut self,
        importer: &Importer,
        written: &'w [RouteFile],
    ) -> Result<(RouteTable, Cow<'w, [RouteFile]>), Conflict> {
        let mut routes = Cow::Borrowed(written);
        let mut listed: Vec<RouteFile> = Vec::new();
        let imported = importer.import(self.lists.iter().map(|(name, tools)| (name, &**tools)), written);
        for (upstream, mut imported) in self.lists.keys().zip(imported) {
            for route in imported.written {
                if let Some(own) = routes.to_mut().iter_mut().find(|own| own.name() == route.name()) {
                    *own = route;
                }
            }
            for route in imported.routes {
                match listed.iter().find(|other| other.name() == route.name()) {
                    None => listed.push(route),
                    Some(other) => imported.notes.push(ImportNote {
                        tool: route.name().to_string(),
                        what: format!(
                            "it is left out: `{}` has a tool of that name; give the tools a `prefix`",
                            other.route.upstream
                        ),
                    }),
                }
            }
            if self.told.get(upstream) != Some(&imported.notes) {
                for ImportNote { tool, what } in &imported.notes {
                    warn!(%upstream, tool, what, "about a tool of the server");
                }
                self.told.insert(upstream.clone(), imported.notes);
            }
        }
        loop {
            let all = routes.iter().chain(&listed).map(|file| Arc::clone(&file.route)).collect();
            let conflict = match RouteTable::new(all) {
                Ok(table) => {
                    if !self.lists.is_empty() {
                        info!(
                            tools = listed.len(),
                            servers = self.lists.len(),
                            "tools of MCP servers are listed"
                        );
                    }
                    if !listed.is_empty() {
                        routes.to_mut().extend(listed);
                    }
                    return Ok((table, routes));
                }
                Err(conflict) => conflict,
            };
            let Some(index) = listed.iter().position(|file| is_part(&conflict, &file.route)) else {
                return Err(conflict);
            };
            let route = listed.remove(index).route;
            warn!(upstream = %route.upstream, tool = %route.definition.name, error = %conflict, "a tool of the server is left out");
        }
    }
}

/// Whether a route is one of the two that can't be told apart.
fn is_part(conflict: &Conflict, route: &Route) -> bool {
    let is = |tool: &ToolName| route.definition.name == *tool;
    match conflict {
        Conflict::Tool { tool } => is(tool),
        Conflict::Resource { tool, with, .. } => is(tool) || is(with),
        Conflict::Endpoint { tool, path, .. } => {
            is(tool) || route.endpoints().any(|endpoint| endpoint.path == *path)
        }
    }
}
