//! Syntax tree of a YAML file, in which every key and value has its span.

use std::{cell::Cell, sync::LazyLock};

use regex::Regex;
use serde_json::{Map, Value};

mod syntax_errors;
#[cfg(test)]
mod tests;
mod yaml;

pub(crate) use self::yaml::{read, read_documents};
use super::{
    credential_forms::credentials_in, fixed_regex, source_text::SourceSpan, suggest::quoted,
    units::format_size,
};

/// Value in a file, with its span.
#[derive(Debug, Clone)]
pub(crate) struct Node {
    pub(crate) span: SourceSpan,
    pub(crate) kind: Kind,
    /// Whether the value is masked, because its key is declared or detected as a secret.
    pub(crate) secret: bool,
    /// Whether the value is a literal block string (`|`), whose lines are the lines of the file.
    pub(crate) is_literal: bool,
}

/// Kind of a value.
#[derive(Debug, Clone)]
pub(crate) enum Kind {
    /// Absent value, `null` or `~`.
    Null,
    Boolean(bool),
    /// Number in JSON notation; a string preserves all digits.
    Number(String),
    Text(String),
    List(Vec<Node>),
    Map(Vec<Entry>),
}

/// Key with its value.
#[derive(Debug, Clone)]
pub(crate) struct Entry {
    pub(crate) key: Key,
    pub(crate) value: Node,
}

/// Key with its span.
#[derive(Debug, Clone)]
pub(crate) struct Key {
    pub(crate) text: String,
    pub(crate) span: SourceSpan,
}

impl Entry {
    /// Creates an entry whose key has this span.
    pub(crate) fn new(name: &str, value: Node, span: SourceSpan) -> Self {
        Self { key: Key { text: name.to_owned(), span }, value }
    }
}

impl Node {
    /// Creates a value that is not marked as a secret.
    pub(crate) fn new(kind: Kind, span: SourceSpan) -> Self {
        Self { span, kind, secret: false, is_literal: false }
    }

    /// Creates a plain string.
    pub(crate) fn from_text(text: &str, span: SourceSpan) -> Self {
        Self::new(Kind::Text(text.to_owned()), span)
    }

    /// Converts JSON to a tree; all nodes have the same span.
    pub(crate) fn from_json(value: &Value, span: SourceSpan) -> Self {
        let kind = match value {
            Value::Null => Kind::Null,
            Value::Bool(flag) => Kind::Boolean(*flag),
            Value::Number(number) => Kind::Number(number.to_string()),
            Value::String(text) => return Self::from_text(text, span),
            Value::Array(items) => Kind::List(items.iter().map(|item| Self::from_json(item, span)).collect()),
            Value::Object(members) => {
                let entry =
                    |(name, value): (&String, &Value)| Entry::new(name, Self::from_json(value, span), span);
                Kind::Map(members.iter().map(entry).collect())
            }
        };
        Self::new(kind, span)
    }

    /// Returns the string, if the value is one.
    pub(crate) fn as_text(&self) -> Option<&str> {
        let Kind::Text(text) = &self.kind else { return None };
        Some(text)
    }

    /// Returns the digits, if the value is a number.
    pub(crate) fn as_number(&self) -> Option<&str> {
        let Kind::Number(text) = &self.kind else { return None };
        Some(text)
    }

    /// Returns the items, if the value is a list.
    pub(crate) fn as_list(&self) -> Option<&[Self]> {
        let Kind::List(items) = &self.kind else { return None };
        Some(items)
    }

    /// Returns the items of a list, or the value itself as the only item.
    pub(crate) fn one_or_more(&self) -> &[Self] {
        self.as_list().unwrap_or_else(|| std::slice::from_ref(self))
    }

    /// Returns the entries, if the value is a map.
    pub(crate) fn as_map(&self) -> Option<&[Entry]> {
        let Kind::Map(entries) = &self.kind else { return None };
        Some(entries)
    }

