//! `glossator test`: runs the tests of routes. `--update` replaces expected results with the actual ones.

use std::path::Path;

use clap::Args;
use diffy::{DiffOptions, Line};
use serde_json::{Map, Value, json};

use super::input_output::{Screen, TextStyle};
use super::migrate::replace_files;
use super::{CommandError, ConfigArgument, Output};
use crate::authoring::playground::{example_arguments, explain_translation};
use crate::authoring::pluralize;
use crate::config::{CompiledRoute, Example, Expectation, Position, quoted_list, update_expectation};

#[derive(Debug, Args)]
pub(super) struct TestArguments {
    #[command(flatten)]
    config: ConfigArgument,
    /// Only tests whose name contains this; a name is `ROUTE/TEST`, with a number for a test without a name
    filter: Option<String>,
    /// Only the tests of this route; can be repeated
    #[arg(long = "route", value_name = "ROUTE")]
    routes: Vec<String>,
    /// Write the actual results into the files, in place of the expected ones; review the diff. If more than
    /// single values differ, comments inside that `expect` are lost
    #[arg(long)]
    update: bool,
    /// Also write results that are errors
    #[arg(long, requires = "update")]
    accept_errors: bool,
    /// Output format
    #[arg(long, value_enum, default_value_t = Output::Text)]
    pub(super) output: Output,
}

pub(super) fn test(arguments: &TestArguments, screen: &mut Screen) -> Result<(), CommandError> {
    let loaded = arguments.config.load(Vec::new())?;
    let has_route = |name: &str| loaded.routes.iter().any(|route| route.name().as_str() == name);
    if let Some(unknown) = arguments.routes.iter().find(|name| !has_route(name)) {
        return Err(super::no_such_route(unknown, &loaded));
    }
    let is_selected = |name: &str, compiled: &CompiledRoute| {
        let route = compiled.name().as_str();
        (arguments.routes.is_empty() || arguments.routes.iter().any(|selected| selected == route))
            && arguments.filter.as_ref().is_none_or(|filter| name.contains(filter))
    };
    let mut results = Vec::new();
    for compiled in loaded.routes.iter() {
        for (index, example) in compiled.tests.iter().enumerate() {
            // A test without a name is identified by its number.
            let test_name = example.name.clone().unwrap_or_else(|| (index + 1).to_string());
            let name = format!("{}/{test_name}", compiled.name());
            if is_selected(&name, compiled) {
                results.push(TestResult::run(name, index, compiled, example));
            }
        }
    }
    if let Some(filter) = arguments.filter.as_ref().filter(|_| results.is_empty()) {
        let routes = quoted_list(arguments.routes.iter().map(String::as_str));
        let scope = if routes.is_empty() { String::new() } else { format!(" of {routes}") };
        return Err(CommandError::usage(format!(
            "no test{scope} has `{filter}` in its name, which is `ROUTE/TEST`"
        )));
    }
    let different = || results.iter().filter(|result| !result.differences.is_empty());
    // Each test that can't be updated is listed with the reason.
    let (mut updated, mut not_updated) = (Vec::new(), Vec::new());
    for result in different().filter(|_| arguments.update) {
        match update(result, arguments.accept_errors) {
            Ok(()) => updated.push(result),
            Err(reason) => not_updated.push((&result.name, reason)),
        }
    }
    let failed = different().count() - updated.len();
    let passed = results.len() - different().count();
    match arguments.output {
        Output::Json => {
            let tests: Vec<_> = results.iter().map(TestResult::to_json).collect();
            let reasons = not_updated.iter().map(|(name, reason)| json!({ "name": name, "why": reason }));
            let updated: Vec<_> = updated.iter().map(|result| &result.name).collect();
            screen.json(&json!({ "passed": passed, "failed": failed, "updated": updated,
                "not_updated": reasons.collect::<Vec<_>>(), "tests": tests }));
        }
        Output::Text => {
            for result in &results {
                // Two tests can have the same name.
                result.show(updated.iter().any(|updated| std::ptr::eq(*updated, result)), screen);
            }
            let mut routes: Vec<_> = results.iter().map(|result| result.route).collect();
            routes.dedup();
            let updates =
                if arguments.update { format!(", {} updated", updated.len()) } else { String::new() };
            let routes = pluralize(routes.len(), "route");
            screen.line(format!("{passed} passed, {failed} failed{updates} in {routes}"));
        }
    }
    for (name, reason) in not_updated {
        screen.error_line(&format!("{name} is unchanged: {reason}"));
    }
    if failed == 0 { Ok(()) } else { Err(CommandError::Reported(1)) }
}

