//! Input requests (elicitation, sampling, roots): requests to the client, its model or a person. They are
//! sent before the upstream request, except the sampling request of a rule, which follows the upstream
//! response.
//!
//! - [`InputRequests`]: the rounds of [input requests](InputRequestTemplate) of a route or a prompt. Computes
//!   the next step of a call.
//! - [`InputRequest`]: an input request that is ready to be sent. Checks the response ([`InputResponse`]).
//! - [`InputForm`]: a form for elicitation.
//!
//! Responses are stored by the name of the input request. A null means that there is no response: the
//! request was not needed, was optional and declined, or the client does not support it.

mod form;
#[cfg(test)]
mod tests;

use std::time::Duration;

use minijinja::Value as TemplateValue;
use serde_json::{Map, Value};

pub use self::form::InputForm;
use crate::model::{Arguments, cut_characters};
use crate::translate::{Jq, SAMPLE, SamplingRequest, Template, TemplateError, WorkBudget, request_variables};

/// All input requests of a route or prompt.
#[derive(Debug)]
pub struct InputRequests {
    /// Rounds in the order in which they are sent; the input requests of one round are sent together. Later
    /// rounds may depend on responses to earlier rounds.
    pub rounds: Vec<Vec<InputRequestTemplate>>,
    /// Whether the sampling request that a rule sends after the upstream response is required; `None` if no
    /// rule has a sampling request.
    pub sampled: Option<SamplingNeed>,
    /// Maximum time to wait for a response.
    pub input_timeout: Duration,
}

impl Default for InputRequests {
    fn default() -> Self {
        Self { rounds: Vec::new(), sampled: None, input_timeout: Self::DEFAULT_INPUT_TIMEOUT }
    }
}

/// Whether a sampling request of a rule is required.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SamplingNeed {
    /// Required: clients without sampling cannot call the route.
    Needed,
    /// Optional: clients without sampling get a result without it.
    Optional,
}

/// Next step of a call.
#[derive(Debug)]
pub enum NextStep {
    /// Send these input requests to the client.
    InputRequests(Vec<InputRequest>),
    /// End the call: the client lacks these capabilities, which required input requests need.
    MissingCapabilities(Vec<ClientCapability>),
    /// Continue with these arguments, which include all responses.
    Done(Arguments),
}

/// Capability of a client that an input request needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ClientCapability {
    /// Form elicitation, without multi-select enums (before 2025-11-25).
    Form,
    /// Form elicitation with multi-select enums. Clients with this capability also have [`Form`](Self::Form).
    FormWithMultiSelect,
    /// URL mode elicitation.
    Url,
    /// Sampling.
    Sampling,
    /// Roots.
    Roots,
}

impl InputRequests {
    /// Maximum number of input requests of one route.
    pub const INPUT_REQUEST_LIMIT: usize = 32;
    /// Maximum total length of the input responses of one call, as JSON in bytes.
    pub const RESPONSES_LIMIT_BYTES: usize = 64 << 10;

    /// Default of `input_timeout`; long, because a person needs time to respond.
    pub const DEFAULT_INPUT_TIMEOUT: Duration = Duration::from_secs(10 * 60);

    /// Whether there are no input requests.
    pub fn is_empty(&self) -> bool {
        self.rounds.is_empty() && self.sampled.is_none()
    }

    /// All input requests, in the order of their rounds.
    pub fn input_requests(&self) -> impl Iterator<Item = &InputRequestTemplate> {
        self.rounds.iter().flatten()
    }

    /// Whether the response to the input request `name` provides arguments.
    pub fn gives_arguments(&self, name: &str) -> bool {
        self.input_requests().any(|input_request| input_request.name == name && input_request.gives_arguments)
    }

