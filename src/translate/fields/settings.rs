//! Configuration of fields: a type name, or a map with the options of all types.

use serde_json::Value;
use settings_derive::Section;

use super::number::{size_unit, time_unit};
use super::{
    DurationForm, Enumeration, Field, FieldKind, FieldPath, FieldType, Fields, Multiplicity, NumberForm,
    OnMissing, SizeForm, TimeOptions,
};
use crate::model::Schema;
use crate::settings::{
    Checked, Code, Cursor, FromText, Invalid, Kind, Node, OpenSection, Setting, SourceSpan, ValueKind,
    suggest,
};

pub(super) const TEXTS: ValueKind = ValueKind::OneOrMore(&ValueKind::Text);
const WORDS: ValueKind = ValueKind::OneOrMore(&ValueKind::Scalar);

/// Configuration of a field, without its name.
#[derive(Debug)]
pub(crate) struct FieldSetting {
    pub(crate) kind: FieldType,
    /// Path to the value, and the position of the setting `from`.
    pub(crate) from: Option<(FieldPath, SourceSpan)>,
    pub(crate) missing: OnMissing,
}

/// Options of a field as configured, of all types together.
#[derive(Debug, Section)]
#[section(name = "a field", id = "field", text = "type", check_keys = Self::check_keys)]
struct FieldOptions {
    /// Type of the field. Not needed with `values`.
    #[key(name = "type")]
    type_word: Option<TypeWord>,
    /// Path to the value in the extracted object: a name, or names with dots between them.
    #[key(shown = "the field's own name")]
    from: Option<(FieldPath, SourceSpan)>,
    /// Whether the field may be missing from a response.
    optional: bool,
    /// Value of a missing field. `null` fits every type.
    default: Option<Value>,
    /// Display name, for people.
    title: Option<String>,
    /// Description, for models and people.
    description: Option<String>,
    /// Strings that mean null, such as `n/a`.
    #[key(kind = WORDS, with = read_words)]
    null_values: Vec<String>,
    /// Strings that mean true, for `boolean`.
    #[key(kind = WORDS, with = read_words, default = vec!["true".to_owned()], shown = "`[true]`")]
    true_values: Vec<String>,
    /// Strings that mean false, for `boolean`.
    #[key(kind = WORDS, with = read_words, default = vec!["false".to_owned()], shown = "`[false]`")]
    false_values: Vec<String>,
    /// Enumeration: each allowed string and its value. `"*"` matches all other strings, `"\\*"` the
    /// string `*`, and `""` an empty one.
    values: Option<Enumeration>,
    /// Whether `values` ignores case, so that `OK` matches `ok`.
    ignore_case: bool,
    /// Format of numbers, and the decimal separator of sizes.
    #[key(part)]
    number: NumberForm,
    /// Format of timestamps and dates.
    #[key(part)]
    time: TimeOptions,
    /// Unit of numbers without a unit, such as `ms` or `KiB`, for `duration` and `size`. Default `s`, `B`.
    input_unit: Option<String>,
    /// Format of durations.
    #[key(part)]
    duration: DurationForm,
    /// Format of sizes.
    #[key(part)]
    size: SizeForm,
    /// Fields of the nested object, for `object`.
    fields: Option<Fields>,
}

/// Options that only some types have: the types, and their options.
const OPTIONS_OF_TYPES: [(&[&str], &[&str]); 9] = [
    (&["boolean"], &["true_values", "false_values"]),
    (&["values"], &["ignore_case"]),
    (&["number", "integer"], &["prefix", "suffix", "thousands_separator"]),
    (&["number", "integer", "size"], &["decimal_separator"]),
    (&["date-time", "date"], &["format", "timezone"]),
    (&["duration", "size"], &["input_unit"]),
    (&["duration"], &["output_unit", "clock_format"]),
    (&["size"], &["kilo_base"]),
    (&["object"], &["fields"]),
];

/// Type names. The suffix `[]` makes a list, the suffix `?` an optional field.
pub(crate) const TYPE_NAMES: [&str; 10] =
    ["string", "number", "integer", "boolean", "date-time", "date", "duration", "size", "object", "any"];

/// Type name with its suffixes: `number`, `number?`, `number[]`, `number[]?`.
#[derive(Debug, Clone, Copy)]
pub(super) struct TypeWord {
    pub(super) name: &'static str,
    count: Multiplicity,
    optional: bool,
}

impl TypeWord {
    pub(super) fn parse(node: &Node) -> Option<Self> {
        let text = node.scalar()?;
        let word = text.strip_suffix('?').unwrap_or(&text);
        let (item, count) =
            word.strip_suffix("[]").map_or((word, Multiplicity::One), |item| (item, Multiplicity::List));
        let name = TYPE_NAMES.into_iter().find(|name| *name == item)?;
        Some(Self { name, count, optional: word != text })
    }
}

impl Setting for TypeWord {
    const KIND: ValueKind = ValueKind::FieldType;

