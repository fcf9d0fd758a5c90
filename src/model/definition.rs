//! Tool definitions, tool names and arguments.

use std::{fmt, str::FromStr, sync::Arc};

use serde_json::{Map, Value};

use super::SchemaDocument;

/// One tool as `tools/list`, `GET /tools` and the command line show it.
#[derive(Debug, Clone, PartialEq)]
pub struct ToolDefinition {
    /// What it is called by.
    pub name: ToolName,
    /// A name for people.
    pub title: Option<String>,
    /// What a model reads to decide whether to call it.
    pub description: Option<String>,
    /// Hints such as `readOnlyHint` (MCP 2026-07-28, schema, `ToolAnnotations`).
    pub annotations: Option<Map<String, Value>>,
    /// JSON Schema of the arguments; its root is always `"type": "object"`.
    pub input_schema: SchemaDocument,
    /// JSON Schema of `structuredContent` for clients that take objects only; its root is always
    /// `"type": "object"`, or a client of the older eras would lose the whole list.
    pub output_schema: Option<SchemaDocument>,
    /// JSON Schema of `structuredContent` for clients that take any JSON value (2026-07-28 and later), where
    /// the route opted out of the wrapping.
    pub bare_output_schema: Option<SchemaDocument>,
    /// What the server behind it says of it to clients that know each other's keys (`_meta`).
    pub meta: Option<Map<String, Value>>,
}

impl ToolDefinition {
    /// The definition as clients read it, with the output schema for what `shapes` says they take.
    pub fn to_json(&self, shapes: super::Shapes) -> Map<String, Value> {
        let schema = |schema: &SchemaDocument| Value::Object(Map::clone(schema));
        object_of_some([
            ("name", Some(self.name.as_str().into())),
            ("title", self.title.as_deref().map(Value::from)),
            ("description", self.description.as_deref().map(Value::from)),
            ("inputSchema", Some(schema(&self.input_schema))),
            ("outputSchema", self.output_schema_for(shapes).map(schema)),
            ("annotations", self.annotations.clone().map(Value::Object)),
            ("_meta", self.meta.clone().map(Value::Object)),
        ])
    }

    fn output_schema_for(&self, shapes: super::Shapes) -> Option<&SchemaDocument> {
        let bare = match shapes {
            super::Shapes::Any => self.bare_output_schema.as_ref(),
            super::Shapes::ObjectsOnly => None,
        };
        bare.or(self.output_schema.as_ref())
    }
}

/// An object of those members that are there, in order.
pub fn object_of_some<const N: usize>(members: [(&str, Option<Value>); N]) -> Map<String, Value> {
    let members = members.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?)));
    members.collect()
}

/// The name a client calls a tool by.
///
/// 1 to 128 bytes of ASCII letters, digits, `_`, `-` and `.`; case matters (MCP 2026-07-28, Tools, "Tool
/// Names"). `FromStr` is the only way in, so no one checks again.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ToolName(Arc<str>);

/// Why a text is not a tool name.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ToolNameError {
    /// No characters at all.
    #[error("a tool name is empty")]
    Empty,
    /// More than 128 bytes.
    #[error("a tool name has {found} bytes, at most {} are allowed", ToolName::MAX_BYTES)]
    TooLong {
        /// How many bytes it has.
        found: usize,
    },
    /// A character that some client refuses.
    #[error("a tool name has `{found}` in it; only ASCII letters, digits, `_`, `-` and `.` are allowed")]
    Character {
        /// The first such character.
        found: char,
    },
}

impl ToolName {
    /// The longest name, in bytes.
    pub const MAX_BYTES: usize = 128;

    /// The name as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The same text, shared.
    pub fn shared(&self) -> Arc<str> {
        Arc::clone(&self.0)
    }
}

impl FromStr for ToolName {
    type Err = ToolNameError;

    fn from_str(text: &str) -> Result<Self, ToolNameError> {
        if text.is_empty() {
            return Err(ToolNameError::Empty);
        }
        if text.len() > Self::MAX_BYTES {
            return Err(ToolNameError::TooLong { found: text.len() });
        }
        match text.chars().find(|c| !(c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.'))) {
            Some(found) => Err(ToolNameError::Character { found }),
            None => Ok(Self(text.into())),
        }
    }
}

impl fmt::Display for ToolName {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0)
    }
}

/// Lets a map keyed by names be asked with a text.
impl std::borrow::Borrow<str> for ToolName {
    fn borrow(&self) -> &str {
        &self.0
    }
}

/// How many values the arguments of one call may have, lists and objects and what is in them: a tree of many
/// tiny ones takes fifty times as much memory as their text.
pub const ARGUMENT_VALUE_LIMIT: usize = 100_000;

/// Arguments of one call, by name, in the order the caller gave them, and what was answered to the questions
/// of its route.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn letters_digits_and_three_marks_make_a_name() {
        assert_eq!("admin.tools-list_2".parse::<ToolName>().unwrap().as_str(), "admin.tools-list_2");
    }

    #[test]
    fn what_is_wrong_with_a_name_is_said() {
        assert_eq!("".parse::<ToolName>(), Err(ToolNameError::Empty));
        assert_eq!("a b".parse::<ToolName>(), Err(ToolNameError::Character { found: ' ' }));
        assert_eq!("x".repeat(129).parse::<ToolName>(), Err(ToolNameError::TooLong { found: 129 }));
    }
}
