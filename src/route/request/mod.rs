//! Request templates: build the upstream request from the arguments of a call.
//!
//! - `http`: requests to HTTP servers and CGI programs.
//! - `command`: command lines of programs.
//! - `tool`: tool calls to MCP servers.
//! - [`RequestRenderer`]: renders the templates with the arguments of one call.

mod command;
mod http;
mod tool;

use std::fmt;

use ::http::{HeaderMap, HeaderName};
use serde_json::Value;

pub use self::{
    command::{CommandRequest, CommandTemplate, WordTemplate},
    http::{HttpRequest, HttpTemplate, JsonTemplate, PathBase, RequestBodyTemplate, ValueTemplate},
    tool::{McpMethod, McpServerRequest, SideEffects, ToolTemplate},
};
use super::TraceContext;
use super::input::quoted_names;
use super::path::{push_parameter, scalar};
use crate::model::Arguments;
use crate::translate::{Template, TemplateBudget, TemplateError, WorkBudget, request_variables};

/// Template of the upstream request.
#[derive(Debug)]
pub enum RequestTemplate {
    /// HTTP request to a server or a CGI program.
    Http(HttpTemplate),
    /// Command line.
    Command(CommandTemplate),
    /// Tool call to an MCP server.
    Tool(ToolTemplate),
}

/// Request to an upstream. Two requests are equal if glossator would send exactly the same.
#[derive(Debug, Clone, PartialEq, Eq, derive_more::From)]
pub enum UpstreamRequest {
    /// HTTP request to a server or a CGI program.
    #[from]
    Http(HttpRequest),
    /// Command line.
    Command(CommandRequest),
    /// Request to an MCP server, usually a tool call.
    Mcp(McpServerRequest),
}

/// Reason why no request can be built from the arguments. The message is for the model.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct RequestError {
    message: String,
    detail: Option<String>,
    /// Whether an argument is missing and the message does not yet mention which part of the request needs
    /// it.
    lacks_part: bool,
}

impl RequestError {
    pub(super) fn new(message: impl Into<String>) -> Self {
        Self { message: message.into(), detail: None, lacks_part: false }
    }

    /// Adds the part of the request that needs the missing argument, such as `` header `x-tenant` ``.
    pub(super) fn needed_by(mut self, part: fmt::Arguments<'_>) -> Self {
        if std::mem::take(&mut self.lacks_part) {
            self.message.push_str(&format!(", which the {part} needs"));
        }
        self
    }

    /// Detail for the log only, because it may quote the operator's template.
    pub fn detail(&self) -> Option<&str> {
        self.detail.as_deref()
    }
}

impl RequestTemplate {
    /// Builds the request of a call. `client` contains the headers of the client's request. `work_budget`
    /// aborts rendering if the client has disconnected or the step limit is reached; the result is then not
    /// used.
    ///
    /// # Errors
    ///
    /// [`RequestError`] if an argument is missing, or if the template cannot contain it.
    pub fn build(
        &self,
        arguments: &Arguments,
        client: &HeaderMap,
        work_budget: Option<&WorkBudget>,
    ) -> Result<UpstreamRequest, RequestError> {
        match self {
            Self::Http(template) => template.build(arguments, client, work_budget).map(UpstreamRequest::Http),
            Self::Command(template) => template.build(arguments, work_budget).map(UpstreamRequest::Command),
            Self::Tool(template) => template.build(arguments, client, work_budget).map(UpstreamRequest::Mcp),
        }
    }

    /// Side effects of the request.
    pub fn effect(&self) -> SideEffects {
        match self {
            Self::Http(template) => SideEffects::from_method(&template.method),
            Self::Command(_) => SideEffects::default(),
            Self::Tool(template) => template.effect,
        }
    }

    /// Describes the request for messages, such as `` `POST` request``.
    pub fn describe(&self) -> String {
        match self {
            Self::Http(template) => format!("`{}` request", template.method),
            Self::Command(_) => "command".to_owned(),
            Self::Tool(template) => format!("call of `{}`", template.tool),
        }
    }

    /// Template of the tool call, if the request is one.
    pub fn tool(&self) -> Option<&ToolTemplate> {
        match self {
            Self::Tool(template) => Some(template),
            Self::Http(_) | Self::Command(_) => None,
        }
    }

