//! Inference of a field's type from its texts: numbers, including formatted ones such as `12 %`, `$ 1,024.00`
//! and `5 °C`, booleans, timestamps, dates, durations and sizes.

use std::sync::LazyLock;

use regex::Regex;
use serde_json::{Map, Value, json};

use super::Confidence;
use crate::config::quoted_list;
use crate::settings::fixed_regex;
use crate::translate::{DurationForm, FieldKind, FieldType, NumberForm, SizeForm, TimeFormat, TimeOptions};

/// Type that is inferred from a list of texts.
#[derive(Debug)]
pub(super) struct Guess {
    /// Name of the type.
    pub(super) kind: String,
    pub(super) options: Map<String, Value>,
    pub(super) confidence: Confidence,
    /// Evidence.
    pub(super) reason: String,
}

impl Guess {
    /// Creates a guess. Options with an empty value are omitted.
    pub(super) fn new(
        kind: &str,
        options: &[(&str, &str)],
        confidence: Confidence,
        reason: impl Into<String>,
    ) -> Self {
        let options = options.iter().filter(|(_, text)| !text.is_empty());
        let options = options.map(|(name, text)| ((*name).to_owned(), (*text).into())).collect();
        Self { kind: kind.to_owned(), options, confidence, reason: reason.into() }
    }

    /// Creates a guess for `count` texts that all have the format `format_name`.
    pub(super) fn with_count(kind: &str, options: &[(&str, &str)], count: usize, format_name: &str) -> Self {
        Self::new(kind, options, confidence_by_count(count), format!("{count} of {count} are {format_name}"))
    }

    /// Raises the confidence to at least `likely`, for formats that rarely have another meaning.
    pub(super) fn at_least_likely(mut self) -> Self {
        self.confidence = self.confidence.max(Confidence::Likely);
        self
    }
}

static NUMBER: LazyLock<Regex> =
    LazyLock::new(|| fixed_regex(r"^[-+]?([0-9]+(\.[0-9]+)?|\.[0-9]+)([eE][-+]?[0-9]+)?$"));
/// Numbers with leading zeros, such as postal codes and telephone numbers, which a numeric type would change.
static LEADING_ZERO: LazyLock<Regex> = LazyLock::new(|| fixed_regex(r"^[-+]?0[0-9]"));

/// Minimum number of whole numbers for the type `integer`.
pub(super) const MIN_WHOLE: usize = 3;
/// Pairs of words for true and false.
const BOOLEANS: [[&str; 2]; 5] =
    [["true", "false"], ["yes", "no"], ["on", "off"], ["enabled", "disabled"], ["y", "n"]];
/// Words for null, compared without ASCII case.
const NULLS: [&str; 9] = ["-", "--", "N/A", "NA", "n.a.", "null", "none", "nil", "?"];

pub(super) fn is_number(text: &str) -> bool {
    NUMBER.is_match(text) && !LEADING_ZERO.is_match(text)
}

pub(super) fn is_whole(text: &str) -> bool {
    is_number(text) && !text.contains(['.', 'e', 'E'])
}

/// Confidence in a type, depending on the number of texts.
pub(super) fn confidence_by_count(count: usize) -> Confidence {
    match count {
        0 | 1 => Confidence::Guess,
        2..5 => Confidence::Likely,
        _ => Confidence::Sure,
    }
}

/// Infers the type of a field from its name and texts.
pub(super) fn guess(name: &str, texts: &[&str]) -> Guess {
    let all: Vec<&str> = texts.iter().map(|text| text.trim()).filter(|text| !text.is_empty()).collect();
    let is_null = |text: &str| NULLS.iter().any(|word| word.eq_ignore_ascii_case(text));
    // Null words as the samples spell them, each listed once.
    let mut null_words: Vec<&str> = Vec::new();
    for text in all.iter().copied().filter(|text| is_null(text)) {
        if !null_words.iter().any(|word| word.eq_ignore_ascii_case(text)) {
            null_words.push(text);
        }
    }
    let present: Vec<&str> = all.iter().copied().filter(|text| !is_null(text)).collect();
    let mut guess = number(name, &present)
        .or_else(|| boolean(&present))
        .or_else(|| date_or_time(&present))
        .or_else(|| duration(name, &present))
        .or_else(|| size(name, &present))
        .or_else(|| marked_number(&present))
        .unwrap_or_else(|| text(&present));
    if guess.kind != "string" && !null_words.is_empty() {
        guess.options.insert("null_values".into(), json!(null_words));
        guess.reason += &format!("; {} means null", quoted_list(null_words.iter().copied()));
    }
    guess
}

