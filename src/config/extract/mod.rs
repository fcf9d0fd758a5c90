//! `extract`: what pulls a value out of a reply. The extractors are in [`crate::translate::extract`], with their
//! options; here they get names, and `fields` beside them.

mod fields;
mod parts;
mod source;

use settings_derive::Section as DeriveSection;

use super::{
    keys::{EXTRACT, EXTRACTOR, Takes},
    node::{Entry, Kind, Node},
    renamed,
    report::Report,
    section::{self, ReadElsewhere, Section},
    source::Span,
    suggest,
};
use crate::{
    settings::{
        keys::ValueKind,
        section::{Checked, Cursor, Setting},
    },
    translate::{
        Fields,
        extract::{
            Binary, Columns, Csv, Extract, Extractor, ExtractorKind, Form as WebForm, Grok, Header,
            HtmlSettings, Json, Mcp, MediaType, Metrics, NdJson, Pairs, Regex, Text, XmlSettings,
        },
    },
};

/// How an extractor is written in the file.
struct Form {
    /// Its name, which is a key of `extract`.
    name: &'static str,
    /// What it needs, and an example of it, where its name alone means nothing.
    needs: Option<(&'static str, &'static str)>,
    /// Reads the options, `fields` aside.
    read: fn(&Cursor<'_>) -> Option<ExtractorKind>,
}

/// The declared options of an extractor.
trait Options: Setting {
    const NAME: &'static str;
    /// What it needs, and an example of it, where its name alone means nothing.
    const NEEDS: Option<(&'static str, &'static str)> = None;

    fn into_kind(self) -> ExtractorKind;
}

/// Declares how extractors are written: the options, as their own type has them, and `fields`.
macro_rules! options {
    ($($written:ident: $name:tt $(($($short:tt)*))? = $options:ident => $kind:ident $(needs $needs:expr)?;)*) => {$(
        #[derive(DeriveSection)]
        #[section(id = $name $(, $($short)*)?)]
        pub(in crate::config) struct $written {
            #[key(part)]
            options: $options,
            /// Fields of the result, each with a name and a type.
            #[key(kind = Fields::KIND)]
            fields: ReadElsewhere,
        }

        impl Options for $written {
            const NAME: &'static str = $name;
            $(const NEEDS: Option<(&'static str, &'static str)> = Some($needs);)?

            fn into_kind(self) -> ExtractorKind {
                ExtractorKind::$kind(self.options.into())
            }
        }
    )*};
}

options! {
    ColumnsOptions: "columns" (bare) = Columns => Columns;
    CsvOptions: "csv" (bare) = Csv => Csv;
    FormOptions: "form" (bare) = WebForm => Form;
    GrokOptions: "grok" (text = "pattern") = Grok => Grok
        needs ("a pattern", "extract: { grok: '%{IP:client} %{GREEDYDATA:message}' }");
    HeaderOptions: "header" = Header => Header
        needs ("the names of headers", "extract: { header: [Location] }");
    HtmlOptions: "html" (bare) = HtmlSettings => Html;
    JsonOptions: "json" (bare) = Json => Json;
    McpOptions: "mcp" (bare) = Mcp => Mcp;
    MetricsOptions: "metrics" (bare) = Metrics => Metrics;
    NdJsonOptions: "ndjson" (bare) = NdJson => NdJson;
    PairsOptions: "pairs" (bare) = Pairs => Pairs;
    RegexOptions: "regex" (text = "pattern") = Regex => Regex
        needs ("a pattern", "extract: { regex: '(?<name>…)' }");
    XmlOptions: "xml" (bare) = XmlSettings => Xml;
}

impl Options for Binary {
    const NAME: &'static str = "binary";

    fn into_kind(self) -> ExtractorKind {
        ExtractorKind::Binary(self)
    }
}

impl Options for Text {
    const NAME: &'static str = "text";

    fn into_kind(self) -> ExtractorKind {
        ExtractorKind::Text(self)
    }
}

const fn form<T: Options>() -> Form {
    Form { name: T::NAME, needs: T::NEEDS, read: |value| T::read(value).ok().map(T::into_kind) }
}

const HEADER: Form = Form {
    read: |value| match Header::read_short(value) {
        Some(header) => header.ok().map(ExtractorKind::Header),
        None => HeaderOptions::read(value).ok().map(Options::into_kind),
    },
    ..form::<HeaderOptions>()
};

/// Every extractor, in alphabetical order.
static FORMS: [Form; 15] = [
    form::<Binary>(),
    form::<ColumnsOptions>(),
    form::<CsvOptions>(),
    form::<FormOptions>(),
    form::<GrokOptions>(),
    HEADER,
    form::<HtmlOptions>(),
    form::<JsonOptions>(),
    form::<McpOptions>(),
    form::<MetricsOptions>(),
    form::<NdJsonOptions>(),
    form::<PairsOptions>(),
    form::<RegexOptions>(),
    form::<Text>(),
    form::<XmlOptions>(),
];

/// The media type of a section that is read key by key.
pub(super) fn media_type(section: &Section<'_, '_>) -> Option<String> {
    section.read::<MediaType>("media_type").map(|MediaType(text)| text)
}

/// What reads a value from a reply, and where its fields are named.
pub(super) struct Compiled {
    pub(super) extract: Extract,
    pub(super) fields_span: Option<Span>,
}

impl Setting for Compiled {
    const KIND: ValueKind = EXTRACTOR;

    fn read(value: &Cursor<'_>) -> Checked<Self> {
        let entry = Entry::new("extract", value.node.clone(), value.place);
        value.checked(read(value.context.report, &entry))
    }
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
    if let Some((what, example)) = form.needs {
        report.error(node.span, format!("`{name}` needs {what}"), format!("write `{example}`"));
        return None;
    }
    let alone = Node::new(Kind::Nothing, node.span);
    (form.read)(&section::cursor(report, node.span, &alone, name, Takes::Nothing))
}

fn read_map(report: &Report<'_>, entry: &Entry) -> Option<One> {
    // An unknown key here is an extractor that does not exist; say so rather than "unknown key".
    let entries = entry.value.as_map().unwrap_or_default();
    let before = report.errors();
    for entry in entries.iter().filter(|entry| EXTRACT.get(&entry.key.text).is_none()) {
        if renamed::report_key(report, &entry.key, EXTRACT.id, EXTRACT.section) {
            continue;
        }
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
    let source = section.entry("source").map(|entry| source::read(report, entry));
    let named: Vec<(&Form, &Entry)> =
        FORMS.iter().filter_map(|form| Some((form, section.entry(form.name)?))).collect();
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
    let source = match source {
        Some(source) => Some(source.filter(|_| source::may_read(report, &kind, one))?),
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
    Some(One { extractor: Extractor { source, kind, typing }, fields_span, optional })
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
    let name = format!("`{}`", form.name);
    let kind = (form.read)(&section::cursor(report, key.span, value, &name, Takes::Anything))?;
    Some((kind, value.entry("fields")))
}
