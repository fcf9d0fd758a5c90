//! `extract`: extractors, which parse a value from a response. They are in [`crate::translate::extract`] with
//! their options; this module adds their names in the file, and `fields` and `type`.

mod fields;
mod parts;

use super::renamed;
use super::section::ReadElsewhere;
use crate::settings::{
    Checked, Code, Cursor, Entry, Key, KeyTable, Kind, Node, OpenSection, Report, Section, Setting,
    SourceSpan, ValueKind, suggest,
};
use crate::translate::extract::{
    Binary, Columns, Csv, Extract, Extractor, ExtractorKind, Form as WebForm, Grok, Header, Html, Json, Mcp,
    MemberNames, Metrics, NdJson, Pairs, Regex, Text, Typing, ValueCount, Xml,
};
use crate::translate::{FieldSetting, Fields};

/// Options of an extractor.
trait ExtractorOptions: Setting {
    /// Required option and an example, for extractors that need one.
    const NEEDS: Option<(&'static str, &'static str)> = None;

    fn into_kind(self) -> ExtractorKind;
}

/// Declares the section of each extractor: the options of its own type, and `fields`.
macro_rules! options {
    ($($written:ident: $name:tt $(($($short:tt)*))? = $options:ident => $kind:ident $(needs $needs:expr)?;)*) => {$(
        #[derive(Section)]
        #[section(id = $name $(, $($short)*)?)]
        pub(in crate::config) struct $written {
            #[key(part)]
            options: $options,
            /// Fields of the result, each with a name and a type.
            fields: ReadElsewhere<Fields>,
        }

        impl ExtractorOptions for $written {
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
    HtmlOptions: "html" (bare) = Html => Html;
    JsonOptions: "json" (bare) = Json => Json;
    McpOptions: "mcp" (bare) = Mcp => Mcp;
    MetricsOptions: "metrics" (bare) = Metrics => Metrics;
    NdJsonOptions: "ndjson" (bare) = NdJson => NdJson;
    PairsOptions: "pairs" (bare) = Pairs => Pairs;
    RegexOptions: "regex" (text = "pattern") = Regex => Regex
        needs ("a pattern", "extract: { regex: '(?<name>…)' }");
    XmlOptions: "xml" (bare) = Xml => Xml;
}

impl ExtractorOptions for Binary {
    fn into_kind(self) -> ExtractorKind {
        ExtractorKind::Binary(self)
    }
}

impl ExtractorOptions for Text {
    fn into_kind(self) -> ExtractorKind {
        ExtractorKind::Text(self)
    }
}

/// Section `extract`: one extractor, with the keys that apply to all extractors.
#[derive(Section)]
#[section(id = "extract", check_keys = Self::check_keys)]
pub(in crate::config) struct ExtractSettings {
    /// Binary data: an image, audio or a document.
    #[key(kind = Binary::KIND, with = read_as::<Binary>)]
    binary: Option<Extractor>,
    /// Tables with aligned columns.
    #[key(kind = ColumnsOptions::KIND, with = read_as::<ColumnsOptions>)]
    columns: Option<Extractor>,
    /// CSV, TSV and similar formats.
    #[key(kind = CsvOptions::KIND, with = read_as::<CsvOptions>)]
    csv: Option<Extractor>,
    /// Form data: `name=value&name=value`, percent-encoded.
    #[key(kind = FormOptions::KIND, with = read_as::<FormOptions>)]
    form: Option<Extractor>,
    /// Named captures of grok patterns: `%{IP:client}`.
    #[key(kind = GrokOptions::KIND, with = read_as::<GrokOptions>)]
    grok: Option<Extractor>,
    /// Response headers; a single one as its value.
    #[key(kind = HEADER_FORM, with = read_header)]
    header: Option<Extractor>,
    /// HTML: parts by CSS selectors, the rows of a table, or the text.
    #[key(kind = HtmlOptions::KIND, with = read_as::<HtmlOptions>)]
    html: Option<Extractor>,
    /// JSON document.
    #[key(kind = JsonOptions::KIND, with = read_as::<JsonOptions>)]
    json: Option<Extractor>,
    /// Result of an MCP server: its content blocks, and JSON in their text.
    #[key(kind = McpOptions::KIND, with = read_as::<McpOptions>)]
    mcp: Option<Extractor>,
    /// Metrics in the formats of Prometheus and OpenMetrics.
    #[key(kind = MetricsOptions::KIND, with = read_as::<MetricsOptions>)]
    metrics: Option<Extractor>,
    /// One JSON document per line.
    #[key(kind = NdJsonOptions::KIND, with = read_as::<NdJsonOptions>)]
    ndjson: Option<Extractor>,
    /// `key: value` lines.
    #[key(kind = PairsOptions::KIND, with = read_as::<PairsOptions>)]
    pairs: Option<Extractor>,
    /// Named captures of a regular expression.
    #[key(kind = RegexOptions::KIND, with = read_as::<RegexOptions>)]
    regex: Option<Extractor>,
    /// The whole text of the response.
    #[key(kind = Text::KIND, with = read_as::<Text>)]
    text: Option<Extractor>,
    /// XML document, including SOAP.
    #[key(kind = XmlOptions::KIND, with = read_as::<XmlOptions>)]
    xml: Option<Extractor>,
    /// Extractor whose text is parsed in place of the response, such as `html` for the text of a page.
    source: Option<Extractor>,
    /// Typed fields of the value.
    fields: ReadElsewhere<Fields>,
    /// Type of a single value.
    r#type: ReadElsewhere<FieldSetting>,
    /// In a map of several extractors: whether the response is still a success if this one finds nothing.
    #[key(default = false)]
    optional: bool,
}

/// KeyTable of `extract` that are not extractors.
pub(super) const OTHER_KEYS: [&str; 4] = ["source", "fields", "type", "optional"];

/// Names of the extractors that need no options.
const WITHOUT_OPTIONS: &[&str] =
    &["binary", "columns", "csv", "form", "html", "json", "mcp", "metrics", "ndjson", "pairs", "text", "xml"];

/// Kinds of values for one extractor.
const ONE_EXTRACTOR: ValueKind =
    ValueKind::Either(&[ValueKind::Word(WITHOUT_OPTIONS), ExtractSettings::KIND]);

/// Kinds of values that `header` accepts.
const HEADER_FORM: ValueKind =
    ValueKind::Either(&[HeaderOptions::KIND, ValueKind::List(&ValueKind::Text), ValueKind::Text]);

fn read_as<T: ExtractorOptions>(value: &Cursor<'_>) -> Checked<Option<Extractor>> {
    match T::NEEDS.filter(|_| matches!(value.node.kind, Kind::Null)) {
        Some((what, example)) => {
            let message = format!("{} needs {what}", value.name);
            let help = format!("write `{example}`");
            value.reject_coded(Code::MissingKey.at_span(value.node.span), message, help)
        }
        None => T::read(value).map(|options| Some(Extractor::whole(options.into_kind()))),
    }
}

fn read_header(value: &Cursor<'_>) -> Checked<Option<Extractor>> {
    match Header::read_short(value) {
        Some(header) => header.map(|header| Some(Extractor::whole(ExtractorKind::Header(header)))),
        None => read_as::<HeaderOptions>(value),
    }
}

fn names() -> impl Iterator<Item = &'static str> + Clone {
    ExtractSettings::keys().names().filter(|name| !OTHER_KEYS.contains(name))
}

/// Whether it is the name of an extractor.
pub(super) fn is_extractor(name: &str) -> bool {
    names().any(|known| known == name)
}

fn help() -> String {
    format!(
        "known extractors: {}; with options: `extract: {{ pairs: {{ separator: \"=\" }} }}`",
        suggest::quoted_list(names())
    )
}

impl ExtractSettings {
    fn check_keys(section: &OpenSection<'_>) -> Checked<()> {
        if names().any(|name| section.entry(name).is_some()) {
            return Ok(());
        }
        Err(section.missing(format!("{} has no extractor", section.value.name), &help()))
    }

    fn extractor(self) -> Option<Extractor> {
        let Self { binary, columns, csv, form, grok, header, html, json, mcp, .. } = self;
        let Self { metrics, ndjson, pairs, regex, text, xml, .. } = self;
        let all = [
            [binary, columns, csv, form, grok],
            [header, html, json, mcp, metrics],
            [ndjson, pairs, regex, text, xml],
        ];
        all.into_iter().flatten().flatten().next()
    }
}

/// Reports an unknown key of `extract` as an unknown extractor.
pub(super) fn report_unknown(report: &Report<'_>, key: &Key) {
    let nearest = suggest::nearest(&key.text, ExtractSettings::keys().names());
    let help = match nearest {
        Some(name) => format!("did you mean `{name}`?"),
        None if key.text == "jq" => "write the filter beside `extract`, under `structured`".to_owned(),
        None => help(),
    };
    report.error(Code::UnknownExtractor.at_span(key.span), format!("unknown extractor `{}`", key.text), help);
}

/// Help for a key of `extract` that is among the options of an extractor; `None` for any other key.
pub(super) fn help_for_misplaced(key: &str, options: &KeyTable) -> Option<String> {
    let extractor = names().find(|name| {
        let kind = ExtractSettings::keys().get(name).map(|key| key.kind);
        kind.and_then(renamed::section_of).is_some_and(|section| std::ptr::eq(section, options))
    })?;
    OTHER_KEYS
        .contains(&key)
        .then(|| format!("`{key}` belongs beside the extractor: `extract: {{ {extractor}: …, {key}: … }}`"))
}

/// Compiled `extract`, and the span of its fields.
pub(super) struct CompiledExtract {
    pub(super) extract: Extract,
    pub(super) fields_span: Option<SourceSpan>,
}

/// One extractor, with the keys beside it.
struct ParsedExtractor {
    extractor: Extractor,
    fields_span: Option<SourceSpan>,
    optional: bool,
}

impl Setting for CompiledExtract {
    const KIND: ValueKind = ValueKind::Either(&[
        ValueKind::Word(WITHOUT_OPTIONS),
        ExtractSettings::KIND,
        ValueKind::Map(&ONE_EXTRACTOR),
    ]);

    fn read(value: &Cursor<'_>) -> Checked<Self> {
        if parts::is_map_of_names(value.node) {
            return parts::read(value);
        }
        let ParsedExtractor { extractor, fields_span, optional } = read_one(value)?;
        if optional {
            let help =
                "remove it, or name the part: `extract: { total: { header: X-Total, optional: true } }`";
            return reject_optional(value, help);
        }
        Ok(Self { extract: Extract::One(Box::new(extractor)), fields_span })
    }
}

/// Rejects several extractors in one `extract`. If there is an unknown key as well, only that is reported.
fn check_single_extractor(value: &Cursor<'_>) -> Checked<()> {
    let mut found = names().filter_map(|name| value.node.entry(name));
    let is_known = |entry: &Entry| ExtractSettings::keys().get(&entry.key.text).is_some();
    match found.nth(1) {
        Some(second) if value.node.as_map().unwrap_or_default().iter().all(is_known) => {
            let message = format!("{} must have one extractor, found several", value.name);
            value.reject_coded(Code::ConflictingKeys.at_span(second.key.span), message, help())
        }
        _ => Ok(()),
    }
}

fn reject_optional<T>(value: &Cursor<'_>, help: &str) -> Checked<T> {
    let place = value.node.entry("optional").map_or(value.place, |entry| entry.key.span);
    let message = "`optional` applies only to one of several named extractors";
    value.reject_coded(Code::FieldsDoNotFit.at_span(place), message, help)
}

fn read_one(value: &Cursor<'_>) -> Checked<ParsedExtractor> {
    let alone;
    let value = match (value.node.as_text(), value.node.as_map()) {
        (Some(name), _) if !name.is_empty() => {
            let span = value.node.span;
            let entry = Entry::new(name, Node::new(Kind::Null, span), span);
            alone = Node::new(Kind::Map(vec![entry]), span);
            value.part(&alone, value.name, value.kind)
        }
        (_, Some(_)) => *value,
        _ => return value.reject_kind("an extractor", Some(help())),
    };
    check_single_extractor(&value)?;
    let mut settings = ExtractSettings::read(&value)?;
    let (source, optional) = (settings.source.take().map(Box::new), settings.optional);
    let Extractor { kind, .. } = value.checked(settings.extractor())?;
    let written = value.node.entry(kind.name());
    if let Some(written) = written.filter(|_| source.is_some()) {
        check_parses_text(&value, &kind, written)?;
    }
    let (inner, outer) =
        (written.and_then(|written| written.value.entry("fields")), value.node.entry("fields"));
    if let (Some(_), Some(outer)) = (inner, outer) {
        let help = format!("keep the one under `{}`", kind.name());
        let message = "`fields` is defined twice";
        return value.reject_coded(Code::DuplicateKey.at_span(outer.key.span), message, help);
    }
    let (named, of_one) = (inner.or(outer), value.node.entry("type"));
    let typing = fields::typing(&value, &kind, named, of_one)?;
    let fields_span = named.or(of_one).map(|entry| entry.key.span);
    Ok(ParsedExtractor { extractor: Extractor { source, kind, typing }, fields_span, optional })
}

/// `source`: an extractor whose text another extractor parses.
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
        value.reject_coded(Code::WrongExtractor.at_span(value.node.span), message, help)
    }
}

/// Rejects `source` of an extractor that does not parse text.
fn check_parses_text(value: &Cursor<'_>, kind: &ExtractorKind, entry: &Entry) -> Checked<()> {
    let reads = match kind {
        ExtractorKind::Binary(_) | ExtractorKind::Header(_) => "no text",
        ExtractorKind::Mcp(_) => "the whole response",
        _ => return Ok(()),
    };
    let message = format!("`source` has no effect: `{}` reads {reads}", kind.name());
    value.reject_coded(Code::WrongExtractor.at_span(entry.key.span), message, "remove `source`")
}
