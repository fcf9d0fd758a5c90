//! The layers as people write them, checked: the sections of the file, `GLOSSATOR__…` variables, flags.

use std::collections::BTreeMap;

use config::{ConfigError, Map as Layered, Source, Value, ValueKind};

use crate::config::{
    keys::{ADMIN, Key, Keys, LOG, SERVER, Takes},
    node::{Kind, Node},
    problem::Problem,
    report::Report,
    secret::{self, Environment},
    section::Section,
    setting::{check, check_item, integer, parse},
    suggest,
    units::UnitError,
};

/// A setting that the command line gives.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Flag {
    /// As the user wrote it: `--listen`.
    pub name: String,
    /// What it sets: `server.listen`.
    pub setting: String,
    /// To what; lists with commas.
    pub value: String,
}

/// What the names of variables that set something begin with.
const PREFIX: &str = "GLOSSATOR__";
/// The sections, with their keys, in the order of the file.
pub(super) const SECTIONS: [(&str, &Keys); 3] = [("server", &SERVER), ("admin", &ADMIN), ("log", &LOG)];

/// One layer, checked: `server.listen` and its like.
#[derive(Debug, Clone, Default)]
pub(super) struct Layer(pub(super) BTreeMap<String, ValueKind>);

impl Source for Layer {
    fn clone_into_box(&self) -> Box<dyn Source + Send + Sync> {
        Box::new(self.clone())
    }

    fn collect(&self) -> Result<Layered<String, Value>, ConfigError> {
        Ok(self.0.iter().map(|(key, kind)| (key.clone(), Value::new(None, kind.clone()))).collect())
    }
}

/// The settings that a section of the file names.
pub(super) fn read_section(
    section: &Section<'_, '_>,
    environment: &Environment,
    name: &str,
    keys: &'static Keys,
    layer: &mut Layer,
) {
    for key in settings_of(keys) {
        let Some(node) = section.get(key.name) else { continue };
        if let Some(value) = read_node(section, environment, key, node) {
            layer.0.insert(format!("{name}.{}", key.name), value);
        }
    }
}

