//! Questions on the way of a call: what is asked, in which order, and what becomes of it.

use std::{future::Future, pin::Pin};

use serde_json::{Map, Value};

use super::sentences;
use crate::{
    model::{Arguments, Fault, ToolResult},
    route::{Abilities, Asking, Missing, Next, Question},
};

/// Who takes questions to a client and brings back answers: each face in its own way.
pub trait Asker: Send {
    /// What the client is able to do.
    fn abilities(&self) -> Abilities;

    /// What the client has answered in this call before.
    fn answers(&self) -> Map<String, Value>;

    /// Asks these together, and gives an answer to each, by name; or says why the call ends without: a sentence for
    /// the model.
    fn ask(&mut self, questions: Vec<Question>) -> Answering<'_>;

    /// Is told what can't be asked of this client; the call ends with that.
    fn unable(&mut self, missing: Vec<Missing>);
}

/// Answers that are waited for.
pub type Answering<'a> = Pin<Box<dyn Future<Output = Result<Map<String, Value>, String>> + Send + 'a>>;

/// Nobody can be asked.
pub(super) struct Nobody;

impl Asker for Nobody {
    fn abilities(&self) -> Abilities {
        Abilities::default()
    }

    fn answers(&self) -> Map<String, Value> {
        Map::new()
    }

    fn ask(&mut self, _: Vec<Question>) -> Answering<'_> {
        Box::pin(async { Err("Nobody can be asked here.".to_owned()) })
    }

    fn unable(&mut self, _: Vec<Missing>) {}
}

/// The arguments with the answers to everything that is asked first; else the tool error with which the call ends.
///
/// # Errors
///
/// Somebody declined, can't be asked, or has not answered yet.
pub async fn ask_first(
    asking: &Asking,
    arguments: Arguments,
    asker: &mut dyn Asker,
) -> Result<Arguments, Box<ToolResult>> {
    if asking.is_empty() {
        return Ok(arguments);
    }
    let abilities = asker.abilities();
    let mut answers = asker.answers();
    loop {
        let next = asking.next(&arguments, &answers, abilities);
        match next.map_err(|sentence| Box::new(ToolResult::error(Fault::Arguments, sentence)))? {
            Next::Done(arguments) => return Ok(arguments),
            Next::Unable(missing) => {
                let sentence = sentences::cannot_ask(&missing);
                asker.unable(missing);
                return Err(unanswered(sentence));
            }
            Next::Ask(questions) => answers.extend(asked(asker, questions, &answers).await?),
        }
    }
}

/// The answer to what a rule asks of the client's model.
pub(super) async fn ask_of_rule(
    sample: crate::translate::Sample,
    arguments: &Arguments,
    asker: &mut dyn Asker,
) -> Result<Map<String, Value>, Box<ToolResult>> {
    let mut answers = arguments.answers().clone();
    answers.extend(asked(asker, vec![Question::of_rule(sample)], &answers).await?);
    Ok(answers)
}

/// An answer to each question, none of them forgotten.
async fn asked(
    asker: &mut dyn Asker,
    questions: Vec<Question>,
    before: &Map<String, Value>,
) -> Result<Map<String, Value>, Box<ToolResult>> {
    let names: Vec<String> = questions.iter().map(|question| question.name.clone()).collect();
    let given = asker.ask(questions).await.map_err(unanswered)?;
    if let Some(name) = names.iter().find(|name| !given.contains_key(*name)) {
        return Err(unanswered(format!("Nothing was done: `{name}` has no answer.")));
    }
    let bytes = |answers: &Map<String, Value>| -> usize {
        answers.iter().map(|(name, answer)| name.len() + answer.to_string().len()).sum()
    };
    if bytes(before) + bytes(&given) > Asking::ANSWERS_LIMIT_BYTES {
        let limit = Asking::ANSWERS_LIMIT_BYTES;
        return Err(unanswered(format!(
            "Nothing was done: the answers are longer than {limit} bytes together."
        )));
    }
    Ok(given)
}

fn unanswered(sentence: String) -> Box<ToolResult> {
    Box::new(ToolResult::error(Fault::Unanswered, sentence))
}
