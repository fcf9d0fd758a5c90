//! The arguments of one call.

use serde_json::{Map, Value};

/// How many values the arguments of one call may have, lists and objects and what is in them: a tree of many tiny ones takes
/// fifty times as much memory as their text.
pub const ARGUMENT_VALUE_LIMIT: usize = 100_000;

/// Arguments of one call, by name, in the order the caller gave them, and what was answered to the questions of its
/// route.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Arguments {
    given: Map<String, Value>,
    answers: Map<String, Value>,
}

impl Arguments {
    /// The value of one argument.
    pub fn get(&self, name: &str) -> Option<&Value> {
        self.given.get(name)
    }

    /// Sets one argument, replacing what was there.
    pub fn insert(&mut self, name: impl Into<String>, value: Value) {
        self.given.insert(name.into(), value);
    }

    /// All of them as one JSON object.
    pub fn as_map(&self) -> &Map<String, Value> {
        &self.given
    }

    /// All of them as one JSON value.
    pub fn into_value(self) -> Value {
        Value::Object(self.given)
    }

    /// The same with the answers to the questions of its route, by their names.
    #[must_use]
    pub fn with_answers(self, answers: Map<String, Value>) -> Self {
        Self { answers, ..self }
    }

    /// What was answered to the questions of the route, by their names.
    pub fn answers(&self) -> &Map<String, Value> {
        &self.answers
    }

    /// Arguments and answers, each as one JSON value.
    pub fn into_values(self) -> (Value, Value) {
        (Value::Object(self.given), Value::Object(self.answers))
    }
}

impl From<Map<String, Value>> for Arguments {
    fn from(given: Map<String, Value>) -> Self {
        Self { given, answers: Map::new() }
    }
}
