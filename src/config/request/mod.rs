//! `request` and `rest`: what the upstream is asked, and where REST clients find the tool.
//!
//! What is asked by HTTP is read here, what a `command` is asked there, and of an MCP server a `tool`.

mod command;
mod tool;

use http::Method;
use percent_encoding::percent_decode_str;

use super::{
    keys::{BODY, REQUEST},
    language,
    node::{Entry, Kind, Node},
    report::Report,
    schemas::Asked,
    section::{self, Section},
    source::Span,
    suggest,
    upstreams::{UpstreamFile, header_name, scalar},
};
use crate::{
    face::rest::RESERVED,
    route::{
        BodyTemplate, HttpTemplate, JsonTemplate, PathTemplate, RequestTemplate, RestEndpoint, UpstreamName,
        ValueTemplate,
    },
    rule::Template,
};

/// Names that the templates of a request may use.
const NAMES: [&str; 2] = ["args", "answers"];
/// The keys of a request that are for HTTP only.
const HTTP_KEYS: [&str; 5] = ["method", "path", "query", "headers", "body"];
pub(super) const METHODS: [&str; 7] = ["GET", "POST", "PUT", "PATCH", "DELETE", "HEAD", "OPTIONS"];

/// A request as written, and what it asks of the arguments.
pub(super) struct Compiled {
    pub(super) upstream: UpstreamName,
    pub(super) template: RequestTemplate,
}

/// The upstreams that a request may name.
#[derive(Clone, Copy)]
pub(super) struct Upstreams<'a> {
    /// Every name that is written.
    pub(super) names: &'a [(UpstreamName, Span)],
    /// Those that could be read.
    pub(super) files: &'a [UpstreamFile],
}

/// Reads the parts of a request one by one.
struct Reader<'s, 'f> {
    report: &'s Report<'f>,
    upstreams: Upstreams<'s>,
    asked: &'s mut Asked,
}

/// Reads `request`. `None` when something is wrong with it; that has been reported then.
pub(super) fn read(
    report: &Report<'_>,
    upstreams: Upstreams<'_>,
    node: &Node,
    place: Span,
    asked: &mut Asked,
) -> Option<Compiled> {
    let mut reader = Reader { report, upstreams, asked };
    match &node.kind {
        Kind::Text(text) => reader.line(node, &text.text),
        Kind::Map(_) => reader.map(node, place),
        Kind::Nothing | Kind::Flag(_) | Kind::Number(_) | Kind::List(_) => {
            let message = format!("`request` is a line or a map, found {}", node.found());
            report.error(
                node.span,
                message,
                "write `METHOD UPSTREAM/path`, such as `GET weather/forecast/{city}`",
            );
            None
        }
    }
}

/// Reads a value with templates in it. `None` when something is wrong with it; that has been reported then.
pub(super) fn value(report: &Report<'_>, node: &Node, what: &str, asked: &mut Asked) -> Option<JsonTemplate> {
    let upstreams = Upstreams { names: &[], files: &[] };
    Reader { report, upstreams, asked }.json(node, what)
}

