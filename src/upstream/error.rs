//! Errors of upstreams, and the table of their properties.

use std::{error::Error, sync::Arc, time::Duration};

use http::StatusCode;

use super::http::{CredentialError, HEAD_LIMIT_BYTES, HEADER_COUNT_LIMIT};
use crate::model::UpstreamResponse;
use crate::route::UpstreamName;

/// Source of an error. Clones share it, because coalesced calls fail with the same error.
#[derive(Debug, Clone, derive_more::Deref)]
#[deref(forward)]
pub struct ErrorSource(pub(super) Arc<dyn Error + Send + Sync>);

impl<E: Into<Box<dyn Error + Send + Sync>>> From<E> for ErrorSource {
    fn from(error: E) -> Self {
        Self(error.into().into())
    }
}

/// Error source that may quote text of the upstream or the client. The quoted text is only logged at `debug`.
#[derive(Debug, thiserror::Error)]
#[error("{plain}")]
pub(crate) struct QuotedSource {
    /// Text without quotations: types, lengths and constant text.
    plain: String,
    /// Text with quotations, for a log at `debug`.
    pub(crate) quoted: String,
}

impl QuotedSource {
    pub(crate) fn new(plain: impl Into<String>, quoted: impl Into<String>) -> Self {
        Self { plain: plain.into(), quoted: quoted.into() }
    }

    /// Error for JSON of an unexpected structure.
    pub(super) fn from_json(error: &serde_json::Error) -> Self {
        let plain = format!(
            "its JSON has an unexpected structure at line {}, column {}",
            error.line(),
            error.column()
        );
        Self::new(plain, error.to_string())
    }
}

/// Rate limit that was exceeded. The names are in the log, and in keys of the shared state.
#[derive(Debug, Clone, Copy, PartialEq, Eq, strum::Display, strum::IntoStaticStr)]
pub enum RateLimitScope {
    /// Rate limit of a client for one route.
    #[strum(serialize = "rate_limit_per_client of the route")]
    ClientOfRoute,
    /// Rate limit of a client for all routes to an upstream.
    #[strum(serialize = "rate_limit_per_client of the upstream")]
    ClientOfUpstream,
    /// Rate limit of one route, for all clients together.
    #[strum(serialize = "rate_limit of the route")]
    Route,
    /// Rate limit of an upstream, for all clients together.
    #[strum(serialize = "rate_limit of the upstream")]
    Upstream,
}

/// Reason why an upstream returned no usable response. For the log; `pipeline::error_text` has the texts for
/// clients.
#[derive(Debug, Clone, thiserror::Error)]
#[error("upstream `{upstream}`")]
pub struct UpstreamError {
    /// The upstream.
    pub upstream: UpstreamName,
    /// The failure.
    #[source]
    pub failure: Failure,
}

