//! `source`: what gives the text that another extractor reads.

use super::{One, one};
use crate::{
    config::{node::Entry, report::Report},
    translate::extract::{Extractor, ExtractorKind, Finds, Gives, Typing},
};

/// Reads `source`. `None` when something is wrong; that has been reported then.
pub(super) fn read(report: &Report<'_>, entry: &Entry) -> Option<Box<Extractor>> {
    let One { extractor, optional, .. } = one(report, entry)?;
    if let Some(span) = optional {
        report.error(span, "`optional` is for one of several extractors", "leave it out");
        return None;
    }
    let name = extractor.kind.name();
    let found = match (&extractor.typing, extractor.kind.gives()) {
        (_, Gives::Block) => "a block",
        (_, Gives::Many) => "a list",
        (Typing::Fields(_), Gives::One) => "an object",
        (Typing::Value { .. }, Gives::One) => return Some(Box::new(extractor)),
        (Typing::AsFound, Gives::One) => match (&extractor.kind, extractor.kind.finds()) {
            (ExtractorKind::Mcp(_), _) => "a whole result",
            (ExtractorKind::Form(_) | ExtractorKind::Pairs(_), _) | (_, Finds::Names(_)) => "an object",
            (_, Finds::AnyNames | Finds::NoFields) => return Some(Box::new(extractor)),
        },
    };
    let message = format!("`source` takes what gives a text, and `{name}` gives {found}");
    let help = "write `source: html`, `source: { html: { text: pre } }` or, for one member of an object, \
                `source: { json: {}, type: { type: string, from: output } }`";
    report.error(entry.value.span, message, help);
    None
}

/// Whether an extractor reads a text at all; else that is reported.
pub(super) fn may_read(report: &Report<'_>, kind: &ExtractorKind, entry: &Entry) -> bool {
    let reads = match kind {
        ExtractorKind::Binary(_) | ExtractorKind::Header(_) => "no text",
        ExtractorKind::Mcp(_) => "the whole reply",
        _ => return true,
    };
    let message = format!("`{}` reads {reads}, and stands beside `source`", kind.name());
    report.error(entry.key.span, message, "leave `source` out");
    false
}
