//! `glossator stdio`: speak MCP with the client that started us.

use std::io;

use clap::Args;

use super::{
    ConfigArgument, Failure,
    output::Screen,
    run::{DISCOVERY_PATIENCE, LogOverrides, SHUTDOWN_TIMEOUT, prepare, run_to_end},
};
use crate::{
    admin::{Playground, Process},
    config,
    server::{self, Drained, Hangups, Keeping, Pipes, Reloader, Watched},
    telemetry::Chain,
};

#[derive(Debug, Args)]
pub(super) struct StdioArguments {
    #[command(flatten)]
    config: ConfigArgument,
    #[command(flatten)]
    log: LogOverrides,
}

/// Standard output is the client's: whatever else there is to say goes to standard error.
pub(super) fn stdio(arguments: &StdioArguments, screen: &mut Screen) -> Result<(), Failure> {
    screen.write_as(arguments.log.format());
    let hangups = Hangups::receive().map_err(|error| Failure::runtime(Chain(&error).to_string()))?;
    let sources = arguments.config.sources(arguments.log.flags())?;
    let loaded = config::load(&sources).map_err(Failure::Problems)?;
    screen.write_as(Some(loaded.log.format));
    screen.problems(&loaded.warnings);
    let told = |error: &dyn std::error::Error| Failure::runtime(Chain(error).to_string());
    run_to_end(prepare(&loaded)?, async {
        let mut assembled = server::assemble(&loaded).map_err(|error| told(&error))?;
        let drain = loaded.listener.drain;
        let patience = server::CUT_TIMEOUT + server::FLUSH_TIMEOUT + 2 * SHUTDOWN_TIMEOUT;
        let stop = server::stop_signal(patience).map_err(|error| told(&error))?;
        let pipes = Pipes {
            input: io::stdin(),
            output: io::stdout(),
            message_limit_bytes: loaded.door.body_limit_bytes,
            drain,
        };
        let (_, control) = Process::new(Playground::new(&loaded));
        let watched = Watched::of(&sources, &loaded);
        assembled.swap.join_others().await;
        assembled.swap.discover_first(DISCOVERY_PATIENCE).await;
        let reloader = Reloader::new(sources, watched, assembled.swap, control);
        let keeping = Keeping::reloading(reloader, hangups);
        let sending = assembled.telemetry.send();
        let drained = server::serve_stdio(&assembled.mcp, pipes, stop).await;
        keeping.end().await;
        sending.end().await;
        match drained.map_err(|error| told(&error))? {
            Drained::All => Ok(()),
            // It has been logged; the client was gone.
            Drained::CutOff { .. } => Ok(()),
        }
    })
}
