//! Keeps a connection to the store as long as there can be one.
//!
//! Nobody waits for a connection: it is there, or everything fails at once. One on which several commands in a row fail
//! is given up, and begun anew.

use std::{
    future::Future,
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
    time::{Duration, SystemTime},
};

use arc_swap::ArcSwapOption;
use bytes::Bytes;
use tokio::{
    sync::{Notify, mpsc, watch},
    task::JoinHandle,
    time::{Instant, sleep, timeout},
};
use tracing::{info, warn};

use super::{
    backend::Failure,
    connection::{Connection, connect},
    resp::Value,
    scripts,
    store::StoreSettings,
};
use crate::observe::Chain;

/// How long connecting may take, with all that is said before the first command.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(2);
/// After how many commands in a row without an answer a connection is given up.
const FAILURE_LIMIT: u32 = 3;
/// How long to wait before the next attempt to connect, at first and at most.
const PAUSE: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(2));

/// Whether there is a connection, and since when that is so.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LinkState {
    /// Whether there is one.
    pub is_up: bool,
    /// Since when it is there, or not.
    pub since: SystemTime,
}

/// A connection that is there now.
#[derive(Debug)]
pub(super) struct Live {
    connection: Connection,
    scripts: Vec<Bytes>,
    failures: AtomicU32,
    given_up: Notify,
}

/// The connection that is there now, if there is one. Clones are the same.
#[derive(Debug, Clone)]
pub(super) struct Link {
    live: Arc<ArcSwapOption<Live>>,
    state: Arc<watch::Sender<LinkState>>,
}

/// What comes over it.
#[derive(Debug)]
pub(super) enum Came {
    /// A message.
    Message(Bytes),
    /// The connection is there, for the first time or again.
    Up,
}

impl Link {
    /// None yet.
    pub(super) fn new() -> Self {
        let state = watch::Sender::new(LinkState { is_up: false, since: SystemTime::now() });
        Self { live: Arc::default(), state: Arc::new(state) }
    }

    pub(super) fn state(&self) -> LinkState {
        *self.state.borrow()
    }

    /// Ready when there is a connection.
    pub(super) async fn up(&self) {
        // The sender is ours, so it is there as long as we are.
        let _ = self.state.subscribe().wait_for(|state| state.is_up).await;
    }

    /// Begins to keep a connection; `came` takes what comes over it. Needs a runtime.
    pub(super) fn begin(
        &self,
        settings: Arc<StoreSettings>,
        channel: Vec<u8>,
        came: impl Fn(Came) + Send + Sync + 'static,
    ) -> JoinHandle<()> {
        let link = self.clone();
        tokio::spawn(async move { link.keep(&settings, &channel, came).await })
    }

    async fn keep(&self, settings: &StoreSettings, channel: &[u8], came: impl Fn(Came)) {
        let address = &settings.address;
        let (mut pause, mut is_told) = (PAUSE.0, false);
        loop {
            let begun = timeout(CONNECT_TIMEOUT, Begun::begin(settings, channel)).await;
            let begun = begun.unwrap_or(Err(Failure::TooLate { after: CONNECT_TIMEOUT }.into()));
            match begun {
                Ok(mut begun) => {
                    info!(%address, "the shared store is there");
                    is_told = false;
                    let there_since = Instant::now();
                    self.live.store(Some(Arc::clone(&begun.live)));
                    self.tell(true);
                    came(Came::Up);
                    let why = begun.carry(&came).await;
                    self.live.store(None);
                    self.tell(false);
                    warn!(%address, why, "the shared store is gone: what needs it does without, as its policy says");
                    // One that lets us in and is of no use again and again is as good as none.
                    if there_since.elapsed() > PAUSE.1 {
                        pause = PAUSE.0;
                    }
                }
                Err(error) => {
                    // Once for a series: the next attempt says the same.
                    if !std::mem::replace(&mut is_told, true) {
                        warn!(%address, error = %Chain(&*error), "the shared store can't be reached; it is tried again and again");
                    }
                }
            }
            sleep(pause).await;
            pause = (pause * 2).min(PAUSE.1);
        }
    }

    fn tell(&self, is_up: bool) {
        self.state.send_replace(LinkState { is_up, since: SystemTime::now() });
    }

    /// Sends a command now; the future waits for its answer for so long.
    pub(super) fn ask(
        &self,
        words: &[&[u8]],
        patience: Duration,
    ) -> impl Future<Output = Result<Value, Failure>> + Send + use<> {
        let asked = self.live.load_full().map(|live| (live.connection.ask(words), live));
        async move {
            let (asked, live) = asked.ok_or(Failure::NoConnection)?;
            live.judged(timeout(patience, asked).await.unwrap_or(Err(Failure::TooLate { after: patience })))
        }
    }

