//! Tests of asynchronous operations: interpretation of responses, and requests for their status or to cancel
//! them.

use bytes::Bytes;
use http::HeaderValue;
use serde_json::json;

use super::*;
use crate::route::PathTemplate;
use crate::translate::{OnNoMatch, TranslationLimits, WrapNonObjects};

const SECOND: Duration = Duration::from_secs(1);

fn rule_with_location() -> AsyncOperationRule {
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

fn rule_with_id() -> AsyncOperationRule {
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
        ..rule_with_location()
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
fn check_status(
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

fn id(text: &str) -> OperationLocation {
    OperationLocation::Id(text.to_owned())
}

#[test]
fn a_202_with_a_location_starts_an_operation() {
    let rule = rule_with_location();
    for (location, expected) in [
        ("/jobs/7", "/jobs/7"),
        ("jobs/7?verbose", "/api/jobs/7?verbose"),
        ("http://OLD.test:81/jobs/7", "/jobs/7"),
    ] {
        let response = response(202, &[("location", location)], "");
        check_initial(&rule, &response, operation(path(expected), SECOND));
    }
    let delayed = response(202, &[("location", "/jobs/7"), ("retry-after", "5")], "");
    check_initial(&rule, &delayed, operation(path("/jobs/7"), 5 * SECOND));
}

#[test]
fn other_responses_are_the_result() {
    for response in [
        response(200, &[("location", "/jobs/7")], ""),
        response(202, &[], "queued"),
        response(404, &[("location", "/jobs/7")], ""),
    ] {
        check_initial(&rule_with_location(), &response, InitialResponse::Result);
    }
    for response in [
        response(200, &[], r#"{"rows": 1}"#),
        response(200, &[], r#"{"id": null}"#),
        response(200, &[], r#"{"id": [1]}"#),
        response(200, &[], r#"{"id": ""}"#),
        response(200, &[], "no json"),
        response(500, &[], r#"{"id": 7}"#),
    ] {
        check_initial(&rule_with_id(), &response, InitialResponse::Result);
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
        check_initial(&rule_with_location(), &response(202, &[("location", location)], ""), expected);
        if !location.is_empty() {
            check_status(
                &rule_with_location(),
                &path("/j"),
                &response(303, &[("location", location)], ""),
                StatusResponse::Result,
            );
        }
    }
}

#[test]
fn an_operation_runs_while_its_status_is_202() {
    let (rule, location) = (rule_with_location(), path("/jobs/7"));
    let running = |location, wait| {
        StatusResponse::Running(RunningOperation { status: OperationStatus::default(), location, wait })
    };
    check_status(&rule, &location, &response(202, &[], ""), running(location.clone(), SECOND));
    let moved = response(202, &[("location", "/jobs/8"), ("retry-after", "0")], "");
    check_status(&rule, &location, &moved, running(path("/jobs/8"), SECOND));
    let busy = response(503, &[("retry-after", "3")], "");
    check_status(&rule, &location, &busy, running(location.clone(), 3 * SECOND));
    check_status(&rule, &location, &response(200, &[], "the report"), StatusResponse::Done);
    check_status(
        &rule,
        &location,
        &response(303, &[("location", "/r/7")], ""),
        StatusResponse::Moved(path("/r/7")),
    );
    check_status(&rule, &location, &response(503, &[], ""), StatusResponse::Result);
    check_status(&rule, &location, &response(404, &[], ""), StatusResponse::Result);
}

#[test]
fn an_operation_with_an_id_reports_its_progress() {
    let rule = rule_with_id();
    let first_response = response(200, &[], r#"{"id": 7}"#);
    check_initial(&rule, &first_response, operation(id("7"), SECOND));
    let running =
        |status| StatusResponse::Running(RunningOperation { status, location: id("7"), wait: SECOND });
    let status = |progress, message: Option<&str>| OperationStatus {
        progress,
        total: Some(100.0),
        message: message.map(str::to_owned),
    };
    let body = r#"{"state": "running", "percent": 40, "doing": "counting"}"#;
    check_status(&rule, &id("7"), &response(200, &[], body), running(status(Some(40.0), Some("counting"))));
    let body = r#"{"state": "running", "percent": "40 %"}"#;
    check_status(&rule, &id("7"), &response(200, &[], body), running(status(Some(40.0), None)));
    let body = r#"{"state": "running", "percent": "some", "doing": ["x"]}"#;
    check_status(&rule, &id("7"), &response(200, &[], body), running(status(None, None)));
    check_status(&rule, &id("7"), &response(200, &[], r#"{"state": "done"}"#), StatusResponse::Done);
    let body = r#"{"state": "failed", "doing": "no paper"}"#;
    check_status(
        &rule,
        &id("7"),
        &response(200, &[], body),
        StatusResponse::Failed(status(None, Some("no paper"))),
    );
    check_status(&rule, &id("7"), &response(200, &[], r#"{"state": "stopped"}"#), StatusResponse::Cancelled);
    check_status(&rule, &id("7"), &response(410, &[], "{}"), StatusResponse::Result);
}

#[test]
fn the_id_of_an_operation_stays_in_its_path_segment() {
    let rule = rule_with_id();
    let request = rule
        .request(OperationRequest::Status, &id("6/7?x"), &Arguments::default(), &HeaderMap::new(), None)
        .unwrap();
    assert_eq!((request.path_and_query.as_str(), request.base), ("/jobs/6%2F7%3Fx", PathBase::UpstreamUrl));
    for invalid_id in ["..", "../7", "7\0"] {
        rule.request(
            OperationRequest::Status,
            &id(invalid_id),
            &Arguments::default(),
            &HeaderMap::new(),
            None,
        )
        .unwrap_err();
    }
}

#[test]
fn an_operation_is_cancelled_at_its_status_url_or_by_a_configured_request() {
    let (arguments, headers) = (Arguments::default(), HeaderMap::new());
    let cancellation = |rule: &AsyncOperationRule, location: &OperationLocation| {
        rule.cancel.as_ref()?;
        let request = rule.request(OperationRequest::Cancellation, location, &arguments, &headers, None);
        request.ok().map(|request| format!("{} {}", request.method, request.path_and_query))
    };
    assert_eq!(cancellation(&rule_with_location(), &path("/jobs/7")), None);
    let rule =
        AsyncOperationRule { cancel: Some(CancelRule::Method(Method::DELETE)), ..rule_with_location() };
    assert_eq!(cancellation(&rule, &path("/jobs/7")).as_deref(), Some("DELETE /jobs/7"));
    let path = PathTemplate::parse("/jobs/{job}/stop").unwrap();
    let request = HttpTemplate { method: Method::POST, path, ..HttpTemplate::default() };
    let rule = AsyncOperationRule { cancel: Some(CancelRule::Request(request)), ..rule_with_id() };
    assert_eq!(cancellation(&rule, &id("7")).as_deref(), Some("POST /jobs/7/stop"));
}

#[test]
fn a_location_is_serialized_as_text() {
    for location in [path("/jobs/7?x=1"), id("7"), id("=/"), id("")] {
        assert_eq!(OperationLocation::from_text(&location.to_string()), Some(location));
    }
    assert_eq!(OperationLocation::from_text("no path"), None);
    assert!(id(&"7".repeat(2047)).is_short() && !id(&"7".repeat(2048)).is_short());
}
