//! Where an upstream is.

use std::{fmt, str::FromStr};

use http::{
    Uri,
    uri::{Authority, PathAndQuery, Scheme},
};

/// `http://HOST[:PORT][/BASE]`: the paths of routes are put after the base.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Address {
    authority: Authority,
    base: Box<str>,
}

/// Why a text is not the address of an upstream.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum AddressError {
    /// Not a URL at all.
    #[error("not a URL; expected `http://HOST:PORT` or `http://HOST:PORT/BASE`")]
    NotAUrl,
    /// Another scheme than `http`.
    #[error("only `http://` addresses can be reached")]
    Scheme,
    /// A user or a password in it.
    #[error("has a user or password in it; send credentials with `headers`")]
    Credentials,
    /// A query or a fragment in it.
    #[error("has a query in it; queries belong to routes")]
    Query,
}

impl Address {
    /// Host and port.
    pub fn authority(&self) -> &Authority {
        &self.authority
    }

    /// The URI of a path of this upstream.
    ///
    /// # Errors
    ///
    /// When base and path together are no path, or too long for one.
    pub fn join(&self, path_and_query: &PathAndQuery) -> Result<Uri, http::Error> {
        let builder = Uri::builder().scheme(Scheme::HTTP).authority(self.authority.clone());
        if self.base.is_empty() && path_and_query.as_str().starts_with('/') {
            return builder.path_and_query(path_and_query.clone()).build();
        }
        let slash = if path_and_query.as_str().starts_with('/') { "" } else { "/" };
        builder.path_and_query(format!("{}{slash}{path_and_query}", self.base)).build()
    }
}

impl FromStr for Address {
    type Err = AddressError;

    fn from_str(text: &str) -> Result<Self, AddressError> {
        if text.contains('#') {
            return Err(AddressError::Query);
        }
        let uri: Uri = text.parse().map_err(|_| AddressError::NotAUrl)?;
        let parts = uri.into_parts();
        match parts.scheme {
            None => return Err(AddressError::NotAUrl),
            Some(scheme) if scheme != Scheme::HTTP => return Err(AddressError::Scheme),
            Some(_) => {}
        }
        let authority = parts.authority.ok_or(AddressError::NotAUrl)?;
        if authority.as_str().contains('@') {
            return Err(AddressError::Credentials);
        }
        // `host:` and `host:99999` are authorities to the parser, and no place to connect to.
        let port = authority
            .as_str()
            .rsplit_once(':')
            .filter(|(host, _)| !host.starts_with('[') || host.ends_with(']'));
        if authority.host().is_empty()
            || (port.is_some() && authority.port_u16().is_none_or(|port| port == 0))
        {
            return Err(AddressError::NotAUrl);
        }
        let path = parts.path_and_query.unwrap_or_else(|| PathAndQuery::from_static("/"));
        if path.query().is_some() {
            return Err(AddressError::Query);
        }
        Ok(Self { authority, base: path.path().trim_end_matches('/').into() })
    }
}

impl fmt::Display for Address {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "http://{}{}", self.authority, self.base)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn joined(address: &str, path: &str) -> String {
        address.parse::<Address>().unwrap().join(&path.parse().unwrap()).unwrap().to_string()
    }

    #[test]
    fn a_path_is_put_after_the_base() {
        assert_eq!(joined("http://127.0.0.1:9000", "/a?b=c"), "http://127.0.0.1:9000/a?b=c");
        assert_eq!(joined("http://old.test/api/v1/", "/a"), "http://old.test/api/v1/a");
        assert_eq!(joined("http://[::1]:9000/api", "/?q"), "http://[::1]:9000/api/?q");
    }

    #[test]
    fn what_is_wrong_with_an_address_is_said() {
        let error = |text: &str| text.parse::<Address>().unwrap_err();
        for text in [
            "",
            "localhost",
            "localhost:9000",
            "/path",
            "http://",
            "http://h:",
            "http://h:99999",
            "http://h:0",
        ] {
            assert_eq!(error(text), AddressError::NotAUrl, "{text}");
        }
        assert_eq!(error("https://h"), AddressError::Scheme);
        assert_eq!(error("http://user:secret@h"), AddressError::Credentials);
        assert_eq!(error("http://h/?a=b"), AddressError::Query);
    }
}
