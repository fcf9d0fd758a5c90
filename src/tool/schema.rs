//! JSON Schema: compiled once, with violations told in the words of a person.

use std::fmt;

use jsonschema::{
    ValidationError,
    error::{TypeKind, ValidationErrorKind},
};
use serde_json::{Map, Value};

/// One compiled JSON Schema, 2020-12 unless its `$schema` says otherwise.
///
/// It reads no file and no network: a `$ref` to another document does not compile. Patterns run on an engine
/// of linear time, so a hostile value can't make it slow.
pub struct Schema {
    document: Map<String, Value>,
    validator: jsonschema::Validator,
}

/// Why a JSON value is no usable schema.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct SchemaError {
    /// What is wrong, in one sentence.
    pub message: String,
    /// Where in the schema, as a JSON Pointer.
    pub pointer: String,
}

/// One way in which a value breaks a schema.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Violation {
    /// Where in the value, as a path of names and numbers: `items[2].price`; empty for the whole value.
    pub path: String,
    /// What it must be and what was found, as the second half of a sentence: "must be a number; found a
    /// string".
    pub what: String,
}

impl Schema {
    /// Compiles a schema.
    ///
    /// # Errors
    ///
    /// [`SchemaError`] when the document is not a valid JSON Schema, names another document, or has a pattern
    /// that can't be run in linear time.
    pub fn compile(document: &Map<String, Value>) -> Result<Self, SchemaError> {
        let value = Value::Object(document.clone());
        let validator = jsonschema::options()
            .with_draft(jsonschema::Draft::Draft202012)
            .with_pattern_options(jsonschema::PatternOptions::regex())
            .offline()
            .build(&value)
            .map_err(|error| SchemaError {
                message: SchemaMessage(&error).to_string(),
                pointer: error.instance_path().to_string(),
            })?;
        Ok(Self { document: document.clone(), validator })
    }

    /// The schema as written.
    pub fn document(&self) -> &Map<String, Value> {
        &self.document
    }

    /// Checks a value; at most `limit` violations are told.
    pub fn violations(&self, value: &Value, limit: usize) -> Vec<Violation> {
        if self.validator.is_valid(value) {
            return Vec::new();
        }
        self.validator.iter_errors(value).take(limit).map(|error| Violation::of(&error)).collect()
    }

    /// Whether a value meets the schema.
    pub fn admits(&self, value: &Value) -> bool {
        self.validator.is_valid(value)
    }
}

impl fmt::Debug for Schema {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_tuple("Schema").field(&self.document).finish()
    }
}

impl Violation {
    fn of(error: &ValidationError<'_>) -> Self {
        let mut path = readable_path(&error.instance_path().to_string());
        let what = match error.kind() {
            ValidationErrorKind::Required { property } => {
                let name = property.as_str().unwrap_or_default();
                if !path.is_empty() {
                    path.push('.');
                }
                path.push_str(name);
                "is required; found nothing".to_owned()
            }
            ValidationErrorKind::Type { kind } => {
                format!("must be {}; found {}", type_names(kind), shown(error.instance()))
            }
            ValidationErrorKind::Enum { options } => {
                format!("must be one of {}; found {}", listed(options), shown(error.instance()))
            }
            ValidationErrorKind::Constant { expected_value } => {
                format!("must be {}; found {}", shown(expected_value), shown(error.instance()))
            }
            ValidationErrorKind::AdditionalProperties { unexpected }
            | ValidationErrorKind::UnevaluatedProperties { unexpected } => {
                format!("has no place for {}", listed(&unexpected.iter().map(String::as_str).collect()))
            }
            ValidationErrorKind::Minimum { limit } => {
                format!("must be at least {limit}; found {}", shown(error.instance()))
            }
            ValidationErrorKind::Maximum { limit } => {
                format!("must be at most {limit}; found {}", shown(error.instance()))
            }
            ValidationErrorKind::MinLength { limit } => {
                format!("must have at least {limit} characters; found {}", shown(error.instance()))
            }
            ValidationErrorKind::MaxLength { limit } => {
                format!("must have at most {limit} characters; found {}", shown(error.instance()))
            }
            ValidationErrorKind::Pattern { pattern } => {
                format!("must match `{pattern}`; found {}", shown(error.instance()))
            }
            ValidationErrorKind::Format { format } => {
                format!("must be of the format `{format}`; found {}", shown(error.instance()))
            }
            // The rest is rare enough for the validator's own words.
            _ => error.masked_with(shown(error.instance())).to_string(),
        };
        Self { path, what }
    }
}

/// Words for a schema that does not compile; the validator's own speak of values, not of schemas.
struct SchemaMessage<'a>(&'a ValidationError<'a>);

impl fmt::Display for SchemaMessage<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0.kind() {
            ValidationErrorKind::Referencing(error) => {
                write!(formatter, "a `$ref` that can't be followed: {error}; put what it names under `$defs`")
            }
            ValidationErrorKind::Format { format } if format == "regex" => {
                write!(formatter, "{} is not a regular expression of linear time", shown(self.0.instance()))
            }
            ValidationErrorKind::AnyOf { .. } => {
                write!(formatter, "{} is not what JSON Schema has here", shown(self.0.instance()))
            }
            _ => write!(formatter, "{}", self.0),
        }
    }
}

