//! The types of fields: what each reads, what it gives, and the schema of that.

use std::fmt;

use serde_json::{Map, Value, json};

use super::{
    DurationForm, Fields, LONGEST_SHOWN, Misfit, NumberForm, SizeForm, TimeForm, TimeUnit, each_record,
};
use crate::{
    model::{cut_characters, type_of},
    settings::{
        keys::ValueKind,
        section::{Checked, Cursor, Invalid, Setting},
        tree::{Kind, Node},
    },
    translate::{
        convert::{Booleans, to_boolean, to_integer, to_number},
        read_error::Why,
    },
};

/// What a value is, and what it is called for people.
///
/// Whatever the text, a value comes of it that meets [`FieldType::schema`], or an error.
#[derive(Debug, Clone, PartialEq)]
pub struct FieldType {
    /// What one value is.
    pub kind: FieldKind,
    /// How many there may be.
    pub count: Count,
    /// Words that mean null, ASCII case aside; without any, null is an error.
    pub nulls: Vec<String>,
    /// A short name, for people.
    pub title: Option<String>,
    /// What it means, for models and people.
    pub description: Option<String>,
}

/// How many values a field has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Count {
    /// One.
    #[default]
    One,
    /// A list; a single value becomes a list of one.
    List,
}

/// The type of one value.
#[derive(Debug, Clone, PartialEq)]
pub enum FieldKind {
    /// Whatever was found.
    Any,
    /// True or false, by the words that the rule names; `true` and `false` where it names none.
    Boolean(Booleans),
    /// A date.
    Date(TimeForm),
    /// A date and time.
    DateTime(TimeForm),
    /// A number of seconds or milliseconds.
    Duration(DurationForm),
    /// A whole number.
    Integer(NumberForm),
    /// Any JSON number; `.5` and `+5` are read too, since old servers write them.
    Number(NumberForm),
    /// An object: with these fields, or as it was found.
    Object(Option<Fields>),
    /// A number of bytes.
    Size(SizeForm),
    /// Text, as it was found.
    String,
    /// One of some values.
    Values(Box<Values>),
}

impl From<FieldKind> for FieldType {
    fn from(kind: FieldKind) -> Self {
        Self { kind, count: Count::One, nulls: Vec::new(), title: None, description: None }
    }
}

impl FieldType {
    /// The JSON Schema of what is given.
    pub fn schema(&self) -> Map<String, Value> {
        let mut schema = self.kind.schema();
        // A number alone does not say what it counts.
        if let Some(unit) = self.kind.unit().filter(|_| self.description.is_none()) {
            schema.insert("description".into(), unit.into());
        }
        if !self.nulls.is_empty() {
            admit_null(&mut schema);
        }
        if self.count == Count::List {
            schema = list_of(schema);
        }
        if let Some(title) = &self.title {
            schema.insert("title".into(), title.clone().into());
        }
        if let Some(description) = &self.description {
            schema.insert("description".into(), description.clone().into());
        }
        schema
    }

    /// Types what an extractor found: one value, or each of a list.
    ///
    /// # Errors
    ///
    /// A sentence that says what was expected and what was found.
    pub(crate) fn apply_to_records(&self, found: &Value) -> Result<Value, Why> {
        match self.count {
            Count::List => self.apply_to_place(found),
            Count::One => each_record(found, |found| self.apply_to_place(found)),
        }
    }

    /// Types the one value, or list of values, that stands in a place.
    pub(crate) fn apply_to_place(&self, found: &Value) -> Result<Value, Why> {
        Ok(self.apply(found)?)
    }

    /// Whether a value means that there is none: null, or an empty text for a type other than text, unless it
    /// is one of `null_values`.
    pub(super) fn is_missing(&self, value: &Value) -> bool {
        if self.is_null(value) {
            return false;
        }
        match value {
            Value::Null => true,
            Value::String(text) => {
                !matches!(self.kind, FieldKind::String | FieldKind::Any) && text.trim().is_empty()
            }
            Value::Bool(_) | Value::Number(_) | Value::Array(_) | Value::Object(_) => false,
        }
    }

    pub(super) fn apply(&self, value: &Value) -> Result<Value, Misfit> {
        match (self.count, value) {
            (Count::One, value) => self.apply_to_one(value),
            (Count::List, Value::Array(items)) => {
                let typed = items.iter().enumerate().map(|(index, item)| {
                    self.apply_to_one(item).map_err(|misfit| misfit.under(&format!("item {}", index + 1)))
                });
                typed.collect::<Result<_, _>>().map(Value::Array)
            }
            (Count::List, value) => Ok(Value::Array(vec![self.apply_to_one(value)?])),
        }
    }

