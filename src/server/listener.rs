//! Listeners: a bound port, with or without TLS, and the listener of the admin API.

use std::{ffi::OsString, io, net::SocketAddr, sync::Arc, time::Duration};

use arc_swap::ArcSwap;
use parking_lot::Mutex;
use tokio::net::{TcpListener, TcpSocket};
use tokio::time::{Instant, MissedTickBehavior, interval};
use tokio_util::task::AbortOnDropHandle;
use tracing::{debug, info, warn};

use super::connection_limiter::take_log_turn;
use super::{HttpHandler, serve};
use crate::admin::Admin;
use crate::config::{AdminSettings, ListenerSettings, process_variables};
use crate::descriptors::client_reserve;
use crate::telemetry::{SAMPLE_INTERVAL, Untrusted};
use crate::tls::ServerTls;
use crate::upstream::UpstreamBuffer;

/// Length of the accept queue. Linux limits it to `net.core.somaxconn`, by default 4,096. When the queue is
/// full, the kernel drops the next SYN, and the client retries only a second later.
const BACKLOG: u32 = 4_096;

/// Binds a listening socket.
///
/// # Errors
///
/// A message, if the address can't be bound.
pub fn bind(address: SocketAddr) -> Result<TcpListener, String> {
    let listen = || {
        let socket = if address.is_ipv4() { TcpSocket::new_v4() } else { TcpSocket::new_v6() }?;
        // Connections of the previous process may still be in TIME_WAIT.
        socket.set_reuseaddr(cfg!(unix))?;
        socket.bind(address)?;
        socket.listen(BACKLOG)
    };
    listen().map_err(|error: io::Error| format!("can't listen on {address}: {error}"))
}

/// Returns the listening socket inherited from the parent process (systemd socket activation, `LISTEN_FDS`).
/// `None` if no socket was inherited.
///
/// # Errors
///
/// When more than one socket was inherited, or the socket is not a listening TCP socket, or `LISTEN_FDS` is
/// not a number.
pub fn inherited() -> io::Result<Option<TcpListener>> {
    let is_invalid =
        |value: OsString| !value.is_empty() && value.to_str().is_none_or(|text| text.parse::<u32>().is_err());
    if process_variables().any(|(name, value)| name == "LISTEN_FDS" && is_invalid(value)) {
        return Err(io::Error::other("`LISTEN_FDS` is not a number"));
    }
    let mut sockets = listenfd::ListenFd::from_env();
    if sockets.len() > 1 {
        return Err(io::Error::other("more than one socket was inherited"));
    }
    let Some(listener) = sockets.take_tcp_listener(0)? else { return Ok(None) };
    listener.set_nonblocking(true)?;
    TcpListener::from_std(listener).map(Some)
}

/// A bound port, with or without TLS.
#[derive(Debug)]
pub struct Listener {
    pub(super) port: TcpListener,
    /// The server certificate, which may be replaced during operation.
    pub(super) tls: Option<Arc<ArcSwap<ServerTls>>>,
    /// The buffer of the upstream responses. Bytes that clients have not read are charged to it.
    pub(super) buffer: Option<UpstreamBuffer>,
    /// Number of file descriptors that the connections of this listener leave free.
    pub(super) reserve: u64,
}

impl Listener {
    /// The bound address.
    ///
    /// # Errors
    ///
    /// When the system does not return it.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        self.port.local_addr()
    }

    /// `http` or `https`.
    pub fn scheme(&self) -> &'static str {
        if self.tls.is_some() { "https" } else { "http" }
    }
}

impl From<TcpListener> for Listener {
    fn from(port: TcpListener) -> Self {
        Self { port, tls: None, buffer: None, reserve: client_reserve() }
    }
}

/// Failed TLS handshakes that are not logged yet. Clones share them.
///
/// They occur in great numbers, from scanners and from clients that do not trust the server certificate. The
/// first failure is logged at once. Failures of the next minute are logged together: with the first failure
/// after that minute, or at shutdown.
#[derive(Debug, Clone, Default)]
pub(super) struct HandshakeFailures(Arc<Mutex<UnloggedFailures>>);

