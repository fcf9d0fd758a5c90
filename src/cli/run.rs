//! `glossator run`: serve.

use std::{ffi::OsString, future::Future, net::SocketAddr, time::Duration};

use clap::Args;
use tokio::runtime::Runtime;
use tracing::{info, warn};

use super::{ConfigArgument, Failure, STACK_BYTES, output::Screen};
use crate::{
    admin::{Admin, Playground, Process, ProcessControl},
    config::{self, Flag, ListenerSettings, Loaded, Sources},
    descriptors,
    server::{
        self, Answerer, Assembled, Drained, Hangups, Keeping, Listener, OperatorsPort, Reloader, Swap,
        Telemetry, Watched,
    },
    telemetry::{
        Chain,
        log::{self, LogFormat},
    },
};

#[derive(Debug, Args)]
pub(super) struct RunArguments {
    #[command(flatten)]
    config: ConfigArgument,
    #[command(flatten)]
    overrides: Overrides,
}

/// Settings of the process that the command line gives; they go before the environment and the file.
#[derive(Debug, Args)]
pub(super) struct Overrides {
    /// The address to listen on; port 0 takes any that is free
    #[arg(long, value_name = "ADDRESS")]
    listen: Option<String>,
    #[command(flatten)]
    pub(super) log: LogOverrides,
}

/// The same of the log alone.
#[derive(Debug, Args)]
pub(super) struct LogOverrides {
    /// How much is logged: off, error, warn, info, debug or trace
    #[arg(long, value_name = "LEVEL")]
    log_level: Option<String>,
    /// The form of the log: text or json
    #[arg(long, value_name = "FORM")]
    log_format: Option<String>,
}

impl Overrides {
    pub(super) fn flags(&self) -> Vec<Flag> {
        let mut flags: Vec<Flag> =
            flag("--listen", "server.listen", self.listen.as_ref()).into_iter().collect();
        flags.extend(self.log.flags());
        flags
    }
}

impl LogOverrides {
    /// The form that the command line or the environment wants, known before the file is read.
    pub(super) fn format(&self) -> Option<LogFormat> {
        format_wanted(self.log_format.as_deref())
    }

    pub(super) fn flags(&self) -> Vec<Flag> {
        let level = flag("--log-level", "log.level", self.log_level.as_ref());
        let format = flag("--log-format", "log.format", self.log_format.as_ref());
        level.into_iter().chain(format).collect()
    }
}

/// The form of the log that a flag wants, or the environment where there is no flag.
fn format_wanted(flag: Option<&str>) -> Option<LogFormat> {
    let mut variables = config::process_variables();
    let variable = variables.find(|(name, _)| name == "GLOSSATOR__LOG__FORMAT");
    let variable = variable.and_then(|(_, value)| value.into_string().ok());
    match flag.or(variable.as_deref()) {
        Some("json") => Some(LogFormat::Json),
        Some(_) | None => None,
    }
}

/// The same of arguments that could not be read.
pub(super) fn format_in(arguments: impl Iterator<Item = OsString>) -> Option<LogFormat> {
    let arguments: Vec<String> = arguments.filter_map(|argument| argument.into_string().ok()).collect();
    let joined = arguments.iter().find_map(|argument| argument.strip_prefix("--log-format="));
    let mut after = arguments.iter().skip_while(|argument| *argument != "--log-format").skip(1);
    format_wanted(joined.or_else(|| after.next().map(String::as_str)))
}

fn flag(name: &str, setting: &str, value: Option<&String>) -> Option<Flag> {
    value.cloned().map(|value| Flag { name: name.into(), setting: setting.into(), value })
}

pub(super) fn run(arguments: &RunArguments, screen: &mut Screen) -> Result<(), Failure> {
    screen.write_as(arguments.overrides.log.format());
    // Before everything that takes a while: a supervisor may send a hangup as soon as it has started us.
    let hangups = Hangups::receive().map_err(|error| Failure::runtime(Chain(&error).to_string()))?;
    let sources = arguments.config.sources(arguments.overrides.flags())?;
    let loaded = config::load(&sources).map_err(Failure::Problems)?;
    screen.write_as(Some(loaded.log.format));
    screen.problems(&loaded.warnings);
    let runtime = prepare(&loaded)?;
    warn_of_few_descriptors(&loaded);
    run_to_end(runtime, async {
        let mut server = Server::bind(&loaded).await?;
        server.reload_from(sources, &loaded, hangups);
        let (scheme, address) = (server.scheme(), server.address()?);
        info!(%scheme, %address, "listening");
        screen.line(format!("listening on {scheme}://{address}"));
        server.serve().await
    })
}

/// How long MCP servers may take to list their tools before clients are served without them.
pub(super) const DISCOVERY_PATIENCE: Duration = Duration::from_secs(5);

/// How long what a command leaves running may take to end.
pub(super) const SHUTDOWN_TIMEOUT: Duration = Duration::from_secs(1);

/// Runs a command's work, then leaves whatever of it does not end by itself.
pub(super) fn run_to_end<T>(runtime: Runtime, work: impl Future<Output = T>) -> T {
    let done = runtime.block_on(work);
    // Dropping the runtime would wait for a call that never pauses as long as it runs.
    runtime.shutdown_timeout(SHUTDOWN_TIMEOUT);
    done
}

