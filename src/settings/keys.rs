//! Key tables of the sections, which the parser, the JSON Schema and the reference pages are based on.

use std::{fmt, ops::RangeInclusive};

use super::units::{format_duration, format_size};

/// Keys of one section of the configuration file.
#[derive(Debug)]
pub(crate) struct KeyTable {
    /// Name of the section in messages: "`server`", "a route".
    pub(crate) section: &'static str,
    /// Identifier of the section in the JSON Schema and in names of environment variables.
    pub(crate) id: &'static str,
    pub(crate) short_form: ShortForm,
    /// Whether `${VARIABLE}` is expanded in the values of the section.
    pub(crate) expands_variables: bool,
    /// Whether values of unknown keys are masked, because an unknown key may be a misspelled secret.
    pub(crate) masks_unknown_keys: bool,
    pub(crate) rows: &'static [Row],
}

/// Short form that is accepted in place of the section's map.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ShortForm {
    None,
    /// The key without a value: every setting of the section has a default.
    Null,
    /// A string, taken as the value of the key named here.
    Text(&'static str),
}

/// Row of a [`KeyTable`].
#[derive(Debug)]
pub(crate) enum Row {
    Key(KeySpec),
    /// Keys of another struct that are in the same section (`flatten` of serde).
    Part(fn() -> &'static KeyTable),
}

/// Declaration of one key.
#[derive(Debug)]
pub(crate) struct KeySpec {
    pub(crate) name: &'static str,
    pub(crate) kind: ValueKind,
    /// Description in Markdown, for the schema and the reference. The default value is appended if `default`
    /// is set.
    pub(crate) description: &'static str,
    /// Formats the default value for the reference.
    pub(crate) default: Option<fn(ValueKind) -> Option<String>>,
    /// When a change of the value takes effect; `None` if the section has no process settings.
    pub(crate) takes_effect: Option<TakesEffect>,
    /// Whether the value is a credential.
    pub(crate) secret: bool,
    pub(crate) masking: Masking,
    /// Whether `file:/path` is accepted as a reference to a file that contains the value.
    pub(crate) file: bool,
    /// Example value, shown in the error if the key is missing.
    pub(crate) example: &'static str,
    /// Names of keys that conflict with the key, separated by commas: `a, b`.
    pub(crate) conflicts: &'static str,
    /// Names of keys, separated by commas. At least one of them must be set as well.
    pub(crate) requires: Option<&'static str>,
    /// Help for an error about `requires`, or else about `conflicts`; empty for the default.
    pub(crate) own_help: &'static str,
}

/// Parts of a value that are masked in messages and in the printed configuration.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Masking {
    /// The whole value.
    Always,
    /// Values with user-defined names (such as headers), if the name looks like the name of a credential.
    ByName,
    /// Nothing: user-defined names in the value, for example names of fields, are not names of credentials.
    Never,
}

/// When a change of a process setting takes effect.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TakesEffect {
    OnReload,
    OnRestart,
}

