//! Checks of `x-mcp-header` in an input schema, by which clients also send an argument as a header
//! `Mcp-Param-…`.
//!
//! A client must drop a tool with an invalid one, so it is an error here (MCP 2026-07-28, Tools,
//! "x-mcp-header", and Streamable HTTP, "Custom Headers from Tool Parameters").

use crate::{
    config::{code::Code, report::Report, tree::Node},
    model::{InvalidParamHeader, PARAM_HEADER_KEYWORD as KEY, ParamHeaderError, invalid_param_headers},
};

/// Reports every `x-mcp-header` for which a client would reject the tool.
pub(in crate::config) fn check(report: &Report<'_>, input: &Node) {
    let document = Node::entries_to_json(input.as_map().unwrap_or_default());
    for InvalidParamHeader { pointer, reason } in invalid_param_headers(&document) {
        let schema = input.at_pointer(&pointer);
        let Some(value) = schema.get(KEY) else { continue };
        let (span, message, help) = match reason {
            ParamHeaderError::Name => (
                value.span,
                format!("`{KEY}` must be part of a header name, found {}", value.found()),
                "write letters, digits and `-`: `Region` becomes the header `Mcp-Param-Region`",
            ),
            ParamHeaderError::Duplicate { first } => {
                let first = input.at_pointer(&first);
                let first = report.file_and_line(first.get(KEY).unwrap_or(first).span);
                let name = value.as_text().unwrap_or_default();
                (
                    value.span,
                    format!("duplicate `{KEY}: {name}`; the other is at {first}"),
                    "rename one; header names are case-insensitive",
                )
            }
            ParamHeaderError::Position => (
                value.span,
                format!("`{KEY}` applies only to properties, reached through `properties`"),
                "move it to a property of the root, or of a nested `properties`",
            ),
            ParamHeaderError::Type => {
                let kind = schema.get("type");
                let found = kind.map_or_else(|| "no type".to_owned(), Node::found);
                (
                    kind.unwrap_or(value).span,
                    format!(
                        "an argument with `{KEY}` must be a string, an integer or a boolean, found {found}"
                    ),
                    "write `type: string`, or remove the header",
                )
            }
        };
        report.error(Code::InvalidParamHeader.at_span(span), message, help);
    }
}
