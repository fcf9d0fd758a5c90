//! `request` and `rest`: the upstream request, and the REST endpoint of the tool.
//!
//! This file parses HTTP requests, whose parts are in `values`, and `rest`; `command` parses requests to
//! commands and MCP servers.

mod command;
mod values;

use http::Method;

use self::values::warn_of_colon_names;
use super::response::valid_part;
use super::route_tests::UpstreamKind;
use super::schemas::UsedArguments;
use super::section::{ReadElsewhere, cursor, open};
use super::upstreams::UpstreamFile;
use crate::inbound::rest::RESERVED;
use crate::route::{HttpTemplate, JsonTemplate, PathTemplate, RequestTemplate, RestEndpoint, UpstreamName};
use crate::settings::{
    Code, Kind, Named, Node, OneOrMore, OpenSection, Report, Scalar, Section, Setting, SourceSpan, ValueKind,
    suggest, text_of,
};
use crate::translate::expressions;
use crate::upstream::UpstreamSettings;

pub(super) use self::values::as_name;

/// Kinds of values that `request` accepts.
pub(super) const KIND: ValueKind = ValueKind::Either(&[ValueKind::Text, RequestSettings::KIND]);

/// Section `request`.
#[derive(Section)]
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
    query: Named<ReadElsewhere<OneOrMore<Scalar>>>,
    /// Headers: a template each.
    headers: Named<ReadElsewhere<Scalar>>,
    /// Body, in one of four forms.
    body: ReadElsewhere<BodySettings>,
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
#[derive(Section)]
#[section(id = "body")]
struct BodySettings {
    /// JSON, in which every text is a template; `"{{ args }}"` alone inserts the value itself.
    json: ReadElsewhere,
    /// Form fields: a template each.
    form: Named<ReadElsewhere<Scalar>>,
    /// XML: a template in which inserted values are escaped; the default `Content-Type` is `application/xml`.
    xml: ReadElsewhere<String>,
    /// Text: a template in which inserted values are not escaped.
    text: ReadElsewhere<String>,
}

/// Names that templates may use before there is a response.
pub(super) const NAMES: [&str; 2] = ["args", "input_responses"];
pub(super) const METHODS: [&str; 7] = ["GET", "POST", "PUT", "PATCH", "DELETE", "HEAD", "OPTIONS"];

