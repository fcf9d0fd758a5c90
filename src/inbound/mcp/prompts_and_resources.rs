//! Prompts and resources; their lists are in `server_info`.
//!
//! - `prompts/get`, and `completion/complete`: values for an argument of a prompt or of a resource template.
//! - `resources/read`, `resources/subscribe` and `resources/unsubscribe`.
//!
//! Requests for prompts and resources of MCP upstreams are forwarded.

use std::collections::BTreeMap;

use rmcp::model::{ArgumentInfo, Reference};
use serde_json::{Map, Value, json};

use super::elicitation::RequestElicitor;
use super::response::raw_json;
use super::tools::CallSubscriber;
use super::{ErrorKind, RpcContext, RpcError, RpcRequest, RpcResult, truncated};
use crate::inbound::without_nulls;
use crate::model::{Arguments, kind_of, write_block};
use crate::pipeline::{
    Call, FetchError, ProxiedEntry, ProxiedKind, REQUEST_ID_META, Snapshot, TypedArgument, WatchError,
    elicit_first,
};
use crate::prompt::Prompt;
use crate::route::{McpMethod, Suggestions};
use crate::settings::EnumSetting as _;

/// `prompts/get`.
pub(super) async fn get_prompt(rpc: &RpcContext<'_>) -> RpcResult {
    let name = rpc.request.name()?;
    let arguments = rpc.request.arguments()?;
    rpc.check_name(&name)?;
    let is_complete = |snapshot: &Snapshot| {
        snapshot.prompts.contains_key(&*name)
            || snapshot.proxied.get(ProxiedKind::Prompt, &name).is_some()
            || snapshot.prompt_not_ready(&name).is_none()
    };
    let snapshot = rpc.dispatcher.gateway.complete_snapshot(is_complete).await;
    let Some(prompt) = snapshot.prompts.get(&*name) else {
        return match (snapshot.proxied.get(ProxiedKind::Prompt, &name), snapshot.prompt_not_ready(&name)) {
            (Some(prompt), _) => {
                rpc.may(&prompt.route.scopes)?;
                // The upstream checks which arguments are required.
                if let Some((name, value)) = arguments.iter().find(|(_, value)| !value.is_string()) {
                    let (name, found) = (truncated(name), kind_of(value));
                    let message = format!("argument `{name}` must be a string, found {found}");
                    return Err(ErrorKind::PROMPT_ARGUMENTS.error(message));
                }
                forward(rpc, &snapshot, prompt, McpMethod::GetPrompt, arguments).await
            }
            (None, Some(message)) => Err(ErrorKind::PROMPT_FAILED.error(message)),
            (None, None) => Err(ErrorKind::UNKNOWN_PROMPT.unknown(&name, "prompts/list")),
        };
    };
    rpc.may(&prompt.scopes)?;
    let mut elicitor = RequestElicitor::new(rpc, &prompt.input_requests, prompt.name.as_str(), &arguments)?;
    let checked = prompt.check(arguments).map_err(|message| ErrorKind::PROMPT_ARGUMENTS.error(message))?;
    let completed = elicit_first(&prompt.input_requests, checked, Some(&mut elicitor.round)).await;
    if let Some(input_required) = elicitor.end()? {
        return Ok(input_required);
    }
    let arguments = completed.map_err(|error| prompt_not_built(&error.message()))?;
    messages(rpc, &snapshot, prompt, &arguments).await
}

/// Forwards a request for a prompt or resource to its MCP upstream.
async fn forward(
    rpc: &RpcContext<'_>,
    snapshot: &Snapshot,
    entry: &ProxiedEntry,
    method: McpMethod,
    params: Map<String, Value>,
) -> RpcResult {
    let target = (method, entry.upstream_key.as_str());
    let members = Box::pin(snapshot.forward(entry, target, rpc.call(params))).await;
    let members = members.map_err(|error| fetch_error(method, error))?;
    Ok(rpc.forwarded(members, None))
}

/// Converts the error of a failed fetch to the JSON-RPC error of `prompts/get` or `completion/complete`.
fn fetch_error(method: McpMethod, error: FetchError) -> RpcError {
    match error {
        FetchError::Arguments(message) | FetchError::Missing(message) => {
            ErrorKind::PROMPT_ARGUMENTS.error(message)
        }
        FetchError::Failed(message) if method == McpMethod::GetPrompt => prompt_not_built(&message),
        FetchError::Failed(message) => ErrorKind::PROMPT_FAILED.error(message),
        FetchError::Unknown => ErrorKind::PROMPT_ARGUMENTS.error(error.to_string()),
    }
}

/// JSON-RPC error for a prompt whose messages can't be built, with the reason.
fn prompt_not_built(reason: &str) -> RpcError {
    ErrorKind::PROMPT_FAILED.error(format!("the prompt can't be built: {reason}"))
}

