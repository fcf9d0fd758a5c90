//! Values of an HTTP request: path, query parameters, headers and body.

use std::sync::LazyLock;

use http::HeaderName;
use regex::Regex;

use super::BodySettings;
use crate::config::secret_masking::HIDDEN;
use crate::config::section::{ReadElsewhere, is_template};
use crate::config::upstreams::header_name;
use crate::route::{
    JsonTemplate, PathTemplate, PathTemplateError, QueryTemplate, RequestBodyTemplate, ValueTemplate,
};
use crate::settings::{
    Checked, Code, Cursor, Entry, Kind, Named, Node, OneOrMore, Report, Scalar, Setting, SourceSpan,
    ValueKind, credential_forms, fixed_regex, read_each, secret, text_of,
};
use crate::translate::expressions::{ArgumentKind, Scope};
use crate::translate::{OutputContext, Template, expressions};

/// Returns the span of a name within a value.
pub(in crate::config) fn span_of(value: &Cursor<'_>, name: &str) -> SourceSpan {
    expressions::span_of_name(value.context.report, value.node.span, name)
}

/// Records that the request uses an argument.
pub(in crate::config) fn add_argument(value: &Cursor<'_>, name: &str, optional: bool) {
    Scope::from_cursor(value).used.borrow_mut().add(name, optional, span_of(value, name));
}

/// Path template, and template of the query that follows its `?`.
pub(super) struct RequestTarget(pub(super) PathTemplate, pub(super) QueryTemplate);

pub(super) fn read_target(value: &Cursor<'_>) -> Checked<Option<RequestTarget>> {
    target(value, text_of(value)?).map(Some)
}

/// Parses a path and query; `text` is part of the string of `value`.
pub(super) fn target(value: &Cursor<'_>, text: &str) -> Checked<RequestTarget> {
    check_variables(value, value.node)?;
    for secret in credential_forms::in_queries(text) {
        let name = text[..secret.start - 1].rsplit(['?', '&']).next().unwrap_or_default();
        secret::warn_of_literal(value.context.report, span_of(value, &text[secret]), name, SECRET_HELP);
    }
    let (path, query) = text.split_once('?').unwrap_or((text, ""));
    let help = match template_argument(path) {
        Some(name) => format!("in a path, write `{{{name}}}`"),
        None => "write `/forecast/{city}`".to_owned(),
    };
    let reject = |error: PathTemplateError, help: &str| {
        value.context.reject_at(Code::InvalidTemplate.at_span(value.node.span), error.to_string(), help)
    };
    warn_of_colon_names(value, path);
    warn_of_dollar_names(value, text);
    let path = PathTemplate::parse(path).map_err(|error| reject(error, &help))?;
    if query.contains("{{") {
        let message = "a path and its query can't contain templates";
        let help = "write an argument as `{name}`, or use the map form with a template under `query`";
        return value.reject_coded(Code::NotEvaluated.at_span(value.node.span), message, help);
    }
    let query = QueryTemplate::parse(query).map_err(|error| reject(error, "write `?units={units}`"))?;
    path.arguments().chain(query.arguments()).for_each(|name| add_argument(value, name, false));
    let mut used = Scope::from_cursor(value).used.borrow_mut();
    path.arguments().for_each(|name| used.add_kind(name, ArgumentKind::PathPart, value.node.span));
    let needed = path.arguments().chain(query.needed_arguments());
    needed.for_each(|name| used.set_needed(name, span_of(value, name)));
    Ok(RequestTarget(path, query))
}

/// Help for a literal secret. A form field can only be in the request, so the help also suggests protecting
/// the file.
const SECRET_HELP: &str = "write it under `headers`, `query` or `credentials` of the upstream, as `${NAME}` \
                           or `file:/path`; if the server does not read it there, protect the file";

/// Warns of literal secrets in the query parameters, headers and form fields of a request.
pub(super) fn warn_of_secrets(report: &Report<'_>, request: &Node) {
    let form = |name| request.get(name).and_then(|body| body.get("form"));
    let maps = [request.get("query"), request.get("headers"), form("body"), form("stdin")];
    for Entry { key, value } in maps.into_iter().flatten().filter_map(Node::as_map).flatten() {
        // The playground shows `(hidden)` in place of a secret, so this value is not a literal secret.
        let is_no_secret = |text: &str| is_template(text) || text == HIDDEN;
        let is_literal = |node: &&Node| node.secret && !node.as_text().is_some_and(is_no_secret);
        let literals = std::iter::once(value).chain(value.children()).filter(is_literal);
        literals.for_each(|node| secret::warn_of_literal(report, node.span, &key.text, SECRET_HELP));
    }
}

/// Flattens query parameters or form fields; a list becomes several parameters with the same name.
pub(super) fn parameters(values: Named<OneOrMore<ValueTemplate>>) -> Vec<(String, ValueTemplate)> {
    let pairs = |(name, OneOrMore(values)): (String, OneOrMore<_>)| {
        values.into_iter().map(move |value| (name.clone(), value))
    };
    values.0.into_iter().flat_map(pairs).collect()
}

