//! The configuration is read again: on SIGHUP, when an operator asks for it, and when its files change. And MCP servers
//! have other tools than before.

use std::{
    future::Future,
    io,
    path::PathBuf,
    pin::pin,
    sync::Arc,
    time::{Duration, SystemTime},
};

use tokio::{
    sync::{mpsc, oneshot},
    task::JoinHandle,
    time::{sleep, timeout},
};
use tracing::{error, info, warn};

use super::{ServeError, Swap};
use crate::{
    admin::{Playground, ProcessControl, ProcessStatus, ReloadFailure, ReloadRequest},
    config::{self, Loaded, Look, Sources},
};

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
        super::stop::ignore_user_signals()?;
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

/// How long ending what belongs to upstreams may take, sessions and children.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(5);

/// What keeps a configuration current, while it is served.
#[derive(Debug)]
pub struct Keeping {
    stop: oneshot::Sender<()>,
    ended: JoinHandle<()>,
}

impl Keeping {
    /// Begins to read it again whenever there is a reason, and to ask MCP servers for their tools.
    pub fn reloading(reloader: Reloader, hangups: Hangups) -> Self {
        Self::begin(|stopped| reloader.run(hangups, stopped))
    }

    /// Begins to ask MCP servers for their tools; the configuration stays.
    pub fn of(mut swap: Swap) -> Self {
        Self::begin(|stopped| async move {
            let mut stopped = pin!(stopped);
            swap.discover();
            loop {
                tokio::select! {
                    () = &mut stopped => break,
                    () = swap.next_list() => {}
                }
            }
            swap.close().await;
        })
    }

    fn begin<F>(work: impl FnOnce(Stopped) -> F) -> Self
    where
        F: Future<Output = ()> + Send + 'static,
    {
        let (stop, stopped) = oneshot::channel::<()>();
        let stopped: Stopped = Box::pin(async {
            let _ = stopped.await;
        });
        Self { stop, ended: tokio::spawn(work(stopped)) }
    }

    /// Ends it, and the sessions and children that belong to upstreams.
    pub async fn end(self) {
        drop(self.stop);
        if timeout(CLOSE_TIMEOUT, self.ended).await.is_err() {
            warn!(after = ?CLOSE_TIMEOUT, "not all that belongs to upstreams has ended");
        }
    }
}

type Stopped = std::pin::Pin<Box<dyn Future<Output = ()> + Send>>;

/// Puts configurations in force, one after the other.
#[derive(Debug)]
pub struct Reloader {
    sources: Arc<Sources>,
    swap: Swap,
    process: ProcessControl,
    watched: Watched,
}

/// The files that are looked at.
#[derive(Debug)]
pub struct Watched {
    /// How often; never where this is zero.
    interval: Duration,
    /// Those that the configuration names.
    named: Arc<[PathBuf]>,
    /// How they looked when they were read.
    known: Option<Look>,
}

impl Reloader {
    /// For a process whose configuration was read from `sources`.
    pub fn new(sources: Sources, watched: Watched, swap: Swap, process: ProcessControl) -> Self {
        Self { sources: Arc::new(sources), swap, process, watched }
    }

    /// Reads the configuration again whenever there is a reason, until `stop` is ready. A good one is put in force
    /// whole; one with problems leaves the old one as it is, and they are in the log as `check` tells them. The tools of
    /// MCP servers are put in force as they are found. At the end what belongs to upstreams is ended.
    pub async fn run(mut self, mut hangups: Hangups, stop: impl Future<Output = ()>) {
        let mut stop = pin!(stop);
        loop {
            self.swap.discover();
            let requests = tokio::select! {
                () = &mut stop => break,
                () = self.swap.next_list() => continue,
                () = hangups.next() => Vec::new(),
                requests = next_requests(&mut self.process.reloads) => requests,
                () = self.watched.changed(&self.sources) => {
                    info!("the files of the configuration have changed");
                    Vec::new()
                }
            };
            let status = self.reload().await;
            for request in requests {
                // Who does not wait any more misses nothing.
                let _ = request.send(status.clone());
            }
        }
        self.swap.close().await;
    }