    fn apply_to_one(&self, value: &Value) -> Result<Value, Misfit> {
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

/// The schema of a list of what has this schema.
pub(in crate::translate) fn list_of(schema: Map<String, Value>) -> Map<String, Value> {
    object(json!({ "type": "array", "items": schema }))
}

/// The schema of an object with these members.
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

/// A schema that is written as a value.
fn object(schema: Value) -> Map<String, Value> {
    if let Value::Object(members) = schema { members } else { Map::new() }
}

pub(super) fn admit_null(schema: &mut Map<String, Value>) {
    match schema.get_mut("type") {
        Some(Value::Array(kinds)) if !kinds.contains(&json!("null")) => kinds.push("null".into()),
        Some(kind @ Value::String(_)) if *kind != "null" => *kind = json!([kind.clone(), "null"]),
        _ => {}
    }
    if let Some(Value::Array(values)) = schema.get_mut("enum")
        && !values.contains(&Value::Null)
    {
        values.push(Value::Null);
    }
}

impl FieldKind {
    /// What the number counts, for a field that does not say it itself.
    fn unit(&self) -> Option<&'static str> {
        match self {
            Self::Duration(form) if form.gives == TimeUnit::SECOND => Some("In seconds."),
            Self::Duration(_) => Some("In milliseconds."),
            Self::Size(_) => Some("In bytes."),
            _ => None,
        }
    }

    fn schema(&self) -> Map<String, Value> {
        let schema = match self {
            Self::Any => json!({}),
            Self::Object(Some(fields)) => return fields.schema(),
            Self::Values(values) => return values.schema(),
            Self::Boolean(_) => json!({ "type": "boolean" }),
            Self::Date(_) => json!({ "type": "string", "format": "date" }),
            Self::DateTime(_) => json!({ "type": "string", "format": "date-time" }),
            Self::String => json!({ "type": "string" }),
            Self::Duration(_) | Self::Number(_) => json!({ "type": "number" }),
            Self::Integer(_) => json!({ "type": "integer" }),
            Self::Size(_) => json!({ "type": "integer", "minimum": 0 }),
            Self::Object(None) => json!({ "type": "object" }),
        };
        object(schema)
    }

    fn apply(&self, value: &Value) -> Result<Value, Misfit> {
        let text = match (self, value) {
            (Self::Any, value) => return Ok(value.clone()),
            (Self::Object(None), Value::Object(_)) => return Ok(value.clone()),
            (Self::Object(Some(fields)), Value::Object(found)) => {
                return fields.apply_to_one(found).map(Value::Object);
            }
            (Self::Number(_), Value::Number(_)) | (Self::Boolean(_), Value::Bool(_)) => {
                return Ok(value.clone());
            }
            (Self::Values(_), Value::Bool(flag)) => &flag.to_string(),
            (_, Value::String(text)) => text,
            (_, Value::Number(number)) => &number.to_string(),
            (Self::Object(_), Value::Array(_)) => return Err(self.misfit("an array", "an array")),
            (_, Value::Array(_)) => {
                return Err(Misfit::new("was found more than once", "was found more than once"));
            }
            (_, Value::Null | Value::Bool(_) | Value::Object(_)) => {
                let found = crate::model::kind_of(value);
                return Err(self.misfit(found, found));
            }
        };
        let found = || format!("`{}`", cut_characters(text, LONGEST_SHOWN));
        let plain = || format!("text of {} bytes", text.len());
        let number = |form: &NumberForm, read: fn(&str) -> Option<Value>| match value {
            // A number of JSON has no unit and no thousands.
            Value::Number(_) => read(text),
            _ => form.plain(text).and_then(|plain| read(&plain)),
        };
        let expected = |expected: &str| {
            let what = |found: String| format!("must be {expected}; found {found}");
            Misfit::new(what(found()), what(plain()))
        };
        let typed = match self {
            Self::String => Some(Value::String(text.clone())),
            Self::Number(form) => number(form, to_number),
            Self::Integer(form) => number(form, to_integer),
            Self::Boolean(words) => to_boolean(text, words),
            Self::Values(values) => values.read(text),
            Self::Date(form) => return form.date(text).map(Value::String).map_err(|error| expected(&error)),
            Self::DateTime(form) => {
                return form.date_time(text).map(Value::String).map_err(|error| expected(&error));
            }
            Self::Duration(form) => return form.read(text).map_err(expected),
            Self::Size(form) => return form.read(text).map_err(expected),
            Self::Any | Self::Object(_) => None,
        };
        typed.ok_or_else(|| self.misfit(&found(), &plain()))
    }

    /// `plain` is what was found, without a word of it.
    fn misfit(&self, found: &str, plain: &str) -> Misfit {
        let expected = match self {
            Self::Any => "a value",
            Self::Boolean(words) => &words.to_string(),
            Self::Date(_) => "a date",
            Self::DateTime(_) => "a date and time",
            Self::Duration(_) => "a duration",
            Self::Integer(_) => "an integer",
            Self::Number(_) => "a number",
            Self::Object(_) => "an object",
            Self::Size(_) => "a size",
            Self::String => "a string",
            Self::Values(values) => &values.to_string(),
        };
        let what = |found: &str| format!("must be {expected}; found {found}");
        Misfit::new(what(found), what(plain))
    }
}

/// The words that a field may have, and the value that each stands for.
#[derive(Debug, Clone, PartialEq)]
pub struct Values {
    /// Words and their values: texts, numbers, `true`, `false` or null.
    pub words: Vec<(String, Value)>,
    /// The value of every other word; without it another word is an error.
    pub rest: Option<Value>,
    /// Whether ASCII letters are the same in either case.
    pub ignore_case: bool,
}

impl Values {
    pub(super) fn read(&self, text: &str) -> Option<Value> {
        let text = text.trim();
        let same = |word: &str| {
            if self.ignore_case { word.eq_ignore_ascii_case(text) } else { word == text }
        };
        let known = self.words.iter().find(|(word, _)| same(word)).map(|(_, value)| value);
        known.or(self.rest.as_ref()).cloned()
    }

