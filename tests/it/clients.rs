//! Authentication and authorization, over REST and both modern and legacy MCP: credentials, visible tools,
//! and ownership.

use glossator::{
    auth::ApiKeyHash,
    config::{self, Sources},
};
use serde_json::{Value, json};

use crate::support::{Client, Loaded, Response, Scripted, response};

const READER: &str = "glk_reader-reader-reader-reader-reader";
const WRITER: &str = "glk_writer-writer-writer-writer-writer";
const OLD: &str = "glk_old-old-old-old-old-old-old-old-old";

/// Configuration with two clients, and three routes: without a scope, with a scope of both, and with one of
/// the writer.
fn file(upstream: &Scripted, more: &str) -> String {
    let hash = |key: &str| ApiKeyHash::from_key(key).to_string();
    format!(
        "upstreams: {{ old: 'http://{}' }}
clients:
  reader: {{ api_key_hashes: '{}', scopes: [read] }}
  writer:
    scopes: [read, write]
    api_key_hashes: ['{}', {{ hash: '{}', expires: 2020-01-01 }}]
defaults: {{ scopes: [read] }}
routes:
  get_time: {{ description: x, request: GET old/time, scopes: [], rest: GET /time }}
  get_thing: {{ description: x, request: GET old/thing, resource: test:thing, tool: true }}
  set_thing: {{ description: x, request: PUT old/thing, scopes: [write], rest: PUT /thing }}
  get_secret: {{ description: x, request: GET old/secret, scopes: [write], resource: test:secret }}
prompts:
  about_thing: {{ description: x, messages: [{{ user: About. }}] }}
  about_secret: {{ description: x, messages: [{{ user: {{ route: get_secret }} }}] }}
{more}",
        upstream.address,
        hash(READER),
        hash(WRITER),
        hash(OLD),
    )
}

fn load(text: &str) -> config::Loaded {
    config::load(&Sources::from_text("a.yaml", text)).unwrap_or_else(|problems| panic!("{problems}"))
}

async fn upstream() -> Scripted {
    Scripted::answering(response("200 OK", "text/plain", "well")).await
}

async fn served(more: &str) -> (Scripted, Loaded) {
    let upstream = upstream().await;
    let served = Loaded::start(&load(&file(&upstream, more))).await;
    (upstream, served)
}

fn bearer(key: &str) -> String {
    format!("Authorization: Bearer {key}")
}

/// Sends a request with these headers over a new connection.
async fn send(served: &Loaded, line: &str, headers: &[&str], body: &str) -> Response {
    let headers: Vec<&str> = headers.iter().copied().filter(|header| !header.is_empty()).collect();
    Client::connect(served.address).await.send(line, &headers, body).await
}

/// Sends an MCP request in a legacy and in the modern revision, each with this header.
async fn both(served: &Loaded, credential: &str, method: &str, params: Value) -> [Response; 2] {
    let headers = |version: &str| {
        let mut headers = vec![
            "Content-Type: application/json".to_owned(),
            "Accept: application/json, text/event-stream".to_owned(),
            format!("MCP-Protocol-Version: {version}"),
        ];
        headers.extend((!credential.is_empty()).then(|| credential.to_owned()));
        headers
    };
    let send = async |headers: Vec<String>, params: &Value| {
        let body = json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": params }).to_string();
        let headers: Vec<&str> = headers.iter().map(String::as_str).collect();
        send(served, "POST /mcp", &headers, &body).await
    };
    let older = send(headers("2025-11-25"), &params).await;
    let mut newer = params.clone();
    newer["_meta"]["io.modelcontextprotocol/protocolVersion"] = "2026-07-28".into();
    newer["_meta"]["io.modelcontextprotocol/clientCapabilities"] = json!({});
    let mut lines = headers("2026-07-28");
    lines.push(format!("Mcp-Method: {method}"));
    let name = params["name"].as_str().or_else(|| params["uri"].as_str());
    lines.extend(name.map(|name| format!("Mcp-Name: {name}")));
    [older, send(lines, &newer).await]
}

/// Names in a list: the member `key` of each entry.
fn names(list: &Value, key: &str) -> Vec<String> {
    let entries = list.as_array().unwrap_or_else(|| panic!("no list: {list}"));
    entries.iter().map(|entry| entry[key].as_str().unwrap().to_owned()).collect()
}

