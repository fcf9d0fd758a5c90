//! `glossator test`: the examples that stand in the routes.

use clap::Args;
use serde_json::{Value, json};

use super::{
    ConfigArgument, Failure, Output, example_arguments,
    screen::{Paint, Screen},
};
use crate::{
    config::{Example, Expectation, ExpectedContent, Loaded, Position},
    route::Route,
    rule::{Facts, Trace, translate},
    tool::{Arguments, Shapes, write_result},
};

#[derive(Debug, Args)]
pub(super) struct TestArguments {
    #[command(flatten)]
    config: ConfigArgument,
    /// Only examples whose name has this in it; names are `ROUTE/EXAMPLE`
    filter: Option<String>,
    /// The form of what is printed
    #[arg(long, value_enum, default_value_t = Output::Text)]
    output: Output,
}

pub(super) fn test(arguments: &TestArguments, screen: &mut Screen) -> Result<(), Failure> {
    let loaded = arguments.config.load(Vec::new(), screen)?;
    let verdicts: Vec<Verdict> = examples(&loaded)
        .filter(|(name, ..)| arguments.filter.as_ref().is_none_or(|filter| name.contains(filter)))
        .map(|(name, route, example)| Verdict::of(name, route, example))
        .collect();
    if let Some(filter) = arguments.filter.as_ref().filter(|_| verdicts.is_empty()) {
        return Err(Failure::told(format!(
            "no example has `{filter}` in its name, which is `ROUTE/EXAMPLE`"
        )));
    }
    let failed = verdicts.iter().filter(|verdict| !verdict.differences.is_empty()).count();
    let passed = verdicts.len() - failed;
    match arguments.output {
        Output::Json => {
            let tests: Vec<_> = verdicts.iter().map(Verdict::to_json).collect();
            screen.json(&json!({ "passed": passed, "failed": failed, "tests": tests }));
        }
        Output::Text => {
            for verdict in &verdicts {
                verdict.show(screen);
            }
            screen.line(format!("{passed} passed, {failed} failed"));
        }
    }
    if failed == 0 { Ok(()) } else { Err(Failure::Found) }
}

/// Every example with its name, `ROUTE/EXAMPLE`; one without a name goes by its number.
fn examples(loaded: &Loaded) -> impl Iterator<Item = (String, &Route, &Example)> {
    loaded.routes.iter().flat_map(|file| {
        file.tests.iter().enumerate().map(|(index, example)| {
            let own = example.name.clone().unwrap_or_else(|| (index + 1).to_string());
            (format!("{}/{own}", file.route.definition.name), file.route.as_ref(), example)
        })
    })
}

/// What came of one example.
struct Verdict {
    name: String,
    position: Position,
    differences: Vec<Difference>,
}

/// Something that is not as expected.
struct Difference {
    what: &'static str,
    position: Position,
    expected: String,
    found: String,
}

impl Verdict {
    fn of(name: String, route: &Route, example: &Example) -> Self {
        let differences = match example_arguments(route, example.args.clone()) {
            Ok(checked) => {
                differences(&result_of(route, checked, example), &example.expect, &example.position)
            }
            Err(error) => vec![Difference {
                what: "args",
                position: example.position.clone(),
                expected: "arguments that meet the input schema".into(),
                found: error,
            }],
        };
        Self { name, position: example.position.clone(), differences }
    }

    fn show(&self, screen: &mut Screen) {
        let outcome = match self.differences.is_empty() {
            true => screen.paint(Paint::Good, "ok"),
            false => screen.paint(Paint::Bad, "FAILED"),
        };
        screen.line(format!("test {} ... {outcome}", self.name));
        for difference in &self.differences {
            let Position { file, line, column } = &difference.position;
            screen.line(format!("  {file}:{line}:{column}: {} differs", difference.what));
            screen.line(screen.paint(Paint::Good, &marked("  - expected ", &difference.expected)));
            screen.line(screen.paint(Paint::Bad, &marked("  + found    ", &difference.found)));
        }
    }

    fn to_json(&self) -> Value {
        let differences: Vec<_> = self
            .differences
            .iter()
            .map(|difference| {
                json!({ "what": difference.what, "line": difference.position.line,
                    "expected": difference.expected, "found": difference.found })
            })
            .collect();
        json!({ "name": self.name, "file": self.position.file, "line": self.position.line,
            "passed": self.differences.is_empty(), "differences": differences })
    }
}

/// A text of several lines, under its mark.
fn marked(mark: &str, text: &str) -> String {
    format!("{mark}{}", text.replace('\n', &format!("\n{}", " ".repeat(mark.len()))))
}

fn result_of(route: &Route, arguments: Arguments, example: &Example) -> Value {
    let args = arguments.into_value();
    let facts = Facts { tool: &route.definition.name, args: &args };
    let translation = translate(&route.translator, facts, &example.given, &mut Trace::off());
    let mut written = Vec::new();
    write_result(&translation.result.with_errors_as(route.error_format), Shapes::ObjectsOnly, &mut written);
    serde_json::from_slice(&written).expect("a result is written as JSON")
}

fn differences(result: &Value, expect: &Expectation, position: &Position) -> Vec<Difference> {
    let text_of = |value: Option<&Value>| value.map_or_else(|| "nothing".to_owned(), Value::to_string);
    let mut differences = Vec::new();
    let mut add = |what, position: &Position, expected: String, found: String| {
        differences.push(Difference { what, position: position.clone(), expected, found });
    };
    let first_text = result["content"][0]["text"].as_str().unwrap_or_default();
    let is_error = result["isError"].as_bool().unwrap_or_default();
    if is_error != expect.is_error {
        let position = expect.is_error_position.as_ref().unwrap_or(position);
        let found = if is_error { format!("true: {first_text}") } else { "false".into() };
        add("isError", position, expect.is_error.to_string(), found);
    }
    if let Some(structured) = &expect.structured
        && result.get("structuredContent") != Some(&structured.value)
    {
        let found = text_of(result.get("structuredContent"));
        add("structuredContent", &structured.position, structured.value.to_string(), found);
    }
    if let Some(content) = &expect.content {
        match &content.value {
            ExpectedContent::FirstText(text) if text != first_text => {
                add("content", &content.position, text.clone(), first_text.to_owned());
            }
            ExpectedContent::Blocks(blocks) if result["content"].as_array() != Some(blocks) => {
                let expected = Value::Array(blocks.clone()).to_string();
                add("content", &content.position, expected, result["content"].to_string());
            }
            ExpectedContent::FirstText(_) | ExpectedContent::Blocks(_) => {}
        }
    }
    if let Some(text) = &expect.text
        && !first_text.contains(&text.value)
    {
        add("text", &text.position, text.value.clone(), first_text.to_owned());
    }
    differences
}