impl Reader<'_, '_> {
    fn line(&mut self, node: &Node, text: &str) -> Option<Compiled> {
        let span = node.span;
        let help = "write `METHOD UPSTREAM/path`, such as `GET weather/forecast/{city}`";
        let Some((method, target)) = text.trim().split_once(char::is_whitespace) else {
            if text.trim() == command::RUN {
                return self.run_line(node, "");
            }
            self.report.error(
                span,
                format!("a request has a method and a path, found {}", node.found()),
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
        let method = method_of(self.report, language::words_in(self.report, span, method), method);
        if target.contains("://") {
            self.report.error(span, "a request names an upstream, not an address", help);
            return None;
        }
        let slash = target.find(['/', '?']).unwrap_or(target.len());
        let (upstream, path) = target.split_at(slash);
        let upstream = match upstream {
            "" => self.only_upstream(span),
            name => self.upstream(language::words_in(self.report, span, name), name),
        };
        if let Some(upstream) = &upstream {
            self.refuse_command(span, upstream)?;
            self.refuse_server(span, upstream)?;
        }
        let (path, query) = self.target(node, if path.is_empty() { "/" } else { path })?;
        let mut template = HttpTemplate::new(method?, path);
        template.query = query;
        Some(Compiled { upstream: upstream?, template: RequestTemplate::Http(template) })
    }

    fn map(&mut self, node: &Node, place: Span) -> Option<Compiled> {
        let report = self.report;
        let section = Section::open(report, place, node, &REQUEST)?;
        let upstream = match section.text_node("upstream") {
            Some((node, name)) => self.upstream(node.span, name),
            None if section.get("upstream").is_some() => None,
            None => self.only_upstream(place),
        };
        if self.is_of_tool(&section, upstream.as_ref()) {
            return self.tool(&section, upstream);
        }
        // Of an upstream that is not right, the keys tell what it is meant to be.
        let is_command = match upstream.as_ref().and_then(|upstream| self.is_command(upstream)) {
            Some(is_command) => is_command,
            None => {
                section.get("path").is_none() && command::KEYS.iter().any(|key| section.get(key).is_some())
            }
        };
        if is_command {
            return self.command(&section, upstream);
        }
        self.refuse(&section, &command::KEYS, upstream.as_ref(), "is no command");
        self.refuse(&section, &[tool::KEY], upstream.as_ref(), "is no MCP server");
        let target = section.required("path", "write `path: /forecast/{city}`").and_then(|node| {
            let text = section::text_of(report, node, "`path`")?;
            self.target(node, text)
        });
        let more = self.values(section.map("query"));
        let headers = self.headers(section.map("headers"));
        let body = section.section("body", &BODY).map(|body| self.body(&body));
        let method = match section.text_node("method") {
            Some((node, method)) => method_of(report, node.span, method)?,
            None if body.is_some() => Method::POST,
            None => Method::GET,
        };
        if body.is_some() && matches!(method, Method::GET | Method::HEAD) {
            let message = format!("a `{method}` request has no body");
            report.error(place, message, "write `method: POST`, or send the values in `query`");
            return None;
        }
        let (path, mut query) = target?;
        query.extend(more?);
        let mut template = HttpTemplate::new(method, path);
        (template.query, template.headers) = (query, headers?);
        template.body = match body {
            Some(body) => Some(body?),
            None => None,
        };
        Some(Compiled { upstream: upstream?, template: RequestTemplate::Http(template) })
    }

    /// Says that keys have no place in a request to an upstream of this kind.
    fn refuse(
        &self,
        section: &Section<'_, '_>,
        keys: &[&'static str],
        upstream: Option<&UpstreamName>,
        is: &str,
    ) {
        for entry in keys.iter().filter_map(|key| section.entry(key)) {
            let whose =
                upstream.map_or_else(String::new, |upstream| format!(": the upstream `{upstream}` {is}"));
            let message = format!("`{}` has no effect{whose}", entry.key.text);
            self.report.error(entry.key.span, message, "leave it out");
        }
    }

    fn only_upstream(&self, span: Span) -> Option<UpstreamName> {
        match self.upstreams.names {
            [(only, _)] => return Some(only.clone()),
            [] => self.report.error(
                span,
                "there is no upstream to ask",
                "name one: `upstreams: { NAME: http://HOST:PORT }`",
            ),
            several => {
                let names = suggest::listed(several.iter().map(|(name, _)| name.as_str()));
                let help = "write `METHOD UPSTREAM/path`, or `upstream: NAME`";
                self.report.error(
                    span,
                    format!("there are several upstreams, {names}: name the one to ask"),
                    help,
                );
            }
        }
        None
    }

    fn upstream(&self, span: Span, name: &str) -> Option<UpstreamName> {
        find_upstream(self.report, self.upstreams.names, span, name)
    }

    /// An upstream as it was read.
    fn file(&self, name: &UpstreamName) -> Option<&UpstreamFile> {
        self.upstreams.files.iter().find(|file| file.settings.name() == name)
    }

    /// A path with arguments, and the query after its `?`.
    fn target(&mut self, node: &Node, text: &str) -> Option<(PathTemplate, Vec<(String, ValueTemplate)>)> {
        let (path, query) = text.split_once('?').unwrap_or((text, ""));
        let path = match PathTemplate::parse(path) {
            Ok(path) => path,
            Err(error) => {
                self.report.error(node.span, error.to_string(), "write `/forecast/{city}`");
                return None;
            }
        };
        for name in path.arguments() {
            self.asked.add(name, false, language::words_in(self.report, node.span, name));
        }
        let mut parameters = Vec::new();
        for pair in query.split('&').filter(|pair| !pair.is_empty()) {
            let decode =
                |text: &str| percent_decode_str(&text.replace('+', " ")).decode_utf8_lossy().into_owned();
            match pair.split_once('=') {
                None => parameters.push((decode(pair), ValueTemplate::NameOnly)),
                Some((name, value)) => {
                    parameters.push((decode(name), self.query_value(node, &decode(value))?))
                }
            }
        }
        Some((path, parameters))
    }

    /// The value of a parameter in a line: a text with `{argument}` in it.
    fn query_value(&mut self, node: &Node, value: &str) -> Option<ValueTemplate> {
        if value.contains("{{") {
            let help =
                "in a line an argument is written `{name}`; templates go into the map form, under `query`";
            self.report.error(node.span, "a request in a line takes no templates", help);
            return None;
        }
        let path = match PathTemplate::parse(&format!(
            "/{}",
            value.replace(|c: char| c != '{' && c != '}' && !is_name(c), "-")
        )) {
            Ok(path) => path,
            Err(error) => {
                self.report.error(node.span, error.to_string(), "write `?units={units}`");
                return None;
            }
        };
        for name in path.arguments() {
            self.asked.add(name, false, language::words_in(self.report, node.span, name));
        }
        if let Some(name) = value
            .strip_prefix('{')
            .and_then(|rest| rest.strip_suffix('}'))
            .filter(|name| name.chars().all(is_name))
        {
            return Some(ValueTemplate::Argument(name.to_owned()));
        }
        let jinja = value.replace('{', "{{ args.").replace('}', " }}");
        match Template::compile(&jinja) {
            Ok(template) => Some(ValueTemplate::Text(template)),
            Err(error) => {
                self.report.error(
                    node.span,
                    format!("the query can't be read: {error}"),
                    "use the map form, with `query`",
                );
                None
            }
        }
    }

    fn values(&mut self, entries: Option<&[Entry]>) -> Option<Vec<(String, ValueTemplate)>> {
        let mut values = Vec::new();
        let mut good = true;
        for Entry { key, value } in entries.unwrap_or_default() {
            let items = match &value.kind {
                Kind::List(items) => items.as_slice(),
                Kind::Nothing | Kind::Flag(_) | Kind::Number(_) | Kind::Text(_) | Kind::Map(_) => {
                    std::slice::from_ref(value)
                }
            };
            for item in items {
                match self.value(item, &format!("`{}`", key.text)) {
                    Some(template) => values.push((key.text.clone(), template)),
                    None => good = false,
                }
            }
        }
        good.then_some(values)
    }

    fn value(&mut self, node: &Node, what: &str) -> Option<ValueTemplate> {
        if let Some(name) = node.as_text().and_then(single_argument) {
            self.asked.add(name, false, language::words_in(self.report, node.span, name));
            return Some(ValueTemplate::Argument(name.to_owned()));
        }
        self.template(node, what).map(ValueTemplate::Text)
    }

    fn headers(&mut self, entries: Option<&[Entry]>) -> Option<Vec<(http::HeaderName, Template)>> {
        let mut headers = Vec::new();
        let mut good = true;
        for Entry { key, value } in entries.unwrap_or_default() {
            let name = header_name(self.report, &key.text, key.span);
            if value.as_text().is_some_and(|text| text.contains("${") || text.starts_with("file:")) {
                let help = "put it under `headers` of the upstream; the headers of a request are templates";
                self.report.error(value.span, "variables and files are not read here", help);
                good = false;
                continue;
            }
            match (name, self.template(value, &format!("the header `{}`", key.text))) {
                (Some(name), Some(template)) => headers.push((name, template)),
                _ => good = false,
            }
        }
        good.then_some(headers)
    }

    fn body(&mut self, section: &Section<'_, '_>) -> Option<BodyTemplate> {
        let (json, form, text) = (section.get("json"), section.map("form"), section.get("text"));
        match (json, form, text) {
            (Some(json), None, None) => self.json(json, "a text of `json`").map(BodyTemplate::Json),
            (None, Some(form), None) => self.values(Some(form)).map(BodyTemplate::Form),
            (None, None, Some(text)) => self.template(text, "`text`").map(BodyTemplate::Text),
            _ if section.get("form").is_some() && form.is_none() => None,
            _ => {
                let message = "`body` has one of `json`, `form` and `text`";
                section.report.error(section.place, message, "write `body: { json: \"{{ args }}\" }`");
                None
            }
        }
    }

    fn json(&mut self, node: &Node, what: &str) -> Option<JsonTemplate> {
        Some(match &node.kind {
            Kind::Nothing | Kind::Flag(_) | Kind::Number(_) => JsonTemplate::Fixed(node.to_json()),
            Kind::Text(text) if expression(&text.text) == Some("args") => {
                self.asked.all = true;
                JsonTemplate::AllArguments
            }
            Kind::Text(text) => match single_argument(&text.text) {
                Some(name) => {
                    self.asked.add(name, false, language::words_in(self.report, node.span, name));
                    JsonTemplate::Argument(name.to_owned())
                }
                None if single_answer(&text.text).is_some() => {
                    let (name, field) = single_answer(&text.text)?;
                    self.template(node, "a text of `json`")?;
                    JsonTemplate::Answer { name: name.to_owned(), field: field.map(str::to_owned) }
                }
                None if !text.text.contains("{{") && !text.text.contains("{%") => {
                    JsonTemplate::Fixed(node.to_json())
                }
                None => JsonTemplate::Text(self.template(node, what)?),
            },
            Kind::List(items) => {
                JsonTemplate::Array(items.iter().map(|item| self.json(item, what)).collect::<Option<_>>()?)
            }
            Kind::Map(entries) => JsonTemplate::Object(
                entries
                    .iter()
                    .map(|entry| Some((entry.key.text.clone(), self.json(&entry.value, what)?)))
                    .collect::<Option<_>>()?,
            ),
        })
    }

    fn template(&mut self, node: &Node, what: &str) -> Option<Template> {
        let text = scalar(self.report, node, what)?;
        let bare = text.strip_prefix('{').and_then(|rest| rest.strip_suffix('}'));
        if let Some(name) = bare.filter(|name| !name.is_empty() && name.chars().all(is_name)) {
            let help = format!(
                "write `{{{{ args.{name} }}}}`; `{{{name}}}` is for paths and for requests in a line"
            );
            self.report.error(node.span, format!("{what} takes a template, found `{text}`"), help);
            return None;
        }
        let template = language::template(self.report, node, what, &NAMES)?;
        self.asked.add_answers(self.report, &template, node.span);
        match language::arguments_of(&template) {
            None => self.asked.all = true,
            Some(arguments) => {
                for (name, optional) in arguments {
                    self.asked.add(&name, optional, language::words_in(self.report, node.span, &name));
                }
            }
        }
        Some(template)
    }
}

/// Reads `rest`.
pub(super) fn rest(report: &Report<'_>, node: &Node, asked: &mut Asked) -> Option<RestEndpoint> {
    let text = section::text_of(report, node, "`rest`")?;
    let help = "write `METHOD /path/{argument}`, such as `POST /weather`";
    let Some((method, path)) = text.trim().split_once(char::is_whitespace) else {
        report.error(node.span, format!("`rest` has a method and a path, found {}", node.found()), help);
        return None;
    };
    let path = path.trim();
    let method = method_of(report, language::words_in(report, node.span, method), method)?;
    if matches!(method, Method::HEAD | Method::OPTIONS) {
        report.error(node.span, format!("a tool can't be called by `{method}`"), "take `GET` or `POST`");
        return None;
    }
    let template = match PathTemplate::parse(path) {
        Ok(template) => template,
        Err(error) => {
            report.error(node.span, error.to_string(), help);
            return None;
        }
    };
    let own = |reserved: &str| path == reserved || path.starts_with(&format!("{reserved}/"));
    if let Some(reserved) = RESERVED.iter().find(|reserved| own(reserved)) {
        let message = format!("the path `{path}` is not free: `{reserved}` is one of the program's own");
        report.error(
            node.span,
            message,
            "choose another, such as `/weather`; `POST /tools/NAME` is there anyway",
        );
        return None;
    }
    let whole = |segment: &str| {
        !segment.contains('{') || (segment.starts_with('{') && segment.find('}') == Some(segment.len() - 1))
    };
    if let Some(segment) = path.split('/').find(|segment| !whole(segment)) {
        let message = format!("in a REST path an argument takes a whole segment, found `{segment}`");
        report.error(
            node.span,
            message,
            "write `/reports/{id}`; the upstream's own path may have more beside it",
        );
        return None;
    }
    let names: Vec<&str> = template.arguments().collect();
    if let Some(twice) =
        names.iter().enumerate().find_map(|(at, name)| names[..at].contains(name).then_some(name))
    {
        let message = format!("the path has the argument `{twice}` twice");
        report.error(node.span, message, "an argument has one place in the path");
        return None;
    }
    for name in names {
        asked.add(name, false, language::words_in(report, node.span, name));
    }
    Some(RestEndpoint { method, path: path.to_owned() })
}

/// The upstream of a name, or a problem with a suggestion.
pub(super) fn find_upstream(
    report: &Report<'_>,
    upstreams: &[(UpstreamName, Span)],
    span: Span,
    name: &str,
) -> Option<UpstreamName> {
    let found = upstreams.iter().find(|(known, _)| known.as_str() == name);
    if found.is_none() {
        let help = suggest::help(name, "known upstreams", upstreams.iter().map(|(name, _)| name.as_str()));
        report.error(span, format!("unknown upstream `{name}`"), help);
    }
    found.map(|(name, _)| name.clone())
}

fn method_of(report: &Report<'_>, span: Span, text: &str) -> Option<Method> {
    if METHODS.contains(&text) {
        return text.parse().ok();
    }
    let help = suggest::help(text, "known methods", METHODS);
    report.error(span, format!("unknown method `{text}`"), help);
    None
}

/// `city` of `{{ args.city }}` and nothing else.
fn single_argument(text: &str) -> Option<&str> {
    let name = expression(text)?.strip_prefix("args.")?;
    (!name.is_empty() && name.chars().all(is_name)).then_some(name)
}

/// `form` and `count` of `{{ answers.form.count }}` and nothing else.
fn single_answer(text: &str) -> Option<(&str, Option<&str>)> {
    let path = expression(text)?.strip_prefix("answers.")?;
    let (name, field) = path.split_once('.').map_or((path, None), |(name, field)| (name, Some(field)));
    let good = |name: &str| !name.is_empty() && name.chars().all(is_name);
    (good(name) && field.is_none_or(good)).then_some((name, field))
}

/// What stands in the only braces of a template that is nothing else.
fn expression(text: &str) -> Option<&str> {
    text.trim().strip_prefix("{{")?.strip_suffix("}}").map(str::trim)
}

fn is_name(character: char) -> bool {
    character.is_ascii_alphanumeric() || character == '_'
}