    /// Computes the next step after the responses so far.
    ///
    /// # Errors
    ///
    /// A message for the model, if an input request can't be rendered with the arguments.
    pub fn next(
        &self,
        arguments: &Arguments,
        responses: &Map<String, Value>,
        capabilities: &[ClientCapability],
    ) -> Result<NextStep, String> {
        let mut arguments =
            Arguments { values: arguments.values.clone(), input_responses: self.with_nulls(responses) };
        for input_request in self.input_requests().filter(|input_request| input_request.gives_arguments) {
            if let Some(Value::Object(values)) = responses.get(&input_request.name) {
                arguments.values.extend(values.clone());
            }
        }
        let args = Value::Object(arguments.values.clone());
        let input_responses = Value::Object(arguments.input_responses.clone());
        let is_pending = |input_request: &&InputRequestTemplate| {
            let when = input_request.when.as_ref();
            !responses.contains_key(&input_request.name)
                && input_request.is_due(&arguments)
                && when.is_none_or(|when| when.is_true_before_request(&args, &input_responses))
        };
        // If the client does not support a required input request, the call ends before any request is sent.
        let required = self.input_requests().filter(|input_request| !input_request.optional);
        let mut missing: Vec<ClientCapability> =
            required.filter(is_pending).map(|input_request| input_request.kind.needs()).collect();
        missing.retain(|capability| !capabilities.contains(capability));
        let can_sample = capabilities.contains(&ClientCapability::Sampling);
        if self.sampled == Some(SamplingNeed::Needed) && !can_sample {
            missing.push(ClientCapability::Sampling);
        }
        if !missing.is_empty() {
            return Ok(NextStep::MissingCapabilities(missing));
        }
        let variables = request_variables(&arguments);
        let work_budget = WorkBudget::with_steps(WorkBudget::TEXT_STEPS);
        for round in &self.rounds {
            let due: Vec<InputRequest> = round
                .iter()
                .filter(is_pending)
                .filter(|input_request| capabilities.contains(&input_request.kind.needs()))
                .map(|input_request| input_request.render(&arguments, &variables, &work_budget))
                .collect::<Result<_, _>>()?;
            if !due.is_empty() {
                return Ok(NextStep::InputRequests(due));
            }
        }
        if self.sampled.is_some() && can_sample && !responses.contains_key(SAMPLE) {
            // Not null: the sampling request is still sent, after the upstream response.
            arguments.input_responses.remove(SAMPLE);
        }
        Ok(NextStep::Done(arguments))
    }

    /// Returns the responses, with null for each input request without a response.
    pub fn with_nulls(&self, responses: &Map<String, Value>) -> Map<String, Value> {
        let sampled = self.sampled.map(|_| SAMPLE);
        let names = self.input_requests().map(|input_request| input_request.name.as_str()).chain(sampled);
        names.map(|name| (name.to_owned(), responses.get(name).cloned().unwrap_or(Value::Null))).collect()
    }
}

/// Configured input request.
#[derive(Debug)]
pub struct InputRequestTemplate {
    /// Name of the input request and of its response.
    pub name: String,
    /// Condition on the arguments and on the responses so far. If it is false, the request is not sent.
    pub when: Option<Jq>,
    /// Whether a call continues without a response.
    pub optional: bool,
    /// Whether the form requests the arguments that the client omitted; these arguments are the fields of the
    /// form.
    pub gives_arguments: bool,
    /// Kind and content of the request.
    pub kind: InputRequestKindTemplate,
}

/// Kind of an input request, with its templates.
pub type InputRequestKindTemplate = InputRequestKind<Template>;

/// Input request that is ready to be sent.
#[derive(Debug, Clone)]
pub struct InputRequest {
    /// Name of the input request and of its response.
    pub name: String,
    /// Whether a call continues without a response.
    pub optional: bool,
    /// Kind and content of the request.
    pub kind: InputRequestKind,
}

/// Kind of an input request. If `T` is a string, the request is ready to be sent.
#[derive(Debug, Clone)]
pub enum InputRequestKind<T = String> {
    /// A person fills in a form, or confirms if the form has no fields.
    Form {
        /// Message to the person, with the reason for the request.
        message: T,
        /// Fields of the form.
        form: InputForm,
    },
    /// A person opens a URL, for data that must not pass through the client.
    Url {
        /// Message to the person, with the reason for the request.
        message: T,
        /// URL with the scheme `http` or `https`.
        url: T,
    },
    /// The client's model responds to a prompt (sampling).
    Sampling(SamplingRequest<T>),
    /// The client lists its roots.
    Roots,
}

/// Response to an input request.
#[derive(Debug, Clone, PartialEq)]
pub enum InputResponse {
    /// The response: a submitted form (an object), the output of the client's model (`{text, model,
    /// stop_reason}`), or the list of roots.
    Accepted(Value),
    /// The person declined.
    Declined,
    /// The person dismissed the request.
    Cancelled,
}

/// Error for a response with which the call cannot continue.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InvalidInput {
    /// The response does not match the request. The message is for the developer of the client.
    #[error("{0}")]
    Wrong(String),
    /// The request was declined or dismissed. The message is for the model.
    #[error("{0}")]
    Declined(String),
}

impl InputRequestKindTemplate {
    /// Capability that the request needs.
    pub(super) fn needs(&self) -> ClientCapability {
        match self {
            Self::Form { form, .. } if form.has_multi_select() => ClientCapability::FormWithMultiSelect,
            Self::Form { .. } => ClientCapability::Form,
            Self::Url { .. } => ClientCapability::Url,
            Self::Sampling(_) => ClientCapability::Sampling,
            Self::Roots => ClientCapability::Roots,
        }
    }
}

