//! Policies of every upstream request: timeouts, rate limits, cache, hedging, retries, circuit breakers,
//! concurrency limits.
//!
//! [`RoutePolicies::call`] and [`UpstreamPolicies::poll_stack`] apply them; `stack` has their order and the
//! reasons. Each policy is a struct with one method, and `None` if it is off. Retries and circuit breakers
//! are always present: the retry budget also limits hedges. Passthrough requests have the same concurrency
//! and rate limits, and additional limits: [`Passthrough`].
//!
//! Rate limits and cached responses are in the state that replicas share ([`ReplicaSharing`]), if that is
//! configured. Everything else is per replica.
//!
//! A policy rejects a call with an [`UpstreamError`](crate::upstream::UpstreamError).

mod attempt;
mod circuit_breaker;
mod cache;
mod concurrency;
mod hedge;
pub mod metrics;
#[cfg(test)]
mod mock;
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

pub use attempt::result_word;
pub use cache::{CacheEntry, CacheSettings, CacheStore, FreshnessLifetime, OnForbidden};
pub use circuit_breaker::{CircuitBreakerOverride, CircuitBreakerSettings};
pub use hedge::HedgeSettings;
pub use metrics::{CircuitBreakerView, Counter, RouteCounts, UpstreamCounts, UpstreamView};
pub use passthrough::{Passthrough, PassthroughBody, PassthroughSettings};
pub use rate_limit::{CallsPer, OnStoreFailure, RateSettings};
pub use retry::{RetryOverride, RetrySettings, jitter};
pub use stack::{CallResponse, Policies, ReplicaSharing, RoutePolicies, UpstreamPolicies};

/// Policy settings of an upstream. The timeout is not among them: it comes with each
/// [`UpstreamCall`](crate::upstream::UpstreamCall).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PolicySettings {
    /// Concurrency limit: maximum number of calls in flight.
    pub max_in_flight: usize,
    /// Maximum number of calls in flight of one client, if limited.
    pub max_in_flight_per_client: Option<usize>,
    /// Queue length for calls over the concurrency limit. Further calls are rejected at once.
    pub waiting_limit: usize,
    /// Longest time in the queue.
    pub waiting_timeout: Duration,
    /// Timeout of one attempt. `None`: only the call's timeout applies.
    pub attempt_timeout: Option<Duration>,
    /// Retries.
    pub retry: RetrySettings,
    /// Circuit breaker of the upstream, and defaults for those of its routes.
    pub circuit_breaker: CircuitBreakerSettings,
    /// Rate limit of all clients together.
    pub rate_limit: Option<RateSettings>,
    /// Rate limit of each client.
    pub rate_limit_per_client: Option<RateSettings>,
}

/// Policy settings of a route, in addition to those of its upstream.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct RoutePolicySettings {
    /// Rate limit of all clients together.
    pub rate_limit: Option<RateSettings>,
    /// Rate limit of each client.
    pub rate_limit_per_client: Option<RateSettings>,
    /// Response cache, if on.
    pub cache: Option<CacheSettings>,
    /// Coalescing of equal requests.
    pub coalescing: Coalescing,
    /// Hedging of slow requests, if on.
    pub hedge: Option<HedgeSettings>,
    /// Overrides of the upstream's retries.
    pub retry: RetryOverride,
    /// Overrides of the upstream's circuit breaker settings.
    pub circuit_breaker: CircuitBreakerOverride,
}

/// Treatment of simultaneous calls with equal requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Coalescing {
    /// Each call sends its request.
    #[default]
    Off,
    /// The calls share one request.
    On,
}

impl PolicySettings {
    /// Default of [`max_in_flight`](Self::max_in_flight): for a legacy server with some dozens of workers.
    pub const MAX_IN_FLIGHT_DEFAULT: usize = 128;
    /// Default of the same for programs: each call starts a process, which takes a processor and memory of
    /// its own.
    pub const MAX_IN_FLIGHT_OF_PROGRAMS: usize = 16;
    /// Default of [`waiting_limit`](Self::waiting_limit).
    pub const WAITING_LIMIT_DEFAULT: usize = 256;
    /// Default of [`waiting_timeout`](Self::waiting_timeout).
    pub const WAITING_TIMEOUT_DEFAULT: Duration = Duration::from_secs(2);
}

impl Default for PolicySettings {
    fn default() -> Self {
        Self {
            max_in_flight: Self::MAX_IN_FLIGHT_DEFAULT,
            max_in_flight_per_client: None,
            waiting_limit: Self::WAITING_LIMIT_DEFAULT,
            waiting_timeout: Self::WAITING_TIMEOUT_DEFAULT,
            attempt_timeout: None,
            retry: RetrySettings::default(),
            circuit_breaker: CircuitBreakerSettings::default(),
            rate_limit: None,
            rate_limit_per_client: None,
        }
    }
}
