//! `glossator cgi`: answer one request of a web server.

use std::io::{self, Write};

use clap::Args;

use super::{
    ConfigArgument, Failure, STACK_BYTES,
    output::Screen,
    run::{DISCOVERY_PATIENCE, LogOverrides, start_log},
};
use crate::{
    config::{self, Environment, Origin, Sources},
    inbound::cgi,
    server::{self, CgiError},
    telemetry::Chain,
};

#[derive(Debug, Args)]
pub(super) struct CgiArguments {
    #[command(flatten)]
    config: ConfigArgument,
    #[command(flatten)]
    log: LogOverrides,
}

/// What a client is told when there is no gateway to answer it. Why is in the web server's log.
const NOT_CONFIGURED: &str = "the gateway can't serve: its problems are in the web server's error log";

pub(super) fn cgi(arguments: &CgiArguments, screen: &mut Screen) -> Result<(), Failure> {
    screen.write_as(arguments.log.format());
    let answered = answer(arguments, screen);
    if answered.is_err() {
        say(&cgi::broken(http::StatusCode::INTERNAL_SERVER_ERROR, NOT_CONFIGURED));
    }
    answered
}

fn answer(arguments: &CgiArguments, screen: &mut Screen) -> Result<(), Failure> {
    let (request, own): (Vec<_>, Vec<_>) =
        config::process_variables().partition(|(name, _)| cgi::is_of_request(name));
    let sources = Sources {
        origin: Origin::Path(arguments.config.path()?),
        // Without what a client has a say in, or one could set what a file names.
        environment: Environment::of(own),
        flags: arguments.log.flags(),
    };
    let loaded = config::load(&sources).map_err(Failure::Problems)?;
    screen.write_as(Some(loaded.log.format));
    screen.problems(&loaded.warnings);
    start_log(&loaded)?;
    let request = match cgi::request(&request, tokio::io::stdin()) {
        Ok(request) => request,
        Err(error) => {
            say(&cgi::broken(error.status(), &error.to_string()));
            screen.complain(&error.to_string());
            return Ok(());
        }
    };
    let told = |error: &dyn std::error::Error| Failure::runtime(Chain(error).to_string());
    let assembled = server::assemble(&loaded).map_err(|error| told(&error))?;
    // One request has no use for more threads.
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .thread_stack_size(STACK_BYTES)
        .build()
        .map_err(|error| told(&error))?;
    let (answerer, mut swap) = (assembled.answerer, assembled.swap);
    let answered = runtime.block_on(async move {
        swap.join_others().await;
        swap.discover_first(DISCOVERY_PATIENCE).await;
        let answered = server::answer_cgi(&answerer, request, &mut io::stdout().lock()).await;
        swap.close().await;
        answered
    });
    // What still runs, nobody waits for.
    runtime.shutdown_background();
    match answered {
        Ok(()) => {}
        // The response has begun: what is missing of it can only be told here.
        Err(error @ (CgiError::Write(_) | CgiError::CutOff(_))) => {
            screen.complain(&Chain(&error).to_string())
        }
    }
    Ok(())
}

/// Writes a whole response. A web server that reads no more has nobody to hand it to.
fn say(response: &[u8]) {
    let mut out = io::stdout().lock();
    let _ = out.write_all(response).and_then(|()| out.flush());
}
