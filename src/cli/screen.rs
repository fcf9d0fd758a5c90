//! What a person sees.

use std::io::{self, IsTerminal, Write};

use crate::{
    config::{Problem, Severity},
    observe::log::LogFormat,
};

/// Where a command writes: results to standard output, complaints to standard error. Colour only where a
/// terminal shows it.
pub(super) struct Screen {
    out: io::Stdout,
    colour: bool,
    /// The form of what goes to standard error.
    format: LogFormat,
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
        Self { out, colour, format: LogFormat::Text }
    }

    /// What goes to standard error has the form of the log from now on.
    pub(super) fn write_as(&mut self, format: Option<LogFormat>) {
        self.format = format.unwrap_or(self.format);
    }

    /// Whether what goes to standard error is JSON.
    pub(super) fn writes_json(&self) -> bool {
        self.format == LogFormat::Json
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
            let level = if problem.severity == Severity::Warning { "WARN" } else { "ERROR" };
            self.to_stderr(level, &problem.to_string());
        }
    }

    /// Says something beside the result.
    pub(super) fn remark(&mut self, text: &str) {
        self.to_stderr("INFO", text);
    }

    /// Says why a command did nothing.
    pub(super) fn complain(&mut self, text: &str) {
        let text = match self.format {
            LogFormat::Text => format!("glossator: {text}"),
            LogFormat::Json => text.to_owned(),
        };
        self.to_stderr("ERROR", &text);
    }

    /// Writes a line; as on standard output, a reader that has gone away is nobody's mistake.
    fn to_stderr(&self, level: &str, text: &str) {
        let _ = writeln!(io::stderr(), "{}", self.format.line(level, text));
    }
}
