//! Credentials that are recognized by their form, regardless of the name before them: tokens, private keys,
//! and the passwords in URLs and connection strings.
//!
//! [`PRIVATE_KEYS`] and [`FORMS`] are the only patterns of keys and tokens. They also mask credentials in the
//! error messages of upstreams.

use std::{ops::Range, sync::LazyLock};

use base64::{Engine, prelude::BASE64_STANDARD};
use regex::{Captures, Regex};

use super::{
    fixed_regex,
    secret::{is_only_references, is_secret_name},
};

/// Pattern of PEM private keys, complete or truncated.
pub(crate) const PRIVATE_KEYS: &str =
    r"-----BEGIN [A-Z0-9 ]*PRIVATE KEY-----(?s:.*?)(?:-----END [A-Z0-9 ]*-----|\z)";

/// Pattern of credentials after an authentication scheme, and of the tokens of common services.
///
/// Two groups mark matches that may be prose: `scheme_value` is the text after a scheme, such as "usage" in
/// "Bearer usage"; `slug` may be words with hyphens, such as `sk-learn-contrib-boosting`. Upper and lower
/// case is significant where a common word begins with the same letters, such as `Asia`.
pub(crate) const FORMS: &str = concat!(
    r"(?-u:\b)(?i:(?<scheme>bearer|basic))\s+(?<scheme_value>[0-9A-Za-z_.~+/=\-]{6,})",
    // A JWT, complete or truncated; an AWS access key.
    r"|(?-u:\b)(?:(?-i:eyJ)[0-9A-Za-z_\-]{8,}(?:\.[0-9A-Za-z_\-]*){0,2}|(?-i:A[KS]IA[0-9A-Z]{12,})",
    // Keys of OpenAI, Anthropic and npm; of Google.
    r"|(?<slug>(?:sk-|npm_)[0-9A-Za-z_\-]{16,})|AIza[0-9A-Za-z_\-]{16,}",
    // Tokens of GitHub; of GitLab and Slack; of Stripe.
    r"|(?:gh[a-z]|github_pat)_[0-9A-Za-z_]{16,}|(?:glpat|xox[a-z])-[0-9A-Za-z_\-]{8,}",
    r"|[rs]k_(?:live|test)_[0-9A-Za-z_]{8,})",
);

/// Byte ranges of all credentials in a text of the configuration, in order and without overlap.
pub(crate) fn credentials_in(text: &str) -> Vec<Range<usize>> {
    let mut ranges = tokens_in(text);
    ranges.extend(in_urls(text));
    ranges.extend(in_queries(text));
    ranges.extend(in_pairs(text));
    ranges.extend(in_addresses(text));
    merged(ranges)
}

/// Joins overlapping and adjacent ranges, and sorts them.
pub(crate) fn merged(mut ranges: Vec<Range<usize>>) -> Vec<Range<usize>> {
    ranges.sort_by_key(|range| (range.start, range.end));
    let mut all: Vec<Range<usize>> = Vec::new();
    for range in ranges {
        match all.last_mut() {
            Some(last) if range.start <= last.end => last.end = last.end.max(range.end),
            Some(_) | None => all.push(range),
        }
    }
    all
}

/// Replaces ranges of a text with `mask`. The ranges are in order and do not overlap.
pub(crate) fn replaced(text: &str, ranges: &[Range<usize>], mask: &str) -> String {
    let (mut out, mut position) = (String::new(), 0);
    for range in ranges {
        out.push_str(&text[position..range.start]);
        out.push_str(mask);
        position = range.end;
    }
    out.push_str(&text[position..]);
    out
}

