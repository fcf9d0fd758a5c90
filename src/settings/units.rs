//! Parser and formatter for durations and sizes with units, and parser for rates.

use std::{sync::LazyLock, time::Duration};

use regex::Regex;
use serde::Serializer;

use super::{
    fixed_regex,
    problem_code::Code,
    section::{Checked, Cursor, Invalid, Setting},
    suggest,
};

/// Units of durations, in milliseconds, in ascending order: a duration is formatted with the largest unit
/// that divides it.
const DURATION_UNITS: [(&str, u64); 5] =
    [("ms", 1), ("s", 1_000), ("m", 60_000), ("h", 3_600_000), ("d", 86_400_000)];
/// Names and abbreviations of units, each followed by its symbol, for suggestions.
const UNIT_WORDS: &str = "millisecond ms, msec ms, second s, sec s, minute m, min m, hour h, day d, byte B";
const SIZE_UNITS: [(&str, u64); 7] = [
    ("B", 1),
    ("KB", 1_000),
    ("KiB", 1 << 10),
    ("MB", 1_000_000),
    ("MiB", 1 << 20),
    ("GB", 1_000_000_000),
    ("GiB", 1 << 30),
];

/// Parses a duration of `min` to `max` milliseconds: `500ms`, `2s`, `1.5m`, `1h`, `7d`.
pub(crate) fn duration(text: &str, min: u64, max: u64) -> Result<Duration, Invalid> {
    let millis = parse_quantity(text, "duration", "500ms", "s", &DURATION_UNITS)?;
    check_range(millis, [min, max], text, format_duration).map(Duration::from_millis)
}

/// Parses a size of `min` to `max` bytes: `200B`, `64KiB`, `8MiB`, `1MB`.
pub(crate) fn size(text: &str, min: u64, max: u64) -> Result<u64, Invalid> {
    let bytes = parse_quantity(text, "size", "64KiB", "KiB", &SIZE_UNITS)?;
    check_range(bytes, [min, max], text, format_size)
}

/// Formats a duration, given in milliseconds, with the largest unit that divides it.
pub(crate) fn format_duration(millis: u64) -> String {
    format_amount(millis, &DURATION_UNITS)
}

/// Converts a duration to whole milliseconds.
pub(crate) fn milliseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

/// Serializes a duration as a number of milliseconds.
pub(crate) fn serialize_milliseconds<S: Serializer>(
    time: &Duration,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    serializer.serialize_u64(milliseconds(*time))
}

/// Formats a size, given in bytes, with the largest unit that divides it.
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

fn parse_quantity(
    text: &str,
    kind: &str,
    example: &str,
    usual_unit: &str,
    units: &[(&str, u64)],
) -> Result<u64, Invalid> {
    static QUANTITY: LazyLock<Regex> =
        LazyLock::new(|| fixed_regex(r"(?s)^([0-9]+(?:\.[0-9]+)?)([^0-9.].*)?$"));
    let text = text.trim();
    let unit_list = || suggest::quoted_list(units.iter().map(|(unit, _)| unit));
    let Some(captures) = QUANTITY.captures(text) else {
        let message = format!("expected a {kind} such as `{example}`, found {}", suggest::quoted(text));
        let help = format!("write a number and a unit: {}", unit_list());
        return Err(Invalid::new(message, help).with_code(Code::WrongType));
    };
    let (number, unit) = (&captures[1], captures.get(2).map_or("", |unit| unit.as_str().trim_start()));
    if unit.is_empty() {
        let help = format!("write `{number}{usual_unit}`, or another of the units {}", unit_list());
        let message = format!("the {kind} `{number}` has no unit");
        return Err(Invalid::new(message, help).with_code(Code::InvalidUnit));
    }
    let Some((_, factor)) = units.iter().find(|(name, _)| *name == unit) else {
        let singular = unit.to_ascii_lowercase();
        let mut words = UNIT_WORDS.split(", ").filter_map(|entry| entry.split_once(' '));
        let word = words.find(|(word, _)| *word == singular.trim_end_matches('s'));
        let suggestion = units.iter().find(|(name, _)| {
            name.eq_ignore_ascii_case(unit)
                || name.trim_end_matches('B').eq_ignore_ascii_case(unit)
                || word.is_some_and(|(_, symbol)| symbol == *name)
        });
        let help = match suggestion {
            Some((name, _)) => format!("did you mean `{number}{name}`?"),
            None => format!("known units: {}", unit_list()),
        };
        let message = format!("unknown unit `{unit}` of a {kind}");
        return Err(Invalid::new(message, help).with_code(Code::InvalidUnit));
    };
    // A whole number of bytes or milliseconds up to 2^53 is exact in `f64`.
    let amount = number.parse::<f64>().map_or(f64::INFINITY, |number| (number * *factor as f64).round());
    if amount > (1_u64 << 53) as f64 {
        let message = format!("the {kind} `{text}` is too large");
        let help = format!("write a smaller one, such as `{example}`");
        return Err(Invalid::new(message, help).with_code(Code::OutOfRange));
    }
    Ok(amount as u64)
}

