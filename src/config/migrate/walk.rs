//! Walk over the tree of a file along the tables of keys, in which old names count as known keys.

use std::collections::HashSet;

use super::expressions::RenamedNames;
use super::{Migration, expressions};
use crate::config::renamed::{Replacement, key_at};
use crate::settings::{Entry, Key, KeyTable, Kind, Node, SourceSpan, Style, ValueKind};

/// Visitor that replaces old names in a tree, and records the corresponding edits of the text.
pub(super) struct Walk<'t> {
    migration: &'t Migration<'t>,
    /// Text from which the tree was parsed.
    text: &'t str,
    /// Offsets of names that are not renamed, because an alias also uses them for something else.
    excluded: &'t HashSet<usize>,
    /// Whether keys are moved into other sections.
    moves: bool,
    /// Number of known keys, including old names.
    pub(super) known_keys: usize,
    pub(super) unknown_keys: usize,
    /// Offsets of keys that keep their names.
    pub(super) unrenamed: HashSet<usize>,
    pub(super) old_names: Vec<OldName>,
    /// Whether strings are searched for variables of jq and templates; not in examples.
    expressions: bool,
}

/// Old name in a file, and the action for it.
pub(super) struct OldName {
    /// Name of the section in messages.
    pub(super) section: &'static str,
    pub(super) span: SourceSpan,
    pub(super) was: String,
    pub(super) action: MigrationAction,
}

/// Action for an old name.
pub(super) enum MigrationAction {
    /// Replace its text.
    Replace(String),
    /// Move it: it becomes the key `leaf` of the section `parent`, which may exist already.
    Move(Box<Move>),
    /// Report it: a person has to review it.
    Remark(String),
}

impl MigrationAction {
    /// The new name; `None` for a remark.
    pub(super) fn new_name(&self) -> Option<String> {
        match self {
            Self::Replace(words) => Some(words.trim_matches(['"', '\'']).to_owned()),
            Self::Move(action) => Some(format!("{}.{}", action.parent, action.leaf)),
            Self::Remark(_) => None,
        }
    }
}

/// Move of a key into a nested section.
pub(super) struct Move {
    pub(super) parent: &'static str,
    pub(super) leaf: &'static str,
    /// Span of the section.
    pub(super) section: SourceSpan,
    /// Keys that are in the section itself, not merged from an alias.
    pub(super) keys: Vec<SourceSpan>,
    /// Span and keys of the section `parent`, if it exists.
    pub(super) target: Option<(SourceSpan, Vec<SourceSpan>)>,
}

/// Match quality of a value and a kind; greater is better.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
enum MatchQuality {
    No,
    /// The kind accepts any value.
    Anything,
    /// A map in which all keys are unknown.
    Unknown,
    /// A map with user-defined keys.
    Names,
    /// A map with this number of unknown and of known keys.
    Section(std::cmp::Reverse<usize>, usize),
    /// A scalar or a list.
    Kind,
}

impl<'t> Walk<'t> {
    pub(super) fn new(
        migration: &'t Migration<'t>,
        text: &'t str,
        excluded: &'t HashSet<usize>,
        moves: bool,
    ) -> Self {
        Self {
            migration,
            text,
            excluded,
            moves,
            known_keys: 0,
            unknown_keys: 0,
            unrenamed: HashSet::new(),
            old_names: Vec::new(),
            expressions: true,
        }
    }

    /// Walks a file that is not a configuration; it may refer to environment variables.
    pub(super) fn walk_other_file(&mut self, node: &mut Node) {
        let names = &self.migration.names;
        match &mut node.kind {
            Kind::Map(entries) => {
                for Entry { key, value } in entries {
                    self.replace_names(&mut key.text, key.span, &names.environment, "environment");
                    self.walk_other_file(value);
                }
            }
            Kind::List(items) => items.iter_mut().for_each(|item| self.walk_other_file(item)),
            Kind::Text(text) if text.style == Style::Inline => {
                self.replace_names(&mut text.text, node.span, &names.environment, "environment");
            }
            Kind::Null | Kind::Boolean(_) | Kind::Number(_) | Kind::Text(_) => {}
        }
    }

