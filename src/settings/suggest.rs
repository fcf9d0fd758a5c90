//! Suggestions for unknown names: "did you mean …?"

/// Synonyms from other proxies and from the MCP specification, each with the name of glossator.
const SYNONYMS: &[(&str, &str)] = &[
    ("address", "listen"),
    ("address", "url"),
    ("allow_origins", "allowed_origins"),
    ("allowed_origin", "allowed_origins"),
    ("annotation", "annotations"),
    ("api_key", "api_key_hashes"),
    ("api_keys", "api_key_hashes"),
    ("api_version", "version"),
    ("apiVersion", "version"),
    ("args", "input"),
    ("arguments", "args"),
    ("arguments", "input"),
    ("backend", "upstream"),
    ("backends", "upstreams"),
    ("base_url", "url"),
    ("bind", "listen"),
    ("bool", "boolean"),
    ("ca_file", "ca"),
    ("cert", "certificate"),
    ("cert_file", "certificate"),
    ("client_max_body_size", "body_limit"),
    ("clusters", "upstreams"),
    ("cmd", "command"),
    ("comments", "comment"),
    ("concurrency", "max_in_flight"),
    ("condition", "when"),
    ("config_version", "version"),
    ("connection_limit", "max_connections"),
    ("continuation", "indented"),
    ("cors", "allowed_origins"),
    ("cors_origins", "allowed_origins"),
    ("data", "body"),
    ("decimal", "number"),
    ("default_backend", "passthrough"),
    ("double", "number"),
    ("endpoint", "rest"),
    ("env_vars", "env"),
    ("epoch", "unix"),
    ("epoch_ms", "unix-ms"),
    ("error", "isError"),
    ("example", "tests"),
    ("examples", "tests"),
    ("exec", "command"),
    ("expected", "expect"),
    ("extractor", "extract"),
    ("failure_threshold", "consecutive_failures"),
    ("fallback", "passthrough"),
    ("filter", "structured"),
    ("float", "number"),
    ("form", "body"),
    ("grace_period", "shutdown_timeout"),
    ("header", "headers"),
    ("host", "listen"),
    ("host", "url"),
    ("hosts", "allowed_hosts"),
    ("http_status", "status"),
    ("idle_timeout", "keepalive_timeout"),
    ("if", "when"),
    ("input", "args"),
    ("input_schema", "input"),
    ("inputSchema", "input"),
    ("int", "integer"),
    ("is_error", "isError"),
    ("iso8601", "iso"),
    ("jq", "structured"),
    ("json", "body"),
    ("key_file", "key"),
    ("listeners", "server"),
    ("log_format", "format"),
    ("log_level", "level"),
    ("logging", "log"),
    ("management", "admin"),
    ("match", "when"),
    ("max_body", "body_limit"),
    ("max_body_size", "body_limit"),
    ("max_concurrency", "max_in_flight"),
    ("max_failures", "consecutive_failures"),
    ("max_retries", "max_attempts"),
    ("mcp_servers", "upstreams"),
    ("mcpServers", "upstreams"),
    ("message", "error"),
    ("metrics", "admin"),
    ("mime_type", "media_type"),
    ("mimeType", "media_type"),
    ("nested", "indented"),
    ("nesting", "indented"),
    ("num_retries", "max_attempts"),
    ("on_miss", "on_no_match"),
    ("origins", "allowed_origins"),
    ("output", "expect"),
    ("output_schema", "output"),
    ("outputSchema", "output"),
    ("parameters", "input"),
    ("params", "query"),
    ("paths", "routes"),
    ("payload", "body"),
    ("port", "listen"),
    ("prometheus", "admin"),
    ("proxy", "passthrough"),
    ("proxy_connect_timeout", "connect_timeout"),
    ("proxy_pass", "url"),
    ("proxy_read_timeout", "timeout"),
    ("proxy_set_header", "headers"),
    ("quotes", "unquote"),
    ("rate_limits", "rate_limit"),
    ("read_timeout", "timeout"),
    ("replies", "response"),
    ("request_timeout", "timeout"),
    ("reset_timeout", "open_for"),
    ("responses", "response"),
    ("retries", "retry"),
    ("rfc3339", "iso"),
    ("rules", "response"),
    ("run", "command"),
    ("schema_version", "version"),
    ("sep", "delimiter"),
    ("separator", "block_separator"),
    ("separator", "delimiter"),
    ("server_name", "allowed_hosts"),
    ("server_names", "allowed_hosts"),
    ("services", "upstreams"),
    ("sni", "server_name"),
    ("ssl", "tls"),
    ("ssl_certificate", "tls"),
    ("status_code", "status"),
    ("statusCode", "status"),
    ("str", "string"),
    ("structured", "structuredContent"),
    ("structured_content", "structured"),
    ("structuredContent", "structured"),
    ("summary", "title"),
    ("target", "upstream"),
    ("target", "url"),
    ("template", "content"),
    ("text", "string"),
    ("threshold", "consecutive_failures"),
    ("timeout", "open_for"),
    ("timestamp", "date-time"),
    ("timestamp", "unix"),
    ("token", "bearer"),
    ("tools", "routes"),
    ("type", "content_type"),
    ("uri", "url"),
    ("verb", "method"),
    ("virtual_hosts", "routes"),
    ("workdir", "cwd"),
    ("working_dir", "cwd"),
    ("working_directory", "cwd"),
];

