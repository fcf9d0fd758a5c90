//! DevFlow after its migration: arguments that it lists and rejects. Every exchange was recorded from the
//! real server.

use glossator::model::Schema;
use serde_json::{Value, json};

use super::{REVISIONS, recorded::Played};

/// Internal details that clients must not see.
const INTERNALS: [&str; 4] = ["constraint failed", "params:", "entity_type", "DATABASE_ERROR:"];

/// Error texts that clients get, by a part of the recorded line.
const ERRORS: [(&str, &str); 11] = [
    (
        "failed: entities.name",
        "An entity of this name is there already. Choose another name, or add observations to it.",
    ),
    ("failed: relations.", "This relation is there already. Update it instead."),
    ("incomplete input", "The operation failed. Check the arguments; if they are right, try again later."),
    (r#""text":"null""#, "There is no such relation."),
    (
        "name cannot be empty",
        "Validation failed: Entity name cannot be empty at \"entities[0].name\"; Entity name must start with a letter or \
         underscore, followed by alphanumeric characters, underscores, or hyphens at \"entities[0].name\"",
    ),
    (
        "cannot connect",
        "Validation failed: Relation cannot connect an entity to itself (from must differ from to) at \"relations[0].to\"",
    ),
    ("Cannot create", "Cannot create relations: entities not found: Nobody"),
    ("Failed to add", "Failed to add observations"),
    ("Relation not found", "Relation not found: Ghost -> AuthFeature (part_of)"),
    ("No embedding", "No embedding found for entity: AuthFeature"),
    ("Entity not found", "Entity not found: Ghost"),
];

/// Tool in a list.
fn listed_as<'l>(listed: &'l Value, name: &str) -> &'l Value {
    listed.as_array().unwrap().iter().find(|tool| tool["name"] == name).unwrap()
}

#[tokio::test]
async fn every_answer_is_an_error_with_a_short_text_or_a_success_that_meets_its_schema() {
    let played = Played::start("devflow-migrated", "NODE", "DEVFLOW").await;
    assert_eq!(played.calls.len(), 30);
    for revision in REVISIONS {
        let listed = played.send(revision, "tools/list", json!({})).await["result"]["tools"].take();
        let (mut errors, mut checked) = (0, 0);
        for recorded in &played.calls {
            let line: Value = serde_json::from_str(&recorded.answer).unwrap();
            played.answers(&recorded.answer);
            let result = played.call(revision, &recorded.call).await;
            let upstream_call = played.last_call().unwrap();
            assert_eq!(upstream_call["arguments"], recorded.call.arguments, "{result}");
            match ERRORS.iter().find(|(part, _)| recorded.answer.contains(part)) {
                Some((_, text)) => {
                    assert_eq!(result["isError"], true, "{result}");
                    assert_eq!(result["content"], json!([{ "type": "text", "text": text }]));
                    errors += 1;
                }
                None => {
                    assert_eq!(result["isError"], false, "{result}");
                    assert_eq!(result.get("structuredContent"), line["result"].get("structuredContent"));
                    if let Some(schema) = listed_as(&listed, &recorded.call.tool).get("outputSchema") {
                        let schema = Schema::compile(schema.as_object().unwrap()).unwrap();
                        assert!(schema.accepts(&result["structuredContent"]), "{result}");
                        checked += 1;
                    }
                }
            }
            let result = result.to_string();
            assert!(INTERNALS.iter().all(|inside| !result.contains(inside)), "{result}");
        }
        assert_eq!((errors, checked), (11, 12));
    }
}

#[tokio::test]
async fn the_listed_arguments_are_those_that_the_server_takes() {
    let played = Played::start("devflow-migrated", "NODE", "DEVFLOW").await;
    let listed = played.send(REVISIONS[1], "tools/list", json!({})).await["result"]["tools"].take();
    assert_eq!(listed.as_array().unwrap().len(), 17);
    let names = |tool: &str| {
        let properties = listed_as(&listed, tool)["inputSchema"]["properties"].as_object();
        properties.map_or_else(Vec::new, |properties| properties.keys().cloned().collect())
    };
    assert_eq!(names("add_observations"), ["entityName", "contents"]);
    assert_eq!(names("update_relation"), ["from", "to", "relationType", "strength", "confidence"]);
    assert_eq!(names("get_entity_embedding"), ["entityName"]);
    assert!(names("get_decayed_graph").is_empty());
}
