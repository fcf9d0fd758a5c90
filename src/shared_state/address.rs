//! Where the store is.

use std::{fmt, path::PathBuf, str::FromStr};

/// Where the store is: `redis://HOST:PORT/DATABASE`, `rediss://…` through TLS, or `unix:/path`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoreAddress {
    pub(super) place: StorePlace,
    /// The database that the address names.
    pub database: Option<u32>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum StorePlace {
    Network { host: Box<str>, port: u16, is_tls: bool },
    Socket(PathBuf),
}

/// Why a text is no address of a store.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum StoreAddressError {
    /// It begins with nothing that is known.
    #[error("it begins with neither `redis://`, `rediss://` nor `unix:/`")]
    Scheme,
    /// There is a user or a password in it.
    #[error("it has a user or a password in it")]
    Credentials,
    /// There is no host.
    #[error("it has no host")]
    Host,
    /// The port is none.
    #[error("its port is not a number from 1 to 65535")]
    Port,
    /// What is behind the host is no number.
    #[error("what is behind the host is not a database number")]
    Database,
}

impl StoreAddress {
    /// The port where nobody says one.
    const PORT_DEFAULT: u16 = 6379;

    /// Whether it is reached through TLS.
    pub fn is_tls(&self) -> bool {
        matches!(self.place, StorePlace::Network { is_tls: true, .. })
    }
}

impl FromStr for StoreAddress {
    type Err = StoreAddressError;

    fn from_str(text: &str) -> Result<Self, StoreAddressError> {
        if let Some(path) = text.strip_prefix("unix:").filter(|path| path.starts_with('/')) {
            // `unix:///run/x` is written, too.
            let path = format!("/{}", path.trim_start_matches('/'));
            return Ok(Self { place: StorePlace::Socket(path.into()), database: None });
        }
        let plain = ["redis://", "valkey://"].iter().find_map(|scheme| text.strip_prefix(scheme));
        let tls = || ["rediss://", "valkeys://"].iter().find_map(|scheme| text.strip_prefix(scheme));
        let (rest, is_tls) = match plain {
            Some(rest) => (rest, false),
            None => (tls().ok_or(StoreAddressError::Scheme)?, true),
        };
        if rest.contains('@') {
            return Err(StoreAddressError::Credentials);
        }
        let (authority, database) = rest.split_once('/').unwrap_or((rest, ""));
        let database = match database {
            "" => None,
            number => Some(number.parse().map_err(|_| StoreAddressError::Database)?),
        };
        let (host, port) = match authority.strip_prefix('[') {
            Some(rest) => {
                let (host, behind) = rest.split_once(']').ok_or(StoreAddressError::Host)?;
                (host, if behind.is_empty() { None } else { Some(behind.strip_prefix(':').unwrap_or("?")) })
            }
            None => authority.split_once(':').map_or((authority, None), |(host, port)| (host, Some(port))),
        };
        let is_good = |character: char| character.is_ascii_alphanumeric() || "-._:".contains(character);
        if host.is_empty() || !host.chars().all(is_good) {
            return Err(StoreAddressError::Host);
        }
        let port = match port {
            None => Self::PORT_DEFAULT,
            Some(port) => match port.parse() {
                Ok(0) | Err(_) => return Err(StoreAddressError::Port),
                Ok(port) => port,
            },
        };
        Ok(Self { place: StorePlace::Network { host: host.into(), port, is_tls }, database })
    }
}

impl fmt::Display for StoreAddress {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.place {
            StorePlace::Socket(path) => write!(formatter, "unix:{}", path.display()),
            StorePlace::Network { host, port, is_tls } => {
                let scheme = if *is_tls { "rediss" } else { "redis" };
                let brackets = if host.contains(':') { ("[", "]") } else { ("", "") };
                write!(formatter, "{scheme}://{}{host}{}:{port}", brackets.0, brackets.1)
            }
        }
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
    fn what_is_no_address_is_told() {
        check("http://store", Err(StoreAddressError::Scheme));
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
