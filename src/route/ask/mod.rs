//! What is asked of a person, or of the client's model, before something is done.
//!
//! In reading order: [`Asking`] holds the [rounds](Round) of [questions](QuestionTemplate) of a route or a prompt, and
//! says what comes next; a [`Question`] is one that is ready to be asked, and takes its [`Answer`]; a [`Form`] is
//! what a person fills in.
//!
//! Answers are by name. One that is null was given up: its question did not hold, was optional, or nobody could be
//! asked.

mod form;
mod question;

use std::time::Duration;

use serde_json::{Map, Value};

use crate::{
    model::Arguments,
    translate::{Stop, template_names},
};

pub use form::{Form, FormError};
pub use question::{
    Abilities, Answer, FormAbility, Inquiry, InquiryTemplate, Question, QuestionTemplate, Unfit,
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
            missing.push(Missing { name: crate::translate::SAMPLE.to_owned(), ability: Ability::Sample });
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
            if !given.contains_key(crate::translate::SAMPLE) {
                answers.remove(crate::translate::SAMPLE);
            }
        }
        Ok(Next::Done(arguments.with_answers(answers)))
    }

    /// Answers with a null for every question that has none.
    pub fn complete(&self, answers: &Map<String, Value>) -> Map<String, Value> {
        let sampled = self.sampled.map(|_| crate::translate::SAMPLE);
        let names = self.questions().map(|question| question.name.as_str()).chain(sampled);
        names.map(|name| (name.to_owned(), answers.get(name).cloned().unwrap_or(Value::Null))).collect()
    }
}

#[cfg(test)]
mod tests;
