//! `tools/call`, from raw parameters to the result's bytes.

use std::borrow::Cow;

use serde::Deserialize;
use serde_json::{Map, Value};

use super::{
    client::{Client, Listening},
    elicitation::Questioner,
    message::Member,
    protocol::Protocol,
    refusal::Refusal,
    response::Answer,
    revision::Era,
    tasks,
};
use crate::pipeline::{Call, CallOutcome};

/// The parameters of `tools/call` and of `prompts/get`.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct CallParams<'a> {
    #[serde(borrow)]
    name: Member<'a>,
    #[serde(borrow)]
    arguments: Member<'a>,
}

impl<'a> CallParams<'a> {
    /// Which tool or prompt.
    pub(super) fn name(&self) -> Result<Cow<'a, str>, Refusal> {
        self.name.required_text("params.name")
    }

    /// With what. None at all is the same as none in an object.
    pub(super) fn arguments(&self) -> Result<Map<String, Value>, Refusal> {
        Ok(self.arguments.unless_null().object("params.arguments")?.unwrap_or_default())
    }
}

/// Calls the tool and writes what it gave: raw JSON in the result is spliced into the answer, not rebuilt.
pub(super) async fn call_tool(protocol: &Protocol, client: &Client<'_>) -> Result<Answer, Refusal> {
    let (request, revision) = (client.request, client.revision);
    let params: CallParams<'_> = request.params()?;
    let tool = params.name()?.into_owned();
    let arguments = params.arguments()?;
    // One for the whole call: its headers are checked against the schema that its arguments will be.
    let snapshot = protocol.gateway.snapshot();
    let route = snapshot.table.by_tool(&tool);
    if let Some(route) = route {
        client.may(&route.scopes)?;
    }
    match revision.era() {
        Era::Handshake => {}
        Era::PerRequest => {
            client.carrier.check_name(&tool)?;
            if let Some(route) = route {
                client.carrier.check_arguments(&route.definition.input_schema, &arguments)?;
            }
        }
    }
    let Some(route) = route else {
        let result = snapshot.not_ready(&tool).ok_or(Refusal::UnknownTool { tool })?;
        return Ok(client.tool_result(result));
    };
    let may_be_task = match revision.era() {
        Era::Handshake => false,
        Era::PerRequest => tasks::may_be(route, client, &arguments)?,
    };
    if may_be_task
        && let Some(answer) = Box::pin(tasks::asking(protocol, client, (&snapshot, route), &arguments)).await
    {
        return Ok(answer);
    }
    let mut questioner = Questioner::new(client, &route.asking, &tool, &arguments)?;
    let listening = Listening::of(protocol, client)?;
    let call = Call { subscriber: Some(&listening), ..client.call(arguments) };
    // Dropped with the connection: the upstream's request ends with its client's.
    let result = if may_be_task {
        match Box::pin(snapshot.call_as_task(route, call, &mut questioner)).await {
            CallOutcome::Result(result) => result,
            CallOutcome::Operation(operation) => {
                return Ok(tasks::created(protocol, client, &tool, *operation));
            }
        }
    } else {
        snapshot.call(route, call, &mut questioner).await
    };
    if let Some(answer) = questioner.end()? {
        return Ok(answer);
    }
    Ok(client.tool_result(result))
}
