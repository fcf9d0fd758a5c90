//! Output schema of a tool. It is derived from the fields of the rules; a configured `output` is compared
//! with them.

use serde_json::{Map, Value, json};

use crate::config::extract::is_extractor;
use crate::config::response::CompiledRule;
use crate::model::own_types;
use crate::settings::{Code, CodedSpan, Entry, Node, Report, SourceSpan, suggest};
use crate::translate::extract::{Extract, ValueCount};
use crate::translate::{ITEM, ListPath, OnNoMatch, OutputSchema, RuleAction, SuccessRule, WrapNonObjects};

/// JSON Schema, as the members of an object.
type SchemaObject = Map<String, Value>;

/// Derives the output schema from the fields of the rules.
///
/// # Errors
///
/// The reason why there is no output schema, for example because the shape of a success is unknown.
pub(crate) fn derived(
    report: &Report<'_>,
    rules: &[CompiledRule],
    on_no_match: OnNoMatch,
    wrap: WrapNonObjects,
) -> Result<OutputSchema, String> {
    let mut joined: Option<SchemaObject> = None;
    for (index, compiled) in rules.iter().enumerate() {
        let RuleAction::Success(rule) = &compiled.rule.action else { continue };
        let rule_name = || name_of_rule(report, rules, index);
        let shape = complete_schema_of(rule, compiled.rule.extract.as_ref())
            .map_err(|reason| format!("{} {reason}", rule_name()))?;
        joined = Some(match joined {
            None => shape,
            Some(previous) => join_values(previous, shape)
                .ok_or_else(|| format!("{} returns another shape than the rules before it", rule_name()))?,
        });
    }
    let joined = joined.ok_or("no rule defines the shape of a success")?;
    if on_no_match == OnNoMatch::Text {
        // `on_no_match` may be a default, for example of a route to an MCP tool, so the message does not
        // quote a setting.
        return Err("without `on_no_match: error`, a success that no rule matches passes through".to_owned());
    }
    if !joined.contains_key("type") {
        return Err("the value may be of any type".to_owned());
    }
    OutputSchema::new(joined, wrap).map_err(|error| error.to_string())
}

/// Describes a rule in messages by the named rules that contain it, by its line if a `use` precedes it, or
/// else by its number.
fn name_of_rule(report: &Report<'_>, rules: &[CompiledRule], index: usize) -> String {
    match &rules[index].origin {
        Some(origin) => format!("a rule of `{}`", origin.names),
        None if rules[..index].iter().any(|previous| previous.origin.is_some()) => {
            format!("the rule in line {}", report.files().line_and_column(rules[index].span).line)
        }
        None => format!("rule {}", index + 1),
    }
}

/// Returns the schema of the value that a rule returns.
///
/// # Errors
///
/// The reason why the schema is unknown, as the end of a sentence about the rule.
fn complete_schema_of(rule: &SuccessRule, extract: Option<&Extract>) -> Result<SchemaObject, String> {
    if rule.structured.is_some() {
        return Err("changes the value with `structured`".to_owned());
    }
    let Some(extract) = extract else { return Err("has no extractor".to_owned()) };
    let without_types = match extract.value_count() {
        ValueCount::Block => "returns bytes and no value",
        ValueCount::One | ValueCount::Many => "has an extractor without `fields`",
    };
    extract.found_schema().ok_or_else(|| without_types.to_owned())
}

/// Returns the known part of the schema of a rule's value; `None` if nothing is known, or if jq changes the
/// value.
pub(crate) fn known_schema_of(rule: &SuccessRule, extract: Option<&Extract>) -> Option<SchemaObject> {
    extract.filter(|_| rule.structured.is_none())?.schema()
}

/// Combines the schemas of two rules: objects and lists of objects are merged, other schemas must be equal.
fn join_values(left: SchemaObject, right: SchemaObject) -> Option<SchemaObject> {
    let both_are = |kind: &str| {
        [&left, &right].iter().all(|schema| schema.get("type").is_some_and(|value| value == kind))
    };
    if left == right {
        return Some(left);
    }
    if both_are("object") {
        return Some(join(&left, &right));
    }
    let items = |schema: &SchemaObject| member(schema, "items").filter(|_| both_are("array")).cloned();
    let items = join_values(items(&left)?, items(&right)?)?;
    Some(Map::from_iter([("type".into(), "array".into()), ("items".into(), items.into())]))
}