/// Infers numbers without a unit.
fn number(name: &str, texts: &[&str]) -> Option<Guess> {
    let count = texts.len();
    if count == 0 || !texts.iter().all(|text| is_number(text)) {
        return None;
    }
    // A Unix timestamp consists of digits only.
    let digits = |text: &&str| text.parse().ok().filter(|_| !text.starts_with('+'));
    let timestamps: Option<Vec<u64>> = texts.iter().map(digits).collect();
    if let Some(time) = timestamps.and_then(|numbers| unix(name, &numbers)) {
        return Some(time);
    }
    // After only one or two whole numbers, the next value may have a fraction.
    let (kind, format_name) = match texts.iter().all(|text| is_whole(text)) {
        true if count >= MIN_WHOLE => ("integer", "whole numbers"),
        true => ("number", "numbers, whole ones so far"),
        false => ("number", "numbers"),
    };
    Some(Guess::with_count(kind, &[], count, format_name))
}

/// Infers booleans from a pair of words, such as `yes` and `no`.
fn boolean(texts: &[&str]) -> Option<Guess> {
    let count = texts.len();
    let [yes, no] = BOOLEANS.into_iter().find(|flags| {
        let is_flag = |text: &&str| flags.iter().any(|flag| flag.eq_ignore_ascii_case(text));
        let has_both = texts.iter().any(|text| !text.eq_ignore_ascii_case(texts[0]));
        // A single letter may be a code, and so may `NO` and `ON` (Norway, Ontario).
        let may_be_code = |text: &&str| text.len() <= 2 && !text.contains(|c: char| c.is_ascii_lowercase());
        count > 0
            && texts.iter().all(is_flag)
            && (has_both || (flags[0].len() > 1 && !texts.iter().all(may_be_code)))
    })?;
    let mut guess = Guess::with_count("boolean", &[], count, &format!("`{yes}` or `{no}`"));
    if yes != "true" {
        guess.options.insert("true_values".into(), json!([yes]));
        guess.options.insert("false_values".into(), json!([no]));
    }
    Some(guess)
}

/// Returns the type `string`, which fits all texts.
pub(super) fn text(texts: &[&str]) -> Guess {
    let is_empty = texts.iter().all(|text| text.is_empty());
    let reason = if is_empty { "always empty" } else { "a string" };
    Guess::new("string", &[], confidence_by_count(texts.len()), reason)
}

/// Currency prefixes of amounts.
const PREFIXES: [&str; 9] = ["$", "€", "£", "¥", "USD", "EUR", "GBP", "NOK", "kr"];
/// Common units; a single sample is enough evidence for them.
const UNITS: [&str; 55] = [
    "%", "°", "°C", "°F", "K", "°K", "mm", "cm", "m", "km", "m/s", "km/h", "kn", "kt", "mph", "hPa", "kPa",
    "Pa", "mbar", "bar", "V", "mV", "kV", "A", "mA", "W", "kW", "MW", "kWh", "Wh", "Hz", "kHz", "MHz", "GHz",
    "rpm", "RPM", "dB", "dBm", "lx", "ppm", "kg", "g", "mg", "l", "L", "ml", "EUR", "USD", "GBP", "NOK",
    "SEK", "DKK", "CHF", "€", "kr",
];
/// Maximum length of a unit, in characters; a longer suffix is an ordinary word.
const MAX_SUFFIX: usize = 12;

/// Splits a text into a prefix, a number and a suffix.
fn split_number(text: &str) -> Option<(&str, &str, &str)> {
    let is_digit = |c: char| c.is_ascii_digit();
    let first = text.find(is_digit)?;
    let last = text.rfind(is_digit)? + 1;
    let before = &text[..first];
    // A sign and a decimal point are part of the number.
    let number_start = before.trim_end_matches(['-', '+', '.']).len();
    Some((before[..number_start].trim(), &text[number_start..last], text[last..].trim()))
}

