//! Questions on the way of a request, in both eras.
//!
//! In the newer era a request ends with what there is to ask (`input_required`), and the client sends it again with the
//! answers; what it has answered so far travels with it, sealed. In the older era the client is asked while its request
//! waits.

use std::time::SystemTime;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use super::{
    client::{Client, Unanswered},
    elicitation_wire,
    message::Member,
    refusal::Refusal,
    response::Answer,
    revision::{Era, Revision},
};
use crate::{
    crypto::{Purpose, Unsealed, fingerprint},
    pipeline::{Answering, Elicitor},
    route::{Abilities, Asking, Missing, Question, Unfit},
};

/// Asks the client of a request, and knows afterwards whether the request ends with questions.
#[derive(Debug)]
pub(super) struct Questioner<'a> {
    client: &'a Client<'a>,
    asking: &'a Asking,
    /// What the request is for: another one can't take its state.
    subject: String,
    /// What came with it (the newer era).
    round: Round,
}

/// What a request brings that was answered with questions before.
#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct InputParams<'a> {
    #[serde(borrow)]
    input_responses: Member<'a>,
    #[serde(borrow)]
    request_state: Member<'a>,
}

/// What the client of a request has answered so far, for the request that follows.
#[derive(Default, Serialize, Deserialize)]
struct State {
    subject: String,
    answers: Map<String, Value>,
    /// The names of the questions that were asked with it: the request that follows answers these and no others.
    #[serde(default)]
    asked: Vec<String>,
}

impl<'a> Questioner<'a> {
    /// For a request of `name` with these arguments.
    ///
    /// # Errors
    ///
    /// When the request brings a state that was not given out for it, or answers that are none.
    pub(super) fn new(
        client: &'a Client<'a>,
        asking: &'a Asking,
        name: &str,
        arguments: &Map<String, Value>,
    ) -> Result<Self, Refusal> {
        let capabilities = || client.revision.abilities(&client.capabilities());
        let (abilities, subject, answered, responses) = match client.revision.era() {
            Era::PerRequest => {
                // Most tools ask nothing, and nothing is brought back to them.
                let InputParams { input_responses, request_state } = client.request.params()?;
                let request_state = request_state.optional_text("params.requestState")?;
                let is_of_account = !asking.is_empty() || request_state.is_some();
                let subject = if is_of_account {
                    subject((&client.request.method, client.carrier.owner()), name, arguments)
                } else {
                    String::new()
                };
                let state = request_state.map(|token| opened(client, &token, &subject)).transpose()?;
                let responses = input_responses.object("params.inputResponses")?;
                let mut responses: Map<String, Value> = responses.unwrap_or_default();
                // Responses to what was not asked are ignored: a client, or the model behind it, may have made them
                // up. The questions are asked (again), as SEP-2322 recommends. Only arguments are taken unasked: the
                // client may set them in the request as well, and they are checked in the same way.
                let State { answers: answered, asked, .. } = state.unwrap_or_default();
                responses.retain(|name, _| asked.contains(name) || asking.gives_arguments(name));
                let abilities = if asking.is_empty() { Abilities::default() } else { capabilities() };
                (abilities, subject, answered, responses)
            }
            Era::Handshake => {
                let can_ask = !asking.is_empty() && client.outbox.is_open();
                let abilities = if can_ask { capabilities() } else { Abilities::default() };
                (abilities, String::new(), Map::new(), Map::new())
            }
        };
        Ok(Self { client, asking, subject, round: Round::new(abilities, answered, responses) })
    }

    /// What the request is answered with in place of its result, where that is not to be.
    ///
    /// # Errors
    ///
    /// When the client can't be asked, or its answers are none.
    pub(super) fn end(self) -> Result<Option<Answer>, Refusal> {
        match self.round.outcome {
            Outcome::Settled => Ok(None),
            Outcome::Wrong(why) => Err(Refusal::Params(why.into())),
            Outcome::Unable(missing) => Err(Refusal::Capability { missing }),
            Outcome::Open(questions) => {
                let requests = requests(&questions, self.client.revision);
                let asked = questions.iter().map(|question| question.name.clone()).collect();
                let state = State { subject: self.subject, answers: self.round.answered, asked };
                let state = serde_json::to_vec(&state).expect("its keys are strings");
                let expires = SystemTime::now() + self.asking.patience;
                let state = self.client.seal.seal(Purpose::State, &state, expires);
                let members = json!({ "inputRequests": requests, "requestState": state });
                let (id, none) = (self.client.request.id, Map::new());
                Ok(Some(Answer::result(id, Some("input_required"), &members, &none)))
            }
        }
    }

