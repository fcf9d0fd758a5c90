//! `glossator check`: reports all problems of a configuration, as text or in formats that other programs
//! read.

use std::{collections::BTreeMap, path::Path};

use clap::{Args, ColorChoice, ValueEnum};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use serde_json::{Value, json};

use super::input_output::{Screen, TextStyle};
use super::{CommandError, ConfigArgument, Output};
use crate::authoring::pluralize;
use crate::config::{Loaded, quoted_list};
use crate::settings::{Code, Problem, Severity};

#[derive(Debug, Args)]
pub(super) struct CheckArguments {
    #[command(flatten)]
    config: ConfigArgument,
    /// Output format
    #[arg(long, value_enum, default_value_t = CheckOutput::Text)]
    output: CheckOutput,
    /// When to print colours; `auto`: on a terminal, unless `NO_COLOR` is set
    #[arg(long, value_enum, default_value_t = ColorChoice::Auto)]
    color: ColorChoice,
    /// Fail on warnings, too
    #[arg(long)]
    deny_warnings: bool,
    /// Explain the code of a problem, such as `G0107`, and check nothing
    #[arg(long, value_name = "CODE", conflicts_with_all = ["config", "deny_warnings"])]
    explain: Option<Code>,
}

/// Output formats.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum CheckOutput {
    /// For people
    Text,
    /// For programs: an array of objects
    Json,
    /// For GitHub Actions: workflow commands, which become annotations
    Github,
    /// For code scanning: SARIF 2.1.0
    Sarif,
}

impl CheckArguments {
    /// Format of the error if the command itself fails.
    pub(super) fn output(&self) -> Output {
        match self.output {
            CheckOutput::Json => Output::Json,
            CheckOutput::Text | CheckOutput::Github | CheckOutput::Sarif => Output::Text,
        }
    }
}

pub(super) fn check(arguments: &CheckArguments, screen: &mut Screen) -> Result<(), CommandError> {
    screen.color(arguments.color);
    if let Some(code) = arguments.explain {
        explain(code, arguments.output(), screen);
        return Ok(());
    }
    let loaded = crate::config::load(&arguments.config.sources(Vec::new())?);
    let problems = match &loaded {
        Ok(loaded) => loaded.warnings.as_slice(),
        Err(problems) => problems.as_slice(),
    };
    let with_notes = || [problems, &loaded.as_ref().map(Loaded::notes).unwrap_or_default()].concat();
    let passes = loaded.is_ok() && (problems.is_empty() || !arguments.deny_warnings);
    match arguments.output {
        CheckOutput::Json => screen.json(&json!(with_notes())),
        CheckOutput::Github => problems.iter().for_each(|problem| screen.line(github(problem))),
        CheckOutput::Sarif => screen.json(&sarif(&with_notes())),
        CheckOutput::Text => {
            screen.problems(problems);
            let path = arguments.config.path()?;
            screen.line(summary(&path, problems, loaded.as_ref().ok().filter(|_| passes)));
            if let Ok(loaded) = &loaded {
                list_without_schema(loaded, screen);
            }
        }
    }
    if passes { Ok(()) } else { Err(CommandError::Reported(1)) }
}

fn explain(code: Code, output: Output, screen: &mut Screen) {
    let (summary, explanation) = (code.summary(), code.explanation());
    match output {
        Output::Json => {
            screen.json(&json!({ "code": code, "summary": summary, "explanation": explanation }));
        }
        Output::Text => {
            let title = TextStyle::Strong.apply(&code.to_string());
            screen.line(format!("{title}: {summary}"));
            if !explanation.is_empty() {
                screen.line(format!("\n{explanation}"));
            }
        }
    }
}

/// Lists the tools without an output schema: one line for each reason.
fn list_without_schema(loaded: &Loaded, screen: &mut Screen) {
    let mut by_reason = BTreeMap::<&str, Vec<&str>>::new();
    for route in loaded.routes.iter() {
        if let Some(reason) = route.no_output_schema.as_deref() {
            by_reason.entry(reason).or_default().push(route.name().as_str());
        }
    }
    for (reason, tools) in &by_reason {
        screen.line(format!("no output schema: {}, because {reason}", quoted_list(tools.iter().copied())));
    }
    if !by_reason.is_empty() {
        screen.line("A tool gets one from `output`, or from `fields` with types in each of its rules.");
    }
}

/// Formats the summary line of the text output: the number of errors and warnings, unless there are none,
/// and, if the check passes, the number of routes, prompts and upstreams.
fn summary(path: &Path, problems: &[Problem], passed: Option<&Loaded>) -> String {
    let count = |severity| problems.iter().filter(|problem| problem.severity == severity).count();
    let (errors, warnings) = (count(Severity::Error), count(Severity::Warning));
    let path = path.display();
    let Some(loaded) = passed else {
        let error_count = TextStyle::Bad.apply(&pluralize(errors, "error"));
        return format!("{path}: {error_count}, {}", pluralize(warnings, "warning"));
    };
    let mut parts =
        vec![pluralize(loaded.routes.len(), "route"), pluralize(loaded.upstreams.len(), "upstream")];
    if !loaded.prompts.is_empty() {
        parts.insert(1, pluralize(loaded.prompts.len(), "prompt"));
    }
    let last = parts.pop().unwrap_or_default();
    let verdict = TextStyle::Good.apply("good");
    let warned = match warnings {
        0 => String::new(),
        _ => format!("; {}, {}", pluralize(errors, "error"), pluralize(warnings, "warning")),
    };
    format!("{path}: {verdict}, {} and {last}{warned}", parts.join(", "))
}

