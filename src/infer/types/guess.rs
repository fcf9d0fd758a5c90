//! What the texts of one field are.

use std::sync::LazyLock;

use regex::Regex;
use serde_json::{Map, json};

use super::{numbers, times};
use crate::infer::Sure;

/// Which types fields may have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Words {
    /// All that there are.
    All,
    /// Those of JSON.
    Plain,
}

/// What a list of texts is.
#[derive(Debug)]
pub(super) struct Guess {
    /// The type's word.
    pub(super) kind: String,
    /// What stands beside the type.
    pub(super) options: Map<String, serde_json::Value>,
    /// How sure.
    pub(super) sure: Sure,
    /// Why.
    pub(super) why: String,
}

static NUMBER: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(r"^[-+]?([0-9]+(\.[0-9]+)?|\.[0-9]+)([eE][-+]?[0-9]+)?$").expect("a good pattern")
});
/// Zip codes, telephone numbers and the like, whose zeros would be lost.
static LEADING_ZERO: LazyLock<Regex> = LazyLock::new(|| Regex::new(r"^[-+]?0[0-9]").expect("a good pattern"));

/// So many whole numbers make a type of them.
pub(super) const LEAST_WHOLE: usize = 3;
/// Pairs of words for true and false.
const FLAGS: [[&str; 2]; 5] =
    [["true", "false"], ["yes", "no"], ["on", "off"], ["enabled", "disabled"], ["y", "n"]];
/// Words that stand for nothing, ASCII case aside.
const NOTHING: [&str; 9] = ["-", "--", "N/A", "NA", "n.a.", "null", "none", "nil", "?"];

pub(super) fn is_number(text: &str) -> bool {
    NUMBER.is_match(text) && !LEADING_ZERO.is_match(text)
}

pub(super) fn is_whole(text: &str) -> bool {
    is_number(text) && !text.contains(['.', 'e', 'E'])
}

/// How sure so many texts of the same form make one.
pub(super) fn sureness(count: usize) -> Sure {
    match count {
        0 | 1 => Sure::Guess,
        2..5 => Sure::Likely,
        _ => Sure::Sure,
    }
}

/// What the texts of the field of this name are.
pub(super) fn guess(name: &str, texts: &[&str], words: Words) -> Guess {
    let all: Vec<&str> = texts.iter().map(|text| text.trim()).filter(|text| !text.is_empty()).collect();
    let is_nothing = |text: &str| NOTHING.iter().any(|word| word.eq_ignore_ascii_case(text));
    // As they are written here; each once.
    let mut nothing: Vec<&str> = Vec::new();
    for text in all.iter().copied().filter(|text| is_nothing(text)) {
        if !nothing.iter().any(|word| word.eq_ignore_ascii_case(text)) {
            nothing.push(text);
        }
    }
    let telling: Vec<&str> = all.iter().copied().filter(|text| !is_nothing(text)).collect();
    let mut guess = number(name, &telling, words)
        .or_else(|| flag(&telling))
        .or_else(|| if words == Words::All { rich(name, &telling) } else { None })
        .unwrap_or_else(|| text(&telling));
    if guess.kind != "string" && !nothing.is_empty() {
        if words == Words::Plain {
            // There is no number for `-`.
            let why = format!("numbers, and {}", listed(&nothing));
            return Guess { kind: "string".into(), options: Map::new(), why, ..guess };
        }
        guess.options.insert("null".into(), json!(nothing));
        guess.why += &format!("; {} stands for nothing", listed(&nothing));
    }
    guess
}

/// Bare numbers.
fn number(name: &str, texts: &[&str], words: Words) -> Option<Guess> {
    let count = texts.len();
    if count == 0 || !texts.iter().all(|text| is_number(text)) {
        return None;
    }
    let counted: Option<Vec<u64>> = texts.iter().map(|text| numbers::as_count(text)).collect();
    if words == Words::All
        && let Some(time) = counted.and_then(|numbers| times::unix(name, &numbers))
    {
        return Some(time);
    }
    // Of one or two, the next may have a fraction.
    let (kind, what) = match texts.iter().all(|text| is_whole(text)) {
        true if count >= LEAST_WHOLE => ("integer", "whole numbers"),
        true => ("number", "numbers, whole ones so far"),
        false => ("number", "numbers"),
    };
    let why = format!("{count} of {count} are {what}");
    Some(Guess { kind: kind.into(), options: Map::new(), sure: sureness(count), why })
}

