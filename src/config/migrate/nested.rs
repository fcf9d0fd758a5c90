//! Migration of keys into nested sections, for example `server.name` to `server.mcp.name`.

use std::collections::BTreeMap;
use std::ops::Range;

use super::{Change, Migrated, Migration, with_edits};
use crate::config::compile::FileSettings;
use crate::config::renamed::{Replacement, section_of};
use crate::settings::source_text::line_start;
use crate::settings::{Entry, Key, LineAndColumn, Node, Section as _, SourceSpan, ValueKind};

/// Additional indentation of the keys of a nested section.
const INDENT: &str = "  ";

/// Key of a section that has moved to a nested section, as `server.name` has moved to `server.mcp.name`.
struct NestedKey<'n> {
    entry: &'n Entry,
    /// Name of the nested section, and name of the key in it.
    path: (&'static str, &'static str),
    /// Byte range of the lines of the key and its value, including comments directly above the key.
    lines: Range<usize>,
}

impl NestedKey<'_> {
    /// Returns the lines with the new name of the key, indented for the nested section.
    fn indented_lines(&self, text: &str, line_end: &str) -> String {
        let key = self.entry.key.span;
        let (before, after) = (&text[self.lines.start..key.start], &text[key.end..self.lines.end]);
        let renamed = format!("{before}{}{after}", self.path.1);
        let indent = |line: &str| if line.is_empty() { "" } else { INDENT };
        renamed.lines().map(|line| format!("{}{line}{line_end}", indent(line))).collect()
    }
}

impl Migration<'_> {
    /// Moves keys of a block map into a new nested section, which takes the place of the first moved key.
    /// `kinds` are the kinds of the documents; only configurations are changed.
    ///
    /// A key in flow style is not moved and keeps its remark, and so does a key whose nested section already
    /// exists. Nothing is moved if the parsed result would differ in anything else.
    pub(super) fn move_keys(&self, migrated: &mut Migrated, kinds: &[Option<ValueKind>]) {
        let Ok((files, trees)) = self.read(&migrated.text) else { return };
        let text = &migrated.text;
        let line_end = if text.contains("\r\n") { "\r\n" } else { "\n" };
        let mut expected: Vec<_> = trees.iter().map(Node::to_json).collect();
        let (mut edits, mut changes) = (Vec::new(), Vec::new());
        for ((tree, json), kind) in trees.iter().zip(&mut expected).zip(kinds) {
            let Some(ValueKind::Section(_)) = kind else { continue };
            for Entry { key: section, value } in tree.as_map().unwrap_or_default() {
                let json = &mut json[&section.text];
                let mut sections = BTreeMap::new();
                let mut removed = Vec::new();
                for nested in self.nested_keys(text, section, value) {
                    let NestedKey { entry: Entry { key, value }, path: (parent, name), lines } = &nested;
                    let (_, section_text) = sections.entry(*parent).or_insert_with(|| {
                        let margin = &text[line_start(&text[..key.span.start])..key.span.start];
                        (lines.start..lines.start, format!("{margin}{parent}:{line_end}"))
                    });
                    *section_text += &nested.indented_lines(text, line_end);
                    removed.push((lines.clone(), String::new()));
                    json[parent][name] = value.to_json();
                    json.as_object_mut().and_then(|json| json.remove(&key.text));
                    let LineAndColumn { line, column } = files.line_and_column(key.span);
                    let (was, now) = (key.text.clone(), format!("{parent}.{name}"));
                    changes.push(Change { line, column, section: section.text.clone(), was, now });
                }
                edits.extend(sections.into_values().chain(removed));
            }
        }
        if changes.is_empty() {
            return;
        }
        let new_text = with_edits(text, edits);
        let is_expected = |(_, trees): (_, Vec<Node>)| trees.iter().map(Node::to_json).eq(expected);
        // The remaining remarks are computed again, because lines have moved.
        if self.read(&new_text).is_ok_and(is_expected)
            && let Ok(Migrated { remarks, .. }) = self.rewrite(&new_text, kinds)
        {
            (migrated.text, migrated.remarks) = (new_text, remarks);
            migrated.changes.extend(changes);
        }
    }

    /// Returns the keys of a section that can be moved into a nested section. Keys from `<<` or an alias are
    /// omitted, because their lines are in another place of the file.
    fn nested_keys<'n>(&self, text: &str, section: &Key, value: &'n Node) -> Vec<NestedKey<'n>> {
        let keys = FileSettings::keys().get(&section.text).and_then(|key| section_of(key.kind));
        let (Some(keys), Some(entries)) = (keys, value.as_map()) else { return Vec::new() };
        let nested_key = |entry: &'n Entry| {
            let Some(Replacement::Key(new_path)) = self.renames.key(keys.id, &entry.key.text) else {
                return None;
            };
            let path = new_path.split_once('.').filter(|(parent, _)| value.get(parent).is_none())?;
            Some(NestedKey { entry, path, lines: lines_of(text, entry.key.span)? })
        };
        let own_entries = entries.iter().filter(|entry| entry.key.span.start >= section.span.end);
        own_entries.filter_map(nested_key).collect()
    }
}

/// Lines of a key of a block map and of its value, including comments directly above the key. `None` if
/// anything else precedes the key on its line, as in flow style.
fn lines_of(text: &str, key: SourceSpan) -> Option<Range<usize>> {
    let key_line_start = line_start(&text[..key.start]);
    let margin =
        text[key_line_start..key.start].trim().is_empty().then_some(&text[key_line_start..key.start])?;
    let is_comment = |line: &&str| line.strip_prefix(margin).is_some_and(|line| line.starts_with('#'));
    let comments = text[..key_line_start].split_inclusive('\n').rev().take_while(is_comment);
    let start = key_line_start - comments.map(str::len).sum::<usize>();
    let is_value = |line: &&str| line.trim().is_empty() || line.starts_with(&format!("{margin} "));
    let lines = text[key_line_start..].split_inclusive('\n');
    let value_length: usize = lines.clone().skip(1).take_while(is_value).map(str::len).sum();
    let end = key_line_start + lines.take(1).map(str::len).sum::<usize>() + value_length;
    // Blank lines below the value are not part of it.
    let blank =
        text[key_line_start..end].split_inclusive('\n').rev().take_while(|line| line.trim().is_empty());
    Some(start..end - blank.map(str::len).sum::<usize>())
}