/// Infers numbers that have the same prefix and suffix in all texts; `None` for other texts, and for plain
/// numbers.
fn marked_number(texts: &[&str]) -> Option<Guess> {
    let split: Vec<_> = texts.iter().map(|text| split_number(text)).collect::<Option<_>>()?;
    let &(prefix, _, suffix) = split.first()?;
    let has_same_marks = split.iter().all(|part| part.0 == prefix && part.2 == suffix);
    let prefix_is_known = prefix.is_empty() || PREFIXES.contains(&prefix);
    let suffix_is_known = suffix.is_empty() || UNITS.contains(&suffix);
    let may_be_unit = suffix.chars().count() <= MAX_SUFFIX
        && split.len() >= 2
        && !suffix.contains(|c: char| c.is_whitespace() || c.is_ascii_digit() || ".,:;-_".contains(c))
        && suffix.contains(char::is_alphabetic);
    if !has_same_marks || !prefix_is_known || !(suffix_is_known || may_be_unit) {
        return None;
    }
    let numbers: Vec<&str> = split.iter().map(|part| part.1).collect();
    let ((decimal, thousands), plain, is_certain) = number_format(&numbers)?;
    let unit = format!("{prefix} {suffix}");
    let unit = unit.trim();
    match (decimal, thousands) {
        (".", "") if unit.is_empty() => return None,
        (",", "") if unit.is_empty() && !has_decimal_comma(&numbers) => {
            let reason = "lists, or numbers with a decimal comma; `type: number` parses numbers, with \
                          `decimal_separator: \",\"`";
            return Some(Guess::new("string", &[], Confidence::Guess, reason));
        }
        _ => {}
    }
    // The extracted number does not show its unit, so the description does.
    let description = format!("In {}.", if unit == "%" { "percent" } else { unit });
    let options = [
        ("prefix", prefix),
        ("suffix", suffix),
        ("decimal_separator", if decimal == "." { "" } else { decimal }),
        ("thousands_separator", thousands),
        ("description", if unit.is_empty() { "" } else { &description }),
    ];
    let are_whole = plain.iter().all(|number| is_whole(number)) && numbers.len() >= MIN_WHOLE;
    let kind = if are_whole && unit.is_empty() { "integer" } else { "number" };
    let mut guess = Guess::with_count(kind, &options, texts.len(), "numbers");
    if !unit.is_empty() {
        guess.reason += &format!(" with `{unit}`");
    }
    if !is_certain {
        // The comma of `1,024` may also be a decimal comma, so that the value is 1.024. A format without a
        // thousands separator is certain.
        guess.reason += &format!("; `{thousands}` separates thousands, or else a fraction");
    }
    let max_confidence = match (is_certain, numbers.len()) {
        (true, _) if suffix_is_known => Confidence::Sure,
        (true, _) | (false, 3..) => Confidence::Likely,
        (false, _) => Confidence::Guess,
    };
    Some(Guess { confidence: guess.confidence.min(max_confidence), ..guess })
}

/// Whether numbers without a unit have a decimal comma. If not, they may be lists, such as `0,1` for two
/// processors. Evidence of a decimal comma is a sign, or the same number of decimals, at least two, in three
/// or more numbers.
fn has_decimal_comma(numbers: &[&str]) -> bool {
    let decimals: Vec<usize> =
        numbers.iter().filter_map(|number| number.split_once(',')).map(|(_, digits)| digits.len()).collect();
    numbers.iter().any(|number| number.starts_with(['-', '+']))
        || (decimals.len() >= 3 && decimals[0] >= 2 && decimals.iter().all(|length| *length == decimals[0]))
}

/// Decimal separator and thousands separator; the thousands separator may be empty.
type NumberFormat = (&'static str, &'static str);

/// Returns the simplest format that parses all numbers, the numbers in plain notation, and whether every
/// other format that parses them gives the same values.
fn number_format(numbers: &[&str]) -> Option<(NumberFormat, Vec<String>, bool)> {
    const FORMATS: [NumberFormat; 7] =
        [(".", ""), (".", ","), (",", ""), (",", "."), (".", " "), (",", " "), (".", "'")];
    let read = |(decimal, thousands): NumberFormat| -> Option<Vec<String>> {
        let (decimal, thousands) = (decimal.parse().ok()?, thousands.parse().ok());
        let form = NumberForm { decimal, thousands, ..NumberForm::default() };
        let plain = |number: &&str| Some(form.plain(number)?.into_owned()).filter(|plain| is_number(plain));
        numbers.iter().map(plain).collect()
    };
    let mut formats = FORMATS.into_iter().filter_map(|format| Some((format, read(format)?)));
    let (format, plain) = formats.next()?;
    // Another format may give other values, for example for `1,024`. A decimal point without a thousands
    // separator is unambiguous.
    let is_certain = format.1.is_empty() || formats.all(|(_, other)| other == plain);
    Some((format, plain, is_certain))
}