struct TestResult<'a> {
    name: String,
    route: &'a str,
    /// Index of the test in its route.
    index: usize,
    /// The new `expect`, built from the actual result. `None` if the arguments of the test are invalid.
    new_expect: Option<Value>,
    position: &'a Position,
    differences: Vec<Difference<'a>>,
    /// If the test fails and the actual result is an error: how this error differs from what is expected.
    error: Option<&'static str>,
}

const SUCCESS_BECAME_ERROR: &str = "a success has become an error";

/// Difference between the expected and the actual result.
struct Difference<'a> {
    part: &'static str,
    position: &'a Position,
    expected: String,
    found: String,
}

impl<'a> TestResult<'a> {
    fn run(name: String, index: usize, compiled: &'a CompiledRoute, example: &'a Example) -> Self {
        let (mut new_expect, mut error) = (None, None);
        let differences = match example_arguments(&compiled.route, example.args.clone()) {
            Ok(checked) => {
                let result =
                    explain_translation(compiled, checked, &example.input_responses, &example.response, None)
                        .result;
                let expect = example.expect.as_ref();
                new_expect = Some(Value::Object(to_expect(&result, expect)));
                let differences = differences(&result, example);
                let is_error = result["isError"] == true && !differences.is_empty();
                error = is_error.then_some(match expect {
                    None => "the result is an error",
                    Some(expect) if expect.is_error() => "the error is another one",
                    Some(_) => SUCCESS_BECAME_ERROR,
                });
                differences
            }
            Err(error_message) => vec![Difference {
                part: "args",
                position: &example.position,
                expected: "arguments that meet the input schema".into(),
                found: error_message,
            }],
        };
        let (route, position) = (compiled.name().as_str(), &example.position);
        Self { name, route, index, new_expect, position, differences, error }
    }

    fn show(&self, is_updated: bool, screen: &mut Screen) {
        let outcome = match (self.differences.is_empty(), is_updated) {
            (true, _) => TextStyle::Good.apply("ok"),
            (false, true) => TextStyle::Good.apply("updated"),
            (false, false) => TextStyle::Bad.apply("FAILED"),
        };
        let remark = self.error.map_or(String::new(), |error| format!(": {error}"));
        screen.line(format!("test {} ... {outcome}{remark}", self.name));
        for difference in &self.differences {
            screen.line(format!("  {}: {} differs", difference.position, difference.part));
            difference.show(screen);
        }
    }

    fn to_json(&self) -> Value {
        let differences = self.differences.iter().map(|Difference { part, position, expected, found }| {
            json!({ "what": part, "line": position.line, "expected": expected, "found": found })
        });
        json!({ "name": self.name, "file": self.position.file, "line": self.position.line,
            "passed": self.differences.is_empty(),
            "success_became_error": self.error == Some(SUCCESS_BECAME_ERROR),
            "differences": differences.collect::<Vec<_>>() })
    }
}

impl Difference<'_> {
    /// Prints the expected and the actual result line by line; lines that are equal in both are printed once.
    fn show(&self, screen: &mut Screen) {
        let lines = |text: &str| match serde_json::from_str::<Value>(text) {
            Ok(value @ (Value::Object(_) | Value::Array(_))) => format!("{value:#}"),
            _ => text.to_owned(),
        };
        let (expected, found) = (lines(&self.expected), lines(&self.found));
        screen.line(format!("  {} {}", TextStyle::Good.apply("- expected"), TextStyle::Bad.apply("+ found")));
        let all_lines = expected.lines().count() + found.lines().count();
        let patch = DiffOptions::new().set_context_len(all_lines).create_patch(&expected, &found);
        for line in patch.hunks().iter().flat_map(|hunk| hunk.lines()) {
            let (prefix, text, style) = match line {
                Line::Context(text) => ("   ", text, None),
                Line::Delete(text) => ("  -", text, Some(TextStyle::Good)),
                Line::Insert(text) => ("  +", text, Some(TextStyle::Bad)),
            };
            let line = format!("{prefix} {}", text.trim_end_matches('\n'));
            screen.line(style.map_or_else(|| line.clone(), |style| style.apply(&line)));
        }
    }
}

