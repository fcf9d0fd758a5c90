//! `glossator check`: every problem of a configuration.

use clap::Args;
use serde_json::json;

use super::{
    ConfigArgument, Failure, Output,
    screen::{Paint, Screen},
};
use crate::config::Problem;

#[derive(Debug, Args)]
pub(super) struct CheckArguments {
    #[command(flatten)]
    config: ConfigArgument,
    /// The form of what is printed
    #[arg(long, value_enum, default_value_t = Output::Text)]
    pub(super) output: Output,
}

pub(super) fn check(arguments: &CheckArguments, screen: &mut Screen) -> Result<(), Failure> {
    let loaded = crate::config::load(&arguments.config.sources(Vec::new()));
    let (problems, is_good) = match &loaded {
        Ok(loaded) => (loaded.warnings.as_slice(), true),
        Err(problems) => (problems.as_slice(), false),
    };
    match arguments.output {
        Output::Json => screen.json(&json!({ "ok": is_good, "problems": problems })),
        Output::Text => {
            screen.problems(problems);
            if let Ok(loaded) = &loaded {
                let (routes, upstreams) = (loaded.routes.len(), loaded.upstreams.len());
                let mut parts = vec![count(routes, "route"), count(upstreams, "upstream")];
                if !loaded.prompts.is_empty() {
                    parts.insert(1, count(loaded.prompts.len(), "prompt"));
                }
                let good = screen.paint(Paint::Good, "good");
                let path = arguments.config.config.display();
                let last = parts.pop().unwrap_or_default();
                screen.line(format!("{path}: {good}, {} and {last}", parts.join(", ")));
            } else {
                screen.line(summary(problems));
            }
        }
    }
    if is_good { Ok(()) } else { Err(Failure::Found) }
}

fn count(number: usize, what: &str) -> String {
    let plural = if number == 1 { "" } else { "s" };
    format!("{number} {what}{plural}")
}

fn summary(problems: &[Problem]) -> String {
    let errors = problems.iter().filter(|problem| problem.is_error()).count();
    format!("{} found", count(errors, "problem"))
}
