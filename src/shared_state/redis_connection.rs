//! Connections to Redis or Valkey: to one server, to the primary that Sentinels name, and to a Cluster.
//!
//! This module connects to servers with glossator's own TLS, which can pin a certificate and check another
//! server name. The `redis` crate connects only to the nodes of a Cluster.

use std::{io, time::Duration};

use redis::{
    AsyncConnectionConfig, Cmd, ConnectionAddr, ErrorKind, IntoConnectionInfo, ProtocolVersion, PushInfo,
    RedisConnectionInfo, RedisError, RedisFuture, RedisResult, Value,
    aio::{AsyncStream, ConnectionLike, MultiplexedConnection},
    cluster::ClusterClient,
    cluster_async::ClusterConnection,
};
use tokio::{
    net::{TcpStream, UnixStream},
    sync::mpsc,
    task::JoinSet,
    time::timeout,
};

use super::address::{StoreHost, StoreLocation, StoreSettings};
use super::connection_manager::GET;
use super::sentinel::find_primary;
#[cfg(test)]
use super::tests::memory::MemoryStore;
use crate::tls::{ClientTls, Pem};

/// Timeout for opening a connection, from the DNS lookup to the response to the test script, without the
/// search for the primary by Sentinels.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(2);
/// Timeout for one Sentinel to name the primary, and for one node of a Cluster to accept a connection. It is
/// short, because another Sentinel or node may respond sooner.
pub(super) const NODE_TIMEOUT: Duration = Duration::from_millis(500);
/// Maximum number of commands in the send queue; further commands wait for a slot.
const QUEUE_LIMIT: usize = 4096;
/// Maximum number of unread pushed messages. Beyond it the connection is closed, because messages would be
/// lost.
const PUSH_LIMIT: usize = 1024;
/// Maximum number of retries of a command in a Cluster, after its key has moved or a node has failed over.
const CLUSTER_RETRIES: u32 = 3;

/// A connection that is ready for use: after login, subscription to the channel, and a successful test
/// script.
pub(super) struct OpenConnection {
    pub(super) connection: StoreConnection,
    pub(super) close_sender: mpsc::Sender<&'static str>,
    pub(super) close_receiver: mpsc::Receiver<&'static str>,
    pub(super) pushes: mpsc::Receiver<PushInfo>,
    /// The task that drives the connection. It ends when this struct is dropped.
    pub(super) driver: JoinSet<()>,
}

impl OpenConnection {
    /// Opens a connection.
    ///
    /// # Errors
    ///
    /// The reason for the failure, for the log.
    pub(super) async fn open(settings: &StoreSettings, channel: &str) -> Result<Self, String> {
        let primary_location;
        let location = match &settings.address.location {
            StoreLocation::Sentinels { sentinels, primary } => {
                primary_location = StoreLocation::Server(find_primary(settings, sentinels, primary).await?);
                &primary_location
            }
            location => location,
        };
        let (close_sender, close_receiver) = mpsc::channel(1);
        let (push_sender, pushes) = mpsc::channel(PUSH_LIMIT);
        let overflow_sender = close_sender.clone();
        let push = move |info| {
            push_sender.try_send(info).inspect_err(|_| {
                let _ = overflow_sender.try_send("messages arrived faster than they were read");
            })
        };
        let mut driver = JoinSet::new();
        let opening = async {
            let mut connection = if let StoreLocation::Cluster(nodes) = location {
                let mut connection = cluster(settings, nodes, push)?.get_async_connection().await?;
                connection.subscribe(channel).await?;
                StoreConnection::Cluster(connection)
            } else {
                let stream: RedisStream = match location {
                    StoreLocation::Server(host) => stream(host, settings.tls.as_ref()).await?,
                    StoreLocation::Socket(path) => Box::new(UnixStream::connect(path).await?),
                    StoreLocation::Sentinels { .. } | StoreLocation::Cluster(_) => {
                        unreachable!("the primary was found above, and a cluster has its own branch")
                    }
                };
                let config = AsyncConnectionConfig::new()
                    .set_push_sender(push)
                    .set_response_timeout(None)
                    .set_pipeline_buffer_size(QUEUE_LIMIT);
                let login =
                    connection_info(&settings.user, &settings.password).set_db(settings.selected_database());
                let (mut connection, driver_future) =
                    MultiplexedConnection::new_with_config(&login, stream, config).await?;
                driver.spawn(driver_future);
                connection.subscribe(channel).await?;
                StoreConnection::Server(connection)
            };
            // Run a script as a test: a store may accept connections while it is still loading, or after it
            // has lost some of its nodes.
            let probe = format!("{}:probe", settings.prefix);
            GET.key(probe).arg(0).invoke_async::<Value>(&mut connection).await?;
            Ok(connection)
        };
        let opened = timeout(CONNECT_TIMEOUT, opening).await;
        let opened = opened.map_err(|_| format!("no response within {CONNECT_TIMEOUT:?}"))?;
        let connection = opened.map_err(|error: RedisError| describe_error(&error, settings))?;
        Ok(Self { connection, close_sender, close_receiver, pushes, driver })
    }
}