    /// The older era: asks one after the other, as a person answers.
    async fn ask_now(&self, questions: Vec<Question>) -> Result<Map<String, Value>, String> {
        let mut answers = Map::new();
        for question in questions {
            let (method, params) = elicitation_wire::request(&question, self.client.revision);
            let value = match self.client.outbox.ask(method, &params, self.asking.patience).await {
                Ok(result) => serde_json::from_str(result.get())
                    .map_err(|_| Unfit::Wrong("the client's answer can't be read".to_owned()))
                    .and_then(|result| elicitation_wire::answer(&question, result))
                    .and_then(|answer| question.take(answer))
                    .map_err(|unfit| match unfit {
                        Unfit::Refused(sentence) => sentence,
                        Unfit::Wrong(why) => format!("Nothing was done: {why}."),
                    })?,
                Err(Unanswered::Refused { .. }) if question.optional => Value::Null,
                Err(unanswered) => {
                    return Err(format!("Nothing was done: asked for `{}`, {unanswered}.", question.name));
                }
            };
            answers.insert(question.name, value);
        }
        Ok(answers)
    }
}

impl Elicitor for Questioner<'_> {
    fn abilities(&self) -> Abilities {
        self.round.abilities()
    }

    fn answers(&self) -> Map<String, Value> {
        self.round.answers()
    }

    fn ask(&mut self, questions: Vec<Question>) -> Answering<'_> {
        match self.client.revision.era() {
            Era::PerRequest => self.round.ask(questions),
            Era::Handshake => Box::pin(self.ask_now(questions)),
        }
    }

    fn unable(&mut self, missing: Vec<Missing>) {
        match self.client.revision.era() {
            Era::PerRequest => self.round.unable(missing),
            // A model reads the tool error.
            Era::Handshake => {}
        }
    }
}

/// Questions by name, as the newer era asks them.
pub(super) fn requests(questions: &[Question], revision: Revision) -> Map<String, Value> {
    let requests = questions.iter().map(|question| {
        let (method, params) = elicitation_wire::request(question, revision);
        (question.name.clone(), json!({ "method": method, "params": params }))
    });
    requests.collect()
}

/// What a request is for and whose it is, in a few bytes.
fn subject((method, owner): (&str, Option<&str>), name: &str, arguments: &Map<String, Value>) -> String {
    let mut written = json!([method, owner, name]).to_string();
    write_sorted(&Value::Object(arguments.clone()), &mut written);
    fingerprint(written.as_bytes())
}

/// JSON with the members of objects by name, so that their order makes no difference.
fn write_sorted(value: &Value, out: &mut String) {
    match value {
        Value::Object(members) => {
            let mut members: Vec<_> = members.iter().collect();
            members.sort_unstable_by_key(|(name, _)| *name);
            out.push('{');
            for (name, member) in members {
                out.push_str(&Value::from(name.as_str()).to_string());
                write_sorted(member, out);
                out.push(',');
            }
            out.push('}');
        }
        Value::Array(items) => {
            out.push('[');
            for item in items {
                write_sorted(item, out);
                out.push(',');
            }
            out.push(']');
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {
            out.push_str(&value.to_string())
        }
    }
}

/// What was asked and answered before a request that brings its state back.
fn opened(client: &Client<'_>, token: &str, subject: &str) -> Result<State, Refusal> {
    let refuse =
        |why: &str| Refusal::Params(format!("`params.requestState`: {why}; call again without it").into());
    let content = client
        .seal
        .open(Purpose::State, token, SystemTime::now())
        .map_err(|unsealed: Unsealed| refuse(&unsealed.to_string()))?;
    let state: State = serde_json::from_slice(&content).map_err(|_| refuse("it was not given out here"))?;
    match state.subject == subject {
        true => Ok(state),
        false => Err(refuse("it was given out for another request")),
    }
}

impl Revision {
    /// What a client of this revision is able to do that declares these capabilities.
    pub(super) fn abilities(self, capabilities: &Map<String, Value>) -> Abilities {
        elicitation_wire::abilities(self, capabilities)
    }
}

/// Gives to each question the answer that came, and knows afterwards what is left to ask.
#[derive(Debug)]
pub(super) struct Round {
    pub(super) abilities: Abilities,
    /// What has been answered, this time and before.
    pub(super) answered: Map<String, Value>,
    /// What came with the request, until somebody asks.
    responses: Option<Map<String, Value>>,
    pub(super) outcome: Outcome,
}

/// What is left.
#[derive(Debug)]
pub(super) enum Outcome {
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
    pub(super) fn new(
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
            match elicitation_wire::answer(&question, response).and_then(|answer| question.take(answer)) {
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

impl Elicitor for Round {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_subject_is_the_same_whatever_the_order_of_its_arguments() {
        let of = |name: &str, arguments: Value| {
            subject(("tools/call", None), name, arguments.as_object().unwrap())
        };
        let one = of("delete", json!({"id": 1, "more": {"a": [1, 2], "b": "x"}}));
        assert_eq!(one, of("delete", json!({"more": {"b": "x", "a": [1, 2]}, "id": 1})));
        for other in [
            of("delete", json!({"id": 2, "more": {"a": [1, 2], "b": "x"}})),
            of("delete", json!({"id": "1", "more": {"a": [1, 2], "b": "x"}})),
            of("delete", json!({"id": 1, "more": {"a": [2, 1], "b": "x"}})),
            of("delete2", json!({"id": 1, "more": {"a": [1, 2], "b": "x"}})),
            subject(("prompts/get", None), "delete", json!({"id": 1}).as_object().unwrap()),
        ] {
            assert_ne!(one, other);
        }
    }
}