/// Formats of timestamps with a UTC offset, or with a word for UTC. Each is paired with its time zone, which
/// is empty if the text has an offset. The empty format is the standard one: ISO 8601, RFC 2822, HTTP dates.
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
/// Date formats. All samples together decide whether the day or the month comes first.
const DATE_FORMATS: [&str; 9] =
    ["", "%d.%m.%Y", "%Y/%m/%d", "%d-%b-%Y", "%d %b %Y", "%b %d, %Y", "%m/%d/%Y", "%d/%m/%Y", "%d-%m-%Y"];

/// Formats of timestamps whose time zone is unknown.
fn local_formats() -> impl Iterator<Item = String> {
    let with_clock = |date: &str| {
        let date = if date.is_empty() { "%Y-%m-%d" } else { date };
        ["%H:%M:%S", "%H:%M"].map(|clock| format!("{date} {clock}"))
    };
    let others = ["", "%a %b %d %H:%M:%S %Y"].map(str::to_owned);
    others.into_iter().chain(DATE_FORMATS.into_iter().flat_map(with_clock))
}

/// Whether a field of this type parses all texts.
fn parses_all(kind: FieldKind, texts: &[&str]) -> bool {
    let kind = FieldType::from(kind);
    !texts.is_empty() && texts.iter().all(|text| kind.apply(&Value::from(*text)).is_ok())
}

/// Time format of these `strftime` directives, or the standard one if they are empty; `zone` may be empty.
fn time_options(format: &str, zone: &str) -> TimeOptions {
    let format = match format {
        "" => TimeFormat::Standard,
        _ => TimeFormat::Directives(format.to_owned()),
    };
    TimeOptions { formats: vec![format], zone: zone.parse().ok() }
}

/// Infers timestamps or dates. If the time zone or the order of day and month is unknown, the type is
/// `string`, and the reason has the options for a time or date.
pub(super) fn date_or_time(texts: &[&str]) -> Option<Guess> {
    // A plain number is not a date, although some formats parse it.
    let is_separated = |text: &&str| text.contains(['-', '/', '.', ':', ' ']) && text.len() >= 8;
    if !texts.iter().all(is_separated) {
        return None;
    }
    let guess = |kind: &str, options: &[(&str, &str)], format_name: &str| {
        Some(Guess::with_count(kind, options, texts.len(), format_name).at_least_likely())
    };
    let are_times =
        |format: &str, zone: &str| parses_all(FieldKind::DateTime(time_options(format, zone)), texts);
    if let Some((format, zone)) = ZONED_FORMATS.into_iter().find(|(format, zone)| are_times(format, zone)) {
        return guess("date-time", &[("format", format), ("timezone", zone)], "timestamps");
    }
    if let Some(format) = local_formats().find(|format| are_times(format, "UTC")) {
        let options = if format.is_empty() { String::new() } else { format!("`format: \"{format}\"` and ") };
        let reason = format!(
            "times without an offset; `type: date-time` parses them, with {options}the `timezone` of their \
             clock"
        );
        // Local times remain strings: with a wrong time zone, they would look correct.
        return Some(Guess::new("string", &[], Confidence::Likely, reason));
    }
    let fits = |format: &&str| parses_all(FieldKind::Date(time_options(format, "")), texts);
    match *DATE_FORMATS.into_iter().filter(fits).collect::<Vec<_>>() {
        [] => None,
        [format] => guess("date", &[("format", format)], "dates"),
        // Day and month are ambiguous, and a wrong choice would not be noticed.
        [one, other, ..] => {
            let reason =
                format!("dates; `type: date` parses them with `format: \"{one}\"`, or else `\"{other}\"`");
            Some(Guess::new("string", &[], Confidence::Guess, reason))
        }
    }
}

