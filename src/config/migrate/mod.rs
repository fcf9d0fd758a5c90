//! `glossator migrate`: replaces renamed keys, values and variables in files. All other bytes are unchanged.
//!
//! `walk` visits the tree of a file along the key tables, finds old names ([`super::renamed`]) and renames
//! them in the tree, including variables in jq and templates. This file finds the configurations, also within
//! other files. The new text is parsed again and must result in the tree of the walk; otherwise the file is
//! not changed. `nested` then moves keys that have become part of a nested section.

mod nested;
#[cfg(test)]
mod tests;
mod walk;

use std::collections::{BTreeMap, HashSet};
use std::ops::Range;

use serde::Serialize;

use self::walk::{RenamedNames, ReplacedName, Walk};
use super::compile::{FileSettings, RULES_KIND, VERSION_KEY};
use super::renamed::{RENAMES, Renames, sections};
use super::{file, folder};
use crate::settings::{
    Code, Entry, Files, LineAndColumn, Node, Problem, Problems, Section, Setting, ValueKind, tree,
};

/// Format of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// YAML: a configuration, or another file that may contain one.
    Yaml,
    /// Markdown page with YAML blocks.
    Markdown,
}

/// Result of migrating a file.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Migrated {
    /// New text of the file.
    pub text: String,
    /// Replaced names, in the order of the file.
    pub changes: Vec<Change>,
    /// Places that have to be reviewed by hand.
    pub remarks: Vec<Remark>,
}

/// A replaced name, with its position in the original file.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Change {
    /// Line, from 1.
    pub line: usize,
    /// Column in characters, from 1.
    pub column: usize,
    /// Section that contains the name.
    pub section: String,
    /// Old name.
    pub was: String,
    /// New name.
    pub now: String,
}

/// A place that could not be renamed automatically, with its position in the new file.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Remark {
    /// Line, from 1.
    pub line: usize,
    /// Column in characters, from 1.
    pub column: usize,
    /// Message.
    pub message: String,
}

/// Replaces the old names in a file.
///
/// # Errors
///
/// [`Problems`] with `name` as the file name, if the file is not UTF-8 or not YAML, or if replacing would
/// change more than names.
pub fn migrate(name: &str, bytes: &[u8], format: Format) -> Result<Migrated, Problems> {
    let text = folder::text_of(name, bytes.to_vec());
    let text = text.map_err(|problem| Problems::from_list(vec![*problem]))?;
    migrate_by(&RENAMES, name, &text, format)
}

fn migrate_by(renames: &Renames, name: &str, text: &str, format: Format) -> Result<Migrated, Problems> {
    let body = folder::without_bom(text);
    let bom = &text[..text.len() - body.len()];
    let variables =
        renames.variables.iter().map(|(old_name, new_name)| ((*old_name).to_owned(), (*new_name).to_owned()));
    let environment = renames.environment().filter_map(|(old_name, new_name, _)| Some((old_name, new_name?)));
    let migration = Migration {
        renames,
        variables: RenamedNames { names: variables.collect(), in_expressions: true },
        environment: RenamedNames { names: environment.collect(), in_expressions: false },
        name,
    };
    let mut migrated = match format {
        Format::Yaml => migration.yaml(body)?,
        Format::Markdown => migration.markdown(body),
    };
    migrated.changes.sort();
    migrated.changes.dedup();
    migrated.remarks.sort();
    migrated.remarks.dedup();
    migrated.text.insert_str(0, bom);
    Ok(migrated)
}

impl Migrated {
    /// Rewrites blocks of the text, from the last to the first, so that the offsets of earlier blocks remain
    /// valid.
    fn rewrite_blocks(&mut self, blocks: Vec<YamlBlock>, rewrite: impl Fn(&str) -> Option<Self>) {
        for block in blocks.into_iter().rev() {
            let Some(migrated) = rewrite(&block.text) else {
                let message = "the block is not YAML and was not changed".to_owned();
                self.remarks.push(Remark { line: block.line + 1, column: 1, message });
                continue;
            };
            let lines = |text: &str| text.matches('\n').count();
            let added = lines(&migrated.text).saturating_sub(lines(&block.text));
            let below = self.remarks.iter_mut().filter(|remark| remark.line > block.line);
            below.for_each(|remark| remark.line += added);
            self.text.replace_range(block.range.clone(), &block.in_file(&migrated.text));
            let changes = migrated.changes.into_iter();
            self.changes.extend(changes.map(|change| Change {
                line: change.line + block.line,
                column: change.column + block.indent,
                ..change
            }));
            self.remarks.extend(migrated.remarks.into_iter().map(|remark| Remark {
                line: remark.line + block.line,
                column: remark.column + block.indent,
                ..remark
            }));
        }
    }
}

