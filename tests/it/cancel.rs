//! A client that leaves: its call ends, and the upstream sees that nobody waits any more.

use crate::support::{Gate, Scripted, Setup, Step};

#[track_caller]
fn held_after(words: &'static str) -> impl Fn(&crate::support::Asked) -> Vec<Step> + Send + Sync {
    move |_| vec![Step::Send(words.into()), Step::Hold(Gate::new())]
}

#[tokio::test]
async fn a_client_that_leaves_ends_its_call_at_the_upstream() {
    let half = "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhalf";
    for words in ["", half] {
        let upstream = Scripted::start(held_after(words)).await;
        let proxy = Setup::new(upstream.address).start().await;
        for request in [
            "POST /tools/get_thing HTTP/1.1\r\nHost: localhost\r\n\r\n",
            "POST /tools/get_thing HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n{}",
        ] {
            let before = upstream.state();
            let mut client = proxy.connect().await;
            client.write(request).await;
            upstream.until("the call is in flight", |state| state.asked.len() > before.asked.len()).await;
            drop(client);
            upstream.until("the upstream is left", |state| state.left > before.left).await;
        }
    }
}

#[tokio::test]
async fn an_mcp_client_that_leaves_ends_its_call_too() {
    let upstream = Scripted::start(held_after("")).await;
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
    upstream.until("the call is in flight", |state| state.asked.len() == 1).await;
    drop(client);
    upstream.until("the upstream is left", |state| state.left == 1).await;
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
    upstream.until("the upstream is left", |state| state.left == 1).await;
}