    /// Whether the request forwards headers of the client.
    pub fn forwards_headers(&self) -> bool {
        match self {
            Self::Http(HttpTemplate { forwarded, .. }) | Self::Tool(ToolTemplate { forwarded, .. }) => {
                !forwarded.is_empty()
            }
            Self::Command(_) => false,
        }
    }
}

impl UpstreamRequest {
    /// Serializes everything that is sent, in canonical form: only equal requests have equal bytes. The trace
    /// context is omitted, because it differs for each call and responses do not depend on it.
    pub fn to_bytes(&self) -> Vec<u8> {
        let sorted_arguments;
        let mut parts: Vec<&[u8]> = match self {
            Self::Http(HttpRequest { method, base, path_and_query, headers: _, body }) => {
                let base: &[u8] = match base {
                    PathBase::UpstreamUrl => b"address",
                    PathBase::Origin => b"root",
                    PathBase::UrlItself => b"itself",
                };
                let target = path_and_query.as_str().as_bytes();
                vec![b"http", method.as_str().as_bytes(), base, target, body]
            }
            Self::Command(CommandRequest { words, stdin }) => {
                let words = words.iter().map(String::as_bytes);
                [b"command".as_slice(), stdin].into_iter().chain(words).collect()
            }
            Self::Mcp(McpServerRequest { method, target, arguments, headers: _ }) => {
                // The order of members has no meaning, so they are sorted.
                let mut arguments = Value::Object(arguments.clone());
                arguments.sort_all_objects();
                sorted_arguments = arguments.to_string();
                ["tool", method.into(), target, &sorted_arguments].map(str::as_bytes).to_vec()
            }
        };
        // The order of headers has no meaning, except among headers with the same name.
        let headers = self.headers().into_iter().flatten();
        let mut headers: Vec<_> = headers.filter(|(name, _)| !TraceContext::is_header(name)).collect();
        headers.sort_by_key(|(name, _)| name.as_str());
        for (name, value) in headers {
            parts.extend([b"header", name.as_str().as_bytes(), value.as_bytes()]);
        }
        let mut bytes = Vec::new();
        for part in parts {
            // The length comes first, so that different lists of parts never have the same bytes.
            bytes.extend_from_slice(&(part.len() as u64).to_be_bytes());
            bytes.extend_from_slice(part);
        }
        bytes
    }

    /// Headers, if this kind of request has headers.
    pub fn headers(&self) -> Option<&HeaderMap> {
        match self {
            Self::Http(HttpRequest { headers, .. }) | Self::Mcp(McpServerRequest { headers, .. }) => {
                Some(headers)
            }
            Self::Command(_) => None,
        }
    }

    /// Mutable headers, if this kind of request has headers.
    pub fn headers_mut(&mut self) -> Option<&mut HeaderMap> {
        match self {
            Self::Http(HttpRequest { headers, .. }) | Self::Mcp(McpServerRequest { headers, .. }) => {
                Some(headers)
            }
            Self::Command(_) => None,
        }
    }
}

/// Returns the client's headers of the given names, in order to forward them.
fn forwarded(names: &[HeaderName], client: &HeaderMap) -> HeaderMap {
    let mut headers = HeaderMap::new();
    for name in names {
        for value in client.get_all(name) {
            headers.append(name, value.clone());
        }
    }
    headers
}

/// Renderer for the templates of one request, which share one step budget. The template variables are created
/// on first use.
pub(super) struct RequestRenderer<'a> {
    pub(super) arguments: &'a Arguments,
    pub(super) work_budget: Option<&'a WorkBudget>,
    template_budget: TemplateBudget,
    variables: Option<minijinja::Value>,
}

impl<'a> RequestRenderer<'a> {
    pub(super) fn new(arguments: &'a Arguments, work_budget: Option<&'a WorkBudget>) -> Self {
        Self { arguments, work_budget, template_budget: TemplateBudget::new(work_budget), variables: None }
    }

