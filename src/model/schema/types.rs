//! Queries on schemas, without a validator: the subschemas behind `$ref`, `anyOf`, `oneOf` and `allOf`, types
//! and listed values; and the types of values.

use serde_json::{Map, Value};

use super::SchemaDialect;

/// Limit of nested `$ref` and combinations that are followed; a schema may refer to itself.
const DEPTH_LIMIT: u8 = 8;

/// Limit of all schemas that are followed: combinations may refer to combinations repeatedly.
const SCHEMA_LIMIT: usize = 256;

/// A schema and its subschemas for the same value, depth first: `$ref`, `anyOf`, `oneOf`, `allOf`.
pub fn combined<'s>(
    root: &'s Map<String, Value>,
    schema: &'s Map<String, Value>,
) -> Vec<&'s Map<String, Value>> {
    let mut found = Vec::new();
    let mut open = vec![(schema, DEPTH_LIMIT)];
    while let Some((schema, depth)) = open.pop().filter(|_| found.len() < SCHEMA_LIMIT) {
        let target = referred(root, schema);
        let is_reference = target.is_some() && SchemaDialect::declared_in(root).ignores_ref_siblings();
        if !is_reference {
            found.push(schema);
        }
        let Some(depth) = depth.checked_sub(1) else { continue };
        let keywords: &[&str] = if is_reference { &[] } else { &["anyOf", "oneOf", "allOf"] };
        let parts = keywords.iter().filter_map(|keyword| schema.get(*keyword)?.as_array());
        let inside = target.into_iter().chain(parts.flatten().filter_map(Value::as_object));
        let inside: Vec<_> = inside.map(|part| (part, depth)).collect();
        open.extend(inside.into_iter().rev());
    }
    found
}

/// The schema that a local `$ref` (`#/…`) points to.
pub fn referred<'s>(
    root: &'s Map<String, Value>,
    schema: &Map<String, Value>,
) -> Option<&'s Map<String, Value>> {
    value_at(root, schema.get("$ref")?.as_str()?.strip_prefix('#')?)?.as_object()
}

/// The value at a JSON Pointer that does not lead to the root.
pub(super) fn value_at<'s>(root: &'s Map<String, Value>, pointer: &str) -> Option<&'s Value> {
    let rest = pointer.strip_prefix('/')?;
    let (first, rest) = rest.find('/').map_or((rest, ""), |end| rest.split_at(end));
    root.get(&first.replace("~1", "/").replace("~0", "~"))?.pointer(rest)
}

/// The types in the `type` keyword of a schema.
pub fn own_types(schema: &Map<String, Value>) -> impl Iterator<Item = &str> {
    let kind = schema.get("type");
    let several = kind.and_then(Value::as_array).into_iter().flatten();
    kind.into_iter().chain(several).filter_map(Value::as_str)
}

/// The values that a schema lists: those of `enum`, and that of `const`.
pub fn listed_values(schema: &Map<String, Value>) -> impl Iterator<Item = &Value> {
    schema.get("enum").and_then(Value::as_array).into_iter().flatten().chain(schema.get("const"))
}

/// The type of a value, with an article: "a string", "an object".
pub fn kind_of(value: &Value) -> &'static str {
    with_article(type_of(value))
}

/// The name of a type in JSON Schema, with an article.
pub(in crate::model) fn with_article(kind: &str) -> &str {
    match kind {
        "array" => "an array",
        "boolean" => "a boolean",
        "integer" => "an integer",
        "number" => "a number",
        "object" => "an object",
        "string" => "a string",
        other => other,
    }
}

/// The type of a value in JSON Schema; `number` for every number.
pub fn type_of(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn types(document: &Value) -> Vec<&str> {
        let root = document.as_object().unwrap();
        combined(root, root).into_iter().flat_map(own_types).collect()
    }

    #[test]
    fn references_and_combinations_are_followed() {
        let document = json!({
            "anyOf": [{ "$ref": "#/$defs/count" }, { "allOf": [{ "type": "null" }] }],
            "oneOf": [{ "type": ["string", "array"] }],
            "$defs": { "count": { "type": "integer" } },
        });
        assert_eq!(types(&document), ["integer", "null", "string", "array"]);
    }

    #[test]
    fn keywords_beside_a_reference_are_ignored_up_to_draft_07() {
        let document = json!({ "$ref": "#/definitions/count", "type": "string",
            "definitions": { "count": { "type": "integer" } } });
        assert_eq!(types(&document), ["string", "integer"]);
        let mut older = document.clone();
        older["$schema"] = "http://json-schema.org/draft-07/schema#".into();
        assert_eq!(types(&older), ["integer"]);
        older["$ref"] = "#".into();
        assert_eq!(types(&older), ["string"], "no reference that is followed here");
    }

    #[test]
    fn circular_references_end() {
        let circle = json!({ "$ref": "#/$defs/a", "$defs": { "a": { "$ref": "#/$defs/a" } } });
        assert!(types(&circle).is_empty());
        let doubling = json!({ "$ref": "#/$defs/a", "$defs": { "a": { "anyOf": vec![json!({"$ref": "#/$defs/a"}); 30] } } });
        let doubling = doubling.as_object().unwrap();
        assert_eq!(combined(doubling, doubling).len(), SCHEMA_LIMIT);
    }
}