/// Merges two object schemas: the result has the fields of both, and a field is required if both require it.
fn join(left: &SchemaObject, right: &SchemaObject) -> SchemaObject {
    let mut joined = member(left, "properties").cloned().unwrap_or_default();
    for (name, kind) in member(right, "properties").into_iter().flatten() {
        match joined.get_mut(name) {
            Some(existing) if existing != kind => *existing = json!({ "anyOf": [existing.clone(), kind] }),
            Some(_) => {}
            None => {
                joined.insert(name.clone(), kind.clone());
            }
        }
    }
    let (required, right) = (required(left), required(right));
    let required_by_both: Vec<_> = required.into_iter().filter(|name| right.contains(name)).collect();
    let mut schema = Map::from_iter([("type".into(), "object".into()), ("properties".into(), joined.into())]);
    if !required_by_both.is_empty() {
        schema.insert("required".into(), required_by_both.into());
    }
    schema
}

/// Returns the value of a keyword, if it is an object: a schema or a map of schemas.
fn member<'s>(schema: &'s SchemaObject, keyword: &str) -> Option<&'s SchemaObject> {
    schema.get(keyword)?.as_object()
}

/// Returns the names of the required members.
fn required(schema: &SchemaObject) -> Vec<&str> {
    let names = schema.get("required").and_then(Value::as_array).into_iter().flatten();
    names.filter_map(Value::as_str).collect()
}

/// Compares the fields of each rule with `output`.
pub(crate) fn compare(report: &Report<'_>, output: &OutputSchema, node: &Node, rules: &[CompiledRule]) {
    for compiled in rules {
        report.in_context(compiled.origin.as_ref().map(|origin| origin.context.clone()), || {
            compare_rule(report, output, node, compiled);
        });
    }
    warn_of_min_items(report, node, rules);
}

/// Returns the entry of a rule that determines the shape of its value: `fields` or `type`, or else `extract`.
fn shape_entry(rule: &Node) -> Option<&Entry> {
    fn typing(node: &Node) -> Option<&Entry> {
        node.entry("fields").or_else(|| node.entry("type"))
    }
    let extract = rule.entry("extract")?;
    let mut extractors = extract.value.as_map().unwrap_or_default().iter();
    let inner = || extractors.find(|entry| is_extractor(&entry.key.text)).and_then(|one| typing(&one.value));
    typing(&extract.value).or_else(inner).or(Some(extract))
}

fn compare_rule(report: &Report<'_>, output: &OutputSchema, node: &Node, compiled: &CompiledRule) {
    let RuleAction::Success(rule) = &compiled.rule.action else { return };
    let extract = compiled.rule.extract.as_ref();
    let returns_bytes = extract.is_some_and(|extract| extract.value_count() == ValueCount::Block);
    if rule.structured.is_none() && returns_bytes {
        let message = "`output` requires a value, but `binary` returns none";
        return report.error(Code::OutputShape.at_span(compiled.span), message, "remove `output`");
    }
    let Some(rule_schema) = known_schema_of(rule, extract) else { return };
    let span = shape_entry(&compiled.node).map_or(compiled.span, |entry| entry.key.span);
    let comparison = Comparison { report, span };
    let document = output.document();
    let (value_kinds, kinds) = (kinds_of(&rule_schema), kinds_of(document));
    if kinds != ["object"] || value_kinds.is_empty() || value_kinds.contains(&"object") {
        return comparison.compare_value(&rule_schema, document, node, "");
    }
    // A value that is not an object is wrapped as `result`.
    let result = member(document, "properties").and_then(|properties| member(properties, "result"));
    if let Some(result) = result {
        return comparison.compare_value(&rule_schema, result, node.at_pointer("/properties/result"), "");
    }
    let found = value_kinds.join("` or `");
    let message = format!("this rule returns a value of type `{found}`, but `output` requires an object");
    let help = format!("write `output: {{ type: {} }}`", value_kinds[0]);
    report.error(Code::OutputShape.at_span(span), message, help);
}

fn kinds_of(schema: &SchemaObject) -> Vec<&str> {
    own_types(schema).collect()
}

/// Comparison of a rule's schema with `output`.
struct Comparison<'r, 'f> {
    report: &'r Report<'f>,
    /// Span of the rule's fields.
    span: SourceSpan,
}

