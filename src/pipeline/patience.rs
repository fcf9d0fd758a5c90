//! How long a caller waits, where it says so.

use std::time::Duration;

use http::{HeaderMap, HeaderName};

/// Seconds, whole or not.
const REQUEST_TIMEOUT: HeaderName = HeaderName::from_static("x-request-timeout");
/// Among other preferences `wait=SECONDS` (RFC 7240, section 4.3).
const PREFER: HeaderName = HeaderName::from_static("prefer");

/// Longer than any call may take.
const LONGEST: Duration = Duration::from_secs(24 * 3600);

/// How long the caller with these headers waits; `None` where it does not say.
///
/// # Errors
///
/// A sentence for the caller, when it says so in a way that can't be read. A preference may be passed over, and is then.
pub(super) fn of(headers: &HeaderMap) -> Result<Option<Duration>, String> {
    let preferred = headers.get_all(PREFER).iter().filter_map(|value| value.to_str().ok());
    let preferred = preferred.flat_map(|value| value.split(',')).find_map(wait);
    let mut written = headers.get_all(REQUEST_TIMEOUT).iter();
    let timeout = match (written.next(), written.next()) {
        (None, _) => None,
        (Some(value), None) => Some(value.to_str().ok().and_then(seconds).ok_or_else(unread)?),
        (Some(_), Some(_)) => return Err(unread()),
    };
    Ok(match (preferred, timeout) {
        (Some(one), Some(other)) => Some(one.min(other)),
        (one, other) => one.or(other),
    })
}

fn unread() -> String {
    format!("the header `{REQUEST_TIMEOUT}` takes one number of seconds, such as `2.5`")
}

/// `wait=10` of one preference, parameters aside.
fn wait(preference: &str) -> Option<Duration> {
    let (name, value) = preference.split(';').next()?.split_once('=')?;
    let value = value.trim().trim_matches('"');
    if name.trim().eq_ignore_ascii_case("wait") { value.parse().ok().map(Duration::from_secs) } else { None }
}

fn seconds(text: &str) -> Option<Duration> {
    let seconds: f64 = text.trim().parse().ok()?;
    (seconds > 0.0).then(|| Duration::try_from_secs_f64(seconds).map_or(LONGEST, |time| time.min(LONGEST)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(pairs: &[(HeaderName, &str)], expected: Result<Option<u64>, ()>) {
        let headers: HeaderMap =
            pairs.iter().map(|(name, value)| (name.clone(), value.parse().unwrap())).collect();
        let found = of(&headers).map(|found| found.map(|time| u64::try_from(time.as_millis()).unwrap()));
        assert_eq!(found.map_err(|_| ()), expected, "{pairs:?}");
    }

    #[test]
    fn a_caller_may_say_how_long_it_waits() {
        check(&[], Ok(None));
        check(&[(REQUEST_TIMEOUT, "2.5")], Ok(Some(2_500)));
        check(&[(REQUEST_TIMEOUT, " 3 ")], Ok(Some(3_000)));
        check(&[(REQUEST_TIMEOUT, "1e300")], Ok(Some(86_400_000)));
        check(&[(PREFER, "respond-async, Wait=\"10\"; x=1")], Ok(Some(10_000)));
        check(&[(PREFER, "wait=10"), (REQUEST_TIMEOUT, "4")], Ok(Some(4_000)));
    }

    #[test]
    fn a_time_that_can_not_be_read_is_refused_and_a_preference_passed_over() {
        for wrong in ["", "soon", "-1", "0", "NaN", "5s", "1,2"] {
            check(&[(REQUEST_TIMEOUT, wrong)], Err(()));
        }
        for wrong in ["wait", "wait=soon", "wait=-1", "waits=3"] {
            check(&[(PREFER, wrong)], Ok(None));
        }
    }
}
