//! `Host` and `Origin` against what is allowed.

use std::{fmt, time::Duration};

use http::{HeaderMap, HeaderName, HeaderValue, StatusCode, Version, header, request::Parts, uri::Authority};
use ipnet::IpNet;

use super::{DoorSettings, LOOPBACK, Page, PagesHere};
use crate::inbound::context::Reason;

/// Whose page sends a request, seen from where it goes, as browsers say it beside or without an `Origin` (Fetch Metadata).
const SEC_FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");
const SEC_FETCH_MODE: HeaderName = HeaderName::from_static("sec-fetch-mode");
const SEC_FETCH_DEST: HeaderName = HeaderName::from_static("sec-fetch-dest");

/// What is asked of every request.
#[derive(Debug)]
pub(super) struct Checks {
    hosts: Vec<HostRule>,
    /// Pages that may read what we answer.
    origins: Vec<OriginRule>,
    /// Pages that come in all the same: nobody pointed a name at us for them.
    tolerated: Vec<OriginRule>,
    pub(super) body_limit_bytes: usize,
    pub(super) bodies_limit_bytes: usize,
    pub(super) body_timeout: Duration,
    pub(super) trusted_proxies: Vec<IpNet>,
}

/// Why a request does not come in. The text may reach the client.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Refused {
    /// A host that is not allowed, or none where HTTP/1.1 is not spoken: HTTP 403.
    #[error("host {found} is not allowed here; allow it with `server.allowed_hosts`")]
    Host {
        /// What was found, quoted.
        found: Quoted,
    },
    /// More than one host: HTTP 400 (RFC 9112, section 3.2). Whoever stands before us may have looked at another one.
    #[error("the request names more than one host; it must name one")]
    Hosts,
    /// No host in a request of HTTP/1.1, or what can be none: HTTP 400 (the same section).
    #[error("the request's `Host` is {found}; it must be a host, with its port where it has one")]
    NoHost {
        /// What was found, quoted.
        found: Quoted,
    },
    /// An `Origin` that is not allowed: HTTP 403.
    #[error("origin {found} is not allowed here; allow it with `server.allowed_origins`")]
    Origin {
        /// What was found, quoted.
        found: Quoted,
    },
    /// From a page of another origin that sends no `Origin`, as for an image: HTTP 403.
    #[error("web pages of other origins may not call this server; allow them with `server.allowed_origins`")]
    Page,
}

impl Reason for Refused {
    fn reason(&self) -> &'static str {
        match self {
            Self::Host { .. } => "host is not allowed",
            Self::Hosts => "more than one host",
            Self::NoHost { .. } => "no valid host",
            Self::Origin { .. } => "origin is not allowed",
            Self::Page => "pages of other origins are not allowed",
        }
    }
}

impl Refused {
    /// The HTTP status that says so.
    pub fn status(&self) -> StatusCode {
        match self {
            Self::Hosts | Self::NoHost { .. } => StatusCode::BAD_REQUEST,
            Self::Host { .. } | Self::Origin { .. } | Self::Page => StatusCode::FORBIDDEN,
        }
    }
}

/// A header's value as an error shows it: in backticks, at most 100 characters, nothing but visible ASCII.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Quoted(Option<String>);

impl Quoted {
    fn of(value: Option<&[u8]>) -> Self {
        Self(value.map(|bytes| {
            let visible = |byte: &u8| {
                if (0x20..0x7f).contains(byte) && *byte != b'`' { char::from(*byte) } else { '?' }
            };
            bytes.iter().take(100).map(visible).collect()
        }))
    }
}

