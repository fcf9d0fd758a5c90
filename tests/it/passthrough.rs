//! Passthrough: every other path is streamed to an upstream, unchanged.

use std::{net::TcpListener, time::Duration};

use crate::support::{Gate, Proxy, Scripted, Setup, Step, response, soon};

async fn before(upstream: &Scripted) -> Proxy {
    let mut setup = Setup::new(upstream.address);
    setup.passthrough = true;
    setup.start().await
}

#[tokio::test]
async fn a_request_is_proxied_unchanged_with_forwarded_headers() {
    let upstream = Scripted::answering("HTTP/1.1 418 Teapot\r\nX-Old: a\r\nX-Old: b\r\nConnection: x-hop\r\nX-Hop: 1\r\nX-Request-Id: theirs\r\nSet-Cookie: a=b\r\nContent-Length: 3\r\n\r\nhot").await;
    let proxy = before(&upstream).await;
    let headers = [
        "Cookie: session=1",
        "Accept-Encoding: gzip",
        "X-Forwarded-For: 192.0.2.1",
        "Connection: X-Mine, keep-alive",
        "X-Mine: hop",
        "TE: trailers",
        "Authorization: Basic callers",
    ];
    let response = proxy.send("PATCH /a%2Fb//./c;d?x=%20y&z", &headers, "body").await;
    assert_eq!((response.status, response.text()), (418, "hot"));
    assert_eq!(response.header("x-old").as_deref(), Some("a, b"));
    assert_eq!(response.header("set-cookie").as_deref(), Some("a=b"));
    assert_eq!(response.header("via").as_deref(), Some("1.1 glossator"));
    assert_eq!(response.header("x-hop"), None);
    assert_eq!(response.header("x-request-id").as_deref(), Some("theirs"));

    let state = upstream.state();
    let request = &state.requests[0];
    assert_eq!(request.line(), "PATCH /a%2Fb//./c;d?x=%20y&z HTTP/1.1");
    assert_eq!(request.body, b"body");
    for (name, expected) in [
        ("cookie", "session=1"),
        ("accept-encoding", "gzip"),
        ("authorization", "Basic callers"),
        ("content-length", "4"),
        ("x-forwarded-for", "127.0.0.1"),
        ("x-forwarded-proto", "http"),
        ("via", "1.1 glossator"),
        ("host", &upstream.address.to_string()),
        ("x-forwarded-host", &proxy.address.to_string()),
    ] {
        assert_eq!(request.header(name), [expected], "{name}");
    }
    for absent in ["x-mine", "te", "connection", "transfer-encoding", "user-agent"] {
        assert!(request.header(absent).is_empty(), "{absent} in {}", request.head);
    }
}

#[tokio::test]
async fn a_client_cannot_remove_our_forwarded_headers() {
    let upstream = Scripted::answering(response("200 OK", "text/plain", "ok")).await;
    let proxy = before(&upstream).await;
    proxy.send("GET /a", &["Connection: x-forwarded-for, x-forwarded-host, via, cookie"], "").await;
    let state = upstream.state();
    assert_eq!(state.requests[0].header("x-forwarded-for"), ["127.0.0.1"]);
    assert_eq!(state.requests[0].header("via"), ["1.1 glossator"]);
}

/// Headers that an upstream would trust as a proxy's, or read as a CGI variable.
const WORDS_OF_PROXIES: [&str; 14] = [
    "X-Forwarded-For: 192.0.2.1",
    "X-Real-IP: 192.0.2.1",
    "Client-IP: 192.0.2.1",
    "CF-Connecting-IP: 192.0.2.1",
    "X-Forwarded: for=192.0.2.1",
    "X-Original-Host: other.test",
    "X-Forwarded-Proto: https",
    "X-Forwarded-Host: inside.test",
    "X-Forwarded-Port: 443",
    "X-Forwarded-Server: inside.test",
    "X-Forwarded-Prefix: /admin",
    "X-Original-URL: /admin",
    "X-Rewrite-URL: /admin",
    "Forwarded: for=192.0.2.1",
];

