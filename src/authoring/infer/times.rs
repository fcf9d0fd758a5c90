//! Type inference for timestamps, dates, durations and sizes, with the parsers of fields.

use std::sync::LazyLock;

use regex::Regex;
use serde_json::Value;

use super::Confidence;
use super::guess::{Guess, confidence_by_count};
use crate::settings::fixed_regex;
use crate::translate::{DurationForm, FieldKind, FieldType, SizeForm, TimeForm, TimeFormat};

/// Formats of timestamps with an offset from UTC, or with a word for UTC, and then with its time zone. The
/// standard format is empty.
const ZONED_FORMATS: [(&str, &str); 10] = [
    ("", ""),
    ("%d/%b/%Y:%H:%M:%S %z", ""),
    ("%Y-%m-%d %H:%M:%S %z", ""),
    ("%a %b %d %H:%M:%S %z %Y", ""),
    ("%a %b %d %H:%M:%S UTC %Y", "UTC"),
    ("%Y-%m-%d %H:%M:%S UTC", "UTC"),
    ("%Y-%m-%d %H:%M:%S GMT", "UTC"),
    ("%d %b %Y %H:%M:%S GMT", "UTC"),
    ("%A, %d-%b-%Y %H:%M:%S UTC", "UTC"),
    ("%A, %d-%b-%Y %H:%M:%S GMT", "UTC"),
];
/// Formats of timestamps in an unknown time zone.
const LOCAL_FORMATS: [&str; 15] = [
    "",
    "%d.%m.%Y %H:%M:%S",
    "%d.%m.%Y %H:%M",
    "%Y/%m/%d %H:%M:%S",
    "%Y/%m/%d %H:%M",
    "%Y-%m-%d %H:%M",
    "%a %b %d %H:%M:%S %Y",
    "%d-%b-%Y %H:%M:%S",
    "%d-%b-%Y %H:%M",
    "%d %b %Y %H:%M:%S",
    "%d %b %Y %H:%M",
    "%b %d, %Y %H:%M:%S",
    "%m/%d/%Y %H:%M:%S",
    "%m/%d/%Y %H:%M",
    "%d/%m/%Y %H:%M:%S",
];
/// Formats of dates. All samples together decide whether the month is first or second.
const DATE_FORMATS: [&str; 9] =
    ["", "%d.%m.%Y", "%Y/%m/%d", "%d-%b-%Y", "%d %b %Y", "%b %d, %Y", "%d/%m/%Y", "%m/%d/%Y", "%d-%m-%Y"];

/// Whether a field of this type parses all texts.
fn parses_all(kind: FieldKind, texts: &[&str]) -> bool {
    let kind = FieldType::from(kind);
    !texts.is_empty() && texts.iter().all(|text| kind.apply(&Value::from(*text)).is_ok())
}

/// Format of times with these directives, in a known time zone if there is one.
fn form(format: &str, zone: &str) -> TimeForm {
    let format = match format {
        "" => TimeFormat::Standard,
        _ => TimeFormat::Directives(format.to_owned()),
    };
    TimeForm { formats: vec![format], zone: zone.parse().ok() }
}

/// Infers timestamps or dates.
pub(super) fn date_or_time(texts: &[&str]) -> Option<Guess> {
    // A bare number is not a date, although some formats parse it.
    let separated = |text: &&str| text.contains(['-', '/', '.', ':', ' ']) && text.len() >= 8;
    if !texts.iter().all(separated) {
        return None;
    }
    let guess = |kind: &str, options: &[(&str, &str)], what: &str| {
        Some(Guess::with_count(kind, options, texts.len(), what).at_least_likely())
    };
    let are_times = |format: &str, zone: &str| parses_all(FieldKind::DateTime(form(format, zone)), texts);
    if let Some((format, zone)) = ZONED_FORMATS.into_iter().find(|(format, zone)| are_times(format, zone)) {
        return guess("date-time", &[("format", format), ("timezone", zone)], "timestamps");
    }
    if let Some(format) = LOCAL_FORMATS.into_iter().find(|format| are_times(format, "UTC")) {
        let options = if format.is_empty() { String::new() } else { format!("`format: \"{format}\"` and ") };
        let reason = format!(
            "times without an offset; `type: date-time` parses them, with {options}the `timezone` of their \
             clock"
        );
        // They stay strings: with a wrong time zone, they would look right.
        return Some(Guess::new("string", &[], Confidence::Likely, reason));
    }
    let fits = |format: &&str| parses_all(FieldKind::Date(form(format, "")), texts);
    match *DATE_FORMATS.into_iter().filter(fits).collect::<Vec<_>>() {
        [] => None,
        [format] => guess("date", &[("format", format)], "days"),
        // Day and month are ambiguous; a wrong choice would go unnoticed.
        [one, other, ..] => {
            let reason =
                format!("dates; `type: date` parses them with `format: \"{one}\"`, or else `\"{other}\"`");
            Some(Guess::new("string", &[], Confidence::Guess, reason))
        }
    }
}

