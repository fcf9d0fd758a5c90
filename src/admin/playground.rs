//! `GET /workbench`, `GET /workbench/ROUTE`, `POST /workbench`: rules tried out on replies.

use std::{
    fmt,
    panic::{self, AssertUnwindSafe},
    sync::Arc,
    time::Duration,
};

use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use serde_json::{Map, Value};
use tokio::{sync::Semaphore, task::spawn_blocking, time::timeout};

use crate::{reply::End, rule::Stop};

/// How long a request to try something may be, in bytes.
pub(super) const BODY_LIMIT_BYTES: usize = 1 << 20;

/// How long a rule may be, in bytes.
const RULE_LIMIT_BYTES: usize = 128 << 10;

/// How long trying may take, waiting for a place included.
pub const WORKBENCH_TIMEOUT: Duration = Duration::from_secs(5);

/// How many may try something at once.
const PLACES: usize = 2;

/// Where rules are tried: on replies that nobody sent, with nothing of it put in force, no upstream asked, no file read
/// and no variable looked up.
pub trait Workbench: fmt::Debug + Send + Sync {
    /// The whole configuration, without secrets.
    fn configuration(&self) -> Value;

    /// What routes there are to begin with.
    fn routes(&self) -> Value;

    /// One of them: what is written, without secrets, and its own examples.
    fn route(&self, name: &str) -> Option<Value>;

    /// Reads the rule and translates the reply. May take long, unless `stop` asks it to end.
    fn try_out(&self, attempt: &Attempt, stop: &Stop) -> Value;
}

/// What is tried.
#[derive(Debug, Clone)]
pub struct Attempt {
    /// The name of the route.
    pub route: String,
    /// What stands below it in the file.
    pub rule: String,
    /// The arguments of the call; made up where there are none.
    pub arguments: Map<String, Value>,
    /// The answers to the questions of the route.
    pub answers: Map<String, Value>,
    /// The reply.
    pub given: Given,
}

/// A reply that nobody sent. Which parts count depends on whom the route asks.
#[derive(Debug, Clone)]
pub struct Given {
    /// Of a server.
    pub status: StatusCode,
    /// Of a server.
    pub headers: HeaderMap,
    /// The body, or what a program wrote.
    pub body: Bytes,
    /// How a program ended.
    pub exit: Option<End>,
    /// What it wrote to standard error.
    pub stderr: Bytes,
}

/// Why nothing came of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(super) enum Untried {
    #[error("it took longer than {WORKBENCH_TIMEOUT:?} and was ended")]
    TooLong,
    #[error("something panicked that the rule is made with; please report it with the rule and the reply")]
    Panicked,
}

/// The places at the workbench. Clones are the same ones.
#[derive(Debug, Clone)]
pub(super) struct Places {
    free: Arc<Semaphore>,
    patience: Duration,
}

impl Places {
    pub(super) fn new(patience: Duration) -> Self {
        Self { free: Arc::new(Semaphore::new(PLACES)), patience }
    }

    /// Tries something out. When nobody waits any more it is asked to stop.
    pub(super) async fn try_out(
        &self,
        bench: Arc<dyn Workbench>,
        attempt: Attempt,
    ) -> Result<Value, Untried> {
        let waiting = Waiting::default();
        let stop = waiting.0.clone();
        self.work(move || bench.try_out(&attempt, &stop)).await
    }

    /// Does some work on a thread of its own. It keeps its place until it is done, whoever waits for it.
    pub(super) async fn work<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, Untried> {
        let places = Arc::clone(&self.free);
        let done = async move {
            let place = places.acquire_owned().await.expect("the semaphore is never closed");
            let work = move || {
                let told = panic::catch_unwind(AssertUnwindSafe(work));
                drop(place);
                told.map_err(|_| Untried::Panicked)
            };
            spawn_blocking(work).await.unwrap_or(Err(Untried::Panicked))
        };
        timeout(self.patience, done).await.unwrap_or(Err(Untried::TooLong))
    }
}

/// Somebody who waits; when they go, the work is asked to stop.
#[derive(Debug, Default)]
struct Waiting(Stop);

impl Drop for Waiting {
    fn drop(&mut self) {
        self.0.now();
    }
}

