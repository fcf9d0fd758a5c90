//! Outlier detection: an endpoint whose requests fail is ejected for a time that grows with each failure, and
//! then probed by one request. Failed health checks make it unhealthy.

use std::time::Duration;

use serde::Serialize;
use settings_derive::Section;
use tokio::time::Instant;

use crate::settings::{Checked, Code, OpenSection, units};

/// Settings of outlier detection: when a failing endpoint is ejected, and for how long.
#[derive(Debug, Clone, PartialEq, Eq, Section)]
#[section(id = "outlier_detection", default, check = Self::complete)]
pub struct OutlierDetectionSettings {
    /// Number of consecutive failures after which an address is ejected.
    // `None` if outlier detection is off.
    #[key(range = 1..=1_000_000, default = Some(3))]
    pub consecutive_failures: Option<u32>,
    /// Duration of the first ejection; it doubles with each further failure.
    #[key(range = 1..=3_600_000, default = Duration::from_secs(5))]
    pub base_ejection_time: Duration,
    /// Maximum duration of an ejection.
    #[key(range = 1..=24 * 3_600_000, default = Duration::from_secs(60))]
    pub max_ejection_time: Duration,
}

impl OutlierDetectionSettings {
    /// Checks that `max_ejection_time` is not shorter than `base_ejection_time`. If the maximum is not
    /// configured, raises it to the base.
    fn complete(mut self, section: &OpenSection<'_>) -> Checked<Self> {
        section.check_valid(&["base_ejection_time", "max_ejection_time"])?;
        if self.max_ejection_time < self.base_ejection_time {
            if let Some(entry) = section.entry("max_ejection_time") {
                let (message, help) = (
                    "`max_ejection_time` is shorter than `base_ejection_time`",
                    "write at least as much as `base_ejection_time`",
                );
                return Err(section.reject_at(Code::OutOfRange.at_span(entry.value.span), message, help));
            }
            self.max_ejection_time = self.base_ejection_time;
        }
        Ok(self)
    }
}

/// State of an endpoint. The names are labels in metrics.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, strum::IntoStaticStr, strum::VariantNames)]
#[serde(tag = "state", rename_all = "lowercase")]
#[strum(serialize_all = "lowercase")]
pub enum EndpointState {
    /// Requests are sent to the endpoint.
    Healthy,
    /// Ejected after failures.
    Ejected {
        /// Remaining time of the ejection.
        #[serde(rename = "ejected_for_ms", serialize_with = "units::serialize_milliseconds")]
        remaining: Duration,
    },
    /// The ejection is over, and the next request probes the endpoint.
    Probing,
    /// Health checks of the endpoint fail.
    Unhealthy,
}

/// Failures, ejection and health of an endpoint, from its requests and its health checks.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct EndpointCondition {
    /// Failures since the last success.
    failures: u32,
    ejected_until: Option<Instant>,
    /// Whether a probe is in flight, whose outcome ends or repeats the ejection.
    is_probing: bool,
    /// Failed health checks since the last success.
    failed_checks: u32,
    is_unhealthy: bool,
}

/// Change of state that is logged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum StateChange {
    Ejected(Duration),
    Recovered,
    Unhealthy,
    Healthy,
}

impl EndpointCondition {
    pub(super) fn state(&self, now: Instant) -> EndpointState {
        match self.ejected_until {
            _ if self.is_unhealthy => EndpointState::Unhealthy,
            None => EndpointState::Healthy,
            Some(until) if now < until => EndpointState::Ejected { remaining: until - now },
            Some(_) => EndpointState::Probing,
        }
    }

    /// Records that a request is sent to the endpoint. The first request after an ejection is the probe.
    /// If it has no result within `base_ejection_time`, the next request is another probe.
    pub(super) fn request_started(&mut self, settings: &OutlierDetectionSettings, now: Instant) {
        if self.ejected_until.is_some_and(|until| until <= now) {
            (self.ejected_until, self.is_probing) = (Some(now + settings.base_ejection_time), true);
        }
    }

    /// Records a success, even of a request from before the ejection.
    pub(super) fn record_success(&mut self) -> Option<StateChange> {
        (self.failures, self.is_probing) = (0, false);
        self.ejected_until.take().map(|_| StateChange::Recovered)
    }

