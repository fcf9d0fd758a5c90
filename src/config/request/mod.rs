//! `request` and `rest`: the upstream request and the REST endpoint of a route.
//!
//! This file parses HTTP requests and `rest`. `values` parses path, query, headers and body of an HTTP
//! request; `command` parses requests to commands and MCP servers.

mod command;
mod values;

use http::{HeaderName, Method};

use self::values::{
    RequestTarget, read_headers, read_json, read_target, read_text, target, warn_of_colon_names,
};
use super::route_tests::UpstreamKind;
use super::schemas::UsedArguments;
use super::section::{ReadElsewhere, cursor, in_scope};
use super::upstreams::ParsedUpstream;
use crate::inbound::rest::RESERVED;
use crate::route::{
    HttpTemplate, JsonTemplate, PathTemplate, RequestBodyTemplate, RequestTemplate, RestEndpoint,
    UpstreamName, ValueTemplate,
};
use crate::settings::{
    Checked, Code, Cursor, Entry, Kind, Named, Node, OneOrMore, OpenSection, Report, Section, Setting,
    SourceSpan, ValueKind, suggest, text_of,
};
use crate::translate::Template;
use crate::upstream::UpstreamSettings;

pub(super) use self::values::{add_argument, as_name, span_of};

/// Kinds of values that `request` accepts.
pub(super) const KIND: ValueKind = ValueKind::Either(&[ValueKind::Text, RequestSettings::KIND]);

/// Section `request`.
#[derive(Section)]
#[section(id = "request")]
pub(super) struct RequestSettings {
    /// Upstream of the request; optional with a single upstream.
    upstream: Option<String>,
    /// HTTP method, such as `GET` or `PROPFIND`.
    #[key(kind = ValueKind::Text, with = read_method, shown = "`GET`, or `POST` with a body")]
    method: Option<Method>,
    /// Path, with arguments as `{name}`; may end in `?name={argument}`.
    #[key(kind = ValueKind::Text, with = read_target)]
    path: Option<RequestTarget>,
    /// Query parameters: a template each, or a list of them.
    query: Named<OneOrMore<ValueTemplate>>,
    /// Headers: a template each.
    #[key(kind = ValueKind::Map(&ValueKind::Scalar), with = read_headers)]
    headers: Option<Vec<(HeaderName, ValueTemplate)>>,
    /// Body, in one of four forms.
    body: Option<RequestBodyTemplate>,
    /// MCP servers: name of the tool, as the server lists it.
    tool: Option<String>,
    /// Commands: further arguments, a template each. MCP tools: arguments, in which every string is a
    /// template; by default, all arguments of the call.
    #[key(kind = ValueKind::Either(&[ValueKind::List(&ValueKind::Scalar), ValueKind::Map(&ValueKind::Anything)]))]
    arguments: ReadElsewhere,
    /// Commands: arguments whose value may start with `-`. The command then reads it as an option.
    leading_dash_arguments: Vec<(String, SourceSpan)>,
    /// Commands: standard input, as a template or in one of the four body forms.
    #[key(kind = ValueKind::Either(&[ValueKind::Text, BodySettings::KIND]))]
    stdin: ReadElsewhere,
}

/// Section `body` of a request.
#[derive(Section)]
#[section(id = "body")]
struct BodySettings {
    /// JSON, in which every string is a template; `"{{ args }}"` alone inserts the value itself.
    #[key(with = read_json)]
    json: Option<JsonTemplate>,
    /// Form fields: a template each.
    #[key(kind = ValueKind::Map(&ValueKind::Scalar))]
    form: Option<Named<OneOrMore<ValueTemplate>>>,
    /// XML: a template in which inserted values are escaped; the default `Content-Type` is `application/xml`.
    #[key(with = read_text)]
    xml: Option<Template>,
    /// Text: a template in which inserted values are not escaped.
    #[key(with = read_text)]
    text: Option<Template>,
}

/// Variables of templates that are rendered before there is a response.
pub(super) const VARIABLES: [&str; 2] = ["args", "input_responses"];
/// Common HTTP methods, for checks of capitalization and spelling. Other methods except `CONNECT` are
/// accepted too.
pub(super) const USUAL_METHODS: [&str; 7] = ["GET", "POST", "PUT", "PATCH", "DELETE", "HEAD", "OPTIONS"];

