//! Standard streams: output of commands, and their input.

use std::{
    fs::File,
    io::{self, Read, Write},
    path::Path,
};

use anstream::{AutoStream, ColorChoice};
use bytes::Bytes;

use super::CommandError;
use crate::model::Recording;
use crate::settings::{Problem, Severity};
use crate::telemetry::log::LogFormat;

/// Output of a command: results on standard output, problems and messages on standard error. By default,
/// colours are used only on a terminal, and only if `NO_COLOR` is not set.
pub(super) struct Screen {
    out: anstream::Stdout,
    err: anstream::Stderr,
    /// Format of the lines on standard error, the same as in the log.
    pub(super) format: LogFormat,
}

/// Text styles by purpose. The values are the SGR parameters of ANSI escape sequences.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum TextStyle {
    Good = 32,
    Bad = 31,
    Strong = 1,
}

impl TextStyle {
    /// Wraps a text in the escape sequences of the style, for [`Screen::line`].
    pub(super) fn apply(self, text: &str) -> String {
        format!("\u{1b}[{}m{text}\u{1b}[0m", self as u8)
    }
}

impl Screen {
    pub(super) fn new() -> Self {
        Self { out: anstream::stdout(), err: anstream::stderr(), format: LogFormat::Text }
    }

    /// Sets whether colours are used from now on.
    pub(super) fn color(&mut self, color: clap::ColorChoice) {
        let choice = match color {
            clap::ColorChoice::Auto => return,
            clap::ColorChoice::Always => ColorChoice::Always,
            clap::ColorChoice::Never => ColorChoice::Never,
        };
        self.out = AutoStream::new(io::stdout(), choice);
        self.err = AutoStream::new(io::stderr(), choice);
    }

    /// Writes a line to standard output. If it is closed, the line is lost without an error.
    pub(super) fn line(&mut self, text: impl AsRef<str>) {
        let _ = writeln!(self.out, "{}", text.as_ref());
    }

    /// Writes a JSON value to standard output, pretty-printed.
    pub(super) fn json(&mut self, value: &serde_json::Value) {
        self.line(format!("{value:#}"));
    }

    /// Writes the problems of a configuration to standard error.
    pub(super) fn problems(&mut self, problems: &[Problem]) {
        for problem in problems {
            let level = match problem.severity {
                Severity::Error => "ERROR",
                Severity::Warning => "WARN",
                Severity::Note => "INFO",
            };
            let message = match self.format {
                LogFormat::Text => format!("{problem:#}"),
                LogFormat::Json => problem.to_string(),
            };
            self.write_stderr(level, &message);
        }
    }

    /// Writes a remark about the result to standard error, with the level INFO.
    pub(super) fn info_line(&mut self, message: &str) {
        self.write_stderr("INFO", message);
    }

    /// Writes the error of a failed command to standard error.
    pub(super) fn error_line(&mut self, message: &str) {
        let message = match self.format {
            LogFormat::Text => format!("glossator: {message}"),
            LogFormat::Json => message.to_owned(),
        };
        self.write_stderr("ERROR", &message);
    }

    /// Writes a line to standard error. If it is closed, the line is lost without an error.
    fn write_stderr(&mut self, level: &str, message: &str) {
        let _ = writeln!(self.err, "{}", self.format.line(level, message));
    }
}

/// Maximum length of a recording, in bytes.
const RECORDING_LIMIT_BYTES: u64 = 64 << 20;

/// Reads a recorded response. `-` reads standard input.
pub(super) fn read_recording(file: &Path) -> Result<Recording, CommandError> {
    let recording = read_input(file, RECORDING_LIMIT_BYTES, "recording")?;
    Recording::read(&Bytes::from(recording))
        .map_err(|error| CommandError::usage(format!("{}: {error}", file.display())))
}

/// Reads a file of at most `limit_bytes`. `-` reads standard input. `kind` names the kind of file in errors.
pub(super) fn read_input(file: &Path, limit_bytes: u64, kind: &str) -> Result<Vec<u8>, CommandError> {
    let file_name = file.display();
    let mut content = Vec::new();
    let result = match file == Path::new("-") {
        true => io::stdin().take(limit_bytes + 1).read_to_end(&mut content),
        false => File::open(file).and_then(|file| file.take(limit_bytes + 1).read_to_end(&mut content)),
    };
    match result {
        Ok(bytes) if bytes as u64 <= limit_bytes => Ok(content),
        Ok(_) => Err(CommandError::usage(format!(
            "{file_name}: a {kind} may have at most {limit_bytes} bytes, found more"
        ))),
        Err(error) => Err(CommandError::usage(format!("{file_name}: {error}"))),
    }
}
