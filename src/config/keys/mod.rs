//! Every key of the file, once: what it is called, what it takes, what it means.
//!
//! The reader refuses keys that are not here, `schema` describes the ones that are, and a test holds that each
//! is read by somebody; so file, schema and program can't drift apart.

mod addresses;
mod ask;
mod clients;
mod content;
mod example;
mod extract;
mod field;
mod process;
mod prompt;
mod route;
mod rule;
mod server_tls;
mod shared;
mod telemetry;
mod upstream;

pub(super) use self::{
    addresses::*, ask::*, clients::*, content::*, example::*, extract::*, field::*, process::*, prompt::*,
    route::*, rule::*, server_tls::*, shared::*, telemetry::*, upstream::*,
};

/// The keys of one section of the file.
#[derive(Debug)]
pub(super) struct Keys {
    /// What it is called in messages: "`server`", "a route".
    pub(super) of: &'static str,
    /// What it is called in the JSON Schema.
    pub(super) id: &'static str,
    pub(super) list: &'static [Key],
}

/// One key.
#[derive(Debug)]
pub(super) struct Key {
    pub(super) name: &'static str,
    pub(super) takes: Takes,
    /// For people, in the schema and the reference.
    pub(super) means: &'static str,
}

/// What a key takes.
#[derive(Debug, Clone, Copy)]
pub(super) enum Takes {
    Text,
    /// One of these words.
    Word(&'static [&'static str]),
    Flag,
    /// The type of a field, with `[]` and `?` behind it or without.
    FieldType,
    /// With a unit; the least and the most, in milliseconds.
    Duration(u64, u64),
    /// With a unit; the least and the most, in bytes.
    Size(u64, u64),
    /// A whole number; the least and the most.
    Count(u64, u64),
    /// A number from 0 to 1.
    Fraction,
    /// Text, a number or a flag, taken as text.
    Scalar,
    List(&'static Self),
    /// One, or a list of them.
    OneOrMore(&'static Self),
    /// A map with names of one's own.
    Map(&'static Self),
    Section(&'static Keys),
    Either(&'static [Self]),
    /// A JSON Schema.
    JsonSchema,
    Anything,
    /// The key alone.
    Nothing,
}

use Takes::{
    Anything, Count, Duration, Either, FieldType, Flag, Fraction, JsonSchema, List, Map, Nothing, OneOrMore,
    Scalar, Section, Size, Text, Word,
};

/// In a few words.
impl std::fmt::Display for Takes {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        use crate::config::units::{show_duration, show_size};
        match self {
            Text => formatter.write_str("text"),
            Word(words) => {
                let words: Vec<_> = words.iter().map(|word| format!("`{word}`")).collect();
                formatter.write_str(&words.join(", "))
            }
            Flag => formatter.write_str("`true`, `false`"),
            FieldType => formatter.write_str("type of a field"),
            Duration(least, most) => {
                write!(formatter, "duration, `{}` to `{}`", show_duration(*least), show_duration(*most))
            }
            Size(least, most) => write!(formatter, "size, `{}` to `{}`", show_size(*least), show_size(*most)),
            Count(only, most) if only == most => write!(formatter, "`{only}`"),
            Count(least, most) => write!(formatter, "number, {least} to {most}"),
            Fraction => formatter.write_str("number, 0 to 1"),
            Scalar => formatter.write_str("text, number or flag"),
            List(item) => write!(formatter, "list of {item}"),
            OneOrMore(item) => write!(formatter, "{item}; or a list"),
            Map(value) => write!(formatter, "map of names to {value}"),
            Section(keys) => write!(formatter, "map of {}", keys.of),
            Either(kinds) => {
                let kinds: Vec<_> = kinds.iter().map(ToString::to_string).collect();
                formatter.write_str(&kinds.join("; or "))
            }
            JsonSchema => formatter.write_str("JSON Schema"),
            Anything => formatter.write_str("any value"),
            Nothing => formatter.write_str("nothing"),
        }
    }
}

impl Keys {
    pub(super) fn names(&self) -> impl Iterator<Item = &'static str> + Clone {
        self.list.iter().map(|key| key.name)
    }

    /// Whether a key is one of these, and not of the same name elsewhere.
    pub(super) fn has(&self, key: &Key) -> bool {
        self.list.iter().any(|own| std::ptr::eq(own, key))
    }

    pub(super) fn get(&self, name: &str) -> Option<&'static Key> {
        self.list.iter().find(|key| key.name == name)
    }
}

impl Key {
    /// What the key means, as a `help:` has it.
    pub(super) fn help(&self) -> String {
        let means = self.means.trim_end_matches('.');
        match means.char_indices().nth(1) {
            Some((second, _)) if means.starts_with(char::is_uppercase) => {
                format!("{}{}", means[..second].to_lowercase(), &means[second..])
            }
            _ => means.to_owned(),
        }
    }
}

const fn key(name: &'static str, takes: Takes, means: &'static str) -> Key {
    Key { name, takes, means }
}

const SECOND: u64 = 1_000;
const HOUR: u64 = 3_600 * SECOND;
const DEADLINE: Takes = Duration(1, HOUR);
const REPLY_LIMIT: Takes = Size(1, 1 << 30);
/// How the text, the code and the structure of an error are made.
const ERROR_FORM: Takes = Either(&[Text, Section(&ERROR)]);
const ERROR_TEXT_LIMIT: Takes = Size(64, 1 << 20);
const VALUE_LIMIT: Takes = Count(1, 100_000_000);
const IN_FLIGHT: Takes = Count(1, 100_000);
const ENVELOPE: Takes = Word(&["mcp", "plain"]);
const ERROR_STATUS: Takes = Word(&["truthful", "ok"]);
const ERROR_FORMAT: Takes = Word(&["text", "json"]);
const NAMES: Takes = List(&Text);
/// How many calls in how long.
const RATE_FORM: Takes = Either(&[Text, Section(&RATE)]);
/// What may be left out altogether.
const OFF: Takes = Word(&["off"]);
