//! Address and settings of the store.

use std::{fmt, path::PathBuf, str::FromStr, time::Duration};

use settings_derive::Section;

use crate::settings::{Checked, Code, CodedSpan, Cursor, FromText, Invalid, OpenSection, text_of};
use crate::tls::ClientTls;

/// The address of a Redis or Valkey.
///
/// - One server: `redis://HOST:PORT/DATABASE` or `unix:/path`.
/// - The primary that Sentinels name: `redis+sentinel://HOST:PORT,…/NAME/DATABASE`.
/// - A Cluster: `redis+cluster://HOST:PORT,…`.
///
/// `rediss` in place of `redis` uses TLS; `valkey` and `valkeys` have the same meaning.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoreAddress {
    pub(super) location: StoreLocation,
    /// Whether it is reached over TLS.
    pub is_tls: bool,
    /// The database in the address.
    pub database: Option<u32>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum StoreLocation {
    Server(StoreHost),
    Socket(PathBuf),
    Sentinels { sentinels: Vec<StoreHost>, primary: Box<str> },
    Cluster(Vec<StoreHost>),
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct StoreHost {
    pub(super) name: Box<str>,
    pub(super) port: u16,
}

/// Why a text is not the address of a store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StoreAddressError {
    problem: &'static str,
    help: &'static str,
}

/// Examples of addresses of one server.
const ONE_SERVER: &str = "write `redis://store:6379`, `rediss://store:6379/1` or `unix:/run/valkey.sock`";

impl StoreAddressError {
    const SCHEME: Self =
        Self { problem: "it begins with neither `redis://`, `rediss://` nor `unix:/`", help: ONE_SERVER };
    const CREDENTIALS: Self = Self {
        problem: "it contains a user or a password",
        help: "write them as `user` and `password` of `shared_state`; `file:/path` is accepted there",
    };
    const HOST: Self = Self { problem: "it has no host", help: ONE_SERVER };
    const SEVERAL_HOSTS: Self = Self {
        problem: "it has several hosts",
        help: "write `redis+cluster://a:6379,b:6379`, or `redis+sentinel://a:26379,b:26379/mymaster`",
    };
    const PORT: Self = Self { problem: "its port is not a number from 1 to 65535", help: ONE_SERVER };
    const DATABASE: Self =
        Self { problem: "the part after the host is not a database number", help: ONE_SERVER };
    const PRIMARY: Self = Self {
        problem: "the part after the hosts is not the name of a primary",
        help: "write `redis+sentinel://a:26379,b:26379/mymaster`",
    };
    const CLUSTER_DATABASE: Self = Self {
        problem: "Redis Cluster supports only database 0",
        help: "write `redis+cluster://a:6379,b:6379`; use `prefix` to separate keys",
    };
}

impl StoreAddress {
    const PORT_DEFAULT: u16 = 6379;
    const SENTINEL_PORT_DEFAULT: u16 = 26379;

    /// Whether it is a Cluster.
    pub fn is_cluster(&self) -> bool {
        matches!(self.location, StoreLocation::Cluster(_))
    }
}

impl FromStr for StoreAddress {
    type Err = StoreAddressError;

