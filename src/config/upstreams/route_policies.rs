//! How carefully one route is called: `rate_limit`, `rate_limit_per_client`, `cache`, `coalesce`, `hedge`,
//! `retry` and `circuit_breaker`.

use std::time::Duration;

use serde_json::{Map, Value};

use super::policies;
use crate::{
    config::{keys::CACHE, node::Node, section::Section, units},
    policy::{
        CacheSettings, Coalescing, FreshnessLifetime, HedgeSettings, OnForbidden, RateSettings,
        RoutePolicySettings,
    },
    route::RequestTemplate,
    settings::{code::Code, value::OrOff},
};

/// The longest time that a reply may be kept, in milliseconds.
const MAX_LENGTH: u64 = 30 * 24 * 3_600_000;
/// The longest time before a request is sent once more, in milliseconds.
const MAX_HEDGE_LENGTH: u64 = 3_600_000;

/// Reads the policies of a route.
pub(in crate::config) fn read(section: &Section<'_, '_>) -> RoutePolicySettings {
    let cache = cache(section);
    let coalescing = match section.flag("coalesce") {
        Some(true) => Coalescing::On,
        Some(false) => Coalescing::Off,
        None if cache.is_some() => Coalescing::On,
        None => Coalescing::Off,
    };
    RoutePolicySettings {
        rate_limit: section.read::<OrOff<RateSettings>>("rate_limit").and_then(OrOff::on),
        rate_limit_per_client: section
            .read::<OrOff<RateSettings>>("rate_limit_per_client")
            .and_then(OrOff::on),
        cache,
        coalescing,
        hedge: section.get("hedge").and_then(|node| hedge(section, node)),
        retry: policies::retry(section),
        circuit_breaker: policies::circuit_breaker(section),
    }
}

fn cache(section: &Section<'_, '_>) -> Option<CacheSettings> {
    let node = section.get("cache")?;
    let plain =
        |lasts| CacheSettings { lasts, stale_if_error: Duration::ZERO, forbidden: OnForbidden::Respected };
    if node.as_map().is_none() {
        return lasts(section, node, "cache").map(plain);
    }
    let section = section.section("cache", &CACHE)?;
    let ttl = section.get("ttl").map(|node| lasts(&section, node, "ttl"));
    let stale_if_error = section.duration("stale_if_error").unwrap_or_default();
    let forbidden = if section.flag("ignore_cache_control") == Some(true) {
        OnForbidden::Ignored
    } else {
        OnForbidden::Respected
    };
    let lasts = ttl.unwrap_or(Some(FreshnessLifetime::FromUpstream))?;
    Some(CacheSettings { stale_if_error, forbidden, ..plain(lasts) })
}

fn lasts(section: &Section<'_, '_>, node: &Node, name: &str) -> Option<FreshnessLifetime> {
    let text = node.scalar().unwrap_or_else(|| node.found());
    if text == "upstream" {
        return Some(FreshnessLifetime::FromUpstream);
    }
    match units::duration_within(&text, 1, MAX_LENGTH) {
        Ok(time) => Some(FreshnessLifetime::For(time)),
        Err(error) => {
            let help = format!("{}, or `{name}: upstream` for as long as the upstream says", error.help);
            section.report.error(error.code.at(node.span), error.message, help);
            None
        }
    }
}

fn hedge(section: &Section<'_, '_>, node: &Node) -> Option<HedgeSettings> {
    let text = node.scalar().unwrap_or_else(|| node.found());
    if text == "p95" {
        return Some(HedgeSettings::P95);
    }
    match units::duration_within(&text, 1, MAX_HEDGE_LENGTH) {
        Ok(time) => Some(HedgeSettings::After(time)),
        Err(error) => {
            section.report.error(
                error.code.at(node.span),
                error.message,
                format!("{}, or `p95`", error.help),
            );
            None
        }
    }
}

/// What the policies of a route are held against.
pub(in crate::config) struct About<'a> {
    pub(in crate::config) request: &'a RequestTemplate,
    pub(in crate::config) annotations: Option<&'a Map<String, Value>>,
    pub(in crate::config) idempotent: bool,
    pub(in crate::config) timeout: Duration,
}

/// Refuses what would do harm, and warns of what has no effect.
pub(in crate::config) fn check(section: &Section<'_, '_>, policy: &RoutePolicySettings, about: &About<'_>) {
    let report = section.report;
    let hint = about.annotations.and_then(|annotations| annotations.get("readOnlyHint"));
    let only_reads = about.request.is_safe() || hint == Some(&Value::Bool(true));
    let coalesces = section.entry("coalesce").filter(|_| policy.coalescing == Coalescing::On);
    for entry in [section.entry("cache"), coalesces].into_iter().flatten() {
        let name = &entry.key.text;
        if section.entry("async_operation").is_some() {
            let message =
                format!("`{name}` can't stand beside `async_operation`: each call begins work of its own");
            report.error(
                Code::ConflictsWithAsyncOperation.at(entry.key.span),
                message,
                format!("leave `{name}` out"),
            );
        } else if !only_reads {
            let what = about.request.describe();
            let message = format!("`{name}` is for requests that only read, and this is a {what}");
            let help =
                "write `annotations: { readOnlyHint: true }` if the tool changes nothing, else leave it out";
            report.error(Code::PolicyNeedsSafeRequest.at(entry.key.span), message, help);
        }
    }
    if let (Some(entry), None, Coalescing::Off) =
        (section.entry("coalesce"), section.entry("cache"), policy.coalescing)
    {
        let help = "leave it out: without `cache` each call asks for itself";
        report.warning(
            Code::RequiresKey.at(entry.key.span),
            "`coalesce: false` has no effect without `cache`",
            help,
        );
    }
    let Some(entry) = section.entry("hedge") else { return };
    if section.entry("async_operation").is_some() {
        let message = "`hedge` can't stand beside `async_operation`: the work would be begun twice";
        report.error(Code::ConflictsWithAsyncOperation.at(entry.key.span), message, "leave `hedge` out");
    } else if !about.idempotent {
        let message =
            format!("`hedge` sends a request twice, and this {} may not be", about.request.describe());
        let help = "write `idempotent: true` if that does no harm, else leave `hedge` out";
        report.error(Code::PolicyNeedsSafeRequest.at(entry.key.span), message, help);
    }
    if matches!(policy.hedge, Some(HedgeSettings::After(time)) if time >= about.timeout) {
        let help = "write a shorter time: about what a reply takes that is slower than most";
        report.warning(
            Code::HedgeAfterTimeout.at(entry.key.span),
            "`hedge` has no effect: `timeout` comes first",
            help,
        );
    }
}
