//! What becomes of what an extractor found: left as it is, or typed.

use serde_json::{Map, Value, json};

use crate::rule::{
    fields::{FieldType, Fields, Path, each_record},
    why::Why,
};

/// The types of what an extractor finds.
#[derive(Debug, Default)]
pub enum Typing {
    /// All of it, as found.
    #[default]
    AsFound,
    /// An object of these fields, or a list of such objects.
    Fields(Fields),
    /// One value, or a list of such values.
    Value {
        /// Where it is in an object; what was found itself where there is none.
        from: Option<Path>,
        /// What it is.
        kind: Box<FieldType>,
    },
}

impl Typing {
    /// The JSON Schema of one record; `None` where anything may be found.
    pub fn schema(&self) -> Option<Map<String, Value>> {
        match self {
            Self::AsFound => None,
            Self::Fields(fields) => Some(fields.schema()),
            Self::Value { kind, .. } => Some(kind.schema()),
        }
    }

    /// The paths to what is typed.
    pub(super) fn paths(&self) -> Vec<&Path> {
        match self {
            Self::AsFound | Self::Value { from: None, .. } => Vec::new(),
            Self::Fields(fields) => fields.iter().map(|field| &field.from).collect(),
            Self::Value { from: Some(path), .. } => vec![path],
        }
    }

    /// Whether records with these names have what must be there; asked where there are no records to type.
    ///
    /// # Errors
    ///
    /// A sentence that names what has no place, and what was found.
    pub(super) fn check_names(&self, found: &Map<String, Value>) -> Result<(), Why> {
        match self {
            Self::AsFound | Self::Value { from: None, .. } => Ok(()),
            Self::Fields(fields) => fields.check_names(found),
            Self::Value { from: Some(path), .. } => match path.find(found) {
                Some(_) => Ok(()),
                None => Err(Why::plainly(format!("expected `{path}` in the reply, found none"))),
            },
        }
    }

    /// Whether what is to be one record is one: what is typed is promised to clients as that.
    ///
    /// # Errors
    ///
    /// A sentence that names the way out.
    pub(super) fn admits_one(&self, found: &Value) -> Result<(), Why> {
        match (self, found) {
            (Self::Fields(_) | Self::Value { from: Some(_), .. }, Value::Array(items)) => {
                Err(Why::plainly(format!(
                    "expected one object, found a list of {}; a list of objects is `type: object[]` with `fields` \
                     beside it",
                    items.len()
                )))
            }
            _ => Ok(()),
        }
    }

    /// Types a value.
    ///
    /// # Errors
    ///
    /// A sentence that names the place, what was expected and what was found.
    pub(super) fn apply(&self, found: Value) -> Result<Value, Why> {
        match self {
            Self::AsFound => Ok(found),
            Self::Fields(fields) => fields.apply(&found),
            Self::Value { from: None, kind } => kind.apply_to_records(&found),
            Self::Value { from: Some(path), kind } => each_record(&found, |found| {
                let value = match found {
                    Value::Object(members) => path.find(members),
                    _ => None,
                };
                match value {
                    // What stands there is one value, were it a list.
                    Some(value) => kind.apply_to_place(value),
                    None => Err(Why::plainly(format!("expected `{path}` in the reply, found none"))),
                }
            }),
        }
    }
}

/// The schema of a list of records.
pub(super) fn list_of(record: Map<String, Value>) -> Map<String, Value> {
    Map::from_iter([("type".to_owned(), json!("array")), ("items".to_owned(), Value::Object(record))])
}
