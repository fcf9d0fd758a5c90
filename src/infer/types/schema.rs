//! The schema of values, where fields can't say what they are.

use serde_json::{Map, Value, json};

use super::{
    MOST_FIELDS,
    guess::{LEAST_WHOLE, is_number, is_whole},
};
use crate::infer::candidates::Candidate;

/// What the extractor gives for numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Numbers {
    /// Texts, which become what the schema says.
    Texts,
    /// Numbers as the reply has them.
    AsSent,
    /// Numbers that may have a fraction at any time, as those of metrics.
    Measured,
}

impl Numbers {
    pub(super) fn of(candidate: &Candidate) -> Self {
        match candidate.name() {
            "metrics" => Self::Measured,
            _ if candidate.finds_texts() => Self::Texts,
            _ => Self::AsSent,
        }
    }
}

/// The schema of values that were all found in the same place.
pub(super) fn schema(values: &[&Value], name: &str, depth: usize, numbers: Numbers) -> Value {
    /// Deeper than that nobody reads a schema.
    const DEEPEST: usize = 8;
    let is_null = |value: &&Value| value.is_null();
    let telling: Vec<&Value> = values.iter().copied().filter(|value| !value.is_null()).collect();
    let nullable = values.iter().any(is_null);
    let every = |test: fn(&Value) -> bool| !telling.is_empty() && telling.iter().all(|value| test(value));
    let with_null = |kind: &str| if nullable { json!([kind, "null"]) } else { json!(kind) };
    if depth > DEEPEST || telling.is_empty() {
        return json!({});
    }
    if every(Value::is_object) {
        let objects: Vec<_> = telling.iter().filter_map(|value| value.as_object()).collect();
        let mut properties = Map::new();
        let mut required = Vec::new();
        for name in objects.iter().flat_map(|object| object.keys()) {
            if properties.contains_key(name) {
                continue;
            }
            let found: Vec<&Value> = objects.iter().filter_map(|object| object.get(name)).collect();
            if found.len() == objects.len() {
                required.push(Value::from(name.as_str()));
            }
            properties.insert(name.clone(), schema(&found, name, depth + 1, numbers));
        }
        // The labels of a metric are its own.
        if properties.is_empty() || properties.len() > MOST_FIELDS || (depth > 0 && name == "labels") {
            return json!({ "type": with_null("object") });
        }
        let mut schema = json!({ "type": with_null("object"), "properties": properties });
        if !required.is_empty() {
            schema["required"] = required.into();
        }
        schema
    } else if every(Value::is_array) {
        let items: Vec<&Value> = telling.iter().filter_map(|value| value.as_array()).flatten().collect();
        match items.is_empty() {
            true => json!({ "type": with_null("array") }),
            false => {
                json!({ "type": with_null("array"), "items": schema(&items, name, depth + 1, numbers) })
            }
        }
    } else if every(Value::is_boolean) {
        json!({ "type": with_null("boolean") })
    } else if every(Value::is_number) {
        let whole = telling.iter().all(|value| is_whole(&value.to_string()));
        let is_integer = whole && telling.len() >= LEAST_WHOLE && numbers != Numbers::Measured;
        json!({ "type": with_null(if is_integer { "integer" } else { "number" }) })
    } else if every(Value::is_string) {
        let texts: Vec<&str> = telling.iter().filter_map(|value| value.as_str()).collect();
        let every = |test: fn(&str) -> bool| {
            numbers == Numbers::Texts && !nullable && texts.iter().all(|text| test(text.trim()))
        };
        let kind = if every(is_whole) && texts.len() >= LEAST_WHOLE {
            "integer"
        } else if every(is_number) {
            "number"
        } else if every(|text| text == "true" || text == "false") {
            "boolean"
        } else {
            "string"
        };
        json!({ "type": with_null(kind) })
    } else {
        json!({})
    }
}