    fn from_str(text: &str) -> Result<Self, StoreAddressError> {
        type Error = StoreAddressError;

        if let Some(path) = text.strip_prefix("unix:").filter(|path| path.starts_with('/')) {
            // `unix:///run/x` is a common form, too.
            let path = format!("/{}", path.trim_start_matches('/'));
            return Ok(Self { location: StoreLocation::Socket(path.into()), is_tls: false, database: None });
        }
        let (scheme, rest) = text.split_once("://").ok_or(Error::SCHEME)?;
        let (server, kind) = scheme.split_once('+').unwrap_or((scheme, ""));
        let is_tls = match server {
            "redis" | "valkey" => false,
            "rediss" | "valkeys" => true,
            _ => return Err(Error::SCHEME),
        };
        if rest.contains('@') {
            return Err(Error::CREDENTIALS);
        }
        let (authority, path) = rest.split_once('/').unwrap_or((rest, ""));
        let hosts = |port| {
            authority.split(',').map(|host| StoreHost::parse(host, port)).collect::<Result<Vec<_>, _>>()
        };
        let (location, database) = match kind {
            "" if authority.contains(',') => return Err(Error::SEVERAL_HOSTS),
            "" => (StoreLocation::Server(StoreHost::parse(authority, Self::PORT_DEFAULT)?), path),
            "cluster" if !path.is_empty() => return Err(Error::CLUSTER_DATABASE),
            "cluster" => (StoreLocation::Cluster(hosts(Self::PORT_DEFAULT)?), path),
            "sentinel" => {
                let sentinels = hosts(Self::SENTINEL_PORT_DEFAULT)?;
                let (primary, database) = path.split_once('/').unwrap_or((path, ""));
                // The characters that Sentinel itself accepts in a name.
                let is_good = |byte: u8| byte.is_ascii_alphanumeric() || b"-._".contains(&byte);
                if primary.is_empty() || !primary.bytes().all(is_good) {
                    return Err(Error::PRIMARY);
                }
                (StoreLocation::Sentinels { sentinels, primary: primary.into() }, database)
            }
            _ => return Err(Error::SCHEME),
        };
        let database = match database {
            "" => None,
            number => Some(number.parse().map_err(|_| Error::DATABASE)?),
        };
        Ok(Self { location, is_tls, database })
    }
}

impl fmt::Display for StoreAddress {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scheme = if self.is_tls { "rediss" } else { "redis" };
        let list = |hosts: &[StoreHost]| hosts.iter().map(StoreHost::to_string).collect::<Vec<_>>().join(",");
        match &self.location {
            StoreLocation::Socket(path) => write!(formatter, "unix:{}", path.display()),
            StoreLocation::Server(host) => write!(formatter, "{scheme}://{host}"),
            StoreLocation::Sentinels { sentinels, primary } => {
                write!(formatter, "{scheme}+sentinel://{}/{primary}", list(sentinels))
            }
            StoreLocation::Cluster(nodes) => write!(formatter, "{scheme}+cluster://{}", list(nodes)),
        }
    }
}

impl StoreHost {
    fn parse(text: &str, port_default: u16) -> Result<Self, StoreAddressError> {
        let (name, port) = match text.strip_prefix('[') {
            Some(rest) => rest.split_once(']').ok_or(StoreAddressError::HOST)?,
            None => text.split_at(text.find(':').unwrap_or(text.len())),
        };
        let is_good = |character: char| character.is_ascii_alphanumeric() || "-._:".contains(character);
        if name.is_empty() || !name.chars().all(is_good) {
            return Err(StoreAddressError::HOST);
        }
        let port = match port {
            "" => Some(port_default),
            port => port.strip_prefix(':').and_then(|port| port.parse().ok()).filter(|port| *port > 0),
        };
        Ok(Self { name: name.into(), port: port.ok_or(StoreAddressError::PORT)? })
    }
}

impl fmt::Display for StoreHost {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let brackets = if self.name.contains(':') { ("[", "]") } else { ("", "") };
        write!(formatter, "{}{}{}:{}", brackets.0, self.name, brackets.1, self.port)
    }
}

