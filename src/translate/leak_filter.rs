//! Leak filter: removes stack traces, SQL, addresses, paths and credentials from the error messages of
//! upstreams.

use std::{net::Ipv6Addr, ops::Range, sync::LazyLock};

use regex::{Captures, Regex};
use serde_json::Value;

use crate::settings::credential_forms::{FORMS, PRIVATE_KEYS};
use crate::settings::fixed_regex;

/// Masks addresses, paths and credentials in an error message, except addresses and paths that the client has
/// sent itself. A message with a stack trace or a database error is replaced as a whole.
pub(super) fn redact_error_text(text: &str, sent: &ClientStrings<'_>) -> String {
    const NOT_SHOWN: &str = "The service failed. Its message has internal details and is not shown.";
    if looks_internal(text) { NOT_SHOWN.to_owned() } else { redacted(text, sent) }
}

/// Strings among the arguments of a call.
///
/// If an error quotes a path or an address from the arguments, the client knows it already. Masking the quote
/// would only hide which argument was wrong. A string counts only if the error contains all of it, so that a
/// call can't test many guesses in one string.
#[derive(Debug, Default)]
pub(super) struct ClientStrings<'a>(Vec<&'a str>);

impl<'a> ClientStrings<'a> {
    /// Maximum number of strings that are collected, and the maximum length of each in bytes.
    const LIMITS: (usize, usize) = (64, 4096);

    /// Collects the strings in `arguments`, within the limits. Strings of one byte are omitted.
    pub(super) fn from_arguments(arguments: &'a Value) -> Self {
        let mut strings = Vec::new();
        let mut pending = vec![arguments];
        while let Some(value) = pending.pop()
            && strings.len() < Self::LIMITS.0
        {
            match value {
                Value::String(text) if (2..=Self::LIMITS.1).contains(&text.len()) => strings.push(&**text),
                Value::Array(items) => pending.extend(items.iter().take(Self::LIMITS.0)),
                Value::Object(members) => pending.extend(members.values().take(Self::LIMITS.0)),
                Value::String(_) | Value::Null | Value::Bool(_) | Value::Number(_) => {}
            }
        }
        Self(strings)
    }

    /// Whether `part` of a text lies inside an occurrence of a string that the client has sent.
    fn covers(&self, text: &str, part: &Range<usize>) -> bool {
        self.0.iter().any(|sent| {
            let mut occurrences = text.match_indices(sent);
            occurrences.any(|(start, sent)| start <= part.start && part.end <= start + sent.len())
        })
    }
}

/// Detects stack traces of common languages, database errors, and control characters.
pub(super) fn looks_internal(text: &str) -> bool {
    static INTERNAL: LazyLock<Regex> = LazyLock::new(|| {
        compile(&["(?m)", &alternatives(include_str!("leak_patterns/internal.txt"))].concat())
    });
    INTERNAL.is_match(text) || text.contains(|c: char| c.is_control() && !matches!(c, '\n' | '\r' | '\t'))
}

/// Masks addresses, file paths and credentials in a text. Addresses and paths that the client has sent itself
/// stay; credentials are always masked.
pub(super) fn redacted(text: &str, sent: &ClientStrings<'_>) -> String {
    static ADDRESSES: LazyLock<Regex> =
        LazyLock::new(|| compile(&alternatives(include_str!("leak_patterns/addresses.txt"))));
    static PATHS: LazyLock<Regex> = LazyLock::new(|| {
        compile(concat!(
            r#"(^|[\s(=\['"`:,])(?:(?:~[a-z_]?[\w\-]*|\.{1,2})(?:/[\w.@+\-]+)+|(?:/[\w.@+\-]+){2,})/?"#,
            r#"|\b[A-Za-z]:\\[^\s"]+"#,
        ))
    });
    // Addresses come before paths, because a path inside an address would otherwise be replaced alone.
    let text = without_credentials(text);
    let text = without_ipv6(&text);
    let text = ADDRESSES.replace_all(&text, |found: &Captures<'_>| {
        let is_ipv6 = |text: &str| text.trim_matches(['[', ']']).parse::<Ipv6Addr>().is_ok();
        let is_time = found.name("time").is_some()
            || found.name("brackets").is_some_and(|brackets| !is_ipv6(brackets.as_str()));
        match is_time {
            true => found[0].to_owned(),
            false => mask_match(&text, found, "[address]", sent),
        }
    });
    let text = PATHS.replace_all(&text, |found: &Captures<'_>| mask_match(&text, found, "[path]", sent));
    text.into_owned()
}

