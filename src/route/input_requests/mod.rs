//! Input requests to a person, or to the client's model, before something is done.
//!
//! In reading order: [`Asking`] has the [rounds](Round) of [input requests](QuestionTemplate) of a route or a
//! prompt, and computes the next step; a [`Question`] is an input request that is ready to be sent, and
//! checks its response ([`Answer`]); a [`Form`] is a form for a person.
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

/// All input requests, round by round.
#[derive(Debug)]
pub struct Asking {
    /// One round after the other; later ones may depend on the responses to earlier ones.
    pub rounds: Vec<Round>,
    /// Whether a rule sends a request to the client's model after the upstream's response.
    pub sampled: Option<Sampled>,
    /// The timeout of a response.
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
    /// It does.
    Needed,
    /// It does not.
    Optional,
}

/// The next step.
#[derive(Debug)]
pub enum Next {
    /// Send these input requests.
    InputRequests(Vec<Question>),
    /// End the call: the client does not support these, and they are required.
    Unable(Vec<Missing>),
    /// All responses are there: the arguments, with the responses in them.
    Done(Arguments),
}

/// An input request that a client does not support.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Missing {
    /// Its name.
    pub name: String,
    /// The capability that the client lacks.
    pub ability: Ability,
}

/// A capability that an input request needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Ability {
    /// Show a person a form.
    Form,
    /// Show a person a form with lists in it.
    FormWithLists,
    /// Send a person to a URL.
    Link,
    /// Send a request to its model (sampling).
    Sample,
    /// List its roots.
    Roots,
}

impl Asking {
    /// Limit of the input requests of one route.
    pub const QUESTION_LIMIT: usize = 32;
    /// Limit of all input responses of one call together, as JSON in bytes.
    pub const ANSWERS_LIMIT_BYTES: usize = 64 << 10;

    /// The default timeout of a response: people need time to think.
    pub const DEFAULT_PATIENCE: Duration = Duration::from_secs(10 * 60);

    /// Whether there are no input requests.
    pub fn is_empty(&self) -> bool {
        self.rounds.is_empty() && self.sampled.is_none()
    }

    /// All input requests, round by round.
    pub fn questions(&self) -> impl Iterator<Item = &QuestionTemplate> {
        self.rounds.iter().flatten()
    }

    /// Whether the response to the input request of this name is arguments.
    pub fn gives_arguments(&self, name: &str) -> bool {
        self.questions().any(|question| question.name == name && question.gives_arguments())
    }

    /// The next step after these responses.
    ///
    /// # Errors
    ///
    /// A sentence for the model when an input request can't be rendered from the arguments.
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
        // A required input request that the client does not support ends the call before the first is sent.
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
            let deadline: Vec<Question> = round
                .iter()
                .filter(|question| !answers.contains_key(&question.name))
                .filter(|question| question.is_due(&arguments) && holds(question))
                .filter(|question| lacking(question).is_none())
                .map(|question| question.render(&arguments, &names, &stop))
                .collect::<Result<_, _>>()?;
            if !deadline.is_empty() {
                return Ok(Next::InputRequests(deadline));
            }
        }
        let (given, mut answers) = (answers, known);
        if self.sampled.is_some() && abilities.sample {
            // The missing response is requested once the upstream has responded.
            if !given.contains_key(SAMPLE) {
                answers.remove(SAMPLE);
            }
        }
        Ok(Next::Done(arguments.with_answers(answers)))
    }

    /// The responses, with a null for every input request that has none.
    pub fn complete(&self, answers: &Map<String, Value>) -> Map<String, Value> {
        let sampled = self.sampled.map(|_| SAMPLE);
        let names = self.questions().map(|question| question.name.as_str()).chain(sampled);
        names.map(|name| (name.to_owned(), answers.get(name).cloned().unwrap_or(Value::Null))).collect()
    }
}

/// An input request as it is configured.
#[derive(Debug)]
pub struct QuestionTemplate {
    /// The name of its response.
    pub name: String,
    /// When it is sent: a condition on the arguments and the responses so far.
    pub when: Option<Jq>,
    /// Whether a call continues without a response.
    pub optional: bool,
    /// Its kind, with the content.
    pub inquiry: InquiryTemplate,
}

