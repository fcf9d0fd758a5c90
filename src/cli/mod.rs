//! Command line, with one file per command. Commands are thin: lower layers do the work.
//!
//! Exit status:
//!
//! - 0: success
//! - 1: `check` or `test` found something, or running failed (for example the port is in use)
//! - 2: invalid usage
//! - 78: invalid configuration (`EX_CONFIG` of sysexits.h), so a supervisor need not restart
//! - 101: panic

mod check;
mod demo;
mod explain;
mod health;
mod import;
mod infer;
mod key;
mod migrate;
mod new;
mod input_output;
mod serve;
mod test;

use std::{path::PathBuf, process::ExitCode};

use clap::{
    Args, Parser, Subcommand, ValueEnum,
    error::{ContextKind, ContextValue},
};
use serde_json::json;

use crate::config::{Flag, Loaded, Sources, quoted_list, renamed_flag};
use crate::settings::Problems;
use crate::telemetry::{ErrorChain, log};
use input_output::Screen;

/// Turns the plain responses of legacy servers into MCP tool results.
#[derive(Debug, Parser)]
#[command(name = "glossator", version, args_conflicts_with_subcommands = true)]
struct CommandLine {
    #[command(subcommand)]
    command: Option<Command>,
    #[command(flatten)]
    run: serve::RunArguments,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Start the proxy (the default command)
    Run(serve::RunArguments),
    /// Serve MCP over stdio, for clients that start their servers themselves
    Stdio(serve::StdioArguments),
    /// Serve one request of a web server as a CGI program (RFC 3875), then exit
    Cgi(serve::StdioArguments),
    /// Serve in front of a small built-in legacy server; needs no configuration
    Demo(demo::DemoArguments),
    /// Report all problems of a configuration, each with its position and a fix
    Check(check::CheckArguments),
    /// Copy a route file with recorded responses from the gallery of real servers
    New(new::NewArguments),
    /// Rename keys of earlier versions in files
    Migrate(migrate::MigrateArguments),
    /// Run the tests of the routes
    Test(test::TestArguments),
    /// Show step by step how a response is translated to a result
    Explain(explain::ExplainArguments),
    /// Propose a route from recorded responses
    Infer(infer::InferArguments),
    /// Generate routes from an API description
    #[command(subcommand)]
    Import(import::ImportArguments),
    /// Check whether the process on this machine is ready, for health checks of containers
    Health(health::HealthArguments),
    /// Generate an API key for a client, and its hash for the configuration
    Key(key::KeyArguments),
    /// Print the JSON Schema of the configuration file, for editors
    Schema,
}

/// Path of the configuration.
#[derive(Debug, Args)]
struct ConfigArgument {
    /// The configuration: a YAML file, or a folder of them [default: ./glossator.yaml, or else
    /// /etc/glossator/glossator.yaml]
    #[arg(long, short, value_name = "PATH")]
    config: Option<PathBuf>,
}

/// Paths that are tried if the command line names no configuration.
const DEFAULT_PATHS: [&str; 2] = ["glossator.yaml", "/etc/glossator/glossator.yaml"];

/// Output format of a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Output {
    /// For people
    Text,
    /// For programs
    Json,
}

/// Reason why a command failed, with its exit status.
#[derive(Debug)]
enum CommandError {
    /// Problems or failed tests that have already been printed. Contains the exit status.
    Reported(u8),
    /// Invalid configuration.
    Problems(Problems),
    /// Any other failure.
    Other {
        /// Error message.
        message: String,
        /// Exit status.
        status: u8,
    },
}

/// Exit status for an invalid configuration: `EX_CONFIG` of sysexits.h.
const CONFIG_STATUS: u8 = 78;

impl CommandError {
    /// Error for invalid usage of the command line.
    fn usage(message: impl Into<String>) -> Self {
        Self::Other { message: message.into(), status: 2 }
    }

    /// Error for a missing or invalid configuration.
    fn config(message: impl Into<String>) -> Self {
        Self::Other { message: message.into(), status: CONFIG_STATUS }
    }

    /// Error at runtime: of the system, or of another program.
    fn runtime(message: impl Into<String>) -> Self {
        Self::Other { message: message.into(), status: 1 }
    }

    fn from_error(error: impl std::error::Error) -> Self {
        Self::runtime(ErrorChain(&error).to_string())
    }
}

/// Stack size of threads that translate responses. Before it reaches its step limit, a jq filter can nest a
/// value some hundred thousand levels deep, and dropping the value recurses once per level. Unused stack
/// occupies only address space.
const STACK_BYTES: usize = 128 << 20;

/// Runs the program: parses the command line, runs the command, and returns the exit status.
pub fn main() -> ExitCode {
    let thread =
        std::thread::Builder::new().name("main".to_owned()).stack_size(STACK_BYTES).spawn(run_program);
    match thread.map(std::thread::JoinHandle::join) {
        Ok(Ok(status)) => status,
        // The panic message is already on standard error.
        Ok(Err(_)) => {
            log::flush();
            ExitCode::from(101)
        }
        Err(error) => {
            Screen::new().error_line(&format!("no thread could be started: {error}"));
            ExitCode::FAILURE
        }
    }
}

