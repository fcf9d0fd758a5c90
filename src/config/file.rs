//! Parser for one file of the configuration, which marks the secrets in it so that no message contains them.
//!
//! The declaration of each key says whether its value is masked ([`Masking`]). A file can have values that no
//! declaration knows: of misspelled or misplaced keys, and of names that the operator chooses, such as those
//! of headers and environment variables. Their names decide.

use std::{collections::BTreeSet, ops::Range, sync::LazyLock};

use super::compile::FileSettings;
use super::renamed::{self, RENAMES, Replacement};
use crate::settings::credential_forms::has_private_key;
use crate::settings::secret::{is_only_references, is_secret_name};
use crate::settings::{
    Entry, KeySpec, KeyTable, Kind, Masking, Node, Report, Setting as _, ShortForm, ValueKind, suggest, tree,
};

/// Parses one file. Returns `None` after reporting that it is invalid or empty.
pub(super) fn read(report: &Report<'_>, file: usize) -> Option<Node> {
    read_as(report, file, FileSettings::KIND)
}

/// Like [`read`], for a file with another content than a configuration.
pub(super) fn read_as(report: &Report<'_>, file: usize, kind: ValueKind) -> Option<Node> {
    let mut root = tree::read(report, file)?;
    let mut secrets = Secrets::default();
    secrets.mark(&mut root, &[kind], false);
    secrets.mark_private_keys(&mut root);
    report.files().mask(file, secrets.ranges);
    Some(root)
}

/// Names of all declared keys.
struct DeclaredNames {
    all: BTreeSet<&'static str>,
    /// Those whose values are masked, with their old names.
    masked: Vec<&'static str>,
}

static DECLARED: LazyLock<DeclaredNames> = LazyLock::new(|| {
    /// A shorter name is close to too many others to be found in a misspelled one.
    const MIN_LENGTH: usize = 5;
    let sections = renamed::sections();
    let keys = || sections.iter().flat_map(|keys| keys().keys());
    let is_masked = |name: &str| keys().any(|key| key.name == name && key.masking == Masking::Always);
    let old =
        RENAMES.settings.iter().filter(|row| matches!(row.now, Replacement::Key(now) if is_masked(now)));
    let masked = keys().filter(|key| key.masking == Masking::Always).map(|key| key.name);
    DeclaredNames {
        all: keys().map(|key| key.name).chain(RENAMES.settings.iter().map(|row| row.key)).collect(),
        masked: masked.chain(old.map(|row| row.key)).filter(|name| name.len() >= MIN_LENGTH).collect(),
    }
});

/// Byte ranges of the secrets that have been found in a file.
#[derive(Default)]
struct Secrets {
    ranges: Vec<Range<usize>>,
}

impl Secrets {
    /// Marks the secrets in a value of one of these kinds; of a value of no known kind, those whose names
    /// sound like a credential. `masks_unknown_keys` is that of an outer section.
    fn mark(&mut self, node: &mut Node, kinds: &[ValueKind], masks_unknown_keys: bool) {
        let kinds = Kinds::new(kinds);
        let masks_unknown_keys =
            masks_unknown_keys || kinds.sections.iter().any(|section| section.masks_unknown_keys);
        match &mut node.kind {
            Kind::Map(entries) => {
                entries.iter_mut().for_each(|entry| self.mark_entry(entry, &kinds, masks_unknown_keys));
            }
            Kind::List(items) if kinds.items.is_empty() && masks_unknown_keys => {
                items.iter_mut().for_each(|item| self.hide_all(item));
            }
            Kind::List(_) if kinds.items.is_empty() && kinds.is_schema => {}
            Kind::List(items) => {
                items.iter_mut().for_each(|item| self.mark(item, &kinds.items, masks_unknown_keys));
            }
            Kind::Null | Kind::Boolean(_) | Kind::Number(_) | Kind::Text(_) => {
                let is_masked = kinds.sections.iter().any(|section| {
                    let ShortForm::Text(key) = section.short_form else { return false };
                    section.get(key).is_some_and(|key| key.masking == Masking::Always)
                });
                // A scalar in place of a section is probably the value of one of its keys.
                let accepts_scalar = kinds.sections.is_empty() || kinds.accepts_text || kinds.accepts_scalars;
                if is_masked || masks_unknown_keys && !accepts_scalar {
                    self.hide(node);
                }
            }
        }
    }

