//! Clients of revision 2026-07-28: every request declares its own revision.

use std::time::Duration;

use glossator::inbound::{
    filter::FilterSettings,
    mcp::{McpApiSettings, McpServerSettings},
};
use http::StatusCode;
use serde_json::{Value, json};

use super::{Endpoint, NEWEST, OLDER, Post};

const SERVER_INFO: &str = "io.modelcontextprotocol/serverInfo";
const VERSION: &str = "io.modelcontextprotocol/protocolVersion";
const CAPABILITIES: &str = "io.modelcontextprotocol/clientCapabilities";

#[tokio::test]
async fn discovery_lists_versions_capabilities_and_their_ttl() {
    let server = McpServerSettings {
        name: "weather".into(),
        instructions: Some("Ask for a city.".into()),
        list_ttl: Duration::from_millis(1500),
        ..McpServerSettings::default()
    };
    let settings = McpApiSettings { server, ..McpApiSettings::default() };
    let endpoint = Endpoint::with(settings, FilterSettings::default());
    let result = endpoint.send(Post::per_request("server/discover", json!({}))).await.result();
    let versions: Vec<&str> = [NEWEST].into_iter().chain(OLDER.into_iter().rev()).collect();
    let expected = json!({
        "resultType": "complete",
        "supportedVersions": versions,
        "capabilities": { "logging": {}, "tools": { "listChanged": true } },
        "instructions": "Ask for a city.",
        "ttlMs": 1500,
        "cacheScope": "public",
        "_meta": { SERVER_INFO: { "name": "weather", "version": env!("CARGO_PKG_VERSION") } },
    });
    assert_eq!(result, expected);
}

#[tokio::test]
async fn every_result_has_its_type_and_the_server_info() {
    let endpoint = Endpoint::new();
    let call = |tool: &str| Post::per_request("tools/call", json!({ "name": tool }));
    for post in [
        Post::per_request("server/discover", json!({})),
        Post::per_request("tools/list", json!({})),
        call("text"),
        call("down"),
        call("echo"),
    ] {
        let result = endpoint.send(post).await.result();
        assert_eq!(result["resultType"], "complete", "{result}");
        assert_eq!(result["_meta"][SERVER_INFO]["name"], "glossator", "{result}");
    }
    let list = endpoint.send(Post::per_request("tools/list", json!({}))).await.result();
    assert_eq!((&list["ttlMs"], &list["cacheScope"]), (&json!(60_000), &json!("public")));
}

