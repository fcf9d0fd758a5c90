//! Input requests (elicitation, sampling, roots) for a client request, in the form of each revision.
//!
//! Since 2026-07-28, a request ends with its input requests (`input_required`), and the client sends it again
//! with the responses; the encrypted `requestState` has the responses of earlier rounds. In legacy revisions,
//! the server sends input requests to the client while the client's own request waits.

use std::{
    future::ready,
    mem::take,
    time::{Duration, SystemTime},
};

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use super::{ClientRequestError, ErrorKind, Revision, RpcContext, RpcError, RpcResponse};
use crate::crypto::{Purpose, fingerprint, random_id};
use crate::inbound::without_nulls;
use crate::pipeline::{Elicitor, InputResponsesFuture};
use crate::route::{
    ClientCapability, InputRequest, InputRequestKind, InputRequests, InputResponse, InvalidInput,
};
use crate::settings::EnumSetting as _;
use crate::translate::SamplingRequest;

/// Elicitor for one client request. Sends the input requests to a legacy client, or collects them for the
/// result.
#[derive(Debug)]
pub(super) struct RequestElicitor<'a> {
    rpc: &'a RpcContext<'a>,
    input_requests: &'a InputRequests,
    /// Digest of the client request. A state that was issued for another request is rejected.
    request_digest: String,
    pub(super) round: ElicitationRound<'a>,
}

/// Content of `requestState`, which the client sends back when it retries the request: the digest that binds
/// it to the request, the input responses so far, and the names of the open input requests.
#[derive(Default, Serialize, Deserialize)]
struct RequestState {
    // The name in the states of earlier versions, which run beside this one during a rolling update.
    #[serde(rename = "subject")]
    request_digest: String,
    input_responses: Map<String, Value>,
    /// Names of the input requests that were sent together with the state. Only responses to these are
    /// accepted.
    requested: Vec<String>,
}

impl<'a> RequestElicitor<'a> {
    /// Creates the elicitor for a request for the tool or prompt `name` with these arguments.
    ///
    /// # Errors
    ///
    /// When `requestState` belongs to another request, or the input responses are malformed.
    pub(super) fn new(
        rpc: &'a RpcContext<'a>,
        input_requests: &'a InputRequests,
        name: &str,
        arguments: &Map<String, Value>,
    ) -> Result<Self, RpcError> {
        let is_legacy = rpc.revision.has_handshake();
        // Most tools have no input requests, and need no capabilities.
        let capabilities = match input_requests.is_empty() || (is_legacy && rpc.sender.0.is_none()) {
            true => Vec::new(),
            false => capabilities(rpc.revision, &rpc.capabilities()),
        };
        if is_legacy {
            let mut round = ElicitationRound::new(capabilities, Map::new(), Map::new());
            round.legacy_client = Some((rpc, input_requests.input_timeout));
            return Ok(Self { rpc, input_requests, request_digest: String::new(), round });
        }
        let state = rpc.request.params.request_state.optional_text("params.requestState")?;
        let request_digest = match input_requests.is_empty() && state.is_none() {
            true => String::new(),
            false => request_digest((&rpc.request.method, rpc.message.owner()), name, arguments),
        };
        let state = state.map(|token| decrypt_state(rpc, &token, &request_digest)).transpose()?;
        let RequestState { input_responses, requested, .. } = state.unwrap_or_default();
        let responses = rpc.request.params.input_responses.object("params.inputResponses")?;
        let mut responses: Map<String, Value> = responses.unwrap_or_default();
        // Responses to input requests that were not sent are ignored: a client, or its model, may have made
        // them up. The input requests are sent (again), as SEP-2322 recommends. Only responses that set
        // arguments are accepted without a request: the client could also set these arguments in the call,
        // and they are checked in the same way.
        responses.retain(|name, _| requested.contains(name) || input_requests.gives_arguments(name));
        let round = ElicitationRound::new(capabilities, input_responses, responses);
        Ok(Self { rpc, input_requests, request_digest, round })
    }

