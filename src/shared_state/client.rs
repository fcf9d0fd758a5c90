//! Client of Redis or Valkey: the connection, and the scripts that run in the store.
//!
//! The `redis` crate implements the protocol and follows a Cluster. This module adds the behaviour on
//! failure:
//!
//! - A connection is opened in the background. While there is none, every operation fails at once; the
//!   crate's own manager would make each operation wait for a connection.
//! - A connection on which several operations in a row fail is closed and opened again.
//! - Servers are connected to with our own TLS, which can pin a certificate and check another name. So
//!   Sentinels, which respond with addresses, are queried here, too. Only the nodes of a Cluster are
//!   connected to by the crate.

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
use super::tests::memory::MemoryStore;
use super::{
    StoreCounts, StoreUnreachable,
    address::{StoreAddress, StoreHost, StoreLocation, StoreSettings},
};
use crate::{
    telemetry::ErrorChain,
    tls::{ClientTls, ClientTlsOptions, Trust},
};

/// Timeout for connecting, up to the first response.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(2);
/// Timeout for one Sentinel to name the primary, and for one node of a Cluster to accept a connection: others
/// may be quicker.
const NODE_TIMEOUT: Duration = Duration::from_millis(500);
/// Number of failures in a row after which a connection is closed.
const FAILURE_LIMIT: u32 = 3;
/// Pause before the next attempt to connect: initial and maximum.
const PAUSE: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(2));
/// Limit of the commands that wait to be sent; further ones wait for space.
const QUEUE_LIMIT: usize = 4096;
/// Limit of the messages that wait to be read; beyond it, the connection is closed, as some would be lost.
const PUSH_LIMIT: usize = 1024;
/// Number of attempts to send a command to another node of a Cluster, after its key has moved or a node has
/// failed over.
const CLUSTER_RETRIES: u32 = 3;

/// Moves a point in time ahead, in microseconds, by the clock of the store. Returns the time to wait, or 0. A
/// point that is further ahead than calls can have moved it is not ours, or the clock was set back.
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

/// Returns a value up to a number of bytes, and its remaining lifetime in milliseconds. Others may have
/// written a longer value, or one of another type.
pub(super) static GET: LazyLock<Script> = LazyLock::new(|| {
    Script::new(
        "
local found = redis.pcall('GETRANGE', KEYS[1], 0, ARGV[1])
if type(found) ~= 'string' then return {'', -2} end
return {found, redis.call('PTTL', KEYS[1])}
",
    )
});

/// Adds a member to a group if the limit allows it, and sets the lifetime of the group in milliseconds.
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
    /// Whether there is a connection.
    pub is_up: bool,
    /// Since when there is one, or none.
    pub since: SystemTime,
}

/// Events on the channel of the replicas.
pub(super) enum ChannelEvent {
    /// A message of a replica.
    Message(Vec<u8>),
    /// The channel is subscribed from now on; messages that were published before may be lost.
    Subscribed,
}

/// Client of the store, with or without a connection.
pub(super) struct StoreClient {
    pub(super) settings: StoreSettings,
    pub(super) counts: StoreCounts,
    connected: ArcSwapOption<ActiveConnection>,
    state: watch::Sender<StoreState>,
}

/// An open connection.
struct ActiveConnection {
    connection: Connection,
    failures: AtomicU32,
    /// Receives the reason for closing the connection.
    give_up: mpsc::Sender<&'static str>,
}

#[derive(Debug, thiserror::Error)]
enum Failure {
    #[error("no connection")]
    NotConnected,
    #[error("no response within {0:?}")]
    Timeout(Duration),
    #[error(transparent)]
    Redis(#[from] RedisError),
}

impl StoreClient {
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

