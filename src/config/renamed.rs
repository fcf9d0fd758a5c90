//! Table of renamed keys, enumerated values, variables of expressions, and flags.
//!
//! Each name has one row. The error about the old name and the change that `glossator migrate` makes are
//! derived from the row. A test compares the keys and values with the list in
//! `config/book/reference/upgrading.md`. Only names that are no longer accepted have a row.

use std::sync::LazyLock;

use super::compile::FileSettings;
use crate::settings::layers::variable;
use crate::settings::{Code, KeySpec, KeyTable, Node, Report, Setting, ValueKind, tree};

/// Renamed keys, values and variables of configuration files.
#[derive(Debug)]
pub(super) struct Renames {
    pub(super) settings: Vec<RenamedSetting>,
    /// Renamed variables of jq (`$name`) and templates (`{{ name }}`), as pairs of old and new name.
    pub(super) variables: &'static [(&'static str, &'static str)],
}

/// Key that was renamed or removed, or that has a renamed value.
#[derive(Debug)]
pub(super) struct RenamedSetting {
    /// Schema ids of the sections that have the key.
    pub(super) sections: Vec<&'static str>,
    /// Name of the key, or its old name if the key was renamed.
    pub(super) key: &'static str,
    pub(super) replacement: Replacement,
}

/// Replacement of an old name.
#[derive(Debug, Clone, Copy)]
pub(super) enum Replacement {
    /// New name of the key. `mcp.name` is the key `name` of the nested section `mcp`.
    Key(&'static str),
    /// The key was removed. The string is the help of the error.
    Removed(&'static str),
    /// An enumerated value of the key was renamed: old value, new value.
    Value(&'static str, &'static str),
}

/// All renames, in the order of `config/book/reference/upgrading.md`.
pub(super) static RENAMES: LazyLock<Renames> = LazyLock::new(|| Renames {
    settings: rows(include_str!("renamed.txt")),
    variables: &[
        ("answers", "input_responses"),
        ("exit", "exit_status"),
        ("limit.left_out", "limit.omitted"),
    ],
});

/// Parses the table; `renamed.txt` describes the forms of its rows.
pub(super) fn rows(table: &'static str) -> Vec<RenamedSetting> {
    let row = |line: &'static str| {
        let (sections, rest) = line.split_once(' ')?;
        let (name, target) = rest.split_once(" -> ")?;
        let (key, replacement) = match name.split_once(": ") {
            Some((key, old_value)) => (key, Replacement::Value(old_value, target)),
            None => {
                let help = target.strip_prefix("removed: ");
                (name, help.map_or(Replacement::Key(target), Replacement::Removed))
            }
        };
        Some(RenamedSetting { sections: sections.split(',').collect(), key, replacement })
    };
    table.lines().filter(|line| !line.starts_with('#')).filter_map(row).collect()
}

/// Renamed command-line flags, as pairs of old and new name.
static FLAGS: &[(&str, &str)] =
    &[("--exit", "--exit-status"), ("--reply", "--response"), ("--type", "--content-type")];

/// Returns the new name of a renamed flag.
pub fn renamed_flag(flag: &str) -> Option<&'static str> {
    FLAGS.iter().find(|(old_name, _)| *old_name == flag).map(|(_, new_name)| *new_name)
}

impl Renames {
    /// Returns the replacement of a renamed or removed key of a section.
    pub(super) fn key(&self, section: &str, key: &str) -> Option<Replacement> {
        self.targets(section, key).find(|replacement| !matches!(replacement, Replacement::Value(..)))
    }

