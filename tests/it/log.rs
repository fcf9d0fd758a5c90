//! The log, as an operator reads it.

use std::sync::atomic::{AtomicUsize, Ordering};

use glossator::auth::ApiKeyHash;
use serde_json::{Value, json};

use crate::{
    admin::admin_client,
    support::{Client, Gate, Program, Scripted, Step, response, soon},
    tokens::{ISSUER, Login, RESOURCE, claims},
};

fn config(upstream: &Scripted) -> String {
    format!(
        "upstreams: {{ old: 'http://{}' }}\nserver: {{ listen: '127.0.0.1:0' }}\n\
         routes: {{ get_thing: {{ request: GET old/thing, response: {{ extract: json }} }} }}\n",
        upstream.address
    )
}

fn with<'a>(log: &'a [Value], key: &str, value: &str) -> Vec<&'a Value> {
    log.iter().filter(|line| line[key] == value).collect()
}

#[tokio::test]
async fn an_unparseable_response_logs_its_reason_and_not_its_body() {
    let upstream = Scripted::answering(response("200 OK", "application/json", "not json, a secret")).await;
    let program = Program::start(&config(&upstream), &[]).await;
    let response = program.connect().await.send("POST /tools/get_thing", &["X-Request-Id: mine"], "").await;
    assert_eq!(response.status, 502);
    let log = program.log().await;
    let reasons = with(&log, "message", "unparseable upstream response");
    assert!(!reasons.is_empty(), "{log:?}");
    for line in reasons {
        assert_eq!(
            (&line["level"], &line["route"], &line["request_id"]),
            (&"WARN".into(), &"get_thing".into(), &"mine".into())
        );
    }
    assert!(log.iter().all(|line| !line.to_string().contains("a secret")), "{log:?}");
}

