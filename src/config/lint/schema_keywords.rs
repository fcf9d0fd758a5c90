//! Check for unknown keywords in a JSON Schema. Validators ignore them, so a misspelled keyword would disable
//! a check silently.

use crate::config::{
    code::Code,
    report::Report,
    suggest,
    tree::{Entry, Kind, Node},
};

/// Keywords of JSON Schema 2020-12, older drafts and OpenAPI.
const KEYWORDS: [&str; 66] = [
    "$anchor",
    "$comment",
    "$defs",
    "$dynamicAnchor",
    "$dynamicRef",
    "$id",
    "$ref",
    "$schema",
    "$vocabulary",
    "additionalItems",
    "additionalProperties",
    "allOf",
    "anyOf",
    "const",
    "contains",
    "contentEncoding",
    "contentMediaType",
    "contentSchema",
    "default",
    "definitions",
    "dependencies",
    "dependentRequired",
    "dependentSchemas",
    "deprecated",
    "description",
    "discriminator",
    "else",
    "enum",
    "example",
    "examples",
    "exclusiveMaximum",
    "exclusiveMinimum",
    "externalDocs",
    "format",
    "if",
    "items",
    "maxContains",
    "maxItems",
    "maxLength",
    "maxProperties",
    "maximum",
    "minContains",
    "minItems",
    "minLength",
    "minProperties",
    "minimum",
    "multipleOf",
    "not",
    "nullable",
    "oneOf",
    "pattern",
    "patternProperties",
    "prefixItems",
    "properties",
    "propertyNames",
    "readOnly",
    "required",
    "then",
    "title",
    "type",
    "unevaluatedItems",
    "unevaluatedProperties",
    "uniqueItems",
    "writeOnly",
    "xml",
    "$recursiveRef",
];
/// Words for `type`.
pub(in crate::config) const TYPES: [&str; 7] =
    ["string", "number", "integer", "boolean", "array", "object", "null"];
/// Keywords whose value is a map of schemas.
const MAPS: [&str; 5] = ["$defs", "definitions", "dependentSchemas", "patternProperties", "properties"];
/// Keywords whose value is a list of schemas.
const LISTS: [&str; 4] = ["allOf", "anyOf", "oneOf", "prefixItems"];
/// Keywords whose value is a schema.
const SCHEMAS: [&str; 10] = [
    "additionalProperties",
    "contains",
    "else",
    "if",
    "items",
    "not",
    "propertyNames",
    "then",
    "unevaluatedItems",
    "unevaluatedProperties",
];

/// Reports every unknown keyword of a schema.
pub(in crate::config) fn check(report: &Report<'_>, schema: &Node) {
    for entry in schema.as_map().unwrap_or_default() {
        let name = entry.key.text.as_str();
        if MAPS.contains(&name) {
            entry.value.as_map().unwrap_or_default().iter().for_each(|inner| check(report, &inner.value));
        } else if LISTS.contains(&name) {
            if let Kind::List(schemas) = &entry.value.kind {
                schemas.iter().for_each(|inner| check(report, inner));
            }
        } else if SCHEMAS.contains(&name) {
            check(report, &entry.value);
        } else if !KEYWORDS.contains(&name) && !name.starts_with("x-") {
            report_keyword(report, entry);
        }
    }
}

fn report_keyword(report: &Report<'_>, entry: &Entry) {
    let name = entry.key.text.as_str();
    let message = format!("JSON Schema has no keyword `{name}`");
    if let Some(meant) = suggest::nearest(name, KEYWORDS) {
        report.error(
            Code::UnknownKeyword.at_span(entry.key.span),
            message,
            format!("did you mean `{meant}`?"),
        );
    } else if entry.value.as_map().is_some() {
        report.error(
            Code::UnknownKeyword.at_span(entry.key.span),
            message,
            format!("write a property under `properties`: `properties: {{ {name}: … }}`"),
        );
    } else {
        let help = match entry.value.as_text().filter(|text| TYPES.contains(text)) {
            Some(kind) => format!("write `properties: {{ {name}: {{ type: {kind} }} }}`"),
            None => "remove it: it has no effect; keywords of your own begin with `x-`".to_owned(),
        };
        report.warning(Code::UnknownKeyword.at_span(entry.key.span), message, help);
    }
}
