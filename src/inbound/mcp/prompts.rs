//! `prompts/get`, and `completion/complete`: values for an argument of a prompt or of a resource template.
//! Prompts of MCP upstreams are forwarded.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json, value::RawValue};

use super::{
    context::RpcContext,
    elicitation::RequestElicitor,
    message::RpcRequest,
    protocol::MessageDispatcher,
    response::{RpcResponse, raw_json},
    revision::Lifecycle,
    rpc_error::{RpcError, TruncatedText},
};
use crate::{
    model::{Arguments, kind_of, write_block},
    pipeline::{ForwardError, PromptError, ProxiedEntry, Snapshot, TypedArgument, elicit_first},
    prompt::Prompt,
    route::{McpMethod, Suggestions},
};

/// `prompts/get`.
pub(super) async fn get(
    dispatcher: &MessageDispatcher,
    rpc: &RpcContext<'_>,
) -> Result<RpcResponse, RpcError> {
    let name = rpc.request.name()?;
    let arguments = rpc.request.arguments()?;
    match rpc.revision.lifecycle() {
        Lifecycle::Handshake => {}
        Lifecycle::PerRequest => rpc.message_context.check_name(&name)?,
    }
    let is_complete = |snapshot: &Snapshot| {
        snapshot.prompts.contains_key(&*name)
            || snapshot.proxied.prompt(&name).is_some()
            || snapshot.prompt_not_ready(&name).is_none()
    };
    let snapshot = dispatcher.gateway.complete_snapshot(is_complete).await;
    let prompt = snapshot.prompts.get(&*name);
    let Some(prompt) = prompt else {
        return match (snapshot.proxied.prompt(&name), snapshot.prompt_not_ready(&name)) {
            (Some(prompt), _) => Box::pin(forward(rpc, &snapshot, prompt, arguments)).await,
            (None, Some(sentence)) => Err(RpcError::Failed(sentence.to_owned())),
            (None, None) => Err(RpcError::UnknownPrompt { prompt: name.into_owned() }),
        };
    };
    rpc.may(&prompt.scopes)?;
    let mut elicitor = RequestElicitor::new(rpc, &prompt.input_requests, prompt.name.as_str(), &arguments)?;
    let checked = prompt.check(arguments).map_err(|sentence| RpcError::Prompt(sentence.into()))?;
    let arguments_checked = elicit_first(&prompt.input_requests, checked, &mut elicitor).await;
    if let Some(input_required) = elicitor.end()? {
        return Ok(input_required);
    }
    let arguments = arguments_checked.map_err(|unanswered| PromptError::Failed(unanswered.message()))?;
    messages(rpc, &snapshot, prompt, &arguments).await
}

/// `prompts/get`, forwarded. The upstream checks which arguments are required.
async fn forward(
    rpc: &RpcContext<'_>,
    snapshot: &Snapshot,
    prompt: &ProxiedEntry,
    arguments: Map<String, Value>,
) -> Result<RpcResponse, RpcError> {
    rpc.may(&prompt.route.scopes)?;
    if let Some((name, value)) = arguments.iter().find(|(_, value)| !value.is_string()) {
        let name: String = name.chars().take(100).collect();
        let sentence = format!("argument `{name}` must be a string, found {}", kind_of(value));
        return Err(RpcError::Prompt(sentence.into()));
    }
    let to = (McpMethod::GetPrompt, prompt.upstream_key.as_str());
    match snapshot.forward(prompt, to, rpc.call(arguments)).await {
        Ok(members) => Ok(rpc.forwarded(&members, None)),
        Err(ForwardError::Arguments(text) | ForwardError::Unknown(text)) => {
            Err(RpcError::Prompt(text.into()))
        }
        Err(ForwardError::Failed(text)) => Err(PromptError::Failed(text).into()),
    }
}

/// The messages for checked arguments, after all input requests.
async fn messages(
    rpc: &RpcContext<'_>,
    snapshot: &Snapshot,
    prompt: &Prompt,
    arguments: &Arguments,
) -> Result<RpcResponse, RpcError> {
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
    let call = rpc.call(Map::new());
    let messages = snapshot.prompt(prompt, arguments, &call).await?;
    let messages = messages.into_iter().map(|mut message| {
        rpc.revision.adapt_content(&mut message.content);
        let mut block = Vec::new();
        write_block(&message.content, &mut block);
        PromptMessage { role: message.role.as_str(), content: raw_json(block) }
    });
    let description = prompt.description.as_deref();
    Ok(rpc.result(&PromptResult { description, messages: messages.collect() }))
}

/// The target of a completion.
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

/// `params.ref`.
fn reference<'a>(request: &RpcRequest<'a>) -> Result<Reference<'a>, RpcError> {
    const HELP: &str = "`params.ref` must be `{\"type\": \"ref/prompt\", \"name\": …}` or \
                        `{\"type\": \"ref/resource\", \"uri\": …}`";
    match request.param("ref").object("").ok().flatten() {
        Some(WrittenReference { kind, name: Some(name), .. }) if kind == "ref/prompt" => {
            Ok(Reference::Prompt(name))
        }
        Some(WrittenReference { kind, uri: Some(uri), .. }) if kind == "ref/resource" => {
            Ok(Reference::Resource(uri))
        }
        Some(_) | None => Err(RpcError::Params(HELP.into())),
    }
}

