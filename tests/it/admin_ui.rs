//! Data of the admin UI: the last hour, failures, upstreams, the playground.

use axum::body::Body;
use http::Request;
use serde_json::{Value, json};

use crate::{
    admin::{HERE, admin, send},
    support::{Scripted, response},
};

async fn get_json(admin: &glossator::admin::Admin, path: &str) -> Value {
    let (status, body) = send(admin, &format!("GET {path}"), &[HERE]).await;
    assert_eq!(status, 200, "{path}: {body}");
    serde_json::from_str(&body).unwrap()
}

/// Calls a tool over REST, with a request id.
async fn call(app: &glossator::server::App, tool: &str, request_id: &str) {
    let request = Request::post(format!("/tools/{tool}"))
        .header("host", "localhost")
        .header("x-request-id", request_id)
        .body(Body::empty())
        .unwrap();
    let _ = app.handler.handle(request).await;
}

#[tokio::test]
async fn the_history_has_all_calls_and_those_of_each_route() {
    let upstream = Scripted::answering(response("200 OK", "text/plain", "fine")).await;
    let (admin, app) = admin(&format!(
        "upstreams: {{ old: 'http://{}' }}\nroutes:\n  a: {{ description: A., request: GET old/a }}\n  \
         b: {{ description: B., request: GET old/b, response: [{{ error: no }}] }}\n",
        upstream.address
    ));
    call(&app, "a", "1").await;
    admin.sample();
    call(&app, "a", "2").await;
    call(&app, "b", "3").await;
    let history = get_json(&admin, "/history").await;
    assert_eq!(history["all"]["calls"], json!([1, 2]));
    assert_eq!(history["all"]["errors"], json!([0, 1]));
    assert_eq!(history["all"]["ended"].as_array().unwrap().len(), 2);
    assert_eq!((&history["routes"]["a"]["calls"], &history["routes"]["b"]["errors"]), (&json!(2), &json!(1)));
    assert!(history["routes"]["a"]["p99_ms"].as_f64().unwrap() > 0.0, "{history}");
    assert_eq!(history["routes"]["b"]["errors_by_point"], json!([1]));
    let of_a = get_json(&admin, "/history/a").await;
    assert_eq!((&of_a["calls"], &of_a["p50_ms"].as_array().unwrap().len()), (&json!([1, 1]), &2));
    assert_eq!(send(&admin, "GET /history/never", &[HERE]).await.0, 404);
}

#[tokio::test]
async fn the_last_failures_have_rule_and_reason_and_are_found_by_request_id() {
    let upstream = Scripted::answering(response("200 OK", "text/plain", "hunter2")).await;
    let (admin, app) = admin(&format!(
        "upstreams: {{ old: 'http://{}', gone: {{ url: 'http://127.0.0.1:1', retry: {{ max_attempts: 1 }} }} }}\nroutes:\n  \
         a: {{ description: A., request: 'GET old/a', response: [{{ extract: json }}] }}\n  \
         b: {{ description: B., request: GET gone/b }}\n  \
         c: {{ description: C., request: 'GET old/c/{{x}}' }}\n  \
         d: {{ description: D., request: GET old/d }}\n",
        upstream.address
    ));
    for (tool, request_id) in [("a", "one"), ("b", "two"), ("c", "three"), ("d", "fine")] {
        call(&app, tool, request_id).await;
    }
    let all = get_json(&admin, "/failures").await;
    let failures = all["failures"].as_array().unwrap();
    let names: Vec<_> = failures.iter().map(|failure| failure["request_id"].as_str().unwrap()).collect();
    assert_eq!((names, &all["since_start"]), (vec!["three", "two", "one"], &json!(3)));
    assert_eq!(failures[0]["error_type"], "invalid_arguments");
    assert!(failures[1]["reason"].as_str().unwrap().contains("could not connect"), "{all}");
    assert_eq!(
        (&failures[2]["rule"], &failures[2]["error_type"]),
        (&json!(1), &json!("unparseable_response"))
    );
    assert_eq!((&failures[2]["upstream_status"], &failures[2]["api"]), (&json!(200), &json!("rest")));
    assert!(failures[2]["reason"].as_str().unwrap().contains("JSON"), "{all}");
    // Text of the upstream is not shown.
    assert!(!all.to_string().contains("hunter2"), "{all}");
    let one = get_json(&admin, "/failures?request_id=%74wo").await;
    assert_eq!((one["failures"].as_array().unwrap().len(), &one["failures"][0]["route"]), (1, &json!("b")));
    assert_eq!(get_json(&admin, "/failures?route=a&limit=9").await["failures"].as_array().unwrap().len(), 1);
    let (status, why) = send(&admin, "GET /failures?limit=x", &[HERE]).await;
    assert!(status == 400 && why.contains("`limit` takes a whole number from 0, found \\\"x\\\""), "{why}");
    let (status, why) = send(&admin, "GET /failures?rote=a", &[HERE]).await;
    assert!(status == 400 && why.contains("known parameters are `route`"), "{why}");
}

