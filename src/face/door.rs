//! Who may come in: the checks of `Host`, `Origin` and body size that all HTTP faces share.
//!
//! A browser on the operator's machine can be made to talk to a server on loopback (DNS rebinding). It then
//! names its own page in `Origin` and its own domain in `Host`; both are held against what is allowed here
//! (MCP 2026-07-28, Streamable HTTP, "Security & Endpoint").

use std::{fmt, sync::Arc, time::Duration};

use arc_swap::ArcSwap;
use axum::body::Body;
use bytes::Bytes;
use http::{
    HeaderMap, HeaderName, HeaderValue, Response, StatusCode, Uri, header, request::Parts, uri::Authority,
};
use http_body::Body as _;
use http_body_util::{BodyExt, LengthLimitError, Limited};
use tokio::time::timeout;

use super::{Network, Peer, guard::Guard, proxies};
use crate::observe::{MeterSource, Reading, Words};

const REFUSED_HOST: &str = "host";
const REFUSED_ORIGIN: &str = "origin";

/// What the door lets in. Made by [`DoorSettings::default`] it serves this machine only.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DoorSettings {
    /// Hosts that clients may address us by: `name` (any port), `name:port`, or `*` for any.
    pub allowed_hosts: Vec<String>,
    /// Origins of web pages that may call us and read what we answer: `scheme://host` (any port),
    /// `scheme://host:port`, `null`, or `*` for any. A page that we serve ourselves need not be named. Where there
    /// are none, pages of this machine come in too, and no browser lets them read the answer.
    pub allowed_origins: Vec<String>,
    /// How many bytes of body a request may have.
    pub body_limit_bytes: usize,
    /// How long a client may take to send it.
    pub body_timeout: Duration,
    /// Proxies before us, whose `X-Forwarded-For` is believed.
    pub trusted_proxies: Vec<Network>,
}

/// This machine, as those on it call it.
const LOOPBACK: [&str; 3] = ["localhost", "127.0.0.1", "[::1]"];

/// What only a proxy that is trusted may say of how a request came to it.
const FORWARDED: [HeaderName; 3] = [
    HeaderName::from_static("x-forwarded-proto"),
    HeaderName::from_static("x-forwarded-host"),
    HeaderName::from_static("forwarded"),
];

impl DoorSettings {
    /// For [`body_limit_bytes`](Self::body_limit_bytes).
    pub const BODY_LIMIT_BYTES_DEFAULT: usize = 4 << 20;
    /// For [`body_timeout`](Self::body_timeout).
    pub const BODY_TIMEOUT_DEFAULT: Duration = Duration::from_secs(30);
}

impl Default for DoorSettings {
    fn default() -> Self {
        Self {
            allowed_hosts: LOOPBACK.map(str::to_owned).to_vec(),
            allowed_origins: Vec::new(),
            body_limit_bytes: Self::BODY_LIMIT_BYTES_DEFAULT,
            body_timeout: Self::BODY_TIMEOUT_DEFAULT,
            trusted_proxies: Vec::new(),
        }
    }
}

/// The shared checks, ready to run. Clones are the same door.
#[derive(Debug, Clone)]
pub struct Door {
    checks: Arc<ArcSwap<Checks>>,
    /// How often somebody was not let in, by why.
    refused: Words,
    /// Who asks those that are let in who they are.
    pub guard: Guard,
}

#[derive(Debug)]
struct Checks {
    hosts: Vec<HostRule>,
    /// Pages that may read what we answer.
    origins: Vec<OriginRule>,
    /// Pages that come in all the same: nobody pointed a name at us for them.
    tolerated: Vec<OriginRule>,
    body_limit_bytes: usize,
    body_timeout: Duration,
    trusted_proxies: Vec<Network>,
}

