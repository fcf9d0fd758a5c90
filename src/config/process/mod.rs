//! Settings of the process, `server`, `admin` and `log`: four layers of them, the defaults here, and what they come to.
//! `layers` reads those of the file, of the `GLOSSATOR__…` variables and of the command line.

mod layers;

use std::{
    net::{IpAddr, Ipv4Addr, SocketAddr},
    time::Duration,
};

use config::{Config, Value, ValueKind};
use serde::Deserialize;

use super::{
    node::Node,
    problem::{Problem, Severity},
    report::Report,
    secret::Environment,
    section::Section,
    setting::{integer, parse_listen},
};
use crate::{
    crypto::Secret,
    inbound::{
        filter::FilterSettings,
        mcp::{McpSettings, PeerAddress, ResumeSettings},
        parse_network,
    },
    policy::Store,
    telemetry::log::{LogFormat, LogSettings},
    upstream::UpstreamBuffer,
};

pub use layers::Flag;
use layers::{Layer, SECTIONS, read_flags, read_section, read_variables, variable};

/// Where clients connect to, and how their connections are treated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ListenerSettings {
    /// The address; port 0 takes any that is free.
    pub listen: SocketAddr,
    /// How many connections may be open; when more come, those make room that have asked nothing for the longest.
    pub connection_limit: usize,
    /// How long a client may take to send the head of a request, and how long a connection may be idle before
    /// the next one.
    pub header_timeout: Duration,
    /// How long a client may take none of what is written to it.
    pub write_timeout: Duration,
    /// How many bytes are held of long answers at once that clients have not taken, of all together.
    pub answers_limit_bytes: usize,
    /// How long requests in flight are waited for when the server stops.
    pub drain: Duration,
    /// How long it goes on to serve before that, while it says that it is not ready.
    pub shutdown_delay: Duration,
    /// How often the files of the configuration are looked at; never where this is zero.
    pub watch: Duration,
}

/// The admin API: its address, and who may use it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AdminSettings {
    /// The address; none where the port is off.
    pub listen: Option<SocketAddr>,
    /// Whether somebody asked for that address: then it has to be free.
    pub is_named: bool,
    /// Hosts that the port may be addressed by, as in [`FilterSettings::allowed_hosts`].
    pub allowed_hosts: Vec<String>,
    /// Upstreams without which the process is not ready, by name; `*` for all.
    pub ready_needs: Vec<String>,
    /// The bearer token that requests have to show, where there is one.
    pub token: Option<Secret>,
}

impl AdminSettings {
    /// Whether other machines reach it, and whoever does need not show who it is.
    fn is_open_to_others(&self) -> bool {
        self.listen.is_some_and(|listen| !listen.ip().to_canonical().is_loopback()) && self.token.is_none()
    }
}

impl Default for ListenerSettings {
    fn default() -> Self {
        Self {
            listen: SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 8080),
            connection_limit: 4096,
            header_timeout: Duration::from_secs(60),
            write_timeout: Duration::from_secs(30),
            // Half of the memory for responses of upstreams; four of the longest: a reply of `reply_limit`, as text and
            // as structure.
            answers_limit_bytes: UpstreamBuffer::LIMIT_BYTES_DEFAULT / 2,
            // More than the default `deadline`: a call that has begun ends by its own.
            drain: Duration::from_secs(35),
            shutdown_delay: Duration::ZERO,
            watch: Duration::from_secs(1),
        }
    }
}

impl ListenerSettings {
    /// How soon a client is to take something of its answer where others need the room.
    pub fn taken_within(&self) -> Duration {
        self.write_timeout / 30
    }
}

/// The settings of the process, each with the room that owns it.
#[derive(Debug, Clone)]
pub(super) struct ProcessSettings {
    pub(super) listener: ListenerSettings,
    pub(super) admin: AdminSettings,
    pub(super) door: FilterSettings,
    pub(super) mcp: McpSettings,
    pub(super) log: LogSettings,
    pub(super) cache_limit_bytes: usize,
    pub(super) upstream_buffer_limit_bytes: usize,
}

