//! `input` and `output`: JSON Schemas. They are checked for keywords that clients do not support.

use serde_json::{Map, Value, json};

use super::lint::javascript_regex::rejected_by_clients;
use super::lint::schemas::{TYPES, check, check_param_headers};
use crate::model::{CHECK_STEP_LIMIT, Schema, SchemaError, object_without_nones};
use crate::route::InputSchema;
use crate::settings::{Code, Entry, Kind, Node, Report, SourceSpan, suggest};
use crate::translate::expressions::span_of_name;
use crate::translate::{OutputSchema, WrapNonObjects};

pub(super) use crate::translate::expressions::{ArgumentKind, ArgumentUse, UsedArguments};

/// Returns the input schema: the configured `input`, or a schema inferred from the arguments that the request
/// uses.
pub(super) fn input(
    report: &Report<'_>,
    entry: Option<&Entry>,
    in_request: &UsedArguments,
    used: &UsedArguments,
) -> Option<InputSchema> {
    let Some(entry) = entry else {
        let names = in_request.arguments.iter().map(|argument| argument.name.as_str());
        if !in_request.all {
            report_unknown(report, used, names, "there is no argument", help_for_undeclared);
        }
        return Some(InputSchema::new(&inferred(in_request, used)).expect("an inferred schema is valid"));
    };
    let document = configured_input(report, entry, used)?;
    warn_of_optional_arguments(report, &document, in_request);
    let input = InputSchema::new(&document);
    let input = input.map_or_else(|error| reject_schema(report, &entry.value, &error), Some)?;
    warn_of_cost(report, "input", &entry.value, input.costly_value_count());
    Some(input)
}

/// Whether the schema has keywords whose subschemas may define or require further arguments. These subschemas
/// are only evaluated when a call is validated.
fn is_composed(document: &Map<String, Value>) -> bool {
    const KEYWORDS: &str = "$ref allOf anyOf oneOf if patternProperties dependencies dependentSchemas";
    KEYWORDS.split(' ').any(|keyword| document.contains_key(keyword))
}

/// Warns of arguments that clients can omit although the request fails without them. Also warns of path
/// arguments of type `array` or `object`.
fn warn_of_optional_arguments(
    report: &Report<'_>,
    document: &Map<String, Value>,
    in_request: &UsedArguments,
) {
    if is_composed(document) || document.contains_key("dependentRequired") {
        return;
    }
    let (properties, required) = (document.get("properties"), document.get("required"));
    let required = required.and_then(Value::as_array);
    for argument in &in_request.arguments {
        let name = &argument.name;
        let property = properties.and_then(|properties| properties.get(name));
        let is_required = required.into_iter().flatten().any(|required| required == name.as_str());
        let is_optional = property.is_some_and(|property| property.get("default").is_none()) && !is_required;
        if let Some(at) = argument.needed_at.filter(|_| is_optional) {
            let message = format!("the request fails without the optional argument `{name}`");
            let help = format!(
                "make it required in `input`, or give it a `default` there; a template can have \
                 `{{{{ args.{name} | default('') }}}}`"
            );
            report.warning(Code::OptionalArgument.at_span(at), message, help);
        }
        let kind = property.and_then(|property| property.get("type")?.as_str());
        if let (ArgumentKind::PathPart, Some(kind @ ("array" | "object"))) = (argument.kind, kind) {
            let message = format!("every call fails: argument `{name}` of the path is an {kind}");
            let help = "declare it as a string, a number or a boolean";
            report.warning(Code::InvalidRequest.at_span(argument.span), message, help);
        }
    }
}

/// Warns of a schema with which validation may exceed the step limit.
fn warn_of_cost(report: &Report<'_>, name: &str, node: &Node, costly_value_count: Option<u64>) {
    let Some(values) = costly_value_count else { return };
    let message = format!(
        "validating {values} or more values against `{name}` may exceed the limit of {CHECK_STEP_LIMIT} steps"
    );
    let help = "check each value by fewer subschemas: use fewer of them under `anyOf`, `oneOf` and `allOf`, and fewer \
                nested references";
    report.warning(Code::CostlySchema.at_span(node.span), message, help);
}

