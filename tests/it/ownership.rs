//! Ownership: two clients with the same permissions, one of which tries to use what the other has started.

use glossator::{
    auth::ApiKeyHash,
    config::{self, Sources},
};
use serde_json::{Value, json};

use crate::{
    mcp::{NEWEST, streams::message},
    support::{Client, Gate, Loaded, ReceivedRequest, Response, Scripted, Step, response, soon},
};

const OWNER: &str = "glk_owner-owner-owner-owner-owner-owner";
const OTHER: &str = "glk_other-other-other-other-other-other";
const OLDER: &str = "2025-11-25";

/// An asynchronous operation, a tool with an input request, a call that waits at the gate, and resources that
/// change.
const ROUTES: &str = r#"
  make_report:
    description: x
    request: POST old/reports
    async_operation: { id: .id, status: "GET old/jobs/{job}", done: .state == "done", cancel: DELETE, task_after: 0ms }
  make_plan:
    description: x
    request: POST old/plans
    input_requests: { planner: { message: Whose plan?, fields: { name: string } } }
    async_operation: { id: .id, status: "GET old/jobs/{job}", done: .state == "done", cancel: DELETE, task_requests_input: true, task_after: 0ms }
  delete_page: { description: x, request: "DELETE old/pages/{id}", confirm: "Really?" }
  wait: { description: x, request: GET old/wait, notifications: [{ text: begun }] }
  thing: { description: x, request: GET old/thing, resource: { uri: test:thing, poll_interval: 1d } }
  secret: { description: x, request: GET old/secret, resource: { uri: test:secret, poll_interval: 1d }, scopes: [more] }
"#;

