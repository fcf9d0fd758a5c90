//! The type of a field as the file has it: a word, or a map of the word and its options.
//!
//! In reading order: [`by_word`] reads a word, [`read`] a map; `values` are words and what each means, `time` how dates and
//! times are written.

mod time;
mod values;

use self::{
    time::time,
    values::{affixes, booleans, values, words},
};
use super::fields;
use crate::{
    config::{keys::FIELD_TYPES, node::Node, report::Report, section::Section, suggest},
    translate::{
        Booleans, Count, DurationForm, FieldKind, FieldType, Kilo, NumberForm, ShortClock, SizeForm,
        SizeUnit, TimeForm, TimeUnit, Values,
    },
};

/// A type without options, and whether the field may be missing: `number`, `number?`, `number[]`, `number[]?`.
pub(in crate::config::extract) fn by_word(report: &Report<'_>, node: &Node) -> Option<(FieldKind, bool)> {
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
pub(in crate::config::extract) fn count_of(node: &Node) -> Count {
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
pub(in crate::config::extract) fn read(section: &Section<'_, '_>) -> Option<(FieldType, bool)> {
    let report = section.report;
    let before = report.errors();
    let texts = |name| section.text(name).map(str::to_owned);
    let (title, description) = (texts("title"), texts("description"));
    let nulls = words(section, "null_values").unwrap_or_default();
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
            let kind = FieldKind::Values(Values { words, rest, ignore_case }.into());
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
        ("true_values", &["boolean"]),
        ("false_values", &["boolean"]),
        ("ignore_case", &["values"]),
        ("prefix", &["number", "integer"]),
        ("suffix", &["number", "integer"]),
        ("decimal_separator", &["number", "integer", "size"]),
        ("thousands_separator", &["number", "integer"]),
        ("format", &["date-time", "date"]),
        ("timezone", &["date-time", "date"]),
        ("input_unit", &["duration", "size"]),
        ("output_unit", &["duration"]),
        ("clock_format", &["duration"]),
        ("kilo_base", &["size"]),
        ("fields", &["object"]),
    ];

    /// Reads all that can be read without the type.
    fn read(section: &Section<'_, '_>) -> Self {
        let character = |name| section.word(name).and_then(|word| word.chars().next());
        let decimal = character("decimal_separator");
        let number = NumberForm {
            prefix: affixes(section, "prefix"),
            suffix: affixes(section, "suffix"),
            decimal: decimal.unwrap_or('.'),
            thousands: character("thousands_separator"),
        };
        if number.thousands == Some(number.decimal) {
            let place = section.entry("thousands_separator").map_or(section.place, |entry| entry.key.span);
            let message = format!("`{}` stands between thousands and before a fraction", number.decimal);
            section.report.error(
                place,
                message,
                "write `thousands_separator: \".\"` with `decimal_separator: \",\"`, or the other way round",
            );
        }
        let kilo = match section.count("kilo_base") {
            Some(1000) => Kilo::Decimal,
            Some(1024) => Kilo::Binary,
            Some(_) => {
                let node = section.get("kilo_base").unwrap_or(section.node);
                section.report.error(
                    node.span,
                    format!("`kilo_base` is 1000 or 1024, found {}", node.found()),
                    "write `kilo_base: 1024`",
                );
                Kilo::Usual
            }
            None => Kilo::Usual,
        };
        let clock = section.word("clock_format").map(|word| match word {
            "h:mm" => ShortClock::Hours,
            _ => ShortClock::Minutes,
        });
        let gives = section.word("output_unit").and_then(TimeUnit::named).unwrap_or(TimeUnit::SECOND);
        Self {
            booleans: (words(section, "true_values"), words(section, "false_values")),
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
        section.get("timezone");
        section.get("input_unit");
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
    let Some((node, text)) = section.text_node("input_unit") else { return Some(None) };
    let unit = named(text);
    if unit.is_none() {
        section.report.error(node.span, format!("there is no unit `{text}`"), help);
    }
    unit.map(Some)
}