/// Replaces a match by `mask`. Keeps the delimiter before a path (capture group 1), and a full stop at the
/// end, which ends a sentence.
fn mask_match(text: &str, found: &Captures<'_>, mask: &str, sent: &ClientStrings<'_>) -> String {
    let before = found.get(1).filter(|_| mask == "[path]").map_or("", |before| before.as_str());
    let start = found.get_match().start() + before.len();
    let part = &text[start..found.get_match().end()];
    let (part, full_stop) =
        part.strip_suffix('.').filter(|part| !part.ends_with('.')).map_or((part, ""), |part| (part, "."));
    let displayed = if sent.covers(text, &(start..start + part.len())) { part } else { mask };
    format!("{before}{displayed}{full_stop}")
}

/// Replaces compressed IPv6 addresses, with their brackets and port. Candidates are parsed, because a pattern
/// can't distinguish addresses from times and from names in C++ and Ruby.
fn without_ipv6(text: &str) -> String {
    static WORD: LazyLock<Regex> =
        LazyLock::new(|| compile(r"[0-9A-Za-z_:.]*::[0-9A-Za-z_:.]*(?:%[\w\-]+)?"));
    let replaced = WORD.replace_all(text, |found: &Captures<'_>| {
        let word = &found[0];
        match ipv6_in(word) {
            Some(range) => format!("{}[address]{}", &word[..range.start], &word[range.end..]),
            None => word.to_owned(),
        }
    });
    // Replace surrounding brackets and a port together with the address.
    static BRACKETS: LazyLock<Regex> = LazyLock::new(|| compile(r"\[\[address\]\](?::\d+)?"));
    BRACKETS.replace_all(&replaced, "[address]").into_owned()
}

/// Range of an IPv6 address in a word: the whole word, or the part after a colon, as in `host:fe80::1`.
fn ipv6_in(word: &str) -> Option<Range<usize>> {
    let (address, _zone) = word.split_once('%').unwrap_or((word, ""));
    let trimmed = address.trim_end_matches('.');
    let zone_end = if trimmed.len() == address.len() { word.len() } else { trimmed.len() };
    let starts = std::iter::once(0).chain(trimmed.match_indices(':').map(|(colon, _)| colon + 1));
    // If the word ends in a colon, also try without it: `fe80::1:` is an address and a colon.
    let ends = [(trimmed, zone_end), (trimmed.strip_suffix(':').unwrap_or(trimmed), trimmed.len() - 1)];
    let mut parts = starts.flat_map(|start| ends.map(|(text, end)| (text.get(start..), start..end)));
    let is_address = |part: &str| part.contains("::") && part != "::" && part.parse::<Ipv6Addr>().is_ok();
    parts.find(|(part, _)| part.is_some_and(is_address)).map(|(_, range)| range)
}

/// Text that replaces a credential.
const CREDENTIAL: &str = "[credential]";

