//! Parser for the values of a request: path, query parameters, headers and body.

use crate::settings::code::Code;
use http::HeaderName;

use super::{BodySettings, NAMES, RequestParser};
use crate::{
    config::{
        language,
        report::Report,
        section::open,
        source::SourceSpan,
        tree::{Entry, Kind, Node},
        upstreams::{header_name, scalar},
    },
    route::{
        JsonTemplate, PathTemplate, PathTemplateError, QueryTemplate, RequestBodyTemplate, ValueTemplate,
    },
    settings::section::Section as _,
    translate::{OutputContext, Template},
};

impl RequestParser<'_, '_> {
    /// Parses a path with arguments, and the query after its `?`.
    pub(super) fn target(&mut self, node: &Node, text: &str) -> Option<(PathTemplate, QueryTemplate)> {
        if has_variable(text) {
            self.reject_variable(node, "the path and query of a request");
            return None;
        }
        let (path, query) = text.split_once('?').unwrap_or((text, ""));
        let help = match template_argument(path) {
            Some(name) => format!("in a path, write `{{{name}}}`"),
            None => "write `/forecast/{city}`".to_owned(),
        };
        warn_of_colon_names(self.report, node.span, path);
        let path = self.parsed(node, PathTemplate::parse(path), &help)?;
        if query.contains("{{") {
            let help = "write an argument as `{name}` in one line, or use the map form with a template under `query`";
            self.report.error(
                Code::NotEvaluated.at_span(node.span),
                "a one-line request can't contain templates",
                help,
            );
            return None;
        }
        let query = QueryTemplate::parse(query);
        let query = self.parsed(node, query, "write `?units={units}`")?;
        for name in path.arguments().chain(query.arguments()) {
            self.used.add(name, false, language::span_of_name(self.report, node.span, name));
        }
        Some((path, query))
    }

    /// Unwraps a parsed template, or reports the error.
    fn parsed<T>(&self, node: &Node, parsed: Result<T, PathTemplateError>, help: &str) -> Option<T> {
        parsed
            .map_err(|error| {
                self.report.error(Code::InvalidTemplate.at_span(node.span), error.to_string(), help)
            })
            .ok()
    }

    pub(super) fn values(&mut self, entries: Option<&[Entry]>) -> Option<Vec<(String, ValueTemplate)>> {
        let mut values = Vec::new();
        let mut good = true;
        for Entry { key, value } in entries.unwrap_or_default() {
            let items = match &value.kind {
                Kind::List(items) => items.as_slice(),
                Kind::Null | Kind::Boolean(_) | Kind::Number(_) | Kind::Text(_) | Kind::Map(_) => {
                    std::slice::from_ref(value)
                }
            };
            for item in items {
                if item.as_text().is_some_and(has_variable) {
                    self.reject_variable(item, "query parameters and form fields");
                    good = false;
                    continue;
                }
                match self.value(item, &format!("`{}`", key.text)) {
                    Some(template) => values.push((key.text.clone(), template)),
                    None => good = false,
                }
            }
        }
        good.then_some(values)
    }

    pub(super) fn value(&mut self, node: &Node, what: &str) -> Option<ValueTemplate> {
        if let Some(name) = node.as_text().and_then(single_argument) {
            self.used.add(name, false, language::span_of_name(self.report, node.span, name));
            return Some(ValueTemplate::Argument(name.to_owned()));
        }
        self.text_or_omitted(node, what)
    }

    /// Parses a template, or an argument whose parameter or header is omitted if it is null or absent.
    fn text_or_omitted(&mut self, node: &Node, what: &str) -> Option<ValueTemplate> {
        let Some(name) = node.as_text().and_then(omitted_argument) else {
            // The header of an absent argument is omitted, too.
            let is_single = node.as_text().and_then(single_argument).is_some();
            let template = if is_single { self.template(node, what) } else { self.text(node, what) };
            return template.map(ValueTemplate::Text);
        };
        self.used.add(name, true, language::span_of_name(self.report, node.span, name));
        Some(ValueTemplate::Argument(name.to_owned()))
    }