/// Whether a word of a field name is one of these words.
fn has_word(name: &str, words: &str) -> bool {
    name.split('_').any(|part| words.split(' ').any(|word| word == part))
}

/// Infers seconds or milliseconds since 1970, if the name suggests a time.
pub(super) fn unix(name: &str, numbers: &[u64]) -> Option<Guess> {
    const NAMES: &str = "time timestamp date datetime at since until expires created updated modified mtime \
                         ctime started epoch seen";
    /// From 2001 to 2100, in seconds.
    const SECONDS: std::ops::Range<u64> = 1_000_000_000..4_102_444_800;
    let named = has_word(name, NAMES);
    let all_in =
        |unit: u64| !numbers.is_empty() && numbers.iter().all(|number| SECONDS.contains(&(number / unit)));
    let (format, word) = match (named, all_in(1), all_in(1000)) {
        (true, true, _) => ("unix", "seconds"),
        (true, _, true) => ("unix-ms", "milliseconds"),
        _ => return None,
    };
    let reason = format!("{0} of {0} may be {word} since 1970, and the name suggests a time", numbers.len());
    let confidence = confidence_by_count(numbers.len()).min(Confidence::Likely);
    Some(Guess::new("date-time", &[("format", format)], confidence, reason))
}

/// Infers durations with units, or in clock format if the name suggests one.
pub(super) fn duration(name: &str, texts: &[&str]) -> Option<Guess> {
    const NAMES: &str =
        "uptime up duration elapsed age took latency runtime cputime delay timeout remaining idle length";
    if !parses_all(FieldKind::Duration(DurationForm::default()), texts) {
        return None;
    }
    let named = has_word(name, NAMES);
    let has_letters = |text: &&str| text.contains(char::is_alphabetic);
    let has_days = |text: &&str| text.split_once('-').is_some_and(|(_, clock)| clock.contains(':'));
    let unit = |text: &str| text.trim_start_matches(|c: char| !c.is_alphabetic()).to_owned();
    // `5 m` is more likely five metres.
    let may_be_length = texts.iter().all(|text| unit(text) == "m");
    let certain = texts.iter().any(has_days) || (texts.iter().all(has_letters) && !may_be_length);
    let says_more = |text: &&str| text.contains(':') || has_letters(text);
    let likely = named && texts.iter().all(says_more);
    if !certain && !likely {
        return None;
    }
    let (unit, description, what) = match texts.iter().all(|text| unit(text) == "ms") {
        true => ("ms", "In milliseconds.", "durations in milliseconds"),
        false => ("", "In seconds.", "durations; the value is in seconds"),
    };
    let options = [("output_unit", unit), ("description", description)];
    let mut guess = Guess::with_count("duration", &options, texts.len(), what);
    if !certain {
        guess.confidence = guess.confidence.min(Confidence::Likely);
        return Some(guess);
    }
    Some(guess.at_least_likely())
}

