//! Tasks: asynchronous operations that a client of 2026-07-28 polls itself, at any replica.

use glossator::config::{self, Sources};
use serde_json::{Value, json};

use super::NEWEST;
use crate::support::{Gate, Loaded, ReceivedRequest, Response, Scripted, Step, response};

const EXTENSION: &str = "io.modelcontextprotocol/tasks";
const SECRET: &str = "a secret of all replicas";

const OPERATION: &str = r#"
request: POST old/reports/{year}
async_operation:
  id: .id
  status: GET old/jobs/{job}?year={year}
  done: .state == "done"
  failed: .state == "failed"
  cancelled: .state == "stopped"
  cancel: DELETE
  progress: .sheets
  total: .of
  message: .why
  poll_interval: 70ms
  task_after: 0ms
"#;

/// Replica in front of an upstream, with one tool `make_report` that has these keys.
async fn start(upstream: &Scripted, keys: &str, secret: &str) -> Loaded {
    Loaded::start(&load(upstream, keys, &format!("secret_key: '{secret}'"))).await
}

/// Replica that others reach.
async fn start_as_peer(upstream: &Scripted, keys: &str) -> Loaded {
    let listener = glossator::server::bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let address = listener.local_addr().unwrap();
    let loaded = load(upstream, keys, &format!("secret_key: '{SECRET}', advertise_url: 'http://{address}'"));
    Loaded::start_on(listener, &loaded)
}

fn load(upstream: &Scripted, keys: &str, server: &str) -> config::Loaded {
    load_for(&format!("'http://{}'", upstream.address), keys, server)
}

/// Configuration of a replica in front of an upstream with these settings.
fn load_for(upstream: &str, keys: &str, server: &str) -> config::Loaded {
    let keys: String = keys.trim().lines().map(|line| format!("    {}\n", line.trim_end())).collect();
    let file = format!(
        "server: {{ {server} }}\nupstreams: {{ old: {upstream} }}\nroutes:\n  make_report:\n    \
         description: A report.\n{keys}"
    );
    let loaded = config::load(&Sources::from_text("tasks.yaml", &file));
    loaded.unwrap_or_else(|problems| panic!("{problems}"))
}

/// Upstream whose status responses are these.
async fn with_status(states: &'static [&'static str]) -> Scripted {
    let count = std::sync::atomic::AtomicUsize::new(0);
    Scripted::start(move |request: &ReceivedRequest| {
        let body = match request.line().split(' ').next() {
            Some("POST") => r#"{"id": 7}"#,
            Some("DELETE") => "{}",
            _ => states[count.fetch_add(1, std::sync::atomic::Ordering::SeqCst).min(states.len() - 1)],
        };
        match body {
            "" => vec![Step::Close],
            body => vec![Step::Send(response("200 OK", "application/json", body))],
        }
    })
    .await
}

async fn post(program: &Loaded, knows_tasks: bool, method: &str, name: &str, params: Value) -> Response {
    let extensions = if knows_tasks { json!({ EXTENSION: {} }) } else { json!({}) };
    let capabilities = json!({ "elicitation": {}, "extensions": extensions });
    post_as(program, capabilities, method, name, params).await
}

/// Sends a request of a client that declares these capabilities.
async fn post_as(
    program: &Loaded,
    capabilities: Value,
    method: &str,
    name: &str,
    mut params: Value,
) -> Response {
    params["_meta"]["io.modelcontextprotocol/protocolVersion"] = NEWEST.into();
    params["_meta"]["io.modelcontextprotocol/clientCapabilities"] = capabilities;
    let headers = [
        "Content-Type: application/json",
        "Accept: application/json, text/event-stream",
        &format!("MCP-Protocol-Version: {NEWEST}"),
        &format!("Mcp-Method: {method}"),
        &format!("Mcp-Name: {name}"),
    ];
    let body = json!({ "jsonrpc": "2.0", "id": 7, "method": method, "params": params }).to_string();
    program.connect().await.send("POST /mcp", &headers, &body).await
}

async fn call(program: &Loaded, knows_tasks: bool) -> Value {
    let params = json!({ "name": "make_report", "arguments": { "year": "2026" } });
    post(program, knows_tasks, "tools/call", "make_report", params).await.json()
}

async fn about(program: &Loaded, method: &str, id: &str) -> Value {
    post(program, true, method, id, json!({ "taskId": id })).await.json()
}

