//! Named fields with types: what turns what an extractor found into a typed value, and gives the output schema
//! that goes with it.
//!
//! In reading order: [`Fields`] names the fields of an object; a [`Field`] says where its value is found, by a
//! [`Path`], and what it is, by a [`FieldType`]; a type is one of the [`FieldKind`]s, each with a file of its own where
//! it reads more than a word.

mod duration;
mod kind;
mod number;
mod path;
#[cfg(test)]
mod tests;
mod time;

use std::fmt;

use serde_json::{Map, Value};

use self::kind::admit_null;
pub(crate) use self::path::TEXT_KEY;
pub use self::{
    duration::{DurationForm, ShortClock, TimeUnit},
    kind::{Count, FieldKind, FieldType, Values},
    number::{Kilo, NumberForm, SizeForm, SizeUnit},
    path::{Path, PathError},
    time::{TimeForm, TimeFormat, Zone},
};
use super::why::Why;
use crate::model::cut_characters;

/// How many characters a message shows of what was found.
const LONGEST_SHOWN: usize = 60;

/// The fields that a rule takes from what its extractor found, in order.
///
/// The result has exactly these fields; whatever else was found is left out, unless there is a type for all others.
#[derive(Debug, Clone, PartialEq)]
pub struct Fields {
    list: Box<[Field]>,
    others: Option<Box<FieldType>>,
}

/// One field.
#[derive(Debug, Clone, PartialEq)]
pub struct Field {
    /// What clients see.
    pub name: String,
    /// Where it is in what the extractor found; under its own name unless the rule says otherwise.
    pub from: Path,
    /// What it is.
    pub kind: FieldType,
    /// What becomes of a reply without it.
    pub missing: Missing,
}

/// What becomes of a reply that a field is missing from.
#[derive(Debug, Clone, PartialEq)]
pub enum Missing {
    /// It can't be read.
    IsAnError,
    /// The result does not have the field either.
    IsLeftOut,
    /// The field has this value, which is one of its type, or null.
    Gives(Box<Value>),
}

/// Why a value does not fit: where, from the outside in, and what is the matter with what stands there.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Misfit {
    place: String,
    what: String,
    /// Both without a word of the response, for the log.
    plain: (String, String),
}

impl Field {
    /// A field that must be there, under its own name.
    pub fn new(name: impl Into<String>, kind: FieldType) -> Self {
        let name = name.into();
        Self { from: Path::exact(&name), name, kind, missing: Missing::IsAnError }
    }
}

impl Fields {
    /// Fields in the order of the file.
    pub fn new(list: Vec<Field>) -> Self {
        Self { list: list.into(), others: None }
    }

    /// The same, with a type for all that is found beside them.
    #[must_use]
    pub fn with_others(mut self, others: Option<FieldType>) -> Self {
        self.others = others.map(Box::new);
        self
    }

    /// Whether what is found beside them is typed, too.
    pub(crate) fn have_others(&self) -> bool {
        self.others.is_some()
    }

    /// The fields, those that have no name of their own aside.
    pub fn iter(&self) -> impl Iterator<Item = &Field> {
        self.list.iter()
    }

    /// The JSON Schema of one object with these fields.
    pub fn schema(&self) -> Map<String, Value> {
        let mut properties = Map::new();
        for field in &self.list {
            let mut schema = field.kind.schema();
            if matches!(&field.missing, Missing::Gives(value) if value.is_null()) {
                admit_null(&mut schema);
            }
            properties.insert(field.name.clone(), Value::Object(schema));
        }
        let required: Vec<_> = self
            .list
            .iter()
            .filter(|field| field.missing != Missing::IsLeftOut)
            .map(|field| field.name.clone())
            .collect();
        let mut schema = Map::new();
        schema.insert("type".into(), "object".into());
        schema.insert("properties".into(), Value::Object(properties));
        if !required.is_empty() {
            schema.insert("required".into(), required.into());
        }
        if let Some(others) = &self.others {
            schema.insert("additionalProperties".into(), Value::Object(others.schema()));
        }
        schema
    }

    /// Types what an extractor found: an object, or an array of objects.
    ///
    /// # Errors
    ///
    /// A sentence that names the field, what was expected and what was found.
    pub(crate) fn apply(&self, found: &Value) -> Result<Value, Why> {
        each_record(found, |found| match found {
            Value::Object(found) => Ok(self.apply_to_one(found).map(Value::Object)?),
            other => Err(Why::plainly(format!("expected fields, found {}", crate::model::kind_of(other)))),
        })
    }

