//! Policies of every upstream request: timeouts, rate limits, cache, hedging, retries, circuit breakers,
//! concurrency limits.
//!
//! [`RoutePolicies::call`] and [`UpstreamPolicies::call`] apply the policies; `stack` documents their order,
//! with reasons. Each policy is a struct with a method that applies it, and `None` if it is off. Retries and
//! circuit breakers are always present: the retry budget also limits hedges. Passthrough requests have the
//! same concurrency and rate limits, and additional limits: [`Passthrough`].
//!
//! Rate limits and cached responses are in the state that replicas share ([`ReplicaSharing`]), if such a
//! store is configured. Everything else is per replica.
//!
//! A policy rejects a call with an [`UpstreamError`](crate::upstream::UpstreamError).

mod circuit_breaker;
mod cache;
mod concurrency;
mod hedge;
pub mod metrics;
#[cfg(test)]
mod tests;
mod passthrough;
mod rate_limit;
mod retry;
mod stack;

use std::time::Duration;

use circuit_breaker::CircuitBreaker;
use concurrency::ConcurrencyLimit;
use hedge::Hedge;
use rate_limit::{OverLimit, RateLimit};
use retry::Retry;
use settings_derive::Section;

pub use crate::settings::value::OrOff;
pub use cache::{CacheControl, CacheEntry, CacheSettings, CacheStore, conditional_headers};
pub use circuit_breaker::CircuitBreakerSettings;
pub use concurrency::{KeyedSemaphore, PerClientLimit};
pub use hedge::HedgeSettings;
pub use metrics::{CircuitBreakerView, UpstreamView};
pub use passthrough::{Passthrough, PassthroughBody, PassthroughSettings};
pub use rate_limit::{OnStoreFailure, RateSettings};
pub use retry::RetrySettings;
pub use stack::{
    CallResponse, Policies, ReplicaSharing, RoutePolicies, UpstreamPolicies, result_label, status_class,
};

/// Policy settings of an upstream; those of `defaults` are the base for all upstreams. The timeout is not a
/// policy: it comes with each [`UpstreamCall`](crate::upstream::UpstreamCall).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Section)]
#[section(default)]
pub struct PolicySettings {
    /// Maximum number of concurrent requests to an upstream. Further requests are queued.
    #[key(range = 1..=100_000, shown = "128, or 16 for commands and CGI programs")]
    pub max_in_flight: Option<usize>,
    /// Maximum number of concurrent requests per client, so that one client cannot use the whole
    /// `max_in_flight`; further requests are rejected.
    #[key(range = 1..=100_000, shown = "no limit per client")]
    pub max_in_flight_per_client: Option<usize>,
    /// Timeout of one attempt.
    #[key(range = 1..=3_600_000, shown = "the timeout of the call")]
    pub attempt_timeout: Option<Duration>,
    /// Retries after transient failures, or `off`.
    #[key(default = OrOff::On(RetrySettings::default()))]
    pub retry: OrOff<RetrySettings>,
    /// When the circuit breakers of an upstream and of its routes open, or `off`.
    #[key(default = OrOff::On(CircuitBreakerSettings::default()))]
    pub circuit_breaker: OrOff<CircuitBreakerSettings>,
    /// Rate limit of one upstream, all clients together: `100 per minute`, a map, or `off`.
    #[key(with = Setting::read, shown = "no limit")]
    pub rate_limit: Option<OrOff<RateSettings>>,
    /// Rate limit of each client for the routes of one upstream: `10 per second`, a map, or `off`.
    #[key(with = Setting::read, shown = "no limit")]
    pub rate_limit_per_client: Option<OrOff<RateSettings>>,
}

/// Policy settings of a route, in addition to those of its upstream.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Section)]
pub struct RoutePolicySettings {
    /// Rate limit of all clients together: `100 per minute`, or a map.
    pub rate_limit: Option<OrOff<RateSettings>>,
    /// Rate limit of each client: `10 per minute`, or a map.
    pub rate_limit_per_client: Option<OrOff<RateSettings>>,
    /// Response cache: a duration, `upstream` for the upstream's `Cache-Control`, or a map.
    pub cache: Option<CacheSettings>,
    /// Whether identical concurrent requests are coalesced into one.
    #[key(shown = "with `cache`")]
    pub coalesce: Option<bool>,
    /// Delay after which a slow request is sent a second time: a duration, or `p95` for the 95th percentile
    /// of recent response times.
    pub hedge: Option<HedgeSettings>,
    /// Retries after transient failures, or `off`; overrides the upstream.
    pub retry: Option<OrOff<RetrySettings>>,
    /// When the circuit breaker of the route opens (consecutive invalid responses, 502, 503 or 504), or
    /// `off`; overrides the upstream.
    pub circuit_breaker: Option<OrOff<CircuitBreakerSettings>>,
}

impl RoutePolicySettings {
    /// Whether identical concurrent requests are coalesced.
    pub fn coalesces(&self) -> bool {
        self.coalesce.unwrap_or_else(|| self.cache.is_some())
    }
}

impl PolicySettings {
    /// Default of `max_in_flight`, for a legacy server with some dozens of workers.
    const MAX_IN_FLIGHT_DEFAULT: usize = 128;
    /// Default of `max_in_flight` for programs: each call starts a process, which needs a CPU and memory.
    pub const MAX_IN_FLIGHT_OF_PROGRAMS: usize = 16;
    /// Maximum number of queued calls over the concurrency limit. Further calls are rejected at once.
    pub const MAX_QUEUED: usize = 256;
    /// Maximum time in the queue.
    pub const QUEUE_TIMEOUT: Duration = Duration::from_secs(2);

    /// Concurrency limit: maximum number of calls in flight.
    pub fn max_in_flight(&self) -> usize {
        self.max_in_flight.unwrap_or(Self::MAX_IN_FLIGHT_DEFAULT)
    }
}
