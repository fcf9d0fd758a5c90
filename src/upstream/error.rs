//! Errors of upstreams, and the table of their properties.

use std::{error::Error, ops::Deref, sync::Arc, time::Duration};

use super::http::{CredentialError, SendError};
use crate::route::UpstreamName;

/// The source of an error. Clones are the same, for all calls that waited for one response.
#[derive(Debug, Clone)]
pub struct Cause(Arc<dyn Error + Send + Sync>);

impl<E: Into<Box<dyn Error + Send + Sync>>> From<E> for Cause {
    fn from(error: E) -> Self {
        Self(error.into().into())
    }
}

impl Deref for Cause {
    type Target = dyn Error + Send + Sync;

    fn deref(&self) -> &Self::Target {
        &*self.0
    }
}

/// A source of an error that quotes text which may be the upstream's or the client's:
/// only a log at `debug` shows them.
#[derive(Debug, thiserror::Error)]
#[error("{plain}")]
pub(super) struct Withheld {
    /// Without quotations: types, lengths and constant texts.
    plain: String,
    words: String,
}

impl Withheld {
    pub(super) fn new(plain: impl Into<String>, words: impl Into<String>) -> Self {
        Self { plain: plain.into(), words: words.into() }
    }

    pub(super) fn words(&self) -> &str {
        &self.words
    }

    /// Of JSON that is not of the form that was expected.
    pub(super) fn of_json(error: &serde_json::Error) -> Self {
        let plain = format!(
            "its JSON is not of the form that was expected, at line {}, column {}",
            error.line(),
            error.column()
        );
        Self::new(plain, error.to_string())
    }
}

/// The rate limit that was hit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RateLimitScope {
    /// The rate limit of a client for one route.
    ClientOfRoute,
    /// The rate limit of a client for all routes to an upstream.
    ClientOfUpstream,
    /// The rate limit of one route, for all clients together.
    Route,
    /// The rate limit of an upstream, for all clients together.
    Upstream,
}

