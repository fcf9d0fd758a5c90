//! Discovery of the lists of MCP upstreams: tools become routes, prompts and resources are proxied. Lists are
//! fetched at startup, on `list_changed`, and periodically.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::mpsc;
use tokio::time::{sleep, timeout};
use tracing::{debug, info, warn};

use crate::config::{CompiledRoute, ImportNote, Importer};
use crate::pipeline::{ProxiedKind, ProxiedTable};
use crate::prompt::PromptTable;
use crate::route::{Conflict, RouteTable, UpstreamName};
use crate::telemetry::ErrorChain;
use crate::upstream::http::jitter;
use crate::upstream::mcp::{McpLists, McpUpstream, RequestedLists};

/// The latest lists of each MCP upstream that has sent them.
#[derive(Debug, Default)]
pub(super) struct DiscoveredLists {
    pub(super) by_upstream: BTreeMap<UpstreamName, McpLists>,
    /// The notes that were last logged for each upstream and kind of list, so that they are not logged again.
    logged: HashMap<(UpstreamName, &'static str), Vec<ImportNote>>,
}

impl DiscoveredLists {
    /// Removes upstreams that are no longer configured.
    pub(super) fn retain(&mut self, is_configured: impl Fn(&UpstreamName) -> bool) {
        self.by_upstream.retain(|name, _| is_configured(name));
        self.logged.retain(|(name, _), _| is_configured(name));
    }

    /// Builds the table of all routes, and returns it with the routes. A tool that conflicts with a
    /// configured route, or with a tool of an earlier upstream, is omitted.
    ///
    /// # Errors
    ///
    /// [`Conflict`] between configured routes; a loaded configuration has none.
    pub(super) fn table(
        &mut self,
        importer: &Importer,
        configured: &[CompiledRoute],
    ) -> Result<(RouteTable, Vec<CompiledRoute>), Conflict> {
        let mut routes = configured.to_vec();
        let mut listed_routes: Vec<CompiledRoute> = Vec::new();
        let imported = importer
            .import(self.by_upstream.iter().map(|(name, lists)| (name, lists.tools.as_slice())), configured);
        for mut imported in imported {
            for route in imported.completed_routes {
                if let Some(existing) = routes.iter_mut().find(|existing| existing.name() == route.name()) {
                    *existing = route;
                }
            }
            for route in imported.routes {
                match listed_routes.iter().find(|other| other.name() == route.name()) {
                    None => listed_routes.push(route),
                    Some(other) => {
                        let (tool, other) = (route.name().to_string(), &other.route.upstream);
                        let reason = "has a tool of that name; set a `prefix` for the tools";
                        imported
                            .notes
                            .push(ImportNote { tool, text: format!("omitted: `{other}` {reason}") });
                    }
                }
            }
            self.log((imported.upstream, "tools"), imported.notes);
        }
        loop {
            let all =
                routes.iter().chain(&listed_routes).map(|compiled| Arc::clone(&compiled.route)).collect();
            let conflict = match RouteTable::new(all) {
                Ok(table) => {
                    let (tools, servers) = (listed_routes.len(), self.by_upstream.len());
                    if servers > 0 {
                        info!(tools, servers, "tools of MCP servers listed");
                    }
                    routes.extend(listed_routes);
                    return Ok((table, routes));
                }
                Err(conflict) => conflict,
            };
            let Some(index) = listed_routes.iter().position(|compiled| {
                [&conflict.route, &conflict.with].contains(&&compiled.route.definition.name)
            }) else {
                return Err(conflict);
            };
            let route = listed_routes.remove(index).route;
            let (upstream, tool) = (&route.upstream, &route.definition.name);
            warn!(%upstream, %tool, error = %conflict, "tool of an MCP server omitted");
        }
    }

