//! `source`: an extractor whose text another extractor parses.

use super::{ONE_EXTRACTOR, ParsedExtractor, read_one, reject_optional};
use crate::{
    config::{code::Code, report::Report, tree::Entry},
    settings::{
        keys::ValueKind,
        section::{Checked, Cursor, Invalid, Setting},
    },
    translate::extract::{Extractor, ExtractorKind, MemberNames, Typing, ValueCount},
};

impl Setting for Extractor {
    const KIND: ValueKind = ONE_EXTRACTOR;

    fn read(value: &Cursor<'_>) -> Checked<Self> {
        let ParsedExtractor { extractor, optional, .. } = read_one(value)?;
        if optional {
            return reject_optional(value, "remove it");
        }
        let name = extractor.kind.name();
        let found = match (&extractor.typing, extractor.kind.value_count()) {
            (_, ValueCount::Block) => "a block",
            (_, ValueCount::Many) => "a list",
            (Typing::Fields(_), ValueCount::One) => "an object",
            (Typing::Value { .. }, ValueCount::One) => return Ok(extractor),
            (Typing::Untyped, ValueCount::One) => match (&extractor.kind, extractor.kind.finds()) {
                (ExtractorKind::Mcp(_), _) => "a whole result",
                (ExtractorKind::Form(_) | ExtractorKind::Pairs(_), _) | (_, MemberNames::Names(_)) => {
                    "an object"
                }
                (_, MemberNames::AnyNames | MemberNames::NoFields) => return Ok(extractor),
            },
        };
        let message = format!("`source` must return a string, and `{name}` returns {found}");
        let help = "write `source: html`, `source: { html: { text: pre } }` or, for one member of an object, \
                    `source: { json: {}, type: { type: string, from: output } }`";
        value.reject(Invalid::new(message, help).with_code(Code::WrongExtractor))
    }
}

/// Whether an extractor parses text; reports one that does not.
pub(super) fn check_parses_text(report: &Report<'_>, kind: &ExtractorKind, entry: &Entry) -> bool {
    let reads = match kind {
        ExtractorKind::Binary(_) | ExtractorKind::Header(_) => "no text",
        ExtractorKind::Mcp(_) => "the whole response",
        _ => return true,
    };
    let message = format!("`source` has no effect: `{}` reads {reads}", kind.name());
    report.error(Code::WrongExtractor.at_span(entry.key.span), message, "remove `source`");
    false
}
