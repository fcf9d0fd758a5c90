//! Forms for elicitation: a flat object of strings, numbers, booleans and choices, as MCP permits
//! (2026-07-28, Elicitation, "Requested Schema").

use std::sync::Arc;

use serde_json::{Map, Value};

use crate::model::{Schema, kind_of, object_without_nones, pointer_segment};

/// Form for a person. Clones share the fields.
#[derive(Debug, Clone, Default)]
pub struct InputForm {
    fields: Vec<Arc<Field>>,
}

#[derive(Debug)]
struct Field {
    name: String,
    required: bool,
    schema: Schema,
}

/// Reason why a JSON Schema is not a valid form.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct FormError {
    /// Problem, in one sentence.
    pub message: String,
    /// Place in the schema, as a JSON Pointer.
    pub pointer: String,
    /// Suggested fix.
    pub help: &'static str,
}

const TYPES: [&str; 5] = ["string", "integer", "number", "boolean", "array"];
const FORMATS: [&str; 4] = ["email", "uri", "date", "date-time"];
/// Keywords that every field may have.
const COMMON: [&str; 4] = ["type", "title", "description", "default"];

impl InputForm {
    /// Maximum number of fields, as a person fills them in.
    pub const FIELD_LIMIT: usize = 50;

    /// Compiles a form from its schema.
    ///
    /// # Errors
    ///
    /// [`FormError`] if clients can't display it as a form.
    pub fn compile(document: &Map<String, Value>) -> Result<Self, FormError> {
        const HELP: &str = "write `{ type: object, properties: { … }, required: [ … ] }`";
        if document.get("type").is_some_and(|kind| kind != "object") {
            return Err(wrong("/type", "a form must be of type `object`", HELP));
        }
        let known = |key: &&String| matches!(key.as_str(), "$schema" | "type" | "properties" | "required");
        if let Some(key) = document.keys().find(|key| !known(key)) {
            return Err(wrong(&pointer("", key), format!("a form can't have the keyword `{key}`"), HELP));
        }
        let Some(Value::Object(properties)) = document.get("properties") else {
            return Err(wrong("/properties", "a form has no `properties`", HELP));
        };
        if properties.len() > Self::FIELD_LIMIT {
            let message = format!("a form can have at most {} fields", Self::FIELD_LIMIT);
            return Err(wrong("/properties", message, "use several rounds"));
        }
        let required: Vec<&str> = match document.get("required") {
            None => Vec::new(),
            Some(Value::Array(names)) => names.iter().filter_map(Value::as_str).collect(),
            Some(_) => return Err(wrong("/required", "`required` must be a list of names", HELP)),
        };
        if let Some(name) = required.iter().find(|name| !properties.contains_key(**name)) {
            let message = format!("`{name}` is required but not a field of the form");
            return Err(wrong("/required", message, HELP));
        }
        let field = |(name, field): (&String, &Value)| {
            let at = pointer("/properties", name);
            let required = required.contains(&name.as_str());
            let schema = field_schema(&at, field)?;
            Ok(Arc::new(Field { name: name.clone(), required, schema }))
        };
        Ok(Self { fields: properties.iter().map(field).collect::<Result<_, FormError>>()? })
    }

    /// Whether it has no fields: the person only confirms.
    pub fn is_empty(&self) -> bool {
        self.fields.is_empty()
    }

    /// Whether it has multiple choice, which clients before 2025-11-25 do not support.
    pub fn has_lists(&self) -> bool {
        let mut types = self.fields.iter().map(|field| field.schema.document().get("type"));
        types.any(|kind| kind.is_some_and(|kind| kind == "array"))
    }