impl InputRequestTemplate {
    /// Whether the request is still needed, apart from `when`: a request for arguments is needed only if an
    /// argument is missing.
    pub(super) fn is_due(&self, arguments: &Arguments) -> bool {
        let InputRequestKind::Form { form, .. } = &self.kind else { return true };
        !self.gives_arguments || form.names().any(|name| arguments.get(name).is_none())
    }

    pub(super) fn render(
        &self,
        arguments: &Arguments,
        variables: &TemplateValue,
        work_budget: &WorkBudget,
    ) -> Result<InputRequest, String> {
        let render_error =
            |error: TemplateError| format!("the input request `{}` could not be built: {error}", self.name);
        let render =
            |template: &Template| template.render_until(variables, work_budget).map_err(render_error);
        let kind = match &self.kind {
            InputRequestKind::Form { message, form } => InputRequestKind::Form {
                message: render(message)?,
                form: form.only(|name| !self.gives_arguments || arguments.get(name).is_none()),
            },
            InputRequestKind::Url { message, url } => {
                InputRequestKind::Url { message: render(message)?, url: check_web_url(render(url)?)? }
            }
            InputRequestKind::Sampling(sample) => {
                InputRequestKind::Sampling(sample.render(variables, Some(work_budget)).map_err(render_error)?)
            }
            InputRequestKind::Roots => InputRequestKind::Roots,
        };
        Ok(InputRequest { name: self.name.clone(), optional: self.optional, kind })
    }
}

/// Checks that a rendered string is a URL that a person can open: `http` or `https`, with a host.
fn check_web_url(text: String) -> Result<String, String> {
    let is_web = text.starts_with("https://") || text.starts_with("http://");
    match text.parse::<http::Uri>() {
        Ok(uri) if is_web && uri.host().is_some() => Ok(text),
        _ => Err("the arguments do not form a URL that a user can open".to_owned()),
    }
}

impl InputRequest {
    /// Creates the sampling request of a rule.
    pub fn from_rule(sample: SamplingRequest) -> Self {
        let optional = sample.options.optional;
        Self { name: SAMPLE.to_owned(), optional, kind: InputRequestKind::Sampling(sample) }
    }

    /// Converts a response to the value that templates and filters get:
    ///
    /// - an object with the fields of a form
    /// - `true` for a form without fields, and for a URL
    /// - `{text, model, stop_reason}` from the client's model
    /// - a list of roots
    /// - null if an optional request was declined or dismissed
    ///
    /// # Errors
    ///
    /// [`InvalidInput`] if a required request was declined or dismissed, or if the response is invalid or too
    /// long.
    pub fn take(&self, response: InputResponse) -> Result<Value, InvalidInput> {
        let invalid = |problem: &str| {
            InvalidInput::Wrong(format!("the response to input request `{}`{problem}", self.name))
        };
        let value = match (&self.kind, response) {
            (_, InputResponse::Declined | InputResponse::Cancelled) if self.optional => Value::Null,
            (_, InputResponse::Declined) => {
                return Err(InvalidInput::Declined(self.declined_message("declined")));
            }
            (_, InputResponse::Cancelled) => {
                return Err(InvalidInput::Declined(self.declined_message("did not respond to")));
            }
            (InputRequestKind::Form { form, .. }, InputResponse::Accepted(_)) if form.is_empty() => {
                Value::Bool(true)
            }
            (InputRequestKind::Form { form, .. }, InputResponse::Accepted(Value::Object(content))) => {
                form.check(content).map(Value::Object).map_err(|message| invalid(&format!(": {message}")))?
            }
            (InputRequestKind::Form { .. }, InputResponse::Accepted(_)) => {
                return Err(invalid(" has the wrong type"));
            }
            (InputRequestKind::Url { .. }, InputResponse::Accepted(_)) => Value::Bool(true),
            (InputRequestKind::Sampling(_) | InputRequestKind::Roots, InputResponse::Accepted(value)) => {
                value
            }
        };
        let limit = InputRequests::RESPONSES_LIMIT_BYTES;
        if value.to_string().len() > limit {
            return Err(invalid(&format!(" is longer than {limit} bytes")));
        }
        Ok(value)
    }

    fn declined_message(&self, action: &str) -> String {
        match &self.kind {
            InputRequestKind::Form { message, .. } | InputRequestKind::Url { message, .. } => {
                format!("the user {action} \"{}\"", cut_characters(message, 300))
            }
            InputRequestKind::Sampling(_) | InputRequestKind::Roots => {
                format!("the client {action} the input request `{}`", self.name)
            }
        }
    }
}
