//! The server: listeners, connections, reload and graceful shutdown.
//!
//! Connections:
//!
//! - [`serve`] accepts connections on a [`Listener`] until its `stop` completes, and then drains them
//!   (graceful shutdown).
//! - `connection` serves a client connection: TLS, HTTP/1.1 (whose lines `line_ends` checks) or HTTP/2. Its
//!   [`HttpHandler`] routes a request to its API and counts it.
//! - `connection_activity` tracks the requests of a connection. `connection_limiter` closes connections
//!   when there are too many, or when they use too much memory.
//!
//! Configuration:
//!
//! - [`App`] has all parts of the server, built from a configuration, and activates reloaded configurations.
//! - `reload` reloads the configuration when its files change, and on request. `mcp_discovery` keeps the
//!   lists of MCP servers current.
//!
//! Others:
//!
//! - [`AdminListener`] serves the admin API.
//! - `otlp_exporter` sends traces and metrics to a collector. [`StopSignal`] is a signal that ends the
//!   program.

mod app;
mod connection;
mod connection_activity;
mod connection_limiter;
mod line_ends;
mod listener;
mod mcp_discovery;
mod otlp_exporter;
mod reload;

use std::{
    future::Future, io, mem, net::SocketAddr, os::fd::AsFd, pin::pin, process, thread, time::Duration,
};

use tokio::net::{TcpListener, TcpStream};
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::{oneshot, watch};
use tokio::time::{Instant, sleep, timeout, timeout_at};
use tokio_util::task::{AbortOnDropHandle, TaskTracker};
use tracing::{debug, info, warn};

use self::connection::ConnectionServer;
use self::connection_limiter::{ConnectionLimiter, ConnectionSlot, ResponseBuffer, take_log_turn};
use self::listener::HandshakeFailures;
use crate::config::ListenerSettings;
use crate::descriptors::check_reserve;
use crate::inbound::{CANCEL_TIMEOUT, Shutdown, ShutdownSignal};
use crate::telemetry::log;

pub use app::{App, RunningApp};
pub use connection::HttpHandler;
pub use listener::{AdminListener, Listener, bind, inherited};
pub use otlp_exporter::FLUSH_TIMEOUT;
pub use reload::{Reloader, hangup_signals};

/// Serves until `stop` completes, then shuts down gracefully:
///
/// 1. For [`ListenerSettings::shutdown_delay`], the server accepts requests as before, while load balancers
///    notice that it is no longer ready. Each HTTP/1.1 connection is closed after its next response.
/// 2. Connections without a request are closed. As long as earlier connections have requests in flight, new
///    connections are still accepted, for one request each: the next process may be able to bind the port
///    only after this one has closed it, and until then no client is rejected.
/// 3. The port is closed, and the last requests are finished. Requests that are still in flight after
///    [`ListenerSettings::shutdown_timeout`], counted from step 2, get an error.
///
/// Returns the number of connections whose requests got this error.
pub async fn serve(
    listener: impl Into<Listener>,
    settings: ListenerSettings,
    handler: HttpHandler,
    stop: impl Future<Output = ()>,
) -> usize {
    let Listener { port, tls, buffer, reserve } = listener.into();
    let buffer = ResponseBuffer::new(settings.response_buffer_limit_bytes, buffer);
    let limiter = ConnectionLimiter::new(settings.max_connections, buffer);
    let handshakes = HandshakeFailures::default();
    // The limiter continues during shutdown, until this function returns.
    let limiting = limiter.clone().limit_responses(settings.min_stall_before_close());
    let _limiting = AbortOnDropHandle::new(tokio::spawn(limiting));
    let (shutdown, stages) = watch::channel(Shutdown::Serving);
    let server = ConnectionServer {
        settings,
        tls,
        handler,
        shutdown: ShutdownSignal(stages),
        handshakes: handshakes.clone(),
    };
    let mut acceptor = Acceptor {
        limiter,
        server,
        reserve,
        accepted: None,
        slots_logged: None,
        failures: 0,
        failures_logged: None,
    };
    let (earlier_tasks, draining_tasks) = (TaskTracker::new(), TaskTracker::new());
    let count_open = || earlier_tasks.len() + draining_tasks.len();
    acceptor.accept_until(&port, &earlier_tasks, stop).await;
    info!(connections = count_open(), delay = ?settings.shutdown_delay, "graceful shutdown started");
    if !settings.shutdown_delay.is_zero() {
        shutdown.send_replace(Shutdown::Delay);
        acceptor.accept_until(&port, &earlier_tasks, sleep(settings.shutdown_delay)).await;
    }
    shutdown.send_replace(Shutdown::Draining);
    earlier_tasks.close();
    let deadline = Instant::now() + settings.shutdown_timeout;
    let _ = timeout_at(deadline, acceptor.accept_until(&port, &draining_tasks, earlier_tasks.wait())).await;
    acceptor.accept_queued(port, &draining_tasks).await;
    drop(acceptor);
    draining_tasks.close();
    let all_closed = async || {
        earlier_tasks.wait().await;
        draining_tasks.wait().await;
    };
    let mut cut_off = 0;
    if timeout_at(deadline, all_closed()).await.is_err() {
        cut_off = count_open();
        let after = settings.shutdown_timeout;
        warn!(connections = cut_off, ?after, "shutdown timeout: cancelling requests in flight");
        shutdown.send_replace(Shutdown::Overdue);
        // Requests in flight get this time to write their error responses.
        if timeout(CANCEL_TIMEOUT, all_closed()).await.is_err() {
            shutdown.send_replace(Shutdown::Closed);
            // A closed connection ends when its task is next polled. A task that blocks is not polled, and
            // ends with the runtime.
            let _ = timeout(CANCEL_TIMEOUT, all_closed()).await;
        }
    }
    handshakes.log();
    cut_off
}

