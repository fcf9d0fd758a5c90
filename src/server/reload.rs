//! Hot reload of the configuration: on SIGHUP, on a request to the admin API, and when its files change.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};
use std::{fs, io};

use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::time::sleep;
use tracing::{error, info, warn};

use super::App;
use crate::admin::{ProcessControl, ReloadFailure, ReloadRequest};
use crate::config::{self, Loaded, Sources};
use crate::settings::{Problems, Section};

/// Reloads the configuration of an application.
#[derive(Debug)]
pub struct Reloader {
    process: ProcessControl,
    hangups: Signal,
    files: ConfigFiles,
}

/// The files of the configuration, and the state in which they were read.
#[derive(Debug, Clone)]
struct ConfigFiles {
    sources: Arc<Sources>,
    /// Interval of checks for changed files; zero disables them.
    interval: Duration,
    /// Files that the configuration refers to.
    referenced_files: Arc<[PathBuf]>,
    /// Fingerprint of all files at the time when they were read.
    fingerprint: Option<ConfigFingerprint>,
}

impl Reloader {
    /// Creates the reloader of a process whose configuration was loaded from `sources`.
    pub fn new(sources: Sources, loaded: &Loaded, process: ProcessControl, hangups: Signal) -> Self {
        let (sources, interval) = (Arc::new(sources), loaded.server.listener.reload_interval);
        let referenced_files: Arc<[PathBuf]> = loaded.referenced_files.clone().into();
        let fingerprint = ConfigFingerprint::new(&sources, &referenced_files);
        Self { process, hangups, files: ConfigFiles { sources, interval, referenced_files, fingerprint } }
    }

    /// Waits for the next reason to reload. Returns the reloader, and the reload requests of the admin API
    /// that are waiting.
    pub(super) async fn next(&mut self) -> (&mut Self, Vec<ReloadRequest>) {
        let mut requests = Vec::new();
        let reloads = &mut self.process.reloads;
        tokio::select! {
            Some(()) = self.hangups.recv() => {}
            // Receives all waiting requests. Without an admin API, `recv_many` returns 0 at once, which
            // disables this branch.
            1..=usize::MAX = reloads.recv_many(&mut requests, reloads.max_capacity()) => {}
            () = self.files.wait_for_change() => info!("configuration files changed"),
        }
        (self, requests)
    }

    /// Reloads the configuration, and responds to the requests. A valid configuration becomes active as a
    /// whole. If it has problems, they are logged as `check` reports them, and the old configuration stays
    /// active.
    pub(super) async fn reload(&mut self, app: &mut App, requests: Vec<ReloadRequest>) {
        match self.try_reload(app).await {
            Ok((loaded, restart_pending)) => self.record_success(loaded, restart_pending),
            Err(report) => self.record_failure(report),
        }
        let status = self.process.status.borrow().clone();
        for request in requests {
            // Sending fails if the client no longer waits.
            let _ = request.send(status.clone());
        }
    }

    /// Loads and activates the configuration. Returns it, with the names of the changed settings that take
    /// effect only after a restart.
    ///
    /// # Errors
    ///
    /// The reason for the failure.
    async fn try_reload(&mut self, app: &mut App) -> Result<(Loaded, Vec<String>), String> {
        let files = self.files.clone();
        // Blocking, because it reads files and compiles patterns.
        let Ok((files, loaded)) = tokio::task::spawn_blocking(move || files.load()).await else {
            let error = "reading the configuration panicked";
            error!(error, "config reload failed");
            return Err(error.to_owned());
        };
        self.files = files;
        let loaded = loaded.map_err(|problems| {
            let count = problems.as_slice().iter().filter(|problem| problem.is_error()).count();
            let report = format!("\n{problems}");
            error!(problems = count, %report, "config reload failed");
            problems.to_string()
        })?;
        for warning in &loaded.warnings {
            let report = format!("\n{warning}");
            warn!(%report, "configuration warning");
        }
        let restart_pending = app.apply(&loaded).map_err(|conflict| {
            error!(error = %conflict, "config reload failed");
            conflict.to_string()
        })?;
        Ok((loaded, restart_pending))
    }

    fn record_success(&mut self, loaded: Loaded, restart_pending: Vec<String>) {
        let (routes, upstreams) = (loaded.routes.len(), loaded.upstreams.len());
        info!(routes, upstreams, "config reloaded");
        if !restart_pending.is_empty() {
            warn!(settings = restart_pending.join(", "), "changed settings take effect only after a restart");
        }
        self.process.status.send_modify(|status| {
            status.generation += 1;
            status.since = SystemTime::now();
            status.failure = None;
            status.loaded = Arc::new(loaded);
            status.restart_pending = restart_pending;
        });
    }

    fn record_failure(&self, report: String) {
        self.process.status.send_modify(|status| {
            // Consecutive failures keep the time of the first.
            let at = status.failure.as_ref().map_or_else(SystemTime::now, |failure| failure.at);
            status.failure = Some(ReloadFailure { at, report });
            status.failures += 1;
        });
    }
}

