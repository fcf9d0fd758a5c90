//! Checks of JSON Schemas: unknown keywords, keywords that the dialect does not have, and header names that
//! clients reject. Validators ignore unknown keywords, so a misspelled keyword would silently disable a
//! check.

use crate::config::schemas::report_unreadable_by_clients;
use crate::model::{InvalidParamHeader, PARAM_HEADER_KEYWORD as KEY, SchemaDialect, invalid_param_headers};
use crate::settings::{Code, Entry, Kind, Node, Report, suggest};

/// Keywords of JSON Schema 2020-12, of older drafts and of OpenAPI.
const KEYWORDS: &str = "\
    $anchor $comment $defs $dynamicAnchor $dynamicRef $id $ref $schema $vocabulary \
    additionalItems additionalProperties allOf anyOf const contains contentEncoding \
    contentMediaType contentSchema default definitions dependencies dependentRequired \
    dependentSchemas deprecated description discriminator else enum example examples \
    exclusiveMaximum exclusiveMinimum externalDocs format if items maxContains maxItems \
    maxLength maxProperties maximum minContains minItems minLength minProperties minimum \
    multipleOf not nullable oneOf pattern patternProperties prefixItems properties propertyNames \
    readOnly required then title type unevaluatedItems unevaluatedProperties uniqueItems \
    writeOnly xml $recursiveAnchor $recursiveRef";
/// Values of the keyword `type`.
pub(crate) const TYPES: [&str; 7] = ["string", "number", "integer", "boolean", "array", "object", "null"];
/// Keywords whose value is a map of schemas.
const MAPS: &str = "$defs definitions dependencies dependentSchemas patternProperties properties";
/// Keywords whose value is a list of schemas.
const LISTS: &str = "allOf anyOf oneOf prefixItems";
/// Keywords whose value is a schema; in older dialects, `items` may also be a list of schemas.
const SCHEMAS: &str = "additionalItems additionalProperties contains contentSchema else if items not \
                       propertyNames then unevaluatedItems unevaluatedProperties";

/// Reports unknown keywords of a schema, and warns of keywords that its dialect does not have.
pub(crate) fn check(report: &Report<'_>, schema: &Node) {
    let uri = schema.get("$schema").and_then(Node::as_text);
    // An unsupported dialect is reported when the schema is compiled.
    let dialect = uri.and_then(SchemaDialect::from_uri).unwrap_or_default();
    check_schema(report, schema, dialect);
}

fn check_schema(report: &Report<'_>, schema: &Node, dialect: SchemaDialect) {
    for entry in schema.as_map().unwrap_or_default() {
        let name = entry.key.text.as_str();
        let is_one_of = |keywords: &str| keywords.split(' ').any(|keyword| keyword == name);
        // `id` is a keyword of draft-04 only; in later dialects, it is a mistake for `$id`.
        let is_known = is_one_of(KEYWORDS) || (name == "id" && dialect.has_keyword(name));
        if is_known {
            warn_of_dialect(report, entry, dialect);
            report_unreadable_by_clients(report, entry);
        }
        if is_one_of(MAPS) {
            let members = entry.value.as_map().unwrap_or_default();
            members.iter().for_each(|inner| check_schema(report, &inner.value, dialect));
        } else if let Kind::List(schemas) = &entry.value.kind
            && (is_one_of(LISTS) || is_one_of(SCHEMAS))
        {
            schemas.iter().for_each(|inner| check_schema(report, inner, dialect));
        } else if is_one_of(SCHEMAS) {
            check_schema(report, &entry.value, dialect);
        } else if !is_known && !name.starts_with("x-") {
            report_keyword(report, entry);
        }
    }
}

/// Warns of a keyword that the declared dialect does not have. `$defs` is useful in every dialect, because a
/// `$ref` can point to any location.
fn warn_of_dialect(report: &Report<'_>, entry: &Entry, dialect: SchemaDialect) {
    let name = entry.key.text.as_str();
    if dialect != SchemaDialect::default() && name != "$defs" && dialect.ignores_keyword(name) {
        let message = format!("JSON Schema {} has no keyword `{name}`: it has no effect", dialect.name());
        let help = "remove it, or name a newer dialect with `$schema`";
        report.warning(Code::UnknownKeyword.at_span(entry.key.span), message, help);
    }
}

fn report_keyword(report: &Report<'_>, entry: &Entry) {
    let name = entry.key.text.as_str();
    let coded_span = Code::UnknownKeyword.at_span(entry.key.span);
    let message = format!("JSON Schema has no keyword `{name}`");
    if let Some(suggestion) = suggest::nearest(name, KEYWORDS.split(' ')) {
        return report.error(coded_span, message, format!("did you mean `{suggestion}`?"));
    }
    if entry.value.as_map().is_some() {
        let help = format!("write a property under `properties`: `properties: {{ {name}: … }}`");
        return report.error(coded_span, message, help);
    }
    let help = match entry.value.as_text().filter(|text| TYPES.contains(text)) {
        Some(kind) => format!("write `properties: {{ {name}: {{ type: {kind} }} }}`"),
        None => "remove it: it has no effect; keywords of your own begin with `x-`".to_owned(),
    };
    report.warning(coded_span, message, help);
}

/// Reports every invalid `x-mcp-header` in an input schema. With this keyword, clients also send an argument
/// as a header `Mcp-Param-…`.
///
/// A client must drop a tool with an invalid `x-mcp-header`, so it is an error (MCP 2026-07-28, Tools,
/// "x-mcp-header", and Streamable HTTP, "Custom Headers from Tool Parameters").
pub(crate) fn check_param_headers(report: &Report<'_>, input: &Node) {
    let document = Node::entries_to_json(input.as_map().unwrap_or_default());
    for InvalidParamHeader { pointer, message, help } in invalid_param_headers(&document) {
        let schema = input.at_pointer(&pointer);
        let span = schema.get(KEY).unwrap_or(schema).span;
        report.error(Code::InvalidParamHeader.at_span(span), message, help);
    }
}
