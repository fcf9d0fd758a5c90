//! Numbers with units: formatted numbers (`$ 5.00`, `12,5 %`, `1,024`), sizes in bytes, and durations as
//! people and programs write them.

use std::borrow::Cow;

use jiff::{Span, SpanRelativeTo};
use serde_json::Value;
use settings_derive::{EnumSetting, Section};

use super::settings::TEXTS;
use crate::settings::{Checked, Cursor, Setting, ValueKind, read_each, read_one_of, text_of};
use crate::translate::convert::{scaled, to_number, without_exponent};

/// Format of a number. The first matching prefix and the first matching suffix are removed.
#[derive(Debug, Clone, PartialEq, Eq, Section)]
#[section(default)]
pub struct NumberForm {
    /// Optional text before the number, such as `$`, for `number` and `integer`.
    #[key(kind = TEXTS, with = read_affixes)]
    pub prefix: Vec<String>,
    /// Optional text after the number, such as `%`, for `number` and `integer`.
    #[key(kind = TEXTS, with = read_affixes)]
    pub suffix: Vec<String>,
    /// Decimal separator, for `number`, `integer` and `size`.
    #[key(name = "decimal_separator", kind = ValueKind::Enum(&[".", ","]), default = '.')]
    pub decimal: char,
    /// Thousands separator, for `number` and `integer`.
    // `FieldOptions::field` checks that it differs from `decimal`.
    #[key(name = "thousands_separator", kind = ValueKind::Enum(&[",", ".", " ", "'", "_"]))]
    pub thousands: Option<char>,
}

/// A character: one of the allowed values of its key.
impl Setting for char {
    const KIND: ValueKind = ValueKind::Enum(&[]);

    fn read(value: &Cursor<'_>) -> Checked<Self> {
        let ValueKind::Enum(words) = value.kind else { return value.reject_kind("a character", None) };
        read_one_of(value, words.iter().filter_map(|word| Some((*word, word.chars().next()?))))
    }

    fn shown(&self, _kind: ValueKind) -> Option<String> {
        Some(format!("`{self}`"))
    }
}

fn read_affixes(value: &Cursor<'_>) -> Checked<Vec<String>> {
    let text = |item| text_of(&value.part(item, value.name, ValueKind::Text));
    let texts: Vec<&str> = read_each(value.node.one_or_more().iter().map(text))?;
    Ok(texts.iter().map(|text| text.trim().to_owned()).filter(|text| !text.is_empty()).collect())
}

impl NumberForm {
    /// Normalizes a number to plain notation with a decimal point; `None` if the text does not have this
    /// format. The caller must check the digits.
    pub(crate) fn plain<'t>(&self, text: &'t str) -> Option<Cow<'t, str>> {
        let text = text.trim();
        let (sign, rest) = split_sign(text);
        let bare = self.prefix.iter().find_map(|word| rest.strip_prefix(word.trim())).map_or(rest, str::trim);
        let number =
            self.suffix.iter().find_map(|word| bare.strip_suffix(word.trim())).map_or(bare, str::trim);
        if number == rest && self.decimal == '.' && self.thousands.is_none() {
            return Some(Cow::Borrowed(text));
        }
        let (inner_sign, digits) = if sign.is_empty() { split_sign(number) } else { ("", number) };
        let end = digits.find([self.decimal, 'e', 'E']).unwrap_or(digits.len());
        let (whole, fraction) = digits.split_at(end);
        if self.decimal != '.' && fraction.contains('.') {
            return None;
        }
        let whole = match self.thousands {
            Some(separator) => without_groups(whole, separator)?,
            None => whole.to_owned(),
        };
        if !whole.bytes().all(|byte| byte.is_ascii_digit()) {
            return None;
        }
        Some(Cow::Owned(format!("{sign}{inner_sign}{whole}{}", fraction.replacen(self.decimal, ".", 1))))
    }
}

fn split_sign(text: &str) -> (&str, &str) {
    let end = usize::from(text.starts_with(['-', '+']));
    let (sign, rest) = text.split_at(end);
    (sign, rest.trim_start())
}

/// Removes the thousands separators of an integer. The last group must have three digits, and the groups
/// between the first and the last two or three (as in India), so that `1,5` does not become 15.
pub(super) fn without_groups(whole: &str, separator: char) -> Option<String> {
    let is_separator = |c: char| match separator {
        ' ' => matches!(c, ' ' | '\u{a0}' | '\u{202f}' | '\u{2009}'),
        '\'' => matches!(c, '\'' | '’'),
        other => c == other,
    };
    let groups: Vec<&str> = whole.split(is_separator).collect();
    let [first, middle @ .., last] = groups.as_slice() else { return Some(whole.to_owned()) };
    let is_valid = (1..=3).contains(&first.len())
        && last.len() == 3
        && middle.iter().all(|group| (2..=3).contains(&group.len()));
    is_valid.then(|| groups.concat())
}

