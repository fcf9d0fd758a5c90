//! Suggestions for unknown names: "did you mean …?"

use std::{collections::HashMap, sync::LazyLock};

use strsim::damerau_levenshtein;

/// Synonyms from other proxies and from the MCP specification, by the name of glossator.
static SYNONYMS: LazyLock<HashMap<&str, Vec<&str>>> = LazyLock::new(|| {
    let lines = include_str!("synonyms.txt").lines().filter_map(|line| line.split_once(": "));
    lines.map(|(meant, synonyms)| (meant, synonyms.split(' ').collect())).collect()
});

/// Normalizes a word for comparison: lower case, with `_` in place of `-` and spaces.
fn normalized(text: &str) -> String {
    text.replace(['-', ' '], "_").to_ascii_lowercase()
}

fn is_same(one: &str, other: &str) -> bool {
    one.len() == other.len() && normalized(one) == normalized(other)
}

/// Candidate that differs from `found` in case or separators only, or is a synonym of it.
pub(crate) fn same_or_synonym<'a>(
    found: &str,
    candidates: impl IntoIterator<Item = &'a str>,
) -> Option<&'a str> {
    let is_meant = |candidate: &&str| {
        let synonyms = SYNONYMS.get(candidate).into_iter().flatten();
        std::iter::once(candidate).chain(synonyms).any(|word| is_same(word, found))
    };
    candidates.into_iter().find(is_meant)
}

/// Candidate that is closest to `found`: a synonym, or a word within a small edit distance.
pub(crate) fn nearest<'a>(found: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let candidates: Vec<&str> = candidates.into_iter().collect();
    if let Some(same) = same_or_synonym(found, candidates.iter().copied()) {
        return Some(same);
    }
    let length = |text: &str| text.chars().count();
    let most = (length(found) / 3).max(1);
    let found_word = normalized(found);
    candidates
        .into_iter()
        // Every key of a configuration is compared with several words; a difference in length rules most of
        // them out.
        .filter(|candidate| length(candidate).abs_diff(length(found)) <= most)
        .map(|candidate| (damerau_levenshtein(&found_word, &normalized(candidate)), candidate))
        .filter(|(distance, candidate)| *distance <= most && *distance < length(candidate))
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, candidate)| candidate)
}

/// Help for a word that is not one of `candidates`: the nearest one, or a list of all. `what` introduces the
/// list.
pub(crate) fn help<'a>(
    found: &str,
    what: &str,
    candidates: impl IntoIterator<Item = &'a str> + Clone,
) -> Option<String> {
    if let Some(nearest) = nearest(found, candidates.clone()) {
        return Some(format!("did you mean `{nearest}`?"));
    }
    let listed = quoted_list(candidates);
    (!listed.is_empty()).then(|| format!("{what}: {listed}"))
}

/// Help for a name of another program, in the section with this identifier. A row for any name is only for
/// names that are not like one of `known`.
pub(crate) fn foreign(
    section: &str,
    name: &str,
    known: impl IntoIterator<Item = &'static str>,
) -> Option<String> {
    let is_like_known = nearest(name, known).is_some();
    include_str!("foreign.txt").lines().find_map(|line| {
        let (names, help) = line.split_once(" -> ")?;
        let (sections, words) = names.split_once(' ')?;
        let begins = |word: &str| word.strip_suffix('*').is_some_and(|start| name.starts_with(start));
        let is_match = |word: &str| is_same(word, name) || begins(word) && !(word == "*" && is_like_known);
        let is_here = sections.split(',').any(|id| id == section);
        (is_here && words.split(' ').any(is_match)).then(|| help.replace("<key>", name))
    })
}

/// A value in a message: in backticks, or in words if nothing would be between them.
pub(crate) fn quoted(text: &str) -> String {
    if text.is_empty() { "an empty string".to_owned() } else { format!("`{text}`") }
}

/// Joins names in backticks, at most 20 of them.
pub(crate) fn quoted_list(names: impl IntoIterator<Item: AsRef<str>>) -> String {
    const MAX_LISTED: usize = 20;
    let mut names = names.into_iter();
    let listed: Vec<_> = names.by_ref().take(MAX_LISTED).map(|name| quoted(name.as_ref())).collect();
    let (listed, more) = (listed.join(", "), names.count());
    if more > 0 { format!("{listed} and {more} more") } else { listed }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(found: &str, candidates: &[&str], expected: Option<&str>) {
        assert_eq!(nearest(found, candidates.iter().copied()), expected);
    }

    #[test]
    fn slips_other_spellings_and_other_words_are_recognised() {
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
