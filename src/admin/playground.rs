//! The playground: `GET /config`, `GET /playground`, `GET /playground/ROUTE` and `POST /playground`.
//!
//! Operators edit rules and try them on upstream responses that they paste. The active configuration does not
//! change.

use std::{sync::Arc, time::Duration};

use axum::{
    Json,
    body::Body,
    extract::{Path, State, rejection::PathRejection},
};
use base64::{Engine, prelude::BASE64_STANDARD};
use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use serde::Deserialize;
use serde_json::{Map, Value, json};
use tokio::{sync::Semaphore, time::Instant};

use super::{Api, ProblemResponse, require_json};
use crate::authoring::playground::{as_upstream_response, example_arguments, explain_translation};
use crate::config::{self, CompiledRoute, Draft, Example, Importer, Loaded};
use crate::model::{ProgramEnd, ProgramExit, UpstreamResponse};
use crate::pipeline::{WorkError, run_blocking};
use crate::route::{RequestTemplate, Route};
use crate::translate::WorkBudget;

/// Maximum length of a request's body, in bytes.
pub(super) const BODY_LIMIT_BYTES: usize = 1 << 20;

/// Maximum length of a rule, in bytes.
const RULE_LIMIT_BYTES: usize = 128 << 10;

/// Maximum length of a returned result, in bytes.
const RESULT_LIMIT_BYTES: usize = 1 << 20;

/// Timeout for reading or trying a rule, including the wait for a slot.
const PLAYGROUND_TIMEOUT: Duration = Duration::from_secs(5);

/// Number of slots for trying rules, and number of slots for parsing the loaded configuration.
pub(super) const SLOTS: usize = 2;

/// Runs expensive work on a blocking thread, as soon as one of the slots is free. The timeout includes the
/// wait for the slot.
async fn run<T: Send + 'static>(
    slots: &Arc<Semaphore>,
    timeout: Duration,
    work: impl FnOnce(&WorkBudget) -> T + Send + 'static,
) -> Result<T, WorkError> {
    run_blocking(Arc::clone(slots).acquire_owned(), Instant::now() + timeout, work).await
}

pub(super) async fn configuration(State(api): State<Arc<Api>>) -> Result<Json<Value>, ProblemResponse> {
    api.read_files(|loaded| Some(loaded.importer.to_masked_json())).await
}

pub(super) async fn routes(State(api): State<Arc<Api>>) -> Json<Value> {
    let loaded = api.process.status().loaded;
    let describe =
        |compiled: &CompiledRoute| json!({ "name": compiled.name().as_str(), "tests": compiled.tests.len() });
    Json(json!({ "routes": loaded.routes.iter().map(describe).collect::<Vec<_>>() }))
}

pub(super) async fn route(
    State(api): State<Arc<Api>>,
    route: Result<Path<String>, PathRejection>,
) -> Result<Json<Value>, ProblemResponse> {
    api.read_files(move |loaded| describe_route(loaded, &route.ok()?)).await
}

pub(super) async fn try_rule(
    State(api): State<Arc<Api>>,
    headers: HeaderMap,
    body: Body,
) -> Result<Json<Value>, ProblemResponse> {
    require_json(&headers)?;
    let body = api.filter.read(&headers, "", body).await?;
    let decoded = Attempt::decode(&body).and_then(|attempt| Ok((attempt.response.decode()?, attempt)));
    let (response, attempt) =
        decoded.map_err(|error| ProblemResponse::new(StatusCode::BAD_REQUEST, &error))?;
    let loaded = api.process.status().loaded;
    let work = move |budget: &WorkBudget| attempt.run(&loaded.importer, response, budget);
    let result = run(&api.playground_slots, PLAYGROUND_TIMEOUT, work).await;
    let timeout_message =
        format!("trying the rule took longer than {PLAYGROUND_TIMEOUT:?} and was cancelled");
    let panic_message = "processing the rule panicked; please report it with the rule and the response";
    result.map(Json).map_err(|error| work_problem(error, &timeout_message, panic_message))
}

