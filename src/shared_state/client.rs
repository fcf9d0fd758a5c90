//! The connection to Redis or Valkey, and the scripts that run there.
//!
//! The `redis` crate speaks the protocol and follows a Cluster. Around it stands how the store fails: a
//! connection is made in the background, and while there is none every operation fails at once; one on which
//! several operations in a row fail is closed and made anew. The crate's own manager would have each
//! operation wait for a connection. Servers are connected to by our own TLS, which can pin a certificate and
//! check another name; so Sentinels, which answer with addresses, are asked here with two words, too. Only
//! the nodes of a Cluster are connected to by the crate.

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
    AsyncConnectionConfig, Cmd, ConnectionAddr, ErrorKind, FromRedisValue, IntoConnectionInfo,
    ProtocolVersion, PushInfo, PushKind, RedisConnectionInfo, RedisError, RedisFuture, RedisResult, Script,
    ScriptInvocation, ServerErrorKind, Value,
    aio::{AsyncStream, ConnectionLike, MultiplexedConnection},
    cluster::ClusterClient,
    cluster_async::ClusterConnection,
};
use tokio::{
    net::TcpStream,
    sync::{OwnedSemaphorePermit, mpsc, watch},
    task::JoinSet,
    time::{Instant, sleep, timeout},
};
use tracing::{debug, info, warn};

#[cfg(test)]
use super::tests::memory::Memory;
use super::{
    StoreCounts, Unreachable,
    address::{Host, Place, StoreAddress, StoreSettings},
};
use crate::{
    telemetry::Chain,
    tls::{ClientTls, ClientTlsOptions, Trust},
};

/// How long connecting may take, up to the first response.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(2);
/// How long one Sentinel may take to name the primary, and one node of a Cluster to let us in: others may be
/// quicker.
const NODE_TIMEOUT: Duration = Duration::from_millis(500);
/// After how many failures in a row a connection is given up.
const FAILURE_LIMIT: u32 = 3;
/// How long to wait before the next attempt to connect, at first and at most.
const PAUSE: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(2));
/// How many commands may wait to be sent; more wait for room.
const QUEUE_LIMIT: usize = 4096;
/// How many messages may wait to be read; with more the connection is given up, as some would be lost.
const PUSH_LIMIT: usize = 1024;
/// How often a command is sent again to another node of a Cluster, which it moved to or which took over.
const CLUSTER_RETRIES: u32 = 3;

/// Moves a point in time ahead, in microseconds, by the clock of the store; returns how long to wait, or 0. A
/// point that is further ahead than calls can have moved it is none of ours, or the clock was set back.
pub(super) static TAKE: LazyLock<Script> = LazyLock::new(|| {
    Script::new(
        "
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
local gap, slack = tonumber(ARGV[1]), tonumber(ARGV[2])
local found = redis.pcall('GET', KEYS[1])
local point = type(found) == 'string' and tonumber(found) or 0
local ahead = point - now
if not (ahead > 0 and ahead <= slack + gap) then ahead = 0 end
if ahead > slack then return ahead - slack end
redis.call('SET', KEYS[1], string.format('%.0f', now + ahead + gap), 'PX', math.ceil((ahead + gap) / 1000) + 1)
return 0
",
    )
});

/// A value up to a number of bytes, and for how many milliseconds it is there yet; somebody else may have
/// written it, and a longer one, or something of another type.
pub(super) static GET: LazyLock<Script> = LazyLock::new(|| {
    Script::new(
        "
local found = redis.pcall('GETRANGE', KEYS[1], 0, ARGV[1])
if type(found) ~= 'string' then return {'', -2} end
return {found, redis.call('PTTL', KEYS[1])}
",
    )
});

/// Adds a member to a group that has less than so many, and keeps the group for so many milliseconds.
pub(super) static ADD: LazyLock<Script> = LazyLock::new(|| {
    Script::new(
        "
local count = redis.pcall('HLEN', KEYS[1])
if type(count) ~= 'number' then redis.call('DEL', KEYS[1]) count = 0 end
if count >= tonumber(ARGV[3]) and redis.call('HEXISTS', KEYS[1], ARGV[1]) == 0 then return 0 end
redis.call('HSET', KEYS[1], ARGV[1], ARGV[2])
redis.call('PEXPIRE', KEYS[1], ARGV[4])
return 1
",
    )
});

