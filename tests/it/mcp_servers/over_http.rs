//! MCP servers over Streamable HTTP.

use std::sync::{
    Arc,
    atomic::{AtomicBool, AtomicUsize, Ordering},
};

use glossator::{
    config::{self, Sources},
    server::App,
    upstream::{
        http::HttpSettings,
        mcp::{McpTransport, McpUpstream, RequestedLists},
    },
};
use serde_json::{Value, json};
use tokio::time::Duration;

use super::{Served, json as answer, names_of_requests, server, server_of, status};
use crate::support::{Client, Gate, Program, ReceivedRequest, Scripted, Step, soon};

fn tool(name: &str) -> Value {
    json!({ "name": name, "inputSchema": { "type": "object" } })
}

#[tokio::test]
async fn every_tool_is_listed_and_called_with_its_definition() {
    let tools = json!([
        { "name": "stats", "title": "Stats", "description": "Of a repository.",
          "inputSchema": { "type": "object", "properties": { "name": { "type": "string" } }, "required": ["name"] },
          "annotations": { "readOnlyHint": true, "color": "red" } },
        tool("fails"), tool("broken"), tool("unknown"),
        { "name": "typed", "inputSchema": { "type": "object" },
          "outputSchema": { "type": "object", "properties": { "n": { "type": "integer" } }, "required": ["n"] } },
    ]);
    let old = server_of(tools, |rpc, name| match name {
        "stats" => rpc.text(r#"{"score": 1.0, "id": 12345678901234567890}"#),
        "fails" => {
            rpc.result(r#"{"content":[{"type":"text","text":"No such thing at /srv/a"}],"isError":true}"#)
        }
        "broken" => rpc.answer(r#""error":{"code":-32603,"message":"NullPointerException in Main"}"#),
        "typed" => rpc.result(r#"{"content":[],"structuredContent":{"n":"five"}}"#),
        _ => rpc.answer(r#""error":{"code":-32602,"message":"`size` must be positive"}"#),
    })
    .await;
    let served = Served::start(&format!(
        "upstreams: {{ old: {{ mcp: 'http://{}/mcp', tools: {{ prefix: o_ }} }} }}",
        old.address
    ))
    .await;
    let listed = served.tools().await;
    assert_eq!(served.names().await, ["o_broken", "o_fails", "o_stats", "o_typed", "o_unknown"]);
    let stats = &listed[2];
    assert_eq!((&stats["title"], &stats["description"]), (&json!("Stats"), &json!("Of a repository.")));
    assert_eq!(stats["annotations"], json!({ "readOnlyHint": true }));
    assert_eq!(stats["inputSchema"]["required"], json!(["name"]));
    assert_eq!(listed[3]["outputSchema"]["required"], json!(["n"]));

    let response = served.call("o_stats", json!({ "name": "x" })).await;
    assert!(
        response.text().contains(r#""structuredContent":{"score": 1.0, "id": 12345678901234567890}"#),
        "{}",
        response.text()
    );
    assert!(served.call("o_stats", json!({})).await.tool_text().contains("argument `name` is required"));
    let failed = served.call("o_fails", json!({})).await;
    assert_eq!(failed.tool_text(), "No such thing at [path]");
    assert_eq!(failed.json()["isError"], json!(true));
    let broken = served.call("o_broken", json!({})).await.json();
    assert!(!broken.to_string().contains("NullPointer"), "{broken}");
    assert_eq!(broken["_meta"]["glossator/upstreamCode"], json!(-32603));
    assert_eq!(served.call("o_unknown", json!({})).await.tool_text(), "`size` must be positive");
    assert!(served.call("o_typed", json!({})).await.tool_text().contains("`n` must be an integer"));
}

#[tokio::test]
async fn a_session_is_reused_recreated_and_ended() {
    let sessions = Arc::new(AtomicUsize::new(0));
    let counted = sessions.clone();
    let old = server(move |rpc| {
        let session = || format!("s{}", counted.load(Ordering::SeqCst));
        match rpc.method() {
            "initialize" => {
                counted.fetch_add(1, Ordering::SeqCst);
                let body = r#"{"protocolVersion":"2025-06-18","capabilities":{"tools":{}}}"#;
                let body = format!(r#"{{"jsonrpc":"2.0","id":{},"result":{body}}}"#, rpc.message["id"]);
                let length = body.len();
                let head = format!(
                    "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nMcp-Session-Id: {}\r\nContent-Length: {length}\r\n\r\n",
                    session()
                );
                Some(vec![Step::Send((head + &body).into_bytes())])
            }
            "server/discover" => Some(status("400 Bad Request")),
            _ if rpc.http.header("mcp-session-id") != [session()] => Some(status("404 Not Found")),
            "tools/list" => Some(rpc.result(&json!({ "tools": [tool("add")] }).to_string())),
            "tools/call" => {
                assert_eq!(rpc.http.header("mcp-protocol-version"), ["2025-06-18"]);
                Some(rpc.text("5"))
            }
            _ => None,
        }
    })
    .await;
    let served =
        Served::start(&format!("upstreams: {{ old: {{ mcp: 'http://{}/mcp' }} }}", old.address)).await;
    assert_eq!(served.call("add", json!({})).await.json()["structuredContent"], json!({ "result": 5 }));
    // The server restarts, and has lost its sessions.
    sessions.fetch_add(1, Ordering::SeqCst);
    assert_eq!(served.call("add", json!({})).await.json()["structuredContent"], json!({ "result": 5 }));
    served.running.end().await;
    let state = old.until("the end of the session", |state| {
        state.requests.iter().any(|request| request.line().starts_with("DELETE /mcp"))
    });
    let deleted =
        state.await.requests.into_iter().find(|request| request.line().starts_with("DELETE")).unwrap();
    assert_eq!(deleted.header("mcp-session-id"), ["s3"]);
}

#[tokio::test]
async fn messages_before_a_response_in_a_stream_are_handled() {
    let old = server_of(json!([tool("slow")]), |rpc, _| {
        let token = &rpc.message["params"]["_meta"]["progressToken"];
        let events = format!(
            "event: message\r\ndata: {{\"jsonrpc\":\"2.0\",\"method\":\"notifications/progress\",\"params\":{{\"progressToken\":{token},\"progress\":1,\"total\":2}}}}\r\n\r\n\
             data: {{\"jsonrpc\":\"2.0\",\"id\":\"q\",\"method\":\"ping\"}}\n\n\
             data: {{\"jsonrpc\":\"2.0\",\"id\":{},\ndata: \"result\":{{\"content\":[{{\"type\":\"text\",\"text\":\"done\"}}]}}}}\n\n",
            rpc.message["id"]
        );
        vec![
            Step::Send(format!("HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\n{events}").into()),
            Step::Close,
        ]
    })
    .await;
    let served =
        Served::start(&format!("upstreams: {{ old: {{ mcp: 'http://{}/mcp' }} }}", old.address)).await;
    let meta = json!({
        "progressToken": "t", "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {}, "io.modelcontextprotocol/clientInfo": { "name": "x", "version": "1" },
    });
    let call = json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/call",
        "params": { "name": "slow", "arguments": {}, "_meta": meta } });
    let headers = [
        "Content-Type: application/json",
        "Accept: application/json, text/event-stream",
        "MCP-Protocol-Version: 2026-07-28",
        "Mcp-Method: tools/call",
        "Mcp-Name: slow",
    ];
    let mut client = Client::connect(served.address).await;
    let answered = client.send("POST /mcp", &headers, &call.to_string()).await;
    let text = answered.text();
    assert!(text.contains(r#""progress":1"#) && text.contains(r#""total":2"#), "{text}");
    assert!(text.contains(r#""text":"done""#), "{text}");
    old.until("the answer to the ping", |state| {
        state.requests.iter().any(|request| request.body.windows(8).any(|part| part == br#""id":"q""#))
    })
    .await;
}

#[tokio::test]
async fn a_disconnected_client_cancels_the_call() {
    let gate = Gate::new();
    let held = gate.clone();
    let old = server_of(json!([tool("slow")]), move |_, _| vec![Step::Hold(held.clone())]).await;
    let served =
        Served::start(&format!("upstreams: {{ old: {{ mcp: 'http://{}/mcp' }} }}", old.address)).await;
    let mut client = Client::connect(served.address).await;
    client.write("POST /tools/slow HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\n\r\n").await;
    let called = |request: &ReceivedRequest| request.body.windows(10).any(|part| part == b"tools/call");
    old.until("the call", move |state| state.requests.iter().any(called)).await;
    drop(client);
    old.until("the word that nobody waits", |state| {
        state.requests.iter().any(|request| request.body.windows(9).any(|part| part == b"cancelled"))
    })
    .await;
}

/// The server holds the request for notifications without sending headers, as some do until there is a
/// notification.
#[tokio::test]
async fn a_server_that_is_no_longer_configured_is_left_though_it_has_no_notifications() {
    let gate = Gate::new();
    let old = server(move |rpc| match rpc.method() {
        "initialize" => {
            let result = r#"{"protocolVersion":"2025-06-18","capabilities":{"tools":{"listChanged":true}}}"#;
            let body = format!(r#"{{"jsonrpc":"2.0","id":{},"result":{result}}}"#, rpc.message["id"]);
            let head = "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nMcp-Session-Id: s1";
            let response = format!("{head}\r\nContent-Length: {}\r\n\r\n{body}", body.len());
            Some(vec![Step::Send(response.into_bytes())])
        }
        "server/discover" => Some(status("400 Bad Request")),
        "tools/list" => Some(rpc.result(r#"{"tools":[]}"#)),
        "" if rpc.http.line().starts_with("GET ") => Some(vec![Step::Hold(gate.clone())]),
        _ => None,
    })
    .await;
    let address = format!("http://{}/mcp", old.address).parse().unwrap();
    let settings = HttpSettings::new("old".parse().unwrap(), address);
    let upstream = McpUpstream::new(McpTransport::Http(Box::new(settings)));
    upstream.list(RequestedLists::default(), None).await.unwrap();
    let listens = |request: &ReceivedRequest| request.line().starts_with("GET /mcp");
    old.until("it listens", |state| state.requests.iter().any(listens)).await;
    drop(upstream);
    let ends = |request: &ReceivedRequest| request.line().starts_with("DELETE /mcp");
    old.until("the end of the session", |state| state.requests.iter().any(ends)).await;
    old.until("the end of all connections", |state| state.closed_connections == state.connections).await;
}

#[tokio::test]
async fn a_replaced_server_is_listed_at_once() {
    let one = server_of(json!([tool("one")]), |rpc, _| rpc.text("1")).await;
    let other = server_of(json!([tool("other")]), |rpc, _| rpc.text("2")).await;
    let load = |server: &Scripted| {
        let text = format!("upstreams: {{ old: {{ mcp: 'http://{}/mcp' }} }}", server.address);
        config::load(&Sources::from_text("a.yaml", text)).unwrap_or_else(|problems| panic!("{problems}"))
    };
    let mut app = App::new(&load(&one)).unwrap();
    app.discover(Duration::from_secs(10)).await;
    app.apply(&load(&other)).unwrap();
    let served = Served::with_app(app).await;
    served.until_names(&["other"]).await;
    assert_eq!(served.call("other", json!({})).await.json()["structuredContent"], json!({ "result": 2 }));
}

#[tokio::test]
async fn a_call_that_failed_is_not_cancelled() {
    let old = server_of(json!([tool("add")]), |_, _| vec![Step::Close]).await;
    let served =
        Served::start(&format!("upstreams: {{ old: {{ mcp: 'http://{}/mcp' }} }}", old.address)).await;
    for _ in 0..5 {
        assert_eq!(served.call("add", json!({})).await.json()["isError"], json!(true));
    }
    served.running.end().await;
    let requests = names_of_requests(&old);
    assert!(requests.iter().any(|what| what == "tools/call add"), "{requests:?}");
    assert!(!requests.iter().any(|what| what == "notifications/cancelled"), "{requests:?}");
}

#[tokio::test]
async fn a_configured_route_calls_one_tool_with_the_servers_schema() {
    let tools = json!([
        { "name": "search", "description": "Searches.",
          "inputSchema": { "type": "object", "properties": { "query": { "type": "string" } }, "required": ["query"] } },
        tool("other"),
    ]);
    let old = server_of(tools, |rpc, _| rpc.text(&rpc.message["params"]["arguments"].to_string())).await;
    let served = Served::start(&format!(
        "upstreams: {{ old: {{ mcp: 'http://{}/mcp', tools: {{ except: [none] }} }} }}\nroutes:\n  \
         find: {{ request: CALL old/search }}\n  \
         bugs: {{ description: Bugs., request: {{ upstream: old, tool: search, \
         arguments: {{ query: 'bug {{{{ args.words }}}}', limit: 5 }} }} }}\n",
        old.address
    ))
    .await;
    assert_eq!(served.names().await, ["bugs", "find", "other"]);
    let listed = served.tools().await;
    assert_eq!(
        (&listed[0]["description"], &listed[1]["description"]),
        (&json!("Bugs."), &json!("Searches."))
    );
    assert_eq!(listed[0]["inputSchema"]["required"], json!(["words"]));
    assert_eq!(listed[1]["inputSchema"]["required"], json!(["query"]));
    let sent = served.call("bugs", json!({ "words": "in x" })).await.json();
    assert_eq!(sent["structuredContent"], json!({ "query": "bug in x", "limit": 5 }));
    assert!(served.call("find", json!({})).await.tool_text().contains("argument `query` is required"));
}

#[tokio::test]
async fn one_invalid_tool_does_not_affect_others() {
    let schema = |schema: Value| json!({ "type": "object", "properties": { "x": schema } });
    let of = |name: &str, input: Value| json!({ "name": name, "inputSchema": input });
    let tools = json!([
        tool("good"), 5, {}, tool("written"), tool("other name/é"), tool("good"),
        { "name": "no_schema" },
        of("pattern", schema(json!({ "type": "string", "pattern": "(?i)a", "minLength": 2 }))),
        of("reference", schema(json!({ "$ref": "https://example.com/x.json", "description": "An x." }))),
        of("type", schema(json!({ "type": "text" }))),
        of("root", json!({ "type": "array" })),
        of("dialect", json!({ "$schema": "http://json-schema.org/draft-03/schema#", "type": "object" })),
        of("draft_07", json!({ "$schema": "http://json-schema.org/draft-07/schema#", "type": "object",
            "properties": { "x": { "items": [{ "type": "string" }], "additionalItems": false } } })),
        { "name": "output", "inputSchema": { "type": "object" }, "outputSchema": { "type": "what" } },
        { "name": "task", "inputSchema": { "type": "object" }, "execution": { "taskSupport": "required" } },
    ]);
    let old = server_of(tools, |rpc, _| rpc.text("called")).await;
    let served = Served::start(&format!(
        "upstreams: {{ old: {{ mcp: 'http://{}/mcp' }}, http: 'http://127.0.0.1:9' }}\nroutes: {{ written: {{ request: GET http/a }} }}",
        old.address
    ))
    .await;
    let expected = "dialect draft_07 good no_schema other_name__ output pattern reference root type written";
    assert_eq!(served.names().await.join(" "), expected);
    let listed = served.tools().await;
    let of = |name: &str| listed.iter().find(|tool| tool["name"] == name).unwrap();
    assert_eq!(of("pattern")["inputSchema"]["properties"]["x"], json!({ "type": "string", "minLength": 2 }));
    assert_eq!(of("reference")["inputSchema"]["properties"]["x"], json!({ "description": "An x." }));
    assert_eq!(of("output")["outputSchema"], Value::Null);
    for name in ["dialect", "other_name__", "output", "root"] {
        assert_eq!(served.call(name, json!({})).await.tool_text(), "called", "{name}");
    }
    assert_eq!(served.call("draft_07", json!({ "x": ["a"] })).await.tool_text(), "called");
    let violation = served.call("draft_07", json!({ "x": [1] })).await.tool_text();
    assert!(violation.contains("argument `x[0]` must be a string"), "{violation}");
}

#[tokio::test]
async fn errors_that_a_text_hides_become_errors_and_the_rest_stays() {
    let old = server_of(json!([tool("json"), tool("words"), tool("fine")]), |rpc, name| match name {
        "json" => rpc.text(r#"{"error": "no such branch"}"#),
        "words" => rpc.text("Error: no such branch"),
        _ => rpc.text(r#"{"a": 1.0}"#),
    })
    .await;
    let served = Served::start(&format!(
        "upstreams:\n  old:\n    mcp: http://{}/mcp\n    tools:\n      rename: {{ fine: good }}\n      describe: {{ fine: Fine. }}\n      response:\n        \
         - {{ when: {{ value: 'type == \"object\" and has(\"error\")' }}, error: '{{{{ value.error }}}}' }}\n        \
         - {{ when: {{ value: 'type == \"string\" and startswith(\"Error:\")' }}, error: '{{{{ value }}}}' }}\n",
        old.address
    ))
    .await;
    assert_eq!(served.names().await, ["good", "json", "words"]);
    let failed = served.call("json", json!({})).await.json();
    assert_eq!((&failed["isError"], &failed["content"][0]["text"]), (&json!(true), &json!("no such branch")));
    assert_eq!(served.call("words", json!({})).await.tool_text(), "Error: no such branch");
    assert!(served.call("good", json!({})).await.text().contains(r#""structuredContent":{"a": 1.0}"#));
}

#[tokio::test]
async fn no_block_of_a_result_is_lost() {
    let old = server_of(json!([tool("one"), tool("two"), tool("picture")]), |rpc, name| match name {
        "one" => rpc.text(r#"{"a":1}"#),
        "two" => rpc.result(r#"{"content":[{"type":"text","text":"{\"a\":1}"},{"type":"text","text":"{\"a\":2}"}]}"#),
        _ => rpc.result(
            r#"{"content":[{"type":"text","text":"[1]"},{"type":"image","data":"AA==","mimeType":"image/png"}]}"#,
        ),
    })
    .await;
    let served = Served::start(&format!(
        "defaults: {{ envelope: plain }}\nupstreams: {{ old: {{ mcp: 'http://{}/mcp' }} }}\n",
        old.address
    ))
    .await;
    let text = |text: &str| json!({ "type": "text", "text": text });
    let image = json!({ "type": "image", "data": "AA==", "mimeType": "image/png" });
    for (name, content, plain) in [
        ("one", json!([text(r#"{"a":1}"#)]), json!({ "a": 1 })),
        ("two", json!([text(r#"{"a":1}"#), text(r#"{"a":2}"#)]), Value::Null),
        ("picture", json!([text("[1]"), image]), Value::Null),
    ] {
        let structured = plain.clone();
        let plain = if plain.is_null() { json!({ "result": content }) } else { plain };
        assert_eq!(served.call(name, json!({})).await.json(), plain, "{name}");
        let called = served.over_mcp("tools/call", json!({ "name": name, "arguments": {} })).await;
        let result = &called["result"];
        assert_eq!((&result["content"], &result["structuredContent"]), (&content, &structured), "{called}");
    }
}

#[tokio::test]
async fn tools_appear_when_the_server_does() {
    let is_up = Arc::new(AtomicBool::new(false));
    let up = is_up.clone();
    let old = server(move |rpc| match rpc.method() {
        _ if !up.load(Ordering::SeqCst) => Some(status("503 Service Unavailable")),
        "tools/list" => Some(rpc.result(&json!({ "tools": [tool("late")] }).to_string())),
        _ => None,
    })
    .await;
    let served =
        Served::start(&format!("upstreams: {{ old: {{ mcp: 'http://{}/mcp' }} }}", old.address)).await;
    assert!(served.names().await.is_empty());
    is_up.store(true, Ordering::SeqCst);
    served.until_names(&["late"]).await;
}

#[tokio::test]
async fn a_list_is_read_page_by_page_and_again_after_a_change() {
    let gate = Gate::new();
    let (opened, changed) = (gate.clone(), gate.clone());
    let old = server(move |rpc| match rpc.method() {
        "initialize" => Some(
            rpc.result(r#"{"protocolVersion":"2024-11-05","capabilities":{"tools":{"listChanged":true}}}"#),
        ),
        "" if rpc.http.line().starts_with("GET") => {
            let head =
                "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\n: hello\n\n";
            let event = "data: {\"jsonrpc\":\"2.0\",\"method\":\"notifications/tools/list_changed\"}\n\n";
            let never = Step::Hold(Gate::new());
            Some(vec![Step::Send(head.into()), Step::Hold(opened.clone()), Step::Send(event.into()), never])
        }
        "tools/list" => Some(match rpc.message["params"]["cursor"].as_str() {
            None => rpc.result(&json!({ "tools": [tool("a")], "nextCursor": "2" }).to_string()),
            Some(_) if changed.is_open() => rpc.result(&json!({ "tools": [tool("c")] }).to_string()),
            Some(_) => rpc.result(&json!({ "tools": [tool("b")] }).to_string()),
        }),
        _ => None,
    })
    .await;
    let served =
        Served::start(&format!("upstreams: {{ old: {{ mcp: 'http://{}/mcp' }} }}", old.address)).await;
    assert_eq!(served.names().await, ["a", "b"]);
    gate.open();
    served.until_names(&["a", "c"]).await;
}

#[tokio::test]
async fn a_list_is_read_again_after_a_call_of_an_unknown_tool() {
    let is_renamed = Arc::new(AtomicBool::new(false));
    let old = server(move |rpc| match rpc.method() {
        "tools/list" => {
            let name = if is_renamed.load(Ordering::SeqCst) { "new" } else { "old" };
            // Other members are ignored, even other lists.
            Some(rpc.result(&json!({ "tools": [tool(name)], "prompts": [1], "entries": 1 }).to_string()))
        }
        "tools/call" => {
            is_renamed.store(true, Ordering::SeqCst);
            Some(rpc.answer(r#""error":{"code":-32602,"message":"Unknown tool: old"}"#))
        }
        _ => None,
    })
    .await;
    let served =
        Served::start(&format!("upstreams: {{ old: {{ mcp: 'http://{}/mcp' }} }}", old.address)).await;
    assert_eq!(served.names().await, ["old"]);
    served.call("old", json!({})).await;
    served.until_names(&["new"]).await;
}

#[tokio::test]
async fn a_server_of_the_newest_revision_is_called_without_a_session() {
    let old = server_of(json!([tool("add")]), |rpc, _| rpc.text("5")).await;
    let inner =
        Served::start(&format!("upstreams: {{ old: {{ mcp: 'http://{}/mcp' }} }}", old.address)).await;
    let outer = Served::start(&format!(
        "upstreams: {{ inner: {{ mcp: 'http://{}/mcp', tools: {{ prefix: x_ }} }} }}",
        inner.address
    ))
    .await;
    assert_eq!(outer.names().await, ["x_add"]);
    assert_eq!(outer.call("x_add", json!({})).await.json()["structuredContent"], json!({ "result": 5 }));
    let requests = names_of_requests(&old);
    assert_eq!(requests[..3], ["server/discover", "initialize", "notifications/initialized"], "{requests:?}");
}

/// The server has received no call then.
#[tokio::test]
async fn a_rejected_session_does_not_claim_an_effect() {
    let old = Scripted::start(|_| status("503 Service Unavailable")).await;
    let served = Served::start(&format!(
        "upstreams: {{ old: {{ mcp: 'http://{}/mcp', retry: off }} }}\n\
         routes: {{ add: {{ request: CALL old/add }} }}",
        old.address
    ))
    .await;
    let text = served.call("add", json!({})).await.tool_text();
    assert!(text.contains("503") && text.contains("Retry later"), "{text}");
    assert!(!text.contains("effect"), "{text}");
}

#[tokio::test]
async fn a_server_without_mcp_is_reported_as_such() {
    for (body, expected) in
        [("<html>", "not valid MCP"), (r#"{"jsonrpc":"2.0","id":"?","result":{}}"#, "not valid MCP")]
    {
        let old = server_of(json!([tool("odd")]), move |_, _| answer(body)).await;
        let served =
            Served::start(&format!("upstreams: {{ old: {{ mcp: 'http://{}/mcp' }} }}", old.address)).await;
        let text = served.call("odd", json!({})).await.tool_text();
        assert!(text.contains(expected), "{body}: {text}");
    }
}

#[tokio::test]
async fn settings_of_single_tools_override_the_server() {
    let tools = json!([
        { "name": "count", "description": "Counts.", "_meta": { "ui/resourceUri": "ui://count" },
          "inputSchema": { "type": "object", "properties": {
              "depth": { "type": "integer", "nullable": true }, "of": { "type": "string" } }, "required": ["of"] } },
        tool("other"), tool("blank"),
    ]);
    let old = server_of(tools, |rpc, name| match name {
        "count" if rpc.message["params"]["arguments"]["of"] == "nothing" => rpc.text(r#"{"gone":true}"#),
        "count" if rpc.message["params"]["arguments"]["of"] == "words" => rpc.text(r#"{"n":"many"}"#),
        "count" => {
            assert_eq!(rpc.message["params"]["arguments"]["depth"], Value::Null);
            rpc.text(r#"{"n":"12"}"#)
        }
        "blank" => rpc.result(r#"{"content":[{"type":"text"},{"type":"text","text":"done"}]}"#),
        _ => rpc.result(
            &json!({ "isError": true, "content": [{ "type": "text",
            "text": format!("{} /srv/data", "no ".repeat(2000)) }] })
            .to_string(),
        ),
    })
    .await;
    let served = Served::start(&format!(
        "upstreams:
  old:
    mcp: 'http://{}/mcp'
    error_text_limit: 16KiB
    tools:
      response: {{ when: {{ value: '.gone == true' }}, error: Gone for all. }}
      overrides:
        count:
          title: Count
          annotations: {{ readOnlyHint: true }}
          output: {{ type: object, properties: {{ n: {{ type: integer }} }}, required: [n] }}
          response: {{ when: {{ args: '.of == \"nothing\"' }}, error: Nothing of it. }}",
        old.address
    ))
    .await;
    let listed = served.tools().await;
    let count = listed.iter().find(|tool| tool["name"] == "count").unwrap();
    assert_eq!((&count["title"], &count["description"]), (&json!("Count"), &json!("Counts.")));
    assert_eq!(count["_meta"], json!({ "ui/resourceUri": "ui://count" }));
    assert_eq!(count["outputSchema"]["required"], json!(["n"]));
    assert_eq!(count["inputSchema"]["properties"]["depth"]["nullable"], true);
    let counted = served.call("count", json!({ "of": "a", "depth": null })).await.json();
    assert_eq!(counted["structuredContent"], json!({ "n": 12 }), "{counted}");
    assert!(
        served.call("count", json!({ "of": "words" })).await.tool_text().contains("`n` must be an integer")
    );
    assert_eq!(served.call("count", json!({ "of": "nothing" })).await.tool_text(), "Nothing of it.");
    assert_eq!(served.call("blank", json!({})).await.tool_text(), "done");
    let long = served.call("other", json!({})).await.tool_text();
    assert!(long.len() > 6000 && long.ends_with("[path]"), "{long}");
}

#[tokio::test]
async fn redacted_parts_of_an_error_are_in_the_debug_log() {
    let old = server_of(json!([tool("sql"), tool("row")]), |rpc, name| match name {
        "sql" => {
            rpc.result(r#"{"content":[{"type":"text","text":"near \"Ada\": syntax error"}],"isError":true}"#)
        }
        _ => rpc.answer(
            r#""error":{"code":-32603,"message":"UNIQUE constraint failed: t.name: params: [\"Ada\"]"}"#,
        ),
    })
    .await;
    let config = format!(
        "upstreams: {{ old: {{ mcp: 'http://{}/mcp' }} }}\nserver: {{ listen: '127.0.0.1:0' }}\nlog: {{ level: debug }}",
        old.address
    );
    let program = Program::start(&config, &[]).await;
    let call = async |tool: &str| {
        let headers = ["Content-Type: application/json"];
        program.connect().await.send(&format!("POST /tools/{tool}"), &headers, "{}").await
    };
    soon("the tools", async { while call("sql").await.status == 503 {} }).await;
    for (tool, expected) in [
        ("sql", "The service failed. Its message has internal details and is not shown."),
        (
            "row",
            "The service reported an internal error, whose details are not shown. Check the arguments; if \
             they are valid, retry later.",
        ),
    ] {
        assert_eq!(call(tool).await.tool_text(), expected);
    }
    let log = program.log().await;
    for (tool, words) in [("sql", "syntax error"), ("row", "UNIQUE constraint")] {
        let is_of_it = |line: &&Value| line["route"] == tool && line["note"].to_string().contains(words);
        let found: Vec<_> = log.iter().filter(is_of_it).collect();
        assert!(!found.is_empty() && found.iter().all(|line| line["level"] == "DEBUG"), "{tool}: {log:?}");
    }
}
