//! Clients that open with `initialize`: revisions 2024-11-05 to 2025-11-25.

use glossator::inbound::{
    filter::FilterSettings,
    mcp::{McpApiSettings, McpServerSettings},
};
use http::StatusCode;
use serde_json::{Value, json};

use super::{Endpoint, NEWEST, OLDER, Post};

fn initialize(version: &str) -> Post {
    let client = json!({ "name": "test", "version": "1" });
    let params = json!({ "protocolVersion": version, "capabilities": {}, "clientInfo": client });
    Post::handshake("initialize", params).without("mcp-protocol-version")
}

#[tokio::test]
async fn legacy_revisions_are_negotiated() {
    let server = McpServerSettings {
        name: "weather".into(),
        title: Some("Weather".into()),
        instructions: Some("Ask for a city.".into()),
        ..McpServerSettings::default()
    };
    let settings = McpApiSettings { server, ..McpApiSettings::default() };
    let endpoint = Endpoint::with(settings, FilterSettings::default());
    for version in OLDER {
        let result = endpoint.send(initialize(version)).await.result();
        let expected = json!({
            "protocolVersion": version,
            "capabilities": { "logging": {}, "tools": { "listChanged": true } },
            "serverInfo": { "name": "weather", "title": "Weather", "version": env!("CARGO_PKG_VERSION") },
            "instructions": "Ask for a city.",
        });
        assert_eq!(result, expected);
    }
    for version in [NEWEST, "2099-01-01", "1"] {
        assert_eq!(endpoint.send(initialize(version)).await.result()["protocolVersion"], "2025-11-25");
    }
}

#[tokio::test]
async fn a_sloppy_initialize_is_answered_all_the_same() {
    let endpoint = Endpoint::new();
    for params in [
        json!({ "protocolVersion": "2025-06-18" }),
        json!({ "protocolVersion": "2025-06-18", "capabilities": { "elicitation": true }, "clientInfo": null }),
    ] {
        let post = Post::handshake("initialize", params).header("mcp-protocol-version", "2024-11-05");
        assert_eq!(endpoint.send(post).await.result()["protocolVersion"], "2025-06-18");
    }
    let nothing = endpoint.send(Post::handshake("initialize", json!({}))).await;
    assert_eq!(nothing.error(), (200, -32602));
}

#[tokio::test]
async fn an_initialize_with_the_header_of_an_unknown_revision_is_rejected() {
    let endpoint = Endpoint::new();
    for version in ["2099-01-01", "x"] {
        let unknown = initialize("2025-11-25").header("mcp-protocol-version", version);
        let rejected = endpoint.send(unknown).await;
        assert_eq!(rejected.error(), (400, -32022));
        assert_eq!(rejected.json()["error"]["data"]["requested"], version);
    }
}

#[tokio::test]
async fn initialize_gives_a_session_id_that_no_request_needs() {
    let endpoint = Endpoint::new();
    let mut ids = Vec::new();
    for _ in 0..2 {
        let response = endpoint.send(initialize("2025-11-25")).await;
        let id = response.header("mcp-session-id").unwrap().to_owned();
        assert!(id.len() >= 32 && id.bytes().all(|byte| byte.is_ascii_graphic()), "{id}");
        ids.push(id);
    }
    assert_ne!(ids[0], ids[1]);
    for id in [ids[0].as_str(), "one of another replica"] {
        let post = Post::handshake("tools/list", json!({})).header("mcp-session-id", id);
        let response = endpoint.send(post).await;
        assert!(response.result()["tools"].is_array());
        assert_eq!(response.header("mcp-session-id"), None);
    }
}

#[tokio::test]
async fn notifications_get_202() {
    let endpoint = Endpoint::new();
    for method in ["notifications/initialized", "notifications/cancelled", "notifications/of_tomorrow"] {
        let body = json!({ "jsonrpc": "2.0", "method": method }).to_string();
        let response = endpoint.send(Post::handshake("", json!({})).body(body)).await;
        assert_eq!((response.status, response.body.len()), (StatusCode::ACCEPTED, 0));
    }
}

