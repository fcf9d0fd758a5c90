//! Messages for schema violations: path, expected form, and found value.

use std::collections::HashSet;

use jsonschema::{
    ValidationError,
    error::{TypeKind, ValidationErrorKind as Kind},
};
use serde_json::Value;

use super::schema::{kind_of, with_article};
use super::text::{cut_characters, pointer_token};

/// Violation of a schema by a value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Violation {
    /// Path within the value, such as `items[2].price`; empty for the whole value.
    pub path: String,
    /// JSON Pointer within the value. It points to the member if a member is missing or not allowed.
    pub pointer: String,
    /// Expected form and found value, as the second half of a sentence: "must be a number; found a string".
    pub message: String,
    /// Sentence for the log that quotes nothing of the value; with the position in the schema, if known.
    pub plain: String,
}

impl Violation {
    /// Creates a violation by the value at a JSON Pointer. `message` must not quote the value.
    pub(super) fn without_value(pointer: &str, message: &str) -> Self {
        let (path, pointer) = (readable_path(pointer), pointer.to_owned());
        Self { path, pointer, message: message.to_owned(), plain: format!("the value {message}") }
    }

    pub(super) fn from_error(error: &ValidationError<'_>) -> Self {
        let pointer = match error.kind() {
            Kind::AdditionalProperties { unexpected } | Kind::UnevaluatedProperties { unexpected } => {
                member_pointer(error, unexpected.first())
            }
            _ => pointer_of(error),
        };
        let message = match describe_found(error) {
            Some(found) => format!("{}; found {found}", describe_expected(error)),
            None => describe_expected(error),
        };
        Self { path: path_of(error), pointer, message, plain: message_without_value(error) }
    }
}

/// Message that quotes nothing of the value: the expected form, and the type and length of the value.
fn message_without_value(error: &ValidationError<'_>) -> String {
    let expected = match error.kind() {
        Kind::Required { property } => format!("`{}` is required", property.as_str().unwrap_or_default()),
        // The ordinary message for these errors names members of the value.
        Kind::AdditionalProperties { .. } | Kind::UnevaluatedProperties { .. } => {
            "must have no other properties".to_owned()
        }
        Kind::AnyOf { .. } | Kind::OneOfNotValid { .. } => ALTERNATIVES.to_owned(),
        _ => describe_expected(error),
    };
    let found = match error.instance().as_ref() {
        Value::String(text) => format!("a string of {} bytes", text.len()),
        Value::Array(items) => format!("an array of {}", items.len()),
        other => kind_of(other).to_owned(),
    };
    format!("at `{}` of the schema: {expected}; found {found}", error.schema_path())
}

/// JSON Pointer of the violation; for a missing member, of the place where it should be.
fn pointer_of(error: &ValidationError<'_>) -> String {
    match error.kind() {
        Kind::Required { property } => member_pointer(error, property.as_str()),
        _ => error.instance_path().to_string(),
    }
}

fn member_pointer(error: &ValidationError<'_>, name: Option<impl AsRef<str>>) -> String {
    let member = name.map(|name| format!("/{}", pointer_token(name.as_ref()))).unwrap_or_default();
    format!("{}{member}", error.instance_path())
}

fn path_of(error: &ValidationError<'_>) -> String {
    readable_path(&pointer_of(error))
}

const ALTERNATIVES: &str = "must match one of the schema's alternatives";

