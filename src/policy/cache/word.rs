//! What an upstream says of how long its reply may be kept (RFC 9111).

use std::time::Duration;

use http::{HeaderMap, header};

use super::super::dates;

/// The words of one reply.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Word {
    /// It must not be kept: `no-store`, or for nobody but one (`private`, a cookie).
    pub(super) forbids: bool,
    /// It is asked about each time before it is used: `no-cache`.
    pub(super) asks_each_time: bool,
    /// It is of no use when it is old: `must-revalidate`, `proxy-revalidate`.
    pub(super) never_old: bool,
    /// How long it is good; `None` where nothing is said.
    pub(super) lasts: Option<Duration>,
    /// How much longer it is better than an error.
    pub(super) if_error: Duration,
    /// How old it was when it came.
    pub(super) age: Duration,
    /// It is one for each value of something that can't be told beforehand.
    pub(super) varies: bool,
}

/// Longer than anybody means.
const MOST: Duration = Duration::from_secs(365 * 24 * 3600);

impl Word {
    pub(super) fn of(headers: &HeaderMap) -> Self {
        let mut word = Self { forbids: headers.contains_key(header::SET_COOKIE), ..Self::default() };
        let (mut max_age, mut shared, mut is_told) = (None, None, false);
        let values = headers.get_all(header::CACHE_CONTROL).into_iter();
        let directives = values.filter_map(|value| value.to_str().ok()).flat_map(|value| value.split(','));
        for directive in directives {
            is_told = true;
            let (name, value) = directive.split_once('=').unwrap_or((directive, ""));
            match name.trim().to_ascii_lowercase().as_str() {
                "no-store" | "private" => word.forbids = true,
                "no-cache" => word.asks_each_time = true,
                "must-revalidate" | "proxy-revalidate" => word.never_old = true,
                "max-age" => max_age = Some(seconds(value)),
                "s-maxage" => (shared, word.never_old) = (Some(seconds(value)), true),
                "stale-if-error" => word.if_error = seconds(value),
                _ => {}
            }
        }
        // What was said before there was `Cache-Control`.
        let says = |name, what: &str| {
            headers.get(name).and_then(|value| value.to_str().ok()).is_some_and(|value| value.contains(what))
        };
        word.asks_each_time |= !is_told && says(header::PRAGMA, "no-cache");
        // A date that is none, such as `0`, has passed.
        let expires = || headers.get(header::EXPIRES).map(|_| dates::ahead(headers, header::EXPIRES));
        word.lasts = shared.or(max_age).or_else(|| expires().map(Option::unwrap_or_default));
        let age = headers.get(header::AGE).and_then(|value| value.to_str().ok());
        word.age = age.map(seconds).unwrap_or_default();
        word.varies = headers.get_all(header::VARY).iter().any(|value| varies(value.as_bytes()));
        word
    }
}

/// Whether `Vary` names something that is no part of a key. All that is sent is one, but for the trace.
fn varies(value: &[u8]) -> bool {
    let names = value.split(|byte| *byte == b',').map(<[u8]>::trim_ascii);
    let unknown: [&[u8]; 3] = [b"*", b"traceparent", b"tracestate"];
    names.into_iter().any(|name| unknown.iter().any(|other| name.eq_ignore_ascii_case(other)))
}

/// What can't be read is nothing.
fn seconds(text: &str) -> Duration {
    let text = text.trim().trim_matches('"');
    let is_number = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    match text.parse() {
        Ok(seconds) => Duration::from_secs(seconds).min(MOST),
        Err(_) if is_number => MOST,
        Err(_) => Duration::ZERO,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn word(lines: &[(&str, &str)]) -> Word {
        let name = |name: &str| name.parse::<http::HeaderName>().unwrap();
        Word::of(&lines.iter().map(|(key, value)| (name(key), value.parse().unwrap())).collect())
    }

    fn lasts(seconds: u64) -> Word {
        Word { lasts: Some(Duration::from_secs(seconds)), ..Word::default() }
    }

    #[test]
    fn an_upstream_says_how_long() {
        assert_eq!(word(&[]), Word::default());
        assert_eq!(word(&[("cache-control", "public, Max-Age=\"60\"")]), lasts(60));
        assert_eq!(word(&[("cache-control", "max-age=60"), ("expires", "0")]), lasts(60));
        assert_eq!(
            word(&[("cache-control", "max-age=60, s-maxage=9")]),
            Word { never_old: true, ..lasts(9) }
        );
        assert_eq!(word(&[("cache-control", "max-age=soon")]), lasts(0));
        assert_eq!(word(&[("cache-control", "max-age=99999999999999999999999")]), lasts(MOST.as_secs()));
        let dates = [("date", "Sun, 06 Nov 1994 08:49:37 GMT"), ("expires", "Sun, 06 Nov 1994 08:50:37 GMT")];
        assert_eq!(word(&dates), lasts(60));
        assert_eq!(word(&[("expires", "0")]), lasts(0));
        let aged = word(&[("cache-control", "max-age=60, stale-if-error=5"), ("age", "20")]);
        let (age, if_error) = (Duration::from_secs(20), Duration::from_secs(5));
        assert_eq!(aged, Word { age, if_error, ..lasts(60) });
    }

    #[test]
    fn an_upstream_says_not_to() {
        for line in ["no-store", "private, max-age=60", "max-age=60, private=\"x-a, x-b\""] {
            assert!(word(&[("cache-control", line)]).forbids, "{line}");
        }
        assert!(word(&[("set-cookie", "session=1")]).forbids);
        assert!(word(&[("cache-control", "no-cache")]).asks_each_time);
        assert!(word(&[("pragma", "no-cache")]).asks_each_time);
        assert!(!word(&[("pragma", "no-cache"), ("cache-control", "max-age=1")]).asks_each_time);
        assert!(word(&[("vary", "accept, *")]).varies && word(&[("vary", "TraceParent")]).varies);
        assert!(!word(&[("vary", "accept, authorization")]).varies);
    }
}
