//! Tool definitions, tool names, and arguments of a call.

use std::{str::FromStr, sync::Arc};

use serde_json::{Map, Value};

use super::{SchemaDocument, StructuredContentSupport};

/// Definition of a tool, shown by `tools/list`, `GET /tools` and the command line.
#[derive(Debug, Clone, PartialEq)]
pub struct ToolDefinition {
    /// Name that clients use in tool calls.
    pub name: ToolName,
    /// Display name for people.
    pub title: Option<String>,
    /// Description, by which models decide whether to call the tool.
    pub description: Option<String>,
    /// Hints such as `readOnlyHint` (MCP 2026-07-28, schema, `ToolAnnotations`).
    pub annotations: Option<Map<String, Value>>,
    /// JSON Schema of the arguments; its root is always `"type": "object"`.
    pub input_schema: SchemaDocument,
    /// JSON Schema of `structuredContent` for clients that accept only objects. Its root is always `"type":
    /// "object"`, because a legacy client would otherwise drop the whole tool list.
    pub output_schema: Option<SchemaDocument>,
    /// JSON Schema of `structuredContent` for clients that accept any JSON value (2026-07-28 and later);
    /// `None` unless the route opts out of wrapping.
    pub unwrapped_output_schema: Option<SchemaDocument>,
    /// Metadata (`_meta`) of the tool of an MCP server, for clients that know its keys.
    pub meta: Option<Map<String, Value>>,
}

impl ToolDefinition {
    /// Converts the definition to MCP's JSON, for clients with this support of structured content.
    pub fn to_json(&self, support: StructuredContentSupport) -> Map<String, Value> {
        let to_value = |schema: &SchemaDocument| Value::Object(Map::clone(schema));
        let unwrapped =
            self.unwrapped_output_schema.as_ref().filter(|_| support == StructuredContentSupport::Any);
        object_without_nones([
            ("name", Some(self.name.as_str().into())),
            ("title", self.title.as_deref().map(Value::from)),
            ("description", self.description.as_deref().map(Value::from)),
            ("inputSchema", Some(to_value(&self.input_schema))),
            ("outputSchema", unwrapped.or(self.output_schema.as_ref()).map(to_value)),
            ("annotations", self.annotations.clone().map(Value::Object)),
            ("_meta", self.meta.clone().map(Value::Object)),
        ])
    }
}

/// Builds an object from the members that have a value, in order.
pub fn object_without_nones<const N: usize>(members: [(&str, Option<Value>); N]) -> Map<String, Value> {
    let members = members.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?)));
    members.collect()
}

/// Name of a tool, used in calls.
///
/// 1 to 128 bytes of ASCII letters, digits, `_`, `-` and `.`; case-sensitive (MCP 2026-07-28, Tools, "Tool
/// Names"). `FromStr` is the only constructor, so a name needs no further check.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, derive_more::Display)]
pub struct ToolName(Arc<str>);

impl ToolName {
    /// Maximum length of a name, in bytes.
    pub const MAX_BYTES: usize = 128;

    /// Returns the name as a string slice.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Returns the name as a shared string.
    pub fn shared(&self) -> Arc<str> {
        Arc::clone(&self.0)
    }
}

impl FromStr for ToolName {
    /// Reason why a string is not a valid name, in one sentence.
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text.is_empty() {
            return Err("a tool name is empty".to_owned());
        }
        let (length, limit) = (text.len(), Self::MAX_BYTES);
        if length > limit {
            return Err(format!("a tool name has {length} bytes, at most {limit} are allowed"));
        }
        match text.chars().find(|c| !(c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.'))) {
            Some(character) => Err(format!(
                "a tool name has `{character}` in it; only ASCII letters, digits, `_`, `-` and `.` are \
                 allowed"
            )),
            None => Ok(Self(text.into())),
        }
    }
}

/// Allows lookups by `&str` in maps whose keys are names.
impl std::borrow::Borrow<str> for ToolName {
    fn borrow(&self) -> &str {
        &self.0
    }
}

/// Maximum number of values in the arguments of one call, including arrays and objects and everything in
/// them. A tree of many tiny values uses fifty times the memory of its JSON.
pub const ARGUMENT_VALUE_LIMIT: usize = 100_000;

/// Arguments of one call, in the client's order, and responses to the input requests of the route.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Arguments {
    /// Arguments of the tool, by name.
    pub values: Map<String, Value>,
    /// Responses to the input requests of the route, by the name of the input request.
    pub input_responses: Map<String, Value>,
}

impl Arguments {
    /// Returns the value of one argument.
    pub fn get(&self, name: &str) -> Option<&Value> {
        self.values.get(name)
    }

    /// Converts the arguments to one JSON object, and the input responses to another.
    pub fn into_values(self) -> (Value, Value) {
        (Value::Object(self.values), Value::Object(self.input_responses))
    }
}

impl From<Map<String, Value>> for Arguments {
    fn from(values: Map<String, Value>) -> Self {
        Self { values, input_responses: Map::new() }
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
    fn name_errors_are_reported() {
        for (name, words) in [("", "is empty"), ("a b", "has ` ` in it"), (&"x".repeat(129), "has 129 bytes")]
        {
            assert!(name.parse::<ToolName>().unwrap_err().contains(words), "{name}");
        }
    }
}