    /// Walks a value of a known kind; `at` is its section and the name of its key.
    pub(super) fn value(
        &mut self,
        node: &mut Node,
        kind: &ValueKind,
        at: Option<(&'static KeyTable, &'static str)>,
    ) {
        if let Some((keys, key)) = at
            && let Some(was) = node.scalar()
        {
            return self.scalar(node, &was, kind, keys, key);
        }
        match kind {
            ValueKind::Section(keys) => self.section(node, keys()),
            ValueKind::Either(kinds) => {
                if let Some(kind) = kinds.iter().rev().max_by_key(|kind| self.match_quality(node, kind)) {
                    self.value(node, kind, at);
                }
            }
            ValueKind::List(item) | ValueKind::OneOrMore(item) => match &mut node.kind {
                Kind::List(items) => items.iter_mut().for_each(|node| self.value(node, item, at)),
                _ => self.value(node, item, at),
            },
            ValueKind::Map(item) => {
                if let Kind::Map(entries) = &mut node.kind {
                    entries.iter_mut().for_each(|entry| self.value(&mut entry.value, item, at));
                }
            }
            ValueKind::Anything => self.anything(node, at),
            // A scalar, or a schema, in which no name is ours.
            _ => {}
        }
    }

    /// Walks a value in which every string is a template.
    fn anything(&mut self, node: &mut Node, at: Option<(&'static KeyTable, &'static str)>) {
        match &mut node.kind {
            Kind::Map(entries) => entries.iter_mut().for_each(|entry| self.anything(&mut entry.value, at)),
            Kind::List(items) => items.iter_mut().for_each(|item| self.anything(item, at)),
            Kind::Text(text) => {
                let section = at.map_or("", |(keys, _)| keys.section);
                self.expression(&mut text.text, node.span, section);
            }
            Kind::Null | Kind::Boolean(_) | Kind::Number(_) => {}
        }
    }

    fn scalar(&mut self, node: &mut Node, was: &str, kind: &ValueKind, keys: &'static KeyTable, key: &str) {
        let span = node.span;
        if let Some(now) = self.migration.renames.word(keys.id, key, was) {
            if self.replace(span, was, now, keys.section) {
                node.kind = Node::from_text(now, span).kind;
            }
        } else if let Kind::Text(text) = &mut node.kind
            && !matches!(kind, ValueKind::JsonSchema)
        {
            self.expression(&mut text.text, span, keys.section);
        }
    }

    fn expression(&mut self, text: &mut String, span: SourceSpan, section: &'static str) {
        let names = &self.migration.names;
        if self.expressions {
            self.replace_names(text, span, &names.expressions, section);
        }
        self.replace_names(text, span, &names.environment, section);
    }

    /// Replaces names in a string, if they occur in the file in the same form.
    fn replace_names(
        &mut self,
        text: &mut String,
        span: SourceSpan,
        words: &RenamedNames,
        section: &'static str,
    ) {
        let Some(written) = self.text.get(span.start..span.end) else { return };
        let (found, unsure) = expressions::find(text, words);
        for word in unsure {
            self.remark(span, &word, section, format!("`{word}` may refer to something else here"));
        }
        if found.is_empty() {
            return;
        }
        let (in_file, _) = expressions::find(written, words);
        let is_same = found.iter().map(|word| &word.now).eq(in_file.iter().map(|word| &word.now));
        if !is_same || self.excluded.contains(&span.start) {
            for word in found {
                self.remark(span, &word.was, section, format!("`{}` is now `{}`", word.was, word.now));
            }
            return;
        }
        for word in in_file {
            let start = span.start + word.at;
            let span = SourceSpan { start, end: start + word.was.len(), ..span };
            self.add(span, &word.was, section, MigrationAction::Replace(word.now));
        }
        for word in found.iter().rev() {
            text.replace_range(word.at..word.at + word.was.len(), &word.now);
        }
    }