/// Byte ranges of private keys and of the credentials that [`FORMS`] describes, in order. Words that only
/// resemble a token are excluded, because a configuration contains more prose than an error message does.
pub(crate) fn tokens_in(text: &str) -> Vec<Range<usize>> {
    static KEYS_REGEX: LazyLock<Regex> = LazyLock::new(|| fixed_regex(PRIVATE_KEYS));
    static FORMS_REGEX: LazyLock<Regex> = LazyLock::new(|| fixed_regex(FORMS));
    // Two searches, because a `BEGIN` marker that is only mentioned matches the rest of the text: one search
    // would not find the tokens in it.
    let keys = KEYS_REGEX.find_iter(text).filter(|found| has_private_key(found.as_str()));
    let tokens = FORMS_REGEX.captures_iter(text).filter_map(|captures| token_range(&captures));
    merged(keys.map(|found| found.range()).chain(tokens).collect())
}

/// Whether a text contains a private key.
pub(crate) fn has_private_key(text: &str) -> bool {
    /// The marker, and 16 characters of base64 or headers after it. A pattern that only mentions the marker
    /// has no such characters; prose directly after the marker may have them.
    const BEGINNING: &str = r"-----BEGIN [A-Z0-9 ]*PRIVATE KEY-----[0-9A-Za-z+/=:,\-\s\\]{16,}";
    static KEY: LazyLock<Regex> = LazyLock::new(|| fixed_regex(BEGINNING));
    text.contains("PRIVATE KEY-----") && KEY.is_match(text)
}

fn token_range(captures: &Captures<'_>) -> Option<Range<usize>> {
    if let (Some(scheme), Some(value)) = (captures.name("scheme"), captures.name("scheme_value")) {
        let is_credential = match scheme.as_str().eq_ignore_ascii_case("basic") {
            true => is_user_and_password(value.as_str()),
            false => looks_generated(value.as_str()),
        };
        return is_credential.then(|| value.range());
    }
    let token = captures.get_match();
    let is_credential = captures.name("slug").is_none_or(|slug| !is_words(slug.as_str()));
    is_credential.then(|| token.range())
}

/// Whether a text is `user:password` in base64 (RFC 7617).
fn is_user_and_password(value: &str) -> bool {
    // Padding may be missing, and a full stop that ends the sentence may follow.
    let bare = value.trim_end_matches(['=', '.']);
    let padding = "=".repeat(bare.len().wrapping_neg() % 4);
    let decoded = BASE64_STANDARD.decode(format!("{bare}{padding}"));
    decoded.is_ok_and(|bytes| bytes.contains(&b':') && std::str::from_utf8(&bytes).is_ok())
}

/// Whether a word looks randomly generated: it mixes letters and digits, has capitals inside, or is very
/// long.
fn looks_generated(word: &str) -> bool {
    let word = word.trim_end_matches(['.', '=']);
    let has_byte = |is_kind: fn(&u8) -> bool| word.bytes().any(|byte| is_kind(&byte));
    let is_mixed = has_byte(u8::is_ascii_digit) && has_byte(u8::is_ascii_alphabetic);
    let pairs = word.as_bytes().windows(2);
    let capitals = pairs.filter(|pair| pair[0].is_ascii_lowercase() && pair[1].is_ascii_uppercase()).count();
    word.len() >= 8 && (is_mixed || capitals >= 2 || word.len() >= 24)
}

/// Whether a text consists of lower-case words joined by hyphens or underscores.
fn is_words(text: &str) -> bool {
    const MAX_WORD_LENGTH: usize = 15;
    text.split(['-', '_']).all(|word| {
        (1..=MAX_WORD_LENGTH).contains(&word.len()) && word.bytes().all(|byte| byte.is_ascii_lowercase())
    })
}

/// User names and passwords in URLs ("userinfo", RFC 3986).
fn in_urls(text: &str) -> Vec<Range<usize>> {
    const LOGIN: &str = concat!(
        r#"://(?<login>[^\s"'/?#]*"#,
        // A password may contain an unencoded `/` if the text after the colon cannot be a port.
        r#"|(?:[^\s"'/?#{},:\[][^\s"'/?#{},:]*)?:[0-9]*[^\s"'/?#{},0-9][^\s"'/?#{},]*[/?#]"#,
        // The password ends before `[^`: a text with `[^` is a regular expression, and another URL may follow
        // it.
        r#"(?:[^\s"'\[]|\[+[^\s"'\[^])*\[*)@"#,
    );
    static LOGINS: LazyLock<Regex> = LazyLock::new(|| fixed_regex(LOGIN));
    let logins = LOGINS.captures_iter(text).filter_map(|captures| captures.name("login"));
    // Skips patterns that match URLs, such as `https://[^@]+@`.
    logins.filter(|login| !login.as_str().contains("[^")).map(|login| login.range()).collect()
}

