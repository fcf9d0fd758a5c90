//! The request filter of all HTTP APIs: Host, Origin, trusted proxies; framing (request smuggling) and size
//! of bodies.
//!
//! A web page in a browser on the operator's machine can send requests to a server on loopback (DNS
//! rebinding). The browser then sends the page's own origin in `Origin` and its domain in `Host`, so both
//! must be allowed (MCP 2026-07-28, Streamable HTTP, "Security & Endpoint").

use std::{
    net::{IpAddr, SocketAddr},
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use arc_swap::ArcSwap;
use axum::body::Body;
use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, Request, Response, StatusCode, header, request::Parts};
use http_body::Body as _;
use http_body_util::{BodyExt, LengthLimitError, Limited};
use ipnet::IpNet;
use settings_derive::Section;
use tokio::time::timeout;

use super::host_origin::{self, HostPattern, OriginPattern};
use super::{Authenticator, CrossOriginPage, Rejection, RequestInfo};
use crate::model::{ARGUMENT_VALUE_LIMIT, count_values};
use crate::pipeline::ApiKind;
use crate::settings::{FromText, Invalid};
use crate::telemetry::{LabelCounter, Meters};

/// Settings of the filter. By default only loopback hosts are allowed.
#[derive(Debug, Clone, PartialEq, Eq, Section)]
#[section(id = "server", process, default)]
pub struct FilterSettings {
    /// Accepted values of `Host`, such as `tools.example.com`; `*` accepts all.
    #[key(default = HostPattern::loopback(), shown = "loopback names and the listen address", live)]
    pub allowed_hosts: Vec<HostPattern>,
    /// Browser origins that may call (CORS): `https://app.example.com`, with its port. `http://localhost`
    /// matches every port; `*` allows all.
    #[key(
        shown = "none; pages of other machines are rejected, and pages of this machine can't read the \
                 responses",
        live
    )]
    pub allowed_origins: Vec<OriginPattern>,
    /// Largest request body.
    #[key(name = "body_limit", size = 1..=1 << 30, default = 4 << 20, live)]
    pub body_limit_bytes: usize,
    /// Maximum memory for requests of all clients together, without the first 16 KiB of each. A complete body
    /// or query counts 3 times its length, and 256 bytes for each value. Requests over the limit get 503 with
    /// `Retry-After`; a request is always accepted if no other request counts toward the limit.
    #[key(name = "request_buffer_limit", size = 1..=1 << 40, default = 64 << 20, live)]
    pub request_buffer_limit_bytes: usize,
    /// Timeout of a request body. Long passthrough bodies get 1 s more for each KiB received.
    #[key(range = 1..=3_600_000, default = Duration::from_secs(30), live)]
    pub body_timeout: Duration,
    /// Addresses of reverse proxies, such as `10.0.0.0/8`, whose `X-Forwarded-For`, `X-Forwarded-Proto` and
    /// `X-Forwarded-Host` are trusted.
    #[key(shown = "none", live)]
    pub trusted_proxies: Vec<IpNet>,
    /// Port that the filter protects.
    #[key(skip = ProtectedPort::Clients)]
    pub port: ProtectedPort,
}

/// The port that a filter protects: the port for clients, or the admin port.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ProtectedPort {
    /// The port for clients. If no origins are allowed explicitly, pages of this machine at other ports are
    /// admitted, so that a page under development can call the API.
    Clients,
    /// The admin port, which only pages of the admin UI may call.
    Admin,
}

impl ProtectedPort {
    /// Error message for pages of other origins: why they are rejected, and the key that allows them.
    pub(super) fn advice(self) -> &'static str {
        match self {
            Self::Clients => {
                "pages of other origins may not call this server; allow them with `server.allowed_origins`"
            }
            Self::Admin => {
                "pages of other origins may not use this port; if this is the admin UI, add its host to \
                 `admin.allowed_hosts`"
            }
        }
    }

    /// Builds the rejection of a request from a page of another origin without `Origin`, such as an embedded
    /// image.
    pub fn foreign_page(self) -> Rejection {
        Rejection::new(StatusCode::FORBIDDEN, "pages of other origins are not allowed", self.advice())
    }
}