#[tokio::test]
async fn upstreams_are_listed_with_their_policies() {
    let upstream = Scripted::answering(response("200 OK", "text/plain", "fine")).await;
    let (admin, app) = admin(&format!(
        "upstreams:\n  old: {{ url: 'http://{}', max_in_flight: 7 }}\n  gone: {{ url: 'http://127.0.0.1:1', retry: {{ max_attempts: 1 }}, circuit_breaker: {{ consecutive_failures: 1 }} }}\n  \
         echo: {{ command: [echo] }}\nroutes:\n  \
         a: {{ description: A., request: GET old/a }}\n  b: {{ description: B., request: GET gone/b }}\n  \
         c: {{ description: C., request: RUN echo a }}\n",
        upstream.address
    ));
    call(&app, "a", "1").await;
    call(&app, "b", "2").await;
    let upstreams = get_json(&admin, "/upstreams").await["upstreams"].clone();
    let names: Vec<_> = upstreams.as_array().unwrap().iter().map(|upstream| &upstream["name"]).collect();
    assert_eq!(names, ["echo", "gone", "old"]);
    let (echo, gone, old) = (&upstreams[0], &upstreams[1], &upstreams[2]);
    assert_eq!((&echo["kind"], &echo["endpoints"]), (&json!("command"), &json!([])));
    assert_eq!(
        (&gone["circuit_breaker"]["state"], &gone["policy_events"]["circuit_breaker_opened"]),
        (&json!("open"), &json!(1))
    );
    assert!(gone["circuit_breaker"]["half_open_in_ms"].as_u64().unwrap() > 0, "{gone}");
    assert_eq!(
        (&old["circuit_breaker"]["state"], &old["in_flight"], &old["max_in_flight"]),
        (&json!("closed"), &json!(0), &json!(7))
    );
    assert_eq!((&old["endpoints"][0]["state"], &old["routes"]), (&json!("healthy"), &json!(1)));
    assert_eq!((&old["prompts"], &old["resources"]), (&json!(0), &json!(0)));
    assert!(
        old["endpoints"][0]["address"].as_str().unwrap().contains(&upstream.address.to_string()),
        "{old}"
    );
}

#[cfg(unix)]
#[tokio::test]
async fn the_state_of_an_mcp_program_is_shown() {
    let server = r#"read -r line
        echo '{"jsonrpc":"2.0","id":1,"result":{"protocolVersion":"2024-11-05","capabilities":{}}}'
        read -r line; read -r line
        echo '{"jsonrpc":"2.0","id":2,"result":{"content":[{"type":"text","text":"well"}]}}'
        read -r line"#;
    let (admin, app) = admin(
        &json!({
            "upstreams": {
                "hangs": { "mcp": { "command": ["sh", "-c", "read -r line; read -r line"] } },
                "http": { "mcp": "http://127.0.0.1:1/mcp" },
                "none": { "mcp": { "command": ["/no/such/program"] }, "retry": { "max_attempts": 2 } },
                "runs": { "mcp": { "command": ["sh", "-c", server] } },
            },
            "routes": {
                "hangs": { "request": "CALL hangs/x", "timeout": "50ms" },
                "none": { "request": "CALL none/x" },
                "runs": { "request": "CALL runs/x" },
            },
        })
        .to_string(),
    );
    let states = async || {
        let upstreams = get_json(&admin, "/upstreams").await["upstreams"].clone();
        upstreams.as_array().unwrap().iter().map(|upstream| upstream["program"].clone()).collect::<Vec<_>>()
    };
    let stopped = json!({ "state": "stopped" });
    assert_eq!(states().await, [stopped.clone(), Value::Null, stopped.clone(), stopped]);
    for route in ["runs", "hangs", "none"] {
        call(&app, route, "1").await;
    }
    let now = states().await;
    let labels: Vec<_> = now.iter().map(|program| program["state"].as_str()).collect();
    assert_eq!(labels, [Some("starting"), None, Some("restarting"), Some("running")], "{now:?}");
    assert!((1..=1000).contains(&now[2]["starts_in_ms"].as_u64().unwrap()), "{now:?}");
}

