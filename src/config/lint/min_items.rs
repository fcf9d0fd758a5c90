//! Check for rules whose `limit` returns fewer rows than `minItems` of the output schema requires.

use serde_json::{Map, Value, json};

use crate::config::{code::Code, report::Report, response::CompiledRule, tree::Node};
use crate::model::pointer_segment;
use crate::translate::{Limit, ListPath, OutputSchema, RuleAction};

/// Warns of such rules: every longer list would be a tool error.
pub(in crate::config) fn warn(
    report: &Report<'_>,
    output: &OutputSchema,
    node: &Node,
    rules: &[CompiledRule],
) {
    for compiled in rules {
        let RuleAction::Success(rule) = &compiled.rule.action else { continue };
        let Some(limit) = &rule.limit else { continue };
        let Some(rows) = limit.rows else { continue };
        let Some((place, schema)) = limited_list(output.document(), limit) else { continue };
        let Some(least) = schema.get("minItems").and_then(Value::as_u64) else { continue };
        if rows as u64 >= least {
            continue;
        }
        let span = node.at_pointer(&place).get("minItems").map_or(node.span, |node| node.span);
        let line = report.files().line_and_column(compiled.span).line;
        report.warning(
            Code::LimitBelowMinItems.at_span(span),
            format!("`minItems` is {least}, but the rule in line {line} returns at most {rows} rows"),
            format!("write `minItems: {rows}` or less, or `rows: {least}` or more in `limit`"),
        );
    }
}

/// JSON Pointer and schema of the list that a limit truncates; `None` if that depends on the response.
fn limited_list<'s>(
    schema: &'s Map<String, Value>,
    limit: &Limit,
) -> Option<(String, &'s Map<String, Value>)> {
    let mut lists = Vec::new();
    lists_in(schema, String::new(), &mut Vec::new(), &mut lists);
    let is_there = |names: &[String]| {
        let path = limit.of.as_ref().map(ListPath::names);
        // The root list may also have the name under which clients see it: `result`.
        path.is_none_or(|path| path == names || names.is_empty() && path == ["result"])
    };
    let mut found = lists.into_iter().filter(|(names, ..)| is_there(names));
    match (found.next(), found.next()) {
        (Some((_, place, schema)), None) => Some((place, schema)),
        _ => None,
    }
}

/// Schema of a list: the names of the properties that lead to it, its JSON Pointer, and its keywords.
type ListSchema<'s> = (Vec<String>, String, &'s Map<String, Value>);

/// Collects the lists that are reached through objects only.
fn lists_in<'s>(
    schema: &'s Map<String, Value>,
    place: String,
    names: &mut Vec<String>,
    lists: &mut Vec<ListSchema<'s>>,
) {
    if schema.get("type") == Some(&json!("array")) {
        lists.push((names.clone(), place, schema));
        return;
    }
    let properties = schema.get("properties").and_then(Value::as_object);
    for (name, property) in properties.into_iter().flatten() {
        let Some(property) = property.as_object() else { continue };
        names.push(name.clone());
        lists_in(property, format!("{place}/properties/{}", pointer_segment(name)), names, lists);
        names.pop();
    }
}
