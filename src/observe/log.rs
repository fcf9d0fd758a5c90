//! The log: structured lines on standard error.

use std::{
    fmt,
    io::{self, IsTerminal},
    str::FromStr,
};

use tracing_subscriber::{EnvFilter, fmt::Subscriber};

/// What is logged when nothing is said: our own lines, and of the MCP library only what went wrong.
pub const FILTER_DEFAULT: &str = "info,rmcp=warn";

/// What to log, and how.
#[derive(Debug, Clone)]
pub struct LogSettings {
    /// Directives of `tracing_subscriber::EnvFilter`: `info`, `warn,glossator=debug`.
    pub filter: String,
    /// The form of a line.
    pub format: LogFormat,
}

/// The form of a log line.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum LogFormat {
    /// For people; coloured on a terminal.
    #[default]
    Text,
    /// One JSON object a line, for collectors.
    Json,
}

/// Why there is no log.
#[derive(Debug, thiserror::Error)]
pub enum LogError {
    /// The filter can't be read.
    #[error("`{filter}` is no log filter")]
    Filter {
        /// As written.
        filter: String,
        /// What is wrong with it.
        #[source]
        source: tracing_subscriber::filter::ParseError,
    },
    /// This process has one already.
    #[error("the log is already set up")]
    AlreadySet,
}

/// A text that is no log format.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is no log format: `text` and `json` are")]
pub struct LogFormatError(String);

impl Default for LogSettings {
    fn default() -> Self {
        Self { filter: FILTER_DEFAULT.to_owned(), format: LogFormat::default() }
    }
}

impl FromStr for LogFormat {
    type Err = LogFormatError;

    fn from_str(text: &str) -> Result<Self, LogFormatError> {
        match text {
            "text" => Ok(Self::Text),
            "json" => Ok(Self::Json),
            other => Err(LogFormatError(other.to_owned())),
        }
    }
}

impl fmt::Display for LogFormat {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::Text => "text",
            Self::Json => "json",
        })
    }
}

/// Checks a filter without setting anything up.
///
/// # Errors
///
/// [`LogError::Filter`].
pub fn check_filter(filter: &str) -> Result<(), LogError> {
    parse_filter(filter).map(|_| ())
}

/// Sets the log of this process up, once. It goes to standard error: standard output belongs to results, and
/// on the stdio face to the protocol.
///
/// # Errors
///
/// [`LogError`].
pub fn init(settings: &LogSettings) -> Result<(), LogError> {
    let lines = Subscriber::builder()
        .with_env_filter(parse_filter(&settings.filter)?)
        .with_writer(io::stderr)
        // A log that can't be written (standard error closed) must not end the program, which a complaint
        // about it on standard error would.
        .log_internal_errors(false);
    let set = match settings.format {
        LogFormat::Text => {
            tracing::subscriber::set_global_default(lines.with_ansi(io::stderr().is_terminal()).finish())
        }
        LogFormat::Json => tracing::subscriber::set_global_default(
            lines.json().flatten_event(true).with_ansi(false).finish(),
        ),
    };
    set.map_err(|_| LogError::AlreadySet)
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
    fn a_filter_that_cannot_be_read_is_an_error() {
        check_filter(FILTER_DEFAULT).unwrap();
        check_filter("glossator=loud").unwrap_err();
    }
}