fn run_program() -> ExitCode {
    let mut screen = Screen::new();
    let command_line = match CommandLine::try_parse() {
        Ok(command_line) => command_line,
        Err(error) => return show_parse_result(&error, &mut screen),
    };
    let (output, result) = match command_line.command.unwrap_or(Command::Run(command_line.run)) {
        Command::Run(arguments) => (Output::Text, serve::run(&arguments, &mut screen)),
        Command::Stdio(arguments) => (Output::Text, serve::stdio(&arguments, &mut screen)),
        Command::Cgi(arguments) => (Output::Text, serve::cgi(&arguments, &mut screen)),
        Command::Demo(arguments) => (Output::Text, demo::demo(&arguments, &mut screen)),
        Command::Check(arguments) => (arguments.output(), check::check(&arguments, &mut screen)),
        Command::New(arguments) => (arguments.output, new::new(&arguments, &mut screen)),
        Command::Migrate(arguments) => (arguments.output, migrate::migrate(&arguments, &mut screen)),
        Command::Test(arguments) => (arguments.output, test::test(&arguments, &mut screen)),
        Command::Explain(arguments) => (arguments.output, explain::explain(&arguments, &mut screen)),
        Command::Infer(arguments) => (arguments.output, infer::infer(&arguments, &mut screen)),
        Command::Import(import::ImportArguments::Openapi(arguments)) => {
            (arguments.output, import::openapi(&arguments, &mut screen))
        }
        Command::Health(arguments) => (Output::Text, health::health(&arguments, &mut screen)),
        Command::Key(arguments) => (arguments.output, key::key(&arguments, &mut screen)),
        Command::Schema => {
            screen.json(&crate::config::schema());
            (Output::Text, Ok(()))
        }
    };
    // All log lines must be written before the messages below.
    log::flush();
    let Err(failure) = result else { return ExitCode::SUCCESS };
    match (&failure, output) {
        (CommandError::Reported(_), _) => {}
        (CommandError::Problems(problems), Output::Text) => screen.problems(problems.as_slice()),
        (CommandError::Problems(problems), Output::Json) => {
            screen.json(&json!({ "ok": false, "problems": problems }));
        }
        (CommandError::Other { message, .. }, Output::Text) => screen.error_line(message),
        (CommandError::Other { message, .. }, Output::Json) => {
            screen.json(&json!({ "ok": false, "error": message }))
        }
    }
    match failure {
        CommandError::Reported(status) | CommandError::Other { status, .. } => ExitCode::from(status),
        CommandError::Problems(_) => ExitCode::from(CONFIG_STATUS),
    }
}

/// Prints help, the version, or a usage error: clap returns all three as a parsing error.
fn show_parse_result(error: &clap::Error, screen: &mut Screen) -> ExitCode {
    screen.format = serve::early_log_format();
    let unknown = error.get(ContextKind::InvalidArg).or_else(|| error.get(ContextKind::InvalidSubcommand));
    if let Some(ContextValue::String(argument)) = unknown
        && let Some(hint) = hint_for(argument)
    {
        screen.error_line(&hint);
        return ExitCode::from(2);
    }
    if error.use_stderr() && screen.format == log::LogFormat::Json {
        let message = error.to_string();
        screen.error_line(message.strip_prefix("error: ").unwrap_or(&message).trim_end());
    } else {
        // Standard output may be closed; that is not an error.
        let _ = error.print();
    }
    ExitCode::from(u8::try_from(error.exit_code()).unwrap_or(2))
}

/// Suggests what to write instead of an unknown argument, if that is known.
fn hint_for(argument: &str) -> Option<String> {
    if let Some(new_name) = renamed_flag(argument) {
        return Some(format!("`{argument}` is now `{new_name}`"));
    }
    let is_configuration = argument.ends_with(".yaml") || argument.ends_with(".yml");
    is_configuration.then(|| format!("unexpected argument `{argument}`; write `--config {argument}`"))
}

impl ConfigArgument {
    fn sources(&self, flags: Vec<Flag>) -> Result<Sources, CommandError> {
        Ok(Sources { flags, ..Sources::from_path(self.path()?) })
    }

    /// Returns the configured path, or else the first default path that exists.
    fn path(&self) -> Result<PathBuf, CommandError> {
        if let Some(path) = &self.config {
            return Ok(path.clone());
        }
        let found = DEFAULT_PATHS.iter().map(PathBuf::from).find(|path| path.exists());
        found.ok_or_else(|| {
            let [here, system] = DEFAULT_PATHS;
            CommandError::config(format!(
                "no configuration: neither `./{here}` nor `{system}` exists; set one with `--config`"
            ))
        })
    }

    fn load(&self, flags: Vec<Flag>) -> Result<Loaded, CommandError> {
        crate::config::load(&self.sources(flags)?).map_err(CommandError::Problems)
    }
}

/// Error for an unknown route name.
fn no_such_route(name: &str, loaded: &Loaded) -> CommandError {
    let names = quoted_list(loaded.routes.iter().map(|route| route.name().as_str()));
    let names = if names.is_empty() { "none" } else { names.as_str() };
    CommandError::usage(format!("there is no route `{name}`; there are {names}"))
}
