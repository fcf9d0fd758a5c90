//! Address and settings of the Redis or Valkey store.

use std::{fmt, path::PathBuf, time::Duration};

use settings_derive::Section;

use crate::settings::{Checked, Code, CodedSpan, Cursor, FromText, Invalid, OpenSection, text_of};
use crate::tls::ClientTls;

/// The address of a Redis or Valkey store.
///
/// - One server: `redis://HOST:PORT/DATABASE` or `unix:/path`.
/// - The primary that Sentinels name: `redis+sentinel://HOST:PORT,…/NAME/DATABASE`.
/// - A Cluster: `redis+cluster://HOST:PORT,…`.
///
/// `rediss` in place of `redis` uses TLS; `valkey` and `valkeys` have the same meaning.
#[derive(Debug, Clone, PartialEq, Eq, derive_more::Display)]
#[display("{text}")]
pub struct StoreAddress {
    pub(super) location: StoreLocation,
    /// The address as configured, for the log.
    text: Box<str>,
    /// Whether the store is reached over TLS.
    pub is_tls: bool,
    /// The number of the database, if the address contains one.
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

/// Help for an invalid address.
const EXAMPLES: &str = "write `redis://store:6379/1`, `rediss://store`, `unix:/run/valkey.sock`, \
                        `redis+sentinel://a:26379,b:26379/mymaster` or `redis+cluster://a:6379,b:6379`";
const NO_SCHEME: &str = "it begins with neither `redis://`, `rediss://` nor `unix:/`";
const NO_HOST: &str = "it has no host";

impl StoreAddress {
    const PORT_DEFAULT: u16 = 6379;
    const SENTINEL_PORT_DEFAULT: u16 = 26379;

    /// Whether the store is a Cluster.
    pub fn is_cluster(&self) -> bool {
        matches!(self.location, StoreLocation::Cluster(_))
    }

    fn parse(text: &str) -> Result<Self, &'static str> {
        let address = |location, is_tls, database| Self { location, text: text.into(), is_tls, database };
        if let Some(path) = text.strip_prefix("unix:").filter(|path| path.starts_with('/')) {
            // `unix:///run/x` is a common form, too.
            let path = format!("/{}", path.trim_start_matches('/'));
            return Ok(address(StoreLocation::Socket(path.into()), false, None));
        }
        let (scheme, rest) = text.split_once("://").ok_or(NO_SCHEME)?;
        let (server, kind) = scheme.split_once('+').unwrap_or((scheme, ""));
        let is_tls = match server {
            "redis" | "valkey" => false,
            "rediss" | "valkeys" => true,
            _ => return Err(NO_SCHEME),
        };
        if rest.contains('@') {
            return Err("it contains a user or a password, which are keys of `shared_state`");
        }
        let (authority, path) = rest.split_once('/').unwrap_or((rest, ""));
        let hosts = |port| {
            authority.split(',').map(|host| StoreHost::parse(host, port)).collect::<Result<Vec<_>, _>>()
        };
        let (location, database) = match kind {
            "" if authority.contains(',') => return Err("it has several hosts"),
            "" => (StoreLocation::Server(StoreHost::parse(authority, Self::PORT_DEFAULT)?), path),
            "cluster" if !path.is_empty() => {
                return Err("Redis Cluster supports only database 0; use `prefix` to separate keys");
            }
            "cluster" => (StoreLocation::Cluster(hosts(Self::PORT_DEFAULT)?), path),
            "sentinel" => {
                let sentinels = hosts(Self::SENTINEL_PORT_DEFAULT)?;
                let (primary, database) = path.split_once('/').unwrap_or((path, ""));
                // The characters that Sentinel itself accepts in a name.
                let is_allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"-._".contains(&byte);
                if primary.is_empty() || !primary.bytes().all(is_allowed) {
                    return Err("the part after the hosts is not the name of a primary");
                }
                (StoreLocation::Sentinels { sentinels, primary: primary.into() }, database)
            }
            _ => return Err(NO_SCHEME),
        };
        let database = Some(database).filter(|number| !number.is_empty()).map(str::parse::<u16>).transpose();
        let database = database.map_err(|_| "the part after the host is not a database number")?;
        Ok(address(location, is_tls, database.map(u32::from)))
    }
}

