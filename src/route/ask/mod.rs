//! What is asked of a person, or of the client's model, before something is done.
//!
//! In reading order: [`Asking`] holds the [rounds](Round) of [questions](QuestionTemplate) of a route or a prompt, and
//! says what comes next; a [`Question`] is one that is ready to be asked, and takes its [`Answer`]; a [`Form`] is
//! what a person fills in.
//!
//! Answers are by name. One that is null was given up: its question did not hold, was optional, or nobody could be
//! asked.

mod form;
#[cfg(test)]
mod tests;

use std::time::Duration;

use minijinja::Value as Name;
use serde_json::{Map, Value, json};

pub use self::form::{Form, FormError};
use crate::{
    model::{Arguments, cut_characters},
    translate::{Jq, SAMPLE, Sample, SampleTemplate, Stop, Template, template_names},
};

/// Questions that are asked together.
pub type Round = Vec<QuestionTemplate>;

/// Everything that is asked, round by round.
#[derive(Debug)]
pub struct Asking {
    /// One round after the other; later ones may depend on the answers to earlier ones.
    pub rounds: Vec<Round>,
    /// What a rule asks of the client's model when the reply is there, if one does.
    pub sampled: Option<Sampled>,
    /// How long an answer may take.
    pub patience: Duration,
}

impl Default for Asking {
    fn default() -> Self {
        Self { rounds: Vec::new(), sampled: None, patience: Self::DEFAULT_PATIENCE }
    }
}

/// Whether a rule can do without the client's model.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sampled {
    /// It can't.
    Needed,
    /// It can.
    Optional,
}

/// What comes next.
#[derive(Debug)]
pub enum Next {
    /// These are to be asked.
    Ask(Vec<Question>),
    /// These can't be asked of this client, and nothing is done without them.
    Unable(Vec<Missing>),
    /// Everything is answered: the arguments, and the answers with them.
    Done(Arguments),
}

/// A question that a client can't be asked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Missing {
    /// Its name.
    pub name: String,
    /// What the client would have to be able to do.
    pub ability: Ability,
}

/// What a client may be able to do for a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Ability {
    /// Show a person a form.
    Form,
    /// Show a person a form with lists in it.
    FormWithLists,
    /// Send a person to an address.
    Link,
    /// Ask its model.
    Sample,
    /// Tell its roots.
    Roots,
}

impl Asking {
    /// How many questions one route may have.
    pub const QUESTION_LIMIT: usize = 32;
    /// How long the answers to all questions of one call may be together, as JSON in bytes.
    pub const ANSWERS_LIMIT_BYTES: usize = 64 << 10;

    /// How long an answer may take where nothing is said: people think.
    pub const DEFAULT_PATIENCE: Duration = Duration::from_secs(10 * 60);

    /// Whether nothing is asked.
    pub fn is_empty(&self) -> bool {
        self.rounds.is_empty() && self.sampled.is_none()
    }

    /// All questions, round by round.
    pub fn questions(&self) -> impl Iterator<Item = &QuestionTemplate> {
        self.rounds.iter().flatten()
    }

    /// Whether the response to the question of this name is arguments.
    pub fn gives_arguments(&self, name: &str) -> bool {
        self.questions().any(|question| question.name == name && question.gives_arguments())
    }

    /// What comes after these answers.
    ///
    /// # Errors
    ///
    /// A sentence for the model when a question can't be made of the arguments.
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
        // What will be asked for certain, and can't be, ends the call before the first question.
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
        let stop = Stop::after(Stop::TEXT_STEPS);
        for round in &self.rounds {
            let due: Vec<Question> = round
                .iter()
                .filter(|question| !answers.contains_key(&question.name))
                .filter(|question| question.is_due(&arguments) && holds(question))
                .filter(|question| lacking(question).is_none())
                .map(|question| question.render(&arguments, &names, &stop))
                .collect::<Result<_, _>>()?;
            if !due.is_empty() {
                return Ok(Next::Ask(due));
            }
        }
        let (given, mut answers) = (answers, known);
        if self.sampled.is_some() && abilities.sample {
            // What is not there is asked when the reply is.
            if !given.contains_key(SAMPLE) {
                answers.remove(SAMPLE);
            }
        }
        Ok(Next::Done(arguments.with_answers(answers)))
    }

    /// Answers with a null for every question that has none.
    pub fn complete(&self, answers: &Map<String, Value>) -> Map<String, Value> {
        let sampled = self.sampled.map(|_| SAMPLE);
        let names = self.questions().map(|question| question.name.as_str()).chain(sampled);
        names.map(|name| (name.to_owned(), answers.get(name).cloned().unwrap_or(Value::Null))).collect()
    }
}