fn inferred(in_request: &UsedArguments, used: &UsedArguments) -> Map<String, Value> {
    let kind_of = |name: &str| match used.arguments.iter().find(|argument| argument.name == name) {
        Some(ArgumentUse { kind: ArgumentKind::Count, .. }) => "integer",
        Some(ArgumentUse { kind: ArgumentKind::Text | ArgumentKind::PathPart, .. }) | None => "string",
    };
    let arguments = &in_request.arguments;
    let property = |ArgumentUse { name, .. }: &ArgumentUse| (name.clone(), json!({ "type": kind_of(name) }));
    let properties: Map<_, _> = arguments.iter().map(property).collect();
    let required = arguments.iter().filter(|argument| !argument.optional);
    let required: Vec<Value> = required.map(|argument| argument.name.as_str().into()).collect();
    object_without_nones([
        ("type", Some("object".into())),
        ("properties", Some(properties.into())),
        ("required", (!required.is_empty()).then(|| required.into())),
        ("additionalProperties", (!in_request.all).then(|| false.into())),
    ])
}

fn configured_input(report: &Report<'_>, entry: &Entry, used: &UsedArguments) -> Option<Map<String, Value>> {
    let mut document = document(report, "input", &entry.value)?;
    check_param_headers(report, &entry.value);
    match document.get("type") {
        None => {
            document.shift_insert(0, "type".into(), "object".into());
        }
        Some(kind) if kind == "object" => {}
        Some(_) => {
            let node = entry.value.get("type").unwrap_or(&entry.value);
            let message = format!("the root of `input` must be of type `object`, found {}", node.describe());
            let help = "write `type: object`, with the arguments under `properties`";
            return report.reject(Code::InputNotObject.at_span(node.span), message, help);
        }
    }
    let is_open = is_composed(&document)
        || document.get("additionalProperties").is_some_and(|value| value != &Value::Bool(false));
    let properties = entry.value.get("properties").and_then(Node::as_map).unwrap_or_default();
    let names = || properties.iter().map(|property| property.key.text.as_str());
    let required = document.get("required").and_then(Value::as_array);
    if !is_open {
        report_unknown(report, used, names(), "`input` has no property", help_for_undeclared);
    }
    for name in required.into_iter().flatten().filter_map(Value::as_str) {
        if !is_open && !names().any(|known| known == name) {
            let span = entry.value.get("required").unwrap_or(&entry.value).span;
            let at = Code::RequiredWithoutProperty.at_span(span_of_name(report, span, name));
            let message = format!("`{name}` is required but not a property of `input`");
            report.error(at, message, suggest::help(name, "known properties", names()));
        }
    }
    for property in properties.iter().filter(|property| !used.may_use(&property.key.text)) {
        let name = &property.key.text;
        let message = format!("argument `{name}` is unused: the route does not contain it");
        let help = format!(
            "insert it into the request: `{{{name}}}` in the path, `{{{{ args.{name} }}}}` elsewhere"
        );
        report.warning(Code::UnusedArgument.at_span(property.key.span), message, help);
    }
    Some(document)
}

fn help_for_undeclared(_: &str) -> String {
    "add it to the request, or to `properties` of `input`".to_owned()
}

/// Reports the used arguments that are not in `known_names`. The help suggests a similar known name, or else
/// is the result of `help`.
pub(super) fn report_unknown<'a>(
    report: &Report<'_>,
    used: &UsedArguments,
    known_names: impl Iterator<Item = &'a str> + Clone,
    message_start: &str,
    help: impl Fn(&str) -> String,
) {
    for ArgumentUse { name, span, context, .. } in &used.arguments {
        if !known_names.clone().any(|known| known == name) {
            let nearest = suggest::nearest(name, known_names.clone());
            let help = nearest.map_or_else(|| help(name), |nearest| format!("did you mean `{nearest}`?"));
            let (at, message) =
                (Code::UndeclaredArgument.at_span(*span), format!("{message_start} `{name}`"));
            report.in_context(context.clone(), || report.error(at, message, help));
        }
    }
}

