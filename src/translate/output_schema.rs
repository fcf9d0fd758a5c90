//! The declared output schema: it types the strings of a value and every success meets it.

use serde_json::{Map, Value, json};

use super::{
    convert,
    read_error::Why,
    work_budget::{STOPPED, WorkBudget},
};
use crate::model::{CHECK_STEP_LIMIT, JsonText, Schema, SchemaDocument, SchemaError, Structured, Violation};

/// What a route promises of its `structuredContent`.
///
/// Two kinds: a schema whose root admits objects is advertised as it is (with `"type": "object"` made
/// explicit); one for anything else is advertised as an object with the value under `result`, because clients
/// of the older eras drop the whole tool list over a root that is no object.
#[derive(Debug)]
pub struct OutputSchema {
    schema: Schema,
    root: Root,
    wrap: Wrap,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Root {
    Object,
    Other,
}

impl Root {
    /// That of a schema, which says it in any case then.
    fn of(document: Map<String, Value>) -> (Self, Map<String, Value>) {
        match document.get("type") {
            Some(kind) if kind == "object" => (Self::Object, document),
            Some(_) => (Self::Other, document),
            None => {
                let kind = ("type".to_owned(), Value::from("object"));
                (Self::Object, std::iter::once(kind).chain(document).collect())
            }
        }
    }
}

/// Which clients get a value that is no object as `{"result": …}`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Wrap {
    /// All.
    #[default]
    Always,
    /// Those of revision 2025-11-25 and before; newer ones get the bare value.
    LegacyClients,
}

/// Why a schema can't be promised.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum OutputSchemaError {
    /// It is not a schema.
    #[error(transparent)]
    Schema(#[from] SchemaError),
    /// It points to its own root, which wrapping moves.
    #[error(
        "`$ref: \"#\"` can't be used in a schema whose root is not an object; put the part under `$defs`"
    )]
    RootReference,
}

impl OutputSchema {
    /// How many violations are told of one value.
    const MOST_VIOLATIONS: usize = 3;

    /// A schema whose root may leave out that it is an object.
    ///
    /// # Errors
    ///
    /// [`OutputSchemaError`] when it is no schema, or can't be advertised to every client.
    pub fn new(document: Map<String, Value>, wrap: Wrap) -> Result<Self, OutputSchemaError> {
        let (root, document) = Root::of(document);
        if root == Root::Other && refers_to_root(&Value::Object(document.clone())) {
            return Err(OutputSchemaError::RootReference);
        }
        Ok(Self { schema: Schema::compile(&document)?, root, wrap })
    }

    /// The schema as the author means it: of the value before any wrapping.
    pub fn document(&self) -> &SchemaDocument {
        self.schema.document()
    }

    /// From how many values on a result may take more to check than is allowed, where that is a small number.
    pub fn values_too_costly(&self) -> Option<u64> {
        self.schema.values_too_costly()
    }

    /// What clients that take objects only are told.
    pub fn advertised(&self) -> SchemaDocument {
        let document = self.schema.document();
        match self.root {
            Root::Object => document.clone(),
            Root::Other => wrapped(Map::clone(document)).into(),
        }
    }

    /// What clients that take any JSON value are told, where that differs.
    pub fn advertised_bare(&self) -> Option<SchemaDocument> {
        (self.root == Root::Other && self.wrap == Wrap::LegacyClients).then(|| self.schema.document().clone())
    }

    /// Types and checks a value.
    ///
    /// `source` is the JSON text that the value was read from, if it is still the same value: then that text
    /// is what goes out. A check that takes more than `stop` allows is not begun.
    ///
    /// # Errors
    ///
    /// A sentence that names the field, what was expected and what was found.
    pub(crate) fn enforce(
        &self,
        mut value: Value,
        source: Option<&JsonText>,
        stop: Option<&WorkBudget>,
    ) -> Result<Structured, Why> {
        let mut changed = source.is_none();
        if self.root == Root::Object && !value.is_object() {
            value = json!({ "result": value });
            changed = true;
        }
        changed |= convert::by_schema(&mut value, self.schema.document());
        let violations = self.violations(&value, stop)?;
        if !violations.is_empty() {
            let told: Vec<_> = violations
                .iter()
                .map(|violation| match violation.path.as_str() {
                    "" => format!("it {}", violation.what),
                    path => format!("`{path}` {}", violation.what),
                })
                .collect();
            let plain: Vec<_> = violations.iter().map(|violation| violation.plain.as_str()).collect();
            return Err(Why::new(told.join("; "), plain.join("; ")));
        }
        let json = match source {
            // What was checked is the tree; a text that says more is not what was checked.
            Some(source) if !changed && source.is_all_of(&value) => source.clone(),
            _ => JsonText::of(&value),
        };
        let structured = match self.root {
            Root::Object => Structured::new(json),
            Root::Other => Structured::under_result(json),
        };
        Ok(self.wrap.apply(structured))
    }
}

