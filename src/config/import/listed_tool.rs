//! Tool in the list of an MCP server, and its conversion to a route.

use serde_json::{Map, Value, value::RawValue};

use super::ImportNote;
use crate::{
    config::{
        ToolRules,
        routes::AnnotationSettings,
        source::SourceSpan,
        tree::{Entry, Kind, Node},
    },
    route::UpstreamName,
};

/// Tool in the list of an MCP server.
pub(super) struct ListedTool {
    pub(super) name: String,
    members: Map<String, Value>,
}

/// Parts of a tool's schemas that are imported.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct ImportedParts {
    input: InputParts,
    output: bool,
}

/// Parts of the input schema that are imported.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum InputParts {
    /// The whole schema.
    Whole,
    /// All except `pattern`: servers use the regular expressions of their own language.
    WithoutPatterns,
    /// Names and descriptions of the arguments.
    Names,
}

impl ImportedParts {
    /// Fallbacks, most complete first.
    pub(super) const FALLBACKS: [Self; 6] = [
        Self { input: InputParts::Whole, output: true },
        Self { input: InputParts::WithoutPatterns, output: true },
        Self { input: InputParts::Whole, output: false },
        Self { input: InputParts::WithoutPatterns, output: false },
        Self { input: InputParts::Names, output: true },
        Self { input: InputParts::Names, output: false },
    ];

    /// Note about the omitted parts; `None` if nothing is omitted.
    pub(super) fn omission(self) -> Option<&'static str> {
        match (self.input, self.output) {
            (InputParts::Whole, true) => None,
            (InputParts::Whole, false) => Some("its output schema is not used"),
            (InputParts::WithoutPatterns, true) => Some("the patterns of its arguments are not used"),
            (InputParts::WithoutPatterns, false) => {
                Some("the patterns of its arguments are not used, nor is its output schema")
            }
            (InputParts::Names, true) => Some("its arguments are not checked"),
            (InputParts::Names, false) => {
                Some("its arguments are not checked, and its output schema is not used")
            }
        }
    }
}

impl ListedTool {
    pub(super) fn read(tool: &RawValue) -> Result<Self, &'static str> {
        let Ok(members) = serde_json::from_str::<Map<String, Value>>(tool.get()) else {
            return Err("a tool of its list is omitted: it is not an object");
        };
        match members.get("name").and_then(Value::as_str).map(str::to_owned) {
            Some(name) if !name.is_empty() => Ok(Self { name, members }),
            Some(_) | None => Err("a tool of its list is omitted: it has no name"),
        }
    }

    pub(super) fn note(&self, text: String) -> ImportNote {
        ImportNote { tool: self.name.chars().take(128).collect(), text }
    }

    /// The route as an entry of `routes`.
    pub(super) fn entry(
        &self,
        upstream: &UpstreamName,
        rules: &ToolRules,
        name: &str,
        settings: &ToolImportSettings<'_>,
        selected: ImportedParts,
    ) -> Entry {
        let mut parts = self.parts(settings.span, selected);
        if let Some(description) = rules.description_of(&self.name) {
            parts.retain(|part| part.key.text != "description");
            parts.push(Entry::new("description", Node::from_text(description, settings.span), settings.span));
        }
        settings.route(upstream, &self.name, name, parts)
    }

    /// Keys of the route that come from the server's definition.
    pub(super) fn parts(&self, span: SourceSpan, selected: ImportedParts) -> Vec<Entry> {
        let mut parts = Vec::new();
        for name in ["title", "description"] {
            if let Some(Value::String(found)) = self.members.get(name)
                && !found.trim().is_empty()
            {
                parts.push(Entry::new(name, Node::from_text(found, span), span));
            }
        }
        if let Some(Value::Object(annotations)) = self.members.get("annotations") {
            let hints = annotations.iter().filter(|(name, value)| match &***name {
                "title" => value.is_string(),
                name => value.is_boolean() && AnnotationSettings::has(name),
            });
            let hints =
                hints.map(|(name, value)| Entry::new(name, Node::from_json(value, span), span)).collect();
            parts.push(Entry::new("annotations", Node::new(Kind::Map(hints), span), span));
        }
        let input = self.members.get("inputSchema").filter(|schema| schema.is_object());
        let input = match (input, selected.input) {
            (Some(schema), InputParts::Whole) => schema.clone(),
            (Some(schema), InputParts::WithoutPatterns) => without_patterns(schema),
            (None, _) | (_, InputParts::Names) => self.names_only(),
        };
        parts.push(Entry::new("input", Node::from_json(&input, span), span));
        if let Some(output) =
            self.members.get("outputSchema").filter(|schema| schema.is_object() && selected.output)
        {
            parts.push(Entry::new("output", Node::from_json(output, span), span));
        }
        parts
    }

    /// The tool's `_meta`.
    pub(super) fn meta(&self) -> Option<Map<String, Value>> {
        self.members.get("_meta").and_then(Value::as_object).filter(|meta| !meta.is_empty()).cloned()
    }

    /// Whether the tool can be called as a task only (MCP 2025-11-25, Tasks).
    pub(super) fn is_task_only(&self) -> bool {
        let support = self.members.get("execution").and_then(|execution| execution.get("taskSupport"));
        support.and_then(Value::as_str) == Some("required")
    }

    /// Names and descriptions of the arguments, for an input schema that can't be used.
    fn names_only(&self) -> Value {
        let properties = self.members.get("inputSchema").and_then(|schema| schema.get("properties"));
        let described = |property: &Value| match property.get("description") {
            Some(Value::String(description)) => serde_json::json!({ "description": description }),
            _ => serde_json::json!({}),
        };
        let properties = properties.and_then(Value::as_object).into_iter().flatten();
        let properties: Map<String, Value> =
            properties.map(|(name, property)| (name.clone(), described(property))).collect();
        serde_json::json!({ "type": "object", "properties": properties })
    }
}

