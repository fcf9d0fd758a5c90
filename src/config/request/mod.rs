//! `request` and `rest`: the upstream request, and the REST endpoint of the tool.
//!
//! This file parses HTTP requests, whose parts are in `values`; `command` and `tool` parse requests to
//! commands and MCP servers.

mod command;
mod rest;
mod tool;
mod values;

use crate::settings::code::Code;
use http::Method;
use settings_derive::Section as DeriveSection;

use super::{
    language,
    report::Report,
    schemas::UsedArguments,
    section::{ReadElsewhere, open},
    source::SourceSpan,
    suggest,
    tree::{Kind, Node},
    upstreams::UpstreamFile,
};
use crate::{
    route::{HttpTemplate, JsonTemplate, RequestTemplate, UpstreamName},
    settings::{
        keys::ValueKind,
        section::{OpenSection, Section as _, Setting},
        value::Named,
    },
};

pub(super) use rest::rest;

/// Kinds of values that `request` accepts.
pub(super) const KIND: ValueKind = ValueKind::Either(&[ValueKind::Text, RequestSettings::KIND]);

/// Section `request`.
#[derive(DeriveSection)]
#[section(id = "request")]
pub(super) struct RequestSettings {
    /// Upstream of the request; optional with a single upstream.
    upstream: Option<String>,
    /// HTTP method, such as `GET` or `PROPFIND`.
    #[key(shown = "`GET`, or `POST` with a body")]
    method: Option<String>,
    /// Path, with arguments as `{name}`; may end in `?name={argument}`.
    path: Option<String>,
    /// Query parameters: a template each, or a list of them.
    #[key(kind = ValueKind::Map(&ValueKind::OneOrMore(&ValueKind::Scalar)))]
    query: Named<ReadElsewhere>,
    /// Headers: a template each.
    #[key(kind = ValueKind::Map(&ValueKind::Scalar))]
    headers: Named<ReadElsewhere>,
    /// Body, in one of four forms.
    #[key(kind = BodySettings::KIND)]
    body: ReadElsewhere,
    /// MCP servers: name of the tool, as the server lists it.
    tool: Option<String>,
    /// Commands: further arguments, a template each. MCP tools: arguments, in which every text is a template;
    /// all arguments of the call when absent.
    #[key(kind = ValueKind::Either(&[ValueKind::List(&ValueKind::Scalar), ValueKind::Map(&ValueKind::Anything)]))]
    arguments: ReadElsewhere,
    /// Commands: arguments whose value may start with `-`. The command then reads it as an option.
    leading_dash_arguments: Vec<String>,
    /// Commands: standard input, as a template or in one of the four body forms.
    #[key(kind = ValueKind::Either(&[ValueKind::Text, BodySettings::KIND]))]
    stdin: ReadElsewhere,
}

/// Section `body` of a request.
#[derive(DeriveSection)]
#[section(id = "body")]
struct BodySettings {
    /// JSON, in which every text is a template; `"{{ args }}"` alone inserts the value itself.
    json: ReadElsewhere,
    /// Form fields: a template each.
    #[key(kind = ValueKind::Map(&ValueKind::Scalar))]
    form: Named<ReadElsewhere>,
    /// XML: a template in which inserted values are escaped; the default `Content-Type` is `application/xml`.
    #[key(kind = ValueKind::Text)]
    xml: ReadElsewhere,
    /// Text: a template in which inserted values are not escaped.
    #[key(kind = ValueKind::Text)]
    text: ReadElsewhere,
}

/// Names that the templates of a request may use.
const NAMES: [&str; 2] = ["args", "input_responses"];
/// Keys of a request that are for HTTP only.
const HTTP_KEYS: [&str; 5] = ["method", "path", "query", "headers", "body"];
pub(super) const METHODS: [&str; 7] = ["GET", "POST", "PUT", "PATCH", "DELETE", "HEAD", "OPTIONS"];

/// Compiled request.
pub(super) struct CompiledRequest {
    pub(super) upstream: UpstreamName,
    pub(super) template: RequestTemplate,
}

/// Upstreams that a request may name.
#[derive(Clone, Copy)]
pub(super) struct Upstreams<'a> {
    /// Names of all upstreams in the file, including those with errors, so that such an upstream is not also
    /// reported as unknown.
    pub(super) names: &'a [(UpstreamName, SourceSpan)],
    /// Upstreams without errors.
    pub(super) files: &'a [UpstreamFile],
}

/// Parser for the parts of a request.
struct RequestParser<'s, 'f> {
    report: &'s Report<'f>,
    upstreams: Upstreams<'s>,
    used: &'s mut UsedArguments,
}

