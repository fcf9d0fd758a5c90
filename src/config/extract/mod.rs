//! `extract`: extractors, which parse a value from a response. The extractors and their options are in
//! [`crate::translate::extract`]; this module declares their names in the file, and the keys `fields` and
//! `type`.

mod fields;

use super::renamed::{self, RENAMES};
use super::section::ReadElsewhere;
use crate::settings::{
    Checked, Code, Cursor, Entry, Key, KeyTable, Kind, Node, OpenSection, Report, Section, Setting,
    ValueKind, read_each, suggest,
};
use crate::translate::extract as parsers;
use crate::translate::extract::{
    Extract, ExtractPart, Extractor, ExtractorKind, MemberNames, Typing, ValueCount,
};
use crate::translate::{FieldSetting, Fields};

/// Section of one extractor in the file. It contains the options of the extractor and, if the extractor
/// returns fields, the key `fields`.
trait ExtractorSection: Setting {
    /// Kinds of values that the key of the extractor accepts.
    const FORM: ValueKind = Self::KIND;

    /// Parses a value in a short form. Returns `None` if the value is a section.
    fn read_short(_value: &Cursor<'_>) -> Option<Checked<ExtractorKind>> {
        None
    }

    fn into_kind(self) -> ExtractorKind;
}

/// Declares the extractors, one `key: Type(short form) fields { items }` each; the doc comment describes the
/// key.
///
/// `Type` is the name of the options in [`parsers`], of the variant of [`ExtractorKind`], and of the section
/// that this macro declares. The short form is an option of `#[section]`. `fields` adds the key `fields` to
/// the section. The items override default items of [`ExtractorSection`].
macro_rules! extractors {
    ($(
        $(#[doc = $doc:tt])*
        $key:ident: $kind:ident $(($($short:tt)*))? $($fields:ident)? $({ $($items:tt)* })?;
    )*) => {
        $(
            #[derive(Section)]
            #[section($($($short)*)?)]
            pub(in crate::config) struct $kind {
                #[key(part)]
                options: parsers::$kind,
                $(
                    /// Fields of the result, each with a name and a type.
                    $fields: ReadElsewhere<Fields>,
                )?
            }

            impl ExtractorSection for $kind {
                $($($items)*)?

                fn into_kind(self) -> ExtractorKind {
                    ExtractorKind::$kind(self.options.into())
                }
            }
        )*

        /// Section `extract`: one extractor, with the keys that apply to all extractors.
        #[derive(Section)]
        #[section(id = "extract", check_keys = Self::check_keys)]
        pub(in crate::config) struct ExtractSettings {
            $(
                $(#[doc = $doc])*
                #[key(kind = $kind::FORM, with = read_as::<$kind>)]
                $key: Option<Extractor>,
            )*
            /// Extractor that runs first; this one then parses its text instead of the response. `html` gives
            /// the text of a page.
            source: Option<Extractor>,
            /// Typed fields of the value.
            fields: ReadElsewhere<Fields>,
            /// Type of a single value.
            r#type: ReadElsewhere<FieldSetting>,
            /// In a map of several extractors: whether the response is still a success if the pattern of this
            /// one matches nothing, its header is missing, or the response has no text.
            optional: bool,
        }

        impl ExtractSettings {
            fn extractor(self) -> Option<Extractor> {
                [$(self.$key),*].into_iter().flatten().next()
            }
        }
    };
}

extractors! {
    /// Binary data: an image, audio or a document.
    binary: Binary(bare);
    /// Tables with aligned columns.
    columns: Columns(bare) fields;
    /// CSV, TSV and similar formats.
    csv: Csv(bare) fields;
    /// Form data: `name=value&name=value`, percent-encoded.
    form: Form(bare) fields;
    /// Named captures of grok patterns: `%{IP:client}`.
    grok: Grok(text = "pattern") fields;
    /// Response headers; a single one as its value.
    header: Header fields {
        const FORM: ValueKind =
            ValueKind::Either(&[Self::KIND, ValueKind::List(&ValueKind::Text), ValueKind::Text]);

        fn read_short(value: &Cursor<'_>) -> Option<Checked<ExtractorKind>> {
            parsers::Header::read_short(value).map(|header| header.map(ExtractorKind::Header))
        }
    };
    /// HTML: parts by CSS selectors, the rows of a table, or the text.
    html: Html(bare) fields;
    /// JSON document.
    json: Json(bare) fields;
    /// Result of an MCP server: its content blocks, and JSON in their text.
    mcp: Mcp(bare) fields;
    /// Metrics in the formats of Prometheus and OpenMetrics.
    metrics: Metrics(bare) fields;
    /// One JSON document per line.
    ndjson: NdJson(bare) fields;
    /// `key: value` lines.
    pairs: Pairs(bare) fields;
    /// Named captures of a regular expression.
    regex: Regex(text = "pattern") fields;
    /// The whole text of the response.
    text: Text(bare);
    /// XML document, including SOAP.
    xml: Xml(bare) fields;
}

/// Keys of `extract` that are not extractors.
pub(super) const OTHER_KEYS: [&str; 4] = ["source", "fields", "type", "optional"];

/// Names of the extractors that can be used without options.
const WITHOUT_OPTIONS: &[&str] =
    &["binary", "columns", "csv", "form", "html", "json", "mcp", "metrics", "ndjson", "pairs", "text", "xml"];

/// Kinds of values for a single extractor.
const ONE_EXTRACTOR: ValueKind =
    ValueKind::Either(&[ValueKind::Enum(WITHOUT_OPTIONS), ExtractSettings::KIND]);

fn read_as<T: ExtractorSection>(value: &Cursor<'_>) -> Checked<Option<Extractor>> {
    let kind = T::read_short(value).unwrap_or_else(|| T::read(value).map(T::into_kind))?;
    Ok(Some(Extractor::untyped(kind)))
}

fn extractor_names() -> impl Iterator<Item = &'static str> + Clone {
    ExtractSettings::keys().names().filter(|name| !OTHER_KEYS.contains(name))
}

/// Whether a string is the name of an extractor.
pub(super) fn is_extractor(name: &str) -> bool {
    extractor_names().any(|extractor| extractor == name)
}

fn help() -> String {
    format!(
        "known extractors: {}; with options: `extract: {{ pairs: {{ separator: \"=\" }} }}`",
        suggest::quoted_list(extractor_names())
    )
}

impl ExtractSettings {
    fn check_keys(section: &OpenSection<'_>) -> Checked<()> {
        let mut found = extractor_names().filter_map(|name| section.entry(name));
        let name = section.value.name;
        match (found.next(), found.next()) {
            (None, _) => Err(section.missing(format!("{name} has no extractor"), &help())),
            // If there is an unknown key, it is probably an option of an extractor, and only the unknown key
            // is reported.
            (Some(_), Some(second)) if !section.has_unknown_keys => {
                let message = format!("{name} must have one extractor, found several");
                Err(section.reject_at(Code::ConflictingKeys.at_span(second.key.span), &message, &help()))
            }
            _ => Ok(()),
        }
    }
}

/// Reports an unknown key of `extract` as an unknown extractor.
pub(super) fn report_unknown(report: &Report<'_>, key: &Key) {
    let nearest = suggest::nearest(&key.text, ExtractSettings::keys().names());
    let help = match nearest {
        Some(name) => format!("did you mean `{name}`?"),
        None => suggest::foreign("extract", &key.text, []).unwrap_or_else(help),
    };
    report.error(Code::UnknownExtractor.at_span(key.span), format!("unknown extractor `{}`", key.text), help);
}

/// Help for a key of `extract` that is in the options of an extractor by mistake; `None` for other keys.
pub(super) fn help_for_misplaced(key: &str, options: &KeyTable) -> Option<String> {
    let extractor = extractor_names().find(|name| {
        let kind = ExtractSettings::keys().get(name).map(|key| key.kind);
        kind.and_then(renamed::section_of).is_some_and(|section| std::ptr::eq(section, options))
    })?;
    OTHER_KEYS
        .contains(&key)
        .then(|| format!("`{key}` belongs beside the extractor: `extract: {{ {extractor}: …, {key}: … }}`"))
}

impl Setting for Extract {
    const KIND: ValueKind = ValueKind::Either(&[
        ValueKind::Enum(WITHOUT_OPTIONS),
        ExtractSettings::KIND,
        ValueKind::Map(&ONE_EXTRACTOR),
    ]);

    fn read(value: &Cursor<'_>) -> Checked<Self> {
        match value.node.as_map().filter(|entries| is_map_of_names(entries)) {
            Some(entries) => read_each(entries.iter().map(|entry| read_part(value, entry))).map(Self::Parts),
            None => read_alone(value).map(|extractor| Self::One(Box::new(extractor))),
        }
    }
}

/// Whether a value of `extract` is a map of named extractors: at least one key is not a key of `extract`, and
/// has a value that looks like an extractor, possibly misspelled. In other maps, an unknown key is a
/// misspelled extractor.
fn is_map_of_names(entries: &[Entry]) -> bool {
    let table = ExtractSettings::keys();
    let is_key = |key: &str| table.get(key).is_some() || RENAMES.key(table.id, key).is_some();
    entries
        .iter()
        .any(|entry| !is_key(&entry.key.text) && looks_like_an_extractor(&entry.value, &entry.key.text))
}

fn looks_like_an_extractor(node: &Node, name: &str) -> bool {
    let is_misspelt = suggest::nearest(name, extractor_names()).is_some();
    let resembles_one = |entry: &Entry| {
        is_extractor(&entry.key.text)
            || (!is_misspelt && suggest::nearest(&entry.key.text, extractor_names()).is_some())
    };
    node.as_text().is_some_and(is_extractor) || node.as_map().unwrap_or_default().iter().any(resembles_one)
}

fn read_part(value: &Cursor<'_>, entry: &Entry) -> Checked<ExtractPart> {
    let name = &entry.key.text;
    if ExtractSettings::keys().get(name).is_some() {
        let message = format!("`{name}` can't be the name of a part: it is a key of `extract`");
        let help = format!("rename the part: `the_{name}`");
        return value.reject_coded(Code::ConflictingKeys.at_span(entry.key.span), message, help);
    }
    let label = format!("`{name}`");
    let value = value.member(entry, &label, ONE_EXTRACTOR);
    let (extractor, optional) = read_one(&value)?;
    let reason = match extractor.kind {
        ExtractorKind::Mcp(_) => "reads the whole result, which may be an error",
        _ if extractor.kind.value_count() == ValueCount::Block => "returns a content block and no value",
        _ => return Ok(ExtractPart { name: name.clone(), extractor, optional }),
    };
    let message = format!("`{}` can't be a part: it {reason}", extractor.kind.name());
    let help = "use it alone, in a rule of its own";
    value.reject_coded(Code::WrongExtractor.at_span(value.node.span), message, help)
}

/// Parses an extractor that is not in a map of named extractors.
fn read_alone(value: &Cursor<'_>) -> Checked<Extractor> {
    let (extractor, optional) = read_one(value)?;
    if !optional {
        return Ok(extractor);
    }
    let span = value.node.entry("optional").map_or(value.key_span, |entry| entry.key.span);
    let message = "`optional` applies only to one of several named extractors";
    let help = "remove it, or name the part: `extract: { total: { header: X-Total, optional: true } }`";
    value.reject_coded(Code::FieldsDoNotFit.at_span(span), message, help)
}

/// Parses one extractor; also returns the value of its key `optional`.
fn read_one(value: &Cursor<'_>) -> Checked<(Extractor, bool)> {
    let expanded;
    let value = match (value.node.as_text(), value.node.as_map()) {
        (Some(name), _) if !name.is_empty() => {
            let span = value.node.span;
            let entry = Entry::new(name, Node::new(Kind::Map(Vec::new()), span), span);
            expanded = Node::new(Kind::Map(vec![entry]), span);
            value.part(&expanded, value.name, value.kind)
        }
        (_, Some(_)) => *value,
        _ => return value.reject_kind("an extractor", Some(help())),
    };
    let mut settings = ExtractSettings::read(&value)?;
    let (source, optional) = (settings.source.take().map(Box::new), settings.optional);
    let Extractor { kind, .. } = value.checked(settings.extractor())?;
    let extractor_entry = value.node.entry(kind.name());
    let input = match kind {
        ExtractorKind::Binary(_) | ExtractorKind::Header(_) => Some("no text"),
        ExtractorKind::Mcp(_) => Some("the whole response"),
        _ => None,
    };
    if let (Some(_), Some(extractor_entry), Some(input)) = (&source, extractor_entry, input) {
        let message = format!("`source` has no effect: `{}` reads {input}", kind.name());
        let coded_span = Code::WrongExtractor.at_span(extractor_entry.key.span);
        return value.reject_coded(coded_span, message, "remove `source`");
    }
    let (inner, outer) = (
        extractor_entry.and_then(|extractor_entry| extractor_entry.value.entry("fields")),
        value.node.entry("fields"),
    );
    if let (Some(_), Some(outer)) = (inner, outer) {
        let help = format!("keep the one under `{}`", kind.name());
        let message = "`fields` is defined twice";
        return value.reject_coded(Code::DuplicateKey.at_span(outer.key.span), message, help);
    }
    let typing = fields::typing(&value, &kind, inner.or(outer))?;
    Ok((Extractor { source, kind, typing }, optional))
}

/// `source`: an extractor that returns the text for another extractor.
impl Setting for Extractor {
    const KIND: ValueKind = ONE_EXTRACTOR;

    fn read(value: &Cursor<'_>) -> Checked<Self> {
        let extractor = read_alone(value)?;
        let kind = &extractor.kind;
        let returned = match (&extractor.typing, kind.value_count(), kind.member_names()) {
            (_, ValueCount::Block, _) => "a content block",
            (_, ValueCount::Many, _) => "a list",
            (Typing::Value { .. }, ValueCount::One, _) => return Ok(extractor),
            (Typing::Untyped, ..) if matches!(kind, ExtractorKind::Mcp(_)) => "a whole result",
            (Typing::Fields(_), ..) | (Typing::Untyped, _, MemberNames::Names(_)) => "an object",
            (Typing::Untyped, ..) if matches!(kind, ExtractorKind::Form(_) | ExtractorKind::Pairs(_)) => {
                "an object"
            }
            (Typing::Untyped, ValueCount::One, MemberNames::AnyNames | MemberNames::NoFields) => {
                return Ok(extractor);
            }
        };
        let message = format!("`source` must return a string, and `{}` returns {returned}", kind.name());
        let help = "write `source: html`, `source: { html: { text: pre } }` or, for one member of an object, \
                    `source: { json: {}, type: { type: string, from: output } }`";
        value.reject_coded(Code::WrongExtractor.at_span(value.node.span), message, help)
    }
}