/// Whether a field name contains one of `words`, which are separated by spaces.
fn has_word(name: &str, words: &str) -> bool {
    name.split('_').any(|part| words.split(' ').any(|word| word == part))
}

/// Infers seconds or milliseconds since 1970, if the name of the field suggests a time.
fn unix(name: &str, numbers: &[u64]) -> Option<Guess> {
    const NAMES: &str = "time timestamp date datetime at since until expires created updated modified mtime \
                         ctime started epoch seen";
    /// September 2001 to the end of 2099, in seconds since 1970.
    const SECONDS: std::ops::Range<u64> = 1_000_000_000..4_102_444_800;
    let is_named = has_word(name, NAMES);
    let all_in =
        |unit: u64| !numbers.is_empty() && numbers.iter().all(|number| SECONDS.contains(&(number / unit)));
    let (format, word) = match (is_named, all_in(1), all_in(1000)) {
        (true, true, _) => ("unix", "seconds"),
        (true, _, true) => ("unix-ms", "milliseconds"),
        _ => return None,
    };
    let reason = format!("{0} of {0} may be {word} since 1970, and the name suggests a time", numbers.len());
    let confidence = confidence_by_count(numbers.len()).min(Confidence::Likely);
    Some(Guess::new("date-time", &[("format", format)], confidence, reason))
}

/// Infers durations. A unit (`5 min`), or days before a clock time (`1-02:03:04`), is sufficient evidence.
/// For a clock time alone and for `5 m`, the name of the field must suggest a duration.
fn duration(name: &str, texts: &[&str]) -> Option<Guess> {
    const NAMES: &str =
        "uptime up duration elapsed age took latency runtime cputime delay timeout remaining idle length";
    if !parses_all(FieldKind::Duration(DurationForm::default()), texts) {
        return None;
    }
    let is_named = has_word(name, NAMES);
    let has_letters = |text: &&str| text.contains(char::is_alphabetic);
    let has_days = |text: &&str| text.split_once('-').is_some_and(|(_, clock)| clock.contains(':'));
    let unit = |text: &str| text.trim_start_matches(|c: char| !c.is_alphabetic()).to_owned();
    // `5 m` is more likely a length in metres.
    let may_be_length = texts.iter().all(|text| unit(text) == "m");
    let is_certain = texts.iter().any(has_days) || (texts.iter().all(has_letters) && !may_be_length);
    let is_not_bare_number = |text: &&str| text.contains(':') || has_letters(text);
    let is_likely = is_named && texts.iter().all(is_not_bare_number);
    if !is_certain && !is_likely {
        return None;
    }
    let (unit, description, format_name) = match texts.iter().all(|text| unit(text) == "ms") {
        true => ("ms", "In milliseconds.", "durations in milliseconds"),
        false => ("", "In seconds.", "durations; the value is in seconds"),
    };
    let options = [("output_unit", unit), ("description", description)];
    let guess = Guess::with_count("duration", &options, texts.len(), format_name);
    let confidence = guess.confidence.min(Confidence::Likely);
    Some(if is_certain { guess.at_least_likely() } else { Guess { confidence, ..guess } })
}

