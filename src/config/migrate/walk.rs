//! Walk over the tree of a file along the key tables; old names count as known keys. Also finds renamed
//! variables in jq and templates, and renamed environment variables in strings.

use std::collections::HashSet;

use super::Migration;
use crate::config::renamed::{Replacement, key_at};
use crate::settings::{Entry, Key, KeyTable, Kind, Node, SourceSpan, ValueKind};

/// Visitor that replaces old names in a tree and records the corresponding edits of the text.
pub(super) struct Walk<'t> {
    migration: &'t Migration<'t>,
    /// Text from which the tree was parsed.
    text: &'t str,
    /// Offsets of names that must not be renamed, because an alias uses the same text in another meaning.
    excluded: &'t HashSet<usize>,
    /// Number of known keys, including old names.
    pub(super) known_keys: usize,
    pub(super) unknown_keys: usize,
    /// Offsets of keys whose names are not changed.
    pub(super) unrenamed: HashSet<usize>,
    pub(super) replaced: Vec<ReplacedName>,
    /// Messages about places that have to be reviewed by hand.
    pub(super) remarks: Vec<(SourceSpan, String)>,
    /// Whether strings are searched for variables of jq and templates; examples are not searched.
    searches_expressions: bool,
}

/// A name in the file that is replaced.
pub(super) struct ReplacedName {
    /// Name of the section in messages.
    pub(super) section: &'static str,
    /// Span of the name, including quotes.
    pub(super) span: SourceSpan,
    pub(super) was: String,
    pub(super) now: String,
}

/// Renamed names to search for in strings.
pub(super) struct RenamedNames {
    pub(super) names: Vec<(String, String)>,
    /// Whether to match only `$name` of jq and names in `{{ }}` and `{% %}`; otherwise, whole words are
    /// matched anywhere.
    pub(super) in_expressions: bool,
}

/// Occurrence of a renamed name in a text: its offset, the old name and the new one.
type NameOccurrence<'n> = (usize, &'n str, &'n str);

/// How well a value matches a kind; greater is better.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
enum MatchQuality {
    No,
    /// The kind accepts any value.
    Anything,
    /// The value is a map in which all keys are unknown.
    Unknown,
    /// The value is a map with user-defined keys.
    Names,
    /// The value is a map with these numbers of unknown and known keys.
    Section(std::cmp::Reverse<usize>, usize),
    /// The value is a scalar or a list of the kind.
    Kind,
}

impl<'t> Walk<'t> {
    pub(super) fn new(migration: &'t Migration<'t>, text: &'t str, excluded: &'t HashSet<usize>) -> Self {
        Self {
            migration,
            text,
            excluded,
            known_keys: 0,
            unknown_keys: 0,
            unrenamed: HashSet::new(),
            replaced: Vec::new(),
            remarks: Vec::new(),
            searches_expressions: true,
        }
    }

    /// Walks a file that is not a configuration, but may refer to environment variables of glossator.
    pub(super) fn walk_other_file(&mut self, node: &mut Node) {
        let names = &self.migration.environment;
        match &mut node.kind {
            Kind::Map(entries) => {
                for Entry { key, value } in entries {
                    self.replace_names(&mut key.text, key.span, names, "environment");
                    self.walk_other_file(value);
                }
            }
            Kind::List(items) => items.iter_mut().for_each(|item| self.walk_other_file(item)),
            Kind::Text(text) if !node.is_literal => {
                self.replace_names(text, node.span, names, "environment");
            }
            Kind::Null | Kind::Boolean(_) | Kind::Number(_) | Kind::Text(_) => {}
        }
    }

    /// Walks a value of a known kind. `owner` is the section and name of the key that has the value; `None`
    /// for a whole file.
    pub(super) fn value(
        &mut self,
        node: &mut Node,
        kind: &ValueKind,
        owner: Option<(&'static KeyTable, &'static str)>,
    ) {
        if let Some((keys, key)) = owner
            && let Some(text) = node.scalar()
        {
            return self.scalar(node, &text, kind, keys, key);
        }
        match kind {
            ValueKind::Section(keys) => self.section(node, keys()),
            ValueKind::Either(kinds) => {
                if let Some(kind) = kinds.iter().rev().max_by_key(|kind| self.match_quality(node, kind)) {
                    self.value(node, kind, owner);
                }
            }
            ValueKind::List(item) | ValueKind::OneOrMore(item) => match &mut node.kind {
                Kind::List(items) => items.iter_mut().for_each(|node| self.value(node, item, owner)),
                _ => self.value(node, item, owner),
            },
            ValueKind::Map(item) => {
                if let Kind::Map(entries) = &mut node.kind {
                    entries.iter_mut().for_each(|entry| self.value(&mut entry.value, item, owner));
                }
            }
            // In a value of any kind, every string is a template.
            ValueKind::Anything if node.as_map().is_some() => {
                self.value(node, &ValueKind::Map(&ValueKind::Anything), owner);
            }
            ValueKind::Anything if node.as_list().is_some() => {
                self.value(node, &ValueKind::List(&ValueKind::Anything), owner);
            }
            // A scalar or a JSON Schema contains no names of the configuration.
            _ => {}
        }
    }