/// The section `shared_state`: the store of several replicas.
#[derive(Clone, PartialEq, Eq, Section)]
#[section(id = "shared_state", text = "url", process, variables)]
#[section(check = Self::complete, check_keys = Self::check_keys)]
pub struct StoreSettings {
    /// Address of the Redis or Valkey: `redis://store:6379`, `rediss://…` through TLS,
    /// `unix:/run/valkey.sock`,
    /// `redis+sentinel://a:26379,b:26379/mymaster`, or `redis+cluster://a:6379,b:6379`.
    #[key(name = "url", example = "url: redis://store:6379", restart)]
    pub address: StoreAddress,
    /// User name of the login.
    #[key(shown = "the server's default user", restart)]
    pub user: Option<String>,
    /// Password of that user: `file:/path` or `${NAME}`.
    #[key(shown = "there is no login", secret, restart)]
    pub password: Option<String>,
    /// User name of the login at the Sentinels.
    #[key(shown = "their default user", restart)]
    pub sentinel_user: Option<String>,
    /// Password of that user: `file:/path` or `${NAME}`.
    #[key(shown = "there is no login", secret, restart)]
    pub sentinel_password: Option<String>,
    /// Number of the database; a Cluster has none.
    #[key(range = 0..=65_535, shown = "0, or the one that `url` ends with", restart)]
    pub database: Option<u32>,
    /// Prefix of all keys in the store; services that share nothing use different prefixes.
    #[key(with = read_prefix, default = "glossator".to_owned(), restart)]
    pub prefix: String,
    /// Timeout of an operation. Limits then follow their `on_store_failure`, and caches are skipped.
    #[key(range = 1..=10_000, default = Duration::from_millis(250), restart)]
    pub timeout: Duration,
    /// Largest response that is stored; each replica caches larger ones for itself.
    #[key(name = "entry_limit", size = 1 << 10..=64 << 20, default = 1 << 20, restart)]
    pub entry_limit_bytes: usize,
    /// Trusted CAs and the client certificate, for `rediss://`.
    // The library itself connects to the nodes of a Cluster, with the options of this.
    #[key(shown = "the CAs of the system", restart)]
    pub tls: Option<ClientTls>,
}

/// Reads a prefix, whose characters form neither another kind of key nor a pattern.
fn read_prefix(value: &Cursor<'_>) -> Checked<String> {
    const LIMIT_BYTES: usize = 64;
    let text = text_of(value)?;
    let is_good = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.:/{}".contains(&byte);
    if !text.is_empty() && text.len() <= LIMIT_BYTES && text.bytes().all(is_good) {
        return Ok(text.to_owned());
    }
    let message = format!("{} must have 1 to {LIMIT_BYTES} letters, digits and `-_.:/{{}}`", value.name);
    value.reject(Invalid::without_value(message, "write the name of the service: `prefix: weather-tools`"))
}

impl FromText for StoreAddress {
    fn from_text(text: &str) -> Result<Self, Invalid> {
        text.trim().parse().map_err(|StoreAddressError { problem, help }| {
            Invalid::without_value(format!("invalid address of a store: {problem}"), help)
        })
    }
}

impl StoreSettings {
    /// The database to select.
    pub(super) fn selected_database(&self) -> i64 {
        self.address.database.or(self.database).unwrap_or_default().into()
    }

    /// Checks that each user has a password: without a password there is no login.
    fn check_keys(section: &OpenSection<'_>) -> Checked<()> {
        let mut checked = Ok(());
        for (user, password) in [("user", "password"), ("sentinel_user", "sentinel_password")] {
            if section.entry(user).is_some() && section.entry(password).is_none() {
                let message = format!("`{user}` needs `{password}`");
                let help = format!("write `{password}: file:/run/secrets/store`");
                checked = Err(section.missing(message, &help));
            }
        }
        checked
    }