impl Attempt {
    /// Reads the body of a request.
    ///
    /// # Errors
    ///
    /// What is wrong with it.
    pub(super) fn decode(body: &[u8]) -> Result<Self, String> {
        let Ok(Value::Object(mut members)) = serde_json::from_slice(body) else {
            return Err("send a JSON object with `rule` and `given`".to_owned());
        };
        let known = ["route", "rule", "arguments", "answers", "given"];
        refuse_unknown(&members, &known)?;
        let route = text(&mut members, "route")?.unwrap_or_else(|| "draft".to_owned());
        let rule = text(&mut members, "rule")?
            .ok_or("`rule` is missing: what stands below the route's name, as text")?;
        if rule.len() > RULE_LIMIT_BYTES {
            return Err(format!("`rule` may have {RULE_LIMIT_BYTES} bytes, found {}", rule.len()));
        }
        let (arguments, answers) = (map(&mut members, "arguments")?, map(&mut members, "answers")?);
        let given = Given::decode(map(&mut members, "given")?)?;
        Ok(Self { route, rule, arguments, answers, given })
    }
}

impl Given {
    fn decode(mut members: Map<String, Value>) -> Result<Self, String> {
        refuse_unknown(&members, &["status", "headers", "body", "body_base64", "exit", "stderr"])?;
        let status = match members.remove("status") {
            None | Some(Value::Null) => StatusCode::OK,
            Some(status) => status
                .as_u64()
                .and_then(|status| u16::try_from(status).ok())
                .filter(|status| (100..=599).contains(status))
                .and_then(|status| StatusCode::from_u16(status).ok())
                .ok_or("`status` takes a number from 100 to 599")?,
        };
        let exit = match members.remove("exit") {
            None | Some(Value::Null) => None,
            Some(Value::String(text)) => {
                Some(text.parse::<End>().map_err(|error| format!("`exit`: {error}"))?)
            }
            Some(other) => {
                Some(other.to_string().parse::<End>().map_err(|error| format!("`exit`: {error}"))?)
            }
        };
        let headers = headers(members.remove("headers"))?;
        let stderr = text(&mut members, "stderr")?.unwrap_or_default().into();
        let body = match (text(&mut members, "body")?, text(&mut members, "body_base64")?) {
            (Some(_), Some(_)) => return Err("give `body` or `body_base64`, not both".to_owned()),
            (Some(text), None) => text.into(),
            (None, Some(text)) => {
                let text: String = text.split_ascii_whitespace().collect();
                base64::Engine::decode(&base64::prelude::BASE64_STANDARD, text)
                    .map_err(|error| format!("`body_base64` is not Base64: {error}"))?
                    .into()
            }
            (None, None) => Bytes::new(),
        };
        Ok(Self { status, headers, body, exit, stderr })
    }
}

/// Pairs of a name and a value, in their order.
fn headers(value: Option<Value>) -> Result<HeaderMap, String> {
    const FORM: &str = "`headers` takes pairs: [[\"content-type\", \"text/plain\"]]";
    let mut headers = HeaderMap::new();
    let pairs = match value {
        None | Some(Value::Null) => return Ok(headers),
        Some(Value::Array(pairs)) => pairs,
        Some(_) => return Err(FORM.to_owned()),
    };
    for pair in &pairs {
        let (Some(name), Some(value), 2) =
            (pair[0].as_str(), pair[1].as_str(), pair.as_array().map_or(0, Vec::len))
        else {
            return Err(FORM.to_owned());
        };
        let parsed = name.parse::<HeaderName>().ok().zip(HeaderValue::from_str(value).ok());
        let (name, value) = parsed.ok_or_else(|| {
            let shown: String = name.chars().take(40).collect();
            format!("the header {shown:?} can't be sent so: names have letters, digits and `-`, values no line breaks")
        })?;
        // One that has more headers than that takes no more.
        if headers.try_append(name, value).is_err() {
            return Err("these are too many headers".to_owned());
        }
    }
    Ok(headers)
}

fn refuse_unknown(members: &Map<String, Value>, known: &[&str]) -> Result<(), String> {
    match members.keys().find(|name| !known.contains(&name.as_str())) {
        None => Ok(()),
        Some(name) => {
            let shown: String = name.chars().take(40).collect();
            Err(format!("{shown:?} is not known here; known are `{}`", known.join("`, `")))
        }
    }
}