/// Builds the response to `prompts/get`, from checked arguments, after all input requests.
async fn messages(
    rpc: &RpcContext<'_>,
    snapshot: &Snapshot,
    prompt: &Prompt,
    arguments: &Arguments,
) -> RpcResult {
    let call = rpc.call(Map::new());
    let messages = snapshot.prompt(prompt, arguments, &call).await;
    let messages = messages.map_err(|error| fetch_error(McpMethod::GetPrompt, error))?;
    let messages = messages.into_iter().map(|mut message| {
        rpc.revision.adapt_content(&mut message.content);
        let mut block = Vec::new();
        write_block(&message.content, &mut block);
        json!({ "role": message.role.as_str(), "content": raw_json(block) })
    });
    let messages: Vec<Value> = messages.collect();
    Ok(rpc.result(&without_nulls(json!({ "description": prompt.description, "messages": messages }))))
}

/// Reads `params.context.arguments`: the arguments that the user has already filled in (since 2025-06-18).
fn context_arguments(request: &RpcRequest<'_>) -> Result<Map<String, Value>, RpcError> {
    let context: Option<Map<String, Value>> = request.params.context.optional_object("").ok();
    match context.map(|mut context| context.remove("arguments").unwrap_or_default()) {
        Some(Value::Null) => Ok(Map::new()),
        Some(Value::Object(arguments)) if arguments.values().all(Value::is_string) => Ok(arguments),
        _ => Err(ErrorKind::PARAMS.error("`params.context.arguments` must be an object of strings")),
    }
}

/// `completion/complete`.
pub(super) async fn complete(rpc: &RpcContext<'_>) -> RpcResult {
    let request = rpc.request;
    let reference: Reference = request.params.reference.required_object(
        "`params.ref` must be `{\"type\": \"ref/prompt\", \"name\": …}` or \
         `{\"type\": \"ref/resource\", \"uri\": …}`",
    )?;
    let message = "`params.argument` must be `{\"name\": …, \"value\": …}`, both strings";
    let argument: ArgumentInfo = request.params.argument.required_object(message)?;
    let others = context_arguments(request)?;
    let snapshot = rpc.dispatcher.gateway.snapshot();
    if let Some((entry, reference)) = proxied_entry(&snapshot, &reference) {
        rpc.may(&entry.route.scopes)?;
        // An upstream without `completions` gets no such request.
        if !entry.completes {
            return Ok(rpc.result(&completion(&Suggestions::default())));
        }
        let mut params = Map::new();
        params.insert("ref".to_owned(), reference);
        params.insert("argument".to_owned(), json!(argument));
        if !others.is_empty() {
            params.insert("context".to_owned(), json!({ "arguments": others }));
        }
        return forward(rpc, &snapshot, entry, McpMethod::Complete, params).await;
    }
    let typed = TypedArgument { argument: &argument.name, value: &argument.value, others };
    let suggestions = suggestions(&snapshot, rpc, &reference, typed).await?;
    Ok(rpc.result(&completion(&suggestions)))
}

/// The proxied prompt or resource template that a reference names, and the reference with the upstream's own
/// name. `None` if the configuration defines the prompt or template.
fn proxied_entry<'s>(snapshot: &'s Snapshot, reference: &Reference) -> Option<(&'s ProxiedEntry, Value)> {
    if let Some(name) = reference.as_prompt_name() {
        let is_own = snapshot.prompts.contains_key(name);
        let entry = snapshot.proxied.get(ProxiedKind::Prompt, name).filter(|_| !is_own)?;
        return Some((entry, json!(Reference::for_prompt(entry.upstream_key.as_str()))));
    }
    let uri = reference.as_resource_uri()?;
    let is_own = snapshot.configured_template(uri).is_some();
    // The reference is a URI template, or a URI that a template matches.
    let template = snapshot.proxied.get(ProxiedKind::Template, uri);
    let entry = template.or_else(|| snapshot.proxied.resource(uri)).filter(|_| !is_own)?;
    Some((entry, json!(reference)))
}

async fn suggestions(
    snapshot: &Snapshot,
    rpc: &RpcContext<'_>,
    reference: &Reference,
    typed: TypedArgument<'_>,
) -> Result<Suggestions, RpcError> {
    let call = rpc.call(Map::new());
    let name = typed.argument;
    let unknown_argument = |owner: &str| {
        ErrorKind::PROMPT_ARGUMENTS.error(format!("the {owner} has no argument `{}`", truncated(name)))
    };
    if let Some(prompt_name) = reference.as_prompt_name() {
        let unknown_prompt = || ErrorKind::UNKNOWN_PROMPT.unknown(prompt_name, "prompts/list");
        let prompt = snapshot.prompts.get(prompt_name).ok_or_else(unknown_prompt)?;
        rpc.may(&prompt.scopes)?;
        let argument = prompt.argument(name).ok_or_else(|| unknown_argument("prompt"))?;
        return match &argument.completion {
            Some(completion) => Ok(snapshot.complete(completion, typed, &call).await),
            None => Ok(Suggestions::default()),
        };
    }
    let uri = reference.as_resource_uri().unwrap_or_default();
    let unknown_template = || ErrorKind::UNKNOWN_TEMPLATE.unknown(uri, "resources/templates/list");
    let route = snapshot.configured_template(uri).ok_or_else(unknown_template)?;
    rpc.may(&route.scopes)?;
    snapshot.complete_uri(route, typed, &call).await.ok_or_else(|| unknown_argument("resource template"))
}