    pub(super) fn render(&mut self, template: &Template) -> Result<String, RequestError> {
        let variables = self.variables.get_or_insert_with(|| {
            if let Some(work_budget) = self.work_budget {
                // Creating the variables copies the arguments.
                let bytes: usize = self.arguments.values.values().map(estimated_bytes).sum();
                work_budget.spend(WorkBudget::steps_of_search(bytes));
            }
            request_variables(self.arguments)
        });
        let rendered = template.render_within(variables, &self.template_budget);
        rendered.map_err(|error| render_error(template, self.arguments, &error))
    }

    /// Renders a template for the part of the request that `part` names.
    pub(super) fn render_for(&mut self, template: &Template, part: &str) -> Result<String, RequestError> {
        self.render(template).map_err(|error| error.needed_by(format_args!("{part}")))
    }

    /// Encodes `name=value&…` for a query or a form.
    pub(super) fn encoded(&mut self, parameters: &[(String, ValueTemplate)]) -> Result<String, RequestError> {
        let mut encoded = String::new();
        for (name, value) in parameters {
            let values =
                self.values(value).map_err(|error| error.needed_by(format_args!("parameter `{name}`")))?;
            values.iter().for_each(|text| push_parameter(&mut encoded, name, text));
        }
        Ok(encoded)
    }

    /// Values of a parameter or header; empty if the parameter or header is omitted.
    pub(super) fn values(&mut self, value: &ValueTemplate) -> Result<Vec<String>, RequestError> {
        match value {
            ValueTemplate::Argument(name) => {
                let texts = items_of(self.arguments.get(name)).iter().map(|item| scalar(name, Some(item)));
                texts.collect::<Result<_, _>>().map_err(RequestError::new)
            }
            ValueTemplate::Text(template) => {
                let text = self.render(template)?;
                Ok(if text.is_empty() { Vec::new() } else { vec![text] })
            }
        }
    }
}

/// Estimates the memory that a value uses, in bytes.
fn estimated_bytes(value: &Value) -> usize {
    let inside = match value {
        Value::Null | Value::Bool(_) => 0,
        Value::Number(number) => number.as_str().len(),
        Value::String(text) => text.len(),
        Value::Array(items) => items.iter().map(estimated_bytes).sum(),
        Value::Object(members) => {
            members.iter().map(|(name, value)| name.len() + 32 + estimated_bytes(value)).sum()
        }
    };
    inside + size_of::<Value>()
}

/// Items of an array argument; the value itself if it is not an array; no items if it is missing or null.
pub(super) fn items_of(value: Option<&Value>) -> &[Value] {
    match value {
        None | Some(Value::Null) => &[],
        Some(Value::Array(items)) => items,
        Some(item) => std::slice::from_ref(item),
    }
}

/// Error for a template that failed. It names arguments only, because the model does not know the template.
fn render_error(template: &Template, arguments: &Arguments, error: &TemplateError) -> RequestError {
    let names = template.used.paths.iter().filter_map(|path| path.strip_prefix("args.")?.split('.').next());
    let mut names: Vec<&str> = names.collect();
    names.dedup();
    let is_missing = |name: &&str| matches!(arguments.get(name), None | Some(Value::Null));
    let missing: Vec<&str> = names.iter().copied().filter(is_missing).collect();
    let quoted = |names: &[&str]| quoted_names(names.iter().copied());
    let message = match missing.as_slice() {
        [] if names.is_empty() => "the request can't be built from these arguments".to_owned(),
        [] => format!("the request can't be built from the arguments {}: check their values", quoted(&names)),
        [name] => format!("the request can't be built without the argument `{name}`"),
        missing => format!("the request can't be built without the arguments {}", quoted(missing)),
    };
    RequestError { message, detail: Some(error.to_string()), lacks_part: !missing.is_empty() }
}

#[cfg(test)]
mod tests {
    use ::http::{Method, uri::PathAndQuery};
    use serde_json::json;

    use super::*;

    fn bytes(path: &'static str, body: &'static str, headers: &[(&'static str, &'static str)]) -> Vec<u8> {
        let headers = headers.iter().map(|(name, value)| (name.parse().unwrap(), value.parse().unwrap()));
        let request = HttpRequest {
            method: Method::GET,
            base: PathBase::UpstreamUrl,
            path_and_query: PathAndQuery::from_static(path),
            headers: headers.collect(),
            body: body.into(),
        };
        UpstreamRequest::from(request).to_bytes()
    }