/// Words for true and false.
fn flag(texts: &[&str]) -> Option<Guess> {
    let count = texts.len();
    let [yes, no] = FLAGS.into_iter().find(|flags| {
        let among = |text: &&str| flags.iter().any(|flag| flag.eq_ignore_ascii_case(text));
        let both = texts.iter().any(|text| !text.eq_ignore_ascii_case(texts[0]));
        // A letter may be a code, and so may `NO` and `ON`: Norway, Ontario.
        let may_be_code = |text: &&str| text.len() <= 2 && !text.contains(|c: char| c.is_ascii_lowercase());
        count > 0
            && texts.iter().all(among)
            && (both || (flags[0].len() > 1 && !texts.iter().all(may_be_code)))
    })?;
    let mut options = Map::new();
    if yes != "true" {
        options.insert("true".into(), json!([yes]));
        options.insert("false".into(), json!([no]));
    }
    let why = format!("{count} of {count} are `{yes}` or `{no}`");
    Some(Guess { kind: "boolean".into(), options, sure: sureness(count), why })
}

/// Types that only fields have.
fn rich(name: &str, texts: &[&str]) -> Option<Guess> {
    if texts.is_empty() {
        return None;
    }
    times::date_or_time(texts)
        .or_else(|| times::duration(name, texts))
        .or_else(|| times::size(name, texts))
        .or_else(|| numbers::guess(texts))
}

/// Texts, and how many different ones where they are few.
fn text(texts: &[&str]) -> Guess {
    /// More are no states.
    const MOST_STATES: usize = 4;
    let mut different: Vec<&str> = texts.to_vec();
    different.sort_unstable();
    different.dedup();
    let is_state = |text: &&str| text.len() <= 20 && text.contains(char::is_alphabetic);
    let few = (2..=MOST_STATES).contains(&different.len()) && different.iter().all(is_state);
    let why = match different.len() {
        0 => "always empty".to_owned(),
        // A word that comes for the first time would be an error: that is for somebody to decide who knows them all.
        _ if few && texts.len() >= 8 => {
            format!("a text; only {} so far: where there are no others, `values` says so", listed(&different))
        }
        _ => "a text".to_owned(),
    };
    Guess { kind: "string".into(), options: Map::new(), sure: sureness(texts.len()), why }
}

fn listed(words: &[&str]) -> String {
    words.iter().map(|word| format!("`{word}`")).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(texts: &[&str], kind: &str, sure: Sure) {
        let guess = guess("x", texts, Words::Plain);
        assert_eq!((guess.kind.as_str(), guess.sure), (kind, sure), "{texts:?}: {}", guess.why);
    }

    #[test]
    fn texts_have_the_types_that_all_of_them_have() {
        check(&["1", "2", "3"], "integer", Sure::Likely);
        check(&["1", "2"], "number", Sure::Likely);
        check(&["1", "2.5", "-3", ".5", "1e5"], "number", Sure::Sure);
        check(&["1", "2", "x"], "string", Sure::Likely);
        check(&["0123", "4567", "8901"], "string", Sure::Likely);
        check(&["yes", "No", "yes"], "boolean", Sure::Likely);
        check(&["y", "y", "y"], "string", Sure::Likely);
        check(&["NO", "NO", "NO"], "string", Sure::Likely);
        check(&["up", "down"], "string", Sure::Likely);
        check(&["1", "-", "3"], "string", Sure::Likely);
        check(&["5"], "number", Sure::Guess);
        check(&["", ""], "string", Sure::Guess);
    }

    #[test]
    fn words_for_nothing_are_null() {
        let guess = guess("load", &["12 %", "-", "N/A", "n/a"], Words::All);
        assert_eq!(guess.kind, "number");
        assert_eq!(guess.options["null"], json!(["-", "N/A"]));
    }
}
