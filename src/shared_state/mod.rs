//! What several replicas share, in one Redis or Valkey: how much of a limit is used, responses that are
//! cached, and what one of them publishes to the others.
//!
//! In reading order: [`SharedStore`] is the way to it, with few verbs, and [`Message`] is what replicas
//! publish; `address` says where the store is ([`StoreSettings`]); `client` keeps the connection and has the
//! scripts that run there.
//!
//! Operations have a timeout, and fail at once with [`Unreachable`] while the store is known to be down; each
//! policy decides what follows. Values are encrypted, and their keys are keyed hashes, so the store reveals
//! nothing without the secret key of the replicas.

use std::{
    fmt,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use redis::cmd;
use serde::{Deserialize, Serialize};
use tokio::{
    sync::{Semaphore, broadcast},
    task::JoinSet,
    time::timeout,
};

use crate::crypto::{KeyedHash, Purpose, Seal, Secret};

mod address;
mod client;
#[cfg(test)]
mod tests;

pub use address::{StoreAddress, StoreAddressError, StoreSettings};
pub use client::StoreState;
use client::{Client, Received};
#[cfg(test)]
pub(crate) use tests::memory::Memory;

/// How many bytes may be on their way at once that nobody waits for, in [`WRITE_UNIT_BYTES`].
const WRITE_LIMIT: u32 = 16 << 10;
/// What a permit is for.
const WRITE_UNIT_BYTES: usize = 1 << 10;
/// How far behind one may be who listens.
const LISTENER_BACKLOG: usize = 256;
/// How many members of a group are read.
const MEMBER_LIMIT: usize = 1024;

/// Something that every replica should know.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Message {
    /// A watched resource is another one: its URI, and what tells these contents from others.
    Changed {
        /// The resource.
        uri: Arc<str>,
        /// Of its contents, as the replica that polled it sees them.
        fingerprint: u64,
    },
    /// A session of MCP subscribes to other resources than before.
    Subscribed {
        /// Its id.
        session: Box<str>,
    },
    /// A session of MCP wants log messages of other levels than before.
    Level {
        /// Its id.
        session: Box<str>,
        /// The least of them, by its name.
        level: Box<str>,
    },
    /// A session of MCP was ended by its client.
    Ended {
        /// Its id.
        session: Box<str>,
    },
}

/// What a replica hears.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Heard {
    /// This.
    Message(Message),
    /// The store can be reached again: whatever was published meanwhile is lost.
    Back,
}

/// The store can't be reached now, or does not answer as it should. It has been counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the shared store can't be reached")]
pub struct Unreachable;

/// A value that was kept, and for how much longer it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeptBytes {
    /// The value.
    pub content: Vec<u8>,
    /// How much longer.
    pub left: Duration,
}

/// What was asked of the store.
#[derive(Debug, Default)]
pub struct StoreCounts {
    asked: AtomicU64,
    failed: AtomicU64,
    not_written: AtomicU64,
    foreign: AtomicU64,
}

impl StoreCounts {
    /// Operations that were tried.
    pub fn asked(&self) -> u64 {
        self.asked.load(Ordering::Relaxed)
    }

    /// Operations without a good response in time, and those that were not tried as there was no connection.
    pub fn failed(&self) -> u64 {
        self.failed.load(Ordering::Relaxed)
    }

    /// What was not written: it was too long, or too much was being written.
    pub fn not_written(&self) -> u64 {
        self.not_written.load(Ordering::Relaxed)
    }

    /// Values that were not written by a replica with our secret, or were changed since.
    pub fn foreign(&self) -> u64 {
        self.foreign.load(Ordering::Relaxed)
    }
}

/// What replicas share. Clones are the same one.
#[derive(Clone)]
pub struct SharedStore(Arc<Inner>);

struct Inner {
    client: Arc<Client>,
    seal: Seal,
    names: KeyedHash,
    heard: broadcast::Sender<Heard>,
    writing: Arc<Semaphore>,
    /// What keeps the connection; it ends with this.
    task: Mutex<JoinSet<()>>,
}