const HELP: &str = "write `METHOD UPSTREAM/path`, such as `GET weather/forecast/{city}`";

/// Request template of a route or an asynchronous operation, with its upstream.
pub(super) struct CompiledRequest {
    pub(super) upstream: UpstreamName,
    pub(super) template: RequestTemplate,
}

/// Upstreams that a request can refer to.
#[derive(Clone, Copy)]
pub(super) struct Upstreams<'a> {
    /// Names of all upstreams in the file. Upstreams with errors are included, so that they are not reported
    /// as unknown too.
    pub(super) names: &'a [(UpstreamName, SourceSpan)],
    /// Upstreams without errors.
    pub(super) files: &'a [ParsedUpstream],
}

impl<'a> Upstreams<'a> {
    /// Finds an upstream by name. An unknown name is reported with a suggestion.
    pub(super) fn find(self, report: &Report<'_>, span: SourceSpan, name: &str) -> Option<UpstreamName> {
        let names = || self.names.iter().map(|(name, _)| name);
        if let Some(known) = names().find(|known| known.as_str() == name) {
            return Some(known.clone());
        }
        let suggestion = suggest::help(name, "known upstreams", names().map(UpstreamName::as_str));
        let help = suggestion.unwrap_or_else(|| "add it: `upstreams: { NAME: http://HOST:PORT }`".to_owned());
        report.reject(Code::UnknownUpstream.at_span(span), format!("unknown upstream `{name}`"), help)
    }

    /// Returns an upstream by name; `None` if the upstream has errors.
    pub(super) fn file(self, name: &UpstreamName) -> Option<&'a ParsedUpstream> {
        self.files.iter().find(|upstream| upstream.settings.name() == name)
    }
}

/// Parser of one request, in one line or as a map.
struct RequestParser<'a> {
    value: Cursor<'a>,
    upstreams: Upstreams<'a>,
}

/// Parses `request`, or a request of an asynchronous operation. Returns `None` after reporting the problems.
pub(super) fn read(
    report: &Report<'_>,
    upstreams: Upstreams<'_>,
    entry: &Entry,
    used: &mut UsedArguments,
) -> Option<CompiledRequest> {
    let name = format!("`{}`", entry.key.text);
    let value = cursor(report, entry.key.span, &entry.value, &name, KIND);
    values::warn_of_secrets(report, &entry.value);
    let mut request = in_scope(&VARIABLES, used, |scope| {
        let parser = RequestParser { value: value.in_scope(scope), upstreams };
        match &entry.value.kind {
            Kind::Text(text) => parser.line(text),
            Kind::Map(_) => parser.map(),
            Kind::Null | Kind::Boolean(_) | Kind::Number(_) | Kind::List(_) => {
                value.reject_kind("a string or a map", Some(HELP.to_owned()))
            }
        }
    })?;
    if let RequestTemplate::Http(template) = &mut request.template {
        let settings = upstreams.file(&request.upstream).map(|upstream| &upstream.settings);
        template.path.is_sent_decoded = matches!(settings, Some(UpstreamSettings::Cgi(_)));
    }
    Some(request)
}