/// Writes the actual result of a test into its file. An error is the reason why that is impossible.
fn update(result: &TestResult<'_>, accept_errors: bool) -> Result<(), String> {
    // Otherwise the wrong result of a broken rule would become the expected result.
    if let Some(error) = result.error.filter(|_| !accept_errors) {
        return Err(format!("{error}; `--accept-errors` writes it"));
    }
    let expect = result.new_expect.as_ref().ok_or("its arguments are invalid")?;
    let file = Path::new(&result.position.file);
    let text = std::fs::read_to_string(file).map_err(|error| error.to_string())?;
    let updated = update_expectation(&text, result.route, result.index, expect)?;
    replace_files([(file, updated.as_str())]).map_err(|(_, error)| error.to_string())
}

/// Builds the new `expect` from a result, with the same members as before.
fn to_expect(result: &Value, previous: Option<&Expectation>) -> Map<String, Value> {
    let mut expect = Map::new();
    let first_text = &result["content"][0]["text"];
    let structured = result.get("structuredContent");
    let is_error = result["isError"] == true;
    // An error and a success have different members, so the members of the old `expect` do not apply.
    let previous = previous.filter(|previous| is_error || !previous.is_error());
    if is_error || previous.is_some_and(|previous| previous.is_error.is_some()) {
        expect.insert("isError".into(), is_error.into());
    }
    if let Some(structured) = structured
        && previous.is_none_or(|previous| previous.structured.is_some())
    {
        expect.insert("structuredContent".into(), structured.clone());
    }
    if let Some(content) = previous.and_then(|previous| previous.content.as_ref()) {
        let is_text = content.value.is_string() && first_text.is_string();
        let found = if is_text { first_text } else { &result["content"] };
        expect.insert("content".into(), found.clone());
    }
    if let Some(text) = previous.and_then(|previous| previous.text.as_ref()) {
        let is_contained = first_text.as_str().is_some_and(|found| found.contains(&text.value));
        let text = if is_contained { text.value.as_str().into() } else { first_text.clone() };
        expect.insert("text".into(), text);
    }
    let checks_more_than_is_error = expect.keys().any(|key| key != "isError");
    if !checks_more_than_is_error && first_text.is_string() && structured.is_none_or(|_| is_error) {
        expect.insert("text".into(), first_text.clone());
    } else if expect.is_empty() {
        expect.insert("isError".into(), is_error.into());
    }
    expect
}

fn differences<'a>(result: &Value, example: &'a Example) -> Vec<Difference<'a>> {
    let position = &example.position;
    let (is_error, first_text) = (result["isError"] == true, result["content"][0].get("text"));
    let Some(expect) = &example.expect else {
        let flags = if is_error { "--update --accept-errors" } else { "--update" };
        let expected = format!("no `expect` yet; `{flags}` writes the result");
        return vec![Difference { part: "expect", position, expected, found: result.to_string() }];
    };
    let text = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    let mut differences = Vec::new();
    let mut compare = |part, position, expected: &Value, found: Option<&Value>| {
        if Some(expected) != found {
            let (expected, found) = (text(expected), found.map_or_else(|| "nothing".to_owned(), text));
            differences.push(Difference { part, position, expected, found });
        }
    };
    let error_position = expect.is_error.as_ref().map_or(position, |expected| &expected.position);
    let found = match is_error && !expect.is_error() {
        true => format!("true: {}", first_text.map_or_else(String::new, text)).into(),
        false => is_error.into(),
    };
    compare("isError", error_position, &expect.is_error().into(), Some(&found));
    if let Some(structured) = &expect.structured {
        let found = result.get("structuredContent");
        compare("structuredContent", &structured.position, &structured.value, found);
    }
    if let Some(content) = &expect.content {
        let found = if content.value.is_string() { first_text } else { result.get("content") };
        compare("content", &content.position, &content.value, found);
    }
    if let Some(part) = &expect.text
        && !first_text.and_then(Value::as_str).unwrap_or_default().contains(&part.value)
    {
        compare("text", &part.position, &part.value.as_str().into(), first_text);
    }
    differences
}
