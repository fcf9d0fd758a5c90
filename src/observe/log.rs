//! The log: structured lines on standard error.

use std::{
    io::{self, IsTerminal},
    sync::OnceLock,
    time::Duration,
};

use serde_json::json;
use tracing_subscriber::{
    EnvFilter,
    field::MakeExt,
    fmt::{Subscriber, format::debug_fn},
};

use super::{
    lines::Lines,
    text::{TextLine, now, write_field},
};

/// What to log, and how.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogSettings {
    /// Directives of `tracing_subscriber::EnvFilter`: `info`, `warn,glossator=debug`.
    pub filter: String,
    /// The form of a line.
    pub format: LogFormat,
}

/// The form of a log line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LogFormat {
    /// For people; coloured on a terminal.
    Text,
    /// One JSON object a line, for collectors.
    Json,
}

impl LogFormat {
    /// A line that is written beside the log: before there is one, or about it.
    pub fn line(self, level: &str, message: &str) -> String {
        match self {
            Self::Text => message.to_owned(),
            Self::Json => json!({ "timestamp": now(), "level": level, "message": message }).to_string(),
        }
    }

    /// The line about lines that were dropped because nobody took them quickly enough.
    pub(super) fn dropped(self, lines: u64) -> String {
        let (now, message) = (now(), "log lines dropped");
        match self {
            Self::Text => format!("{now}  WARN glossator::observe::lines: {message} lines={lines}"),
            Self::Json => {
                json!({ "timestamp": now, "level": "WARN", "message": message, "lines": lines }).to_string()
            }
        }
    }
}

/// Why there is no log.
#[derive(Debug, thiserror::Error)]
pub enum LogError {
    /// The filter can't be read.
    #[error("`{filter}` is not a log filter")]
    Filter {
        /// As written.
        filter: String,
        /// What is wrong with it.
        #[source]
        source: tracing_subscriber::filter::ParseError,
    },
    /// The system gives no thread that writes it.
    #[error("the log can't be written")]
    NoThread(#[source] io::Error),
    /// This process has one already.
    #[error("the log is already set up")]
    AlreadySet,
}

impl LogSettings {
    /// A log from a level on: `off`, `error`, `warn`, `info`, `debug` or `trace`.
    pub fn of_level(level: &str, format: LogFormat) -> Self {
        let filter = match level {
            quiet @ ("off" | "error" | "warn") => quiet.to_owned(),
            // The MCP library tells every request at `info`; that is our line to write.
            level => format!("{level},rmcp=warn"),
        };
        Self { filter, format }
    }
}

/// What is written, once that is set up.
static LINES: OnceLock<Lines> = OnceLock::new();

/// How long the last lines are waited for.
const FLUSH_PATIENCE: Duration = Duration::from_secs(1);

/// Waits until what was logged is written, before the process ends. Not for ever: it may be that nobody reads it.
pub fn flush() {
    if let Some(lines) = LINES.get() {
        lines.flush(FLUSH_PATIENCE);
    }
}

/// How many lines were dropped so far, because nobody took them quickly enough.
pub fn dropped() -> u64 {
    LINES.get().map_or(0, Lines::dropped)
}

/// Sets the log of this process up, once. It goes to standard error: standard output belongs to results, and
/// on the stdio face to the protocol.
///
/// # Errors
///
/// [`LogError`].
pub fn init(settings: &LogSettings) -> Result<(), LogError> {
    let filter = parse_filter(&settings.filter)?;
    let writer = Lines::to(io::stderr(), settings.format).map_err(LogError::NoThread)?;
    let lines = Subscriber::builder()
        .with_env_filter(filter)
        .with_writer(writer.clone())
        // A log that can't be written (standard error closed) must not end the program, which a complaint
        // about it on standard error would.
        .log_internal_errors(false);
    let set = match settings.format {
        LogFormat::Text => {
            let lines = lines.with_ansi(io::stderr().is_terminal()).event_format(TextLine::default());
            let lines = lines.fmt_fields(debug_fn(write_field).delimited(" "));
            tracing::subscriber::set_global_default(lines.finish())
        }
        LogFormat::Json => tracing::subscriber::set_global_default(
            lines.json().flatten_event(true).with_ansi(false).finish(),
        ),
    };
    set.map_err(|_| LogError::AlreadySet)?;
    LINES.set(writer).map_err(|_| LogError::AlreadySet)
}

fn parse_filter(filter: &str) -> Result<EnvFilter, LogError> {
    EnvFilter::builder()
        .parse(filter)
        .map_err(|source| LogError::Filter { filter: filter.to_owned(), source })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_level_is_a_filter_and_not_every_text() {
        for level in ["off", "error", "warn", "info", "debug", "trace"] {
            parse_filter(&LogSettings::of_level(level, LogFormat::Text).filter).unwrap();
        }
        parse_filter("glossator=loud").unwrap_err();
    }
}
