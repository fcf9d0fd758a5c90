//! Input requests of a call (elicitation, sampling, roots): their order, and their responses.

use futures_util::future::BoxFuture;
use serde_json::{Map, Value};

use super::error_text;
use super::error_text::failure;
use crate::model::{Arguments, ErrorType, ToolResult};
use crate::route::{ClientCapability, InputRequest, InputRequests, NextStep};

/// Sends input requests to the client of a call, as its API and protocol revision require.
pub trait Elicitor: Send + Sync {
    /// Kinds of input request that the client supports.
    fn capabilities(&self) -> &[ClientCapability];

    /// Input responses that came with the call.
    fn input_responses(&self) -> Map<String, Value>;

    /// Sends these input requests together and returns a response to each, by name. The error is the reason
    /// why the call ends, as part of a sentence for the model.
    fn request_input(&mut self, requests: Vec<InputRequest>) -> InputResponsesFuture<'_>;

    /// Reports that the client lacks these capabilities, which the input requests need. The call then ends.
    fn report_unsupported(&mut self, missing: Vec<ClientCapability>);
}

/// Future of input responses.
pub type InputResponsesFuture<'a> = BoxFuture<'a, Result<Map<String, Value>, String>>;

/// Sends the input requests that precede the upstream request, and returns the arguments with the responses.
/// `elicitor` is `None` if the client supports no input requests.
///
/// # Errors
///
/// The tool error that ends the call if a request is declined, unsupported, or not answered yet.
pub async fn elicit_first(
    input_requests_of_route: &InputRequests,
    arguments: Arguments,
    mut elicitor: Option<&mut (dyn Elicitor + '_)>,
) -> Result<Arguments, Box<ToolResult>> {
    if input_requests_of_route.is_empty() {
        return Ok(arguments);
    }
    let declared = elicitor.as_ref().map(|client| (client.capabilities().to_vec(), client.input_responses()));
    let (capabilities, mut input_responses) = declared.unwrap_or_default();
    loop {
        let next = input_requests_of_route.next(&arguments, &input_responses, &capabilities);
        match next.map_err(|message| failure(ErrorType::Arguments, message))? {
            NextStep::Done(arguments) => return Ok(arguments),
            NextStep::MissingCapabilities(missing) => {
                let message = error_text::cannot_elicit(&missing);
                if let Some(elicitor) = elicitor {
                    elicitor.report_unsupported(missing);
                }
                return Err(failure(ErrorType::InputMissing, message));
            }
            NextStep::InputRequests(requests) => {
                let responses =
                    send_input_requests(elicitor.as_deref_mut(), requests, &input_responses).await;
                let no_response =
                    |reason| failure(ErrorType::InputMissing, format!("Nothing was done: {reason}."));
                input_responses.extend(responses.map_err(no_response)?);
            }
        }
    }
}

/// Sends a rule's sampling request, and returns all input responses of the call.
pub(super) async fn elicit_for_rule(
    sample: crate::translate::SamplingRequest,
    arguments: &Arguments,
    elicitor: Option<&mut (dyn Elicitor + '_)>,
) -> Result<Map<String, Value>, Box<ToolResult>> {
    let mut input_responses = arguments.input_responses.clone();
    let responses =
        send_input_requests(elicitor, vec![InputRequest::from_rule(sample)], &input_responses).await;
    let no_response = |reason: String| {
        let message = format!("The service responded, but its response could not be processed: {reason}.");
        failure(ErrorType::InputMissing, message)
    };
    input_responses.extend(responses.map_err(no_response)?);
    Ok(input_responses)
}

/// Sends input requests and checks that each has a response. The responses and the earlier responses of the
/// call (`earlier_responses`) have a common size limit.
async fn send_input_requests(
    elicitor: Option<&mut (dyn Elicitor + '_)>,
    requests: Vec<InputRequest>,
    earlier_responses: &Map<String, Value>,
) -> Result<Map<String, Value>, String> {
    let names: Vec<String> = requests.iter().map(|request| request.name.clone()).collect();
    let elicitor = elicitor.ok_or("input requests are not supported here")?;
    let responses = elicitor.request_input(requests).await?;
    if let Some(name) = names.iter().find(|name| !responses.contains_key(*name)) {
        return Err(format!("the input request `{name}` has no response"));
    }
    let length_of = |input_responses: &Map<String, Value>| -> usize {
        input_responses.iter().map(|(name, response)| name.len() + response.to_string().len()).sum()
    };
    if length_of(earlier_responses) + length_of(&responses) > InputRequests::RESPONSES_LIMIT_BYTES {
        let limit = InputRequests::RESPONSES_LIMIT_BYTES;
        return Err(format!("the input responses are longer than {limit} bytes together"));
    }
    Ok(responses)
}
