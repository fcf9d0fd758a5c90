//! Seed 004: REST endpoints beside JSON-RPC, on one port.

use serde_json::{Value, json};

use super::{REVISIONS, Seed, body, path};
use crate::support::{Response, Scripted, Step, response};

async fn workshop() -> Seed {
    let upstream = Scripted::start(|request| {
        let json = match (request.line().split(' ').next().unwrap(), path(request)) {
            ("POST", "/weather") => match body(request)["location"].as_str() {
                Some("Oslo") => json!({ "temperature": 5, "conditions": "Cloudy" }),
                _ => json!({ "error": "Location not found" }),
            },
            ("POST", "/ping") => json!({ "pong": true }),
            ("GET", "/status") => json!({ "status": "running", "tools": ["weather", "ping"] }),
            _ => {
                return vec![Step::Send(response(
                    "404 Not Found",
                    "application/json",
                    r#"{"detail": "Not Found"}"#,
                ))];
            }
        };
        vec![Step::Send(response("200 OK", "application/json", &json.to_string()))]
    })
    .await;
    Seed::start("weather-rest", upstream).await
}

/// Calls a tool as the workshop's agent does: it reads the manifest, and sends the request described there.
async fn agent_calls(seed: &Seed, tool: &str, arguments: Value) -> Response {
    let manifest = seed.get("/tools").await.json();
    let tools = manifest.as_array().expect("the agent goes over a list");
    let found = tools.iter().find(|found| found["name"] == tool).expect("the tool is in the manifest");
    let endpoint = found["endpoint"].as_str().unwrap();
    if found["method"] == "POST" {
        seed.post(endpoint, &arguments.to_string()).await
    } else {
        seed.get(endpoint).await
    }
}

#[tokio::test]
async fn the_manifest_is_a_list_of_definitions_with_endpoint_and_method() {
    let seed = workshop().await;
    let manifest = seed.get("/tools").await.json();
    let places: Vec<_> = manifest
        .as_array()
        .unwrap()
        .iter()
        .map(|tool| ["name", "endpoint", "method"].map(|key| tool[key].as_str().unwrap()))
        .collect();
    let expected = [
        ["get_weather_forecast", "/weather", "POST"],
        ["ping", "/ping", "POST"],
        ["status", "/status", "GET"],
    ];
    assert_eq!(places, expected);
    let weather = &manifest[0];
    assert_eq!(weather["title"], "Get Weather Forecast");
    assert_eq!(weather["inputSchema"]["required"], json!(["location"]));
    assert_eq!(weather["outputSchema"]["properties"]["temperature"]["type"], "number");
    assert!(weather["description"].is_string());
}

#[tokio::test]
async fn every_endpoint_gives_a_tool_result() {
    let seed = workshop().await;
    for (tool, arguments, expected) in [
        (
            "get_weather_forecast",
            json!({ "location": "Oslo" }),
            json!({ "temperature": 5, "conditions": "Cloudy" }),
        ),
        ("ping", json!({}), json!({ "pong": true })),
        ("status", json!({}), json!({ "status": "running", "tools": ["weather", "ping"] })),
    ] {
        let response = agent_calls(&seed, tool, arguments.clone()).await;
        let result = response.json();
        assert_eq!((response.status, &result["isError"]), (200, &json!(false)), "{tool}");
        assert_eq!(result["structuredContent"], expected);
        assert_eq!(result["content"][0]["type"], "text");
        let over_mcp = seed.call(tool, arguments).await;
        for part in ["content", "structuredContent", "isError"] {
            assert_eq!(result[part], over_mcp[part], "{part} of {tool}");
        }
    }
    let missing = agent_calls(&seed, "get_weather_forecast", json!({ "location": "Atlantis" })).await;
    assert_eq!((missing.status, missing.tool_text()), (400, "Location not found".to_owned()));
    let unfit = seed.post("/weather", r#"{"city": "Oslo"}"#).await;
    assert_eq!((unfit.status, &unfit.json()["isError"]), (400, &json!(true)));
    assert_eq!(seed.get("/health").await.json()["status"], "ok");
}

#[tokio::test]
async fn json_rpc_is_at_message_on_the_same_port() {
    let seed = workshop().await;
    // As the document's own `curl` does: no handshake, and no header but the type.
    let send = async |message: Value| {
        let headers = ["Content-Type: application/json", "Accept: */*", "User-Agent: curl/8.5.0"];
        let response = seed.connect().await.send("POST /message", &headers, &message.to_string()).await;
        assert_eq!(response.status, 200, "{}", response.text());
        response.json()
    };
    let list = send(json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/list" })).await;
    let names: Vec<_> = list["result"]["tools"]
        .as_array()
        .unwrap()
        .iter()
        .map(|tool| tool["name"].as_str().unwrap())
        .collect();
    assert_eq!((&list["id"], names), (&json!(1), vec!["get_weather_forecast", "ping", "status"]));
    let call = send(json!({ "jsonrpc": "2.0", "id": 2, "method": "tools/call",
        "params": { "name": "get_weather_forecast", "arguments": { "location": "Oslo" } } }))
    .await;
    assert_eq!((&call["jsonrpc"], &call["id"]), (&json!("2.0"), &json!(2)));
    assert_eq!(call["result"]["structuredContent"], json!({ "temperature": 5, "conditions": "Cloudy" }));
    assert_eq!(call["result"]["isError"], false);
    let unknown = send(json!({ "jsonrpc": "2.0", "id": 3, "method": "tools/forget" })).await;
    assert_eq!(unknown["error"]["code"], -32601);
    for revision in REVISIONS {
        assert_eq!(seed.tools(revision).await.len(), 3);
    }
    assert_eq!(seed.upstream.state().requests.len(), 1);
}
