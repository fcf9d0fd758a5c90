//! Typed fields: conversion of an extracted object into typed values, and the output schema that describes
//! them.
//!
//! In reading order:
//!
//! - [`Fields`] lists the fields of an object.
//! - A [`Field`] has a [`FieldPath`] to its value, and a [`FieldType`].
//! - A [`FieldKind`] is the type of one value. `number` and `time` contain the types with a format.
//! - `settings` reads fields from the configuration.

mod kind;
mod number;
mod settings;
#[cfg(test)]
mod tests;
mod time;

use std::{collections::HashSet, str::FromStr};

use serde_json::{Map, Value};

pub(in crate::translate) use self::kind::{distinct, list_of, object_of};
pub(crate) use self::settings::{FieldSetting, TYPE_NAMES};
pub use self::{
    kind::{Enumeration, FieldKind, FieldType, Multiplicity},
    number::{DurationForm, NumberForm, SizeForm},
    time::{TimeFormat, TimeOptions, TimeZoneSetting},
};
use super::read_error::ReadError;
use crate::model::{admit_null, cut_characters};
use crate::settings::suggest::quoted_list;

/// Maximum length of a quoted value in an error message, in characters.
const MAX_SHOWN: usize = 60;

/// Fields of an extracted object, in order.
///
/// The result has only these fields. Other members are dropped, unless `others` has a type for them.
#[derive(Debug, Clone, PartialEq)]
pub struct Fields {
    /// Named fields, in order.
    pub list: Box<[Field]>,
    /// Type of all other members.
    pub others: Option<Box<FieldType>>,
    /// Outermost keys of the extracted object that fields use.
    outermost_keys: HashSet<String>,
}

/// One field.
#[derive(Debug, Clone, PartialEq)]
pub struct Field {
    /// Name in the result.
    pub name: String,
    /// Path in the extracted object. Default: the name of the field.
    pub from: FieldPath,
    /// Type of the value.
    pub kind: FieldType,
    /// Handling of a response without the field.
    pub missing: OnMissing,
}

/// Handling of a missing field.
#[derive(Debug, Clone, PartialEq)]
pub enum OnMissing {
    /// The response is an error.
    Error,
    /// The result does not have the field.
    Omit,
    /// The field has this value, which is of its type or null.
    Default(Box<Value>),
}

impl Field {
    /// Creates a required field that is read from the member of the same name.
    pub fn new(name: impl Into<String>, kind: FieldType) -> Self {
        let name = name.into();
        Self { from: FieldPath::exact(&name), name, kind, missing: OnMissing::Error }
    }
}

impl Fields {
    /// Creates fields in the configured order.
    pub fn new(list: Vec<Field>) -> Self {
        let keys = |field: &Field| [field.from.as_str().to_owned(), field.from.first().to_owned()];
        let outermost_keys = list.iter().flat_map(keys).collect();
        Self { list: list.into(), others: None, outermost_keys }
    }

    /// Whether a field uses this outermost key of the extracted object.
    pub(crate) fn uses_key(&self, key: &str) -> bool {
        self.outermost_keys.contains(key)
    }

    /// JSON Schema of an object with these fields.
    pub fn schema(&self) -> Map<String, Value> {
        let mut properties = Map::new();
        for field in &self.list {
            let mut schema = field.kind.schema();
            let is_null = matches!(&field.missing, OnMissing::Default(value) if value.is_null());
            // The schema of a field of type `any` has no `type`, and permits null anyway.
            if is_null && schema.contains_key("type") {
                admit_null(&mut schema);
            }
            properties.insert(field.name.clone(), Value::Object(schema));
        }
        let required = self.list.iter().filter(|field| field.missing != OnMissing::Omit);
        let mut schema = object_of(properties, required.map(|field| field.name.as_str()).collect());
        if let Some(others) = &self.others {
            schema.insert("additionalProperties".into(), Value::Object(others.schema()));
        }
        schema
    }

    /// Converts an extracted object, or each object of a list.
    ///
    /// # Errors
    ///
    /// A message with the field, the expected form and the found value.
    pub(crate) fn apply(&self, found: &Value) -> Result<Value, ReadError> {
        each_record(found, |found| match found {
            Value::Object(found) => self.apply_to_one(found).map(Value::Object),
            // XML element with text only, without attributes and children.
            Value::String(_) | Value::Null if self.uses_key(TEXT_KEY) => {
                let element = Map::from_iter([(TEXT_KEY.to_owned(), found.clone())]);
                self.apply_to_one(&element).map(Value::Object)
            }
            other => Err(read_error!("expected fields, found {}", crate::model::kind_of(other))),
        })
    }

    /// Checks that records with these member names have all required fields, regardless of their values.
    ///
    /// # Errors
    ///
    /// A message with the first missing field.
    pub(crate) fn check_names(&self, object: &Map<String, Value>) -> Result<(), ReadError> {
        let is_missing =
            |field: &&Field| field.missing == OnMissing::Error && field.from.find(object).is_none();
        match self.list.iter().find(is_missing) {
            Some(field) => Err(missing_error(field, object)),
            None => Ok(()),
        }
    }

