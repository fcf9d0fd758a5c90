//! `extract`: what pulls a value out of a reply, and the typed fields taken from it.

use super::{
    keys::{self, BINARY, EXTRACT, FIELD, HEADER, JSON, PAIRS, REGEX, TEXT},
    language,
    node::{Entry, Kind, Node},
    report::Report,
    section::{self, Section},
    source::Span,
    suggest,
};
use crate::rule::{
    Booleans, Field, FieldKind, Fields, Pattern,
    extract::{Binary, BinaryKind, Each, Extractor, ExtractorKind, Header, Json, Pairs, Regex, Text},
};

/// An extractor, and where its fields are named.
pub(super) struct Compiled {
    pub(super) extractor: Extractor,
    pub(super) fields_span: Option<Span>,
}

/// Reads `extract`. `None` when something is wrong with it; that has been reported then.
pub(super) fn read(report: &Report<'_>, entry: &Entry) -> Option<Compiled> {
    match &entry.value.kind {
        Kind::Text(text) => {
            let kind = by_name(report, &entry.value, &text.text)?;
            Some(Compiled { extractor: Extractor::whole(kind), fields_span: None })
        }
        Kind::Map(_) => read_map(report, entry),
        Kind::Nothing | Kind::Flag(_) | Kind::Number(_) | Kind::List(_) => {
            let message = format!("`extract` takes an extractor, found {}", entry.value.found());
            report.error(entry.value.span, message, help());
            None
        }
    }
}

fn help() -> String {
    format!(
        "the extractors are {}; with options: `extract: {{ pairs: {{ separator: \"=\" }} }}`",
        suggest::listed(ExtractorKind::NAMES)
    )
}

fn by_name(report: &Report<'_>, node: &Node, name: &str) -> Option<ExtractorKind> {
    let refuse = |message: String, help: Option<String>| {
        report.error(node.span, message, help);
        None
    };
    match name {
        "binary" => Some(ExtractorKind::Binary(Binary { kind: None, media_type: None })),
        "json" => Some(ExtractorKind::Json(Json)),
        "pairs" => Some(ExtractorKind::Pairs(Pairs::default())),
        "text" => Some(ExtractorKind::Text(Text::default())),
        "header" => refuse(
            "`header` needs the names of headers".into(),
            Some("write `extract: { header: [Location] }`".into()),
        ),
        "regex" => {
            refuse("`regex` needs a pattern".into(), Some("write `extract: { regex: '(?<name>…)' }`".into()))
        }
        _ => {
            let nearest = suggest::nearest(name, ExtractorKind::NAMES);
            refuse(
                format!("unknown extractor `{name}`"),
                Some(nearest.map_or_else(help, |name| format!("did you mean `{name}`?"))),
            )
        }
    }
}

fn read_map(report: &Report<'_>, entry: &Entry) -> Option<Compiled> {
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
    let named: Vec<&Entry> = ["binary", "header", "json", "pairs", "regex", "text"]
        .into_iter()
        .filter_map(|name| section.entry(name))
        .collect();
    let outer = section.entry("fields");
    let [one] = named[..] else {
        let (message, place) = match named[..] {
            [] => ("`extract` names no extractor".to_owned(), section.place),
            [_, second, ..] => ("`extract` takes one extractor, found several".to_owned(), second.key.span),
            [_] => unreachable!("one extractor was matched before"),
        };
        report.error(place, message, help());
        return None;
    };
    let (kind, inner) = options(report, one)?;
    if let (Some(_), Some(outer)) = (inner, outer) {
        report.error(
            outer.key.span,
            "`fields` is here twice",
            format!("keep those under `{}`", one.key.text),
        );
    }
    let entry = inner.or(outer);
    let fields = match entry {
        Some(entry) => Some(fields(report, &entry.value)?),
        None => None,
    };
    if let (Some(fields), Some(entry)) = (&fields, entry) {
        check_sources(report, &kind, fields, entry)?;
    }
    Some(Compiled { extractor: Extractor { kind, fields }, fields_span: entry.map(|entry| entry.key.span) })
}