    fn schema(&self) -> Map<String, Value> {
        let mut values: Vec<&Value> = Vec::new();
        for value in self.words.iter().map(|(_, value)| value).chain(&self.rest) {
            if !values.contains(&value) {
                values.push(value);
            }
        }
        let mut kinds: Vec<&str> = Vec::new();
        for kind in values.iter().map(|value| type_of(value)) {
            if !kinds.contains(&kind) {
                kinds.push(kind);
            }
        }
        let kinds: Value = if let [kind] = kinds[..] { kind.into() } else { kinds.into() };
        object(json!({ "type": kinds, "enum": values }))
    }
}

impl fmt::Display for Values {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        const MOST_LISTED: usize = 20;
        let mut words: Vec<_> =
            self.words.iter().take(MOST_LISTED).map(|(word, _)| format!("`{word}`")).collect();
        if self.words.len() > MOST_LISTED {
            words.push("…".into());
        }
        write!(formatter, "one of {}", words.join(", "))
    }
}

impl Setting for Values {
    const KIND: ValueKind = ValueKind::Either(&[
        ValueKind::Map(&ValueKind::Either(&[ValueKind::Scalar, ValueKind::Nothing])),
        ValueKind::List(&ValueKind::Scalar),
    ]);

    fn read(value: &Cursor<'_>) -> Checked<Self> {
        const REST: &str = "*";
        let (mut words, mut rest) = (Vec::new(), None);
        let reject = |node: &Node| {
            let message =
                format!("a value is a text, a number, `true`, `false` or null, found {}", node.found());
            value.reject_at(node.span, Invalid::new(message, "write `values: { OK: up, CRIT: down }`"))
        };
        for entry in value.node.as_map().unwrap_or_default() {
            if matches!(entry.value.kind, Kind::List(_) | Kind::Map(_)) {
                return reject(&entry.value);
            }
            match entry.key.text.as_str() {
                REST => rest = Some(entry.value.to_json()),
                word => words.push((word.trim().to_owned(), entry.value.to_json())),
            }
        }
        for item in value.node.as_list().unwrap_or_default() {
            let Some(word) = item.scalar() else { return reject(item) };
            words.push((word.trim().to_owned(), Value::String(word.trim().to_owned())));
        }
        if words.is_empty() {
            let message = format!("`values` takes words and what each means, found {}", value.node.found());
            let help = "write `values: { OK: up, CRIT: down }`, or `values: [up, down]`";
            return value.reject(Invalid::new(message, help));
        }
        let ignore_case =
            value.sibling("ignore_case").is_some_and(|node| matches!(node.kind, Kind::Flag(true)));
        Ok(Self { words, rest, ignore_case })
    }
}