/// Values of query parameters with secret names.
pub(crate) fn in_queries(text: &str) -> Vec<Range<usize>> {
    static PARAMETER: LazyLock<Regex> = LazyLock::new(|| fixed_regex(r"[?&]([0-9A-Za-z\-_.\[\]%]*)="));
    let mut ranges: Vec<Range<usize>> = Vec::new();
    for captures in PARAMETER.captures_iter(text) {
        let start = captures.get_match().end();
        let is_found = ranges.last().is_some_and(|last| start < last.end);
        // A brace after `=` begins an argument or a template, not a literal value.
        if is_found || !is_secret_name(&captures[1]) || text[start..].starts_with('{') {
            continue;
        }
        let value = unquoted(&text[start..], |c| matches!(c, '&' | '#'));
        if !is_only_references(value) {
            ranges.push(start..start + value.len());
        }
    }
    ranges
}

/// First 1,024 bytes of a text. Searching the whole rest of the text after each match would take quadratic
/// time.
fn beginning(text: &str) -> &str {
    &text[..text.floor_char_boundary(1024)]
}

/// Value at the beginning of a text: a quoted string, or the text that [`unquoted`] returns.
fn literal(text: &str, is_end: impl Fn(char) -> bool) -> &str {
    for quote in ["\\\"", "\"", "'"] {
        if let Some(quoted) = text.strip_prefix(quote) {
            let end = quoted.find(quote).map_or(text.len(), |length| quote.len() + length);
            return &text[..end];
        }
    }
    unquoted(text, is_end)
}

/// Value at the beginning of a text, up to white space, a quote or a character that `is_end` accepts.
/// Excludes YAML brackets and commas at its end, but includes references to variables.
fn unquoted(text: &str, is_end: impl Fn(char) -> bool) -> &str {
    let mut reference_end = 0;
    while text[reference_end..].starts_with("${")
        && let Some(length) = beginning(&text[reference_end..]).find('}')
    {
        reference_end += length + 1;
    }
    let end = text[reference_end..]
        .find(|c: char| c.is_whitespace() || matches!(c, '"' | '\'') || is_end(c))
        .map_or(text.len(), |length| reference_end + length);
    let trimmed = text[reference_end..end].trim_end_matches([',', '}', ']', ')']);
    &text[..reference_end + trimmed.len()]
}

