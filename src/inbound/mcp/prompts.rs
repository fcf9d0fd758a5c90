//! `prompts/list`, `prompts/get`, and `completion/complete`: what an argument of a prompt or of a resource
//! template may be.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json, value::RawValue};

use super::{
    call::CallParams,
    client::Client,
    elicitation::Questioner,
    message::Member,
    protocol::Protocol,
    proxied,
    refusal::{Refusal, Short},
    response::{Answer, raw_json},
    revision::Era,
};
use crate::{
    model::{Arguments, write_block},
    pipeline::{PromptError, Proxied, Snapshot, Typed, elicit_first},
    prompt::Prompt,
    route::Suggestions,
};

/// One page of the list.
pub(super) fn list(protocol: &Protocol, client: &Client<'_>) -> Result<Answer, Refusal> {
    let snapshot = protocol.gateway.snapshot();
    protocol.about.list(&snapshot.lists.prompts, snapshot.awaited.prompts.is_empty(), client)
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
    let Some(prompt) = prompt else {
        return match (snapshot.proxied.prompt(&name), snapshot.prompt_not_ready(&name)) {
            (Some(prompt), _) => Box::pin(proxied::get(client, &snapshot, prompt, arguments)).await,
            (None, Some(sentence)) => Err(Refusal::Failed(sentence.to_owned())),
            (None, None) => Err(Refusal::UnknownPrompt { prompt: name.into_owned() }),
        };
    };
    client.may(&prompt.scopes)?;
    let mut questioner = Questioner::new(client, &prompt.asking, prompt.name.as_str(), &arguments)?;
    let checked = prompt.check(arguments).map_err(|sentence| Refusal::Prompt(sentence.into()))?;
    let answered = elicit_first(&prompt.asking, checked, &mut questioner).await;
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
    let call = client.call(Map::new());
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

#[derive(Default, Deserialize)]
#[serde(default)]
struct CompleteParams<'a> {
    #[serde(borrow, rename = "ref")]
    reference: Member<'a>,
    #[serde(borrow)]
    argument: Member<'a>,
    #[serde(borrow)]
    context: Member<'a>,
}

/// What an argument is completed of.
#[derive(Debug, PartialEq, Eq)]
enum Reference<'a> {
    /// A prompt, by its name.
    Prompt(Cow<'a, str>),
    /// A resource template, or a resource, by its URI.
    Resource(Cow<'a, str>),
}

#[derive(Deserialize)]
struct WrittenReference<'a> {
    #[serde(borrow, rename = "type")]
    kind: Cow<'a, str>,
    #[serde(borrow, default)]
    name: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    uri: Option<Cow<'a, str>>,
}

#[derive(Deserialize)]
struct WrittenArgument<'a> {
    #[serde(borrow)]
    name: Cow<'a, str>,
    #[serde(borrow)]
    value: Cow<'a, str>,
}

#[derive(Default, Deserialize)]
struct WrittenContext {
    #[serde(default)]
    arguments: Option<Map<String, Value>>,
}

impl<'a> CompleteParams<'a> {
    /// Of what an argument is completed.
    fn reference(&self) -> Result<Reference<'a>, Refusal> {
        const HELP: &str = "`params.ref` must be `{\"type\": \"ref/prompt\", \"name\": …}` or \
                            `{\"type\": \"ref/resource\", \"uri\": …}`";
        let written = self.reference.object("").ok().flatten();
        match written {
            Some(WrittenReference { kind, name: Some(name), .. }) if kind == "ref/prompt" => {
                Ok(Reference::Prompt(name))
            }
            Some(WrittenReference { kind, uri: Some(uri), .. }) if kind == "ref/resource" => {
                Ok(Reference::Resource(uri))
            }
            Some(_) | None => Err(Refusal::Params(HELP.into())),
        }
    }

    /// The argument's name, and what of it has been typed.
    fn typed_argument(&self) -> Result<(Cow<'a, str>, Cow<'a, str>), Refusal> {
        let written = self.argument.object("").ok().flatten();
        let WrittenArgument { name, value } = written.ok_or_else(|| {
            Refusal::Params("`params.argument` must be `{\"name\": …, \"value\": …}`, both strings".into())
        })?;
        Ok((name, value))
    }

    /// The arguments that are there already (since 2025-06-18).
    fn context_arguments(&self) -> Result<Map<String, Value>, Refusal> {
        let written = self.context.unless_null().object::<WrittenContext>("");
        match written.ok().map(|context| context.unwrap_or_default().arguments.unwrap_or_default()) {
            Some(arguments) if arguments.values().all(Value::is_string) => Ok(arguments),
            _ => Err(Refusal::Params("`params.context.arguments` must be an object of strings".into())),
        }
    }
}

