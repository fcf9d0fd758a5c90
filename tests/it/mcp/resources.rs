//! Resources: lists and reads, in legacy and modern revisions.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use glossator::config::{self, Sources};
use serde_json::{Value, json};

use crate::support::{Client, Loaded as Serving, ReceivedRequest, Scripted, Step};

const OLDER: &str = "2025-11-25";
const NEWEST: &str = "2026-07-28";

const ROUTES: &str = r#"
  prices:
    title: Prices
    description: What everything costs.
    request: GET archive/prices
    resource: { uri: "prices://today", media_type: text/csv, size: 12B, annotations: { audience: [user], priority: 0.8 } }
  report:
    description: What was sold on a day.
    request: GET archive/reports/{date}
    input:
      properties: { date: { type: string, maxLength: 10 } }
      required: [date]
    resource: report://daily/{date}
  page: { description: A page of the book., request: "GET archive/pages/{number}", resource: "book://{number}", input: { properties: { number: { type: integer } }, required: [number] } }
  seal: { description: The seal., request: GET archive/seal, resource: "archive:seal" }
  object: { description: Some JSON., request: GET archive/object, resource: "archive:object" }
  empty: { description: Nothing., request: GET archive/empty, resource: "archive:empty" }
  down: { description: Out of order., request: GET archive/down, resource: "archive:down" }
  secret: { description: Hidden., request: GET archive/empty, tool: false }
  both: { description: Both., request: GET archive/prices, resource: "prices://both", tool: true }
  shelf:
    description: Several documents.
    request: GET archive/object
    resource: archive:shelf
    response:
      content:
        - resource: { uri: "archive:shelf/1", media_type: text/plain, text: "one {{ json.n }}" }
        - resource_link: { uri: "prices://today", name: prices }
    rest: GET /shelf
"#;

fn response(status: &str, headers: &str, body: &str) -> Vec<Step> {
    let length = body.len();
    vec![Step::Send(
        format!("HTTP/1.1 {status}\r\n{headers}content-length: {length}\r\n\r\n{body}").into_bytes(),
    )]
}