/// Why a request does not come in. The text may reach the client.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Refused {
    /// No `Host`, or one that is not allowed: HTTP 403.
    #[error("host {found} is not allowed here; allow it with `server.allowed_hosts`")]
    Host {
        /// What was found, quoted.
        found: Quoted,
    },
    /// An `Origin` that is not allowed: HTTP 403.
    #[error("origin {found} is not allowed here; allow it with `server.allowed_origins`")]
    Origin {
        /// What was found, quoted.
        found: Quoted,
    },
}

/// Why a body could not be read.
#[derive(Debug, thiserror::Error)]
pub enum BodyError {
    /// Longer than allowed: HTTP 413.
    #[error("the request's body is longer than {limit_bytes} bytes")]
    TooLong {
        /// How long it may be.
        limit_bytes: usize,
    },
    /// Not there in time: HTTP 408.
    #[error("the request's body was not complete within {after:?}")]
    Slow {
        /// How long it may take.
        after: Duration,
    },
    /// The client broke off, or its framing is wrong: HTTP 400, if anyone is still there to read it.
    #[error("the request's body could not be read")]
    CutOff(#[source] Box<dyn std::error::Error + Send + Sync>),
}

impl BodyError {
    fn as_word(&self) -> &'static str {
        match self {
            Self::TooLong { .. } => "body_too_long",
            Self::Slow { .. } => "body_slow",
            Self::CutOff(_) => "body_cut_off",
        }
    }

