//! Prompts and resources of MCP upstreams: results are written byte for byte into the response.

use std::{collections::BTreeMap, time::Duration};

use serde_json::{Map, Value, value::RawValue};

use super::{about::WithHints, client::Client, prompts::completion, refusal::Refusal, response::Answer};
use crate::{
    model::kind_of,
    pipeline::{ForwardError, Members, PromptError, Proxied, ReadError, Snapshot},
    route::{McpMethod, Suggestions},
};

/// `prompts/get`, forwarded. The upstream checks which arguments are required.
pub(super) async fn get(
    client: &Client<'_>,
    snapshot: &Snapshot,
    prompt: &Proxied,
    arguments: Map<String, Value>,
) -> Result<Answer, Refusal> {
    client.may(&prompt.route.scopes)?;
    if let Some((name, value)) = arguments.iter().find(|(_, value)| !value.is_string()) {
        let name: String = name.chars().take(100).collect();
        let sentence = format!("argument `{name}` must be a string, found {}", kind_of(value));
        return Err(Refusal::Prompt(sentence.into()));
    }
    let to = (McpMethod::GetPrompt, prompt.upstream_key.as_str());
    match snapshot.forward(prompt, to, client.call(arguments)).await {
        Ok(members) => Ok(answer(client, &members, None)),
        Err(ForwardError::Arguments(text) | ForwardError::Unknown(text)) => Err(Refusal::Prompt(text.into())),
        Err(ForwardError::Failed(text)) => Err(PromptError::Failed(text).into()),
    }
}

/// `resources/read`, forwarded. The caller has checked the client's scopes.
pub(super) async fn read(
    client: &Client<'_>,
    snapshot: &Snapshot,
    resource: &Proxied,
    uri: &str,
) -> Result<Answer, ReadError> {
    let to = (McpMethod::ReadResource, uri);
    match snapshot.forward(resource, to, client.call(Map::new())).await {
        Ok(members) => Ok(answer(client, &members, Some(resource))),
        Err(ForwardError::Unknown(text)) => Err(ReadError::Missing(text)),
        Err(ForwardError::Arguments(text) | ForwardError::Failed(text)) => Err(ReadError::Failed(text)),
    }
}

/// Parameters of `completion/complete`.
pub(super) struct Completion<'a> {
    pub(super) reference: Value,
    pub(super) argument: &'a str,
    pub(super) value: &'a str,
    pub(super) others: Map<String, Value>,
}

/// `completion/complete`, forwarded; empty if the upstream does not declare `completions`.
pub(super) async fn complete(
    client: &Client<'_>,
    snapshot: &Snapshot,
    entry: &Proxied,
    Completion { reference, argument, value, others }: Completion<'_>,
) -> Result<Answer, Refusal> {
    client.may(&entry.route.scopes)?;
    if !entry.completes {
        return Ok(client.result(&completion(&Suggestions::default())));
    }
    let mut params = Map::new();
    params.insert("ref".to_owned(), reference);
    params.insert("argument".to_owned(), serde_json::json!({ "name": argument, "value": value }));
    if !others.is_empty() {
        params.insert("context".to_owned(), serde_json::json!({ "arguments": others }));
    }
    let to = (McpMethod::Complete, entry.upstream_key.as_str());
    match snapshot.forward(entry, to, client.call(params)).await {
        Ok(members) => Ok(answer(client, &members, None)),
        Err(ForwardError::Arguments(text) | ForwardError::Unknown(text)) => Err(Refusal::Prompt(text.into())),
        Err(ForwardError::Failed(text)) => Err(Refusal::Failed(text)),
    }
}

/// Members of a result that concern the connection to the upstream.
const OF_THE_WAY: [&str; 4] = ["resultType", "ttlMs", "cacheScope", "_meta"];

/// A result with the upstream's members. The cache hints of a resource are the upstream's, or `ttlMs: 0`.
fn answer(client: &Client<'_>, members: &Members, may_be_kept: Option<&Proxied>) -> Answer {
    let of = |name: &str| members.get(name).map(|value| RawValue::get(value));
    let shown: BTreeMap<&str, &RawValue> = members
        .iter()
        .filter(|(name, _)| !OF_THE_WAY.contains(&name.as_str()))
        .map(|(name, value)| (name.as_str(), &**value))
        .collect();
    let hints = may_be_kept.and_then(|kept| {
        let lasts: u64 = of("ttlMs").and_then(|text| text.parse().ok()).unwrap_or(0);
        // Forwarded headers may decide the content.
        let is_private = kept.route.request.forwards_headers();
        let is_public = of("cacheScope") == Some("\"public\"") && !is_private;
        let scope = if is_public { client.cache_scope() } else { "private" };
        client.cache_hints(Duration::from_millis(lasts), scope)
    });
    let meta = of("_meta").and_then(|text| serde_json::from_str::<Map<String, Value>>(text).ok());
    let mut meta = meta.unwrap_or_default();
    meta.retain(|name, _| !name.starts_with("io.modelcontextprotocol/"));
    client.result_with(&WithHints { members: shown, hints }, meta)
}
