//! Seed 002: errors that were called successes, schemas, all kinds of content.

use serde_json::{Value, json};

use super::{REVISIONS, Seed, body};
use crate::support::{Scripted, Step, reply};

fn five_kinds() -> Value {
    json!([
        { "type": "text", "text": "Important result",
          "annotations": { "audience": ["user"], "priority": 0.9, "lastModified": "2025-05-03T14:30:00Z" } },
        { "type": "image", "data": "iVBORw0KGgo=", "mimeType": "image/png", "annotations": { "priority": 0.5 } },
        { "type": "audio", "data": "UklGRg==", "mimeType": "audio/wav", "annotations": { "audience": ["user"] } },
        { "type": "resource_link", "uri": "file:///project/src/main.rs", "name": "main.rs",
          "description": "Primary application entry point", "mimeType": "text/x-rust",
          "annotations": { "audience": ["assistant"] } },
        { "type": "resource", "resource": { "uri": "file:///project/src/main.rs", "title": "Project Rust Main File",
          "mimeType": "text/x-rust", "text": "fn main() {\n    println!(\"Hello world!\");\n}" },
          "annotations": { "priority": 1.0 } }
    ])
}

async fn devflow() -> Seed {
    let upstream = Scripted::start(|asked| {
        let message = body(asked);
        let params = &message["params"];
        let fail = |code: &str, message: &str| json!({ "success": false, "error": { "code": code, "message": message } });
        let said = match (params["name"].as_str().unwrap(), params["arguments"]["entities"][0]["name"].as_str()) {
            ("create_entities", Some("taken")) => fail("ALREADY_EXISTS", "Entity 'taken' exists. Choose another name."),
            ("create_entities", Some("leaky")) => fail("NOT_FOUND", "No file /srv/devflow/data/leaky.json at 10.0.0.7:5432"),
            ("create_entities", Some("database")) => {
                fail("DATABASE", "PostgreSQL connection refused at localhost:5432 with user 'admin'")
            }
            ("create_entities", Some("drifted")) => json!({ "success": true, "data": { "created": "many" } }),
            ("create_entities", Some(name)) => {
                json!({ "success": true, "data": { "created": 1, "entities": [{ "name": name, "weight": 1.0 }] } })
            }
            ("delete_entities", _) => json!({ "success": true, "data": { "deleted": 1, "entityNames": ["a"] } }),
            ("describe_file", _) => json!({ "success": true, "data": { "uri": "file:///a.rs", "name": "a.rs", "lines": 3,
                "text": "fn main() {}", "thumbnail": "iVBORw0KGgo=", "spoken": "UklGRg==" } }),
            _ => Value::Null,
        };
        let content = match said {
            Value::Null => five_kinds(),
            said => json!([{ "type": "text", "text": said.to_string() }]),
        };
        let answer = json!({ "jsonrpc": "2.0", "id": 1, "result": { "content": content } }).to_string();
        vec![Step::Send(reply("200 OK", "application/json", &answer))]
    })
    .await;
    Seed::start("devflow", upstream).await
}

fn entity(name: &str) -> Value {
    json!({ "entities": [{ "name": name, "entityType": "component" }] })
}

#[tokio::test]
async fn an_error_in_json_is_a_tool_error_with_a_short_safe_text() {
    let seed = devflow().await;
    for (name, text, code) in [
        ("taken", "Entity 'taken' exists. Choose another name.", "ALREADY_EXISTS"),
        ("leaky", "No file [path] at [address]", "NOT_FOUND"),
        ("database", "The operation failed. Please try again later.", "DATABASE"),
    ] {
        let over_mcp = seed.call("create_entities", entity(name)).await;
        let over_rest = seed.post("/tools/create_entities", &entity(name).to_string()).await;
        assert_eq!(over_rest.status, 422);
        for result in [over_mcp, over_rest.json()] {
            assert_eq!(result["isError"], json!(true));
            assert_eq!(result["content"], json!([{ "type": "text", "text": text }]));
            assert!(result.get("structuredContent").is_none_or(Value::is_null));
            assert_eq!(result["_meta"]["glossator/upstreamCode"], code);
        }
    }
}

#[tokio::test]
async fn every_structured_result_meets_the_declared_schema() {
    let seed = devflow().await;
    for revision in REVISIONS {
        let tools = seed.tools(revision).await;
        let declared =
            |name: &str| tools.iter().find(|tool| tool["name"] == name).unwrap()["outputSchema"].clone();
        for (tool, arguments) in
            [("create_entities", entity("cache")), ("delete_entities", json!({ "entityNames": ["a"] }))]
        {
            let schema = glossator::tool::Schema::compile(declared(tool).as_object().unwrap()).unwrap();
            let result = seed.call(tool, arguments).await;
            assert_eq!(result["isError"], json!(false));
            assert!(schema.admits(&result["structuredContent"]), "{result}");
            let text: Value = serde_json::from_str(result["text"].as_str().unwrap()).unwrap();
            assert_eq!(text, result["structuredContent"]);
        }
    }
    let drifted = seed.call("create_entities", entity("drifted")).await;
    assert_eq!((&drifted["isError"], &drifted["structuredContent"]), (&json!(true), &Value::Null));
}