impl RequestParser<'_> {
    fn line(&self, text: &str) -> Checked<CompiledRequest> {
        let (value, name) = (&self.value, self.value.name);
        let invalid = Code::InvalidRequest.at_span(value.node.span);
        let (word, target) = text.trim().split_once(char::is_whitespace).unwrap_or_else(|| (text.trim(), ""));
        let target = target.trim();
        match word {
            command::RUN => return self.run_line(target),
            _ if target.is_empty() => {
                let message =
                    format!("{name} must have a method and a path, found {}", value.node.describe());
                return value.reject_coded(invalid, message, HELP);
            }
            command::CALL => return self.call_line(target),
            _ => {}
        }
        let span = span_of(value, word);
        if !USUAL_METHODS.contains(&word) && self.names().any(|known| known == word) {
            let message = format!("{name} begins with the upstream `{word}`, and has no method");
            let help = format!("write `GET {word}/path`; `RUN {word} word` if the upstream is a command");
            return value.reject_coded(Code::InvalidRequest.at_span(span), message, help);
        }
        let method = method_of(value, span, word)?;
        // A URL may be part of the path or query: `GET archive/save/http://HOST`.
        if target.split_once("://").is_some_and(|(scheme, _)| !scheme.contains(['/', '?'])) {
            return value.reject_coded(invalid, format!("{name} must name an upstream, not a URL"), HELP);
        }
        let slash = target.find(['/', '?']).unwrap_or(target.len());
        let (upstream, path) = target.split_at(slash);
        let upstream = self.upstream_in(upstream);
        if let Ok(upstream) = &upstream {
            self.check_kind(value.node.span, upstream, UpstreamKind::Http)?;
        }
        let RequestTarget(path, path_query) = self::target(value, if path.is_empty() { "/" } else { path })?;
        let template = HttpTemplate { method, path, path_query, ..HttpTemplate::default() };
        Ok(CompiledRequest { upstream: upstream?, template: RequestTemplate::Http(template) })
    }

    fn map(&self) -> Checked<CompiledRequest> {
        let report = self.value.context.report;
        let section = OpenSection::open(&self.value, RequestSettings::keys())?;
        let settings = RequestSettings::read_fields(&section, None);
        let upstream = match section.get("upstream").map(|node| (node.span, node.as_text())) {
            Some((span, Some(name))) => self.upstream(span, name),
            // Parsing the fields has already reported this problem.
            Some((_, None)) => self.value.checked(None),
            None => self.only_upstream(self.value.key_span),
        };
        // If the upstream has errors, its kind is inferred from the keys of the request.
        let has = |key: &str| section.get(key).is_some();
        let kind = match upstream.as_ref().ok().and_then(|upstream| self.kind_of(upstream)) {
            Some(kind) => kind,
            None if has("tool") => UpstreamKind::McpServer,
            None if !has("path") && ["arguments", "leading_dash_arguments", "stdin"].into_iter().any(has) => {
                UpstreamKind::Program
            }
            None => UpstreamKind::Http,
        };
        let (predicate, own_keys) = predicate_and_keys(kind);
        let is_unused = |name: &str| RequestSettings::keys().get(name).is_some() && !own_keys.contains(&name);
        let entries = self.value.node.as_map().unwrap_or_default();
        for Entry { key, .. } in entries.iter().filter(|entry| is_unused(&entry.key.text)) {
            let reason = upstream.as_ref().map(|upstream| format!(": the upstream `{upstream}` {predicate}"));
            let message = format!("`{}` has no effect{}", key.text, reason.unwrap_or_default());
            report.error(Code::WrongUpstreamKind.at_span(key.span), message, "remove it");
        }
        if let Some(method @ ("GET" | "HEAD")) = section.get("method").and_then(Node::as_text)
            && kind == UpstreamKind::Http
            && has("body")
        {
            let message = format!("a `{method}` request can't have a body");
            let help = "write `method: POST`, or send the values in `query`";
            report.error(Code::UnexpectedBody.at_span(self.value.key_span), message, help);
        }
        section.check_valid(&[])?;
        let settings = settings?;
        let template = match kind {
            UpstreamKind::Http => RequestTemplate::Http(self.http(&section, settings)?),
            UpstreamKind::McpServer => RequestTemplate::Tool(self.tool(&section, settings.tool.as_deref())?),
            UpstreamKind::Program => {
                let upstream = upstream.as_ref().ok();
                RequestTemplate::Command(self.command(&section, upstream, settings.leading_dash_arguments)?)
            }
        };
        Ok(CompiledRequest { upstream: upstream?, template })
    }

    /// Builds the template of an HTTP request from the map form.
    fn http(&self, section: &OpenSection<'_>, settings: RequestSettings) -> Checked<HttpTemplate> {
        let RequestSettings { method, path, query, headers, body, .. } = settings;
        let Some(RequestTarget(path, path_query)) = path else {
            let message = format!("{} has no `path`", self.value.name);
            return Err(section.missing(message, "write `path: /forecast/{city}`"));
        };
        let default = if body.is_some() { Method::POST } else { Method::GET };
        let method = method.unwrap_or(default);
        let (query, headers) = (values::parameters(query), headers.unwrap_or_default());
        Ok(HttpTemplate { method, path, path_query, query, headers, body, ..HttpTemplate::default() })
    }

    /// Rejects a request to an upstream of another kind. If the upstream has errors, its kind is not known
    /// and not checked.
    fn check_kind(&self, span: SourceSpan, upstream: &UpstreamName, expected: UpstreamKind) -> Checked<()> {
        let Some(kind) = self.kind_of(upstream).filter(|kind| *kind != expected) else { return Ok(()) };
        let help = match kind {
            UpstreamKind::Http => format!("write `GET {upstream}/path`"),
            UpstreamKind::McpServer => format!("write `CALL {upstream}/TOOL`"),
            UpstreamKind::Program => format!("write `RUN {upstream} word {{argument}}`"),
        };
        let (name, predicate) = (self.value.name, predicate_and_keys(kind).0);
        let message = format!("{name} does not fit the upstream `{upstream}`, which {predicate}");
        self.value.reject_coded(Code::WrongUpstreamKind.at_span(span), message, help)
    }

    /// Returns the kind of an upstream; `None` if the upstream has errors.
    fn kind_of(&self, upstream: &UpstreamName) -> Option<UpstreamKind> {
        Some(match self.upstreams.file(upstream)?.settings {
            UpstreamSettings::Command(_) => UpstreamKind::Program,
            UpstreamSettings::Mcp(_) => UpstreamKind::McpServer,
            UpstreamSettings::Http(_) | UpstreamSettings::Cgi(_) => UpstreamKind::Http,
        })
    }

    /// Finds the upstream that a one-line request refers to; an empty name refers to the only upstream.
    fn upstream_in(&self, name: &str) -> Checked<UpstreamName> {
        match name {
            "" => self.only_upstream(self.value.node.span),
            name => self.upstream(span_of(&self.value, name), name),
        }
    }

    fn only_upstream(&self, span: SourceSpan) -> Checked<UpstreamName> {
        match self.upstreams.names {
            [(only, _)] => Ok(only.clone()),
            [] => {
                let help = "add one: `upstreams: { NAME: http://HOST:PORT }`";
                self.value.reject_coded(Code::UnknownUpstream.at_span(span), "there are no upstreams", help)
            }
            _ => {
                let (name, names) = (self.value.name, suggest::quoted_list(self.names()));
                let message = format!("{name} must name an upstream, because there are several: {names}");
                let help = "write `METHOD UPSTREAM/path`, or `upstream: NAME`";
                self.value.reject_coded(Code::AmbiguousUpstream.at_span(span), message, help)
            }
        }
    }

    fn upstream(&self, span: SourceSpan, name: &str) -> Checked<UpstreamName> {
        self.value.checked(self.upstreams.find(self.value.context.report, span, name))
    }

    fn names(&self) -> impl Iterator<Item = &str> {
        self.upstreams.names.iter().map(|(name, _)| name.as_str())
    }
}

