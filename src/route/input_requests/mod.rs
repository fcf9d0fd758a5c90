//! Input requests (elicitation, sampling, roots) to a person or the client's model before the upstream
//! request.
//!
//! - [`InputRequests`]: the rounds of [input requests](InputRequestTemplate) of a route or a prompt. It
//!   computes the next step.
//! - [`InputRequest`]: an input request that is ready to be sent. It checks its response ([`InputResponse`]).
//! - [`InputForm`]: a form for a person.
//!
//! Responses are by name. A null response means that there is none: the condition of its input request was
//! false, or it was declined and optional, or the client does not support it.

mod form;
#[cfg(test)]
mod tests;

use std::time::Duration;

use minijinja::Value as Name;
use serde_json::{Map, Value};

pub use self::form::InputForm;
use crate::model::{Arguments, cut_characters};
use crate::translate::{Jq, SAMPLE, SamplingRequest, Template, TemplateError, WorkBudget, request_variables};

/// All input requests of a route or prompt.
#[derive(Debug)]
pub struct InputRequests {
    /// Rounds of input requests that are sent together, in order. Later rounds may depend on responses to
    /// earlier ones.
    pub rounds: Vec<Vec<InputRequestTemplate>>,
    /// Whether a rule sends a sampling request after the upstream's response.
    pub sampled: Option<SamplingNeed>,
    /// Timeout of a response.
    pub input_timeout: Duration,
}

impl Default for InputRequests {
    fn default() -> Self {
        Self { rounds: Vec::new(), sampled: None, input_timeout: Self::DEFAULT_INPUT_TIMEOUT }
    }
}

/// Whether a rule requires the client's model.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SamplingNeed {
    /// Required.
    Needed,
    /// Optional.
    Optional,
}

/// Next step of a call.
#[derive(Debug)]
pub enum NextStep {
    /// Send these input requests.
    InputRequests(Vec<InputRequest>),
    /// End the call: the client lacks these capabilities for required input requests.
    Unable(Vec<ClientCapability>),
    /// Continue: all responses are there. The arguments include them.
    Done(Arguments),
}

/// Capability of a client that an input request needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ClientCapability {
    /// Form elicitation, without multiple choice (before 2025-11-25).
    Form,
    /// Form elicitation with multiple choice. Clients that support it have [`Form`](Self::Form), too.
    FormWithLists,
    /// URL elicitation.
    Link,
    /// Sampling.
    Sample,
    /// Roots.
    Roots,
}

impl InputRequests {
    /// Maximum number of input requests of one route.
    pub const INPUT_REQUEST_LIMIT: usize = 32;
    /// Limit of all input responses of one call together, as JSON in bytes.
    pub const ANSWERS_LIMIT_BYTES: usize = 64 << 10;

    /// Default timeout of a response: people need time to think.
    pub const DEFAULT_INPUT_TIMEOUT: Duration = Duration::from_secs(10 * 60);

    /// Whether there are no input requests.
    pub fn is_empty(&self) -> bool {
        self.rounds.is_empty() && self.sampled.is_none()
    }

    /// All input requests, round by round.
    pub fn input_requests(&self) -> impl Iterator<Item = &InputRequestTemplate> {
        self.rounds.iter().flatten()
    }

    /// Whether the response to this input request provides arguments.
    pub fn gives_arguments(&self, name: &str) -> bool {
        self.input_requests().any(|input_request| input_request.name == name && input_request.gives_arguments)
    }