#[tokio::test]
async fn all_kinds_of_content_come_with_their_annotations() {
    let seed = devflow().await;
    let sent = seed.call("export_project", json!({})).await;
    assert_eq!((&sent["isError"], &sent["content"]), (&json!(false), &five_kinds()));
    assert_eq!(seed.post("/tools/export_project", "{}").await.json()["content"], five_kinds());
    let made = seed.call("describe_file", json!({ "uri": "file:///a.rs" })).await;
    let expected = json!([
        { "type": "text", "text": "a.rs has 3 lines.",
          "annotations": { "audience": ["user"], "priority": 0.9, "lastModified": "2025-05-03T14:30:00Z" } },
        { "type": "image", "data": "iVBORw0KGgo=", "mimeType": "image/png", "annotations": { "audience": ["user"] } },
        { "type": "audio", "data": "UklGRg==", "mimeType": "audio/wav", "annotations": { "priority": 0.1 } },
        { "type": "resource_link", "uri": "file:///a.rs", "name": "a.rs", "description": "A file of the project",
          "mimeType": "text/x-rust", "annotations": { "audience": ["assistant"] } },
        { "type": "resource", "resource": { "uri": "file:///a.rs", "mimeType": "text/x-rust", "text": "fn main() {}" },
          "annotations": { "audience": ["user", "assistant"], "priority": 1.0 } }
    ]);
    assert_eq!(made["content"], expected);
}

#[tokio::test]
async fn errors_of_the_protocol_are_told_apart_from_errors_of_a_tool() {
    let seed = devflow().await;
    for revision in REVISIONS {
        let (code, message) = seed.refused(revision, "invalid_tool_name", json!({})).await;
        assert!(code == -32602 && message.contains("invalid_tool_name"), "{code} {message}");
        assert_eq!(seed.ask(revision, "tools/forget", json!({})).await["error"]["code"], -32601);
    }
    let broken =
        seed.connect().await.ask("POST /mcp", &["Content-Type: application/json"], "{\"jsonrpc\":").await;
    assert_eq!(broken.json()["error"]["code"], -32700);
    let nameless = r#"{"jsonrpc":"2.0","id":1,"params":{}}"#;
    let invalid = seed.connect().await.ask("POST /mcp", &["Content-Type: application/json"], nameless).await;
    assert_eq!(invalid.json()["error"]["code"], -32600);
    // Arguments that do not fit are for the model to mend.
    let unfit = seed.call("create_entities", json!({ "entities": [{ "name": "" }] })).await;
    assert_eq!(unfit["isError"], json!(true));
    assert!(unfit["text"].as_str().unwrap().contains("entityType"), "{unfit}");
    assert_eq!(seed.upstream.state().asked.len(), 0);
}

#[tokio::test]
async fn what_may_be_repeated_is_asked_again_and_a_server_that_only_fails_is_left_alone() {
    let upstream = Scripted::start(|asked| {
        let message = body(asked);
        let answer = json!({ "jsonrpc": "2.0", "id": 1, "result": { "content": [
            { "type": "text", "text": json!({ "success": true, "data": { "deleted": 1, "entityNames": ["a"] } }).to_string() }
        ] } });
        match (message["params"]["name"].as_str(), asked.connection) {
            (Some("delete_entities"), 1..) => {
                vec![Step::Send(reply("200 OK", "application/json", &answer.to_string())), Step::Close]
            }
            _ => vec![Step::Close],
        }
    })
    .await;
    let seed = Seed::start("devflow", upstream).await;
    let deleted = seed.call_once(REVISIONS[0], "delete_entities", json!({ "entityNames": ["a"] })).await;
    assert_eq!(deleted["structuredContent"]["deleted"], 1, "{deleted}");
    for _ in 0..5 {
        let failed = seed.call_once(REVISIONS[1], "create_entities", entity("a")).await;
        assert_eq!(failed["isError"], true, "{failed}");
    }
    let asked = seed.upstream.state().asked.len();
    let resting = seed.call_once(REVISIONS[1], "create_entities", entity("a")).await;
    assert!(resting["content"][0]["text"].as_str().unwrap().contains("try again in 30 s"), "{resting}");
    assert_eq!(seed.upstream.state().asked.len(), asked);
}
