//! Routes: convert a tool call to an upstream request.
//!
//! - [`Route`] binds a tool to an endpoint of an upstream and to the rules for its response. [`RouteTable`]
//!   finds the route of a call; [`InputSchema`] checks its arguments. [`Scopes`] are the permissions that a
//!   client needs.
//! - [`InputRequests`] are the requests for input that a client receives before the upstream request is sent.
//! - [`RequestTemplate`] builds the upstream request from the arguments. It encodes each argument for its
//!   context, so that an argument cannot change other parts of the request.
//! - [`AsyncOperationRule`] interprets the responses of an asynchronous operation and builds its status
//!   requests. [`resolve_location`] resolves a `Location`. [`LogNotification`] is a log notification to the
//!   client during a call.
//! - [`TraceContext`] is the trace context of a call. [`RouteCall`] is a call of a route by a prompt or a
//!   [`Completion`].
//! - [`ResourceDefinition`] is a resource that a route provides, and [`UriTemplate`] the template of its
//!   URIs.
//!
//! The module is pure: no `async`, clock, environment or log.

mod input_requests;
mod input;
mod async_operation;
mod path;
mod request;
mod resource;
mod scopes;
mod route_table;
mod trace_context;

use std::{collections::HashSet, str::FromStr, sync::Arc, time::Duration};

use http::Method;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use settings_derive::{EnumSetting, Section};

pub use async_operation::{
    AsyncOperationRule, CancelRule, InitialResponse, OperationLocation, OperationLocationRule,
    OperationRequest, OperationStatus, RunningOperation, StatusResponse, TaskRule, TaskSupport,
};
pub use input::{InputSchema, quoted_names};
pub use input_requests::{
    ClientCapability, InputForm, InputRequest, InputRequestKind, InputRequestKindTemplate,
    InputRequestTemplate, InputRequests, InputResponse, InvalidInput, NextStep, SamplingNeed,
};
pub use path::{
    PathTemplate, PathTemplateError, QueryTemplate, is_path_traversal, push_parameter, resolve_location,
    scalar_text,
};
pub use request::{
    CommandRequest, CommandTemplate, HttpRequest, HttpTemplate, JsonTemplate, McpMethod, McpServerRequest,
    PathBase, RequestBodyTemplate, RequestError, RequestTemplate, SideEffects, ToolTemplate, UpstreamRequest,
    ValueTemplate, WordTemplate,
};
pub use resource::{ResourceDefinition, UriTemplate};
pub use route_table::{Conflict, EndpointMatch, RouteTable};
pub use scopes::Scopes;
pub use trace_context::TraceContext;

use crate::model::{Arguments, ErrorFormat, ToolDefinition, ToolName};
use crate::settings::suggest::quoted;
use crate::translate::{Jq, Template, Translator, WorkBudget};

/// Tool or resource, bound to an endpoint of an upstream.
#[derive(Debug)]
pub struct Route {
    /// Tool definition that clients see.
    pub definition: ToolDefinition,
    /// Whether clients can call the route as a tool. If not, the route is only a resource, or only called by
    /// other parts of the configuration.
    pub is_tool: bool,
    /// Resource that the route provides. Boxed, because it is large and rare.
    pub resource: Option<Box<ResourceDefinition>>,
    /// Scopes that a client needs, if clients are authenticated.
    pub scopes: Scopes,
    /// JSON Schema that the arguments must match.
    pub input: InputSchema,
    /// Completions of the arguments, in addition to the values that the schema lists.
    pub completions: Vec<(String, Completion)>,
    /// Input requests that precede the upstream request.
    pub input_requests: InputRequests,
    /// REST endpoint in addition to `POST /tools/NAME` of a tool; `None` if there is no other endpoint.
    pub rest: Option<RestEndpoint>,
    /// Upstream that receives the request.
    pub upstream: UpstreamName,
    /// Template of the request.
    pub request: RequestTemplate,
    /// Rules for polling an asynchronous operation. Without them, the first response is the result. Boxed,
    /// because they are large and rare.
    pub async_operation: Option<Box<AsyncOperationRule>>,
    /// Rules that translate the response.
    pub translator: Translator,
    /// Translator that formats argument errors; without it, they are plain text. Boxed, because it is large
    /// and rare.
    pub argument_error: Option<Box<Translator>>,
    /// Timeout of a call, including queueing and retries.
    pub timeout: Duration,
    /// Whether the request may be sent twice. Default: whether its method is idempotent (RFC 9110, section
    /// 9.2.2), or its tool declares `readOnlyHint` or `idempotentHint`.
    pub idempotent: bool,
    /// Log notifications that are sent during a call to clients that request them.
    pub log: Vec<LogNotification>,
    /// Whether the trace context (W3C Trace Context) is propagated to the upstream.
    pub propagates_trace_context: bool,
    /// Maximum length of a response body, in bytes.
    pub response_limit_bytes: usize,
    /// Format of REST responses.
    pub envelope: Envelope,
    /// HTTP status of tool errors over REST.
    pub error_status: ErrorStatus,
    /// Format of tool error messages, for all clients.
    pub error_format: ErrorFormat,
}

