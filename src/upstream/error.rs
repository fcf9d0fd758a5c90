//! Errors of upstreams, and the table of their properties.

use std::{error::Error, ops::Deref, sync::Arc, time::Duration};

use super::http::{CredentialError, SendError};
use crate::route::UpstreamName;

/// Source of an error. Clones share it, because coalesced calls fail with the same error.
#[derive(Debug, Clone)]
pub struct ErrorSource(Arc<dyn Error + Send + Sync>);

impl<E: Into<Box<dyn Error + Send + Sync>>> From<E> for ErrorSource {
    fn from(error: E) -> Self {
        Self(error.into().into())
    }
}

impl Deref for ErrorSource {
    type Target = dyn Error + Send + Sync;

    fn deref(&self) -> &Self::Target {
        &*self.0
    }
}

/// Error source that may quote text of the upstream or the client. The quotation is only logged at `debug`.
#[derive(Debug, thiserror::Error)]
#[error("{plain}")]
pub(super) struct QuotedSource {
    /// Text without quotations: types, lengths and constant text.
    plain: String,
    quoted: String,
}

impl QuotedSource {
    pub(super) fn new(plain: impl Into<String>, quoted: impl Into<String>) -> Self {
        Self { plain: plain.into(), quoted: quoted.into() }
    }

    pub(super) fn quoted(&self) -> &str {
        &self.quoted
    }

    /// Error for JSON of an unexpected structure.
    pub(super) fn from_json(error: &serde_json::Error) -> Self {
        let plain = format!(
            "its JSON is not of the form that was expected, at line {}, column {}",
            error.line(),
            error.column()
        );
        Self::new(plain, error.to_string())
    }
}

/// Rate limit that was exceeded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RateLimitScope {
    /// Rate limit of a client for one route.
    ClientOfRoute,
    /// Rate limit of a client for all routes to an upstream.
    ClientOfUpstream,
    /// Rate limit of one route, for all clients together.
    Route,
    /// Rate limit of an upstream, for all clients together.
    Upstream,
}

