//! What the guards of an upstream know of it, for an operator who asks.

use std::time::Duration;

use crate::upstream::{Upstream, http::AddressView};

/// An upstream and its guards as they are now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GuardsView {
    /// What it is: `http`, `command`, `cgi` or `mcp`.
    pub kind: &'static str,
    /// Whether calls pass.
    pub breaker: BreakerView,
    /// How many requests are there.
    pub in_flight: usize,
    /// How many may be.
    pub in_flight_limit: usize,
    /// How many wait for a place.
    pub waiting: usize,
    /// How many may.
    pub waiting_limit: usize,
    /// Where it is, as far as that is known; of what speaks no HTTP there is nothing.
    pub addresses: Vec<AddressView>,
}

/// A circuit breaker as it is now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BreakerView {
    /// It is off: all calls pass.
    Off,
    /// Calls pass.
    Closed {
        /// How many have failed since the last success.
        failures: u32,
    },
    /// Calls are turned away.
    Open {
        /// For how long yet; not at all where the next call goes to see.
        rest: Duration,
    },
    /// One call is on its way to see.
    HalfOpen,
}

impl BreakerView {
    /// In a word.
    pub fn as_word(self) -> &'static str {
        match self {
            Self::Off => "off",
            Self::Closed { .. } => "closed",
            Self::Open { .. } => "open",
            Self::HalfOpen => "half_open",
        }
    }
}

/// What an upstream is, in a word.
pub(super) fn kind_of(upstream: &Upstream) -> &'static str {
    match upstream {
        Upstream::Http(_) => "http",
        Upstream::Command(_) => "command",
        Upstream::Cgi(_) => "cgi",
        Upstream::Mcp(_) => "mcp",
    }
}
