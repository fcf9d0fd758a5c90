//! What a client is told of a tool.

use serde_json::{Map, Value};

use super::{SchemaDocument, ToolName};

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
        let mut out = Map::new();
        out.insert("name".into(), self.name.as_str().into());
        if let Some(title) = &self.title {
            out.insert("title".into(), title.as_str().into());
        }
        if let Some(description) = &self.description {
            out.insert("description".into(), description.as_str().into());
        }
        out.insert("inputSchema".into(), Value::Object(Map::clone(&self.input_schema)));
        if let Some(schema) = self.output_schema_for(shapes) {
            out.insert("outputSchema".into(), Value::Object(Map::clone(schema)));
        }
        if let Some(annotations) = &self.annotations {
            out.insert("annotations".into(), Value::Object(annotations.clone()));
        }
        if let Some(meta) = &self.meta {
            out.insert("_meta".into(), Value::Object(meta.clone()));
        }
        out
    }

    fn output_schema_for(&self, shapes: super::Shapes) -> Option<&SchemaDocument> {
        let bare = match shapes {
            super::Shapes::Any => self.bare_output_schema.as_ref(),
            super::Shapes::ObjectsOnly => None,
        };
        bare.or(self.output_schema.as_ref())
    }
}