    /// Completes when there is a connection.
    pub(super) async fn up(&self) {
        // The sender belongs to `self`, so this can't fail.
        let _ = self.state.subscribe().wait_for(|state| state.is_up).await;
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

    /// Runs a command without waiting. Requires a runtime.
    pub(super) fn post(self: &Arc<Self>, command: Cmd, permit: OwnedSemaphorePermit) {
        let client = Arc::clone(self);
        let mut running = Box::pin(async move {
            // A failure has been counted.
            let _ = client.run::<()>(&command).await;
            drop(permit);
        });
        // The first poll puts the command into the connection's queue, so that the order of commands is kept.
        if running.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending() {
            tokio::spawn(running);
        }
    }

    async fn attempt<T>(
        &self,
        operation: impl AsyncFnOnce(Connection) -> RedisResult<T>,
    ) -> Result<T, StoreUnreachable> {
        self.counts.requests.fetch_add(1, Ordering::Relaxed);
        let result = match self.connected.load_full() {
            None => Err(Failure::NotConnected),
            Some(connected) => {
                let timeout_after = self.settings.timeout;
                let result = match timeout(timeout_after, operation(connected.connection.clone())).await {
                    Ok(result) => result.map_err(Failure::Redis),
                    Err(_) => Err(Failure::Timeout(timeout_after)),
                };
                connected.record(result.as_ref().err());
                result
            }
        };
        result.map_err(|failure| {
            self.counts.failed.fetch_add(1, Ordering::Relaxed);
            // The loss of the connection is logged once, by `keep_connected`.
            debug!(error = %ErrorChain(&failure), "shared state operation failed");
            StoreUnreachable
        })
    }

    /// Keeps a connection open, and reconnects whenever it is lost.
    pub(super) async fn keep_connected(&self, received: impl Fn(ChannelEvent)) {
        let address = &self.settings.address;
        let (mut pause, mut is_logged) = (PAUSE.0, false);
        loop {
            match OpenConnection::open(&self.settings, &self.channel()).await {
                Ok(opened) => {
                    info!(%address, "shared state connected");
                    is_logged = false;
                    let since = Instant::now();
                    let reason = self.carry(opened, &received).await;
                    warn!(%address, reason, "shared state connection lost");
                    // Without a reset, if a server accepts connections that fail again and again.
                    if since.elapsed() > PAUSE.1 {
                        pause = PAUSE.0;
                    }
                }
                Err(error) => {
                    // Logged once per outage: further attempts fail for the same reason.
                    if !std::mem::replace(&mut is_logged, true) {
                        warn!(%address, error, "shared state unreachable, retrying");
                    }
                }
            }
            sleep(pause).await;
            pause = (pause * 2).min(PAUSE.1);
        }
    }

    /// Uses a connection for operations until it ends or is closed. Returns the reason.
    async fn carry(&self, opened: OpenConnection, received: &impl Fn(ChannelEvent)) -> &'static str {
        let OpenConnection { connection, give_up, mut given_up, mut pushes, driver: _driver } = opened;
        let connected = Arc::new(ActiveConnection { connection, failures: AtomicU32::new(0), give_up });
        self.set_connected(Some(Arc::clone(&connected)));
        let reason = loop {
            tokio::select! {
                push = pushes.recv() => match push {
                    None => break "the connection ended",
                    Some(PushInfo { kind: PushKind::Subscribe, .. }) => received(ChannelEvent::Subscribed),
                    Some(PushInfo { kind: PushKind::Message, data }) => {
                        // The channel is the first element.
                        if let [_, Value::BulkString(message)] = data.as_slice() {
                            received(ChannelEvent::Message(message.clone()));
                        }
                    }
                    // From one node of a Cluster; if all of them fail, there are several failures in a row.
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

    fn set_connected(&self, connected: Option<Arc<ActiveConnection>>) {
        let is_up = connected.is_some();
        self.connected.store(connected);
        self.state.send_replace(StoreState { is_up, since: SystemTime::now() });
    }

    /// Connects to a store in memory, or disconnects.
    #[cfg(test)]
    pub(super) fn connect_to(&self, memory: Option<MemoryStore>) {
        self.set_connected(memory.map(|memory| {
            let connection = Connection::Memory(memory);
            Arc::new(ActiveConnection {
                connection,
                failures: AtomicU32::new(0),
                give_up: mpsc::channel(1).0,
            })
        }));
    }
}

impl ActiveConnection {
    /// Counts failures in a row; too many close the connection.
    fn record(&self, failure: Option<&Failure>) {
        let Some(failure) = failure else {
            // Rarely other than zero, so most operations write nothing.
            if self.failures.load(Ordering::Relaxed) > 0 {
                self.failures.store(0, Ordering::Relaxed);
            }
            return;
        };
        // A server that rejects everything is of no use. A former primary still responds to reads, so that
        // one rejected write is enough.
        let read_only = ErrorKind::Server(ServerErrorKind::ReadOnly);
        let is_replica = matches!(failure, Failure::Redis(error) if error.kind() == read_only);
        if self.failures.fetch_add(1, Ordering::Relaxed) + 1 >= FAILURE_LIMIT || is_replica {
            // A full channel means that the connection is being closed already.
            let _ = self.give_up.try_send("several operations in a row failed");
        }
    }
}

/// A connection after login, subscription to the channel, and one script.
pub(super) struct OpenConnection {
    connection: Connection,
    give_up: mpsc::Sender<&'static str>,
    given_up: mpsc::Receiver<&'static str>,
    pushes: mpsc::Receiver<PushInfo>,
    /// The task that drives the connection; it ends with this.
    driver: JoinSet<()>,
}

impl OpenConnection {
    /// Opens a connection.
    ///
    /// # Errors
    ///
    /// The reason for the failure, as text for the log.
    pub(super) async fn open(settings: &StoreSettings, channel: &str) -> Result<Self, String> {
        let primary;
        let server = match &settings.address.place {
            StoreLocation::Sentinels { sentinels, primary: name } => {
                primary = find_primary(settings, sentinels, name).await?;
                Some(&primary)
            }
            StoreLocation::Server(host) => Some(host),
            StoreLocation::Socket(_) | StoreLocation::Cluster(_) => None,
        };
        timeout(CONNECT_TIMEOUT, Self::open_at(settings, server, channel))
            .await
            .unwrap_or_else(|_| Err(format!("no response within {CONNECT_TIMEOUT:?}")))
    }

    async fn open_at(
        settings: &StoreSettings,
        server: Option<&StoreHost>,
        channel: &str,
    ) -> Result<Self, String> {
        let (give_up, given_up) = mpsc::channel(1);
        let (pushed, pushes) = mpsc::channel(PUSH_LIMIT);
        let full = give_up.clone();
        let push = move |info| {
            pushed.try_send(info).inspect_err(|_| {
                let _ = full.try_send("messages arrived faster than they were read");
            })
        };
        let mut driver = JoinSet::new();
        let opening = async {
            let mut connection = match &settings.address.place {
                StoreLocation::Cluster(nodes) => {
                    let mut connection = cluster(settings, nodes, push)?.get_async_connection().await?;
                    connection.subscribe(channel).await?;
                    Connection::Cluster(connection)
                }
                StoreLocation::Server(_) | StoreLocation::Socket(_) | StoreLocation::Sentinels { .. } => {
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
            // A store may accept connections while it is loading, or has lost some of its nodes.
            let probe = format!("{}:probe", settings.prefix);
            GET.key(probe).arg(0).invoke_async::<Value>(&mut connection).await?;
            Ok(connection)
        };
        let connection = opening.await.map_err(|error: RedisError| describe_error(&error, settings))?;
        Ok(Self { connection, give_up, given_up, pushes, driver })
    }
}

type Stream = Box<dyn AsyncStream + Send + Unpin>;

async fn stream(host: &StoreHost, tls: Option<&ClientTls>) -> io::Result<Stream> {
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
        StoreLocation::Socket(path) => Ok(Box::new(tokio::net::UnixStream::connect(path).await?)),
        _ => Err(io::ErrorKind::Unsupported.into()),
    }
}

/// The login. Without a password there is none; without a user it is the default user.
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

/// The current primary, according to the first Sentinel that knows it.
async fn find_primary(
    settings: &StoreSettings,
    sentinels: &[StoreHost],
    name: &str,
) -> Result<StoreHost, String> {
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
                return Ok(StoreHost { name: name.into(), port });
            }
            Ok(Ok(None)) => format!("Sentinel {sentinel} does not know the primary `{name}`"),
            Ok(Err(error)) => describe_error(&error, settings),
            Err(_) => format!("no response of Sentinel {sentinel} within {NODE_TIMEOUT:?}"),
        };
    }
    Err(last)
}

fn cluster(
    settings: &StoreSettings,
    nodes: &[StoreHost],
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
            Trust::Cas(pem) => Some(pem.clone()),
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
fn describe_error(error: &RedisError, settings: &StoreSettings) -> String {
    let text = error.to_string();
    // A server that does not know `HELLO` repeats its arguments, and may truncate them.
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
    Memory(MemoryStore),
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