/// Method and path of the REST API.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RestEndpoint {
    /// Method.
    pub method: Method,
    /// Path, with arguments as `{name}`.
    pub path: String,
}

/// Format of a REST response.
#[derive(Debug, Clone, Copy, PartialEq, Eq, EnumSetting)]
pub enum Envelope {
    /// Tool result: `content`, `structuredContent`, `isError`.
    Mcp,
    /// Structured value alone; `{"error": …}` on failure.
    Plain,
}

/// HTTP status of a tool error over REST.
#[derive(Debug, Clone, Copy, PartialEq, Eq, EnumSetting)]
pub enum ErrorStatus {
    /// Mapped to 4xx and 5xx.
    Mapped,
    /// Always 200, for clients that read the body only after a 200.
    #[value("always_200")]
    Always200,
}

impl Route {
    /// REST endpoints of the route: the configured endpoint, and `POST /tools/NAME` if the route is a tool.
    pub fn endpoints(&self) -> impl Iterator<Item = RestEndpoint> + '_ {
        let default = RestEndpoint { method: Method::POST, path: format!("/tools/{}", self.definition.name) };
        let is_default = self.rest.as_ref() == Some(&default);
        self.rest.clone().into_iter().chain((self.is_tool && !is_default).then_some(default))
    }

    /// Whether a call may have side effects: the request can do more than read, and the tool does not declare
    /// `readOnlyHint`.
    pub fn may_have_effect(&self) -> bool {
        let only_reads = |annotations| SideEffects::from_annotations(annotations).is_read_only;
        self.translator.has_effect && !self.definition.annotations.as_ref().is_some_and(only_reads)
    }
}

/// Name of an upstream: letters, digits, `_` and `-`, at most 64 bytes.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, derive_more::Display)]
pub struct UpstreamName(Arc<str>);

impl UpstreamName {
    /// Name as a string.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Name as a shared string.
    pub fn shared(&self) -> Arc<str> {
        Arc::clone(&self.0)
    }
}

impl FromStr for UpstreamName {
    /// A message for the operator.
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let is_valid = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-');
        let is_name = (1..=64).contains(&text.len()) && text.bytes().all(is_valid);
        is_name.then(|| Self(text.into())).ok_or_else(|| {
            format!(
                "{} is not a name for an upstream; use 1 to 64 ASCII letters, digits, `_` or `-`",
                quoted(text)
            )
        })
    }
}

/// Call of a route by another part of the configuration.
#[derive(Debug)]
pub struct RouteCall {
    /// Name of the route.
    pub route: ToolName,
    /// Names of arguments, each with the template of its value.
    pub arguments: Vec<(String, JsonTemplate)>,
}

impl RouteCall {
    /// Builds the arguments of the call from the arguments of a prompt or a completion. A string is converted
    /// to the type in the route's schema; an argument whose string is empty is omitted. `work_budget` limits
    /// the rendering.
    pub fn fill(
        &self,
        arguments: &Arguments,
        input: &InputSchema,
        work_budget: Option<&WorkBudget>,
    ) -> Result<Map<String, Value>, RequestError> {
        let mut filled = Map::new();
        for (name, template) in &self.arguments {
            let value = match template.fill(arguments, work_budget)? {
                None => continue,
                Some(Value::String(text)) if text.is_empty() => continue,
                Some(Value::String(text)) => input.coerce_texts(name, vec![text]),
                Some(value) => value,
            };
            filled.insert(name.clone(), value);
        }
        Ok(filled)
    }
}

/// Severity of a log notification, as in syslog (RFC 5424, section 6.2.1).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, EnumSetting, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum McpLogLevel {
    /// Debugging information.
    Debug,
    /// Informational.
    Info,
    /// Normal but significant.
    Notice,
    /// Warning condition.
    Warning,
    /// Error.
    Error,
    /// Failure of a component.
    Critical,
    /// Immediate action required.
    Alert,
    /// System unusable.
    Emergency,
}

/// Log notification to clients during a call (`notifications/message`).
#[derive(Debug, Section)]
#[section(name = "a line of `notifications`", id = "log_line")]
pub struct LogNotification {
    /// Severity.
    #[key(default = McpLogLevel::Info)]
    pub level: McpLogLevel,
    /// Text: a template of `args`. A template with `status` is sent after the upstream response.
    #[key(example = "text: \"weather of {{ args.city }} requested\"")]
    pub text: Template,
}