/// Settings of a server's tools in the file that become part of their routes.
pub(super) struct ToolImportSettings<'t> {
    /// Span of the upstream.
    pub(super) span: SourceSpan,
    /// Rules for the results of all tools.
    pub(super) response: Option<&'t Entry>,
    /// Form of an error about arguments.
    pub(super) argument_error: Option<&'t Entry>,
    /// Settings of single tools that override the server's definition.
    pub(super) overrides: &'t [Entry],
}

impl ToolImportSettings<'_> {
    /// The route that calls a tool: the server's definition, the overrides of the file, and the rules.
    pub(super) fn route(
        &self,
        upstream: &UpstreamName,
        tool: &str,
        name: &str,
        mut parts: Vec<Entry>,
    ) -> Entry {
        let span = self.span;
        let overrides = self.overrides.iter().find(|entry| entry.key.text == tool);
        let own = overrides.and_then(|entry| entry.value.as_map()).unwrap_or_default();
        let own_rules = own.iter().find(|entry| entry.key.text == "response");
        let response = match (own_rules, self.response) {
            (Some(first), Some(then)) => {
                let rules = [first, then].into_iter().flat_map(|entry| match &entry.value.kind {
                    Kind::List(rules) => rules.clone(),
                    _ => vec![entry.value.clone()],
                });
                let rules = Node::new(Kind::List(rules.collect()), first.value.span);
                Some(Entry { key: first.key.clone(), value: rules })
            }
            (first, then) => first.or(then).cloned(),
        };
        // If rules change the structured content, the server's output schema no longer applies.
        if response.as_ref().is_some_and(|response| changes_structured_content(&response.value)) {
            parts.retain(|part| part.key.text != "output");
        }
        parts.retain(|part| own.iter().all(|own| own.key.text != part.key.text));
        parts.extend(own.iter().filter(|own| own.key.text != "response").cloned());
        let request = vec![
            Entry::new("upstream", Node::from_text(upstream.as_str(), span), span),
            Entry::new("tool", Node::from_text(tool, span), span),
        ];
        parts.push(Entry::new("request", Node::new(Kind::Map(request), span), span));
        parts.extend(response);
        parts.extend(self.argument_error.cloned());
        let place = overrides.map_or(span, |entry| entry.key.span);
        Entry::new(name, Node::new(Kind::Map(parts), place), place)
    }
}

/// The schema without `pattern` and `patternProperties`.
fn without_patterns(schema: &Value) -> Value {
    match schema {
        Value::Object(members) => {
            // A property may have the name `pattern`; its value is then not a string.
            let kept = members.iter().filter(|(name, value)| {
                let is_one = *name == "pattern" && value.is_string();
                let are_several = *name == "patternProperties" && value.is_object();
                !(is_one || are_several)
            });
            Value::Object(kept.map(|(name, value)| (name.clone(), without_patterns(value))).collect())
        }
        Value::Array(items) => items.iter().map(without_patterns).collect(),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => schema.clone(),
    }
}

/// Whether a rule changes the structured content.
fn changes_structured_content(rules: &Node) -> bool {
    match &rules.kind {
        Kind::Map(entries) => {
            entries.iter().any(|entry| matches!(&*entry.key.text, "structured" | "extract" | "use"))
        }
        Kind::List(rules) => rules.iter().any(changes_structured_content),
        Kind::Null | Kind::Boolean(_) | Kind::Number(_) | Kind::Text(_) => false,
    }
}
