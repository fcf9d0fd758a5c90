//! From a tool call to an upstream request.
//!
//! In reading order:
//! - [`Route`] binds a tool to an endpoint of an upstream and to the rules for its response. [`RouteTable`]
//!   finds the route of a call; [`InputSchema`] checks its arguments. [`Scopes`] are the permissions that a
//!   client needs.
//! - [`Asking`] has the input requests to a person or the client's model before anything is done.
//! - [`RequestTemplate`] builds the upstream request from the arguments; no argument can leave its place in
//!   it.
//! - [`JobRule`] decides whether an asynchronous operation is done, and how to poll it. [`resolve_location`]
//!   resolves a `Location`. [`LogLine`] is a notification to the client meanwhile.
//! - [`TraceContext`] is the trace that a call is a part of. [`RouteCall`] is a call that a prompt or a
//!   [`Completion`] makes.
//! - [`ResourceDefinition`] is a resource that a route provides, and [`UriTemplate`] its URIs.
//!
//! Pure: no `async`, clock, environment or log.

mod input_requests;
mod client_context;
mod input;
mod async_operation;
mod path;
mod query;
mod request;
mod resource;
mod table;

use std::{collections::HashSet, fmt, str::FromStr, sync::Arc, time::Duration};

use http::Method;
use serde_json::{Map, Value};

pub use async_operation::{
    Begun, CancelRule, JobFacts, JobPlace, JobPlaceRule, JobRule, Stand, TaskOffer, TaskRule, Turn,
};
pub use client_context::{NotAScope, Scopes, TraceContext};
pub use input::InputSchema;
pub use input_requests::{
    Abilities, Ability, Answer, Asking, Form, FormAbility, FormError, Inquiry, InquiryTemplate, Missing,
    Next, Question, QuestionTemplate, Round, Sampled, Unfit,
};
pub use path::{PathError, PathTemplate, leads_out, resolve_location, same_origin};
pub use query::QueryTemplate;
pub use request::{
    BodyTemplate, CommandRequest, CommandTemplate, Effect, HttpRequest, HttpTemplate, JsonTemplate,
    McpMethod, PathBase, RequestError, RequestTemplate, ToolRequest, ToolTemplate, UpstreamRequest,
    ValueTemplate, WordTemplate,
};
pub use resource::{ResourceDefinition, UriError, UriTemplate};
pub use table::{Conflict, EndpointMatch, RouteTable};

use crate::{
    model::{Arguments, ErrorFormat, ToolDefinition, ToolName, ToolResult},
    translate::{Jq, Template, Translator, WorkBudget},
};

/// One tool, or one thing to read, bound to an endpoint of an upstream.
#[derive(Debug)]
pub struct Route {
    /// What clients see of the tool.
    pub definition: ToolDefinition,
    /// Whether it can be called as a tool.
    pub tool: Visibility,
    /// What can be read through it. Large, and seldom there.
    pub resource: Option<Box<ResourceDefinition>>,
    /// What a caller has to be allowed, where callers are told apart.
    pub scopes: Scopes,
    /// What arguments must look like.
    pub input: InputSchema,
    /// What its arguments may be, for people who type them; beside what the schema lists.
    pub completions: Vec<(String, Completion)>,
    /// What is asked before the request is sent.
    pub asking: Asking,
    /// Where REST clients find it, beside a tool's `POST /tools/NAME`; `None` when that is all.
    pub rest: Option<RestEndpoint>,
    /// The upstream of the request.
    pub upstream: UpstreamName,
    /// The template of the request.
    pub request: RequestTemplate,
    /// How work that outlasts the first reply is followed; without it that reply is the answer. Large, and
    /// seldom there.
    pub job: Option<Box<JobRule>>,
    /// What the reply means.
    pub translator: Translator,
    /// The form of an error about arguments, where it is another than a sentence. Large, and seldom there.
    pub argument_error: Option<Box<Translator>>,
    /// Timeout of a call, with queueing and retries.
    pub timeout: Duration,
    /// Whether its request may be sent twice; where nothing is said, when its method is idempotent (RFC 9110,
    /// section 9.2.2).
    pub idempotent: Option<bool>,
    /// What clients that want to know are told while a call goes on.
    pub log: Vec<LogLine>,
    /// Whether the trace that a call belongs to is told to the upstream.
    pub traces: Traces,
    /// How many bytes of body are read.
    pub response_limit_bytes: usize,
    /// What REST clients get.
    pub envelope: Envelope,
    /// What HTTP status REST clients see on a tool error.
    pub error_status: ErrorStatus,
    /// What the text of a tool error looks like, for all clients.
    pub error_format: ErrorFormat,
}

