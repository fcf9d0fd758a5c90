//! `prompts/list` and `prompts/get`.

use super::{
    answer::Answer, ask::Questioner, call::CallParams, client::Client, protocol::Protocol, refusal::Refusal,
    revision::Era,
};
use crate::{
    gateway::{PromptError, Snapshot, ask_first},
    prompt::{Message, Prompt},
    tool::{Arguments, write_block, write_escaped},
};

/// One page of the list.
pub(super) fn list(protocol: &Protocol, client: &Client<'_>) -> Result<Answer, Refusal> {
    let snapshot = protocol.gateway.snapshot();
    Answer::result(client.request.id, client.revision, |out| {
        protocol.about.list(&snapshot.lists.prompts, protocol.about.list_ttl, client, out)
    })
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
    messages(protocol, client, &snapshot, prompt, &arguments).await
}

/// The messages for arguments that were checked: whatever is to be asked first has been asked.
async fn messages(
    protocol: &Protocol,
    client: &Client<'_>,
    snapshot: &Snapshot,
    prompt: &Prompt,
    arguments: &Arguments,
) -> Result<Answer, Refusal> {
    let revision = client.revision;
    let call = |arguments| client.call(arguments);
    let mut messages = snapshot.prompt(prompt, arguments, &call).await?;
    for message in &mut messages {
        revision.adapt_content(&mut message.content);
    }
    Answer::result(client.request.id, revision, |out| {
        if let Some(description) = &prompt.description {
            out.extend_from_slice(b"\"description\":");
            write_escaped(description, out);
            out.push(b',');
        }
        write_messages(&messages, out);
        protocol.about.write_meta(revision, out);
        Ok(())
    })
}

fn write_messages(messages: &[Message], out: &mut Vec<u8>) {
    out.extend_from_slice(b"\"messages\":[");
    for (index, message) in messages.iter().enumerate() {
        if index > 0 {
            out.push(b',');
        }
        out.extend_from_slice(b"{\"role\":\"");
        out.extend_from_slice(message.role.as_str().as_bytes());
        out.extend_from_slice(b"\",\"content\":");
        write_block(&message.content, out);
        out.push(b'}');
    }
    out.push(b']');
}
