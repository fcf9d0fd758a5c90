//! Input requests of a call (elicitation, sampling, roots): their order, and their responses.

use std::{future::Future, pin::Pin};

use serde_json::{Map, Value};

use super::error_text;
use crate::{
    model::{Arguments, ErrorType, ToolResult},
    route::{ClientCapabilities, InputRequest, InputRequests, MissingCapability, NextStep},
};

/// Sends input requests to the client of a call, as its API and protocol revision require.
pub trait Elicitor: Send + Sync {
    /// Kinds of input request that the client supports.
    fn abilities(&self) -> ClientCapabilities;

    /// Input responses that came with the call.
    fn answers(&self) -> Map<String, Value>;

    /// Sends these input requests together and returns a response to each, by name. An error is a sentence
    /// for the model with the reason why the call ends.
    fn request_input(&mut self, questions: Vec<InputRequest>) -> InputResponsesFuture<'_>;

    /// Reports that the client does not support these input requests. The call ends then.
    fn unable(&mut self, missing: Vec<MissingCapability>);
}

/// Future of input responses.
pub type InputResponsesFuture<'a> =
    Pin<Box<dyn Future<Output = Result<Map<String, Value>, String>> + Send + 'a>>;

/// Elicitor for clients that support no input requests.
pub struct NoElicitor;

impl Elicitor for NoElicitor {
    fn abilities(&self) -> ClientCapabilities {
        ClientCapabilities::default()
    }

    fn answers(&self) -> Map<String, Value> {
        Map::new()
    }

    fn request_input(&mut self, _: Vec<InputRequest>) -> InputResponsesFuture<'_> {
        Box::pin(async { Err("input requests are not supported here".to_owned()) })
    }

    fn unable(&mut self, _: Vec<MissingCapability>) {}
}

/// Sends the input requests that precede the upstream request, and returns the arguments with the responses.
///
/// # Errors
///
/// The tool error that ends the call if a request is declined, unsupported, or not answered yet.
pub async fn elicit_first(
    asking: &InputRequests,
    arguments: Arguments,
    elicitor: &mut dyn Elicitor,
) -> Result<Arguments, Box<ToolResult>> {
    if asking.is_empty() {
        return Ok(arguments);
    }
    let abilities = elicitor.abilities();
    let mut answers = elicitor.answers();
    loop {
        let next = asking.next(&arguments, &answers, abilities);
        match next.map_err(|sentence| Box::new(ToolResult::error(ErrorType::Arguments, sentence)))? {
            NextStep::Done(arguments) => return Ok(arguments),
            NextStep::Unable(missing) => {
                let sentence = error_text::cannot_elicit(&missing);
                elicitor.unable(missing);
                return Err(unanswered(sentence));
            }
            NextStep::InputRequests(questions) => {
                let responses = input_requests(elicitor, questions, &answers).await;
                answers.extend(responses.map_err(|why| unanswered(format!("Nothing was done: {why}.")))?);
            }
        }
    }
}

/// Sends a rule's sampling request, and returns all input responses of the call.
pub(super) async fn elicit_for_rule(
    sample: crate::translate::SamplingRequest,
    arguments: &Arguments,
    elicitor: &mut dyn Elicitor,
) -> Result<Map<String, Value>, Box<ToolResult>> {
    let mut answers = arguments.input_responses().clone();
    let responses = input_requests(elicitor, vec![InputRequest::of_rule(sample)], &answers).await;
    answers.extend(responses.map_err(|why| unanswered(error_text::response_needs_input(&why)))?);
    Ok(answers)
}

/// Sends input requests and checks that each has a response. All responses of a call together have a limit.
async fn input_requests(
    elicitor: &mut dyn Elicitor,
    questions: Vec<InputRequest>,
    before: &Map<String, Value>,
) -> Result<Map<String, Value>, String> {
    let names: Vec<String> = questions.iter().map(|question| question.name.clone()).collect();
    let given = elicitor.request_input(questions).await?;
    if let Some(name) = names.iter().find(|name| !given.contains_key(*name)) {
        return Err(format!("the input request `{name}` has no response"));
    }
    let bytes = |answers: &Map<String, Value>| -> usize {
        answers.iter().map(|(name, answer)| name.len() + answer.to_string().len()).sum()
    };
    if bytes(before) + bytes(&given) > InputRequests::ANSWERS_LIMIT_BYTES {
        let limit = InputRequests::ANSWERS_LIMIT_BYTES;
        return Err(format!("the input responses are longer than {limit} bytes together"));
    }
    Ok(given)
}

fn unanswered(sentence: String) -> Box<ToolResult> {
    Box::new(ToolResult::error(ErrorType::InputMissing, sentence))
}
