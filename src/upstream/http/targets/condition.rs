//! What is known of a place: whether it failed, and how long it is left out for it.

use std::time::Duration;

use tokio::time::Instant;

/// When a place that fails is left out, and for how long.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EjectionSettings {
    /// After how many failures in a row; `None` never leaves one out.
    pub failures: Option<u32>,
    /// How long at first. It doubles with each failure that follows.
    pub rest: Duration,
    /// How long at most.
    pub longest_rest: Duration,
}

impl Default for EjectionSettings {
    fn default() -> Self {
        Self { failures: Some(3), rest: Duration::from_secs(5), longest_rest: Duration::from_secs(60) }
    }
}

/// Whether requests go to a place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum State {
    /// They do.
    Up,
    /// It failed, and is left out for so long yet.
    LeftOut {
        /// How long yet.
        rest: Duration,
    },
    /// It was left out, and the next request goes there to see.
    ToBeTried,
    /// It does not answer when it is asked after its health.
    Unhealthy,
}

impl State {
    /// All states, by the words of metrics and the admin API.
    pub const WORDS: [&str; 4] = ["up", "left_out", "to_be_tried", "unhealthy"];

    /// The word for this one.
    pub fn as_word(self) -> &'static str {
        let [up, left_out, to_be_tried, unhealthy] = Self::WORDS;
        match self {
            Self::Up => up,
            Self::LeftOut { .. } => left_out,
            Self::ToBeTried => to_be_tried,
            Self::Unhealthy => unhealthy,
        }
    }
}

/// What a place has shown of itself.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Condition {
    /// Failures since the last success.
    failures: u32,
    out_until: Option<Instant>,
    /// A request is there to see; its outcome decides.
    on_trial: bool,
    /// Failed checks of its health since the last that went well.
    failed_checks: u32,
    unhealthy: bool,
}

/// A change that is worth a line in the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Change {
    LeftOut(Duration),
    Back,
    Unhealthy,
    Healthy,
}

impl Condition {
    pub(super) fn state(&self, now: Instant) -> State {
        match self.out_until {
            _ if self.unhealthy => State::Unhealthy,
            None => State::Up,
            Some(until) if now < until => State::LeftOut { rest: until - now },
            Some(_) => State::ToBeTried,
        }
    }

    /// A request goes there. After a rest it is the one that goes to see; should it never come back, another goes after
    /// a while.
    pub(super) fn asked(&mut self, settings: &EjectionSettings, now: impl FnOnce() -> Instant) {
        let Some(until) = self.out_until else { return };
        let now = now();
        if until <= now {
            (self.out_until, self.on_trial) = (Some(now + settings.rest), true);
        }
    }

    /// It answers, whenever it was asked.
    pub(super) fn succeeded(&mut self) -> Option<Change> {
        (self.failures, self.on_trial) = (0, false);
        self.out_until.take().map(|_| Change::Back)
    }

    pub(super) fn failed(&mut self, settings: &EjectionSettings, now: Instant) -> Option<Change> {
        let limit = settings.failures?;
        // Those that were on their way together fail together; that is one reason to stay away, not twenty.
        if self.out_until.is_some_and(|until| now < until) && !std::mem::take(&mut self.on_trial) {
            return None;
        }
        self.failures = self.failures.saturating_add(1);
        let beyond = self.failures.checked_sub(limit)?;
        let rest = settings.rest.saturating_mul(1 << beyond.min(16)).min(settings.longest_rest);
        self.out_until = Some(now + rest);
        Some(Change::LeftOut(rest))
    }

    /// A check of its health ended; after so many failed ones it is unhealthy.
    pub(super) fn checked(&mut self, well: bool, failures: u32) -> Option<Change> {
        if well {
            self.failed_checks = 0;
            return std::mem::take(&mut self.unhealthy).then_some(Change::Healthy);
        }
        self.failed_checks = self.failed_checks.saturating_add(1);
        let now_unhealthy = !self.unhealthy && self.failed_checks >= failures;
        self.unhealthy |= now_unhealthy;
        now_unhealthy.then_some(Change::Unhealthy)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn the_rest_grows_with_each_failure_until_a_success() {
        let settings = EjectionSettings { failures: Some(2), rest: SECOND, longest_rest: 3 * SECOND };
        let (mut condition, mut now) = (Condition::default(), Instant::now());
        assert_eq!(condition.failed(&settings, now), None);
        for rest in [1, 2, 3, 3] {
            assert_eq!(condition.failed(&settings, now), Some(Change::LeftOut(rest * SECOND)));
            assert_eq!(condition.state(now), State::LeftOut { rest: rest * SECOND });
            assert_eq!(condition.failed(&settings, now), None, "it is out already");
            now += rest * SECOND;
            assert_eq!(condition.state(now), State::ToBeTried);
            condition.asked(&settings, || now);
            assert_eq!(condition.state(now), State::LeftOut { rest: SECOND }, "one is enough");
        }
        assert_eq!(condition.state(now + 3 * SECOND), State::ToBeTried, "that one never came back");
        assert_eq!(condition.succeeded(), Some(Change::Back));
        assert_eq!((condition.state(now), condition.failed(&settings, now)), (State::Up, None));
    }

    #[test]
    fn none_is_left_out_where_that_is_off() {
        let settings = EjectionSettings { failures: None, ..EjectionSettings::default() };
        let mut condition = Condition::default();
        assert!((0..100).all(|_| condition.failed(&settings, Instant::now()).is_none()));
    }

    #[test]
    fn some_failed_checks_make_it_unhealthy_and_one_good_one_well() {
        let mut condition = Condition::default();
        assert_eq!(condition.checked(false, 2), None);
        assert_eq!(condition.checked(false, 2), Some(Change::Unhealthy));
        assert_eq!(condition.checked(false, 2), None);
        assert_eq!(condition.state(Instant::now()), State::Unhealthy);
        assert_eq!(condition.checked(true, 2), Some(Change::Healthy));
        assert_eq!(condition.state(Instant::now()), State::Up);
    }
}