struct Migration<'m> {
    renames: &'m Renames,
    /// Renamed variables of jq and templates.
    variables: RenamedNames,
    /// Renamed environment variables.
    environment: RenamedNames,
    name: &'m str,
}

impl Migration<'_> {
    /// Migrates a YAML file: a configuration, named rules, or another file that may contain configurations as
    /// strings.
    fn yaml(&self, text: &str) -> Result<Migrated, Problems> {
        let kinds: Vec<_> = self.read(text)?.1.iter().map(|tree| self.kind_of(tree)).collect();
        let mut migrated = self.rewrite(text, &kinds)?;
        self.move_keys(&mut migrated, &kinds);
        if kinds.iter().any(Option::is_none) {
            let (files, trees) = self.read(&migrated.text)?;
            let mut blocks = Vec::new();
            let other_files = trees.iter().zip(&kinds).filter(|(_, kind)| kind.is_none());
            other_files.for_each(|(tree, _)| find_in_manifest(&files, tree, &mut blocks));
            migrated.rewrite_blocks(blocks, |text| self.yaml(text).ok());
        }
        Ok(migrated)
    }

    fn markdown(&self, page: &str) -> Migrated {
        let mut migrated = Migrated { text: page.to_owned(), ..Migrated::default() };
        migrated.rewrite_blocks(find_in_markdown(page), |text| self.fragment(text));
        migrated
    }

    /// Kind of a whole file: a configuration if most of its keys are known, or named rules; else `None`.
    fn kind_of(&self, tree: &Node) -> Option<ValueKind> {
        let entries = tree.as_map()?;
        // `version` does not count, because many other files have such a key.
        let is_known = |name: &str| {
            name != VERSION_KEY
                && (FileSettings::keys().get(name).is_some()
                    || self.renames.key(FileSettings::keys().id, name).is_some())
        };
        let known_count = entries.iter().filter(|entry| is_known(&entry.key.text)).count();
        if known_count * 2 > entries.len() {
            return Some(FileSettings::KIND);
        }
        let rules = ValueKind::Map(&RULES_KIND);
        self.count(tree, &rules).map(|_| rules)
    }

    /// Number of keys of a value of this kind; `None` if a key is unknown, or if there are no keys.
    fn count(&self, tree: &Node, kind: &ValueKind) -> Option<usize> {
        let excluded = HashSet::new();
        let mut walk = Walk::new(self, "", &excluded);
        walk.value(&mut tree.clone(), kind, None);
        (walk.unknown_keys == 0 && walk.known_keys > 0).then_some(walk.known_keys)
    }

    /// Migrates a part of a configuration. Its kind is the one that declares all of its keys; of several, the
    /// one that declares the most, counting nested keys. If several kinds still remain and lead to different
    /// texts, the part is unchanged and gets a remark.
    fn fragment(&self, text: &str) -> Option<Migrated> {
        let (_, trees) = self.read(text).ok()?;
        let [tree] = trees.as_slice() else { return self.yaml(text).ok() };
        if self.kind_of(tree).is_some() {
            return self.yaml(text).ok();
        }
        let kinds = sections()
            .into_iter()
            .flat_map(|section| section().keys().map(|key| key.kind).chain([ValueKind::Section(section)]));
        let counted: Vec<_> = kinds.filter_map(|kind| Some((self.count(tree, &kind)?, kind))).collect();
        let max_count = counted.iter().map(|(count, _)| *count).max();
        let best = counted.iter().filter(|(count, _)| Some(*count) == max_count);
        let rewritten = best.map(|(_, kind)| self.rewrite(text, &[Some(*kind)]).ok());
        let mut rewritten: Vec<Migrated> = rewritten.collect::<Option<_>>()?;
        rewritten.dedup_by(|one, other| one.text == other.text);
        if rewritten.len() == 1 {
            return rewritten.pop();
        }
        let message = "these keys exist in several sections, and some of these sections have renamed keys";
        let remark = Remark { line: 1, column: 1, message: message.to_owned() };
        let remarks = if rewritten.is_empty() { Vec::new() } else { vec![remark] };
        Some(Migrated { text: text.to_owned(), remarks, ..Migrated::default() })
    }

    fn read(&self, text: &str) -> Result<(Files, Vec<Node>), Problems> {
        let files = Files::from_text(self.name, text);
        let trees = file::parsed(&files, |report| tree::read_documents(report, 0, usize::MAX))?;
        Ok((files, trees))
    }

    /// Returns the text with new names, after checking that the renames change nothing else.
    fn rewrite(&self, text: &str, kinds: &[Option<ValueKind>]) -> Result<Migrated, Problems> {
        let (files, trees) = self.read(text)?;
        let mut excluded = HashSet::new();
        let (replaced, remarks, expected, edits) = loop {
            let mut walk = Walk::new(self, text, &excluded);
            let mut trees = trees.clone();
            for (tree, kind) in trees.iter_mut().zip(kinds) {
                match kind {
                    Some(kind) => walk.value(tree, kind, None),
                    None => walk.walk_other_file(tree),
                }
            }
            // If an alias is used in several sections, the same text may have to be renamed in one of them
            // only.
            let (mut edits, mut ambiguous) = (BTreeMap::new(), Vec::new());
            for ReplacedName { span, was: old_name, now: new_name, .. } in &walk.replaced {
                let quote = (span.end - span.start - old_name.len()) / 2;
                let edit = (span.start + quote..span.end - quote, new_name.clone());
                let is_same = *edits.entry(span.start).or_insert_with(|| edit.clone()) == edit;
                if !is_same || walk.unrenamed.contains(&span.start) {
                    ambiguous.push(span.start);
                }
            }
            if ambiguous.is_empty() {
                break (walk.replaced, walk.remarks, trees, edits);
            }
            excluded.extend(ambiguous);
        };
        let rewritten = with_edits(text, edits.into_values().collect());
        // The comparison is in JSON, because the order of keys does not matter.
        let is_expected =
            |trees: &[Node]| trees.iter().map(Node::to_json).eq(expected.iter().map(Node::to_json));
        if !self.read(&rewritten).is_ok_and(|(_, trees)| is_expected(&trees)) {
            let span = replaced.first().map_or_else(|| files.beginning(0), |name| name.span);
            let message = "the renames would change more than names, so the file was not changed";
            let help = "rename by hand: `glossator check` lists every place".to_owned();
            let at = Code::RenamedKey.at_span(span);
            return Err(Problems::from_list(vec![Problem::with_span(&files, at, message, Some(help))]));
        }
        let changes = replaced.into_iter().map(|ReplacedName { section, span, was, now }| {
            let LineAndColumn { line, column } = files.line_and_column(span);
            Change { line, column, section: section.replace('`', ""), was, now }
        });
        let remarks = remarks.into_iter().map(|(span, message)| {
            let LineAndColumn { line, column } = files.line_and_column(span);
            Remark { line, column, message }
        });
        Ok(Migrated { text: rewritten, changes: changes.collect(), remarks: remarks.collect() })
    }
}