/// Whether clients see a route.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Visibility {
    /// It is listed, and can be called.
    Listed,
    /// Only other parts of the configuration use it.
    Internal,
}

/// A method and a path of the REST face.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RestEndpoint {
    /// The method.
    pub method: Method,
    /// The path, with arguments as `{name}`.
    pub path: String,
}

/// What becomes of the trace that a call belongs to (W3C Trace Context).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Traces {
    /// It goes on to the upstream.
    Forwarded,
    /// It ends here.
    Kept,
}

/// The form of a REST answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Envelope {
    /// The tool result: `content`, `structuredContent`, `isError`.
    Mcp,
    /// The structured value alone; `{"error": …}` on failure.
    Plain,
}

/// The HTTP status of a tool error on the REST face.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ErrorStatus {
    /// 4xx and 5xx as things are.
    Mapped,
    /// 200 always, for clients that read the body only after a 200.
    Always200,
}

impl Route {
    /// Where REST clients reach the route: its own endpoint, and that of a tool, `POST /tools/NAME`.
    pub fn endpoints(&self) -> impl Iterator<Item = RestEndpoint> + '_ {
        let default = RestEndpoint { method: Method::POST, path: format!("/tools/{}", self.definition.name) };
        let same = self.rest.as_ref() == Some(&default);
        self.rest.clone().into_iter().chain((self.is_tool() && !same).then_some(default))
    }

    /// Whether clients can call it as a tool.
    pub fn is_tool(&self) -> bool {
        self.tool == Visibility::Listed
    }
}

/// What a route calls a legacy server by: letters, digits, `_` and `-`, at most 64 bytes.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct UpstreamName(Arc<str>);

/// A text that is no upstream's name.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not a name for an upstream: 1 to 64 ASCII letters, digits, `_` or `-` are")]
pub struct UpstreamNameError(String);

impl UpstreamName {
    /// The name as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The same text, shared.
    pub fn shared(&self) -> Arc<str> {
        Arc::clone(&self.0)
    }
}

impl FromStr for UpstreamName {
    type Err = UpstreamNameError;

    fn from_str(text: &str) -> Result<Self, UpstreamNameError> {
        let good = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-');
        if (1..=64).contains(&text.len()) && text.bytes().all(good) {
            Ok(Self(text.into()))
        } else {
            Err(UpstreamNameError(text.to_owned()))
        }
    }
}

impl fmt::Display for UpstreamName {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0)
    }
}

/// Which route is called, and with what.
#[derive(Debug)]
pub struct RouteCall {
    /// The route.
    pub route: ToolName,
    /// Its arguments: what each is made of.
    pub arguments: Vec<(String, JsonTemplate)>,
}

impl RouteCall {
    /// The arguments for the route, made of the caller's. A text becomes what the route's schema asks for;
    /// one that is empty leaves the argument out. `stop` ends it early.
    ///
    /// # Errors
    ///
    /// [`RequestError`] when a template can't be filled in.
    pub fn fill(
        &self,
        arguments: &Arguments,
        input: &InputSchema,
        stop: Option<&WorkBudget>,
    ) -> Result<Map<String, Value>, RequestError> {
        let mut filled = Map::new();
        for (name, template) in &self.arguments {
            match template.fill(arguments, stop)? {
                None => {}
                Some(Value::String(text)) if text.is_empty() => {}
                Some(Value::String(text)) => {
                    filled.insert(name.clone(), input.of_texts(name, vec![text]));
                }
                Some(value) => {
                    filled.insert(name.clone(), value);
                }
            }
        }
        Ok(filled)
    }
}

/// How much a line matters, as syslog has it (RFC 5424, section 6.2.1).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum LogLevel {
    /// For finding out why.
    Debug,
    /// What is going on.
    Info,
    /// What is normal and matters.
    Notice,
    /// What may become an error.
    Warning,
    /// What failed.
    Error,
    /// A part of the whole failed.
    Critical,
    /// Somebody has to act at once.
    Alert,
    /// Nothing works.
    Emergency,
}

/// One line.
#[derive(Debug)]
pub struct LogLine {
    /// How much it matters.
    pub level: LogLevel,
    /// What it says.
    pub text: Template,
}

impl LogLevel {
    /// All of them, the least first.
    pub const ALL: [Self; 8] = [
        Self::Debug,
        Self::Info,
        Self::Notice,
        Self::Warning,
        Self::Error,
        Self::Critical,
        Self::Alert,
        Self::Emergency,
    ];
    /// Their names, in the same order.
    pub const NAMES: [&'static str; 8] =
        ["debug", "info", "notice", "warning", "error", "critical", "alert", "emergency"];

    /// Such as `info`.
    pub fn as_str(self) -> &'static str {
        Self::NAMES[self as usize]
    }
}

