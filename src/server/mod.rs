//! Listens, accepts, and ends without breaking anything off.
//!
//! In reading order: [`bind`] takes the port, an [`Answerer`] says which face a path belongs to, [`serve`] accepts
//! connections until it is told to stop and then drains; `listener` is the port with its certificate, `connection` one
//! client's HTTP/1.1 (whose `line_ends` are checked) or HTTP/2, which `patience` and `activity` end when it
//! keeps us waiting; `crowd` is all of them, and has some make room for others, `untaken` what is held of
//! their answers, `handshakes` those of TLS that fail; `stop` is the signals of the operating system that end it, `reload` what puts another
//! configuration in force, `operators` the port from which that is watched, `exporter` what sends traces and
//! meters to a collector; `others` hears what other replicas say; `assemble` makes all of it of a
//! configuration, with `ways` to upstreams and what is `fixed` until the next start; `discover` finds out
//! what tools MCP servers have, and `tools` puts them beside those that are written. [`answer_cgi`] is for a
//! web server that starts us for one request, [`serve_stdio`] for an MCP client that starts us for itself.

mod activity;
mod answerer;
mod asked;
mod assemble;
mod cgi;
mod connection;
mod crowd;
mod discover;
mod fixed;
mod handshakes;
mod line_ends;
mod listener;
mod operators;
mod others;
mod patience;
mod reload;
mod tools;
mod stdio;
mod stop;
mod exporter;
mod untaken;
mod ways;

use std::{convert::Infallible, future::Future, io, net::SocketAddr, pin::pin, time::Duration};

use tokio::{
    net::{TcpListener, TcpStream},
    sync::{mpsc, watch},
    task::JoinSet,
    time::{Instant, sleep, timeout, timeout_at},
};
use tracing::{debug, info, warn};

use crate::{
    config::ListenerSettings,
    descriptors::leaves_free,
    inbound::{Ending, Shutdown},
};
use connection::{Phase, Serving};
use crowd::{Crowd, Place};
use handshakes::HandshakeFailures;
use untaken::Answers;

pub use answerer::Answerer;
pub use assemble::{Assembled, Swap, assemble};
pub use cgi::{CgiError, answer_cgi};
pub use exporter::{FLUSH_TIMEOUT, Sending, Telemetry};
pub use listener::{Certificate, Listener};
pub use operators::OperatorsPort;
pub use reload::{Hangups, Keeping, Reloader, Watched};
pub use stdio::{Pipes, serve_stdio};
pub use stop::stop_signal;