/// Infers sizes with units; `0` may have no unit.
fn size(name: &str, texts: &[&str]) -> Option<Guess> {
    static UNIT: LazyLock<Regex> =
        LazyLock::new(|| fixed_regex(r"^[0-9][0-9.,]*\s?(?:[KMGTPEk]i?B|[KMGTPE]i?|k|B|[Bb]ytes?)$"));
    // `273 K` may be a temperature, and `2 M` two million.
    let is_other =
        name.split('_').any(|word| word.starts_with("temp") || word == "price" || word == "resistance");
    let with_unit = texts.iter().filter(|text| UNIT.is_match(text)).count();
    let are_sizes = texts.iter().all(|text| UNIT.is_match(text) || *text == "0");
    if is_other || with_unit == 0 || !are_sizes {
        return None;
    }
    let comma = SizeForm { decimal: ',', ..SizeForm::default() };
    let has_fraction = |mark: char| {
        let mut after_mark = texts.iter().filter_map(|text| text.rsplit_once(mark));
        after_mark.any(|(_, rest)| rest.chars().take_while(char::is_ascii_digit).count() != 3)
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
    use super::*;

    #[track_caller]
    fn check(texts: &[&str], kind: &str, confidence: Confidence) {
        let guess = guess("x", texts);
        assert_eq!(
            (guess.kind.as_str(), guess.confidence),
            (kind, confidence),
            "{texts:?}: {}",
            guess.reason
        );
    }

    #[test]
    fn texts_have_the_types_that_all_of_them_have() {
        check(&["1", "2", "3"], "integer", Confidence::Likely);
        check(&["1", "2"], "number", Confidence::Likely);
        check(&["1", "2.5", "-3", ".5", "1e5"], "number", Confidence::Sure);
        check(&["1", "2", "x"], "string", Confidence::Likely);
        check(&["0123", "4567", "8901"], "string", Confidence::Likely);
        check(&["yes", "No", "yes"], "boolean", Confidence::Likely);
        check(&["y", "y", "y"], "string", Confidence::Likely);
        check(&["NO", "NO", "NO"], "string", Confidence::Likely);
        check(&["up", "down"], "string", Confidence::Likely);
        check(&["5"], "number", Confidence::Guess);
        check(&["", ""], "string", Confidence::Guess);
    }

    #[test]
    fn words_for_a_missing_value_are_null() {
        let guess = guess("load", &["12 %", "-", "N/A", "n/a"]);
        assert_eq!(guess.kind, "number");
        assert_eq!(guess.options["null_values"], json!(["-", "N/A"]));
    }

    #[track_caller]
    fn check_marked(texts: &[&str], expected: Option<(&str, Value, Confidence)>) {
        let found =
            marked_number(texts).map(|guess| (guess.kind, Value::Object(guess.options), guess.confidence));
        let expected = expected.map(|(kind, options, confidence)| (kind.to_owned(), options, confidence));
        assert_eq!(found, expected, "{texts:?}");
    }

    #[test]
    fn marks_round_numbers_are_options() {
        let percent = json!({ "suffix": "%", "description": "In percent." });
        check_marked(&["12 %"], Some(("number", percent.clone(), Confidence::Guess)));
        check_marked(&["0%", "34%", "1%", "2%", "-3.5%"], Some(("number", percent, Confidence::Sure)));
        let celsius = json!({ "suffix": "°C", "decimal_separator": ",", "description": "In °C." });
        check_marked(&["5,5 °C", "-1 °C"], Some(("number", celsius, Confidence::Likely)));
        let dollars = json!({ "prefix": "$", "thousands_separator": ",", "description": "In $." });
        check_marked(&["$ 1,024.00", "$ 5.00"], Some(("number", dollars, Confidence::Likely)));
        check_marked(
            &["7 apples", "8 apples"],
            Some(("number", json!({ "suffix": "apples", "description": "In apples." }), Confidence::Likely)),
        );
    }

    #[test]
    fn ambiguous_texts_have_a_lower_confidence() {
        let commas = json!({ "thousands_separator": "," });
        check_marked(&["1,024"], Some(("number", commas.clone(), Confidence::Guess)));
        check_marked(&["1,024", "2,048", "17"], Some(("integer", commas.clone(), Confidence::Likely)));
        check_marked(&["1,024,000", "5", "6", "7", "8"], Some(("integer", commas, Confidence::Sure)));
        check_marked(
            &["1.234,5", "1"],
            Some((
                "number",
                json!({ "decimal_separator": ",", "thousands_separator": "." }),
                Confidence::Likely,
            )),
        );
    }

    #[test]
    fn a_comma_is_a_decimal_mark_only_with_evidence() {
        let comma = json!({ "decimal_separator": "," });
        check_marked(&["-3,5"], Some(("number", comma.clone(), Confidence::Guess)));
        check_marked(&["12,50", "3,99", "7,00"], Some(("number", comma, Confidence::Likely)));
        for texts in [&["0,1"][..], &["0,1", "2,3"], &["0,1", "2,3", "10,11"], &["12,50", "3,99"]] {
            check_marked(texts, Some(("string", json!({}), Confidence::Guess)));
        }
        check_marked(&["0,1,2", "3,4"], None);
    }

    #[test]
    fn codes_and_plain_numbers_are_unchanged() {
        for texts in [
            &["5", "6"][..],
            &["1.2.3"],
            &["7 apples"],
            &["A5", "A6"],
            &["0123 m"],
            &["5 m", "6 kg"],
            &["10.0.0.1", "10.0.0.2"],
            &["12:30", "12:40"],
            &["2026-11-21"],
            &["x"],
            &[],
        ] {
            check_marked(texts, None);
        }
    }

    #[track_caller]
    fn check_guess(guess: Option<Guess>, expected: Option<(&str, Value)>) {
        let found = guess.map(|guess| (guess.kind, Value::Object(guess.options)));
        assert_eq!(found, expected.map(|(kind, options)| (kind.to_owned(), options)));
    }

    #[test]
    fn times_with_an_offset_are_timestamps() {
        let plain = Some(("date-time", json!({})));
        check_guess(date_or_time(&["2026-11-21T09:30:00Z", "2026-11-21T09:30:00.5+01:00"]), plain.clone());
        check_guess(date_or_time(&["Sat, 21 Nov 2026 09:30:00 GMT"]), plain);
        let log = json!({ "format": "%d/%b/%Y:%H:%M:%S %z" });
        check_guess(date_or_time(&["21/Nov/2026:09:30:00 +0100"]), Some(("date-time", log)));
        let date = json!({ "format": "%a %b %d %H:%M:%S UTC %Y", "timezone": "UTC" });
        check_guess(
            date_or_time(&["Sat Nov 21 15:39:38 UTC 2026", "Sat Nov  7 15:39:38 UTC 2026"]),
            Some(("date-time", date)),
        );
        let apache = json!({ "format": "%A, %d-%b-%Y %H:%M:%S UTC", "timezone": "UTC" });
        check_guess(date_or_time(&["Saturday, 21-Nov-2026 15:39:38 UTC"]), Some(("date-time", apache)));
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
        check_guess(date_or_time(&["2026-11-21"]), Some(("date", json!({}))));
        check_guess(
            date_or_time(&["21.11.2026", "01.02.2026"]),
            Some(("date", json!({ "format": "%d.%m.%Y" }))),
        );
        check_guess(
            date_or_time(&["11/21/2026", "01/02/2026"]),
            Some(("date", json!({ "format": "%m/%d/%Y" }))),
        );
        check_guess(date_or_time(&["01/02/2026"]), Some(("string", json!({}))));
        for text in ["20261121", "1.2.3", "10.0.0.1", "Oslo-1-2", "12:30:00", ""] {
            check_guess(date_or_time(&[text]), None);
        }
    }

    #[test]
    fn durations_have_units_or_a_name() {
        let seconds = Some(("duration", json!({ "description": "In seconds." })));
        for text in ["5m30s", "3d 4h", "3 days, 4:05", "1-02:03:04", "PT1H30M", "12 s", "2 hours"] {
            check_guess(duration("x", &[text]), seconds.clone());
        }
        check_guess(
            duration("latency", &["12 ms", "3ms"]),
            Some(("duration", json!({ "output_unit": "ms", "description": "In milliseconds." }))),
        );
        check_guess(duration("uptime", &["1:02:03"]), seconds);
        check_guess(duration("time", &["09:30:00"]), None);
        check_guess(duration("height", &["5 m"]), None);
        check_guess(duration("uptime", &["90"]), None);
        check_guess(duration("x", &["5"]), None);
    }

    #[test]
    fn sizes_have_units() {
        let bytes = Some(("size", json!({ "description": "In bytes." })));
        check_guess(size("used", &["1.5G", "512K", "0"]), bytes.clone());
        check_guess(size("used", &["1,024 kB", "10 MiB"]), bytes);
        check_guess(
            size("used", &["1,5G"]),
            Some(("size", json!({ "decimal_separator": ",", "description": "In bytes." }))),
        );
        for texts in [&["0"][..], &["5 Mb"], &["5 g"], &["10 MB/s"], &[]] {
            check_guess(size("used", texts), None);
        }
        check_guess(size("temp", &["273 K"]), None);
    }

    #[test]
    fn seconds_since_1970_need_a_name() {
        check_guess(unix("last_seen", &[1_790_000_000]), Some(("date-time", json!({ "format": "unix" }))));
        check_guess(
            unix("created_at", &[1_790_000_000_000]),
            Some(("date-time", json!({ "format": "unix-ms" }))),
        );
        check_guess(unix("requests", &[1_790_000_000]), None);
        check_guess(unix("time", &[17]), None);
    }
}