impl FromStr for LogLevel {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        let found = Self::NAMES.iter().position(|name| *name == text);
        found.map(|index| Self::ALL[index]).ok_or(())
    }
}

impl LogLine {
    /// The names that a line may use. One that uses the reply's `status` is told when the reply is there,
    /// every other before the upstream is asked.
    pub const NAMES: [&'static str; 2] = ["args", "status"];

    /// Whether it can be told only when the reply is there.
    pub fn is_about_the_reply(&self) -> bool {
        self.text.names().iter().any(|name| name == "status")
    }
}

/// The source of the values of an argument.
#[derive(Debug)]
pub enum Completion {
    /// A fixed list.
    Listed(Vec<String>),
    /// A route returns them.
    Asked(AskedCompletion),
}

/// A route that returns the values of an argument.
#[derive(Debug)]
pub struct AskedCompletion {
    /// The route, and its arguments.
    pub call: RouteCall,
    /// jq: from its result to the list of values; where there is none, the result is the list.
    pub values: Option<Arc<Jq>>,
    /// Whether the route gets the typed text, and has filtered the values by it.
    pub chosen: bool,
}

/// Values for a person to choose from.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Suggestions {
    /// The best first, at most [`Suggestions::MOST`].
    pub values: Vec<String>,
    /// How many there are.
    pub total: usize,
}

impl Suggestions {
    /// How many values one response may have (MCP 2026-07-28, Completion, "Completion Results").
    pub const MOST: usize = 100;

    /// Those values that begin with the typed text, then those that contain it; case is ignored. With
    /// `chosen`, when the route has filtered them already, the others follow.
    pub fn of(values: Vec<String>, typed: &str, chosen: bool) -> Self {
        let typed = typed.to_lowercase();
        let mut seen = HashSet::new();
        let (mut beginning, mut having, mut other) = (Vec::new(), Vec::new(), Vec::new());
        for value in values {
            if value.is_empty() || seen.contains(&value) {
                continue;
            }
            let lower = value.to_lowercase();
            let place = match lower.find(&typed) {
                Some(0) => &mut beginning,
                Some(_) => &mut having,
                None if chosen => &mut other,
                None => continue,
            };
            seen.insert(value.clone());
            place.push(value);
        }
        let mut values = beginning;
        values.append(&mut having);
        values.append(&mut other);
        let total = values.len();
        values.truncate(Self::MOST);
        Self { values, total }
    }

    /// Whether there are more than these.
    pub fn has_more(&self) -> bool {
        self.total > self.values.len()
    }
}

/// The lines of a result that is text alone, as a list of values.
pub fn lines_of(result: &ToolResult) -> Vec<String> {
    let structured = result.structured.as_ref();
    let texts = result.content.iter().filter_map(|content| content.block.text(structured));
    texts.flat_map(|text| text.lines().map(|line| line.trim().to_owned()).collect::<Vec<_>>()).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn texts_become_what_the_route_asks_for_and_empty_ones_are_left_out() {
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
        let given = json!({ "days": "3", "city": "Oslo" }).as_object().unwrap().clone();
        let filled = call.fill(&given.into(), &input, None).unwrap();
        assert_eq!(Value::Object(filled), json!({ "days": 3, "city": "oslo", "limit": 5 }));
        assert!(call.fill(&Arguments::default(), &input, None).is_err());
    }

    #[track_caller]
    fn check(values: &[&str], typed: &str, chosen: bool, expected: &[&str]) {
        let values = values.iter().map(|value| (*value).to_owned()).collect();
        assert_eq!(Suggestions::of(values, typed, chosen).values, expected);
    }

    #[test]
    fn what_begins_with_the_words_comes_before_what_has_them() {
        let cities = ["Bergen", "Oslo", "Nordoslo", "Østby", "Oslo", ""];
        check(&cities, "os", false, &["Oslo", "Nordoslo"]);
        check(&cities, "OSLO", false, &["Oslo", "Nordoslo"]);
        check(&cities, "øst", false, &["Østby"]);
        check(&cities, "", false, &["Bergen", "Oslo", "Nordoslo", "Østby"]);
        check(&cities, "x", false, &[]);
        check(&cities, "os", true, &["Oslo", "Nordoslo", "Bergen", "Østby"]);
    }

    #[test]
    fn a_hundred_values_are_told_and_how_many_there_are() {
        let many = |count: usize| (0..count).map(|number| format!("v{number}")).collect::<Vec<_>>();
        let found = Suggestions::of(many(250), "v", false);
        assert_eq!((found.values.len(), found.total, found.has_more()), (100, 250, true));
        let found = Suggestions::of(many(100), "", false);
        assert_eq!((found.values.len(), found.total, found.has_more()), (100, 100, false));
    }
}