/// Signal that stops the program: the first SIGTERM or SIGINT (Ctrl-C) after [`install`](Self::install).
///
/// A second signal ends the process at once. Signals that arrive together with the first do not count as a
/// second one.
#[derive(Debug)]
pub struct StopSignal {
    first_signal: oneshot::Receiver<()>,
    exit_timeout: oneshot::Sender<Duration>,
}

impl StopSignal {
    /// Receives the signals from now on.
    ///
    /// # Errors
    ///
    /// When the system does not deliver signals.
    pub fn install() -> io::Result<Self> {
        // Signals have a thread of their own: if an endless translation blocked all worker threads of the
        // main runtime, its tasks and timers would not run, and the program could not be stopped.
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let mut signals = {
            let _inside = runtime.enter();
            // SIGTERM, and SIGINT, which Ctrl-C sends.
            (signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?)
        };
        let (sender, first_signal) = oneshot::channel();
        let (exit_timeout, exit_timeout_set) = oneshot::channel();
        let watch = async move {
            let mut last = next_stop_signal(&mut signals).await;
            // Without a receiver, the process is about to end anyway.
            let _ = sender.send(());
            let received_at = Instant::now();
            let second = async {
                loop {
                    last = next_stop_signal(&mut signals).await;
                    if received_at.elapsed() >= SIGNAL_GROUP_INTERVAL {
                        break;
                    }
                }
            };
            let overdue = async {
                // The timeout depends on the configuration, which may not be loaded yet. Reading one of its
                // files may block.
                let Ok(configured) = timeout(LOAD_TIMEOUT, exit_timeout_set).await else {
                    return LOAD_TIMEOUT;
                };
                let Ok(after) = configured else { return std::future::pending().await };
                sleep(after).await;
                after
            };
            tokio::select! {
                () = second => warn!("second stop signal: cancelling requests in flight"),
                after = overdue => warn!(?after, "shutdown did not finish in time, exiting"),
            }
            exit_by_signal(last.as_raw_value());
        };
        thread::Builder::new().name("signals".to_owned()).spawn(move || runtime.block_on(watch))?;
        Ok(Self { first_signal, exit_timeout })
    }

    /// Waits for the signal. The process ends if it has not done so within `exit_timeout` of the signal, or
    /// of this call if the signal came before.
    pub fn received(self, exit_timeout: Duration) -> impl Future<Output = ()> {
        // Without a receiver, the thread has ended, and no signal can be received any more.
        let _ = self.exit_timeout.send(exit_timeout);
        async move {
            if self.first_signal.await.is_err() {
                // The server continues.
                std::future::pending::<()>().await;
            }
        }
    }
}

/// Time after a stop signal within which the configuration must have been read.
const LOAD_TIMEOUT: Duration = Duration::from_secs(10);

/// Time within which further signals count as the first one. Supervisors and wrappers (`timeout`, `npx` on
/// Ctrl-C) forward a signal that the process has already received as a member of its process group.
const SIGNAL_GROUP_INTERVAL: Duration = Duration::from_millis(500);

/// Exits with the status that shells use for a process that a signal ended: 128 plus the number of the
/// signal.
#[expect(clippy::exit, clippy::disallowed_methods, reason = "it ends the process even if tasks are blocked")]
fn exit_by_signal(signal: i32) -> ! {
    log::flush();
    process::exit(128 + signal)
}

/// Waits for the next SIGTERM or SIGINT.
async fn next_stop_signal((terminate, interrupt): &mut (Signal, Signal)) -> SignalKind {
    tokio::select! {
        _ = terminate.recv() => SignalKind::terminate(),
        _ = interrupt.recv() => SignalKind::interrupt(),
    }
}