/// Parses `request`. Returns `None` after reporting the problems.
pub(super) fn read(
    report: &Report<'_>,
    upstreams: Upstreams<'_>,
    node: &Node,
    place: SourceSpan,
    used: &mut UsedArguments,
) -> Option<CompiledRequest> {
    let mut parser = RequestParser { report, upstreams, used };
    match &node.kind {
        Kind::Text(text) => parser.line(node, &text.text),
        Kind::Map(_) => parser.map(node, place),
        Kind::Null | Kind::Boolean(_) | Kind::Number(_) | Kind::List(_) => {
            let message = format!("`request` must be a string or a map, found {}", node.found());
            report.error(
                Code::WrongType.at_span(node.span),
                message,
                "write `METHOD UPSTREAM/path`, such as `GET weather/forecast/{city}`",
            );
            None
        }
    }
}

/// Parses a value that may contain templates. Returns `None` after reporting the problems.
pub(super) fn value(
    report: &Report<'_>,
    node: &Node,
    what: &str,
    used: &mut UsedArguments,
) -> Option<JsonTemplate> {
    let upstreams = Upstreams { names: &[], files: &[] };
    RequestParser { report, upstreams, used }.json(node, what)
}

impl RequestParser<'_, '_> {
    fn line(&mut self, node: &Node, text: &str) -> Option<CompiledRequest> {
        let span = node.span;
        let help = "write `METHOD UPSTREAM/path`, such as `GET weather/forecast/{city}`";
        let Some((method, target)) = text.trim().split_once(char::is_whitespace) else {
            if text.trim() == command::RUN {
                return self.run_line(node, "");
            }
            self.report.error(
                Code::InvalidRequest.at_span(span),
                format!("`request` must have a method and a path, found {}", node.found()),
                help,
            );
            return None;
        };
        if method == command::RUN {
            return self.run_line(node, target);
        }
        let target = target.trim();
        if method == tool::CALL {
            return self.call_line(node, target);
        }
        let place = language::span_of_name(self.report, span, method);
        let is_upstream = self.upstreams.names.iter().any(|(name, _)| name.as_str() == method);
        if is_upstream && !METHODS.contains(&method) {
            let message = format!("`request` begins with the upstream `{method}`, and has no method");
            let help = format!("write `GET {method}/path`; `RUN {method} word` if the upstream is a command");
            self.report.error(Code::InvalidRequest.at_span(place), message, help);
            return None;
        }
        // The rest of such a line is no path.
        if is_other_word(method) {
            method_of(self.report, place, method)?;
        }
        let method = method_of(self.report, place, method);
        if target.contains("://") {
            self.report.error(
                Code::InvalidRequest.at_span(span),
                "`request` must name an upstream, not a URL",
                help,
            );
            return None;
        }
        let slash = target.find(['/', '?']).unwrap_or(target.len());
        let (upstream, path) = target.split_at(slash);
        let upstream = match upstream {
            "" => self.only_upstream(span),
            name => self.upstream(language::span_of_name(self.report, span, name), name),
        };
        if let Some(upstream) = &upstream {
            self.reject_command(span, upstream)?;
            self.reject_server(span, upstream)?;
        }
        let (path, query) = self.target(node, if path.is_empty() { "/" } else { path })?;
        let mut template = HttpTemplate::new(method?, path);
        template.path_query = query;
        Some(CompiledRequest { upstream: upstream?, template: RequestTemplate::Http(template) })
    }

    fn map(&mut self, node: &Node, place: SourceSpan) -> Option<CompiledRequest> {
        let report = self.report;
        let section = open::<RequestSettings>(report, place, node)?;
        RequestSettings::read_fields(&section, None).ok()?;
        let upstream = match section.get("upstream").and_then(|node| Some((node, node.as_text()?))) {
            Some((node, name)) => self.upstream(node.span, name),
            None => self.only_upstream(place),
        };
        if self.is_of_tool(&section, upstream.as_ref()) {
            return self.tool(&section, upstream);
        }
        // If the upstream has errors, the keys decide which kind is meant.
        let is_command = match upstream.as_ref().and_then(|upstream| self.is_command(upstream)) {
            Some(is_command) => is_command,
            None => {
                section.get("path").is_none() && command::KEYS.iter().any(|key| section.get(key).is_some())
            }
        };
        if is_command {
            return self.command(&section, upstream);
        }
        self.reject(&section, &command::KEYS, upstream.as_ref(), "is not a command");
        self.reject(&section, &[tool::KEY], upstream.as_ref(), "is not an MCP server");
        let target = match section.get("path") {
            Some(node) => self.target(node, node.as_text()?),
            None => {
                section.missing("`request` has no `path`".to_owned(), "write `path: /forecast/{city}`");
                None
            }
        };
        let query = self.values(section.get("query").and_then(Node::as_map));
        let headers = self.headers(section.get("headers").and_then(Node::as_map));
        let body = section.entry("body").map(|entry| self.body(entry));
        let method = match section.get("method") {
            Some(node) => method_of(report, node.span, node.as_text()?)?,
            None if body.is_some() => Method::POST,
            None => Method::GET,
        };
        if body.is_some() && matches!(method, Method::GET | Method::HEAD) {
            let message = format!("a `{method}` request can't have a body");
            report.error(
                Code::UnexpectedBody.at_span(place),
                message,
                "write `method: POST`, or send the values in `query`",
            );
            return None;
        }
        let (path, path_query) = target?;
        let mut template = HttpTemplate::new(method, path);
        (template.path_query, template.query, template.headers) = (path_query, query?, headers?);
        template.body = match body {
            Some(body) => Some(body?),
            None => None,
        };
        Some(CompiledRequest { upstream: upstream?, template: RequestTemplate::Http(template) })
    }

