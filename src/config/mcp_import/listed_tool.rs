//! Conversion of a tool that an MCP server lists to a route.

use serde_json::{Map, Value, json};

use crate::config::routes::AnnotationSettings;
use crate::route::UpstreamName;
use crate::settings::{Entry, Kind, Node, SourceSpan};

/// Tool that an MCP server lists.
pub(super) struct ListedTool {
    pub(super) name: String,
    members: Map<String, Value>,
}

/// Parts of a tool's input schema that are imported.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum InputParts {
    /// The whole schema.
    Whole,
    /// The schema without `pattern`, because servers write regular expressions in the syntax of their own
    /// language.
    WithoutPatterns,
    /// Only the names and descriptions of the arguments.
    Names,
}

/// Imports that are tried in order, from the most complete: parts of the input schema, whether the output
/// schema is imported, and the note about omitted parts.
pub(super) const FALLBACKS: [(InputParts, bool, &str); 6] = [
    (InputParts::Whole, true, ""),
    (InputParts::WithoutPatterns, true, "the patterns of its arguments are not used"),
    (InputParts::Whole, false, "its output schema is not used"),
    (
        InputParts::WithoutPatterns,
        false,
        "the patterns of its arguments are not used, nor is its output schema",
    ),
    (InputParts::Names, true, "its arguments are not checked"),
    (InputParts::Names, false, "its arguments are not checked, and its output schema is not used"),
];

impl ListedTool {
    pub(super) fn read(tool: &str) -> Result<Self, &'static str> {
        let Ok(members) = serde_json::from_str::<Map<String, Value>>(tool) else {
            return Err("a tool of its list is omitted: it is not an object");
        };
        let name = members.get("name").and_then(Value::as_str).filter(|name| !name.is_empty());
        let name = name.ok_or("a tool of its list is omitted: it has no name")?.to_owned();
        Ok(Self { name, members })
    }

    /// Returns the keys of the route that are defined by the server.
    pub(super) fn parts(&self, input: InputParts, with_output: bool) -> Map<String, Value> {
        let mut parts = Map::new();
        for name in ["title", "description"] {
            let text = self.members.get(name).and_then(Value::as_str).filter(|text| !text.trim().is_empty());
            parts.extend(text.map(|text| (name.to_owned(), text.into())));
        }
        if let Some(Value::Object(annotations)) = self.members.get("annotations") {
            let hints = annotations.iter().filter(|(name, value)| match &***name {
                "title" => value.is_string(),
                name => value.is_boolean() && AnnotationSettings::has(name),
            });
            let hints = hints.map(|(name, value)| (name.clone(), value.clone()));
            parts.insert("annotations".into(), Value::Object(hints.collect()));
        }
        let schema = |name: &str| self.members.get(name).filter(|schema| schema.is_object());
        let input = match (schema("inputSchema"), input) {
            (Some(schema), InputParts::Whole) => schema.clone(),
            (Some(schema), InputParts::WithoutPatterns) => without_patterns(schema),
            (None, _) | (_, InputParts::Names) => self.names_only(),
        };
        parts.insert("input".into(), input);
        let output = schema("outputSchema").filter(|_| with_output);
        parts.extend(output.map(|output| ("output".to_owned(), output.clone())));
        parts
    }

    /// Returns the tool's `_meta`; `None` if it is missing or empty.
    pub(super) fn meta(&self) -> Option<Map<String, Value>> {
        self.members.get("_meta").and_then(Value::as_object).filter(|meta| !meta.is_empty()).cloned()
    }

    /// Whether the tool can only be called as a task (MCP 2025-11-25, Tasks).
    pub(super) fn is_task_only(&self) -> bool {
        let support = self.members.get("execution").and_then(|execution| execution.get("taskSupport"));
        support.and_then(Value::as_str) == Some("required")
    }

    /// Schema with only the names and descriptions of the arguments, for a tool whose input schema is
    /// unusable.
    fn names_only(&self) -> Value {
        let properties = self.members.get("inputSchema").and_then(|schema| schema.get("properties"));
        let described = |property: &Value| match property.get("description") {
            Some(Value::String(description)) => json!({ "description": description }),
            _ => json!({}),
        };
        let properties = properties.and_then(Value::as_object).into_iter().flatten();
        let properties: Map<String, Value> =
            properties.map(|(name, property)| (name.clone(), described(property))).collect();
        json!({ "type": "object", "properties": properties })
    }
}

