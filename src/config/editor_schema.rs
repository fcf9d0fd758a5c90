//! JSON Schema of the configuration file, generated from the key tables that the parser uses.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use super::compile::FileSettings;
use super::extract;
use super::extract::ExtractSettings;
use crate::settings::{KeyTable, Section as _, ShortForm, ValueKind};
use crate::translate::TYPE_NAMES;

/// Generates the JSON Schema (2020-12) of a configuration file, for editors.
pub fn schema() -> Value {
    let mut definitions = BTreeMap::new();
    let root = section_schema(FileSettings::keys(), &mut definitions);
    let mut schema = json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "Configuration of glossator",
    });
    for (keyword, value) in root.as_object().into_iter().flatten() {
        schema[keyword] = value.clone();
    }
    schema["$defs"] = definitions.into_iter().collect();
    schema
}

/// Converts a default value as the reference shows it ("`30s`", "200", "`true`", "`[true]`") to JSON; `None`
/// for a description in words.
fn json_of(default: &str) -> Option<Value> {
    match default.strip_prefix('`').and_then(|text| text.strip_suffix('`')) {
        Some(text) if text.contains('`') => None,
        Some(text) if matches!(text, "true" | "false") || text.starts_with('[') => {
            serde_json::from_str(text).ok()
        }
        Some(text) => Some(text.into()),
        None => default.parse::<u64>().ok().map(Value::from),
    }
}

/// Schemas of sections, which become `$defs`, by the id of the section.
type Definitions = BTreeMap<&'static str, Value>;

fn section_schema(keys: &'static KeyTable, definitions: &mut Definitions) -> Value {
    let mut properties = Map::new();
    for key in keys.keys() {
        let mut schema = value_schema(key.kind, definitions);
        // A value that contains a variable is a string before expansion.
        if keys.expands_variables {
            schema = json!({ "anyOf": [schema, { "type": "string", "pattern": r"\$\{" }] });
        }
        schema["description"] = key.full_description().into();
        let default = key.default.and_then(|default| default(key.kind));
        if let Some(default) = default.and_then(|text| json_of(&text)) {
            schema["default"] = default;
        }
        properties.insert(key.name.into(), schema);
    }
    let mut schema = json!({ "type": "object", "properties": properties, "additionalProperties": false });
    let is_one = |others: &&str| !others.contains(", ");
    let required =
        keys.keys().filter_map(|key| Some((key.name.to_owned(), json!([key.requires.filter(is_one)?]))));
    let required: Map<_, _> = required.collect();
    if !required.is_empty() {
        schema["dependentRequired"] = required.into();
    }
    if std::ptr::eq(keys, ExtractSettings::keys()) {
        // At least one extractor is required, so that an editor reports a misspelled extractor.
        let extractors = keys.names().filter(|name| !extract::OTHER_KEYS.contains(name));
        schema["anyOf"] = extractors.map(|name| json!({ "required": [name] })).collect();
    }
    schema
}

fn value_schema(kind: ValueKind, definitions: &mut Definitions) -> Value {
    match kind {
        ValueKind::Text => json!({ "type": "string" }),
        ValueKind::Enum(values) => json!({ "enum": values }),
        ValueKind::Boolean => json!({ "type": "boolean" }),
        ValueKind::FieldType => {
            let with_ending = |ending| TYPE_NAMES.into_iter().map(move |word| format!("{word}{ending}"));
            let words: Vec<_> = ["", "?", "[]", "[]?"].into_iter().flat_map(with_ending).collect();
            json!({ "enum": words })
        }
        ValueKind::Duration(..) => json!({ "type": "string", "pattern": r"^\d+(\.\d+)?\s*(ms|s|m|h|d)$" }),
        ValueKind::Size(..) => {
            json!({ "type": "string", "pattern": r"^\d+(\.\d+)?\s*(B|KB|KiB|MB|MiB|GB|GiB)$|\$\{" })
        }
        ValueKind::Count(min, max) => json!({ "type": "integer", "minimum": min, "maximum": max }),
        ValueKind::Fraction => json!({ "type": "number", "minimum": 0, "maximum": 1 }),
        ValueKind::Scalar => json!({ "type": ["string", "number", "boolean"] }),
        ValueKind::List(item) => json!({ "type": "array", "items": value_schema(*item, definitions) }),
        ValueKind::OneOrMore(item) => {
            let item = value_schema(*item, definitions);
            json!({ "anyOf": [item, { "type": "array", "items": item }] })
        }
        ValueKind::Map(value) => {
            json!({ "type": "object", "additionalProperties": value_schema(*value, definitions) })
        }
        ValueKind::Section(keys) => {
            let keys = keys();
            if !definitions.contains_key(keys.id) {
                // The entry is reserved first, because a section may contain itself.
                definitions.insert(keys.id, Value::Null);
                let schema = section_schema(keys, definitions);
                definitions.insert(keys.id, schema);
            }
            let map = json!({ "$ref": format!("#/$defs/{}", keys.id) });
            match (keys.short_kind(), keys.short_form) {
                (Some(kind), _) => json!({ "anyOf": [value_schema(kind, definitions), map] }),
                (None, ShortForm::Null) => json!({ "anyOf": [map, { "type": "null" }] }),
                (None, ShortForm::None | ShortForm::Text(_)) => map,
            }
        }
        ValueKind::Either(kinds) => {
            let kinds: Vec<_> = kinds.iter().map(|kind| value_schema(*kind, definitions)).collect();
            json!({ "anyOf": kinds })
        }
        // The schema does not refer to the meta-schema by URL, because an editor without network access could
        // not load it.
        ValueKind::JsonSchema => json!({ "type": ["object", "boolean"] }),
        ValueKind::Anything => json!({}),
        ValueKind::Null => json!({ "type": "null" }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn defaults_have_the_type_of_the_value() {
        let cases = [
            ("`30s`", Some(json!("30s"))),
            ("200", Some(json!(200))),
            ("`true`", Some(json!(true))),
            ("`[true]`", Some(json!([true]))),
            ("`a` or `b`", None),
            ("when the status is not 202", None),
        ];
        for (default, expected) in cases {
            assert_eq!(json_of(default), expected, "{default}");
        }
    }
}
