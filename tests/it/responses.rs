//! HTTP/1 responses, byte for byte, as old servers send them, and invalid ones. Each is either parsed or an
//! error with the reason, and bytes after a response are never parsed as the next one.

use std::time::Duration;

use glossator::policy::OrOff;

use crate::support::{Gate, Scripted, Setup, Step, response, route};

/// Expected outcome of a response.
enum Becomes {
    /// This text, and the connection is reused.
    Text(&'static str),
    /// This text, and the connection is not reused.
    TextAlone(&'static str),
    /// An error with these words.
    Error(&'static str),
}
use Becomes::{Error, Text, TextAlone};

/// Server that sends these bytes to the first request, and a good response to all others.
async fn server(first: Vec<Step>) -> Scripted {
    Scripted::start(move |request| {
        if request.line().contains("/first") {
            first.clone()
        } else {
            vec![Step::Send(response("200 OK", "text/plain", "second"))]
        }
    })
    .await
}

fn setup(upstream: &Scripted) -> Setup {
    let mut setup = Setup::new(upstream.address);
    setup.routes = vec![route("first", "GET /first"), route("second", "GET /second")];
    setup.policy.retry = OrOff::Off;
    setup
}

async fn check(bytes: &[u8], then_closes: bool, expected: Becomes) {
    let shown = String::from_utf8_lossy(bytes).escape_debug().to_string();
    let mut steps = vec![Step::Send(bytes.to_vec())];
    if then_closes {
        steps.push(Step::Close);
    }
    let upstream = server(steps).await;
    let proxy = setup(&upstream).start().await;
    let response = proxy.call("first", "").await;
    let result_text = response.tool_text();
    match expected {
        Text(text) | TextAlone(text) => {
            assert_eq!((response.status, result_text.as_str()), (200, text), "{shown}")
        }
        Error(words) => {
            assert!(response.status == 502 && result_text.contains(words), "{shown}: {result_text}")
        }
    }
    assert_eq!(proxy.call("second", "").await.tool_text(), "second", "{shown}");
    let connections: Vec<_> = upstream.state().requests.iter().map(|request| request.connection).collect();
    let used_again = matches!(expected, Text(_));
    assert_eq!(connections, [0, usize::from(!used_again)], "{shown}");
}

#[tokio::test]
async fn responses_of_old_servers_are_parsed() {
    for (bytes, expected) in [
        ("HTTP/1.1 200 OK\nContent-Type: text/plain\nContent-Length: 2\n\nok", Text("ok")),
        ("HTTP/1.1 200\r\nContent-Type: text/plain\r\nContent-Length: 2\r\n\r\nok", Text("ok")),
        ("HTTP/1.1 200 \r\nContent-Type: text/plain\r\nContent-Length: 2\r\n\r\nok", Text("ok")),
        ("HTTP/1.1 200 OK\r\nContent-Type: text/\r\n plain\r\nContent-Length: 2\r\n\r\nok", Text("ok")),
        (
            "HTTP/1.1 200 OK\r\nX-A: 1\r\nX-A: 2\r\nContent-Length: 2\r\nContent-Length: 2\r\n\r\nok",
            Text("ok"),
        ),
        ("HTTP/1.1 200 OK\r\nContent-Length: 2, 2\r\n\r\nok", Text("ok")),
        ("HTTP/1.1 200 OK\r\nContent-Length : 2\r\n\r\nok", Text("ok")),
        ("HTTP/1.1 200 OK\r\nno header at all\r\nContent-Length: 2\r\n\r\nok", Text("ok")),
        ("HTTP/1.1 200 OK\r\nX-A: \u{e9}\u{e8}\r\nContent-Length: 2\r\n\r\nok", Text("ok")),
        (
            "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early\r\nX: y\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok",
            Text("ok"),
        ),
        (
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: Chunked\r\n\r\n2;a=b\r\nok\r\n0\r\nX-Trailer: 1\r\n\r\n",
            Text("ok"),
        ),
        ("HTTP/1.0 200 OK\r\nConnection: keep-alive\r\nContent-Length: 2\r\n\r\nok", Text("ok")),
    ] {
        check(bytes.as_bytes(), false, expected).await;
    }
    for bytes in [
        "HTTP/1.0 200 OK\r\nContent-Type: text/plain\r\n\r\nok",
        "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\n\r\nok",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: identity\r\n\r\nok",
        "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nok",
    ] {
        check(bytes.as_bytes(), true, TextAlone("ok")).await;
    }
}

#[tokio::test]
async fn a_response_with_two_lengths_is_rejected() {
    for bytes in [
        "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 3\r\n\r\nok!",
        "HTTP/1.1 200 OK\r\nContent-Length: 2, 3\r\n\r\nok!",
        "HTTP/1.1 200 OK\r\nContent-Length: +2\r\n\r\nok",
        "HTTP/1.1 200 OK\r\nContent-Length: -2\r\n\r\nok",
        "HTTP/1.1 200 OK\r\nContent-Length: 0x2\r\n\r\nok",
        "HTTP/1.1 200 OK\r\nContent-Length: 99999999999999999999999\r\n\r\nok",
        "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: x, identity\r\n\r\nok",
        "HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\nok\r\n0\r\n\r\n",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n-2\r\nok\r\n0\r\n\r\n",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nfffffffffffffffff\r\nok\r\n0\r\n\r\n",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok!!0\r\n\r\n",
        "HTTP/1.1 200 OK\r\nX-A: b\0c\r\nContent-Length: 2\r\n\r\nok",
        "HTTP/1.1 200 OK\r\nX-A: b\rc\r\nContent-Length: 2\r\n\r\nok",
        "HTTP/2.0 200 OK\r\nContent-Length: 2\r\n\r\nok",
        "ICY 200 OK\r\n\r\nok",
        "HTTP/1.1 2000 OK\r\n\r\nok",
    ] {
        check(bytes.as_bytes(), false, Error("not valid HTTP")).await;
    }
}

#[tokio::test]
async fn a_truncated_response_is_no_result() {
    for bytes in [
        "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nok",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n9\r\nok",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n",
        "HTTP/1.1 100 Continue\r\n\r\n",
        "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n",
    ] {
        check(bytes.as_bytes(), true, Error("closed the connection")).await;
    }
}

#[tokio::test]
async fn bytes_after_a_response_are_not_the_next_response() {
    let evil = "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 4\r\n\r\nevil";
    for (first, expected) in [
        ("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok", "ok"),
        ("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n", "ok"),
        ("HTTP/1.1 204 No Content\r\n\r\n", ""),
        ("HTTP/1.1 204 No Content\r\nContent-Length: 4\r\n\r\nabcd", ""),
    ] {
        let bytes = format!("{first}{evil}");
        let upstream = server(vec![Step::Send(bytes.into())]).await;
        let proxy = setup(&upstream).start().await;
        let response = proxy.call("first", "").await;
        assert!(
            response.tool_text().contains(expected) && !response.text().contains("evil"),
            "{}",
            response.text()
        );
        for _ in 0..3 {
            assert_eq!(proxy.call("second", "").await.tool_text(), "second", "{first}");
        }
        assert_ne!(upstream.state().requests[1].connection, 0, "{first}");
    }
}

#[tokio::test]
async fn a_body_of_a_204_that_comes_late_is_not_taken_for_the_next_response() {
    for (head, body) in [
        ("HTTP/1.1 204 No Content\r\nContent-Length: 4\r\n\r\n", "abcd"),
        ("HTTP/1.1 204 No Content\r\nTransfer-Encoding: chunked\r\n\r\n", "4\r\nabcd\r\n0\r\n\r\n"),
    ] {
        let gate = Gate::new();
        let steps = vec![Step::Send(head.into()), Step::Hold(gate.clone()), Step::Send(body.into())];
        let upstream = server(steps).await;
        let proxy = setup(&upstream).start().await;
        assert_eq!(proxy.call("first", "").await.status, 200, "{head}");
        let second = proxy.call("second", "").await;
        gate.open();
        assert_eq!(second.tool_text(), "second", "{head}");
        let connections: Vec<_> =
            upstream.state().requests.iter().map(|request| request.connection).collect();
        assert_eq!(connections, [0, 1], "{head}");
    }
}

#[tokio::test]
async fn a_204_without_a_body_leaves_its_connection_for_the_next_call() {
    let no_content = "Done: the service responded with status 204 No Content and no content.";
    check(b"HTTP/1.1 204 No Content\r\n\r\n", false, Text(no_content)).await;
    check(b"HTTP/1.1 204 No Content\r\nContent-Length: 0\r\n\r\n", false, Text(no_content)).await;
}

#[tokio::test]
async fn endless_interim_responses_time_out() {
    let upstream = server(vec![Step::Endlessly(b"HTTP/1.1 100 Continue\r\n\r\n".to_vec())]).await;
    let mut setup = setup(&upstream);
    setup.routes[0].timeout = Duration::from_millis(200);
    let proxy = setup.start().await;
    let response = proxy.call("first", "").await;
    assert!(response.status == 504 && response.tool_text().contains("within 200 ms"), "{}", response.text());
    upstream.until("the connection is closed", |state| state.closed_connections == 1).await;
}

#[tokio::test]
async fn a_proxied_response_has_one_length() {
    let cases: [(&str, u16, &str); 4] = [
        ("HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 2\r\n\r\nok", 200, "ok"),
        ("HTTP/1.1 200 OK\r\nContent-Length: 2, 2\r\n\r\nok", 200, "ok"),
        (
            "HTTP/1.1 200 OK\r\nContent-Length: 9\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n",
            502,
            "can't be parsed",
        ),
        (
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n",
            502,
            "can't be parsed",
        ),
    ];
    for (bytes, status, text) in cases {
        let upstream = server(vec![Step::Send(bytes.into())]).await;
        let mut setup = setup(&upstream);
        setup.passthrough = true;
        let response = setup.start().await.get("/first").await;
        assert!(
            response.status == status && response.text().contains(text),
            "{bytes:?}: {}",
            response.text()
        );
        assert_eq!(response.header("content-length"), Some(response.body.len().to_string()), "{bytes:?}");
        assert_eq!(response.header("transfer-encoding"), None);
    }
}

#[tokio::test]
async fn arguments_make_no_other_request() {
    let upstream = Scripted::answering(response("200 OK", "text/plain", "ok")).await;
    let mut setup = Setup::new(upstream.address);
    setup.routes = vec![route("thing", "GET /things/{which}")];
    let proxy = setup.start().await;
    let hostile = r#"{"which":"a HTTP/1.1\r\nX-Evil: 1\r\n\r\nGET /evil"}"#;
    assert_eq!(proxy.call("thing", hostile).await.tool_text(), "ok");
    let state = upstream.state();
    assert_eq!(state.requests.len(), 1);
    assert_eq!(
        state.requests[0].line(),
        "GET /things/a%20HTTP%2F1.1%0D%0AX-Evil%3A%201%0D%0A%0D%0AGET%20%2Fevil HTTP/1.1"
    );
    assert!(state.requests[0].header("x-evil").is_empty());
}