    /// Whether records with these names have every field that must be there, whatever its value.
    ///
    /// # Errors
    ///
    /// A sentence that names the first field without a place.
    pub(crate) fn check_names(&self, found: &Map<String, Value>) -> Result<(), Why> {
        let without =
            |field: &&Field| field.missing == Missing::IsAnError && field.from.find(found).is_none();
        match self.list.iter().find(without) {
            Some(field) => Err(missing(field, found).into()),
            None => Ok(()),
        }
    }

    fn apply_to_one(&self, found: &Map<String, Value>) -> Result<Map<String, Value>, Misfit> {
        let mut typed = Map::with_capacity(self.list.len());
        for field in &self.list {
            let place = || format!("field `{}`", field.name);
            let value = field
                .from
                .find(found)
                .filter(|value| field.missing == Missing::IsAnError || !field.kind.is_missing(value));
            match (value, &field.missing) {
                (Some(value), _) => {
                    let value = field.kind.apply(value).map_err(|misfit| misfit.under(&place()))?;
                    typed.insert(field.name.clone(), value);
                }
                (None, Missing::IsLeftOut) => {}
                (None, Missing::Gives(value)) => {
                    typed.insert(field.name.clone(), Value::clone(value));
                }
                (None, Missing::IsAnError) => return Err(missing(field, found)),
            }
        }
        if let Some(others) = &self.others {
            self.add_others(others, found, &mut typed)?;
        }
        Ok(typed)
    }

    /// What no field was taken from, under the names that it has. What stands for nothing is left out.
    fn add_others(
        &self,
        others: &FieldType,
        found: &Map<String, Value>,
        typed: &mut Map<String, Value>,
    ) -> Result<(), Misfit> {
        let is_taken =
            |name: &str| self.list.iter().any(|field| field.name == name || field.from.first() == name);
        for (name, value) in found {
            if is_taken(name) || others.is_missing(value) {
                continue;
            }
            let value = others.apply(value).map_err(|misfit| misfit.under_found(name))?;
            typed.insert(name.clone(), value);
        }
        Ok(())
    }
}

/// Types one record, or each record of a list.
pub(crate) fn each_record(found: &Value, apply: impl Fn(&Value) -> Result<Value, Why>) -> Result<Value, Why> {
    let Value::Array(records) = found else { return apply(found) };
    let typed = records
        .iter()
        .enumerate()
        .map(|(index, record)| apply(record).map_err(|why| why.under(&format!("record {}", index + 1))));
    typed.collect::<Result<_, _>>().map(Value::Array)
}

fn missing(field: &Field, found: &Map<String, Value>) -> Misfit {
    const MOST_NAMED: usize = 12;
    let mut names: Vec<_> = found
        .keys()
        .take(MOST_NAMED)
        .map(|name| format!("`{}`", cut_characters(name, LONGEST_SHOWN)))
        .collect();
    if found.len() > MOST_NAMED {
        names.push("…".into());
    }
    let found = if names.is_empty() { "nothing".to_owned() } else { names.join(", ") };
    let what = format!("is missing: expected `{}` in the reply, found {found}", field.from);
    let plain = format!("is missing: expected `{}` in the reply", field.from);
    Misfit::new(what, plain).under(&format!("field `{}`", field.name))
}

impl Misfit {
    /// `plain` says the same without a word of the response.
    fn new(what: impl Into<String>, plain: impl Into<String>) -> Self {
        Self { place: String::new(), what: what.into(), plain: (String::new(), plain.into()) }
    }

    /// `outer` has none either.
    fn under(self, outer: &str) -> Self {
        self.under_either(outer, outer)
    }

    /// Under a name that the response has.
    fn under_found(self, name: &str) -> Self {
        let plain = format!("another field, with a name of {} bytes", name.len());
        self.under_either(&format!("field `{name}`"), &plain)
    }

    fn under_either(self, outer: &str, plain_outer: &str) -> Self {
        let under = |outer: &str, place: String| match place.is_empty() {
            true => outer.to_owned(),
            false => format!("{outer}, {place}"),
        };
        let (plain_place, plain_what) = self.plain;
        let plain = (under(plain_outer, plain_place), plain_what);
        Self { place: under(outer, self.place), what: self.what, plain }
    }
}

impl From<Misfit> for Why {
    fn from(misfit: Misfit) -> Self {
        let (place, what) = &misfit.plain;
        let place = if place.is_empty() { "the value" } else { place };
        Self::new(misfit.to_string(), format!("{place} {what}"))
    }
}

impl fmt::Display for Misfit {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let place = if self.place.is_empty() { "the value" } else { &self.place };
        write!(formatter, "{place} {}", self.what)
    }
}
