//! Streams of change notifications over real sockets, and legacy sessions.

use glossator::config::{self, Sources};
use serde_json::{Value, json};

use super::NEWEST;
use crate::support::{Client, Loaded, Response, soon};

const SECRET: &str = "server: { secret_key: 0123456789abcdef }";

/// Configuration with these tools. The upstream gets no requests.
pub(crate) fn tools(names: &[&str], more: &str) -> config::Loaded {
    let routes: String = names.iter().map(|name| format!("  {name}: {{ request: GET old/x }}\n")).collect();
    let text = format!("upstreams: {{ old: 'http://127.0.0.1:1' }}\nroutes:\n{routes}{more}");
    config::load(&Sources::from_text("a.yaml", text)).unwrap_or_else(|problems| panic!("{problems}"))
}

/// Request of a legacy or the modern revision, as it is sent.
pub(crate) fn message(version: &str, mut message: Value, headers: &str) -> String {
    let mut more = String::new();
    if version == NEWEST {
        message["params"]["_meta"]["io.modelcontextprotocol/protocolVersion"] = NEWEST.into();
        message["params"]["_meta"]["io.modelcontextprotocol/clientCapabilities"] = json!({});
        more += &format!("Mcp-Method: {}\r\n", message["method"].as_str().unwrap());
        if let Some(name) = message["params"]["name"].as_str() {
            more += &format!("Mcp-Name: {name}\r\n");
        }
    }
    let body = message.to_string();
    format!(
        "POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n\
         Accept: application/json, text/event-stream\r\nMCP-Protocol-Version: {version}\r\n{more}{headers}\
         Content-Length: {}\r\n\r\n{body}",
        body.len()
    )
}

pub(crate) async fn send(client: &mut Client, version: &str, content: Value, headers: &str) -> Response {
    client.write(message(version, content, headers)).await;
    soon("the answer", client.read(false)).await
}

