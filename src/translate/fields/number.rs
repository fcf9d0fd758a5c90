//! Formatted numbers (`$ 5.00`, `12,5 %`, `1,024`), and sizes in bytes.

use std::borrow::Cow;

use serde_json::Value;
use settings_derive::Section;

use super::settings::TEXTS;
use crate::settings::{Checked, Cursor, Setting, ValueKind, read_each, read_one_of, text_of};
use crate::translate::convert::{scaled, without_exponent};

/// Format of a number. The first prefix and the first suffix that matches is removed.
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
    #[key(name = "decimal_separator", kind = ValueKind::Word(&[".", ","]), default = '.')]
    pub decimal: char,
    /// Thousands separator, for `number` and `integer`.
    // The whole field checks that it is not the same as `decimal`.
    #[key(name = "thousands_separator", kind = ValueKind::Word(&[",", ".", " ", "'", "_"]))]
    pub thousands: Option<char>,
}

/// A character: one of the words of its key.
impl Setting for char {
    const KIND: ValueKind = ValueKind::Word(&[]);

    fn read(value: &Cursor<'_>) -> Checked<Self> {
        let ValueKind::Word(words) = value.kind else { return value.reject_kind("a character", None) };
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
    /// Normalizes a number to plain notation with a decimal point; `None` if it does not have this format.
    /// The digits must be checked by the calling function.
    pub(crate) fn plain<'t>(&self, text: &'t str) -> Option<Cow<'t, str>> {
        let text = text.trim();
        let (sign, rest) = sign_of(text);
        let bare = self.prefix.iter().find_map(|word| rest.strip_prefix(word.trim())).map_or(rest, str::trim);
        let number =
            self.suffix.iter().find_map(|word| bare.strip_suffix(word.trim())).map_or(bare, str::trim);
        if number == rest && self.decimal == '.' && self.thousands.is_none() {
            return Some(Cow::Borrowed(text));
        }
        let (inner_sign, digits) = if sign.is_empty() { sign_of(number) } else { ("", number) };
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

fn sign_of(text: &str) -> (&str, &str) {
    let end = usize::from(text.starts_with(['-', '+']));
    let (sign, rest) = text.split_at(end);
    (sign, rest.trim_start())
}

/// Removes the thousands separators of an integer. The last group must have three digits, and groups before
/// it two or three (as in India), so that `1,5` does not become 15.
pub(super) fn without_groups(whole: &str, separator: char) -> Option<String> {
    let is_separator = |c: char| match separator {
        ' ' => matches!(c, ' ' | '\u{a0}' | '\u{202f}' | '\u{2009}'),
        '\'' => matches!(c, '\'' | '’'),
        other => c == other,
    };
    let groups: Vec<&str> = whole.split(is_separator).collect();
    let [first, middle @ .., last] = groups.as_slice() else { return Some(whole.to_owned()) };
    let fits = (1..=3).contains(&first.len())
        && last.len() == 3
        && middle.iter().all(|group| (2..=3).contains(&group.len()));
    fits.then(|| groups.concat())
}

/// Format of a size.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Section)]
#[section(default)]
pub struct SizeForm {
    /// Unit of a number without a unit.
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

/// Bytes of a unit: `B`, `bytes`, `K`, `kB`, `KiB`, `Mi`, … up to exabytes. `Kb` is rejected, because it may
/// mean bits. `KiB` and `Ki` are always multiples of 1024. Without a base, `K` is 1024 and `kB` is 1000, as
/// in `ls`, `df` and `du`.
pub(super) fn size_unit(name: &str, kilo_base: Option<u64>) -> Option<i128> {
    if matches!(name, "B" | "byte" | "bytes" | "Byte" | "Bytes") {
        return Some(1);
    }
    let first = name.chars().next()?.to_ascii_uppercase();
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
    /// The expected form, for messages.
    pub(super) const EXPECTED: &str = "a size such as `512`, `512K`, `10MB` or `1.5 GiB`";

    /// Parses `1.5 GiB`, `512K`, `1,024 kB`, `10MB`, `7`, `1.5e+09`, rounded to whole bytes.
    pub(super) fn read(&self, text: &str) -> Option<Value> {
        const MAX_DIGITS: usize = 18;
        let text = text.trim();
        let end = text.find(|c: char| c.is_alphabetic()).unwrap_or(text.len());
        let (number, name) = text.split_at(end);
        let exponent = if number.ends_with(char::is_whitespace) { 0 } else { exponent_length(name) };
        let (exponent, name) = name.split_at(exponent);
        let unit = match name.trim_start() {
            "" => self.unit_bytes,
            name => size_unit(name, self.kilo_base)?,
        };
        let (whole, fraction) =
            number.trim_end().split_once(self.decimal).unwrap_or_else(|| (number.trim_end(), "0"));
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

/// Length of the exponent that a text begins with: 4 for `e+09 B`, 0 for `EB`, which is a unit.
fn exponent_length(text: &str) -> usize {
    let Some(after) = text.strip_prefix(['e', 'E']) else { return 0 };
    let digits = after.strip_prefix(['+', '-']).unwrap_or(after);
    match digits.bytes().take_while(u8::is_ascii_digit).count() {
        0 => 0,
        count => text.len() - digits.len() + count,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::translate::convert::to_number;

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
