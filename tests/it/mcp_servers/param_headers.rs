//! Arguments that an MCP server of revision 2026-07-28 requires in headers, too.

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

use serde_json::{Map, Value, json};

use super::{RpcRequest, Served, names_of_requests, server, server_of};
use crate::support::{Gate, Program, Scripted, Step, response, soon};

/// Result of `server/discover`.
const DISCOVERED: &str = r#"{"supportedVersions":["2026-07-28"],"capabilities":{"tools":{}}}"#;

/// Server of revision 2026-07-28 with tools of these input schemas. It rejects a call without the header of a
/// marked property of the root, and otherwise returns the headers that it got.
async fn strict_server(schemas: impl Fn() -> Value + Send + Sync + 'static) -> Scripted {
    server(move |rpc| match rpc.method() {
        "server/discover" => Some(rpc.result(DISCOVERED)),
        "tools/list" => {
            let entry = |(name, schema): (&String, &Value)| json!({ "name": name, "inputSchema": schema });
            let tools: Vec<Value> = schemas().as_object().unwrap().iter().map(entry).collect();
            Some(rpc.result(&json!({ "tools": tools }).to_string()))
        }
        "tools/call" => Some(checked(rpc, &schemas()[rpc.message["params"]["name"].as_str().unwrap()])),
        _ => None,
    })
    .await
}

fn checked(rpc: &RpcRequest<'_>, schema: &Value) -> Vec<Step> {
    let arguments = &rpc.message["params"]["arguments"];
    for (name, property) in schema["properties"].as_object().into_iter().flatten() {
        let Some(header) = property["x-mcp-header"].as_str() else { continue };
        let found = rpc.http.header(&format!("Mcp-Param-{header}"));
        if arguments[name].is_null() != found.is_empty() {
            return mismatch(rpc, header);
        }
    }
    let lines = rpc.http.head.lines().filter_map(|line| line.split_once(": "));
    let sent = lines.filter_map(|(name, value)| {
        let name = name.to_ascii_lowercase();
        Some((name.strip_prefix("mcp-param-")?.to_owned(), value.into()))
    });
    rpc.text(&json!({ "headers": sent.collect::<Map<String, Value>>() }).to_string())
}

fn mismatch(rpc: &RpcRequest<'_>, header: &str) -> Vec<Step> {
    let error = json!({ "code": -32020, "message": format!("Header mismatch: Mcp-Param-{header}") });
    let body = json!({ "jsonrpc": "2.0", "id": rpc.message["id"], "error": error }).to_string();
    vec![Step::Send(response("400 Bad Request", "application/json", &body))]
}

fn lists_of(server: &Scripted) -> usize {
    names_of_requests(server).iter().filter(|what| *what == "tools/list").count()
}

fn properties(properties: Value) -> Value {
    json!({ "type": "object", "properties": properties })
}

#[tokio::test]
async fn marked_arguments_are_repeated_in_headers() {
    let old = strict_server(|| {
        let deep = properties(json!({ "flag": { "type": "boolean", "x-mcp-header": "Flag" } }));
        json!({
            "marked": properties(json!({
                "region": { "type": "string", "x-mcp-header": "Region" },
                "count": { "type": "integer", "x-mcp-header": "Count" },
                "deep": deep,
                "other": { "type": "string" },
            })),
            "plain": properties(json!({ "region": { "type": "string" } })),
        })
    })
    .await;
    let served = Served::start(&format!(
        "upstreams: {{ old: {{ mcp: 'http://{}/mcp', tools: {{ only: [marked, plain] }} }} }}\nroutes:\n  \
         near: {{ description: x, request: {{ upstream: old, tool: marked, \
         arguments: {{ region: '{{{{ args.place }}}}' }} }} }}\n",
        old.address
    ))
    .await;
    let sent = async |tool: &str, arguments: Value| {
        served.call(tool, arguments).await.json()["structuredContent"]["headers"].take()
    };
    let all = json!({ "region": "eu", "count": 3.0, "deep": { "flag": true }, "other": "x" });
    let expected = json!({ "region": "eu", "count": "3", "flag": "true" });
    assert_eq!(sent("plain", json!({ "region": "eu" })).await, json!({}));
    assert_eq!(sent("near", json!({ "place": "Å" })).await, json!({ "region": "=?base64?w4U=?=" }));
    assert_eq!(served.names().await, ["near", "plain"], "a tool with a route is offered through it only");
    drop(served);
    let served =
        Served::start(&format!("upstreams: {{ old: {{ mcp: 'http://{}/mcp' }} }}", old.address)).await;
    let sent = async |arguments: Value| {
        served.call("marked", arguments).await.json()["structuredContent"]["headers"].take()
    };
    assert_eq!(sent(all).await, expected);
    assert_eq!(sent(json!({})).await, json!({}));
    assert_eq!(sent(json!({ "region": " padded " })).await, json!({ "region": "=?base64?IHBhZGRlZCA=?=" }));
    assert_eq!(lists_of(&old), 2, "no call needs another list");
}

