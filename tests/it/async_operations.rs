//! Asynchronous operations: polled to their end, timed out, and cancelled when the client leaves.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use glossator::config::{self, Sources};

use crate::support::{Gate, Loaded, ReceivedRequest, Response, Scripted, Step, response};

/// Starts the program in front of an upstream, with one tool `make_report` that has these keys.
async fn start(upstream: &Scripted, keys: &str) -> Loaded {
    let keys: String = keys.trim().lines().map(|line| format!("    {}\n", line.trim_end())).collect();
    let file = format!(
        "upstreams: {{ old: 'http://{}/api' }}\nroutes:\n  make_report:\n    description: A report.\n{keys}",
        upstream.address
    );
    let loaded = config::load(&Sources::from_text("jobs.yaml", &file));
    Loaded::start(&loaded.unwrap_or_else(|problems| panic!("{problems}"))).await
}

async fn call(program: &Loaded, arguments: &str) -> Response {
    let mut client = program.connect().await;
    client.send("POST /tools/make_report", &["Content-Type: application/json"], arguments).await
}

fn json(body: &str) -> Vec<Step> {
    vec![Step::Send(response("200 OK", "application/json", body))]
}

fn head(lines: &str) -> Vec<Step> {
    vec![Step::Send(format!("HTTP/1.1 {lines}\r\nContent-Length: 0\r\n\r\n").into())]
}

fn lines(upstream: &Scripted) -> Vec<String> {
    let requests = upstream.state().requests;
    requests.iter().map(|request| request.line().trim_end_matches(" HTTP/1.1").to_owned()).collect()
}

/// Script by the number of the request.
fn in_turn(
    script: impl Fn(usize, &ReceivedRequest) -> Vec<Step> + Send + Sync + 'static,
) -> impl Fn(&ReceivedRequest) -> Vec<Step> + Send + Sync + 'static {
    let count = Arc::new(AtomicUsize::new(0));
    move |request| script(count.fetch_add(1, Ordering::SeqCst), request)
}