const LISTEN: &str = "server.listen";
const LISTEN_OF_ADMIN: &str = "admin.listen";
const ADMIN_LISTEN: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 9901);
/// For an operators' port that is not there.
pub(super) const OFF: &str = "off";

/// The settings of every layer, typed; the names are those of the file.
#[derive(Deserialize)]
struct Settings {
    server: Server,
    #[serde(default)]
    admin: Admin,
    log: Log,
}

#[derive(Default, Deserialize)]
struct Admin {
    listen: Option<String>,
    allowed_hosts: Option<Vec<String>>,
    ready_needs: Option<Vec<String>>,
    token: Option<String>,
}

#[derive(Deserialize)]
struct Server {
    listen: String,
    allowed_hosts: Option<Vec<String>>,
    allowed_origins: Vec<String>,
    body_limit: usize,
    bodies_limit: usize,
    body_timeout: u64,
    trusted_proxies: Vec<String>,
    cache_limit: usize,
    drain: u64,
    shutdown_delay: u64,
    connections: usize,
    streams: usize,
    caller_streams: Option<usize>,
    resume: u64,
    stream_life: Option<u64>,
    watch: u64,
    header_timeout: u64,
    write_timeout: u64,
    answers_limit: usize,
    upstream_buffer_limit: usize,
    name: String,
    title: Option<String>,
    instructions: Option<String>,
    page_size: usize,
    list_ttl: u64,
    secret: Option<String>,
    peer: Option<String>,
}

#[derive(Deserialize)]
struct Log {
    level: String,
    format: String,
}

/// Reads and layers the settings. `root` is every file's tree. `None` when something is wrong with them; that
/// has been reported then.
pub(super) fn settings(
    report: &Report<'_>,
    environment: &Environment,
    flags: &[Flag],
    sections: [Option<&Section<'_, '_>>; 3],
) -> Option<ProcessSettings> {
    let before = report.errors();
    let mut file = Layer::default();
    let [server, admin, _] = sections;
    for (section, (name, keys)) in sections.into_iter().zip(SECTIONS) {
        if let Some(section) = section {
            read_section(section, environment, name, keys, &mut file);
        }
    }
    let variables = read_variables(report, environment);
    let given = read_flags(report, flags);
    let listen_is_told_by = flags
        .iter()
        .find(|flag| flag.setting == LISTEN)
        .map(|flag| flag.name.clone())
        .or_else(|| variables.0.contains_key(LISTEN).then(|| variable("server", "listen")));
    let admin_is_told_by = variables.0.contains_key(LISTEN_OF_ADMIN).then(|| variable("admin", "listen"));
    if report.errors() > before {
        return None;
    }
    let layered = Config::builder()
        .add_source(defaults())
        .add_source(file)
        .add_source(variables)
        .add_source(given)
        .build()
        .and_then(Config::try_deserialize::<Settings>);
    match layered {
        Ok(settings) => {
            if settings.server.peer.is_some() && settings.server.secret.is_none() {
                let message = "`peer` means nothing without `secret`";
                let help = "write `secret`, the same on every replica: `openssl rand -base64 32` makes one";
                match server.and_then(|section| section.get("peer")) {
                    Some(node) => report.error(node.span, message, help),
                    None => report.add(Problem::of_whole("server.peer", message, Some(help.into()))),
                }
                return None;
            }
            let hosts_are_named = settings.server.allowed_hosts.is_some();
            let settled = finish(settings)?;
            if settled.listener.listen.ip().is_unspecified() && !hosts_are_named {
                let node = server.and_then(|section| section.get("listen"));
                warn_of_closed_door(report, listen_is_told_by, node);
            }
            if settled.admin.is_open_to_others() {
                let node = admin.and_then(|section| section.get("listen"));
                warn_of_open_admin(report, admin_is_told_by, node);
            }
            Some(settled)
        }
        // Every layer was checked, so this is a mistake of ours; it must not pass in silence.
        Err(error) => {
            report.add(Problem::of_whole(
                "settings",
                format!("the layers do not fit together: {error}"),
                None,
            ));
            None
        }
    }
}