    fn read(value: &Cursor<'_>) -> Checked<Self> {
        if let Some(word) = Self::parse(value.node) {
            return Ok(word);
        }
        let type_names = suggest::quoted_list(TYPE_NAMES);
        let message =
            format!("the type of a field must be one of {type_names}; found {}", value.node.describe());
        let word = value.node.scalar().unwrap_or_default();
        let help = suggest::nearest(word.trim_end_matches(['[', ']', '?']), TYPE_NAMES).map_or_else(
            || "add `[]` for a list, `?` for an optional field".to_owned(),
            |word| format!("did you mean `{word}`?"),
        );
        value.reject_coded(Code::UnknownValue.at_span(value.node.span), message, help)
    }
}

impl FieldOptions {
    /// Reports options that the configured type does not have.
    fn check_keys(section: &OpenSection<'_>) -> Checked<()> {
        let configured = section.entry("type").map(|entry| TypeWord::parse(&entry.value));
        let word = match (configured, section.entry("values")) {
            (None, None) => {
                return Err(section.missing("a field has no `type`".to_owned(), "write `type: number`"));
            }
            (Some(None), _) => return Ok(()),
            (Some(Some(TypeWord { name, .. })), Some(entry)) if name != "string" => {
                let message = format!("`values` defines the type, so `type: {name}` has no effect");
                let at = Code::ConflictingKeys.at_span(entry.key.span);
                return Err(section.reject_at(at, &message, "remove `type`"));
            }
            (_, Some(_)) => "values",
            (Some(Some(TypeWord { name, .. })), None) => name,
        };
        let mut checked = Ok(());
        let options = OPTIONS_OF_TYPES.into_iter().filter(|(kinds, _)| !kinds.contains(&word));
        for (kinds, name) in options.flat_map(|(kinds, names)| names.iter().map(move |name| (kinds, name))) {
            let Some(entry) = section.entry(name) else { continue };
            let kinds: Vec<_> = kinds.iter().map(|kind| format!("`{kind}`")).collect();
            let message = format!("`{name}` applies to {}, not to `{word}`", kinds.join(" or "));
            checked =
                Err(section.reject_at(Code::ConflictingKeys.at_span(entry.key.span), &message, "remove it"));
        }
        checked
    }

    fn field(self, value: &Cursor<'_>) -> Checked<FieldSetting> {
        let values_word = TypeWord { name: "values", count: Multiplicity::One, optional: false };
        let TypeWord { name, count, optional } = self.type_word.unwrap_or(values_word);
        let is_optional = optional || self.optional;
        let reject_key = |name, message: &str, help: &str| {
            let span = value.node.entry(name).map_or(value.key_span, |entry| entry.key.span);
            value.reject_coded(Code::ConflictingKeys.at_span(span), message, help)
        };
        let decimal = self.number.decimal;
        if self.number.thousands == Some(decimal) {
            let message = format!("`{decimal}` is both the thousands separator and the decimal separator");
            let help = "write `thousands_separator: \".\"` with `decimal_separator: \",\"`, or the reverse";
            return reject_key("thousands_separator", &message, help);
        }
        if let Some(values) = &self.values {
            warn_of_null_words(value, values, &self.null_values);
        }
        // Reads the unit of numbers without a unit.
        let read_unit = |default: &str, parse: &dyn Fn(&str) -> Option<i128>, help: &str| {
            let name = self.input_unit.as_deref().unwrap_or(default);
            let span = value.node.get("input_unit").map_or(value.node.span, |node| node.span);
            let at = Code::UnknownValue.at_span(span);
            parse(name).map_or_else(|| value.reject_coded(at, format!("unknown unit `{name}`"), help), Ok)
        };
        let kind = match (self.values, name) {
            (Some(values), _) => FieldKind::Values(values.into()),
            (None, "string") => FieldKind::String,
            (None, "number") => FieldKind::Number(self.number),
            (None, "integer") => FieldKind::Integer(self.number),
            (None, "boolean") => {
                let (yes, no) = (&self.true_values, &self.false_values);
                let is_no = |word: &&String| no.iter().any(|no| no.eq_ignore_ascii_case(word));
                if let Some(word) = yes.iter().find(is_no) {
                    let message = format!("`{word}` is in both `true_values` and `false_values`");
                    let at = Code::DuplicateValue.at_span(value.key_span);
                    return value.reject_coded(at, message, "remove it from one of the lists");
                }
                FieldKind::Boolean(Enumeration::from_booleans(yes, no).into())
            }
            (None, "date-time") => FieldKind::DateTime(self.time),
            (None, "date") => FieldKind::Date(self.time),
            (None, "duration") => {
                let unit_nanos = read_unit("s", &time_unit, "write `ms`, `s`, `min`, `h` or `d`")?;
                FieldKind::Duration(DurationForm { unit_nanos, ..self.duration })
            }
            (None, "size") => {
                let read = |name: &str| size_unit(name, self.size.kilo_base);
                let unit_bytes = read_unit("B", &read, "write `B`, `K`, `kB`, `KiB`, `MiB`, …")?;
                FieldKind::Size(SizeForm { unit_bytes, decimal, ..self.size })
            }
            (None, "object") => FieldKind::Object(self.fields),
            (None, _) => FieldKind::Any,
        };
        let (nulls, title, description) = (self.null_values, self.title, self.description);
        let kind = FieldType { kind, count, nulls, title, description };
        let missing = match self.default {
            Some(_) if is_optional => {
                let message = "a field with a `default` is never missing";
                return reject_key("default", message, "remove `optional`, or `?` from the type");
            }
            Some(default) => {
                check_default(value, &kind, &default)?;
                OnMissing::Default(default.into())
            }
            None if is_optional => OnMissing::Omit,
            None => OnMissing::Error,
        };
        Ok(FieldSetting { kind, from: self.from, missing })
    }
}

