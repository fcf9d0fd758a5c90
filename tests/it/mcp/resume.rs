//! Legacy clients that lose the stream on which they wait, and resume it.

use glossator::config::{self, Sources};
use serde_json::{Value, json};

use super::streams::{message, send, session};
use crate::support::{Client, Gate, Loaded, ReceivedRequest, Response, Scripted, Step, response, soon};

/// Upstream that responds once the gate is open.
async fn slow(gate: &Gate) -> Scripted {
    let gate = gate.clone();
    Scripted::start(move |_: &ReceivedRequest| {
        vec![Step::Hold(gate.clone()), Step::Send(response("200 OK", "text/plain", "at last"))]
    })
    .await
}

fn load(upstream: &Scripted, server: &str) -> config::Loaded {
    let text = format!(
        "server: {{ secret_key: 0123456789abcdef, {server} }}\nupstreams: {{ old: 'http://{}' }}\nroutes:\n  \
         wait: {{ request: GET old/x, notifications: [{{ text: begun }}] }}\n",
        upstream.address
    );
    config::load(&Sources::from_text("a.yaml", text)).unwrap_or_else(|problems| panic!("{problems}"))
}

async fn as_peer(upstream: &Scripted) -> Loaded {
    let listener = glossator::server::bind("127.0.0.1:0".parse().unwrap()).unwrap();
    // Clients use this name; the address of the replica is not allowed as a host.
    let peer =
        format!("advertise_url: 'http://{}', allowed_hosts: [localhost]", listener.local_addr().unwrap());
    Loaded::start_on(listener, &load(upstream, &peer))
}

/// Session with a log level, so that calls send notifications.
async fn wanting(program: &Loaded) -> String {
    let mut client = program.connect().await;
    let id = session(&mut client).await;
    let level =
        json!({ "jsonrpc": "2.0", "id": 1, "method": "logging/setLevel", "params": { "level": "info" } });
    let response = send(&mut client, "2025-11-25", level, &format!("Mcp-Session-Id: {id}\r\n")).await;
    assert_eq!(response.status, 200);
    id
}

/// Call whose stream has had an event, and the id of that event.
async fn start_call(program: &Loaded, session: &str, version: &str) -> (Client, String) {
    let call = json!({ "jsonrpc": "2.0", "id": 7, "method": "tools/call", "params": { "name": "wait" } });
    let mut client = program.connect().await;
    client.write(message(version, call, &format!("Mcp-Session-Id: {session}\r\n"))).await;
    let text = client.read_until("begun").await;
    let primed = text.contains("\r\n\r\n") && text.contains("retry: ") && text.contains("data: \n");
    assert_eq!(primed, version == "2025-11-25", "{text}");
    let id = text.lines().rev().find_map(|line| line.strip_prefix("id: ")).expect("events have ids");
    (client, id.to_owned())
}

fn return_to(session: &str, id: &str) -> String {
    format!(
        "GET /mcp HTTP/1.1\r\nHost: localhost\r\nAccept: text/event-stream\r\n\
         MCP-Protocol-Version: 2025-11-25\r\nMcp-Session-Id: {session}\r\nLast-Event-ID: {id}\r\n\r\n"
    )
}

async fn come_back(program: &Loaded, session: &str, id: &str) -> Response {
    let mut client = program.connect().await;
    client.write(return_to(session, id)).await;
    soon("the rest of the stream", client.read(false)).await
}

/// Messages of a stream.
fn messages(response: &Response) -> Vec<Value> {
    let data = response.text().lines().filter_map(|line| line.strip_prefix("data: "));
    data.map(|data| serde_json::from_str(data).unwrap()).collect()
}

