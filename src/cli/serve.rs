//! `glossator run`, `stdio` and `cgi`: serve clients over sockets, the client that started this program over
//! stdio, or a single request of a web server.

use std::{
    future::Future,
    io::{self, Write},
    time::Duration,
};

use clap::Args;
use sd_notify::NotifyState;
use tokio::{
    runtime::{Builder, Runtime},
    signal::unix::Signal,
};
use tracing::{info, warn};

use super::input_output::Screen;
use super::{CommandError, ConfigArgument, STACK_BYTES};
use crate::admin::{Admin, Process, ProcessControl};
use crate::config::{self, ConfigSource, Flag, Loaded, Sources};
use crate::descriptors;
use crate::inbound::{CANCEL_TIMEOUT, cgi as cgi_api};
use crate::server::{self, AdminListener, App, Listener, Reloader, StopSignal, hangup_signals};
use crate::settings::Environment;
use crate::telemetry::log::LogFormat;
use crate::telemetry::{ErrorChain, log};

#[derive(Debug, Args)]
pub(super) struct RunArguments {
    #[command(flatten)]
    config: ConfigArgument,
    /// Listen address; port 0 selects a free port
    #[arg(long, value_name = "ADDRESS")]
    listen: Option<String>,
    #[command(flatten)]
    log: LogOverrides,
}

/// Log settings from the command line. They override the environment and the file.
#[derive(Debug, Args)]
pub(super) struct LogOverrides {
    /// Log level: off, error, warn, info, debug or trace
    #[arg(long, value_name = "LEVEL")]
    log_level: Option<String>,
    /// Log format: text or json
    #[arg(long, value_name = "FORMAT")]
    log_format: Option<String>,
}

impl LogOverrides {
    /// Returns the flags that are set, including `--listen`: name, setting and value of each.
    pub(super) fn flags(&self, listen: &Option<String>) -> Vec<Flag> {
        let all = [
            ("--listen", "server.listen", listen),
            ("--log-level", "log.level", &self.log_level),
            ("--log-format", "log.format", &self.log_format),
        ];
        let flag = |(name, setting, value): (&str, &str, &Option<String>)| {
            Some(Flag { name: name.into(), setting: setting.into(), value: value.clone()? })
        };
        all.into_iter().filter_map(flag).collect()
    }
}

/// Log format from the arguments or the environment. It is known before the configuration is read, and also
/// if clap can't parse the arguments.
pub(super) fn early_log_format() -> LogFormat {
    let arguments: Vec<String> =
        std::env::args_os().filter_map(|argument| argument.into_string().ok()).collect();
    let joined = arguments.iter().find_map(|argument| argument.strip_prefix("--log-format="));
    let mut after = arguments.iter().skip_while(|argument| *argument != "--log-format").skip(1);
    let flag = joined.or_else(|| after.next().map(String::as_str));
    let variable = Environment::from_process().0.remove("GLOSSATOR__LOG__FORMAT");
    if flag.or(variable.as_deref()) == Some("json") { LogFormat::Json } else { LogFormat::Text }
}

#[derive(Debug, Args)]
pub(super) struct StdioArguments {
    #[command(flatten)]
    config: ConfigArgument,
    #[command(flatten)]
    log: LogOverrides,
}

pub(super) fn run(arguments: &RunArguments, screen: &mut Screen) -> Result<(), CommandError> {
    screen.format = early_log_format();
    let flags = arguments.log.flags(&arguments.listen);
    let (sources, loaded, hangups, stop) = load(&arguments.config, flags, screen)?;
    run_in_runtime(&loaded, async {
        warn_of_few_descriptors(&loaded);
        let server = BoundServer::bind(&loaded).await?;
        let address = server.listener.local_addr().map_err(CommandError::from_error)?;
        let scheme = server.listener.scheme();
        info!(%scheme, %address, "listening");
        screen.line(format!("listening on {scheme}://{address}"));
        server.serve(stop, Some((sources, &loaded, hangups))).await
    })
}