impl OutputSchema {
    fn violations(&self, value: &Value, stop: Option<&WorkBudget>) -> Result<Vec<Violation>, Why> {
        let Some((stop, steps_left)) = stop.and_then(|stop| Some((stop, stop.steps_left()?))) else {
            return Ok(self.schema.violations(value, Self::MOST_VIOLATIONS));
        };
        let step_limit = steps_left.saturating_mul(WorkBudget::CHECK_STEPS).min(CHECK_STEP_LIMIT);
        let checked = self.schema.check(value, Self::MOST_VIOLATIONS, step_limit);
        let steps = checked.as_ref().map_or(u64::MAX, |checked| checked.steps / WorkBudget::CHECK_STEPS);
        if stop.allows(steps) {
            Ok(checked.map_or_else(|_| Vec::new(), |checked| checked.violations))
        } else {
            Err(STOPPED.into())
        }
    }
}

impl Wrap {
    /// A structure with this choice made.
    pub(crate) fn apply(self, structured: Structured) -> Structured {
        match self {
            Self::Always => structured,
            Self::LegacyClients => structured.bare_where_allowed(),
        }
    }
}

/// `{"result": …}` as a schema. Definitions move to the new root, where references to them point.
fn wrapped(mut document: Map<String, Value>) -> Map<String, Value> {
    let mut outer = Map::new();
    let mut hoisted = Map::new();
    for key in ["$schema", "$defs", "definitions"] {
        if let Some(value) = document.shift_remove(key) {
            hoisted.insert(key.to_owned(), value);
        }
    }
    outer.insert("type".into(), "object".into());
    outer.insert("properties".into(), json!({ "result": document }));
    outer.insert("required".into(), json!(["result"]));
    outer.extend(hoisted);
    outer
}

fn refers_to_root(schema: &Value) -> bool {
    match schema {
        Value::Object(members) => members.iter().any(|(key, value)| {
            (key == "$ref" && value.as_str().is_some_and(|r| r == "#" || r.starts_with("#/properties")))
                || refers_to_root(value)
        }),
        Value::Array(items) => items.iter().any(refers_to_root),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => false,
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::*;
    use crate::model::Shapes;

    fn output(schema: Value, wrap: Wrap) -> OutputSchema {
        OutputSchema::new(schema.as_object().unwrap().clone(), wrap).unwrap()
    }

    #[test]
    fn a_value_that_is_no_object_is_promised_and_sent_under_result() {
        let schema = output(
            json!({"type": "array", "items": {"$ref": "#/$defs/n"}, "$defs": {"n": {"type": "integer"}}}),
            Wrap::LegacyClients,
        );
        let advertised = schema.advertised();
        assert_eq!(advertised["type"], "object");
        let sent = schema.enforce(json!(["1", 2]), None, None).unwrap();
        assert_eq!(sent.value(Shapes::ObjectsOnly).to_string(), r#"{"result":[1,2]}"#);
        assert_eq!(sent.value(Shapes::Any).to_string(), "[1,2]");
        assert!(Schema::compile(&advertised).unwrap().admits(&sent.value(Shapes::ObjectsOnly)));
        assert!(schema.enforce(json!("x"), None, None).unwrap_err().to_string().contains("must be an array"));
    }

    #[test]
    fn a_scalar_meets_an_object_schema_that_names_result() {
        let schema = output(
            json!({"type": "object", "properties": {"result": {"type": "integer"}}, "required": ["result"]}),
            Wrap::Always,
        );
        assert_eq!(schema.enforce(json!("10"), None, None).unwrap().json().as_str(), r#"{"result":10}"#);
    }

    #[test]
    fn a_name_that_comes_twice_goes_out_as_it_was_checked() {
        let schema = output(json!({"properties": {"a": {"type": "number"}}}), Wrap::Always);
        let source = JsonText::check(&Bytes::from_static(br#"{"a": "x:y", "a": 1}"#)).unwrap();
        assert_eq!(
            schema.enforce(source.parse(), Some(&source), None).unwrap().json().as_str(),
            r#"{"a":1}"#
        );
    }

    #[test]
    fn a_value_that_needs_no_change_goes_out_as_the_upstream_wrote_it() {
        let schema = output(json!({"properties": {"a": {"type": "number"}}}), Wrap::Always);
        let source = JsonText::check(&Bytes::from_static(b"{ \"b\": 1.0,  \"a\": 2.50 }")).unwrap();
        assert_eq!(
            schema.enforce(source.parse(), Some(&source), None).unwrap().json().as_str(),
            source.as_str()
        );
        assert_eq!(schema.advertised()["type"], "object");
    }
}
