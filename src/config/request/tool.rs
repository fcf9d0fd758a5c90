//! Requests to MCP servers: `CALL UPSTREAM/TOOL`, or a map with `tool`.

use super::{CompiledRequest, RequestParser, values::expression};
use crate::settings::code::Code;
use crate::{
    config::{
        language,
        source::SourceSpan,
        tree::{Kind, Node},
    },
    route::{RequestTemplate, ToolTemplate, UpstreamName},
    settings::section::OpenSection,
};

/// Word in place of the HTTP method, for tools.
pub(super) const CALL: &str = "CALL";
/// Key of a request that is for MCP servers only.
pub(super) const KEY: &str = "tool";
/// Keys that are for commands only.
const OTHER_KEYS: [&str; 2] = ["leading_dash_arguments", "stdin"];

const HELP: &str = "write `CALL UPSTREAM/TOOL`, with the server's name for the tool";

impl RequestParser<'_, '_> {
    /// Parses the rest of a line after `CALL`: a tool, to which all arguments are passed unchanged.
    pub(super) fn call_line(&mut self, node: &Node, target: &str) -> Option<CompiledRequest> {
        let span = node.span;
        let (upstream, tool) = match target.split_once('/') {
            None => (self.only_upstream(span), target),
            Some(("", tool)) => (self.only_upstream(span), tool),
            Some((name, tool)) => {
                (self.upstream(language::span_of_name(self.report, span, name), name), tool)
            }
        };
        if tool.is_empty() || tool.contains(char::is_whitespace) {
            self.report.error(
                Code::InvalidRequest.at_span(span),
                format!("`CALL` needs the name of a tool, found {}", node.found()),
                HELP,
            );
            return None;
        }
        self.used.all = true;
        let upstream = upstream?;
        self.reject_others(span, &upstream)?;
        Some(CompiledRequest { upstream, template: RequestTemplate::Tool(ToolTemplate::new(tool)) })
    }

    /// Whether the map form of a request calls a tool. If the upstream is invalid, the key decides.
    pub(super) fn is_of_tool(&self, section: &OpenSection<'_>, upstream: Option<&UpstreamName>) -> bool {
        match upstream.and_then(|upstream| self.is_server(upstream)) {
            Some(is_server) => is_server,
            None => section.get(KEY).is_some(),
        }
    }

    /// Parses the map form for an MCP server.
    pub(super) fn tool(
        &mut self,
        section: &OpenSection<'_>,
        upstream: Option<UpstreamName>,
    ) -> Option<CompiledRequest> {
        let report = self.report;
        let before = report.errors();
        self.reject(section, &super::HTTP_KEYS, upstream.as_ref(), "is an MCP server");
        self.reject(section, &OTHER_KEYS, upstream.as_ref(), "is an MCP server");
        let tool = match section.get(KEY) {
            Some(node) => {
                let text = node.as_text().unwrap_or_default().trim();
                if text.is_empty() {
                    let help = "write the server's name for the tool";
                    report.error(Code::EmptyValue.at_span(node.span), "`tool` is empty", help);
                }
                text
            }
            None => {
                let help = "write `tool: NAME`, with the server's name for the tool";
                section.missing("`request` has no `tool`".to_owned(), help);
                ""
            }
        };
        let mut template = ToolTemplate::new(tool);
        match section.get("arguments") {
            None => self.used.all = true,
            Some(node)
                if matches!(node.kind, Kind::Map(_))
                    || node.as_text().and_then(expression) == Some("args") =>
            {
                template.arguments = self.json(node, "a text of `arguments`")?;
            }
            Some(node) => {
                let help =
                    "write `arguments: { NAME: \"{{ args.name }}\" }`, or remove it to pass all arguments";
                report.error(
                    Code::WrongType.at_span(node.span),
                    format!("`arguments` of a tool must be a map, found {}", node.found()),
                    help,
                );
            }
        }
        let upstream = upstream.filter(|_| report.errors() == before)?;
        Some(CompiledRequest { upstream, template: RequestTemplate::Tool(template) })
    }

    /// Rejects an HTTP request to an MCP server.
    pub(super) fn reject_server(&self, place: SourceSpan, upstream: &UpstreamName) -> Option<()> {
        if self.is_server(upstream) != Some(true) {
            return Some(());
        }
        let message = format!("the upstream `{upstream}` is an MCP server, which has no method and path");
        self.report.error(
            Code::WrongUpstreamKind.at_span(place),
            message,
            format!("write `CALL {upstream}/TOOL`"),
        );
        None
    }

    fn reject_others(&self, place: SourceSpan, upstream: &UpstreamName) -> Option<()> {
        if self.is_server(upstream) != Some(false) {
            return Some(());
        }
        let message = format!("`CALL` requires an MCP server, and the upstream `{upstream}` is not one");
        let help = format!("write `GET {upstream}/path`, or `mcp` in place of `url` at the upstream");
        self.report.error(Code::WrongUpstreamKind.at_span(place), message, help);
        None
    }

    /// Whether an upstream is an MCP server; `None` if it has errors.
    fn is_server(&self, upstream: &UpstreamName) -> Option<bool> {
        self.file(upstream).map(|file| file.settings.mcp().is_some())
    }
}
