//! `server`: listener for clients, request filter, MCP API, TLS, authentication and memory limits. `admin`:
//! listener and access control of the admin API.

use std::{
    net::{IpAddr, Ipv4Addr, SocketAddr},
    time::Duration,
};

use crate::auth::ResourceServer;
use crate::crypto::SecretKey;
use crate::inbound::HostPattern;
use crate::inbound::filter::FilterSettings;
use crate::inbound::mcp::McpApiSettings;
use crate::policy::CacheStore;
use crate::settings::suggest::quoted;
use crate::settings::{Checked, Code, Cursor, FromText, Invalid, OpenSection, Section, Setting, ValueKind};
use crate::tls::{ClientTls, ClientTlsOptions, ServerTls};
use crate::upstream::UpstreamBuffer;

/// One hour, in milliseconds.
const HOUR: u64 = 3_600_000;

/// Section `server`.
#[derive(Debug, Clone, Section)]
#[section(id = "server", process, variables, default, check = Self::complete)]
pub struct ServerSettings {
    /// Listener for clients, and limits of its connections.
    #[key(part)]
    pub listener: ListenerSettings,
    /// Request filter: allowed hosts and origins, request limits, trusted proxies.
    #[key(part)]
    pub filter: FilterSettings,
    /// MCP API.
    #[key(part)]
    pub mcp: McpApiSettings,
    /// Size of the response cache of all routes together.
    #[key(name = "cache_limit", size = 0..=1 << 40, default = CacheStore::LIMIT_BYTES_DEFAULT, live)]
    pub cache_limit_bytes: usize,
    /// Maximum memory for upstream responses of all calls together. A response longer than 16 KiB counts 3
    /// times its length, or 10 times if rules or a schema parse it. A compressed one counts as
    /// `response_limit`. Calls over the limit are queued for up to 10 s, then rejected with a time to retry
    /// (REST: 503).
    #[key(
        name = "upstream_buffer_limit",
        size = 1 << 20..=1 << 40,
        default = UpstreamBuffer::LIMIT_BYTES_DEFAULT,
        live
    )]
    pub upstream_buffer_limit_bytes: usize,
    /// TLS with clients.
    #[key(shown = "none", live)]
    pub tls: Option<ServerTls>,
    /// OAuth: access tokens of authorization servers.
    #[key(shown = "none", live)]
    pub auth: Option<ResourceServer>,
}

/// Listener for clients, and limits of its connections.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Section)]
#[section(id = "server", process, default)]
pub struct ListenerSettings {
    /// Address and port for clients.
    // Port 0 selects a free port.
    #[key(default = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 8080), restart)]
    pub listen: SocketAddr,
    /// Maximum number of open connections. Over the limit, glossator closes the connections that have been
    /// idle for the longest time.
    #[key(range = 1..=1_000_000, default = 4096, restart)]
    pub max_connections: usize,
    /// Timeout of a request's headers, from their first byte, and of a TLS handshake (at most 10 s).
    #[key(range = 1..=HOUR, default = Duration::from_secs(60), restart)]
    pub header_timeout: Duration,
    /// Time for which an idle connection is kept open.
    #[key(range = 1..=HOUR, default = Duration::from_secs(60), restart)]
    pub keepalive_timeout: Duration,
    /// Write timeout: a connection whose client reads nothing of its response for this long is closed.
    #[key(range = 1..=HOUR, default = Duration::from_secs(30), restart)]
    pub write_timeout: Duration,
    /// Maximum memory for buffered responses longer than 64 KiB that clients have not read, all clients
    /// together. Over the limit, glossator closes the connections that have read nothing for the longest
    /// time, after 1/30 of `write_timeout` at the earliest. A client that reads 200 KiB in that time is never
    /// disconnected. At most half of `upstream_buffer_limit`.
    // Half of the memory for upstream responses: enough for four responses of the maximum length, each as
    // text and as structured content.
    #[key(
        name = "response_buffer_limit",
        size = 1..=1 << 40,
        default = UpstreamBuffer::LIMIT_BYTES_DEFAULT / 2,
        restart
    )]
    pub response_buffer_limit_bytes: usize,
    /// Timeout of the graceful shutdown; calls in flight then get an error.
    // More than the default `timeout`, so that a call in flight reaches its own timeout first.
    #[key(range = 0..=HOUR, default = Duration::from_secs(35), restart)]
    pub shutdown_timeout: Duration,
    /// Time after SIGTERM in which requests are still accepted while `/readyz` returns 503, so that load
    /// balancers stop sending. `shutdown_timeout` starts after it.
    #[key(range = 0..=HOUR, default = Duration::ZERO, restart)]
    pub shutdown_delay: Duration,
    /// Interval at which the configuration files are checked for changes and reloaded. `0s` never checks.
    #[key(range = 0..=HOUR, default = Duration::from_secs(1), restart)]
    pub reload_interval: Duration,
}

impl ListenerSettings {
    /// Time for which a connection must have read nothing before it can be closed because the response buffer
    /// is full.
    pub fn min_stall_before_close(&self) -> Duration {
        self.write_timeout / 30
    }
}

impl ServerSettings {
    /// Sets the TLS settings for other replicas, and the default of `allowed_hosts`: loopback names and the
    /// listen address. Warns if the server listens on all addresses, because requests from other machines are
    /// then rejected.
    fn complete(mut self, section: &OpenSection<'_>) -> Checked<Self> {
        self.mcp.peer_tls = self.peer_tls(section)?;
        if section.entry("allowed_hosts").is_some() {
            return Ok(self);
        }
        let listen = self.listener.listen;
        self.filter.allowed_hosts = hosts_of(listen);
        if let Some(entry) = section.entry("listen").filter(|_| listen.ip().is_unspecified()) {
            let help = "write `allowed_hosts: [NAME]` under `server` with the names that clients use, or set \
                        `GLOSSATOR__SERVER__ALLOWED_HOSTS`; `*` allows all";
            let message =
                "requests from other machines are rejected: `allowed_hosts` has only the loopback names";
            section.report().warning(Code::HostsRejected.at_span(entry.value.span), message, help);
        }
        Ok(self)
    }