    /// Returns the `input_required` response if input is missing, and `None` otherwise.
    ///
    /// # Errors
    ///
    /// When the client lacks a capability, or an input response is invalid.
    pub(super) fn end(self) -> Result<Option<RpcResponse>, RpcError> {
        let open_requests = self.round.outcome?;
        if open_requests.is_empty() {
            return Ok(None);
        }
        let requested = open_requests.iter().map(|request| request.name.clone()).collect();
        let input_responses = self.round.input_responses;
        let state = RequestState { request_digest: self.request_digest, input_responses, requested };
        let state = serde_json::to_vec(&state).expect("its keys are strings");
        let expires = SystemTime::now() + self.input_requests.input_timeout;
        let state = self.rpc.dispatcher.cipher.issue(Purpose::State, &state, expires);
        let members =
            json!({ "inputRequests": requests(&open_requests, self.rpc.revision), "requestState": state });
        Ok(Some(self.rpc.result_of_type("input_required", &members)))
    }
}

/// Sends input requests to a legacy client, each after the response to the previous one.
async fn send_input_requests(
    rpc: &RpcContext<'_>,
    timeout: Duration,
    input_requests: Vec<InputRequest>,
) -> Result<Map<String, Value>, String> {
    let (open_requests, owner) = (&rpc.dispatcher.open_requests, rpc.message.owner());
    let mut input_responses = Map::new();
    for input_request in input_requests {
        let (method, params) = request(&input_request, rpc.revision);
        let value = match open_requests.send_request(rpc.sender, owner, method, &params, timeout).await {
            Ok(result) => serde_json::from_str(result.get())
                .map_err(|_| InvalidInput::Wrong("the client's response can't be parsed".to_owned()))
                .and_then(|result| parse_response(&input_request, result))
                .and_then(|response| input_request.take(response))
                .map_err(|(InvalidInput::Declined(reason) | InvalidInput::Wrong(reason))| reason)?,
            Err(ClientRequestError::ClientError(_)) if input_request.optional => Value::Null,
            Err(error) => {
                return Err(format!("the input request `{}` failed: {error}", input_request.name));
            }
        };
        input_responses.insert(input_request.name, value);
    }
    Ok(input_responses)
}

/// Formats input requests by name, as in a result of revision 2026-07-28.
pub(super) fn requests(input_requests: &[InputRequest], revision: Revision) -> Map<String, Value> {
    let requests = input_requests.iter().map(|input_request| {
        let (method, params) = request(input_request, revision);
        (input_request.name.clone(), json!({ "method": method, "params": params }))
    });
    requests.collect()
}

/// Digest of a request and its client, to which a `requestState` is bound.
fn request_digest(
    (method, owner): (&str, Option<&str>),
    name: &str,
    arguments: &Map<String, Value>,
) -> String {
    let mut request_digest = json!([method, owner, name, arguments]);
    // Members are sorted, because their order does not matter.
    request_digest.sort_all_objects();
    fingerprint(request_digest.to_string().as_bytes())
}

/// Decrypts the `requestState` of a request, and checks that it was issued for this request
/// (`request_digest`).
fn decrypt_state(rpc: &RpcContext<'_>, token: &str, request_digest: &str) -> Result<RequestState, RpcError> {
    let invalid = |reason: &str| {
        ErrorKind::PARAMS.error(format!("`params.requestState`: {reason}; call again without it"))
    };
    let content = rpc.dispatcher.cipher.open(Purpose::State, token, SystemTime::now());
    let content = content.map_err(|error| invalid(&error.to_string()))?;
    let state: Option<RequestState> = serde_json::from_slice(&content).ok();
    let state = state.filter(|state| state.request_digest == request_digest);
    state.ok_or_else(|| invalid("it was issued for another request"))
}

