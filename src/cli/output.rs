//! Standard streams: what a person sees, and what a command reads.

use std::{
    fs::File,
    io::{self, Read, Write},
    path::Path,
};

use bytes::Bytes;

use super::Failure;
use crate::{
    config::{Problem, Severity},
    model::Recording,
    telemetry::log::LogFormat,
};

/// Where a command writes: results to standard output, complaints to standard error. Colour only where a
/// terminal shows it, and `NO_COLOR` is not set.
pub(super) struct Screen {
    out: anstream::Stdout,
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
        Self { out: anstream::stdout(), format: LogFormat::Text }
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

    /// A text in a colour, for [`Screen::line`].
    pub(super) fn paint(&self, paint: Paint, text: &str) -> String {
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

/// The longest recording that is read, in bytes.
const RECORDING_LIMIT_BYTES: u64 = 64 << 20;

/// Reads a recorded response; `-` is standard input.
pub(super) fn read_recording(file: &Path) -> Result<Recording, Failure> {
    let recording = read_input(file, RECORDING_LIMIT_BYTES, "recording")?;
    Recording::read(&Bytes::from(recording))
        .map_err(|error| Failure::usage(format!("{}: {error}", file.display())))
}

/// Reads a file, or standard input for `-`, of at most so many bytes. `what` it should be is named when it is
/// longer.
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