    fn section(&mut self, node: &mut Node, keys: &'static KeyTable) {
        let span = node.span;
        let Kind::Map(entries) = &mut node.kind else { return };
        self.remove_hidden(entries, span, keys);
        let outer = self.expressions;
        self.expressions &= keys.id != "example";
        let mut moved = Vec::new();
        for index in 0..entries.len() {
            let Key { text: name, span: place } = entries[index].key.clone();
            let (owner, key) = match (keys.get(&name), self.migration.renames.key(keys.id, &name)) {
                (Some(key), _) => {
                    self.unrenamed.insert(place.start);
                    (keys, key)
                }
                (None, Some(Replacement::Key(path))) => {
                    let Some(found) = key_at(keys, path) else { continue };
                    if self.rename(entries, index, span, keys, path) {
                        moved.push((index, path));
                    }
                    found
                }
                (None, Some(Replacement::Removed(help))) => {
                    self.known_keys += 1;
                    self.remark(place, &name, keys.section, format!("`{name}` was removed: {help}"));
                    continue;
                }
                (None, Some(Replacement::Word(..)) | None) => {
                    self.unrenamed.insert(place.start);
                    self.unknown_keys += 1;
                    continue;
                }
            };
            self.known_keys += 1;
            self.value(&mut entries[index].value, &key.kind, Some((owner, key.name)));
        }
        move_in_tree(entries, &moved);
        self.expressions = outer;
    }

    /// Removes entries that `<<` merges under an old name if the section itself has the new name, because its
    /// own key takes precedence.
    fn remove_hidden(&self, entries: &mut Vec<Entry>, section: SourceSpan, keys: &KeyTable) {
        let names: Vec<_> = entries.iter().map(|entry| entry.key.text.clone()).collect();
        entries.retain(|entry| {
            let is_own = (section.start..section.end).contains(&entry.key.span.start);
            let now = self.migration.renames.key(keys.id, &entry.key.text);
            is_own || !matches!(now, Some(Replacement::Key(now)) if names.iter().any(|name| name == now))
        });
    }

    /// Renames a key. Returns whether it must also be moved.
    fn rename(
        &mut self,
        entries: &mut [Entry],
        index: usize,
        section: SourceSpan,
        keys: &'static KeyTable,
        path: &'static str,
    ) -> bool {
        let Key { text: name, span } = entries[index].key.clone();
        let (first, rest) = path.split_once('.').map_or((path, None), |(first, rest)| (first, Some(rest)));
        let there = entries.iter().find(|entry| entry.key.text == first);
        let is_taken = match rest {
            None => there.is_some(),
            Some(leaf) => there.is_some_and(|there| {
                there.value.as_map().is_none() || there.value.get(leaf).is_some() || leaf.contains('.')
            }),
        };
        if is_taken {
            let message = format!("`{name}` is now `{path}`, which is also present");
            self.remark(span, &name, keys.section, message);
            return false;
        }
        let Some(leaf) = rest else {
            if self.replace(span, &name, path, keys.section) {
                path.clone_into(&mut entries[index].key.text);
            }
            return false;
        };
        if !self.moves || self.excluded.contains(&span.start) {
            self.remark(span, &name, keys.section, format!("`{name}` is now `{path}`: move it by hand"));
            return false;
        }
        let own = |section: SourceSpan, entries: &[Entry]| -> Vec<SourceSpan> {
            let spans = entries.iter().map(|entry| entry.key.span);
            spans.filter(|key| (section.start..section.end).contains(&key.start)).collect()
        };
        let target = there
            .map(|there| (there.value.span, own(there.value.span, there.value.as_map().unwrap_or_default())));
        let action = Move { parent: first, leaf, section, keys: own(section, entries), target };
        self.add(span, &name, keys.section, MigrationAction::Move(Box::new(action)));
        true
    }