    /// Returns the new name of a renamed enumerated value; `None` for other values.
    pub(super) fn value(&self, section: &str, key: &str, value: &str) -> Option<&'static str> {
        self.targets(section, key).find_map(|replacement| match replacement {
            Replacement::Value(old_value, new_value) if old_value == value => Some(new_value),
            Replacement::Key(_) | Replacement::Removed(_) | Replacement::Value(..) => None,
        })
    }

    fn targets(&self, section: &str, key: &str) -> impl Iterator<Item = Replacement> {
        let rows = self.settings.iter().filter(move |row| row.sections.contains(&section) && row.key == key);
        rows.map(|row| row.replacement)
    }

    /// Environment variables of renamed and removed keys: old name, new name (`None` if the key was removed),
    /// and help (empty if the key was renamed).
    pub(super) fn environment(&self) -> impl Iterator<Item = (String, Option<String>, &'static str)> {
        /// Sections whose keys have environment variables.
        const PROCESS_SECTIONS: [&str; 5] = ["server", "admin", "log", "telemetry", "shared_state"];
        self.settings.iter().flat_map(|row| {
            let sections = row.sections.iter().filter(|section| PROCESS_SECTIONS.contains(section));
            sections.filter_map(|section| {
                let (new_name, help) = match row.replacement {
                    Replacement::Key(path) => (Some(variable(&format!("{section}.{path}"))), ""),
                    Replacement::Removed(help) => (None, help),
                    Replacement::Value(..) => return None,
                };
                Some((variable(&format!("{section}.{}", row.key)), new_name, help))
            })
        })
    }

    /// Reports a renamed or removed key of a section; returns `false` for other keys.
    pub(super) fn report_key(&self, report: &Report<'_>, key: &tree::Key, keys: &KeyTable) -> bool {
        let (name, section) = (&key.text, keys.section);
        let (message, help) = match self.key(keys.id, name) {
            Some(Replacement::Key(new_name)) => {
                (format!("`{name}` in {section} was renamed to `{new_name}`"), help_for_renamed(new_name))
            }
            Some(Replacement::Removed(help)) => {
                (format!("`{name}` in {section} was removed"), help.to_owned())
            }
            Some(Replacement::Value(..)) | None => return false,
        };
        report.error(Code::RenamedKey.at_span(key.span), message, help);
        true
    }
}

/// Reports a renamed enumerated value; returns `false` for other values.
pub(super) fn report_value(report: &Report<'_>, node: &Node, section: &str, key: &str) -> bool {
    let Some(old_value) = node.scalar() else { return false };
    let Some(new_value) = RENAMES.value(section, key, &old_value) else { return false };
    let message = format!("`{old_value}` of `{key}` was renamed to `{new_value}`");
    report.error(Code::RenamedKey.at_span(node.span), message, help_for_renamed(new_value));
    true
}

/// Help for a renamed key or value. `mcp.name` is the key `name` of the nested section `mcp`.
fn help_for_renamed(new_name: &str) -> String {
    let setting = new_name
        .split_once('.')
        .map_or_else(|| new_name.to_owned(), |(section, key)| format!("{section}: {{ {key}: … }}"));
    format!("write `{setting}`, or run `glossator migrate`")
}

/// Returns message and help for an environment variable whose key was renamed or removed.
pub(super) fn renamed_variable(name: &str) -> Option<(String, String)> {
    let (_, new_name, help) = RENAMES.environment().find(|(old_name, ..)| old_name == name)?;
    Some(match new_name {
        Some(new_name) => (format!("this variable was renamed to `{new_name}`"), format!("set `{new_name}`")),
        None => ("this variable has no effect: its setting was removed".to_owned(), help.to_owned()),
    })
}

/// Resolves a path within a section; returns the key and the section that contains it: `mcp.name` is `name`
/// of `mcp`.
pub(super) fn key_at(keys: &'static KeyTable, path: &str) -> Option<(&'static KeyTable, &'static KeySpec)> {
    match path.split_once('.') {
        None => Some((keys, keys.get(path)?)),
        Some((outer, inner)) => key_at(section_of(keys.get(outer)?.kind)?, inner),
    }
}

/// Returns the section that a key accepts, also if the key accepts other kinds too.
pub(super) fn section_of(kind: ValueKind) -> Option<&'static KeyTable> {
    match kind {
        ValueKind::Section(keys) => Some(keys()),
        ValueKind::Either(kinds) => kinds.iter().find_map(|kind| section_of(*kind)),
        _ => None,
    }
}