/// Replaces ranges of a text; the ranges do not overlap.
pub(super) fn with_edits(text: &str, mut edits: Vec<(Range<usize>, String)>) -> String {
    edits.sort_by_key(|(range, _)| range.start);
    // An alias has the place of its anchor. Insertions at one place are kept.
    edits.dedup_by(|(later, _), (earlier, _)| later == earlier && later.start < later.end);
    let mut text = text.to_owned();
    for (range, replacement) in edits.into_iter().rev() {
        text.replace_range(range, &replacement);
    }
    text
}

/// YAML block within another file, without its indentation.
struct YamlBlock {
    text: String,
    /// Byte range in the file.
    range: Range<usize>,
    /// Number of lines before the block.
    line: usize,
    /// Number of spaces that were removed from each line.
    indent: usize,
}

impl YamlBlock {
    /// Removes the indentation from lines of a file; `None` if a line is indented less.
    fn new(file: &str, range: Range<usize>, indent: usize) -> Option<Self> {
        let mut text = String::new();
        for line in file[range.clone()].split_inclusive('\n') {
            let is_blank = line.trim().is_empty();
            text += if is_blank { line } else { line.strip_prefix(&" ".repeat(indent))? };
        }
        let line = file[..range.start].matches('\n').count();
        Some(Self { text, range, line, indent })
    }

