//! SIGHUP: the configuration is read again.

use std::io;

use tracing::{error, info, warn};

use super::{ServeError, Swap};
use crate::config::{self, Problems, Sources};

/// The hangups that this process is sent, from the time on when this was made.
#[derive(Debug)]
pub struct Hangups {
    #[cfg(unix)]
    signal: tokio::signal::unix::Signal,
}

impl Hangups {
    /// Receives them from now on, in place of being ended by them.
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
        Ok(Self { signal: signal(SignalKind::hangup())? })
    }

    #[cfg(not(unix))]
    fn of_system() -> io::Result<Self> {
        Ok(Self {})
    }

    /// Waits for the next. Several that come while nobody waits are one.
    #[cfg(unix)]
    async fn next(&mut self) {
        if self.signal.recv().await.is_none() {
            std::future::pending::<()>().await;
        }
    }

    #[cfg(not(unix))]
    async fn next(&mut self) {
        std::future::pending::<()>().await;
    }
}

/// Reads the configuration again whenever the process is sent SIGHUP, as long as this is awaited. A good one is put
/// in force whole; one with problems leaves the old one as it is, and they are in the log as `check` tells them.
pub async fn reload_on_hangup(mut hangups: Hangups, sources: Sources, mut swap: Swap) {
    loop {
        hangups.next().await;
        let sources = sources.clone();
        // Files are read and patterns compiled, which is no work for a thread that serves.
        let Ok(loaded) = tokio::task::spawn_blocking(move || config::load(&sources)).await else {
            error!("reading the configuration panicked: the old one stays in force");
            continue;
        };
        put_in_force(loaded, &mut swap);
    }
}

fn put_in_force(loaded: Result<config::Loaded, Problems>, swap: &mut Swap) {
    let loaded = match loaded {
        Ok(loaded) => loaded,
        Err(problems) => {
            let count = problems.as_slice().iter().filter(|problem| problem.is_error()).count();
            let report = format!("\n{problems}");
            error!(problems = count, %report, "the configuration is not good: the old one stays in force");
            return;
        }
    };
    for warning in &loaded.warnings {
        let report = format!("\n{warning}");
        warn!(%report, "a warning about the configuration");
    }
    match swap.to(&loaded) {
        Ok(later) => {
            let (routes, upstreams) = (loaded.routes.len(), loaded.upstreams.len());
            info!(routes, upstreams, "the configuration was read again and is in force");
            if !later.is_empty() {
                warn!(
                    settings = later.join(", "),
                    "settings that only hold from the next start have changed"
                );
            }
        }
        Err(conflict) => {
            error!(error = %conflict, "the configuration is not good: the old one stays in force")
        }
    }
}
