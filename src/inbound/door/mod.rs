//! Who may come in: the checks of `Host`, `Origin` and body size that all HTTP faces share.
//!
//! A browser on the operator's machine can be made to talk to a server on loopback (DNS rebinding). It then
//! names its own page in `Origin` and its own domain in `Host`; both are held against what is allowed here
//! (MCP 2026-07-28, Streamable HTTP, "Security & Endpoint"): `checks`. `body` reads what comes in.

mod body;
mod checks;
#[cfg(test)]
mod tests;

use std::{sync::Arc, time::Duration};

use arc_swap::ArcSwap;
use axum::body::Body;
use http::{HeaderMap, HeaderName, HeaderValue, Response, StatusCode, header, request::Parts};
use ipnet::IpNet;

use self::{body::Held, checks::Checks};
pub use self::{
    body::{BodyError, is_coded},
    checks::{Quoted, Refused},
};
use super::{authenticate::Guard, context::Arrival, proxies};
use crate::telemetry::{MeterSource, Reading, Words};

const REFUSED_HOST: &str = "host";
const REFUSED_ORIGIN: &str = "origin";

/// What the door lets in. Made by [`DoorSettings::default`] it serves this machine only.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DoorSettings {
    /// Hosts that clients may address us by: `name` (any port), `name:port`, or `*` for any.
    pub allowed_hosts: Vec<String>,
    /// Origins of web pages that may call us and read what we answer: `scheme://host` (any port),
    /// `scheme://host:port`, `null`, or `*` for any. A page that we serve ourselves need not be named. Where
    /// there are none, pages of this machine come in too, and no browser lets them read the answer.
    pub allowed_origins: Vec<String>,
    /// How many bytes of body a request may have.
    pub body_limit_bytes: usize,
    /// How many bytes of bodies are held at once, of all clients together; room for one as long as it may be
    /// there is always.
    pub bodies_limit_bytes: usize,
    /// How long a client may take to send it.
    pub body_timeout: Duration,
    /// Proxies before us, whose `X-Forwarded-For` is believed.
    pub trusted_proxies: Vec<IpNet>,
    /// What becomes of pages of this machine where no origin is allowed.
    pub pages_here: PagesHere,
}

/// What becomes of web pages that this machine serves at other ports, where no origin is allowed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PagesHere {
    /// They come in, and no browser lets them read the answer: a page under development calls what it is made
    /// for.
    LetIn,
    /// They are refused as pages from elsewhere.
    Refused,
}

/// This machine, as those on it call it.
const LOOPBACK: [&str; 3] = ["localhost", "127.0.0.1", "[::1]"];

/// Whether a header says for whom a proxy asks, or how a request came to it, which only a trusted one may
/// say: who says it of itself lies to what is behind us.
fn is_of_a_proxy(name: &str) -> bool {
    const NAMES: [&str; 7] = [
        "forwarded",
        "true-client-ip",
        "x-client-ip",
        "x-cluster-client-ip",
        "x-original-url",
        "x-real-ip",
        "x-rewrite-url",
    ];
    name.starts_with("x-forwarded-") || NAMES.contains(&name)
}

/// Whether a header is let in from nobody. Programs over CGI take `Proxy` for the variable `HTTP_PROXY`
/// (CVE-2016-5385) and `X_Forwarded_For` for `X-Forwarded-For`, and proxies pass both on unseen.
fn is_never_let_in(name: &str) -> bool {
    name == "proxy" || (name.contains('_') && is_of_a_proxy(&name.replace('_', "-")))
}

impl DoorSettings {
    /// For [`body_limit_bytes`](Self::body_limit_bytes).
    pub const BODY_LIMIT_BYTES_DEFAULT: usize = 4 << 20;
    /// For [`bodies_limit_bytes`](Self::bodies_limit_bytes).
    pub const BODIES_LIMIT_BYTES_DEFAULT: usize = 64 << 20;
    /// For [`body_timeout`](Self::body_timeout).
    pub const BODY_TIMEOUT_DEFAULT: Duration = Duration::from_secs(30);
}

impl Default for DoorSettings {
    fn default() -> Self {
        Self {
            allowed_hosts: LOOPBACK.map(str::to_owned).to_vec(),
            allowed_origins: Vec::new(),
            body_limit_bytes: Self::BODY_LIMIT_BYTES_DEFAULT,
            bodies_limit_bytes: Self::BODIES_LIMIT_BYTES_DEFAULT,
            body_timeout: Self::BODY_TIMEOUT_DEFAULT,
            trusted_proxies: Vec::new(),
            pages_here: PagesHere::LetIn,
        }
    }
}

/// The shared checks, ready to run. Clones are the same door.
#[derive(Debug, Clone)]
pub struct Door {
    checks: Arc<ArcSwap<Checks>>,
    /// How often somebody was not let in, by why.
    refused: Words,
    /// Of the bodies that are being read, or answered.
    held: Held,
    /// Who asks those that are let in who they are.
    pub guard: Guard,
}

