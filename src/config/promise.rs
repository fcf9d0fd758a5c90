//! The output schema and the fields of the rules: derived from each other, or compared.

use serde_json::{Map, Value, json};

use super::{node::Node, reply::Compiled, report::Report, section::Section, source::Span, suggest};
use crate::rule::{Action, FieldKind, Fields, Otherwise, OutputSchema, SuccessRule, Wrap, extract::Gives};

/// The schema that the fields of the rules promise, when all of them name their fields.
///
/// `None` when some success may be of another shape: what can't be held is not promised.
pub(super) fn derived(
    report: &Report<'_>,
    rules: &[Compiled],
    otherwise: Otherwise,
    wrap: Wrap,
) -> Option<OutputSchema> {
    if otherwise == Otherwise::Text {
        return None;
    }
    let mut shapes = Vec::new();
    for compiled in rules {
        match &compiled.rule.action {
            Action::Error(_) => {}
            Action::Success(rule) => {
                let (fields, many) = fields_of(rule)?;
                shapes.push((fields.schema(), many, compiled.span));
            }
        }
    }
    let (first, many, span) = shapes.first().cloned()?;
    if shapes.iter().any(|(_, other, _)| *other != many) {
        return None;
    }
    let object = shapes.iter().skip(1).fold(first, |joined, (schema, ..)| join(&joined, schema));
    let document = if many {
        let mut list = Map::new();
        list.insert("type".into(), "array".into());
        list.insert("items".into(), Value::Object(object));
        list
    } else {
        object
    };
    match OutputSchema::new(document, wrap) {
        Ok(schema) => Some(schema),
        Err(error) => {
            report.error(
                span,
                format!("no output schema can be made of the fields: {error}"),
                "write `output`",
            );
            None
        }
    }
}

/// Says that rules of `defaults.reply` keep a route from promising what its own rules would.
pub(super) fn warn_of_defaults(
    report: &Report<'_>,
    route: &Section<'_, '_>,
    own: &[Compiled],
    otherwise: Otherwise,
    wrap: Wrap,
) {
    if derived(report, own, otherwise, wrap).is_some() {
        let help = "write `output`, or `default_reply: false`";
        let message =
            "this route promises no output schema: a rule of `defaults.reply` may give another shape";
        report.warning(route.place, message, help);
    }
}

/// The fields that a rule's value has, and whether there are many of them; `None` when jq reshapes them.
fn fields_of(rule: &SuccessRule) -> Option<(&Fields, bool)> {
    if rule.structured.is_some() {
        return None;
    }
    let extractor = rule.extract.as_ref()?;
    let many = extractor.kind.gives() == Gives::Many;
    Some((extractor.fields.as_ref()?, many))
}

/// What two rules promise together: the fields of both, required where both give them.
fn join(left: &Map<String, Value>, right: &Map<String, Value>) -> Map<String, Value> {
    let properties = |schema: &Map<String, Value>| {
        schema.get("properties").and_then(Value::as_object).cloned().unwrap_or_default()
    };
    let required = |schema: &Map<String, Value>| {
        schema.get("required").and_then(Value::as_array).cloned().unwrap_or_default()
    };
    let mut joined = properties(left);
    for (name, kind) in properties(right) {
        match joined.get_mut(&name) {
            Some(known) if *known != kind => *known = json!({ "anyOf": [known.clone(), kind] }),
            Some(_) => {}
            None => {
                joined.insert(name, kind);
            }
        }
    }
    let (left_required, right_required) = (required(left), required(right));
    let both: Vec<_> = left_required.into_iter().filter(|name| right_required.contains(name)).collect();
    let mut schema = Map::new();
    schema.insert("type".into(), "object".into());
    schema.insert("properties".into(), Value::Object(joined));
    if !both.is_empty() {
        schema.insert("required".into(), both.into());
    }
    schema
}

/// Holds the fields of every rule against the written schema.
pub(super) fn compare(report: &Report<'_>, output: &OutputSchema, node: &Node, rules: &[Compiled]) {
    for compiled in rules {
        report.within(compiled.via.as_ref().map(|via| via.context.clone()), || {
            compare_rule(report, output, node, compiled);
        });
    }
}

fn compare_rule(report: &Report<'_>, output: &OutputSchema, node: &Node, compiled: &Compiled) {
    let Action::Success(rule) = &compiled.rule.action else { return };
    let span = compiled.fields_span.unwrap_or(compiled.span);
    if rule.structured.is_none()
        && let Some(extractor) = &rule.extract
        && extractor.kind.gives() == Gives::Block
    {
        let message = "`binary` gives no value, and `output` promises one";
        report.error(compiled.span, message, "leave `output` out");
        return;
    }
    let Some((fields, many)) = fields_of(rule) else { return };
    let document = output.document();
    let (schema, place) = match document.get("items") {
        Some(Value::Object(items)) if many || document.get("type") == Some(&json!("array")) => {
            (items, "/items")
        }
        _ if many => {
            let message = "this rule gives a list, and `output` promises none";
            report.error(span, message, "write `output: { type: array, items: { … } }`");
            return;
        }
        _ => (document, ""),
    };
    compare_one(report, fields, schema, node.at_pointer(place), span);
}

fn compare_one(report: &Report<'_>, fields: &Fields, schema: &Map<String, Value>, node: &Node, span: Span) {
    let properties = schema.get("properties").and_then(Value::as_object);
    let closed = schema.get("additionalProperties") == Some(&Value::Bool(false));
    let required =
        schema.get("required").and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str);
    for name in required {
        match fields.iter().find(|field| field.name == name) {
            None => {
                let names: Vec<&str> = fields.iter().map(|field| field.name.as_str()).collect();
                let message = format!("`output` requires `{name}`, which these fields don't give");
                report.error(span, message, suggest::help(name, "they give", names));
            }
            Some(field) if field.optional => {
                let message = format!("`output` requires `{name}`, which is optional here");
                report.error(
                    span,
                    message,
                    format!("take `{name}` out of `required`, or the `?` off the field"),
                );
            }
            Some(_) => {}
        }
    }
    for field in fields.iter() {
        let Some(property) = properties.and_then(|properties| properties.get(&field.name)) else {
            if closed {
                let names: Vec<&str> =
                    properties.into_iter().flatten().map(|(name, _)| name.as_str()).collect();
                let message = format!("`output` has no place for the field `{}`", field.name);
                report.error(span, message, suggest::help(&field.name, "its properties", names));
            }
            continue;
        };
        let (found, fits): (&str, &[&str]) = match field.kind {
            FieldKind::String => ("string", &["string"]),
            FieldKind::Number => ("number", &["number"]),
            FieldKind::Integer => ("integer", &["integer", "number"]),
            FieldKind::Boolean(_) => ("boolean", &["boolean"]),
        };
        let kinds: Vec<&str> = match property.get("type") {
            Some(Value::String(kind)) => vec![kind],
            Some(Value::Array(kinds)) => kinds.iter().filter_map(Value::as_str).collect(),
            _ => continue,
        };
        if !kinds.iter().any(|kind| fits.contains(kind)) {
            let place = node
                .get("properties")
                .and_then(|node| node.get(&field.name))
                .and_then(|node| node.get("type"));
            let message = format!(
                "the field `{}` is of type `{found}`, and `output` says `{}`",
                field.name,
                kinds.join("` or `")
            );
            report.error(
                place.map_or(span, |node| node.span),
                message,
                "write the same type in both places, or leave `output` out",
            );
        }
    }
}
