//! Signals of the operating system: those that stop the program, and SIGHUP, which reloads its configuration.

use std::{future::Future, io, process, thread, time::Duration};

use tokio::{
    sync::oneshot,
    time::{Instant, timeout},
};
use tracing::warn;

use super::ServeError;
use crate::telemetry::log;

/// A future that is ready on the first SIGTERM or Ctrl-C after this call.
///
/// Who stopped the program once has said so: a second signal ends the process at once, and so does the first
/// when the process is still there `patience` later. What comes together with the first is no second one.
///
/// # Errors
///
/// [`ServeError::Signals`], when the system does not hand them out.
pub fn stop_signal(patience: Duration) -> Result<impl Future<Output = ()>, ServeError> {
    // A thread of their own: should every worker be lost in a reply that takes for ever, no task and no timer
    // of theirs runs any more, and the program could not be stopped.
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(ServeError::Signals)?;
    let mut signals = {
        let _inside = runtime.enter();
        Signals::listen().map_err(ServeError::Signals)?
    };
    let (tell, told) = oneshot::channel();
    let watch = async move {
        let mut last = signals.next().await;
        // Nobody who serves is left to be told: the process is about to end anyway.
        let _ = tell.send(());
        let first = Instant::now();
        let second = async {
            loop {
                last = signals.next().await;
                if first.elapsed() >= TOGETHER {
                    break;
                }
            }
        };
        match timeout(patience, second).await {
            Ok(()) => warn!("told to stop twice: requests in flight are cut off"),
            Err(_) => warn!(after = ?patience, "something does not let the process end: it is ended"),
        }
        end(last);
    };
    let watching = thread::Builder::new().name("signals".to_owned()).spawn(move || runtime.block_on(watch));
    watching.map_err(ServeError::Signals)?;
    Ok(async move {
        if told.await.is_err() {
            // The thread is gone without a signal, so there is no way to be told any more; serving goes on.
            std::future::pending::<()>().await;
        }
    })
}

/// Supervisors and wrappers hand on a signal that the process has got with its group already: `timeout`, `npx` on Ctrl-C.
const TOGETHER: Duration = Duration::from_millis(500);

/// Ends the process with the status that shells give one which a signal ended: 128 and the signal's number.
#[expect(clippy::exit, clippy::disallowed_methods, reason = "whatever is still running is what this ends")]
fn end(signal: i32) -> ! {
    log::flush();
    process::exit(128 + signal)
}

const SIGINT: i32 = 2;
#[cfg(unix)]
const SIGTERM: i32 = 15;

/// Keeps SIGUSR1 and SIGUSR2, which mean nothing here, from ending the process, as they do by default.
#[cfg(unix)]
fn ignore_user_signals() -> io::Result<()> {
    use tokio::signal::unix::{SignalKind, signal};
    // The handler stays when the receiver is gone.
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

    /// Waits for the next, and gives its number.
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
        // Without the signal there is no way to be told, so serving goes on.
        if tokio::signal::ctrl_c().await.is_err() {
            std::future::pending::<()>().await;
        }
        SIGINT
    }
}

/// The hangups that this process is sent, from the time on when this was made.
#[derive(Debug)]
pub struct Hangups {
    #[cfg(unix)]
    signal: tokio::signal::unix::Signal,
}

impl Hangups {
    /// Receives them from now on, in place of being ended by them. SIGUSR1 and SIGUSR2 end the process no longer either.
    ///
    /// Needs no runtime, so that it can come before everything else: a hangup while the program starts is answered with a
    /// reload once it serves.
    ///
    /// # Errors
    ///
    /// [`ServeError::Signals`].
    pub fn receive() -> Result<Self, ServeError> {
        Self::of_system().map_err(ServeError::Signals)
    }

    #[cfg(unix)]
    fn of_system() -> io::Result<Self> {
        use tokio::signal::unix::{SignalKind, signal};
        // Handlers are the process's, not the runtime's, and stay when this one is gone.
        let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build()?;
        let _inside = runtime.enter();
        ignore_user_signals()?;
        Ok(Self { signal: signal(SignalKind::hangup())? })
    }

    #[cfg(not(unix))]
    fn of_system() -> io::Result<Self> {
        Ok(Self {})
    }

    /// Waits for the next. Several that come while nobody waits are one.
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