#[track_caller]
fn check_challenge(response: &Response, status: u16, words: &[&str]) {
    let challenge = response.header("www-authenticate").unwrap_or_default();
    assert_eq!(response.status, status, "{challenge} {}", response.text());
    assert!(challenge.starts_with("Bearer"), "{challenge}");
    for word in words {
        assert!(challenge.contains(word), "{word} in {challenge}");
    }
    let all = format!("{}{}", response.head, response.text());
    assert!(!all.contains("glk_"), "{all}");
}

#[tokio::test]
async fn a_request_without_a_credential_gets_only_a_challenge() {
    let (upstream, served) = served("").await;
    let calls = [
        "GET /tools",
        "GET /openapi.json",
        "GET /status",
        "GET /time",
        "POST /tools/get_time",
        "GET /else",
        "GET /mcp",
    ];
    for line in calls {
        check_challenge(&send(&served, line, &[], "").await, 401, &["scope=\"read\""]);
    }
    for method in ["initialize", "tools/list", "ping"] {
        for response in both(&served, "", method, json!({ "protocolVersion": "2025-11-25" })).await {
            check_challenge(&response, 401, &[]);
            assert_eq!(response.json()["error"]["code"], -32600);
        }
    }
    let health = send(&served, "GET /health", &[], "").await;
    assert_eq!((health.status, health.text()), (200, r#"{"status":"ok"}"#));
    assert_eq!(upstream.state().connections, 0);
}

#[tokio::test]
async fn a_key_is_sent_in_one_header_once() {
    let (upstream, served) = served("").await;
    for (headers, status) in [
        (vec![bearer(READER)], 200),
        (vec![format!("X-API-Key: {READER}")], 200),
        (vec![format!("authorization: bEARER {READER}")], 200),
        (vec![format!("X-API-Key: {READER}"), "Authorization: Basic eDp5".to_owned()], 200),
        (vec![bearer(READER), format!("X-API-Key: {READER}")], 400),
        (vec![bearer(READER), bearer(READER)], 400),
        (vec![bearer(READER), bearer("nonsense")], 400),
        (vec![format!("X-API-Key: {READER}"), format!("X-API-Key: {WRITER}")], 400),
        (vec![bearer(&READER[..10])], 401),
        (vec![bearer(&ApiKeyHash::from_key(READER).to_string())], 401),
        (vec![bearer(OLD)], 401),
        (vec![bearer("")], 401),
        (vec![bearer(&"a".repeat(20_000))], 401),
        (vec![format!("Authorization: {READER}")], 401),
        (vec![format!("Cookie: key={READER}")], 401),
    ] {
        let headers: Vec<&str> = headers.iter().map(String::as_str).collect();
        let response = send(&served, "GET /time", &headers, "").await;
        assert_eq!(response.status, status, "{headers:?}: {}", response.text());
        assert_eq!(response.header("www-authenticate").is_some(), status != 200);
    }
    let in_query = send(&served, &format!("GET /time?access_token={READER}&api_key={READER}"), &[], "").await;
    assert_eq!(in_query.status, 401);
    let expired = send(&served, "GET /time", &[&bearer(OLD)], "").await;
    check_challenge(&expired, 401, &["error=\"invalid_token\"", "the key has expired"]);
    for request in &upstream.state().requests {
        assert!(!request.head.contains("glk_"), "{}", request.head);
    }
}

#[tokio::test]
async fn a_client_sees_and_calls_only_its_tools() {
    let (_upstream, served) = served("").await;
    for (key, tools, prompts, resources) in [
        (READER, vec!["get_thing", "get_time"], vec!["about_thing"], vec!["test:thing"]),
        (
            WRITER,
            vec!["get_thing", "get_time", "set_thing"],
            vec!["about_secret", "about_thing"],
            vec!["test:secret", "test:thing"],
        ),
    ] {
        let credential = bearer(key);
        let manifest = send(&served, "GET /tools", &[&credential], "").await.json();
        assert_eq!(names(&manifest, "name"), tools);
        let document = send(&served, "GET /openapi.json", &[&credential], "").await.json();
        assert_eq!(document["paths"].get("/thing").is_some(), key == WRITER);
        assert_eq!(document["security"], json!([{ "bearer": [] }, { "key": [] }]));
        let status = send(&served, "GET /status", &[&credential], "").await.json();
        assert_eq!(status["tools"], tools.len());
        for (method, list, key, expected) in [
            ("tools/list", "tools", "name", &tools),
            ("prompts/list", "prompts", "name", &prompts),
            ("resources/list", "resources", "uri", &resources),
        ] {
            let [older, newer] = both(&served, &credential, method, json!({})).await;
            assert_eq!(names(&older.json()["result"][list], key), *expected);
            assert_eq!(names(&newer.json()["result"][list], key), *expected);
            assert_eq!(newer.json()["result"]["cacheScope"], "private");
        }
    }
    let reader = bearer(READER);
    let needs = ["error=\"insufficient_scope\"", "scope=\"write\""];
    check_challenge(&send(&served, "PUT /thing", &[&reader], "").await, 403, &needs);
    check_challenge(&send(&served, "POST /tools/set_thing", &[&reader], "").await, 403, &needs);
    for (method, params) in [
        ("tools/call", json!({ "name": "set_thing", "arguments": {} })),
        ("resources/read", json!({ "uri": "test:secret" })),
    ] {
        for response in both(&served, &reader, method, params).await {
            check_challenge(&response, 403, &needs);
        }
    }
    for response in both(&served, &reader, "prompts/get", json!({ "name": "about_secret" })).await {
        check_challenge(&response, 403, &["error=\"insufficient_scope\"", "scope=\"read write\""]);
    }
    let writer = bearer(WRITER);
    assert_eq!(send(&served, "PUT /thing", &[&writer], "").await.status, 200);
    for response in
        both(&served, &writer, "tools/call", json!({ "name": "set_thing", "arguments": {} })).await
    {
        assert_eq!(response.json()["result"]["content"][0]["text"], "well", "{}", response.text());
    }
}

/// A tool that a client may not call is answered like an unknown one, also for other methods.
#[tokio::test]
async fn a_hidden_tool_and_a_missing_one_have_the_same_response() {
    let (_upstream, served) = served("server: { allowed_origins: ['https://app.test'] }").await;
    let response_of = async |line: &str, name: &str, headers: &[&str]| {
        let response = send(&served, &line.replace("NAME", name), headers, "").await;
        let head: Vec<String> = response.head.lines().map(str::to_owned).collect();
        let head: Vec<String> = head
            .into_iter()
            .filter(|line| !line.starts_with("x-request-id") && !line.starts_with("date"))
            .collect();
        (response.status, head, response.text().replace(&format!("`{name}`"), "`NAME`"))
    };
    let preflight = ["Origin: https://app.test", "Access-Control-Request-Method: PUT"];
    for headers in [&[][..], &preflight, &[&bearer(READER)], &[&bearer(OLD)]] {
        for line in ["OPTIONS /tools/NAME", "GET /tools/NAME", "DELETE /tools/NAME"] {
            let (hidden, missing) = ("set_thing", "met_thing");
            assert_eq!(
                response_of(line, hidden, headers).await,
                response_of(line, missing, headers).await,
                "{line}"
            );
        }
        for line in ["OPTIONS /NAME", "POST /NAME"] {
            assert_eq!(
                response_of(line, "thing", headers).await,
                response_of(line, "thank", headers).await,
                "{line}"
            );
        }
    }
    let reader = bearer(READER);
    let seen = send(&served, "OPTIONS /tools/get_thing", &[&reader], "").await;
    assert_eq!((seen.status, seen.header("allow").as_deref()), (204, Some("POST")));
    assert_eq!(send(&served, "GET /tools/get_thing", &[&reader], "").await.status, 405);
    assert_eq!(send(&served, "OPTIONS /thing", &[&bearer(WRITER)], "").await.status, 204);
}

#[tokio::test]
async fn a_hidden_route_does_not_open_paths_of_glossator_to_passthrough() {
    let upstream = upstream().await;
    let page =
        "  get_page: { description: x, request: 'GET old/{name}', scopes: [write], rest: 'GET /{name}' }";
    let text = file(&upstream, "passthrough: { upstream: old, scopes: [] }");
    let text = text.replace("  get_secret:", &format!("{page}\n  get_secret:"));
    let served = Loaded::start(&load(&text)).await;
    for path in ["/tools", "/openapi.json", "/health", "/status"] {
        let response = send(&served, &format!("POST {path}"), &[&bearer(READER)], "").await;
        assert_eq!(
            (response.status, response.header("allow").as_deref()),
            (405, Some("GET, HEAD")),
            "{path}"
        );
    }
    assert!(upstream.state().requests.is_empty());
}

#[tokio::test]
async fn a_session_is_nobodys_but_its_clients() {
    let (_upstream, served) = served("").await;
    let hello = json!({ "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": { "name": "x", "version": "1" } });
    let [begun, _] = both(&served, &bearer(READER), "initialize", hello).await;
    let session = format!("Mcp-Session-Id: {}", begun.header("mcp-session-id").unwrap());
    let list = json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/list" }).to_string();
    let version = "MCP-Protocol-Version: 2025-11-25";
    let (json_type, stream) =
        ("Content-Type: application/json", "Accept: application/json, text/event-stream");
    for (key, status) in [(READER, 200), (WRITER, 404), (READER, 200)] {
        let headers = [&session, version, json_type, stream, &bearer(key)];
        assert_eq!(send(&served, "POST /mcp", &headers, &list).await.status, status);
    }
    let others = [&session, version, stream, &bearer(WRITER)];
    assert_eq!(send(&served, "GET /mcp", &others, "").await.status, 404);
    assert_eq!(send(&served, "DELETE /mcp", &others, "").await.status, 404);
    assert_eq!(send(&served, "DELETE /mcp", &[&session, version, &bearer(READER)], "").await.status, 204);
    let foreign = ["Mcp-Session-Id: made-up", version, json_type, stream, &bearer(READER)];
    assert_eq!(send(&served, "POST /mcp", &foreign, &list).await.status, 404);
}

#[tokio::test]
async fn passthrough_has_its_own_scopes() {
    let (upstream, served) = served("passthrough: { upstream: old, scopes: [write] }").await;
    check_challenge(&send(&served, "GET /old", &[], "").await, 401, &[]);
    check_challenge(&send(&served, "GET /old", &[&bearer(READER)], "").await, 403, &["scope=\"write\""]);
    assert_eq!(upstream.state().connections, 0);
    let both = [&format!("X-API-Key: {WRITER}"), "Authorization: Basic eDp5"];
    assert_eq!(send(&served, "GET /old", &both, "").await.status, 200);
    assert_eq!(send(&served, "GET /old", &[&bearer(WRITER)], "").await.status, 200);
    let state = upstream.state();
    assert_eq!(state.requests[0].header("authorization"), ["Basic eDp5"], "that was not shown to us");
    assert!(state.requests.iter().all(|request| !request.head.contains("glk_")));
    assert!(state.requests[1].header("authorization").is_empty());
}

#[tokio::test]
async fn limits_count_by_client_and_not_by_address() {
    let (_upstream, served) = served("").await;
    drop(served);
    let upstream = upstream().await;
    let text =
        file(&upstream, "").replace("scopes: [], rest", "scopes: [], rate_limit_per_client: 1 per 1h, rest");
    let served = Loaded::start(&load(&text)).await;
    for (key, status) in [(READER, 200), (READER, 429), (WRITER, 200), (WRITER, 429)] {
        assert_eq!(send(&served, "GET /time", &[&bearer(key)], "").await.status, status);
    }
}

#[tokio::test]
async fn clients_change_with_the_file() {
    let (upstream, mut served) = served("").await;
    let time = async |served: &Loaded, key: &str| send(served, "GET /time", &[&bearer(key)], "").await.status;
    assert_eq!((time(&served, READER).await, time(&served, OLD).await), (200, 401));
    let other = file(&upstream, "")
        .replace(&ApiKeyHash::from_key(READER).to_string(), &ApiKeyHash::from_key("glk_another").to_string());
    served.app.apply(&load(&other.replace("2020", "2999"))).unwrap();
    assert_eq!((time(&served, READER).await, time(&served, OLD).await), (401, 200));
    let open =
        "upstreams: { old: 'http://127.0.0.1:1' }\nroutes: { a: { description: x, request: GET old/a } }";
    served.app.apply(&load(open)).unwrap();
    assert_eq!(send(&served, "GET /tools", &[], "").await.status, 200);
    served.app.apply(&load(&other)).unwrap();
    assert_eq!(send(&served, "GET /tools", &[], "").await.status, 401);
}

#[tokio::test]
async fn a_preflight_request_needs_no_credential() {
    let (_upstream, served) = served("server: { allowed_origins: ['https://app.test'] }").await;
    for (line, path) in [("OPTIONS /mcp", "/mcp"), ("OPTIONS /thing", "/thing")] {
        let headers = ["Origin: https://app.test", "Access-Control-Request-Method: PUT"];
        let preflight = send(&served, line, &headers, "").await;
        assert_eq!(preflight.status, 204, "{path}");
        assert_eq!(preflight.header("access-control-allow-origin").as_deref(), Some("https://app.test"));
    }
    let rejected = send(&served, "GET /tools", &["Origin: https://app.test"], "").await;
    check_challenge(&rejected, 401, &[]);
    assert!(rejected.header("access-control-expose-headers").unwrap().contains("www-authenticate"));
}
