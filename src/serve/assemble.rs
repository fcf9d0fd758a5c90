//! From a configuration to something that serves.

use std::{collections::HashMap, sync::Arc};

use axum::Router;

use super::router;
use crate::{
    config::{ListenerSettings, Loaded},
    face::{door::Door, mcp::Mcp, rest::Rest},
    gateway::{Gateway, Snapshot},
    policy::{Gate, Passthrough, guard},
    prompt::PromptTable,
    route::{Conflict, RouteTable},
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
}

/// Puts the parts together. Nothing is bound or connected yet.
///
/// # Errors
///
/// [`Conflict`] when one request would fit two routes; a loaded configuration was checked for that.
pub fn assemble(loaded: &Loaded) -> Result<Assembled, Conflict> {
    let gateway = Gateway::new(snapshot(loaded)?);
    let door = Door::new(&loaded.door);
    let mcp = Mcp::new(gateway.clone(), loaded.mcp.clone(), door.clone());
    let router = router(Rest::new(gateway.clone(), door), mcp.clone());
    Ok(Assembled { settings: loaded.listener, router, mcp, gateway })
}

fn snapshot(loaded: &Loaded) -> Result<Snapshot, Conflict> {
    let table = RouteTable::new(loaded.routes.iter().map(|file| Arc::clone(&file.route)).collect())?;
    let (mut guarded, mut passthrough) = (HashMap::new(), None);
    for file in &loaded.upstreams {
        let name = file.settings.name.clone();
        let upstream = Upstream::new(file.settings.clone());
        // Shared by calls and what is handed through, as the connections are.
        let gate = Arc::new(Gate::new(name.clone(), file.policy));
        if let Some((_, settings)) = loaded.passthrough.as_ref().filter(|(chosen, _)| *chosen == name) {
            passthrough = Some(Passthrough::new(upstream.clone(), gate.clone(), *settings));
        }
        guarded.insert(name, guard(upstream, gate, file.policy));
    }
    let prompts = loaded.prompts.iter().map(|file| Arc::clone(&file.prompt)).collect();
    Ok(Snapshot::new(table, guarded, passthrough).with_prompts(PromptTable::new(prompts)))
}
