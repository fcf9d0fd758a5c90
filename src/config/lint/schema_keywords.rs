//! Check for unknown keywords in a JSON Schema, and for those that only another dialect has. Validators
//! ignore them, so a misspelled keyword would disable a check silently.

use crate::{
    config::{
        code::Code,
        report::Report,
        suggest,
        tree::{Entry, Kind, Node},
    },
    model::SchemaDialect,
};

/// Keywords of JSON Schema 2020-12, older drafts and OpenAPI.
const KEYWORDS: [&str; 67] = [
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
    "$recursiveAnchor",
    "$recursiveRef",
];
/// Words for `type`.
pub(in crate::config) const TYPES: [&str; 7] =
    ["string", "number", "integer", "boolean", "array", "object", "null"];
/// Keywords whose value is a map of schemas.
const MAPS: [&str; 6] =
    ["$defs", "definitions", "dependencies", "dependentSchemas", "patternProperties", "properties"];
/// Keywords whose value is a list of schemas.
const LISTS: [&str; 4] = ["allOf", "anyOf", "oneOf", "prefixItems"];
/// Keywords whose value is a schema; `items` of older dialects is a list of them, too.
const SCHEMAS: [&str; 11] = [
    "additionalItems",
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

/// Reports every unknown keyword of a schema, and warns of those that its dialect does not have.
pub(in crate::config) fn check(report: &Report<'_>, schema: &Node) {
    let uri = schema.get("$schema").and_then(Node::as_text);
    // Compiling the schema reports an unsupported dialect.
    let dialect = uri.and_then(SchemaDialect::from_uri).unwrap_or_default();
    check_schema(report, schema, dialect);
}

fn check_schema(report: &Report<'_>, schema: &Node, dialect: SchemaDialect) {
    for entry in schema.as_map().unwrap_or_default() {
        let name = entry.key.text.as_str();
        // `id` is one of draft-04 only; in a later schema, `$id` is meant.
        let is_known = KEYWORDS.contains(&name) || (name == "id" && dialect.has_keyword(name));
        if is_known {
            warn_of_dialect(report, entry, dialect);
        }
        if MAPS.contains(&name) {
            let members = entry.value.as_map().unwrap_or_default();
            members.iter().for_each(|inner| check_schema(report, &inner.value, dialect));
        } else if let Kind::List(schemas) = &entry.value.kind
            && (LISTS.contains(&name) || SCHEMAS.contains(&name))
        {
            schemas.iter().for_each(|inner| check_schema(report, inner, dialect));
        } else if SCHEMAS.contains(&name) {
            check_schema(report, &entry.value, dialect);
        } else if !is_known && !name.starts_with("x-") {
            report_keyword(report, entry);
        }
    }
}

/// Warns of a keyword that the declared dialect does not have. `$defs` is useful in every dialect, as
/// references find schemas under any name.
fn warn_of_dialect(report: &Report<'_>, entry: &Entry, dialect: SchemaDialect) {
    let name = entry.key.text.as_str();
    if dialect == SchemaDialect::default() || name == "$defs" || !dialect.ignores_keyword(name) {
        return;
    }
    report.warning(
        Code::UnknownKeyword.at_span(entry.key.span),
        format!("JSON Schema {} has no keyword `{name}`: it has no effect", dialect.name()),
        "remove it, or name a newer dialect with `$schema`",
    );
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
