//! Output schema that a route declares. Every success must satisfy the schema; strings are converted to the
//! types that it requires.

use serde_json::{Map, Value, json};
use settings_derive::EnumSetting;

use super::read_error::ReadError;
use super::work_budget::STOPPED;
use super::{WorkBudget, convert};
use crate::model::{CHECK_STEP_LIMIT, JsonText, Schema, SchemaDocument, SchemaError, Structured, Violation};

/// Schema of a route's `structuredContent`.
///
/// There are two kinds. A schema whose root allows objects only is advertised unchanged, with an explicit
/// `"type": "object"`. Any other schema is advertised as an object with the value under `result`: legacy
/// clients drop the whole tool list if the root of one schema is not an object.
#[derive(Debug)]
pub struct OutputSchema {
    /// Schema of the value before any wrapping.
    schema: Schema,
    /// Whether the root of the schema allows objects only.
    is_object: bool,
    wrap: WrapNonObjects,
}

/// Clients that receive a value that is not an object as `{"result": …}`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, EnumSetting)]
pub enum WrapNonObjects {
    /// All clients.
    #[default]
    Always,
    /// Clients of revision 2025-11-25 and before; newer clients receive the bare value.
    LegacyClients,
}

impl OutputSchema {
    /// Maximum number of violations reported for one value.
    const MAX_VIOLATIONS: usize = 3;

    /// Compiles a schema; its root may omit `"type": "object"`.
    ///
    /// # Errors
    ///
    /// [`SchemaError`] if it is not a valid schema, or refers to a part that wrapping moves.
    pub fn new(document: Map<String, Value>, wrap: WrapNonObjects) -> Result<Self, SchemaError> {
        let document = match document.contains_key("type") {
            true => document,
            false => [("type".to_owned(), "object".into())].into_iter().chain(document).collect(),
        };
        let is_object = document["type"] == "object";
        if !is_object && refers_outside_definitions(&Value::Object(document.clone())) {
            let message = "a schema whose root is not an object can use `$ref` only below `#/$defs`: move \
                           the part there, and write `$ref: \"#/$defs/NAME\"`";
            return Err(SchemaError { message: message.to_owned(), pointer: String::new() });
        }
        Ok(Self { schema: Schema::compile(&document)?, is_object, wrap })
    }

    /// Schema as configured; it describes the value before any wrapping.
    pub fn document(&self) -> &SchemaDocument {
        self.schema.document()
    }

    /// Number of values from which on a check may exceed its limit; `None` if the number is too large to
    /// matter.
    pub fn costly_value_count(&self) -> Option<u64> {
        self.schema.costly_value_count()
    }

    /// Schema for clients that accept objects only.
    pub fn advertised(&self) -> SchemaDocument {
        let document = self.schema.document();
        match self.is_object {
            true => document.clone(),
            false => wrap_schema(Map::clone(document)).into(),
        }
    }

    /// Schema for clients that accept any JSON value; `None` if they receive the schema of
    /// [`Self::advertised`].
    pub fn advertised_unwrapped(&self) -> Option<SchemaDocument> {
        (!self.is_object && self.wrap == WrapNonObjects::LegacyClients)
            .then(|| self.schema.document().clone())
    }

    /// Converts the strings of a value to the types that the schema requires, and validates the value. If the
    /// schema requires an object, any other value is first wrapped in `{"result": …}`.
    ///
    /// `source` is the JSON text of the value, if there is one. The text is sent if the conversion changes
    /// nothing. A check that would take more steps than `stop` allows is not run, and fails.
    ///
    /// # Errors
    ///
    /// A message with the field, the expected type and the value found.
    pub(crate) fn enforce(
        &self,
        mut value: Value,
        source: Option<&JsonText>,
        work_budget: Option<&WorkBudget>,
    ) -> Result<Structured, ReadError> {
        let mut is_changed = source.is_none();
        if self.is_object && !value.is_object() {
            value = json!({ "result": value });
            is_changed = true;
        }
        is_changed |= convert::convert_to_schema(&mut value, self.schema.document());
        let violations = self.violations(&value, work_budget)?;
        if !violations.is_empty() {
            let message = |Violation { path, message, .. }: &Violation| match path.as_str() {
                "" => format!("it {message}"),
                path => format!("`{path}` {message}"),
            };
            let messages: Vec<_> = violations.iter().map(message).collect();
            let plain: Vec<_> = violations.iter().map(|violation| violation.plain.as_str()).collect();
            return Err(ReadError::new(messages.join("; "), plain.join("; ")));
        }
        let json = match source {
            // The check was of the tree, so send the text only if it contains nothing else (such as a
            // duplicate name).
            Some(source) if !is_changed && source.matches_tree(&value) => source.clone(),
            _ => JsonText::from_value(&value),
        };
        // If the root of the schema allows other values than objects, the advertised schema requires
        // wrapping, even of an object.
        let wrapped = !self.is_object || !json.is_object();
        Ok(Structured { json, wrapped, allows_unwrapped: self.wrap == WrapNonObjects::LegacyClients })
    }