impl Comparison<'_, '_> {
    /// Compares the schemas of one value. `path` is the path of the value; it is empty for the root.
    fn compare_value(
        &self,
        rule_schema: &SchemaObject,
        output_schema: &SchemaObject,
        node: &Node,
        path: &str,
    ) {
        // A schema behind a `$ref` is only checked at run time.
        if output_schema.contains_key("$ref") || !self.compare_kinds(rule_schema, output_schema, node, path) {
            return;
        }
        self.compare_enums(rule_schema, output_schema, node, path);
        let format = |schema: &SchemaObject| schema.get("format").and_then(Value::as_str).map(str::to_owned);
        if let (Some(found), Some(expected)) = (format(rule_schema), format(output_schema))
            && found != expected
        {
            let message =
                format!("{} has the format `{found}`, but `output` requires `{expected}`", name_of(path));
            let help = "write the same format in both places, or remove `output`";
            self.report.error(self.keyword_span(node, "format"), message, help);
        }
        self.compare_objects(rule_schema, output_schema, node, path);
        if let (Some(found), Some(expected)) = (member(rule_schema, "items"), member(output_schema, "items"))
        {
            let path = if path.is_empty() { String::new() } else { format!("{path}[]") };
            self.compare_value(found, expected, node.at_pointer("/items"), &path);
        }
    }

    /// Span of a keyword of `output` that does not match the rule.
    fn keyword_span(&self, node: &Node, keyword: &str) -> CodedSpan {
        Code::OutputFieldType.at_span(node.get(keyword).map_or(self.span, |node| node.span))
    }

    fn compare_kinds(
        &self,
        rule_schema: &SchemaObject,
        output_schema: &SchemaObject,
        node: &Node,
        path: &str,
    ) -> bool {
        let (found, expected) = (kinds_of(rule_schema), kinds_of(output_schema));
        let fits =
            |kind: &&str| expected.contains(kind) || (**kind == *"integer" && expected.contains(&"number"));
        if expected.is_empty() || found.iter().all(&fits) {
            return true;
        }
        let unexpected: Vec<&str> = found.iter().copied().filter(|kind| !fits(kind)).collect();
        let found = match unexpected.as_slice() {
            ["null"] => "may be null".to_owned(),
            unexpected => format!("is of type `{}`", unexpected.join("` or `")),
        };
        let expected = expected.join("` or `");
        let message = format!("{} {found}, but `output` requires `{expected}`", name_of(path));
        let help = "write the same type in both places, or remove `output`";
        self.report.error(self.keyword_span(node, "type"), message, help);
        false
    }

    fn compare_enums(
        &self,
        rule_schema: &SchemaObject,
        output_schema: &SchemaObject,
        node: &Node,
        path: &str,
    ) {
        let Some(found) = rule_schema.get("enum").and_then(Value::as_array) else { return };
        let (expected, key) = match (output_schema.get("enum"), output_schema.get("const")) {
            (Some(Value::Array(values)), _) => (values.as_slice(), "enum"),
            (_, Some(one)) => (std::slice::from_ref(one), "const"),
            (_, None) => return,
        };
        for value in found.iter().filter(|value| !expected.contains(value)) {
            let formatted = expected.iter().map(ToString::to_string).collect::<Vec<_>>();
            let help =
                suggest::help(&value.to_string(), "listed values", formatted.iter().map(String::as_str));
            let message = format!("{} may be `{value}`, which `output` does not list", name_of(path));
            self.report.error(self.keyword_span(node, key), message, help);
        }
    }

