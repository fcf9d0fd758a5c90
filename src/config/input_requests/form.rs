//! Forms: `fields` with a type each, or a schema.

use serde_json::{Map, Value, json};

use crate::{
    config::{
        code::Code,
        keys::{FORM_FIELD, FORM_TYPES},
        node::{Entry, Kind, Node},
        report::Report,
        section::{self, Section},
        source::Span,
    },
    route::{FormError, InputForm},
};

/// Reads `fields`: a type each, or a map.
pub(super) fn fields(report: &Report<'_>, entry: &Entry) -> Option<InputForm> {
    let Some(entries) = entry.value.as_map() else {
        let message = format!("`fields` takes a map of names, found {}", entry.value.found());
        report.error(
            Code::WrongType.at(entry.value.span),
            message,
            "write `fields: { name: string, age: integer? }`",
        );
        return None;
    };
    let before = report.errors();
    let (mut properties, mut required) = (Map::new(), Vec::new());
    for Entry { key, value } in entries {
        let (schema, optional) = match &value.kind {
            Kind::Map(_) => match field(report, key.span, value) {
                Some(read) => read,
                None => continue,
            },
            _ => match section::word_of(report, value, &format!("the type of `{}`", key.text), FORM_TYPES) {
                Some(word) => typed(word),
                None => continue,
            },
        };
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

/// The schema of a type, and whether it may be left out.
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

fn field(report: &Report<'_>, place: Span, node: &Node) -> Option<(Map<String, Value>, bool)> {
    let section = Section::open(report, place, node, &FORM_FIELD)?;
    let word = section.word("type");
    let (title, description) = (section.text("title"), section.text("description"));
    let (choices, multiple) = (section.get("choices"), section.flag("multiple"));
    let (default, optional) = (section.get("default"), section.flag("optional"));
    let (kind, may_be_missing) = typed(word.unwrap_or("string"));
    let mut schema = Map::new();
    schema.extend(kind);
    schema.extend(title.map(|title| ("title".to_owned(), title.into())));
    schema.extend(description.map(|description| ("description".to_owned(), description.into())));
    match choices {
        None if multiple == Some(true) => {
            let message = "`multiple` has no effect without `choices`";
            report.error(Code::RequiresKey.at(section.place), message, "write `choices: [a, b]`");
        }
        None => {}
        Some(choices) => {
            if word.is_some_and(|word| !word.starts_with("string")) {
                report.error(Code::ConflictingKeys.at(choices.span), "choices are texts", "leave `type` out");
            }
            let many = multiple == Some(true);
            let listed = match &choices.kind {
                Kind::Map(entries) => {
                    let titled = |entry: &Entry| {
                        let title = section::text_of(report, &entry.value, "the title of a choice")?;
                        Some(json!({ "const": entry.key.text, "title": title }))
                    };
                    let titled: Vec<Value> = entries.iter().map(titled).collect::<Option<_>>()?;
                    (if many { "anyOf" } else { "oneOf" }, titled)
                }
                _ => {
                    let values = section.texts("choices")?;
                    ("enum", values.into_iter().map(|(_, text)| Value::from(text)).collect())
                }
            };
            let (keyword, values) = listed;
            if values.is_empty() {
                report.error(
                    Code::EmptyValue.at(choices.span),
                    "there is nothing to choose from",
                    "write `choices: [a, b]`",
                );
            }
            if many {
                schema.insert("type".into(), "array".into());
                let mut items = Map::new();
                if keyword == "enum" {
                    items.insert("type".into(), "string".into());
                }
                items.insert(keyword.into(), values.into());
                schema.insert("items".into(), items.into());
            } else {
                schema.insert(keyword.into(), values.into());
            }
        }
    }
    schema.extend(default.map(|default| ("default".to_owned(), default.to_json())));
    Some((schema, may_be_missing || optional == Some(true)))
}

/// A form of a schema; of one that was made of `fields`, places are those of the fields.
pub(super) fn form_of(
    report: &Report<'_>,
    node: &Node,
    document: &Map<String, Value>,
    made: bool,
) -> Option<InputForm> {
    InputForm::compile(document)
        .map_err(|FormError { message, pointer, help }| {
            let pointer = if made { pointer.replacen("/properties", "", 1) } else { pointer };
            report.error(Code::InvalidForm.at(node.at_pointer(&pointer).span), message, help);
        })
        .ok()
}