/// Reached from everywhere, and answering nobody. It is told of whoever said so: the flag or variable, or else the
/// line of the file.
fn warn_of_closed_door(report: &Report<'_>, told_by: Option<String>, written: Option<&Node>) {
    let message = "other machines can connect, and are refused: only the hosts of this machine are allowed";
    match (told_by, written) {
        (Some(name), _) => {
            let help = "write `server: { allowed_hosts: [NAME] }` with the names that clients use, or set \
                        `GLOSSATOR__SERVER__ALLOWED_HOSTS`; `*` allows all";
            let mut problem = Problem::of_whole(name, message, Some(help.into()));
            problem.severity = Severity::Warning;
            report.add(problem);
        }
        (None, Some(node)) => report.warning(
            node.span,
            message,
            "write `allowed_hosts: [NAME]` with the names that clients use, or `[\"*\"]`",
        ),
        // The default is an address of this machine.
        (None, None) => {}
    }
}

/// Whoever reaches the operators' port reads what is in force and has it read again. It is told of whoever
/// said so.
fn warn_of_open_admin(report: &Report<'_>, told_by: Option<String>, written: Option<&Node>) {
    let message = "other machines can reach the admin port, and it asks for no token";
    match (told_by, written) {
        (Some(name), _) => {
            let help = "set `GLOSSATOR__ADMIN__TOKEN`, or write `admin: { token: \"${ADMIN_TOKEN}\" }`; `openssl rand -base64 32` makes one";
            let mut problem = Problem::of_whole(name, message, Some(help.into()));
            problem.severity = Severity::Warning;
            report.add(problem);
        }
        (None, Some(node)) => report.warning(
            node.span,
            message,
            "write `token: ${ADMIN_TOKEN}` beside it (`openssl rand -base64 32` makes one), or listen on `127.0.0.1`",
        ),
        // The default is an address of this machine.
        (None, None) => {}
    }
}

/// The lowest layer. What is not here is off, or worked out at the end.
fn defaults() -> Layer {
    let (listener, door, mcp) =
        (ListenerSettings::default(), FilterSettings::default(), McpSettings::default());
    let origins = door.allowed_origins.into_iter().map(Value::from).collect();
    let values: [(&str, ValueKind); 22] = [
        (LISTEN, listener.listen.to_string().into()),
        ("server.allowed_origins", ValueKind::Array(origins)),
        ("server.cache_limit", integer(Store::LIMIT_BYTES_DEFAULT as u128)),
        ("server.trusted_proxies", ValueKind::Array(Vec::new())),
        ("server.body_limit", integer(door.body_limit_bytes as u128)),
        ("server.bodies_limit", integer(door.bodies_limit_bytes as u128)),
        ("server.body_timeout", integer(door.body_timeout.as_millis())),
        ("server.drain", integer(listener.drain.as_millis())),
        ("server.shutdown_delay", integer(listener.shutdown_delay.as_millis())),
        ("server.connections", integer(listener.connection_limit as u128)),
        ("server.streams", integer(mcp.stream_limit as u128)),
        ("server.header_timeout", integer(listener.header_timeout.as_millis())),
        ("server.write_timeout", integer(listener.write_timeout.as_millis())),
        ("server.answers_limit", integer(listener.answers_limit_bytes as u128)),
        ("server.upstream_buffer_limit", integer(UpstreamBuffer::LIMIT_BYTES_DEFAULT as u128)),
        ("server.name", mcp.server_name.into()),
        ("server.page_size", integer(mcp.page_size as u128)),
        ("server.resume", integer(mcp.resume.patience.as_millis())),
        ("server.watch", integer(listener.watch.as_millis())),
        ("server.list_ttl", integer(mcp.list_ttl.as_millis())),
        ("log.level", "info".into()),
        ("log.format", "text".into()),
    ];
    Layer(values.into_iter().map(|(key, value)| (key.to_owned(), value)).collect())
}

