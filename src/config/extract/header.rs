//! `header` as the file has it.

use super::{Alone, Form};
use crate::{
    config::{
        keys::HEADER,
        node::{Kind, Node},
        report::Report,
        section,
        source::Span,
    },
    translate::extract::{ExtractorKind, Header, HeaderShape},
};

pub(super) const FORM: Form = Form {
    name: "header",
    keys: &HEADER,
    alone: Alone::Needs("the names of headers", "extract: { header: [Location] }"),
    short: Some(|report, node, place| match &node.kind {
        Kind::List(items) => Some(header(report, items.iter(), place).map(ExtractorKind::Header)),
        Kind::Text(_) => Some(
            header(report, std::iter::once(node), place)
                .map(|header| ExtractorKind::Header(Header { shape: HeaderShape::Value, ..header })),
        ),
        Kind::Nothing | Kind::Flag(_) | Kind::Number(_) | Kind::Map(_) => None,
    }),
    options: |section| {
        section.required("names", "write `names: [Location, status]`");
        let names = section.texts("names")?.into_iter().map(|(node, _)| node);
        header(section.report, names, section.place).map(ExtractorKind::Header)
    },
};

fn header<'n>(report: &Report<'_>, names: impl Iterator<Item = &'n Node>, place: Span) -> Option<Header> {
    let mut good = Vec::new();
    for node in names {
        let name = section::text_of(report, node, "a name of a header")?;
        if name != "status" && name.parse::<http::HeaderName>().is_err() {
            report.error(
                node.span,
                format!("`{name}` is not a header name"),
                "write letters, digits and `-`: `X-Request-Id`",
            );
            return None;
        }
        good.push(name.to_owned());
    }
    if good.is_empty() {
        report.error(place, "`header` names no header", "write `header: [Location]`");
        return None;
    }
    Some(Header { names: good, shape: HeaderShape::Object })
}
