//! `glossator demo`: serve in front of a legacy server that comes along.

mod legacy;

use std::net::SocketAddr;

use clap::Args;

use super::{
    Failure,
    output::{Paint, Screen},
    run::{Overrides, Server, prepare, run_to_end},
};
use crate::config::{Environment, Loaded, Origin, Sources};
use legacy::LegacyServer;

#[derive(Debug, Args)]
pub(super) struct DemoArguments {
    #[command(flatten)]
    overrides: Overrides,
}

/// The routes: an ordinary file, so that it teaches the syntax.
const ROUTES: &str = include_str!("../../../config/demo.yaml");
const ROUTES_NAME: &str = "config/demo.yaml";

pub(super) fn demo(arguments: &DemoArguments, screen: &mut Screen) -> Result<(), Failure> {
    screen.write_as(arguments.overrides.log.format());
    // The log needs a configuration, and that needs the legacy server's address.
    let loaded = load(arguments, None, screen)?;
    screen.write_as(Some(loaded.log.format));
    run_to_end(prepare(&loaded)?, async {
        let in_the_way = |error: std::io::Error| {
            Failure::runtime(format!("the demo's legacy server can't listen: {error}"))
        };
        let legacy = LegacyServer::bind().await.map_err(in_the_way)?;
        let legacy_address = legacy.address().map_err(in_the_way)?;
        let loaded = load(arguments, Some(legacy_address), screen)?;
        screen.problems(&loaded.warnings);
        let server = Server::bind(&loaded).await?;
        let operators = server.operators_address();
        introduce(&loaded, (server.address()?, operators), legacy_address, screen);
        tokio::select! {
            ended = server.serve() => ended,
            () = legacy.serve() => Ok(()),
        }
    })
}

fn load(
    arguments: &DemoArguments,
    legacy: Option<SocketAddr>,
    screen: &mut Screen,
) -> Result<Loaded, Failure> {
    let mut environment = Environment::of_process();
    environment.extend(legacy.map(|address| ("LEGACY_URL".to_owned(), format!("http://{address}"))));
    let origin = Origin::Text { name: ROUTES_NAME.into(), text: ROUTES.into() };
    let sources = Sources { origin, environment, flags: arguments.overrides.flags() };
    crate::config::load(&sources).map_err(|problems| {
        screen.problems(problems.as_slice());
        Failure::Found
    })
}

fn introduce(
    loaded: &Loaded,
    (address, operators): (SocketAddr, Option<SocketAddr>),
    legacy: SocketAddr,
    screen: &mut Screen,
) {
    let title = |screen: &Screen, text: &str| screen.paint(Paint::Strong, text);
    screen.line(format!("listening on http://{address}"));
    screen.line(format!(
        "in front of a legacy server on http://{legacy} (try: curl -i http://{legacy}/report/oslo)\n"
    ));
    screen.line(title(screen, "Tools"));
    let width = loaded.routes.iter().map(|file| file.route.definition.name.as_str().len()).max().unwrap_or(0);
    for file in loaded.routes.iter() {
        let definition = &file.route.definition;
        let description = definition.description.as_deref().unwrap_or_default();
        screen.line(format!("  {:width$}  {description}", definition.name.as_str()));
    }
    screen.line(format!("\n{}", title(screen, "URLs")));
    for (path, what) in [
        ("/mcp", "MCP, Streamable HTTP, revisions 2024-11-05 to 2026-07-28"),
        ("/weather", "REST: get_weather"),
        ("/tools", "REST: the manifest, and POST /tools/NAME for every tool"),
        ("/health", "whether it serves"),
    ] {
        screen.line(format!("  http://{address}{path:9}  {what}"));
    }
    if let Some(operators) = operators {
        let what = "the operators' page: how calls go, and a workbench for rules";
        screen.line(format!("  http://{operators}{:9}  {what}", "/"));
    }
    screen.line(format!("\n{}\n", title(screen, "Try")));
    screen.line("REST with curl:\n");
    screen.line(format!("  curl -s -X POST http://{address}/weather -H 'Content-Type: application/json' -d '{{\"city\": \"Oslo\"}}'\n"));
    screen.line("MCP with curl:\n");
    screen.line(format!("  curl -s http://{address}/mcp -H 'Content-Type: application/json' \\"));
    screen.line(
        "    -H 'Accept: application/json, text/event-stream' -H 'MCP-Protocol-Version: 2026-07-28' \\",
    );
    screen.line("    -H 'Mcp-Method: tools/call' -H 'Mcp-Name: get_weather' \\");
    screen.line("    -d '{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"tools/call\",\"params\":{\"name\":\"get_weather\",\"arguments\":{\"city\":\"Tromsø\"},\"_meta\":{\"io.modelcontextprotocol/protocolVersion\":\"2026-07-28\",\"io.modelcontextprotocol/clientCapabilities\":{}}}}'\n");
    screen.line("An MCP client's configuration (VS Code, .vscode/mcp.json; others are much alike):\n");
    screen.line(format!(
        "  {{ \"servers\": {{ \"demo\": {{ \"type\": \"http\", \"url\": \"http://{address}/mcp\" }} }} }}\n"
    ));
    screen.line("The routes are config/demo.yaml. Ctrl-C ends the demo.");
}
