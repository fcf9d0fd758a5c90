//! Tools for authors of routes.
//!
//! - [`infer`] proposes a route for recorded responses.
//! - [`import`] converts an API description to routes.
//! - [`playground`] explains the effect of rules on a response.

pub mod import;
pub mod infer;
pub mod playground;

use serde_json::{Map, Value, json};

/// Removes members of an object that are null, an empty list or an empty object.
fn without_empty(object: Value) -> Map<String, Value> {
    let Value::Object(members) = object else { return Map::new() };
    let is_empty = |value: &Value| value.is_null() || *value == json!({}) || *value == json!([]);
    members.into_iter().filter(|(_, value)| !is_empty(value)).collect()
}

/// Joins with `_` the runs of characters for which `is_part` is true.
pub(crate) fn joined_words(text: &str, is_part: impl Fn(char) -> bool) -> String {
    let words = text.split(|c| !is_part(c)).filter(|word| !word.is_empty());
    words.collect::<Vec<_>>().join("_")
}

/// Formats a number with its noun: `1 route`, `2 routes`.
pub(crate) fn pluralize(number: usize, noun: &str) -> String {
    let plural = if number == 1 { "" } else { "s" };
    format!("{number} {noun}{plural}")
}
