//! `fields` and `type`: typed fields of the value that an extractor returns.

use crate::{
    config::{code::Code, report::Report, section, suggest, tree::Entry},
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
        let message = format!("`type` has no effect: `{}` returns a block and no value", extractor.name());
        report.error(Code::FieldsDoNotFit.at_span(entry.key.span), message, "remove `type`");
        return None;
    }
    let mut kind = written.kind;
    if let Some(outer) = outer {
        let FieldKind::Object(inner @ None) = &mut kind.kind else {
            let message = "`fields` requires the type `object`";
            report.error(
                Code::ConflictingKeys.at_span(outer.key.span),
                message,
                "write `type: object[]`, or remove one of the two",
            );
            return None;
        };
        *inner = Some(read(report, outer, "`fields`")?);
    }
    if written.missing != OnMissing::Error {
        let message = "the value as a whole can't be optional";
        report.error(
            Code::FieldsDoNotFit.at_span(entry.key.span),
            message,
            "remove `optional`, `default` and `?`",
        );
        return None;
    }
    let one = !matches!(kind.kind, FieldKind::Object(_) | FieldKind::Any);
    match (extractor.finds(), &written.from) {
        (MemberNames::Names(names), Some((path, span)))
            if !names.iter().any(|name| path_is_among(path, name)) =>
        {
            let message = format!("`{}` has no field `{path}`", extractor.name());
            report.error(
                Code::UnknownField.at_span(*span),
                message,
                suggest::help(path.as_str(), "known fields", names.iter().copied()),
            );
            return None;
        }
        (MemberNames::Names(names), None) if one => {
            let message = format!(
                "`{}` returns an object, and `type` needs the field that it applies to",
                extractor.name()
            );
            let help = format!(
                "write `type: {{ type: …, from: {} }}`, or `fields`",
                names.first().unwrap_or(&"name")
            );
            report.error(Code::FieldsDoNotFit.at_span(entry.key.span), message, help);
            return None;
        }
        (MemberNames::AnyNames, Some((path, span))) if leads_into_rows(extractor, path) => {
            let message = format!(
                "`from` applies to each row of the list that `{}` returns, found `{path}`",
                extractor.name()
            );
            let help =
                "remove `from`: `type` applies to each row; for the first row only, write `structured: .[0]`";
            report.error(Code::FieldsDoNotFit.at_span(*span), message, help);
            return None;
        }
        (MemberNames::NoFields, Some((_, span))) => {
            report.error(
                Code::FieldsDoNotFit.at_span(*span),
                format!("`{}` returns one value without field names", extractor.name()),
                "remove `from`",
            );
            return None;
        }
        (MemberNames::NoFields, None) if matches!(kind.kind, FieldKind::Object(_)) => {
            let message = format!("`{}` does not return an object", extractor.name());
            report.error(
                Code::FieldsDoNotFit.at_span(entry.key.span),
                message,
                "use `pairs`, `regex` or `json` for fields",
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
            let message = format!("`{}` returns no fields", kind.name());
            let help =
                "use `pairs`, `regex` or `json` for fields, or write the type of the value: `type: number`";
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
        let message = format!("`{}` has no field `{}`", kind.name(), field.from);
        report.error(
            Code::UnknownField.at_span(span),
            message,
            suggest::help(field.from.as_str(), "known fields", names.iter().copied()),
        );
    }
    good.then_some(())
}