/// Replaces passwords, tokens and keys in a text of an upstream. Sentences that only mention credentials
/// stay.
fn without_credentials(text: &str) -> String {
    // The patterns with a name come first: in `npm_token_of_the_registry=…`, the value is the credential, not
    // the name.
    static CREDENTIALS: LazyLock<Regex> = LazyLock::new(|| {
        let in_context = alternatives(include_str!("leak_patterns/credentials.txt"));
        compile(&["(?i)", &in_context, "|", FORMS].concat())
    });
    static PRIVATE_KEY: LazyLock<Regex> = LazyLock::new(|| compile(&["(?i)", PRIVATE_KEYS].concat()));
    // Private keys come first: otherwise, the value of `private_key:` would end at the first space of the
    // key.
    let text = PRIVATE_KEY.replace_all(text, CREDENTIAL);
    let masked = CREDENTIALS.replace_all(&text, |found: &Captures<'_>| {
        let matched = &found[0];
        let capture = |name: &str| found.name(name).map(|capture| capture.as_str());
        if let (Some(before), Some(value)) = (capture("before"), capture("value_in_sentence")) {
            let after = &text[found.get_match().end()..];
            return mask_in_sentence(before, capture("verb").is_some(), value, after);
        }
        let is_harmless = capture("value_of_name").is_some_and(is_description)
            || capture("value_of_option").is_some_and(is_an_option);
        if is_harmless {
            matched.to_owned()
        } else {
            format!("{}{CREDENTIAL}", capture("option").unwrap_or_default())
        }
    });
    masked.into_owned()
}

/// Masks `value` in a sentence if it looks like a password. `before` is the text that introduces the value,
/// `after` is the text that follows it.
fn mask_in_sentence(before: &str, has_verb: bool, value: &str, after: &str) -> String {
    let is_quoted = value.starts_with(['"', '\'', '`']);
    let bare = value.trim_end_matches(['.', '!', '?', ':', ')', ']', '}']);
    let is_secret = if value.starts_with(CREDENTIAL) || is_description(value) {
        false
    } else if has_verb {
        // A plain word in the middle of a sentence is not a password: "the password is stored elsewhere".
        is_quoted || looks_random(bare) || bare.len() < value.len() || ends_sentence(after)
    } else {
        looks_random(bare)
    };
    match is_secret {
        true if is_quoted => format!("{before}{CREDENTIAL}"),
        true => format!("{before}{CREDENTIAL}{}", &value[bare.len()..]),
        false => format!("{before}{value}"),
    }
}

fn ends_sentence(after: &str) -> bool {
    after.trim_start_matches([' ', '\t']).chars().next().is_none_or(|c| ",;\r\n".contains(c))
}

/// Whether a word looks generated: it has at least 6 bytes, and mixes letters and digits or has a capital
/// after a small letter; or it has at least 24 bytes.
fn looks_random(word: &str) -> bool {
    let word = word.trim_matches(['"', '\'', '`']);
    let has = |predicate: fn(&char) -> bool| word.chars().any(|c| predicate(&c));
    let is_mixed = has(char::is_ascii_digit) && has(|c| c.is_alphabetic());
    let has_capitals =
        word.chars().zip(word.chars().skip(1)).any(|(c, next)| c.is_lowercase() && next.is_uppercase());
    word.len() >= 6 && (is_mixed || has_capitals || word.len() >= 24)
}

/// Whether a word describes a credential and is not one: "password: required", "the token is expired".
fn is_description(value: &str) -> bool {
    const WORDS: &str = include_str!("leak_patterns/descriptions.txt");
    let word = value.trim_matches(|c: char| !c.is_alphanumeric());
    WORDS.split_whitespace().any(|known| known.eq_ignore_ascii_case(word))
}

/// Whether the text after `-p` is the rest of an option's name or a port, and not a password.
fn is_an_option(text: &str) -> bool {
    const NAMES: &str = include_str!("leak_patterns/options.txt");
    let name = text.split(['=', ':']).next().unwrap_or(text).trim_end_matches(['.', ')', ']']);
    name.chars().all(|c| c.is_ascii_digit())
        || NAMES.split_whitespace().any(|known| known.eq_ignore_ascii_case(name))
}

