//! Tools for authors of routes.
//!
//! - [`infer`] proposes a route for recorded responses.
//! - [`import`] converts an API description to routes.
//! - [`playground`] explains the effect of rules on a response.

pub mod import;
pub mod infer;
pub mod playground;

use serde_json::{Map, Value, json};

/// The members of an object without those that are null, or an empty list or object.
fn without_empty(object: Value) -> Map<String, Value> {
    let Value::Object(members) = object else { return Map::new() };
    let is_empty = |value: &Value| value.is_null() || *value == json!({}) || *value == json!([]);
    members.into_iter().filter(|(_, value)| !is_empty(value)).collect()
}

/// The runs of these characters in a text, joined with `_`.
pub(crate) fn joined_words(text: &str, is_part: impl Fn(char) -> bool) -> String {
    let words = text.split(|c| !is_part(c)).filter(|word| !word.is_empty());
    words.collect::<Vec<_>>().join("_")
}

/// A number with its noun: `1 route`, `2 routes`.
pub(crate) fn count(number: usize, noun: &str) -> String {
    let plural = if number == 1 { "" } else { "s" };
    format!("{number} {noun}{plural}")
}
