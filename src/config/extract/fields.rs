//! `fields` and `type`: what is taken from what an extractor found, with types.

use super::field_type;
use crate::{
    config::{
        keys::FIELD,
        node::{Entry, Kind, Node},
        report::Report,
        section::Section,
        source::Span,
        suggest,
    },
    model::Schema,
    translate::{
        Count, Field, FieldKind, FieldType, Fields, Missing, Path,
        extract::{ExtractorKind, Finds, Gives, Typing},
    },
};

/// What is written beside an extractor: `fields`, or `type`, or an object's type with its fields.
pub(super) fn typing(
    report: &Report<'_>,
    kind: &ExtractorKind,
    fields: Option<&Entry>,
    one: Option<&Entry>,
) -> Option<Typing> {
    match (fields, one) {
        (None, None) => Some(Typing::AsFound),
        (Some(entry), None) => {
            let fields = read(report, &entry.value)?;
            check_sources(report, kind, &fields, entry)?;
            Some(Typing::Fields(fields))
        }
        (fields, Some(entry)) => value(report, kind, fields, entry),
    }
}

/// The type of one value.
fn value(
    report: &Report<'_>,
    extractor: &ExtractorKind,
    outer: Option<&Entry>,
    entry: &Entry,
) -> Option<Typing> {
    let written = written(report, entry)?;
    if extractor.gives() == Gives::Block {
        let message = format!("`{}` gives a block, and no value that could have a type", extractor.name());
        report.error(entry.key.span, message, "leave `type` out");
        return None;
    }
    let mut kind = written.kind;
    if let Some(outer) = outer {
        let FieldKind::Object(inner @ None) = &mut kind.kind else {
            let message = "`fields` beside `type` are those of an object";
            report.error(outer.key.span, message, "write `type: object[]`, or leave one of the two out");
            return None;
        };
        *inner = Some(read(report, &outer.value)?);
    }
    if written.missing != Missing::Error {
        let message = "the value as a whole can't be missing";
        report.error(entry.key.span, message, "leave `optional`, `default` and `?` out");
        return None;
    }
    let one = !matches!(kind.kind, FieldKind::Object(_) | FieldKind::Any);
    match (extractor.finds(), &written.from) {
        (Finds::Names(names), Some((path, span))) if !names.iter().any(|name| path_is_among(path, name)) => {
            let message = format!("`{}` finds no `{path}`", extractor.name());
            report.error(*span, message, suggest::help(path.as_str(), "it finds", names.iter().copied()));
            return None;
        }
        (Finds::Names(names), None) if one => {
            let message = format!("`{}` finds an object, and `type` is of one value", extractor.name());
            let help = format!(
                "say which: `type: {{ type: …, from: {} }}`; or write `fields`",
                names.first().unwrap_or(&"name")
            );
            report.error(entry.key.span, message, help);
            return None;
        }
        (Finds::AnyNames, Some((path, span))) if leads_into_rows(extractor, path) => {
            let message = format!(
                "`{}` gives a list, and `from` leads into each row of it; found `{path}`",
                extractor.name()
            );
            let help = "leave `from` out: `type` is that of a row; the first alone is `structured: .[0]`";
            report.error(*span, message, help);
            return None;
        }
        (Finds::NoFields, Some((_, span))) => {
            report.error(
                *span,
                format!("`{}` finds one value, without names", extractor.name()),
                "leave `from` out",
            );
            return None;
        }
        (Finds::NoFields, None) if matches!(kind.kind, FieldKind::Object(_)) => {
            let message = format!("`{}` finds no object", extractor.name());
            report.error(entry.key.span, message, "take `pairs`, `regex` or `json` to find fields");
            return None;
        }
        _ => {}
    }
    // The list is there already, and its type is that of all of it.
    if extractor.gives() == Gives::Many && written.from.is_none() {
        kind.count = Count::One;
    }
    Some(Typing::Value { from: written.from.map(|(path, _)| path), kind: Box::new(kind) })
}

/// Whether a path begins with the place of a row, where rows have names alone.
fn leads_into_rows(extractor: &ExtractorKind, path: &Path) -> bool {
    matches!(extractor, ExtractorKind::Metrics(_))
        && extractor.gives() == Gives::Many
        && path.first().bytes().all(|byte| byte.is_ascii_digit())
}

