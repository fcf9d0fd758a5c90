//! Shared state of several replicas, in one Redis or Valkey: usage of rate limits, cached responses, and
//! messages that replicas publish to each other.
//!
//! - [`SharedStore`] performs the operations on the store. [`ReplicaMessage`] is a published message.
//! - `address` parses the address and the settings of the store ([`StoreSettings`]).
//! - `connection_manager` keeps a connection open, and has the scripts that run in the store.
//!   `redis_connection` opens connections: to one server, to the primary that `sentinel` finds, or to a
//!   Cluster.
//!
//! Operations have a timeout, and fail at once with [`StoreUnreachable`] while the store is known to be down;
//! each policy then decides how it behaves. Values are encrypted, and their keys are keyed hashes, so the
//! store reveals nothing without the secret key of the replicas.

use std::{sync::Arc, time::Duration};

use parking_lot::Mutex;
use redis::cmd;
use serde::{Deserialize, Serialize};
use tokio::{sync::broadcast, task::JoinSet, time::timeout};

use crate::crypto::{Purpose, SecretKey};
use crate::route::McpLogLevel;
use crate::settings::units::milliseconds;
use crate::telemetry::LabelCounter;

mod address;
mod connection_manager;
mod redis_connection;
mod sentinel;
#[cfg(test)]
mod tests;

pub use address::{StoreAddress, StoreSettings};
use connection_manager::StoreClient;
pub use connection_manager::StoreState;
#[cfg(test)]
pub(crate) use tests::memory::MemoryStore;

/// Maximum size of unawaited writes in flight, in units of [`WRITE_UNIT_BYTES`]: 16 MiB.
const WRITE_LIMIT: u32 = 16 << 10;
/// Bytes of one unit of [`WRITE_LIMIT`].
const WRITE_UNIT_BYTES: usize = 1 << 10;
/// Maximum number of unread events of a listener. A listener that falls behind loses the oldest events.
const LISTENER_BACKLOG: usize = 256;
/// Maximum number of members of a group that are decrypted and returned.
const MEMBER_LIMIT: usize = 1024;

/// A message to every replica.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ReplicaMessage {
    /// A watched resource has changed: its URI, and a fingerprint of the new contents.
    Changed {
        /// The resource.
        uri: Arc<str>,
        /// The fingerprint, as computed by the replica that polled the resource.
        fingerprint: u64,
    },
    /// The subscriptions of an MCP session have changed.
    Subscribed {
        /// The id of the session.
        session: Box<str>,
    },
    /// The log level of an MCP session has changed.
    Level {
        /// The id of the session.
        session: Box<str>,
        /// The new level.
        level: McpLogLevel,
    },
    /// An MCP session was ended by its client.
    Ended {
        /// The id of the session.
        session: Box<str>,
    },
}

/// An event that a replica receives.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ReplicaEvent {
    /// A message was received.
    Message(ReplicaMessage),
    /// The store can be reached again: messages that were published meanwhile are lost.
    Reconnected,
}

/// The store can't be reached, or its response is invalid. The failure has been counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the shared state store can't be reached")]
pub struct StoreUnreachable;

/// A stored value, with its remaining lifetime.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredValue {
    /// The value.
    pub content: Vec<u8>,
    /// The remaining lifetime.
    pub remaining_ttl: Duration,
}

/// The shared state. Clones share the connection.
#[derive(derive_more::Debug, Clone)]
#[debug("SharedStore({:?})", client.settings)]
pub struct SharedStore {
    client: Arc<StoreClient>,
    /// The task that keeps the connection open. It ends when the last clone is dropped.
    task: Arc<Mutex<JoinSet<()>>>,
}

impl SharedStore {
    /// Creates the client of a store, without connecting.
    ///
    /// All written values are encrypted with the secret key, which is the same on every replica.
    pub fn new(settings: StoreSettings, secret: &SecretKey) -> Self {
        Self { client: Arc::new(StoreClient::new(settings, secret)), task: Arc::default() }
    }

    /// Connects, and keeps the connection open from now on. Returns when connected, or after the timeout of
    /// one operation. Requires a Tokio runtime.
    pub async fn begin(&self) {
        let client = Arc::clone(&self.client);
        self.task.lock().spawn(async move { client.keep_connected().await });
        let mut state = self.client.state.subscribe();
        let _ = timeout(self.client.settings.timeout, state.wait_for(|state| state.is_up)).await;
    }

    /// State of the connection to the store, and the time of its last change.
    pub fn state(&self) -> StoreState {
        *self.client.state.borrow()
    }

    /// Counters by result. Operations: `success`, or `failed` (no connection, or no valid response in time).
    /// Values: `not_written` (too long, or too many bytes were being written), or `undecryptable` (written
    /// without the secret key of the replicas, or changed since).
    pub fn counts(&self) -> &LabelCounter {
        &self.client.counts
    }

    /// Maximum length of one value, in bytes.
    pub fn entry_limit_bytes(&self) -> usize {
        self.client.settings.entry_limit_bytes
    }

    /// Returns the key in the store of the value that `kind` and `parts` identify. The key is the same on
    /// every replica. It contains a keyed hash, so it reveals nothing about the parts.
    pub fn name(&self, kind: &str, parts: &[&[u8]]) -> String {
        let mut hashed_parts = vec![kind.as_bytes()];
        hashed_parts.extend_from_slice(parts);
        format!("{}:{kind}:{}", self.client.settings.prefix, self.client.names.hash(&hashed_parts))
    }

