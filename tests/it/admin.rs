//! The admin API, while the program serves.

use std::path::PathBuf;

use axum::body::Body;
use glossator::{
    admin::{Admin, Process, ProcessControl},
    config::{self, Sources},
    server,
};
use http::Request;
use http_body_util::BodyExt;
use serde_json::{Value, json};

use crate::support::{Client, Program, Scripted, response, soon};

/// Admin API of a configuration that is neither served nor reloaded.
pub(crate) fn admin(text: &str) -> (Admin, server::App) {
    let (admin, app, _) = admin_of_process(text);
    (admin, app)
}

fn admin_of_process(text: &str) -> (Admin, server::App, ProcessControl) {
    let loaded =
        config::load(&Sources::from_text("a.yaml", text)).unwrap_or_else(|problems| panic!("{problems}"));
    let app = server::App::new(&loaded).unwrap();
    let (process, control) = Process::new(loaded.clone());
    let (gateway, meters) = (app.gateway.clone(), app.meters.clone());
    (Admin::new(gateway, meters, process, &loaded.admin), app, control)
}

pub(crate) async fn send(admin: &Admin, line: &str, headers: &[(&str, &str)]) -> (u16, String) {
    let (method, path) = line.split_once(' ').unwrap();
    let mut request = Request::builder().method(method).uri(path);
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    let response = admin.handle(request.body(Body::empty()).unwrap()).await;
    let status = response.status().as_u16();
    let body = response.into_body().collect().await.unwrap().to_bytes();
    (status, String::from_utf8(body.to_vec()).unwrap())
}

pub(crate) const HERE: (&str, &str) = ("host", "localhost:9901");
const JSON: (&str, &str) = ("content-type", "application/json");

const ROUTES: &str = "upstreams: { old: { url: http://127.0.0.1:1, headers: { X-Api-Key: hunter2, Authorization: 'Bearer ${TOKEN:-}' } } }\n\
                      routes: { a: { description: A., request: GET old/a, rest: GET /a } }\n";

#[tokio::test]
async fn probes_may_use_any_host_and_others_only_allowed_ones() {
    let (admin, _) = admin(ROUTES);
    for path in ["/healthz", "/readyz"] {
        assert_eq!(send(&admin, &format!("GET {path}"), &[("host", "10.1.2.3:9901")]).await.0, 200);
        assert_eq!(send(&admin, &format!("POST {path}"), &[HERE]).await.0, 405);
    }
    for path in [
        "GET /metrics",
        "GET /config",
        "GET /routes",
        "POST /reload",
        "GET /nothing",
        "GET /status",
        "GET /history",
        "GET /failures",
        "GET /upstreams",
    ] {
        let (status, body) = send(&admin, path, &[("host", "evil.example")]).await;
        assert!(status == 403 && body.contains("admin.allowed_hosts"), "{path}: {body}");
        let page = [HERE, ("origin", "http://evil.example")];
        assert_eq!(send(&admin, path, &page).await.0, 403, "{path}");
    }
    let (status, body) = send(&admin, "GET /nothing", &[HERE]).await;
    assert!(status == 404 && body.contains("/metrics"), "{body}");
    assert_eq!(send(&admin, "GET /reload", &[HERE]).await.0, 405);
    // Without a reloader, a reload is not available.
    assert_eq!(send(&admin, "POST /reload", &[HERE, JSON]).await.0, 503);
}

/// A page on another port of this machine is another origin.
#[tokio::test]
async fn only_the_ports_own_page_may_send_requests() {
    let (admin, _) = admin(ROUTES);
    let pages = [
        ("origin", "http://localhost:3000"),
        ("origin", "http://127.0.0.1:3000"),
        ("origin", "null"),
        ("sec-fetch-site", "same-site"),
        ("sec-fetch-site", "cross-site"),
    ];
    for line in ["POST /reload", "POST /playground", "GET /config", "GET /metrics", "GET /"] {
        for page in pages {
            let (status, body) = send(&admin, line, &[HERE, JSON, page]).await;
            assert!(status == 403 && body.contains("pages of other origins"), "{line} {page:?}: {body}");
        }
    }
    let own = [HERE, JSON, ("origin", "http://localhost:9901"), ("sec-fetch-site", "same-origin")];
    assert_eq!(send(&admin, "POST /reload", &own).await.0, 503);
    // Requests that browsers send without a preflight change nothing, whatever headers are missing.
    for media_type in
        ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x", ""]
    {
        for line in ["POST /reload", "POST /playground"] {
            assert_eq!(
                send(&admin, line, &[HERE, ("content-type", media_type)]).await.0,
                415,
                "{line} {media_type}"
            );
        }
    }
    assert_eq!(send(&admin, "POST /reload", &[HERE]).await.0, 415);
    // A link leads to the page, but not to the active configuration.
    let link = [
        HERE,
        ("sec-fetch-site", "cross-site"),
        ("sec-fetch-mode", "navigate"),
        ("sec-fetch-dest", "document"),
    ];
    assert_eq!(
        (send(&admin, "GET /", &link).await.0, send(&admin, "GET /config", &link).await.0),
        (200, 403)
    );
}

