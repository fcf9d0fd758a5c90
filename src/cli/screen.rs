//! What a person sees.

use std::{
    fmt,
    io::{self, IsTerminal, Write},
};

use crate::config::Problem;

/// Where a command writes: results to standard output, complaints to standard error. Colour only where a
/// terminal shows it.
pub(super) struct Screen {
    out: io::Stdout,
    colour: bool,
}

/// Colours, by what they are for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Paint {
    Good,
    Bad,
    Strong,
}

impl Screen {
    pub(super) fn new() -> Self {
        let out = io::stdout();
        let colour = out.is_terminal();
        Self { out, colour }
    }

    /// Writes a line. A reader that has gone away is nobody's mistake.
    pub(super) fn line(&mut self, text: impl AsRef<str>) {
        let _ = writeln!(self.out, "{}", text.as_ref());
    }

    /// Writes a JSON value with a line per member.
    pub(super) fn json(&mut self, value: &serde_json::Value) {
        self.line(serde_json::to_string_pretty(value).expect("a tree of JSON values has string keys only"));
    }

    /// A text in a colour.
    pub(super) fn paint(&self, paint: Paint, text: &str) -> String {
        if !self.colour {
            return text.to_owned();
        }
        let code = match paint {
            Paint::Good => 32,
            Paint::Bad => 31,
            Paint::Strong => 1,
        };
        format!("\u{1b}[{code}m{text}\u{1b}[0m")
    }

    /// Shows what is wrong with a configuration.
    pub(super) fn problems(&mut self, problems: &[Problem]) {
        for problem in problems {
            to_stderr(format_args!("{problem}"));
        }
    }

    /// Says something beside the result.
    pub(super) fn remark(&mut self, text: &str) {
        to_stderr(format_args!("{text}"));
    }

    /// Says why a command did nothing.
    pub(super) fn complain(&mut self, text: &str) {
        to_stderr(format_args!("glossator: {text}"));
    }
}

/// Writes a line; as on standard output, a reader that has gone away is nobody's mistake.
fn to_stderr(line: fmt::Arguments<'_>) {
    let _ = writeln!(io::stderr(), "{line}");
}
