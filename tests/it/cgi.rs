//! The program as a CGI program of a web server.

use glossator::auth::ApiKeyHash;
use serde_json::{Value, json};

use crate::support::{Cgi, Gate, Scripted, Step, response};

fn config(upstream: &Scripted, more: &str) -> String {
    format!(
        "upstreams: {{ old: 'http://{}' }}\n\
         routes:\n  get_thing:\n    description: A thing.\n    rest: POST /things/{{name}}\n    \
         request: {{ path: '/thing/{{name}}', query: {{ size: '{{{{ args.size | default(1) }}}}' }} }}\n    \
         input: {{ type: object, properties: {{ name: {{ type: string }}, size: {{ type: integer }} }}, required: [name] }}\n{more}",
        upstream.address
    )
}

async fn thing() -> Scripted {
    Scripted::answering(response("200 OK", "application/json", r#"{"price": 1.50}"#)).await
}

#[tokio::test]
async fn a_request_in_variables_is_answered_like_any_other() {
    let upstream = thing().await;
    let request = Cgi::new(&config(&upstream, "    envelope: plain\n"), "POST /things/blue ball")
        .with("HTTP_X_REQUEST_ID", "mine")
        .json(r#"{"size": 3}"#);
    let response = request.run().await;
    assert!(
        response.response.head.starts_with("Status: 200 OK\nContent-Type: application/json\n"),
        "{response:?}"
    );
    assert_eq!(response.response.header("x-request-id").as_deref(), Some("mine"));
    assert_eq!(response.response.text(), r#"{"price": 1.50}"#);
    assert_eq!(upstream.state().requests[0].line(), "GET /thing/blue%20ball?size=3 HTTP/1.1");
    let line: Value = response.log.lines().find_map(|line| serde_json::from_str(line).ok()).unwrap();
    assert_eq!(
        (&line["api"], &line["request_id"], &line["route"]),
        (&"cgi".into(), &"mine".into(), &"get_thing".into())
    );
}

#[tokio::test]
async fn both_lifecycles_of_mcp_work() {
    let upstream = thing().await;
    let config = config(&upstream, "");
    let call = |meta: Value| {
        json!({ "jsonrpc": "2.0", "id": 7, "method": "tools/call",
            "params": { "name": "get_thing", "arguments": { "name": "ball" }, "_meta": meta } })
        .to_string()
    };
    let mcp = |body: &str| {
        Cgi::new(&config, "POST /mcp").with("HTTP_ACCEPT", "application/json, text/event-stream").json(body)
    };
    let older = mcp(&call(json!({}))).with("HTTP_MCP_PROTOCOL_VERSION", "2025-11-25").run().await;
    let newer = mcp(&call(json!({ "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {} })))
    .with("HTTP_MCP_PROTOCOL_VERSION", "2026-07-28")
    .with("HTTP_MCP_METHOD", "tools/call")
    .with("HTTP_MCP_NAME", "get_thing")
    .run()
    .await;
    for response in [older, newer] {
        let body = response.response.json();
        assert_eq!((response.response.status, &body["id"]), (200, &json!(7)), "{response:?}");
        assert_eq!(body["result"]["structuredContent"].to_string(), r#"{"price":1.50}"#);
        assert!(response.log.contains(r#""api":"cgi""#), "{}", response.log);
    }
    let notification = mcp(r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#).run().await;
    assert!(notification.response.head.starts_with("Status: 202 Accepted\n"), "{notification:?}");
    assert!(notification.response.body.is_empty());
}

#[tokio::test]
async fn exactly_the_announced_length_is_read() {
    let upstream = thing().await;
    let config = config(&upstream, "");
    // More input than announced, and open standard input, do not matter.
    let more = Cgi::new(&config, "POST /things/ball").json("{}").input("{}and more").run().await;
    assert_eq!(more.response.status, 200, "{more:?}");
    let less =
        Cgi::new(&config, "POST /things/ball").json("{}").input("{").start().close_input().ended().await;
    assert_eq!(less.response.status, 400, "{less:?}");
    assert!(less.response.json()["error"].is_string());
    // Without a length there is no body, and no wait for one.
    let none = Cgi::new(&config, "POST /things/ball").with("CONTENT_TYPE", "application/json").run().await;
    assert_eq!(none.response.status, 200, "{none:?}");
    // A chunked body is the exception: it ends with the input.
    let chunked = Cgi::new(&config, "POST /things/ball")
        .json(r#"{"size": 8}"#)
        .without("CONTENT_LENGTH")
        .with("HTTP_TRANSFER_ENCODING", "chunked");
    assert_eq!(chunked.start().close_input().ended().await.response.status, 200);
    assert!(upstream.state().requests.last().unwrap().line().contains("size=8"));
}

#[tokio::test]
async fn every_error_is_json_with_its_status() {
    let upstream = thing().await;
    let config = config(&upstream, "    envelope: plain\nserver: { body_limit: 20B }\n");
    let send = |line| Cgi::new(&config, line);
    for (what, request, status) in [
        ("no such path", send("GET /nothing"), 404),
        ("wrong method", send("GET /things/x"), 405),
        ("wrong argument", send("POST /things/x").json(r#"{"size": "big"}"#), 400),
        ("no JSON", send("POST /things/x").json("{"), 400),
        ("too long, and not read", send("POST /things/x").json(&" ".repeat(21)).input(""), 413),
        ("another host", send("GET /tools").with("HTTP_HOST", "evil.example.com"), 403),
        ("a page of another host", send("GET /tools").with("HTTP_ORIGIN", "http://evil.example.com"), 403),
        ("another name of the server", send("GET /tools").with("SERVER_NAME", "evil.example.com"), 403),
        ("no method", send("GET /tools").without("REQUEST_METHOD"), 500),
        ("a strange length", send("POST /things/x").with("CONTENT_LENGTH", "many"), 400),
        ("a path of nothing", send("GET tools"), 400),
    ] {
        let response = request.run().await;
        assert_eq!(response.response.status, status, "{what}: {response:?}");
        assert_eq!(response.response.header("content-type").as_deref(), Some("application/json"), "{what}");
        assert!(response.response.json()["error"].is_string(), "{what}: {response:?}");
    }
    assert_eq!(upstream.state().requests.len(), 0);
}

#[tokio::test]
async fn configuration_problems_are_logged_and_not_sent_to_the_client() {
    let response = Cgi::new("upstreams: { old: 'http://10.1.2.3' }\nrotues: {}\n", "GET /tools").run().await;
    assert_eq!(response.response.status, 500);
    assert!(!response.succeeded);
    assert_eq!(response.response.header("content-type").as_deref(), Some("application/json"));
    assert!(response.response.json()["error"].is_string());
    assert!(response.log.contains("did you mean `routes`?"), "{}", response.log);
    assert!(!response.response.text().contains("rotues"));
}

#[tokio::test]
async fn client_controlled_variables_are_not_available_to_the_configuration() {
    let file = "upstreams: { old: 'http://${HTTP_X_UPSTREAM:-127.0.0.1:9}' }\nroutes: { x: { request: GET old/x } }\n";
    let upstream = thing().await;
    let address = upstream.address.to_string();
    let response = Cgi::new(file, "POST /tools/x").with("HTTP_X_UPSTREAM", &address).run().await;
    assert_eq!(response.response.status, 502, "{response:?}");
    assert_eq!(upstream.state().connections, 0);
    let file = file.replace("HTTP_X_UPSTREAM", "UPSTREAM");
    let response = Cgi::new(&file, "POST /tools/x").with("UPSTREAM", &address).run().await;
    assert_eq!(response.response.status, 200, "{response:?}");
}

#[tokio::test]
async fn published_urls_include_the_script_path() {
    let upstream = thing().await;
    let config = config(&upstream, "");
    let send = |line| Cgi::new(&config, line).with("SCRIPT_NAME", "/cgi-bin/tools");
    let manifest = send("GET /tools").run().await.response.json();
    assert_eq!(manifest[0]["endpoint"], "/cgi-bin/tools/things/{name}");
    let document = send("GET /openapi.json").run().await.response.json();
    assert_eq!(document["servers"], json!([{ "url": "/cgi-bin/tools" }]));
    assert!(document["paths"]["/things/{name}"]["post"].is_object(), "{document}");
    let head = send("HEAD /tools").run().await.response;
    assert_eq!((head.status, head.body.len()), (200, 0));
}

#[tokio::test]
async fn passthrough_responses_are_streamed() {
    let (gate, held) = (Gate::new(), Gate::new());
    let (first, second) = (gate.clone(), held.clone());
    let upstream = Scripted::start(move |_| {
        vec![
            Step::Send(b"HTTP/1.1 200 OK\r\nConnection: close\r\nX-Own: 1\r\n\r\none".to_vec()),
            Step::Hold(first.clone()),
            Step::Send(b"two".to_vec()),
            Step::Hold(second.clone()),
            Step::Close,
        ]
    })
    .await;
    let config = format!("upstreams: {{ old: 'http://{}' }}\npassthrough: old\n", upstream.address);
    let mut running = Cgi::new(&config, "PUT /old page?q=1%202")
        .json("[1]")
        .with("HTTP_CONNECTION", "x-hop")
        .with("HTTP_X_HOP", "1")
        .with("HTTP_PROXY", "http://evil.example.com")
        .with("HTTPS", "on")
        .start();
    let head = running.until("\n\none").await;
    assert!(head.starts_with("Status: 200 OK\n") && head.contains("\nX-Own: 1\n"), "{head}");
    assert!(
        head.contains("\nContent-Type: application/octet-stream\n") && !head.contains("Connection"),
        "{head}"
    );
    gate.open();
    running.until("two").await;
    held.open();
    assert_eq!(running.ended().await.response.text(), "");
    let request = &upstream.state().requests[0];
    assert_eq!(
        (request.line(), request.body.as_slice()),
        ("PUT /old%20page?q=1%202 HTTP/1.1", b"[1]".as_slice())
    );
    for (name, expected) in [
        ("content-length", &["3"][..]),
        ("x-forwarded-for", &["192.0.2.7"]),
        ("x-forwarded-host", &["localhost"]),
        ("x-forwarded-proto", &["https"]),
        ("x-hop", &[]),
        ("proxy", &[]),
    ] {
        assert_eq!(request.header(name), expected, "{name}");
    }
}

#[tokio::test]
async fn a_program_that_is_ended_leaves_its_upstream() {
    let gate = Gate::new();
    let held = gate.clone();
    let upstream = Scripted::start(move |_| vec![Step::Hold(held.clone())]).await;
    let running = Cgi::new(&config(&upstream, ""), "POST /things/x").json("{}").start();
    upstream.until("the request", |state| !state.requests.is_empty()).await;
    running.terminate();
    upstream.until("the end of the connection", |state| state.closed_connections == 1).await;
    assert!(!running.ended().await.succeeded);
}

#[tokio::test]
async fn keys_are_required_and_variables_do_not_authenticate() {
    const KEY: &str = "glk_robot-robot-robot-robot-robot-robot";
    let upstream = thing().await;
    let clients = format!("clients: {{ robot: {{ api_key_hashes: '{}' }} }}\n", ApiKeyHash::from_key(KEY));
    let config = config(&upstream, &clients);
    let send = || Cgi::new(&config, "POST /things/ball");
    let bearer = format!("Bearer {KEY}");
    for (request, status) in [
        (send(), 401),
        (send().with("HTTP_AUTHORIZATION", "Bearer glk_made-up-made-up-made-up"), 401),
        (send().with("QUERY_STRING", &format!("access_token={KEY}")), 401),
        (send().with("REMOTE_USER", "robot").with("AUTH_TYPE", "Bearer"), 401),
        (send().with("SSL_CLIENT_VERIFY", "SUCCESS").with("SSL_CLIENT_S_DN_CN", "robot"), 401),
        (send().with("HTTP_AUTHORIZATION", &bearer).with("HTTP_X_API_KEY", KEY), 400),
        (send().with("HTTP_AUTHORIZATION", &bearer), 200),
        (send().with("HTTP_X_API_KEY", KEY), 200),
    ] {
        let before = upstream.state().requests.len();
        let response = request.run().await;
        assert_eq!(response.response.status, status, "{response:?}");
        assert_eq!(response.response.header("www-authenticate").is_some(), status != 200, "{response:?}");
        assert_eq!(upstream.state().requests.len() > before, status == 200);
        assert_eq!(response.log.contains(r#""client_name":"robot""#), status == 200, "{}", response.log);
        assert!(!format!("{response:?}").contains("glk_"), "{response:?}");
    }
    assert!(upstream.state().requests.iter().all(|request| !request.head.contains("glk_")));
}