/// Describes the expected form. Quotes nothing of the value except the names of members.
fn describe_expected(error: &ValidationError<'_>) -> String {
    match error.kind() {
        Kind::Required { .. } => "is required".to_owned(),
        Kind::Type { kind } => format!("must be {}", type_names(kind)),
        Kind::FalseSchema => "must not be present".to_owned(),
        Kind::AdditionalProperties { unexpected } | Kind::UnevaluatedProperties { unexpected } => {
            let properties = if unexpected.len() == 1 { "property" } else { "properties" };
            let names = format_options(&unexpected.iter().map(String::as_str).collect());
            format!("must not have the {properties} {names}")
        }
        Kind::PropertyNames { error } => format!("has a property whose name {}", describe_expected(error)),
        Kind::MinProperties { limit } => format!("must have at least {}", format_count(*limit, "property")),
        Kind::MaxProperties { limit } => format!("must have at most {}", format_count(*limit, "property")),
        Kind::MinItems { limit } => format!("must have at least {}", format_count(*limit, "item")),
        Kind::MaxItems { limit } => format!("must have at most {}", format_count(*limit, "item")),
        Kind::MinLength { limit } => format!("must have at least {}", format_count(*limit, "character")),
        Kind::MaxLength { limit } => format!("must have at most {}", format_count(*limit, "character")),
        Kind::Minimum { limit } => format!("must be at least {limit}"),
        Kind::Maximum { limit } => format!("must be at most {limit}"),
        Kind::ExclusiveMinimum { limit } => format!("must be more than {limit}"),
        Kind::ExclusiveMaximum { limit } => format!("must be less than {limit}"),
        Kind::Pattern { pattern } => format!("must match `{pattern}`"),
        Kind::Format { format } => format!("must be of the format `{format}`"),
        Kind::Not { schema } => format!("must not match `{}`", cut_characters(&schema.to_string(), 200)),
        Kind::AnyOf { context } | Kind::OneOfNotValid { context } => describe_alternatives(context, error),
        Kind::OneOfMultipleValid { .. } => "must match exactly one schema of `oneOf`".to_owned(),
        // The keywords in `exact` have their own messages.
        Kind::Custom { message, .. } => message.clone(),
        other => format!("must match `{}` of the schema", other.keyword()),
    }
}

/// Describes the found value, or the part of it that the keyword is about. `None` if the expected form
/// already names the part.
fn describe_found(error: &ValidationError<'_>) -> Option<String> {
    let value = error.instance();
    Some(match (error.kind(), value.as_ref()) {
        (Kind::Required { .. }, _) => "nothing".to_owned(),
        (Kind::AdditionalProperties { .. } | Kind::UnevaluatedProperties { .. }, _) => return None,
        (Kind::PropertyNames { error }, _) => shown(error.instance()),
        (Kind::MinItems { .. } | Kind::MaxItems { .. }, Value::Array(items)) => items.len().to_string(),
        (Kind::MinProperties { .. } | Kind::MaxProperties { .. }, Value::Object(members)) => {
            members.len().to_string()
        }
        (Kind::OneOfMultipleValid { .. }, value) => format!("{}, which matches several", shown(value)),
        (Kind::Custom { keyword, .. }, Value::Array(items)) if keyword == "uniqueItems" => {
            describe_duplicate(items)
        }
        (_, value) => shown(value),
    })
}

/// Describes the first item that occurs twice in an array.
fn describe_duplicate(items: &[Value]) -> String {
    let mut seen = HashSet::new();
    match items.iter().find(|item| !seen.insert(item.to_string())) {
        Some(item) => format!("{} twice", shown(item)),
        // Equal items with different texts, for example `1` and `1.0`.
        None => "two equal items".to_owned(),
    }
}

/// Formats a count with its noun: `1 item`, `2 properties`.
fn format_count(count: u64, noun: &str) -> String {
    match (count, noun) {
        (1, _) => format!("1 {noun}"),
        (_, "property") => format!("{count} properties"),
        _ => format!("{count} {noun}s"),
    }
}

