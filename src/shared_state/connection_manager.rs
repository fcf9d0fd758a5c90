//! Client of Redis or Valkey, which keeps a connection open, and the scripts that run in the store.
//!
//! The `redis` crate implements the protocol, and `redis_connection` opens its connections. This module
//! adds the behaviour on failure:
//!
//! - A connection is opened in the background. While there is no connection, every operation fails at once;
//!   with the crate's own `ConnectionManager`, each operation would wait for a connection.
//! - A connection on which several operations in a row fail is closed and opened again.

use std::{
    io,
    sync::{
        Arc, LazyLock,
        atomic::{AtomicU32, Ordering},
    },
    task::{Context, Waker},
    time::{Duration, SystemTime},
};

use arc_swap::ArcSwapOption;
use redis::{
    Cmd, ErrorKind, FromRedisValue, PushInfo, PushKind, RedisError, RedisResult, Script, ScriptInvocation,
    ServerErrorKind, Value,
};
use tokio::{
    sync::{Semaphore, broadcast, mpsc, watch},
    time::{Instant, sleep, timeout},
};
use tracing::{debug, info, warn};

use super::address::StoreSettings;
use super::redis_connection::{OpenConnection, StoreConnection};
use super::{LISTENER_BACKLOG, ReplicaEvent, StoreUnreachable, WRITE_LIMIT, WRITE_UNIT_BYTES};
use crate::crypto::{KeyedHash, Purpose, SecretKey, TokenCipher};
use crate::telemetry::{ErrorChain, LabelCounter};

/// Number of failures in a row after which a connection is closed.
const FAILURE_LIMIT: u32 = 3;
/// Backoff before the next attempt to connect: initial and maximum.
const RECONNECT_BACKOFF: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(2));

/// Script of rate limits (GCRA): advances the theoretical arrival time, measured with the clock of the store.
/// Returns the time to wait in microseconds, or 0. A stored time that is further ahead than calls can advance
/// it is ignored: another program wrote it, or the clock was set back.
pub(super) static TAKE: LazyLock<Script> = LazyLock::new(|| Script::new(include_str!("take.lua")));

/// Script that returns a value, truncated to one byte more than a limit, and its remaining lifetime in
/// milliseconds. Unlike the command `GET`, it copes with a value of any length or type from another program.
pub(super) static GET: LazyLock<Script> = LazyLock::new(|| Script::new(include_str!("get.lua")));

/// Script that adds a member to a group if the limit allows it, and sets the lifetime of the group in
/// milliseconds.
pub(super) static ADD: LazyLock<Script> = LazyLock::new(|| Script::new(include_str!("add.lua")));

/// State of the connection, and the time of its last change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StoreState {
    /// Whether there is a connection.
    pub is_up: bool,
    /// When `is_up` changed last.
    pub since: SystemTime,
}

/// Client of the store, with or without a connection.
pub(super) struct StoreClient {
    pub(super) settings: StoreSettings,
    pub(super) cipher: TokenCipher,
    pub(super) names: KeyedHash,
    pub(super) events: broadcast::Sender<ReplicaEvent>,
    pub(super) counts: LabelCounter,
    write_permits: Arc<Semaphore>,
    active_connection: ArcSwapOption<ActiveConnection>,
    pub(super) state: watch::Sender<StoreState>,
}

/// An open connection.
pub(super) struct ActiveConnection {
    connection: StoreConnection,
    failures: AtomicU32,
    /// Sends the reason for closing the connection.
    close_sender: mpsc::Sender<&'static str>,
}

/// Error of an operation that got no response.
fn no_response(kind: io::ErrorKind) -> RedisError {
    io::Error::from(kind).into()
}