/// Infers sizes with units; `0` needs none.
pub(super) fn size(name: &str, texts: &[&str]) -> Option<Guess> {
    static UNIT: LazyLock<Regex> =
        LazyLock::new(|| fixed_regex(r"^[0-9][0-9.,]*\s?(?:[KMGTPEk]i?B|[KMGTPE]i?|k|B|[Bb]ytes?)$"));
    // `273 K` is a temperature, and `2 M` may be two million.
    let is_other =
        name.split('_').any(|word| word.starts_with("temp") || word == "price" || word == "resistance");
    let with_unit = texts.iter().filter(|text| UNIT.is_match(text)).count();
    let good = texts.iter().all(|text| UNIT.is_match(text) || *text == "0");
    if is_other || with_unit == 0 || !good {
        return None;
    }
    let comma = SizeForm { decimal: ',', ..SizeForm::default() };
    let has_fraction = |mark: char| {
        let mut behind = texts.iter().filter_map(|text| text.rsplit_once(mark));
        behind.any(|(_, rest)| rest.chars().take_while(char::is_ascii_digit).count() != 3)
    };
    let separator = match parses_all(FieldKind::Size(SizeForm::default()), texts) {
        true => "",
        false if has_fraction(',') && parses_all(FieldKind::Size(comma), texts) => ",",
        false => return None,
    };
    let options = [("decimal_separator", separator), ("description", "In bytes.")];
    Some(Guess::with_count("size", &options, texts.len(), "sizes; the value is in bytes").at_least_likely())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[track_caller]
    fn check(guess: Option<Guess>, expected: Option<(&str, Value)>) {
        let found = guess.map(|guess| (guess.kind, Value::Object(guess.options)));
        assert_eq!(found, expected.map(|(kind, options)| (kind.to_owned(), options)));
    }

    #[test]
    fn times_with_an_offset_are_timestamps() {
        let plain = Some(("date-time", json!({})));
        check(date_or_time(&["2026-11-21T09:30:00Z", "2026-11-21T09:30:00.5+01:00"]), plain.clone());
        check(date_or_time(&["Sat, 21 Nov 2026 09:30:00 GMT"]), plain);
        let log = json!({ "format": "%d/%b/%Y:%H:%M:%S %z" });
        check(date_or_time(&["21/Nov/2026:09:30:00 +0100"]), Some(("date-time", log)));
        let date = json!({ "format": "%a %b %d %H:%M:%S UTC %Y", "timezone": "UTC" });
        check(
            date_or_time(&["Sat Nov 21 15:39:38 UTC 2026", "Sat Nov  7 15:39:38 UTC 2026"]),
            Some(("date-time", date)),
        );
        let apache = json!({ "format": "%A, %d-%b-%Y %H:%M:%S UTC", "timezone": "UTC" });
        check(date_or_time(&["Saturday, 21-Nov-2026 15:39:38 UTC"]), Some(("date-time", apache)));
    }

    #[test]
    fn times_without_an_offset_stay_strings_with_a_format_in_a_comment() {
        for (text, part) in [
            ("2026-11-21 09:30:00", "`timezone`"),
            ("21.11.2026 09:30", "`format: \"%d.%m.%Y %H:%M\"`"),
            ("Sat Nov 21 15:39:38 2026", "`format: \"%a %b %d %H:%M:%S %Y\"`"),
        ] {
            let guess = date_or_time(&[text]).unwrap();
            assert!(guess.kind == "string" && guess.reason.contains(part), "{text}: {}", guess.reason);
        }
    }

    #[test]
    fn dates_have_one_format_or_stay_strings() {
        check(date_or_time(&["2026-11-21"]), Some(("date", json!({}))));
        check(date_or_time(&["21.11.2026", "01.02.2026"]), Some(("date", json!({ "format": "%d.%m.%Y" }))));
        check(date_or_time(&["11/21/2026", "01/02/2026"]), Some(("date", json!({ "format": "%m/%d/%Y" }))));
        check(date_or_time(&["01/02/2026"]), Some(("string", json!({}))));
        for text in ["20261121", "1.2.3", "10.0.0.1", "Oslo-1-2", "12:30:00", ""] {
            check(date_or_time(&[text]), None);
        }
    }

    #[test]
    fn durations_have_units_or_a_name() {
        let seconds = Some(("duration", json!({ "description": "In seconds." })));
        for text in ["5m30s", "3d 4h", "3 days, 4:05", "1-02:03:04", "PT1H30M", "12 s", "2 hours"] {
            check(duration("x", &[text]), seconds.clone());
        }
        check(
            duration("latency", &["12 ms", "3ms"]),
            Some(("duration", json!({ "output_unit": "ms", "description": "In milliseconds." }))),
        );
        check(duration("uptime", &["1:02:03"]), seconds);
        check(duration("time", &["09:30:00"]), None);
        check(duration("height", &["5 m"]), None);
        check(duration("uptime", &["90"]), None);
        check(duration("x", &["5"]), None);
    }

    #[test]
    fn sizes_have_units() {
        let bytes = Some(("size", json!({ "description": "In bytes." })));
        check(size("used", &["1.5G", "512K", "0"]), bytes.clone());
        check(size("used", &["1,024 kB", "10 MiB"]), bytes);
        check(
            size("used", &["1,5G"]),
            Some(("size", json!({ "decimal_separator": ",", "description": "In bytes." }))),
        );
        for texts in [&["0"][..], &["5 Mb"], &["5 g"], &["10 MB/s"], &[]] {
            check(size("used", texts), None);
        }
        check(size("temp", &["273 K"]), None);
    }

    #[test]
    fn seconds_since_1970_need_a_name() {
        check(unix("last_seen", &[1_790_000_000]), Some(("date-time", json!({ "format": "unix" }))));
        check(unix("created_at", &[1_790_000_000_000]), Some(("date-time", json!({ "format": "unix-ms" }))));
        check(unix("requests", &[1_790_000_000]), None);
        check(unix("time", &[17]), None);
    }
}