    fn scalar(&mut self, node: &mut Node, value: &str, kind: &ValueKind, keys: &'static KeyTable, key: &str) {
        let span = node.span;
        if let Some(new_value) = self.migration.renames.value(keys.id, key, value) {
            if self.replace(span, value, new_value, keys.section) {
                node.kind = Node::from_text(new_value, span).kind;
            }
        } else if let Kind::Text(text) = &mut node.kind
            && !matches!(kind, ValueKind::JsonSchema)
        {
            self.expression(text, span, keys.section);
        }
    }

    fn expression(&mut self, text: &mut String, span: SourceSpan, section: &'static str) {
        if self.searches_expressions {
            self.replace_names(text, span, &self.migration.variables, section);
        }
        self.replace_names(text, span, &self.migration.environment, section);
    }

    /// Replaces names in a string, if the string has the same names in the text of the file.
    fn replace_names(
        &mut self,
        text: &mut String,
        span: SourceSpan,
        names: &RenamedNames,
        section: &'static str,
    ) {
        let Some(source) = self.text.get(span.start..span.end) else { return };
        let (found, unsure) = find(text, names);
        for word in unsure {
            self.remark(span, section, format!("`{word}` may refer to something else here"));
        }
        let (in_file, _) = find(source, names);
        let is_same =
            found.iter().map(|(.., new_name)| new_name).eq(in_file.iter().map(|(.., new_name)| new_name));
        if !is_same || self.excluded.contains(&span.start) {
            for (_, old_name, new_name) in found {
                self.remark(span, section, format!("`{old_name}` is now `{new_name}`"));
            }
            return;
        }
        for (at, old_name, new_name) in in_file {
            let start = span.start + at;
            let span = SourceSpan { start, end: start + old_name.len(), ..span };
            let (was, now) = (old_name.to_owned(), new_name.to_owned());
            self.replaced.push(ReplacedName { section, span, was, now });
        }
        for (at, old_name, new_name) in found.into_iter().rev() {
            text.replace_range(at..at + old_name.len(), new_name);
        }
    }

    fn section(&mut self, node: &mut Node, keys: &'static KeyTable) {
        let span = node.span;
        let Kind::Map(entries) = &mut node.kind else { return };
        let renames = self.migration.renames;
        let mut names: Vec<String> = entries.iter().map(|entry| entry.key.text.clone()).collect();
        // If `<<` merges an entry with an old name, and the section itself has the new name, the merged entry
        // has no effect.
        entries.retain(|entry| {
            let is_own = (span.start..span.end).contains(&entry.key.span.start);
            let replacement = renames.key(keys.id, &entry.key.text);
            let has_new_name =
                matches!(replacement, Some(Replacement::Key(path)) if names.iter().any(|name| name == path));
            is_own || !has_new_name
        });
        let outer = self.searches_expressions;
        self.searches_expressions &= keys.id != "example";
        for Entry { key, value } in entries {
            let (owner, spec) = match (keys.get(&key.text), renames.key(keys.id, &key.text)) {
                (Some(spec), _) => {
                    self.unrenamed.insert(key.span.start);
                    (keys, spec)
                }
                (None, Some(Replacement::Key(path))) => {
                    let Some(found) = key_at(keys, path) else { continue };
                    self.rename(key, path, &mut names, keys.section);
                    found
                }
                (None, Some(Replacement::Removed(help))) => {
                    self.known_keys += 1;
                    self.remark(key.span, keys.section, format!("`{}` was removed: {help}", key.text));
                    continue;
                }
                (None, Some(Replacement::Value(..)) | None) => {
                    self.unrenamed.insert(key.span.start);
                    self.unknown_keys += 1;
                    continue;
                }
            };
            self.known_keys += 1;
            self.value(value, &spec.kind, Some((owner, spec.name)));
        }
        self.searches_expressions = outer;
    }