/// One round of input requests: matches the responses to the requests, and records the requests without a
/// response.
#[derive(Debug)]
pub(super) struct ElicitationRound<'a> {
    pub(super) capabilities: Vec<ClientCapability>,
    /// All input responses, of this request and of earlier ones.
    pub(super) input_responses: Map<String, Value>,
    /// The input responses in this request that are not matched yet.
    responses: Map<String, Value>,
    /// The open input requests; empty if no input is missing so far. An error if an input response is invalid
    /// ([`ErrorKind::PARAMS`]), or if the client lacks a capability.
    pub(super) outcome: Result<Vec<InputRequest>, RpcError>,
    /// For a legacy client, which gets input requests at once: its request, and the timeout of input
    /// requests.
    legacy_client: Option<(&'a RpcContext<'a>, Duration)>,
}

impl ElicitationRound<'_> {
    pub(super) fn new(
        capabilities: Vec<ClientCapability>,
        input_responses: Map<String, Value>,
        responses: Map<String, Value>,
    ) -> Self {
        Self { capabilities, input_responses, responses, outcome: Ok(Vec::new()), legacy_client: None }
    }

    fn accept(&mut self, input_requests: Vec<InputRequest>) -> Result<Map<String, Value>, String> {
        /// Never shown: the request ends with input requests or an error.
        const PENDING: &str = "input from the client is needed first";
        // The responses belong to input requests that were sent before. Input requests of a later step need
        // another request of the client.
        let mut responses = take(&mut self.responses);
        let (mut accepted, mut open_requests) = (Map::new(), Vec::new());
        for input_request in input_requests {
            let Some(response) = responses.remove(&input_request.name) else {
                open_requests.push(input_request);
                continue;
            };
            match parse_response(&input_request, response).and_then(|response| input_request.take(response)) {
                Ok(value) => {
                    accepted.insert(input_request.name, value);
                }
                Err(InvalidInput::Declined(message)) => return Err(message),
                Err(InvalidInput::Wrong(reason)) => {
                    self.outcome = Err(ErrorKind::PARAMS.error(reason));
                    return Err(PENDING.to_owned());
                }
            }
        }
        self.input_responses.extend(accepted.clone());
        if open_requests.is_empty() {
            return Ok(accepted);
        }
        self.outcome = Ok(open_requests);
        Err(PENDING.to_owned())
    }
}

impl Elicitor for ElicitationRound<'_> {
    fn capabilities(&self) -> &[ClientCapability] {
        &self.capabilities
    }

    fn input_responses(&self) -> Map<String, Value> {
        self.input_responses.clone()
    }

    fn request_input(&mut self, input_requests: Vec<InputRequest>) -> InputResponsesFuture<'_> {
        match self.legacy_client {
            Some((rpc, timeout)) => Box::pin(send_input_requests(rpc, timeout, input_requests)),
            None => Box::pin(ready(self.accept(input_requests))),
        }
    }

    fn report_unsupported(&mut self, missing: Vec<ClientCapability>) {
        // A legacy client gets a tool error instead, which its model reads.
        if self.legacy_client.is_none() {
            self.outcome = Err(RpcError::capability(&missing));
        }
    }
}

/// The kinds of input request that a client with these capabilities supports.
///
/// `elicitation` was added in 2025-06-18; its modes, multiple choices and titles in 2025-11-25, where a
/// capability without modes means forms (Elicitation, "Capabilities").
pub(super) fn capabilities(revision: Revision, declared: &Map<String, Value>) -> Vec<ClientCapability> {
    use ClientCapability::{Form, FormWithMultiSelect, Roots, Sampling, Url};
    let declared = |name: &str| declared.get(name).and_then(Value::as_object);
    let elicitation: &[_] = match (revision, declared("elicitation")) {
        (_, None) | (Revision::R2024_11_05 | Revision::R2025_03_26, _) => &[],
        (Revision::R2025_06_18, Some(_)) => &[Form],
        (Revision::R2025_11_25 | Revision::R2026_07_28, Some(modes)) => {
            match (modes.contains_key("form"), modes.contains_key("url")) {
                (_, false) => &[Form, FormWithMultiSelect],
                (true, true) => &[Form, FormWithMultiSelect, Url],
                (false, true) => &[Url],
            }
        }
    };
    let others = [("sampling", Sampling), ("roots", Roots)].into_iter();
    let others = others.filter_map(|(name, capability)| declared(name).map(|_| capability));
    elicitation.iter().copied().chain(others).collect()
}

