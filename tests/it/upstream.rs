//! Upstreams with faults: slow, silent, cut off, too large, not HTTP. Each is its own tool error.

use std::{net::TcpListener, time::Duration};

use glossator::config::{self, Sources};
use glossator::policy::{CircuitBreakerSettings, OrOff};
use http::{HeaderValue, header};
use serde_json::json;

use crate::support::{Gate, Loaded, Response, Scripted, Setup, Step, http_of, response};

/// Checks a tool error with a safe text.
#[track_caller]
fn check_error(response: &Response, status: u16, words: &str) {
    assert_eq!(response.status, status, "{}", response.text());
    assert_eq!(response.json()["isError"], true);
    assert!(response.json().get("structuredContent").is_none());
    let text = response.tool_text();
    assert!(text.contains(words), "{text}");
    for unsafe_word in ["127.0.0.1", "/thing", "old", "hyper", "os error", "tcp"] {
        assert!(!text.contains(unsafe_word), "`{unsafe_word}` in {text}");
    }
    assert_eq!(
        response.json()["_meta"]["glossator/requestId"],
        response.header("x-request-id").unwrap().as_str()
    );
}

async fn answer_of(steps: Vec<Step>) -> Response {
    let upstream = Scripted::start(move |_| steps.clone()).await;
    Setup::new(upstream.address).start().await.call("get_thing", "").await
}

fn send(text: &str) -> Step {
    Step::Send(text.into())
}

