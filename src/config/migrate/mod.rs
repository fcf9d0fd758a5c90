//! `glossator migrate`: replaces renamed keys and words in files, and leaves every other byte unchanged.
//!
//! `walk` visits the tree of a file along the tables of keys, finds old names ([`super::renamed`]) and
//! renames them in the tree. `expressions` finds names in jq and templates, `moves` moves a key into another
//! section, `yaml_blocks` finds YAML in other files. The new text is parsed again and must give the tree of
//! the walk; otherwise the file is unchanged.

mod expressions;
mod moves;
#[cfg(test)]
mod tests;
mod walk;
mod yaml_blocks;

use std::collections::{BTreeMap, HashSet};

use self::expressions::RenamedNameSets;
use self::walk::{MigrationAction, OldName, Walk};
use self::yaml_blocks::YamlBlock;
use super::compile::{FileSettings, RULES_FORM, VERSION_KEY};
use super::folder;
use super::renamed::{RENAMES, Renames, sections};
use crate::settings::{
    Code, Files, LineAndColumn, Node, Problem, Problems, Report, Section, Setting, ValueKind, tree,
};

pub(super) use self::moves::with_edits;

/// Format of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// YAML: a configuration, or another file that may contain one.
    Yaml,
    /// Markdown page with YAML blocks.
    Markdown,
}

/// Migrated file.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Migrated {
    /// New text of the file.
    pub text: String,
    /// Replaced names, in the order of the file.
    pub changes: Vec<Change>,
    /// Places to review by hand.
    pub remarks: Vec<Remark>,
}

/// Replaced name, with its position in the original file.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Change {
    /// Line, from 1.
    pub line: usize,
    /// Column in characters, from 1.
    pub column: usize,
    /// Section that contains it.
    pub section: String,
    /// Old name.
    pub was: String,
    /// New name.
    pub now: String,
}

/// Place that was not renamed automatically.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
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
/// [`Problems`], with `name` as the file name, if it is not UTF-8 or YAML, or if more than names would
/// change.
pub fn migrate(name: &str, bytes: &[u8], format: Format) -> Result<Migrated, Problems> {
    let text = folder::text_of(name, bytes.to_vec());
    let text = text.map_err(|problem| Problems::from_list(vec![*problem]))?;
    migrate_by(&RENAMES, name, &text, format)
}

fn migrate_by(renames: &Renames, name: &str, text: &str, format: Format) -> Result<Migrated, Problems> {
    let body = folder::without_mark(text);
    let mark = &text[..text.len() - body.len()];
    let migration = Migration { renames, names: RenamedNameSets::new(renames), name };
    let mut migrated = match format {
        Format::Yaml => migration.yaml(body)?,
        Format::Markdown => migration.markdown(body),
    };
    migrated.changes.sort();
    migrated.changes.dedup();
    migrated.remarks.sort();
    migrated.remarks.dedup();
    migrated.text.insert_str(0, mark);
    Ok(migrated)
}

struct Migration<'m> {
    renames: &'m Renames,
    names: RenamedNameSets,
    name: &'m str,
}

/// Result of the walk: the old names, and the trees with the new names.
type WalkResult = (Vec<OldName>, Vec<Node>);