#[tokio::test]
async fn a_client_does_not_lie_about_itself() {
    let upstream = Scripted::answering(response("200 OK", "text/plain", "ok")).await;
    let lies = ["X_Forwarded_For: 192.0.2.1", "X_Real_IP: 192.0.2.1", "Proxy: http://evil.test:1"];
    let headers = [&WORDS_OF_PROXIES[..], &lies].concat();
    before(&upstream).await.send("GET /a", &headers, "").await;
    let mut setup = Setup::new(upstream.address);
    (setup.passthrough, setup.filter.trusted_proxies) = (true, vec!["127.0.0.1/32".parse().unwrap()]);
    setup.start().await.send("GET /a", &headers, "").await;

    let state = upstream.state();
    let [untrusted, trusted] = &state.requests[..] else { panic!("{:?}", state.requests) };
    for header in headers {
        let (name, value) = header.split_once(": ").unwrap();
        let name = name.to_ascii_lowercase();
        let (ours, theirs) = (untrusted.header(&name), trusted.header(&name));
        assert!(!ours.iter().any(|ours| ours.contains(value)), "{name}: {ours:?}");
        match name.as_str() {
            "x-forwarded-for" => {
                assert_eq!((ours, theirs), (vec!["127.0.0.1"], vec!["192.0.2.1, 127.0.0.1"]))
            }
            "x-forwarded-host" | "x-forwarded-proto" => assert_eq!(theirs, [value]),
            "x_forwarded_for" | "x_real_ip" | "proxy" => assert!(ours.is_empty() && theirs.is_empty()),
            _ => assert_eq!((ours, theirs), (Vec::new(), vec![value]), "{name}"),
        }
    }
}

#[tokio::test]
async fn a_path_with_parent_segments_is_rejected() {
    let upstream = Scripted::answering(response("200 OK", "text/plain", "ok")).await;
    let proxy = before(&upstream).await;
    for path in [
        "/a/../b",
        "/..",
        "/%2e%2E/secret",
        "/a/.%2e",
        "/a/..%2fsecret",
        "/a/..%5Csecret",
        "/a/..;/secret",
        "/a/%252e%252e%252fsecret",
        "/a/%c0%ae%c0%ae/secret",
        "/a%00b",
    ] {
        assert_eq!(proxy.send(&format!("GET {path}"), &[], "").await.status, 400, "{path}");
    }
    assert!(upstream.state().requests.is_empty());
}

#[tokio::test]
async fn both_bodies_are_streamed() {
    let gate = Gate::new();
    let held = gate.clone();
    let upstream = Scripted::start(move |_| {
        let first = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nfirst\r\n";
        vec![
            Step::Send(first.into()),
            Step::Hold(held.clone()),
            Step::Send("6\r\nsecond\r\n0\r\n\r\n".into()),
        ]
    })
    .await;
    let proxy = before(&upstream).await;
    let mut client = proxy.connect().await;
    client
        .write("POST /old HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n3\r\none\r\n")
        .await;
    upstream
        .until("the first part has come", |state| {
            state.requests.first().is_some_and(|request| request.body == b"one")
        })
        .await;
    client.write("3\r\ntwo\r\n0\r\n\r\n").await;
    client.read_until("first").await;
    assert_eq!(upstream.state().requests[0].body, b"onetwo");
    gate.open();
    assert_eq!(client.read(false).await.text(), "firstsecond");
}

#[tokio::test]
async fn a_body_larger_than_our_own_limits_crosses() {
    let upstream = Scripted::answering(response("200 OK", "text/plain", &"b".repeat(5 << 20))).await;
    let proxy = before(&upstream).await;
    let response = proxy.send("PUT /old", &[], &"a".repeat(6 << 20)).await;
    assert_eq!((response.status, response.body.len()), (200, 5 << 20));
    assert_eq!(upstream.state().requests[0].body.len(), 6 << 20);
}

