//! Notifications before the result: progress and log messages, in legacy and modern revisions.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use glossator::config::{self, Sources};
use serde_json::{Value, json};

use super::NEWEST;
use crate::support::{Loaded, ReceivedRequest, Response, Scripted, Step, response};

const OLD: &str = "2025-11-25";

/// Starts the program in front of an upstream, with one tool `make_report` that has these keys.
async fn start(upstream: &Scripted, keys: &str) -> Loaded {
    let keys: String = keys.trim().lines().map(|line| format!("    {}\n", line.trim_end())).collect();
    let file = format!(
        "upstreams: {{ old: 'http://{}' }}\nroutes:\n  make_report:\n    description: A report.\n{keys}",
        upstream.address
    );
    let loaded = config::load(&Sources::from_text("telling.yaml", &file));
    Loaded::start(&loaded.unwrap_or_else(|problems| panic!("{problems}"))).await
}

fn in_turn(
    script: impl Fn(usize) -> Vec<Step> + Send + Sync + 'static,
) -> impl Fn(&ReceivedRequest) -> Vec<Step> + Send + Sync {
    let count = Arc::new(AtomicUsize::new(0));
    move |_| script(count.fetch_add(1, Ordering::SeqCst))
}

fn json_response(body: &str) -> Vec<Step> {
    vec![Step::Send(response("200 OK", "application/json", body))]
}

/// Sends a message of either kind of revision.
async fn post(
    program: &Loaded,
    revision: &str,
    session: Option<&str>,
    method: &str,
    mut params: Value,
) -> Response {
    let mut headers = vec![
        "Content-Type: application/json".to_owned(),
        "Accept: application/json, text/event-stream".to_owned(),
        format!("MCP-Protocol-Version: {revision}"),
    ];
    if revision == NEWEST {
        params["_meta"]["io.modelcontextprotocol/protocolVersion"] = NEWEST.into();
        params["_meta"]["io.modelcontextprotocol/clientCapabilities"] = json!({});
        headers.push(format!("Mcp-Method: {method}"));
        headers.extend(params["name"].as_str().map(|name| format!("Mcp-Name: {name}")));
    }
    headers.extend(session.map(|session| format!("Mcp-Session-Id: {session}")));
    let headers: Vec<&str> = headers.iter().map(String::as_str).collect();
    let body = json!({ "jsonrpc": "2.0", "id": 7, "method": method, "params": params }).to_string();
    program.connect().await.send("POST /mcp", &headers, &body).await
}

async fn session(program: &Loaded) -> String {
    let params =
        json!({ "protocolVersion": OLD, "capabilities": {}, "clientInfo": { "name": "t", "version": "1" } });
    post(program, OLD, None, "initialize", params).await.header("mcp-session-id").unwrap()
}

/// Messages of a response, the result last.
#[track_caller]
fn messages(response: &Response) -> Vec<Value> {
    match response.header("content-type").as_deref() {
        Some("application/json") => vec![response.json()],
        Some("text/event-stream") => {
            let data = response.text().lines().filter_map(|line| line.strip_prefix("data: "));
            // The first event of a stream only has an id.
            let data = data.filter(|data| !data.is_empty());
            data.map(|data| serde_json::from_str(data).unwrap()).collect()
        }
        other => panic!("{other:?}: {}", response.text()),
    }
}

fn with_method<'a>(messages: &'a [Value], method: &str) -> Vec<&'a Value> {
    messages.iter().filter(|message| message["method"] == method).map(|message| &message["params"]).collect()
}

const OPERATION: &str = r#"
request: POST old/reports
async_operation:
  id: .id
  status: GET old/jobs/{job}
  done: .state == "done"
  progress: .percent
  total: "100"
  message: .doing
  poll_interval: 50ms
"#;

#[tokio::test]
async fn an_operation_reports_progress_on_request() {
    for revision in [OLD, NEWEST] {
        let upstream = Scripted::start(in_turn(|turn| {
            json_response(match turn {
                0 => r#"{"id": 7}"#,
                1 => r#"{"state": "running", "percent": 0}"#,
                2 => r#"{"state": "running", "percent": 50, "doing": "counting"}"#,
                3 => r#"{"state": "running", "percent": 40}"#,
                _ => r#"{"state": "done", "rows": 12}"#,
            })
        }))
        .await;
        let program = start(&upstream, OPERATION).await;
        let params = json!({ "name": "make_report", "_meta": { "progressToken": 12345678901234567890_u64 } });
        let found = messages(&post(&program, revision, None, "tools/call", params).await);
        let token = 12345678901234567890_u64;
        let expected = [
            json!({ "progressToken": token, "progress": 0, "total": 100 }),
            json!({ "progressToken": token, "progress": 50, "total": 100, "message": "counting" }),
            json!({ "progressToken": token, "progress": 100, "total": 100 }),
        ];
        assert_eq!(
            with_method(&found, "notifications/progress"),
            expected.iter().collect::<Vec<_>>(),
            "{found:?}"
        );
        let result = found.last().unwrap();
        assert_eq!((&result["id"], &result["result"]["structuredContent"]["rows"]), (&json!(7), &json!(12)));
    }
}

