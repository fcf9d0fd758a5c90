//! "Did you mean …?"

/// Words that people write for ours, from other proxies and from the protocol itself.
const SYNONYMS: &[(&str, &str)] = &[
    ("address", "listen"),
    ("address", "url"),
    ("annotation", "annotations"),
    ("args", "input"),
    ("arguments", "input"),
    ("backend", "upstream"),
    ("backends", "upstreams"),
    ("base_url", "url"),
    ("bind", "listen"),
    ("bool", "boolean"),
    ("comments", "comment"),
    ("condition", "when"),
    ("continuation", "indented"),
    ("decimal", "number"),
    ("double", "number"),
    ("endpoint", "rest"),
    ("expected", "expect"),
    ("extractor", "extract"),
    ("float", "number"),
    ("host", "listen"),
    ("host", "url"),
    ("if", "when"),
    ("inputSchema", "input"),
    ("input_schema", "input"),
    ("int", "integer"),
    ("match", "when"),
    ("max_body", "body_limit"),
    ("max_in_flight", "in_flight"),
    ("message", "error"),
    ("mimeType", "media_type"),
    ("mime_type", "media_type"),
    ("nested", "indented"),
    ("nesting", "indented"),
    ("on_miss", "otherwise"),
    ("outputSchema", "output"),
    ("output_schema", "output"),
    ("parameters", "input"),
    ("params", "query"),
    ("port", "listen"),
    ("proxy", "passthrough"),
    ("quotes", "unquote"),
    ("replies", "reply"),
    ("response", "reply"),
    ("responses", "reply"),
    ("rules", "reply"),
    ("separator", "block_separator"),
    ("services", "upstreams"),
    ("status_code", "status"),
    ("str", "string"),
    ("structuredContent", "structured"),
    ("structured_content", "structured"),
    ("summary", "title"),
    ("target", "upstream"),
    ("target", "url"),
    ("text", "string"),
    ("timeout", "deadline"),
    ("tools", "routes"),
    ("type", "content_type"),
    ("uri", "url"),
    ("verb", "method"),
];

/// The candidate that was probably meant by `found`.
pub(super) fn nearest<'a>(found: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let candidates: Vec<&str> = candidates.into_iter().collect();
    let plain = |text: &str| text.to_ascii_lowercase().replace(['-', ' '], "_");
    let wanted = plain(found);
    let synonym =
        |candidate: &str| SYNONYMS.iter().any(|(said, meant)| plain(said) == wanted && *meant == candidate);
    if let Some(same) = candidates.iter().find(|candidate| plain(candidate) == wanted || synonym(candidate)) {
        return Some(same);
    }
    let most = (found.chars().count() / 3).max(1);
    candidates
        .iter()
        .map(|candidate| (strsim::damerau_levenshtein(&wanted, &plain(candidate)), *candidate))
        .filter(|(distance, candidate)| *distance <= most && *distance < candidate.chars().count())
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, candidate)| candidate)
}

/// A `help:` for a word that is not one of `candidates`: the nearest, or all of them. `what` is their plural.
pub(super) fn help<'a>(
    found: &str,
    what: &str,
    candidates: impl IntoIterator<Item = &'a str> + Clone,
) -> Option<String> {
    if let Some(nearest) = nearest(found, candidates.clone()) {
        return Some(format!("did you mean `{nearest}`?"));
    }
    let listed = listed(candidates);
    (!listed.is_empty()).then(|| format!("{what}: {listed}"))
}

/// Names in backticks; not all of very many.
pub(super) fn listed<'a>(names: impl IntoIterator<Item = &'a str>) -> String {
    const MOST_LISTED: usize = 20;
    let mut names: Vec<_> = names.into_iter().map(|name| format!("`{name}`")).collect();
    let more = names.len().saturating_sub(MOST_LISTED);
    names.truncate(MOST_LISTED);
    let listed = names.join(", ");
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
        check("timeout", &["deadline", "reply"], Some("deadline"));
        check("inputSchema", &["input", "output"], Some("input"));
    }

    #[test]
    fn a_stranger_is_not_taken_for_somebody() {
        check("colour", &["listen", "drain"], None);
        check("x", &["y"], None);
        assert_eq!(
            help("colour", "known keys", ["listen", "drain"]),
            Some("known keys: `listen`, `drain`".to_owned())
        );
    }
}