#[tokio::test]
async fn our_own_paths_are_not_proxied() {
    let upstream = Scripted::answering(response("200 OK", "text/plain", "old")).await;
    let proxy = before(&upstream).await;
    for path in ["/health", "/tools", "/status", "/mcp", "/mcp/", "/message/"] {
        assert_ne!(proxy.get(path).await.text(), "old", "{path}");
    }
    for path in ["/tools/unknown", "/health/", "/health/x", "/mcp/x", "/message/x/y"] {
        assert_eq!(proxy.get(path).await.status, 404, "{path}");
    }
    assert_eq!(proxy.send("GET /mcp/", &[], "").await.status, 405, "the endpoint itself");
    assert_eq!(upstream.state().requests.len(), 0);
    assert_eq!(proxy.get("/").await.text(), "old");
    assert_eq!(proxy.get("/healthy").await.text(), "old");
    assert_eq!(proxy.get("/status/x").await.text(), "old");
    assert_eq!(proxy.send("HEAD /other", &[], "").await.header("content-length").as_deref(), Some("3"));
}

#[tokio::test]
async fn requests_that_cannot_be_proxied_are_rejected_cleanly() {
    let upstream = Scripted::answering(response("200 OK", "text/plain", "old")).await;
    let proxy = before(&upstream).await;
    let websocket = proxy.send("GET /socket", &["Connection: Upgrade", "Upgrade: websocket"], "").await;
    assert_eq!(websocket.status, 501);
    assert!(websocket.json()["error"].as_str().unwrap().contains("`websocket`"));
    assert_eq!(proxy.send("OPTIONS *", &[], "").await.status, 400);
    assert_eq!(proxy.send("CONNECT example.com:443", &[], "").await.status, 501);
    assert_eq!(upstream.state().requests.len(), 0);
    let h2c = proxy
        .send("GET /", &["Connection: Upgrade, HTTP2-Settings", "Upgrade: h2c", "HTTP2-Settings: AA"], "")
        .await;
    assert_eq!(h2c.text(), "old");
    assert!(upstream.state().requests[0].header("http2-settings").is_empty());
}

