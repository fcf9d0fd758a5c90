//! Texts to the values that an input schema asks for: what stands in a path, a query or a URI is text, and so are the
//! arguments of prompts.

use serde_json::{Map, Number, Value};

use crate::tool::check_number;

/// Texts as the value that the schema asks for under this name. What can't be such a value stays a text, so that
/// the check of the schema says what is wrong with it.
pub(super) fn typed(schema: &Map<String, Value>, name: &str, mut texts: Vec<String>) -> Value {
    let property = schema.get("properties").and_then(|properties| properties.get(name));
    let property = property.map(|property| Wanted::of(schema, property));
    let property = property.unwrap_or_default();
    match texts.pop() {
        Some(only) if texts.is_empty() && (property.string || !property.array) => property.value(only),
        last => {
            let items = property.items.map(|items| Wanted::of(schema, items));
            let items = items.unwrap_or_default();
            texts.into_iter().chain(last).map(|text| items.value(text)).collect()
        }
    }
}

/// The values that the schema lists for a name, as texts; of a list, those of its items.
pub(super) fn listed(schema: &Map<String, Value>, name: &str) -> Vec<String> {
    let property = schema.get("properties").and_then(|properties| properties.get(name));
    let mut found = Vec::new();
    if let Some(property) = property {
        let mut schemas_left = Wanted::MOST_SCHEMAS;
        list(schema, property, Wanted::REFERENCES_FOLLOWED, &mut schemas_left, &mut found);
    }
    let as_text = |value: Value| match value {
        Value::String(text) => Some(text),
        Value::Bool(_) | Value::Number(_) => Some(value.to_string()),
        Value::Null | Value::Array(_) | Value::Object(_) => None,
    };
    found.into_iter().filter_map(as_text).collect()
}

fn list(
    root: &Map<String, Value>,
    schema: &Value,
    depth: u8,
    schemas_left: &mut usize,
    found: &mut Vec<Value>,
) {
    let (Some(schema), Some(left)) = (schema.as_object(), schemas_left.checked_sub(1)) else { return };
    *schemas_left = left;
    match (schema.get("enum"), schema.get("const"), schema.get("type").and_then(Value::as_str)) {
        (Some(Value::Array(values)), _, _) => return found.extend(values.iter().cloned()),
        (_, Some(value), _) => return found.push(value.clone()),
        (_, _, Some("boolean")) => return found.extend([true.into(), false.into()]),
        _ => {}
    }
    let Some(depth) = depth.checked_sub(1) else { return };
    let target = schema.get("$ref").and_then(Value::as_str).and_then(|pointer| local(root, pointer));
    for part in target.into_iter().chain(schema.get("items")) {
        list(root, part, depth, schemas_left, found);
    }
    for key in ["anyOf", "oneOf"] {
        for part in schema.get(key).and_then(Value::as_array).into_iter().flatten() {
            list(root, part, depth, schemas_left, found);
        }
    }
}

/// What kinds of value a schema admits, as far as it says so outright.
#[derive(Debug, Default)]
struct Wanted<'a> {
    string: bool,
    number: bool,
    boolean: bool,
    null: bool,
    array: bool,
    object: bool,
    fixed: Vec<&'a Value>,
    items: Option<&'a Value>,
}

impl<'a> Wanted<'a> {
    /// How many `$ref` and combinations are looked into, one inside the other; a schema may refer to itself.
    const REFERENCES_FOLLOWED: u8 = 8;
    /// How many schemas are looked into in all: combinations may refer to combinations, again and again.
    const MOST_SCHEMAS: usize = 256;

    fn of(root: &'a Map<String, Value>, schema: &'a Value) -> Self {
        let (mut wanted, mut schemas_left) = (Self::default(), Self::MOST_SCHEMAS);
        wanted.look(root, schema, Self::REFERENCES_FOLLOWED, &mut schemas_left);
        wanted
    }

    fn look(&mut self, root: &'a Map<String, Value>, schema: &'a Value, depth: u8, schemas_left: &mut usize) {
        let (Some(schema), Some(left)) = (schema.as_object(), schemas_left.checked_sub(1)) else { return };
        *schemas_left = left;
        match schema.get("type") {
            Some(Value::String(kind)) => self.admit(kind),
            Some(Value::Array(kinds)) => {
                kinds.iter().filter_map(Value::as_str).for_each(|kind| self.admit(kind))
            }
            _ => {
                self.fixed.extend(schema.get("enum").and_then(Value::as_array).into_iter().flatten());
                self.fixed.extend(schema.get("const"));
            }
        }
        self.items = self.items.or_else(|| schema.get("items"));
        let Some(depth) = depth.checked_sub(1) else { return };
        if let Some(target) =
            schema.get("$ref").and_then(Value::as_str).and_then(|pointer| local(root, pointer))
        {
            self.look(root, target, depth, schemas_left);
        }
        for key in ["anyOf", "oneOf", "allOf"] {
            for part in schema.get(key).and_then(Value::as_array).into_iter().flatten() {
                self.look(root, part, depth, schemas_left);
            }
        }
    }

    fn admit(&mut self, kind: &str) {
        match kind {
            "string" => self.string = true,
            "number" | "integer" => self.number = true,
            "boolean" => self.boolean = true,
            "null" => self.null = true,
            "array" => self.array = true,
            "object" => self.object = true,
            _ => {}
        }
    }

    fn value(&self, text: String) -> Value {
        if self.string {
            return Value::String(text);
        }
        if let Some(fixed) = self.fixed.iter().find(|fixed| is_written(fixed, &text)) {
            return (*fixed).clone();
        }
        match text.as_str() {
            "true" if self.boolean => return Value::Bool(true),
            "false" if self.boolean => return Value::Bool(false),
            "null" if self.null => return Value::Null,
            _ => {}
        }
        // The number keeps its text: `1.0` stays `1.0`.
        if self.number
            && check_number(&text).is_ok()
            && let Ok(number) = text.parse::<Number>()
        {
            return Value::Number(number);
        }
        if self.object
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

/// What `#/…` points to in a document.
pub(super) fn local<'a>(root: &'a Map<String, Value>, pointer: &str) -> Option<&'a Value> {
    let (first, rest) = match pointer.strip_prefix("#/")?.split_once('/') {
        Some((first, rest)) => (first, format!("/{rest}")),
        None => (pointer.strip_prefix("#/")?, String::new()),
    };
    root.get(first)?.pointer(&rest)
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
