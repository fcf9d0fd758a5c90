//! One file of the configuration: its tree, with the secrets in it marked so that no message shows them.

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

/// Reads one file. `None` when it is not YAML, or empty; that has been reported then.
pub(super) fn read(report: &Report<'_>, file: usize) -> Option<Node> {
    let mut root = tree::read(report, file)?;
    let mut secrets = Vec::new();
    mark_secrets(&mut root, &mut secrets);
    report.files().mask(file, secrets);
    Some(root)
}

/// Marks the values of secret keys in the tree of a whole file, and adds their places to `ranges`.
fn mark_secrets(root: &mut Node, ranges: &mut Vec<Range<usize>>) {
    /// Sections in which the keys are names that the file gives: one may be `auth` or `credentials`, and is
    /// no setting then.
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

/// Below a key of `PLAIN`, names are the file's own words, not keys of settings.
fn mark_entry(entry: &mut Entry, ranges: &mut Vec<Range<usize>>) {
    const PLAIN: [&str; 9] =
        ["extract", "fields", "input", "output", "tests", "names", "rules", "with", "parameters"];
    /// Settings that are texts and nothing else.
    const WORDS: [&str; 6] = ["secret", "secret_key", "token", "password", "client_secret", "bearer"];
    /// Sections in which all members are settings.
    const SETTINGS: [&str; 5] = ["server", "admin", "shared_state", "auth", "credentials"];
    let Entry { key, value } = entry;
    let key = key.text.as_str();
    if PLAIN.contains(&key) {
        return;
    }
    // In the place of the hash of a key there may be the key itself, by mistake.
    let is_key = matches!(key, "api_key_hashes" | "keys" | "hash");
    // `breaker`, an earlier name, is near to `bearer`, and is no misspelt one.
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

/// Hides what is in `auth` and `credentials` under unknown keys: one of them may be a misspelt secret.
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

/// Hides a value with all that is in it, where a text was wanted and something else was written.
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
