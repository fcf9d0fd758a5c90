//! The tree of a file as written: every key and value with its place.

use serde_json::{Map, Value};

mod cost;
mod map;
mod syntax;
#[cfg(test)]
mod tests;
mod yaml;

pub(crate) use self::{
    cost::{Budget, Cost},
    yaml::{read, read_documents},
};
use super::source::Span;

/// One value of the file.
#[derive(Debug, Clone)]
pub(crate) struct Node {
    pub(crate) span: Span,
    pub(crate) kind: Kind,
    /// Whether it stands under a key whose name says that it is a secret.
    pub(crate) secret: bool,
}

/// What a value is.
#[derive(Debug, Clone)]
pub(crate) enum Kind {
    /// Nothing, `null` or `~`.
    Nothing,
    Flag(bool),
    /// The number as JSON writes it, so that no digit is lost.
    Number(String),
    Text(Text),
    List(Vec<Node>),
    Map(Vec<Entry>),
}

/// A text and how it was written.
#[derive(Debug, Clone)]
pub(crate) struct Text {
    pub(crate) text: String,
    pub(crate) style: Style,
}

/// How a text was written, to find its lines again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Style {
    /// In a line, without quotes or in them.
    Inline,
    /// As a block after `|`: line by line as it is.
    Literal,
    /// As a block after `>`: its lines can't be told apart any more.
    Folded,
}

/// A key and its value.
#[derive(Debug, Clone)]
pub(crate) struct Entry {
    pub(crate) key: Key,
    pub(crate) value: Node,
}

/// A key and its place.
#[derive(Debug, Clone)]
pub(crate) struct Key {
    pub(crate) text: String,
    pub(crate) span: Span,
}

impl Entry {
    /// A member that stands at one place.
    pub(crate) fn new(name: &str, value: Node, span: Span) -> Self {
        Self { key: Key { text: name.to_owned(), span }, value }
    }
}

impl Node {
    /// A value whose key says nothing of a secret.
    pub(crate) fn new(kind: Kind, span: Span) -> Self {
        Self { span, kind, secret: false }
    }

    /// A text in a line.
    pub(crate) fn of_text(text: &str, span: Span) -> Self {
        Self::new(Kind::Text(Text { text: text.to_owned(), style: Style::Inline }), span)
    }

    /// JSON, all of it at one place.
    pub(crate) fn of_json(value: &Value, span: Span) -> Self {
        let kind = match value {
            Value::Null => Kind::Nothing,
            Value::Bool(flag) => Kind::Flag(*flag),
            Value::Number(number) => Kind::Number(number.to_string()),
            Value::String(found) => return Self::of_text(found, span),
            Value::Array(items) => Kind::List(items.iter().map(|item| Self::of_json(item, span)).collect()),
            Value::Object(members) => {
                let entry =
                    |(name, value): (&String, &Value)| Entry::new(name, Self::of_json(value, span), span);
                Kind::Map(members.iter().map(entry).collect())
            }
        };
        Self::new(kind, span)
    }

    /// The value's text, when it is one.
    pub(crate) fn as_text(&self) -> Option<&str> {
        match &self.kind {
            Kind::Text(text) => Some(&text.text),
            Kind::Nothing | Kind::Flag(_) | Kind::Number(_) | Kind::List(_) | Kind::Map(_) => None,
        }
    }

    /// The digits, when it is a number.
    pub(crate) fn as_number(&self) -> Option<&str> {
        match &self.kind {
            Kind::Number(text) => Some(text),
            Kind::Nothing | Kind::Flag(_) | Kind::Text(_) | Kind::List(_) | Kind::Map(_) => None,
        }
    }

    /// The items, when it is a list.
    pub(crate) fn as_list(&self) -> Option<&[Self]> {
        match &self.kind {
            Kind::List(items) => Some(items),
            Kind::Nothing | Kind::Flag(_) | Kind::Number(_) | Kind::Text(_) | Kind::Map(_) => None,
        }
    }

    /// The items of a list, or the one value that is written in its place.
    pub(crate) fn one_or_more(&self) -> &[Self] {
        self.as_list().unwrap_or_else(|| std::slice::from_ref(self))
    }

    /// The members, when it is a map.
    pub(crate) fn as_map(&self) -> Option<&[Entry]> {
        match &self.kind {
            Kind::Map(entries) => Some(entries),
            Kind::Nothing | Kind::Flag(_) | Kind::Number(_) | Kind::Text(_) | Kind::List(_) => None,
        }
    }

    /// The entry of a key, when it is a map that has it.
    pub(crate) fn entry(&self, key: &str) -> Option<&Entry> {
        self.as_map()?.iter().find(|entry| entry.key.text == key)
    }

    /// The value of a key, when it is a map that has it.
    pub(crate) fn get(&self, key: &str) -> Option<&Self> {
        self.entry(key).map(|entry| &entry.value)
    }

    /// What a scalar says, as text: `5`, `true` and `"5"` alike.
    pub(crate) fn scalar(&self) -> Option<String> {
        match &self.kind {
            Kind::Flag(flag) => Some(flag.to_string()),
            Kind::Number(text) => Some(text.clone()),
            Kind::Text(text) => Some(text.text.clone()),
            Kind::Nothing | Kind::List(_) | Kind::Map(_) => None,
        }
    }