/// Parses a template. If it inserts one argument and nothing else, the parameter, form field or header is
/// omitted when the argument is absent or null.
impl Setting for ValueTemplate {
    const KIND: ValueKind = ValueKind::Scalar;

    fn read(value: &Cursor<'_>) -> Checked<Self> {
        check_variables(value, value.node)?;
        let Some((name, is_omitted)) = value.node.as_text().and_then(placeholder) else {
            return text(value).map(Self::Text);
        };
        add_argument(value, name, is_omitted);
        Ok(Self::Argument(name.to_owned()))
    }
}

/// Parses the headers of a request.
pub(super) fn read_headers(value: &Cursor<'_>) -> Checked<Option<Vec<(HeaderName, ValueTemplate)>>> {
    Named::<ReadElsewhere>::read(value)?;
    let header = |entry: &Entry| {
        let name = header_name(value.context, &entry.key.text, entry.key.span);
        let label = format!("the header `{}`", entry.key.text);
        let value = value.member(entry, &label, ValueKind::Scalar);
        let text = value.node.as_text();
        if text.is_some_and(|text| text.contains("${") || text.starts_with("file:")) {
            return reject_variable(&value, value.node.span);
        }
        let template = ValueTemplate::read(&value);
        Ok((name?, template?))
    };
    read_each(value.node.as_map().unwrap_or_default().iter().map(header)).map(Some)
}

impl Setting for RequestBodyTemplate {
    const KIND: ValueKind = BodySettings::KIND;

    fn read(value: &Cursor<'_>) -> Checked<Self> {
        let BodySettings { json, form, xml, text } = BodySettings::read(value)?;
        // The standard input of a command may be a script that has variables of its own.
        if value.key.is_some_and(|key| key.name == "body") {
            check_variables(value, value.node)?;
        }
        match (json, form, xml, text) {
            (Some(json), None, None, None) => Ok(Self::Json(json)),
            (None, Some(form), None, None) => Ok(Self::Form(parameters(form))),
            (None, None, Some(xml), None) => {
                // The template has already been compiled; compiling it for another output context cannot
                // fail.
                let template = Template::compile_for(OutputContext::Xml, xml.source());
                value.checked(template.ok().map(Self::Xml))
            }
            (None, None, None, Some(text)) => Ok(Self::Text(text)),
            _ => {
                let message = "`body` must have exactly one of `json`, `form`, `xml` and `text`";
                let help = "write `body: { json: \"{{ args }}\" }`";
                value.reject_coded(Code::ConflictingKeys.at_span(value.key_span), message, help)
            }
        }
    }
}

/// Rejects references to variables in the strings of a value.
fn check_variables(value: &Cursor<'_>, node: &Node) -> Checked<()> {
    if node.as_text().is_some_and(|text| VARIABLE.is_match(text)) {
        return reject_variable(value, node.span);
    }
    read_each(node.children().map(|child| check_variables(value, child)))
}

/// Rejects a reference to a variable or file: it would be sent literally.
fn reject_variable<T>(value: &Cursor<'_>, span: SourceSpan) -> Checked<T> {
    let message = "`${VARIABLE}` and `file:` are not expanded in requests";
    let help =
        "write a secret under `headers`, `query` or `credentials` of the upstream, where both are expanded";
    value.reject_coded(Code::NotEvaluated.at_span(span), message, help)
}

/// JSON document in which every string is a template.
impl Setting for JsonTemplate {
    const KIND: ValueKind = ValueKind::Anything;

    fn read(value: &Cursor<'_>) -> Checked<Self> {
        let part = |node: &Node| Self::read(&value.part(node, value.name, Self::KIND));
        Ok(match &value.node.kind {
            Kind::Null | Kind::Boolean(_) | Kind::Number(_) => Self::Fixed(value.node.to_json()),
            Kind::Text(text) if expression(text) == Some("args") => {
                Scope::from_cursor(value).used.borrow_mut().all = true;
                Self::AllArguments
            }
            Kind::Text(text) => match (placeholder(text), single_input_response(text)) {
                (Some((name, is_omitted)), _) => {
                    add_argument(value, name, is_omitted);
                    let kind = if is_omitted { Self::NotNull } else { Self::Argument };
                    kind(name.to_owned())
                }
                (None, Some((name, field))) => {
                    template(value)?;
                    Self::InputResponse { name: name.to_owned(), field: field.map(str::to_owned) }
                }
                (None, None) if !is_template(text) => Self::Fixed(value.node.to_json()),
                (None, None) => Self::Text(self::text(value)?),
            },
            Kind::List(items) => Self::Array(read_each(items.iter().map(part))?),
            Kind::Map(entries) => {
                let member = |Entry { key, value }: &Entry| Ok((key.text.clone(), part(value)?));
                Self::Object(read_each(entries.iter().map(member))?)
            }
        })
    }
}