const HELP: &str = "write `METHOD UPSTREAM/path`, such as `GET weather/forecast/{city}`";

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
            report.reject_type(node, "`request` must be a string or a map", HELP)
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
        let (report, span) = (self.report, node.span);
        let (word, target) = text.trim().split_once(char::is_whitespace).unwrap_or_else(|| (text.trim(), ""));
        let target = target.trim();
        match word {
            command::RUN => return self.run_line(node, target),
            _ if target.is_empty() => {
                let message = format!("`request` must have a method and a path, found {}", node.found());
                return report.reject(Code::InvalidRequest.at_span(span), message, HELP);
            }
            command::CALL => return self.call_line(node, target),
            _ => {}
        }
        let place = expressions::span_of_name(report, span, word);
        if !METHODS.contains(&word) && self.upstreams.names.iter().any(|(name, _)| name.as_str() == word) {
            let message = format!("`request` begins with the upstream `{word}`, and has no method");
            let help = format!("write `GET {word}/path`; `RUN {word} word` if the upstream is a command");
            return report.reject(Code::InvalidRequest.at_span(place), message, help);
        }
        let method = method_of(report, place, word);
        if is_other_word(word) {
            // The rest of such a line is no path.
            return None;
        }
        if target.contains("://") {
            let message = "`request` must name an upstream, not a URL";
            return report.reject(Code::InvalidRequest.at_span(span), message, HELP);
        }
        let slash = target.find(['/', '?']).unwrap_or(target.len());
        let (upstream, path) = target.split_at(slash);
        let upstream = self.upstream_in(node, upstream);
        if let Some(upstream) = &upstream {
            self.check_kind(span, upstream, UpstreamKind::Http)?;
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
        // If the upstream has errors, the keys decide which kind is meant.
        let has = |key: &str| section.get(key).is_some();
        let kind = match upstream.as_ref().and_then(|upstream| self.kind_of(upstream)) {
            Some(kind) => kind,
            None if has("tool") => UpstreamKind::McpServer,
            None if !has("path") && command::KEYS.into_iter().any(has) => UpstreamKind::Program,
            None => UpstreamKind::Http,
        };
        let before = report.errors();
        for entry in node.as_map().unwrap_or_default() {
            let Some(is) = reason_against(&entry.key.text, kind) else { continue };
            let whose = upstream.as_ref().map(|upstream| format!(": the upstream `{upstream}` {is}"));
            let message = format!("`{}` has no effect{}", entry.key.text, whose.unwrap_or_default());
            report.error(Code::WrongUpstreamKind.at_span(entry.key.span), message, "remove it");
        }
        let template = match kind {
            UpstreamKind::Http => {
                let template = self.http(&section)?;
                return Some(CompiledRequest {
                    upstream: upstream?,
                    template: RequestTemplate::Http(template),
                });
            }
            UpstreamKind::McpServer => RequestTemplate::Tool(self.tool(&section)?),
            UpstreamKind::Program => RequestTemplate::Command(self.command(&section, upstream.as_ref())?),
        };
        Some(CompiledRequest { upstream: upstream.filter(|_| report.errors() == before)?, template })
    }

    /// Parses the map form for an HTTP server.
    fn http(&mut self, section: &OpenSection<'_>) -> Option<HttpTemplate> {
        let report = self.report;
        let target = match section.get("path") {
            Some(node) => self.target(node, node.as_text()?),
            None => {
                section.missing("`request` has no `path`".to_owned(), "write `path: /forecast/{city}`");
                None
            }
        };
        let query = self.values(section.get("query"));
        let headers = self.headers(section.get("headers"));
        let body = section.entry("body").map(|entry| self.body(entry));
        let method = match section.get("method") {
            Some(node) => method_of(report, node.span, node.as_text()?)?,
            None if body.is_some() => Method::POST,
            None => Method::GET,
        };
        if body.is_some() && matches!(method, Method::GET | Method::HEAD) {
            let message = format!("a `{method}` request can't have a body");
            let help = "write `method: POST`, or send the values in `query`";
            return report.reject(Code::UnexpectedBody.at_span(section.value.place), message, help);
        }
        let (path, path_query) = target?;
        let (query, headers, body) = (query?, headers?, valid_part(body)?);
        Some(HttpTemplate { path_query, query, headers, body, ..HttpTemplate::new(method, path) })
    }

    /// Rejects a request to an upstream of another kind. An upstream with errors has no kind.
    fn check_kind(&self, place: SourceSpan, upstream: &UpstreamName, wanted: UpstreamKind) -> Option<()> {
        let Some(kind) = self.kind_of(upstream).filter(|kind| *kind != wanted) else { return Some(()) };
        let (message, help) = match (wanted, kind) {
            (UpstreamKind::Http, UpstreamKind::McpServer) => (
                format!("the upstream `{upstream}` is an MCP server, which has no method and path"),
                format!("write `CALL {upstream}/TOOL`"),
            ),
            (UpstreamKind::Http, _) => (
                format!("the upstream `{upstream}` is a command, which has no method and path"),
                format!("write `RUN {upstream} word {{argument}}`"),
            ),
            (UpstreamKind::McpServer, _) => (
                format!("`CALL` requires an MCP server, and the upstream `{upstream}` is not one"),
                format!("write `GET {upstream}/path`, or `mcp` in place of `url` at the upstream"),
            ),
            (UpstreamKind::Program, _) => (
                format!("`RUN` requires a command, and the upstream `{upstream}` is not one"),
                format!("write `GET {upstream}/path`"),
            ),
        };
        self.report.reject(Code::WrongUpstreamKind.at_span(place), message, help)
    }

    /// Kind of an upstream; `None` if it has errors.
    fn kind_of(&self, upstream: &UpstreamName) -> Option<UpstreamKind> {
        Some(match self.file(upstream)?.settings {
            UpstreamSettings::Command(_) => UpstreamKind::Program,
            UpstreamSettings::Mcp(_) => UpstreamKind::McpServer,
            UpstreamSettings::Http(_) | UpstreamSettings::Cgi(_) => UpstreamKind::Http,
        })
    }

    /// Finds the upstream that a line names, or the only one if the name is empty.
    fn upstream_in(&self, node: &Node, name: &str) -> Option<UpstreamName> {
        match name {
            "" => self.only_upstream(node.span),
            name => self.upstream(expressions::span_of_name(self.report, node.span, name), name),
        }
    }

    fn only_upstream(&self, span: SourceSpan) -> Option<UpstreamName> {
        match self.upstreams.names {
            [(only, _)] => Some(only.clone()),
            [] => {
                let help = "add one: `upstreams: { NAME: http://HOST:PORT }`";
                self.report.reject(Code::UnknownUpstream.at_span(span), "there are no upstreams", help)
            }
            several => {
                let names = suggest::quoted_list(several.iter().map(|(name, _)| name.as_str()));
                let message = format!("`request` must name an upstream, because there are several: {names}");
                let help = "write `METHOD UPSTREAM/path`, or `upstream: NAME`";
                self.report.reject(Code::AmbiguousUpstream.at_span(span), message, help)
            }
        }
    }

    fn upstream(&self, span: SourceSpan, name: &str) -> Option<UpstreamName> {
        find_upstream(self.report, self.upstreams.names, span, name)
    }

    /// Upstream with this name, if it has no errors.
    fn file(&self, name: &UpstreamName) -> Option<&UpstreamFile> {
        self.upstreams.files.iter().find(|file| file.settings.name() == name)
    }
}