/// `params.context.arguments`: the arguments that are already filled in (since 2025-06-18).
fn context_arguments(request: &RpcRequest<'_>) -> Result<Map<String, Value>, RpcError> {
    match request.param("context").optional_object::<WrittenContext>("") {
        Ok(WrittenContext { arguments })
            if arguments.iter().flatten().all(|(_, value)| value.is_string()) =>
        {
            Ok(arguments.unwrap_or_default())
        }
        _ => Err(RpcError::Params("`params.context.arguments` must be an object of strings".into())),
    }
}

/// `completion/complete`.
pub(super) async fn complete(
    dispatcher: &MessageDispatcher,
    rpc: &RpcContext<'_>,
) -> Result<RpcResponse, RpcError> {
    let request = rpc.request;
    let reference = reference(request)?;
    let argument = request.param("argument").object("").ok().flatten();
    let WrittenArgument { name, value } = argument.ok_or_else(|| {
        RpcError::Params("`params.argument` must be `{\"name\": …, \"value\": …}`, both strings".into())
    })?;
    let typed = TypedArgument { argument: &name, value: &value, others: context_arguments(request)? };
    let snapshot = dispatcher.gateway.snapshot();
    if let Some((entry, reference)) = proxied_entry(&snapshot, &reference) {
        return Box::pin(forward_completion(rpc, &snapshot, entry, reference, typed)).await;
    }
    let suggestions = suggestions(&snapshot, rpc, &reference, typed).await?;
    Ok(rpc.result(&completion(&suggestions)))
}

/// The proxied prompt or resource template of a reference, and the reference in the upstream's terms. `None`
/// if the configuration has its own.
fn proxied_entry<'s>(snapshot: &'s Snapshot, reference: &Reference<'_>) -> Option<(&'s ProxiedEntry, Value)> {
    match reference {
        Reference::Prompt(name) => {
            let is_own = snapshot.prompts.contains_key(&**name);
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

/// `completion/complete`, forwarded; empty if the upstream does not declare `completions`.
async fn forward_completion(
    rpc: &RpcContext<'_>,
    snapshot: &Snapshot,
    entry: &ProxiedEntry,
    reference: Value,
    TypedArgument { argument, value, others }: TypedArgument<'_>,
) -> Result<RpcResponse, RpcError> {
    rpc.may(&entry.route.scopes)?;
    if !entry.completes {
        return Ok(rpc.result(&completion(&Suggestions::default())));
    }
    let mut params = Map::new();
    params.insert("ref".to_owned(), reference);
    params.insert("argument".to_owned(), json!({ "name": argument, "value": value }));
    if !others.is_empty() {
        params.insert("context".to_owned(), json!({ "arguments": others }));
    }
    let to = (McpMethod::Complete, entry.upstream_key.as_str());
    match snapshot.forward(entry, to, rpc.call(params)).await {
        Ok(members) => Ok(rpc.forwarded(&members, None)),
        Err(ForwardError::Arguments(text) | ForwardError::Unknown(text)) => {
            Err(RpcError::Prompt(text.into()))
        }
        Err(ForwardError::Failed(text)) => Err(RpcError::Failed(text)),
    }
}

async fn suggestions(
    snapshot: &Snapshot,
    rpc: &RpcContext<'_>,
    reference: &Reference<'_>,
    typed: TypedArgument<'_>,
) -> Result<Suggestions, RpcError> {
    let call = rpc.call(Map::new());
    let name = typed.argument;
    let unknown =
        |of: &str| RpcError::Prompt(format!("the {of} has no argument `{}`", TruncatedText(name)).into());
    match reference {
        Reference::Prompt(prompt) => {
            let found = snapshot.prompts.get(&**prompt);
            let found =
                found.ok_or_else(|| RpcError::UnknownPrompt { prompt: prompt.clone().into_owned() })?;
            rpc.may(&found.scopes)?;
            let argument = found.argument(name).ok_or_else(|| unknown("prompt"))?;
            match &argument.completion {
                Some(completion) => Ok(snapshot.complete(completion, typed, &call).await),
                None => Ok(Suggestions::default()),
            }
        }
        Reference::Resource(uri) => {
            let route = snapshot.own_template(uri);
            let route = route.ok_or_else(|| RpcError::UnknownTemplate { uri: uri.clone().into_owned() })?;
            rpc.may(&route.scopes)?;
            snapshot.complete_uri(route, typed, &call).await.ok_or_else(|| unknown("resource template"))
        }
    }
}

fn completion(suggestions: &Suggestions) -> Value {
    let (total, has_more) = (suggestions.total, suggestions.has_more());
    json!({ "completion": { "values": suggestions.values, "total": total, "hasMore": has_more } })
}
