//! `glossator migrate`: replaces renamed keys and words in files, and leaves every other byte unchanged.
//!
//! `walk` visits the tree of a file along the tables of keys, finds renamed names ([`super::renamed`]) and
//! renames them in the tree. `expressions` finds names in jq and templates, `moves` moves a key into another
//! section, `pieces` finds YAML in other files. The new text is parsed again and must give the tree of the
//! walk; otherwise the file is unchanged.

mod expressions;
mod moves;
mod pieces;
#[cfg(test)]
mod tests;
mod walk;

use std::collections::{BTreeMap, HashSet};

use self::{
    expressions::RenamedNameSets,
    pieces::Piece,
    walk::{Found, Step, Walk},
};
use super::{
    Problem, Problems,
    code::Code,
    folder,
    keys::{FileSettings, RULES_FORM},
    node::{self, Entry, Kind, Node},
    renamed::{RENAMES, Renames, sections},
    report::Report,
    source::{Files, SourceSpan},
};
use crate::settings::{
    keys::ValueKind,
    section::{Section as _, Setting},
};

/// Format of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// YAML: a configuration, or another file that may contain one.
    Yaml,
    /// Markdown page with YAML blocks.
    Markdown,
}

/// Migrated file.
#[derive(Debug, Clone, PartialEq, Eq)]
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
    match std::str::from_utf8(bytes) {
        Ok(text) => migrate_by(&RENAMES, name, text, format),
        Err(_) => {
            let mut problems = Vec::new();
            folder::add(&mut Files::default(), &mut problems, name, bytes.to_vec());
            Err(Problems::from_list(problems))
        }
    }
}