    /// Builds the table of the proxied prompts and resources, and returns it with the routes that forward
    /// them. Prompts and resources of the configuration, or of an earlier upstream, take precedence.
    pub(super) fn proxied(
        &mut self,
        importer: &Importer,
        own_routes: &RouteTable,
        own_prompts: &PromptTable,
    ) -> (ProxiedTable, Vec<CompiledRoute>) {
        let (mut table, mut routes) = (ProxiedTable::default(), Vec::new());
        for lists in importer.proxy(&self.by_upstream) {
            let mut notes = lists.notes;
            for entry in lists.entries {
                let upstream_key = entry.upstream_key.clone();
                if let Err(reason) = table.add(entry, own_routes, own_prompts) {
                    notes.push(ImportNote { tool: upstream_key, text: format!("omitted: {reason}") });
                }
            }
            table.has_prompts |= lists.has_prompts;
            table.has_resources |= lists.has_resources;
            routes.extend(lists.routes);
            self.log((lists.upstream, "prompts and resources"), notes);
        }
        if table.has_prompts || table.has_resources {
            let count = |kind| table.by_kind(kind).count();
            let (prompts, resources) = (count(ProxiedKind::Prompt), count(ProxiedKind::Resource));
            let templates = count(ProxiedKind::Template);
            info!(prompts, resources, templates, "prompts and resources of MCP servers listed");
        }
        (table, routes)
    }

    /// Logs the notes on a list of an upstream, unless they are the same as last time.
    fn log(&mut self, list_key: (UpstreamName, &'static str), notes: Vec<ImportNote>) {
        if self.logged.get(&list_key) == Some(&notes) {
            return;
        }
        let (upstream, list) = &list_key;
        for ImportNote { tool, text } in &notes {
            warn!(%upstream, list, name = tool, reason = text, "MCP list imported with limitations");
        }
        self.logged.insert(list_key, notes);
    }
}

/// The current lists of an upstream; `None` if fetching them failed.
pub(super) type Discovered = (UpstreamName, Option<McpLists>);

/// Initial and maximum backoff after a failure.
const BACKOFF: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(60));
/// Delay after `list_changed`, because further changes often follow (debouncing).
const DEBOUNCE_TIME: Duration = Duration::from_millis(100);

/// Polls the lists of an upstream. Reports lists that differ from the known lists, and the first of
/// consecutive failures.
pub(super) async fn poll(
    upstream: McpUpstream,
    (requested, interval): (RequestedLists, Duration),
    mut known_lists: Option<McpLists>,
    discovered: mpsc::Sender<Discovered>,
) {
    let name = upstream.name().clone();
    let mut changes = upstream.changes();
    let (mut failures, mut wait) = (0_u32, Duration::ZERO);
    loop {
        // `changes` also notifies after a reconnect, so that the lists are then fetched at once.
        if let Ok(Ok(())) = timeout(jitter(wait), changes.changed()).await {
            sleep(DEBOUNCE_TIME).await;
            changes.mark_unchanged();
        }
        let result = upstream.list(requested, known_lists.as_ref()).await;
        let (lists, error) =
            result.map_or_else(|error| (None, Some(error)), |(lists, error)| (Some(lists), error));
        let is_new = match &lists {
            Some(_) => lists != known_lists,
            None => failures == 0,
        };
        if is_new {
            known_lists = lists.clone().or(known_lists);
            if discovered.send((name.clone(), lists)).await.is_err() {
                return;
            }
        }
        let Some(error) = error else {
            if failures > 0 {
                info!(upstream = %name, "MCP discovery succeeded again");
            }
            (failures, wait) = (0, interval);
            continue;
        };
        wait = (BACKOFF.0 * (1 << failures.min(16))).min(BACKOFF.1);
        if failures == 0 {
            warn!(upstream = %name, error = %ErrorChain(&error), "MCP discovery failed, retrying");
        } else {
            debug!(upstream = %name, error = %ErrorChain(&error), failures, "MCP discovery failed again");
        }
        failures = failures.saturating_add(1);
    }
}

#[cfg(test)]
mod tests {
    use tokio_util::task::AbortOnDropHandle;

    use super::*;
    use crate::config::{self, Sources};
    use crate::upstream::Upstream;

    #[tokio::test(start_paused = true)]
    async fn a_server_that_stays_down_is_reported_once() {
        let text = "upstreams: { old: { mcp: 'http://127.0.0.1:1/mcp' } }";
        let loaded = config::load(&Sources::from_text("a.yaml", text)).unwrap();
        let parsed = &loaded.upstreams[0];
        let upstream = Upstream::new(parsed.settings.clone()).mcp().unwrap().clone();
        let (sender, mut reports) = mpsc::channel(9);
        let polling = poll(upstream, (parsed.requested_lists(), BACKOFF.1), None, sender);
        let _polling = AbortOnDropHandle::new(tokio::spawn(polling));
        assert!(reports.recv().await.unwrap().1.is_none());
        timeout(10 * BACKOFF.1, reports.recv()).await.expect_err("it failed again");
    }
}
