//! Comparison with the SDK's own server (`rmcp`) over the same gateway: both receive the same requests. Equal
//! responses are asserted, and so are those in which the SDK is known to be wrong or too strict. When a later
//! release fixes one, its test fails and the line is removed.

#![expect(deprecated, reason = "log levels are deprecated, and offered")]

use std::sync::Arc;

use glossator::{
    model::{StructuredContentSupport, write_result},
    pipeline::{ApiKind, Call, Gateway},
    telemetry::RequestId,
    upstream::ClientIdentity,
};
use http::{HeaderMap, request::Parts};
use rmcp::{
    ErrorData, RoleServer, ServerHandler,
    model::{
        CacheScope, CallToolRequestParams, CallToolResponse, CallToolResult, DiscoverResult, Implementation,
        ListToolsResult, PaginatedRequestParams, ProtocolVersion, ResultType, ServerCapabilities,
        ServerConfig, SetLevelRequestParams, Tool, ToolsCapability,
    },
    service::RequestContext,
    transport::streamable_http_server::{
        StreamableHttpServerConfig, StreamableHttpService, session::never::NeverSessionManager,
    },
};
use serde_json::{Value, json};

use super::{Endpoint, NEWEST, OLDER, Post, Response};

#[derive(Clone)]
struct Sdk(Gateway);

fn structured_content_support(context: &RequestContext<RoleServer>) -> StructuredContentSupport {
    match context.protocol_version() {
        Some(version) if version == ProtocolVersion::V_2026_07_28 => StructuredContentSupport::Any,
        _ => StructuredContentSupport::ObjectsOnly,
    }
}

impl ServerHandler for Sdk {
    fn get_info(&self) -> ServerConfig {
        let mut capabilities = ServerCapabilities::default();
        let mut tools = ToolsCapability::default();
        tools.list_changed = Some(true);
        capabilities.tools = Some(tools);
        capabilities.logging = Some(serde_json::Map::new());
        ServerConfig::new(capabilities)
            .with_server_info(Implementation::new("glossator", env!("CARGO_PKG_VERSION")))
    }

    async fn discover(&self, _: RequestContext<RoleServer>) -> Result<DiscoverResult, ErrorData> {
        let versions = self.supported_protocol_versions().into_owned();
        let result = DiscoverResult::from_server_info(versions, self.get_info());
        Ok(result.with_ttl_ms(60_000).with_cache_scope(CacheScope::Public))
    }

    async fn set_level(
        &self,
        _: SetLevelRequestParams,
        _: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        Ok(())
    }

    async fn list_tools(
        &self,
        request: Option<PaginatedRequestParams>,
        context: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        let snapshot = self.0.snapshot();
        let cursor = request.and_then(|request| request.cursor);
        let page = snapshot.lists.tools.page(cursor.as_deref(), 200, &ClientIdentity::Local);
        let page = page.ok_or_else(|| ErrorData::invalid_params("unknown cursor", None))?;
        let tools = page
            .entries
            .iter()
            .map(|tool| serde_json::from_str(tool.json(structured_content_support(&context)).get()).unwrap());
        let mut result = ListToolsResult::with_all_items(tools.collect());
        result.next_cursor = page.next_cursor;
        Ok(match structured_content_support(&context) {
            StructuredContentSupport::ObjectsOnly => result,
            StructuredContentSupport::Any => result.with_ttl_ms(60_000).with_cache_scope(CacheScope::Public),
        })
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let headers =
            context.extensions.get::<Parts>().map_or_else(HeaderMap::new, |parts| parts.headers.clone());
        let snapshot = self.0.snapshot();
        let Some(route) = snapshot.table.by_tool(&request.name) else {
            return Err(ErrorData::invalid_params(format!("unknown tool `{}`", request.name), None));
        };
        let arguments = request.arguments.unwrap_or_default();
        let call = Call::new(
            arguments,
            &headers,
            RequestId::from_headers(&headers),
            ApiKind::Mcp,
            ClientIdentity::Local,
        );
        let result = snapshot.call(route, call, None).await;
        let mut json = Vec::new();
        write_result(&result, structured_content_support(&context), &mut json);
        let mut result: CallToolResult = serde_json::from_slice(&json).unwrap();
        result.result_type = Some(ResultType::COMPLETE);
        Ok(CallToolResponse::Complete(result))
    }

    fn get_tool(&self, name: &str) -> Option<Tool> {
        let snapshot = self.0.snapshot();
        let tool = snapshot.lists.tools.seen_by(&ClientIdentity::Local).find(|tool| tool.key == name)?;
        serde_json::from_str(tool.json(StructuredContentSupport::Any).get()).ok()
    }
}