impl fmt::Display for Quoted {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Some(text) => write!(formatter, "`{text}`"),
            None => formatter.write_str("(none)"),
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum HostRule {
    Any,
    Host(HostAndPort),
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum OriginRule {
    Any,
    Null,
    Origin { scheme: String, host: HostAndPort },
}

/// A host in lower case, an IPv6 address in brackets, and a port if one is written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct HostAndPort {
    host: String,
    port: Option<u16>,
}

impl HostAndPort {
    /// Whether nobody can point it elsewhere: an address, or this machine.
    fn is_no_name(&self) -> bool {
        let address = self.host.trim_start_matches('[').trim_end_matches(']');
        self.host == "localhost" || address.parse::<std::net::IpAddr>().is_ok()
    }

    fn parse(text: &str) -> Option<Self> {
        let authority: Authority = text.parse().ok()?;
        let (host, port) = (authority.host(), authority.port_u16());
        // A port that is no number of one is not as good as none.
        let has_port = !matches!(authority.as_str().strip_prefix(host), Some("" | ":"));
        let plain = !authority.as_str().contains('@') && !host.is_empty() && has_port == port.is_some();
        plain.then(|| Self { host: host.to_ascii_lowercase(), port })
    }

    /// Whether `found` is this host; without a port, on any.
    fn covers(&self, found: &Self) -> bool {
        self.host == found.host && (self.port.is_none() || self.port == found.port)
    }
}

impl Checks {
    pub(super) fn new(settings: &DoorSettings) -> Self {
        let host = |text: &String| match text.trim() {
            "*" => Some(HostRule::Any),
            text => HostAndPort::parse(text).map(HostRule::Host),
        };
        let origin = |text: &String| match text.trim() {
            "*" => Some(OriginRule::Any),
            "null" => Some(OriginRule::Null),
            text => parse_origin(text).map(|(scheme, host)| OriginRule::Origin { scheme, host }),
        };
        let origins: Vec<_> = settings.allowed_origins.iter().filter_map(origin).collect();
        let tolerated = match settings.allowed_origins.is_empty() && settings.pages_here == PagesHere::LetIn {
            true => LOOPBACK.iter().filter_map(|host| origin(&format!("http://{host}"))).collect(),
            false => Vec::new(),
        };
        Self {
            hosts: settings.allowed_hosts.iter().filter_map(host).collect(),
            origins,
            tolerated,
            body_limit_bytes: settings.body_limit_bytes,
            bodies_limit_bytes: settings.bodies_limit_bytes,
            body_timeout: settings.body_timeout,
            trusted_proxies: settings.trusted_proxies.clone(),
        }
    }

    /// The host that was addressed, if it is allowed by its name, or is an address; `None` when it is only one of any. A
    /// page of a name that is not ours may have been pointed at this address, and is then no page of ours.
    pub(super) fn check_host(&self, head: &Parts) -> Result<Option<HostAndPort>, Refused> {
        let Named { host, written } = named_host(head)?;
        let by_name = self.hosts.iter().any(|rule| match rule {
            HostRule::Any => false,
            HostRule::Host(rule) => host.as_ref().is_some_and(|host| rule.covers(host)),
        });
        if by_name {
            Ok(host)
        } else if self.hosts.contains(&HostRule::Any) {
            Ok(host.filter(HostAndPort::is_no_name))
        } else {
            Err(Refused::Host { found: Quoted::of(written) })
        }
    }

    /// The page that sends the request, where one does.
    pub(super) fn check_origin(
        &self,
        headers: &HeaderMap,
        host: Option<&HostAndPort>,
    ) -> Result<Page, Refused> {
        let mut page = Page::default();
        // Several `Origin` headers are no browser's work: each must be allowed.
        for value in headers.get_all(header::ORIGIN) {
            let text = value.to_str().unwrap_or("").trim();
            let origin = parse_origin(text);
            let ours = || {
                origin.as_ref().is_some_and(|(scheme, at)| {
                    matches!(scheme.as_str(), "http" | "https") && Some(at) == host
                })
            };
            if are_of(&self.origins, text, origin.as_ref()) {
                page = Page::of(value.clone());
            } else if !ours() && !are_of(&self.tolerated, text, origin.as_ref()) {
                return Err(Refused::Origin { found: Quoted::of(Some(value.as_bytes())) });
            }
        }
        match headers.get(SEC_FETCH_SITE) {
            Some(site) if !headers.contains_key(header::ORIGIN) => self.check_site(headers, site.as_bytes()),
            _ => Ok(page),
        }
    }

