//! Parser and formatter for durations and sizes with units.

use std::time::Duration;

use super::{code::Code, suggest::quoted};

/// Units in ascending order; a value is formatted with the largest unit that divides it.
const DURATION_UNITS: [(&str, u64); 5] =
    [("ms", 1), ("s", 1_000), ("m", 60_000), ("h", 3_600_000), ("d", 86_400_000)];
/// Units in words, each with its symbol.
const UNIT_WORDS: [(&str, &str); 9] = [
    ("millisecond", "ms"),
    ("msec", "ms"),
    ("second", "s"),
    ("sec", "s"),
    ("minute", "m"),
    ("min", "m"),
    ("hour", "h"),
    ("day", "d"),
    ("byte", "B"),
];
const SIZE_UNITS: [(&str, u64); 7] = [
    ("B", 1),
    ("KB", 1_000),
    ("KiB", 1 << 10),
    ("MB", 1_000_000),
    ("MiB", 1 << 20),
    ("GB", 1_000_000_000),
    ("GiB", 1 << 30),
];

/// Error of an invalid duration or size, with a suggested fix.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct UnitError {
    pub(crate) code: Code,
    pub(crate) message: String,
    pub(crate) help: String,
}

/// Parses a duration: `500ms`, `2s`, `1.5m`, `1h`, `7d`.
pub(crate) fn duration(text: &str) -> Result<Duration, UnitError> {
    measure(text, "duration", "500ms", "s", &DURATION_UNITS).map(Duration::from_millis)
}

/// Parses a size in bytes: `200B`, `64KiB`, `8MiB`, `1MB`.
pub(crate) fn size(text: &str) -> Result<u64, UnitError> {
    measure(text, "size", "64KiB", "KiB", &SIZE_UNITS)
}

/// Formats a duration in milliseconds.
pub(crate) fn format_duration(millis: u64) -> String {
    format_amount(millis, &DURATION_UNITS)
}

/// Formats a size in bytes.
pub(crate) fn format_size(bytes: u64) -> String {
    format_amount(bytes, &SIZE_UNITS)
}

fn format_amount(amount: u64, units: &[(&str, u64)]) -> String {
    let fits = |(_, factor): &&(&str, u64)| amount.is_multiple_of(*factor);
    match units.iter().rev().find(fits).filter(|_| amount > 0) {
        Some((unit, factor)) => format!("{}{unit}", amount / factor),
        None => format!("0{}", units[0].0),
    }
}

fn measure(
    text: &str,
    what: &str,
    example: &str,
    usual: &str,
    units: &[(&str, u64)],
) -> Result<u64, UnitError> {
    let text = text.trim();
    let at = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let (number, unit) = (&text[..at], text[at..].trim_start());
    let known = || units.iter().map(|(unit, _)| format!("`{unit}`")).collect::<Vec<_>>().join(", ");
    let no_measure = || UnitError {
        code: Code::WrongType,
        message: format!("expected a {what} such as `{example}`, found {}", quoted(text)),
        help: format!("write a number and a unit: {}", known()),
    };
    if number.is_empty()
        || number.starts_with('.')
        || number.ends_with('.')
        || number.matches('.').count() > 1
    {
        return Err(no_measure());
    }
    if unit.is_empty() {
        let help = format!("write `{number}{usual}`, or another of the units {}", known());
        return Err(UnitError {
            code: Code::InvalidUnit,
            message: format!("the {what} `{number}` has no unit"),
            help,
        });
    }
    let Some((_, factor)) = units.iter().find(|(name, _)| *name == unit) else {
        let singular = unit.to_ascii_lowercase();
        let word = UNIT_WORDS.iter().find(|(word, _)| *word == singular.trim_end_matches('s'));
        let meant = units.iter().find(|(name, _)| {
            name.eq_ignore_ascii_case(unit)
                || name.trim_end_matches('B').eq_ignore_ascii_case(unit)
                || word.is_some_and(|(_, meant)| meant == name)
        });
        let help = match meant {
            Some((name, _)) => format!("did you mean `{number}{name}`?"),
            None => format!("known units: {}", known()),
        };
        return Err(UnitError {
            code: Code::InvalidUnit,
            message: format!("unknown unit `{unit}` of a {what}"),
            help,
        });
    };
    let too_large = || UnitError {
        code: Code::OutOfRange,
        message: format!("the {what} `{text}` is too large"),
        help: format!("write a smaller one, such as `{example}`"),
    };
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    let amount =
        whole.parse::<u64>().ok().and_then(|whole| whole.checked_mul(*factor)).ok_or_else(too_large)?;
    let part = if fraction.is_empty() { 0.0 } else { format!("0.{fraction}").parse().unwrap_or(0.0) };
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        clippy::cast_precision_loss,
        reason = "a fraction of one unit is far below the limits of both types"
    )]
    let part = (part * *factor as f64).round() as u64;
    amount.checked_add(part).ok_or_else(too_large)
}

/// Parses a duration from `least` to `most` milliseconds.
pub(crate) fn duration_within(text: &str, least: u64, most: u64) -> Result<Duration, UnitError> {
    let duration = duration(text)?;
    in_range(duration.as_millis(), least, most, text, &format_duration(least), &format_duration(most))?;
    Ok(duration)
}

/// Parses a size from `least` to `most` bytes.
pub(crate) fn size_within(text: &str, least: u64, most: u64) -> Result<u64, UnitError> {
    let size = size(text)?;
    in_range(size.into(), least, most, text, &format_size(least), &format_size(most))?;
    Ok(size)
}

fn in_range(
    amount: u128,
    least: u64,
    most: u64,
    text: &str,
    shown_least: &str,
    shown_most: &str,
) -> Result<(), UnitError> {
    if (u128::from(least)..=u128::from(most)).contains(&amount) {
        return Ok(());
    }
    let near = if amount > u128::from(most) { shown_most } else { shown_least };
    Err(UnitError {
        code: Code::OutOfRange,
        message: format!("expected from `{shown_least}` to `{shown_most}`, found `{text}`"),
        help: format!("write a value in that range, such as `{near}`"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units_are_read_and_written() {
        assert_eq!(duration("500ms"), Ok(Duration::from_millis(500)));
        assert_eq!(duration("1.5m"), Ok(Duration::from_secs(90)));
        assert_eq!(duration("1 h"), Ok(Duration::from_secs(3600)));
        assert_eq!(size("64KiB"), Ok(65_536));
        assert_eq!(size("1MB"), Ok(1_000_000));
        assert_eq!(size("0.5KiB"), Ok(512));
        assert_eq!(format_duration(90_000), "90s");
        assert_eq!(format_duration(3_600_000), "1h");
        assert_eq!(format_size(8 << 20), "8MiB");
        assert_eq!(format_size(0), "0B");
    }

    #[test]
    fn an_invalid_unit_is_an_error_with_help() {
        assert_eq!(duration("30").unwrap_err().message, "the duration `30` has no unit");
        assert!(duration("30").unwrap_err().help.starts_with("write `30s`"));
        assert_eq!(size("8mib").unwrap_err().help, "did you mean `8MiB`?");
        assert_eq!(size("8k").unwrap_err().help, "did you mean `8KB`?");
        assert_eq!(duration("30 seconds").unwrap_err().help, "did you mean `30s`?");
        assert_eq!(duration("5min").unwrap_err().help, "did you mean `5m`?");
        assert!(duration("5 parsecs").unwrap_err().message.contains("`parsecs`"));
        for text in ["", "s", ".5s", "1..2s", "-5s", "99999999999999999999s", "18446744073709551615d"] {
            assert!(duration(text).is_err(), "{text}");
        }
    }
}
