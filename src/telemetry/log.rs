//! The log: structured lines on standard error. Errors are logged with all their sources, untrusted strings
//! without line breaks.

use std::{
    error::Error,
    fmt::{self, Debug, Display, Write},
    io::{self, IsTerminal},
    mem,
    sync::OnceLock,
    time::Duration,
};

use jiff::Timestamp;
use serde_json::json;
use settings_derive::{EnumSetting, Section};
use tracing::field::{Field, Visit};
use tracing_subscriber::{
    field::RecordFields,
    filter::LevelFilter,
    fmt::{FormatFields, Subscriber, format::Writer},
};

use super::log_writer::LogWriter;
use crate::settings::EnumSetting as _;

/// The level and the format of the log.
#[derive(Debug, Clone, PartialEq, Eq, Section)]
#[section(id = "log", process, variables, default)]
pub struct LogSettings {
    /// Lowest level that is logged.
    #[key(default = LogLevel::Info, restart)]
    pub level: LogLevel,
    /// Format of log lines: text, or JSON.
    #[key(default = LogFormat::Text, restart)]
    pub format: LogFormat,
}

/// The lowest level that is logged.
#[derive(Debug, Clone, Copy, PartialEq, Eq, EnumSetting)]
pub enum LogLevel {
    /// Nothing.
    Off,
    /// Failures that an operator must act on.
    Error,
    /// Possible causes of failures.
    Warn,
    /// Rare events, and the access log.
    Info,
    /// Details of each call.
    Debug,
    /// Everything.
    Trace,
}

/// The format of a log line.
#[derive(Debug, Clone, Copy, PartialEq, Eq, EnumSetting)]
pub enum LogFormat {
    /// Text for people; coloured on a terminal.
    Text,
    /// One JSON object per line, for collectors.
    Json,
}

impl LogFormat {
    /// Formats a line that bypasses the log: a line before the log is set up, or about the log itself.
    pub fn line(self, level: &str, message: &str) -> String {
        match self {
            Self::Text => message.to_owned(),
            Self::Json => json!({ "timestamp": now(), "level": level, "message": message }).to_string(),
        }
    }

    /// Formats the line that reports dropped log lines: standard error was not read quickly enough.
    pub(super) fn dropped(self, lines: u64) -> String {
        let (now, message) = (now(), "log lines dropped");
        match self {
            Self::Text => format!("{now}  WARN glossator::telemetry::log_writer: {message} lines={lines}"),
            Self::Json => {
                json!({ "timestamp": now, "level": "WARN", "message": message, "lines": lines }).to_string()
            }
        }
    }
}

/// The log writer of this process, once the log is set up.
static WRITER: OnceLock<LogWriter> = OnceLock::new();

/// Timeout of [`flush`].
const FLUSH_TIMEOUT: Duration = Duration::from_secs(1);

/// Waits until all log lines are written; called before the process ends. The wait has a timeout, because
/// nothing may be reading standard error.
pub fn flush() {
    if let Some(writer) = WRITER.get() {
        writer.flush(FLUSH_TIMEOUT);
    }
}

/// Number of log lines dropped so far, because standard error was not read quickly enough.
pub fn dropped() -> u64 {
    WRITER.get().map_or(0, LogWriter::dropped)
}

