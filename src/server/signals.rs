//! Signals of the operating system: those that stop the program, and SIGHUP, which reloads its configuration.

use std::{future::Future, io, process, thread, time::Duration};

use tokio::{
    sync::oneshot,
    time::{Instant, timeout},
};
use tracing::warn;

use super::ServeError;
use crate::telemetry::log;

/// Returns a future that completes on the first SIGTERM or Ctrl-C after this call.
///
/// A second signal ends the process at once, and so does the first if the process has not ended after
/// `exit_timeout`. Signals that arrive together with the first do not count as a second one.
///
/// # Errors
///
/// [`ServeError::Signals`] if the system does not deliver signals.
pub fn stop_signal(exit_timeout: Duration) -> Result<impl Future<Output = ()>, ServeError> {
    // A thread of their own: if an endless translation blocked all workers, none of their tasks and timers
    // would run, and the program could not be stopped.
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(ServeError::Signals)?;
    let mut signals = {
        let _inside = runtime.enter();
        Signals::listen().map_err(ServeError::Signals)?
    };
    let (sender, received) = oneshot::channel();
    let watch = async move {
        let mut last = signals.next().await;
        // Without a receiver the process is about to end anyway.
        let _ = sender.send(());
        let first = Instant::now();
        let second = async {
            loop {
                last = signals.next().await;
                if first.elapsed() >= SIGNAL_GROUP_INTERVAL {
                    break;
                }
            }
        };
        match timeout(exit_timeout, second).await {
            Ok(()) => warn!("second stop signal: cancelling requests in flight"),
            Err(_) => warn!(after = ?exit_timeout, "shutdown did not finish in time, exiting"),
        }
        end(last);
    };
    let watching = thread::Builder::new().name("signals".to_owned()).spawn(move || runtime.block_on(watch));
    watching.map_err(ServeError::Signals)?;
    Ok(async move {
        if received.await.is_err() {
            // The thread ended without a signal, so none can be received any more; the server continues.
            std::future::pending::<()>().await;
        }
    })
}

/// Time within which further signals count as the first one. Supervisors and wrappers (`timeout`, `npx` on
/// Ctrl-C) forward a signal that the process has already received with its process group.
const SIGNAL_GROUP_INTERVAL: Duration = Duration::from_millis(500);

/// Exits with the status that shells use for a process that was ended by a signal: 128 plus its number.
#[expect(clippy::exit, clippy::disallowed_methods, reason = "whatever is still running is what this ends")]
fn end(signal: i32) -> ! {
    log::flush();
    process::exit(128 + signal)
}

const SIGINT: i32 = 2;
#[cfg(unix)]
const SIGTERM: i32 = 15;

/// Keeps SIGUSR1 and SIGUSR2, which have no function here, from ending the process, as they do by default.
#[cfg(unix)]
fn ignore_user_signals() -> io::Result<()> {
    use tokio::signal::unix::{SignalKind, signal};
    // The handler stays after the receiver is dropped.
    for kind in [SignalKind::user_defined1(), SignalKind::user_defined2()] {
        drop(signal(kind)?);
    }
    Ok(())
}

#[cfg(unix)]
struct Signals {
    terminate: tokio::signal::unix::Signal,
    interrupt: tokio::signal::unix::Signal,
}

#[cfg(unix)]
impl Signals {
    fn listen() -> io::Result<Self> {
        use tokio::signal::unix::{SignalKind, signal};
        Ok(Self { terminate: signal(SignalKind::terminate())?, interrupt: signal(SignalKind::interrupt())? })
    }

    /// Waits for the next signal, and returns its number.
    async fn next(&mut self) -> i32 {
        tokio::select! {
            _ = self.terminate.recv() => SIGTERM,
            _ = self.interrupt.recv() => SIGINT,
        }
    }
}

#[cfg(not(unix))]
struct Signals;

#[cfg(not(unix))]
impl Signals {
    fn listen() -> io::Result<Self> {
        Ok(Self)
    }

    async fn next(&mut self) -> i32 {
        // Without the handler no signal can be received; the server continues.
        if tokio::signal::ctrl_c().await.is_err() {
            std::future::pending::<()>().await;
        }
        SIGINT
    }
}

/// Receiver of the hangup signals (SIGHUP) of this process, since it was created.
#[derive(Debug)]
pub struct Hangups {
    #[cfg(unix)]
    signal: tokio::signal::unix::Signal,
}

impl Hangups {
    /// Receives hangup signals from now on, which then no longer end the process. Neither do SIGUSR1 and
    /// SIGUSR2.
    ///
    /// Needs no runtime, so that it can be called before everything else: a hangup while the program starts
    /// causes a reload once it serves.
    ///
    /// # Errors
    ///
    /// [`ServeError::Signals`] if the system does not deliver signals.
    pub fn receive() -> Result<Self, ServeError> {
        Self::from_system().map_err(ServeError::Signals)
    }

    #[cfg(unix)]
    fn from_system() -> io::Result<Self> {
        use tokio::signal::unix::{SignalKind, signal};
        // Handlers belong to the process, not to the runtime, and stay when this runtime is dropped.
        let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build()?;
        let _inside = runtime.enter();
        ignore_user_signals()?;
        Ok(Self { signal: signal(SignalKind::hangup())? })
    }

    #[cfg(not(unix))]
    fn from_system() -> io::Result<Self> {
        Ok(Self {})
    }

    /// Waits for the next signal. Several that arrive while nothing awaits them count as one.
    #[cfg(unix)]
    pub(super) async fn next(&mut self) {
        if self.signal.recv().await.is_none() {
            std::future::pending::<()>().await;
        }
    }

    #[cfg(not(unix))]
    pub(super) async fn next(&mut self) {
        std::future::pending::<()>().await;
    }
}
