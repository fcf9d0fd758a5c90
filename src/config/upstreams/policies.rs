//! How carefully an upstream is asked, in `defaults` and at the upstream itself.

use crate::{
    config::{
        keys::{BREAKER, RETRY},
        node::Kind,
        section::{self, Section},
    },
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
    match choice(section, "retry") {
        Some(Choice::Off) => RetryOverride { attempts: Some(1), ..RetryOverride::default() },
        Some(Choice::Map) => {
            section.section("retry", &RETRY).map_or_else(RetryOverride::default, |section| RetryOverride {
                attempts: section.count("attempts").and_then(|count| u32::try_from(count).ok()),
                backoff: section.duration("backoff"),
                longest_wait: section.duration("longest_wait"),
            })
        }
        None => RetryOverride::default(),
    }
}

/// `breaker`, here or at a route.
pub(super) fn breaker(section: &Section<'_, '_>) -> BreakerOverride {
    match choice(section, "breaker") {
        Some(Choice::Off) => BreakerOverride { failures: Some(None), ..BreakerOverride::default() },
        Some(Choice::Map) => {
            section.section("breaker", &BREAKER).map_or_else(BreakerOverride::default, |section| {
                let failures = section.count("failures").and_then(|count| u32::try_from(count).ok());
                BreakerOverride { failures: failures.map(Some), rest: section.duration("rest") }
            })
        }
        None => BreakerOverride::default(),
    }
}

/// What a key says that takes `off` or a map.
pub(super) enum Choice {
    Off,
    Map,
}

pub(super) fn choice(section: &Section<'_, '_>, name: &'static str) -> Option<Choice> {
    let node = section.get(name)?;
    match &node.kind {
        Kind::Text(_) => {
            let word = section::word_of(section.report, node, &format!("`{name}`"), &["off"]);
            word.map(|_| Choice::Off)
        }
        Kind::Flag(false) => Some(Choice::Off),
        Kind::Nothing | Kind::Flag(true) | Kind::Number(_) | Kind::List(_) | Kind::Map(_) => {
            Some(Choice::Map)
        }
    }
}