/// Parses `output` of a route.
pub(super) fn output(report: &Report<'_>, node: &Node, wrap: WrapNonObjects) -> Option<OutputSchema> {
    let document = document(report, "output", node)?;
    let schema = OutputSchema::new(document, wrap);
    let schema = schema.map_or_else(|error| reject_schema(report, node, &error), Some)?;
    warn_of_cost(report, "output", node, schema.costly_value_count());
    Some(schema)
}

/// Converts a schema to JSON. Returns `None` after reporting keywords that clients do not support, or
/// violations of the schema's dialect.
fn document(report: &Report<'_>, name: &str, node: &Node) -> Option<Map<String, Value>> {
    let Some(entries) = node.as_map() else {
        let help = "write a JSON Schema: `{ type: object, properties: { … } }`";
        return report.reject_type(node, &format!("`{name}` must be a JSON Schema"), help);
    };
    let before = report.errors();
    check(report, node);
    let document = Node::entries_to_json(entries);
    for violation in Schema::dialect_violations(&document) {
        reject_schema::<()>(report, node, &violation);
    }
    (report.errors() == before).then_some(document)
}

/// Reports a keyword that clients do not support: a reference to another document, or a pattern that
/// ECMAScript rejects or reads differently.
pub(super) fn report_unreadable_by_clients(report: &Report<'_>, Entry { key, value }: &Entry) {
    match (key.text.as_str(), value.as_text()) {
        ("patternProperties", _) => {
            let patterns = value.as_map().unwrap_or_default().iter().map(|member| &member.key);
            patterns.for_each(|pattern| check_pattern(report, pattern.span, &pattern.text));
        }
        ("$ref" | "$dynamicRef", Some(reference)) if !reference.starts_with('#') => {
            let message = format!("`{reference}` refers to another document, which clients don't load");
            let help = "move the schema to `$defs`, and write `$ref: \"#/$defs/NAME\"`";
            report.error(Code::ExternalReference.at_span(value.span), message, help);
        }
        ("pattern", Some(pattern)) => check_pattern(report, value.span, pattern),
        _ => {}
    }
}

fn check_pattern(report: &Report<'_>, span: SourceSpan, pattern: &str) {
    let Some(reason) = rejected_by_clients(pattern) else { return };
    let (reason, help) = reason.split_once("; ").unwrap_or((&reason, "use syntax that ECMAScript supports"));
    let message = format!("clients compile patterns with an ECMAScript engine, which rejects {reason}");
    report.error(Code::NonEcmaScriptPattern.at_span(span), message, help);
}

fn reject_schema<T>(report: &Report<'_>, node: &Node, error: &SchemaError) -> Option<T> {
    let invalid_node = node.at_pointer(&error.pointer);
    let mut steps = error.pointer.rsplit('/');
    let (last, parent) = (steps.next().unwrap_or_default(), steps.next().unwrap_or_default());
    let help = match (invalid_node.as_text(), &invalid_node.kind) {
        (Some(word), _) if last == "type" => suggest::help(word, "known types", TYPES),
        (Some(word), _) if parent == "properties" && TYPES.contains(&word) => {
            Some(format!("write `{last}: {{ type: {word} }}`"))
        }
        (None, Kind::Boolean(true)) if last == "required" && steps.next() == Some("properties") => {
            Some(format!("write `required: [{parent}]` beside `properties`"))
        }
        _ if error.pointer == "/$schema" => {
            Some("remove it, or write `http://json-schema.org/draft-07/schema#`, for example".to_owned())
        }
        _ if last == "$schema" => {
            Some("remove it: the `$schema` of the root applies to all of its parts".to_owned())
        }
        _ => Some("see https://json-schema.org/understanding-json-schema".to_owned()),
    };
    report.reject(
        Code::InvalidSchema.at_span(invalid_node.span),
        format!("invalid JSON Schema: {error}"),
        help,
    )
}