#[tokio::test]
async fn accepted_work_is_followed_to_its_end() {
    let upstream = Scripted::start(in_turn(|turn, _| match turn {
        0 => head("202 Accepted\r\nLocation: ../jobs/7"),
        1 => head("202 Accepted"),
        2 => head("202 Accepted\r\nLocation: /jobs/7/late"),
        3 => head("303 See Other\r\nLocation: http://localhost/elsewhere\r\nLocation: /never"),
        _ => json(r#"{"rows": 12}"#),
    }))
    .await;
    let keys = "request: POST old/reports/new\nasync_operation:\n  poll_interval: 20ms";
    let response = call(&start(&upstream, keys).await, "{}").await;
    // The redirect leads to another server, so that response is the result, as without an asynchronous
    // operation.
    assert_eq!(response.status, 502, "{}", response.text());
    let expected = ["POST /api/reports/new", "GET /api/jobs/7", "GET /api/jobs/7", "GET /jobs/7/late"];
    assert_eq!(lines(&upstream), expected);
}

#[tokio::test]
async fn the_result_may_be_at_another_url() {
    let upstream = Scripted::start(in_turn(|turn, _| match turn {
        0 => head("202 Accepted\r\nLocation: /jobs/7"),
        1 => head("303 See Other\r\nLocation: /results/7"),
        _ => json(r#"{"rows": 12}"#),
    }))
    .await;
    let keys = "request: POST old/reports\nasync_operation: { poll_interval: 20ms }";
    let response = call(&start(&upstream, keys).await, "{}").await;
    assert_eq!(response.status, 200, "{}", response.text());
    assert_eq!(response.json()["structuredContent"]["rows"], 12);
    assert_eq!(lines(&upstream), ["POST /api/reports", "GET /jobs/7", "GET /results/7"]);
}

#[tokio::test]
async fn without_an_operation_the_first_response_is_the_result() {
    let upstream = Scripted::start(|_| head("202 Accepted\r\nLocation: /jobs/7")).await;
    let response = call(&start(&upstream, "request: POST old/reports").await, "{}").await;
    assert_eq!((response.status, lines(&upstream).len()), (200, 1));
}

const NAMED: &str = r#"
request: POST old/reports/{year}
async_operation:
  id: .id
  status: GET old/jobs/{job}
  done: .state == "done"
  failed: .state == "failed"
  result: GET old/jobs/{job}/report?year={year}
  cancel: DELETE
  message: .why
  poll_interval: 20ms
"#;

#[tokio::test]
async fn an_operation_with_an_id_is_polled_by_it() {
    let upstream = Scripted::start(in_turn(|turn, _| match turn {
        0 => json(r#"{"id": "a/7"}"#),
        1 => json(r#"{"state": "running"}"#),
        2 => json(r#"{"state": "done"}"#),
        _ => json(r#"{"rows": 12}"#),
    }))
    .await;
    let response = call(&start(&upstream, NAMED).await, r#"{"year": "2026"}"#).await;
    assert_eq!(response.json()["structuredContent"]["rows"], 12, "{}", response.text());
    let expected = [
        "POST /api/reports/2026",
        "GET /api/jobs/a%2F7",
        "GET /api/jobs/a%2F7",
        "GET /api/jobs/a%2F7/report?year=2026",
    ];
    assert_eq!(lines(&upstream), expected);
}

#[tokio::test]
async fn a_failed_operation_is_a_tool_error_for_any_status() {
    let upstream = Scripted::start(in_turn(|turn, _| match turn {
        0 => json(r#"{"id": 7}"#),
        _ => json(r#"{"state": "failed", "why": "no paper in 10.0.0.7:631"}"#),
    }))
    .await;
    let response = call(&start(&upstream, NAMED).await, r#"{"year": "2026"}"#).await;
    assert_eq!(response.status, 422, "{}", response.text());
    let text = response.tool_text();
    assert!(text.contains("it failed: no paper") && !text.contains("10.0.0.7"), "{text}");
}

#[tokio::test]
async fn an_operation_at_another_host_is_not_polled() {
    let other = Scripted::start(|_| json("{}")).await;
    let location = format!("202 Accepted\r\nLocation: http://{}/jobs/7", other.address);
    let upstream = Scripted::start(move |_| head(&location)).await;
    let response =
        call(&start(&upstream, "request: POST old/reports\nasync_operation: follow_location").await, "{}")
            .await;
    assert!(response.tool_text().contains("another server"), "{}", response.text());
    assert_eq!((response.json()["isError"].as_bool(), other.state().connections), (Some(true), 0));
}

#[tokio::test]
async fn an_operation_over_the_timeout_is_cancelled() {
    let upstream = Scripted::start(in_turn(|turn, _| match turn {
        0 => json(r#"{"id": 7}"#),
        _ => json(r#"{"state": "running"}"#),
    }))
    .await;
    let keys = format!("timeout: 300ms\n{}", NAMED.trim());
    let response = call(&start(&upstream, &keys).await, r#"{"year": "2026"}"#).await;
    assert_eq!(response.status, 504, "{}", response.text());
    let text = response.tool_text();
    assert!(
        text.contains("started the operation") && text.contains("Its cancellation was requested"),
        "{text}"
    );
    let ended = |request: &ReceivedRequest| request.line().starts_with("DELETE /api/jobs/7 ");
    upstream.until("the job is ended", |state| state.requests.iter().any(ended)).await;
}

#[tokio::test]
async fn a_disconnected_client_cancels_its_operation() {
    let upstream = Scripted::start(in_turn(|turn, request| match turn {
        0 => json(r#"{"id": 7}"#),
        1 => vec![Step::Hold(Gate::new())],
        _ if request.line().starts_with("DELETE") => head("204 No Content"),
        _ => panic!("asked after its client had left: {}", request.line()),
    }))
    .await;
    let program = start(&upstream, NAMED).await;
    let mut client = program.connect().await;
    client
        .write("POST /tools/make_report HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 15\r\n\r\n{\"year\":\"2026\"}")
        .await;
    upstream.until("the job is asked about", |state| state.requests.len() == 2).await;
    drop(client);
    let ended = |request: &ReceivedRequest| request.line().starts_with("DELETE /api/jobs/7 ");
    upstream.until("the job is ended", |state| state.requests.iter().any(ended)).await;
}

#[tokio::test]
async fn the_error_about_a_lost_operation_warns_against_repeating() {
    let upstream = Scripted::start(in_turn(|turn, _| match turn {
        0 => head("202 Accepted\r\nLocation: /jobs/7\r\nConnection: close"),
        _ => vec![Step::Close],
    }))
    .await;
    let keys = "request: POST old/reports\nasync_operation: { poll_interval: 20ms }";
    let response = call(&start(&upstream, keys).await, "{}").await;
    assert_eq!(response.status, 502, "{}", response.text());
    assert!(response.tool_text().contains("check before you retry"), "{}", response.tool_text());
}
