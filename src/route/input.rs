//! Input schema of a route: checks arguments, and converts strings and integers to the types of the schema.
//!
//! `3.0` and `1e2` are integers in JSON Schema (2020-12 Validation, section 6.1.1), and clients with only one
//! number type send them. A legacy server does not find a room at `/rooms/3.0`, so integers are written
//! without a decimal point and exponent.

use std::sync::Arc;

use serde_json::{Map, Number, Value};

use super::path::scalar_text;
use crate::model::{
    Arguments, CHECK_STEP_LIMIT, Schema, SchemaDocument, SchemaError, admit_null, check_number,
    in_place_subschemas, listed_values, own_types,
};
use crate::translate::without_exponent;

/// Compiled input schema of a route. Its root is an object.
#[derive(Debug)]
pub struct InputSchema {
    document: SchemaDocument,
    /// The schema in `document`; where a subschema has `nullable: true` of OpenAPI 3.0, it also admits
    /// `null`.
    schema: Schema,
    defaults: Vec<(String, Value)>,
}

/// Error for arguments whose validation takes more than [`CHECK_STEP_LIMIT`] steps.
const TOO_COSTLY: &str = "the arguments are too expensive to validate: more than 50,000,000 steps, or \
     subschemas nested too deeply; send fewer, shorter or less nested ones";

impl InputSchema {
    /// Maximum number of violations in one error.
    const MAX_VIOLATIONS: usize = 5;

    /// Compiles a schema whose root is an object.
    ///
    /// # Errors
    ///
    /// [`SchemaError`] if the schema is invalid.
    pub fn new(document: &Map<String, Value>) -> Result<Self, SchemaError> {
        let mut nullable = document.clone();
        // Arguments are always an object, even if the root is declared nullable.
        nullable.remove("nullable");
        let has_nulls = admit_nulls_below(&mut nullable);
        // If a `$ref` into a nullable schema can't be resolved in the rewritten schema, the original applies.
        let nullable = has_nulls.then(|| Schema::compile(&nullable).ok()).flatten();
        let schema = nullable.map_or_else(|| Schema::compile(document), Ok)?;
        let document =
            if has_nulls { Arc::new(document.clone()) } else { SchemaDocument::clone(schema.document()) };
        let properties = document.get("properties").and_then(Value::as_object);
        let default =
            |(name, property): (&String, &Value)| Some((name.clone(), property.get("default")?.clone()));
        let defaults = properties.into_iter().flatten().filter_map(default).collect();
        Ok(Self { defaults, schema, document })
    }

    /// The schema as clients receive it.
    pub fn document(&self) -> &SchemaDocument {
        &self.document
    }

    /// Number of values in the arguments from which on a check may exceed the step limit; `None` if a
    /// call cannot have that many.
    pub fn costly_value_count(&self) -> Option<u64> {
        self.schema.costly_value_count()
    }

    /// Converts one or more strings to the type of the property `name`. A string that cannot be converted
    /// remains a string, so that [`check`](Self::check) reports it.
    pub fn coerce_texts(&self, name: &str, mut texts: Vec<String>) -> Value {
        let property = AdmittedValues::from_property(self.document(), name);
        match texts.pop() {
            Some(text) if texts.is_empty() && (property.accepts("string") || !property.accepts("array")) => {
                property.coerce(text)
            }
            last => {
                let items = AdmittedValues::from_schema(self.document(), property.items);
                texts.into_iter().chain(last).map(|text| items.coerce(text)).collect()
            }
        }
    }

