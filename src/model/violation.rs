//! Messages for schema violations: the path, the expected form, and the found value.

use std::collections::HashSet;

use jsonschema::{
    ValidationError,
    error::{TypeKind, ValidationErrorKind},
};
use serde_json::Value;

use super::schema::{kind_of, with_article};

/// Violation of a schema by a value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Violation {
    /// Path in the value: `items[2].price`; empty for the whole value.
    pub path: String,
    /// The expected form and the found value, as the second half of a sentence: "must be a number; found a
    /// string".
    pub message: String,
    /// The whole sentence without quotes of the value, for the log, with the position in the schema.
    pub plain: String,
}

impl Violation {
    /// A violation by the whole value; `message` quotes nothing of it.
    pub(super) fn at_root(message: &str) -> Self {
        Self { path: String::new(), message: message.to_owned(), plain: format!("the value {message}") }
    }

    pub(super) fn from_error(error: &ValidationError<'_>) -> Self {
        let message = match message_parts(error) {
            (expected, Some(found)) => format!("{expected}; found {found}"),
            (expected, None) => expected,
        };
        Self { path: path_of(error), message, plain: message_without_quotes(error) }
    }
}

/// The message without quotes of the value: the schema's expectation, and the type and length of the value.
fn message_without_quotes(error: &ValidationError<'_>) -> String {
    use ValidationErrorKind as Kind;

    let expected = match error.kind() {
        Kind::Required { property } => format!("`{}` is required", property.as_str().unwrap_or_default()),
        // Their messages name members of the value.
        Kind::AdditionalProperties { .. } | Kind::UnevaluatedProperties { .. } => {
            "must have no other properties".to_owned()
        }
        Kind::AnyOf { .. } | Kind::OneOfNotValid { .. } => {
            "must match one of the schema's alternatives".to_owned()
        }
        _ => message_parts(error).0,
    };
    let found = match error.instance().as_ref() {
        Value::String(text) => format!("a string of {} bytes", text.len()),
        Value::Array(items) => format!("an array of {}", items.len()),
        other => kind_of(other).to_owned(),
    };
    format!("at `{}` of the schema: {expected}; found {found}", error.schema_path())
}

/// Path of the violation; for a missing member, the path where it should be.
fn path_of(error: &ValidationError<'_>) -> String {
    let mut path = readable_path(&error.instance_path().to_string());
    if let ValidationErrorKind::Required { property } = error.kind() {
        if !path.is_empty() {
            path.push('.');
        }
        path.push_str(property.as_str().unwrap_or_default());
    }
    path
}