/// Character class that replaces `\w`: all word characters of Unicode, and some characters between them, but
/// no punctuation. It has a few long ranges instead of the 800 of Unicode. It is case-sensitive, because a
/// case-insensitive class would list each range again.
const WORD_CLASS: &str = concat!(
    r"[0-9A-Za-z_\u{AA}\u{B5}\u{BA}\u{C0}-\u{1FFF}\u{200C}\u{200D}\u{203F}\u{2040}\u{2054}\u{2070}-\u{218F}",
    r"\u{24B6}-\u{24E9}\u{2C00}-\u{2E2F}\u{3005}-\u{3007}\u{3021}-\u{303C}\u{3040}-\u{FEFF}",
    r"\u{FF10}-\u{FF19}\u{FF21}-\u{FF3A}\u{FF3F}\u{FF41}-\u{FF5A}\u{FF66}-\u{FFDC}",
    r"\u{10000}-\u{1EFFF}\u{1F130}-\u{1F189}\u{1FBF0}-\u{10FFFF}]",
);

/// Builds a pattern from a file with an alternative in each line. Lines that begin with `# ` are comments.
fn alternatives(file: &str) -> String {
    let lines = file.lines().filter(|line| !line.is_empty() && !line.starts_with("# "));
    lines.collect::<Vec<_>>().join("|")
}

