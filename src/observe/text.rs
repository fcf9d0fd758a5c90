//! Lines of the log as text, quickly made: there is one for every call.
//!
//! They are those of `tracing_subscriber`, byte for byte, but a value with spaces in it is in quotes, so that programs find
//! its end. What is seldom (a line within a span, an error with its causes,
//! characters that a terminal might obey) is left to its own format.

use std::{
    cell::RefCell,
    fmt::{self, Debug, Write},
    time::{SystemTime, UNIX_EPOCH},
};

use tracing::{
    Event, Level, Subscriber,
    field::{Field, Visit},
};
use tracing_subscriber::{
    fmt::{
        FmtContext, FormatEvent, FormatFields,
        format::{Format, Full, Writer},
    },
    registry::LookupSpan,
};

/// Writes a line as [`Format`] does.
#[derive(Debug, Default)]
pub(super) struct TextLine {
    seldom: Format<Full>,
}

impl<S, N> FormatEvent<S, N> for TextLine
where
    S: Subscriber + for<'span> LookupSpan<'span>,
    N: for<'writer> FormatFields<'writer> + 'static,
{
    fn format_event(
        &self,
        context: &FmtContext<'_, S, N>,
        mut writer: Writer<'_>,
        event: &Event<'_>,
    ) -> fmt::Result {
        thread_local! {
            static LINE: RefCell<String> = const { RefCell::new(String::new()) };
        }
        let is_seldom = writer.has_ansi_escapes() || context.lookup_current().is_some();
        let written = !is_seldom
            && LINE.with(|line| {
                // Something that is logged may log when it is shown.
                let Ok(mut line) = line.try_borrow_mut() else { return Ok(false) };
                line.clear();
                let is_whole = write_line(event, &mut line)? && is_harmless(&line);
                if is_whole {
                    line.push('\n');
                    writer.write_str(&line)?;
                }
                Ok(is_whole)
            })?;
        if written { Ok(()) } else { self.seldom.format_event(context, writer, event) }
    }
}

/// Whether no terminal obeys any of it: nor what begins with 0xC2, which are the control characters of ISO 6429 and some
/// letters. Looks at all of it, so that many bytes are looked at together.
fn is_harmless(line: &str) -> bool {
    let is_harmful = |byte: u8| (byte < 0x20) | (byte == 0x7f) | (byte == 0xc2);
    !line.bytes().fold(false, |found, byte| found | is_harmful(byte))
}

/// Writes a line without its end; whether it is all of it.
fn write_line(event: &Event<'_>, line: &mut String) -> Result<bool, fmt::Error> {
    write_time(SystemTime::now(), line);
    line.push_str(match *event.metadata().level() {
        Level::ERROR => " ERROR ",
        Level::WARN => "  WARN ",
        Level::INFO => "  INFO ",
        Level::DEBUG => " DEBUG ",
        Level::TRACE => " TRACE ",
    });
    line.push_str(event.metadata().target());
    line.push(':');
    let mut fields = Fields { line, done: Ok(true) };
    event.record(&mut fields);
    fields.done
}

/// This moment, as lines have it.
pub(super) fn now() -> String {
    let mut line = String::new();
    write_time(SystemTime::now(), &mut line);
    line
}

/// A time in UTC as `2026-11-21T23:36:47.647162Z`.
fn write_time(time: SystemTime, line: &mut String) {
    thread_local! {
        /// The last second that was written down.
        static SECOND: RefCell<(u64, String)> = const { RefCell::new((u64::MAX, String::new())) };
    }
    let since = time.duration_since(UNIX_EPOCH).unwrap_or_default();
    SECOND.with_borrow_mut(|(second, text)| {
        if *second != since.as_secs() {
            *second = since.as_secs();
            text.clear();
            let timestamp = jiff::Timestamp::from_second(i64::try_from(*second).unwrap_or_default());
            let timestamp = timestamp.unwrap_or_default().to_string();
            text.push_str(timestamp.trim_end_matches('Z'));
        }
        line.push_str(text);
        // With a digit before them none of their zeros is lost.
        let mut digits = itoa::Buffer::new();
        let micros = &digits.format(1_000_000 + since.subsec_micros())[1..];
        line.push('.');
        line.push_str(micros);
        line.push('Z');
    });
}

/// Whether a program that reads the line would not find the end of a value.
fn needs_quotes(value: &str) -> bool {
    !value.starts_with('"') && value.bytes().any(|byte| matches!(byte, b' ' | b'"' | b'='))
}

/// Writes fields in the same way where the library writes the rest of the line.
pub(super) fn write_field(writer: &mut Writer<'_>, field: &Field, value: &dyn Debug) -> fmt::Result {
    let (name, value) = (field.name(), format!("{value:?}"));
    let harmless = |text: &str| match text.chars().any(char::is_control) {
        true => text
            .chars()
            .map(|c| if c.is_control() { c.escape_default().to_string() } else { c.into() })
            .collect(),
        false => text.to_owned(),
    };
    match name.strip_prefix("r#").unwrap_or(name) {
        "message" => writer.write_str(&harmless(&value)),
        name if name.starts_with("log.") => Ok(()),
        name if needs_quotes(&value) => write!(writer, "{name}={value:?}"),
        name => write!(writer, "{name}={}", harmless(&value)),
    }
}