/// Accepts connections, and serves each one in a task.
struct Acceptor {
    limiter: ConnectionLimiter,
    server: ConnectionServer,
    /// Number of file descriptors that connections leave free.
    reserve: u64,
    /// The accepted connection that waits for a slot. It is served even if the shutdown begins meanwhile.
    accepted: Option<(TcpStream, SocketAddr)>,
    /// Time of the last log line about occupied slots.
    slots_logged: Option<Instant>,
    /// Number of failures to accept a connection since the last log line.
    failures: u64,
    failures_logged: Option<Instant>,
}

/// Initial and maximum pause of the accept loop after a system error.
const ACCEPT_PAUSE: (Duration, Duration) = (Duration::from_millis(5), Duration::from_secs(1));

/// Interval of log lines about failures to accept a connection, which occur in great numbers.
const FAILURE_LOG_INTERVAL: Duration = Duration::from_secs(1);

impl Acceptor {
    /// Accepts connections until `end` completes.
    async fn accept_until(&mut self, port: &TcpListener, tasks: &TaskTracker, end: impl Future<Output = ()>) {
        let mut end = pin!(end);
        loop {
            let admitted = async {
                self.accept(port).await;
                self.limiter.slot(&mut self.slots_logged).await
            };
            let slot = tokio::select! {
                biased;
                () = &mut end => return,
                slot = admitted => slot,
            };
            if let Some((stream, peer)) = self.accepted.take() {
                self.spawn(slot, stream, peer, tasks);
            }
        }
    }

    /// Accepts the next connection, unless one already waits for a slot.
    ///
    /// An error of one client is not logged. A system error (no free file descriptors) is logged, and
    /// accepting is retried after a pause: stopping would affect every client.
    async fn accept(&mut self, port: &TcpListener) {
        use io::ErrorKind::{ConnectionAborted, ConnectionRefused, ConnectionReset};
        let mut pause = ACCEPT_PAUSE.0;
        while let Err(error) = self.try_accept(port).await {
            if matches!(error.kind(), ConnectionAborted | ConnectionReset | ConnectionRefused) {
                continue;
            }
            self.failures += 1;
            if take_log_turn(&mut self.failures_logged, FAILURE_LOG_INTERVAL) {
                warn!(%error, failures = mem::take(&mut self.failures), "accepting a connection failed");
            }
            // Idle connections occupy most of the missing file descriptors.
            self.limiter.close_idle();
            sleep(pause).await;
            pause = (pause * 2).min(ACCEPT_PAUSE.1);
        }
    }

    /// Accepts the next connection into the field `accepted`, unless the field already has one. The
    /// connection stays in the field if this future is cancelled or fails.
    async fn try_accept(&mut self, port: &TcpListener) -> io::Result<()> {
        let (stream, _) = match &mut self.accepted {
            Some(accepted) => accepted,
            none => none.insert(port.accept().await?),
        };
        // Checks a duplicate, because it has the lowest free descriptor number: all lower ones are in use.
        // The number of `stream` was assigned earlier.
        check_reserve(&stream.as_fd().try_clone_to_owned()?, self.reserve)
    }

    /// Serves the connections that are in the accept queue of the kernel, which would otherwise be reset, and
    /// closes the port. Together they wait for slots for at most the maximum of [`ACCEPT_PAUSE`], because
    /// there can be thousands of them.
    async fn accept_queued(&mut self, port: TcpListener, tasks: &TaskTracker) {
        // tokio would accept nothing before its event loop reports the port as readable.
        let Ok(port) = port.into_std() else { return };
        let queued = std::iter::from_fn(|| port.accept().ok()).filter_map(|(stream, peer)| {
            stream.set_nonblocking(true).ok()?;
            Some((TcpStream::from_std(stream).ok()?, peer))
        });
        let deadline = Instant::now() + ACCEPT_PAUSE.1;
        for (stream, peer) in self.accepted.take().into_iter().chain(queued) {
            let slot = timeout_at(deadline, self.limiter.slot(&mut self.slots_logged)).await;
            let Ok(slot) = slot else { return };
            self.spawn(slot, stream, peer, tasks);
        }
    }

    fn spawn(&self, slot: ConnectionSlot, stream: TcpStream, peer: SocketAddr, tasks: &TaskTracker) {
        // Boxed, because a task would allocate the size of the future twice.
        let served = Box::pin(self.server.clone().serve(stream, peer, slot.activity.clone()));
        tasks.spawn(async move {
            tokio::select! {
                biased;
                () = served => {}
                reason = slot.close_requested() => debug!(%peer, reason, "connection closed by the limiter"),
            }
        });
    }
}