    async fn reload(&mut self) -> ProcessStatus {
        let (sources, named) = (Arc::clone(&self.sources), Arc::clone(&self.watched.named));
        // Files are read and patterns compiled, which is no work for a thread that serves.
        let read = tokio::task::spawn_blocking(move || {
            // Looked at before: what is written while it is read is another change.
            let look = sources.look(&named);
            (look, config::load(&sources))
        });
        let Ok((look, loaded)) = read.await else {
            error!("reading the configuration panicked: the old one stays in force");
            return self.failed("reading the configuration panicked".to_owned());
        };
        self.watched.known = look;
        let loaded = match loaded {
            Ok(loaded) => loaded,
            Err(problems) => {
                let count = problems.as_slice().iter().filter(|problem| problem.is_error()).count();
                let report = format!("\n{problems}");
                error!(problems = count, %report, "the configuration is not good: the old one stays in force");
                return self.failed(problems.to_string());
            }
        };
        for warning in &loaded.warnings {
            let report = format!("\n{warning}");
            warn!(%report, "a warning about the configuration");
        }
        match self.swap.to(&loaded) {
            Ok(later) => self.succeeded(&loaded, later),
            Err(conflict) => {
                error!(error = %conflict, "the configuration is not good: the old one stays in force");
                self.failed(conflict.to_string())
            }
        }
    }

    fn succeeded(&mut self, loaded: &Loaded, later: Vec<&'static str>) -> ProcessStatus {
        let (routes, upstreams) = (loaded.routes.len(), loaded.upstreams.len());
        info!(routes, upstreams, "the configuration was read again and is in force");
        if !later.is_empty() {
            warn!(
                settings = later.join(", "),
                "these settings have changed and hold from the next start on; until then the old ones do"
            );
        }
        if *self.watched.named != *loaded.named_files {
            self.watched.named = loaded.named_files.clone().into();
            self.watched.known = self.sources.look(&self.watched.named);
        }
        self.publish(|status| {
            status.generation += 1;
            status.since = SystemTime::now();
            status.failure = None;
            status.playground = Arc::new(Playground::new(loaded));
            status.pending_restart = later;
        })
    }

    fn failed(&self, report: String) -> ProcessStatus {
        self.publish(|status| {
            // Since the first of a series.
            let at = status.failure.as_ref().map_or_else(SystemTime::now, |failure| failure.at);
            status.failure = Some(ReloadFailure { at, report });
            status.failures += 1;
        })
    }

    fn publish(&self, change: impl FnOnce(&mut ProcessStatus)) -> ProcessStatus {
        self.process.status.send_modify(change);
        self.process.status.borrow().clone()
    }
}

/// All requests that wait, once there is one.
async fn next_requests(reloads: &mut mpsc::Receiver<ReloadRequest>) -> Vec<ReloadRequest> {
    let mut requests = Vec::new();
    if reloads.recv_many(&mut requests, reloads.max_capacity()).await == 0 {
        // There is no admin API.
        std::future::pending::<()>().await;
    }
    requests
}

impl Watched {
    /// Those of a configuration, as they are now.
    pub fn of(sources: &Sources, loaded: &Loaded) -> Self {
        let named: Arc<[PathBuf]> = loaded.named_files.clone().into();
        let known = sources.look(&named);
        Self { interval: loaded.listener.watch, named, known }
    }

    /// Ready when the files look different from when they were read, and have looked like that for a while: one that is
    /// still being written is left to be finished.
    async fn changed(&self, sources: &Arc<Sources>) {
        if self.interval.is_zero() || self.known.is_none() {
            return std::future::pending().await;
        }
        let mut before = self.known.clone();
        loop {
            sleep(self.interval).await;
            let (sources, named) = (Arc::clone(sources), Arc::clone(&self.named));
            let Ok(now) = tokio::task::spawn_blocking(move || sources.look(&named)).await else { continue };
            if now != self.known && now == before {
                return;
            }
            before = now;
        }
    }
}
