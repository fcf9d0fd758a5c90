//! `prompts/list` and `prompts/get`.

use serde::Serialize;
use serde_json::value::RawValue;

use super::{
    answer::{Answer, raw_json},
    ask::Questioner,
    call::CallParams,
    client::Client,
    protocol::Protocol,
    refusal::Refusal,
    revision::Era,
};
use crate::{
    gateway::{PromptError, Snapshot, ask_first},
    prompt::Prompt,
    tool::{Arguments, write_block},
};

/// One page of the list.
pub(super) fn list(protocol: &Protocol, client: &Client<'_>) -> Result<Answer, Refusal> {
    let snapshot = protocol.gateway.snapshot();
    protocol.about.list(&snapshot.lists.prompts, true, client)
}

/// The messages of one prompt.
pub(super) async fn get(protocol: &Protocol, client: &Client<'_>) -> Result<Answer, Refusal> {
    let params: CallParams<'_> = client.request.params()?;
    let name = params.name()?;
    let arguments = params.arguments()?;
    match client.revision.era() {
        Era::Handshake => {}
        Era::PerRequest => client.carrier.check_name(&name)?,
    }
    let snapshot = protocol.gateway.snapshot();
    let prompt = snapshot.prompts.by_name(&name);
    let prompt = prompt.ok_or_else(|| Refusal::UnknownPrompt { prompt: name.into_owned() })?;
    client.may(&prompt.scopes)?;
    let mut questioner = Questioner::new(client, &prompt.asking, prompt.name.as_str(), &arguments)?;
    let checked = prompt.check(arguments).map_err(|sentence| Refusal::Prompt(sentence.into()))?;
    let answered = ask_first(&prompt.asking, checked, &mut questioner).await;
    if let Some(questions) = questioner.end()? {
        return Ok(questions);
    }
    let arguments = answered.map_err(|unanswered| PromptError::Failed(unanswered.told()))?;
    messages(client, &snapshot, prompt, &arguments).await
}

/// The messages for arguments that were checked: whatever is to be asked first has been asked.
async fn messages(
    client: &Client<'_>,
    snapshot: &Snapshot,
    prompt: &Prompt,
    arguments: &Arguments,
) -> Result<Answer, Refusal> {
    #[derive(Serialize)]
    struct PromptResult<'a> {
        #[serde(skip_serializing_if = "Option::is_none")]
        description: Option<&'a str>,
        messages: Vec<PromptMessage>,
    }
    #[derive(Serialize)]
    struct PromptMessage {
        role: &'static str,
        content: Box<RawValue>,
    }
    let call = |arguments| client.call(arguments);
    let messages = snapshot.prompt(prompt, arguments, &call).await?;
    let messages = messages.into_iter().map(|mut message| {
        client.revision.adapt_content(&mut message.content);
        let mut block = Vec::new();
        write_block(&message.content, &mut block);
        PromptMessage { role: message.role.as_str(), content: raw_json(block) }
    });
    let description = prompt.description.as_deref();
    Ok(client.result(&PromptResult { description, messages: messages.collect() }))
}
