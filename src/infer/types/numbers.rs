//! Numbers as people write them: `12 %`, `$ 1,024.00`, `5 °C`.

use serde_json::{Map, json};

use super::guess::{Guess, LEAST_WHOLE, is_number, is_whole, sureness};
use crate::{infer::Sure, rule::NumberForm};

/// What stands before money.
const BEFORE: [&str; 9] = ["$", "€", "£", "¥", "USD", "EUR", "GBP", "NOK", "kr"];
/// What stands behind a number often enough that one sample tells.
const BEHIND: [&str; 55] = [
    "%", "°", "°C", "°F", "K", "°K", "mm", "cm", "m", "km", "m/s", "km/h", "kn", "kt", "mph", "hPa", "kPa",
    "Pa", "mbar", "bar", "V", "mV", "kV", "A", "mA", "W", "kW", "MW", "kWh", "Wh", "Hz", "kHz", "MHz", "GHz",
    "rpm", "RPM", "dB", "dBm", "lx", "ppm", "kg", "g", "mg", "l", "L", "ml", "EUR", "USD", "GBP", "NOK",
    "SEK", "DKK", "CHF", "€", "kr",
];
/// A longer suffix is a word of its own, and no unit.
const LONGEST_SUFFIX: usize = 12;

/// What is round the digits of a text: what stands before, the number, what stands behind.
fn parts(text: &str) -> Option<(&str, &str, &str)> {
    let is_digit = |c: char| c.is_ascii_digit();
    let first = text.find(is_digit)?;
    let last = text.rfind(is_digit)? + 1;
    let before = &text[..first];
    // A sign and a point belong to the number.
    let number_start = before.trim_end_matches(['-', '+', '.']).len();
    Some((before[..number_start].trim(), &text[number_start..last], text[last..].trim()))
}

/// What the texts are when all are numbers with the same marks round them; `None` when they are not, or are bare.
pub(super) fn guess(texts: &[&str]) -> Option<Guess> {
    let split: Vec<_> = texts.iter().map(|text| parts(text)).collect::<Option<_>>()?;
    let &(before, _, behind) = split.first()?;
    let same = split.iter().all(|part| part.0 == before && part.2 == behind);
    let before_is_known = before.is_empty() || BEFORE.contains(&before);
    let behind_is_known = behind.is_empty() || BEHIND.contains(&behind);
    let may_be_unit = behind.chars().count() <= LONGEST_SUFFIX
        && split.len() >= 2
        && !behind.contains(|c: char| c.is_whitespace() || c.is_ascii_digit() || ".,:;-_".contains(c))
        && behind.contains(char::is_alphabetic);
    if !same || !before_is_known || !(behind_is_known || may_be_unit) {
        return None;
    }
    let numbers: Vec<&str> = split.iter().map(|part| part.1).collect();
    let marks = marks(&numbers)?;
    if before.is_empty() && behind.is_empty() && marks.is_plain() {
        return None;
    }
    let mut options = Map::new();
    for (name, text) in [("prefix", before), ("suffix", behind)] {
        if !text.is_empty() {
            options.insert(name.into(), text.into());
        }
    }
    if marks.decimal != '.' {
        options.insert("decimal".into(), marks.decimal.to_string().into());
    }
    if let Some(separator) = marks.thousands {
        options.insert("thousands".into(), separator.to_string().into());
    }
    let unit = [before, behind].into_iter().filter(|unit| !unit.is_empty()).collect::<Vec<_>>().join(" ");
    // The number alone does not say what it counts.
    if !unit.is_empty() {
        let spoken = if unit == "%" { "percent" } else { &unit };
        options.insert("description".into(), json!(format!("In {spoken}.")));
    }
    let mut sure = sureness(texts.len());
    if !behind_is_known {
        sure = sure.min(Sure::Likely);
    }
    let mut why = format!("{0} of {0} are numbers", texts.len());
    if !unit.is_empty() {
        why += &format!(" with `{unit}`");
    }
    if !marks.is_certain {
        // `1,024` may be a little more than one.
        sure = sure.min(if numbers.len() >= 3 { Sure::Likely } else { Sure::Guess });
        why += &format!("; `{}` stands between thousands, or else before a fraction", marks.mark());
    }
    let whole = marks.plain.iter().all(|number| is_whole(number)) && numbers.len() >= LEAST_WHOLE;
    let kind = if whole && unit.is_empty() { "integer" } else { "number" };
    Some(Guess { kind: kind.to_owned(), options, sure, why })
}