    /// Marks the secrets of an entry of a map of these kinds.
    fn mark_entry(&mut self, Entry { key, value }: &mut Entry, kinds: &Kinds, masks_unknown_keys: bool) {
        let declared: Vec<_> =
            kinds.sections.iter().copied().filter_map(|section| key_of(section, &key.text)).collect();
        if !declared.is_empty() {
            if declared.iter().any(|key| key.masking == Masking::Always) {
                self.hide_all(value);
            } else if declared.iter().any(|key| key.masking != Masking::Never) {
                let kinds: Vec<_> = declared.iter().map(|key| key.kind).collect();
                self.mark(value, &kinds, masks_unknown_keys);
            }
        } else if !kinds.values.is_empty() {
            let values = Kinds::new(&kinds.values);
            if values.accepts_text && is_secret_name(&key.text) {
                self.hide(value);
            }
            self.mark(value, &kinds.values, masks_unknown_keys);
        } else if masks_unknown_keys {
            self.hide_all(value);
        } else if !kinds.is_schema {
            // No declaration has the name.
            if is_secret_name(&key.text) || is_misspelled_secret(&key.text) {
                self.hide(value);
            }
            self.mark(value, &[], false);
        }
    }

    /// Marks the texts that contain a private key: masked line by line, only its first line would be found.
    fn mark_private_keys(&mut self, node: &mut Node) {
        match &mut node.kind {
            Kind::Map(entries) => {
                entries.iter_mut().for_each(|entry| self.mark_private_keys(&mut entry.value));
            }
            Kind::List(items) => items.iter_mut().for_each(|item| self.mark_private_keys(item)),
            Kind::Text(text) if has_private_key(text) => self.hide(node),
            Kind::Null | Kind::Boolean(_) | Kind::Number(_) | Kind::Text(_) => {}
        }
    }

    /// Marks all scalars in a value: a setting that should be a string is a map or list by mistake.
    fn hide_all(&mut self, node: &mut Node) {
        match &mut node.kind {
            Kind::Map(entries) => entries.iter_mut().for_each(|entry| self.hide_all(&mut entry.value)),
            Kind::List(items) => items.iter_mut().for_each(|item| self.hide_all(item)),
            Kind::Null | Kind::Boolean(_) | Kind::Number(_) | Kind::Text(_) => self.hide(node),
        }
    }

    fn hide(&mut self, node: &mut Node) {
        match &mut node.kind {
            Kind::Text(text) if is_only_references(text) => {}
            Kind::Text(_) | Kind::Number(_) => {
                node.secret = true;
                self.ranges.push(node.span.start..node.span.end);
            }
            Kind::List(items) => items.iter_mut().for_each(|item| self.hide(item)),
            Kind::Null | Kind::Boolean(_) | Kind::Map(_) => {}
        }
    }
}

/// Whether a name that no declaration has is probably a misspelled masked key.
fn is_misspelled_secret(name: &str) -> bool {
    !DECLARED.all.contains(name) && suggest::nearest(name, DECLARED.masked.iter().copied()).is_some()
}

/// Key of a section with this name or old name.
fn key_of(section: &'static KeyTable, name: &str) -> Option<&'static KeySpec> {
    section.get(name).or_else(|| {
        let Some(Replacement::Key(path)) = RENAMES.key(section.id, name) else { return None };
        Some(renamed::key_at(section, path)?.1)
    })
}

/// The alternative kinds of a value, sorted by its form.
#[derive(Default)]
struct Kinds {
    sections: Vec<&'static KeyTable>,
    /// Kinds of the items of a list.
    items: Vec<ValueKind>,
    /// Kinds of the values of a map with user-defined names.
    values: Vec<ValueKind>,
    /// Whether scalars of some form, such as numbers, are valid.
    accepts_scalars: bool,
    /// Whether any string is valid.
    accepts_text: bool,
    /// Whether it is a JSON Schema, whose names are those of arguments and fields.
    is_schema: bool,
}

impl Kinds {
    fn new(kinds: &[ValueKind]) -> Self {
        let mut sorted = Self::default();
        kinds.iter().for_each(|kind| sorted.add(*kind));
        sorted
    }

    fn add(&mut self, kind: ValueKind) {
        match kind {
            ValueKind::Section(section) => {
                let section = section();
                self.accepts_scalars |= matches!(section.short_form, ShortForm::Text(_));
                self.sections.push(section);
            }
            ValueKind::Either(kinds) => kinds.iter().for_each(|kind| self.add(*kind)),
            ValueKind::List(item) => self.items.push(*item),
            ValueKind::OneOrMore(item) => {
                self.items.push(*item);
                self.add(*item);
            }
            ValueKind::Map(value) => self.values.push(*value),
            ValueKind::Text | ValueKind::Scalar | ValueKind::Anything => self.accepts_text = true,
            ValueKind::JsonSchema => self.is_schema = true,
            ValueKind::Word(_)
            | ValueKind::Boolean
            | ValueKind::FieldType
            | ValueKind::Duration(..)
            | ValueKind::Size(..)
            | ValueKind::Count(..)
            | ValueKind::Fraction
            | ValueKind::Null => self.accepts_scalars = true,
        }
    }
}