/// Failure of a request to an upstream. [`into_error`](Self::into_error) adds the name of the upstream.
#[derive(Debug, Clone, thiserror::Error)]
pub enum Failure {
    /// No connection: refused, unknown host, unreachable network.
    #[error("could not connect")]
    Connect(#[source] ErrorSource),
    /// No connection within this timeout.
    #[error("could not connect within {0:?}")]
    ConnectTimeout(Duration),
    /// The program could not be started: it does not exist, or the system is out of resources.
    #[error("the program could not be started")]
    NotStarted(#[source] ErrorSource),
    /// The connection ended before the response did.
    #[error("the connection was closed before the response was complete")]
    CutOff(#[source] ErrorSource),
    /// The response is not valid HTTP, or contradicts itself.
    #[error("it sent no valid HTTP response")]
    NotHttp(#[source] ErrorSource),
    /// The program's output is not a valid CGI response.
    #[error("it sent no valid CGI response")]
    NotCgi(#[source] ErrorSource),
    /// The response is not MCP, or of an unknown revision.
    #[error("it sent no valid MCP response")]
    NotMcp(#[source] ErrorSource),
    /// Status line and headers are over a limit.
    #[error("response headers over {} bytes, or over {} headers", HEAD_LIMIT_BYTES, HEADER_COUNT_LIMIT)]
    HeadTooLong,
    /// The body is longer than this number of bytes, the limit of the route.
    #[error("the response is longer than {0} bytes")]
    TooLong(usize),
    /// No complete response within this timeout of the call.
    #[error("no complete response within {0:?}")]
    Timeout(Duration),
    /// No complete response within the timeout of one attempt.
    #[error("no complete response within the attempt timeout of {0:?}")]
    AttemptTimeout(Duration),
    /// The circuit breaker of the upstream or of the route is open.
    #[error("the {} is open for {} s", circuit_breaker(*.of_route), whole_seconds(*.retry_after))]
    CircuitOpen {
        /// Whether the circuit breaker of the route is open, and not the circuit breaker of the upstream.
        of_route: bool,
        /// Time until the circuit breaker is half-open.
        retry_after: Duration,
    },
    /// The program of an MCP server has exited or did not start, and is started again after this time.
    #[error("the MCP server is not running; it restarts in {} s", whole_seconds(*.0))]
    Restarting(Duration),
    /// The concurrency limit (`max_in_flight`) is reached: this number of calls is in flight.
    #[error("{0} calls are in flight, which is the limit")]
    Busy(usize),
    /// The concurrency limit per client (`max_in_flight_per_client`) is reached: the client has this number
    /// of calls in flight.
    #[error("one client has {0} calls in flight, which is the limit")]
    ClientBusy(usize),
    /// No credential is available for the upstream. All calls that need the credential share the reason.
    #[error("no credential is available, so no request was sent")]
    Credential(#[source] Arc<CredentialError>),
    /// A rate limit is exceeded.
    #[error("{scope} is exceeded: {count} calls in {per:?}")]
    RateLimited {
        /// The exceeded rate limit.
        scope: RateLimitScope,
        /// Number of calls that the limit admits per period.
        count: u32,
        /// Period of the limit.
        per: Duration,
        /// Time until the next call is admitted.
        retry_after: Duration,
    },
    /// The rate limit is counted in the shared state, which is unreachable, and the limit is configured to
    /// reject all calls in that case.
    #[error("the rate limit is counted in the shared state, which can't be reached")]
    RateLimitUnavailable,
    /// The client sends its request body too slowly for this timeout.
    #[error("the client sends its request body too slowly for the timeout of {0:?}")]
    SlowUpload(Duration),
    /// No memory is free for the response, within this limit for all upstream responses, in bytes.
    #[error("no memory was free for the response (`server.upstream_buffer_limit` is {0} bytes)")]
    BufferFull(usize),
    /// The request can't be encoded as HTTP.
    #[error("the request can't be sent")]
    Unsendable(#[source] ErrorSource),
}

/// Response to one request, or the failure of the request.
pub type UpstreamResult = Result<UpstreamResponse, Failure>;

/// Rounds a time up to seconds, because a client that retries a fraction of a second too early is rejected
/// again.
pub(crate) fn whole_seconds(time: Duration) -> u64 {
    time.as_secs() + u64::from(time.subsec_nanos() > 0)
}

/// Name of the circuit breaker of a route or an upstream.
fn circuit_breaker(of_route: bool) -> &'static str {
    if of_route { "route circuit breaker" } else { "upstream circuit breaker" }
}

/// Properties of a failure for policies, metrics and the log ([`Failure::properties`]).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ErrorProperties {
    /// Label in metrics and spans.
    pub label: &'static str,
    /// Stage at which the request failed.
    pub stage: FailureStage,
    /// Policy or state of glossator that rejected the call, for the log.
    pub rejected_by: Option<&'static str>,
    /// Time until another call may be admitted.
    pub retry_after: Option<Duration>,
}

/// Stage at which a request failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FailureStage {
    /// Rejected by glossator: nothing was sent to the upstream.
    Rejected,
    /// The request is incomplete or can't be encoded.
    Unsendable,
    /// The upstream could not be reached. Nothing was sent, so another endpoint can be tried.
    NotReached,
    /// The request was sent, and no complete response arrived.
    NoResponse,
    /// A response arrived that can't be parsed.
    Malformed,
    /// A response arrived that is over a size limit.
    TooLong,
    /// A response arrived, but no memory was free for it.
    Unread,
}

/// Evidence, from the outcome of a request, of whether an upstream, a route or an endpoint works. Circuit
/// breakers and the selection of endpoints use it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Evidence {
    Success,
    Failure,
    None,
}

/// Evidence from the outcome of one request.
pub(crate) struct RequestEvidence {
    /// Success if the upstream is reachable.
    pub(crate) upstream: Evidence,
    /// Success if the upstream serves requests of the route.
    pub(crate) route: Evidence,
    /// Success if the endpoint serves requests.
    pub(crate) endpoint: Evidence,
}

impl RequestEvidence {
    /// Derives the evidence from the status of the response, or from the failure.
    pub(crate) fn new(result: Result<StatusCode, &Failure>) -> Self {
        use Evidence::{Failure as Bad, None as No, Success as Good};
        let (upstream, route, endpoint) = match result.map_err(|failure| failure.properties().stage) {
            Ok(StatusCode::BAD_GATEWAY | StatusCode::SERVICE_UNAVAILABLE | StatusCode::GATEWAY_TIMEOUT) => {
                (Good, Bad, Bad)
            }
            Ok(_) => (Good, Good, Good),
            // The circuit breaker of the upstream counts these failures, so the circuit breaker of the route
            // need not.
            Err(FailureStage::NotReached | FailureStage::NoResponse) => (Bad, No, Bad),
            // The upstream responded, even if the response is invalid or too long.
            Err(FailureStage::Malformed) => (Good, Bad, Bad),
            Err(FailureStage::TooLong) => (Good, Good, No),
            // A limit of glossator proves nothing about the route or the endpoint.
            Err(FailureStage::Unread) => (Good, No, No),
            // The upstream got no request. A failing token server must not open the circuit breaker of the
            // upstream.
            Err(FailureStage::Rejected | FailureStage::Unsendable) => (No, No, No),
        };
        Self { upstream, route, endpoint }
    }
}

/// Retry hint for rejections by a limit on concurrency or memory, while an upstream starts, and during a
/// shutdown. Such states end quickly.
pub const RETRY_WHEN_BUSY: Duration = Duration::from_secs(2);

impl RateLimitScope {
    /// Whether each client has a limit of its own.
    pub(crate) fn is_per_client(self) -> bool {
        matches!(self, Self::ClientOfRoute | Self::ClientOfUpstream)
    }
}

/// Error of a reused connection, which the upstream may have closed before it received the request.
/// [`Failure::is_of_reused_connection`] detects this error, so that an idempotent request is sent again.
#[derive(Debug, thiserror::Error)]
#[error("an idle connection was closed by the upstream")]
struct ReusedConnection {
    source: hyper::Error,
}

impl UpstreamError {
    /// Quoted text of the upstream, if there is any: only for a log at `debug`, after redaction.
    pub fn quoted_text(&self) -> Option<&str> {
        self.failure.source()?.downcast_ref::<QuotedSource>().map(|source| source.quoted.as_str())
    }
}

impl Failure {
    /// Adds the name of the upstream to the failure.
    pub fn into_error(self, upstream: &UpstreamName) -> UpstreamError {
        UpstreamError { upstream: upstream.clone(), failure: self }
    }

    /// Converts an error of an HTTP exchange that occurred before response headers arrived. `is_reused`: the
    /// connection was reused, so the server may just have closed it.
    pub(super) fn from_exchange(error: hyper::Error, is_reused: bool) -> Self {
        if error.is_parse_too_large() {
            Self::HeadTooLong
        } else if error.is_parse() || error.is_parse_version_h2() {
            Self::NotHttp(error.into())
        } else if error.is_user() {
            Self::Unsendable(error.into())
        } else if is_reused {
            Self::CutOff(ReusedConnection { source: error }.into())
        } else {
            Self::CutOff(error.into())
        }
    }

    /// Whether a reused connection was closed without a response.
    pub(super) fn is_of_reused_connection(&self) -> bool {
        matches!(self, Self::CutOff(source) if source.0.is::<ReusedConnection>())
    }

    /// Properties of the failure, from one table of all failures.
    pub fn properties(&self) -> ErrorProperties {
        use FailureStage::{Malformed, NoResponse, NotReached, Rejected, TooLong, Unread, Unsendable};
        let failed = |label, stage| ErrorProperties { label, stage, rejected_by: None, retry_after: None };
        let rejected = |label, rejected_by, retry_after| ErrorProperties {
            rejected_by: Some(rejected_by),
            retry_after: Some(retry_after),
            ..failed(label, Rejected)
        };
        match self {
            Self::Connect(_) | Self::ConnectTimeout(_) | Self::NotStarted(_) => {
                failed("connection_failed", NotReached)
            }
            Self::CutOff(_) => failed("connection_lost", NoResponse),
            Self::Timeout(_) | Self::AttemptTimeout(_) => failed("timeout", NoResponse),
            Self::NotHttp(_) | Self::NotCgi(_) | Self::NotMcp(_) => failed("malformed_response", Malformed),
            Self::HeadTooLong | Self::TooLong(_) => failed("response_too_large", TooLong),
            Self::BufferFull(_) => ErrorProperties {
                stage: Unread,
                ..rejected("buffer_full", "upstream_buffer_limit", RETRY_WHEN_BUSY)
            },
            Self::CircuitOpen { of_route, retry_after } => {
                rejected("circuit_open", circuit_breaker(*of_route), *retry_after)
            }
            Self::Restarting(retry_after) => rejected("restarting", "restart backoff", *retry_after),
            Self::Busy(_) => rejected("concurrency_limited", "max_in_flight", RETRY_WHEN_BUSY),
            Self::ClientBusy(_) => {
                rejected("client_concurrency_limited", "max_in_flight_per_client", RETRY_WHEN_BUSY)
            }
            Self::RateLimited { scope, retry_after, .. } => {
                rejected("rate_limited", scope.into(), *retry_after)
            }
            Self::RateLimitUnavailable => {
                rejected("rate_limit_unavailable", "rate_limit, which can't be checked", RETRY_WHEN_BUSY)
            }
            // The credential source decides when to try again.
            Self::Credential(_) => failed("credential_unavailable", Rejected),
            Self::SlowUpload(_) => failed("upload_timeout", Unsendable),
            Self::Unsendable(_) => failed("request_not_sent", Unsendable),
        }
    }

    /// Failure of a request to the wrong kind of upstream. It can't occur with a checked configuration.
    pub(super) fn wrong_kind() -> Self {
        Self::Unsendable("the request is for another kind of upstream".into())
    }
}
