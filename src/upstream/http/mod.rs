//! HTTP client for upstreams, over the network or a UNIX domain socket.
//!
//! - [`Address`] is the address of a server, [`ClientTls`] its TLS settings, [`AuthSettings`] its credential.
//! - `connection` opens connections, and `pool` reuses them.
//! - [`HttpUpstream`] (`client`) sends an [`UpstreamCall`], follows redirects and renews credentials. It also
//!   forwards requests unmodified (passthrough).
//! - `response` checks the framing and reads the body up to a limit.
//! - `secret_scrubber` redacts glossator's credentials for upstreams in responses.
//! - `endpoints` selects the endpoint for each request.
//!
//! Only this module uses the HTTP client library.

mod address;
mod client;
mod connection;
mod credentials;
mod endpoints;
mod pool;
mod response;
mod secret_scrubber;

use std::time::Duration;

use http::{HeaderMap, Version};
use settings_derive::EnumSetting;

use super::{AttemptedEndpoints, ProgressEvent, ProgressSender, UpstreamCall, UpstreamError};
use crate::route::UpstreamName;
use crate::settings::secret::Hidden;

pub use crate::tls::{ClientTls, ClientTlsOptions, Fingerprint, Pem, TlsError};
pub use address::{Address, AddressError};
pub use client::{HttpUpstream, StreamedBody};
pub use connection::RequestBody;
pub(super) use connection::{HEAD_LIMIT_BYTES, HEADER_COUNT_LIMIT};
pub use credentials::{AuthSettings, CredentialError, EndpointUrl, HiddenText, OAuthSettings};
pub use endpoints::{
    ADDRESS_LIMIT, AddressView, EndpointState, HealthCheckSettings, OutlierDetectionSettings, jitter,
};
pub(super) use pool::ResponseBody;
pub use response::remove_hop_by_hop;
pub(super) use response::{IncomingResponse, discard_body};
pub(super) use secret_scrubber::{EVERYTHING, REDACTED, pattern_of};

/// Settings of one HTTP upstream.
#[derive(Debug, Clone, PartialEq)]
pub struct HttpSettings {
    /// Name that routes use.
    pub name: UpstreamName,
    /// First address of the service.
    pub address: Address,
    /// More addresses of the same service, with the same data. Either all addresses are `https://`, or none.
    pub other_addresses: Vec<Address>,
    /// HTTP version.
    pub protocol: HttpVersion,
    /// TLS settings. `Some` for `https://` addresses only.
    pub tls: Option<ClientTls>,
    /// Timeout of DNS lookups, and of a connection to one address including the TLS handshake.
    pub connect_timeout: Duration,
    /// Headers of every request. They override the headers of the route. Secret values are marked
    /// (`HeaderValue::set_sensitive`). Only `Host` is added to passthrough requests.
    pub headers: HeaderMap,
    /// Parameters that are appended to the query of every request, except passthrough requests.
    pub query: Vec<QueryParameter>,
    /// Credential in `Authorization`. It overrides an `Authorization` of the route or in `headers`, and is
    /// added neither to passthrough requests nor to health checks.
    pub auth: Option<AuthSettings>,
    /// Maximum number of redirects to follow, to the same origin only. 0 follows none.
    pub max_redirects: u8,
    /// Maximum number of idle connections to each endpoint.
    pub idle_connections: usize,
    /// When a failing endpoint is ejected, if there are several endpoints.
    pub outlier_detection: OutlierDetectionSettings,
    /// Health checks of the endpoints, if enabled.
    pub health_check: Option<HealthCheckSettings>,
    /// Interval of DNS lookups.
    pub dns_refresh_interval: Duration,
}

/// Query parameter that is added to every request. `Debug` does not show its value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QueryParameter {
    pub(crate) name: String,
    pub(crate) value: Hidden<String>,
    pub(crate) is_secret: bool,
}

/// HTTP version of an upstream.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, EnumSetting)]
pub enum HttpVersion {
    /// HTTP/2 if the TLS handshake negotiates it, else HTTP/1.1.
    #[default]
    Auto,
    /// HTTP/1.0: one connection per request, and no chunked bodies.
    #[value("http1.0")]
    Http10,
    /// HTTP/1.1. Responses in HTTP/1.0 are accepted.
    Http1,
    /// HTTP/2, without TLS by prior knowledge (RFC 9113, section 3.3).
    Http2,
}

impl HttpVersion {
    /// Version in the requests for the HTTP library, which accepts HTTP/1.1 for HTTP/2.
    fn version(self) -> Version {
        if self == Self::Http10 { Version::HTTP_10 } else { Version::HTTP_11 }
    }
}

impl HttpSettings {
    /// Default of [`connect_timeout`](Self::connect_timeout).
    pub const CONNECT_TIMEOUT_DEFAULT: Duration = Duration::from_secs(5);
    /// Default of [`max_redirects`](Self::max_redirects).
    pub const REDIRECTS_DEFAULT: u8 = 0;
    /// Default of [`dns_refresh_interval`](Self::dns_refresh_interval).
    pub const DNS_REFRESH_INTERVAL_DEFAULT: Duration = Duration::from_secs(30);

    /// Settings with all defaults. An `https://` address also needs [`tls`](Self::tls).
    pub fn new(name: UpstreamName, address: Address) -> Self {
        Self {
            name,
            address,
            other_addresses: Vec::new(),
            protocol: HttpVersion::Auto,
            tls: None,
            connect_timeout: Self::CONNECT_TIMEOUT_DEFAULT,
            headers: HeaderMap::new(),
            query: Vec::new(),
            auth: None,
            max_redirects: Self::REDIRECTS_DEFAULT,
            // As many as the default concurrency limit.
            idle_connections: 128,
            outlier_detection: OutlierDetectionSettings::default(),
            health_check: None,
            dns_refresh_interval: Self::DNS_REFRESH_INTERVAL_DEFAULT,
        }
    }

    /// The first address, then the others.
    pub fn addresses(&self) -> impl Iterator<Item = &Address> {
        std::iter::once(&self.address).chain(&self.other_addresses)
    }
}
