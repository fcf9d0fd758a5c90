//! Check for rules whose `limit` returns fewer rows than `minItems` of the output schema requires.

use serde_json::{Map, Value, json};

use crate::settings::{Code, Node, Report};
use crate::translate::{Limit, ListPath, OutputSchema, RuleAction};
use crate::{config::response::CompiledRule, model::pointer_segment};

/// Warns of such rules: every longer list would be a tool error.
pub(crate) fn warn(report: &Report<'_>, output: &OutputSchema, node: &Node, rules: &[CompiledRule]) {
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
        let message =
            format!("`minItems` is {least}, but the rule in line {line} returns at most {rows} rows");
        let help = format!("write `minItems: {rows}` or less, or `rows: {least}` or more in `limit`");
        report.warning(Code::LimitBelowMinItems.at_span(span), message, help);
    }
}

/// JSON Pointer and schema of the list that a limit truncates; `None` if that depends on the response.
fn limited_list<'s>(
    schema: &'s Map<String, Value>,
    limit: &Limit,
) -> Option<(String, &'s Map<String, Value>)> {
    let lists = lists_in(schema, String::new(), Vec::new());
    let is_there = |names: &[String]| {
        let path = limit.of.as_ref().map(ListPath::names);
        // The root list may also have the name under which clients see it: `result`.
        path.is_none_or(|path| path == names || names.is_empty() && path == ["result"])
    };
    let mut found = lists.into_iter().filter(|(names, ..)| is_there(names));
    let (_, place, schema) = found.next()?;
    found.next().is_none().then_some((place, schema))
}

/// Schema of a list: the names of the properties that lead to it, its JSON Pointer, and its keywords.
type ListSchema<'s> = (Vec<String>, String, &'s Map<String, Value>);

/// Lists that are reached through objects only.
fn lists_in(schema: &Map<String, Value>, place: String, names: Vec<String>) -> Vec<ListSchema<'_>> {
    if schema.get("type") == Some(&json!("array")) {
        return vec![(names, place, schema)];
    }
    let properties = schema.get("properties").and_then(Value::as_object).into_iter().flatten();
    let lists = properties.filter_map(|(name, property)| {
        let place = format!("{place}/properties/{}", pointer_segment(name));
        Some(lists_in(property.as_object()?, place, [names.as_slice(), &[name.clone()]].concat()))
    });
    lists.flatten().collect()
}
