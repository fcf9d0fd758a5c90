//! Addresses of upstreams.

use std::{
    fmt,
    net::SocketAddr,
    path::{Path, PathBuf},
    str::FromStr,
};

use http::{
    HeaderValue, Uri,
    uri::{Authority, PathAndQuery, Scheme},
};

use crate::route::PathBase;

/// Address of an upstream: `http://HOST[:PORT][/BASE]`, `https://HOST[:PORT][/BASE]` or
/// `unix:/PATH/TO/SOCKET[:/BASE]`. Paths of routes are appended to the base path.
#[derive(derive_more::Debug, Clone, PartialEq, Eq)]
#[debug("Address({self})")]
pub struct Address {
    scheme: Scheme,
    authority: Authority,
    socket: Option<PathBuf>,
    base: Box<str>,
    /// Whether the base path is a secret.
    is_base_hidden: bool,
}

/// Reason why a string is not the address of an upstream. The text continues a sentence after its subject.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum AddressError {
    /// Not a URL.
    #[error("is invalid")]
    NotAUrl,
    /// Unsupported scheme.
    #[error("does not begin with `http://`, `https://` or `unix:`")]
    Scheme,
    /// `unix:` without the absolute path of a socket.
    #[error("has no path of a socket")]
    Socket,
    /// Contains a user or password.
    #[error("contains a user or password")]
    Credentials,
    /// Contains a query or fragment.
    #[error("contains a query or a fragment")]
    Query,
}

impl Address {
    /// Host and port, without the default port. `localhost` for a UNIX socket, also in the `Host` header.
    pub fn authority(&self) -> &Authority {
        &self.authority
    }

    /// Value of the `Host` header.
    pub(super) fn host_header(&self) -> HeaderValue {
        HeaderValue::from_str(self.authority.as_str())
            .expect("an authority has visible ASCII characters only")
    }

    /// Marks the base path as secret: some services expect an API key in the path.
    #[must_use]
    pub fn with_hidden_base(self) -> Self {
        Self { is_base_hidden: !self.base.is_empty(), ..self }
    }

    /// Base path, if it is secret.
    pub(super) fn hidden_base(&self) -> Option<&str> {
        self.is_base_hidden.then_some(&*self.base)
    }

    /// Base path for display: hidden if it is secret.
    pub(super) fn displayed_base(&self) -> &str {
        if self.is_base_hidden { "/…" } else { &self.base }
    }

    /// Whether connections use TLS.
    pub fn is_tls(&self) -> bool {
        self.scheme == Scheme::HTTPS
    }

    /// Whether the server is on this machine, so that requests cross no network.
    pub fn is_local(&self) -> bool {
        self.socket().is_some()
            || self.name().is_some_and(|(name, _)| name.eq_ignore_ascii_case("localhost"))
            || self.ip().is_some_and(|address| address.ip().to_canonical().is_loopback())
    }

    /// Path of the UNIX socket, if the address is a UNIX socket.
    pub fn socket(&self) -> Option<&Path> {
        self.socket.as_deref()
    }

    /// Host and port. `None` for a UNIX socket.
    pub fn host(&self) -> Option<(&str, u16)> {
        let host = self.authority.host();
        let host = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
        let port = self.authority.port_u16().unwrap_or_else(|| self.default_port());
        self.socket.is_none().then_some((host, port))
    }

    /// Host and port, if the host is a name that needs DNS.
    pub fn name(&self) -> Option<(&str, u16)> {
        self.host().filter(|_| self.ip().is_none())
    }

    /// IP address and port, if the host is an IP address.
    pub fn ip(&self) -> Option<SocketAddr> {
        let (host, port) = self.host()?;
        Some(SocketAddr::new(host.parse().ok()?, port))
    }

    fn default_port(&self) -> u16 {
        if self.is_tls() { 443 } else { 80 }
    }

