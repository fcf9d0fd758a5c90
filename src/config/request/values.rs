//! Parser for the values of a request: path, query parameters, headers and body.

use std::sync::LazyLock;

use http::HeaderName;
use regex::Regex;

use super::{BodySettings, NAMES, RequestParser};
use crate::config::section::{self, all_valid, cursor, open, plain_context};
use crate::config::upstreams::{header_name, scalar};
use crate::route::{
    JsonTemplate, PathTemplate, PathTemplateError, QueryTemplate, RequestBodyTemplate, ValueTemplate,
};
use crate::settings::{Code, Entry, Kind, Node, Report, Section as _, Setting, SourceSpan, fixed_regex};
use crate::translate::{OutputContext, Template, expressions};

impl RequestParser<'_, '_> {
    /// Parses a path with arguments, and the query after its `?`.
    pub(super) fn target(&mut self, node: &Node, text: &str) -> Option<(PathTemplate, QueryTemplate)> {
        if VARIABLE.is_match(text) {
            return self.reject_variable(node, "the path and query of a request");
        }
        let (path, query) = text.split_once('?').unwrap_or((text, ""));
        let help = match template_argument(path) {
            Some(name) => format!("in a path, write `{{{name}}}`"),
            None => "write `/forecast/{city}`".to_owned(),
        };
        warn_of_colon_names(self.report, node.span, path);
        let path = self.parsed(node, PathTemplate::parse(path), &help)?;
        if query.contains("{{") {
            let message = "a one-line request can't contain templates";
            let help = "write an argument as `{name}` in one line, or use the map form with a template under `query`";
            return self.report.reject(Code::NotEvaluated.at_span(node.span), message, help);
        }
        let query = self.parsed(node, QueryTemplate::parse(query), "write `?units={units}`")?;
        for name in path.arguments().chain(query.arguments()) {
            self.used.add(name, false, expressions::span_of_name(self.report, node.span, name));
        }
        Some((path, query))
    }

    /// Unwraps a parsed template, or reports the error.
    fn parsed<T>(&self, node: &Node, parsed: Result<T, PathTemplateError>, help: &str) -> Option<T> {
        let at = Code::InvalidTemplate.at_span(node.span);
        parsed.map_or_else(|error| self.report.reject(at, error.to_string(), help), Some)
    }

    pub(super) fn values(&mut self, map: Option<&Node>) -> Option<Vec<(String, ValueTemplate)>> {
        let entries = map.and_then(Node::as_map).unwrap_or_default();
        let items = entries
            .iter()
            .flat_map(|Entry { key, value }| value.one_or_more().iter().map(move |item| (key, item)));
        all_valid(items.map(|(key, item)| {
            if item.as_text().is_some_and(|text| VARIABLE.is_match(text)) {
                return self.reject_variable(item, "query parameters and form fields");
            }
            Some((key.text.clone(), self.value(item, &format!("`{}`", key.text))?))
        }))
    }

    /// Parses a template, or an argument alone, whose parameter or header is omitted if it may be.
    pub(super) fn value(&mut self, node: &Node, what: &str) -> Option<ValueTemplate> {
        match node.as_text().and_then(placeholder) {
            Some((name, is_omitted)) => {
                self.used.add(name, is_omitted, expressions::span_of_name(self.report, node.span, name));
                Some(ValueTemplate::Argument(name.to_owned()))
            }
            None => self.text(node, what).map(ValueTemplate::Text),
        }
    }

    pub(super) fn headers(&mut self, map: Option<&Node>) -> Option<Vec<(HeaderName, ValueTemplate)>> {
        let entries = map.and_then(Node::as_map).unwrap_or_default();
        all_valid(entries.iter().map(|Entry { key, value }| {
            let name = header_name(plain_context(self.report), &key.text, key.span).ok();
            if value.as_text().is_some_and(|text| text.contains("${") || text.starts_with("file:")) {
                return self.reject_variable(value, "request headers");
            }
            let what = format!("the header `{}`", key.text);
            let template = match value.as_text().and_then(placeholder) {
                // The header of an absent argument is omitted, too.
                Some((_, false)) => self.template(value, &what).map(ValueTemplate::Text),
                _ => self.value(value, &what),
            };
            Some((name?, template?))
        }))
    }

