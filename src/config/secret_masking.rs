//! Masking of the secrets in a configuration: no message contains them, and operators see the configuration
//! with `(hidden)` in their place.
//!
//! The declaration of a key specifies whether its value is masked ([`Masking`]). Other values have keys that
//! are not declared: misspelled or misplaced keys, and names that the operator chooses, for example of
//! headers and environment variables. Such values are masked depending on their names.

use std::{collections::BTreeSet, ops::Range, sync::LazyLock};

use regex::{Captures, Regex};
use serde_json::{Map, Value};

use super::renamed::{self, RENAMES, Replacement};
use crate::settings::credential_forms::{credentials_in, replaced};
use crate::settings::secret::{is_only_references, is_secret_name};
use crate::settings::{
    Entry, KeySpec, KeyTable, Kind, Masking, Node, ShortForm, ValueKind, fixed_regex, suggest,
};

/// Names of all declared keys, including former names.
struct DeclaredNames {
    all: BTreeSet<&'static str>,
    /// Names of keys whose values are masked.
    masked: Vec<&'static str>,
}

static DECLARED: LazyLock<DeclaredNames> = LazyLock::new(|| {
    /// Minimum length of a masked name that is searched for; a shorter name resembles too many others.
    const MIN_LENGTH: usize = 5;
    let sections = renamed::sections();
    let keys = || sections.iter().flat_map(|keys| keys().keys());
    let masked = keys().filter(|key| key.masking == Masking::Always).map(|key| key.name);
    DeclaredNames {
        all: keys().map(|key| key.name).chain(RENAMES.settings.iter().map(|row| row.key)).collect(),
        masked: masked.filter(|name| name.len() >= MIN_LENGTH).collect(),
    }
});

/// Byte ranges of the secrets found in a file.
#[derive(Default)]
pub(super) struct Secrets {
    pub(super) ranges: Vec<Range<usize>>,
}

impl Secrets {
    /// Marks the secrets in a value, which may be of any of `kinds`. With empty `kinds`, no declaration
    /// describes the value: a nested value is marked if its name resembles the name of a credential.
    /// `masks_unknown_keys` is set if an enclosing section masks the values of unknown keys.
    pub(super) fn mark(&mut self, node: &mut Node, kinds: &[ValueKind], masks_unknown_keys: bool) {
        let kinds = Kinds::new(kinds);
        let masks_unknown_keys =
            masks_unknown_keys || kinds.sections.iter().any(|section| section.masks_unknown_keys);
        match &mut node.kind {
            Kind::Map(entries) => {
                entries.iter_mut().for_each(|entry| self.mark_entry(entry, &kinds, masks_unknown_keys));
            }
            Kind::List(items) if kinds.items.is_empty() && masks_unknown_keys => {
                items.iter_mut().for_each(|item| self.hide_all(item));
            }
            Kind::List(_) if kinds.items.is_empty() && kinds.is_schema => {}
            Kind::List(items) => {
                items.iter_mut().for_each(|item| self.mark(item, &kinds.items, masks_unknown_keys));
            }
            Kind::Null | Kind::Boolean(_) | Kind::Number(_) | Kind::Text(_) => {
                let is_masked = kinds.sections.iter().any(|section| {
                    let ShortForm::Text(key) = section.short_form else { return false };
                    section.get(key).is_some_and(|key| key.masking == Masking::Always)
                });
                // A scalar where a section is expected is probably the value of one of the section's keys.
                let accepts_scalar = kinds.sections.is_empty() || kinds.accepts_text || kinds.accepts_scalars;
                if is_masked || masks_unknown_keys && !accepts_scalar {
                    self.hide(node);
                }
            }
        }
    }

    /// Marks the secrets in one entry of a map; `kinds` are the possible kinds of the map.
    fn mark_entry(&mut self, Entry { key, value }: &mut Entry, kinds: &Kinds, masks_unknown_keys: bool) {
        let declared: Vec<_> =
            kinds.sections.iter().copied().filter_map(|section| key_of(section, &key.text)).collect();
        if !declared.is_empty() {
            if declared.iter().any(|key| key.masking == Masking::Always) {
                self.hide_all(value);
            } else if declared.iter().any(|key| key.masking != Masking::Never) {
                let kinds: Vec<_> = declared.iter().map(|key| key.kind).collect();
                self.mark(value, &kinds, masks_unknown_keys);
            }
        } else if !kinds.values.is_empty() {
            let values = Kinds::new(&kinds.values);
            if values.accepts_text && is_secret_name(&key.text) {
                self.hide(value);
            }
            self.mark(value, &kinds.values, masks_unknown_keys);
        } else if masks_unknown_keys {
            self.hide_all(value);
        } else if !kinds.is_schema {
            // The key is not declared, so its name decides.
            if is_secret_name(&key.text) || is_misspelled_secret(&key.text) {
                self.hide(value);
            }
            self.mark(value, &[], false);
        }
    }

    /// Marks all scalars in a value, in case a secret string is by mistake a map or list.
    fn hide_all(&mut self, node: &mut Node) {
        for_each_scalar(node, &mut |node| self.hide(node));
    }

    pub(super) fn hide(&mut self, node: &mut Node) {
        match &mut node.kind {
            Kind::Text(text) if is_only_references(text) => {}
            Kind::Text(_) | Kind::Number(_) => {
                node.secret = true;
                self.ranges.push(node.span.start..node.span.end);
            }
            Kind::List(items) => items.iter_mut().for_each(|item| self.hide(item)),
            Kind::Null | Kind::Boolean(_) | Kind::Map(_) => {}
        }
    }
}