/// Why an upstream gave no usable reply. For the log; `pipeline::error_text` has the
/// sentences that clients read.
#[derive(Debug, Clone, thiserror::Error)]
pub enum UpstreamError {
    /// No connection: refused, no such host, no way there.
    #[error("could not connect to upstream `{upstream}`")]
    Connect {
        /// The upstream.
        upstream: UpstreamName,
        /// Why.
        #[source]
        source: Cause,
    },
    /// No connection in time.
    #[error("could not connect to upstream `{upstream}` within {after:?}")]
    ConnectDeadline {
        /// The upstream.
        upstream: UpstreamName,
        /// The limit that was hit.
        after: Duration,
    },
    /// The program could not be started: it is not there, or the system has no room for it.
    #[error("the program of upstream `{upstream}` could not be started")]
    NotStarted {
        /// The upstream.
        upstream: UpstreamName,
        /// Why.
        #[source]
        source: Cause,
    },
    /// The connection ended before the reply did.
    #[error("upstream `{upstream}` closed the connection before its reply was complete")]
    CutOff {
        /// The upstream.
        upstream: UpstreamName,
        /// The error of the connection.
        #[source]
        source: Cause,
    },
    /// What came was no HTTP, or contradicts itself.
    #[error("upstream `{upstream}` did not answer in valid HTTP")]
    NotHttp {
        /// The upstream.
        upstream: UpstreamName,
        /// The error of the parser.
        #[source]
        source: Cause,
    },
    /// What the program wrote is no reply by CGI.
    #[error("upstream `{upstream}` did not answer as a CGI program does")]
    NotCgi {
        /// The upstream.
        upstream: UpstreamName,
        /// What is wrong with it.
        #[source]
        source: Cause,
    },
    /// What came was no MCP, or none of a revision that is known.
    #[error("upstream `{upstream}` did not answer in MCP")]
    NotMcp {
        /// The upstream.
        upstream: UpstreamName,
        /// The violation of the protocol.
        #[source]
        source: Cause,
    },
    /// The status line and headers are longer than is read.
    #[error(
        "reply headers of upstream `{upstream}` are longer than {limit_bytes} bytes or more than {limit_count}"
    )]
    HeadTooLong {
        /// The upstream.
        upstream: UpstreamName,
        /// The limit on their length.
        limit_bytes: usize,
        /// The limit on their number.
        limit_count: usize,
    },
    /// The body is longer than the route reads.
    #[error("reply of upstream `{upstream}` is longer than {limit_bytes} bytes")]
    TooLong {
        /// The upstream.
        upstream: UpstreamName,
        /// The limit that was hit.
        limit_bytes: usize,
    },
    /// No whole reply in time.
    #[error("upstream `{upstream}` gave no complete reply within {after:?}")]
    Deadline {
        /// The upstream.
        upstream: UpstreamName,
        /// The limit that was hit.
        after: Duration,
    },
    /// No whole reply within the time of one attempt.
    #[error("upstream `{upstream}` gave no complete reply within the {after:?} of an attempt")]
    AttemptDeadline {
        /// The upstream.
        upstream: UpstreamName,
        /// The limit that was hit.
        after: Duration,
    },
    /// Its circuit breaker is open, or the one of the route.
    #[error(
        "the circuit breaker of {}upstream `{upstream}` is open for {} s",
        if *of_route { "the route to " } else { "" },
        rest.as_secs_f64().ceil()
    )]
    CircuitOpen {
        /// The upstream.
        upstream: UpstreamName,
        /// Whether it is the circuit breaker of the route, and not the upstream's.
        of_route: bool,
        /// Time until it is half open.
        rest: Duration,
    },
    /// Our own limit of calls at a time.
    #[error("upstream `{upstream}` has {in_flight_limit} calls in flight, which is the limit")]
    Busy {
        /// The upstream.
        upstream: UpstreamName,
        /// The limit that was hit.
        in_flight_limit: usize,
    },
    /// Our own limit of calls of one caller at a time.
    #[error("one client has {in_flight_limit} calls in flight at upstream `{upstream}`, which is the limit")]
    ClientBusy {
        /// The upstream.
        upstream: UpstreamName,
        /// The limit that was hit.
        in_flight_limit: usize,
    },
    /// There is no credential for it.
    #[error("there is no credential for upstream `{upstream}`, so nothing was sent")]
    Credential {
        /// The upstream.
        upstream: UpstreamName,
        /// Why; one reason may hold for many calls.
        #[source]
        source: Arc<CredentialError>,
    },
    /// Our own limit of calls in a time.
    #[error("{} asked upstream `{upstream}` {count} times in {per:?}, which is the limit", whose.in_words())]
    TooOften {
        /// The upstream.
        upstream: UpstreamName,
        /// Whose limit was hit.
        whose: RateLimitScope,
        /// The limit.
        count: u32,
        /// In this time.
        per: Duration,
        /// How long to wait before the next one.
        rest: Duration,
    },
    /// The limit is counted in the shared store, which can't be reached, and it rejects all calls then.
    #[error(
        "what may be asked of upstream `{upstream}` is counted in the shared store, which can't be reached"
    )]
    RateLimitUnavailable {
        /// The upstream.
        upstream: UpstreamName,
    },
    /// The client sends the body of its request too slowly.
    #[error(
        "the client sent the body of its request for upstream `{upstream}` too slowly: it had {after:?}, and more for what came"
    )]
    SlowUpload {
        /// The upstream.
        upstream: UpstreamName,
        /// The limit that was hit.
        after: Duration,
    },
    /// Our own limit of memory for responses.
    #[error(
        "no memory was free for the response of upstream `{upstream}` (`server.upstream_buffer_limit` is {limit_bytes} bytes)"
    )]
    BufferFull {
        /// The upstream.
        upstream: UpstreamName,
        /// The limit that was hit.
        limit_bytes: usize,
    },
    /// The request can't be written down as HTTP.
    #[error("the request can't be sent to upstream `{upstream}`")]
    Unsendable {
        /// The upstream.
        upstream: UpstreamName,
        /// Why.
        #[source]
        source: Cause,
    },
}

/// Properties of an error for policies, metrics and the log ([`UpstreamError::facts`]).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ErrorProperties {
    /// The label of metrics and spans.
    pub label: &'static str,
    /// How far the request came.
    pub stage: Stage,
    /// Whether the request may be sent again.
    pub repeat: Repeat,
    /// The limit of ours that rejected the call, for the log.
    pub rejected_by: Option<&'static str>,
    /// When another call may be admitted.
    pub retry_after: Option<Duration>,
}

/// How far a request came before it failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stage {
    /// Rejected here: the upstream got no request.
    Rejected,
    /// There is no complete request.
    Unsendable,
    /// The upstream could not be reached. Nothing was sent, so another endpoint can be tried.
    NotReached,
    /// It was sent, and no complete response came.
    NoResponse,
    /// A response came that can't be parsed.
    Malformed,
    /// A response came that is longer than is read.
    TooLong,
    /// A response came that no memory was free for.
    Unread,
}

/// Whether a failed request may be sent again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Repeat {
    /// It can have had no effect.
    Always,
    /// It may have had its effect.
    IfIdempotent,
    /// The result would be the same, or is unknown.
    Never,
}

/// When to try again where too much is in flight: slots come and go.
const RETRY_WHEN_BUSY: Duration = Duration::from_secs(2);

/// A connection timeout, to be distinguished from a refusal in an error chain.
#[derive(Debug, Clone, Copy, thiserror::Error)]
#[error("no connection within {after:?}")]
pub(super) struct ConnectTimedOut {
    /// The limit that was hit.
    pub(super) after: Duration,
}