/// Compiles a pattern in which `\w` is [`WORD_CLASS`], and `\d` and `\b` are ASCII. With Unicode classes
/// these patterns would cost the first error of a process 16 ms on a serving thread, and 6 MB permanently.
fn compile(pattern: &str) -> Regex {
    let pattern = pattern.replace(r"\d", "[0-9]").replace(r"\w", WORD_CLASS).replace(r"\b", r"(?-u:\b)");
    fixed_regex(&pattern)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, expected: &str) {
        assert_eq!(redacted(text, &ClientStrings::default()), expected);
    }

    #[test]
    fn addresses_paths_and_credentials_are_replaced() {
        check("no route to 10.0.0.7:5432", "no route to [address]");
        let time = "a time such as `2026-11-21T09:30:00Z` or 2026-11-21t09:30+01:00";
        check(&format!("{time} at db-1:5432"), &format!("{time} at [address]"));
        check("see http://db.internal:9000/x?y=1 for more", "see [address] for more");
        check("cannot open /var/www/app/config.php", "cannot open [path]");
        check("cannot open C:\\inetpub\\app.config now", "cannot open [path] now");
        check("db-1.prod.svc refused", "[address] refused");
        check("login failed: password=hunter2, user=bob", "login failed: [credential], user=bob");
        check("sent Authorization: Bearer abcdef123456", "sent [credential]");
        check("connect to localhost:9000 failed", "connect to [address] failed");
        check("redis at [::1]:6379 and fe80::1 refused", "redis at [address] and [address] refused");
        check("db.prod.example.com port 5432 refused", "[address] refused");
        check("see \\\\fileserver\\share\\x", "see [address]");
        check("AWS_SECRET_ACCESS_KEY=abc client_secret=foo", "[credential] [credential]");
        check(r#"{"private_key": "zzz"}"#, r#"{[credential]"}"#);
        check(
            "key AKIAABCDEFGHIJKLMNOP, token eyJhbGciOiJIUzI1NiJ9.e30.x",
            "key [credential], token [credential]",
        );
    }

    #[test]
    fn names_of_any_script_are_replaced() {
        check("öster.local verweigert, über-db:5432 auch", "[address] verweigert, [address] auch");
        check("数据库.internal，失败", "[address]，失败");
        check("نمی‌خواهم.example.com port 80", "[address]");
        check("cannot open /données/clé, «/etc/shadow» neither", "cannot open [path], «/etc/shadow» neither");
        check("无法打开 /数据/配置。请重试", "无法打开 [path]。请重试");
        check("über ::1→fe80::1", "über [address]→[address]");
        check("\\\\сервер\\папка fehlt", "[address] fehlt");
    }

    #[test]
    fn unicode_letters_are_word_characters() {
        let (unicode, custom) = (Regex::new(r"^\w$").unwrap(), compile(r"^\w$"));
        for c in '\0'..=char::MAX {
            let c = c.to_string();
            assert!(custom.is_match(&c) || !unicode.is_match(&c), "{}", c.escape_unicode());
        }
    }

    #[test]
    fn the_whole_of_an_address_is_replaced() {
        for address in [
            "2001:db8::1",
            "::1",
            "::ffff:10.0.0.1",
            "fe80::1%eth0",
            "[2001:db8::1]:80",
            "[::1]",
            "2001:0db8:0000:0000:0000:ff00:0042:8329",
            "[2001:0db8:0000:0000:0000:ff00:0042:8329]:80",
            "0:0:0:0:0:ffff:10.0.0.1",
            "52:54:00:12:34:ab",
        ] {
            check(&format!("no route to {address}."), "no route to [address].");
        }
        check("no route to host:2001:db8::1: timed out", "no route to host:[address]: timed out");
        check("2001:db8::/32 is not ours", "[address]/32 is not ours");
        check("fe80::1.%eth0 and fe80::1:%eth0", "[address].%eth0 and [address]:%eth0");
        check("no route to fe80:::", "no route to [address]:");
    }

    #[test]
    fn the_whole_of_a_path_is_replaced() {
        for path in ["../../etc/passwd", "./conf/db.ini", "~/.ssh/id_rsa", "~app/run", "\"/etc/shadow\""] {
            let expected = if path.starts_with('"') { "\"[path]\"" } else { "[path]" };
            check(&format!("cannot open {path}"), &format!("cannot open {expected}"));
        }
    }

    #[test]
    fn the_whole_of_a_credential_is_replaced() {
        for credential in [
            "-----BEGIN RSA PRIVATE KEY-----\nMIIEvQIBADANBgkqhkiG9w0BAQEF\n-----END RSA PRIVATE KEY-----",
            "-----BEGIN PRIVATE KEY-----\nMIIEvQIBADANBgkqhkiG9w0BAQEF",
            "Cookie: session=abcdef; user=bob",
            "Authorization: Digest abcdef0123456789",
            "glpat-abcdefghij1234567890",
            "xoxb-1234567890-abcdef",
            "AIzaSyA-1234567890abcdefghijklmnopqrstu",
        ] {
            check(&format!("it was {credential}"), "it was [credential]");
        }
        check(r#"password="two words", user=bob"#, r#"[credential]", user=bob"#);
    }

    #[test]
    fn the_full_stop_of_a_sentence_stays() {
        check("Can't read /srv/data/a.csv. Name another file.", "Can't read [path]. Name another file.");
        check("It was not at https://shop.example.com/a.", "It was not at [address].");
        check("Can't read /srv/data/a...", "Can't read [path]");
    }

    #[test]
    fn strings_sent_by_the_client_are_shown() {
        let args = serde_json::json!({ "target": "/srv/repo/sample", "urls": ["https://shop.example.com/a"],
            "file": "/srv/my data/list.csv", "many": "/srv/a/b /srv/c/d", "key": "password=hunter2" });
        let sent = ClientStrings::from_arguments(&args);
        let check = |text: &str, expected: &str| assert_eq!(redacted(text, &sent), expected);
        check("'/srv/repo/sample': Is a directory", "'/srv/repo/sample': Is a directory");
        check("Nothing at /srv/repo/sample.", "Nothing at /srv/repo/sample.");
        check("Nothing at https://shop.example.com/a.", "Nothing at https://shop.example.com/a.");
        check("can't open /srv/my data/list.csv", "can't open /srv/my data/list.csv");
        check("can't open /srv/repo/sample/.git/index", "can't open [path]");
        check("can't open file:///srv/repo/sample", "can't open [address]");
        check("can't open /srv/a/b", "can't open [path]");
        check("refused password=hunter2", "refused [credential]");
    }

    #[test]
    fn ordinary_messages_are_unchanged() {
        for text in [
            "no such city: Oslo",
            "date must be YYYY-MM-DD, and/or a zip code",
            "at least 3 characters, found 2",
            "version 1.2.3 is too old",
            "the ratio is 3/4 at 12:30",
            "the token is invalid",
            "your session is closed since 12:30:45",
            "[12:30:45] the job failed after 0:0:00:01.03, or 1:02:03:04",
            "Ungültige Stadt",
            "use std::string, Foo::Bar or Abc::Error",
            "one of ... or .. or ~5 per minute",
            "Select a city from the list, then update the date",
            "the query has a syntax error near the end",
            "Invalid params: {\"city\":\"missing\"}",
            "incomplete input: a date needs a year",
        ] {
            check(text, text);
            assert!(!looks_internal(text), "{text}");
        }
    }

    #[test]
    fn traces_are_detected() {
        for text in [
            "boom\n    at com.example.Weather.get(Weather.java:42)",
            "Traceback (most recent call last):\n  File \"/app.py\", line 3",
            "TypeError: x\n    at Object.<anonymous> (/srv/app.js:1:7)",
            "thread 'main' panicked at src/main.rs:1",
            "goroutine 1 [running]:",
            "SQLSTATE[42S02]: Base table not found",
            "System.Exception: x at Shop.Orders.Get(Int32 id) in C:\\shop\\Orders.cs:line 3",
            "app.rb:3:in `find'",
            "near \"'x'\": syntax error",
            "UNIQUE constraint failed: entities.name: params: [{\"id\":\"1\"}]",
            "incomplete input: params: {\"timestamp\":1}",
            "SQLITE_BUSY: database is locked",
            "duplicate key value violates unique constraint \"users_pkey\"",
            "ERROR: relation \"orders\" does not exist",
            "Duplicate entry 'Ada' for key 'PRIMARY'",
            "failed: INSERT INTO t (a) VALUES (1)",
            "failed: SELECT a, b FROM t WHERE a = 'x'",
        ] {
            assert!(looks_internal(text), "{text}");
        }
    }

    #[track_caller]
    fn check_credentials(text: &str, expected: &str) {
        let masked_text = without_credentials(text);
        assert_eq!(masked_text, expected);
        assert_eq!(without_credentials(&masked_text), expected, "what is hidden stays as it is");
    }

    #[test]
    fn a_password_in_a_sentence_is_replaced() {
        check_credentials("the password is hunter2, user bob", "the password is [credential], user bob");
        check_credentials("Password was swordfish.", "Password was [credential].");
        check_credentials("the secret is \"two words\" here", "the secret is [credential] here");
        check_credentials("no such token 8f3ac01d99 (7)", "no such token [credential] (7)");
        check_credentials("API key aBcDeFgH refused", "API key [credential] refused");
        check_credentials("token is swordfish", "token is [credential]");
    }

    #[test]
    fn a_private_key_after_its_name_is_replaced_to_its_end() {
        for key in [
            "-----BEGIN RSA PRIVATE KEY-----\nMIIEvQIBADANBg\n-----END RSA PRIVATE KEY-----",
            "-----BEGIN PRIVATE KEY-----\nMIIEvQIBADANBg",
        ] {
            check_credentials(&format!("private_key: {key}"), "[credential]");
            check_credentials(&format!("refused secret=\"{key}"), "refused [credential]");
            check_credentials(&format!("the private key {key}"), "the private key [credential]");
        }
    }

    #[test]
    fn a_password_of_a_command_is_replaced() {
        check_credentials(
            "failed: mysql -u root -phunter2 shop",
            "failed: mysql -u root -p[credential] shop",
        );
        check_credentials("'-pS3cret' was refused", "'-p[credential]' was refused");
        for text in
            ["ssh -p2222 refused", "see -path, -port=80, -print or -password", "run -p 8080", "up-pity"]
        {
            check_credentials(text, text);
        }
    }

    #[test]
    fn words_about_passwords_are_unchanged() {
        for text in [
            "password is required",
            "the password is incorrect.",
            "token is expired; get another",
            "password: required",
            "token=missing",
            "password: This field is required",
            "The password is stored in a file",
            "your access key was revoked",
            "Unexpected token < in JSON at position 0",
            "token validation failed",
            "password must be longer, token type Bearer",
            "a secret from the vault",
            "no region AsiaPacificRegions",
        ] {
            check_credentials(text, text);
        }
    }
}