    /// URI of a path below the base path.
    ///
    /// # Errors
    ///
    /// An error if base path and path together are invalid or too long.
    pub fn join(&self, path_and_query: &PathAndQuery) -> Result<Uri, http::Error> {
        self.uri(PathBase::UpstreamUrl, path_and_query)
    }

    /// URI of a path below `under`. For [`PathBase::UrlItself`], the path is ignored, and the URI is the
    /// configured URL.
    ///
    /// # Errors
    ///
    /// As [`join`](Self::join).
    pub(super) fn uri(&self, base: PathBase, path_and_query: &PathAndQuery) -> Result<Uri, http::Error> {
        let path = path_and_query.as_str();
        let slash = if path.starts_with('/') { "" } else { "/" };
        let path_and_query = match base {
            PathBase::UrlItself if self.base.is_empty() => PathAndQuery::from_static("/"),
            PathBase::UrlItself => self.base.parse()?,
            PathBase::UpstreamUrl if !self.base.is_empty() || !slash.is_empty() => {
                format!("{}{slash}{path}", self.base).parse()?
            }
            PathBase::UpstreamUrl | PathBase::Origin => path_and_query.clone(),
        };
        let builder = Uri::builder().scheme(self.scheme.clone()).authority(self.authority.clone());
        builder.path_and_query(path_and_query).build()
    }

    fn new(
        scheme: Scheme,
        authority: Authority,
        socket: Option<PathBuf>,
        path: &PathAndQuery,
    ) -> Result<Self, AddressError> {
        if path.query().is_some() {
            return Err(AddressError::Query);
        }
        let base = path.path().trim_end_matches('/').into();
        Ok(Self { scheme, authority, socket, base, is_base_hidden: false })
    }

    fn from_socket_path(text: &str) -> Result<Self, AddressError> {
        let (socket, base) = text.split_once(":/").unwrap_or((text, ""));
        if !socket.starts_with('/') || socket.ends_with('/') || socket.contains('\0') {
            return Err(AddressError::Socket);
        }
        let base: PathAndQuery = format!("/{base}").parse().map_err(|_| AddressError::Socket)?;
        Self::new(Scheme::HTTP, Authority::from_static("localhost"), Some(socket.into()), &base)
    }
}

impl FromStr for Address {
    type Err = AddressError;

    fn from_str(text: &str) -> Result<Self, AddressError> {
        if text.contains('#') {
            return Err(AddressError::Query);
        }
        if let Some(socket) = text.strip_prefix("unix:") {
            // `unix:///run/app.sock` is common, too.
            return Self::from_socket_path(socket.strip_prefix("//").unwrap_or(socket));
        }
        let uri: Uri = text.parse().map_err(|_| AddressError::NotAUrl)?;
        let parts = uri.into_parts();
        let scheme = parts.scheme.ok_or(AddressError::NotAUrl)?;
        if scheme != Scheme::HTTP && scheme != Scheme::HTTPS {
            return Err(AddressError::Scheme);
        }
        let authority = parts.authority.ok_or(AddressError::NotAUrl)?;
        if authority.as_str().contains('@') {
            return Err(AddressError::Credentials);
        }
        // The URI parser accepts `host:` and `host:99999`, which can't be connected to.
        let has_port = authority.as_str() != authority.host();
        if authority.host().is_empty() || (has_port && authority.port_u16().is_none_or(|port| port == 0)) {
            return Err(AddressError::NotAUrl);
        }
        let path = parts.path_and_query.unwrap_or_else(|| PathAndQuery::from_static("/"));
        let mut address = Self::new(scheme, authority, None, &path)?;
        // Remove a default port (RFC 9110, section 4.2.3): some servers find no virtual host for a name with
        // a port.
        if address.authority.port_u16() == Some(address.default_port()) {
            address.authority = address.authority.host().parse().map_err(|_| AddressError::NotAUrl)?;
        }
        Ok(address)
    }
}