fn text(members: &mut Map<String, Value>, name: &str) -> Result<Option<String>, String> {
    match members.remove(name) {
        None | Some(Value::Null) => Ok(None),
        Some(Value::String(text)) => Ok(Some(text)),
        Some(_) => Err(format!("`{name}` takes a text")),
    }
}

fn map(members: &mut Map<String, Value>, name: &str) -> Result<Map<String, Value>, String> {
    match members.remove(name) {
        None | Some(Value::Null) => Ok(Map::new()),
        Some(Value::Object(map)) => Ok(map),
        Some(_) => Err(format!("`{name}` takes an object")),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Barrier;

    use super::*;

    #[track_caller]
    fn check(body: &str, part: &str) {
        let error = Attempt::decode(body.as_bytes()).unwrap_err();
        assert!(error.contains(part), "{error}");
    }

    #[test]
    fn what_is_wrong_with_a_request_is_said() {
        check("[]", "a JSON object");
        check("{}", "`rule` is missing");
        check(r#"{"rule": 5}"#, "`rule` takes a text");
        check(r#"{"rule": "", "rules": 1}"#, "\"rules\" is not known");
        check(r#"{"rule": "", "given": {"status": 99}}"#, "100 to 599");
        check(r#"{"rule": "", "given": {"status": 600}}"#, "100 to 599");
        check(r#"{"rule": "", "given": {"headers": {"a": "b"}}}"#, "takes pairs");
        check(r#"{"rule": "", "given": {"headers": [["a b", "c"]]}}"#, "can't be sent");
        check(r#"{"rule": "", "given": {"headers": [["a", "b\nc"]]}}"#, "can't be sent");
        check(r#"{"rule": "", "given": {"body": "", "body_base64": ""}}"#, "not both");
        check(r#"{"rule": "", "given": {"body_base64": "!"}}"#, "not Base64");
        check(r#"{"rule": "", "given": {"exit": "boom"}}"#, "`exit`");
    }

    #[test]
    fn what_is_left_out_has_a_meaning() {
        let attempt =
            Attempt::decode(br#"{"rule": "", "given": {"headers": [["A", "b"]], "exit": 3}}"#).unwrap();
        assert_eq!((&*attempt.route, attempt.given.status), ("draft", StatusCode::OK));
        assert_eq!(
            (attempt.given.headers["a"].as_bytes(), attempt.given.exit),
            (&b"b"[..], Some(End::Code(3)))
        );
    }

    #[derive(Debug)]
    struct Endless;

    impl Workbench for Endless {
        fn configuration(&self) -> Value {
            Value::Null
        }

        fn routes(&self) -> Value {
            Value::Null
        }

        fn route(&self, _: &str) -> Option<Value> {
            None
        }

        fn try_out(&self, attempt: &Attempt, stop: &Stop) -> Value {
            assert!(attempt.route != "panic", "as it was told");
            while !stop.is_asked() {
                std::thread::yield_now();
            }
            Value::Null
        }
    }

    // A clock that is paused stands still while a thread works.
    #[tokio::test]
    async fn what_takes_too_long_is_ended_and_gives_its_place_back() {
        let places = Places::new(Duration::from_millis(20));
        let attempt =
            |route: &str| Attempt { route: route.into(), ..Attempt::decode(br#"{"rule": ""}"#).unwrap() };
        for _ in 0..=PLACES {
            assert_eq!(places.try_out(Arc::new(Endless), attempt("a")).await, Err(Untried::TooLong));
        }
        let patient = Places { patience: Duration::from_secs(60), ..places };
        assert_eq!(patient.try_out(Arc::new(Endless), attempt("panic")).await, Err(Untried::Panicked));
    }

    #[tokio::test]
    async fn no_more_is_done_at_once_than_there_are_places() {
        let places = Places::new(Duration::from_millis(20));
        let together = Arc::new(Barrier::new(PLACES + 1));
        for _ in 0..PLACES {
            let together = Arc::clone(&together);
            let waits = places.work(move || together.wait().is_leader());
            assert_eq!(waits.await, Err(Untried::TooLong));
        }
        assert_eq!(places.work(|| "done").await, Err(Untried::TooLong));
        together.wait();
        let patient = Places { patience: Duration::from_secs(60), ..places };
        assert_eq!(patient.work(|| "done").await, Ok("done"));
    }
}