fn finish(settings: Settings) -> Option<ProcessSettings> {
    let Settings { server, admin, log } = settings;
    let listen = parse_listen(&server.listen).ok()?;
    let allowed_hosts = server.allowed_hosts.unwrap_or_else(|| hosts_of(listen));
    let admin = admin_settings(admin)?;
    let format = if log.format == "json" { LogFormat::Json } else { LogFormat::Text };
    Some(ProcessSettings {
        listener: ListenerSettings {
            listen,
            connection_limit: server.connections,
            header_timeout: Duration::from_millis(server.header_timeout),
            write_timeout: Duration::from_millis(server.write_timeout),
            answers_limit_bytes: server.answers_limit,
            drain: Duration::from_millis(server.drain),
            shutdown_delay: Duration::from_millis(server.shutdown_delay),
            watch: Duration::from_millis(server.watch),
        },
        admin,
        door: FilterSettings {
            allowed_hosts,
            allowed_origins: server.allowed_origins,
            body_limit_bytes: server.body_limit,
            bodies_limit_bytes: server.bodies_limit,
            body_timeout: Duration::from_millis(server.body_timeout),
            // Each was checked where it stands.
            trusted_proxies: server.trusted_proxies.iter().filter_map(|text| parse_network(text)).collect(),
            ..FilterSettings::default()
        },
        mcp: McpSettings {
            server_name: server.name,
            server_title: server.title,
            instructions: server.instructions,
            page_size: server.page_size,
            list_ttl: Duration::from_millis(server.list_ttl),
            stream_limit: server.streams,
            caller_stream_limit: server.caller_streams,
            resume: ResumeSettings {
                patience: Duration::from_millis(server.resume),
                connection_life: server.stream_life.map(Duration::from_millis),
            },
            peer: server.peer.and_then(|peer| PeerAddress::parse(&peer)),
            secret: server.secret.and_then(|secret| Secret::new(secret.as_bytes())),
            ..McpSettings::default()
        },
        log: LogSettings::of_level(&log.level, format),
        cache_limit_bytes: server.cache_limit,
        upstream_buffer_limit_bytes: server.upstream_buffer_limit,
    })
}

/// The hosts by which a process is addressed that listens there.
fn hosts_of(listen: SocketAddr) -> Vec<String> {
    let mut hosts = FilterSettings::default().allowed_hosts;
    if !listen.ip().is_loopback() && !listen.ip().is_unspecified() {
        hosts.push(match listen {
            SocketAddr::V4(address) => address.ip().to_string(),
            SocketAddr::V6(address) => format!("[{}]", address.ip()),
        });
    }
    hosts
}

fn admin_settings(admin: Admin) -> Option<AdminSettings> {
    let is_named = admin.listen.is_some();
    let listen = match admin.listen.as_deref() {
        Some(OFF) => None,
        Some(written) => Some(parse_listen(written).ok()?),
        None => Some(ADMIN_LISTEN),
    };
    let allowed_hosts = admin.allowed_hosts.unwrap_or_else(|| match listen {
        // Whoever opens it to other machines knows by which names they come, and a scraper comes by none.
        Some(listen) if listen.ip().is_unspecified() => vec!["*".to_owned()],
        Some(listen) => hosts_of(listen),
        None => Vec::new(),
    });
    let token = admin.token.and_then(|token| Secret::new(token.trim().as_bytes()));
    let ready_needs = admin.ready_needs.unwrap_or_default();
    Some(AdminSettings { listen, is_named, allowed_hosts, ready_needs, token })
}

#[cfg(test)]
mod tests;