    fn violations(
        &self,
        value: &Value,
        work_budget: Option<&WorkBudget>,
    ) -> Result<Vec<Violation>, ReadError> {
        let Some((work_budget, steps_left)) =
            work_budget.and_then(|work_budget| Some((work_budget, work_budget.steps_left()?)))
        else {
            return Ok(self.schema.violations(value, Self::MAX_VIOLATIONS));
        };
        let step_limit = steps_left.saturating_mul(WorkBudget::CHECK_STEPS).min(CHECK_STEP_LIMIT);
        let checked = self.schema.check(value, Self::MAX_VIOLATIONS, step_limit);
        let steps = checked.as_ref().map_or(u64::MAX, |checked| checked.steps / WorkBudget::CHECK_STEPS);
        match work_budget.spend(steps) {
            true => Ok(checked.map_or_else(|_| Vec::new(), |checked| checked.violations)),
            false => Err(STOPPED.into()),
        }
    }
}

/// Wraps a schema for `{"result": …}`. Definitions move to the new root, because references point to the
/// root.
fn wrap_schema(mut document: Map<String, Value>) -> Map<String, Value> {
    let hoisted = ["$schema", "$defs", "definitions"].map(|key| document.shift_remove_entry(key));
    let outer = [
        ("type".to_owned(), "object".into()),
        ("properties".to_owned(), json!({ "result": document })),
        ("required".to_owned(), json!(["result"])),
    ];
    outer.into_iter().chain(hoisted.into_iter().flatten()).collect()
}

/// Whether a reference points to the root, or to a part other than a definition.
fn refers_outside_definitions(schema: &Value) -> bool {
    let is_outside = |reference: &str| {
        let is_definition = ["#/$defs/", "#/definitions/"].iter().any(|start| reference.starts_with(start));
        reference == "#" || reference.starts_with("#/") && !is_definition
    };
    match schema {
        Value::Object(members) => members.iter().any(|(key, value)| {
            (key == "$ref" && value.as_str().is_some_and(is_outside)) || refers_outside_definitions(value)
        }),
        Value::Array(items) => items.iter().any(refers_outside_definitions),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => false,
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::*;
    use crate::model::StructuredContentSupport;

    fn output(schema: Value, wrap: WrapNonObjects) -> OutputSchema {
        OutputSchema::new(schema.as_object().unwrap().clone(), wrap).unwrap()
    }

    #[test]
    fn a_value_that_is_no_object_is_promised_and_sent_under_result() {
        let schema = output(
            json!({"type": "array", "items": {"$ref": "#/$defs/n"}, "$defs": {"n": {"type": "integer"}}}),
            WrapNonObjects::LegacyClients,
        );
        let advertised = schema.advertised();
        assert_eq!(advertised["type"], "object");
        let sent = schema.enforce(json!(["1", 2]), None, None).unwrap();
        assert_eq!(sent.value(StructuredContentSupport::ObjectsOnly).to_string(), r#"{"result":[1,2]}"#);
        assert_eq!(sent.value(StructuredContentSupport::Any).to_string(), "[1,2]");
        assert!(
            Schema::compile(&advertised).unwrap().accepts(&sent.value(StructuredContentSupport::ObjectsOnly))
        );
        assert!(schema.enforce(json!("x"), None, None).unwrap_err().to_string().contains("must be an array"));
    }

    #[test]
    fn a_reference_to_a_part_that_wrapping_moves_is_an_error() {
        let list = |reference: &str| {
            let schema = json!({"type": "array", "items": {"anyOf": [{"$ref": reference}, {"type": "null"}]},
                "prefixItems": [{"type": "string"}], "$defs": {"a/b": {"type": "string"}}});
            OutputSchema::new(schema.as_object().unwrap().clone(), WrapNonObjects::Always)
        };
        assert!(list("#/$defs/a~1b").is_ok());
        for reference in ["#", "#/prefixItems/0", "#/items"] {
            assert!(list(reference).unwrap_err().message.contains("only below `#/$defs`"), "{reference}");
        }
    }

    #[test]
    fn a_scalar_meets_an_object_schema_that_names_result() {
        let schema = output(
            json!({"type": "object", "properties": {"result": {"type": "integer"}}, "required": ["result"]}),
            WrapNonObjects::Always,
        );
        assert_eq!(schema.enforce(json!("10"), None, None).unwrap().json.as_str(), r#"{"result":10}"#);
    }

    #[test]
    fn a_name_that_comes_twice_goes_out_as_it_was_checked() {
        let schema = output(json!({"properties": {"a": {"type": "number"}}}), WrapNonObjects::Always);
        let source = JsonText::check(&Bytes::from_static(br#"{"a": "x:y", "a": 1}"#)).unwrap();
        assert_eq!(schema.enforce(source.parse(), Some(&source), None).unwrap().json.as_str(), r#"{"a":1}"#);
    }

    #[test]
    fn a_value_that_needs_no_change_goes_out_as_the_upstream_wrote_it() {
        let schema = output(json!({"properties": {"a": {"type": "number"}}}), WrapNonObjects::Always);
        let source = JsonText::check(&Bytes::from_static(b"{ \"b\": 1.0,  \"a\": 2.50 }")).unwrap();
        assert_eq!(
            schema.enforce(source.parse(), Some(&source), None).unwrap().json.as_str(),
            source.as_str()
        );
        assert_eq!(schema.advertised()["type"], "object");
    }
}
