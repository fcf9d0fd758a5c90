//! `glossator check`: reports all problems of a configuration.

use std::collections::BTreeMap;

use clap::Args;
use serde_json::json;

use super::{
    ConfigArgument, Failure, Output,
    output::{Paint, Screen},
};
use crate::config::{Loaded, Problem, listed};

#[derive(Debug, Args)]
pub(super) struct CheckArguments {
    #[command(flatten)]
    config: ConfigArgument,
    /// Output format
    #[arg(long, value_enum, default_value_t = Output::Text)]
    pub(super) output: Output,
}

pub(super) fn check(arguments: &CheckArguments, screen: &mut Screen) -> Result<(), Failure> {
    let loaded = crate::config::load(&arguments.config.sources(Vec::new())?);
    let (problems, is_good) = match &loaded {
        Ok(loaded) => (loaded.warnings.as_slice(), true),
        Err(problems) => (problems.as_slice(), false),
    };
    match arguments.output {
        Output::Json => {
            let tools = loaded.iter().flat_map(without_schema);
            let tools: Vec<_> = tools.map(|(tool, why)| json!({ "tool": tool, "why": why })).collect();
            screen.json(&json!({ "ok": is_good, "problems": problems, "without_output_schema": tools }));
        }
        Output::Text => {
            screen.problems(problems);
            if let Ok(loaded) = &loaded {
                let (routes, upstreams) = (loaded.routes.len(), loaded.upstreams.len());
                let mut parts = vec![count(routes, "route"), count(upstreams, "upstream")];
                if !loaded.prompts.is_empty() {
                    parts.insert(1, count(loaded.prompts.len(), "prompt"));
                }
                let good = screen.paint(Paint::Good, "good");
                let path = arguments.config.path()?;
                let path = path.display();
                let last = parts.pop().unwrap_or_default();
                screen.line(format!("{path}: {good}, {} and {last}", parts.join(", ")));
                tell_of_schemas(loaded, screen);
            } else {
                screen.line(summary(problems));
            }
        }
    }
    if is_good { Ok(()) } else { Err(Failure::Shown(1)) }
}

/// Tools without output schema, with the reason.
fn without_schema(loaded: &Loaded) -> impl Iterator<Item = (&str, &str)> {
    loaded.routes.iter().filter_map(|file| Some((file.name().as_str(), file.no_output_schema.as_deref()?)))
}

/// Lists the tools without output schema, one line per reason.
fn tell_of_schemas(loaded: &Loaded, screen: &mut Screen) {
    let mut by_reason = BTreeMap::<&str, Vec<&str>>::new();
    for (tool, why) in without_schema(loaded) {
        by_reason.entry(why).or_default().push(tool);
    }
    for (why, tools) in &by_reason {
        screen.line(format!("no output schema: {}, because {why}", listed(tools.iter().copied())));
    }
    if !by_reason.is_empty() {
        screen.line("A tool gets one from `output`, or from `fields` with types in each of its rules.");
    }
}

pub(super) fn count(number: usize, what: &str) -> String {
    let plural = if number == 1 { "" } else { "s" };
    format!("{number} {what}{plural}")
}

fn summary(problems: &[Problem]) -> String {
    let errors = problems.iter().filter(|problem| problem.is_error()).count();
    format!("{} found", count(errors, "problem"))
}
