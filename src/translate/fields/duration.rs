//! Parser of durations, as people and programs write them, to a number of seconds or milliseconds.

use jiff::{Span, SpanRelativeTo};
use serde_json::Value;
use settings_derive::{Section, Word};

use crate::translate::convert::scaled;

/// Format of a duration, and unit of the result.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Section)]
#[section(default)]
pub struct DurationForm {
    /// Unit of a number without a unit.
    #[key(skip = SECOND)]
    pub unit_nanos: i128,
    /// Unit of the result, for `duration`.
    #[key(default = ResultUnit::Seconds)]
    pub output_unit: ResultUnit,
    /// Meaning of a clock with two numbers such as `4:05`, for `duration`: hours and minutes, or minutes and
    /// seconds.
    #[key(name = "clock_format")]
    pub clock: Option<ShortClock>,
}

/// Unit of the result.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Word)]
pub enum ResultUnit {
    /// Seconds.
    #[word("s")]
    Seconds,
    /// Milliseconds.
    #[word("ms")]
    Milliseconds,
}

/// Meaning of the two numbers of `4:05`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Word)]
pub enum ShortClock {
    /// Hours and minutes.
    #[word("h:mm")]
    Hours,
    /// Minutes and seconds.
    #[word("m:ss")]
    Minutes,
}

const WEEK: i128 = 7 * DAY;
const DAY: i128 = 24 * HOUR;
const HOUR: i128 = 60 * MINUTE;
const MINUTE: i128 = 60 * SECOND;
pub(super) const SECOND: i128 = 1_000_000_000;
pub(super) const MILLISECOND: i128 = 1_000_000;

/// Nanoseconds of a unit: `ms`, `s`, `sec`, `minutes`. A bare `M` is rejected, because it may mean months.
pub(super) fn time_unit(name: &str) -> Option<i128> {
    match name.to_lowercase().as_str() {
        _ if name == "M" => None,
        "ns" | "nsec" | "nanosecond" | "nanoseconds" => Some(1),
        "us" | "µs" | "μs" | "usec" | "microsecond" | "microseconds" => Some(1_000),
        "ms" | "msec" | "msecs" | "millis" | "millisecond" | "milliseconds" => Some(MILLISECOND),
        "s" | "sec" | "secs" | "second" | "seconds" => Some(SECOND),
        "m" | "min" | "mins" | "minute" | "minutes" => Some(MINUTE),
        "h" | "hr" | "hrs" | "hour" | "hours" => Some(HOUR),
        "d" | "day" | "days" => Some(DAY),
        "w" | "week" | "weeks" => Some(WEEK),
        _ => None,
    }
}

impl DurationForm {
    /// Parses `90`, `5m30s`, `3d 4h`, `3 days, 4:05`, `1:02:03`, `1-02:03:04`, `PT1H30M`, `00:05:12.5`,
    /// truncated to nanoseconds.
    ///
    /// # Errors
    ///
    /// The expected form.
    pub(super) fn read(&self, text: &str) -> Result<Value, &'static str> {
        let text = text.trim();
        let (sign, rest) = text.strip_prefix('-').map_or((1, text), |rest| (-1, rest.trim_start()));
        let nanos = match rest.starts_with('P') {
            true => iso_8601(rest).ok_or(EXPECTED)?,
            false => self.parts(rest)?,
        };
        let unit = if self.output_unit == ResultUnit::Seconds { SECOND } else { MILLISECOND };
        decimal(sign * nanos, unit).ok_or(EXPECTED)
    }

    fn parts(&self, text: &str) -> Result<i128, &'static str> {
        let (mut total, mut last_unit, mut rest) = (0_i128, i128::MAX, text);
        while !rest.is_empty() {
            let digits = rest.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(rest.len());
            let (number, after) = rest.split_at(digits);
            if after.starts_with([':', '-']) {
                let days_came = last_unit == DAY || last_unit == WEEK;
                if last_unit != i128::MAX && !days_came {
                    return Err(EXPECTED);
                }
                return total.checked_add(self.clock(rest, days_came)?).ok_or(EXPECTED);
            }
            let spaced = after.trim_start();
            let letters = spaced.find(|c: char| !c.is_alphabetic()).unwrap_or(spaced.len());
            let (name, after) = spaced.split_at(letters);
            let unit = match name {
                "" if rest == text && spaced.is_empty() => self.unit_nanos,
                _ => time_unit(name).ok_or(EXPECTED)?,
            };
            // Units must decrease: the meaning of `5m 3m` or `3s 5m` is unclear.
            if unit >= last_unit {
                return Err(EXPECTED);
            }
            last_unit = unit;
            total = scaled(number, unit).and_then(|part| total.checked_add(part)).ok_or(EXPECTED)?;
            rest = after.trim_start_matches([' ', '\t', ',']);
            rest = rest.strip_prefix("and ").unwrap_or(rest).trim_start();
        }
        if last_unit == i128::MAX { Err(EXPECTED) } else { Ok(total) }
    }

    /// Parses `1-02:03:04`, `1:02:03` or `4:05`, with or without a fraction.
    fn clock(&self, text: &str, days_came: bool) -> Result<i128, &'static str> {
        let (days, text) = match text.split_once('-') {
            Some((days, clock)) if !days_came => (scaled(days, DAY).ok_or(EXPECTED)?, clock),
            Some(_) => return Err(EXPECTED),
            None => (0, text),
        };
        let hours_first = days_came || days > 0 || text.matches(':').count() == 2;
        let parts: Vec<&str> = text.split(':').collect();
        let units: &[i128] = match (parts.len(), self.clock) {
            (3, _) => &[HOUR, MINUTE, SECOND],
            (2, clock) if hours_first || clock == Some(ShortClock::Hours) => &[HOUR, MINUTE],
            (2, Some(ShortClock::Minutes)) => &[MINUTE, SECOND],
            (2, None) => return Err(SHORT_CLOCK),
            _ => return Err(EXPECTED),
        };
        let mut total = days;
        for (index, (part, unit)) in parts.iter().zip(units).enumerate() {
            let whole = part.split('.').next().unwrap_or(part);
            let in_place = index == 0 || (whole.len() == 2 && whole < "60");
            // Only seconds may have a fraction: `1.5:00` is invalid.
            if !in_place || (whole != *part && *unit != SECOND) {
                return Err(EXPECTED);
            }
            total = scaled(part, *unit).and_then(|part| total.checked_add(part)).ok_or(EXPECTED)?;
        }
        Ok(total)
    }
}

