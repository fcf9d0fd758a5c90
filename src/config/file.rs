//! Parser for one file of the configuration, which marks the secrets in it so that no message contains them.

use std::ops::Range;

use super::{renamed::RENAMES, upstreams::UpstreamSection};
use crate::{
    auth::{ResourceServer, TokenSettings},
    settings::{
        report::Report,
        secret::{is_only_references, is_secret_name},
        section::Section as _,
        suggest,
        tree::{self, Entry, Kind, Node},
    },
    tls::TlsSection,
    upstream::http::{BasicCredentials, CredentialsSection, OAuthSettings},
};

/// Parses one file. Returns `None` after reporting that it is invalid or empty.
pub(super) fn read(report: &Report<'_>, file: usize) -> Option<Node> {
    let mut root = tree::read(report, file)?;
    let mut secrets = Vec::new();
    mark_secrets(&mut root, &mut secrets);
    report.files().mask(file, secrets);
    Some(root)
}

/// Marks the values of secret keys in the tree of a file, and adds their byte ranges to `ranges`.
fn mark_secrets(root: &mut Node, ranges: &mut Vec<Range<usize>>) {
    /// Sections with user-defined keys: a name such as `auth` or `credentials` is not a setting there.
    const NAMED: [&str; 4] = ["upstreams", "routes", "clients", "prompts"];
    let Kind::Map(entries) = &mut root.kind else { return mark_below(root, ranges) };
    for entry in entries {
        match &mut entry.value.kind {
            Kind::Map(named) if NAMED.contains(&entry.key.text.as_str()) => {
                named.iter_mut().for_each(|named| mark_below(&mut named.value, ranges));
            }
            _ => mark_entry(entry, ranges),
        }
    }
}

fn mark_below(node: &mut Node, ranges: &mut Vec<Range<usize>>) {
    match &mut node.kind {
        Kind::Map(entries) => entries.iter_mut().for_each(|entry| mark_entry(entry, ranges)),
        Kind::List(items) => items.iter_mut().for_each(|item| mark_below(item, ranges)),
        Kind::Nothing | Kind::Flag(_) | Kind::Number(_) | Kind::Text(_) => {}
    }
}

/// Marks the value of an entry. Maps below a key of `PLAIN` have user-defined keys.
fn mark_entry(entry: &mut Entry, ranges: &mut Vec<Range<usize>>) {
    const PLAIN: [&str; 9] =
        ["extract", "fields", "input", "output", "tests", "names", "rules", "with", "parameters"];
    /// Settings that are strings only.
    const WORDS: [&str; 6] = ["secret", "secret_key", "token", "password", "client_secret", "bearer"];
    /// Sections without user-defined keys.
    const SETTINGS: [&str; 5] = ["server", "admin", "shared_state", "auth", "credentials"];
    let Entry { key, value } = entry;
    let key = key.text.as_str();
    if PLAIN.contains(&key) {
        return;
    }
    // The key itself may be here by mistake in place of its hash.
    let is_key = matches!(key, "api_key_hashes" | "keys" | "hash");
    // `breaker`, an old name, is close to `bearer`, and is not a misspelled `bearer`.
    let upstream = UpstreamSection::keys();
    let is_setting = upstream.get(key).is_some() || RENAMES.key(upstream.id, key).is_some();
    let is_misspelt = !is_setting && suggest::nearest(key, WORDS).is_some();
    if is_key || is_secret_name(key) || is_misspelt {
        hide(value, ranges);
    }
    if let (Kind::Map(settings), true) = (&mut value.kind, SETTINGS.contains(&key)) {
        let words = settings.iter_mut().filter(|setting| WORDS.contains(&setting.key.text.as_str()));
        words.for_each(|setting| hide_all(&mut setting.value, ranges));
    }
    if matches!(key, "auth" | "credentials") {
        hide_unknown(value, ranges);
    }
    mark_below(value, ranges);
}

/// Marks the values of unknown keys in `auth` and `credentials`: one may be a misspelled secret.
fn hide_unknown(node: &mut Node, ranges: &mut Vec<Range<usize>>) {
    let known = [
        CredentialsSection::keys(),
        BasicCredentials::keys(),
        OAuthSettings::keys(),
        TlsSection::keys(),
        ResourceServer::keys(),
        TokenSettings::keys(),
    ];
    let Kind::Map(entries) = &mut node.kind else { return };
    for Entry { key, value } in entries.iter_mut().filter(|entry| entry.key.text != "parameters") {
        if known.iter().all(|keys| keys.get(&key.text).is_none()) {
            hide(value, ranges);
        }
        hide_unknown(value, ranges);
    }
}

/// Marks all scalars in a value: a setting that should be a string is a map or list by mistake.
fn hide_all(node: &mut Node, ranges: &mut Vec<Range<usize>>) {
    match &mut node.kind {
        Kind::Map(entries) => entries.iter_mut().for_each(|entry| hide_all(&mut entry.value, ranges)),
        Kind::List(items) => items.iter_mut().for_each(|item| hide_all(item, ranges)),
        _ => hide(node, ranges),
    }
}

fn hide(node: &mut Node, ranges: &mut Vec<Range<usize>>) {
    match &mut node.kind {
        Kind::Text(text) if is_only_references(&text.text) => {}
        Kind::Text(_) | Kind::Number(_) => {
            node.secret = true;
            ranges.push(node.span.start..node.span.end);
        }
        Kind::List(items) => items.iter_mut().for_each(|item| hide(item, ranges)),
        Kind::Nothing | Kind::Flag(_) | Kind::Map(_) => {}
    }
}