fn work_problem(error: WorkError, timeout_message: &str, panic_message: &str) -> ProblemResponse {
    match error {
        WorkError::DeadlineExceeded => ProblemResponse::new(StatusCode::SERVICE_UNAVAILABLE, timeout_message),
        WorkError::Panicked => ProblemResponse::new(StatusCode::INTERNAL_SERVER_ERROR, panic_message),
    }
}

impl Api {
    /// Responds with the value that `read` finds by parsing the loaded configuration again. A missing value
    /// is a 404.
    async fn read_files(
        &self,
        read: impl FnOnce(&Loaded) -> Option<Value> + Send + 'static,
    ) -> Result<Json<Value>, ProblemResponse> {
        let loaded = self.process.status().loaded;
        let timeout_message = "too many requests read the configuration; retry";
        let panic_message = "reading the configuration panicked; please report it";
        let found = run(&self.file_slots, PLAYGROUND_TIMEOUT, move |_| read(&loaded)).await;
        found.map_err(|error| work_problem(error, timeout_message, panic_message))?.map(Json).ok_or_else(
            || ProblemResponse::new(StatusCode::NOT_FOUND, "the configuration has no route of that name"),
        )
    }
}

/// Describes a route: its configuration as in the file, with secrets masked, and its tests.
fn describe_route(loaded: &Loaded, name: &str) -> Option<Value> {
    let compiled = loaded.routes.iter().find(|compiled| compiled.name().as_str() == name)?;
    let tests = compiled.tests.iter().enumerate().map(|(index, example)| describe_example(index, example));
    Some(json!({
        "name": name,
        "rule": loaded.importer.route_source(name)?,
        "upstream_kind": upstream_kind(&compiled.route),
        "tests": tests.collect::<Vec<_>>(),
    }))
}

/// Kind of upstream that a route calls. It determines which parts a response has.
fn upstream_kind(route: &Route) -> &'static str {
    match &route.request {
        RequestTemplate::Http(_) => "server",
        RequestTemplate::Tool(_) => "mcp_server",
        RequestTemplate::Command(_) => "program",
    }
}

fn describe_example(index: usize, example: &Example) -> Value {
    let response = &example.response;
    let mut response_json = match &response.exit {
        Some(exit) => json!({ "exit_status": exit.end.to_json(), "stderr": exit.stderr_text() }),
        None => {
            let pair = |(name, value): (&HeaderName, &HeaderValue)| {
                json!([name.as_str(), String::from_utf8_lossy(value.as_bytes())])
            };
            let headers: Vec<Value> = response.headers.iter().map(pair).collect();
            json!({ "status": response.status.as_u16(), "headers": headers })
        }
    };
    match std::str::from_utf8(&response.body) {
        Ok(text) => response_json["body"] = text.into(),
        Err(_) => response_json["body_base64"] = BASE64_STANDARD.encode(&response.body).into(),
    }
    let name = example.name.clone().unwrap_or_else(|| (index + 1).to_string());
    let (arguments, input_responses) = (&example.args, &example.input_responses);
    json!({
        "name": name,
        "arguments": arguments,
        "input_responses": input_responses,
        "response": response_json,
    })
}

/// Body of `POST /playground`: a rule, and the response to try it on.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Attempt {
    /// Name of the route; `draft` if missing.
    route: Option<String>,
    /// Configuration of the route, as text.
    rule: String,
    /// Arguments of the call; generated if missing.
    #[serde(default)]
    arguments: Map<String, Value>,
    /// Responses to the input requests of the route.
    #[serde(default)]
    input_responses: Map<String, Value>,
    #[serde(default)]
    response: GivenResponse,
}

/// The upstream response to try the rule on. The kind of upstream determines which members are used.
#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct GivenResponse {
    /// HTTP status; 200 if missing.
    status: Value,
    headers: Vec<(String, String)>,
    /// The body; for a program, its standard output.
    body: Option<String>,
    /// The body in Base64, instead of `body`.
    body_base64: Option<String>,
    /// Exit status of a program as a number, or name of the signal that ended the program; 0 if missing.
    exit_status: Value,
    /// Standard error of a program.
    stderr: String,
}

