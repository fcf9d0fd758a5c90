//! Attacks by a client: request smuggling, endless headers, idle connections, path traversal, header
//! injection.

use std::time::Duration;

use glossator::config::{self, Sources};
use serde_json::json;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
};

use crate::support::{Client, Loaded, Proxy, RouteExt, Scripted, Setup, response, route, soon};

/// The program in front of a server that always succeeds, with passthrough.
async fn handing_through() -> (Proxy, Scripted) {
    let upstream = Scripted::answering(response("200 OK", "text/plain", "well")).await;
    let mut setup = Setup::new(upstream.address);
    setup.passthrough = true;
    (setup.start().await, upstream)
}

const HIDDEN: &str = "GET /hidden HTTP/1.1\r\nHost: localhost\r\n\r\n";

/// Checks that an ambiguous request is rejected and the connection closed: nothing after it is parsed as a
/// request, and the upstream receives nothing.
async fn check_rejected(what: &str, head: &str, body: &str) {
    let (proxy, upstream) = handing_through().await;
    for line in ["POST /open HTTP/1.1", "POST /tools/get_thing HTTP/1.1", "POST /mcp HTTP/1.1"] {
        let mut client = proxy.connect().await;
        client.write(format!("{line}\r\nHost: localhost\r\n{head}\r\n{body}{HIDDEN}")).await;
        let received = soon(what, client.read_to_end()).await;
        assert_eq!(received.matches("HTTP/1.1 ").count(), 1, "{what}: {line}: {received}");
        assert!(received.starts_with("HTTP/1.1 4"), "{what}: {line}: {received}");
    }
    assert!(upstream.state().requests.is_empty(), "{what}: {:?}", upstream.state().requests);
}

#[tokio::test]
async fn a_request_with_two_lengths_is_rejected() {
    let cases = [
        ("two lengths", "Content-Length: 5\r\nContent-Length: 0\r\n", "hello"),
        ("lengths in a list", "Content-Length: 5, 0\r\n", "hello"),
        ("a length with a sign", "Content-Length: +5\r\n", "hello"),
        ("a length that is none", "Content-Length: 0x5\r\n", "hello"),
        ("a length beyond all", "Content-Length: 99999999999999999999\r\n", "hello"),
        ("chunks that are not last", "Transfer-Encoding: chunked, identity\r\n", "0\r\n\r\n"),
        ("chunks by another name", "Transfer-Encoding: xchunked\r\n", "0\r\n\r\n"),
        ("a space before the colon", "Content-Length : 5\r\n", "hello"),
        ("chunks, said twice", "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n", "0\r\n\r\n"),
        ("chunks of chunks", "Transfer-Encoding: chunked, chunked\r\n", "0\r\n\r\n"),
        ("a line feed alone", "X-A: b\nContent-Length: 5\r\n", "hello"),
        ("a line feed alone before the end", "Content-Length: 5\r\nX-A: b\n", "hello"),
        ("a line feed for an end", "Content-Length: 0\r\n\n", ""),
        ("a folded header", "X-A: b\r\n Content-Length: 5\r\n", ""),
        ("a header without a name", ": 5\r\n", ""),
        ("a NUL in a header", "X-A: b\0c\r\n", ""),
        ("a carriage return in a header", "X-A: b\rContent-Length: 5\r\n", ""),
    ];
    for (what, head, body) in cases {
        check_rejected(what, head, body).await;
    }
}

/// RFC 9112, section 6.1: the body may be read by its chunks, but the connection must then be closed.
#[tokio::test]
async fn a_length_beside_chunks_is_ignored_and_closes_the_connection() {
    let (proxy, upstream) = handing_through().await;
    for head in [
        "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n",
        "Transfer-Encoding: chunked\r\nContent-Length: 5\r\n",
        "Content-Length: 60\r\nTransfer-Encoding: chunked\r\n",
    ] {
        let mut client = proxy.connect().await;
        client.write(format!("POST /open HTTP/1.1\r\nHost: localhost\r\n{head}\r\n0\r\n\r\n{HIDDEN}")).await;
        let received = soon(head, client.read_to_end()).await;
        assert_eq!(received.matches("HTTP/1.1 ").count(), 1, "{received}");
        assert!(received.contains("connection: close"), "{received}");
    }
    let requests = upstream.state().requests;
    assert_eq!(requests.len(), 3);
    for request in requests {
        assert!(request.line().starts_with("POST /open") && request.body.is_empty(), "{request:?}");
        assert!(
            request.header("content-length").is_empty() || request.header("transfer-encoding").is_empty(),
            "{request:?}"
        );
    }
}