/// Values of pairs `name=value` with secret names: in connection strings (`Server=db;Password=…;`), settings
/// of database clients (`host=db password=…`) and forms.
fn in_pairs(text: &str) -> Vec<Range<usize>> {
    /// A pair, in a connection string also with spaces around `=`.
    const PAIR: &str = concat!(
        r#"(?:^|[\s,"'(])-{0,2}(?<name>[A-Za-z][0-9A-Za-z_.\-]{0,63})="#,
        r"|(?<semicolon>;)\s*(?:[A-Za-z]+ )*(?<after>[A-Za-z][0-9A-Za-z_.\-]{0,63})\s*=\s*",
    );
    /// First characters of a value that is a template, a pattern or an expression, not a literal.
    const NON_LITERAL: [char; 13] = ['{', '(', '[', '<', '\\', '.', '*', '^', '|', '=', '~', '$', '…'];
    static PAIRS: LazyLock<Regex> = LazyLock::new(|| fixed_regex(PAIR));
    // The ends are searched once: searching after each pair would take quadratic time.
    let positions = |is_end: fn(char) -> bool| -> Vec<usize> {
        text.match_indices(is_end).map(|(index, _)| index).collect()
    };
    let word_ends = positions(|c| c.is_whitespace() || matches!(c, ';' | '"' | '\''));
    let ends_after_spaces = positions(|c| matches!(c, ';' | '"' | '\'' | '\r' | '\n'));
    let next = |ends: &[usize], start: usize| {
        ends.get(ends.partition_point(|end| *end < start)).copied().unwrap_or(text.len())
    };
    let mut ranges: Vec<Range<usize>> = Vec::new();
    for captures in PAIRS.captures_iter(text) {
        let Some(name) = captures.name("name").or_else(|| captures.name("after")) else { continue };
        // The name `key` alone indicates no secret: `key=value` is the usual example of a pair.
        let is_example = captures.name("name").is_some() && name.as_str().eq_ignore_ascii_case("key");
        let start = captures.get_match().end();
        let is_found = ranges.last().is_some_and(|last| start < last.end);
        if is_example || is_found || !is_secret_name(name.as_str()) {
            continue;
        }
        let rest = &text[start..];
        let is_connection_string = captures.name("semicolon").is_some()
            || text[next(&word_ends, start)..].starts_with(';')
            // The default value in a reference may contain spaces.
            || literal(beginning(rest), |_| false).contains(';');
        let is_quoted = rest.starts_with(['"', '\'']) || rest.starts_with("\\\"");
        let is_literal = match is_connection_string {
            true => !rest.starts_with(['{', '=']),
            false => is_quoted || !rest.starts_with(NON_LITERAL) && !rest.starts_with("%{"),
        };
        if !is_literal {
            continue;
        }
        // A password in a connection string may contain spaces.
        let end = next(&ends_after_spaces, start);
        let value = match is_connection_string && text[end..].starts_with(';') {
            true => &text[start..end],
            false => literal(rest, |c| matches!(c, ';' | '&')),
        };
        if !value.trim_matches(['\\', '"', '\'']).is_empty() && !is_only_references(value) {
            ranges.push(start..start + value.len());
        }
    }
    ranges
}

