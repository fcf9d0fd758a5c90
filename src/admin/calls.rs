//! `GET /failures`: the last calls that failed.

use std::time::{Duration, UNIX_EPOCH};

use serde_json::{Map, Value, json};

use crate::observe::{Decided, Failure, Failures};

/// How many are told where nothing is said.
const LIMIT_DEFAULT: usize = 100;

/// Which are wanted.
#[derive(Debug, Default)]
pub(super) struct Wanted {
    route: Option<String>,
    request_id: Option<String>,
    limit: Option<usize>,
}

impl Wanted {
    /// Reads a query: `route`, `request_id` and `limit`.
    ///
    /// # Errors
    ///
    /// What is wrong with it.
    pub(super) fn of(query: &str) -> Result<Self, String> {
        let mut wanted = Self::default();
        for (name, value) in query.split('&').filter(|part| !part.is_empty()).map(pair) {
            match &*name {
                "route" => wanted.route = Some(value),
                "request_id" => wanted.request_id = Some(value),
                "limit" => {
                    let limit = value.parse().map_err(|_| {
                        format!(
                            "`limit` takes a number, found {:?}",
                            value.chars().take(40).collect::<String>()
                        )
                    })?;
                    wanted.limit = Some(limit);
                }
                _ => return Err("known parameters are `route`, `request_id` and `limit`".to_owned()),
            }
        }
        Ok(wanted)
    }

    fn is_met_by(&self, failure: &Failure) -> bool {
        self.route.as_ref().is_none_or(|route| **route == *failure.tool)
            && self.request_id.as_ref().is_none_or(|id| id == failure.request_id.as_str())
    }
}

/// A part of a query (WHATWG URL, `application/x-www-form-urlencoded` parsing).
fn pair(part: &str) -> (String, String) {
    let (name, value) = part.split_once('=').unwrap_or((part, ""));
    let decode = |text: &str| {
        let text = text.replace('+', " ");
        percent_encoding::percent_decode_str(&text).decode_utf8_lossy().into_owned()
    };
    (decode(name), decode(value))
}

/// Those that are wanted, the newest first.
pub(super) fn of(failures: &Failures, wanted: &Wanted) -> Value {
    let (last, all) =
        failures.last(wanted.limit.unwrap_or(LIMIT_DEFAULT), |failure| wanted.is_met_by(failure));
    json!({ "failures": last.iter().map(told).collect::<Vec<_>>(), "since_start": all })
}

fn told(failure: &Failure) -> Value {
    let mut members = Map::new();
    let at = failure.at.duration_since(UNIX_EPOCH).unwrap_or_default();
    members.insert("at".into(), milliseconds(at).into());
    members.insert("route".into(), (*failure.tool).into());
    members.insert("upstream".into(), (*failure.upstream).into());
    members.insert("face".into(), failure.face.into());
    members.insert("request_id".into(), failure.request_id.as_str().into());
    members.insert("outcome".into(), failure.outcome.into());
    if !failure.fault.is_empty() {
        members.insert("fault".into(), failure.fault.into());
    }
    if let Some(status) = failure.upstream_status {
        members.insert("upstream_status".into(), status.into());
    }
    match failure.decided {
        None => {}
        Some(Decided::Rule(index)) => drop(members.insert("rule".into(), (index + 1).into())),
        Some(Decided::Default) => drop(members.insert("rule".into(), "default".into())),
    }
    let reason = failure.reason.as_deref().unwrap_or_else(|| in_words(failure));
    members.insert("reason".into(), reason.into());
    let took = (failure.took.as_secs_f64() * 100_000.0).round() / 100.0;
    members.insert("duration_ms".into(), took.into());
    members.into()
}

/// What a fault means, where the log says no more.
fn in_words(failure: &Failure) -> &'static str {
    match failure.fault {
        "" => "the caller left before there was a result",
        "arguments" => "the arguments do not fit the route",
        "unanswered" => "a question to the client got no answer",
        "upstream" => "the upstream answered with an error",
        "reported" => "a rule found an error in the reply",
        "unreadable" => "the reply could not be read, or breaks the output schema",
        "unreachable" => "there was no usable reply",
        "deadline" => "there was no reply in time",
        "busy" => "the upstream has as many calls as it may, or is left alone for a while",
        "too_often" => "it is called more often than it may be",
        _ => "it failed",
    }
}

fn milliseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_query_says_which_are_wanted() {
        let wanted = Wanted::of("route=get_a&request_id=a%2Bb+c&limit=5").unwrap();
        assert_eq!((wanted.route.as_deref(), wanted.limit), (Some("get_a"), Some(5)));
        assert_eq!(wanted.request_id.as_deref(), Some("a+b c"));
        assert!(Wanted::of("").is_ok());
        assert!(Wanted::of("limit=many").unwrap_err().contains("many"));
        assert!(Wanted::of("rote=a").unwrap_err().contains("`route`"));
    }
}