#[tokio::test]
async fn chunks_that_are_none_end_the_connection() {
    let (proxy, upstream) = handing_through().await;
    let extension = format!("1;{}\r\nx\r\n", "a".repeat(100_000));
    let cases = [
        ("a size that is none", "zz\r\nhello\r\n"),
        ("a size beyond all", "FFFFFFFFFFFFFFFFF\r\nhello\r\n"),
        ("a size with a sign", "-1\r\nhello\r\n"),
        ("a chunk that goes on", "2\r\nhello\r\n"),
        ("an extension with a line feed alone", "3;a\nbcd\r\nxyz\r\n"),
        ("an extension without end", extension.as_str()),
    ];
    for (what, chunk) in cases {
        for line in ["POST /open HTTP/1.1", "POST /tools/get_thing HTTP/1.1", "POST /mcp HTTP/1.1"] {
            let mut client = proxy.connect().await;
            let head = "Host: localhost\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n";
            client.write(format!("{line}\r\n{head}\r\n{chunk}0\r\n\r\n{HIDDEN}")).await;
            let received = soon(what, client.read_to_end()).await;
            assert!(!received.contains("well"), "{what}: {line}: {received}");
        }
    }
    let requests = upstream.state().requests;
    assert!(requests.iter().all(|request| request.line().starts_with("POST /open")), "{requests:?}");
}

/// A transfer coding that is not undone must be neither taken for the body nor forwarded.
#[tokio::test]
async fn a_body_with_a_transfer_encoding_is_rejected() {
    let (proxy, upstream) = handing_through().await;
    for line in ["POST /open", "POST /tools/get_thing", "POST /mcp"] {
        let mut client = proxy.connect().await;
        let head = "Host: localhost\r\nContent-Type: application/json\r\nAccept: application/json, text/event-stream\r\n";
        let body = "Transfer-Encoding: gzip, chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n";
        client.write(format!("{line} HTTP/1.1\r\n{head}{body}")).await;
        assert_eq!(soon(line, client.read(false)).await.status, 501, "{line}");
    }
    assert!(upstream.state().requests.is_empty());
}

/// A proxy in front may have checked the other `Host`.
#[tokio::test]
async fn a_request_names_one_host() {
    let (proxy, upstream) = handing_through().await;
    for (head, status) in [
        ("GET /open HTTP/1.1\r\nHost: localhost\r\nHost: evil.test\r\n\r\n", 400),
        ("GET /open HTTP/1.1\r\nHost: localhost\r\nHost: localhost\r\n\r\n", 400),
        ("GET http://evil.test/open HTTP/1.1\r\nHost: localhost\r\n\r\n", 400),
        ("GET http://localhost/open HTTP/1.1\r\nHost: evil.test\r\n\r\n", 400),
        ("GET http://evil.test/open HTTP/1.1\r\nHost: evil.test\r\n\r\n", 403),
        ("GET http://evil.test/mcp HTTP/1.1\r\nHost: localhost\r\n\r\n", 400),
        ("GET /open HTTP/1.1\r\nHost: localhost, evil.test\r\n\r\n", 400),
        ("GET /open HTTP/1.1\r\n\r\n", 400),
        ("GET /open HTTP/1.0\r\n\r\n", 403),
    ] {
        let mut client = proxy.connect().await;
        client.write(head).await;
        assert_eq!(soon(head, client.read(false)).await.status, status, "{head}");
    }
    assert!(upstream.state().requests.is_empty());
    let mut client = proxy.connect().await;
    client.write("GET http://localhost/open HTTP/1.1\r\nHost: localhost\r\n\r\n").await;
    assert_eq!(soon("one host, said twice", client.read(false)).await.status, 200);
}