    pub(super) fn record_failure(
        &mut self,
        settings: &OutlierDetectionSettings,
        now: Instant,
    ) -> Option<StateChange> {
        let limit = settings.consecutive_failures?;
        let is_probe = std::mem::take(&mut self.is_probing);
        // Requests that were in flight together fail together, and count as one failure.
        if self.ejected_until.is_some_and(|until| now < until) && !is_probe {
            return None;
        }
        self.failures = self.failures.saturating_add(1);
        let excess_failures = self.failures.checked_sub(limit)?;
        let ejection_time = settings
            .base_ejection_time
            .saturating_mul(1 << excess_failures.min(16))
            .min(settings.max_ejection_time);
        self.ejected_until = Some(now + ejection_time);
        Some(StateChange::Ejected(ejection_time))
    }

    /// Records a health check. After `unhealthy_threshold` consecutive failures the endpoint is unhealthy.
    pub(super) fn record_check(&mut self, passed: bool, unhealthy_threshold: u32) -> Option<StateChange> {
        if passed {
            self.failed_checks = 0;
            return std::mem::take(&mut self.is_unhealthy).then_some(StateChange::Healthy);
        }
        self.failed_checks = self.failed_checks.saturating_add(1);
        let becomes_unhealthy = !self.is_unhealthy && self.failed_checks >= unhealthy_threshold;
        self.is_unhealthy |= becomes_unhealthy;
        becomes_unhealthy.then_some(StateChange::Unhealthy)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn the_ejection_time_grows_with_each_failure_until_a_success() {
        let settings = OutlierDetectionSettings {
            consecutive_failures: Some(2),
            base_ejection_time: SECOND,
            max_ejection_time: 3 * SECOND,
        };
        let (mut condition, mut now) = (EndpointCondition::default(), Instant::now());
        assert_eq!(condition.record_failure(&settings, now), None);
        for seconds in [1, 2, 3, 3] {
            assert_eq!(
                condition.record_failure(&settings, now),
                Some(StateChange::Ejected(seconds * SECOND))
            );
            assert_eq!(condition.state(now), EndpointState::Ejected { remaining: seconds * SECOND });
            assert_eq!(condition.record_failure(&settings, now), None, "already ejected");
            now += seconds * SECOND;
            assert_eq!(condition.state(now), EndpointState::Probing);
            condition.request_started(&settings, now);
            assert_eq!(
                condition.state(now),
                EndpointState::Ejected { remaining: SECOND },
                "one probe is enough"
            );
        }
        assert_eq!(condition.state(now + 3 * SECOND), EndpointState::Probing, "the probe had no result");
        assert_eq!(condition.record_success(), Some(StateChange::Recovered));
        assert_eq!(
            (condition.state(now), condition.record_failure(&settings, now)),
            (EndpointState::Healthy, None)
        );
    }

    #[test]
    fn a_request_from_before_a_slow_probe_is_no_second_failure() {
        let settings = OutlierDetectionSettings {
            consecutive_failures: Some(1),
            base_ejection_time: SECOND,
            max_ejection_time: 60 * SECOND,
        };
        let (mut condition, start) = (EndpointCondition::default(), Instant::now());
        assert!(condition.record_failure(&settings, start).is_some());
        condition.request_started(&settings, start + SECOND);
        let probe_failed = start + 5 * SECOND / 2;
        assert_eq!(condition.record_failure(&settings, probe_failed), Some(StateChange::Ejected(2 * SECOND)));
        assert_eq!(condition.record_failure(&settings, probe_failed + SECOND / 10), None);
    }

    #[test]
    fn no_endpoint_is_ejected_if_outlier_detection_is_off() {
        let settings =
            OutlierDetectionSettings { consecutive_failures: None, ..OutlierDetectionSettings::default() };
        let mut condition = EndpointCondition::default();
        assert!((0..100).all(|_| condition.record_failure(&settings, Instant::now()).is_none()));
    }

    #[test]
    fn some_failed_checks_make_it_unhealthy_and_one_passed_check_healthy() {
        let mut condition = EndpointCondition::default();
        assert_eq!(condition.record_check(false, 2), None);
        assert_eq!(condition.record_check(false, 2), Some(StateChange::Unhealthy));
        assert_eq!(condition.record_check(false, 2), None);
        assert_eq!(condition.state(Instant::now()), EndpointState::Unhealthy);
        assert_eq!(condition.record_check(true, 2), Some(StateChange::Healthy));
        assert_eq!(condition.state(Instant::now()), EndpointState::Healthy);
    }
}