/// Standard output belongs to the MCP client; all other output goes to standard error.
pub(super) fn stdio(arguments: &StdioArguments, screen: &mut Screen) -> Result<(), CommandError> {
    screen.format = early_log_format();
    let (sources, loaded, hangups, stop) = load(&arguments.config, arguments.log.flags(&None), screen)?;
    run_in_runtime(&loaded, async {
        let mut app = App::new(&loaded).map_err(CommandError::from_error)?;
        let exit_timeout = CANCEL_TIMEOUT + server::FLUSH_TIMEOUT + 2 * SHUTDOWN_TIMEOUT;
        let stop = stop.received(exit_timeout);
        let (limit_bytes, shutdown_timeout) =
            (loaded.server.filter.body_limit_bytes, loaded.server.listener.shutdown_timeout);
        let (_, process) = Process::new(loaded.clone());
        app.start().await;
        let mcp = app.mcp.clone();
        let running = app.run(Some(Reloader::new(sources, &loaded, process, hangups)));
        let outcome = mcp.serve_stdio(limit_bytes, shutdown_timeout, stop).await;
        running.end().await;
        outcome.map_err(CommandError::from_error)
    })
}

/// Error text for the client of a web server if no request can be served, for example because the
/// configuration is invalid. The details are in the web server's log.
const CGI_FAILURE: &str = "glossator can't serve: its errors are in the web server's error log";

pub(super) fn cgi(arguments: &StdioArguments, screen: &mut Screen) -> Result<(), CommandError> {
    screen.format = early_log_format();
    let result = serve_request(arguments, screen);
    if result.is_err() {
        write_response(&cgi_api::error_response(http::StatusCode::INTERNAL_SERVER_ERROR, CGI_FAILURE));
    }
    result
}

fn serve_request(arguments: &StdioArguments, screen: &mut Screen) -> Result<(), CommandError> {
    let (request_variables, other_variables): (Vec<_>, Vec<_>) =
        config::process_variables().partition(|(name, _)| cgi_api::is_request_variable(name));
    let sources = Sources {
        origin: ConfigSource::Path(arguments.config.path()?),
        // Without the variables of the request: otherwise a client could set a value that the configuration
        // refers to, as in "httpoxy".
        environment: Environment::from_variables(other_variables),
        flags: arguments.log.flags(&None),
    };
    let loaded = config::load(&sources).map_err(CommandError::Problems)?;
    screen.format = loaded.log.format;
    screen.problems(&loaded.warnings);
    log::init(&loaded.log).map_err(CommandError::runtime)?;
    let request = match cgi_api::request(&request_variables, tokio::io::stdin()) {
        Ok(request) => request,
        Err(error) => {
            write_response(&cgi_api::error_response(error.status, &error.to_string()));
            screen.error_line(&error.to_string());
            return Ok(());
        }
    };
    let mut app = App::new(&loaded).map_err(CommandError::from_error)?;
    // A single request needs no further threads.
    let runtime = build_runtime(&mut Builder::new_current_thread())?;
    let result = runtime.block_on(async move {
        app.start().await;
        app.fetch_mcp_lists().await;
        let head_only = request.method() == http::Method::HEAD;
        let response = app.handler.handle(request).await;
        let result = cgi_api::write_response(response, head_only, &mut io::stdout().lock()).await;
        app.close().await;
        result
    });
    // Tasks that are still running are not awaited.
    runtime.shutdown_background();
    if let Err(error) = result {
        // The response has already begun, so the error can only be reported on standard error.
        screen.error_line(&format!("the response was not written to its end: {}", ErrorChain(&error)));
    }
    Ok(())
}

/// Writes a complete response to standard output. Ignores the error if the web server does not read it.
fn write_response(response: &[u8]) {
    let mut out = io::stdout().lock();
    let _ = out.write_all(response).and_then(|()| out.flush());
}

/// Loads the configuration of a process that can reload it, after installing the handlers of SIGHUP and of
/// the signals that stop the process.
fn load(
    config: &ConfigArgument,
    flags: Vec<Flag>,
    screen: &mut Screen,
) -> Result<(Sources, Loaded, Signal, StopSignal), CommandError> {
    // First of all: a supervisor may send signals as soon as the program has started.
    let stop = StopSignal::install().map_err(system_failure(NO_SIGNAL_HANDLERS))?;
    let hangups = hangup_signals().map_err(system_failure(NO_SIGNAL_HANDLERS))?;
    let sources = config.sources(flags)?;
    let loaded = config::load(&sources).map_err(CommandError::Problems)?;
    screen.format = loaded.log.format;
    screen.problems(&loaded.warnings);
    Ok((sources, loaded, hangups, stop))
}

/// Returns a function that converts a system error to a failure with this `description`.
pub(super) fn system_failure(description: &'static str) -> impl Fn(io::Error) -> CommandError {
    move |error| CommandError::runtime(format!("{description}: {}", ErrorChain(&error)))
}

/// Error text if a signal handler can't be installed.
pub(super) const NO_SIGNAL_HANDLERS: &str = "can't install signal handlers";

