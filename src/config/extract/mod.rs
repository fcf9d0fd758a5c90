//! `extract`: what pulls a value out of a reply. One file an extractor, with its form in the file; what the
//! extractors do is in [`crate::translate::extract`].

mod binary;
mod columns;
mod csv;
mod field_type;
mod fields;
mod form;
mod grok;
mod header;
mod html;
mod json;
mod mcp;
mod metrics;
mod ndjson;
mod of;
mod pairs;
mod parts;
mod records;
mod regex;
mod text;
mod xml;

pub(super) use self::binary::media_type;
use super::{
    keys::{EXTRACT, Keys},
    node::{Entry, Kind, Node},
    report::Report,
    section::Section,
    source::Span,
    suggest,
};
use crate::translate::extract::{Extract, Extractor, ExtractorKind};

/// How an extractor is written in the file.
struct Form {
    /// Its name, which is a key of `extract`.
    name: &'static str,
    /// Its options.
    keys: &'static Keys,
    /// What its name alone means: `extract: json`.
    alone: Alone,
    /// What stands for its options, where that is no map: `regex: '…'`. `None` from it when the node is no
    /// short form.
    short: Option<Short>,
    /// Reads the options, `fields` aside. `None` when something is wrong; that has been reported then.
    options: fn(&Section<'_, '_>) -> Option<ExtractorKind>,
}

type Short = fn(&Report<'_>, &Node, Span) -> Option<Option<ExtractorKind>>;

enum Alone {
    /// All options have defaults.
    Is(fn() -> ExtractorKind),
    /// What is needed, and an example of it.
    Needs(&'static str, &'static str),
}

/// Every extractor, in alphabetical order.
const FORMS: [&Form; 15] = [
    &binary::FORM,
    &columns::FORM,
    &csv::FORM,
    &form::FORM,
    &grok::FORM,
    &header::FORM,
    &html::FORM,
    &json::FORM,
    &mcp::FORM,
    &metrics::FORM,
    &ndjson::FORM,
    &pairs::FORM,
    &regex::FORM,
    &text::FORM,
    &xml::FORM,
];

/// What reads a value from a reply, and where its fields are named.
pub(super) struct Compiled {
    pub(super) extract: Extract,
    pub(super) fields_span: Option<Span>,
}

/// One extractor, and what is said of it.
struct One {
    extractor: Extractor,
    fields_span: Option<Span>,
    optional: Option<Span>,
}

/// Reads `extract`. `None` when something is wrong with it; that has been reported then.
pub(super) fn read(report: &Report<'_>, entry: &Entry) -> Option<Compiled> {
    if parts::is_map_of_names(&entry.value) {
        return parts::read(report, entry);
    }
    let One { extractor, fields_span, optional } = one(report, entry)?;
    if let Some(span) = optional {
        let help =
            "leave it out, or name what is read: `extract: { total: { header: X-Total, optional: true } }`";
        report.error(span, "`optional` is for one of several extractors", help);
        return None;
    }
    Some(Compiled { extract: Extract::One(Box::new(extractor)), fields_span })
}

fn one(report: &Report<'_>, entry: &Entry) -> Option<One> {
    match &entry.value.kind {
        Kind::Text(text) => {
            let kind = by_name(report, &entry.value, &text.text)?;
            Some(One { extractor: Extractor::whole(kind), fields_span: None, optional: None })
        }
        Kind::Map(_) => read_map(report, entry),
        Kind::Nothing | Kind::Flag(_) | Kind::Number(_) | Kind::List(_) => {
            let message = format!("`{}` takes an extractor, found {}", entry.key.text, entry.value.found());
            report.error(entry.value.span, message, help());
            None
        }
    }
}

fn names() -> impl Iterator<Item = &'static str> + Clone {
    FORMS.iter().map(|form| form.name)
}

fn help() -> String {
    format!(
        "the extractors are {}; with options: `extract: {{ pairs: {{ separator: \"=\" }} }}`",
        suggest::listed(names())
    )
}

fn by_name(report: &Report<'_>, node: &Node, name: &str) -> Option<ExtractorKind> {
    let Some(form) = FORMS.iter().find(|form| form.name == name) else {
        let nearest = suggest::nearest(name, names());
        let help = nearest.map_or_else(help, |name| format!("did you mean `{name}`?"));
        report.error(node.span, format!("unknown extractor `{name}`"), help);
        return None;
    };
    match form.alone {
        Alone::Is(kind) => Some(kind()),
        Alone::Needs(what, example) => {
            report.error(node.span, format!("`{name}` needs {what}"), format!("write `{example}`"));
            None
        }
    }
}

fn read_map(report: &Report<'_>, entry: &Entry) -> Option<One> {
    // An unknown key here is an extractor that does not exist; say so rather than "unknown key".
    let entries = entry.value.as_map().unwrap_or_default();
    let before = report.errors();
    for entry in entries.iter().filter(|entry| EXTRACT.get(&entry.key.text).is_none()) {
        let nearest =
            suggest::nearest(&entry.key.text, EXTRACT.names()).map(|name| format!("did you mean `{name}`?"));
        report.error(
            entry.key.span,
            format!("unknown extractor `{}`", entry.key.text),
            nearest.unwrap_or_else(help),
        );
    }
    if report.errors() > before {
        return None;
    }
    let section = Section::open(report, entry.key.span, &entry.value, &EXTRACT)?;
    let of = section.entry("of").map(|entry| of::read(report, entry));
    let named: Vec<(&Form, &Entry)> =
        FORMS.iter().filter_map(|form| Some((*form, section.entry(form.name)?))).collect();
    let (outer, kind_entry) = (section.entry("fields"), section.entry("type"));
    let optional = section.flag("optional") == Some(true);
    let optional = section.entry("optional").filter(|_| optional).map(|entry| entry.key.span);
    let [(form, one)] = named[..] else {
        let (message, place) = match named[..] {
            [] => (format!("`{}` names no extractor", entry.key.text), section.place),
            [_, (_, second), ..] => {
                (format!("`{}` takes one extractor, found several", entry.key.text), second.key.span)
            }
            [_] => unreachable!("one extractor was matched before"),
        };
        report.error(place, message, help());
        return None;
    };
    let (kind, inner) = options(report, form, one)?;
    let of = match of {
        Some(of) => Some(of.filter(|_| of::may_read(report, &kind, one))?),
        None => None,
    };
    if let (Some(_), Some(outer)) = (inner, outer) {
        report.error(
            outer.key.span,
            "`fields` is here twice",
            format!("keep those under `{}`", one.key.text),
        );
    }
    let named = inner.or(outer);
    let typing = fields::typing(report, &kind, named, kind_entry)?;
    let fields_span = named.or(kind_entry).map(|entry| entry.key.span);
    Some(One { extractor: Extractor { of, kind, typing }, fields_span, optional })
}

/// The options of an extractor, and its `fields`.
fn options<'n>(
    report: &'n Report<'_>,
    form: &Form,
    entry: &'n Entry,
) -> Option<(ExtractorKind, Option<&'n Entry>)> {
    let Entry { key, value } = entry;
    if matches!(value.kind, Kind::Nothing) {
        return by_name(report, value, form.name).map(|kind| (kind, None));
    }
    if let Some(short) = form.short.and_then(|short| short(report, value, key.span)) {
        return short.map(|kind| (kind, None));
    }
    let section = Section::open(report, key.span, value, form.keys)?;
    let fields = form.keys.get("fields").and_then(|_| section.entry("fields"));
    Some(((form.options)(&section)?, fields))
}