#[tokio::test]
async fn a_template_of_an_error_that_fails_is_logged_without_values() {
    let upstream =
        Scripted::answering(response("404 Not Found", "application/json", r#"{"why": "a secret"}"#)).await;
    let rule =
        "response: [{ when: { status: 404 }, error: 'No: {{ json.why | round }}' }, { extract: json }]";
    let config = config(&upstream).replace("response: { extract: json }", rule);
    let program = Program::start(&config, &[]).await;
    program.connect().await.send("POST /tools/get_thing", &["X-Request-Id: mine"], "").await;
    let log = program.log().await;
    let failed = with(&log, "message", "template rendering failed");
    assert_eq!(failed.len(), 1, "{log:?}");
    let line = failed[0];
    assert_eq!((&line["level"], &line["route"]), (&"WARN".into(), &"get_thing".into()));
    assert_eq!(line["request_id"], "mine");
    let error = line["error"].as_str().unwrap();
    assert!(error.starts_with("the template of `error`: it failed to render: invalid operation"), "{error}");
    assert!(error.ends_with(", at line 1 of the template"), "{error}");
    assert!(log.iter().all(|line| !line.to_string().contains("a secret")), "{log:?}");
}

#[tokio::test]
async fn a_response_that_is_too_long_or_not_http_is_unparseable() {
    let long = response("200 OK", "text/plain", &"x".repeat(2000));
    for upstream_sends in [long, b"hello\r\n".to_vec()] {
        let upstream = Scripted::answering(upstream_sends).await;
        let config = config(&upstream).replace("response:", "response_limit: 1KiB, response:");
        let program = Program::start(&config, &[]).await;
        let response = program.connect().await.send("POST /tools/get_thing", &[], "").await;
        assert_eq!(response.status, 502);
        let log = program.log().await;
        let calls = with(&log, "error_type", "unparseable_response");
        assert_eq!(calls.len(), 1, "{log:?}");
        assert_eq!((&calls[0]["route"], &calls[0]["outcome"]), (&"get_thing".into(), &"error".into()));
    }
}

#[tokio::test]
async fn a_rejected_request_has_one_line() {
    let upstream = Scripted::answering(response("200 OK", "application/json", "{}")).await;
    let program = Program::start(&config(&upstream), &[]).await;
    let mcp = "Accept: application/json, text/event-stream";
    for (id, line, header, body, status) in [
        ("json", "POST /tools/get_thing", "Content-Type: application/json", "{", 400),
        ("type", "POST /tools/get_thing", "Content-Type: text/plain", "x", 415),
        ("tool", "POST /tools/nothing", "Content-Type: application/json", "{}", 404),
        ("path", "GET /nothing%0Ahere", "X: y", "", 404),
        ("hosts", "GET /tools", "Host: evil.example.com", "", 400),
        ("mcp-json", "POST /mcp", mcp, "{", 400),
        ("mcp-type", "POST /mcp", "Content-Type: text/plain", "x", 415),
    ] {
        let id_header = format!("X-Request-Id: {id}");
        let mut headers = vec![header, &id_header];
        if id == "mcp-json" {
            headers.push("Content-Type: application/json");
        }
        let response = program.connect().await.send(line, &headers, body).await;
        assert_eq!(response.status, status, "{id}");
    }
    let log = program.log().await;
    for id in ["json", "type", "tool", "path", "hosts", "mcp-json", "mcp-type"] {
        let lines = with(&log, "request_id", id);
        assert_eq!(lines.len(), 1, "{id}: {log:?}");
        assert_eq!(lines[0]["message"], "request rejected", "{id}");
        assert_eq!(lines[0]["client"], "127.0.0.1", "{id}");
        let (method, path, reason) = match id {
            "json" => ("POST", "/tools/get_thing", "invalid JSON"),
            "type" => ("POST", "/tools/get_thing", "media type of the body"),
            "tool" => ("POST", "/tools/nothing", "unknown tool"),
            "path" => ("GET", "/nothing%0Ahere", "unknown path"),
            "hosts" => ("GET", "/tools", "more than one host"),
            "mcp-json" => ("POST", "/mcp", "invalid JSON"),
            _ => ("POST", "/mcp", "media type of the body"),
        };
        let found = ["method", "path", "reason"].map(|key| lines[0][key].as_str().unwrap_or_default());
        assert_eq!(found, [method, path, reason], "{id}");
    }
}

#[tokio::test]
async fn redacted_text_is_in_the_debug_log() {
    let upstream = Scripted::answering(response("200 OK", "text/plain", "ERR table orders is locked")).await;
    let rules = "[{ when: { text: '^ERR' }, error: The operation failed. }, { extract: text }]";
    let config = |level: &str| {
        format!(
            "{}\nlog: {{ level: {level}, format: json }}\n",
            config(&upstream).replace("{ extract: json }", rules)
        )
    };
    for (level, shown) in [("debug", true), ("info", false)] {
        let program = Program::start(&config(level), &[]).await;
        let response = program.connect().await.send("POST /tools/get_thing", &[], "").await;
        assert!(!response.text().contains("locked"), "{}", response.text());
        let log = program.log().await;
        assert_eq!(log.iter().any(|line| line.to_string().contains("orders is locked")), shown, "{log:?}");
    }
}

/// Responses that fail in different ways, and the log at each level.
const MISFITS: [(&str, &str, &str, &str); 12] = [
    (
        "field",
        "response: { extract: { pairs: {}, fields: { age: integer } } }",
        "age: patient Ada",
        "field `age` must be an integer; found text of 11 bytes",
    ),
    (
        "other",
        "response: { extract: { pairs: {}, fields: { age: { type: integer, optional: true }, '*': integer } } }",
        "patient Ada: x",
        "another field, with a name of 11 bytes must be an integer; found text of 1 bytes",
    ),
    (
        "json",
        "response: { extract: json }",
        "patient Ada",
        "json: invalid JSON: expected value at line 1, column 1",
    ),
    (
        "schema",
        "output: { properties: { age: { type: integer } } }",
        "{\"age\": \"patient Ada\"}",
        "at `/properties/age/type` of the schema: must be an integer; found a string of 11 bytes",
    ),
    (
        "member",
        "output: { properties: { age: { type: integer } }, additionalProperties: false }",
        "{\"patient Ada\": 1}",
        "must have no other properties; found an object",
    ),
    ("filter", "response: { structured: '.age + 1' }", "{\"age\": \"patient Ada\"}", "`structured` "),
    (
        "template",
        "response: { content: '{{ json.age | round }}' }",
        "{\"age\": \"patient Ada\"}",
        "a template of the rule failed to render",
    ),
    (
        "capture",
        "response: { extract: { grok: '%{GREEDYDATA:age:int}' } }",
        "patient Ada",
        "line 1: `age` must be an integer; found text of 11 bytes",
    ),
    (
        "metric",
        "response: { extract: metrics }",
        "ada Ada",
        "line 1: expected a value, found text of 3 bytes",
    ),
    (
        "columns",
        "response: { extract: csv }",
        "Ada,Ada\n1,2\n",
        "line 1: expected names of columns that differ, found text of 3 bytes twice",
    ),
    (
        "markup",
        "response: { extract: xml }",
        "patient Ada",
        "line 1, column 1: expected an XML document, found text of 11 bytes",
    ),
    ("pairs", "response: { extract: pairs }", "patient Ada", "expected lines of `key: value`, found none"),
];

#[tokio::test]
async fn values_of_requests_and_responses_are_in_the_log_at_debug_only_and_never_long() {
    for level in ["info", "debug"] {
        let mut upstreams = Vec::new();
        let mut text = format!(
            "server: {{ listen: '127.0.0.1:0' }}\nadmin: {{ listen: '127.0.0.1:0' }}\n\
             log: {{ level: {level}, format: json }}\n\
             defaults: {{ redact: ['\\d{{16}}'] }}\nupstreams:\n  \
             shell: {{ command: [/bin/sh, -c, 'echo \"$1, card 4000123412341234\" >&2; exit 3', sh] }}\n"
        );
        let mut routes = String::from("routes:\n  shell: { request: 'RUN shell {name}' }\n");
        for (name, rule, body, _) in MISFITS {
            let media_type =
                if body.starts_with('{') || name == "json" { "application/json" } else { "text/plain" };
            let upstream = Scripted::answering(response("200 OK", media_type, body)).await;
            text += &format!("  {name}: 'http://{}'\n", upstream.address);
            routes += &format!("  {name}: {{ request: GET {name}/x, {rule} }}\n");
            upstreams.push(upstream);
        }
        let mut program = Program::start(&(text + &routes), &[]).await;
        let long = format!("patient Ada{}", "x".repeat(2000));
        let arguments = json!({ "name": long }).to_string();
        let mut client = program.connect().await;
        let headers = ["Content-Type: application/json", "X-Request-Id: shell"];
        assert_eq!(client.send("POST /tools/shell", &headers, &arguments).await.status, 502);
        for (name, ..) in MISFITS {
            let id = format!("X-Request-Id: {name}");
            let response = client.send(&format!("POST /tools/{name}"), &[&id], "").await;
            assert_eq!(response.status, 502, "{name}: {}", response.text());
        }
        let admin: Value =
            serde_json::from_str(&program.wait_for_log("admin API listening", 1).await).unwrap();
        let admin = admin["address"].as_str().unwrap().parse().unwrap();
        let failures = Client::connect(admin).await.send("GET /failures", &[], "").await;
        assert!(failures.text().contains("must be an integer"), "{}", failures.text());
        assert!(!failures.text().contains("Ada"), "{}", failures.text());
        let log = program.log().await;
        for (name, _, _, plain) in MISFITS {
            let lines = with(&log, "request_id", name);
            let warned = |line: &&&Value| line["level"] == "WARN";
            let note = |line: &&Value| line["note"].as_str().unwrap_or_default().to_owned();
            let notes: Vec<_> = lines.iter().filter(warned).map(note).collect();
            assert!(notes.iter().any(|note| note.contains(plain)), "{name}: {notes:?}");
            for line in lines.iter().filter(warned) {
                assert!(line["response_bytes"].is_u64() && line["media_type"].is_string(), "{line}");
            }
            let shown = lines.iter().any(|line| line.to_string().contains("Ada"));
            assert_eq!(shown, level == "debug", "{name}: {lines:?}");
        }
        // Warnings about the file at start have no target.
        for line in log.iter().filter(|line| line["target"].is_string()) {
            let text = line.to_string();
            assert!(level == "debug" || !text.contains("Ada"), "{text}");
            assert!(line["level"] == "DEBUG" || !text.contains("Ada"), "{text}");
            let values = line.as_object().unwrap().values();
            assert!(values.filter_map(Value::as_str).all(|value| value.len() <= 260), "{text}");
            assert!(!text.contains("4000123412341234"), "{text}");
        }
        let failed = with(&log, "message", "command failed");
        assert_eq!(failed[0]["stderr_bytes"], 2035, "{failed:?}");
    }
}

#[tokio::test]
async fn a_call_has_one_line_with_its_cost() {
    let upstream = Scripted::answering(response("200 OK", "application/json", "{\"a\": 1}")).await;
    let program = Program::start(&config(&upstream), &[]).await;
    let mut client = program.connect().await;
    client.send("POST /tools/get_thing", &["X-Request-Id: rest"], "").await;
    let call = r#"{"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "get_thing"}}"#;
    let headers = [
        "X-Request-Id: mcp",
        "Content-Type: application/json",
        "Accept: application/json, text/event-stream",
        "MCP-Protocol-Version: 2025-06-18",
    ];
    assert_eq!(client.send("POST /mcp", &headers, call).await.status, 200);
    let log = program.log().await;
    let calls = with(&log, "message", "call");
    assert_eq!(calls.len(), 2, "{log:?}");
    for (line, (id, api)) in calls.into_iter().zip([("rest", "rest"), ("mcp", "mcp")]) {
        for (key, expected) in [
            ("route", Value::from("get_thing")),
            ("outcome", "success".into()),
            ("rule", "1".into()),
            ("upstream_status", 200.into()),
            ("attempts", 1.into()),
            ("response_bytes", 8.into()),
            ("request_id", id.into()),
            ("client", "127.0.0.1".into()),
            ("api", api.into()),
        ] {
            assert_eq!(line[key], expected, "{key} of {line}");
        }
        assert!(line["duration_ms"].as_u64() >= line["upstream_ms"].as_u64(), "{line}");
        assert_eq!(line["mcp_version"].as_str(), (id == "mcp").then_some("2025-06-18"), "{line}");
    }
}

#[tokio::test]
async fn the_time_in_the_queue_is_not_that_of_the_upstream() {
    let (upstream, gate) = Scripted::holding(response("200 OK", "application/json", "{}")).await;
    let text = format!(
        "upstreams: {{ old: {{ url: 'http://{}', max_in_flight: 1 }} }}\n\
         server: {{ listen: '127.0.0.1:0' }}\nadmin: {{ listen: '127.0.0.1:0' }}\n\
         routes: {{ get_thing: {{ request: GET old/thing }} }}\n",
        upstream.address
    );
    let mut program = Program::start(&text, &[]).await;
    let mut admin = admin_client(&mut program).await;
    let (mut first, mut second) = (program.connect().await, program.connect().await);
    let head =
        |id: &str| format!("POST /tools/get_thing HTTP/1.1\r\nHost: localhost\r\nX-Request-Id: {id}\r\n\r\n");
    first.write(head("first")).await;
    upstream.until("the first call is in flight", |state| state.requests.len() == 1).await;
    second.write(head("second")).await;
    soon("the second call is queued", async {
        while admin.send("GET /upstreams", &[], "").await.json()["upstreams"][0]["queued"] != 1 {}
    })
    .await;
    tokio::time::sleep(std::time::Duration::from_millis(200)).await;
    gate.open();
    assert_eq!((first.read(false).await.status, second.read(false).await.status), (200, 200));
    let log = program.log().await;
    let call = with(&log, "request_id", "second")[0];
    let (whole, upstream) = (call["duration_ms"].as_u64().unwrap(), call["upstream_ms"].as_u64().unwrap());
    assert!(whole - upstream >= 190, "{call}");
    assert_eq!(call["attempts"], 1, "{call}");
}

#[tokio::test]
async fn a_stale_response_is_no_response_of_the_upstream() {
    let count = AtomicUsize::new(0);
    let upstream = Scripted::start(move |_| match count.fetch_add(1, Ordering::SeqCst) {
        0 => vec![Step::Send(response("200 OK", "text/plain", "well"))],
        1 => vec![Step::Send(response("503 Service Unavailable", "text/plain", "down"))],
        _ => vec![Step::Close],
    })
    .await;
    let text = format!(
        "upstreams: {{ old: {{ url: 'http://{}', retry: off }} }}\nserver: {{ listen: '127.0.0.1:0' }}\n\
         routes: {{ a: {{ request: GET old/a, cache: {{ ttl: 1ms, stale_if_error: 1h }} }} }}\n",
        upstream.address
    );
    let program = Program::start(&text, &[]).await;
    let mut client = program.connect().await;
    for id in ["fresh", "failed", "cut-off"] {
        let id = format!("X-Request-Id: {id}");
        assert_eq!(client.send("POST /tools/a", &[&id], "").await.tool_text(), "well");
        // Longer than the response is fresh.
        tokio::time::sleep(std::time::Duration::from_millis(5)).await;
    }
    let log = program.log().await;
    for (id, status, is_stale) in
        [("fresh", 200.into(), false), ("failed", 503.into(), true), ("cut-off", Value::Null, true)]
    {
        let of_call = with(&log, "request_id", id);
        let has_failed = of_call.iter().any(|line| line["message"] == "upstream request failed");
        assert_eq!(has_failed, id == "cut-off", "{of_call:?}");
        let call = of_call.into_iter().find(|line| line["message"] == "call").unwrap();
        assert_eq!(
            (&call["upstream_status"], call["response_age_s"].is_u64()),
            (&status, is_stale),
            "{call}"
        );
        assert_eq!(call["outcome"], "success", "{call}");
    }
}

#[tokio::test]
async fn a_call_that_a_restart_backoff_rejects_has_no_attempt() {
    let text = "server: { listen: '127.0.0.1:0' }\n\
                upstreams: { none: { mcp: { command: [/no/such/program] } } }\n\
                routes: { other: { request: CALL none/x } }\n";
    let program = Program::start(text, &[]).await;
    let mut client = program.connect().await;
    soon("a rejected call", async {
        while client.send("POST /tools/other", &["X-Request-Id: mine"], "").await.status != 503 {}
    })
    .await;
    let log = program.log().await;
    let call = with(&log, "rejected_by", "restart backoff")[0];
    assert_eq!((&call["attempts"], &call["upstream_ms"]), (&0.into(), &Value::Null), "{call}");
}

#[tokio::test]
async fn a_log_line_names_the_client_and_no_credential() {
    const KEY: &str = "glk_robot-robot-robot-robot-robot-robot";
    let upstream = Scripted::answering(response("200 OK", "application/json", "{}")).await;
    let clients = format!(
        "clients: {{ robot: {{ api_key_hashes: '{}' }} }}\nlog: {{ level: debug }}\n",
        ApiKeyHash::from_key(KEY)
    );
    let program = Program::start(&format!("{}{clients}", config(&upstream)), &[]).await;
    let mut client = program.connect().await;
    let (bearer, key) = (format!("Authorization: Bearer {KEY}"), format!("X-API-Key: {KEY}"));
    let mistaken = format!("Authorization: Bearer {KEY}x");
    for (id, header, status) in [("bearer", &bearer, 200), ("key", &key, 200), ("mistaken", &mistaken, 401)] {
        let headers = [header, &*format!("X-Request-Id: {id}")];
        assert_eq!(client.send("POST /tools/get_thing", &headers, "").await.status, status);
    }
    let call = r#"{"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "get_thing"}}"#;
    let headers = [
        "X-Request-Id: mcp",
        "Content-Type: application/json",
        "Accept: application/json, text/event-stream",
        "MCP-Protocol-Version: 2025-11-25",
        &bearer,
    ];
    assert_eq!(client.send("POST /mcp", &headers, call).await.status, 200);
    program.terminate();
    let (_, output) = program.ended().await;
    assert!(!output.contains("glk_"), "{output}");
    let log: Vec<Value> = output.lines().filter_map(|line| serde_json::from_str(line).ok()).collect();
    let calls = with(&log, "message", "call");
    let ids: Vec<&Value> = calls.iter().map(|line| &line["request_id"]).collect();
    assert_eq!(ids, ["bearer", "key", "mcp"], "{output}");
    assert!(calls.iter().all(|line| line["client_name"] == "robot"), "{output}");
    assert!(calls.iter().all(|line| line["client"] == "127.0.0.1"), "{output}");
    let rejected = with(&log, "message", "request rejected");
    assert_eq!((rejected.len(), &rejected[0]["request_id"]), (1, &"mistaken".into()), "{output}");
}

#[tokio::test]
async fn every_log_line_of_a_call_has_its_request_id() {
    let config = "server: { listen: '127.0.0.1:0' }\n\
         upstreams:\n  gone: { url: 'http://127.0.0.1:1', retry: { max_attempts: 2, initial_backoff: 1ms }, circuit_breaker: { consecutive_failures: 2 } }\n  \
         slow: { command: [/bin/sh, -c, 'echo I am stuck >&2; sleep 60'] }\n  \
         pair: { url: ['http://127.0.0.1:1', 'http://127.0.0.1:2'], outlier_detection: { consecutive_failures: 1 }, retry: off }\n  \
         locked: { url: 'http://127.0.0.1:1', credentials: { oauth: { token_url: 'http://127.0.0.1:1/t', client_id: me, client_secret: s } } }\n\
         routes:\n  a: { request: GET gone/a }\n  b: { request: RUN slow, timeout: 300ms }\n  c: { request: GET pair/c }\n  \
         d: { request: GET locked/d }\nlog: { level: debug }\n";
    let program = Program::start(config, &[]).await;
    let mut client = program.connect().await;
    client.send("POST /tools/a", &["X-Request-Id: first"], "").await;
    client.send("POST /tools/b", &["X-Request-Id: second"], "").await;
    client.send("POST /tools/c", &["X-Request-Id: third"], "").await;
    client.send("POST /tools/d", &["X-Request-Id: fourth"], "").await;
    let log = program.log().await;
    for (message, id) in [
        ("retrying upstream request", "first"),
        ("circuit breaker opened", "first"),
        ("upstream request failed", "first"),
        ("command killed before it finished", "second"),
        ("endpoint ejected", "third"),
        ("access token request failed", "fourth"),
    ] {
        let lines = with(&log, "message", message);
        assert!(!lines.is_empty(), "no `{message}` in {log:?}");
        assert!(lines.iter().any(|line| line["request_id"] == id), "{lines:?}");
    }
    let position = |message: &str| log.iter().position(|line| line["message"] == message).unwrap();
    assert!(position("retrying upstream request") < position("upstream request failed"));
    let call = with(&log, "request_id", "first").into_iter().find(|line| line["message"] == "call").unwrap();
    assert_eq!(call["attempts"], 2, "{call}");
}

#[tokio::test]
async fn a_call_rejected_by_a_limit_has_one_line_that_names_it() {
    let upstream = Scripted::answering(response("200 OK", "application/json", "{}")).await;
    let text = config(&upstream).replace("request:", "rate_limit: 1 per hour, request:");
    let program = Program::start(&text, &[]).await;
    for (id, status) in [("good", 200), ("over", 429)] {
        let id = format!("X-Request-Id: {id}");
        assert_eq!(program.connect().await.send("POST /tools/get_thing", &[&id], "").await.status, status);
    }
    let log = program.log().await;
    let lines = with(&log, "request_id", "over");
    assert_eq!(lines.len(), 1, "{lines:?}");
    assert_eq!(
        (&lines[0]["message"], &lines[0]["rejected_by"]),
        (&"call".into(), &"rate_limit of the route".into())
    );
}

#[tokio::test]
async fn a_request_without_a_clear_end_has_one_line() {
    let upstream = Scripted::answering(response("200 OK", "application/json", "{}")).await;
    let program = Program::start(&config(&upstream), &[]).await;
    let mut client = program.connect().await;
    client
        .write(
            "POST /tools/get_thing HTTP/1.1\r\nHost: localhost\r\nX-Request-Id: mine\r\n\
             Transfer-Encoding: chunked, chunked\r\n\r\n0\r\n\r\n",
        )
        .await;
    let response = client.read(false).await;
    assert_eq!((response.status, response.header("x-request-id").as_deref()), (400, Some("mine")));
    check_rejected(&program.log().await, "mine", "/tools/get_thing", "more than one `chunked`");
}

#[tokio::test]
async fn a_request_that_the_end_of_the_server_cuts_off_has_its_client_and_path() {
    let (upstream, _gate) = Scripted::holding(response("200 OK", "application/json", "{}")).await;
    let text = config(&upstream).replace("server: {", "server: { shutdown_timeout: 20ms,");
    let program = Program::start(&format!("{text}passthrough: old\n"), &[]).await;
    let (mut called, mut passed) = (program.connect().await, program.connect().await);
    let head = "Host: localhost\r\nContent-Length: 0\r\nX-Request-Id:";
    called.write(format!("POST /tools/get_thing HTTP/1.1\r\n{head} called\r\n\r\n")).await;
    passed.write(format!("POST /elsewhere HTTP/1.1\r\n{head} passed\r\n\r\n")).await;
    upstream.until("both are in flight", |state| state.requests.len() == 2).await;
    program.terminate();
    for client in [&mut called, &mut passed] {
        assert_eq!(client.read(false).await.status, 503);
    }
    let log = program.log().await;
    check_rejected(&log, "called", "/tools/get_thing", "shutting down");
    check_rejected(&log, "passed", "/elsewhere", "shutting down");
    let passthrough = with(&log, "message", "passthrough");
    assert!(passthrough.len() == 1 && passthrough[0].get("status").is_none(), "{passthrough:?}");
}

/// Checks that a `POST` has one log line with the reason why it was rejected.
#[track_caller]
fn check_rejected(log: &[Value], id: &str, path: &str, reason: &str) {
    let lines = with(log, "request_id", id);
    let rejected: Vec<_> = lines.iter().filter(|line| line["message"] == "request rejected").collect();
    let [line] = &rejected[..] else { panic!("{log:?}") };
    let found = ["client", "method", "path", "reason"].map(|key| line[key].as_str().unwrap_or_default());
    assert_eq!(found, ["127.0.0.1", "POST", path, reason], "{line}");
}

#[tokio::test]
async fn a_response_that_finds_no_memory_has_one_line() {
    let gate = Gate::new();
    let upstream = {
        let (gate, whole) = (gate.clone(), response("200 OK", "text/plain", &"a".repeat(400 << 10)));
        Scripted::start(move |_| {
            let (first, rest) = whole.split_at(whole.len() / 2);
            vec![Step::Send(first.to_vec()), Step::Hold(gate.clone()), Step::Send(rest.to_vec())]
        })
        .await
    };
    let text = format!(
        "upstreams: {{ old: {{ url: 'http://{}', timeout: 1s }} }}\n\
         server: {{ listen: '127.0.0.1:0', upstream_buffer_limit: 1MiB }}\n\
         routes: {{ held: {{ request: GET old/held, timeout: 1m }}, long: {{ request: GET old/long }} }}\n",
        upstream.address
    );
    let program = Program::start(&text, &[]).await;
    let mut held = program.connect().await;
    held.write("POST /tools/held HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\n\r\n").await;
    upstream.until("the first is asked for", |state| state.requests.len() == 1).await;
    // This request may arrive before the first response is read. Then it holds the memory until its deadline.
    let mut status = 0;
    while status != 503 {
        status = program.connect().await.send("POST /tools/long", &["X-Request-Id: over"], "").await.status;
    }
    gate.open();
    drop(held);
    let log = program.log().await;
    let rejected: Vec<&Value> =
        with(&log, "request_id", "over").into_iter().filter(|line| !line["rejected_by"].is_null()).collect();
    assert_eq!(rejected.len(), 1, "{log:?}");
    assert_eq!(
        (&rejected[0]["message"], &rejected[0]["rejected_by"]),
        (&"call".into(), &"upstream_buffer_limit".into())
    );
    let other = with(&log, "message", "upstream request failed");
    assert!(!other.iter().any(|line| line.to_string().contains("memory")), "{other:?}");
}

#[tokio::test]
async fn passthrough_has_a_line_with_path_status_length_and_time() {
    let upstream = Scripted::answering(response("200 OK", "text/plain", "fine")).await;
    let program = Program::start(&format!("{}passthrough: old\n", config(&upstream)), &[]).await;
    let mut client = program.connect().await;
    assert_eq!(client.send("GET /some/page?q=secret", &["X-Request-Id: mine"], "").await.text(), "fine");
    drop(client);
    let log = program.log().await;
    let lines = with(&log, "message", "passthrough");
    let [line] = &lines[..] else { panic!("{log:?}") };
    for (key, expected) in [
        ("path", Value::from("/some/page")),
        ("method", "GET".into()),
        ("status", 200.into()),
        ("response_bytes", 4.into()),
        ("client", "127.0.0.1".into()),
        ("request_id", "mine".into()),
    ] {
        assert_eq!(line[key], expected, "{key} of {line}");
    }
    assert!(line["duration_ms"].is_u64(), "{line}");
    let listening = with(&log, "message", "listening");
    assert!(listening[0]["address"].as_str().unwrap().starts_with("127.0.0.1:"), "{listening:?}");
}

#[tokio::test]
async fn all_of_standard_error_is_json_where_the_log_is() {
    let upstream = Scripted::answering(response("200 OK", "application/json", "{}")).await;
    let program = Program::start(&config(&upstream), &[]).await;
    program.terminate();
    let (_, output) = program.ended().await;
    let lines: Result<Vec<Value>, _> = output.lines().map(serde_json::from_str).collect();
    let lines = lines.unwrap_or_else(|error| panic!("{error}: {output}"));
    let warning = lines.iter().find(|line| line.to_string().contains("has no `description`"));
    assert_eq!(warning.unwrap()["level"], "WARN", "{output}");
}

/// Log lines about a request to another server, before the client of the call is known.
#[tokio::test]
async fn log_lines_about_jwks_have_the_request_id() {
    let login = Login::new();
    let jwks = Scripted::answering(response("200 OK", "application/json", &login.jwks())).await;
    let upstream = Scripted::answering(response("200 OK", "application/json", "{}")).await;
    for (at, message) in [
        ("127.0.0.1:1".to_owned(), "JWKS refresh failed"),
        (jwks.address.to_string(), "JWKS refreshed: the keys have changed"),
    ] {
        let auth = format!(
            "auth: {{ resource: {RESOURCE}, jwt: {{ issuer: {ISSUER}, jwks: 'http://{at}/jwks' }} }}"
        );
        let text = config(&upstream).replace("server: {", &format!("server: {{ {auth},"));
        let program = Program::start(&format!("{text}defaults: {{ scopes: [read] }}\n"), &[]).await;
        let shown = format!("Authorization: Bearer {}", login.by_edwards(&claims(json!({}))));
        program.connect().await.send("POST /tools/get_thing", &["X-Request-Id: mine", &shown], "").await;
        let log = program.log().await;
        let ids: Vec<&Value> =
            with(&log, "message", message).iter().map(|line| &line["request_id"]).collect();
        assert_eq!(ids, ["mine"], "{log:?}");
    }
}

#[tokio::test]
async fn every_response_has_its_request_id() {
    let upstream = Scripted::answering(response("200 OK", "text/plain", "fine")).await;
    let config = format!("{}passthrough: old\n", config(&upstream));
    let program = Program::start(&config, &[]).await;
    for line in
        ["GET /tools", "GET /health", "POST /tools/nothing", "GET /mcp", "PUT /tools", "GET /handed/through"]
    {
        let response = program.connect().await.send(line, &["X-Request-Id: mine"], "").await;
        assert_eq!(response.header("x-request-id").as_deref(), Some("mine"), "{line}: {}", response.status);
        let response = program.connect().await.send(line, &[], "").await;
        assert!(response.header("x-request-id").is_some_and(|id| id.len() > 8), "{line}");
    }
    let rejected = program.connect().await.send("GET /tools", &["Host: evil.example"], "").await;
    assert_eq!(rejected.status, 400, "it names two");
    assert!(rejected.header("x-request-id").is_some());
}