impl Setting for FieldSetting {
    const KIND: ValueKind = FieldOptions::KIND;

    fn read(value: &Cursor<'_>) -> Checked<Self> {
        FieldOptions::read(value)?.field(value)
    }
}

/// Warns about strings of `values` that are also in `null_values`, which makes them null.
fn warn_of_null_words(value: &Cursor<'_>, values: &Enumeration, nulls: &[String]) {
    let is_null = |word: &str| nulls.iter().any(|null| null.eq_ignore_ascii_case(word));
    let span = value.node.entry("values").map_or(value.key_span, |entry| entry.key.span);
    for (word, _) in values.words.iter().filter(|(word, _)| is_null(word)) {
        let message =
            format!("{} in `values` has no effect: `null_values` has it, too", suggest::quoted(word));
        let at = Code::DuplicateValue.at_span(span);
        value.context.report.warning(at, message, "remove one of the two");
    }
}

fn check_default(value: &Cursor<'_>, kind: &FieldType, default: &Value) -> Checked<()> {
    // Null is valid for every type: it means that there is no value.
    let schema = Schema::compile(&kind.schema()).ok().filter(|_| !default.is_null());
    let Some(violation) = schema.and_then(|schema| schema.violations(default, 1).into_iter().next()) else {
        return Ok(());
    };
    let help = match kind.count {
        Multiplicity::List => "write a list: `[…]`",
        Multiplicity::One => "write a value of the field's own type",
    };
    let span = value.node.get("default").map_or(value.node.span, |node| node.span);
    let message = format!("`default` is not a valid value of the field: it {}", violation.message);
    value.reject_at(span, Invalid::new(message, help))
}

impl Setting for Fields {
    const KIND: ValueKind = ValueKind::Map(&FieldSetting::KIND);

    fn read(value: &Cursor<'_>) -> Checked<Self> {
        /// Name of the entry that sets the type of all other fields.
        const OTHERS: &str = "*";
        let Some(entries) = value.node.as_map() else {
            let help = "write `fields: { temperature: number, conditions: string }`".to_owned();
            return value.reject_kind("a map of names and types", Some(help));
        };
        if entries.is_empty() {
            return value.reject_empty("write `fields: { temperature: number }`, or remove it");
        }
        let (mut fields, mut others, mut checked) = (Vec::new(), None, Ok(()));
        for entry in entries {
            let name = &entry.key.text;
            match FieldSetting::read(&value.member(entry, name, FieldSetting::KIND)) {
                Err(reported) => checked = Err(reported),
                Ok(FieldSetting { kind, from, missing }) if name == OTHERS => {
                    if from.is_some() || matches!(missing, OnMissing::Default(_)) {
                        let message = "`*` stands for all other fields, so it can't have `from` or `default`";
                        let at = Code::ConflictingKeys.at_span(entry.key.span);
                        checked = value.reject_coded(at, message, "remove them");
                    }
                    others = Some(Box::new(kind));
                }
                Ok(FieldSetting { kind, from, missing }) => {
                    let from = from.map_or_else(|| FieldPath::exact(name), |(path, _)| path);
                    fields.push(Field { from, missing, ..Field::new(name.clone(), kind) });
                }
            }
        }
        checked.map(|()| Self { others, ..Self::new(fields) })
    }
}

impl FromText for FieldPath {
    fn from_text(text: &str) -> Result<Self, Invalid> {
        text.parse().map_err(|error| {
            let help = "write a name, or a path such as `disk.0.size`; put a name with dots in double quotes";
            Invalid::new(format!("`from` is not a path: {error}"), help).with_code(Code::InvalidPath)
        })
    }
}

fn read_words(value: &Cursor<'_>) -> Checked<Vec<String>> {
    let name = value.name.trim_matches('`');
    let help = format!("write `{name}: [up, ok]`");
    let items = value.node.one_or_more();
    if items.is_empty() {
        return value.reject_empty(&help);
    }
    let read_word = |item: &Node| {
        let (message, help) = match (item.scalar(), &item.kind) {
            (Some(word), _) => return Ok(word),
            // YAML reads `NULL` (as databases write it), `~` and an empty value as null.
            (None, Kind::Null) => {
                (format!("`{name}` contains a YAML null"), format!("put it in quotes: `{name}: \"NULL\"`"))
            }
            (None, _) => {
                (format!("`{name}` must be a list of words, found {}", item.describe()), help.clone())
            }
        };
        value.reject_coded(Code::WrongType.at_span(item.span), message, help)
    };
    items.iter().map(read_word).collect()
}