    /// Names of the fields.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.fields.iter().map(|field| field.name.as_str())
    }

    /// Form with only some of the fields.
    pub(super) fn only(&self, wanted: impl Fn(&str) -> bool) -> Self {
        Self { fields: self.fields.iter().filter(|field| wanted(&field.name)).cloned().collect() }
    }

    /// Form as JSON Schema.
    pub fn document(&self) -> Map<String, Value> {
        let property =
            |field: &Arc<Field>| (field.name.clone(), Value::Object(Map::clone(field.schema.document())));
        let properties: Map<String, Value> = self.fields.iter().map(property).collect();
        let required = self.fields.iter().filter(|field| field.required);
        let required: Vec<Value> = required.map(|field| field.name.as_str().into()).collect();
        object_without_nones([
            ("type", Some("object".into())),
            ("properties", Some(properties.into())),
            ("required", (!required.is_empty()).then(|| required.into())),
        ])
    }

    /// Checks a submitted form. Values that are not fields are removed.
    ///
    /// # Errors
    ///
    /// A sentence with each invalid field, the expected value and the found one.
    pub fn check(&self, mut content: Map<String, Value>) -> Result<Map<String, Value>, String> {
        const MAX_VIOLATIONS: usize = 3;
        let (mut checked, mut wrong) = (Map::new(), Vec::new());
        for field in &self.fields {
            match content.remove(&field.name) {
                None | Some(Value::Null) if field.required => {
                    wrong.push(format!("`{}` is required; found nothing", field.name));
                }
                None | Some(Value::Null) => {}
                Some(value) => {
                    for violation in field.schema.violations(&value, 1) {
                        wrong.push(format!("`{}` {}", field.name, violation.message));
                    }
                    checked.insert(field.name.clone(), value);
                }
            }
        }
        if wrong.is_empty() {
            return Ok(checked);
        }
        wrong.truncate(MAX_VIOLATIONS);
        Err(wrong.join(". "))
    }
}

/// Compiles the schema of one field.
fn field_schema(at: &str, field: &Value) -> Result<Schema, FormError> {
    let Value::Object(field) = field else {
        let message = format!("a form field must be a map, found {}", kind_of(field));
        return Err(wrong(at, message, "write `{ type: string }`"));
    };
    let fail = |key: &str, message: &str, help| Err(wrong(&pointer(at, key), message, help));
    let kind = field.get("type").and_then(Value::as_str).unwrap_or_default();
    let more: &[&str] = match kind {
        "string" => &["minLength", "maxLength", "format", "enum", "enumNames", "oneOf"],
        "integer" | "number" => &["minimum", "maximum"],
        "boolean" => &[],
        "array" => &["minItems", "maxItems", "items"],
        _ => {
            let message = format!("a form field must have one of the types `{}`", TYPES.join("`, `"));
            return fail("type", &message, "use several fields for nested values");
        }
    };
    let known = [&COMMON[..], more].concat();
    if let Some(key) = field.keys().find(|key| !known.contains(&key.as_str())) {
        let message = format!("clients do not support `{key}` in a form field of type `{kind}`");
        return fail(key, &message, "remove it; a rule can check the response");
    }
    if field.get("format").is_some_and(|format| !FORMATS.iter().any(|known| format == known)) {
        let message = format!("clients support only the formats `{}`", FORMATS.join("`, `"));
        return fail("format", &message, "remove it");
    }
    if kind == "array" {
        let Some(Value::Object(items)) = field.get("items") else {
            return Err(wrong(at, "a list in a form needs `items` with choices", CHOICES));
        };
        let chosen = items.contains_key("enum") || items.contains_key("anyOf");
        if !chosen || items.keys().any(|key| !matches!(key.as_str(), "type" | "enum" | "anyOf")) {
            return fail("items", "`items` of a list in a form must be choices", CHOICES);
        }
        check_titles(&pointer(&pointer(at, "items"), "anyOf"), items.get("anyOf"))?;
    }
    check_titles(&pointer(at, "oneOf"), field.get("oneOf"))?;
    if let (Some(Value::Array(values)), Some(names)) = (field.get("enum"), field.get("enumNames"))
        && names.as_array().is_none_or(|names| names.len() != values.len())
    {
        return fail("enumNames", "`enumNames` must have a name for each value of `enum`", CHOICES);
    }
    let schema = Schema::compile_with_formats(field).map_err(|error| FormError {
        message: format!("invalid JSON Schema: {}", error.message),
        pointer: format!("{at}{}", error.pointer),
        help: "see https://json-schema.org/understanding-json-schema",
    })?;
    if field.get("default").is_some_and(|default| !schema.accepts(default)) {
        return fail("default", "the default is not a valid value of the field", "write a valid value");
    }
    Ok(schema)
}

const CHOICES: &str = "write `enum: [ … ]`, or `oneOf: [ { const: …, title: … } ]`";

fn check_titles(at: &str, choices: Option<&Value>) -> Result<(), FormError> {
    let titled = |choice: &Value| choice["const"].is_string() && choice["title"].is_string();
    match choices {
        None => Ok(()),
        Some(Value::Array(choices)) if !choices.is_empty() && choices.iter().all(titled) => Ok(()),
        Some(_) => Err(wrong(at, "choices with titles must be a list of `{ const: …, title: … }`", CHOICES)),
    }
}