    /// Checks the keys against the kind of store that the address names.
    fn complete(mut self, section: &OpenSection<'_>) -> Checked<Self> {
        let (address, mut checked) = (&self.address, Ok(()));
        let mut reject =
            |at: CodedSpan, message: &str, help| checked = Err(section.reject_at(at, message, help));
        let span_of = |key| section.entry(key).map(|entry| Code::ConflictingKeys.at_span(entry.value.span));
        if let Some(at) = span_of("database") {
            if let Some(named) = address.database {
                let message = format!("`database` has no effect beside the {named} that `url` ends with");
                reject(at, &message, "remove one of the two");
            } else if address.is_cluster() && self.database != Some(0) {
                let help = "remove `database`; use `prefix` to separate keys";
                reject(at, "Redis Cluster supports only database 0", help);
            }
        }
        let is_sentinel = matches!(address.location, StoreLocation::Sentinels { .. });
        for key in ["sentinel_user", "sentinel_password"] {
            if let Some(at) = span_of(key).filter(|_| !is_sentinel) {
                let message = format!("`{key}` has no effect: `url` is not `redis+sentinel://`");
                reject(at, &message, "remove it, or write the addresses of the Sentinels in `url`");
            }
        }
        match section.entry("tls") {
            Some(entry) if !address.is_tls => {
                let message = "`tls` has no effect: `url` is not `rediss://`";
                reject(
                    Code::TlsWithoutHttps.at_span(entry.key.span),
                    message,
                    "write `rediss://`, or remove it",
                );
            }
            Some(entry) if address.is_cluster() => {
                for key in ["fingerprint", "server_name"] {
                    let Some(node) = entry.value.get(key) else { continue };
                    let message =
                        format!("`{key}` has no effect with a Cluster: each node has its own certificate");
                    let help = "remove it, and set `ca` to the CA of all nodes' certificates";
                    reject(Code::ConflictingKeys.at_span(node.span), &message, help);
                }
            }
            None if address.is_tls => {
                let value = &section.value;
                self.tls =
                    Some(value.checked(ClientTls::with_defaults(value.context.report, value.node.span))?);
            }
            Some(_) | None => {}
        }
        checked.map(|()| self)
    }
}

/// Omits passwords and keys.
impl fmt::Debug for StoreSettings {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("StoreSettings").field("address", &self.address).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, expected: Result<(&str, Option<u32>), StoreAddressError>) {
        let found = text.parse::<StoreAddress>();
        let found = found.map(|address| (address.to_string(), address.database));
        assert_eq!(found, expected.map(|(shown, database)| (shown.to_owned(), database)));
    }

    #[test]
    fn a_store_is_reached_over_the_network_or_by_a_socket() {
        check("redis://store.internal", Ok(("redis://store.internal:6379", None)));
        check("redis://10.0.0.7:7000/3", Ok(("redis://10.0.0.7:7000", Some(3))));
        check("rediss://[::1]:6380/", Ok(("rediss://[::1]:6380", None)));
        check("valkeys://[::1]", Ok(("rediss://[::1]:6379", None)));
        check("unix:///run/valkey.sock", Ok(("unix:/run/valkey.sock", None)));
    }

    #[test]
    fn sentinels_name_the_server() {
        check("redis+sentinel://a,b:7/mymaster", Ok(("redis+sentinel://a:26379,b:7/mymaster", None)));
        check(
            "valkeys+sentinel://[::1]/my-master/2",
            Ok(("rediss+sentinel://[::1]:26379/my-master", Some(2))),
        );
        check("redis+sentinel://a,b", Err(StoreAddressError::PRIMARY));
        check("redis+sentinel://a/my master", Err(StoreAddressError::PRIMARY));
        check("redis+sentinel://a/mymaster/x", Err(StoreAddressError::DATABASE));
        check("redis+sentinel://a,/mymaster", Err(StoreAddressError::HOST));
    }

    #[test]
    fn a_cluster_is_reached_by_some_of_its_nodes() {
        check("redis+cluster://a,b:7", Ok(("redis+cluster://a:6379,b:7", None)));
        check("rediss+cluster://a/", Ok(("rediss+cluster://a:6379", None)));
        check("redis+cluster://a/1", Err(StoreAddressError::CLUSTER_DATABASE));
        check("redis://a,b", Err(StoreAddressError::SEVERAL_HOSTS));
    }

    #[test]
    fn invalid_addresses_are_rejected() {
        check("http://store", Err(StoreAddressError::SCHEME));
        check("redis+unix://store", Err(StoreAddressError::SCHEME));
        check("store:6379", Err(StoreAddressError::SCHEME));
        check("redis://user:secret@store", Err(StoreAddressError::CREDENTIALS));
        check("redis://:6379", Err(StoreAddressError::HOST));
        check("redis://[::1", Err(StoreAddressError::HOST));
        check("redis://store:0", Err(StoreAddressError::PORT));
        check("redis://store:", Err(StoreAddressError::PORT));
        check("redis://[::1]7", Err(StoreAddressError::PORT));
        check("redis://store/prefix", Err(StoreAddressError::DATABASE));
    }
}
