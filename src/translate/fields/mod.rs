//! Named fields with types: what turns what an extractor found into a typed value, and gives the output
//! schema that goes with it.
//!
//! In reading order: [`Fields`] names the fields of an object; a [`Field`] says where its value is found, by
//! a [`Path`], and what it is, by a [`FieldType`]; a type is one of the [`FieldKind`]s, each with a file of
//! its own where it reads more than a word. `settings` reads them from a file.

mod duration;
mod kind;
mod number;
mod settings;
#[cfg(test)]
mod tests;
mod time;

use std::{collections::BTreeSet, fmt, str::FromStr};

use serde_json::{Map, Value};

use self::kind::admit_null;
pub(in crate::translate) use self::kind::{list_of, object_of};
pub(crate) use self::settings::{FieldSetting, type_names};
pub use self::{
    duration::{DurationForm, ShortClock, TimeUnit},
    kind::{Count, FieldKind, FieldType, Values},
    number::{Kilo, NumberForm, SizeForm, SizeUnit},
    time::{TimeForm, TimeFormat, Zone},
};
use super::read_error::Why;
use crate::model::cut_characters;

/// How many characters a message shows of what was found.
const LONGEST_SHOWN: usize = 60;

/// The fields that a rule takes from what its extractor found, in order.
///
/// The result has exactly these fields; whatever else was found is left out, unless there is a type for all
/// others.
#[derive(Debug, Clone, PartialEq)]
pub struct Fields {
    list: Box<[Field]>,
    others: Option<Box<FieldType>>,
    /// The keys of an extracted object that fields are in or below.
    outermost_keys: BTreeSet<String>,
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
    Error,
    /// The result does not have the field either.
    Omit,
    /// The field has this value, which is one of its type, or null.
    Default(Box<Value>),
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
        Self { from: Path::exact(&name), name, kind, missing: Missing::Error }
    }
}

impl Fields {
    /// Fields in the order of the file.
    pub fn new(list: Vec<Field>) -> Self {
        let keys = |field: &Field| [field.from.as_str().to_owned(), field.from.first().to_owned()];
        let outermost_keys = list.iter().flat_map(keys).collect();
        Self { list: list.into(), others: None, outermost_keys }
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

    /// Whether a field is in or below this key of an extracted object.
    pub(crate) fn use_key(&self, key: &str) -> bool {
        self.outermost_keys.contains(key)
    }

    /// The JSON Schema of one object with these fields.
    pub fn schema(&self) -> Map<String, Value> {
        let mut properties = Map::new();
        for field in &self.list {
            let mut schema = field.kind.schema();
            if matches!(&field.missing, Missing::Default(value) if value.is_null()) {
                admit_null(&mut schema);
            }
            properties.insert(field.name.clone(), Value::Object(schema));
        }
        let required = self.list.iter().filter(|field| field.missing != Missing::Omit);
        let mut schema = object_of(properties, required.map(|field| field.name.as_str()).collect());
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
            other => Err(why!("expected fields, found {}", crate::model::kind_of(other))),
        })
    }

    /// Whether records with these names have every field that must be there, whatever its value.
    ///
    /// # Errors
    ///
    /// A sentence that names the first field without a place.
    pub(crate) fn check_names(&self, found: &Map<String, Value>) -> Result<(), Why> {
        let without = |field: &&Field| field.missing == Missing::Error && field.from.find(found).is_none();
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
                .filter(|value| field.missing == Missing::Error || !field.kind.is_missing(value));
            match (value, &field.missing) {
                (Some(value), _) => {
                    let value = field.kind.apply(value).map_err(|misfit| misfit.under(&place()))?;
                    typed.insert(field.name.clone(), value);
                }
                (None, Missing::Omit) => {}
                (None, Missing::Default(value)) => {
                    typed.insert(field.name.clone(), Value::clone(value));
                }
                (None, Missing::Error) => return Err(missing(field, found)),
            }
        }
        // The values that no field has used, under their own names. Null values are omitted.
        if let Some(others) = &self.others {
            let is_taken =
                |name: &str| self.list.iter().any(|field| field.name == name || field.from.first() == name);
            for (name, value) in
                found.iter().filter(|(name, value)| !is_taken(name) && !others.is_missing(value))
            {
                let value = others.apply(value).map_err(|misfit| misfit.under_found(name))?;
                typed.insert(name.clone(), value);
            }
        }
        Ok(typed)
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

/// The key for the text of an XML element that has attributes or children.
pub(crate) const TEXT_KEY: &str = "#text";

/// A way into nested values: `disk.0.size`.
///
/// A key that equals the whole path, with its dots, comes first; else each part is a key of an object, or the
/// index of an item in an array, from 0. A value that is no array is its own item 0, because an element that
/// may occur several times often occurs once; and a text is its own `#text`, because an element may or may
/// not have attributes. A key with dots inside a longer path is put in double quotes: `disk."a.b".size`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Path {
    text: String,
    steps: Vec<String>,
}

/// Why a text is no path.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum PathError {
    /// Nothing between two dots, or before or after one.
    #[error("expected a name on both sides of each dot")]
    EmptyStep,
    /// A quote that nothing closes, or a name before or after a quoted one without a dot between them.
    #[error("expected `\"` at both ends of a name that is in quotes")]
    Quotes,
}

impl Path {
    /// The key of that name and no other.
    pub fn exact(name: &str) -> Self {
        Self { text: name.to_owned(), steps: vec![name.to_owned()] }
    }

    /// The name of the outermost key.
    pub fn first(&self) -> &str {
        self.steps.first().map_or(&self.text, String::as_str)
    }

    /// The path as it was written.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// The value at the path.
    pub(crate) fn find<'v>(&self, found: &'v Map<String, Value>) -> Option<&'v Value> {
        if let Some(value) = found.get(&self.text) {
            return Some(value);
        }
        let mut steps = self.steps.iter();
        let first = found.get(steps.next()?)?;
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

impl FromStr for Path {
    type Err = PathError;

    fn from_str(text: &str) -> Result<Self, PathError> {
        let mut steps = Vec::new();
        let mut rest = text;
        loop {
            let (step, after) = match rest.strip_prefix('"') {
                Some(quoted) => {
                    let (step, after) = quoted.split_once('"').ok_or(PathError::Quotes)?;
                    if !after.is_empty() && !after.starts_with('.') {
                        return Err(PathError::Quotes);
                    }
                    (step, after)
                }
                None => rest.split_at(rest.find('.').unwrap_or(rest.len())),
            };
            if step.is_empty() {
                return Err(PathError::EmptyStep);
            }
            steps.push(step.to_owned());
            match after.strip_prefix('.') {
                Some(next) => rest = next,
                None => return Ok(Self { text: text.to_owned(), steps }),
            }
        }
    }
}

impl fmt::Display for Path {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.text)
    }
}
