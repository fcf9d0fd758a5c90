//! Policies round every call of an upstream: deadlines, rate limits, cache, hedging, retries, circuit breakers,
//! concurrency limits.
//!
//! [`RoutePolicies::call`] and [`UpstreamPolicies::follow_up`] apply them; both are in `stack`, where the order and its
//! reasons are. A policy is a struct with one method, off where it is `None`; the retry and the circuit breakers are always
//! there, as the one counts what hedges may spend, and let all calls pass when they are off. What is handed through unread
//! has the same concurrency and rate limits, and others of its own: [`Passthrough`].
//!
//! What several replicas count or keep together is in the store that they share ([`Sharing`]): rates and kept replies.
//! Everything else is each replica's own.
//!
//! Each tells what it did as an [`UpstreamError`](crate::upstream::UpstreamError), so that the `gateway` has one kind of
//! failure to put into words.

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
pub use rate_limit::{RateSettings, WithoutStore};
pub use retry::{RetryOverride, RetrySettings, jitter};
pub use stack::{Policies, Response, RoutePolicies, Sharing, UpstreamPolicies};

/// How carefully one upstream is asked. The deadline is not here: it comes with each [`Ask`](crate::upstream::Ask).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PolicySettings {
    /// How many calls may be in flight at a time.
    pub in_flight_limit: usize,
    /// How many of them may be of one caller, where that is said.
    pub caller_in_flight_limit: Option<usize>,
    /// How many more may wait for a place; the next one is turned away at once.
    pub waiting_limit: usize,
    /// How long one may wait for a place before it is turned away.
    pub waiting_timeout: Duration,
    /// How long one attempt may take; as long as the call where there is none.
    pub attempt_timeout: Option<Duration>,
    /// Whether what fails is asked again.
    pub retry: RetrySettings,
    /// When the circuit breakers open: its own, and those of its routes.
    pub breaker: BreakerSettings,
    /// How often it may be asked, by all together.
    pub rate: Option<RateSettings>,
    /// How often each caller may call its routes.
    pub caller_rate: Option<RateSettings>,
}

/// How carefully one route is called, beyond what its upstream asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct RoutePolicySettings {
    /// How often it may be called, by all together.
    pub rate: Option<RateSettings>,
    /// How often each caller may call it.
    pub caller_rate: Option<RateSettings>,
    /// Which replies are kept, if any.
    pub cache: Option<CacheSettings>,
    /// How often the upstream is asked for the same at the same time.
    pub same_at_once: SameAtOnce,
    /// When a request is sent once more for being slow, if ever.
    pub hedge: Option<HedgeSettings>,
    /// How its requests are repeated, where it says otherwise than its upstream.
    pub retry: RetryOverride,
    /// When its circuit breaker opens, where it says otherwise than its upstream.
    pub breaker: BreakerOverride,
}

/// What is done with calls that ask for the same at the same time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum SameAtOnce {
    /// The upstream is asked by each.
    #[default]
    AskedByEach,
    /// It is asked once for all.
    AskedOnce,
}

impl PolicySettings {
    /// For [`in_flight_limit`](Self::in_flight_limit): a legacy server with some dozens of workers.
    pub const IN_FLIGHT_LIMIT_DEFAULT: usize = 128;
    /// The same where each call starts a program, which takes a processor and memory of its own.
    pub const IN_FLIGHT_LIMIT_OF_PROGRAMS: usize = 16;
    /// For [`waiting_limit`](Self::waiting_limit).
    pub const WAITING_LIMIT_DEFAULT: usize = 256;
    /// For [`waiting_timeout`](Self::waiting_timeout).
    pub const WAITING_TIMEOUT_DEFAULT: Duration = Duration::from_secs(2);
}

impl Default for PolicySettings {
    fn default() -> Self {
        Self {
            in_flight_limit: Self::IN_FLIGHT_LIMIT_DEFAULT,
            caller_in_flight_limit: None,
            waiting_limit: Self::WAITING_LIMIT_DEFAULT,
            waiting_timeout: Self::WAITING_TIMEOUT_DEFAULT,
            attempt_timeout: None,
            retry: RetrySettings::default(),
            breaker: BreakerSettings::default(),
            rate: None,
            caller_rate: None,
        }
    }
}