    /// Browsers send no `Origin` with what a page only shows or leads to, an image or a link, but say that it is another's.
    fn check_site(&self, headers: &HeaderMap, site: &[u8]) -> Result<Page, Refused> {
        if !matches!(site, b"cross-site" | b"same-site") {
            return Ok(Page::default());
        }
        let is = |name, value: &[u8]| headers.get(name).is_some_and(|found| found.as_bytes() == value);
        let referrer = headers.get(header::REFERER).and_then(|value| value.to_str().ok()).unwrap_or("");
        let origin = parse_origin(origin_part(referrer));
        if are_of(&self.origins, referrer, origin.as_ref())
            || are_of(&self.tolerated, referrer, origin.as_ref())
        {
            Ok(Page::default())
        } else if is(SEC_FETCH_MODE, b"navigate") && is(SEC_FETCH_DEST, b"document") {
            // Somebody follows a link, as to a page that is handed through.
            Ok(Page::with_link())
        } else {
            Err(Refused::Page)
        }
    }
}

/// The host that a request names.
pub(super) struct Named<'h> {
    /// Where there is one that can be read.
    host: Option<HostAndPort>,
    written: Option<&'h [u8]>,
}

/// The one host that a request names, whichever it is.
pub(super) fn named_host(head: &Parts) -> Result<Named<'_>, Refused> {
    let mut values = head.headers.get_all(header::HOST).iter();
    let (first, more) = (values.next(), values.next());
    if more.is_some() {
        return Err(Refused::Hosts);
    }
    // HTTP/2 has the host in the URI.
    let of_uri = || head.uri.authority().map(|authority| authority.as_str().as_bytes());
    let written = first.map(HeaderValue::as_bytes).or_else(of_uri);
    let host = written.and_then(|bytes| HostAndPort::parse(std::str::from_utf8(bytes).ok()?));
    if host.is_none() && head.version == Version::HTTP_11 {
        return Err(Refused::NoHost { found: Quoted::of(written) });
    }
    Ok(Named { host, written })
}

fn are_of(rules: &[OriginRule], text: &str, origin: Option<&(String, HostAndPort)>) -> bool {
    rules.iter().any(|rule| match rule {
        OriginRule::Any => true,
        OriginRule::Null => text == "null",
        OriginRule::Origin { scheme, host } => {
            origin.is_some_and(|(found, at)| found == scheme && is_origin(scheme, host, at))
        }
    })
}

/// Whether this is the origin that is named. Without a port it is that of its scheme, as in browsers: another port is another
/// origin. Of this machine, where each program has a port, any is meant.
fn is_origin(scheme: &str, named: &HostAndPort, found: &HostAndPort) -> bool {
    let usual = match scheme {
        "http" => Some(80),
        "https" => Some(443),
        _ => None,
    };
    let any_port = named.port.is_none() && LOOPBACK.contains(&named.host.as_str());
    named.host == found.host && (any_port || named.port.or(usual) == found.port.or(usual))
}

/// The beginning of a URL that is its origin.
fn origin_part(url: &str) -> &str {
    let from = url.find("://").map_or(0, |found| found + 3);
    let end = url[from..].find(['/', '?', '#']).map_or(url.len(), |found| from + found);
    &url[..end]
}

/// `scheme://host[:port]` and nothing after it.
fn parse_origin(text: &str) -> Option<(String, HostAndPort)> {
    let (scheme, rest) = text.split_once("://")?;
    Some((scheme.to_ascii_lowercase(), HostAndPort::parse(rest)?))
}
