//! Cancellation: when a client disconnects, its call ends and the upstream request is cancelled.

use serde_json::json;

use crate::support::{Client, Gate, Proxy, Response, Scripted, Setup, Step};

#[track_caller]
fn send_and_hold(
    words: &'static str,
) -> impl Fn(&crate::support::ReceivedRequest) -> Vec<Step> + Send + Sync {
    move |_| vec![Step::Send(words.into()), Step::Hold(Gate::new())]
}

#[tokio::test]
async fn a_client_that_leaves_ends_its_call_at_the_upstream() {
    let half = "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhalf";
    for words in ["", half] {
        let upstream = Scripted::start(send_and_hold(words)).await;
        let proxy = Setup::new(upstream.address).start().await;
        for request in [
            "POST /tools/get_thing HTTP/1.1\r\nHost: localhost\r\n\r\n",
            "POST /tools/get_thing HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n{}",
        ] {
            let before = upstream.state();
            let mut client = proxy.connect().await;
            client.write(request).await;
            upstream
                .until("the call is in flight", |state| state.requests.len() > before.requests.len())
                .await;
            drop(client);
            upstream
                .until("the upstream is left", |state| state.closed_connections > before.closed_connections)
                .await;
        }
    }
}

#[tokio::test]
async fn an_mcp_client_that_leaves_ends_its_call_too() {
    let upstream = Scripted::start(send_and_hold("")).await;
    let proxy = Setup::new(upstream.address).start().await;
    let body = r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"get_thing"}}"#;
    let mut client = proxy.connect().await;
    client
        .write(format!(
            "POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n\
             Accept: application/json, text/event-stream\r\nContent-Length: {}\r\n\r\n{body}",
            body.len()
        ))
        .await;
    upstream.until("the call is in flight", |state| state.requests.len() == 1).await;
    drop(client);
    upstream.until("the upstream is left", |state| state.closed_connections == 1).await;
}

/// Sends a message of a legacy session.
async fn send(proxy: &Proxy, session: Option<&str>, message: serde_json::Value) -> Client {
    let (session, message) = (session.map(|id| format!("Mcp-Session-Id: {id}\r\n")), message.to_string());
    let mut client = proxy.connect().await;
    client
        .write(format!(
            "POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n{}\
             Accept: application/json, text/event-stream\r\nContent-Length: {}\r\n\r\n{message}",
            session.unwrap_or_default(),
            message.len()
        ))
        .await;
    client
}

async fn session(proxy: &Proxy) -> String {
    let params = json!({ "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": { "name": "t", "version": "1" } });
    let message = json!({ "jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params });
    let response: Response = send(proxy, None, message).await.read(false).await;
    response.header("mcp-session-id").unwrap()
}

#[tokio::test]
async fn a_notification_ends_the_call_of_its_session() {
    let upstream = Scripted::start(send_and_hold("")).await;
    let proxy = Setup::new(upstream.address).start().await;
    let (mine, other) = (session(&proxy).await, session(&proxy).await);
    let call =
        json!({ "jsonrpc": "2.0", "id": "a", "method": "tools/call", "params": { "name": "get_thing" } });
    let mut called = send(&proxy, Some(&mine), call.clone()).await;
    let _others = send(&proxy, Some(&other), call).await;
    upstream.until("both calls are in flight", |state| state.requests.len() == 2).await;
    for (session, id) in [(None, "a"), (Some(&mine), "b"), (Some(&mine), "a")] {
        let params = json!({ "requestId": id, "reason": "no longer wanted" });
        let message = json!({ "jsonrpc": "2.0", "method": "notifications/cancelled", "params": params });
        let accepted = send(&proxy, session.map(String::as_str), message).await.read(false).await;
        assert_eq!((accepted.status, accepted.text()), (202, ""));
    }
    upstream.until("the upstream is left", |state| state.closed_connections == 1).await;
    let response = called.read(false).await;
    assert_eq!((response.status, response.text()), (202, ""), "there is no result any more");
    assert_eq!(upstream.state().closed_connections, 1, "the other session's call goes on");
}

#[tokio::test]
async fn a_client_that_leaves_a_stream_ends_it() {
    let upstream = Scripted::start(|_| {
        let head = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n";
        vec![Step::Send(head.into()), Step::Endlessly(b"5\r\nhello\r\n".to_vec())]
    })
    .await;
    let mut setup = Setup::new(upstream.address);
    setup.passthrough = true;
    let proxy = setup.start().await;
    let mut client = proxy.connect().await;
    client.write("GET /stream HTTP/1.1\r\nHost: localhost\r\n\r\n").await;
    client.read_until("hello").await;
    drop(client);
    upstream.until("the upstream is left", |state| state.closed_connections == 1).await;
}