/// A question as it was written.
#[derive(Debug)]
pub struct QuestionTemplate {
    /// The name of its answer.
    pub name: String,
    /// When it is asked: a condition on the arguments and the answers so far.
    pub when: Option<Jq>,
    /// Whether a call goes on without an answer.
    pub optional: bool,
    /// What is asked.
    pub inquiry: InquiryTemplate,
}

/// What is asked, with templates in it.
#[derive(Debug)]
pub enum InquiryTemplate {
    /// A person fills in a form, or says yes where it is empty.
    Form {
        /// Why, and what for.
        message: Template,
        /// What there is to fill in.
        form: Form,
    },
    /// A person fills in what the caller left out of the arguments.
    Arguments {
        /// Why, and what for.
        message: Template,
        /// The arguments.
        form: Form,
    },
    /// A person opens an address, and does there what must not pass through the client.
    Link {
        /// Why, and what for.
        message: Template,
        /// Where to.
        url: Template,
    },
    /// The client's model answers.
    Sample(SampleTemplate),
    /// The client tells which folders it works in.
    Roots,
}

/// A question, ready to be asked.
#[derive(Debug, Clone)]
pub struct Question {
    /// The name of its answer.
    pub name: String,
    /// Whether a call goes on without an answer.
    pub optional: bool,
    /// What is asked.
    pub inquiry: Inquiry,
}

/// What is asked.
#[derive(Debug, Clone)]
pub enum Inquiry {
    /// A person fills in a form, or says yes where it is empty.
    Form {
        /// Why, and what for.
        message: String,
        /// What there is to fill in.
        form: Form,
    },
    /// A person opens an address.
    Link {
        /// Why, and what for.
        message: String,
        /// Where to.
        url: String,
    },
    /// The client's model answers.
    Sample(Sample),
    /// The client tells which folders it works in.
    Roots,
}

/// What comes back.
#[derive(Debug, Clone, PartialEq)]
pub enum Answer {
    /// The person filled the form in, or agreed.
    Accepted(Map<String, Value>),
    /// The person said no.
    Declined,
    /// The person did not say.
    Cancelled,
    /// What the client's model said.
    Said {
        /// Its words.
        text: String,
        /// Which model it was.
        model: String,
        /// Why it stopped, where that is told.
        stop_reason: Option<String>,
    },
    /// The client's folders.
    Roots(Vec<Value>),
}

/// Why an answer is none.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Unfit {
    /// It is not what was asked for: a sentence for whoever wrote the client.
    #[error("{0}")]
    Wrong(String),
    /// Nobody wants to answer: a sentence for the model.
    #[error("{0}")]
    Refused(String),
}

/// What a client is able to do for a server.
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

/// What forms a client can show a person.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, PartialOrd, Ord)]
pub enum FormAbility {
    /// None.
    #[default]
    None,
    /// Forms in which one of some choices can be taken (before 2025-11-25).
    WithoutLists,
    /// All that there are.
    All,
}

impl Abilities {
    /// The ability itself, where the client has it not.
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
    /// What the client must be able to do.
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
    /// Whether there is something to ask: of arguments only those that were left out.
    pub(super) fn is_due(&self, arguments: &Arguments) -> bool {
        match &self.inquiry {
            InquiryTemplate::Arguments { form, .. } => form.names().any(|name| arguments.get(name).is_none()),
            InquiryTemplate::Form { .. }
            | InquiryTemplate::Link { .. }
            | InquiryTemplate::Sample(_)
            | InquiryTemplate::Roots => true,
        }
    }

    /// Whether the answer is arguments.
    pub(super) fn gives_arguments(&self) -> bool {
        matches!(self.inquiry, InquiryTemplate::Arguments { .. })
    }

    pub(super) fn render(
        &self,
        arguments: &Arguments,
        names: &Name,
        stop: &Stop,
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

/// An address that a person can be sent to.
fn address(text: String) -> Result<String, String> {
    let web = text.starts_with("https://") || text.starts_with("http://");
    match text.parse::<http::Uri>() {
        Ok(uri) if web && uri.host().is_some() => Ok(text),
        _ => Err("the arguments make no address that a person could open".to_owned()),
    }
}

impl Question {
    /// What a rule asks of the client's model.
    pub fn of_rule(sample: Sample) -> Self {
        let optional = sample.optional;
        Self { name: SAMPLE.to_owned(), optional, inquiry: Inquiry::Sample(sample) }
    }

    /// The answer as templates and filters see it: an object of the fields of a form, `true` for a form without any
    /// and for an address, `{text, model, stop_reason}` of a model, a list of roots; null where it was declined and is
    /// optional.
    ///
    /// # Errors
    ///
    /// [`Unfit`] when it is declined, or not what was asked for.
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