impl StoreClient {
    pub(super) fn new(settings: StoreSettings, secret: &SecretKey) -> Self {
        let cipher = TokenCipher::new(secret);
        let state = StoreState { is_up: false, since: SystemTime::now() };
        Self {
            settings,
            names: cipher.keyed_hash(),
            cipher,
            events: broadcast::Sender::new(LISTENER_BACKLOG),
            counts: LabelCounter::new(["success", "failed", "not_written", "undecryptable"]),
            write_permits: Arc::new(Semaphore::new(WRITE_LIMIT as usize)),
            active_connection: ArcSwapOption::empty(),
            state: watch::Sender::new(state),
        }
    }

    /// The channel on which replicas publish.
    pub(super) fn channel(&self) -> String {
        format!("{}:notifications", self.settings.prefix)
    }

    /// Runs a command.
    pub(super) async fn run<T: FromRedisValue>(&self, command: &Cmd) -> Result<T, StoreUnreachable> {
        self.attempt(async |mut connection| command.query_async(&mut connection).await).await
    }

    /// Runs a script.
    pub(super) async fn run_script<T: FromRedisValue>(
        &self,
        script: &ScriptInvocation<'_>,
    ) -> Result<T, StoreUnreachable> {
        self.attempt(async |mut connection| script.invoke_async(&mut connection).await).await
    }

    /// Runs a command without waiting for its result ("fire and forget"). Drops it if too many bytes are in
    /// flight. Requires a Tokio runtime.
    pub(super) fn run_detached(self: &Arc<Self>, command: &mut Cmd, bytes: usize) {
        let units = u32::try_from(bytes / WRITE_UNIT_BYTES + 1).unwrap_or(u32::MAX).min(WRITE_LIMIT);
        let Ok(permit) = Arc::clone(&self.write_permits).try_acquire_many_owned(units) else {
            self.counts.add("not_written");
            return;
        };
        let (client, command) = (Arc::clone(self), command.take());
        let mut operation = Box::pin(async move {
            // `run` has already counted a failure.
            let _ = client.run::<()>(&command).await;
            drop(permit);
        });
        // The first poll puts the command into the connection's queue, so that the order of commands is kept.
        if operation.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending() {
            tokio::spawn(operation);
        }
    }

    async fn attempt<T>(
        &self,
        operation: impl AsyncFnOnce(StoreConnection) -> RedisResult<T>,
    ) -> Result<T, StoreUnreachable> {
        let result = match self.active_connection.load_full() {
            None => Err(no_response(io::ErrorKind::NotConnected)),
            Some(active_connection) => {
                let result =
                    timeout(self.settings.timeout, operation(active_connection.connection.clone())).await;
                let result = result.unwrap_or_else(|_| Err(no_response(io::ErrorKind::TimedOut)));
                active_connection.record(result.as_ref().err());
                result
            }
        };
        self.counts.add(if result.is_ok() { "success" } else { "failed" });
        result.map_err(|error| {
            // The loss of the connection is logged once, by `keep_connected`.
            debug!(error = %ErrorChain(&error), "shared state operation failed");
            StoreUnreachable
        })
    }

    /// Keeps a connection open, and reconnects whenever it is lost.
    pub(super) async fn keep_connected(&self) {
        let address = &self.settings.address;
        let (mut backoff, mut is_logged) = (RECONNECT_BACKOFF.0, false);
        loop {
            match OpenConnection::open(&self.settings, &self.channel()).await {
                Ok(opened) => {
                    info!(%address, "shared state connected");
                    is_logged = false;
                    let connected_at = Instant::now();
                    let reason = self.use_connection(opened).await;
                    warn!(%address, reason, "shared state connection lost");
                    // A short-lived connection does not reset the backoff: the server may accept connections
                    // that fail again and again.
                    if connected_at.elapsed() > RECONNECT_BACKOFF.1 {
                        backoff = RECONNECT_BACKOFF.0;
                    }
                }
                Err(error) => {
                    // Logged once per outage: further attempts fail for the same reason.
                    if !std::mem::replace(&mut is_logged, true) {
                        warn!(%address, error, "shared state unreachable, retrying");
                    }
                }
            }
            sleep(backoff).await;
            backoff = (backoff * 2).min(RECONNECT_BACKOFF.1);
        }
    }