#[tokio::test]
async fn an_upstream_response_becomes_a_result() {
    let upstream = Scripted::answering(response("200 OK", "application/json", r#"{"b": 1.0, "a": 2}"#)).await;
    let response = Setup::new(upstream.address).start().await.call("get_thing", "").await;
    assert_eq!(response.status, 200, "{}", response.text());
    assert!(response.text().contains(r#""structuredContent":{"b": 1.0, "a": 2}"#), "{}", response.text());
    assert_eq!(response.json()["isError"], false);
}

#[tokio::test]
async fn a_port_where_nobody_listens_is_an_unreachable_service() {
    let address = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let response = Setup::new(address).start().await.call("get_thing", "").await;
    check_error(&response, 502, "can't be reached");
}

#[tokio::test]
async fn a_host_name_that_leads_nowhere_is_an_unreachable_service() {
    let mut setup = Setup::new("127.0.0.1:1".parse().unwrap());
    setup.upstream.address = "http://no-such-host.invalid".parse().unwrap();
    check_error(&setup.start().await.call("get_thing", "").await, 502, "can't be reached");
}

#[tokio::test]
async fn a_connection_closed_without_a_word_is_a_break() {
    check_error(&answer_of(vec![Step::Close]).await, 502, "closed the connection");
}

#[tokio::test]
async fn a_head_cut_off_is_a_break() {
    check_error(
        &answer_of(vec![send("HTTP/1.1 200 OK\r\nContent-"), Step::Close]).await,
        502,
        "closed the connection",
    );
}

#[tokio::test]
async fn a_body_cut_off_is_a_break_and_no_result() {
    let head = "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 99\r\n\r\n";
    check_error(&answer_of(vec![send(head), send("{}"), Step::Close]).await, 502, "closed the connection");
    let chunked = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n";
    check_error(&answer_of(vec![send(chunked), Step::Close]).await, 502, "closed the connection");
    let broken = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\nhello\r\n";
    check_error(&answer_of(vec![send(broken), Step::Close]).await, 502, "not valid HTTP");
}

#[tokio::test]
async fn a_body_without_length_ends_with_the_connection() {
    let response =
        answer_of(vec![send("HTTP/1.0 200 OK\nContent-Type: text/plain\n\nhello"), Step::Close]).await;
    assert_eq!(response.tool_text(), "hello");
}

#[tokio::test]
async fn other_protocols_are_distinguished_from_http() {
    for words in ["SSH-2.0-OpenSSH_9.2\r\n\r\n", "\u{0}\u{1}\u{2}\u{3}binary\r\n\r\n", "HTTP/1.1 abc\r\n\r\n"]
    {
        check_error(&answer_of(vec![send(words), Step::Close]).await, 502, "not valid HTTP");
    }
    let switched = "HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: x\r\n\r\n";
    check_error(&answer_of(vec![send(switched), Step::Close]).await, 502, "not valid HTTP");
}

#[tokio::test]
async fn a_head_without_end_is_not_read_to_its_end() {
    let steps = vec![
        send("HTTP/1.1 200 OK\r\n"),
        Step::Endlessly(b"X-Filler: aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa\r\n".to_vec()),
    ];
    check_error(&answer_of(steps).await, 502, "headers are too many or too long");
    let steps = vec![send("HTTP/1.1 200 OK\r\nX-Filler: "), Step::Endlessly(vec![b'a'; 1024])];
    check_error(&answer_of(steps).await, 502, "headers are too many or too long");
}

#[tokio::test]
async fn a_body_that_announces_more_than_the_limit_is_not_read() {
    let head = "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 99999999999\r\n\r\n";
    let upstream = Scripted::start(move |_| vec![send(head), Step::Hold(Gate::new())]).await;
    let response = Setup::new(upstream.address).start().await.call("get_thing", "").await;
    check_error(&response, 502, "longer than the limit of 1 MiB");
    upstream.until("the connection is closed", |state| state.closed_connections == 1).await;
}

#[tokio::test]
async fn an_endless_body_is_read_to_the_limit_and_no_further() {
    let steps = vec![
        send("HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\n\r\n"),
        Step::Endlessly(vec![b'a'; 10_000]),
    ];
    check_error(&answer_of(steps).await, 502, "longer than the limit of 1 MiB");
}

#[tokio::test]
async fn a_body_of_exactly_the_limit_is_read() {
    for (size, status) in [(1_usize << 20, 200), ((1 << 20) + 1, 502)] {
        let body = "a".repeat(size);
        let whole = response("200 OK", "text/plain", &body);
        let upstream = Scripted::answering(whole).await;
        let response = Setup::new(upstream.address).start().await.call("get_thing", "").await;
        assert_eq!(response.status, status, "{size}");
        let upstream = Scripted::start(move |_| {
            let chunked = format!(
                "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nTransfer-Encoding: chunked\r\n\r\n{size:x}\r\n{body}\r\n0\r\n\r\n"
            );
            vec![send(&chunked)]
        })
        .await;
        let response = Setup::new(upstream.address).start().await.call("get_thing", "").await;
        assert_eq!(response.status, status, "{size} chunked");
    }
}

#[tokio::test]
async fn a_silent_or_trickling_upstream_meets_the_deadline() {
    let silent = vec![Step::Hold(Gate::new())];
    let half = vec![send("HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhalf"), Step::Hold(Gate::new())];
    for steps in [silent, half] {
        let upstream = Scripted::start(move |_| steps.clone()).await;
        let mut setup = Setup::new(upstream.address);
        setup.routes[0].timeout = Duration::from_millis(50);
        let response = setup.start().await.call("get_thing", "").await;
        check_error(&response, 504, "within 50 ms");
        upstream.until("the connection is closed", |state| state.closed_connections == 1).await;
    }
}

#[tokio::test]
async fn a_call_without_a_slot_gets_retry_after() {
    let (upstream, gate) = Scripted::holding(response("200 OK", "text/plain", "done")).await;
    let mut setup = Setup::new(upstream.address);
    setup.policy.max_in_flight = Some(1);
    let proxy = setup.start().await;
    let first = proxy.call("get_thing", "");
    let second = async {
        upstream.until("the first call is in flight", |state| state.requests.len() == 1).await;
        let second = proxy.call("get_thing", "").await;
        gate.open();
        second
    };
    let (first, second) = tokio::join!(first, second);
    assert_eq!(first.tool_text(), "done");
    check_error(&second, 503, "busy");
    assert_eq!(second.header("retry-after").as_deref(), Some("2"));
    assert_eq!(upstream.state().requests.len(), 1, "nothing was sent");
}

/// A model must not be sent to check for an effect if nothing was sent.
#[tokio::test]
async fn a_call_that_was_never_sent_says_so() {
    let (upstream, gate) = Scripted::holding(response("200 OK", "text/plain", "done")).await;
    let mut setup = Setup::new(upstream.address);
    let mut make = crate::support::route("make_thing", "POST /thing");
    make.timeout = Duration::from_millis(50);
    setup.routes.push(make);
    setup.policy.max_in_flight = Some(1);
    let proxy = setup.start().await;
    let first = proxy.call("get_thing", "");
    let second = async {
        upstream.until("the first call is in flight", |state| state.requests.len() == 1).await;
        let second = proxy.call("make_thing", "").await;
        gate.open();
        second
    };
    let (first, second) = tokio::join!(first, second);
    assert_eq!(first.tool_text(), "done");
    check_error(&second, 504, "No request was sent");
    assert!(!second.text().contains("effect"), "{}", second.text());
    assert_eq!(upstream.state().requests.len(), 1);
}

/// The same while the connection, or the session with an MCP server, is not open yet.
#[tokio::test]
async fn a_call_that_is_still_connecting_says_that_nothing_was_sent() {
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let text = format!(
        "upstreams: {{ tls: 'https://{0}', mcp: {{ mcp: 'http://{0}/mcp' }} }}
routes:
  over_tls: {{ description: x, request: POST tls/thing, timeout: 200ms }}
  over_mcp: {{ description: x, request: CALL mcp/thing, timeout: 200ms }}
",
        silent.local_addr().unwrap()
    );
    let loaded =
        config::load(&Sources::from_text("a.yaml", text)).unwrap_or_else(|problems| panic!("{problems}"));
    let served = Loaded::start(&loaded).await;
    for tool in ["over_tls", "over_mcp"] {
        let line = format!("POST /tools/{tool}");
        let response = served.connect().await.send(&line, &["Content-Type: application/json"], "{}").await;
        check_error(&response, 504, "No request was sent within 200 ms");
        assert!(!response.text().contains("effect"), "{}", response.text());
    }
}

/// A silent upstream that has received the request is another matter.
#[tokio::test]
async fn a_post_that_was_written_and_timed_out_may_have_taken_effect() {
    let upstream = Scripted::start(|_| vec![Step::Hold(Gate::new())]).await;
    let mut setup = Setup::new(upstream.address);
    let mut make = crate::support::route("make_thing", "POST /thing");
    make.timeout = Duration::from_millis(50);
    setup.routes.push(make);
    let response = setup.start().await.call("make_thing", "").await;
    check_error(&response, 504, "The request may have taken effect");
}

#[tokio::test]
async fn connections_are_used_again_and_a_dead_one_is_replaced() {
    let upstream = Scripted::start(|request| {
        let mut steps = vec![Step::Send(response("200 OK", "text/plain", "ok"))];
        if request.header("connection").is_empty() && request.line().contains("last") {
            steps.push(Step::Close);
        }
        steps
    })
    .await;
    let mut setup = Setup::new(upstream.address);
    setup.routes = vec![crate::support::route("get_thing", "GET /{which}")];
    let proxy = setup.start().await;
    for which in ["a", "b", "last", "d", "last", "f"] {
        let response = proxy.call("get_thing", &format!(r#"{{"which":"{which}"}}"#)).await;
        assert_eq!(response.tool_text(), "ok");
    }
    let connections: Vec<_> = upstream.state().requests.iter().map(|request| request.connection).collect();
    assert_eq!(connections, [0, 0, 0, 1, 1, 2]);
}

#[tokio::test]
async fn an_upstream_gets_the_configured_headers_only() {
    let upstream = Scripted::answering(response("200 OK", "text/plain", "ok")).await;
    let mut setup = Setup::new(upstream.address);
    setup.upstream.address = format!("http://{}/base/", upstream.address).parse().unwrap();
    setup.upstream.headers.insert(header::AUTHORIZATION, HeaderValue::from_static("Bearer secret"));
    http_of(&mut setup.routes[0]).forwarded =
        vec![header::AUTHORIZATION, header::COOKIE, header::ACCEPT_LANGUAGE];
    let headers = ["Authorization: Basic callers", "Accept-Language: nb", "X-Other: no", "Cookie: a=b"];
    let response = setup.start().await.send("POST /tools/get_thing", &headers, "").await;
    assert_eq!(response.status, 200);
    let state = upstream.state();
    let request = &state.requests[0];
    assert_eq!(request.line(), "GET /base/thing HTTP/1.1");
    assert_eq!(request.header("authorization"), ["Bearer secret"]);
    assert_eq!(request.header("accept-language"), ["nb"]);
    assert_eq!(request.header("cookie"), ["a=b"]);
    assert_eq!(request.header("accept-encoding"), ["identity"]);
    assert_eq!(request.header("host"), [upstream.address.to_string()]);
    assert!(request.header("user-agent")[0].starts_with("glossator/"));
    for absent in ["x-other", "x-request-id", "connection", "content-length", "transfer-encoding"] {
        assert!(request.header(absent).is_empty(), "{absent} in {}", request.head);
    }
}

#[tokio::test]
async fn a_route_may_request_compression_and_the_response_is_decompressed() {
    let mut compressed =
        b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Encoding: br\r\nContent-Length: 10\r\n\r\n"
            .to_vec();
    compressed.extend(b"\x8f\x02\x80hello\n\x03");
    let upstream = Scripted::answering(compressed).await;
    let mut setup = Setup::new(upstream.address);
    setup.upstream.headers.insert(header::ACCEPT_ENCODING, HeaderValue::from_static("br"));
    let response = setup.start().await.call("get_thing", "").await;
    assert_eq!(response.tool_text(), "hello\n");
    assert_eq!(upstream.state().requests[0].header("accept-encoding"), ["br"]);
}

#[tokio::test]
async fn redirects_are_followed_on_their_own_origin_and_only_when_allowed() {
    let elsewhere = Scripted::answering(response("200 OK", "text/plain", "stolen")).await;
    let away =
        format!("HTTP/1.1 302 Found\r\nLocation: http://{}/\r\nContent-Length: 0\r\n\r\n", elsewhere.address);
    let upstream = Scripted::start(move |request| {
        let to =
            |place: &str| format!("HTTP/1.1 302 Found\r\nLocation: {place}\r\nContent-Length: 4\r\n\r\ngone");
        vec![Step::Send(match request.line().split(' ').nth(1).unwrap() {
            "/thing" => to("/second").into(),
            "/second" => to("third?x=1").into(),
            "/third?x=1" => response("200 OK", "text/plain", "found"),
            "/away" => away.clone().into(),
            _ => to("/loop").into(),
        })]
    })
    .await;
    for (redirects, request, expected) in [
        (2, "GET /thing", Some("found")),
        (1, "GET /thing", None),
        (0, "GET /thing", None),
        (9, "GET /away", None),
        (9, "GET /loop", None),
        (9, "POST /thing", None),
    ] {
        let mut setup = Setup::new(upstream.address);
        setup.upstream.max_redirects = redirects;
        setup.routes = vec![crate::support::route("get_thing", request)];
        let response = setup.start().await.call("get_thing", "").await;
        match expected {
            Some(text) => assert_eq!(response.tool_text(), text),
            None => {
                assert_eq!((response.status, &response.json()["isError"]), (502, &json!(true)), "{request}")
            }
        }
    }
    assert_eq!(elsewhere.state().connections, 0);
}

/// A retry, the circuit breaker and their texts, over real sockets. Waits are tested under a paused clock.
#[tokio::test]
async fn a_transient_failure_is_retried_and_a_lasting_one_opens_the_circuit() {
    let upstream = Scripted::start(|request| match (request.line().starts_with("GET"), request.connection) {
        (true, 0) => vec![Step::Close],
        (true, 1) => {
            vec![send("HTTP/1.1 503 Busy\r\nConnection: close\r\nContent-Length: 0\r\n\r\n"), Step::Close]
        }
        (true, 2) => vec![Step::Send(response("200 OK", "text/plain", "here")), Step::Close],
        _ => vec![Step::Close],
    })
    .await;
    let mut setup = Setup::new(upstream.address);
    setup.routes.push(crate::support::route("make_thing", "POST /thing"));
    let settings = CircuitBreakerSettings { consecutive_failures: 3, ..CircuitBreakerSettings::default() };
    setup.policy.circuit_breaker = OrOff::On(settings);
    let proxy = setup.start().await;
    let response = proxy.call("get_thing", "").await;
    assert_eq!((response.status, response.tool_text().as_str()), (200, "here"), "{}", response.text());
    assert_eq!(upstream.state().requests.len(), 3);
    // A request that may have had its effect is sent once.
    for _ in 0..3 {
        check_error(&proxy.call("make_thing", "").await, 502, "may have taken effect");
    }
    assert_eq!(upstream.state().requests.len(), 6);
    let resting = proxy.call("get_thing", "").await;
    check_error(
        &resting,
        503,
        "temporarily unavailable after repeated failures. No request was sent. Retry in",
    );
    assert_eq!(upstream.state().requests.len(), 6);
}

/// Server that closes every connection without a response at the second request.
async fn closing_on_the_second() -> Scripted {
    let served = std::sync::Mutex::new(std::collections::HashSet::new());
    Scripted::start(move |request| match served.lock().unwrap().insert(request.connection) {
        true => vec![Step::Send(response("200 OK", "text/plain", "yes"))],
        false => vec![Step::Close],
    })
    .await
}

#[tokio::test]
async fn a_closed_idle_connection_is_retried_for_idempotent_requests() {
    let upstream = closing_on_the_second().await;
    let mut setup = Setup::new(upstream.address);
    setup.policy.retry = OrOff::Off;
    setup.routes.push(crate::support::route("make_thing", "POST /thing"));
    let proxy = setup.start().await;
    for _ in 0..5 {
        assert_eq!(proxy.call("get_thing", "").await.tool_text(), "yes");
    }
    let before = upstream.state().requests.len();
    // The connection is reused, and a request with an effect may have had it.
    check_error(
        &proxy.call("make_thing", "").await,
        502,
        "closed the connection before its response was complete",
    );
    assert_eq!(upstream.state().requests.len(), before + 1);
    assert_eq!(proxy.call("make_thing", "").await.tool_text(), "yes");
}

#[tokio::test]
async fn a_server_that_closes_a_new_connection_has_failed() {
    let upstream = Scripted::start(|_| vec![Step::Close]).await;
    let mut setup = Setup::new(upstream.address);
    setup.policy.retry = OrOff::Off;
    check_error(&setup.start().await.call("get_thing", "").await, 502, "closed the connection");
    assert_eq!(upstream.state().requests.len(), 1);
}