    /// Computes the next step after these responses.
    ///
    /// # Errors
    ///
    /// A sentence for the model if an input request can't be rendered from the arguments.
    pub fn next(
        &self,
        arguments: &Arguments,
        answers: &Map<String, Value>,
        capabilities: &[ClientCapability],
    ) -> Result<NextStep, String> {
        let mut arguments =
            Arguments { given: arguments.given.clone(), input_responses: self.complete(answers) };
        for input_request in self.input_requests().filter(|input_request| input_request.gives_arguments) {
            if let Some(Value::Object(given)) = answers.get(&input_request.name) {
                arguments.given.extend(given.clone());
            }
        }
        let args = Value::Object(arguments.given.clone());
        let seen = Value::Object(arguments.input_responses.clone());
        let is_pending = |input_request: &&InputRequestTemplate| {
            let when = input_request.when.as_ref();
            !answers.contains_key(&input_request.name)
                && input_request.is_due(&arguments)
                && when.is_none_or(|when| when.is_true_before_request(&args, &seen))
        };
        // A required input request that the client does not support ends the call before the first one is
        // sent.
        let required = self.input_requests().filter(|input_request| !input_request.optional);
        let mut missing: Vec<ClientCapability> =
            required.filter(is_pending).map(|input_request| input_request.kind.needs()).collect();
        missing.retain(|capability| !capabilities.contains(capability));
        let can_sample = capabilities.contains(&ClientCapability::Sample);
        if self.sampled == Some(SamplingNeed::Needed) && !can_sample {
            missing.push(ClientCapability::Sample);
        }
        if !missing.is_empty() {
            return Ok(NextStep::Unable(missing));
        }
        let names = request_variables(&arguments);
        let stop = WorkBudget::with_steps(WorkBudget::TEXT_STEPS);
        for round in &self.rounds {
            let due: Vec<InputRequest> = round
                .iter()
                .filter(is_pending)
                .filter(|input_request| capabilities.contains(&input_request.kind.needs()))
                .map(|input_request| input_request.render(&arguments, &names, &stop))
                .collect::<Result<_, _>>()?;
            if !due.is_empty() {
                return Ok(NextStep::InputRequests(due));
            }
        }
        if self.sampled.is_some() && can_sample && !answers.contains_key(SAMPLE) {
            // The missing response is requested after the upstream has responded.
            arguments.input_responses.remove(SAMPLE);
        }
        Ok(NextStep::Done(arguments))
    }

    /// Responses, with null for every input request that has none.
    pub fn complete(&self, answers: &Map<String, Value>) -> Map<String, Value> {
        let sampled = self.sampled.map(|_| SAMPLE);
        let names = self.input_requests().map(|input_request| input_request.name.as_str()).chain(sampled);
        names.map(|name| (name.to_owned(), answers.get(name).cloned().unwrap_or(Value::Null))).collect()
    }
}

/// Configured input request.
#[derive(Debug)]
pub struct InputRequestTemplate {
    /// Name of its response.
    pub name: String,
    /// Condition on the arguments and the responses so far. If it is false, the request is not sent.
    pub when: Option<Jq>,
    /// Whether a call continues without a response.
    pub optional: bool,
    /// Whether a person enters the arguments that the client left out: the fields of its form.
    pub gives_arguments: bool,
    /// Kind and content.
    pub kind: InputRequestKindTemplate,
}

/// Kind of an input request, with its templates.
pub type InputRequestKindTemplate = InputRequestKind<Template>;

/// Input request that is ready to be sent.
#[derive(Debug, Clone)]
pub struct InputRequest {
    /// Name of its response.
    pub name: String,
    /// Whether a call continues without a response.
    pub optional: bool,
    /// Kind and content.
    pub kind: InputRequestKind,
}

/// Kind of an input request; ready to be sent if `T` is a string.
#[derive(Debug, Clone)]
pub enum InputRequestKind<T = String> {
    /// A person fills in a form, or confirms if it has no fields.
    Form {
        /// Message to the person: reason and purpose.
        message: T,
        /// Fields.
        form: InputForm,
    },
    /// A person opens a URL, for data that must not pass through the client.
    Link {
        /// Message to the person: reason and purpose.
        message: T,
        /// URL.
        url: T,
    },
    /// The client's model responds (sampling).
    Sample(SamplingRequest<T>),
    /// The client lists its roots.
    Roots,
}

/// Response to an input request.
#[derive(Debug, Clone, PartialEq)]
pub enum InputResponse {
    /// The submitted form, an object. Of the client's model: `{text, model, stop_reason}`. The list of roots.
    Accepted(Value),
    /// The person declined.
    Declined,
    /// The person dismissed the request.
    Cancelled,
}

/// Reason why a response can't be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InvalidInput {
    /// The response does not fit the request. The text is for the developer of the client.
    #[error("{0}")]
    Wrong(String),
    /// The person declined the request. The text is for the model.
    #[error("{0}")]
    Declined(String),
}

impl InputRequestKindTemplate {
    /// Capability that it needs.
    pub(super) fn needs(&self) -> ClientCapability {
        match self {
            Self::Form { form, .. } if form.has_lists() => ClientCapability::FormWithLists,
            Self::Form { .. } => ClientCapability::Form,
            Self::Link { .. } => ClientCapability::Link,
            Self::Sample(_) => ClientCapability::Sample,
            Self::Roots => ClientCapability::Roots,
        }
    }
}