/// The expected form, and the found value unless the expected form names it.
fn message_parts(error: &ValidationError<'_>) -> (String, Option<String>) {
    use ValidationErrorKind as Kind;

    let value = error.instance();
    let (expected, found) = match error.kind() {
        Kind::Required { .. } => ("is required".to_owned(), "nothing".to_owned()),
        Kind::Type { kind } => (format!("must be {}", type_names(kind)), shown(value)),
        Kind::FalseSchema => ("must not be present".to_owned(), shown(value)),
        Kind::AdditionalProperties { unexpected } | Kind::UnevaluatedProperties { unexpected } => {
            let properties = if unexpected.len() == 1 { "property" } else { "properties" };
            let names = listed(&unexpected.iter().map(String::as_str).collect());
            return (format!("must not have the {properties} {names}"), None);
        }
        Kind::PropertyNames { error } => {
            let (expected, _) = message_parts(error);
            (format!("must have properties whose name {expected}"), shown(error.instance()))
        }
        Kind::MinProperties { limit } => (at_least(*limit, "property"), length(value)),
        Kind::MaxProperties { limit } => (at_most(*limit, "property"), length(value)),
        Kind::MinItems { limit } => (at_least(*limit, "item"), length(value)),
        Kind::MaxItems { limit } => (at_most(*limit, "item"), length(value)),
        Kind::AdditionalItems { limit } => (at_most(*limit as u64, "item"), length(value)),
        Kind::UnevaluatedItems { unexpected } => {
            let count = value.as_array().map_or(0, Vec::len).saturating_sub(unexpected.len());
            (at_most(count as u64, "item"), length(value))
        }
        Kind::Contains => ("must have the items that `contains` requires".to_owned(), other_items(value)),
        Kind::Minimum { limit } => (format!("must be at least {limit}"), shown(value)),
        Kind::Maximum { limit } => (format!("must be at most {limit}"), shown(value)),
        Kind::ExclusiveMinimum { limit } => (format!("must be more than {limit}"), shown(value)),
        Kind::ExclusiveMaximum { limit } => (format!("must be less than {limit}"), shown(value)),
        Kind::MinLength { limit } => (at_least(*limit, "character"), shown(value)),
        Kind::MaxLength { limit } => (at_most(*limit, "character"), shown(value)),
        Kind::Pattern { pattern } => (format!("must match `{pattern}`"), shown(value)),
        Kind::Format { format } => (format!("must be of the format `{format}`"), shown(value)),
        Kind::ContentEncoding { content_encoding } => {
            (format!("must be a string in the encoding `{content_encoding}`"), shown(value))
        }
        Kind::ContentMediaType { content_media_type } => {
            (format!("must be a string of the media type `{content_media_type}`"), shown(value))
        }
        Kind::FromUtf8 { .. } => ("must decode to UTF-8".to_owned(), shown(value)),
        Kind::Not { schema } => (not(schema), shown(value)),
        Kind::AnyOf { context } | Kind::OneOfNotValid { context } => (one_of(context, error), shown(value)),
        Kind::OneOfMultipleValid { .. } => (
            "must match exactly one schema of `oneOf`".to_owned(),
            format!("{}, which matches several", shown(value)),
        ),
        // The exact keywords have messages of their own.
        Kind::Custom { keyword, message } if keyword == "uniqueItems" => (message.clone(), repeated(value)),
        Kind::Custom { message, .. } => (message.clone(), shown(value)),
        // Schemas are compiled with options and exact keywords with which these do not occur.
        _ => ("must match the schema".to_owned(), shown(value)),
    };
    (expected, Some(found))
}

fn at_least(limit: u64, what: &str) -> String {
    format!("must have at least {}", with_plural(limit, what))
}

fn at_most(limit: u64, what: &str) -> String {
    match limit {
        0 => format!("must have no {}", plural(what)),
        _ => format!("must have at most {}", with_plural(limit, what)),
    }
}

fn with_plural(count: u64, what: &str) -> String {
    match count {
        1 => format!("1 {what}"),
        count => format!("{count} {}", plural(what)),
    }
}

fn plural(noun: &str) -> String {
    match noun.strip_suffix('y') {
        Some(stem) => format!("{stem}ies"),
        None => format!("{noun}s"),
    }
}

/// Number of items or members of a value.
fn length(value: &Value) -> String {
    let length = match value {
        Value::Array(items) => items.len(),
        Value::Object(members) => members.len(),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => return shown(value),
    };
    if length == 0 { "none".to_owned() } else { length.to_string() }
}

/// The first repeated item of a list.
fn repeated(value: &Value) -> String {
    let mut known = HashSet::new();
    let mut items = value.as_array().into_iter().flatten();
    match items.find(|item| !known.insert(item.to_string())) {
        Some(item) => format!("{} twice", shown(item)),
        // For example `1` and `1.0`.
        None => "two equal items".to_owned(),
    }
}

fn other_items(value: &Value) -> String {
    match value.as_array().map_or(0, Vec::len) {
        0 => "none".to_owned(),
        1 => "1 item that does not satisfy it".to_owned(),
        count => format!("{count} items that do not satisfy it"),
    }
}

/// The value that a schema under `not` forbids, if it is simple.
fn not(schema: &Value) -> String {
    let is_alone = schema.as_object().is_some_and(|schema| schema.len() == 1);
    let keyword = |name: &str| schema.get(name).filter(|_| is_alone);
    if let Some(value) = keyword("const") {
        format!("must not be {}", shown(value))
    } else if let Some(options) = keyword("enum") {
        format!("must be none of {}", listed(options))
    } else if let Some(pattern) = keyword("pattern").and_then(Value::as_str) {
        format!("must not match `{pattern}`")
    } else if let Some(kind) = keyword("type").and_then(Value::as_str) {
        format!("must not be {}", with_article(kind))
    } else {
        "must not match the schema of `not`".to_owned()
    }
}