    #[test]
    fn requests_have_the_same_bytes_only_when_they_are_equal() {
        let one = bytes("/a", "b", &[("x-a", "1"), ("x-b", "2")]);
        assert_eq!(one, bytes("/a", "b", &[("x-b", "2"), ("x-a", "1")]));
        assert_eq!(one, bytes("/a", "b", &[("x-b", "2"), ("traceparent", "00-1"), ("x-a", "1")]));
        for other in [
            bytes("/a", "", &[("x-a", "1"), ("x-b", "2")]),
            bytes("/ab", "", &[("x-a", "1"), ("x-b", "2")]),
            bytes("/a", "b", &[("x-a", "1")]),
            bytes("/a", "b", &[("x-a", "2"), ("x-b", "1")]),
            bytes("/a", "b", &[("x-a", "1x-b2")]),
        ] {
            assert_ne!(one, other);
        }
        let command = |words: &[&str], stdin: &'static str| {
            let words = words.iter().map(|word| (*word).to_owned()).collect();
            UpstreamRequest::Command(CommandRequest { words, stdin: stdin.into() }).to_bytes()
        };
        assert_ne!(command(&["a", "b"], ""), command(&["ab"], ""));
        assert_ne!(command(&["a"], "b"), command(&["a", "b"], ""));
        let tool = |arguments: Value| {
            let (arguments, headers) = (arguments.as_object().unwrap().clone(), HeaderMap::new());
            let (method, target) = (McpMethod::CallTool, "t".into());
            UpstreamRequest::Mcp(McpServerRequest { method, target, arguments, headers }).to_bytes()
        };
        assert_eq!(
            tool(json!({ "a": { "b": 1, "c": 2 }, "d": 3 })),
            tool(json!({ "d": 3, "a": { "c": 2, "b": 1 } }))
        );
        assert_ne!(tool(json!({ "a": 1 })), tool(json!({ "a": 1.0 })));
    }
}

#[cfg(test)]
mod renderer_tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_templates_of_a_request_take_no_more_steps_together_than_they_may() {
        let takes_more = |sources: &[&str]| {
            let arguments = json!({ "n": 700, "list": [1, 2], "text": "x".repeat(1000) });
            let arguments = Arguments::from(arguments.as_object().unwrap().clone());
            let work_budget = WorkBudget::with_steps(10_000);
            let mut renderer = RequestRenderer::new(&arguments, Some(&work_budget));
            let filled: Vec<_> =
                sources.iter().map(|source| renderer.render(&Template::compile(source).unwrap())).collect();
            assert_eq!(filled.iter().any(Result::is_err), work_budget.is_used_up());
            work_budget.is_used_up()
        };
        let counts = "{% for i in range(args.n) %}{{ i }}{% endfor %}";
        assert!(!takes_more(&["{{ args.text | upper }}", "{{ args.list | join(',') }}", counts]));
        assert!(takes_more(&[counts, counts, counts, counts, counts, counts]));
        assert!(takes_more(&["{% for i in range(args.n) %}{{ 'y' in args.text }}{% endfor %}"]));
        assert!(takes_more(&["{{ (args.text * args.n) | length }}"]));
        assert!(takes_more(&[
            "{% set text = args.text %}{% for i in range(args.n) %}{{ 'y' in text }}{% endfor %}"
        ]));
    }

    #[test]
    fn a_template_that_can_not_be_filled_in_is_not_quoted() {
        let error = |source: &str, arguments: Value| {
            let arguments = Arguments::from(arguments.as_object().unwrap().clone());
            RequestRenderer::new(&arguments, None).render(&Template::compile(source).unwrap()).unwrap_err()
        };
        let missing = error("tenant-7/{{ args.city }}/{{ args.day }}", json!({ "city": "Oslo" }));
        assert_eq!(missing.to_string(), "the request can't be built without the argument `day`");
        assert!(missing.detail().unwrap().contains("args.day"), "{missing:?}");
        let unfit = error("{{ args.days | round }}", json!({ "days": "many" }));
        assert_eq!(
            unfit.to_string(),
            "the request can't be built from the arguments `days`: check their values"
        );
        let other = error("{{ input_responses.form.count | round }}", json!({ "days": 1 }));
        assert_eq!(other.to_string(), "the request can't be built from these arguments");
    }
}