/// Values for what has been typed.
pub(super) async fn complete(protocol: &Protocol, client: &Client<'_>) -> Result<Answer, Refusal> {
    let params: CompleteParams<'_> = client.request.params()?;
    let reference = params.reference()?;
    let (argument, value) = params.typed_argument()?;
    let others = params.context_arguments()?;
    let snapshot = protocol.gateway.snapshot();
    if let Some((entry, reference)) = proxied_entry(&snapshot, &reference) {
        let asked = proxied::Completion { reference, argument: &argument, value: &value, others };
        return Box::pin(proxied::complete(client, &snapshot, entry, asked)).await;
    }
    let typed = Typed { argument: &argument, value: &value, others };
    let suggestions = suggestions(&snapshot, client, &reference, typed).await?;
    Ok(client.result(&completion(&suggestions)))
}

/// The proxied prompt or resource template of a reference, unless the configuration has its own, and the
/// reference as the upstream knows it.
fn proxied_entry<'s>(snapshot: &'s Snapshot, reference: &Reference<'_>) -> Option<(&'s Proxied, Value)> {
    match reference {
        Reference::Prompt(name) => {
            let is_own = snapshot.prompts.by_name(name).is_some();
            let entry = snapshot.proxied.prompt(name).filter(|_| !is_own)?;
            Some((entry, json!({ "type": "ref/prompt", "name": entry.upstream_key })))
        }
        Reference::Resource(uri) => {
            let is_own = snapshot.own_template(uri).is_some();
            let entry = snapshot.proxied.template(uri).filter(|_| !is_own)?;
            Some((entry, json!({ "type": "ref/resource", "uri": uri })))
        }
    }
}

async fn suggestions(
    snapshot: &Snapshot,
    client: &Client<'_>,
    reference: &Reference<'_>,
    typed: Typed<'_>,
) -> Result<Suggestions, Refusal> {
    let call = client.call(Map::new());
    let name = typed.argument;
    let unknown = |of: &str| Refusal::Prompt(format!("the {of} has no argument `{}`", Short(name)).into());
    match reference {
        Reference::Prompt(prompt) => {
            let found = snapshot.prompts.by_name(prompt);
            let found =
                found.ok_or_else(|| Refusal::UnknownPrompt { prompt: prompt.clone().into_owned() })?;
            client.may(&found.scopes)?;
            let argument = found.argument(name).ok_or_else(|| unknown("prompt"))?;
            match &argument.completion {
                Some(completion) => Ok(snapshot.complete(completion, typed, &call).await),
                None => Ok(Suggestions::default()),
            }
        }
        Reference::Resource(uri) => {
            let route = snapshot.own_template(uri);
            let route = route.ok_or_else(|| Refusal::UnknownTemplate { uri: uri.clone().into_owned() })?;
            client.may(&route.scopes)?;
            snapshot.complete_uri(route, typed, &call).await.ok_or_else(|| unknown("resource template"))
        }
    }
}

pub(super) fn completion(suggestions: &Suggestions) -> Value {
    let (total, has_more) = (suggestions.total, suggestions.has_more());
    json!({ "completion": { "values": suggestions.values, "total": total, "hasMore": has_more } })
}