    /// Values, as strings, that the schema lists for an argument or for the items of an array argument: the
    /// values of `enum` and `const`, or `true` and `false` for a boolean.
    pub fn listed(&self, name: &str) -> Vec<String> {
        let property = AdmittedValues::from_property(self.document(), name);
        let items = AdmittedValues::from_schema(self.document(), property.items);
        let values_of = |admitted: &AdmittedValues<'_>| -> Vec<String> {
            let is_boolean = admitted.values.is_empty() && admitted.accepts("boolean");
            let flags = if is_boolean { &[Value::Bool(true), Value::Bool(false)][..] } else { &[] };
            admitted.values.iter().copied().chain(flags).filter_map(scalar_text).collect()
        };
        [values_of(&property), values_of(&items)].concat()
    }

    /// Names of the arguments that every call needs: required, and without a default.
    pub fn required(&self) -> impl Iterator<Item = &str> {
        let required = self.document().get("required").and_then(Value::as_array);
        let names = required.into_iter().flatten().filter_map(Value::as_str);
        names.filter(|name| !self.defaults.iter().any(|(argument, _)| argument == name))
    }

    /// Adds the defaults of missing arguments and validates all. Normalizes integers: `3.0` becomes `3`.
    ///
    /// # Errors
    ///
    /// A message for the model that lists each invalid argument with the expected and the found value.
    pub fn check(&self, arguments: Arguments) -> Result<Arguments, String> {
        self.check_within(arguments, CHECK_STEP_LIMIT).unwrap_or_else(|_| Err(TOO_COSTLY.to_owned()))
    }

    /// Like [`check`](Self::check), with at most `step_limit` steps of validation.
    ///
    /// # Errors
    ///
    /// The arguments, with defaults added, if the validation takes more steps.
    pub fn check_within(
        &self,
        mut arguments: Arguments,
        step_limit: u64,
    ) -> Result<Result<Arguments, String>, Box<Arguments>> {
        for (name, default) in &self.defaults {
            if arguments.get(name).is_none() {
                arguments.values.insert(name.clone(), default.clone());
            }
        }
        let Arguments { values, input_responses } = arguments;
        let value = Value::Object(values);
        let checked = self.schema.check(&value, Self::MAX_VIOLATIONS, step_limit);
        let Value::Object(mut map) = value else { unreachable!("arguments are an object") };
        let Ok(checked) = checked else {
            return Err(Box::new(Arguments { values: map, input_responses }));
        };
        if checked.violations.is_empty() {
            self.normalize_integers(&mut map);
            return Ok(Ok(Arguments { values: map, input_responses }));
        }
        let messages = checked.violations.iter().map(|violation| match violation.path.as_str() {
            "" => {
                let properties = self.document().get("properties").and_then(Value::as_object);
                let names = properties.into_iter().flat_map(Map::keys).map(String::as_str);
                format!("the arguments object {}; this tool takes {}", violation.message, quoted_names(names))
            }
            path => format!("argument `{path}` {}", violation.message),
        });
        Ok(Err(messages.collect::<Vec<_>>().join(". ")))
    }

    /// Removes the decimal point and exponent of integers in the arguments.
    fn normalize_integers(&self, arguments: &mut Map<String, Value>) {
        let properties = self.document().get("properties").and_then(Value::as_object);
        let mut steps_left = STEP_LIMIT;
        for (name, value) in arguments {
            if let Some(property) = properties.and_then(|properties| properties.get(name)) {
                normalize_integers(self.document(), property, value, &mut steps_left);
            }
        }
    }
}

/// Joins names in backticks for an error message; `none` without names.
pub fn quoted_names<'n>(names: impl Iterator<Item = &'n str>) -> String {
    let names = names.map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ");
    if names.is_empty() { "none".to_owned() } else { names }
}

/// Adds `null` to every subschema with `nullable: true`. Returns whether there was one.
fn admit_nulls(schema: &mut Value) -> bool {
    match schema {
        Value::Object(members) => {
            let changed = admit_nulls_below(members);
            let is_nullable = members.get("nullable") == Some(&Value::Bool(true));
            if is_nullable {
                admit_null(members);
            }
            changed || is_nullable
        }
        Value::Array(items) => items.iter_mut().fold(false, |changed, item| admit_nulls(item) | changed),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => false,
    }
}

/// Like [`admit_nulls`], only for the subschemas of a schema. Values of keywords such as `enum` are not
/// schemas; keywords such as `properties` map names to schemas.
fn admit_nulls_below(schema: &mut Map<String, Value>) -> bool {
    let admit = |(keyword, part): (&String, &mut Value)| match (keyword.as_str(), part) {
        ("enum" | "const" | "default" | "examples", _) => false,
        (
            "properties" | "patternProperties" | "dependentSchemas" | "$defs" | "definitions",
            Value::Object(named),
        ) => named.values_mut().fold(false, |changed, part| admit_nulls(part) | changed),
        (_, part) => admit_nulls(part),
    };
    schema.iter_mut().map(admit).fold(false, |changed, part| changed | part)
}

/// Types, values and array items that a schema declares, itself or in its [`in_place_subschemas`].
#[derive(Debug, Default)]
struct AdmittedValues<'s> {
    types: Vec<&'s str>,
    values: Vec<&'s Value>,
    items: Option<&'s Value>,
}