struct Fields<'a> {
    line: &'a mut String,
    done: Result<bool, fmt::Error>,
}

impl Fields<'_> {
    /// Writes a field's name, and says whether it is one that is written.
    fn name(&mut self, field: &Field) -> bool {
        let name = field.name();
        if name.starts_with("log.") {
            return false;
        }
        self.line.push(' ');
        if name != "message" {
            self.line.push_str(name.strip_prefix("r#").unwrap_or(name));
            self.line.push('=');
        }
        true
    }

    fn write(&mut self, field: &Field, value: fmt::Arguments<'_>) {
        if self.name(field) && self.line.write_fmt(value).is_err() {
            self.done = Err(fmt::Error);
        }
    }
}

impl Visit for Fields<'_> {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        let before = self.line.len();
        self.write(field, format_args!("{value:?}"));
        let name = field.name();
        if name == "message" || name.starts_with("log.") {
            return;
        }
        let start = before + " =".len() + name.strip_prefix("r#").unwrap_or(name).len();
        if needs_quotes(&self.line[start..]) {
            let value = self.line.split_off(start);
            let _ = write!(self.line, "{value:?}");
        }
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        let is_special = |byte: u8| !(0x20..0x7f).contains(&byte) | (byte == b'"') | (byte == b'\\');
        let is_plain = !value.bytes().fold(false, |found, byte| found | is_special(byte));
        if field.name() == "message" {
            self.write(field, format_args!("{value}"));
        } else if !is_plain {
            self.write(field, format_args!("{value:?}"));
        } else if self.name(field) {
            self.line.push('"');
            self.line.push_str(value);
            self.line.push('"');
        }
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        if self.name(field) {
            self.line.push_str(itoa::Buffer::new().format(value));
        }
    }

    fn record_error(&mut self, _: &Field, _: &(dyn std::error::Error + 'static)) {
        self.done = Ok(false);
    }
}

#[cfg(test)]
mod tests {
    use std::{
        io,
        sync::{Arc, Mutex},
        time::Duration,
    };

    use tracing::{debug, info, subscriber::with_default, warn};
    use tracing_subscriber::{
        field::MakeExt,
        fmt::{Subscriber, format::debug_fn},
    };

    use super::*;

    #[derive(Clone, Default)]
    struct Written(Arc<Mutex<Vec<u8>>>);

    impl io::Write for Written {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().unwrap().extend_from_slice(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    /// What is logged, without its time.
    fn logged(quickly: bool, log: fn()) -> Vec<String> {
        let written = Written::default();
        let writer = written.clone();
        let lines = Subscriber::builder().with_max_level(Level::TRACE).with_ansi(false);
        let lines = lines.with_writer(move || writer.clone());
        let lines = lines.fmt_fields(debug_fn(write_field).delimited(" "));
        if quickly {
            with_default(lines.event_format(TextLine::default()).finish(), log);
        } else {
            with_default(lines.finish(), log);
        }
        let text = String::from_utf8(written.0.lock().unwrap().clone()).unwrap();
        text.lines().map(|line| line.split_once('Z').unwrap().1.to_owned()).collect()
    }

    fn log_all() {
        info!("only words, and {}", 1 + 1);
        info!(tool = %"get_thing", outcome = "success", status = Some(200_u16), none = None::<u16>, "call");
        warn!(quoted = "a \"b\" \\ ø\n", shown = ?Some("x\ty"), part = -1.5, yes = true, r#type = "text/plain");
        debug!(text = "caf\u{e9} \u{a0} \u{85}", "no words of a terminal");
        info!(evil = %"\u{1b}[31mred\u{7}", "a bell \u{7}");
        let cause = io::Error::other(io::Error::other("cause"));
        info!(error = &cause as &dyn std::error::Error, "failed");
        tracing::info_span!("inside", n = 1).in_scope(|| info!("within"));
        info!(none = 0_u64, ten = 10_u32, most = u64::MAX, big = u128::MAX, wide = ?Duration::from_millis(5), empty = "");
    }

    #[test]
    fn a_line_is_that_of_the_library() {
        let lines = logged(true, log_all);
        assert_eq!(lines, logged(false, log_all));
        assert_eq!(lines.len(), 8);
    }

    #[test]
    fn a_value_with_spaces_is_in_quotes() {
        let log = || {
            info!(error = %"no \"way\" there", path = %"/a", wait = ?Some(1), "a message");
            tracing::info_span!("inside").in_scope(|| info!(error = %"no way", "within"));
        };
        let lines = logged(true, log);
        assert!(
            lines[0].ends_with(r#" a message error="no \"way\" there" path=/a wait=Some(1)"#),
            "{lines:?}"
        );
        assert!(lines[1].ends_with(r#" within error="no way""#), "{lines:?}");
    }

    #[test]
    fn a_time_is_written_in_utc() {
        let written = |seconds, micros| {
            let mut line = String::new();
            let time = UNIX_EPOCH + Duration::from_secs(seconds) + Duration::from_micros(micros);
            write_time(time, &mut line);
            line
        };
        assert_eq!(written(0, 0), "1970-01-01T00:00:00.000000Z");
        assert_eq!(written(1_795_304_207, 647_162), "2026-11-21T23:36:47.647162Z");
        assert_eq!(written(1_795_304_207, 7), "2026-11-21T23:36:47.000007Z");
    }
}