    /// Uses a connection for operations until it ends or is closed. Returns the reason.
    async fn use_connection(&self, opened: OpenConnection) -> &'static str {
        let OpenConnection { connection, close_sender, mut close_receiver, mut pushes, driver: _driver } =
            opened;
        let active_connection = Arc::new(ActiveConnection::new(connection, close_sender));
        self.set_connected(Some(Arc::clone(&active_connection)));
        let reason = loop {
            tokio::select! {
                push = pushes.recv() => match push {
                    None => break "the connection ended",
                    // Messages that were published before the subscription are lost.
                    Some(PushInfo { kind: PushKind::Subscribe, .. }) => {
                        let _ = self.events.send(ReplicaEvent::Reconnected);
                    }
                    Some(PushInfo { kind: PushKind::Message, data }) => {
                        // The channel is the first element.
                        if let [_, Value::BulkString(message)] = data.as_slice() {
                            self.received(message);
                        }
                    }
                    // One node of a Cluster has disconnected. It counts as one failure, so the loss of all
                    // nodes counts as several in a row.
                    Some(PushInfo { kind: PushKind::Disconnection, .. }) => {
                        active_connection.record(Some(&no_response(io::ErrorKind::NotConnected)));
                    }
                    Some(_) => {}
                },
                reason = close_receiver.recv() => break reason.expect("a sender is in `active_connection`"),
            }
        };
        self.set_connected(None);
        reason
    }

    /// Notifies listeners of a message from a replica. Ignores a message that no replica has encrypted, and a
    /// kind of message that this version does not know.
    pub(super) fn received(&self, encrypted: &[u8]) {
        let json = self.decrypted(Purpose::Published(&self.settings.prefix), encrypted);
        if let Some(message) = json.and_then(|json| serde_json::from_slice(&json).ok()) {
            // An error means that there are no listeners, so nothing waits for the event.
            let _ = self.events.send(ReplicaEvent::Message(message));
        }
    }

    /// Decrypts a value of the store, and counts a value that no replica has encrypted.
    pub(super) fn decrypted(&self, purpose: Purpose<'_>, encrypted: &[u8]) -> Option<Vec<u8>> {
        let plaintext = self.cipher.decrypt(purpose, encrypted);
        if plaintext.is_none() {
            self.counts.add("undecryptable");
        }
        plaintext
    }

    pub(super) fn set_connected(&self, connection: Option<Arc<ActiveConnection>>) {
        let is_up = connection.is_some();
        self.active_connection.store(connection);
        self.state.send_replace(StoreState { is_up, since: SystemTime::now() });
    }
}

impl ActiveConnection {
    pub(super) fn new(connection: StoreConnection, close_sender: mpsc::Sender<&'static str>) -> Self {
        Self { connection, failures: AtomicU32::new(0), close_sender }
    }

    /// Counts failures in a row, and closes the connection after [`FAILURE_LIMIT`] of them.
    fn record(&self, error: Option<&RedisError>) {
        let Some(error) = error else {
            self.failures.store(0, Ordering::Relaxed);
            return;
        };
        // A server that rejects every operation is of no use. A former primary rejects only writes and still
        // responds to reads, so the first rejected write closes its connection.
        let is_read_only = error.kind() == ErrorKind::Server(ServerErrorKind::ReadOnly);
        if self.failures.fetch_add(1, Ordering::Relaxed) + 1 >= FAILURE_LIMIT || is_read_only {
            let repeated_failure = "several operations in a row failed";
            let reason = if is_read_only { "the server is read-only" } else { repeated_failure };
            // A full channel means that the connection is being closed already.
            let _ = self.close_sender.try_send(reason);
        }
    }
}