/// Probes use the address of a machine, so any single host is accepted.
#[tokio::test]
async fn a_probe_names_one_host_whichever_it_is() {
    let (proxy, _upstream) = handing_through().await;
    for (head, status) in [
        ("GET /health HTTP/1.1\r\nHost: 10.1.2.3:8080\r\n\r\n", 200),
        ("GET /health HTTP/1.1\r\nHost: anything.test\r\n\r\n", 200),
        ("GET /health HTTP/1.1\r\nHost: [fd00::1]\r\n\r\n", 200),
        ("GET http://anything.test/health HTTP/1.1\r\nHost: anything.test\r\n\r\n", 200),
        ("GET /health HTTP/1.0\r\n\r\n", 200),
        ("GET /health HTTP/1.1\r\n\r\n", 400),
        ("GET /health HTTP/1.1\r\nHost:\r\n\r\n", 400),
        ("GET /health HTTP/1.1\r\nHost: a.test\r\nHost: a.test\r\n\r\n", 400),
        ("GET /health HTTP/1.1\r\nHost: a.test, b.test\r\n\r\n", 400),
        ("GET /health HTTP/1.1\r\nHost: a.test/b\r\n\r\n", 400),
        ("GET /health HTTP/1.1\r\nHost: user@a.test\r\n\r\n", 400),
        ("GET /health HTTP/1.1\r\nHost: a.test:99999\r\n\r\n", 400),
        ("GET /health HTTP/1.1\nHost: a.test\r\n\r\n", 400),
    ] {
        let mut client = proxy.connect().await;
        client.write(head).await;
        assert_eq!(soon(head, client.read(false)).await.status, status, "{head}");
    }
}

/// Bytes after a body are parsed as the next request, and bytes within it are not.
#[tokio::test]
async fn a_line_feed_in_a_body_is_no_line() {
    let (proxy, upstream) = handing_through().await;
    let mut client = proxy.connect().await;
    let body = "a\nGET / HTTP/1.1\nb\n";
    client
        .write(format!("POST /a HTTP/1.1\r\nHost: localhost\r\nContent-Length: {}\r\n\r\n{body}", body.len()))
        .await;
    assert_eq!(soon("a length", client.read(false)).await.status, 200);
    let chunked = format!("Transfer-Encoding: chunked\r\n\r\n{:x}\r\n{body}\r\n0\r\n\r\n", body.len());
    client.write(format!("POST /b HTTP/1.1\r\nHost: localhost\r\n{chunked}")).await;
    assert_eq!(soon("chunks", client.read(false)).await.status, 200);
    client.write("GET /c HTTP/1.1\r\nHost: localhost\nX-A: b\r\n\r\n").await;
    assert_eq!(soon("a line feed alone", client.read(false)).await.status, 400);
    assert!(client.is_closed().await);
    let requests = upstream.state().requests;
    assert_eq!(
        requests.iter().map(|request| request.body.as_slice()).collect::<Vec<_>>(),
        [body.as_bytes(); 2]
    );
}