#[derive(Debug, Default)]
struct UnloggedFailures {
    /// Number of failed handshakes, with the client and the error of the last one.
    failures: Option<(u64, SocketAddr, String)>,
    /// Time of the last log line.
    logged_at: Option<Instant>,
}

impl HandshakeFailures {
    const LOG_INTERVAL: Duration = Duration::from_secs(60);

    /// Counts a failure and logs it at `debug`. Logs the counted failures at `info`, at most once per
    /// [`LOG_INTERVAL`](Self::LOG_INTERVAL).
    pub(super) fn add(&self, peer: SocketAddr, error: String) {
        debug!(%peer, error = %Untrusted(&error), "TLS handshake failed");
        let mut unlogged = self.0.lock();
        let count = unlogged.failures.as_ref().map_or(0, |(count, ..)| *count);
        unlogged.failures = Some((count + 1, peer, error));
        let is_due = take_log_turn(&mut unlogged.logged_at, Self::LOG_INTERVAL);
        drop(unlogged);
        if is_due {
            self.log();
        }
    }

    /// Logs the failures that were not logged before.
    pub(super) fn log(&self) {
        if let Some((failures, peer, error)) = self.0.lock().failures.take() {
            let client = peer.ip().to_canonical();
            info!(failures, %client, error = %Untrusted(&error), "TLS handshakes failed");
        }
    }
}

/// Maximum number of connections to the admin API (operators, probes and scrapers).
const CONNECTION_LIMIT: usize = 64;

/// The listener of the admin API. It closes on drop.
#[derive(Debug)]
pub struct AdminListener {
    /// The address that operators connect to.
    pub address: Option<SocketAddr>,
    _serving: AbortOnDropHandle<()>,
}

impl AdminListener {
    /// Binds the admin port and serves the admin API. `None` if it is disabled, or if the default port is in
    /// use.
    ///
    /// # Errors
    ///
    /// A message, if the configuration sets the address and it can't be bound.
    pub async fn open(settings: &AdminSettings, admin: Admin) -> Result<Option<Self>, String> {
        let Some(address) = settings.listen else { return Ok(None) };
        let listener = match bind(address) {
            Ok(listener) => listener,
            Err(error) if settings.is_listen_explicit => return Err(error),
            Err(error) => {
                warn!(%error, "admin API not served, port unavailable; `listen` under `admin` sets another");
                return Ok(None);
            }
        };
        let address = listener.local_addr().ok();
        if let Some(address) = address {
            info!(%address, "admin API listening");
        }
        let settings = ListenerSettings { max_connections: CONNECTION_LIMIT, ..ListenerSettings::default() };
        let sampled_admin = admin.clone();
        let sample_loop = async move {
            let mut ticks = interval(SAMPLE_INTERVAL);
            ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
            loop {
                ticks.tick().await;
                sampled_admin.sample();
            }
        };
        let handler = HttpHandler::new(move |request| {
            let admin = admin.clone();
            async move { admin.handle(request).await }
        });
        let serving = AbortOnDropHandle::new(tokio::spawn(async move {
            // The admin API may use every file descriptor: the connections of clients leave some free for it.
            let listener = Listener { reserve: 0, ..Listener::from(listener) };
            let server = serve(listener, settings, handler, std::future::pending());
            tokio::select! {
                _ = server => {}
                () = sample_loop => {}
            }
        }));
        Ok(Some(Self { address, _serving: serving }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn failures_of_a_minute_are_logged_together() {
        let failures = HandshakeFailures::default();
        let unlogged = || failures.0.lock().failures.as_ref().map_or(0, |(count, ..)| *count);
        let add = || failures.add("192.0.2.1:7".parse().unwrap(), "no".to_owned());
        add();
        assert_eq!(unlogged(), 0, "the first is logged at once");
        for _ in 0..3 {
            add();
        }
        tokio::time::advance(HandshakeFailures::LOG_INTERVAL / 2).await;
        add();
        assert_eq!(unlogged(), 4);
        tokio::time::advance(HandshakeFailures::LOG_INTERVAL).await;
        add();
        assert_eq!(unlogged(), 0);
    }
}
