//! Input requests (elicitation, sampling, roots) to a person or the client's model before the upstream
//! request.
//!
//! - [`Asking`]: the [rounds](Round) of [input requests](QuestionTemplate) of a route or a prompt. It
//!   computes the next step.
//! - [`Question`]: an input request that is ready to be sent. It checks its response ([`Answer`]).
//! - [`Form`]: a form for a person.
//!
//! Responses are by name. A null response means that there is none: the condition of its input request was
//! false, or it was declined and optional, or the client does not support it.

mod form;
#[cfg(test)]
mod tests;

use std::time::Duration;

use minijinja::Value as Name;
use serde_json::{Map, Value, json};

pub use self::form::{Form, FormError};
use crate::{
    model::{Arguments, cut_characters},
    translate::{Jq, SAMPLE, Sample, SampleTemplate, Template, WorkBudget, template_names},
};

/// Input requests that are sent together.
pub type Round = Vec<QuestionTemplate>;

/// All input requests of a route or prompt.
#[derive(Debug)]
pub struct Asking {
    /// Rounds, in order. Later ones may depend on responses to earlier ones.
    pub rounds: Vec<Round>,
    /// Whether a rule sends a sampling request after the upstream's response.
    pub sampled: Option<Sampled>,
    /// Timeout of a response.
    pub patience: Duration,
}

impl Default for Asking {
    fn default() -> Self {
        Self { rounds: Vec::new(), sampled: None, patience: Self::DEFAULT_PATIENCE }
    }
}

/// Whether a rule requires the client's model.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sampled {
    /// Required.
    Needed,
    /// Optional.
    Optional,
}

/// Next step of a call.
#[derive(Debug)]
pub enum Next {
    /// Send these input requests.
    InputRequests(Vec<Question>),
    /// End the call: the client does not support these required input requests.
    Unable(Vec<Missing>),
    /// Continue: all responses are there. The arguments include them.
    Done(Arguments),
}

/// Input request that the client does not support.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Missing {
    /// Name of the input request.
    pub name: String,
    /// Capability that the client lacks.
    pub ability: Ability,
}

/// Capability that an input request needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Ability {
    /// Form elicitation.
    Form,
    /// Form elicitation with multiple choice.
    FormWithLists,
    /// URL elicitation.
    Link,
    /// Sampling.
    Sample,
    /// Roots.
    Roots,
}

impl Asking {
    /// Maximum number of input requests of one route.
    pub const QUESTION_LIMIT: usize = 32;
    /// Limit of all input responses of one call together, as JSON in bytes.
    pub const ANSWERS_LIMIT_BYTES: usize = 64 << 10;

    /// Default timeout of a response: people need time to think.
    pub const DEFAULT_PATIENCE: Duration = Duration::from_secs(10 * 60);

    /// Whether there are no input requests.
    pub fn is_empty(&self) -> bool {
        self.rounds.is_empty() && self.sampled.is_none()
    }

    /// All input requests, round by round.
    pub fn questions(&self) -> impl Iterator<Item = &QuestionTemplate> {
        self.rounds.iter().flatten()
    }

    /// Whether the response to this input request provides arguments.
    pub fn gives_arguments(&self, name: &str) -> bool {
        self.questions().any(|question| question.name == name && question.gives_arguments())
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
        abilities: Abilities,
    ) -> Result<Next, String> {
        let known = self.complete(answers);
        let mut arguments = arguments.clone();
        for question in self.questions().filter(|question| question.gives_arguments()) {
            if let Some(Value::Object(given)) = answers.get(&question.name) {
                given.iter().for_each(|(name, value)| arguments.insert(name.clone(), value.clone()));
            }
        }
        let args = Value::Object(arguments.as_map().clone());
        let seen = Value::Object(known.clone());
        let holds = |question: &QuestionTemplate| {
            question.when.as_ref().is_none_or(|when| when.holds_before(&args, &seen))
        };
        let lacking = |question: &QuestionTemplate| {
            abilities
                .lacks(question.inquiry.needs())
                .map(|ability| Missing { name: question.name.clone(), ability })
        };
        // A required input request that the client does not support ends the call before the first one is
        // sent.
        let mut missing: Vec<Missing> = self
            .questions()
            .filter(|question| !question.optional && !answers.contains_key(&question.name))
            .filter(|question| question.is_due(&arguments) && holds(question))
            .filter_map(lacking)
            .collect();
        if self.sampled == Some(Sampled::Needed) && !abilities.sample {
            missing.push(Missing { name: SAMPLE.to_owned(), ability: Ability::Sample });
        }
        if !missing.is_empty() {
            return Ok(Next::Unable(missing));
        }
        let names = template_names(&arguments.clone().with_answers(known.clone()));
        let stop = WorkBudget::after(WorkBudget::TEXT_STEPS);
        for round in &self.rounds {
            let due: Vec<Question> = round
                .iter()
                .filter(|question| !answers.contains_key(&question.name))
                .filter(|question| question.is_due(&arguments) && holds(question))
                .filter(|question| lacking(question).is_none())
                .map(|question| question.render(&arguments, &names, &stop))
                .collect::<Result<_, _>>()?;
            if !due.is_empty() {
                return Ok(Next::InputRequests(due));
            }
        }
        let (given, mut answers) = (answers, known);
        if self.sampled.is_some() && abilities.sample {
            // The missing response is requested after the upstream has responded.
            if !given.contains_key(SAMPLE) {
                answers.remove(SAMPLE);
            }
        }
        Ok(Next::Done(arguments.with_answers(answers)))
    }