/// Creates a task, and returns its id.
async fn create_task(program: &Loaded) -> String {
    let created = call(program, true).await;
    created["result"]["taskId"].as_str().unwrap_or_else(|| panic!("{created}")).to_owned()
}

#[tokio::test]
async fn an_operation_becomes_a_task_that_any_replica_serves() {
    let upstream = with_status(&[
        r#"{"state": "running", "sheets": 3, "of": 12, "why": "printing"}"#,
        r#"{"state": "done", "rows": 12}"#,
    ])
    .await;
    let (one, other) = (start(&upstream, OPERATION, SECRET).await, start(&upstream, OPERATION, SECRET).await);
    let created = call(&one, true).await["result"].clone();
    assert_eq!(
        (&created["resultType"], &created["status"]),
        (&json!("task"), &json!("working")),
        "{created}"
    );
    assert_eq!((&created["ttlMs"], &created["pollIntervalMs"]), (&json!(3_600_000), &json!(70)));
    for absent in ["result", "error", "requestState", "task"] {
        assert!(created.get(absent).is_none(), "{created}");
    }
    let moment = created["createdAt"].as_str().unwrap();
    assert!(moment.ends_with('Z') && moment.len() == "2026-11-21T09:30:00.000Z".len(), "{moment}");
    let id = created["taskId"].as_str().unwrap();

    let working = about(&other, "tasks/get", id).await["result"].clone();
    assert_eq!(
        (&working["resultType"], &working["status"]),
        (&json!("complete"), &json!("working")),
        "{working}"
    );
    assert_eq!((&working["taskId"], &working["createdAt"]), (&created["taskId"], &created["createdAt"]));
    assert_eq!(working["statusMessage"], "printing (3 of 12)");
    let done = about(&other, "tasks/get", id).await["result"].clone();
    assert_eq!(
        (&done["status"], &done["result"]["structuredContent"]["rows"]),
        (&json!("completed"), &json!(12)),
        "{done}"
    );
    assert_eq!(done["result"]["isError"], false);
    let requests: Vec<String> =
        upstream.state().requests.iter().map(|request| request.line().to_owned()).collect();
    assert_eq!(requests[1], "GET /jobs/7?year=2026 HTTP/1.1", "{requests:?}");
}