#[tokio::test]
async fn the_process_reports_its_status() {
    let (admin, _app) = admin(
        "upstreams: { old: http://127.0.0.1:1 }\nroutes: { a: { description: A., request: GET old/a } }\n",
    );
    let status = get_json(&admin, "/status").await;
    assert_eq!((&status["ready"], &status["configuration"]["generation"]), (&json!(true), &json!(1)));
    assert_eq!(status["version"], env!("CARGO_PKG_VERSION"));
    assert!(status["started"].as_u64().unwrap() > 1_700_000_000, "{status}");
}

async fn post(
    admin: &glossator::admin::Admin,
    path: &str,
    headers: &[(&str, &str)],
    body: &str,
) -> (u16, Value) {
    let mut request = Request::post(path).header("content-type", "application/json");
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    let response = admin.handle(request.body(Body::from(body.to_owned())).unwrap()).await;
    let status = response.status().as_u16();
    let body = http_body_util::BodyExt::collect(response.into_body()).await.unwrap().to_bytes();
    (status, serde_json::from_slice(&body).unwrap())
}

/// Tries a rule in the playground, and returns the response.
async fn try_out(admin: &glossator::admin::Admin, attempt: &Value) -> Value {
    let (status, body) = post(admin, "/playground", &[HERE], &attempt.to_string()).await;
    assert_eq!(status, 200, "{body}");
    body
}