/// Formats a problem as a workflow command of GitHub Actions, which becomes an annotation of a line.
fn github(problem: &Problem) -> String {
    let command = match problem.severity {
        Severity::Error => "error",
        Severity::Warning => "warning",
        Severity::Note => "notice",
    };
    let (location, message) = match (problem.line, problem.column) {
        (Some(line), Some(column)) => {
            // In a workflow command, a property ends at a comma or colon.
            let file = escape_data(&problem.file).replace(':', "%3A").replace(',', "%2C");
            let location = format!("file={file},line={line},col={column},");
            (location, message(problem))
        }
        // The source is an environment variable or a flag, which has no position in the repository.
        _ => (String::new(), format!("{}: {}", problem.file, message(problem))),
    };
    format!("::{command} {location}title={}::{}", problem.code, escape_data(&message))
}

/// Formats the message of a problem, with its help on the next line.
fn message(problem: &Problem) -> String {
    match &problem.help {
        Some(help) => format!("{}\nhelp: {help}", problem.message),
        None => problem.message.clone(),
    }
}

fn escape_data(text: &str) -> String {
    text.replace('%', "%25").replace('\r', "%0D").replace('\n', "%0A")
}

/// Builds a SARIF 2.1.0 log with one run.
fn sarif(problems: &[Problem]) -> Value {
    let mut codes: Vec<Code> = problems.iter().map(|problem| problem.code).collect();
    codes.sort_unstable();
    codes.dedup();
    let rules: Vec<Value> = codes.iter().map(|code| sarif_rule(*code)).collect();
    let results: Vec<Value> = problems.iter().map(|problem| sarif_result(problem, &codes)).collect();
    json!({
        "$schema": "https://json.schemastore.org/sarif-2.1.0.json",
        "version": "2.1.0",
        "runs": [{
            "tool": { "driver": {
                "name": "glossator",
                "semanticVersion": env!("CARGO_PKG_VERSION"),
                "rules": rules,
            } },
            "columnKind": "unicodeCodePoints",
            "results": results,
        }],
    })
}

fn sarif_rule(code: Code) -> Value {
    let mut rule = json!({
        "id": code,
        "name": code.name(),
        "shortDescription": { "text": code.summary() },
    });
    let explanation = code.explanation();
    if !explanation.is_empty() {
        rule["help"] = json!({ "text": explanation, "markdown": explanation });
    }
    rule
}

fn sarif_result(problem: &Problem, rules: &[Code]) -> Value {
    let location = match (problem.line, problem.column) {
        (Some(line), Some(column)) => json!({ "physicalLocation": {
            "artifactLocation": { "uri": uri_reference(&problem.file) },
            "region": { "startLine": line, "startColumn": column },
        } }),
        // The source is an environment variable, a flag, or a file that can't be read.
        _ => json!({ "logicalLocations": [{ "name": problem.file }] }),
    };
    json!({
        "ruleId": problem.code,
        "ruleIndex": rules.iter().position(|code| *code == problem.code),
        "level": problem.severity,
        "message": { "text": message(problem) },
        "locations": [location],
    })
}

/// Converts a path to a URI reference (RFC 3986): encodes all characters except the unreserved ones and `/`.
fn uri_reference(path: &str) -> String {
    const ENCODED: &AsciiSet =
        &NON_ALPHANUMERIC.remove(b'/').remove(b'-').remove(b'.').remove(b'_').remove(b'~');
    utf8_percent_encode(path, ENCODED).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{Sources, load};

    #[track_caller]
    fn problems(name: &str, text: &str) -> Vec<Problem> {
        load(&Sources::from_text(name, text)).unwrap_err().as_slice().to_vec()
    }

    #[test]
    fn a_workflow_command_is_escaped() {
        let found = problems("a,b:c%.yaml", "routes: 3%\n");
        let expected =
            "::error file=a%2Cb%3Ac%25.yaml,line=1,col=9,title=G0104::`routes` must be a map, found `3%25`";
        let command = github(&found[0]);
        assert!(command.starts_with(expected), "{command}");
        assert!(command.contains("%0Ahelp: ") && !command.contains('\n'), "{command}");
    }

    #[test]
    fn a_sarif_result_has_rule_and_position() {
        let log = sarif(&problems("a b.yaml", "routes: 3\n"));
        let (run, result) = (&log["runs"][0], &log["runs"][0]["results"][0]);
        assert_eq!(run["tool"]["driver"]["rules"][0]["id"], "G0104");
        assert_eq!(
            (&result["ruleId"], &result["ruleIndex"], &result["level"]),
            (&json!("G0104"), &json!(0), &json!("error"))
        );
        let location = &result["locations"][0]["physicalLocation"];
        assert_eq!(location["artifactLocation"]["uri"], "a%20b.yaml");
        assert_eq!(location["region"], json!({ "startLine": 1, "startColumn": 9 }));
    }
}