impl RateLimitScope {
    /// Its label.
    pub fn as_word(self) -> &'static str {
        match self {
            Self::ClientOfRoute => "caller_of_route",
            Self::ClientOfUpstream => "caller_of_upstream",
            Self::Route => "route",
            Self::Upstream => "upstream",
        }
    }

    /// The name of the limit, for the log.
    fn limit(self) -> &'static str {
        match self {
            Self::ClientOfRoute => "rate_limit_per_client of the route",
            Self::ClientOfUpstream => "rate_limit_per_client of the upstream",
            Self::Route => "rate_limit of the route",
            Self::Upstream => "rate_limit of the upstream",
        }
    }

    fn in_words(self) -> &'static str {
        match self {
            Self::ClientOfRoute => "one caller of one route",
            Self::ClientOfUpstream => "one caller",
            Self::Route => "the callers of one route",
            Self::Upstream => "all callers together",
        }
    }
}

/// Marks the error of a connection that had served other requests before.
#[derive(Debug, thiserror::Error)]
#[error("a connection that had been kept was closed")]
struct Reused {
    source: Cause,
}

impl UpstreamError {
    /// From an error of the HTTP client for a request without the head of a response.
    pub(super) fn of_client(upstream: &UpstreamName, error: SendError) -> Self {
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
        let source = if is_reused { Reused { source: error.into() }.into() } else { error.into() };
        Self::CutOff { upstream, source }
    }

    /// The upstream's own text, if there is one: for a log at `debug`, after redaction.
    pub fn words(&self) -> Option<&str> {
        match self {
            Self::NotCgi { source, .. } | Self::NotMcp { source, .. } => {
                source.downcast_ref::<Withheld>().map(Withheld::words)
            }
            _ => None,
        }
    }

    /// Whether it was sent over a connection that had served others before, and was closed without a
    /// response.
    pub(super) fn is_of_reused_connection(&self) -> bool {
        matches!(self, Self::CutOff { source, .. } if source.is::<Reused>())
    }

    /// The table of all errors.
    pub fn facts(&self) -> ErrorProperties {
        use Repeat::{Always, IfIdempotent, Never};
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
            ..failed(label, Stage::Rejected, Never)
        };
        match self {
            Self::Connect { .. } | Self::ConnectDeadline { .. } | Self::NotStarted { .. } => {
                failed("connection_failed", Stage::NotReached, Always)
            }
            Self::CutOff { .. } => failed("connection_lost", Stage::NoResponse, IfIdempotent),
            Self::AttemptDeadline { .. } => failed("timeout", Stage::NoResponse, IfIdempotent),
            Self::Deadline { .. } => failed("timeout", Stage::NoResponse, Never),
            Self::NotHttp { .. } | Self::NotCgi { .. } | Self::NotMcp { .. } => {
                failed("malformed_response", Stage::Malformed, Never)
            }
            Self::HeadTooLong { .. } | Self::TooLong { .. } => {
                failed("response_too_large", Stage::TooLong, Never)
            }
            Self::BufferFull { .. } => ErrorProperties {
                stage: Stage::Unread,
                ..rejected("buffer_full", "upstream_buffer_limit", RETRY_WHEN_BUSY)
            },
            Self::CircuitOpen { of_route: true, rest, .. } => {
                rejected("circuit_open", "route circuit breaker", *rest)
            }
            Self::CircuitOpen { rest, .. } => rejected("circuit_open", "upstream circuit breaker", *rest),
            Self::Busy { .. } => rejected("concurrency_limited", "max_in_flight", RETRY_WHEN_BUSY),
            Self::ClientBusy { .. } => {
                rejected("client_concurrency_limited", "max_in_flight_per_client", RETRY_WHEN_BUSY)
            }
            Self::TooOften { whose, rest, .. } => rejected("rate_limited", whose.limit(), *rest),
            Self::RateLimitUnavailable { .. } => {
                rejected("rate_limit_unavailable", "rate_limit, which can't be counted", RETRY_WHEN_BUSY)
            }
            // Whoever fetches the credential knows when to try again.
            Self::Credential { .. } => failed("credential_unavailable", Stage::Rejected, Never),
            Self::SlowUpload { .. } => failed("upload_timeout", Stage::Unsendable, Never),
            Self::Unsendable { .. } => failed("request_not_sent", Stage::Unsendable, Never),
        }
    }

    /// For a request to the wrong kind of upstream. A configuration is checked for that.
    pub(super) fn of_another_kind(upstream: &UpstreamName) -> Self {
        let source = "the request is for another kind of upstream".into();
        Self::Unsendable { upstream: upstream.clone(), source }
    }

    /// The upstream.
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
            | Self::Busy { upstream, .. }
            | Self::ClientBusy { upstream, .. }
            | Self::Credential { upstream, .. }
            | Self::TooOften { upstream, .. }
            | Self::RateLimitUnavailable { upstream }
            | Self::SlowUpload { upstream, .. }
            | Self::BufferFull { upstream, .. }
            | Self::Unsendable { upstream, .. } => upstream,
        }
    }
}