    /// Iterates over the items of a list or the values of a map.
    pub(crate) fn children(&self) -> impl Iterator<Item = &Self> {
        let (items, entries) = (self.as_list().unwrap_or_default(), self.as_map().unwrap_or_default());
        items.iter().chain(entries.iter().map(|entry| &entry.value))
    }

    /// Returns the entry of a key, if the value is a map with that key.
    pub(crate) fn entry(&self, key: &str) -> Option<&Entry> {
        self.as_map()?.iter().find(|entry| entry.key.text == key)
    }

    /// Returns the value of a key, if the value is a map with that key.
    pub(crate) fn get(&self, key: &str) -> Option<&Self> {
        self.entry(key).map(|entry| &entry.value)
    }

    /// Returns the value at the end of a path of keys, if the value is a map with these keys.
    pub(crate) fn at_path(&self, path: &[&str]) -> Option<&Self> {
        path.iter().try_fold(self, |node, key| node.get(key))
    }

    /// Returns a scalar as a string; `5` and `"5"` give the same string.
    pub(crate) fn scalar(&self) -> Option<String> {
        match &self.kind {
            Kind::Boolean(flag) => Some(flag.to_string()),
            Kind::Number(text) | Kind::Text(text) => Some(text.clone()),
            Kind::Null | Kind::List(_) | Kind::Map(_) => None,
        }
    }

    /// Describes the value for messages, without secrets.
    pub(crate) fn describe(&self) -> String {
        const MAX_SHOWN: usize = 60;
        match &self.kind {
            Kind::Null => "nothing".to_owned(),
            Kind::List(_) => "a list".to_owned(),
            Kind::Map(_) => "a map".to_owned(),
            _ if self.secret || self.as_text().is_some_and(|text| !credentials_in(text).is_empty()) => {
                "a value that is not shown".to_owned()
            }
            Kind::Boolean(flag) => format!("`{flag}`"),
            Kind::Number(text) => format!("the number `{text}`"),
            Kind::Text(text) if text.chars().count() > MAX_SHOWN || text.contains("://") => {
                format!("a string of {} characters", text.chars().count())
            }
            Kind::Text(text) => quoted(text),
        }
    }

    /// Converts the value to JSON; numbers keep all digits.
    pub(crate) fn to_json(&self) -> Value {
        match &self.kind {
            Kind::Null => Value::Null,
            Kind::Boolean(flag) => Value::Bool(*flag),
            Kind::Number(text) => serde_json::from_str(text).unwrap_or_else(|_| Value::String(text.clone())),
            Kind::Text(text) => Value::String(text.clone()),
            Kind::List(items) => items.iter().map(Self::to_json).collect(),
            Kind::Map(entries) => Value::Object(Self::entries_to_json(entries)),
        }
    }

    /// Converts entries to a JSON object.
    pub(crate) fn entries_to_json(entries: &[Entry]) -> Map<String, Value> {
        entries.iter().map(|entry| (entry.key.text.clone(), entry.value.to_json())).collect()
    }

    /// Resolves a JSON Pointer (RFC 6901) as far as the tree contains its segments; returns the last value
    /// reached.
    pub(crate) fn at_pointer(&self, pointer: &str) -> &Self {
        let mut node = self;
        for segment in pointer.split('/').skip(1) {
            // Undo `~1` before `~0`, or `~01` would turn into `/` (RFC 6901, section 4).
            let segment = segment.replace("~1", "/").replace("~0", "~");
            let item = || node.as_list()?.get(segment.parse::<usize>().ok()?);
            let Some(next) = node.get(&segment).or_else(item) else { break };
            node = next;
        }
        node
    }
}

/// Resolves a plain scalar by the YAML 1.2 core schema (section 10.3.2), but `.inf` and `.nan` are strings.
pub(crate) fn resolve_plain(text: &str) -> Kind {
    match text {
        "" | "~" | "null" | "Null" | "NULL" => Kind::Null,
        "true" | "True" | "TRUE" => Kind::Boolean(true),
        "false" | "False" | "FALSE" => Kind::Boolean(false),
        _ => match json_number(text) {
            Some(number) => Kind::Number(number),
            None => Kind::Text(text.to_owned()),
        },
    }
}

