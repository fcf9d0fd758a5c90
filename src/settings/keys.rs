//! The keys of the sections, as data: what the reader, the JSON Schema and the reference pages are made from.

use std::{fmt, ops::RangeInclusive};

use super::units::{show_duration, show_size};

/// The keys of one section of the file.
#[derive(Debug)]
pub(crate) struct KeyTable {
    /// What messages call the section: "`server`", "a route".
    pub(crate) section: &'static str,
    /// What the section is called in the JSON Schema, and in names of environment variables.
    pub(crate) id: &'static str,
    pub(crate) short_form: ShortForm,
    /// Whether its values may be `${VARIABLE}`.
    pub(crate) expands_variables: bool,
    pub(crate) rows: &'static [Row],
}

/// What may be written in place of the section's map.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ShortForm {
    None,
    /// The key alone: every setting has a default.
    Nothing,
    /// A text: the value of this key.
    Text(&'static str),
}

/// A row of a table.
#[derive(Debug)]
pub(crate) enum Row {
    Key(KeySpec),
    /// The keys of another struct, in the same section.
    Part(fn() -> &'static KeyTable),
}

/// One key.
#[derive(Debug)]
pub(crate) struct KeySpec {
    pub(crate) name: &'static str,
    pub(crate) kind: ValueKind,
    /// Description in Markdown, for the schema and the reference; without the default where `default` is
    /// there.
    pub(crate) description: &'static str,
    /// Writes the default as the reference shows it.
    pub(crate) default: Option<fn(ValueKind) -> Option<String>>,
    /// When a change of the value takes effect; `None` in sections that are not of the process.
    pub(crate) takes_effect: Option<TakesEffect>,
    /// Whether the value is a credential.
    pub(crate) secret: bool,
    /// Whether it may be `file:/path`, whose contents are then the value.
    pub(crate) file: bool,
    /// What to write where the key is missing.
    pub(crate) example: &'static str,
    /// Keys beside which it has no effect.
    pub(crate) conflicts: &'static [&'static str],
    /// A key without which it has no effect, and the help for that.
    pub(crate) requires: Option<(&'static str, &'static str)>,
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
    /// One of these words.
    Word(&'static [&'static str]),
    Flag,
    /// The type of a field, with `[]` and `?` behind it or without.
    FieldType,
    /// Duration with a unit; the least and the most, in milliseconds.
    Duration(u64, u64),
    /// Size with a unit; the least and the most, in bytes.
    Size(u64, u64),
    /// A whole number; the least and the most.
    Count(u64, u64),
    /// A number from 0 to 1.
    Fraction,
    /// A string, number or boolean, read as a string.
    Scalar,
    List(&'static Self),
    /// One, or a list of them.
    OneOrMore(&'static Self),
    /// A map with names of the user's own.
    Map(&'static Self),
    Section(fn() -> &'static KeyTable),
    Either(&'static [Self]),
    /// A JSON Schema.
    JsonSchema,
    Anything,
    /// The key alone.
    Nothing,
}

impl KeyTable {
    /// Every key, those of parts in their place.
    pub(crate) fn keys(&self) -> Box<dyn Iterator<Item = &'static KeySpec> + '_> {
        Box::new(self.rows.iter().flat_map(|row| match row {
            Row::Key(key) => Box::new(std::iter::once(key)),
            Row::Part(part) => part().keys(),
        }))
    }

    /// Kind of the text that may stand for the whole section.
    pub(crate) fn short_kind(&self) -> Option<ValueKind> {
        let ShortForm::Text(key) = self.short_form else { return None };
        match self.get(key)?.kind {
            ValueKind::OneOrMore(item) => Some(*item),
            // A list stands for the key alone.
            ValueKind::Either([ValueKind::Text, ValueKind::List(_)]) => Some(ValueKind::Text),
            kind => Some(kind),
        }
    }

    pub(crate) fn names(&self) -> impl Iterator<Item = &'static str> + Clone + use<> {
        let names: Vec<_> = self.keys().map(|key| key.name).collect();
        names.into_iter()
    }

    pub(crate) fn get(&self, name: &str) -> Option<&'static KeySpec> {
        // Every key of a file is looked up: no iterator is boxed for it, as `keys` does.
        self.rows.iter().find_map(|row| match row {
            Row::Key(key) => (key.name == name).then_some(key),
            Row::Part(part) => part().get(name),
        })
    }
}

impl KeySpec {
    /// The description with its default, for the schema and the reference.
    pub(crate) fn full_description(&self) -> String {
        match self.default.and_then(|default| default(self.kind)) {
            // A value is in backticks or a number; all else is prose.
            Some(default) if default.starts_with(|first: char| first == '`' || first.is_ascii_digit()) => {
                format!("{} Default {default}.", self.description)
            }
            Some(default) => format!("{} Default: {default}.", self.description),
            None => self.description.to_owned(),
        }
    }

    /// The description as the `help:` of a problem.
    pub(crate) fn help(&self) -> String {
        let description = self.full_description();
        let description = description.trim_end_matches('.');
        match description.char_indices().nth(1) {
            // An abbreviation such as `HTTP` stays as it is.
            Some((second, next)) if description.starts_with(char::is_uppercase) && !next.is_uppercase() => {
                format!("{}{}", description[..second].to_lowercase(), &description[second..])
            }
            _ => description.to_owned(),
        }
    }
}

impl ValueKind {
    /// The same within a range: milliseconds of a duration, bytes of a size, or a count.
    pub(crate) const fn within(self, range: RangeInclusive<u64>) -> Self {
        let (least, most) = (*range.start(), *range.end());
        match self {
            Self::Duration(..) => Self::Duration(least, most),
            Self::Size(..) => Self::Size(least, most),
            Self::Count(..) => Self::Count(least, most),
            _ => panic!("only durations, sizes and counts have a range"),
        }
    }

    /// A number read as a size in bytes, within a range.
    pub(crate) const fn size_within(self, range: RangeInclusive<u64>) -> Self {
        match self {
            Self::Count(..) => Self::Size(*range.start(), *range.end()),
            _ => panic!("only numbers can be sizes"),
        }
    }

    /// Whether a text may stand for it.
    pub(crate) fn accepts_text(self) -> bool {
        match self {
            Self::Section(table) => matches!(table().short_form, ShortForm::Text(_)),
            Self::Either(kinds) => kinds.iter().any(|kind| kind.accepts_text()),
            Self::Text | Self::Scalar | Self::FieldType | Self::Anything => true,
            _ => false,
        }
    }
}

/// The type in a few words, for the reference and for messages.
impl fmt::Display for ValueKind {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Text => formatter.write_str("string"),
            Self::Word(words) => {
                let words: Vec<_> = words.iter().map(|word| format!("`{word}`")).collect();
                formatter.write_str(&words.join(", "))
            }
            Self::Flag => formatter.write_str("`true`, `false`"),
            Self::FieldType => formatter.write_str("type of a field"),
            Self::Duration(least, most) => {
                write!(formatter, "duration, `{}` to `{}`", show_duration(*least), show_duration(*most))
            }
            Self::Size(least, most) => {
                write!(formatter, "size, `{}` to `{}`", show_size(*least), show_size(*most))
            }
            Self::Count(only, most) if only == most => write!(formatter, "`{only}`"),
            Self::Count(least, most) => write!(formatter, "number, {least} to {most}"),
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
                if let Some(kind) = table.short_kind() {
                    write!(formatter, "{kind}; or ")?;
                }
                write!(formatter, "map of {}", table.section)?;
                let nothing = matches!(table.short_form, ShortForm::Nothing);
                formatter.write_str(if nothing { "; or null" } else { "" })
            }
            Self::Either(kinds) => {
                let kinds: Vec<_> = kinds.iter().map(ToString::to_string).collect();
                formatter.write_str(&kinds.join("; or "))
            }
            Self::JsonSchema => formatter.write_str("JSON Schema"),
            Self::Anything => formatter.write_str("any value"),
            Self::Nothing => formatter.write_str("null"),
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
            file: false,
            example: "",
            conflicts: &[],
            requires: None,
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
