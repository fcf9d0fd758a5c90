//! One question: as written, as asked, and what is answered.

use minijinja::Value as Name;
use serde_json::{Map, Value, json};

use super::{Ability, Asking, Form};
use crate::{
    model::{Arguments, cut_characters},
    translate::{Jq, Sample, SampleTemplate, Stop, Template},
};

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
        Self { name: crate::translate::SAMPLE.to_owned(), optional, inquiry: Inquiry::Sample(sample) }
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