/// Images, scripts and links on other pages send no `Origin`; browsers report their origin in another header.
#[tokio::test]
async fn a_foreign_page_can_not_send_calls() {
    let upstream = Scripted::answering(response("200 OK", "text/plain", "well")).await;
    let mut setup = Setup::new(upstream.address);
    setup.passthrough = true;
    setup.routes = vec![route("thing", "GET /things/{which}").with_endpoint("GET /thing/{which}")];
    let proxy = setup.start().await;
    let elsewhere = "Sec-Fetch-Site: cross-site";
    let image = [elsewhere, "Sec-Fetch-Mode: no-cors", "Sec-Fetch-Dest: image"];
    let link = [elsewhere, "Sec-Fetch-Mode: navigate", "Sec-Fetch-Dest: document"];
    let frame = [elsewhere, "Sec-Fetch-Mode: navigate", "Sec-Fetch-Dest: iframe"];
    let named = [elsewhere, "Sec-Fetch-Dest: image", "Referer: https://evil.test/localhost"];
    let no_origin = [elsewhere, "Sec-Fetch-Dest: image", "Referer: http:?#localhost:3000/page"];
    let sibling = ["Sec-Fetch-Site: same-site", "Sec-Fetch-Mode: no-cors", "Sec-Fetch-Dest: script"];
    for headers in [&image, &frame, &named, &no_origin, &sibling] {
        for path in ["/thing/1", "/old/page", "/tools"] {
            let response = proxy.send(&format!("GET {path}"), headers, "").await;
            assert_eq!(response.status, 403, "{path} {headers:?}: {}", response.text());
        }
    }
    assert_eq!(proxy.send("GET /thing/1", &link, "").await.status, 403, "a link calls nothing");
    assert!(upstream.state().requests.is_empty());
    assert_eq!(proxy.send("GET /old/page", &link, "").await.status, 200, "what is handed through has links");
    let ours = ["Sec-Fetch-Site: same-origin", "Sec-Fetch-Mode: no-cors", "Sec-Fetch-Dest: image"];
    assert_eq!(proxy.send("GET /thing/1", &ours, "").await.status, 200);
    let typed = ["Sec-Fetch-Site: none", "Sec-Fetch-Mode: navigate", "Sec-Fetch-Dest: document"];
    assert_eq!(proxy.send("GET /thing/1", &typed, "").await.status, 200);
    let here = ["Sec-Fetch-Site: same-site", "Sec-Fetch-Dest: image", "Referer: http://localhost:3000/page"];
    assert_eq!(
        proxy.send("GET /thing/1", &here, "").await.status,
        200,
        "a page of this machine, as with `Origin`"
    );
}

#[tokio::test]
async fn unfinished_bodies_do_not_block_other_clients() {
    let upstream = Scripted::answering(response("200 OK", "text/plain", "well")).await;
    let mut setup = Setup::new(upstream.address);
    setup.filter.body_limit_bytes = 200 << 10;
    setup.filter.request_buffer_limit_bytes = 600 << 10;
    let proxy = setup.start().await;
    let head = format!(
        "POST /tools/get_thing HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n",
        200 << 10
    );
    // Each client sends most of its body and never the rest. The buffer has memory for three.
    let mut clients = tokio::task::JoinSet::new();
    for _ in 0..5 {
        let mut client = proxy.connect().await;
        client.write(&head).await;
        client.write(" ".repeat(199 << 10)).await;
        clients.spawn(async move { client.read(false).await });
    }
    let response = soon("that there is no room", clients.join_next()).await.unwrap().unwrap();
    assert_eq!(response.status, 503, "{}", response.text());
    assert_eq!(response.header("retry-after").as_deref(), Some("2"));
    assert_eq!(soon("a short call", proxy.call("get_thing", "{}")).await.tool_text(), "well");
    clients.shutdown().await;
    let padded = format!("{}{{}}", " ".repeat(150 << 10));
    while soon("room again", proxy.call("get_thing", &padded)).await.status == 503 {}
    assert_eq!(proxy.call("get_thing", &padded).await.tool_text(), "well");
}

/// A body stays in memory while a slow server works on it.
#[tokio::test]
async fn bodies_count_until_their_calls_are_answered() {
    let (upstream, gate) = Scripted::holding(response("200 OK", "text/plain", "well")).await;
    let mut setup = Setup::new(upstream.address);
    setup.filter.body_limit_bytes = 200 << 10;
    setup.filter.request_buffer_limit_bytes = 200 << 10;
    let proxy = setup.start().await;
    let long = format!("{}{{}}", " ".repeat(190 << 10));
    let first = proxy.call("get_thing", &long);
    let second = async {
        upstream.until("the first call is in flight", |state| state.requests.len() == 1).await;
        let second = proxy.call("get_thing", &long).await;
        let headers = ["Content-Type: application/json", "Accept: application/json, text/event-stream"];
        let by_mcp = proxy.send("POST /mcp", &headers, &long).await;
        gate.open();
        [second, by_mcp]
    };
    let (first, rejected) = tokio::join!(first, second);
    assert_eq!(first.tool_text(), "well");
    for response in rejected {
        assert_eq!(
            (response.status, response.header("retry-after").as_deref()),
            (503, Some("2")),
            "{}",
            response.text()
        );
    }
}