/// The expectations of several forms, none of which the value satisfies.
fn one_of(forms: &[Vec<ValidationError<'static>>], error: &ValidationError<'_>) -> String {
    const MAX_FORMS: usize = 5;
    let own = path_of(error);
    let mut expected: Vec<String> = Vec::new();
    // The first violation of a form usually identifies it.
    for violation in forms.iter().filter_map(|form| form.first()) {
        let inside = path_of(violation);
        let (words, _) = message_parts(violation);
        let inside = inside.strip_prefix(&own).unwrap_or(&inside).trim_start_matches('.');
        let alternative = if inside.is_empty() { words } else { format!("its `{inside}` {words}") };
        if !expected.contains(&alternative) {
            expected.push(alternative);
        }
    }
    let more = expected.len().saturating_sub(MAX_FORMS);
    expected.truncate(MAX_FORMS);
    if more > 0 {
        expected.push(format!("match one of {} more", with_plural(more as u64, "alternative")));
    }
    match expected.is_empty() {
        true => "must match one of the schema's alternatives".to_owned(),
        false => expected.join(", or "),
    }
}

/// A value in a message: short values in full, long ones by their type. A string that could be mistaken for
/// another type is in quotes: `"20"` is a string, `20` a number.
pub(super) fn shown(value: &Value) -> String {
    const MAX_SHOWN: usize = 60;
    match value {
        Value::String(text) => match text.chars().count() {
            count if count > MAX_SHOWN => format!("a string of {count} characters"),
            _ if could_be_other(text) => format!("`{value}`"),
            _ => format!("`{text}`"),
        },
        Value::Number(number) if number.as_str().len() > MAX_SHOWN => {
            format!("a number of {} digits", number.as_str().len())
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => format!("`{value}`"),
        Value::Array(_) | Value::Object(_) => kind_of(value).to_owned(),
    }
}

/// Whether a string, without quotes, looks like a number, a boolean, null, or nothing at all.
fn could_be_other(text: &str) -> bool {
    text.trim().is_empty() || serde_json::from_str::<serde::de::IgnoredAny>(text).is_ok()
}

/// Expected values, after the name of what has another one.
pub(super) fn one_of_values(options: &Value) -> String {
    let is_single = options.as_array().is_some_and(|options| options.len() == 1);
    format!("must be {}{}", if is_single { "" } else { "one of " }, listed(options))
}

fn listed(options: &Value) -> String {
    const MAX_LISTED: usize = 20;
    let Some(options) = options.as_array() else { return shown(options) };
    let mut names: Vec<_> = options.iter().take(MAX_LISTED).map(shown).collect();
    if options.len() > MAX_LISTED {
        names.push(format!("and {} more", options.len() - MAX_LISTED));
    }
    names.join(", ")
}

fn type_names(kind: &TypeKind) -> String {
    let kinds = match kind {
        TypeKind::Single(kind) => vec![with_article(kind.as_str())],
        TypeKind::Multiple(kinds) => kinds.iter().map(|kind| with_article(kind.as_str())).collect(),
    };
    kinds.join(" or ")
}

/// Formats `/items/2/price` as `items[2].price`.
fn readable_path(pointer: &str) -> String {
    let mut path = String::new();
    for segment in pointer.split('/').skip(1) {
        // Undo `~1` before `~0`, or `~01` would turn into `/` (RFC 6901, section 4).
        let segment = segment.replace("~1", "/").replace("~0", "~");
        let is_index = segment.bytes().all(|byte| byte.is_ascii_digit()) && !segment.is_empty();
        match path.is_empty() {
            _ if is_index => path += &format!("[{segment}]"),
            true => path += &segment,
            false => path += &format!(".{segment}"),
        }
    }
    path
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::model::Schema;

    #[track_caller]
    fn check(schema: Value, value: Value, expected: &[(&str, &str)]) {
        let schema = Schema::compile(schema.as_object().unwrap()).unwrap();
        let found = schema.violations(&value, 8);
        let found: Vec<_> = found.iter().map(|v| (v.path.as_str(), v.message.as_str())).collect();
        assert_eq!(found, expected);
    }

    #[test]
    fn a_violation_has_path_expected_and_found() {
        let city = json!({
            "type": "object",
            "properties": {"city": {"enum": ["oslo", "bergen"]}, "n": {"type": "integer"}},
            "required": ["city"],
            "additionalProperties": false,
        });
        check(
            city.clone(),
            json!({"city": "olso"}),
            &[("city", "must be one of `oslo`, `bergen`; found `olso`")],
        );
        check(city.clone(), json!({}), &[("city", "is required; found nothing")]);
        check(city.clone(), json!({"city": "oslo", "n": "x"}), &[("n", "must be an integer; found `x`")]);
        check(city, json!({"city": "oslo", "m": 1}), &[("", "must not have the property `m`")]);
        let nested =
            json!({"type": "array", "items": {"type": "object", "properties": {"a/b": {"type": "number"}}}});
        check(nested, json!([{}, {"a/b": []}]), &[("[1].a/b", "must be a number; found an array")]);
    }

    /// Checks the message for a value whose `x` violates a schema; the second form also checks the path.
    #[track_caller]
    fn message_parts(schema: Value, x: Value, expected: &str) {
        check_at(schema, x, "x", expected);
    }

    #[track_caller]
    fn check_at(schema: Value, x: Value, path: &str, expected: &str) {
        check(json!({ "properties": { "x": schema } }), json!({ "x": x }), &[(path, expected)]);
    }

    #[test]
    fn values_have_plain_messages() {
        message_parts(json!({"type": "string"}), json!(5), "must be a string; found `5`");
        message_parts(
            json!({"type": ["string", "null"]}),
            json!([]),
            "must be null or a string; found an array",
        );
        message_parts(json!({"const": "on"}), json!("off"), "must be `on`; found `off`");
        message_parts(
            json!({"enum": ["on", 1, null]}),
            json!(2),
            "must be one of `on`, `1`, `null`; found `2`",
        );
        message_parts(json!({"enum": ["on"]}), json!(2), "must be `on`; found `2`");
        message_parts(json!(false), json!(1), "must not be present; found `1`");
        message_parts(json!({"minimum": 3}), json!(2), "must be at least 3; found `2`");
        message_parts(json!({"maximum": 3}), json!(4.5), "must be at most 3; found `4.5`");
        message_parts(json!({"exclusiveMinimum": 0}), json!(0), "must be more than 0; found `0`");
        message_parts(json!({"exclusiveMaximum": 1}), json!(1), "must be less than 1; found `1`");
        message_parts(json!({"multipleOf": 5}), json!(7), "must be a multiple of 5; found `7`");
        message_parts(json!({"minLength": 3}), json!("ab"), "must have at least 3 characters; found `ab`");
        message_parts(json!({"maxLength": 1}), json!("ab"), "must have at most 1 character; found `ab`");
        message_parts(
            json!({"maxLength": 9}),
            json!("a".repeat(70)),
            "must have at most 9 characters; found a string of 70 characters",
        );
        message_parts(json!({"pattern": "^[a-z]+$"}), json!("A"), "must match `^[a-z]+$`; found `A`");
    }

    #[test]
    fn a_text_that_looks_like_another_value_is_in_quotes() {
        message_parts(json!({"type": "integer"}), json!("20"), "must be an integer; found `\"20\"`");
        message_parts(json!({"type": "boolean"}), json!("true"), "must be a boolean; found `\"true\"`");
        message_parts(json!({"enum": ["1", 2]}), json!(1), "must be one of `\"1\"`, `2`; found `1`");
        message_parts(json!({"minLength": 1}), json!(""), "must have at least 1 character; found `\"\"`");
    }

    #[test]
    fn lists_have_plain_messages() {
        message_parts(json!({"minItems": 4}), json!([1, 2]), "must have at least 4 items; found 2");
        message_parts(json!({"minItems": 1}), json!([]), "must have at least 1 item; found none");
        message_parts(json!({"maxItems": 1}), json!([1, 2]), "must have at most 1 item; found 2");
        message_parts(json!({"maxItems": 0}), json!([1]), "must have no items; found 1");
        message_parts(
            json!({"uniqueItems": true}),
            json!(["a", "b", "a"]),
            "must not contain duplicate items; found `a` twice",
        );
        message_parts(
            json!({"uniqueItems": true}),
            json!([1, 1.0]),
            "must not contain duplicate items; found two equal items",
        );
        let contains = json!({"contains": {"const": 1}});
        message_parts(
            contains.clone(),
            json!([2, 3]),
            "must have the items that `contains` requires; found 2 items that do not satisfy it",
        );
        message_parts(contains, json!([]), "must have the items that `contains` requires; found none");
        message_parts(
            json!({"contains": {"const": 1}, "maxContains": 1}),
            json!([1, 1]),
            "must have the items that `contains` requires; found 2 items that do not satisfy it",
        );
        check_at(
            json!({"prefixItems": [{"type": "string"}]}),
            json!([1]),
            "x[0]",
            "must be a string; found `1`",
        );
        check_at(
            json!({"prefixItems": [true], "items": false}),
            json!([1, 2]),
            "x[1]",
            "must not be present; found `2`",
        );
        message_parts(
            json!({"prefixItems": [true], "unevaluatedItems": false}),
            json!([1, 2]),
            "must have at most 1 item; found 2",
        );
    }

    #[test]
    fn objects_have_plain_messages() {
        check_at(json!({"required": ["a"]}), json!({}), "x.a", "is required; found nothing");
        check_at(
            json!({"dependentRequired": {"a": ["b"]}}),
            json!({"a": 1}),
            "x.b",
            "is required; found nothing",
        );
        message_parts(json!({"minProperties": 1}), json!({}), "must have at least 1 property; found none");
        message_parts(
            json!({"maxProperties": 1}),
            json!({"a": 1, "b": 2}),
            "must have at most 1 property; found 2",
        );
        let named = json!({"properties": {"a": true}});
        let closed = |keyword: &str| {
            let mut schema = named.clone();
            schema[keyword] = json!(false);
            schema
        };
        for keyword in ["additionalProperties", "unevaluatedProperties"] {
            message_parts(closed(keyword), json!({"b": 1, "c": 2}), "must not have the properties `b`, `c`");
        }
        message_parts(
            json!({"propertyNames": {"pattern": "^[a-z]+$"}}),
            json!({"A": 1}),
            "must have properties whose name must match `^[a-z]+$`; found `A`",
        );
    }

    #[test]
    fn schemas_of_schemas_have_plain_messages() {
        let forms = json!([{"type": "string", "maxLength": 3}, {"type": "null"}]);
        for keyword in ["anyOf", "oneOf"] {
            message_parts(
                json!({ keyword: forms }),
                json!(5),
                "must be a string, or must be null; found `5`",
            );
            message_parts(
                json!({ keyword: forms }),
                json!("four"),
                "must have at most 3 characters, or must be null; found `four`",
            );
        }
        message_parts(
            json!({"anyOf": [{"type": "object", "properties": {"a": {"type": "number"}}}, {"type": "string"}]}),
            json!({"a": "b"}),
            "its `a` must be a number, or must be a string; found an object",
        );
        message_parts(
            json!({"oneOf": [{"minimum": 1}, {"maximum": 9}]}),
            json!(5),
            "must match exactly one schema of `oneOf`; found `5`, which matches several",
        );
        message_parts(json!({"not": {"const": "x"}}), json!("x"), "must not be `x`; found `x`");
        message_parts(
            json!({"not": {"enum": ["x", "y"]}}),
            json!("x"),
            "must be none of `x`, `y`; found `x`",
        );
        message_parts(json!({"not": {"type": "string"}}), json!("x"), "must not be a string; found `x`");
        message_parts(json!({"not": {"pattern": "^x"}}), json!("x"), "must not match `^x`; found `x`");
        message_parts(
            json!({"not": {"minimum": 1, "maximum": 9}}),
            json!(5),
            "must not match the schema of `not`; found `5`",
        );
        message_parts(json!({"allOf": [{"minimum": 9}]}), json!(5), "must be at least 9; found `5`");
        message_parts(
            json!({"if": {"minimum": 1}, "then": {"minimum": 9}}),
            json!(5),
            "must be at least 9; found `5`",
        );
    }
}