/// Sets up the log of this process, once. The log is on standard error: standard output is for results, and
/// in stdio mode for the protocol.
///
/// # Errors
///
/// A message, if the thread can't be created, or if the log was set up before.
pub fn init(settings: &LogSettings) -> Result<(), String> {
    let writer = LogWriter::start(io::stderr(), settings.format)
        .map_err(|error| format!("the log thread can't be started: {error}"))?;
    let level: LevelFilter = settings.level.as_str().parse().expect("a test parses each word");
    let subscriber = Subscriber::builder()
        .with_max_level(level)
        .with_timer(write_now as fn(&mut Writer<'_>) -> fmt::Result)
        .with_writer(writer.clone())
        // The library would report its own errors with `eprintln!`, which panics and ends the program if
        // standard error is closed.
        .log_internal_errors(false);
    let result = match settings.format {
        LogFormat::Text => {
            let subscriber = subscriber.with_ansi(io::stderr().is_terminal()).fmt_fields(TextFields);
            tracing::subscriber::set_global_default(subscriber.finish())
        }
        LogFormat::Json => tracing::subscriber::set_global_default(
            subscriber.json().flatten_event(true).with_ansi(false).finish(),
        ),
    };
    result.ok().and_then(|()| WRITER.set(writer).ok()).ok_or_else(|| "the log is already set up".to_owned())
}

/// The current time in UTC, in the format of log lines: `2026-11-21T23:36:47.647162Z`.
fn now() -> String {
    format!("{:.6}", Timestamp::now())
}

/// Writes the time of a log line, in the format of [`now`].
fn write_now(writer: &mut Writer<'_>) -> fmt::Result {
    write!(writer, "{:.6}", Timestamp::now())
}

/// Format of the fields of a text line: `name=value`, with spaces between them.
struct TextFields;

impl<'writer> FormatFields<'writer> for TextFields {
    fn format_fields<R: RecordFields>(&self, writer: Writer<'writer>, fields: R) -> fmt::Result {
        let mut line = FieldWriter { writer, value: String::new(), is_first: true, result: Ok(()) };
        fields.record(&mut line);
        line.result
    }
}

/// Writes the fields of one line.
struct FieldWriter<'writer> {
    writer: Writer<'writer>,
    /// Buffer for one formatted value.
    value: String,
    is_first: bool,
    /// The first error. Nothing is written after it.
    result: fmt::Result,
}

impl Visit for FieldWriter<'_> {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        if self.result.is_ok() {
            self.value.clear();
            self.result = write!(self.value, "{value:?}").and_then(|()| self.write_field(field.name()));
        }
    }
}

impl FieldWriter<'_> {
    /// Writes a field with the value in the buffer. A value with spaces, quotes or `=` is quoted, so that
    /// programs find its end. Control characters are escaped, so that a terminal does not interpret them.
    fn write_field(&mut self, name: &str) -> fmt::Result {
        if !mem::take(&mut self.is_first) {
            self.writer.write_char(' ')?;
        }
        if name != "message" {
            self.writer.write_str(name)?;
            self.writer.write_char('=')?;
        }
        let value = &self.value;
        let needs_quotes = !is_quoted(value) && value.bytes().any(|byte| matches!(byte, b' ' | b'"' | b'='));
        if name != "message" && needs_quotes {
            return write!(self.writer, "{value:?}");
        }
        if value.bytes().all(|byte| matches!(byte, b' '..=b'~')) {
            return self.writer.write_str(value);
        }
        for character in value.chars() {
            match character.is_control() {
                true => write!(self.writer, "{}", character.escape_default())?,
                false => self.writer.write_char(character)?,
            }
        }
        Ok(())
    }
}

/// Whether a value is one quoted string, as `{:?}` formats it. Any other value with quotes must be quoted
/// again: a quote inside would end the string, and the rest would look like further fields.
fn is_quoted(value: &str) -> bool {
    let inside = value.strip_prefix('"').and_then(|rest| rest.strip_suffix('"'));
    let unescaped = inside.map(|inside| inside.replace(r"\\", "").replace(r#"\""#, ""));
    unescaped.is_some_and(|text| !text.contains('"') && !text.ends_with('\\'))
}

/// Formats an error and each of its sources, separated by `: `.
///
/// Errors of glossator never repeat the message of their source, but errors of some libraries do. A source is
/// skipped if its message is part of the previous message.
pub struct ErrorChain<'a>(pub &'a dyn Error);

impl Display for ErrorChain<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut previous = self.0.to_string();
        formatter.write_str(&previous)?;
        let mut next = self.0.source();
        while let Some(error) = next {
            let message = error.to_string();
            if !previous.contains(&message) {
                write!(formatter, ": {message}")?;
                previous = message;
            }
            next = error.source();
        }
        Ok(())
    }
}

/// Formats an untrusted string, such as input of a client, or output of a program or an upstream: in one
/// line, at most [`LOGGED_BYTES`] before control characters are escaped.
pub struct Untrusted<'a>(pub &'a str);

/// Maximum length of a logged value of a request or response, or of another untrusted string, in bytes before
/// escaping.
pub const LOGGED_BYTES: usize = 256;