/// Whether proxies set this header (client address, original URL). A client that is not a trusted proxy could
/// deceive the upstream with it.
fn is_set_by_proxies(name: &str) -> bool {
    const NAMES: [&str; 17] = [
        "cf-connecting-ip",
        "client-ip",
        "fastly-client-ip",
        "forwarded",
        "forwarded-for",
        "true-client-ip",
        "wl-proxy-client-ip",
        "x-azure-clientip",
        "x-client-ip",
        "x-cluster-client-ip",
        "x-envoy-external-address",
        "x-host",
        "x-original-host",
        "x-original-url",
        "x-proxyuser-ip",
        "x-real-ip",
        "x-rewrite-url",
    ];
    name.starts_with("x-forwarded") || NAMES.contains(&name)
}

/// Whether a header is removed from every request. CGI programs read `Proxy` as the variable `HTTP_PROXY`
/// (CVE-2016-5385), and `X_Forwarded_For` as `X-Forwarded-For`; proxies pass both on unchecked.
fn is_always_removed(name: &str) -> bool {
    name == "proxy" || (name.contains('_') && is_set_by_proxies(&name.replace('_', "-")))
}

impl FromText for IpNet {
    fn from_text(text: &str) -> Result<Self, Invalid> {
        let expected = "an address such as `10.0.0.7`, or a network such as `10.0.0.0/8`";
        let help = match text {
            "*" => "write `0.0.0.0/0` and `::/0` if all connections come from your proxies",
            _ => "write the address that the proxy connects from",
        };
        parse_network(text).ok_or_else(|| unexpected(expected, text, help))
    }
}

pub(super) fn unexpected(expected: &str, text: &str, help: &str) -> Invalid {
    // The part before `@` may contain a password.
    let found = if text.contains('@') { "a value with an `@`".to_owned() } else { format!("`{text}`") };
    Invalid::new(format!("expected {expected}, found {found}"), help)
}

/// The request filter. Clones share its settings and counts.
#[derive(Debug, Clone)]
pub struct Filter {
    settings: Arc<ArcSwap<FilterSettings>>,
    /// Counts rejections by reason.
    rejected: LabelCounter,
    /// Counted memory of the requests that are being read or processed, in bytes.
    buffer: Arc<AtomicUsize>,
    /// Identifies the clients of admitted requests.
    pub authenticator: Authenticator,
}

impl Filter {
    /// Creates a filter without configured clients.
    pub fn new(settings: &FilterSettings) -> Self {
        let rejected = LabelCounter::new(["host", "origin", "body_too_long", "body_slow", "body_cut_off"]);
        rejected.initialize(["request_buffer_full", "transfer_encoding"]);
        Self {
            settings: Arc::new(ArcSwap::from_pointee(settings.clone())),
            rejected,
            buffer: Arc::default(),
            authenticator: Authenticator::default(),
        }
    }

    /// Replaces the settings, also for the clones.
    pub fn replace(&self, settings: &FilterSettings) {
        self.settings.store(Arc::new(settings.clone()));
    }

    /// Admits a request. Removes the headers that only trusted proxies may set, and determines the address of
    /// the client.
    ///
    /// # Errors
    ///
    /// [`Rejection`] if the host or the origin is not allowed.
    pub fn admit(&self, head: &mut Parts, info: &mut RequestInfo) -> Result<CrossOriginPage, Rejection> {
        let settings = self.settings.load();
        let host = settings.check_host(head).inspect_err(|_| self.rejected.add("host"))?;
        let page = settings.check_origin(&head.headers, host.as_ref());
        let page = page.inspect_err(|_| self.rejected.add("origin"))?;
        let peer = info.connection.peer;
        let trusted = &settings.trusted_proxies;
        let is_trusted = peer.is_some_and(|peer| is_trusted(peer.ip(), trusted));
        let is_removed = |name: &&HeaderName| {
            let name = name.as_str();
            is_always_removed(name) || (!is_trusted && is_set_by_proxies(name))
        };
        let removed: Vec<HeaderName> = head.headers.keys().filter(is_removed).cloned().collect();
        removed.iter().for_each(|name| drop(head.headers.remove(name)));
        let address = |peer: SocketAddr| client_address(peer.ip(), &head.headers, trusted);
        info.address = peer.map(address);
        Ok(page)
    }

