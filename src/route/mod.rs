//! Which tool asks which upstream for what.
//!
//! In reading order: [`Route`] binds a tool to an endpoint of an upstream and to the rules for its reply;
//! [`RouteTable`] finds the route of a call; [`InputSchema`] checks its arguments; [`Asking`] says what is asked of a
//! person or the client's model before anything is done; [`RequestTemplate`] makes the upstream's request of the
//! arguments, in which no argument can leave the place it was put into; [`JobRule`] says of work that outlasts its first
//! reply whether it is done, and what to ask next; [`location`] where a reply points to; [`LogLine`] what clients are
//! told meanwhile, and [`TraceContext`] whose work a call is a part of. [`RouteCall`] is a call that a prompt or a
//! [`Completion`] makes. [`Scopes`] are what a caller needs. Where a route is something to read,
//! [`ResourceDefinition`] says what, and [`UriTemplate`] under which addresses.
//!
//! Pure: no `async`, clock, environment or log.

mod ask;
mod call;
mod completion;
mod input;
mod integers;
mod job;
pub mod location;
mod log;
mod name;
mod outward;
mod path;
mod query;
mod request;
mod resource;
mod scope;
mod table;
mod texts;
mod trace;
mod uri;

use std::time::Duration;

use http::Method;

use crate::{
    rule::Translator,
    tool::{ErrorFormat, ToolDefinition},
};

pub use ask::{
    Abilities, Ability, Answer, Asking, Form, FormAbility, FormError, Inquiry, InquiryTemplate, Missing,
    Next, Question, QuestionTemplate, Round, Sampled, Unfit,
};
pub use call::RouteCall;
pub use completion::{AskedCompletion, Completion, Suggestions, lines_of};
pub use input::InputSchema;
pub use job::{
    Begun, CancelRule, JobFacts, JobPlace, JobPlaceRule, JobRule, Stand, TaskOffer, TaskRule, Turn,
};
pub use log::{LogLevel, LogLine};
pub use name::{UpstreamName, UpstreamNameError};
pub use outward::leads_out;
pub use path::{PathError, PathTemplate};
pub use query::QueryTemplate;
pub use request::{
    BodyTemplate, CommandRequest, CommandTemplate, Effect, HttpRequest, HttpTemplate, JsonTemplate,
    RequestError, RequestTemplate, ToolRequest, ToolTemplate, Under, UpstreamRequest, ValueTemplate,
    WordTemplate,
};
pub use resource::ResourceDefinition;
pub use scope::{NotAScope, Scopes};
pub use table::{Conflict, EndpointMatch, RouteTable};
pub use trace::TraceContext;
pub use uri::{UriError, UriTemplate};

/// One tool, or one thing to read, bound to an endpoint of an upstream.
#[derive(Debug)]
pub struct Route {
    /// What clients see of the tool.
    pub definition: ToolDefinition,
    /// Whether it can be called as a tool.
    pub tool: Offer,
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
    /// Who is asked.
    pub upstream: UpstreamName,
    /// For what.
    pub request: RequestTemplate,
    /// How work that outlasts the first reply is followed; without it that reply is the answer. Large, and seldom there.
    pub job: Option<Box<JobRule>>,
    /// What the reply means.
    pub translator: Translator,
    /// The form of an error about arguments, where it is another than a sentence. Large, and seldom there.
    pub argument_error: Option<Box<Translator>>,
    /// How long a call may take, all in all.
    pub deadline: Duration,
    /// Whether its request may be sent twice; where nothing is said, when its method is idempotent (RFC 9110,
    /// section 9.2.2).
    pub repeatable: Option<bool>,
    /// What clients that want to know are told while a call goes on.
    pub log: Vec<LogLine>,
    /// Whether the trace that a call belongs to is told to the upstream.
    pub traces: Traces,
    /// How many bytes of body are read.
    pub reply_limit_bytes: usize,
    /// What REST clients get.
    pub envelope: Envelope,
    /// What HTTP status REST clients see on a tool error.
    pub error_status: ErrorStatus,
    /// What the text of a tool error looks like, for all clients.
    pub error_format: ErrorFormat,
}

/// Whether something is on offer to clients.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Offer {
    /// It is listed, and can be asked for.
    Made,
    /// It is there for other parts of the configuration.
    Withheld,
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
    Truthful,
    /// 200 always, for clients that read the body only after a 200.
    Ok,
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
        self.tool == Offer::Made
    }
}
