//! Suggestions for unknown names: "did you mean …?"

/// Synonyms from other proxies and from the MCP specification, after the name of glossator.
const SYNONYMS: &[(&str, &[&str])] = &[
    ("admin", &["management", "metrics", "prometheus"]),
    ("allowed_hosts", &["hosts", "server_name", "server_names"]),
    ("allowed_origins", &["allow_origins", "allowed_origin", "cors", "cors_origins", "origins"]),
    ("annotations", &["annotation"]),
    ("api_key_hashes", &["api_key", "api_keys"]),
    ("args", &["arguments", "input"]),
    ("bearer", &["token"]),
    ("block_separator", &["separator"]),
    ("body", &["data", "form", "json", "payload"]),
    ("body_limit", &["client_max_body_size", "max_body", "max_body_size"]),
    ("boolean", &["bool"]),
    ("ca", &["ca_file"]),
    ("certificate", &["cert", "cert_file"]),
    ("command", &["cmd", "exec", "run"]),
    ("comment", &["comments"]),
    ("connect_timeout", &["proxy_connect_timeout"]),
    ("consecutive_failures", &["failure_threshold", "max_failures", "threshold"]),
    ("content", &["template"]),
    ("content_type", &["type"]),
    ("cwd", &["workdir", "working_dir", "working_directory"]),
    ("date-time", &["timestamp"]),
    ("delimiter", &["sep", "separator"]),
    ("env", &["env_vars"]),
    ("error", &["message"]),
    ("expect", &["expected", "output"]),
    ("extract", &["extractor"]),
    ("format", &["log_format"]),
    ("headers", &["header", "proxy_set_header"]),
    ("indented", &["continuation", "nested", "nesting"]),
    ("input", &["args", "arguments", "input_schema", "inputSchema", "parameters"]),
    ("integer", &["int"]),
    ("isError", &["error", "is_error"]),
    ("iso", &["iso8601", "rfc3339"]),
    ("keepalive_timeout", &["idle_timeout"]),
    ("key", &["key_file"]),
    ("level", &["log_level"]),
    ("listen", &["address", "bind", "host", "port"]),
    ("log", &["logging"]),
    ("max_attempts", &["max_retries", "num_retries"]),
    ("max_connections", &["connection_limit"]),
    ("max_in_flight", &["concurrency", "max_concurrency"]),
    ("media_type", &["mime_type", "mimeType"]),
    ("method", &["verb"]),
    ("number", &["decimal", "double", "float"]),
    ("on_no_match", &["on_miss"]),
    ("open_for", &["reset_timeout", "timeout"]),
    ("output", &["output_schema", "outputSchema"]),
    ("passthrough", &["default_backend", "fallback", "proxy"]),
    ("query", &["params"]),
    ("rate_limit", &["rate_limits"]),
    ("response", &["replies", "responses", "rules"]),
    ("rest", &["endpoint"]),
    ("retry", &["retries"]),
    ("routes", &["paths", "tools", "virtual_hosts"]),
    ("server", &["listeners"]),
    ("server_name", &["sni"]),
    ("shutdown_timeout", &["grace_period"]),
    ("status", &["http_status", "status_code", "statusCode"]),
    ("string", &["str", "text"]),
    ("structured", &["filter", "jq", "structured_content", "structuredContent"]),
    ("structuredContent", &["structured"]),
    ("tests", &["example", "examples"]),
    ("timeout", &["proxy_read_timeout", "read_timeout", "request_timeout"]),
    ("title", &["summary"]),
    ("tls", &["ssl", "ssl_certificate"]),
    ("unix", &["epoch", "timestamp"]),
    ("unix-ms", &["epoch_ms"]),
    ("unquote", &["quotes"]),
    ("upstream", &["backend", "target"]),
    ("upstreams", &["backends", "clusters", "mcp_servers", "mcpServers", "services"]),
    ("url", &["address", "base_url", "host", "proxy_pass", "target", "uri"]),
    ("version", &["api_version", "apiVersion", "config_version", "schema_version"]),
    ("when", &["condition", "if", "match"]),
];

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
    let synonyms = |candidate: &str| SYNONYMS.iter().find(|(meant, _)| *meant == candidate);
    let is_meant = |candidate: &&str| {
        let synonyms = synonyms(candidate).map_or(&[][..], |(_, synonyms)| synonyms);
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
        .map(|candidate| (edit_distance(&found_word, &normalized(candidate)), candidate))
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