/// User names and passwords before a host without a scheme: `root:word@tcp(127.0.0.1:3306)`,
/// `me:word@db.test`.
fn in_addresses(text: &str) -> Vec<Range<usize>> {
    const ADDRESS: &str = concat!(
        r#"(?:^|[\s"'=(,])(?<login>(?<user>[A-Za-z_][0-9A-Za-z_.+%\-]*):[^\s"'@/{}<>][^\s"'@{}<>]*)@"#,
        r"(?:(?:tcp|udp|unix)\(|(?:localhost|[0-9]{1,3}(?:\.[0-9]{1,3}){3})(?-u:\b)",
        r"|[0-9A-Za-z\-]+(?:\.[0-9A-Za-z\-]+)*(?::[0-9]{2,5}(?-u:\b)|\.[A-Za-z]{2,}(?-u:\b)))",
    );
    /// Schemes and labels before email addresses, as in `mailto:me@a.test`, which are not user names.
    const NON_USER_LABELS: [&str; 14] = [
        "acct", "author", "bcc", "cc", "contact", "email", "from", "mail", "mailto", "owner", "sip", "sips",
        "to", "xmpp",
    ];
    static ADDRESSES: LazyLock<Regex> = LazyLock::new(|| fixed_regex(ADDRESS));
    let is_user = |user: &str| !NON_USER_LABELS.iter().any(|name| name.eq_ignore_ascii_case(user));
    ADDRESSES
        .captures_iter(text)
        .filter(|captures| captures.name("user").is_some_and(|user| is_user(user.as_str())))
        .filter_map(|captures| Some(captures.name("login")?.range()))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, expected: &[&str]) {
        let found = credentials_in(text);
        assert_eq!(found.into_iter().map(|range| &text[range]).collect::<Vec<_>>(), expected, "{text}");
    }

    #[track_caller]
    fn check_not_masked(text: &str) {
        check(text, &[]);
    }

    #[test]
    fn tokens_are_found_by_their_form() {
        for token in [
            "ghp_16C7e42F292c6912E7710c838347Ae178B4a",
            "gho_16C7e42F292c6912E7710c838347Ae178B4a",
            "github_pat_11ABCDEFG0abcdefghijkl_mnopqrstuvwxyz",
            "glpat-abcdefghij1234567890",
            "xoxb-1234567890-abcdef",
            "sk-proj-aB3dE5gH7jK9mN1pQ3sT5vX7z",
            "sk-abcdefghijklmnopqrstuvwx",
            "npm_aB3dE5gH7jK9mN1pQ3sT5vX7z",
            "AKIAIOSFODNN7EXAMPLE",
            "AIzaSyA-1234567890abcdefghijklmnopqrstu",
            "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk",
            "sk_live_4eC39HqLyjWDarjtT1zdp7dc",
        ] {
            check(token, &[token]);
            check(&format!("X-Digest: {{ a: \"{token}\", b: 1 }}"), &[token]);
            check(&format!("old/hooks/{token}/run"), &[token]);
        }
    }

    #[test]
    fn credentials_after_a_scheme_are_found() {
        check("Bearer s3cr3t-word", &["s3cr3t-word"]);
        check("a: bearer aBcDeFgHiJ.", &["aBcDeFgHiJ."]);
        check("Basic bWU6d29yZA==", &["bWU6d29yZA=="]);
        check("Basic bWU6d29yZA", &["bWU6d29yZA"]);
        check("Bearer ${TOKEN}", &[]);
    }

    #[test]
    fn private_keys_are_found() {
        let key =
            "-----BEGIN RSA PRIVATE KEY-----\nMIIEvQIBADANBgkqhkiG9w0BAQEF\n-----END RSA PRIVATE KEY-----";
        check(&format!("a {key} b"), &[key]);
        let truncated = "-----BEGIN PRIVATE KEY-----\\nMIIEvQIBADANBg";
        check(&format!("a {truncated}"), &[truncated]);
        assert!(has_private_key(key) && has_private_key(&key.replace('\n', "\\n")));
        assert!(!has_private_key("redact: -----BEGIN PRIVATE KEY-----[^-]*-----END"));
        check_not_masked(
            "name a PEM file, which begins with `-----BEGIN PRIVATE KEY-----`; encrypted keys can't be read",
        );
        let token = "ghp_16C7e42F292c6912E7710c838347Ae178B4a";
        check(&format!(r#"redact: ["-----BEGIN PRIVATE KEY-----[^-]*", "{token}"]"#), &[token]);
        check_not_masked(
            "-----BEGIN CERTIFICATE-----\nMIIEvQIBADANBgkqhkiG9w0BAQEF\n-----END CERTIFICATE-----",
        );
    }

    #[test]
    fn credentials_in_all_urls_of_a_text_are_found() {
        check("a: { url: http://me:word@a.test/b }", &["me:word"]);
        check("http://a.test, http://me:word@b.test/c@d and ftp://you:more@c.test", &["me:word", "you:more"]);
        check("http://me:wo/rd@a.test/", &["me:wo/rd"]);
        check("http://me:wo,rd@a.test/", &["me:wo,rd"]);
        check("http://me:wo/r[d[@a.test/", &["me:wo/r[d["]);
        check("http://a:b/[^c]*,http://me:word@a.test/", &["me:word"]);
        for login in [format!("me:{}", "word".repeat(1000)), format!("me:w/{}", "or@d".repeat(1000))] {
            check(&format!("http://{login}@a.test/"), &[&login]);
        }
        check("a: { url: \"http://a.test/x?page=1&access_token=word\" }", &["word"]);
        check("a: { url: http://a.test/x?api_key=word&sig=other, b: c }", &["word", "other"]);
        check("http://a.test/x?token=a,b", &["a,b"]);
        check("[http://a.test/x?token=word]", &["word"]);
        check("{ url: \"http://a.test/x?token=\", b: \"c\" }", &[]);
        check("a: { url: http://a.test/x?token=${TOKEN}&page=1 }", &[]);
        check("{ url: http://a.test/x?token=${TOKEN}}", &[]);
        check("a: http://a.test/x?token=${TOKEN:-word}", &["${TOKEN:-word}"]);
        check("request: GET a/x?token={token}&secret={{ args.word }}", &[]);
        check("description: Is it a token? a=b", &[]);
        check("http://[::1]:80/a@b http://a.test:80/a@b http://{host}:{port}/a@b", &[]);
    }

    #[test]
    fn passwords_in_connection_strings_are_found() {
        check("Server=db;User ID=sa;Password=two words;", &["two words"]);
        check("Server=db;Pwd=$word;Encrypt=yes", &["$word"]);
        check("Server=db;Password = \"a;b\";", &["\"a;b"]);
        check("Server=db; Password=word", &["word"]);
        check("Password=word;Server=db", &["word"]);
        check("AccountName=a;AccountKey=abc+/==;EndpointSuffix=a.test", &["abc+/=="]);
        check("Endpoint=sb://a.test/;Shared Access Key=word", &["word"]);
        check("Password=${PASSWORD:-two words};Server=db", &["${PASSWORD:-two words}"]);
        check("a;Password=two words\nb;c", &["two"]);
        check("host=db user=me password=word sslmode=require", &["word"]);
        check("{ dsn: password='two words', b: c }", &["'two words"]);
        check("tool --password=word --page=1", &["word"]);
        check("user={user}&password=word", &["word"]);
        check("Server=db;Password=${PASSWORD};", &[]);
        check("password={password}&token=${TOKEN}", &[]);
        check("root:word@tcp(127.0.0.1:3306)/db", &["root:word"]);
        check("dsn: me:w:o/rd@db.test:5432/shop", &["me:w:o/rd"]);
        check("(me:word@localhost)", &["me:word"]);
    }

    #[test]
    fn long_passwords_in_connection_strings_are_found() {
        for password in [format!("two{}words", " ".repeat(2000)), format!("{}é&{{", "word".repeat(500))] {
            check(&format!("Server=db;Password={password};Encrypt=yes"), &[&password]);
        }
        let password = format!("${}&more", "word".repeat(500));
        check(&format!("Password={password};Server=db"), &[&password]);
    }

    #[test]
    fn many_pairs_take_linear_time() {
        check_not_masked(&",password={".repeat(20_000));
        check_not_masked(&";a password=".repeat(20_000));
        let pairs = ";password=a password=b".repeat(20_000) + ";";
        check(&pairs, &["a password=b"; 20_000]);
    }

    #[test]
    fn harmless_texts_are_shown() {
        for text in [
            "sk-learn",
            "sk-learn-contrib-boosting",
            "npm_config_strict_ssl",
            "Basic usage",
            "Basic authentication with OAuth2 and HTTP/1.1",
            "A bearer token, or bearer OAuth2 tokens",
            "Bearer authentication required.",
            "Basic realm=\"shop\"",
            "AsiaPacificRegions",
            "Eyjafjallajokull",
            "ASIA",
            "2fd4e1c67a2d28fced849ee1bb76e7391b93eb12",
            "123e4567-e89b-12d3-a456-426614174000",
            "data:image/gif;base64,R0lGODlhAQABAIAAAAAAAP///yH5BAEAAAAALAAAAAABAAEAAAIBRAA7",
            "src: 'data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAAC0lEQVQI12NgAAIA'",
            "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJg==",
            "sha256:9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08",
            "a.test:5000/b:1.2@sha256:9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08",
            "git@github.com:owner/name",
            "^https?://[^\\s@]+@[a-z]+$",
            "export PASSWORD=…",
            "mailto:me@a.test",
            "npm:package@1.2.3",
            "write key=value",
            "select(.token == \"x\") | .password=\"y\"",
            "token=(?<token>\\w+) key=%{WORD:key}",
            "text/html; charset=utf-8",
            "application/x-www-form-urlencoded; boundary=a",
            "sort=token",
        ] {
            check_not_masked(text);
        }
    }
}
