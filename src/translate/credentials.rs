//! Masks passwords, tokens and keys in texts of an upstream. Ordinary sentences about credentials stay.

use std::sync::LazyLock;

use regex::{Captures, Regex};

use super::leak_filter::{alternatives, compile};
use crate::settings::credential_forms::{FORMS, PRIVATE_KEYS};

/// Replacement of a credential.
const MARK: &str = "[credential]";

/// Replaces the credentials in a text.
pub(super) fn without_credentials(text: &str) -> String {
    // The names first: after `npm_token_of_the_registry=`, the value is the credential and not the name.
    static CREDENTIALS: LazyLock<Regex> = LazyLock::new(|| {
        let in_context = alternatives(include_str!("leak_patterns/credentials.txt"));
        compile(&["(?i)", &in_context, "|", FORMS].concat())
    });
    static PRIVATE_KEY: LazyLock<Regex> = LazyLock::new(|| compile(&["(?i)", PRIVATE_KEYS].concat()));
    // Before all others: after `private_key:`, the value would end at the first space of the key.
    let text = PRIVATE_KEY.replace_all(text, MARK);
    let masked = CREDENTIALS.replace_all(&text, |found: &Captures<'_>| {
        let whole = &found[0];
        let part = |name: &str| found.name(name).map(|part| part.as_str());
        if let (Some(before), Some(value)) = (part("before"), part("said")) {
            let after = &text[found.get_match().end()..];
            return mask_in_sentence(before, part("verb").is_some(), value, after);
        }
        let is_harmless =
            part("named").is_some_and(is_description) || part("given").is_some_and(is_an_option);
        if is_harmless { whole.to_owned() } else { format!("{}{MARK}", part("option").unwrap_or_default()) }
    });
    masked.into_owned()
}

/// Masks a password in a sentence, if the word is one. `before` are the words that name it; `after` follows
/// it.
fn mask_in_sentence(before: &str, has_verb: bool, value: &str, after: &str) -> String {
    let is_quoted = value.starts_with(['"', '\'', '`']);
    let bare = value.trim_end_matches(['.', '!', '?', ':', ')', ']', '}']);
    let is_secret = if value.starts_with(MARK) || is_description(value) {
        false
    } else if has_verb {
        // A plain word in the middle of a sentence is not a password: "the password is stored elsewhere".
        is_quoted || looks_random(bare) || bare.len() < value.len() || ends_sentence(after)
    } else {
        looks_random(bare)
    };
    match is_secret {
        true if is_quoted => format!("{before}{MARK}"),
        true => format!("{before}{MARK}{}", &value[bare.len()..]),
        false => format!("{before}{value}"),
    }
}

fn ends_sentence(after: &str) -> bool {
    after.trim_start_matches([' ', '\t']).chars().next().is_none_or(|c| ",;\r\n".contains(c))
}

/// Whether a word looks generated: letters and digits mixed, capitals inside, or very long.
fn looks_random(word: &str) -> bool {
    let word = word.trim_matches(['"', '\'', '`']);
    let has = |is: fn(&char) -> bool| word.chars().any(|c| is(&c));
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

/// Whether the text after `-p` is the rest of an option's name, or a port.
fn is_an_option(given: &str) -> bool {
    const NAMES: &str = include_str!("leak_patterns/options.txt");
    let name = given.split(['=', ':']).next().unwrap_or(given).trim_end_matches(['.', ')', ']']);
    name.chars().all(|c| c.is_ascii_digit())
        || NAMES.split_whitespace().any(|known| known.eq_ignore_ascii_case(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, expected: &str) {
        let shown = without_credentials(text);
        assert_eq!(shown, expected);
        assert_eq!(without_credentials(&shown), expected, "what is hidden stays as it is");
    }

    #[test]
    fn a_password_in_a_sentence_is_replaced() {
        check("the password is hunter2, user bob", "the password is [credential], user bob");
        check("Password was swordfish.", "Password was [credential].");
        check("the secret is \"two words\" here", "the secret is [credential] here");
        check("no such token 8f3ac01d99 (7)", "no such token [credential] (7)");
        check("API key aBcDeFgH refused", "API key [credential] refused");
        check("token is swordfish", "token is [credential]");
    }

    #[test]
    fn a_private_key_after_its_name_is_replaced_to_its_end() {
        for key in [
            "-----BEGIN RSA PRIVATE KEY-----\nMIIEvQIBADANBg\n-----END RSA PRIVATE KEY-----",
            "-----BEGIN PRIVATE KEY-----\nMIIEvQIBADANBg",
        ] {
            check(&format!("private_key: {key}"), "[credential]");
            check(&format!("refused secret=\"{key}"), "refused [credential]");
            check(&format!("the private key {key}"), "the private key [credential]");
        }
    }

    #[test]
    fn a_password_of_a_command_is_replaced() {
        check("failed: mysql -u root -phunter2 shop", "failed: mysql -u root -p[credential] shop");
        check("'-pS3cret' was refused", "'-p[credential]' was refused");
        for text in
            ["ssh -p2222 refused", "see -path, -port=80, -print or -password", "run -p 8080", "up-pity"]
        {
            check(text, text);
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
            check(text, text);
        }
    }
}