impl Attempt {
    fn decode(body: &[u8]) -> Result<Self, String> {
        let attempt: Self = serde_json::from_slice(body)
            .map_err(|error| format!("send a JSON object with `rule` and `response`: {error}"))?;
        if attempt.rule.len() > RULE_LIMIT_BYTES {
            return Err(format!(
                "`rule` may have at most {RULE_LIMIT_BYTES} bytes, found {}",
                attempt.rule.len()
            ));
        }
        Ok(attempt)
    }

    /// Compiles the rule, and translates the response with it. Ends early if `budget` is exhausted.
    fn run(
        self,
        importer: &Importer,
        (response, exit): (UpstreamResponse, ProgramExit),
        budget: &WorkBudget,
    ) -> Value {
        let name = self.route.as_deref().unwrap_or("draft");
        let Draft { route, problems } = importer.draft(name, &self.rule, budget);
        let describe = |problem: &config::Problem| {
            let mut value = json!(problem);
            value["report"] = problem.to_string().into();
            value
        };
        let mut outcome = json!({ "problems": problems.iter().map(describe).collect::<Vec<_>>() });
        let Some(compiled) = route else { return outcome };
        outcome["upstream_kind"] = upstream_kind(&compiled.route).into();
        outcome["output_schema"] = compiled.route.definition.output_schema.as_deref().cloned().into();
        let arguments = match example_arguments(&compiled.route, self.arguments) {
            Ok(arguments) => arguments,
            Err(message) => {
                outcome["arguments_problem"] = message.into();
                return outcome;
            }
        };
        let response = as_upstream_response(&compiled.route, response, exit);
        let explained =
            explain_translation(&compiled, arguments, &self.input_responses, &response, Some(budget));
        outcome["rule"] = explained.rule.into();
        outcome["steps"] = json!(explained.steps);
        outcome["notes"] = explained.notes.into();
        let bytes = explained.result.to_string().len();
        if bytes > RESULT_LIMIT_BYTES {
            outcome["result_bytes"] = bytes.into();
        } else {
            // JavaScript would show the number `5.0` as `5`, so the text is sent as well.
            let structured = explained.result.get("structuredContent");
            outcome["structured_text"] = structured.map(|structured| format!("{structured:#}")).into();
            outcome["result"] = explained.result;
        }
        outcome
    }
}

impl GivenResponse {
    /// Decodes the response of a server, and the exit status and standard error of a program.
    fn decode(&self) -> Result<(UpstreamResponse, ProgramExit), String> {
        let status = if self.status.is_null() { Some(200) } else { self.status.as_u64() };
        let status = status.filter(|status| *status < 600).and_then(|status| u16::try_from(status).ok());
        let status = status.and_then(|status| StatusCode::from_u16(status).ok());
        let status = status.ok_or("`status` takes a number from 100 to 599")?;
        let body: Bytes = match (&self.body, &self.body_base64) {
            (Some(_), Some(_)) => return Err("send `body` or `body_base64`, not both".to_owned()),
            (text, None) => text.clone().unwrap_or_default().into(),
            (None, Some(text)) => BASE64_STANDARD
                .decode(text.split_ascii_whitespace().collect::<String>())
                .map_err(|error| format!("`body_base64` is not Base64: {error}"))?
                .into(),
        };
        let end = match &self.exit_status {
            Value::Null => Ok(ProgramEnd::Code(0)),
            Value::String(text) => text.parse(),
            number => number.to_string().parse(),
        };
        let end = end.map_err(|error| format!("`exit_status`: {error}"))?;
        let exit = ProgramExit { end, stderr: self.stderr.clone().into() };
        Ok((UpstreamResponse::new(status, headers(&self.headers)?, body), exit))
    }
}

