//! Builder of a map: checks that each key occurs once and applies merge keys (`<<`).

use std::collections::HashMap;

use super::{Entry, Key, Kind, Node};
use crate::settings::{code::Code, report::Report};

/// Map whose end event has not been received.
#[derive(Default)]
pub(super) struct OpenMap {
    entries: Vec<Entry>,
    /// Index of each key in `entries`.
    seen: HashMap<String, usize>,
    /// Value of `<<`, which is merged at the end of the map.
    merge: Option<Entry>,
    /// Key without a value so far.
    key: Option<OpenKey>,
}

/// Key without a value so far.
enum OpenKey {
    Name(Key),
    /// A plain `<<`.
    Merge(Key),
}

impl OpenMap {
    /// Whether the next node is a key.
    pub(super) fn wants_key(&self) -> bool {
        self.key.is_none()
    }

    /// Accepts a plain `<<` as a merge key.
    pub(super) fn add_merge_key(&mut self, key: Key) {
        self.key = Some(OpenKey::Merge(key));
    }

    /// Accepts the next node: a key, or the value of the last key.
    pub(super) fn add_node(&mut self, report: &Report<'_>, node: Node) {
        match self.key.take() {
            None => self.key = Some(OpenKey::Name(key_from_node(report, &node))),
            Some(OpenKey::Name(key)) => self.add(report, Entry { value: with_key_span(node, &key), key }),
            Some(OpenKey::Merge(key)) => {
                let entry = Entry { value: with_key_span(node, &key), key };
                match &self.merge {
                    None => self.merge = Some(entry),
                    Some(first) => report_duplicate(report, first, &entry),
                }
            }
        }
    }

    fn add(&mut self, report: &Report<'_>, entry: Entry) {
        if let Some(&first) = self.seen.get(&entry.key.text) {
            report_duplicate(report, &self.entries[first], &entry);
            return;
        }
        self.seen.insert(entry.key.text.clone(), self.entries.len());
        self.entries.push(entry);
    }

    /// Returns the entries, with those of `<<` merged; the map's own keys take precedence.
    pub(super) fn into_entries(self, report: &Report<'_>) -> Vec<Entry> {
        let Self { mut entries, mut seen, merge, .. } = self;
        // Most maps have fewer than the four entries of a new vector's capacity, and all maps are kept until
        // the file is compiled.
        entries.shrink_to_fit();
        let Some(Entry { key, value }) = merge else { return entries };
        let maps = match value.kind {
            Kind::Map(entries) => vec![entries],
            Kind::List(items) if items.iter().all(|item| item.as_map().is_some()) => {
                items.iter().filter_map(Node::as_map).map(<[Entry]>::to_vec).collect()
            }
            Kind::Null | Kind::Boolean(_) | Kind::Number(_) | Kind::Text(_) | Kind::List(_) => {
                let message = format!("`<<` must be a map or a list of maps, found {}", value.found());
                report.error(
                    Code::InvalidMergeKey.at_span(key.span),
                    message,
                    "refer to the anchor of a map: `<<: *common`",
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

/// Gives an absent value the span of its key.
fn with_key_span(value: Node, key: &Key) -> Node {
    let span = if matches!(value.kind, Kind::Null) { key.span } else { value.span };
    Node { span, ..value }
}

fn key_from_node(report: &Report<'_>, node: &Node) -> Key {
    let span = node.span;
    let written = || report.files().text(span).get(span.start..span.end).unwrap_or_default();
    let text = match &node.kind {
        Kind::Null => Some(written().to_owned()),
        // Keys keep their spelling: `1.0` and `True` are names here.
        Kind::Boolean(_) | Kind::Number(_) => Some(written().trim().to_owned()),
        Kind::Text(_) | Kind::List(_) | Kind::Map(_) => node.scalar(),
    };
    if text.is_none() {
        report.error(
            Code::InvalidKey.at_span(span),
            format!("a key must be a string, found {}", node.found()),
            "put a string that begins with `{` or `[` in quotes",
        );
    }
    Key { text: text.unwrap_or_default(), span }
}

fn report_duplicate(report: &Report<'_>, first: &Entry, second: &Entry) {
    let line = report.files().line_and_column(first.key.span).line;
    let message = format!("duplicate key `{}`, first defined in line {line}", second.key.text);
    report.error(Code::DuplicateKey.at_span(second.key.span), message, "remove one of the two");
}