/// Upstream whose `GET /wait` waits at the gate.
async fn upstream(gate: &Gate) -> Scripted {
    let gate = gate.clone();
    Scripted::start(move |request: &ReceivedRequest| {
        let send = |body: &str| Step::Send(response("200 OK", "application/json", body));
        match request.line().split(' ').take(2).collect::<Vec<_>>()[..] {
            ["POST", _] => vec![send(r#"{"id": 7}"#)],
            ["GET", "/wait"] => vec![Step::Hold(gate.clone()), send(r#""at last""#)],
            ["GET", "/jobs/7"] => vec![send(r#"{"state": "running"}"#)],
            _ => vec![send("{}")],
        }
    })
    .await
}

fn load(upstream: &Scripted, server: &str) -> config::Loaded {
    let file = format!(
        "server: {{ secret_key: 0123456789abcdef{server} }}
upstreams: {{ old: 'http://{}' }}
clients:
  owner: {{ api_key_hashes: '{}', scopes: [use] }}
  other: {{ api_key_hashes: '{}', scopes: [use, more] }}
defaults: {{ scopes: [use] }}
routes:{ROUTES}",
        upstream.address,
        ApiKeyHash::from_key(OWNER),
        ApiKeyHash::from_key(OTHER),
    );
    let loaded = config::load(&Sources::from_text("a.yaml", file));
    loaded.unwrap_or_else(|problems| panic!("{problems}"))
}

async fn served(gate: &Gate) -> (Scripted, Loaded) {
    let upstream = upstream(gate).await;
    let served = Loaded::start(&load(&upstream, "")).await;
    (upstream, served)
}

/// Replica that others reach.
async fn replica(upstream: &Scripted) -> Loaded {
    let listener = glossator::server::bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let peer = format!(", advertise_url: 'http://{}'", listener.local_addr().unwrap());
    Loaded::start_on(listener, &load(upstream, &peer))
}

/// Sends a message over a new connection, and returns it before the response is read.
async fn begin(served: &Loaded, key: &str, version: &str, content: Value, headers: &str) -> Client {
    let mut client = served.connect().await;
    let headers = format!("Authorization: Bearer {key}\r\n{headers}");
    client.write(message(version, content, &headers)).await;
    client
}

async fn send(served: &Loaded, key: &str, version: &str, content: Value, headers: &str) -> Response {
    soon("the answer", begin(served, key, version, content, headers).await.read(false)).await
}

/// Legacy session, as a header.
async fn session(served: &Loaded, key: &str) -> String {
    let params = json!({ "protocolVersion": OLDER, "capabilities": { "elicitation": {} }, "clientInfo": { "name": "t", "version": "1" } });
    let hello = json!({ "jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params });
    let response = send(served, key, OLDER, hello, "").await;
    format!("Mcp-Session-Id: {}\r\n", response.header("mcp-session-id").unwrap())
}

/// Opens a stream of a session, or resumes one.
async fn open(served: &Loaded, key: &str, headers: &str) -> Client {
    let mut client = served.connect().await;
    let head = "GET /mcp HTTP/1.1\r\nHost: localhost\r\nAccept: text/event-stream\r\nMCP-Protocol-Version";
    let shown = if key.is_empty() { String::new() } else { format!("X-API-Key: {key}\r\n") };
    client.write(format!("{head}: {OLDER}\r\n{shown}{headers}\r\n")).await;
    client
}

async fn opened(served: &Loaded, key: &str, headers: &str) -> Response {
    soon("the answer", open(served, key, headers).await.read(false)).await
}

/// Sends a request about tasks, as a client that supports them.
async fn about(served: &Loaded, key: &str, method: &str, name: &str, mut params: Value) -> Value {
    params["_meta"] = json!({
        "io.modelcontextprotocol/protocolVersion": NEWEST,
        "io.modelcontextprotocol/clientCapabilities":
            { "elicitation": {}, "extensions": { "io.modelcontextprotocol/tasks": {} } },
    });
    let body = json!({ "jsonrpc": "2.0", "id": 7, "method": method, "params": params }).to_string();
    let headers = [
        "Content-Type: application/json",
        "Accept: application/json, text/event-stream",
        &format!("Authorization: Bearer {key}"),
        &format!("MCP-Protocol-Version: {NEWEST}"),
        &format!("Mcp-Method: {method}"),
        &format!("Mcp-Name: {name}"),
    ];
    served.connect().await.send("POST /mcp", &headers, &body).await.json()
}

/// Creates a task of the owner, and returns its id.
async fn create_task(served: &Loaded, tool: &str) -> String {
    let created = about(served, OWNER, "tools/call", tool, json!({ "name": tool, "arguments": {} })).await;
    created["result"]["taskId"].as_str().unwrap_or_else(|| panic!("{created}")).to_owned()
}

#[tokio::test]
async fn a_task_is_visible_only_to_its_client() {
    let (upstream, served) = served(&Gate::new()).await;
    let answer = json!({ "planner": { "action": "accept", "content": { "name": "Eve" } } });
    for (tool, status) in [("make_report", "working"), ("make_plan", "input_required")] {
        let id = create_task(&served, tool).await;
        let requests_before = upstream.state().requests.len();
        for method in ["tasks/get", "tasks/update", "tasks/cancel"] {
            let params = |id: &str| json!({ "taskId": id, "inputResponses": answer });
            let rejected = about(&served, OTHER, method, &id, params(&id)).await;
            let unknown = about(&served, OTHER, method, "made-up", params("made-up")).await;
            assert_eq!(rejected["error"]["code"], -32602, "{method}: {rejected}");
            assert_eq!(rejected, unknown, "it tells nothing that a made-up id does not");
        }
        assert_eq!(
            upstream.state().requests.len(),
            requests_before,
            "the upstream is not asked for a stranger"
        );
        let own = about(&served, OWNER, "tasks/get", &id, json!({ "taskId": id })).await;
        assert_eq!(own["result"]["status"], status, "{own}");
        let cancelled = about(&served, OWNER, "tasks/cancel", &id, json!({ "taskId": id })).await;
        assert!(cancelled["error"].is_null(), "{cancelled}");
    }
    assert!(upstream.state().requests.iter().any(|request| request.line().starts_with("DELETE /jobs/7 ")));
    assert!(!upstream.state().requests.iter().any(|request| request.line().starts_with("POST /plans ")));
}

#[tokio::test]
async fn an_input_request_accepts_responses_only_of_its_client() {
    let (upstream, served) = served(&Gate::new()).await;
    let call = json!({ "name": "delete_page", "arguments": { "id": "7" } });
    let first = about(&served, OWNER, "tools/call", "delete_page", call.clone()).await["result"].clone();
    assert_eq!(first["resultType"], "input_required", "{first}");
    let mut again = call;
    again["requestState"] = first["requestState"].clone();
    again["inputResponses"] = json!({ "confirm": { "action": "accept" } });
    let rejected = about(&served, OTHER, "tools/call", "delete_page", again.clone()).await;
    assert_eq!(rejected["error"]["code"], -32602, "{rejected}");
    assert_eq!(upstream.state().requests.len(), 0);
    let done = about(&served, OWNER, "tools/call", "delete_page", again).await;
    assert_eq!(done["result"]["resultType"], "complete", "{done}");
    assert_eq!(upstream.state().requests.len(), 1);
}

/// Call that waits for an input response.
struct Questioned {
    waiting: Client,
    received: String,
    /// Response that confirms it.
    answer: Value,
}

/// The owner starts to delete a page, in a session.
async fn questioned(served: &Loaded, session: &str) -> Questioned {
    let params = json!({ "name": "delete_page", "arguments": { "id": "7" } });
    let call = json!({ "jsonrpc": "2.0", "id": 7, "method": "tools/call", "params": params });
    let mut waiting = begin(served, OWNER, OLDER, call, session).await;
    let received = waiting.read_until("\"elicitation/create\"").await;
    let data = received.lines().find_map(|line| line.strip_prefix("data: {")).unwrap();
    let input_request: Value = serde_json::from_str(&format!("{{{data}")).unwrap();
    let answer = json!({ "jsonrpc": "2.0", "id": input_request["id"], "result": { "action": "accept" } });
    Questioned { waiting, received, answer }
}

#[tokio::test]
async fn a_request_on_a_stream_accepts_responses_only_of_its_client() {
    let (upstream, served) = served(&Gate::new()).await;
    let (own, others) = (session(&served, OWNER).await, session(&served, OTHER).await);
    let Questioned { mut waiting, answer, .. } = questioned(&served, &own).await;
    for (key, headers, status) in [(OTHER, &others, 400), (OTHER, &String::new(), 400), (OTHER, &own, 404)] {
        let rejected = send(&served, key, OLDER, answer.clone(), headers).await;
        assert_eq!(rejected.status, status, "{}", rejected.text());
    }
    assert_eq!(upstream.state().requests.len(), 0);
    assert_eq!(send(&served, OWNER, OLDER, answer, &own).await.status, 202);
    soon("the result", waiting.read(false)).await;
    assert_eq!(upstream.state().requests.len(), 1);
}

#[tokio::test]
async fn a_stream_is_resumed_only_by_its_client() {
    let gate = Gate::new();
    let (upstream, served) = served(&gate).await;
    let (own, others) = (session(&served, OWNER).await, session(&served, OTHER).await);
    let level =
        json!({ "jsonrpc": "2.0", "id": 1, "method": "logging/setLevel", "params": { "level": "info" } });
    assert_eq!(send(&served, OWNER, OLDER, level, &own).await.status, 200);
    let call = json!({ "jsonrpc": "2.0", "id": 7, "method": "tools/call", "params": { "name": "wait" } });
    let mut client = begin(&served, OWNER, OLDER, call, &own).await;
    let received = client.read_until("begun").await;
    let last = received.lines().rev().find_map(|line| line.strip_prefix("id: ")).expect("events have ids");
    drop(client);
    let back = format!("Last-Event-ID: {last}\r\n");
    let with = |session: &str| format!("{session}{back}");
    for (key, headers, status) in
        [(OTHER, with(&own), 404), (OTHER, with(&others), 400), ("", with(&own), 401)]
    {
        let rejected = opened(&served, key, &headers).await;
        assert_eq!(rejected.status, status, "{}", rejected.text());
        assert!(!rejected.text().contains("begun"));
    }
    // Another client can't cancel it either.
    let end = json!({ "jsonrpc": "2.0", "method": "notifications/cancelled", "params": { "requestId": 7 } });
    assert_eq!(send(&served, OTHER, OLDER, end.clone(), &own).await.status, 404);
    assert_eq!(send(&served, OTHER, OLDER, end, &others).await.status, 202);
    gate.open();
    let rest = opened(&served, OWNER, &with(&own)).await;
    assert!(rest.status == 200 && rest.text().contains("at last"), "{}", rest.text());
    assert_eq!(upstream.state().requests.len(), 1);
}

#[tokio::test]
async fn a_subscription_belongs_to_its_session_and_its_clients_scopes() {
    let (_upstream, served) = served(&Gate::new()).await;
    let (own, others) = (session(&served, OWNER).await, session(&served, OTHER).await);
    let about = |method: &str, uri: &str| json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": { "uri": uri } });
    for (key, session, uri, status) in [
        (OWNER, &own, "test:thing", 200),
        (OTHER, &own, "test:thing", 404),
        (OWNER, &own, "test:secret", 403),
        (OTHER, &others, "test:secret", 200),
        (OWNER, &others, "test:secret", 404),
    ] {
        let response = send(&served, key, OLDER, about("resources/subscribe", uri), session).await;
        assert_eq!(response.status, status, "{uri}: {}", response.text());
    }
    let rejected = send(&served, OTHER, OLDER, about("resources/unsubscribe", "test:thing"), &own).await;
    assert_eq!(rejected.status, 404, "{}", rejected.text());
    assert_eq!(opened(&served, OTHER, &own).await.status, 404);
    // The modern revision reports which of the requested subscriptions are accepted.
    let filter = json!({ "notifications": { "resourceSubscriptions": ["test:thing", "test:secret"] } });
    for (key, heard) in [(OWNER, json!(["test:thing"])), (OTHER, json!(["test:secret", "test:thing"]))] {
        let listen = json!({ "jsonrpc": "2.0", "id": 1, "method": "subscriptions/listen", "params": filter });
        let mut stream = begin(&served, key, NEWEST, listen, "").await;
        let received = stream.read_until("acknowledged").await;
        let data = received.lines().find_map(|line| line.strip_prefix("data: ")).unwrap();
        let acknowledged: Value = serde_json::from_str(data).unwrap();
        let mut uris = acknowledged["params"]["notifications"]["resourceSubscriptions"].clone();
        uris.as_array_mut().unwrap().sort_by_key(Value::to_string);
        assert_eq!(uris, heard, "{acknowledged}");
    }
}

#[tokio::test]
async fn only_replicas_can_forward_an_identity() {
    let gate = Gate::new();
    let upstream = upstream(&gate).await;
    let (one, two) = (replica(&upstream).await, replica(&upstream).await);
    // A task that the first replica holds.
    let id = create_task(&one, "make_plan").await;
    let get = |key| about(&two, key, "tasks/get", &id, json!({ "taskId": id }));
    assert_eq!(get(OTHER).await["error"]["code"], -32602);
    let task = get(OWNER).await;
    assert_eq!(task["result"]["status"], "input_required", "{task}");
    // An input request that the first replica has sent.
    let (own, others) = (session(&one, OWNER).await, session(&two, OTHER).await);
    let Questioned { waiting, received, answer } = questioned(&one, &own).await;
    for (key, headers, status) in [(OTHER, &others, 400), (OTHER, &own, 404)] {
        assert_eq!(send(&two, key, OLDER, answer.clone(), headers).await.status, status);
    }
    assert_eq!(upstream.state().requests.len(), 0);
    // The stream on which it waits is resumed at the second replica.
    let last = received.lines().rev().find_map(|line| line.strip_prefix("id: ")).expect("events have ids");
    drop(waiting);
    for (key, session, status) in [(OTHER, &own, 404), (OTHER, &others, 400)] {
        let rejected = opened(&two, key, &format!("{session}Last-Event-ID: {last}\r\n")).await;
        assert_eq!(rejected.status, status, "{}", rejected.text());
    }
    let mut rest = open(&two, OWNER, &format!("{own}Last-Event-ID: {last}\r\n")).await;
    rest.read_until("200 OK").await;
    assert_eq!(send(&two, OWNER, OLDER, answer, &own).await.status, 202);
    let rest = soon("the result", rest.read(false)).await;
    assert!(rest.text().contains("\"result\""), "{}", rest.text());
    assert_eq!(upstream.state().requests.len(), 1);
    // Headers of replicas that a client forges are ignored.
    let forged =
        format!("Glossator-Caller: {}\r\nGlossator-Handed-On: 1\r\n", r#"["owner","owner",["use"]]"#);
    for headers in [forged, format!("Glossator-Caller: {id}\r\n")] {
        assert_eq!(opened(&two, "", &format!("{own}{headers}")).await.status, 401);
    }
}

#[tokio::test]
async fn a_forwarded_identity_is_valid_for_one_request() {
    let gate = Gate::new();
    let upstream = upstream(&gate).await;
    // An attacker in front of the first replica records what it receives.
    let relay = Scripted::answering(response("200 OK", "application/json", "{}")).await;
    let one = Loaded::start(&load(&upstream, &format!(", advertise_url: 'http://{}'", relay.address))).await;
    let two = replica(&upstream).await;
    let id = create_task(&one, "make_plan").await;
    about(&two, OWNER, "tasks/get", &id, json!({ "taskId": id })).await;
    let overheard = relay.state().requests[0].clone();
    let (head, body) = (overheard.head.clone(), String::from_utf8(overheard.body.clone()).unwrap());
    assert!(head.contains("glossator-client: ") && !head.contains(OWNER), "{head}");
    let replayed = async |head: String, body: String| {
        let mut client = one.connect().await;
        client.write(format!("{head}{body}")).await;
        soon("the answer", client.read(false)).await
    };
    let replaced = |from: &str, to: &str| {
        assert!(head.contains(from), "{head}");
        head.replace(from, to)
    };
    let same = replayed(head.clone(), body.clone()).await;
    assert!(same.status == 200 && same.text().contains("input_required"), "{}", same.text());
    let cancel = body.replace("tasks/get", "tasks/cancel");
    let other_method = replaced("tasks/get", "tasks/cancel");
    let longer = format!("content-length: {}", cancel.len());
    let other_method = other_method.replace(&format!("content-length: {}", body.len()), &longer);
    for (head, body) in [
        (other_method, cancel),
        (head.clone(), body.replace("\"id\":7", "\"id\":8")),
        (replaced("POST /mcp ", "POST /message "), body.clone()),
        (replaced("mcp-protocol-version: 2026-07-28", "mcp-protocol-version: 2025-11-25"), body.clone()),
        (replaced("glossator-forwarded: 1\r\n", ""), body.clone()),
    ] {
        let rejected = replayed(head.clone(), body).await;
        assert_eq!(rejected.status, 401, "{head}{}", rejected.text());
    }
}
