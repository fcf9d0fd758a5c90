//! Tests of asynchronous operations: interpretation of responses, and requests for their status or to cancel
//! them.

use bytes::Bytes;
use http::HeaderValue;
use serde_json::json;

use super::*;
use crate::route::PathTemplate;
use crate::translate::{OnNoMatch, TranslationLimits, WrapNonObjects};

const SECOND: Duration = Duration::from_secs(1);

fn by_location() -> AsyncOperationRule {
    AsyncOperationRule {
        location: OperationLocationRule::Location,
        extract: None,
        done: None,
        failed: None,
        cancelled: None,
        task: TaskRule::default(),
        result: None,
        cancel: None,
        poll_interval: SECOND,
        progress: None,
        total: None,
        message: None,
        base: Uri::from_static("http://old.test:81/api/"),
    }
}

fn named() -> AsyncOperationRule {
    let jq = |source| Some(Jq::compile(source, &[]).unwrap());
    let value = |source| Some(Matcher { value: jq(source), ..Matcher::default() });
    let path = PathTemplate::parse("/jobs/{job}").unwrap();
    let status = Box::new(HttpTemplate { path, ..HttpTemplate::default() });
    AsyncOperationRule {
        location: OperationLocationRule::Id { id: Jq::compile(".id", &[]).unwrap(), status },
        done: value(r#".state == "done""#),
        failed: value(r#".state == "failed""#),
        cancelled: value(r#".state == "stopped""#),
        progress: jq(".percent"),
        total: jq("100"),
        message: jq(".doing"),
        ..by_location()
    }
}

fn response(status: u16, headers: &[(&str, &str)], body: &str) -> UpstreamResponse {
    let headers = headers.iter().map(|(name, value)| {
        (name.parse::<http::HeaderName>().unwrap(), HeaderValue::from_str(value).unwrap())
    });
    let (status, body) = (StatusCode::from_u16(status).unwrap(), Bytes::copy_from_slice(body.as_bytes()));
    UpstreamResponse::new(status, headers.collect(), body)
}

fn operation(location: OperationLocation, wait: Duration) -> InitialResponse {
    InitialResponse::Operation(RunningOperation { status: OperationStatus::default(), location, wait })
}

fn first_request() -> HttpRequest {
    let request = HttpRequest::get(PathBase::UpstreamUrl, PathAndQuery::from_static("/reports"));
    HttpRequest { method: Method::POST, ..request }
}

fn with_context<T>(run: impl FnOnce(CallInput<'_>, &Translator) -> T) -> T {
    let (tool, args) = ("make_report".parse().unwrap(), json!({}));
    let translator = Translator {
        rules: Vec::new(),
        on_no_match: OnNoMatch::default(),
        output: None,
        wrap: WrapNonObjects::default(),
        redaction: Redaction::default(),
        limits: TranslationLimits::default(),
        has_effect: false,
    };
    run(CallInput::new(&tool, &args), &translator)
}

#[track_caller]
fn check_initial(rule: &AsyncOperationRule, response: &UpstreamResponse, expected: InitialResponse) {
    let request = first_request();
    let found =
        with_context(|input, translator| rule.interpret_initial(&request, input, translator, response));
    assert_eq!(found, expected);
}

#[track_caller]
fn check_turn(
    rule: &AsyncOperationRule,
    location: &OperationLocation,
    response: &UpstreamResponse,
    expected: StatusResponse,
) {
    let request = first_request();
    let found = with_context(|input, translator| {
        rule.interpret_status(location, &request, input, translator, response)
    });
    assert_eq!(found, expected);
}

fn path(text: &str) -> OperationLocation {
    OperationLocation::Path(text.parse().unwrap())
}

fn name(text: &str) -> OperationLocation {
    OperationLocation::Id(text.to_owned())
}

#[test]
fn a_202_with_a_location_starts_an_operation() {
    let rule = by_location();
    for (location, expected) in [
        ("/jobs/7", "/jobs/7"),
        ("jobs/7?verbose", "/api/jobs/7?verbose"),
        ("http://OLD.test:81/jobs/7", "/jobs/7"),
    ] {
        let response = response(202, &[("location", location)], "");
        check_initial(&rule, &response, operation(path(expected), SECOND));
    }
    let patient = response(202, &[("location", "/jobs/7"), ("retry-after", "5")], "");
    check_initial(&rule, &patient, operation(path("/jobs/7"), 5 * SECOND));
}

#[test]
fn other_responses_are_the_result() {
    for response in [
        response(200, &[("location", "/jobs/7")], ""),
        response(202, &[], "queued"),
        response(404, &[("location", "/jobs/7")], ""),
    ] {
        check_initial(&by_location(), &response, InitialResponse::Result);
    }
    for response in [
        response(200, &[], r#"{"rows": 1}"#),
        response(200, &[], r#"{"id": null}"#),
        response(200, &[], r#"{"id": [1]}"#),
        response(200, &[], r#"{"id": ""}"#),
        response(200, &[], "no json"),
        response(500, &[], r#"{"id": 7}"#),
    ] {
        check_initial(&named(), &response, InitialResponse::Result);
    }
}

#[test]
fn an_operation_at_another_server_is_not_polled() {
    for location in
        ["http://evil.test/", "//evil.test/jobs", "https://old.test:81/", "file:///etc/passwd", ""]
    {
        let expected = match location {
            // The URL that was polled, which is on the same server.
            "" => operation(path("/api/reports"), SECOND),
            _ => InitialResponse::Elsewhere,
        };
        check_initial(&by_location(), &response(202, &[("location", location)], ""), expected);
        if !location.is_empty() {
            check_turn(
                &by_location(),
                &path("/j"),
                &response(303, &[("location", location)], ""),
                StatusResponse::Result,
            );
        }
    }
}

#[test]
fn an_operation_runs_while_its_status_is_202() {
    let (rule, location) = (by_location(), path("/jobs/7"));
    let running = |location, wait| {
        StatusResponse::Running(RunningOperation { status: OperationStatus::default(), location, wait })
    };
    check_turn(&rule, &location, &response(202, &[], ""), running(location.clone(), SECOND));
    let moved = response(202, &[("location", "/jobs/8"), ("retry-after", "0")], "");
    check_turn(&rule, &location, &moved, running(path("/jobs/8"), SECOND));
    let busy = response(503, &[("retry-after", "3")], "");
    check_turn(&rule, &location, &busy, running(location.clone(), 3 * SECOND));
    check_turn(&rule, &location, &response(200, &[], "the report"), StatusResponse::Done);
    check_turn(
        &rule,
        &location,
        &response(303, &[("location", "/r/7")], ""),
        StatusResponse::Moved(path("/r/7")),
    );
    check_turn(&rule, &location, &response(503, &[], ""), StatusResponse::Result);
    check_turn(&rule, &location, &response(404, &[], ""), StatusResponse::Result);
}

#[test]
fn an_operation_with_an_id_reports_its_progress() {
    let rule = named();
    let interpret_initial = response(200, &[], r#"{"id": 7}"#);
    check_initial(&rule, &interpret_initial, operation(name("7"), SECOND));
    let running =
        |status| StatusResponse::Running(RunningOperation { status, location: name("7"), wait: SECOND });
    let at = |progress, message: Option<&str>| OperationStatus {
        progress,
        total: Some(100.0),
        message: message.map(str::to_owned),
    };
    let body = r#"{"state": "running", "percent": 40, "doing": "counting"}"#;
    check_turn(&rule, &name("7"), &response(200, &[], body), running(at(Some(40.0), Some("counting"))));
    let body = r#"{"state": "running", "percent": "40 %"}"#;
    check_turn(&rule, &name("7"), &response(200, &[], body), running(at(Some(40.0), None)));
    let body = r#"{"state": "running", "percent": "some", "doing": ["x"]}"#;
    check_turn(&rule, &name("7"), &response(200, &[], body), running(at(None, None)));
    check_turn(&rule, &name("7"), &response(200, &[], r#"{"state": "done"}"#), StatusResponse::Done);
    let body = r#"{"state": "failed", "doing": "no paper"}"#;
    check_turn(
        &rule,
        &name("7"),
        &response(200, &[], body),
        StatusResponse::Failed(at(None, Some("no paper"))),
    );
    check_turn(&rule, &name("7"), &response(200, &[], r#"{"state": "stopped"}"#), StatusResponse::Cancelled);
    check_turn(&rule, &name("7"), &response(410, &[], "{}"), StatusResponse::Result);
}

#[test]
fn the_id_of_an_operation_stays_in_its_path_segment() {
    let rule = named();
    let request = rule
        .request(OperationRequest::Status, &name("6/7?x"), &Arguments::default(), &HeaderMap::new(), None)
        .unwrap();
    assert_eq!((request.path_and_query.as_str(), request.under), ("/jobs/6%2F7%3Fx", PathBase::UpstreamUrl));
    for out in ["..", "../7", "7\0"] {
        rule.request(OperationRequest::Status, &name(out), &Arguments::default(), &HeaderMap::new(), None)
            .unwrap_err();
    }
}

#[test]
fn an_operation_is_cancelled_at_its_status_url_or_by_a_configured_request() {
    let (arguments, headers) = (Arguments::default(), HeaderMap::new());
    let ended = |rule: &AsyncOperationRule, location: &OperationLocation| {
        rule.cancel.as_ref()?;
        let request = rule.request(OperationRequest::Cancellation, location, &arguments, &headers, None);
        request.ok().map(|request| format!("{} {}", request.method, request.path_and_query))
    };
    assert_eq!(ended(&by_location(), &path("/jobs/7")), None);
    let rule = AsyncOperationRule { cancel: Some(CancelRule::Method(Method::DELETE)), ..by_location() };
    assert_eq!(ended(&rule, &path("/jobs/7")).as_deref(), Some("DELETE /jobs/7"));
    let path = PathTemplate::parse("/jobs/{job}/stop").unwrap();
    let request = HttpTemplate { method: Method::POST, path, ..HttpTemplate::default() };
    let rule = AsyncOperationRule { cancel: Some(CancelRule::Request(request)), ..named() };
    assert_eq!(ended(&rule, &name("7")).as_deref(), Some("POST /jobs/7/stop"));
}

#[test]
fn a_location_is_serialized_as_text() {
    for location in [path("/jobs/7?x=1"), name("7"), name("=/"), name("")] {
        assert_eq!(OperationLocation::from_text(&location.to_string()), Some(location));
    }
    assert_eq!(OperationLocation::from_text("no path"), None);
    assert!(name(&"7".repeat(2047)).is_short() && !name(&"7".repeat(2048)).is_short());
}