/// Whether there is a connection, and since when that is so.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StoreState {
    /// Whether there is one.
    pub is_up: bool,
    /// Since when it is there, or not.
    pub since: SystemTime,
}

/// What arrives on the channel of the replicas.
pub(super) enum Received {
    /// A message of a replica.
    Message(Vec<u8>),
    /// The channel is subscribed to from now on; what was published before may be lost.
    Subscribed,
}

/// The way to the store, with or without a connection.
pub(super) struct Client {
    pub(super) settings: StoreSettings,
    pub(super) counts: StoreCounts,
    connected: ArcSwapOption<Connected>,
    state: watch::Sender<StoreState>,
}

/// A connection that is there.
struct Connected {
    connection: Connection,
    failures: AtomicU32,
    /// Takes why the connection is given up.
    give_up: mpsc::Sender<&'static str>,
}

#[derive(Debug, thiserror::Error)]
enum Failure {
    #[error("there is no connection")]
    NotConnected,
    #[error("no response within {0:?}")]
    Timeout(Duration),
    #[error(transparent)]
    Redis(#[from] RedisError),
}

impl Client {
    pub(super) fn new(settings: StoreSettings) -> Self {
        let state = StoreState { is_up: false, since: SystemTime::now() };
        Self {
            settings,
            counts: StoreCounts::default(),
            connected: ArcSwapOption::empty(),
            state: watch::Sender::new(state),
        }
    }

    pub(super) fn state(&self) -> StoreState {
        *self.state.borrow()
    }

    /// Ready when there is a connection.
    pub(super) async fn up(&self) {
        // The sender is ours, so it is there as long as we are.
        let _ = self.state.subscribe().wait_for(|state| state.is_up).await;
    }

    /// The channel on which replicas publish.
    pub(super) fn channel(&self) -> String {
        format!("{}:notifications", self.settings.prefix)
    }

    /// Runs a command.
    pub(super) async fn run<T: FromRedisValue>(&self, command: &Cmd) -> Result<T, Unreachable> {
        self.attempt(async |mut connection| command.query_async(&mut connection).await).await
    }

    /// Runs a script.
    pub(super) async fn run_script<T: FromRedisValue>(
        &self,
        script: &ScriptInvocation<'_>,
    ) -> Result<T, Unreachable> {
        self.attempt(async |mut connection| script.invoke_async(&mut connection).await).await
    }

    /// Runs a command that nobody waits for. Needs a runtime.
    pub(super) fn post(self: &Arc<Self>, command: Cmd, permit: OwnedSemaphorePermit) {
        let client = Arc::clone(self);
        let mut running = Box::pin(async move {
            // A failure has been counted.
            let _ = client.run::<()>(&command).await;
            drop(permit);
        });
        // The first poll puts the command in the connection's queue: what is posted first is sent first.
        if running.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending() {
            tokio::spawn(running);
        }
    }

    async fn attempt<T>(
        &self,
        operation: impl AsyncFnOnce(Connection) -> RedisResult<T>,
    ) -> Result<T, Unreachable> {
        self.counts.asked.fetch_add(1, Ordering::Relaxed);
        let result = match self.connected.load_full() {
            None => Err(Failure::NotConnected),
            Some(connected) => {
                let patience = self.settings.timeout;
                let result = match timeout(patience, operation(connected.connection.clone())).await {
                    Ok(result) => result.map_err(Failure::Redis),
                    Err(_) => Err(Failure::Timeout(patience)),
                };
                connected.record(result.as_ref().err());
                result
            }
        };
        result.map_err(|failure| {
            self.counts.failed.fetch_add(1, Ordering::Relaxed);
            // That the connection is lost is logged once, by what keeps it.
            debug!(error = %Chain(&failure), "shared state operation failed");
            Unreachable
        })
    }

