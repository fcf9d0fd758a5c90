//! The signals that stop the program.

use std::future::Future;

use super::ServeError;

/// A future that is ready on the first SIGTERM or Ctrl-C after this call.
///
/// # Errors
///
/// [`ServeError::Signals`], when the system does not hand them out.
#[cfg(unix)]
pub fn stop_signal() -> Result<impl Future<Output = ()>, ServeError> {
    use tokio::signal::unix::{SignalKind, signal};
    let mut terminate = signal(SignalKind::terminate()).map_err(ServeError::Signals)?;
    let mut interrupt = signal(SignalKind::interrupt()).map_err(ServeError::Signals)?;
    Ok(async move {
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
    })
}

/// A future that is ready on the first Ctrl-C.
///
/// # Errors
///
/// None on this system.
#[cfg(not(unix))]
pub fn stop_signal() -> Result<impl Future<Output = ()>, ServeError> {
    Ok(async {
        // Without the signal there is no way to be told, so serving goes on.
        if tokio::signal::ctrl_c().await.is_err() {
            std::future::pending::<()>().await;
        }
    })
}
