//! Layers of process settings: environment variables override the file, and flags override both.
//!
//! The crate `config` decides which layer a setting comes from. The values themselves remain nodes with
//! spans, so one parser handles all layers, and each problem names the file and line, the variable, or the
//! flag.

use std::collections::HashMap;

use config::{Config, ConfigError, Value, ValueKind as ConfigKind};

use super::{
    expansion::Environment,
    keys::{KeySpec, KeyTable, ShortForm, ValueKind},
    problem::Problem,
    problem_code::Code,
    problem_collector::Report,
    source_text::{Files, Origin, SourceSpan},
    suggest,
    tree::{Entry, Kind, Node, resolve_plain},
};

/// Prefix of the environment variables that are settings.
pub(super) const PREFIX: &str = "GLOSSATOR__";

/// Setting from a command-line flag.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Flag {
    /// Name of the flag, such as `--listen`.
    pub name: String,
    /// Path of the setting, such as `server.listen`.
    pub setting: String,
    /// Value; commas separate the items of a list.
    pub value: String,
}

/// Environment variables and flags, registered among the files so that problems can name them.
///
/// An entry has the name of a variable, or the setting path of a flag, and the span of its value.
pub(crate) struct ExternalSettings(Vec<(String, SourceSpan)>);

impl ExternalSettings {
    /// Registers variables and flags among the files, including those with an empty value. [`merge`] decides
    /// whether they apply.
    pub(crate) fn register(files: &mut Files, environment: &Environment, flags: &[Flag]) -> Self {
        let mut external = Vec::new();
        for (name, value) in environment.0.iter().filter(|(name, _)| name.starts_with(PREFIX)) {
            external.push((name.clone(), files.add(name, value, Origin::Variable)));
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

/// Lists all process settings of a section and of its nested sections, with their paths.
fn settings_of(table: &'static KeyTable, path: &str) -> Vec<(String, &'static KeySpec)> {
    let settings = table.keys().filter(|key| key.takes_effect.is_some()).flat_map(|key| {
        let path = format!("{path}.{}", key.name);
        match key.kind {
            ValueKind::Section(table) => settings_of(table(), &path),
            // A map cannot be set by a variable or a flag, which is one string.
            ValueKind::Map(_) | ValueKind::OneOrMore(ValueKind::Section(_)) => Vec::new(),
            _ => vec![(path, key)],
        }
    });
    settings.collect()
}

/// Merges variables and flags over the sections of the file. `describe_renamed` returns the message and the
/// help for a variable that has been renamed.
pub(crate) fn merge(
    report: &Report<'_>,
    environment: &Environment,
    mut root: Node,
    tables: &[&'static KeyTable],
    external: &ExternalSettings,
    describe_renamed: fn(&str) -> Option<(String, String)>,
) -> Node {
    let settings: Vec<_> = tables.iter().flat_map(|table| settings_of(table, table.id)).collect();
    report_unknown_variables(report, environment, &settings, external, describe_renamed);
    let Kind::Map(entries) = &mut root.kind else { return root };
    let table_of = |entry: &Entry| tables.iter().find(|table| table.id == entry.key.text);
    // Expand the short form of a section to a map, so that the other layers can add keys.
    for entry in entries.iter_mut() {
        if let (Some(ShortForm::Text(key)), Kind::Text(_)) =
            (table_of(entry).map(|table| table.short_form), &entry.value.kind)
        {
            let member = Entry::new(key, entry.value.clone(), entry.key.span);
            entry.value = Node::new(Kind::Map(vec![member]), entry.value.span);
        }
    }
    let mut external_entries = HashMap::new();
    for (name, span) in &external.0 {
        let text = report.files().text(*span);
        // An empty variable or flag is ignored, because container tools set variables without a value to the
        // empty string. An empty secret is not ignored: that could disable what the secret protects.
        let applies = |key: &KeySpec| !text.is_empty() || key.secret;
        let setting = settings.iter().find(|(path, _)| path == name || variable(path) == *name);
        if let Some((path, key)) = setting.filter(|(_, key)| applies(key)) {
            if text.contains(char::REPLACEMENT_CHARACTER) {
                let message = "the value of this variable is not UTF-8";
                report.add(Problem::without_span(Code::NotUtf8, name, message, None));
                continue;
            }
            let node = node_of(text, key.kind, *span);
            let key = path.rsplit('.').next().unwrap_or_default();
            // A flag overrides a variable for the same setting.
            external_entries.insert(path.clone(), Entry::new(key, node, *span));
        }
    }
    let is_mergeable =
        |entry: &mut Entry| table_of(entry).is_some() && matches!(entry.value.kind, Kind::Map(_));
    let sections: Vec<Entry> = entries.extract_if(.., is_mergeable).collect();
    let config = merge_layers(&sections, &external_entries).expect("each path consists of names of keys");
    let mut merged = entries_of(&config.cache, &sections, &external_entries, root.span);
    // A section that is not a map in the file remains, so that its parser reports the wrong type.
    merged.retain(|entry| !entries.iter().any(|existing| existing.key.text == entry.key.text));
    entries.extend(merged);
    root
}

fn report_unknown_variables(
    report: &Report<'_>,
    environment: &Environment,
    settings: &[(String, &KeySpec)],
    external: &ExternalSettings,
    describe_renamed: fn(&str) -> Option<(String, String)>,
) {
    let variables: Vec<String> = settings.iter().map(|(path, _)| variable(path)).collect();
    for name in environment.0.keys().filter(|name| !name.starts_with(PREFIX)) {
        if let Some(suggestion) = variables.iter().find(|candidate| candidate.replace("__", "_") == *name) {
            let message = "this variable has no effect";
            let help = format!("write `{suggestion}`, with two underscores as the separator");
            report.add(Problem::without_span(Code::UnknownVariable, name, message, Some(help)));
        }
    }
    let is_unknown = |(name, span): &&(String, SourceSpan)| {
        name.starts_with(PREFIX) && !variables.contains(name) && !report.files().text(*span).is_empty()
    };
    for (name, _) in external.0.iter().filter(is_unknown) {
        let (code, message, help) = match describe_renamed(name) {
            Some((message, help)) => (Code::RenamedKey, message, Some(help)),
            None => (
                Code::UnknownVariable,
                "this variable has no effect: there is no process setting of this name".to_owned(),
                suggest::help(name, "known variables", variables.iter().map(String::as_str)),
            ),
        };
        report.add(Problem::without_span(code, name, message, help));
    }
}

/// Merges the sections of the file with the entries from variables and flags, by path. The origin of a value
/// from a variable or flag is its path.
fn merge_layers(sections: &[Entry], external: &HashMap<String, Entry>) -> Result<Config, ConfigError> {
    let mut layers = Config::builder();
    for section in sections {
        layers = layers.set_default(&section.key.text, layer_of(&section.value))?;
    }
    for path in external.keys() {
        layers = layers.set_override(path, Value::new(Some(path), ConfigKind::Nil))?;
    }
    layers.build()
}

/// Converts a value of the file for the crate `config`: maps are merged key by key, any other value is
/// replaced as a whole.
fn layer_of(node: &Node) -> Value {
    let member = |entry: &Entry| (entry.key.text.clone(), layer_of(&entry.value));
    let table = node.as_map().map(|entries| ConfigKind::Table(entries.iter().map(member).collect()));
    Value::new(None, table.unwrap_or(ConfigKind::Nil))
}

/// Converts a merged table to entries in the order of the file; entries from variables and flags come last.
/// `file_entries` is the corresponding map in the file, and `span` the span for maps that are not in the
/// file.
fn entries_of(
    table: &Value,
    file_entries: &[Entry],
    external: &HashMap<String, Entry>,
    span: SourceSpan,
) -> Vec<Entry> {
    let ConfigKind::Table(members) = &table.kind else { return Vec::new() };
    let entry = |(name, value): (&String, &Value)| {
        let file_entry = file_entries.iter().find(|entry| entry.key.text == *name);
        match (value.origin(), &value.kind) {
            (Some(path), _) => external.get(path).cloned(),
            (None, ConfigKind::Table(_)) => {
                let (key, span) = file_entry.map_or((span, span), |entry| (entry.key.span, entry.value.span));
                let file_map = file_entry.and_then(|entry| entry.value.as_map()).unwrap_or_default();
                let nested = entries_of(value, file_map, external, span);
                Some(Entry::new(name, Node::new(Kind::Map(nested), span), key))
            }
            (None, _) => file_entry.cloned(),
        }
    };
    let mut entries: Vec<Entry> = members.iter().filter_map(entry).collect();
    entries.sort_by_key(|entry| (entry.key.span.file, entry.key.span.start));
    entries
}

/// Converts a string from a variable, a flag or an expansion to the kind of value that its key accepts.
/// Invalid strings remain strings, which the parser of the key rejects.
pub(super) fn node_of(text: &str, kind: ValueKind, span: SourceSpan) -> Node {
    let untrimmed = text;
    let text = text.trim();
    match kind {
        // A password may begin or end with a space.
        ValueKind::Scalar => Node::from_text(untrimmed, span),
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