/// Format of a size.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Section)]
#[section(default)]
pub struct SizeForm {
    /// Unit of a number without a unit, in bytes.
    #[key(skip = 1)]
    pub unit_bytes: i128,
    /// Bytes in a `K` or `kB`, 1000 or 1024, for `size`.
    #[key(
        kind = ValueKind::Count(1000, 1024),
        with = read_kilo_base,
        shown = "1024 for `K` and 1000 for `kB`"
    )]
    pub kilo_base: Option<u64>,
    /// Decimal separator, `.` or `,`; the other of the two may separate thousands.
    #[key(skip = '.')]
    pub decimal: char,
}

fn read_kilo_base(value: &Cursor<'_>) -> Checked<Option<u64>> {
    read_one_of(value, [("1000", 1000), ("1024", 1024)].into_iter()).map(Some)
}

/// Number of bytes in a unit: `B`, `bytes`, `K`, `kB`, `KiB`, `Mi`, … up to exabytes. `Kb` is rejected,
/// because it may mean bits, and `e`, because it may begin an exponent. `KiB` and `Ki` are always multiples
/// of 1024. Without `kilo_base`, `K` is 1024 and `kB` is 1000, as in `ls`, `df` and `du`.
pub(super) fn size_unit(name: &str, kilo_base: Option<u64>) -> Option<i128> {
    if matches!(name, "B" | "byte" | "bytes" | "Byte" | "Bytes") {
        return Some(1);
    }
    let first = name.chars().next().filter(|c| *c != 'e')?.to_ascii_uppercase();
    let power = u32::try_from("KMGTPE".find(first)?).ok()? + 1;
    let base = match &name[1..] {
        "iB" | "i" => 1024,
        "" => kilo_base.unwrap_or(1024),
        "B" => kilo_base.unwrap_or(1000),
        _ => return None,
    };
    Some(i128::from(base).pow(power))
}

impl SizeForm {
    /// Expected form, for error messages.
    pub(super) const EXPECTED: &str = "a size such as `512`, `512K`, `10MB` or `1.5 GiB`";

    /// Parses sizes such as `1.5 GiB`, `512K`, `1,024 kB`, `10MB`, `7`, `1.5e+09`. The result is rounded to
    /// whole bytes.
    pub(super) fn read(&self, text: &str) -> Option<Value> {
        const MAX_DIGITS: usize = 18;
        let text = text.trim();
        let number = text.trim_end_matches(char::is_alphabetic);
        let unit = match &text[number.len()..] {
            "" => self.unit_bytes,
            name => size_unit(name, self.kilo_base)?,
        };
        let number = number.trim_end();
        let (number, exponent) = number.split_at(number.find(['e', 'E']).unwrap_or(number.len()));
        let (whole, fraction) = number.split_once(self.decimal).unwrap_or((number, "0"));
        let whole = without_groups(whole, if self.decimal == '.' { ',' } else { '.' })?;
        if whole.is_empty() || fraction.is_empty() {
            return None;
        }
        let number = without_exponent(&format!("{whole}.{fraction}{exponent}"))?;
        if number.find('.').unwrap_or(number.len()) > MAX_DIGITS {
            return None;
        }
        // Half a byte is rounded up.
        u64::try_from((scaled(&number, 2 * unit)? + 1) / 2).ok().map(Value::from)
    }
}

