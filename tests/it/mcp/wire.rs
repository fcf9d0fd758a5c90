//! HTTP and JSON-RPC rules that apply to all revisions.

use std::net::SocketAddr;

use axum::body::Body;
use glossator::{
    config::ListenerSettings,
    inbound::{
        OriginPattern,
        filter::{Filter, FilterSettings},
        mcp::McpApiSettings,
        rest::RestApi,
    },
    server,
};
use http::{HeaderMap, HeaderName, Request, StatusCode};
use serde_json::json;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
};

use super::{Endpoint, NEWEST, Post, Response, Silent};

/// The endpoint on its own port, behind the whole server.
async fn listen(endpoint: &Endpoint) -> SocketAddr {
    let settings = ListenerSettings { listen: "127.0.0.1:0".parse().unwrap(), ..ListenerSettings::default() };
    let listener = server::bind(settings.listen).unwrap();
    let address = listener.local_addr().unwrap();
    let rest = RestApi::new(endpoint.gateway.clone(), Filter::new(&FilterSettings::default()));
    let handler = server::HttpHandler::for_clients(
        rest,
        endpoint.mcp.clone(),
        glossator::telemetry::Meters::default(),
        glossator::telemetry::Tracer::default(),
    );
    tokio::spawn(async move {
        let _ = server::serve(listener, settings, handler, std::future::pending()).await;
    });
    address
}

/// One exchange over a connection that stays open.
async fn exchange(client: &mut TcpStream, post: &Post) -> Response {
    client.write_all(&as_bytes(post)).await.unwrap();
    let mut read = Vec::new();
    loop {
        assert_ne!(client.read_buf(&mut read).await.unwrap(), 0, "the server hung up");
        let Some(end) = read.windows(4).position(|window| window == b"\r\n\r\n") else { continue };
        let head = std::str::from_utf8(&read[..end]).unwrap();
        let mut lines = head.lines();
        let status = lines.next().unwrap().split(' ').nth(1).unwrap().parse().unwrap();
        let headers = lines.map(|line| {
            let (name, value) = line.split_once(": ").unwrap();
            (name.parse::<HeaderName>().unwrap(), value.parse().unwrap())
        });
        let headers: HeaderMap = headers.collect();
        let length: usize = headers["content-length"].to_str().unwrap().parse().unwrap();
        if read.len() >= end + 4 + length {
            return Response { status, headers, body: read.split_off(end + 4).into() };
        }
    }
}

fn as_bytes(post: &Post) -> Vec<u8> {
    let request = post.request();
    let mut bytes = b"POST /mcp HTTP/1.1\r\n".to_vec();
    for (name, value) in request.headers() {
        bytes.extend_from_slice(format!("{name}: {}\r\n", value.to_str().unwrap()).as_bytes());
    }
    bytes.extend_from_slice(format!("content-length: {}\r\n\r\n", post.body.len()).as_bytes());
    bytes.extend_from_slice(&post.body);
    bytes
}

#[tokio::test]
async fn a_client_that_leaves_ends_the_upstreams_request() {
    let mut endpoint = Endpoint::new();
    let address = listen(&endpoint).await;
    for post in Post::both("tools/call", json!({ "name": "silent" })) {
        let mut client = TcpStream::connect(address).await.unwrap();
        client.write_all(&as_bytes(&post)).await.unwrap();
        assert_eq!(endpoint.silent.recv().await, Some(Silent::Asked));
        drop(client);
        assert_eq!(endpoint.silent.recv().await, Some(Silent::Given));
    }
}

#[tokio::test]
async fn both_lifecycles_are_served_on_one_connection() {
    let endpoint = Endpoint::new();
    let mut client = TcpStream::connect(listen(&endpoint).await).await.unwrap();
    for post in Post::both("tools/call", json!({ "name": "text" })) {
        let result = exchange(&mut client, &post).await.result();
        assert_eq!(result["content"][0]["text"], "plain \"words\"\n");
    }
}

#[tokio::test]
async fn an_error_and_its_response_have_one_request_id() {
    let endpoint = Endpoint::new();
    let mut client = TcpStream::connect(listen(&endpoint).await).await.unwrap();
    let post = Post::handshake("tools/call", json!({ "name": "down" }));
    for post in [post.clone(), post.header("x-request-id", "trace/7")] {
        let response = exchange(&mut client, &post).await;
        let id = response.header("x-request-id").unwrap().to_owned();
        assert_eq!(response.result()["_meta"]["glossator/requestId"], id);
    }
}