/// The method and the parameters of an input request.
fn request(input_request: &InputRequest, revision: Revision) -> (&'static str, Value) {
    match &input_request.kind {
        InputRequestKind::Form { message, form } => {
            let schema = form_of(revision, form.document());
            ("elicitation/create", json!({ "message": message, "requestedSchema": schema }))
        }
        InputRequestKind::Url { message, url } => {
            let mut params = json!({ "mode": "url", "message": message, "url": url });
            // Only revision 2025-11-25 has ids for URLs.
            if revision == Revision::R2025_11_25 {
                params["elicitationId"] = random_id().into();
            }
            ("elicitation/create", params)
        }
        InputRequestKind::Sampling(sample) => ("sampling/createMessage", sample_params(sample)),
        InputRequestKind::Roots => ("roots/list", json!({})),
    }
}

fn sample_params(sample: &SamplingRequest) -> Value {
    let message = |text: &str| json!({ "type": "text", "text": text });
    let messages: Vec<Value> = sample
        .messages
        .iter()
        .map(|(role, text)| json!({ "role": role.as_str(), "content": message(text) }))
        .collect();
    let hints: Vec<Value> = sample.options.models.iter().map(|name| json!({ "name": name })).collect();
    without_nulls(json!({
        "messages": messages,
        "maxTokens": sample.options.max_tokens,
        "systemPrompt": sample.system,
        "temperature": sample.options.temperature,
        "stopSequences": Some(&sample.options.stop_sequences).filter(|sequences| !sequences.is_empty()),
        "modelPreferences": (!hints.is_empty()).then(|| json!({ "hints": hints })),
    }))
}

/// Converts a form to the format of a revision. Before 2025-11-25, the titles of choices are in a separate
/// list, and only booleans have a default.
fn form_of(revision: Revision, mut document: Map<String, Value>) -> Map<String, Value> {
    if revision >= Revision::R2025_11_25 {
        return document;
    }
    let properties = document.get_mut("properties").and_then(Value::as_object_mut);
    for field in
        properties.into_iter().flat_map(|fields| fields.values_mut()).filter_map(Value::as_object_mut)
    {
        if field.get("type").is_some_and(|kind| kind != "boolean") {
            field.remove("default");
        }
        if let Some(Value::Array(choices)) = field.remove("oneOf") {
            let (values, titles): (Vec<Value>, Vec<Value>) =
                choices.into_iter().map(|choice| (choice["const"].clone(), choice["title"].clone())).unzip();
            field.insert("enum".into(), values.into());
            field.insert("enumNames".into(), titles.into());
        }
    }
    document
}

