//! Prompts and resources of MCP servers, proxied unmodified.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use glossator::auth::ApiKeyHash;
use serde_json::{Value, json};

use super::{RpcRequest, Served, server, status};
use crate::support::{Client, Gate, Scripted, Step, soon};

const REVISIONS: [&str; 5] = ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25", "2026-07-28"];

const CAPABILITIES: &str = r#"{"protocolVersion":"2025-06-18","capabilities":{"prompts":{"listChanged":true},
"resources":{},"completions":{}},"serverInfo":{"name":"notes","version":"1"}}"#;

/// Messages whose numbers, order and white space must be preserved.
const MESSAGES: &str = r#"[{"content":{"type":"text", "text":"Sum up \u0061 note.","_meta":{"n":1.0}},"role":"user","odd":1e3}]"#;
const CONTENTS: &str =
    r#"[{"uri":"note://1","mimeType":"text/plain","text":"caf\u00e9", "_meta":{"n":1.50}}]"#;

fn listed() -> [(&'static str, Value); 4] {
    [
        ("tools/list", json!({ "tools": [] })),
        (
            "prompts/list",
            json!({ "prompts": [
                { "name": "sum up", "title": "Sum up", "description": null, "icons": [{ "src": "data:,x" }, 5],
                  "arguments": [{ "name": "note", "description": "Which.", "required": true }, { "name": null }],
                  "_meta": { "a/b": 1.0 } },
                { "name": "draft_one" }, { "title": "nameless" }, "nothing",
            ] }),
        ),
        (
            "resources/list",
            json!({ "resources": [
                { "uri": "note://1", "name": "one", "mimeType": "text/plain", "size": 4,
                  "annotations": { "audience": ["user"], "priority": null } },
                { "uri": "note://secret", "name": "secret" }, { "uri": "own:thing", "name": "theirs" },
            ] }),
        ),
        (
            "resources/templates/list",
            json!({ "resourceTemplates": [
                { "uriTemplate": "note://{id}", "name": "note" }, { "uriTemplate": "file:///{+path}", "name": "file" },
                { "uriTemplate": "bad://{", "name": "bad" },
            ] }),
        ),
    ]
}

fn answer(rpc: &RpcRequest<'_>) -> Option<Vec<Step>> {
    let params = &rpc.message["params"];
    let error = |code: i64, message: &str| {
        Some(rpc.answer(&format!(r#""error":{}"#, json!({ "code": code, "message": message }))))
    };
    if let Some((_, list)) = listed().iter().find(|(method, _)| *method == rpc.method()) {
        return Some(rpc.result(&list.to_string()));
    }
    match (rpc.method(), params["name"].as_str(), params["uri"].as_str()) {
        ("initialize", ..) => Some(rpc.result(CAPABILITIES)),
        ("server/discover", ..) => Some(status("400 Bad Request")),
        ("prompts/get", Some("sum up"), _) => match params["arguments"]["note"].as_str() {
            Some("1") => Some(rpc.result(&format!(
                r#"{{"description":"A sum.","messages":{MESSAGES},"_meta":{{"x":2.0,"io.modelcontextprotocol/serverInfo":{{}}}}}}"#
            ))),
            Some("crash") => error(-32603, "NullPointerException at 10.0.0.7:80"),
            Some("empty") => Some(rpc.result("{}")),
            Some(
                error @ ("5" | r#""text""# | "{}" | r#"{"code":"x"}"# | r#"{"code":1,"message":"sent"}"#),
            ) => {
                Some(rpc.answer(&format!(r#""result":{{"messages":{MESSAGES}}},"error":{error}"#)))
            }
            Some(_) => error(-32602, "no note of this name in /srv/notes/all"),
            None => error(-32602, "argument `note` is missing"),
        },
        ("resources/read", _, Some("note://1")) => {
            Some(rpc.result(&format!(r#"{{"contents":{CONTENTS}}}"#)))
        }
        ("resources/read", _, Some("file:///a/b")) => Some(rpc.result(
            r#"{"contents":[{"uri":"file:///a/b","blob":"AAA="}],"ttlMs":5000,"cacheScope":"public"}"#,
        )),
        ("resources/read", _, Some("note://broken")) => error(-32603, "disk /dev/sda1 failed"),
        ("resources/read", _, Some(uri)) => error(-32002, &format!("{uri} is not at /srv/notes/all")),
        ("completion/complete", ..) => {
            let value = format!("{} {} {}", params["ref"], params["argument"], params["context"]);
            Some(rpc.result(&json!({ "completion": { "values": [value], "hasMore": false } }).to_string()))
        }
        _ => None,
    }
}

async fn notes() -> Scripted {
    server(answer).await
}

/// Sends a JSON-RPC request of a revision, and returns the whole response as text.
async fn send(served: &Served, revision: &str, method: &str, params: Value, more: &[&str]) -> String {
    let mut params = params;
    let mut headers = vec![
        "Content-Type: application/json".to_owned(),
        "Accept: application/json, text/event-stream".to_owned(),
        format!("MCP-Protocol-Version: {revision}"),
    ];
    headers.extend(more.iter().map(|header| (*header).to_owned()));
    if revision == "2026-07-28" {
        headers.push(format!("Mcp-Method: {method}"));
        let name = params["name"].as_str().or_else(|| params["uri"].as_str());
        headers.extend(name.map(|name| format!("Mcp-Name: {name}")));
        params["_meta"] = json!({ "io.modelcontextprotocol/protocolVersion": revision,
            "io.modelcontextprotocol/clientCapabilities": {} });
    }
    let body = json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": params }).to_string();
    let headers: Vec<&str> = headers.iter().map(String::as_str).collect();
    let response = Client::connect(served.address).await.send("POST /mcp", &headers, &body).await;
    let text = response.text();
    text.lines().find_map(|line| line.strip_prefix("data: ")).unwrap_or(text).to_owned()
}

async fn send_json(served: &Served, revision: &str, method: &str, params: Value) -> Value {
    serde_json::from_str(&send(served, revision, method, params, &[]).await).unwrap()
}

async fn keys(served: &Served, method: &str, list: &str, key: &str) -> Vec<String> {
    let found = send_json(served, "2025-11-25", method, json!({})).await;
    let entries = found["result"][list].as_array().unwrap_or_else(|| panic!("{found}"));
    entries.iter().map(|entry| entry[key].as_str().unwrap().to_owned()).collect()
}

async fn serving(server: &Scripted, more: &str) -> Served {
    Served::start(&format!("upstreams: {{ notes: {{ mcp: 'http://{}/mcp'{more} }} }}", server.address)).await
}

#[tokio::test]
async fn every_revision_gets_lists_and_results_as_the_server_gives_them() {
    let notes = notes().await;
    let served = serving(&notes, "").await;
    for revision in REVISIONS {
        let is_new = revision == "2026-07-28";
        let list = send_json(&served, revision, "prompts/list", json!({})).await["result"].clone();
        assert_eq!(
            list["prompts"][1],
            json!({ "name": "sum_up", "title": "Sum up", "_meta": { "a/b": 1.0 },
                "arguments": [{ "name": "note", "description": "Which.", "required": true }],
                "icons": [{ "src": "data:,x" }] }),
            "{list}"
        );
        assert_eq!((list["prompts"].as_array().unwrap().len(), list.get("ttlMs").is_some()), (2, is_new));
        let list = send_json(&served, revision, "resources/list", json!({})).await["result"].clone();
        assert_eq!(
            list["resources"][0],
            json!({ "uri": "note://1", "name": "one", "mimeType": "text/plain", "size": 4,
                "annotations": { "audience": ["user"] } })
        );
        let list =
            send_json(&served, revision, "resources/templates/list", json!({})).await["result"].clone();
        assert_eq!(list["resourceTemplates"][0], json!({ "uriTemplate": "file:///{+path}", "name": "file" }));

        let params = json!({ "name": "sum_up", "arguments": { "note": "1" } });
        let got = send(&served, revision, "prompts/get", params, &[]).await;
        assert!(got.contains(&format!(r#""messages":{MESSAGES}"#)), "{got}");
        let got: Value = serde_json::from_str(&got).unwrap();
        assert_eq!(got["result"]["description"], "A sum.");
        let meta = got["result"]["_meta"].as_object().unwrap();
        assert_eq!((meta.len(), &meta["x"]), (1 + usize::from(is_new), &json!(2.0)), "{got}");

        let got = send(&served, revision, "resources/read", json!({ "uri": "note://1" }), &[]).await;
        assert!(got.contains(&format!(r#""contents":{CONTENTS}"#)), "{got}");
        assert_eq!(got.contains(r#""ttlMs":0,"cacheScope":"private""#), is_new, "{got}");
        let got = send(&served, revision, "resources/read", json!({ "uri": "file:///a/b" }), &[]).await;
        assert!(got.contains(r#""blob":"AAA=""#), "{got}");
        assert_eq!(got.contains(r#""ttlMs":5000,"cacheScope":"public""#), is_new, "{got}");
        assert_eq!(got.contains("ttlMs"), is_new, "{got}");
    }
}

#[tokio::test]
async fn errors_are_json_rpc_errors_without_internals_of_the_server() {
    let notes = notes().await;
    let served = serving(&notes, "").await;
    let get = |note: &str| json!({ "name": "sum_up", "arguments": { "note": note } });
    for revision in ["2025-06-18", "2026-07-28"] {
        let no_resource = if revision == "2026-07-28" { -32602 } else { -32002 };
        for (method, params, code, words) in [
            ("prompts/get", get("lost"), -32602, "no note of this name in [path]"),
            ("prompts/get", json!({ "name": "sum_up" }), -32602, "argument `note` is missing"),
            (
                "prompts/get",
                get("crash"),
                -32603,
                "the prompt can't be built: The service reported an internal error",
            ),
            ("prompts/get", get("empty"), -32603, "the prompt can't be built"),
            ("prompts/get", json!({ "name": "sum up" }), -32602, "unknown prompt"),
            (
                "prompts/get",
                json!({ "name": "sum_up", "arguments": { "note": 5 } }),
                -32602,
                "argument `note` must be a string",
            ),
            (
                "resources/read",
                json!({ "uri": "note://x" }),
                no_resource,
                "resource not found: note://x is not at [path]",
            ),
            ("resources/read", json!({ "uri": "other:x" }), no_resource, "unknown resource"),
            ("resources/read", json!({ "uri": "note://broken" }), -32603, "the resource can't be read"),
        ] {
            let error = send_json(&served, revision, method, params).await["error"].clone();
            assert_eq!(error["code"], code, "{error}");
            let message = error["message"].as_str().unwrap();
            assert!(message.contains(words), "{message}");
            let tells = ["/srv", "10.0.0.7", "NullPointer", "/dev"].iter().any(|word| message.contains(word));
            assert!(!tells, "{message}");
        }
    }
}

#[tokio::test]
async fn a_response_with_a_result_and_an_error_is_an_error() {
    let notes = notes().await;
    let served = serving(&notes, "").await;
    for error in ["5", r#""text""#, "{}", r#"{"code":"x"}"#, r#"{"code":1,"message":"sent"}"#] {
        let params = json!({ "name": "sum_up", "arguments": { "note": error } });
        let response = send_json(&served, "2025-11-25", "prompts/get", params).await;
        assert_eq!((&response["error"]["code"], response.get("result")), (&json!(-32603), None), "{error}");
    }
}

#[tokio::test]
async fn only_configured_entries_are_offered_under_their_configured_names() {
    let notes = notes().await;
    let more = ", prompts: { prefix: n_, except: ['draft_*'] }, resources: { prefix: 'Note ', except: ['*secret', 'file:*'] }";
    let served = serving(&notes, more).await;
    assert_eq!(keys(&served, "prompts/list", "prompts", "name").await, ["n_sum_up"]);
    assert_eq!(keys(&served, "resources/list", "resources", "uri").await, ["note://1", "own:thing"]);
    assert_eq!(keys(&served, "resources/list", "resources", "name").await, ["Note one", "Note theirs"]);
    assert_eq!(keys(&served, "resources/templates/list", "resourceTemplates", "name").await, ["Note note"]);
    for uri in ["note://secret", "note://se%63ret", "file:///a/b"] {
        let error = send_json(&served, "2025-11-25", "resources/read", json!({ "uri": uri })).await;
        assert_eq!(error["error"]["code"], -32002, "{uri} {error}");
    }
    let read = |state: &crate::support::ReceivedRequest| {
        state.body.windows(14).any(|part| part == b"resources/read")
    };
    assert!(!notes.state().requests.iter().any(read));
    let params = json!({ "name": "n_draft_one" });
    assert!(send_json(&served, "2025-11-25", "prompts/get", params).await["error"].is_object());

    let served = serving(&notes, ", prompts: { only: ['sum*'] }, resources: off").await;
    assert_eq!(keys(&served, "prompts/list", "prompts", "name").await, ["sum_up"]);
    let error = send_json(&served, "2025-11-25", "resources/list", json!({})).await;
    assert_eq!(error["error"]["code"], -32601, "{error}");
}

#[tokio::test]
async fn without_offered_tools_other_lists_are_opt_in() {
    let notes = notes().await;
    let route = "\nroutes: { x: { description: X., request: CALL notes/x } }";
    let text = |more: &str| {
        format!("upstreams: {{ notes: {{ mcp: 'http://{}/mcp', tools: off{more} }} }}{route}", notes.address)
    };
    let served = Served::start(&text("")).await;
    let error = send_json(&served, "2025-11-25", "prompts/list", json!({})).await;
    assert_eq!(error["error"]["code"], -32601, "{error}");
    let served = Served::start(&text(", prompts: all")).await;
    assert_eq!(keys(&served, "prompts/list", "prompts", "name").await, ["draft_one", "sum_up"]);
}

#[tokio::test]
async fn configured_entries_take_precedence() {
    let notes = notes().await;
    let text = format!(
        "upstreams: {{ notes: {{ mcp: 'http://{}/mcp' }}, old: 'http://127.0.0.1:9' }}
routes:
  thing: {{ description: Ours., request: GET old/thing, resource: own:thing }}
  note: {{ description: Ours., request: 'GET old/{{id}}', resource: 'note://{{id}}' }}
prompts: {{ sum_up: {{ description: Ours., messages: [{{ user: Ours. }}] }} }}",
        notes.address
    );
    let served = Served::start(&text).await;
    let of = |list: &Value, key: &str, name: &str| -> Vec<Value> {
        let entries = list["result"][key].as_array().unwrap().iter();
        entries.filter(|entry| entry.to_string().contains(name)).cloned().collect()
    };
    let list = send_json(&served, "2025-11-25", "prompts/list", json!({})).await;
    assert_eq!(of(&list, "prompts", "sum_up"), [json!({ "name": "sum_up", "description": "Ours." })]);
    let list = send_json(&served, "2025-11-25", "resources/list", json!({})).await;
    assert_eq!(of(&list, "resources", "own:thing")[0]["name"], "thing");
    // A URI of an own template is not listed as theirs.
    assert!(of(&list, "resources", "note://").is_empty(), "{list}");
    let list = send_json(&served, "2025-11-25", "resources/templates/list", json!({})).await;
    assert_eq!(of(&list, "resourceTemplates", "note://").len(), 1, "{list}");
    let got = send_json(&served, "2025-11-25", "prompts/get", json!({ "name": "sum_up" })).await;
    assert_eq!(got["result"]["messages"][0]["content"]["text"], "Ours.");
}

#[tokio::test]
async fn the_first_of_two_servers_has_a_shared_name() {
    let (one, other) = (notes().await, notes().await);
    let served = Served::start(&format!(
        "upstreams: {{ a: {{ mcp: 'http://{}/mcp' }}, b: {{ mcp: 'http://{}/mcp', prompts: {{ prefix: b_ }} }} }}",
        one.address, other.address
    ))
    .await;
    let names = keys(&served, "prompts/list", "prompts", "name").await;
    assert_eq!(names, ["b_draft_one", "b_sum_up", "draft_one", "sum_up"]);
    assert_eq!(keys(&served, "resources/list", "resources", "uri").await.len(), 3);
}

#[tokio::test]
async fn clients_without_the_scopes_see_none_of_them() {
    let notes = notes().await;
    let (reader, stranger) =
        ("glk_reader-reader-reader-reader-reader", "glk_other-other-other-other-other-ot");
    let text = format!(
        "upstreams: {{ notes: {{ mcp: 'http://{}/mcp', prompts: {{ scopes: [use] }}, resources: {{ scopes: [use] }} }} }}
clients:
  reader: {{ api_key_hashes: '{}', scopes: [use] }}
  stranger: {{ api_key_hashes: '{}' }}",
        notes.address,
        ApiKeyHash::from_key(reader),
        ApiKeyHash::from_key(stranger)
    );
    let served = Served::start(&text).await;
    for (key, shown) in [(reader, 2), (stranger, 0)] {
        let header = format!("Authorization: Bearer {key}");
        let send_as_client = async |method: &str, params: Value| -> Value {
            serde_json::from_str(&send(&served, "2025-11-25", method, params, &[&header]).await).unwrap()
        };
        let list = send_as_client("prompts/list", json!({})).await;
        assert_eq!(list["result"]["prompts"].as_array().unwrap().len(), shown, "{list}");
        let list = send_as_client("resources/templates/list", json!({})).await;
        assert_eq!(list["result"]["resourceTemplates"].as_array().unwrap().len(), shown, "{list}");
        for (method, params) in [
            ("prompts/get", json!({ "name": "sum_up", "arguments": { "note": "1" } })),
            ("resources/read", json!({ "uri": "note://1" })),
            (
                "completion/complete",
                json!({ "ref": { "type": "ref/prompt", "name": "sum_up" }, "argument": { "name": "note", "value": "" } }),
            ),
        ] {
            assert_eq!(
                send_as_client(method, params).await.get("result").is_some(),
                shown > 0,
                "{method} {key}"
            );
        }
    }
}

#[tokio::test]
async fn completion_goes_on_to_the_server() {
    let notes = notes().await;
    let served = serving(&notes, ", prompts: { prefix: n_ }").await;
    for revision in REVISIONS {
        let complete = async |reference: Value| {
            let params = json!({ "ref": reference, "argument": { "name": "note", "value": "a" },
                "context": { "arguments": { "other": "b" } } });
            send_json(&served, revision, "completion/complete", params).await["result"]["completion"].clone()
        };
        let found = complete(json!({ "type": "ref/prompt", "name": "n_sum_up" })).await;
        assert_eq!(
            found["values"][0],
            r#"{"type":"ref/prompt","name":"sum up"} {"name":"note","value":"a"} {"arguments":{"other":"b"}}"#
        );
        let found = complete(json!({ "type": "ref/resource", "uri": "note://{id}" })).await;
        assert!(found["values"][0].as_str().unwrap().contains(r#""uri":"note://{id}""#), "{found}");
    }
}

#[tokio::test]
async fn a_server_without_completions_gets_no_completion_request() {
    let notes = server(|rpc| match rpc.method() {
        "initialize" => Some(rpc.result(
            r#"{"protocolVersion":"2025-06-18","capabilities":{"prompts":{}},"serverInfo":{"name":"x","version":"1"}}"#,
        )),
        "resources/list" | "resources/read" | "completion/complete" => panic!("asked for what it has not"),
        _ => answer(rpc),
    })
    .await;
    // Another prompt has completions, so that the capability is declared.
    let text = format!(
        "upstreams: {{ notes: {{ mcp: 'http://{}/mcp' }} }}
prompts: {{ own: {{ description: Own., arguments: {{ a: {{ completions: [x], required: true }} }}, messages: [{{ user: '{{{{ args.a }}}}' }}] }} }}",
        notes.address
    );
    let served = Served::start(&text).await;
    let params = json!({ "ref": { "type": "ref/prompt", "name": "sum_up" }, "argument": { "name": "note", "value": "" } });
    let found = send_json(&served, "2025-11-25", "completion/complete", params).await;
    assert_eq!(found["result"]["completion"]["values"], json!([]), "{found}");
    let error = send_json(&served, "2025-11-25", "resources/list", json!({})).await;
    assert_eq!(error["error"]["code"], -32601, "{error}");
}

#[tokio::test]
async fn lists_are_read_again_after_a_change_and_clients_notified() {
    let gate = Gate::new();
    let (opened, changed) = (gate.clone(), gate.clone());
    let notes = server(move |rpc| match rpc.method() {
        "" if rpc.http.line().starts_with("GET") => {
            let head =
                "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\n: hello\n\n";
            let event = "data: {\"jsonrpc\":\"2.0\",\"method\":\"notifications/prompts/list_changed\"}\n\n";
            let never = Step::Hold(Gate::new());
            Some(vec![Step::Send(head.into()), Step::Hold(opened.clone()), Step::Send(event.into()), never])
        }
        "prompts/list" if changed.is_open() => Some(rpc.result(r#"{"prompts":[{"name":"new"}]}"#)),
        _ => answer(rpc),
    })
    .await;
    let served = serving(&notes, "").await;
    assert_eq!(keys(&served, "prompts/list", "prompts", "name").await, ["draft_one", "sum_up"]);
    let mut listener = Client::connect(served.address).await;
    let meta = json!({ "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {} });
    let body = json!({ "jsonrpc": "2.0", "id": 7, "method": "subscriptions/listen",
        "params": { "notifications": { "promptsListChanged": true }, "_meta": meta } })
    .to_string();
    listener
        .write(&format!(
            "POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n\
             Accept: application/json, text/event-stream\r\nMCP-Protocol-Version: 2026-07-28\r\n\
             Mcp-Method: subscriptions/listen\r\nContent-Length: {}\r\n\r\n{body}",
            body.len()
        ))
        .await;
    listener.read_until("notifications/subscriptions/acknowledged").await;
    gate.open();
    listener.read_until("notifications/prompts/list_changed").await;
    assert_eq!(keys(&served, "prompts/list", "prompts", "name").await, ["new"]);
}

#[tokio::test]
async fn a_failed_list_does_not_affect_others_and_is_requested_again() {
    let request_count = Arc::new(AtomicUsize::new(0));
    let counted = request_count.clone();
    let notes = server(move |rpc| match rpc.method() {
        "tools/list" => Some(rpc.result(r#"{"tools":[{"name":"add","inputSchema":{"type":"object"}}]}"#)),
        "prompts/list" if counted.fetch_add(1, Ordering::SeqCst) < 2 => {
            Some(rpc.answer(r#""error":{"code":-32603,"message":"not now"}"#))
        }
        _ => answer(rpc),
    })
    .await;
    let served = serving(&notes, ", tools: { refresh_interval: 1s }").await;
    assert_eq!(served.names().await, ["add"]);
    assert_eq!(keys(&served, "resources/list", "resources", "uri").await.len(), 3);
    soon("the prompts", async {
        while keys(&served, "prompts/list", "prompts", "name").await.is_empty() {
            tokio::time::sleep(std::time::Duration::from_millis(50)).await;
        }
    })
    .await;
}

#[tokio::test]
async fn until_a_server_is_there_its_prompts_and_resources_are_not_ready() {
    let notes = server(|_| Some(status("503 Service Unavailable"))).await;
    let served = serving(&notes, ", prompts: { prefix: n_ }").await;
    for (method, params, ready) in [
        ("prompts/get", json!({ "name": "n_sum_up" }), false),
        ("prompts/get", json!({ "name": "other" }), true),
        ("resources/read", json!({ "uri": "note://1" }), false),
    ] {
        let error = send_json(&served, "2026-07-28", method, params).await["error"].clone();
        assert_eq!(error["message"].as_str().unwrap().contains("Not ready"), !ready, "{error}");
    }
    let list = send_json(&served, "2026-07-28", "prompts/list", json!({})).await;
    assert_eq!((&list["result"]["prompts"], &list["result"]["ttlMs"]), (&json!([]), &json!(0)), "{list}");
}

#[tokio::test]
async fn no_more_of_a_list_is_read_than_may_be_and_no_longer_result() {
    let many: Vec<Value> = (0..1100).map(|n| json!({ "name": format!("p{n:04}") })).collect();
    let list = json!({ "prompts": many }).to_string();
    let notes = server(move |rpc| match rpc.method() {
        "prompts/list" => Some(rpc.result(&list)),
        "prompts/get" => Some(rpc.result(&json!({ "messages": ["x".repeat(5000)] }).to_string())),
        _ => answer(rpc),
    })
    .await;
    let served = Served::start(&format!(
        "server: {{ mcp: {{ page_size: 1000 }} }}\nupstreams: {{ notes: {{ mcp: 'http://{}/mcp', response_limit: 4KiB }} }}",
        notes.address
    ))
    .await;
    let names = keys(&served, "prompts/list", "prompts", "name").await;
    assert_eq!((names.len(), names.last().map(String::as_str)), (1000, Some("p0999")));
    let error = send_json(&served, "2025-11-25", "prompts/get", json!({ "name": "p0001" })).await;
    assert!(error["error"]["message"].as_str().unwrap().contains("limit of 4 KiB"), "{error}");
}