    /// Returns the TLS settings for requests to other replicas, if `advertise_url` is an `https://` URL.
    fn peer_tls(&self, section: &OpenSection<'_>) -> Checked<Option<ClientTls>> {
        let (Some(peer), Some(entry)) = (&self.mcp.advertise_url, section.entry("advertise_url")) else {
            return Ok(None);
        };
        let span = entry.value.span;
        let created = match (peer.is_tls(), &self.tls) {
            (false, None) => return Ok(None),
            (false, Some(_)) => {
                let message =
                    "`advertise_url` is `http://`, but the server accepts only TLS because of `tls`";
                let help = "write `https://` with a host name of the certificate";
                return Err(section.reject_at(Code::AdvertiseUrlScheme.at_span(span), message, help));
            }
            (true, None) => ClientTls::new(ClientTlsOptions::default()),
            (true, Some(tls)) => tls.to_replica(),
        };
        created.map(Some).map_err(|error| {
            let help = "install `ca-certificates`, or set `SSL_CERT_FILE`";
            section.reject_at(Code::UnreadableFile.at_span(span), &error.to_string(), help)
        })
    }
}

/// Settings of the admin API: its address, and its access control.
#[derive(Debug, Clone, PartialEq, Eq, Section)]
#[section(id = "admin", process, variables, default, check = Self::complete)]
pub struct AdminSettings {
    /// Address and port of the admin API, or `off`. If it is not set and the default port is in use, there is
    /// no admin API.
    #[key(with = read_listen, default = Some(SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 9901)), restart)]
    pub listen: Option<SocketAddr>,
    /// Whether the address is configured: the process then fails to start if the address is in use.
    #[key(skip)]
    pub is_listen_explicit: bool,
    /// Accepted values of `Host`; `*` accepts all.
    #[key(
        shown = "loopback names and the listen address, or all if `listen` is a wildcard address",
        restart
    )]
    pub allowed_hosts: Vec<HostPattern>,
    /// Upstreams that must be reachable for readiness, by name; `*` for all.
    #[key(shown = "none", restart)]
    pub readiness_upstreams: Vec<String>,
    /// Bearer token for the admin API, at least 16 bytes; probes need none.
    #[key(shown = "no authentication", secret, restart)]
    pub token: Option<SecretKey>,
}

fn read_listen(value: &Cursor<'_>) -> Checked<Option<SocketAddr>> {
    match value.node.as_text() {
        Some("off") => Ok(None),
        _ => SocketAddr::read(value).map(Some),
    }
}

impl AdminSettings {
    /// Sets the default of `allowed_hosts`. Warns if other machines can reach the admin API without a token.
    fn complete(mut self, section: &OpenSection<'_>) -> Checked<Self> {
        self.is_listen_explicit = section.entry("listen").is_some();
        if section.entry("allowed_hosts").is_none() {
            self.allowed_hosts = match self.listen {
                // A metrics scraper may use any host name, so all are allowed.
                Some(listen) if listen.ip().is_unspecified() => vec![HostPattern::Any],
                Some(listen) => hosts_of(listen),
                None => Vec::new(),
            };
        }
        section.check_valid(&["token"])?;
        let is_open = self.listen.is_some_and(|listen| !listen.ip().to_canonical().is_loopback());
        if let Some(entry) = section.entry("listen").filter(|_| is_open && self.token.is_none()) {
            let help = "write `token: ${ADMIN_TOKEN}` under `admin`, or set `GLOSSATOR__ADMIN__TOKEN` \
                        (`openssl rand -base64 32` makes one), or listen on `127.0.0.1`";
            let message = "other machines can reach the admin API, which requires no token";
            section.report().warning(Code::OpenAdminPort.at_span(entry.value.span), message, help);
        }
        Ok(self)
    }
}

/// Returns the loopback names and the listen address.
fn hosts_of(listen: SocketAddr) -> Vec<HostPattern> {
    let mut hosts = FilterSettings::default().allowed_hosts;
    if !listen.ip().is_loopback() && !listen.ip().is_unspecified() {
        let host = match listen {
            SocketAddr::V4(address) => address.ip().to_string(),
            SocketAddr::V6(address) => format!("[{}]", address.ip()),
        };
        hosts.extend(HostPattern::from_text(&host));
    }
    hosts
}

/// Parses address and port; the host may be `localhost`.
impl Setting for SocketAddr {
    fn read(value: &Cursor<'_>) -> Checked<Self> {
        // In YAML, `listen: 8080` is a number. It is parsed as a string, so that the error is about the
        // missing host.
        let Some(text) = value.node.scalar() else { return value.reject_kind("a string", None) };
        let numbers = match text.strip_prefix("localhost:") {
            Some(port) => format!("127.0.0.1:{port}"),
            None => text.clone(),
        };
        numbers.parse().or_else(|_| {
            let message = format!("expected an address and a port, found {}", quoted(&text));
            let port = text.rsplit(':').next().and_then(|port| port.parse::<u16>().ok()).unwrap_or(8080);
            let help =
                format!("write `127.0.0.1:{port}`, or `0.0.0.0:{port}` to be reached from other machines");
            value.reject(Invalid::new(message, help))
        })
    }

    fn shown(&self, _kind: ValueKind) -> Option<String> {
        Some(format!("`{self}`"))
    }
}