    pub(super) fn headers(&mut self, entries: Option<&[Entry]>) -> Option<Vec<(HeaderName, ValueTemplate)>> {
        let mut headers = Vec::new();
        let mut good = true;
        for Entry { key, value } in entries.unwrap_or_default() {
            let name = header_name(self.report, &key.text, key.span);
            if value.as_text().is_some_and(|text| text.contains("${") || text.starts_with("file:")) {
                self.reject_variable(value, "request headers");
                good = false;
                continue;
            }
            match (name, self.text_or_omitted(value, &format!("the header `{}`", key.text))) {
                (Some(name), Some(template)) => headers.push((name, template)),
                _ => good = false,
            }
        }
        good.then_some(headers)
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
        let form = section.get("form").and_then(Node::as_map);
        match (section.get("json"), form, section.get("xml"), section.get("text")) {
            (Some(json), None, None, None) => {
                self.json(json, "a text of `json`").map(RequestBodyTemplate::Json)
            }
            (None, Some(form), None, None) => self.values(Some(form)).map(RequestBodyTemplate::Form),
            (None, None, Some(xml), None) => {
                let template = self.text(xml, "`xml`")?;
                // The template has just been compiled; the output context has no effect on its validity.
                Template::compile_for(OutputContext::Xml, template.source())
                    .ok()
                    .map(RequestBodyTemplate::Xml)
            }
            (None, None, None, Some(text)) => self.text(text, "`text`").map(RequestBodyTemplate::Text),
            _ => {
                let message = "`body` must have exactly one of `json`, `form`, `xml` and `text`";
                self.report.error(
                    Code::ConflictingKeys.at_span(entry.key.span),
                    message,
                    "write `body: { json: \"{{ args }}\" }`",
                );
                None
            }
        }
    }

    /// Reports variables in the strings of a body. Returns whether there are any.
    fn reject_variables_in(&self, node: &Node) -> bool {
        match &node.kind {
            Kind::Text(text) if has_variable(&text.text) => {
                self.reject_variable(node, "request bodies");
                true
            }
            Kind::List(items) => items.iter().map(|item| self.reject_variables_in(item)).max() == Some(true),
            Kind::Map(entries) => {
                entries.iter().map(|entry| self.reject_variables_in(&entry.value)).max() == Some(true)
            }
            Kind::Null | Kind::Boolean(_) | Kind::Number(_) | Kind::Text(_) => false,
        }
    }

    /// Reports a reference to a variable or file, which would be sent literally.
    fn reject_variable(&self, node: &Node, place: &str) {
        self.report.error(
            Code::NotEvaluated.at_span(node.span),
            format!("`${{VARIABLE}}` and `file:` are not expanded in {place}"),
            "write a secret under `headers` or `credentials` of the upstream, where both are expanded",
        );
    }

