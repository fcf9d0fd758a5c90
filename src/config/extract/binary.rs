//! `binary` as the file has it, and media types.

use super::{Form, open};
use crate::{
    config::{keys::BINARY, node::Kind, section::Section},
    translate::extract::{Binary, BinaryKind, ExtractorKind},
};

pub(super) const FORM: Form = Form {
    name: "binary",
    needs: None,
    read: |value| {
        if matches!(value.node.kind, Kind::Nothing) {
            return Some(ExtractorKind::Binary(Binary { kind: None, media_type: None }));
        }
        let section = &open(value, &BINARY)?;
        let kind = section.word("as").map(|word| match word {
            "image" => BinaryKind::Image,
            "audio" => BinaryKind::Audio,
            _ => BinaryKind::Resource,
        });
        Some(ExtractorKind::Binary(Binary { kind, media_type: media_type(section) }))
    },
};

/// A media type, without parameters or with.
pub(in crate::config) fn media_type(section: &Section<'_, '_>) -> Option<String> {
    let (node, text) = section.text_node("media_type")?;
    let essence = text.split(';').next().unwrap_or_default().trim();
    let good = |part: &str| {
        !part.is_empty()
            && part.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"!#$&-^_.+".contains(&byte))
    };
    match essence.split_once('/') {
        Some((kind, subtype)) if good(kind) && good(subtype) => Some(text.to_owned()),
        _ => {
            section.report.error(
                node.span,
                format!("expected a media type, found {}", node.found()),
                "write `image/png`, or `text/csv`",
            );
            None
        }
    }
}