#[tokio::test]
async fn ids_come_back_as_they_were_sent() {
    let endpoint = Endpoint::new();
    for id in ["0", "-1", "9007199254740993", "18446744073709551616", r#""""#, r#""a\u00e9\"7""#] {
        for (method, params) in
            [("tools/call", json!({ "name": "text" })), ("tools/list", json!({})), ("no", json!({}))]
        {
            for post in Post::both(method, params) {
                let response = endpoint.send(post.replace(r#""id":1"#, &format!(r#""id":{id}"#))).await;
                assert!(
                    response.text().starts_with(&format!(r#"{{"jsonrpc":"2.0","id":{id},"#)),
                    "{response:?}"
                );
            }
        }
    }
}

#[tokio::test]
async fn a_body_that_is_no_message_is_an_error_with_400() {
    let endpoint = Endpoint::new();
    for post in Post::both("ping", json!({})) {
        for (body, code) in [
            ("", -32700),
            ("{\"jsonrpc\":\"2.0\",", -32700),
            ("[]", -32600),
            (r#"[{"jsonrpc":"2.0","id":1,"method":"ping"}]"#, -32600),
            (r#"{"id":1,"method":"ping"}"#, -32600),
            (r#"{"jsonrpc":"2.0","id":null,"method":"ping"}"#, -32600),
            (r#"{"jsonrpc":"2.0","id":1,"id":2,"method":"ping"}"#, -32600),
            (r#"{"jsonrpc":"2.0","id":1,"result":{}}"#, -32600),
            (r#"{"jsonrpc":"2.0","id":1,"result":{},"error":{"code":1,"message":"no"}}"#, -32600),
            (r#"{"jsonrpc":"2.0","id":1,"method":"ping","result":{}}"#, -32600),
            (r#"{"jsonrpc":"2.0","method":"notifications/initialized","result":{}}"#, -32600),
        ] {
            let response = endpoint.send(post.clone().body(body)).await;
            assert_eq!(response.error(), (400, code), "{body}");
        }
        let deep = format!(
            r#"{{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{{"name":"text","arguments":{{"a":{}{}}}}}}}"#,
            "[".repeat(100_000),
            "]".repeat(100_000)
        );
        let post = post.header("mcp-method", "tools/call").header("mcp-name", "text");
        let response = endpoint.send(post.body(deep)).await;
        assert_eq!(response.error().1, -32602);
    }
}

#[tokio::test]
async fn a_progress_token_of_another_type_is_an_invalid_parameter() {
    let endpoint = Endpoint::new();
    for token in [json!(true), json!(1.5), json!(null), json!({})] {
        let params = json!({ "name": "text", "_meta": { "progressToken": token } });
        for (post, status) in Post::both("tools/call", params).into_iter().zip([200, 400]) {
            let response = endpoint.send(post).await;
            assert_eq!(response.error(), (status, -32602), "{response:?}");
            assert_eq!(response.json()["id"], 1);
            assert!(response.text().contains("progressToken"), "{response:?}");
        }
    }
}

#[tokio::test]
async fn an_unknown_id_is_null_or_omitted_by_revision() {
    let endpoint = Endpoint::new();
    for (version, has_null) in [("2025-06-18", true), ("2025-11-25", false), (NEWEST, false)] {
        let post =
            Post::handshake("ping", json!({})).header("mcp-protocol-version", version).body("nonsense");
        let json = endpoint.send(post).await.json();
        assert_eq!(json.get("id"), has_null.then_some(&serde_json::Value::Null), "{json}");
    }
}

#[tokio::test]
async fn a_client_gets_json_or_a_stream_or_a_406() {
    let endpoint = Endpoint::new();
    for post in Post::both("tools/call", json!({ "name": "pretty" })) {
        let json = endpoint.send(post.clone().header("accept", "*/*")).await;
        assert_eq!(json.header("content-type"), Some("application/json"));
        let stream = endpoint.send(post.clone().header("accept", "text/event-stream")).await;
        assert_eq!(stream.header("content-type"), Some("text/event-stream"));
        assert_eq!(stream.header("x-accel-buffering"), Some("no"));
        // Assembled as a client does it.
        let text = stream.text();
        assert!(text.ends_with("\n\n") && !text.contains('\r'), "{text:?}");
        let lines = text.trim_end().lines().skip(1).map(|line| line.strip_prefix("data: ").unwrap());
        let event: serde_json::Value = serde_json::from_str(&lines.collect::<Vec<_>>().join("\n")).unwrap();
        assert_eq!(event["result"]["structuredContent"], json.json()["result"]["structuredContent"]);
        let neither = endpoint.send(post.clone().header("accept", "text/html")).await;
        assert_eq!(neither.error(), (406, -32600));
    }
    let rejected = Post::per_request("no/such", json!({})).header("accept", "text/event-stream");
    assert_eq!(endpoint.send(rejected).await.error(), (404, -32601));
}

#[tokio::test]
async fn a_body_of_another_type_or_too_long_is_not_read() {
    let filter = FilterSettings { body_limit_bytes: 300, ..FilterSettings::default() };
    let endpoint = Endpoint::with(McpApiSettings::default(), filter);
    let post = || Post::handshake("ping", json!({}));
    assert_eq!(endpoint.send(post().header("content-type", "text/plain")).await.error(), (415, -32600));
    assert_eq!(endpoint.send(post().without("content-type")).await.error(), (415, -32600));
    let long = format!(r#"{{"jsonrpc":"2.0","id":1,"method":"ping"{}}}"#, " ".repeat(300));
    let response = endpoint.send(post().body(long)).await;
    assert_eq!(response.error(), (413, -32600));
    assert!(response.text().contains("300 bytes"), "{response:?}");
}

#[tokio::test]
async fn foreign_hosts_are_rejected_before_the_body_is_read() {
    let endpoint = Endpoint::new();
    let post = || Post::handshake("ping", json!({}));
    for post in [
        post().header("host", "evil.example.com"),
        post().header("origin", "http://evil.example.com"),
        post().header("origin", "null"),
    ] {
        let response = endpoint.send(post).await;
        assert_eq!(response.error(), (403, -32600));
        assert!(response.json().get("id").is_none());
        assert_eq!(response.header("access-control-allow-origin"), None);
    }
    let nameless = endpoint.send(post().without("host")).await;
    assert_eq!(nameless.error(), (400, -32600));
}

#[tokio::test]
async fn only_allowed_origins_get_cors_headers() {
    let origin = "http://localhost:6274";
    let named = FilterSettings {
        allowed_origins: OriginPattern::parse(origin).into_iter().collect(),
        ..FilterSettings::default()
    };
    for (filter, reads) in [(named, true), (FilterSettings::default(), false)] {
        let endpoint = Endpoint::with(McpApiSettings::default(), filter);
        let response = endpoint.send(Post::handshake("ping", json!({})).header("origin", origin)).await;
        assert_eq!(response.status, StatusCode::OK);
        assert_eq!(response.header("access-control-allow-origin"), reads.then_some(origin));
        let exposed = response.header("access-control-expose-headers").unwrap_or_default();
        assert_eq!(exposed.contains("mcp-session-id"), reads);
        let preflight = Request::options("/mcp")
            .header("host", "localhost:8080")
            .header("origin", origin)
            .header("access-control-request-method", "POST")
            .header("access-control-request-headers", "content-type, mcp-param-city")
            .body(Body::empty())
            .unwrap();
        let response = Response::read(endpoint.mcp.handle(preflight).await).await;
        assert_eq!(response.status, StatusCode::NO_CONTENT);
        let granted = |value: &'static str| reads.then_some(value);
        let headers = granted("content-type, mcp-param-city");
        assert_eq!(response.header("access-control-allow-headers"), headers);
        let methods = granted("GET, POST, DELETE, OPTIONS");
        assert_eq!(response.header("access-control-allow-methods"), methods);
    }
}

#[tokio::test]
async fn other_methods_get_a_description() {
    let endpoint = Endpoint::new();
    let all = "GET, POST, DELETE, OPTIONS";
    for (method, allowed) in [("GET", "POST, DELETE, OPTIONS"), ("PUT", all), ("HEAD", all)] {
        let request = Request::builder().method(method).uri("/mcp").header("host", "localhost");
        let response = Response::read(endpoint.mcp.handle(request.body(Body::empty()).unwrap()).await).await;
        assert_eq!(response.status, StatusCode::METHOD_NOT_ALLOWED);
        assert_eq!(response.header("allow"), Some(allowed));
        assert!(response.text().contains("MCP"), "{response:?}");
    }
}