#[tokio::test]
async fn input_responses_before_a_task_are_available_at_its_end() {
    let upstream = with_status(&[r#"{"state": "done", "rows": 12}"#]).await;
    let keys = format!(
        "{OPERATION}input_requests: {{ person: {{ message: Who are you?, fields: {{ name: string }} }} }}\n\
         response: {{ content: 'for {{{{ input_responses.person.name }}}}' }}\n"
    );
    let (one, other) = (start(&upstream, &keys, SECRET).await, start(&upstream, &keys, SECRET).await);
    let send = async |program: &Loaded, more: Value| {
        let mut params = json!({ "name": "make_report", "arguments": { "year": "2026" } });
        for (name, value) in more.as_object().unwrap() {
            params[name] = value.clone();
        }
        post(program, true, "tools/call", "make_report", params).await.json()["result"].clone()
    };
    let input_required = send(&one, json!({})).await;
    assert_eq!(input_required["resultType"], "input_required", "{input_required}");
    assert!(
        input_required.get("taskId").is_none() && upstream.state().requests.is_empty(),
        "{input_required}"
    );
    let input_responses = json!({ "person": { "action": "accept", "content": { "name": "Ada" } } });
    let created = send(
        &other,
        json!({ "inputResponses": input_responses, "requestState": input_required["requestState"] }),
    )
    .await;
    assert_eq!(created["resultType"], "task", "{created}");
    assert!(created.get("requestState").is_none() && created.get("inputRequests").is_none(), "{created}");
    let done = about(&one, "tasks/get", created["taskId"].as_str().unwrap()).await["result"].clone();
    assert_eq!(
        (&done["status"], &done["result"]["content"][0]["text"]),
        (&json!("completed"), &json!("for Ada"))
    );
}

#[tokio::test]
async fn a_task_ends_like_its_operation() {
    for (state, status, error) in [
        (r#"{"state": "failed", "why": "no paper"}"#, "completed", true),
        (r#"{"state": "stopped"}"#, "cancelled", false),
        ("", "failed", false),
    ] {
        let states: &'static [&'static str] = Box::leak(Box::new([state]));
        let upstream = with_status(states).await;
        let program = start(&upstream, OPERATION, SECRET).await;
        let id = create_task(&program).await;
        let task = about(&program, "tasks/get", &id).await["result"].clone();
        assert_eq!(task["status"], status, "{task}");
        assert_eq!(task["result"]["isError"] == true, error, "{task}");
        assert_eq!(task["error"]["code"] == -32603, status == "failed", "{task}");
    }
}

/// The state of the operation is unknown then. The task must not fail, as clients stop polling a failed task.
#[tokio::test]
async fn a_task_continues_while_its_status_is_unavailable() {
    for limit in ["max_in_flight: 1", "attempt_timeout: 100ms, retry: off"] {
        let gate = Gate::new();
        let held = gate.clone();
        let upstream = Scripted::start(move |request: &ReceivedRequest| {
            let say = |body| Step::Send(response("200 OK", "application/json", body));
            match request.line().starts_with("POST") {
                true => vec![say(r#"{"id": 7}"#)],
                false => vec![Step::Hold(held.clone()), say(r#"{"state": "running"}"#)],
            }
        })
        .await;
        let settings = format!("{{ url: 'http://{}', {limit} }}", upstream.address);
        let program =
            Loaded::start(&load_for(&settings, OPERATION, &format!("secret_key: '{SECRET}'"))).await;
        let id = create_task(&program).await;
        // The second waits for the slot of the first, which is not released earlier.
        let send = async || {
            let response = post(&program, true, "tasks/get", &id, json!({ "taskId": id })).await;
            gate.open();
            let response = response.text();
            assert!(response.contains(r#""status":"working""#), "{limit}: {response}");
        };
        tokio::join!(send(), send());
    }
}

#[tokio::test]
async fn a_cancelled_task_cancels_its_operation() {
    let upstream = with_status(&[r#"{"state": "running"}"#]).await;
    let program = start(&upstream, OPERATION, SECRET).await;
    let id = create_task(&program).await;
    let acknowledged = about(&program, "tasks/cancel", &id).await["result"].clone();
    let members: Vec<&str> = acknowledged.as_object().unwrap().keys().map(String::as_str).collect();
    assert_eq!(
        (acknowledged["resultType"].as_str(), members),
        (Some("complete"), vec!["resultType", "_meta"])
    );
    assert!(
        upstream
            .state()
            .requests
            .iter()
            .any(|request| request.line().starts_with("DELETE /jobs/7?year=2026 "))
    );
    let updated =
        post(&program, true, "tasks/update", &id, json!({ "taskId": id, "inputResponses": { "x": {} } }))
            .await;
    assert_eq!(updated.json()["result"]["resultType"], "complete");
}

#[tokio::test]
async fn clients_without_tasks_wait_or_are_rejected() {
    let upstream = with_status(&[r#"{"state": "done", "rows": 12}"#]).await;
    let program = start(&upstream, OPERATION, SECRET).await;
    let waited = call(&program, false).await;
    assert_eq!(waited["result"]["structuredContent"]["rows"], 12, "{waited}");
    let rejected = post(&program, false, "tasks/get", "x", json!({ "taskId": "x" })).await;
    assert_eq!((rejected.status, rejected.json()["error"]["code"].as_i64()), (400, Some(-32021)));
    assert!(rejected.json()["error"]["data"]["requiredCapabilities"]["extensions"][EXTENSION].is_object());
    let listen = json!({ "notifications": { "taskIds": ["x"] } });
    let rejected = post(&program, false, "subscriptions/listen", "", listen).await;
    assert_eq!((rejected.status, rejected.json()["error"]["code"].as_i64()), (400, Some(-32021)));

    let strict = start(&upstream, &format!("{}\n  task: required", OPERATION.trim()), SECRET).await;
    assert_eq!(call(&strict, false).await["error"]["code"], -32021);
    assert_eq!(call(&strict, true).await["result"]["resultType"], "task");
    let never =
        start(&upstream, &OPERATION.trim().replace("task_after: 0ms", "task: forbidden"), SECRET).await;
    assert_eq!(call(&never, true).await["result"]["resultType"], "complete");
}

#[tokio::test]
async fn a_quick_operation_returns_its_result_at_once() {
    let upstream = with_status(&[r#"{"state": "done", "rows": 12}"#]).await;
    let program =
        start(&upstream, &OPERATION.trim().replace("task_after: 0ms", "task_after: 1m"), SECRET).await;
    let result = call(&program, true).await["result"].clone();
    assert_eq!(
        (&result["resultType"], &result["structuredContent"]["rows"]),
        (&json!("complete"), &json!(12))
    );
}

#[tokio::test]
async fn an_operation_becomes_a_task_at_the_timeout() {
    let upstream = with_status(&[r#"{"state": "running"}"#]).await;
    // The next poll would be due only after the call is over.
    let keys = OPERATION
        .trim()
        .replace("task_after: 0ms", "task_after: 1m")
        .replace("poll_interval: 70ms", "poll_interval: 40s");
    let created = call(&start(&upstream, &keys, SECRET).await, true).await;
    assert_eq!(created["result"]["resultType"], "task", "{created}");
    assert!(!upstream.state().requests.iter().any(|request| request.line().starts_with("DELETE")));
}

/// An upstream on a busy machine responds to polls slowly.
#[tokio::test]
async fn an_operation_polled_at_the_timeout_becomes_a_task_too() {
    let upstream = Scripted::start(|request: &ReceivedRequest| match request.line().starts_with("POST") {
        true => vec![Step::Send(response("200 OK", "application/json", r#"{"id": 7}"#))],
        false => vec![Step::Hold(Gate::new())],
    })
    .await;
    let keys = format!("timeout: 1s\n{}", OPERATION.trim().replace("task_after: 0ms", "task_after: 1m"));
    let created = call(&start(&upstream, &keys, SECRET).await, true).await;
    assert_eq!(created["result"]["resultType"], "task", "{created}");
    let requests = upstream.state().requests;
    assert_eq!(requests.iter().map(|request| &request.line()[..4]).collect::<Vec<_>>(), ["POST", "GET "]);
}

#[tokio::test]
async fn foreign_task_ids_are_unknown() {
    let upstream = with_status(&[r#"{"state": "running"}"#]).await;
    let (program, stranger) = (
        start(&upstream, OPERATION, SECRET).await,
        start(&upstream, OPERATION, "another secret of 32 bytes").await,
    );
    let id = create_task(&program).await;
    let changed = format!("{}A", &id[..id.len() - 1]);
    for wrong in ["nonexistent", "", &changed] {
        if wrong == id {
            continue;
        }
        for method in ["tasks/get", "tasks/cancel", "tasks/update"] {
            assert_eq!(about(&program, method, wrong).await["error"]["code"], -32602, "{method} {wrong}");
        }
    }
    assert_eq!(about(&stranger, "tasks/get", &id).await["error"]["code"], -32602);
    let mismatch = post(&program, true, "tasks/get", "another", json!({ "taskId": id })).await;
    assert_eq!((mismatch.status, mismatch.json()["error"]["code"].as_i64()), (400, Some(-32020)));
    for gone in ["tasks/list", "tasks/result"] {
        assert_eq!(about(&program, gone, &id).await["error"]["code"], -32601);
    }
}

#[tokio::test]
async fn tasks_are_declared_if_there_are_async_operations() {
    let upstream = with_status(&[""]).await;
    for (keys, offered) in [
        (OPERATION, true),
        ("request: GET old/x", false),
        ("request: POST old/x\nasync_operation: { task: forbidden }", false),
    ] {
        let program = start(&upstream, keys, SECRET).await;
        let discovered = post(&program, true, "server/discover", "", json!({})).await.json();
        let extensions = &discovered["result"]["capabilities"]["extensions"];
        assert_eq!(extensions.get(EXTENSION).is_some(), offered, "{discovered}");
    }
}

#[tokio::test]
async fn a_call_with_too_much_to_keep_waits_for_its_result() {
    let upstream = with_status(&[r#"{"state": "done", "rows": 12}"#]).await;
    let program = start(&upstream, OPERATION, SECRET).await;
    let params = json!({ "name": "make_report", "arguments": { "year": "2".repeat(3000) } });
    let result = post(&program, true, "tools/call", "make_report", params).await.json();
    assert_eq!(result["result"]["structuredContent"]["rows"], 12, "{result}");
}

const TASK_WITH_INPUT: &str = r#"
request: POST old/reports/{year}
input_requests:
  owner: { message: Whose report?, fields: { name: string } }
  reader: { message: For whom?, fields: { name: string } }
async_operation:
  id: .id
  status: GET old/jobs/{job}
  done: .state == "done"
  cancel: DELETE
  task_requests_input: true
  task_after: 0ms
response: { content: "by {{ input_responses.owner.name }}, for {{ input_responses.reader.name }}" }
"#;

fn named(question: &str, name: &str) -> Value {
    json!({ question: { "action": "accept", "content": { "name": name } } })
}

async fn update(program: &Loaded, id: &str, responses: Value) -> Value {
    let params = json!({ "taskId": id, "inputResponses": responses });
    post(program, true, "tasks/update", id, params).await.json()
}

/// Names of the input requests of a task.
fn open(task: &Value) -> Vec<&str> {
    assert_eq!(task["status"], "input_required", "{task}");
    task["inputRequests"].as_object().unwrap().keys().map(String::as_str).collect()
}

/// Polls until the upstream has received its first request.
async fn until_first_request(upstream: &Scripted) {
    while upstream.state().requests.is_empty() {
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn a_task_requests_input_first_and_accepts_responses_one_by_one() {
    let upstream = with_status(&[r#"{"state": "done"}"#]).await;
    let program = start(&upstream, TASK_WITH_INPUT, SECRET).await;
    let created = call(&program, true).await["result"].clone();
    assert_eq!((&created["resultType"], open(&created).len()), (&json!("task"), 2), "{created}");
    let id = created["taskId"].as_str().unwrap();
    let first = about(&program, "tasks/get", id).await["result"].clone();
    assert_eq!(open(&first), ["owner", "reader"]);
    assert_eq!(first["inputRequests"]["owner"]["method"], "elicitation/create");

    let wrong =
        update(&program, id, json!({ "owner": { "action": "accept", "content": { "name": 7 } } })).await;
    assert_eq!(wrong["error"]["code"], -32602, "{wrong}");
    let long = update(&program, id, named("owner", &"x".repeat(64 << 10))).await;
    assert!(long["error"]["message"].as_str().unwrap().contains("65536 bytes"), "{long}");
    let acknowledged = update(&program, id, named("owner", "Ada")).await["result"].clone();
    assert!(
        acknowledged.get("status").is_none() && acknowledged["resultType"] == "complete",
        "{acknowledged}"
    );
    assert_eq!(open(&about(&program, "tasks/get", id).await["result"]), ["reader"]);
    // Responses to answered or unknown input requests are ignored.
    for late in [named("owner", "Bob"), named("nobody", "Bob")] {
        assert!(update(&program, id, late).await["error"].is_null());
    }
    assert_eq!(open(&about(&program, "tasks/get", id).await["result"]), ["reader"]);
    assert!(upstream.state().requests.is_empty(), "nothing begins before everything is answered");

    update(&program, id, named("reader", "Cy")).await;
    until_first_request(&upstream).await;
    let done = loop {
        let task = about(&program, "tasks/get", id).await["result"].clone();
        if task["status"] != "working" {
            break task;
        }
    };
    assert_eq!(
        (&done["status"], &done["result"]["content"][0]["text"]),
        (&json!("completed"), &json!("by Ada, for Cy")),
        "{done}"
    );
    let started_count =
        upstream.state().requests.iter().filter(|request| request.line().starts_with("POST")).count();
    assert_eq!(started_count, 1);
}

#[tokio::test]
async fn input_requests_of_a_task_need_the_capabilities_of_the_request_that_gets_them() {
    let upstream = with_status(&[r#"{"state": "done"}"#]).await;
    let program = start(&upstream, TASK_WITH_INPUT, SECRET).await;
    let id = create_task(&program).await;
    let capabilities = json!({ "extensions": { EXTENSION: {} } });
    let params = json!({ "taskId": id });
    let unable = post_as(&program, capabilities, "tasks/get", &id, params).await.json();
    assert_eq!(unable["error"]["code"], -32021, "{unable}");
    assert!(unable["error"]["data"]["requiredCapabilities"]["elicitation"].is_object(), "{unable}");
    assert_eq!(open(&about(&program, "tasks/get", &id).await["result"]), ["owner", "reader"]);
}

#[tokio::test]
async fn declining_or_cancelling_ends_a_task_with_input_requests() {
    let upstream = with_status(&[r#"{"state": "done"}"#]).await;
    let program = start(&upstream, TASK_WITH_INPUT, SECRET).await;
    let id = create_task(&program).await;
    update(&program, &id, json!({ "owner": { "action": "decline" } })).await;
    let declined = about(&program, "tasks/get", &id).await["result"].clone();
    assert_eq!((&declined["status"], &declined["result"]["isError"]), (&json!("completed"), &json!(true)));
    let words = declined["result"]["content"][0]["text"].as_str().unwrap();
    assert!(words.starts_with("Nothing was done:") && words.contains("the user declined"), "{words}");

    let id = create_task(&program).await;
    assert!(about(&program, "tasks/cancel", &id).await["error"].is_null());
    assert_eq!(about(&program, "tasks/get", &id).await["result"]["status"], "cancelled");
    update(&program, &id, named("owner", "Ada")).await;
    update(&program, &id, named("reader", "Ada")).await;
    assert_eq!(about(&program, "tasks/get", &id).await["result"]["status"], "cancelled");
    assert!(upstream.state().requests.is_empty());
}

#[tokio::test]
async fn the_request_that_cancels_an_operation_has_the_arguments_that_a_person_entered() {
    let upstream = with_status(&[r#"{"state": "running"}"#]).await;
    let keys = TASK_WITH_INPUT
        .replace("fields: { name: string } }\nasync", "arguments: [name] }\nasync")
        .replace("cancel: DELETE", "cancel: POST old/jobs/{job}/stop?by={name}")
        .replace("{{ input_responses.reader.name }}", "{{ args.name }}");
    let keys =
        format!("input: {{ properties: {{ name: {{ type: string }}, year: {{}} }} }}\n{}", keys.trim());
    let program = start(&upstream, &keys, SECRET).await;
    let id = create_task(&program).await;
    let mut both = named("owner", "Ada");
    both["reader"] = named("reader", "Cy")["reader"].clone();
    assert!(update(&program, &id, both).await["error"].is_null());
    let was_sent =
        |line: &str| upstream.state().requests.iter().any(|request| request.line().starts_with(line));
    while !was_sent("GET /jobs/7 ") {
        assert_eq!(about(&program, "tasks/get", &id).await["result"]["status"], "working");
    }
    assert!(about(&program, "tasks/cancel", &id).await["error"].is_null());
    assert!(was_sent("POST /jobs/7/stop?by=Cy "), "{:?}", upstream.state().requests);
}

#[tokio::test]
async fn a_task_whose_work_is_done_at_once_keeps_its_result() {
    let upstream =
        Scripted::answering(response("404 Not Found", "application/json", r#"{"error": "no such year"}"#))
            .await;
    let program = start(&upstream, TASK_WITH_INPUT, SECRET).await;
    let id = create_task(&program).await;
    let mut both = named("owner", "Ada");
    both["reader"] = named("reader", "Cy")["reader"].clone();
    update(&program, &id, both).await;
    let done = loop {
        let task = about(&program, "tasks/get", &id).await["result"].clone();
        if task["status"] != "working" {
            break task;
        }
    };
    assert_eq!(done["status"], "completed", "{done}");
    assert_eq!(done["result"]["content"][0]["text"], "no such year", "{done}");
    assert_eq!(about(&program, "tasks/get", &id).await["result"]["result"], done["result"]);
}

#[tokio::test]
async fn clients_without_task_input_get_requests_in_the_call_or_are_rejected() {
    let upstream = with_status(&[r#"{"state": "done"}"#]).await;
    let program = start(&upstream, TASK_WITH_INPUT, SECRET).await;
    let input_required = call(&program, false).await["result"].clone();
    assert_eq!(input_required["resultType"], "input_required", "{input_required}");
    assert!(input_required["requestState"].is_string(), "{input_required}");
    let other = start(&upstream, TASK_WITH_INPUT, SECRET).await;
    let id = create_task(&program).await;
    let unknown = about(&other, "tasks/get", &id).await;
    assert_eq!(unknown["error"]["code"], -32602, "{unknown}");
}

#[tokio::test]
async fn every_replica_serves_a_task_with_input_requests_while_its_owner_runs() {
    let upstream = with_status(&[r#"{"state": "done"}"#]).await;
    let (one, other) =
        (start_as_peer(&upstream, TASK_WITH_INPUT).await, start_as_peer(&upstream, TASK_WITH_INPUT).await);
    let id = create_task(&one).await;
    assert_eq!(open(&about(&other, "tasks/get", &id).await["result"]), ["owner", "reader"]);
    update(&other, &id, named("owner", "Ada")).await;
    assert_eq!(open(&about(&one, "tasks/get", &id).await["result"]), ["reader"]);
    update(&one, &id, named("reader", "Cy")).await;
    until_first_request(&upstream).await;
    let done = loop {
        let task = about(&other, "tasks/get", &id).await["result"].clone();
        if task["status"] != "working" {
            break task;
        }
    };
    assert_eq!(done["result"]["content"][0]["text"], "by Ada, for Cy", "{done}");

    let id = create_task(&one).await;
    drop(one);
    let lost = about(&other, "tasks/get", &id).await;
    assert_eq!(lost["error"]["code"], -32602, "{lost}");
}
