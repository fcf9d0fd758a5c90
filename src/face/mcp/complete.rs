//! `completion/complete`: what an argument of a prompt or of a resource template may be.

use std::{borrow::Cow, sync::Arc};

use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::{
    answer::Answer,
    client::Client,
    message::Member,
    protocol::Protocol,
    refusal::{Refusal, Short},
};
use crate::{
    gateway::{Snapshot, Typed},
    route::{Route, Suggestions},
};

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
    let typed = Typed { argument: &argument, value: &value, others };
    let suggestions = suggestions(&snapshot, client, &reference, typed).await?;
    Ok(client.result(&completion(&suggestions)))
}

async fn suggestions(
    snapshot: &Snapshot,
    client: &Client<'_>,
    reference: &Reference<'_>,
    typed: Typed<'_>,
) -> Result<Suggestions, Refusal> {
    let call = |arguments| client.call(arguments);
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
            let of_template = |route: &&Arc<Route>| {
                route.resource.as_ref().is_some_and(|resource| resource.uri.as_str() == uri)
            };
            let table = &snapshot.table;
            let route = table.in_order().iter().find(of_template);
            let route = route.or_else(|| table.by_uri(uri).map(|(route, _)| route));
            let route = route.ok_or_else(|| Refusal::UnknownTemplate { uri: uri.clone().into_owned() })?;
            client.may(&route.scopes)?;
            snapshot.complete_uri(route, typed, &call).await.ok_or_else(|| unknown("resource template"))
        }
    }
}

fn completion(suggestions: &Suggestions) -> Value {
    let (total, has_more) = (suggestions.total, suggestions.has_more());
    json!({ "completion": { "values": suggestions.values, "total": total, "hasMore": has_more } })
}
