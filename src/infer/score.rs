//! How good a reader is: how much of every sample is in what it found.

use std::{collections::HashSet, sync::LazyLock};

use regex::Regex;
use serde_json::Value;

use super::{Reader, candidates::Candidate};

/// How much of the words of each text is in the value that was made of it; the least of all samples, from 0 to 1.
/// Words are runs of letters and digits, so that marks and white space do not count; nor does the markup of HTML and XML.
pub(super) fn explained(candidate: &Candidate, values: &[Value], texts: &Option<Vec<String>>) -> f64 {
    let is_markup = candidate.of().is_some() || matches!(candidate.name(), "html" | "xml");
    let Some(texts) = texts else { return 0.0 };
    let of_one = |(value, text): (&Value, &String)| {
        let mut found = HashSet::new();
        collect(value, &mut found);
        let (mut all, mut known) = (0_usize, 0_usize);
        let mut count = |part: &str| {
            for word in words(part) {
                all += word.len();
                known += if found.contains(word) { word.len() } else { 0 };
            }
        };
        if is_markup {
            between_tags(text).for_each(&mut count)
        } else {
            count(text)
        }
        match all {
            // All that such a document says is in its attributes, or it says nothing.
            0 if is_markup => 1.0,
            0 => 0.0,
            _ => known as f64 / all as f64,
        }
    };
    values.iter().zip(texts).map(of_one).fold(1.0, f64::min)
}

fn words(text: &str) -> impl Iterator<Item = &str> {
    text.split(|c: char| !c.is_alphanumeric()).filter(|word| !word.is_empty())
}

/// The text of a document of HTML or XML in its pieces: without tags, comments, scripts, style sheets and the names of
/// characters (`&nbsp;`). Roughly so, since it only says how much is read.
fn between_tags(document: &str) -> impl Iterator<Item = &str> {
    static MARKUP: LazyLock<Regex> = LazyLock::new(|| {
        Regex::new(
            r"(?is)<!\[CDATA\[|\]\]>|<!--.*?-->|<script\b.*?</script\s*>|<style\b.*?</style\s*>|<[a-z/!?][^>]*>|&#?\w{1,32};",
        )
        .expect("a good pattern")
    });
    MARKUP.split(document)
}

fn collect(value: &Value, found: &mut HashSet<String>) {
    match value {
        Value::Null => {}
        Value::Bool(flag) => found.extend([flag.to_string()]),
        Value::Number(number) => found.extend(words(&number.to_string()).map(str::to_owned)),
        Value::String(text) => found.extend(words(text).map(str::to_owned)),
        Value::Array(items) => items.iter().for_each(|item| collect(item, found)),
        Value::Object(members) => {
            for (name, value) in members {
                found.extend(words(name).map(str::to_owned));
                collect(value, found);
            }
        }
    }
}

/// Less than this is read by chance.
pub(super) const LEAST_EXPLAINED: f64 = 0.5;

/// Sorts the readers: those that their media type names or whose form can't be met by chance first (JSON, XML, …), then
/// by how much they explain, in steps of a tenth; ties by the order in which the candidates are named, from the stricter
/// to the laxer form. Readers of less than half of a text
/// are dropped. Patterns that name their parts by places come after all others, and the whole text comes last.
pub(super) fn rank(readers: &mut Vec<Reader>) {
    readers.retain(|reader| {
        let candidate = &reader.candidate;
        candidate.is_last_resort
            || candidate.is_strict
            || candidate.is_weak
            || reader.explained >= LEAST_EXPLAINED
    });
    let tenth = |reader: &Reader| (reader.explained * 10.0).round() as i64;
    // The sort is stable: equals stay in the order of the candidates.
    readers.sort_by_key(|reader| {
        let c = &reader.candidate;
        (c.is_last_resort, c.is_weak, !c.is_strict, std::cmp::Reverse(tenth(reader)))
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn markup_is_no_words() {
        let document = "<!DOCTYPE html><style>p { a: b }</style><P class=x>one&nbsp;two<!-- no > --><br/>3 < 4 \
                        <![CDATA[five]]><script>if (a < b) {}</script>";
        let found: Vec<&str> = between_tags(document).flat_map(words).collect();
        assert_eq!(found, ["one", "two", "3", "4", "five"]);
    }
}
