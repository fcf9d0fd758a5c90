//! The document, and what its references lead to.

use percent_encoding::percent_decode_str;
use serde_json::{Map, Value};

use super::ImportError;

/// How many references may lead to each other.
const REFERENCE_LIMIT: usize = 16;

/// An OpenAPI 3 document.
pub(super) struct Document {
    root: Value,
}

impl Document {
    pub(super) fn new(root: Value) -> Result<Self, ImportError> {
        let found = match (root.get("openapi"), root.get("swagger")) {
            (Some(Value::String(version)), _) if version.starts_with("3.") => return Ok(Self { root }),
            (Some(version), _) => format!("`openapi: {version}`"),
            (None, Some(version)) => {
                format!("`swagger: {version}`, which is older; converters to version 3 exist")
            }
            (None, None) => "neither `openapi` nor `swagger` in it".to_owned(),
        };
        Err(ImportError::Version { found })
    }

    pub(super) fn get(&self, name: &str) -> Option<&Value> {
        self.root.get(name)
    }

    /// A value, or what it refers to; in words why that is not there.
    pub(super) fn resolved<'d>(&'d self, mut value: &'d Value) -> Result<&'d Value, String> {
        for _ in 0..REFERENCE_LIMIT {
            let Some(reference) = reference_of(value) else { return Ok(value) };
            let Some(pointer) = reference.strip_prefix('#') else {
                return Err(format!("`{reference}` refers to another document, which is not read"));
            };
            let pointer = percent_decode_str(pointer).decode_utf8_lossy();
            value = self.root.pointer(&pointer).ok_or_else(|| format!("`{reference}` refers to nothing"))?;
        }
        Err(format!("more than {REFERENCE_LIMIT} references lead to each other"))
    }

    /// A text of `info`.
    pub(super) fn info(&self, name: &str) -> Option<&str> {
        self.root.get("info")?.get(name)?.as_str()
    }
}

/// What a value refers to, where it is nothing but a reference.
pub(super) fn reference_of(value: &Value) -> Option<&str> {
    value.get("$ref")?.as_str()
}

/// The members of an object; none of anything else.
pub(super) fn members(value: Option<&Value>) -> impl Iterator<Item = (&String, &Value)> {
    value.and_then(Value::as_object).into_iter().flat_map(Map::iter)
}

/// The items of a list; none of anything else.
pub(super) fn items(value: Option<&Value>) -> impl Iterator<Item = &Value> {
    value.and_then(Value::as_array).into_iter().flatten()
}
