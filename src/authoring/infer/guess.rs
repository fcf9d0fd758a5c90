//! Inference of a field's type from its texts, formatted numbers such as `12 %`, `$ 1,024.00` and `5 °C`
//! included.

use std::sync::LazyLock;

use regex::Regex;
use serde_json::{Map, json};

use super::{Confidence, times};
use crate::config::quoted_list;
use crate::settings::fixed_regex;
use crate::translate::NumberForm;

/// Inferred type of a list of texts.
#[derive(Debug)]
pub(super) struct Guess {
    /// Name of the type.
    pub(super) kind: String,
    /// Options of the type.
    pub(super) options: Map<String, serde_json::Value>,
    /// Confidence.
    pub(super) confidence: Confidence,
    /// Evidence.
    pub(super) reason: String,
}

impl Guess {
    /// Options are texts; empty ones are omitted.
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

    /// The type of `count` texts, which are all of a kind.
    pub(super) fn with_count(kind: &str, options: &[(&str, &str)], count: usize, what: &str) -> Self {
        Self::new(kind, options, confidence_by_count(count), format!("{count} of {count} are {what}"))
    }

    /// Such a text is unlikely to mean anything else.
    pub(super) fn at_least_likely(mut self) -> Self {
        self.confidence = self.confidence.max(Confidence::Likely);
        self
    }
}

static NUMBER: LazyLock<Regex> =
    LazyLock::new(|| fixed_regex(r"^[-+]?([0-9]+(\.[0-9]+)?|\.[0-9]+)([eE][-+]?[0-9]+)?$"));
/// Leading zeros, which a number would lose: zip codes, telephone numbers and the like.
static LEADING_ZERO: LazyLock<Regex> = LazyLock::new(|| fixed_regex(r"^[-+]?0[0-9]"));

/// Minimum of whole numbers to infer `integer`.
pub(super) const MIN_WHOLE: usize = 3;
/// Pairs of words for true and false.
const BOOLEANS: [[&str; 2]; 5] =
    [["true", "false"], ["yes", "no"], ["on", "off"], ["enabled", "disabled"], ["y", "n"]];
/// Words for null; ASCII case is ignored.
const NULLS: [&str; 9] = ["-", "--", "N/A", "NA", "n.a.", "null", "none", "nil", "?"];

pub(super) fn is_number(text: &str) -> bool {
    NUMBER.is_match(text) && !LEADING_ZERO.is_match(text)
}

pub(super) fn is_whole(text: &str) -> bool {
    is_number(text) && !text.contains(['.', 'e', 'E'])
}

/// Confidence in a type by the number of texts.
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
    // In the spelling of the samples, each once.
    let mut null_words: Vec<&str> = Vec::new();
    for text in all.iter().copied().filter(|text| is_null(text)) {
        if !null_words.iter().any(|word| word.eq_ignore_ascii_case(text)) {
            null_words.push(text);
        }
    }
    let present: Vec<&str> = all.iter().copied().filter(|text| !is_null(text)).collect();
    let mut guess = number(name, &present)
        .or_else(|| boolean(&present))
        .or_else(|| times::date_or_time(&present))
        .or_else(|| times::duration(name, &present))
        .or_else(|| times::size(name, &present))
        .or_else(|| marked_number(&present))
        .unwrap_or_else(|| text(&present));
    if guess.kind != "string" && !null_words.is_empty() {
        guess.options.insert("null_values".into(), json!(null_words));
        guess.reason += &format!("; {} means null", quoted_list(null_words.iter().copied()));
    }
    guess
}

/// Infers plain numbers.
fn number(name: &str, texts: &[&str]) -> Option<Guess> {
    let count = texts.len();
    if count == 0 || !texts.iter().all(|text| is_number(text)) {
        return None;
    }
    // A count, or seconds since 1970, has digits only.
    let count_of = |text: &&str| text.parse().ok().filter(|_| !text.starts_with('+'));
    let counted: Option<Vec<u64>> = texts.iter().map(count_of).collect();
    if let Some(time) = counted.and_then(|numbers| times::unix(name, &numbers)) {
        return Some(time);
    }
    // With only one or two samples, the next may have a fraction.
    let (kind, what) = match texts.iter().all(|text| is_whole(text)) {
        true if count >= MIN_WHOLE => ("integer", "whole numbers"),
        true => ("number", "numbers, whole ones so far"),
        false => ("number", "numbers"),
    };
    Some(Guess::with_count(kind, &[], count, what))
}

/// Infers booleans.
fn boolean(texts: &[&str]) -> Option<Guess> {
    let count = texts.len();
    let [yes, no] = BOOLEANS.into_iter().find(|flags| {
        let among = |text: &&str| flags.iter().any(|flag| flag.eq_ignore_ascii_case(text));
        let both = texts.iter().any(|text| !text.eq_ignore_ascii_case(texts[0]));
        // A single letter may be a code, and so may `NO` and `ON`: Norway, Ontario.
        let may_be_code = |text: &&str| text.len() <= 2 && !text.contains(|c: char| c.is_ascii_lowercase());
        count > 0
            && texts.iter().all(among)
            && (both || (flags[0].len() > 1 && !texts.iter().all(may_be_code)))
    })?;
    let mut guess = Guess::with_count("boolean", &[], count, &format!("`{yes}` or `{no}`"));
    if yes != "true" {
        guess.options.insert("true_values".into(), json!([yes]));
        guess.options.insert("false_values".into(), json!([no]));
    }
    Some(guess)
}