fn headers(pairs: &[(String, String)]) -> Result<HeaderMap, String> {
    let mut headers = HeaderMap::new();
    for (name, value) in pairs {
        let parsed = name.parse::<HeaderName>().ok().zip(HeaderValue::from_str(value).ok());
        let (parsed_name, value) = parsed.ok_or_else(|| {
            let excerpt: String = name.chars().take(40).collect();
            format!(
                "the header {excerpt:?} is invalid: names have letters, digits and `-`, values no line breaks"
            )
        })?;
        headers.try_append(parsed_name, value).map_err(|_| "too many headers")?;
    }
    Ok(headers)
}

#[cfg(test)]
mod tests {
    use std::sync::Barrier;

    use super::*;

    #[track_caller]
    fn check(body: &str, part: &str) {
        let decoded = Attempt::decode(body.as_bytes()).and_then(|attempt| attempt.response.decode());
        let error = decoded.unwrap_err();
        assert!(error.contains(part), "{error}");
    }

    #[test]
    fn request_errors_are_reported() {
        check("[]", "a JSON object");
        check("{}", "missing field `rule`");
        check(r#"{"rule": 5}"#, "expected a string");
        check(r#"{"rule": "", "rules": 1}"#, "unknown field `rules`");
        check(r#"{"rule": "", "response": {"status": 99}}"#, "100 to 599");
        check(r#"{"rule": "", "response": {"status": 600}}"#, "100 to 599");
        check(r#"{"rule": "", "response": {"headers": {"a": "b"}}}"#, "expected a sequence");
        check(r#"{"rule": "", "response": {"headers": [["a b", "c"]]}}"#, "is invalid");
        check(r#"{"rule": "", "response": {"headers": [["a", "b\nc"]]}}"#, "is invalid");
        check(r#"{"rule": "", "response": {"body": "", "body_base64": ""}}"#, "not both");
        check(r#"{"rule": "", "response": {"body_base64": "!"}}"#, "not Base64");
        check(r#"{"rule": "", "response": {"exit_status": "boom"}}"#, "`exit_status`");
    }

    #[test]
    fn omitted_members_have_defaults() {
        let attempt =
            Attempt::decode(br#"{"rule": "", "response": {"headers": [["A", "b"]], "exit_status": 3}}"#)
                .unwrap();
        let (response, exit) = attempt.response.decode().unwrap();
        assert_eq!((attempt.route, response.status), (None, StatusCode::OK));
        assert_eq!((response.headers["a"].as_bytes(), exit.end), (&b"b"[..], ProgramEnd::Code(3)));
    }

    // A paused clock does not advance while a thread works.
    #[tokio::test]
    async fn work_over_the_timeout_is_cancelled_and_frees_its_slot() {
        let (slots, timeout) = (Arc::new(Semaphore::new(SLOTS)), Duration::from_millis(20));
        for _ in 0..=SLOTS {
            let endless = |budget: &WorkBudget| {
                while budget.spend(1) {
                    std::thread::yield_now();
                }
            };
            assert_eq!(run(&slots, timeout, endless).await, Err(WorkError::DeadlineExceeded));
        }
        let panicked = run(&slots, PLAYGROUND_TIMEOUT, |_| panic!("on purpose")).await;
        assert_eq!(panicked, Err::<(), _>(WorkError::Panicked));
    }

    #[tokio::test]
    async fn concurrent_work_is_limited_by_the_slots() {
        let (slots, timeout) = (Arc::new(Semaphore::new(SLOTS)), Duration::from_millis(20));
        let barrier = Arc::new(Barrier::new(SLOTS + 1));
        for _ in 0..SLOTS {
            let barrier = Arc::clone(&barrier);
            let blocked_work = run(&slots, timeout, move |_| barrier.wait().is_leader());
            assert_eq!(blocked_work.await, Err(WorkError::DeadlineExceeded));
        }
        assert_eq!(run(&slots, timeout, |_| "done").await, Err(WorkError::DeadlineExceeded));
        barrier.wait();
        assert_eq!(run(&slots, PLAYGROUND_TIMEOUT, |_| "done").await, Ok("done"));
    }
}