const BENCH: &str = r#"
upstreams: { old: { url: http://127.0.0.1:1, headers: { X-Api-Key: hunter2 } }, shell: { command: [cat] } }
rules:
  plain: { extract: text }
routes:
  a:
    description: A.
    # What a comment says.
    request:
      path: /a/{city}
      upstream: old
      headers: { Authorization: "Bearer s3cr3t" }   # kept to itself
    response:
      - when: { status: 404 }
        error: "no {{ args.city }}"
      - use: plain
    tests:
      - response: { status: 404, content_type: text/plain, body: gone }
        args: { city: Oslo }
        expect: { text: Oslo }
      - name: bytes
        response: { body_base64: "/w==" }
        expect: { isError: true }
  b: { description: B., request: RUN shell x }
  c: &c { description: C., request: GET old/c, rest: GET /c }
  d: { <<: *c, rest: GET /d, response: { extract: json } }
"#;

#[tokio::test]
async fn a_route_is_taken_to_the_playground_as_it_is_written_without_its_secrets() {
    let (admin, _app) = admin(BENCH);
    let routes = get_json(&admin, "/playground").await;
    assert_eq!(routes["routes"][0], json!({ "name": "a", "tests": 2 }));
    let of_a = get_json(&admin, "/playground/a").await;
    assert_eq!(
        of_a["rule"],
        "description: A.\n# What a comment says.\nrequest:\n  path: /a/{city}\n  upstream: old\n  headers: { Authorization: (hidden) }   # kept to itself\nresponse:\n  - when: { status: 404 }\n    error: \"no {{ args.city }}\"\n  - use: plain\n"
    );
    assert_eq!((&of_a["upstream_kind"], &of_a["tests"][0]["name"]), (&json!("server"), &json!("1")));
    assert_eq!(of_a["tests"][0]["response"]["headers"], json!([["content-type", "text/plain"]]));
    assert_eq!(of_a["tests"][1]["response"]["body_base64"], "/w==");
    assert_eq!(get_json(&admin, "/playground/b").await["upstream_kind"], "program");
    // A rule in one line, or with names of another route, is rewritten.
    let of_d = get_json(&admin, "/playground/d").await;
    assert_eq!(
        of_d["rule"],
        "rest: GET /d\nresponse: { extract: json }\ndescription: C.\nrequest: GET old/c\n"
    );
    assert_eq!(send(&admin, "GET /playground/nothing", &[HERE]).await.0, 404);
    assert!(!format!("{of_a}{routes}").contains("s3cr3t"));
    // Unchanged, it can be tried.
    for name in ["a", "b", "d"] {
        let rule = &get_json(&admin, &format!("/playground/{name}")).await["rule"];
        let body =
            try_out(&admin, &json!({ "route": name, "rule": rule, "response": { "body": "{}" } })).await;
        assert_eq!(body["problems"], json!([]), "{name}: {body}");
    }
}

#[tokio::test]
async fn a_route_that_names_no_upstream_can_be_tried() {
    let only_one =
        "upstreams: { old: http://127.0.0.1:1 }\nroutes: { a: { description: A., request: GET /a } }";
    let (admin, _app) = admin(only_one);
    let attempt = |rule: &str| json!({ "route": "a", "rule": rule, "response": { "body": "{}" } });
    for rule in ["request: GET /a", "response: { extract: json }"] {
        let body = try_out(&admin, &attempt(rule)).await;
        assert_eq!(body["problems"], json!([]), "{rule}: {body}");
    }
}

#[tokio::test]
async fn a_rule_is_tried_on_a_response_step_by_step() {
    let (admin, app) = admin(BENCH);
    let rule = get_json(&admin, "/playground/a").await["rule"].clone();
    let given = json!({ "status": 404, "body": "gone" });
    let tried = try_out(
        &admin,
        &json!({ "route": "a", "rule": rule, "arguments": { "city": "Oslo" }, "response": given }),
    )
    .await;
    assert_eq!((&tried["rule"], &tried["result"]["isError"]), (&json!(1), &json!(true)));
    assert_eq!(tried["result"]["content"][0]["text"], "no Oslo");
    let by_name =
        try_out(&admin, &json!({ "rule": "response: { use: plain }", "response": { "body": "hi" } })).await;
    assert!(by_name["steps"][0]["found"].as_str().unwrap().starts_with("from plain"), "{by_name}");
    // An empty rule is valid: the default rules.
    for empty in ["", "# nothing yet\n"] {
        let tried = try_out(
            &admin,
            &json!({ "rule": empty, "response": { "headers": [["content-type", "application/json"]], "body": "{\"a\": 1.0}" } }),
        )
        .await;
        assert_eq!((&tried["rule"], &tried["problems"]), (&Value::Null, &json!([])));
        assert_eq!(tried["structured_text"], "{\n  \"a\": 1.0\n}");
    }
    // With its name, the result is the same.
    let named = try_out(
        &admin,
        &json!({ "route": "x", "rule": "x:\n  response: { extract: json }", "response": { "body": "[1]" } }),
    )
    .await;
    assert_eq!(named["result"]["structuredContent"], json!({ "result": [1] }));
    let drafted = "output: { type: object, properties: { a: { type: integer } }, required: [a] }\nresponse: { extract: json }";
    let broken = try_out(&admin, &json!({ "rule": drafted, "response": { "body": "{\"a\": \"x\"}" } })).await;
    assert_eq!(
        (&broken["result"]["isError"], &broken["output_schema"]["required"]),
        (&json!(true), &json!(["a"]))
    );
    assert!(broken["steps"].to_string().contains("schema"), "{broken}");
    let program = try_out(
        &admin,
        &json!({ "rule": "request: RUN shell x", "response": { "body": "", "exit_status": 3, "stderr": "boom" } }),
    )
    .await;
    assert_eq!(program["result"]["isError"], true);
    // Nothing of it is active.
    assert_eq!(app.gateway.snapshot().table.in_order().len(), 4);
    let unfit = json!({ "rule": rule, "arguments": { "town": "Oslo" }, "response": {} });
    let unfit = try_out(&admin, &unfit).await;
    assert!(unfit["arguments_problem"].as_str().unwrap().contains("city"), "{unfit}");
    assert!(unfit.get("result").is_none());
}

#[tokio::test]
async fn problems_of_a_draft_have_their_positions() {
    let (admin, _app) = admin(BENCH);
    let tried =
        try_out(&admin, &json!({ "rule": "response:\n  extract: { json_ponter: /a }\n", "response": {} }))
            .await;
    let problem = &tried["problems"][0];
    assert_eq!(
        (&problem["file"], &problem["line"], &problem["column"], &problem["severity"]),
        (&json!("draft"), &json!(2), &json!(14), &json!("error"))
    );
    assert!(problem["report"].as_str().unwrap().contains("2 |   extract: { json_ponter: /a }"), "{problem}");
    assert!(tried.get("result").is_none());
    for (rule, part) in [
        ("[", "draft"),
        ("- a", "a map"),
        ("response: { use: nothing }", "nothing"),
        ("request: GET elsewhere/a", "elsewhere"),
        ("response: { extract: { regex: '(' } }", "regular expression"),
        // Neither is resolved: a route has neither secrets nor files, and a draft has no folder.
        ("tests: [{ response: { recording: /etc/passwd }, expect: {} }]", "needs a configuration file"),
        ("response: { when: { text: '${HOME}' }, error: x }\nnothing: 1", "unknown key"),
    ] {
        let tried = try_out(&admin, &json!({ "rule": rule, "response": {} })).await;
        assert!(tried["problems"].to_string().contains(part), "{rule}: {tried}");
    }
    let verbatim = try_out(
        &admin,
        &json!({ "rule": "response: { error: '${HOME} file:/etc/passwd' }", "response": {} }),
    )
    .await;
    assert_eq!(verbatim["result"]["content"][0]["text"], "${HOME} file:/etc/passwd");
    for name in ["no name!", "../a", ""] {
        let tried = try_out(&admin, &json!({ "route": name, "rule": "", "response": {} })).await;
        assert_eq!(tried["problems"][0]["severity"], "error", "{tried}");
    }
}

#[tokio::test]
async fn the_playground_has_limits_and_checks_access() {
    let (open, _app) = admin(BENCH);
    let attempt = json!({ "rule": "", "response": {} }).to_string();
    assert_eq!(
        post(&open, "/playground", &[HERE, ("origin", "http://localhost:9901")], &attempt).await.0,
        200
    );
    let (status, body) =
        post(&open, "/playground", &[HERE, ("origin", "http://evil.example")], &attempt).await;
    assert!(status == 403 && body["error"].as_str().unwrap().contains("admin.allowed_hosts"), "{body}");
    assert_eq!(post(&open, "/playground", &[("host", "evil.example")], &attempt).await.0, 403);
    let (status, body) = post(&open, "/playground", &[HERE], &"x".repeat((1 << 20) + 1)).await;
    assert!(status == 413 && body["error"].as_str().unwrap().contains("1048576"), "{body}");
    let (status, body) = post(&open, "/playground", &[HERE], "{}").await;
    assert!(status == 400 && body["error"].as_str().unwrap().contains("`rule`"), "{body}");
    let long = json!({ "rule": "#".repeat((128 << 10) + 1), "response": {} }).to_string();
    let (status, body) = post(&open, "/playground", &[HERE], &long).await;
    assert!(status == 400 && body["error"].as_str().unwrap().contains("131072"), "{body}");
    let (locked, _app) = admin(&format!("admin: {{ token: 'sesame, open sesame' }}\n{BENCH}"));
    for path in
        ["/playground", "/history", "/failures", "/upstreams", "/status", "/playground/a", "/history/a"]
    {
        assert_eq!(send(&locked, &format!("GET {path}"), &[HERE]).await.0, 401, "{path}");
    }
    assert_eq!(post(&locked, "/playground", &[HERE], &attempt).await.0, 401);
    let right = [HERE, ("authorization", "Bearer sesame, open sesame")];
    assert_eq!(post(&locked, "/playground", &right, &attempt).await.0, 200);
}

#[tokio::test]
async fn a_page_of_an_address_is_our_own_where_every_host_is_allowed() {
    let (everywhere, _app) = admin(&format!("admin: {{ allowed_hosts: ['*'] }}\n{BENCH}"));
    let attempt = json!({ "rule": "", "response": {} }).to_string();
    for (host, origin, expected) in [
        ("10.1.2.3:9901", "http://10.1.2.3:9901", 200),
        ("localhost:9901", "http://localhost:9901", 200),
        ("evil.example:9901", "http://evil.example:9901", 403),
        ("10.1.2.3:9901", "http://evil.example:9901", 403),
    ] {
        let headers = [("host", host), ("origin", origin)];
        assert_eq!(post(&everywhere, "/playground", &headers, &attempt).await.0, expected, "{host} {origin}");
        // Requests of the page that only read have no `Origin`.
        let read = async |path: &str| {
            let request = Request::get(path).header("host", host).body(Body::empty()).unwrap();
            everywhere.handle(request).await.status()
        };
        let is_named = !host.starts_with("evil");
        assert_eq!(read("/config").await == 200, is_named, "{host}");
        assert_eq!((read("/metrics").await.as_u16(), read("/readyz").await.as_u16()), (200, 200), "{host}");
    }
}

#[tokio::test]
async fn the_page_is_served_to_allowed_hosts_with_strict_headers() {
    let (locked, _app) = admin(&format!("admin: {{ token: 'sesame, open sesame' }}\n{BENCH}"));
    let get = async |path: &str, host: &str| {
        let request = Request::get(path).header("host", host).body(Body::empty()).unwrap();
        locked.handle(request).await
    };
    assert_eq!(get("/", "evil.example").await.status(), 403);
    let page = get("/", "localhost:9901").await;
    let headers = page.headers().clone();
    let text = |name: &str| headers[name].to_str().unwrap().to_owned();
    assert_eq!((page.status().as_u16(), &*text("content-type")), (200, "text/html; charset=utf-8"));
    assert!(text("content-security-policy").starts_with("default-src 'none'; script-src 'self';"));
    assert_eq!((&*text("x-frame-options"), &*text("x-content-type-options")), ("DENY", "nosniff"));
    let body = http_body_util::BodyExt::collect(page.into_body()).await.unwrap().to_bytes();
    let html = String::from_utf8(body.to_vec()).unwrap();
    // No inline code and nothing from elsewhere; all referenced files exist.
    assert!(!html.contains("<style") && !html.contains(" style=") && !html.contains("//"));
    assert_eq!(html.matches("<script").count(), html.matches("<script type=\"module\" src=\"/page/").count());
    for part in html.split('"').filter(|part| part.starts_with("/page/")) {
        assert_eq!(get(part, "localhost:9901").await.status(), 200, "{part}");
    }
    assert_eq!(
        get("/status", "localhost:9901").await.headers()["cross-origin-resource-policy"],
        "same-origin"
    );
    assert_eq!(get("/page/", "localhost:9901").await.status(), 401);
    assert_eq!(get("/page/../page.rs", "localhost:9901").await.status(), 401);
}

#[tokio::test]
async fn a_result_too_long_is_an_error_and_a_slow_rule_is_cancelled() {
    let (admin, _app) = admin(BENCH);
    let body = format!("\"{}\"", "a".repeat(600_000));
    let long = json!({ "rule": "response: { extract: json }", "response": { "body": body } });
    let tried = try_out(&admin, &long).await;
    assert!(tried["result_bytes"].as_u64().unwrap() > 1 << 20 && tried.get("result").is_none());
    let stop = glossator::translate::WorkBudget::default();
    stop.cancel();
    let loaded = glossator::config::load(&glossator::config::Sources::from_text("a.yaml", BENCH)).unwrap();
    let draft = loaded.importer.draft("a", "response: { extract: { regex: 'a' } }", &stop);
    assert!(draft.route.is_none() && draft.problems[0].message.contains("took too long"), "{draft:?}");
}
