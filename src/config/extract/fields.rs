//! `fields` and `type`: typed fields of the value that an extractor returns.

use crate::{
    config::{code::Code, node::Entry, report::Report, section, suggest},
    settings::section::Setting,
    translate::{
        Cardinality, FieldKind, FieldPath, FieldSetting, Fields, OnMissing,
        extract::{ExtractorKind, MemberNames, Typing, ValueCount},
    },
};

/// Parses the keys beside an extractor: `fields`, `type`, or the type of an object with its fields.
pub(super) fn typing(
    report: &Report<'_>,
    kind: &ExtractorKind,
    fields: Option<&Entry>,
    one: Option<&Entry>,
) -> Option<Typing> {
    match (fields, one) {
        (None, None) => Some(Typing::Untyped),
        (Some(entry), None) => {
            let fields: Fields = read(report, entry, "`fields`")?;
            check_sources(report, kind, &fields, entry)?;
            Some(Typing::Fields(fields))
        }
        (fields, Some(entry)) => value(report, kind, fields, entry),
    }
}

fn read<T: Setting>(report: &Report<'_>, entry: &Entry, name: &str) -> Option<T> {
    T::read(&section::cursor(report, entry.key.span, &entry.value, name, T::KIND)).ok()
}

/// Parses the type of one value.
fn value(
    report: &Report<'_>,
    extractor: &ExtractorKind,
    outer: Option<&Entry>,
    entry: &Entry,
) -> Option<Typing> {
    let written: FieldSetting = read(report, entry, "`type`")?;
    if extractor.value_count() == ValueCount::Block {
        let message = format!("`{}` gives a block, and no value that could have a type", extractor.name());
        report.error(Code::FieldsDoNotFit.at_span(entry.key.span), message, "leave `type` out");
        return None;
    }
    let mut kind = written.kind;
    if let Some(outer) = outer {
        let FieldKind::Object(inner @ None) = &mut kind.kind else {
            let message = "`fields` beside `type` are those of an object";
            report.error(
                Code::ConflictingKeys.at_span(outer.key.span),
                message,
                "write `type: object[]`, or leave one of the two out",
            );
            return None;
        };
        *inner = Some(read(report, outer, "`fields`")?);
    }
    if written.missing != OnMissing::Error {
        let message = "the value as a whole can't be missing";
        report.error(
            Code::FieldsDoNotFit.at_span(entry.key.span),
            message,
            "leave `optional`, `default` and `?` out",
        );
        return None;
    }
    let one = !matches!(kind.kind, FieldKind::Object(_) | FieldKind::Any);
    match (extractor.finds(), &written.from) {
        (MemberNames::Names(names), Some((path, span)))
            if !names.iter().any(|name| path_is_among(path, name)) =>
        {
            let message = format!("`{}` finds no `{path}`", extractor.name());
            report.error(
                Code::UnknownField.at_span(*span),
                message,
                suggest::help(path.as_str(), "it finds", names.iter().copied()),
            );
            return None;
        }
        (MemberNames::Names(names), None) if one => {
            let message = format!("`{}` finds an object, and `type` is of one value", extractor.name());
            let help = format!(
                "say which: `type: {{ type: …, from: {} }}`; or write `fields`",
                names.first().unwrap_or(&"name")
            );
            report.error(Code::FieldsDoNotFit.at_span(entry.key.span), message, help);
            return None;
        }
        (MemberNames::AnyNames, Some((path, span))) if leads_into_rows(extractor, path) => {
            let message = format!(
                "`{}` gives a list, and `from` leads into each row of it; found `{path}`",
                extractor.name()
            );
            let help = "leave `from` out: `type` is that of a row; the first alone is `structured: .[0]`";
            report.error(Code::FieldsDoNotFit.at_span(*span), message, help);
            return None;
        }
        (MemberNames::NoFields, Some((_, span))) => {
            report.error(
                Code::FieldsDoNotFit.at_span(*span),
                format!("`{}` finds one value, without names", extractor.name()),
                "leave `from` out",
            );
            return None;
        }
        (MemberNames::NoFields, None) if matches!(kind.kind, FieldKind::Object(_)) => {
            let message = format!("`{}` finds no object", extractor.name());
            report.error(
                Code::FieldsDoNotFit.at_span(entry.key.span),
                message,
                "take `pairs`, `regex` or `json` to find fields",
            );
            return None;
        }
        _ => {}
    }
    // The extractor returns a list already; the type is that of its items.
    if extractor.value_count() == ValueCount::Many && written.from.is_none() {
        kind.count = Cardinality::One;
    }
    Some(Typing::Value { from: written.from.map(|(path, _)| path), kind: Box::new(kind) })
}

/// Whether a path begins with the index of a row, although `from` applies to each row.
fn leads_into_rows(extractor: &ExtractorKind, path: &FieldPath) -> bool {
    matches!(extractor, ExtractorKind::Metrics(_))
        && extractor.value_count() == ValueCount::Many
        && path.first().bytes().all(|byte| byte.is_ascii_digit())
}

fn path_is_among(path: &FieldPath, name: &str) -> bool {
    path.as_str() == name || path.first() == name
}

/// Checks that the extractor finds every source field, if the names that it finds are known.
fn check_sources(report: &Report<'_>, kind: &ExtractorKind, fields: &Fields, entry: &Entry) -> Option<()> {
    let names = match kind.finds() {
        MemberNames::AnyNames => return Some(()),
        MemberNames::Names(names) => names,
        MemberNames::NoFields => {
            let message = format!("`{}` finds no fields", kind.name());
            let help = "take `pairs`, `regex` or `json` to find fields, or say what it is: `type: number`";
            report.error(Code::FieldsDoNotFit.at_span(entry.key.span), message, help);
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
        report.error(
            Code::UnknownField.at_span(span),
            message,
            suggest::help(field.from.as_str(), "it finds", names.iter().copied()),
        );
    }
    good.then_some(())
}