fn archive(request: &ReceivedRequest) -> Vec<Step> {
    match request.line().split(' ').nth(1).unwrap() {
        "/prices" => response(
            "200 OK",
            "content-type: text/plain\r\ncache-control: public, max-age=60\r\n",
            "a,1\nb,2\n",
        ),
        "/seal" => response("200 OK", "content-type: image/png\r\n", "PNG\0"),
        "/object" => response("200 OK", "content-type: application/json\r\n", r#"{"n": 1.0}"#),
        "/empty" => response("204 No Content", "", ""),
        "/down" => response("500 Oops", "content-type: text/plain\r\n", "password=hunter2"),
        "/reports/none" => response("404 Not Found", "content-type: text/plain\r\n", "no report of that day"),
        path => response("200 OK", "content-type: text/html\r\n", &format!("<p>{path}</p>")),
    }
}

struct Archive {
    serving: Serving,
    upstream: Scripted,
}

impl Archive {
    async fn start(settings: &str) -> Self {
        let upstream = Scripted::start(archive).await;
        let text =
            format!("{settings}\nupstreams: {{ archive: http://{} }}\nroutes:{ROUTES}", upstream.address);
        let loaded = config::load(&Sources::from_text("config.yaml", text));
        let loaded = loaded.unwrap_or_else(|problems| panic!("{problems}"));
        assert!(loaded.warnings.is_empty(), "{:?}", loaded.warnings);
        Self { serving: Serving::start(&loaded).await, upstream }
    }

    async fn send(&self, revision: &str, method: &str, params: Value) -> Value {
        send(&mut self.serving.connect().await, revision, method, params, "").await
    }

    /// Responses to a request in a legacy and in the modern revision.
    async fn call_both(&self, method: &str, params: Value) -> [Value; 2] {
        [self.send(OLDER, method, params.clone()).await, self.send(NEWEST, method, params).await]
    }

    /// Contents of a URI, the same in both.
    async fn read(&self, uri: &str) -> Value {
        let [older, newest] = self.call_both("resources/read", json!({ "uri": uri })).await;
        assert_eq!(older["result"]["contents"], newest["result"]["contents"], "{older} {newest}");
        assert_eq!(newest["result"]["resultType"], "complete", "{newest}");
        assert!(older["result"].get("ttlMs").is_none(), "{older}");
        older["result"]["contents"].clone()
    }

    /// Codes of the error in both, and its message.
    async fn error_of(&self, uri: &str) -> ([i64; 2], String) {
        let [older, newest] = self.call_both("resources/read", json!({ "uri": uri })).await;
        for response in [&older, &newest] {
            assert_eq!(response["error"]["data"]["uri"], uri, "{response}");
        }
        assert_eq!(older["error"]["message"], newest["error"]["message"]);
        let code = |response: &Value| response["error"]["code"].as_i64().unwrap();
        ([code(&older), code(&newest)], older["error"]["message"].as_str().unwrap().to_owned())
    }
}

/// Sends a request of a revision, in a session if one is given.
async fn send(client: &mut Client, revision: &str, method: &str, mut params: Value, session: &str) -> Value {
    let mut headers = vec![
        "Content-Type: application/json".to_owned(),
        "Accept: application/json, text/event-stream".to_owned(),
        format!("MCP-Protocol-Version: {revision}"),
    ];
    if !session.is_empty() {
        headers.push(format!("Mcp-Session-Id: {session}"));
    }
    if revision == NEWEST {
        params["_meta"] = json!({ "io.modelcontextprotocol/protocolVersion": revision,
            "io.modelcontextprotocol/clientCapabilities": {} });
        headers.push(format!("Mcp-Method: {method}"));
        let name = params["name"].as_str().or_else(|| params["uri"].as_str());
        headers.extend(name.map(|name| format!("Mcp-Name: {name}")));
    }
    let headers: Vec<&str> = headers.iter().map(String::as_str).collect();
    let body = json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": params }).to_string();
    client.send("POST /mcp", &headers, &body).await.json()
}

#[tokio::test]
async fn resources_are_listed_separately_from_tools() {
    let archive = Archive::start("").await;
    for response in archive.call_both("resources/list", json!({})).await {
        let resources = response["result"]["resources"].as_array().unwrap();
        let uris: Vec<&str> = resources.iter().map(|resource| resource["uri"].as_str().unwrap()).collect();
        let expected = [
            "archive:down",
            "archive:empty",
            "archive:object",
            "archive:seal",
            "archive:shelf",
            "prices://both",
            "prices://today",
        ];
        assert_eq!(uris, expected);
        let expected = json!({ "uri": "prices://today", "name": "prices", "title": "Prices",
            "description": "What everything costs.", "mimeType": "text/csv",
            "annotations": { "audience": ["user"], "priority": 0.8 }, "size": 12 });
        assert_eq!(resources[6], expected);
    }
    let [older, newest] = archive.call_both("resources/templates/list", json!({})).await;
    let expected = json!([
        { "uriTemplate": "book://{number}", "name": "page", "description": "A page of the book." },
        { "uriTemplate": "report://daily/{date}", "name": "report", "description": "What was sold on a day." },
    ]);
    assert_eq!(older["result"], json!({ "resourceTemplates": expected }));
    assert_eq!(newest["result"]["resourceTemplates"], expected);
    assert_eq!(
        (&newest["result"]["ttlMs"], &newest["result"]["cacheScope"]),
        (&json!(60_000), &json!("public"))
    );
    let [older, newest] = archive.call_both("tools/list", json!({})).await;
    for response in [older, newest] {
        let tools = response["result"]["tools"].as_array().unwrap();
        assert_eq!(tools.iter().map(|tool| &tool["name"]).collect::<Vec<_>>(), ["both"]);
    }
    for name in ["prices", "secret"] {
        let [older, newest] = archive.call_both("tools/call", json!({ "name": name })).await;
        assert_eq!((&older["error"]["code"], &newest["error"]["code"]), (&json!(-32602), &json!(-32602)));
    }
    let discovered = archive.send(NEWEST, "server/discover", json!({})).await;
    assert_eq!(
        discovered["result"]["capabilities"]["resources"],
        json!({ "listChanged": true }),
        "{discovered}"
    );
}

#[tokio::test]
async fn lists_come_in_pages_that_go_on_where_they_were() {
    let archive = Archive::start("server: { mcp: { page_size: 2 } }").await;
    for revision in [OLDER, NEWEST] {
        let (mut found, mut cursor) = (Vec::new(), json!(null));
        loop {
            let params = if cursor.is_null() { json!({}) } else { json!({ "cursor": cursor }) };
            let response = archive.send(revision, "resources/list", params).await;
            let page = response["result"]["resources"].as_array().unwrap().clone();
            assert!(page.len() <= 2);
            found.extend(page);
            cursor = response["result"]["nextCursor"].clone();
            if cursor.is_null() {
                break;
            }
            let other = archive.send(revision, "resources/templates/list", json!({ "cursor": cursor })).await;
            assert_eq!(other["error"]["code"], -32602, "a cursor of another list: {other}");
        }
        assert_eq!(found.len(), 7);
    }
}

#[tokio::test]
async fn contents_are_text_or_blob_as_the_rules_decide() {
    let archive = Archive::start("").await;
    let text = |uri: &str, kind: &str, text: &str| json!({ "uri": uri, "mimeType": kind, "text": text });
    assert_eq!(
        archive.read("prices://today").await,
        json!([text("prices://today", "text/csv", "a,1\nb,2\n")])
    );
    assert_eq!(
        archive.read("prices://both").await,
        json!([text("prices://both", "text/plain", "a,1\nb,2\n")])
    );
    assert_eq!(
        archive.read("archive:seal").await,
        json!([{ "uri": "archive:seal", "mimeType": "image/png", "blob": "UE5HAA==" }])
    );
    assert_eq!(
        archive.read("archive:object").await,
        json!([text("archive:object", "application/json", r#"{"n": 1.0}"#)])
    );
    assert_eq!(archive.read("archive:empty").await, json!([text("archive:empty", "text/plain", "")]));
    assert_eq!(
        archive.read("archive:shelf").await,
        json!([
            text("archive:shelf/1", "text/plain", "one 1.0"),
            text("archive:shelf", "text/uri-list", "prices://today"),
        ])
    );
    let kept = archive.send(NEWEST, "resources/read", json!({ "uri": "prices://today" })).await;
    assert_eq!((&kept["result"]["ttlMs"], &kept["result"]["cacheScope"]), (&json!(60_000), &json!("public")));
    let unsaid = archive.send(NEWEST, "resources/read", json!({ "uri": "archive:seal" })).await;
    assert_eq!((&unsaid["result"]["ttlMs"], &unsaid["result"]["cacheScope"]), (&json!(0), &json!("private")));
}

#[tokio::test]
async fn template_arguments_are_read_from_the_uri_and_stay_in_their_segment() {
    let archive = Archive::start("").await;
    let read = archive.read("report://daily/2026-11-21").await;
    let expected = json!([{ "uri": "report://daily/2026-11-21", "mimeType": "text/html",
        "text": "<p>/reports/2026-11-21</p>" }]);
    assert_eq!(read, expected);
    assert_eq!(archive.read("report://daily/a%20%C3%B8").await[0]["text"], "<p>/reports/a%20%C3%B8</p>");
    assert_eq!(archive.read("report://daily/a%2Fseal").await[0]["text"], "<p>/reports/a%2Fseal</p>");
    assert_eq!(archive.read("book://7").await[0]["text"], "<p>/pages/7</p>");
    let before = archive.upstream.state().requests.len();
    for uri in ["report://daily/..", "report://daily/..%2Fseal", "report://daily/a%00"] {
        let rejected = archive.error_of(uri).await;
        assert_eq!(rejected.0, [-32602, -32602]);
        assert!(rejected.1.contains("must not be"), "{rejected:?}");
    }
    let rejected = archive.error_of("report://daily/longer-than-ten").await;
    assert!(rejected.0 == [-32602, -32602] && rejected.1.contains("`date`"), "{rejected:?}");
    assert_eq!(archive.error_of("book://seven").await.0, [-32602, -32602]);
    for uri in ["report://daily/a/b", "report://daily/", "report://daily/%zz", "report://daily/a?b", "x", ""]
    {
        assert_eq!(archive.error_of(uri).await.0, [-32002, -32602], "{uri}");
    }
    assert_eq!(archive.upstream.state().requests.len(), before, "nobody was asked");
}

#[tokio::test]
async fn an_unreadable_resource_is_an_error_with_the_reason() {
    let archive = Archive::start("").await;
    let (codes, words) = archive.error_of("test://nonexistent").await;
    assert_eq!(codes, [-32002, -32602]);
    assert!(words.contains("`resources/list`"), "{words}");
    let (codes, words) = archive.error_of("report://daily/none").await;
    assert_eq!(codes, [-32002, -32602]);
    assert!(words.contains("no report of that day"), "{words}");
    let (codes, words) = archive.error_of("archive:down").await;
    assert_eq!(codes, [-32603, -32603]);
    assert!(!words.contains("hunter2") && words.starts_with("the resource can't be read: "), "{words}");
    let failed = archive.send(OLDER, "resources/read", json!({ "uri": "archive:down" })).await;
    assert!(failed["error"]["data"]["glossator/requestId"].is_string(), "{failed}");
    for response in archive.call_both("resources/read", json!({})).await {
        assert_eq!(response["error"]["code"], -32602, "{response}");
    }
}

#[tokio::test]
async fn a_resource_is_available_over_rest_if_configured() {
    let archive = Archive::start("").await;
    let mut client = archive.serving.connect().await;
    assert_eq!(client.send("GET /shelf", &[], "").await.status, 200);
    assert_eq!(client.send("POST /tools/shelf", &["Content-Type: application/json"], "{}").await.status, 404);
    assert_eq!(
        client.send("POST /tools/secret", &["Content-Type: application/json"], "{}").await.status,
        404
    );
    let tools = client.send("GET /tools", &[], "").await.json();
    assert_eq!(tools.as_array().unwrap().len(), 1, "{tools}");
    let openapi = client.send("GET /openapi.json", &[], "").await.json();
    let paths: Vec<&String> = openapi["paths"].as_object().unwrap().keys().collect();
    assert_eq!(paths, ["/tools/both", "/shelf"]);
    assert_eq!(openapi["paths"]["/shelf"]["get"]["operationId"], "shelf");
}

#[tokio::test]
async fn without_resources_none_are_promised() {
    let upstream = Scripted::start(archive).await;
    let text = format!(
        "upstreams: {{ archive: http://{} }}\nroutes: {{ a: {{ description: A., request: GET archive/prices }} }}",
        upstream.address
    );
    let loaded = config::load(&Sources::from_text("config.yaml", text)).unwrap();
    let serving = Serving::start(&loaded).await;
    let mut client = serving.connect().await;
    let discovered = send(&mut client, NEWEST, "server/discover", json!({}), "").await;
    assert!(discovered["result"]["capabilities"].get("resources").is_none(), "{discovered}");
    for revision in [OLDER, NEWEST] {
        for method in ["resources/list", "resources/templates/list", "resources/read", "resources/subscribe"]
        {
            let rejected = send(&mut client, revision, method, json!({ "uri": "x" }), "").await;
            assert_eq!(rejected["error"]["code"], -32601, "{rejected}");
        }
    }
}

/// Opens a session.
async fn initialize(serving: &Serving) -> (Value, String) {
    let client = json!({ "name": "test", "version": "1" });
    let params = json!({ "protocolVersion": OLDER, "capabilities": {}, "clientInfo": client });
    let body = json!({ "jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params }).to_string();
    let headers = ["Content-Type: application/json", "Accept: application/json, text/event-stream"];
    let response = serving.connect().await.send("POST /mcp", &headers, &body).await;
    (response.json()["result"].clone(), response.header("mcp-session-id").unwrap())
}

#[tokio::test]
async fn subscribers_are_notified_of_a_changed_resource() {
    let version = Arc::new(AtomicUsize::new(0));
    let now = Arc::clone(&version);
    let upstream = Scripted::start(move |_| {
        response("200 OK", "content-type: text/plain\r\n", &format!("news {}", now.load(Ordering::SeqCst)))
    })
    .await;
    let text = format!(
        "upstreams: {{ archive: http://{} }}
routes:
  news: {{ description: News., request: GET archive/news, resource: {{ uri: news:all, poll_interval: 100ms }} }}
",
        upstream.address
    );
    let loaded =
        config::load(&Sources::from_text("config.yaml", text)).unwrap_or_else(|error| panic!("{error}"));
    let serving = Serving::start(&loaded).await;
    let (_, session) = initialize(&serving).await;
    let mut older = serving.connect().await;
    older
        .write(format!(
            "GET /mcp HTTP/1.1\r\nHost: 127.0.0.1\r\nAccept: text/event-stream\r\nMcp-Session-Id: {session}\r\n\
             MCP-Protocol-Version: {OLDER}\r\n\r\n"
        ))
        .await;
    older.read_until("text/event-stream").await;
    let mut other = serving.connect().await;
    let subscribed =
        send(&mut other, OLDER, "resources/subscribe", json!({ "uri": "news:all" }), &session).await;
    assert_eq!(subscribed["result"], json!({}));
    let mut newest = serving.connect().await;
    let meta = json!({ "io.modelcontextprotocol/protocolVersion": NEWEST,
        "io.modelcontextprotocol/clientCapabilities": {} });
    let body =
        json!({ "jsonrpc": "2.0", "id": 7, "method": "subscriptions/listen", "params": { "_meta": meta,
        "notifications": { "resourceSubscriptions": ["news:all", "news:none"] } } })
        .to_string();
    let length = body.len();
    newest
        .write(format!(
            "POST /mcp HTTP/1.1\r\nHost: 127.0.0.1\r\nAccept: application/json, text/event-stream\r\n\
             Content-Type: application/json\r\nMCP-Protocol-Version: {NEWEST}\r\nMcp-Method: subscriptions/listen\r\n\
             Content-Length: {length}\r\n\r\n{body}"
        ))
        .await;
    let acknowledged = newest.read_until("acknowledged").await;
    assert!(!acknowledged.contains("news:none"), "{acknowledged}");
    let before = upstream.state().requests.len();
    upstream.until("a look", |state| state.requests.len() > before + 1).await;
    version.fetch_add(1, Ordering::SeqCst);
    for client in [&mut older, &mut newest] {
        let received = client.read_until("notifications/resources/updated").await;
        assert!(received.contains("news:all"), "{received}");
    }
    assert_eq!(upstream.state().connections, 1, "one question for both");
}

#[tokio::test]
async fn sessions_subscribe_to_polled_resources() {
    let text = "upstreams: { archive: http://127.0.0.1:1 }
routes:
  news: { description: News., request: GET archive/news, resource: { uri: news:all, poll_interval: 1h } }
  old: { description: Old news., request: GET archive/old, resource: news:old }
";
    let loaded =
        config::load(&Sources::from_text("config.yaml", text)).unwrap_or_else(|error| panic!("{error}"));
    let serving = Serving::start(&loaded).await;
    let (opened, session) = initialize(&serving).await;
    assert_eq!(opened["capabilities"]["resources"]["subscribe"], true, "{opened}");
    let mut client = serving.connect().await;
    for method in
        ["resources/subscribe", "resources/subscribe", "resources/unsubscribe", "resources/unsubscribe"]
    {
        let response = send(&mut client, OLDER, method, json!({ "uri": "news:all" }), &session).await;
        assert_eq!(response["result"], json!({}), "{response}");
    }
    let mut rejected = async |revision, uri: &str, session: &str, code: i64, words: &str| {
        let response =
            send(&mut client, revision, "resources/subscribe", json!({ "uri": uri }), session).await;
        assert_eq!(response["error"]["code"], code, "{response}");
        assert!(response["error"]["message"].as_str().unwrap().contains(words), "{response}");
    };
    rejected(OLDER, "news:none", &session, -32002, "unknown resource").await;
    rejected(OLDER, "news:old", &session, -32602, "does not support subscriptions").await;
    rejected(OLDER, "news:all", "", -32602, "`Mcp-Session-Id`").await;
    rejected(OLDER, "news:all", "made-up", -32602, "`Mcp-Session-Id`").await;
    rejected(NEWEST, "news:all", "", -32601, "resources/subscribe").await;
    let discovered = send(&mut client, NEWEST, "server/discover", json!({}), "").await;
    assert_eq!(discovered["result"]["capabilities"]["resources"]["subscribe"], true, "{discovered}");
}

#[tokio::test]
async fn subscribers_are_notified_if_a_reload_removes_a_resource() {
    let upstream = Scripted::start(|_| response("200 OK", "content-type: text/plain\r\n", "news")).await;
    let load = |routes: &str| {
        let text = format!("upstreams: {{ archive: http://{} }}\nroutes:\n{routes}", upstream.address);
        config::load(&Sources::from_text("config.yaml", text)).unwrap_or_else(|error| panic!("{error}"))
    };
    let old = "  old: { description: Old., request: GET archive/old, resource: news:old }\n";
    let news = "  news: { description: News., request: GET archive/news, resource: { uri: news:all, poll_interval: 100ms } }\n";
    let mut serving = Serving::start(&load(&format!("{old}{news}"))).await;
    let mut client = serving.connect().await;
    let meta = json!({ "io.modelcontextprotocol/protocolVersion": NEWEST,
        "io.modelcontextprotocol/clientCapabilities": {} });
    let body =
        json!({ "jsonrpc": "2.0", "id": 7, "method": "subscriptions/listen", "params": { "_meta": meta,
        "notifications": { "resourcesListChanged": true, "resourceSubscriptions": ["news:all"] } } })
        .to_string();
    let length = body.len();
    client
        .write(format!(
            "POST /mcp HTTP/1.1\r\nHost: 127.0.0.1\r\nAccept: application/json, text/event-stream\r\n\
             Content-Type: application/json\r\nMCP-Protocol-Version: {NEWEST}\r\nMcp-Method: subscriptions/listen\r\n\
             Content-Length: {length}\r\n\r\n{body}"
        ))
        .await;
    client.read_until("acknowledged").await;
    upstream.until("two looks", |state| state.requests.len() >= 2).await;
    serving.app.apply(&load(old)).unwrap();
    client.read_until("notifications/resources/list_changed").await;
    client.read_until("notifications/resources/updated").await;
    let gone =
        send(&mut serving.connect().await, NEWEST, "resources/read", json!({ "uri": "news:all" }), "").await;
    assert_eq!(gone["error"]["code"], -32602, "{gone}");
}
