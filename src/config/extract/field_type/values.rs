//! Words that a field's values may be, and what each means.

use serde_json::Value;

use crate::{
    config::{
        node::{Kind, Node},
        report::Report,
        section::{self, Section},
    },
    translate::Booleans,
};

pub(super) fn booleans(
    section: &Section<'_, '_>,
    (yes, no): (Option<Vec<String>>, Option<Vec<String>>),
) -> Option<Booleans> {
    let default = Booleans::default();
    let words = Booleans { yes: yes.unwrap_or(default.yes), no: no.unwrap_or(default.no) };
    let both = words.yes.iter().find(|word| words.no.iter().any(|other| other.eq_ignore_ascii_case(word)));
    if let Some(both) = both {
        let message = format!("`{both}` means both true and false");
        section.report.error(section.place, message, "take it out of one of the lists");
        return None;
    }
    Some(words)
}

/// The words of `values`, and what all others mean.
pub(super) type Meanings = (Vec<(String, Value)>, Option<Value>);

pub(super) fn values(report: &Report<'_>, node: &Node) -> Option<Meanings> {
    const REST: &str = "*";
    let mut words: Vec<(String, Value)> = Vec::new();
    let mut rest = None;
    let wrong = |node: &Node| {
        let message = format!("a value is a text, a number, `true`, `false` or null, found {}", node.found());
        report.error(node.span, message, "write `values: { OK: up, CRIT: down }`");
    };
    match &node.kind {
        Kind::Map(entries) => {
            for entry in entries {
                if matches!(entry.value.kind, Kind::List(_) | Kind::Map(_)) {
                    wrong(&entry.value);
                    return None;
                }
                match entry.key.text.as_str() {
                    REST => rest = Some(entry.value.to_json()),
                    word => words.push((word.trim().to_owned(), entry.value.to_json())),
                }
            }
        }
        Kind::List(items) => {
            for item in items {
                let Some(word) = item.scalar() else {
                    wrong(item);
                    return None;
                };
                words.push((word.trim().to_owned(), Value::String(word.trim().to_owned())));
            }
        }
        Kind::Nothing | Kind::Flag(_) | Kind::Number(_) | Kind::Text(_) => {}
    }
    if words.is_empty() {
        let message = format!("`values` takes words and what each means, found {}", node.found());
        report.error(node.span, message, "write `values: { OK: up, CRIT: down }`, or `values: [up, down]`");
        return None;
    }
    Some((words, rest))
}

pub(super) fn words(section: &Section<'_, '_>, name: &'static str) -> Option<Vec<String>> {
    let node = section.get(name)?;
    let mut words = Vec::new();
    for item in items(node) {
        match item.scalar() {
            Some(word) => words.push(word),
            // `NULL`, as databases write it, `~` and nothing at all.
            None if matches!(item.kind, Kind::Nothing) => {
                let message = format!("`{name}` has a word that is nothing in YAML");
                let help = format!("put it in quotes: `{name}: \"NULL\"`");
                section.report.error(item.span, message, help);
                return None;
            }
            None => {
                let message = format!("`{name}` takes words, found {}", item.found());
                section.report.error(item.span, message, format!("write `{name}: [up, ok]`"));
                return None;
            }
        }
    }
    if words.is_empty() {
        section.report.error(
            node.span,
            format!("`{name}` names no words"),
            format!("write `{name}: [up, ok]`"),
        );
        return None;
    }
    Some(words)
}

pub(super) fn affixes(section: &Section<'_, '_>, name: &'static str) -> Vec<String> {
    let Some(node) = section.get(name) else { return Vec::new() };
    let what = format!("`{name}`");
    items(node)
        .iter()
        .filter_map(|item| section::text_of(section.report, item, &what))
        .map(|text| text.trim().to_owned())
        .filter(|text| !text.is_empty())
        .collect()
}

pub(super) fn items(node: &Node) -> &[Node] {
    match &node.kind {
        Kind::List(items) => items.as_slice(),
        Kind::Nothing | Kind::Flag(_) | Kind::Number(_) | Kind::Text(_) | Kind::Map(_) => {
            std::slice::from_ref(node)
        }
    }
}