struct Both {
    ours: Endpoint,
    sdk: StreamableHttpService<Sdk, NeverSessionManager>,
}

impl Both {
    fn new() -> Self {
        let ours = Endpoint::new();
        let sdk = Sdk(ours.gateway.clone());
        let config =
            StreamableHttpServerConfig::default().with_legacy_session_mode(false).with_json_response(true);
        let sessions = Arc::new(NeverSessionManager::default());
        Self { ours, sdk: StreamableHttpService::new(move || Ok(sdk.clone()), sessions, config) }
    }

    async fn send(&self, post: Post) -> (Response, Response) {
        let ours = self.ours.send(post.clone()).await;
        (ours, Response::read(self.sdk.handle(post.request()).await).await)
    }
}

impl Both {
    async fn check_alike(&self, posts: Vec<Post>) {
        let mut different = Vec::new();
        for post in posts {
            let (ours, sdk) = self.send(post.clone()).await;
            let (mut ours, mut sdk) = (gist(&ours), gist(&sdk));
            if sdk.1 == Value::Null {
                // The SDK rejects requests in plain text.
                (ours.1, sdk.1) = (Value::Null, Value::Null);
            }
            let is = |found: &(u16, Value), code: i64| found.0 == 400 && found.1["error"]["code"] == code;
            let two_are_due = is(&ours, -32602) && is(&sdk, -32020);
            if ours != sdk && !two_are_due {
                let sent = (post.headers, String::from_utf8(post.body).unwrap());
                different.push(format!("sent {sent:?}\nours {ours:?}\nsdk  {sdk:?}"));
            }
        }
        assert!(different.is_empty(), "{}", different.join("\n\n"));
    }
}

/// Response without legitimate differences: error text, request id, and the server's name, which the SDK
/// sends with `server/discover` only.
fn gist(response: &Response) -> (u16, Value) {
    let mut json: Value = serde_json::from_slice(&response.body).unwrap_or(Value::Null);
    if let Some(error) = json.get_mut("error") {
        *error = json!({ "code": error["code"] });
    }
    if let Some(Value::Object(meta)) = json.pointer_mut("/result/_meta") {
        meta.remove("io.modelcontextprotocol/serverInfo");
        meta.remove("glossator/requestId");
    }
    if let Some(Value::Array(versions)) = json.pointer_mut("/result/supportedVersions") {
        versions.sort_by_key(|version| version.to_string());
    }
    for tool in json.pointer_mut("/result/tools").and_then(Value::as_array_mut).into_iter().flatten() {
        tool["annotations"].as_object_mut().unwrap().remove("x-extra");
    }
    if let Some(Value::Object(result)) = json.get_mut("result") {
        result.retain(|key, value| key != "_meta" || *value != json!({}));
    }
    (response.status.as_u16(), json)
}

fn initialize(params: Value) -> Post {
    Post::handshake("initialize", params).without("mcp-protocol-version")
}

