//! Whole numbers written as such, where an input schema asks for one.
//!
//! To JSON Schema `3.0` and `1e2` are integers (2020-12 Validation, section 6.1.1), and clients that know only one kind of number
//! send them. An old server that is asked for `/rooms/3.0` knows no such room.

use serde_json::{Map, Number, Value};

use crate::{
    rule::without_exponent,
    tool::{combined, own_types},
};

/// How many pairs of a value and a schema are looked at for one call; what is left then stays as it was written.
const STEP_LIMIT: u32 = 10_000;

/// Writes the integers in arguments, which the schema admits, without a point and without an exponent.
pub(super) fn write_plainly(schema: &Map<String, Value>, arguments: &mut Map<String, Value>) {
    let Some(properties) = schema.get("properties").and_then(Value::as_object) else { return };
    let mut writing = Writing { root: schema, steps_left: STEP_LIMIT };
    for (name, value) in arguments {
        if let Some(property) = properties.get(name) {
            writing.value(property, value);
        }
    }
}

struct Writing<'a> {
    root: &'a Map<String, Value>,
    steps_left: u32,
}

impl<'a> Writing<'a> {
    fn value(&mut self, schema: &'a Value, value: &mut Value) {
        let Some(schema) = schema.as_object().filter(|_| self.steps_left > 0) else { return };
        for schema in combined(self.root, schema) {
            let Some(left) = self.steps_left.checked_sub(1) else { return };
            self.steps_left = left;
            match value {
                Value::Number(number) => {
                    if own_types(schema).any(|kind| kind == "integer")
                        && let Some(plain) = plain(number)
                    {
                        *number = plain;
                    }
                }
                Value::Array(items) => {
                    if let Some(of_items) = schema.get("items") {
                        items.iter_mut().for_each(|item| self.value(of_items, item));
                    }
                }
                Value::Object(members) => {
                    let properties = schema.get("properties").and_then(Value::as_object);
                    for (name, property) in properties.into_iter().flatten() {
                        if let Some(member) = members.get_mut(name) {
                            self.value(property, member);
                        }
                    }
                }
                Value::Null | Value::Bool(_) | Value::String(_) => return,
            }
        }
    }
}

/// The number without point and exponent; `None` where it has none, or is not whole.
fn plain(number: &Number) -> Option<Number> {
    let text = number.to_string();
    if !text.contains(['.', 'e', 'E']) {
        return None;
    }
    let text = without_exponent(&text)?;
    let (whole, fraction) = text.split_once('.').unwrap_or((&text, ""));
    let is_whole = fraction.bytes().all(|digit| digit == b'0');
    if is_whole { whole.parse().ok() } else { None }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[track_caller]
    fn check(property: Value, value: &str, expected: &str) {
        let schema = json!({
            "properties": { "x": property },
            "$defs": {
                "count": { "type": "integer" },
                "loop": { "anyOf": [{ "$ref": "#/$defs/loop" }, { "$ref": "#/$defs/loop" }] },
            },
        });
        let mut arguments: Map<String, Value> = serde_json::from_str(&format!(r#"{{"x":{value}}}"#)).unwrap();
        write_plainly(schema.as_object().unwrap(), &mut arguments);
        assert_eq!(arguments["x"].to_string(), expected);
    }

    #[test]
    fn an_integer_is_written_without_point_and_exponent() {
        for (value, expected) in [
            ("3.0", "3"),
            ("1e2", "100"),
            ("1.5E3", "1500"),
            ("-20e-1", "-2"),
            ("0.0", "0"),
            ("3", "3"),
            ("12345678901234567890.00", "12345678901234567890"),
            ("3.5", "3.5"),
        ] {
            check(json!({ "type": "integer" }), value, expected);
        }
        check(json!({ "type": ["integer", "null"] }), "3.0", "3");
        check(json!({ "$ref": "#/$defs/count" }), "3.0", "3");
        check(json!({ "anyOf": [{ "type": "integer" }, { "type": "string" }] }), "3.0", "3");
        check(json!({ "type": "array", "items": { "type": "integer" } }), "[1.0,2e0]", "[1,2]");
        check(json!({ "properties": { "n": { "$ref": "#/$defs/count" } } }), r#"{"n":1.0}"#, r#"{"n":1}"#);
    }

    #[test]
    fn any_other_number_keeps_its_text() {
        check(json!({ "type": "number" }), "3.0", "3.0");
        check(json!({}), "1.0", "1.0");
        check(json!({ "$ref": "#/$defs/loop" }), "1.0", "1.0");
    }

    #[test]
    fn the_work_has_an_end() {
        let schema = json!({
            "properties": { "x": { "items": { "$ref": "#/$defs/loop" } } },
            "$defs": { "loop": { "anyOf": [{ "$ref": "#/$defs/loop" }, { "$ref": "#/$defs/loop" }] } },
        });
        let mut writing = Writing { root: schema.as_object().unwrap(), steps_left: STEP_LIMIT };
        let mut value = json!(vec![1; 1000]);
        writing.value(&schema["properties"]["x"], &mut value);
        assert_eq!(writing.steps_left, 0);
    }
}