fn check_range(amount: u64, range: [u64; 2], text: &str, format: fn(u64) -> String) -> Result<u64, Invalid> {
    let [min, max] = range;
    if (min..=max).contains(&amount) {
        return Ok(amount);
    }
    let [formatted_min, formatted_max] = range.map(format);
    let nearest = if amount > max { &formatted_max } else { &formatted_min };
    let message = format!("expected from `{formatted_min}` to `{formatted_max}`, found `{text}`");
    let help = format!("write a value in that range, such as `{nearest}`");
    Err(Invalid::new(message, help).with_code(Code::OutOfRange))
}

/// Rate: number of calls per period.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rate {
    /// Number of calls, from 1 to 1,000,000.
    pub count: u32,
    /// Period, at most a day.
    pub per: Duration,
}

impl Rate {
    const MAX_COUNT: u32 = 1_000_000;
    const MAX_PERIOD: Duration = Duration::from_secs(24 * 3600);

    /// Parses `100 per minute`, `5 per 10s`. Error messages have no subject: the caller adds the key's name.
    pub(crate) fn parse(text: &str) -> Result<Self, Invalid> {
        let invalid = |code, expected: &str| {
            let message = format!("must be {expected}, found {}", suggest::quoted(text));
            let digits: String = text.chars().take_while(char::is_ascii_digit).collect();
            let count = digits.parse().unwrap_or(100).clamp(1, Self::MAX_COUNT);
            let help = format!("write `{count} per second`, `{count} per minute`, or `{count} per 10s`");
            Invalid::new(message, help).with_code(code)
        };
        let malformed = || invalid(Code::InvalidUnit, "a number of calls and a time");
        let (count, per) = text.split_once(" per ").ok_or_else(malformed)?;
        let count: u64 = count.trim().parse().map_err(|_| malformed())?;
        let count = u32::try_from(count).unwrap_or(u32::MAX);
        let per = match per.trim() {
            "second" => Duration::from_secs(1),
            "minute" => Duration::from_secs(60),
            "hour" => Duration::from_secs(3600),
            "day" => Self::MAX_PERIOD,
            other => duration(other, 0, u64::MAX).map_err(|_| malformed())?,
        };
        if !(1..=Self::MAX_COUNT).contains(&count) || per.is_zero() || per > Self::MAX_PERIOD {
            return Err(invalid(Code::OutOfRange, "1 to 1000000 calls in 1 ms to 1 day"));
        }
        Ok(Self { count, per })
    }
}

impl Setting for Rate {
    fn read(value: &Cursor<'_>) -> Checked<Self> {
        // A bare number is read too, so that the message can say what is missing.
        let text = value.node.scalar().unwrap_or_else(|| value.node.describe());
        Self::parse(&text).or_else(|invalid| {
            value.reject(Invalid { message: format!("{} {}", value.name, invalid.message), ..invalid })
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn duration(text: &str) -> Result<Duration, Invalid> {
        super::duration(text, 0, u64::MAX)
    }

    fn size(text: &str) -> Result<u64, Invalid> {
        super::size(text, 0, u64::MAX)
    }

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
        assert!(duration("30").unwrap_err().help.unwrap().starts_with("write `30s`"));
        assert_eq!(size("8mib").unwrap_err().help.unwrap(), "did you mean `8MiB`?");
        assert_eq!(size("8k").unwrap_err().help.unwrap(), "did you mean `8KB`?");
        assert_eq!(duration("30 seconds").unwrap_err().help.unwrap(), "did you mean `30s`?");
        assert_eq!(duration("5min").unwrap_err().help.unwrap(), "did you mean `5m`?");
        assert!(duration("5 parsecs").unwrap_err().message.contains("`parsecs`"));
        for text in ["", "s", ".5s", "1..2s", "-5s", "99999999999999999999s", "18446744073709551615d"] {
            assert!(duration(text).is_err(), "{text}");
        }
    }

    #[test]
    fn a_rate_is_parsed() {
        let calls = |count, per| Rate { count, per };
        assert_eq!(Rate::parse("100 per minute"), Ok(calls(100, Duration::from_secs(60))));
        assert_eq!(Rate::parse("1 per  10s "), Ok(calls(1, Duration::from_secs(10))));
        assert_eq!(Rate::parse("5 per day"), Ok(calls(5, Rate::MAX_PERIOD)));
    }

    #[test]
    fn an_invalid_rate_is_an_error_with_help() {
        for text in ["100", "100/s", "100 per", "ten per second", "100 per fortnight", "1.5 per second"] {
            let error = Rate::parse(text).unwrap_err();
            assert!(error.message.contains(&format!("found `{text}`")), "{error:?}");
            assert!(error.help.as_ref().unwrap().starts_with("write `"), "{error:?}");
        }
        assert!(Rate::parse("100/s").unwrap_err().help.unwrap().contains("`100 per second`"));
        for text in ["0 per second", "1000001 per second", "99999999999 per second", "1 per 0s", "1 per 25h"]
        {
            assert_eq!(Rate::parse(text).unwrap_err().code, Code::OutOfRange, "{text}");
        }
    }
}
