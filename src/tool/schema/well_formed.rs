//! Documents that are schemas at first sight: those that are written for tools mostly name types, members and bounds, and
//! nothing that has to be found elsewhere or compiled. What this sees need not be held against the schema of schemas, which is
//! half a megabyte once it is compiled, nor be compiled itself before there is a value.

use serde_json::{Map, Number, Value};

/// How deep a document is looked into.
const DEPTH_LIMIT: usize = 64;

/// The types that JSON Schema has.
const TYPES: [&str; 7] = ["array", "boolean", "integer", "null", "number", "object", "string"];

/// Whether a document is seen to be a schema, a JSON Schema 2020-12 in which `format` is a hint. `false` is no verdict: where there
/// are other keywords than the plainest, or a value that may not stand there, the schema of schemas has to say.
pub(super) fn is_schema(document: &Map<String, Value>) -> bool {
    is_schema_within(document, DEPTH_LIMIT)
}

fn is_schema_within(document: &Map<String, Value>, depth: usize) -> bool {
    let Some(depth) = depth.checked_sub(1) else { return false };
    document.iter().all(|(keyword, value)| match keyword.as_str() {
        "type" => is_type(value),
        "title" | "description" | "format" | "$comment" => value.is_string(),
        "deprecated" | "readOnly" | "writeOnly" | "uniqueItems" => value.is_boolean(),
        "default" | "const" => true,
        "examples" => value.is_array(),
        "enum" => value.as_array().is_some_and(|listed| !listed.is_empty()),
        "minimum" | "maximum" | "exclusiveMinimum" | "exclusiveMaximum" => {
            value.as_number().is_some_and(is_moderate)
        }
        "minLength" | "maxLength" | "minItems" | "maxItems" | "minProperties" | "maxProperties" => {
            value.is_u64()
        }
        "required" => is_list_of_names(value),
        "properties" | "$defs" => {
            value.as_object().is_some_and(|schemas| schemas.values().all(|one| is_either(one, depth)))
        }
        "items" | "additionalProperties" | "not" => is_either(value, depth),
        "allOf" | "anyOf" | "oneOf" => value
            .as_array()
            .is_some_and(|schemas| !schemas.is_empty() && schemas.iter().all(|one| is_either(one, depth))),
        _ => false,
    })
}

/// `true` and `false` are schemas too.
fn is_either(value: &Value, depth: usize) -> bool {
    match value {
        Value::Bool(_) => true,
        Value::Object(document) => is_schema_within(document, depth),
        Value::Null | Value::Number(_) | Value::String(_) | Value::Array(_) => false,
    }
}

/// One type, or a list of them.
fn is_type(value: &Value) -> bool {
    let is_one = |value: &Value| value.as_str().is_some_and(|name| TYPES.contains(&name));
    match value {
        Value::Array(types) => !types.is_empty() && types.iter().all(is_one) && is_list_of_names(value),
        one => is_one(one),
    }
}

/// Texts, none of them twice.
fn is_list_of_names(value: &Value) -> bool {
    /// Each is held against those before it.
    const MOST: usize = 100;
    let Value::Array(names) = value else { return false };
    names.len() <= MOST
        && names.iter().enumerate().all(|(index, name)| name.is_string() && !names[..index].contains(name))
}

/// Those of which every reader thinks the same.
fn is_moderate(number: &Number) -> bool {
    number.is_i64() || number.is_u64() || number.as_f64().is_some_and(f64::is_finite)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::{super::*, is_either, is_schema};

    /// What may stand under a keyword, or not.
    fn any_value() -> impl Strategy<Value = Value> {
        prop::sample::select(
            [
                r#"null"#,
                r#"true"#,
                r#"0"#,
                r#"-1"#,
                r#"3"#,
                r#"0.5"#,
                r#"1.0"#,
                r#"1e400"#,
                r#"12345678901234567890123"#,
                r#""string""#,
                r#""strnig""#,
                r#"[]"#,
                r#"["string"]"#,
                r#"["string","null"]"#,
                r#"["a","a"]"#,
                r#"[1]"#,
                r#"[{}]"#,
                r#"[{"type":"strnig"}]"#,
                r#"{"a":1}"#,
                r#"{"$ref":"https://example.com/other"}"#,
                r##"{"$ref":"#/nowhere"}"##,
                r#"{"pattern":"(?=a)"}"#,
            ]
            .map(|text| serde_json::from_str(text).expect("JSON"))
            .to_vec(),
        )
    }

    fn any_document() -> impl Strategy<Value = Value> {
        let keyword = prop::sample::select(vec![
            "type",
            "title",
            "format",
            "deprecated",
            "uniqueItems",
            "default",
            "const",
            "examples",
            "enum",
            "minimum",
            "exclusiveMaximum",
            "maxLength",
            "minItems",
            "required",
            "properties",
            "$defs",
            "items",
            "not",
            "anyOf",
            "$ref",
            "$id",
            "$schema",
            "pattern",
            "multipleOf",
            "x-unknown",
        ]);
        let plain = prop_oneof![Just(json!({})), Just(json!({"type": "string"})), Just(json!(false))];
        plain.prop_recursive(3, 16, 4, move |inner| {
            let members = prop::collection::vec(("a|\\$ref|\\$id", inner.clone()), 0..3);
            let members = members.prop_map(|members| Value::from(Map::from_iter(members)));
            let list = prop::collection::vec(inner.clone(), 0..3).prop_map(Value::from);
            let value = prop_oneof![any_value(), inner, members, list];
            prop::collection::vec((keyword.clone().prop_map(str::to_owned), value), 0..4)
                .prop_map(|keywords| Value::from(Map::from_iter(keywords)))
        })
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(4000))]

        #[test]
        fn what_is_seen_to_be_a_schema_compiles(document in any_document()) {
            let seen = is_either(&document, 10);
            let compiled = validator_of(&document, Formats::Hints);
            prop_assert!(!seen || compiled.is_ok(), "{document}: {:?}", compiled.err());
        }
    }

    #[test]
    fn what_is_written_for_tools_is_seen() {
        let seen = |document: Value| is_schema(document.as_object().unwrap());
        assert!(seen(json!({
            "type": "object",
            "description": "A city.",
            "properties": {
                "city": {"enum": ["oslo", "bergen"], "title": "City"},
                "days": {"type": ["integer", "null"], "minimum": 0, "maximum": 14.5, "default": 3},
                "words": {"type": "array", "items": {"type": "string", "maxLength": 9}, "uniqueItems": true},
                "either": {"anyOf": [{"const": null}, true]},
            },
            "required": ["city"],
            "additionalProperties": false,
        })));
        for other in [
            json!({"type": "strnig"}),
            json!({"type": ["string", "string"]}),
            json!({"properties": {"a": 1}}),
            json!({"required": ["a", "a"]}),
            json!({"anyOf": []}),
            json!({"maxLength": -1}),
            json!({"minimum": "1"}),
            json!({"items": {"pattern": "(?=a)"}}),
            json!({"$ref": "#/nowhere"}),
        ] {
            assert!(!seen(other.clone()), "{other}");
        }
        let deep = (0..100).fold(json!({}), |inner, _| json!({ "items": inner }));
        assert!(!seen(deep));
    }
}