    /// Keeps a connection as long as there can be one.
    pub(super) async fn keep_connected(&self, received: impl Fn(Received)) {
        let address = &self.settings.address;
        let (mut pause, mut is_logged) = (PAUSE.0, false);
        loop {
            match Opened::open(&self.settings, &self.channel()).await {
                Ok(opened) => {
                    info!(%address, "shared state connected");
                    is_logged = false;
                    let since = Instant::now();
                    let reason = self.carry(opened, &received).await;
                    warn!(%address, reason, "shared state connection lost");
                    // One that lets us in and is of no use again and again is as good as none.
                    if since.elapsed() > PAUSE.1 {
                        pause = PAUSE.0;
                    }
                }
                Err(error) => {
                    // Once for a series: the next attempt says the same.
                    if !std::mem::replace(&mut is_logged, true) {
                        warn!(%address, error, "shared state unreachable, retrying");
                    }
                }
            }
            sleep(pause).await;
            pause = (pause * 2).min(PAUSE.1);
        }
    }

    /// Lets operations use a connection until it ends or is given up; says why.
    async fn carry(&self, opened: Opened, received: &impl Fn(Received)) -> &'static str {
        let Opened { connection, give_up, mut given_up, mut pushes, driver: _driver } = opened;
        let connected = Arc::new(Connected { connection, failures: AtomicU32::new(0), give_up });
        self.set_connected(Some(Arc::clone(&connected)));
        let reason = loop {
            tokio::select! {
                push = pushes.recv() => match push {
                    None => break "the connection ended",
                    Some(PushInfo { kind: PushKind::Subscribe, .. }) => received(Received::Subscribed),
                    Some(PushInfo { kind: PushKind::Message, data }) => {
                        // The channel stands before it.
                        if let [_, Value::BulkString(message)] = data.as_slice() {
                            received(Received::Message(message.clone()));
                        }
                    }
                    // Of one node of a Cluster; when all of them go, these are several failures in a row.
                    Some(PushInfo { kind: PushKind::Disconnection, .. }) => {
                        connected.record(Some(&Failure::NotConnected));
                    }
                    Some(_) => {}
                },
                reason = given_up.recv() => break reason.expect("a sender is in `connected`"),
            }
        };
        self.set_connected(None);
        reason
    }

    fn set_connected(&self, connected: Option<Arc<Connected>>) {
        let is_up = connected.is_some();
        self.connected.store(connected);
        self.state.send_replace(StoreState { is_up, since: SystemTime::now() });
    }

    /// Connects to a store in memory, or disconnects.
    #[cfg(test)]
    pub(super) fn connect_to(&self, memory: Option<Memory>) {
        self.set_connected(memory.map(|memory| {
            let connection = Connection::Memory(memory);
            Arc::new(Connected { connection, failures: AtomicU32::new(0), give_up: mpsc::channel(1).0 })
        }));
    }
}

impl Connected {
    /// Counts failures in a row; with too many the connection is given up.
    fn record(&self, failure: Option<&Failure>) {
        let Some(failure) = failure else {
            // Seldom anything else than zero, and then nobody has to write it.
            if self.failures.load(Ordering::Relaxed) > 0 {
                self.failures.store(0, Ordering::Relaxed);
            }
            return;
        };
        // A server that says no to everything is as good as none. One that is not the primary any more goes
        // on to answer what only reads, so that one no is enough.
        let read_only = ErrorKind::Server(ServerErrorKind::ReadOnly);
        let is_replica = matches!(failure, Failure::Redis(error) if error.kind() == read_only);
        if self.failures.fetch_add(1, Ordering::Relaxed) + 1 >= FAILURE_LIMIT || is_replica {
            // Where it is full, it is being given up.
            let _ = self.give_up.try_send("several operations in a row had no good response");
        }
    }
}

/// A connection that has logged in, listens to the channel, and has run a script.
pub(super) struct Opened {
    connection: Connection,
    give_up: mpsc::Sender<&'static str>,
    given_up: mpsc::Receiver<&'static str>,
    pushes: mpsc::Receiver<PushInfo>,
    /// Carries the connection; ends with this.
    driver: JoinSet<()>,
}