    /// Rejects keys that do not apply to an upstream of this kind.
    fn reject(
        &self,
        section: &OpenSection<'_>,
        keys: &[&'static str],
        upstream: Option<&UpstreamName>,
        is: &str,
    ) {
        for entry in keys.iter().filter_map(|key| section.entry(key)) {
            let whose =
                upstream.map_or_else(String::new, |upstream| format!(": the upstream `{upstream}` {is}"));
            let message = format!("`{}` has no effect{whose}", entry.key.text);
            self.report.error(Code::WrongUpstreamKind.at_span(entry.key.span), message, "remove it");
        }
    }

    fn only_upstream(&self, span: SourceSpan) -> Option<UpstreamName> {
        match self.upstreams.names {
            [(only, _)] => return Some(only.clone()),
            [] => self.report.error(
                Code::UnknownUpstream.at_span(span),
                "there are no upstreams",
                "add one: `upstreams: { NAME: http://HOST:PORT }`",
            ),
            several => {
                let names = suggest::quoted_list(several.iter().map(|(name, _)| name.as_str()));
                let help = "write `METHOD UPSTREAM/path`, or `upstream: NAME`";
                self.report.error(
                    Code::AmbiguousUpstream.at_span(span),
                    format!("`request` must name an upstream, because there are several: {names}"),
                    help,
                );
            }
        }
        None
    }

    fn upstream(&self, span: SourceSpan, name: &str) -> Option<UpstreamName> {
        find_upstream(self.report, self.upstreams.names, span, name)
    }

    /// Upstream with this name, if it has no errors.
    fn file(&self, name: &UpstreamName) -> Option<&UpstreamFile> {
        self.upstreams.files.iter().find(|file| file.settings.name() == name)
    }
}

/// Finds the upstream with a name, or reports an unknown one with a suggestion.
pub(super) fn find_upstream(
    report: &Report<'_>,
    upstreams: &[(UpstreamName, SourceSpan)],
    span: SourceSpan,
    name: &str,
) -> Option<UpstreamName> {
    let found = upstreams.iter().find(|(known, _)| known.as_str() == name);
    if found.is_none() {
        let known = suggest::help(name, "known upstreams", upstreams.iter().map(|(name, _)| name.as_str()));
        let help = known.unwrap_or_else(|| "add it: `upstreams: { NAME: http://HOST:PORT }`".to_owned());
        report.error(Code::UnknownUpstream.at_span(span), format!("unknown upstream `{name}`"), help);
    }
    found.map(|(name, _)| name.clone())
}

/// Whether it is the word for a command or a tool, in capitals or not.
fn is_other_word(text: &str) -> bool {
    [command::RUN, tool::CALL].iter().any(|word| word.eq_ignore_ascii_case(text))
}

fn method_of(report: &Report<'_>, span: SourceSpan, text: &str) -> Option<Method> {
    if METHODS.contains(&text) {
        return text.parse().ok();
    }
    if is_other_word(text) {
        let help = match text.eq_ignore_ascii_case(command::RUN) {
            true => "for a command, write `request: RUN UPSTREAM word {argument}` in one line",
            false => "for an MCP tool, write `request: CALL UPSTREAM/TOOL` in one line",
        };
        report.error(Code::InvalidMethod.at_span(span), format!("`{text}` is not an HTTP method"), help);
        return None;
    }
    let usual = suggest::nearest(text, METHODS);
    if let Some(usual) = usual.filter(|usual| usual.eq_ignore_ascii_case(text)) {
        // Methods are case-sensitive: `get` is a valid token, but not a registered method (RFC 9110, section
        // 9.1).
        report.error(
            Code::InvalidMethod.at_span(span),
            format!("the HTTP method must be in capitals, found `{text}`"),
            format!("write `{usual}`"),
        );
        return None;
    }
    let Ok(method) = text.parse::<Method>() else {
        let help = "write `GET`, `POST`, or another method, such as `PROPFIND`";
        report.error(Code::InvalidMethod.at_span(span), format!("`{text}` is not an HTTP method"), help);
        return None;
    };
    if method == Method::CONNECT {
        report.error(
            Code::InvalidMethod.at_span(span),
            "`CONNECT` is not supported: a tool can't use a tunnel",
            "use another method",
        );
        return None;
    }
    if let Some(usual) = usual {
        let message = format!("the method `{text}` looks like a misspelled `{usual}`; it is sent unchanged");
        report.warning(
            Code::UnusualMethod.at_span(span),
            message,
            format!("write `{usual}` if that was meant"),
        );
    }
    Some(method)
}
