//! The type of a field as the file has it: a word, or a map of the word and its options.

use serde_json::Value;

use super::fields;
use crate::{
    config::{
        keys::FIELD_TYPES,
        node::{Kind, Node},
        report::Report,
        section::{self, Section},
        suggest,
    },
    rule::{
        Booleans, Count, DurationForm, FieldKind, FieldType, Kilo, NumberForm, ShortClock, SizeForm,
        SizeUnit, TimeForm, TimeFormat, TimeUnit, Values,
    },
};

/// A type without options, and whether the field may be missing: `number`, `number?`, `number[]`, `number[]?`.
pub(super) fn by_word(report: &Report<'_>, node: &Node) -> Option<(FieldKind, bool)> {
    let (word, optional) = word(report, node)?;
    let kind = match word {
        "number" => FieldKind::Number(NumberForm::default()),
        "integer" => FieldKind::Integer(NumberForm::default()),
        "boolean" => FieldKind::Boolean(Booleans::default()),
        "date-time" => FieldKind::DateTime(TimeForm::default()),
        "date" => FieldKind::Date(TimeForm::default()),
        "duration" => FieldKind::Duration(DurationForm::default()),
        "size" => FieldKind::Size(SizeForm::default()),
        "object" => FieldKind::Object(None),
        "any" => FieldKind::Any,
        _ => FieldKind::String,
    };
    Some((kind, optional))
}

/// Whether the word says that there is a list.
pub(super) fn count_of(node: &Node) -> Count {
    let text = node.as_text().unwrap_or_default();
    if text.trim_end_matches('?').ends_with("[]") { Count::List } else { Count::One }
}

fn word(report: &Report<'_>, node: &Node) -> Option<(&'static str, bool)> {
    let found = node.scalar().unwrap_or_default();
    let (word, optional) = found.strip_suffix('?').map_or((found.as_str(), false), |word| (word, true));
    let word = word.strip_suffix("[]").unwrap_or(word);
    if let Some(known) = FIELD_TYPES.iter().find(|known| **known == word) {
        return Some((known, optional));
    }
    let listed = suggest::listed(FIELD_TYPES.iter().copied());
    let message = format!("the type of a field must be one of {listed}; found {}", node.found());
    let help = suggest::nearest(word, FIELD_TYPES.iter().copied()).map_or_else(
        || "with `[]` behind it it is a list, with `?` the field may be missing".to_owned(),
        |word| format!("did you mean `{word}`?"),
    );
    report.error(node.span, message, help);
    None
}

/// The type that a map describes, and whether its word says that the field may be missing.
pub(super) fn read(section: &Section<'_, '_>) -> Option<(FieldType, bool)> {
    let report = section.report;
    let before = report.errors();
    let texts = |name| section.text(name).map(str::to_owned);
    let (title, description) = (texts("title"), texts("description"));
    let nulls = words(section, "null").unwrap_or_default();
    let kind_node = section.get("type");
    let values = section.entry("values").and_then(|entry| values(report, &entry.value));
    let ignore_case = section.flag("ignore_case");
    let options = Options::read(section);
    let (kind, optional, count) = match (kind_node, section.entry("values")) {
        (None, None) => {
            section.missing("a field has no `type`".to_owned(), "write `type: number`");
            return None;
        }
        (Some(node), None) => {
            let (_, optional) = by_word(report, node)?;
            let (word, _) = word(report, node)?;
            options.refuse_others(section, word)?;
            (options.kind(section, word)?, optional, count_of(node))
        }
        (node, Some(entry)) => {
            let (word, optional) = match node {
                Some(node) => word(report, node)?,
                None => ("string", false),
            };
            if word != "string" {
                let message = format!("`values` says what the values are, and `type` says `{word}`");
                report.error(entry.key.span, message, "leave `type` out");
                return None;
            }
            options.refuse_others(section, "values")?;
            let (words, rest) = values?;
            let ignore_case = ignore_case.unwrap_or(false);
            let kind = FieldKind::Values(Values { words, rest, ignore_case });
            (kind, optional, node.map_or(Count::One, count_of))
        }
    };
    let kind = FieldType { kind, count, nulls, title, description };
    (report.errors() == before).then_some((kind, optional))
}

