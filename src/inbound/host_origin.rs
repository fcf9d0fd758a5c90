//! Checks of `Host`, `Origin` and Fetch Metadata against the allowed hosts and origins: protection against
//! DNS rebinding and cross-site request forgery (CSRF).

use http::{HeaderMap, HeaderName, HeaderValue, StatusCode, Version, header, request::Parts, uri::Authority};

use super::filter::{FilterSettings, unexpected};
use super::{CrossOriginPage, ProtectedPort, Rejection};
use crate::settings::{FromText, Invalid};

/// Header that describes the relation between a page and the target of its request. Browsers send it with or
/// without an `Origin` (Fetch Metadata).
const SEC_FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");

/// Loopback hosts, as they occur in URLs.
const LOOPBACK: [&str; 3] = ["localhost", "127.0.0.1", "[::1]"];

/// Entry of `allowed_hosts`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum HostPattern {
    /// `*`.
    Any,
    /// A host. Without a port, it matches every port.
    Host(HostAndPort),
}

/// Entry of `allowed_origins`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum OriginPattern {
    /// `*`.
    Any,
    /// `null`.
    Null,
    /// An origin. Without a port, it has the default port of its scheme; a loopback host then matches every
    /// port.
    Origin {
        /// The scheme in lower case.
        scheme: String,
        /// The host and port.
        host: HostAndPort,
    },
}

impl HostPattern {
    /// Patterns of the loopback hosts.
    pub(super) fn loopback() -> Vec<Self> {
        LOOPBACK.iter().filter_map(|host| HostAndPort::parse(host)).map(Self::Host).collect()
    }
}

impl FromText for HostPattern {
    fn from_text(text: &str) -> Result<Self, Invalid> {
        if text == "*" {
            return Ok(Self::Any);
        }
        HostAndPort::parse(text).map(Self::Host).ok_or_else(|| match text.contains("://") {
            true => unexpected("a host", text, "write the host without scheme and path"),
            false => unexpected(
                "a host such as `tools.example.com` or `[::1]:8080`",
                text,
                "write a host, or `*` for all",
            ),
        })
    }
}

impl OriginPattern {
    /// Parses an origin, `null` or `*`.
    pub fn parse(text: &str) -> Option<Self> {
        match text {
            "*" => Some(Self::Any),
            "null" => Some(Self::Null),
            _ => parse_origin(text).map(|(scheme, host)| Self::Origin { scheme, host }),
        }
    }
}

impl FromText for OriginPattern {
    fn from_text(text: &str) -> Result<Self, Invalid> {
        let help = "write scheme and host, without a path; `*` for all";
        Self::parse(text).ok_or_else(|| unexpected("an origin such as `https://app.example.com`", text, help))
    }
}

/// Quotes a header value for an error: in backticks, at most 100 characters, visible ASCII only.
fn quoted(value: Option<&[u8]>) -> String {
    let Some(bytes) = value else { return "(none)".to_owned() };
    let visible =
        |byte: &u8| if (0x20..0x7f).contains(byte) && *byte != b'`' { char::from(*byte) } else { '?' };
    format!("`{}`", bytes.iter().take(100).map(visible).collect::<String>())
}

/// A host in lower case (IPv6 in brackets), with an optional port.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HostAndPort {
    host: String,
    port: Option<u16>,
}

impl HostAndPort {
    /// Whether the host needs no DNS: an IP address or `localhost`.
    fn needs_no_dns(&self) -> bool {
        let address = self.host.trim_start_matches('[').trim_end_matches(']');
        self.host == "localhost" || address.parse::<std::net::IpAddr>().is_ok()
    }

    fn parse(text: &str) -> Option<Self> {
        let authority: Authority = text.parse().ok()?;
        let (host, port) = (authority.host(), authority.port_u16());
        // A host with an invalid port is rejected, not treated as a host without a port.
        let has_port = !matches!(authority.as_str().strip_prefix(host), Some("" | ":"));
        let is_valid = !authority.as_str().contains('@') && !host.is_empty() && has_port == port.is_some();
        is_valid.then(|| Self { host: host.to_ascii_lowercase(), port })
    }
}

impl FilterSettings {
    /// Checks `Host`. Returns the host if it is an IP address, `localhost`, or allowed by name. Returns
    /// `None` if only `*` allows the host: DNS rebinding may have pointed its name at this address, so no
    /// page of that host counts as same-origin.
    pub(super) fn check_host(&self, head: &Parts) -> Result<Option<HostAndPort>, Rejection> {
        let (host, received) = request_host(head)?;
        let is_named = |found: &HostAndPort| {
            self.allowed_hosts.iter().any(|pattern| match pattern {
                HostPattern::Any => false,
                HostPattern::Host(allowed) => {
                    allowed.host == found.host && (allowed.port.is_none() || allowed.port == found.port)
                }
            })
        };
        if host.as_ref().is_some_and(is_named) {
            Ok(host)
        } else if self.allowed_hosts.contains(&HostPattern::Any) {
            Ok(host.filter(HostAndPort::needs_no_dns))
        } else {
            let section = match self.port {
                ProtectedPort::Clients => "server",
                ProtectedPort::Admin => "admin",
            };
            let found = quoted(received);
            let message =
                format!("host {found} is not allowed here; allow it with `{section}.allowed_hosts`");
            Err(Rejection::new(StatusCode::FORBIDDEN, "host is not allowed", message))
        }
    }

