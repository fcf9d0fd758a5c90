//! Checks of `x-mcp-header` in an input schema, by which clients also send an argument as a header
//! `Mcp-Param-…`.
//!
//! A client must drop a tool with an invalid one, so it is an error here (MCP 2026-07-28, Tools,
//! "x-mcp-header", and Streamable HTTP, "Custom Headers from Tool Parameters").

use std::collections::HashMap;

use crate::config::{
    code::Code,
    report::Report,
    source::SourceSpan,
    tree::{Entry, Kind, Node},
};

/// Keyword of a schema that names the header of an argument.
const KEY: &str = "x-mcp-header";

/// Position of a schema in its document.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum SchemaPosition {
    /// The root.
    Root,
    /// A property, reached through `properties` only.
    Property,
    /// A subschema that applies conditionally, depending on the arguments.
    Elsewhere,
}

/// Reports every `x-mcp-header` for which a client would reject the tool.
pub(in crate::config) fn check(report: &Report<'_>, input: &Node) {
    check_schema(report, input, SchemaPosition::Root, &mut HashMap::new());
}

fn check_schema(
    report: &Report<'_>,
    node: &Node,
    place: SchemaPosition,
    seen: &mut HashMap<String, SourceSpan>,
) {
    match &node.kind {
        Kind::Map(entries) => {
            for Entry { key, value } in entries {
                let members = || value.as_map().unwrap_or_default();
                match key.text.as_str() {
                    KEY => check_mark(report, node, value, place, seen),
                    "const" | "enum" | "default" | "examples" => {}
                    "properties" => {
                        let inside = match place {
                            SchemaPosition::Root | SchemaPosition::Property => SchemaPosition::Property,
                            SchemaPosition::Elsewhere => SchemaPosition::Elsewhere,
                        };
                        members().iter().for_each(|member| check_schema(report, &member.value, inside, seen));
                    }
                    // Maps with user-defined names.
                    "$defs" | "definitions" | "dependentSchemas" | "patternProperties" => {
                        members().iter().for_each(|member| {
                            check_schema(report, &member.value, SchemaPosition::Elsewhere, seen)
                        });
                    }
                    _ => check_schema(report, value, SchemaPosition::Elsewhere, seen),
                }
            }
        }
        Kind::List(items) => {
            items.iter().for_each(|item| check_schema(report, item, SchemaPosition::Elsewhere, seen));
        }
        Kind::Null | Kind::Boolean(_) | Kind::Number(_) | Kind::Text(_) => {}
    }
}

fn check_mark(
    report: &Report<'_>,
    schema: &Node,
    value: &Node,
    place: SchemaPosition,
    seen: &mut HashMap<String, SourceSpan>,
) {
    let Some(name) = value.as_text().filter(|name| !name.is_empty() && name.bytes().all(is_tchar)) else {
        let message = format!("`{KEY}` must be part of a header name, found {}", value.found());
        report.error(
            Code::InvalidParamHeader.at_span(value.span),
            message,
            "write letters, digits and `-`: `Region` becomes the header `Mcp-Param-Region`",
        );
        return;
    };
    if let Some(first) = seen.insert(name.to_ascii_lowercase(), value.span) {
        let message = format!("duplicate `{KEY}: {name}`; the other is at {}", report.file_and_line(first));
        report.error(
            Code::InvalidParamHeader.at_span(value.span),
            message,
            "rename one; header names are case-insensitive",
        );
    }
    match place {
        SchemaPosition::Property => {}
        SchemaPosition::Root | SchemaPosition::Elsewhere => {
            report.error(
                Code::InvalidParamHeader.at_span(value.span),
                format!("`{KEY}` applies only to properties, reached through `properties`"),
                "move it to a property of the root, or of a nested `properties`",
            );
            return;
        }
    }
    let kind = schema.get("type");
    if !matches!(kind.and_then(Node::as_text), Some("string" | "integer" | "boolean")) {
        let found = kind.map_or_else(|| "no type".to_owned(), Node::found);
        report.error(
            Code::InvalidParamHeader.at_span(kind.unwrap_or(value).span),
            format!("an argument with `{KEY}` must be a string, an integer or a boolean, found {found}"),
            "write `type: string`, or remove the header",
        );
    }
}

/// Whether it is a character of a token (RFC 9110, section 5.6.2).
fn is_tchar(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte)
}
