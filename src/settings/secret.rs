//! Detection of secrets by the names of their keys, so that no message contains a secret.

use std::{ops::Range, sync::LazyLock};

use regex::Regex;
use strsim::damerau_levenshtein;

use super::{
    expansion::Expanded, fixed_regex, problem_code::Code, problem_collector::Report, source_text::SourceSpan,
};

/// Value that `Debug` does not print, such as a secret or a function.
#[derive(derive_more::Debug, Clone, PartialEq, Eq)]
#[debug("…")]
pub(crate) struct Hidden<T>(pub(crate) T);

/// Warns of a credential that is in the file literally: everyone who can read the file can use it.
pub(crate) fn warn_of_inline(report: &Report<'_>, span: SourceSpan, name: &str, expanded: &Expanded) {
    if !expanded.external && !expanded.text.is_empty() {
        let help = "refer to an environment variable (`${NAME}`) or a file (`file:/path`)";
        warn_of_literal(report, span, name, help);
    }
}

/// Like [`warn_of_inline`], but without a check: the caller knows that the value is literal.
pub(crate) fn warn_of_literal(report: &Report<'_>, span: SourceSpan, name: &str, help: &str) {
    let message = format!("`{name}` is in plain text in the file, readable by everyone who can read it");
    report.warning(Code::SecretInFile.at_span(span), message, help);
}

/// Words that indicate a credential, as a whole name or a part of it.
const NAMES_OF_CREDENTIALS: &str =
    "authorization password secret token apikey cookie credential credentials passphrase";

/// Whether the value of a key with this name is probably a credential. The name may be misspelled.
pub(crate) fn is_secret_name(name: &str) -> bool {
    /// Words that indicate a credential only as the whole last word of a name: `bypass` is not a credential.
    const LAST_WORDS: [&str; 3] = ["pass", "pwd", "sig"];
    const PARTS: [&str; 4] = ["bearer", "passwd", "privatekey", "signature"];
    let last_word = name.rsplit(|c: char| !c.is_ascii_alphanumeric()).next().unwrap_or(name);
    if LAST_WORDS.iter().any(|word| last_word.eq_ignore_ascii_case(word)) {
        return true;
    }
    let normalized: String =
        name.chars().filter(char::is_ascii_alphanumeric).map(|c| c.to_ascii_lowercase()).collect();
    // `maxTokens` is a count; `authorizationServers` and a name that ends with `url` are addresses.
    if matches!(normalized.as_str(), "maxtokens" | "authorizationservers") || normalized.ends_with("url") {
        return false;
    }
    PARTS.into_iter().chain(NAMES_OF_CREDENTIALS.split(' ')).any(|part| normalized.contains(part))
        || ["key", "auth", "assertion"].iter().any(|end| normalized.ends_with(end))
        || has_misspelled_secret(name)
}

/// Whether a word of a name, or two adjacent words, is a likely misspelling of a word for a credential.
fn has_misspelled_secret(name: &str) -> bool {
    let words = words_of(name);
    let pairs = words.windows(2).map(|pair| pair.concat());
    words.iter().cloned().chain(pairs).any(|word| {
        let is_close = |secret: &str| {
            let max_distance = if secret.len() >= 12 { 2 } else { 1 };
            // The first letter is rarely misspelled: "rookie" is not meant as "cookie".
            word.bytes().next() == secret.bytes().next() && damerau_levenshtein(&word, secret) <= max_distance
        };
        // "taken" is one edit away from "token", but is not a misspelling.
        word != "taken" && NAMES_OF_CREDENTIALS.split(' ').any(is_close)
    })
}

/// Splits a name into lower-case words: `refreshTokn` and `refresh-tokn` have two.
fn words_of(name: &str) -> Vec<String> {
    static NEXT_WORD: LazyLock<Regex> = LazyLock::new(|| fixed_regex("([a-z])([A-Z])"));
    let separated = NEXT_WORD.replace_all(name, "$1 $2").to_ascii_lowercase();
    let words = separated.split(|letter: char| !letter.is_ascii_alphanumeric());
    words.filter(|word| !word.is_empty()).map(str::to_owned).collect()
}