    /// Takes one unit of a rate limit (GCRA): moves its theoretical arrival time ahead by
    /// `emission_interval`, unless that time is ahead by more than `burst_tolerance`. Returns zero if the
    /// unit was taken, or else the time until a unit is available.
    ///
    /// # Errors
    ///
    /// [`StoreUnreachable`] if the store can't be reached. The unit may have been taken nevertheless.
    pub async fn take(
        &self,
        name: &str,
        emission_interval: Duration,
        burst_tolerance: Duration,
    ) -> Result<Duration, StoreUnreachable> {
        let micros = |time: Duration| u64::try_from(time.as_micros()).unwrap_or(u64::MAX).max(1);
        let wait_micros: u64 = self
            .client
            .run_script(
                connection_manager::TAKE
                    .key(name)
                    .arg(micros(emission_interval))
                    .arg(micros(burst_tolerance)),
            )
            .await?;
        Ok(Duration::from_micros(wait_micros))
    }

    /// The value under a key. A value that no replica has written is ignored.
    ///
    /// # Errors
    ///
    /// [`StoreUnreachable`] if the store can't be reached.
    pub async fn get(&self, name: &str) -> Result<Option<StoredValue>, StoreUnreachable> {
        let limit_bytes = self.entry_limit_bytes();
        let (encrypted, remaining_ms): (Vec<u8>, i64) =
            self.client.run_script(connection_manager::GET.key(name).arg(limit_bytes)).await?;
        // The time is negative if the value is missing, or has no expiry and so was not written by a replica.
        let Ok(remaining_ms) = u64::try_from(remaining_ms) else { return Ok(None) };
        let content = self.client.decrypted(Purpose::Stored(name), &encrypted);
        Ok(content.map(|content| StoredValue { content, remaining_ttl: Duration::from_millis(remaining_ms) }))
    }

    /// Stores a value under a key for a time. The write is not awaited; a value that is too long is not
    /// stored.
    pub fn put(&self, name: &str, content: &[u8], ttl: Duration) {
        let encrypted = self.client.cipher.encrypt(Purpose::Stored(name), content);
        if encrypted.len() > self.entry_limit_bytes() {
            self.client.counts.add("not_written");
            return;
        }
        // `SET … PX` requires a lifetime of at least 1 ms.
        let ttl_ms = milliseconds(ttl).max(1);
        self.client.run_detached(cmd("SET").arg(name).arg(&encrypted).arg("PX").arg(ttl_ms), encrypted.len());
    }

    /// Removes a value. The removal is not awaited.
    pub fn remove(&self, name: &str) {
        self.client.run_detached(cmd("DEL").arg(name), 0);
    }

    /// Adds a member to a group of at most `limit` members, and resets the lifetime of the group to `ttl`.
    /// Returns false if the group is full.
    ///
    /// # Errors
    ///
    /// [`StoreUnreachable`] if the store can't be reached.
    pub async fn add(
        &self,
        group: &str,
        member: &[u8],
        limit: usize,
        ttl: Duration,
    ) -> Result<bool, StoreUnreachable> {
        let encrypted = self.client.cipher.encrypt(Purpose::Stored(group), member);
        let mut script = connection_manager::ADD.key(group);
        script.arg(self.member_name(group, member)).arg(encrypted).arg(limit).arg(milliseconds(ttl).max(1));
        self.client.run_script(&script).await
    }

    /// Removes a member of a group.
    ///
    /// # Errors
    ///
    /// [`StoreUnreachable`] if the store can't be reached.
    pub async fn remove_member(&self, group: &str, member: &[u8]) -> Result<(), StoreUnreachable> {
        self.client.run(cmd("HDEL").arg(group).arg(self.member_name(group, member))).await
    }

    /// Members of a group that replicas have added, at most `MEMBER_LIMIT`.
    ///
    /// # Errors
    ///
    /// [`StoreUnreachable`] if the store can't be reached.
    pub async fn members(&self, group: &str) -> Result<Vec<Vec<u8>>, StoreUnreachable> {
        let values: Vec<Vec<u8>> = self.client.run(cmd("HVALS").arg(group)).await?;
        let first_values = values.iter().take(MEMBER_LIMIT);
        Ok(first_values
            .filter_map(|encrypted| self.client.decrypted(Purpose::Stored(group), encrypted))
            .collect())
    }

    /// Publishes a message to all replicas, including this one, without waiting for the store.
    pub fn publish(&self, message: &ReplicaMessage) {
        let json = serde_json::to_vec(message).expect("its keys are strings");
        let prefix = &self.client.settings.prefix;
        let encrypted = self.client.cipher.encrypt(Purpose::Published(prefix), &json);
        self.client.run_detached(cmd("PUBLISH").arg(self.client.channel()).arg(&encrypted), encrypted.len());
    }

    /// Subscribes to the events that arrive from now on.
    pub fn subscribe(&self) -> broadcast::Receiver<ReplicaEvent> {
        self.client.events.subscribe()
    }

    fn member_name(&self, group: &str, member: &[u8]) -> String {
        self.client.names.hash(&[b"member", group.as_bytes(), member])
    }
}
