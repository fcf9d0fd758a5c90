//! Derives the output schema of a tool from the fields of its rules, or compares `output` with them.

use serde_json::{Map, Value, json};

use crate::config::{
    code::Code, report::Report, response::CompiledRule, source::SourceSpan, suggest, tree::Node,
};
use crate::{
    model::own_types,
    settings::section::OpenSection,
    translate::{OnNoMatch, OutputSchema, RuleAction, SuccessRule, WrapNonObjects, extract::ValueCount},
};

/// Members of a JSON Schema.
type Schema = Map<String, Value>;

/// Derives the output schema from the fields of the rules.
///
/// # Errors
///
/// The reason if there is none: a success may have an unknown or different shape.
pub(in crate::config) fn derived(
    report: &Report<'_>,
    rules: &[CompiledRule],
    on_no_match: OnNoMatch,
    wrap: WrapNonObjects,
) -> Result<OutputSchema, String> {
    let successes = rules.iter().enumerate().filter_map(|(index, compiled)| match &compiled.rule.action {
        RuleAction::Error(_) => None,
        RuleAction::Success(rule) => Some((index, rule)),
    });
    let mut joined: Option<Schema> = None;
    for (index, rule) in successes {
        let which = || name_of_rule(report, rules, index);
        let shape = shape_of(rule).map_err(|why| format!("{} {why}", which()))?;
        joined = Some(match joined {
            None => shape,
            Some(before) => join_values(before, shape)
                .ok_or_else(|| format!("{} returns another shape than the rules before it", which()))?,
        });
    }
    let joined = joined.ok_or("no rule defines the shape of a success")?;
    if on_no_match == OnNoMatch::Text {
        return Err("responses that match no rule are passed through (`on_no_match: text`)".to_owned());
    }
    if !joined.contains_key("type") {
        return Err("the value may be of any type".to_owned());
    }
    OutputSchema::new(joined, wrap).map_err(|error| error.to_string())
}

/// A rule in a sentence: its number, as long as the route's own rules are the first; its line below a `use`;
/// for a rule of a `use`, the name there.
fn name_of_rule(report: &Report<'_>, rules: &[CompiledRule], index: usize) -> String {
    match &rules[index].origin {
        Some(origin) => format!("a rule of {}", origin.outermost),
        None if rules[..index].iter().any(|before| before.origin.is_some()) => {
            format!("the rule in line {}", report.files().line_and_column(rules[index].span).line)
        }
        None => format!("rule {}", index + 1),
    }
}

/// Schema of the value that a rule returns.
///
/// # Errors
///
/// The reason if it is unknown.
fn shape_of(rule: &SuccessRule) -> Result<Schema, String> {
    if rule.structured.is_some() {
        return Err("changes the value with `structured`".to_owned());
    }
    let Some(extract) = &rule.extract else { return Err("has no extractor".to_owned()) };
    let without_types = match extract.value_count() {
        ValueCount::Block => "returns bytes and no value",
        ValueCount::One | ValueCount::Many => "has an extractor without `fields`",
    };
    extract.found_schema().ok_or_else(|| without_types.to_owned())
}

/// Warns if only the rules of `defaults.response` prevent an output schema.
pub(in crate::config) fn warn_of_defaults(
    report: &Report<'_>,
    route: &OpenSection<'_>,
    own: &[CompiledRule],
    on_no_match: OnNoMatch,
    wrap: WrapNonObjects,
) {
    if derived(report, own, on_no_match, wrap).is_ok() {
        let help = "write `output`, or `default_rules: false`";
        let message = "the tool has no output schema: a rule of `defaults.response` may return another shape";
        report.warning(Code::NoOutputSchema.at_span(route.value.place), message, help);
    }
}

/// Known part of the schema of a rule's value; `None` if nothing is known, or if jq changes the value.
pub(in crate::config) fn schema_of(rule: &SuccessRule) -> Option<Schema> {
    if rule.structured.is_some() {
        return None;
    }
    rule.extract.as_ref()?.schema()
}

/// Joins the schemas of two rules: objects and lists of objects are merged, other values must be the same.
fn join_values(left: Schema, right: Schema) -> Option<Schema> {
    let kind = |schema: &Schema, kind: &str| schema.get("type").is_some_and(|found| found == kind);
    if left == right {
        return Some(left);
    }
    if kind(&left, "object") && kind(&right, "object") {
        return Some(join(&left, &right));
    }
    if kind(&left, "array") && kind(&right, "array") {
        let items = |schema: &Schema| schema.get("items").and_then(Value::as_object).cloned();
        let items = join_values(items(&left)?, items(&right)?)?;
        return Some(Map::from_iter([("type".into(), "array".into()), ("items".into(), items.into())]));
    }
    None
}

