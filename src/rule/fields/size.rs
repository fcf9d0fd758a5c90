//! Sizes as people and programs write them, as a number of bytes.

use serde_json::Value;

use super::number::without_groups;

/// How sizes are read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SizeForm {
    /// What a number without a unit counts.
    pub unit: SizeUnit,
    /// What `K` and `kB` are.
    pub kilo: Kilo,
    /// What stands before a fraction, `.` or `,`; the other of the two may stand between thousands.
    pub decimal: char,
}

/// A unit of size: so many bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SizeUnit(u128);

/// What `K`, `M` and `kB`, `MB` are multiples of. `KiB` and `Ki` are always of 1024.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Kilo {
    /// `K` of 1024 and `kB` of 1000, as `ls`, `df` and `du` have it.
    #[default]
    Usual,
    /// Both of 1000.
    Decimal,
    /// Both of 1024.
    Binary,
}

impl Default for SizeForm {
    fn default() -> Self {
        Self { unit: SizeUnit(1), kilo: Kilo::Usual, decimal: '.' }
    }
}

impl SizeUnit {
    /// A unit by its name: `B`, `bytes`, `K`, `kB`, `KiB`, `Mi`, … up to exabytes. `Kb` is none: it may be bits.
    pub fn named(name: &str, kilo: Kilo) -> Option<Self> {
        if matches!(name, "B" | "byte" | "bytes" | "Byte" | "Bytes") {
            return Some(Self(1));
        }
        let first = name.chars().next()?.to_ascii_uppercase();
        let power = u32::try_from("KMGTPE".find(first)?).ok()? + 1;
        let base: u128 = match (&name[1..], kilo) {
            ("iB" | "i", _) | ("" | "B", Kilo::Binary) | ("", Kilo::Usual) => 1024,
            ("B", Kilo::Usual) | ("" | "B", Kilo::Decimal) => 1000,
            _ => return None,
        };
        Some(Self(base.pow(power)))
    }
}

impl SizeForm {
    /// Reads `1.5 GiB`, `512K`, `1,024 kB`, `10MB`, `7`; the nearest whole number of bytes.
    ///
    /// # Errors
    ///
    /// What is expected.
    pub(super) fn read(&self, text: &str) -> Result<Value, &'static str> {
        self.bytes(text.trim()).and_then(|bytes| u64::try_from(bytes).ok()).map(Value::from).ok_or(EXPECTED)
    }

    fn bytes(&self, text: &str) -> Option<u128> {
        const MOST_DIGITS: usize = 18;
        let end = text.find(|c: char| c.is_alphabetic()).unwrap_or(text.len());
        let (number, name) = text.split_at(end);
        let unit = match name {
            "" => self.unit,
            name => SizeUnit::named(name, self.kilo)?,
        };
        let number = number.trim_end();
        let (whole, fraction) = match number.split_once(self.decimal) {
            Some((_, "")) => return None,
            Some(parts) => parts,
            None => (number, ""),
        };
        let whole = without_groups(whole, if self.decimal == '.' { ',' } else { '.' })?;
        let digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
        if whole.is_empty() || whole.len() > MOST_DIGITS || !digits(&whole) || !digits(fraction) {
            return None;
        }
        let fraction = &fraction[..fraction.len().min(MOST_DIGITS)];
        let scale = 10_u128.pow(u32::try_from(fraction.len()).ok()?);
        let part: u128 = if fraction.is_empty() { 0 } else { fraction.parse().ok()? };
        // At most 10^18 exabytes: no product leaves the range.
        Some(whole.parse::<u128>().ok()? * unit.0 + (2 * part * unit.0 + scale) / (2 * scale))
    }
}

const EXPECTED: &str = "a size such as `512`, `512K`, `10MB` or `1.5 GiB`";

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(form: SizeForm, text: &str, expected: Option<u64>) {
        assert_eq!(form.read(text).ok().and_then(|value| value.as_u64()), expected, "{text}");
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
            "1e3",
        ] {
            check(form, text, None);
        }
    }

    #[test]
    fn what_a_kilo_is_and_what_a_bare_number_counts_can_be_said() {
        check(SizeForm { kilo: Kilo::Decimal, ..SizeForm::default() }, "512K", Some(512_000));
        check(SizeForm { kilo: Kilo::Binary, ..SizeForm::default() }, "512 kB", Some(524_288));
        let pages = SizeForm { unit: SizeUnit::named("KiB", Kilo::Usual).unwrap(), ..SizeForm::default() };
        check(pages, "4", Some(4096));
        check(SizeForm { decimal: ',', ..SizeForm::default() }, "1.234,5 K", Some(1_264_128));
    }
}