    /// Responses, with null for every input request that has none.
    pub fn complete(&self, answers: &Map<String, Value>) -> Map<String, Value> {
        let sampled = self.sampled.map(|_| SAMPLE);
        let names = self.questions().map(|question| question.name.as_str()).chain(sampled);
        names.map(|name| (name.to_owned(), answers.get(name).cloned().unwrap_or(Value::Null))).collect()
    }
}

/// Configured input request.
#[derive(Debug)]
pub struct QuestionTemplate {
    /// Name of its response.
    pub name: String,
    /// Condition on the arguments and the responses so far. If it is false, the request is not sent.
    pub when: Option<Jq>,
    /// Whether a call continues without a response.
    pub optional: bool,
    /// Kind and content.
    pub inquiry: InquiryTemplate,
}

/// Kind of an input request, with its templates.
#[derive(Debug)]
pub enum InquiryTemplate {
    /// A person fills in a form, or confirms if it has no fields.
    Form {
        /// Message to the person: reason and purpose.
        message: Template,
        /// Fields.
        form: Form,
    },
    /// A person enters the arguments that the client left out.
    Arguments {
        /// Message to the person: reason and purpose.
        message: Template,
        /// Arguments, as fields.
        form: Form,
    },
    /// A person opens a URL, for data that must not pass through the client.
    Link {
        /// Message to the person: reason and purpose.
        message: Template,
        /// URL.
        url: Template,
    },
    /// The client's model responds (sampling).
    Sample(SampleTemplate),
    /// The client lists its roots.
    Roots,
}

/// Input request that is ready to be sent.
#[derive(Debug, Clone)]
pub struct Question {
    /// Name of its response.
    pub name: String,
    /// Whether a call continues without a response.
    pub optional: bool,
    /// Kind and content.
    pub inquiry: Inquiry,
}

/// Kind of an input request.
#[derive(Debug, Clone)]
pub enum Inquiry {
    /// A person fills in a form, or confirms if it has no fields.
    Form {
        /// Message to the person: reason and purpose.
        message: String,
        /// Fields.
        form: Form,
    },
    /// A person opens a URL.
    Link {
        /// Message to the person: reason and purpose.
        message: String,
        /// URL.
        url: String,
    },
    /// The client's model responds (sampling).
    Sample(Sample),
    /// The client lists its roots.
    Roots,
}

/// Response to an input request.
#[derive(Debug, Clone, PartialEq)]
pub enum Answer {
    /// The person submitted the form, or confirmed.
    Accepted(Map<String, Value>),
    /// The person declined.
    Declined,
    /// The person dismissed the request.
    Cancelled,
    /// Response of the client's model.
    Said {
        /// Text.
        text: String,
        /// Name of the model.
        model: String,
        /// Stop reason, if the client reports one.
        stop_reason: Option<String>,
    },
    /// Roots of the client.
    Roots(Vec<Value>),
}

/// Reason why a response can't be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Unfit {
    /// It does not fit the request. The text is for the developer of the client.
    #[error("{0}")]
    Wrong(String),
    /// It was declined. The text is for the model.
    #[error("{0}")]
    Refused(String),
}

/// Capabilities of a client that input requests need.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Abilities {
    /// Form elicitation.
    pub form: FormAbility,
    /// URL elicitation.
    pub link: bool,
    /// Sampling.
    pub sample: bool,
    /// Roots.
    pub roots: bool,
}

/// Forms that a client can show.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, PartialOrd, Ord)]
pub enum FormAbility {
    /// None.
    #[default]
    None,
    /// Forms without multiple choice (before 2025-11-25).
    WithoutLists,
    /// All forms.
    All,
}

impl Abilities {
    /// Returns the capability if the client lacks it.
    pub(super) fn lacks(self, needed: Ability) -> Option<Ability> {
        let able = match needed {
            Ability::Form => self.form >= FormAbility::WithoutLists,
            Ability::FormWithLists => self.form >= FormAbility::All,
            Ability::Link => self.link,
            Ability::Sample => self.sample,
            Ability::Roots => self.roots,
        };
        (!able).then_some(needed)
    }
}

impl InquiryTemplate {
    /// Capability that it needs.
    pub(super) fn needs(&self) -> Ability {
        match self {
            Self::Form { form, .. } | Self::Arguments { form, .. } if form.has_lists() => {
                Ability::FormWithLists
            }
            Self::Form { .. } | Self::Arguments { .. } => Ability::Form,
            Self::Link { .. } => Ability::Link,
            Self::Sample(_) => Ability::Sample,
            Self::Roots => Ability::Roots,
        }
    }

