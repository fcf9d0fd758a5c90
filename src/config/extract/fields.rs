//! `fields` and `type`: typed fields of the value that an extractor returns.

use crate::config::section::cursor;
use crate::settings::{Checked, Code, Cursor, Entry, Invalid, Setting, SourceSpan, suggest};
use crate::translate::extract::{ExtractorKind, MemberNames, Typing, ValueCount};
use crate::translate::{Field, FieldKind, FieldPath, FieldSetting, Fields, Multiplicity, OnMissing};

/// Parses the keys of an extractor that describe types: `fields`, `type`, or the type of an object with its
/// fields.
pub(super) fn typing(
    value: &Cursor<'_>,
    extractor: &ExtractorKind,
    fields: Option<&Entry>,
) -> Checked<Typing> {
    let Some(entry) = value.node.entry("type") else {
        let Some(entry) = fields else { return Ok(Typing::Untyped) };
        let fields: Fields = read(value, entry, "`fields`")?;
        check_sources(value, extractor, &fields, entry)?;
        return Ok(Typing::Fields(fields));
    };
    let setting: FieldSetting = read(value, entry, "`type`")?;
    let misfit = |message: String, help: &str| {
        value.reject_coded(Code::FieldsDoNotFit.at_span(entry.key.span), message, help)
    };
    let name = extractor.name();
    if extractor.value_count() == ValueCount::Block {
        let message = format!("`type` has no effect: `{name}` returns a content block and no value");
        return misfit(message, "remove `type`");
    }
    let mut kind = setting.kind;
    if let Some(outer) = fields {
        let FieldKind::Object(inner @ None) = &mut kind.kind else {
            let help = "write `type: object[]`, or remove one of the two";
            let message = "`fields` requires the type `object`";
            return value.reject_coded(Code::ConflictingKeys.at_span(outer.key.span), message, help);
        };
        *inner = Some(read(value, outer, "`fields`")?);
    }
    if setting.missing != OnMissing::Error {
        let message = "the value as a whole can't be optional".to_owned();
        return misfit(message, "remove `optional`, `default` and `?`");
    }
    let is_scalar = !matches!(kind.kind, FieldKind::Object(_) | FieldKind::Any);
    match (extractor.member_names(), &setting.from) {
        (MemberNames::Names(names), Some((path, span)))
            if !names.iter().any(|name| path_is_among(path, name)) =>
        {
            return reject_unknown(value, *span, extractor, path, &names);
        }
        (MemberNames::Names(names), None) if is_scalar => {
            let message =
                format!("`{name}` returns an object, and `type` needs the field that it applies to");
            let first = names.first().unwrap_or(&"name");
            let help = format!("write `type: {{ type: …, from: {first} }}`, or `fields`");
            return misfit(message, &help);
        }
        (MemberNames::AnyNames, Some((path, span))) if leads_into_rows(extractor, path) => {
            let message =
                format!("`from` applies to each row of the list that `{name}` returns, found `{path}`");
            let help =
                "remove `from`: `type` applies to each row; for the first row only, write `structured: .[0]`";
            return value.reject_coded(Code::FieldsDoNotFit.at_span(*span), message, help);
        }
        (MemberNames::NoFields, from) if from.is_some() || matches!(kind.kind, FieldKind::Object(_)) => {
            return reject_fields(value, extractor, from.as_ref().map_or(entry.key.span, |(_, span)| *span));
        }
        _ => {}
    }
    // The extractor already returns a list; `type` is the type of its items.
    if extractor.value_count() == ValueCount::Many && setting.from.is_none() {
        kind.count = Multiplicity::One;
    }
    Ok(Typing::Value { from: setting.from.map(|(path, _)| path), kind: Box::new(kind) })
}

fn read<T: Setting>(value: &Cursor<'_>, entry: &Entry, name: &str) -> Checked<T> {
    T::read(&cursor(value.context.report, entry.key.span, &entry.value, name, T::KIND))
}

/// Whether a path begins with the index of a row, which is wrong because `from` applies to each row.
fn leads_into_rows(extractor: &ExtractorKind, path: &FieldPath) -> bool {
    matches!(extractor, ExtractorKind::Metrics(_))
        && extractor.value_count() == ValueCount::Many
        && path.first().bytes().all(|byte| byte.is_ascii_digit())
}

fn path_is_among(path: &FieldPath, name: &str) -> bool {
    path.as_str() == name || path.first() == name
}

/// Checks that the extractor can return the source of every field, if the names that it returns are known.
fn check_sources(value: &Cursor<'_>, kind: &ExtractorKind, fields: &Fields, entry: &Entry) -> Checked<()> {
    let names = match kind.member_names() {
        MemberNames::AnyNames => return Ok(()),
        MemberNames::Names(names) => names,
        MemberNames::NoFields => return reject_fields(value, kind, entry.key.span),
    };
    let mut result = Ok(());
    let is_unknown = |field: &&Field| !names.iter().any(|name| path_is_among(&field.from, name));
    for field in fields.list.iter().filter(is_unknown) {
        let span_of = |field_entry: &Entry| {
            field_entry.value.get("from").map_or(field_entry.key.span, |from| from.span)
        };
        let span = entry.value.entry(&field.name).map_or(entry.key.span, span_of);
        result = reject_unknown(value, span, kind, &field.from, &names);
    }
    result
}

fn reject_fields<T>(value: &Cursor<'_>, kind: &ExtractorKind, span: SourceSpan) -> Checked<T> {
    let message = format!("`{}` returns no fields", kind.name());
    let help = "use `pairs`, `regex` or `json` for fields, or write the type of the value: `type: number`";
    value.reject_coded(Code::FieldsDoNotFit.at_span(span), message, help)
}

fn reject_unknown<T>(
    value: &Cursor<'_>,
    span: SourceSpan,
    kind: &ExtractorKind,
    path: &FieldPath,
    names: &[&str],
) -> Checked<T> {
    let message = format!("`{}` has no field `{path}`", kind.name());
    let help = suggest::help(path.as_str(), "known fields", names.iter().copied());
    value.reject_at(span, Invalid { code: Code::UnknownField, message, help, shows_value: true })
}
