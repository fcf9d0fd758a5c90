//! A map while it grows: its keys, which are there once, and what `<<` puts into it.

use std::collections::HashMap;

use super::{Entry, Key, Kind, Node};
use crate::settings::{code::Code, report::Report};

/// A map that has not ended yet.
#[derive(Default)]
pub(super) struct OpenMap {
    entries: Vec<Entry>,
    /// Where each key stands in `entries`.
    seen: HashMap<String, usize>,
    /// What `<<` names, to be put in at the end.
    merge: Option<Entry>,
    /// The key whose value has not come yet.
    key: Option<OpenKey>,
}

/// A key that waits for its value.
enum OpenKey {
    Name(Key),
    /// A plain `<<`.
    Merge(Key),
}

impl OpenMap {
    /// Whether a key comes next, and not the value of one.
    pub(super) fn wants_key(&self) -> bool {
        self.key.is_none()
    }

    /// Takes a plain `<<`, which is no name.
    pub(super) fn take_merge(&mut self, key: Key) {
        self.key = Some(OpenKey::Merge(key));
    }

    /// Takes the next key, or the value of the last one.
    pub(super) fn take(&mut self, report: &Report<'_>, node: Node) {
        match self.key.take() {
            None => self.key = Some(OpenKey::Name(key(report, &node))),
            Some(OpenKey::Name(key)) => self.add(report, Entry { value: at_key(node, &key), key }),
            Some(OpenKey::Merge(key)) => {
                let entry = Entry { value: at_key(node, &key), key };
                match &self.merge {
                    None => self.merge = Some(entry),
                    Some(first) => refuse_second(report, first, &entry),
                }
            }
        }
    }

    fn add(&mut self, report: &Report<'_>, entry: Entry) {
        if let Some(&first) = self.seen.get(&entry.key.text) {
            refuse_second(report, &self.entries[first], &entry);
            return;
        }
        self.seen.insert(entry.key.text.clone(), self.entries.len());
        self.entries.push(entry);
    }

    /// The entries with what `<<` names; keys that are written out win.
    pub(super) fn into_entries(self, report: &Report<'_>) -> Vec<Entry> {
        let Self { mut entries, mut seen, merge, .. } = self;
        // Most maps are small, and stay until all of them are read: room for four entries is much for one.
        entries.shrink_to_fit();
        let Some(Entry { key, value }) = merge else { return entries };
        let maps = match value.kind {
            Kind::Map(entries) => vec![entries],
            Kind::List(items) if items.iter().all(|item| item.as_map().is_some()) => {
                items.iter().filter_map(Node::as_map).map(<[Entry]>::to_vec).collect()
            }
            Kind::Nothing | Kind::Flag(_) | Kind::Number(_) | Kind::Text(_) | Kind::List(_) => {
                let message = format!("`<<` takes a map, or a list of maps; found {}", value.found());
                report.error(
                    Code::InvalidMergeKey.at(key.span),
                    message,
                    "name an anchor that stands on a map: `<<: *common`",
                );
                return entries;
            }
        };
        for entry in maps.into_iter().flatten() {
            if seen.insert(entry.key.text.clone(), entries.len()).is_none() {
                entries.push(entry);
            }
        }
        entries
    }
}

/// The value of a key; nothing stands where its key does.
fn at_key(value: Node, key: &Key) -> Node {
    let span = if matches!(value.kind, Kind::Nothing) { key.span } else { value.span };
    Node { span, ..value }
}

fn key(report: &Report<'_>, node: &Node) -> Key {
    let span = node.span;
    let written = || report.files().text(span).get(span.start..span.end).unwrap_or_default();
    let text = match &node.kind {
        Kind::Nothing => Some(written().to_owned()),
        // The text as written: `1.0` and `True` are names here.
        Kind::Flag(_) | Kind::Number(_) => Some(written().trim().to_owned()),
        Kind::Text(_) | Kind::List(_) | Kind::Map(_) => node.scalar(),
    };
    if text.is_none() {
        report.error(
            Code::InvalidKey.at(span),
            format!("a key is a text; found {}", node.found()),
            "put a text that begins with `{` or `[` in quotes",
        );
    }
    Key { text: text.unwrap_or_default(), span }
}

fn refuse_second(report: &Report<'_>, first: &Entry, second: &Entry) {
    let line = report.files().place(first.key.span).line;
    let message = format!("the key `{}` is here twice, first in line {line}", second.key.text);
    report.error(Code::DuplicateKey.at(second.key.span), message, "keep one of them");
}
