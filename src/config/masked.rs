//! The configuration as JSON with masked secrets, for operators.
//!
//! The declarations of the keys say which values are masked, and the parser of the file has marked them. The
//! rules here are about values that contain a secret: defaults of variables, tokens, URLs, arguments of a
//! command.

use std::sync::LazyLock;

use regex::{Captures, Regex};
use serde_json::{Map, Value};

use crate::settings::credential_forms::{credentials_in, replaced};
use crate::settings::secret::is_only_references;
use crate::settings::{Entry, Kind, Node, fixed_regex};

/// Placeholder for a literal secret.
pub(super) const HIDDEN: &str = "(hidden)";

/// Converts a tree to JSON. References to variables and files are kept, because only their values are secret.
pub(super) fn shown(node: &Node) -> Value {
    match &node.kind {
        Kind::Null | Kind::Boolean(_) | Kind::Number(_) | Kind::Text(_) if node.secret => {
            match node.as_text().filter(|text| is_only_references(text.trim())) {
                Some(text) => text.into(),
                None if matches!(node.kind, Kind::Null) => Value::Null,
                None => HIDDEN.into(),
            }
        }
        Kind::Text(text) => without_secrets(text).into(),
        Kind::Null | Kind::Boolean(_) | Kind::Number(_) => node.to_json(),
        Kind::List(items) => items.iter().map(shown).collect(),
        Kind::Map(entries) => Value::Object(entries.iter().map(entry_shown).collect::<Map<_, _>>()),
    }
}

fn entry_shown(Entry { key, value }: &Entry) -> (String, Value) {
    let value = match &value.kind {
        // Arguments of a program may be secrets in any form: only the program and the names of options are
        // shown.
        Kind::List(words) if key.text == "command" => words
            .iter()
            .enumerate()
            .map(|(index, word)| if index == 0 || is_no_secret(word) { shown(word) } else { HIDDEN.into() })
            .collect(),
        _ => shown(value),
    };
    (key.text.clone(), value)
}

/// Whether a word of a command is the name of an option, or only refers to a variable or file.
fn is_no_secret(word: &Node) -> bool {
    let Some(text) = word.as_text() else { return false };
    let is_name =
        |name: &str| !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphabetic() || byte == b'-');
    let is_option = match (text.strip_prefix("--"), text.strip_prefix('-')) {
        (Some(name), _) => is_name(name),
        // More letters may include a value: `-psecret`.
        (None, Some(name)) => name.len() == 1 && is_name(name),
        (None, None) => false,
    };
    is_option || is_only_references(text)
}

/// Masks the defaults of variables, and the credentials that are recognized by their form.
fn without_secrets(text: &str) -> String {
    let masked = |found: &Captures<'_>| format!("${{{}:-{HIDDEN}}}", &found[1]);
    let shown = VARIABLE_WITH_DEFAULT.replace_all(text, masked);
    replaced(&shown, &credentials_in(&shown), HIDDEN)
}

static VARIABLE_WITH_DEFAULT: LazyLock<Regex> = LazyLock::new(|| fixed_regex(r"\$\{([^}]*?):-[^}]+\}"));

#[cfg(test)]
mod tests {
    use super::{super::file, *};
    use crate::settings::report::reading;

    #[track_caller]
    fn check(text: &str, expected: &str) {
        assert_eq!(without_secrets(text), expected);
    }

    #[test]
    fn possible_secrets_are_masked_and_the_rest_is_not() {
        check("http://a.test/b?c=d&e", "http://a.test/b?c=d&e");
        check("${URL:-http://me:word@a.test}/x", "${URL:-(hidden)}/x");
        check("${URL}/x${EMPTY:-}", "${URL}/x${EMPTY:-}");
        check("http://me:word@a.test/b@c", "http://(hidden)@a.test/b@c");
        check(
            "GET old/x?page=1&access_token=word&api_key=${KEY}",
            "GET old/x?page=1&access_token=(hidden)&api_key=${KEY}",
        );
        check("unclosed ${A:-word", "unclosed ${A:-word");
        check("http://a.test, http://me:word@b.test", "http://a.test, http://(hidden)@b.test");
        check("hooks/glpat-abcdefghij1234567890/run", "hooks/(hidden)/run");
        check("Server=db;Password=${PASSWORD:-word};Pwd=word", "Server=db;Password=(hidden);Pwd=(hidden)");
        check("Basic usage of sk-learn", "Basic usage of sk-learn");
    }

    #[test]
    fn a_private_key_is_masked_under_any_name() {
        let text = "\
upstreams:
  a:
    headers:
      X-Digest: |
        -----BEGIN PRIVATE KEY-----
        MIIEvQIBADANBgkqhkiG9w0BAQEF
        -----END PRIVATE KEY-----
      X-Other: shown
";
        let (root, _) = reading(text, |report| file::read(report, 0));
        assert_eq!(
            shown(&root.unwrap()),
            serde_json::json!({ "upstreams": { "a": {
                "headers": { "X-Digest": HIDDEN, "X-Other": "shown" },
            } } })
        );
    }

    #[test]
    fn the_declaration_of_a_key_and_user_defined_names_say_what_is_masked() {
        let text = "\
shared_state: { url: redis://a.test, sentinel_password: { by: mistake } }
server: { tls: { key: word, certificate: shown }, auth: { jwt: { pswrd: word, clock_skew: 30s } } }
clients: { a: { api_key_hashes: word } }
upstreams:
  token: { url: http://a.test, headers: { X-Api-Key: word, X-Client: shown }, pasword: word }
  list: { mcp: http://a.test, tools: { rename: { get_token: token }, describe: { password: x } } }
routes:
  a:
    request: { json: { token: word } }
    input: { token: string }
    response: { extract: { json: { fields: { token: any } } } }
";
        let (root, _) = reading(text, |report| file::read(report, 0));
        assert_eq!(
            shown(&root.unwrap()),
            serde_json::json!({
                "shared_state": { "url": "redis://a.test", "sentinel_password": { "by": HIDDEN } },
                "server": {
                    "tls": { "key": HIDDEN, "certificate": "shown" },
                    "auth": { "jwt": { "pswrd": HIDDEN, "clock_skew": "30s" } },
                },
                "clients": { "a": { "api_key_hashes": HIDDEN } },
                "upstreams": {
                    "token": {
                        "url": "http://a.test",
                        "headers": { "X-Api-Key": HIDDEN, "X-Client": "shown" },
                        "pasword": HIDDEN,
                    },
                    "list": {
                        "mcp": "http://a.test",
                        "tools": { "rename": { "get_token": "token" }, "describe": { "password": "x" } },
                    },
                },
                "routes": { "a": {
                    "request": { "json": { "token": HIDDEN } },
                    "input": { "token": "string" },
                    "response": { "extract": { "json": { "fields": { "token": "any" } } } },
                } },
            })
        );
    }

    #[test]
    fn the_program_and_the_option_names_of_a_command_are_shown() {
        let text =
            "a: { command: [tool, --password, word, -p, -pword, --key=word, \"${KEY}\", \"file:/word\", 7] }";
        let (root, _) = reading(text, |report| file::read(report, 0));
        assert_eq!(
            shown(&root.unwrap()),
            serde_json::json!({ "a": { "command":
                ["tool", "--password", HIDDEN, "-p", HIDDEN, HIDDEN, "${KEY}", "file:/word", HIDDEN] } })
        );
    }
}
