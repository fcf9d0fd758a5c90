//! JSON Schema of the file, generated from the tables of keys that the parser uses.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use super::{
    extract::{self, ExtractSettings},
    keys::{FileSettings, Keys, Takes},
};
use crate::{
    settings::{keys::ShortForm, section::Section as _},
    translate::type_names,
};

/// Generates the JSON Schema (2020-12) of a configuration file, for editors.
pub fn schema() -> Value {
    let mut definitions = BTreeMap::new();
    let mut root = section(FileSettings::keys(), &mut definitions);
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

type Definitions = BTreeMap<&'static str, Map<String, Value>>;

fn section(keys: &'static Keys, definitions: &mut Definitions) -> Map<String, Value> {
    // Before expansion, a value with a variable is a string.
    let variables = keys.expands_variables;
    let mut properties = Map::new();
    for key in keys.keys() {
        let mut schema = takes(key.kind, definitions);
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
        let named = keys.names().filter(|name| !extract::BESIDE.contains(name));
        let named: Vec<_> = named.map(|name| json!({ "required": [name] })).collect();
        schema.insert("anyOf".into(), named.into());
    }
    schema
}

fn takes(kind: Takes, definitions: &mut Definitions) -> Map<String, Value> {
    let value = match kind {
        Takes::Text => json!({ "type": "string" }),
        Takes::Word(words) => json!({ "enum": words }),
        Takes::Flag => json!({ "type": "boolean" }),
        Takes::FieldType => {
            let words =
                |ending: &str| type_names().map(move |word| format!("{word}{ending}")).collect::<Vec<_>>();
            let words = ["", "?", "[]", "[]?"].map(words).concat();
            json!({ "enum": words })
        }
        Takes::Duration(..) => json!({ "type": "string", "pattern": r"^\d+(\.\d+)?\s*(ms|s|m|h|d)$" }),
        Takes::Size(..) => {
            json!({ "type": "string", "pattern": r"^\d+(\.\d+)?\s*(B|KB|KiB|MB|MiB|GB|GiB)$|\$\{" })
        }
        Takes::Count(least, most) => json!({ "type": "integer", "minimum": least, "maximum": most }),
        Takes::Fraction => json!({ "type": "number", "minimum": 0, "maximum": 1 }),
        Takes::Scalar => json!({ "type": ["string", "number", "boolean"] }),
        Takes::List(item) => json!({ "type": "array", "items": takes(*item, definitions) }),
        Takes::OneOrMore(item) => {
            let item = takes(*item, definitions);
            json!({ "anyOf": [item, { "type": "array", "items": item }] })
        }
        Takes::Map(value) => json!({ "type": "object", "additionalProperties": takes(*value, definitions) }),
        Takes::Section(keys) => {
            let keys = keys();
            if !definitions.contains_key(keys.id) {
                // Reserves the entry first, because the section may contain itself.
                definitions.insert(keys.id, Map::new());
                let written = section(keys, definitions);
                definitions.insert(keys.id, written);
            }
            let map = json!({ "$ref": format!("#/$defs/{}", keys.id) });
            match (keys.short_kind(), keys.short_form) {
                (Some(kind), _) => json!({ "anyOf": [takes(kind, definitions), map] }),
                (None, ShortForm::Nothing) => json!({ "anyOf": [map, { "type": "null" }] }),
                (None, ShortForm::None | ShortForm::Text(_)) => map,
            }
        }
        Takes::Either(kinds) => {
            let kinds: Vec<_> = kinds.iter().map(|kind| takes(*kind, definitions)).collect();
            json!({ "anyOf": kinds })
        }
        // No reference to the meta-schema's URL: without a network, an editor could not load the schema.
        Takes::JsonSchema => json!({ "type": ["object", "boolean"] }),
        Takes::Anything => json!({}),
        Takes::Nothing => json!({ "type": "null" }),
    };
    match value {
        Value::Object(map) => map,
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_) => Map::new(),
    }
}
