//! The last that has structure: lines of the same words, of which some differ.

use serde_json::json;

use super::{
    super::types::slug,
    Candidate, full_lines,
    wording::{capture, is_capture_name, tells},
};

/// More words than that make no pattern that somebody reads.
const MOST_WORDS: usize = 20;

pub(super) fn candidates(texts: &[&str]) -> Vec<Candidate> {
    let lines: Vec<Vec<&str>> = texts
        .iter()
        .flat_map(|text| full_lines(text))
        .take(10_000)
        .map(|line| line.split_whitespace().collect())
        .collect();
    let Some(first) = lines.first() else { return Vec::new() };
    let width = first.len();
    if width > MOST_WORDS || lines.iter().any(|line| line.len() != width) {
        return Vec::new();
    }
    let is_single = texts.iter().all(|text| full_lines(text).count() == 1);
    let Some(pattern) = pattern(&lines, is_single) else { return Vec::new() };
    let extract = match is_single {
        true => json!({ "regex": { "pattern": pattern } }),
        false => json!({ "regex": { "pattern": pattern, "each": "line" } }),
    };
    let why = match is_single {
        true => format!("every sample is one line of {width} word{}", if width == 1 { "" } else { "s" }),
        false => format!("all {} lines have {width} words", lines.len()),
    };
    vec![Candidate { is_weak: true, ..Candidate::likely(extract, why) }]
}

/// Words that are the same in every line stay; the others are captured, and named by the word before them.
fn pattern(lines: &[Vec<&str>], is_single: bool) -> Option<String> {
    let first = lines.first()?;
    let mut names: Vec<String> = Vec::new();
    let mut parts = Vec::new();
    let is_constant = |index: usize| {
        let word = first[index];
        let same = lines.iter().all(|line| line[index] == word);
        same && !word.contains(|c: char| c.is_ascii_digit()) && first.len() > 1
    };
    // What names a value: the word before it, else the word after it, else one further before.
    let telling = |index: usize| is_constant(index) && tells(first[index]);
    let label = |index: usize| {
        let before = (0..index).rev().take_while(|other| is_constant(*other));
        let near = index.checked_sub(1).filter(|other| telling(*other));
        let after = Some(index + 1).filter(|other| *other < first.len() && telling(*other));
        near.or(after)
            .or_else(|| before.into_iter().find(|other| telling(*other)))
            .map(|other| slug(first[other]))
    };
    for (index, word) in first.iter().enumerate() {
        if is_constant(index) {
            parts.push(regex::escape(word));
            continue;
        }
        let name = match label(index).filter(|name| !names.contains(name) && is_capture_name(name)) {
            Some(name) => name,
            None if first.len() == 1 => "value".to_owned(),
            None => format!("value{}", index + 1),
        };
        let captured = capture(&name, lines.iter().map(|line| line[index]));
        names.push(name);
        parts.push(captured);
    }
    if names.is_empty()
        || (is_single
            && lines.len() == 1
            && !first.iter().any(|word| word.contains(|c: char| c.is_ascii_digit())))
    {
        return None;
    }
    Some(format!(r"^\s*{}\s*$", parts.join(r"\s+")))
}