impl LogNotification {
    /// Variables of the template. A notification with `status` is sent after the upstream response, any other
    /// before the upstream request.
    pub const NAMES: [&'static str; 2] = ["args", "status"];

    /// Whether the notification can only be sent after the upstream response.
    pub fn depends_on_response(&self) -> bool {
        self.text.used.names.iter().any(|name| name == "status")
    }
}

/// Source of completion values for an argument.
#[derive(Debug)]
pub enum Completion {
    /// A fixed list of values.
    Listed(Vec<String>),
    /// Another route that returns the values.
    Route(RouteCompletion),
}

/// Route that returns completion values.
#[derive(Debug)]
pub struct RouteCompletion {
    /// Call of the route, with the templates of its arguments.
    pub call: RouteCall,
    /// jq filter that returns the list of values from the result. `None`: the result is the list.
    pub values: Option<Arc<Jq>>,
    /// Whether the route gets the typed text as an argument, so that it has already filtered the values.
    pub is_filtered: bool,
}

/// Completion values that a person can choose from.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Suggestions {
    /// Values, best matches first; at most [`Suggestions::MAX_COUNT`].
    pub values: Vec<String>,
    /// Total number of matches.
    pub total: usize,
}

impl Suggestions {
    /// Maximum number of values in one response (MCP 2026-07-28, Completion, "Completion Results").
    pub const MAX_COUNT: usize = 100;

    /// Selects the values that begin with the typed text, then the values that contain it, ignoring case.
    /// With `is_filtered`, the route has already filtered the values by the typed text, so all other values
    /// follow. Omits empty strings and duplicates.
    pub fn matching(values: Vec<String>, typed: &str, is_filtered: bool) -> Self {
        let typed = typed.to_lowercase();
        let rank = |value: &str| match value.to_lowercase().find(&typed) {
            Some(0) => Some(0),
            Some(_) => Some(1),
            None => is_filtered.then_some(2),
        };
        let mut seen = HashSet::new();
        let distinct = values.into_iter().filter(|value| !value.is_empty() && seen.insert(value.clone()));
        let mut ranked: Vec<(u8, String)> =
            distinct.filter_map(|value| Some((rank(&value)?, value))).collect();
        ranked.sort_by_key(|(rank, _)| *rank);
        let mut values: Vec<String> = ranked.into_iter().map(|(_, value)| value).collect();
        let total = values.len();
        values.truncate(Self::MAX_COUNT);
        Self { values, total }
    }

    /// Whether there are more matches than `values` contains.
    pub fn has_more(&self) -> bool {
        self.total > self.values.len()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn texts_are_converted_to_argument_types_and_empty_ones_omitted() {
        let schema = json!({ "type": "object", "properties": { "days": { "type": "integer" } } });
        let input = InputSchema::new(schema.as_object().unwrap()).unwrap();
        let text = |text: &str| JsonTemplate::Text(Template::compile(text).unwrap());
        let call = RouteCall {
            route: "forecast".parse().unwrap(),
            arguments: vec![
                ("days".into(), JsonTemplate::Argument("days".into())),
                ("city".into(), text("{{ args.city | lower }}")),
                ("units".into(), text("{{ args.units | default('') }}")),
                ("limit".into(), JsonTemplate::Fixed(json!(5))),
                ("none".into(), JsonTemplate::Argument("none".into())),
            ],
        };
        let arguments = json!({ "days": "3", "city": "Oslo" }).as_object().unwrap().clone();
        let filled = call.fill(&arguments.into(), &input, None).unwrap();
        assert_eq!(Value::Object(filled), json!({ "days": 3, "city": "oslo", "limit": 5 }));
        assert!(call.fill(&Arguments::default(), &input, None).is_err());
    }

    #[track_caller]
    fn check(values: &[&str], typed: &str, is_filtered: bool, expected: &[&str]) {
        let values = values.iter().map(|value| (*value).to_owned()).collect();
        assert_eq!(Suggestions::matching(values, typed, is_filtered).values, expected);
    }

    #[test]
    fn prefix_matches_come_before_other_matches() {
        let cities = ["Bergen", "Oslo", "Nordoslo", "Østby", "Oslo", ""];
        check(&cities, "os", false, &["Oslo", "Nordoslo"]);
        check(&cities, "OSLO", false, &["Oslo", "Nordoslo"]);
        check(&cities, "øst", false, &["Østby"]);
        check(&cities, "", false, &["Bergen", "Oslo", "Nordoslo", "Østby"]);
        check(&cities, "x", false, &[]);
        check(&cities, "os", true, &["Oslo", "Nordoslo", "Bergen", "Østby"]);
    }

    #[test]
    fn at_most_100_values_are_returned_with_the_total() {
        let many = |count: usize| (0..count).map(|number| format!("v{number}")).collect::<Vec<_>>();
        let found = Suggestions::matching(many(250), "v", false);
        assert_eq!((found.values.len(), found.total, found.has_more()), (100, 250, true));
        let found = Suggestions::matching(many(100), "", false);
        assert_eq!((found.values.len(), found.total, found.has_more()), (100, 100, false));
    }
}