    /// Whether the host of a request is an IP address or `localhost`, or is allowed by name, not only by `*`.
    pub fn is_host_safe_from_rebinding(&self, head: &Parts) -> bool {
        self.settings.load().check_host(head).is_ok_and(|host| host.is_some())
    }

    /// Admits a health probe with any host name, because probes use the address of a machine. HTTP/1.1 still
    /// requires a host.
    ///
    /// # Errors
    ///
    /// [`Rejection`] if the request has no valid host, or more than one.
    pub fn admit_probe(&self, head: &Parts) -> Result<CrossOriginPage, Rejection> {
        host_origin::request_host(head).inspect_err(|_| self.rejected.add("host"))?;
        Ok(CrossOriginPage::default())
    }

    /// Registers the metrics of the filter.
    pub fn register(&self, meters: &Meters) {
        let rejected = self.rejected.clone();
        meters.register(move |reading| {
            let help = "Requests rejected before a call, by reason";
            reading.counter("glossator_requests_rejected", help).add_each(&[], "reason", rejected.read());
        });
    }
}

/// Value of `Retry-After` if the request buffer has no room for the body.
const RETRY_AFTER_SECONDS: u64 = 2;

/// Memory of each request that is not counted. Most requests need less, so clients that never complete long
/// bodies do not block most others.
const FREE_BYTES: usize = 16 << 10;

/// Memory of one value in the parsed arguments of a call, in addition to its text. Measured: 100 bytes for a
/// number in a list, and 240 per value on average for an object with one member (two values).
const VALUE_BYTES: usize = 256;

/// A body that counts toward the request buffer until all its slices are dropped.
#[derive(derive_more::AsRef)]
struct CountedBody {
    #[as_ref([u8])]
    bytes: Vec<u8>,
    /// Estimated memory of the parsed arguments in the body and in the query, and of the upstream request
    /// that is built from them.
    parsed_bytes: usize,
    /// Counted memory of all requests, shared by all bodies.
    buffer: Arc<AtomicUsize>,
    counted_bytes: usize,
}

impl CountedBody {
    /// Counts the arguments of a complete body. Returns whether the limit for all requests allows them.
    #[must_use]
    fn complete(&mut self, limit_bytes: usize) -> bool {
        // An estimate in a tenth of the time of `count_values`: it also counts separators inside strings. It
        // is exact enough for most bodies. The count of one block fits into a byte, so that the compiler can
        // vectorize the loop.
        let is_separator = |byte: u8| matches!(byte, b',' | b'[' | b'{');
        let in_block =
            |block: &[u8]| block.iter().fold(0_u8, |count, byte| count + u8::from(is_separator(*byte)));
        let separators: usize = self.bytes.chunks(128).map(|block| usize::from(in_block(block))).sum();
        if 3 * self.bytes.len() + VALUE_BYTES * (separators + 1) > FREE_BYTES {
            // Values beyond the limit are never parsed.
            let values = count_values(&self.bytes, ARGUMENT_VALUE_LIMIT).unwrap_or(ARGUMENT_VALUE_LIMIT);
            self.parsed_bytes += 2 * self.bytes.len() + VALUE_BYTES * values;
        }
        self.count(limit_bytes)
    }

    /// Counts the memory that was added since the last call. Returns whether the limit for all requests
    /// allows it.
    #[must_use]
    fn count(&mut self, limit_bytes: usize) -> bool {
        let needed_bytes = (self.bytes.len() + self.parsed_bytes).saturating_sub(FREE_BYTES);
        let added_bytes = needed_bytes.saturating_sub(self.counted_bytes);
        let other_bytes = self.buffer.fetch_add(added_bytes, Ordering::Relaxed) - self.counted_bytes;
        self.counted_bytes += added_bytes;
        self.counted_bytes == 0 || other_bytes == 0 || other_bytes + self.counted_bytes <= limit_bytes
    }
}