    /// Records a replacement. Returns `false` if the text is unchanged.
    fn replace(&mut self, span: SourceSpan, was: &str, now: &str, section: &'static str) -> bool {
        let written = self.text.get(span.start..span.end).unwrap_or_default();
        let quoted =
            |quote: char| written.starts_with(quote) && written.ends_with(quote) && written.len() > 1;
        let words = match written {
            _ if written == was => now.to_owned(),
            _ if quoted('"') => format!("\"{now}\""),
            _ if quoted('\'') => format!("'{now}'"),
            _ => {
                self.remark(span, was, section, format!("`{was}` is now `{now}`"));
                return false;
            }
        };
        if self.excluded.contains(&span.start) {
            let message = format!("`{was}` is now `{now}`, but an alias uses it for something else");
            self.remark(span, was, section, message);
            return false;
        }
        self.add(span, was, section, MigrationAction::Replace(words));
        true
    }

    fn remark(&mut self, span: SourceSpan, was: &str, section: &'static str, message: String) {
        self.add(span, was, section, MigrationAction::Remark(message));
    }

    fn add(&mut self, span: SourceSpan, was: &str, section: &'static str, action: MigrationAction) {
        self.old_names.push(OldName { section, span, was: was.to_owned(), action });
    }

    /// Match quality of a value and a kind. Compares only its own kind and keys, so that it is fast.
    fn match_quality(&self, node: &Node, kind: &ValueKind) -> MatchQuality {
        let is_map = matches!(node.kind, Kind::Map(_));
        let is_list = matches!(node.kind, Kind::List(_));
        match kind {
            ValueKind::Section(keys) => {
                let (keys, Some(entries)) = (keys(), node.as_map()) else { return MatchQuality::No };
                let is_known = |entry: &&Entry| {
                    let name = &entry.key.text;
                    keys.get(name).is_some() || self.migration.renames.key(keys.id, name).is_some()
                };
                match entries.iter().filter(is_known).count() {
                    0 => MatchQuality::Unknown,
                    known => MatchQuality::Section(std::cmp::Reverse(entries.len() - known), known),
                }
            }
            ValueKind::Map(_) if is_map => MatchQuality::Names,
            ValueKind::List(_) | ValueKind::OneOrMore(_) if is_list => MatchQuality::Kind,
            ValueKind::OneOrMore(item) => self.match_quality(node, item),
            ValueKind::Either(kinds) => {
                kinds.iter().map(|kind| self.match_quality(node, kind)).max().unwrap_or(MatchQuality::No)
            }
            ValueKind::Anything | ValueKind::JsonSchema => MatchQuality::Anything,
            ValueKind::Map(_) | ValueKind::List(_) => MatchQuality::No,
            _ if is_map || is_list => MatchQuality::No,
            _ => MatchQuality::Kind,
        }
    }
}

/// Moves keys in the tree, each given by its index and its new path.
fn move_in_tree(entries: &mut Vec<Entry>, moved: &[(usize, &'static str)]) {
    let mut taken = Vec::new();
    for (index, path) in moved.iter().rev() {
        taken.push((entries.remove(*index), *path));
    }
    for (mut entry, path) in taken.into_iter().rev() {
        let Some((parent, leaf)) = path.split_once('.') else { continue };
        leaf.clone_into(&mut entry.key.text);
        match entries.iter_mut().find(|entry| entry.key.text == parent) {
            Some(Entry { value: Node { kind: Kind::Map(inside), .. }, .. }) => inside.push(entry),
            Some(_) => {}
            None => {
                let span = entry.key.span;
                entries.push(Entry::new(parent, Node::new(Kind::Map(vec![entry]), span), span));
            }
        }
    }
}
