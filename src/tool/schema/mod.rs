//! JSON Schema: known to be one before it is used, with violations told in the words of a person.

mod document;
mod plain;
mod well_formed;

use std::{fmt, sync::OnceLock};

use jsonschema::{ValidationError, error::ValidationErrorKind};
use serde_json::{Map, Value};

pub use self::document::SchemaDocument;
use super::violation::{Violation, shown};

/// One JSON Schema, 2020-12 unless its `$schema` says otherwise.
///
/// It reads no file and no network: a `$ref` to another document does not compile. Patterns run on an engine
/// of linear time, so a hostile value can't make it slow.
pub struct Schema {
    document: SchemaDocument,
    formats: Formats,
    /// Made of the document by the first value that is not seen to meet it: some kilobytes, and most tools of a large catalog
    /// are never called.
    validator: OnceLock<Box<jsonschema::Validator>>,
}

/// What `format` is.
#[derive(Debug, Clone, Copy)]
enum Formats {
    Hints,
    Conditions,
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

impl Schema {
    /// A schema that this program has written: nobody need ask whether it is one.
    pub fn known(document: Map<String, Value>) -> Self {
        let schema = Self { document: document.into(), formats: Formats::Hints, validator: OnceLock::new() };
        debug_assert!(validator_of(&(&schema.document).into(), schema.formats).is_ok(), "{schema:?} is none");
        schema
    }

    /// A schema that somebody else has written.
    ///
    /// # Errors
    ///
    /// [`SchemaError`] when the document is not a valid JSON Schema, names another document, or has a pattern
    /// that can't be run in linear time.
    pub fn compile(document: &Map<String, Value>) -> Result<Self, SchemaError> {
        Self::compile_with(document, Formats::Hints)
    }

    /// The same of a schema whose `format`s are conditions too, not hints alone.
    ///
    /// # Errors
    ///
    /// As [`compile`](Self::compile).
    pub fn compile_with_formats(document: &Map<String, Value>) -> Result<Self, SchemaError> {
        Self::compile_with(document, Formats::Conditions)
    }

    fn compile_with(document: &Map<String, Value>, formats: Formats) -> Result<Self, SchemaError> {
        let is_seen = matches!(formats, Formats::Hints) && well_formed::is_schema(document);
        let document = SchemaDocument::from(document.clone());
        if is_seen {
            return Ok(Self { document, formats, validator: OnceLock::new() });
        }
        match validator_of(&(&document).into(), formats) {
            Ok(_) => Ok(Self { document, formats, validator: OnceLock::new() }),
            Err(error) => Err(SchemaError {
                message: SchemaMessage(&error).to_string(),
                pointer: error.instance_path().to_string(),
            }),
        }
    }

    fn validator(&self) -> &jsonschema::Validator {
        self.validator.get_or_init(|| {
            let validator = validator_of(&(&self.document).into(), self.formats);
            Box::new(validator.expect("it is known to be a schema"))
        })
    }

    /// The schema as written.
    pub fn document(&self) -> &SchemaDocument {
        &self.document
    }

    /// Checks a value; at most `limit` violations are told.
    pub fn violations(&self, value: &Value, limit: usize) -> Vec<Violation> {
        if self.admits(value) {
            return Vec::new();
        }
        self.validator().iter_errors(value).take(limit).map(|error| Violation::of(&error)).collect()
    }

    /// Whether a value meets the schema.
    pub fn admits(&self, value: &Value) -> bool {
        let is_seen = match self.formats {
            Formats::Hints => plain::meets(&self.document, value),
            Formats::Conditions => false,
        };
        is_seen || self.validator().is_valid(value)
    }
}

fn validator_of(
    document: &Value,
    formats: Formats,
) -> Result<jsonschema::Validator, ValidationError<'static>> {
    let options = match formats {
        Formats::Hints => jsonschema::options(),
        Formats::Conditions => jsonschema::options().should_validate_formats(true),
    };
    options
        .with_draft(jsonschema::Draft::Draft202012)
        .with_pattern_options(jsonschema::PatternOptions::regex())
        .offline()
        .build(document)
}

impl fmt::Debug for Schema {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_tuple("Schema").field(&self.document).finish()
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

/// The type of a value as schemas call it: `number` for every number.
pub fn type_of(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

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