/// Reason why an upstream returned no usable response. For the log; `pipeline::error_text` has the texts for
/// clients.
#[derive(Debug, Clone, thiserror::Error)]
pub enum UpstreamError {
    /// No connection: refused, unknown host, unreachable network.
    #[error("could not connect to upstream `{upstream}`")]
    Connect {
        /// The upstream.
        upstream: UpstreamName,
        /// Cause.
        #[source]
        source: ErrorSource,
    },
    /// Connection timeout.
    #[error("could not connect to upstream `{upstream}` within {after:?}")]
    ConnectDeadline {
        /// The upstream.
        upstream: UpstreamName,
        /// The limit that was hit.
        after: Duration,
    },
    /// The program could not be started: it does not exist, or the system is out of resources.
    #[error("the program of upstream `{upstream}` could not be started")]
    NotStarted {
        /// The upstream.
        upstream: UpstreamName,
        /// Cause.
        #[source]
        source: ErrorSource,
    },
    /// The connection ended before the response did.
    #[error("upstream `{upstream}` closed the connection before its response was complete")]
    CutOff {
        /// The upstream.
        upstream: UpstreamName,
        /// The error of the connection.
        #[source]
        source: ErrorSource,
    },
    /// The response is not valid HTTP, or contradicts itself.
    #[error("upstream `{upstream}` sent no valid HTTP response")]
    NotHttp {
        /// The upstream.
        upstream: UpstreamName,
        /// The error of the parser.
        #[source]
        source: ErrorSource,
    },
    /// The program's output is not a valid CGI response.
    #[error("upstream `{upstream}` sent no valid CGI response")]
    NotCgi {
        /// The upstream.
        upstream: UpstreamName,
        /// Violation of the protocol.
        #[source]
        source: ErrorSource,
    },
    /// The response is not MCP, or of an unknown revision.
    #[error("upstream `{upstream}` sent no valid MCP response")]
    NotMcp {
        /// The upstream.
        upstream: UpstreamName,
        /// The violation of the protocol.
        #[source]
        source: ErrorSource,
    },
    /// Status line and headers are over a limit.
    #[error(
        "response headers of upstream `{upstream}` are longer than {limit_bytes} bytes or more than \
         {limit_count}"
    )]
    HeadTooLong {
        /// The upstream.
        upstream: UpstreamName,
        /// Limit of their length.
        limit_bytes: usize,
        /// Limit of their number.
        limit_count: usize,
    },
    /// The body is longer than the route reads.
    #[error("response of upstream `{upstream}` is longer than {limit_bytes} bytes")]
    TooLong {
        /// The upstream.
        upstream: UpstreamName,
        /// The limit that was hit.
        limit_bytes: usize,
    },
    /// No complete response before the deadline.
    #[error("upstream `{upstream}` sent no complete response within {after:?}")]
    Deadline {
        /// The upstream.
        upstream: UpstreamName,
        /// The limit that was hit.
        after: Duration,
    },
    /// No complete response within the timeout of one attempt.
    #[error("upstream `{upstream}` sent no complete response within the attempt timeout of {after:?}")]
    AttemptDeadline {
        /// The upstream.
        upstream: UpstreamName,
        /// The limit that was hit.
        after: Duration,
    },
    /// The circuit breaker of the upstream or of the route is open.
    #[error(
        "the circuit breaker of {}upstream `{upstream}` is open for {} s",
        if *of_route { "the route to " } else { "" },
        retry_after.as_secs_f64().ceil()
    )]
    CircuitOpen {
        /// The upstream.
        upstream: UpstreamName,
        /// Whether it is the route's circuit breaker, and not the upstream's.
        of_route: bool,
        /// Time until it is half open.
        retry_after: Duration,
    },
    /// The program of an MCP server has exited or did not start, and is not yet restarted.
    #[error(
        "the MCP server of upstream `{upstream}` is not running; it is restarted in {} s",
        retry_after.as_secs_f64().ceil()
    )]
    Restarting {
        /// The upstream.
        upstream: UpstreamName,
        /// Time until it is started again.
        retry_after: Duration,
    },
    /// Concurrency limit (`max_in_flight`).
    #[error("upstream `{upstream}` has {in_flight_limit} calls in flight, which is the limit")]
    Busy {
        /// The upstream.
        upstream: UpstreamName,
        /// The limit that was hit.
        in_flight_limit: usize,
    },
    /// Concurrency limit per client (`max_in_flight_per_client`).
    #[error("one client has {in_flight_limit} calls in flight at upstream `{upstream}`, which is the limit")]
    ClientBusy {
        /// The upstream.
        upstream: UpstreamName,
        /// The limit that was hit.
        in_flight_limit: usize,
    },
    /// No credential is available for the upstream.
    #[error("no credential is available for upstream `{upstream}`, so no request was sent")]
    Credential {
        /// The upstream.
        upstream: UpstreamName,
        /// Reason, shared by all calls that it concerns.
        #[source]
        source: Arc<CredentialError>,
    },
    /// Rate limit.
    #[error("{} called upstream `{upstream}` {count} times in {per:?}, which is the limit", scope.describe())]
    RateLimited {
        /// The upstream.
        upstream: UpstreamName,
        /// Which rate limit.
        scope: RateLimitScope,
        /// Limit.
        count: u32,
        /// Period that the limit is for.
        per: Duration,
        /// Time until the next call is admitted.
        retry_after: Duration,
    },
    /// The rate limit is counted in the shared state, which is unreachable, and is set to reject all calls
    /// then.
    #[error("the rate limit of upstream `{upstream}` is counted in the shared state, which can't be reached")]
    RateLimitUnavailable {
        /// The upstream.
        upstream: UpstreamName,
    },
    /// The client sends its request body too slowly.
    #[error(
        "the client sent the body of its request for upstream `{upstream}` too slowly: not complete within \
         {after:?} and the extra time for the received bytes"
    )]
    SlowUpload {
        /// The upstream.
        upstream: UpstreamName,
        /// The limit that was hit.
        after: Duration,
    },
    /// Memory limit for responses.
    #[error(
        "no memory was free for the response of upstream `{upstream}` (`server.upstream_buffer_limit` is {limit_bytes} bytes)"
    )]
    BufferFull {
        /// The upstream.
        upstream: UpstreamName,
        /// The limit that was hit.
        limit_bytes: usize,
    },
    /// The request can't be encoded as HTTP.
    #[error("the request can't be sent to upstream `{upstream}`")]
    Unsendable {
        /// The upstream.
        upstream: UpstreamName,
        /// Cause.
        #[source]
        source: ErrorSource,
    },
}

