//! HTTP servers, over the network or a UNIX domain socket.
//!
//! In reading order: [`Address`] is the address of one, [`ClientTls`] its TLS settings, and [`AuthSettings`]
//! the credential that it is sent; `connection` connects, `pool` reuses connections; [`HttpUpstream`]
//! (`client`) sends an [`UpstreamCall`], follows redirects and renews credentials; `response` checks the
//! framing and reads the body to a limit, `secret_scrubber` redacts our own secrets in it; `passthrough`
//! forwards a request unread; `endpoints` picks the address where there are several.
//!
//! Only this module names the HTTP client.

mod address;
mod client;
mod connection;
mod credentials;
mod passthrough;
mod pool;
mod response;
mod secret_scrubber;
mod endpoints;

use std::time::Duration;

use http::{HeaderMap, Version};

use super::{
    AttemptedEndpoints, ProgressEvent, ProgressSender, UpstreamCall, UpstreamError, error::ConnectTimedOut,
};
use crate::route::UpstreamName;

pub use crate::tls::{ClientTls, ClientTlsOptions, Identity, TlsError, Trust};
pub use address::{Address, AddressError};
pub use client::HttpUpstream;
pub(super) use connection::{HEAD_LIMIT_BYTES, HEADER_COUNT_LIMIT};
pub use credentials::{
    AuthSettings, AuthStyle, BearerToken, CredentialError, Hidden, OAuthSettings, TokenUrl,
};
pub use endpoints::{ADDRESS_LIMIT, AddressView, HealthCheckSettings, OutlierDetectionSettings, State};
pub use passthrough::StreamedBody;
pub(super) use pool::{ResponseBody, SendError};
pub(super) use response::IncomingResponse;
pub use response::remove_hop_by_hop;
pub(super) use secret_scrubber::{EVERYTHING, MARK, ResponseScrubber, pattern_of};

/// One server, and how it is reached.
#[derive(Debug, Clone, PartialEq)]
pub struct HttpSettings {
    /// The name that routes use.
    pub name: UpstreamName,
    /// Its address.
    pub address: Address,
    /// More addresses of the same service, with the same data. All of them are `https://` addresses, or none
    /// is.
    pub others: Vec<Address>,
    /// The HTTP version.
    pub protocol: Protocol,
    /// How it is authenticated; there for `https://` addresses, and for no others.
    pub tls: Option<ClientTls>,
    /// The timeout of a look-up of its names, and of a connection to one address, the TLS handshake included.
    pub connect_timeout: Duration,
    /// Headers of every request of routes, in place of the route's own. Values that are secret
    /// are marked so (`HeaderValue::set_sensitive`). They are not added to requests that are passed through.
    pub headers: HeaderMap,
    /// The credential in `Authorization`, in place of one in the route or in `headers`. Nor is that added to
    /// requests that are passed through.
    pub auth: Option<AuthSettings>,
    /// How many redirects are followed, to the same origin only; 0 follows none.
    pub max_redirects: u8,
    /// How many connections to each address are kept open for later requests.
    pub idle_connections: usize,
    /// When an address that fails is ejected, where there are several.
    pub outlier_detection: OutlierDetectionSettings,
    /// How the health of its addresses is checked, if it is.
    pub health_check: Option<HealthCheckSettings>,
    /// After how long a name is looked up again.
    pub dns_refresh_interval: Duration,
}

/// Which HTTP an upstream speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Protocol {
    /// HTTP/2 where it is agreed on in the handshake of TLS, else HTTP/1.1.
    #[default]
    Auto,
    /// HTTP/1.0: a connection for each request, and no chunked bodies.
    Http10,
    /// HTTP/1.1; replies in HTTP/1.0 are understood.
    Http1,
    /// HTTP/2, without TLS by prior knowledge (RFC 9113, section 3.3).
    Http2,
}

impl Protocol {
    /// The version that requests are written in; HTTP/2 accepts that of HTTP/1.1 as its own.
    fn version(self) -> Version {
        if self == Self::Http10 { Version::HTTP_10 } else { Version::HTTP_11 }
    }
}

impl HttpSettings {
    /// For [`connect_timeout`](Self::connect_timeout).
    pub const CONNECT_TIMEOUT_DEFAULT: Duration = Duration::from_secs(5);
    /// For [`max_redirects`](Self::max_redirects).
    pub const REDIRECTS_DEFAULT: u8 = 0;
    /// For [`idle_connections`](Self::idle_connections): as many as there may be calls in flight.
    pub const IDLE_CONNECTIONS_DEFAULT: usize = 128;

    /// For [`dns_refresh_interval`](Self::dns_refresh_interval).
    pub const DNS_REFRESH_INTERVAL_DEFAULT: Duration = Duration::from_secs(30);

    /// An upstream with every default; with an `https://` address it needs [`tls`](Self::tls) yet.
    pub fn new(name: UpstreamName, address: Address) -> Self {
        Self {
            name,
            address,
            others: Vec::new(),
            protocol: Protocol::Auto,
            tls: None,
            connect_timeout: Self::CONNECT_TIMEOUT_DEFAULT,
            headers: HeaderMap::new(),
            auth: None,
            max_redirects: Self::REDIRECTS_DEFAULT,
            idle_connections: Self::IDLE_CONNECTIONS_DEFAULT,
            outlier_detection: OutlierDetectionSettings::default(),
            health_check: None,
            dns_refresh_interval: Self::DNS_REFRESH_INTERVAL_DEFAULT,
        }
    }

    /// All its addresses.
    pub fn addresses(&self) -> impl Iterator<Item = &Address> {
        std::iter::once(&self.address).chain(&self.others)
    }
}