#[tokio::test]
async fn a_client_that_lost_its_stream_gets_the_rest_of_it() {
    for version in ["2025-03-26", "2025-06-18", "2025-11-25"] {
        let gate = Gate::new();
        let upstream = slow(&gate).await;
        let program = Loaded::start(&load(&upstream, "")).await;
        let id = wanting(&program).await;
        let (client, last) = start_call(&program, &id, version).await;
        drop(client);
        gate.open();
        for _ in 0..2 {
            let rest = come_back(&program, &id, &last).await;
            let replayed = messages(&rest);
            assert_eq!(replayed.len(), 1, "what was read is not told again: {replayed:?}");
            assert_eq!(
                (&replayed[0]["id"], &replayed[0]["result"]["content"][0]["text"]),
                (&json!(7), &json!("at last"))
            );
        }
        assert_eq!(upstream.state().requests.len(), 1);
        let (head, _) = last.rsplit_once('.').unwrap();
        let all = messages(&come_back(&program, &id, &format!("{head}.0")).await);
        assert_eq!(all.len(), if version == "2025-11-25" { 2 } else { 1 }, "{all:?}");
    }
}

#[tokio::test]
async fn any_replica_resumes_a_stream() {
    let gate = Gate::new();
    let upstream = slow(&gate).await;
    let (one, other) = (as_peer(&upstream).await, as_peer(&upstream).await);
    let id = wanting(&one).await;
    let (client, last) = start_call(&one, &id, "2025-11-25").await;
    drop(client);
    let mut client = other.connect().await;
    client.write(return_to(&id, &last)).await;
    client.read_until("200 OK").await;
    gate.open();
    let rest = messages(&soon("the rest of the stream", client.read(false)).await);
    assert_eq!(rest[0]["result"]["content"][0]["text"], "at last", "{rest:?}");
}

#[tokio::test]
async fn a_stream_is_for_its_session_and_for_the_newest_connection() {
    let gate = Gate::new();
    let upstream = slow(&gate).await;
    let program = Loaded::start(&load(&upstream, "")).await;
    let (id, stranger) = (wanting(&program).await, wanting(&program).await);
    let (mut first, last) = start_call(&program, &id, "2025-11-25").await;
    for (session, wrong) in [
        (&stranger, last.as_str()),
        (&id, "no-such-stream.0"),
        (&id, "nothing"),
        (&id, &format!("{}.99", last.rsplit_once('.').unwrap().0)),
    ] {
        let rejected = come_back(&program, session, wrong).await;
        assert_eq!(rejected.status, 400, "{rejected:?}");
        assert!(rejected.json()["error"]["message"].as_str().unwrap().contains("Last-Event-ID"));
    }
    let mut second = program.connect().await;
    second.write(return_to(&id, &last)).await;
    second.read_until("200 OK").await;
    let first_response = soon("the end of the first", first.read(false)).await;
    assert!(!first_response.text().contains("at last"), "{}", first_response.text());
    gate.open();
    let replayed = messages(&soon("the rest of the stream", second.read(false)).await);
    assert_eq!(replayed[0]["result"]["content"][0]["text"], "at last");
}

#[tokio::test]
async fn a_stream_that_is_not_resumed_is_dropped_after_a_timeout() {
    for server in ["stream_resume_timeout: 0s", "stream_resume_timeout: 20ms"] {
        let upstream = slow(&Gate::new()).await;
        let program = Loaded::start(&load(&upstream, server)).await;
        let id = wanting(&program).await;
        let call = json!({ "jsonrpc": "2.0", "id": 7, "method": "tools/call", "params": { "name": "wait" } });
        let mut client = program.connect().await;
        client.write(message("2025-11-25", call, &format!("Mcp-Session-Id: {id}\r\n"))).await;
        client.read_until("begun").await;
        upstream.until("the call is in flight", |state| state.requests.len() == 1).await;
        drop(client);
        upstream.until("the upstream is left", |state| state.closed_connections == 1).await;
    }
}

#[tokio::test]
async fn the_end_of_a_session_is_the_end_of_its_streams() {
    let upstream = slow(&Gate::new()).await;
    let program = Loaded::start(&load(&upstream, "stream_resume_timeout: 1h")).await;
    let id = wanting(&program).await;
    let (mut client, last) = start_call(&program, &id, "2025-11-25").await;
    let session = format!("Mcp-Session-Id: {id}");
    let ended = program.connect().await.send("DELETE /mcp", &[&session], "").await;
    assert_eq!(ended.status, 204);
    soon("the end of the stream", client.read(false)).await;
    upstream.until("the upstream is left", |state| state.closed_connections == 1).await;
    assert_eq!(come_back(&program, &id, &last).await.status, 404);
}