    pub(super) fn body(&mut self, entry: &Entry) -> Option<RequestBodyTemplate> {
        let section = open::<BodySettings>(self.report, entry.key.span, &entry.value)?;
        BodySettings::read_fields(&section, None).ok()?;
        // The standard input of a command may be a script with variables of its own.
        if entry.key.text == "body" {
            let texts = ["json", "xml", "text"].into_iter().filter_map(|name| section.get(name));
            if texts.map(|node| self.reject_variables_in(node)).max() == Some(true) {
                return None;
            }
        }
        match (section.get("json"), section.get("form"), section.get("xml"), section.get("text")) {
            (Some(json), None, None, None) => {
                self.json(json, "a text of `json`").map(RequestBodyTemplate::Json)
            }
            (None, Some(form), None, None) => self.values(Some(form)).map(RequestBodyTemplate::Form),
            (None, None, Some(xml), None) => {
                let template = self.text(xml, "`xml`")?;
                // The template has just been compiled; the output context has no effect on its validity.
                let template = Template::compile_for(OutputContext::Xml, template.source()).ok();
                template.map(RequestBodyTemplate::Xml)
            }
            (None, None, None, Some(text)) => self.text(text, "`text`").map(RequestBodyTemplate::Text),
            _ => {
                let message = "`body` must have exactly one of `json`, `form`, `xml` and `text`";
                let help = "write `body: { json: \"{{ args }}\" }`";
                self.report.reject(Code::ConflictingKeys.at_span(entry.key.span), message, help)
            }
        }
    }

    /// Reports variables in the strings of a body. Returns whether there are any.
    fn reject_variables_in(&self, node: &Node) -> bool {
        if node.as_text().is_some_and(|text| VARIABLE.is_match(text)) {
            self.reject_variable::<()>(node, "request bodies");
            return true;
        }
        node.children().fold(false, |found, child| self.reject_variables_in(child) | found)
    }

    /// Rejects a reference to a variable or file, which would be sent literally.
    fn reject_variable<T>(&self, node: &Node, place: &str) -> Option<T> {
        let message = format!("`${{VARIABLE}}` and `file:` are not expanded in {place}");
        let help = "write a secret under `headers` or `credentials` of the upstream, where both are expanded";
        self.report.reject(Code::NotEvaluated.at_span(node.span), message, help)
    }

    pub(super) fn json(&mut self, node: &Node, what: &str) -> Option<JsonTemplate> {
        Some(match &node.kind {
            Kind::Null | Kind::Boolean(_) | Kind::Number(_) => JsonTemplate::Fixed(node.to_json()),
            Kind::Text(text) if expression(&text.text) == Some("args") => {
                self.used.all = true;
                JsonTemplate::AllArguments
            }
            Kind::Text(text) => match (placeholder(&text.text), single_answer(&text.text)) {
                (Some((name, is_omitted)), _) => {
                    self.used.add(name, is_omitted, expressions::span_of_name(self.report, node.span, name));
                    let kind = if is_omitted { JsonTemplate::NotNull } else { JsonTemplate::Argument };
                    kind(name.to_owned())
                }
                (None, Some((name, field))) => {
                    self.template(node, "a text of `json`")?;
                    JsonTemplate::InputResponse { name: name.to_owned(), field: field.map(str::to_owned) }
                }
                (None, None) if !section::is_template(&text.text) => JsonTemplate::Fixed(node.to_json()),
                (None, None) => JsonTemplate::Text(self.text(node, what)?),
            },
            Kind::List(items) => {
                JsonTemplate::Array(items.iter().map(|item| self.json(item, what)).collect::<Option<_>>()?)
            }
            Kind::Map(entries) => {
                let member = |Entry { key, value }: &Entry| Some((key.text.clone(), self.json(value, what)?));
                JsonTemplate::Object(entries.iter().map(member).collect::<Option<_>>()?)
            }
        })
    }