/// Describes what the alternatives of a schema expect, if the value matches none of them.
fn describe_alternatives(forms: &[Vec<ValidationError<'static>>], error: &ValidationError<'_>) -> String {
    const MAX_FORMS: usize = 5;
    let own_path = path_of(error);
    let mut alternatives: Vec<String> = Vec::new();
    // Each alternative is described by its first violation, which usually tells the alternatives apart.
    for violation in forms.iter().filter_map(|form| form.first()) {
        let (sub_path, expectation) = (path_of(violation), describe_expected(violation));
        let sub_path = sub_path.strip_prefix(&own_path).unwrap_or(&sub_path).trim_start_matches('.');
        let alternative =
            if sub_path.is_empty() { expectation } else { format!("its `{sub_path}` {expectation}") };
        if !alternatives.contains(&alternative) {
            alternatives.push(alternative);
        }
    }
    if let Some(omitted) = alternatives.len().checked_sub(MAX_FORMS).filter(|omitted| *omitted > 0) {
        alternatives.truncate(MAX_FORMS);
        alternatives.push(format!("must match another alternative ({omitted} more)"));
    }
    if alternatives.is_empty() { ALTERNATIVES.to_owned() } else { alternatives.join(", or ") }
}

/// Formats a value for a message: short values in full, long values as their type. A string that could be
/// mistaken for another type is in quotes: `"20"` is a string, `20` a number.
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

/// Whether a string without quotes could be mistaken for another JSON value, or is blank.
fn could_be_other(text: &str) -> bool {
    text.trim().is_empty() || serde_json::from_str::<serde::de::IgnoredAny>(text).is_ok()
}

/// Describes a list of expected values, as the end of a sentence.
pub(super) fn one_of_values(options: &Value) -> String {
    let is_single = options.as_array().is_some_and(|options| options.len() == 1);
    format!("must be {}{}", if is_single { "" } else { "one of " }, format_options(options))
}

fn format_options(options: &Value) -> String {
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
    pointer.split('/').skip(1).fold(String::new(), |path, token| {
        // Undo `~1` before `~0`, or `~01` would turn into `/` (RFC 6901, section 4).
        let name = token.replace("~1", "/").replace("~0", "~");
        match !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_digit()) {
            true => format!("{path}[{name}]"),
            false if path.is_empty() => name,
            false => format!("{path}.{name}"),
        }
    })
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
        let found: Vec<_> =
            found.iter().map(|violation| (violation.path.as_str(), violation.message.as_str())).collect();
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
        let signed = json!({"properties": {"+5": {"type": "number"}}});
        check(signed, json!({"+5": []}), &[("+5", "must be a number; found an array")]);
    }

    /// Checks the message for a value whose `x` violates a schema; the second form also checks the path.
    #[track_caller]
    fn check_message(schema: Value, x: Value, expected: &str) {
        check_at(schema, x, "x", expected);
    }

    #[track_caller]
    fn check_at(schema: Value, x: Value, path: &str, expected: &str) {
        check(json!({ "properties": { "x": schema } }), json!({ "x": x }), &[(path, expected)]);
    }

    #[test]
    fn values_have_plain_messages() {
        check_message(json!({"type": "string"}), json!(5), "must be a string; found `5`");
        check_message(
            json!({"type": ["string", "null"]}),
            json!([]),
            "must be null or a string; found an array",
        );
        check_message(json!({"const": "on"}), json!("off"), "must be `on`; found `off`");
        check_message(
            json!({"enum": ["on", 1, null]}),
            json!(2),
            "must be one of `on`, `1`, `null`; found `2`",
        );
        check_message(json!({"enum": ["on"]}), json!(2), "must be `on`; found `2`");
        check_message(json!(false), json!(1), "must not be present; found `1`");
        check_message(json!({"minimum": 3}), json!(2), "must be at least 3; found `2`");
        check_message(json!({"maximum": 3}), json!(4.5), "must be at most 3; found `4.5`");
        check_message(json!({"exclusiveMinimum": 0}), json!(0), "must be more than 0; found `0`");
        check_message(json!({"exclusiveMaximum": 1}), json!(1), "must be less than 1; found `1`");
        check_message(json!({"multipleOf": 5}), json!(7), "must be a multiple of 5; found `7`");
        check_message(json!({"minLength": 3}), json!("ab"), "must have at least 3 characters; found `ab`");
        check_message(json!({"maxLength": 1}), json!("ab"), "must have at most 1 character; found `ab`");
        check_message(
            json!({"maxLength": 9}),
            json!("a".repeat(70)),
            "must have at most 9 characters; found a string of 70 characters",
        );
        check_message(json!({"pattern": "^[a-z]+$"}), json!("A"), "must match `^[a-z]+$`; found `A`");
    }

    #[test]
    fn a_text_that_looks_like_another_value_is_in_quotes() {
        check_message(json!({"type": "integer"}), json!("20"), "must be an integer; found `\"20\"`");
        check_message(json!({"type": "boolean"}), json!("true"), "must be a boolean; found `\"true\"`");
        check_message(json!({"enum": ["1", 2]}), json!(1), "must be one of `\"1\"`, `2`; found `1`");
        check_message(json!({"minLength": 1}), json!(""), "must have at least 1 character; found `\"\"`");
    }

    #[test]
    fn lists_have_plain_messages() {
        check_message(json!({"minItems": 4}), json!([1, 2]), "must have at least 4 items; found 2");
        check_message(json!({"minItems": 1}), json!([]), "must have at least 1 item; found 0");
        check_message(json!({"maxItems": 1}), json!([1, 2]), "must have at most 1 item; found 2");
        check_message(json!({"maxItems": 0}), json!([1]), "must have at most 0 items; found 1");
        check_message(
            json!({"uniqueItems": true}),
            json!(["a", "b", "a"]),
            "must not contain duplicate items; found `a` twice",
        );
        check_message(
            json!({"uniqueItems": true}),
            json!([1, 1.0]),
            "must not contain duplicate items; found two equal items",
        );
        let contains = json!({"contains": {"const": 1}});
        check_message(contains.clone(), json!([2, 3]), "must match `contains` of the schema; found an array");
        check_message(contains, json!([]), "must match `contains` of the schema; found an array");
        check_message(
            json!({"contains": {"const": 1}, "maxContains": 1}),
            json!([1, 1]),
            "must match `contains` of the schema; found an array",
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
        check_message(
            json!({"prefixItems": [true], "unevaluatedItems": false}),
            json!([1, 2]),
            "must match `unevaluatedItems` of the schema; found an array",
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
        check_message(json!({"minProperties": 1}), json!({}), "must have at least 1 property; found 0");
        check_message(
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
            check_message(closed(keyword), json!({"b": 1, "c": 2}), "must not have the properties `b`, `c`");
            let schema = Schema::compile(closed(keyword).as_object().unwrap()).unwrap();
            assert_eq!(schema.violations(&json!({"b": 1}), 1)[0].pointer, "/b");
        }
        check_message(
            json!({"propertyNames": {"pattern": "^[a-z]+$"}}),
            json!({"A": 1}),
            "has a property whose name must match `^[a-z]+$`; found `A`",
        );
    }

    #[test]
    fn schemas_of_schemas_have_plain_messages() {
        let forms = json!([{"type": "string", "maxLength": 3}, {"type": "null"}]);
        for keyword in ["anyOf", "oneOf"] {
            check_message(
                json!({ keyword: forms }),
                json!(5),
                "must be a string, or must be null; found `5`",
            );
            check_message(
                json!({ keyword: forms }),
                json!("four"),
                "must have at most 3 characters, or must be null; found `four`",
            );
        }
        let forms: Vec<Value> = (1..=7).map(|limit| json!({"maximum": -limit})).collect();
        check_message(
            json!({ "anyOf": forms }),
            json!(5),
            "must be at most -1, or must be at most -2, or must be at most -3, or must be at most -4, or must be \
             at most -5, or must match another alternative (2 more); found `5`",
        );
        check_message(
            json!({"anyOf": [{"type": "object", "properties": {"a": {"type": "number"}}}, {"type": "string"}]}),
            json!({"a": "b"}),
            "its `a` must be a number, or must be a string; found an object",
        );
        check_message(
            json!({"oneOf": [{"minimum": 1}, {"maximum": 9}]}),
            json!(5),
            "must match exactly one schema of `oneOf`; found `5`, which matches several",
        );
        check_message(
            json!({"not": {"const": "x"}}),
            json!("x"),
            "must not match `{\"const\":\"x\"}`; found `x`",
        );
        check_message(
            json!({"not": {"enum": ["x", "y"]}}),
            json!("x"),
            "must not match `{\"enum\":[\"x\",\"y\"]}`; found `x`",
        );
        check_message(
            json!({"not": {"type": "string"}}),
            json!("x"),
            "must not match `{\"type\":\"string\"}`; found `x`",
        );
        check_message(
            json!({"not": {"pattern": "^x"}}),
            json!("x"),
            "must not match `{\"pattern\":\"^x\"}`; found `x`",
        );
        check_message(
            json!({"not": {"minimum": 1, "maximum": 9}}),
            json!(5),
            "must not match `{\"minimum\":1,\"maximum\":9}`; found `5`",
        );
        check_message(json!({"allOf": [{"minimum": 9}]}), json!(5), "must be at least 9; found `5`");
        check_message(
            json!({"if": {"minimum": 1}, "then": {"minimum": 9}}),
            json!(5),
            "must be at least 9; found `5`",
        );
    }
}