    /// Checks `Origin`. Returns the page of another origin that sent the request, if any.
    pub(super) fn check_origin(
        &self,
        headers: &HeaderMap,
        host: Option<&HostAndPort>,
    ) -> Result<CrossOriginPage, Rejection> {
        let mut page = CrossOriginPage::default();
        // No browser sends more than one `Origin` header. If there are several, each must be allowed.
        for value in headers.get_all(header::ORIGIN) {
            let text = value.to_str().unwrap_or("").trim();
            let origin = parse_origin(text);
            let is_same_origin = || {
                origin.as_ref().is_some_and(|(scheme, origin_host)| {
                    matches!(scheme.as_str(), "http" | "https") && Some(origin_host) == host
                })
            };
            if matches_any(&self.allowed_origins, text, origin.as_ref()) {
                page.allowed_origin = Some(value.clone());
            } else if !is_same_origin() && !self.tolerates(origin.as_ref()) {
                let (found, advice) = (quoted(Some(value.as_bytes())), self.port.advice());
                let message = format!("origin {found} is not allowed here: {advice}");
                return Err(Rejection::new(StatusCode::FORBIDDEN, "origin is not allowed", message));
            }
        }
        match headers.get(SEC_FETCH_SITE) {
            Some(site) if !headers.contains_key(header::ORIGIN) => self.check_site(headers, site.as_bytes()),
            _ => Ok(page),
        }
    }

    /// Checks `Sec-Fetch-Site`. Browsers send no `Origin` for an embedded image or a followed link, but mark
    /// the request as cross-site.
    fn check_site(&self, headers: &HeaderMap, site: &[u8]) -> Result<CrossOriginPage, Rejection> {
        if !matches!(site, b"cross-site" | b"same-site") {
            return Ok(CrossOriginPage::default());
        }
        let header_is =
            |name: &str, value: &[u8]| headers.get(name).is_some_and(|found| found.as_bytes() == value);
        let referrer = headers.get(header::REFERER).and_then(|value| value.to_str().ok()).unwrap_or("");
        // The origin ends at the third `/`, `?` or `#`: the first two are the `//` after the scheme.
        let end = referrer.match_indices(['/', '?', '#']).nth(2).map_or(referrer.len(), |(end, _)| end);
        let origin = parse_origin(&referrer[..end]);
        if matches_any(&self.allowed_origins, referrer, origin.as_ref()) || self.tolerates(origin.as_ref()) {
            Ok(CrossOriginPage::default())
        } else if header_is("sec-fetch-mode", b"navigate") && header_is("sec-fetch-dest", b"document") {
            // A user follows a link, for example to a page of the `passthrough` upstream.
            Ok(CrossOriginPage { allowed_origin: None, is_navigation: true })
        } else {
            Err(self.port.foreign_page())
        }
    }

    /// Whether an origin is admitted, but gets no CORS headers: a loopback origin on the port for clients,
    /// while no origins are configured. A page that uses DNS rebinding never has such an origin.
    fn tolerates(&self, origin: Option<&(String, HostAndPort)>) -> bool {
        let is_loopback = |(scheme, origin_host): &(String, HostAndPort)| {
            scheme == "http" && LOOPBACK.contains(&origin_host.host.as_str())
        };
        self.allowed_origins.is_empty()
            && self.port == ProtectedPort::Clients
            && origin.is_some_and(is_loopback)
    }
}

/// Reads the host of a request, allowed or not. Returns the parsed host, if it is valid, and the value as
/// received.
pub(super) fn request_host(head: &Parts) -> Result<(Option<HostAndPort>, Option<&[u8]>), Rejection> {
    let mut values = head.headers.get_all(header::HOST).iter();
    let (first, second) = (values.next(), values.next());
    if second.is_some() {
        // A proxy in front of glossator may have used another of the hosts (RFC 9112, section 3.2).
        let message = "the request names more than one host; it must name one";
        return Err(Rejection::new(StatusCode::BAD_REQUEST, "more than one host", message));
    }
    // HTTP/2 has the host in the URI.
    let uri_host = || head.uri.authority().map(|authority| authority.as_str().as_bytes());
    let received = first.map(HeaderValue::as_bytes).or_else(uri_host);
    let host = received.and_then(|bytes| HostAndPort::parse(std::str::from_utf8(bytes).ok()?));
    if host.is_none() && head.version == Version::HTTP_11 {
        let found = quoted(received);
        let message =
            format!("the request's `Host` is {found}; it must be a host, with its port where it has one");
        return Err(Rejection::new(StatusCode::BAD_REQUEST, "no valid host", message));
    }
    Ok((host, received))
}

fn matches_any(patterns: &[OriginPattern], text: &str, origin: Option<&(String, HostAndPort)>) -> bool {
    patterns.iter().any(|pattern| match pattern {
        OriginPattern::Any => true,
        OriginPattern::Null => text == "null",
        OriginPattern::Origin { scheme, host } => {
            origin.is_some_and(|(found, origin_host)| found == scheme && is_origin(scheme, host, origin_host))
        }
    })
}

/// Whether the allowed origin with the host `allowed` includes the origin with the host `found`, for the same
/// scheme. Without a port, `allowed` has the default port of the scheme, as in browsers. A loopback host
/// without a port matches every port, because each local program has its own.
fn is_origin(scheme: &str, allowed: &HostAndPort, found: &HostAndPort) -> bool {
    let default_port = match scheme {
        "http" => Some(80),
        "https" => Some(443),
        _ => None,
    };
    let matches_any_port = allowed.port.is_none() && LOOPBACK.contains(&allowed.host.as_str());
    allowed.host == found.host
        && (matches_any_port || allowed.port.or(default_port) == found.port.or(default_port))
}

/// Parses `scheme://host[:port]`. A path or slash after the port is an error.
fn parse_origin(text: &str) -> Option<(String, HostAndPort)> {
    let (scheme, rest) = text.split_once("://").filter(|(scheme, _)| !scheme.is_empty())?;
    Some((scheme.to_ascii_lowercase(), HostAndPort::parse(rest)?))
}
