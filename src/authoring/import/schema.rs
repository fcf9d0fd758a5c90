//! Conversion of OpenAPI schemas for clients: self-contained JSON Schema 2020-12 without OpenAPI keywords.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::{OpenApiDocument, items, members, reference_of};
use crate::model::admit_null;

/// Maximum nesting depths of a converted schema. They are tried in order until the schema is within
/// [`SIZE_LIMIT`]; below the maximum depth, any value is allowed.
const DEPTHS: [usize; 4] = [12, 6, 3, 1];
/// Maximum number of subschemas of a converted schema, including the root, because models read all of it.
const SIZE_LIMIT: usize = 500;
/// Maximum length of a description, in characters.
const MAX_DESCRIPTION_LENGTH: usize = 400;

/// Purpose of a schema.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum SchemaUse {
    /// Schema of an argument: constraints, defaults and examples are kept, because they help a model.
    Input,
    /// Schema of a result: constraints of values are dropped, except `enum` and `const`. Results are checked
    /// against the schema, and documents are often wrong about constraints.
    Output,
}

/// Converts a schema for clients; `None` if it is too large or has a dangling reference.
pub(super) fn schema(document: &OpenApiDocument, source: &Value, schema_use: SchemaUse) -> Option<Value> {
    DEPTHS.iter().find_map(|depth| {
        let open_references = Vec::new();
        let mut converter = SchemaConverter { document, schema_use, remaining: SIZE_LIMIT, open_references };
        converter.convert_schema(source, *depth + 1)
    })
}

struct SchemaConverter<'d> {
    document: &'d OpenApiDocument,
    schema_use: SchemaUse,
    /// Number of subschemas that may still be added.
    remaining: usize,
    /// References that are being followed at the current position.
    open_references: Vec<&'d str>,
}

impl<'d> SchemaConverter<'d> {
    /// Converts `depth` levels of a schema; deeper subschemas become `{}`.
    fn convert_schema(&mut self, source: &'d Value, depth: usize) -> Option<Value> {
        let mut converted = self.convert_part(source, depth)?;
        drop_dangling_required(&mut converted);
        Some(converted)
    }

    /// Converts a schema that may be a part of `allOf`. Keeps required names without a property, because
    /// other parts may define the property.
    fn convert_part(&mut self, source: &'d Value, depth: usize) -> Option<Value> {
        self.remaining = self.remaining.checked_sub(1)?;
        let Some(reference) = reference_of(source) else { return self.convert_resolved(source, depth) };
        // A reference that is already being followed forms a cycle, which is broken by allowing any value.
        if self.open_references.contains(&reference) {
            return Some(json!({}));
        }
        let target = self.document.resolved(source).ok()?;
        self.open_references.push(reference);
        let converted = self.convert_resolved(target, depth);
        self.open_references.pop();
        converted
    }

    fn convert_resolved(&mut self, source: &'d Value, depth: usize) -> Option<Value> {
        let Some(depth) = depth.checked_sub(1).filter(|_| source.is_object()) else {
            return Some(json!({}));
        };
        let mut out = json!({});
        self.copy_keywords(source, &mut out);
        if let Some(properties) = source.get("properties") {
            out["properties"] = json!({});
            for (name, property) in members(properties) {
                if !self.is_for_other_use(property) {
                    out["properties"][name] = self.convert_schema(property, depth)?;
                }
            }
        }
        if let Some(item) = source.get("items") {
            out["items"] = self.convert_schema(item, depth)?;
        }
        match &source["additionalProperties"] {
            schema @ Value::Object(_) => out["additionalProperties"] = self.convert_schema(schema, depth)?,
            Value::Bool(false) if self.schema_use == SchemaUse::Input => {
                out["additionalProperties"] = false.into();
            }
            _ => {}
        }
        // `oneOf` becomes `anyOf`, because few authors mean that a value must not match several choices.
        let choices = items(&source["anyOf"]).chain(items(&source["oneOf"]));
        let choices: Vec<Value> =
            choices.map(|choice| self.convert_schema(choice, depth)).collect::<Option<_>>()?;
        if !choices.is_empty() {
            out["anyOf"] = choices.into();
        }
        for part in items(&source["allOf"]) {
            let part = self.convert_part(part, depth)?;
            join(&mut out, part);
        }
        // `nullable` of OpenAPI 3.0.
        if let Some(members) = out.as_object_mut().filter(|_| source["nullable"] == true) {
            admit_null(members);
        }
        Some(out)
    }