/// The string type; if there are few distinct texts, the evidence lists them.
pub(super) fn text(texts: &[&str]) -> Guess {
    /// Limit of distinct texts that may be an enumeration.
    const MAX_STATES: usize = 4;
    let mut different: Vec<&str> = texts.to_vec();
    different.sort_unstable();
    different.dedup();
    let is_state = |text: &&str| text.len() <= 20 && text.contains(char::is_alphabetic);
    let few = (2..=MAX_STATES).contains(&different.len()) && different.iter().all(is_state);
    let reason = match different.len() {
        0 => "always empty".to_owned(),
        // With `values`, a new word would be an error, so only an author who knows all words can decide.
        _ if few && texts.len() >= 8 => {
            let words = quoted_list(different.iter().copied());
            format!("a string; only {words} so far: if there are no others, list them in `values`")
        }
        _ => "a string".to_owned(),
    };
    Guess::new("string", &[], confidence_by_count(texts.len()), reason)
}

/// Prefixes of amounts of money.
const PREFIXES: [&str; 9] = ["$", "€", "£", "¥", "USD", "EUR", "GBP", "NOK", "kr"];
/// Common units, for which one sample is enough evidence.
const UNITS: [&str; 55] = [
    "%", "°", "°C", "°F", "K", "°K", "mm", "cm", "m", "km", "m/s", "km/h", "kn", "kt", "mph", "hPa", "kPa",
    "Pa", "mbar", "bar", "V", "mV", "kV", "A", "mA", "W", "kW", "MW", "kWh", "Wh", "Hz", "kHz", "MHz", "GHz",
    "rpm", "RPM", "dB", "dBm", "lx", "ppm", "kg", "g", "mg", "l", "L", "ml", "EUR", "USD", "GBP", "NOK",
    "SEK", "DKK", "CHF", "€", "kr",
];
/// Longest unit, in characters; a longer suffix is an ordinary word.
const MAX_SUFFIX: usize = 12;

/// Splits a text into prefix, number and suffix.
fn parts(text: &str) -> Option<(&str, &str, &str)> {
    let is_digit = |c: char| c.is_ascii_digit();
    let first = text.find(is_digit)?;
    let last = text.rfind(is_digit)? + 1;
    let before = &text[..first];
    // A sign and a decimal point belong to the number.
    let number_start = before.trim_end_matches(['-', '+', '.']).len();
    Some((before[..number_start].trim(), &text[number_start..last], text[last..].trim()))
}

/// Infers numbers with the same prefix and suffix in all texts; `None` for other texts and for plain numbers.
fn marked_number(texts: &[&str]) -> Option<Guess> {
    let split: Vec<_> = texts.iter().map(|text| parts(text)).collect::<Option<_>>()?;
    let &(before, _, behind) = split.first()?;
    let same = split.iter().all(|part| part.0 == before && part.2 == behind);
    let before_is_known = before.is_empty() || PREFIXES.contains(&before);
    let behind_is_known = behind.is_empty() || UNITS.contains(&behind);
    let may_be_unit = behind.chars().count() <= MAX_SUFFIX
        && split.len() >= 2
        && !behind.contains(|c: char| c.is_whitespace() || c.is_ascii_digit() || ".,:;-_".contains(c))
        && behind.contains(char::is_alphabetic);
    if !same || !before_is_known || !(behind_is_known || may_be_unit) {
        return None;
    }
    let numbers: Vec<&str> = split.iter().map(|part| part.1).collect();
    let ((decimal, thousands), plain, is_certain) = number_format(&numbers)?;
    let unit = format!("{before} {behind}");
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
    // The number alone does not show its unit.
    let description = format!("In {}.", if unit == "%" { "percent" } else { unit });
    let options = [
        ("prefix", before),
        ("suffix", behind),
        ("decimal_separator", if decimal == "." { "" } else { decimal }),
        ("thousands_separator", thousands),
        ("description", if unit.is_empty() { "" } else { &description }),
    ];
    let whole = plain.iter().all(|number| is_whole(number)) && numbers.len() >= MIN_WHOLE;
    let kind = if whole && unit.is_empty() { "integer" } else { "number" };
    let mut guess = Guess::with_count(kind, &options, texts.len(), "numbers");
    if !behind_is_known {
        guess.confidence = guess.confidence.min(Confidence::Likely);
    }
    if !unit.is_empty() {
        guess.reason += &format!(" with `{unit}`");
    }
    if !is_certain {
        // `1,024` may have a decimal comma, and mean 1.024.
        let most = if numbers.len() >= 3 { Confidence::Likely } else { Confidence::Guess };
        guess.confidence = guess.confidence.min(most);
        // Without a separator of thousands, the format is certain.
        guess.reason += &format!("; `{thousands}` separates thousands, or else a fraction");
    }
    Some(guess)
}

/// Whether numbers without a unit have a decimal comma. Otherwise they may be lists, such as `0,1` of
/// processors. A list has no sign, and its items rarely have the same number of digits, two or more.
fn has_decimal_comma(numbers: &[&str]) -> bool {
    let decimals: Vec<usize> =
        numbers.iter().filter_map(|number| number.split_once(',')).map(|(_, digits)| digits.len()).collect();
    numbers.iter().any(|number| number.starts_with(['-', '+']))
        || (decimals.len() >= 3 && decimals[0] >= 2 && decimals.iter().all(|length| *length == decimals[0]))
}

/// Separators of decimals and of thousands; the latter may be empty.
type NumberFormat = (&'static str, &'static str);

/// The simplest format that parses all numbers, the numbers in plain notation, and whether they mean the same
/// in every format that parses them.
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
    // Another format may have a different meaning: `1,024`. A decimal point is unambiguous.
    let is_certain = format.1.is_empty() || formats.all(|(_, other)| other == plain);
    Some((format, plain, is_certain))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::Value;

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
}