impl Drop for CountedBody {
    fn drop(&mut self) {
        self.buffer.fetch_sub(self.counted_bytes, Ordering::Relaxed);
    }
}

fn buffer_full() -> Rejection {
    let message = "the buffer for requests is full; retry in a few seconds";
    let rejection = Rejection::new(StatusCode::SERVICE_UNAVAILABLE, "request_buffer_full", message);
    rejection.with_retry_after(RETRY_AFTER_SECONDS)
}

fn body_too_long(limit_bytes: usize) -> Rejection {
    let message = format!("the request's body is longer than {limit_bytes} bytes");
    Rejection::new(StatusCode::PAYLOAD_TOO_LARGE, "body_too_long", message)
}

/// Rejects a body with a transfer coding other than `chunked` (RFC 9112, section 6.1).
pub(super) fn check_transfer_encoding(headers: &HeaderMap) -> Result<(), Rejection> {
    let codings = headers.get_all(header::TRANSFER_ENCODING);
    if codings.iter().all(|value| value.as_bytes().trim_ascii().eq_ignore_ascii_case(b"chunked")) {
        return Ok(());
    }
    let message = "the request's `Transfer-Encoding` is not `chunked` alone; send the body without it";
    Err(Rejection::new(StatusCode::NOT_IMPLEMENTED, "transfer_encoding", message))
}

impl Filter {
    /// Reads a body. `query` contains further arguments of the request. Both count toward the request buffer
    /// until the body is dropped.
    ///
    /// # Errors
    ///
    /// [`Rejection`] if the body is too long, too slow or cut off, or if the request buffer is full.
    pub async fn read(&self, headers: &HeaderMap, query: &str, body: Body) -> Result<Bytes, Rejection> {
        let result = self.try_read(headers, query, body).await;
        result.inspect_err(|rejection| self.rejected.add(rejection.reason))
    }

    fn counted(&self, bytes: Vec<u8>, query: &str) -> CountedBody {
        let parsed_bytes = 3 * query.len() + VALUE_BYTES * query.matches('&').count();
        CountedBody { bytes, parsed_bytes, buffer: Arc::clone(&self.buffer), counted_bytes: 0 }
    }

    async fn try_read(&self, headers: &HeaderMap, query: &str, body: Body) -> Result<Bytes, Rejection> {
        let FilterSettings {
            body_limit_bytes: limit_bytes, request_buffer_limit_bytes, body_timeout, ..
        } = **self.settings.load();
        let announced_length =
            headers.get(header::CONTENT_LENGTH).and_then(|value| value.to_str().ok()?.parse().ok());
        if announced_length.is_some_and(|length: u64| length > limit_bytes as u64) {
            return Err(body_too_long(limit_bytes));
        }
        check_transfer_encoding(headers)?;
        if body.is_end_stream() && query.is_empty() {
            return Ok(Bytes::new());
        }
        let reading = async {
            let mut body = Limited::new(body, limit_bytes);
            // The kernel allocates memory only when it is written: a body that is announced and never sent
            // costs nothing.
            let mut counted = self.counted(Vec::with_capacity(announced_length.unwrap_or(0) as usize), query);
            while let Some(frame) = body.frame().await {
                let frame = frame.map_err(|error| match error.is::<LengthLimitError>() {
                    true => body_too_long(limit_bytes),
                    false => {
                        let message = "the request's body could not be read";
                        Rejection::new(StatusCode::BAD_REQUEST, "body_cut_off", message)
                    }
                })?;
                // `data` may be a body that was read before. It is dropped here, so that it is not counted
                // twice.
                if let Ok(data) = frame.into_data() {
                    counted.bytes.extend_from_slice(&data);
                }
                if !counted.count(request_buffer_limit_bytes) {
                    return Err(buffer_full());
                }
            }
            let is_admitted = counted.complete(request_buffer_limit_bytes);
            is_admitted.then(|| Bytes::from_owner(counted)).ok_or_else(buffer_full)
        };
        timeout(body_timeout, reading).await.unwrap_or_else(|_| {
            let message = format!("the request's body was not complete within {body_timeout:?}");
            Err(Rejection::new(StatusCode::REQUEST_TIMEOUT, "body_slow", message))
        })
    }
}

