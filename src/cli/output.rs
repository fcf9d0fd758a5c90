//! Standard streams: output for people, and input of commands.

use std::{
    fs::File,
    io::{self, Read, Write},
    path::Path,
};

use anstream::{AutoStream, ColorChoice};
use bytes::Bytes;

use super::Failure;
use crate::model::Recording;
use crate::settings::{Problem, Severity};
use crate::telemetry::log::LogFormat;

/// Output of a command: results to standard output, problems and messages to standard error. Colour is used
/// only on a terminal, and if `NO_COLOR` is not set.
pub(super) struct Screen {
    out: anstream::Stdout,
    err: anstream::Stderr,
    /// Format of standard error: that of the log.
    pub(super) format: LogFormat,
}

/// Styles of text, by purpose, with their terminal codes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum TextStyle {
    Good = 32,
    Bad = 31,
    Strong = 1,
}

impl TextStyle {
    /// Styles text for [`Screen::line`].
    pub(super) fn apply(self, text: &str) -> String {
        format!("\u{1b}[{}m{text}\u{1b}[0m", self as u8)
    }
}

impl Screen {
    pub(super) fn new() -> Self {
        Self { out: anstream::stdout(), err: anstream::stderr(), format: LogFormat::Text }
    }

    /// Sets when colours are printed from now on.
    pub(super) fn color(&mut self, color: clap::ColorChoice) {
        let choice = match color {
            clap::ColorChoice::Auto => return,
            clap::ColorChoice::Always => ColorChoice::Always,
            clap::ColorChoice::Never => ColorChoice::Never,
        };
        self.out = AutoStream::new(io::stdout(), choice);
        self.err = AutoStream::new(io::stderr(), choice);
    }

    /// Writes a line. Standard output may be closed; that is not an error.
    pub(super) fn line(&mut self, text: impl AsRef<str>) {
        let _ = writeln!(self.out, "{}", text.as_ref());
    }

    /// Writes a JSON value with a line per member.
    pub(super) fn json(&mut self, value: &serde_json::Value) {
        self.line(format!("{value:#}"));
    }

    /// Shows the problems of a configuration.
    pub(super) fn problems(&mut self, problems: &[Problem]) {
        for problem in problems {
            let level = match problem.severity {
                Severity::Error => "ERROR",
                Severity::Warning => "WARN",
                Severity::Note => "INFO",
            };
            let text = match self.format {
                LogFormat::Text => format!("{problem:#}"),
                LogFormat::Json => problem.to_string(),
            };
            self.write_stderr(level, &text);
        }
    }

    /// Shows a remark besides the result.
    pub(super) fn status_line(&mut self, text: &str) {
        self.write_stderr("INFO", text);
    }

    /// Shows the error of a command that failed.
    pub(super) fn error_line(&mut self, text: &str) {
        let text = match self.format {
            LogFormat::Text => format!("glossator: {text}"),
            LogFormat::Json => text.to_owned(),
        };
        self.write_stderr("ERROR", &text);
    }

    /// Writes a line. Standard error may be closed; that is not an error.
    fn write_stderr(&mut self, level: &str, text: &str) {
        let _ = writeln!(self.err, "{}", self.format.line(level, text));
    }
}

/// Longest recording, in bytes.
const RECORDING_LIMIT_BYTES: u64 = 64 << 20;

/// Reads a recorded response. `-` is standard input.
pub(super) fn read_recording(file: &Path) -> Result<Recording, Failure> {
    let recording = read_input(file, RECORDING_LIMIT_BYTES, "recording")?;
    Recording::read(&Bytes::from(recording))
        .map_err(|error| Failure::usage(format!("{}: {error}", file.display())))
}

/// Reads a file of limited size. `-` is standard input. `what` names the kind of file in the error.
pub(super) fn read_input(file: &Path, limit_bytes: u64, what: &str) -> Result<Vec<u8>, Failure> {
    let shown = file.display();
    let mut content = Vec::new();
    let read = match file == Path::new("-") {
        true => io::stdin().take(limit_bytes + 1).read_to_end(&mut content),
        false => File::open(file).and_then(|file| file.take(limit_bytes + 1).read_to_end(&mut content)),
    };
    match read {
        Ok(bytes) if bytes as u64 <= limit_bytes => Ok(content),
        Ok(_) => Err(Failure::usage(format!("{shown}: a {what} may have {limit_bytes} bytes, found more"))),
        Err(error) => Err(Failure::usage(format!("{shown}: {error}"))),
    }
}