/// Format of a duration, and unit of the result.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Section)]
#[section(default)]
pub struct DurationForm {
    /// Unit of a number without a unit, in nanoseconds.
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
#[derive(Debug, Clone, Copy, PartialEq, Eq, EnumSetting)]
pub enum ResultUnit {
    /// Seconds.
    #[value("s")]
    Seconds,
    /// Milliseconds.
    #[value("ms")]
    Milliseconds,
}

/// Meaning of the two numbers of `4:05`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, EnumSetting)]
pub enum ShortClock {
    /// Hours and minutes.
    #[value("h:mm")]
    Hours,
    /// Minutes and seconds.
    #[value("m:ss")]
    Minutes,
}

const DAY: i128 = 24 * HOUR;
const HOUR: i128 = 60 * MINUTE;
const MINUTE: i128 = 60 * SECOND;
pub(super) const SECOND: i128 = 1_000_000_000;
pub(super) const MILLISECOND: i128 = 1_000_000;

/// Number of nanoseconds in a unit: `ms`, `s`, `sec`, `minutes`. `M` is rejected, because it may mean months.
pub(super) fn time_unit(name: &str) -> Option<i128> {
    if name == "M" || !name.chars().all(char::is_alphabetic) {
        return None;
    }
    // jiff accepts the micro sign; programs also write the Greek letter.
    span_nanos(&format!("1{}", name.to_lowercase().replace('μ', "µ")))
}

impl DurationForm {
    /// Parses durations such as `90`, `5m30s`, `3d 4h`, `3 days, 4:05`, `1:02:03`, `1-02:03:04`, `PT1H30M`,
    /// `00:05:12.5`. Fractions of a nanosecond are truncated.
    ///
    /// # Errors
    ///
    /// The expected form.
    pub(super) fn read(&self, text: &str) -> Result<Value, &'static str> {
        let text = text.trim();
        let (sign, rest) = text.strip_prefix('-').map_or((1, text), |rest| (-1, rest.trim_start()));
        let nanos = match rest.starts_with('P') {
            true => span_nanos(rest).ok_or(EXPECTED)?,
            false => self.parse_parts(rest)?,
        };
        let exponent = if self.output_unit == ResultUnit::Seconds { -9 } else { -6 };
        let number = without_exponent(&format!("{}e{exponent}", sign * nanos));
        number.and_then(|number| to_number(&number)).ok_or(EXPECTED)
    }

    fn parse_parts(&self, text: &str) -> Result<i128, &'static str> {
        let (mut total, mut last_unit, mut rest) = (0_i128, i128::MAX, text);
        while !rest.is_empty() {
            let digits = rest.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(rest.len());
            let (number, after) = rest.split_at(digits);
            if after.starts_with([':', '-']) {
                // Only weeks and days may precede a clock such as `4:05`.
                if last_unit < DAY {
                    return Err(EXPECTED);
                }
                let has_days = last_unit < i128::MAX;
                return total.checked_add(self.parse_clock(rest, has_days)?).ok_or(EXPECTED);
            }
            let trimmed = after.trim_start();
            let letters = trimmed.find(|c: char| !c.is_alphabetic()).unwrap_or(trimmed.len());
            let (name, after) = trimmed.split_at(letters);
            let unit = match name {
                "" if rest == text && trimmed.is_empty() => self.unit_nanos,
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
    fn parse_clock(&self, text: &str, has_days: bool) -> Result<i128, &'static str> {
        let (days, has_days, text) = match text.split_once('-') {
            Some((days, clock)) if !has_days => (scaled(days, DAY).ok_or(EXPECTED)?, true, clock),
            Some(_) => return Err(EXPECTED),
            None => (0, has_days, text),
        };
        let begins_with_hours = has_days || text.matches(':').count() == 2;
        let parts: Vec<&str> = text.split(':').collect();
        let units: &[i128] = match (parts.len(), self.clock) {
            (3, _) => &[HOUR, MINUTE, SECOND],
            (2, clock) if begins_with_hours || clock == Some(ShortClock::Hours) => &[HOUR, MINUTE],
            (2, Some(ShortClock::Minutes)) => &[MINUTE, SECOND],
            (2, None) => return Err(SHORT_CLOCK),
            _ => return Err(EXPECTED),
        };
        let mut total = days;
        for (index, (part, unit)) in parts.iter().zip(units).enumerate() {
            let whole = part.split('.').next().unwrap_or(part);
            let is_in_range = index == 0 || (whole.len() == 2 && whole < "60");
            // Only seconds may have a fraction: `1.5:00` is invalid.
            if !is_in_range || (whole != *part && *unit != SECOND) {
                return Err(EXPECTED);
            }
            total = scaled(part, *unit).and_then(|part| total.checked_add(part)).ok_or(EXPECTED)?;
        }
        Ok(total)
    }
}

const EXPECTED: &str = "a duration such as `90`, `5m30s`, `3 days, 4:05`, `1:02:03` or `PT1H30M`";
const SHORT_CLOCK: &str =
    "an unambiguous duration (with two numbers, it needs `clock_format: h:mm` or `clock_format: m:ss`)";

/// Parses `P1DT2H3M4.5S`, `P2W` or `1min` to nanoseconds. Years and months are rejected, because their
/// lengths vary.
fn span_nanos(text: &str) -> Option<i128> {
    let duration = text.parse::<Span>().ok()?.to_duration(SpanRelativeTo::days_are_24_hours());
    duration.ok().map(|duration| duration.as_nanos())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(form: &NumberForm, text: &str, expected: Option<&str>) {
        let found = form.plain(text).and_then(|plain| to_number(&plain)).map(|number| number.to_string());
        assert_eq!(found.as_deref(), expected, "{text}");
    }

    fn form(prefix: &[&str], suffix: &[&str], decimal: char, thousands: Option<char>) -> NumberForm {
        let owned = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect();
        NumberForm { prefix: owned(prefix), suffix: owned(suffix), decimal, thousands }
    }

    #[test]
    fn prefix_and_suffix_of_a_number_are_removed() {
        let money = form(&["$", "USD"], &["%", "ms"], '.', None);
        for (text, expected) in [
            ("$ 5.00", Some("5.00")),
            ("-$5", Some("-5")),
            ("$ -5", Some("-5")),
            ("USD 7", Some("7")),
            ("12.5 %", Some("12.5")),
            ("37ms", Some("37")),
            ("37", Some("37")),
            ("37 s", None),
            ("--5", None),
            ("-$-5", None),
            ("%", None),
            ("", None),
        ] {
            check(&money, text, expected);
        }
    }

    #[test]
    fn fractions_and_thousands_are_those_that_the_rule_names() {
        let german = form(&[], &["€"], ',', Some('.'));
        check(&german, "1.234.567,89 €", Some("1234567.89"));
        check(&german, "1.5", None);
        check(&german, "-0,5", Some("-0.5"));
        check(&form(&[], &[], ',', None), "1.5", None);
        check(&form(&[], &[], ',', None), "1,2.3", None);
        let plain = form(&[], &[], '.', Some(','));
        check(&plain, "1,024", Some("1024"));
        check(&plain, "12,34,567.5", Some("1234567.5"));
        check(&plain, "1,5", None);
        check(&plain, ",024", None);
        check(&plain, "1,02", None);
        check(&plain, "1,0244", None);
        check(&plain, "1e3", Some("1e+3"));
        check(&form(&[], &[], '.', Some(' ')), "1\u{202f}024", Some("1024"));
    }
}

#[cfg(test)]
mod size_tests {
    use super::*;