const EXPECTED: &str = "a duration such as `90`, `5m30s`, `3 days, 4:05`, `1:02:03` or `PT1H30M`";
const SHORT_CLOCK: &str =
    "a duration whose two numbers have a meaning (`clock_format: h:mm` or `clock_format: m:ss`)";

/// Parses `P1DT2H3M4.5S` or `P2W`. Years and months are rejected, because their lengths vary.
fn iso_8601(text: &str) -> Option<i128> {
    let duration = text.parse::<Span>().ok()?.to_duration(SpanRelativeTo::days_are_24_hours());
    duration.ok().map(|duration| duration.as_nanos())
}

/// Converts nanoseconds to a decimal number of units, without trailing zeros.
fn decimal(nanos: i128, unit: i128) -> Option<Value> {
    let sign = if nanos < 0 { "-" } else { "" };
    let (whole, rest) = (nanos.abs() / unit, nanos.abs() % unit);
    let width = unit.to_string().len() - 1;
    let fraction = format!("{rest:0width$}");
    let fraction = fraction.trim_end_matches('0');
    let point = if fraction.is_empty() { "" } else { "." };
    serde_json::from_str(&format!("{sign}{whole}{point}{fraction}")).ok().map(Value::Number)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(form: DurationForm, text: &str, expected: Option<&str>) {
        assert_eq!(form.read(text).ok().map(|value| value.to_string()).as_deref(), expected, "{text}");
    }

    #[test]
    fn durations_are_read_as_people_and_programs_write_them() {
        for (text, seconds) in [
            ("90", "90"),
            ("0", "0"),
            ("1.5", "1.5"),
            ("5m30s", "330"),
            ("5 min, 30 sec", "330"),
            ("3d 4h", "273600"),
            ("3 days, 4:05", "273900"),
            ("3 days,  4:05", "273900"),
            ("1 day and 2 hours", "93600"),
            ("1:02:03", "3723"),
            ("1-02:03:04", "93784"),
            ("PT1H30M", "5400"),
            ("P1DT0.5S", "86400.5"),
            ("P2W", "1209600"),
            ("00:05:12.5", "312.5"),
            ("100:00:00", "360000"),
            ("250ms", "0.25"),
            ("1.5h", "5400"),
            ("3 µs", "0.000003"),
            ("0.1234567891234 s", "0.123456789"),
            ("-5m", "-300"),
        ] {
            check(DurationForm::default(), text, Some(seconds));
        }
    }

    #[test]
    fn ambiguous_durations_are_errors() {
        for text in [
            "",
            "-",
            "5 fortnights",
            "5M",
            "P1M",
            "P1Y",
            "PT",
            "P",
            "PT5",
            "4:05",
            "1:60:00",
            "1:2:3",
            "1:02:03:04",
            "5m 3m",
            "3s 5m",
            "5 5",
            "5m 3",
            ".",
            "5.",
            "1..5s",
            "1.5:00:00",
            "5m:30",
            "1,5 s",
            "９s",
            "9999999999999999999999 s",
            "3 days, 1-02:03:04",
            "soon",
        ] {
            check(DurationForm::default(), text, None);
        }
        let form = |clock| DurationForm { clock: Some(clock), ..DurationForm::default() };
        check(form(ShortClock::Hours), "4:05", Some("14700"));
        check(form(ShortClock::Minutes), "4:05.5", Some("245.5"));
    }

    #[test]
    fn the_units_of_a_bare_number_and_of_the_result_can_be_named() {
        let output_unit = ResultUnit::Milliseconds;
        let form = DurationForm { unit_nanos: time_unit("min").unwrap(), output_unit, clock: None };
        check(form, "2", Some("120000"));
        check(form, "2us", Some("0.002"));
        check(form, "-0.5", Some("-30000"));
    }
}