/// Properties of an error for policies, metrics and the log ([`UpstreamError::properties`]).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ErrorProperties {
    /// Label in metrics and spans.
    pub label: &'static str,
    /// Stage at which the request failed.
    pub stage: FailureStage,
    /// Whether the request may be sent again.
    pub repeat: Repeatability,
    /// Limit of glossator that rejected the call, for the log.
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

/// Whether a failed request may be sent again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Repeatability {
    /// Yes: the first attempt can't have had an effect.
    Always,
    /// If idempotent: the first attempt may have had an effect.
    IfIdempotent,
    /// No: the result would be the same, or is unknown.
    Never,
}

/// Retry hint for rejections by a limit on concurrency or memory, while an upstream starts, and during a
/// shutdown. These clear quickly.
pub const RETRY_WHEN_BUSY: Duration = Duration::from_secs(2);

/// Connection timeout, distinguished from a refusal in an error chain.
#[derive(Debug, Clone, Copy, thiserror::Error)]
#[error("no connection within {after:?}")]
pub(super) struct ConnectTimedOut {
    /// The limit that was hit.
    pub(super) after: Duration,
}

impl RateLimitScope {
    /// Name in the key of the shared state.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::ClientOfRoute => "client_of_route",
            Self::ClientOfUpstream => "client_of_upstream",
            Self::Route => "route",
            Self::Upstream => "upstream",
        }
    }

    /// Name of the limit, for the log.
    fn limit(self) -> &'static str {
        match self {
            Self::ClientOfRoute => "rate_limit_per_client of the route",
            Self::ClientOfUpstream => "rate_limit_per_client of the upstream",
            Self::Route => "rate_limit of the route",
            Self::Upstream => "rate_limit of the upstream",
        }
    }

    fn describe(self) -> &'static str {
        match self {
            Self::ClientOfRoute => "one client of one route",
            Self::ClientOfUpstream => "one client",
            Self::Route => "all clients of one route",
            Self::Upstream => "all clients together",
        }
    }
}

/// Marks the error of a reused connection.
#[derive(Debug, thiserror::Error)]
#[error("an idle connection was closed by the upstream")]
struct ReusedConnection {
    source: ErrorSource,
}

impl UpstreamError {
    /// From an error of the HTTP client that occurred before response headers arrived.
    pub(super) fn from_send_error(upstream: &UpstreamName, error: SendError) -> Self {
        let upstream = upstream.clone();
        let (error, is_reused) = match error {
            SendError::Connect(error) => {
                return match error.downcast_ref::<ConnectTimedOut>() {
                    Some(timed_out) => Self::ConnectDeadline { upstream, after: timed_out.after },
                    None => Self::Connect { upstream, source: error.into() },
                };
            }
            SendError::Exchange { error, is_reused } => (error, is_reused),
        };
        if error.is_parse_too_large() {
            let (limit_bytes, limit_count) = (super::http::HEAD_LIMIT_BYTES, super::http::HEADER_COUNT_LIMIT);
            return Self::HeadTooLong { upstream, limit_bytes, limit_count };
        }
        if error.is_parse() || error.is_parse_version_h2() {
            return Self::NotHttp { upstream, source: error.into() };
        }
        if error.is_user() {
            return Self::Unsendable { upstream, source: error.into() };
        }
        let source = if is_reused { ReusedConnection { source: error.into() }.into() } else { error.into() };
        Self::CutOff { upstream, source }
    }

    /// Quoted text of the upstream, if there is any: only for a log at `debug`, after redaction.
    pub fn quoted_text(&self) -> Option<&str> {
        match self {
            Self::NotCgi { source, .. } | Self::NotMcp { source, .. } => {
                source.downcast_ref::<QuotedSource>().map(QuotedSource::quoted)
            }
            _ => None,
        }
    }

    /// Whether a reused connection was closed without a response.
    pub(super) fn is_of_reused_connection(&self) -> bool {
        matches!(self, Self::CutOff { source, .. } if source.is::<ReusedConnection>())
    }

