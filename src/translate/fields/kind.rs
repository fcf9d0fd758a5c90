//! Types of fields: conversion of a value, and JSON Schema of the result.

use std::{collections::HashMap, fmt};

use serde_json::{Map, Value, json};

use super::number::ResultUnit;
use super::{DurationForm, Fields, MAX_SHOWN, NumberForm, SizeForm, TimeOptions};
use crate::model::{admit_null, object_without_nones, type_of};
use crate::settings::suggest::{quoted, quoted_list};
use crate::settings::{Checked, Code, Cursor, Entry, Kind, Setting, SourceSpan, ValueKind};
use crate::translate::convert::{to_integer, to_number};
use crate::translate::read_error::ReadError;

/// Type of a field, with its title and description.
///
/// Converts an extracted value to one that satisfies [`FieldType::schema`], or returns an error.
#[derive(Debug, Clone, PartialEq)]
pub struct FieldType {
    /// Type of one value.
    pub kind: FieldKind,
    /// One value or a list.
    pub count: Multiplicity,
    /// Strings and numbers that mean null, regardless of ASCII case. If empty, null is an error, except for
    /// [`FieldKind::Any`].
    pub nulls: Vec<String>,
    /// Title, for people.
    pub title: Option<String>,
    /// Description, for models and people.
    pub description: Option<String>,
}

/// Number of values of a field.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Multiplicity {
    /// One.
    One,
    /// A list; a single value becomes a list of one.
    List,
}

/// Type of one value.
#[derive(Debug, Clone, PartialEq)]
pub enum FieldKind {
    /// Any value, unchanged.
    Any,
    /// Boolean, from the configured strings; `true` and `false` by default.
    Boolean(Box<Enumeration>),
    /// Date in the format `YYYY-MM-DD`.
    Date(TimeOptions),
    /// Timestamp in the format of RFC 3339.
    DateTime(TimeOptions),
    /// Duration, as a number of seconds or milliseconds.
    Duration(DurationForm),
    /// Integer; `5.0` is one, as in JSON Schema.
    Integer(NumberForm),
    /// Any JSON number; also accepts `.5` and `+5`, which old servers write.
    Number(NumberForm),
    /// Object with these fields; without fields, the object is unchanged.
    Object(Option<Fields>),
    /// Size, as a number of bytes.
    Size(SizeForm),
    /// String, unchanged. A JSON number becomes a string.
    String,
    /// Enumeration: each allowed string has a value.
    Values(Box<Enumeration>),
}

impl From<FieldKind> for FieldType {
    fn from(kind: FieldKind) -> Self {
        Self { kind, count: Multiplicity::One, nulls: Vec::new(), title: None, description: None }
    }
}

impl FieldType {
    /// JSON Schema of the converted value.
    pub fn schema(&self) -> Map<String, Value> {
        let mut schema = object(self.kind.name_and_schema().1);
        // A configured description replaces the description of the type, which names the unit of a number.
        if self.description.is_some() {
            schema.shift_remove("description");
        }
        if !self.nulls.is_empty() {
            admit_null(&mut schema);
        }
        if self.count == Multiplicity::List {
            schema = list_of(schema);
        }
        let texts = [("title", &self.title), ("description", &self.description)];
        schema.extend(object_without_nones(texts.map(|(key, text)| (key, text.clone().map(Value::from)))));
        schema
    }

    /// Whether a value counts as missing: null, or a blank string if the type is neither `string` nor `any`.
    /// A value in `null_values` is not missing, nor is a blank string if `values` contains an empty one.
    pub(super) fn is_missing(&self, value: &Value) -> bool {
        if self.is_null(value) {
            return false;
        }
        match value {
            Value::Null => true,
            Value::String(text) => match &self.kind {
                FieldKind::String | FieldKind::Any => false,
                FieldKind::Values(values) if values.words.iter().any(|(word, _)| word.is_empty()) => false,
                _ => text.trim().is_empty(),
            },
            Value::Bool(_) | Value::Number(_) | Value::Array(_) | Value::Object(_) => false,
        }
    }

    /// Converts one value, or the list of values of one field.
    ///
    /// # Errors
    ///
    /// A message with the expected form and the found value.
    pub(crate) fn apply(&self, value: &Value) -> Result<Value, ReadError> {
        match (self.count, value) {
            (Multiplicity::One, value) => self.apply_to_one(value),
            (Multiplicity::List, Value::Array(items)) => {
                let typed = items.iter().enumerate().map(|(index, item)| {
                    let subject = || format!("item {}", index + 1);
                    self.apply_to_one(item).map_err(|error| error.with_subject(&subject(), &subject()))
                });
                typed.collect::<Result<_, _>>().map(Value::Array)
            }
            (Multiplicity::List, value) => Ok(Value::Array(vec![self.apply_to_one(value)?])),
        }
    }

