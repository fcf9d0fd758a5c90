//! Layers of process settings: environment variables override the file, and flags override both.
//!
//! The crate `config` merges the layers. It merges the origins of the values, such as `environment variable
//! GLOSSATOR__SERVER__LISTEN`, and the origin then identifies the value. So one parser handles all layers,
//! and each problem names the file and line, the variable or the flag.

use std::collections::HashMap;

use config::{Config, ConfigError, Map, Source, Value, ValueKind as Merged};

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
pub(crate) struct ExternalSettings {
    variables: Vec<(String, SourceSpan)>,
    flags: Vec<(String, SourceSpan)>,
}

impl ExternalSettings {
    /// Registers variables and flags among the files. An empty variable is ignored, because container tools
    /// set a variable without a value to the empty string.
    pub(crate) fn register(files: &mut Files, environment: &Environment, flags: &[Flag]) -> Self {
        let settings =
            environment.iter().filter(|(name, value)| name.starts_with(PREFIX) && !value.is_empty());
        let variables = settings
            .map(|(name, value)| (name.to_owned(), files.add_external(name, value, Origin::Variable)))
            .collect();
        let flags = flags
            .iter()
            .map(|flag| (flag.setting.clone(), files.add_external(&flag.name, &flag.value, Origin::Flag)))
            .collect();
        Self { variables, flags }
    }
}

/// Name of the environment variable for a setting such as `server.listen`.
pub(crate) fn variable(setting: &str) -> String {
    format!("{PREFIX}{}", setting.to_ascii_uppercase().replace('.', "__"))
}

/// Path and kind of one process setting.
struct ProcessSetting {
    path: String,
    kind: ValueKind,
}