/// Visits each scalar of a value.
pub(super) fn for_each_scalar(node: &mut Node, visit: &mut impl FnMut(&mut Node)) {
    match &mut node.kind {
        Kind::Map(entries) => entries.iter_mut().for_each(|entry| for_each_scalar(&mut entry.value, visit)),
        Kind::List(items) => items.iter_mut().for_each(|item| for_each_scalar(item, visit)),
        Kind::Null | Kind::Boolean(_) | Kind::Number(_) | Kind::Text(_) => visit(node),
    }
}

/// Whether an undeclared name is probably a misspelled masked key.
fn is_misspelled_secret(name: &str) -> bool {
    !DECLARED.all.contains(name) && suggest::nearest(name, DECLARED.masked.iter().copied()).is_some()
}

/// Looks up a key of a section by its present or its former name.
fn key_of(section: &'static KeyTable, name: &str) -> Option<&'static KeySpec> {
    section.get(name).or_else(|| {
        let Some(Replacement::Key(path)) = RENAMES.key(section.id, name) else { return None };
        Some(renamed::key_at(section, path)?.1)
    })
}

/// The possible kinds of a value, grouped into sections, lists, maps and scalars.
#[derive(Default)]
struct Kinds {
    sections: Vec<&'static KeyTable>,
    /// Possible kinds of the items, if the value is a list.
    items: Vec<ValueKind>,
    /// Possible kinds of the values, if the value is a map with user-defined names.
    values: Vec<ValueKind>,
    /// Whether some scalars, such as numbers, are valid.
    accepts_scalars: bool,
    /// Whether any string is valid.
    accepts_text: bool,
    /// Whether the value is a JSON Schema; the names in it are names of arguments and fields.
    is_schema: bool,
}

impl Kinds {
    fn new(kinds: &[ValueKind]) -> Self {
        let mut sorted = Self::default();
        kinds.iter().for_each(|kind| sorted.add(*kind));
        sorted
    }

    fn add(&mut self, kind: ValueKind) {
        match kind {
            ValueKind::Section(section) => {
                let section = section();
                self.accepts_scalars |= matches!(section.short_form, ShortForm::Text(_));
                self.sections.push(section);
            }
            ValueKind::Either(kinds) => kinds.iter().for_each(|kind| self.add(*kind)),
            ValueKind::List(item) => self.items.push(*item),
            ValueKind::OneOrMore(item) => {
                self.items.push(*item);
                self.add(*item);
            }
            ValueKind::Map(value) => self.values.push(*value),
            ValueKind::Text | ValueKind::Scalar | ValueKind::Anything => self.accepts_text = true,
            ValueKind::JsonSchema => self.is_schema = true,
            ValueKind::Enum(_)
            | ValueKind::Boolean
            | ValueKind::FieldType
            | ValueKind::Duration(..)
            | ValueKind::Size(..)
            | ValueKind::Count(..)
            | ValueKind::Fraction
            | ValueKind::Null => self.accepts_scalars = true,
        }
    }
}

/// String shown in place of a literal secret.
pub(super) const HIDDEN: &str = "(hidden)";

/// Converts a tree to JSON with masked secrets. References to variables and files remain, because only their
/// values are secret.
pub(super) fn masked_json(node: &Node) -> Value {
    match &node.kind {
        _ if node.secret => HIDDEN.into(),
        Kind::Text(text) => without_secrets(text).into(),
        Kind::Null | Kind::Boolean(_) | Kind::Number(_) => node.to_json(),
        Kind::List(items) => items.iter().map(masked_json).collect(),
        Kind::Map(entries) => Value::Object(entries.iter().map(masked_entry).collect::<Map<_, _>>()),
    }
}

fn masked_entry(Entry { key, value }: &Entry) -> (String, Value) {
    let value = match &value.kind {
        // Any argument of a program may be a secret, so only the program and the names of options are shown.
        Kind::List(words) if key.text == "command" => words
            .iter()
            .enumerate()
            .map(
                |(index, word)| {
                    if index == 0 || is_no_secret(word) { masked_json(word) } else { HIDDEN.into() }
                },
            )
            .collect(),
        _ => masked_json(value),
    };
    (key.text.clone(), value)
}

/// Whether a word of a command is the name of an option, or consists of references to variables and files.
fn is_no_secret(word: &Node) -> bool {
    let Some(text) = word.as_text() else { return false };
    let is_name =
        |name: &str| !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphabetic() || byte == b'-');
    let is_option = match (text.strip_prefix("--"), text.strip_prefix('-')) {
        (Some(name), _) => is_name(name),
        // An option with more letters may include its value, as in `-psecret`.
        (None, Some(name)) => name.len() == 1 && is_name(name),
        (None, None) => false,
    };
    is_option || is_only_references(text)
}

/// Masks default values of variables, and credentials that are recognized by their form.
fn without_secrets(text: &str) -> String {
    let masked = |captures: &Captures<'_>| format!("${{{}:-{HIDDEN}}}", &captures[1]);
    let masked_text = VARIABLE_WITH_DEFAULT.replace_all(text, masked);
    replaced(&masked_text, &credentials_in(&masked_text), HIDDEN)
}

static VARIABLE_WITH_DEFAULT: LazyLock<Regex> = LazyLock::new(|| fixed_regex(r"\$\{([^}]*?):-[^}]+\}"));

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::file;
    use crate::settings::problem_collector::reading;

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
            masked_json(&root.unwrap()),
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
            masked_json(&root.unwrap()),
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
            masked_json(&root.unwrap()),
            serde_json::json!({ "a": { "command":
                ["tool", "--password", HIDDEN, "-p", HIDDEN, HIDDEN, "${KEY}", "file:/word", HIDDEN] } })
        );
    }
}