impl InputRequestTemplate {
    /// Whether the request must be sent. A request for arguments is only sent if one of them is missing.
    pub(super) fn is_due(&self, arguments: &Arguments) -> bool {
        let InputRequestKind::Form { form, .. } = &self.kind else { return true };
        !self.gives_arguments || form.names().any(|name| arguments.get(name).is_none())
    }

    pub(super) fn render(
        &self,
        arguments: &Arguments,
        names: &Name,
        stop: &WorkBudget,
    ) -> Result<InputRequest, String> {
        let unbuilt =
            |error: TemplateError| format!("the input request `{}` could not be built: {error}", self.name);
        let text = |template: &Template| template.render_until(names, stop).map_err(unbuilt);
        let kind = match &self.kind {
            InputRequestKind::Form { message, form } => InputRequestKind::Form {
                message: text(message)?,
                form: form.only(|name| !self.gives_arguments || arguments.get(name).is_none()),
            },
            InputRequestKind::Link { message, url } => {
                InputRequestKind::Link { message: text(message)?, url: address(text(url)?)? }
            }
            InputRequestKind::Sample(sample) => {
                InputRequestKind::Sample(sample.render(names, Some(stop)).map_err(unbuilt)?)
            }
            InputRequestKind::Roots => InputRequestKind::Roots,
        };
        Ok(InputRequest { name: self.name.clone(), optional: self.optional, kind })
    }
}

/// URL that a person can open: `http` or `https`, with a host.
fn address(text: String) -> Result<String, String> {
    let web = text.starts_with("https://") || text.starts_with("http://");
    match text.parse::<http::Uri>() {
        Ok(uri) if web && uri.host().is_some() => Ok(text),
        _ => Err("the arguments do not form a URL that a user can open".to_owned()),
    }
}

impl InputRequest {
    /// Sampling request of a rule.
    pub fn from_rule(sample: SamplingRequest) -> Self {
        let optional = sample.options.optional;
        Self { name: SAMPLE.to_owned(), optional, kind: InputRequestKind::Sample(sample) }
    }

    /// Response as templates and filters see it:
    ///
    /// - an object with the fields of a form
    /// - `true` for a form without fields, and for a URL
    /// - `{text, model, stop_reason}` of a model
    /// - a list of roots
    /// - null if an optional request was declined
    ///
    /// # Errors
    ///
    /// [`InvalidInput`] if it was declined or has the wrong kind.
    pub fn take(&self, answer: InputResponse) -> Result<Value, InvalidInput> {
        let wrong =
            |why: &str| InvalidInput::Wrong(format!("the response to input request `{}`{why}", self.name));
        let value = match (&self.kind, answer) {
            (_, InputResponse::Declined | InputResponse::Cancelled) if self.optional => Value::Null,
            (_, InputResponse::Declined) => return Err(InvalidInput::Declined(self.declined("declined"))),
            (_, InputResponse::Cancelled) => {
                return Err(InvalidInput::Declined(self.declined("did not respond to")));
            }
            (InputRequestKind::Form { form, .. }, InputResponse::Accepted(_)) if form.is_empty() => {
                Value::Bool(true)
            }
            (InputRequestKind::Form { form, .. }, InputResponse::Accepted(Value::Object(content))) => {
                form.check(content).map(Value::Object).map_err(|why| wrong(&format!(": {why}")))?
            }
            (InputRequestKind::Form { .. }, InputResponse::Accepted(_)) => {
                return Err(wrong(" has the wrong type"));
            }
            (InputRequestKind::Link { .. }, InputResponse::Accepted(_)) => Value::Bool(true),
            (InputRequestKind::Sample(_) | InputRequestKind::Roots, InputResponse::Accepted(value)) => value,
        };
        let limit = InputRequests::ANSWERS_LIMIT_BYTES;
        if value.to_string().len() > limit {
            return Err(wrong(&format!(" is longer than {limit} bytes")));
        }
        Ok(value)
    }

    fn declined(&self, what: &str) -> String {
        match &self.kind {
            InputRequestKind::Form { message, .. } | InputRequestKind::Link { message, .. } => {
                format!("the user {what} \"{}\"", cut_characters(message, 300))
            }
            InputRequestKind::Sample(_) | InputRequestKind::Roots => {
                format!("the client {what} the input request `{}`", self.name)
            }
        }
    }
}