#[tokio::test]
async fn a_route_may_give_newer_clients_the_bare_value() {
    let endpoint = Endpoint::new();
    let list = endpoint.send(Post::per_request("tools/list", json!({}))).await.result();
    let schema_type = |name: &str| {
        let tools = list["tools"].as_array().unwrap();
        tools.iter().find(|tool| tool["name"] == name).unwrap()["outputSchema"]["type"].clone()
    };
    assert_eq!((schema_type("array"), schema_type("bare")), (json!("object"), json!("array")));
    for (tool, expected) in [("array", r#"{"result":[1,2.50]}"#), ("bare", "[1,2.50]")] {
        let result = endpoint.send(Post::per_request("tools/call", json!({ "name": tool }))).await.result();
        assert_eq!(result["structuredContent"].to_string(), expected);
    }
}

#[track_caller]
fn check(response: &super::Response, expected: (u16, i64), words: &str) {
    assert_eq!(response.error(), expected, "{response:?}");
    let json = response.json();
    assert_eq!(json["id"], 1, "{json}");
    assert!(json["error"]["message"].as_str().unwrap().contains(words), "{json}");
}

#[tokio::test]
async fn missing_parts_of_a_request_are_errors() {
    let endpoint = Endpoint::new();
    let discover = || Post::per_request("server/discover", json!({}));
    let body = |params: Value| {
        json!({ "jsonrpc": "2.0", "id": 1, "method": "server/discover", "params": params }).to_string()
    };
    for (params, words) in [
        (json!({}), VERSION),
        (json!(null), VERSION),
        (json!({ "_meta": {} }), VERSION),
        (json!({ "_meta": { CAPABILITIES: {} } }), VERSION),
        (json!({ "_meta": { VERSION: NEWEST } }), CAPABILITIES),
        (json!({ "_meta": { VERSION: NEWEST, CAPABILITIES: null } }), CAPABILITIES),
        (json!({ "_meta": { VERSION: 7, CAPABILITIES: {} } }), VERSION),
        (json!({ "_meta": [] }), "_meta"),
    ] {
        let response = endpoint.send(discover().body(body(params))).await;
        check(&response, (400, -32602), words);
    }
    let bare = discover().body(body(json!({}))).without("mcp-protocol-version");
    check(&endpoint.send(bare).await, (400, -32602), VERSION);
    let list = Post::handshake("tools/list", json!({})).header("mcp-protocol-version", NEWEST);
    check(&endpoint.send(list).await, (400, -32602), VERSION);
}

#[tokio::test]
async fn an_unknown_log_level_is_an_error_of_every_method() {
    let endpoint = Endpoint::new();
    for level in [json!("loud"), json!(7), json!(null)] {
        let meta = json!({ "io.modelcontextprotocol/logLevel": level });
        for method in ["server/discover", "tools/list", "tools/call", "subscriptions/listen"] {
            let params = json!({ "_meta": meta, "name": "text", "notifications": {} });
            check(&endpoint.send(Post::per_request(method, params)).await, (400, -32602), "logLevel");
        }
        let unknown = Post::per_request("no/such", json!({ "_meta": meta }));
        check(&endpoint.send(unknown).await, (404, -32601), "no/such");
    }
}

#[tokio::test]
async fn an_unsupported_version_is_an_error_with_the_supported_ones() {
    let endpoint = Endpoint::new();
    let post = Post::per_request("server/discover", json!({}))
        .replace(NEWEST, "v999.0.0")
        .header("mcp-protocol-version", "v999.0.0");
    let only_header = Post::handshake("tools/list", json!({})).header("mcp-protocol-version", "v999.0.0");
    for post in [post, only_header] {
        let response = endpoint.send(post).await;
        check(&response, (400, -32022), "v999.0.0");
        let data = response.json()["error"]["data"].clone();
        assert_eq!(data["requested"], "v999.0.0");
        assert_eq!(data["supported"].as_array().unwrap().len(), 5);
    }
}

#[tokio::test]
async fn header_and_body_must_agree() {
    let endpoint = Endpoint::new();
    let call = || Post::per_request("tools/call", json!({ "name": "text" }));
    let list = || Post::per_request("tools/list", json!({}));
    for (post, words) in [
        (list().header("mcp-protocol-version", "2025-11-25"), "MCP-Protocol-Version"),
        (list().replace(NEWEST, "v999.0.0"), "MCP-Protocol-Version"),
        (list().without("mcp-protocol-version"), "MCP-Protocol-Version"),
        (list().another("mcp-protocol-version", "2025-11-25"), "twice"),
        (list().header("mcp-method", "prompts/list"), "prompts/list"),
        (list().header("mcp-method", "TOOLS/LIST"), "TOOLS/LIST"),
        (list().without("mcp-method"), "Mcp-Method"),
        (list().another("mcp-method", "tools/call"), "twice"),
        (call().header("mcp-name", "echo"), "`echo`"),
        (call().header("mcp-name", "=?base64?ZWNobw==?="), "base64"),
        (call().header("mcp-name", "=?base64?dGV4dA?="), "Base64"),
        (call().header("mcp-name", "caf\u{e9}"), "encoded"),
        (call().without("mcp-name"), "Mcp-Name"),
    ] {
        check(&endpoint.send(post).await, (400, -32020), words);
    }
    for post in [
        call().header("mcp-name", "  text  "),
        call().header("mcp-name", "=?base64?dGV4dA==?="),
        call().another("mcp-name", "text"),
        list().header("MCP-METHOD", "tools/list"),
    ] {
        endpoint.send(post).await.result();
    }
}

#[tokio::test]
async fn marked_arguments_must_be_repeated_in_headers() {
    let endpoint = Endpoint::new();
    let call = |city: Value| {
        Post::per_request("tools/call", json!({ "name": "marked", "arguments": { "city": city } }))
    };
    let result = endpoint.send(call("Oslo".into()).header("mcp-param-city", "Oslo")).await.result();
    assert_eq!(result["isError"], false);
    check(&endpoint.send(call("Oslo".into())).await, (400, -32020), "Mcp-Param-City");
    check(
        &endpoint.send(call("Oslo".into()).header("mcp-param-city", "Bergen")).await,
        (400, -32020),
        "Bergen",
    );
    // Without the argument there is nothing to mirror in a header, and the input schema reports it.
    assert_eq!(endpoint.send(call(Value::Null)).await.result()["isError"], true);
    // Legacy revisions do not have this check.
    let older = Post::handshake("tools/call", json!({ "name": "marked", "arguments": { "city": "Oslo" } }));
    assert_eq!(endpoint.send(older).await.result()["isError"], false);
}

#[tokio::test]
async fn methods_of_the_other_lifecycle_are_not_found() {
    let endpoint = Endpoint::new();
    for method in [
        "initialize",
        "ping",
        "logging/setLevel",
        "resources/subscribe",
        "prompts/list",
        "resources/list",
        "unknown/method",
    ] {
        let response = endpoint.send(Post::per_request(method, json!({ "protocolVersion": NEWEST }))).await;
        check(&response, (404, -32601), method);
    }
}

#[tokio::test]
async fn a_valid_request_without_a_result_is_an_error_with_200() {
    let endpoint = Endpoint::new();
    let unknown = Post::per_request("tools/call", json!({ "name": "nobody" }));
    check(&endpoint.send(unknown).await, (200, -32602), "nobody");
    let cursor = Post::per_request("tools/list", json!({ "cursor": "nowhere" }));
    check(&endpoint.send(cursor).await, (200, -32602), "cursor");
    // Malformed parameters have status 400 in this revision.
    let array = Post::per_request("tools/call", json!({ "name": "text", "arguments": [] }));
    check(&endpoint.send(array).await, (400, -32602), "arguments");
    let nameless = Post::per_request("tools/call", json!({}));
    check(&endpoint.send(nameless).await, (400, -32602), "name");
}

#[tokio::test]
async fn notifications_need_no_headers_of_their_own() {
    let endpoint = Endpoint::new();
    let body = json!({ "jsonrpc": "2.0", "method": "notifications/cancelled" }).to_string();
    let post = Post::handshake("", json!({})).header("mcp-protocol-version", NEWEST).body(body);
    assert_eq!(endpoint.send(post.clone()).await.status, StatusCode::ACCEPTED);
    let right = post.clone().header("mcp-method", "notifications/cancelled");
    assert_eq!(endpoint.send(right).await.status, StatusCode::ACCEPTED);
    // A proxy that decides by the header must not be misled by it.
    for wrong in
        [post.clone().header("mcp-method", "tools/call"), post.clone().header("mcp-method", "caf\u{e9}")]
    {
        assert_eq!(endpoint.send(wrong).await.error(), (400, -32020));
    }
    // Legacy revisions do not have this check.
    let older = post.header("mcp-protocol-version", "2025-11-25").header("mcp-method", "tools/call");
    assert_eq!(endpoint.send(older).await.status, StatusCode::ACCEPTED);
}