    /// What was found, for a message; never a secret.
    pub(crate) fn found(&self) -> String {
        const MAX_SHOWN: usize = 60;
        match &self.kind {
            Kind::Nothing => "nothing".to_owned(),
            Kind::List(_) => "a list".to_owned(),
            Kind::Map(_) => "a map".to_owned(),
            Kind::Flag(_) | Kind::Number(_) | Kind::Text(_) if self.secret => {
                "a value that is not shown".to_owned()
            }
            Kind::Flag(flag) => format!("`{flag}`"),
            Kind::Number(text) => format!("the number `{text}`"),
            Kind::Text(text) if text.text.is_empty() => "an empty text".to_owned(),
            Kind::Text(text) if text.text.chars().count() > MAX_SHOWN || text.text.contains("://") => {
                format!("a text of {} characters", text.text.chars().count())
            }
            Kind::Text(text) => format!("`{}`", text.text),
        }
    }

    /// As JSON; the text of numbers is kept.
    pub(crate) fn to_json(&self) -> Value {
        match &self.kind {
            Kind::Nothing => Value::Null,
            Kind::Flag(flag) => Value::Bool(*flag),
            Kind::Number(text) => serde_json::from_str(text).unwrap_or_else(|_| Value::String(text.clone())),
            Kind::Text(text) => Value::String(text.text.clone()),
            Kind::List(items) => items.iter().map(Self::to_json).collect(),
            Kind::Map(entries) => Value::Object(Self::entries_to_json(entries)),
        }
    }

    /// The members as JSON.
    pub(crate) fn entries_to_json(entries: &[Entry]) -> Map<String, Value> {
        entries.iter().map(|entry| (entry.key.text.clone(), entry.value.to_json())).collect()
    }

    /// The deepest value on the way that a JSON Pointer (RFC 6901) names.
    pub(crate) fn at_pointer(&self, pointer: &str) -> &Self {
        let mut node = self;
        for segment in pointer.split('/').skip(1) {
            // Undo `~1` before `~0`, or `~01` would turn into `/` (RFC 6901, section 4).
            let segment = segment.replace("~1", "/").replace("~0", "~");
            let next = match &node.kind {
                Kind::List(items) => segment.parse().ok().and_then(|index: usize| items.get(index)),
                Kind::Map(_) => node.get(&segment),
                Kind::Nothing | Kind::Flag(_) | Kind::Number(_) | Kind::Text(_) => None,
            };
            match next {
                Some(next) => node = next,
                None => break,
            }
        }
        node
    }
}

/// A plain scalar by the core schema of YAML 1.2 (section 10.3.2).
pub(crate) fn resolve_plain(text: &str) -> Kind {
    match text {
        "" | "~" | "null" | "Null" | "NULL" => Kind::Nothing,
        "true" | "True" | "TRUE" => Kind::Flag(true),
        "false" | "False" | "FALSE" => Kind::Flag(false),
        _ => match json_number(text) {
            Some(number) => Kind::Number(number),
            None => Kind::Text(Text { text: text.to_owned(), style: Style::Inline }),
        },
    }
}

/// A YAML number as JSON writes it, digit by digit.
fn json_number(text: &str) -> Option<String> {
    let radix =
        |digits: &str, radix| u128::from_str_radix(digits, radix).ok().map(|number| number.to_string());
    if let Some(digits) = text.strip_prefix("0x") {
        return radix(digits, 16).filter(|_| !digits.starts_with('+'));
    }
    if let Some(digits) = text.strip_prefix("0o") {
        return radix(digits, 8).filter(|_| !digits.starts_with('+'));
    }
    let (sign, unsigned) = match text.as_bytes().first()? {
        b'-' => ("-", &text[1..]),
        b'+' => ("", &text[1..]),
        _ => ("", text),
    };
    let (mantissa, exponent) = match unsigned.find(['e', 'E']) {
        Some(at) => (&unsigned[..at], Some(&unsigned[at + 1..])),
        None => (unsigned, None),
    };
    let (whole, fraction) = match mantissa.split_once('.') {
        Some((whole, fraction)) => (whole, Some(fraction)),
        None => (mantissa, None),
    };
    let digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    let exponent_digits = exponent.map(|text| text.strip_prefix(['+', '-']).unwrap_or(text));
    if !digits(whole)
        || !fraction.is_none_or(digits)
        || (whole.is_empty() && fraction.is_none_or(str::is_empty))
        || exponent_digits.is_some_and(|text| text.is_empty() || !digits(text))
    {
        return None;
    }
    let whole = match whole.trim_start_matches('0') {
        "" => "0",
        whole => whole,
    };
    let fraction = match fraction {
        Some("") => ".0".to_owned(),
        Some(fraction) => format!(".{fraction}"),
        None => String::new(),
    };
    let exponent = exponent.map(|text| format!("e{text}")).unwrap_or_default();
    Some(format!("{sign}{whole}{fraction}{exponent}"))
}
