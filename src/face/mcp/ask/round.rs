//! Answers that come with a request, to questions of an earlier one (the newer era).

use serde_json::{Map, Value};

use super::wire;
use crate::{
    gateway::{Answering, Asker},
    route::{Abilities, Missing, Question, Unfit},
};

/// Gives to each question the answer that came, and knows afterwards what is left to ask.
#[derive(Debug)]
pub(in crate::face::mcp) struct Round {
    pub(in crate::face::mcp) abilities: Abilities,
    /// What has been answered, this time and before.
    pub(in crate::face::mcp) answered: Map<String, Value>,
    /// What came with the request, until somebody asks.
    responses: Option<Map<String, Value>>,
    pub(in crate::face::mcp) outcome: Outcome,
}

/// What is left.
#[derive(Debug)]
pub(in crate::face::mcp) enum Outcome {
    /// Nothing, as far as is known.
    Settled,
    /// These questions.
    Open(Vec<Question>),
    /// An answer is none.
    Wrong(String),
    /// This client can't be asked.
    Unable(Vec<Missing>),
}

impl Round {
    pub(in crate::face::mcp) fn new(
        abilities: Abilities,
        answered: Map<String, Value>,
        responses: Map<String, Value>,
    ) -> Self {
        Self { abilities, answered, responses: Some(responses), outcome: Outcome::Settled }
    }

    pub(super) fn take(&mut self, questions: Vec<Question>) -> Result<Map<String, Value>, String> {
        /// Nobody reads it: the request ends with questions or a refusal.
        const PENDING: &str = "The client is asked first.";
        // They were given to what was asked before; what is asked from now on waits for another request.
        let mut responses = self.responses.take().unwrap_or_default();
        let (mut taken, mut open) = (Map::new(), Vec::new());
        for question in questions {
            let Some(response) = responses.remove(&question.name) else {
                open.push(question);
                continue;
            };
            match wire::answer(&question, response).and_then(|answer| question.take(answer)) {
                Ok(value) => {
                    taken.insert(question.name, value);
                }
                Err(Unfit::Refused(sentence)) => return Err(sentence),
                Err(Unfit::Wrong(why)) => {
                    self.outcome = Outcome::Wrong(why);
                    return Err(PENDING.to_owned());
                }
            }
        }
        self.answered.extend(taken.clone());
        if open.is_empty() {
            return Ok(taken);
        }
        self.outcome = Outcome::Open(open);
        Err(PENDING.to_owned())
    }
}

impl Asker for Round {
    fn abilities(&self) -> Abilities {
        self.abilities
    }

    fn answers(&self) -> Map<String, Value> {
        self.answered.clone()
    }

    fn ask(&mut self, questions: Vec<Question>) -> Answering<'_> {
        let taken = self.take(questions);
        Box::pin(async move { taken })
    }

    fn unable(&mut self, missing: Vec<Missing>) {
        self.outcome = Outcome::Unable(missing);
    }
}
