//! `fields`: named fields with types, taken from what an extractor found.

use crate::{
    config::{
        keys::{self, FIELD},
        node::{Entry, Kind, Node},
        report::Report,
        section::{self, Section},
        suggest,
    },
    rule::{
        Booleans, Field, FieldKind, Fields,
        extract::{ExtractorKind, Finds},
    },
};

/// Reads `fields`. `None` when something is wrong; that has been reported then.
pub(super) fn read(report: &Report<'_>, node: &Node) -> Option<Fields> {
    let Some(entries) = node.as_map() else {
        let message = format!("`fields` takes a map of names and types, found {}", node.found());
        report.error(node.span, message, "write `fields: { temperature: number, conditions: string }`");
        return None;
    };
    let mut fields = Vec::new();
    let mut good = !entries.is_empty();
    if entries.is_empty() {
        report.error(
            node.span,
            "`fields` names no field",
            "write `fields: { temperature: number }`, or leave it out",
        );
    }
    for entry in entries {
        match field(report, entry) {
            Some(field) => fields.push(field),
            None => good = false,
        }
    }
    good.then(|| Fields::new(fields))
}

fn field(report: &Report<'_>, entry: &Entry) -> Option<Field> {
    let name = entry.key.text.clone();
    if let Kind::Text(_) = &entry.value.kind {
        let word = section::word_of(report, &entry.value, "the type of a field", keys::FIELD_TYPES)?;
        let (kind, optional) = word.strip_suffix('?').map_or((word, false), |kind| (kind, true));
        return Some(Field { from: name.clone(), name, kind: kind_of(kind, Booleans::default()), optional });
    }
    let section = Section::open(report, entry.key.span, &entry.value, &FIELD)?;
    let (from, optional) = (section.text("from").map(str::to_owned), section.flag("optional"));
    let (yes, no) = (words(&section, "true"), words(&section, "false"));
    section.required("type", "write `type: number`");
    let word = section.word("type")?;
    if word != "boolean" && (yes.is_some() || no.is_some()) {
        let message = format!("`true` and `false` are for the type `boolean`, not for `{word}`");
        report.error(
            entry
                .value
                .get("true")
                .or_else(|| entry.value.get("false"))
                .map_or(entry.key.span, |node| node.span),
            message,
            "leave them out",
        );
        return None;
    }
    let default = Booleans::default();
    let words = Booleans { yes: yes.unwrap_or(default.yes), no: no.unwrap_or(default.no) };
    if let Some(both) =
        words.yes.iter().find(|word| words.no.iter().any(|other| other.eq_ignore_ascii_case(word)))
    {
        report.error(
            entry.key.span,
            format!("`{both}` means both true and false"),
            "take it out of one of the lists",
        );
        return None;
    }
    Some(Field {
        from: from.unwrap_or_else(|| name.clone()),
        name,
        kind: kind_of(word, words),
        optional: optional.unwrap_or(false),
    })
}

fn kind_of(word: &str, words: Booleans) -> FieldKind {
    match word {
        "number" => FieldKind::Number,
        "integer" => FieldKind::Integer,
        "boolean" => FieldKind::Boolean(words),
        _ => FieldKind::String,
    }
}

fn words(section: &Section<'_, '_>, name: &'static str) -> Option<Vec<String>> {
    let node = section.get(name)?;
    let items = match &node.kind {
        Kind::List(items) => items.as_slice(),
        Kind::Nothing | Kind::Flag(_) | Kind::Number(_) | Kind::Text(_) | Kind::Map(_) => {
            std::slice::from_ref(node)
        }
    };
    let words: Vec<String> = items.iter().filter_map(Node::scalar).collect();
    if words.is_empty() {
        section.report.error(node.span, format!("`{name}` names no words"), "write `true: [up, ok]`");
        return None;
    }
    Some(words)
}

/// Fields come from what the extractor finds; where that is known, a field must be among it.
pub(super) fn check_sources(
    report: &Report<'_>,
    kind: &ExtractorKind,
    fields: &Fields,
    entry: &Entry,
) -> Option<()> {
    let names = match kind.finds() {
        Finds::AnyNames => return Some(()),
        Finds::Names(names) => names,
        Finds::NoFields => {
            let message = format!("`{}` finds no fields", kind.name());
            report.error(entry.key.span, message, "take `pairs`, `regex` or `json` to find fields");
            return None;
        }
    };
    let mut good = true;
    for field in fields.iter().filter(|field| !names.contains(&field.from.as_str())) {
        good = false;
        let place =
            entry.value.as_map().unwrap_or_default().iter().find(|entry| entry.key.text == field.name);
        let span = place
            .map_or(entry.key.span, |entry| entry.value.get("from").map_or(entry.key.span, |node| node.span));
        let message = format!("`{}` finds no `{}`", kind.name(), field.from);
        report.error(span, message, suggest::help(&field.from, "it finds", names.iter().copied()));
    }
    good.then_some(())
}