/// Opens a session, and returns its id.
pub(crate) async fn session(client: &mut Client) -> String {
    let params = json!({ "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": { "name": "t", "version": "1" } });
    let initialize = json!({ "jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params });
    let response = send(client, "2025-11-25", initialize, "").await;
    assert_eq!(response.json()["result"]["capabilities"]["tools"], json!({ "listChanged": true }));
    response.header("mcp-session-id").unwrap()
}

pub(crate) fn get(session: &str) -> String {
    format!(
        "GET /mcp HTTP/1.1\r\nHost: localhost\r\nAccept: text/event-stream\r\n\
         MCP-Protocol-Version: 2025-11-25\r\nMcp-Session-Id: {session}\r\n\r\n"
    )
}

async fn open(served: &Loaded, request: String) -> Client {
    let mut client = served.connect().await;
    client.write(request).await;
    client
}

fn listen(id: Value, filter: Value) -> String {
    let params = json!({ "notifications": filter });
    let listen = json!({ "jsonrpc": "2.0", "id": id, "method": "subscriptions/listen", "params": params });
    message(NEWEST, listen, "")
}

/// Messages of a stream so far.
fn events(text: &str) -> Vec<Value> {
    text.lines()
        .filter_map(|line| line.strip_prefix("data: "))
        .map(|data| serde_json::from_str(data).unwrap())
        .collect()
}

fn ping(session: &str) -> (Value, String) {
    (json!({ "jsonrpc": "2.0", "id": 7, "method": "ping" }), format!("Mcp-Session-Id: {session}\r\n"))
}

#[tokio::test]
async fn a_session_is_notified_of_changed_tools() {
    let mut served = Loaded::start(&tools(&["a"], SECRET)).await;
    let id = session(&mut served.connect().await).await;
    let mut stream = open(&served, get(&id)).await;
    let head = stream.read_until(": open").await;
    assert!(head.starts_with("HTTP/1.1 200"), "{head}");
    for line in ["content-type: text/event-stream", "x-accel-buffering: no"] {
        assert!(head.contains(line), "{head}");
    }
    served.app.apply(&tools(&["a"], SECRET)).unwrap();
    served.app.apply(&tools(&["a", "b"], SECRET)).unwrap();
    stream.read_until("list_changed").await;
    let notification =
        json!({ "jsonrpc": "2.0", "method": "notifications/tools/list_changed", "params": {} });
    served.stop();
    let text = stream.read_to_end().await;
    assert_eq!(events(&text), [notification], "the first reload changed nothing");
}

/// Prompts and resources that a reload adds are unknown to a session that began before: it has negotiated
/// neither.
#[tokio::test]
async fn a_session_is_notified_of_the_lists_that_were_declared_to_it() {
    let prompt = |description: &str| {
        let messages = "[{ user: Sum up. }]";
        format!("prompts: {{ sum_up: {{ description: {description}, messages: {messages} }} }}\n{SECRET}")
    };
    let mut served = Loaded::start(&tools(&["a"], SECRET)).await;
    let id = session(&mut served.connect().await).await;
    let mut first = open(&served, get(&id)).await;
    first.read_until(": open").await;
    served.app.apply(&tools(&["a"], &prompt("One"))).unwrap();
    let id = session(&mut served.connect().await).await;
    let mut second = open(&served, get(&id)).await;
    second.read_until(": open").await;
    served.app.apply(&tools(&["a", "b"], &prompt("Two"))).unwrap();
    let text = first.read_until("tools/list_changed").await;
    assert!(!text.contains("prompts/list_changed"), "{text}");
    second.read_until("prompts/list_changed").await;
}

#[tokio::test]
async fn a_subscription_gets_its_notifications_and_an_end() {
    let mut served = Loaded::start(&tools(&["a"], "")).await;
    let filter = json!({ "toolsListChanged": true, "promptsListChanged": false });
    let mut tools_stream = open(&served, listen(json!("one"), filter)).await;
    let mut others = open(&served, listen(json!(0), json!({ "promptsListChanged": true }))).await;
    for stream in [&mut tools_stream, &mut others] {
        let head = stream.read_until("acknowledged").await;
        assert!(head.contains("x-accel-buffering: no"), "{head}");
    }
    served.app.apply(&tools(&["a", "b"], "")).unwrap();
    tools_stream.read_until("tools/list_changed").await;
    served.stop();
    let key = "io.modelcontextprotocol/subscriptionId";
    let received = events(&tools_stream.read_to_end().await);
    let meta = json!({ key: "one" });
    assert_eq!(received.len(), 3);
    let acknowledged = json!({ "_meta": meta, "notifications": { "toolsListChanged": true } });
    assert_eq!(received[0]["method"], "notifications/subscriptions/acknowledged");
    assert_eq!(received[0]["params"], acknowledged);
    assert_eq!(received[1]["method"], "notifications/tools/list_changed");
    assert_eq!(received[1]["params"], json!({ "_meta": meta }));
    assert_eq!(
        (&received[2]["id"], &received[2]["result"]["resultType"]),
        (&"one".into(), &"complete".into())
    );
    assert_eq!(received[2]["result"]["_meta"][key], "one");
    let received = events(&others.read_to_end().await);
    assert_eq!(received.len(), 2, "nothing but the acknowledgement and the end: {received:?}");
    assert_eq!(received[0]["params"]["notifications"], json!({ "promptsListChanged": true }));
    assert_eq!(received[1]["result"]["_meta"][key], 0);
}

#[tokio::test]
async fn listening_takes_a_filter_and_a_stream() {
    let served = Loaded::start(&tools(&["a"], "")).await;
    let mut client = served.connect().await;
    for params in
        [json!({}), json!({ "notifications": [] }), json!({ "notifications": { "toolsListChanged": 1 } })]
    {
        let content =
            json!({ "jsonrpc": "2.0", "id": 1, "method": "subscriptions/listen", "params": params });
        let response = send(&mut client, NEWEST, content, "").await;
        assert_eq!((response.status, &response.json()["error"]["code"]), (400, &(-32602).into()));
    }
    client.write(listen(json!(1), json!({})).replace(", text/event-stream", "")).await;
    let response = client.read(false).await;
    assert!(response.status == 400 && response.text().contains("Accept: text/event-stream"), "{response:?}");
    let older = json!({ "jsonrpc": "2.0", "id": 1, "method": "subscriptions/listen" });
    assert_eq!(send(&mut client, "2025-11-25", older, "").await.json()["error"]["code"], -32601);
}

#[tokio::test]
async fn the_number_of_streams_is_limited() {
    let served =
        Loaded::start(&tools(&["a"], "server: { max_streams: 2, secret_key: 0123456789abcdef }")).await;
    let id = session(&mut served.connect().await).await;
    let mut first = open(&served, get(&id)).await;
    first.read_until(": open").await;
    let mut second = open(&served, listen(json!(1), json!({}))).await;
    second.read_until("acknowledged").await;
    let rejected = open(&served, get(&id)).await.read(false).await;
    assert!(rejected.status == 503 && rejected.text().contains("too many"), "{rejected:?}");
    let rejected = open(&served, listen(json!(1), json!({}))).await.read(false).await;
    assert_eq!((rejected.status, &rejected.json()["id"]), (503, &1.into()));
    // Closing streams frees their slots soon, but not at once.
    drop((first, second));
    soon("two places", async {
        loop {
            let mut streams =
                [open(&served, get(&id)).await, open(&served, listen(json!(1), json!({}))).await];
            let heads = [streams[0].read_until("\r\n\r\n").await, streams[1].read_until("\r\n\r\n").await];
            if heads.iter().all(|head| head.starts_with("HTTP/1.1 200")) {
                return;
            }
        }
    })
    .await;
}

#[tokio::test]
async fn a_session_ends_by_delete() {
    let served = Loaded::start(&tools(&["a"], SECRET)).await;
    let mut client = served.connect().await;
    let id = session(&mut client).await;
    let (ended, other) = (ping(&id), ping(&session(&mut client).await));
    let mut stream = open(&served, get(&id)).await;
    stream.read_until(": open").await;
    assert_eq!(send(&mut client, "2025-11-25", ended.0.clone(), &ended.1).await.status, 200);
    let delete =
        |id: &str| format!("DELETE /mcp HTTP/1.1\r\nHost: localhost\r\nMcp-Session-Id: {id}\r\n\r\n");
    client.write(delete(&id)).await;
    assert_eq!(client.read(false).await.status, 204);
    assert!(events(stream.read(false).await.text()).is_empty(), "its stream has ended");
    let notification = json!({ "jsonrpc": "2.0", "method": "notifications/initialized" });
    for content in [ended.0, notification] {
        let response = send(&mut client, "2025-11-25", content, &ended.1).await;
        assert!(response.status == 404 && response.text().contains("initialize"), "{response:?}");
    }
    assert_eq!(open(&served, get(&id)).await.read(false).await.status, 404);
    client.write(delete(&id)).await;
    assert_eq!(client.read(false).await.status, 404);
    client.write(delete(&id).replace("Mcp-Session-Id", "X")).await;
    assert_eq!(client.read(false).await.status, 400);
    assert_eq!(send(&mut client, "2025-11-25", other.0, &other.1).await.status, 200, "another goes on");
    let again = json!({ "jsonrpc": "2.0", "id": 0, "method": "initialize", "params": { "protocolVersion": "2025-11-25" } });
    assert_eq!(send(&mut client, "2025-11-25", again, &ended.1).await.status, 200);
}

#[tokio::test]
async fn any_replica_with_the_secret_knows_a_session_and_no_other_does() {
    let (one, other) =
        (Loaded::start(&tools(&["a"], SECRET)).await, Loaded::start(&tools(&["a"], SECRET)).await);
    let id = session(&mut one.connect().await).await;
    let (content, header) = ping(&id);
    assert_eq!(send(&mut other.connect().await, "2025-11-25", content.clone(), &header).await.status, 200);
    open(&other, get(&id)).await.read_until(": open").await;
    let stranger = Loaded::start(&tools(&["a"], "server: { secret_key: another_secret_16 }")).await;
    assert_eq!(send(&mut stranger.connect().await, "2025-11-25", content.clone(), &header).await.status, 404);
    // Without a secret key the session may be of another replica, or of an earlier process.
    let forgetful = Loaded::start(&tools(&["a"], "")).await;
    assert_eq!(send(&mut forgetful.connect().await, "2025-11-25", content, &header).await.status, 200);
    // An invalid legacy session does not affect a request of the modern revision.
    let newer = json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/list" });
    let response = send(&mut stranger.connect().await, NEWEST, newer, &header).await;
    assert_eq!(response.status, 200);
}

#[tokio::test]
async fn without_a_request_no_stream_is_opened() {
    let served = Loaded::start(&tools(&["a"], SECRET)).await;
    let mut client = served.connect().await;
    let id = session(&mut client).await;
    for (request, allowed) in [
        (get(&id).replace("Mcp-Session-Id", "X"), "POST, DELETE, OPTIONS"),
        (get(&id).replace("2025-11-25", NEWEST), "POST, OPTIONS"),
        (get(&id).replacen("GET", "DELETE", 1).replace("2025-11-25", NEWEST), "POST, OPTIONS"),
    ] {
        client.write(request).await;
        let response = client.read(false).await;
        assert_eq!((response.status, response.header("allow").unwrap().as_str()), (405, allowed));
    }
    for unknown in [get(&id), get(&id).replacen("GET", "DELETE", 1)] {
        client.write(unknown.replace("2025-11-25", "2099-01-01")).await;
        let response = client.read(false).await;
        assert!(response.status == 400 && response.text().contains("2099-01-01"), "{response:?}");
    }
    let (content, header) = ping(&id);
    assert_eq!(send(&mut client, "2025-11-25", content, &header).await.status, 200, "it has not ended");
}

#[tokio::test]
async fn a_stream_is_opened_unless_the_client_excludes_it() {
    let served = Loaded::start(&tools(&["a"], SECRET)).await;
    let id = session(&mut served.connect().await).await;
    let accepting = |accept: &str| get(&id).replace("Accept: text/event-stream\r\n", accept);
    for accept in ["Accept: application/json\r\n", "Accept: */*, text/event-stream;q=0\r\n"] {
        let response = open(&served, accepting(accept)).await.read(false).await;
        assert!(response.status == 406 && response.text().contains("text/event-stream"), "{response:?}");
    }
    for accept in ["Accept: application/json, text/event-stream\r\n", "Accept: */*\r\n", ""] {
        let head = open(&served, accepting(accept)).await.read_until(": open").await;
        assert!(head.contains("content-type: text/event-stream"), "{head}");
    }
}

#[tokio::test]
async fn a_batch_is_answered_as_one() {
    let served = Loaded::start(&tools(&["a"], "")).await;
    let mut client = served.connect().await;
    let ping = |id: Value| json!({ "jsonrpc": "2.0", "id": id, "method": "ping" });
    let notification = json!({ "jsonrpc": "2.0", "method": "notifications/initialized" });
    let unknown = json!({ "jsonrpc": "2.0", "id": 3, "method": "no/such" });
    let initialize = json!({ "jsonrpc": "2.0", "id": 4, "method": "initialize", "params": {} });
    let batch =
        json!([ping(json!("a")), notification, unknown, 7, initialize, [ping(json!(9))], ping(json!(2))]);
    let response = send(&mut client, "2025-03-26", batch, "").await;
    let responses = response.json();
    let codes: Vec<(Value, Value)> = responses
        .as_array()
        .unwrap()
        .iter()
        .map(|response| (response["id"].clone(), response["error"]["code"].clone()))
        .collect();
    let expected = [
        (json!("a"), Value::Null),
        (json!(3), json!(-32601)),
        (Value::Null, json!(-32600)),
        (json!(4), json!(-32600)),
        (Value::Null, json!(-32600)),
        (json!(2), Value::Null),
    ];
    assert_eq!((response.status, codes.as_slice()), (200, expected.as_slice()));
    let response = send(&mut client, "2025-03-26", json!([notification, notification]), "").await;
    assert_eq!((response.status, response.body.len()), (202, 0));
    for (batch, code) in [(json!([]), -32600), (json!(vec![ping(json!(1)); 101]), -32600)] {
        let response = send(&mut client, "2025-03-26", batch, "").await;
        assert_eq!((response.status, &response.json()["error"]["code"]), (400, &code.into()));
    }
    for version in ["2024-11-05", "2025-06-18", "2025-11-25"] {
        let response = send(&mut client, version, json!([ping(json!(1))]), "").await;
        assert!(
            response.status == 400 && response.text().contains("only revision 2025-03-26 has batches"),
            "{response:?}"
        );
    }
    let unsaid = message("2025-03-26", json!([ping(json!(1))]), "").replace("MCP-Protocol-Version", "X");
    client.write(unsaid).await;
    assert_eq!(client.read(false).await.json()[0]["result"], json!({}));
}