#[tokio::test]
async fn both_answer_alike() {
    let both = Both::new();
    let mut posts = Vec::new();
    for (method, params) in [
        ("tools/list", json!({})),
        ("tools/list", json!({ "cursor": null })),
        ("tools/list", json!({ "cursor": "YXJyYXk" })),
        ("tools/list", json!({ "cursor": "nowhere" })),
        ("tools/call", json!({ "name": "array" })),
        ("tools/call", json!({ "name": "bare", "arguments": {} })),
        ("tools/call", json!({ "name": "bare", "arguments": null })),
        ("tools/call", json!({ "name": "down" })),
        ("tools/call", json!({ "name": "echo" })),
        ("tools/call", json!({ "name": "echo", "arguments": { "city": "Oslo" } })),
        ("tools/call", json!({ "name": "echo", "arguments": { "city": 7.50 } })),
        (
            "tools/call",
            json!({ "name": "echo", "arguments": { "city": "x" }, "_meta": { "progressToken": 7 } }),
        ),
        ("tools/call", json!({ "name": "none" })),
        ("tools/call", json!({ "name": "pretty" })),
        ("tools/call", json!({ "name": "text" })),
        ("tools/call", json!({ "name": "nobody" })),
        ("unknown/method", json!({})),
        ("unknown/method", json!({ "anything": [1] })),
        ("tasks/list", json!({})),
    ] {
        posts.extend(Post::both(method, params));
    }
    for version in OLDER.into_iter().chain([NEWEST, "2099-01-01"]) {
        let client = json!({ "name": "test", "version": "1" });
        posts.push(initialize(
            json!({ "protocolVersion": version, "capabilities": {}, "clientInfo": client }),
        ));
        if version != NEWEST {
            posts.push(Post::handshake("ping", json!({})));
        }
    }
    let discover = || Post::per_request("server/discover", json!({}));
    let list = || Post::per_request("tools/list", json!({}));
    let call = || Post::per_request("tools/call", json!({ "name": "text" }));
    let marked =
        || Post::per_request("tools/call", json!({ "name": "marked", "arguments": { "city": "Oslo" } }));
    posts.extend([
        discover(),
        Post::per_request("ping", json!({})),
        Post::handshake("ping", json!({})).replace(r#""id":1"#, r#""id":"a""#),
        Post::handshake("ping", json!({})).replace(r#""id":1"#, r#""id":9007199254740993"#),
        Post::handshake("ping", json!({})).without("mcp-protocol-version"),
        Post::handshake("ping", json!({})).body(r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#),
        Post::handshake("ping", json!({})).body(r#"{"jsonrpc":"2.0","id":1,"result":{}}"#),
        discover().replace(NEWEST, "v999.0.0").header("mcp-protocol-version", "v999.0.0"),
        list().replace(NEWEST, "v999.0.0"),
        list().without("mcp-protocol-version"),
        list().header("mcp-method", "prompts/list"),
        list().header("mcp-method", "TOOLS/LIST"),
        list().without("mcp-method"),
        call().header("mcp-name", "echo"),
        call().header("mcp-name", "=?base64?dGV4dA==?="),
        call().header("mcp-name", "=?base64?dGV4dA?="),
        call().header("mcp-name", "=?base64?dGV4"),
        call().without("mcp-name"),
        call().another("mcp-name", "echo"),
        marked(),
        marked().header("mcp-param-city", "Oslo"),
        marked().header("mcp-param-city", "oslo"),
        marked().header("mcp-param-city", "=?base64?T3Nsbw==?="),
        marked().header("mcp-param-city", "=?base64?T3Nsbw?="),
        list().replace("clientCapabilities", "clientCapability"),
        list().header("accept", "text/html"),
        list().header("content-type", "text/plain"),
        list().header("host", "evil.example.com"),
    ]);
    both.check_alike(posts).await;
}

/// Two mistakes at once. A server may report either: the SDK checks all headers before it checks what `_meta`
/// must have.
#[tokio::test]
async fn both_reject_the_same_pairs_of_mistakes() {
    let both = Both::new();
    let mistakes: [fn(Post) -> Post; 14] = [
        |post| post,
        |post| post.without("mcp-protocol-version"),
        |post| post.header("mcp-protocol-version", "2025-11-25"),
        |post| post.header("mcp-protocol-version", "v999.0.0"),
        |post| post.header("mcp-protocol-version", "caf\u{e9}"),
        |post| post.replace("2026-07-28", "v999.0.0"),
        |post| post.replace("clientCapabilities", "clientCapability"),
        |post| post.replace("/protocolVersion", "/protocolVariant"),
        |post| post.without("mcp-method"),
        |post| post.header("mcp-method", "prompts/get"),
        |post| post.without("mcp-name"),
        |post| post.header("mcp-name", "=?base64?!?="),
        |post| post.header("mcp-param-city", "Bergen"),
        |post| post.header("accept", "text/html"),
    ];
    let call = |tool: &str| {
        Post::per_request("tools/call", json!({ "name": tool, "arguments": { "city": "Oslo" } }))
    };
    let bases = [
        Post::per_request("server/discover", json!({})),
        Post::per_request("tools/list", json!({})),
        Post::per_request("no/such", json!({})),
        call("echo"),
        call("marked").header("mcp-param-city", "Oslo"),
        call("nobody"),
    ];
    let mut posts = Vec::new();
    for base in &bases {
        for (index, first) in mistakes.iter().enumerate() {
            posts.extend(mistakes[index..].iter().map(|second| second(first(base.clone()))));
        }
    }
    both.check_alike(posts).await;
}

/// Our response and the SDK's: HTTP status, and JSON-RPC code if there is one.
#[track_caller]
fn check(found: &(Response, Response), ours: (u16, Option<i64>), sdk: (u16, Option<i64>)) {
    let short = |response: &Response| {
        let code = serde_json::from_slice(&response.body)
            .ok()
            .and_then(|json: Value| json["error"]["code"].as_i64());
        (response.status.as_u16(), code)
    };
    assert_eq!((short(&found.0), short(&found.1)), (ours, sdk), "{found:#?}");
}

#[tokio::test]
async fn the_sdk_responds_415_with_plain_text_to_other_media_types() {
    let both = Both::new();
    let ping = || Post::handshake("ping", json!({}));
    check(&both.send(ping().body("nonsense")).await, (400, Some(-32700)), (415, None));
    for body in [
        r#"[{"jsonrpc":"2.0","id":1,"method":"ping"}]"#,
        r#"{"jsonrpc":"2.0","id":null,"method":"ping"}"#,
        r#"{"jsonrpc":"2.0","id":1.5,"method":"ping"}"#,
        r#"{"jsonrpc":"1.0","id":1,"method":"ping"}"#,
        r#"{"jsonrpc":"2.0","id":1,"id":2,"method":"ping"}"#,
    ] {
        check(&both.send(ping().body(body)).await, (400, Some(-32600)), (415, None));
    }
    // An integer, only a large one.
    let large = ping().replace(r#""id":1"#, r#""id":9223372036854775808"#);
    check(&both.send(large).await, (200, None), (415, None));
}

#[tokio::test]
async fn the_sdk_treats_malformed_parameters_as_an_unknown_method() {
    let both = Both::new();
    for params in [json!({ "name": "text", "arguments": [] }), json!({ "name": 7 }), json!({})] {
        let [older, newer] = Post::both("tools/call", params);
        check(&both.send(older).await, (200, Some(-32602)), (200, Some(-32601)));
        check(&both.send(newer).await, (400, Some(-32602)), (404, Some(-32601)));
    }
    // Clients that omit or misspell members which no server needs can't connect to the SDK at all.
    let no_client = initialize(json!({ "protocolVersion": "2025-06-18", "capabilities": {} }));
    check(&both.send(no_client).await, (200, None), (200, Some(-32601)));
}

#[tokio::test]
async fn the_sdk_treats_an_invalid_cursor_as_the_first_page() {
    let both = Both::new();
    for post in [Post::handshake("tools/list", json!({ "cursor": 7 }))] {
        check(&both.send(post).await, (200, Some(-32602)), (200, None));
    }
}

#[tokio::test]
async fn the_sdk_serves_methods_without_their_capability() {
    let both = Both::new();
    for method in ["prompts/list", "resources/list", "resources/templates/list"] {
        let [older, newer] = Post::both(method, json!({}));
        check(&both.send(older).await, (200, Some(-32601)), (200, None));
        check(&both.send(newer).await, (404, Some(-32601)), (200, None));
    }
}

#[tokio::test]
async fn the_sdk_sets_a_level_in_a_revision_that_has_one_with_each_request() {
    let both = Both::new();
    let [older, newer] = Post::both("logging/setLevel", json!({ "level": "info" }));
    check(&both.send(older).await, (200, None), (200, None));
    check(&both.send(newer).await, (404, Some(-32601)), (200, None));
}

#[tokio::test]
async fn the_sdk_gives_no_versions_when_only_the_header_names_an_unknown_one() {
    let both = Both::new();
    let post = Post::handshake("tools/list", json!({})).header("mcp-protocol-version", "v999.0.0");
    check(&both.send(post).await, (400, Some(-32022)), (400, None));
}

#[tokio::test]
async fn the_sdk_requires_an_exact_accept_header() {
    let both = Both::new();
    for accept in ["*/*", "application/json", "application/*, text/*", "text/event-stream"] {
        let post = Post::handshake("ping", json!({})).header("accept", accept);
        check(&both.send(post).await, (200, None), (406, None));
    }
}

#[tokio::test]
async fn the_sdk_serves_any_origin_by_default() {
    let both = Both::new();
    let post = Post::handshake("ping", json!({})).header("origin", "http://evil.example.com");
    check(&both.send(post).await, (403, Some(-32600)), (200, None));
}

#[tokio::test]
async fn the_sdk_names_the_server_in_discovery_only() {
    let both = Both::new();
    let (ours, sdk) = both.send(Post::per_request("tools/call", json!({ "name": "text" }))).await;
    let named = |response: &Response| {
        response.result().pointer("/_meta/io.modelcontextprotocol~1serverInfo").is_some()
    };
    assert_eq!((named(&ours), named(&sdk)), (true, false));
}

#[tokio::test]
async fn the_sdk_loses_hints_and_members_that_it_does_not_know() {
    let both = Both::new();
    let (ours, sdk) = both.send(Post::handshake("tools/list", json!({}))).await;
    let hints = |response: &Response| response.result()["tools"][0]["annotations"].clone();
    assert_eq!(hints(&ours)["x-extra"], 1.5);
    assert!(hints(&sdk).get("x-extra").is_none());
}