/// Joins two object schemas: the fields of both, required if both require them.
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

/// Compares the fields of every rule with `output`.
pub(in crate::config) fn compare(
    report: &Report<'_>,
    output: &OutputSchema,
    node: &Node,
    rules: &[CompiledRule],
) {
    for compiled in rules {
        report.in_context(compiled.origin.as_ref().map(|origin| origin.context.clone()), || {
            compare_rule(report, output, node, compiled);
        });
    }
}

fn compare_rule(report: &Report<'_>, output: &OutputSchema, node: &Node, compiled: &CompiledRule) {
    let RuleAction::Success(rule) = &compiled.rule.action else { return };
    let span = compiled.fields_span.unwrap_or(compiled.span);
    if rule.structured.is_none()
        && let Some(extract) = &rule.extract
        && extract.value_count() == ValueCount::Block
    {
        let message = "`output` requires a value, but `binary` returns none";
        report.error(Code::OutputShape.at_span(compiled.span), message, "remove `output`");
        return;
    }
    let Some(of_rule) = schema_of(rule) else { return };
    let comparison = Comparison { report, span };
    let document = output.document();
    let (value_kinds, kinds) = (kinds_of(&of_rule), kinds_of(document));
    if kinds != ["object"] || value_kinds.is_empty() || value_kinds.contains(&"object") {
        comparison.value(&of_rule, document, node, "");
        return;
    }
    // A value that is not an object is sent under `result`.
    match document.get("properties").and_then(|properties| properties.get("result")?.as_object()) {
        Some(result) => comparison.value(&of_rule, result, node.at_pointer("/properties/result"), ""),
        None if value_kinds == ["array"] => report.error(
            Code::OutputShape.at_span(span),
            "this rule returns a list, but `output` has none",
            "write `output: { type: array, items: { … } }`",
        ),
        None => report.error(
            Code::OutputShape.at_span(span),
            format!(
                "this rule returns a value of type `{}`, but `output` requires an object",
                value_kinds.join("` or `")
            ),
            format!("write `output: {{ type: {} }}`", value_kinds[0]),
        ),
    }
}

fn kinds_of(schema: &Schema) -> Vec<&str> {
    own_types(schema).collect()
}

/// Comparison of a rule's schema with `output`.
struct Comparison<'r, 'f> {
    report: &'r Report<'f>,
    /// Span of the rule's fields.
    span: SourceSpan,
}

impl Comparison<'_, '_> {
    /// Compares one value. `place` is its path, empty for the root.
    fn value(&self, of_rule: &Schema, of_output: &Schema, node: &Node, place: &str) {
        // The target of a reference is checked at run time.
        if of_output.contains_key("$ref") || !self.kinds(of_rule, of_output, node, place) {
            return;
        }
        self.values(of_rule, of_output, node, place);
        let format = |schema: &Schema| schema.get("format").and_then(Value::as_str).map(str::to_owned);
        if let (Some(found), Some(expected)) = (format(of_rule), format(of_output))
            && found != expected
        {
            self.report.error(
                Code::OutputFieldType.at_span(node.get("format").map_or(self.span, |node| node.span)),
                format!("{} has the format `{found}`, but `output` requires `{expected}`", name_of(place)),
                "write the same format in both places, or remove `output`",
            );
        }
        self.object(of_rule, of_output, node, place);
        let items = |schema: &Schema| schema.get("items").and_then(Value::as_object).cloned();
        if let (Some(found), Some(expected)) = (items(of_rule), items(of_output)) {
            let place = if place.is_empty() { String::new() } else { format!("{place}[]") };
            self.value(&found, &expected, node.at_pointer("/items"), &place);
        }
    }

    fn kinds(&self, of_rule: &Schema, of_output: &Schema, node: &Node, place: &str) -> bool {
        let (found, expected) = (kinds_of(of_rule), kinds_of(of_output));
        let fits =
            |kind: &&str| expected.contains(kind) || (**kind == *"integer" && expected.contains(&"number"));
        if expected.is_empty() || found.iter().all(&fits) {
            return true;
        }
        let wrong: Vec<&str> = found.iter().copied().filter(|kind| !fits(kind)).collect();
        let expected = expected.join("` or `");
        let message = if wrong == ["null"] {
            format!("{} may be null, but `output` requires `{expected}`", name_of(place))
        } else {
            format!(
                "{} is of type `{}`, but `output` requires `{expected}`",
                name_of(place),
                wrong.join("` or `")
            )
        };
        self.report.error(
            Code::OutputFieldType.at_span(node.get("type").map_or(self.span, |node| node.span)),
            message,
            "write the same type in both places, or remove `output`",
        );
        false
    }

