//! Forms for elicitation: a flat object of strings, numbers, booleans and enums, as MCP permits
//! (2026-07-28, Elicitation, "Requested Schema").

use std::sync::{Arc, LazyLock};

use serde_json::{Map, Value};

use crate::model::{Schema, SchemaError, Violation, object_without_nones, pointer_token};

/// Form for elicitation. Clones share the fields.
#[derive(Debug, Clone, Default)]
pub struct InputForm {
    fields: Vec<Arc<FormField>>,
}

#[derive(Debug)]
struct FormField {
    name: String,
    required: bool,
    schema: Schema,
}

/// Meta-schema of the JSON Schemas that clients can display as a form.
static FORM_SCHEMA: LazyLock<Schema> = LazyLock::new(|| {
    let document = serde_json::from_str(include_str!("form.schema.json")).expect("the file is JSON");
    Schema::compile(&document).expect("the file is a JSON Schema")
});

impl InputForm {
    /// Compiles a form from its schema.
    ///
    /// # Errors
    ///
    /// [`SchemaError`] if clients cannot display the schema as a form.
    pub fn compile(document: &Map<String, Value>) -> Result<Self, SchemaError> {
        let form = Value::Object(document.clone());
        if let Some(Violation { path, message, pointer, .. }) = FORM_SCHEMA.violations(&form, 1).pop() {
            let subject = if path.is_empty() { "a form".to_owned() } else { format!("`{path}` of a form") };
            return Err(SchemaError { message: format!("{subject} {message}"), pointer });
        }
        let required: Vec<&str> =
            form["required"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
        let properties = form["properties"].as_object().into_iter().flatten();
        if let Some(name) = required.iter().find(|name| form["properties"].get(name).is_none()) {
            let message = format!("`{name}` is required but not a field of the form");
            return Err(SchemaError { message, pointer: "/required".to_owned() });
        }
        let field = |(name, field): (&String, &Value)| {
            let schema = field_schema(&format!("/properties/{}", pointer_token(name)), field)?;
            Ok(Arc::new(FormField {
                name: name.clone(),
                required: required.contains(&name.as_str()),
                schema,
            }))
        };
        Ok(Self { fields: properties.map(field).collect::<Result<_, SchemaError>>()? })
    }

    /// Whether the form has no fields, so that the person only confirms.
    pub fn is_empty(&self) -> bool {
        self.fields.is_empty()
    }

    /// Whether a field is a multi-select enum, which clients of revisions before 2025-11-25 do not support.
    pub fn has_multi_select(&self) -> bool {
        let mut types = self.fields.iter().map(|field| field.schema.document().get("type"));
        types.any(|kind| kind.is_some_and(|kind| kind == "array"))
    }

    /// Names of the fields.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.fields.iter().map(|field| field.name.as_str())
    }

    /// Returns a form with the fields whose names satisfy `is_included`.
    pub(super) fn only(&self, is_included: impl Fn(&str) -> bool) -> Self {
        Self { fields: self.fields.iter().filter(|field| is_included(&field.name)).cloned().collect() }
    }

    /// Returns the form as a JSON Schema.
    pub fn document(&self) -> Map<String, Value> {
        let property =
            |field: &Arc<FormField>| (field.name.clone(), Value::Object(Map::clone(field.schema.document())));
        let properties: Map<String, Value> = self.fields.iter().map(property).collect();
        let required = self.fields.iter().filter(|field| field.required);
        let required: Vec<Value> = required.map(|field| field.name.as_str().into()).collect();
        object_without_nones([
            ("type", Some("object".into())),
            ("properties", Some(properties.into())),
            ("required", (!required.is_empty()).then(|| required.into())),
        ])
    }