    #[track_caller]
    fn check(form: SizeForm, text: &str, expected: Option<u64>) {
        assert_eq!(form.read(text).and_then(|value| value.as_u64()), expected, "{text}");
    }

    #[test]
    fn sizes_are_read_as_programs_write_them() {
        let form = SizeForm::default();
        for (text, bytes) in [
            ("0", 0),
            ("512", 512),
            ("512 B", 512),
            ("7 bytes", 7),
            ("512K", 524_288),
            ("512k", 524_288),
            ("10MB", 10_000_000),
            ("1,024 kB", 1_024_000),
            ("1.5 GiB", 1_610_612_736),
            ("4Ki", 4096),
            ("1.3K", 1331),
            ("0.0004 K", 0),
            ("2T", 2_199_023_255_552),
            ("2E", 2_305_843_009_213_693_952),
            ("2EB", 2_000_000_000_000_000_000),
            ("1e3", 1000),
            ("1.5e+09", 1_500_000_000),
            ("1.234567E3", 1235),
            ("1500000e-3 kB", 1_500_000),
            ("0.25e1KiB", 2560),
            ("12e-9", 0),
        ] {
            check(form, text, Some(bytes));
        }
        for text in [
            "",
            "K",
            "-1",
            "1,5K",
            "1.K",
            ".5K",
            "5 Kb",
            "5 Kbit",
            "5e",
            "5 Q",
            "5 KBB",
            "1 2",
            "5é",
            "99999999 E",
            "1 e3",
            "1e+",
            "1e18",
            "e3",
            "1e3e3",
        ] {
            check(form, text, None);
        }
    }

    #[test]
    fn kilo_base_and_input_unit_are_configurable() {
        check(SizeForm { kilo_base: Some(1000), ..SizeForm::default() }, "512K", Some(512_000));
        check(SizeForm { kilo_base: Some(1024), ..SizeForm::default() }, "512 kB", Some(524_288));
        let pages = SizeForm { unit_bytes: size_unit("KiB", None).unwrap(), ..SizeForm::default() };
        check(pages, "4", Some(4096));
        check(SizeForm { decimal: ',', ..SizeForm::default() }, "1.234,5 K", Some(1_264_128));
    }
}

#[cfg(test)]
mod duration_tests {
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
            ("0-04:05", "14700"),
            ("PT1H30M", "5400"),
            ("P1DT0.5S", "86400.5"),
            ("P2W", "1209600"),
            ("00:05:12.5", "312.5"),
            ("100:00:00", "360000"),
            ("250ms", "0.25"),
            ("1.5h", "5400"),
            ("3 µs", "0.000003"),
            ("3 μs", "0.000003"),
            ("2 Wks", "1209600"),
            ("-0s", "0"),
            ("9999999999999999999 w", "6047999999999999999395200"),
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
            "5 mo",
            "2 years",
            "5 days ago",
            "5ago",
            "5h5",
            "1e3 s",
            "5 Stunden",
            "5 秒",
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