/// The options of an extractor, and its `fields`.
fn options<'n>(report: &'n Report<'_>, entry: &'n Entry) -> Option<(ExtractorKind, Option<&'n Entry>)> {
    let Entry { key, value } = entry;
    let place = key.span;
    if matches!(value.kind, Kind::Nothing) {
        return by_name(report, value, &key.text).map(|kind| (kind, None));
    }
    Some(match key.text.as_str() {
        "binary" => {
            let section = Section::open(report, place, value, &BINARY)?;
            let kind = section.word("as").map(|word| match word {
                "image" => BinaryKind::Image,
                "audio" => BinaryKind::Audio,
                _ => BinaryKind::Resource,
            });
            (ExtractorKind::Binary(Binary { kind, media_type: media_type(&section) }), None)
        }
        "header" => match &value.kind {
            Kind::List(items) => (ExtractorKind::Header(header(report, items.iter(), place)?), None),
            Kind::Nothing | Kind::Flag(_) | Kind::Number(_) | Kind::Text(_) | Kind::Map(_) => {
                let section = Section::open(report, place, value, &HEADER)?;
                let fields = section.entry("fields");
                section.required("names", "write `names: [Location, status]`");
                let names = section.texts("names")?;
                (
                    ExtractorKind::Header(header(report, names.into_iter().map(|(node, _)| node), place)?),
                    fields,
                )
            }
        },
        "json" => (ExtractorKind::Json(Json), Section::open(report, place, value, &JSON)?.entry("fields")),
        "pairs" => {
            let section = Section::open(report, place, value, &PAIRS)?;
            let separator = match section.text_node("separator") {
                Some((node, "")) => {
                    report.error(
                        node.span,
                        "`separator` is empty",
                        "write what stands between key and value: `separator: \"=\"`",
                    );
                    return None;
                }
                Some((_, text)) => Pairs { separator: text.to_owned() },
                None => Pairs::default(),
            };
            (ExtractorKind::Pairs(separator), section.entry("fields"))
        }
        "regex" => match &value.kind {
            Kind::Text(_) => (
                ExtractorKind::Regex(Regex { pattern: captures(report, value)?, each: Each::default() }),
                None,
            ),
            Kind::Nothing | Kind::Flag(_) | Kind::Number(_) | Kind::List(_) | Kind::Map(_) => {
                let section = Section::open(report, place, value, &REGEX)?;
                let each = section.word("each").map_or(Each::First, |word| match word {
                    "match" => Each::Match,
                    "line" => Each::Line,
                    _ => Each::First,
                });
                let fields = section.entry("fields");
                let pattern =
                    captures(report, section.required("pattern", "write `pattern: '(?<name>…)'`")?)?;
                (ExtractorKind::Regex(Regex { pattern, each }), fields)
            }
        },
        _ => {
            let section = Section::open(report, place, value, &TEXT)?;
            (ExtractorKind::Text(Text { trim: section.flag("trim").unwrap_or(false) }), None)
        }
    })
}