impl Display for Untrusted<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, character) in self.0.char_indices() {
            if at + character.len_utf8() > LOGGED_BYTES {
                return formatter.write_char('…');
            }
            // A line break would allow forged log lines.
            match character.is_control() || matches!(character, '\u{2028}' | '\u{2029}') {
                true => write!(formatter, "{}", character.escape_default())?,
                false => formatter.write_char(character)?,
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use tracing::{info, subscriber::with_default};

    use parking_lot::Mutex;

    use super::*;

    #[derive(Clone, Default)]
    struct SharedBuffer(Arc<Mutex<Vec<u8>>>);

    impl io::Write for SharedBuffer {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().extend_from_slice(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    /// The lines that are logged, without their time.
    #[track_caller]
    fn check(log: fn(), expected: &str) {
        let output = SharedBuffer::default();
        let writer = output.clone();
        let subscriber = Subscriber::builder().with_ansi(false).with_writer(move || writer.clone());
        with_default(subscriber.fmt_fields(TextFields).finish(), log);
        let text = String::from_utf8(output.0.lock().clone()).unwrap();
        let (_, line) = text.split_once('Z').unwrap();
        assert_eq!(line, format!("  INFO glossator::telemetry::log::tests: {expected}\n"));
    }

    #[test]
    fn a_line_is_a_message_and_its_fields() {
        check(|| info!("only words, and {}", 1 + 1), "only words, and 2");
        check(
            || info!(tool = %"get_thing", status = Some(200_u16), none = None::<u16>, yes = true, "call"),
            "call tool=get_thing status=200 yes=true",
        );
        check(
            || info!(most = u64::MAX, part = -1.5, r#type = "a", "x"),
            r#"x most=18446744073709551615 part=-1.5 type="a""#,
        );
        let log = || {
            let error = io::Error::other(io::Error::other("cause"));
            info!(error = &error as &dyn Error, "failed");
        };
        check(log, "failed error=cause");
    }

    #[test]
    fn a_value_with_spaces_is_in_quotes() {
        check(
            || info!(error = %"no \"way\" there", path = %"/a", wait = ?Some(1), "a message"),
            r#"a message error="no \"way\" there" path=/a wait=Some(1)"#,
        );
        check(|| info!(text = %"\"a\" b", name = ?"c d", "x"), r#"x text="\"a\" b" name="c d""#);
        check(|| info!(text = %r#""a" status=200 "b""#, "x"), r#"x text="\"a\" status=200 \"b\"""#);
        check(|| info!(text = %r#""a b\""#, "x"), r#"x text="\"a b\\\"""#);
        check(|| info!(text = "a \"b\" \\ ø\n", "x"), r#"x text="a \"b\" \\ ø\n""#);
        check(|| info!(evil = %"a\n\u{1b} b", "x"), r#"x evil="a\n\u{1b} b""#);
    }

    #[test]
    fn control_characters_are_escaped_for_terminals() {
        check(
            || info!(evil = %"\u{1b}[31mred\u{7}", "a bell \u{7}"),
            r"a bell \u{7} evil=\u{1b}[31mred\u{7}",
        );
        check(|| info!(text = %"caf\u{e9}\u{85}", "x"), "x text=caf\u{e9}\\u{85}");
    }

    #[test]
    fn the_time_is_in_utc() {
        let now = now();
        assert!(now.len() == "2026-11-21T23:36:47.647162Z".len() && now.ends_with('Z'), "{now}");
    }

    #[test]
    fn every_level_is_one_of_the_library() {
        for (word, _) in LogLevel::VALUES {
            word.parse::<LevelFilter>().unwrap();
        }
    }

    #[derive(Debug, thiserror::Error)]
    #[error("could not do it")]
    struct Ours(#[source] Theirs);

    #[derive(Debug, thiserror::Error)]
    #[error("connection error: {0}")]
    struct Theirs(#[source] io::Error);

    #[test]
    fn every_cause_is_written_once() {
        let error = Ours(Theirs(io::Error::other("refused")));
        assert_eq!(ErrorChain(&error).to_string(), "could not do it: connection error: refused");
    }

    #[test]
    fn untrusted_text_stays_in_one_line() {
        assert_eq!(
            Untrusted("a\nINFO all is well\u{1b}[2J é").to_string(),
            "a\\nINFO all is well\\u{1b}[2J é"
        );
        assert_eq!(Untrusted(&"é".repeat(1000)).to_string(), format!("{}…", "é".repeat(LOGGED_BYTES / 2)));
        assert_eq!(
            Untrusted("nope\n2026-11-21 ERROR forged\0").to_string(),
            "nope\\n2026-11-21 ERROR forged\\u{0}"
        );
        assert_eq!(Untrusted(&"a".repeat(LOGGED_BYTES)).to_string(), "a".repeat(LOGGED_BYTES));
    }
}