/// Returns the key tables of all sections of the file, beginning with the top level.
pub(super) fn sections() -> Vec<fn() -> &'static KeyTable> {
    fn add(kind: ValueKind, all: &mut Vec<fn() -> &'static KeyTable>) {
        match kind {
            ValueKind::Section(keys) if !all.iter().any(|known| std::ptr::eq(known(), keys())) => {
                all.push(keys);
                keys().keys().for_each(|key| add(key.kind, all));
            }
            ValueKind::List(item) | ValueKind::OneOrMore(item) | ValueKind::Map(item) => add(*item, all),
            ValueKind::Either(kinds) => kinds.iter().for_each(|kind| add(*kind, all)),
            _ => {}
        }
    }
    let mut all = Vec::new();
    add(FileSettings::KIND, &mut all);
    all
}

#[cfg(test)]
mod tests {
    use super::super::{file, section::open_section, server::ServerSettings};
    use super::*;
    use crate::settings::{Section as _, problem_collector::reading};

    fn problems(text: &str, renames: &Renames) -> String {
        let (_, problems) = reading(text, |report| {
            let root = file::read(report, 0).unwrap();
            let keys = ServerSettings::keys();
            for entry in root.get("server").and_then(Node::as_map).unwrap() {
                assert!(renames.report_key(report, &entry.key, keys));
            }
        });
        problems.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n")
    }

    #[test]
    fn the_error_about_a_renamed_key_names_the_new_one() {
        let renames = Renames { settings: rows("server bind -> listen"), variables: &[] };
        let reported = problems("server:\n  bind: 127.0.0.1:80\n", &renames);
        assert!(
            reported.contains(":2:3: error[G0102]: `bind` in `server` was renamed to `listen`"),
            "{reported}"
        );
        assert!(reported.contains("help: write `listen`"), "{reported}");
    }

    #[test]
    fn a_renamed_key_is_no_key_and_its_new_name_is_one() {
        let tables: Vec<_> = sections().into_iter().map(|keys| keys()).collect();
        for RenamedSetting { sections, key, replacement } in &RENAMES.settings {
            for section in sections {
                let found: Vec<_> = tables.iter().filter(|keys| keys.id == *section).collect();
                assert!(!found.is_empty(), "there is no section {section}");
                for keys in found {
                    match *replacement {
                        Replacement::Key(path) => {
                            assert!(keys.get(key).is_none(), "{section}.{key}");
                            assert!(key_at(keys, path).is_some(), "{section}.{path}");
                        }
                        Replacement::Removed(_) => assert!(keys.get(key).is_none(), "{section}.{key}"),
                        Replacement::Value(old_value, new_value) => {
                            assert_ne!(old_value, new_value);
                            let kind = keys.get(key).unwrap_or_else(|| panic!("{section}.{key}")).kind;
                            assert!(
                                !kind.to_string().contains(&format!("`{old_value}`")),
                                "{section}.{key}: {old_value}"
                            );
                        }
                    }
                }
            }
        }
    }

    #[test]
    fn the_page_about_upgrading_lists_every_renamed_key() {
        let page = include_str!("../../config/book/reference/upgrading.md");
        let (_, table) = page.split_once("<!-- former keys -->").unwrap();
        let (table, _) = table.split_once("<!-- end -->").unwrap();
        let mut expected = String::from("\n\n| section | key | now |\n|---|---|---|\n");
        for RenamedSetting { sections, key, replacement } in &RENAMES.settings {
            let sections: Vec<_> = sections.iter().map(|section| format!("`{section}`")).collect();
            let (old_cell, new_cell) = match replacement {
                Replacement::Key(path) => (format!("`{key}`"), format!("`{path}`")),
                Replacement::Removed(help) => (format!("`{key}`"), format!("gone: {help}")),
                Replacement::Value(old_value, new_value) => {
                    (format!("`{key}: {old_value}`"), format!("`{key}: {new_value}`"))
                }
            };
            expected += &format!("| {} | {old_cell} | {new_cell} |\n", sections.join(", "));
        }
        assert_eq!(table, expected + "\n");
    }

    #[test]
    fn a_renamed_key_is_reported_by_the_reader_of_sections() {
        let (_, problems) = reading("server: { direct_path: off }", |report| {
            let root = file::read(report, 0).unwrap();
            let server = root.get("server").unwrap();
            let _ = open_section::<ServerSettings>(report, server.span, server);
        });
        assert!(problems[0].to_string().contains("`direct_path` in `server` was removed"), "{problems:?}");
    }
}