    fn apply_to_one(&self, value: &Value) -> Result<Value, ReadError> {
        if self.is_null(value) { Ok(Value::Null) } else { self.kind.apply(value) }
    }

    fn is_null(&self, value: &Value) -> bool {
        match value {
            Value::Null => !self.nulls.is_empty(),
            Value::String(text) => self.nulls.iter().any(|word| word.eq_ignore_ascii_case(text.trim())),
            Value::Number(number) => self.nulls.iter().any(|word| *word == number.to_string()),
            Value::Bool(_) | Value::Array(_) | Value::Object(_) => false,
        }
    }
}

/// JSON Schema of a list whose items have this schema.
pub(in crate::translate) fn list_of(schema: Map<String, Value>) -> Map<String, Value> {
    object(json!({ "type": "array", "items": schema }))
}

/// JSON Schema of an object with these members.
pub(in crate::translate) fn object_of(
    properties: Map<String, Value>,
    required: Vec<&str>,
) -> Map<String, Value> {
    let mut schema = object(json!({ "type": "object", "properties": properties }));
    if !required.is_empty() {
        schema.insert("required".into(), required.into());
    }
    schema
}

/// Returns the members of a JSON object.
fn object(schema: Value) -> Map<String, Value> {
    if let Value::Object(members) = schema { members } else { Map::new() }
}

impl FieldKind {
    fn apply(&self, value: &Value) -> Result<Value, ReadError> {
        let name = || self.name_and_schema().0;
        let text = match (self, value) {
            (Self::Object(Some(fields)), Value::Object(found)) => {
                return fields.apply_to_one(found).map(Value::Object);
            }
            (Self::Any, _)
            | (Self::Object(None), Value::Object(_))
            | (Self::Number(_), Value::Number(_))
            | (Self::Boolean(_), Value::Bool(_)) => return Ok(value.clone()),
            (Self::Values(_), Value::Bool(flag)) => &flag.to_string(),
            (_, Value::String(text)) => text,
            (_, Value::Number(number)) => &number.to_string(),
            (Self::Object(_), Value::Array(_)) | (_, Value::Null | Value::Bool(_) | Value::Object(_)) => {
                let found = crate::model::kind_of(value);
                return Err(read_error!("the value must be {}; found {found}", name()));
            }
            (_, Value::Array(_)) => {
                return Err(read_error!("the value must be {}; found a list of values", name()));
            }
        };
        let number = |form: &NumberForm, read: fn(&str) -> Option<Value>| match value {
            // A JSON number has no unit and no thousands separators.
            Value::Number(_) => read(text),
            _ => form.plain(text).and_then(|plain| read(&plain)),
        };
        let typed = match self {
            Self::String => Ok(Value::String(text.clone())),
            Self::Number(form) => number(form, to_number).ok_or_else(name),
            Self::Integer(form) => number(form, to_integer).ok_or_else(name),
            Self::Boolean(values) | Self::Values(values) => values.read(text).ok_or_else(name),
            Self::Date(form) => form.date(text).map(Value::String),
            Self::DateTime(form) => form.date_time(text).map(Value::String),
            Self::Duration(form) => form.read(text).map_err(str::to_owned),
            Self::Size(form) => form.read(text).ok_or_else(|| SizeForm::EXPECTED.to_owned()),
            Self::Any | Self::Object(_) => Err(name()),
        };
        typed.map_err(|expected| {
            ReadError::with_quote(MAX_SHOWN, &format!("the value must be {expected}; found "), text)
        })
    }

    /// Name of the expected value, for error messages, and its JSON Schema.
    fn name_and_schema(&self) -> (String, Value) {
        let (name, schema) = match self {
            Self::Any => ("a value", json!({})),
            Self::Boolean(words) => return (words.to_string(), json!({ "type": "boolean" })),
            Self::Date(_) => ("a date", json!({ "type": "string", "format": "date" })),
            Self::DateTime(_) => ("a date and time", json!({ "type": "string", "format": "date-time" })),
            Self::Duration(form) => {
                let unit =
                    if form.output_unit == ResultUnit::Seconds { "In seconds." } else { "In milliseconds." };
                ("a duration", json!({ "type": "number", "description": unit }))
            }
            Self::Integer(_) => ("an integer", json!({ "type": "integer" })),
            Self::Number(_) => ("a number", json!({ "type": "number" })),
            Self::Object(None) => ("an object", json!({ "type": "object" })),
            Self::Object(Some(fields)) => ("an object", fields.schema().into()),
            Self::Size(_) => {
                ("a size", json!({ "type": "integer", "minimum": 0, "description": "In bytes." }))
            }
            Self::String => ("a string", json!({ "type": "string" })),
            Self::Values(values) => return (values.to_string(), values.schema()),
        };
        (name.to_owned(), schema)
    }
}