    /// Copies the keywords whose values contain no subschemas.
    fn copy_keywords(&self, source: &Value, out: &mut Value) {
        const OF_BOTH: &str = "type enum const title required";
        const OF_INPUT: &str = "default minimum maximum multipleOf minLength maxLength pattern minItems \
                                maxItems uniqueItems examples";
        let of_input = if self.schema_use == SchemaUse::Input { OF_INPUT } else { "" };
        const EXCLUSIVE: [(&str, &str); 2] =
            [("exclusiveMinimum", "minimum"), ("exclusiveMaximum", "maximum")];
        for keyword in OF_BOTH.split(' ').chain(of_input.split_whitespace()) {
            if let Some(value) = source.get(keyword) {
                out[keyword] = value.clone();
            }
        }
        if let Some(text) = description(&source["description"]) {
            out["description"] = text;
        }
        if self.schema_use == SchemaUse::Output {
            return;
        }
        for (keyword, bound) in EXCLUSIVE {
            let limit = match &source[keyword] {
                // In OpenAPI 3.0, this keyword is a boolean, which makes the bound itself exclusive.
                Value::Bool(true) => out.as_object_mut().and_then(|out| out.shift_remove(bound)),
                limit => Some(limit.clone()).filter(Value::is_number),
            };
            if let Some(limit) = limit {
                out[keyword] = limit;
            }
        }
        const FORMATS: [&str; 6] = ["date", "date-time", "time", "email", "uri", "uuid"];
        if let Some(format) = source["format"].as_str().filter(|format| FORMATS.contains(format)) {
            out["format"] = format.into();
        }
    }

    /// Whether a property is only for the other use: a `readOnly` property is not an argument.
    fn is_for_other_use(&self, property: &Value) -> bool {
        let property = self.document.resolved(property).unwrap_or(property);
        let keyword = match self.schema_use {
            SchemaUse::Input => "readOnly",
            SchemaUse::Output => "writeOnly",
        };
        property[keyword] == true
    }
}

/// Removes required names that have no property, for example because the property is `readOnly`.
fn drop_dangling_required(schema: &mut Value) {
    let Some(schema) = schema.as_object_mut() else { return };
    let Some(Value::Array(mut names)) = schema.shift_remove("required") else { return };
    let properties = schema.get("properties").cloned().unwrap_or_default();
    let mut seen = BTreeSet::new();
    names.retain(|name| {
        name.as_str().is_some_and(|name| properties.get(name).is_some() && seen.insert(name.to_owned()))
    });
    if !names.is_empty() {
        schema.insert("required".into(), Value::Array(names));
    }
}

/// Merges a part of `allOf` into the whole schema. Properties and required names are combined; for any other
/// keyword, the first part applies.
fn join(schema: &mut Value, part: Value) {
    let Value::Object(part) = part else { return };
    for (keyword, value) in part {
        match (schema.get_mut(&keyword), value) {
            (Some(Value::Object(existing)), Value::Object(added)) if keyword == "properties" => {
                for (name, property) in added {
                    existing.entry(name).or_insert(property);
                }
            }
            (Some(Value::Array(existing)), Value::Array(added)) if keyword == "required" => {
                for name in added {
                    if !existing.contains(&name) {
                        existing.push(name);
                    }
                }
            }
            (Some(_), _) => {}
            (None, value) => schema[keyword] = value,
        }
    }
}

/// Truncates a description; `None` if it is blank.
pub(super) fn description(value: &Value) -> Option<Value> {
    let text = shortened(value.as_str()?, MAX_DESCRIPTION_LENGTH);
    (!text.is_empty()).then(|| text.into())
}

