//! `glossator check`: reports all problems of a configuration.

use std::{collections::BTreeMap, path::Path};

use clap::{Args, ValueEnum};
use serde_json::json;

use super::annotations::{github, sarif};
use super::output::{Color, Screen, TextStyle};
use super::{ConfigArgument, Failure, Output};
use crate::authoring::count;
use crate::config::{Loaded, quoted_list};
use crate::settings::{Code, Problem, Severity};

#[derive(Debug, Args)]
pub(super) struct CheckArguments {
    #[command(flatten)]
    config: ConfigArgument,
    /// Output format
    #[arg(long, value_enum, default_value_t = CheckOutput::Text)]
    output: CheckOutput,
    /// When to print colours
    #[arg(long, value_enum, default_value_t = Color::Auto)]
    color: Color,
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
    /// The form of its failure.
    pub(super) fn output(&self) -> Output {
        match self.output {
            CheckOutput::Json => Output::Json,
            CheckOutput::Text | CheckOutput::Github | CheckOutput::Sarif => Output::Text,
        }
    }
}

pub(super) fn check(arguments: &CheckArguments, screen: &mut Screen) -> Result<(), Failure> {
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
    let is_good = loaded.is_ok() && (problems.is_empty() || !arguments.deny_warnings);
    match arguments.output {
        CheckOutput::Json => screen.json(&json!(with_notes())),
        CheckOutput::Github => problems.iter().for_each(|problem| screen.line(github(problem))),
        CheckOutput::Sarif => screen.json(&sarif(&with_notes())),
        CheckOutput::Text => {
            screen.problems(problems);
            let path = arguments.config.path()?;
            screen.line(summary(&path, problems, loaded.as_ref().ok().filter(|_| is_good)));
            if let Ok(loaded) = &loaded {
                list_without_schema(loaded, screen);
            }
        }
    }
    if is_good { Ok(()) } else { Err(Failure::Reported(1)) }
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

/// Lists the tools that declare no output schema: one line for each reason.
fn list_without_schema(loaded: &Loaded, screen: &mut Screen) {
    let mut by_reason = BTreeMap::<&str, Vec<&str>>::new();
    for file in loaded.routes.iter() {
        if let Some(why) = file.no_output_schema.as_deref() {
            by_reason.entry(why).or_default().push(file.name().as_str());
        }
    }
    for (why, tools) in &by_reason {
        screen.line(format!("no output schema: {}, because {why}", quoted_list(tools.iter().copied())));
    }
    if !by_reason.is_empty() {
        screen.line("A tool gets one from `output`, or from `fields` with types in each of its rules.");
    }
}

/// The last line: how much is configured where it is good, and the number of errors and warnings.
fn summary(path: &Path, problems: &[Problem], good: Option<&Loaded>) -> String {
    let of = |severity| problems.iter().filter(|problem| problem.severity == severity).count();
    let (errors, warnings) = (of(Severity::Error), of(Severity::Warning));
    let path = path.display();
    let Some(loaded) = good else {
        let bad = TextStyle::Bad.apply(&count(errors, "error"));
        return format!("{path}: {bad}, {}", count(warnings, "warning"));
    };
    let mut parts = vec![count(loaded.routes.len(), "route"), count(loaded.upstreams.len(), "upstream")];
    if !loaded.prompts.is_empty() {
        parts.insert(1, count(loaded.prompts.len(), "prompt"));
    }
    let last = parts.pop().unwrap_or_default();
    let good = TextStyle::Good.apply("good");
    let warned = match warnings {
        0 => String::new(),
        _ => format!("; {}, {}", count(errors, "error"), count(warnings, "warning")),
    };
    format!("{path}: {good}, {} and {last}{warned}", parts.join(", "))
}
