//! What becomes of what an extractor found: left as it is, or typed.

use serde_json::{Map, Value, json};

use crate::rule::fields::{FieldType, Fields, Path, each_record};

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

    /// Types a value.
    ///
    /// # Errors
    ///
    /// A sentence that names the place, what was expected and what was found.
    pub(super) fn apply(&self, found: Value) -> Result<Value, String> {
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
                    None => Err(format!("expected `{path}` in the reply, found none")),
                }
            }),
        }
    }
}

/// The schema of a list of records.
pub(super) fn list_of(record: Map<String, Value>) -> Map<String, Value> {
    Map::from_iter([("type".to_owned(), json!("array")), ("items".to_owned(), Value::Object(record))])
}