/// Parses a JSON body, in which every string is a template.
pub(super) fn read_json(value: &Cursor<'_>) -> Checked<Option<JsonTemplate>> {
    let name = format!("a string of {}", value.name);
    JsonTemplate::read(&value.part(value.node, &name, JsonTemplate::KIND)).map(Some)
}

/// Parses a template that is always rendered. Arguments without a fallback are recorded as needed, because
/// the request fails without them.
pub(super) fn text(value: &Cursor<'_>) -> Checked<Template> {
    let template = template(value)?;
    for (name, optional) in expressions::arguments_of(&template).unwrap_or_default() {
        if !optional {
            let at = span_of(value, &format!("args.{name}"));
            Scope::from_cursor(value).used.borrow_mut().set_needed(&name, at);
        }
    }
    Ok(template)
}

pub(super) fn read_text(value: &Cursor<'_>) -> Checked<Option<Template>> {
    text(value).map(Some)
}

pub(super) fn template(value: &Cursor<'_>) -> Checked<Template> {
    let Scalar(text) = Scalar::read(value)?;
    let bare = text.strip_prefix('{').and_then(|rest| rest.strip_suffix('}'));
    if let Some(name) = bare.and_then(as_name) {
        let message = format!("{} must be a template, found `{text}`", value.name);
        let help = format!("write `{{{{ args.{name} }}}}`; `{{{name}}}` is for paths and one-line requests");
        return value.reject_coded(Code::WrongType.at_span(value.node.span), message, help);
    }
    Template::read(value)
}

/// Warns of a path segment `:name`, which is the syntax for arguments in other programs.
pub(super) fn warn_of_colon_names(value: &Cursor<'_>, path: &str) {
    for segment in path.split('/') {
        let Some(name) = segment.strip_prefix(':') else { continue };
        if name.starts_with(|c: char| c.is_ascii_alphabetic()) && as_name(name).is_some() {
            let at = Code::NotEvaluated.at_span(span_of(value, segment));
            let message = format!("`{segment}` is not an argument: it is in the path literally");
            value.context.report.warning(at, message, format!("write `{{{name}}}`"));
        }
    }
}

/// Warns of `${name}` in a path or query. Other programs write arguments this way; glossator reads a literal
/// `$` and the argument `{name}`.
fn warn_of_dollar_names(value: &Cursor<'_>, text: &str) {
    for (at, _) in text.match_indices("${") {
        let Some(name) = text[at + 2..].split('}').next().and_then(as_name) else { continue };
        let at = Code::NotEvaluated.at_span(span_of(value, name));
        let message = format!("the `$` of `${{{name}}}` is sent literally, before the argument");
        let help = format!("write `{{{name}}}`, or `%24{{{name}}}` for a `$`");
        value.context.report.warning(at, message, help);
    }
}

/// References `${NAME}`, `${NAME:-default}` and `${file:/path}`. In `${{ args.price }}`, the `$` is literal.
static VARIABLE: LazyLock<Regex> =
    LazyLock::new(|| fixed_regex(r"\$\{(?:[A-Z_][A-Za-z0-9_]*(?:\}|:-)|file:)"));

/// Returns `city` if `text` contains `{{ args.city }}`.
fn template_argument(text: &str) -> Option<&str> {
    let (_, rest) = text.split_once("{{")?;
    as_name(rest.split_once("}}")?.0.trim().strip_prefix("args.")?)
}

/// Returns `city` if `text` is exactly `{{ args.city }}` or `{{ args.city | default(omit) }}`, and whether it
/// is the second form, which omits the value if the argument is null or absent.
pub(super) fn placeholder(text: &str) -> Option<(&str, bool)> {
    let inserted = expression(text)?.strip_prefix("args.")?;
    let Some((name, filter)) = inserted.split_once('|') else { return Some((as_name(inserted)?, false)) };
    let filter: String = filter.split_whitespace().collect();
    let name = as_name(name.trim_end())?;
    (filter == "default(omit)").then_some((name, true))
}

/// Returns `form` and `count` if `text` is exactly `{{ input_responses.form.count }}`.
fn single_input_response(text: &str) -> Option<(&str, Option<&str>)> {
    let path = expression(text)?.strip_prefix("input_responses.")?;
    match path.split_once('.') {
        None => Some((as_name(path)?, None)),
        Some((name, field)) => Some((as_name(name)?, Some(as_name(field)?))),
    }
}

/// Returns the expression if `text` is exactly one `{{ … }}`.
pub(super) fn expression(text: &str) -> Option<&str> {
    text.trim().strip_prefix("{{")?.strip_suffix("}}").map(str::trim)
}

/// Returns `text` if it is a valid name of an argument.
pub(in crate::config) fn as_name(text: &str) -> Option<&str> {
    let is_valid = |c: char| c.is_ascii_alphanumeric() || c == '_';
    (!text.is_empty() && text.chars().all(is_valid)).then_some(text)
}