    pub(super) fn json(&mut self, node: &Node, what: &str) -> Option<JsonTemplate> {
        Some(match &node.kind {
            Kind::Null | Kind::Boolean(_) | Kind::Number(_) => JsonTemplate::Fixed(node.to_json()),
            Kind::Text(text) if expression(&text.text) == Some("args") => {
                self.used.all = true;
                JsonTemplate::AllArguments
            }
            Kind::Text(text) => match single_argument(&text.text) {
                Some(name) => {
                    self.used.add(name, false, language::span_of_name(self.report, node.span, name));
                    JsonTemplate::Argument(name.to_owned())
                }
                None if omitted_argument(&text.text).is_some() => {
                    let name = omitted_argument(&text.text)?;
                    self.used.add(name, true, language::span_of_name(self.report, node.span, name));
                    JsonTemplate::NotNull(name.to_owned())
                }
                None if single_answer(&text.text).is_some() => {
                    let (name, field) = single_answer(&text.text)?;
                    self.template(node, "a text of `json`")?;
                    JsonTemplate::InputResponse { name: name.to_owned(), field: field.map(str::to_owned) }
                }
                None if !text.text.contains("{{") && !text.text.contains("{%") => {
                    JsonTemplate::Fixed(node.to_json())
                }
                None => JsonTemplate::Text(self.text(node, what)?),
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

    /// Parses a template of a text that is not omitted: without an argument that it inserts, it fails.
    pub(super) fn text(&mut self, node: &Node, what: &str) -> Option<Template> {
        let template = self.template(node, what)?;
        for (name, _) in
            language::arguments_of(&template).unwrap_or_default().iter().filter(|(_, optional)| !optional)
        {
            self.used
                .set_needed(name, language::span_of_name(self.report, node.span, &format!("args.{name}")));
        }
        Some(template)
    }

    pub(super) fn template(&mut self, node: &Node, what: &str) -> Option<Template> {
        let text = scalar(self.report, node, what)?;
        let bare = text.strip_prefix('{').and_then(|rest| rest.strip_suffix('}'));
        if let Some(name) = bare.filter(|name| !name.is_empty() && name.chars().all(is_name)) {
            let help =
                format!("write `{{{{ args.{name} }}}}`; `{{{name}}}` is for paths and one-line requests");
            self.report.error(
                Code::WrongType.at_span(node.span),
                format!("{what} must be a template, found `{text}`"),
                help,
            );
            return None;
        }
        let template = language::template(self.report, node, what, &NAMES)?;
        self.used.add_input_responses(self.report, &template, node.span);
        match language::arguments_of(&template) {
            None => self.used.all = true,
            Some(arguments) => {
                for (name, optional) in arguments {
                    self.used.add(&name, optional, language::span_of_name(self.report, node.span, &name));
                }
            }
        }
        Some(template)
    }
}

/// Warns of `:name` as a segment of a path: other programs write an argument that way.
pub(super) fn warn_of_colon_names(report: &Report<'_>, span: SourceSpan, path: &str) {
    for segment in path.split('/') {
        let Some(name) = segment.strip_prefix(':') else { continue };
        if name.starts_with(|c: char| c.is_ascii_alphabetic()) && name.chars().all(is_name) {
            let at = Code::NotEvaluated.at_span(language::span_of_name(report, span, segment));
            let message = format!("`{segment}` is not an argument: it is in the path literally");
            report.warning(at, message, format!("write `{{{name}}}`"));
        }
    }
}

/// Whether a string contains `${NAME}`, `${NAME:-default}` or `${file:/path}`. In `${{ args.price }}`, `$` is
/// literal.
fn has_variable(text: &str) -> bool {
    text.split("${").skip(1).any(|rest| {
        let name: &str = rest.split(|c: char| !is_name(c)).next().unwrap_or_default();
        let after = &rest[name.len()..];
        let is_variable = name.starts_with(|c: char| c.is_ascii_uppercase() || c == '_')
            && (after.starts_with('}') || after.starts_with(":-"));
        is_variable || rest.starts_with("file:")
    })
}

/// `city` if the text contains `{{ args.city }}`.
fn template_argument(text: &str) -> Option<&str> {
    let (_, rest) = text.split_once("{{")?;
    let name = rest.split_once("}}")?.0.trim().strip_prefix("args.")?;
    (!name.is_empty() && name.chars().all(is_name)).then_some(name)
}

/// `city` if the text is exactly `{{ args.city }}`.
pub(super) fn single_argument(text: &str) -> Option<&str> {
    let name = expression(text)?.strip_prefix("args.")?;
    (!name.is_empty() && name.chars().all(is_name)).then_some(name)
}

/// `city` if the text is exactly `{{ args.city | default(omit) }}`: the value is omitted if the argument is
/// null or absent.
fn omitted_argument(text: &str) -> Option<&str> {
    let (name, filter) = expression(text)?.strip_prefix("args.")?.split_once('|')?;
    let filter: String = filter.split_whitespace().collect();
    let name = name.trim_end();
    (filter == "default(omit)" && !name.is_empty() && name.chars().all(is_name)).then_some(name)
}

/// `form` and `count` if the text is exactly `{{ input_responses.form.count }}`.
fn single_answer(text: &str) -> Option<(&str, Option<&str>)> {
    let path = expression(text)?.strip_prefix("input_responses.")?;
    let (name, field) = path.split_once('.').map_or((path, None), |(name, field)| (name, Some(field)));
    let good = |name: &str| !name.is_empty() && name.chars().all(is_name);
    (good(name) && field.is_none_or(good)).then_some((name, field))
}

/// The expression, if the text is exactly one `{{ … }}`.
pub(super) fn expression(text: &str) -> Option<&str> {
    text.trim().strip_prefix("{{")?.strip_suffix("}}").map(str::trim)
}

pub(super) fn is_name(character: char) -> bool {
    character.is_ascii_alphanumeric() || character == '_'
}
