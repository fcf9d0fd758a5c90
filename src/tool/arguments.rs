//! The arguments of one call.

use serde_json::{Map, Value};

/// Arguments of one call, by name, in the order the caller gave them.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Arguments(Map<String, Value>);

impl Arguments {
    /// The value of one argument.
    pub fn get(&self, name: &str) -> Option<&Value> {
        self.0.get(name)
    }

    /// Sets one argument, replacing what was there.
    pub fn insert(&mut self, name: impl Into<String>, value: Value) {
        self.0.insert(name.into(), value);
    }

    /// All of them as one JSON object.
    pub fn as_map(&self) -> &Map<String, Value> {
        &self.0
    }

    /// All of them as one JSON value.
    pub fn into_value(self) -> Value {
        Value::Object(self.0)
    }
}

impl From<Map<String, Value>> for Arguments {
    fn from(map: Map<String, Value>) -> Self {
        Self(map)
    }
}