    /// Properties of each error, as one table.
    pub fn properties(&self) -> ErrorProperties {
        use Repeatability::{Always, IfIdempotent, Never};
        let failed = |label, stage, repeat| ErrorProperties {
            label,
            stage,
            repeat,
            rejected_by: None,
            retry_after: None,
        };
        let rejected = |label, rejected_by, retry_after| ErrorProperties {
            rejected_by: Some(rejected_by),
            retry_after: Some(retry_after),
            ..failed(label, FailureStage::Rejected, Never)
        };
        match self {
            Self::Connect { .. } | Self::ConnectDeadline { .. } | Self::NotStarted { .. } => {
                failed("connection_failed", FailureStage::NotReached, Always)
            }
            Self::CutOff { .. } => failed("connection_lost", FailureStage::NoResponse, IfIdempotent),
            Self::AttemptDeadline { .. } => failed("timeout", FailureStage::NoResponse, IfIdempotent),
            Self::Deadline { .. } => failed("timeout", FailureStage::NoResponse, Never),
            Self::NotHttp { .. } | Self::NotCgi { .. } | Self::NotMcp { .. } => {
                failed("malformed_response", FailureStage::Malformed, Never)
            }
            Self::HeadTooLong { .. } | Self::TooLong { .. } => {
                failed("response_too_large", FailureStage::TooLong, Never)
            }
            Self::BufferFull { .. } => ErrorProperties {
                stage: FailureStage::Unread,
                ..rejected("buffer_full", "upstream_buffer_limit", RETRY_WHEN_BUSY)
            },
            Self::CircuitOpen { of_route: true, retry_after, .. } => {
                rejected("circuit_open", "route circuit breaker", *retry_after)
            }
            Self::CircuitOpen { retry_after, .. } => {
                rejected("circuit_open", "upstream circuit breaker", *retry_after)
            }
            Self::Restarting { retry_after, .. } => rejected("restarting", "restart backoff", *retry_after),
            Self::Busy { .. } => rejected("concurrency_limited", "max_in_flight", RETRY_WHEN_BUSY),
            Self::ClientBusy { .. } => {
                rejected("client_concurrency_limited", "max_in_flight_per_client", RETRY_WHEN_BUSY)
            }
            Self::RateLimited { scope, retry_after, .. } => {
                rejected("rate_limited", scope.limit(), *retry_after)
            }
            Self::RateLimitUnavailable { .. } => {
                rejected("rate_limit_unavailable", "rate_limit, which can't be checked", RETRY_WHEN_BUSY)
            }
            // The credential source decides when to try again.
            Self::Credential { .. } => failed("credential_unavailable", FailureStage::Rejected, Never),
            Self::SlowUpload { .. } => failed("upload_timeout", FailureStage::Unsendable, Never),
            Self::Unsendable { .. } => failed("request_not_sent", FailureStage::Unsendable, Never),
        }
    }

    /// Error for a request to the wrong kind of upstream. The configuration is checked for this.
    pub(super) fn wrong_kind(upstream: &UpstreamName) -> Self {
        let source = "the request is for another kind of upstream".into();
        Self::Unsendable { upstream: upstream.clone(), source }
    }

    /// Upstream that the error is about.
    pub fn upstream(&self) -> &UpstreamName {
        match self {
            Self::Connect { upstream, .. }
            | Self::ConnectDeadline { upstream, .. }
            | Self::NotStarted { upstream, .. }
            | Self::CutOff { upstream, .. }
            | Self::NotHttp { upstream, .. }
            | Self::NotCgi { upstream, .. }
            | Self::NotMcp { upstream, .. }
            | Self::HeadTooLong { upstream, .. }
            | Self::TooLong { upstream, .. }
            | Self::Deadline { upstream, .. }
            | Self::AttemptDeadline { upstream, .. }
            | Self::CircuitOpen { upstream, .. }
            | Self::Restarting { upstream, .. }
            | Self::Busy { upstream, .. }
            | Self::ClientBusy { upstream, .. }
            | Self::Credential { upstream, .. }
            | Self::RateLimited { upstream, .. }
            | Self::RateLimitUnavailable { upstream }
            | Self::SlowUpload { upstream, .. }
            | Self::BufferFull { upstream, .. }
            | Self::Unsendable { upstream, .. } => upstream,
        }
    }
}