/// Reads `fields`. `None` when something is wrong; that has been reported then.
pub(super) fn read(report: &Report<'_>, node: &Node) -> Option<Fields> {
    let Some(entries) = node.as_map() else {
        let message = format!("`fields` takes a map of names and types, found {}", node.found());
        report.error(node.span, message, "write `fields: { temperature: number, conditions: string }`");
        return None;
    };
    let (mut fields, mut others) = (Vec::new(), None);
    let mut good = !entries.is_empty();
    if entries.is_empty() {
        report.error(
            node.span,
            "`fields` names no field",
            "write `fields: { temperature: number }`, or leave it out",
        );
    }
    for entry in entries {
        let Some(written) = written(report, entry) else {
            good = false;
            continue;
        };
        if entry.key.text == OTHERS {
            if written.from.is_some() || matches!(written.missing, Missing::Default(_)) {
                let message = format!("`{OTHERS}` is all other fields: it has no `from` and no `default`");
                report.error(entry.key.span, message, "leave them out");
                good = false;
            }
            others = Some(written.kind);
            continue;
        }
        let from = written.from.map_or_else(|| Path::exact(&entry.key.text), |(path, _)| path);
        let (kind, missing) = (written.kind, written.missing);
        fields.push(Field { from, missing, ..Field::new(entry.key.text.clone(), kind) });
    }
    good.then(|| Fields::new(fields).with_others(others))
}

/// The name that stands for all fields without a name of their own.
const OTHERS: &str = "*";

/// A field as it is written, its name aside.
struct Written {
    kind: FieldType,
    from: Option<(Path, Span)>,
    missing: Missing,
}

fn written(report: &Report<'_>, entry: &Entry) -> Option<Written> {
    if let Kind::Text(_) = &entry.value.kind {
        let (kind, optional) = field_type::by_word(report, &entry.value)?;
        let missing = if optional { Missing::Omit } else { Missing::Error };
        return Some(Written { kind: kind.into(), from: None, missing }).map(|mut written| {
            written.kind.count = field_type::count_of(&entry.value);
            written
        });
    }
    let section = Section::open(report, entry.key.span, &entry.value, &FIELD)?;
    let before = report.errors();
    let from = section.text_node("from").map(|(node, text)| match text.parse::<Path>() {
        Ok(path) => Some((path, node.span)),
        Err(error) => {
            let help = "write a name, or a path such as `disk.0.size`; a name with dots inside goes in double quotes";
            report.error(node.span, format!("`from` is not a path: {error}"), help);
            None
        }
    });
    let flag = section.flag("optional").unwrap_or(false);
    let default = section.entry("default");
    let read = field_type::read(&section);
    let from = match from {
        Some(from) => Some(from?),
        None => None,
    };
    let (kind, optional) = read.filter(|_| report.errors() == before)?;
    let optional = flag || optional;
    let missing = match default {
        Some(entry) if optional => {
            report.error(entry.key.span, "a field with a `default` is never missing", "leave `optional` out");
            return None;
        }
        Some(entry) => Missing::Default(default_of(report, &kind, &entry.value)?.into()),
        None if optional => Missing::Omit,
        None => Missing::Error,
    };
    Some(Written { kind, from, missing })
}

fn default_of(report: &Report<'_>, kind: &FieldType, node: &Node) -> Option<serde_json::Value> {
    let value = node.to_json();
    // Of any type: it says that there is no value.
    if value.is_null() {
        return Some(value);
    }
    let schema = Schema::compile(&kind.schema()).ok()?;
    let Some(violation) = schema.violations(&value, 1).into_iter().next() else { return Some(value) };
    let help = if kind.count == Count::List {
        "a list is written `[…]`"
    } else {
        "write a value of the field's own type"
    };
    report.error(node.span, format!("`default` is none of the field's values: it {}", violation.what), help);
    None
}

fn path_is_among(path: &Path, name: &str) -> bool {
    path.as_str() == name || path.first() == name
}

/// Fields come from what the extractor finds; where that is known, a field must be among it.
fn check_sources(report: &Report<'_>, kind: &ExtractorKind, fields: &Fields, entry: &Entry) -> Option<()> {
    let names = match kind.finds() {
        Finds::AnyNames => return Some(()),
        Finds::Names(names) => names,
        Finds::NoFields => {
            let message = format!("`{}` finds no fields", kind.name());
            let help = "take `pairs`, `regex` or `json` to find fields, or say what it is: `type: number`";
            report.error(entry.key.span, message, help);
            return None;
        }
    };
    let mut good = true;
    for field in fields.iter().filter(|field| !names.iter().any(|name| path_is_among(&field.from, name))) {
        good = false;
        let place =
            entry.value.as_map().unwrap_or_default().iter().find(|entry| entry.key.text == field.name);
        let span = place
            .map_or(entry.key.span, |entry| entry.value.get("from").map_or(entry.key.span, |node| node.span));
        let message = format!("`{}` finds no `{}`", kind.name(), field.from);
        report.error(span, message, suggest::help(field.from.as_str(), "it finds", names.iter().copied()));
    }
    good.then_some(())
}