/// What a value is, with an article: "a string", "an object".
pub fn kind_of(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "a boolean",
        Value::Number(_) => "a number",
        Value::String(_) => "a string",
        Value::Array(_) => "an array",
        Value::Object(_) => "an object",
    }
}

/// A value in a message: short ones as they are, long ones by their kind.
fn shown(value: &Value) -> String {
    const LONGEST_SHOWN: usize = 60;
    match value {
        Value::String(text) if text.chars().count() <= LONGEST_SHOWN => format!("`{text}`"),
        Value::Number(number) if number.as_str().len() > LONGEST_SHOWN => {
            format!("a number of {} digits", number.as_str().len())
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => format!("`{value}`"),
        Value::String(text) => format!("a string of {} characters", text.chars().count()),
        Value::Array(_) | Value::Object(_) => kind_of(value).to_owned(),
    }
}

fn listed(options: &Value) -> String {
    const MOST_LISTED: usize = 20;
    let Some(options) = options.as_array() else { return shown(options) };
    let mut names: Vec<_> = options.iter().take(MOST_LISTED).map(shown).collect();
    if options.len() > MOST_LISTED {
        names.push(format!("and {} more", options.len() - MOST_LISTED));
    }
    names.join(", ")
}

fn type_names(kind: &TypeKind) -> String {
    let name = |kind: jsonschema::JsonType| match kind {
        jsonschema::JsonType::Array => "an array",
        jsonschema::JsonType::Boolean => "a boolean",
        jsonschema::JsonType::Integer => "an integer",
        jsonschema::JsonType::Null => "null",
        jsonschema::JsonType::Number => "a number",
        jsonschema::JsonType::Object => "an object",
        jsonschema::JsonType::String => "a string",
    };
    match kind {
        TypeKind::Single(kind) => name(*kind).to_owned(),
        TypeKind::Multiple(kinds) => kinds.iter().map(name).collect::<Vec<_>>().join(" or "),
    }
}

/// `/items/2/price` as `items[2].price`.
fn readable_path(pointer: &str) -> String {
    let mut path = String::new();
    for segment in pointer.split('/').skip(1) {
        // Undo `~1` before `~0`, or `~01` would turn into `/` (RFC 6901, section 4).
        let segment = segment.replace("~1", "/").replace("~0", "~");
        if segment.bytes().all(|byte| byte.is_ascii_digit()) && !segment.is_empty() {
            path.push_str(&format!("[{segment}]"));
        } else {
            if !path.is_empty() {
                path.push('.');
            }
            path.push_str(&segment);
        }
    }
    path
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[track_caller]
    fn check(schema: Value, value: Value, expected: &[(&str, &str)]) {
        let schema = Schema::compile(schema.as_object().unwrap()).unwrap();
        let found = schema.violations(&value, 8);
        let found: Vec<_> = found.iter().map(|v| (v.path.as_str(), v.what.as_str())).collect();
        assert_eq!(found, expected);
    }

    #[test]
    fn a_violation_says_where_what_was_expected_and_what_was_found() {
        let city = json!({"type": "object", "properties": {"city": {"enum": ["oslo", "bergen"]}, "n": {"type": "integer"}},
            "required": ["city"], "additionalProperties": false});
        check(
            city.clone(),
            json!({"city": "olso"}),
            &[("city", "must be one of `oslo`, `bergen`; found `olso`")],
        );
        check(city.clone(), json!({}), &[("city", "is required; found nothing")]);
        check(city.clone(), json!({"city": "oslo", "n": "x"}), &[("n", "must be an integer; found `x`")]);
        check(city, json!({"city": "oslo", "m": 1}), &[("", "has no place for `m`")]);
        let nested =
            json!({"type": "array", "items": {"type": "object", "properties": {"a/b": {"type": "number"}}}});
        check(nested, json!([{}, {"a/b": []}]), &[("[1].a/b", "must be a number; found an array")]);
    }

    #[test]
    fn a_schema_that_is_none_is_refused() {
        let refused = |schema: Value| Schema::compile(schema.as_object().unwrap()).unwrap_err();
        assert_eq!(refused(json!({"properties": {"a": {"type": "strnig"}}})).pointer, "/properties/a/type");
        assert!(refused(json!({"$ref": "https://example.com/other"})).message.contains("$defs"));
        assert!(refused(json!({"$ref": "file:///etc/passwd"})).message.contains("$defs"));
        assert!(refused(json!({"pattern": "(?=a)"})).message.contains("linear"));
    }

    #[test]
    fn large_numbers_are_compared_exactly() {
        let schema = json!({"type": "integer", "maximum": 12345678901234567890_u64});
        let schema = Schema::compile(schema.as_object().unwrap()).unwrap();
        assert!(schema.admits(&serde_json::from_str("12345678901234567890").unwrap()));
        assert!(!schema.admits(&serde_json::from_str("12345678901234567891").unwrap()));
    }
}