/// Whether the end of an HTTP/1 request is ambiguous (request smuggling): `chunked` occurs more than once.
pub fn ends_ambiguously(headers: &HeaderMap) -> bool {
    let values = headers.get_all(header::TRANSFER_ENCODING).iter();
    let codings = values.flat_map(|value| value.as_bytes().split(|byte| *byte == b','));
    codings.filter(|coding| coding.trim_ascii().eq_ignore_ascii_case(b"chunked")).count() > 1
}

/// Rejects a request that [ends ambiguously](ends_ambiguously) (RFC 9112, section 6.1), and closes its
/// connection: the bytes after it can't be parsed.
pub fn reject_ambiguous_end(request: Request<Body>) -> Response<Body> {
    let (mut parts, _) = request.into_parts();
    let info = RequestInfo::take(&mut parts, ApiKind::Rest);
    let message = "the request's `Transfer-Encoding` has `chunked` more than once";
    let rejection = Rejection::new(StatusCode::BAD_REQUEST, "more than one `chunked`", message);
    let mut response = super::rest::rejected(info.logged(&parts), &rejection);
    response.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
    response
}

pub(super) const FORWARDED_FOR: HeaderName = HeaderName::from_static("x-forwarded-for");

/// Parses a network such as `10.0.0.0/8`, or a single address.
pub fn parse_network(text: &str) -> Option<IpNet> {
    text.parse().ok().or_else(|| text.parse::<IpAddr>().ok().map(IpNet::from))
}

/// Whether the peer of a connection is a trusted proxy.
fn is_trusted(peer: IpAddr, trusted: &[IpNet]) -> bool {
    trusted.iter().any(|network| network.contains(&peer.to_canonical()))
}

/// Determines the address of the client: the peer, or the address for which trusted proxies forward.
///
/// Each proxy appends its own peer to `X-Forwarded-For`. The list is read from its end, while the proxy that
/// added an entry is trusted; earlier entries may be forged.
fn client_address(peer: IpAddr, headers: &HeaderMap, trusted: &[IpNet]) -> IpAddr {
    let mut client = peer.to_canonical();
    let values = headers.get_all(FORWARDED_FOR).iter().rev();
    let entries = values.flat_map(|value| value.to_str().unwrap_or_default().rsplit(','));
    let mut earlier = entries.map_while(|entry| address(entry.trim()));
    while is_trusted(client, trusted)
        && let Some(address) = earlier.next()
    {
        client = address;
    }
    client
}

/// Parses an IP address, with or without a port.
fn address(text: &str) -> Option<IpAddr> {
    let bare = text.strip_prefix('[').and_then(|text| text.strip_suffix(']')).unwrap_or(text);
    let address = bare.parse::<IpAddr>().ok();
    let address = address.or_else(|| text.parse::<SocketAddr>().ok().map(|socket| socket.ip()));
    address.map(|address| address.to_canonical())
}

#[cfg(test)]
mod tests {
    use std::task::Poll;

    use bytes::Bytes;
    use tokio::sync::mpsc;

    use super::*;
    use crate::upstream::ClientIdentity;

    fn hosts(texts: &[&str]) -> Vec<HostPattern> {
        texts.iter().map(|text| HostPattern::from_text(text).unwrap()).collect()
    }

    fn origins(texts: &[&str]) -> Vec<OriginPattern> {
        texts.iter().map(|text| OriginPattern::from_text(text).unwrap()).collect()
    }