/// Kind of value that a key accepts.
#[derive(Debug, Clone, Copy)]
pub(crate) enum ValueKind {
    Text,
    /// One of the listed values (enumeration).
    Enum(&'static [&'static str]),
    Boolean,
    /// Type of an extracted field, such as `number`, with the optional suffixes `[]` and `?`.
    FieldType,
    /// Duration with a unit; minimum and maximum in milliseconds.
    Duration(u64, u64),
    /// Size with a unit; minimum and maximum in bytes.
    Size(u64, u64),
    /// Whole number; minimum and maximum.
    Count(u64, u64),
    /// Number from 0 to 1.
    Fraction,
    /// String, number or boolean, converted to a string.
    Scalar,
    List(&'static Self),
    /// One value, or a list of values.
    OneOrMore(&'static Self),
    /// Map with user-defined keys.
    Map(&'static Self),
    Section(fn() -> &'static KeyTable),
    Either(&'static [Self]),
    /// A JSON Schema.
    JsonSchema,
    Anything,
    /// The key without a value.
    Null,
}

impl KeyTable {
    /// Returns all keys in order, including the keys of each [`Row::Part`].
    pub(crate) fn keys(&self) -> Box<dyn Iterator<Item = &'static KeySpec> + '_> {
        Box::new(self.rows.iter().flat_map(|row| match row {
            Row::Key(key) => Box::new(std::iter::once(key)),
            Row::Part(part) => part().keys(),
        }))
    }

    /// Kind of the scalar that is accepted as the short form of the section.
    pub(crate) fn short_kind(&self) -> Option<ValueKind> {
        let ShortForm::Text(key) = self.short_form else { return None };
        match self.get(key)?.kind {
            ValueKind::OneOrMore(item) => Some(*item),
            // A list has no short form: it needs the key.
            ValueKind::Either([ValueKind::Text, ValueKind::List(_)]) => Some(ValueKind::Text),
            kind => Some(kind),
        }
    }

    pub(crate) fn names(&self) -> impl Iterator<Item = &'static str> + Clone + use<> {
        let names: Vec<_> = self.keys().map(|key| key.name).collect();
        names.into_iter()
    }

    pub(crate) fn get(&self, name: &str) -> Option<&'static KeySpec> {
        self.keys().find(|key| key.name == name)
    }
}

impl KeySpec {
    /// Description with the default value, for the schema and the reference.
    pub(crate) fn full_description(&self) -> String {
        let default = self.default.and_then(|default| default(self.kind));
        let Some(default) = default else { return self.description.to_owned() };
        // A default in words is appended after a colon. A number or a default in backticks is not.
        let is_prose = !default.starts_with(|first: char| first == '`' || first.is_ascii_digit());
        format!("{} Default{} {default}.", self.description, if is_prose { ":" } else { "" })
    }

    /// Formats the description as the help of a problem.
    pub(crate) fn help(&self) -> String {
        let description = self.full_description();
        let description = description.trim_end_matches('.');
        match description.char_indices().nth(1) {
            // An abbreviation such as `HTTP` keeps its capitals.
            Some((second, next)) if description.starts_with(char::is_uppercase) && !next.is_uppercase() => {
                format!("{}{}", description[..second].to_lowercase(), &description[second..])
            }
            _ => description.to_owned(),
        }
    }
}

impl ValueKind {
    /// Restricts a duration (in milliseconds) or a count to a range.
    pub(crate) const fn within(self, range: RangeInclusive<u64>) -> Self {
        let (min, max) = (*range.start(), *range.end());
        match self {
            Self::Duration(..) => Self::Duration(min, max),
            Self::Count(..) => Self::Count(min, max),
            _ => panic!("only durations and counts have a range"),
        }
    }

    /// Converts a count to a size in bytes, within a range.
    pub(crate) const fn size_within(self, range: RangeInclusive<u64>) -> Self {
        match self {
            Self::Count(..) => Self::Size(*range.start(), *range.end()),
            _ => panic!("only numbers can be sizes"),
        }
    }
}

/// Short name of the type, for the reference and for messages.
impl fmt::Display for ValueKind {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Text => formatter.write_str("string"),
            Self::Enum(values) => formatter
                .write_str(&values.iter().map(|value| format!("`{value}`")).collect::<Vec<_>>().join(", ")),
            Self::Boolean => formatter.write_str("`true`, `false`"),
            Self::FieldType => formatter.write_str("type of a field"),
            Self::Duration(min, max) => {
                write!(formatter, "duration, `{}` to `{}`", format_duration(*min), format_duration(*max))
            }
            Self::Size(min, max) => {
                write!(formatter, "size, `{}` to `{}`", format_size(*min), format_size(*max))
            }
            Self::Count(only, max) if only == max => write!(formatter, "`{only}`"),
            Self::Count(min, max) => write!(formatter, "number, {min} to {max}"),
            Self::Fraction => formatter.write_str("number, 0 to 1"),
            Self::Scalar => formatter.write_str("string, number or boolean"),
            Self::List(item) => write!(formatter, "list of {item}"),
            Self::OneOrMore(item) => write!(formatter, "{item}; or a list"),
            Self::Map(value) => match value.to_string() {
                value if value.contains("map of ") || value.contains(';') => {
                    write!(formatter, "map of ({value})")
                }
                value => write!(formatter, "map of {value}"),
            },
            Self::Section(table) => {
                let table = table();
                let short = table.short_kind().map(|kind| format!("{kind}; or ")).unwrap_or_default();
                let null = if matches!(table.short_form, ShortForm::Null) { "; or null" } else { "" };
                write!(formatter, "{short}map of {}{null}", table.section)
            }
            Self::Either(kinds) => {
                formatter.write_str(&kinds.iter().map(ToString::to_string).collect::<Vec<_>>().join("; or "))
            }
            Self::JsonSchema => formatter.write_str("JSON Schema"),
            Self::Anything => formatter.write_str("any value"),
            Self::Null => formatter.write_str("null"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn help(description: &'static str) -> String {
        let key = KeySpec {
            name: "a",
            kind: ValueKind::Text,
            description,
            default: None,
            takes_effect: None,
            secret: false,
            masking: Masking::ByName,
            file: false,
            example: "",
            conflicts: "",
            requires: None,
            own_help: "",
        };
        key.help()
    }

    #[test]
    fn a_description_as_help_keeps_an_abbreviation() {
        assert_eq!(help("Prefix of each name."), "prefix of each name");
        assert_eq!(help("A template."), "a template");
        assert_eq!(help("HTTP status of tool errors."), "HTTP status of tool errors");
    }

    #[test]
    fn the_values_of_a_map_are_in_parentheses_where_they_have_parts() {
        const EITHER: ValueKind = ValueKind::Either(&[ValueKind::Text, ValueKind::Count(1, 9)]);
        assert_eq!(ValueKind::Map(&ValueKind::Scalar).to_string(), "map of string, number or boolean");
        assert_eq!(ValueKind::Map(&EITHER).to_string(), "map of (string; or number, 1 to 9)");
    }
}