impl Opened {
    /// Opens one.
    ///
    /// # Errors
    ///
    /// What went wrong, in words for the log.
    pub(super) async fn open(settings: &StoreSettings, channel: &str) -> Result<Self, String> {
        let primary;
        let server = match &settings.address.place {
            Place::Sentinels { sentinels, primary: name } => {
                primary = primary_by(settings, sentinels, name).await?;
                Some(&primary)
            }
            Place::Server(host) => Some(host),
            Place::Socket(_) | Place::Cluster(_) => None,
        };
        timeout(CONNECT_TIMEOUT, Self::open_at(settings, server, channel))
            .await
            .unwrap_or_else(|_| Err(format!("no response within {CONNECT_TIMEOUT:?}")))
    }

    async fn open_at(settings: &StoreSettings, server: Option<&Host>, channel: &str) -> Result<Self, String> {
        let (give_up, given_up) = mpsc::channel(1);
        let (pushed, pushes) = mpsc::channel(PUSH_LIMIT);
        let full = give_up.clone();
        let push = move |info| {
            pushed.try_send(info).inspect_err(|_| {
                let _ = full.try_send("messages came faster than they were read");
            })
        };
        let mut driver = JoinSet::new();
        let opening = async {
            let mut connection = match &settings.address.place {
                Place::Cluster(nodes) => {
                    let mut connection = cluster(settings, nodes, push)?.get_async_connection().await?;
                    connection.subscribe(channel).await?;
                    Connection::Cluster(connection)
                }
                Place::Server(_) | Place::Socket(_) | Place::Sentinels { .. } => {
                    let stream = match server {
                        Some(host) => stream(host, settings.tls.as_ref()).await?,
                        None => socket(&settings.address).await?,
                    };
                    let config = AsyncConnectionConfig::new()
                        .set_push_sender(push)
                        .set_response_timeout(None)
                        .set_pipeline_buffer_size(QUEUE_LIMIT);
                    let login =
                        login(&settings.user, &settings.password).set_db(settings.selected_database().into());
                    let (mut connection, driving) =
                        MultiplexedConnection::new_with_config(&login, stream, config).await?;
                    driver.spawn(driving);
                    connection.subscribe(channel).await?;
                    Connection::Server(connection)
                }
            };
            // A store may let us in that is loading, or has lost some of its nodes.
            let probe = format!("{}:probe", settings.prefix);
            GET.key(probe).arg(0).invoke_async::<Value>(&mut connection).await?;
            Ok(connection)
        };
        let connection = opening.await.map_err(|error: RedisError| refused(&error, settings))?;
        Ok(Self { connection, give_up, given_up, pushes, driver })
    }
}

type Stream = Box<dyn AsyncStream + Send + Unpin>;

async fn stream(host: &Host, tls: Option<&ClientTls>) -> io::Result<Stream> {
    let stream = TcpStream::connect((&*host.name, host.port)).await?;
    stream.set_nodelay(true)?;
    Ok(match tls {
        None => Box::new(stream),
        Some(tls) => Box::new(tls.connect(&host.name, stream).await?),
    })
}

async fn socket(address: &StoreAddress) -> io::Result<Stream> {
    match &address.place {
        #[cfg(unix)]
        Place::Socket(path) => Ok(Box::new(tokio::net::UnixStream::connect(path).await?)),
        _ => Err(io::ErrorKind::Unsupported.into()),
    }
}

/// Without a password there is no login, without a user it is the default one.
fn login(user: &Option<String>, password: &Option<String>) -> RedisConnectionInfo {
    let mut info = RedisConnectionInfo::default()
        .set_protocol(ProtocolVersion::RESP3)
        .set_lib_name("glossator", env!("CARGO_PKG_VERSION"));
    if let Some(password) = password {
        info = info.set_password(password);
    }
    if let Some(user) = user {
        info = info.set_username(user);
    }
    info
}

