//! Forms of input requests: `fields` with types, or a JSON Schema.

use crate::settings::code::Code;
use serde_json::{Map, Value, json};
use settings_derive::Section as DeriveSection;

use crate::{
    config::{
        report::Report,
        section::cursor,
        tree::{Entry, Kind, Node},
    },
    route::{FormError, InputForm},
    settings::{
        keys::ValueKind,
        section::{Checked, Cursor, Invalid, OpenSection, Setting},
        value::{read_one_of, text_of},
    },
};

/// Kinds of values that `fields` accepts.
pub(super) const KIND: ValueKind =
    ValueKind::Map(&ValueKind::Either(&[FieldType::KIND, FieldSettings::KIND]));

/// A field of a form.
#[derive(DeriveSection)]
#[section(name = "a field of a form", id = "form_field", check_keys = Self::check_keys)]
struct FieldSettings {
    /// Type.
    #[key(shown = "`string`")]
    r#type: Option<FieldType>,
    /// Display name.
    title: Option<String>,
    /// Description.
    description: Option<String>,
    /// Allowed values, or values with titles.
    #[key(public)]
    choices: Option<Choices>,
    /// Whether several choices can be selected.
    #[key(default = false)]
    multiple: bool,
    /// Initial value.
    default: Option<Value>,
    /// Whether the field may be omitted.
    #[key(default = false)]
    optional: bool,
}

impl FieldSettings {
    fn check_keys(section: &OpenSection<'_>) -> Checked<()> {
        let multiple = section.get("multiple").is_some_and(|node| matches!(node.kind, Kind::Boolean(true)));
        if multiple && section.get("choices").is_none() {
            let message = "`multiple` has no effect without `choices`";
            return Err(section.reject_at(
                Code::RequiresKey.at_span(section.value.place),
                message,
                "write `choices: [a, b]`",
            ));
        }
        Ok(())
    }
}

/// Type of a form field, with `?` if it is optional.
struct FieldType(&'static str);

impl Setting for FieldType {
    const KIND: ValueKind = ValueKind::Word(&[
        "string",
        "string?",
        "integer",
        "integer?",
        "number",
        "number?",
        "boolean",
        "boolean?",
        "email",
        "email?",
        "uri",
        "uri?",
        "date",
        "date?",
        "date-time",
        "date-time?",
    ]);

    fn read(value: &Cursor<'_>) -> Checked<Self> {
        let ValueKind::Word(words) = Self::KIND else { return value.reject_kind("a type", None) };
        read_one_of(value, words).map(Self)
    }
}

/// JSON Schema keyword for choices, and its value.
struct Choices(&'static str, Vec<Value>);

impl Setting for Choices {
    const KIND: ValueKind =
        ValueKind::Either(&[ValueKind::List(&ValueKind::Text), ValueKind::Map(&ValueKind::Text)]);

    fn read(value: &Cursor<'_>) -> Checked<Self> {
        let (keyword, values) = match &value.node.kind {
            Kind::Map(entries) => {
                let titled = |entry: &Entry| {
                    let title = text_of(&value.part(&entry.value, "the title of a choice", ValueKind::Text))?;
                    Ok(json!({ "const": entry.key.text, "title": title }))
                };
                ("titled", entries.iter().map(titled).collect::<Checked<Vec<_>>>()?)
            }
            _ => ("enum", Vec::<String>::read(value)?.into_iter().map(Value::from).collect()),
        };
        if values.is_empty() {
            return value.reject(
                Invalid::new("`choices` is empty", "write `choices: [a, b]`").with_code(Code::EmptyValue),
            );
        }
        Ok(Self(keyword, values))
    }
}

/// Parses `fields`: each is a type or a map.
pub(super) fn fields(report: &Report<'_>, entry: &Entry) -> Option<InputForm> {
    let Some(entries) = entry.value.as_map() else {
        let message = format!("`fields` must be a map of names, found {}", entry.value.found());
        report.error(
            Code::WrongType.at_span(entry.value.span),
            message,
            "write `fields: { name: string, age: integer? }`",
        );
        return None;
    };
    let before = report.errors();
    let (mut properties, mut required) = (Map::new(), Vec::new());
    for Entry { key, value } in entries {
        let read = match &value.kind {
            Kind::Map(_) => field(&cursor(report, key.span, value, "a field", FieldSettings::KIND)),
            _ => {
                let name = format!("the type of `{}`", key.text);
                let word = FieldType::read(&cursor(report, key.span, value, &name, FieldType::KIND));
                word.map(|FieldType(word)| typed(word))
            }
        };
        let Ok((schema, optional)) = read else { continue };
        if !optional {
            required.push(Value::from(key.text.as_str()));
        }
        properties.insert(key.text.clone(), schema.into());
    }
    if report.errors() > before {
        return None;
    }
    let mut document = Map::new();
    document.insert("properties".into(), properties.into());
    document.insert("required".into(), required.into());
    form_of(report, &entry.value, &document, true)
}

/// Schema of a type, and whether the field is optional.
fn typed(word: &str) -> (Map<String, Value>, bool) {
    let name = word.trim_end_matches('?');
    let mut schema = Map::new();
    match name {
        "email" | "uri" | "date" | "date-time" => {
            schema.insert("type".into(), "string".into());
            schema.insert("format".into(), name.into());
        }
        _ => {
            schema.insert("type".into(), name.into());
        }
    }
    (schema, word.ends_with('?'))
}

/// Schema of a field, and whether it is optional.
fn field(value: &Cursor<'_>) -> Checked<(Map<String, Value>, bool)> {
    let FieldSettings { r#type, title, description, choices, multiple, default, optional } =
        FieldSettings::read(value)?;
    let word = r#type.map(|FieldType(word)| word);
    let (mut schema, may_be_missing) = typed(word.unwrap_or("string"));
    schema.extend(title.map(|title| ("title".to_owned(), title.into())));
    schema.extend(description.map(|description| ("description".to_owned(), description.into())));
    if let Some(Choices(keyword, values)) = choices {
        if word.is_some_and(|word| !word.starts_with("string")) {
            let span = value.node.get("choices").map_or(value.node.span, |node| node.span);
            return value.reject_at(
                span,
                Invalid::new("`choices` requires the type `string`", "remove `type`")
                    .with_code(Code::ConflictingKeys),
            );
        }
        match (keyword, multiple) {
            ("enum", false) => schema.insert("enum".into(), values.into()),
            ("enum", true) => schema.insert("items".into(), json!({ "type": "string", "enum": values })),
            (_, false) => schema.insert("oneOf".into(), values.into()),
            (_, true) => schema.insert("items".into(), json!({ "anyOf": values })),
        };
        if multiple {
            schema.insert("type".into(), "array".into());
        }
    }
    schema.extend(default.map(|default| ("default".to_owned(), default)));
    Ok((schema, may_be_missing || optional))
}

/// Compiles a form. If the schema was generated from `fields`, errors point to those.
pub(super) fn form_of(
    report: &Report<'_>,
    node: &Node,
    document: &Map<String, Value>,
    made: bool,
) -> Option<InputForm> {
    InputForm::compile(document)
        .map_err(|FormError { message, pointer, help }| {
            let pointer = if made { pointer.replacen("/properties", "", 1) } else { pointer };
            report.error(Code::InvalidForm.at_span(node.at_pointer(&pointer).span), message, help);
        })
        .ok()
}
