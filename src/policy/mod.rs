//! Guards round every call of an upstream, one layer a file, put together by tower.
//!
//! From the outside in, and why:
//!
//! 1. [`Deadline`]: the promise to the caller, so it holds for everything below, waiting for a place included.
//! 2. [`RateLimit`] of each caller, of the upstream and of the route: who asks too often is turned away before anything
//!    is done for them, even where it would cost the upstream nothing.
//! 3. [`Cache`]: what was answered before is given again. Inside of what each caller may ask; round all that spares the
//!    upstream, as it is spared.
//! 4. [`Coalesce`]: what is being asked for is not asked again. Inside of the cache, where it is seldom needed, and inside
//!    of the deadline, so that each who waits has their own; round the rates, as there is one request. The cache holds
//!    that request until its reply is kept, so that there is no moment at which neither has it.
//! 5. [`RateLimit`] of the route, for all callers together: of calls for which the upstream is asked.
//! 6. [`Hedge`]: a slow request is sent once more. Round retries, so that the second one has none.
//! 7. [`Retry`]: what fails in passing is asked again, within the promise. Round all that follows, so that each
//!    attempt is judged, queued and timed as a call of its own, and no place is held while it waits.
//! 8. [`Breaker`], twice: the one of the route rejects calls that are only answered with 502, 503 or 504, the one of the
//!    upstream rejects all while it is not there. Round the queue, so that nobody waits for a place in vain, and round the
//!    rate, so that nothing of it is used there. The route's is outside: what the upstream's rejects tells it nothing.
//! 9. [`RateLimit`] of the upstream. Inside of retries, as each is a request; round the queue, as it holds no place.
//! 10. [`InFlight`]: protects the upstream. Inside the deadline, so that a call that gives up leaves the queue;
//!     round the upstream, so that a place is held exactly as long as a connection is.
//! 11. [`Attempt`]: the time of one attempt, in which waiting for a place does not count.
//! 12. [`Measured`]: counts what came of each attempt, and tells of it where there are traces (`spans`).
//!
//! [`Guards`] puts them together, without those that are off; [`Retry`] and [`Breaker`] are always there, as the one counts
//! what hedges may spend, and let all calls pass when they are off. Calls of a route have them all. What follows from a call
//! that has begun (the questions about a job), and what no caller asked for (a look at a watched resource), has those
//! of the upstream only, and waits its turn where a call would be turned away.
//!
//! What is handed through unread has the same gate and rate, and limits of its own: [`Passthrough`].
//!
//! What several replicas count or keep together is in the store that they share ([`Sharing`]): rates and kept replies.
//! Everything else is each replica's own.
//!
//! Each tells what it did as an [`UpstreamError`](crate::upstream::UpstreamError), so that the `gateway` has one kind of failure to put
//! into words. All calls share them; dropping a call's future gives back what it held.

mod attempt;
mod breaker;
mod budget;
mod cache;
mod coalesce;
mod dates;
mod deadline;
mod guarded;
mod guards;
mod hedge;
mod in_flight;
mod key;
mod measured;
pub mod metrics;
#[cfg(test)]
mod mock;
mod passthrough;
mod rate;
mod retry;
mod spans;
mod spread;
mod view;

use std::time::Duration;

pub use attempt::Attempt;
pub use breaker::{Breaker, BreakerOverride, BreakerSettings, Circuit};
pub use budget::Budget;
pub use cache::{Cache, CacheSettings, Forbidden, Lasts, Store};
pub use coalesce::Coalesce;
pub use deadline::Deadline;
pub use guarded::{Guarded, PendingReply};
pub use guards::{Guards, RouteGuards, Sharing};
pub use hedge::{Hedge, HedgeSettings};
pub use in_flight::{Gate, InFlight};
pub use measured::{Measured, result_word};
pub use metrics::{Count, PolicyCounts, RouteCounts, UpstreamCounts};
pub use passthrough::{Passthrough, PassthroughSettings, StreamedBody};
pub use rate::{Over, Rate, RateLimit, RateLimitLayer, RateSettings, WithoutStore};
pub use retry::{Retries, Retry, RetryOverride, RetrySettings};
pub use spans::Whereto;
pub use spread::spread;
pub use view::{BreakerView, GuardsView};

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