    fn headers(pairs: &[(&'static str, &str)]) -> HeaderMap {
        pairs.iter().map(|(name, value)| (HeaderName::from_static(name), value.parse().unwrap())).collect()
    }

    fn head(headers: HeaderMap) -> Parts {
        let (mut head, ()) = Request::post("/mcp").body(()).unwrap().into_parts();
        head.headers = headers;
        head
    }

    fn admit(filter: &Filter, headers: HeaderMap) -> Result<CrossOriginPage, Rejection> {
        let info = &mut RequestInfo::new(Arc::default(), &headers);
        filter.admit(&mut head(headers), info)
    }

    #[track_caller]
    fn check(settings: &FilterSettings, host: &str, origin: Option<&str>, expected: bool) {
        let mut pairs = vec![("host", host)];
        pairs.extend(origin.map(|origin| ("origin", origin)));
        let found = admit(&Filter::new(settings), headers(&pairs));
        assert_eq!(found.is_ok(), expected, "{found:?}");
    }

    #[test]
    fn only_loopback_is_allowed_by_default() {
        let settings = FilterSettings::default();
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
        let settings = FilterSettings { allowed_hosts: hosts(&["*"]), ..FilterSettings::default() };
        check(&settings, "evil.example.com", None, true);
        check(&settings, "evil.example.com:8080", Some("http://evil.example.com:8080"), false);
        check(&settings, "127.0.0.1.evil.example.com", Some("http://127.0.0.1.evil.example.com"), false);
        // No DNS name can pretend to be an address.
        for own_host in ["10.1.2.3:8080", "[fd00::1]:8080", "localhost:8080"] {
            check(&settings, own_host, Some(&format!("http://{own_host}")), true);
            check(&settings, own_host, Some("http://evil.example.com:8080"), false);
        }
        check(&FilterSettings::default(), "localhost:8080", Some("ftp://localhost:8080"), false);
    }

    #[test]
    fn hosts_and_origins_can_be_allowed_by_name_or_altogether() {
        let settings = FilterSettings {
            allowed_hosts: hosts(&["tools.example.com:443"]),
            allowed_origins: origins(&["https://app.example.com"]),
            ..FilterSettings::default()
        };
        check(&settings, "tools.example.com:443", Some("https://app.example.com"), true);
        check(&settings, "tools.example.com:443", Some("http://app.example.com"), false);
        check(&settings, "tools.example.com:443", Some("https://app.example.com:443"), true);
        check(&settings, "tools.example.com:443", Some("https://app.example.com:8443"), false);
        check(&settings, "tools.example.com:443", Some("https://tools.example.com:443"), true);
        check(&settings, "tools.example.com:80", None, false);
        let by_port = FilterSettings {
            allowed_origins: origins(&["https://app.example.com:443", "http://localhost"]),
            ..FilterSettings::default()
        };
        check(&by_port, "localhost", Some("https://app.example.com"), true);
        check(&by_port, "localhost", Some("http://localhost:3000"), true);
        let allow_all = FilterSettings {
            allowed_hosts: hosts(&["*"]),
            allowed_origins: origins(&["*"]),
            ..FilterSettings::default()
        };
        check(&allow_all, "anything", Some("null"), true);
    }

    #[test]
    fn a_duplicate_or_missing_host_is_rejected() {
        let filter = Filter::new(&FilterSettings::default());
        assert!(admit(&filter, HeaderMap::new()).is_err());
        let mut duplicate_hosts = headers(&[("host", "localhost")]);
        duplicate_hosts.append(header::HOST, "evil.example.com".parse().unwrap());
        assert!(admit(&filter, duplicate_hosts).is_err());
        let rejection = admit(&filter, headers(&[("host", "evil.example.com")])).unwrap_err();
        assert!(rejection.to_string().contains("`evil.example.com`"), "{rejection}");
    }

    #[tokio::test]
    async fn a_body_is_read_to_its_limit() {
        let filter = Filter::new(&FilterSettings { body_limit_bytes: 4, ..FilterSettings::default() });
        assert_eq!(filter.read(&HeaderMap::new(), "", Body::from("1234")).await.unwrap(), "1234");
        let error = filter.read(&HeaderMap::new(), "", Body::from("12345")).await.unwrap_err();
        assert_eq!(error.reason, "body_too_long");
        let announced = headers(&[("content-length", "5")]);
        assert!(filter.read(&announced, "", Body::empty()).await.is_err());
    }

    /// A body whose pieces come through a channel; it ends when the sender is dropped.
    struct ChannelBody(mpsc::UnboundedReceiver<&'static str>);

    impl http_body::Body for ChannelBody {
        type Data = Bytes;
        type Error = std::convert::Infallible;

        fn poll_frame(
            mut self: std::pin::Pin<&mut Self>,
            context: &mut std::task::Context<'_>,
        ) -> Poll<Option<Result<http_body::Frame<Bytes>, Self::Error>>> {
            self.0.poll_recv(context).map(|piece| piece.map(|piece| Ok(http_body::Frame::data(piece.into()))))
        }

        fn is_end_stream(&self) -> bool {
            self.0.is_closed() && self.0.is_empty()
        }
    }

    fn channel_body() -> (mpsc::UnboundedSender<&'static str>, Body) {
        let (sender, pieces) = mpsc::unbounded_channel();
        (sender, Body::new(ChannelBody(pieces)))
    }

    /// Headers of a body of known length, and of one of unknown length.
    fn length_headers() -> [HeaderMap; 2] {
        [headers(&[("content-length", "7")]), HeaderMap::new()]
    }

    #[tokio::test(start_paused = true)]
    async fn a_slow_request_body_times_out() {
        for headers in length_headers() {
            let read_after = async |delay: Duration| {
                let (sender, body) = channel_body();
                tokio::spawn(async move {
                    tokio::time::sleep(delay).await;
                    let _ = sender.send("a whole");
                });
                Filter::new(&FilterSettings::default()).read(&headers, "", body).await
            };
            assert_eq!(read_after(Duration::from_secs(1)).await.unwrap(), "a whole");
            let error = read_after(FilterSettings::default().body_timeout + Duration::from_secs(1))
                .await
                .unwrap_err();
            assert_eq!(error.status, StatusCode::REQUEST_TIMEOUT);
        }
    }

    #[tokio::test]
    async fn a_body_that_comes_in_pieces_is_put_together() {
        for headers in length_headers() {
            for pieces in [&["a whole"][..], &["a ", "", "whole"], &["a ", "whole", ""], &[]] {
                let (sender, body) = channel_body();
                pieces.iter().for_each(|piece| sender.send(piece).unwrap());
                drop(sender);
                let received = Filter::new(&FilterSettings::default()).read(&headers, "", body).await;
                assert_eq!(received.unwrap(), pieces.concat());
            }
        }
    }

    #[track_caller]
    fn check_address(peer: &str, forwarded: &[&str], expected: &str) {
        let trusted = ["10.0.0.0/8", "192.0.2.7", "2001:db8::/32"].map(|text| parse_network(text).unwrap());
        let headers = forwarded.iter().map(|value| (FORWARDED_FOR, value.parse().unwrap())).collect();
        let found = ClientIdentity::from_address(client_address(peer.parse().unwrap(), &headers, &trusted));
        assert_eq!(found, ClientIdentity::from_address(expected.parse().unwrap()), "{peer} {forwarded:?}");
    }

    #[test]
    fn only_a_trusted_proxy_is_believed() {
        check_address("198.51.100.1", &[], "198.51.100.1");
        check_address("198.51.100.1", &["203.0.113.9"], "198.51.100.1");
        check_address("10.1.2.3", &["203.0.113.9"], "203.0.113.9");
        check_address("::ffff:10.1.2.3", &["203.0.113.9"], "203.0.113.9");
        check_address("2001:db8::1", &["203.0.113.9:4711"], "203.0.113.9");
        check_address("10.1.2.3", &[], "10.1.2.3");
    }

    #[test]
    fn forwarded_headers_of_clients_are_not_trusted() {
        check_address("10.1.2.3", &["1.1.1.1, 203.0.113.9"], "203.0.113.9");
        check_address("10.1.2.3", &["1.1.1.1, 203.0.113.9, 192.0.2.7"], "203.0.113.9");
        check_address("10.1.2.3", &["1.1.1.1", "203.0.113.9"], "203.0.113.9");
        check_address("10.1.2.3", &["203.0.113.9, unknown"], "10.1.2.3");
        check_address("10.1.2.3", &["10.9.9.9, 10.8.8.8"], "10.9.9.9");
        check_address("10.1.2.3", &["[2001:db9::1]:80"], "2001:db9::1");
    }

    #[test]
    fn networks_are_parsed_or_rejected() {
        for wrong in ["", "10.0.0.0/33", "10.0.0/8", "10.0.0.0/-1", "host", "::/129", "10.0.0.0/"] {
            assert_eq!(parse_network(wrong), None, "{wrong}");
        }
        let trusts =
            |network, peer: &str| is_trusted(peer.parse().unwrap(), &[parse_network(network).unwrap()]);
        assert!(trusts("0.0.0.0/0", "203.0.113.9") && !trusts("0.0.0.0/0", "::1"));
        assert!(trusts("::/0", "::1") && trusts("10.1.2.3/8", "::ffff:10.9.9.9"));
    }

    #[test]
    fn buffered_bodies_are_limited_and_short_ones_always_fit() {
        let filter = Filter::new(&FilterSettings::default());
        let (buffer, counted) = (&filter.buffer, || filter.counted(Vec::new(), ""));
        let push = |body: &mut CountedBody, length: usize| {
            body.bytes.extend(vec![7; length]);
            body.count(100)
        };
        let mut first = counted();
        assert!(push(&mut first, FREE_BYTES) && push(&mut first, 60));
        let mut second = counted();
        assert!(push(&mut second, FREE_BYTES + 40) && !push(&mut second, 1));
        let mut short = counted();
        assert!(!push(&mut short, FREE_BYTES + 1), "the buffer is full");
        drop((second, short));
        let body = Bytes::from_owner(first);
        assert_eq!(buffer.load(Ordering::Relaxed), 60, "the body counts until its last slice is dropped");
        let part = body.slice(1..);
        drop(body);
        assert_eq!(buffer.load(Ordering::Relaxed), 60);
        drop(part);
        assert_eq!(buffer.load(Ordering::Relaxed), 0);
    }

    #[tokio::test]
    async fn the_values_of_a_request_are_counted_and_a_single_one_is_always_accepted() {
        let settings = FilterSettings { request_buffer_limit_bytes: 100, ..FilterSettings::default() };
        let filter = Filter::new(&settings);
        let read = async |body: String| filter.read(&HeaderMap::new(), "", Body::from(body)).await;
        let query =
            async |query: String, body| filter.read(&HeaderMap::new(), &query, Body::from(body)).await;
        let list = |item: &str| format!("[{}]", vec![item; 1000].join(","));
        let text = read(format!("\"{}\"", "[,{".repeat(1000))).await.unwrap();
        assert_eq!(filter.buffer.load(Ordering::Relaxed), 0, "a string is one value");
        for (item, values) in [("0", 1001), ("{}", 1001), ("[0]", 2001), (r#"{"":0}"#, 2001)] {
            let body = read(list(item)).await.unwrap();
            let expected = 3 * body.len() + VALUE_BYTES * values - FREE_BYTES;
            assert_eq!(filter.buffer.load(Ordering::Relaxed), expected, "{item}");
            assert_eq!(read(list("0")).await.unwrap_err().reason, "request_buffer_full");
            assert!(query("a&".repeat(1000), "").await.is_err());
            read("[0]".to_owned()).await.expect("a small request is not counted");
            query("a=1&b=2".to_owned(), "").await.expect("nor is its query");
        }
        drop(text);
        assert_eq!(filter.buffer.load(Ordering::Relaxed), 0);
        let body = query("a&".repeat(1000), "[0,0]").await.expect("there is no other request");
        assert!(filter.buffer.load(Ordering::Relaxed) > 1000 * VALUE_BYTES - FREE_BYTES);
        drop(body);
        assert_eq!(filter.buffer.load(Ordering::Relaxed), 0);
    }
}