/// Why a key of a request does not apply to an upstream of this kind.
fn reason_against(key: &str, kind: UpstreamKind) -> Option<&'static str> {
    let is_of_http = ["method", "path", "query", "headers", "body"].contains(&key);
    match (kind, key) {
        (UpstreamKind::Http, "tool") => Some("is not an MCP server"),
        (UpstreamKind::Http, _) => command::KEYS.contains(&key).then_some("is not a command"),
        (UpstreamKind::McpServer, "leading_dash_arguments" | "stdin") => Some("is an MCP server"),
        (UpstreamKind::McpServer, _) => is_of_http.then_some("is an MCP server"),
        (UpstreamKind::Program, _) => (is_of_http || key == "tool").then_some("is a command"),
    }
}

/// Finds the upstream with a name, or reports an unknown one with a suggestion.
pub(super) fn find_upstream(
    report: &Report<'_>,
    upstreams: &[(UpstreamName, SourceSpan)],
    span: SourceSpan,
    name: &str,
) -> Option<UpstreamName> {
    if let Some((known, _)) = upstreams.iter().find(|(known, _)| known.as_str() == name) {
        return Some(known.clone());
    }
    let known = suggest::help(name, "known upstreams", upstreams.iter().map(|(name, _)| name.as_str()));
    let help = known.unwrap_or_else(|| "add it: `upstreams: { NAME: http://HOST:PORT }`".to_owned());
    report.reject(Code::UnknownUpstream.at_span(span), format!("unknown upstream `{name}`"), help)
}

/// Whether it is the word for a command or a tool, in capitals or not.
fn is_other_word(text: &str) -> bool {
    [command::RUN, command::CALL].iter().any(|word| word.eq_ignore_ascii_case(text))
}

