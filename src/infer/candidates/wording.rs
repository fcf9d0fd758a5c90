//! What the patterns that are proposed share: captures, and the words that name them.

/// Words that name nothing.
const SMALL_WORDS: [&str; 16] =
    ["is", "are", "was", "were", "with", "and", "of", "at", "in", "on", "to", "the", "for", "by", "a", "="];
/// Marks round a number, such as `50%`, `[10` or `5,`.
const MARKS: [char; 14] = ['%', '[', ']', '(', ')', ',', ';', ':', '"', '\'', '°', '$', '€', '!'];

/// Whether a word may name what stands beside it.
pub(super) fn tells(word: &str) -> bool {
    word.contains(char::is_alphanumeric) && !SMALL_WORDS.contains(&word.to_lowercase().as_str())
}

/// Names of captures are letters, digits and `_`.
pub(super) fn is_capture_name(name: &str) -> bool {
    name.starts_with(|c: char| c.is_ascii_alphabetic())
        && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
}

/// The group of this name for words that stand in the same place: numbers where all are, with the marks round them
/// outside of it where they are the same, else whatever is no white space.
pub(super) fn capture<'t>(name: &str, words: impl Iterator<Item = &'t str> + Clone) -> String {
    let Some(first) = words.clone().next() else { return String::new() };
    let marks = marks_of(first);
    let same_marks = words.clone().all(|other| marks_of(other) == marks);
    if words.clone().all(is_number) && same_marks {
        format!("{}(?<{name}>[-+]?[0-9.]+){}", regex::escape(marks.0), regex::escape(marks.1))
    } else {
        format!(r"(?<{name}>\S+)")
    }
}

/// Whether a word is a number, marks round it aside.
pub(super) fn is_number(word: &str) -> bool {
    word.trim_matches(MARKS).parse::<f64>().is_ok_and(f64::is_finite)
        && word.contains(|c: char| c.is_ascii_digit())
}

fn marks_of(word: &str) -> (&str, &str) {
    let start = word.len() - word.trim_start_matches(MARKS).len();
    let end = word.trim_end_matches(MARKS).len().max(start);
    (&word[..start], &word[end..])
}