impl Migration<'_> {
    /// Migrates a YAML file: a configuration, named rules, or another file that may contain configurations as
    /// strings.
    fn yaml(&self, text: &str) -> Result<Migrated, Problems> {
        let forms: Vec<_> = self.read(text)?.1.iter().map(|tree| self.form_of(tree)).collect();
        let mut migrated = self.rewrite(text, &forms)?;
        if forms.iter().any(Option::is_none) {
            let (files, trees) = self.read(&migrated.text)?;
            let mut blocks = Vec::new();
            let other_files = trees.iter().zip(&forms).filter(|(_, form)| form.is_none());
            other_files.for_each(|(tree, _)| yaml_blocks::find_in_manifest(&files, tree, &mut blocks));
            self.rewrite_blocks(&mut migrated, blocks, |text| self.yaml(text).ok());
        }
        Ok(migrated)
    }

    fn markdown(&self, page: &str) -> Migrated {
        let mut migrated = Migrated { text: page.to_owned(), ..Migrated::default() };
        self.rewrite_blocks(&mut migrated, yaml_blocks::find_in_markdown(page), |text| self.fragment(text));
        migrated
    }

    /// Rewrites blocks of a text from the last to the first, so that earlier offsets remain valid.
    fn rewrite_blocks(
        &self,
        whole: &mut Migrated,
        blocks: Vec<YamlBlock>,
        rewrite: impl Fn(&str) -> Option<Migrated>,
    ) {
        for block in blocks.into_iter().rev() {
            let Some(migrated) = rewrite(&block.text) else {
                let message = "the block is not YAML and was not changed".to_owned();
                whole.remarks.push(Remark { line: block.line + 1, column: 1, message });
                continue;
            };
            whole.text.replace_range(block.range.clone(), &block.in_file(&migrated.text));
            let changes = migrated.changes.into_iter();
            whole.changes.extend(changes.map(|change| Change {
                line: change.line + block.line,
                column: change.column + block.indent,
                ..change
            }));
            whole.remarks.extend(migrated.remarks.into_iter().map(|remark| Remark {
                line: remark.line + block.line,
                column: remark.column + block.indent,
                ..remark
            }));
        }
    }

    /// Form of a whole file: a configuration if most of its keys are known. `None` for another file.
    fn form_of(&self, tree: &Node) -> Option<ValueKind> {
        let entries = tree.as_map()?;
        // Many other files have a key `version`.
        let is_known = |name: &str| {
            name != VERSION_KEY
                && (FileSettings::keys().get(name).is_some()
                    || self.renames.key(FileSettings::keys().id, name).is_some())
        };
        let known = entries.iter().filter(|entry| is_known(&entry.key.text)).count();
        if known * 2 > entries.len() {
            return Some(FileSettings::KIND);
        }
        let rules = ValueKind::Map(&RULES_FORM);
        self.count(tree, &rules).map(|_| rules)
    }

    /// Number of keys of a value, if all of them are known and there is one.
    fn count(&self, tree: &Node, kind: &ValueKind) -> Option<usize> {
        let none = HashSet::new();
        let mut walk = Walk::new(self, "", &none, true);
        walk.value(&mut tree.clone(), kind, None);
        (walk.unknown_keys == 0 && walk.known_keys > 0).then_some(walk.known_keys)
    }

    /// Migrates part of a configuration. Its section is the one in which all of its keys are known.
    fn fragment(&self, text: &str) -> Option<Migrated> {
        let (_, trees) = self.read(text).ok()?;
        let [tree] = trees.as_slice() else { return self.yaml(text).ok() };
        if self.form_of(tree).is_some() {
            return self.yaml(text).ok();
        }
        let mut counted: Vec<(usize, ValueKind)> = Vec::new();
        for section in sections() {
            let forms = section().keys().map(|key| key.kind).chain([ValueKind::Section(section)]);
            counted.extend(forms.filter_map(|kind| Some((self.count(tree, &kind)?, kind))));
        }
        let most = counted.iter().map(|(known, _)| *known).max();
        let best = counted.iter().filter(|(known, _)| Some(*known) == most);
        let rewritten = best.map(|(_, kind)| self.rewrite(text, &[Some(*kind)]).ok());
        let mut rewritten: Vec<Migrated> = rewritten.collect::<Option<_>>()?;
        if !rewritten.is_empty() && rewritten.iter().all(|one| one.text == rewritten[0].text) {
            return Some(rewritten.swap_remove(0));
        }
        let mut unchanged = Migrated { text: text.to_owned(), ..Migrated::default() };
        if !rewritten.is_empty() {
            let message =
                "these keys exist in several sections, and some of these sections have renamed keys";
            unchanged.remarks.push(Remark { line: 1, column: 1, message: message.to_owned() });
        }
        Some(unchanged)
    }

    fn read(&self, text: &str) -> Result<(Files, Vec<Node>), Problems> {
        let files = Files::from_text(self.name, text);
        let report = Report::new(&files);
        match tree::read_documents(&report, 0, usize::MAX) {
            Some(trees) if report.errors() == 0 => Ok((files, trees)),
            _ => {
                let problems = report.into_problems();
                Err(Problems::from_list(problems))
            }
        }
    }

    fn walk(&self, text: &str, forms: &[Option<ValueKind>], moves: bool) -> Result<WalkResult, Problems> {
        let (_, trees) = self.read(text)?;
        let mut excluded = HashSet::new();
        loop {
            let mut walk = Walk::new(self, text, &excluded, moves);
            let mut trees = trees.clone();
            for (tree, form) in trees.iter_mut().zip(forms) {
                match form {
                    Some(kind) => walk.value(tree, kind, None),
                    None => walk.walk_other_file(tree),
                }
            }
            // Through an alias, the same text may be renamed in one section and not in another.
            let mut new_names = BTreeMap::new();
            let mut ambiguous = Vec::new();
            for OldName { span, action, .. } in &walk.old_names {
                let Some(now) = action.new_name() else { continue };
                let is_same = *new_names.entry(span.start).or_insert_with(|| now.clone()) == now;
                if !is_same || walk.unrenamed.contains(&span.start) {
                    ambiguous.push(span.start);
                }
            }
            if ambiguous.is_empty() {
                return Ok((walk.old_names, trees));
            }
            excluded.extend(ambiguous);
        }
    }

    /// Returns the text with the new names, after checking that nothing else has changed.
    fn rewrite(&self, text: &str, forms: &[Option<ValueKind>]) -> Result<Migrated, Problems> {
        let walked = self.walk(text, forms, true)?;
        let without_moves = || self.apply(text, forms, &self.walk(text, forms, false).ok()?);
        self.apply(text, forms, &walked).or_else(without_moves).ok_or_else(|| {
            let files = Files::from_text(self.name, text);
            let place = walked.0.first().map_or_else(|| files.beginning(0), |old_name| old_name.span);
            let message = "the renames would change more than names, so the file was not changed";
            let help = "rename by hand: `glossator check` lists every place".to_owned();
            let at = Code::RenamedKey.at_span(place);
            Problems::from_list(vec![Problem::with_span(&files, at, message, Some(help))])
        })
    }

    /// Applies the actions; `None` if the result does not parse to the expected trees.
    fn apply(&self, text: &str, forms: &[Option<ValueKind>], walked: &WalkResult) -> Option<Migrated> {
        let ((old_names, expected), files) = (walked, Files::from_text(self.name, text));
        let mut edits = BTreeMap::new();
        let (mut changes, mut remarks, mut moves) = (Vec::new(), Vec::new(), 0);
        for OldName { section, span, was, action } in old_names {
            let LineAndColumn { line, column } = files.line_and_column(*span);
            let section = section.replace('`', "");
            match action {
                MigrationAction::Replace(words) => {
                    edits.insert(span.start, (span.start..span.end, words.clone()));
                }
                MigrationAction::Move(_) => moves += 1,
                MigrationAction::Remark(message) => {
                    remarks.push(Remark { line, column, message: format!("{section}: {message}") });
                }
            }
            let now = action.new_name();
            changes.extend(now.map(|now| Change { line, column, section, was: was.clone(), now }));
        }
        let mut rewritten = with_edits(text, edits.into_values().collect());
        // One at a time: each move changes the offsets of the rest.
        for _ in 0..moves {
            let old_names = self.walk(&rewritten, forms, true).ok()?.0;
            let next = old_names.iter().find_map(|old_name| match &old_name.action {
                MigrationAction::Move(action) => Some((old_name.span, action)),
                MigrationAction::Replace(_) | MigrationAction::Remark(_) => None,
            });
            let Some((key, action)) = next else { break };
            rewritten = moves::apply(&rewritten, key, action)?;
        }
        let (_, trees) = self.read(&rewritten).ok()?;
        // In JSON, the order of keys does not matter.
        let is_same = trees.iter().map(Node::to_json).eq(expected.iter().map(Node::to_json));
        is_same.then_some(Migrated { text: rewritten, changes, remarks })
    }
}
