//! The way to what replicas share.

use std::{
    fmt,
    sync::{Arc, Mutex, PoisonError, atomic::Ordering},
    time::Duration,
};

use bytes::Bytes;
use tokio::{
    sync::{Semaphore, broadcast},
    task::JoinHandle,
    time::timeout,
};
use tracing::debug;

use super::{
    StoreAddress, StoreCounts,
    backend::{Backend, Failure, Operation, Outcome, Posting},
    link::{Came, Link, LinkState},
    message::{Heard, Message},
    server::Server,
};
use crate::{
    observe::Chain,
    seal::{Names, Purpose, Seal, Secret},
    tls::ClientTls,
};

/// Where the store is, and what is asked of it.
#[derive(Clone, PartialEq, Eq)]
pub struct StoreSettings {
    /// Where it is.
    pub address: StoreAddress,
    /// Whom to take it for, where it is reached through TLS.
    pub tls: Option<ClientTls>,
    /// As whom to log in; the default user where there is none.
    pub user: Option<String>,
    /// With what; there is no login without.
    pub password: Option<String>,
    /// Which of its databases.
    pub database: u32,
    /// What all names there begin with.
    pub prefix: String,
    /// How long one answer may take.
    pub timeout: Duration,
    /// How long one value may be.
    pub entry_limit_bytes: usize,
    /// What is written there is sealed with, the same on every replica.
    pub secret: Secret,
}

impl StoreSettings {
    /// For [`prefix`](Self::prefix).
    pub const PREFIX_DEFAULT: &str = "glossator";
    /// For [`timeout`](Self::timeout).
    pub const TIMEOUT_DEFAULT: Duration = Duration::from_millis(250);
    /// For [`entry_limit_bytes`](Self::entry_limit_bytes).
    pub const ENTRY_LIMIT_BYTES_DEFAULT: usize = 1 << 20;
}

/// Without the password.
impl fmt::Debug for StoreSettings {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("StoreSettings")
            .field("address", &self.address)
            .field("user", &self.user)
            .field("database", &self.database)
            .field("prefix", &self.prefix)
            .field("timeout", &self.timeout)
            .field("entry_limit_bytes", &self.entry_limit_bytes)
            .finish_non_exhaustive()
    }
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

/// How many bytes may be on their way at once that nobody waits for, in [`WRITING_UNIT_BYTES`].
const WRITING_LIMIT: u32 = 16 << 10;
/// What a permit is for.
const WRITING_UNIT_BYTES: usize = 1 << 10;
/// How far behind one may be who listens.
const BEHIND_LIMIT: usize = 256;
/// How many members of a group are read.
const MEMBER_LIMIT: usize = 1024;

/// What replicas share. Clones are the same one.
#[derive(Clone)]
pub struct SharedStore(Arc<Inner>);

struct Inner {
    settings: Arc<StoreSettings>,
    seal: Seal,
    names: Names,
    backend: Arc<dyn Backend>,
    link: Option<Link>,
    keeping: Mutex<Option<JoinHandle<()>>>,
    heard: broadcast::Sender<Heard>,
    writing: Arc<Semaphore>,
    counts: StoreCounts,
}

impl Drop for Inner {
    fn drop(&mut self) {
        if let Some(keeping) = self.keeping.get_mut().unwrap_or_else(PoisonError::into_inner).take() {
            keeping.abort();
        }
    }
}

impl fmt::Debug for SharedStore {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_tuple("SharedStore").field(&self.0.settings).finish()
    }
}

impl SharedStore {
    /// The way to a server. Nothing is connected yet.
    pub fn new(settings: StoreSettings) -> Self {
        let (link, seal) = (Link::new(), Seal::of(&settings.secret));
        let settings = Arc::new(settings);
        let channel = channel(&settings);
        let backend = Server { link: link.clone(), channel, patience: settings.timeout };
        Self::of(settings, seal, Arc::new(backend), Some(link))
    }

    fn of(settings: Arc<StoreSettings>, seal: Seal, backend: Arc<dyn Backend>, link: Option<Link>) -> Self {
        Self(Arc::new(Inner {
            names: seal.names(),
            settings,
            seal,
            backend,
            link,
            keeping: Mutex::default(),
            heard: broadcast::Sender::new(BEHIND_LIMIT),
            writing: Arc::new(Semaphore::new(WRITING_LIMIT as usize)),
            counts: StoreCounts::default(),
        }))
    }