fn migrate_by(renames: &Renames, name: &str, text: &str, format: Format) -> Result<Migrated, Problems> {
    let (mark, body) = match text.strip_prefix('\u{feff}') {
        Some(body) => ("\u{feff}", body),
        None => ("", text),
    };
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

/// Result of the walk: the findings, and the trees with the new names.
struct Walked {
    found: Vec<Found>,
    trees: Vec<Node>,
}

impl Migration<'_> {
    /// Migrates a YAML file: a configuration, named rules, or another file that may contain configurations as
    /// strings.
    fn yaml(&self, text: &str) -> Result<Migrated, Problems> {
        let (files, trees) = self.read(text)?;
        let forms: Vec<_> = trees.iter().map(|tree| self.form_of(tree)).collect();
        let mut migrated = self.rewrite(text, &forms)?;
        if forms.iter().any(Option::is_none) {
            let (files, trees) =
                if migrated.text == text { (files, trees) } else { self.read(&migrated.text)? };
            let mut pieces = Vec::new();
            let foreign = trees.iter().zip(&forms).filter(|(_, form)| form.is_none());
            foreign.for_each(|(tree, _)| pieces::of_manifest(&files, tree, &mut pieces));
            self.put_in(&mut migrated, pieces, |text| self.yaml(text).ok());
        }
        Ok(migrated)
    }

    fn markdown(&self, page: &str) -> Migrated {
        let mut migrated = Migrated { text: page.to_owned(), changes: Vec::new(), remarks: Vec::new() };
        self.put_in(&mut migrated, pieces::of_markdown(page), |text| self.fragment(text));
        migrated
    }

    /// Rewrites pieces of a text from the last to the first, so that earlier offsets remain valid.
    fn put_in(&self, whole: &mut Migrated, pieces: Vec<Piece>, rewrite: impl Fn(&str) -> Option<Migrated>) {
        for piece in pieces.into_iter().rev() {
            let Some(migrated) = rewrite(&piece.text) else {
                let message = "the block is not YAML and was not changed".to_owned();
                whole.remarks.push(Remark { line: piece.line + 1, column: 1, message });
                continue;
            };
            whole.text.replace_range(piece.range.clone(), &piece.in_file(&migrated.text));
            let changes = migrated.changes.into_iter();
            whole.changes.extend(changes.map(|change| Change {
                line: change.line + piece.line,
                column: change.column + piece.indent,
                ..change
            }));
            whole.remarks.extend(migrated.remarks.into_iter().map(|remark| Remark {
                line: remark.line + piece.line,
                column: remark.column + piece.indent,
                ..remark
            }));
        }
    }

    /// Form of a whole file: a configuration if most of its keys are known. `None` for another file.
    fn form_of(&self, tree: &Node) -> Option<ValueKind> {
        let entries = tree.as_map()?;
        // Many other files have a key `version`.
        let is_known = |name: &str| {
            name != super::version::KEY
                && (FileSettings::keys().get(name).is_some()
                    || self.renames.key(FileSettings::keys().id, name).is_some())
        };
        let known = entries.iter().filter(|entry| is_known(&entry.key.text)).count();
        if known * 2 > entries.len() {
            return Some(FileSettings::KIND);
        }
        let rules = ValueKind::Map(&RULES_FORM);
        self.count(tree, &rules).filter(|known| *known > 0).map(|_| rules)
    }

    /// Number of keys of a value, if all of them are known.
    fn count(&self, tree: &Node, kind: &ValueKind) -> Option<usize> {
        let none = HashSet::new();
        let mut walk = Walk::new(self.renames, &self.names, "", &none, true);
        walk.walk(&mut tree.clone(), kind);
        (walk.unknown == 0).then_some(walk.known)
    }

    /// Migrates part of a configuration. Its section is the one in which all of its keys are known.
    fn fragment(&self, text: &str) -> Option<Migrated> {
        let (_, trees) = self.read(text).ok()?;
        let mut unchanged = Migrated { text: text.to_owned(), changes: Vec::new(), remarks: Vec::new() };
        let [tree] = trees.as_slice() else { return self.yaml(text).ok() };
        if self.form_of(tree).is_some() {
            return self.yaml(text).ok();
        }
        let mut best: Vec<(usize, ValueKind)> = Vec::new();
        for section in sections() {
            let ValueKind::Section(keys) = section else { continue };
            let keys = keys();
            let forms = keys.keys().map(|key| key.kind);
            for kind in forms.chain([section]) {
                let Some(known) = self.count(tree, &kind).filter(|known| *known > 0) else { continue };
                if best.first().is_none_or(|(most, _)| *most < known) {
                    best.clear();
                }
                if best.first().is_none_or(|(most, _)| *most == known) {
                    best.push((known, kind));
                }
            }
        }
        let rewritten = best.iter().map(|(_, kind)| self.rewrite(text, &[Some(*kind)]).ok());
        let mut rewritten: Vec<Migrated> = rewritten.collect::<Option<_>>()?;
        if rewritten.iter().all(|one| one.text == rewritten[0].text) {
            return Some(if rewritten.is_empty() { unchanged } else { rewritten.swap_remove(0) });
        }
        let message =
            "these lines may belong to several sections, of which some have renamed keys".to_owned();
        unchanged.remarks.push(Remark { line: 1, column: 1, message });
        Some(unchanged)
    }

    fn read(&self, text: &str) -> Result<(Files, Vec<Node>), Problems> {
        let mut files = Files::default();
        let index = files.add(self.name, text.to_owned());
        let report = Report::new(&files);
        match node::read_documents(&report, index, usize::MAX) {
            Some(trees) if report.errors() == 0 => Ok((files, trees)),
            _ => {
                let problems = report.into_problems();
                Err(Problems::from_list(problems))
            }
        }
    }

    fn walk(&self, text: &str, forms: &[Option<ValueKind>], moves: bool) -> Result<Walked, Problems> {
        let (_, trees) = self.read(text)?;
        let mut refused = HashSet::new();
        loop {
            let mut walk = Walk::new(self.renames, &self.names, text, &refused, moves);
            let mut trees = trees.clone();
            for (tree, form) in trees.iter_mut().zip(forms) {
                match form {
                    Some(kind) => walk.walk(tree, kind),
                    None => walk.foreign(tree),
                }
            }
            // Through an alias, the same text may be renamed in one section and not in another.
            let mut words = BTreeMap::<usize, &Step>::new();
            let mut torn = Vec::new();
            for Found { span, step, .. } in &walk.found {
                if matches!(step, Step::Remark(_)) {
                    continue;
                }
                let other = words.insert(span.start, step);
                let is_same = other.is_none_or(|other| match (other, step) {
                    (Step::Replace(one), Step::Replace(other)) => one == other,
                    (Step::Move(one), Step::Move(other)) => {
                        (one.parent, one.leaf) == (other.parent, other.leaf)
                    }
                    _ => false,
                });
                if !is_same || walk.kept.contains(&span.start) {
                    torn.push(span.start);
                }
            }
            if torn.is_empty() {
                return Ok(Walked { found: walk.found, trees });
            }
            refused.extend(torn);
        }
    }

    /// Returns the text with the new names, after checking that nothing else has changed.
    fn rewrite(&self, text: &str, forms: &[Option<ValueKind>]) -> Result<Migrated, Problems> {
        let walked = self.walk(text, forms, true)?;
        let has_moves = walked.found.iter().any(|found| matches!(found.step, Step::Move(_)));
        if let Some(migrated) = self.apply(text, forms, &walked) {
            return Ok(migrated);
        }
        let walked = if has_moves { self.walk(text, forms, false)? } else { walked };
        self.apply(text, forms, &walked).ok_or_else(|| {
            let mut files = Files::default();
            let index = files.add(self.name, text.to_owned());
            let place = walked.found.first().map_or_else(|| files.beginning(index), |found| found.span);
            let message = "the renames would change more than names, so the file was not changed";
            let help = "rename by hand: `glossator check` lists every place".to_owned();
            Problems::from_list(vec![Problem::with_span(
                &files,
                Code::RenamedKey.at_span(place),
                message,
                Some(help),
            )])
        })
    }

    /// Applies the findings; `None` if the result does not parse to the expected trees.
    fn apply(&self, text: &str, forms: &[Option<ValueKind>], walked: &Walked) -> Option<Migrated> {
        let mut files = Files::default();
        files.add(self.name, text.to_owned());
        let place = |span: SourceSpan| files.line_and_column(span);
        let mut edits = BTreeMap::new();
        let (mut changes, mut remarks, mut moves) = (Vec::new(), Vec::new(), 0);
        for Found { section, span, was, step } in &walked.found {
            let (line, column) = (place(*span).line, place(*span).column);
            let now = match step {
                Step::Replace(words) => {
                    edits.insert(span.start, (span.start..span.end, words.clone()));
                    words.trim_matches(['"', '\'']).to_owned()
                }
                Step::Move(step) => {
                    moves += 1;
                    format!("{}.{}", step.parent, step.leaf)
                }
                Step::Remark(message) => {
                    let section = section.replace('`', "");
                    remarks.push(Remark { line, column, message: format!("{section}: {message}") });
                    continue;
                }
            };
            let section = section.replace('`', "");
            changes.push(Change { line, column, section, was: was.clone(), now });
        }
        let mut rewritten = moves::replaced(text, edits.into_values().collect());
        // One at a time: each move changes the offsets of the rest.
        for _ in 0..moves {
            let found = self.walk(&rewritten, forms, true).ok()?.found;
            let next = found.iter().find_map(|found| match &found.step {
                Step::Move(step) => Some((found.span, step)),
                Step::Replace(_) | Step::Remark(_) => None,
            });
            let Some((key, step)) = next else { break };
            rewritten = moves::apply(&rewritten, key, step)?;
        }
        let (_, trees) = self.read(&rewritten).ok()?;
        let is_same = trees.len() == walked.trees.len()
            && trees.iter().zip(&walked.trees).all(|(tree, expected)| says_the_same(tree, expected));
        is_same.then_some(Migrated { text: rewritten, changes, remarks })
    }
}

/// Whether two trees have the same keys and values.
fn says_the_same(one: &Node, other: &Node) -> bool {
    match (&one.kind, &other.kind) {
        (Kind::List(one), Kind::List(other)) => {
            one.len() == other.len() && one.iter().zip(other).all(|(one, other)| says_the_same(one, other))
        }
        (Kind::Map(one), Kind::Map(entries)) => {
            let is_there = |entry: &Entry| {
                other.get(&entry.key.text).is_some_and(|found| says_the_same(&entry.value, found))
            };
            one.len() == entries.len() && one.iter().all(is_there)
        }
        _ => one.to_json() == other.to_json(),
    }
}