/// Returns a predicate that describes the kind of upstream in error messages, and the keys of requests to it.
fn predicate_and_keys(kind: UpstreamKind) -> (&'static str, &'static [&'static str]) {
    match kind {
        UpstreamKind::Http => {
            ("takes HTTP requests", &["upstream", "method", "path", "query", "headers", "body"])
        }
        UpstreamKind::McpServer => ("is an MCP server", &["upstream", "tool", "arguments"]),
        UpstreamKind::Program => {
            ("is a command", &["upstream", "arguments", "leading_dash_arguments", "stdin"])
        }
    }
}

/// Names of the upstreams of a file, including upstreams with errors.
pub(super) fn upstream_names(entries: &[Entry]) -> Vec<(UpstreamName, SourceSpan)> {
    entries.iter().filter_map(|entry| Some((entry.key.text.parse().ok()?, entry.key.span))).collect()
}

fn read_method(value: &Cursor<'_>) -> Checked<Option<Method>> {
    method_of(value, value.node.span, text_of(value)?).map(Some)
}

fn method_of(value: &Cursor<'_>, span: SourceSpan, text: &str) -> Checked<Method> {
    let at = Code::InvalidMethod.at_span(span);
    let not_a_method = format!("`{text}` is not an HTTP method");
    if [command::RUN, command::CALL].contains(&text.to_ascii_uppercase().as_str()) {
        let help = "for a command, write `request: RUN UPSTREAM word {argument}` in one line; for an MCP \
                    tool, write `request: CALL UPSTREAM/TOOL`";
        return value.reject_coded(at, not_a_method, help);
    }
    // Methods are case-sensitive: `get` is a valid token, but not a registered method (RFC 9110, section
    // 9.1).
    if let Some(usual) =
        USUAL_METHODS.into_iter().find(|usual| *usual != text && usual.eq_ignore_ascii_case(text))
    {
        let message = format!("the HTTP method must be in capitals, found `{text}`");
        return value.reject_coded(at, message, format!("write `{usual}`"));
    }
    let Ok(method) = text.parse::<Method>() else {
        let bare = text.trim_matches(|c: char| !c.is_ascii_alphabetic());
        let help = match USUAL_METHODS.into_iter().find(|usual| usual.eq_ignore_ascii_case(bare)) {
            Some(usual) => format!("write `{usual}` without `{}`", text.replace(bare, "")),
            None => "write `GET`, `POST`, or another method, such as `PROPFIND`".to_owned(),
        };
        return value.reject_coded(at, not_a_method, help);
    };
    if method == Method::CONNECT {
        let message = "`CONNECT` is not supported: a tool can't use a tunnel";
        return value.reject_coded(at, message, "use another method");
    }
    if let Some(usual) = suggest::nearest(text, USUAL_METHODS).filter(|usual| *usual != text) {
        let message = format!("the method `{text}` looks like a misspelled `{usual}`; it is sent unchanged");
        let help = format!("write `{usual}` if that was meant");
        value.context.report.warning(Code::UnusualMethod.at_span(span), message, help);
    }
    Ok(method)
}

/// Parses `rest` of a route.
impl Setting for RestEndpoint {
    fn read(value: &Cursor<'_>) -> Checked<Self> {
        let help = "write `METHOD /path/{argument}`, such as `POST /weather`";
        let (text, invalid) = (text_of(value)?, Code::InvalidEndpoint.at_span(value.node.span));
        let Some((method, path)) = text.trim().split_once(char::is_whitespace) else {
            let message = format!("`rest` must have a method and a path, found {}", value.node.describe());
            return value.reject_coded(invalid, message, help);
        };
        let path = path.trim();
        warn_of_colon_names(value, path);
        let method = method_of(value, span_of(value, method), method)?;
        if matches!(method, Method::HEAD | Method::OPTIONS) {
            let message = format!("`rest` can't use the method `{method}`");
            let at = Code::InvalidMethod.at_span(value.node.span);
            return value.reject_coded(at, message, "use `GET` or `POST`");
        }
        let template = PathTemplate::parse(path);
        let template = template.or_else(|error| value.reject_coded(invalid, error.to_string(), help))?;
        let is_within = |reserved: &str| path == reserved || path.starts_with(&format!("{reserved}/"));
        if let Some(reserved) = RESERVED.iter().find(|reserved| is_within(reserved)) {
            let message = format!("the path `{path}` is reserved: glossator uses `{reserved}` itself");
            let help = "choose another, such as `/weather`; `POST /tools/NAME` always exists";
            return value.reject_coded(invalid, message, help);
        }
        let is_whole =
            |segment: &str| segment.starts_with('{') && segment.find('}') == Some(segment.len() - 1);
        let is_valid = |segment: &str| !segment.contains('{') || is_whole(segment);
        if let Some(segment) = path.split('/').find(|segment| !is_valid(segment)) {
            let message = format!("an argument in a REST path must be a whole segment, found `{segment}`");
            let help = "write `/reports/{id}`; only the path of the upstream request can have other \
                        characters in the segment";
            return value.reject_coded(invalid, message, help);
        }
        let names: Vec<&str> = template.arguments().collect();
        let is_repeated = |(index, name): &(usize, &&str)| names[..*index].contains(name);
        if let Some((_, repeated)) = names.iter().enumerate().find(is_repeated) {
            let message = format!("the path contains the argument `{repeated}` twice");
            return value.reject_coded(invalid, message, "remove one of the two");
        }
        names.iter().for_each(|name| add_argument(value, name, false));
        Ok(Self { method, path: path.to_owned() })
    }
}
