//! Asks a legacy server and reads what it answers, whole or streamed.
//!
//! In reading order: [`Address`] says where it is and [`ClientTls`] whom to take it for; `connector` connects;
//! [`Upstream`] sends an [`Ask`] over pooled connections, `redirect` decides whether to follow, `body` reads to a limit, `headers` drops what belongs to one
//! connection; [`UpstreamError`] says why there is no reply; [`Meanwhile`] tells what happens before there is one; `stream` hands a request through unread.
//!
//! The only room that names the HTTP client.

mod address;
mod body;
mod client;
mod connector;
mod error;
mod headers;
mod meanwhile;
mod redirect;
mod stream;
mod tls;

use std::{future::Future, pin::Pin, time::Duration};

use http::HeaderMap;
use tokio::time::Instant;

use crate::{
    reply::Reply,
    route::{UpstreamName, UpstreamRequest},
};

pub use address::{Address, AddressError};
pub use client::Upstream;
pub use error::UpstreamError;
pub use headers::remove_hop_by_hop;
pub use meanwhile::{Happened, Hearing, Meanwhile};
pub use stream::{Streamed, StreamedBody};
pub use tls::{ClientTls, ClientTlsOptions, Identity, TlsError, Trust};

/// One legacy server, and how it is reached.
#[derive(Debug, Clone)]
pub struct UpstreamSettings {
    /// What routes call it.
    pub name: UpstreamName,
    /// Where it is.
    pub address: Address,
    /// Which HTTP it speaks.
    pub protocol: Protocol,
    /// Whom it is taken for; there for `https://` addresses, and for no others.
    pub tls: Option<ClientTls>,
    /// How long finding its address and connecting may take, the handshake of TLS included.
    pub connect_timeout: Duration,
    /// Headers of every request that a route sends to it, over whatever the route says. Values that are secret
    /// are marked so (`HeaderValue::set_sensitive`). They are not added to requests that are passed through.
    pub headers: HeaderMap,
    /// How many redirects are followed, to the same origin only; 0 follows none.
    pub redirects: u8,
    /// How many connections are kept open for later requests.
    pub idle_connections: usize,
}

impl UpstreamSettings {
    /// Whether these are the same as others, as far as can be told: of TLS it can't.
    pub fn is_certainly(&self, other: &Self) -> bool {
        let Self { name, address, protocol, tls, connect_timeout, headers, redirects, idle_connections } =
            self;
        tls.is_none()
            && other.tls.is_none()
            && *name == other.name
            && *address == other.address
            && *protocol == other.protocol
            && *connect_timeout == other.connect_timeout
            && *headers == other.headers
            && *redirects == other.redirects
            && *idle_connections == other.idle_connections
    }
}

/// Which HTTP an upstream speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Protocol {
    /// HTTP/2 where it is agreed on in the handshake of TLS, else HTTP/1.1.
    #[default]
    Auto,
    /// HTTP/1.0, asked in its words: a connection a request, and no chunked bodies.
    Http10,
    /// HTTP/1.1; replies in HTTP/1.0 are understood.
    Http1,
    /// HTTP/2, without TLS by prior knowledge (RFC 9113, section 3.3).
    Http2,
}

impl UpstreamSettings {
    /// For [`connect_timeout`](Self::connect_timeout).
    pub const CONNECT_TIMEOUT_DEFAULT: Duration = Duration::from_secs(5);
    /// For [`redirects`](Self::redirects).
    pub const REDIRECTS_DEFAULT: u8 = 0;
    /// For [`idle_connections`](Self::idle_connections): as many as there may be calls in flight.
    pub const IDLE_CONNECTIONS_DEFAULT: usize = 128;

    /// An upstream with every default; with an `https://` address it needs [`tls`](Self::tls) yet.
    pub fn new(name: UpstreamName, address: Address) -> Self {
        Self {
            name,
            address,
            protocol: Protocol::Auto,
            tls: None,
            connect_timeout: Self::CONNECT_TIMEOUT_DEFAULT,
            headers: HeaderMap::new(),
            redirects: Self::REDIRECTS_DEFAULT,
            idle_connections: Self::IDLE_CONNECTIONS_DEFAULT,
        }
    }
}

/// A request, and how much time and room its reply may take.
#[derive(Debug, Clone)]
pub struct Ask {
    /// What is sent.
    pub request: UpstreamRequest,
    /// How many bytes of body are read.
    pub reply_limit_bytes: usize,
    /// When it must be over, waits and repetitions included. Kept by `policy`, not here.
    pub due: Due,
    /// Whether it does no harm to send the request a second time.
    pub repeatable: bool,
    /// Who hears what happens before the reply is there; nobody where there is none.
    pub meanwhile: Option<Meanwhile>,
}

/// The reply to an [`Ask`], or why there is none, once it is known.
pub type PendingReply = Pin<Box<dyn Future<Output = Result<Reply, UpstreamError>> + Send>>;

/// The end of a call's time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Due {
    /// The end.
    pub at: Instant,
    /// How long it was from the beginning on, for whoever is told of it.
    pub after: Duration,
}

impl Due {
    /// The end of a time that begins now.
    pub fn after(after: Duration) -> Self {
        Self { at: Instant::now() + after, after }
    }
}