/// Options of which each is for some types.
struct Options {
    booleans: (Option<Vec<String>>, Option<Vec<String>>),
    number: NumberForm,
    size: SizeForm,
    duration: DurationForm,
}

impl Options {
    /// Which keys are for which types.
    const OF: [(&'static str, &'static [&'static str]); 14] = [
        ("true", &["boolean"]),
        ("false", &["boolean"]),
        ("ignore_case", &["values"]),
        ("prefix", &["number", "integer"]),
        ("suffix", &["number", "integer"]),
        ("decimal", &["number", "integer", "size"]),
        ("thousands", &["number", "integer"]),
        ("format", &["date-time", "date"]),
        ("zone", &["date-time", "date"]),
        ("unit", &["duration", "size"]),
        ("in", &["duration"]),
        ("clock", &["duration"]),
        ("kilo", &["size"]),
        ("fields", &["object"]),
    ];

    /// Reads all that can be read without the type.
    fn read(section: &Section<'_, '_>) -> Self {
        let character = |name| section.word(name).and_then(|word| word.chars().next());
        let decimal = character("decimal");
        let number = NumberForm {
            prefix: affixes(section, "prefix"),
            suffix: affixes(section, "suffix"),
            decimal: decimal.unwrap_or('.'),
            thousands: character("thousands"),
        };
        if number.thousands == Some(number.decimal) {
            let place = section.entry("thousands").map_or(section.place, |entry| entry.key.span);
            let message = format!("`{}` stands between thousands and before a fraction", number.decimal);
            section.report.error(
                place,
                message,
                "write `thousands: \".\"` with `decimal: \",\"`, or the other way round",
            );
        }
        let kilo = match section.count("kilo") {
            Some(1000) => Kilo::Decimal,
            Some(1024) => Kilo::Binary,
            Some(_) => {
                let node = section.get("kilo").unwrap_or(section.node);
                section.report.error(
                    node.span,
                    format!("`kilo` is 1000 or 1024, found {}", node.found()),
                    "write `kilo: 1024`",
                );
                Kilo::Usual
            }
            None => Kilo::Usual,
        };
        let clock = section.word("clock").map(|word| match word {
            "h:mm" => ShortClock::Hours,
            _ => ShortClock::Minutes,
        });
        let gives = section.word("in").and_then(TimeUnit::named).unwrap_or(TimeUnit::SECOND);
        Self {
            booleans: (words(section, "true"), words(section, "false")),
            size: SizeForm { kilo, decimal: number.decimal, ..SizeForm::default() },
            number,
            duration: DurationForm { clock, gives, ..DurationForm::default() },
        }
    }

    /// Says which keys have no effect on a type.
    fn refuse_others(&self, section: &Section<'_, '_>, word: &str) -> Option<()> {
        let mut good = true;
        for (name, kinds) in Self::OF {
            let Some(entry) = section.entry(name).filter(|_| !kinds.contains(&word)) else { continue };
            let message = match (kinds, word) {
                (["values"], _) => format!("`{name}` is for `values`, and there are none"),
                (_, "values") => format!("`{name}` has no effect beside `values`"),
                _ => format!(
                    "`{name}` is for the type {}, not for `{word}`",
                    kinds.iter().map(|kind| format!("`{kind}`")).collect::<Vec<_>>().join(" or ")
                ),
            };
            section.report.error(entry.key.span, message, "leave it out");
            good = false;
        }
        // The others are looked at by the types that have them.
        section.get("format");
        section.get("zone");
        section.get("unit");
        section.get("fields");
        good.then_some(())
    }

    fn kind(self, section: &Section<'_, '_>, word: &str) -> Option<FieldKind> {
        Some(match word {
            "number" => FieldKind::Number(self.number),
            "integer" => FieldKind::Integer(self.number),
            "boolean" => FieldKind::Boolean(booleans(section, self.booleans)?),
            "date-time" => FieldKind::DateTime(time(section, true)?),
            "date" => FieldKind::Date(time(section, false)?),
            "duration" => {
                let help = "write `ms`, `s`, `min`, `h` or `d`";
                let unit = unit(section, help, TimeUnit::named)?.unwrap_or(self.duration.unit);
                FieldKind::Duration(DurationForm { unit, ..self.duration })
            }
            "size" => {
                let kilo = self.size.kilo;
                let help = "write `B`, `K`, `kB`, `KiB`, `MiB`, …";
                let unit = unit(section, help, |name| SizeUnit::named(name, kilo))?.unwrap_or(self.size.unit);
                FieldKind::Size(SizeForm { unit, ..self.size })
            }
            "object" => {
                let fields = section.get("fields").map(|node| fields::read(section.report, node));
                FieldKind::Object(match fields {
                    Some(fields) => Some(fields?),
                    None => None,
                })
            }
            "any" => FieldKind::Any,
            _ => FieldKind::String,
        })
    }
}

/// `None` when it is wrong, and in it `None` when there is none.
fn unit<T>(section: &Section<'_, '_>, help: &str, named: impl Fn(&str) -> Option<T>) -> Option<Option<T>> {
    let Some((node, text)) = section.text_node("unit") else { return Some(None) };
    let unit = named(text);
    if unit.is_none() {
        section.report.error(node.span, format!("there is no unit `{text}`"), help);
    }
    unit.map(Some)
}

fn time(section: &Section<'_, '_>, wants_time: bool) -> Option<TimeForm> {
    let report = section.report;
    let written = section.get("format").map_or(&[][..], items);
    if let (Some(node), []) = (section.get("format"), written) {
        report.error(node.span, "`format` names no form", "write `format: \"%Y-%m-%d %H:%M:%S\"`");
        return None;
    }
    // A date among several forms is one because somebody wrote that it is.
    let needs_time = wants_time && written.len() < 2;
    let mut forms = Vec::new();
    for node in written {
        forms.push(time_format(report, node, needs_time)?);
    }
    let format = match forms.len() {
        0 => TimeFormat::Usual,
        1 => forms.remove(0),
        _ => TimeFormat::OneOf(forms),
    };
    let zone = match section.text_node("zone") {
        None => None,
        Some((node, text)) => match text.parse() {
            Ok(zone) => Some(zone),
            Err(error) => {
                report.error(node.span, error, "write `Europe/Oslo`, `UTC` or `+01:00`");
                return None;
            }
        },
    };
    let forms = match &format {
        TimeFormat::OneOf(forms) => forms.as_slice(),
        one => std::slice::from_ref(one),
    };
    let mut without = written.iter().zip(forms).filter(|(_, form)| !form.may_have_an_offset());
    if let Some((node, text)) = without.next().and_then(|(node, _)| Some((node, node.as_text()?)))
        && wants_time
        && zone.is_none()
    {
        let message = format!("a `date-time` of the form `{text}` has no offset from UTC, and no `zone`");
        let help = "write `zone: Europe/Oslo`, where its clock stands, or `zone: UTC`; or take `type: date`";
        report.error(node.span, message, help);
        return None;
    }
    Some(TimeForm { format, zone })
}

/// One form of a date or time.
fn time_format(report: &Report<'_>, node: &Node, wants_time: bool) -> Option<TimeFormat> {
    let text = section::text_of(report, node, "`format`")?;
    let error = match text {
        "iso" => return Some(TimeFormat::Usual),
        "unix" => return Some(TimeFormat::Unix),
        "unix-ms" => return Some(TimeFormat::UnixMillis),
        _ => match TimeFormat::directives(text, wants_time) {
            Ok(format) => return Some(format),
            Err(error) => error,
        },
    };
    let help = match text.contains("%Z") {
        true => {
            "names of zones such as `CET` are not unique: write its letters in place of `%Z`, `\"%H:%M CET\"`, and \
                 `zone: Europe/Oslo` beside; `%z` is `+0100`, `%Q` is `Europe/Oslo`"
        }
        false => "write it as `strftime` has it, `%Y-%m-%d %H:%M:%S`, or `unix`",
    };
    report.error(node.span, format!("`format` can't be read by: {error}"), help);
    None
}

fn booleans(
    section: &Section<'_, '_>,
    (yes, no): (Option<Vec<String>>, Option<Vec<String>>),
) -> Option<Booleans> {
    let default = Booleans::default();
    let words = Booleans { yes: yes.unwrap_or(default.yes), no: no.unwrap_or(default.no) };
    let both = words.yes.iter().find(|word| words.no.iter().any(|other| other.eq_ignore_ascii_case(word)));
    if let Some(both) = both {
        let message = format!("`{both}` means both true and false");
        section.report.error(section.place, message, "take it out of one of the lists");
        return None;
    }
    Some(words)
}

/// The words of `values`, and what all others mean.
type Meanings = (Vec<(String, Value)>, Option<Value>);

fn values(report: &Report<'_>, node: &Node) -> Option<Meanings> {
    const REST: &str = "*";
    let mut words: Vec<(String, Value)> = Vec::new();
    let mut rest = None;
    let wrong = |node: &Node| {
        let message = format!("a value is a text, a number, `true`, `false` or null, found {}", node.found());
        report.error(node.span, message, "write `values: { OK: up, CRIT: down }`");
    };
    match &node.kind {
        Kind::Map(entries) => {
            for entry in entries {
                if matches!(entry.value.kind, Kind::List(_) | Kind::Map(_)) {
                    wrong(&entry.value);
                    return None;
                }
                match entry.key.text.as_str() {
                    REST => rest = Some(entry.value.to_json()),
                    word => words.push((word.trim().to_owned(), entry.value.to_json())),
                }
            }
        }
        Kind::List(items) => {
            for item in items {
                let Some(word) = item.scalar() else {
                    wrong(item);
                    return None;
                };
                words.push((word.trim().to_owned(), Value::String(word.trim().to_owned())));
            }
        }
        Kind::Nothing | Kind::Flag(_) | Kind::Number(_) | Kind::Text(_) => {}
    }
    if words.is_empty() {
        let message = format!("`values` takes words and what each means, found {}", node.found());
        report.error(node.span, message, "write `values: { OK: up, CRIT: down }`, or `values: [up, down]`");
        return None;
    }
    Some((words, rest))
}

fn words(section: &Section<'_, '_>, name: &'static str) -> Option<Vec<String>> {
    let node = section.get(name)?;
    let mut words = Vec::new();
    for item in items(node) {
        match item.scalar() {
            Some(word) => words.push(word),
            // `NULL`, as databases write it, `~` and nothing at all.
            None if matches!(item.kind, Kind::Nothing) => {
                let message = format!("`{name}` has a word that is nothing in YAML");
                let help = format!("put it in quotes: `{name}: \"NULL\"`");
                section.report.error(item.span, message, help);
                return None;
            }
            None => {
                let message = format!("`{name}` takes words, found {}", item.found());
                section.report.error(item.span, message, format!("write `{name}: [up, ok]`"));
                return None;
            }
        }
    }
    if words.is_empty() {
        section.report.error(
            node.span,
            format!("`{name}` names no words"),
            format!("write `{name}: [up, ok]`"),
        );
        return None;
    }
    Some(words)
}

fn affixes(section: &Section<'_, '_>, name: &'static str) -> Vec<String> {
    let Some(node) = section.get(name) else { return Vec::new() };
    let what = format!("`{name}`");
    items(node)
        .iter()
        .filter_map(|item| section::text_of(section.report, item, &what))
        .map(|text| text.trim().to_owned())
        .filter(|text| !text.is_empty())
        .collect()
}

fn items(node: &Node) -> &[Node] {
    match &node.kind {
        Kind::List(items) => items.as_slice(),
        Kind::Nothing | Kind::Flag(_) | Kind::Number(_) | Kind::Text(_) | Kind::Map(_) => {
            std::slice::from_ref(node)
        }
    }
}
