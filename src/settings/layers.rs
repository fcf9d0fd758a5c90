//! Layers of process settings: environment variables override the file, and flags override both.
//!
//! A value from outside replaces the one in the tree of the file, and its span says where it comes from. So
//! one parser handles all layers, and each problem names the file and line, the variable or the flag.

use super::{
    code::Code,
    keys::{KeyTable, ShortForm, ValueKind},
    problem::Problem,
    report::Report,
    secret::Environment,
    source::{Files, Origin, SourceSpan},
    suggest,
    tree::{Entry, Kind, Node, resolve_plain},
};

/// Prefix of the environment variables that are settings.
const PREFIX: &str = "GLOSSATOR__";

/// Setting from a command-line flag.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Flag {
    /// Name of the flag: `--listen`.
    pub name: String,
    /// Path of the setting: `server.listen`.
    pub setting: String,
    /// Value; items of a list are separated by commas.
    pub value: String,
}

/// Environment variables and flags, registered among the files so that problems can name them.
///
/// A variable has its own name here, and a flag that of its setting.
pub(crate) struct ExternalSettings(Vec<(String, SourceSpan)>);

impl ExternalSettings {
    /// Registers variables and flags among the files. An empty variable is ignored, because container tools
    /// set a variable without a value to the empty string.
    pub(crate) fn register(files: &mut Files, environment: &Environment, flags: &[Flag]) -> Self {
        let mut external = Vec::new();
        let is_setting = |(name, value): &(&str, &str)| name.starts_with(PREFIX) && !value.is_empty();
        for (name, value) in environment.iter().filter(is_setting) {
            external.push((name.to_owned(), files.add(name, value, Origin::Variable)));
        }
        for Flag { name, setting, value } in flags {
            external.push((setting.clone(), files.add(name, value, Origin::Flag)));
        }
        Self(external.into_iter().map(|(name, file)| (name, files.whole(file))).collect())
    }
}

/// Name of the environment variable for a setting such as `server.listen`.
pub(crate) fn variable(setting: &str) -> String {
    format!("{PREFIX}{}", setting.to_ascii_uppercase().replace('.', "__"))
}

/// Lists all process settings of a section by their paths, with the kind of each, nested sections included.
fn settings_of(table: &'static KeyTable, path: &str) -> Vec<(String, ValueKind)> {
    let settings = table.keys().filter(|key| key.takes_effect.is_some()).flat_map(|key| {
        let path = format!("{path}.{}", key.name);
        match key.kind {
            ValueKind::Section(table) => settings_of(table(), &path),
            // A variable or flag is one string, which cannot be a map.
            ValueKind::Map(_) | ValueKind::OneOrMore(ValueKind::Section(_)) => Vec::new(),
            kind => vec![(path, kind)],
        }
    });
    settings.collect()
}

/// Merges variables and flags over the sections of the file. `renamed` returns the message and help for the
/// old name of a variable.
pub(crate) fn merge(
    report: &Report<'_>,
    environment: &Environment,
    mut root: Node,
    tables: &[&'static KeyTable],
    external: &ExternalSettings,
    renamed: fn(&str) -> Option<(String, String)>,
) -> Node {
    let settings: Vec<_> = tables.iter().flat_map(|table| settings_of(table, table.id)).collect();
    report_unknown_variables(report, environment, &settings, external, renamed);
    let Kind::Map(entries) = &mut root.kind else { return root };
    for entry in entries.iter_mut() {
        let table = tables.iter().find(|table| table.id == entry.key.text);
        // Expand the short form of a section to a map, so that the other layers can add keys.
        if let (Some(ShortForm::Text(key)), Kind::Text(_)) =
            (table.map(|table| table.short_form), &entry.value.kind)
        {
            let inside = Entry::new(key, entry.value.clone(), entry.key.span);
            entry.value = Node::new(Kind::Map(vec![inside]), entry.value.span);
        }
    }
    // Flags come after variables, and override them.
    for (name, span) in &external.0 {
        if let Some((path, kind)) = settings.iter().find(|(path, _)| path == name || variable(path) == *name)
        {
            set(entries, path, node_of(report.files().text(*span), *kind, *span));
        }
    }
    root
}

/// Sets the value at a path of keys, in sections that may not exist yet. A section that is not a map is
/// reported by its parser.
fn set(entries: &mut Vec<Entry>, path: &str, value: Node) {
    let (key, rest) = path.split_once('.').map_or((path, None), |(key, rest)| (key, Some(rest)));
    let span = value.span;
    let known = entries.iter().position(|entry| entry.key.text == key);
    let index = known.unwrap_or_else(|| {
        entries.push(Entry::new(key, Node::new(Kind::Map(Vec::new()), span), span));
        entries.len() - 1
    });
    match (rest, &mut entries[index].value.kind) {
        (None, _) => entries[index] = Entry::new(key, value, span),
        (Some(rest), Kind::Map(inside)) => set(inside, rest, value),
        (Some(_), _) => {}
    }
}

fn report_unknown_variables(
    report: &Report<'_>,
    environment: &Environment,
    settings: &[(String, ValueKind)],
    external: &ExternalSettings,
    renamed: fn(&str) -> Option<(String, String)>,
) {
    let known: Vec<String> = settings.iter().map(|(path, _)| variable(path)).collect();
    for (name, _) in environment.iter().filter(|(name, _)| !name.starts_with(PREFIX)) {
        if let Some(meant) = known.iter().find(|known| known.replace("__", "_") == *name) {
            let message = "this variable has no effect";
            let help = format!("write `{meant}`, with two underscores as the separator");
            report.add(Problem::without_span(Code::UnknownVariable, name, message, Some(help)));
        }
    }
    let is_unknown = |name: &String| name.starts_with(PREFIX) && !known.contains(name);
    for (name, _) in external.0.iter().filter(|(name, _)| is_unknown(name)) {
        let (code, message, help) = match renamed(name) {
            Some((message, help)) => (Code::RenamedKey, message, Some(help)),
            None => (
                Code::UnknownVariable,
                "this variable has no effect: there is no process setting of this name".to_owned(),
                suggest::help(name, "known variables", known.iter().map(String::as_str)),
            ),
        };
        report.add(Problem::without_span(code, name, message, help));
    }
}

/// Converts a string from a variable, a flag or an expansion to the kind of value that its key accepts. The
/// parser of the key rejects invalid strings.
pub(super) fn node_of(text: &str, kind: ValueKind, span: SourceSpan) -> Node {
    let whole = text;
    let text = text.trim();
    match kind {
        // A password may begin or end with a space.
        ValueKind::Scalar => Node::from_text(whole, span),
        ValueKind::Boolean | ValueKind::Count(..) | ValueKind::Fraction => {
            Node::new(resolve_plain(text), span)
        }
        ValueKind::List(_) | ValueKind::OneOrMore(_) => {
            let items = text.split(',').map(str::trim).filter(|item| !item.is_empty());
            Node::new(Kind::List(items.map(|item| Node::from_text(item, span)).collect()), span)
        }
        _ => Node::from_text(text, span),
    }
}
