//! Seed 001: JSON in text content becomes structured content. Every exchange was recorded from the real
//! server.

use serde_json::{Value, json};

use super::{
    REVISIONS,
    recorded::{Called, Played},
};

async fn codeprism() -> Played {
    Played::start("codeprism", "CODEPRISM", "REPOSITORY_PATH").await
}

fn called(tool: &str, arguments: Value) -> Called {
    Called { tool: tool.to_owned(), arguments }
}

#[tokio::test]
async fn every_result_keeps_its_text_with_a_structured_value() {
    let played = codeprism().await;
    assert_eq!(played.calls.len(), 34);
    for recorded in &played.calls {
        let line: Value = serde_json::from_str(&recorded.answer).unwrap();
        let sent = &line["result"];
        played.answers(&recorded.answer);
        for revision in REVISIONS {
            let result = played.call(revision, &recorded.call).await;
            let text = sent["content"][0]["text"].as_str().unwrap();
            let value: Option<Value> = serde_json::from_str(text).ok();
            let is_error =
                sent["isError"] == true || value.as_ref().is_some_and(|value| value["status"] == "error");
            assert_eq!(result["isError"], is_error, "{text}: {result}");
            let structured = match value {
                Some(value) => value,
                None => json!({ "status": "error", "message": text }),
            };
            assert_eq!(result["structuredContent"], structured, "{text}");
            let content = if is_error { json!([sent["content"][0]]) } else { sent["content"].clone() };
            assert_eq!(result["content"], content, "{text}");
        }
        let upstream_call = played.last_call().unwrap();
        assert_eq!(
            (&upstream_call["name"], &upstream_call["arguments"]),
            (&json!(recorded.call.tool), &recorded.call.arguments)
        );
        let response = played
            .serving
            .connect()
            .await
            .send(
                &format!("POST /tools/{}", recorded.call.tool),
                &["Content-Type: application/json"],
                &recorded.call.arguments.to_string(),
            )
            .await;
        let over_mcp = played.call(REVISIONS[0], &recorded.call).await;
        assert_eq!(response.json()["structuredContent"], over_mcp["structuredContent"]);
        assert_eq!(response.status, if over_mcp["isError"] == true { 422 } else { 200 });
    }
}

#[tokio::test]
async fn errors_name_paths_of_the_repository() {
    let played = codeprism().await;
    let text = format!("No symbols found in file: {}/main.py", played.folder.display());
    let content = json!([{ "type": "text", "text": text }]);
    let sent = json!({ "jsonrpc": "2.0", "id": 1, "result": { "content": content, "isError": true } });
    played.answers(&sent.to_string());
    let result = played.call(REVISIONS[1], &called("search_content", json!({ "query": "class" }))).await;
    assert_eq!((&result["isError"], &result["content"]), (&json!(true), &content));
    assert_eq!(result["structuredContent"], json!({ "status": "error", "message": text }));
}

#[tokio::test]
async fn every_tool_is_listed_as_the_server_has_it() {
    let played = codeprism().await;
    for revision in REVISIONS {
        let listed = played.send(revision, "tools/list", json!({})).await["result"]["tools"].take();
        assert_eq!(listed.as_array().unwrap().len(), 26);
        let tool = |name: &str| {
            listed.as_array().unwrap().iter().find(|tool| tool["name"] == name).cloned().unwrap()
        };
        assert_eq!(tool("trace_path")["inputSchema"]["required"], json!(["source", "target"]));
        assert_eq!(tool("trace_path")["inputSchema"]["properties"]["max_depth"]["nullable"], true);
        assert!(tool("trace_path").get("outputSchema").is_none());
    }
}

#[tokio::test]
async fn arguments_rejected_by_the_schema_do_not_reach_the_server() {
    let played = codeprism().await;
    played.answers(r#"{"jsonrpc":"2.0","id":1,"result":{"content":[]}}"#);
    let rejected =
        played.call(REVISIONS[0], &called("trace_path", json!({ "source": null, "target": "x" }))).await;
    assert_eq!(rejected["isError"], true, "{rejected}");
    let text = "argument `source` must be a string; found `null`";
    assert_eq!(rejected["content"], json!([{ "type": "text", "text": text }]));
    assert_eq!(rejected["structuredContent"], json!({ "status": "error", "message": text }));
    assert!(rejected["_meta"].get("glossator/upstreamStatus").is_none(), "{rejected}");
    let headers = ["Content-Type: application/json"];
    let over_rest = played.serving.connect().await.send("POST /tools/trace_path", &headers, "{}").await;
    assert_eq!((over_rest.status, &over_rest.json()["structuredContent"]["status"]), (400, &json!("error")));
    let unknown = played.call(REVISIONS[1], &called("repository_overview", json!({}))).await;
    assert_eq!(unknown["code"], -32602, "{unknown}");
    assert!(played.last_call().is_none());
}