fn pointer(at: &str, key: &str) -> String {
    format!("{at}/{}", pointer_segment(key))
}

fn wrong(at: &str, message: impl Into<String>, help: &'static str) -> FormError {
    FormError { message: message.into(), pointer: at.to_owned(), help }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn form(properties: Value, required: Value) -> Result<InputForm, FormError> {
        let document = json!({"type": "object", "properties": properties, "required": required});
        InputForm::compile(document.as_object().unwrap())
    }

    #[track_caller]
    fn check(properties: Value, required: Value, content: Value, expected: Result<Value, &str>) {
        let form = form(properties, required).unwrap();
        let checked = form.check(content.as_object().unwrap().clone()).map(Value::Object);
        assert_eq!(checked, expected.map_err(str::to_owned));
    }

    #[test]
    fn input_is_validated_against_the_form() {
        let fields = json!({
            "name": {"type": "string", "minLength": 2},
            "age": {"type": "integer", "minimum": 0},
            "mail": {"type": "string", "format": "email"},
            "tags": {"type": "array", "items": {"type": "string", "enum": ["a", "b"]}, "maxItems": 1},
        });
        let required = json!(["name"]);
        check(
            fields.clone(),
            required.clone(),
            json!({"name": "Ada", "extra": 1}),
            Ok(json!({"name": "Ada"})),
        );
        check(
            fields.clone(),
            required.clone(),
            json!({"name": "Ada", "age": null}),
            Ok(json!({"name": "Ada"})),
        );
        check(fields.clone(), required.clone(), json!({}), Err("`name` is required; found nothing"));
        let form = form(fields, required).unwrap();
        for (content, wrong) in [
            (json!({"name": "A"}), "`name`"),
            (json!({"name": "Ada", "age": -1}), "`age`"),
            (json!({"name": "Ada", "age": "12"}), "`age`"),
            (json!({"name": "Ada", "mail": "no address"}), "`mail`"),
            (json!({"name": "Ada", "tags": ["c"]}), "`tags`"),
            (json!({"name": "Ada", "tags": ["a", "b"]}), "`tags`"),
        ] {
            let error = form.check(content.as_object().unwrap().clone()).unwrap_err();
            assert!(error.contains(wrong), "{error}");
        }
    }

    #[test]
    fn a_form_is_written_as_it_was_read() {
        let document = json!({
            "type": "object",
            "properties": {
                "one": {"type": "string", "oneOf": [{"const": "a", "title": "A"}], "default": "a"},
                "old": {"type": "string", "enum": ["a", "b"], "enumNames": ["A", "B"]},
                "several": {"type": "array", "items": {"anyOf": [{"const": "a", "title": "A"}]}},
                "sure": {"type": "boolean", "default": true},
                "score": {"type": "number", "default": 95.5},
            },
            "required": ["one"],
        });
        let form = InputForm::compile(document.as_object().unwrap()).unwrap();
        assert_eq!(Value::Object(form.document()), document);
        assert!(form.has_lists() && !form.only(|name| name == "one").has_lists());
    }

    #[test]
    fn unsupported_fields_are_rejected_with_their_position() {
        let refused = |properties: Value| form(properties, json!([])).unwrap_err().pointer;
        for (property, pointer) in [
            (json!({"type": "object"}), "/properties/x/type"),
            (json!({}), "/properties/x/type"),
            (json!("string"), "/properties/x"),
            (json!({"type": "string", "pattern": "a"}), "/properties/x/pattern"),
            (json!({"type": "string", "format": "ipv4"}), "/properties/x/format"),
            (json!({"type": "string", "enum": ["a"], "enumNames": []}), "/properties/x/enumNames"),
            (json!({"type": "string", "oneOf": [{"const": 1}]}), "/properties/x/oneOf"),
            (json!({"type": "array", "items": {"type": "string"}}), "/properties/x/items"),
            (json!({"type": "array"}), "/properties/x"),
            (json!({"type": "integer", "default": "one"}), "/properties/x/default"),
            (json!({"type": "integer", "minimum": "one"}), "/properties/x/minimum"),
        ] {
            assert_eq!(refused(json!({"x": property})), pointer, "{property}");
        }
        assert_eq!(form(json!({}), json!(["x"])).unwrap_err().pointer, "/required");
    }
}