#[tokio::test]
async fn errors_of_routing_have_the_form_of_all_others() {
    let (admin, _app) = admin(ROUTES);
    let send = async |line: &str, headers: &[(&str, &str)]| {
        let (method, path) = line.split_once(' ').unwrap();
        let mut request = Request::builder().method(method).uri(path);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let response = admin.handle(request.body(Body::empty()).unwrap()).await;
        let (head, body) = response.into_parts();
        (head, String::from_utf8(body.collect().await.unwrap().to_bytes().to_vec()).unwrap())
    };
    for (line, allowed) in [
        ("POST /status", "GET, HEAD"),
        ("OPTIONS /", "GET, HEAD"),
        ("DELETE /healthz", "GET, HEAD"),
        ("PUT /playground", "GET, HEAD, POST"),
        ("GET /reload", "POST"),
    ] {
        let (head, body) = send(line, &[HERE, JSON]).await;
        assert_eq!((head.status.as_u16(), head.headers["allow"].to_str().unwrap()), (405, allowed), "{line}");
        assert_eq!(body, format!(r#"{{"error":"use {allowed} here"}}"#), "{line}");
    }
    for path in ["/nothing", "/history/%ff", "/playground/%ff", "/status/"] {
        let (head, body) = send(&format!("GET {path}"), &[HERE]).await;
        assert!(head.status == 404 && body.starts_with(r#"{"error":""#), "{path}: {body}");
        assert_eq!(head.headers["content-type"], "application/json");
        assert_eq!(
            (&head.headers["cache-control"], &head.headers["x-content-type-options"]),
            (&"no-store".parse().unwrap(), &"nosniff".parse().unwrap()),
            "{path}"
        );
    }
    let (head, _) = send("POST /status", &[("host", "evil.example")]).await;
    assert!(head.status == 403 && !head.headers.contains_key("allow"));
    let (head, body) = send("HEAD /status", &[HERE]).await;
    assert!(head.status == 200 && head.headers["content-length"] != "0" && body.is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_request_that_takes_too_long_is_ended() {
    let (admin, _app, _nobody_reloads) = admin_of_process(ROUTES);
    let (status, body) = send(&admin, "POST /reload", &[HERE, JSON]).await;
    assert_eq!((status, &*body), (503, r#"{"error":"the request took longer than 60s"}"#));
}

#[tokio::test]
async fn files_of_the_page_are_compressed_and_nothing_else() {
    let (admin, _app) = admin(ROUTES);
    let get = async |path: &str| {
        let request = Request::get(path).header(HERE.0, HERE.1).header("accept-encoding", "gzip, br");
        let response = admin.handle(request.body(Body::empty()).unwrap()).await;
        let coding = response.headers().get("content-encoding").cloned();
        (coding, response.into_body().collect().await.unwrap().to_bytes())
    };
    let (coding, body) = get("/").await;
    assert_eq!(coding.unwrap(), "gzip");
    let mut html = String::new();
    std::io::Read::read_to_string(&mut flate2::read::GzDecoder::new(&*body), &mut html).unwrap();
    assert_eq!(html, send(&admin, "GET /", &[HERE]).await.1);
    for path in ["/config", "/metrics"] {
        assert_eq!(get(path).await.0, None, "{path}");
    }
}

#[tokio::test]
async fn probes_name_one_host() {
    let (admin, _) = admin(ROUTES);
    for path in ["GET /healthz", "GET /readyz"] {
        for wrong in [&[][..], &[HERE, HERE], &[("host", "a b")], &[("host", "")]] {
            assert_eq!(send(&admin, path, wrong).await.0, 400, "{path} {wrong:?}");
        }
    }
}

#[tokio::test]
async fn a_token_is_required_if_configured() {
    let (admin, _) = admin(&format!("admin: {{ token: 'sesame, open sesame' }}\n{ROUTES}"));
    assert_eq!(send(&admin, "GET /healthz", &[HERE]).await.0, 200);
    for wrong in ["", "Bearer sesame", "Basic sesame, open sesame", "Bearer sesame, open sesame!"] {
        let (status, body) = send(&admin, "GET /config", &[HERE, ("authorization", wrong)]).await;
        assert!(status == 401 && !body.contains("sesame"), "{body}");
    }
    let right = [HERE, ("authorization", "bearer sesame, open sesame")];
    assert_eq!(send(&admin, "GET /config", &right).await.0, 200);
}

#[tokio::test]
async fn the_active_configuration_is_shown_without_secrets() {
    let (admin, _) = admin(&format!("server: {{ secret_key: 0123456789abcdef0 }}\n{ROUTES}"));
    let (_, body) = send(&admin, "GET /config", &[HERE]).await;
    let shown: Value = serde_json::from_str(&body).unwrap();
    assert_eq!(shown["routes"]["a"]["request"], "GET old/a");
    let headers = &shown["upstreams"]["old"]["headers"];
    assert_eq!(headers["X-Api-Key"], "(hidden)");
    assert_eq!(shown["server"]["secret_key"], "(hidden)");
    assert!(!body.contains("hunter2") && !body.contains("0123456789abcdef0"), "{body}");
    let (_, body) = send(&admin, "GET /routes", &[HERE]).await;
    let routes: Value = serde_json::from_str(&body).unwrap();
    assert_eq!(routes["routes"][0]["endpoints"], json!(["GET /a", "POST /tools/a"]));
}

#[tokio::test]
async fn calls_are_counted_by_their_outcome() {
    let upstream = Scripted::answering(response("404 Not Found", "text/plain", "no")).await;
    let (admin, app) = admin(&format!(
        "upstreams: {{ old: 'http://{}' }}\nroutes: {{ a: {{ description: A., request: GET old/a, response: [{{ when: {{ status: 404 }}, error: none }}] }} }}\n",
        upstream.address
    ));
    let snapshot = app.gateway.snapshot();
    let call = |body: &str| {
        Request::post("/tools/a").header("host", "localhost").body(Body::from(body.to_owned())).unwrap()
    };
    let handler = app.handler.clone();
    for body in ["", "{\"x\": 1}"] {
        let _ = handler.handle(call(body)).await;
    }
    drop(snapshot);
    let (_, text) = send(&admin, "GET /metrics", &[HERE]).await;
    for line in [
        r#"glossator_calls_total{route="a",upstream="old",api="rest",mcp_version="",outcome="error",error_type="upstream_error"} 1"#,
        r#"glossator_rule_matches_total{route="a",rule="1"} 1"#,
        r#"glossator_upstream_requests_total{upstream="old",result="4xx"} 1"#,
        r#"glossator_calls_in_flight{route="a",api="rest"} 0"#,
        r#"glossator_upstream_attempts_total{upstream="old",result="4xx"} 1"#,
        r#"glossator_upstream_circuit_breaker_state{upstream="old",state="closed"} 1"#,
        r#"glossator_upstream_circuit_breaker_state{upstream="old",state="open"} 0"#,
        r#"glossator_upstream_in_flight_requests{upstream="old"} 0"#,
        r#"glossator_upstream_max_in_flight_requests{upstream="old"} 128"#,
        r#"glossator_upstream_queued_requests{upstream="old"} 0"#,
        r#"glossator_upstream_endpoints{upstream="old",state="healthy"} 1"#,
        r#"glossator_http_request_duration_seconds_count{scheme="http",method="POST",status="400"} 1"#,
        r#"glossator_requests_rejected_total{reason="host"} 0"#,
        "glossator_cache_entries 0",
        "glossator_config_last_reload_successful 1",
        r#"glossator_config_reloads_total{result="failure"} 0"#,
    ] {
        assert!(text.contains(line), "no {line} in\n{text}");
    }
}

#[tokio::test]
async fn a_route_that_a_reload_removes_leaves_the_metrics() {
    let upstream = Scripted::answering(response("200 OK", "text/plain", "ok")).await;
    let routes = |names: &[&str]| {
        let routes =
            names.iter().map(|name| format!("  {name}: {{ description: A., request: GET old/a }}\n"));
        format!(
            "upstreams: {{ old: 'http://{}' }}\nroutes:\n{}",
            upstream.address,
            routes.collect::<String>()
        )
    };
    let (admin, mut app) = admin(&routes(&["kept", "gone"]));
    for path in ["/tools/kept", "/tools/gone"] {
        let request = Request::post(path).header("host", "localhost").body(Body::empty()).unwrap();
        assert_eq!(app.handler.handle(request).await.status(), 200);
    }
    let (_, text) = send(&admin, "GET /metrics", &[HERE]).await;
    assert!(text.contains(r#"route="kept""#) && text.contains(r#"route="gone""#), "{text}");
    let reloaded = config::load(&Sources::from_text("a.yaml", routes(&["kept"]))).unwrap();
    assert_eq!(app.apply(&reloaded).unwrap(), [""; 0]);
    let (_, text) = send(&admin, "GET /metrics", &[HERE]).await;
    let kept = r#"glossator_calls_total{route="kept",upstream="old",api="rest",mcp_version="",outcome="success",error_type=""} 1"#;
    assert!(text.contains(kept) && !text.contains(r#"route="gone""#), "{text}");
}

#[tokio::test]
async fn errors_of_mcp_are_counted_by_method_and_code() {
    let (admin, app) = admin(ROUTES);
    let message = |method: &str, params: &str| {
        format!(r#"{{"jsonrpc":"2.0","id":1,"method":"{method}","params":{params}}}"#)
    };
    for body in [
        message("tools/call", r#"{"name":"nothing"}"#),
        message("tools/call", "[]"),
        message("nothing/here", "{}"),
        message("prompts/list", "{}"),
        "{".to_owned(),
    ] {
        let request = Request::post("/mcp").header("host", "localhost");
        let request = request.header("content-type", "application/json");
        let request = request.header("accept", "application/json, text/event-stream");
        let _ = app.handler.handle(request.body(Body::from(body)).unwrap()).await;
    }
    let (_, text) = send(&admin, "GET /metrics", &[HERE]).await;
    for line in [
        r#"glossator_mcp_errors_total{method="tools/call",code="-32602"} 2"#,
        r#"glossator_mcp_errors_total{method="other",code="-32601"} 1"#,
        r#"glossator_mcp_errors_total{method="prompts/list",code="-32601"} 1"#,
        r#"glossator_mcp_errors_total{method="other",code="-32700"} 1"#,
    ] {
        assert!(text.contains(line), "no {line} in\n{text}");
    }
}

#[tokio::test]
async fn unmatched_responses_are_counted() {
    let upstream = Scripted::answering(response("200 OK", "text/plain", "temp: 5")).await;
    let routes = format!(
        "upstreams: {{ old: 'http://{}' }}\nroutes:\n\
         \x20 a: {{ description: A., request: GET old/a, response: [{{ when: {{ text: ^OK }}, content: fine }}] }}\n\
         \x20 b: {{ description: B., request: GET old/b, response: [{{ extract: {{ regex: {{ pattern: '^x (?<x>.*)' }} }} }}] }}\n\
         \x20 c: {{ description: C., request: GET old/c }}\n",
        upstream.address
    );
    let (admin, app) = admin(&routes);
    let handler = app.handler.clone();
    for tool in ["a", "b", "c"] {
        let call =
            Request::post(format!("/tools/{tool}")).header("host", "localhost").body(Body::empty()).unwrap();
        let _ = handler.handle(call).await;
    }
    let (_, text) = send(&admin, "GET /metrics", &[HERE]).await;
    for line in [
        r#"glossator_unmatched_responses_total{route="a",reason="no_rule"} 1"#,
        r#"glossator_unmatched_responses_total{route="a",reason="unparseable"} 0"#,
        r#"glossator_unmatched_responses_total{route="b",reason="unparseable"} 1"#,
        r#"glossator_unmatched_responses_total{route="c",reason="unparseable"} 0"#,
    ] {
        assert!(text.contains(line), "no {line} in\n{text}");
    }
    assert!(!text.contains(r#"route="c",reason="no_rule""#), "it has no rules, so none is missing\n{text}");
}

#[tokio::test]
async fn an_open_circuit_and_a_rejected_request_are_counted() {
    let (admin, app) = admin(
        "upstreams: { old: { url: 'http://127.0.0.1:1', retry: off, circuit_breaker: { consecutive_failures: 1, open_for: 1h } } }\n\
         routes: { a: { description: A., request: GET old/a } }\n",
    );
    let handler = app.handler.clone();
    for host in ["localhost", "localhost", "evil.example"] {
        let call = Request::post("/tools/a").header("host", host).body(Body::empty()).unwrap();
        let _ = handler.handle(call).await;
    }
    let openmetrics = ("accept", "application/openmetrics-text;version=1.0.0,text/plain;version=0.0.4;q=0.5");
    let (_, text) = send(&admin, "GET /metrics", &[HERE, openmetrics]).await;
    for line in [
        r#"glossator_upstream_circuit_breaker_state{upstream="old",state="open"} 1"#,
        r#"glossator_upstream_circuit_breaker_state{upstream="old",state="closed"} 0"#,
        r#"glossator_route_circuit_breaker_state{route="a",state="closed"} 1"#,
        r#"glossator_route_circuit_breaker_state{route="a",state="open"} 0"#,
        r#"glossator_upstream_attempts_total{upstream="old",result="connection_failed"} 1"#,
        r#"glossator_upstream_policy_events_total{upstream="old",event="circuit_breaker_rejected"} 1"#,
        r#"glossator_requests_rejected_total{reason="host"} 1"#,
        r#"glossator_http_request_duration_seconds_count{scheme="http",method="POST",status="403"} 1"#,
        "# EOF",
    ] {
        assert!(text.contains(line), "no {line} in\n{text}");
    }
}

#[tokio::test]
async fn a_process_is_not_ready_while_a_required_upstream_is_down() {
    let upstreams = "upstreams:\n  old: { url: 'http://127.0.0.1:1', retry: off, circuit_breaker: { consecutive_failures: 1, open_for: 1h } }\n  \
                     other: { url: 'http://127.0.0.1:1', retry: off, circuit_breaker: { consecutive_failures: 1, open_for: 1h } }\n\
                     routes: { a: { description: A., request: GET old/a }, b: { description: B., request: GET other/b } }\n";
    for (needs, tool, ready) in
        [("[old]", "a", false), ("[old]", "b", true), ("['*']", "b", false), ("[]", "a", true)]
    {
        let (admin, app) = admin(&format!("admin: {{ readiness_upstreams: {needs} }}\n{upstreams}"));
        assert_eq!(send(&admin, "GET /readyz", &[HERE]).await.0, 200, "nobody has asked yet");
        let call =
            Request::post(format!("/tools/{tool}")).header("host", "localhost").body(Body::empty()).unwrap();
        let _ = app.handler.handle(call).await;
        let (status, body) = send(&admin, "GET /readyz", &[HERE]).await;
        let body: Value = serde_json::from_str(&body).unwrap();
        assert_eq!(
            (status, &body["ready"]),
            (if ready { 200 } else { 503 }, &json!(ready)),
            "{needs} {tool}: {body}"
        );
        if needs == "[old]" {
            assert_eq!(body["upstreams"], json!({ "old": { "reachable": ready } }));
        }
    }
    let unknown = format!("admin: {{ readiness_upstreams: [odl] }}\n{upstreams}");
    let problems = config::load(&Sources::from_text("a.yaml", unknown)).unwrap_err().to_string();
    assert!(
        problems.contains("unknown upstream `odl`") && problems.contains("did you mean `old`?"),
        "{problems}"
    );
}

#[cfg(unix)]
#[tokio::test]
async fn a_process_is_not_ready_while_a_required_mcp_program_restarts() {
    let (admin, app) = admin(
        "admin: { readiness_upstreams: [gone] }\n\
         upstreams: { gone: { mcp: { command: [/no/such/program] }, retry: { max_attempts: 2 } } }\n\
         routes: { a: { request: CALL gone/a } }",
    );
    assert_eq!(send(&admin, "GET /readyz", &[HERE]).await.0, 200, "the first call starts it");
    let call = Request::post("/tools/a").header("host", "localhost").body(Body::empty()).unwrap();
    let _ = app.handler.handle(call).await;
    let (status, body) = send(&admin, "GET /readyz", &[HERE]).await;
    assert_eq!(status, 503, "{body}");
    let body: Value = serde_json::from_str(&body).unwrap();
    assert_eq!(body["upstreams"], json!({ "gone": { "reachable": false } }));
}

fn config_of(upstream: &Scripted, names: &[&str], more: &str) -> String {
    let routes: String =
        names.iter().map(|name| format!("  {name}: {{ request: GET old/{name} }}\n")).collect();
    format!(
        "server: {{ reload_interval: 20ms }}\nadmin: {{ listen: '127.0.0.1:0' }}\nupstreams: {{ old: 'http://{}' }}\nroutes:\n{routes}{more}",
        upstream.address
    )
}

/// Connection to the admin API of a program.
pub(crate) async fn admin_client(program: &mut Program) -> Client {
    let line: Value = serde_json::from_str(&program.wait_for_log("admin API listening", 1).await).unwrap();
    Client::connect(line["address"].as_str().unwrap().parse().unwrap()).await
}

async fn config_status(client: &mut Client) -> Value {
    client.send("GET /readyz", &[], "").await.json()["configuration"].clone()
}

async fn tools(client: &mut Client) -> usize {
    client.send("GET /tools", &[], "").await.json().as_array().unwrap().len()
}

#[tokio::test]
async fn a_file_that_has_changed_is_read_again_by_itself() {
    let upstream = Scripted::answering(response("200 OK", "text/plain", "ok")).await;
    let file = std::env::temp_dir().join(format!("glossator-it-operators-{}.yaml", std::process::id()));
    std::fs::write(&file, config_of(&upstream, &["a"], "")).unwrap();
    let mut program = Program::start_from(&file, &["--listen", "127.0.0.1:0"]).await;
    let mut client = program.connect().await;
    let mut admin = admin_client(&mut program).await;
    assert_eq!((tools(&mut client).await, &config_status(&mut admin).await["generation"]), (1, &json!(1)));

    std::fs::write(&file, config_of(&upstream, &["a", "b"], "")).unwrap();
    soon("the new table", async { while tools(&mut client).await != 2 {} }).await;
    // The number is updated a moment after the reload.
    soon("its number", async { while config_status(&mut admin).await["generation"] != 2 {} }).await;

    std::fs::write(&file, config_of(&upstream, &["a"], "rotues: {}\n")).unwrap();
    program.wait_for_log("config reload failed", 1).await;
    assert_eq!(tools(&mut client).await, 2);
    soon("the failure", async { while config_status(&mut admin).await["failed_since"].is_null() {} }).await;
    assert_eq!(config_status(&mut admin).await["generation"], 2);
    let text = admin.send("GET /metrics", &[], "").await.text().to_owned();
    assert!(text.contains("glossator_config_last_reload_successful 0\n"), "{text}");
    let reloaded = admin.send("POST /reload", &["Content-Type: application/json"], "").await;
    assert_eq!(reloaded.status, 422);
    assert!(reloaded.json()["problems"].as_str().unwrap().contains("did you mean `routes`?"));

    std::fs::write(&file, config_of(&upstream, &["c", "d", "e"], "")).unwrap();
    let reloaded = admin.send("POST /reload", &["Content-Type: application/json"], "").await;
    assert_eq!((reloaded.status, tools(&mut client).await), (200, 3), "{}", reloaded.text());
    assert!(config_status(&mut admin).await.get("failed_since").is_none());
    std::fs::remove_file(&file).unwrap();
}

#[tokio::test]
async fn a_restart_only_change_is_pending_until_reverted() {
    let upstream = Scripted::answering(response("200 OK", "text/plain", "ok")).await;
    let file = std::env::temp_dir().join(format!("glossator-it-pending-{}.yaml", std::process::id()));
    let text = config_of(&upstream, &["a"], "").replace("reload_interval: 20ms", "reload_interval: 0s");
    std::fs::write(&file, &text).unwrap();
    let mut program = Program::start_from(&file, &["--listen", "127.0.0.1:0"]).await;
    let mut admin = admin_client(&mut program).await;
    let shutdown_change = text.replace("reload_interval: 0s", "reload_interval: 0s, shutdown_timeout: 7s");
    for (text, pending) in [(&text, 0), (&shutdown_change, 1), (&shutdown_change, 1), (&text, 0)] {
        std::fs::write(&file, text).unwrap();
        let reloaded = admin.send("POST /reload", &["Content-Type: application/json"], "").await;
        assert_eq!(reloaded.status, 200, "{}", reloaded.text());
        let metrics = admin.send("GET /metrics", &[], "").await.text().to_owned();
        assert!(metrics.contains(&format!("glossator_config_restart_pending {pending}\n")), "{metrics}");
    }
    std::fs::remove_file(&file).unwrap();
}

/// As Kubernetes mounts a ConfigMap: files are links into `..data`, which is a link to the folder of a
/// version.
#[cfg(unix)]
#[tokio::test]
async fn a_mounted_folder_that_is_swapped_is_read_again() {
    let upstream = Scripted::answering(response("200 OK", "text/plain", "ok")).await;
    let folder = std::env::temp_dir().join(format!("glossator-it-configmap-{}", std::process::id()));
    let _ = std::fs::remove_dir_all(&folder);
    let version = |name: &str, names: &[&str]| -> PathBuf {
        let version = folder.join(name);
        std::fs::create_dir_all(&version).unwrap();
        std::fs::write(version.join("routes.yaml"), config_of(&upstream, names, "")).unwrap();
        version
    };
    std::os::unix::fs::symlink(version("..1", &["a"]), folder.join("..data")).unwrap();
    std::os::unix::fs::symlink("..data/routes.yaml", folder.join("routes.yaml")).unwrap();
    let program = Program::start_from(&folder, &["--listen", "127.0.0.1:0"]).await;
    let mut client = program.connect().await;
    assert_eq!(tools(&mut client).await, 1);
    std::os::unix::fs::symlink(version("..2", &["b", "c"]), folder.join("..data_tmp")).unwrap();
    std::fs::rename(folder.join("..data_tmp"), folder.join("..data")).unwrap();
    soon("the new table", async { while tools(&mut client).await != 2 {} }).await;
    drop(program);
    std::fs::remove_dir_all(&folder).unwrap();
}

#[cfg(unix)]
#[tokio::test]
async fn a_stopping_process_is_not_ready_and_finishes_its_requests() {
    let (upstream, gate) = Scripted::holding(response("200 OK", "text/plain", "done")).await;
    let mut program = Program::start(&config_of(&upstream, &["a"], ""), &["--listen", "127.0.0.1:0"]).await;
    let mut calling = program.connect().await;
    let mut admin = admin_client(&mut program).await;
    calling.write("POST /tools/a HTTP/1.1\r\nHost: localhost\r\n\r\n").await;
    upstream.until("the call is in flight", |state| state.requests.len() == 1).await;
    program.terminate();
    soon("it is not ready", async { while admin.send("GET /readyz", &[], "").await.status != 503 {} }).await;
    assert_eq!(admin.send("GET /healthz", &[], "").await.status, 200);
    gate.open();
    assert_eq!(calling.read(false).await.tool_text(), "done");
    assert!(program.ended().await.0.success());
}

#[tokio::test]
async fn an_occupied_admin_port_is_an_error_only_if_configured() {
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap();
    let settings = config::AdminSettings {
        listen: Some(address),
        is_listen_explicit: false,
        allowed_hosts: Vec::new(),
        readiness_upstreams: Vec::new(),
        token: None,
    };
    let (admin, _) = admin(ROUTES);
    assert!(server::AdminListener::open(&settings, admin.clone()).await.unwrap().is_none());
    let named = config::AdminSettings { is_listen_explicit: true, ..settings };
    assert!(server::AdminListener::open(&named, admin).await.is_err());
}

/// Kubernetes may mount a secret later than the configuration that refers to it.
#[tokio::test]
async fn a_missing_file_that_appears_is_read_after_a_failed_reload() {
    let upstream = Scripted::answering(response("200 OK", "text/plain", "ok")).await;
    let folder = std::env::temp_dir().join(format!("glossator-it-late-secret-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let (file, secret) = (folder.join("config.yaml"), folder.join("secret"));
    std::fs::write(&file, config_of(&upstream, &["a"], "")).unwrap();
    let mut program = Program::start_from(&file, &["--listen", "127.0.0.1:0"]).await;
    let mut client = program.connect().await;

    let headers = format!(
        "{{ url: 'http://{}', headers: {{ X-Key: 'file:{}' }} }}",
        upstream.address,
        secret.display()
    );
    let text = config_of(&upstream, &["a", "b"], "");
    std::fs::write(&file, text.replace(&format!("'http://{}'", upstream.address), &headers)).unwrap();
    program.wait_for_log("config reload failed", 1).await;
    assert_eq!(tools(&mut client).await, 1);
    std::fs::write(&secret, "s3cret-value-0001").unwrap();
    program.wait_for_log("config reloaded", 1).await;
    assert_eq!(tools(&mut client).await, 2);
    std::fs::remove_dir_all(&folder).unwrap();
}