/// Lists all process settings of the sections, with the path of each, nested sections included.
fn settings_of(tables: &[&'static KeyTable]) -> Vec<ProcessSetting> {
    fn add(table: &'static KeyTable, path: &str, found: &mut Vec<ProcessSetting>) {
        for key in table.keys().filter(|key| key.takes_effect.is_some()) {
            let path = format!("{path}.{}", key.name);
            match key.kind {
                ValueKind::Section(table) => add(table(), &path, found),
                // A variable or flag is one string, which cannot be a map.
                ValueKind::Map(_) | ValueKind::OneOrMore(ValueKind::Section(_)) => {}
                kind => found.push(ProcessSetting { path, kind }),
            }
        }
    }
    let mut found = Vec::new();
    tables.iter().for_each(|table| add(table, table.id, &mut found));
    found
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
    let settings = settings_of(tables);
    report_unknown_variables(report, environment, &settings, external, renamed);
    let mut layers = Layers::default();
    let is_process = |entry: &Entry| tables.iter().any(|table| table.id == entry.key.text);
    let Kind::Map(entries) = &mut root.kind else { return root };
    // Expand the short form of a section to a map, so that the other layers can add keys.
    for entry in entries.iter_mut() {
        let table = tables.iter().find(|table| table.id == entry.key.text);
        if let (Some(ShortForm::Text(key)), Kind::Text(_)) =
            (table.map(|table| table.short_form), &entry.value.kind)
        {
            let inside = Entry::new(key, entry.value.clone(), entry.key.span);
            entry.value = Node::new(Kind::Map(vec![inside]), entry.value.span);
        }
    }
    // A section that is not a map is reported by its parser.
    let (sections, rest): (Vec<_>, Vec<_>) = std::mem::take(entries)
        .into_iter()
        .partition(|entry| is_process(entry) && entry.value.as_map().is_some());
    *entries = rest;
    let file = layers.file_layer(report, &sections);
    let variables =
        layers.external_layer(report, &settings, &external.variables, "environment variable", variable);
    let flags = layers.external_layer(report, &settings, &external.flags, "flag", str::to_owned);
    let merged = Config::builder().add_source(file).add_source(variables).add_source(flags).build();
    match merged {
        Ok(config) => {
            let found = layers.tree(&config.cache, root.span);
            // A section that is not a map in the file is kept, so that its parser reports it.
            let is_new = |entry: &Entry| !entries.iter().any(|known| known.key.text == entry.key.text);
            let new: Vec<_> = found.into_iter().filter(is_new).collect();
            entries.extend(new);
        }
        Err(error) => {
            report.add(Problem::without_span(Code::UnmergedSettings, "settings", error.to_string(), None))
        }
    }
    root
}

fn report_unknown_variables(
    report: &Report<'_>,
    environment: &Environment,
    settings: &[ProcessSetting],
    external: &ExternalSettings,
    renamed: fn(&str) -> Option<(String, String)>,
) {
    let known: Vec<String> = settings.iter().map(|setting| variable(&setting.path)).collect();
    let without_pairs = |name: &str| name.replace("__", "_");
    for (name, _) in environment.iter().filter(|(name, _)| !name.starts_with(PREFIX)) {
        if let Some(meant) = known.iter().find(|known| without_pairs(known) == *name) {
            let help = format!("write `{meant}`, with two underscores as the separator");
            report.add(Problem::without_span(
                Code::UnknownVariable,
                name,
                "this variable has no effect",
                Some(help),
            ));
        }
    }
    for (name, _) in external.variables.iter().filter(|(name, _)| !known.contains(name)) {
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

/// Values of all layers by origin; `config` merges only the origins.
#[derive(Default)]
struct Layers {
    by_origin: HashMap<String, Entry>,
    /// Spans of the keys and values of the file's maps, by path.
    maps: HashMap<String, (SourceSpan, SourceSpan)>,
}

/// One layer: values by the path of the setting.
#[derive(Debug, Clone)]
struct Layer(Vec<(String, Value)>);

impl Source for Layer {
    fn clone_into_box(&self) -> Box<dyn Source + Send + Sync> {
        Box::new(self.clone())
    }

    fn collect(&self) -> Result<Map<String, Value>, ConfigError> {
        Ok(self.0.iter().cloned().collect())
    }
}

impl Layers {
    fn register(&mut self, origin: String, entry: Entry) -> Value {
        let value = Value::new(Some(&origin), Merged::Nil);
        self.by_origin.insert(origin, entry);
        value
    }

    fn file_layer(&mut self, report: &Report<'_>, sections: &[Entry]) -> Layer {
        Layer(sections.iter().map(|entry| (entry.key.text.clone(), self.value(report, "", entry))).collect())
    }

    /// Converts an entry for `config`: a map becomes a table that is merged key by key, any other value is
    /// replaced as a whole.
    fn value(&mut self, report: &Report<'_>, path: &str, entry: &Entry) -> Value {
        let path = format!("{path}.{}", entry.key.text);
        let Some(entries) = entry.value.as_map().filter(|entries| !entries.is_empty()) else {
            return self.register(format!("{} {path}", report.file_and_line(entry.key.span)), entry.clone());
        };
        let table: Map<_, _> =
            entries.iter().map(|entry| (entry.key.text.clone(), self.value(report, &path, entry))).collect();
        self.maps.insert(path, (entry.key.span, entry.value.span));
        Value::new(None, Merged::Table(table))
    }

    fn external_layer(
        &mut self,
        report: &Report<'_>,
        settings: &[ProcessSetting],
        external: &[(String, SourceSpan)],
        origin: &str,
        name_of: fn(&str) -> String,
    ) -> Layer {
        let known = external.iter().filter_map(|(name, span)| {
            let setting = settings.iter().find(|setting| name_of(&setting.path) == *name)?;
            let node = node_of(report.files().text(*span), setting.kind, *span);
            let key = setting.path.rsplit('.').next().unwrap_or_default();
            Some((
                setting.path.clone(),
                self.register(format!("{origin} {name}"), Entry::new(key, node, *span)),
            ))
        });
        Layer(known.collect())
    }

    /// Converts a merged table to entries in the order of the file; entries from other layers come last.
    fn tree(&self, table: &Value, span: SourceSpan) -> Vec<Entry> {
        self.entries(table, "", span)
    }

    fn entries(&self, table: &Value, path: &str, span: SourceSpan) -> Vec<Entry> {
        let Merged::Table(members) = &table.kind else { return Vec::new() };
        let mut entries: Vec<Entry> = members
            .iter()
            .filter_map(|(name, value)| {
                if let Some(origin) = value.origin() {
                    return self.by_origin.get(origin).cloned();
                }
                let path = format!("{path}.{name}");
                let (key, span) = self.maps.get(&path).copied().unwrap_or((span, span));
                let inside = self.entries(value, &path, span);
                Some(Entry::new(name, Node::new(Kind::Map(inside), span), key))
            })
            .collect();
        entries.sort_by_key(|entry| (entry.key.span.file, entry.key.span.start));
        entries
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
