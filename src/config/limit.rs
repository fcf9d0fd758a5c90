//! `limit`: how much of a success is shown.

use super::{
    keys::{LIMIT, MORE},
    language,
    node::Entry,
    reply::whole,
    report::Report,
    schemas::Asked,
    section::Section,
};
use crate::{
    model::own_types,
    route::InputSchema,
    translate::{Limit, ListPath, More},
};

/// Reads `limit`. `None` when something is wrong with it; that has been reported then.
pub(super) fn read(report: &Report<'_>, entry: &Entry, used: &mut Asked) -> Option<Limit> {
    let section = Section::open(report, entry.key.span, &entry.value, &LIMIT)?;
    let count = |name| section.count(name).and_then(|count| usize::try_from(count).ok());
    let (rows, characters) = (count("rows"), count("characters"));
    let of = section.text_node("path").map(|(node, text)| {
        let parsed = text.parse::<ListPath>();
        parsed
            .map_err(|error| report.error(node.span, error.to_string(), "write `.rows`, or `.data.rows`"))
            .ok()
    });
    let note = section.get("note").map(|node| language::template(report, node, "`note`", &["limit", "args"]));
    let more = section.section("more", &MORE).map(|section| more(&section, used));
    if section.get("rows").is_none() && section.get("characters").is_none() {
        section.missing("`limit` limits nothing".to_owned(), "write `rows: 50`, or `characters: 20000`");
    }
    Some(Limit {
        rows,
        characters,
        of: whole(of)?,
        note: whole(note)?,
        more: whole(more)?,
        text_arguments: Vec::new(),
    })
}

/// Has the next value of an argument written as a text, where `input` says that it is one.
pub(super) fn write_as_input_asks(limit: &mut Limit, input: &InputSchema) {
    let Limit { more: Some(more), text_arguments, .. } = limit else { return };
    let properties = input.document().get("properties");
    let is_text = |name: &&String| {
        let property = properties.and_then(|properties| properties.get(name)?.as_object());
        let types: Vec<_> = property.into_iter().flat_map(own_types).collect();
        let admits = |wanted: &str| types.contains(&wanted);
        admits("string") && !admits("integer") && !admits("number")
    };
    *text_arguments = more.arguments().filter(is_text).cloned().collect();
}

fn more(section: &Section<'_, '_>, used: &mut Asked) -> Option<More> {
    let mut argument = |name: &'static str| {
        section.text_node(name).map(|(node, text)| {
            used.add_count(text, node.span);
            text.to_owned()
        })
    };
    let (offset, page, size) = (argument("offset"), argument("page"), argument("size"));
    let first = section.count("first");
    match (offset, page, size) {
        (Some(argument), None, None) => Some(More::Offset { argument, first: first.unwrap_or(0) }),
        (None, Some(argument), Some(size)) => Some(More::Page { argument, size, first: first.unwrap_or(1) }),
        (Some(_), ..) => {
            section.refuse_beside(&["page", "size"], "offset");
            None
        }
        (None, Some(_), None) => {
            let help = "name the argument that says how many rows a page has: the next page of the same size \
                        would pass over the rows that were left out";
            section.missing("`page` has no `size` beside it".to_owned(), help);
            None
        }
        (None, None, _) => {
            section.missing(
                "`more` says neither `offset` nor `page`".to_owned(),
                "write `more: { offset: start }`, the name of an argument",
            );
            None
        }
    }
}
