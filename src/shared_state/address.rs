//! Where the store is, and how it is reached.

use std::{fmt, path::PathBuf, str::FromStr, time::Duration};

use crate::{
    crypto::Secret,
    tls::{ClientTls, Identity},
};

/// The address of Redis or Valkey.
///
/// One server: `redis://HOST:PORT/DATABASE` or `unix:/path`. The primary that Sentinels know:
/// `redis+sentinel://HOST:PORT,…/NAME/DATABASE`. A Cluster: `redis+cluster://HOST:PORT,…`. With `rediss` in
/// the place of `redis` through TLS; `valkey` and `valkeys` mean the same.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoreAddress {
    pub(super) place: Place,
    is_tls: bool,
    /// The database that the address names.
    pub database: Option<u32>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Place {
    Server(Host),
    Socket(PathBuf),
    Sentinels { sentinels: Vec<Host>, primary: Box<str> },
    Cluster(Vec<Host>),
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Host {
    pub(super) name: Box<str>,
    pub(super) port: u16,
}

/// Why a text is no address of a store.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum StoreAddressError {
    /// The scheme is unknown.
    #[error("it begins with neither `redis://`, `rediss://` nor `unix:/`")]
    Scheme,
    /// There is a user or a password in it.
    #[error("it has a user or a password in it")]
    Credentials,
    /// A host is missing or malformed.
    #[error("it has no host")]
    Host,
    /// Several hosts, and no word on how they belong together.
    #[error("it has several hosts")]
    SeveralHosts,
    /// The port is none.
    #[error("its port is not a number from 1 to 65535")]
    Port,
    /// The path is no number.
    #[error("what is behind the host is not a database number")]
    Database,
    /// The name of the primary is missing or malformed.
    #[error("what is behind the hosts is not the name by which Sentinels know the primary")]
    Primary,
    /// A database of a Cluster.
    #[error("a Cluster has no databases")]
    ClusterDatabase,
}

impl StoreAddress {
    const PORT_DEFAULT: u16 = 6379;
    const SENTINEL_PORT_DEFAULT: u16 = 26379;

    /// Whether it is reached through TLS.
    pub fn is_tls(&self) -> bool {
        self.is_tls
    }

    /// Whether Sentinels are asked for the server.
    pub fn is_sentinel(&self) -> bool {
        matches!(self.place, Place::Sentinels { .. })
    }

    /// Whether it is a Cluster.
    pub fn is_cluster(&self) -> bool {
        matches!(self.place, Place::Cluster(_))
    }
}

impl FromStr for StoreAddress {
    type Err = StoreAddressError;

    fn from_str(text: &str) -> Result<Self, StoreAddressError> {
        use StoreAddressError as Error;

        if let Some(path) = text.strip_prefix("unix:").filter(|path| path.starts_with('/')) {
            // `unix:///run/x` is written, too.
            let path = format!("/{}", path.trim_start_matches('/'));
            return Ok(Self { place: Place::Socket(path.into()), is_tls: false, database: None });
        }
        let (scheme, rest) = text.split_once("://").ok_or(Error::Scheme)?;
        let (server, kind) = scheme.split_once('+').unwrap_or((scheme, ""));
        let is_tls = match server {
            "redis" | "valkey" => false,
            "rediss" | "valkeys" => true,
            _ => return Err(Error::Scheme),
        };
        if rest.contains('@') {
            return Err(Error::Credentials);
        }
        let (authority, path) = rest.split_once('/').unwrap_or((rest, ""));
        let hosts =
            |port| authority.split(',').map(|host| Host::parse(host, port)).collect::<Result<Vec<_>, _>>();
        let (place, database) = match kind {
            "" if authority.contains(',') => return Err(Error::SeveralHosts),
            "" => (Place::Server(Host::parse(authority, Self::PORT_DEFAULT)?), path),
            "cluster" if !path.is_empty() => return Err(Error::ClusterDatabase),
            "cluster" => (Place::Cluster(hosts(Self::PORT_DEFAULT)?), path),
            "sentinel" => {
                let sentinels = hosts(Self::SENTINEL_PORT_DEFAULT)?;
                let (primary, database) = path.split_once('/').unwrap_or((path, ""));
                // What Sentinel itself takes for a name.
                let is_good = |byte: u8| byte.is_ascii_alphanumeric() || b"-._".contains(&byte);
                if primary.is_empty() || !primary.bytes().all(is_good) {
                    return Err(Error::Primary);
                }
                (Place::Sentinels { sentinels, primary: primary.into() }, database)
            }
            _ => return Err(Error::Scheme),
        };
        let database = match database {
            "" => None,
            number => Some(number.parse().map_err(|_| Error::Database)?),
        };
        Ok(Self { place, is_tls, database })
    }
}

impl fmt::Display for StoreAddress {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scheme = if self.is_tls { "rediss" } else { "redis" };
        let list = |hosts: &[Host]| hosts.iter().map(Host::to_string).collect::<Vec<_>>().join(",");
        match &self.place {
            Place::Socket(path) => write!(formatter, "unix:{}", path.display()),
            Place::Server(host) => write!(formatter, "{scheme}://{host}"),
            Place::Sentinels { sentinels, primary } => {
                write!(formatter, "{scheme}+sentinel://{}/{primary}", list(sentinels))
            }
            Place::Cluster(nodes) => write!(formatter, "{scheme}+cluster://{}", list(nodes)),
        }
    }
}