/// Receives the SIGHUP signals of this process from now on, so that they no longer end it. SIGUSR1 and
/// SIGUSR2 do not end it either.
///
/// Needs no runtime, so that it can be called before everything else: a SIGHUP during startup causes a reload
/// once the program serves.
///
/// # Errors
///
/// When the system does not deliver signals.
pub fn hangup_signals() -> io::Result<Signal> {
    // Signal handlers belong to the process, not to the runtime, and remain when this runtime is dropped.
    let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build()?;
    let _inside = runtime.enter();
    // SIGUSR1 and SIGUSR2 have no function in glossator, and would end the process. Their handlers remain
    // after the receivers are dropped.
    for kind in [SignalKind::user_defined1(), SignalKind::user_defined2()] {
        drop(signal(kind)?);
    }
    signal(SignalKind::hangup())
}

impl ConfigFiles {
    /// Loads the configuration. Returns the files that it refers to, even if it is invalid: a missing one may
    /// be the reason.
    fn load(mut self) -> (Self, Result<Loaded, Problems>) {
        loop {
            // The fingerprint is taken before the files are read: a file that is written meanwhile then
            // counts as changed.
            self.fingerprint = ConfigFingerprint::new(&self.sources, &self.referenced_files);
            let loaded = config::load(&self.sources);
            let referenced_files = match &loaded {
                Ok(loaded) => &loaded.referenced_files,
                Err(problems) => &problems.referenced_files,
            };
            if *self.referenced_files == **referenced_files {
                return (self, loaded);
            }
            // The fingerprint does not contain all files that were read, so they are read again.
            self.referenced_files = referenced_files.clone().into();
        }
    }

    /// Waits until the files have changed since they were read, and then remained unchanged for one interval.
    /// So a file that is being written is read only when it is complete.
    async fn wait_for_change(&self) {
        if self.interval.is_zero() || self.fingerprint.is_none() {
            return std::future::pending().await;
        }
        let mut previous = self.fingerprint.clone();
        loop {
            sleep(self.interval).await;
            let (sources, referenced_files) = (Arc::clone(&self.sources), Arc::clone(&self.referenced_files));
            let Ok(current) =
                tokio::task::spawn_blocking(move || ConfigFingerprint::new(&sources, &referenced_files))
                    .await
            else {
                continue;
            };
            if current != self.fingerprint && current == previous {
                return;
            }
            previous = current;
        }
    }
}

/// Fingerprint of the configuration files and of the files that they refer to: path, length, modification
/// time and resolved path of each file.
///
/// It changes if a file is written or replaced, or if a symlink changes, which is how Kubernetes updates
/// mounted folders.
#[derive(Debug, Clone, PartialEq, Eq)]
struct ConfigFingerprint(Vec<(PathBuf, Option<FileFingerprint>)>);

/// Length, modification time and resolved path of one file.
type FileFingerprint = (u64, Option<SystemTime>, PathBuf);

impl ConfigFingerprint {
    /// Takes the fingerprint of the configuration files and of `referenced_files` (secrets and certificates).
    /// `None` if the configuration is not in a file.
    fn new(sources: &Sources, referenced_files: &[PathBuf]) -> Option<Self> {
        let config_files = sources.files()?;
        Some(Self(
            config_files
                .iter()
                .chain(referenced_files)
                .map(|path| (path.clone(), fingerprint_of(path)))
                .collect(),
        ))
    }
}

/// Returns the fingerprint of one file; `None` if it does not exist.
fn fingerprint_of(path: &Path) -> Option<FileFingerprint> {
    let metadata = fs::metadata(path).ok()?;
    Some((metadata.len(), metadata.modified().ok(), fs::canonicalize(path).ok()?))
}

/// Names of the settings that have changed since startup, and that take effect only after a restart.
pub(super) fn restart_differences(startup: &Loaded, loaded: &Loaded) -> Vec<String> {
    let mut found = differences("server", &startup.server, &loaded.server);
    found.extend(differences("admin", &startup.admin, &loaded.admin));
    found.extend(differences("log", &startup.log, &loaded.log));
    match (&startup.shared, &loaded.shared) {
        (Some(startup), Some(loaded)) => found.extend(differences("shared_state", startup, loaded)),
        (None, None) => {}
        _ => found.push("shared_state".to_owned()),
    }
    found.extend(differences("telemetry", &*startup.telemetry, &*loaded.telemetry));
    if startup.server.tls.is_some() != loaded.server.tls.is_some() {
        found.push("server.tls".to_owned());
    }
    found
}

/// Names of the settings of a section that differ and take effect only after a restart.
fn differences<T: Section>(section: &str, old: &T, new: &T) -> Vec<String> {
    let mut keys = Vec::new();
    old.restart_differences(new, &mut keys);
    keys.into_iter().map(|key| format!("{section}.{key}")).collect()
}