    /// The HTTP status that says so.
    pub fn status(&self) -> StatusCode {
        match self {
            Self::TooLong { .. } => StatusCode::PAYLOAD_TOO_LARGE,
            Self::Slow { .. } => StatusCode::REQUEST_TIMEOUT,
            Self::CutOff(_) => StatusCode::BAD_REQUEST,
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
struct HostAndPort {
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
        let plain = !authority.as_str().contains('@') && !authority.host().is_empty();
        plain.then(|| Self { host: authority.host().to_ascii_lowercase(), port: authority.port_u16() })
    }

    /// Whether `found` is this host; without a port, on any.
    fn covers(&self, found: &Self) -> bool {
        self.host == found.host && (self.port.is_none() || self.port == found.port)
    }
}

impl Door {
    /// A door with these settings. What is no host or origin lets nobody in.
    pub fn new(settings: &DoorSettings) -> Self {
        let refused = Words::default();
        refused.expect([REFUSED_HOST, REFUSED_ORIGIN, "body_too_long", "body_slow", "body_cut_off"]);
        Self {
            checks: Arc::new(ArcSwap::from_pointee(Checks::new(settings))),
            refused,
            guard: Guard::default(),
        }
    }

    /// Lets in by other settings from now on.
    pub fn replace(&self, settings: &DoorSettings) {
        self.checks.store(Arc::new(Checks::new(settings)));
    }

    /// Lets a request in that may come in, and says who sends it: calls learn it from its extensions.
    ///
    /// # Errors
    ///
    /// [`Refused`], to be answered with HTTP 403.
    pub fn admit(&self, head: &mut Parts) -> Result<Page, Refused> {
        let admitted = self.try_admit(head);
        if let Err(refused) = &admitted {
            self.refused.add(match refused {
                Refused::Host { .. } => REFUSED_HOST,
                Refused::Origin { .. } => REFUSED_ORIGIN,
            });
        }
        admitted
    }

    fn try_admit(&self, head: &mut Parts) -> Result<Page, Refused> {
        let checks = self.checks.load();
        let host = checks.check_host(&head.uri, &head.headers)?;
        let page = checks.check_origin(&head.headers, host.as_ref())?;
        if let Some(Peer(peer)) = head.extensions.get() {
            let peer = *peer;
            if !proxies::is_trusted(peer.ip(), &checks.trusted_proxies) {
                // Nobody's word, and upstreams decide by it.
                FORWARDED.iter().for_each(|name| drop(head.headers.remove(name)));
            }
            let caller = proxies::caller(peer.ip(), &head.headers, &checks.trusted_proxies);
            head.extensions.insert(caller);
        }
        Ok(page)
    }

    /// Reads a body, at most as much as is allowed.
    ///
    /// # Errors
    ///
    /// [`BodyError`] when it is longer, too slow, or breaks off.
    pub async fn read(&self, headers: &HeaderMap, body: Body) -> Result<Bytes, BodyError> {
        let read = self.try_read(headers, body).await;
        if let Err(error) = &read {
            self.refused.add(error.as_word());
        }
        read
    }

    async fn try_read(&self, headers: &HeaderMap, body: Body) -> Result<Bytes, BodyError> {
        let (limit_bytes, after) = {
            let checks = self.checks.load();
            (checks.body_limit_bytes, checks.body_timeout)
        };
        let announced =
            headers.get(header::CONTENT_LENGTH).and_then(|value| value.to_str().ok()?.parse().ok());
        if announced.is_some_and(|length: u64| length > limit_bytes as u64) {
            return Err(BodyError::TooLong { limit_bytes });
        }
        if body.is_end_stream() {
            return Ok(Bytes::new());
        }
        match timeout(after, Limited::new(body, limit_bytes).collect()).await {
            Ok(Ok(whole)) => Ok(whole.to_bytes()),
            Ok(Err(error)) if error.is::<LengthLimitError>() => Err(BodyError::TooLong { limit_bytes }),
            Ok(Err(error)) => Err(BodyError::CutOff(error)),
            Err(_) => Err(BodyError::Slow { after }),
        }
    }
}

impl MeterSource for Door {
    fn tell(&self, reading: &mut Reading) {
        let help = "Requests that were not let in, by why";
        let family = reading.counter("glossator_refused_requests", help);
        for (reason, count) in self.refused.read() {
            family.add(vec![("reason", reason.into())], count);
        }
    }
}

impl Checks {
    fn new(settings: &DoorSettings) -> Self {
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
        let tolerated = match settings.allowed_origins.is_empty() {
            true => LOOPBACK.iter().filter_map(|host| origin(&format!("http://{host}"))).collect(),
            false => Vec::new(),
        };
        Self {
            hosts: settings.allowed_hosts.iter().filter_map(host).collect(),
            origins,
            tolerated,
            body_limit_bytes: settings.body_limit_bytes,
            body_timeout: settings.body_timeout,
            trusted_proxies: settings.trusted_proxies.clone(),
        }
    }

    /// The host that was addressed, if it is allowed by its name, or is an address; `None` when it is only one of any. A
    /// page of a name that is not ours may have been pointed at this address, and is then no page of ours.
    fn check_host(&self, uri: &Uri, headers: &HeaderMap) -> Result<Option<HostAndPort>, Refused> {
        let mut values = headers.get_all(header::HOST).iter();
        let (first, more) = (values.next(), values.next());
        // HTTP/2 has the host in the URI.
        let written =
            first.map(HeaderValue::as_bytes).or_else(|| uri.authority().map(|a| a.as_str().as_bytes()));
        let host = written.and_then(|bytes| HostAndPort::parse(std::str::from_utf8(bytes).ok()?));
        let by_name = self.hosts.iter().any(|rule| match rule {
            HostRule::Any => false,
            HostRule::Host(rule) => more.is_none() && host.as_ref().is_some_and(|host| rule.covers(host)),
        });
        if by_name {
            Ok(host)
        } else if self.hosts.contains(&HostRule::Any) {
            Ok(host.filter(|host| more.is_none() && host.is_no_name()))
        } else {
            Err(Refused::Host { found: Quoted::of(written) })
        }
    }

    /// The page that sends the request, where one does that may read the answer.
    fn check_origin(&self, headers: &HeaderMap, host: Option<&HostAndPort>) -> Result<Page, Refused> {
        let mut page = Page(None);
        // Several `Origin` headers are no browser's work: each must be allowed.
        for value in headers.get_all(header::ORIGIN) {
            let text = value.to_str().unwrap_or("").trim();
            let origin = parse_origin(text);
            let has = |rules: &[OriginRule]| {
                rules.iter().any(|rule| match rule {
                    OriginRule::Any => true,
                    OriginRule::Null => text == "null",
                    OriginRule::Origin { scheme, host } => {
                        origin.as_ref().is_some_and(|(found, at)| found == scheme && host.covers(at))
                    }
                })
            };
            let ours = || {
                origin.as_ref().is_some_and(|(scheme, at)| {
                    matches!(scheme.as_str(), "http" | "https") && Some(at) == host
                })
            };
            if has(&self.origins) {
                page = Page(Some(value.clone()));
            } else if !ours() && !has(&self.tolerated) {
                return Err(Refused::Origin { found: Quoted::of(Some(value.as_bytes())) });
            }
        }
        Ok(page)
    }
}

/// A web page of another origin that may read what we answer, if one sends the request (Fetch, "CORS protocol").
#[derive(Debug)]
pub struct Page(Option<HeaderValue>);

impl Page {
    /// Tells its browser to let it read the response.
    pub fn let_read(self, response: &mut HeaderMap) {
        let Some(origin) = self.0 else { return };
        response.insert(header::ACCESS_CONTROL_ALLOW_ORIGIN, origin);
        response.insert(
            header::ACCESS_CONTROL_EXPOSE_HEADERS,
            HeaderValue::from_static("mcp-session-id, www-authenticate, x-request-id"),
        );
        response.append(header::VARY, HeaderValue::from_static("origin"));
    }

    /// Answers `OPTIONS`: its browser's question whether the request it has in mind is welcome, or a plain one.
    /// `methods` as in `POST, OPTIONS`.
    pub fn options(&self, request: &HeaderMap, methods: &str) -> Response<Body> {
        let mut response = Response::new(Body::empty());
        *response.status_mut() = StatusCode::NO_CONTENT;
        let headers = response.headers_mut();
        let methods = HeaderValue::from_str(methods).expect("methods have visible ASCII characters only");
        headers.insert(header::ALLOW, methods.clone());
        if self.0.is_some() && request.contains_key(header::ACCESS_CONTROL_REQUEST_METHOD) {
            headers.insert(header::ACCESS_CONTROL_ALLOW_METHODS, methods);
            // `Mcp-Param-…` headers are not known beforehand, so whatever is asked for is granted.
            if let Some(wanted) = request.get(header::ACCESS_CONTROL_REQUEST_HEADERS) {
                headers.insert(header::ACCESS_CONTROL_ALLOW_HEADERS, wanted.clone());
            }
            headers.insert(header::ACCESS_CONTROL_MAX_AGE, HeaderValue::from_static("600"));
        }
        response
    }
}

/// `scheme://host[:port]` and nothing after it.
fn parse_origin(text: &str) -> Option<(String, HostAndPort)> {
    let (scheme, rest) = text.split_once("://")?;
    Some((scheme.to_ascii_lowercase(), HostAndPort::parse(rest)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(pairs: &[(&'static str, &str)]) -> HeaderMap {
        pairs.iter().map(|(name, value)| (HeaderName::from_static(name), value.parse().unwrap())).collect()
    }

    fn head(headers: HeaderMap) -> Parts {
        let (mut head, ()) = http::Request::post("/mcp").body(()).unwrap().into_parts();
        head.headers = headers;
        head
    }

    #[track_caller]
    fn check(settings: &DoorSettings, host: &str, origin: Option<&str>, expected: bool) {
        let mut pairs = vec![("host", host)];
        pairs.extend(origin.map(|origin| ("origin", origin)));
        let found = Door::new(settings).admit(&mut head(headers(&pairs)));
        assert_eq!(found.is_ok(), expected, "{found:?}");
    }

    #[test]
    fn this_machine_comes_in_by_default_and_nobody_else() {
        let settings = DoorSettings::default();
        check(&settings, "127.0.0.1:8080", None, true);
        check(&settings, "LocalHost", Some("http://localhost:6274"), true);
        check(&settings, "[::1]:8080", Some("http://[::1]:8080"), true);
        check(&settings, "evil.example.com", None, false);
        check(&settings, "127.0.0.1.evil.example.com", None, false);
        check(&settings, "localhost@evil.example.com", None, false);
        check(&settings, "127.0.0.1:8080", Some("http://evil.example.com"), false);
        check(&settings, "127.0.0.1:8080", Some("null"), false);
        check(&settings, "127.0.0.1:8080", Some("http://127.0.0.1:8080/path"), false);
    }

    #[test]
    fn a_page_of_any_host_is_not_our_own() {
        let settings = DoorSettings { allowed_hosts: vec!["*".into()], ..DoorSettings::default() };
        check(&settings, "evil.example.com", None, true);
        check(&settings, "evil.example.com:8080", Some("http://evil.example.com:8080"), false);
        check(&settings, "127.0.0.1.evil.example.com", Some("http://127.0.0.1.evil.example.com"), false);
        // An address is no name that somebody could have pointed here.
        for ours in ["10.1.2.3:8080", "[fd00::1]:8080", "localhost:8080"] {
            check(&settings, ours, Some(&format!("http://{ours}")), true);
            check(&settings, ours, Some("http://evil.example.com:8080"), false);
        }
        check(&DoorSettings::default(), "localhost:8080", Some("ftp://localhost:8080"), false);
    }

    #[test]
    fn hosts_and_origins_can_be_allowed_by_name_or_altogether() {
        let settings = DoorSettings {
            allowed_hosts: vec!["tools.example.com:443".into()],
            allowed_origins: vec!["https://app.example.com".into()],
            ..DoorSettings::default()
        };
        check(&settings, "tools.example.com:443", Some("https://app.example.com"), true);
        check(&settings, "tools.example.com:443", Some("http://app.example.com"), false);
        check(&settings, "tools.example.com:443", Some("https://tools.example.com:443"), true);
        check(&settings, "tools.example.com:80", None, false);
        let open = DoorSettings {
            allowed_hosts: vec!["*".into()],
            allowed_origins: vec!["*".into()],
            ..DoorSettings::default()
        };
        check(&open, "anything", Some("null"), true);
    }

    #[test]
    fn a_host_given_twice_or_not_at_all_is_refused() {
        let door = Door::new(&DoorSettings::default());
        assert!(door.admit(&mut head(HeaderMap::new())).is_err());
        let mut twice = headers(&[("host", "localhost")]);
        twice.append(header::HOST, "evil.example.com".parse().unwrap());
        assert!(door.admit(&mut head(twice)).is_err());
        let refused = door.admit(&mut head(headers(&[("host", "evil.example.com")]))).unwrap_err();
        assert!(refused.to_string().contains("`evil.example.com`"), "{refused}");
    }

    #[tokio::test]
    async fn a_body_is_read_to_its_limit() {
        let door = Door::new(&DoorSettings { body_limit_bytes: 4, ..DoorSettings::default() });
        assert_eq!(door.read(&HeaderMap::new(), Body::from("1234")).await.unwrap(), "1234");
        let error = door.read(&HeaderMap::new(), Body::from("12345")).await.unwrap_err();
        assert!(matches!(error, BodyError::TooLong { limit_bytes: 4 }), "{error}");
        let announced = headers(&[("content-length", "5")]);
        assert!(door.read(&announced, Body::empty()).await.is_err());
    }

    #[tokio::test(start_paused = true)]
    async fn a_body_that_takes_too_long_is_not_waited_for() {
        struct Never;
        impl http_body::Body for Never {
            type Data = Bytes;
            type Error = std::convert::Infallible;

            fn poll_frame(
                self: std::pin::Pin<&mut Self>,
                _: &mut std::task::Context<'_>,
            ) -> std::task::Poll<Option<Result<http_body::Frame<Bytes>, Self::Error>>> {
                std::task::Poll::Pending
            }
        }
        let error = Door::new(&DoorSettings::default()).read(&HeaderMap::new(), Body::new(Never)).await;
        assert_eq!(error.unwrap_err().status(), StatusCode::REQUEST_TIMEOUT);
    }
}