impl FromText for StoreAddress {
    fn from_text(text: &str) -> Result<Self, Invalid> {
        Self::parse(text.trim()).map_err(|problem| {
            Invalid::without_value(format!("invalid address of a store: {problem}"), EXAMPLES)
        })
    }
}

impl StoreHost {
    fn parse(text: &str, port_default: u16) -> Result<Self, &'static str> {
        let (name, port) = match text.strip_prefix('[') {
            Some(rest) => rest.split_once(']').ok_or(NO_HOST)?,
            None => text.split_at(text.find(':').unwrap_or(text.len())),
        };
        let is_allowed = |character: char| character.is_ascii_alphanumeric() || "-._:".contains(character);
        if name.is_empty() || !name.chars().all(is_allowed) {
            return Err(NO_HOST);
        }
        let port = match port {
            "" => Some(port_default),
            port => port.strip_prefix(':').and_then(|port| port.parse().ok()).filter(|port| *port > 0),
        };
        Ok(Self { name: name.into(), port: port.ok_or("its port is not a number from 1 to 65535")? })
    }
}

impl fmt::Display for StoreHost {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let brackets = if self.name.contains(':') { ("[", "]") } else { ("", "") };
        write!(formatter, "{}{}{}:{}", brackets.0, self.name, brackets.1, self.port)
    }
}

/// The section `shared_state`: the store of several replicas.
#[derive(derive_more::Debug, Clone, PartialEq, Eq, Section)]
// `Debug` must not show passwords and keys.
#[debug("StoreSettings({address:?})")]
#[section(id = "shared_state", text = "url", process, variables, check = Self::complete)]
pub struct StoreSettings {
    /// Address of the Redis or Valkey server: `redis://store:6379`, `rediss://…` through TLS,
    /// `unix:/run/valkey.sock`,
    /// `redis+sentinel://a:26379,b:26379/mymaster`, or `redis+cluster://a:6379,b:6379`.
    #[key(name = "url", example = "url: redis://store:6379", restart)]
    pub address: StoreAddress,
    /// User name of the login.
    #[key(shown = "the server's default user", requires = "password", restart)]
    pub user: Option<String>,
    /// Password of that user: `file:/path` or `${NAME}`.
    #[key(shown = "there is no login", secret, restart)]
    pub password: Option<String>,
    /// User name of the login at the Sentinels.
    #[key(shown = "their default user", requires = "sentinel_password", restart)]
    pub sentinel_user: Option<String>,
    /// Password of that user: `file:/path` or `${NAME}`.
    #[key(shown = "there is no login", secret, restart)]
    pub sentinel_password: Option<String>,
    /// Number of the database; a Cluster has only 0.
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
    // The `redis` crate itself connects to the nodes of a Cluster, with options made from these TLS settings.
    #[key(shown = "the CAs of the system", restart)]
    pub tls: Option<ClientTls>,
}

/// Parses a prefix. The accepted characters have no special meaning in the glob patterns of Redis, which
/// `SCAN` and ACL rules use.
fn read_prefix(value: &Cursor<'_>) -> Checked<String> {
    const LIMIT_BYTES: usize = 64;
    let text = text_of(value)?;
    let is_allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.:/{}".contains(&byte);
    if !text.is_empty() && text.len() <= LIMIT_BYTES && text.bytes().all(is_allowed) {
        return Ok(text.to_owned());
    }
    let message = format!("{} must have 1 to {LIMIT_BYTES} letters, digits and `-_.:/{{}}`", value.name);
    value.reject(Invalid::without_value(message, "write the name of the service: `prefix: weather-tools`"))
}

impl StoreSettings {
    /// The number of the database to select.
    pub(super) fn selected_database(&self) -> i64 {
        self.address.database.or(self.database).unwrap_or_default().into()
    }

