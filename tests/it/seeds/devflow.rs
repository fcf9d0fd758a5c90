//! Seed 002: errors reported as successes, schemas, all kinds of content. Every exchange was recorded from
//! the real server.

use glossator::model::Schema;
use serde_json::{Value, json};

use super::{
    REVISIONS,
    recorded::{Called, Played},
};

async fn devflow() -> Played {
    Played::start("devflow", "NODE", "DEVFLOW").await
}

fn called(tool: &str, arguments: Value) -> Called {
    Called { tool: tool.to_owned(), arguments }
}

/// Internal details that clients must not see.
const INTERNALS: [&str; 5] = ["constraint failed", "params:", "entity_type", "680530ae", "incomplete input"];

/// Recorded errors, and the texts that clients get.
const ERRORS: [(&str, &str); 20] = [
    (
        "UNIQUE constraint",
        "An entity of this name is there already. Choose another name, or add observations to it.",
    ),
    ("Invalid entity", "Invalid entity: name must be a non-empty string (was \"\")"),
    ("Invalid arguments", "Invalid arguments for create_entities: entities must be an array (was missing)"),
    ("Cannot create", "Cannot create relations: entities not found: Nobody"),
    ("Invalid relation", "Invalid relation: strength must be a number (was null)"),
    ("No arguments", "No arguments provided for tool: read_graph"),
    ("query must be", "query must be a string, got number"),
    ("Ghost -> AuthFeature", "Relation not found: Ghost -> AuthFeature (part_of)"),
    ("Ghost -> part_of", "Relation not found: Ghost -> part_of -> AuthFeature"),
    ("No embedding found", "No embedding found for entity: AuthFeature"),
    ("Entity not found", "Entity not found: Ghost"),
    ("Error retrieving entity", "Error retrieving entity history: entityName must be a string, got number"),
    ("Failed to generate", "Failed to generate embedding: EmbeddingJobManager not initialized"),
    ("deletions must be", "deletions must be an array"),
    ("Unknown tool", "Unknown tool: drop_everything"),
    ("incomplete input", "The service failed. Its message has internal details and is not shown."),
    ("CHECK constraint", FAILED),
    ("is undefined", FAILED),
    ("near \\\"", FAILED),
    ("SQLITE_", FAILED),
];

const FAILED: &str = "The operation failed. Check the arguments; if they are right, try again later.";

/// Value in a success of the server.
fn value_of(line: &Value) -> Value {
    let text = line["result"]["content"][0]["text"].as_str().unwrap();
    match serde_json::from_str(text) {
        Ok(value @ Value::Object(_)) => value,
        Ok(value) => json!({ "result": value }),
        Err(_) => json!({ "result": text }),
    }
}

#[tokio::test]
async fn every_answer_is_an_error_with_a_short_text_or_a_success_with_its_value() {
    let played = devflow().await;
    assert_eq!(played.calls.len(), 36);
    let mut errors = 0;
    for recorded in &played.calls {
        let call = recorded.instead.as_ref().unwrap_or(&recorded.call);
        let line: Value = serde_json::from_str(&recorded.answer).unwrap();
        played.answers(&recorded.answer);
        let error_rule = ERRORS.iter().find(|(part, _)| recorded.answer.contains(part));
        for revision in REVISIONS {
            let result = played.call(revision, call).await;
            match error_rule {
                Some((_, text)) => {
                    assert_eq!(result["isError"], true, "{result}");
                    assert_eq!(result["content"], json!([{ "type": "text", "text": text }]));
                    assert!(result.get("structuredContent").is_none(), "{result}");
                }
                None => {
                    assert_eq!(result["isError"], false, "{result}");
                    assert_eq!(result["content"], line["result"]["content"]);
                    assert_eq!(result["structuredContent"], value_of(&line));
                }
            }
            let result = result.to_string();
            assert!(INTERNALS.iter().all(|inside| !result.contains(inside)), "{result}");
        }
        errors += usize::from(error_rule.is_some());
        let upstream_call = played.last_call().unwrap();
        assert_eq!(
            (&upstream_call["name"], &upstream_call["arguments"]),
            (&json!(call.tool), &call.arguments)
        );
    }
    assert_eq!(errors, 18);
}

#[tokio::test]
async fn a_call_that_can_not_be_right_is_answered_here() {
    let played = devflow().await;
    let rejected: Vec<_> = played.calls.iter().filter(|recorded| recorded.instead.is_some()).collect();
    assert!(rejected.len() >= 7, "{}", rejected.len());
    for recorded in rejected {
        played.answers(&recorded.answer);
        let result = played.call(REVISIONS[1], &recorded.call).await;
        match recorded.call.tool.as_str() {
            "drop_everything" | "debug_embedding_config" => assert_eq!(result["code"], -32602, "{result}"),
            _ => {
                assert_eq!(result["isError"], true, "{result}");
                let text = result["content"][0]["text"].as_str().unwrap();
                assert!(text.starts_with("argument `"), "{text}");
            }
        }
        assert!(played.last_call().is_none());
    }
}