/// Enumeration: the allowed strings and their values.
#[derive(Debug, Clone, PartialEq)]
pub struct Enumeration {
    /// Allowed strings. The value of each is a string, a number, `true`, `false` or null.
    pub words: Vec<(String, Value)>,
    /// Value of all other strings; `None` if another string is an error.
    pub rest: Option<Value>,
    /// Whether the strings match regardless of ASCII case.
    pub ignore_case: bool,
}

impl Enumeration {
    /// Creates the enumeration of a boolean from the strings for true and for false. It ignores case.
    pub fn from_booleans(yes: &[String], no: &[String]) -> Self {
        let pairs = yes.iter().map(|word| (word, true)).chain(no.iter().map(|word| (word, false)));
        let words = pairs.map(|(word, flag)| (word.clone(), flag.into())).collect();
        Self { words, rest: None, ignore_case: true }
    }

    pub(super) fn read(&self, text: &str) -> Option<Value> {
        let text = text.trim();
        let is_same = |word: &str| {
            if self.ignore_case { word.eq_ignore_ascii_case(text) } else { word == text }
        };
        let listed_value = self.words.iter().find(|(word, _)| is_same(word)).map(|(_, value)| value);
        listed_value.or(self.rest.as_ref()).cloned()
    }

    fn schema(&self) -> Value {
        let values = distinct(self.words.iter().map(|(_, value)| value).chain(&self.rest), usize::MAX);
        let kinds = distinct(values.iter().map(|value| type_of(value)), usize::MAX);
        let kinds: Value = if let [kind] = kinds[..] { kind.into() } else { kinds.into() };
        json!({ "type": kinds, "enum": values })
    }
}

/// Returns the first `max` distinct items, in order.
pub(in crate::translate) fn distinct<T: PartialEq>(items: impl Iterator<Item = T>, max: usize) -> Vec<T> {
    let mut distinct = Vec::new();
    for item in items {
        if distinct.len() < max && !distinct.contains(&item) {
            distinct.push(item);
        }
    }
    distinct
}

impl fmt::Display for Enumeration {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let one_of = if self.words.len() == 1 { "" } else { "one of " };
        let words = quoted_list(self.words.iter().map(|(word, _)| word));
        write!(formatter, "{one_of}{words}")
    }
}

impl Setting for Enumeration {
    const KIND: ValueKind = ValueKind::Either(&[
        ValueKind::Map(&ValueKind::Either(&[ValueKind::Scalar, ValueKind::Null])),
        ValueKind::List(&ValueKind::Scalar),
    ]);

    fn read(value: &Cursor<'_>) -> Checked<Self> {
        const REST: &str = "*";
        /// Escaped form of the string `*`.
        const STAR: &str = r"\*";
        const HELP: &str = "write `values: { OK: up, CRIT: down }`, or `values: [up, down]`";
        let entries = value.node.as_map().unwrap_or_default();
        let items = value.node.as_list().unwrap_or_default();
        let nodes = entries.iter().map(|entry| &entry.value);
        let mut nested = nodes.filter(|node| matches!(node.kind, Kind::List(_) | Kind::Map(_)));
        if let Some(node) = nested.next().or_else(|| items.iter().find(|item| item.scalar().is_none())) {
            let found = node.describe();
            let message =
                format!("a value must be a string, a number, `true`, `false` or null, found {found}");
            return value.reject_coded(Code::WrongType.at_span(node.span), message, HELP);
        }
        let ignore_case =
            value.sibling("ignore_case").is_some_and(|node| matches!(node.kind, Kind::Boolean(true)));
        let (mut words, mut rest, mut first_indexes) = (Vec::new(), None, HashMap::new());
        let mut add = |word: &str, meaning: Value, span: SourceSpan| {
            let compared = if ignore_case { word.to_ascii_lowercase() } else { word.to_owned() };
            let index = words.len();
            let first = *first_indexes.entry(compared).or_insert(index);
            words.push((word.to_owned(), meaning));
            if first < index {
                let (word, first) = (quoted(word), quoted(&words[first].0));
                let message = format!("{word} has no effect: `values` has {first} before it");
                let at = Code::DuplicateValue.at_span(span);
                value.context.report.warning(at, message, "remove one of the two");
            }
        };
        for Entry { key, value: node, .. } in entries {
            match key.text.as_str() {
                REST => rest = Some(node.to_json()),
                STAR => add(REST, node.to_json(), key.span),
                word => add(word.trim(), node.to_json(), key.span),
            }
        }
        for item in items {
            let word = item.scalar().unwrap_or_default();
            add(word.trim(), word.trim().into(), item.span);
        }
        if words.is_empty() {
            let expected = "a map from words to values, or a list of words";
            return value.reject_kind(expected, Some(HELP.to_owned()));
        }
        Ok(Self { words, rest, ignore_case })
    }
}