#[tokio::test]
async fn an_upstream_that_is_gone_is_a_bad_gateway() {
    let address = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let mut setup = Setup::new(address);
    setup.passthrough = true;
    let response = setup.start().await.get("/old").await;
    assert_eq!((response.status, response.text()), (502, r#"{"error":"the upstream can't be reached"}"#));
}

#[tokio::test]
async fn a_truncated_stream_is_not_completed() {
    let upstream = Scripted::start(|_| {
        vec![
            Step::Send("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nfirst\r\n".into()),
            Step::Close,
        ]
    })
    .await;
    let proxy = before(&upstream).await;
    let mut client = proxy.connect().await;
    client.write("GET /old HTTP/1.1\r\nHost: localhost\r\n\r\n").await;
    let seen = client.read_to_end().await;
    assert!(seen.contains("first") && !seen.ends_with("0\r\n\r\n"), "{seen}");
}

#[tokio::test]
async fn a_head_that_does_not_come_is_a_gateway_timeout() {
    let upstream = Scripted::start(|_| vec![Step::Hold(Gate::new())]).await;
    let mut setup = Setup::new(upstream.address);
    setup.passthrough = true;
    setup.patience.timeout = Duration::from_millis(50);
    let response = setup.start().await.get("/old").await;
    assert_eq!(
        (response.status, response.text()),
        (504, r#"{"error":"the upstream did not respond in time"}"#)
    );
    upstream.until("the upstream is left", |state| state.closed_connections == 1).await;
}

#[tokio::test]
async fn the_deadline_runs_from_the_last_part_of_the_request() {
    let upstream = Scripted::answering(response("200 OK", "text/plain", "old")).await;
    let mut setup = Setup::new(upstream.address);
    setup.passthrough = true;
    setup.patience.timeout = Duration::from_millis(400);
    let proxy = setup.start().await;
    let mut client = proxy.connect().await;
    client.write("POST /old HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n").await;
    for _ in 0..6 {
        // The one wait for a while: the test is that the whole takes longer than the timeout.
        tokio::time::sleep(Duration::from_millis(100)).await;
        client.write("3\r\none\r\n").await;
    }
    client.write("0\r\n\r\n").await;
    assert_eq!(client.read(false).await.text(), "old");
}

#[tokio::test]
async fn a_body_that_pauses_for_too_long_is_broken_off() {
    let upstream = Scripted::start(|_| {
        let first = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nfirst\r\n";
        vec![Step::Send(first.into()), Step::Hold(Gate::new())]
    })
    .await;
    let mut setup = Setup::new(upstream.address);
    setup.passthrough = true;
    setup.patience.idle_timeout = Duration::from_millis(50);
    let proxy = setup.start().await;
    let mut client = proxy.connect().await;
    client.write("GET /old HTTP/1.1\r\nHost: localhost\r\n\r\n").await;
    let seen = client.read_to_end().await;
    assert!(seen.contains("first") && !seen.ends_with("0\r\n\r\n"), "{seen}");
    upstream.until("the upstream is left", |state| state.closed_connections == 1).await;
}

#[tokio::test]
async fn calls_and_passthrough_share_the_concurrency_slots() {
    let gate = Gate::new();
    let held = gate.clone();
    let upstream = Scripted::start(move |_| {
        vec![
            Step::Send("HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\n".into()),
            Step::Hold(held.clone()),
            Step::Send("old".into()),
        ]
    })
    .await;
    let mut setup = Setup::new(upstream.address);
    setup.passthrough = true;
    setup.policy.max_in_flight = Some(1);
    let proxy = setup.start().await;
    let mut client = proxy.connect().await;
    client.write("GET /old HTTP/1.1\r\nHost: localhost\r\n\r\n").await;
    client.read_until("200 OK").await;
    let (busy, call) = tokio::join!(proxy.get("/other"), proxy.call("get_thing", "{}"));
    assert_eq!((busy.status, busy.header("retry-after").as_deref()), (503, Some("2")));
    assert_eq!(call.status, 503);
    gate.open();
    client.read_until("old").await;
    soon("the place is free", async { while proxy.call("get_thing", "{}").await.status != 200 {} }).await;
}

const UPLOAD: &str =
    "POST /old HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n3\r\none\r\n";

#[tokio::test]
async fn an_upload_that_comes_too_slowly_is_broken_off() {
    let upstream = Scripted::answering(response("200 OK", "text/plain", "old")).await;
    let mut setup = Setup::new(upstream.address);
    setup.passthrough = true;
    setup.patience.body_timeout = Duration::from_millis(50);
    let proxy = setup.start().await;
    let mut client = proxy.connect().await;
    client.write(UPLOAD).await;
    let response = soon("a response", client.read(false)).await;
    assert_eq!(response.status, 408);
    assert_eq!(response.text(), r#"{"error":"the request's body arrived too slowly"}"#);
    upstream.until("the upstream is left", |state| state.closed_connections == 1).await;
}

#[tokio::test]
async fn the_time_in_which_a_client_pauses_its_upload_does_not_count_as_the_upstreams() {
    let upstream = Scripted::answering(response("200 OK", "text/plain", "old")).await;
    let mut setup = Setup::new(upstream.address);
    setup.passthrough = true;
    setup.patience.timeout = Duration::from_millis(300);
    let proxy = setup.start().await;
    let mut client = proxy.connect().await;
    client.write(UPLOAD).await;
    tokio::time::sleep(Duration::from_millis(900)).await;
    client.write("0\r\n\r\n").await;
    assert_eq!(soon("a response", client.read(false)).await.status, 200);
}

/// Eight of them used to hold all slots, for as long as they liked.
#[tokio::test]
async fn slow_uploads_leave_slots_to_calls_and_to_other_requests() {
    let upstream = Scripted::answering(response("200 OK", "text/plain", "old")).await;
    let mut setup = Setup::new(upstream.address);
    setup.passthrough = true;
    setup.policy.max_in_flight = Some(4);
    setup.filter.trusted_proxies = vec!["127.0.0.1/32".parse().unwrap()];
    let proxy = setup.start().await;
    let mut slow = Vec::new();
    for _ in 0..8 {
        let mut client = proxy.connect().await;
        client.write(UPLOAD).await;
        slow.push(client);
        upstream.until("the first is passed through", |state| state.requests.len() == 1).await;
    }
    for client in slow.iter_mut().skip(1) {
        client.read_until("HTTP/1.1 429").await;
    }
    assert_eq!(proxy.call("get_thing", "{}").await.status, 200);
    let other = proxy.send("GET /old", &["X-Forwarded-For: 192.0.2.7"], "").await;
    assert_eq!(other.status, 200, "another client");
}
