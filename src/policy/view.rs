//! The state of an upstream as its policies know it, for the admin API.

use std::time::Duration;

use crate::upstream::{
    Upstream,
    http::{AddressView, State},
};

/// An upstream and its policies as they are now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UpstreamView {
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

impl UpstreamView {
    /// Whether a call may come through, as far as is known: what nobody has asked yet is taken for well, and so is what the
    /// next call is to try, or nobody would ever find out.
    pub fn is_reachable(&self) -> bool {
        let rests = matches!(self.breaker, BreakerView::Open { rest } if !rest.is_zero());
        let is_open = |view: &AddressView| matches!(view.state, State::Up | State::ToBeTried);
        !rests && (self.addresses.is_empty() || self.addresses.iter().any(is_open))
    }
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

#[cfg(test)]
mod tests {
    use super::*;

    fn view(breaker: BreakerView, states: &[State]) -> UpstreamView {
        let address = |state: &State| AddressView { address: "a".into(), state: *state, in_flight: 0 };
        UpstreamView {
            kind: "http",
            breaker,
            in_flight: 0,
            in_flight_limit: 1,
            waiting: 0,
            waiting_limit: 1,
            addresses: states.iter().map(address).collect(),
        }
    }

    #[test]
    fn what_the_next_call_is_to_try_is_not_given_up() {
        let (rest, closed) = (Duration::from_secs(1), BreakerView::Closed { failures: 3 });
        assert!(view(closed, &[]).is_reachable(), "nobody has asked yet");
        assert!(view(closed, &[State::Unhealthy, State::Up]).is_reachable());
        assert!(view(closed, &[State::ToBeTried]).is_reachable());
        assert!(!view(closed, &[State::Unhealthy, State::LeftOut { rest }]).is_reachable());
        assert!(!view(BreakerView::Open { rest }, &[State::Up]).is_reachable());
        assert!(view(BreakerView::Open { rest: Duration::ZERO }, &[State::Up]).is_reachable());
        assert!(view(BreakerView::HalfOpen, &[State::Up]).is_reachable());
    }
}