    fn compare_objects(
        &self,
        rule_schema: &SchemaObject,
        output_schema: &SchemaObject,
        node: &Node,
        path: &str,
    ) {
        let Some(fields) = member(rule_schema, "properties") else { return };
        let properties = member(output_schema, "properties");
        let is_closed = output_schema.get("additionalProperties") == Some(&Value::Bool(false));
        let is_open = rule_schema.contains_key("additionalProperties");
        let always_returned = required(rule_schema);
        let (missing, unknown) =
            (Code::OutputMissingField.at_span(self.span), Code::OutputUnknownField.at_span(self.span));
        for name in required(output_schema) {
            let full_name = member_path(path, name);
            if !fields.contains_key(name) && !is_open {
                let message = format!("`output` requires `{full_name}`, which the rule does not return");
                let help = suggest::help(name, "known fields", fields.keys().map(String::as_str));
                self.report.error(missing, message, help);
            } else if !always_returned.contains(&name) {
                let message = format!("`output` requires `{full_name}`, which is optional here");
                let help = match fields.contains_key(name) {
                    true => format!("remove `{full_name}` from `required`, or the `?` from the field"),
                    false => format!("remove `{full_name}` from `required`, or add it to `fields`"),
                };
                self.report.error(missing, message, help);
            }
        }
        for (name, field) in fields {
            let full_name = member_path(path, name);
            match (properties.and_then(|properties| properties.get(name)), field.as_object()) {
                (Some(Value::Object(property)), Some(field)) => {
                    let node = node.get("properties").and_then(|node| node.get(name)).unwrap_or(node);
                    self.compare_value(field, property, node, &full_name);
                }
                (None, _) if is_closed => {
                    let names = properties.into_iter().flatten().map(|(name, _)| name.as_str());
                    let message = format!("`output` does not permit the field `{full_name}`");
                    self.report.error(unknown, message, suggest::help(name, "known properties", names));
                }
                _ => {}
            }
        }
        if is_closed && is_open {
            let location = if path.is_empty() { String::new() } else { format!(" in `{path}`") };
            let message = format!("`output` does not permit fields with other names{location}");
            self.report.error(unknown, message, "remove `additionalProperties: false`, or `\"*\"`");
        }
    }
}

fn member_path(path: &str, name: &str) -> String {
    if path.is_empty() { name.to_owned() } else { format!("{path}.{name}") }
}

fn name_of(path: &str) -> String {
    if path.is_empty() { "the value".to_owned() } else { format!("the field `{path}`") }
}

/// Follows a path through the schema of a rule's value. Returns the first unknown field of the path, with the
/// known fields of the same object; a list has no fields.
///
/// Returns `None` if all fields are known, or if the path reaches a value of unknown type.
pub(crate) fn first_unknown_field(schema: &SchemaObject, path: &[&str]) -> Option<(String, Vec<String>)> {
    let (name, rest) = path.split_first()?;
    match kinds_of(schema)[..] {
        ["array"] if *name == ITEM => return first_unknown_field(member(schema, "items")?, rest),
        ["array"] => return Some(((*name).to_owned(), Vec::new())),
        ["object"] if *name != ITEM && !schema.contains_key("additionalProperties") => {}
        _ => return None,
    }
    let properties = member(schema, "properties")?;
    match properties.get(*name) {
        Some(property) => first_unknown_field(property.as_object()?, rest),
        None => Some(((*name).to_owned(), properties.keys().cloned().collect())),
    }
}

/// Warns of rules whose `limit` returns fewer rows than `minItems` of the output schema requires, so that
/// every longer list would be a tool error.
fn warn_of_min_items(report: &Report<'_>, output: &Node, rules: &[CompiledRule]) {
    for compiled in rules {
        let RuleAction::Success(SuccessRule { limit: Some(limit), .. }) = &compiled.rule.action else {
            continue;
        };
        let mut lists = lists_in(output, Vec::new());
        lists.retain(|(names, _)| match &limit.path {
            // A path may also refer to the root list as `result`, the name under which clients get it.
            Some(ListPath(path)) => path == names || names.is_empty() && *path == ["result"],
            None => true,
        });
        // If there are several lists, the response determines which list is truncated.
        let ([(_, list)], Some(rows)) = (lists.as_slice(), limit.rows) else { continue };
        let Some(node) = list.get("minItems") else { continue };
        let min_items = node.as_number().and_then(|text| text.parse::<usize>().ok());
        let Some(min_items) = min_items.filter(|min_items| rows < *min_items) else { continue };
        let line = report.files().line_and_column(compiled.span).line;
        let message =
            format!("`minItems` is {min_items}, but the rule in line {line} returns at most {rows} rows");
        let help = format!("write `minItems: {rows}` or less, or `rows: {min_items}` or more in `limit`");
        report.warning(Code::LimitBelowMinItems.at_span(node.span), message, help);
    }
}

/// Returns the lists that are reached through objects only, each with the property names of its path.
fn lists_in<'n>(schema: &'n Node, names: Vec<&'n str>) -> Vec<(Vec<&'n str>, &'n Node)> {
    if schema.get("type").and_then(Node::as_text) == Some("array") {
        return vec![(names, schema)];
    }
    let properties = schema.get("properties").and_then(Node::as_map).unwrap_or_default();
    let list = |entry: &'n Entry| lists_in(&entry.value, [&names[..], &[entry.key.text.as_str()]].concat());
    properties.iter().flat_map(list).collect()
}