/// Parses the result that a client sent for an input request.
///
/// # Errors
///
/// [`InvalidInput::Wrong`] if the specification does not allow this result for the kind of the input request.
fn parse_response(input_request: &InputRequest, result: Value) -> Result<InputResponse, InvalidInput> {
    let wrong = |what: &str| {
        InvalidInput::Wrong(format!("the response to input request `{}` {what}", input_request.name))
    };
    let Value::Object(mut result) = result else { return Err(wrong("must be an object")) };
    match &input_request.kind {
        InputRequestKind::Form { .. } | InputRequestKind::Url { .. } => {
            let content = result.remove("content").unwrap_or_default();
            match (result.get("action").and_then(Value::as_str), content) {
                (Some("decline"), _) => Ok(InputResponse::Declined),
                (Some("cancel"), _) => Ok(InputResponse::Cancelled),
                (Some("accept"), Value::Null) => Ok(InputResponse::Accepted(json!({}))),
                (Some("accept"), content @ Value::Object(_)) => Ok(InputResponse::Accepted(content)),
                (Some("accept"), _) => Err(wrong("has a `content` that is not an object")),
                _ => Err(wrong("has no `action`, which is `accept`, `decline` or `cancel`")),
            }
        }
        InputRequestKind::Sampling(_) => {
            let blocks = match result.remove("content").unwrap_or_default() {
                Value::Array(blocks) => blocks,
                block => vec![block],
            };
            let texts = blocks.iter().filter(|block| block["type"] == "text");
            let texts: Vec<&str> = texts.filter_map(|block| block["text"].as_str()).collect();
            if texts.is_empty() {
                return Err(wrong("has no text"));
            }
            let text = texts.join("\n");
            let member = |name: &str| result.get(name).and_then(Value::as_str);
            let (model, stop_reason) = (member("model").unwrap_or_default(), member("stopReason"));
            Ok(InputResponse::Accepted(json!({ "text": text, "model": model, "stop_reason": stop_reason })))
        }
        InputRequestKind::Roots => {
            let Some(Value::Array(roots)) = result.get("roots") else {
                return Err(wrong("has no list of `roots`"));
            };
            let root = |root: &Value| {
                let uri = root["uri"].as_str().ok_or_else(|| wrong("has a root without `uri`"))?;
                Ok(json!({ "uri": uri, "name": root["name"].as_str() }))
            };
            roots.iter().map(root).collect::<Result<_, InvalidInput>>().map(InputResponse::Accepted)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::route::InputForm;
    use crate::translate::SamplingOptions;

    #[test]
    fn a_request_digest_is_independent_of_the_order_of_arguments() {
        let digest_of = |name: &str, arguments: Value| {
            request_digest(("tools/call", None), name, arguments.as_object().unwrap())
        };
        let digest = digest_of("delete", json!({"id": 1, "more": {"a": [1, 2], "b": "x"}}));
        assert_eq!(digest, digest_of("delete", json!({"more": {"b": "x", "a": [1, 2]}, "id": 1})));
        for other in [
            digest_of("delete", json!({"id": 2, "more": {"a": [1, 2], "b": "x"}})),
            digest_of("delete", json!({"id": "1", "more": {"a": [1, 2], "b": "x"}})),
            digest_of("delete", json!({"id": 1, "more": {"a": [2, 1], "b": "x"}})),
            digest_of("delete2", json!({"id": 1, "more": {"a": [1, 2], "b": "x"}})),
            request_digest(("prompts/get", None), "delete", json!({"id": 1}).as_object().unwrap()),
        ] {
            assert_ne!(digest, other);
        }
    }

    fn input_request(kind: InputRequestKind) -> InputRequest {
        InputRequest { name: "it".into(), optional: false, kind }
    }

    fn form(properties: Value) -> InputRequest {
        let form = InputForm::compile(json!({ "properties": properties }).as_object().unwrap()).unwrap();
        input_request(InputRequestKind::Form { message: "Which?".into(), form })
    }

    #[test]
    fn capabilities_are_read_as_each_revision_defines_them() {
        let capabilities_of =
            |revision, declared: Value| capabilities(revision, declared.as_object().unwrap());
        let all =
            json!({"elicitation": {"form": {}, "url": {}}, "sampling": {}, "roots": {"listChanged": true}});
        use ClientCapability::{Form, FormWithMultiSelect, Roots, Sampling, Url};
        let newest = capabilities_of(Revision::R2026_07_28, all.clone());
        assert_eq!(newest, [Form, FormWithMultiSelect, Url, Sampling, Roots]);
        assert_eq!(
            capabilities_of(Revision::R2025_11_25, json!({"elicitation": {}})),
            [Form, FormWithMultiSelect]
        );
        assert_eq!(capabilities_of(Revision::R2025_11_25, json!({"elicitation": {"url": {}}})), [Url]);
        assert_eq!(capabilities_of(Revision::R2025_06_18, all.clone()), [Form, Sampling, Roots]);
        assert_eq!(capabilities_of(Revision::R2024_11_05, all), [Sampling, Roots]);
        assert_eq!(capabilities_of(Revision::R2026_07_28, json!({"elicitation": true, "sampling": 1})), []);
    }

    #[test]
    fn older_clients_get_the_forms_that_they_know() {
        let input_request = form(json!({
            "size": {"type": "string", "oneOf": [{"const": "s", "title": "Small"}], "default": "s"},
            "sure": {"type": "boolean", "default": true},
        }));
        let (method, params) = request(&input_request, Revision::R2025_06_18);
        assert_eq!(method, "elicitation/create");
        assert_eq!(
            params["requestedSchema"]["properties"],
            json!({
                "size": {"type": "string", "enum": ["s"], "enumNames": ["Small"]},
                "sure": {"type": "boolean", "default": true},
            })
        );
        let (_, newer) = request(&input_request, Revision::R2025_11_25);
        assert_eq!(newer["requestedSchema"]["properties"]["size"]["default"], "s");
    }

    #[test]
    fn a_url_request_has_an_id_if_the_revision_requires_one() {
        let link = input_request(InputRequestKind::Url {
            message: "Sign in".into(),
            url: "https://example.com/".into(),
        });
        assert!(request(&link, Revision::R2025_11_25).1["elicitationId"].is_string());
        assert_eq!(
            request(&link, Revision::R2026_07_28).1,
            json!({"mode": "url", "message": "Sign in", "url": "https://example.com/"})
        );
    }

    #[test]
    fn input_responses_are_accepted_or_rejected() {
        let form = form(json!({"a": {"type": "string"}}));
        let read = |value: Value| parse_response(&form, value);
        assert_eq!(read(json!({"action": "decline"})), Ok(InputResponse::Declined));
        assert_eq!(read(json!({"action": "cancel", "content": 5})), Ok(InputResponse::Cancelled));
        assert_eq!(
            read(json!({"action": "accept", "content": null})),
            Ok(InputResponse::Accepted(json!({})))
        );
        for wrong in
            [json!(5), json!({}), json!({"action": "yes"}), json!({"action": "accept", "content": [1]})]
        {
            assert!(matches!(read(wrong), Err(InvalidInput::Wrong(_))));
        }
        let roots = input_request(InputRequestKind::Roots);
        let found =
            parse_response(&roots, json!({"roots": [{"uri": "file:///a", "name": "A", "_meta": {}}]}));
        assert_eq!(found, Ok(InputResponse::Accepted(json!([{"uri": "file:///a", "name": "A"}]))));
        assert!(
            parse_response(&roots, json!({"roots": [{}]})).is_err()
                && parse_response(&roots, json!({})).is_err()
        );
    }

    #[test]
    fn sampled_text_is_that_of_the_text_blocks() {
        let sample = SamplingRequest {
            messages: Vec::new(),
            system: None,
            options: SamplingOptions {
                max_tokens: 5,
                temperature: None,
                stop_sequences: Vec::new(),
                models: Vec::new(),
                optional: false,
            },
        };
        let input_request = input_request(InputRequestKind::Sampling(sample));
        let respond =
            |content: Value| parse_response(&input_request, json!({"model": "m", "content": content}));
        let text =
            |text: &str| InputResponse::Accepted(json!({"text": text, "model": "m", "stop_reason": null}));
        assert_eq!(respond(json!({"type": "text", "text": "hi"})), Ok(text("hi")));
        let image = json!({"type": "image", "data": ""});
        let blocks = json!([image, {"type": "text", "text": "a"}, {"type": "text", "text": "b"}]);
        assert_eq!(respond(blocks), Ok(text("a\nb")));
        assert!(respond(json!({"type": "image", "data": ""})).is_err());
    }
}
