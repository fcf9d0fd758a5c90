//! Who may come in: the checks of `Host`, `Origin` and body size that all HTTP faces share.
//!
//! A browser on the operator's machine can be made to talk to a server on loopback (DNS rebinding). It then
//! names its own page in `Origin` and its own domain in `Host`; both are held against what is allowed here
//! (MCP 2026-07-28, Streamable HTTP, "Security & Endpoint").

mod checks;
mod held;
mod page;
#[cfg(test)]
mod tests;

use std::{sync::Arc, time::Duration};

use arc_swap::ArcSwap;
use axum::body::Body;
use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header, request::Parts};
use http_body::Body as _;
use http_body_util::{BodyExt, LengthLimitError, Limited};
use ipnet::IpNet;
use tokio::time::timeout;

use self::{checks::Checks, held::Held};
pub use self::{
    checks::{Quoted, Refused},
    page::Page,
};
use super::{
    authenticate::Guard,
    context::{Arrival, Reason},
    proxies,
};
use crate::observe::{MeterSource, Reading, Words};

const REFUSED_HOST: &str = "host";
const REFUSED_ORIGIN: &str = "origin";

/// When to come back with a body for which there is no room.
const AGAIN_AFTER_SECONDS: u64 = 2;

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
    /// How many bytes of bodies are held at once, of all clients together; room for one as long as it may be there is
    /// always.
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
    /// Others are sending so much that there is no room for it: HTTP 503.
    #[error("too much is being sent here at once; send it again in a few seconds")]
    Crowded,
    /// Compressed on its way by a coding that is none of ours: HTTP 501 (RFC 9112, section 6.1).
    #[error("the request's `Transfer-Encoding` is not `chunked` alone; send the body as it is")]
    Coded,
    /// The client broke off, or its framing is wrong: HTTP 400, if anyone is still there to read it.
    #[error("the request's body could not be read")]
    CutOff(#[source] Box<dyn std::error::Error + Send + Sync>),
}

impl Reason for BodyError {
    fn reason(&self) -> &'static str {
        self.as_word()
    }
}

impl BodyError {
    fn as_word(&self) -> &'static str {
        match self {
            Self::TooLong { .. } => "body_too_long",
            Self::Slow { .. } => "body_slow",
            Self::Crowded => "bodies_too_many",
            Self::Coded => "body_coded",
            Self::CutOff(_) => "body_cut_off",
        }
    }

    /// The HTTP status that says so.
    pub fn status(&self) -> StatusCode {
        match self {
            Self::TooLong { .. } => StatusCode::PAYLOAD_TOO_LARGE,
            Self::Slow { .. } => StatusCode::REQUEST_TIMEOUT,
            Self::Crowded => StatusCode::SERVICE_UNAVAILABLE,
            Self::Coded => StatusCode::NOT_IMPLEMENTED,
            Self::CutOff(_) => StatusCode::BAD_REQUEST,
        }
    }

    /// Says when to come back, where that helps.
    pub fn tell(&self, response: &mut HeaderMap) {
        match self {
            Self::Crowded => {
                response.insert(header::RETRY_AFTER, HeaderValue::from(AGAIN_AFTER_SECONDS));
            }
            Self::TooLong { .. } | Self::Slow { .. } | Self::Coded | Self::CutOff(_) => {}
        }
    }
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

    /// Whether a request was sent to a name that is let in by itself, or to an address, and not to one of any names.
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

    /// Reads a body, at most as much as is allowed.
    ///
    /// # Errors
    ///
    /// [`BodyError`] when it is longer, too slow, or breaks off, or when others send too much.
    pub async fn read(&self, headers: &HeaderMap, body: Body) -> Result<Bytes, BodyError> {
        let read = self.try_read(headers, body).await;
        if let Err(error) = &read {
            self.refused.add(error.as_word());
        }
        read
    }

    async fn try_read(&self, headers: &HeaderMap, body: Body) -> Result<Bytes, BodyError> {
        let (limit_bytes, room_bytes, after) = {
            let checks = self.checks.load();
            (checks.body_limit_bytes, checks.bodies_limit_bytes, checks.body_timeout)
        };
        let announced =
            headers.get(header::CONTENT_LENGTH).and_then(|value| value.to_str().ok()?.parse().ok());
        if announced.is_some_and(|length: u64| length > limit_bytes as u64) {
            return Err(BodyError::TooLong { limit_bytes });
        }
        if is_coded(headers) {
            return Err(BodyError::Coded);
        }
        if body.is_end_stream() {
            return Ok(Bytes::new());
        }
        let reading = async {
            let (mut body, mut share) = (Limited::new(body, limit_bytes), self.held.share());
            // Untouched memory is none: what is announced and does not come takes nothing.
            let mut whole = Vec::with_capacity(announced.unwrap_or(0) as usize);
            while let Some(frame) = body.frame().await {
                let frame = frame.map_err(|error| match error.is::<LengthLimitError>() {
                    true => BodyError::TooLong { limit_bytes },
                    false => BodyError::CutOff(error),
                })?;
                let Ok(data) = frame.into_data() else { continue };
                if !share.grow_to(whole.len() + data.len(), room_bytes.max(limit_bytes)) {
                    return Err(BodyError::Crowded);
                }
                whole.extend_from_slice(&data);
            }
            Ok(share.with(whole))
        };
        timeout(after, reading).await.unwrap_or(Err(BodyError::Slow { after }))
    }
}

/// Whether a body was changed on its way by more than being cut into chunks.
pub fn is_coded(headers: &HeaderMap) -> bool {
    headers
        .get_all(header::TRANSFER_ENCODING)
        .iter()
        .any(|value| !value.as_bytes().trim_ascii().eq_ignore_ascii_case(b"chunked"))
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