/// Settings of an upstream in the file that apply to the routes of its imported tools.
pub(super) struct ToolImportSettings<'t> {
    upstream: &'t UpstreamName,
    /// Span of the upstream.
    span: SourceSpan,
    tools: Option<&'t Node>,
}

impl<'t> ToolImportSettings<'t> {
    pub(super) fn new(root: &'t Node, upstream: &'t UpstreamName) -> Self {
        let entry = root.get("upstreams").and_then(|upstreams| upstreams.entry(upstream.as_str()));
        let span = entry.map_or(root.span, |entry| entry.key.span);
        Self { upstream, span, tools: entry.and_then(|entry| entry.value.get("tools")) }
    }

    /// Returns an entry of `tools`.
    pub(super) fn get(&self, name: &str) -> Option<&'t Entry> {
        self.tools?.entry(name)
    }

    /// Creates the route that calls a tool, from the server's definition, the overrides in the file, and the
    /// rules.
    pub(super) fn route(&self, tool: &str, name: &str, parts: &Map<String, Value>) -> Entry {
        let span = self.span;
        let mut parts = entries_of(parts, span);
        let overrides = self.get("overrides").and_then(|overrides| overrides.value.entry(tool));
        let override_entries = overrides.and_then(|entry| entry.value.as_map()).unwrap_or_default();
        let override_rules = override_entries.iter().find(|entry| entry.key.text == "response");
        let response = match (override_rules, self.get("response")) {
            (Some(first), Some(second)) => {
                let rules = [first, second].into_iter().flat_map(|entry| entry.value.one_or_more()).cloned();
                let rules = Node::new(Kind::List(rules.collect()), first.value.span);
                Some(Entry { key: first.key.clone(), value: rules })
            }
            (first, second) => first.or(second).cloned(),
        };
        // If rules change the structured content, the server's output schema does not apply.
        if response.as_ref().is_some_and(|response| changes_structured_content(&response.value)) {
            parts.retain(|part| part.key.text != "output");
        }
        parts.retain(|part| override_entries.iter().all(|entry| entry.key.text != part.key.text));
        parts.extend(override_entries.iter().filter(|entry| entry.key.text != "response").cloned());
        let request = json!({ "upstream": self.upstream.as_str(), "tool": tool });
        parts.push(Entry::new("request", Node::from_json(&request, span), span));
        parts.extend(response);
        parts.extend(self.get("argument_error").cloned());
        let route_span = overrides.map_or(span, |entry| entry.key.span);
        Entry::new(name, Node::new(Kind::Map(parts), route_span), route_span)
    }
}

/// Converts the members of a JSON object to entries that all have the same span.
pub(super) fn entries_of(members: &Map<String, Value>, span: SourceSpan) -> Vec<Entry> {
    members.iter().map(|(name, value)| Entry::new(name, Node::from_json(value, span), span)).collect()
}

/// Removes `pattern` from a schema and its subschemas.
fn without_patterns(schema: &Value) -> Value {
    match schema {
        Value::Object(members) => {
            // A property may be named `pattern`; its value is a schema, not a string.
            let kept = members.iter().filter(|(name, value)| *name != "pattern" || !value.is_string());
            Value::Object(kept.map(|(name, value)| (name.clone(), without_patterns(value))).collect())
        }
        Value::Array(items) => items.iter().map(without_patterns).collect(),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => schema.clone(),
    }
}

/// Whether a rule may change the structured content.
fn changes_structured_content(rules: &Node) -> bool {
    let changes = |entry: &Entry| matches!(&*entry.key.text, "structured" | "extract" | "use");
    rules.one_or_more().iter().filter_map(Node::as_map).flatten().any(changes)
}
