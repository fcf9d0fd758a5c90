//! How carefully an upstream is asked, in `defaults` and at the upstream itself.

use crate::{
    config::section::Section,
    policy::{BreakerOverride, PolicySettings, RateSettings, RetryOverride},
    settings::value::OrOff,
};

/// Reads the policies of a section over those that hold where it says nothing.
pub(in crate::config) fn read(section: &Section<'_, '_>, base: PolicySettings) -> PolicySettings {
    let mut settings = base;
    if let Some(in_flight) = section.count("in_flight") {
        settings.in_flight_limit = usize::try_from(in_flight).unwrap_or(usize::MAX);
    }
    if let Some(count) = section.count("caller_in_flight") {
        let limit = usize::try_from(count).unwrap_or(usize::MAX);
        if limit >= settings.in_flight_limit
            && base.caller_in_flight_limit.is_none()
            && let Some(entry) = section.entry("caller_in_flight")
        {
            let message = format!(
                "`caller_in_flight` has no effect: all callers together have {} calls in flight at most",
                settings.in_flight_limit
            );
            section.report.warning(entry.key.span, message, "write less than `in_flight`");
        }
        settings.caller_in_flight_limit = Some(limit);
    }
    if let Some(timeout) = section.duration("attempt_timeout") {
        settings.attempt_timeout = Some(timeout);
    }
    settings.retry = retry(section).over(base.retry);
    settings.breaker = breaker(section).over(base.breaker);
    settings.rate = section.read::<OrOff<RateSettings>>("rate").map_or(base.rate, OrOff::on);
    settings.caller_rate =
        section.read::<OrOff<RateSettings>>("caller_rate").map_or(base.caller_rate, OrOff::on);
    settings
}

/// `retry`, here or at a route.
pub(super) fn retry(section: &Section<'_, '_>) -> RetryOverride {
    match section.read::<OrOff<RetryOverride>>("retry") {
        None => RetryOverride::default(),
        Some(OrOff::Off) => RetryOverride { attempts: Some(1), ..RetryOverride::default() },
        Some(OrOff::On(settings)) => settings,
    }
}

/// `breaker`, here or at a route.
pub(super) fn breaker(section: &Section<'_, '_>) -> BreakerOverride {
    match section.read::<OrOff<BreakerOverride>>("breaker") {
        None => BreakerOverride::default(),
        Some(OrOff::Off) => BreakerOverride { failures: Some(None), ..BreakerOverride::default() },
        Some(OrOff::On(settings)) => settings,
    }
}
