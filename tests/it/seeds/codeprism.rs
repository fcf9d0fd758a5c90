//! Seed 001: JSON in a text, lifted into the structure.

use serde_json::{Value, json};

use super::{REVISIONS, Seed, body};
use crate::support::{Scripted, Step, reply};

/// As the server writes it, oddly spaced, which must not change.
const VERSION: &str = "{\n  \"server_name\": \"codeprism-mcp-server\",\n  \"mcp_protocol_version\":\"2024-11-05\",\n  \
                       \"tools_enabled\": {\"core\": true,  \"search\": false}\n}";
const QUALITY: &str = r#"{"status":"success","quality_metrics":{"lines":120,"smells":[]},"overall_score":8.50,"note":"schön \u2713"}"#;
const ERROR: &str =
    r#"{"status":"error","message":"Target 'nowhere' is not in the repository","code":"INVALID_TARGET"}"#;
const NO_CODE: &str = r#"{ "status": "error", "message": "No repository is open", "code": null }"#;

async fn codeprism() -> Seed {
    let upstream = Scripted::start(|asked| {
        let message = body(asked);
        assert_eq!((&message["jsonrpc"], &message["method"]), (&json!("2.0"), &json!("tools/call")));
        let params = &message["params"];
        let text = |text: &str| json!({ "content": [{ "type": "text", "text": text }], "isError": false });
        let result = match params["name"].as_str().unwrap() {
            "version" => text(VERSION),
            "analyze_code_quality" if params["arguments"]["target"] == "nowhere" => text(ERROR),
            "analyze_code_quality" if params["arguments"]["target"] == "rpc" => {
                let error = json!({ "jsonrpc": "2.0", "id": 1,
                    "error": { "code": -32603, "message": "Parser failed in /srv/codeprism/src/parser.rs" } });
                return vec![Step::Send(reply("200 OK", "application/json", &error.to_string()))];
            }
            "analyze_code_quality" => text(QUALITY),
            _ => text(NO_CODE),
        };
        let answer = json!({ "jsonrpc": "2.0", "id": message["id"], "result": result }).to_string();
        vec![Step::Send(reply("200 OK", "application/json", &answer))]
    })
    .await;
    Seed::start("codeprism", upstream).await
}

#[tokio::test]
async fn the_text_is_unchanged_and_its_value_is_beside_it() {
    let seed = codeprism().await;
    for (tool, arguments, text) in
        [("version", json!({}), VERSION), ("analyze_code_quality", json!({ "target": "src/" }), QUALITY)]
    {
        let over_mcp = seed.call(tool, arguments.clone()).await;
        let over_rest = seed.post(&format!("/tools/{tool}"), &arguments.to_string()).await;
        assert_eq!(over_rest.status, 200);
        for result in [over_mcp, over_rest.json()] {
            assert_eq!(result["content"], json!([{ "type": "text", "text": text }]));
            assert_eq!(result["structuredContent"], serde_json::from_str::<Value>(text).unwrap());
            assert_eq!(result["isError"], json!(false));
        }
    }
}

#[tokio::test]
async fn fields_are_read_directly() {
    let seed = codeprism().await;
    let result = seed.call("analyze_code_quality", json!({ "target": "src/" })).await;
    let structured = &result["structuredContent"];
    assert!(structured["status"].is_string() && structured["quality_metrics"].is_object());
    assert_eq!(structured["overall_score"].to_string(), "8.50");
    let asked = body(&seed.upstream.state().asked[0]);
    let expected = json!({ "target": "src/", "quality_types": ["all"] });
    assert_eq!(asked["params"]["arguments"], expected);
}

#[tokio::test]
async fn an_error_is_there_in_both_forms() {
    let seed = codeprism().await;
    for (tool, arguments, text, code) in [
        ("analyze_code_quality", json!({ "target": "nowhere" }), ERROR, json!("INVALID_TARGET")),
        ("repository_overview", json!({}), NO_CODE, Value::Null),
    ] {
        let over_mcp = seed.call(tool, arguments.clone()).await;
        let over_rest = seed.post(&format!("/tools/{tool}"), &arguments.to_string()).await;
        assert_eq!(over_rest.status, 422);
        for result in [over_mcp, over_rest.json()] {
            assert_eq!(result["isError"], json!(true));
            assert_eq!(result["content"], json!([{ "type": "text", "text": text }]));
            let structured = &result["structuredContent"];
            assert_eq!((&structured["status"], &structured["code"]), (&json!("error"), &code));
            assert!(structured["message"].is_string());
            assert_eq!(result["_meta"]["glossator/upstreamCode"], code);
        }
    }
}

#[tokio::test]
async fn an_error_of_the_servers_protocol_is_an_error_of_the_tool() {
    let seed = codeprism().await;
    let result = seed.call("analyze_code_quality", json!({ "target": "rpc" })).await;
    assert_eq!((&result["isError"], &result["text"]), (&json!(true), &json!("Parser failed in [path]")));
    assert_eq!(result["_meta"]["glossator/upstreamCode"], -32603);
    for revision in REVISIONS {
        assert_eq!(seed.refused(revision, "forget", json!({})).await.0, -32602);
    }
}
