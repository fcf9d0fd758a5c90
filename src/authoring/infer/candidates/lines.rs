//! Lines of a known form: metrics, form fields, keys with values.

use super::{Candidate, full_lines};
use regex::Regex;
use serde_json::json;
use std::sync::LazyLock;

static SAMPLE: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(r#"^[A-Za-z_:][A-Za-z0-9_:]*(\{[^}]*\})?\s+[-+0-9.eEInfNa]+(\s+[0-9.]+)?$"#)
        .expect("a good pattern")
});
static FORM: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(r"^[A-Za-z0-9._~%+\-\[\]]+=[^\s&]*(&[A-Za-z0-9._~%+\-\[\]]+=[^\s&]*)*$")
        .expect("a good pattern")
});

/// Prometheus' text.
pub(super) fn metrics(texts: &[&str]) -> Option<Candidate> {
    let is_one = |text: &&str| {
        let told = full_lines(text).any(|line| line.starts_with("# TYPE ") || line.contains('{'));
        told && full_lines(text).all(|line| line.starts_with('#') || SAMPLE.is_match(line.trim()))
    };
    texts
        .iter()
        .all(is_one)
        .then(|| Candidate::strict(json!("metrics"), "every line is a sample of a metric, or tells of one"))
}

/// `a=1&b=2`.
pub(super) fn form(texts: &[&str], media_type: &str) -> Option<Candidate> {
    let named = media_type == "application/x-www-form-urlencoded";
    let is_one = |text: &&str| FORM.is_match(text.trim()) && (named || text.contains('&'));
    texts
        .iter()
        .all(is_one)
        .then(|| Candidate::strict(json!("form"), "every sample is `name=value&…` in one line"))
}

/// Lines of key and value.
pub(super) fn pairs(texts: &[&str]) -> Vec<Candidate> {
    let mut found = Vec::new();
    for separator in [":", "=", "\t", " => ", " -> ", " - ", "|", ";"] {
        let share = texts.iter().map(|text| share(text, separator)).fold(1.0, f64::min);
        if share < 0.5 {
            continue;
        }
        let extract = match separator {
            ":" => json!("pairs"),
            _ => json!({ "pairs": { "separator": separator } }),
        };
        let shown = if separator == "\t" { "a tab".to_owned() } else { format!("`{separator}`") };
        let why = format!("{:.0} % of the lines or more are a key, {shown} and a value", share * 100.0);
        let indented = texts.iter().any(|text| has_nesting(text, separator));
        if indented {
            let nested = json!({ "pairs": { "separator": separator, "indented": "nested" } });
            found.push(Candidate::likely(nested, format!("{why}; some are indented below others")));
        }
        found.push(Candidate::likely(extract, why));
    }
    found
}

/// How many of the lines have a key before the separator that looks like one, from 0 to 1.
fn share(text: &str, separator: &str) -> f64 {
    let (mut all, mut good) = (0_usize, 0_usize);
    let mut keys = std::collections::HashSet::new();
    for line in full_lines(text) {
        all += 1;
        let Some((key, _)) = line.split_once(separator) else { continue };
        let key = key.trim();
        let is_key = !key.is_empty()
            && key.chars().count() <= 60
            && key.split_whitespace().count() <= 6
            && key.contains(|c: char| c.is_alphabetic())
            && !has_clock(key)
            && !key.contains(['<', '>', '{', '}', '[', ']', '"', '&', '?', '=', ',', ';', '|']);
        if is_key {
            keys.insert(key);
            good += 1;
        }
    }
    // Keys that come again and again are the first column of a table.
    if all == 0 || keys.len() * 2 < good { 0.0 } else { good as f64 / all as f64 }
}

/// Whether a text has a time in it, as lines of a log begin with: `09:30`.
fn has_clock(text: &str) -> bool {
    let is_time = |five: &[u8]| {
        let digits = [five[0], five[1], five[3], five[4]];
        five[2] == b':' && digits.iter().all(u8::is_ascii_digit)
    };
    text.as_bytes().windows(5).any(is_time)
}

/// Whether a line with a key and no value has indented lines below it.
fn has_nesting(text: &str, separator: &str) -> bool {
    let lines: Vec<&str> = full_lines(text).collect();
    lines.windows(2).any(|two| {
        let indent = |line: &str| line.len() - line.trim_start().len();
        indent(two[1]) > indent(two[0])
            && two[0].split_once(separator).is_some_and(|(_, value)| value.trim().is_empty())
            && two[1].contains(separator)
    })
}