#[tokio::test]
async fn a_revision_is_read_from_the_optional_header() {
    let endpoint = Endpoint::new();
    for version in OLDER {
        let post = Post::handshake("ping", json!({})).header("mcp-protocol-version", version);
        assert_eq!(endpoint.send(post).await.result(), json!({}));
    }
    let unsaid = Post::handshake("ping", json!({})).without("mcp-protocol-version");
    assert_eq!(endpoint.send(unsaid).await.text(), r#"{"jsonrpc":"2.0","id":1,"result":{}}"#);
    let unknown = Post::handshake("ping", json!({})).header("mcp-protocol-version", "2024-10-07");
    assert_eq!(endpoint.send(unknown).await.error(), (400, -32022));
    let notification = json!({ "jsonrpc": "2.0", "method": "notifications/initialized" }).to_string();
    let unknown = Post::handshake("", json!({})).header("mcp-protocol-version", "x").body(notification);
    assert_eq!(endpoint.send(unknown).await.error(), (400, -32022));
}

#[tokio::test]
async fn without_the_header_a_session_has_the_revision_that_it_negotiated() {
    let endpoint = Endpoint::new();
    for version in OLDER {
        let opened = endpoint.send(initialize(version)).await;
        let session = opened.header("mcp-session-id").unwrap();
        let post = |method: &str| {
            let post = Post::handshake(method, json!({})).header("mcp-session-id", session);
            post.without("mcp-protocol-version")
        };
        // The error names the revision.
        let unknown = endpoint.send(post("no/such")).await;
        assert!(unknown.text().contains(version), "{unknown:?}");
        let batch = endpoint.send(post("ping").body(r#"[{"jsonrpc":"2.0","id":1,"method":"ping"}]"#)).await;
        assert_eq!(batch.status == StatusCode::OK, version == "2025-03-26", "{batch:?}");
        // A header precedes the session.
        let other = endpoint.send(post("no/such").header("mcp-protocol-version", "2025-03-26")).await;
        assert!(other.text().contains("2025-03-26"), "{other:?}");
    }
    for session in ["unknown", ""] {
        let post = Post::handshake("no/such", json!({})).without("mcp-protocol-version");
        let unknown = endpoint.send(post.header("mcp-session-id", session)).await;
        assert!(unknown.text().contains("2025-03-26"), "{unknown:?}");
    }
}

#[tokio::test]
async fn protocol_errors_go_out_with_200_or_old_clients_would_lose_them() {
    let endpoint = Endpoint::new();
    let call = |params: Value| Post::handshake("tools/call", params);
    for (post, code) in [
        (call(json!({ "name": "nobody" })), -32602),
        (call(json!({})), -32602),
        (call(json!({ "name": 7 })), -32602),
        (call(json!({ "name": "echo", "arguments": ["oslo"] })), -32602),
        (call(json!({ "name": "echo", "arguments": "oslo" })), -32602),
        (Post::handshake("tools/list", json!({ "cursor": "nowhere" })), -32602),
        (Post::handshake("tools/list", json!({ "cursor": 7 })), -32602),
        (Post::handshake("tools/list", json!([])), -32602),
        (Post::handshake("no/such", json!({})), -32601),
        (Post::handshake("prompts/list", json!({})), -32601),
        (Post::handshake("resources/list", json!({})), -32601),
        (Post::handshake("resources/templates/list", json!({})), -32601),
        (Post::handshake("completion/complete", json!({})), -32601),
        (Post::handshake("logging/setLevel", json!({ "level": "loud" })), -32602),
    ] {
        let response = endpoint.send(post).await;
        assert_eq!(response.error(), (200, code), "{response:?}");
        assert_eq!(response.json()["id"], 1);
    }
}

#[tokio::test]
async fn the_list_is_walked_page_by_page() {
    let server = McpServerSettings { page_size: 4, ..McpServerSettings::default() };
    let settings = McpApiSettings { server, ..McpApiSettings::default() };
    let endpoint = Endpoint::with(settings, FilterSettings::default());
    let (mut names, mut pages, mut cursor) = (Vec::new(), 0, None);
    loop {
        let params = cursor.map_or_else(|| json!({}), |cursor: String| json!({ "cursor": cursor }));
        let result = endpoint.send(Post::handshake("tools/list", params)).await.result();
        let page = result["tools"].as_array().unwrap();
        names.extend(page.iter().map(|tool| tool["name"].as_str().unwrap().to_owned()));
        pages += 1;
        assert!(result.get("ttlMs").is_none() && result.get("resultType").is_none(), "{result}");
        match result.get("nextCursor") {
            Some(next) => cursor = Some(next.as_str().unwrap().to_owned()),
            None => break,
        }
    }
    assert_eq!(pages, 3);
    assert_eq!(names, ["array", "bare", "down", "echo", "marked", "none", "pretty", "silent", "text"]);
}

#[tokio::test]
async fn schemas_and_structures_are_objects_for_older_clients() {
    let endpoint = Endpoint::new();
    let list = endpoint.send(Post::handshake("tools/list", json!({ "cursor": null }))).await.result();
    for tool in list["tools"].as_array().unwrap() {
        assert_eq!(tool["inputSchema"]["type"], "object");
        if let Some(schema) = tool.get("outputSchema") {
            assert_eq!(schema["type"], "object", "{tool}");
        }
        assert_eq!(tool["annotations"].to_string(), r#"{"readOnlyHint":true,"x-extra":1.5}"#);
    }
    for tool in ["array", "bare"] {
        let result = endpoint.call(tool, json!({})).await;
        assert_eq!(result["structuredContent"].to_string(), r#"{"result":[1,2.50]}"#);
        assert_eq!(result["content"][0]["text"], r#"{"result":[1, 2.50]}"#);
        assert!(result.get("_meta").is_none(), "{result}");
    }
}

#[tokio::test]
async fn a_response_is_forwarded_byte_for_byte() {
    let endpoint = Endpoint::new();
    let post = Post::handshake("tools/call", json!({ "name": "echo", "arguments": { "city": "Oslo" } }));
    let response = endpoint.send(post).await;
    assert_eq!(
        response.text(),
        concat!(
            r#"{"jsonrpc":"2.0","id":1,"result":{"content":[{"type":"text","text":"#,
            r#""{\"z\":\"Oslo\",\"n\":1.0,\"big\":12345678901234567890,\"a\":0.10}"}],"#,
            r#""structuredContent":{"z":"Oslo","n":1.0,"big":12345678901234567890,"a":0.10},"isError":false}}"#,
        )
    );
}

#[tokio::test]
async fn errors_that_a_model_can_act_on_are_tool_errors() {
    let endpoint = Endpoint::new();
    for (tool, arguments, expected) in [
        ("echo", json!({}), "city"),
        ("echo", json!({ "city": 7 }), "city"),
        ("none", json!({}), "no such city"),
        ("down", json!({}), ""),
    ] {
        let result = endpoint.call(tool, arguments).await;
        assert_eq!(result["isError"], true, "{result}");
        let text = result["content"][0]["text"].as_str().unwrap();
        assert!(text.contains(expected), "{text}");
        assert!(result.get("structuredContent").is_none(), "{result}");
        assert!(!result.to_string().contains("hunter2"), "{result}");
        assert!(result["_meta"]["glossator/requestId"].is_string(), "{result}");
    }
    let no_arguments = Post::handshake("tools/call", json!({ "name": "text" }));
    assert_eq!(endpoint.send(no_arguments).await.result()["isError"], false);
}