    /// One replica's way to a store that is in memory.
    #[cfg(test)]
    pub(crate) fn in_memory(memory: &super::Memory) -> Self {
        let settings = StoreSettings {
            address: "redis://memory".parse().expect("it is one"),
            tls: None,
            user: None,
            password: None,
            database: 0,
            prefix: StoreSettings::PREFIX_DEFAULT.to_owned(),
            timeout: StoreSettings::TIMEOUT_DEFAULT,
            entry_limit_bytes: 10_000,
            secret: Secret::new(b"the same for all").expect("it is long enough"),
        };
        let seal = Seal::of(&settings.secret);
        let store = Self::of(Arc::new(settings), seal, Arc::new(memory.clone()), None);
        let weak = Arc::downgrade(&store.0);
        memory.listen(move |message| {
            if let Some(inner) = weak.upgrade() {
                inner.came(Came::Message(message));
            }
        });
        store
    }

    /// Connects, and keeps the connection from now on; comes back when it is there, or after as long as an answer may
    /// take. Needs a runtime.
    pub async fn begin(&self) {
        let Some(link) = &self.0.link else { return };
        let weak = Arc::downgrade(&self.0);
        let keeping = link.begin(Arc::clone(&self.0.settings), channel(&self.0.settings), move |came| {
            if let Some(inner) = weak.upgrade() {
                inner.came(came);
            }
        });
        *self.0.keeping.lock().unwrap_or_else(PoisonError::into_inner) = Some(keeping);
        let _ = timeout(self.0.settings.timeout, link.up()).await;
    }

    /// Whether it can be reached, and since when that is so.
    pub fn state(&self) -> LinkState {
        self.0.backend.state()
    }

    /// Whether it can be reached, as far as is known.
    pub fn is_reachable(&self) -> bool {
        self.state().is_up
    }

    /// Where it is.
    pub fn address(&self) -> &StoreAddress {
        &self.0.settings.address
    }

    /// What was asked of it.
    pub fn counts(&self) -> &StoreCounts {
        &self.0.counts
    }

    /// How long one value may be.
    pub fn entry_limit_bytes(&self) -> usize {
        self.0.settings.entry_limit_bytes
    }

    /// The name of something of a kind that has these parts: the same at every replica, and telling nothing of them.
    pub fn name(&self, kind: &str, parts: &[&[u8]]) -> String {
        let mut all = vec![kind.as_bytes()];
        all.extend_from_slice(parts);
        format!("{}:{kind}:{}", self.0.settings.prefix, self.0.names.of(&all))
    }

    /// Uses some of a limit: moves its point ahead by `gap`, unless it is ahead by more than `slack`. Gives how long
    /// there is nothing left, and zero where there was.
    ///
    /// # Errors
    ///
    /// [`Unreachable`]. Some of it may be used all the same.
    pub async fn take(&self, name: &str, gap: Duration, slack: Duration) -> Result<Duration, Unreachable> {
        match self.run(Operation::Take { name, gap, slack }).await? {
            Outcome::Wait(wait) => Ok(wait),
            _ => Err(Unreachable),
        }
    }

    /// What is kept under a name. A value that no replica wrote there is none.
    ///
    /// # Errors
    ///
    /// [`Unreachable`].
    pub async fn get(&self, name: &str) -> Result<Option<KeptBytes>, Unreachable> {
        let limit_bytes = self.entry_limit_bytes();
        let Outcome::Value(found) = self.run(Operation::Get { name, limit_bytes }).await? else {
            return Err(Unreachable);
        };
        Ok(found.and_then(|(sealed, left)| {
            let content = self.opened(Purpose::Kept, name, &sealed)?;
            Some(KeptBytes { content, left })
        }))
    }

    /// Keeps a value under a name for a time. Nobody waits for that; one that is too long is not kept.
    pub fn put(&self, name: &str, content: &[u8], life: Duration) {
        let sealed = self.0.seal.seal_at(Purpose::Kept, name.as_bytes(), content);
        if sealed.len() > self.entry_limit_bytes() {
            self.0.counts.not_written.fetch_add(1, Ordering::Relaxed);
            return;
        }
        self.post(Posting::Put { name, value: &sealed, life });
    }

    /// Removes a value. Nobody waits for that.
    pub fn remove(&self, name: &str) {
        self.post(Posting::Remove { name });
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
        let name = self.0.names.of(&[b"member", group.as_bytes(), member]);
        let sealed = self.0.seal.seal_at(Purpose::Kept, group.as_bytes(), member);
        match self.run(Operation::Add { group, member: &name, value: &sealed, limit, life }).await? {
            Outcome::Added(added) => Ok(added),
            _ => Err(Unreachable),
        }
    }

