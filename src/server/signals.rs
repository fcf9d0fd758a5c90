//! Signals of the operating system: those that stop the program, and SIGHUP, which reloads its configuration.

use std::{future::Future, io, process, thread, time::Duration};

use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::oneshot;
use tokio::time::{Instant, timeout};
use tracing::warn;

use crate::telemetry::log;

/// Returns a future that completes on the first SIGTERM or Ctrl-C after this call.
///
/// A second signal ends the process at once, and so does the first if the process has not ended after
/// `exit_timeout`. Signals that arrive together with the first do not count as a second one.
///
/// # Errors
///
/// When the system does not deliver signals.
pub fn stop_signal(exit_timeout: Duration) -> io::Result<impl Future<Output = ()>> {
    // A thread of their own: if an endless translation blocked all workers, none of their tasks and timers
    // would run, and the program could not be stopped.
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let mut signals = {
        let _inside = runtime.enter();
        // SIGTERM, and SIGINT, which is Ctrl-C.
        (signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?)
    };
    let (sender, received) = oneshot::channel();
    let watch = async move {
        let mut last = next(&mut signals).await;
        // Without a receiver the process is about to end anyway.
        let _ = sender.send(());
        let first = Instant::now();
        let second = async {
            loop {
                last = next(&mut signals).await;
                if first.elapsed() >= SIGNAL_GROUP_INTERVAL {
                    break;
                }
            }
        };
        match timeout(exit_timeout, second).await {
            Ok(()) => warn!("second stop signal: cancelling requests in flight"),
            Err(_) => warn!(after = ?exit_timeout, "shutdown did not finish in time, exiting"),
        }
        end(last.as_raw_value());
    };
    thread::Builder::new().name("signals".to_owned()).spawn(move || runtime.block_on(watch))?;
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

/// Waits for the next of these signals.
async fn next((terminate, interrupt): &mut (Signal, Signal)) -> SignalKind {
    tokio::select! {
        _ = terminate.recv() => SignalKind::terminate(),
        _ = interrupt.recv() => SignalKind::interrupt(),
    }
}

/// Receives the hangup signals (SIGHUP) of this process from now on, which then no longer end it. Neither do
/// SIGUSR1 and SIGUSR2.
///
/// Needs no runtime, so that it can be called before everything else: a hangup while the program starts
/// causes a reload once it serves.
///
/// # Errors
///
/// When the system does not deliver signals.
pub fn hangup_signals() -> io::Result<Signal> {
    // Handlers belong to the process, not to the runtime, and stay when this runtime is dropped.
    let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build()?;
    let _inside = runtime.enter();
    // SIGUSR1 and SIGUSR2 have no function here, and would end the process. Their handlers stay after the
    // receivers are dropped.
    for kind in [SignalKind::user_defined1(), SignalKind::user_defined2()] {
        drop(signal(kind)?);
    }
    signal(SignalKind::hangup())
}
