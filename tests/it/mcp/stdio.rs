//! MCP over stdio, with the built program.

use std::sync::atomic::{AtomicUsize, Ordering};

use serde_json::{Value, json};

use crate::support::{Gate, Piped, ReceivedRequest, Scripted, Step, response};

fn config(upstream: &Scripted, more: &str) -> String {
    format!(
        "upstreams: {{ old: 'http://{}' }}\nroutes: {{ get_thing: {{ description: d, request: 'GET old/{{name}}' }} }}\n{more}",
        upstream.address
    )
}

const PRETTY: &str = "{\r\n  \"price\": 1.50,\n  \"note\": \"two\\nlines\"\n}";

async fn thing() -> Scripted {
    Scripted::answering(response("200 OK", "application/json", PRETTY)).await
}

fn request(id: impl Into<Value>, method: &str, params: Value) -> Value {
    json!({ "jsonrpc": "2.0", "id": id.into(), "method": method, "params": params })
}

/// The same request in the modern revision.
fn newer(id: impl Into<Value>, method: &str, mut params: Value) -> Value {
    params["_meta"] = json!({ "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {} });
    request(id, method, params)
}

fn call(name: &str) -> Value {
    json!({ "name": "get_thing", "arguments": { "name": name } })
}

async fn shake_hands(piped: &mut Piped, revision: &str) -> Value {
    let hello = json!({ "protocolVersion": revision, "capabilities": {}, "clientInfo": { "name": "t", "version": "1" } });
    let response = piped.call(request("hello", "initialize", hello)).await;
    piped.send(&json!({ "jsonrpc": "2.0", "method": "notifications/initialized" }));
    response
}

/// Upstream that holds every request for `/slow`.
async fn slow() -> (Scripted, Gate) {
    let gate = Gate::new();
    let held = gate.clone();
    let script = move |request: &ReceivedRequest| {
        let response = Step::Send(response("200 OK", "application/json", r#"{"done": true}"#));
        match request.line().starts_with("GET /slow") {
            true => vec![Step::Hold(held.clone()), response],
            false => vec![response],
        }
    };
    (Scripted::start(script).await, gate)
}

#[tokio::test]
async fn both_lifecycles_work_and_a_response_is_one_line() {
    let upstream = thing().await;
    let mut piped = Piped::start(&config(&upstream, ""));
    // Digit by digit, as the upstream wrote it.
    let expected: Value = serde_json::from_str(PRETTY).unwrap();
    // The modern revision needs no handshake, and a legacy session beside it does not change that.
    let discovered = piped.call(newer(1, "server/discover", json!({}))).await;
    assert_eq!(discovered["result"]["supportedVersions"][0], "2026-07-28", "{discovered}");
    let response = piped.call(newer("two", "tools/call", call("x"))).await;
    assert_eq!((&response["id"], &response["result"]["structuredContent"]), (&json!("two"), &expected));
    assert_eq!(response["result"]["resultType"], "complete");
    let hello = shake_hands(&mut piped, "2025-11-25").await;
    assert_eq!(hello["result"]["protocolVersion"], "2025-11-25");
    let response = piped.call(request(3, "tools/call", call("x"))).await;
    assert_eq!(response["result"]["structuredContent"], expected);
    assert!(response["result"].get("resultType").is_none(), "{response}");
    assert_eq!(
        piped.call(request(4, "ping", json!({}))).await,
        json!({ "jsonrpc": "2.0", "id": 4, "result": {} })
    );
    let response = piped.call(newer(5, "tools/list", json!({}))).await;
    assert!(response["result"]["ttlMs"].is_number(), "{response}");
    piped.close_input();
    let (status, unread, log) = piped.ended().await;
    assert!(status.success() && unread.is_empty(), "{status} {unread:?}");
    assert!(
        log.lines().any(|line| line.contains(r#""message":"call""#) && line.contains(r#""api":"stdio""#)),
        "{log}"
    );
}

#[tokio::test]
async fn the_handshake_applies_to_the_connection() {
    let upstream = thing().await;
    let mut piped = Piped::start(&config(&upstream, ""));
    // Sent without waiting: the second line arrives after the first was processed.
    let hello = json!({ "protocolVersion": "2024-11-05", "capabilities": {}, "clientInfo": { "name": "t", "version": "1" } });
    piped.send(&request(1, "initialize", hello));
    piped.send(&request(2, "tools/list", json!({})));
    assert_eq!(piped.next().await["result"]["protocolVersion"], "2024-11-05");
    assert_eq!(piped.next().await["result"]["tools"][0]["name"], "get_thing");
    // Before 2025-11-25, an error without an id has `"id": null`.
    piped.say("{");
    let rejected = piped.next().await;
    assert_eq!(
        (&rejected["error"]["code"], rejected.get("id")),
        (&json!(-32700), Some(&Value::Null)),
        "{rejected}"
    );
}

#[tokio::test]
async fn an_invalid_message_gets_an_error_and_the_next_one_is_read() {
    let upstream = thing().await;
    let mut piped = Piped::start(&config(&upstream, "server: { body_limit: 400B }\n"));
    for (line, id, code) in [
        ("{\"jsonrpc\": ", Value::Null, -32700),
        ("not json", Value::Null, -32700),
        ("7", Value::Null, -32600),
        (r#"{"jsonrpc":"1.0","id":3,"method":"ping"}"#, json!(3), -32600),
        (r#"{"jsonrpc":"2.0","id":"a","method":"tools/list"}"#, json!("a"), -32602),
        (r#"{"jsonrpc":"2.0","id":4,"method":"server/discover"}"#, json!(4), -32602),
        (&" ".repeat(401), Value::Null, -32600),
        (&newer(5, "no/such", json!({})).to_string(), json!(5), -32601),
        (&newer(6, "tools/call", json!({ "name": "nothing" })).to_string(), json!(6), -32602),
        (
            r#"{"jsonrpc":"2.0","id":7,"method":"tools/list","params":{"_meta":{"io.modelcontextprotocol/protocolVersion":"1999-01-01"}}}"#,
            json!(7),
            -32022,
        ),
    ] {
        piped.say(line);
        let rejected = piped.next().await;
        assert_eq!((&rejected["id"], &rejected["error"]["code"]), (&id, &json!(code)), "{line}: {rejected}");
    }
    piped.say(b"\xff\xfe");
    assert_eq!(piped.next().await["error"]["code"], -32700);
    // These have no response: nothing, a notification, an unexpected response, a cancellation of nothing.
    for line in [
        "",
        "\r",
        r#"{"jsonrpc":"2.0","method":"notifications/unheard_of","params":{}}"#,
        r#"{"jsonrpc":"2.0","id":"x","result":{}}"#,
        r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":99}}"#,
        r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":[]}"#,
    ] {
        piped.say(line);
    }
    piped.say(request(8, "ping", json!({})).to_string() + "\r");
    assert_eq!(piped.next().await["id"], 8);
}

#[tokio::test]
async fn requests_are_answered_as_they_are_done() {
    let (upstream, gate) = slow().await;
    let mut piped = Piped::start(&config(&upstream, ""));
    piped.send(&newer("slow", "tools/call", call("slow")));
    upstream.until("the slow one", |state| state.requests.len() == 1).await;
    assert_eq!(piped.call(newer("quick", "tools/call", call("quick"))).await["id"], "quick");
    gate.open();
    assert_eq!(piped.next().await["id"], "slow");
}

#[tokio::test]
async fn batches_are_taken_where_the_revision_has_them() {
    let upstream = thing().await;
    let mut piped = Piped::start(&config(&upstream, ""));
    let batch = json!([
        request(1, "ping", json!({})),
        { "jsonrpc": "2.0", "method": "notifications/unheard_of" },
        request(2, "tools/call", call("x")),
    ]);
    assert_eq!(piped.call(batch.clone()).await["error"]["code"], -32600);
    shake_hands(&mut piped, "2025-03-26").await;
    let responses = piped.call(batch).await;
    let mut ids: Vec<_> =
        responses.as_array().unwrap().iter().map(|response| response["id"].as_i64()).collect();
    ids.sort_unstable();
    assert_eq!(ids, [Some(1), Some(2)], "{responses}");
}

#[tokio::test]
async fn changes_are_notified_and_a_subscription_ends_with_the_input() {
    let upstream = thing().await;
    let mut piped = Piped::start(&config(&upstream, ""));
    let params = json!({ "notifications": { "toolsListChanged": true } });
    let acknowledged = piped.call(newer("s", "subscriptions/listen", params)).await;
    assert_eq!(acknowledged["method"], "notifications/subscriptions/acknowledged");
    shake_hands(&mut piped, "2025-11-25").await;
    // The handshake is complete once this has a response.
    piped.call(request(1, "ping", json!({}))).await;
    piped.reload(&config(&upstream, "").replace("get_thing", "get_another"));
    let mut messages = [piped.next().await, piped.next().await];
    // In any order: to the connection, and to the subscription under its id.
    messages.sort_by_key(|message| message["params"]["_meta"].is_object());
    for message in &messages {
        assert_eq!(message["method"], "notifications/tools/list_changed", "{message}");
    }
    let id = |message: &Value| message["params"]["_meta"]["io.modelcontextprotocol/subscriptionId"].clone();
    assert_eq!((id(&messages[0]), id(&messages[1])), (Value::Null, json!("s")));
    assert_eq!(
        piped.call(request(2, "tools/list", json!({}))).await["result"]["tools"][0]["name"],
        "get_another"
    );
    piped.close_input();
    assert_eq!(piped.next().await["method"], "notifications/cancelled");
    assert_eq!(piped.next().await["id"], "s");
    assert!(piped.ended().await.0.success());
}

#[tokio::test]
async fn a_client_is_notified_of_its_subscribed_resources() {
    let count = AtomicUsize::new(0);
    let upstream = Scripted::start(move |_| {
        let count = count.fetch_add(1, Ordering::SeqCst);
        vec![Step::Send(response("200 OK", "text/plain", &format!("news {count}")))]
    })
    .await;
    let mut piped = Piped::start(&format!(
        "upstreams: {{ old: 'http://{}' }}\nroutes: {{ news: {{ description: n, request: GET old/news, \
         resource: {{ uri: 'news:all', poll_interval: 100ms }} }} }}\n",
        upstream.address
    ));
    shake_hands(&mut piped, "2025-11-25").await;
    let uri = json!({ "uri": "news:all" });
    assert_eq!(piped.call(request(1, "resources/subscribe", uri.clone())).await["id"], 1);
    let notification = piped.next().await;
    assert_eq!(
        (&notification["method"], &notification["params"]),
        (&json!("notifications/resources/updated"), &uri),
        "{notification}"
    );
}

#[tokio::test]
async fn notifications_come_before_their_result() {
    let upstream = thing().await;
    let file = config(&upstream, "").replace(
        "description: d",
        "description: d, notifications: [{ level: info, text: 'on {{ args.name }}' }]",
    );
    let mut piped = Piped::start(&file);
    let mut wanted = newer(1, "tools/call", call("it"));
    wanted["params"]["_meta"]["io.modelcontextprotocol/logLevel"] = "info".into();
    let notification = piped.call(wanted).await;
    assert_eq!(notification["method"], "notifications/message", "{notification}");
    assert!(notification["params"]["data"].to_string().contains("on it"), "{notification}");
    assert_eq!(piped.next().await["id"], 1);
}

#[tokio::test]
async fn a_cancelled_request_leaves_its_upstream_and_is_not_answered() {
    let (upstream, _gate) = slow().await;
    let mut piped = Piped::start(&config(&upstream, ""));
    for (round, revision) in ["2026-07-28", "2025-11-25"].into_iter().enumerate() {
        // One id is a number; the other has an escape that the cancellation does not use.
        let (line, id) = match revision {
            "2026-07-28" => (newer(7, "tools/call", call("slow")).to_string(), json!(7)),
            _ => {
                shake_hands(&mut piped, revision).await;
                let line = request("ID", "tools/call", call("slow")).to_string();
                (line.replace("\"ID\"", "\"\\u0061\""), json!("a"))
            }
        };
        piped.say(line);
        upstream.until("the request", |state| state.requests.len() == round + 1).await;
        piped.send(&json!({ "jsonrpc": "2.0", "method": "notifications/cancelled",
            "params": { "requestId": id, "reason": "enough" } }));
        upstream.until("the end of its connection", |state| state.closed_connections == round + 1).await;
        assert_eq!(piped.call(newer("next", "tools/list", json!({}))).await["id"], "next");
    }
    piped.close_input();
    let (status, unread, log) = piped.ended().await;
    assert!(status.success() && unread.is_empty(), "{status} {unread:?}");
    assert_eq!(log.matches(r#""outcome":"cancelled""#).count(), 2, "{log}");
}

#[tokio::test]
async fn after_the_last_line_requests_in_flight_are_answered() {
    let (upstream, gate) = slow().await;
    let mut piped = Piped::start(&config(&upstream, ""));
    piped.send(&newer(1, "tools/call", call("slow")));
    upstream.until("the request", |state| state.requests.len() == 1).await;
    piped.close_input();
    gate.open();
    assert_eq!(piped.next().await["result"]["structuredContent"], json!({ "done": true }));
    assert!(piped.ended().await.0.success());
}

#[tokio::test]
async fn after_the_last_line_the_shutdown_timeout_applies() {
    let (upstream, _gate) = slow().await;
    let mut piped = Piped::start(&config(&upstream, "server: { shutdown_timeout: 1ms }\n"));
    piped.send(&newer(1, "tools/call", call("slow")));
    upstream.until("the request", |state| state.requests.len() == 1).await;
    piped.close_input();
    let (status, unread, log) = piped.ended().await;
    assert!(status.success() && unread.is_empty(), "{status} {unread:?}");
    assert!(log.contains("shutdown timeout: cancelling requests in flight"), "{log}");
    upstream.until("the end of the connection", |state| state.closed_connections == 1).await;
}

#[tokio::test]
async fn a_signal_ends_it_at_once() {
    for name in ["TERM", "INT"] {
        let (upstream, _gate) = slow().await;
        let mut piped = Piped::start(&config(&upstream, ""));
        piped.send(&newer(1, "tools/call", call("slow")));
        upstream.until("the request", |state| state.requests.len() == 1).await;
        piped.signal(name);
        let (status, unread, log) = piped.ended().await;
        assert!(status.success() && unread.is_empty(), "{name}: {status} {unread:?}");
        assert!(log.contains(r#""outcome":"cancelled""#), "{log}");
    }
}

#[tokio::test]
async fn a_client_that_reads_no_more_is_gone() {
    let upstream = thing().await;
    let mut piped = Piped::start(&config(&upstream, ""));
    piped.stop_reading();
    // At the first response the test's reader stops and closes the pipe. The next ones have no recipient.
    let mut tries = 0;
    while piped.try_send(&newer(tries, "tools/list", json!({}))) {
        tries += 1;
        tokio::task::yield_now().await;
    }
    assert!(piped.ended().await.0.success());
}

#[tokio::test]
async fn a_wrong_configuration_writes_nothing_to_standard_output() {
    let mut piped = Piped::start("rotues: {}\n");
    piped.close_input();
    let (status, unread, log) = piped.ended().await;
    assert_eq!(status.code(), Some(78));
    assert!(unread.is_empty(), "{unread:?}");
    assert!(log.contains("did you mean `routes`?"), "{log}");
}

/// The command that the page shows is the one that these tests run.
#[test]
fn the_page_shows_a_desktop_client_how_to_start_it() {
    let page = concat!(env!("CARGO_MANIFEST_DIR"), "/config/book/how-to/connect-a-client.md");
    let page = std::fs::read_to_string(page).unwrap();
    let blocks = page.split("```json\n").skip(1).map(|rest| rest.split("```").next().unwrap());
    let shown = blocks.filter(|block| block.contains("mcpServers")).map(serde_json::from_str::<Value>);
    let shown: Vec<Value> = shown.map(Result::unwrap).collect();
    assert_eq!(shown.len(), 1);
    let server = &shown[0]["mcpServers"]["weather"];
    assert!(server["command"].as_str().unwrap().starts_with('/'));
    let arguments: Vec<&str> = server["args"].as_array().unwrap().iter().filter_map(Value::as_str).collect();
    assert!(matches!(arguments[..], ["stdio", "--config", file] if file.starts_with('/')), "{arguments:?}");
}

#[tokio::test]
async fn a_subscription_ends_with_a_result() {
    let upstream = thing().await;
    // A shutdown timeout longer than any test: only the end of the input stops the program.
    let mut piped = Piped::start(&config(&upstream, "server: { shutdown_timeout: 1h }\n"));
    let filter = json!({ "notifications": { "toolsListChanged": true } });
    let acknowledged = piped.call(newer("l", "subscriptions/listen", filter)).await;
    assert_eq!(acknowledged["method"], "notifications/subscriptions/acknowledged");
    let response = piped.call(newer(2, "tools/list", json!({}))).await;
    assert_eq!(response["id"], 2, "others are answered meanwhile");
    piped.close_input();
    let cancelled = piped.next().await;
    assert_eq!(
        (&cancelled["method"], &cancelled["params"]["requestId"]),
        (&json!("notifications/cancelled"), &json!("l")),
        "{cancelled}"
    );
    let ended = piped.next().await;
    let id = &ended["result"]["_meta"]["io.modelcontextprotocol/subscriptionId"];
    assert_eq!((&ended["id"], id), (&json!("l"), &json!("l")), "{ended}");
    assert!(piped.ended().await.0.success());
}