/// Starts the log and the runtime.
pub(super) fn prepare(loaded: &Loaded) -> Result<Runtime, Failure> {
    start_log(loaded)?;
    descriptors::raise_limit();
    tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .thread_stack_size(STACK_BYTES)
        .build()
        .map_err(|error| Failure::runtime(error.to_string()))
}

/// The limits of the configuration may allow more files and sockets than the system does.
fn warn_of_few_descriptors(loaded: &Loaded) {
    let needed = loaded.descriptors_needed();
    if let Some(limit) = descriptors::limit().filter(|limit| *limit < needed) {
        warn!(
            limit,
            needed,
            "the limit of open files is lower than the configured limits may need: raise it (`LimitNOFILE`, `ulimit -Hn`), or lower `server.connections` and `in_flight`"
        );
    }
}

/// Starts the log.
pub(super) fn start_log(loaded: &Loaded) -> Result<(), Failure> {
    log::init(&loaded.log).map_err(|error| Failure::runtime(Chain(&error).to_string()))
}

/// A server that is bound and not yet serving.
pub(super) struct Server {
    listener: Listener,
    settings: ListenerSettings,
    answerer: Answerer,
    swap: Swap,
    telemetry: Telemetry,
    /// Open until the last call has ended.
    operators: Option<OperatorsPort>,
    process: ProcessControl,
    reload: Option<(Hangups, Sources, Watched)>,
}

impl Server {
    pub(super) async fn bind(loaded: &Loaded) -> Result<Self, Failure> {
        let assembled = server::assemble(loaded).map_err(|error| Failure::runtime(error.to_string()))?;
        let Assembled {
            settings,
            answerer,
            gateway,
            meters,
            upstream_buffer,
            certificate,
            telemetry,
            swap,
            ..
        } = assembled;
        let inherited = server::inherited().map_err(|error| Failure::runtime(Chain(&error).to_string()))?;
        let listener = match inherited {
            Some(listener) => listener,
            None => server::bind(settings.listen).await.map_err(|error| {
                Failure::runtime(format!("{}; another address is given with `--listen`", Chain(&error)))
            })?,
        };
        let listener = Listener::from(listener).with(certificate).charging(upstream_buffer);
        let (process, control) = Process::new(Playground::new(loaded));
        let admin = Admin::new(gateway, meters, process, &loaded.admin);
        let operators = OperatorsPort::open(&loaded.admin, admin).await.map_err(|error| {
            Failure::runtime(format!("{}; another address is given under `admin`", Chain(&error)))
        })?;
        Ok(Self { listener, settings, answerer, swap, telemetry, operators, process: control, reload: None })
    }

    /// Reads the configuration again, from there, whenever there is a reason.
    pub(super) fn reload_from(&mut self, sources: Sources, loaded: &Loaded, hangups: Hangups) {
        let watched = Watched::of(&sources, loaded);
        self.reload = Some((hangups, sources, watched));
    }

    /// `http`, or `https`.
    pub(super) fn scheme(&self) -> &'static str {
        self.listener.scheme()
    }

    pub(super) fn address(&self) -> Result<SocketAddr, Failure> {
        self.listener.local_addr().map_err(|error| Failure::runtime(error.to_string()))
    }

    /// Where operators connect to, where they can.
    pub(super) fn operators_address(&self) -> Option<SocketAddr> {
        self.operators.as_ref()?.address()
    }

    /// Serves until SIGTERM or Ctrl-C, and lets calls in flight end.
    pub(super) async fn serve(self) -> Result<(), Failure> {
        let Self { listener, settings, answerer, mut swap, telemetry, operators, process, reload } = self;
        let patience = settings.shutdown_delay
            + settings.drain
            + 2 * server::CUT_TIMEOUT
            + server::FLUSH_TIMEOUT
            + 2 * SHUTDOWN_TIMEOUT;
        let stop =
            server::stop_signal(patience).map_err(|error| Failure::runtime(Chain(&error).to_string()))?;
        let stop = {
            let status = process.status.clone();
            async move {
                stop.await;
                tell_supervisor(Supervised::Stopping);
                status.send_modify(|status| status.is_ending = true);
            }
        };
        swap.join_others().await;
        swap.discover_first(DISCOVERY_PATIENCE).await;
        let keeping = match reload {
            Some((hangups, sources, watched)) => {
                Keeping::reloading(Reloader::new(sources, watched, swap, process), hangups)
            }
            None => {
                // The admin API learns that nobody reloads.
                drop(process);
                Keeping::of(swap)
            }
        };
        let sending = telemetry.send();
        tell_supervisor(Supervised::Ready);
        let drained = server::serve(listener, settings, answerer, stop).await;
        keeping.end().await;
        sending.end().await;
        drop(operators);
        match drained {
            Drained::All => Ok(()),
            // It has been logged; the process did end as it was told to.
            Drained::CutOff { .. } => Ok(()),
        }
    }
}

/// What systemd waits for (`Type=notify`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Supervised {
    Ready,
    Stopping,
}

/// Tells systemd, where it has started the program and wants to know.
fn tell_supervisor(state: Supervised) {
    #[cfg(unix)]
    {
        let state = match state {
            Supervised::Ready => sd_notify::NotifyState::Ready,
            Supervised::Stopping => sd_notify::NotifyState::Stopping,
        };
        if let Err(error) = sd_notify::notify(&[state]) {
            tracing::warn!(%error, "systemd can't be notified: `NOTIFY_SOCKET` names no socket that can be reached");
        }
    }
    #[cfg(not(unix))]
    let _ = state;
}