    /// Renames a key, unless its new name is in a nested section, or is one of `names`, the keys that the
    /// section already has.
    fn rename(&mut self, key: &mut Key, path: &str, names: &mut Vec<String>, section: &'static str) {
        let obstacle = if path.contains('.') {
            ": move it by hand"
        } else if names.iter().any(|name| name == path) {
            ", which is also present"
        } else {
            if self.replace(key.span, &key.text, path, section) {
                path.clone_into(&mut key.text);
                names.push(path.to_owned());
            }
            return;
        };
        self.remark(key.span, section, format!("`{}` is now `{path}`{obstacle}", key.text));
    }

    /// Records a replacement; returns `false` if the text of the file cannot be changed.
    fn replace(&mut self, span: SourceSpan, old_name: &str, new_name: &str, section: &'static str) -> bool {
        let source = self.text.get(span.start..span.end).unwrap_or_default();
        let is_literal = source.trim_matches(['"', '\'']) == old_name;
        let is_excluded = self.excluded.contains(&span.start);
        if is_literal && !is_excluded {
            let (was, now) = (old_name.to_owned(), new_name.to_owned());
            self.replaced.push(ReplacedName { section, span, was, now });
            return true;
        }
        let reason = if is_literal { ", but an alias uses it for something else" } else { "" };
        self.remark(span, section, format!("`{old_name}` is now `{new_name}`{reason}"));
        false
    }

    fn remark(&mut self, span: SourceSpan, section: &str, message: String) {
        self.remarks.push((span, format!("{}: {message}", section.replace('`', ""))));
    }

    /// Determines how well a value matches a kind. Compares only the kind and keys of the value itself, so
    /// that it is fast.
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
                    known_count => {
                        MatchQuality::Section(std::cmp::Reverse(entries.len() - known_count), known_count)
                    }
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

/// Finds the names to replace in a text. Also returns the old names that the text itself may define.
fn find<'n>(text: &str, names: &'n RenamedNames) -> (Vec<NameOccurrence<'n>>, Vec<&'n str>) {
    let (mut found, mut unsure) = (Vec::new(), Vec::new());
    for (old_name, new_name) in
        names.names.iter().map(|(old_name, new_name)| (old_name.as_str(), new_name.as_str()))
    {
        let is_name = |character: char| character.is_alphanumeric() || character == '_';
        let offsets = text.match_indices(old_name).map(|(at, _)| at);
        let mut offsets: Vec<usize> = offsets
            .filter(|at| !text[..*at].ends_with(is_name) && !text[at + old_name.len()..].starts_with(is_name))
            .collect();
        if names.in_expressions {
            // An assignment of a shell script, such as `exit=$?`; not a comparison, such as `$exit==0`.
            let is_assignment = |at: &usize| {
                let after = &text[at + old_name.len()..];
                after.starts_with('=') && !after.starts_with("==") && !text[..*at].ends_with('$')
            };
            // The filter, template or script itself defines a variable with this name.
            let definitions = ["as $", "set ", "for ", "read "].map(|before| format!("{before}{old_name}"));
            let is_defined_here = offsets.iter().any(is_assignment)
                || definitions.iter().any(|definition| text.contains(definition.as_str()));
            offsets.retain(|at| is_variable(text, *at));
            if !offsets.is_empty() && is_defined_here {
                unsure.push(old_name);
                continue;
            }
        }
        found.extend(offsets.into_iter().map(|at| (at, old_name, new_name)));
    }
    found.sort_by_key(|(at, ..)| *at);
    (found, unsure)
}

/// Whether the name at an offset is a variable: `$name` of jq, or a name in a template that is not a member
/// and not in quotes.
fn is_variable(text: &str, at: usize) -> bool {
    let before = &text[..at];
    if before.ends_with('$') {
        return true;
    }
    let opened = before.rfind("{{").max(before.rfind("{%"));
    let closed = before.rfind("}}").max(before.rfind("%}"));
    let Some(opened) = opened.filter(|opened| closed.is_none_or(|closed| closed < *opened)) else {
        return false;
    };
    let inside = &before[opened..];
    let is_quoted = ['"', '\''].iter().any(|quote| inside.matches(*quote).count() % 2 == 1);
    !is_quoted && !inside.trim_end().ends_with(['.', '|'])
}
