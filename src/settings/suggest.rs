//! Suggestions for unknown names: "did you mean …?"

use std::{collections::HashMap, sync::LazyLock};

use strsim::damerau_levenshtein;

/// Synonyms from other proxies and from the MCP specification, by glossator's name for the same thing.
static SYNONYMS: LazyLock<HashMap<&str, Vec<&str>>> = LazyLock::new(|| {
    let lines = include_str!("synonyms.txt").lines().filter_map(|line| line.split_once(": "));
    lines.map(|(name, synonyms)| (name, synonyms.split(' ').collect())).collect()
});

/// Normalizes a name for comparison: lower case, with `_` in place of `-` and spaces.
fn normalized(text: &str) -> String {
    text.replace(['-', ' '], "_").to_ascii_lowercase()
}

fn is_same(one: &str, other: &str) -> bool {
    one.len() == other.len() && normalized(one) == normalized(other)
}

/// Returns a candidate that differs from `name` only in case or separators, or that has `name` as a
/// synonym.
pub(crate) fn same_or_synonym<'a>(
    name: &str,
    candidates: impl IntoIterator<Item = &'a str>,
) -> Option<&'a str> {
    let is_match = |candidate: &&str| {
        let synonyms = SYNONYMS.get(candidate).into_iter().flatten();
        std::iter::once(candidate).chain(synonyms).any(|word| is_same(word, name))
    };
    candidates.into_iter().find(is_match)
}

/// Returns the candidate closest to `name`: a synonym, or the candidate with the smallest edit distance.
pub(crate) fn nearest<'a>(name: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let candidates: Vec<&str> = candidates.into_iter().collect();
    if let Some(same) = same_or_synonym(name, candidates.iter().copied()) {
        return Some(same);
    }
    let length = |text: &str| text.chars().count();
    let max_distance = (length(name) / 3).max(1);
    let normalized_name = normalized(name);
    candidates
        .into_iter()
        // The length is compared first, because it rules out most words cheaply: every key of a configuration
        // is compared with several words.
        .filter(|candidate| length(candidate).abs_diff(length(name)) <= max_distance)
        .map(|candidate| (damerau_levenshtein(&normalized_name, &normalized(candidate)), candidate))
        .filter(|(distance, candidate)| *distance <= max_distance && *distance < length(candidate))
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, candidate)| candidate)
}

/// Help for a name that is not one of `candidates`: the nearest candidate, or a list of all, introduced by
/// `intro`.
pub(crate) fn help<'a>(
    name: &str,
    intro: &str,
    candidates: impl IntoIterator<Item = &'a str> + Clone,
) -> Option<String> {
    if let Some(nearest) = nearest(name, candidates.clone()) {
        return Some(format!("did you mean `{nearest}`?"));
    }
    let names = quoted_list(candidates);
    (!names.is_empty()).then(|| format!("{intro}: {names}"))
}

/// Help for a key name of another program, in the section with the id `section`. A line of `foreign.txt` with
/// the name `*`, which matches every name, applies only if `name` does not resemble one of `known_names`.
pub(crate) fn foreign(
    section: &str,
    name: &str,
    known_names: impl IntoIterator<Item = &'static str>,
) -> Option<String> {
    let is_like_known = nearest(name, known_names).is_some();
    include_str!("foreign.txt").lines().find_map(|line| {
        let (names, help) = line.split_once(" -> ")?;
        let (sections, words) = names.split_once(' ')?;
        let has_prefix = |word: &str| word.strip_suffix('*').is_some_and(|start| name.starts_with(start));
        let is_match =
            |word: &str| is_same(word, name) || has_prefix(word) && !(word == "*" && is_like_known);
        let is_in_section = sections.split(',').any(|id| id == section);
        (is_in_section && words.split(' ').any(is_match)).then(|| help.replace("<key>", name))
    })
}

/// Quotes a value for a message: in backticks, or the words "an empty string".
pub(crate) fn quoted(text: &str) -> String {
    if text.is_empty() { "an empty string".to_owned() } else { format!("`{text}`") }
}

/// Lists names in backticks, at most 20 of them.
pub(crate) fn quoted_list(names: impl IntoIterator<Item: AsRef<str>>) -> String {
    const MAX_LISTED: usize = 20;
    let mut names = names.into_iter();
    let quoted_names: Vec<_> = names.by_ref().take(MAX_LISTED).map(|name| quoted(name.as_ref())).collect();
    let (list, omitted) = (quoted_names.join(", "), names.count());
    if omitted > 0 { format!("{list} and {omitted} more") } else { list }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(name: &str, candidates: &[&str], expected: Option<&str>) {
        assert_eq!(nearest(name, candidates.iter().copied()), expected);
    }

    #[test]
    fn typos_other_spellings_and_synonyms_are_recognized() {
        check("upstrems", &["upstreams", "routes"], Some("upstreams"));
        check("body-limit", &["body_limit", "listen"], Some("body_limit"));
        check("bodyLimit", &["body_limit", "listen"], Some("body_limit"));
        check("max_concurrency", &["max_in_flight", "response"], Some("max_in_flight"));
        check("inputSchema", &["input", "output"], Some("input"));
    }

    #[test]
    fn an_unrelated_word_gets_no_suggestion() {
        check("colour", &["listen", "shutdown_timeout"], None);
        check("x", &["y"], None);
        assert_eq!([quoted("x"), quoted("")], ["`x`", "an empty string"]);
        assert_eq!(
            help("colour", "known keys", ["listen", "shutdown_timeout"]),
            Some("known keys: `listen`, `shutdown_timeout`".to_owned())
        );
    }
}