    /// Templates in it, for checks when the configuration is loaded.
    pub fn templates(&self) -> Vec<&Template> {
        match self {
            Self::Form { message, .. } | Self::Arguments { message, .. } => vec![message],
            Self::Link { message, url } => vec![message, url],
            Self::Sample(sample) => sample.templates().collect(),
            Self::Roots => Vec::new(),
        }
    }
}

impl QuestionTemplate {
    /// Whether it must be sent. A request for arguments is only sent if one of them is missing.
    pub(super) fn is_due(&self, arguments: &Arguments) -> bool {
        match &self.inquiry {
            InquiryTemplate::Arguments { form, .. } => form.names().any(|name| arguments.get(name).is_none()),
            InquiryTemplate::Form { .. }
            | InquiryTemplate::Link { .. }
            | InquiryTemplate::Sample(_)
            | InquiryTemplate::Roots => true,
        }
    }

    /// Whether the response provides arguments.
    pub(super) fn gives_arguments(&self) -> bool {
        matches!(self.inquiry, InquiryTemplate::Arguments { .. })
    }

    pub(super) fn render(
        &self,
        arguments: &Arguments,
        names: &Name,
        stop: &WorkBudget,
    ) -> Result<Question, String> {
        let text = |template: &Template| {
            template
                .render_until(names, stop)
                .map_err(|error| format!("the question `{}` could not be made: {error}", self.name))
        };
        let inquiry = match &self.inquiry {
            InquiryTemplate::Form { message, form } => {
                Inquiry::Form { message: text(message)?, form: form.clone() }
            }
            InquiryTemplate::Arguments { message, form } => Inquiry::Form {
                message: text(message)?,
                form: form.only(|name| arguments.get(name).is_none()),
            },
            InquiryTemplate::Link { message, url } => {
                Inquiry::Link { message: text(message)?, url: address(text(url)?)? }
            }
            InquiryTemplate::Sample(sample) => Inquiry::Sample(
                sample
                    .render(names, Some(stop))
                    .map_err(|error| format!("the question `{}` could not be made: {error}", self.name))?,
            ),
            InquiryTemplate::Roots => Inquiry::Roots,
        };
        Ok(Question { name: self.name.clone(), optional: self.optional, inquiry })
    }
}

/// URL that a person can open: `http` or `https`, with a host.
fn address(text: String) -> Result<String, String> {
    let web = text.starts_with("https://") || text.starts_with("http://");
    match text.parse::<http::Uri>() {
        Ok(uri) if web && uri.host().is_some() => Ok(text),
        _ => Err("the arguments make no address that a person could open".to_owned()),
    }
}

impl Question {
    /// Sampling request of a rule.
    pub fn of_rule(sample: Sample) -> Self {
        let optional = sample.optional;
        Self { name: SAMPLE.to_owned(), optional, inquiry: Inquiry::Sample(sample) }
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
    /// [`Unfit`] if it was declined or has the wrong kind.
    pub fn take(&self, answer: Answer) -> Result<Value, Unfit> {
        let name = &self.name;
        let value = match (&self.inquiry, answer) {
            (_, Answer::Declined | Answer::Cancelled) if self.optional => Value::Null,
            (_, Answer::Declined) => return Err(Unfit::Refused(self.refused("said no"))),
            (_, Answer::Cancelled) => return Err(Unfit::Refused(self.refused("did not answer"))),
            (Inquiry::Form { form, .. }, Answer::Accepted(_)) if form.is_empty() => Value::Bool(true),
            (Inquiry::Form { form, .. }, Answer::Accepted(content)) => {
                let checked = form.check(content);
                checked
                    .map(Value::Object)
                    .map_err(|why| Unfit::Wrong(format!("the answer to `{name}`: {why}")))?
            }
            (Inquiry::Link { .. }, Answer::Accepted(_)) => Value::Bool(true),
            (Inquiry::Sample(_), Answer::Said { text, model, stop_reason }) => {
                json!({ "text": text, "model": model, "stop_reason": stop_reason })
            }
            (Inquiry::Roots, Answer::Roots(roots)) => Value::Array(roots),
            (_, Answer::Accepted(_) | Answer::Said { .. } | Answer::Roots(_)) => {
                return Err(Unfit::Wrong(format!(
                    "the answer to `{name}` is of another kind than was asked for"
                )));
            }
        };
        match value.to_string().len() {
            bytes if bytes > Asking::ANSWERS_LIMIT_BYTES => Err(Unfit::Wrong(format!(
                "the answer to `{name}` is longer than {} bytes",
                Asking::ANSWERS_LIMIT_BYTES
            ))),
            _ => Ok(value),
        }
    }

    fn refused(&self, what: &str) -> String {
        let (who, asked) = match &self.inquiry {
            Inquiry::Form { message, .. } | Inquiry::Link { message, .. } => ("the person", Some(message)),
            Inquiry::Sample(_) => ("the client's model, or the person beside it,", None),
            Inquiry::Roots => ("the client", None),
        };
        match asked {
            Some(message) => {
                format!("Nothing was done: asked \"{}\", {who} {what}.", cut_characters(message, 300))
            }
            None => format!("Nothing was done: asked for `{}`, {who} {what}.", self.name),
        }
    }
}