impl<'s> AdmittedValues<'s> {
    fn from_property(root: &'s Map<String, Value>, name: &str) -> Self {
        Self::from_schema(root, root.get("properties").and_then(|properties| properties.get(name)))
    }

    fn from_schema(root: &'s Map<String, Value>, schema: Option<&'s Value>) -> Self {
        let mut admitted = Self::default();
        let parts = schema.and_then(Value::as_object).map(|schema| in_place_subschemas(root, schema));
        for part in parts.into_iter().flatten() {
            admitted.types.extend(own_types(part));
            admitted.values.extend(listed_values(part));
            admitted.items = admitted.items.or_else(|| part.get("items"));
        }
        admitted
    }

    fn accepts(&self, kind: &str) -> bool {
        self.types.contains(&kind)
    }

    /// Converts a string to a type that the schema admits; otherwise it remains a string.
    fn coerce(&self, text: String) -> Value {
        if self.accepts("string") || self.values.iter().any(|value| **value == *text) {
            return Value::String(text);
        }
        // The number keeps its spelling: `1.0` stays `1.0`.
        let parsed = serde_json::from_str(&text).ok().filter(|value| match value {
            Value::Null | Value::Bool(_) | Value::Number(_) if self.values.contains(&value) => true,
            Value::Null => text == "null" && self.accepts("null"),
            Value::Bool(flag) => text == flag.to_string() && self.accepts("boolean"),
            Value::Number(_) => {
                check_number(&text).is_ok() && (self.accepts("number") || self.accepts("integer"))
            }
            Value::Object(_) => self.accepts("object"),
            Value::String(_) | Value::Array(_) => false,
        });
        parsed.unwrap_or(Value::String(text))
    }
}

/// Maximum number of pairs of a value and a schema that are visited per call, so that the time is bounded.
/// Further integers keep their spelling.
const STEP_LIMIT: u32 = 10_000;

/// Removes the decimal point and exponent of integers in a value, until no steps are left.
fn normalize_integers(root: &Map<String, Value>, schema: &Value, value: &mut Value, steps_left: &mut u32) {
    let Some(schema) = schema.as_object().filter(|_| *steps_left > 0) else { return };
    for schema in in_place_subschemas(root, schema) {
        let Some(remaining) = steps_left.checked_sub(1) else { return };
        *steps_left = remaining;
        match value {
            Value::Number(number) => {
                if own_types(schema).any(|kind| kind == "integer")
                    && let Some(integer) = to_plain_integer(number)
                {
                    *number = integer;
                }
            }
            Value::Array(items) => {
                if let Some(item_schema) = schema.get("items") {
                    items.iter_mut().for_each(|item| normalize_integers(root, item_schema, item, steps_left));
                }
            }
            Value::Object(members) => {
                let properties = schema.get("properties").and_then(Value::as_object);
                for (name, property) in properties.into_iter().flatten() {
                    if let Some(member) = members.get_mut(name) {
                        normalize_integers(root, property, member, steps_left);
                    }
                }
            }
            Value::Null | Value::Bool(_) | Value::String(_) => return,
        }
    }
}