/// The server that is the primary now, by the first Sentinel that says so.
async fn primary_by(settings: &StoreSettings, sentinels: &[Host], name: &str) -> Result<Host, String> {
    let mut last = String::new();
    for sentinel in sentinels {
        let ask = async {
            let stream = stream(sentinel, settings.tls.as_ref()).await?;
            let login = login(&settings.sentinel_user, &settings.sentinel_password);
            let config = AsyncConnectionConfig::new();
            let (mut connection, driving) =
                MultiplexedConnection::new_with_config(&login, stream, config).await?;
            let mut driver = JoinSet::new();
            driver.spawn(driving);
            let mut command = redis::cmd("SENTINEL");
            command.arg("get-master-addr-by-name").arg(name).query_async(&mut connection).await
        };
        last = match timeout(NODE_TIMEOUT, ask).await {
            Ok(Ok(Some((name, port)))) => {
                let name: String = name;
                return Ok(Host { name: name.into(), port });
            }
            Ok(Ok(None)) => format!("Sentinel {sentinel} does not know the primary `{name}`"),
            Ok(Err(error)) => refused(&error, settings),
            Err(_) => format!("no response of Sentinel {sentinel} within {NODE_TIMEOUT:?}"),
        };
    }
    Err(last)
}

fn cluster(
    settings: &StoreSettings,
    nodes: &[Host],
    push: impl Fn(PushInfo) -> Result<(), mpsc::error::TrySendError<PushInfo>> + Send + Sync + 'static,
) -> RedisResult<ClusterClient> {
    let nodes = nodes.iter().map(|node| {
        let (host, port) = (node.name.to_string(), node.port);
        let address = match settings.tls {
            None => ConnectionAddr::Tcp(host, port),
            Some(_) => ConnectionAddr::TcpTls { host, port, insecure: false, tls_params: None },
        };
        Ok(address.into_connection_info()?.set_redis_settings(login(&settings.user, &settings.password)))
    });
    let mut builder = ClusterClient::builder(nodes.collect::<RedisResult<Vec<_>>>()?)
        .push_sender(push)
        .connection_timeout(NODE_TIMEOUT)
        .response_timeout(settings.timeout)
        .retries(CLUSTER_RETRIES);
    if let Some(tls) = &settings.tls {
        let ClientTlsOptions { trust, identity, .. } = tls.options();
        let root_cert = match trust {
            Trust::Roots(pem) => Some(pem.clone()),
            Trust::System | Trust::Pinned(_) => None,
        };
        builder = builder.certs(redis::TlsCertificates {
            root_cert,
            client_tls: identity.as_ref().map(|identity| redis::ClientTlsConfig {
                client_cert: identity.certificates.clone(),
                client_key: identity.key.clone(),
            }),
        });
    }
    builder.build()
}

/// Why connecting failed, without the password, which a server may repeat.
fn refused(error: &RedisError, settings: &StoreSettings) -> String {
    let text = error.to_string();
    // One that does not know `HELLO` repeats what came with it, and may cut it short.
    let is_old = error.kind() == ErrorKind::RESP3NotSupported || text.contains("args beginning with");
    if is_old {
        return "`HELLO` is an unknown command: the server is older than Redis 6".to_owned();
    }
    let passwords = [&settings.password, &settings.sentinel_password];
    let passwords = passwords.into_iter().flatten().filter(|password| !password.is_empty());
    passwords.fold(text, |text, password| text.replace(password.as_str(), "…"))
}

/// A connection to any kind of store.
#[derive(Clone)]
enum Connection {
    Server(MultiplexedConnection),
    Cluster(ClusterConnection),
    #[cfg(test)]
    Memory(Memory),
}

impl ConnectionLike for Connection {
    fn req_packed_command<'a>(&'a mut self, command: &'a Cmd) -> RedisFuture<'a, Value> {
        match self {
            Self::Server(connection) => connection.req_packed_command(command),
            Self::Cluster(connection) => connection.req_packed_command(command),
            #[cfg(test)]
            Self::Memory(memory) => memory.request(command),
        }
    }

    fn req_packed_commands<'a>(
        &'a mut self,
        commands: &'a redis::Pipeline,
        offset: usize,
        count: usize,
    ) -> RedisFuture<'a, Vec<Value>> {
        match self {
            Self::Server(connection) => connection.req_packed_commands(commands, offset, count),
            Self::Cluster(connection) => connection.req_packed_commands(commands, offset, count),
            #[cfg(test)]
            Self::Memory(_) => unreachable!("nothing is sent in a pipeline"),
        }
    }

    fn get_db(&self) -> i64 {
        match self {
            Self::Server(connection) => connection.get_db(),
            Self::Cluster(connection) => connection.get_db(),
            #[cfg(test)]
            Self::Memory(_) => 0,
        }
    }
}