    /// The same with a script before the words.
    ///
    /// # Errors
    ///
    /// [`Failure`].
    pub(super) async fn call(
        &self,
        script: scripts::Script,
        key: &[u8],
        words: &[&[u8]],
        patience: Duration,
    ) -> Result<Value, Failure> {
        let live = self.live.load_full().ok_or(Failure::NoConnection)?;
        let hash = live.scripts[script as usize].clone();
        let mut all: Vec<&[u8]> = vec![b"EVALSHA", &hash, b"1", key];
        all.extend_from_slice(words);
        let asked = timeout(patience, live.connection.ask(&all)).await;
        live.judged(asked.unwrap_or(Err(Failure::TooLate { after: patience })))
    }
}

impl Live {
    /// Counts failures in a row; with too many the connection is given up.
    fn judged(&self, answered: Result<Value, Failure>) -> Result<Value, Failure> {
        match answered {
            Ok(value) => {
                // Seldom anything else than zero, and then nobody has to write it.
                if self.failures.load(Ordering::Relaxed) > 0 {
                    self.failures.store(0, Ordering::Relaxed);
                }
                Ok(value)
            }
            Err(failure) => {
                // A server that says no to everything is as good as none: it is loading, or follows another one now.
                if self.failures.fetch_add(1, Ordering::Relaxed) + 1 >= FAILURE_LIMIT {
                    self.given_up.notify_one();
                }
                Err(failure)
            }
        }
    }
}

/// A connection over which everything is said that comes before the first command.
struct Begun {
    live: Arc<Live>,
    messages: mpsc::Receiver<Bytes>,
    carrying: Carrying,
}

/// A refusal of the login, in its first word only: a server that does not know `HELLO` repeats the password.
fn without_words(failure: Failure) -> Failure {
    match failure {
        Failure::Refused(why) if why.starts_with("ERR unknown command") => {
            Failure::Refused("ERR unknown command `HELLO`: it is older than Redis 6".to_owned())
        }
        Failure::Refused(why) => {
            let code = why.split(' ').next().unwrap_or_default();
            Failure::Refused(code.chars().filter(char::is_ascii_uppercase).take(32).collect())
        }
        other => other,
    }
}

/// What carries a connection, until it is dropped.
struct Carrying(JoinHandle<()>);

impl Drop for Carrying {
    fn drop(&mut self) {
        self.0.abort();
    }
}

type BeginError = Box<dyn std::error::Error + Send + Sync>;

impl Begun {
    async fn begin(settings: &StoreSettings, channel: &[u8]) -> Result<Self, BeginError> {
        let (connection, messages, carry) = connect(settings).await?;
        let carrying = Carrying(tokio::spawn(carry));
        let mut hello: Vec<&[u8]> = vec![b"HELLO", b"3"];
        if let Some(password) = &settings.password {
            let user = settings.user.as_deref().unwrap_or("default");
            hello.extend([b"AUTH", user.as_bytes(), password.as_bytes()]);
        }
        hello.extend([b"SETNAME".as_slice(), b"glossator"]);
        connection.ask(&hello).await.map_err(without_words)?;
        if settings.database != 0 {
            connection.ask(&[b"SELECT", settings.database.to_string().as_bytes()]).await?;
        }
        let mut scripts = Vec::new();
        for script in scripts::ALL {
            match connection.ask(&[b"SCRIPT", b"LOAD", script.as_bytes()]).await? {
                Value::Bytes(hash) => scripts.push(hash),
                _ => return Err(Failure::Strange.into()),
            }
        }
        connection.subscribe(channel)?;
        let live = Live { connection, scripts, failures: AtomicU32::new(0), given_up: Notify::new() };
        Ok(Self { live: Arc::new(live), messages, carrying })
    }

    /// Hands on what comes, until the connection ends or is given up; and says why.
    async fn carry(&mut self, came: &impl Fn(Came)) -> &'static str {
        loop {
            tokio::select! {
                message = self.messages.recv() => match message {
                    Some(message) => came(Came::Message(message)),
                    None => return "the connection ended",
                },
                () = self.live.given_up.notified() => return "several commands in a row had no good answer",
                _ = &mut self.carrying.0 => return "the connection ended",
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refused_login_does_not_repeat_the_password() {
        for said in [
            "ERR unknown command `HELLO`, with args beginning with: `3`, `AUTH`, `default`, `s3cr3t`, ",
            "WRONGPASS invalid password s3cr3t",
            "s3cr3t",
        ] {
            let told = without_words(Failure::Refused(said.to_owned())).to_string();
            assert!(!told.contains("s3cr3t"), "{told}");
        }
        let told = without_words(Failure::Refused("WRONGPASS invalid".to_owned())).to_string();
        assert_eq!(told, "it answered `WRONGPASS`");
    }
}