fn method_of(report: &Report<'_>, span: SourceSpan, text: &str) -> Option<Method> {
    if METHODS.contains(&text) {
        return text.parse().ok();
    }
    let at = Code::InvalidMethod.at_span(span);
    let not_a_method = format!("`{text}` is not an HTTP method");
    if is_other_word(text) {
        let help = match text.eq_ignore_ascii_case(command::RUN) {
            true => "for a command, write `request: RUN UPSTREAM word {argument}` in one line",
            false => "for an MCP tool, write `request: CALL UPSTREAM/TOOL` in one line",
        };
        return report.reject(at, not_a_method, help);
    }
    let usual = suggest::nearest(text, METHODS);
    if let Some(usual) = usual.filter(|usual| usual.eq_ignore_ascii_case(text)) {
        // Methods are case-sensitive: `get` is a valid token, but not a registered method (RFC 9110, section
        // 9.1).
        let message = format!("the HTTP method must be in capitals, found `{text}`");
        return report.reject(at, message, format!("write `{usual}`"));
    }
    let Ok(method) = text.parse::<Method>() else {
        return report.reject(at, not_a_method, "write `GET`, `POST`, or another method, such as `PROPFIND`");
    };
    if method == Method::CONNECT {
        let message = "`CONNECT` is not supported: a tool can't use a tunnel";
        return report.reject(at, message, "use another method");
    }
    if let Some(usual) = usual {
        let message = format!("the method `{text}` looks like a misspelled `{usual}`; it is sent unchanged");
        let help = format!("write `{usual}` if that was meant");
        report.warning(Code::UnusualMethod.at_span(span), message, help);
    }
    Some(method)
}

/// Parses `rest`.
pub(super) fn rest(report: &Report<'_>, node: &Node, used: &mut UsedArguments) -> Option<RestEndpoint> {
    let text = text_of(&cursor(report, node.span, node, "`rest`", ValueKind::Text)).ok()?;
    let help = "write `METHOD /path/{argument}`, such as `POST /weather`";
    let invalid = Code::InvalidEndpoint.at_span(node.span);
    let Some((method, path)) = text.trim().split_once(char::is_whitespace) else {
        let message = format!("`rest` must have a method and a path, found {}", node.found());
        return report.reject(invalid, message, help);
    };
    let path = path.trim();
    warn_of_colon_names(report, node.span, path);
    let method = method_of(report, expressions::span_of_name(report, node.span, method), method)?;
    if matches!(method, Method::HEAD | Method::OPTIONS) {
        let message = format!("`rest` can't use the method `{method}`");
        return report.reject(Code::InvalidMethod.at_span(node.span), message, "use `GET` or `POST`");
    }
    let template = match PathTemplate::parse(path) {
        Ok(template) => template,
        Err(error) => return report.reject(invalid, error.to_string(), help),
    };
    let own = |reserved: &str| path == reserved || path.starts_with(&format!("{reserved}/"));
    if let Some(reserved) = RESERVED.iter().find(|reserved| own(reserved)) {
        let message = format!("the path `{path}` is reserved: glossator uses `{reserved}` itself");
        let help = "choose another, such as `/weather`; `POST /tools/NAME` always exists";
        return report.reject(invalid, message, help);
    }
    let is_valid_segment = |segment: &str| {
        !segment.contains('{') || (segment.starts_with('{') && segment.find('}') == Some(segment.len() - 1))
    };
    if let Some(segment) = path.split('/').find(|segment| !is_valid_segment(segment)) {
        let message = format!("an argument in a REST path must be a whole segment, found `{segment}`");
        let help = "write `/reports/{id}`; only the path of the upstream request can have other characters in the segment";
        return report.reject(invalid, message, help);
    }
    let names: Vec<&str> = template.arguments().collect();
    let is_repeated = |(at, name): &(usize, &&str)| names[..*at].contains(name);
    if let Some((_, twice)) = names.iter().enumerate().find(is_repeated) {
        let message = format!("the path contains the argument `{twice}` twice");
        return report.reject(invalid, message, "remove one of the two");
    }
    for name in names {
        used.add(name, false, expressions::span_of_name(report, node.span, name));
    }
    Some(RestEndpoint { method, path: path.to_owned() })
}
