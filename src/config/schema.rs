//! JSON Schema of the file, generated from the tables of keys that the parser uses.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use super::{
    extract::{self, ExtractSettings},
    keys::FileSettings,
};
use crate::{
    settings::{
        keys::{KeyTable, ShortForm, ValueKind},
        section::Section as _,
    },
    translate::type_names,
};

/// Generates the JSON Schema (2020-12) of a configuration file, for editors.
pub fn schema() -> Value {
    let mut definitions = BTreeMap::new();
    let mut root = section_schema(FileSettings::keys(), &mut definitions);
    let mut schema = Map::new();
    schema.insert("$schema".into(), "https://json-schema.org/draft/2020-12/schema".into());
    schema.insert("title".into(), "Configuration of glossator".into());
    schema.append(&mut root);
    let definitions: Map<_, _> =
        definitions.into_iter().map(|(id, schema)| (id.to_owned(), Value::Object(schema))).collect();
    schema.insert("$defs".into(), Value::Object(definitions));
    Value::Object(schema)
}

/// Converts a default from the form of the reference ("`30s`", "200", "`true`") to JSON. `None` for prose.
fn json_of(default: &str) -> Option<Value> {
    match default.strip_prefix('`').and_then(|text| text.strip_suffix('`')) {
        Some(text @ ("true" | "false")) => text.parse().ok().map(Value::Bool),
        Some(text) => Some(text.into()),
        None => default.parse::<u64>().ok().map(Value::from),
    }
}

/// Schemas of sections (`$defs`), by the id of the section.
type Definitions = BTreeMap<&'static str, Map<String, Value>>;

fn section_schema(keys: &'static KeyTable, definitions: &mut Definitions) -> Map<String, Value> {
    // Before expansion, a value with a variable is a string.
    let variables = keys.expands_variables;
    let mut properties = Map::new();
    for key in keys.keys() {
        let mut schema = value_schema(key.kind, definitions);
        if variables {
            let variable = json!({ "type": "string", "pattern": r"\$\{" });
            schema = Map::from_iter([("anyOf".to_owned(), json!([schema, variable]))]);
        }
        schema.insert("description".into(), key.full_description().into());
        if let Some(default) =
            key.default.and_then(|default| default(key.kind)).and_then(|text| json_of(&text))
        {
            schema.insert("default".into(), default);
        }
        properties.insert(key.name.into(), Value::Object(schema));
    }
    let mut schema = Map::new();
    schema.insert("type".into(), "object".into());
    schema.insert("properties".into(), Value::Object(properties));
    schema.insert("additionalProperties".into(), false.into());
    let required = keys.keys().filter_map(|key| Some((key.name.to_owned(), json!([key.requires?.0]))));
    let required: Map<_, _> = required.collect();
    if !required.is_empty() {
        schema.insert("dependentRequired".into(), required.into());
    }
    if std::ptr::eq(keys, ExtractSettings::keys()) {
        // At least one extractor is required, so that an editor reports a misspelled one.
        let named = keys.names().filter(|name| !extract::OTHER_KEYS.contains(name));
        let named: Vec<_> = named.map(|name| json!({ "required": [name] })).collect();
        schema.insert("anyOf".into(), named.into());
    }
    schema
}

fn value_schema(kind: ValueKind, definitions: &mut Definitions) -> Map<String, Value> {
    let value = match kind {
        ValueKind::Text => json!({ "type": "string" }),
        ValueKind::Word(words) => json!({ "enum": words }),
        ValueKind::Boolean => json!({ "type": "boolean" }),
        ValueKind::FieldType => {
            let words =
                |ending: &str| type_names().map(move |word| format!("{word}{ending}")).collect::<Vec<_>>();
            let words = ["", "?", "[]", "[]?"].map(words).concat();
            json!({ "enum": words })
        }
        ValueKind::Duration(..) => json!({ "type": "string", "pattern": r"^\d+(\.\d+)?\s*(ms|s|m|h|d)$" }),
        ValueKind::Size(..) => {
            json!({ "type": "string", "pattern": r"^\d+(\.\d+)?\s*(B|KB|KiB|MB|MiB|GB|GiB)$|\$\{" })
        }
        ValueKind::Count(least, most) => json!({ "type": "integer", "minimum": least, "maximum": most }),
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
                // Reserves the entry first, because the section may contain itself.
                definitions.insert(keys.id, Map::new());
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
        // No reference to the meta-schema's URL: without a network, an editor could not load the schema.
        ValueKind::JsonSchema => json!({ "type": ["object", "boolean"] }),
        ValueKind::Anything => json!({}),
        ValueKind::Null => json!({ "type": "null" }),
    };
    match value {
        Value::Object(map) => map,
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_) => Map::new(),
    }
}