    /// Checks that the configured keys apply to the kind of store in the address, and completes `tls`.
    fn complete(mut self, section: &OpenSection<'_>) -> Checked<Self> {
        let (address, mut checked) = (&self.address, Ok(()));
        let mut reject =
            |at: CodedSpan, message: &str, help| checked = Err(section.reject_at(at, message, help));
        let span_of = |key| section.entry(key).map(|entry| Code::ConflictingKeys.at_span(entry.value.span));
        if let Some(at) = span_of("database") {
            if let Some(url_database) = address.database {
                let message =
                    format!("`database` has no effect beside the {url_database} that `url` ends with");
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
        if let Some(entry) = section.entry("tls").filter(|_| address.is_cluster()) {
            for key in ["fingerprint", "server_name"] {
                let Some(node) = entry.value.get(key) else { continue };
                let message =
                    format!("`{key}` has no effect with a Cluster: each node has its own certificate");
                let help = "remove it, and set `ca` to the CA of all nodes' certificates";
                reject(Code::ConflictingKeys.at_span(node.span), &message, help);
            }
        }
        self.tls = ClientTls::for_address(self.tls.take(), address.is_tls, "rediss://", section)?;
        checked.map(|()| self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, location: StoreLocation, is_tls: bool, database: Option<u32>) {
        let address = StoreAddress { location, text: text.into(), is_tls, database };
        assert_eq!(StoreAddress::parse(text), Ok(address));
    }

    #[track_caller]
    fn check_invalid(text: &str, expected: &str) {
        assert_eq!(StoreAddress::parse(text), Err(expected), "{text}");
    }

    fn host(name: &str, port: u16) -> StoreHost {
        StoreHost { name: name.into(), port }
    }

    #[test]
    fn a_store_is_reached_over_the_network_or_by_a_socket() {
        let server = |name, port| StoreLocation::Server(host(name, port));
        check("redis://store.internal", server("store.internal", 6379), false, None);
        check("redis://10.0.0.7:7000/3", server("10.0.0.7", 7000), false, Some(3));
        check("rediss://[::1]:6380/", server("::1", 6380), true, None);
        check("valkeys://[::1]", server("::1", 6379), true, None);
        check("unix:///run/valkey.sock", StoreLocation::Socket("/run/valkey.sock".into()), false, None);
    }

    #[test]
    fn sentinels_name_the_server() {
        let sentinels =
            |sentinels, primary: &str| StoreLocation::Sentinels { sentinels, primary: primary.into() };
        let two_hosts = vec![host("a", 26379), host("b", 7)];
        check("redis+sentinel://a,b:7/mymaster", sentinels(two_hosts, "mymaster"), false, None);
        let one_host = vec![host("::1", 26379)];
        check("valkeys+sentinel://[::1]/my-master/2", sentinels(one_host, "my-master"), true, Some(2));
        for primary in ["a,b", "a/my master"] {
            let expected = "the part after the hosts is not the name of a primary";
            check_invalid(&format!("redis+sentinel://{primary}"), expected);
        }
        check_invalid("redis+sentinel://a/mymaster/x", "the part after the host is not a database number");
        check_invalid("redis+sentinel://a,/mymaster", NO_HOST);
    }

    #[test]
    fn a_cluster_is_reached_by_some_of_its_nodes() {
        let nodes = vec![host("a", 6379), host("b", 7)];
        check("redis+cluster://a,b:7", StoreLocation::Cluster(nodes), false, None);
        check("rediss+cluster://a/", StoreLocation::Cluster(vec![host("a", 6379)]), true, None);
        let expected = "Redis Cluster supports only database 0; use `prefix` to separate keys";
        check_invalid("redis+cluster://a/1", expected);
        check_invalid("redis://a,b", "it has several hosts");
    }

    #[test]
    fn invalid_addresses_are_rejected() {
        for text in ["http://store", "redis+unix://store", "store:6379"] {
            check_invalid(text, NO_SCHEME);
        }
        let expected = "it contains a user or a password, which are keys of `shared_state`";
        check_invalid("redis://user:secret@store", expected);
        for text in ["redis://:6379", "redis://[::1"] {
            check_invalid(text, NO_HOST);
        }
        for text in ["redis://store:0", "redis://store:", "redis://[::1]7"] {
            check_invalid(text, "its port is not a number from 1 to 65535");
        }
        check_invalid("redis://store/65536", "the part after the host is not a database number");
        check_invalid("redis://store/prefix", "the part after the host is not a database number");
    }
}