/// Converts a YAML number to JSON notation without losing digits.
fn json_number(text: &str) -> Option<String> {
    static DECIMAL: LazyLock<Regex> =
        LazyLock::new(|| fixed_regex(r"^([-+]?)([0-9]*)(?:\.([0-9]*))?(?:[eE]([-+]?[0-9]+))?$"));
    for (prefix, radix) in [("0x", 16), ("0o", 8)] {
        if let Some(digits) = text.strip_prefix(prefix).filter(|digits| !digits.starts_with('+')) {
            return u128::from_str_radix(digits, radix).ok().map(|number| number.to_string());
        }
    }
    let captures = DECIMAL.captures(text)?;
    let part = |index: usize| captures.get(index).map(|part| part.as_str());
    let fraction = part(3);
    if captures[2].is_empty() && fraction.is_none_or(str::is_empty) {
        return None;
    }
    let or_zero = |digits: &str| if digits.is_empty() { "0".to_owned() } else { digits.to_owned() };
    let (sign, whole) = (captures[1].trim_start_matches('+'), or_zero(captures[2].trim_start_matches('0')));
    let fraction = fraction.map(|digits| format!(".{}", or_zero(digits))).unwrap_or_default();
    let exponent = part(4).map(|digits| format!("e{digits}")).unwrap_or_default();
    Some(format!("{sign}{whole}{fraction}{exponent}"))
}

/// Size of a value: number of nodes, bytes of text, and depth.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct TreeSize {
    pub(crate) nodes: usize,
    pub(crate) text_bytes: usize,
    pub(crate) depth: usize,
}

impl TreeSize {
    pub(crate) fn from_node(node: &Node) -> Self {
        let keys = node.as_map().unwrap_or_default().iter().map(|entry| entry.key.text.len());
        let scalar_bytes = match &node.kind {
            Kind::Number(text) | Kind::Text(text) => text.len(),
            Kind::Null | Kind::Boolean(_) | Kind::List(_) | Kind::Map(_) => 0,
        };
        let own_bytes = scalar_bytes + keys.clone().sum::<usize>();
        let own_size = Self { nodes: 1 + keys.len(), text_bytes: own_bytes, depth: 1 };
        node.children().map(Self::from_node).fold(own_size, |sum, child| Self {
            nodes: sum.nodes + child.nodes,
            text_bytes: sum.text_bytes + child.text_bytes,
            depth: sum.depth.max(child.depth + 1),
        })
    }
}

/// Counter of values and bytes of text, with a limit for each: aliases and named rules can expand a short
/// file to a large configuration.
pub(crate) struct Budget {
    node_limit: usize,
    text_limit_bytes: usize,
    /// Values and bytes of text counted so far.
    spent: Cell<(usize, usize)>,
}

impl Budget {
    pub(crate) fn new(node_limit: usize, text_limit_bytes: usize) -> Self {
        Self { node_limit, text_limit_bytes, spent: Cell::default() }
    }

    /// Counts values and bytes of text.
    ///
    /// # Errors
    ///
    /// The limit that is exceeded, in words.
    pub(crate) fn spend(&self, nodes: usize, text_bytes: usize) -> Result<(), String> {
        let (all_nodes, all_bytes) = self.spent.get();
        self.spent.set((all_nodes.saturating_add(nodes), all_bytes.saturating_add(text_bytes)));
        self.exceeded().map_or(Ok(()), Err)
    }

    /// The limit that is exceeded, in words.
    pub(crate) fn exceeded(&self) -> Option<String> {
        let (nodes, text_bytes) = self.spent.get();
        if nodes > self.node_limit {
            return Some(format!("{} values", self.node_limit));
        }
        (text_bytes > self.text_limit_bytes).then(|| format_size(self.text_limit_bytes as u64))
    }
}