/// The keys that are a setting each. A section in a section has a reader of its own, and no layers.
fn settings_of(keys: &'static Keys) -> impl Iterator<Item = &'static Key> {
    keys.list.iter().filter(|key| !matches!(key.takes, Takes::Section(_)))
}

fn read_node(
    section: &Section<'_, '_>,
    environment: &Environment,
    key: &Key,
    node: &Node,
) -> Option<ValueKind> {
    let report = section.report;
    if let Some(text) = node.as_text().filter(|text| text.contains("${")) {
        let expanded = secret::expand(report, environment, node.span, text)?;
        return match parse(key, &expanded.text) {
            Ok(value) => Some(value),
            Err(error) if !expanded.foreign => refuse(report, node, error),
            Err(_) => {
                let message = format!("with its variables put in, `{}` is not what it takes", key.name);
                report.error(node.span, message, format!("look at the variables: {}", key.help()));
                None
            }
        };
    }
    let value = match key.takes {
        Takes::Flag => section.flag(key.name)?.into(),
        Takes::Word(_) => section.word(key.name)?.into(),
        Takes::Duration(..) => integer(section.duration(key.name)?.as_millis()),
        Takes::Size(..) => integer(section.size(key.name)? as u128),
        Takes::Count(..) => integer(section.count(key.name)?.into()),
        Takes::List(_) => {
            let Kind::List(_) = &node.kind else {
                let help = node.as_text().map(|text| format!("write `[{text}]`"));
                report.error(node.span, format!("`{}` takes a list, found {}", key.name, node.found()), help);
                return None;
            };
            let mut items = Vec::new();
            for (item, text) in section.texts(key.name)? {
                let text = secret::expand(report, environment, item.span, text)?.text;
                if let Err(error) = check_item(key, &text) {
                    refuse::<()>(report, item, error);
                }
                items.push(Value::from(text));
            }
            return Some(ValueKind::Array(items));
        }
        // `listen: 8080` is a number to YAML, and an address without a host to us.
        _ if key.name == "listen" && node.scalar().is_some() => node.scalar()?.into(),
        _ => {
            let text = section.text(key.name)?;
            warn_of_inline(report, key, node, text);
            text.into()
        }
    };
    match check(key, &value) {
        Ok(()) => Some(value),
        Err(error) => refuse(report, node, error),
    }
}

/// A secret that everybody knows who can read the file.
fn warn_of_inline(report: &Report<'_>, key: &Key, node: &Node, text: &str) {
    if matches!(key.name, "secret" | "token") && !text.is_empty() {
        let message =
            format!("the value of `{}` stands in the file itself, for everyone who can read it", key.name);
        report.warning(
            node.span,
            message,
            "write `${NAME}` for an environment variable, or `${file:/path}` for a file",
        );
    }
}

fn refuse<T>(report: &Report<'_>, node: &Node, error: UnitError) -> Option<T> {
    report.error(node.span, error.message, error.help);
    None
}

/// The settings that variables give.
pub(super) fn read_variables(report: &Report<'_>, environment: &Environment) -> Layer {
    let mut layer = Layer::default();
    let known: Vec<String> = SECTIONS
        .iter()
        .flat_map(|(section, keys)| settings_of(keys).map(move |key| variable(section, key.name)))
        .collect();
    let single = |name: &str| name.replace("__", "_");
    for (name, _) in environment.iter().filter(|(name, _)| !name.starts_with(PREFIX)) {
        if let Some(meant) = known.iter().find(|known| single(known) == *name) {
            let help = format!("write `{meant}`, with two underscores each time");
            report.add(Problem::of_whole(name, "this variable sets nothing", Some(help)));
        }
    }
    for (name, value) in environment.iter().filter(|(name, _)| name.starts_with(PREFIX)) {
        let found = SECTIONS.iter().find_map(|(section, keys)| {
            let key = settings_of(keys).find(|key| variable(section, key.name) == name)?;
            Some((format!("{section}.{}", key.name), key))
        });
        match found {
            None => report.add(Problem::of_whole(
                name,
                "this variable sets nothing: no setting of the process is called so",
                suggest::help(name, "known variables", known.iter().map(String::as_str)),
            )),
            // Containers set what they leave open to nothing.
            Some(_) if value.is_empty() => {}
            Some((setting, key)) => match parse(key, value) {
                Ok(value) => {
                    layer.0.insert(setting, value);
                }
                Err(error) => report.add(of_variable(name, &setting, key, error)),
            },
        }
    }
    layer
}

/// What is wrong with a variable. It may hold what was meant for another, so its value is not told.
fn of_variable(name: &str, setting: &str, key: &Key, error: UnitError) -> Problem {
    let (message, help) = match key.takes {
        // Of these no value is told in any case.
        Takes::Text if key.name != "listen" => (error.message, error.help),
        Takes::Text => (format!("the value is not what `{setting}` takes"), key.help()),
        takes => (format!("the value is not what `{setting}` takes: {takes}"), key.help()),
    };
    Problem::of_whole(name, message, Some(help))
}

/// The settings that the command line gives.
pub(super) fn read_flags(report: &Report<'_>, flags: &[Flag]) -> Layer {
    let mut layer = Layer::default();
    for Flag { name, setting, value } in flags {
        let key = setting.split_once('.').and_then(|(section, key)| {
            SECTIONS.iter().find(|(name, _)| *name == section).and_then(|(_, keys)| keys.get(key))
        });
        let parsed = match key {
            Some(key) => parse(key, value),
            None => Err(UnitError {
                message: format!("there is no setting `{setting}`"),
                help: "leave it out".into(),
            }),
        };
        match parsed {
            Ok(value) => {
                layer.0.insert(setting.clone(), value);
            }
            Err(error) => report.add(Problem::of_whole(name, error.message, Some(error.help))),
        }
    }
    layer
}

/// The variable of a setting.
pub(super) fn variable(section: &str, key: &str) -> String {
    format!("{PREFIX}{}__{}", section.to_ascii_uppercase(), key.to_ascii_uppercase())
}