/// Timeout for tasks that are still running when a command ends.
const SHUTDOWN_TIMEOUT: Duration = Duration::from_secs(1);

/// Sets up the log and the runtime, and runs the work of a command. Then shuts down the runtime within
/// [`SHUTDOWN_TIMEOUT`].
pub(super) fn run_in_runtime(
    loaded: &Loaded,
    work: impl Future<Output = Result<(), CommandError>>,
) -> Result<(), CommandError> {
    log::init(&loaded.log).map_err(CommandError::runtime)?;
    descriptors::raise_limit();
    let runtime = build_runtime(&mut Builder::new_multi_thread())?;
    let result = runtime.block_on(work);
    // Dropping the runtime would wait for blocking tasks without a timeout.
    runtime.shutdown_timeout(SHUTDOWN_TIMEOUT);
    result
}

fn build_runtime(builder: &mut Builder) -> Result<Runtime, CommandError> {
    builder.enable_all().thread_stack_size(STACK_BYTES).build().map_err(CommandError::from_error)
}

/// Warns if the configured limits may need more file descriptors than the system allows.
fn warn_of_few_descriptors(loaded: &Loaded) {
    let needed = loaded.descriptors_needed();
    if let Some(limit) = descriptors::limit().filter(|limit| *limit < needed) {
        warn!(
            limit,
            needed,
            "the limit of open files is lower than the configured limits may need: raise it (`LimitNOFILE`, \
             `ulimit -Hn`), or lower `server.max_connections` and `max_in_flight`"
        );
    }
}

/// A server whose ports are bound, but that does not serve yet.
pub(super) struct BoundServer {
    app: App,
    pub(super) listener: Listener,
    /// The admin API, if it is enabled. It is open until the last call has ended.
    pub(super) admin: Option<AdminListener>,
    process: ProcessControl,
}

impl BoundServer {
    pub(super) async fn bind(loaded: &Loaded) -> Result<Self, CommandError> {
        let app = App::new(loaded).map_err(CommandError::from_error)?;
        let bind_failure = |where_to_set: &'static str| {
            move |error: String| CommandError::runtime(format!("{error}; set another address {where_to_set}"))
        };
        let inherited_failure =
            system_failure("can't listen on the socket that `LISTEN_FDS` passes (socket activation)");
        let port = match server::inherited().map_err(inherited_failure)? {
            Some(port) => port,
            None => server::bind(app.settings.listen).map_err(bind_failure("with `--listen`"))?,
        };
        let (process, control) = Process::new(loaded.clone());
        let admin = Admin::new(app.gateway.clone(), app.meters.clone(), process, &loaded.admin);
        let admin = AdminListener::open(&loaded.admin, admin).await.map_err(bind_failure("under `admin`"))?;
        Ok(Self { listener: app.listener(port), app, admin, process: control })
    }

    /// Serves until `stop` is received, then shuts down gracefully. `reload` has the sources from which the
    /// configuration is reloaded; `None` disables reloads.
    pub(super) async fn serve(
        self,
        stop: StopSignal,
        reload: Option<(Sources, &Loaded, Signal)>,
    ) -> Result<(), CommandError> {
        let Self { mut app, listener, admin, process } = self;
        let (settings, handler) = (app.settings, app.handler.clone());
        let exit_timeout = settings.shutdown_delay
            + settings.shutdown_timeout
            + 2 * CANCEL_TIMEOUT
            + server::FLUSH_TIMEOUT
            + 2 * SHUTDOWN_TIMEOUT;
        let signal = stop.received(exit_timeout);
        let status = process.status.clone();
        let stop = async move {
            signal.await;
            notify_supervisor(NotifyState::Stopping);
            status.send_modify(|status| status.is_ending = true);
        };
        app.start().await;
        // Without a reloader, `process` is dropped, and the admin API then rejects requests to reload.
        let running = app
            .run(reload.map(|(sources, loaded, hangups)| Reloader::new(sources, loaded, process, hangups)));
        notify_supervisor(NotifyState::Ready);
        // Cut-off requests have been logged; they do not change the exit status.
        let _ = server::serve(listener, settings, handler, stop).await;
        running.end().await;
        drop(admin);
        Ok(())
    }
}

/// Notifies systemd of a state, if systemd has set `NOTIFY_SOCKET`.
fn notify_supervisor(state: NotifyState<'_>) {
    if let Err(error) = sd_notify::notify(&[state]) {
        warn!(%error, "systemd not notified of the start or stop: `NOTIFY_SOCKET` can't be reached");
    }
}
