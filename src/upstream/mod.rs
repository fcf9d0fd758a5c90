//! Asks a legacy server and reads what it answers, whole or streamed.
//!
//! In reading order: [`Address`] says where it is; [`Upstream`] sends an [`Ask`] over pooled connections,
//! `redirect` decides whether to follow, `body` reads to a limit, `headers` drops what belongs to one
//! connection; [`UpstreamError`] says why there is no reply; `stream` hands a request through unread.
//!
//! The only room that names the HTTP client.

mod address;
mod body;
mod client;
mod error;
mod headers;
mod redirect;
mod stream;

use std::time::Duration;

use http::HeaderMap;

use crate::route::{UpstreamName, UpstreamRequest};

pub use address::{Address, AddressError};
pub use client::Upstream;
pub use error::UpstreamError;
pub use headers::remove_hop_by_hop;
pub use stream::{Streamed, StreamedBody};

/// One legacy server, and how it is reached.
#[derive(Debug, Clone)]
pub struct UpstreamSettings {
    /// What routes call it.
    pub name: UpstreamName,
    /// Where it is.
    pub address: Address,
    /// How long finding its address and connecting may take.
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
    /// For [`connect_timeout`](Self::connect_timeout).
    pub const CONNECT_TIMEOUT_DEFAULT: Duration = Duration::from_secs(5);
    /// For [`redirects`](Self::redirects).
    pub const REDIRECTS_DEFAULT: u8 = 0;
    /// For [`idle_connections`](Self::idle_connections): as many as there may be calls in flight.
    pub const IDLE_CONNECTIONS_DEFAULT: usize = 128;

    /// An upstream with every default.
    pub fn new(name: UpstreamName, address: Address) -> Self {
        Self {
            name,
            address,
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
    /// How long it may take, waiting for a place included. Kept by `policy`, not here.
    pub deadline: Duration,
}
