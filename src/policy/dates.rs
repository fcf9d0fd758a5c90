//! What upstreams say of times, by their own clocks.

use std::time::{Duration, SystemTime};

use http::{HeaderMap, HeaderName, header};

/// How far ahead the date in one header is of the one that the reply was written at. Two dates of one clock: that it is
/// wrong does not matter. `None` where one of them is missing or no date; nothing when it has passed.
pub(super) fn ahead(headers: &HeaderMap, name: HeaderName) -> Option<Duration> {
    let written = date(headers, header::DATE)?;
    Some(date(headers, name)?.duration_since(written).unwrap_or_default())
}

fn date(headers: &HeaderMap, name: HeaderName) -> Option<SystemTime> {
    httpdate::parse_http_date(headers.get(name)?.to_str().ok()?).ok()
}