/// Why the server does not serve.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// The address can't be listened at.
    #[error("can't listen at {address}")]
    Bind {
        /// The address.
        address: SocketAddr,
        /// What the system says.
        #[source]
        source: io::Error,
    },
    /// What was passed in `LISTEN_FDS` can't be listened at.
    #[error("can't listen at the socket that `LISTEN_FDS` passes")]
    Inherited(#[source] io::Error),
    /// The signals that stop the program can't be received.
    #[error("can't receive signals")]
    Signals(#[source] io::Error),
}

/// How serving ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use]
pub enum Drained {
    /// Every request in flight was answered.
    All,
    /// The drain timeout was over first, and what was in flight got an error.
    CutOff {
        /// How many.
        connections: usize,
    },
}

/// How long accepting pauses after the system refused, at first and at most.
const ACCEPT_PAUSE: (Duration, Duration) = (Duration::from_millis(5), Duration::from_secs(1));

/// How long connections whose requests are cut off may take to write that, and then to end.
pub const CUT_TIMEOUT: Duration = Duration::from_secs(1);

/// Takes the port.
///
/// # Errors
///
/// [`ServeError::Bind`].
pub async fn bind(address: SocketAddr) -> Result<TcpListener, ServeError> {
    TcpListener::bind(address).await.map_err(|source| ServeError::Bind { address, source })
}

/// The port that the process which started us has opened and listens at: systemd's socket activation, `LISTEN_FDS`. `None`
/// where it has none.
///
/// # Errors
///
/// [`ServeError::Inherited`], when it is no such port.
pub fn inherited() -> Result<Option<TcpListener>, ServeError> {
    let mut passed = listenfd::ListenFd::from_env();
    if passed.len() > 1 {
        return Err(ServeError::Inherited(io::Error::other("there is more than one")));
    }
    let Some(listener) = passed.take_tcp_listener(0).map_err(ServeError::Inherited)? else { return Ok(None) };
    listener.set_nonblocking(true).map_err(ServeError::Inherited)?;
    TcpListener::from_std(listener).map(Some).map_err(ServeError::Inherited)
}

/// Serves until `stop` is ready, then ends without refusing or breaking off what it can finish, and returns:
///
/// 1. For [`ListenerSettings::shutdown_delay`] it serves as before, so that balancers see that it is not ready any more.
///    Each HTTP/1.1 connection is closed with its next response.
/// 2. Connections without a request are closed. New ones are still accepted, for one request each, as long as requests of
///    the connections before are in flight: where the next process takes the port only when this one has left it, nobody
///    is refused meanwhile.
/// 3. The port is closed, and the last requests are finished. What is still in flight when [`ListenerSettings::drain`] is
///    over, counted from step 2, is answered with an error.
pub async fn serve(
    listener: impl Into<Listener>,
    settings: ListenerSettings,
    answerer: Answerer,
    stop: impl Future<Output = ()>,
) -> Drained {
    let Listener { port, tls, buffer, reserve } = listener.into();
    let answers = Answers::of(settings.answers_limit_bytes, buffer);
    let crowd = Crowd::of(settings.connection_limit, answers);
    // While it drains, too, and until everybody has left.
    let mut room = JoinSet::new();
    room.spawn({
        let crowd = crowd.clone();
        async move { crowd.keep_room(settings.taken_within()).await }
    });
    let handshakes = HandshakeFailures::default();
    room.spawn({
        let handshakes = handshakes.clone();
        async move { handshakes.keep_logging().await }
    });
    let (phase, phases) = watch::channel(Phase::Serving);
    let (shutdown, is_ending) = watch::channel(Shutdown::Serving);
    let tls = tls.map(|certificate| certificate.0);
    let ending = Ending::new(is_ending);
    let serving = Serving { settings, tls, answerer, phases, ending, handshakes: handshakes.clone() };
    let mut accepting =
        Accepting { crowd: crowd.clone(), serving, reserve, told: None, failures: AcceptFailures::default() };
    // Nothing is sent: it is over when every connection that has a sender has gone.
    let (before, mut all_before) = mpsc::channel::<Infallible>(1);
    accepting.accept_until(&port, &before, stop).await;
    info!(connections = crowd.open(), delay = ?settings.shutdown_delay, "stopping: requests in flight are finished");
    if !settings.shutdown_delay.is_zero() {
        phase.send_replace(Phase::Closing);
        accepting.accept_until(&port, &before, sleep(settings.shutdown_delay)).await;
    }
    phase.send_replace(Phase::Draining);
    shutdown.send_replace(Shutdown::Begun);
    drop(before);
    let deadline = Instant::now() + settings.drain;
    let (late, _) = mpsc::channel(1);
    let _ = timeout_at(
        deadline,
        accepting.accept_until(&port, &late, async { while all_before.recv().await.is_some() {} }),
    )
    .await;
    accepting.accept_queued(port, &late).await;
    drop(accepting);
    if timeout_at(deadline, crowd.gone()).await.is_ok() {
        handshakes.log();
        return Drained::All;
    }
    let connections = crowd.open();
    warn!(connections, after = ?settings.drain, "requests still in flight are cut off");
    shutdown.send_replace(Shutdown::Overdue);
    // The errors are written.
    if timeout(CUT_TIMEOUT, crowd.gone()).await.is_err() {
        phase.send_replace(Phase::Closed);
        // A connection that is closed ends at its next pause. One that never pauses, since what it runs does not, is
        // left to the end of the runtime.
        let _ = timeout(CUT_TIMEOUT, crowd.gone()).await;
    }
    handshakes.log();
    Drained::CutOff { connections }
}

/// What new connections are served with.
struct Accepting {
    crowd: Crowd,
    serving: Serving,
    /// How many file descriptors connections leave free.
    reserve: u64,
    told: Option<Instant>,
    failures: AcceptFailures,
}

impl Accepting {
    /// Accepts and serves connections until `end` is ready. Each has a clone of `member` as long as it is open.
    async fn accept_until(
        &mut self,
        port: &TcpListener,
        member: &mpsc::Sender<Infallible>,
        end: impl Future<Output = ()>,
    ) {
        let mut end = pin!(end);
        loop {
            let accepted = async {
                let (stream, peer) = accept(port, self.reserve, &self.crowd, &mut self.failures).await;
                (self.crowd.place(&mut self.told).await, stream, peer)
            };
            tokio::select! {
                biased;
                () = &mut end => return,
                (place, stream, peer) = accepted => self.spawn(place, stream, peer, member),
            }
        }
    }

    /// Serves those that the system has connected already, and closes the port: they would be reset with it.
    async fn accept_queued(&mut self, port: TcpListener, member: &mpsc::Sender<Infallible>) {
        // Not tokio's: what that has not heard of yet it does not look for.
        let Ok(port) = port.into_std() else { return };
        while let Ok((stream, peer)) = port.accept() {
            let stream = stream.set_nonblocking(true).and_then(|()| TcpStream::from_std(stream));
            let place = timeout(ACCEPT_PAUSE.1, self.crowd.place(&mut self.told)).await;
            if let (Ok(stream), Ok(place)) = (stream, place) {
                self.spawn(place, stream, peer, member);
            }
        }
    }

    fn spawn(&self, place: Place, stream: TcpStream, peer: SocketAddr, member: &mpsc::Sender<Infallible>) {
        // Boxed, as a task would have room for it twice.
        let served = Box::pin(self.serving.clone().serve(stream, peer, place.activity.clone()));
        let member = member.clone();
        tokio::spawn(async move {
            tokio::select! {
                biased;
                () = served => {}
                why = place.is_wanted() => debug!(%peer, why, "connection makes room"),
            }
            drop((place, member));
        });
    }
}

/// The next client. What one client did wrong is not worth a word; what the system can't do (no more file
/// descriptors) is, and is tried again after a pause: a server that ends over it ends for everybody.
async fn accept(
    listener: &TcpListener,
    reserve: u64,
    crowd: &Crowd,
    failures: &mut AcceptFailures,
) -> (TcpStream, SocketAddr) {
    let mut pause = ACCEPT_PAUSE.0;
    let mut accepted: Option<(TcpStream, SocketAddr)> = None;
    loop {
        let error = match accepted.take() {
            None => match listener.accept().await {
                Ok((stream, peer)) => match leaves_free(&stream, reserve) {
                    Ok(()) => return (stream, peer),
                    Err(error) => {
                        accepted = Some((stream, peer));
                        error
                    }
                },
                Err(error) => error,
            },
            // It keeps its number; a copy has the lowest that is free now.
            Some((stream, peer)) => match copy_leaves_free(&stream, reserve) {
                Ok(()) => return (stream, peer),
                Err(error) => {
                    accepted = Some((stream, peer));
                    error
                }
            },
        };
        if matches!(
            error.kind(),
            io::ErrorKind::ConnectionAborted
                | io::ErrorKind::ConnectionReset
                | io::ErrorKind::ConnectionRefused
        ) {
            continue;
        }
        failures.log(&error);
        // Whoever holds connections open and asks nothing has most of what there is too little of.
        crowd.make_room();
        sleep(pause).await;
        pause = (pause * 2).min(ACCEPT_PAUSE.1);
    }
}

#[cfg(unix)]
fn copy_leaves_free(stream: &TcpStream, reserve: u64) -> io::Result<()> {
    use std::os::fd::AsFd;
    leaves_free(&stream.as_fd().try_clone_to_owned()?, reserve)
}

#[cfg(not(unix))]
fn copy_leaves_free(_: &TcpStream, _: u64) -> io::Result<()> {
    Ok(())
}

/// Failures to accept a connection. They come in great numbers, and one line a second says it all.
#[derive(Debug, Default)]
struct AcceptFailures {
    logged: Option<Instant>,
    /// How many there were since.
    count: u64,
}

impl AcceptFailures {
    const LOG_EVERY: Duration = Duration::from_secs(1);

    fn log(&mut self, error: &io::Error) {
        self.count += 1;
        if self.logged.is_none_or(|logged| logged.elapsed() >= Self::LOG_EVERY) {
            warn!(%error, failures = self.count, "can't accept a connection");
            *self = Self { logged: Some(Instant::now()), count: 0 };
        }
    }
}
