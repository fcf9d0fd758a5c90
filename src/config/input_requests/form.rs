//! Forms of input requests (MCP elicitation): `fields` with types, or a JSON Schema.

use crate::model::{SchemaError, object_without_nones};
use crate::route::InputForm;
use crate::settings::{
    Checked, Code, Cursor, Entry, Kind, Named, Node, Section, Setting, ValueKind, read_one_of, text_of,
};
use serde_json::{Map, Value, json};

/// A field of a form.
#[derive(Section)]
#[section(name = "a field of a form", id = "form_field", text = "type")]
struct FormFieldSettings {
    /// Type.
    #[key(kind = ValueKind::Enum(TYPES), with = read_type, shown = "`string`")]
    r#type: Option<&'static str>,
    /// Display name.
    title: Option<String>,
    /// Description.
    description: Option<String>,
    /// Allowed values, or values with titles.
    #[key(public, kind = CHOICES, with = read_choices)]
    choices: Option<Value>,
    /// Whether several choices can be selected.
    #[key(requires = "choices", help = "write `choices: [a, b]`")]
    multiple: bool,
    /// Initial value.
    default: Option<Value>,
    /// Whether the field may be omitted.
    optional: bool,
}

/// Types of a form field; with `?`, the field is optional.
const TYPES: &[&str] = [
    ["string", "string?"],
    ["integer", "integer?"],
    ["number", "number?"],
    ["boolean", "boolean?"],
    ["email", "email?"],
    ["uri", "uri?"],
    ["date", "date?"],
    ["date-time", "date-time?"],
]
.as_flattened();

fn read_type(value: &Cursor<'_>) -> Checked<Option<&'static str>> {
    read_one_of(value, TYPES.iter().map(|word| (*word, *word))).map(Some)
}

/// Kinds of values for choices.
const CHOICES: ValueKind =
    ValueKind::Either(&[ValueKind::List(&ValueKind::Text), ValueKind::Map(&ValueKind::Text)]);

/// Parses choices: a list of values, or a map of values to titles.
fn read_choices(value: &Cursor<'_>) -> Checked<Option<Value>> {
    let choices = match &value.node.kind {
        Kind::Map(entries) => {
            let titled = |entry: &Entry| {
                let title = text_of(&value.part(&entry.value, "the title of a choice", ValueKind::Text))?;
                Ok(json!({ "const": entry.key.text, "title": title }))
            };
            entries.iter().map(titled).collect::<Checked<_>>()?
        }
        _ => Value::from(Vec::<String>::read(value)?),
    };
    if choices == json!([]) {
        let help = "write `choices: [a, b]`";
        return value.reject_coded(Code::EmptyValue.at_span(value.node.span), "`choices` is empty", help);
    }
    Ok(Some(choices))
}

/// Schema of a form field, and whether the field is optional.
struct FormField {
    schema: Value,
    is_optional: bool,
}

/// Parses a field: a type, or a map.
impl Setting for FormField {
    const KIND: ValueKind = FormFieldSettings::KIND;

    fn read(value: &Cursor<'_>) -> Checked<Self> {
        let FormFieldSettings { r#type, title, description, choices, multiple, default, optional } =
            FormFieldSettings::read(value)?;
        if choices.is_some() && r#type.is_some_and(|word| !word.starts_with("string")) {
            let span = value.node.get("choices").map_or(value.node.span, |node| node.span);
            let message = "`choices` requires the type `string`";
            return value.reject_coded(Code::ConflictingKeys.at_span(span), message, "remove `type`");
        }
        let word = r#type.unwrap_or("string");
        let name = word.trim_end_matches('?');
        let format = Some(name).filter(|name| matches!(*name, "email" | "uri" | "date" | "date-time"));
        let has_titles = choices.as_ref().is_some_and(|choices| choices[0].is_object());
        let (keyword, choices) = match (choices, has_titles, multiple) {
            (None, ..) => ("enum", None),
            (Some(choices), false, false) => ("enum", Some(choices)),
            (Some(choices), true, false) => ("oneOf", Some(choices)),
            (Some(choices), false, true) => ("items", Some(json!({ "type": "string", "enum": choices }))),
            (Some(choices), true, true) => ("items", Some(json!({ "anyOf": choices }))),
        };
        let schema = object_without_nones([
            ("type", Some(if multiple { "array" } else { format.map_or(name, |_| "string") }.into())),
            ("format", format.map(Value::from)),
            ("title", title.map(Value::from)),
            ("description", description.map(Value::from)),
            (keyword, choices),
            ("default", default),
        ]);
        Ok(Self { schema: schema.into(), is_optional: optional || word.ends_with('?') })
    }
}

/// Parses `fields` of an input request.
impl Setting for InputForm {
    const KIND: ValueKind = Named::<FormField>::KIND;

    fn read(value: &Cursor<'_>) -> Checked<Self> {
        if value.node.as_map().is_none() {
            let help = "write `fields: { name: string, age: integer? }`";
            return value.reject_kind("a map of names", Some(help.to_owned()));
        }
        let Named(fields) = Named::<FormField>::read(value)?;
        let required = fields.iter().filter(|(_, field)| !field.is_optional).map(|(name, _)| name.as_str());
        let required: Value = required.collect();
        let properties: Value = fields.into_iter().map(|(name, field)| (name, field.schema)).collect();
        let document = object_without_nones([("properties", Some(properties)), ("required", Some(required))]);
        compile(value, &document, "/properties")
    }
}

/// Parses `schema` of an input request.
pub(super) fn read_schema(value: &Cursor<'_>) -> Checked<Option<InputForm>> {
    let document = value.node.as_map().map(Node::entries_to_json).unwrap_or_default();
    compile(value, &document, "").map(Some)
}

/// Compiles a form. JSON Pointers into the schema begin with `generated_prefix`, which has no corresponding
/// node in the file.
fn compile(value: &Cursor<'_>, document: &Map<String, Value>, generated_prefix: &str) -> Checked<InputForm> {
    let help = "clients display strings, numbers, booleans and choices: write `fields: { name: string }`, or \
                `{ choices: [ … ] }`";
    InputForm::compile(document).or_else(|SchemaError { message, pointer }| {
        let span = value.node.at_pointer(&pointer.replacen(generated_prefix, "", 1)).span;
        value.reject_coded(Code::InvalidForm.at_span(span), message, help)
    })
}