/// Normalizes a word for comparison: lower case, with `_` in place of `-` and spaces.
fn normalized(text: &str) -> impl Iterator<Item = char> {
    text.chars().map(|letter| match letter {
        '-' | ' ' => '_',
        letter => letter.to_ascii_lowercase(),
    })
}

fn is_same(one: &str, other: &str) -> bool {
    one.len() == other.len() && normalized(one).eq(normalized(other))
}

/// Candidate that differs from `found` in case or separators only, or is a synonym of it.
pub(crate) fn same_or_synonym<'a>(
    found: &str,
    candidates: impl IntoIterator<Item = &'a str>,
) -> Option<&'a str> {
    let is_synonym =
        |candidate: &str| SYNONYMS.iter().any(|(said, meant)| *meant == candidate && is_same(said, found));
    candidates.into_iter().find(|candidate| is_same(candidate, found) || is_synonym(candidate))
}

/// Candidate that is closest to `found`: a synonym, or a word within a small edit distance.
pub(crate) fn nearest<'a>(found: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let candidates: Vec<&str> = candidates.into_iter().collect();
    if let Some(same) = same_or_synonym(found, candidates.iter().copied()) {
        return Some(same);
    }
    let length = |text: &str| text.chars().count();
    let most = (length(found) / 3).max(1);
    let distance = |one: &str, other: &str| {
        let [one, other] = [one, other].map(|text| normalized(text).collect::<String>());
        edit_distance(&one, &other)
    };
    candidates
        .into_iter()
        // Every key of a configuration is compared with several words; a difference in length rules most of
        // them out.
        .filter(|candidate| length(candidate).abs_diff(length(found)) <= most)
        .map(|candidate| (distance(found, candidate), candidate))
        .filter(|(distance, candidate)| *distance <= most && *distance < length(candidate))
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, candidate)| candidate)
}

/// Number of letters to insert, delete, replace or swap with the next one, to turn one word into the other.
pub(super) fn edit_distance(one: &str, other: &str) -> usize {
    strsim::damerau_levenshtein(one, other)
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

/// A value in a message: in backticks, or in words if nothing would be between them.
pub(crate) fn quoted(text: &str) -> String {
    if text.is_empty() { "an empty string".to_owned() } else { format!("`{text}`") }
}

/// Joins names in backticks, at most 20 of them.
pub(crate) fn quoted_list<'a>(names: impl IntoIterator<Item = &'a str>) -> String {
    const MAX_LISTED: usize = 20;
    let mut names: Vec<_> = names.into_iter().map(|name| format!("`{name}`")).collect();
    let more = names.len().saturating_sub(MAX_LISTED);
    names.truncate(MAX_LISTED);
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