impl Door {
    /// A door with these settings. What is no host or origin lets nobody in.
    pub fn new(settings: &DoorSettings) -> Self {
        let refused = Words::default();
        refused.expect([REFUSED_HOST, REFUSED_ORIGIN, "body_too_long", "body_slow", "bodies_too_many"]);
        refused.expect(["body_coded", "body_cut_off"]);
        Self {
            checks: Arc::new(ArcSwap::from_pointee(Checks::new(settings))),
            refused,
            held: Held::default(),
            guard: Guard::default(),
        }
    }

    /// Lets in by other settings from now on.
    pub fn replace(&self, settings: &DoorSettings) {
        self.checks.store(Arc::new(Checks::new(settings)));
    }

    /// Lets a request in that may come in, and notes the address of its client.
    ///
    /// # Errors
    ///
    /// [`Refused`], to be answered with its [status](Refused::status).
    pub fn admit(&self, head: &mut Parts, arrival: &mut Arrival) -> Result<Page, Refused> {
        let admitted = self.try_admit(head, arrival);
        if let Err(refused) = &admitted {
            self.refused.add(match refused {
                Refused::Host { .. } | Refused::Hosts | Refused::NoHost { .. } => REFUSED_HOST,
                Refused::Origin { .. } | Refused::Page => REFUSED_ORIGIN,
            });
        }
        admitted
    }

    /// Whether a request was sent to a name that is let in by itself, or to an address, and not to one of any
    /// names.
    pub fn knows_host(&self, head: &Parts) -> bool {
        self.checks.load().check_host(head).is_ok_and(|host| host.is_some())
    }

    /// Whether a request names one host, as every request of HTTP/1.1 has to, whichever that is: probes are
    /// let in by any, since they ask by the address of a machine.
    ///
    /// # Errors
    ///
    /// [`Refused`], to be answered with its [status](Refused::status).
    pub fn names_one_host(&self, head: &Parts) -> Result<(), Refused> {
        let named = checks::named_host(head);
        if named.is_err() {
            self.refused.add(REFUSED_HOST);
        }
        named.map(|_| ())
    }

    fn try_admit(&self, head: &mut Parts, arrival: &mut Arrival) -> Result<Page, Refused> {
        let checks = self.checks.load();
        let host = checks.check_host(head)?;
        let page = checks.check_origin(&head.headers, host.as_ref())?;
        let peer = arrival.connection.peer;
        let is_trusted = peer.is_some_and(|peer| proxies::is_trusted(peer.ip(), &checks.trusted_proxies));
        let is_left_out = |name: &&HeaderName| {
            let name = name.as_str();
            is_never_let_in(name) || (!is_trusted && is_of_a_proxy(name))
        };
        let left_out: Vec<HeaderName> = head.headers.keys().filter(is_left_out).cloned().collect();
        left_out.iter().for_each(|name| drop(head.headers.remove(name)));
        if let Some(peer) = peer {
            let address = proxies::address_of_client(peer.ip(), &head.headers, &checks.trusted_proxies);
            arrival.address = Some(address);
        }
        Ok(page)
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

/// A web page of another origin that sends the request, if one does: whether it may read what we answer
/// (Fetch, "CORS protocol"), or only leads here.
#[derive(Debug, Default)]
pub struct Page {
    reader: Option<HeaderValue>,
    has_link: bool,
}

impl Page {
    fn of(origin: HeaderValue) -> Self {
        Self { reader: Some(origin), has_link: false }
    }

    fn with_link() -> Self {
        Self { reader: None, has_link: true }
    }

    /// Whether somebody follows a link of a page that may not call: good for what is shown, and for no call.
    pub fn has_link(&self) -> bool {
        self.has_link
    }

    /// Tells its browser to let it read the response.
    pub fn let_read(self, response: &mut HeaderMap) {
        let Some(origin) = self.reader else { return };
        response.insert(header::ACCESS_CONTROL_ALLOW_ORIGIN, origin);
        response.insert(
            header::ACCESS_CONTROL_EXPOSE_HEADERS,
            HeaderValue::from_static("mcp-session-id, www-authenticate, x-request-id"),
        );
        response.append(header::VARY, HeaderValue::from_static("origin"));
    }

    /// Answers `OPTIONS`: its browser's question whether the request it has in mind is welcome, or a plain
    /// one. `methods` as in `POST, OPTIONS`.
    pub fn options(&self, request: &HeaderMap, methods: &str) -> Response<Body> {
        let mut response = Response::new(Body::empty());
        *response.status_mut() = StatusCode::NO_CONTENT;
        let headers = response.headers_mut();
        let methods = HeaderValue::from_str(methods).expect("methods have visible ASCII characters only");
        headers.insert(header::ALLOW, methods.clone());
        if self.reader.is_some() && request.contains_key(header::ACCESS_CONTROL_REQUEST_METHOD) {
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