/// A tree of small values takes many times the memory of its text.
#[tokio::test]
async fn arguments_count_until_their_calls_are_answered() {
    let (upstream, gate) = Scripted::holding(response("200 OK", "text/plain", "well")).await;
    let mut setup = Setup::new(upstream.address);
    setup.filter.request_buffer_limit_bytes = 1 << 20;
    let proxy = setup.start().await;
    let many = format!(r#"{{"v":[{}0]}}"#, r#"{"":0},"#.repeat(3000));
    let message = format!(
        r#"{{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{{"name":"get_thing","arguments":{many}}}}}"#
    );
    let first = proxy.call("get_thing", &many);
    let others = async {
        upstream.until("the first call is in flight", |state| state.requests.len() == 1).await;
        let second = proxy.call("get_thing", &many).await;
        let headers = ["Content-Type: application/json", "Accept: application/json, text/event-stream"];
        let by_mcp = proxy.send("POST /mcp", &headers, &message).await;
        let query = format!("POST /tools/get_thing?{}", "v&".repeat(3000));
        let by_query = proxy.send(&query, &[], "").await;
        gate.open();
        [second, by_mcp, by_query]
    };
    let (first, rejected) = tokio::join!(first, others);
    assert_eq!(first.tool_text(), "well");
    for response in rejected {
        assert_eq!((response.status, response.header("retry-after").as_deref()), (503, Some("2")));
        assert!(response.text().contains("buffer for requests is full"), "{}", response.text());
    }
}

/// Two million numbers in 4 MB would take 150 MB in memory.
#[tokio::test]
async fn arguments_with_too_many_values_are_rejected() {
    let (proxy, upstream) = handing_through().await;
    let many = format!("[{}1]", "1,".repeat(100_000));
    let response = proxy.call("get_thing", &format!(r#"{{"v": {many}}}"#)).await;
    assert_eq!(response.status, 400);
    assert!(response.text().contains("at most 100000 values"), "{}", response.text());
    let parameters = format!(r#"{{"name":"get_thing","arguments":{{"v":{many}}}}}"#);
    let message = format!(r#"{{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{parameters}}}"#);
    let accept = "Accept: application/json, text/event-stream";
    for revision in ["2025-06-18", "2026-07-28"] {
        let revision = format!("MCP-Protocol-Version: {revision}");
        let headers = ["Content-Type: application/json", accept, &revision];
        let response = proxy.send("POST /mcp", &headers, &message).await;
        assert!(response.text().contains("at most 100000 values"), "{}", response.text());
    }
    assert!(upstream.state().requests.is_empty());
    // Values within a string do not count.
    let text = format!(r#"{{"v": "{}"}}"#, "1,[{".repeat(100_000));
    assert_eq!(proxy.call("get_thing", &text).await.tool_text(), "well");
}

#[tokio::test]
async fn idle_connections_are_evicted_for_new_ones() {
    let (proxy, _upstream) = {
        let upstream = Scripted::answering(response("200 OK", "text/plain", "well")).await;
        let mut setup = Setup::new(upstream.address);
        setup.server.max_connections = 32;
        (setup.start().await, upstream)
    };
    let mut clients = Vec::new();
    for number in 0..200 {
        let mut client = proxy.connect().await;
        let partial = "Host: localhost\r\nContent-Type: application/json\r\nContent-Length: 100\r\n\r\n{";
        match number % 5 {
            0 => {}
            1 => client.write("POST /mcp HTTP/1.1\r\nHo").await,
            2 => client.write(&format!("POST /tools/get_thing HTTP/1.1\r\n{partial}")).await,
            3 => client.write(&format!("POST /mcp HTTP/1.1\r\n{partial}")).await,
            _ => assert_eq!(soon("a place", client.send("GET /health", &[], "")).await.status, 200),
        }
        clients.push(client);
    }
    for _ in 0..10 {
        assert_eq!(soon("a call in a crowd", proxy.call("get_thing", "{}")).await.tool_text(), "well");
    }
    assert!(clients[0].is_closed().await, "who came first and never asked");
}

#[tokio::test]
async fn connections_with_a_request_are_not_evicted() {
    let (upstream, gate) = Scripted::holding(response("200 OK", "text/plain", "well")).await;
    let mut setup = Setup::new(upstream.address);
    setup.server.max_connections = 8;
    let proxy = setup.start().await;
    let mut calls = Vec::new();
    for number in 1..=4 {
        let mut client = proxy.connect().await;
        let head = "POST /tools/get_thing HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n";
        client.write(&format!("{head}Content-Length: 2\r\n\r\n")).await;
        // The body arrives in parts, as most bodies do.
        client.write("{").await;
        client.write("}").await;
        upstream.until("it is asked", |state| state.requests.len() == number).await;
        calls.push(client);
    }
    let mut clients = Vec::new();
    for _ in 0..50 {
        let mut client = proxy.connect().await;
        assert_eq!(soon("a place", client.send("GET /health", &[], "")).await.status, 200);
        clients.push(client);
    }
    gate.open();
    for mut client in calls {
        assert_eq!(client.read(false).await.tool_text(), "well");
    }
}

#[tokio::test]
async fn a_head_that_comes_drop_by_drop_has_an_end() {
    let upstream = Scripted::answering(response("200 OK", "text/plain", "well")).await;
    let mut setup = Setup::new(upstream.address);
    setup.server.header_timeout = Duration::from_millis(200);
    let proxy = setup.start().await;
    let mut stream = TcpStream::connect(proxy.address).await.unwrap();
    stream.write_all(b"GET /health HTTP/1.1\r\nHost: localhost\r\nX-Slow: ").await.unwrap();
    let (mut reader, mut writer) = stream.split();
    // Bytes arrive far more often than once within the header timeout.
    let drip = async {
        let mut pace = tokio::time::interval(Duration::from_millis(20));
        while writer.write_all(b"y").await.is_ok() {
            pace.tick().await;
        }
    };
    let ended = async {
        let mut received = Vec::new();
        let _ = reader.read_to_end(&mut received).await;
        String::from_utf8(received).unwrap()
    };
    let received = soon("the end of the connection", async {
        tokio::select! { received = ended => received, () = drip => String::new() }
    });
    let received = received.await;
    assert!(received.is_empty() || received.starts_with("HTTP/1.1 408"), "{received}");
}

#[tokio::test]
async fn an_argument_stays_in_its_position() {
    let upstream = Scripted::answering(response("200 OK", "text/plain", "well")).await;
    let mut setup = Setup::new(upstream.address);
    setup.routes = vec![route("thing", "GET /things/{which}/state").with_endpoint("GET /thing/{which}")];
    let proxy = setup.start().await;
    let hostile = [
        "..",
        ".",
        "../..",
        "../secret",
        "..\\secret",
        "a/../../b",
        "%2e%2e",
        "..%2f",
        "//evil.test",
        "\\..\\",
        "a?x=1",
        "a#b",
        "a%00b",
        "a\u{0}b",
        "\u{ff0e}\u{ff0e}",
        "a;b",
        "a b",
        "@evil.test",
        ":8080",
        "é",
        "",
    ];
    for which in hostile {
        let response = proxy.call("thing", &json!({ "which": which }).to_string()).await;
        assert!(response.status < 500, "{which}: {}", response.text());
    }
    for path in ["/thing/..", "/thing/%2e%2e", "/thing/..%2f..", "/thing//x", "/thing/a%2fb", "/thing/%00"] {
        let response = proxy.send(&format!("GET {path}"), &[], "").await;
        assert!(response.status < 500, "{path}: {}", response.text());
    }
    for request in upstream.state().requests {
        let line = request.line();
        let inside = line.strip_prefix("GET /things/").and_then(|rest| rest.strip_suffix("/state HTTP/1.1"));
        let which = inside.unwrap_or_else(|| panic!("{line}"));
        assert!(!which.contains(['/', '?', '#', '\\', ' ']), "{line}");
        // nginx and others decode the path before they resolve it.
        let decoded = percent_encoding::percent_decode_str(which).decode_utf8_lossy().into_owned();
        assert!(!decoded.split(['/', '\\']).any(|part| matches!(part, "..")) && decoded != ".", "{line}");
        assert!(!decoded.contains('\0'), "{line}");
        assert_eq!(request.header("host"), [upstream.address.to_string()], "{line}");
    }
}

#[tokio::test]
async fn an_argument_makes_no_header() {
    let upstream = Scripted::answering(response("200 OK", "text/plain", "well")).await;
    let file = format!(
        "upstreams: {{ old: 'http://{}' }}
routes:
  thing:
    description: A thing.
    request:
      upstream: old
      method: POST
      path: /thing
      query: {{ q: '{{{{ args.which }}}}' }}
      headers: {{ X-Which: '{{{{ args.which }}}}' }}
      body: {{ form: {{ which: '{{{{ args.which }}}}' }} }}
",
        upstream.address
    );
    let loaded = config::load(&Sources::from_text("a.yaml", file)).unwrap();
    let served = Loaded::start(&loaded).await;
    for which in [
        "a\r\nX-Evil: 1",
        "a\nX-Evil: 1",
        "a\rX-Evil: 1",
        "a\u{0}b",
        "a\r\n\r\nGET /evil HTTP/1.1\r\n\r\n",
        "a&q=2&which=3",
    ] {
        let mut client = Client::connect(served.address).await;
        let body = json!({ "which": which }).to_string();
        let response = client.send("POST /tools/thing", &["Content-Type: application/json"], &body).await;
        assert!(response.status < 500, "{which:?}: {}", response.text());
    }
    let requests = upstream.state().requests;
    assert!(!requests.is_empty(), "the last one is harmless");
    for request in requests {
        assert!(
            request.line().starts_with("POST /thing?q=") && request.header("x-evil").is_empty(),
            "{request:?}"
        );
        assert_eq!(request.line().matches(['&', ' ']).count(), 2, "{request:?}");
        assert!(!request.body.contains(&b'&') && request.head.lines().count() < 12, "{request:?}");
    }
}

/// An argument is text of its element, even if it looks like markup.
#[tokio::test]
async fn an_argument_makes_no_element() {
    let upstream = Scripted::answering(response("200 OK", "text/plain", "well")).await;
    let file = format!(
        "upstreams: {{ old: 'http://{}' }}\n\
         routes:\n  find:\n    description: Finds.\n    request:\n      method: POST\n      path: /soap\n      \
         body: {{ xml: \"<find by='{{{{ args.by }}}}'><name>{{{{ args.name }}}}</name></find>\" }}\n",
        upstream.address
    );
    let loaded =
        config::load(&Sources::from_text("a.yaml", file)).unwrap_or_else(|problems| panic!("{problems}"));
    assert!(loaded.warnings.is_empty(), "{:?}", loaded.warnings);
    let served = Loaded::start(&loaded).await;
    let call = async |by: &str, name: &str| {
        let arguments = json!({ "by": by, "name": name }).to_string();
        let mut client = served.connect().await;
        client.send("POST /tools/find", &["Content-Type: application/json"], &arguments).await
    };
    assert_eq!(call("x' all='1", "</name><admin/>&amp;]]>").await.tool_text(), "well");
    for control in ["a\u{0}b", "a\u{8}b", "\u{1b}[2J", "\u{fffe}"] {
        let rejected = call("name", control).await;
        assert_eq!(rejected.status, 400, "{}", rejected.text());
        assert!(
            rejected.tool_text().contains("argument `name` has the character U+"),
            "{}",
            rejected.tool_text()
        );
    }
    let state = upstream.state();
    let [request] = &state.requests[..] else { panic!("{:?}", state.requests) };
    assert_eq!(request.header("content-type"), ["application/xml"]);
    let expected =
        "<find by='x&#39; all=&#39;1'><name>&lt;/name&gt;&lt;admin/&gt;&amp;amp;]]&gt;</name></find>";
    assert_eq!(String::from_utf8_lossy(&request.body), expected);
}