    fn values(&self, of_rule: &Schema, of_output: &Schema, node: &Node, place: &str) {
        let Some(found) = of_rule.get("enum").and_then(Value::as_array) else { return };
        let (expected, key) = match (of_output.get("enum").and_then(Value::as_array), of_output.get("const"))
        {
            (Some(listed), _) => (listed.clone(), "enum"),
            (None, Some(one)) => (vec![one.clone()], "const"),
            (None, None) => return,
        };
        for value in found.iter().filter(|value| !expected.contains(value)) {
            let listed = expected.iter().map(ToString::to_string).collect::<Vec<_>>();
            let help = suggest::help(&value.to_string(), "listed values", listed.iter().map(String::as_str));
            let message = format!("{} may be `{value}`, which `output` does not list", name_of(place));
            self.report.error(
                Code::OutputFieldType.at_span(node.get(key).map_or(self.span, |node| node.span)),
                message,
                help,
            );
        }
    }

    fn object(&self, of_rule: &Schema, of_output: &Schema, node: &Node, place: &str) {
        let Some(fields) = of_rule.get("properties").and_then(Value::as_object) else { return };
        let properties = of_output.get("properties").and_then(Value::as_object);
        let closed = of_output.get("additionalProperties") == Some(&Value::Bool(false));
        let list = |schema: &Schema, key: &str| -> Vec<String> {
            let names = schema.get(key).and_then(Value::as_array).into_iter().flatten();
            names.filter_map(Value::as_str).map(str::to_owned).collect()
        };
        let always = list(of_rule, "required");
        let open = of_rule.contains_key("additionalProperties");
        for name in list(of_output, "required") {
            let full = inside(place, &name);
            if !fields.contains_key(&name) && !open {
                let message = format!("`output` requires `{full}`, which the rule does not return");
                let names: Vec<&str> = fields.keys().map(String::as_str).collect();
                self.report.error(
                    Code::OutputMissingField.at_span(self.span),
                    message,
                    suggest::help(&name, "known fields", names),
                );
            } else if !always.contains(&name) {
                let message = format!("`output` requires `{full}`, which is optional here");
                let help = format!("remove `{full}` from `required`, or the `?` from the field");
                self.report.error(Code::OutputMissingField.at_span(self.span), message, help);
            }
        }
        for (name, field) in fields {
            let full = inside(place, name);
            match (properties.and_then(|properties| properties.get(name)), field.as_object()) {
                (Some(Value::Object(property)), Some(field)) => {
                    let node = node.get("properties").and_then(|node| node.get(name)).unwrap_or(node);
                    self.value(field, property, node, &full);
                }
                (None, _) if closed => {
                    let names: Vec<&str> =
                        properties.into_iter().flatten().map(|(name, _)| name.as_str()).collect();
                    let message = format!("`output` does not permit the field `{full}`");
                    self.report.error(
                        Code::OutputUnknownField.at_span(self.span),
                        message,
                        suggest::help(name, "known properties", names),
                    );
                }
                _ => {}
            }
        }
        if closed && open {
            let message = format!("`output` does not permit fields with other names{}", field_path(place));
            self.report.error(
                Code::OutputUnknownField.at_span(self.span),
                message,
                "remove `additionalProperties: false`, or `\"*\"`",
            );
        }
    }
}

fn inside(place: &str, name: &str) -> String {
    if place.is_empty() { name.to_owned() } else { format!("{place}.{name}") }
}

fn name_of(place: &str) -> String {
    if place.is_empty() { "the value".to_owned() } else { format!("the field `{place}`") }
}

fn field_path(place: &str) -> String {
    if place.is_empty() { String::new() } else { format!(" in `{place}`") }
}

/// Follows a path through the schema of a rule's value. Returns its first unknown field, and the known ones.
///
/// `None` if all are known, or if the path reaches a value of unknown type.
pub(in crate::config) fn first_unknown_field(
    schema: &Schema,
    path: &[&str],
) -> Option<(String, Vec<String>)> {
    let (name, rest) = path.split_first()?;
    if kinds_of(schema) != ["object"] || schema.contains_key("additionalProperties") {
        return None;
    }
    let properties = schema.get("properties")?.as_object()?;
    match properties.get(*name) {
        Some(property) => first_unknown_field(property.as_object()?, rest),
        None => Some(((*name).to_owned(), properties.keys().cloned().collect())),
    }
}