/// Returns a number without decimal point and exponent; `None` if it has neither, or is not an integer.
fn to_plain_integer(number: &Number) -> Option<Number> {
    let text = number.to_string();
    if !text.contains(['.', 'e', 'E']) {
        return None;
    }
    let text = without_exponent(&text)?;
    let (integer, fraction) = text.split_once('.').unwrap_or((&text, ""));
    if fraction.bytes().all(|digit| digit == b'0') { integer.parse().ok() } else { None }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[track_caller]
    fn check(arguments: Value, expected: Result<&str, &str>) {
        let schema = json!({
            "type": "object",
            "properties": {"city": {"enum": ["oslo", "bergen"]}, "units": {"type": "string", "default": "metric"}},
            "required": ["city"],
            "additionalProperties": false,
        });
        let input = InputSchema::new(schema.as_object().unwrap()).unwrap();
        let checked = input.check(arguments.as_object().unwrap().clone().into());
        let checked = checked.map(|arguments| Value::Object(arguments.values).to_string());
        assert_eq!(checked, expected.map(str::to_owned).map_err(str::to_owned));
    }

    #[test]
    fn null_is_accepted_if_the_schema_is_nullable() {
        let schema = json!({
            "type": "object",
            "properties": {
                "kinds": {"type": "array", "items": {"type": "string"}, "nullable": true},
                "depth": {"type": "integer", "minimum": 0, "nullable": true},
                "mode": {"type": "string", "anyOf": [{"const": "a"}, {"const": "b"}], "nullable": true},
                "inner": {"type": "object", "properties": {"level": {"enum": ["low"], "nullable": true}}},
                "target": {"type": "string"},
                "column": {"enum": [{"type": "text", "nullable": true}]},
                "nullable": true,
            },
            "required": ["target"],
        });
        let input = InputSchema::new(schema.as_object().unwrap()).unwrap();
        let check = |arguments: Value| input.check(arguments.as_object().unwrap().clone().into());
        let null =
            json!({"target": "a", "kinds": null, "depth": null, "mode": null, "inner": {"level": null}});
        assert_eq!(Value::Object(check(null.clone()).unwrap().values), null);
        check(json!({"target": "a", "kinds": ["b"], "depth": 1})).unwrap();
        // Neither a value nor a property of that name makes a schema nullable.
        check(json!({"target": "a", "column": {"type": "text", "nullable": true}, "nullable": 5})).unwrap();
        assert_eq!(
            check(json!({"target": null})).unwrap_err(),
            "argument `target` must be a string; found `null`"
        );
        assert!(check(json!({"target": "a", "depth": -1})).is_err());
        assert!(check(json!({"target": "a", "mode": "c"})).is_err());
        assert_eq!(input.document().get("properties"), schema.get("properties"));
    }

    #[test]
    fn argument_errors_are_reported_and_defaults_are_applied() {
        check(json!({"city": "oslo"}), Ok(r#"{"city":"oslo","units":"metric"}"#));
        check(json!({"city": "olso"}), Err("argument `city` must be one of `oslo`, `bergen`; found `olso`"));
        check(json!({}), Err("argument `city` is required; found nothing"));
        check(
            json!({"city": "oslo", "town": 1}),
            Err("the arguments object must not have the property `town`; this tool takes `city`, `units`"),
        );
    }
}

#[cfg(test)]
mod texts_tests {
    use serde_json::json;

    use super::*;

    #[track_caller]
    fn check(property: Value, texts: &[&str], expected: Value) {
        let schema = json!({
            "properties": { "x": property },
            "$defs": { "count": { "type": "integer" }, "loop": { "$ref": "#/$defs/loop" } },
        });
        let texts = texts.iter().map(|text| (*text).to_owned()).collect();
        let input = InputSchema::new(schema.as_object().unwrap()).unwrap();
        assert_eq!(input.coerce_texts("x", texts).to_string(), expected.to_string());
    }

    #[test]
    fn a_text_is_converted_to_the_type_in_the_schema() {
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
        let values = |property: Value| {
            let root =
                json!({ "properties": { "x": property }, "$defs": { "sky": { "enum": ["clear", "rain"] } } });
            InputSchema::new(root.as_object().unwrap()).unwrap().listed("x").join(" ")
        };
        assert_eq!(values(json!({ "enum": ["a", 5, null, true] })), "a 5 true");
        assert_eq!(values(json!({ "$ref": "#/$defs/sky" })), "clear rain");
        assert_eq!(values(json!({ "oneOf": [{ "const": "a", "title": "A" }, { "const": "b" }] })), "a b");
        assert_eq!(values(json!({ "type": "array", "items": { "$ref": "#/$defs/sky" } })), "clear rain");
        assert_eq!(values(json!({ "type": "boolean" })), "true false");
        assert_eq!(values(json!({ "type": "string" })), "");
        assert_eq!(values(json!({ "$ref": "#/properties/x" })), "");
    }

    #[test]
    fn a_number_keeps_its_text() {
        let schema = json!({ "properties": { "x": { "type": "number" } } });
        let input = InputSchema::new(schema.as_object().unwrap()).unwrap();
        for text in ["1.0", "12345678901234567890", "0.10", "-3"] {
            let value = input.coerce_texts("x", vec![text.to_owned()]);
            assert!(value.is_number(), "{text}");
            assert_eq!(value.to_string(), text);
        }
    }

    #[test]
    fn unconvertible_texts_are_left_for_the_schema_to_report() {
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

#[cfg(test)]
mod integers_tests {
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
        InputSchema::new(schema.as_object().unwrap()).unwrap().normalize_integers(&mut arguments);
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
        let (mut value, mut steps_left) = (json!(vec![1; 1000]), STEP_LIMIT);
        let property = &schema["properties"]["x"];
        normalize_integers(schema.as_object().unwrap(), property, &mut value, &mut steps_left);
        assert_eq!(steps_left, 0);
    }
}