#[tokio::test]
async fn a_tool_with_an_invalid_header_is_omitted() {
    let old = strict_server(|| {
        let of = |property: Value| properties(json!({ "x": property }));
        json!({
            "empty": of(json!({ "type": "string", "x-mcp-header": "" })),
            "number": of(json!({ "type": "number", "x-mcp-header": "X" })),
            "item": of(json!({ "type": "array", "items": { "type": "string", "x-mcp-header": "X" } })),
            "good": of(json!({ "type": "string", "x-mcp-header": "X" })),
        })
    })
    .await;
    let served =
        Served::start(&format!("upstreams: {{ old: {{ mcp: 'http://{}/mcp' }} }}", old.address)).await;
    assert_eq!(served.names().await, ["good"]);
}

#[tokio::test]
async fn an_omitted_tool_is_logged_once_for_many_lists() {
    let bad = properties(json!({ "x": { "type": "string", "x-mcp-header": "" } }));
    let tools = json!([{ "name": "bad", "inputSchema": bad }, { "name": "find", "inputSchema": properties(json!({})) }]);
    let tools = json!({ "tools": tools }).to_string();
    let old = server(move |rpc| match rpc.method() {
        "server/discover" => Some(rpc.result(DISCOVERED)),
        "tools/list" => Some(rpc.result(&tools)),
        "tools/call" => Some(rpc.answer(r#""error":{"code":-32602,"message":"Tool find not found"}"#)),
        _ => None,
    })
    .await;
    let config = format!(
        "upstreams: {{ old: {{ mcp: 'http://{}/mcp' }} }}\nserver: {{ listen: '127.0.0.1:0' }}",
        old.address
    );
    let program = Program::start(&config, &[]).await;
    soon("two more lists", async {
        while lists_of(&old) < 3 {
            let headers = ["Content-Type: application/json"];
            program.connect().await.send("POST /tools/find", &headers, "{}").await;
        }
    })
    .await;
    let log = program.log().await;
    let omitted = log.iter().filter(|line| line["message"] == "tool of an MCP server omitted").count();
    assert_eq!(omitted, 1);
}

#[tokio::test]
async fn a_call_is_sent_again_after_the_header_of_its_tool_has_changed() {
    let has_header = Arc::new(AtomicBool::new(false));
    let marked = has_header.clone();
    let old = strict_server(move || {
        let mut city = json!({ "type": "string" });
        if marked.load(Ordering::SeqCst) {
            city["x-mcp-header"] = json!("City");
        }
        json!({ "find": properties(json!({ "city": city })) })
    })
    .await;
    let served =
        Served::start(&format!("upstreams: {{ old: {{ mcp: 'http://{}/mcp' }} }}", old.address)).await;
    let find = async || {
        served.call("find", json!({ "city": "Oslo" })).await.json()["structuredContent"]["headers"].take()
    };
    assert_eq!(find().await, json!({}));
    has_header.store(true, Ordering::SeqCst);
    assert_eq!(find().await, json!({ "city": "Oslo" }));
    assert_eq!(find().await, json!({ "city": "Oslo" }));
    let calls = names_of_requests(&old).iter().filter(|what| *what == "tools/call find").count();
    assert_eq!(calls, 4, "one was sent twice");
}

#[tokio::test]
async fn calls_that_are_rejected_together_cause_one_more_list() {
    let gate = Gate::new();
    let held = gate.clone();
    let old = server(move |rpc| match rpc.method() {
        "server/discover" => Some(rpc.result(DISCOVERED)),
        "tools/list" => Some(rpc.result(r#"{"tools":[{"name":"find","inputSchema":{"type":"object"}}]}"#)),
        "tools/call" => {
            let mut steps = vec![Step::Hold(held.clone())];
            steps.extend(mismatch(rpc, "City"));
            Some(steps)
        }
        _ => None,
    })
    .await;
    let served =
        Served::start(&format!("upstreams: {{ old: {{ mcp: 'http://{}/mcp' }} }}", old.address)).await;
    let release = async {
        old.until("both calls are in flight", |state| {
            let is_call = |body: &[u8]| String::from_utf8_lossy(body).contains("tools/call");
            state.requests.iter().filter(|request| is_call(&request.body)).count() == 2
        })
        .await;
        gate.open();
    };
    let find = || served.call("find", json!({}));
    tokio::join!(find(), find(), release);
    assert_eq!(lists_of(&old), 2);
}

#[tokio::test]
async fn an_earlier_revision_has_no_code_for_headers() {
    let tools = json!([{ "name": "find", "inputSchema": { "type": "object" } }]);
    let old = server_of(tools, |rpc, _| rpc.answer(r#""error":{"code":-32020,"message":"no city"}"#)).await;
    let served =
        Served::start(&format!("upstreams: {{ old: {{ mcp: 'http://{}/mcp' }} }}", old.address)).await;
    served.call("find", json!({})).await;
    assert_eq!(lists_of(&old), 1);
}
