//! Step-by-step translation of a given response, for `explain`, `test` and the playground of the admin UI. It
//! sends no request, reads no file and resolves no variable.
//!
//! An example may omit the arguments of its call; [`example_arguments`] then generates the required ones.

use http::{HeaderValue, header::CONTENT_TYPE};
use serde_json::{Map, Value, json};

use crate::config::CompiledRoute;
use crate::model::{
    Arguments, ProgramExit, StructuredContentSupport, ToolResult, UpstreamResponse, result_to_json,
};
use crate::route::{RequestTemplate, Route};
use crate::translate::extract::MCP_MEDIA_TYPE;
use crate::translate::{CallInput, LogNote, Trace, TraceStep, Translation, WorkBudget, translate};

/// Result of a translation, with its steps.
#[derive(Debug)]
pub struct Explanation {
    /// Number of the rule that matched, from 1; `None` for the default rules.
    pub rule: Option<usize>,
    /// Steps of the translation.
    pub steps: Vec<TraceStep>,
    /// Notes that a call would write to the log.
    pub notes: Vec<String>,
    /// The result that a client receives.
    pub result: Value,
}

/// Translates a response to a call with the given arguments and input responses; returns each step.
pub fn explain_translation(
    compiled: &CompiledRoute,
    arguments: Arguments,
    input_responses: &Map<String, Value>,
    response: &UpstreamResponse,
    budget: Option<&WorkBudget>,
) -> Explanation {
    let route = &compiled.route;
    let mut trace = Trace::on();
    let args = Value::Object(arguments.values);
    let input_responses = Value::Object(route.input_requests.with_nulls(input_responses));
    let input = CallInput {
        input_responses: &input_responses,
        work_budget: budget,
        ..CallInput::new(&route.definition.name, &args)
    };
    let Translation { result, rule, notes, sampling: _ } =
        translate(&route.translator, input, response, &mut trace);
    let result = result.with_errors_as(route.error_format);
    let mut steps = trace.into_steps();
    steps.iter_mut().for_each(|step| add_origin(step, &compiled.rule_origins));
    // The user supplied the response, so the note that quotes it is shown instead of the one without quotes.
    let notes = notes.into_iter().filter_map(|LogNote { plain, quoting, .. }| quoting.or(plain)).collect();
    Explanation { rule: rule.map(|index| index + 1), steps, notes, result: result_json(&result) }
}

/// Converts a given response to one that the route's upstream could have sent: adds the exit of a program, or
/// the media type of an MCP server's response if it is missing and the status is a success.
pub fn as_upstream_response(
    route: &Route,
    mut response: UpstreamResponse,
    exit: ProgramExit,
) -> UpstreamResponse {
    match &route.request {
        RequestTemplate::Command(_) => return UpstreamResponse::from_program(response.body, exit),
        RequestTemplate::Tool(_) if response.status.is_success() => {
            response.headers.entry(CONTENT_TYPE).or_insert(HeaderValue::from_static(MCP_MEDIA_TYPE));
        }
        RequestTemplate::Http(_) | RequestTemplate::Tool(_) => {}
    }
    response
}

/// Adds the origin of the rule to a step, if the rule comes from `use`.
fn add_origin(step: &mut TraceStep, origins: &[Option<String>]) {
    let index = step.action.strip_prefix("rule ").and_then(|number| number.parse::<usize>().ok());
    let origin = index.and_then(|index| origins.get(index.checked_sub(1)?)?.as_ref());
    if let Some(origin) = origin {
        step.found = format!("from {origin}: {}", step.found);
    }
}

/// Returns the result as a client receives it.
pub fn result_json(result: &ToolResult) -> Value {
    result_to_json(result, StructuredContentSupport::ObjectsOnly)
}

/// Validates arguments and adds the schema's defaults, as in a call. If no arguments are given, generates the
/// required ones.
///
/// # Errors
///
/// The error message that a client would receive.
pub fn example_arguments(route: &Route, arguments: Map<String, Value>) -> Result<Arguments, String> {
    if !arguments.is_empty() {
        return route.input.check(arguments.into());
    }
    let generated = generated_arguments(route);
    // A generated value may violate a pattern; this is not a mistake in the example.
    Ok(route.input.check(generated.clone()).unwrap_or(generated))
}

/// Generates values for the required arguments of a route.
pub fn generated_arguments(route: &Route) -> Arguments {
    let document = route.input.document();
    let properties = document.get("properties");
    let required = document.get("required").and_then(Value::as_array).into_iter().flatten();
    let argument = |name: &str| {
        let schema = properties.and_then(|properties| properties.get(name));
        (name.to_owned(), generated_value(schema.unwrap_or(&Value::Null)))
    };
    required.filter_map(Value::as_str).map(argument).collect::<Map<_, _>>().into()
}

fn generated_value(schema: &Value) -> Value {
    if let Some(first) =
        schema.get("default").or_else(|| schema["enum"].get(0)).or_else(|| schema["examples"].get(0))
    {
        return first.clone();
    }
    // Of several types, the first one that is not null.
    let types =
        schema["type"].as_array().map_or_else(|| std::slice::from_ref(&schema["type"]), Vec::as_slice);
    match types.iter().filter_map(Value::as_str).find(|name| *name != "null") {
        Some("integer" | "number") => schema.get("minimum").cloned().unwrap_or_else(|| 1.into()),
        Some("boolean") => true.into(),
        Some("array") => json!([]),
        Some("object") => json!({}),
        _ => "example".into(),
    }
}
