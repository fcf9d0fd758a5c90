//! The arguments of an example, which is about a reply and may leave them out.

use serde_json::{Map, Value, json};

use crate::{route::Route, tool::Arguments};

/// Arguments as a call would have them: checked, with the schema's defaults. Where none are given at all, those
/// that the schema requires are made up.
///
/// # Errors
///
/// The sentence that a caller would get.
pub fn example_arguments(route: &Route, given: Map<String, Value>) -> Result<Arguments, String> {
    if !given.is_empty() {
        return route.input.check(given.into());
    }
    let made_up = made_up_arguments(route);
    // What was made up may break a pattern; that says nothing of the example.
    Ok(route.input.check(made_up.clone()).unwrap_or(made_up))
}

/// The arguments that a route requires, with values that are made up.
pub fn made_up_arguments(route: &Route) -> Arguments {
    let mut arguments = Arguments::default();
    let document = route.input.document();
    let properties = document.get("properties").and_then(Value::as_object);
    let required = document.get("required").and_then(Value::as_array);
    for name in required.into_iter().flatten().filter_map(Value::as_str) {
        let schema = properties.and_then(|properties| properties.get(name));
        arguments.insert(name, made_up(schema.unwrap_or(&Value::Null)));
    }
    arguments
}

fn made_up(schema: &Value) -> Value {
    if let Some(first) = schema["enum"].get(0).or_else(|| schema["examples"].get(0)) {
        return first.clone();
    }
    match schema["type"].as_str() {
        Some("integer" | "number") => schema.get("minimum").cloned().unwrap_or_else(|| 1.into()),
        Some("boolean") => true.into(),
        Some("array") => json!([]),
        Some("object") => json!({}),
        _ => "example".into(),
    }
}