    /// Adds the indentation of the block to each line of a text.
    fn in_file(&self, text: &str) -> String {
        let margin = " ".repeat(self.indent);
        let line =
            |line: &str| if line.trim().is_empty() { line.to_owned() } else { format!("{margin}{line}") };
        text.split_inclusive('\n').map(line).collect()
    }
}

/// Finds the YAML blocks of a Markdown page.
fn find_in_markdown(page: &str) -> Vec<YamlBlock> {
    let mut blocks = Vec::new();
    let mut lines = page.split_inclusive('\n').scan(0, |at, line| {
        *at += line.len();
        Some((*at - line.len(), line))
    });
    while let Some((start, line)) = lines.next() {
        let trimmed = line.trim();
        let Some(mark) = ["```", "~~~"].iter().find(|mark| trimmed.starts_with(**mark)) else { continue };
        let info = trimmed.trim_start_matches(&mark[..1]);
        let fence = &trimmed[..trimmed.len() - info.len()];
        // Inline code, such as ```` ```a``` ````, not a fence (CommonMark 0.31, section 4.5).
        if info.contains('`') && fence.starts_with('`') {
            continue;
        }
        let is_end = |trimmed: &str| {
            trimmed.starts_with(fence) && trimmed.chars().all(|character| fence.starts_with(character))
        };
        let Some((end, _)) = lines.find(|(_, line)| is_end(line.trim())) else { break };
        if let Some("yaml" | "yml") = info.split_whitespace().next() {
            let indent = line.len() - line.trim_start_matches(' ').len();
            blocks.extend(YamlBlock::new(page, start + line.len()..end, indent));
        }
    }
    blocks
}

/// Finds configurations in a Kubernetes `ConfigMap`, where they are strings with file names as keys.
fn find_in_manifest(files: &Files, node: &Node, blocks: &mut Vec<YamlBlock>) {
    for Entry { key, value } in node.as_map().unwrap_or_default() {
        let is_file = key.text.ends_with(".yaml") || key.text.ends_with(".yml");
        match value.as_text().filter(|_| is_file && value.is_literal) {
            Some(text) => blocks.extend(from_literal(files, value, text)),
            None => find_in_manifest(files, value, blocks),
        }
    }
    node.as_list().unwrap_or_default().iter().for_each(|item| find_in_manifest(files, item, blocks));
}

/// Returns the lines of a literal block string (`|`).
fn from_literal(files: &Files, node: &Node, text: &str) -> Option<YamlBlock> {
    let file = files.text(node.span);
    // The span of a literal block begins at its first character, after the indentation.
    let start = file[..node.span.start].rfind('\n')? + 1;
    let first = file[start..].lines().find(|line| !line.trim().is_empty())?;
    let indent = first.len() - first.trim_start_matches(' ').len();
    let is_inside = |line: &&str| line.trim().is_empty() || line.starts_with(&" ".repeat(indent));
    let length: usize = file[start..].split_inclusive('\n').take_while(is_inside).map(str::len).sum();
    let block = YamlBlock::new(file, start..start + length, indent)?;
    // The block is only migrated if its lines are the same as the parsed string.
    let lines = |text: &str| text.lines().map(str::trim_end).collect::<Vec<_>>().join("\n");
    (lines(&block.text).trim_matches('\n') == lines(text).trim_matches('\n')).then_some(block)
}
