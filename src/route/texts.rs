//! Texts to the values that an input schema asks for: what stands in a path, a query or a URI is text, and so are the
//! arguments of prompts.

use serde_json::{Map, Number, Value};

use crate::tool::{check_number, combined, listed_values, own_types};

/// Texts as the value that the schema asks for under this name. What can't be such a value stays a text, so that
/// the check of the schema says what is wrong with it.
pub(super) fn typed(schema: &Map<String, Value>, name: &str, mut texts: Vec<String>) -> Value {
    let property = Wanted::of(schema, schema.get("properties").and_then(|properties| properties.get(name)));
    match texts.pop() {
        Some(only) if texts.is_empty() && (property.admits("string") || !property.admits("array")) => {
            property.value(only)
        }
        last => {
            let items = Wanted::of(schema, property.items);
            texts.into_iter().chain(last).map(|text| items.value(text)).collect()
        }
    }
}

/// The values that the schema lists for a name, as texts; of a list, those of its items.
pub(super) fn listed(schema: &Map<String, Value>, name: &str) -> Vec<String> {
    let property = Wanted::of(schema, schema.get("properties").and_then(|properties| properties.get(name)));
    let items = Wanted::of(schema, property.items);
    let as_text = |value: &Value| match value {
        Value::String(text) => Some(text.clone()),
        Value::Bool(_) | Value::Number(_) => Some(value.to_string()),
        Value::Null | Value::Array(_) | Value::Object(_) => None,
    };
    let of = |wanted: &Wanted<'_>| -> Vec<String> {
        let flags = if wanted.is_flag() { &[Value::Bool(true), Value::Bool(false)][..] } else { &[] };
        wanted.listed.iter().copied().chain(flags).filter_map(as_text).collect()
    };
    [of(&property), of(&items)].concat()
}

/// What kinds of value a schema admits, as far as it says so outright.
#[derive(Debug, Default)]
struct Wanted<'s> {
    types: Vec<&'s str>,
    listed: Vec<&'s Value>,
    items: Option<&'s Value>,
}

impl<'s> Wanted<'s> {
    fn of(root: &'s Map<String, Value>, schema: Option<&'s Value>) -> Self {
        let mut wanted = Self::default();
        let parts = schema.and_then(Value::as_object).map(|schema| combined(root, schema));
        for part in parts.into_iter().flatten() {
            wanted.types.extend(own_types(part));
            wanted.listed.extend(listed_values(part));
            wanted.items = wanted.items.or_else(|| part.get("items"));
        }
        wanted
    }

    fn admits(&self, kind: &str) -> bool {
        self.types.contains(&kind)
    }

    /// Whether it is true or false, and no schema says which.
    fn is_flag(&self) -> bool {
        self.listed.is_empty() && self.admits("boolean")
    }

    fn value(&self, text: String) -> Value {
        if self.admits("string") {
            return Value::String(text);
        }
        if let Some(fixed) = self.listed.iter().find(|fixed| is_written(fixed, &text)) {
            return Value::clone(fixed);
        }
        match text.as_str() {
            "true" if self.admits("boolean") => return Value::Bool(true),
            "false" if self.admits("boolean") => return Value::Bool(false),
            "null" if self.admits("null") => return Value::Null,
            _ => {}
        }
        // The number keeps its text: `1.0` stays `1.0`.
        if (self.admits("number") || self.admits("integer"))
            && check_number(&text).is_ok()
            && let Ok(number) = text.parse::<Number>()
        {
            return Value::Number(number);
        }
        if self.admits("object")
            && let Ok(Value::Object(object)) = serde_json::from_str(&text)
        {
            return Value::Object(object);
        }
        Value::String(text)
    }
}

fn is_written(value: &Value, text: &str) -> bool {
    match value {
        Value::String(string) => string == text,
        Value::Null | Value::Bool(_) | Value::Number(_) => {
            serde_json::from_str::<Value>(text).is_ok_and(|written| written == *value)
        }
        Value::Array(_) | Value::Object(_) => false,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[track_caller]
    fn check(property: Value, texts: &[&str], expected: Value) {
        let schema = json!({
            "properties": { "x": property },
            "$defs": { "count": { "type": "integer" }, "loop": { "$ref": "#/$defs/loop" } },
        });
        let texts = texts.iter().map(|text| (*text).to_owned()).collect();
        assert_eq!(typed(schema.as_object().unwrap(), "x", texts).to_string(), expected.to_string());
    }

    #[test]
    fn a_text_becomes_what_the_schema_asks_for() {
        check(json!({ "type": "integer" }), &["5"], json!(5));
        check(json!({ "type": "string" }), &["5"], json!("5"));
        check(json!({ "type": ["string", "integer"] }), &["5"], json!("5"));
        check(json!({ "type": "boolean" }), &["true"], json!(true));
        check(json!({ "type": ["integer", "null"] }), &["null"], json!(null));
        check(json!({ "type": "object" }), &[r#"{"a":1}"#], json!({ "a": 1 }));
        check(json!({ "enum": [1, "two"] }), &["1"], json!(1));
        check(json!({ "enum": [1, "two"] }), &["two"], json!("two"));
        check(json!({ "$ref": "#/$defs/count" }), &["5"], json!(5));
        check(json!({ "anyOf": [{ "type": "number" }, { "type": "null" }] }), &["5"], json!(5));
        check(json!({}), &["5"], json!("5"));
    }

    #[test]
    fn a_schema_lists_values_in_several_ways() {
        let of = |property: Value| {
            let root =
                json!({ "properties": { "x": property }, "$defs": { "sky": { "enum": ["clear", "rain"] } } });
            listed(root.as_object().unwrap(), "x").join(" ")
        };
        assert_eq!(of(json!({ "enum": ["a", 5, null, true] })), "a 5 true");
        assert_eq!(of(json!({ "$ref": "#/$defs/sky" })), "clear rain");
        assert_eq!(of(json!({ "oneOf": [{ "const": "a", "title": "A" }, { "const": "b" }] })), "a b");
        assert_eq!(of(json!({ "type": "array", "items": { "$ref": "#/$defs/sky" } })), "clear rain");
        assert_eq!(of(json!({ "type": "boolean" })), "true false");
        assert_eq!(of(json!({ "type": "string" })), "");
        assert_eq!(of(json!({ "$ref": "#/properties/x" })), "");
    }

    #[test]
    fn a_number_keeps_its_text() {
        let schema = json!({ "properties": { "x": { "type": "number" } } });
        for text in ["1.0", "12345678901234567890", "0.10", "-3"] {
            let value = typed(schema.as_object().unwrap(), "x", vec![text.to_owned()]);
            assert!(value.is_number(), "{text}");
            assert_eq!(value.to_string(), text);
        }
    }

    #[test]
    fn what_cannot_be_converted_stays_for_the_schema_to_name() {
        check(json!({ "type": "integer" }), &["five"], json!("five"));
        check(json!({ "type": "integer" }), &["05"], json!("05"));
        check(json!({ "type": "boolean" }), &["yes"], json!("yes"));
        check(json!({ "type": "integer" }), &["1", "2"], json!(["1", "2"]));
        check(json!({ "$ref": "#/$defs/loop" }), &["5"], json!("5"));
    }

    #[test]
    fn repeated_names_make_an_array() {
        let numbers = json!({ "type": "array", "items": { "type": "integer" } });
        check(numbers.clone(), &["1", "2"], json!([1, 2]));
        check(numbers, &["1"], json!([1]));
        check(json!({ "type": ["string", "array"] }), &["a"], json!("a"));
    }
}