/// The kind of an input request, with templates in it.
#[derive(Debug)]
pub enum InquiryTemplate {
    /// A person fills in a form, or confirms where it is empty.
    Form {
        /// The reason and the purpose.
        message: Template,
        /// The fields.
        form: Form,
    },
    /// A person enters the arguments that the client left out.
    Arguments {
        /// The reason and the purpose.
        message: Template,
        /// The arguments.
        form: Form,
    },
    /// A person opens a URL, and enters there what must not pass through the client.
    Link {
        /// The reason and the purpose.
        message: Template,
        /// The URL.
        url: Template,
    },
    /// The client's model responds (sampling).
    Sample(SampleTemplate),
    /// The client lists its roots.
    Roots,
}

/// An input request, ready to be sent.
#[derive(Debug, Clone)]
pub struct Question {
    /// The name of its response.
    pub name: String,
    /// Whether a call continues without a response.
    pub optional: bool,
    /// Its kind, with the content.
    pub inquiry: Inquiry,
}

/// The kind of an input request.
#[derive(Debug, Clone)]
pub enum Inquiry {
    /// A person fills in a form, or confirms where it is empty.
    Form {
        /// The reason and the purpose.
        message: String,
        /// The fields.
        form: Form,
    },
    /// A person opens a URL.
    Link {
        /// The reason and the purpose.
        message: String,
        /// The URL.
        url: String,
    },
    /// The client's model responds (sampling).
    Sample(Sample),
    /// The client lists its roots.
    Roots,
}

/// The response to an input request.
#[derive(Debug, Clone, PartialEq)]
pub enum Answer {
    /// The person filled the form in, or agreed.
    Accepted(Map<String, Value>),
    /// The person declined.
    Declined,
    /// The person dismissed it.
    Cancelled,
    /// The response of the client's model.
    Said {
        /// Its text.
        text: String,
        /// Which model it was.
        model: String,
        /// Why it stopped, if the client reports that.
        stop_reason: Option<String>,
    },
    /// The client's folders.
    Roots(Vec<Value>),
}

/// The reason why a response can't be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Unfit {
    /// It does not fit the request: a sentence for the developer of the client.
    #[error("{0}")]
    Wrong(String),
    /// It was declined: a sentence for the model.
    #[error("{0}")]
    Refused(String),
}

/// The capabilities of a client that input requests need.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Abilities {
    /// Forms.
    pub form: FormAbility,
    /// Addresses for people.
    pub link: bool,
    /// Its model.
    pub sample: bool,
    /// Its folders.
    pub roots: bool,
}

/// The forms that a client can show a person.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, PartialOrd, Ord)]
pub enum FormAbility {
    /// None.
    #[default]
    None,
    /// Forms in which one of some choices can be selected (before 2025-11-25).
    WithoutLists,
    /// All forms.
    All,
}

impl Abilities {
    /// The ability itself, if the client does not have it.
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
    /// The ability that it needs.
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

    /// The templates in it, for checks at load.
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
    /// Whether there is input to request: of arguments only those that were left out.
    pub(super) fn is_due(&self, arguments: &Arguments) -> bool {
        match &self.inquiry {
            InquiryTemplate::Arguments { form, .. } => form.names().any(|name| arguments.get(name).is_none()),
            InquiryTemplate::Form { .. }
            | InquiryTemplate::Link { .. }
            | InquiryTemplate::Sample(_)
            | InquiryTemplate::Roots => true,
        }
    }

    /// Whether the response is arguments.
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

/// A URL that a person can open.
fn address(text: String) -> Result<String, String> {
    let web = text.starts_with("https://") || text.starts_with("http://");
    match text.parse::<http::Uri>() {
        Ok(uri) if web && uri.host().is_some() => Ok(text),
        _ => Err("the arguments make no address that a person could open".to_owned()),
    }
}

impl Question {
    /// The request of a rule to the client's model.
    pub fn of_rule(sample: Sample) -> Self {
        let optional = sample.optional;
        Self { name: SAMPLE.to_owned(), optional, inquiry: Inquiry::Sample(sample) }
    }

    /// The response as templates and filters see it: an object of the fields of a form; `true` for a form
    /// without fields and for a link; `{text, model, stop_reason}` of a model; a list of roots; null when an
    /// optional request was declined.
    ///
    /// # Errors
    ///
    /// [`Unfit`] when it is declined, or of the wrong kind.
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