type RedisStream = Box<dyn AsyncStream + Send + Unpin>;

pub(super) async fn stream(host: &StoreHost, tls: Option<&ClientTls>) -> io::Result<RedisStream> {
    let stream = TcpStream::connect((&*host.name, host.port)).await?;
    stream.set_nodelay(true)?;
    Ok(match tls {
        None => Box::new(stream),
        Some(tls) => Box::new(tls.connect(&host.name, stream).await?),
    })
}

/// Protocol and login of a connection. Without a password there is no login; without a user name, the default
/// user logs in.
pub(super) fn connection_info(user: &Option<String>, password: &Option<String>) -> RedisConnectionInfo {
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
        Ok(address
            .into_connection_info()?
            .set_redis_settings(connection_info(&settings.user, &settings.password)))
    });
    let mut builder = ClusterClient::builder(nodes.collect::<RedisResult<Vec<_>>>()?)
        .push_sender(push)
        .connection_timeout(NODE_TIMEOUT)
        .response_timeout(settings.timeout)
        .retries(CLUSTER_RETRIES);
    if let Some(tls) = &settings.tls {
        let options = &tls.options;
        let pem = |part: &Option<Pem>| part.clone().map(|Pem(pem)| pem);
        let identity = pem(&options.certificate).zip(pem(&options.key));
        builder = builder.certs(redis::TlsCertificates {
            root_cert: pem(&options.ca),
            client_tls: identity
                .map(|(client_cert, client_key)| redis::ClientTlsConfig { client_cert, client_key }),
        });
    }
    builder.build()
}

/// Describes why connecting failed, without the passwords, which a server may repeat in its error message.
pub(super) fn describe_error(error: &RedisError, settings: &StoreSettings) -> String {
    let message = error.to_string();
    // A server that does not know `HELLO` repeats the arguments of the command, and may truncate them.
    let is_unknown = message.contains("HELLO") && message.contains("args beginning with");
    if is_unknown || error.kind() == ErrorKind::RESP3NotSupported {
        return "`HELLO` is an unknown command: the server is older than Redis 6".to_owned();
    }
    let passwords = [&settings.password, &settings.sentinel_password];
    let passwords = passwords.into_iter().flatten().filter(|password| !password.is_empty());
    passwords.fold(message, |message, password| message.replace(password.as_str(), "…"))
}

/// A connection to any kind of store.
#[derive(Clone)]
pub(super) enum StoreConnection {
    Server(MultiplexedConnection),
    Cluster(ClusterConnection),
    #[cfg(test)]
    Memory(MemoryStore),
}

impl ConnectionLike for StoreConnection {
    fn req_packed_command<'a>(&'a mut self, command: &'a Cmd) -> RedisFuture<'a, Value> {
        match self {
            Self::Server(connection) => connection.req_packed_command(command),
            Self::Cluster(connection) => connection.req_packed_command(command),
            #[cfg(test)]
            Self::Memory(memory) => memory.request(command),
        }
    }

    /// Pipelines are not used.
    fn req_packed_commands<'a>(
        &'a mut self,
        _commands: &'a redis::Pipeline,
        _offset: usize,
        _count: usize,
    ) -> RedisFuture<'a, Vec<Value>> {
        Box::pin(async { Err(io::Error::from(io::ErrorKind::Unsupported).into()) })
    }

    /// Number of the database, which nothing reads.
    fn get_db(&self) -> i64 {
        0
    }
}