#[tokio::test]
async fn without_a_request_for_progress_only_the_result_is_sent() {
    for revision in [OLD, NEWEST] {
        let upstream = Scripted::start(in_turn(|turn| {
            json_response(if turn == 0 { r#"{"id": 7}"# } else { r#"{"state": "done"}"# })
        }))
        .await;
        let keys = format!("{}\nnotifications: [{{ level: emergency, text: fire }}]", OPERATION.trim());
        let response = post(
            &start(&upstream, &keys).await,
            revision,
            None,
            "tools/call",
            json!({ "name": "make_report" }),
        )
        .await;
        assert_eq!(
            response.header("content-type").as_deref(),
            Some("application/json"),
            "{}",
            response.text()
        );
    }
}

#[tokio::test]
async fn a_long_response_reports_its_progress() {
    let upstream = Scripted::start(|_| {
        let head = "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 1000000000\r\n\r\n";
        vec![Step::Send(head.into()), Step::Endlessly(b"one line of many\n".to_vec())]
    })
    .await;
    let program = start(&upstream, "request: GET old/report\nresponse_limit: 1GiB").await;
    let body = json!({ "jsonrpc": "2.0", "id": 7, "method": "tools/call",
        "params": { "name": "make_report", "_meta": { "progressToken": "t" } } });
    let body = body.to_string();
    let mut client = program.connect().await;
    client
        .write(format!(
            "POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n\
             Accept: application/json, text/event-stream\r\nContent-Length: {}\r\n\r\n{body}",
            body.len()
        ))
        .await;
    let received = client.read_until("\"total\":1000000000").await;
    assert!(
        received.contains("\"progressToken\":\"t\"") && received.contains("bytes of the response"),
        "{received}"
    );
    drop(client);
    upstream.until("the upstream is left", |state| state.closed_connections == 1).await;
}

const LINES: &str = r#"
request: GET old/report/{city}
redact: ['hush\w*']
notifications:
  - text: "asking for {{ args.city }}"
  - { level: warning, text: "answered with {{ status }}" }
response: { content: done }
"#;

#[tokio::test]
async fn lines_go_to_the_request_that_names_a_level() {
    let upstream = Scripted::answering(response("200 OK", "application/json", "{}")).await;
    let program = start(&upstream, LINES).await;
    for (level, expected) in [
        (
            "debug",
            vec![
                "info: asking for [redacted]",
                "warning: answered with 200",
                "debug: rule 1 of the route matches",
            ],
        ),
        ("info", vec!["info: asking for [redacted]", "warning: answered with 200"]),
        ("warning", vec!["warning: answered with 200"]),
        ("error", vec![]),
    ] {
        let meta = json!({ "io.modelcontextprotocol/logLevel": level });
        let params = json!({ "name": "make_report", "arguments": { "city": "hushville" }, "_meta": meta });
        let found = messages(&post(&program, NEWEST, None, "tools/call", params).await);
        let messages: Vec<String> = with_method(&found, "notifications/message")
            .iter()
            .map(|message| {
                assert_eq!(message["logger"], "make_report");
                format!("{}: {}", message["level"].as_str().unwrap(), message["data"].as_str().unwrap())
            })
            .collect();
        assert_eq!(messages, expected, "{level}");
    }
    let meta = json!({ "io.modelcontextprotocol/logLevel": "loud" });
    let wrong = post(
        &program,
        NEWEST,
        None,
        "tools/call",
        json!({ "name": "make_report", "arguments": { "city": "x" }, "_meta": meta }),
    )
    .await;
    assert_eq!(
        (wrong.status, wrong.json()["error"]["code"].as_i64()),
        (400, Some(-32602)),
        "{}",
        wrong.text()
    );
}

#[tokio::test]
async fn lines_go_to_the_session_that_has_set_a_level() {
    let upstream = Scripted::answering(response("200 OK", "application/json", "{}")).await;
    let program = start(&upstream, LINES).await;
    let (listening, deaf) = (session(&program).await, session(&program).await);
    let set = post(&program, OLD, Some(&listening), "logging/setLevel", json!({ "level": "info" })).await;
    assert_eq!(set.json()["result"], json!({}));
    let wrong = post(&program, OLD, Some(&listening), "logging/setLevel", json!({ "level": 3 })).await;
    assert_eq!(wrong.json()["error"]["code"], -32602);
    let anonymous = post(&program, OLD, None, "logging/setLevel", json!({ "level": "debug" })).await;
    assert_eq!(anonymous.json()["result"], json!({}), "taken, and nobody's");
    let params = json!({ "name": "make_report", "arguments": { "city": "Oslo" } });
    for (session, count) in [(Some(listening.as_str()), 2), (Some(deaf.as_str()), 0), (None, 0)] {
        let found = messages(&post(&program, OLD, session, "tools/call", params.clone()).await);
        assert_eq!(with_method(&found, "notifications/message").len(), count, "{found:?}");
    }
    let gone = post(&program, NEWEST, None, "logging/setLevel", json!({ "level": "info" })).await;
    assert_eq!((gone.status, gone.json()["error"]["code"].as_i64()), (404, Some(-32601)), "{}", gone.text());
}