impl Host {
    fn parse(text: &str, port_default: u16) -> Result<Self, StoreAddressError> {
        let (name, port) = match text.strip_prefix('[') {
            Some(rest) => {
                let (name, behind) = rest.split_once(']').ok_or(StoreAddressError::Host)?;
                (name, if behind.is_empty() { None } else { Some(behind.strip_prefix(':').unwrap_or("?")) })
            }
            None => text.split_once(':').map_or((text, None), |(name, port)| (name, Some(port))),
        };
        let is_good = |character: char| character.is_ascii_alphanumeric() || "-._:".contains(character);
        if name.is_empty() || !name.chars().all(is_good) {
            return Err(StoreAddressError::Host);
        }
        let port = match port.map(str::parse) {
            None => port_default,
            Some(Ok(0) | Err(_)) => return Err(StoreAddressError::Port),
            Some(Ok(port)) => port,
        };
        Ok(Self { name: name.into(), port })
    }
}

impl fmt::Display for Host {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let brackets = if self.name.contains(':') { ("[", "]") } else { ("", "") };
        write!(formatter, "{}{}{}:{}", brackets.0, self.name, brackets.1, self.port)
    }
}

/// Where the store is, and what is kept there.
#[derive(Clone, PartialEq, Eq)]
pub struct StoreSettings {
    /// Where it is.
    pub address: StoreAddress,
    /// Whom to take it for, where it is reached through TLS.
    pub tls: Option<StoreTls>,
    /// As whom to log in.
    pub login: StoreLogin,
    /// As whom to log in at Sentinels.
    pub sentinel_login: StoreLogin,
    /// Which of its databases.
    pub database: u32,
    /// What all names there begin with.
    pub prefix: String,
    /// How long one response may take.
    pub timeout: Duration,
    /// How long one value may be.
    pub entry_limit_bytes: usize,
    /// What is written there is sealed with, the same on every replica.
    pub secret: Secret,
}

/// A user and a password; without a password there is no login, without a user it is the default one.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct StoreLogin {
    /// The user.
    pub user: Option<String>,
    /// The password.
    pub password: Option<String>,
}

/// How connections through TLS are made.
#[derive(Clone)]
pub struct StoreTls {
    /// Of one server, and of Sentinels and the server they name.
    pub client: ClientTls,
    /// The roots in PEM where they are not the system's: the nodes of a Cluster are connected to by the
    /// library.
    pub ca: Option<Vec<u8>>,
    /// Our own certificate, for the same.
    pub identity: Option<Identity>,
}

// The client is made of the other two.
impl PartialEq for StoreTls {
    fn eq(&self, other: &Self) -> bool {
        self.client == other.client
    }
}

impl Eq for StoreTls {}

impl StoreSettings {
    /// For [`prefix`](Self::prefix).
    pub const PREFIX_DEFAULT: &str = "glossator";
    /// For [`timeout`](Self::timeout).
    pub const TIMEOUT_DEFAULT: Duration = Duration::from_millis(250);
    /// For [`entry_limit_bytes`](Self::entry_limit_bytes).
    pub const ENTRY_LIMIT_BYTES_DEFAULT: usize = 1 << 20;
}

/// Without passwords and keys.
impl fmt::Debug for StoreSettings {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("StoreSettings")
            .field("address", &self.address)
            .field("user", &self.login.user)
            .field("database", &self.database)
            .field("prefix", &self.prefix)
            .field("timeout", &self.timeout)
            .field("entry_limit_bytes", &self.entry_limit_bytes)
            .finish_non_exhaustive()
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
        check("redis+sentinel://a,b", Err(StoreAddressError::Primary));
        check("redis+sentinel://a/my master", Err(StoreAddressError::Primary));
        check("redis+sentinel://a/mymaster/x", Err(StoreAddressError::Database));
        check("redis+sentinel://a,/mymaster", Err(StoreAddressError::Host));
    }

    #[test]
    fn a_cluster_is_reached_by_some_of_its_nodes() {
        check("redis+cluster://a,b:7", Ok(("redis+cluster://a:6379,b:7", None)));
        check("rediss+cluster://a/", Ok(("rediss+cluster://a:6379", None)));
        check("redis+cluster://a/1", Err(StoreAddressError::ClusterDatabase));
        check("redis://a,b", Err(StoreAddressError::SeveralHosts));
    }

    #[test]
    fn other_texts_are_refused() {
        check("http://store", Err(StoreAddressError::Scheme));
        check("redis+unix://store", Err(StoreAddressError::Scheme));
        check("store:6379", Err(StoreAddressError::Scheme));
        check("redis://user:secret@store", Err(StoreAddressError::Credentials));
        check("redis://:6379", Err(StoreAddressError::Host));
        check("redis://[::1", Err(StoreAddressError::Host));
        check("redis://store:0", Err(StoreAddressError::Port));
        check("redis://store:", Err(StoreAddressError::Port));
        check("redis://[::1]7", Err(StoreAddressError::Port));
        check("redis://store/prefix", Err(StoreAddressError::Database));
    }
}
