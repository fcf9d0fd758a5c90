//! How carefully an upstream is asked, in `defaults` and at the upstream itself.

use crate::{
    config::section::Section,
    policy::{CircuitBreakerOverride, PolicySettings, RateSettings, RetryOverride},
    settings::{code::Code, value::OrOff},
};

/// Reads the policies of a section over those that hold where it says nothing.
pub(in crate::config) fn read(section: &Section<'_, '_>, base: PolicySettings) -> PolicySettings {
    let mut settings = base;
    if let Some(count) = section.count("max_in_flight") {
        settings.max_in_flight = usize::try_from(count).unwrap_or(usize::MAX);
    }
    if let Some(count) = section.count("max_in_flight_per_client") {
        let limit = usize::try_from(count).unwrap_or(usize::MAX);
        if limit >= settings.max_in_flight
            && base.max_in_flight_per_client.is_none()
            && let Some(entry) = section.entry("max_in_flight_per_client")
        {
            let message = format!(
                "`max_in_flight_per_client` has no effect: all clients together have {} calls in flight at most",
                settings.max_in_flight
            );
            section.report.warning(
                Code::LimitNeverReached.at(entry.key.span),
                message,
                "write less than `max_in_flight`",
            );
        }
        settings.max_in_flight_per_client = Some(limit);
    }
    if let Some(timeout) = section.duration("attempt_timeout") {
        settings.attempt_timeout = Some(timeout);
    }
    settings.retry = retry(section).apply_to(base.retry);
    settings.circuit_breaker = circuit_breaker(section).apply_to(base.circuit_breaker);
    settings.rate_limit =
        section.read::<OrOff<RateSettings>>("rate_limit").map_or(base.rate_limit, OrOff::on);
    settings.rate_limit_per_client = section
        .read::<OrOff<RateSettings>>("rate_limit_per_client")
        .map_or(base.rate_limit_per_client, OrOff::on);
    settings
}

/// `retry`, here or at a route.
pub(super) fn retry(section: &Section<'_, '_>) -> RetryOverride {
    match section.read::<OrOff<RetryOverride>>("retry") {
        None => RetryOverride::default(),
        Some(OrOff::Off) => RetryOverride { max_attempts: Some(1), ..RetryOverride::default() },
        Some(OrOff::On(settings)) => settings,
    }
}

/// `circuit_breaker`, here or at a route.
pub(super) fn circuit_breaker(section: &Section<'_, '_>) -> CircuitBreakerOverride {
    match section.read::<OrOff<CircuitBreakerOverride>>("circuit_breaker") {
        None => CircuitBreakerOverride::default(),
        Some(OrOff::Off) => {
            CircuitBreakerOverride { consecutive_failures: Some(None), ..CircuitBreakerOverride::default() }
        }
        Some(OrOff::On(settings)) => settings,
    }
}
