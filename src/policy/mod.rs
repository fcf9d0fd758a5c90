//! Policies of every upstream request: timeouts, rate limits, cache, hedging, retries, circuit breakers,
//! concurrency limits.
//!
//! [`RoutePolicies::call`] and [`UpstreamPolicies::follow_up`] apply them; `stack` has their order and the
//! reasons. A policy is a struct with one method, and `None` where it is off. Retries and circuit breakers
//! are always present: the retry budget also limits hedges. Passthrough requests have the same concurrency
//! and rate limits, and others of their own: [`Passthrough`].
//!
//! Rate limits and cached responses are in the state that replicas share ([`Sharing`]), where it is
//! configured. Everything else is per replica.
//!
//! A policy rejects a call with an [`UpstreamError`](crate::upstream::UpstreamError).

mod attempt;
mod breaker;
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

use breaker::CircuitBreaker;
use concurrency::ConcurrencyLimit;
use hedge::Hedge;
use rate_limit::{OverLimit, RateLimit};
use retry::Retry;

pub use attempt::result_word;
pub use breaker::{BreakerOverride, BreakerSettings};
pub use cache::{CacheEntry, CacheSettings, Forbidden, Lasts, Store};
pub use hedge::HedgeSettings;
pub use metrics::{BreakerView, Count, RouteCounts, UpstreamCounts, UpstreamView};
pub use passthrough::{Passthrough, PassthroughSettings, StreamedBody};
pub use rate_limit::{CallsPer, OnStoreFailure, RateSettings};
pub use retry::{RetryOverride, RetrySettings, jitter};
pub use stack::{Policies, Response, RoutePolicies, Sharing, UpstreamPolicies};

/// The policies of an upstream. The timeout is not here: it comes with each
/// [`UpstreamCall`](crate::upstream::UpstreamCall).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PolicySettings {
    /// How many calls may be in flight at a time.
    pub max_in_flight: usize,
    /// How many of them may be of one client, where that is limited.
    pub max_in_flight_per_client: Option<usize>,
    /// How many more may wait for a slot; the next one is rejected at once.
    pub waiting_limit: usize,
    /// How long one may wait for a slot before it is rejected.
    pub waiting_timeout: Duration,
    /// How long one attempt may take; as long as the call where it is `None`.
    pub attempt_timeout: Option<Duration>,
    /// Which failed requests are sent again.
    pub retry: RetrySettings,
    /// When its circuit breaker and those of its routes open.
    pub circuit_breaker: BreakerSettings,
    /// The rate limit of all clients together.
    pub rate_limit: Option<RateSettings>,
    /// The rate limit of each client.
    pub rate_limit_per_client: Option<RateSettings>,
}

/// The policies of a route, beside those of its upstream.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct RoutePolicySettings {
    /// The rate limit of all clients together.
    pub rate_limit: Option<RateSettings>,
    /// The rate limit of each client.
    pub rate_limit_per_client: Option<RateSettings>,
    /// Which responses are cached, if any.
    pub cache: Option<CacheSettings>,
    /// Whether calls that ask for the same at the same time share a request.
    pub coalescing: Coalescing,
    /// When a slow request is hedged, if ever.
    pub hedge: Option<HedgeSettings>,
    /// How its requests are retried, where that differs from its upstream.
    pub retry: RetryOverride,
    /// When its circuit breaker opens, where that differs from its upstream.
    pub circuit_breaker: BreakerOverride,
}

/// What is done with calls that ask for the same at the same time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Coalescing {
    /// Each sends a request.
    #[default]
    Off,
    /// There is one request for all.
    On,
}

impl PolicySettings {
    /// For [`max_in_flight`](Self::max_in_flight): a legacy server with some dozens of workers.
    pub const MAX_IN_FLIGHT_DEFAULT: usize = 128;
    /// The same where each call starts a program, which takes a processor and memory of its own.
    pub const MAX_IN_FLIGHT_OF_PROGRAMS: usize = 16;
    /// For [`waiting_limit`](Self::waiting_limit).
    pub const WAITING_LIMIT_DEFAULT: usize = 256;
    /// For [`waiting_timeout`](Self::waiting_timeout).
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
            circuit_breaker: BreakerSettings::default(),
            rate_limit: None,
            rate_limit_per_client: None,
        }
    }
}
