//! Named fields with types: what turns the strings of an extractor into a typed object, and gives the output
//! schema that goes with it.

use serde_json::{Map, Value, json};

use super::convert::{Booleans, to_boolean, to_integer, to_number};

/// The fields that a rule takes from what its extractor found, in order.
///
/// The result has exactly these fields; whatever else was found is left out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fields(Vec<Field>);

/// One field.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Field {
    /// What clients see.
    pub name: String,
    /// What the extractor calls it; the name itself unless the rule says otherwise.
    pub from: String,
    /// The type.
    pub kind: FieldKind,
    /// Whether it may be missing from a reply.
    pub optional: bool,
}

/// The type of a field.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FieldKind {
    /// Text, as it was found.
    String,
    /// Any JSON number; `.5` and `+5` are read too, since old servers write them.
    Number,
    /// A whole number.
    Integer,
    /// True or false, by the words that the rule names; `true` and `false` where it names none.
    Boolean(Booleans),
}

impl Fields {
    /// Fields in the order of the file.
    pub fn new(fields: Vec<Field>) -> Self {
        Self(fields)
    }

    /// The fields.
    pub fn iter(&self) -> impl Iterator<Item = &Field> {
        self.0.iter()
    }

    /// The JSON Schema of one object with these fields.
    pub fn schema(&self) -> Map<String, Value> {
        let mut properties = Map::new();
        for field in &self.0 {
            let kind = match field.kind {
                FieldKind::String => "string",
                FieldKind::Number => "number",
                FieldKind::Integer => "integer",
                FieldKind::Boolean(_) => "boolean",
            };
            properties.insert(field.name.clone(), json!({ "type": kind }));
        }
        let required: Vec<_> =
            self.0.iter().filter(|field| !field.optional).map(|f| f.name.clone()).collect();
        let mut schema = Map::new();
        schema.insert("type".into(), "object".into());
        schema.insert("properties".into(), Value::Object(properties));
        if !required.is_empty() {
            schema.insert("required".into(), required.into());
        }
        schema
    }

    /// Types what an extractor found: an object, or an array of objects.
    ///
    /// # Errors
    ///
    /// A sentence that names the field, what was expected and what was found.
    pub(crate) fn apply(&self, found: Value) -> Result<Value, String> {
        match found {
            Value::Object(found) => self.apply_to_one(&found).map(Value::Object),
            Value::Array(items) => items
                .into_iter()
                .enumerate()
                .map(|(index, item)| {
                    self.apply(item).map_err(|error| format!("record {}: {error}", index + 1))
                })
                .collect::<Result<_, _>>()
                .map(Value::Array),
            other => Err(format!("expected fields, found {}", crate::tool::kind_of(&other))),
        }
    }

    fn apply_to_one(&self, found: &Map<String, Value>) -> Result<Map<String, Value>, String> {
        let mut typed = Map::with_capacity(self.0.len());
        for field in &self.0 {
            match found.get(&field.from) {
                Some(value) if field.optional && field.kind.is_missing(value) => {}
                Some(value) => {
                    let value =
                        field.kind.apply(value).map_err(|error| format!("field `{}` {error}", field.name))?;
                    typed.insert(field.name.clone(), value);
                }
                None if field.optional => {}
                None => return Err(missing(field, found)),
            }
        }
        Ok(typed)
    }
}

fn missing(field: &Field, found: &Map<String, Value>) -> String {
    const MOST_NAMED: usize = 12;
    let mut names: Vec<_> = found.keys().take(MOST_NAMED).map(|name| format!("`{name}`")).collect();
    if found.len() > MOST_NAMED {
        names.push("…".into());
    }
    let found = if names.is_empty() { "nothing".to_owned() } else { names.join(", ") };
    format!("field `{}` is missing: expected `{}` in the reply, found {found}", field.name, field.from)
}

impl FieldKind {
    /// Whether a value stands for none: an empty text where something else than text is asked for, or null.
    fn is_missing(&self, value: &Value) -> bool {
        match value {
            Value::Null => true,
            Value::String(text) => !matches!(self, Self::String) && text.trim().is_empty(),
            Value::Bool(_) | Value::Number(_) | Value::Array(_) | Value::Object(_) => false,
        }
    }

    fn apply(&self, value: &Value) -> Result<Value, String> {
        let text = match value {
            Value::String(text) => text,
            Value::Number(_) if matches!(self, Self::Number) => return Ok(value.clone()),
            Value::Bool(_) if matches!(self, Self::Boolean(_)) => return Ok(value.clone()),
            Value::Number(number) => &number.to_string(),
            Value::Array(_) => return Err("was found more than once".into()),
            Value::Null | Value::Bool(_) | Value::Object(_) => {
                return Err(format!("must be {}; found {}", self.name(), crate::tool::kind_of(value)));
            }
        };
        let typed = match self {
            Self::String => Some(Value::String(text.clone())),
            Self::Number => to_number(text),
            Self::Integer => to_integer(text),
            Self::Boolean(words) => to_boolean(text, words),
        };
        typed.ok_or_else(|| format!("must be {}; found `{}`", self.name(), short(text)))
    }

    fn name(&self) -> String {
        match self {
            Self::String => "a string".into(),
            Self::Number => "a number".into(),
            Self::Integer => "an integer".into(),
            Self::Boolean(words) => words.to_string(),
        }
    }
}

fn short(text: &str) -> String {
    const LONGEST_SHOWN: usize = 60;
    match text.char_indices().nth(LONGEST_SHOWN) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}