    /// Parses a template of a text that is not omitted: without an argument that it inserts, it fails.
    pub(super) fn text(&mut self, node: &Node, what: &str) -> Option<Template> {
        let template = self.template(node, what)?;
        for (name, optional) in expressions::arguments_of(&template).unwrap_or_default() {
            if !optional {
                let at = expressions::span_of_name(self.report, node.span, &format!("args.{name}"));
                self.used.set_needed(&name, at);
            }
        }
        Some(template)
    }

    pub(super) fn template(&mut self, node: &Node, what: &str) -> Option<Template> {
        let text = scalar(plain_context(self.report), node, what).ok()?;
        let bare = text.strip_prefix('{').and_then(|rest| rest.strip_suffix('}'));
        if let Some(name) = bare.and_then(as_name) {
            let message = format!("{what} must be a template, found `{text}`");
            let help =
                format!("write `{{{{ args.{name} }}}}`; `{{{name}}}` is for paths and one-line requests");
            return self.report.reject(Code::WrongType.at_span(node.span), message, help);
        }
        let value = cursor(self.report, node.span, node, what, Template::KIND);
        let template = expressions::template(&value, &NAMES).ok()?;
        self.used.add_template(self.report, &template, node.span);
        Some(template)
    }
}

/// Warns of `:name` as a segment of a path: other programs write an argument that way.
pub(super) fn warn_of_colon_names(report: &Report<'_>, span: SourceSpan, path: &str) {
    for segment in path.split('/') {
        let Some(name) = segment.strip_prefix(':') else { continue };
        if name.starts_with(|c: char| c.is_ascii_alphabetic()) && as_name(name).is_some() {
            let at = Code::NotEvaluated.at_span(expressions::span_of_name(report, span, segment));
            let message = format!("`{segment}` is not an argument: it is in the path literally");
            report.warning(at, message, format!("write `{{{name}}}`"));
        }
    }
}

/// Matches `${NAME}`, `${NAME:-default}` and `${file:/path}`. In `${{ args.price }}`, `$` is literal.
static VARIABLE: LazyLock<Regex> =
    LazyLock::new(|| fixed_regex(r"\$\{(?:[A-Z_][A-Za-z0-9_]*(?:\}|:-)|file:)"));

/// `city` if the text contains `{{ args.city }}`.
fn template_argument(text: &str) -> Option<&str> {
    let (_, rest) = text.split_once("{{")?;
    as_name(rest.split_once("}}")?.0.trim().strip_prefix("args.")?)
}

/// `city` if the text is exactly `{{ args.city }}` or `{{ args.city | default(omit) }}`, and whether it is
/// the latter: the value is then omitted if the argument is null or absent.
pub(super) fn placeholder(text: &str) -> Option<(&str, bool)> {
    let inserted = expression(text)?.strip_prefix("args.")?;
    let Some((name, filter)) = inserted.split_once('|') else { return Some((as_name(inserted)?, false)) };
    let filter: String = filter.split_whitespace().collect();
    let name = as_name(name.trim_end())?;
    (filter == "default(omit)").then_some((name, true))
}

/// `form` and `count` if the text is exactly `{{ input_responses.form.count }}`.
fn single_answer(text: &str) -> Option<(&str, Option<&str>)> {
    let path = expression(text)?.strip_prefix("input_responses.")?;
    match path.split_once('.') {
        None => Some((as_name(path)?, None)),
        Some((name, field)) => Some((as_name(name)?, Some(as_name(field)?))),
    }
}

/// The expression, if the text is exactly one `{{ … }}`.
pub(super) fn expression(text: &str) -> Option<&str> {
    text.trim().strip_prefix("{{")?.strip_suffix("}}").map(str::trim)
}

/// The text, if it can be the name of an argument.
pub(in crate::config) fn as_name(text: &str) -> Option<&str> {
    let is_valid = |c: char| c.is_ascii_alphanumeric() || c == '_';
    (!text.is_empty() && text.chars().all(is_valid)).then_some(text)
}