fn completion(suggestions: &Suggestions) -> Value {
    let (total, has_more) = (suggestions.total, suggestions.has_more());
    json!({ "completion": { "values": suggestions.values, "total": total, "hasMore": has_more } })
}

pub(super) fn uri_of(rpc: &RpcContext<'_>) -> Result<String, RpcError> {
    Ok(rpc.request.params.uri.required_text("params.uri")?.into_owned())
}

/// `resources/read`.
pub(super) async fn read_resource(rpc: &RpcContext<'_>) -> RpcResult {
    let uri = uri_of(rpc)?;
    rpc.check_name(&uri)?;
    let is_complete =
        |snapshot: &Snapshot| !snapshot.awaited.resources || snapshot.scopes_of_uri(&uri).is_some();
    let snapshot = rpc.dispatcher.gateway.complete_snapshot(is_complete).await;
    if let Some(needed) = snapshot.scopes_of_uri(&uri) {
        rpc.may(needed)?;
    }
    if let (None, Some(resource)) = (snapshot.table.by_uri(&uri), snapshot.proxied.resource(&uri)) {
        let target = (McpMethod::ReadResource, uri.as_str());
        let members = Box::pin(snapshot.forward(resource, target, rpc.call(Map::new()))).await;
        let members = members.map_err(|error| read_error(rpc, &uri, &error))?;
        return Ok(rpc.forwarded(members, Some(resource)));
    }
    let subscriber = CallSubscriber::new(rpc)?;
    let call = Call { subscriber: Some(&subscriber), ..rpc.call(Map::new()) };
    // The future is dropped with the client's connection, which cancels the upstream request.
    let read = snapshot.read(&uri, call).await.map_err(|error| read_error(rpc, &uri, &error))?;
    let scope = if read.is_public { rpc.cache_scope() } else { "private" };
    let members = BTreeMap::from([("contents", &read.contents)]);
    Ok(rpc.cacheable(&members, (read.ttl, scope)))
}

fn read_error(rpc: &RpcContext<'_>, uri: &str, error: &FetchError) -> RpcError {
    let (kind, data) = match error {
        FetchError::Unknown | FetchError::Missing(_) => (ErrorKind::UNKNOWN_RESOURCE, json!({ "uri": uri })),
        FetchError::Arguments(_) => (ErrorKind::RESOURCE_ARGUMENTS, json!({ "uri": uri })),
        FetchError::Failed(_) => {
            let request_id = rpc.message.context.info.request_id.as_str();
            (ErrorKind::RESOURCE_FAILED, json!({ "uri": uri, REQUEST_ID_META: request_id }))
        }
    };
    kind.error(error.to_string()).with_data(data)
}

/// `resources/subscribe`, in legacy revisions.
pub(super) async fn subscribe(rpc: &RpcContext<'_>) -> RpcResult {
    let (session, uri) = subscription(rpc)?;
    if let Some(needed) = rpc.dispatcher.gateway.snapshot().scopes_of_uri(&uri) {
        rpc.may(needed)?;
    }
    rpc.dispatcher.subscribe(session, &uri).await.map_err(|error| match error {
        WatchError::Unknown => {
            ErrorKind::UNKNOWN_RESOURCE.error(error.to_string()).with_data(json!({ "uri": uri }))
        }
        WatchError::Unwatched
        | WatchError::TooLong
        | WatchError::ServerLimit
        | WatchError::SessionLimit
        | WatchError::TooManySessions => ErrorKind::PARAMS.error(error.to_string()),
    })?;
    Ok(rpc.result(&json!({})))
}

/// `resources/unsubscribe`. Without a subscription, it does nothing.
pub(super) async fn unsubscribe(rpc: &RpcContext<'_>) -> RpcResult {
    let (session, uri) = subscription(rpc)?;
    rpc.dispatcher.unsubscribe(session, &uri).await;
    Ok(rpc.result(&json!({})))
}

fn subscription<'a>(rpc: &RpcContext<'a>) -> Result<(&'a str, String), RpcError> {
    let uri = uri_of(rpc)?;
    let session = rpc.message.session.as_ref().filter(|session| session.content.is_ok());
    let message = "a subscription needs a session, and this request names none that exists: send the \
                   `Mcp-Session-Id` that `initialize` returned";
    let session = session.ok_or_else(|| ErrorKind::PARAMS.error(message))?;
    Ok((&session.id, uri))
}
