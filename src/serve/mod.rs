//! Listens, accepts, and ends without breaking anything off.
//!
//! In reading order: [`bind`] takes the port, an [`Answerer`] says which face a path belongs to, [`serve`] accepts
//! connections until it is told to stop and then drains; `listener` is the port with its certificate, `connection` one
//! client's HTTP/1.1 (whose `line_ends` are checked) or HTTP/2, which `patience` and `activity` end when it
//! keeps us waiting; `crowd` is all of them, and has some make room for others, `untaken` what is held of
//! their answers; `stop` is the signals of the operating system that end it, `reload` what puts another
//! configuration in force, `operators` the port from which that is watched, `telemetry` what sends traces and
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
mod line_ends;
mod listener;
mod operators;
mod others;
mod patience;
mod reload;
mod tools;
mod stdio;
mod stop;
mod telemetry;
mod untaken;
mod ways;

use std::{future::Future, io, net::SocketAddr, pin::pin, time::Duration};

use tokio::{
    net::{TcpListener, TcpStream},
    sync::watch,
    task::JoinSet,
    time::{sleep, timeout},
};
use tracing::{debug, info, warn};

use crate::{config::ListenerSettings, face::Ending};
use connection::{Phase, Serving};
use crowd::Crowd;

pub use answerer::Answerer;
pub use assemble::{Assembled, Swap, assemble};
pub use cgi::{CgiError, answer_cgi};
pub use listener::{Certificate, Listener};
pub use operators::OperatorsPort;
pub use reload::{Hangups, Keeping, Reloader, Watched};
pub use stdio::{Pipes, serve_stdio};
pub use stop::stop_signal;
pub use telemetry::{FLUSH_TIMEOUT, Sending, Telemetry};

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
    /// The drain timeout was over first, and connections were cut.
    CutOff {
        /// How many.
        connections: usize,
    },
}

/// How long accepting pauses after the system refused, at first and at most.
const ACCEPT_PAUSE: (Duration, Duration) = (Duration::from_millis(5), Duration::from_secs(1));

/// How long connections that are cut off may take to end.
pub const CUT_TIMEOUT: Duration = Duration::from_secs(1);

/// Takes the port.
///
/// # Errors
///
/// [`ServeError::Bind`].
pub async fn bind(address: SocketAddr) -> Result<TcpListener, ServeError> {
    TcpListener::bind(address).await.map_err(|source| ServeError::Bind { address, source })
}

/// Serves until `stop` is ready, then accepts no more, finishes what is in flight within the drain timeout, and
/// returns.
pub async fn serve(
    listener: impl Into<Listener>,
    settings: ListenerSettings,
    answerer: Answerer,
    stop: impl Future<Output = ()>,
) -> Drained {
    let Listener { port, tls } = listener.into();
    let crowd = Crowd::of(settings.connection_limit, settings.answers_limit_bytes);
    // While it drains, too, and until everybody has left.
    let mut room = JoinSet::new();
    room.spawn({
        let crowd = crowd.clone();
        async move { crowd.keep_room(settings.taken_within()).await }
    });
    let mut told = None;
    let (phase, phases) = watch::channel(Phase::Serving);
    let (ending, is_ending) = watch::channel(false);
    let tls = tls.map(|certificate| certificate.0);
    let serving = Serving { settings, tls, answerer, phases, ending: Ending::new(is_ending) };
    let mut stop = pin!(stop);
    loop {
        let accepted = async {
            let (stream, peer) = accept(&port, &crowd).await;
            (crowd.place(&mut told).await, stream, peer)
        };
        tokio::select! {
            biased;
            () = &mut stop => break,
            (place, stream, peer) = accepted => {
                // Boxed, as a task would have room for it twice.
                let served = Box::pin(serving.clone().serve(stream, peer, place.activity.clone()));
                tokio::spawn(async move {
                    tokio::select! {
                        biased;
                        () = served => {}
                        why = place.is_wanted() => debug!(%peer, why, "connection makes room"),
                    }
                    drop(place);
                });
            }
        }
    }
    drop(port);
    drop(serving);
    info!(connections = crowd.open(), "stopping: no new connections, requests in flight are finished");
    phase.send_replace(Phase::Draining);
    ending.send_replace(true);
    if timeout(settings.drain, crowd.gone()).await.is_ok() {
        return Drained::All;
    }
    let connections = crowd.open();
    warn!(connections, after = ?settings.drain, "requests still in flight are cut off");
    phase.send_replace(Phase::Cut);
    // A connection that is cut ends at its next pause. One that never pauses, since what it runs does not, is
    // left to the end of the runtime.
    let _ = timeout(CUT_TIMEOUT, crowd.gone()).await;
    Drained::CutOff { connections }
}

/// The next client. What one client did wrong is not worth a word; what the system can't do (no more file
/// descriptors) is, and is tried again after a pause: a server that ends over it ends for everybody.
async fn accept(listener: &TcpListener, crowd: &Crowd) -> (TcpStream, SocketAddr) {
    let mut pause = ACCEPT_PAUSE.0;
    loop {
        let error = match listener.accept().await {
            Ok(accepted) => return accepted,
            Err(error) => error,
        };
        if matches!(
            error.kind(),
            io::ErrorKind::ConnectionAborted
                | io::ErrorKind::ConnectionReset
                | io::ErrorKind::ConnectionRefused
        ) {
            continue;
        }
        warn!(%error, ?pause, "can't accept a connection");
        // Whoever holds connections open and asks nothing has most of what there is too little of.
        crowd.make_room();
        sleep(pause).await;
        pause = (pause * 2).min(ACCEPT_PAUSE.1);
    }
}