    fn apply_to_one(&self, object: &Map<String, Value>) -> Result<Map<String, Value>, ReadError> {
        let mut typed = Map::with_capacity(self.list.len());
        for field in &self.list {
            let value = field
                .from
                .find(object)
                .filter(|value| field.missing == OnMissing::Error || !field.kind.is_missing(value));
            match (value, &field.missing) {
                (Some(value), _) => {
                    let subject = || format!("field `{}`", field.name);
                    let value = field
                        .kind
                        .apply(value)
                        .map_err(|error| error.with_subject(&subject(), &subject()))?;
                    typed.insert(field.name.clone(), value);
                }
                (None, OnMissing::Omit) => {}
                (None, OnMissing::Default(value)) => {
                    typed.insert(field.name.clone(), Value::clone(value));
                }
                (None, OnMissing::Error) => return Err(missing_error(field, object)),
            }
        }
        // Add members that no field uses, under their own names. Missing values are dropped.
        if let Some(others) = &self.others {
            let used_keys: Vec<&str> = self.list.iter().map(|field| field.from.key_in(object)).collect();
            let is_taken =
                |name: &str| used_keys.contains(&name) || self.list.iter().any(|field| field.name == name);
            for (name, value) in
                object.iter().filter(|(name, value)| !is_taken(name) && !others.is_missing(value))
            {
                let plain_subject = || format!("another field, with a name of {} bytes", name.len());
                let add_subject =
                    |error: ReadError| error.with_subject(&format!("field `{name}`"), &plain_subject());
                let value = others.apply(value).map_err(add_subject)?;
                typed.insert(name.clone(), value);
            }
        }
        Ok(typed)
    }
}

/// Converts one record, or each record of a list.
pub(crate) fn each_record(
    found: &Value,
    apply: impl Fn(&Value) -> Result<Value, ReadError>,
) -> Result<Value, ReadError> {
    let Value::Array(records) = found else { return apply(found) };
    let typed = records.iter().enumerate().map(|(index, record)| {
        apply(record).map_err(|error| error.in_part(&format!("record {}", index + 1)))
    });
    typed.collect::<Result<_, _>>().map(Value::Array)
}

fn missing_error(field: &Field, object: &Map<String, Value>) -> ReadError {
    let names = quoted_list(object.keys().map(|name| cut_characters(name, MAX_SHOWN)));
    let found = if names.is_empty() { "nothing" } else { &names };
    let expected = format!("field `{}` is missing: expected `{}` in the response", field.name, field.from);
    ReadError::new(format!("{expected}, found {found}"), expected)
}

/// Key for the text of an XML element that has attributes or children.
pub(crate) const TEXT_KEY: &str = "#text";

/// Path into nested values: `disk.0.size`.
///
/// A key that equals the whole path, including dots, takes precedence. Otherwise each part is a key of an
/// object, or an index of a list, from 0. A value that is not a list is its own item 0, because an XML
/// element that may be repeated often occurs only once. A string is its own `#text`, because an element may
/// or may not have attributes. In a longer path, a key with dots is in double quotes: `disk."a.b".size`.
#[derive(Debug, Clone, PartialEq, Eq, derive_more::Display)]
#[display("{text}")]
pub struct FieldPath {
    text: String,
    steps: Vec<String>,
}

impl FieldPath {
    /// Creates a path to exactly this key.
    pub fn exact(name: &str) -> Self {
        Self { text: name.to_owned(), steps: vec![name.to_owned()] }
    }

    /// Outermost key.
    pub fn first(&self) -> &str {
        self.steps.first().map_or(&self.text, String::as_str)
    }

    /// Outermost key that the path uses in an object.
    fn key_in(&self, object: &Map<String, Value>) -> &str {
        if object.contains_key(&self.text) { &self.text } else { self.first() }
    }

    /// The path as configured.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// The value at the path, if there is one.
    pub(crate) fn find<'v>(&self, object: &'v Map<String, Value>) -> Option<&'v Value> {
        if let Some(value) = object.get(&self.text) {
            return Some(value);
        }
        let mut steps = self.steps.iter();
        let first = object.get(steps.next()?)?;
        steps.try_fold(first, |value, step| {
            match value {
                Value::Object(members) => members.get(step),
                Value::Array(items) => step.parse::<usize>().ok().and_then(|index| items.get(index)),
                Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => None,
            }
            .or_else(|| (step == "0" && !value.is_array()).then_some(value))
            .or_else(|| (step == TEXT_KEY && (value.is_string() || value.is_null())).then_some(value))
        })
    }
}

impl FromStr for FieldPath {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, &'static str> {
        Ok(Self { text: text.to_owned(), steps: path_steps(text)? })
    }
}

/// Splits a path at its dots into names, without their quotes.
pub(in crate::translate) fn path_steps(path: &str) -> Result<Vec<String>, &'static str> {
    const QUOTES: &str = "expected `\"` at both ends of a name that is in quotes";
    let (mut steps, mut rest) = (Vec::new(), Some(path));
    while let Some(path) = rest {
        let (step, after) = match path.strip_prefix('"') {
            Some(quoted) => quoted.split_once('"').ok_or(QUOTES)?,
            None => path.split_at(path.find('.').unwrap_or(path.len())),
        };
        rest = after.strip_prefix('.');
        if rest.is_none() && !after.is_empty() {
            return Err(QUOTES);
        }
        if step.is_empty() {
            return Err("expected a path without empty names");
        }
        steps.push(step.to_owned());
    }
    Ok(steps)
}