/// A media type, without parameters or with.
pub(super) fn media_type(section: &Section<'_, '_>) -> Option<String> {
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

fn header<'n>(report: &Report<'_>, names: impl Iterator<Item = &'n Node>, place: Span) -> Option<Header> {
    let mut good = Vec::new();
    for node in names {
        let name = section::text_of(report, node, "a name of a header")?;
        if name != "status" && name.parse::<http::HeaderName>().is_err() {
            report.error(
                node.span,
                format!("`{name}` is no name of a header"),
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
    Some(Header { names: good })
}

fn captures(report: &Report<'_>, node: &Node) -> Option<Pattern> {
    let pattern = language::pattern(report, node, "the pattern")?;
    if pattern.names().is_empty() {
        let help = "name what is to be found: `(?<temperature>\\d+)`";
        report.error(node.span, "the pattern captures nothing by name", help);
        return None;
    }
    Some(pattern)
}

fn fields(report: &Report<'_>, node: &Node) -> Option<Fields> {
    let Some(entries) = node.as_map() else {
        let message = format!("`fields` takes a map of names and types, found {}", node.found());
        report.error(node.span, message, "write `fields: { temperature: number, conditions: string }`");
        return None;
    };
    let mut fields = Vec::new();
    let mut good = !entries.is_empty();
    if entries.is_empty() {
        report.error(
            node.span,
            "`fields` names no field",
            "write `fields: { temperature: number }`, or leave it out",
        );
    }
    for entry in entries {
        match field(report, entry) {
            Some(field) => fields.push(field),
            None => good = false,
        }
    }
    good.then(|| Fields::new(fields))
}

fn field(report: &Report<'_>, entry: &Entry) -> Option<Field> {
    let name = entry.key.text.clone();
    if let Kind::Text(_) = &entry.value.kind {
        let word = section::word_of(report, &entry.value, "the type of a field", keys::FIELD_TYPES)?;
        let (kind, optional) = word.strip_suffix('?').map_or((word, false), |kind| (kind, true));
        return Some(Field { from: name.clone(), name, kind: kind_of(kind, Booleans::default()), optional });
    }
    let section = Section::open(report, entry.key.span, &entry.value, &FIELD)?;
    let (from, optional) = (section.text("from").map(str::to_owned), section.flag("optional"));
    let (yes, no) = (words(&section, "true"), words(&section, "false"));
    section.required("type", "write `type: number`");
    let word = section.word("type")?;
    if word != "boolean" && (yes.is_some() || no.is_some()) {
        let message = format!("`true` and `false` are for the type `boolean`, not for `{word}`");
        report.error(
            entry
                .value
                .get("true")
                .or_else(|| entry.value.get("false"))
                .map_or(entry.key.span, |node| node.span),
            message,
            "leave them out",
        );
        return None;
    }
    let default = Booleans::default();
    let words = Booleans { yes: yes.unwrap_or(default.yes), no: no.unwrap_or(default.no) };
    if let Some(both) =
        words.yes.iter().find(|word| words.no.iter().any(|other| other.eq_ignore_ascii_case(word)))
    {
        report.error(
            entry.key.span,
            format!("`{both}` means both true and false"),
            "take it out of one of the lists",
        );
        return None;
    }
    Some(Field {
        from: from.unwrap_or_else(|| name.clone()),
        name,
        kind: kind_of(word, words),
        optional: optional.unwrap_or(false),
    })
}

fn kind_of(word: &str, words: Booleans) -> FieldKind {
    match word {
        "number" => FieldKind::Number,
        "integer" => FieldKind::Integer,
        "boolean" => FieldKind::Boolean(words),
        _ => FieldKind::String,
    }
}

fn words(section: &Section<'_, '_>, name: &'static str) -> Option<Vec<String>> {
    let node = section.get(name)?;
    let items = match &node.kind {
        Kind::List(items) => items.as_slice(),
        Kind::Nothing | Kind::Flag(_) | Kind::Number(_) | Kind::Text(_) | Kind::Map(_) => {
            std::slice::from_ref(node)
        }
    };
    let words: Vec<String> = items.iter().filter_map(Node::scalar).collect();
    if words.is_empty() {
        section.report.error(node.span, format!("`{name}` names no words"), "write `true: [up, ok]`");
        return None;
    }
    Some(words)
}

/// Fields come from what the extractor finds; where that is known, a field must be among it.
fn check_sources(report: &Report<'_>, kind: &ExtractorKind, fields: &Fields, entry: &Entry) -> Option<()> {
    let names: Vec<&str> = match kind {
        ExtractorKind::Regex(regex) => regex.pattern.names().iter().map(String::as_str).collect(),
        ExtractorKind::Header(header) => header.names.iter().map(String::as_str).collect(),
        ExtractorKind::Binary(_) | ExtractorKind::Text(_) => {
            let message = format!("`{}` finds no fields", kind.name());
            report.error(entry.key.span, message, "take `pairs`, `regex` or `json` to find fields");
            return None;
        }
        ExtractorKind::Json(_) | ExtractorKind::Pairs(_) => return Some(()),
    };
    let mut good = true;
    for field in fields.iter().filter(|field| !names.contains(&field.from.as_str())) {
        good = false;
        let place =
            entry.value.as_map().unwrap_or_default().iter().find(|entry| entry.key.text == field.name);
        let span = place
            .map_or(entry.key.span, |entry| entry.value.get("from").map_or(entry.key.span, |node| node.span));
        let message = format!("`{}` finds no `{}`", kind.name(), field.from);
        report.error(span, message, suggest::help(&field.from, "it finds", names.iter().copied()));
    }
    good.then_some(())
}
