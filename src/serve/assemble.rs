//! From a configuration to something that serves.

use std::{collections::HashMap, sync::Arc};

use axum::Router;

use super::{ServerSettings, router};
use crate::{
    config::Loaded,
    face::{
        door::{Door, DoorSettings},
        mcp::{Mcp, McpSettings},
        rest::Rest,
    },
    gateway::{Gateway, Snapshot},
    observe::log::{LogError, LogFormat, LogSettings},
    policy::{Gate, Passthrough, guard},
    route::{Conflict, RouteTable},
    upstream::Upstream,
};

/// What a server runs with, made of a configuration.
#[derive(Debug)]
pub struct Assembled {
    /// How clients are treated.
    pub settings: ServerSettings,
    /// Every path and its face.
    pub router: Router,
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
    let server = &loaded.server;
    let door = Door::new(&DoorSettings {
        allowed_hosts: server.allowed_hosts.clone(),
        allowed_origins: server.allowed_origins.clone(),
        body_limit_bytes: server.body_limit_bytes,
        body_timeout: server.body_timeout,
    });
    let mcp = McpSettings {
        server_name: server.name.clone(),
        server_title: server.title.clone(),
        instructions: server.instructions.clone(),
        page_size: server.page_size,
        list_ttl: server.list_ttl,
        ..McpSettings::default()
    };
    let settings = ServerSettings {
        listen: server.listen,
        connection_limit: server.connection_limit,
        header_read_timeout: server.header_timeout,
        drain_timeout: server.drain,
        ..ServerSettings::default()
    };
    let router = router(Rest::new(gateway.clone(), door.clone()), Mcp::new(gateway.clone(), mcp, door));
    Ok(Assembled { settings, router, gateway })
}

/// The settings of the log.
///
/// # Errors
///
/// [`LogError`] when the level or the form is none.
pub fn log_settings(loaded: &Loaded) -> Result<LogSettings, LogError> {
    let format = match loaded.log.format.as_str() {
        "json" => LogFormat::Json,
        _ => LogFormat::Text,
    };
    let filter = match loaded.log.level.as_str() {
        quiet @ ("off" | "error" | "warn") => quiet.to_owned(),
        // The MCP library tells every request at `info`; that is our line to write.
        level => format!("{level},rmcp=warn"),
    };
    Ok(LogSettings { filter, format })
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
        guarded.insert(name, guard(upstream, gate));
    }
    Ok(Snapshot::new(table, guarded, passthrough))
}