impl fmt::Debug for SharedStore {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_tuple("SharedStore").field(&self.0.client.settings).finish()
    }
}

impl SharedStore {
    /// The way to a store. Nothing is connected yet.
    ///
    /// What is written there is sealed with the secret, which is the same on every replica.
    pub fn new(settings: StoreSettings, secret: &Secret) -> Self {
        let seal = Seal::of(secret);
        Self(Arc::new(Inner {
            client: Arc::new(Client::new(settings)),
            names: seal.keyed_hash(),
            seal,
            heard: broadcast::Sender::new(LISTENER_BACKLOG),
            writing: Arc::new(Semaphore::new(WRITE_LIMIT as usize)),
            task: Mutex::default(),
        }))
    }

    /// Connects, and keeps the connection from now on; returns when it is there, or after as long as a
    /// response may take. Needs a runtime.
    pub async fn begin(&self) {
        let (client, weak) = (Arc::clone(&self.0.client), Arc::downgrade(&self.0));
        let keep = async move {
            let received = |received| {
                if let Some(inner) = weak.upgrade() {
                    inner.received(received);
                }
            };
            client.keep_connected(received).await;
        };
        self.0.task.lock().unwrap_or_else(PoisonError::into_inner).spawn(keep);
        let _ = timeout(self.0.client.settings.timeout, self.0.client.up()).await;
    }

    /// Whether it can be reached, and since when that is so.
    pub fn state(&self) -> StoreState {
        self.0.client.state()
    }

    /// Whether it can be reached, as far as is known.
    pub fn is_reachable(&self) -> bool {
        self.state().is_up
    }

    /// What was asked of it.
    pub fn counts(&self) -> &StoreCounts {
        &self.0.client.counts
    }

    /// How long one value may be.
    pub fn entry_limit_bytes(&self) -> usize {
        self.0.client.settings.entry_limit_bytes
    }

    /// The name of something of a kind that has these parts: the same at every replica, and revealing nothing
    /// of them.
    pub fn name(&self, kind: &str, parts: &[&[u8]]) -> String {
        let mut all = vec![kind.as_bytes()];
        all.extend_from_slice(parts);
        format!("{}:{kind}:{}", self.0.client.settings.prefix, self.0.names.of(&all))
    }

    /// Uses some of a limit: moves its point ahead by `gap`, unless it is ahead by more than `slack`. Returns
    /// how long there is nothing left, and zero where there was.
    ///
    /// # Errors
    ///
    /// [`Unreachable`]. Some of it may be used all the same.
    pub async fn take(&self, name: &str, gap: Duration, slack: Duration) -> Result<Duration, Unreachable> {
        let micros = |time: Duration| at_least_one(time.as_micros());
        let wait: u64 =
            self.0.client.run_script(client::TAKE.key(name).arg(micros(gap)).arg(micros(slack))).await?;
        Ok(Duration::from_micros(wait))
    }

    /// What is kept under a name. A value that no replica wrote there is none.
    ///
    /// # Errors
    ///
    /// [`Unreachable`].
    pub async fn get(&self, name: &str) -> Result<Option<KeptBytes>, Unreachable> {
        let limit_bytes = self.entry_limit_bytes();
        let (sealed, left): (Vec<u8>, i64) =
            self.0.client.run_script(client::GET.key(name).arg(limit_bytes)).await?;
        // What has no end is none of ours.
        let Ok(left) = u64::try_from(left) else { return Ok(None) };
        let content = self.0.opened(Purpose::Stored(name), &sealed);
        Ok(content.map(|content| KeptBytes { content, left: Duration::from_millis(left) }))
    }

    /// Keeps a value under a name for a time. Nobody waits for that; one that is too long is not kept.
    pub fn put(&self, name: &str, content: &[u8], life: Duration) {
        let sealed = self.0.seal.encrypt(Purpose::Stored(name), content);
        if sealed.len() > self.entry_limit_bytes() {
            self.counts().not_written.fetch_add(1, Ordering::Relaxed);
            return;
        }
        self.post(cmd("SET").arg(name).arg(&sealed).arg("PX").arg(millis(life)), sealed.len());
    }