/// Joins a text to one line. If it is longer than `max_length` characters, cuts it at a word and adds ` …`.
pub(super) fn shortened(text: &str, max_length: usize) -> String {
    let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
    if text.chars().count() <= max_length {
        return text;
    }
    let prefix: String = text.chars().take(max_length).collect();
    let end = prefix.rfind(' ').unwrap_or(prefix.len());
    format!("{} …", &prefix[..end])
}

#[cfg(test)]
mod tests {
    use serde_json::Map;

    use super::*;

    #[track_caller]
    fn check(schema_use: SchemaUse, source: Value, expected: Value) {
        let root = json!({"openapi": "3.0.3", "components": {"schemas": {
            "Name": {"type": "string", "minLength": 1, "example": "Bo"},
            "Node": {"type": "object", "properties": {"next": {"$ref": "#/components/schemas/Node"}}},
            "Base": {"type": "object", "required": ["id"], "properties": {"id": {"type": "integer", "readOnly": true}}},
        }}});
        let document = OpenApiDocument::new(root).unwrap();
        assert_eq!(schema(&document, &source, schema_use), Some(expected));
    }

    #[test]
    fn references_are_resolved_and_circular_ones_accept_anything() {
        check(
            SchemaUse::Input,
            json!({"$ref": "#/components/schemas/Name"}),
            json!({"type": "string", "minLength": 1}),
        );
        check(SchemaUse::Output, json!({"$ref": "#/components/schemas/Name"}), json!({"type": "string"}));
        check(
            SchemaUse::Output,
            json!({"$ref": "#/components/schemas/Node"}),
            json!({"type": "object", "properties": {"next": {}}}),
        );
    }

    #[test]
    fn parts_are_merged_and_read_only_properties_are_not_arguments() {
        let source = json!({"allOf": [{"$ref": "#/components/schemas/Base"},
            {"type": "object", "required": ["a"],
            "properties": {"a": {"type": "boolean"}}}]});
        let a = json!({"type": "boolean"});
        check(
            SchemaUse::Input,
            source.clone(),
            json!({"type": "object", "properties": {"a": a}, "required": ["a"]}),
        );
        let both = json!({"id": {"type": "integer"}, "a": a});
        check(
            SchemaUse::Output,
            source,
            json!({"type": "object", "properties": both, "required": ["id", "a"]}),
        );
        let twice = json!({"properties": {"a": {}}, "required": ["a", "b", "a"]});
        check(SchemaUse::Output, twice, json!({"properties": {"a": {}}, "required": ["a"]}));
    }

    #[test]
    fn a_schema_that_is_too_large_is_truncated_in_depth() {
        let fields: Map<String, Value> =
            (0..30).map(|number| (format!("f{number}"), json!({"type": "string"}))).collect();
        let object = json!({"type": "object", "properties": fields});
        let wide: Map<String, Value> = (0..30).map(|number| (format!("o{number}"), object.clone())).collect();
        let document = OpenApiDocument::new(json!({"openapi": "3.1.0"})).unwrap();
        let schema_value = schema(
            &document,
            &json!({"type": "object", "properties": {"a": {"properties": wide}}}),
            SchemaUse::Input,
        );
        let schema_value = schema_value.unwrap();
        assert_eq!(schema_value["properties"]["a"]["properties"].as_object().unwrap().len(), 30);
    }

    #[test]
    fn keywords_of_openapi_3_0_become_those_of_json_schema() {
        check(
            SchemaUse::Input,
            json!({"type": "integer", "format": "int64", "nullable": true, "minimum": 0, "exclusiveMinimum": true}),
            json!({"type": ["integer", "null"], "exclusiveMinimum": 0}),
        );
        // An invalid bound stays, so that the operation is omitted with the reason.
        check(
            SchemaUse::Input,
            json!({"maximum": "5", "exclusiveMaximum": true}),
            json!({"exclusiveMaximum": "5"}),
        );
        check(
            SchemaUse::Input,
            json!({"type": "string", "enum": ["a"], "nullable": true, "xml": {"name": "x"}}),
            json!({"type": ["string", "null"], "enum": ["a", null]}),
        );
    }
}