/// How numbers are written.
struct Marks {
    decimal: char,
    thousands: Option<char>,
    /// Whether the texts can't be read another way.
    is_certain: bool,
    /// The numbers as programs write them.
    plain: Vec<String>,
}

impl Marks {
    fn is_plain(&self) -> bool {
        self.decimal == '.' && self.thousands.is_none()
    }

    fn mark(&self) -> char {
        self.thousands.unwrap_or(self.decimal)
    }
}

/// The plainest way to read all of the numbers.
fn marks(numbers: &[&str]) -> Option<Marks> {
    const WAYS: [(char, Option<char>); 7] = [
        ('.', None),
        ('.', Some(',')),
        (',', None),
        (',', Some('.')),
        ('.', Some(' ')),
        (',', Some(' ')),
        ('.', Some('\'')),
    ];
    let read = |(decimal, thousands): (char, Option<char>)| -> Option<Vec<String>> {
        let form = NumberForm { decimal, thousands, ..NumberForm::default() };
        let plain = |number: &&str| Some(form.plain(number)?.into_owned()).filter(|plain| is_number(plain));
        numbers.iter().map(plain).collect()
    };
    let mut ways = WAYS.into_iter().filter_map(|way| Some((way, read(way)?)));
    let ((decimal, thousands), plain) = ways.next()?;
    // Another way with a different meaning: `1,024`. A point is a fraction to every program.
    let is_certain = thousands.is_none() || ways.all(|(_, other)| other == plain);
    Some(Marks { decimal, thousands, is_certain, plain })
}

/// Whether a number has only digits: a count, or seconds since 1970.
pub(super) fn as_count(text: &str) -> Option<u64> {
    text.bytes().all(|byte| byte.is_ascii_digit()).then(|| text.parse().ok()).flatten()
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;

    #[track_caller]
    fn check(texts: &[&str], expected: Option<(&str, Value, Sure)>) {
        let found = guess(texts).map(|guess| (guess.kind, Value::Object(guess.options), guess.sure));
        let expected = expected.map(|(kind, options, sure)| (kind.to_owned(), options, sure));
        assert_eq!(found, expected, "{texts:?}");
    }

    #[test]
    fn marks_round_numbers_are_options() {
        let percent = json!({ "suffix": "%", "description": "In percent." });
        check(&["12 %"], Some(("number", percent.clone(), Sure::Guess)));
        check(&["0%", "34%", "1%", "2%", "-3.5%"], Some(("number", percent, Sure::Sure)));
        let celsius = json!({ "suffix": "°C", "decimal": ",", "description": "In °C." });
        check(&["5,5 °C", "-1 °C"], Some(("number", celsius, Sure::Likely)));
        let dollars = json!({ "prefix": "$", "thousands": ",", "description": "In $." });
        check(&["$ 1,024.00", "$ 5.00"], Some(("number", dollars, Sure::Likely)));
        check(
            &["7 apples", "8 apples"],
            Some(("number", json!({ "suffix": "apples", "description": "In apples." }), Sure::Likely)),
        );
    }

    #[test]
    fn what_may_mean_two_things_is_less_sure() {
        let commas = json!({ "thousands": "," });
        check(&["1,024"], Some(("number", commas.clone(), Sure::Guess)));
        check(&["1,024", "2,048", "17"], Some(("integer", commas.clone(), Sure::Likely)));
        check(&["1,024,000", "5", "6", "7", "8"], Some(("integer", commas, Sure::Sure)));
        check(&["1.234,5", "1"], Some(("number", json!({ "decimal": ",", "thousands": "." }), Sure::Likely)));
    }

    #[test]
    fn codes_and_bare_numbers_are_left_alone() {
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
            check(texts, None);
        }
    }
}