    /// Removes a member of a group.
    ///
    /// # Errors
    ///
    /// [`Unreachable`].
    pub async fn drop_member(&self, group: &str, member: &[u8]) -> Result<(), Unreachable> {
        let name = self.0.names.of(&[b"member", group.as_bytes(), member]);
        self.run(Operation::Drop { group, member: &name }).await.map(|_| ())
    }

    /// All members of a group that a replica added.
    ///
    /// # Errors
    ///
    /// [`Unreachable`].
    pub async fn members(&self, group: &str) -> Result<Vec<Vec<u8>>, Unreachable> {
        let Outcome::Values(values) = self.run(Operation::All { group }).await? else {
            return Err(Unreachable);
        };
        let some = values.iter().take(MEMBER_LIMIT);
        Ok(some.filter_map(|sealed| self.opened(Purpose::Kept, group, sealed)).collect())
    }

    /// Tells all replicas something, this one too. Nobody waits for that.
    pub fn tell(&self, message: &Message) {
        let json = serde_json::to_vec(message).expect("its keys are strings");
        let sealed = self.0.seal.seal_at(Purpose::Told, self.0.settings.prefix.as_bytes(), &json);
        self.post(Posting::Tell { message: &sealed });
    }

    /// Hears from now on what replicas tell.
    pub fn listen(&self) -> broadcast::Receiver<Heard> {
        self.0.heard.subscribe()
    }

    fn opened(&self, purpose: Purpose, place: &str, sealed: &[u8]) -> Option<Vec<u8>> {
        let opened = self.0.seal.open_at(purpose, place.as_bytes(), sealed);
        if opened.is_none() {
            self.0.counts.foreign.fetch_add(1, Ordering::Relaxed);
        }
        opened
    }

    async fn run(&self, operation: Operation<'_>) -> Result<Outcome, Unreachable> {
        self.0.counts.asked.fetch_add(1, Ordering::Relaxed);
        self.0.backend.run(operation).await.map_err(|failure| self.0.failed(&failure))
    }

    /// Does something for which nobody waits, unless too much of that is being done. Needs a runtime.
    fn post(&self, posting: Posting<'_>) {
        let bytes = match &posting {
            Posting::Put { value, .. } => value.len(),
            Posting::Tell { message } => message.len(),
            Posting::Remove { .. } => 0,
        };
        let units = u32::try_from(bytes / WRITING_UNIT_BYTES + 1).unwrap_or(u32::MAX).min(WRITING_LIMIT);
        let Ok(place) = Arc::clone(&self.0.writing).try_acquire_many_owned(units) else {
            self.0.counts.not_written.fetch_add(1, Ordering::Relaxed);
            return;
        };
        self.0.counts.asked.fetch_add(1, Ordering::Relaxed);
        let (posted, inner) = (self.0.backend.post(posting), Arc::clone(&self.0));
        tokio::spawn(async move {
            if let Err(failure) = posted.await {
                inner.failed(&failure);
            }
            drop(place);
        });
    }
}

impl Inner {
    fn failed(&self, failure: &Failure) -> Unreachable {
        self.counts.failed.fetch_add(1, Ordering::Relaxed);
        // That the store is gone is told once, by who keeps the connection.
        debug!(error = %Chain(failure), "the shared store was of no use");
        Unreachable
    }

    fn came(&self, came: Came) {
        let heard = match came {
            Came::Up => Some(Heard::Back),
            Came::Message(sealed) => self.message(&sealed).map(Heard::Message),
        };
        if let Some(heard) = heard {
            // Without listeners it is lost, as nobody waits for it.
            let _ = self.heard.send(heard);
        }
    }

    fn message(&self, sealed: &Bytes) -> Option<Message> {
        let opened = self.seal.open_at(Purpose::Told, self.settings.prefix.as_bytes(), sealed);
        let message = opened.and_then(|json| serde_json::from_slice(&json).ok());
        if message.is_none() {
            self.counts.foreign.fetch_add(1, Ordering::Relaxed);
        }
        message
    }
}

/// Where replicas tell one another something.
fn channel(settings: &StoreSettings) -> Vec<u8> {
    format!("{}:told", settings.prefix).into_bytes()
}
