//! Times and sizes as people write them.

use std::time::Duration;

/// `per minute`, `in 10 s`.
pub(super) fn in_a(per: Duration) -> String {
    match per.as_millis() {
        1_000 => "per second".to_owned(),
        60_000 => "per minute".to_owned(),
        3_600_000 => "per hour".to_owned(),
        86_400_000 => "per day".to_owned(),
        _ => format!("in {}", time(per)),
    }
}

/// Rounded up: who comes back a moment too early is turned away again.
pub(super) fn whole_seconds(duration: Duration) -> Duration {
    Duration::from_secs(duration.as_secs() + u64::from(duration.subsec_nanos() > 0))
}

/// A time as people write it: `200 ms`, `1.5 s`.
pub(super) fn time(duration: Duration) -> String {
    if duration < Duration::from_secs(1) {
        format!("{} ms", duration.as_millis())
    } else {
        format!("{} s", (duration.as_secs_f64() * 10.0).round() / 10.0)
    }
}

/// A size as people write it: `512 bytes`, `10 MiB`.
pub(super) fn size(bytes: usize) -> String {
    let whole = |unit: usize| bytes >= unit && bytes.is_multiple_of(unit);
    if whole(1 << 20) {
        format!("{} MiB", bytes >> 20)
    } else if whole(1 << 10) {
        format!("{} KiB", bytes >> 10)
    } else {
        format!("{bytes} bytes")
    }
}