impl fmt::Display for Address {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let base = self.displayed_base();
        match &self.socket {
            Some(socket) if base.is_empty() => write!(formatter, "unix:{}", socket.display()),
            Some(socket) => write!(formatter, "unix:{}:{base}", socket.display()),
            None => write!(formatter, "{}://{}{base}", self.scheme, self.authority),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn join_path(address: &str, path: &str) -> String {
        address.parse::<Address>().unwrap().join(&path.parse().unwrap()).unwrap().to_string()
    }

    #[test]
    fn a_path_is_put_after_the_base() {
        assert_eq!(join_path("http://127.0.0.1:9000", "/a?b=c"), "http://127.0.0.1:9000/a?b=c");
        assert_eq!(join_path("http://old.test/api/v1/", "/a"), "http://old.test/api/v1/a");
        assert_eq!(join_path("https://[::1]:9000/api", "/?q"), "https://[::1]:9000/api/?q");
        assert_eq!(join_path("unix:/run/app.sock:/api/", "/a"), "http://localhost/api/a");
    }

    #[test]
    fn a_hidden_base_is_sent_and_not_shown() {
        let address = "http://hooks.test/T000/XXXX".parse::<Address>().unwrap().with_hidden_base();
        assert_eq!(format!("{address} {address:?}"), "http://hooks.test/… Address(http://hooks.test/…)");
        let uri = address.join(&PathAndQuery::from_static("/x")).unwrap();
        assert_eq!(uri.to_string(), "http://hooks.test/T000/XXXX/x");
        let plain = "http://hooks.test".parse::<Address>().unwrap();
        assert_eq!(plain.clone().with_hidden_base(), plain);
    }

    #[test]
    fn a_socket_is_a_path_and_maybe_a_base() {
        let address: Address = "unix:/run/my app.sock".parse().unwrap();
        assert_eq!(address.socket(), Some(Path::new("/run/my app.sock")));
        for (configured, displayed) in [
            ("unix:/run/a.sock", "unix:/run/a.sock"),
            ("unix:///run/a.sock:/v1", "unix:/run/a.sock:/v1"),
            ("https://h:444/b/", "https://h:444/b"),
            ("https://h:443/b", "https://h/b"),
            ("http://[::1]:80", "http://[::1]"),
        ] {
            assert_eq!(configured.parse::<Address>().unwrap().to_string(), displayed);
        }
    }

    #[test]
    fn a_name_is_looked_up_and_a_number_is_not() {
        let address = |text: &str| text.parse::<Address>().unwrap();
        assert_eq!(address("https://old.test/api").name(), Some(("old.test", 443)));
        assert_eq!(address("http://old.test:81").name(), Some(("old.test", 81)));
        for (ip_address, expected) in [("http://127.0.0.1", "127.0.0.1:80"), ("https://[::1]:9", "[::1]:9")] {
            assert_eq!((address(ip_address).name(), address(ip_address).ip()), (None, expected.parse().ok()));
        }
        assert_eq!((address("unix:/a").name(), address("unix:/a").ip()), (None, None));
    }

    #[test]
    fn loopback_is_local_and_similar_names_are_not() {
        let is_local = |text: &str| text.parse::<Address>().unwrap().is_local();
        for near in ["http://localhost:81/x", "http://127.0.0.9", "http://[::1]:9", "unix:/a"] {
            assert!(is_local(near), "{near}");
        }
        for far in ["http://127.old.test", "http://localhost.old.test", "http://old.test", "http://10.0.0.1"]
        {
            assert!(!is_local(far), "{far}");
        }
    }

    #[test]
    fn address_errors_are_reported() {
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
        assert_eq!(error("ftp://h"), AddressError::Scheme);
        assert_eq!(error("http://user:secret@h"), AddressError::Credentials);
        assert_eq!(error("http://h/?a=b"), AddressError::Query);
        for text in ["unix:", "unix:app.sock", "unix:/run/", "unix://h/x/:/b", "unix:/a:/ b"] {
            assert_eq!(error(text), AddressError::Socket, "{text}");
        }
        assert_eq!(error("unix:/a:/b?c"), AddressError::Query);
    }
}