/// Whether a value contains no secret: it consists of references to variables and files and of templates that
/// insert an argument, with or without an authentication scheme before them.
pub(crate) fn is_only_references(value: &str) -> bool {
    static REFERENCE: LazyLock<Regex> = LazyLock::new(|| {
        fixed_regex(
            r"(?x) \$\{[^}]*\} | \{\{-? \s* (args|input_responses) (\.[A-Za-z_]\w*)+ (\s*\|\s*[a-z_0-9]+)* \s* -?\}\}",
        )
    });
    if value.starts_with("file:") {
        return true;
    }
    let has_default = REFERENCE.find_iter(value).any(|reference| reference.as_str().contains(":-"));
    let literal = REFERENCE.replace_all(value, "").trim().to_ascii_lowercase();
    !has_default && matches!(literal.as_str(), "" | "bearer" | "basic" | "token" | "apikey")
}

/// Byte ranges of values after keys with secret names. They are found by text search, for a file that could
/// not be parsed. `offset` is the position of `line` in the file.
pub(crate) fn probable_secrets(line: &str, offset: usize) -> Vec<Range<usize>> {
    static KEY: LazyLock<Regex> = LazyLock::new(|| fixed_regex(r#"([^ ,{\["':]*)["' ]*:\s*"#));
    let mut ranges: Vec<Range<usize>> = Vec::new();
    for captures in KEY.captures_iter(line) {
        let start = captures.get_match().end();
        let value = &line[start..];
        let is_inside = ranges.last().is_some_and(|last| offset + start < last.end);
        if !is_inside
            && is_secret_name(&captures[1])
            && !value.is_empty()
            && !value.starts_with(['{', '['])
            && !is_only_references(value.trim())
        {
            let quote = value.chars().next().filter(|c| matches!(c, '"' | '\''));
            let end = quote.and_then(|quote| value[1..].find(quote)).map_or(line.len(), |at| start + at + 2);
            ranges.push(offset + start..offset + end);
        }
    }
    ranges
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_is_known_by_its_key() {
        for name in [
            "Authorization",
            "X-Api-Key",
            "Ocp-Apim-Subscription-Key",
            "X-Auth",
            "api_key",
            "db_password",
            "Set-Cookie",
            "refreshToken",
            "SSH_PASS",
            "X-Pwd",
            "X-Amz-Signature",
            "client_assertion",
        ] {
            assert!(is_secret_name(name), "{name}");
        }
        for name in ["X-Client", "bypass", "client_assertion_type"] {
            assert!(!is_secret_name(name), "{name}");
        }
        assert!(is_only_references("Bearer ${TOKEN}"));
        assert!(is_only_references("file:/run/secrets/token"));
        assert!(is_only_references("Bearer {{ args.key }}"));
        assert!(is_only_references("{{ args.key | b64encode }}"));
        for secret in ["{{ 'abc' }}", "{{hunter2secret}}", "Bearer {{ 12345678 }}", "{{ args.x ~ 12345678 }}"]
        {
            assert!(!is_only_references(secret), "{secret}");
        }
        assert!(!is_only_references("Bearer abc"));
        assert!(!is_only_references("${TOKEN:-abc}"));
    }

    #[test]
    fn a_misspelled_secret_is_known_by_its_key() {
        for name in [
            "Authorisation",
            "Proxy-Authorizaton",
            "PASWORD",
            "pasword",
            "DB_PASSWROD",
            "passwort",
            "X-Api-Kye",
            "api-kye",
            "apiKye",
            "refreshTokn",
            "X-Toekn",
            "client_secert",
            "credentails",
        ] {
            assert!(is_secret_name(name), "{name}");
        }
        for name in [
            "X-Passport",
            "tests_passed",
            "taken",
            "X-Broken",
            "rookie",
            "keyword",
            "sector",
            "api-version",
            "api_kind",
            "authority",
            "authentication",
            "X-Credit",
            "paraphrase",
        ] {
            assert!(!is_secret_name(name), "{name}");
        }
    }
}