    /// Removes a value. Nobody waits for that.
    pub fn remove(&self, name: &str) {
        self.post(cmd("DEL").arg(name), 0);
    }

    /// Adds a member to a group, and keeps the group for a time from now on; whether there was room for it.
    ///
    /// # Errors
    ///
    /// [`Unreachable`].
    pub async fn add(
        &self,
        group: &str,
        member: &[u8],
        limit: usize,
        life: Duration,
    ) -> Result<bool, Unreachable> {
        let sealed = self.0.seal.encrypt(Purpose::Stored(group), member);
        let mut script = client::ADD.key(group);
        script.arg(self.member_name(group, member)).arg(sealed).arg(limit).arg(millis(life));
        self.0.client.run_script(&script).await
    }

    /// Removes a member of a group.
    ///
    /// # Errors
    ///
    /// [`Unreachable`].
    pub async fn drop_member(&self, group: &str, member: &[u8]) -> Result<(), Unreachable> {
        self.0.client.run(cmd("HDEL").arg(group).arg(self.member_name(group, member))).await
    }

    /// All members of a group that a replica added.
    ///
    /// # Errors
    ///
    /// [`Unreachable`].
    pub async fn members(&self, group: &str) -> Result<Vec<Vec<u8>>, Unreachable> {
        let values: Vec<Vec<u8>> = self.0.client.run(cmd("HVALS").arg(group)).await?;
        let some = values.iter().take(MEMBER_LIMIT);
        Ok(some.filter_map(|sealed| self.0.opened(Purpose::Stored(group), sealed)).collect())
    }

    /// Publishes something to all replicas, this one too. Nobody waits for that.
    pub fn tell(&self, message: &Message) {
        let json = serde_json::to_vec(message).expect("its keys are strings");
        let prefix = &self.0.client.settings.prefix;
        let sealed = self.0.seal.encrypt(Purpose::Published(prefix), &json);
        self.post(cmd("PUBLISH").arg(self.0.client.channel()).arg(&sealed), sealed.len());
    }

    /// Hears from now on what replicas publish.
    pub fn listen(&self) -> broadcast::Receiver<Heard> {
        self.0.heard.subscribe()
    }

    fn member_name(&self, group: &str, member: &[u8]) -> String {
        self.0.names.of(&[b"member", group.as_bytes(), member])
    }

    /// Runs a command that nobody waits for, unless too many bytes are under way. Needs a runtime.
    fn post(&self, command: &mut redis::Cmd, bytes: usize) {
        let units = u32::try_from(bytes / WRITE_UNIT_BYTES + 1).unwrap_or(u32::MAX).min(WRITE_LIMIT);
        match Arc::clone(&self.0.writing).try_acquire_many_owned(units) {
            Ok(permit) => self.0.client.post(command.take(), permit),
            Err(_) => {
                self.counts().not_written.fetch_add(1, Ordering::Relaxed);
            }
        }
    }
}

impl Inner {
    fn opened(&self, purpose: Purpose<'_>, sealed: &[u8]) -> Option<Vec<u8>> {
        let opened = self.seal.decrypt(purpose, sealed);
        if opened.is_none() {
            self.client.counts.foreign.fetch_add(1, Ordering::Relaxed);
        }
        opened
    }

    fn received(&self, received: Received) {
        let heard = match received {
            Received::Subscribed => Heard::Back,
            Received::Message(sealed) => {
                let opened = self.opened(Purpose::Published(&self.client.settings.prefix), &sealed);
                let Some(message) = opened.and_then(|json| serde_json::from_slice(&json).ok()) else {
                    return;
                };
                Heard::Message(message)
            }
        };
        // Without listeners it is lost, as nobody waits for it.
        let _ = self.heard.send(heard);
    }
}

/// The store has no shorter time than one.
fn at_least_one(time: u128) -> u64 {
    u64::try_from(time).unwrap_or(u64::MAX).max(1)
}

fn millis(time: Duration) -> u64 {
    at_least_one(time.as_millis())
}