#[tokio::test]
async fn errors_of_other_versions_and_of_the_database_are_short_and_safe() {
    let played = devflow().await;
    let fail = |code: &str, message: &str| {
        let text = json!({ "success": false, "error": { "code": code, "message": message } }).to_string();
        json!({ "jsonrpc": "2.0", "id": 1, "result": { "content": [{ "type": "text", "text": text }] } })
    };
    let of_rpc =
        |message: &str| json!({ "jsonrpc": "2.0", "id": 1, "error": { "code": -32603, "message": message } });
    for (answer, text, code) in [
        (fail("ALREADY_EXISTS", "Entity 'taken' exists."), "Entity 'taken' exists.", json!("ALREADY_EXISTS")),
        (
            fail("NOT_FOUND", "No file /srv/devflow/a.json at 10.0.0.7:5432"),
            "No file [path] at [address]",
            json!("NOT_FOUND"),
        ),
        (
            fail("DATABASE", "refused at localhost:5432"),
            "The operation failed. Please try again later.",
            json!("DATABASE"),
        ),
        (of_rpc("near \"'x'\": syntax error"), FAILED, json!(-32603)),
        (of_rpc("SQLITE_BUSY: database is locked"), FAILED, json!(-32603)),
    ] {
        played.answers(&answer.to_string());
        let result = played.call(REVISIONS[0], &called("search_nodes", json!({ "query": "a" }))).await;
        assert_eq!((&result["isError"], &result["content"][0]["text"]), (&json!(true), &json!(text)));
        assert_eq!(result["_meta"]["glossator/upstreamCode"], code, "{result}");
    }
}

#[tokio::test]
async fn every_structured_result_meets_the_declared_schema() {
    let played = devflow().await;
    for revision in REVISIONS {
        let listed = played.send(revision, "tools/list", json!({})).await["result"]["tools"].take();
        let listed = listed.as_array().unwrap();
        assert_eq!(listed.len(), 18);
        let mut checked = 0;
        for recorded in played.calls.iter().filter(|recorded| recorded.instead.is_none()) {
            let tool = listed.iter().find(|tool| tool["name"] == recorded.call.tool.as_str()).unwrap();
            let Some(schema) = tool.get("outputSchema") else { continue };
            played.answers(&recorded.answer);
            let result = played.call(revision, &recorded.call).await;
            if result["isError"] == false {
                let schema = Schema::compile(schema.as_object().unwrap()).unwrap();
                assert!(schema.accepts(&result["structuredContent"]), "{result}");
                checked += 1;
            }
        }
        assert!(checked >= 12, "{checked}");
    }
    played.answers(
        r#"{"jsonrpc":"2.0","id":1,"result":{"content":[{"type":"text","text":"{\"entities\":\"many\"}"}]}}"#,
    );
    let drifted = played.call(REVISIONS[0], &called("read_graph", json!({}))).await;
    assert_eq!((&drifted["isError"], drifted.get("structuredContent")), (&json!(true), None));
}

#[tokio::test]
async fn all_kinds_of_content_come_with_their_annotations() {
    let played = devflow().await;
    let content = json!([
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
    ]);
    played.answers(&json!({ "jsonrpc": "2.0", "id": 1, "result": { "content": content } }).to_string());
    for revision in REVISIONS {
        let call = called("get_entity_embedding", json!({ "entity_name": "a" }));
        let result = played.call(revision, &call).await;
        assert_eq!((&result["isError"], &result["content"]), (&json!(false), &content));
    }
}

#[tokio::test]
async fn protocol_errors_are_distinguished_from_tool_errors() {
    let played = devflow().await;
    for revision in REVISIONS {
        let unknown = played.call(revision, &called("invalid_tool_name", json!({}))).await;
        assert_eq!(unknown["code"], -32602, "{unknown}");
        assert!(unknown["message"].as_str().unwrap().contains("invalid_tool_name"));
        assert_eq!(played.send(revision, "tools/forget", json!({})).await["error"]["code"], -32601);
    }
    let json = ["Content-Type: application/json"];
    let broken = played.serving.connect().await.send("POST /mcp", &json, "{\"jsonrpc\":").await;
    assert_eq!(broken.json()["error"]["code"], -32700);
    let nameless = r#"{"jsonrpc":"2.0","id":1,"params":{}}"#;
    let invalid = played.serving.connect().await.send("POST /mcp", &json, nameless).await;
    assert_eq!(invalid.json()["error"]["code"], -32600);
}

#[tokio::test]
async fn a_call_that_breaks_off_is_made_again_where_the_tool_only_reads() {
    let played = devflow().await;
    let answer = &played.calls[0].answer;
    played.answers(answer);
    played.dies();
    let read = played.call(REVISIONS[0], &called("read_graph", json!({}))).await;
    assert_eq!(read["structuredContent"], json!({ "entities": [], "relations": [] }), "{read}");
    played.dies();
    let entity = json!({ "entities": [{ "name": "a", "entityType": "task", "observations": [] }] });
    let written = played.call(REVISIONS[1], &called("create_entities", entity)).await;
    assert_eq!(written["isError"], true, "{written}");
    assert!(written["content"][0]["text"].as_str().unwrap().contains("may have taken effect"), "{written}");
}