    /// Checks a submitted form. Removes values that are not fields of the form.
    ///
    /// # Errors
    ///
    /// A message that lists each invalid field with the expected and the found value.
    pub fn check(&self, mut content: Map<String, Value>) -> Result<Map<String, Value>, String> {
        const MAX_VIOLATIONS: usize = 3;
        let (mut checked, mut errors) = (Map::new(), Vec::new());
        for field in &self.fields {
            match content.remove(&field.name) {
                None | Some(Value::Null) if field.required => {
                    errors.push(format!("`{}` is required; found nothing", field.name));
                }
                None | Some(Value::Null) => {}
                Some(value) => {
                    for violation in field.schema.violations(&value, 1) {
                        errors.push(format!("`{}` {}", field.name, violation.message));
                    }
                    checked.insert(field.name.clone(), value);
                }
            }
        }
        if errors.is_empty() {
            return Ok(checked);
        }
        errors.truncate(MAX_VIOLATIONS);
        Err(errors.join(". "))
    }
}

/// Compiles the schema of the field at this JSON Pointer.
fn field_schema(pointer: &str, field: &Value) -> Result<Schema, SchemaError> {
    let schema_error = |suffix: &str, message: &str| SchemaError {
        message: message.to_owned(),
        pointer: format!("{pointer}{suffix}"),
    };
    let length = |keyword: &str| field[keyword].as_array().map(Vec::len);
    if field.get("enumNames").is_some() && length("enumNames") != length("enum") {
        return Err(schema_error("/enumNames", "`enumNames` must have a name for each value of `enum`"));
    }
    let field = field.as_object().expect("the schema of forms admits only objects");
    let schema = Schema::compile_with_formats(field)
        .map_err(|error| schema_error(&error.pointer, &format!("invalid JSON Schema: {error}")))?;
    if field.get("default").is_some_and(|default| !schema.accepts(default)) {
        return Err(schema_error("/default", "the default is not a valid value of the field"));
    }
    Ok(schema)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn form(properties: Value, required: Value) -> Result<InputForm, SchemaError> {
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
        for (content, field) in [
            (json!({"name": "A"}), "`name`"),
            (json!({"name": "Ada", "age": -1}), "`age`"),
            (json!({"name": "Ada", "age": "12"}), "`age`"),
            (json!({"name": "Ada", "mail": "no address"}), "`mail`"),
            (json!({"name": "Ada", "tags": ["c"]}), "`tags`"),
            (json!({"name": "Ada", "tags": ["a", "b"]}), "`tags`"),
        ] {
            let error = form.check(content.as_object().unwrap().clone()).unwrap_err();
            assert!(error.contains(field), "{error}");
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
        assert!(form.has_multi_select() && !form.only(|name| name == "one").has_multi_select());
    }

    #[test]
    fn unsupported_fields_are_rejected_with_their_position() {
        let error_pointer = |properties: Value| form(properties, json!([])).unwrap_err().pointer;
        for (property, pointer) in [
            (json!({"type": "object"}), "/properties/x/type"),
            (json!({}), "/properties/x/type"),
            (json!("string"), "/properties/x"),
            (json!({"type": "string", "pattern": "a"}), "/properties/x/pattern"),
            (json!({"type": "string", "format": "ipv4"}), "/properties/x/format"),
            (json!({"type": "string", "enum": ["a"], "enumNames": []}), "/properties/x/enumNames"),
            (
                json!({"type": "string", "oneOf": [{"const": 1, "title": "One"}]}),
                "/properties/x/oneOf/0/const",
            ),
            (json!({"type": "string", "oneOf": [true]}), "/properties/x/oneOf/0"),
            (json!({"type": "array", "items": {"anyOf": [true]}}), "/properties/x/items/anyOf/0"),
            (json!({"type": "array", "items": {"type": "string"}}), "/properties/x/items"),
            (json!({"type": "array"}), "/properties/x/items"),
            (json!({"type": "integer", "default": "one"}), "/properties/x/default"),
            (json!({"type": "integer", "minimum": "one"}), "/properties/x/minimum"),
        ] {
            assert_eq!(error_pointer(json!({"x": property})), pointer, "{property}");
        }
        assert_eq!(form(json!({}), json!(["x"])).unwrap_err().pointer, "/required");
    }
}
